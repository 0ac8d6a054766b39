//! Runs a scenario: starts the agents, feeds their messages and the time to the state machine in
//! `run`, and carries out its effects.
#![forbid(unsafe_code)]

use super::assign::{self, AssignError, RailChoice};
use super::conclude::rates;
use super::differences::{self, NodeTraits};
use super::launch::{Agent, AgentEvent, Greeting, LaunchError, ReceivedMessage};
use super::launcher_lines;
use super::pair::{Absence, Pair, PairEffect, PairOutcome, PairSetup};
use super::require;
use super::run::{Now, OnFailure, Run, RunEffect, RunInput};
use crate::process::tree::is_stopped;
use crate::protocol::limits::{OVERSLEPT, looks_per_sample};
use crate::protocol::message::{NO_RECORDER, Work};
use crate::reach::Transport;
use crate::reach::child::Local;
use crate::stream::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tcpx_bootstrap::Secret;
use tcpx_node::{Host, Root, waited_so_far};
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind, PluginReady};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{
    Lane, NodeId, NodeIntro, PairId, PairIntro, Who, WorkerId, mesh_names, shown_names,
};
use tcpx_run_model::record::{MeshCell, node_groups};
use tcpx_run_model::scenario::{Rails, Scenario};
use tcpx_run_model::state::{RunState, WorkerState};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// A run to carry out.
pub struct RunRequest<'a> {
    /// The resolved scenario.
    pub scenario: &'a Scenario,
    /// What each pair does once connected.
    pub work: Work,
    /// Name of the run folder.
    pub run_id: &'a str,
    /// Set by a signal handler: stop the run.
    pub interrupted: &'a Arc<AtomicBool>,
    /// How to reach each node.
    pub transports: &'a [Box<dyn Transport>],
    /// The pairs of nodes that transfer, by rounds: indices into `transports`, two different ones
    /// each.
    pub rounds: &'a [Vec<[usize; 2]>],
    /// What the failure of a pair means for the others.
    pub on_failure: OnFailure,
    /// Most nodes that may be missing: the run goes on without them.
    pub missing_max: usize,
    /// Which pairs of nodes to measure once more, by rounds, after these rates.
    pub retest: Option<&'a Retest<'a>>,
    /// The group of nodes by name or address; empty to take what the nodes' cloud says.
    pub topology: &'a BTreeMap<String, String>,
    /// Port that the first listening worker uses, the next one for the next pair and so on; 0
    /// for any free port.
    pub bootstrap_port: u16,
    /// Whether each worker makes the critical checks of its node first.
    pub preflight: bool,
    /// The channel that a live view shows in detail.
    pub focused: Option<&'a FocusedChannel>,
}

/// The rounds that measure again what the rates of a mesh make suspect, with the group of each node.
pub type Retest<'a> = dyn Fn(&[MeshCell], &[Option<String>]) -> Vec<Vec<[usize; 2]>> + Sync + 'a;

/// The first node with the second, once: the rounds of every run of two nodes.
pub fn one_pair() -> Vec<Vec<[usize; 2]>> {
    vec![vec![[0, 1]]]
}

/// The pairs that transfer at the same time.
type RoundPlan = Vec<assign::PairPlan>;

/// The channel that a live view shows in detail, and its recorder file: written by the view, read
/// by the coordinator a few times a second.
pub type FocusedChannel = Mutex<Option<(ChannelKey, PathBuf)>>;

/// Result of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The final state.
    pub state: RunState,
    /// Results of its pairs; at least one.
    pub pairs: Vec<PairOutcome>,
    /// The nodes whose agents did not start, each with the reason.
    pub missing: Vec<(NodeId, String)>,
    /// The rounds that were not started, because the time was up or the run interrupted.
    pub left_out: LeftOut,
    /// The first pair that measured again what was suspect.
    pub first_retest: Option<PairId>,
    /// The group of each node; empty if none is known.
    pub groups: Vec<Option<String>>,
    /// What differs between the nodes of a mesh, one sentence each.
    pub differences: Vec<String>,
    /// What the program that started the agents of a mesh printed, its first lines.
    pub launcher_said: Vec<String>,
}

