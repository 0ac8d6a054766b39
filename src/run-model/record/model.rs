//! `run.json`, schema `tcpxctl.run/2`: the result of one run, for scripts and for every report.
//!
//! `model_v1.rs` converts records of version 1.
#![forbid(unsafe_code)]

use super::mesh::MeshRecord;
use super::model_v1;
use super::sums::Sums;
use crate::counters::{LatencyUs, NetworkUse};
use crate::finding::Finding;
use crate::ids::{Lane, Names, NodeId, NodeIntro, PairId, PairIntro, Rail, WorkerId};
use crate::results::{Driving, KvTimes, PluginRecord};
use crate::scenario::{KvOperation, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use tcpx_node::NodeFacts;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::payload::Mismatch;
use tcpx_words::side::Side;
use tcpx_words::word_set;

/// Value of the key `schema`.
pub const SCHEMA: &str = "tcpxctl.run/2";

/// One run. `schema` and `outcome` are required; a record without the other keys, for example after
/// redaction, is still read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run folder.
    #[serde(default)]
    pub id: String,
    /// Start of the command, RFC 3339, UTC.
    #[serde(default)]
    pub started: String,
    /// End of the command, RFC 3339, UTC.
    #[serde(default)]
    pub finished: String,
    /// When its last event happened, milliseconds since the start of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_until_ms: Option<f64>,
    /// Version of the coordinator.
    #[serde(default)]
    pub tcpxctl_version: String,
    /// How the run ended.
    pub outcome: Outcome,
    /// Exit code of the command.
    #[serde(default)]
    pub exit_code: u8,
    /// Why the run did not pass, in one sentence.
    pub reason: Option<String>,
    /// What the user can do about the failure.
    pub next_step: Option<String>,
    /// The scenario.
    #[serde(default)]
    pub scenario: ScenarioRecord,
    /// The nodes; a node's id is its index in this list.
    #[serde(default)]
    pub nodes: Vec<NodeRecord>,
    /// The pairs of workers; a pair's id is its index in this list.
    #[serde(default)]
    pub pairs: Vec<PairRecord>,
    /// One transfer for each direction of each lane.
    #[serde(default)]
    pub transfers: Vec<TransferRecord>,
    /// Rates by NIC, GPU and node over the interval that all transfers measured in, if there is
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<Sums>,
    /// What of a mesh was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<MeshRecord>,
    /// Findings of the diagnosis.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Expectations of `[expect]` that were not met, one sentence each.
    #[serde(default)]
    pub unmet: Vec<String>,
    /// The command line, quoted for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The first file of the run folder that could not be written, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<String>,
}

/// The scenario of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScenarioRecord {
    /// Name from the scenario file.
    pub name: String,
    /// SHA-256 of the canonical form, hexadecimal.
    pub sha256: String,
    /// Every key with its value.
    pub resolved: Scenario,
}

/// A node's clock, seen from the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The node's time minus the coordinator's, microseconds.
    pub offset_us: i64,
    /// Round-trip time of the measurement, microseconds; the error of `offset_us` is at most half.
    pub round_trip_us: u64,
}

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name in output: `local` and `peer` in a run of two nodes.
    pub name: String,
    /// The address or name given on the command line.
    #[serde(default)]
    pub address: String,
    /// Host name reported by the node.
    #[serde(default)]
    pub host: String,
    /// Clock offset from the coordinator.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// Hardware and software of the node.
    pub facts: Option<Box<NodeFacts>>,
}

/// Two workers that transfer data to each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairRecord {
    /// The nodes of the two workers.
    pub nodes: [NodeId; 2],
    /// The lanes that the pair transfers for: host memory, or GPUs.
    pub lanes: Vec<Lane>,
    /// The rail of the pair, in a mesh that measures each rail by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<Rail>,
    /// The round of the mesh that it was measured in, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// How the pair ended.
    pub outcome: Outcome,
    /// Why the pair did not pass, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The workers, in the order of `nodes`.
    pub workers: [WorkerRecord; 2],
}

/// One worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Directions of this worker: `send`, `recv` or `both`.
    pub role: Role,
    /// The plugin, if the worker got as far as loading one.
    pub plugin: Option<PluginRecord>,
    /// Environment variables that tcpxctl set for the worker.
    pub env: BTreeMap<String, String>,
    /// The plugin's WARN lines, sampled.
    pub warnings: Vec<String>,
    /// Number of lines that the plugin logged: all levels, and WARN.
    pub log_lines: Option<(u64, u64)>,
    /// Resident memory of the worker at the end.
    pub resident_bytes: Option<u64>,
    /// Memory that the worker registered with the plugin.
    pub registered_bytes: Option<u64>,
    /// Memory of the message buffers: `host`, `device stand-in`, `GPU 0 (…)`.
    #[serde(default)]
    pub memory: Option<String>,
    /// The threads that drove its channels; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driving: Option<Driving>,
    /// The windows that are narrower than the scenario asks for, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Its TCP connections and interfaces at the end of the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    /// Path of the worker's freeze-frame in the run folder, if a stall was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
}

