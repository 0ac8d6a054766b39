//! What a run becomes: reports, a bundle that is read in place, comparisons, gates.

use crate::tcpxctl::Tool;
use std::path::Path;

fn told(run: &Path, arguments: &[&str], code: i32) -> crate::tcpxctl::Ended {
    let run = run.to_str().unwrap();
    let arguments: Vec<&str> = arguments.iter().map(|one| if *one == "RUN" { run } else { one }).collect();
    Tool::new(&arguments).ends_with(code)
}

#[test]
fn a_run_is_reported_sent_read_in_place_and_compared() {
    let ended = Tool::run(&[]).ends_with(0);
    let run = &ended.run_folders()[0];
    told(run, &["report", "RUN"], 0);
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("✓ PASSED") && page.contains("</html>"));
    assert!(run.join("report.html.map.json").is_file());
    told(run, &["report", "RUN", "--short", "--lang", "zh"], 0).says(&["**PASSED**", "中位数"]);
    told(run, &["report", "RUN", "--format", "junit"], 0).says(&["<testsuites", "failures=\"0\""]);
    assert_eq!(told(run, &["report", "RUN", "--json"], 0).json()["schema"], "tcpxctl.report/1");

    let sent = run.join("sent.tar.gz");
    told(run, &["bundle", "RUN", "--out", sent.to_str().unwrap()], 0).says(&["redacted"]);
    told(&sent, &["bundle", "--verify", "RUN"], 0).says(&["nothing reads like a name"]);
    told(&sent, &["report", "RUN", "--short"], 0).says(&["**PASSED**"]);
    told(&sent, &["watch", "--replay", "RUN", "--speed", "1000", "--once"], 0);
    told(&sent, &["logs", "RUN"], 0).says(&["# logs"]);
    assert!(told(&sent, &["trace", "RUN", "--out", "t.json", "--json"], 0).json()["events"].as_u64().unwrap() > 0);

    told(run, &["compare", "RUN", "RUN"], 0).says(&["noise", "0 metrics that gate are worse"]);
    told(run, &["compare", "google-150gbps", "RUN"], 1).says(&["worse"]);
    told(run, &["compare", "chs-60", "RUN"], 3);
    let reports = run.parent().unwrap().to_str().unwrap();
    let history = told(run, &["history", "--reports", reports, "--json"], 0).json();
    assert_eq!((history["runs"].as_array().unwrap().len(), &history["runs"][0]["outcome"]), (1, &"passed".into()));
    told(run, &["history", "prune", "--keep", "0", "--dry-run", "--reports", reports], 0).says(&["would be removed"]);
    assert!(run.is_dir());
}

#[test]
fn a_comparison_of_other_tools_files_names_nobody_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let iperf = r#"{"start":{"connecting_to":{"host":"a3-node7"}},"end":{"sum":{"bits_per_second":15e9}}}"#;
    let names = ["a3-node7.json", "10.0.1.25.json"].map(|name| folder.path().join(name).display().to_string());
    names.iter().for_each(|name| std::fs::write(name, iperf).unwrap());
    let out = folder.path().join("told.html").display().to_string();
    let compare = |more: &[&str]| told(folder.path(), &[&["compare", &names[0], &names[1]], more].concat(), 0);
    for format in ["text", "markdown", "html"] {
        let ended = compare(&["--format", format]);
        ended.says(&[".json", "198.18."]);
        assert!(!ended.out.contains("a3-node7") && !ended.out.contains("10.0.1.25"), "{ended}");
        compare(&["--format", format, "--no-redact"]).says(&["a3-node7", "10.0.1.25.json"]);
    }
    assert_eq!(compare(&["--json"]).json()["redacted"], true);
    compare(&["--format", "html", "--out", &out]).says(&["told.html (redacted)", "told.html.map.json, for you alone"]);
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.contains("198.18.") && !page.contains("a3-node7"), "{page}");
    assert!(std::fs::read_to_string(out + ".map.json").unwrap().contains("a3-node7"));
}

#[test]
fn what_is_no_run_no_bundle_or_no_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    told(folder.path(), &["report", "RUN"], 2);
    told(&folder.path().join("x"), &["bundle", "RUN"], 2);
    let noise = folder.path().join("noise.tar.gz");
    std::fs::write(&noise, "nonsense").unwrap();
    told(&noise, &["bundle", "--verify", "RUN"], 2);
    told(&noise, &["compare", "chs-60", "RUN"], 2);
    told(folder.path(), &["compare", "chs-60", "no-such-baseline"], 2);
    told(&folder.path().join("x"), &["history", "--reports", "RUN"], 2);
}

#[test]
fn a_run_whose_coordinator_is_killed_is_told_by_what_its_event_stream_has() {
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
    // Behind the history's index.
    let run = &ended.run_folders()[1];
    let why = "the coordinator was killed before it wrote run.json; what is known is the first ";
    told(run, &["diagnose", "RUN"], 4).says(&[why, "s in events.jsonl", "error window-never-consumed"]);
    assert!(told(run, &["diagnose", "RUN", "--json"], 4).json()["note"].as_str().unwrap().starts_with(why));
    told(run, &["report", "RUN", "--short"], 0).says(&["**KILLED**", why, "window-never-consumed"]);
    // As early as can be.
    let events = run.join("events.jsonl");
    std::fs::write(&events, "").unwrap();
    told(run, &["diagnose", "RUN"], 0).says(&["killed before it wrote run.json, and events.jsonl tells nothing"]);
    std::fs::remove_file(events).unwrap();
    told(run, &["diagnose", "RUN"], 2).says(&["has no events.jsonl to judge by"]);
    std::fs::remove_dir_all(run.join("nodes")).unwrap();
    let ended = told(run, &["diagnose", "RUN"], 2);
    assert_eq!(ended.err.matches("is no run folder").count(), 1, "{ended}");
}

#[test]
fn a_full_disk_leaves_the_old_report_intact() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.jsonl"), "").unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, "old").unwrap();
    let tool = Tool::new(&["report", folder.path().to_str().unwrap()]);
    // No file may grow beyond a kilobyte; the signal for it is not taken.
    let ended = tool.through("bash", &["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash"]).ends_with(3);
    ended.says(&["is untouched"]);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_failure_is_packed_with_what_the_doctor_says() {
    let ended = Tool::shipped("repro/window-never-consumed.toml", &[]).arg("--report-on-fail").ends_with(0);
    let run = &ended.run_folders()[0];
    assert!(run.join("doctor.json").is_file(), "{ended}");
    let bundle = run.with_file_name(format!("{}.tar.gz", run.file_name().unwrap().to_string_lossy()));
    told(&bundle, &["diagnose", "RUN"], 4).says(&["window-never-consumed"]);
    told(&bundle, &["report", "RUN", "--short"], 0).says(&["**STALLED**", "dddddddddddddddd"]);
}
