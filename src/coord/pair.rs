//! Two agents, two workers, one piece of work: from start to the last exit.
//!
//! Everything that happens is one stream of events in arrival order. The end
//! that listens is told first, its address goes to the other, and from then on
//! this loop only watches: a failure, a death, a stall, a lost agent or an
//! interrupt on one side stops the other side too, and the loop ends when both
//! workers are gone. Every step has a deadline.
#![forbid(unsafe_code)]

use super::assign::{EndPlan, assign};
use super::event::{Event, What};
use super::launch::{Agent, End, Event as FromEnd, LaunchError};
use super::message::{
    ConnectionTimes, Exit, Failure, FromAgent, FromWorker, Launch, Loaded, MrRow, PairTask, Phase, Task, ToAgent,
    ToWorker, TransferResult, Work,
};
use crate::bootstrap::Secret;
use crate::error::{NextStep, Outcome};
use crate::node::NodeFacts;
use crate::plugin::{LogLine, LogSummary};
use crate::record::{ChannelNow, Finding};
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
}

/// What one end came to.
#[derive(Debug, Default)]
pub struct EndRecord {
    /// Its node.
    pub facts: Option<Box<NodeFacts>>,
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
    finished: bool,
    gone: bool,
}

/// Channels of both ends when a stall was declared.
#[derive(Debug, Clone)]
pub struct Stall {
    /// Which end noticed first.
    pub end: End,
    /// Milliseconds since the command started.
    pub at_ms: f64,
    /// Counters of that end.
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
const TICK: Duration = Duration::from_millis(200);
/// For a worker to report and end after it was told to.
const GRACE: Duration = Duration::from_millis(1200);

/// Runs the pair on this machine; `observe` sees every event in order.
pub fn run_pair(request: &PairRequest<'_>, observe: &mut dyn FnMut(&Event)) -> Result<PairOutcome, LaunchError> {
    let (to_events, events) = mpsc::channel();
    let agents = [Agent::start_local(End::Local, &to_events)?, Agent::start_local(End::Peer, &to_events)?];
    drop(to_events);
    let mut pair = Pair::new(request, agents, observe);
    pair.launch();
    pair.watch(&events);
    Ok(pair.conclude())
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
    verdict: Option<(Outcome, String, Option<String>)>,
}

impl<'a> Pair<'a> {
    fn new(request: &'a PairRequest<'a>, agents: [Agent; 2], observe: &'a mut dyn FnMut(&Event)) -> Self {
        let mut ends: [EndRecord; 2] = Default::default();
        for (end, agent) in ends.iter_mut().zip(&agents) {
            end.facts.clone_from(&agent.facts);
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
            verdict: None,
        }
    }

    fn note(&mut self, text: String) {
        self.emit("coordinator", What::Note(text));
    }

    fn emit(&mut self, node: &str, what: What) {
        let ms = self.started.elapsed().as_secs_f64() * 1e3;
        (self.observe)(&Event { at: now_utc(), ms, node: node.to_owned(), what });
    }

