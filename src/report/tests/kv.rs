//! Reports of KV-cache traffic: latencies of all directions together, in every format.

use super::fixture::gather;
use crate::compare::Measured;
use crate::{Language, html, markdown, prometheus, short};
use serde_json::{Value, json};
use std::time::Duration;
use tcpx_run_model::latencies::{Latencies, Times};
use tcpx_run_model::record::{RunFiles, RunRecord};
use tcpx_run_model::scenario::{Scenario, Traffic};

fn latencies(count: usize, ms: u64) -> Value {
    let mut times = Times::default();
    (0..count).for_each(|_| times.add(Duration::from_millis(ms)));
    serde_json::to_value(Latencies::from(&times)).expect("JSON")
}

/// Two directions: 99 requests of 10 ms, and one of 900 ms.
fn record() -> Value {
    let wrong = json!({"id": {"iteration": 1, "channel": 1, "chunk": 77}, "offset": 5,
        "wrong_bytes": 3, "expected": 16, "got": 1, "kind": "stale", "from": null});
    let transfer = |from: u32, count: usize, ms: u64| {
        let mismatches = if from == 1 { json!([wrong]) } else { json!([]) };
        json!({"pair": 0, "from": from, "to": 1 - from, "lane": "host", "bytes": 1 << 30,
            "measured_ms": null, "verified_bytes": 1 << 30, "wrong_bytes": 0, "seconds": 1.0,
            "gb_per_s": 1.07, "median_gb_per_s": 1.07, "iterations": 1, "mismatches": mismatches,
            "first_iteration_seconds": null, "iteration_seconds": [1.0], "round_trip_us": null,
            "channels": [], "kv": {
                "what": "llama-3.1-8b, 32 layers, pages of 16 tokens (64KiB)", "op": "pull",
                "requests_of": "requests of 1024 tokens in batches of 64 pages",
                "arrival": "closed loop of 4", "page_bytes": 65536, "batch": 64, "seed": 7,
                "goodput_gb_per_s": 0.95, "good_bytes": 950_000_000,
                "requests": latencies(count, ms), "batches": latencies(count * 32, ms / 5),
                "posts": latencies(count, 0), "preparations": latencies(count, 0)}})
    };
    let scenario = Scenario {
        traffic: Some(Traffic::default()),
        ..Scenario::default()
    };
    let worker = json!({"role": "both", "plugin": null, "env": {}, "warnings": [], "log_lines": null,
        "resident_bytes": null, "registered_bytes": null});
    let node = |name: &str| json!({"name": name, "host": name, "clock": null, "facts": null});
    json!({"schema": "tcpxctl.run/2", "id": "20261120T101500Z-kv", "outcome": "passed", "exit_code": 0,
        "started": "2026-11-20T10:15:00Z", "reason": null, "next_step": null, "findings": [],
        "unmet": [], "nodes": [node("local"), node("peer")],
        "scenario": {"name": "kv", "sha256": "ab", "resolved": scenario},
        "pairs": [{"nodes": [0, 1], "lanes": ["host"], "outcome": "passed",
            "workers": [worker, worker]}],
        "transfers": [transfer(0, 99, 10), transfer(1, 1, 900)]})
}

#[test]
fn every_format_has_requests_and_goodput() {
    let run = tempfile::tempdir().expect("a folder");
    std::fs::write(run.path().join("run.json"), record().to_string()).expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    let story = gather(&files);
    let check = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "no {part} in {text}");
        }
    };
    let page = html(&story, false, Language::English);
    check(
        &page,
        &[
            "KV-cache requests",
            "goodput 0.950 GB/s",
            "traffic.model",
            "page 77 of the cache byte 5 is 0x01, expected 0x10",
        ],
    );
    assert!(!page.contains("transfer.total"), "it has no meaning here");
    let text = markdown(&story, false, Language::English);
    // Merged: of the 100, 99 take 10 ms, so p99 is 10 ms and p99.9 the slow one; no average is.
    let row = text
        .lines()
        .find(|line| line.starts_with("| all | request"));
    let cells: Vec<&str> = row.expect("all").split(" | ").collect();
    let ms = |cell: usize| {
        cells[cell]
            .trim_end_matches(" |")
            .parse::<f64>()
            .expect("µs")
            / 1e3
    };
    assert_eq!(cells[2], "100");
    let near = |cell: usize, expected: f64| (ms(cell) - expected).abs() < 0.008 * expected;
    assert!(
        near(5, 10.0) && near(6, 900.0) && ms(7) == 900.0,
        "{cells:?}"
    );
    check(
        &short(&story, Language::English),
        &["requests of 1024 tokens", "99 requests, p50 10.0 ms"],
    );
    check(
        &prometheus(&story),
        &[
            "tcpxctl_run_kv_goodput_gigabytes_per_second{run=\"20261120T101500Z-kv\"",
            "direction=\"peer->local\",quantile=\"0.99\"} 0.899",
        ],
    );
    let measured = Measured::of_run(&story).expect("a result");
    let gates = |name: &str| measured.metrics[name].gates;
    // A quantile of one request is that request.
    assert!(gates("request p50 local->peer") && !gates("request p99 peer->local"));
    assert_eq!(measured.metrics["goodput local->peer"].samples, [0.95]);
    let parsed = RunRecord::parse(record().to_string().as_bytes()).expect("a record");
    let again = serde_json::to_value(&parsed).expect("JSON");
    assert_eq!(again["transfers"], record()["transfers"]);
}
