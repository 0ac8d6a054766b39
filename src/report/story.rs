//! Everything that a report shows about one run, gathered once, as plain data.
//!
//! Renderers read only this. A report that leaves the machine is redacted here, once for
//! all renderers. A value that is not known is absent, and `missing` gives the reason.
#![forbid(unsafe_code)]

use crate::columns::{Asked, ResultRow};
use crate::words::Language;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_logs::{HarnessReport, HarnessResult, HarnessState};
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::finding::{Finding, Subject};
use tcpx_run_model::ids::{Lane, Names, NodeId, NodeIntro, PairId, PairIntro, Rail, WorkerId};
use tcpx_run_model::record::{
    Clock, KvRecord, MeshCell, Role, SlowDirection, Sums, TransferRecord, Unfinished, nothing_found,
};
use tcpx_run_model::results::{Driving, PluginRecord};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

/// Value of the key `schema`.
pub(crate) const SCHEMA: &str = "tcpxctl.report/2";
/// What is missing where the run's folder lacks what the run had.
pub(crate) const RUN_FILES: &str = "files of the run";

/// Everything that a report shows about one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// Always [`SCHEMA`].
    pub(crate) schema: String,
    /// Version of the tcpxctl that gathered the story.
    pub(crate) tcpxctl_version: String,
    /// Whether names, addresses and secrets have been replaced.
    pub redacted: bool,
    /// The run's id, which is the name of its folder.
    pub id: String,
    pub(crate) state: StoryState,
    /// RFC 3339, UTC.
    pub(crate) started: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) finished: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    /// Exit code of `tcpxctl run`.
    pub(crate) exit_code: Option<u8>,
    /// Why the run ended as it did, in one sentence; `None` if it passed.
    pub(crate) reason: Option<String>,
    pub(crate) next_step: Option<String>,
    /// Gates of the scenario that the run did not meet.
    pub(crate) unmet: Vec<String>,
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The complete scenario file, from which the run can be repeated.
    pub(crate) scenario_toml: Option<String>,
    /// The scenario keys that decide what was run, as (key, value).
    pub(crate) transfer: Vec<(String, String)>,
    /// The requested sizes and windows from which figures are derived.
    pub(crate) asked: Option<Asked>,
    /// The command line as typed, where it was recorded.
    pub(crate) command: Option<String>,
    /// The nodes of the run; a [`NodeId`] is an index into this list.
    pub(crate) nodes: Vec<StoryNode>,
    /// The worker pairs; a [`PairId`] is an index into this list.
    pub(crate) pairs: Vec<StoryPair>,
    /// Processes that no run started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<StoryProcess>,
    /// Plugins with their versions, or else the network, as logs of such processes name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) logged_plugins: Vec<String>,
    /// Hosts that the logs of a run folder name, which are redacted like those of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) logged_hosts: Vec<String>,
    /// This run and the other runs named on the command line, for charts over a sweep.
    #[serde(default)]
    pub(crate) sweep: Vec<SweepPoint>,
    /// Facts that are not the same on every node.
    pub(crate) differences: Vec<NodeDifference>,
    /// One entry for each direction of each lane.
    pub(crate) transfers: Vec<StoryTransfer>,
    /// Rates by NIC, GPU and node while all transfers measured, if this tells more than they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sums: Option<Sums>,
    /// The rates of a mesh, and what they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mesh: Option<StoryMesh>,
    /// Programs that drive the plugin themselves, by their logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) harness: Option<HarnessReport>,
    /// Most severe first.
    pub(crate) findings: Vec<Finding>,
    /// The time axis that `series` is divided by.
    pub(crate) axis: TimeAxis,
    /// What each channel did over time.
    pub(crate) series: Vec<ChannelSeries>,
    /// Posted-to-done times, by worker and side.
    pub(crate) latencies: Vec<SideLatency>,
    /// The requests of one channel around the last change before the run stopped moving.
    pub(crate) timeline: Option<RequestTimeline>,
    /// The window of every channel at the stall, or when last sampled.
    pub(crate) windows: Vec<ChannelWindow>,
    /// Settings that the plugin logged, beside the environment.
    pub(crate) settings: Vec<PluginSetting>,
    /// Doctor checks of the nodes.
    pub(crate) checks: Vec<DoctorCheck>,
    /// Log lines that match a known signature.
    pub(crate) log: Vec<LogFinding>,
    /// WARN lines that match no signature.
    pub(crate) unknown_lines: Vec<LogExcerpt>,
    /// Other text files that the run folder holds about the nodes.
    pub(crate) evidence: Vec<EvidenceFile>,
    /// Data that a reader would expect and that is not there, with the reason.
    pub(crate) missing: Vec<MissingData>,
    /// Questions that the evidence could not answer.
    pub(crate) questions: Vec<Question>,
}

