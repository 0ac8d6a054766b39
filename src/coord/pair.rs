//! Two agents, two workers, one piece of work: from start to the last exit.
//!
//! Everything that happens is one stream of events in arrival order. The end
//! that listens is told first, its address goes to the other, and from then on
//! this loop only watches: a failure, a death, a stall, a lost agent or an
//! interrupt on one side stops the other side too, and the loop ends when both
//! workers are gone. Every step has a deadline.
#![forbid(unsafe_code)]

use super::agent::OVERSLEPT;
use super::assign::{EndPlan, Refusal, assign};
use super::deadline;
use super::event::{Event, What};
use super::launch::{Agent, End, Event as FromEnd, LaunchError};
use super::message::{
    ConnectionTimes, Exit, Failure, FromAgent, FromWorker, Held, Launch, Loaded, MrRow, PairTask, Phase, Task, ToAgent,
    ToWorker, TransferResult, Work,
};
use super::reach::Transport;
use super::require;
use super::standstill::Standstill;
use super::verdict::{Verdict, cause, death_words, stall_words, stuck_calls};
use crate::bootstrap::Secret;
use crate::error::{NextStep, Outcome};
use crate::node::NodeFacts;
use crate::plugin::{LogLine, LogSummary};
use crate::record::{ChannelNow, Clock, Finding};
use crate::scenario::Scenario;
use crate::units::now_utc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// What to do, and for whom.
pub struct PairRequest<'a> {
    /// Resolved.
    pub scenario: &'a Scenario,
    /// What the two do once connected.
    pub work: Work,
    /// Of this run.
    pub run_id: &'a str,
    /// Set by a signal.
    pub interrupted: &'a Arc<AtomicBool>,
    /// How to reach the nodes, local and peer.
    pub ways: &'a [Box<dyn Transport>; 2],
    /// Where the end that listens does; 0 is any.
    pub bootstrap_port: u16,
}

/// What one end came to.
#[derive(Debug, Default)]
pub struct EndRecord {
    /// Its node.
    pub facts: Option<Box<NodeFacts>>,
    /// What the user calls it.
    pub address: String,
    /// Its clock.
    pub clock: Option<Clock>,
    /// Environment its worker was given on top of the node's.
    pub env: std::collections::BTreeMap<String, String>,
    /// The plugin, once ready.
    pub loaded: Option<Box<Loaded>>,
    /// Where its worker is or was.
    pub phase: Phase,
    /// What the transfer came to.
    pub transfer: Option<Box<TransferResult>>,
    /// Handshakes, one list per repeat.
    pub handshakes: Vec<Vec<ConnectionTimes>>,
    /// What its process held before and after all handshakes.
    pub held: Option<(Held, Held)>,
    /// The registration sweep.
    pub mr: Option<Vec<MrRow>>,
    /// Why it could not go on.
    pub failure: Option<Failure>,
    /// How its worker ended.
    pub exit: Option<Exit>,
    /// Last counters.
    pub channels: Vec<ChannelNow>,
    /// The plugin's WARN lines, the newest at the end.
    pub warnings: Vec<LogLine>,
    /// What the worker printed, the newest at the end.
    pub printed: Vec<String>,
    /// Totals of the plugin's log.
    pub log: Option<LogSummary>,
    /// When it entered its phase.
    entered: Option<Instant>,
    finished: bool,
    gone: bool,
}

/// Channels of both ends when a stall was declared.
#[derive(Debug, Clone)]
pub struct Stall {
    /// Which end noticed first; `None` when only both together show it.
    pub end: Option<End>,
    /// Milliseconds since the command started.
    pub at_ms: f64,
    /// Counters of that end, or of both.
    pub channels: Vec<ChannelNow>,
    /// Whether it moved again.
    pub recovered: bool,
}

/// What the pair came to.
#[derive(Debug)]
pub struct PairOutcome {
    /// How it ended.
    pub outcome: Outcome,
    /// In one sentence, unless it passed.
    pub reason: Option<String>,
    /// What to do about it.
    pub next_step: Option<String>,
    /// Local and peer.
    pub ends: [EndRecord; 2],
    /// The first stall, if any.
    pub stall: Option<Stall>,
    /// What was legal, and seen before anything ran.
    pub warnings: Vec<Finding>,
}