word_set! {
    /// What a worker does with payload.
    #[derive(Default)]
    pub enum Role {
        /// Sends.
        Send = "send",
        /// Receives.
        Recv = "recv",
        /// Both.
        #[default]
        Both = "both",
    }
}

/// The transfer in one direction of one lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The pair of workers.
    pub pair: PairId,
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// The lane: host memory, or a GPU.
    pub lane: Lane,
    /// Start and end of the receiver's measured interval, milliseconds since the command started;
    /// `RunRecord::overlap` compares these intervals of several GPUs.
    #[serde(default)]
    pub measured_ms: Option<(f64, f64)>,
    /// Bytes of the measured iterations.
    pub bytes: u64,
    /// Bytes compared with the pattern since measuring began; more than `bytes` if the run ended in
    /// the middle of an iteration.
    pub verified_bytes: u64,
    /// Bytes that differ from the pattern, warm-up included.
    pub wrong_bytes: u64,
    /// Duration of the measured iterations: between barriers that both ends share, or, of one of
    /// several lanes of a process, until the lane's last byte had been received.
    pub seconds: f64,
    /// 10^9 bytes per second over `seconds`.
    pub gb_per_s: f64,
    /// Median rate of the measured iterations, 10^9 bytes per second.
    pub median_gb_per_s: f64,
    /// Number of completed measured iterations.
    pub iterations: u32,
    /// Duration of each measured iteration, seconds.
    pub iteration_seconds: Vec<f64>,
    /// Duration of the first iteration, seconds; a run of several iterations never measures this
    /// one.
    pub first_iteration_seconds: Option<f64>,
    /// Time for one chunk there and one back, measured on the sending node; ping-pong only.
    pub round_trip_us: Option<LatencyUs>,
    /// Requests of KV-cache traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<Box<KvRecord>>,
    /// First range of wrong bytes of each channel that received any.
    pub mismatches: Vec<Mismatch>,
    /// Channels of the sending side, then of the receiving side.
    pub channels: Vec<ChannelRecord>,
}

/// The requests of KV-cache traffic in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KvRecord {
    /// The pages, such as `llama-3.1-8b, 32 layers, pages of 16 tokens (64KiB)`.
    pub what: String,
    /// `pull` or `push`.
    pub op: Option<KvOperation>,
    /// Lengths and batches, such as `requests of 1024 tokens in batches of 64 pages`.
    #[serde(default)]
    pub requests_of: String,
    /// How requests arrive, such as `closed loop of 4`.
    pub arrival: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Most pages of a batch.
    pub batch: u32,
    /// Seed of lengths, pages and arrivals.
    pub seed: u32,
    /// Bytes per second of the requests that ended with every byte right, in 10^9 bytes per second.
    pub goodput_gb_per_s: f64,
    /// Times by request, by batch, in the call, and to list the pages.
    #[serde(flatten)]
    pub times: KvTimes,
}

/// Counters of one channel of one side, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// Index within its direction.
    pub id: usize,
    /// Interface name of the plugin's device.
    pub dev: String,
    /// `send` or `recv`.
    pub side: Side,
    /// Requests posted.
    pub posted: u64,
    /// Requests done.
    pub done: u64,
    /// Requests consumed.
    pub consumed: u64,
    /// Bytes of the requests done.
    pub bytes: u64,
    /// Most requests in flight.
    pub in_flight_high_water: u64,
    /// Calls of `test`.
    pub tests: u64,
    /// Calls of `test` that returned "not done".
    pub tests_not_done: u64,
    /// Calls that returned an error.
    pub rc_errors: u64,
    /// Posts for which the plugin returned no request: try again.
    pub null_requests: u64,
    /// Time from post to done.
    pub latency_us: Option<LatencyUs>,
    /// Whether the worker's flight recorder had no memory for this channel: of its counters only the
    /// bytes are known, and the others are 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
}

/// Why a `run.json` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The file is not valid JSON, or lacks a required key.
    #[error("run.json is damaged: {0}")]
    Damaged(String),
    /// The document is of another kind, or of a newer version.
    #[error("run.json has schema {found}; this tcpxctl reads tcpxctl.run/1 and {SCHEMA}")]
    Schema {
        /// The value of its key `schema`.
        found: String,
    },
}

impl NextStep for RecordError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Damaged(_) => None,
            Self::Schema { .. } => {
                Some("use the tcpxctl that wrote the file, or a newer one".into())
            }
        }
    }
}

