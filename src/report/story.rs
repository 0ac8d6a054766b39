//! Everything that a report says of one run, gathered once, as plain data.
//!
//! Renderers read this and nothing else, and what is made to leave the machine
//! is redacted here, once, for all of them. What is not known is absent, and
//! `missing` says why.
#![forbid(unsafe_code)]

use crate::columns::{Asked, ResultRow};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::finding::{Finding, Subject};
use tcpx_run_model::ids::{Lane, Names, NodeId, NodeIntro, PairId, PairIntro, WorkerId};
use tcpx_run_model::record::{Clock, LatencyUs, PluginRecord, Role, TransferRecord, Unfinished};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

/// Value of the key `schema`.
pub(crate) const SCHEMA: &str = "tcpxctl.report/2";

/// One run, told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// [`SCHEMA`]
    pub(crate) schema: String,
    /// Of the program that gathered it.
    pub(crate) tcpxctl_version: String,
    /// What names somebody was replaced.
    pub redacted: bool,
    /// The run's id.
    pub id: String,
    /// How far the record goes.
    pub(crate) state: State,
    /// RFC 3339, UTC.
    pub(crate) started: Option<String>,
    /// As `started`.
    pub(crate) finished: Option<String>,
    /// How it ended.
    pub(crate) outcome: Option<Outcome>,
    /// Of the command.
    pub(crate) exit_code: Option<u8>,
    /// In one sentence, unless it passed.
    pub(crate) reason: Option<String>,
    /// What to do about it.
    pub(crate) next_step: Option<String>,
    /// Gates that were not met.
    pub(crate) unmet: Vec<String>,
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The whole of it, to be run again.
    pub(crate) scenario_toml: Option<String>,
    /// The keys that decide what was run: name and value.
    pub(crate) transfer: Vec<(String, String)>,
    /// Of these, what figures are derived from.
    pub(crate) asked: Option<Asked>,
    /// As it was typed, where that was recorded.
    pub(crate) command: Option<String>,
    /// Who took part; a [`NodeId`] is a place in this list.
    pub(crate) nodes: Vec<Node>,
    /// The workers, two and two; a [`PairId`] is a place in this list.
    pub(crate) pairs: Vec<Pair>,
    /// Other runs of the same kind, and this one, where several were named.
    #[serde(default)]
    pub(crate) sweep: Vec<Point>,
    /// What is not the same on every node.
    pub(crate) differences: Vec<Difference>,
    /// Each direction of each lane.
    pub(crate) transfers: Vec<Transfer>,
    /// The worst first.
    pub(crate) findings: Vec<Finding>,
    /// The run's time in equal parts.
    pub(crate) axis: Axis,
    /// What each channel did over time.
    pub(crate) series: Vec<ChannelSeries>,
    /// Posted to done, by worker and side.
    pub(crate) latencies: Vec<Latency>,
    /// The requests around the moment that decides.
    pub(crate) timeline: Option<RequestTimeline>,
    /// Every channel's window at that moment.
    pub(crate) windows: Vec<Window>,
    /// What the plugin says that it was set to, beside the environment.
    pub(crate) settings: Vec<Setting>,
    /// What was checked of the nodes.
    pub(crate) checks: Vec<Check>,
    /// What known log lines say.
    pub(crate) log: Vec<LogFinding>,
    /// WARN lines that no signature knows.
    pub(crate) unknown_lines: Vec<Excerpt>,
    /// What else the run folder holds of the nodes: a name and the text's begin.
    pub(crate) evidence: Vec<Evidence>,
    /// What a reader may look for in vain, and why.
    pub(crate) missing: Vec<Missing>,
    /// What the evidence could not decide.
    pub(crate) questions: Vec<Question>,
}

/// How far the record goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// The run ended and was recorded.
    Finished,
    /// No `run.json`, and nobody can say why.
    #[default]
    Unfinished,
    /// No `run.json` yet.
    Running,
    /// No `run.json`: its coordinator was killed.
    Killed,
    /// Something in it cannot be read.
    Damaged,
    /// Its record is of a version that this program does not know.
    OtherVersion,
}

