//! Every fault that the software plugin and the driver can inject, by a scenario's `[fault]`. Each
//! run ends as its `[expect]` requires, with exit code 0.

use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;

/// Short limits, and connects that do not wait for flow steering.
const SHORT: [&str; 4] = [
    "limits.stall_after=600ms",
    "limits.give_up_after=600ms",
    "limits.connect=3s",
    "env.NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=0",
];

fn expects(outcome: &str, fault: &[&str], more: &[&str], words: &[&str]) -> Ended {
    let outcome_key = format!("expect.outcome={outcome}");
    let settings = [&SHORT, fault, more, &[outcome_key.as_str()]].concat();
    let ended = Tool::run(&settings).ends_with(0);
    ended.says(words).recorded(outcome);
    ended
}

/// `[fault] by = "plugin"` at one end.
fn plugin(side: &str, spec: &str, outcome: &str, words: &[&str]) -> Ended {
    let (side, spec) = (format!("fault.side={side}"), format!("fault.spec={spec}"));
    expects(outcome, &["fault.by=plugin", &side, &spec], &[], words)
}

/// `[fault] by = "driver"` at one end.
fn driver(side: &str, kind: &str, outcome: &str, more: &[&str], words: &[&str]) -> Ended {
    let fault = format!("fault={{by='driver', side='{side}', kind='{kind}', after_chunk=4}}");
    expects(outcome, &[&fault], more, words)
}

fn findings(ended: &Ended) -> Vec<Value> {
    ended.record()["findings"].as_array().unwrap().clone()
}

#[test]
fn a_plugin_that_stops_is_a_stall() {
    for (side, spec, found) in [
        // Whether the bytes that the plugin does not read fit into the socket buffers depends on
        // the machine's load.
        (
            "recv",
            "stop:after=5",
            &["nothing-arrives", "zero-window-at-peer"][..],
        ),
        ("send", "stop:after=5,comm=1", &["one-channel-starved"]),
        // So does whether the other channel is through its iteration by then.
        (
            "send",
            "drop-ctrl:nth=4",
            &["nothing-arrives", "one-channel-starved"],
        ),
        (
            "recv",
            "starve:socket=0,after=3",
            &["nothing-arrives", "zero-window-at-peer"],
        ),
    ] {
        let ended = plugin(
            side,
            spec,
            "stalled",
            &[
                "stall declared",
                "local send 0 : posted",
                "peer recv 0 : posted",
            ],
        );
        let first = findings(&ended)[0]["condition"].clone();
        assert!(found.iter().any(|one| first == *one), "{ended}");
    }
}

#[test]
fn a_late_plugin_is_not_a_stall() {
    plugin("send", "delay-ctrl:nth=3,ms=150", "passed", &[]);
    plugin("recv", "refuse:times=2", "passed", &[]);
    plugin("recv", "spin:call=test,nth=4,ms=100", "passed", &[]);
}

#[test]
fn the_log_line_of_a_refused_call_is_quoted() {
    for (side, call) in [
        ("recv", "listen"),
        ("send", "connect"),
        ("recv", "accept"),
        ("recv", "regMr"),
        ("send", "isend"),
        ("recv", "irecv"),
        ("recv", "irecvConsumed"),
        ("send", "closeSend"),
        ("recv", "closeRecv"),
        ("send", "deregMr"),
    ] {
        plugin(
            side,
            &format!("rc:call={call},value=3"),
            "failed",
            &[&format!("{call} returned 3")],
        );
    }
    plugin(
        "send",
        "rc:call=test,value=3,nth=9",
        "failed",
        &["test returned 3"],
    );
    plugin(
        "send",
        "rc:call=test,value=2,nth=9",
        "failed",
        &["test returned 2"],
    );
    plugin("recv", "refuse", "failed", &[]);
    for call in ["init", "devices", "getProperties"] {
        plugin(
            "recv",
            &format!("rc:call={call},value=3"),
            "not-run",
            &[&format!("{call} returned 3")],
        );
    }
}

#[test]
fn an_error_on_one_thread_ends_the_others() {
    let fault = "fault={by='plugin', side='send', spec='rc:call=test,value=3,nth=9,comm=1'}";
    expects(
        "failed",
        &[fault],
        &["transfer.connections=4", "progress.threads=4"],
        &["test returned 3"],
    );
}

