//! When an agent was last heard, and the offset of its node's clock.
//!
//! Times are values: since the command started, and microseconds since 1970.
#![forbid(unsafe_code)]

use crate::protocol::limits::SILENCE_MAX;
use std::time::Duration;
use tcpx_run_model::record::Clock;

/// Liveness and clock of one agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    heard: Duration,
    /// The best measurement of its node's clock so far.
    pub(super) clock: Option<Clock>,
}

impl Pulse {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            heard: now,
            clock: None,
        }
    }

    /// Records that a message arrived.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// Takes the answer to a heartbeat; the one with the shortest round trip sets the clock.
    pub(super) fn echoed(&mut self, sent_us: u64, node_us: u64, now_us: u64) {
        let Some(round_trip_us) = now_us.checked_sub(sent_us) else {
            return;
        };
        if self
            .clock
            .is_none_or(|clock| round_trip_us < clock.round_trip_us)
        {
            let middle = sent_us + round_trip_us / 2;
            let offset_us = node_us.cast_signed().saturating_sub(middle.cast_signed());
            self.clock = Some(Clock {
                offset_us,
                round_trip_us,
            });
        }
    }

    /// Converts a time of the node's clock to this machine's, microseconds since 1970.
    pub(super) fn by_our_clock(&self, node_us: u64) -> u64 {
        node_us.saturating_sub_signed(self.clock.map_or(0, |clock| clock.offset_us))
    }

    /// Time since its last message.
    pub(super) fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard)
    }

    /// Whether it has been silent for too long.
    pub(super) fn is_lost(&self, now: Duration) -> bool {
        self.silence(now) > SILENCE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_with_the_shortest_round_trip_sets_the_clock() {
        let mut pulse = Pulse::new(Duration::ZERO);
        let now_us = 1_000_000_000;
        pulse.echoed(now_us - 9_000_000, now_us + 5_000_000, now_us);
        assert_eq!(
            pulse.clock.map(|clock| clock.round_trip_us),
            Some(9_000_000)
        );
        pulse.echoed(now_us - 1000, now_us + 7_000_000, now_us);
        let quick = pulse.clock;
        assert_eq!(
            quick,
            Some(Clock {
                offset_us: 7_000_500,
                round_trip_us: 1000
            })
        );
        pulse.echoed(now_us - 9_000_000, 0, now_us);
        pulse.echoed(now_us + 1, 0, now_us);
        assert_eq!(pulse.clock, quick);
        assert_eq!(pulse.by_our_clock(now_us + 7_000_500), now_us);
    }

    #[test]
    fn silence_counts_from_the_last_message() {
        let mut pulse = Pulse::new(Duration::from_secs(1));
        pulse.heard(Duration::from_secs(5));
        assert!(!pulse.is_lost(Duration::from_secs(5) + SILENCE_MAX));
        assert!(pulse.is_lost(Duration::from_millis(5001) + SILENCE_MAX));
        assert_eq!(pulse.silence(Duration::from_secs(4)), Duration::ZERO);
    }
}