const KEPT_LINES: usize = 50;
/// Events taken in between two looks at the deadlines.
const EVENTS_MAX: usize = 1000;
const TICK: Duration = Duration::from_millis(200);
/// For a worker to report and end after it was told to.
const GRACE: Duration = Duration::from_millis(1200);

/// Runs the pair; `observe` sees every event in order.
pub fn run_pair(request: &PairRequest<'_>, observe: &mut dyn FnMut(&Event)) -> PairOutcome {
    let (to_events, events) = mpsc::channel();
    let agents = match start_agents(request, &to_events, observe) {
        Ok(agents) => agents,
        Err(error) => return PairOutcome::without_agents(&error),
    };
    drop(to_events);
    let mut pair = Pair::new(request, agents, observe);
    pair.launch();
    pair.watch(&events);
    pair.conclude()
}

/// Both at once; what uploads take is told as it goes.
fn start_agents(
    request: &PairRequest<'_>,
    events: &mpsc::Sender<FromEnd>,
    observe: &mut dyn FnMut(&Event),
) -> Result<[Agent; 2], LaunchError> {
    let (to_progress, progress) = mpsc::channel();
    let wanted = &request.scenario.plugin;
    let start = |end: End, to_progress: mpsc::Sender<What>| {
        let way = &*request.ways[end as usize];
        let mut tell = |sent, all| {
            // Somebody listens until both have started.
            let _ = to_progress.send(What::Upload { to: way.node().to_owned(), sent, all });
        };
        Agent::start(end, way, wanted, events, &mut tell)
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let [local, peer] = End::ALL.map(|end| {
            let to_progress = to_progress.clone();
            let start = &start;
            scope.spawn(move || start(end, to_progress))
        });
        drop(to_progress);
        for what in progress {
            let ms = started.elapsed().as_secs_f64() * 1e3;
            observe(&Event { at: now_utc(), ms, node: "coordinator".into(), node_us: None, what });
        }
        let [local, peer] =
            [local, peer].map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok([local?, peer?])
    })
}

impl Stall {
    /// Who saw it: `the peer end`.
    pub fn seen_by(&self) -> String {
        self.end.map_or("the coordinator".to_owned(), |end| format!("the {} end", end.name()))
    }
}

impl PairOutcome {
    fn without_agents(error: &LaunchError) -> Self {
        Self {
            outcome: error.outcome(),
            reason: Some(error.to_string()),
            next_step: error.next_step(),
            ends: Default::default(),
            stall: None,
            warnings: Vec::new(),
        }
    }
}

struct Pair<'a> {
    request: &'a PairRequest<'a>,
    observe: &'a mut dyn FnMut(&Event),
    agents: [Agent; 2],
    ends: [EndRecord; 2],
    started: Instant,
    stall: Option<Stall>,
    warnings: Vec<Finding>,
    give_up_at: Option<Instant>,
    stopping: Option<Instant>,
    standstill: Standstill,
    verdict: Option<Verdict>,
    failures: Vec<(End, Failure)>,
}

impl<'a> Pair<'a> {
    fn new(request: &'a PairRequest<'a>, agents: [Agent; 2], observe: &'a mut dyn FnMut(&Event)) -> Self {
        let mut ends: [EndRecord; 2] = Default::default();
        for end in End::ALL {
            request.ways[end as usize].node().clone_into(&mut ends[end as usize].address);
        }
        for (end, agent) in ends.iter_mut().zip(&agents) {
            end.facts = Some(agent.greeting.facts.clone());
        }
        Self {
            request,
            observe,
            agents,
            ends,
            started: Instant::now(),
            stall: None,
            warnings: Vec::new(),
            give_up_at: None,
            stopping: None,
            standstill: Standstill::new(request.scenario, Instant::now()),
            verdict: None,
            failures: Vec::new(),
        }
    }

    fn note(&mut self, text: String) {
        self.emit("coordinator", None, What::Note(text));
    }

    fn emit(&mut self, node: &str, node_us: Option<u64>, what: What) {
        let ms = self.started.elapsed().as_secs_f64() * 1e3;
        (self.observe)(&Event { at: now_utc(), ms, node: node.to_owned(), node_us, what });
    }

