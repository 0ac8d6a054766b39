//! Runs that must pass, with every byte verified.

use crate::tcpxctl::{Ended, Tool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

/// A short transfer, with limits for a busy machine.
const FEW: [&str; 3] = [
    "transfer.iterations=2",
    "transfer.warmup=1",
    "limits.stall_after=30s",
];

/// Checks that a run passed, and that every byte of the measured iterations was verified.
fn check(record: &Value) {
    assert_eq!(record["outcome"], "passed", "{}", record["reason"]);
    assert_eq!(record["exit_code"], 0);
    assert_eq!(record["findings"], Value::Array(Vec::new()));
    let verify = record["scenario"]["resolved"]["transfer"]["verify"] == true;
    let transfers = record["transfers"].as_array().unwrap();
    assert!(!transfers.is_empty());
    for transfer in transfers {
        let bytes = transfer["bytes"].as_u64().unwrap();
        assert!(bytes > 0);
        assert_eq!(
            transfer["verified_bytes"].as_u64(),
            Some(if verify { bytes } else { 0 }),
            "{transfer}"
        );
        assert_eq!(transfer["wrong_bytes"], 0);
        assert!(transfer["gb_per_s"].as_f64().unwrap() > 0.0);
    }
}

/// Checks that a small run with these keys passes.
fn passes(settings: &[&str]) -> Ended {
    passed(Tool::run(settings))
}

fn passed(tool: Tool) -> Ended {
    let ended = tool.ends_with(0);
    check(&ended.record());
    ended
}

/// Checks that a shortened shipped scenario passes at each of its points.
fn ships(name: &str, points: usize, settings: &[&str]) {
    let ended = Tool::shipped(name, &[&FEW, settings].concat())
        .arg("--json")
        .ends_with(0);
    let document = ended.json();
    if points == 1 {
        assert_eq!(document, ended.record(), "stdout and run.json differ");
        return check(&document);
    }
    assert_eq!(document["schema"], "tcpxctl.sweep/1");
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(
        (runs.len(), ended.run_folders().len()),
        (points, points),
        "{ended}"
    );
    runs.iter().for_each(check);
}

#[test]
fn the_baseline_scenario_passes_unchanged() {
    let ended = Tool::shipped(
        "4conn.toml",
        &["transfer.iterations=2", "limits.stall_after=30s"],
    )
    .ends_with(0);
    check(&ended.record());
    ended.says(&[
        "#wrong",
        "134217728 bytes verified, 0 wrong",
        "local->peer",
        "# Outcome : passed",
        "# Record : ",
    ]);
}

/// Enough requests for channels to be compared with each other.
const ENOUGH: [&str; 2] = ["transfer.total=4MiB", "transfer.chunk=32KiB"];

/// Checks that 20 runs of a shipped scenario, cut short, find nothing. `scripts/rehearse --shipped`
/// runs each at its full size.
fn is_quiet(name: &str, points: usize, settings: &[&str]) {
    let short = [
        "transfer.total=1MiB",
        "env.NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=0",
    ];
    for _ in 0..20 {
        ships(name, points, &[&short, settings].concat());
    }
}

#[test]
fn shipped_scenarios_of_a_pair_are_quiet_however_often_they_run() {
    for name in [
        "1conn.toml",
        "4conn.toml",
        "8conn-1nic.toml",
        "bidirectional.toml",
    ] {
        is_quiet(name, 1, &ENOUGH);
    }
}

#[test]
fn shipped_sweeps_are_quiet_however_often_they_run() {
    is_quiet("latency.toml", 3, &["transfer.total=32KiB"]);
    is_quiet("progress.toml", 3, &["transfer.chunk=32KiB"]);
    is_quiet("sweep.toml", 4, &["transfer.chunk=32KiB"]);
}

#[test]
fn the_shipped_kv_cache_is_quiet_however_often_it_runs() {
    let few = ["traffic.tokens=128", "traffic.requests=2"];
    for _ in 0..20 {
        ships("kv-cache.toml", 1, &few);
    }
}

#[test]
fn shipped_scenarios_of_eight_gpus_are_quiet_however_often_they_run() {
    for name in [
        "8gpu-full-mesh.toml",
        "8gpu-per-process.toml",
        "8gpu-single-process.toml",
    ] {
        is_quiet(name, 1, &["transfer.chunk=32KiB"]);
    }
}

/// Every version with the shipped scenarios: in v4, `connect` and `accept` block, even if each end
/// does both, and a receive in device memory is complete only after a flush.
#[test]
fn shipped_scenarios_run_unchanged_on_every_version_of_a_plain_plugin() {
    for version in tcpx_abi::VERSIONS {
        let abi = format!("v{version}");
        let on_device: &[&str] = &["transfer.memory=device"];
        for (name, more) in [
            ("4conn.toml", &[][..]),
            ("bidirectional.toml", &[]),
            ("4conn.toml", on_device),
        ] {
            let settings = [&FEW[..], &["transfer.total=2MiB"], more].concat();
            let ended = Tool::shipped(name, &settings)
                .arg("--plugin")
                .arg("plainsoft")
                .arg("--abi")
                .arg(&abi)
                .ends_with(0);
            check(&ended.record());
            if !more.is_empty() {
                assert!(flushes(&ended) > 0, "{ended}");
            }
            let narrow = ": a plugin of ncclNet v";
            assert_eq!(ended.out.contains(narrow), version <= 6, "{ended}");
        }
    }
}

/// A plugin with fewer request slots than the window refuses a post.
#[test]
fn the_window_follows_what_a_plugin_grants() {
    let refuses = [
        "fault.by=plugin",
        "fault.side=recv",
        "fault.spec=rc:call=irecv,value=3,nth=10",
        "transfer.connections=1",
        "transfer.total=4MiB",
    ];
    let run = || Tool::run(&refuses).arg("--plugin");
    let ended = run().arg("plainsoft").ends_with(0);
    ended.says(&[
        "windows : ",
        " of 16 recv: the plugin refused another request",
    ]);
    let path = ended.run_folders()[0].to_owned();
    Tool::new(&["diagnose", path.to_str().unwrap()])
        .ends_with(0)
        .says(&["nothing"]);
    // An unpacking plugin has sixteen, so that it is an error.
    run().arg("builtin").ends_with(1);
}

/// Number of requests that `iflush` made, from the receiver's recorder.
fn flushes(ended: &Ended) -> u64 {
    let recorder = ended.run_folders()[0].join("nodes/peer/recorder.tcpxrec");
    let snapshot = tcpx_recorder::Reader::open(&recorder)
        .unwrap()
        .snapshot()
        .unwrap();
    snapshot
        .channels
        .iter()
        .map(|channel| channel.flushes)
        .sum()
}

#[test]
fn device_memory_with_a_plugin_without_it_is_an_error() {
    let tool = Tool::shipped("4conn.toml", &["transfer.memory=device"]).env("TCPXSOFT_CUDA", "off");
    let ended = tool.arg("--plugin").arg("plainsoft").ends_with(3);
    ended.says(&[
        "no device of PlainSoft accepts GPU memory",
        "TCPXSOFT_CUDA=standin",
    ]);
}

#[test]
fn a_sweep_has_a_run_for_every_combination() {
    ships("sweep.toml", 16, &["transfer.total=1MiB"]);
    let ended = Tool::run(&["transfer.connections=[1, 2]"]).ends_with(0);
    ended.says(&[
        "# Point : connections=1",
        "# Point : connections=2",
        "# Sweep, 2 of 2 points",
    ]);
}

#[test]
fn every_direction_policy_and_idle_strategy() {
    for direction in ["forward", "reverse", "both"] {
        for policy in ["opportunistic", "window-full-only", "dedicated-thread"] {
            let ended = passes(&[
                &format!("transfer.direction={direction}"),
                &format!("progress.policy={policy}"),
            ]);
            let record = ended.record();
            let ways: Vec<String> = record["transfers"]
                .as_array()
                .unwrap()
                .iter()
                .map(way)
                .collect();
            let expected: &[&str] = match direction {
                "forward" => &["0>1"],
                "reverse" => &["1>0"],
                _ => &["0>1", "1>0"],
            };
            assert_eq!(ways, expected);
        }
    }
    for idle in ["adaptive", "spin", "yield", "sleep:20us"] {
        passes(&[&format!("progress.idle={idle}")]);
    }
}

fn way(transfer: &Value) -> String {
    format!("{}>{}", transfer["from"], transfer["to"])
}

#[test]
fn ping_pong_prints_round_trip_times() {
    let record = passes(&["transfer.direction=ping-pong", "transfer.connections=1"]).record();
    let trip = |key: &str| {
        record["transfers"][0]["round_trip_us"][key]
            .as_f64()
            .unwrap()
    };
    assert!(
        0.0 < trip("p50") && trip("p50") <= trip("p99") && trip("p99") <= trip("max"),
        "{record}"
    );
}

#[test]
fn sizes_that_are_not_multiples_of_the_chunk() {
    for [chunk, total, connections] in [
        ["64KiB", "1000003", "3"],
        ["1000", "4095", "2"],
        ["1", "7", "1"],
        ["4MiB", "5MiB", "2"],
        ["1MiB", "1", "4"],
    ] {
        let keys = [
            ("chunk", chunk),
            ("total", total),
            ("connections", connections),
        ];
        let settings = keys.map(|(key, value)| format!("transfer.{key}={value}"));
        passes(&settings.each_ref().map(String::as_str));
    }
    passes(&["transfer.recv_window=1", "transfer.send_window=1"]);
    passes(&["transfer.recv_window=16", "transfer.send_window=16"]);
}

#[test]
fn two_hundred_and_fifty_six_channels() {
    passes(&[
        "transfer.connections=256",
        "transfer.chunk=4KiB",
        "transfer.total=4MiB",
    ]);
}

#[test]
fn builtin_or_loaded_with_progress_in_test_or_in_a_helper() {
    for plugin in ["builtin", "soft"] {
        for io in ["inline", "helper"] {
            let tool =
                Tool::run(&["transfer.chunk=256KiB", "transfer.total=4MiB"]).env("TCPXSOFT_IO", io);
            let ended = passed(
                tool.env("NCCL_NSOCKS_PERTHREAD", "4")
                    .arg("--plugin")
                    .arg(plugin),
            );
            let record = ended.record();
            let used = &record["pairs"][0]["workers"][1]["plugin"];
            assert_eq!(used["name"], "TCPXSoft_v7");
            assert_eq!(used["path"] == "builtin", plugin == "builtin", "{used}");
        }
    }
}

#[test]
fn device_memory_is_verified_under_each_unpack_policy_that_unpacks() {
    for unpack in ["auto", "kernel", "d2d", "host"] {
        passes(&[
            "transfer.memory=device",
            "transfer.chunk=256KiB",
            &format!("transfer.unpack={unpack}"),
        ]);
    }
    let ended = passes(&[
        "transfer.memory=device",
        "transfer.unpack=none",
        "transfer.verify=false",
    ]);
    ended.says(&["payload not verified"]);
}

#[test]
fn the_plugin_s_own_interface_may_be_the_loopback() {
    let ended = passed(Tool::run(&[]).env("TCPXSOFT_SOCKET_IFNAME", "=lo"));
    assert_eq!(ended.record()["transfers"][0]["channels"][0]["dev"], "lo");
}

#[test]
fn channels_are_dealt_to_the_driving_threads() {
    let check = |settings: &[&str], threads: usize, why: &str| {
        let ended = passes(settings);
        for worker in ended.record()["pairs"][0]["workers"].as_array().unwrap() {
            let driving = &worker["driving"];
            assert_eq!(
                driving["cpu_seconds"].as_array().unwrap().len(),
                threads,
                "{driving}"
            );
            assert!(
                driving["why"].as_str().unwrap().starts_with(why),
                "{driving}"
            );
            assert!(driving["bytes"].as_u64().unwrap() > 0, "{driving}");
        }
        ended
    };
    let five = "transfer.connections=5";
    let ended = check(&[five, "progress.threads=3"], 3, "progress.threads");
    ended.says(&["driven by : 3 threads (progress.threads), 0."]);
    check(&[five, "progress.threads=64"], 5, "progress.threads");
    check(
        &[five, "progress.policy=dedicated-thread"],
        5,
        "policy dedicated-thread",
    );
    check(
        &[five, "progress.policy=window-full-only"],
        1,
        "policy window-full-only",
    );
    check(
        &["transfer.direction=both", "progress.threads=2"],
        2,
        "progress.threads",
    );
    check(&["transfer.direction=ping-pong"], 1, "direction ping-pong");
    // How many CPUs there are depends on the machine.
    let auto = passes(&[five]).record()["pairs"][0]["workers"][0]["driving"].clone();
    assert!(
        auto["why"].as_str().unwrap().starts_with("5 channels, "),
        "{auto}"
    );
}

#[test]
fn a_single_cpu_serves_both_ends_of_its_channels() {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    // What this thread starts has its CPUs.
    sched_setaffinity(None, &one).unwrap();
    let ended = passes(&["transfer.connections=3"]);
    sched_setaffinity(None, &all).unwrap();
    ended.says(&[
        "driven by : 1 thread (3 channels, 1 CPU for 2 workers, one CPU for both ends of a channel)",
    ]);
}

#[test]
fn a_dry_run_shows_origins_and_runs_nothing() {
    let ended = Tool::shipped("sweep.toml", &["transfer.connections=3"])
        .env("TCPXCTL_SET", "limits.total=2m")
        .arg("--dry-run")
        .ends_with(0);
    ended.says(&[
        "--set",
        "TCPXCTL_SET",
        "sweep.toml:",
        "default",
        "NCCL_DYNAMIC_CHUNK_SIZE=",
        "# Would start : ",
    ]);
    assert!(ended.run_folders().is_empty(), "{ended}");
    let json = Tool::run(&[])
        .arg("--dry-run")
        .arg("--json")
        .ends_with(0)
        .json();
    assert_eq!(
        json["points"][0]["keys"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|key| key["key"] == "transfer.chunk")
            .count(),
        1
    );
}

#[test]
fn a_dry_run_shows_the_settings_in_which_the_scenario_lets_the_ends_differ() {
    let settings = [
        "env.send={NCCL_DYNAMIC_CHUNK_SIZE=\"524288\"}",
        "env.recv={NCCL_DYNAMIC_CHUNK_SIZE=\"262144\", NCCL_X=\"1\"}",
    ];
    for (direction, [local, peer]) in [
        ("forward", ["524288", "262144"]),
        ("reverse", ["262144", "524288"]),
        ("both", ["524288", "262144"]),
    ] {
        let direction = format!("transfer.direction={direction}");
        let tool = || Tool::run(&[settings[0], settings[1], &direction]).arg("--dry-run");
        let differs = format!(
            "# Differs, by the scenario : NCCL_DYNAMIC_CHUNK_SIZE is `{local}` on local and `{peer}` on peer\n"
        );
        let ended = tool().ends_with(0);
        ended.says(&[&differs, "# Differs, by the scenario : NCCL_X is "]);
        assert!(!ended.out.contains("a run is refused"), "{ended}");
        let point = &tool().arg("--json").ends_with(0).json()["points"][0];
        let count = |key: &str| point[key].as_array().unwrap().len();
        assert_eq!(["chosen_differences", "differences"].map(count), [2, 0]);
    }
    let alike = Tool::run(&["env.NCCL_X=1"])
        .env("NCCL_OF_THE_SHELL", "7")
        .arg("--dry-run")
        .ends_with(0);
    alike.says(&["# Environment, local, its own : NCCL_OF_THE_SHELL=7\n"]);
    assert!(!alike.out.contains("# Differs"), "{alike}");
}

#[test]
fn a_dry_run_and_a_report_show_what_each_node_sets_by_itself() {
    let shell = "#!/bin/sh\nexport NCCL_SOCKET_IFNAME=eth9 NCCL_NSOCKS_PERTHREAD=3\nshift\nexec sh -c \"$*\"\n";
    let peer = ["--peer", "far", "--rsh", "./shell {}", "--remote-bin"];
    let tool = || {
        let tool = peer
            .into_iter()
            .fold(Tool::run(&[]), |tool, one| tool.arg(one))
            .arg(env!("CARGO_BIN_EXE_tcpxctl"))
            .env("NCCL_SOCKET_IFNAME", "lo");
        tool.write_program("shell", shell);
        tool
    };
    tool().arg("--dry-run").ends_with(0).says(&[
        "# Environment, peer, its own : NCCL_NSOCKS_PERTHREAD=3\n",
        "# Differs, so a run is refused : NCCL_NSOCKS_PERTHREAD is not set on local and `3` on peer",
        "# Differs, as nodes may : NCCL_SOCKET_IFNAME is `lo` on local and `eth9` on peer",
    ]);
    let refused = tool().ends_with(2);
    let run = refused.run_folders()[0].to_owned();
    Tool::new(&["report", "--short", run.to_str().unwrap()])
        .ends_with(0)
        .says(&[
            "* NCCL_NSOCKS_PERTHREAD: absent / 3\n",
            "* NCCL_SOCKET_IFNAME: lo / eth9\n",
        ]);
}

#[test]
fn a_run_takes_the_settings_of_a_script_and_of_this_environment() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("run.sh");
    let text = "export NCCL_FROM_SCRIPT=1 # UCCL_TCPX_NUM_CHANNELS=9\n\
        UCCL_TCPX_NUM_CHANNELS=3 NCCL_SOCKET_NTHREADS=$(nproc) ./bench\n";
    std::fs::write(&script, text).unwrap();
    let script = script.to_str().unwrap();
    let given = |arguments: &[&str]| {
        let tool = Tool::run(&[]).env("NCCL_FROM_HERE_1", "a b");
        arguments.iter().fold(tool, |tool, one| tool.arg(one))
    };
    let both = [
        "--env-file",
        script,
        "--forward-env",
        "NCCL_FROM_HERE*",
        "--dry-run",
    ];
    let ended = given(&both).ends_with(0);
    ended.says(&[
        "run.sh:2 UCCL_TCPX_NUM_CHANNELS",
        "# Note : ",
        "NCCL_SOCKET_NTHREADS is not taken: a command computes it",
        "NCCL_FROM_SCRIPT=1",
        "NCCL_FROM_HERE_1=a b",
    ]);
    given(&["--env-file", "/no/run.sh"])
        .ends_with(2)
        .says(&["--env-file /no/run.sh"]);
    given(&["--forward-env", "*"])
        .ends_with(2)
        .says(&["variables of any name", "NCCL_*"]);
}

#[test]
fn the_saved_scenario_runs_again_unchanged() {
    let first = passes(&["transfer.chunk=96KiB", "env.recv.NCCL_X=1"]);
    let written = first.run_folders()[0].join("scenario.toml");
    let again = passed(Tool::new(&["run", written.to_str().unwrap()]));
    let sha256 = |ended: &Ended| ended.record()["scenario"]["sha256"].clone();
    assert_eq!(sha256(&first), sha256(&again));
}
