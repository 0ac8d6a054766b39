//! However a run ends, no process is left, the next run removes leftover recorder files, and the
//! record has the outcome.

use crate::tcpxctl::{Process, Running, SMALL, Tool, recorder_files, shared_object};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// A run that does not end by itself.
fn endless() -> Tool {
    let tool = Tool::run(&["transfer.iterations=1000000", "limits.total=50s"]);
    let name = format!("name={}", tool.marker());
    tool.set(&[&name])
}

/// Time limit of a stop: 2 s on an idle machine, and more on one that is busy with other tests.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn ctrl_c_sigterm_and_sighup_stop_the_run_and_keep_its_record() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let tool = endless();
        let marker = tool.marker().to_owned();
        let mut run = tool.start();
        run.until_event("\"index\":5");
        let at = Instant::now();
        run.signal(signal);
        let ended = run.ended();
        assert_eq!(ended.status.code(), Some(130), "{ended}");
        assert!(at.elapsed() < SOON, "{:?}\n{ended}", at.elapsed());
        let record = ended.recorded("interrupted");
        assert!(
            record["transfers"][0]["bytes"].as_u64().unwrap() > 0,
            "{ended}"
        );
        assert_eq!(recorder_files(&marker), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn ctrl_c_works_while_a_plugin_call_does_not_return() {
    for fault in [
        "spin:call=init",
        "spin:call=connect",
        "spin:call=test",
        "spin:call=closeSend",
        "hang",
    ] {
        let spec = format!("fault.spec={fault}");
        let tool = endless().set(&[
            "fault.by=plugin",
            "fault.side=send",
            &spec,
            "transfer.iterations=2",
        ]);
        let mut run = tool.start();
        run.until("two workers", |run| {
            run.processes()
                .iter()
                .filter(|one| one.role == "worker")
                .count()
                == 2
        });
        std::thread::sleep(Duration::from_millis(300));
        let at = Instant::now();
        run.signal(Signal::INT);
        let ended = run.ended();
        assert!(at.elapsed() < SOON, "{fault}: {:?}\n{ended}", at.elapsed());
        ended.recorded("interrupted");
    }
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_the_first() {
    let fault = [
        "fault.by=plugin",
        "fault.side=send",
        "fault.spec=spin:call=test,nth=2000",
    ];
    let mut run = endless().set(&fault).start();
    run.until_event("measuring");
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    // The process may have ended already.
    let _ =
        rustix::process::kill_process(rustix::process::Pid::from_child(&run.child), Signal::INT);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(130));
    // Nobody killed it, and it says so.
    let folder = ended.run_folders().remove(0);
    let is_there = |name: &str| folder.join(name).exists();
    let is_told = ended.err.contains("is marked as interrupted");
    assert!(
        is_there("run.json") || is_there(".interrupted") && is_told,
        "{ended}"
    );
    assert!(!is_there(".room"));
}

#[test]
fn ctrl_c_ends_the_checks_of_a_report_with_what_they_started() {
    let collect = ["report", "--collect", "--out", "x.html", "--peer", "node1"];
    for also_child in [false, true] {
        let tool = Tool::new(&collect).arg("--rsh").arg("sh -c 'sleep 602'");
        let mut report = tool.start();
        let is_doctor = |one: &Process| one.role == "doctor";
        report.until("the command that reaches the peer", |run| {
            run.processes().iter().any(|one| one.role == "602")
        });
        if also_child {
            // As a terminal does.
            let doctor = report.processes().into_iter().find(is_doctor);
            doctor.expect("the checks").signal(Signal::INT);
        }
        report.signal(Signal::INT);
        let ended = report.ended();
        assert_eq!(ended.status.code(), Some(130), "{ended}");
    }
}

#[test]
fn a_sweep_that_is_interrupted_is_not_a_pass() {
    let tool = Tool::run(&[
        "transfer.connections=[1, 2, 3, 4]",
        "transfer.iterations=1000000",
    ]);
    let mut run = tool.start();
    run.until_event("measuring");
    run.signal(Signal::INT);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    assert_eq!(ended.run_folders().len(), 1, "{ended}");
    ended.says(&["1 of 4 points"]);
}

/// A xorshift random number generator; the test prints its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn a_kill_of_any_process_at_any_moment_leaves_nothing() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
    println!("seed {seed}, KILL_ROUNDS for more");
    let mut random = Random(seed);
    let rounds = std::env::var("KILL_ROUNDS").map_or(15, |text| text.parse().unwrap());
    for round in 0..rounds {
        let tool = endless();
        let marker = tool.marker().to_owned();
        let run = tool.start();
        // From before the agents start until well into the transfer.
        std::thread::sleep(Duration::from_millis(random.below(400)));
        let processes = run.processes();
        let victim = &processes[random.below(processes.len() as u64) as usize];
        println!("round {round}: {victim:?} of {}", processes.len());
        victim.kill();
        let killed_coordinator = victim.role == "run";
        let at = Instant::now();
        let ended = run.ended();
        assert!(
            at.elapsed() < Duration::from_secs(15),
            "{:?}\n{ended}",
            at.elapsed()
        );
        if !killed_coordinator {
            let code = ended.status.code();
            assert!(matches!(code, Some(5 | 6)), "{victim:?}: {ended}");
            ended.recorded(if code == Some(5) {
                "peer-lost"
            } else {
                "plugin-died"
            });
        }
        let left = recorder_files(&marker);
        assert!(left.is_empty() || killed_coordinator, "{left:?}\n{ended}");
    }
}

