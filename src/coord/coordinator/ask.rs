//! Runs one task in one worker, on this machine or on another node, and returns its answer.
//!
//! For tasks without a pair: listing a plugin's devices, one row of the contract suite. A worker
//! that fails, dies or hangs becomes a [`TaskError`].
#![forbid(unsafe_code)]

use super::assign::{or_builtin, reachable_at, same_software};
use super::launch::{Agent, AgentEvent, LaunchError, ReceivedMessage};
use super::verdict::AFTER_KILL;
use crate::process::leftovers::{remove_recorder, sweep_recorders};
use crate::process::no_cpu::NoCpu;
use crate::process::supervise::{Worker, WorkerEvent};
use crate::protocol::limits::{HEARTBEAT, OVERSLEPT, RETURNS_MAX};
use crate::protocol::message::{
    AgentMessage, CoordinatorOrder, Launch, NoPlugin, Task, WorkerMessage, WorkerOrder,
};
use crate::protocol::variables::choose;
use crate::reach::{Opening, Transport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_node::{NodeFacts, Root};
use tcpx_run_model::counters::sample::Sampler;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::phase::{Phase, how_ended, is_sent};
use tcpx_run_model::scenario::PluginChoice;
use tcpx_run_model::state::LastWords;
use tcpx_words::error::Outcome;

/// Why a task has no answer.
#[derive(Debug, Clone, Serialize)]
pub struct TaskError {
    /// Whose problem it is.
    pub outcome: Outcome,
    /// What happened.
    pub message: String,
    /// What to do.
    pub next_step: Option<String>,
    /// The phase that the worker did not get through, if it started.
    #[serde(skip)]
    pub phase: Option<Phase>,
    /// What is known of the plugin's calls when the time was over.
    #[serde(skip)]
    pub calls: Calls,
}

/// What the calls of the plugin did when the time of a task was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// Nothing is known of them: the task ended otherwise, or they are not to blame.
    #[default]
    Unknown,
    /// They still returned, so the plugin is slow.
    Return,
    /// One did not return.
    Hang,
}

impl TaskError {
    fn not_run(message: String) -> Self {
        Self {
            outcome: Outcome::NotRun,
            message,
            next_step: None,
            phase: None,
            calls: Calls::Unknown,
        }
    }

    fn interrupted() -> Self {
        Self {
            outcome: Outcome::Interrupted,
            message: "interrupted".into(),
            next_step: None,
            phase: None,
            calls: Calls::Unknown,
        }
    }
}

impl From<NoPlugin> for TaskError {
    fn from(no: NoPlugin) -> Self {
        Self {
            outcome: Outcome::NotRun,
            message: no.why,
            next_step: no.next_step,
            phase: None,
            calls: Calls::Unknown,
        }
    }
}

/// A node that runs single tasks.
pub struct TaskNode {
    /// NICs, GPUs, NUMA, limits and environment of the node.
    pub facts: Box<NodeFacts>,
    /// The plugin file that the wanted plugin resolves to on the node.
    pub plugin: Result<ChosenPlugin, NoPlugin>,
    agent: Option<(Agent, mpsc::Receiver<AgentEvent>)>,
    interrupted: Arc<AtomicBool>,
}

impl TaskNode {
    /// This machine: workers are children of this process.
    pub fn here(wanted: &PluginChoice) -> Self {
        sweep_recorders();
        let plugin = choose(wanted).map_err(NoPlugin::from);
        let facts = Box::new(NodeFacts::read(&Root::live()));
        Self {
            facts,
            plugin,
            agent: None,
            interrupted: Arc::default(),
        }
    }

    /// Another node, through an agent.
    ///
    /// # Errors
    /// The node cannot be reached, or its agent does not start.
    pub fn at(
        transport: &dyn Transport,
        wanted: &PluginChoice,
        opening: &mut Opening<'_>,
    ) -> Result<Self, LaunchError> {
        let (to_events, events) = mpsc::channel();
        let agent = Agent::start(NodeId(0), transport, wanted, &to_events, opening)?;
        let Agent { greeting, .. } = &agent;
        let (facts, plugin) = (greeting.facts.clone(), greeting.plugin.clone());
        let plugin = or_builtin(plugin, wanted);
        Ok(Self {
            facts,
            plugin,
            agent: Some((agent, events)),
            interrupted: Arc::default(),
        })
    }

