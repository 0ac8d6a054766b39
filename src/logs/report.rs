//! The report on logs: what `tcpxctl logs --json` prints.
#![forbid(unsafe_code)]

use super::fields::Polls;
use super::input::InputProblem;
use super::signature::{OwnSignature, Phase, Role, Severity};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything found in the logs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LogReport {
    /// `tcpxctl.logs/1`.
    pub schema: &'static str,
    /// Amount of input.
    pub inputs: Inputs,
    /// Which network carried the data.
    pub transport: Transport,
    /// Settings: one row per key, or one row per value if processes differ.
    pub settings: Vec<Setting>,
    /// Connections.
    pub comms: Vec<Comm>,
    /// Findings: causes by time, then warnings, then what followed.
    pub findings: Vec<SignatureFinding>,
    /// Which of several files failed first, if more than one failed.
    pub first_failure: Option<FirstFailure>,
    /// The hosts of NCCL's processes, so that a report can replace them.
    #[serde(skip)]
    pub hosts: Vec<String>,
    /// Collectives that ranks wait for, the first one first.
    pub waits: Vec<CollectiveWait>,
    /// Ranks below the highest one that waits of which no line says that they wait, as far as the logs have their
    /// lines.
    #[serde(skip)]
    pub not_waiting: Vec<u32>,
    /// Groups in which ranks started fewer collectives than others.
    pub gaps: Vec<CollectiveGap>,
    /// WARN lines without a signature, the first one first.
    pub unknown: Vec<UnknownWarning>,
    /// Lines that state an error in words, if no finding names a cause: the first and the last.
    pub stated: Vec<StatedLine>,
    /// The last lines of processes, the latest of each file first.
    pub ends: Vec<LogEnd>,
    /// Lines that look like problems and are harmless.
    pub benign: Vec<SignatureFinding>,
    /// Signatures of severity info.
    pub seen: Vec<SignatureFinding>,
    /// Builds of the plugin that differ between hosts.
    pub builds: Vec<BuildMismatch>,
    /// Programs that drive the plugin themselves, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<super::harness::HarnessReport>,
    /// Signatures of the user that were used beside the shipped ones, or instead.
    pub own_signatures: Vec<OwnSignature>,
    /// The plugin's telemetry files.
    pub telemetry: Vec<super::telemetry::Telemetry>,
    /// Inputs that could not be read, and limits that were exceeded.
    pub problems: Vec<InputProblem>,
}

impl LogReport {
    /// The places of all lines.
    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = &mut LinePlace> {
        let findings = self.findings.iter_mut().chain(&mut self.benign);
        let findings = findings.chain(&mut self.seen);
        let findings = findings.flat_map(|one| [&mut one.first, &mut one.last]);
        let unknown = self.unknown.iter_mut();
        let unknown = unknown.flat_map(|one| [&mut one.first, &mut one.last]);
        let others = self.stated.iter_mut().map(|one| &mut one.place);
        let ends = self.ends.iter_mut().map(|one| &mut one.last);
        findings.chain(unknown).chain(others).chain(ends)
    }

    /// Whether a verdict on a program covers a finding: it is about a line of that program, and
    /// the verdict says what the line means there.
    pub fn is_in_verdict(&self, finding: &SignatureFinding) -> bool {
        let mut verdicts = self.harness.iter().flat_map(|harness| &harness.verdicts);
        super::harness::is_own(finding)
            && verdicts.any(|verdict| verdict.state.severity().is_some())
    }

    /// The severity of the worst problem: findings, verdicts on programs, and versions or builds
    /// of the plugin that differ. `None` if the logs show no problem.
    pub fn worst(&self) -> Option<Severity> {
        let findings = self.findings.iter().map(|finding| finding.severity);
        let harness = self.harness.iter().flat_map(|harness| &harness.verdicts);
        let harness = harness.filter_map(|verdict| verdict.state.severity());
        let differ = self.transport.versions.len() > 1 || !self.builds.is_empty();
        let differ = differ.then_some(Severity::Warning);
        findings.chain(harness).chain(differ).min()
    }
}

