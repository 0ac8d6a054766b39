//! A run of any number of nodes and pairs, as a state machine.
//!
//! A message of an agent becomes an event, is folded into the run's state and goes to the pair it
//! is about; the effects of pairs become orders to agents. Pairs run in rounds: the caller adds
//! the next round when the last one is over. `step` takes an input and its time and returns effects. Not here: sockets and clocks,
//! which are in `drive`.
#![forbid(unsafe_code)]

use super::edge;
use super::end::End;
use super::pair::{
    Absence, AgentLoss, Pair, PairEffect, PairInput, PairOutcome, PairStage, PairTick,
};
use super::pulse::Pulse;
use crate::protocol::limits::{HEARTBEAT, SILENCE_MAX};
use crate::protocol::message::{AgentMessage, CoordinatorOrder};
use std::path::PathBuf;
use std::time::Duration;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{NodeId, PairId, PairIntro, Who, WorkerId};
use tcpx_run_model::live::RecorderFilter;
use tcpx_run_model::state::RunState;
use tcpx_words::units::{printable, utc_of_us};

/// Silence of an agent, which sends a heartbeat every second, after which no stall seen by the
/// other end is declared.
const AGENT_QUIET_MAX: Duration = Duration::from_millis(1500);
/// Time after a stop order after which the stream of an agent whose worker still runs is closed.
const STOPPING_MAX: Duration = Duration::from_millis(3600);
/// The same of an agent that still answers in a mesh, whose later rounds need it: it kills its worker
/// itself, which takes long on a machine without free CPUs.
const STOPPING_AND_HEARD_MAX: Duration = Duration::from_secs(15);

/// A moment: since the command started, and by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) elapsed: Duration,
    /// Microseconds since 1970.
    pub(super) us: u64,
}

/// What happens to a run.
#[derive(Debug)]
pub(super) enum RunInput {
    /// A message of an agent about its worker with this number.
    AgentMessage {
        node: NodeId,
        node_us: u64,
        worker: u32,
        message: AgentMessage,
    },
    /// Text that a login shell or the agent printed.
    AgentText { node: NodeId, text: String },
    /// A line of the program that started the agents.
    LauncherSaid(String),
    /// An agent's stream ended.
    AgentGone(NodeId),
    /// The coordinator did not run for so long.
    Slept(Absence),
    /// Time has passed.
    Tick {
        /// The user wants an end.
        interrupted: bool,
        /// The channel that a view shows in detail, and its recorder file.
        focused: Option<(ChannelKey, PathBuf)>,
        /// Agents of this machine whose processes are stopped, with their ids.
        stopped: Vec<(NodeId, u32)>,
    },
}

/// What the caller of `step` must do.
#[derive(Debug)]
pub(super) enum RunEffect {
    /// Send an order to an agent about its worker with this number.
    Tell(NodeId, u32, CoordinatorOrder),
    /// Pass an event to the observers.
    Emit(Box<Event>),
    /// Close the stream of an agent, which ends it and its workers.
    LetGo {
        node: NodeId,
        /// It is not heard any more: do not wait for it.
        is_lost: bool,
    },
}

/// What the failure of a pair means for the others of its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// They are stopped: the run has one result.
    StopAll,
    /// They go on, and so do later rounds: each pair is a result.
    GoOn,
}

/// A run, as its coordinator sees it.
pub(super) struct Run {
    state: RunState,
    agents: Vec<AgentControl>,
    on_failure: OnFailure,
    /// The pairs of every round so far.
    pairs: Vec<Pair>,
    /// Index of the first pair of the last round.
    round: usize,
    /// Whether the pairs of the round, which measure together, were told to measure.
    measures: bool,
    /// The channel that the agents were asked to show in detail.
    focused: Option<(ChannelKey, PathBuf)>,
    beat_at: Duration,
    /// How long the coordinator did not run, and when it went on.
    slept: Option<(Absence, Duration)>,
    /// Whether that was since the last tick.
    overslept: bool,
    /// Whether the user wants an end.
    interrupted: bool,
}

#[derive(Debug, Clone)]
struct AgentControl {
    pulse: Pulse,
    is_let_go: bool,
    /// How it was lost.
    loss: Option<AgentLoss>,
}

