//! The state of a run: every event folded once.
//!
//! The table, the live view, the rules, the story of a report, the timeline and the
//! rehearsals are projections of [`RunState`], live or read back from a run folder.
//! Nothing here reads a clock: times come from the events.
//!
//! Every list is bounded, because an event file may come from elsewhere.
#![forbid(unsafe_code)]

mod lines;
mod mesh;
mod worker;

use crate::counters::ChannelNow;
use crate::event::{Event, EventKind};
use crate::finding::Finding;
use crate::ids::{
    Lane, Names, NodeId, NodeIntro, PairId, PairIntro, Unit, Who, WorkerId, shown_names,
};
use crate::record::{Clock, RunRecord};
use crate::scenario::Scenario;
pub use lines::{KeptLine, LastWords, LineSource};
pub use mesh::PairProgress;
use std::collections::BTreeMap;
use std::time::Duration;
use tcpx_node::NodeFacts;
use tcpx_words::error::Outcome;
pub use worker::{CallCounts, CallSample, Framed, StallPicture, Timed, WorkerState};

/// Milliseconds without a state change that are a stall if no scenario is known.
pub const STALL_AFTER_MS: u64 = 3000;
/// Most nodes of one run.
const NODES_MAX: usize = 4096;
/// Most pairs, and most workers, of one run.
const WORKERS_MAX: usize = 65_536;
/// Most notes of the coordinator; the oldest are dropped.
const NOTES_MAX: usize = 1000;

/// A run, or the programs being watched, as known from the events so far.
#[derive(Debug, Clone)]
pub struct RunState {
    /// The scenario; `None` for programs that no run started.
    pub scenario: Option<Scenario>,
    /// Milliseconds without a state change that are a stall.
    pub stall_after_ms: u64,
    /// Display names of nodes and pairs.
    pub names: Names,
    /// The first pair that measures again what is suspect: pairs are told once before all rounds, and
    /// again with these.
    pub first_retest: Option<PairId>,
    /// The command's start, nanoseconds since 1970, computed from the first event.
    pub began_ns: Option<u64>,
    /// Time of the newest event, milliseconds since the command started.
    pub now_ms: f64,
    /// When a worker last made progress: a request changed state, or a phase or an iteration
    /// ended. Milliseconds since the command started.
    pub progress_ms: f64,
    /// Nodes, by [`NodeId`].
    pub nodes: Vec<NodeState>,
    /// Pairs, by [`PairId`].
    pub pairs: Vec<PairState>,
    /// Every worker or process that had an event.
    pub workers: BTreeMap<WorkerId, WorkerState>,
    /// Notes of the coordinator, the newest last.
    pub notes: Vec<Timed<String>>,
    /// What the program that started the agents, such as srun, printed: `srun: error: ...`.
    pub launcher_said: Vec<Timed<String>>,
    /// The newest findings.
    pub findings: Vec<Finding>,
    /// How the run ended, once it has.
    pub ended: Option<Ended>,
}

/// State of one node.
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// Host name.
    pub host: Option<String>,
    /// NICs, GPUs, NUMA, limits and environment, as its agent read them.
    pub facts: Option<Box<NodeFacts>>,
    /// Version of the agent's tcpxctl.
    pub agent_version: Option<String>,
    /// Offset of its clock to the coordinator's.
    pub clock: Option<Clock>,
    /// Why its agent failed.
    pub broken: Option<Timed<String>>,
    /// When its agent ended without a word, milliseconds since the command started.
    pub gone_ms: Option<f64>,
    /// When its agent was found stopped, and its process id.
    pub stopped: Option<Timed<u32>>,
}

/// State of one pair.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairState {
    /// The newest stall, or the one that has not recovered.
    pub stall: Option<DeclaredStall>,
}

/// A stall that was declared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeclaredStall {
    /// When it was declared, milliseconds since the command started.
    pub at_ms: f64,
    /// The node whose agent declared it; `None` if the coordinator did, from both ends.
    pub by: Option<NodeId>,
    /// Whether its channels moved again.
    pub recovered: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, unless the run passed.
    pub reason: Option<String>,
}

