//! Recorder files of workers that were killed together with what would have removed them.
#![forbid(unsafe_code)]

use std::path::Path;
use tcpx_recorder::{SHARED_MEMORY, sweep};
use tcpx_run_model::counters::sample::Sampler;

/// Removes them, before this process starts workers of its own.
pub(crate) fn sweep_recorders() {
    for parent in [Path::new(SHARED_MEMORY), &std::env::temp_dir()] {
        // A missing folder has no files to remove, and another user's is not ours.
        let _ = sweep(parent);
    }
}

/// Removes the recorder of a worker that has ended. A worker may be killed after it has created the
/// file and before it has named it; that file is found by its writer.
pub(crate) fn remove_recorder(named: Option<Sampler>) {
    match named {
        Some(recorder) => recorder.remove(),
        None => sweep_recorders(),
    }
}
