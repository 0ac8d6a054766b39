//! Detects that channels of one worker stand still, from its counters.
#![forbid(unsafe_code)]

use crate::protocol::limits::OVERSLEPT;
use std::time::{Duration, Instant};
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::timeline::stands_still;
use tcpx_words::side::Side;

/// Declares a stall once per standstill: for `after`, a channel has had requests in flight of
/// which none changed state, or the same call has not returned.
pub(super) struct StallWatch {
    after: Duration,
    declared: bool,
    inside: Vec<Inside>,
    /// Start of the samples without a gap, and time of the last sample.
    awake: Option<(Instant, Instant)>,
}

/// A channel that was inside a call, and when it was first seen there.
#[derive(PartialEq)]
struct Inside {
    channel: (Side, usize),
    /// Counts of returned calls, which tell one call from the next.
    calls: [u64; 4],
    since: Instant,
}

pub(super) enum StallChange {
    Quiet,
    Stalled(Vec<ChannelNow>),
    Recovered,
}

impl StallWatch {
    pub(super) fn new(after: Duration) -> Self {
        Self {
            after,
            declared: false,
            inside: Vec::new(),
            awake: None,
        }
    }

    pub(super) fn look(&mut self, channels: &[ChannelNow], now: Instant) -> StallChange {
        self.note_calls(channels, now);
        let (since, last) = self.awake.unwrap_or((now, now));
        let since = if now.duration_since(last) > OVERSLEPT {
            now
        } else {
            since
        };
        self.awake = Some((since, now));
        let after_ms = u64::try_from(self.after.as_millis()).unwrap_or(u64::MAX);
        let quiet = |channel: &ChannelNow| stands_still(channel, after_ms);
        let inside = |one: &Inside| now.duration_since(one.since) >= self.after;
        let stuck = channels.iter().any(quiet) || self.inside.iter().any(inside);
        match (stuck, self.declared) {
            // After a gap in the samples, the whole machine may have been asleep.
            (true, false) if now.duration_since(since) < self.after => StallChange::Quiet,
            (true, false) => {
                self.declared = true;
                StallChange::Stalled(channels.to_vec())
            }
            (false, true) => {
                self.declared = false;
                StallChange::Recovered
            }
            _ => StallChange::Quiet,
        }
    }

    fn note_calls(&mut self, channels: &[ChannelNow], now: Instant) {
        let before = std::mem::take(&mut self.inside);
        let inside = channels
            .iter()
            .filter(|channel| channel.in_call.is_some())
            .map(|channel| {
                let name = (channel.side, channel.index);
                let calls = [
                    channel.posted,
                    channel.tests,
                    channel.done,
                    channel.consumed,
                ];
                let same = before
                    .iter()
                    .find(|one| one.channel == name && one.calls == calls);
                Inside {
                    since: same.map_or(now, |one| one.since),
                    channel: name,
                    calls,
                }
            });
        self.inside = inside.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(3);

    fn channel(posted: u64, consumed: u64, quiet_ms: u64) -> ChannelNow {
        ChannelNow {
            posted,
            consumed,
            quiet_ms,
            ..ChannelNow::default()
        }
    }

    fn letter(verdict: &StallChange) -> char {
        match verdict {
            StallChange::Quiet => '.',
            StallChange::Stalled(_) => 'S',
            StallChange::Recovered => 'R',
        }
    }

    #[test]
    fn a_standstill_is_declared_once_and_ends_once() {
        let (mut watch, now) = awake();
        let looks = [
            (16, 0, 2999),
            (16, 0, 3000),
            (16, 0, 3100),
            (17, 1, 0),
            (17, 17, 9000),
            (20, 17, 3001),
        ];
        let verdicts = looks.map(|(posted, consumed, quiet_ms)| {
            letter(&watch.look(
                &[channel(1, 1, 9999), channel(posted, consumed, quiet_ms)],
                now,
            ))
        });
        assert_eq!(String::from_iter(verdicts), ".S.R.S");
    }

    /// A watch that has looked for long enough to judge.
    fn awake() -> (StallWatch, Instant) {
        let (mut watch, start) = (StallWatch::new(AFTER), Instant::now());
        let seconds = |second| start + Duration::from_secs(second);
        (0..=3).for_each(|second| drop(watch.look(&[], seconds(second))));
        (watch, seconds(3))
    }

    #[test]
    fn after_a_gap_the_watch_needs_the_whole_time_again() {
        let (mut watch, now) = awake();
        let at = |second| now + Duration::from_secs(second);
        let verdicts = [60, 61, 62, 63]
            .map(|second| letter(&watch.look(&[channel(16, 0, 1000 * second)], at(second))));
        assert_eq!(String::from_iter(verdicts), "...S");
    }

    #[test]
    fn a_call_that_does_not_return_is_a_standstill_with_nothing_in_flight() {
        let (mut watch, now) = awake();
        let inside = |tests| ChannelNow {
            in_call: Some("irecv".into()),
            tests,
            ..channel(0, 0, 9000)
        };
        let verdicts = [(0, 5), (1, 5), (2, 6), (4, 6), (5, 6), (6, 7)].map(|(second, tests)| {
            letter(&watch.look(&[inside(tests)], now + Duration::from_secs(second)))
        });
        assert_eq!(String::from_iter(verdicts), "....SR");
    }
}
