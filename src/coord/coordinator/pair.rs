//! One pair of workers, from its launch to the last exit, as a state machine.
//!
//! `step` takes an input and returns effects. Time is a value, and the workers' phases and
//! counters are read from the run's state. Both workers are started, the address of the listening
//! one is sent to the other, and from then on the pair is only supervised: a failure, an exit, a
//! stall or a lost agent at one end stops the other end too. Every stage but the last has a
//! deadline.
//!
//! Not here: sockets and clocks (`drive`), and other pairs (`run`).
#![forbid(unsafe_code)]

use super::assign::EndPlan;
use super::deadline;
use super::end::End;
use super::require;
use super::standstill::Standstill;
use super::verdict::{Verdict, after_death, cause, death_words, no_way, stall_words, stuck_call};
use crate::protocol::limits::{HEARTBEAT, SILENCE_MAX};
use crate::protocol::message::{
    CoordinatorOrder, Launch, PairTask, ProcessOrder, Task, Work, WorkerOrder,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tcpx_bootstrap::Secret;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::EventKind;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::{Lane, NodeId, PairId, PairIntro, Rail, WorkerId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::scenario::{Fault, Scenario};
use tcpx_run_model::state::{DeclaredStall, RunState, WorkerState};
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;
use tcpx_words::units::printable;

/// Time for a worker to report and exit after a stop order.
const GRACE: Duration = Duration::from_millis(1200);

/// Result of a pair.
#[derive(Debug, Clone)]
pub struct PairOutcome {
    /// Its id.
    pub id: PairId,
    /// Its nodes.
    pub nodes: [NodeId; 2],
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// Its rail, in a mesh that measures each rail by itself.
    pub rail: Option<Rail>,
    /// The round of the mesh that it was measured in.
    pub round: Option<u32>,
    /// When it failed, since the command started; `None` if it passed.
    pub bad_since: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
    /// The reason in one sentence, unless it passed.
    pub reason: Option<String>,
    /// What the user should do.
    pub next_step: Option<String>,
    /// The stall that did not recover, or the last one that did.
    pub stall: Option<DeclaredStall>,
    /// Findings from the settings, made before the start.
    pub warnings: Vec<Finding>,
    /// Environment that each worker was given in addition to its node's.
    pub env: [BTreeMap<String, String>; 2],
}

/// The constant parameters of a pair.
#[derive(Debug, Clone)]
pub(super) struct PairSetup {
    pub(super) id: PairId,
    pub(super) intro: PairIntro,
    pub(super) scenario: Scenario,
    pub(super) work: Work,
    pub(super) run_id: String,
    pub(super) preflight: bool,
    /// Of its agents: [`crate::protocol::limits::looks_per_sample`].
    pub(super) looks_per_sample: usize,
    /// Whether each end is on the machine where the command was typed.
    pub(super) is_here: [bool; 2],
}

/// Freeze-frames of a stall until it is given up, and the shortest time between two of them.
const FRAMES: u32 = 3;
const FREEZE_EVERY_MIN: Duration = Duration::from_millis(500);

/// The stage of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairStage {
    /// No failure and no stall so far.
    Running,
    /// A stall was declared.
    Stalled {
        /// When the pair fails unless it has recovered.
        give_up_at: Duration,
    },
    /// Both workers were told to stop.
    Stopping {
        /// Time of the stop order.
        since: Duration,
    },
    /// Both workers have ended.
    Over,
}

/// An input of a pair. Its events were folded into the run's state before.
#[derive(Debug, Clone)]
pub(super) enum PairInput<'a> {
    /// An event of the worker of one end.
    Event(End, &'a EventKind),
    /// The worker of one end waited for a CPU for this long.
    NoCpu(End, Duration),
    /// The agent of one end is lost, and the worker with it.
    AgentLost(End, AgentLoss),
    /// All pairs that measure together have warmed up.
    Measure,
    /// Another pair of the run failed: stop this one too.
    RunStops,
    /// The stream of one end's agent was closed: do not wait for its worker.
    LetGo(End),
    /// Time has passed.
    Tick(PairTick),
}

/// How an agent was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentLoss {
    /// Its stream ended.
    Gone,
    /// It ended itself, for this reason.
    Left(String),
    /// The coordinator closed its stream, because a worker of it had not ended.
    LetGo,
    /// It has sent nothing for this long.
    Silent(Duration),
    /// As `Silent`; its process, on this machine, is stopped.
    Stopped { pid: u32, silence: Duration },
    /// Its stream ended after the coordinator had not run for this long: agents end by themselves
    /// then.
    Deserted(Absence),
}

