//! How long a kind of work took in all, by the clock around one call in [`ONE_IN`].
//!
//! Reading the clock costs some 20 ns and no system call. A thread that loses its CPU during a measured
//! call makes that call a hundred times as long, so the median counts, over all channels of a worker.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};
use tcpx_recorder::Histogram;

/// Of this many calls, one is measured.
const ONE_IN: u64 = 16;

/// The time of one kind of work.
#[derive(Debug, Clone)]
pub struct Sampled {
    calls: u64,
    times: Histogram,
}

impl Default for Sampled {
    fn default() -> Self {
        Self {
            calls: 0,
            times: Histogram::empty(),
        }
    }
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
        self.times.note(started.elapsed().as_nanos() as u64);
        result
    }

    /// Adds the calls of another channel.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.times.add(&other.times);
    }

    /// The time of all calls, as if each had taken as long as the median of those that were
    /// measured.
    pub fn total(&self) -> Duration {
        let median = self.times.quantiles_ns([0.5]).map_or(0, |[median]| median);
        Duration::from_nanos(median.saturating_mul(self.calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 1_000_000;

    fn of(calls: u64, times: &[u64]) -> Sampled {
        let mut sampled = Sampled {
            calls,
            ..Sampled::default()
        };
        times.iter().for_each(|time| sampled.times.note(*time));
        sampled
    }

    fn is_about(sampled: &Sampled, expected: u64) -> bool {
        sampled.total().as_nanos().abs_diff(expected.into()) <= u128::from(expected / 16)
    }

    #[test]
    fn without_calls_there_is_no_time() {
        assert_eq!(Sampled::default().total(), Duration::ZERO);
    }

    #[test]
    fn every_call_counts_and_one_in_sixteen_is_measured() {
        let mut sampled = Sampled::default();
        for call in 0..4 * ONE_IN {
            assert_eq!(sampled.call(|| call), call);
        }
        assert_eq!((sampled.calls, sampled.times.count()), (4 * ONE_IN, 4));
    }

    #[test]
    fn calls_that_lost_their_cpu_do_not_count_as_long_as_they_took() {
        let mut all = of(16, &[LONG]);
        all.add(&of(16, &[100 * LONG]));
        all.add(&of(32, &[LONG, LONG]));
        assert!(is_about(&all, 64 * LONG), "{:?}", all.total());
    }
}