/// How complete the run's record is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoryState {
    /// The run ended and `run.json` was written.
    Finished,
    /// No `run.json`, for an unknown reason.
    #[default]
    Unfinished,
    /// No `run.json` yet: the run is still going.
    Running,
    /// No `run.json`: the coordinator was killed.
    Killed,
    /// No `run.json`: a second signal ended the coordinator before that wrote it.
    Interrupted,
    /// No `run.json`: it could not be written when the run ended.
    Unwritten,
    /// No `run.json`: recordings and logs of programs that no run started.
    Adopted,
    /// Part of the record cannot be read.
    Damaged,
    /// The record's schema version is not known to this program.
    OtherVersion,
}

impl From<Unfinished> for StoryState {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::GoesOn => Self::Running,
            Unfinished::Killed => Self::Killed,
            Unfinished::Interrupted => Self::Interrupted,
            Unfinished::Unwritten => Self::Unwritten,
            Unfinished::Adopted => Self::Adopted,
            Unfinished::Examined | Unfinished::Open => Self::Unfinished,
        }
    }
}

/// The rates between many nodes, and which parts they make suspect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryMesh {
    /// The name of each rail.
    pub(crate) rails: Vec<String>,
    /// The group of each node; empty if none is known.
    pub(crate) groups: Vec<Option<String>>,
    /// The rate of each direction and rail.
    pub(crate) cells: Vec<MeshCell>,
    /// The rates of what was measured again.
    pub(crate) retested: Vec<MeshCell>,
    /// How much rates scatter without the findings: 0.1 is 10 %.
    pub(crate) scatter: f64,
    /// Parts that are slow or dead, the one that explains most first.
    pub(crate) findings: Vec<StoryMeshFinding>,
    /// Parts that were not slow any more when they were measured again, in words.
    pub(crate) cleared: Vec<String>,
    /// Slowest first.
    pub(crate) slowest: Vec<SlowDirection>,
    /// The nodes that a scheduler should leave out.
    pub(crate) nodes_at_fault: Vec<NodeId>,
    /// Rounds that were not run, and their pairs.
    pub(crate) left_out: (usize, usize),
    /// Nodes whose agents did not start, with the reason.
    pub(crate) absent: Vec<(NodeId, String)>,
    /// What differs between the nodes, one sentence each.
    pub(crate) differences: Vec<String>,
    /// The first lines of the program that started the agents.
    #[serde(default)]
    pub(crate) launcher_said: Vec<String>,
}

impl Story {
    /// What the worst of the programs that drive the plugin themselves came to.
    pub(crate) fn harness_state(&self) -> Option<HarnessState> {
        let verdicts = &self.harness.as_ref()?.verdicts;
        verdicts.first().map(|verdict| verdict.state)
    }

    /// Their results.
    pub(crate) fn harness_results(&self) -> &[HarnessResult] {
        let results = self.harness.as_ref().map(|one| one.results.as_slice());
        results.unwrap_or_default()
    }

    /// The sentence of a story without results.
    pub(crate) fn no_results(&self, language: Language) -> &'static str {
        if self.state == StoryState::Adopted && self.nodes.is_empty() {
            return match self.processes.is_empty() {
                true => language.pick(
                    "No results: these are logs of other programs.",
                    "没有结果：这些是其他程序的日志。",
                ),
                false => language.pick(
                    "No results: these are recordings of other programs.",
                    "没有结果：这些是其他程序的记录。",
                ),
            };
        }
        language.pick("No worker reported its results.", "没有 worker 报告结果。")
    }

    /// The sentence of a story without findings. Parts of a mesh are not among them, nor what its logs tell.
    pub(crate) fn no_findings(&self, language: Language) -> &'static str {
        if self.log.iter().any(|one| one.severity.is_finding()) {
            return language.pick(
                "No findings but those of the log, which are below.",
                "除日志中的结论（见下文）外没有诊断结论。",
            );
        }
        match &self.mesh {
            Some(mesh) if !mesh.findings.is_empty() => language.pick(
                "No findings beside those of the mesh.",
                "除网格部分外没有诊断结论。",
            ),
            _ => language.pick("No findings.", "没有诊断结论。"),
        }
    }
}

