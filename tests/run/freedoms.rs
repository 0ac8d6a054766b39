//! What the ABI leaves to a plugin, one C plugin each: the conformance suite blames none of them, a
//! run passes over it, and a program under the tap gets the same as without.

use crate::built::built;
use crate::strict;
use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;
use std::path::PathBuf;
use tcpx_recorder::list;

/// A plugin of `tests/plugins`.
fn plugin(source: &str) -> PathBuf {
    if source == "strict" {
        return strict::library().to_owned();
    }
    let flags = ["-shared", "-fPIC", "-fvisibility=hidden"];
    let path = format!("plugins/{source}.c");
    built("libnccl-net-free.so", &path, &flags)
}

fn tool(arguments: &[&str], source: &str) -> Tool {
    Tool::new(arguments)
        .arg("--plugin")
        .arg(plugin(source).to_str().unwrap())
        .env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=lo")
        .env("NCCL_DYNAMIC_CHUNK_SIZE", "65536")
}

/// The rows whose name contains `rows`.
fn rows(selftest: &Ended) -> Vec<Value> {
    selftest.json()["rows"].as_array().unwrap().clone()
}

/// Checks that no row whose name contains one of `families` blames the plugin.
fn conforms(source: &str, families: &[&str]) {
    for family in families {
        let ended = tool(&["selftest", "--json", family], source).ends_with(0);
        let passed = |row: &Value| row["verdict"] == "PASS";
        assert!(rows(&ended).iter().any(passed), "{source}: {ended}");
    }
}

/// Checks a run, and a program under the tap. Returns the record of the run.
fn works(source: &str) -> Value {
    let path = plugin(source);
    let run = Tool::run(&[]).arg("--plugin").arg(path.to_str().unwrap());
    let record = run.ends_with(0).recorded("passed");
    let program = built("exchange", "programs/exchange.c", &[]);
    let tap = tool(&["tap", "--folder", "rec"], source);
    std::fs::create_dir(tap.folder().join("rec")).unwrap();
    let command = ["--", program.to_str().unwrap(), "50", "20000", "3"];
    let tap = command.iter().fold(tap, |tap, word| tap.arg(word));
    let tap = tap.ends_with(0);
    tap.says(&["version 7 name Strict_v7", "over 3 comms, 0 wrong"]);
    assert_eq!(list(&tap.folder().join("rec")).unwrap().len(), 1, "{tap}");
    record
}

#[test]
fn a_version_that_a_plugin_logs_in_its_own_words_is_recorded() {
    let record = works("free/words");
    let plugin = &record["pairs"][0]["workers"][0]["plugin"];
    assert_eq!(plugin["version"], "2.7.1-rc3", "{plugin}");
}

#[test]
fn a_connection_that_its_first_send_finishes_fails_no_row() {
    let families = ["connect-sixteen", "order-", "test-", "slots-", "close-"];
    conforms("free/asks", &families);
    works("free/asks");
}

#[test]
fn handlers_of_faults_that_the_program_does_not_catch_are_no_disturbance() {
    conforms("free/faults", &["process-signals"]);
    works("free/faults");
}

#[test]
fn a_row_that_fails_is_reported_although_its_clean_up_would_hang() {
    let ended = tool(&["selftest", "--json", "order-fifo"], "free/asks")
        .env("FREE_DEAF", "1")
        .ends_with(1);
    let why = rows(&ended)[0]["detail"].to_string();
    assert!(why.contains("irecv returned 3"), "{why}");
}

#[test]
fn a_lock_that_accept_holds_while_it_waits_fails_no_row() {
    conforms("free/locks", &["init-again", "connect-", "order-both"]);
}

#[test]
fn a_row_that_slow_closes_use_the_time_of_is_a_limit_of_the_row_here_and_on_a_peer() {
    let check = |of_peer: &[&str]| {
        let row = ["selftest", "limit-connections", "--json", "--timeout", "5"];
        let tool = tool(&[&row, of_peer].concat(), "free/closes");
        tool.write_rsh();
        let ended = tool.ends_with(0);
        let row = rows(&ended).remove(0);
        assert_eq!(row["verdict"], "NOT SUPPORTED", "{ended}");
        let detail = row["detail"].to_string();
        for word in [
            "although each call still returned, while trying this row",
            ", at 64 connections, ",
            " of 128 comms closed, 30",
            " ms per close (median); the worker was killed",
        ] {
            assert!(detail.contains(word), "{word}: {ended}");
        }
    };
    check(&[]);
    let binary = env!("CARGO_BIN_EXE_tcpxctl");
    check(&["--peer", "there", "--rsh", "./rsh", "--remote-bin", binary]);
}

