//! A signature as `probes/logs/*.toml` has it: which line, what it means, what to do.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// What a line of this kind says about the run it is from. The order is a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The process ends right after it.
    Fatal,
    /// A call failed, or a feature is lost.
    Error,
    /// Nothing moves, or slowly, while calls go on returning success.
    Stall,
    /// Suspicious, and it went on.
    Warning,
    /// Says what is there.
    Info,
    /// Looks bad and is not.
    Benign,
}

impl Severity {
    /// Whether such lines are findings.
    pub fn is_finding(self) -> bool {
        self <= Self::Warning
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Stall => "stall",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Benign => "benign",
        }
    }
}

/// The life of a process, as far as its own lines tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Until its last connection was made.
    Setup,
    /// Between the two.
    Transfer,
    /// From the first comm that was closed.
    Close,
}

/// What else is taken from such a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// Groups `key` and `value`: a setting of the process.
    Setting,
    /// Group `transport`: which network NCCL took.
    Transport,
    /// Group `version`: of the plugin.
    Version,
    /// `[0]eth1:10.0.1.25<0>`: NICs and their addresses.
    Devices,
    /// A flow that was made, with its index.
    Flow,
    /// A flow that is slow, with `cnt` and `nanos`.
    Polls,
    /// A comm's last line, with what it sent.
    Volume,
}

impl Fact {
    /// Whether it is in named groups of the regex.
    pub(super) fn has_groups(self) -> bool {
        matches!(self, Self::Setting | Self::Transport | Self::Version)
    }
}

/// One kind of line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Signature {
    /// A stable name that people can quote.
    pub name: String,
    /// Bytes that every such line has: what the scanner looks for.
    pub literal: String,
    /// What else must hold of the record, where the literal is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, in one sentence.
    pub meaning: String,
    /// Likely causes, the likeliest first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do.
    #[serde(default)]
    pub next: Option<String>,
    /// Where it was seen, in words: `plugin 3.1.9`, `NCCL 2.26 and later`.
    pub versions: String,
    /// Phases in which it is no finding.
    #[serde(default)]
    pub benign: Vec<Phase>,
    /// The phase that such a line marks: the end of `setup`, the begin of `close`.
    #[serde(default)]
    pub marks: Option<Phase>,
    /// What else is read from it.
    #[serde(default)]
    pub fact: Option<Fact>,
    /// Signatures that would match too and are not meant.
    #[serde(default)]
    pub over: Vec<String>,
    /// A line as it is written, which is this signature's test.
    pub example: String,
}