    /// The address at which each of two nodes can reach the other, as a run chooses it.
    pub fn control_addresses(nodes: [&Self; 2]) -> [Option<IpAddr>; 2] {
        let greeting = |at: usize| nodes[at].agent.as_ref().map(|(agent, _)| &agent.greeting);
        [0, 1].map(|at| {
            let (own, other) = (greeting(at), greeting(1 - at));
            let known = [
                own.and_then(|own| own.reached_at),
                own.and_then(|own| own.addresses.there),
                other.and_then(|other| other.addresses.here),
            ];
            reachable_at(&nodes[at].facts, known)
        })
    }

    /// The plugins that a run of two nodes uses, if both have one.
    pub fn plugins_of_pair(nodes: [&Self; 2]) -> [Result<ChosenPlugin, NoPlugin>; 2] {
        match nodes.map(|node| node.plugin.clone()) {
            [Ok(first), Ok(second)] => same_software([first, second]).map(Ok),
            chosen => chosen,
        }
    }

    /// Makes `ask` return as soon as the flag is set.
    pub fn until(&mut self, interrupted: Arc<AtomicBool>) {
        self.interrupted = interrupted;
    }

    /// Runs one task in a worker of its own and returns the first value that `pick` extracts from
    /// its messages.
    ///
    /// # Errors
    /// The worker failed, died, or has not finished after `patience`; or the user interrupted it,
    /// which takes precedence, as the same signal may have ended the worker.
    pub fn ask<T>(
        &self,
        task: Task,
        env: &BTreeMap<String, String>,
        patience: Duration,
        pick: impl Fn(WorkerMessage) -> Option<T>,
    ) -> Result<T, TaskError> {
        let answer = Answer::awaited(Phase::Starting, pick);
        let mut wait = Wait::new(patience, &self.interrupted);
        let answer = match &self.agent {
            _ if wait.is_interrupted() => return Err(TaskError::interrupted()),
            None => ask_child(answer, task, env, &mut wait),
            Some((agent, events)) => {
                let launch = Launch {
                    env: env.clone(),
                    task,
                    stall_after_ms: u64::MAX,
                    looks_per_sample: 1,
                    fault: None,
                    sends_every_recording: true,
                };
                agent.tell(0, &CoordinatorOrder::Launch(Box::new(launch)));
                let answer = ask_agent(answer, agent, events, &mut wait);
                leave(agent, events);
                answer
            }
        };
        answer.map_err(|problem| {
            if wait.is_interrupted() {
                TaskError::interrupted()
            } else {
                problem
            }
        })
    }
}

/// Deadline and stop flag of a wait for an answer. The deadline moves by the time in which the
/// worker or this process waited for a CPU or this process was stopped, because that time is not
/// the plugin's.
struct Wait<'a> {
    until: Instant,
    patience: Duration,
    no_cpu: Duration,
    interrupted: &'a AtomicBool,
}

/// Most of that time, as a multiple of the patience: a worker that gets almost no CPU ends too.
const NO_CPU_MAX: u32 = 10;

/// Time between two checks of the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why a wait returned without a message.
enum Silence {
    /// No message yet.
    Yet,
    /// The deadline has passed, or the user interrupted.
    Over,
    /// The sender is gone.
    Gone,
}

impl<'a> Wait<'a> {
    fn new(patience: Duration, interrupted: &'a AtomicBool) -> Self {
        Self {
            until: Instant::now() + patience,
            patience,
            no_cpu: Duration::ZERO,
            interrupted,
        }
    }

    fn extend(&mut self, no_cpu: Duration) {
        let most = (self.patience * NO_CPU_MAX).saturating_sub(self.no_cpu);
        self.no_cpu += no_cpu.min(most);
        self.until += no_cpu.min(most);
    }

