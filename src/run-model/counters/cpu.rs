//! How much of a channel's standstill its process spent waiting for a CPU.
#![forbid(unsafe_code)]

use super::ChannelNow;
use std::time::{Duration, Instant};
use tcpx_node::{CpuWait, Root};
use tcpx_recorder::Identity;

/// Longest time between two looks, which read a small file per thread. Looks begin before a channel
/// is quiet: later, this process may have no CPU either.
const LOOKS_APART: Duration = Duration::from_secs(1);
/// The same while a channel is quiet.
const LOOKS_APART_QUIET: Duration = Duration::from_millis(500);
/// While requests are in flight, the last look is not older than this part of the standstill: the
/// time since then counts as one in which the process had a CPU.
const STANDSTILL_PARTS: u32 = 20;
/// A channel that has not changed for so long is quiet. The shortest limits of a stall are some
/// hundred milliseconds.
const QUIET: Duration = Duration::from_millis(200);

/// Watches one process, and completes the counters of its channels.
#[derive(Default)]
pub(crate) struct CpuWatch {
    meter: CpuWait,
}

impl CpuWatch {
    /// Sets `no_cpu_ms` of the channels that stand still. Of a process in a pid namespace that
    /// is not seen here, nothing is known; of one in a namespace below, not which thread is which.
    pub(crate) fn note<'a>(
        &mut self,
        writer: &Identity,
        channels: impl IntoIterator<Item = &'a mut ChannelNow>,
        now: Instant,
    ) {
        let channels: Vec<&mut ChannelNow> = channels.into_iter().collect();
        let apart = looks_apart(channels.iter().map(|one| &**one));
        let is_due = |looked: Instant| now.saturating_duration_since(looked) >= apart;
        if self.meter.looked().is_none_or(is_due)
            && let Some(pid) = writer.pid_here()
        {
            let drives = channels.iter().filter_map(|one| one.thread);
            let drivers: Vec<u32> = drives.filter(|_| pid == writer.pid).collect();
            self.meter.look_at(&Root::live(), pid, &drivers, now);
        }
        for channel in channels {
            let since = now.checked_sub(Duration::from_millis(channel.quiet_ms));
            let own = |(tid, since)| self.meter.of_thread_since(tid, since);
            let own = channel.thread.zip(since).and_then(own);
            channel.thread = channel.thread.filter(|_| own.is_some());
            let Some(since) = since.filter(|_| quiet(channel).is_some()) else {
                continue;
            };
            channel.turns = own.map_or(0, |own| own.turns);
            let waited = own.map_or_else(|| self.meter.since(since), |own| own.waited);
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            channel.no_cpu_ms = waited.min(channel.quiet_ms);
            let throttled = self.meter.throttled_share(channel.thread, since);
            channel.throttled_ms = (channel.quiet_ms as f64 * throttled.unwrap_or_default()) as u64;
        }
    }
}

/// For how long an open channel has not changed, if it is quiet.
fn quiet(one: &ChannelNow) -> Option<Duration> {
    let quiet = Duration::from_millis(one.quiet_ms);
    (!one.closed && quiet >= QUIET).then_some(quiet)
}

/// Time between two looks at a process with these channels.
fn looks_apart<'a>(channels: impl Iterator<Item = &'a ChannelNow> + Clone) -> Duration {
    let standing = channels.clone().filter(|one| one.posted > one.consumed);
    let standstill = standing.filter_map(quiet).min();
    let least = if channels.filter_map(quiet).next().is_some() {
        LOOKS_APART_QUIET
    } else {
        LOOKS_APART
    };
    standstill.map_or(least, |time| (time / STANDSTILL_PARTS).min(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_is_looked_at_often_enough_for_its_length() {
        let quiet = |posted, quiet_ms| ChannelNow {
            posted,
            quiet_ms,
            ..ChannelNow::default()
        };
        let apart = |channels: &[ChannelNow]| looks_apart(channels.iter()).as_millis();
        assert_eq!(apart(&[quiet(1, 100), quiet(0, 100)]), 1000);
        assert_eq!(apart(&[quiet(1, 100), quiet(0, 200)]), 500);
        assert_eq!(apart(&[quiet(1, 600), quiet(0, 200)]), 30);
        assert_eq!(apart(&[quiet(1, 60_000), quiet(0, 200)]), 500);
        let closed = ChannelNow {
            closed: true,
            ..quiet(1, 600)
        };
        assert_eq!(apart(&[closed]), 1000);
    }
}
