//! What came of one check on one node, or between two.
#![forbid(unsafe_code)]

use super::check::Severity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Looked at, and it holds.
    Pass,
    /// Looked at; it does not hold, and something will not work.
    Fail,
    /// Looked at; it does not hold, and something may be slow or odd.
    Warn,
    /// Not looked at, or not readable: neither good nor bad.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Warn => "WARN",
            Self::Unknown => "UNKNOWN",
        })
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The check's name.
    pub id: String,
    /// The layer's.
    pub layer: String,
    /// What holds when it passes.
    pub title: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was seen, or why nothing was.
    pub value: String,
    /// What it was held against.
    pub expected: String,
    /// Why it matters.
    pub why: String,
    /// What to do; none where it passed.
    pub next_step: Option<String>,
    /// How bad it would be.
    pub severity: Severity,
    /// The failure that people see without it.
    pub prevents: String,
}
