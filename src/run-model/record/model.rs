//! `run.json`, schema `tcpxctl.run/2`: the document that others script against.
//!
//! `model_v1.rs` reads those of version 1.
#![forbid(unsafe_code)]

use super::model_v1;
use crate::counters::LatencyUs;
use crate::finding::Finding;
use crate::ids::{Lane, Names, NodeId, NodeIntro, PairId, PairIntro, WorkerId};
use crate::results::PluginRecord;
use crate::scenario::Scenario;
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

/// One run. A record that lacks keys, cut short by hand or by redaction, is read
/// as long as it says how the run ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`]
    pub schema: String,
    /// Name of the run folder.
    #[serde(default)]
    pub id: String,
    /// RFC 3339 UTC.
    #[serde(default)]
    pub started: String,
    /// RFC 3339 UTC.
    #[serde(default)]
    pub finished: String,
    /// Of the coordinator.
    #[serde(default)]
    pub tcpxctl_version: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Of the command.
    #[serde(default)]
    pub exit_code: u8,
    /// In one sentence, unless it passed.
    pub reason: Option<String>,
    /// What to do about it.
    pub next_step: Option<String>,
    /// What was run.
    #[serde(default)]
    pub scenario: ScenarioRecord,
    /// Who took part; ids are places in this list.
    #[serde(default)]
    pub nodes: Vec<NodeRecord>,
    /// Pairs of workers; ids are places in this list.
    #[serde(default)]
    pub pairs: Vec<PairRecord>,
    /// One for each direction of each lane.
    #[serde(default)]
    pub transfers: Vec<TransferRecord>,
    /// What the rules say.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Gates of `[expect]` that were not met.
    #[serde(default)]
    pub unmet: Vec<String>,
    /// The command line, quoted for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What was run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScenarioRecord {
    /// As the file names it.
    pub name: String,
    /// Of its canonical form.
    pub sha256: String,
    /// Every key with its value.
    pub resolved: Scenario,
}

/// A node's clock, seen from the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// What to add to the coordinator's time to get the node's, microseconds.
    pub offset_us: i64,
    /// Time of the round trip it was measured with; half of it is the error.
    pub round_trip_us: u64,
}

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    /// How it is shown: `local` and `peer` where there are two.
    pub name: String,
    /// What the command line called it.
    #[serde(default)]
    pub address: String,
    /// Host name.
    #[serde(default)]
    pub host: String,
    /// Its clock against the coordinator's.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// What the node is.
    pub facts: Option<Box<NodeFacts>>,
}

/// Two workers that moved bytes between them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairRecord {
    /// Their nodes.
    pub nodes: [NodeId; 2],
    /// What they moved bytes for.
    pub lanes: Vec<Lane>,
    /// How it ended.
    pub outcome: Outcome,
    /// In one sentence, unless it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The workers, in the order of `nodes`.
    pub workers: [WorkerRecord; 2],
}

/// One worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// What it did: `send`, `recv` or `both`.
    pub role: Role,
    /// The plugin it used, once it was ready.
    pub plugin: Option<PluginRecord>,
    /// Environment it was given on top of the node's.
    pub env: BTreeMap<String, String>,
    /// The plugin's WARN lines, sampled.
    pub warnings: Vec<String>,
    /// Lines the plugin logged: all, and WARN.
    pub log_lines: Option<(u64, u64)>,
    /// Its resident memory at the end.
    pub resident_bytes: Option<u64>,
    /// Memory it had registered.
    pub registered_bytes: Option<u64>,
    /// Where its messages lay: `host`, `device stand-in`, `GPU 0 (…)`.
    #[serde(default)]
    pub memory: Option<String>,
    /// What surrounded it when a stall was declared: a file in the run folder.
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

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The pair that moved it.
    pub pair: PairId,
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// What it was moved for.
    pub lane: Lane,
    /// Between which times the receiving end measured, milliseconds since the
    /// command started; several GPUs are compared by it.
    #[serde(default)]
    pub measured_ms: Option<(f64, f64)>,
    /// Of the measured iterations.
    pub bytes: u64,
    /// Compared with the pattern since measuring began; more than `bytes` when
    /// the run ended in the middle of an iteration.
    pub verified_bytes: u64,
    /// Of these wrong; of warm-up too.
    pub wrong_bytes: u64,
    /// Of the measured iterations, between shared barriers.
    pub seconds: f64,
    /// 10^9 bytes per second over `seconds`.
    pub gb_per_s: f64,
    /// Median over the measured iterations.
    pub median_gb_per_s: f64,
    /// Measured iterations that completed.
    pub iterations: u32,
    /// Seconds of each.
    pub iteration_seconds: Vec<f64>,
    /// The very first iteration, which is never measured when there are more.
    pub first_iteration_seconds: Option<f64>,
    /// One chunk there and one back, seen by the sending node; ping-pong only.
    pub round_trip_us: Option<LatencyUs>,
    /// First wrong stretch of each channel that has one.
    pub mismatches: Vec<Mismatch>,
    /// Sending side, then receiving side.
    pub channels: Vec<ChannelRecord>,
}

