//! Counters over time, for stepping back in a view, live or from a run folder.
//!
//! Bounded: when a series is full, every second sample is dropped, and from then on only every
//! second new one is kept. So a series covers any duration, and its resolution halves each time
//! the duration doubles. The first and the newest sample are always kept.
#![forbid(unsafe_code)]

use super::ChannelNow;

/// Samples of a series: at 10 per second, more than ten minutes before the series is thinned.
pub const SAMPLES_MAX: usize = 8192;

/// Counters of one worker's channels at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Time of the sample by the node's clock, nanoseconds since 1970.
    pub at_ns: u64,
    /// Counters of each channel, sends first.
    pub channels: Vec<ChannelNow>,
}

/// One worker's samples, oldest first.
#[derive(Debug, Clone)]
pub struct Series {
    samples: Vec<Sample>,
    most: usize,
    /// One of this many samples is kept.
    every: usize,
    /// Samples pushed since the last one that was kept.
    passed: usize,
    /// The newest sample, if it is not in `samples`.
    newest: Option<Sample>,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(SAMPLES_MAX)
    }
}

impl Series {
    /// A series that keeps at most `most` samples, at least two.
    pub fn new(most: usize) -> Self {
        Self {
            samples: Vec::new(),
            most: most.max(2),
            every: 1,
            passed: 0,
            newest: None,
        }
    }

    /// Adds a sample; ignores a sample that is older than the newest.
    pub fn push(&mut self, sample: Sample) {
        if self.last().is_some_and(|last| last.at_ns > sample.at_ns) {
            return;
        }
        self.passed += 1;
        if self.passed < self.every {
            self.newest = Some(sample);
            return;
        }
        (self.passed, self.newest) = (0, None);
        if self.samples.len() == self.most {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.samples.push(sample);
    }

    /// Every sample, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().chain(&self.newest)
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples.len() + usize::from(self.newest.is_some())
    }

    /// Whether the series has no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.newest.is_none()
    }

    /// The newest sample.
    pub fn last(&self) -> Option<&Sample> {
        self.newest.as_ref().or(self.samples.last())
    }

    /// The newest sample that is not after `at_ns`.
    pub fn at(&self, at_ns: u64) -> Option<&Sample> {
        if let Some(newest) = self.newest.as_ref().filter(|newest| newest.at_ns <= at_ns) {
            return Some(newest);
        }
        let after = self.samples.partition_point(|sample| sample.at_ns <= at_ns);
        self.samples.get(after.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_words::side::Side;

    fn sample(at_ns: u64, bytes: u64) -> Sample {
        let channel = ChannelNow {
            side: Side::Recv,
            index: 0,
            bytes,
            ..ChannelNow::default()
        };
        Sample {
            at_ns,
            channels: vec![channel],
        }
    }

    #[test]
    fn a_full_series_is_thinned_and_keeps_first_and_newest() {
        let mut series = Series::new(8);
        (0..1000).for_each(|at| series.push(sample(at, at)));
        assert!(series.len() <= 9);
        assert_eq!(series.iter().next().map(|one| one.at_ns), Some(0));
        assert_eq!(series.last().map(|one| one.at_ns), Some(999));
        let times: Vec<u64> = series.iter().map(|one| one.at_ns).collect();
        assert!(
            times.is_sorted() && times.windows(2).all(|pair| pair[1] - pair[0] <= 256),
            "{times:?}"
        );
    }

    #[test]
    fn at_returns_the_newest_sample_that_is_not_later() {
        let mut series = Series::default();
        assert_eq!(series.at(5), None);
        for at in [10, 20, 30] {
            series.push(sample(at * 1_000_000_000, at * 500));
        }
        series.push(sample(5, 0));
        assert_eq!(series.at(9_999_999_999), None);
        assert_eq!(
            series.at(29_999_999_999).map(|one| one.at_ns),
            Some(20_000_000_000)
        );
        assert_eq!(
            series.at(u64::MAX).map(|one| one.at_ns),
            Some(30_000_000_000)
        );
    }
}
