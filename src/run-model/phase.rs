//! Where a worker is, how it ended, and why it could not go on.
#![forbid(unsafe_code)]

use crate::record::ChannelNow;
use serde::{Deserialize, Serialize};
use tcpx_words::error::Outcome;

/// Where a worker is; each is also what it would be killed in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not yet told what to do.
    #[default]
    Starting,
    /// In dlopen.
    Loading,
    /// In `init` and the device list.
    Initialising,
    /// Meeting the peer's worker.
    Bootstrapping,
    /// listen, connect, accept.
    Connecting,
    /// regMr.
    Registering,
    /// Iterations that do not count.
    WarmUp,
    /// Warmed up; other GPUs are not yet.
    Gathering,
    /// Measured iterations.
    Measuring,
    /// A row of the contract suite.
    Checking,
    /// Ends of comms and registrations.
    Closing,
    /// Results are out.
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

/// Why a task could not be completed.
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
    /// Whether a failure of the other end would bring this one about.
    #[serde(default)]
    pub follows: bool,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, when it exited.
    pub code: Option<i32>,
    /// Signal, when it was killed.
    pub signal: Option<i32>,
    /// Whether its agent killed it, after asking in vain.
    pub killed: bool,
    /// Phase it was in.
    pub phase: Phase,
    /// The plugin call it was inside of, if any, and for how long.
    pub in_call: Option<String>,
    /// Counters when it ended.
    pub channels: Vec<ChannelNow>,
}

impl Exit {
    /// `called exit(1)`, `was killed by signal 11 (SIGSEGV)`.
    pub fn how(&self) -> String {
        how_ended(self.code, self.signal)
    }
}

/// The ending of a process that nobody asked to end.
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
        _ => "",
    }
}
