//! What the report says about such programs.
#![forbid(unsafe_code)]

use super::super::report::LinePlace;
use super::super::signature::Severity;
use super::line::HarnessRole;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The programs, their results, and what they come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HarnessReport {
    /// One for each pair of ends, and for each end without its peer.
    pub verdicts: Vec<HarnessVerdict>,
    /// One end of one process each.
    pub programs: Vec<HarnessProgram>,
    /// One for each run of iterations, or for each message size.
    pub results: Vec<HarnessResult>,
}

/// Where the log of a program leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HarnessState {
    /// A call failed, or the peer was lost.
    Failed,
    /// The log ends while the program waits.
    Waits,
    /// The program ended, but not all of its figures hold.
    Doubtful,
    /// The program ended, and nothing contradicts its figures.
    Finished,
}

impl HarnessState {
    /// The word at the start of a verdict.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waits => "waits",
            Self::Doubtful => "doubtful",
            Self::Finished => "finished",
        }
    }

    /// How bad the state is; `None` for a program that ended as it should.
    pub fn severity(self) -> Option<Severity> {
        match self {
            Self::Failed => Some(Severity::Error),
            Self::Waits => Some(Severity::Stall),
            Self::Doubtful => Some(Severity::Warning),
            Self::Finished => None,
        }
    }
}

/// What the lines of one end, or of both, come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessVerdict {
    /// A stable name.
    pub condition: Cow<'static, str>,
    /// The state of the programs.
    pub state: HarnessState,
    /// Indices in `programs`.
    pub programs: Vec<usize>,
    /// One sentence.
    pub summary: String,
    /// The deciding facts, with their lines.
    pub because: Vec<String>,
    /// The end that has to act next, if the lines show it.
    pub turn: Option<HarnessRole>,
    /// What to do, the first step first.
    pub next_steps: Vec<String>,
    /// What the lines do not show.
    pub cannot_tell: Vec<String>,
}

/// One end of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessProgram {
    /// The file, the rank, the end and the GPU.
    pub name: String,
    /// Path of the file.
    pub file: String,
    /// Which end it is, if a line says so.
    pub role: Option<HarnessRole>,
    /// Its GPU, if it has one.
    pub gpu: Option<u32>,
    /// `starting`, `bootstrap`, `listen`, `accept`, `connect`, `register`, `ready`, `post`, `drain`, `between`
    /// (iterations), `measuring` (rates without iterations) or `done`.
    pub phase: Cow<'static, str>,
    /// Number of its lines.
    pub lines: u64,
    /// Its last line.
    pub last: LinePlace,
    /// Text of the last line.
    pub last_text: String,
    /// From its last line to the last line of any program that has a time.
    pub silent_seconds: Option<f64>,
    /// Iterations: asked for, last begun, last ended, aborted.
    pub iterations: HarnessIterations,
    /// Requests that were posted, by its lines.
    pub posted: u64,
    /// Requests that were done, by its lines; a lower bound.
    pub done: u64,
    /// Logged calls of `test`.
    pub tests: HarnessTests,
    /// Channels, those with the fullest windows first.
    pub channels: Vec<HarnessChannel>,
    /// The first failure that it printed.
    pub failure: Option<String>,
}

/// Iterations of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessIterations {
    /// As the program was told.
    pub wanted: Option<u64>,
    /// Number of the last one that began, from 0.
    pub begun: Option<u32>,
    /// Number of the last one that ended.
    pub ended: Option<u32>,
    /// Number of aborted ones.
    pub aborted: u32,
}

/// Logged calls of `test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessTests {
    /// Number of lines.
    pub logged: u64,
    /// Those that found the request done.
    pub done: u64,
    /// Those at the end of the log that returned 0 and were not done.
    pub not_done_at_end: u64,
    /// Those with a result code other than 0.
    pub with_rc: u64,
    /// The first of these codes.
    pub first_rc: Option<i64>,
}

/// One channel of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessChannel {
    /// The GPU, if lines name it.
    pub gpu: Option<u32>,
    /// The channel of the GPU, if lines name it.
    pub channel: Option<u32>,
    /// Posts that returned.
    pub posted: u64,
    /// Requests that left the window.
    pub released: u64,
    /// Requests in the window at the last line about it.
    pub in_flight: u32,
    /// Most requests in the window.
    pub high_water: u32,
    /// Size of the window.
    pub size: Option<u32>,
}

/// The result of a run of iterations, or of one message size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessResult {
    /// Index in `programs`.
    pub program: usize,
    /// Which end measured it.
    pub role: Option<HarnessRole>,
    /// The GPU; absent for all GPUs of a process.
    pub gpu: Option<u32>,
    /// Bytes of an iteration or of a message.
    pub bytes: Option<u64>,
    /// Iterations that were measured.
    pub iterations: u64,
    /// Iterations that were asked for.
    pub wanted: Option<u64>,
    /// Milliseconds of the first iteration.
    pub first_ms: Option<f64>,
    /// Median of the other iterations, in milliseconds.
    pub median_ms: Option<f64>,
    /// Median rate of the iterations but the first, in 10^9 bytes per second.
    pub gb_per_s: Option<f64>,
    /// Rate of each iteration, in 10^9 bytes per second.
    pub samples_gb_per_s: Vec<f64>,
    /// The program's own mean rate as it prints it: 2^30 bytes per second, called GB/s.
    pub printed: Option<f64>,
    /// Why the rate is wrong.
    pub wrong: Option<Cow<'static, str>>,
}