    fn launch(&mut self) {
        let facts = [0, 1].map(|at| self.ends[at].facts.clone());
        if let Some(why) = require::missing(&self.request.scenario.requires, &facts) {
            return self.refuse(Refusal { why, next_step: None });
        }
        let no_numbers = |error| Refusal { why: format!("no random numbers: {error}"), next_step: None };
        let plans = assign(self.request.scenario, [&self.agents[0].greeting, &self.agents[1].greeting]);
        let (secret, plans) = match Secret::generate().map_err(no_numbers).and_then(|secret| Ok((secret, plans?))) {
            Ok(both) => both,
            Err(refusal) => return self.refuse(refusal),
        };
        for (end, plan) in End::ALL.into_iter().zip(plans) {
            let task = self.task(end, &plan, &secret);
            self.warnings.extend(plan.warnings);
            self.ends[end as usize].env.clone_from(&plan.env);
            let stall_after = Duration::from(self.request.scenario.limits.stall_after);
            let stall_after_ms = u64::try_from(stall_after.as_millis()).unwrap_or(u64::MAX);
            let launch = Launch { env: plan.env, task: Task::Pair(Box::new(task)), stall_after_ms };
            self.agents[end as usize].tell(&ToAgent::Launch(Box::new(launch)));
        }
    }

    /// Nothing is launched.
    fn refuse(&mut self, refusal: Refusal) {
        self.decide(Outcome::NotRun, refusal.why, refusal.next_step);
        for end in &mut self.ends {
            end.gone = true;
        }
    }

    fn task(&self, end: End, plan: &EndPlan, secret: &Secret) -> PairTask {
        PairTask {
            plugin: plan.plugin.clone(),
            run_id: self.request.run_id.to_owned(),
            scenario: self.request.scenario.clone(),
            sends: plan.sends,
            receives: plan.receives,
            node: end.name().to_owned(),
            listen: plan.listen,
            port: self.request.bootstrap_port,
            secret: secret.to_hex(),
            work: self.request.work.clone(),
        }
    }

    fn watch(&mut self, events: &mpsc::Receiver<FromEnd>) {
        let mut beat_at = Instant::now();
        while self.ends.iter().any(|end| !end.gone) {
            let began = Instant::now();
            match events.recv_timeout(TICK) {
                Ok(event) => self.hear(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            // All that has arrived counts before any deadline does.
            events.try_iter().take(EVENTS_MAX).for_each(|event| self.hear(event));
            let now = Instant::now();
            if now.duration_since(began) > OVERSLEPT {
                self.standstill.overslept(now);
            }
            if now >= beat_at {
                beat_at = now + super::agent::HEARTBEAT;
                self.agents.iter().for_each(Agent::beat);
            }
            self.check_deadlines(now);
        }
    }

    fn check_deadlines(&mut self, now: Instant) {
        for end in End::ALL {
            if !self.ends[end as usize].gone && self.agents[end as usize].is_lost() {
                self.decide(Outcome::PeerLost, format!("the agent of the {} end fell silent", end.name()), None);
                self.ends[end as usize].gone = true;
            }
        }
        match self.stopping {
            // What a stop brings about would only hide why it was asked for.
            None => self.check_progress(now),
            // An agent that does not answer a stop is ended with its stream.
            Some(at) if now.duration_since(at) > 3 * GRACE => {
                for (end, agent) in self.ends.iter_mut().zip(&mut self.agents).filter(|(end, _)| !end.gone) {
                    agent.finish();
                    end.gone = true;
                }
            }
            Some(_) => {}
        }
    }

    fn check_progress(&mut self, now: Instant) {
        if self.request.interrupted.load(Ordering::Relaxed) {
            self.decide(Outcome::Interrupted, "interrupted".into(), None);
        }
        for end in End::ALL {
            self.check_phase(end, now);
        }
        let moving = |end: &EndRecord| matches!(end.phase, Phase::WarmUp | Phase::Measuring);
        if self.ends.iter().all(moving) && self.standstill.begins(now) {
            let channels: Vec<_> = self.ends.iter().flat_map(|end| &end.channels).cloned().collect();
            self.stalled(None, &channels);
        }
        if self.give_up_at.is_some_and(|at| now >= at) {
            self.give_up_at = None;
            let next = "compare the channels of both ends: who has posted, and who is not done";
            self.decide(Outcome::Stalled, stall_words(self.stall.as_ref()), Some(next.into()));
        }
        let total = self.request.scenario.limits.total;
        if self.started.elapsed() > Duration::from(total) {
            self.decide(Outcome::Failed, format!("not finished within limits.total ({total})"), None);
        }
    }

    /// A worker that is inside a plugin call cannot keep its own deadlines.
    fn check_phase(&mut self, end: End, now: Instant) {
        let record = &self.ends[end as usize];
        let (phase, since) = (record.phase, record.entered.unwrap_or(self.started));
        if record.gone {
            return;
        }
        let of_node = |name: &str| record.facts.as_ref()?.environment.get(name);
        let variable = |name: &str| record.env.get(name).or_else(|| of_node(name)).cloned();
        let limits = &self.request.scenario.limits;
        let limit = deadline::of_phase(phase, limits, &self.request.work, variable);
        if let Some((most, name, outcome)) = limit
            && now.duration_since(since) > most
        {
            let spent = now.duration_since(since).as_secs_f64();
            let why = format!("the plugin of the {} end hangs while {phase}, since {spent:.1} s ({name})", end.name());
            self.decide(outcome, why, Some(format!("look at its log lines, or raise {name}")));
        }
    }

    /// The first decision stands; both ends are told to stop.
    fn decide(&mut self, outcome: Outcome, why: String, next_step: Option<String>) {
        if self.verdict.is_none() {
            self.note(format!("{outcome}: {why}"));
            self.verdict = Some(Verdict { outcome, why, next_step });
        }
        self.stop(GRACE);
    }

    fn stop(&mut self, grace: Duration) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            for agent in &self.agents {
                agent.tell(&ToAgent::Stop { grace_ms });
            }
        }
    }