/// Counters of one channel of one side, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// Index within its direction.
    pub id: usize,
    /// Interface.
    pub dev: String,
    /// `send` or `recv`.
    pub side: Side,
    /// Requests posted.
    pub posted: u64,
    /// Done.
    pub done: u64,
    /// Handed back.
    pub consumed: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Most requests in flight.
    pub in_flight_high_water: u64,
    /// Calls of `test`.
    pub tests: u64,
    /// Of these not done.
    pub tests_not_done: u64,
    /// Results other than success.
    pub rc_errors: u64,
    /// Posts that were answered with "try again".
    pub null_requests: u64,
    /// Post to done.
    pub latency_us: Option<LatencyUs>,
}

/// Why a `run.json` says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is no JSON.
    #[error("run.json is damaged: {0}")]
    Damaged(String),
    /// It is of another kind, or of a version that is not known yet.
    #[error("run.json has schema {found}; this tcpxctl reads tcpxctl.run/1 and {SCHEMA}")]
    Schema {
        /// What it says.
        found: String,
    },
}

impl NextStep for RecordError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Damaged(_) => None,
            Self::Schema { .. } => {
                Some("read it with the tcpxctl that wrote it, or a newer one".into())
            }
        }
    }
}

/// A `run.json` of any version that is known, as JSON of this one.
///
/// # Errors
/// It is no JSON, or of a version that is not known.
pub fn record_value(bytes: &[u8]) -> Result<Value, RecordError> {
    let record: Value =
        serde_json::from_slice(bytes).map_err(|error| RecordError::Damaged(error.to_string()))?;
    if !record.is_object() {
        return Err(RecordError::Damaged("it is no JSON object".to_owned()));
    }
    match known_version(record["schema"].as_str())? {
        Version::One => Ok(model_v1::upgraded(record)),
        Version::Two => Ok(record),
    }
}

/// A version that is read.
pub(super) enum Version {
    One,
    Two,
}

pub(super) fn known_version(schema: Option<&str>) -> Result<Version, RecordError> {
    match schema {
        Some(SCHEMA) => Ok(Version::Two),
        // Records cut short by hand, as the tests of damage do, lack it.
        Some("tcpxctl.run/1") | None => Ok(Version::One),
        Some(found) => Err(RecordError::Schema {
            found: tcpx_words::units::printable(found),
        }),
    }
}

impl RunRecord {
    /// Reads a `run.json` of any version that is known.
    ///
    /// # Errors
    /// It is damaged, or of a version that is not known.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        serde_json::from_value(record_value(bytes)?)
            .map_err(|error| RecordError::Damaged(error.to_string()))
    }

    /// How everyone is called.
    pub fn names(&self) -> Names {
        let node = |node: &NodeRecord| NodeIntro {
            name: node.name.clone(),
            address: node.address.clone(),
        };
        let pair = |pair: &PairRecord| PairIntro {
            nodes: pair.nodes,
            lanes: pair.lanes.clone(),
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

    /// Wrong bytes of all directions.
    pub fn wrong_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .map(|transfer| transfer.wrong_bytes)
            .sum()
    }

    /// Which share of the time in which any GPU measured, all did; `None` where
    /// there are no several.
    pub fn overlap(&self) -> Option<f64> {
        let times: Vec<(f64, f64)> = self
            .transfers
            .iter()
            .filter_map(|transfer| transfer.measured_ms)
            .collect();
        let first = |pick: fn(f64, f64) -> f64| {
            let started = times.iter().map(|time| time.0).reduce(pick)?;
            Some((started, times.iter().map(|time| time.1).reduce(pick)?))
        };
        let ((began, first_ended), (last_began, ended)) = (first(f64::min)?, first(f64::max)?);
        let all = ended - began;
        (times.len() > 1 && all > 0.0).then(|| ((first_ended - last_began) / all).max(0.0))
    }

    /// Holds the run against `[expect]` and settles outcome and exit code: all
    /// gates met is 0, else the outcome's own code, or 1 where that would be 0.
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
            // A record has no such outcome: it says what came of the run, and nothing ran.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_and_what_is_of_a_future_version_says_so() {
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
            .expect_err("of the future");
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
    fn a_record_that_was_cut_short_says_how_the_run_ended() {
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
