//! Reports, bundles, comparisons and gates of a run.

use crate::junit::{is_valid, problems};
use crate::tcpxctl::Tool;
use std::path::{Path, PathBuf};

fn told(run: &Path, arguments: &[&str], code: i32) -> crate::tcpxctl::Ended {
    let run = run.to_str().unwrap();
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|one| if *one == "RUN" { run } else { one })
        .collect();
    Tool::new(&arguments).ends_with(code)
}

#[test]
fn a_run_is_reported_bundled_read_from_the_bundle_and_compared() {
    let ended = Tool::run(&[]).ends_with(0);
    let run = &ended.run_folders()[0];
    told(run, &["report", "RUN"], 0);
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("✓ PASSED") && page.contains("</html>"));
    assert!(run.join("report.html.map.json").is_file());
    told(run, &["report", "RUN", "--short", "--lang", "zh"], 0)
        .says(&["**通过（PASSED）**", "中位数"]);
    told(run, &["report", "RUN", "--format", "junit"], 0).says(&["<testsuites", "failures=\"0\""]);
    assert_eq!(
        told(run, &["report", "RUN", "--json"], 0).json()["schema"],
        "tcpxctl.report/2"
    );

    let sent = run.join("sent.tar.gz");
    told(run, &["bundle", "RUN", "--out", sent.to_str().unwrap()], 0).says(&["redacted"]);
    told(&sent, &["bundle", "--verify", "RUN"], 0).says(&["no name or secret found"]);
    told(&sent, &["report", "RUN", "--short"], 0).says(&["**PASSED**"]);
    told(
        &sent,
        &["watch", "--replay", "RUN", "--speed", "1000", "--once"],
        0,
    );
    told(&sent, &["logs", "RUN"], 0).says(&["# logs"]);
    assert!(
        told(&sent, &["trace", "RUN", "--out", "t.json", "--json"], 0).json()["events"]
            .as_u64()
            .unwrap()
            > 0
    );

    told(run, &["compare", "RUN", "RUN"], 0).says(&["noise", "0 gating metrics are worse"]);
    told(run, &["compare", "google-150gbps", "RUN"], 1).says(&["worse"]);
    told(run, &["compare", "chs-60", "RUN"], 3);
    let compared = told(run, &["compare", "chs-60", "RUN", "--json"], 3);
    assert_eq!(compared.json()["exit_code"], 3, "{compared}");
    let reports = run.parent().unwrap().to_str().unwrap();
    let history = told(run, &["history", "--reports", reports, "--json"], 0).json();
    assert_eq!(
        (
            history["runs"].as_array().unwrap().len(),
            &history["runs"][0]["outcome"]
        ),
        (1, &"passed".into())
    );
    told(
        run,
        &[
            "history",
            "prune",
            "--keep",
            "0",
            "--dry-run",
            "--reports",
            reports,
        ],
        0,
    )
    .says(&["would be removed"]);
    assert!(run.is_dir());
}

#[test]
fn a_comparison_redacts_other_tools_files_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let iperf =
        r#"{"start":{"connecting_to":{"host":"a3-node7"}},"end":{"sum":{"bits_per_second":15e9}}}"#;
    let names = ["a3-node7.json", "10.0.1.25.json"]
        .map(|name| folder.path().join(name).display().to_string());
    names
        .iter()
        .for_each(|name| std::fs::write(name, iperf).unwrap());
    let out = folder.path().join("told.html").display().to_string();
    let compare = |more: &[&str]| {
        told(
            folder.path(),
            &[&["compare", &names[0], &names[1]], more].concat(),
            0,
        )
    };
    for format in ["text", "markdown", "html"] {
        let ended = compare(&["--format", format]);
        ended.says(&[".json", "198.18."]);
        assert!(
            !ended.out.contains("a3-node7") && !ended.out.contains("10.0.1.25"),
            "{ended}"
        );
        compare(&["--format", format, "--no-redact"]).says(&["a3-node7", "10.0.1.25.json"]);
    }
    assert_eq!(compare(&["--json"]).json()["redacted"], true);
    compare(&["--format", "html", "--out", &out]).says(&[
        "told.html (redacted)",
        "told.html.map.json (the real names: do not send it)",
    ]);
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(
        page.contains("198.18.") && !page.contains("a3-node7"),
        "{page}"
    );
    assert!(
        std::fs::read_to_string(out + ".map.json")
            .unwrap()
            .contains("a3-node7")
    );
}

