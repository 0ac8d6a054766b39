//! Reports of meshes: a matrix per rail, the parts at fault, and what compare and history take.

use super::fixture::gather;
use crate::compare::Measured;
use crate::{Language, html, json, markdown, redacted, short};
use serde_json::{Value, json};
use tcpx_node::redact::Redactor;
use tcpx_run_model::record::{RunFiles, RunRecord};

/// All pairs of these nodes over two rails; node 3 is at half of the rate, and the pair of nodes 0
/// and 1 failed.
fn record(nodes: usize) -> Value {
    let worker = json!({"role": "both", "plugin": null, "env": {}, "warnings": [], "log_lines": null,
        "resident_bytes": null, "registered_bytes": null});
    let (mut pairs, mut transfers) = (Vec::new(), Vec::new());
    for (first, second) in
        (0..nodes).flat_map(|one| (one + 1..nodes).map(move |other| (one, other)))
    {
        for rail in 0..2 {
            let id = pairs.len();
            let failed = (first, second) == (0, 1);
            let outcome = if failed { "stalled" } else { "passed" };
            pairs.push(json!({"nodes": [first, second], "lanes": ["host"], "outcome": outcome, "round": 0,
                "rail": {"number": rail, "nics": [format!("eth{}", rail + 1), format!("eth{}", rail + 1)]},
                "workers": [worker, worker]}));
            for (from, to) in [(first, second), (second, first)]
                .into_iter()
                .filter(|_| !failed)
            {
                let share = if [from, to].contains(&3) { 0.5 } else { 1.0 };
                let rate = 20.0 * share * (1.0 + ((from * 7 + to * 3 + rail) % 5) as f64 / 250.0);
                transfers.push(
                    json!({"pair": id, "from": from, "to": to, "lane": "host", "bytes": 1000,
                    "measured_ms": null, "verified_bytes": 1000, "wrong_bytes": 0, "seconds": 1.0,
                    "gb_per_s": rate, "median_gb_per_s": rate, "iterations": 3, "mismatches": [],
                    "first_iteration_seconds": null, "iteration_seconds": [], "round_trip_us": null,
                    "channels": []}),
                );
            }
        }
    }
    let node = |node: usize| {
        let name = format!("a3-{node}");
        json!({"name": name, "address": name, "host": name, "clock": null, "facts": null})
    };
    let groups: Vec<String> = (0..nodes).map(|node| format!("rack{}", node / 8)).collect();
    json!({"schema": "tcpxctl.run/2", "id": "20261120T101500Z-mesh", "outcome": "stalled", "exit_code": 4,
        "started": "2026-11-20T10:15:00Z", "reason": null, "next_step": null, "findings": [], "unmet": [],
        "nodes": (0..nodes).map(node).collect::<Vec<_>>(), "pairs": pairs, "transfers": transfers,
        "mesh": {"missing": [], "rounds_left_out": 2, "pairs_left_out": 8, "groups": groups}})
}

fn folder(record: &Value) -> (tempfile::TempDir, RunFiles) {
    let run = tempfile::tempdir().expect("a folder");
    std::fs::write(run.path().join("run.json"), record.to_string()).expect("written");
    let files = RunFiles::open(run.path()).expect("a run");
    (run, files)
}

#[test]
fn a_mesh_has_a_matrix_per_rail_and_its_parts_at_fault() {
    let (_run, files) = folder(&record(8));
    let story = gather(&files);
    let page = html(&story, false, Language::English);
    for part in [
        "Rates over rail eth1, % of the median",
        "Rates over rail eth2, % of the median",
        "node a3-3 runs at 50 % of the others",
        "the network between a3-0 and a3-1: all 4 measurements are missing",
        "a3-0 → a3-1: failed",
        "Left out: 2 rounds with 8 pairs",
        "No findings beside those of the mesh.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(!page.contains("NaN") && !page.contains("<script"));
    // Both rails, two directions of each pair, and the cells of the legend have no title.
    assert_eq!(page.matches("<title>a3-").count(), 2 * 8 * 7);
    for text in [
        markdown(&story, false, Language::English),
        short(&story, Language::English),
    ] {
        assert!(
            text.contains("node a3-3 runs at 50 % of the others"),
            "{text}"
        );
    }
    let again: crate::Story = serde_json::from_str(&json(&story).expect("JSON")).expect("a story");
    assert_eq!(again.mesh, story.mesh);
}

#[test]
fn more_nodes_than_a_matrix_shows_are_zoomed_by_group() {
    let (_run, files) = folder(&record(72));
    let page = html(&gather(&files), false, Language::English);
    for part in [
        "<title>rack0 → rack1: median ",
        "rack0 over rail eth2, node by node",
        "What each node of rack0 receives from each group, rail eth1",
        "<title>a3-3 → rack2: median 50 %",
        "The 32 slowest of ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        !page.contains("<title>a3-0 → a3-9:"),
        "directions are merged"
    );
    assert!(page.len() < 1_500_000, "{}", page.len());
}

#[test]
fn a_redacted_mesh_names_no_node() {
    let (_run, files) = folder(&record(5));
    let mut redactor = Redactor::default();
    let story = redacted(gather(&files), &mut redactor);
    let page = html(&story, false, Language::English);
    assert!(!page.contains("a3-3"), "a name is left");
    assert!(page.contains("runs at 50 % of the others"));
}

#[test]
fn meshes_are_compared_by_rail_and_damage_is_told() {
    let (_run, files) = folder(&record(5));
    let measured = Measured::of_run(&gather(&files)).expect("a result");
    assert_eq!(measured.metrics["rate over eth1"].samples.len(), 18);
    assert_eq!(measured.metrics["failed over eth1"].samples, [2.0]);
    assert!(
        measured
            .settings
            .values()
            .any(|value| value.contains("node a3-3"))
    );
    let mut damaged = record(5);
    damaged["mesh"]["missing"] = json!(7);
    let (_run, files) = folder(&damaged);
    let story = gather(&files);
    assert!(story.mesh.is_none());
    assert!(
        story.missing.iter().any(|one| one.what == "mesh"),
        "{:?}",
        story.missing
    );
}

#[test]
fn a_run_has_a_row_for_each_direction_and_failed_pair() {
    let run = RunRecord::parse(record(4).to_string().as_bytes()).expect("a record");
    let rows = crate::history::RateRow::of_run(&run);
    assert_eq!(rows.len(), 4 * 3 * 2);
    let failed = rows.iter().filter(|row| row.gb_per_s.is_none());
    let failed: Vec<&str> = failed.map(|row| row.outcome.as_str()).collect();
    assert_eq!(failed, ["stalled"; 4]);
    let row = rows
        .iter()
        .find(|row| (row.from.as_str(), row.to.as_str()) == ("a3-3", "a3-2"));
    let row = row.expect("a row");
    assert_eq!(
        (row.rail.as_str(), row.round, row.tool.as_str()),
        ("eth1", Some(0), "tcpxctl")
    );
}
