//! `tcpxctl watch` and `run --live`: printed frames, event streams, and a real terminal under tmux.

use crate::tcpxctl::{Process, Tool};
use crate::terminal::{Terminal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// One channel of a run that stalls within two seconds of its start.
const STALL: &str = "name = \"stall\"\n[transfer]\nconnections = 2\nchunk = \"64KiB\"\ntotal = \"8MiB\"\niterations = 5\n\
[limits]\nstall_after = \"1s\"\ngive_up_after = \"1s\"\n\
[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumed\"\nchannel = 1\nafter_chunk = 40\n\
[expect]\noutcome = \"stalled\"\n";

fn watch(what: &Path, options: &[&str]) -> crate::tcpxctl::Ended {
    Tool::new(&[&["watch", what.to_str().unwrap()], options].concat()).ends_with(0)
}

#[test]
fn a_run_folder_is_one_frame_that_names_the_waiting_side() {
    let tool = Tool::new(&["run", "stall.toml"]);
    tool.write("stall.toml", STALL);
    let ended = tool.ends_with(0);
    let run = &ended.run_folders()[0];
    let frame = watch(run, &["--once", "--size", "100x30"]);
    frame.says(&[
        "peer recv 1: 16/16 done, none handed back: the receiver's turn",
        "recv   0",
        "send   1",
    ]);
    assert!(
        !frame.out.contains('\x1b') && frame.out.lines().count() == 30,
        "{frame}"
    );
    assert!(watch(run, &["--once", "--ascii"]).out.is_ascii());

    let svg = watch(run, &["--once", "--out", "frame.svg", "--color", "always"]);
    let text = std::fs::read_to_string(svg.folder().join("frame.svg")).unwrap();
    assert!(svg.out.is_empty() && text.starts_with("<svg"), "{svg}");

    let told = watch(run, &["--json"]);
    let lines: Vec<Value> = told
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["nodes"][1]["name"], "peer");
    assert!(
        lines
            .iter()
            .any(|line| line["sample"].is_array() && line["node"] == 1)
    );
    assert_eq!(lines.last().unwrap()["ended"]["outcome"], "stalled");
}

#[test]
fn a_frame_that_a_full_disk_does_not_take_leaves_the_old_one() {
    let tool = Tool::new(&["run", "stall.toml"]);
    tool.write("stall.toml", STALL);
    let ended = tool.ends_with(0);
    let run = ended.run_folders()[0].to_str().unwrap().to_owned();
    let options = ["watch", &run, "--once", "--out", "frame.svg"];
    for old in [None, Some("old")] {
        let tool = Tool::new(&options);
        if let Some(old) = old {
            tool.write("frame.svg", old);
        }
        let limited = ["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash"];
        let failed = tool.through("bash", &limited).ends_with(3);
        failed.says(&["cannot write frame.svg", "is unchanged"]);
        let left = std::fs::read_dir(failed.folder()).unwrap();
        let frames = left.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let frames: Vec<_> = frames.filter(|name| name.starts_with("frame")).collect();
        assert_eq!(frames.len(), usize::from(old.is_some()), "{frames:?}");
        let there = std::fs::read_to_string(failed.folder().join("frame.svg")).ok();
        assert_eq!(there.as_deref(), old);
    }
}

#[test]
fn a_run_or_file_that_does_not_exist_is_a_usage_error() {
    Tool::new(&["watch", "/nowhere"])
        .ends_with(2)
        .says(&["is not a run folder, a recorder file, or a process"]);
    Tool::new(&["watch", "999999999"]).ends_with(2);
    Tool::new(&["watch", "--replay", "/nowhere"])
        .ends_with(3)
        .says(&["cannot read"]);
    Tool::new(&["watch", "--peer", "node1", "4242", "--once"])
        .ends_with(2)
        .says(&["--peer shows what runs on two nodes now"]);
    let tool = Tool::new(&["run", "stall.toml", "--live"]);
    tool.write("stall.toml", STALL);
    tool.ends_with(2).says(&["--live needs a terminal"]);
    let tool = Tool::new(&["watch", "x.tcpxrec", "--once"]);
    tool.write("x.tcpxrec", "nonsense");
    tool.ends_with(3).says(&["x.tcpxrec"]);
}

