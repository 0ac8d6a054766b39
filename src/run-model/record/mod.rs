//! The record of a run: counters sampled while it goes, and what is kept after.
//!
//! `sample.rs` looks into a worker's recorder from outside, `series.rs` keeps what
//! it saw over time; `folder.rs` makes the
//! run folder and writes into it; `model.rs` is `run.json`, `counters.rs` the
//! numbers in it, `brief.rs` as much of it as a list of runs shows. `frame.rs` is everything around a worker at the moment of a
//! stall. `files.rs` opens what is there, `archive.rs` the same in a bundle;
//! `thin.rs` reads an event stream without most of its samples. `live` is what a
//! view is told.

mod archive;
mod brief;
mod counters;
mod files;
mod folder;
mod frame;
mod lines;
pub mod live;
mod model;
mod model_v1;
mod replay;
pub mod sample;
mod series;
#[cfg(test)]
mod tests;
mod thin;

pub use archive::{Archive, ArchiveError};
pub use brief::{BriefTransfer, RunBrief};
pub use counters::{ChannelNow, Iteration, LatencyUs};
pub use files::{DOCTOR, FilesError, RunFiles, Unfinished};
pub use folder::{FolderError, RunFolder, WorkerFile, worker_file};
pub use frame::Frame;
pub use model::{
    ChannelRecord, Clock, NodeRecord, PairRecord, PluginRecord, RecordError, Role, RunRecord,
    SCHEMA, ScenarioRecord, TransferRecord, WorkerRecord, record_value,
};
pub use replay::{EVENT_BYTES_MAX, RECORD_BYTES_MAX, for_each_event};
pub use series::{SAMPLES_MAX, Sample, Series};
pub use thin::{Samples, Thinned, thin};
