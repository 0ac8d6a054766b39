//! When to log that nothing has moved: first after a threshold, then at a fixed interval, as
//! TCPX 3.1.9 does for its slowness lines.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// The two intervals, `TIMEOUT_THRESHOLD_NS` and `TIMEOUT_FREQUENCY_NS`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Time before the first report.
    pub first: Duration,
    /// Time between reports.
    pub again: Duration,
}

/// Polls since something last moved.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Stall {
    polls: u64,
    since: Option<Instant>,
    reported: Option<Instant>,
}

/// The numbers of a slowness line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slow {
    /// Polls since the stall began.
    pub polls: u64,
    /// Time since then.
    pub elapsed: Duration,
}

impl Stall {
    /// Records progress.
    pub(crate) fn moved(&mut self) {
        if self.polls != 0 {
            *self = Self::default();
        }
    }

    /// Records a poll without progress at `now`. `Some` if it is time for a report.
    pub(crate) fn idle(&mut self, now: Instant, patience: Patience) -> Option<Slow> {
        self.polls += 1;
        let since = *self.since.get_or_insert(now);
        let due = match self.reported {
            None => since + patience.first,
            Some(reported) => reported + patience.again,
        };
        if now < due {
            return None;
        }
        self.reported = Some(now);
        Some(Slow {
            polls: self.polls,
            elapsed: now - since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_at_the_threshold_then_at_the_interval_until_something_moves() {
        let patience = Patience {
            first: Duration::from_secs(10),
            again: Duration::from_secs(30),
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stall = Stall::default();
        assert_eq!(stall.idle(at(0), patience), None);
        assert_eq!(stall.idle(at(9), patience), None);
        assert_eq!(
            stall.idle(at(10), patience),
            Some(Slow {
                polls: 3,
                elapsed: Duration::from_secs(10)
            })
        );
        assert_eq!(stall.idle(at(39), patience), None);
        assert_eq!(
            stall.idle(at(40), patience),
            Some(Slow {
                polls: 5,
                elapsed: Duration::from_secs(40)
            })
        );
        stall.moved();
        assert_eq!(stall.idle(at(45), patience), None);
        assert_eq!(stall.idle(at(54), patience), None);
    }
}