impl Default for RunState {
    fn default() -> Self {
        Self {
            scenario: None,
            stall_after_ms: STALL_AFTER_MS,
            names: Names::default(),
            first_retest: None,
            began_ns: None,
            now_ms: 0.0,
            progress_ms: 0.0,
            nodes: Vec::new(),
            pairs: Vec::new(),
            workers: BTreeMap::new(),
            notes: Vec::new(),
            launcher_said: Vec::new(),
            findings: Vec::new(),
            ended: None,
        }
    }
}

impl RunState {
    /// The state of a run of `scenario` before its first event.
    pub fn of_scenario(scenario: &Scenario) -> Self {
        let stall_after = Duration::from(scenario.limits.stall_after).as_millis();
        Self {
            scenario: Some(scenario.clone()),
            stall_after_ms: u64::try_from(stall_after).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    /// Names two nodes, `local` and `peer`, for a stream of version 1, which has no `nodes` and
    /// `pairs` events. Pairs are added as events name them.
    pub fn introduce_two_nodes(&mut self) {
        let intro = |name: String| NodeIntro {
            address: String::new(),
            name,
        };
        self.names.nodes = shown_names(&["", ""]).into_iter().map(intro).collect();
    }

    /// Folds one event into the state.
    pub fn apply(&mut self, event: &Event) {
        if self.began_ns.is_none() {
            let since_ns = (event.ms.max(0.0) * 1e6) as u64;
            self.began_ns = event.at_ns().map(|at_ns| at_ns.saturating_sub(since_ns));
        }
        if event.ms.is_finite() {
            self.now_ms = self.now_ms.max(event.ms);
        }
        match (&event.kind, event.who()) {
            (EventKind::Nodes(nodes), _) => {
                self.names.nodes = nodes
                    .iter()
                    .take(NODES_MAX)
                    .map(NodeIntro::printable)
                    .collect();
            }
            (EventKind::Pairs(pairs), _) => {
                let known = self.names.pairs.len();
                if known > 0 && known < pairs.len() {
                    self.first_retest = u32::try_from(known).ok().map(PairId);
                }
                self.names.pairs = pairs.iter().take(WORKERS_MAX).cloned().collect();
            }
            (EventKind::Note(text), _) => {
                if self.notes.len() == NOTES_MAX {
                    self.notes.remove(0);
                }
                self.notes.push(Timed {
                    at_ms: event.ms,
                    what: text.clone(),
                });
            }
            (EventKind::Output { text, .. }, Who::Run) => {
                if self.launcher_said.len() < NOTES_MAX {
                    self.launcher_said.push(Timed {
                        at_ms: event.ms,
                        what: text.clone(),
                    });
                }
            }
            (EventKind::Findings(findings), _) => self.findings.clone_from(findings),
            (kind, Who::Node(node)) => self.node_event(node, event.ms, kind),
            (kind, Who::Worker(worker)) => self.worker_event(worker, event.ms, kind),
            (EventKind::Stall(_), Who::Pair(pair)) => self.declare_stall(pair, event.ms, None),
            (EventKind::Recovered, Who::Pair(pair)) => self.recovered(pair),
            (_, Who::Run | Who::Pair(_)) => {}
        }
    }

    fn node_event(&mut self, node: NodeId, at_ms: f64, kind: &EventKind) {
        let Some(state) = self.node_mut(node) else {
            return;
        };
        match kind {
            EventKind::Agent { version, facts, .. } => {
                state.agent_version = Some(version.clone());
                state.host = facts
                    .host
                    .name
                    .known()
                    .cloned()
                    .or_else(|| state.host.take());
                state.facts = Some(facts.clone());
            }
            EventKind::AgentBroken(why) => {
                state.broken = Some(Timed {
                    at_ms,
                    what: why.clone(),
                })
            }
            EventKind::AgentGone => state.gone_ms = Some(at_ms),
            EventKind::AgentStopped { pid } => state.stopped = Some(Timed { at_ms, what: *pid }),
            _ => {}
        }
    }

    /// Adds the pairs up to `pair` in a stream of version 1, which has no `pairs` event: a
    /// single pair is for host memory, several are one per GPU.
    fn introduce_pair(&mut self, pair: PairId) {
        let known = self.names.pairs.len();
        if pair.index() < known || pair.index() >= WORKERS_MAX || self.names.nodes.len() != 2 {
            return;
        }
        let intro = |number: u32| {
            let lane = if pair.0 == 0 {
                Lane::Host
            } else {
                Lane::Gpu(number)
            };
            PairIntro::new([NodeId(0), NodeId(1)], vec![lane])
        };
        let is_guess = self.names.pairs.iter().all(|known| known.lanes.len() == 1);
        if is_guess {
            self.names.pairs = (0..=pair.0).map(intro).collect();
        }
    }

    fn worker_event(&mut self, worker: WorkerId, at_ms: f64, kind: &EventKind) {
        if let Some(pair) = worker.pair() {
            self.introduce_pair(pair);
        }
        let stall_after_ms = self.stall_after_ms;
        let Some(state) = self.worker_mut(worker) else {
            return;
        };
        let effect = state.apply(at_ms, kind, stall_after_ms);
        self.progress_ms = self.progress_ms.max(effect.progress_ms.unwrap_or(0.0));
        let Some(pair) = worker.pair() else { return };
        match kind {
            EventKind::Stall(_) => self.declare_stall(pair, at_ms, Some(worker.node)),
            EventKind::Recovered => self.recovered(pair),
            EventKind::Frame(_) if self.pair(pair).is_none_or(|state| state.stall.is_none()) => {
                self.declare_stall(pair, at_ms, Some(worker.node));
            }
            _ if effect.moved_on => self.recovered(pair),
            _ => {}
        }
    }

    fn declare_stall(&mut self, pair: PairId, at_ms: f64, by: Option<NodeId>) {
        let Some(state) = self.pair_mut(pair) else {
            return;
        };
        match &mut state.stall {
            // The other end declared the same stall before.
            Some(stall) if !stall.recovered => return,
            stall => {
                *stall = Some(DeclaredStall {
                    at_ms,
                    by,
                    recovered: false,
                })
            }
        }
        self.workers_of_mut(pair)
            .for_each(WorkerState::keep_picture);
    }

    /// Marks the stall as recovered. Its freeze-frames are of an earlier moment from now on.
    fn recovered(&mut self, pair: PairId) {
        if let Some(stall) = self.pair_mut(pair).and_then(|state| state.stall.as_mut()) {
            stall.recovered = true;
        }
        self.workers_of_mut(pair).for_each(WorkerState::moves_again);
    }

    /// Adds names, hosts, facts and clocks from the record of a run, before its first event is
    /// replayed.
    pub fn introduce(&mut self, run: &RunRecord) {
        if !run.nodes.is_empty() {
            self.names = run.names();
        }
        for (index, record) in run.nodes.iter().take(NODES_MAX).enumerate() {
            let node = NodeId(u32::try_from(index).unwrap_or(u32::MAX));
            if let Some(state) = self.node_mut(node) {
                state.clock = record.clock.or(state.clock);
                if !record.host.is_empty() {
                    state.host = Some(record.host.clone());
                }
                if record.facts.is_some() {
                    state.facts.clone_from(&record.facts);
                }
            }
        }
    }

    /// Adds how the run ended and everything else that only its record has.
    pub fn conclude(&mut self, run: &RunRecord) {
        self.introduce(run);
        self.ended = Some(Ended {
            outcome: run.outcome,
            reason: run.reason.clone(),
        });
        self.findings.clone_from(&run.findings);
        for (index, pair) in run.pairs.iter().enumerate() {
            let pair_id = PairId(u32::try_from(index).unwrap_or(u32::MAX));
            for (node, record) in pair.nodes.iter().zip(&pair.workers) {
                if let Some(worker) = self.worker_mut(WorkerId::of_pair(*node, pair_id)) {
                    worker.env.clone_from(&record.env);
                }
            }
        }
    }

    /// The state of a node, if it had an event.
    pub fn node(&self, node: NodeId) -> Option<&NodeState> {
        self.nodes.get(node.index())
    }

    /// The state of a pair, if it had a stall.
    pub fn pair(&self, pair: PairId) -> Option<&PairState> {
        self.pairs.get(pair.index())
    }

    /// The display name of a worker.
    pub fn name(&self, worker: WorkerId) -> String {
        self.names.worker(worker)
    }

    /// Both workers of a pair, in the order of its nodes; `None` for one without events.
    pub fn ends(&self, pair: PairId) -> [Option<&WorkerState>; 2] {
        let nodes = self
            .names
            .pairs
            .get(pair.index())
            .map_or([NodeId(0), NodeId(1)], |intro| intro.nodes);
        nodes.map(|node| self.workers.get(&WorkerId::of_pair(node, pair)))
    }

    /// The lanes of a pair; empty for an unknown pair.
    pub fn lanes(&self, pair: PairId) -> &[Lane] {
        self.names
            .pairs
            .get(pair.index())
            .map_or(&[], |intro| intro.lanes.as_slice())
    }

    /// The worker at the other end of a worker's pair.
    pub fn opposite(&self, worker: WorkerId) -> Option<&WorkerState> {
        let pair = worker.pair()?;
        let node = match self.names.other_end(worker.node, pair) {
            Some(node) => node,
            // Without `pairs` events there are two nodes.
            None if self.names.pairs.is_empty() && worker.node.0 < 2 => NodeId(1 - worker.node.0),
            None => return None,
        };
        self.workers.get(&WorkerId::of_pair(node, pair))
    }

    /// The newest stall of any pair; one that has not recovered takes precedence.
    pub fn stall(&self) -> Option<DeclaredStall> {
        let stalls = self.pairs.iter().filter_map(|pair| pair.stall);
        stalls.max_by(|a, b| {
            b.recovered
                .cmp(&a.recovered)
                .then(a.at_ms.total_cmp(&b.at_ms))
        })
    }

    /// Converts milliseconds since the command started to nanoseconds since 1970. `ms` may be
    /// negative.
    pub fn at_ns(&self, ms: f64) -> u64 {
        self.began_ns
            .unwrap_or(0)
            .saturating_add_signed((ms * 1e6) as i64)
    }

    /// Milliseconds from the start to a time in nanoseconds since 1970; negative before it.
    pub fn ms(&self, at_ns: u64) -> f64 {
        (i128::from(at_ns) - i128::from(self.began_ns.unwrap_or(0))) as f64 / 1e6
    }

    fn node_mut(&mut self, node: NodeId) -> Option<&mut NodeState> {
        grown(&mut self.nodes, node.index(), NODES_MAX)
    }

    fn pair_mut(&mut self, pair: PairId) -> Option<&mut PairState> {
        grown(&mut self.pairs, pair.index(), WORKERS_MAX)
    }

    fn worker_mut(&mut self, worker: WorkerId) -> Option<&mut WorkerState> {
        if self.workers.len() >= WORKERS_MAX && !self.workers.contains_key(&worker) {
            return None;
        }
        Some(
            self.workers
                .entry(worker)
                .or_insert_with(|| WorkerState::new(worker)),
        )
    }

    fn workers_of_mut(&mut self, pair: PairId) -> impl Iterator<Item = &mut WorkerState> {
        self.workers
            .values_mut()
            .filter(move |worker| worker.id.unit == Unit::Pair(pair))
    }
}

/// The element at `index`, after growing the list to it; `None` from `most` on.
fn grown<T: Default>(list: &mut Vec<T>, index: usize, most: usize) -> Option<&mut T> {
    if index >= most {
        return None;
    }
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    list.get_mut(index)
}

/// Whether no request changed state between two samples of the same channels.
pub(crate) fn same_counts(before: &[ChannelNow], after: &[ChannelNow]) -> bool {
    let counts = |one: &ChannelNow| [one.posted, one.done, one.consumed];
    before.iter().map(counts).eq(after.iter().map(counts))
}

#[cfg(test)]
mod tests;