impl StoryMesh {
    /// The sentence of a mesh of which no part stands out.
    pub(crate) fn nothing_found(&self, findings: &[Finding]) -> Option<String> {
        let words = || nothing_found(&self.cells, &self.rails, self.scatter, findings);
        self.findings.is_empty().then(words)
    }
}

/// A part of a mesh that is slow or dead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryMeshFinding {
    /// One sentence.
    pub(crate) sentence: String,
    /// `confirmed` or `suspected`.
    pub(crate) standing: String,
    /// From 0 to 1.
    pub(crate) confidence: f64,
    /// How many measurements it rests on.
    pub(crate) measurements: usize,
    /// The nodes of the part, if it is one of nodes.
    pub(crate) nodes: Vec<NodeId>,
    /// The rail, if it is one of a rail.
    pub(crate) rail: Option<u32>,
}

/// A process that no run started, by its recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryProcess {
    /// Its process id and node.
    pub(crate) worker: Subject,
    /// Its label: `NCCL rank 3`.
    pub(crate) role: String,
    /// Plugin table, ncclNet version and plugin version.
    pub(crate) plugin: String,
    /// How it ended, `was running` or `is gone`.
    pub(crate) ended: String,
}

impl StoryProcess {
    /// Its row in a table: process, role, plugin, end.
    pub(super) fn cells(&self) -> Vec<String> {
        let cells = [&self.worker.name, &self.role, &self.plugin, &self.ended];
        cells.map(String::clone).into()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryNode {
    /// Display name: `local` and `peer` in a run of two nodes.
    pub(crate) name: String,
    /// The host name that the node reports.
    pub(crate) host: String,
    /// The node's name or address on the command line.
    pub(crate) address: String,
    /// Offset of the node's clock from the coordinator's.
    pub(crate) clock: Option<Clock>,
    /// Hardware and system facts, as (name, value).
    pub(crate) facts: Vec<(String, String)>,
    /// The recorded part of its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// Why its agent ended early, if it did.
    pub(crate) last_words: Vec<String>,
}

/// Two workers that moved bytes between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryPair {
    pub(crate) nodes: [NodeId; 2],
    /// Host memory, or the GPUs that the pair moved bytes for.
    pub(crate) lanes: Vec<Lane>,
    /// The rail of the pair, in a mesh that measures each rail by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rail: Option<Rail>,
    /// The round of a mesh in which it measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<u32>,
    pub(crate) outcome: Option<Outcome>,
    /// Why the pair ended as it did, in one sentence; `None` if it passed.
    pub(crate) reason: Option<String>,
    /// In the order of `nodes`.
    pub(crate) workers: [StoryWorker; 2],
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryWorker {
    /// Display name, such as `peer gpu 3`.
    pub(crate) name: String,
    pub(crate) role: Option<Role>,
    pub(crate) plugin: Option<PluginRecord>,
    /// Variables that the worker was given on top of its node's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The threads that drove its channels, and what they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) driving: Option<Driving>,
    /// Memory use, as (name, value).
    pub(crate) facts: Vec<(String, String)>,
    /// Its failure and its exit, oldest first.
    pub(crate) last_words: Vec<String>,
}

/// One direction of one lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryTransfer {
    /// `local->peer`, and `local->peer@gpu3` for one GPU.
    pub(crate) direction: String,
    #[serde(flatten)]
    pub(crate) record: TransferRecord,
}

/// One run of a sweep, in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepPoint {
    /// The run's id.
    pub(crate) run: String,
    pub(crate) direction: String,
    pub(crate) chunk_bytes: u64,
    /// Bytes of one iteration.
    pub(crate) total_bytes: u64,
    /// For each lane.
    pub(crate) connections: u64,
    pub(crate) median_gb_per_s: f64,
    /// Number of interfaces that carried the transfer.
    pub(crate) nics: usize,
}