fn kill_all(run: &Running) {
    run.processes()
        .iter()
        .for_each(crate::tcpxctl::Process::kill);
}

#[test]
fn the_next_run_removes_recorders_of_a_killed_run() {
    let tool = endless();
    let marker = tool.marker().to_owned();
    let mut run = tool.start();
    run.until_event("measuring");
    assert_eq!(recorder_files(&marker).len(), 2);
    // All are stopped first, so that no process cleans up after another.
    run.processes()
        .iter()
        .for_each(|process| process.signal(Signal::STOP));
    kill_all(&run);
    run.ended();
    Tool::run(&[]).ends_with(0);
    assert_eq!(recorder_files(&marker), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_worker_or_an_agent_that_dies_is_named() {
    for (role, code, words) in [
        ("worker", 6, "was killed by signal 9 (SIGKILL)"),
        ("agent", 5, "is gone"),
    ] {
        for which in [0, 1] {
            let mut run = endless().start();
            run.until_event("measuring");
            let victims: Vec<_> = run
                .processes()
                .into_iter()
                .filter(|process| process.role == role)
                .collect();
            victims[which].kill();
            let ended = run.ended();
            assert_eq!(ended.status.code(), Some(code), "{ended}");
            ended.says(&[words]);
            // What the plugin logged before it was killed says nothing about that.
            assert!(!ended.err.contains("last WARN"), "{ended}");
        }
    }
}

#[test]
fn a_command_that_was_stopped_itself_blames_no_node() {
    let mut run = endless().start();
    run.until_event("measuring");
    run.signal(Signal::STOP);
    // Agents end after 8 s without it.
    let is_agent = |one: &Process| one.role == "agent";
    run.until("the end of the agents", |run| {
        !run.processes().iter().any(is_agent)
    });
    run.signal(Signal::CONT);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    ended.says(&[
        "this command did not run for",
        "agents end after 8 s without it",
    ]);
    assert_eq!(
        ended.recorded("interrupted")["findings"],
        serde_json::json!([])
    );
}

#[test]
fn a_node_that_was_never_reached_has_not_lost_its_control() {
    let tool = Tool::run(&[]).arg("--peer").arg("10.0.0.226");
    let ended = tool.arg("--rsh").arg("false").ends_with(5);
    ended.says(&["10.0.0.226: cannot start the agent"]);
    let record = ended.recorded("peer-lost");
    assert_eq!(record["findings"], serde_json::json!([]));
}

#[test]
fn a_silent_agent_is_lost() {
    let mut run = endless().start();
    run.until_event("measuring");
    let agent = run
        .processes()
        .into_iter()
        .find(|process| process.role == "agent")
        .unwrap();
    agent.signal(Signal::STOP);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["is stopped: its process", "lets it go on"]);
}

#[test]
fn the_last_samples_of_a_lost_node_are_marked_as_old() {
    let mut run = endless()
        .set(&["limits.stall_after=1s", "limits.give_up_after=30s"])
        .start();
    let is_sample = |line: &str, node| {
        line.contains("\"sample\"") && line.contains(&format!("\"node\":{node}"))
    };
    run.until("a sample of both", |run| {
        [0, 1]
            .iter()
            .all(|node| run.events().lines().any(|line| is_sample(line, node)))
    });
    let agent = run
        .processes()
        .into_iter()
        .find(|process| process.role == "agent")
        .unwrap();
    run.processes()
        .iter()
        .filter(|one| one.role == "worker")
        .for_each(|one| one.signal(Signal::STOP));
    agent.signal(Signal::STOP);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["is stopped: its process", "last counters, at "]);
}