/// A time in which this command did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) lasted: Duration,
    /// Of it, for a CPU; the rest it was stopped or suspended.
    pub(super) waited: Duration,
}

impl AgentLoss {
    fn silence(&self) -> Duration {
        match self {
            Self::Silent(silence) | Self::Stopped { silence, .. } => *silence,
            Self::Gone | Self::Left(_) | Self::LetGo | Self::Deserted(_) => Duration::ZERO,
        }
    }

    /// The verdict on the loss of the agent of `name` at `address`.
    fn verdict(&self, name: &str, address: &str) -> Verdict {
        let address = match address == name {
            true => String::new(),
            false => format!(" ({address})"),
        };
        let of_agent = |how: &str, next_step: Option<&str>| Verdict {
            outcome: Outcome::PeerLost,
            why: format!("the agent of {name}{address} {how}"),
            next_step: next_step.map(str::to_owned),
        };
        match self {
            Self::Gone => of_agent("is gone", None),
            Self::Left(why) => of_agent(&format!("ended: {why}"), None),
            Self::LetGo => of_agent(
                "was told to end, because a worker of it had not stopped",
                None,
            ),
            // Only the path to the agent is known to be lost; the data NICs may still work.
            Self::Silent(_) => of_agent(
                "is not heard any more",
                Some(
                    "check that the node is up and that the network it was reached over still works",
                ),
            ),
            Self::Stopped { pid, .. } => of_agent(
                &format!("is stopped: its process {pid} is in state T"),
                Some(&format!(
                    "find out who sent it SIGSTOP, or whether a debugger holds it; `kill -CONT {pid}` lets it go on"
                )),
            ),
            Self::Deserted(absence) => {
                let (what, next_step) = absence.words();
                Verdict {
                    outcome: Outcome::Interrupted,
                    why: format!(
                        "{what} {:.1} s, and agents end after {} s without it",
                        absence.lasted.as_secs_f64(),
                        SILENCE_MAX.as_secs()
                    ),
                    next_step: Some(next_step.to_owned()),
                }
            }
        }
    }
}

impl Absence {
    /// What happened, and what to do.
    fn words(self) -> (&'static str, &'static str) {
        if self.waited >= self.lasted / 2 {
            (
                "this command got no CPU for",
                "run it again with fewer programs beside it, or with a higher CPU limit of its cgroup",
            )
        } else {
            (
                "this command did not run for",
                "run it again where it is not stopped or suspended, as by Ctrl-Z or a laptop's lid",
            )
        }
    }
}

/// Conditions that the coordinator checks several times a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PairTick {
    /// The user interrupted the run.
    pub(super) interrupted: bool,
    /// An agent is silent: if it turns out to be lost, that is the cause of a stall.
    pub(super) agent_silent: bool,
    /// The coordinator was stopped or starved of CPU since the last tick.
    pub(super) overslept: bool,
}

/// What the caller of `step` must do.
#[derive(Debug, Clone)]
pub(super) enum PairEffect {
    /// Send an order to the agent of one end about its worker of this pair.
    Tell(End, CoordinatorOrder),
    /// Record a decision as an event.
    Note(String),
    /// Emit a stall that the coordinator declared, as neither agent could see it alone.
    StandsStill,
    /// Emit the recovery from such a stall.
    MovesAgain,
}

/// One pair, as the coordinator sees it.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    setup: PairSetup,
    stage: PairStage,
    launched: Duration,
    env: [BTreeMap<String, String>; 2],
    gone: [bool; 2],
    /// When another freeze-frame is due while the pair is stalled.
    freeze_at: Duration,
    standstill: Standstill,
    /// How long each worker waited for a CPU in its phase.
    no_cpu: [Duration; 2],
    agent_silence: AgentSilence,
    stall: Option<DeclaredStall>,
    verdict: Option<Verdict>,
    failures: Vec<(End, Failure)>,
    bad_since: Option<Duration>,
    warnings: Vec<Finding>,
}