/// A fact that is not the same on every node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeDifference {
    /// Name of the fact.
    pub(crate) what: String,
    /// One value for each of [`Story::nodes`]; `None` where the node has none.
    pub(crate) values: Vec<Option<String>>,
}

impl NodeDifference {
    /// The values as text, with `absent` for a node that has none.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.values
            .iter()
            .map(|value| value.as_deref().unwrap_or("absent"))
    }
}

/// The run's time, in equal parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimeAxis {
    /// Milliseconds since the command started.
    pub(crate) from_ms: f64,
    /// Milliseconds since the command started.
    pub(crate) to_ms: f64,
    /// Number of parts.
    pub(crate) parts: usize,
    /// When a stall was declared, in milliseconds since the command started.
    pub(crate) stall_ms: Option<f64>,
}

impl TimeAxis {
    /// Index of the part that contains a moment; `None` outside the axis.
    pub(crate) fn part(&self, ms: f64) -> Option<usize> {
        let span = self.to_ms - self.from_ms;
        if span <= 0.0 || ms < self.from_ms || ms > self.to_ms || self.parts == 0 {
            return None;
        }
        Some((((ms - self.from_ms) / span * self.parts as f64) as usize).min(self.parts - 1))
    }
}

/// One channel of one side over the parts of the [`TimeAxis`]; `None` in parts without a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelSeries {
    pub(crate) worker: Subject,
    pub(crate) side: Side,
    /// Index within its side.
    pub(crate) index: usize,
    /// Network interface.
    pub(crate) dev: String,
    /// Bytes completed in each part.
    pub(crate) bytes: Vec<Option<u64>>,
    /// Maximum number of requests in flight in each part.
    pub(crate) in_flight: Vec<Option<u32>>,
}

/// Posted-to-done times of all channels of one side of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SideLatency {
    pub(crate) worker: Subject,
    pub(crate) side: Side,
    /// Histogram buckets: first nanosecond, first nanosecond after the bucket, count.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
    pub(crate) quantiles: Option<LatencyUs>,
}

/// The requests of one channel on both ends around the channel's last change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestTimeline {
    /// Why this channel was chosen, in words.
    pub(crate) why: String,
    /// Index of the channel.
    pub(crate) channel: usize,
    /// Nanoseconds shown before the last change.
    pub(crate) before_ns: u64,
    /// Nanoseconds shown after the last change.
    pub(crate) after_ns: u64,
    pub(crate) ends: Vec<TimelineEnd>,
    /// Log lines: nanoseconds from the last change, worker, text.
    pub(crate) notes: Vec<(i64, String, String)>,
}

/// One end of the channel of a [`RequestTimeline`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimelineEnd {
    pub(crate) worker: Subject,
    pub(crate) side: Side,
    /// Oldest first.
    pub(crate) requests: Vec<TimelineRequest>,
}

/// When a request reached each stage, in nanoseconds from the channel's last change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimelineRequest {
    /// Lowest 32 bits of the request's number, which counts from 0 on each channel.
    pub(crate) number: u32,
    pub(crate) posted: Option<i64>,
    pub(crate) done: Option<i64>,
    pub(crate) unpacked: Option<i64>,
    pub(crate) consumed: Option<i64>,
}

/// The window of one channel at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelWindow {
    pub(crate) worker: Subject,
    pub(crate) side: Side,
    /// Index within its side.
    pub(crate) index: usize,
    /// Network interface.
    pub(crate) dev: String,
    /// One letter for each request in flight, oldest first: `p` posted, `d` done, `u` unpacked.
    pub(crate) requests: String,
    pub(crate) posted: u64,
    pub(crate) done: u64,
    pub(crate) consumed: u64,
    /// Age of the oldest request in flight.
    pub(crate) head_age_ms: Option<u64>,
    /// Time since any request changed state.
    pub(crate) quiet_ms: u64,
    /// Calls of `test`.
    pub(crate) tests: u64,
    /// Calls of `test` that returned done=0.
    pub(crate) tests_not_done: u64,
    /// Calls that returned a code other than success.
    pub(crate) rc_errors: u64,
    /// The plugin call that the channel's thread is inside of.
    pub(crate) in_call: Option<String>,
    /// The last call that failed, and its return code.
    pub(crate) last_error: Option<(String, i32)>,
    /// Local and remote address, as far as the end knows them: of a foreign program, a sender knows the remote one and
    /// a receiver its own.
    pub(crate) addresses: Option<(Option<String>, Option<String>)>,
}