impl From<Unfinished> for State {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::GoesOn => Self::Running,
            Unfinished::Killed => Self::Killed,
            Unfinished::Examined | Unfinished::Open => Self::Unfinished,
        }
    }
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// How it is shown: `local` and `peer` where there are two.
    pub(crate) name: String,
    /// Host name.
    pub(crate) host: String,
    /// What the command line called it.
    pub(crate) address: String,
    /// Its clock against the coordinator's.
    pub(crate) clock: Option<Clock>,
    /// What it is, by name.
    pub(crate) facts: Vec<(String, String)>,
    /// Its environment, as far as it is of interest.
    pub(crate) env: BTreeMap<String, String>,
    /// Why its agent could not go on.
    pub(crate) last_words: Vec<String>,
}

/// Two workers that moved bytes between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// Their nodes.
    pub(crate) nodes: [NodeId; 2],
    /// What they moved bytes for.
    pub(crate) lanes: Vec<Lane>,
    /// How it ended.
    pub(crate) outcome: Option<Outcome>,
    /// In one sentence, unless it passed.
    pub(crate) reason: Option<String>,
    /// The workers, in the order of `nodes`.
    pub(crate) workers: [Worker; 2],
}

/// One worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Worker {
    /// How it is shown: `peer gpu 3`.
    pub(crate) name: String,
    /// What it did with payload.
    pub(crate) role: Option<Role>,
    /// The plugin it used.
    pub(crate) plugin: Option<PluginRecord>,
    /// What it was given on top of its node's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// What it used, by name.
    pub(crate) facts: Vec<(String, String)>,
    /// What it last did: its last plugin call, how it ended.
    pub(crate) last_words: Vec<String>,
}

/// One direction of one lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transfer {
    /// `local->peer`, and `local->peer@gpu3` for one GPU.
    pub(crate) direction: String,
    /// What was measured.
    #[serde(flatten)]
    pub(crate) record: TransferRecord,
}

/// One run of a sweep, in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Its id.
    pub(crate) run: String,
    /// Which way.
    pub(crate) direction: String,
    /// Bytes of one chunk.
    pub(crate) chunk_bytes: u64,
    /// Bytes of one iteration.
    pub(crate) total_bytes: u64,
    /// Per GPU pair.
    pub(crate) connections: u64,
    /// Median over its iterations.
    pub(crate) median_gb_per_s: f64,
    /// Interfaces that carried it.
    pub(crate) nics: usize,
}

/// Something that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// What.
    pub(crate) what: String,
    /// On each node, in the order of [`Story::nodes`]; none where it is absent.
    pub(crate) values: Vec<Option<String>>,
}

impl Difference {
    /// The values in words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.values
            .iter()
            .map(|value| value.as_deref().unwrap_or("absent"))
    }
}

/// Equal parts of the run's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// Milliseconds since the command started.
    pub(crate) from_ms: f64,
    /// As `from_ms`.
    pub(crate) to_ms: f64,
    /// How many.
    pub(crate) parts: usize,
    /// When a stall was declared.
    pub(crate) stall_ms: Option<f64>,
}

impl Axis {
    /// The part that a moment is in.
    pub(crate) fn part(&self, ms: f64) -> Option<usize> {
        let span = self.to_ms - self.from_ms;
        if span <= 0.0 || ms < self.from_ms || ms > self.to_ms || self.parts == 0 {
            return None;
        }
        Some((((ms - self.from_ms) / span * self.parts as f64) as usize).min(self.parts - 1))
    }
}

/// One channel of one side over the parts of the [`Axis`]; `None` where nobody looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelSeries {
    /// Whose it is.
    pub(crate) worker: Subject,
    /// Which end of its connection.
    pub(crate) side: Side,
    /// Index within its direction.
    pub(crate) index: usize,
    /// Interface.
    pub(crate) dev: String,
    /// Bytes done in each part.
    pub(crate) bytes: Vec<Option<u64>>,
    /// Most requests in flight in each part.
    pub(crate) in_flight: Vec<Option<u32>>,
}

/// Posted-to-done times of all channels of one side of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Whose they are.
    pub(crate) worker: Subject,
    /// Which end of its connections.
    pub(crate) side: Side,
    /// First nanosecond of a bucket, the first behind it, and how many.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
    /// Quantiles over all of them.
    pub(crate) quantiles: Option<LatencyUs>,
}

