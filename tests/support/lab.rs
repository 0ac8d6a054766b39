//! Labs of `scripts/lab`, one for each test that needs one.
//!
//! A pipe ties a lab to the test program, so the lab ends with the program in every case. Files
//! of a node are read through `/proc/PID/root`, and a thread that enters the node's network
//! namespace makes sockets of the node.
//!
//! On a machine that cannot run a lab, tests that need one print the reason and pass, unless
//! `TCPXCTL_LAB=require` is set.

use crate::tcpxctl::{Ended, Process, Tool};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{PipeWriter, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The variable with the lab's name.
const NAME: &str = "TCPXCTL_LAB_NAME";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/lab");
/// The program under test.
const TCPXCTL: &str = env!("CARGO_BIN_EXE_tcpxctl");
/// Exit code of `scripts/lab` on a machine that cannot run a lab.
const NOT_POSSIBLE: i32 = 3;
/// Time limit of a script; a script that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(60);
/// How long processes of a run may outlive the command.
const AFTERLIFE: Duration = Duration::from_secs(10);

/// The two nodes that move bytes.
pub(crate) const NODES: [&str; 2] = ["node0", "node1"];
/// Data interfaces of these nodes.
pub(crate) const RAILS: [&str; 4] = ["eth1", "eth2", "eth3", "eth4"];

/// The address of a node on one of its interfaces.
pub(crate) fn address(node: &str, interface: &str) -> String {
    let number = node.strip_prefix("node").and_then(|n| n.parse().ok());
    let (third, host) = match number {
        Some(0) => (1, 25),
        Some(1) => (0, 226),
        Some(n) => (1, 100 + n),
        None => panic!("{node} has no rails"),
    };
    match interface.trim_start_matches("eth") {
        "0" => format!("10.0.{third}.{host}"),
        rail => format!("192.168.{rail}.{host}"),
    }
}

/// A lab that is up.
pub(crate) struct Lab {
    name: String,
    /// Number of its nodes with rails.
    count: usize,
    /// The lab ends when this end of the pipe is closed.
    tie: Option<PipeWriter>,
}

impl Lab {
    /// Starts a lab of two nodes, or prints why this machine cannot run one.
    pub(crate) fn up() -> Option<Self> {
        Self::of(2)
    }

    /// Starts a lab of this many nodes.
    pub(crate) fn of(nodes: usize) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "t{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self::named(&name, nodes)
    }

    /// Starts a lab with this name, or returns a second handle to the running one.
    pub(crate) fn named(name: &str, nodes: usize) -> Option<Self> {
        let (reading, tie) = std::io::pipe().unwrap();
        let mut up = script(name);
        up.args(["up", "--tied", "--nodes", &nodes.to_string()]);
        let ended = ended(up.stdin(reading));
        let said = String::from_utf8_lossy(&ended.stderr);
        match ended.status.code() {
            Some(0) => Some(Self {
                name: name.to_owned(),
                count: nodes,
                tie: Some(tie),
            }),
            Some(NOT_POSSIBLE) if std::env::var("TCPXCTL_LAB").as_deref() != Ok("require") => {
                println!("skipped: {said}");
                None
            }
            _ => panic!("scripts/lab up: {}\n{said}", ended.status),
        }
    }

    /// The lab's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `scripts/lab` with these arguments.
    pub(crate) fn script(&self, arguments: &[&str]) -> Output {
        let mut command = script(&self.name);
        ended(command.args(arguments).stdin(Stdio::null()))
    }

    /// Runs `scripts/lab`, which must succeed; returns its standard output.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let ended = self.script(arguments);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success(),
            "scripts/lab {arguments:?}: {}\n{said}",
            ended.status
        );
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Runs a command in a node, which must succeed; returns its standard output.
    pub(crate) fn exec(&self, node: &str, command: &[&str]) -> String {
        self.done(&[&["exec", node], command].concat())
    }

    /// `tcpxctl` in a node, in a fresh folder there.
    pub(crate) fn tool(&self, node: &str, arguments: &[&str]) -> Tool {
        self.tool_by(node, &[], arguments)
    }

    /// `tcpxctl` in a node as the last arguments of another command there.
    pub(crate) fn tool_by(&self, node: &str, command_before: &[&str], arguments: &[&str]) -> Tool {
        let folder = TempDir::new_in(self.path(node, "/tmp")).unwrap();
        let inside = Path::new("/tmp").join(folder.path().file_name().unwrap());
        let mut command = Command::new(SCRIPT);
        command
            .args(["exec", node, "env", "-C"])
            .arg(inside)
            .args(command_before)
            .arg(TCPXCTL)
            .args(arguments);
        Tool::of(command, folder).env(NAME, &self.name)
    }

    /// Runs `tcpxctl` in a node to its end.
    pub(crate) fn run(&self, node: &str, arguments: &[&str]) -> Ended {
        self.tool(node, arguments).ended()
    }

    /// Processes of a node, without its first process and its sshd.
    pub(crate) fn ps(&self, node: &str) -> Vec<Process> {
        let listed = self.done(&["ps", node]);
        let pids = listed
            .lines()
            .map(|line| line.split(' ').next().unwrap().parse().unwrap());
        // A process that has ended since has no entry in /proc.
        pids.filter_map(Process::read).collect()
    }

    /// The sshd processes of a node that serve a connection.
    pub(crate) fn sessions(&self, node: &str) -> Vec<Process> {
        let space = std::fs::read_link(format!("/proc/{}/ns/pid", self.pid(node))).unwrap();
        let listener = std::fs::read_to_string(self.path(node, "/run/sshd.pid")).unwrap();
        let is_session = |pid: &i32| {
            let proc = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
            let exe = std::fs::read_link(proc("exe")).unwrap_or_default();
            let is_sshd = exe
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("sshd"));
            let status = std::fs::read_to_string(proc("status")).unwrap_or_default();
            let inside = status
                .lines()
                .find(|line| line.starts_with("NSpid"))
                .and_then(|line| line.split('\t').next_back());
            is_sshd
                && inside != Some(listener.trim())
                && std::fs::read_link(proc("ns/pid")).is_ok_and(|its| its == space)
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_session).filter_map(Process::read).collect()
    }

    /// The nodes with rails.
    pub(crate) fn nodes(&self) -> Vec<String> {
        (0..self.count).map(|node| format!("node{node}")).collect()
    }

    /// Checks that no process is left in any node, at the latest after `AFTERLIFE`.
    pub(crate) fn is_left_clean(&self) {
        let since = Instant::now();
        loop {
            let left: Vec<String> = self
                .nodes()
                .iter()
                .map(|node| self.done(&["ps", node]))
                .collect();
            if left.iter().all(String::is_empty) {
                return;
            }
            assert!(since.elapsed() < AFTERLIFE, "left behind: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Injects a network fault on an interface, or on `all`; `how` is as in `scripts/lab help`.
    pub(crate) fn hurt(&self, node: &str, interface: &str, how: &str) {
        let words: Vec<&str> = how.split(' ').collect();
        self.done(&[&["hurt", node, interface], words.as_slice()].concat());
    }

    /// Removes all network faults.
    pub(crate) fn heal(&self) {
        self.done(&["heal"]);
    }

    /// Counters of an interface, as the node's kernel has them.
    pub(crate) fn counters(&self, node: &str, interface: &str) -> Counters {
        let folder = self
            .path(node, "/sys/class/net")
            .join(interface)
            .join("statistics");
        let read = |name: &str| {
            std::fs::read_to_string(folder.join(name))
                .unwrap()
                .trim()
                .parse()
                .unwrap()
        };
        Counters {
            rx_bytes: read("rx_bytes"),
            tx_bytes: read("tx_bytes"),
            rx_packets: read("rx_packets"),
            tx_packets: read("tx_packets"),
        }
    }

    /// The path on this machine of a file in a node.
    pub(crate) fn path(&self, node: &str, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid(node)))
    }

    /// Runs `what` in the network namespace of a node; sockets made there stay in it.
    pub(crate) fn inside<T: Send>(&self, node: &str, what: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.pid(node))).unwrap();
        let enter = move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    /// Closes the pipe, as the end of this program would.
    pub(crate) fn untie(mut self) {
        drop(self.tie.take());
        std::mem::forget(self);
    }

    /// Process id of a node's first process.
    pub(crate) fn pid(&self, node: &str) -> i32 {
        self.done(&["pid", node]).trim().parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Closing the pipe ends the lab too, but later and without an error message.
        let ended = self.script(&["down"]);
        if !ended.status.success() && !std::thread::panicking() {
            panic!(
                "scripts/lab down: {}",
                String::from_utf8_lossy(&ended.stderr)
            );
        }
    }
}

/// The command `scripts/lab`, with the program under test on the nodes' PATH.
fn script(name: &str) -> Command {
    let mut command = Command::new(SCRIPT);
    command
        .env(NAME, name)
        .env("TCPXCTL_LAB_BIN", Path::new(TCPXCTL).parent().unwrap());
    command
}

/// Runs a command to its end. Its output goes to files: a pipe would stay open as long as any
/// process that the command left running.
fn ended(command: &mut Command) -> Output {
    let [mut out, mut err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let mut child = command
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if since.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{command:?} hung");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr] = [&mut out, &mut err].map(|file| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    });
    Output {
        status,
        stdout,
        stderr,
    }
}

/// Counters of an interface since the start of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub tx_packets: u64,
}
