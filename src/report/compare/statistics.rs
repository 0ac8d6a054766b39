//! Better, worse, or noise: one rule, stated where it is used.
#![forbid(unsafe_code)]

use super::measured::{Better, Measured, Metric, setting};
use serde::Serialize;
use std::collections::BTreeSet;
use tcpx_node::redact::Redactor;

/// The rule in words, for `--help`, reports and the book.
pub const RULE: &str = "Samples are the measured iterations (for latencies: the channels). A metric is better or worse when \
its medians differ by more than the tolerance AND a two-sided Mann-Whitney U test (normal approximation, corrected for ties and \
continuity) gives p < 0.05. With fewer than 4 samples on either side, as in a profile or another tool's one figure, the \
tolerance alone decides, and no p is shown. Everything else is noise. Iterations of one run are not independent: repeat runs \
before you trust a small difference.";

/// A difference is taken for one below this probability of chance.
const P_MAX: f64 = 0.05;
/// With fewer samples the test cannot reach it.
const SAMPLES_MIN: usize = 4;

/// What became of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Beyond the tolerance and beyond chance.
    Better,
    /// As `Better`, the other way.
    Worse,
    /// Neither.
    Noise,
}

impl Verdict {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Noise => "noise",
        }
    }
}

/// Results held against the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The reference first.
    pub results: Vec<Measured>,
    /// Settings that are not the same: the name, and each result's value.
    pub settings: Vec<(String, Vec<Option<String>>)>,
    /// Metrics that the reference and another result have.
    pub rows: Vec<Row>,
    /// Relative.
    pub tolerance: f64,
}

/// One metric of one result beside the reference's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub metric: String,
    /// Of the figures.
    pub unit: String,
    /// Index of the other result.
    pub result: usize,
    /// Of the reference: median, first and third quartile.
    pub reference: [f64; 3],
    /// Of the other.
    pub other: [f64; 3],
    /// The median's relative change; none from zero.
    pub change: Option<f64>,
    /// Of the test, where there were samples for one.
    pub p: Option<f64>,
    /// By [`RULE`].
    pub verdict: Verdict,
    /// Worse would fail the comparison.
    pub gates: bool,
}

impl Compared {
    /// Without what may not leave the machine. What differed still does, though two
    /// secrets have one stand-in.
    #[must_use]
    pub fn redacted(self, redactor: &mut Redactor) -> Self {
        let settings = self.settings.into_iter().map(|(name, values)| {
            let values = values
                .into_iter()
                .map(|value| Some(setting(redactor, &name, &value?).1))
                .collect();
            (redactor.redact(&name), values)
        });
        let settings = settings.collect();
        let results = self
            .results
            .into_iter()
            .map(|one| one.redacted(redactor))
            .collect();
        Self {
            results,
            settings,
            ..self
        }
    }

    /// Metrics that got worse and matter.
    pub fn regressions(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| row.gates && row.verdict == Verdict::Worse)
    }
}

/// Holds every result against the first; `tolerance` is relative, 0.05 for 5 %.
pub fn compare(results: Vec<Measured>, tolerance: f64) -> Compared {
    let mut rows = Vec::new();
    if let Some((reference, others)) = results.split_first() {
        for (name, metric) in &reference.metrics {
            for (index, other) in others.iter().enumerate() {
                let row = other
                    .metrics
                    .get(name)
                    .and_then(|other| row(name, metric, other, index + 1, tolerance));
                rows.extend(row);
            }
        }
    }
    let settings = settings(&results);
    Compared {
        results,
        settings,
        rows,
        tolerance,
    }
}

fn row(
    name: &str,
    reference: &Metric,
    other: &Metric,
    result: usize,
    tolerance: f64,
) -> Option<Row> {
    let (before, after) = (quartiles(&reference.samples)?, quartiles(&other.samples)?);
    let change = (before[0] != 0.0).then(|| after[0] / before[0] - 1.0);
    let beyond = change.map_or(after[0] != before[0], |change| change.abs() > tolerance);
    let tested = reference.samples.len().min(other.samples.len()) >= SAMPLES_MIN;
    let p = tested.then(|| mann_whitney_p(&reference.samples, &other.samples));
    let grew = after[0] > before[0];
    let verdict = match (
        beyond && p.is_none_or(|p| p < P_MAX),
        grew == (reference.better == Better::Higher),
    ) {
        (false, _) => Verdict::Noise,
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    };
    let gates = reference.gates && other.gates;
    Some(Row {
        metric: name.to_owned(),
        unit: reference.unit.clone(),
        result,
        reference: before,
        other: after,
        change,
        p,
        verdict,
        gates,
    })
}

/// What is not the same among results of the reference's tool; others call nothing
/// by the same names.
fn settings(results: &[Measured]) -> Vec<(String, Vec<Option<String>>)> {
    let Some(reference) = results.first() else {
        return Vec::new();
    };
    let same: Vec<&Measured> = results
        .iter()
        .filter(|one| one.tool == reference.tool)
        .collect();
    let names: BTreeSet<&String> = same.iter().flat_map(|one| one.settings.keys()).collect();
    let differs = |name: &&String| {
        same.iter()
            .any(|one| one.settings.get(*name) != reference.settings.get(*name))
    };
    let values = |name: &String| {
        results
            .iter()
            .map(|one| one.settings.get(name).cloned())
            .collect()
    };
    names
        .into_iter()
        .filter(differs)
        .map(|name| (name.clone(), values(name)))
        .collect()
}

/// Median, first and third quartile, between neighbours by share.
pub(super) fn quartiles(samples: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let (low, rest) = (place.floor() as usize, place.fract());
        sorted[low] + (sorted[(low + 1).min(last)] - sorted[low]) * rest
    };
    Some([at(0.5), at(0.25), at(0.75)])
}

/// Two-sided p that both are of one distribution.
pub(super) fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = a
        .iter()
        .map(|value| (*value, true))
        .chain(b.iter().map(|value| (*value, false)))
        .collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut ranks_of_a, mut ties, mut from) = (0.0, 0.0, 0);
    while from < all.len() {
        let same = all[from..]
            .iter()
            .take_while(|one| one.0 == all[from].0)
            .count();
        // Those that are equal share the mean of their ranks.
        let rank = from as f64 + (same as f64 + 1.0) / 2.0;
        ranks_of_a += rank * all[from..from + same].iter().filter(|one| one.1).count() as f64;
        ties += (same as f64).powi(3) - same as f64;
        from += same;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let sum = n + m;
    let u = ranks_of_a - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * (sum + 1.0 - ties / (sum * (sum - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    complementary_error(z / std::f64::consts::SQRT_2)
}

/// erfc, by Abramowitz and Stegun 7.1.26: off by 1.5e-7 at most.
fn complementary_error(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = [
        0.254_829_592,
        -0.284_496_736,
        1.421_413_741,
        -1.453_152_027,
        1.061_405_429,
    ];
    sum.iter()
        .rev()
        .fold(0.0, |value, factor| (value + factor) * t)
        * (-x * x).exp()
}
