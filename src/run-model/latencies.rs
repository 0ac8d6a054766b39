//! Times with their counts, so that those of several workers are merged and never averaged.
//!
//! A time shares its bucket with those within 1/128 of it: quantiles are wrong by less than 0.8 %.
//! The recorder's histograms are coarser, because they have a fixed size in shared memory.
#![forbid(unsafe_code)]

use crate::counters::LatencyUs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bits of a time that its bucket keeps.
const KEPT_BITS: u32 = 8;

/// Times by bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    counts: BTreeMap<u64, u64>,
    sum_ns: u64,
    max_ns: u64,
}

/// As [`Times`], in results and records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Number of times.
    pub count: u64,
    /// Arithmetic mean, microseconds.
    pub mean_us: f64,
    /// Quantiles; `None` without a time.
    pub us: Option<LatencyUs>,
    /// Sum of all, nanoseconds.
    pub sum_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    /// First nanosecond of each bucket, and its count.
    pub buckets: Vec<(u64, u64)>,
}

impl Times {
    /// Adds one time.
    pub fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *self.counts.entry(bucket(ns)).or_default() += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the times of another.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            let mine = self.counts.entry(*bucket).or_default();
            *mine = mine.saturating_add(*count);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of times. Saturates, because a record may hold any counts.
    pub fn count(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// The time in nanoseconds that `share` of all do not exceed, by nearest rank.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let total = self.count();
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0u64;
        for (first, count) in &self.counts {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return Some((first + width(*first) / 2).min(self.max_ns));
            }
        }
        None
    }
}

impl From<&Times> for Latencies {
    fn from(times: &Times) -> Self {
        let count = times.count();
        let us = |share| Some(times.quantile_ns(share)? as f64 / 1e3);
        let quantiles = || {
            Some(LatencyUs {
                p50: us(0.5)?,
                p99: us(0.99)?,
                p999: us(0.999)?,
                max: times.max_ns as f64 / 1e3,
            })
        };
        Self {
            count,
            mean_us: times.sum_ns as f64 / count.max(1) as f64 / 1e3,
            us: quantiles(),
            sum_ns: times.sum_ns,
            max_ns: times.max_ns,
            buckets: times
                .counts
                .iter()
                .map(|(at, count)| (*at, *count))
                .collect(),
        }
    }
}

impl From<&Latencies> for Times {
    fn from(latencies: &Latencies) -> Self {
        let mut counts = BTreeMap::new();
        for (at, count) in &latencies.buckets {
            let mine: &mut u64 = counts.entry(bucket(*at)).or_default();
            *mine = mine.saturating_add(*count);
        }
        Self {
            counts,
            sum_ns: latencies.sum_ns,
            max_ns: latencies.max_ns,
        }
    }
}

impl Latencies {
    /// The times of all of these together.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut times = Times::default();
        all.into_iter()
            .for_each(|one| times.merge(&Times::from(one)));
        Self::from(&times)
    }
}

/// Nanoseconds that share a bucket with `ns`.
fn width(ns: u64) -> u64 {
    1 << (u64::BITS - ns.leading_zeros()).saturating_sub(KEPT_BITS)
}

fn bucket(ns: u64) -> u64 {
    ns / width(ns) * width(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(all: &[u64]) -> Times {
        let mut times = Times::default();
        all.iter()
            .for_each(|ns| times.add(Duration::from_nanos(*ns)));
        times
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        assert_eq!(Times::default().quantile_ns(0.5), None);
        assert_eq!(Latencies::from(&Times::default()).us, None);
        let hundred = times(&(1..=100).collect::<Vec<_>>());
        let at = |share| hundred.quantile_ns(share);
        assert_eq!([at(0.0), at(0.5), at(0.99)], [Some(1), Some(50), Some(99)]);
        assert_eq!([at(0.999), at(1.0)], [Some(100), Some(100)]);
        let told = Latencies::from(&hundred);
        assert_eq!((told.count, told.mean_us), (100, 0.0505));
    }

    #[test]
    fn times_of_two_workers_are_merged_and_not_averaged() {
        // 99 fast ones at one worker, 1 slow one at the other: the p50 is the fast one's.
        let (fast, slow) = (times(&[1_000; 99]), times(&[9_000_000]));
        let both = Latencies::merged([&Latencies::from(&fast), &Latencies::from(&slow)]);
        let us = both.us.expect("times");
        assert!((us.p50 - 1.0).abs() < 0.01 && us.max == 9000.0, "{us:?}");
        assert_eq!((both.count, us.p999), (100, 9000.0));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_hundredth_of_the_exact_one(
            mut all in prop::collection::vec(1u64..1 << 40, 1..200),
            share in 0.0f64..=1.0,
        ) {
            let told = times(&all).quantile_ns(share).expect("a time") as f64;
            all.sort_unstable();
            let rank = ((share * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let exact = all[rank - 1] as f64;
            prop_assert!((told - exact).abs() <= exact * 0.008, "{told} {exact}");
        }

        #[test]
        fn times_survive_a_record(all in prop::collection::vec(any::<u64>(), 0..50)) {
            let times = times(&all.iter().map(|ns| ns >> 8).collect::<Vec<_>>());
            let json = serde_json::to_string(&Latencies::from(&times)).expect("JSON");
            let read: Latencies = serde_json::from_str(&json).expect("latencies");
            prop_assert_eq!(Times::from(&read), times);
        }
    }
}
