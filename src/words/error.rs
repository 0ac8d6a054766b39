//! Outcomes of a command, and next steps after an error.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// An error that may have a next step for the user. The next step is separate from the
/// message, because a terminal, the view and a report place it differently. `None` is better
/// than a guess.
pub trait NextStep {
    /// One imperative sentence, without a full stop.
    fn next_step(&self) -> Option<String>;
}

/// How a command ended. The order is not a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The payload was verified and every gate was met.
    Passed,
    /// The command ran, but a gate or the verification failed.
    Failed,
    /// The command line or the configuration was wrong.
    Usage,
    /// The command could not run: plugin, CUDA, tool or permission missing.
    NotRun,
    /// No progress by the deadline.
    Stalled,
    /// The peer was unreachable or lost.
    PeerLost,
    /// The process that runs the plugin ended early: the plugin exited or crashed, or a signal killed it.
    PluginDied,
    /// The command was interrupted, and wrote the results so far.
    Interrupted,
}

impl Outcome {
    /// The exit code of the process.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotRun => 3,
            Self::Stalled => 4,
            Self::PeerLost => 5,
            Self::PluginDied => 6,
            Self::Interrupted => 130,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotRun => "not-run",
            Self::Stalled => "stalled",
            Self::PeerLost => "peer-lost",
            Self::PluginDied => "plugin-died",
            Self::Interrupted => "interrupted",
        })
    }
}