    fn hear(&mut self, event: FromEnd) {
        match event {
            FromEnd::From(end, at, message) => {
                let agent = &mut self.agents[end as usize];
                agent.heard();
                if let FromAgent::Echo { us } = message {
                    agent.echoed(us, at);
                    self.ends[end as usize].clock = agent.clock;
                    return;
                }
                self.take(end, &message);
                if !matches!(message, FromAgent::Heartbeat) {
                    self.emit(end.name(), Some(at), What::Said(Box::new(message)));
                }
            }
            FromEnd::Noise(end, text) => self.keep_text(end, text),
            FromEnd::Gone(end) => {
                if !self.ends[end as usize].gone {
                    self.ends[end as usize].gone = true;
                    self.decide(Outcome::PeerLost, format!("the agent of the {} end is gone", end.name()), None);
                }
            }
        }
    }

    fn keep_text(&mut self, end: End, text: String) {
        let printed = &mut self.ends[end as usize].printed;
        if printed.len() == KEPT_LINES {
            printed.remove(0);
        }
        printed.push(text);
    }

    fn take(&mut self, end: End, message: &FromAgent) {
        let record = &mut self.ends[end as usize];
        match message {
            FromAgent::Worker(message) => self.take_worker(end, message),
            FromAgent::Sample(channels) => {
                record.channels.clone_from(channels);
                if self.standstill.sample(end, channels, Instant::now()) {
                    self.recovered();
                }
            }
            FromAgent::Stall(channels) => self.stalled(Some(end), channels),
            FromAgent::Recovered => self.recovered(),
            FromAgent::PluginLine(line) if line.level == tcpx_abi::level::WARN => {
                if record.warnings.len() == KEPT_LINES {
                    record.warnings.remove(0);
                }
                record.warnings.push(line.clone());
            }
            FromAgent::Output { stream, text } => self.keep_text(end, format!("{stream}: {text}")),
            FromAgent::Exited(exit) => self.exited(end, exit),
            FromAgent::Broken(why) => {
                record.gone = true;
                let why = format!("the agent of the {} end: {why}", end.name());
                self.decide(Outcome::NotRun, why, None);
            }
            FromAgent::PluginLine(_)
            | FromAgent::Hello { .. }
            | FromAgent::Chosen(_)
            | FromAgent::Echo { .. }
            | FromAgent::Heartbeat => {}
        }
    }

