//! Whether pairs of runs show a difference: Wilcoxon's signed-rank test, exact.
//!
//! A machine's speed changes within minutes, so a run is compared only with the one beside it. The
//! test needs no assumption on how the rates are spread, and an outlier counts as one rank.
#![forbid(unsafe_code)]

use super::TOLERANCE;

/// Risk that any sentence of a search is wrong.
const RISK: f64 = 0.01;

/// Pairs of runs of two settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Paired {
    /// The rate of the first over that of the second, per pair.
    ratios: Vec<f64>,
    rates: Vec<(f64, f64)>,
    risk: f64,
}

impl Paired {
    /// No pairs. `sentences` share the risk of a false one.
    pub(super) fn new(sentences: usize) -> Self {
        Self {
            ratios: Vec::new(),
            rates: Vec::new(),
            risk: RISK / sentences.max(1) as f64,
        }
    }

    pub(super) fn add(&mut self, ours: f64, theirs: f64) {
        self.ratios.push(ours / theirs);
        self.rates.push((ours, theirs));
    }

    /// Number of pairs.
    pub(crate) fn count(&self) -> usize {
        self.ratios.len()
    }

    /// Median of the ratios; 1 without pairs.
    pub(crate) fn ratio(&self) -> f64 {
        median(&self.ratios).unwrap_or(1.0)
    }

    /// Medians of both rates, 10^9 bytes per second.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let (ours, theirs): (Vec<f64>, Vec<f64>) = self.rates.iter().copied().unzip();
        (
            median(&ours).unwrap_or_default(),
            median(&theirs).unwrap_or_default(),
        )
    }

    /// The two-sided p value that there is no difference.
    pub(crate) fn p(&self) -> f64 {
        signed_rank_p(&self.ratios)
    }

    /// Whether the difference is not chance.
    pub(crate) fn is_real(&self) -> bool {
        self.p() < self.risk
    }

    /// Whether the first is really faster, by more than the tolerance.
    pub(crate) fn is_gain(&self) -> bool {
        self.is_real() && self.ratio() > 1.0 + TOLERANCE
    }

    /// Whether the first is really slower, by more than the tolerance.
    pub(super) fn is_loss(&self) -> bool {
        self.is_real() && self.ratio() < 1.0 - TOLERANCE
    }

    /// Whether there are no pairs to judge by.
    pub(super) fn is_unknown(&self) -> bool {
        self.ratios.is_empty()
    }
}

/// The median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

/// The exact two-sided p value of the signed-rank test, that ratios are as often above 1 as below
/// it. Ratios of exactly 1 are left out; equal ones share the mean of their ranks.
fn signed_rank_p(ratios: &[f64]) -> f64 {
    let mut logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    logs.retain(|log| log.is_finite() && *log != 0.0);
    logs.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    // Twice the ranks, which are whole numbers also where they are shared.
    let mut ranks = vec![0; logs.len()];
    let mut from = 0;
    while from < logs.len() {
        let same = logs[from..]
            .iter()
            .take_while(|log| log.abs() == logs[from].abs())
            .count();
        ranks[from..from + same].fill(2 * from + same + 1);
        from += same;
    }
    let all: usize = ranks.iter().sum();
    let above: usize = ranks
        .iter()
        .zip(&logs)
        .filter(|(_, log)| **log > 0.0)
        .map(|(rank, _)| *rank)
        .sum();
    // ways[sum]: the number of sign patterns whose positive ranks have this sum.
    let mut ways = vec![0.0; all + 1];
    ways[0] = 1.0;
    for rank in ranks {
        for sum in (rank..=all).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let extreme = above.min(all - above);
    let tail: f64 = ways[..=extreme].iter().sum();
    (2.0 * tail / ways.iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_are_those_of_the_tables() {
        let of = |ratios: &[f64]| signed_rank_p(ratios);
        assert_eq!(of(&[]), 1.0);
        assert_eq!(of(&[1.0, 1.0]), 1.0);
        // All five above: 2 of 32 patterns.
        assert_eq!(of(&[1.1, 1.2, 1.3, 1.4, 1.5]), 2.0 / 32.0);
        // The critical value for n = 8 and p = 0.05 is 3: ranks 1 and 2 below.
        let eight = [0.99, 0.98, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6];
        assert!((of(&eight) - 10.0 / 256.0).abs() < 1e-12, "{}", of(&eight));
        assert_eq!(of(&[1.1, 1.0 / 1.1]), 1.0);
        assert_eq!(of(&[f64::NAN, f64::INFINITY]), 1.0);
    }

    #[test]
    fn a_median_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_gain_is_real_and_above_the_tolerance() {
        let pairs = |ratio: f64, count| {
            let mut paired = Paired::new(1);
            (0..count).for_each(|n| paired.add(ratio + 0.001 * f64::from(n), 1.0));
            paired
        };
        assert!(pairs(1.1, 8).is_gain());
        assert!(!pairs(1.1, 7).is_gain(), "too few");
        assert!(!pairs(1.005, 15).is_gain(), "too small");
        assert!(pairs(1.005, 15).is_real());
        assert!(pairs(0.9, 8).is_loss());
    }
}