/// Parses a `run.json` of any known version, as JSON of the current version.
///
/// # Errors
/// The file is not a JSON object, or its version is unknown.
pub fn record_value(bytes: &[u8]) -> Result<Value, RecordError> {
    let record: Value =
        serde_json::from_slice(bytes).map_err(|error| RecordError::Damaged(error.to_string()))?;
    if !record.is_object() {
        return Err(RecordError::Damaged("not a JSON object".to_owned()));
    }
    match known_version(record["schema"].as_str())? {
        Version::One => Ok(model_v1::upgraded(record)),
        Version::Two => Ok(record),
    }
}

/// A schema version that this program reads.
pub(super) enum Version {
    One,
    Two,
}

pub(super) fn known_version(schema: Option<&str>) -> Result<Version, RecordError> {
    match schema {
        Some(SCHEMA) => Ok(Version::Two),
        // Records that were shortened by hand, as in tests, may lack the key.
        Some("tcpxctl.run/1") | None => Ok(Version::One),
        Some(found) => Err(RecordError::Schema {
            found: tcpx_words::units::printable(found),
        }),
    }
}

impl RunRecord {
    /// Parses a `run.json` of any known version.
    ///
    /// # Errors
    /// The file is damaged, or its version is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        // Every type is read from bytes only: reading it from a `Value` as well would compile the
        // reader of each type a second time.
        let current = record_value(bytes)?.to_string();
        serde_json::from_slice(current.as_bytes())
            .map_err(|error| RecordError::Damaged(error.to_string()))
    }

    /// The names of all nodes and pairs.
    pub fn names(&self) -> Names {
        let node = |node: &NodeRecord| {
            let (name, address) = (node.name.clone(), node.address.clone());
            NodeIntro { name, address }.printable()
        };
        let pair = |pair: &PairRecord| PairIntro {
            nodes: pair.nodes,
            lanes: pair.lanes.clone(),
            rail: pair.rail.clone(),
            round: pair.round,
        };
        Names {
            nodes: self.nodes.iter().map(node).collect(),
            pairs: self.pairs.iter().map(pair).collect(),
        }
    }

    /// `local->peer`, and `local->peer@gpu3` for one GPU.
    pub fn direction(&self, transfer: &TransferRecord) -> String {
        self.names()
            .direction(transfer.from, transfer.to, transfer.lane)
    }

    /// Every worker with its pair and its node.
    pub fn workers(&self) -> impl Iterator<Item = (PairId, NodeId, &WorkerRecord)> {
        let of_pair = |(pair, record): (u32, &'_ PairRecord)| (PairId(pair), record.nodes);
        (0..).zip(&self.pairs).flat_map(move |(number, pair)| {
            let (id, nodes) = of_pair((number, pair));
            nodes
                .into_iter()
                .zip(&pair.workers)
                .map(move |(node, worker)| (id, node, worker))
        })
    }

    /// Wrong bytes of all transfers.
    pub fn wrong_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .map(|transfer| transfer.wrong_bytes)
            .sum()
    }

    /// The time in which all transfers measured, as a share of the time from the first start to the
    /// last end; `None` for fewer than two transfers.
    pub fn overlap(&self) -> Option<f64> {
        let times: Vec<(f64, f64)> = self
            .transfers
            .iter()
            .filter_map(|transfer| transfer.measured_ms)
            .collect();
        let starts_and_ends = |pick: fn(f64, f64) -> f64| {
            let start = times.iter().map(|time| time.0).reduce(pick)?;
            let end = times.iter().map(|time| time.1).reduce(pick)?;
            Some((start, end))
        };
        let (first_start, first_end) = starts_and_ends(f64::min)?;
        let (last_start, last_end) = starts_and_ends(f64::max)?;
        let any = last_end - first_start;
        let all = (first_end - last_start).max(0.0);
        (times.len() > 1 && any > 0.0).then(|| all / any)
    }

    /// Compares the run with `[expect]` and sets outcome, exit code and `unmet`. The exit code is 0
    /// if `expect.outcome` is met along with everything else, otherwise the outcome's own code, or
    /// 1 if the run passed and an expectation is not met.
    pub fn settle(&mut self) {
        let expect = self.scenario.resolved.expect.clone();
        if self.outcome == Outcome::Passed
            && self.wrong_bytes() > expect.max_wrong_bytes.unwrap_or(0)
        {
            self.outcome = Outcome::Failed;
            self.reason = Some(format!("{} wrong bytes", self.wrong_bytes()));
        }
        let own_code = self.outcome.exit_code();
        if self.outcome == Outcome::Usage {
            // No record has the outcome `usage`: nothing ran.
            self.outcome = Outcome::NotRun;
        }
        let mut unmet = Vec::new();
        if let Some(wanted) = expect.outcome
            && wanted != self.outcome
        {
            unmet.push(format!(
                "expect.outcome is {wanted}, it was {}",
                self.outcome
            ));
        }
        if let Some(wanted) = &expect.finding
            && !self
                .findings
                .iter()
                .any(|finding| finding.condition == *wanted)
        {
            unmet.push(format!("expect.finding is {wanted}, which was not found"));
        }
        let names = self.names();
        for (pair, node, worker) in self.workers() {
            if let (Some(wanted), Some(plugin)) = (&expect.plugin, &worker.plugin)
                && plugin.name != *wanted
            {
                let who = names.worker(WorkerId::of_pair(node, pair));
                unmet.push(format!(
                    "expect.plugin is {wanted}, {who} used {}",
                    plugin.name
                ));
            }
        }
        for transfer in &self.transfers {
            if let Some(wanted) = expect.min_gb_per_s
                && transfer.gb_per_s < wanted.get()
            {
                let (from, to) = (names.node(transfer.from), names.node(transfer.to));
                unmet.push(format!(
                    "expect.min_gb_per_s is {}, {from} to {to} reached {:.3}",
                    wanted.get(),
                    transfer.gb_per_s
                ));
            }
        }
        if let Some(most) = expect.max_wrong_bytes
            && self.wrong_bytes() > most
        {
            unmet.push(format!(
                "expect.max_wrong_bytes is {most}, there were {}",
                self.wrong_bytes()
            ));
        }
        let has_gates = expect != crate::scenario::Expect::default();
        self.exit_code = match (has_gates, unmet.is_empty(), self.outcome) {
            (true, true, outcome) if expect.outcome == Some(outcome) => 0,
            (_, false, Outcome::Passed) => 1,
            _ => own_code,
        };
        self.unmet = unmet;
    }

    /// Notes that the run folder lacks a part of the run. Success is then no exit code 0, as
    /// later commands cannot tell all about this run.
    pub(super) fn is_incomplete(&mut self, why: &impl std::fmt::Display) {
        self.unwritten = Some(why.to_string());
        if self.exit_code == 0 {
            self.exit_code = Outcome::NotRun.exit_code();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_and_unknown_versions_are_errors() {
        for damaged in ["", "3", "[]", "null", "{\"schema\":"] {
            assert!(
                matches!(
                    record_value(damaged.as_bytes()),
                    Err(RecordError::Damaged(_))
                ),
                "{damaged}"
            );
        }
        assert!(record_value(b"{}").is_ok());
        let error = record_value(br#"{"schema":"tcpxctl.run/9","transfers":7}"#)
            .expect_err("unknown version");
        assert_eq!(
            error,
            RecordError::Schema {
                found: "tcpxctl.run/9".to_owned()
            }
        );
        assert!(
            error.to_string().contains("tcpxctl.run/9") && error.next_step().is_some(),
            "{error}"
        );
    }

    fn names_of(run: &RunRecord) -> Vec<String> {
        run.workers()
            .map(|(pair, node, _)| run.names().worker(WorkerId::of_pair(node, pair)))
            .collect()
    }

    #[test]
    fn a_record_without_most_keys_still_has_its_outcome() {
        let v1 = br#"{"schema": "tcpxctl.run/1", "outcome": "stalled", "reason": "x",
            "nodes": [{"name": "local", "host": "node0"}, {"name": "peer", "host": "node1"}],
            "findings": [{"condition": "stalled", "severity": "error", "confidence": 1.0, "node": "peer",
                "channel": 1, "because": [], "cannot_see": []}]}"#;
        let run = RunRecord::parse(v1).expect("a record");
        assert_eq!(
            (run.outcome, run.reason.as_deref()),
            (Outcome::Stalled, Some("x"))
        );
        assert_eq!(
            (run.findings[0].place(), run.nodes[1].host.as_str()),
            (Some("peer"), "node1")
        );
        assert_eq!(names_of(&run), ["local", "peer"]);
        let v2 = br#"{"schema": "tcpxctl.run/2", "outcome": "passed"}"#;
        assert_eq!(
            RunRecord::parse(v2).map(|run| (run.outcome, run.pairs.len())),
            Ok((Outcome::Passed, 0))
        );
        assert!(matches!(
            RunRecord::parse(br#"{"schema": "tcpxctl.run/2"}"#),
            Err(RecordError::Damaged(_))
        ));
        for none in [
            &b"[1]"[..],
            b"7",
            b"null",
            b"{}",
            br#"{"schema": "tcpxctl.run/1", "transfers": [7], "nodes": 7}"#,
        ] {
            assert!(
                matches!(RunRecord::parse(none), Err(RecordError::Damaged(_))),
                "{none:?}"
            );
        }
        let future = RunRecord::parse(br#"{"schema": "tcpxctl.run/3", "outcome": "passed"}"#);
        assert!(matches!(future, Err(RecordError::Schema { found }) if found == "tcpxctl.run/3"));
    }
}