#[test]
fn files_that_are_not_runs_bundles_or_results_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    told(folder.path(), &["report", "RUN"], 2);
    told(&folder.path().join("x"), &["bundle", "RUN"], 2);
    let noise = folder.path().join("noise.tar.gz");
    std::fs::write(&noise, "nonsense").unwrap();
    told(&noise, &["bundle", "--verify", "RUN"], 2);
    told(&noise, &["compare", "chs-60", "RUN"], 2);
    told(folder.path(), &["compare", "chs-60", "no-such-baseline"], 2);
    told(
        &folder.path().join("x"),
        &["history", "--reports", "RUN"],
        2,
    );
}

#[test]
fn a_run_with_a_killed_coordinator_is_reported_from_its_event_stream() {
    let long = ["limits.give_up_after=60s", "limits.total=90s"];
    let tool = Tool::shipped("repro/window-never-consumed.toml", &long);
    let folder = tool.folder().to_owned();
    let reports = folder.join("reports");
    let mut runs = tool.start();
    runs.until_event("stall declared");
    told(&reports, &["history", "--reports", "RUN"], 0).says(&["running"]);
    runs.signal(rustix::process::Signal::KILL);
    let ended = runs.ended();
    told(&reports, &["history", "--reports", "RUN"], 0).says(&["killed", "tcpxctl diagnose RUN"]);
    // The first entry is the history's index.
    let run = &ended.run_folders()[1];
    let why = "the coordinator was killed before it wrote run.json; events.jsonl covers the first ";
    told(run, &["diagnose", "RUN"], 4).says(&[why, "error window-never-consumed"]);
    assert!(told(run, &["diagnose", "RUN", "--evidence"], 0).json()["nodes"].is_array());
    assert!(
        told(run, &["diagnose", "RUN", "--json"], 4).json()["note"]
            .as_str()
            .unwrap()
            .starts_with(why)
    );
    told(run, &["report", "RUN", "--short"], 0).says(&["**KILLED**", why, "window-never-consumed"]);
    // A kill before the first event.
    let events = run.join("events.jsonl");
    std::fs::write(&events, "").unwrap();
    told(run, &["diagnose", "RUN"], 3)
        .says(&["killed before it wrote run.json, and events.jsonl has no usable events"]);
    std::fs::remove_file(events).unwrap();
    // The kill may have come before the first file of a node.
    std::fs::create_dir_all(run.join("nodes")).unwrap();
    told(run, &["diagnose", "RUN"], 2).says(&["cannot read events.jsonl of"]);
    std::fs::remove_dir_all(run.join("nodes")).unwrap();
    let ended = told(run, &["diagnose", "RUN"], 2);
    assert_eq!(
        ended.err.matches("is not a run folder").count(),
        1,
        "{ended}"
    );
}