#[test]
fn rc_2_of_a_receive_is_retried_before_it_fails() {
    plugin("recv", "rc:call=test,value=2,nth=9", "passed", &[]);
    plugin(
        "recv",
        "rc:call=test,value=2,nth=9,times=0",
        "failed",
        &["the peer closed with", "test returned 2"],
    );
}

#[test]
fn a_data_socket_that_closes_is_a_stall() {
    // The helper thread ends without a log message, as in the real plugin.
    plugin("send", "close:after=200000", "stalled", &[]);
    plugin("recv", "close:after=200000", "stalled", &[]);
}

#[test]
fn a_plugin_that_exits_is_named_with_its_last_log_line() {
    let ended = plugin(
        "recv",
        "exit:chunk=3",
        "plugin-died",
        &["the plugin of peer called exit(1)", "no cmsg"],
    );
    // The counters of the dead worker come from its recorder.
    let record = ended.record();
    let channels = record["transfers"][0]["channels"].as_array().unwrap();
    let received = channels
        .iter()
        .filter(|channel| channel["side"] == "recv" && channel["dev"] != "");
    let posted: u64 = received
        .map(|channel| channel["posted"].as_u64().unwrap())
        .sum();
    assert!(channels.len() == 4 && posted > 0, "{record}");
}

#[test]
fn a_plugin_that_never_connects_meets_the_deadline() {
    for side in ["send", "recv"] {
        let ended = plugin(side, "hang", "stalled", &["still not ready"]);
        assert!(
            ended.out.contains("connects") && ended.out.contains("accepts"),
            "{ended}"
        );
    }
}

#[test]
fn a_call_that_does_not_return_is_named() {
    for (side, call) in [
        ("recv", "test"),
        ("send", "isend"),
        ("recv", "irecv"),
        ("recv", "irecvConsumed"),
    ] {
        plugin(
            side,
            &format!("spin:call={call},nth=3"),
            "stalled",
            &[&format!("did not return from {call}")],
        );
    }
    for (side, call) in [("recv", "irecv"), ("send", "isend")] {
        let ended = plugin(
            side,
            &format!("spin:call={call}"),
            "stalled",
            &[&format!("did not return from {call}")],
        );
        assert!(
            findings(&ended)[0]["because"]
                .to_string()
                .contains(&format!("inside {call}")),
            "{ended}"
        );
    }
}

#[test]
fn a_setup_or_close_call_that_does_not_return_is_named() {
    plugin(
        "recv",
        "spin:call=init",
        "not-run",
        &["hangs while initialising"],
    );
    for (side, call) in [
        ("recv", "listen"),
        ("send", "connect"),
        ("recv", "accept"),
        ("send", "regMr"),
    ] {
        plugin(
            side,
            &format!("spin:call={call}"),
            "stalled",
            &[&format!("did not return from {call}")],
        );
    }
    for (side, call) in [
        ("send", "closeSend"),
        ("recv", "closeRecv"),
        ("recv", "deregMr"),
    ] {
        let ended = plugin(
            side,
            &format!("spin:call={call}"),
            "stalled",
            &[&format!("did not return from {call}")],
        );
        ended.says(&["2097152 bytes verified, 0 wrong"]);
    }
}

#[test]
fn a_flipped_byte_is_found_with_its_position() {
    let ended = plugin("recv", "corrupt:chunk=7,byte=100", "failed", &["2 wrong"]);
    let record = ended.record();
    assert_eq!(
        record["transfers"][0]["wrong_bytes"],
        1 + 1,
        "one per channel: {record}"
    );
    assert_eq!(record["transfers"][0]["mismatches"][0]["offset"], 100);
    let one = plugin(
        "recv",
        "seed=7;corrupt:chunk=2,comm=1",
        "failed",
        &["wrong : channel 1 "],
    );
    assert_eq!(one.record()["transfers"][0]["wrong_bytes"], 1);
}

#[test]
fn an_unknown_fault_is_refused_by_the_plugin() {
    plugin("recv", "explode", "not-run", &["explode"]);
}

