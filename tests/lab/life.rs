//! `lab up` and `lab down`: a lab starts again after any end, and leaves nothing on the machine.

use crate::lab::Lab;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Traces that a lab can leave on the machine.
#[derive(Debug, PartialEq)]
struct Left {
    processes: Vec<String>,
    state: Option<PathBuf>,
    mounts: Vec<String>,
    interfaces: Vec<String>,
}

fn left(name: &str) -> Left {
    let state = PathBuf::from(format!("/run/tcpxctl-lab-{name}"));
    let of_lab = state.to_string_lossy().into_owned();
    let folders = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let text = |path: PathBuf| {
        std::fs::read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .ok()
    };
    let processes = folders
        .filter_map(|folder| text(folder.join("cmdline")).filter(|line| line.contains(&of_lab)));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let network = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    Left {
        processes: processes.collect(),
        mounts: mounts
            .lines()
            .filter(|line| line.contains(&of_lab))
            .map(str::to_owned)
            .collect(),
        interfaces: network
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect(),
        state: state.exists().then_some(state),
    }
}

fn nothing() -> Left {
    let interfaces = left("no-such-lab").interfaces;
    Left {
        processes: Vec::new(),
        state: None,
        mounts: Vec::new(),
        interfaces,
    }
}

#[test]
fn down_removes_everything_that_up_made() {
    let before = nothing();
    let Some(lab) = Lab::up() else { return };
    let there = left(lab.name());
    assert!(
        there.processes.len() >= 5 && there.state.is_some(),
        "{there:?}"
    );
    // A lab has its own namespaces: the machine sees no mount and no interface even while it is up.
    assert_eq!(
        (&there.mounts, &there.interfaces),
        (&before.mounts, &before.interfaces)
    );
    // With a process that ignores signals, and a relay.
    lab.exec(
        "node1",
        &[
            "bash",
            "-c",
            "trap '' TERM HUP INT; setsid sleep 600 & exit",
        ],
    );
    lab.hurt("node0", "eth1", "delay 5");
    let (name, sleeping) = (lab.name().to_owned(), lab.ps("node1"));
    assert_eq!(sleeping.len(), 1);
    lab.done(&["down"]);
    assert_eq!(left(&name), before);
    assert_eq!(crate::tcpxctl::Process::read(sleeping[0].pid), None);
    let again = lab.script(&["down"]);
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    assert_eq!(lab.script(&["status"]).status.code(), Some(1));
    assert_eq!(
        lab.script(&["exec", "node0", "true"]).status.code(),
        Some(1)
    );
}

#[test]
fn a_second_up_keeps_a_working_lab_and_replaces_a_broken_one() {
    let Some(lab) = Lab::up() else { return };
    let pids = ["node0", "node1"].map(|node| lab.pid(node));
    lab.done(&["up"]);
    assert_eq!(["node0", "node1"].map(|node| lab.pid(node)), pids);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pids[1]).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    lab.done(&["up"]);
    assert_eq!(lab.exec("node0", &["ssh", "node1", "uname -n"]), "node1\n");
}

#[test]
fn a_lab_ends_with_the_program_that_it_is_tied_to() {
    let Some(lab) = Lab::up() else { return };
    let name = lab.name().to_owned();
    assert!(left(&name).state.is_some());
    lab.untie();
    let since = Instant::now();
    while left(&name) != nothing() {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "{:?}",
            left(&name)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn up_replaces_the_rest_of_a_killed_up() {
    let Some(lab) = Lab::up() else { return };
    lab.done(&["down"]);
    for milliseconds in [20, 60, 120, 200, 300] {
        let mut command = std::process::Command::new("timeout");
        command.args([
            "--signal=KILL",
            &format!("{:.3}", f64::from(milliseconds) / 1000.0),
        ]);
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/lab"), "up"]);
        command
            .env("TCPXCTL_LAB_NAME", lab.name())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        println!("killed after {milliseconds} ms");
        lab.done(&["up"]);
        assert_eq!(lab.exec("node1", &["ssh", "node0", "uname -n"]), "node0\n");
        lab.done(&["down"]);
        assert_eq!(left(lab.name()), nothing());
    }
}