#[test]
fn a_message_that_is_completed_after_a_close_fails_no_row() {
    conforms("free/drains", &["midway"]);
    let ended = tool(
        &["selftest", "--json", "close-by-sender-midway"],
        "free/drains",
    )
    .env("FREE_LOSES", "1")
    .ends_with(1);
    let why = rows(&ended)[0]["detail"].to_string();
    assert!(why.contains("done without all its bytes"), "{why}");
}

#[test]
fn posts_that_are_not_yet_accepted_do_not_fill_a_window() {
    conforms("bad/again", &["slots-", "order-"]);
    works("bad/again");
}

#[test]
fn a_plugin_for_host_memory_owes_no_flush() {
    let ended = tool(&["selftest", "--json", "flush-is"], "free/hostonly").ends_with(0);
    let flush = rows(&ended).remove(0);
    assert_eq!(flush["verdict"], "NOT SUPPORTED", "{flush}");
    works("free/hostonly");
}

#[test]
fn a_run_that_passed_with_fewer_requests_than_its_window_has_no_finding() {
    let path = plugin("free/hostonly");
    let windows = [
        "transfer.send_window=12",
        "transfer.recv_window=16",
        "transfer.total=4MiB",
    ];
    let run = Tool::run(&windows)
        .arg("--plugin")
        .arg(path.to_str().unwrap());
    let ended = run.env("FREE_EIGHT", "1").ends_with(0);
    ended.says(&["windows : 8 of 16 recv: the plugin refused another request"]);
    assert!(!ended.out.contains("slots-exhausted"), "{ended}");
    let record = ended.record();
    let channels = record["transfers"][0]["channels"].as_array().unwrap();
    for channel in channels {
        assert_eq!(channel["consumed"], channel["posted"], "{channel}");
    }
}

#[test]
fn a_descriptor_that_is_kept_is_no_leak_and_one_per_registration_is() {
    conforms("free/hostonly", &["register-storm"]);
    let leaks = tool(&["selftest", "--json", "register-storm"], "free/hostonly");
    let storm = rows(&leaks.env("FREE_LEAK", "1").ends_with(1)).remove(0);
    assert_eq!(storm["verdict"], "FAIL", "{storm}");
}

#[test]
fn a_plugin_may_report_no_error_after_its_peer_has_closed() {
    let ended = tool(&["selftest", "--json", "close-seen"], "free/silent").ends_with(0);
    for row in rows(&ended) {
        let is_remark = |detail: &str| detail.ends_with("only a watchdog detects this");
        assert!(row["detail"].as_str().is_some_and(is_remark), "{row}");
    }
    works("free/silent");
}

#[test]
fn a_machine_that_is_too_busy_to_run_a_plugin_does_not_make_its_calls_slow() {
    std::thread::scope(|scope| {
        for (call, row) in [
            ("listen", "listener-unused"),
            ("connect", "connect-in-turns"),
            ("close", "close-outstanding"),
        ] {
            let selftest = tool(&["selftest", "--json", row], "free/stopped");
            scope.spawn(move || selftest.env("FREE_STOP", call).ends_with(0));
        }
        let blocks = tool(&["selftest", "--json", "listener-unused"], "free/stopped");
        let blocks = blocks.env("FREE_STOP", "listen").env("FREE_SLEEP", "1");
        scope.spawn(move || blocks.ends_with(1));
    });
}

#[test]
fn a_plugin_that_dies_in_init_fails_whatever_row_was_asked_for() {
    for only in ["", "payload-1", "table-"] {
        let ended = tool(&["selftest", "--json", only], "strict");
        let ended = ended.env("STRICT_HAZARD", "none,init-exit").ends_with(1);
        let table = rows(&ended).remove(0);
        assert_eq!(table["id"], "table-v7", "{only}: {table}");
        assert_eq!(table["verdict"], "CRASHED", "{only}: {table}");
    }
}

#[test]
fn no_devices_is_one_answer_whatever_versions_a_plugin_exports() {
    for only in ["", "payload-1"] {
        let one = tool(&["selftest", only], "strict");
        let one = one.env("STRICT_HAZARD", "none,no-devices").ends_with(3);
        assert!(
            one.err.contains("is initialised but has no devices"),
            "{one}"
        );
        for plugin in ["builtin", "plainsoft"] {
            let ended = Tool::new(&["selftest", only, "--plugin", plugin])
                .env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=nosuch")
                .ends_with(3);
            assert!(ended.out.is_empty() && !ended.err.is_empty(), "{ended}");
        }
    }
}