/// Amount of input.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inputs {
    /// Number of files.
    pub files: usize,
    /// Bytes after decompression.
    pub bytes: u64,
    /// Number of lines.
    pub lines: u64,
    /// Lines that contain the literal of a signature.
    pub matched_lines: u64,
    /// Records of such lines that a filter left out.
    pub filtered_records: u64,
    /// Number of files of which no date has a year: their times are told without one.
    pub assumed_years: usize,
    /// The years that are taken for them.
    #[serde(skip)]
    pub taken_years: BTreeSet<i64>,
}

/// Which network carried the data.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Transport {
    /// `tcpx`, `tcpxo`, `socket`, `fastsocket`, `ib`, `ofi`, `other`, `mixed`, `within-node` (peer access or shared
    /// memory), `asked-for` (no line tells, but a command or an environment asks for one), or `unknown`.
    pub verdict: &'static str,
    /// The network below `ib` or `ofi`, where lines tell it: `RoCE`, `InfiniBand`, `EFA`, `Slingshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<&'static str>,
    /// The reason for the verdict, in one sentence.
    pub because: String,
    /// Names of networks, each with the processes that use it.
    pub named: BTreeMap<String, Vec<String>>,
    /// Versions of the plugin, each with the processes that use it.
    pub versions: BTreeMap<String, Vec<String>>,
    /// The networks of libraries beside NCCL: `Ascend HCCL`, `NIXL UCX`.
    pub libraries: Vec<String>,
    /// What a command or an environment asks for, where no line tells what is used: `InfiniBand or RoCE (NCCL_IB_HCA)`.
    pub asked: Vec<String>,
    /// Whether a line is of NCCL, or none of another library.
    #[serde(skip)]
    pub is_of_nccl: bool,
}

impl Transport {
    /// What moves the data, in a few words: what other libraries use, where nothing tells it of NCCL, and what is asked for.
    pub fn headline(&self) -> String {
        let asked = format!("asked for: {}", self.asked.join(", "));
        let over = self
            .fabric
            .map(|fabric| format!("{} over {fabric}", self.verdict));
        let own = match (self.verdict, &over) {
            ("asked-for", _) => asked.as_str(),
            (_, Some(over)) => over.as_str(),
            (other, None) => other,
        };
        match self.libraries.as_slice() {
            [_, ..] if ["unknown", "asked-for"].contains(&self.verdict) => {
                let libraries = self.libraries.join(", ");
                match (self.is_of_nccl, self.verdict) {
                    (true, _) => format!("{libraries}; NCCL's own: {own}"),
                    (false, "asked-for") => format!("{libraries}; {own}"),
                    (false, _) => libraries,
                }
            }
            _ => own.to_owned(),
        }
    }
}

/// One value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The plugin's label, or a variable.
    pub key: String,
    /// The value as logged.
    pub value: String,
    /// Processes with this value; empty if all agree.
    pub processes: Vec<String>,
}

/// One connection, as far as the logs of its two ends show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comm {
    /// The sender's address and port.
    pub from: String,
    /// The receiver's address and port.
    pub to: String,
    /// The sending process, if its log was read.
    pub sender: Option<String>,
    /// The receiving process, if its log was read.
    pub receiver: Option<String>,
    /// The sender's interface.
    pub from_nic: Option<String>,
    /// The receiver's interface.
    pub to_nic: Option<String>,
    /// `control` or `data`.
    pub kind: &'static str,
    /// Number of slowness lines that the sender logged about it.
    pub slow_at_sender: u64,
    /// Number of slowness lines that the receiver logged about it.
    pub slow_at_receiver: u64,
}

/// The name of findings that no signature explains.
pub const UNKNOWN_WARNING: &str = "unknown-warning";

/// All lines of one signature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SignatureFinding {
    /// The signature's name.
    pub signature: String,
    /// The severity of the signature.
    pub severity: Severity,
    /// Whether the lines name what failed, or follow it.
    pub role: Role,
    /// Number of lines.
    pub count: u64,
    /// Processes that logged them.
    pub processes: Vec<String>,
    /// The first line.
    pub first: LinePlace,
    /// The last line.
    pub last: LinePlace,
    /// The phase of the process that all lines are in, if they are in one.
    pub phase: Option<Phase>,
    /// What the lines mean.
    pub meaning: String,
    /// Likely causes, the likeliest first.
    pub causes: Vec<String>,
    /// What to do.
    pub next_step: Option<String>,
    /// Releases in which the signature was observed.
    pub versions: String,
    /// Poll rates in the lines, if they have any.
    pub polls: Option<PollRate>,
    /// Text of the first line.
    pub sample: String,
    /// The lines before the first line, where no signature explains it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The line behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl SignatureFinding {
    /// The place of a finding in a report: 0 names what failed, 1 is a failure without its reason,
    /// 2 a warning, and 3 follows another one.
    pub fn order(&self) -> u8 {
        match self.role {
            Role::Cause if self.severity < Severity::Warning => 0,
            Role::General => 1,
            Role::Cause => 2,
            Role::Consequence => 3,
        }
    }
}