/// Rounds of a mesh that were not started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of rounds.
    pub rounds: usize,
    /// Their pairs.
    pub pairs: usize,
}

impl RunOutcome {
    /// The workers that had no recorder, each with the reason, one sentence each.
    pub fn unrecorded(&self) -> Vec<String> {
        let why = |worker: &WorkerState| match recorder(worker)? {
            Ok(_) => None,
            Err(why) => Some(format!("{} has {why}", self.state.names.worker(worker.id))),
        };
        self.state.workers.values().filter_map(why).collect()
    }

    /// The pair that decides the outcome of the run: the first that failed.
    ///
    /// # Panics
    /// If there is no pair, which [`run`] never returns.
    pub fn decisive(&self) -> &PairOutcome {
        let bad = self
            .pairs
            .iter()
            .filter(|pair| pair.outcome != Outcome::Passed);
        bad.min_by_key(|pair| pair.bad_since)
            .unwrap_or(&self.pairs[0])
    }

    fn without_agents(
        state: RunState,
        error: &LaunchError,
        missing: Vec<(NodeId, String)>,
    ) -> Self {
        let others = match missing.len() {
            0 | 1 => String::new(),
            2 => "; another node is missing too".to_owned(),
            count => format!("; {} other nodes are missing too", count - 1),
        };
        let pair = PairOutcome {
            id: PairId(0),
            nodes: [NodeId(0), NodeId(1)],
            lanes: vec![Lane::Host],
            rail: None,
            round: None,
            bad_since: None,
            outcome: error.outcome(),
            reason: Some(format!("{error}{others}")),
            next_step: error.next_step(),
            stall: None,
            warnings: Vec::new(),
            env: Default::default(),
        };
        Self {
            state,
            pairs: vec![pair],
            missing,
            left_out: LeftOut::default(),
            first_retest: None,
            groups: Vec::new(),
            differences: Vec::new(),
            launcher_said: Vec::new(),
        }
    }
}

/// Most messages handled between two checks of the deadlines.
const EVENTS_MAX: usize = 10_000;
const TICK: Duration = Duration::from_millis(200);
/// How long a launcher may take to say why agents have ended: on a busy node srun needs more than a second.
const LAUNCHER_EXPLAINS_MAX: Duration = Duration::from_secs(5);
/// The same where the user has ended the run, which explains more, and waits.
const LAUNCHER_EXPLAINS_INTERRUPTED_MAX: Duration = Duration::from_secs(1);
/// After its last line and so long a pause, it has said all.
const LAUNCHER_QUIET: Duration = Duration::from_millis(200);
const LAUNCHER_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs all pairs. `observe` is called with every event in order, and with the state after it.
pub fn run(request: &RunRequest<'_>, observe: &mut dyn FnMut(&Event, &RunState)) -> RunOutcome {
    let (to_events, events) = mpsc::channel();
    let started = Instant::now();
    let mut state = RunState::of_scenario(request.scenario);
    let mut tell = |state: &mut RunState, kind: EventKind, who: Who| {
        let event = Event::new(started.elapsed().as_secs_f64() * 1e3, who, kind);
        state.apply(&event);
        observe(&event, state);
    };
    tell(
        &mut state,
        EventKind::Nodes(introductions(request)),
        Who::Run,
    );
    let mut upload = |to: &str, sent, all| {
        tell(
            &mut state,
            EventKind::Upload {
                to: to.to_owned(),
                sent,
                all,
            },
            Who::Run,
        );
    };
    let started_or_not = Agent::start_all(
        request.transports,
        &request.scenario.plugin,
        &to_events,
        request.interrupted,
        &mut upload,
    );
    drop(to_events);
    let why = |(node, agent): (NodeId, &Result<Agent, LaunchError>)| {
        Some((node, agent.as_ref().err()?.to_string()))
    };
    let mut missing: Vec<_> = (0..)
        .map(NodeId)
        .zip(&started_or_not)
        .filter_map(why)
        .collect();
    let mut agents = Vec::new();
    let mut first_error = None;
    for agent in started_or_not {
        agents.push(agent.map_err(|error| first_error.get_or_insert(error)).ok());
    }
    let too_few = agents.iter().flatten().count() < 2;
    if let Some(error) = first_error
        && (missing.len() > request.missing_max || too_few)
    {
        return RunOutcome::without_agents(state, &error, missing);
    }
    if request.scenario.mesh.is_some() {
        missing.extend(leave_doubles(request.transports, &mut agents));
    }
    for (node, why) in &missing {
        let note = EventKind::Note(format!("the run goes on without this node: {why}"));
        tell(&mut state, note, Who::Node(*node));
    }
    for (node, agent) in (0..).map(NodeId).zip(&agents) {
        let Some(agent) = agent else { continue };
        let greeting = &agent.greeting;
        let (version, pid, facts) = (
            greeting.version.clone(),
            greeting.pid,
            greeting.facts.clone(),
        );
        tell(
            &mut state,
            EventKind::Agent {
                version,
                pid,
                facts,
            },
            Who::Node(node),
        );
    }
    let now = Now {
        elapsed: started.elapsed(),
        us: now_us(),
    };
    let is_there: Vec<bool> = agents.iter().map(Option::is_some).collect();
    let run = Run::new(state, &is_there, request.on_failure, now);
    let mut drive = Drive {
        request,
        observe,
        agents,
        missing,
        run,
        rounds: VecDeque::new(),
        launched: 0,
        started_rounds: 0,
        first_retest: None,
        first_round_at: now.elapsed,
        started,
        stepped: Duration::ZERO,
        waited: waited_so_far(&Root::live()),
        launcher_lines: 0,
        explained_at: None,
    };
    drive.plan();
    drive.stepped = drive.now().elapsed;
    while drive.launch() || drive.retest() {
        drive.watch(&events);
    }
    drive.conclude()
}

