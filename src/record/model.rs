//! `run.json`, schema `tcpxctl.run/1`: the document others script against.
#![forbid(unsafe_code)]

use crate::coord::message::{ChannelResult, Iteration};
use crate::coord::{End, EndRecord, PairOutcome};
use crate::error::Outcome;
use crate::node::NodeFacts;
use crate::scenario::{Direction, Scenario};
use crate::transfer::{Mismatch, Plan, Side};
use crate::units::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

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

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    /// `local` or `peer`.
    pub name: String,
    /// `send`, `recv` or `both`.
    pub role: String,
    /// Host name.
    pub host: String,
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
    pub passed_over: Vec<crate::plugin::PassedOver>,
}

/// One direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransferRecord {
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
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

pub use crate::coord::message::LatencyUs;

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

impl RunRecord {
    /// From what a pair came to. `exit_code` and `unmet` are the gates' to set.
    pub fn new(id: &str, started: &str, scenario: &Scenario, pair: &PairOutcome) -> Self {
        Self {
            schema: SCHEMA.into(),
            id: id.into(),
            started: started.into(),
            finished: crate::event::now_utc(),
            tcpxctl_version: env!("CARGO_PKG_VERSION").into(),
            outcome: pair.outcome,
            exit_code: pair.outcome.exit_code(),
            reason: pair.reason.clone(),
            next_step: pair.next_step.clone(),
            scenario: ScenarioRecord {
                name: scenario.name.clone(),
                sha256: scenario.hash(),
                resolved: scenario.clone(),
            },
            nodes: End::ALL.map(|end| node(end, scenario, &pair.ends[end as usize])).into(),
            transfers: transfers(scenario, pair),
            findings: findings(pair),
            unmet: Vec::new(),
        }
    }

    /// Wrong bytes of all directions.
    pub fn wrong_bytes(&self) -> u64 {
        self.transfers.iter().map(|transfer| transfer.wrong_bytes).sum()
    }

    /// Holds the run against `[expect]` and settles outcome and exit code: all
    /// gates met is 0, else the outcome's own code, or 1 where that would be 0.
    pub fn settle(&mut self) {
        if self.outcome == Outcome::Passed && self.wrong_bytes() > 0 {
            self.outcome = Outcome::Failed;
            self.reason = Some(format!("{} wrong bytes", self.wrong_bytes()));
        }
        let expect = self.scenario.resolved.expect.clone();
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
            (_, _, outcome) => outcome.exit_code(),
        };
        self.unmet = unmet;
    }
}

fn node(end: End, scenario: &Scenario, record: &EndRecord) -> NodeRecord {
    let role = match (scenario.transfer.direction, end) {
        (Direction::Both, _) => "both",
        (Direction::Forward, End::Local) | (Direction::Reverse, End::Peer) => "send",
        _ => "recv",
    };
    let host = record.facts.as_ref().and_then(|facts| facts.host.name.known().cloned());
    NodeRecord {
        name: end.name().into(),
        role: role.into(),
        host: host.unwrap_or_else(|| "unknown".into()),
        plugin: record.loaded.as_ref().map(|loaded| PluginRecord {
            path: loaded.file.as_ref().map_or("builtin".into(), |file| file.realpath.display().to_string()),
            sha256: loaded.file.as_ref().map_or("builtin".into(), |file| file.sha256.clone()),
            abi: loaded.about.abi,
            name: loaded.about.name.clone(),
            version: loaded.version.clone(),
            why: loaded.choice.why.clone(),
            passed_over: loaded.choice.passed_over.clone(),
        }),
        env: record.env.clone(),
        facts: record.facts.clone(),
        warnings: record.warnings.iter().map(|line| format!("{} (x{})", line.text, line.count)).collect(),
        log_lines: record.log.map(|log| (log.lines, log.warnings)),
        worker_resident_bytes: record.transfer.as_ref().and_then(|transfer| transfer.resident_bytes),
        registered_bytes: record.transfer.as_ref().map(|transfer| transfer.registered_bytes),
    }
}

fn transfers(scenario: &Scenario, pair: &PairOutcome) -> Vec<TransferRecord> {
    let directions: &[(End, End)] = match scenario.transfer.direction {
        Direction::Forward => &[(End::Local, End::Peer)],
        Direction::Reverse => &[(End::Peer, End::Local)],
        Direction::Both => &[(End::Local, End::Peer), (End::Peer, End::Local)],
    };
    directions.iter().filter_map(|(from, to)| transfer(scenario, pair, *from, *to)).collect()
}

