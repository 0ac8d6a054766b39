//! The record of a run: its counters, its folder and its files.
//!
//! `sample.rs` reads counters from a worker's recorder, `series.rs` keeps them over time.
//! `folder.rs` makes and writes the run folder, `event_writer.rs` its `events.jsonl`. `model.rs` is
//! `run.json`, `counters.rs` the numbers in it, `brief.rs` the part that a list of runs shows.
//! `frame.rs` is the freeze-frame of a stall. `files.rs` opens a run folder, `archive.rs` a
//! bundle; `replay.rs` folds the events of either, `thin.rs` skips most of their samples.
//! `live` reads the recorders of running processes for a view.

mod archive;
mod brief;
mod counters;
mod event_writer;
mod files;
mod folder;
mod frame;
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