#[test]
fn a_recorder_that_both_nodes_see_is_shown_once() {
    let to_itself = |arguments: &[&str]| {
        let peer = ["--peer", "there", "--rsh", "./rsh", "--remote-bin"];
        let binary = [env!("CARGO_BIN_EXE_tcpxctl")];
        let tool = Tool::new(&[arguments, &peer, &binary].concat());
        tool.write_rsh();
        tool
    };
    let runs = Tool::run(&["transfer.iterations=100000"]).start();
    let worker = wait_for("a worker", || {
        runs.processes()
            .into_iter()
            .find(|one| one.role == "worker")
    });
    let frame = wait_for("both nodes", || {
        let frame = Tool::new(&["watch", &worker.pid.to_string(), "--once"]).ended();
        frame.status.success().then_some(frame)
    });
    frame.says(&[&format!("pid {}", worker.pid)]);
    // High enough for the processes of other tests, too.
    let both = to_itself(&["watch", "--once", "--size", "160x400"]).ends_with(0);
    let [here, there] = ["local", "peer"].map(|node| format!("{node} pid {}", worker.pid));
    both.says(&[&here, "TCPXSoft"]);
    assert!(!both.said().contains(&there), "{both}");
    let named = format!("peer:{}", worker.pid);
    let diagnosed = to_itself(&["diagnose", &named]).ended();
    diagnosed.says(&[&there]);
    assert!(!diagnosed.said().contains(&here), "{diagnosed}");
    runs.processes()
        .iter()
        .filter(|one| one.role == "run")
        .for_each(|one| one.signal(rustix::process::Signal::INT));
    runs.ended();
}