impl ChannelWindow {
    /// Requests that are posted and not yet retired.
    pub(crate) fn in_flight(&self) -> u64 {
        in_flight(self.side, self.posted, self.done, self.consumed)
    }

    /// Side and index, such as `recv 1`.
    pub(crate) fn channel(&self) -> String {
        format!("{} {}", self.side, self.index)
    }
}

/// Requests that are posted and not yet retired: a send retires when it is done, a receive
/// when it is consumed.
pub(super) fn in_flight(side: Side, posted: u64, done: u64, consumed: u64) -> u64 {
    let retired = if side == Side::Recv { consumed } else { done };
    posted.saturating_sub(retired)
}

/// One setting: the value that the plugin logged, beside the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PluginSetting {
    /// The plugin's label for the setting, or the name of its variable.
    pub(crate) key: String,
    /// The value that the plugin logged, by worker name.
    pub(crate) effective: BTreeMap<String, String>,
    /// The value in the environment, by node name, or by worker name where the workers of a
    /// node have different values.
    pub(crate) environment: BTreeMap<String, String>,
    /// Whether a worker's effective value differs from its environment or from another worker's.
    pub(crate) differs: bool,
}

/// One doctor check of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoctorCheck {
    /// The node, as the doctor names it.
    pub(crate) node: String,
    /// The check's name.
    pub(crate) id: String,
    /// `PASS`, `FAIL`, `WARN` or `UNKNOWN`.
    pub(crate) verdict: String,
    /// The value that was found.
    pub(crate) value: String,
    pub(crate) next_step: Option<String>,
}

/// The log lines of one worker that match one signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogFinding {
    /// The signature's name.
    pub(crate) signature: String,
    pub(crate) severity: tcpx_logs::Severity,
    /// Number of matching lines.
    pub(crate) count: u64,
    pub(crate) meaning: String,
    /// Most likely first.
    pub(crate) causes: Vec<String>,
    pub(crate) next_step: Option<String>,
    /// The first matching line.
    pub(crate) excerpt: LogExcerpt,
    /// Time of the last matching line.
    pub(crate) last_at: Option<String>,
}

/// A log line, and how many lines of its kind there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogExcerpt {
    /// The worker that logged it.
    pub(crate) worker: Subject,
    /// Time of the line.
    pub(crate) at: Option<String>,
    /// Number of lines of its kind.
    pub(crate) count: u64,
    pub(crate) text: String,
}

/// A text file about a node, from the run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EvidenceFile {
    /// Path below the run folder.
    pub(crate) name: String,
    /// Size of the whole file.
    pub(crate) bytes: u64,
    /// The beginning of the file, as much as a report shows.
    pub(crate) text: String,
    /// Whether the file is longer than `text`.
    pub(crate) cut: bool,
}

/// Data that a reader would expect and that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MissingData {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// A question for Google's TCPX team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Stable kebab-case name.
    pub(crate) id: String,
    pub(crate) english: String,
    pub(crate) chinese: String,
    /// The facts of this run that raise the question.
    pub(crate) because: Vec<String>,
}

impl Story {
    /// The display names of nodes and pairs.
    pub(crate) fn names(&self) -> Names {
        let node = |node: &StoryNode| NodeIntro {
            name: node.name.clone(),
            address: node.address.clone(),
        };
        let pair = |pair: &StoryPair| PairIntro {
            nodes: pair.nodes,
            lanes: pair.lanes.clone(),
            rail: pair.rail.clone(),
            round: None,
        };
        Names {
            nodes: self.nodes.iter().map(node).collect(),
            pairs: self.pairs.iter().map(pair).collect(),
        }
    }

