//! `tcpxctl trace`: exports a run or a tapped program as a timeline.

use crate::tcpxctl::Tool;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A trace of `what`, a path in the folder of a previous run.
fn trace(what: &Path, options: &[&str]) -> crate::tcpxctl::Ended {
    Tool::new(&[&["trace", what.to_str().unwrap()], options].concat()).ends_with(0)
}

fn events(document: &Value) -> &Vec<Value> {
    document["traceEvents"].as_array().unwrap()
}

/// Names of the processes, by number.
fn processes(document: &Value) -> BTreeMap<u64, String> {
    let named = events(document)
        .iter()
        .filter(|event| event["name"] == "process_name");
    named
        .map(|event| {
            (
                event["pid"].as_u64().unwrap(),
                event["args"]["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

/// Checks that slices of one lane are nested or disjoint, as the format requires.
fn nest(document: &Value) {
    let mut lanes: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    for event in events(document)
        .iter()
        .filter(|event| event["ph"] == "X" && event["tid"] != 0)
    {
        let lane = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        lanes
            .entry(lane)
            .or_default()
            .push((ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])));
    }
    assert!(!lanes.is_empty());
    for (lane, mut slices) in lanes {
        slices.sort_by_key(|(from, to)| (*from, u64::MAX - to));
        let mut open: Vec<u64> = Vec::new();
        for (from, to) in slices {
            open.retain(|end| *end > from);
            assert!(
                open.last().is_none_or(|end| to <= *end),
                "lane {lane:?}: {from}..{to} crosses {open:?}"
            );
            open.push(to);
        }
    }
}

#[test]
fn a_running_process_is_found_wherever_its_recorder_is() {
    let folder = tempfile::tempdir().unwrap();
    let options = tcpx_recorder::Options::new("elsewhere");
    let _recorder = tcpx_recorder::Recorder::create_in(folder.path(), &options).unwrap();
    let pid = std::process::id().to_string();
    trace(Path::new(&pid), &["--out", "trace.json"]).says(&["0 events of 0 channels"]);
    Tool::new(&["trace", "999999999"])
        .ends_with(2)
        .says(&["no process 999999999 is seen here"]);
}

#[test]
fn a_runs_requests_become_slices_of_both_ends() {
    let ended = Tool::run(&["transfer.chunk=\"128KiB\""]).ends_with(0);
    let run = &ended.run_folders()[0];
    let told = trace(run, &["--out", "trace.json"]);
    told.says(&["events of 4 channels in trace.json", "ui.perfetto.dev"]);
    let text = std::fs::read_to_string(told.folder().join("trace.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    nest(&document);
    let processes = processes(&document);
    for name in [
        "local send 0",
        "local send 1",
        "peer recv 0",
        "peer recv 1",
        "peer listen 0",
    ] {
        assert!(
            processes.values().any(|process| process.starts_with(name)),
            "{name} in {processes:?}"
        );
    }
    // 8 chunks, three iterations, over both ends: each request is one slice.
    let requests = |side: &str| {
        let mine = |pid: &Value| processes[&pid.as_u64().unwrap()].contains(side);
        let all = events(&document)
            .iter()
            .filter(|event| event["ph"] == "X" && mine(&event["pid"]));
        all.filter(|event| event["name"].as_str().unwrap().starts_with('#'))
            .count()
    };
    assert_eq!([requests(" send "), requests(" recv ")], [24, 24]);
    let stages = events(&document)
        .iter()
        .filter(|event| event["name"] == "unpacked")
        .count();
    assert_eq!(stages, 24);
    assert_eq!(document["otherData"]["overwritten"], 0);

    let rows = trace(run, &["--format", "csv"]).out;
    let lines = trace(run, &["--format", "jsonl"]).out;
    assert_eq!(rows.lines().count(), lines.lines().count() + 1);
    let of = |event: &str| {
        lines
            .lines()
            .filter(|line| line.contains(&format!("\"event\":\"{event}\"")))
            .count()
    };
    assert_eq!(
        ["posted", "done", "unpacked", "consumed"].map(of),
        [48, 48, 24, 24]
    );
    let document = trace(run, &["--out", "x.csv", "--format", "csv", "--json"]).json();
    assert_eq!(
        (&document["schema"], &document["channels"]),
        (&"tcpxctl.traced/1".into(), &4.into())
    );
}

#[test]
fn an_overwritten_ring_is_reported_and_a_stall_shows_requests_in_flight() {
    let ended = Tool::shipped(
        "repro/window-never-consumed.toml",
        &["env.TCPXTAP_RING_EVENTS=\"64\""],
    )
    .ends_with(0);
    let document = serde_json::from_str(&trace(&ended.run_folders()[0], &[]).out).unwrap();
    nest(&document);
    assert!(document["otherData"]["overwritten"].as_u64().unwrap() > 0);
    let processes = processes(&document);
    let named = |text: &str, side: &str| {
        let all = events(&document).iter();
        let named = all.filter(|event| event["name"].as_str().unwrap().contains(text));
        let of_side = |event: &&Value| {
            let process = processes.get(&event["pid"].as_u64().unwrap_or(0));
            side.is_empty() || process.is_some_and(|process| process.contains(side))
        };
        named.filter(of_side).count()
    };
    // Sends are in flight too if the sockets have no room for them.
    assert_eq!(
        named("(in flight)", " recv "),
        16,
        "the receives that were not consumed"
    );
    assert!(named("older events were overwritten", "") > 0 && named("stall declared", "") > 0);
    assert!(
        processes
            .values()
            .any(|process| process == "peer : sampled")
    );
}

#[test]
fn a_run_without_its_recorders_still_has_samples_if_it_took_any() {
    let ended = Tool::run(&[]).ends_with(0);
    let run = &ended.run_folders()[0];
    std::fs::remove_dir_all(run.join("nodes")).unwrap();
    let told = trace(run, &["--out", "t.json"]);
    // A run that is shorter than the time between two samples takes none.
    let events = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    let rest = match events.contains("\"sample\":") {
        true => "the timeline has its samples only",
        false => "the timeline has nothing to show",
    };
    told.says(&[
        "0 events of 0 channels",
        "the run has no recorder file",
        rest,
    ]);
}

#[test]
fn files_that_are_not_recordings_are_refused() {
    Tool::new(&["trace", "/no/such/thing"])
        .ends_with(2)
        .says(&["/no/such/thing is not a run folder"]);
    let tool = Tool::new(&["trace", "x.tcpxrec"]);
    tool.write("x.tcpxrec", "nonsense");
    tool.ends_with(3).says(&["x.tcpxrec: not a recorder file"]);
}

#[test]
fn a_run_whose_recorder_files_are_torn_has_nothing_to_show_and_is_no_success() {
    let ended = Tool::run(&["transfer.chunk=\"128KiB\""]).ends_with(0);
    let run = &ended.run_folders()[0];
    for node in ["local", "peer"] {
        let folder = std::fs::read_dir(run.join("nodes").join(node)).unwrap();
        let files = folder.flatten().map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "tcpxrec")) {
            std::fs::write(&file, [0; 100]).unwrap();
        }
    }
    let told = Tool::new(&["trace", run.to_str().unwrap(), "--out", "trace.json"]).ends_with(3);
    told.says(&["0 events", "recorder files are torn: no event can be shown"]);
}
