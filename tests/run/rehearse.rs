//! `tcpxctl rehearse` and `tcpxctl shrink` as a user types them. `scripts/rehearse --all` runs every
//! rehearsal; these tests run quick ones.

use crate::tcpxctl::{Process, Running, Tool};
use rustix::process::Signal;
use std::path::Path;

#[test]
fn a_rehearsal_that_finds_what_it_expects_passes() {
    let ended = Tool::new(&["rehearse", "plugin-exit", "link-down", "--json"]).ends_with(0);
    let document = ended.json();
    assert_eq!(document["schema"], "tcpxctl.rehearse/1");
    let [exit, link] = document["rows"].as_array().unwrap().as_slice() else {
        panic!("{ended}")
    };
    for (row, name) in [(exit, "plugin-exit"), (link, "link-down")] {
        assert_eq!(
            (&row["scenario"], &row["expected"], &row["found"]),
            (&name.into(), &name.into(), &name.into())
        );
        assert_eq!(
            (&row["passed"], &row["simulated"]),
            (&true.into(), &(name == "link-down").into())
        );
    }
    assert!(exit["seconds_to_verdict"].is_number() && link["seconds_to_verdict"].is_null());
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    Tool::new(&["rehearse", "plugin-exitt"])
        .ends_with(2)
        .says(&["did you mean plugin-exit?"]);
    let list = Tool::new(&["rehearse", "--list", "--json"])
        .ends_with(0)
        .json();
    assert!(list["scenarios"].as_array().unwrap().len() >= 25);
    let tool = Tool::new(&["rehearse", "plugin-exit", "--reports", "file"]);
    tool.write("file", "");
    tool.ends_with(3).says(&["--reports"]);
}

#[test]
fn rehearsals_from_evidence_are_not_run() {
    Tool::shipped("repro/link-down.toml", &[])
        .ends_with(2)
        .says(&["tcpxctl rehearse link-down"]);
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/repro/link-down.toml"
    );
    Tool::new(&["shrink", path])
        .ends_with(2)
        .says(&["tcpxctl rehearse link-down"]);
}

#[test]
fn a_scenario_is_shrunk_within_its_runs() {
    let tool = Tool::new(&[
        "shrink",
        "large.toml",
        "--runs",
        "12",
        "--out",
        "small.toml",
        "--plugin",
        "builtin",
    ]);
    let text = "name = 'large'\ntransfer = { connections = 8, chunk = '64KiB', total = '4MiB', iterations = 4 }\n\
                env = { NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS = '0' }\n\
                fault = { by = 'plugin', side = 'send', spec = 'rc:call=isend,value=3,nth=3' }\n\
                expect = { finding = 'call-refused' }\n";
    tool.write("large.toml", text);
    let ended = tool.ends_with(0);
    ended.says(&[
        "# run 1 : connections 8",
        ": shown",
        "# 12 runs",
        "a smaller scenario may exist",
    ]);
    let small = std::fs::read_to_string(ended.folder().join("small.toml")).unwrap();
    assert!(
        small.contains("connections = 1\n") && small.contains("iterations = 1\n"),
        "{small}"
    );
    let tool = Tool::new(&[
        "shrink",
        "healthy.toml",
        "--finding",
        "stalled",
        "--plugin",
        "builtin",
    ]);
    tool.write(
        "healthy.toml",
        "name = 'healthy'\ntransfer = { total = '1MiB', iterations = 1, connections = 1 }\n",
    );
    tool.ends_with(1).says(&["does not show stalled first"]);
}

/// Interrupts a command once its first run has a worker.
fn interrupted(mut command: Running, signal: Signal) -> crate::tcpxctl::Ended {
    let works = |one: &Process| one.role == "worker";
    command.until("a worker", |command| command.processes().iter().any(works));
    command.signal(signal);
    let ended = command.ended();
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    ended
}

#[test]
fn the_run_of_a_rehearsal_that_is_killed_is_interrupted() {
    let tool = Tool::new(&["rehearse", "window-never-consumed"]);
    let mut command = tool.start();
    let works = |one: &Process| one.role == "worker";
    command.until("a worker", |command| command.processes().iter().any(works));
    command.signal(Signal::KILL);
    let ended = command.ended();
    let folders = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let all = folders(&ended.folder().join("reports")).flat_map(|one| folders(&one.path()));
    let mut records =
        all.filter_map(|run| std::fs::read_to_string(run.path().join("run.json")).ok());
    let run = records.next().expect("a record");
    assert!(run.contains("\"outcome\": \"interrupted\""), "{run}");
}

#[test]
fn an_interrupt_of_shrink_or_rehearse_is_told_as_one() {
    for signal in [Signal::INT, Signal::TERM] {
        let tool = Tool::new(&["shrink", "slow.toml", "--plugin", "builtin"]);
        let text = "name = 'slow'\ntransfer = { total = '1MiB', iterations = 1000000 }\n\
                    expect = { finding = 'call-refused' }\n";
        tool.write("slow.toml", text);
        let ended = interrupted(tool.start(), signal);
        ended.says(&[": interrupted", "interrupted in the first run"]);
        assert!(!ended.said().contains("does not show"), "{ended}");
        let tool = Tool::new(&["rehearse", "window-never-consumed"]);
        let ended = interrupted(tool.start(), signal);
        ended.says(&["interrupted: only 0 of 1 rehearsals were judged"]);
    }
}