/// Ends the agents of machines that an earlier node of the list is already, and returns these nodes.
fn leave_doubles(
    transports: &[Box<dyn Transport>],
    agents: &mut [Option<Agent>],
) -> Vec<(NodeId, String)> {
    let hosts: Vec<Option<&Host>> = agents
        .iter()
        .map(|agent| agent.as_ref().map(|agent| &agent.greeting.facts.host))
        .collect();
    let mut left = Vec::new();
    for (double, first) in differences::doubles(&hosts) {
        let host = hosts[double].and_then(|host| host.name.known());
        let host = host.map_or(String::new(), |name| format!(" (host name {name})"));
        left.push((
            NodeId(u32::try_from(double).unwrap_or(u32::MAX)),
            format!(
                "{}: it is the same machine as {}{host}, which takes part once",
                transports[double].node(),
                transports[first].node()
            ),
        ));
    }
    // Dropping an agent ends it.
    left.iter()
        .for_each(|(node, _)| agents[node.index()] = None);
    left
}

fn introductions(request: &RunRequest<'_>) -> Vec<NodeIntro> {
    let addresses: Vec<&str> = request
        .transports
        .iter()
        .map(|transport| transport.node())
        .collect();
    let intro = |(name, address): (String, &&str)| NodeIntro {
        name,
        address: (*address).to_owned(),
    };
    let names = match request.scenario.mesh {
        Some(_) => mesh_names(&addresses),
        None => shown_names(&addresses),
    };
    names.into_iter().zip(&addresses).map(intro).collect()
}

struct Drive<'a> {
    request: &'a RunRequest<'a>,
    observe: &'a mut dyn FnMut(&Event, &RunState),
    /// By node; `None` for a missing one.
    agents: Vec<Option<Agent>>,
    missing: Vec<(NodeId, String)>,
    run: Run,
    /// The rounds that are not started yet.
    rounds: VecDeque<RoundPlan>,
    /// Number of pairs of the rounds that were.
    launched: u32,
    started_rounds: u32,
    /// The first pair of the retests, once they are planned.
    first_retest: Option<PairId>,
    /// When the first round started.
    first_round_at: Duration,
    started: Instant,
    /// Time of the last step.
    stepped: Duration,
    /// How long this thread had waited for a CPU at the last tick.
    waited: Duration,
    /// Lines of the launcher that are events already.
    launcher_lines: usize,
    /// When it printed its last line after an agent had ended.
    explained_at: Option<Instant>,
}

