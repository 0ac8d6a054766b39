//! One pair of workers, from start to the last exit, as a state machine.
//!
//! It hears what both agents say of its two workers and gives orders for them;
//! `drive` carries both. The end that listens is told first, its address goes to
//! the other, and from then on this only watches: a failure, a death, a stall, a
//! lost agent on one side stops the other side too. Every step has a deadline.
#![forbid(unsafe_code)]

use super::assign::{EndPlan, Refusal};
use super::deadline;
use super::launch::End;
use super::message::{
    ConnectionTimes, Exit, Failure, FromAgent, FromWorker, Held, Launch, Loaded, MrRow, PairTask, Phase, Preflight,
    ProcessOrder, Task, ToAgent, ToWorker, TransferResult, Work,
};
use super::reach::Transport;
use super::reach::child::Local;
use super::require;
use super::standstill::Standstill;
use super::verdict::{Verdict, cause, death_words, no_way, stall_words, stuck_calls};
use crate::bootstrap::Secret;
use std::time::{Duration, Instant};
use tcpx_node::NodeFacts;
use tcpx_run_model::record::{ChannelNow, Clock, Finding};
use tcpx_run_model::scenario::{Fault, Scenario};
use tcpx_words::error::Outcome;
use tcpx_words::log::{LogLine, LogSummary};
use tcpx_words::side::Side;
use tcpx_words::units::printable;

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
    /// What was looked at before it was loaded.
    pub preflight: Option<Preflight>,
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
    /// When they came, milliseconds since the command started.
    pub channels_ms: f64,
    /// Of the iterations that ended: bytes compared, and wrong ones.
    pub tallied: (u64, u64),
    /// Whether everything around it was kept at the moment of a stall.
    pub frozen: bool,
    /// The plugin's WARN lines, the newest at the end.
    pub warnings: Vec<LogLine>,
    /// What the worker printed, the newest at the end.
    pub printed: Vec<String>,
    /// Totals of the plugin's log.
    pub log: Option<LogSummary>,
    /// Between which times it measured, milliseconds since the command started.
    pub measured_ms: Option<(f64, f64)>,
    /// When it entered its phase.
    pub(super) entered: Option<Instant>,
    pub(super) finished: bool,
    pub(super) gone: bool,
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
    /// The GPUs whose bytes it moved; `None` alone is a pair of hosts.
    pub gpus: Vec<Option<u32>>,
    /// When it went wrong, if it did.
    pub bad_since: Option<Instant>,
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
/// For a worker to report and end after it was told to.
const GRACE: Duration = Duration::from_millis(1200);

impl Stall {
    /// The channels that stand still, the longest first: others may be in flight
    /// only because they were busy a moment ago.
    pub(super) fn stuck(&self) -> Vec<&ChannelNow> {
        let mut stuck: Vec<_> = self.channels.iter().filter(|channel| channel.posted > channel.consumed).collect();
        stuck.sort_by_key(|channel| std::cmp::Reverse(channel.quiet_ms));
        stuck
    }

    /// Who saw it: `the peer end`.
    pub fn seen_by(&self) -> String {
        self.end.map_or("the coordinator".to_owned(), |end| format!("the {} end", end.name()))
    }
}

/// One pair, as the coordinator sees it.
pub(super) struct Pair<'a> {
    scenario: &'a Scenario,
    work: &'a Work,
    run_id: &'a str,
    preflight: bool,
    gpus: Vec<Option<u32>>,
    ends: [EndRecord; 2],
    started: Instant,
    stall: Option<Stall>,
    warnings: Vec<Finding>,
    give_up_at: Option<Instant>,
    stopping: Option<Instant>,
    /// An agent has not been heard for a while: perhaps it is lost, and then that
    /// comes first.
    silent: bool,
    /// The stall that the other agent saw meanwhile.
    held: Option<(Option<End>, Vec<ChannelNow>)>,
    standstill: Standstill,
    verdict: Option<Verdict>,
    failures: Vec<(End, Failure)>,
    bad_since: Option<Instant>,
    orders: Vec<(End, ToAgent)>,
    notes: Vec<String>,
}