    fn launch(&mut self) {
        let facts = [0, 1].map(|at| self.ends[at].facts.clone());
        let secret = Secret::generate().map_err(|error| (format!("no random numbers: {error}"), None));
        let plans = assign(self.request.scenario, &facts).map_err(|error| (error.to_string(), error.next_step()));
        let (secret, plans) = match secret.and_then(|secret| Ok((secret, plans?))) {
            Ok(both) => both,
            Err((why, next_step)) => {
                self.decide(Outcome::NotRun, why, next_step);
                for end in &mut self.ends {
                    end.gone = true;
                }
                return;
            }
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

    fn task(&self, end: End, plan: &EndPlan, secret: &Secret) -> PairTask {
        PairTask {
            plugin: plan.plugin.clone(),
            run_id: self.request.run_id.to_owned(),
            scenario: self.request.scenario.clone(),
            sends: plan.sends,
            receives: plan.receives,
            node: end.name().to_owned(),
            listen: plan.listen,
            port: 0,
            secret: secret.to_hex(),
            work: self.request.work.clone(),
        }
    }

    fn watch(&mut self, events: &mpsc::Receiver<FromEnd>) {
        let mut beat_at = Instant::now();
        while self.ends.iter().any(|end| !end.gone) {
            match events.recv_timeout(TICK) {
                Ok(event) => self.hear(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now >= beat_at {
                beat_at = now + super::agent::HEARTBEAT;
                for agent in &self.agents {
                    agent.tell(&ToAgent::Heartbeat);
                }
            }
            self.check_deadlines(now);
        }
    }

    fn check_deadlines(&mut self, now: Instant) {
        let limits = &self.request.scenario.limits;
        if self.request.interrupted.load(Ordering::Relaxed) {
            self.decide(Outcome::Interrupted, "interrupted".into(), None);
        }
        for end in End::ALL {
            if !self.ends[end as usize].gone && self.agents[end as usize].is_lost() {
                self.decide(Outcome::PeerLost, format!("the agent of the {} end fell silent", end.name()), None);
                self.ends[end as usize].gone = true;
            }
            let phase = self.ends[end as usize].phase;
            let loading = matches!(phase, Phase::Loading | Phase::Initialising);
            if loading && self.started.elapsed() > Duration::from(limits.connect) && self.stopping.is_none() {
                let why = format!(
                    "the plugin of the {} end hangs while {phase} (limits.connect is {})",
                    end.name(),
                    limits.connect
                );
                self.decide(Outcome::NotRun, why, Some("look at its log lines, or raise limits.connect".into()));
            }
        }
        if self.give_up_at.is_some_and(|at| now >= at) {
            self.give_up_at = None;
            let why = stall_words(self.stall.as_ref());
            self.decide(
                Outcome::Stalled,
                why,
                Some("see the channels of both ends below: who has posted, and who is not done".into()),
            );
        }
        if self.started.elapsed() > Duration::from(limits.total) {
            self.decide(Outcome::Failed, format!("not finished within limits.total ({})", limits.total), None);
        }
        // An agent that does not answer a stop is ended with its stream.
        if self.stopping.is_some_and(|at| now.duration_since(at) > 3 * GRACE) {
            for end in End::ALL {
                if !self.ends[end as usize].gone {
                    self.agents[end as usize].finish();
                }
            }
        }
    }

    /// The first decision stands; both ends are told to stop.
    fn decide(&mut self, outcome: Outcome, why: String, next_step: Option<String>) {
        if self.verdict.is_none() {
            self.note(format!("{outcome}: {why}"));
            self.verdict = Some((outcome, why, next_step));
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
            FromEnd::From(end, message) => {
                self.agents[end as usize].heard();
                self.take(end, &message);
                if !matches!(message, FromAgent::Heartbeat) {
                    self.emit(end.name(), What::Said(Box::new(message)));
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
            FromAgent::Sample(channels) => record.channels.clone_from(channels),
            FromAgent::Stall(channels) => self.stalled(end, channels),
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
            FromAgent::PluginLine(_) | FromAgent::Hello { .. } | FromAgent::Heartbeat => {}
        }
    }

    fn take_worker(&mut self, end: End, message: &FromWorker) {
        let record = &mut self.ends[end as usize];
        match message {
            FromWorker::Phase(phase) => record.phase = *phase,
            FromWorker::Loaded(loaded) => record.loaded = Some(loaded.clone()),
            FromWorker::Listening(address) => {
                self.agents[end.other() as usize].tell(&ToAgent::ToWorker(ToWorker::PeerListens(*address)));
            }
            FromWorker::Handshake(times) => record.handshakes.push(times.clone()),
            FromWorker::Mr(rows) => record.mr = Some(rows.clone()),
            FromWorker::Transfer(result) => record.transfer = Some(result.clone()),
            FromWorker::Failed(failure) => {
                record.failure = Some(failure.clone());
                // The other end has heard of it over the bootstrap, or will be stopped.
                self.stop(GRACE);
            }
            FromWorker::Finished(log) => {
                record.finished = true;
                record.log = Some(*log);
            }
            FromWorker::Recorder(_) | FromWorker::Iteration(_) | FromWorker::Contract(_) => {}
        }
    }

    fn stalled(&mut self, end: End, channels: &[ChannelNow]) {
        let at_ms = self.started.elapsed().as_secs_f64() * 1e3;
        if self.stall.as_ref().is_none_or(|stall| stall.recovered) {
            self.stall = Some(Stall { end, at_ms, channels: channels.to_vec(), recovered: false });
        }
        if self.give_up_at.is_none() {
            let patience = Duration::from(self.request.scenario.limits.give_up_after);
            self.give_up_at = Some(Instant::now() + patience);
            self.note(format!("stall declared by the {} end; giving up in {patience:?} unless it moves", end.name()));
            self.agents[end.other() as usize].tell(&ToAgent::Snapshot);
        }
    }

    fn recovered(&mut self) {
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
        if !exit.channels.is_empty() {
            record.channels.clone_from(&exit.channels);
        }
        if !record.finished && !exit.asked {
            let why = death_words(end, exit, record);
            self.decide(Outcome::PluginDied, why, Some("its last WARN line is usually the cause".into()));
        }
    }

    fn conclude(mut self) -> PairOutcome {
        for agent in &mut self.agents {
            agent.finish();
        }
        let worst = self
            .ends
            .iter()
            .zip(End::ALL)
            .filter_map(|(record, end)| record.failure.as_ref().map(|failure| (end, failure)))
            .min_by_key(|(_, failure)| rank(failure.outcome));
        let (outcome, reason, next_step) = match (self.verdict, worst) {
            // Our own verdict stands unless a failure explains it.
            (Some((outcome, why, next)), worst)
                if worst.is_none_or(|(_, failure)| rank(outcome) <= rank(failure.outcome)) =>
            {
                (outcome, Some(why), next)
            }
            (_, Some((end, failure))) => {
                (failure.outcome, Some(failure_words(end, failure)), failure.next_step.clone())
            }
            (_, None) => (Outcome::Passed, None, None),
        };
        PairOutcome { outcome, reason, next_step, ends: self.ends, stall: self.stall, warnings: self.warnings }
    }
}

/// Which of several endings is the cause: what the peer's death or our own stop
/// brings about comes last.
fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::PluginDied => 0,
        Outcome::Stalled => 1,
        Outcome::Usage => 2,
        Outcome::NotRun => 3,
        Outcome::Failed => 4,
        Outcome::PeerLost => 5,
        Outcome::Interrupted => 6,
        Outcome::Passed => 7,
    }
}

fn failure_words(end: End, failure: &Failure) -> String {
    format!("{} end, {}: {}", end.name(), failure.phase, failure.message)
}

fn stall_words(stall: Option<&Stall>) -> String {
    let Some(stall) = stall else { return "no progress".into() };
    let stuck: Vec<String> = stall
        .channels
        .iter()
        .filter(|channel| channel.posted > channel.consumed)
        .take(4)
        .map(|channel| {
            format!(
                "{} channel {}: {} in flight, quiet for {} ms",
                channel.side,
                channel.index,
                channel.posted - channel.consumed,
                channel.quiet_ms
            )
        })
        .collect();
    format!("stalled, first seen by the {} end ({})", stall.end.name(), stuck.join("; "))
}

fn death_words(end: End, exit: &Exit, record: &EndRecord) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("called exit({code})"),
        (None, Some(signal)) => format!("was killed by signal {signal}{}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    };
    let inside = exit.in_call.as_ref().map(|call| format!(", inside {call}")).unwrap_or_default();
    let said = record.warnings.last().map(|line| format!("; its last WARN: {}", line.text)).unwrap_or_default();
    format!("the plugin of the {} end {how} while {}{inside}{said}", end.name(), exit.phase)
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}