    fn take_worker(&mut self, end: End, message: &FromWorker) {
        if self.standstill.moved(Instant::now()) {
            self.recovered();
        }
        let record = &mut self.ends[end as usize];
        match message {
            FromWorker::Phase(phase) => {
                record.phase = *phase;
                record.entered = Some(Instant::now());
            }
            FromWorker::Loaded(loaded) => {
                record.loaded = Some(loaded.clone());
                if let Some(why) = require::unwanted(&self.request.scenario.requires, end, loaded) {
                    self.decide(Outcome::NotRun, why, None);
                }
            }
            FromWorker::Listening(address) => {
                self.agents[end.other() as usize].tell(&ToAgent::ToWorker(ToWorker::PeerListens(*address)));
            }
            FromWorker::Handshake(times) => record.handshakes.push(times.clone()),
            FromWorker::Held { before, after } => record.held = Some((*before, *after)),
            FromWorker::Mr(rows) => record.mr = Some(rows.clone()),
            FromWorker::Transfer(result) => record.transfer = Some(result.clone()),
            FromWorker::Failed(failure) => {
                record.failure = Some(failure.clone());
                self.failures.push((end, failure.clone()));
                // The other end has heard of it over the bootstrap, or will be stopped.
                self.stop(GRACE);
            }
            FromWorker::Finished(log) => {
                record.finished = true;
                record.log = Some(*log);
            }
            FromWorker::Recorder(_) | FromWorker::Iteration(_) | FromWorker::Contract(_) | FromWorker::Gpus(_) => {}
        }
    }

    fn stalled(&mut self, end: Option<End>, channels: &[ChannelNow]) {
        let at_ms = self.started.elapsed().as_secs_f64() * 1e3;
        let stall = Stall { end, at_ms, channels: channels.to_vec(), recovered: false };
        let seen_by = stall.seen_by();
        if self.stall.as_ref().is_none_or(|stall| stall.recovered) {
            self.stall = Some(stall);
        }
        if self.give_up_at.is_none() {
            let patience = Duration::from(self.request.scenario.limits.give_up_after);
            self.give_up_at = Some(Instant::now() + patience);
            self.note(format!("stall declared by {seen_by}; giving up in {patience:?} unless it moves"));
            for agent in &self.agents {
                agent.tell(&ToAgent::Snapshot);
            }
        }
    }

    fn recovered(&mut self) {
        // What moves once we stop it has not recovered.
        if self.stopping.is_some() {
            return;
        }
        self.give_up_at = None;
        if let Some(stall) = &mut self.stall {
            stall.recovered = true;
        }
        self.note("the stalled channels move again".into());
    }

    fn exited(&mut self, end: End, exit: &Exit) {
        let record = &mut self.ends[end as usize];
        record.gone = true;
        record.exit = Some(exit.clone());
        let explained = record.finished || exit.killed || record.failure.is_some();
        if !exit.channels.is_empty() {
            record.channels.clone_from(&exit.channels);
        }
        if !explained {
            let why = death_words(end, exit, record);
            let warned = !record.warnings.is_empty();
            self.decide(Outcome::PluginDied, why, warned.then(|| "its last WARN line is usually the cause".into()));
        }
    }

    fn conclude(mut self) -> PairOutcome {
        for agent in &mut self.agents {
            agent.finish();
        }
        let mut verdict = cause(self.verdict, &self.failures);
        if let Some(verdict) = &mut verdict
            && matches!(verdict.outcome, Outcome::Stalled | Outcome::NotRun)
        {
            stuck_calls(&self.ends).for_each(|call| verdict.why.push_str(&format!("; {call}")));
        }
        if let (Some(stall), None) = (&mut self.stall, &verdict) {
            // What passed has moved, whether or not anyone looked in between.
            stall.recovered = true;
        }
        let (outcome, reason, next_step) = match verdict {
            Some(verdict) => (verdict.outcome, Some(verdict.why), verdict.next_step),
            None => (Outcome::Passed, None, None),
        };
        PairOutcome { outcome, reason, next_step, ends: self.ends, stall: self.stall, warnings: self.warnings }
    }
}
