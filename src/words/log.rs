//! Lines that a plugin logs, and how many there were.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// One line, cleaned of control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// 2 WARN, 3 INFO, ...
    pub level: i32,
    /// What the plugin calls the file: TCPX passes the pretty function.
    pub function: String,
    /// Source line.
    pub line: i32,
    /// The message.
    pub text: String,
    /// How many lines of this place there were, this one included.
    pub count: u64,
}

/// Totals over the life of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Lines received.
    pub lines: u64,
    /// Of them WARN.
    pub warnings: u64,
    /// Passed on.
    pub passed_on: u64,
}