#[test]
fn a_closed_stdout_ends_the_command_quietly() {
    let script = "{ \"$@\"; echo \"code $?\" >&2; } | head -n 1";
    let ended = Tool::run(&[])
        .through("sh", &["-c", script, "sh"])
        .ends_with(0);
    assert!(
        ended.out.starts_with("# tcpxctl") && ended.out.lines().count() == 1,
        "{ended}"
    );
    assert_eq!(ended.err, "code 0\n");
}

#[test]
fn closed_streams_do_not_break_any_command() {
    // Each command with both streams closed or full, for successes and failures. A success whose
    // output goes to a full device exits with 3.
    for (arguments, code) in [
        (&["run", "small.toml"][..], 0),
        (&["run", "small.toml", "--json"], 0),
        (&["run", "small.toml", "--set", "transfer.connections=0"], 2),
        (&["run", "small.toml", "--plugin", "/no.so"], 3),
        (&["discover"], 0),
        (&["discover", "--json"], 0),
        (&["selftest", "order-fifo", "--json"], 0),
        (&["selftest", "--list"], 0),
        (&["discover", "--set", "x"], 2),
        (&["handshake", "-n", "2", "--set", "x"], 2),
        (&["--help"], 0),
    ] {
        for redirection in [">/dev/full 2>&1", ">&- 2>&-", "<&- >&- 2>&-"] {
            let script = format!("exec \"$@\" {redirection}");
            let tool = Tool::new(arguments);
            std::fs::write(tool.folder().join("small.toml"), crate::tcpxctl::SMALL).unwrap();
            let is_untold = code == 0 && redirection.contains("full");
            tool.through("sh", &["-c", &script, "sh"])
                .ends_with(if is_untold { 3 } else { code });
        }
    }
}

#[test]
fn a_run_continues_after_its_program_file_is_replaced() {
    let from_a_removed_file =
        r#"cp "$0" copy && exec 9<copy && rm copy && exec /proc/self/fd/9 "$@""#;
    let ended = Tool::run(&[])
        .through("sh", &["-c", from_a_removed_file])
        .ends_with(0);
    ended.recorded("passed");
}

/// A plugin that forks twenty lasting processes when it is loaded.
fn leaves(tool: Tool) -> Tool {
    let source = concat!(
        "#include \"",
        env!("CARGO_MANIFEST_DIR"),
        "/tests/plugins/bad/leaves.c\"\n"
    );
    let library = shared_object(source, tool.folder(), "leaves.so");
    tool.arg("--plugin").arg(library.to_str().unwrap())
}

#[test]
fn processes_forked_by_a_plugin_end_with_its_worker() {
    leaves(Tool::new(&["discover"])).ends_with(0);
    leaves(Tool::new(&["selftest", "order-fifo"]))
        .ends_with(0)
        .says(&["PASS"]);
    leaves(Tool::run(&[])).ends_with(0).recorded("passed");
}

#[test]
fn processes_forked_by_a_plugin_end_when_its_worker_is_killed() {
    // After that, no agent is left to end the workers.
    let all_above = |run: &Running| {
        run.processes()
            .iter()
            .filter(|process| process.role != "worker")
            .for_each(crate::tcpxctl::Process::kill);
    };
    let ways: [&dyn Fn(&Running); 3] = [
        &|run| run.signal(Signal::INT),
        &|run| run.signal(Signal::KILL),
        &all_above,
    ];
    for command in [&["discover"][..], &["run", "small.toml"]] {
        for end in ways {
            let tool = leaves(Tool::new(command));
            tool.write("small.toml", SMALL);
            let ready = tool.folder().join("ready");
            let mut run = tool.env("BAD_LEAVES", ready.to_str().unwrap()).start();
            run.until("a plugin that waits", |_| ready.exists());
            end(&run);
            assert_ne!(run.ended().status.code(), Some(0));
        }
    }
}
