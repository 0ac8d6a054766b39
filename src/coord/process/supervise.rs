//! One worker process, seen from its parent: its messages, output, log lines and exit as one
//! stream.
//!
//! Used by the agent, and directly by commands that run a single task. A worker leads a process
//! group of its own. However it ends, the processes that its plugin forked are killed with it,
//! unless they left the group (`setsid`). The group is signalled only until the worker is reaped,
//! because its id may be reused afterwards. Ctrl-C of a terminal does not reach it; its parent
//! stops it.
#![forbid(unsafe_code)]

use crate::process::spawn::{inherit, ourselves};
use crate::protocol::message::{WorkerMessage, WorkerOrder};
use crate::protocol::wire::{Received, Receiver, Sender};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process,
    kill_process_group, setrlimit, waitid,
};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tcpx_words::log::LogLine;

/// One event of a worker process.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// A message of the worker.
    Message(WorkerMessage),
    /// A line of the plugin's log.
    Log(LogLine),
    /// A line it printed.
    Output {
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// The line, without control characters.
        text: String,
    },
    /// It ended; the last event.
    Exited {
        /// Exit code, if it exited.
        code: Option<i32>,
        /// Number of the signal, if a signal killed it.
        signal: Option<i32>,
    },
}

/// A running worker.
pub(crate) struct Worker {
    control: Sender<UnixStream>,
    group: Arc<Group>,
    /// Process id, for messages.
    pub pid: u32,
}

/// Most lines of output that are passed on; the rest are counted.
const OUTPUT_LINES_MAX: u64 = 200;
/// Bytes of one log packet.
const PACKET_MAX: usize = 64 * 1024;
/// Time to read the rest of the output after the process has ended. A grandchild may hold the
/// pipe open for longer.
const TRAILING: Duration = Duration::from_millis(300);
/// Time to read the rest of its messages, which hold its results: on a busy machine the reading
/// thread may be this late.
const MESSAGES_TRAILING: Duration = Duration::from_secs(3);

impl Worker {
    /// Starts `tcpxctl worker` with `env` in addition to this process's environment. Its events
    /// are passed to `heard`, the last one is `Exited`.
    pub(crate) fn start(
        env: &BTreeMap<String, String>,
        heard: impl Fn(WorkerEvent) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        allow_descriptors()?;
        let (control, theirs) = UnixStream::pair()?;
        let (log, log_theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut command = Command::new(ourselves());
        command
            .arg("worker")
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0);
        inherit(&mut command, theirs.as_fd(), log_theirs.as_fd());
        let mut child = command.spawn()?;
        drop((theirs, log_theirs));
        let pid = child.id();
        let group = Arc::new(Group {
            leader: Pid::from_child(&child),
            is_reaped: Mutex::new(false),
        });
        let (ended, all_ended) = mpsc::channel::<()>();
        let (told, all_told) = mpsc::channel::<()>();
        read_messages(control.try_clone()?, heard.clone(), told);
        read_log(log, heard.clone(), ended.clone());
        read_output("stdout", child.stdout.take(), heard.clone(), ended.clone());
        read_output("stderr", child.stderr.take(), heard.clone(), ended);
        let of_waiter = Arc::clone(&group);
        std::thread::spawn(move || wait(&of_waiter, child, &all_told, &all_ended, &heard));
        Ok(Self {
            control: Sender::new(control),
            group,
            pid,
        })
    }

    /// Sends one order. Errors are ignored: if the worker has ended, `Exited` follows.
    pub(crate) fn tell(&self, message: &WorkerOrder) {
        let _ = self.control.send(message);
    }

    /// Kills it and the processes it forked.
    pub(crate) fn kill(&self) {
        self.group.send(kill_process_group, Signal::KILL);
    }

    /// Sends it a signal. Errors are ignored: if the worker has ended, `Exited` follows.
    pub(crate) fn signal(&self, signal: Signal) {
        self.group.send(kill_process, signal);
    }
}

