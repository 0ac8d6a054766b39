//! One pair of workers, from its launch to the last exit, as a state machine.
//!
//! `step` takes what happened and says what is to be done; time is a value, and
//! what is known of the workers is read from the run's state. The end that listens
//! is told first, its address goes to the other, and from then on this only watches:
//! a failure, a death, a stall or a lost agent at one end stops the other end too.
//! Every stage but the last has a deadline.
//!
//! Not here: sockets, clocks and other pairs. `run` has those pairs, `drive` the rest.
#![forbid(unsafe_code)]

use super::assign::EndPlan;
use super::deadline;
use super::end::End;
use super::require;
use super::standstill::Standstill;
use super::verdict::{Verdict, cause, death_words, last_warning, no_way, stall_words, stuck_call};
use crate::bootstrap::Secret;
use crate::protocol::limits::HEARTBEAT;
use crate::protocol::message::{Launch, PairTask, ProcessOrder, Task, ToAgent, ToWorker, Work};
use std::collections::BTreeMap;
use std::time::Duration;
use tcpx_run_model::event::EventKind;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::{Lane, NodeId, PairId, WorkerId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::record::ChannelNow;
use tcpx_run_model::scenario::{Fault, Scenario};
use tcpx_run_model::state::{DeclaredStall, RunState, WorkerState};
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;
use tcpx_words::units::printable;

/// For a worker to report and end after it was told to.
const GRACE: Duration = Duration::from_millis(1200);

/// What the pair came to.
#[derive(Debug, Clone)]
pub struct PairOutcome {
    /// Which pair.
    pub id: PairId,
    /// Its nodes.
    pub nodes: [NodeId; 2],
    /// What it moved bytes for.
    pub lanes: Vec<Lane>,
    /// When it went wrong, if it did: since the command started.
    pub bad_since: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
    /// In one sentence, unless it passed.
    pub reason: Option<String>,
    /// What to do about it.
    pub next_step: Option<String>,
    /// The first stall that did not end, or the last one that did.
    pub stall: Option<DeclaredStall>,
    /// What was legal, and seen before anything ran.
    pub warnings: Vec<Finding>,
    /// Environment that each worker was given on top of its node's.
    pub env: [BTreeMap<String, String>; 2],
}

/// What does not change while a pair runs.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) id: PairId,
    pub(super) nodes: [NodeId; 2],
    pub(super) lanes: Vec<Lane>,
    pub(super) scenario: Scenario,
    pub(super) work: Work,
    pub(super) run_id: String,
    pub(super) preflight: bool,
    /// Whether each end is on the machine where the command was typed.
    pub(super) is_here: [bool; 2],
}

/// Where a pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing is wrong.
    Running,
    /// A stall was declared.
    Stalled {
        /// Unless it moves until then.
        give_up_at: Duration,
    },
    /// Both workers were told to stop.
    Stopping {
        /// When.
        since: Duration,
    },
    /// Both workers are gone.
    Over,
}

/// What happens to a pair. Events were applied to the run's state before.
#[derive(Debug, Clone)]
pub(super) enum Input<'a> {
    /// Something happened to the worker of one end.
    Event(End, &'a EventKind),
    /// The agent of one end is lost, and the worker with it.
    AgentLost {
        end: End,
        /// `is gone`, `fell silent`.
        how: &'static str,
        /// For how long nothing had come from it.
        silence: Duration,
        next_step: Option<&'static str>,
    },
    /// Everyone who measures at the same time has warmed up.
    Measure,
    /// Another pair of the run went wrong: this one ends with it.
    RunStops,
    /// The agent of one end was let go: its worker is not waited for any longer.
    LetGo(End),
    /// Time has passed.
    Tick(Tick),
}

/// What is looked at from time to time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tick {
    /// The user wants an end.
    pub(super) interrupted: bool,
    /// An agent has not been heard for a while: perhaps it is lost, and then that
    /// comes first.
    pub(super) hushed: bool,
    /// The coordinator was stopped or starved, and saw nothing for a while.
    pub(super) overslept: bool,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Tell the agent of one end something about its worker of this pair.
    Tell(End, ToAgent),
    /// Note a decision.
    Note(String),
    /// Tell everyone that the pair stands still, which no agent could see alone.
    StandsStill,
    /// Tell everyone that it moves again, after that.
    MovesAgain,
}

