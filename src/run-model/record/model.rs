//! `run.json`, schema `tcpxctl.run/1`: the document others script against.
#![forbid(unsafe_code)]

use super::LatencyUs;
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tcpx_node::NodeFacts;
use tcpx_words::error::Outcome;
use tcpx_words::payload::Mismatch;
use tcpx_words::side::Side;

/// Value of the key `schema`.
pub const SCHEMA: &str = "tcpxctl.run/1";

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`]
    pub schema: String,
    /// Name of the run folder.
    pub id: String,
    /// RFC 3339 UTC.
    pub started: String,
    /// RFC 3339 UTC.
    pub finished: String,
    /// Of the coordinator.
    pub tcpxctl_version: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Of the command.
    pub exit_code: u8,
    /// In one sentence, unless it passed.
    pub reason: Option<String>,
    /// What to do about it.
    pub next_step: Option<String>,
    /// What was run.
    pub scenario: ScenarioRecord,
    /// Local, then peer.
    pub nodes: Vec<NodeRecord>,
    /// One per direction.
    pub transfers: Vec<TransferRecord>,
    /// What the rules say.
    pub findings: Vec<Finding>,
    /// Gates of `[expect]` that were not met.
    pub unmet: Vec<String>,
    /// The command line, quoted for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What was run.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// `local` or `peer`.
    pub name: String,
    /// `send`, `recv` or `both`.
    pub role: String,
    /// What the command line called it.
    #[serde(default)]
    pub address: String,
    /// Host name.
    pub host: String,
    /// Its clock against the coordinator's.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// The plugin it used, once it was ready.
    pub plugin: Option<PluginRecord>,
    /// Environment the worker was given on top of the node's.
    pub env: BTreeMap<String, String>,
    /// What the node is.
    pub facts: Option<Box<NodeFacts>>,
    /// The plugin's WARN lines, sampled.
    pub warnings: Vec<String>,
    /// Lines the plugin logged: all, and WARN.
    pub log_lines: Option<(u64, u64)>,
    /// Resident memory of the worker at the end.
    pub worker_resident_bytes: Option<u64>,
    /// Memory it had registered.
    pub registered_bytes: Option<u64>,
    /// Where its messages lay: `host`, `device stand-in`, `GPU 0 (…)`.
    #[serde(default)]
    pub memory: Option<String>,
    /// What surrounded its workers when a stall was declared: files in the run folder.
    #[serde(default)]
    pub frames: Vec<String>,
}

/// Which plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// Real path, or `builtin`.
    pub path: String,
    /// Of the file; of this program for `builtin`, as `builtin`.
    pub sha256: String,
    /// ncclNet version in use.
    pub abi: u32,
    /// The table's name.
    pub name: String,
    /// The version line it logged.
    pub version: Option<String>,
    /// Why this one.
    pub why: String,
    /// Candidates that were looked at and not taken.
    pub passed_over: Vec<tcpx_node::plugin_files::PassedOver>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// The GPU, where the run has more than one pair of workers or names them.
    #[serde(default)]
    pub gpu: Option<u32>,
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

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name.
    pub condition: String,
    /// `info`, `warning`, `error`.
    pub severity: String,
    /// 0 to 1.
    pub confidence: f64,
    /// `local`, `peer`, or none.
    pub node: Option<String>,
    /// Channel index, or none.
    pub channel: Option<usize>,
    /// The deciding facts.
    pub because: Vec<String>,
    /// What would be needed to be sure.
    pub cannot_see: Vec<String>,
    /// What to do.
    pub next_step: Option<String>,
    /// Where to read on.
    pub reference: Option<String>,
}

impl TransferRecord {
    /// `local->peer`, and `local->peer@gpu3` where there are several.
    pub fn direction(&self) -> String {
        let gpu = self.gpu.map(|gpu| format!("@gpu{gpu}")).unwrap_or_default();
        format!("{}->{}{gpu}", self.from, self.to)
    }
}

impl RunRecord {
    /// Wrong bytes of all directions.
    pub fn wrong_bytes(&self) -> u64 {
        self.transfers.iter().map(|transfer| transfer.wrong_bytes).sum()
    }

    /// Which share of the time in which any GPU measured, all did; `None` where
    /// there are no several.
    pub fn overlap(&self) -> Option<f64> {
        let times: Vec<(f64, f64)> = self.transfers.iter().filter_map(|transfer| transfer.measured_ms).collect();
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
        if self.outcome == Outcome::Passed && self.wrong_bytes() > expect.max_wrong_bytes.unwrap_or(0) {
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
            unmet.push(format!("expect.outcome is {wanted}, it was {}", self.outcome));
        }
        if let Some(wanted) = &expect.finding
            && !self.findings.iter().any(|finding| finding.condition == *wanted)
        {
            unmet.push(format!("expect.finding is {wanted}, which was not found"));
        }
        for node in &self.nodes {
            if let (Some(wanted), Some(plugin)) = (&expect.plugin, &node.plugin)
                && plugin.name != *wanted
            {
                unmet.push(format!("expect.plugin is {wanted}, {} used {}", node.name, plugin.name));
            }
        }
        for transfer in &self.transfers {
            if let Some(wanted) = expect.min_gb_per_s
                && transfer.gb_per_s < wanted.get()
            {
                let (from, to) = (&transfer.from, &transfer.to);
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
            unmet.push(format!("expect.max_wrong_bytes is {most}, there were {}", self.wrong_bytes()));
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
