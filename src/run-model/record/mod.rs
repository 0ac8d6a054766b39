//! The record of a run: counters sampled while it goes, and what is kept after.
//!
//! `sample.rs` looks into a worker's recorder from outside, `series.rs` keeps what
//! it saw over time; `folder.rs` makes the
//! run folder and writes into it; `model.rs` is `run.json`, `counters.rs` the
//! numbers in it. `frame.rs` is everything around a worker at the moment of a
//! stall. `files.rs` opens what is there, `archive.rs` the same in a bundle;
//! `thin.rs` reads an event stream without most of its samples. `live` is what a
//! view is told.

mod archive;
mod counters;
mod files;
mod folder;
mod frame;
mod lines;
pub mod live;
mod model;
pub mod sample;
mod series;
mod thin;

pub use archive::{Archive, ArchiveError};
pub use counters::{ChannelNow, Iteration, LatencyUs};
pub use files::{DOCTOR, FilesError, RunFiles, Unfinished};
pub use folder::{FolderError, RunFolder, frame_path, recorder_path};
pub use frame::Frame;
pub use model::{
    ChannelRecord, Clock, Finding, NodeRecord, PluginRecord, RunRecord, SCHEMA, ScenarioRecord, TransferRecord,
};
pub use series::{SAMPLES_MAX, Sample, Series};
pub use thin::{Samples, Thinned, thin};
