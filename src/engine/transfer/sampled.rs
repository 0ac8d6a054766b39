//! How long a kind of work took in all, by the clock around one call in [`ONE_IN`].
//!
//! Reading the clock costs some 20 ns and no system call. A thread that loses its CPU during a
//! measured call would make that call a hundred times as long, so calls that took much longer than
//! the shortest one are not used.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Of this many calls, one is measured.
const ONE_IN: u64 = 16;
/// A call that took this many times as long as the shortest one lost its CPU.
const LONGEST: u32 = 8;

/// The time of one kind of work.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampled {
    calls: u64,
    measured: u32,
    took: Duration,
    shortest: Option<Duration>,
}

impl Sampled {
    /// Does `work`, and maybe measures it.
    pub(super) fn call<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let call = self.calls;
        self.calls += 1;
        if !call.is_multiple_of(ONE_IN) {
            return work();
        }
        let started = Instant::now();
        let result = work();
        self.note(started.elapsed());
        result
    }

    #[cold]
    fn note(&mut self, took: Duration) {
        let shortest = self.shortest.map_or(took, |shortest| shortest.min(took));
        self.shortest = Some(shortest);
        if took <= shortest * LONGEST {
            self.took += took;
            self.measured += 1;
        }
    }

    /// The time of all calls, as if each had taken as long as those that were measured.
    pub(super) fn total(&self) -> Duration {
        match self.measured {
            0 => Duration::ZERO,
            measured => {
                (self.took / measured).saturating_mul(u32::try_from(self.calls).unwrap_or(u32::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn without_calls_there_is_no_time() {
        assert_eq!(Sampled::default().total(), Duration::ZERO);
    }

    #[test]
    fn every_call_counts_as_long_as_the_measured_ones() {
        let mut sampled = Sampled::default();
        for call in 0..4 * ONE_IN {
            assert_eq!(sampled.call(|| call), call);
        }
        assert_eq!((sampled.calls, sampled.measured > 0), (4 * ONE_IN, true));
        let mut known = Sampled {
            calls: 40,
            ..Sampled::default()
        };
        known.note(LONG);
        known.note(3 * LONG);
        assert_eq!(known.total(), 80 * LONG);
    }

    #[test]
    fn a_call_that_lost_its_cpu_is_not_used() {
        let mut sampled = Sampled {
            calls: 2,
            ..Sampled::default()
        };
        sampled.note(LONG);
        sampled.note(100 * LONG);
        assert_eq!(sampled.total(), 2 * LONG);
    }
}
