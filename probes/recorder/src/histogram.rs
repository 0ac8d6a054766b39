//! Latency histograms as read from the file: bucket counts, the exact maximum, and quantiles
//! with a documented error bound.
#![forbid(unsafe_code)]

use crate::format::{BUCKETS, bucket_of, bucket_range};

/// Posted-to-done times of one channel, or of several added together.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    max_ns: u64,
}

impl Histogram {
    /// A histogram without samples.
    pub fn empty() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            max_ns: 0,
        }
    }

    /// Counts in the order of `format::bucket_of`, and the exact maximum in nanoseconds.
    pub fn new(counts: [u64; BUCKETS], max_ns: u64) -> Self {
        Self {
            counts: Box::new(counts),
            max_ns,
        }
    }

    /// Number of samples. Saturates, because a damaged file may contain any counts.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0u64, |sum, count| sum.saturating_add(*count))
    }

    /// The longest time in nanoseconds, exact; `None` without a sample.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// For each share (0 to 1, ascending), the time in nanoseconds that this share of
    /// all samples does not exceed, by nearest rank. `None` if there is no sample, or
    /// if the shares are out of range or not ascending.
    ///
    /// The error is at most half a bucket: 1/16 of the value between 64 ns and 68 s,
    /// and 32 ns below 64 ns. Above 68 s the result is the maximum.
    pub fn quantiles_ns<const N: usize>(&self, shares: [f64; N]) -> Option<[u64; N]> {
        let total = self.count();
        if total == 0
            || !shares.iter().all(|share| (0.0..=1.0).contains(share))
            || !shares.is_sorted()
        {
            return None;
        }
        let mut values = [self.max_ns; N];
        let (mut seen, mut next) = (0u64, 0);
        for (bucket, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            seen = seen.saturating_add(*count);
            while next < N && seen >= ((shares[next] * total as f64).ceil() as u64).clamp(1, total)
            {
                let (first, end) = bucket_range(bucket);
                let middle = if end == u64::MAX {
                    u64::MAX
                } else {
                    first + (end - first) / 2
                };
                values[next] = middle.min(self.max_ns);
                next += 1;
            }
            if next == N {
                break;
            }
        }
        Some(values)
    }

    /// Adds a sample.
    #[inline]
    pub fn note(&mut self, ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(ns)) {
            *count += 1;
        }
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another channel's samples.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The non-empty buckets: first nanosecond, first nanosecond after the bucket, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| {
                let (first, end) = bucket_range(bucket);
                (first, end, *count)
            })
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("max_ns", &self.max_ns)
            .field("buckets", &Buckets(self))
            .finish()
    }
}

struct Buckets<'a>(&'a Histogram);

impl std::fmt::Debug for Buckets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.buckets()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bucket_of;
    use proptest::prelude::*;

    /// The error that `quantiles_ns` promises, as a share of the value.
    const QUANTILE_ERROR: f64 = 1.0 / 16.0;

    fn quantile_ns(histogram: &Histogram, share: f64) -> Option<u64> {
        histogram.quantiles_ns([share]).map(|[value]| value)
    }

    fn recorded(samples: &[u64]) -> Histogram {
        let mut counts = [0; BUCKETS];
        for ns in samples {
            counts[bucket_of(*ns)] += 1;
        }
        Histogram::new(counts, samples.iter().copied().max().unwrap_or(0))
    }

    fn exact(sorted: &[u64], q: f64) -> u64 {
        let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
        sorted[rank - 1]
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_error_bound(
            // Every octave equally likely, from below the first bucket to above the last.
            samples in prop::collection::vec((0u32..40).prop_flat_map(|bits| 0..(1u64 << bits).max(1) * 2), 1..400),
            q in 0.0..=1.0f64,
        ) {
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let told = quantile_ns(&recorded(&samples), q).unwrap();
            let truth = exact(&sorted, q);
            let bound = match truth {
                0..64 => 32,
                _ if truth >= 1 << 36 => sorted[sorted.len() - 1] - truth,
                _ => (truth as f64 * QUANTILE_ERROR).ceil() as u64,
            };
            prop_assert!(told.abs_diff(truth) <= bound, "q {q}: told {told}, truth {truth}, bound {bound}");
        }

        #[test]
        fn any_counts_and_any_share_are_handled(
            counts in prop::collection::vec(any::<u64>(), BUCKETS), max in any::<u64>(), q in any::<f64>(),
        ) {
            let mut histogram = Histogram::new(counts.try_into().unwrap(), max);
            let copy = histogram.clone();
            histogram.add(&copy);
            if let Some(told) = quantile_ns(&histogram, q) {
                prop_assert!(told <= max);
            }
        }
    }

    #[test]
    fn the_maximum_is_exact_and_is_the_last_quantile() {
        let histogram = recorded(&[100, 5_000, 1_234_567]);
        assert_eq!(histogram.max_ns(), Some(1_234_567));
        assert!(quantile_ns(&histogram, 1.0).unwrap() <= 1_234_567);
    }

    #[test]
    fn nothing_recorded_has_no_quantile() {
        assert_eq!(quantile_ns(&Histogram::empty(), 0.5), None);
        assert_eq!(Histogram::empty().max_ns(), None);
    }

    #[test]
    fn channels_add_up() {
        let mut both = recorded(&[100, 100]);
        both.add(&recorded(&[9_000]));
        assert_eq!((both.count(), both.max_ns()), (3, Some(9_000)));
    }

    #[test]
    fn quantiles_of_one_pass_are_those_of_many() {
        let mut counts = [0; BUCKETS];
        (3..40).for_each(|bucket| counts[bucket] = bucket as u64 % 7);
        let histogram = Histogram::new(counts, 1 << 40);
        let shares = [0.0, 0.5, 0.99, 0.999, 1.0];
        let each = shares.map(|share| quantile_ns(&histogram, share).unwrap());
        assert_eq!(histogram.quantiles_ns(shares), Some(each));
        assert!(each.is_sorted() && each[0] < each[4]);
        assert_eq!(
            (
                histogram.quantiles_ns([0.9, 0.1]),
                histogram.quantiles_ns([2.0])
            ),
            (None, None)
        );
        assert_eq!(Histogram::empty().quantiles_ns([0.5]), None);
    }
}