fn transfer(scenario: &Scenario, pair: &PairOutcome, from: End, to: End) -> Option<TransferRecord> {
    let sender = pair.ends[from as usize].transfer.as_deref();
    let receiver = pair.ends[to as usize].transfer.as_deref();
    // The receiver's clock runs until everything is checked and consumed.
    let clock = receiver.or(sender)?;
    let measured = measured(&clock.iterations);
    let seconds = |iteration: &&Iteration| Duration::from_nanos(iteration.nanoseconds).as_secs_f64();
    let iteration_seconds: Vec<f64> = measured.iter().map(seconds).collect();
    let total = scenario.transfer.total.0;
    let bytes = total * measured.len() as u64;
    let elapsed = Duration::from_nanos(measured.iter().map(|iteration| iteration.nanoseconds).sum());
    let received: Vec<&ChannelResult> = of_side(receiver, Side::Recv);
    Some(TransferRecord {
        from: from.name().into(),
        to: to.name().into(),
        bytes,
        verified_bytes: received.iter().map(|channel| channel.tally.verified_bytes).sum(),
        wrong_bytes: received.iter().map(|channel| channel.tally.wrong_bytes).sum(),
        seconds: elapsed.as_secs_f64(),
        gb_per_s: Rate { bytes, elapsed }.gb_per_s(),
        median_gb_per_s: median(&iteration_seconds).map_or(0.0, |time| total as f64 / time / 1e9),
        iterations: measured.len() as u32,
        first_iteration_seconds: clock.iterations.first().map(|iteration| seconds(&iteration)),
        iteration_seconds,
        mismatches: received.iter().filter_map(|channel| channel.tally.first_mismatch.clone()).collect(),
        channels: of_side(sender, Side::Send).into_iter().chain(received).map(channel).collect(),
    })
}

/// What counts: not warm-up, and not the very first iteration when there are more.
fn measured(all: &[Iteration]) -> Vec<&Iteration> {
    let counting: Vec<&Iteration> = all.iter().filter(|iteration| !iteration.warmup).collect();
    if counting.len() > 1 && counting[0].index == 0 { counting[1..].to_vec() } else { counting }
}

fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { (sorted[middle - 1] + upper) / 2.0 }).filter(|time| *time > 0.0)
}

fn of_side(result: Option<&crate::coord::message::TransferResult>, side: Side) -> Vec<&ChannelResult> {
    result.map(|result| result.channels.iter().filter(|channel| channel.side == side).collect()).unwrap_or_default()
}

fn channel(result: &ChannelResult) -> ChannelRecord {
    let counters = result.counters.clone().unwrap_or_default();
    ChannelRecord {
        id: result.index,
        dev: result.nic.clone(),
        side: result.side,
        posted: counters.posted,
        done: counters.done,
        consumed: counters.consumed,
        bytes: result.tally.bytes,
        in_flight_high_water: counters.in_flight_high_water,
        tests: counters.tests,
        tests_not_done: counters.tests_not_done,
        rc_errors: counters.rc_errors,
        null_requests: result.tally.null_requests,
        latency_us: counters.latency_us,
    }
}

/// What the engine itself can tell; the rules are an issue of their own.
fn findings(pair: &PairOutcome) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(stall) = &pair.stall {
        let recovered = stall.recovered && pair.outcome != Outcome::Stalled;
        let because = stall
            .channels
            .iter()
            .filter(|channel| channel.posted > channel.consumed)
            .map(|channel| {
                format!(
                    "{} channel {}: posted {}, done {}, consumed {}, quiet for {} ms, {} tests",
                    channel.side,
                    channel.index,
                    channel.posted,
                    channel.done,
                    channel.consumed,
                    channel.quiet_ms,
                    channel.tests
                )
            })
            .collect();
        findings.push(Finding {
            condition: if recovered { "stalled-and-recovered" } else { "stalled" }.into(),
            severity: if recovered { "warning" } else { "error" }.into(),
            confidence: 1.0,
            node: Some(stall.end.name().into()),
            channel: None,
            because,
            cannot_see: Vec::new(),
            next_step: None,
            reference: None,
        });
    }
    findings
}

/// How the plan would be cut, for headers of tables.
pub fn chunks(scenario: &Scenario) -> u64 {
    let transfer = &scenario.transfer;
    Plan::new(transfer.total.0, transfer.chunk.0, transfer.connections as usize).map_or(0, Plan::chunks)
}