impl<'a> Pair<'a> {
    /// Nothing is launched yet.
    pub(super) fn new(
        scenario: &'a Scenario,
        work: &'a Work,
        run_id: &'a str,
        preflight: bool,
        gpus: Vec<Option<u32>>,
        ends: [EndRecord; 2],
        started: Instant,
    ) -> Self {
        Self {
            scenario,
            work,
            run_id,
            preflight,
            gpus,
            ends,
            started,
            stall: None,
            warnings: Vec::new(),
            give_up_at: None,
            stopping: None,
            silent: false,
            held: None,
            standstill: Standstill::new(scenario, started),
            verdict: None,
            failures: Vec::new(),
            bad_since: None,
            orders: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// What both agents are to be told about their workers of this pair.
    pub(super) fn orders(&mut self) -> Vec<(End, ToAgent)> {
        std::mem::take(&mut self.orders)
    }

    /// What was decided or noticed.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether both workers are gone.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.gone)
    }

    /// Whether the worker of one end is gone.
    pub(super) fn is_gone(&self, end: End) -> bool {
        self.ends[end as usize].gone
    }

    /// Since when it stops, if it does.
    pub(super) fn stopping_since(&self) -> Option<Instant> {
        self.stopping
    }

    fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Starts both workers; with other pairs `together`, none measures before
    /// [`Pair::measure`].
    pub(super) fn launch(&mut self, plans: [EndPlan; 2], secret: &Secret, together: bool) {
        for (end, plan) in End::ALL.into_iter().zip(plans) {
            let task = PairTask { together, ..self.task(end, &plan, secret) };
            self.warnings.extend(plan.warnings);
            self.ends[end as usize].env.clone_from(&plan.env);
            let stall_after = Duration::from(self.scenario.limits.stall_after);
            let stall_after_ms = u64::try_from(stall_after.as_millis()).unwrap_or(u64::MAX);
            let fault = self.process_order(plan.sends, plan.receives);
            let launch = Launch { env: plan.env, task: Task::Pair(Box::new(task)), stall_after_ms, fault };
            self.orders.push((end, ToAgent::Launch(Box::new(launch))));
        }
    }

    fn process_order(&self, sends: bool, receives: bool) -> Option<ProcessOrder> {
        let Some(Fault::Process { kind, side, after_chunk }) = &self.scenario.fault else { return None };
        let here = (sends && side.include(Side::Send)) || (receives && side.include(Side::Recv));
        here.then_some(ProcessOrder { kind: *kind, after_chunk: *after_chunk })
    }

    /// Nothing is launched.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.decide(Outcome::NotRun, refusal.why, refusal.next_step);
        for end in &mut self.ends {
            end.gone = true;
        }
    }

    fn task(&self, end: End, plan: &EndPlan, secret: &Secret) -> PairTask {
        PairTask {
            plugin: plan.plugin.clone(),
            gpus: self.gpus.clone(),
            cpus: plan.cpus.clone(),
            run_id: self.run_id.to_owned(),
            scenario: self.scenario.clone(),
            sends: plan.sends,
            receives: plan.receives,
            node: end.name().to_owned(),
            listen: plan.listen,
            port: plan.port,
            secret: secret.to_hex(),
            work: self.work.clone(),
            preflight: self.preflight,
            together: false,
        }
    }

    /// Whether both workers have warmed up and wait for [`Pair::measure`].
    pub(super) fn is_gathered(&self) -> bool {
        self.ends.iter().all(|end| end.phase == Phase::Gathering)
    }

    /// Lets both workers go.
    pub(super) fn measure(&mut self) {
        self.orders.extend(End::ALL.map(|end| (end, ToAgent::ToWorker(ToWorker::Measure))));
    }

    /// The coordinator was stopped or starved, and saw nothing for a while.
    pub(super) fn overslept(&mut self, now: Instant) {
        self.standstill.overslept(now);
    }

    /// Whether an agent has not been heard for a while. A stall that is seen then
    /// is declared only once both are heard again.
    pub(super) fn silent(&mut self, silent: bool, now: Instant) {
        self.silent = silent;
        if silent {
            self.standstill.overslept(now);
            self.give_up_at = self.give_up_at.map(|at| at.max(now + super::agent::HEARTBEAT));
        } else if let Some((end, channels)) = self.held.take() {
            self.stalled(end, &channels);
        }
    }

    /// Holds it against its deadlines; what a stop brings about would only hide
    /// why it was asked for.
    pub(super) fn check(&mut self, now: Instant, interrupted: bool) {
        if self.stopping.is_none() {
            self.check_progress(now, interrupted);
        }
    }