#[test]
fn a_run_is_watched_through_its_stall_on_a_terminal_that_stays_intact() {
    let Some(terminal) = Terminal::open(110, 32) else {
        return;
    };
    std::fs::write(
        terminal.folder().join("stall.toml"),
        STALL.replace("\"1s\"\n[fault]", "\"5s\"\n[fault]"),
    )
    .unwrap();
    let before = terminal.settings("before");
    terminal.type_line(&format!(
        "clear; {} run stall.toml --plugin builtin --live",
        env!("CARGO_BIN_EXE_tcpxctl")
    ));
    terminal.shows("LIVE");
    terminal.shows("STALLED");
    terminal.shows("the receiver's turn");
    // Navigate: details of a channel, help, a filter, back in time.
    terminal.press("n");
    terminal.press("Enter");
    terminal.shows("last calls");
    terminal.press("?");
    terminal.shows("press any key to close");
    terminal.press("Escape");
    // An escape directly followed by a letter is another key.
    terminal.shows_no_more("press any key to close");
    terminal.press("s");
    terminal.shows("PAUSED");
    terminal.press("Space");
    terminal.shows("STALLED");
    // Another terminal size, then suspended and resumed.
    assert!(
        terminal
            .tmux(&["resize-window", "-x", "80", "-y", "24"])
            .status
            .success()
    );
    terminal.shows("the receiver's turn");
    terminal.press("C-z");
    terminal.shows("ready>");
    terminal.type_line("fg");
    terminal.shows("over");
    terminal.press("q");
    terminal.shows("# Record");
    assert_eq!(terminal.settings("after"), before);
    // Events for the view only are not in the record.
    let events = std::fs::read_dir(terminal.folder().join("reports"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let events = std::fs::read_to_string(events.join("events.jsonl")).unwrap();
    assert!(
        events.contains("\"sample\"") && !events.contains("\"detail\":"),
        "{events}"
    );
    let cursor = terminal.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"]);
    assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1 0");
}

#[test]
fn a_run_that_recovers_is_shown_as_moving() {
    let Some(terminal) = Terminal::open(110, 32) else {
        return;
    };
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/repro/stalled-and-recovered.toml");
    let run = format!(
        "{} run {} --plugin builtin --live",
        env!("CARGO_BIN_EXE_tcpxctl"),
        scenario.display()
    );
    // Long enough to be seen on a busy machine.
    terminal.type_line(&format!(
        "clear; {run} --set fault.spec=delay-ctrl:nth=40,ms=7000; echo code-$?"
    ));
    terminal.shows("STALLED");
    terminal.shows("the stalled channels move again");
    terminal.shows("PASSED");
    terminal.press("q");
    terminal.shows("code-0");
}

/// The process that runs in the foreground of the terminal's shell.
fn in_foreground(terminal: &Terminal) -> Process {
    let listed = terminal.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let shell: i32 = String::from_utf8_lossy(&listed.stdout)
        .trim()
        .parse()
        .unwrap();
    let child = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    Process::read(child.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_signal_restores_the_terminal() {
    let Some(terminal) = Terminal::open(100, 30) else {
        return;
    };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui/fixtures/stalled");
    let before = terminal.settings("before");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let program = env!("CARGO_BIN_EXE_tcpxctl");
        terminal.type_line(&format!(
            "clear; {program} watch {}; echo code-$?",
            fixture.display()
        ));
        terminal.shows("STALLED");
        in_foreground(&terminal).signal(signal);
        terminal.shows("code-130");
        assert_eq!(terminal.settings("after"), before, "{signal:?}");
    }
}

#[test]
fn a_second_signal_restores_the_terminal() {
    second_signal([Signal::INT, Signal::TERM]);
    second_signal([Signal::QUIT, Signal::QUIT]);
}

fn second_signal([first, second]: [Signal; 2]) {
    let Some(terminal) = Terminal::open(100, 30) else {
        return;
    };
    let before = terminal.settings("before");
    std::fs::write(terminal.folder().join("stall.toml"), STALL).unwrap();
    // In a session of its own, because the shell takes the terminal from a job that is stopped.
    let told = terminal.folder().join("pid");
    let inner = format!(
        "echo $$ > {}; exec {} run stall.toml --plugin builtin --live",
        told.display(),
        env!("CARGO_BIN_EXE_tcpxctl")
    );
    terminal.type_line(&format!("clear; setsid -w sh -c '{inner}'; echo code-$?"));
    terminal.shows("LIVE");
    let pid = std::fs::read_to_string(told).unwrap();
    let run = Process::read(pid.trim().parse().unwrap()).unwrap();
    // It is stopped meanwhile, so that the second is not late.
    for signal in [Signal::STOP, first, second, Signal::CONT] {
        run.signal(signal);
    }
    terminal.shows("code-130");
    assert_eq!(terminal.settings("after"), before);
}

#[test]
fn in_the_background_no_view_is_started_and_the_run_goes_on() {
    let Some(terminal) = Terminal::open(140, 30) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_tcpxctl");
    let (stalled, fixed) = (
        fixture("src/tui/fixtures/stalled"),
        fixture("scenarios/1conn.toml"),
    );
    let before = terminal.settings("before");
    terminal.type_line(&format!(
        "clear; sh -c 'timeout 30 {program} watch {stalled}; echo code-$?'"
    ));
    terminal.shows("code-2");
    terminal.shows("this process is in the background of its terminal");
    terminal.shows("timeout --foreground");
    terminal.type_line(&format!(
        "clear; sh -c 'timeout 60 {program} run {fixed} --plugin builtin --live; echo code-$?'"
    ));
    let shown = terminal.shows("code-0");
    assert!(
        shown.contains("use `tcpxctl watch` from another terminal"),
        "{shown}"
    );
    assert_eq!(terminal.settings("after"), before);
}

#[test]
fn a_view_put_into_the_background_waits_without_the_terminal() {
    let Some(terminal) = Terminal::open(110, 32) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_tcpxctl");
    let before = terminal.settings("before");
    let scenario = STALL.replace("give_up_after = \"1s\"", "give_up_after = \"120s\"");
    std::fs::write(terminal.folder().join("stall.toml"), scenario).unwrap();
    terminal.type_line(&format!(
        "clear; {program} run stall.toml --plugin builtin --live"
    ));
    terminal.shows("STALLED");
    terminal.press("C-z");
    terminal.shows("Stopped");
    terminal.type_line("clear; bg");
    terminal.type_line("clear; echo typed''-here");
    terminal.shows("typed-here");
    // Neither stopped nor drawing.
    terminal.type_line("sleep 1; clear; jobs; echo li''sted");
    let listed = terminal.shows("listed");
    assert!(
        listed.contains("Running") && !listed.contains("STALLED"),
        "{listed}"
    );
    assert_eq!(terminal.settings("meanwhile"), before);
    terminal.type_line("fg");
    terminal.shows("the receiver's turn");
    terminal.press("C-c");
    terminal.shows("# Record");
    assert_eq!(terminal.settings("after"), before);
}

/// A file of this repository.
fn fixture(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs `command` in a session of its own, which gets no SIGHUP when the terminal is lost, until
/// the screen shows `text`; then closes the terminal and waits for the command's end.
fn loses_its_terminal(terminal: &Terminal, command: &str, text: &str, role: &str) {
    let told = terminal.folder().join("pid");
    let inner = format!("echo $$ > {}; exec {command}", told.display());
    terminal.type_line(&format!("clear; setsid -w sh -c '{inner}'"));
    terminal.shows(text);
    let pid: i32 = std::fs::read_to_string(told)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(Process::read(pid).is_some_and(|one| one.role == role));
    terminal.tmux(&["kill-server"]);
    wait_for("an end of the process", || {
        Process::read(pid).is_none().then_some(())
    });
}

#[test]
fn a_terminal_lost_without_a_signal_ends_the_view() {
    let Some(terminal) = Terminal::open(100, 30) else {
        return;
    };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui/fixtures/stalled");
    let command = format!(
        "{} watch {}",
        env!("CARGO_BIN_EXE_tcpxctl"),
        fixture.display()
    );
    loses_its_terminal(&terminal, &command, "STALLED", "watch");
}

#[test]
fn a_terminal_lost_without_a_signal_interrupts_the_run_and_keeps_its_record() {
    let Some(terminal) = Terminal::open(100, 30) else {
        return;
    };
    let endless = STALL.split("[fault]").next().unwrap().to_owned();
    std::fs::write(terminal.folder().join("endless.toml"), endless).unwrap();
    let command = format!(
        "{} run endless.toml --plugin builtin --live --set transfer.iterations=1000000",
        env!("CARGO_BIN_EXE_tcpxctl")
    );
    loses_its_terminal(&terminal, &command, "LIVE", "run");
    let mut runs = std::fs::read_dir(terminal.folder().join("reports")).unwrap();
    let record = runs.next().unwrap().unwrap().path().join("run.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!(record["outcome"], "interrupted", "{record}");
}
