//! Stalls: declared with the counters of both sides, then ended by the time limit or recovered.

use crate::tcpxctl::Tool;
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

fn stalled_end(findings: &Value) -> (&str, &str) {
    (
        findings[0]["condition"].as_str().unwrap(),
        findings[0]["severity"].as_str().unwrap(),
    )
}

#[test]
fn a_stall_shows_the_counters_of_both_sides_and_is_exit_4() {
    let settings = [
        "limits.stall_after=500ms",
        "limits.give_up_after=500ms",
        "transfer.iterations=1",
    ];
    let ended = Tool::run(&settings)
        .set(&["fault={by='driver',side='recv',kind='never-consumed'}"])
        .ends_with(4);
    let record = ended.recorded("stalled");
    assert_eq!(
        stalled_end(&record["findings"]),
        ("window-never-consumed", "error")
    );
    let because = record["findings"][0]["because"].to_string();
    assert!(
        because.contains("peer recv 0 on eth0: posted 8, done 8, consumed 0")
            || because.contains("peer recv 0 on lo: posted 8, done 8, consumed 0"),
        "{because}"
    );
    ended.says(&[
        "local send 0 : posted 8 done 8",
        "peer recv 0 : posted 8 done 8 consumed 0 in flight 8",
    ]);
    ended.says(&["it did not move again"]);
}

#[test]
fn a_stall_that_ends_is_a_pass_with_a_warning() {
    let settings = [
        "limits.stall_after=500ms",
        "limits.give_up_after=30s",
        "transfer.iterations=200000",
    ];
    let mut run = Tool::run(&settings)
        .set(&["limits.total=50s", "transfer.total=256KiB"])
        .start();
    run.until_event("measuring");
    let worker = run
        .processes()
        .into_iter()
        .find(|process| process.role == "worker")
        .unwrap();
    worker.signal(Signal::STOP);
    run.until_event("stall declared");
    worker.signal(Signal::CONT);
    run.until_event("the stalled channels move again");
    // The rest would take too long; the run only has to continue.
    run.signal(Signal::INT);
    let ended = run.ended();
    let record = ended.recorded("interrupted");
    assert_eq!(
        stalled_end(&record["findings"]),
        ("stalled-and-recovered", "warning")
    );
    ended.says(&["it moved again later"]);
    assert!(
        !ended.out.contains("quiet 0 ms") && !ended.out.contains("#   peer recv 0 :"),
        "{ended}"
    );
}

#[test]
fn a_run_recovers_from_a_delay_longer_than_the_stall_limit() {
    let settings = [
        "limits.stall_after=300ms",
        "limits.give_up_after=30s",
        "expect.finding=stalled-and-recovered",
    ];
    let fault = [
        "fault.by=plugin",
        "fault.side=send",
        "fault.spec=delay-ctrl:nth=5,ms=1500,comm=0",
    ];
    let ended = Tool::run(&settings).set(&fault).ends_with(0);
    let record = ended.recorded("passed");
    assert_eq!(
        stalled_end(&record["findings"]),
        ("stalled-and-recovered", "warning")
    );
    assert!(ended.took > Duration::from_millis(1500), "{ended}");
}

#[test]
fn a_slow_run_is_not_a_stall() {
    let settings = [
        "limits.stall_after=3s",
        "fault.by=plugin",
        "fault.side=send",
        "transfer.warmup=0",
    ];
    let ended = Tool::run(&settings)
        .set(&["fault.spec=delay-ctrl:nth=5,ms=300;delay-ctrl:nth=9,ms=300"])
        .ends_with(0);
    assert_eq!(ended.recorded("passed")["findings"], serde_json::json!([]));
}

#[test]
fn the_whole_run_has_a_deadline() {
    let ended = Tool::run(&["transfer.iterations=1000000", "limits.total=2s"]).ends_with(1);
    ended
        .says(&["not finished within limits.total (2s)"])
        .recorded("failed");
}