/// Whether an agent is silent. A stall that is declared meanwhile waits until both are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentSilence {
    No,
    Yes,
    /// An agent is silent and this node's agent has declared a stall.
    Stalled(Option<NodeId>),
}

impl Pair {
    /// A pair whose workers are not started yet.
    pub(super) fn new(setup: PairSetup, now: Duration) -> Self {
        Self {
            no_cpu: [Duration::ZERO; 2],
            standstill: Standstill::new(&setup.scenario, &setup.intro.lanes, now),
            setup,
            stage: PairStage::Running,
            launched: now,
            env: Default::default(),
            gone: [false; 2],
            freeze_at: now,
            agent_silence: AgentSilence::No,
            stall: None,
            verdict: None,
            failures: Vec::new(),
            bad_since: None,
            warnings: Vec::new(),
        }
    }

    /// Starts both workers. With `together`, they wait for [`PairInput::Measure`] after warm-up.
    pub(super) fn launch(
        &mut self,
        plans: [EndPlan; 2],
        names: [String; 2],
        secret: &Secret,
        together: bool,
    ) -> Vec<PairEffect> {
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
                looks_per_sample: self.setup.looks_per_sample,
                fault,
                // A mesh has thousands of pairs, and a recorder file some megabytes.
                sends_every_recording: self.setup.scenario.mesh.is_none(),
            };
            effects.push(PairEffect::Tell(
                end,
                CoordinatorOrder::Launch(Box::new(launch)),
            ));
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
            lanes: plan.lanes.clone(),
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
            workers_here: plan.workers_here,
            peer_here: plan.peer_here,
        }
    }

    /// Ends the pair without starting its workers, because the run cannot be assigned.
    pub(super) fn refuse(
        &mut self,
        now: Duration,
        why: String,
        next_step: Option<String>,
    ) -> Vec<PairEffect> {
        let outcome = Outcome::NotRun;
        self.end_unstarted(
            now,
            Verdict {
                outcome,
                why,
                next_step,
            },
        )
    }

    fn end_unstarted(&mut self, now: Duration, verdict: Verdict) -> Vec<PairEffect> {
        let note = PairEffect::Note(format!("{}: {}", verdict.outcome, verdict.why));
        self.bad_since = Some(now);
        self.verdict = Some(verdict);
        self.gone = [true; 2];
        self.stage = PairStage::Over;
        vec![note]
    }

    /// Ends the pair without starting its workers, because the agent of one end was lost before.
    pub(super) fn never_started(
        &mut self,
        end: End,
        loss: &AgentLoss,
        now: Duration,
        state: &RunState,
    ) -> Vec<PairEffect> {
        let verdict = self.of_loss(end, loss, state);
        self.end_unstarted(now, verdict)
    }

    pub(super) fn id(&self) -> PairId {
        self.setup.id
    }

    /// Its nodes.
    pub(super) fn nodes(&self) -> [NodeId; 2] {
        self.setup.intro.nodes
    }

    /// The end that runs on `node`; `None` if the pair does not use the node.
    pub(super) fn end_of(&self, node: NodeId) -> Option<End> {
        End::ALL
            .into_iter()
            .find(|end| self.setup.intro.nodes[*end as usize] == node)
    }

    pub(super) fn stage(&self) -> PairStage {
        self.stage
    }

    /// Whether both workers have ended.
    pub(super) fn is_over(&self) -> bool {
        self.stage == PairStage::Over
    }

    /// Whether it has failed.
    pub(super) fn is_bad(&self) -> bool {
        self.bad_since.is_some()
    }

    /// Whether the worker of one end is still waited for.
    pub(super) fn awaits(&self, end: End) -> bool {
        !self.gone[end as usize]
    }

    /// Whether both workers have warmed up and wait for [`PairInput::Measure`].
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
        WorkerId::of_pair(self.setup.intro.nodes[end as usize], self.setup.id)
    }

    fn name(&self, end: End, state: &RunState) -> String {
        state.name(self.worker_id(end))
    }

    /// Handles one input and returns the effects in order. A pair that is over has none.
    pub(super) fn step(
        &mut self,
        now: Duration,
        input: &PairInput<'_>,
        state: &RunState,
    ) -> Vec<PairEffect> {
        let mut effects = Vec::new();
        if self.stage == PairStage::Over {
            return effects;
        }
        match input {
            PairInput::Event(end, kind) => self.event(*end, kind, now, state, &mut effects),
            PairInput::NoCpu(end, waited) => {
                let sum = &mut self.no_cpu[*end as usize];
                *sum = sum.saturating_add(*waited);
            }
            // A worker that was told to stop gets no other order.
            PairInput::Measure if self.is_stopping() => {}
            PairInput::AgentLost(end, loss) => {
                self.agent_lost(*end, loss, now, state, &mut effects);
            }
            PairInput::Measure => {
                effects.extend(End::ALL.map(|end| {
                    PairEffect::Tell(end, CoordinatorOrder::ToWorker(WorkerOrder::Measure))
                }));
            }
            PairInput::RunStops => self.stop(now, &mut effects),
            PairInput::LetGo(end) => self.gone[*end as usize] = true,
            PairInput::Tick(tick) => self.tick(*tick, now, state, &mut effects),
        }
        if self.gone == [true; 2] {
            self.stage = PairStage::Over;
        }
        // Drop orders for workers that have ended meanwhile.
        effects.retain(
            |effect| !matches!(effect, PairEffect::Tell(end, _) if self.gone[*end as usize]),
        );
        effects
    }

    fn event(
        &mut self,
        end: End,
        kind: &EventKind,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
    ) {
        match kind {
            EventKind::Sample(channels) => {
                let moves = self.standstill.sample(end, channels, now);
                // What moves because the workers were told to stop is no recovery.
                if moves && !self.is_stopping() {
                    self.recovered(effects);
                    effects.push(PairEffect::MovesAgain);
                }
                return;
            }
            EventKind::Stall(_) => return self.stalled(Some(end), now, state, effects),
            EventKind::Recovered => return self.recovered(effects),
            EventKind::Phase(_) => self.no_cpu[end as usize] = Duration::ZERO,
            EventKind::Listening(address) if !self.is_stopping() => {
                effects.push(PairEffect::Tell(
                    end.other(),
                    CoordinatorOrder::ToWorker(WorkerOrder::PeerListens(*address)),
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
        // Any other message of a worker counts as progress.
        let is_said = !matches!(
            kind,
            EventKind::PluginLine(_) | EventKind::Output { .. } | EventKind::Frame(_)
        );
        if is_said && self.standstill.moved(now) && !self.is_stopping() {
            self.recovered(effects);
            effects.push(PairEffect::MovesAgain);
        }
    }

    fn failed(
        &mut self,
        end: End,
        failure: &Failure,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
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
        // The other end may know of it from the bootstrap; stop it in any case.
        self.stop(now, effects);
    }

    /// The host name of an end's node, or its display name if unknown.
    fn host(&self, end: End, state: &RunState) -> String {
        let node = self.setup.intro.nodes[end as usize];
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
        effects: &mut Vec<PairEffect>,
    ) {
        self.gone[end as usize] = true;
        let worker = self.worker(end, state);
        let has_said_why =
            worker.is_some_and(|worker| worker.is_finished() || worker.failure.is_some());
        if !has_said_why && !exit.killed {
            let why = death_words(&self.name(end, state), exit, worker);
            let next_step = after_death(exit, worker);
            self.decide(Outcome::PluginDied, why, next_step, now, effects);
        }
    }

    fn agent_lost(
        &mut self,
        end: End,
        loss: &AgentLoss,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
    ) {
        if self.gone[end as usize] {
            return;
        }
        // A stall that began after its last message was caused by its loss.
        let since_ms = now.saturating_sub(loss.silence() + HEARTBEAT).as_secs_f64() * 1e3;
        self.stall
            .take_if(|stall| !stall.recovered && stall.at_ms >= since_ms);
        self.gone[end as usize] = true;
        let Verdict {
            outcome,
            why,
            next_step,
        } = self.of_loss(end, loss, state);
        self.decide(outcome, why, next_step, now, effects);
    }

    /// The verdict on the loss of the agent of one end.
    fn of_loss(&self, end: End, loss: &AgentLoss, state: &RunState) -> Verdict {
        let node = self.setup.intro.nodes[end as usize];
        let address = state
            .names
            .nodes
            .get(node.index())
            .map_or("", |node| node.address.as_str());
        loss.verdict(&state.names.node(node), address)
    }

    fn tick(
        &mut self,
        tick: PairTick,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
    ) {
        if tick.overslept || tick.agent_silent {
            self.standstill.overslept(now);
        }
        if tick.agent_silent {
            if self.agent_silence == AgentSilence::No {
                self.agent_silence = AgentSilence::Yes;
            }
            if let PairStage::Stalled { give_up_at } = &mut self.stage {
                *give_up_at = (*give_up_at).max(now + HEARTBEAT);
            }
        } else if let AgentSilence::Stalled(by) =
            std::mem::replace(&mut self.agent_silence, AgentSilence::No)
        {
            let end = by.and_then(|node| self.end_of(node));
            self.stalled(end, now, state, effects);
        }
        self.check(tick.interrupted, now, state, effects);
    }

    fn is_stopping(&self) -> bool {
        matches!(self.stage, PairStage::Stopping { .. })
    }

    /// Checks the deadlines of the pair and decides by the first that has passed. Nothing is
    /// checked after a stop order, because its consequences would hide its cause.
    fn check(
        &mut self,
        interrupted: bool,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
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
        if let PairStage::Stalled { give_up_at } = self.stage
            && now >= give_up_at
        {
            let next = "compare the channels of both ends: which has posted, and which is not done";
            let why = self.stall_words(now, state);
            return self.decide(Outcome::Stalled, why, Some(next.into()), now, effects);
        }
        if matches!(self.stage, PairStage::Stalled { .. }) && now >= self.freeze_at {
            // A stall that crawls shows more in a later frame than in the first.
            self.freeze(now, effects);
        }
        if now.saturating_sub(self.launched) > Duration::from(total) {
            let why = format!("not finished within limits.total ({total})");
            return self.decide(Outcome::Failed, why, None, now, effects);
        }
        for end in End::ALL {
            self.check_phase(end, now, state, effects);
        }
        let moves = |phase: &Phase| matches!(phase, Phase::WarmUp | Phase::Measuring);
        let should_move = self.stage == PairStage::Running && self.phases(state).iter().all(moves);
        if should_move && self.standstill.begins(now) {
            effects.push(PairEffect::StandsStill);
            self.stalled(None, now, state, effects);
        }
    }

    /// Checks the deadline of a worker's phase, which the worker itself cannot do while a plugin
    /// call does not return. Time without a CPU is not the plugin's; `limits.total` ends a run on
    /// a machine that gives it none.
    fn check_phase(
        &mut self,
        end: End,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
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
            .node(self.setup.intro.nodes[end as usize])
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
            && spent.saturating_sub(self.no_cpu[end as usize]) > most
        {
            let (name, spent) = (self.name(end, state), spent.as_secs_f64());
            let what = match phase {
                Phase::Starting => format!("the worker of {name} has not started"),
                _ => format!("the plugin of {name} hangs while {phase}"),
            };
            let why = format!("{what}, for {spent:.1} s ({limit})");
            self.decide(
                outcome,
                why,
                Some(format!("look at its log lines, or raise {limit}")),
                now,
                effects,
            );
        }
    }

    /// Records an outcome, unless an earlier one stands, and stops both ends.
    fn decide(
        &mut self,
        outcome: Outcome,
        why: String,
        next_step: Option<String>,
        now: Duration,
        effects: &mut Vec<PairEffect>,
    ) {
        self.bad_since.get_or_insert(now);
        // A lost agent explains only failures that the other end can cause. A worker that died
        // may be the cause of any failure that arrived before.
        let comes_after = self.failures.iter().any(|(_, failure)| !failure.follows)
            && outcome != Outcome::PluginDied;
        if self.verdict.is_none() && !comes_after {
            effects.push(PairEffect::Note(format!("{outcome}: {why}")));
            self.verdict = Some(Verdict {
                outcome,
                why,
                next_step,
            });
        }
        // Take freeze-frames of what takes too long, before it is stopped.
        let is_too_long = matches!(outcome, Outcome::Stalled | Outcome::Failed);
        if is_too_long && !self.is_stopping() {
            self.freeze(now, effects);
        }
        self.stop(now, effects);
    }

    fn stop(&mut self, now: Duration, effects: &mut Vec<PairEffect>) {
        if !self.is_stopping() {
            self.stage = PairStage::Stopping { since: now };
            let grace_ms = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX);
            effects.extend(
                End::ALL.map(|end| PairEffect::Tell(end, CoordinatorOrder::Stop { grace_ms })),
            );
        }
    }

    fn stalled(
        &mut self,
        end: Option<End>,
        now: Duration,
        state: &RunState,
        effects: &mut Vec<PairEffect>,
    ) {
        let by = end.map(|end| self.setup.intro.nodes[end as usize]);
        if self.agent_silence != AgentSilence::No {
            self.agent_silence = AgentSilence::Stalled(by);
            return;
        }
        // A stall after the stop order is expected.
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
        if self.stage == PairStage::Running {
            let patience = Duration::from(self.setup.scenario.limits.give_up_after);
            self.stage = PairStage::Stalled {
                give_up_at: now + patience,
            };
            let seen_by = self.seen_by(state);
            effects.push(PairEffect::Note(format!(
                "stall declared by {seen_by}; giving up in {patience:?} unless it moves"
            )));
            effects.extend(End::ALL.map(|end| PairEffect::Tell(end, CoordinatorOrder::Snapshot)));
            self.freeze(now, effects);
        }
    }

    /// Takes freeze-frames, and sets when the next are due.
    fn freeze(&mut self, now: Duration, effects: &mut Vec<PairEffect>) {
        let patience = Duration::from(self.setup.scenario.limits.give_up_after);
        self.freeze_at = now + (patience / FRAMES).max(FREEZE_EVERY_MIN);
        effects.extend(End::ALL.map(|end| PairEffect::Tell(end, CoordinatorOrder::Freeze)));
    }

    fn recovered(&mut self, effects: &mut Vec<PairEffect>) {
        // Progress after the stop order is not a recovery.
        if !matches!(self.stage, PairStage::Running | PairStage::Stalled { .. }) {
            return;
        }
        self.stage = PairStage::Running;
        if self.agent_silence != AgentSilence::No {
            self.agent_silence = AgentSilence::Yes;
        }
        if let Some(stall) = &mut self.stall {
            stall.recovered = true;
        }
        effects.push(PairEffect::Note("the stalled channels move again".into()));
    }

    /// The name of the worker whose agent declared the stall, or `the coordinator`.
    fn seen_by(&self, state: &RunState) -> String {
        let end = self
            .stall
            .and_then(|stall| stall.by)
            .and_then(|node| self.end_of(node));
        end.map_or("the coordinator".to_owned(), |end| self.name(end, state))
    }

    /// The stalled channels of the end that declared the stall; of both ends if the coordinator
    /// did.
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

    /// The newest counters of both ends, with the time since they arrived added to `quiet_ms`:
    /// the last counters of a silent worker look healthy.
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

    /// The result of the pair.
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
            // A pair that passed has recovered, whether or not a sample shows it.
            stall.recovered = true;
        }
        let (outcome, reason, next_step) = match verdict {
            Some(verdict) => (verdict.outcome, Some(verdict.why), verdict.next_step),
            None => (Outcome::Passed, None, None),
        };
        PairOutcome {
            id: self.setup.id,
            nodes: self.setup.intro.nodes,
            lanes: self.setup.intro.lanes,
            rail: self.setup.intro.rail,
            round: self.setup.intro.round,
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
