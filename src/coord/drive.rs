//! A run: two agents, a pair of workers for each GPU (or one for all, or one of
//! hosts), from start to the last exit.
//!
//! Everything that happens is one stream of events in arrival order. What agents
//! say goes to the pair it is about, the orders of pairs go to agents, and when
//! one pair goes wrong the others end with it.
#![forbid(unsafe_code)]

use super::agent::{HEARTBEAT, OVERSLEPT};
use super::assign::{self, Refusal};
use super::event::{Event, What};
use super::launch::{Agent, End, Event as FromEnd, LaunchError, Said};
use super::message::{FromAgent, ToAgent, Work};
use super::pair::{EndRecord, Pair, PairOutcome};
use super::reach::Transport;
use super::require;
use super::stream::Stream;
use crate::bootstrap::Secret;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tcpx_run_model::record::live::{ChannelKey, Which};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::error::NextStep;
use tcpx_words::units::now_utc;

/// What to do, and for whom.
pub struct RunRequest<'a> {
    /// Resolved.
    pub scenario: &'a Scenario,
    /// What each pair does once connected.
    pub work: Work,
    /// Of this run.
    pub run_id: &'a str,
    /// Set by a signal.
    pub interrupted: &'a Arc<AtomicBool>,
    /// How to reach the nodes, local and peer.
    pub ways: &'a [Box<dyn Transport>; 2],
    /// Where the first end that listens does, the next one above; 0 is any.
    pub bootstrap_port: u16,
    /// Each worker makes the critical checks of its node first.
    pub preflight: bool,
    /// What a view looks at.
    pub closely: Option<&'a Closely>,
}

/// The channel that a view shows closely and the recorder that has it: written
/// by the view, read by the coordinator a few times a second.
pub type Closely = Mutex<Option<(ChannelKey, PathBuf)>>;

/// Events taken in between two looks at the deadlines.
const EVENTS_MAX: usize = 10_000;
/// The rails may be as they were: what is lost is the way to the agent.
const SILENT_NEXT: &str = "see whether that node is up, and whether the network over which it was reached still is";
/// Silence of an agent, whose heart beats every second, from which on nothing is
/// concluded from what the other end sees.
const HUSH: Duration = Duration::from_millis(1500);
const TICK: Duration = Duration::from_millis(200);
/// An agent whose worker has not ended so long after it was told to is ended
/// with its stream.
const STOPPING_MAX: Duration = Duration::from_millis(3600);

/// Runs all pairs; `observe` sees every event in order. At least one comes back.
pub fn run(request: &RunRequest<'_>, observe: &mut dyn FnMut(&Event)) -> Vec<PairOutcome> {
    let (to_events, events) = mpsc::channel();
    let started = Instant::now();
    let mut upload = |to: &str, sent, all| {
        let what = What::Upload { to: to.to_owned(), sent, all };
        let ms = started.elapsed().as_secs_f64() * 1e3;
        observe(&Event { at: now_utc(), ms, node: "coordinator".into(), gpu: None, node_us: None, what });
    };
    let agents = match Agent::start_both(request.ways, &request.scenario.plugin, &to_events, &mut upload) {
        Ok(agents) => agents,
        Err(error) => return vec![PairOutcome::without_agents(&error)],
    };
    drop(to_events);
    let mut drive =
        Drive { request, observe, agents, pairs: Vec::new(), started: Instant::now(), measures: false, closely: None };
    drive.launch();
    drive.watch(&events);
    drive.conclude()
}

struct Drive<'a> {
    request: &'a RunRequest<'a>,
    observe: &'a mut dyn FnMut(&Event),
    agents: [Agent; 2],
    pairs: Vec<Pair<'a>>,
    started: Instant,
    /// Whether pairs that measure together were let go.
    measures: bool,
    /// What the agents were asked to show closely.
    closely: Option<(ChannelKey, PathBuf)>,
}