    /// The agent of one end is lost, and the worker with it.
    pub(super) fn lost(&mut self, end: End, how: &str, silence: Duration, next_step: Option<&str>) {
        if !self.ends[end as usize].gone {
            // What stood still since nothing came from there stood still because of it.
            let since_ms = self.now_ms() - (silence + super::agent::HEARTBEAT).as_secs_f64() * 1e3;
            self.stall = self.stall.take().filter(|stall| stall.recovered || stall.at_ms < since_ms);
            self.ends[end as usize].gone = true;
            let address = &self.ends[end as usize].address;
            let why = format!("the agent of the {} end ({address}) {how}", end.name());
            self.decide(Outcome::PeerLost, why, next_step.map(str::to_owned));
        }
    }

    /// Nobody waits for the worker of this end any longer.
    pub(super) fn give_up_on(&mut self, end: End) {
        self.ends[end as usize].gone = true;
    }

    fn check_progress(&mut self, now: Instant, interrupted: bool) {
        if interrupted {
            self.decide(Outcome::Interrupted, "interrupted".into(), None);
        }
        for end in End::ALL {
            self.check_phase(end, now);
        }
        let moving = |end: &EndRecord| matches!(end.phase, Phase::WarmUp | Phase::Measuring);
        if self.ends.iter().all(moving) && self.standstill.begins(now) {
            self.stalled(None, &self.channels_by_now());
        }
        if self.give_up_at.is_some_and(|at| now >= at) {
            self.give_up_at = None;
            let next = "compare the channels of both ends: who has posted, and who is not done";
            self.decide(Outcome::Stalled, stall_words(self.stall.as_ref()), Some(next.into()));
        }
        let total = self.scenario.limits.total;
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
        let limits = &self.scenario.limits;
        let limit = deadline::of_phase(phase, limits, self.work, variable);
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
        self.bad_since.get_or_insert_with(Instant::now);
        if self.verdict.is_none() {
            self.note(format!("{outcome}: {why}"));
            self.verdict = Some(Verdict { outcome, why, next_step });
        }
        // A call that hangs is seen while it does.
        if outcome == Outcome::Stalled && self.stopping.is_none() && !self.ends.iter().any(|end| end.frozen) {
            self.freeze();
        }
        self.stop();
    }

    /// Everything around both workers is kept as it is now.
    fn freeze(&mut self) {
        self.orders.extend(End::ALL.map(|end| (end, ToAgent::Freeze)));
    }