/// A run folder of a stalled run, to damage.
fn stalled_run() -> tempfile::TempDir {
    let sample = "src/run-model/record/fixtures/v1/20261120T101500Z-two-gpus";
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(sample);
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.json", "events.jsonl", "scenario.toml"] {
        std::fs::copy(from.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn a_clock_that_was_set_back_during_a_run_is_noted_wherever_the_run_is_shown() {
    let folder = stalled_run();
    let run = folder.path();
    let record = std::fs::read(run.join("run.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    record["finished"] = "2020-01-01T00:00:00Z".into();
    std::fs::write(run.join("run.json"), record.to_string()).unwrap();
    let note = "run.json has an end before the start: the clock of that machine was set back";
    told(run, &["diagnose", "RUN"], 4).says(&[&format!("# note : {note}")]);
    assert_eq!(
        told(run, &["diagnose", "RUN", "--json"], 4).json()["note"],
        note
    );
    told(run, &["watch", "--once", "--replay", "RUN"], 0).says(&[note]);
}

#[test]
fn a_damaged_run_is_judged_by_what_can_be_read_of_it() {
    let folder = stalled_run();
    let run = folder.path();
    let whole = told(run, &["diagnose", "RUN"], 4);
    assert!(!whole.out.contains("damaged"), "{whole}");
    let record = std::fs::read(run.join("run.json")).unwrap();
    std::fs::write(run.join("run.json"), &record[..record.len() / 2]).unwrap();
    let mut events = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    events.push_str("nonsense\n");
    std::fs::write(run.join("events.jsonl"), events).unwrap();
    told(run, &["diagnose", "RUN"], 4).says(&[
        "# note : run.json is damaged: EOF",
        "# note : damaged lines in events.jsonl: 1",
        "one-channel-starved",
    ]);
    let document = told(run, &["diagnose", "RUN", "--json"], 4).json();
    assert_eq!(document["damaged"].as_array().unwrap().len(), 2);
    // The frame is that of the end of the run, and tells of the record.
    told(run, &["watch", "--once", "--replay", "RUN"], 0).says(&[
        "run.json is damaged",
        "STALLED",
        " over",
    ]);
}

#[test]
fn what_a_run_has_lost_is_named() {
    let folder = stalled_run();
    let run = folder.path();
    let events = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    let first: Vec<&str> = events.lines().take(20).collect();
    std::fs::write(run.join("events.jsonl"), first.join("\n")).unwrap();
    let lost = "events.jsonl ends after ";
    told(run, &["diagnose", "RUN"], 4).says(&[lost, "frame-gpu1.json is missing"]);
    let report = ["report", "RUN", "--format", "markdown", "--out", "-"];
    told(run, &report, 0).says(&[lost, "frame-gpu1.json is missing"]);
    for name in ["events.jsonl", "run.json", "scenario.toml"] {
        std::fs::write(run.join(name), "").unwrap();
    }
    told(run, &["diagnose", "RUN"], 3).says(&["0 channels of no process", "run.json is damaged"]);
    told(run, &["baseline", "save", "none", "RUN"], 3).says(&["has no result to save"]);
    let reports = tempfile::tempdir().unwrap();
    let killed = reports.path().join("20261122T101500Z-killed");
    std::fs::create_dir(&killed).unwrap();
    std::fs::write(killed.join("events.jsonl"), &events).unwrap();
    let seen = told(&killed, &["watch", "RUN", "--once", "--size", "100x30"], 0);
    seen.says(&[" over", "was killed before"]);
    told(&killed, &["watch", "RUN", "--once", "--json"], 0);
    let listed = told(
        reports.path(),
        &["history", "--reports", "RUN", "--json"],
        0,
    )
    .json();
    assert!(listed["runs"][0]["wrong_bytes"].is_null(), "{listed}");
}

#[test]
fn a_report_of_logs_has_the_cause_first_and_the_verdict_on_the_users_own_program() {
    let tool = Tool::new(&["report", "logs", "--format", "markdown"]);
    std::fs::create_dir(tool.folder().join("logs")).unwrap();
    let ranks = "[rank1]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=80, OpType=ALLREDUCE, NumelIn=1) ran for 600012 milliseconds\n\
        terminate called after throwing an instance of 'c10::DistBackendError'\n\
        node-a:71:80 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.226<56849> returned 113(No route to host) errno 115(x)\n";
    tool.write("logs/ranks.log", ranks);
    let test = "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=0 rc=0 done=0 size=0 is_recv=1\n";
    tool.write("logs/server.log", test.repeat(2000));
    let ended = tool.ends_with(0);
    let places = [
        "### tests-never-done",
        "**socket-connect-error**",
        "**watchdog-timeout**",
        "**cxx-terminate**",
    ];
    let at = places.map(|name| ended.out.find(name));
    assert!(
        at.iter().all(Option::is_some) && at.is_sorted(),
        "{at:?} {ended}"
    );
    let run = ended.run_folders().remove(0);
    let zh = told(
        &run,
        &["report", "RUN", "--format", "markdown", "--lang", "zh"],
        0,
    );
    zh.says(&["最后 2000 次记录的 test", "下一步: 每次 post 之后都要 test"]);
}

#[test]
fn one_damaged_recorder_does_not_hide_the_other_and_a_bundle_can_be_read() {
    let ended = Tool::run(&[]).ends_with(0);
    let run = ended.run_folders().remove(0);
    std::fs::write(run.join("nodes/peer/recorder.tcpxrec"), "nonsense").unwrap();
    let arguments = ["trace", "RUN", "--out", "t.json", "--json"];
    let traced = told(&run, &arguments, 0);
    traced.says(&["no requests of peer: nodes/peer/recorder.tcpxrec"]);
    assert!(traced.json()["events"].as_u64().unwrap() > 0);
    for number in 0..1100 {
        std::fs::write(run.join(format!("nodes/local/{number}.txt")), "x").unwrap();
    }
    std::fs::write(run.join("nodes/local/a\x1b.txt"), "x").unwrap();
    let bundled = told(&run, &["bundle", "RUN", "--out", "b.tar.gz"], 0);
    bundled.says(&["control characters", "files are omitted"]);
    let bundle = bundled.folder().join("b.tar.gz");
    told(&bundle, &["bundle", "--verify", "RUN"], 0);
}

#[test]
fn control_characters_of_a_record_and_a_path_are_not_printed() {
    let folder = stalled_run();
    for name in ["run.json", "events.jsonl"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let hostile = text.replace("\"local\"", "\"lo\\u001b[2Jcal\"");
        std::fs::write(folder.path().join(name), hostile).unwrap();
    }
    let hostile = folder.path().join("a\x1b[31m");
    for (arguments, code) in [
        (&["diagnose", "RUN"][..], 4),
        (&["watch", "RUN", "--once"], 0),
    ] {
        let ended = told(folder.path(), arguments, code);
        assert!(
            !ended.out.contains('\x1b') && !ended.err.contains('\x1b'),
            "{ended}"
        );
    }
    for command in ["diagnose", "report", "trace", "watch"] {
        let ended = Tool::new(&[command, hostile.to_str().unwrap()]).ended();
        assert!(
            !ended.status.success() && !ended.err.contains('\x1b'),
            "{ended}"
        );
    }
}

#[test]
fn a_run_of_a_future_version_is_not_judged() {
    let folder = stalled_run();
    let record = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
    let future = record.replace("tcpxctl.run/1", "tcpxctl.run/9");
    std::fs::write(folder.path().join("run.json"), future).unwrap();
    let why = "run.json has schema tcpxctl.run/9";
    for arguments in [&["diagnose", "RUN"][..], &["diagnose", "RUN", "--evidence"]] {
        told(folder.path(), arguments, 3).says(&[why, "use the tcpxctl that wrote the file"]);
    }
    let document = told(folder.path(), &["diagnose", "RUN", "--json"], 3).json();
    assert_eq!(document["schema"], "tcpxctl.error/1");
}

/// The JUnit XML of a run folder.
fn junit(run: &Path) -> PathBuf {
    let file = run.join("junit.xml");
    told(
        run,
        &[
            "report",
            "RUN",
            "--format",
            "junit",
            "--out",
            file.to_str().unwrap(),
        ],
        0,
    );
    file
}

#[test]
fn junit_is_valid_for_every_outcome_of_a_run() {
    let gates = [
        "expect.min_gb_per_s=1e5",
        "expect.outcome=\"stalled\"",
        "transfer.direction=\"both\"",
    ];
    let ended = Tool::run(&gates).ends_with(1);
    let run = &ended.run_folders()[0];
    is_valid(&junit(run));
    let text = std::fs::read_to_string(run.join("junit.xml")).unwrap();
    // Two directions fail one gate.
    assert!(
        text.contains("expect.min_gb_per_s\"") && text.contains("expect.min_gb_per_s (2)\""),
        "{text}"
    );

    // Values that a damaged or foreign record may contain.
    let record = std::fs::read_to_string(run.join("run.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let evil = "<a>&\"'\u{1}\u{1b}[2J\u{ffff}]]> --> 名";
    record["scenario"]["name"] = evil.into();
    record["reason"] = evil.into();
    record["started"] = "yesterday".into();
    record["transfers"][0]["seconds"] = (-1.0).into();
    record["transfers"][1]["seconds"] = 1e300.into();
    record["unmet"] = serde_json::json!(["", evil, evil]);
    record["exit_code"] = 1.into();
    for (outcome, host) in [("failed", evil), ("not-run", ""), ("passed", "\n")] {
        record["outcome"] = outcome.into();
        record["nodes"][0]["host"] = host.into();
        std::fs::write(run.join("run.json"), record.to_string()).unwrap();
        is_valid(&junit(run));
    }
    std::fs::remove_file(run.join("run.json")).unwrap();
    is_valid(&junit(run));
}

#[test]
fn invalid_junit_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.xml");
    let case = "<testcase classname=\"c\" name=\"n\" time=\"0.5\"/>";
    let suite = |claims: &str, inside: &str| {
        format!("<testsuites><testsuite name=\"s\" {claims}>{inside}</testsuite></testsuites>")
    };
    let fair = "tests=\"1\" failures=\"0\" errors=\"0\"";
    let failed =
        "<testcase classname=\"c\" name=\"n\"><failure type=\"t\" message=\"m\"/></testcase>";
    for (text, wrong) in [
        (suite(fair, case), ""),
        (suite(fair, case) + "x", "is no XML"),
        (suite(fair, "a\u{1}"), "is no XML"),
        (suite(fair, failed), "failures is 0, there are 1"),
        (
            suite(
                "tests=\"2\" failures=\"0\" errors=\"0\"",
                &(case.to_owned() + case),
            ),
            "is there twice",
        ),
        (suite(fair, &case.replace("0.5", "soon")), "time 'soon'"),
        (
            suite(fair, &case.replace("classname", "class")),
            "testcase has class",
        ),
        (suite("tests=\"1\"", case), "testsuite has no errors"),
        (
            suite(&format!("{fair} hostname=\"\""), case),
            "hostname is empty",
        ),
        (suite(fair, &format!("<system-out/>{case}")), "out of order"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let Some(found) = problems(&file) else { return };
        assert!(
            found.contains(wrong) && found.is_empty() == wrong.is_empty(),
            "{text}\n{found}"
        );
    }
}

#[test]
fn a_full_disk_leaves_the_old_report_intact() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.jsonl"), "").unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, "old").unwrap();
    let tool = Tool::new(&["report", folder.path().to_str().unwrap()]);
    // No file may grow beyond 1 KiB; the signal for that is ignored.
    let ended = tool
        .through(
            "bash",
            &["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash"],
        )
        .ends_with(3);
    ended.says(&["is unchanged"]);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_failed_run_is_bundled_with_doctor_checks() {
    let ended = Tool::shipped("repro/window-never-consumed.toml", &[])
        .arg("--report-on-fail")
        .ends_with(0);
    let run = &ended.run_folders()[0];
    assert!(run.join("doctor.json").is_file(), "{ended}");
    let bundle = run.with_file_name(format!(
        "{}.tar.gz",
        run.file_name().unwrap().to_string_lossy()
    ));
    told(&bundle, &["diagnose", "RUN"], 4).says(&["window-never-consumed"]);
    told(&bundle, &["report", "RUN", "--short"], 0).says(&["**STALLED**", "dddddddddddddddd"]);
}
