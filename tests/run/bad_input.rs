//! Wrong input is refused with its place, the mistake, and the nearest valid word.

use crate::tcpxctl::Tool;

/// Checks that this scenario is refused with these words before anything runs.
fn refused(scenario: impl AsRef<[u8]>, words: &[&str]) {
    let tool = Tool::new(&["run", "scenario.toml"]);
    tool.write("scenario.toml", scenario);
    let ended = tool.ends_with(2);
    ended.says(&["scenario.toml"]).says(words);
    assert!(
        ended.out.is_empty() && ended.run_folders().is_empty(),
        "{ended}"
    );
    assert!(ended.err.len() < 4000, "{} bytes of error", ended.err.len());
}

/// Checks that this setting of a valid scenario is refused with these words.
fn refused_setting(setting: &str, words: &[&str]) {
    let ended = Tool::run(&[setting]).ends_with(2);
    ended.says(words);
    assert!(
        ended.out.is_empty() && ended.run_folders().is_empty(),
        "{ended}"
    );
}

#[test]
fn files_that_are_not_scenarios() {
    refused("", &["empty"]);
    refused("# only a remark\n", &["empty"]);
    let junk: Vec<u8> = (0..4096u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    refused(&junk, &[]);
    refused([b'x'; 100_000], &[]);
    refused(
        "name = \"x\"\n".repeat(1_000_000),
        &["larger than 1048576 bytes"],
    );
    let folder = Tool::new(&["run", "."]).ends_with(2);
    folder.says(&["directory"]);
    let missing = Tool::new(&["run", "scenarios/4con.toml"]).ends_with(2);
    missing.says(&["scenarios/4con.toml"]);
    Tool::new(&["run", "/dev/zero"])
        .ends_with(2)
        .says(&["/dev/zero"]);
    Tool::new(&["run"]).ends_with(2).says(&["<SCENARIO>"]);
}

#[test]
fn a_misspelt_key_gets_the_nearest_known_one() {
    refused(
        "name = \"x\"\n[transfer]\nconections = 4\n",
        &["conections", "connections", "scenario.toml:3"],
    );
    refused(
        "name = \"x\"\n[progres]\npolicy = \"spin\"\n",
        &["progres", "progress"],
    );
    refused_setting("transfer.chnk=1MiB", &["--set", "chnk", "chunk"]);
    refused_setting("transfer", &["--set", "KEY=VALUE"]);
    Tool::new(&["run", "small.toml", "--sets", "x"])
        .ends_with(2)
        .says(&["--set"]);
    Tool::new(&["handshak"]).ends_with(2).says(&["handshake"]);
}

#[test]
fn sizes_and_counts_out_of_range() {
    for (key, values) in [
        (
            "transfer.chunk",
            &[
                "0",
                "-1",
                "99999999999999999999",
                "2GiB",
                "\"18446744073709551615KiB\"",
                "4MB/s",
            ][..],
        ),
        ("transfer.total", &["0", "-5", "2TiB", "1.5"]),
        (
            "transfer.connections",
            &["0", "100000", "-1", "four", "99999999999999999999"],
        ),
        ("transfer.recv_window", &["17", "0", "-1"]),
        ("transfer.send_window", &["17", "0"]),
        ("transfer.iterations", &["0", "1000001"]),
        ("limits.stall_after", &["0s", "3", "99h", "-1s"]),
        ("progress.idle", &["sleep:10", "sleep:10s", "lazy"]),
        ("fault.channel", &["7"]),
    ] {
        for value in values {
            let last = key.rsplit('.').next().unwrap();
            let extra = if key == "fault.channel" {
                "fault={by='driver',kind='not-polling',side='send'}"
            } else {
                "name=x"
            };
            let ended = Tool::run(&[extra, &format!("{key}={value}")]).ends_with(2);
            ended.says(&[last, value.trim_matches('"'), "expected"]);
        }
    }
}

#[test]
fn a_chunk_above_four_mib_is_refused_for_the_tcpx_family_only() {
    let big = ["transfer.chunk=5MiB", "transfer.total=10MiB"];
    let ended = Tool::run(&big).ends_with(2);
    ended.says(&["transfer.chunk", "5MiB", "4MiB", "TCPX"]);
    assert_eq!(ended.record()["outcome"], "not-run");
    Tool::run(&big).strict("").ends_with(0);
}

#[test]
fn wrong_usage_is_one_document() {
    for tool in [
        Tool::run(&["transfer.connections=0"]),
        Tool::new(&["handshake", "--set", "transfer.chunk=0"]),
        Tool::new(&["discover", "--plugin", "no such plugin"]),
        Tool::new(&["mr", "--set", "x"]),
    ] {
        let json = tool.arg("--json").ends_with(2).json();
        assert_eq!(
            (&json["outcome"], &json["exit_code"]),
            (&"usage".into(), &2.into()),
            "{json}"
        );
        assert!(
            json["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{json}"
        );
    }
}

#[test]
fn variables_are_checked_like_flags() {
    let ended = Tool::run(&[])
        .env("TCPXCTL_SET", "transfer.connections=0")
        .ends_with(2);
    ended.says(&["TCPXCTL_SET", "connections", "0"]);
    let ended = Tool::run(&[])
        .env("TCPXCTL_PLUGIN", "/no/such.so")
        .ends_with(3);
    ended.says(&["/no/such.so", "no such file"]);
}

#[test]
fn flags_of_handshake() {
    for arguments in [
        &["-n", "0"][..],
        &["-n", "100000"],
        &["-n", "x"],
        &["--repeat", "0"],
    ] {
        Tool::new(
            &["handshake"]
                .iter()
                .chain(arguments)
                .copied()
                .collect::<Vec<_>>(),
        )
        .ends_with(2)
        .says(&arguments[1..]);
    }
}

#[test]
fn a_sweep_point_that_did_not_run_is_in_the_table() {
    let ended = Tool::run(&["transfer.connections=[1,2]", "requires=['gpu']"]).ended();
    let table = ended
        .out
        .split("# Sweep, 2 of 2 points")
        .nth(1)
        .unwrap_or_default();
    assert_eq!(table.matches("not-run").count(), 2, "{ended}");
}

#[test]
fn unwritable_output_is_reported() {
    let script = "exec \"$@\" > /dev/full";
    let ended = Tool::new(&["discover", "--json"])
        .through("sh", &["-c", script, "sh"])
        .ended();
    ended.says(&["the output is incomplete", "No space left"]);
}

/// As `sudo -u` leaves HOME: a folder of another user.
#[test]
fn a_configuration_that_cannot_be_read_is_no_scenario() {
    let tool = Tool::run(&[]);
    let home = tool.folder().join("home");
    std::fs::create_dir_all(home.join("tcpxctl/config.toml")).unwrap();
    let ended = tool
        .env("XDG_CONFIG_HOME", home.to_str().unwrap())
        .ends_with(2);
    assert!(!ended.err.contains("not a scenario file"), "{ended}");
    ended.says(&["the configuration", "config.toml"]);
}

#[test]
fn a_low_limit_of_open_files_is_raised_or_named() {
    let under = |limit: &str| {
        let script = format!("ulimit {limit}; exec \"$@\"");
        Tool::run(&["transfer.total=4MiB"]).through("bash", &["-c", &script, "bash"])
    };
    under("-Sn 64").ends_with(0);
    under("-n 64").ends_with(3).says(&[
        "cannot start a worker: at most 64 files may be open (ulimit -Hn), and a worker needs 256",
    ]);
}

#[test]
fn a_file_size_limit_is_reported() {
    let ended = Tool::run(&["transfer.total=4MiB"])
        .through("bash", &["-c", "ulimit -f 1; exec \"$@\"", "bash"])
        .ends_with(3);
    ended.says(&["File too large"]);
}

#[test]
fn flags_for_another_node_need_peer() {
    for flag in [
        &["--rsh", "ssh"][..],
        &["--secret-file", "f"],
        &["--identity", "f"],
        &["--accept-new-host-key"],
    ] {
        let said = [
            &format!("{}: the flag needs a second node", flag[0])[..],
            "--peer or --join",
        ];
        let run = flag
            .iter()
            .fold(Tool::run(&[]), |tool, argument| tool.arg(argument))
            .ends_with(2);
        run.says(&said);
        assert!(run.run_folders().is_empty(), "{run}");
        for command in ["discover", "doctor", "mr", "selftest"] {
            Tool::new(&[&[command], flag].concat())
                .ends_with(2)
                .says(&said);
        }
    }
}

#[test]
fn doctor_and_selftest_refuse_from() {
    for command in ["doctor", "selftest"] {
        let ended =
            Tool::new(&[command, "--from", "10.0.1.25", "--peer", "10.0.0.226"]).ends_with(2);
        ended.says(&[
            "--from: this command runs on the machine where you type it",
            "run it on 10.0.1.25",
        ]);
    }
}

#[test]
fn a_zero_time_limit_is_refused_and_not_a_hanging_plugin() {
    for command in ["discover", "selftest"] {
        let ended = Tool::new(&[command, "--timeout", "0"]).ends_with(2);
        ended.says(&["'--timeout <SECONDS>'", "0 is not in 1..=86400"]);
    }
}

#[test]
fn a_missing_requirement_of_a_scenario_is_named() {
    for (requirement, words) in [
        ("peer", "both ends are on one machine"),
        ("tcpx", "loaded TCPXSoft_v7"),
    ] {
        let ended = Tool::run(&[&format!("requires=['{requirement}']")]).ends_with(3);
        let skipped = format!("skipped: the scenario requires {requirement}");
        ended.says(&[&skipped, words]).recorded("not-run");
    }
}

/// Connects by `--rsh` to a node with this program in place of tcpxctl.
fn on_a_node_with(program: &str, code: i32, words: &[&str]) {
    let tool = Tool::new(&[
        "handshake",
        "--peer",
        "node1",
        "--rsh",
        "./rsh",
        "--remote-bin",
        "./other",
    ]);
    tool.write_rsh();
    tool.write_program("other", program);
    tool.ends_with(code).says(words);
}

#[test]
fn another_version_or_another_program_on_the_node_is_named() {
    let older = r#"echo '{"hello":{"protocol":1,"version":"0.0.9","pid":7,"facts":{}}}'"#;
    let later = r#"echo '[1,0,{"hello":{"protocol":77,"version":"9.1.0","facts":{"new":1}}}]'"#;
    for (line, words) in [
        (older, ["0.0.9", "protocol 1"]),
        (later, ["9.1.0", "protocol 77"]),
    ] {
        on_a_node_with(
            &format!("#!/bin/sh\n{line}\nexec cat >/dev/null\n"),
            3,
            &words,
        );
    }
    on_a_node_with(
        "#!/bin/sh\necho I am a lamp\n",
        5,
        &["node1", "I am a lamp"],
    );
}

#[test]
fn ends_with_different_plugin_files_are_refused() {
    // The receiver opens another file under the same name.
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        folder.path().join("plugin.so"),
        folder.path().join("other.so"),
    );
    std::fs::copy(crate::strict::library(), &one).unwrap();
    let mut longer = std::fs::read(&one).unwrap();
    longer.push(0);
    std::fs::write(&other, longer).unwrap();
    let redirect =
        crate::tcpxctl::shared_object(include_str!("redirect.c"), folder.path(), "redirect.so");
    let preload = format!("env.recv.LD_PRELOAD={}", redirect.display());
    let (from, to) = (
        format!("env.recv.FROM={}", one.display()),
        format!("env.recv.TO={}", other.display()),
    );
    let ended = Tool::run(&[&preload, &from, &to])
        .arg("--plugin")
        .arg(one.to_str().unwrap())
        .ends_with(2);
    ended.says(&["disagree", "sha256"]);
}

#[test]
fn threads_that_would_overflow_their_stack_are_refused_before_they_start() {
    let ended = Tool::run(&[]).env("RUST_MIN_STACK", "1").ends_with(2);
    ended.says(&["RUST_MIN_STACK=1", "unset RUST_MIN_STACK"]);
    Tool::run(&[]).env("RUST_MIN_STACK", "524288").ends_with(0);
}
