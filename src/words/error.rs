//! How things end, and what to do next.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// An error that may know what its reader should do. Separate from the message,
/// because the terminal, a screen and a report place it differently; `None`
/// rather than a guess.
pub trait NextStep {
    /// One imperative sentence, without a full stop.
    fn next_step(&self) -> Option<String>;
}

/// How a command ended. The order is not a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything was verified and every gate met.
    Passed,
    /// It ran, and a gate or the verification failed.
    Failed,
    /// The request or a configuration was wrong.
    Usage,
    /// It could not be run: plugin, CUDA, tool or permission missing.
    NotRun,
    /// No progress by the deadline.
    Stalled,
    /// The peer was unreachable or lost.
    PeerLost,
    /// The plugin exited, crashed or was killed.
    PluginDied,
    /// Interrupted, after writing what there is.
    Interrupted,
}

impl Outcome {
    /// The process exit code; whose problem it is.
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
