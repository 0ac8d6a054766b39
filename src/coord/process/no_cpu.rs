//! How long a worker was kept from working because it, or the process that reads its messages,
//! waited for a CPU.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};
use tcpx_node::{CpuWait, Root};

/// Measures one worker and this process, which is its parent.
#[derive(Debug, Default)]
pub(crate) struct NoCpu {
    worker: CpuWait,
    parent: CpuWait,
}

impl NoCpu {
    /// Looks if the last look was `apart` ago. Returns how long the one that waited longer did so
    /// between the two looks.
    pub(crate) fn since_last_look(&mut self, pid: u32, now: Instant, apart: Duration) -> Duration {
        let looked = self.worker.looked();
        if looked.is_some_and(|looked| now.saturating_duration_since(looked) < apart) {
            return Duration::ZERO;
        }
        let root = Root::live();
        self.worker.look(&root, pid, now);
        self.parent.look(&root, std::process::id(), now);
        looked.map_or(Duration::ZERO, |looked| {
            self.worker.since(looked).max(self.parent.since(looked))
        })
    }
}