/// Poll rates of slowness lines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PollRate {
    /// Polls per second of the line with the lowest rate.
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

/// The place of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinePlace {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// Time in RFC 3339, if the line has one; without the year, as `11-20T08:14:04Z`, where its file tells none.
    pub at: Option<String>,
}

/// Signature of the finding on the first line that states an error in words, where all else followed.
pub const STATED_ERROR: &str = "stated-error";

/// Signature of the finding on a log that ends with a line that says that its program waits.
pub const WAITS_AT_END: &str = "waits-at-end";

/// Signature of the finding on a log that ends where NCCL begins to make a communicator.
pub const UNFINISHED_NCCL_INIT: &str = "nccl-init-unfinished";

/// Signature of the finding on a log with the head of a benchmark's table and no row.
pub const BENCHMARK_WITHOUT_ROW: &str = "benchmark-without-row";

/// Processes whose last lines differ only in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogEnd {
    /// The processes.
    pub processes: Vec<String>,
    /// The latest of these lines.
    pub last: LinePlace,
    /// Its text.
    pub sample: String,
    /// Whether it says that its program waits.
    pub waits: bool,
    /// Seconds from it to the last line of its file, if both have a time and it is a minute or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<f64>,
}

/// WARN lines without a signature that differ only in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnknownWarning {
    /// The message with every number as `#`.
    pub shape: String,
    /// Number of lines.
    pub count: u64,
    /// The first line.
    pub first: LinePlace,
    /// The last line.
    pub last: LinePlace,
    /// Text of the first line.
    pub sample: String,
    /// The lines before the first line.
    pub before: Vec<String>,
    /// The line behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Processes that logged them.
    pub processes: Vec<String>,
    /// Every process that logged it initialized a communicator afterwards.
    pub survived: bool,
    /// It is a warning of PyTorch, of a daemon or of NCCL's RAS, which warn in healthy jobs too.
    pub notice: bool,
}

impl UnknownWarning {
    /// Whether it is told without being a finding.
    pub(super) fn is_harmless(&self) -> bool {
        self.survived || self.notice
    }
}

/// A line that states an error in words, in no logger's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatedLine {
    /// Where it is.
    pub place: LinePlace,
    /// Its text.
    pub sample: String,
}

/// Which of several files failed first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstFailure {
    /// The file that failed first, or all that may have; none if the log of the first is missing.
    pub files: Vec<String>,
    /// Whether the lines show it.
    pub is_known: bool,
    /// The reason, in one sentence.
    pub because: String,
}

/// A group of ranks of which some started fewer collectives than others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CollectiveGap {
    /// PyTorch's name of the process group, or NCCL's id of the communicator; may be empty.
    pub group: String,
    /// Number of the last collective that the ranks in front started.
    pub started: u64,
    /// Number of ranks in front.
    pub in_front: usize,
    /// The other ranks, the last one first.
    pub behind: Vec<RankBehind>,
}

/// A rank that started fewer collectives than others of its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RankBehind {
    /// Number of the last collective that it started.
    pub started: u64,
    /// The rank.
    pub rank: u32,
    /// The process, or the file and the rank.
    pub process: String,
}

/// Ranks that wait for the same collective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CollectiveWait {
    /// PyTorch's name of the process group; empty if the line has none.
    pub group: String,
    /// Number of the collective in its process group.
    pub sequence: u64,
    /// Its operation, as PyTorch names it.
    pub operation: String,
    /// The ranks that logged the wait.
    pub ranks: Vec<u32>,
}

/// A message that the same function logs from different source lines on different hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BuildMismatch {
    /// Name of the function.
    pub function: String,
    /// Name of the signature.
    pub signature: String,
    /// Source lines, by host.
    pub lines: BTreeMap<String, Vec<u32>>,
}
