//! Phases of a worker, its failure and its exit.
#![forbid(unsafe_code)]

use crate::counters::ChannelNow;
use serde::{Deserialize, Serialize};
use tcpx_words::error::Outcome;

/// The phase a worker is in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Started, without a task yet.
    #[default]
    Starting,
    /// In dlopen.
    Loading,
    /// In `init` and the device list.
    Initialising,
    /// Connecting to the other worker of the pair over the bootstrap.
    Bootstrapping,
    /// In listen, connect and accept.
    Connecting,
    /// In regMr.
    Registering,
    /// Running warm-up iterations, which are not measured.
    WarmUp,
    /// Warmed up, waiting until the workers of all GPUs are.
    Gathering,
    /// Running measured iterations.
    Measuring,
    /// Running a row of the contract suite.
    Checking,
    /// Closing comms and registrations.
    Closing,
    /// Results are sent.
    Finished,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Loading => "loading the plugin",
            Self::Initialising => "initialising the plugin",
            Self::Bootstrapping => "meeting the peer",
            Self::Connecting => "connecting",
            Self::Registering => "registering memory",
            Self::WarmUp => "warming up",
            Self::Gathering => "waiting for the other GPUs",
            Self::Measuring => "measuring",
            Self::Checking => "trying this row",
            Self::Closing => "closing",
            Self::Finished => "finished",
        })
    }
}

/// Why a worker could not complete its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose problem it is.
    pub outcome: Outcome,
    /// The phase it happened in.
    pub phase: Phase,
    /// What happened.
    pub message: String,
    /// What to do.
    pub next_step: Option<String>,
    /// Whether a failure of the other end can cause this one.
    #[serde(default)]
    pub follows: bool,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Number of the signal, if a signal killed it.
    pub signal: Option<i32>,
    /// Whether its agent killed it because it did not stop when asked.
    pub killed: bool,
    /// Phase it was in.
    pub phase: Phase,
    /// The plugin call that had not returned, with its channel.
    pub in_call: Option<String>,
    /// Counters of every channel when it ended.
    pub channels: Vec<ChannelNow>,
}

impl Exit {
    /// `called exit(1)`, `was killed by signal 11 (SIGSEGV)`.
    pub fn how(&self) -> String {
        how_ended(self.code, self.signal)
    }

    /// Whether a signal ended it that other processes send and a crash does not: what the plugin
    /// logged before says nothing about it.
    pub fn is_from_outside(&self) -> bool {
        self.code.is_none() && self.signal.is_some_and(is_sent)
    }
}

/// Whether other processes send this signal and a crash does not.
pub fn is_sent(signal: i32) -> bool {
    [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal)
}

/// Whether it is a signal that programs are sent which have done their work.
pub fn asks_to_end(signal: i32) -> bool {
    is_sent(signal) && signal != libc::SIGKILL
}

/// How a process ended, from its exit status: `called exit(1)`.
pub fn how_ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("called exit({code})"),
        (None, Some(signal)) => format!("was killed by signal {signal}{}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGINT => " (SIGINT, as Ctrl-C sends it)",
        libc::SIGHUP => " (SIGHUP, as a terminal that closes sends it)",
        _ => "",
    }
}