#[test]
fn a_driver_that_never_consumes_or_never_polls_stalls() {
    let ended = driver(
        "recv",
        "never-consumed",
        "stalled",
        &[],
        &["first seen by peer (recv channel 0: "],
    );
    assert_eq!(findings(&ended)[0]["condition"], "window-never-consumed");
    for side in ["send", "recv"] {
        driver(side, "not-polling", "stalled", &[], &["stall declared"]);
    }
}

#[test]
fn a_driver_that_breaks_the_order_is_refused_by_the_plugin() {
    driver(
        "recv",
        "younger-tested-first",
        "failed",
        &[],
        &["test returned 3", "test called with invalid request"],
    );
    driver(
        "recv",
        "seventeenth-post",
        "failed",
        &[],
        &["irecv returned 3", "unable to allocate requests"],
    );
    driver(
        "send",
        "seventeenth-post",
        "failed",
        &[],
        &["isend returned 3", "unable to allocate requests"],
    );
}

#[test]
fn a_stopped_process_and_an_ended_process_are_distinguished() {
    // Long enough for the agent to read the worker's state.
    let endless = ["transfer.iterations=1000000", "limits.total=50s"];
    for (kind, outcome, words) in [
        ("exit", "plugin-died", "called exit(1)"),
        ("crash", "plugin-died", "SIGABRT"),
        ("kill", "plugin-died", "SIGKILL"),
        ("stop", "stalled", "stall declared"),
        ("kill-agent", "peer-lost", "the agent of peer"),
        ("end-agent", "peer-lost", "the agent of peer ended"),
    ] {
        let fault = format!("fault={{by='process', side='recv', kind='{kind}', after_chunk=4}}");
        expects(outcome, &[&fault], &endless, &[words]);
    }
}

#[test]
fn packets_that_are_lost_are_a_stall() {
    let fault = "fault={by='network', side='recv', kind='loss', after_chunk=4}";
    expects("stalled", &[fault], &[], &["stall declared"]);
    // TCP retransmits a loss of a few per cent.
    let fault = "fault={by='network', side='recv', kind='loss', percent=2}";
    expects("passed", &[fault], &["limits.stall_after=5s"], &[]);
}

#[test]
fn a_driver_that_stops_posting_stalls_the_other_end() {
    for side in ["send", "recv"] {
        // After more chunks than the first window.
        driver(
            side,
            "not-posting",
            "stalled",
            &["transfer.total=8MiB"],
            &["stall declared"],
        );
    }
}

#[test]
fn receives_that_nothing_unpacks_are_seen_also_in_each_slots_first_use() {
    let one_chunk = ["transfer.total=64KiB", "transfer.chunk=64KiB"];
    // The scenario expects the finding.
    Tool::shipped("repro/not-unpacked.toml", &one_chunk).ends_with(0);
}

#[test]
fn consuming_early_is_never_a_silent_pass() {
    let device = [
        "transfer.memory=device",
        "transfer.chunk=256KiB",
        "transfer.total=8MiB",
    ];
    let ended = driver("recv", "consumed-early", "failed", &device, &[]);
    let wrong = ended.record()["transfers"][0]["wrong_bytes"]
        .as_u64()
        .unwrap();
    assert!(wrong > 0 || ended.err.contains("refused"), "{ended}");
}

#[test]
fn an_expectation_that_is_not_met_keeps_the_outcome_s_code() {
    let fault = [
        "fault.by=plugin",
        "fault.side=recv",
        "fault.spec=exit:chunk=3",
    ];
    let ended = Tool::run(&fault)
        .set(&["expect.outcome=stalled"])
        .ends_with(6);
    ended.says(&["expect.outcome is stalled, it was plugin-died"]);
    let ended = Tool::run(&["expect.outcome=stalled"]).ends_with(1);
    ended.says(&["expect.outcome is stalled, it was passed"]);
    Tool::run(&["expect.min_gb_per_s=100000"])
        .ends_with(1)
        .says(&["expect.min_gb_per_s is 100000"]);
    Tool::run(&["expect.plugin=Strict"])
        .ends_with(1)
        .says(&["expect.plugin is Strict"]);
    Tool::run(&["expect.finding=stalled"])
        .ends_with(1)
        .says(&["expect.finding is stalled"]);
}
