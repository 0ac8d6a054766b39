//! Detects that a pair makes no progress while it should move bytes.
//!
//! The agents detect a channel that stands still with requests in flight. This detects what they
//! cannot: a worker that was stopped between two requests, or that waits at a barrier for a
//! stopped one.
#![forbid(unsafe_code)]

use super::end::End;
use std::time::Duration;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::ids::Lane;
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::scenario::{Scenario, Traffic, Transfer};

/// Longest time between two samples of a worker with many channels.
const SAMPLES_APART: Duration = Duration::from_secs(1);
/// Lowest rate at which a sender writes its pattern between two iterations.
const FILL_BYTES_PER_SECOND: u64 = 256 << 20;

#[derive(Debug, Clone)]
pub(super) struct Standstill {
    patience: Duration,
    counted: [u64; 2],
    moved_at: Duration,
    declared: bool,
}

impl Standstill {
    /// Of a pair with these lanes.
    pub(super) fn new(scenario: &Scenario, lanes: &[Lane], now: Duration) -> Self {
        let channels = lanes.iter().map(|lane| scenario.connections_of(*lane));
        let channels = LaneChannels::new(channels).count() as u64;
        let patience = Duration::from(scenario.limits.stall_after)
            + SAMPLES_APART
            + match &scenario.traffic {
                Some(traffic) => kv_pauses(traffic, &scenario.transfer),
                None => filling(&scenario.transfer, channels),
            };
        Self {
            patience,
            counted: [0; 2],
            moved_at: now,
            declared: false,
        }
    }

    /// Records progress. Returns whether it ends a declared standstill.
    pub(super) fn moved(&mut self, now: Duration) -> bool {
        self.moved_at = now;
        std::mem::take(&mut self.declared)
    }

    /// Restarts the wait, because this process was stopped or starved of CPU.
    pub(super) fn overslept(&mut self, now: Duration) {
        self.moved_at = now;
    }

    /// Compares the counters of one end. Returns whether they end a declared standstill.
    pub(super) fn sample(&mut self, end: End, channels: &[ChannelNow], now: Duration) -> bool {
        let counted = channels
            .iter()
            .map(|channel| {
                channel
                    .posted
                    .wrapping_add(channel.done)
                    .wrapping_add(channel.consumed)
            })
            .fold(0, u64::wrapping_add);
        let before = std::mem::replace(&mut self.counted[end as usize], counted);
        before != counted && self.moved(now)
    }

    /// Whether a standstill begins now; called while both ends should move bytes.
    pub(super) fn begins(&mut self, now: Duration) -> bool {
        let begins = !self.declared && now.saturating_sub(self.moved_at) > self.patience;
        self.declared |= begins;
        begins
    }
}

fn filling(transfer: &Transfer, channels: u64) -> Duration {
    let bytes = channels * u64::from(transfer.send_window) * transfer.chunk.0;
    if transfer.verify {
        Duration::from_secs(bytes / FILL_BYTES_PER_SECOND)
    } else {
        Duration::ZERO
    }
}

/// What KV-cache traffic waits for by itself: the pattern of its cache, and the next arrival.
fn kv_pauses(traffic: &Traffic, transfer: &Transfer) -> Duration {
    let cache = match transfer.verify {
        true => Duration::from_secs(traffic.cache.0 / FILL_BYTES_PER_SECOND),
        false => Duration::ZERO,
    };
    let rate = traffic.rate.map(f64::from).filter(|rate| *rate > 0.0);
    let Some(rate) = rate else {
        return cache;
    };
    // The pauses of a Poisson process are exponential: of so many, none in a million runs is longer.
    let requests = f64::from(traffic.requests) * f64::from(transfer.warmup + transfer.iterations);
    let longest = (requests.max(1.0).ln() + 1e6f64.ln()) / rate;
    cache + Duration::try_from_secs_f64(longest).unwrap_or(Duration::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_begins_once_and_ends_with_the_next_change_of_either_end() {
        let start = Duration::ZERO;
        let at = |second| start + Duration::from_secs(second);
        let channel = |posted| {
            [ChannelNow {
                posted,
                ..ChannelNow::default()
            }]
        };
        // 3 s, 1 s between samples, and nothing to speak of for the pattern.
        let mut standstill = Standstill::new(&Scenario::default(), &[Lane::Host], start);
        assert!(!standstill.sample(End::First, &channel(5), at(1)));
        assert!(!standstill.sample(End::Second, &channel(5), at(2)));
        assert!(!standstill.sample(End::Second, &channel(5), at(6)) && !standstill.begins(at(6)));
        assert!(standstill.begins(at(7)) && !standstill.begins(at(8)));
        assert!(standstill.sample(End::First, &channel(6), at(9)));
        assert!(!standstill.moved(at(10)) && !standstill.begins(at(13)));
    }

    #[test]
    fn a_large_pattern_takes_its_time() {
        let mut transfer = Transfer::default();
        transfer.chunk.0 = 4 << 20;
        assert_eq!(filling(&transfer, 256), Duration::from_secs(48));
        transfer.verify = false;
        assert_eq!(filling(&transfer, 256), Duration::ZERO);
    }
    #[test]
    fn a_request_that_has_not_arrived_yet_is_no_standstill() {
        let (mut traffic, transfer) = (Traffic::default(), Transfer::default());
        assert_eq!(kv_pauses(&traffic, &transfer), Duration::from_secs(1));
        traffic.rate = Some(0.5.into());
        // 352 requests: ln 352 and ln of a million are 19.7, at one every two seconds.
        let pause = kv_pauses(&traffic, &transfer).as_secs_f64();
        assert!((40.0..41.0).contains(&pause), "{pause}");
        traffic.rate = Some(1e-6.into());
        assert!(kv_pauses(&traffic, &transfer) > Duration::from_secs(1_000_000));
    }
}