/// Open files that a worker needs at least: the numbers of its inherited descriptors, and room.
const FILES_MIN: u64 = 256;

/// Raises the soft limit of open files if it is too low for a worker.
fn allow_descriptors() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= FILES_MIN) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < FILES_MIN) {
        return Err(io::Error::other(format!(
            "at most {most} files may be open (ulimit -Hn), and a worker needs {FILES_MIN}"
        )));
    }
    let current = Some(FILES_MIN);
    Ok(setrlimit(Resource::Nofile, Rlimit { current, ..limit })?)
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A worker and the processes it forked.
struct Group {
    leader: Pid,
    /// Once reaped, the id may belong to another process.
    is_reaped: Mutex<bool>,
}

impl Group {
    fn send(&self, send: fn(Pid, Signal) -> rustix::io::Result<()>, signal: Signal) {
        let is_reaped = self
            .is_reaped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_reaped {
            // An error means that the process has ended.
            let _ = send(self.leader, signal);
        }
    }

    /// Waits until the worker has ended, kills the processes it left, and reaps it.
    fn end(&self, mut child: Child) -> io::Result<ExitStatus> {
        let has_ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Refused where SIGCHLD is ignored: the system reaped it, and its id is free.
        if rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.leader), has_ended)).is_ok() {
            self.send(kill_process_group, Signal::KILL);
        }
        let mut is_reaped = self
            .is_reaped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *is_reaped = true;
        child.wait()
    }
}

fn read_messages(
    from: UnixStream,
    heard: impl Fn(WorkerEvent) + Send + 'static,
    ended: mpsc::Sender<()>,
) {
    std::thread::spawn(move || {
        let mut receiver = Receiver::new(from);
        while let Ok(Some(received)) = receiver.next() {
            match received {
                Received::Message(message) => heard(WorkerEvent::Message(message)),
                Received::Text(text) => heard(WorkerEvent::Output {
                    stream: "control",
                    text,
                }),
            }
        }
        drop(ended);
    });
}

fn read_log(from: OwnedFd, heard: impl Fn(WorkerEvent) + Send + 'static, ended: mpsc::Sender<()>) {
    std::thread::spawn(move || {
        let mut packet = vec![0; PACKET_MAX];
        while let Ok((len, _)) = recv(&from, &mut packet[..], RecvFlags::empty()) {
            if len == 0 {
                break;
            }
            if let Ok(line) = serde_json::from_slice(&packet[..len]) {
                heard(WorkerEvent::Log(line));
            }
        }
        drop(ended);
    });
}

fn read_output(
    stream: &'static str,
    from: Option<impl Read + Send + 'static>,
    heard: impl Fn(WorkerEvent) + Send + 'static,
    ended: mpsc::Sender<()>,
) {
    let Some(from) = from else { return };
    std::thread::spawn(move || {
        let mut receiver = Receiver::new(from);
        let mut lines = 0u64;
        while let Ok(Some(text)) = receiver.next_text() {
            lines += 1;
            if lines <= OUTPUT_LINES_MAX {
                heard(WorkerEvent::Output { stream, text });
            }
        }
        if lines > OUTPUT_LINES_MAX {
            let text = format!("({} more lines were not kept)", lines - OUTPUT_LINES_MAX);
            heard(WorkerEvent::Output { stream, text });
        }
        drop(ended);
    });
}

fn wait(
    group: &Group,
    child: Child,
    all_told: &mpsc::Receiver<()>,
    all_ended: &mpsc::Receiver<()>,
    heard: &impl Fn(WorkerEvent),
) {
    let status = group.end(child);
    let (Err(_) | Ok(())) = all_told.recv_timeout(MESSAGES_TRAILING);
    // Nothing is ever sent: the channels close when the readers have ended.
    let (Err(_) | Ok(())) = all_ended.recv_timeout(TRAILING);
    let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
    heard(WorkerEvent::Exited { code, signal });
}
