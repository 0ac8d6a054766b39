//! Runs on the strict C plugin: each passes or names the cause of its failure.

use crate::tcpxctl::Tool;

#[test]
fn a_run_passes_with_the_default_hazards() {
    for sockets in ["1", "4"] {
        let ended = Tool::run(&["transfer.chunk=256KiB", "transfer.total=4MiB"])
            .strict("")
            .env("NCCL_NSOCKS_PERTHREAD", sockets)
            .ends_with(0);
        let record = ended.recorded("passed");
        assert_eq!(record["transfers"][0]["verified_bytes"], 8 << 20);
        assert_eq!(
            record["pairs"][0]["workers"][0]["plugin"]["name"], "Strict_v7",
            "{ended}"
        );
    }
    for setting in [
        "transfer.direction=both",
        "progress.policy=dedicated-thread",
        "progress.idle=yield",
    ] {
        Tool::run(&[setting]).strict("").ends_with(0);
    }
}

#[test]
fn a_run_passes_with_harmless_hazards() {
    for hazards in ["none", "stdout", "warn-flood=50"] {
        Tool::run(&[])
            .strict(hazards)
            .ends_with(0)
            .recorded("passed");
    }
}

#[test]
fn a_million_warnings_are_counted_and_thinned() {
    let ended = Tool::run(&["transfer.iterations=1"])
        .strict("warn-flood=40000")
        .ends_with(0);
    let record = ended.recorded("passed");
    let lines = record["pairs"][0]["workers"][1]["log_lines"][1]
        .as_u64()
        .unwrap();
    assert!(lines >= 1_000_000, "{lines} WARN lines counted");
    assert!(
        record["pairs"][0]["workers"][1]["warnings"]
            .as_array()
            .unwrap()
            .len()
            <= 50
    );
    let events = std::fs::metadata(ended.run_folders()[0].join("events.jsonl"))
        .unwrap()
        .len();
    assert!(events < 1 << 20, "{events} bytes of events");
}

#[test]
fn the_plugins_stdout_is_separate_from_the_result() {
    let ended = Tool::run(&[]).strict("stdout").arg("--json").ends_with(0);
    assert_eq!(ended.json()["outcome"], "passed");
    let events = std::fs::read_to_string(ended.run_folders()[0].join("events.jsonl")).unwrap();
    assert!(
        events.contains("a line that should have gone to the logger"),
        "{events}"
    );
}

#[test]
fn a_silently_dead_data_socket_is_a_stall() {
    let short = ["limits.stall_after=500ms", "limits.give_up_after=500ms"];
    for policy in ["opportunistic", "window-full-only", "dedicated-thread"] {
        let policy = format!("progress.policy={policy}");
        let ended = Tool::run(&short)
            .set(&[&policy])
            .strict("dead-data-socket=3")
            .ends_with(4);
        ended
            .says(&["# Outcome : stalled", "recv channel"])
            .recorded("stalled");
    }
}

#[test]
fn an_exit_or_a_crash_of_the_plugin_is_named() {
    let ended = Tool::run(&[]).strict("no-cmsg-exit=3").ends_with(6);
    ended.says(&["exit(1)", "no cmsg"]).recorded("plugin-died");
    let ended = Tool::run(&[]).strict("crash-in-test=20").ends_with(6);
    ended.says(&["SIGSEGV"]).recorded("plugin-died");
}

#[test]
fn a_close_that_blocks_is_named_and_the_results_are_kept() {
    let short = ["limits.stall_after=500ms", "limits.give_up_after=500ms"];
    let ended = Tool::run(&short).strict("close-blocks").ends_with(4);
    ended
        .says(&["closeRecv", "2097152 bytes verified, 0 wrong"])
        .recorded("stalled");
}

#[test]
fn a_refused_device_registration_quotes_the_plugin() {
    let on_device = ["transfer.memory=device"];
    let ended = Tool::run(&on_device)
        .strict("")
        .env("TCPXSOFT_CUDA", "standin")
        .ends_with(1);
    ended
        .says(&["regMr", "gpu_tx_reg_mr failed -5"])
        .recorded("failed");
    // Host memory is never registered as GPU memory with a plugin that does not expect it.
    let ended = Tool::run(&on_device)
        .strict("")
        .env("LD_LIBRARY_PATH", "/nowhere")
        .env("CUDA_VISIBLE_DEVICES", "");
    ended.ends_with(3).says(&["next: "]).recorded("not-run");
}

#[test]
fn handshake_and_mr_pass_on_it() {
    Tool::new(&["handshake", "-n", "8"]).strict("").ends_with(0);
    Tool::new(&["mr"])
        .strict("")
        .ends_with(0)
        .says(&["gpu_tx_reg_mr failed -5"]);
    Tool::new(&["mr", "--plugin", "plainsoft"])
        .env("TCPXSOFT_CUDA", "off")
        .ends_with(0)
        .says(&["refused"]);
}