impl<'a> Drive<'a> {
    fn ends(&self) -> [EndRecord; 2] {
        End::ALL.map(|end| EndRecord {
            facts: Some(self.agents[end as usize].greeting.facts.clone()),
            address: self.request.ways[end as usize].node().to_owned(),
            ..EndRecord::default()
        })
    }

    fn pair(&self, gpus: Vec<Option<u32>>) -> Pair<'a> {
        let request = self.request;
        Pair::new(request.scenario, &request.work, request.run_id, request.preflight, gpus, self.ends(), self.started)
    }

    fn launch(&mut self) {
        let greetings = [&self.agents[0].greeting, &self.agents[1].greeting];
        let facts = greetings.map(|greeting| &*greeting.facts);
        let no_numbers = |error| Refusal { why: format!("no random numbers: {error}"), next_step: None };
        let plans = match require::missing(&self.request.scenario.requires, facts, assign::is_one_machine(greetings)) {
            Some(why) => Err(Refusal { why, next_step: None }),
            None => assign::assign(self.request.scenario, &self.request.work, greetings, self.request.bootstrap_port),
        };
        match Secret::generate().map_err(no_numbers).and_then(|secret| Ok((secret, plans?))) {
            Ok((secret, plans)) => {
                let together = plans.len() > 1 && self.request.work == Work::Transfer;
                for (gpus, plans) in plans {
                    let mut pair = self.pair(gpus);
                    pair.launch(plans, &secret, together);
                    self.pairs.push(pair);
                }
            }
            Err(refusal) => {
                let mut pair = self.pair(vec![None]);
                pair.refuse(refusal);
                self.pairs.push(pair);
            }
        }
        self.deliver();
    }

    /// Orders to agents, notes to the stream.
    fn deliver(&mut self) {
        for number in 0..self.pairs.len() {
            let pair = &mut self.pairs[number];
            for (end, order) in pair.orders() {
                self.agents[end as usize].tell(number as u32, &order);
            }
            for note in pair.notes() {
                self.emit("coordinator", number, None, What::Note(note));
            }
        }
    }

    fn emit(&mut self, node: &str, pair: usize, node_us: Option<u64>, what: What) {
        let ms = self.started.elapsed().as_secs_f64() * 1e3;
        let gpu = (self.pairs.len() > 1).then_some(pair as u32);
        (self.observe)(&Event { at: now_utc(), ms, node: node.to_owned(), gpu, node_us, what });
    }

    fn watch(&mut self, events: &mpsc::Receiver<FromEnd>) {
        let (mut beat_at, mut stream) = (Instant::now(), Stream::new());
        while self.pairs.iter().any(|pair| !pair.is_over()) {
            let began = Instant::now();
            match events.recv_timeout(TICK) {
                Ok(event) => self.hear(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            // All that has arrived counts before any deadline does.
            let more = events.try_iter().take(EVENTS_MAX).map(|event| self.hear(event)).count();
            stream.rest(more + 1);
            let now = Instant::now();
            if now.duration_since(began) > OVERSLEPT {
                self.pairs.iter_mut().for_each(|pair| pair.overslept(now));
            }
            if now >= beat_at {
                beat_at = now + HEARTBEAT;
                self.agents.iter().for_each(Agent::beat);
            }
            self.check(now);
            self.let_measure();
            self.look_closely();
            self.deliver();
        }
    }

    fn hear(&mut self, event: FromEnd) {
        match event {
            FromEnd::From(said) => self.said(said),
            // Whoever printed it, it is nobody's in particular.
            FromEnd::Noise(end, text) => self.pairs[0].keep_text(end, text),
            FromEnd::Gone(end) => {
                self.pairs.iter_mut().for_each(|pair| pair.lost(end, "is gone", Duration::ZERO, None))
            }
        }
    }

    fn said(&mut self, said: Said) {
        let Said { end, node_us, worker, message } = said;
        let agent = &mut self.agents[end as usize];
        agent.heard();
        match message {
            FromAgent::Echo { us } => agent.echoed(us, node_us),
            FromAgent::Heartbeat => {}
            FromAgent::Watched(theirs) => {
                let seen = agent.seen_from_here(end, theirs).collect();
                self.emit(end.name(), 0, None, What::Closely(seen));
            }
            message => {
                // A number that nobody gave out is nobody's.
                let Some(pair) = self.pairs.get_mut(worker as usize) else { return };
                pair.take(end, &message);
                self.emit(end.name(), worker as usize, Some(node_us), What::Said(Box::new(message)));
                self.deliver();
            }
        }
    }

    /// What several GPUs move at once is a share only while all do: none measures
    /// before all have warmed up.
    fn let_measure(&mut self) {
        if !self.measures && self.pairs.iter().all(Pair::is_gathered) {
            self.measures = true;
            self.pairs.iter_mut().for_each(Pair::measure);
        }
    }

    /// Passes on what a view wants to see.
    fn look_closely(&mut self) {
        let Some(wanted) = self.request.closely else { return };
        let wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if wanted == self.closely {
            return;
        }
        for end in End::ALL {
            let theirs = wanted.as_ref().and_then(|(channel, path)| Some((channel.seen_from_there(end.name())?, path)));
            let named = theirs.as_ref().map(|(channel, path)| (channel.node.clone(), (*path).clone()));
            let (which, closely) = (Which::Named(named.into_iter().collect()), theirs.map(|(channel, _)| channel));
            self.agents[end as usize].tell(0, &ToAgent::Watch { which, closely });
        }
        self.closely = wanted;
    }

    fn check(&mut self, now: Instant) {
        for end in End::ALL {
            let is_awaited = self.pairs.iter().any(|pair| !pair.is_gone(end));
            if is_awaited && self.agents[end as usize].is_lost() {
                let silence = self.agents[end as usize].silence();
                self.pairs.iter_mut().for_each(|pair| pair.lost(end, "fell silent", silence, Some(SILENT_NEXT)));
            }
        }
        let interrupted = self.request.interrupted.load(Ordering::Relaxed);
        let silent = self.agents.iter().any(|agent| agent.silence() > HUSH);
        for pair in &mut self.pairs {
            pair.silent(silent, now);
            pair.check(now, interrupted);
        }
        if self.pairs.iter().any(|pair| pair.stopping_since().is_some()) {
            self.pairs.iter_mut().for_each(Pair::end_with_the_run);
        }
        let overdue = |pair: &Pair<'_>| pair.stopping_since().is_some_and(|at| now.duration_since(at) > STOPPING_MAX);
        if self.pairs.iter().any(|pair| overdue(pair) && !pair.is_over()) {
            for end in End::ALL {
                if self.pairs.iter().any(|pair| !pair.is_gone(end)) {
                    self.agents[end as usize].finish();
                    self.pairs.iter_mut().for_each(|pair| pair.give_up_on(end));
                }
            }
        }
    }

    fn conclude(mut self) -> Vec<PairOutcome> {
        self.agents.iter_mut().for_each(Agent::finish);
        let clocks = [self.agents[0].clock, self.agents[1].clock];
        self.pairs.into_iter().map(|pair| pair.conclude(clocks)).collect()
    }
}

impl PairOutcome {
    fn without_agents(error: &LaunchError) -> Self {
        Self {
            gpus: vec![None],
            bad_since: None,
            outcome: error.outcome(),
            reason: Some(error.to_string()),
            next_step: error.next_step(),
            ends: Default::default(),
            stall: None,
            warnings: Vec::new(),
        }
    }
}

/// The pair by which a run is judged: the one that went wrong first.
///
/// # Panics
/// Never for what [`run`] returns.
pub fn decisive(pairs: &[PairOutcome]) -> &PairOutcome {
    let bad = pairs.iter().filter(|pair| pair.outcome != tcpx_words::error::Outcome::Passed);
    bad.min_by_key(|pair| pair.bad_since).unwrap_or(&pairs[0])
}
