//! The results of programs with their own window, and of UCCL's and NIXL's benchmarks, from the
//! lines of their logs, which `tcpxctl logs` reads the same way.
//!
//! A rate that the log itself contradicts is no metric: an iteration whose posts or tests failed
//! did not move the bytes that the program counts.
#![forbid(unsafe_code)]

use super::measured::{Better, Measured, Metric};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use tcpx_logs::{HarnessResult, HarnessRole, LogFilter, LogReader, SignatureCatalogue};
use tcpx_words::units::ByteCount;

/// Reads a log; `name` is its file's name, which may have the role and the GPU.
pub(super) fn read(name: &str, text: &str) -> Option<Measured> {
    static CATALOGUE: LazyLock<Option<SignatureCatalogue>> =
        LazyLock::new(|| SignatureCatalogue::embedded().ok());
    let filter = LogFilter::default();
    let mut reader = LogReader::new(CATALOGUE.as_ref()?, &filter);
    reader.stream(name, text.as_bytes());
    Some(of_results(&reader.report().harness?.results))
}

/// The metrics of such results.
pub(crate) fn of_results(results: &[HarnessResult]) -> Measured {
    let (right, wrong): (Vec<_>, Vec<_>) = results.iter().partition(|one| one.wrong.is_none());
    let mut measured = Measured {
        tool: "harness".to_owned(),
        ..Measured::default()
    };
    let ends: BTreeSet<End> = right.iter().map(|one| (one.role, one.gpu)).collect();
    for end in &ends {
        let suffix = if ends.len() > 1 {
            suffix(*end)
        } else {
            String::new()
        };
        let of_end: Vec<&HarnessResult> = right
            .iter()
            .copied()
            .filter(|one| (one.role, one.gpu) == *end)
            .collect();
        add(&mut measured, &of_end, &suffix);
    }
    if !wrong.is_empty() {
        measured
            .settings
            .insert("contradicted results".to_owned(), wrong.len().to_string());
    }
    if let [(role, gpu)] = ends.iter().collect::<Vec<_>>()[..] {
        let role = role.map(|role| ("role".to_owned(), role.name().to_owned()));
        let gpu = gpu.map(|gpu| ("gpu".to_owned(), gpu.to_string()));
        measured.settings.extend(role.into_iter().chain(gpu));
    }
    measured
}

/// Which end of which GPU.
type End = (Option<HarnessRole>, Option<u32>);

fn suffix((role, gpu): End) -> String {
    let role = role.map_or_else(String::new, |role| format!(" {}", role.name()));
    let gpu = gpu.map_or_else(String::new, |gpu| format!(" gpu {gpu}"));
    role + &gpu
}

/// Adds the rates of one end: by size, if it has several.
fn add(measured: &mut Measured, results: &[&HarnessResult], suffix: &str) {
    let mut by_size = BTreeMap::<Option<u64>, (Vec<f64>, Vec<f64>)>::new();
    for one in results {
        let (rates, first) = by_size.entry(one.bytes).or_default();
        let samples = &one.samples_gb_per_s;
        // The first iteration includes connecting.
        let later = if samples.len() > 1 {
            &samples[1..]
        } else {
            &samples[..]
        };
        rates.extend_from_slice(later);
        first.extend(
            one.first_ms
                .map(|ms| ms * 1e3)
                .filter(|_| samples.len() > 1),
        );
    }
    let several = by_size.len() > 1;
    for (bytes, (rates, first)) in by_size {
        let at = bytes
            .filter(|_| several)
            .map_or_else(String::new, |bytes| format!(" at {}", ByteCount(bytes)));
        measured.metric(format!("rate{at}{suffix}"), Metric::rate(rates));
        let first = Metric {
            unit: "µs".into(),
            better: Better::Lower,
            gates: false,
            samples: first,
        };
        measured.metric(format!("first iteration{at}{suffix}"), first);
    }
}
