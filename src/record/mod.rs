//! The record of a run: counters sampled while it goes, and what is kept after.
//!
//! `sample.rs` looks into a worker's recorder from outside; `folder.rs` makes the
//! run folder and writes into it; `model.rs` is `run.json`.

mod folder;
mod model;
pub mod sample;

pub use folder::{FolderError, RunFolder};
pub use model::{
    ChannelRecord, Finding, LatencyUs, NodeRecord, PluginRecord, RunRecord, SCHEMA, ScenarioRecord, TransferRecord,
    chunks,
};