/// One pair, as the coordinator sees it.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    setup: Setup,
    stage: Stage,
    launched: Duration,
    env: [BTreeMap<String, String>; 2],
    gone: [bool; 2],
    frozen: bool,
    standstill: Standstill,
    hush: Hush,
    stall: Option<DeclaredStall>,
    verdict: Option<Verdict>,
    failures: Vec<(End, Failure)>,
    bad_since: Option<Duration>,
    warnings: Vec<Finding>,
}

/// Whether both agents are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hush {
    No,
    /// One is not.
    Yes,
    /// And meanwhile this node's agent declared a stall.
    Stalled(Option<NodeId>),
}

impl Pair {
    /// Nothing is launched yet.
    pub(super) fn new(setup: Setup, now: Duration) -> Self {
        Self {
            standstill: Standstill::new(&setup.scenario, now),
            setup,
            stage: Stage::Running,
            launched: now,
            env: Default::default(),
            gone: [false; 2],
            frozen: false,
            hush: Hush::No,
            stall: None,
            verdict: None,
            failures: Vec::new(),
            bad_since: None,
            warnings: Vec::new(),
        }
    }

    /// Starts both workers; with other pairs `together`, none measures before
    /// [`Input::Measure`].
    pub(super) fn launch(
        &mut self,
        plans: [EndPlan; 2],
        names: [String; 2],
        secret: &Secret,
        together: bool,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        for ((end, plan), name) in End::ALL.into_iter().zip(plans).zip(names) {
            let task = PairTask {
                together,
                ..self.task(name, &plan, secret)
            };
            self.warnings.extend(plan.warnings);
            self.env[end as usize].clone_from(&plan.env);
            let stall_after = Duration::from(self.setup.scenario.limits.stall_after);
            let stall_after_ms = u64::try_from(stall_after.as_millis()).unwrap_or(u64::MAX);
            let fault = self.process_order(plan.sends, plan.receives);
            let launch = Launch {
                env: plan.env,
                task: Task::Pair(Box::new(task)),
                stall_after_ms,
                fault,
            };
            effects.push(Effect::Tell(end, ToAgent::Launch(Box::new(launch))));
        }
        effects
    }

    fn process_order(&self, sends: bool, receives: bool) -> Option<ProcessOrder> {
        let Some(Fault::Process {
            kind,
            side,
            after_chunk,
        }) = &self.setup.scenario.fault
        else {
            return None;
        };
        let here = (sends && side.include(Side::Send)) || (receives && side.include(Side::Recv));
        here.then_some(ProcessOrder {
            kind: *kind,
            after_chunk: *after_chunk,
        })
    }

    fn task(&self, name: String, plan: &EndPlan, secret: &Secret) -> PairTask {
        PairTask {
            plugin: plan.plugin.clone(),
            gpus: self.setup.lanes.iter().map(|lane| lane.gpu()).collect(),
            cpus: plan.cpus.clone(),
            run_id: self.setup.run_id.clone(),
            scenario: self.setup.scenario.clone(),
            sends: plan.sends,
            receives: plan.receives,
            node: name,
            listen: plan.listen,
            port: plan.port,
            secret: secret.to_hex(),
            work: self.setup.work.clone(),
            preflight: self.setup.preflight,
            together: false,
        }
    }

    /// Nothing is launched: the run was refused.
    pub(super) fn refuse(
        &mut self,
        now: Duration,
        why: String,
        next_step: Option<String>,
    ) -> Vec<Effect> {
        let note = Effect::Note(format!("{}: {why}", Outcome::NotRun));
        self.bad_since = Some(now);
        self.verdict = Some(Verdict {
            outcome: Outcome::NotRun,
            why,
            next_step,
        });
        self.gone = [true; 2];
        self.stage = Stage::Over;
        vec![note]
    }

    pub(super) fn id(&self) -> PairId {
        self.setup.id
    }

    /// Its nodes.
    pub(super) fn nodes(&self) -> [NodeId; 2] {
        self.setup.nodes
    }