/// One channel's requests on both ends around a moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestTimeline {
    /// Why this moment, in words.
    pub(crate) why: String,
    /// Index of the channel.
    pub(crate) channel: usize,
    /// Nanoseconds before the moment at which the picture begins, and after it at which it ends.
    pub(crate) before_ns: u64,
    /// See `before_ns`.
    pub(crate) after_ns: u64,
    /// Each end.
    pub(crate) ends: Vec<TimelineEnd>,
    /// What was noted or logged: nanoseconds from the moment, who, and the words.
    pub(crate) notes: Vec<(i64, String, String)>,
}

/// One end of the channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimelineEnd {
    /// Its worker.
    pub(crate) worker: Subject,
    /// Which end.
    pub(crate) side: Side,
    /// Oldest first.
    pub(crate) requests: Vec<TimelineRequest>,
}

/// One request; times are nanoseconds from the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimelineRequest {
    /// Counted from 0 on its channel, lowest 32 bits.
    pub(crate) number: u32,
    /// Posted.
    pub(crate) posted: Option<i64>,
    /// Done.
    pub(crate) done: Option<i64>,
    /// Unpacked.
    pub(crate) unpacked: Option<i64>,
    /// Handed back.
    pub(crate) consumed: Option<i64>,
}

/// One channel's window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// Whose it is.
    pub(crate) worker: Subject,
    /// Which end of its connection.
    pub(crate) side: Side,
    /// Index within its direction.
    pub(crate) index: usize,
    /// Interface.
    pub(crate) dev: String,
    /// Requests in flight, oldest first, a letter each: `p` posted, `d` done, `u` unpacked.
    pub(crate) requests: String,
    /// Requests posted.
    pub(crate) posted: u64,
    /// Done.
    pub(crate) done: u64,
    /// Handed back.
    pub(crate) consumed: u64,
    /// Age of the oldest in flight, milliseconds.
    pub(crate) head_age_ms: Option<u64>,
    /// Since any changed state, milliseconds.
    pub(crate) quiet_ms: u64,
    /// Calls of `test`.
    pub(crate) tests: u64,
    /// Of them not done.
    pub(crate) tests_not_done: u64,
    /// Results other than success.
    pub(crate) rc_errors: u64,
    /// The call it is inside of.
    pub(crate) in_call: Option<String>,
    /// The last call that failed, and its code.
    pub(crate) last_error: Option<(String, i32)>,
    /// Addresses of both ends.
    pub(crate) addresses: Option<(String, String)>,
}

impl Window {
    /// Posted and not yet retired.
    pub(crate) fn in_flight(&self) -> u64 {
        in_flight(self.side, self.posted, self.done, self.consumed)
    }

    /// `recv 1`.
    pub(crate) fn channel(&self) -> String {
        format!("{} {}", self.side, self.index)
    }
}

/// Requests that are posted and not retired: a receive retires when it is handed back.
pub(super) fn in_flight(side: Side, posted: u64, done: u64, consumed: u64) -> u64 {
    posted.saturating_sub(if side == Side::Recv { consumed } else { done })
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// The plugin's label, or a variable.
    pub(crate) key: String,
    /// What the plugin says that it took, by the name of its worker.
    pub(crate) effective: BTreeMap<String, String>,
    /// What a worker's environment says, by the name of the node, or of the worker
    /// where those of a node differ.
    pub(crate) environment: BTreeMap<String, String>,
    /// Both are known, and are not the same.
    pub(crate) differs: bool,
}

/// One row of the doctor's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Whose, as the doctor names it.
    pub(crate) node: String,
    /// The check's name.
    pub(crate) id: String,
    /// `PASS`, `FAIL`, `WARN`, `UNKNOWN`.
    pub(crate) verdict: String,
    /// What was seen.
    pub(crate) value: String,
    /// What to do.
    pub(crate) next_step: Option<String>,
}

/// Lines of one signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogFinding {
    /// The signature.
    pub(crate) signature: String,
    /// How bad.
    pub(crate) severity: tcpx_logs::Severity,
    /// Lines.
    pub(crate) count: u64,
    /// What it means.
    pub(crate) meaning: String,
    /// Likely causes, the likeliest first.
    pub(crate) causes: Vec<String>,
    /// What to do.
    pub(crate) next_step: Option<String>,
    /// The first of them.
    pub(crate) excerpt: Excerpt,
    /// When the last came.
    pub(crate) last_at: Option<String>,
}

