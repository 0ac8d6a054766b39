//! Which nodes of a run of many transfer with which, and over which rails.
#![forbid(unsafe_code)]

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tcpx_words::pattern::Pattern;
use tcpx_words::units::TimeSpan;
use tcpx_words::word_set;

/// Which nodes meet, and over which rails. The nodes are named on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Mesh {
    /// Which nodes transfer with which, and how many at once.
    pub pattern: Pattern,
    /// The rails of a pair of nodes, one after the other or all at once.
    pub rails: Rails,
    /// Whether the rounds of the pattern run one after the other.
    pub rounds: Rounds,
    /// Time for all rounds. Rounds that do not fit are left out, and the run says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TimeSpan>,
}

impl Default for Mesh {
    fn default() -> Self {
        Self {
            pattern: Pattern::Pairs,
            rails: Rails::Each,
            rounds: Rounds::Isolated,
            budget: None,
        }
    }
}

/// The rails of a pair of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rails {
    /// Every rail by itself, one after the other.
    Each,
    /// All rails at once.
    All,
    /// These interfaces, by themselves, one after the other.
    #[serde(untagged)]
    List(Vec<String>),
}

word_set! {
    /// Whether the rounds of a pattern run one after the other.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Rounds {
        /// One after the other: pairs of one round do not share a node.
        Isolated = "isolated",
        /// All at once: every node transfers with all its partners.
        Loaded = "loaded",
    }
}