    /// Every worker with its id.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (WorkerId, &StoryWorker)> {
        (0..).zip(&self.pairs).flat_map(|(number, pair)| {
            let ids = pair
                .nodes
                .map(|node| WorkerId::of_pair(node, PairId(number)));
            ids.into_iter().zip(&pair.workers)
        })
    }

    /// The plugin of every worker that loaded one.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &PluginRecord> {
        self.workers()
            .filter_map(|(_, worker)| worker.plugin.as_ref())
    }

    /// The rows of the results table.
    pub(super) fn result_rows(&self) -> impl Iterator<Item = ResultRow<'_>> {
        let asked = self.asked;
        self.transfers.iter().map(move |one| ResultRow {
            direction: &one.direction,
            transfer: &one.record,
            asked,
        })
    }

    /// Every transfer with its direction, for [`columns::kv`](crate::columns::kv).
    pub(super) fn kv_rows(&self) -> Vec<(&str, &TransferRecord)> {
        let all = self.transfers.iter();
        all.map(|one| (one.direction.as_str(), &one.record))
            .collect()
    }

    /// The KV-cache traffic of each direction that has some.
    pub(super) fn kv_each(&self) -> impl Iterator<Item = (&str, &KvRecord)> {
        let all = self.transfers.iter();
        all.filter_map(|one| Some((one.direction.as_str(), one.record.kv.as_deref()?)))
    }

    /// The rows of the slowest transfers, slowest first.
    pub(super) fn slowest_rows(&self, most: usize) -> Vec<ResultRow<'_>> {
        let mut rows: Vec<ResultRow<'_>> = self.result_rows().collect();
        rows.sort_by(|one, other| one.transfer.gb_per_s.total_cmp(&other.transfer.gb_per_s));
        rows.truncate(most);
        rows
    }

    /// Whether the run ended with this outcome.
    pub(crate) fn is(&self, outcome: Outcome) -> bool {
        self.outcome == Some(outcome)
    }

    /// Verified bytes, summed over all directions.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.record.verified_bytes))
    }

    /// Bytes that failed verification, summed over all directions.
    pub(crate) fn wrong_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.record.wrong_bytes))
    }

    /// Adds another run to the sweep. The first call also adds this run.
    pub fn sweep_with(&mut self, other: &Self) {
        if self.sweep.is_empty() {
            self.sweep = self.points();
        }
        self.sweep.extend(other.points());
    }

    fn points(&self) -> Vec<SweepPoint> {
        let asked = self.asked.unwrap_or_default();
        let mut points = Vec::new();
        for transfer in &self.transfers {
            let record = &transfer.record;
            if record.iterations == 0 {
                continue;
            }
            let nics: BTreeSet<&str> = record
                .channels
                .iter()
                .map(|channel| channel.dev.as_str())
                .collect();
            points.push(SweepPoint {
                run: self.id.clone(),
                direction: transfer.direction.clone(),
                chunk_bytes: asked.chunk_bytes,
                total_bytes: asked.total_bytes,
                connections: asked.connections,
                median_gb_per_s: record.median_gb_per_s,
                nics: nics.len().max(1),
            });
        }
        points
    }

    /// Whether a stall was declared, or a run that did not pass ended with requests in flight.
    pub(crate) fn stood_still(&self) -> bool {
        let waiting = self.windows.iter().any(|window| window.in_flight() > 0);
        self.axis.stall_ms.is_some() || (waiting && !self.is(Outcome::Passed))
    }

    /// Whether a part of the record cannot be read, was not written, or is gone.
    pub(super) fn is_incomplete(&self) -> bool {
        let mut missing = self.missing.iter();
        self.state == StoryState::Damaged || missing.any(|one| one.what == RUN_FILES)
    }

    /// Records that part of the run folder cannot be read.
    pub(super) fn damaged(&mut self, what: &str, why: impl Into<String>) {
        self.state = StoryState::Damaged;
        self.lacks(what, why);
    }

    /// Records that data is missing, with the reason.
    pub(crate) fn lacks(&mut self, what: &str, why: impl Into<String>) {
        self.missing.push(MissingData {
            what: what.to_owned(),
            why: why.into(),
        });
    }
}
