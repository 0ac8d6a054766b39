//! Better, worse or noise: the statistical rule of a comparison.
#![forbid(unsafe_code)]

use super::measured::{Better, Measured, Metric, setting};
use serde::Serialize;
use std::collections::BTreeSet;
use tcpx_node::redact::Redactor;

/// The rule in words, for `--help` and reports.
pub const RULE: &str = "Samples are the measured iterations (for latencies: the channels). A metric is better or worse when \
its medians differ by more than the tolerance AND a two-sided Mann-Whitney U test (normal approximation, corrected for ties and \
continuity) gives p < 0.05. With fewer than 4 samples on either side, as in a profile or another tool's one figure, the \
tolerance alone decides, and no p is shown. Everything else is noise. Iterations of one run are not independent: repeat runs \
before you trust a small difference.";

/// A difference counts below this p value.
const P_MAX: f64 = 0.05;
/// With fewer samples on either side the test cannot reach [`P_MAX`].
const SAMPLES_MIN: usize = 4;

/// How a metric compares with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricVerdict {
    /// Better by more than the tolerance and chance.
    Better,
    /// Worse by more than the tolerance and chance.
    Worse,
    /// Within the tolerance or chance.
    Noise,
}

impl MetricVerdict {
    /// The verdict as a word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Noise => "noise",
        }
    }
}

/// Results compared with the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The reference first.
    pub results: Vec<Measured>,
    /// Settings that differ: the name, and the value in each result.
    pub settings: Vec<(String, Vec<Option<String>>)>,
    /// The metrics that the reference shares with another result.
    pub rows: Vec<MetricComparison>,
    /// Relative tolerance: 0.05 is 5 %.
    pub tolerance: f64,
}

/// One metric of one result, compared with the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Name of the metric.
    pub metric: String,
    /// Unit of the quartiles.
    pub unit: String,
    /// Index of the result in [`Comparison::results`].
    pub result: usize,
    /// Median, first and third quartile of the reference.
    pub reference: [f64; 3],
    /// Median, first and third quartile of the result.
    pub other: [f64; 3],
    /// Relative change of the median; `None` if the reference is 0.
    pub change: Option<f64>,
    /// p value of the test; `None` with too few samples.
    pub p: Option<f64>,
    /// The result of [`RULE`].
    pub verdict: MetricVerdict,
    /// Whether `Worse` fails the comparison.
    pub gates: bool,
}

impl Comparison {
    /// The comparison with names, addresses and secrets replaced. A setting that differs stays
    /// listed even if both values become the same replacement.
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

    /// Gating metrics that got worse.
    pub fn regressions(&self) -> impl Iterator<Item = &MetricComparison> {
        self.rows
            .iter()
            .filter(|row| row.gates && row.verdict == MetricVerdict::Worse)
    }
}

/// Compares every result with the first. `tolerance` is relative: 0.05 is 5 %.
pub fn compare(results: Vec<Measured>, tolerance: f64) -> Comparison {
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
    Comparison {
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
) -> Option<MetricComparison> {
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
        (false, _) => MetricVerdict::Noise,
        (true, true) => MetricVerdict::Better,
        (true, false) => MetricVerdict::Worse,
    };
    let gates = reference.gates && other.gates;
    Some(MetricComparison {
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

/// Settings that differ among results of the reference's tool. Other tools use other names for
/// their settings, so they are not compared.
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

/// Median, first and third quartile, with linear interpolation.
pub(crate) fn quartiles(samples: &[f64]) -> Option<[f64; 3]> {
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

/// The two-sided p value that both samples come from one distribution.
pub(crate) fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
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
        // Equal values share the mean of their ranks.
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

/// erfc by Abramowitz and Stegun 7.1.26, with an error of at most 1.5e-7.
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
