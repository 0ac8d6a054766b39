//! Log lines of a plugin, and their counts.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// One log line, without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// NCCL log level: 2 is WARN, 3 is INFO, ...
    pub level: i32,
    /// The logger's `file` argument. TCPX passes `__PRETTY_FUNCTION__`.
    pub function: String,
    /// Line number in the source.
    pub line: i32,
    /// The message.
    pub text: String,
    /// Number of lines logged from this place so far, including this one.
    pub count: u64,
}

/// Totals since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Lines received.
    pub lines: u64,
    /// Lines at level WARN.
    pub warnings: u64,
    /// Lines that were passed on rather than suppressed.
    pub passed_on: u64,
}