    /// Whether the wait was given up for want of a CPU.
    fn is_starved(&self) -> bool {
        self.no_cpu >= self.patience * NO_CPU_MAX
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits for the next message. One that has arrived is returned even after the deadline; after
    /// an interruption, none is taken, because it may name the recorder that is to be removed.
    fn next<E>(&mut self, from: &mpsc::Receiver<E>) -> Result<E, Silence> {
        if self.is_interrupted() {
            return Err(Silence::Over);
        }
        let began = Instant::now();
        let left = self.until.saturating_duration_since(began);
        let heard = from.recv_timeout(left.min(LOOK_EVERY));
        let slept = began.elapsed();
        if slept > OVERSLEPT {
            self.extend(slept);
        }
        match heard {
            Ok(heard) => Ok(heard),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => Err(Silence::Over),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Yet),
            Err(RecvTimeoutError::Disconnected) => Err(Silence::Gone),
        }
    }
}

fn ask_child<T, P: Fn(WorkerMessage) -> Option<T>>(
    mut answer: Answer<T, P>,
    task: Task,
    env: &BTreeMap<String, String>,
    wait: &mut Wait<'_>,
) -> Result<T, TaskError> {
    let (to_heard, heard) = mpsc::channel();
    let worker = Worker::start(env, move |one| drop(to_heard.send(one)))
        .map_err(|error| TaskError::not_run(format!("cannot start a worker: {error}")))?;
    worker.tell(&WorkerOrder::Start(Box::new(task)));
    let mut child = TaskChild {
        worker,
        heard,
        recorder: None,
        has_exited: false,
    };
    let mut no_cpu = NoCpu::default();
    loop {
        wait.extend(no_cpu.since_last_look(child.worker.pid, Instant::now(), LOOK_EVERY));
        match wait.next(&child.heard) {
            Ok(WorkerEvent::Message(WorkerMessage::Recorder(path))) => {
                child.recorder = Some(Sampler::new(path))
            }
            Ok(heard) => {
                if matches!(heard, WorkerEvent::Exited { .. }) {
                    child.has_exited = true;
                    answer.inside = child.in_call();
                }
                if let Some(done) = answer.hear(heard) {
                    return done;
                }
            }
            Err(Silence::Yet) => {}
            Err(Silence::Over | Silence::Gone) => {
                if !wait.is_interrupted() && child.calls_return() {
                    answer.calls = Calls::Return;
                }
                answer.inside = child.in_call();
                return Err(answer.is_late(wait));
            }
        }
    }
}

/// Time for a killed worker to end. The system may take seconds to release its memory.
const END_MAX: Duration = Duration::from_secs(5);

/// Longest wait for what an agent says of its worker's calls, which it watches for `RETURNS_MAX`.
const TOLD_MAX: Duration = RETURNS_MAX.saturating_add(Duration::from_secs(3));

/// A worker of one task. When it is dropped, the worker is killed and its recorder is removed.
struct TaskChild {
    worker: Worker,
    heard: mpsc::Receiver<WorkerEvent>,
    recorder: Option<Sampler>,
    has_exited: bool,
}

impl TaskChild {
    fn in_call(&mut self) -> Option<String> {
        self.recorder.as_mut().and_then(Sampler::in_call)
    }

    fn calls_return(&mut self) -> bool {
        let recorder = self.recorder.as_mut();
        recorder.is_some_and(|recorder| recorder.calls_return_within(RETURNS_MAX))
    }

