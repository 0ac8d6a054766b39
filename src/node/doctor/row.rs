//! What came of one check on one node, or between two.
#![forbid(unsafe_code)]

use super::check::Severity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckVerdict {
    /// The condition holds.
    Pass,
    /// The condition does not hold; something will not work.
    Fail,
    /// The condition does not hold; something may be slow or fail now and then.
    Warn,
    /// The fact could not be read, or the check was skipped.
    Unknown,
}

impl fmt::Display for CheckVerdict {
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
pub struct CheckRow {
    /// Id of the check, such as `rail-mtu`.
    pub id: String,
    /// Name of its layer, such as `nic`.
    pub layer: String,
    /// What is true when the check passes.
    pub title: String,
    /// The result.
    pub verdict: CheckVerdict,
    /// The value that was read, in words, or why it is unknown.
    pub value: String,
    /// The condition, in words.
    pub expected: String,
    /// Why it matters.
    pub why: String,
    /// What to do; `None` if the check passed.
    pub next_step: Option<String>,
    /// How severe a failure is.
    pub severity: Severity,
    /// The symptom that follows if the failure is ignored.
    pub prevents: String,
}