    /// What it moves bytes for.
    pub(super) fn lanes(&self) -> &[Lane] {
        &self.setup.lanes
    }

    /// The end that a node is, if it is one.
    pub(super) fn end_of(&self, node: NodeId) -> Option<End> {
        End::ALL
            .into_iter()
            .find(|end| self.setup.nodes[*end as usize] == node)
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether both workers are gone.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether something went wrong with it.
    pub(super) fn is_bad(&self) -> bool {
        self.bad_since.is_some()
    }

    /// Whether the worker of one end is still waited for.
    pub(super) fn awaits(&self, end: End) -> bool {
        !self.gone[end as usize]
    }

    /// Whether both workers have warmed up and wait for [`Input::Measure`].
    pub(super) fn is_gathered(&self, state: &RunState) -> bool {
        self.phases(state) == [Phase::Gathering; 2]
    }

    fn phases(&self, state: &RunState) -> [Phase; 2] {
        End::ALL.map(|end| {
            self.worker(end, state)
                .and_then(|worker| worker.phase)
                .unwrap_or_default()
        })
    }

    fn worker<'s>(&self, end: End, state: &'s RunState) -> Option<&'s WorkerState> {
        state.workers.get(&self.worker_id(end))
    }

    fn worker_id(&self, end: End) -> WorkerId {
        WorkerId::of_pair(self.setup.nodes[end as usize], self.setup.id)
    }

    fn name(&self, end: End, state: &RunState) -> String {
        state.name(self.worker_id(end))
    }

    /// Takes one input; what is to be done, in order. A pair that is over does nothing.
    pub(super) fn step(
        &mut self,
        now: Duration,
        input: &Input<'_>,
        state: &RunState,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.stage == Stage::Over {
            return effects;
        }
        match input {
            Input::Event(end, kind) => self.event(*end, kind, now, state, &mut effects),
            // A worker that is to stop is told nothing else.
            Input::Measure if self.is_stopping() => {}
            Input::AgentLost {
                end,
                how,
                silence,
                next_step,
            } => {
                self.agent_lost(*end, how, *silence, *next_step, now, state, &mut effects);
            }
            Input::Measure => {
                effects.extend(
                    End::ALL.map(|end| Effect::Tell(end, ToAgent::ToWorker(ToWorker::Measure))),
                );
            }
            Input::RunStops => self.stop(now, &mut effects),
            Input::LetGo(end) => self.gone[*end as usize] = true,
            Input::Tick(tick) => self.tick(*tick, now, state, &mut effects),
        }
        if self.gone == [true; 2] {
            self.stage = Stage::Over;
        }
        // What was asked of a worker that is gone meanwhile is nobody's any more.
        effects
            .retain(|effect| !matches!(effect, Effect::Tell(end, _) if self.gone[*end as usize]));
        effects
    }

    fn event(
        &mut self,
        end: End,
        kind: &EventKind,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        match kind {
            EventKind::Sample(channels) => {
                if self.standstill.sample(end, channels, now) {
                    self.recovered(effects);
                    effects.push(Effect::MovesAgain);
                }
                return;
            }
            EventKind::Stall(_) => return self.stalled(Some(end), now, state, effects),
            EventKind::Recovered => return self.recovered(effects),
            EventKind::Frame(_) => self.frozen = true,
            EventKind::Listening(address) if !self.is_stopping() => {
                effects.push(Effect::Tell(
                    end.other(),
                    ToAgent::ToWorker(ToWorker::PeerListens(*address)),
                ));
            }
            EventKind::Exited(exit) => return self.exited(end, exit, now, state, effects),
            EventKind::AgentBroken(why) => {
                self.gone[end as usize] = true;
                let why = format!("the agent of {}: {why}", self.name(end, state));
                return self.decide(Outcome::NotRun, why, None, now, effects);
            }
            EventKind::Plugin(ready) => {
                let (requires, plugin) = (&self.setup.scenario.requires, &ready.plugin.name);
                let is_tcpx = ready.plugin.family == PluginFamily::Tcpx;
                if let Some(why) =
                    require::unwanted(requires, &self.name(end, state), plugin, is_tcpx)
                {
                    self.decide(Outcome::NotRun, why, None, now, effects);
                }
            }
            EventKind::Failed(failure) => self.failed(end, failure, now, state, effects),
            _ => {}
        }
        // A worker that says anything is no worker that stands still.
        let is_said = !matches!(
            kind,
            EventKind::PluginLine(_) | EventKind::Output { .. } | EventKind::Frame(_)
        );
        if is_said && self.standstill.moved(now) {
            self.recovered(effects);
            effects.push(Effect::MovesAgain);
        }
    }

    fn failed(
        &mut self,
        end: End,
        failure: &Failure,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        let mut failure = failure.clone();
        let [from, to] = [end, end.other()].map(|end| self.host(end, state));
        let driver = match self.setup.is_here {
            [true, false] => Some(self.host(End::First, state)),
            [false, true] => Some(self.host(End::Second, state)),
            _ => None,
        };
        no_way(&mut failure, &from, &to, driver.as_deref());
        self.failures.push((end, failure));
        self.bad_since.get_or_insert(now);
        // The other end has heard of it over the bootstrap, or will be stopped.
        self.stop(now, effects);
    }

    /// What a node calls itself.
    fn host(&self, end: End, state: &RunState) -> String {
        let node = self.setup.nodes[end as usize];
        let facts = state.node(node).and_then(|node| node.facts.as_deref());
        let name = facts.and_then(|facts| facts.host.name.known());
        name.map_or_else(|| state.names.node(node), |name| printable(name))
    }

    fn exited(
        &mut self,
        end: End,
        exit: &Exit,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        self.gone[end as usize] = true;
        let worker = self.worker(end, state);
        let has_said_why =
            worker.is_some_and(|worker| worker.is_finished() || worker.failure.is_some());
        if !has_said_why && !exit.killed {
            let why = death_words(&self.name(end, state), exit, worker);
            let next_step =
                last_warning(worker).map(|_| "its last WARN line is usually the cause".to_owned());
            self.decide(Outcome::PluginDied, why, next_step, now, effects);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one input, taken apart")]
    fn agent_lost(
        &mut self,
        end: End,
        how: &str,
        silence: Duration,
        next_step: Option<&str>,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        if self.gone[end as usize] {
            return;
        }
        // What stood still since nothing came from there stood still because of it.
        let since_ms = now.saturating_sub(silence + HEARTBEAT).as_secs_f64() * 1e3;
        self.stall
            .take_if(|stall| !stall.recovered && stall.at_ms >= since_ms);
        self.gone[end as usize] = true;
        let node = self.setup.nodes[end as usize];
        let address = state
            .names
            .nodes
            .get(node.index())
            .map_or("", |node| node.address.as_str());
        let why = format!("the agent of {} ({address}) {how}", self.name(end, state));
        self.decide(
            Outcome::PeerLost,
            why,
            next_step.map(str::to_owned),
            now,
            effects,
        );
    }

    fn tick(&mut self, tick: Tick, now: Duration, state: &RunState, effects: &mut Vec<Effect>) {
        if tick.overslept || tick.hushed {
            self.standstill.overslept(now);
        }
        if tick.hushed {
            if self.hush == Hush::No {
                self.hush = Hush::Yes;
            }
            if let Stage::Stalled { give_up_at } = &mut self.stage {
                *give_up_at = (*give_up_at).max(now + HEARTBEAT);
            }
        } else if let Hush::Stalled(by) = std::mem::replace(&mut self.hush, Hush::No) {
            let end = by.and_then(|node| self.end_of(node));
            self.stalled(end, now, state, effects);
        }
        self.check(tick.interrupted, now, state, effects);
    }

    fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. })
    }

    /// Holds the pair against its deadlines, the first that is past. What a stop
    /// brings about would only hide why it was asked for.
    fn check(
        &mut self,
        interrupted: bool,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_stopping() {
            return;
        }
        let total = self.setup.scenario.limits.total;
        if interrupted {
            return self.decide(
                Outcome::Interrupted,
                "interrupted".into(),
                None,
                now,
                effects,
            );
        }
        if let Stage::Stalled { give_up_at } = self.stage
            && now >= give_up_at
        {
            let next = "compare the channels of both ends: who has posted, and who is not done";
            let why = self.stall_words(now, state);
            return self.decide(Outcome::Stalled, why, Some(next.into()), now, effects);
        }
        if now.saturating_sub(self.launched) > Duration::from(total) {
            let why = format!("not finished within limits.total ({total})");
            return self.decide(Outcome::Failed, why, None, now, effects);
        }
        for end in End::ALL {
            self.check_phase(end, now, state, effects);
        }
        let moves = |phase: &Phase| matches!(phase, Phase::WarmUp | Phase::Measuring);
        let should_move = self.stage == Stage::Running && self.phases(state).iter().all(moves);
        if should_move && self.standstill.begins(now) {
            effects.push(Effect::StandsStill);
            self.stalled(None, now, state, effects);
        }
    }

    /// A worker that is inside a plugin call cannot keep its own deadlines.
    fn check_phase(
        &mut self,
        end: End,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        if self.gone[end as usize] {
            return;
        }
        let worker = self.worker(end, state);
        let phase = worker.and_then(|worker| worker.phase).unwrap_or_default();
        let entered = worker.and_then(|worker| worker.phase.map(|_| worker.phase_ms));
        let since = entered.map_or(self.launched, |ms| {
            Duration::from_secs_f64((ms / 1e3).clamp(0.0, 1e9))
        });
        let facts = state
            .node(self.setup.nodes[end as usize])
            .and_then(|node| node.facts.as_deref());
        let of_node = |name: &str| facts?.environment.get(name);
        let variable = |name: &str| {
            self.env[end as usize]
                .get(name)
                .or_else(|| of_node(name))
                .cloned()
        };
        let limit = deadline::of_phase(
            phase,
            &self.setup.scenario.limits,
            &self.setup.work,
            variable,
        );
        let spent = now.saturating_sub(since);
        if let Some((most, limit, outcome)) = limit
            && spent > most
        {
            let (name, spent) = (self.name(end, state), spent.as_secs_f64());
            let why =
                format!("the plugin of {name} hangs while {phase}, since {spent:.1} s ({limit})");
            self.decide(
                outcome,
                why,
                Some(format!("look at its log lines, or raise {limit}")),
                now,
                effects,
            );
        }
    }

    /// The first decision stands; both ends are told to stop.
    fn decide(
        &mut self,
        outcome: Outcome,
        why: String,
        next_step: Option<String>,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        self.bad_since.get_or_insert(now);
        // An agent that is lost explains a failure that another end would bring about,
        // and no other. A process that died may be the cause of any that came first.
        let comes_after = self.failures.iter().any(|(_, failure)| !failure.follows)
            && outcome != Outcome::PluginDied;
        if self.verdict.is_none() && !comes_after {
            effects.push(Effect::Note(format!("{outcome}: {why}")));
            self.verdict = Some(Verdict {
                outcome,
                why,
                next_step,
            });
        }
        // A call that hangs is seen while it does.
        if outcome == Outcome::Stalled && !self.is_stopping() && !self.frozen {
            effects.extend(End::ALL.map(|end| Effect::Tell(end, ToAgent::Freeze)));
        }
        self.stop(now, effects);
    }

    fn stop(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if !self.is_stopping() {
            self.stage = Stage::Stopping { since: now };
            let grace_ms = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX);
            effects.extend(End::ALL.map(|end| Effect::Tell(end, ToAgent::Stop { grace_ms })));
        }
    }

    fn stalled(
        &mut self,
        end: Option<End>,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<Effect>,
    ) {
        let by = end.map(|end| self.setup.nodes[end as usize]);
        if self.hush != Hush::No {
            self.hush = Hush::Stalled(by);
            return;
        }
        // What stands still once it was told to stop is no news.
        if self.is_stopping() {
            return;
        }
        if self.stall.is_none_or(|stall| stall.recovered) {
            self.stall = Some(DeclaredStall {
                at_ms: now.as_secs_f64() * 1e3,
                by,
                recovered: false,
            });
        }
        if self.stage == Stage::Running {
            let patience = Duration::from(self.setup.scenario.limits.give_up_after);
            self.stage = Stage::Stalled {
                give_up_at: now + patience,
            };
            let seen_by = self.seen_by(state);
            effects.push(Effect::Note(format!(
                "stall declared by {seen_by}; giving up in {patience:?} unless it moves"
            )));
            effects.extend(End::ALL.map(|end| Effect::Tell(end, ToAgent::Snapshot)));
            effects.extend(End::ALL.map(|end| Effect::Tell(end, ToAgent::Freeze)));
        }
    }

    fn recovered(&mut self, effects: &mut Vec<Effect>) {
        // What moves once it was told to stop has not recovered.
        if !matches!(self.stage, Stage::Running | Stage::Stalled { .. }) {
            return;
        }
        self.stage = Stage::Running;
        if self.hush != Hush::No {
            self.hush = Hush::Yes;
        }
        if let Some(stall) = &mut self.stall {
            stall.recovered = true;
        }
        effects.push(Effect::Note("the stalled channels move again".into()));
    }

    /// Who saw the stall: `peer`, or the coordinator.
    fn seen_by(&self, state: &RunState) -> String {
        let end = self
            .stall
            .and_then(|stall| stall.by)
            .and_then(|node| self.end_of(node));
        end.map_or("the coordinator".to_owned(), |end| self.name(end, state))
    }

    /// The channels of the end that noticed, or of both, as they stand by now.
    fn stall_words(&self, now: Duration, state: &RunState) -> String {
        let Some(stall) = self.stall else {
            return "no progress".into();
        };
        let channels: Vec<ChannelNow> = match stall.by.and_then(|node| self.end_of(node)) {
            Some(end) => {
                let picture = self
                    .worker(end, state)
                    .and_then(|worker| worker.at_stall.as_ref());
                picture
                    .map(|picture| picture.channels.clone())
                    .unwrap_or_default()
            }
            None => self.channels_by_now(now, state),
        };
        stall_words(&self.seen_by(state), &channels)
    }

    /// Counters of both ends, with the silence since each end's came added: what
    /// fell silent last said that all was well.
    fn channels_by_now(&self, now: Duration, state: &RunState) -> Vec<ChannelNow> {
        let now_ms = now.as_secs_f64() * 1e3;
        let workers = End::ALL
            .into_iter()
            .filter_map(|end| self.worker(end, state));
        let by_now = |worker: &WorkerState| {
            let silent_ms = (now_ms - worker.sampled_ms.unwrap_or(now_ms)).max(0.0) as u64;
            let quiet = move |channel: &ChannelNow| ChannelNow {
                quiet_ms: channel.quiet_ms.saturating_add(silent_ms),
                ..channel.clone()
            };
            worker.channels.iter().map(quiet).collect::<Vec<_>>()
        };
        workers.flat_map(by_now).collect()
    }

    /// What it came to.
    pub(super) fn conclude(self, state: &RunState) -> PairOutcome {
        let names = End::ALL.map(|end| self.name(end, state));
        let mut verdict = cause(self.verdict.clone(), &self.failures, &names);
        if let Some(verdict) = &mut verdict
            && matches!(verdict.outcome, Outcome::Stalled | Outcome::NotRun)
        {
            for end in End::ALL {
                let call = self
                    .worker(end, state)
                    .and_then(|worker| stuck_call(&names[end as usize], worker));
                verdict.why.extend(call.map(|call| format!("; {call}")));
            }
        }
        let mut stall = self.stall;
        if let (Some(stall), None) = (&mut stall, &verdict) {
            // What passed has moved, whether or not anyone looked in between.
            stall.recovered = true;
        }
        let (outcome, reason, next_step) = match verdict {
            Some(verdict) => (verdict.outcome, Some(verdict.why), verdict.next_step),
            None => (Outcome::Passed, None, None),
        };
        PairOutcome {
            id: self.setup.id,
            nodes: self.setup.nodes,
            lanes: self.setup.lanes,
            bad_since: self.bad_since,
            outcome,
            reason,
            next_step,
            stall,
            warnings: self.warnings,
            env: self.env,
        }
    }
}
