//! What a log says, as one document: `tcpxctl logs --json`.
#![forbid(unsafe_code)]

use super::fields::Polls;
use super::input::Problem;
use super::signature::{Phase, Severity};
use serde::Serialize;
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// `tcpxctl.logs/1`.
    pub schema: &'static str,
    /// What was read.
    pub inputs: Inputs,
    /// Which network carried the data.
    pub transport: Transport,
    /// What each process set, where all do not agree with one value per key.
    pub settings: Vec<Setting>,
    /// Who talks to whom.
    pub comms: Vec<Comm>,
    /// What is wrong, the worst first, then the earliest.
    pub findings: Vec<Finding>,
    /// WARN lines that no signature knows, the most first.
    pub unknown: Vec<Unknown>,
    /// Lines that look bad and are not.
    pub benign: Vec<Finding>,
    /// What else was recognised.
    pub seen: Vec<Finding>,
    /// Builds of the plugin that differ between hosts.
    pub builds: Vec<BuildMismatch>,
    /// Files of the plugin's telemetry.
    pub telemetry: Vec<super::telemetry::Telemetry>,
    /// What could not be read, or had no place.
    pub problems: Vec<Problem>,
}

/// What was read.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inputs {
    /// Files.
    pub files: usize,
    /// Bytes, as they are without compression.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Lines with a signature's literal.
    pub matched_lines: u64,
}

/// Which network carried the data.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Transport {
    /// `tcpx`, `socket`, `ib`, `other`, `mixed`, or `unknown`.
    pub verdict: &'static str,
    /// What decided it, in one sentence.
    pub because: String,
    /// Networks by name, with their processes.
    pub named: BTreeMap<String, Vec<String>>,
    /// Versions of the plugin, with their processes.
    pub versions: BTreeMap<String, Vec<String>>,
}

/// One value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The plugin's label, or a variable.
    pub key: String,
    /// As it was written.
    pub value: String,
    /// Whose; empty where all agree.
    pub processes: Vec<String>,
}

/// One connection, by both ends where both are in the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comm {
    /// The sender's address and port.
    pub from: String,
    /// The receiver's.
    pub to: String,
    /// Of the sender, if its log is here.
    pub sender: Option<String>,
    /// Of the receiver.
    pub receiver: Option<String>,
    /// The sender's interface.
    pub from_nic: Option<String>,
    /// The receiver's.
    pub to_nic: Option<String>,
    /// `control` or `data`.
    pub kind: &'static str,
    /// Slowness lines of the sender about it.
    pub slow_at_sender: u64,
    /// Of the receiver.
    pub slow_at_receiver: u64,
}

/// Lines of one signature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The signature's name.
    pub signature: String,
    /// How bad.
    pub severity: Severity,
    /// Lines.
    pub count: u64,
    /// Processes that wrote them.
    pub processes: Vec<String>,
    /// The first line.
    pub first: Where,
    /// The last one.
    pub last: Where,
    /// When in their process's life all were written, if one phase holds all.
    pub phase: Option<Phase>,
    /// What it means.
    pub meaning: String,
    /// Likely causes, the likeliest first.
    pub causes: Vec<String>,
    /// What to do.
    pub next_step: Option<String>,
    /// Where the signature was seen.
    pub versions: String,
    /// How often was asked while nothing moved.
    pub polls: Option<PollRate>,
    /// The first of them.
    pub sample: String,
}

/// Of slowness lines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PollRate {
    /// Of the line with the lowest rate.
    pub per_second_min: f64,
    /// Seconds of the longest wait.
    pub seconds_max: f64,
}

impl PollRate {
    #[expect(clippy::cast_precision_loss, reason = "a duration for people")]
    pub(super) fn new(slowest: Polls, longest: Polls) -> Self {
        Self {
            per_second_min: slowest.per_second(),
            seconds_max: longest.nanoseconds as f64 / 1e9,
        }
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Where {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// RFC 3339, if the line has a time.
    pub at: Option<String>,
}

/// WARN lines of one shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unknown {
    /// The message with every number as `#`.
    pub shape: String,
    /// Lines.
    pub count: u64,
    /// The first.
    pub first: Where,
    /// The last.
    pub last: Where,
    /// The first of them.
    pub sample: String,
}

/// The same line of the same function at different places of the source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BuildMismatch {
    /// The function.
    pub function: String,
    /// The signature's name.
    pub signature: String,
    /// Lines of the source, by host.
    pub lines: BTreeMap<String, Vec<u32>>,
}