impl Drive<'_> {
    fn now(&self) -> Now {
        Now {
            elapsed: self.started.elapsed(),
            us: now_us(),
        }
    }

    /// Plans every round and tells the pairs of all. A run that cannot be planned is refused.
    fn plan(&mut self) {
        let now = self.now();
        match self.plans(self.request.rounds) {
            Ok(rounds) => self.introduce(rounds, now),
            Err(refusal) => self.refuse(refusal, now),
        }
    }

    /// Tells the pairs of further rounds.
    fn introduce(&mut self, mut rounds: Vec<RoundPlan>, now: Now) {
        if self.request.scenario.mesh.is_some() {
            for (number, round) in (self.started_rounds..).zip(&mut rounds) {
                let plans = round.iter_mut();
                plans.for_each(|plan| plan.intro.round = Some(number));
            }
        }
        let mut pairs = self.run.state().names.pairs.clone();
        pairs.truncate(self.launched as usize);
        pairs.extend(rounds.iter().flatten().map(|plan| plan.intro.clone()));
        self.rounds = rounds.into();
        let effects = self.run.introduce(pairs, now);
        self.carry_out(effects);
    }

    /// Starts to measure what is suspect once more. Returns whether there is anything.
    fn retest(&mut self) -> bool {
        let Some(retest) = self.request.retest.filter(|_| self.first_retest.is_none()) else {
            return false;
        };
        // What was left out is no longer suspect or not.
        if !self.rounds.is_empty() || self.request.interrupted.load(Ordering::Relaxed) {
            return false;
        }
        let now = self.now();
        let outcomes = self.run.outcomes();
        let rates = rates(self.request.scenario, &outcomes, self.run.state());
        let rounds = retest(&rates, &groups(self.request, self.run.state()));
        self.first_retest = Some(PairId(self.launched));
        match self.plans(&rounds) {
            Ok(rounds) => self.introduce(rounds, now),
            // No node is left that has the rail: nothing can be measured again.
            Err(_) => return false,
        }
        self.launch()
    }

    fn refuse(&mut self, refusal: AssignError, now: Now) {
        let intro = PairIntro::new([NodeId(0), NodeId(1)], vec![Lane::Host]);
        let mut pair = self.pair(PairId(self.launched), intro.clone(), now);
        let first = pair.refuse(now.elapsed, refusal.why, refusal.next_step);
        self.rounds.clear();
        let mut effects = match self.launched {
            0 => self.run.introduce(vec![intro], now),
            _ => Vec::new(),
        };
        effects.extend(self.run.add(vec![(pair, first)], now));
        self.carry_out(effects);
    }

    /// Starts the next round. Returns whether there was one.
    fn launch(&mut self) -> bool {
        let now = self.now();
        if self.launched > 0 && self.request.interrupted.load(Ordering::Relaxed) {
            return false;
        }
        if self.is_time_up(now) {
            return false;
        }
        let Some(round) = self.rounds.pop_front() else {
            return false;
        };
        self.started_rounds += 1;
        match self.pairs(round, now) {
            Ok(pairs) => {
                self.launched += u32::try_from(pairs.len()).unwrap_or(u32::MAX);
                let effects = self.run.add(pairs, now);
                self.carry_out(effects);
            }
            Err(refusal) => self.refuse(refusal, now),
        }
        true
    }

    /// Whether the budget has no time for another round as long as the last ones on average.
    fn is_time_up(&self, now: Now) -> bool {
        let mesh = self.request.scenario.mesh.as_ref();
        let Some(budget) = mesh.and_then(|mesh| mesh.budget) else {
            return false;
        };
        let so_far = now.elapsed.saturating_sub(self.first_round_at);
        let average = so_far / self.started_rounds.max(1);
        self.started_rounds > 0 && now.elapsed + average > Duration::from(budget)
    }

    fn pair(&self, id: PairId, intro: PairIntro, now: Now) -> Pair {
        let request = self.request;
        let is_here = |node: NodeId| {
            request
                .transports
                .get(node.index())
                .is_some_and(|transport| transport.node() == Local.node())
        };
        let setup = PairSetup {
            id,
            is_here: intro.nodes.map(is_here),
            intro,
            scenario: request.scenario.clone(),
            work: request.work.clone(),
            run_id: request.run_id.to_owned(),
            preflight: request.preflight,
            looks_per_sample: looks_per_sample(request.transports.len()),
        };
        Pair::new(setup, now.elapsed)
    }

    /// Every pair of a round with the effects that start it.
    fn pairs(
        &self,
        round: RoundPlan,
        now: Now,
    ) -> Result<Vec<(Pair, Vec<PairEffect>)>, AssignError> {
        let together = round.len() > 1 && self.request.work == Work::Transfer;
        let names = &self.run.state().names;
        let mut pairs = Vec::new();
        for (id, plan) in (self.launched..).map(PairId).zip(round) {
            let nodes = plan.intro.nodes;
            let mut pair = self.pair(id, plan.intro, now);
            let secret = Secret::generate().map_err(|error| AssignError {
                why: format!("cannot generate the run's secret: {error}"),
                next_step: None,
            })?;
            let workers = nodes.map(|node| names.worker(WorkerId::of_pair(node, id)));
            let effects = pair.launch(plan.ends, workers, &secret, together);
            pairs.push((pair, effects));
        }
        Ok(pairs)
    }

    /// The plan of every round, if the nodes have what the scenario requires.
    fn plans(&self, rounds_of_nodes: &[Vec<[usize; 2]>]) -> Result<Vec<RoundPlan>, AssignError> {
        let request = self.request;
        let known = &self.run.state().names;
        let greetings = greetings(&self.agents);
        let names: Vec<String> = known.nodes.iter().map(|node| node.name.clone()).collect();
        let nodes: Vec<_> = names
            .iter()
            .cloned()
            .zip(&greetings)
            .filter_map(|(name, greeting)| Some((name, &*greeting.as_ref()?.facts)))
            .collect();
        let ends_of = |node_pair: &[usize; 2]| {
            let [first, second] = node_pair.map(|at| Some((names[at].as_str(), greetings[at]?)));
            Some([first?, second?])
        };
        let is_one_machine = rounds_of_nodes
            .iter()
            .flatten()
            .filter_map(ends_of)
            .any(|ends| assign::is_one_machine(ends.map(|(_, greeting)| greeting)));
        if let Some(why) = require::missing(&request.scenario.requires, &nodes, is_one_machine) {
            return Err(AssignError {
                why,
                next_step: None,
            });
        }
        let rails = rails_of_nodes(request, &greetings, rounds_of_nodes);
        let choices: Vec<Option<RailChoice<'_>>> = match self.rails() {
            Rails::All => vec![None],
            Rails::Each => match rail_choices(&rails) {
                // Where no interface is known, the plugin chooses.
                choices if choices.is_empty() => vec![None],
                choices => choices.into_iter().map(Some).collect(),
            },
            Rails::List(nics) => named(nics).map(Some).collect(),
        };
        let mut rounds = Vec::new();
        for node_pairs in rounds_of_nodes {
            for choice in &choices {
                rounds.push(self.round(node_pairs, &ends_of, *choice)?);
            }
        }
        rounds.retain(|round| !round.is_empty());
        if rounds.is_empty() {
            return Err(AssignError {
                why: "no two of the nodes both have an interface of `mesh.rails`".to_owned(),
                next_step: Some("run `tcpxctl discover` on them for the names".to_owned()),
            });
        }
        let hosts: Vec<_> = greetings
            .iter()
            .map(|greeting| greeting.map(|greeting| &greeting.facts.host))
            .collect();
        for round in &mut rounds {
            assign::share_machines(round, &hosts);
        }
        Ok(rounds)
    }

    fn rails(&self) -> &Rails {
        let mesh = self.request.scenario.mesh.as_ref();
        mesh.map_or(&Rails::All, |mesh| &mesh.rails)
    }

    /// The plan of the pairs of these nodes, which transfer at the same time. Two nodes of which
    /// one is missing or lacks the rail have no pair.
    fn round<'g>(
        &self,
        node_pairs: &[[usize; 2]],
        ends_of: &impl Fn(&[usize; 2]) -> Option<[(&'g str, &'g Greeting); 2]>,
        choice: Option<RailChoice<'_>>,
    ) -> Result<RoundPlan, AssignError> {
        let request = self.request;
        let known = &self.run.state().names;
        let mut plans = Vec::new();
        for node_pair in node_pairs {
            let Some(ends) = ends_of(node_pair) else {
                continue;
            };
            let rail = choice.map(|choice| assign::rail(request.scenario, ends, choice));
            if rail == Some(None) {
                continue;
            }
            let nodes = node_pair.map(|at| NodeId(u32::try_from(at).unwrap_or(u32::MAX)));
            let rail = rail.flatten();
            for mut plan in assign::assign(request, nodes, ends, rail.as_ref(), plans.len())? {
                for (node, end) in nodes.into_iter().zip(&mut plan.ends) {
                    let subject = Subject::node(node, known);
                    end.warnings
                        .iter_mut()
                        .for_each(|warning| warning.subject = Some(subject.clone()));
                }
                plans.push(plan);
            }
        }
        Ok(plans)
    }

    fn watch(&mut self, events: &mpsc::Receiver<AgentEvent>) {
        let mut stream = Stream::new();
        while !self.run.is_round_over() {
            match events.recv_timeout(TICK) {
                Ok(event) => self.hear(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            // Handle every message that has arrived before checking deadlines.
            let more = events
                .try_iter()
                .take(EVENTS_MAX)
                .map(|event| self.hear(event))
                .count();
            stream.rest(more + 1);
            let focused = self.request.focused.map(|wanted| {
                wanted
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone()
            });
            let tick = RunInput::Tick {
                interrupted: self.request.interrupted.load(Ordering::Relaxed),
                focused: focused.flatten(),
                stopped: self.stopped_agents(),
            };
            self.step(tick);
            self.hear_launcher();
            self.waited = waited_so_far(&Root::live());
        }
    }

    /// Agents of this machine whose processes are stopped.
    fn stopped_agents(&self) -> Vec<(NodeId, u32)> {
        let nodes = self.agents.iter().zip(self.request.transports).zip(0..);
        nodes
            .filter(|((_, transport), _)| transport.node() == Local.node())
            .filter_map(|((agent, _), node)| Some((NodeId(node), agent.as_ref()?.greeting.pid)))
            .filter(|(_, pid)| is_stopped(*pid))
            .collect()
    }

    fn hear(&mut self, event: AgentEvent) {
        self.step(match event {
            AgentEvent::Message(ReceivedMessage {
                node,
                node_us,
                worker,
                message,
            }) => RunInput::AgentMessage {
                node,
                node_us,
                worker,
                message,
            },
            AgentEvent::Text(node, text) => RunInput::AgentText { node, text },
            AgentEvent::Gone(node) => RunInput::AgentGone(node),
        });
    }

    /// Makes events of the lines that the launcher has printed since.
    fn hear_launcher(&mut self) {
        let lines = self.launcher_said().unwrap_or_default();
        for line in lines.into_iter().skip(self.launcher_lines) {
            self.launcher_lines += 1;
            self.step(RunInput::LauncherSaid(line));
            if self.run.has_lost_agents() {
                self.explained_at = Some(Instant::now());
            }
        }
    }

    fn launcher_said(&self) -> Option<Vec<String>> {
        // All nodes have the same one.
        self.request.transports.first()?.launcher_said()
    }

    /// Waits for what a launcher says of the agents that it has ended: it says it after they are gone.
    fn hear_why_agents_ended(&mut self) {
        if !self.run.has_lost_agents() || self.launcher_said().is_none() {
            return;
        }
        let most = match self.request.interrupted.load(Ordering::Relaxed) {
            true => LAUNCHER_EXPLAINS_INTERRUPTED_MAX,
            false => LAUNCHER_EXPLAINS_MAX,
        };
        let until = Instant::now() + most;
        let has_said_all = |explained_at: Option<Instant>| {
            explained_at.is_some_and(|at| at.elapsed() >= LAUNCHER_QUIET)
        };
        while Instant::now() < until && !has_said_all(self.explained_at) {
            std::thread::sleep(LAUNCHER_LOOK_EVERY);
            self.hear_launcher();
        }
    }

    fn step(&mut self, input: RunInput) {
        let now = self.now();
        // There is a step in every turn of the loop.
        let slept = now.elapsed - std::mem::replace(&mut self.stepped, now.elapsed);
        if slept > OVERSLEPT {
            let absence = Absence {
                lasted: slept,
                waited: waited_so_far(&Root::live()).saturating_sub(self.waited),
            };
            // Known before what happened meanwhile is judged.
            let effects = self.run.step(now, RunInput::Slept(absence));
            self.carry_out(effects);
        }
        let effects = self.run.step(now, input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<RunEffect>) {
        for effect in effects {
            match effect {
                RunEffect::Tell(node, worker, order) => {
                    if let Some(agent) = &self.agents[node.index()] {
                        agent.tell(worker, &order);
                    }
                }
                RunEffect::Emit(event) => (self.observe)(&event, self.run.state()),
                RunEffect::LetGo { node, is_lost } => {
                    if let Some(agent) = &mut self.agents[node.index()] {
                        agent.finish(is_lost);
                    }
                }
            }
        }
    }

    fn conclude(mut self) -> RunOutcome {
        self.hear_launcher();
        self.hear_why_agents_ended();
        let launcher_said = launcher_lines::folded(&self.launcher_said().unwrap_or_default());
        // All are told before any is waited for: they end at the same time.
        self.agents.iter_mut().flatten().for_each(Agent::close);
        let agents = self.agents.iter_mut().flatten();
        agents.for_each(|agent| agent.finish(false));
        let left_out = LeftOut {
            rounds: self.rounds.len(),
            pairs: self.rounds.iter().map(Vec::len).sum(),
        };
        let (state, pairs) = self.run.conclude();
        let differences = differences(self.request, &self.agents, &state);
        let groups = groups(self.request, &state);
        let first_retest = self
            .first_retest
            .filter(|first| first.index() < pairs.len());
        RunOutcome {
            state,
            pairs,
            missing: self.missing,
            left_out,
            first_retest,
            groups,
            differences,
            launcher_said,
        }
    }
}

/// What differs between the nodes of a mesh, once all agents have ended.
fn differences(
    request: &RunRequest<'_>,
    agents: &[Option<Agent>],
    state: &RunState,
) -> Vec<String> {
    if request.scenario.mesh.is_none() {
        return Vec::new();
    }
    let greetings = greetings(agents);
    let rails = rails_of_nodes(request, &greetings, request.rounds);
    let of_node = |(place, greeting): (usize, &Option<&Greeting>)| {
        let greeting = (*greeting)?;
        let id = NodeId(u32::try_from(place).unwrap_or(u32::MAX));
        let workers = || state.workers.values().filter(|one| one.id.node == id);
        let plugin = workers().find_map(|worker| worker.plugin.as_ref());
        Some(NodeTraits {
            name: state.names.node(id),
            version: version_words(greeting),
            plugin: plugin.map(|ready| plugin_words(ready)),
            rails: rails.get(&place).cloned(),
            recorder: workers().find_map(recorder),
            clock: state.node(id).and_then(|node| node.clock),
        })
    };
    let nodes = greetings.iter().enumerate().filter_map(of_node);
    differences::sentences(&nodes.collect::<Vec<_>>())
}

/// Where the worker has its flight recorder, or the line that says why it has none.
fn recorder(worker: &WorkerState) -> Option<Result<PathBuf, String>> {
    let why = || {
        let mut lines = worker.lines().iter();
        let line = lines.find(|line| line.text.starts_with(NO_RECORDER))?;
        Some(Err(line.text.clone()))
    };
    worker.recorder.clone().map(Ok).or_else(why)
}

fn greetings(agents: &[Option<Agent>]) -> Vec<Option<&Greeting>> {
    let agents = agents.iter().map(Option::as_ref);
    agents.map(|agent| Some(&agent?.greeting)).collect()
}

/// The rails that are measured one by one, from the data interfaces of each node. An interface that
/// a node lacks is no reason to measure its others with interfaces of other names; where names
/// differ otherwise, the place in the list counts.
fn rail_choices(rails: &BTreeMap<usize, Vec<String>>) -> Vec<RailChoice<'_>> {
    // Of two lists of the same length, that of the first node.
    let Some(longest) = rails.values().rev().max_by_key(|nics| nics.len()) else {
        return Vec::new();
    };
    let is_part = |nics: &Vec<String>| nics.iter().all(|nic| longest.contains(nic));
    match rails.values().all(is_part) {
        true => named(longest).collect(),
        false => (0..longest.len()).map(RailChoice::Number).collect(),
    }
}

fn named(nics: &[String]) -> impl Iterator<Item = RailChoice<'_>> {
    let places = nics.iter().enumerate();
    places.map(|(place, nic)| RailChoice::Named(place, nic))
}

