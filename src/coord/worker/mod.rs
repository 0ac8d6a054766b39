//! The worker: the one process that loads a plugin.
//!
//! The plugin may call `exit`, crash, spin or print inside any call, so this process can die at
//! any moment and announces each phase before it enters it. The main thread drives the plugin. A
//! second thread reads the control stream, sets the stop flag when ordered to stop, and exits when
//! the stream ends. The process exits by `exit_now`, because a plugin's exit handlers may block
//! forever.

mod connect;
mod driving;
mod examine;
mod handshake;
mod kv;
mod links;
mod load;
mod memory;
mod mr;
mod sockets;
mod transfer;

use crate::process::spawn::{CONTROL_FD, LOG_FD, exit_now, inherited, keep_descriptor_zero};
use crate::protocol::message::{Task, WorkerMessage, WorkerOrder};
use crate::protocol::wire::{Received, Receiver, Sender};
use rustix::net::SendFlags;
use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;
use tcpx_bootstrap::{BootstrapError, Cause};
use tcpx_engine::plugin::PluginError;
use tcpx_engine::transfer::{ChannelError, TransferError};
use tcpx_run_model::phase::{Failure, Phase};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::log::LogLine;

/// What the worker's tasks share.
pub(super) struct Context {
    to_agent: Arc<Sender<UnixStream>>,
    inbox: mpsc::Receiver<WorkerOrder>,
    /// Set by the stop order.
    pub(super) stop: Arc<AtomicBool>,
    phase: Phase,
    announced: Cell<bool>,
}

/// A task's error: the failure it becomes.
pub(super) type TaskResult<T> = Result<T, Box<Failure>>;

/// Path of the recorder file; the thread that ends the process removes the file.
static RECORDER: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The plugin's version, from its log line.
static VERSION: OnceLock<String> = OnceLock::new();

/// Runs one task, then ends the process without exit handlers.
pub fn main() -> ExitCode {
    let (Some(control), Some(log)) = (inherited(CONTROL_FD), inherited(LOG_FD)) else {
        // Happens only if a user runs the hidden command by hand.
        return ExitCode::from(Outcome::Usage.exit_code());
    };
    keep_descriptor_zero();
    let control = UnixStream::from(control);
    let Ok(reading) = control.try_clone() else {
        return ExitCode::from(Outcome::NotRun.exit_code());
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (to_inbox, inbox) = mpsc::channel();
    let for_reader = Arc::clone(&stop);
    std::thread::spawn(move || read_control(reading, &to_inbox, &for_reader));
    pass_on_log(log);
    let mut context = Context {
        to_agent: Arc::new(Sender::new(control)),
        inbox,
        stop,
        phase: Phase::Starting,
        announced: Cell::new(false),
    };
    let code = match context.inbox.recv() {
        Ok(WorkerOrder::Start(task)) => context.run(*task),
        _ => Outcome::Usage.exit_code(),
    };
    end(i32::from(code))
}

fn read_control(from: UnixStream, inbox: &mpsc::Sender<WorkerOrder>, stop: &AtomicBool) {
    let mut receiver = Receiver::new(from);
    while let Ok(Some(received)) = receiver.next() {
        match received {
            Received::Message(WorkerOrder::Stop) => stop.store(true, Ordering::Relaxed),
            // Leave the recorder, as an exit inside the plugin would.
            Received::Message(WorkerOrder::Exit) => exit_now(1),
            // The main thread may have ended.
            Received::Message(message) => drop(inbox.send(message)),
            Received::Text(_) => {}
        }
    }
    // The agent is gone: end this process and the processes it forked.
    let _none_is_created = remove_recorder();
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
    exit_now(i32::from(Outcome::PeerLost.exit_code()))
}

fn end(code: i32) -> ! {
    let _none_is_created = remove_recorder();
    exit_now(code)
}

/// Removes the recorder. None is created as long as the guard is held.
fn remove_recorder() -> MutexGuard<'static, Option<PathBuf>> {
    let mut recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = recorder.take() {
        // If this fails, the agent or the next run removes it.
        let _ = std::fs::remove_file(path);
    }
    recorder
}

