//! The history, its index, and pruning.

use super::{KeepRules, choose, read, remove};
use std::path::Path;
use tcpx_run_model::record::{DOCTOR, RunFolder};

fn run(folder: &Path, id: &str, outcome: &str, rate: f64) {
    let path = folder.join(id);
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("events.jsonl"), "").expect("written");
    let record = serde_json::json!({
        "started": format!("2026-11-20T10:{}:00Z", &id[11..13]), "outcome": outcome, "exit_code": 0,
        "scenario": { "name": "4conn", "resolved": {} }, "nodes": [{ "facts": {} }],
        "transfers": [{ "from": "local", "to": "peer", "iterations": 2, "median_gb_per_s": rate, "wrong_bytes": 0 }],
        "findings": [{ "condition": "x", "severity": "warning" }],
    });
    std::fs::write(path.join("run.json"), record.to_string()).expect("written");
}

#[test]
fn every_run_is_listed_and_only_changed_runs_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for minute in 10..14 {
        run(
            folder.path(),
            &format!("20261120T10{minute}00Z-4conn"),
            "passed",
            f64::from(minute),
        );
    }
    std::fs::write(
        folder.path().join("20261120T101200Z-4conn/run.json"),
        "{\"outcome\":",
    )
    .expect("written");
    std::fs::remove_file(folder.path().join("20261120T101300Z-4conn/run.json")).expect("removed");
    std::fs::create_dir(folder.path().join("sample")).expect("a folder");
    let first = read(folder.path()).expect("read");
    let outcomes: Vec<&str> = first.runs.iter().map(|run| run.outcome.as_str()).collect();
    assert_eq!(
        (outcomes, first.read),
        (vec!["passed", "passed", "damaged", "killed"], 4)
    );
    assert_eq!(first.runs[1].rates[0].median_gb_per_s, 11.0);
    assert_eq!(first.runs[3].started, "2026-11-20T10:13:00Z");
    // Only the run without a record is read again.
    let again = read(folder.path()).expect("read");
    assert_eq!((&again.runs, again.read), (&first.runs, 1));
    run(folder.path(), "20261120T101300Z-4conn", "stalled", 2.0);
    run(folder.path(), "20261120T101000Z-4conn", "failed", 123.25);
    let changed = read(folder.path()).expect("read");
    assert_eq!(
        (
            changed.runs[0].outcome.as_str(),
            changed.runs[3].outcome.as_str(),
            changed.read
        ),
        ("failed", "stalled", 2)
    );
    std::fs::write(folder.path().join(".history.json"), "nonsense").expect("written");
    assert_eq!(read(folder.path()).expect("read").read, 4);
    assert!(read(&folder.path().join("nowhere")).is_err());
}

#[test]
fn a_pipe_in_the_place_of_the_index_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    run(at, "20261120T101500Z-4conn", "passed", 20.0);
    let made = std::process::Command::new("mkfifo")
        .arg(at.join(".history.json"))
        .status();
    assert!(made.expect("mkfifo").success());
    let history = read(at).expect("listed");
    assert_eq!(history.runs.len(), 1);
    let unkept = history.unkept.expect("not kept");
    assert!(unkept.ends_with("it is no regular file"), "{unkept}");
}

#[test]
fn a_run_without_a_record_is_running_killed_or_examined() {
    let folder = tempfile::tempdir().expect("a folder");
    let stamp = |minute: u32| format!("20261120T10{minute}00Z");
    let going = RunFolder::create(folder.path(), &stamp(10), "going").expect("a run");
    drop(RunFolder::create(folder.path(), &stamp(11), "killed").expect("a run"));
    let examined = RunFolder::create(folder.path(), &stamp(12), "collected").expect("a folder");
    std::fs::write(examined.path.join(DOCTOR), "{}").expect("written");
    let outcomes = || {
        let history = read(folder.path()).expect("read");
        let kept = choose(&history.runs, &KeepRules::default()).len();
        (
            history
                .runs
                .into_iter()
                .map(|run| run.outcome)
                .collect::<Vec<_>>(),
            kept,
        )
    };
    // In this process the thread that writes events ends a moment after the run is dropped.
    let soon = |expected: &[&str]| {
        let since = std::time::Instant::now();
        while outcomes().0 != expected {
            assert!(
                since.elapsed().as_secs() < 20,
                "{:?}, not {expected:?}",
                outcomes()
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    soon(&["running", "killed", "examined"]);
    assert_eq!(outcomes().1, 2);
    drop(going);
    soon(&["killed", "killed", "examined"]);
}

#[test]
fn prune_keeps_what_it_is_told_to_and_deletes_only_run_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    for (minute, outcome) in [
        (10, "passed"),
        (11, "stalled"),
        (12, "passed"),
        (13, "passed"),
    ] {
        run(
            folder.path(),
            &format!("20261120T10{minute}00Z-4conn"),
            outcome,
            1.0,
        );
    }
    let history = read(folder.path()).expect("read");
    let ids = |keep: KeepRules| {
        choose(&history.runs, &keep)
            .iter()
            .map(|run| run.id[11..13].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(KeepRules {
            newest: Some(1),
            ..KeepRules::default()
        }),
        ["10", "11", "12"]
    );
    assert_eq!(
        ids(KeepRules {
            newest: Some(1),
            failed: true,
            ..KeepRules::default()
        }),
        ["10", "12"]
    );
    assert_eq!(
        ids(KeepRules {
            since: Some("2026-11-20T10:12:00Z".into()),
            ..KeepRules::default()
        }),
        ["10", "11"]
    );
    remove(folder.path(), &history.runs[0]).expect("removed");
    assert_eq!(read(folder.path()).expect("read").runs.len(), 3);
    let evil = super::RunEntry {
        id: "../x".into(),
        ..super::RunEntry::default()
    };
    assert!(remove(folder.path(), &evil).is_err());
}

#[test]
fn a_result_file_is_an_entry_with_the_time_in_its_name_or_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = "[PERF] Mode: SERVER\n[PERF] Iteration 0: total bytes=64000000, chunk_bytes=524288\n[PERF] Iter 0 time=20.0 ms\n";
    let entry = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, log).expect("written");
        let measured = crate::compare::read(&path, None).expect("a result");
        super::RunEntry::of_file(&measured, std::time::UNIX_EPOCH)
    };
    let named = entry("fullmesh_server_gpu3_20261120_101638.log");
    assert_eq!(
        (
            named.started.as_str(),
            named.outcome.as_str(),
            named.scenario.as_str()
        ),
        ("2026-11-20T10:16:38Z", "measured", "harness")
    );
    assert_eq!(
        (
            named.rates[0].direction.as_str(),
            named.rates[0].median_gb_per_s
        ),
        ("rate server gpu 3", 3.2)
    );
    assert_eq!(
        entry("a_20261399_101638.log").started,
        "1970-01-01T00:00:00Z"
    );
}