/// A line with how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Excerpt {
    /// Who wrote it.
    pub(crate) worker: Subject,
    /// When.
    pub(crate) at: Option<String>,
    /// Lines of its kind.
    pub(crate) count: u64,
    /// The line.
    pub(crate) text: String,
}

/// A file of a node that says more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Its name in the run folder.
    pub(crate) name: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// As much as a report shows.
    pub(crate) text: String,
    /// There is more of it.
    pub(crate) cut: bool,
}

/// Something that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    /// What.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
}

/// Something to ask Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Stable kebab-case name.
    pub(crate) id: String,
    /// In English.
    pub(crate) english: String,
    /// In Chinese.
    pub(crate) chinese: String,
    /// What of this run makes it a question.
    pub(crate) because: Vec<String>,
}

impl Story {
    /// How everyone is called.
    pub(crate) fn names(&self) -> Names {
        let node = |node: &Node| NodeIntro {
            name: node.name.clone(),
            address: node.address.clone(),
        };
        let pair = |pair: &Pair| PairIntro {
            nodes: pair.nodes,
            lanes: pair.lanes.clone(),
        };
        Names {
            nodes: self.nodes.iter().map(node).collect(),
            pairs: self.pairs.iter().map(pair).collect(),
        }
    }

    /// Every worker.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        (0..).zip(&self.pairs).flat_map(|(number, pair)| {
            let of = move |node| WorkerId::of_pair(node, PairId(number));
            pair.nodes.map(of).into_iter().zip(&pair.workers)
        })
    }

    /// Every plugin that was used; at most one for each worker.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &PluginRecord> {
        self.workers()
            .filter_map(|(_, worker)| worker.plugin.as_ref())
    }

    /// The rows of the table of results.
    pub(super) fn result_rows(&self) -> impl Iterator<Item = ResultRow<'_>> {
        let asked = self.asked;
        self.transfers.iter().map(move |one| ResultRow {
            direction: &one.direction,
            transfer: &one.record,
            asked,
        })
    }

    /// Whether it passed, stalled, ...
    pub(crate) fn is(&self, outcome: Outcome) -> bool {
        self.outcome == Some(outcome)
    }

    /// Bytes that were verified, in all directions.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.record.verified_bytes))
    }

    /// Of these wrong.
    pub(crate) fn wrong_bytes(&self) -> u64 {
        self.transfers
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.record.wrong_bytes))
    }

    /// Takes another run into the sweep; the first brings this one, too.
    pub fn sweep_with(&mut self, other: &Self) {
        if self.sweep.is_empty() {
            self.sweep = self.points();
        }
        self.sweep.extend(other.points());
    }

    fn points(&self) -> Vec<Point> {
        let asked = self.asked.unwrap_or_default();
        let point = |one: &Transfer| Point {
            run: self.id.clone(),
            direction: one.direction.clone(),
            chunk_bytes: asked.chunk_bytes,
            total_bytes: asked.total_bytes,
            connections: asked.connections,
            median_gb_per_s: one.record.median_gb_per_s,
            nics: one
                .record
                .channels
                .iter()
                .map(|channel| &channel.dev)
                .collect::<BTreeSet<_>>()
                .len()
                .max(1),
        };
        self.transfers
            .iter()
            .filter(|one| one.record.iterations > 0)
            .map(point)
            .collect()
    }

    /// Whether there is a moment at which something did not move: a stall, or an end
    /// with requests in flight that nobody asked for.
    pub(crate) fn stood_still(&self) -> bool {
        let waiting = self.windows.iter().any(|window| window.in_flight() > 0);
        self.axis.stall_ms.is_some() || (waiting && !self.is(Outcome::Passed))
    }

    /// Notes that something cannot be read.
    pub(super) fn damaged(&mut self, what: &str, why: impl Into<String>) {
        self.state = State::Damaged;
        self.lacks(what, why);
    }

    /// Notes that something is absent.
    pub(crate) fn lacks(&mut self, what: &str, why: impl Into<String>) {
        self.missing.push(Missing {
            what: what.to_owned(),
            why: why.into(),
        });
    }
}