/// Sends the plugin's sampled log lines, one per packet. If the queue is full, lines are dropped
/// instead of waiting.
fn pass_on_log(log: OwnedFd) {
    tcpx_engine::plugin::capture(move |line: &LogLine| {
        if let Some(version) = line.plugin_version() {
            // Fails if a version was logged before; keep the first.
            let _ = VERSION.set(version.to_owned());
        }
        let Ok(packet) = serde_json::to_vec(line) else {
            return;
        };
        let _ = rustix::net::send(&log, &packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    });
}

impl Context {
    fn run(&mut self, task: Task) -> u8 {
        let done = match task {
            Task::Probe { plugin } => load::load(self, &plugin, 0, "probe").map(drop),
            Task::Gpus => {
                let gpus = tcpx_engine::gpu::cuda_node().map_err(|error| error.to_string());
                self.tell(&WorkerMessage::Gpus(gpus));
                Ok(())
            }
            Task::Contract { plugin, row } => load::contract_row(self, &plugin, &row),
            Task::Pair(pair) => {
                examine::preflight(self, &pair).and_then(|()| connect::run(self, &pair))
            }
            Task::Examine(task) => {
                examine::run(self, &task);
                Ok(())
            }
        };
        let code = match done {
            Ok(()) => 0,
            Err(failure) => {
                self.announce(&failure);
                failure.outcome.exit_code()
            }
        };
        self.enter(Phase::Finished);
        self.tell(&WorkerMessage::Finished(tcpx_engine::plugin::log_summary()));
        code
    }

    /// Sends one message. A lost agent ends the process through the reader.
    pub(super) fn tell(&self, message: &WorkerMessage) {
        let _ = self.to_agent.send(message);
    }

    /// Sends the failure, once, and before any comm is closed: closing makes the peer fail too,
    /// and the first failure to arrive is taken for the cause.
    pub(super) fn announce(&self, failure: &Failure) {
        if !self.announced.replace(true) {
            self.tell(&WorkerMessage::Failed(failure.clone()));
        }
    }

    /// Announces the next phase before the worker enters it.
    pub(super) fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.tell(&WorkerMessage::Phase(phase));
        }
    }

    /// Waits for the next order to the main thread; `what` names the order in an error.
    pub(super) fn receive(&self, deadline: Duration, what: &str) -> TaskResult<WorkerOrder> {
        let started = std::time::Instant::now();
        while started.elapsed() < deadline {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.stopped());
            }
            match self.inbox.recv_timeout(Duration::from_millis(50)) {
                Ok(message) => return Ok(message),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(self.failure(
            Outcome::PeerLost,
            format!("{what} did not arrive within {deadline:?}"),
            None,
        ))
    }

    pub(super) fn failure(
        &self,
        outcome: Outcome,
        message: String,
        next_step: Option<String>,
    ) -> Box<Failure> {
        let follows = matches!(outcome, Outcome::PeerLost | Outcome::Interrupted);
        Box::new(Failure {
            outcome,
            phase: self.phase,
            message,
            next_step,
            follows,
        })
    }

    pub(super) fn stopped(&self) -> Box<Failure> {
        self.failure(
            Outcome::Interrupted,
            format!("stopped while {}", self.phase),
            None,
        )
    }

    /// A refused call is a failure of the plugin; before it is initialised, the run did not start. A call that does
    /// not do what its success requires is the plugin's fault at any time.
    pub(super) fn plugin_failure(&self, error: &PluginError) -> Box<Failure> {
        let breaks_promise = matches!(error, PluginError::BrokenPromise { .. });
        let outcome = match self.phase {
            Phase::Loading | Phase::Initialising if !breaks_promise => Outcome::NotRun,
            _ => Outcome::Failed,
        };
        let mut failure = self.failure(outcome, error.to_string(), error.next_step());
        failure.follows |= is_system_error(error);
        failure
    }

    pub(super) fn bootstrap_failure(&self, error: &BootstrapError) -> Box<Failure> {
        let mut failure = self.failure(error.outcome(), error.to_string(), error.next_step());
        failure.follows |= matches!(error.cause, Cause::PeerAborted { .. });
        failure
    }

    pub(super) fn transfer_failure(&self, error: &TransferError) -> Box<Failure> {
        let outcome = if matches!(error, TransferError::Stopped) {
            Outcome::Interrupted
        } else {
            Outcome::Failed
        };
        let mut failure = self.failure(outcome, error.to_string(), None);
        if let TransferError::Channel { error, .. } = error {
            failure.follows |= match &**error {
                ChannelError::Plugin(error) => is_system_error(error),
                ChannelError::ClosedEarly { .. } => true,
                _ => false,
            };
        }
        failure
    }
}

/// Whether it is the error that a plugin returns when the peer has closed a connection. The calls
/// before and after a connection use none.
fn is_system_error(error: &PluginError) -> bool {
    let PluginError::Refused { call, code, .. } = error else {
        return false;
    };
    let uses_none = matches!(
        *call,
        "init" | "devices" | "getProperties" | "listen" | "regMr"
    ) || call.starts_with("close")
        || call.starts_with("dereg");
    *code == tcpx_abi::result::SYSTEM_ERROR && !uses_none
}
