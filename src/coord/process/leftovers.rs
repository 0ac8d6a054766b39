//! Recorder files of workers that were killed together with what would have removed them.
#![forbid(unsafe_code)]

use std::path::Path;
use tcpx_recorder::{SHARED_MEMORY, sweep};

/// Removes them, before this process starts workers of its own.
pub(crate) fn sweep_recorders() {
    for parent in [Path::new(SHARED_MEMORY), &std::env::temp_dir()] {
        // A missing folder has no files to remove, and another user's is not ours.
        let _ = sweep(parent);
    }
}