impl Run {
    /// A run with an agent on each node that `is_there`, and no pairs yet.
    pub(super) fn new(state: RunState, is_there: &[bool], on_failure: OnFailure, now: Now) -> Self {
        let agent = |is_there: &bool| AgentControl {
            pulse: Pulse::new(now.elapsed),
            is_let_go: !is_there,
            loss: None,
        };
        let agents = is_there.iter().map(agent).collect();
        let pairs = Vec::new();
        Self {
            state,
            agents,
            on_failure,
            pairs,
            round: 0,
            measures: false,
            focused: None,
            beat_at: now.elapsed,
            slept: None,
            overslept: false,
            interrupted: false,
        }
    }

    /// Everything that is known by now.
    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// Tells the pairs of every round, before the first round.
    pub(super) fn introduce(&mut self, pairs: Vec<PairIntro>, now: Now) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.emit(now, Who::Run, None, EventKind::Pairs(pairs), &mut effects);
        effects
    }

    /// Adds the pairs of the next round with the effects that start each. A pair of a lost node is
    /// not started.
    pub(super) fn add(&mut self, pairs: Vec<(Pair, Vec<PairEffect>)>, now: Now) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.round = self.pairs.len();
        self.measures = false;
        for (mut pair, first) in pairs {
            let (id, nodes) = (pair.id(), pair.nodes());
            let lost = End::ALL.into_iter().find_map(|end| {
                let agent = self.agents.get(nodes[end as usize].index())?;
                Some((end, agent.loss.as_ref()?))
            });
            let first = match lost {
                Some((end, loss)) => pair.never_started(end, loss, now.elapsed, &self.state),
                None => first,
            };
            self.pairs.push(pair);
            self.carry_out(id, nodes, first, now, &mut effects);
        }
        effects
    }

    /// Whether every worker of the round is gone.
    pub(super) fn is_round_over(&self) -> bool {
        self.pairs[self.round..].iter().all(Pair::is_over)
    }

    /// Whether both workers of a pair are gone.
    #[cfg(test)]
    pub(super) fn is_pair_over(&self, pair: PairId) -> bool {
        self.pairs.get(pair.index()).is_none_or(Pair::is_over)
    }

    /// Whether the worker of a pair on a node has ended.
    #[cfg(test)]
    pub(super) fn has_exited(&self, node: NodeId, pair: PairId) -> bool {
        self.state
            .workers
            .get(&WorkerId::of_pair(node, pair))
            .is_some_and(|worker| worker.exit.is_some())
    }

    /// Whether an agent ended or fell silent.
    pub(super) fn has_lost_agents(&self) -> bool {
        self.agents.iter().any(|agent| agent.loss.is_some())
    }

    /// Takes one input; what is to be done, in order.
    pub(super) fn step(&mut self, now: Now, input: RunInput) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        match input {
            RunInput::AgentMessage {
                node,
                node_us,
                worker,
                message,
            } => self.said(node, node_us, worker, message, now, &mut effects),
            RunInput::AgentText { node, text } => {
                let kind = EventKind::Output {
                    stream: "login".into(),
                    text,
                };
                self.emit(now, Who::Node(node), None, kind, &mut effects);
            }
            RunInput::LauncherSaid(text) => {
                let kind = EventKind::Output {
                    stream: "launcher".into(),
                    text: printable(&text),
                };
                self.emit(now, Who::Run, None, kind, &mut effects);
            }
            RunInput::AgentGone(node) => {
                let deserted = self
                    .slept
                    .filter(|(_, woke)| now.elapsed - *woke < SILENCE_MAX);
                let loss =
                    deserted.map_or(AgentLoss::Gone, |(slept, _)| AgentLoss::Deserted(slept));
                self.agent_lost(node, loss, now, &mut effects);
            }
            RunInput::Slept(slept) => {
                self.slept = Some((slept, now.elapsed));
                self.overslept = true;
                // What the agents sent meanwhile is not read yet.
                let agents = self.agents.iter_mut();
                agents.for_each(|agent| agent.pulse.heard(now.elapsed));
            }
            RunInput::Tick {
                interrupted,
                focused,
                stopped,
            } => {
                self.tick(interrupted, &stopped, now, &mut effects);
                self.focus(focused, &mut effects);
            }
        }
        self.let_measure(now, &mut effects);
        self.stop_together(now, &mut effects);
        effects
    }

    fn emit(
        &mut self,
        now: Now,
        who: Who,
        node_us: Option<u64>,
        kind: EventKind,
        effects: &mut Vec<RunEffect>,
    ) {
        let ms = now.elapsed.as_secs_f64() * 1e3;
        let event = Event {
            at: utc_of_us(now.us),
            node_us,
            ..Event::new(ms, who, kind)
        };
        self.state.apply(&event);
        effects.push(RunEffect::Emit(Box::new(event)));
    }

    fn said(
        &mut self,
        node: NodeId,
        node_us: u64,
        worker: u32,
        message: AgentMessage,
        now: Now,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some(agent) = self.agents.get_mut(node.index()) else {
            return;
        };
        agent.pulse.heard(now.elapsed);
        // It was stopped, and goes on: it can take part in the next round.
        agent
            .loss
            .take_if(|loss| matches!(loss, AgentLoss::Silent(_) | AgentLoss::Stopped { .. }));
        match message {
            AgentMessage::Echo { us } => return agent.pulse.echoed(us, node_us, now.us),
            AgentMessage::Watched(theirs) => {
                let ms = now.elapsed.as_secs_f64() * 1e3;
                let seen = theirs
                    .into_iter()
                    .filter_map(|event| edge::seen_from_here(event, node, ms));
                effects.extend(seen.map(|event| RunEffect::Emit(Box::new(event))));
                return;
            }
            AgentMessage::Leaving(why) => {
                let why = printable(&why);
                let kind = EventKind::AgentBroken(why.clone());
                self.emit(now, Who::Node(node), Some(node_us), kind, effects);
                return self.agent_lost(node, AgentLoss::Left(why), now, effects);
            }
            _ => {}
        }
        // A number that was given out to no worker of that node is ignored.
        let pair = PairId(worker);
        let Some(end) = self
            .pairs
            .get(pair.index())
            .and_then(|pair| pair.end_of(node))
        else {
            return;
        };
        if let AgentMessage::NoCpu { ms } = message {
            let waited = Duration::from_millis(ms);
            return self.pair_step(pair, &PairInput::NoCpu(end, waited), now, effects);
        }
        let Some(kind) = edge::event_of(message) else {
            return;
        };
        let who = Who::Worker(WorkerId::of_pair(node, pair));
        // Emit the event before its effects.
        self.emit(now, who, Some(node_us), kind.clone(), effects);
        self.pair_step(pair, &PairInput::Event(end, &kind), now, effects);
    }

    fn pair_step(
        &mut self,
        pair: PairId,
        input: &PairInput<'_>,
        now: Now,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some(one) = self.pairs.get_mut(pair.index()) else {
            return;
        };
        let wanted = one.step(now.elapsed, input, &self.state);
        let nodes = one.nodes();
        self.carry_out(pair, nodes, wanted, now, effects);
    }

    /// Turns the effects of a pair into effects of the run.
    fn carry_out(
        &mut self,
        pair: PairId,
        nodes: [NodeId; 2],
        wanted: Vec<PairEffect>,
        now: Now,
        effects: &mut Vec<RunEffect>,
    ) {
        for effect in wanted {
            match effect {
                PairEffect::Tell(end, order) => {
                    effects.push(RunEffect::Tell(nodes[end as usize], pair.0, order))
                }
                PairEffect::Note(text) => {
                    self.emit(now, Who::Pair(pair), None, EventKind::Note(text), effects)
                }
                PairEffect::StandsStill => {
                    self.emit(
                        now,
                        Who::Pair(pair),
                        None,
                        EventKind::Stall(Vec::new()),
                        effects,
                    );
                }
                PairEffect::MovesAgain => {
                    self.emit(now, Who::Pair(pair), None, EventKind::Recovered, effects)
                }
            }
        }
    }

    fn each_pair(&mut self, input: &PairInput<'_>, now: Now, effects: &mut Vec<RunEffect>) {
        for number in self.round..self.pairs.len() {
            let pair = self.pairs[number].id();
            self.pair_step(pair, input, now, effects);
        }
    }

    fn agent_lost(
        &mut self,
        node: NodeId,
        loss: AgentLoss,
        now: Now,
        effects: &mut Vec<RunEffect>,
    ) {
        let agent = self.agents.get(node.index());
        let is_news = agent.is_some_and(|agent| agent.loss.is_none());
        let kind = match loss {
            AgentLoss::Gone => Some(EventKind::AgentGone),
            AgentLoss::Stopped { pid, .. } => Some(EventKind::AgentStopped { pid }),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| is_news && self.awaits(node)) {
            self.emit(now, Who::Node(node), None, kind, effects);
        }
        if let Some(agent) = self.agents.get_mut(node.index()) {
            agent.loss.get_or_insert(loss.clone());
        }
        for number in self.round..self.pairs.len() {
            let Some(end) = self.pairs[number].end_of(node) else {
                continue;
            };
            let pair = self.pairs[number].id();
            let input = PairInput::AgentLost(end, loss.clone());
            self.pair_step(pair, &input, now, effects);
        }
    }

    fn tick(
        &mut self,
        interrupted: bool,
        stopped: &[(NodeId, u32)],
        now: Now,
        effects: &mut Vec<RunEffect>,
    ) {
        self.interrupted = interrupted;
        let overslept = std::mem::take(&mut self.overslept);
        if now.elapsed >= self.beat_at {
            self.beat_at = now.elapsed + HEARTBEAT;
            let beat = |node: usize| {
                RunEffect::Tell(node_id(node), 0, CoordinatorOrder::Heartbeat { us: now.us })
            };
            let there = (0..self.agents.len()).filter(|node| !self.agents[*node].is_let_go);
            effects.extend(there.map(beat));
        }
        for index in 0..self.agents.len() {
            let (node, pulse) = (node_id(index), self.agents[index].pulse);
            let is_known = self.agents[index].is_let_go || self.agents[index].loss.is_some();
            if !is_known && pulse.is_lost(now.elapsed) && self.awaits(node) {
                let silence = pulse.silence(now.elapsed);
                let loss = match stopped.iter().find(|(one, _)| *one == node) {
                    Some(&(_, pid)) => AgentLoss::Stopped { pid, silence },
                    None => AgentLoss::Silent(silence),
                };
                self.agent_lost(node, loss, now, effects);
            }
        }
        for number in self.round..self.pairs.len() {
            let pair = &self.pairs[number];
            let is_quiet = |node: &NodeId| {
                self.agents[node.index()].pulse.silence(now.elapsed) > AGENT_QUIET_MAX
            };
            let agent_silent = pair.nodes().iter().any(is_quiet);
            let input = PairInput::Tick(PairTick {
                interrupted,
                agent_silent,
                overslept,
            });
            self.pair_step(pair.id(), &input, now, effects);
        }
        self.end_overdue(now, effects);
    }

    /// Whether a worker of a node is still waited for.
    fn awaits(&self, node: NodeId) -> bool {
        self.pairs[self.round..]
            .iter()
            .any(|pair| !pair.is_over() && pair.end_of(node).is_some_and(|end| pair.awaits(end)))
    }

    /// Closes the stream of agents whose workers have not stopped in time.
    fn end_overdue(&mut self, now: Now, effects: &mut Vec<RunEffect>) {
        let is_heard =
            |node: &NodeId| self.agents[node.index()].pulse.silence(now.elapsed) <= AGENT_QUIET_MAX;
        let is_overdue = |pair: &Pair| match pair.stage() {
            PairStage::Stopping { since } => {
                let waits = self.on_failure == OnFailure::GoOn && !self.interrupted;
                let mut awaited = End::ALL.into_iter().filter(|end| pair.awaits(*end));
                let are_heard = awaited.all(|end| is_heard(&pair.nodes()[end as usize]));
                let most = match waits && are_heard {
                    true => STOPPING_AND_HEARD_MAX,
                    false => STOPPING_MAX,
                };
                now.elapsed.saturating_sub(since) > most
            }
            PairStage::Running | PairStage::Stalled { .. } | PairStage::Over => false,
        };
        let overdue: Vec<(PairId, [NodeId; 2])> = self.pairs[self.round..]
            .iter()
            .filter(|pair| is_overdue(pair))
            .map(|pair| (pair.id(), pair.nodes()))
            .collect();
        for (pair, nodes) in overdue {
            for end in End::ALL {
                let node = nodes[end as usize];
                if !self.pairs[pair.index()].awaits(end) {
                    continue;
                }
                let agent = &mut self.agents[node.index()];
                if !std::mem::replace(&mut agent.is_let_go, true) {
                    let is_lost = agent.pulse.is_lost(now.elapsed);
                    agent.loss.get_or_insert(AgentLoss::LetGo);
                    effects.push(RunEffect::LetGo { node, is_lost });
                }
                self.let_go_of_workers(node, now, effects);
            }
        }
    }

    fn let_go_of_workers(&mut self, node: NodeId, now: Now, effects: &mut Vec<RunEffect>) {
        for number in self.round..self.pairs.len() {
            let Some(end) = self.pairs[number].end_of(node) else {
                continue;
            };
            let pair = self.pairs[number].id();
            self.pair_step(pair, &PairInput::LetGo(end), now, effects);
        }
    }

    /// Starts the measurement of all pairs of the round once all have warmed up: rates of several
    /// pairs can be added only while all of them move bytes.
    fn let_measure(&mut self, now: Now, effects: &mut Vec<RunEffect>) {
        let is_awaited = |pair: &&Pair| self.on_failure == OnFailure::StopAll || !pair.is_bad();
        let mut awaited = self.pairs[self.round..]
            .iter()
            .filter(is_awaited)
            .peekable();
        if !self.measures
            && awaited.peek().is_some()
            && awaited.all(|pair| pair.is_gathered(&self.state))
        {
            self.measures = true;
            self.each_pair(&PairInput::Measure, now, effects);
        }
    }

    fn stop_together(&mut self, now: Now, effects: &mut Vec<RunEffect>) {
        let runs =
            |pair: &Pair| matches!(pair.stage(), PairStage::Running | PairStage::Stalled { .. });
        let round = &self.pairs[self.round..];
        if self.on_failure == OnFailure::StopAll
            && round.iter().any(Pair::is_bad)
            && round.iter().any(runs)
        {
            self.each_pair(&PairInput::RunStops, now, effects);
        }
    }

    /// Asks the agents for the channel that a live view shows in detail.
    fn focus(&mut self, wanted: Option<(ChannelKey, PathBuf)>, effects: &mut Vec<RunEffect>) {
        if wanted == self.focused {
            return;
        }
        for index in 0..self.agents.len() {
            let node = node_id(index);
            let theirs = wanted
                .as_ref()
                .filter(|(channel, _)| channel.worker.node == node);
            let workers = theirs
                .iter()
                .map(|(channel, path)| (channel.worker, path.clone()))
                .collect();
            let focused = theirs.map(|(channel, _)| channel.clone());
            let order = CoordinatorOrder::Watch {
                which: RecorderFilter::Workers(workers),
                focused,
            };
            effects.push(RunEffect::Tell(node, 0, order));
        }
        self.focused = wanted;
    }

    /// The outcome of each pair so far.
    pub(super) fn outcomes(&self) -> Vec<PairOutcome> {
        let pairs = self.pairs.iter().cloned();
        pairs.map(|pair| pair.conclude(&self.state)).collect()
    }

    /// The final state and the outcome of each pair.
    pub(super) fn conclude(mut self) -> (RunState, Vec<PairOutcome>) {
        for (index, agent) in self.agents.iter().enumerate() {
            if let Some(node) = self.state.nodes.get_mut(index) {
                node.clock = agent.pulse.clock;
            }
        }
        let pairs = self
            .pairs
            .into_iter()
            .map(|pair| pair.conclude(&self.state))
            .collect();
        (self.state, pairs)
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).unwrap_or(u32::MAX))
}