    /// Another pair of the run went wrong: this one ends with it.
    pub(super) fn end_with_the_run(&mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            let grace_ms = u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX);
            self.orders.extend(End::ALL.map(|end| (end, ToAgent::Stop { grace_ms })));
        }
    }

    /// Something was printed at one end.
    pub(super) fn keep_text(&mut self, end: End, text: String) {
        let printed = &mut self.ends[end as usize].printed;
        if printed.len() == KEPT_LINES {
            printed.remove(0);
        }
        printed.push(text);
    }

    /// What an agent says of its worker.
    pub(super) fn take(&mut self, end: End, message: &FromAgent) {
        let now_ms = self.now_ms();
        let record = &mut self.ends[end as usize];
        match message {
            FromAgent::Worker(message) => self.take_worker(end, message),
            FromAgent::Sample(channels) => {
                record.channels.clone_from(channels);
                record.channels_ms = now_ms;
                if self.standstill.sample(end, channels, Instant::now()) {
                    self.recovered();
                }
            }
            FromAgent::Stall(channels) => self.stalled(Some(end), channels),
            FromAgent::Recovered => self.recovered(),
            FromAgent::Frozen(_) => record.frozen = true,
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
            | FromAgent::Recording { .. }
            | FromAgent::Watched(_)
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
                let now = self.started.elapsed().as_secs_f64() * 1e3;
                match (phase, &mut record.measured_ms) {
                    (Phase::Measuring, None) => record.measured_ms = Some((now, now)),
                    (Phase::Closing, Some((_, ended))) => *ended = now,
                    _ => {}
                }
                record.entered = Some(Instant::now());
            }
            FromWorker::Loaded(loaded) => {
                record.loaded = Some(loaded.clone());
                if let Some(why) = require::unwanted(&self.scenario.requires, end, loaded) {
                    self.decide(Outcome::NotRun, why, None);
                }
            }
            FromWorker::Listening(address) => {
                self.orders.push((end.other(), ToAgent::ToWorker(ToWorker::PeerListens(*address))));
            }
            FromWorker::Handshake(times) => record.handshakes.push(times.clone()),
            FromWorker::Held { before, after } => record.held = Some((*before, *after)),
            FromWorker::Mr(rows) => record.mr = Some(rows.clone()),
            FromWorker::Transfer(result) => record.transfer = Some(result.clone()),
            FromWorker::Failed(failure) => {
                let mut failure = failure.clone();
                let [from, to] = [end, end.other()].map(|end| self.host(end));
                no_way(&mut failure, &from, &to, self.driver().as_deref());
                self.ends[end as usize].failure = Some(failure.clone());
                self.failures.push((end, failure));
                self.bad_since.get_or_insert_with(Instant::now);
                // The other end has heard of it over the bootstrap, or will be stopped.
                self.stop();
            }
            FromWorker::Finished(log) => {
                record.finished = true;
                record.log = Some(*log);
            }
            FromWorker::Preflight(found) => record.preflight = Some(found.clone()),
            FromWorker::Iteration(iteration) => {
                record.tallied = (iteration.verified_bytes, iteration.wrong_bytes);
            }
            FromWorker::Recorder(_) | FromWorker::Contract(_) | FromWorker::Gpus(_) | FromWorker::Examined(_) => {}
        }
    }

    /// What a node calls itself.
    fn host(&self, end: End) -> String {
        let record = &self.ends[end as usize];
        let name = record.facts.as_ref().and_then(|facts| facts.host.name.known());
        name.map_or_else(|| record.address.clone(), |name| printable(name))
    }

    /// The machine where the command was typed, where it is one end and not both.
    fn driver(&self) -> Option<String> {
        let is_here = self.ends.each_ref().map(|end| end.address == Local.node());
        (is_here == [true, false]).then(|| self.host(End::Local))
    }

    fn now_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1e3
    }

    /// Counters of both ends, with the silence since each end's came added: what
    /// fell silent last said that all was well.
    fn channels_by_now(&self) -> Vec<ChannelNow> {
        let now_ms = self.now_ms();
        let of = |end: &EndRecord| {
            let silent_ms = (now_ms - end.channels_ms).max(0.0) as u64;
            let by_now = move |channel: &ChannelNow| ChannelNow {
                quiet_ms: channel.quiet_ms.saturating_add(silent_ms),
                ..channel.clone()
            };
            end.channels.iter().map(by_now).collect::<Vec<_>>()
        };
        self.ends.iter().flat_map(of).collect()
    }

    fn stalled(&mut self, end: Option<End>, channels: &[ChannelNow]) {
        if self.silent {
            self.held = Some((end, channels.to_vec()));
            return;
        }
        let at_ms = self.now_ms();
        let stall = Stall { end, at_ms, channels: channels.to_vec(), recovered: false };
        let seen_by = stall.seen_by();
        if self.stall.as_ref().is_none_or(|stall| stall.recovered) {
            self.stall = Some(stall);
        }
        if self.give_up_at.is_none() {
            let patience = Duration::from(self.scenario.limits.give_up_after);
            self.give_up_at = Some(Instant::now() + patience);
            self.note(format!("stall declared by {seen_by}; giving up in {patience:?} unless it moves"));
            self.orders.extend(End::ALL.map(|end| (end, ToAgent::Snapshot)));
            self.freeze();
        }
    }

    fn recovered(&mut self) {
        // What moves once we stop it has not recovered.
        if self.stopping.is_some() {
            return;
        }
        self.give_up_at = None;
        self.held = None;
        if let Some(stall) = &mut self.stall {
            stall.recovered = true;
        }
        self.note("the stalled channels move again".into());
    }

    fn exited(&mut self, end: End, exit: &Exit) {
        let now_ms = self.now_ms();
        let record = &mut self.ends[end as usize];
        record.gone = true;
        record.exit = Some(exit.clone());
        let explained = record.finished || exit.killed || record.failure.is_some();
        if !exit.channels.is_empty() {
            record.channels.clone_from(&exit.channels);
            record.channels_ms = now_ms;
        }
        if !explained {
            let why = death_words(end, exit, record);
            let warned = !record.warnings.is_empty();
            self.decide(Outcome::PluginDied, why, warned.then(|| "its last WARN line is usually the cause".into()));
        }
    }

    /// What it came to; `clocks` are the nodes'.
    pub(super) fn conclude(mut self, clocks: [Option<Clock>; 2]) -> PairOutcome {
        for (end, clock) in self.ends.iter_mut().zip(clocks) {
            end.clock = clock;
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
        PairOutcome {
            gpus: self.gpus,
            bad_since: self.bad_since,
            outcome,
            reason,
            next_step,
            ends: self.ends,
            stall: self.stall,
            warnings: self.warnings,
        }
    }
}
