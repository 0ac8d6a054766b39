//! Reads the recorders of running processes, as events.
//!
//! `recorders.rs` polls the recorder files of this machine, `detail.rs` reads one channel in
//! detail, `past.rs` tells what a process that is gone did before, `sampling.rs` how long a running one is
//! looked at. Not here: keeping what was read; `state` does.
#![forbid(unsafe_code)]

mod detail;
mod past;
mod recorders;
mod sampling;

pub use past::TESTS_PER_NOTE;
pub use recorders::{
    FILES_MAX, FoundRecorder, RecorderFilter, RecorderId, Recorders, recorders_of, torn,
    why_unrecorded, without_room,
};
pub use sampling::sampled;