    /// Reads its messages until it has exited: the path of its recorder may be among them.
    fn wait_for_exit(&mut self) {
        let until = Instant::now() + END_MAX;
        while !self.has_exited {
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(WorkerEvent::Message(WorkerMessage::Recorder(path))) => {
                    self.recorder = Some(Sampler::new(path))
                }
                Ok(WorkerEvent::Exited { .. }) => self.has_exited = true,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for TaskChild {
    fn drop(&mut self) {
        self.worker.kill();
        self.wait_for_exit();
        remove_recorder(self.recorder.take());
    }
}

fn ask_agent<T, P: Fn(WorkerMessage) -> Option<T>>(
    mut answer: Answer<T, P>,
    agent: &Agent,
    events: &mpsc::Receiver<AgentEvent>,
    wait: &mut Wait<'_>,
) -> Result<T, TaskError> {
    let lost = |what: String| TaskError {
        outcome: Outcome::PeerLost,
        message: what,
        next_step: None,
        phase: None,
        calls: Calls::Unknown,
    };
    let mut beat_at = Instant::now();
    loop {
        // The agent ends itself without heartbeats, however busy it keeps this loop.
        if Instant::now() >= beat_at {
            beat_at = Instant::now() + HEARTBEAT;
            agent.beat();
        }
        let heard = match wait.next(events) {
            Ok(AgentEvent::Message(ReceivedMessage { message, .. })) => match message {
                AgentMessage::Worker(message) => WorkerEvent::Message(message),
                AgentMessage::PluginLine(line) => WorkerEvent::Log(line),
                AgentMessage::Output { stream, text } if stream == "stderr" => {
                    WorkerEvent::Output {
                        stream: "stderr",
                        text,
                    }
                }
                AgentMessage::Exited(exit) => {
                    answer.inside = exit.in_call;
                    WorkerEvent::Exited {
                        code: exit.code,
                        signal: exit.signal,
                    }
                }
                AgentMessage::NoCpu { ms } => {
                    wait.extend(Duration::from_millis(ms));
                    continue;
                }
                AgentMessage::Broken(why) => return Err(TaskError::not_run(why)),
                _ => continue,
            },
            Ok(AgentEvent::Gone(_)) | Err(Silence::Gone) => {
                return Err(lost("the agent is gone".into()));
            }
            Ok(AgentEvent::Text(..)) | Err(Silence::Yet) => continue,
            Err(Silence::Over) => {
                if !wait.is_interrupted() {
                    agent.tell(0, &CoordinatorOrder::WatchCalls);
                    answer.hear_of_calls(agent, events);
                }
                return Err(answer.is_late(wait));
            }
        };
        if let Some(done) = answer.hear(heard) {
            return done;
        }
    }
}

/// Stops the worker and waits until it has exited, so that the next task can start one.
fn leave(agent: &Agent, events: &mpsc::Receiver<AgentEvent>) {
    agent.tell(0, &CoordinatorOrder::Stop { grace_ms: 100 });
    let until = Instant::now() + 2 * HEARTBEAT;
    while let Ok(event) = events.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if matches!(
            event,
            AgentEvent::Message(ReceivedMessage {
                message: AgentMessage::Exited(_),
                ..
            }) | AgentEvent::Gone(_)
        ) {
            return;
        }
    }
}

/// Messages of a worker so far.
struct Answer<T, P> {
    phase: Phase,
    /// The plugin call that has not returned, if known.
    inside: Option<String>,
    last_warning: Option<String>,
    /// Whether calls still returned when the time was over, if they did.
    calls: Calls,
    /// How far it said that it has come.
    so_far: Option<String>,
    /// What was said last on stderr: why a runtime ended it.
    last_on_stderr: LastWords,
    answer: Option<T>,
    failure: Option<TaskError>,
    pick: P,
}

impl<T, P: Fn(WorkerMessage) -> Option<T>> Answer<T, P> {
    /// Before the first message. `pick` takes what was asked for from a message.
    fn awaited(phase: Phase, pick: P) -> Self {
        Self {
            phase,
            inside: None,
            last_warning: None,
            calls: Calls::Unknown,
            so_far: None,
            last_on_stderr: LastWords::default(),
            answer: None,
            failure: None,
            pick,
        }
    }

    /// Takes one message; returns the result once it is complete.
    fn hear(&mut self, heard: WorkerEvent) -> Option<Result<T, TaskError>> {
        match heard {
            WorkerEvent::Message(WorkerMessage::Phase(next)) => self.phase = next,
            WorkerEvent::Message(WorkerMessage::Failed(failed)) => {
                self.failure = Some(TaskError {
                    outcome: failed.outcome,
                    message: format!("{}: {}", failed.phase, failed.message),
                    next_step: failed.next_step,
                    phase: Some(failed.phase),
                    calls: Calls::Unknown,
                });
            }
            WorkerEvent::Message(WorkerMessage::Finished(_)) => {
                return Some(match (self.answer.take(), self.failure.take()) {
                    (Some(answer), None) => Ok(answer),
                    (_, Some(failure)) => Err(failure),
                    (None, None) => Err(TaskError::not_run(
                        "the worker ended without an answer".into(),
                    )),
                });
            }
            WorkerEvent::Message(WorkerMessage::RowSoFar(so_far)) => self.so_far = Some(so_far),
            WorkerEvent::Message(message) => {
                self.answer = self.answer.take().or_else(|| (self.pick)(message))
            }
            WorkerEvent::Log(line) if line.level == tcpx_abi::level::WARN => {
                self.last_warning = Some(line.text)
            }
            WorkerEvent::Output {
                stream: "stderr",
                text,
            } => self.last_on_stderr.hear(&text),
            WorkerEvent::Log(_) | WorkerEvent::Output { .. } => {}
            WorkerEvent::Exited { code, signal } => {
                let how = how_ended(code, signal);
                // The plugin does not end its process by a signal that others send.
                let is_from_outside = code.is_none() && signal.is_some_and(is_sent);
                if is_from_outside {
                    let message = format!(
                        "the worker {how} while {}{}; who sent the signal is not known",
                        self.phase,
                        self.inside()
                    );
                    return Some(Err(TaskError {
                        outcome: Outcome::PluginDied,
                        message,
                        next_step: Some(AFTER_KILL.to_owned()),
                        phase: Some(self.phase),
                        calls: Calls::Unknown,
                    }));
                }
                let warned = self.last_warning.take();
                let warned = warned.map(|line| format!("; its last WARN: {line}"));
                let printed = self.last_on_stderr.text().map(str::trim);
                let printed = printed.map(|line| format!("; its last line on stderr: {line}"));
                let message = format!(
                    "the plugin {how} while {}{}{}{}",
                    self.phase,
                    self.inside(),
                    warned.unwrap_or_default(),
                    printed.unwrap_or_default()
                );
                return Some(Err(TaskError {
                    outcome: Outcome::PluginDied,
                    message,
                    next_step: None,
                    phase: Some(self.phase),
                    calls: Calls::Unknown,
                }));
            }
        }
        None
    }

    /// Waits for what the agent says of the calls of a worker that is out of its time.
    fn hear_of_calls(&mut self, agent: &Agent, events: &mpsc::Receiver<AgentEvent>) {
        let until = Instant::now() + TOLD_MAX;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            agent.beat();
            match events.recv_timeout(left.min(HEARTBEAT)) {
                Ok(AgentEvent::Message(ReceivedMessage { message, .. })) => match message {
                    AgentMessage::Calls { do_return, inside } => {
                        self.inside = inside;
                        if do_return {
                            self.calls = Calls::Return;
                        }
                        return;
                    }
                    AgentMessage::Worker(WorkerMessage::RowSoFar(so_far)) => {
                        self.so_far = Some(so_far)
                    }
                    _ => {}
                },
                Ok(AgentEvent::Gone(_)) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(AgentEvent::Text(..)) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn inside(&self) -> String {
        self.inside
            .as_ref()
            .map(|call| format!(", inside {call}"))
            .unwrap_or_default()
    }

    /// The problem of a worker that has not finished in time. The plugin hangs if a call has not
    /// returned, or in a phase in which a worker does nothing but call it. A worker that is only
    /// starting has not loaded it.
    fn is_late(&self, wait: &Wait<'_>) -> TaskError {
        let seconds = wait.patience.as_secs_f64();
        let unfinished = format!("not finished within {seconds:.0} s");
        let (calls, what) = match (self.phase, &self.inside) {
            _ if wait.is_starved() => {
                let no_cpu = wait.no_cpu.as_secs_f64();
                let what = format!("{unfinished}, and waited for a CPU for {no_cpu:.0} s,");
                (self.calls, what)
            }
            (Phase::Starting | Phase::Checking, None) => (self.calls, unfinished),
            _ if self.calls == Calls::Return => {
                let what = format!("out of its {seconds:.0} s, although each call still returned,");
                (Calls::Return, what)
            }
            _ => (Calls::Hang, "the plugin hangs".to_owned()),
        };
        let so_far = self.so_far.as_ref();
        let message = format!(
            "{what} while {}{}{}; the worker was killed",
            self.phase,
            self.inside(),
            so_far.map_or_else(String::new, |so_far| format!(", at {so_far}")),
        );
        TaskError {
            phase: Some(self.phase),
            calls,
            ..TaskError::not_run(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn is_over(wait: &mut Wait<'_>) -> bool {
        let (_sender, nothing) = mpsc::channel::<()>();
        matches!(wait.next(&nothing), Err(Silence::Over))
    }

    #[test]
    fn an_interruption_loses_no_message_that_has_arrived() {
        let interrupted = AtomicBool::new(true);
        let (sender, heard) = mpsc::channel();
        sender.send("the path of a recorder").unwrap();
        let mut wait = Wait::new(PATIENCE, &interrupted);
        assert!(matches!(wait.next(&heard), Err(Silence::Over)));
        assert!(heard.try_recv().is_ok());
    }

    #[test]
    fn time_without_a_cpu_moves_the_deadline_within_a_bound() {
        let interrupted = AtomicBool::new(false);
        let mut wait = Wait::new(PATIENCE, &interrupted);
        wait.until -= PATIENCE;
        assert!(is_over(&mut wait));
        wait.extend(PATIENCE);
        assert!(!is_over(&mut wait) && !wait.is_starved());
        let began = wait.until - PATIENCE;
        (0..100).for_each(|_| wait.extend(PATIENCE));
        assert_eq!(wait.until - began, PATIENCE * NO_CPU_MAX);
        assert!(wait.is_starved());
    }

    #[test]
    fn what_a_plugin_printed_before_it_died_is_told() {
        let mut answer = Answer::awaited(Phase::Initialising, |_| None::<()>);
        answer.inside = Some("init".into());
        for (stream, text) in [
            (
                "stderr",
                "terminate called after throwing an instance of 'int'",
            ),
            ("stderr", "  what():  no device"),
            ("stderr", "    @     0x7f6ffb96f17f  plugin_init"),
            ("stdout", "hello"),
        ] {
            let text = text.to_owned();
            assert!(answer.hear(WorkerEvent::Output { stream, text }).is_none());
        }
        let (code, signal) = (None, Some(6));
        let died = answer.hear(WorkerEvent::Exited { code, signal });
        let Some(Err(error)) = died else {
            panic!("no error")
        };
        let told = "inside init; its last line on stderr: terminate called after throwing an instance of 'int' what():  \
                    no device";
        assert!(error.message.ends_with(told), "{}", error.message);
    }

    #[test]
    fn a_worker_that_a_signal_from_outside_ended_is_not_said_to_be_the_plugins_death() {
        let died = |signal| {
            let mut answer = Answer::awaited(Phase::Checking, |_| None::<()>);
            answer.inside = Some("test".into());
            answer.last_warning = Some("No free space".into());
            let ended = WorkerEvent::Exited {
                code: None,
                signal: Some(signal),
            };
            let told = answer.hear(ended).and_then(Result::err);
            told.expect("an error")
        };
        let killed = died(9);
        let told = "the worker was killed by signal 9 (SIGKILL) while trying this row, inside test; who sent the \
                    signal is not known";
        assert_eq!(killed.message, told);
        assert_eq!(killed.outcome, Outcome::PluginDied);
        assert!(
            died(11)
                .message
                .starts_with("the plugin was killed by signal 11 (SIGSEGV)")
        );
    }

    #[test]
    fn a_plugin_that_got_no_cpu_is_not_said_to_hang() {
        let interrupted = AtomicBool::new(false);
        let mut wait = Wait::new(PATIENCE, &interrupted);
        let mut answer = Answer::awaited(Phase::Checking, |_| None::<()>);
        answer.inside = Some("accept".into());
        wait.extend(PATIENCE);
        let hangs = "the plugin hangs while trying this row, inside accept; the worker was killed";
        let late = answer.is_late(&wait);
        assert_eq!((late.message.as_str(), late.calls), (hangs, Calls::Hang));
        answer.calls = Calls::Return;
        let slow = answer.is_late(&wait);
        let told = "out of its 30 s, although each call still returned, while trying this row, inside accept; the \
                    worker was killed";
        assert_eq!(slow.message, told);
        assert_eq!(slow.calls, Calls::Return);
        wait.extend(PATIENCE * NO_CPU_MAX);
        let starved = "not finished within 30 s, and waited for a CPU for 300 s, while trying \
                       this row, inside accept; the worker was killed";
        assert_eq!(answer.is_late(&wait).message, starved);
    }
}
