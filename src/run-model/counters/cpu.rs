//! How much of a channel's standstill its process spent waiting for a CPU.
#![forbid(unsafe_code)]

use super::ChannelNow;
use std::time::{Duration, Instant};
use tcpx_node::{CpuWait, Root};
use tcpx_recorder::Identity;

/// Time between two looks, which read a small file per thread. It begins before a channel is quiet:
/// later, this process may have no CPU either.
const LOOKS_APART: Duration = Duration::from_secs(1);
/// With a channel that is quiet for so long, a process is looked at twice as often.
const QUIET: Duration = Duration::from_secs(1);

/// Watches one process, and completes the counters of its channels.
#[derive(Default)]
pub(crate) struct CpuWatch {
    meter: CpuWait,
}

impl CpuWatch {
    /// Sets `no_cpu_ms` of the channels that stand still. Of a process in a pid namespace that
    /// is not seen here, nothing is known.
    pub(crate) fn note(&mut self, writer: &Identity, channels: &mut [ChannelNow], now: Instant) {
        let is_quiet =
            |one: &ChannelNow| !one.closed && Duration::from_millis(one.quiet_ms) >= QUIET;
        let is_any_quiet = channels.iter().any(is_quiet);
        let apart = if is_any_quiet {
            LOOKS_APART / 2
        } else {
            LOOKS_APART
        };
        let is_due = |looked: Instant| now.saturating_duration_since(looked) >= apart;
        if self.meter.looked().is_none_or(is_due)
            && let Some(pid) = writer.pid_here()
        {
            self.meter.look(&Root::live(), pid, now);
        }
        for channel in channels.iter_mut().filter(|one| is_quiet(one)) {
            let since = now.checked_sub(Duration::from_millis(channel.quiet_ms));
            let waited = since.map_or(Duration::ZERO, |since| self.meter.since(since));
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            channel.no_cpu_ms = waited.min(channel.quiet_ms);
        }
    }
}
