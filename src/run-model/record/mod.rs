//! The record of a run: its folder and its files.
//!
//! `folder.rs` makes and writes the run folder, `event_writer.rs` its `events.jsonl`. `model.rs` is
//! `run.json`, `brief.rs` the part that a list of runs shows. `files.rs` opens a run folder,
//! `archive.rs` a bundle; `thin.rs` skips most samples of an event stream.
//!
//! Not here: folding the events of a folder into a state, which is `replay`.

mod archive;
mod brief;
mod event_writer;
mod files;
mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod mesh;
mod model;
mod model_v1;
mod sums;
#[cfg(test)]
mod tests;
mod thin;

pub use archive::{Archive, ArchiveError, ENTRIES_MAX, is_name};
pub use brief::{BriefTransfer, RunBrief};
pub use files::{ADOPTED, DOCTOR, FilesError, RunFiles, Unfinished, open_regular};
pub use folder::{FolderError, RunFolder, Unwritten, WorkerFile, leave_interrupted, worker_file};
pub(crate) use folder::{is_full, next_step};
pub use mesh::{
    MeshAttribution, MeshCell, MeshFinding, MeshPair, MeshRecord, MissingNode, SlowDirection,
    attributed, cells, median_rate, node_groups, nothing_found, rail_names, rates, was_tried,
};
pub use model::{
    ChannelRecord, Clock, KvRecord, NodeRecord, PairRecord, RecordError, Role, RunRecord, SCHEMA,
    ScenarioRecord, TransferRecord, WorkerRecord, record_value,
};
pub use sums::{GpuSum, NicSum, NodeSum, PartRates, Sums};
pub use thin::{Samples, Thinned, thin};