/// The data interfaces of each node that has a partner.
fn rails_of_nodes(
    request: &RunRequest<'_>,
    greetings: &[Option<&Greeting>],
    rounds: &[Vec<[usize; 2]>],
) -> BTreeMap<usize, Vec<String>> {
    let mut rails = BTreeMap::new();
    for pair in rounds.iter().flatten() {
        let [Some(first), Some(second)] = pair.map(|place| greetings[place]) else {
            continue;
        };
        if pair.iter().all(|place| rails.contains_key(place)) {
            continue;
        }
        let ends = [first, second].map(|greeting| ("", greeting));
        for (place, nics) in pair.iter().zip(assign::rails(request.scenario, ends)) {
            if let Some(nics) = nics {
                rails.entry(*place).or_insert(nics);
            }
        }
    }
    rails
}

/// The version, and the start of the build's id.
fn version_words(greeting: &Greeting) -> String {
    let build = greeting.build.as_deref().and_then(|id| id.get(..8));
    match build {
        Some(build) => format!("{} (build {build})", greeting.version),
        None => greeting.version.clone(),
    }
}

/// The plugin in the words in which two nodes may differ: its file and the start of its hash.
fn plugin_words(PluginReady { plugin, .. }: &PluginReady) -> String {
    let hash = plugin.sha256.get(..12).unwrap_or_default();
    format!("{} {hash}", plugin.path)
}

fn groups(request: &RunRequest<'_>, state: &RunState) -> Vec<Option<String>> {
    let facts = |node| state.node(node).and_then(|node| node.facts.as_deref());
    node_groups(&state.names, facts, request.topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_matched_by_name_where_a_node_lacks_some_and_else_by_place() {
        let check = |nodes: &[&[&str]], expected: &[RailChoice<'_>]| {
            let names = |nics: &&[&str]| nics.iter().map(|nic| (*nic).to_owned()).collect();
            let rails = nodes.iter().map(names).enumerate().collect();
            assert_eq!(rail_choices(&rails), expected);
        };
        let named = RailChoice::Named;
        check(
            &[&["eth1", "eth3"], &["eth1", "eth2", "eth3"]],
            &[named(0, "eth1"), named(1, "eth2"), named(2, "eth3")],
        );
        check(&[&["lo"], &["lo"]], &[named(0, "lo")]);
        let number = RailChoice::Number;
        check(&[&["eth1", "eth2"], &["ens5"]], &[number(0), number(1)]);
        check(&[], &[]);
    }
}
