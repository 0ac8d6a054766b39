//! A run's figures in the Prometheus text format 0.0.4, for a textfile collector.
#![forbid(unsafe_code)]

use super::story::{Story, StoryTransfer};
use std::fmt::Write;
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::record::TransferRecord;
use tcpx_words::error::Outcome;

type Pick = fn(&TransferRecord) -> f64;

/// The gauges of one run. The name of each gauge ends in its unit.
pub(crate) fn prometheus(story: &Story) -> String {
    let mut text = String::new();
    let run = format!(
        "run=\"{}\",scenario=\"{}\"",
        value(&story.id),
        value(&story.scenario)
    );
    let outcome = story
        .outcome
        .map_or("unfinished".to_owned(), |outcome| outcome.to_string());
    let passed = f64::from(u8::from(story.is(Outcome::Passed)));
    let outcome = [(format!("{run},outcome=\"{outcome}\""), passed)];
    family(
        &mut text,
        "tcpxctl_run_passed",
        "1 if the run passed, otherwise 0.",
        &outcome,
    );
    let of_transfers = |pick: Pick| {
        let labelled = |one: &StoryTransfer| {
            (
                format!("{run},direction=\"{}\"", value(&one.direction)),
                pick(&one.record),
            )
        };
        story.transfers.iter().map(labelled).collect::<Vec<_>>()
    };
    let gauges: [(&str, &str, Pick); 5] = [
        (
            "tcpxctl_run_median_gigabytes_per_second",
            "Median rate of the measured iterations, in 10^9 bytes per second.",
            |one| one.median_gb_per_s,
        ),
        (
            "tcpxctl_run_gigabytes_per_second",
            "Rate over all measured iterations, in 10^9 bytes per second.",
            |one| one.gb_per_s,
        ),
        (
            "tcpxctl_run_verified_bytes",
            "Payload bytes compared with the expected pattern.",
            |one| one.verified_bytes as f64,
        ),
        (
            "tcpxctl_run_wrong_bytes",
            "Compared bytes that differed from the pattern, warm-up included.",
            |one| one.wrong_bytes as f64,
        ),
        (
            "tcpxctl_run_first_iteration_seconds",
            "Duration of the first iteration.",
            |one| one.first_iteration_seconds.unwrap_or(f64::NAN),
        ),
    ];
    for (name, help, pick) in gauges {
        family(&mut text, name, help, &of_transfers(pick));
    }
    family(
        &mut text,
        "tcpxctl_run_request_seconds",
        "Time from posted to done.",
        &latencies(story, &run),
    );
    let [goodput, requests] = kv(story, &run);
    family(
        &mut text,
        "tcpxctl_run_kv_goodput_gigabytes_per_second",
        "Bytes of the KV-cache requests that ended with every byte right, in 10^9 bytes per second.",
        &goodput,
    );
    family(
        &mut text,
        "tcpxctl_run_kv_request_seconds",
        "Time from the arrival of a KV-cache request until its last byte was in place.",
        &requests,
    );
    family(
        &mut text,
        "tcpxctl_run_finding_confidence",
        "Confidence of each finding, 0 to 1.",
        &confidences(story, &run),
    );
    text
}

/// The latency quantiles of each side of each worker, in seconds.
fn latencies(story: &Story, run: &str) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    for one in &story.latencies {
        let Some(us) = one.quantiles else { continue };
        let (node, side) = (value(&one.worker.name), one.side);
        samples.extend(quantiles(
            &format!("{run},node=\"{node}\",side=\"{side}\""),
            us,
        ));
    }
    samples
}

fn quantiles(labels: &str, us: LatencyUs) -> [(String, f64); 4] {
    let all = [
        ("0.5", us.p50),
        ("0.99", us.p99),
        ("0.999", us.p999),
        ("1", us.max),
    ];
    all.map(|(quantile, us)| (format!("{labels},quantile=\"{quantile}\""), us / 1e6))
}

/// Goodput of KV-cache traffic, and the latency quantiles of its requests in seconds.
fn kv(story: &Story, run: &str) -> [Vec<(String, f64)>; 2] {
    let (mut goodput, mut requests) = (Vec::new(), Vec::new());
    for (direction, kv) in story.kv_each() {
        let labels = format!("{run},direction=\"{}\"", value(direction));
        requests.extend(
            kv.times
                .requests
                .us
                .iter()
                .flat_map(|us| quantiles(&labels, *us)),
        );
        goodput.push((labels, kv.goodput_gb_per_s));
    }
    [goodput, requests]
}

/// The confidence of each finding.
fn confidences(story: &Story, run: &str) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    for (number, finding) in story.findings.iter().enumerate() {
        let condition = value(&finding.condition);
        let severity = finding.severity;
        let labels =
            format!("{run},condition=\"{condition}\",severity=\"{severity}\",number=\"{number}\"");
        samples.push((labels, finding.confidence));
    }
    samples
}

fn family(text: &mut String, name: &str, help: &str, samples: &[(String, f64)]) {
    if samples.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in samples {
        let shown = if value.is_nan() {
            "NaN".to_owned()
        } else {
            value.to_string()
        };
        let _ = writeln!(text, "{name}{{{labels}}} {shown}");
    }
}

fn value(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
