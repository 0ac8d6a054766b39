//! The two processes of a row: started here, or one of them on another node by a command.
#![forbid(unsafe_code)]

use super::super::Failure;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tcpx_coord::reach::rsh;
use tcpx_words::error::Outcome;
use tcpx_words::units::{printable, shell_word};

/// Reads the program from stdin: its length in characters, then its text.
const BOOT: &str =
    "import sys; exec(compile(sys.stdin.read(int(sys.stdin.readline())), 'conformance', 'exec'))";
/// Python, below each other.
pub(super) const PROGRAM: [&str; 4] = [
    include_str!("side.py"),
    include_str!("ranges.py"),
    include_str!("traffic.py"),
    "\nmain(json.loads(sys.stdin.readline()), globals())\n",
];
/// The longest line is 8 MiB as hexadecimal digits, of a row that compares on two nodes.
const LINE_MAX: u64 = 32 << 20;
/// Lines of stderr that are kept.
const KEPT_LINES: usize = 16;
const STDERR_LINE_MAX: u64 = 4096;
/// Lines that wait for the row.
const EVENTS_MAX: usize = 64;

/// One of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Serve,
    Drive,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Serve => Self::Drive,
            Self::Drive => Self::Serve,
        }
    }

    fn role(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Drive => "drive",
        }
    }
}

/// What a process did.
pub(super) enum Event {
    Line(String),
    End,
}

/// What processes are started with.
pub(super) struct Start<'a> {
    pub(super) python: &'a str,
    /// The node of the serving process, and the command that reaches it.
    pub(super) peer: Option<(String, String)>,
    pub(super) endpoint: &'a str,
    pub(super) patience: Duration,
}

#[derive(Serialize)]
struct Task<'a> {
    role: &'static str,
    row: &'a str,
    endpoint: &'a str,
    /// Seconds after which an operation is said to be never done: less than the row has.
    patience: f64,
    one_node: bool,
}

/// One process.
struct Process {
    child: Child,
    /// Lines for its stdin, which ends when this is dropped.
    lines: SyncSender<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

/// The processes of a row; ended when dropped.
pub(super) struct Pair {
    processes: Vec<Process>,
    pub(super) events: Receiver<(Side, Event)>,
}

impl Start<'_> {
    /// Both processes of a row.
    pub(super) fn both(&self, row: &str) -> Result<Pair, Failure> {
        self.pair(&[Side::Serve, Side::Drive], row)
    }

    /// Only the one that drives, without a row.
    pub(super) fn one(&self) -> Result<Pair, Failure> {
        self.pair(&[Side::Drive], "")
    }

    fn pair(&self, sides: &[Side], row: &str) -> Result<Pair, Failure> {
        let (events, received) = sync_channel(EVENTS_MAX);
        let mut pair = Pair {
            processes: Vec::new(),
            events: received,
        };
        for side in sides {
            pair.processes.push(self.process(*side, row, &events)?);
        }
        Ok(pair)
    }

    fn process(
        &self,
        side: Side,
        row: &str,
        events: &SyncSender<(Side, Event)>,
    ) -> Result<Process, Failure> {
        let mut command = match (&self.peer, side) {
            (Some((node, reach)), Side::Serve) => {
                let line = format!(
                    "exec {} -u -c {}",
                    shell_word(self.python),
                    shell_word(BOOT)
                );
                rsh::command_on(node, reach, &line)?
            }
            _ => {
                let mut command = Command::new(self.python);
                command.args(["-u", "-c", BOOT]);
                command
            }
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = command.get_program().display().to_string();
        let mut child = command.spawn().map_err(|error| {
            Failure::new(
                Outcome::NotRun,
                format!("cannot start `{program}`: {error}"),
            )
            .next("name a Python interpreter with --python")
        })?;
        let task = Task {
            role: side.role(),
            row,
            endpoint: self.endpoint,
            patience: self.patience.as_secs_f64() / 3.0,
            one_node: self.peer.is_none(),
        };
        let lines = self.writer(&mut child, &task);
        let stderr = Arc::<Mutex<VecDeque<String>>>::default();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (events, kept) = (events.clone(), Arc::clone(&stderr));
        std::thread::spawn(move || {
            let tell = |line| events.send((side, Event::Line(line))).is_ok();
            if let Some(out) = out {
                each_line(out, LINE_MAX, tell);
            }
            // Fails only if nobody waits for the row any more.
            let _ = events.send((side, Event::End));
        });
        std::thread::spawn(move || {
            let keep = |line: String| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == KEPT_LINES {
                    kept.pop_front();
                }
                kept.push_back(line);
                true
            };
            if let Some(err) = err {
                each_line(err, STDERR_LINE_MAX, keep);
            }
        });
        Ok(Process {
            child,
            lines,
            stderr,
        })
    }

    /// A thread writes, because a process that hangs does not read.
    fn writer(&self, child: &mut Child, task: &Task<'_>) -> SyncSender<String> {
        let (lines, received) = sync_channel::<String>(EVENTS_MAX);
        let program = PROGRAM.concat();
        let task = serde_json::to_string(task).unwrap_or_default();
        let first = format!("{}\n{program}{task}\n", program.len());
        let stdin = child.stdin.take();
        std::thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            for text in std::iter::once(first).chain(received) {
                // The process has ended, which its stdout tells.
                if stdin.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
        });
        lines
    }
}

/// Calls `take` with each line until it returns false. A longer line is cut.
fn each_line(from: impl Read, longest: u64, mut take: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from
        .by_ref()
        .take(longest)
        .read_until(b'\n', &mut line)
        .is_ok_and(|len| len > 0)
    {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !take(text) {
            return;
        }
        line.clear();
    }
}

impl Pair {
    /// Passes on what the other process said.
    pub(super) fn tell(&mut self, side: Side, words: &serde_json::Value) {
        if let Some(process) = self.processes.get(side as usize) {
            // A process that has ended hears nothing, which its end tells; one that does not read
            // loses what is beyond the queue, and the row ends by its time.
            let _ = process.lines.try_send(format!("{words}\n"));
        }
    }

    pub(super) fn kill(&mut self, side: Side) {
        if let Some(process) = self.processes.get_mut(side as usize) {
            // Fails only if it has ended.
            let _ = process.child.kill();
        }
    }

    /// How a process ended, with the last line of its stderr.
    pub(super) fn end(&mut self, side: Side) -> String {
        let only = self.processes.len() == 1;
        let index = if only { 0 } else { side as usize };
        let Some(process) = self.processes.get_mut(index) else {
            return "it was not started".into();
        };
        let how = match process.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("ended by signal {signal}"),
                (None, code) => format!("ended with code {}", code.unwrap_or(-1)),
            },
            Err(error) => format!("ended ({error})"),
        };
        let kept = process
            .stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = kept.iter().rev().find(|line| !line.is_empty());
        let last = last.map_or(String::new(), |line| {
            format!("; its last line: {}", printable(line))
        });
        format!("the process that {}s {how}{last}", side.role())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Fails only if it has ended.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
