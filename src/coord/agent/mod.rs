//! The agent: one per node, between coordinator and worker.
//!
//! It loads no plugin. It starts the worker, passes messages through, reads the
//! worker's recorder from outside, so even a worker stuck inside one plugin call
//! is seen, declares a stall, and leaves nothing behind: when its stdin ends or
//! the coordinator has been silent for 8 s, the worker is killed and its
//! recorder removed.
//!
//! `stall_watch.rs` says when channels stand still; `one_gpu.rs` narrows what a worker
//! sees where its plugin cannot be told of one GPU.
#![forbid(unsafe_code)]

mod one_gpu;
mod stall_watch;

use crate::process::spawn::inherited;
use crate::process::supervise::{Heard, Worker};
use crate::protocol::limits::{HEARTBEAT, OVERSLEPT, SILENCE_MAX};
use crate::protocol::message::{
    Addressed, FromAgent, FromWorker, Launch, NoPlugin, PROTOCOL, ProcessOrder, ToAgent, ToWorker,
    WORKERS_MAX,
};
use crate::protocol::variables::choose;
use crate::protocol::wire::{Received, Receiver, Sender};
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use rustix::process::{Signal, getpid, kill_process};
use stall_watch::{StallWatch, Verdict};
use std::collections::BTreeMap;
use std::io::{self, Stdin, Stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tcpx_node::{NodeFacts, Root};
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::phase::{Exit, Phase};
use tcpx_run_model::record::live::{RecorderFilter, Recorders};
use tcpx_run_model::record::sample::Sampler;
use tcpx_run_model::record::{ChannelNow, Frame};
use tcpx_run_model::scenario::ProcessFault;

/// Between two looks at the recorder.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Between two looks at what somebody watches.
const WATCH_EVERY: Duration = Duration::from_millis(50);

enum Input {
    Coordinator(Addressed),
    CoordinatorGone,
    Worker(u32, Heard),
    Frame(u32, Box<Frame>),
}

struct Agent {
    to_coordinator: Sender<Stdout>,
    inputs: mpsc::Receiver<Input>,
    to_inputs: mpsc::Sender<Input>,
    workers: BTreeMap<u32, Running>,
    watched: Option<Recorders>,
}

struct Running {
    worker: Worker,
    phase: Phase,
    sampler: Option<Sampler>,
    /// Interfaces of its plugin.
    nics: Vec<String>,
    stall: StallWatch,
    looks: usize,
    kill_at: Option<Instant>,
    killed: bool,
    fault: Option<ProcessOrder>,
}

/// Serves one coordinator over stdin and stdout.
pub fn main() -> ExitCode {
    if std::env::var_os(BOOT_VARIABLE).is_some() {
        // The shell line that started us from it left it open.
        drop(inherited(BOOT_FD));
    }
    let (to_inputs, inputs) = mpsc::channel();
    let for_reader = to_inputs.clone();
    std::thread::spawn(move || read_coordinator(io::stdin(), &for_reader));
    let mut agent = Agent {
        to_coordinator: Sender::new(io::stdout()),
        inputs,
        to_inputs,
        workers: BTreeMap::new(),
        watched: None,
    };
    let hello = FromAgent::Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        facts: Box::new(NodeFacts::read(&Root::live())),
        reached_at: reached_at(std::env::var("SSH_CONNECTION").ok().as_deref()),
    };
    agent.say(0, &hello);
    agent.serve();
    ExitCode::SUCCESS
}

/// Set by the shell line of `reach::install`, which runs us from a descriptor.
const BOOT_VARIABLE: &str = "TCPXCTL_BOOT";
const BOOT_FD: i32 = 3;

/// `CLIENT PORT SERVER PORT`, as sshd sets it.
fn reached_at(connection: Option<&str>) -> Option<IpAddr> {
    connection?.split(' ').nth(2)?.parse().ok()
}

fn read_coordinator(stdin: Stdin, inputs: &mpsc::Sender<Input>) {
    let mut receiver = Receiver::new(stdin);
    while let Ok(Some(received)) = receiver.next() {
        if let Received::Message(message) = received
            && inputs.send(Input::Coordinator(message)).is_err()
        {
            return;
        }
    }
    let _ = inputs.send(Input::CoordinatorGone);
}

impl Agent {
    fn say(&self, number: u32, message: &FromAgent) {
        // A coordinator that is gone shows as the end of stdin.
        let _ = self
            .to_coordinator
            .send(&(tcpx_words::units::now_us(), number, message));
    }

    fn serve(&mut self) {
        let mut heard_at = Instant::now();
        let (mut beat_at, mut sample_at) =
            (Instant::now() + HEARTBEAT, Instant::now() + SAMPLE_EVERY);
        let mut watch_at = Instant::now();
        loop {
            let began = Instant::now();
            let next = if !self.workers.is_empty() {
                beat_at.min(sample_at)
            } else {
                beat_at
            };
            let next = if self.watched.is_some() {
                next.min(watch_at)
            } else {
                next
            };
            match self
                .inputs
                .recv_timeout(next.saturating_duration_since(Instant::now()))
            {
                Ok(Input::Coordinator((number, message))) => {
                    heard_at = Instant::now();
                    self.obey(number, message);
                }
                Ok(Input::CoordinatorGone) => break,
                Ok(Input::Worker(number, heard)) => self.relay(number, heard),
                Ok(Input::Frame(number, frame)) => self.say(number, &FromAgent::Frozen(frame)),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if now.duration_since(began) > OVERSLEPT {
                heard_at = now;
            }
            if now >= sample_at {
                sample_at = now + SAMPLE_EVERY;
                let numbers: Vec<u32> = self.workers.keys().copied().collect();
                numbers
                    .into_iter()
                    .for_each(|number| self.look(number, now));
            }
            if now >= watch_at {
                watch_at = now + WATCH_EVERY;
                self.watch();
            }
            if now >= beat_at {
                beat_at = now + HEARTBEAT;
                self.say(0, &FromAgent::Heartbeat);
            }
            if now.duration_since(heard_at) > SILENCE_MAX {
                break;
            }
        }
        self.end_workers();
    }

    fn obey(&mut self, number: u32, message: ToAgent) {
        match message {
            ToAgent::Launch(launch) => self.launch(number, *launch),
            ToAgent::ToWorker(message) => {
                if let Some(running) = self.workers.get(&number) {
                    running.worker.tell(&message);
                }
            }
            ToAgent::Stop { grace_ms } => {
                if let Some(running) = self.workers.get_mut(&number) {
                    running.worker.tell(&ToWorker::Stop);
                    running.kill_at =
                        Some(Instant::now() + Duration::from_millis(grace_ms.min(60_000)));
                }
            }
            ToAgent::Snapshot => {
                let channels = self
                    .workers
                    .get_mut(&number)
                    .map(Running::now)
                    .unwrap_or_default();
                self.say(number, &FromAgent::Sample(channels));
            }
            ToAgent::Freeze => self.freeze(number),
            ToAgent::Choose(wanted) => {
                self.say(
                    number,
                    &FromAgent::Chosen(choose(&wanted).map_err(NoPlugin::from)),
                );
            }
            ToAgent::Watch { which, closely } => {
                let watched = self
                    .watched
                    .take()
                    .filter(|watched| *watched.which() == which);
                self.watched
                    .insert(watched.unwrap_or_else(|| Recorders::new(which)))
                    .want(closely);
            }
            ToAgent::Heartbeat { us } => self.say(number, &FromAgent::Echo { us }),
        }
    }

    /// Takes a freeze-frame beside the loop: a file under `/proc` may make its
    /// reader wait, and then there is none.
    fn freeze(&mut self, number: u32) {
        let Some(running) = self.workers.get_mut(&number) else {
            return;
        };
        let (pid, nics, channels) = (running.worker.pid, running.nics.clone(), running.now());
        let in_call = running.sampler.as_mut().and_then(Sampler::in_call);
        let inputs = self.to_inputs.clone();
        std::thread::spawn(move || {
            let frame = Frame::take(pid, &nics, channels, in_call);
            // An agent that has ended wants none.
            let _ = inputs.send(Input::Frame(number, Box::new(frame)));
        });
    }

    /// Tells what the recorders of this node show.
    fn watch(&mut self) {
        let Some(recorders) = &mut self.watched else {
            return;
        };
        let mut events: Vec<Event> = Vec::new();
        // Only a file that was named can be an error.
        let _ = recorders.look(tcpx_words::units::now_us() * 1000, &mut events);
        if matches!(recorders.which(), RecorderFilter::Workers(_)) {
            events.retain(|event| matches!(event.kind, EventKind::Detail(_)));
        }
        if !events.is_empty() {
            self.say(0, &FromAgent::Watched(events));
        }
    }

    fn launch(&mut self, number: u32, launch: Launch) {
        if number >= WORKERS_MAX || self.workers.contains_key(&number) {
            return self.say(
                number,
                &FromAgent::Broken(format!("there can be no worker {number}, or there is one")),
            );
        }
        let inputs = self.to_inputs.clone();
        let heard = move |heard| drop(inputs.send(Input::Worker(number, heard)));
        let (env, said) = one_gpu::environment(&launch, |name| std::env::var_os(name).is_some());
        if let Some(text) = said {
            self.say(
                number,
                &FromAgent::Output {
                    stream: "stderr".into(),
                    text,
                },
            );
        }
        match Worker::start(&env, heard) {
            Ok(worker) => {
                worker.tell(&ToWorker::Start(Box::new(launch.task)));
                let running = Running {
                    worker,
                    phase: Phase::Starting,
                    sampler: None,
                    nics: Vec::new(),
                    stall: StallWatch::new(Duration::from_millis(launch.stall_after_ms)),
                    looks: 0,
                    kill_at: None,
                    killed: false,
                    fault: launch.fault,
                };
                self.workers.insert(number, running);
            }
            Err(error) => self.say(
                number,
                &FromAgent::Broken(format!("cannot start a worker: {error}")),
            ),
        }
    }

    fn relay(&mut self, number: u32, heard: Heard) {
        let message = match heard {
            Heard::Message(message) => {
                if let Some(running) = self.workers.get_mut(&number) {
                    match &message {
                        FromWorker::Phase(phase) => running.phase = *phase,
                        FromWorker::Recorder(path) => {
                            running.sampler = Some(Sampler::new(path.clone()))
                        }
                        FromWorker::Loaded(loaded) => {
                            running.nics = loaded
                                .devices
                                .iter()
                                .map(|device| device.name.clone())
                                .collect();
                        }
                        _ => {}
                    }
                }
                FromAgent::Worker(message)
            }
            Heard::Log(line) => FromAgent::PluginLine(line),
            Heard::Output { stream, text } => FromAgent::Output {
                stream: stream.to_owned(),
                text,
            },
            Heard::Exited { code, signal } => {
                let Some(mut running) = self.workers.remove(&number) else {
                    return;
                };
                let channels = running.now();
                let in_call = running.sampler.as_mut().and_then(Sampler::in_call);
                if let Some(sampler) = &running.sampler {
                    self.hand_over(number, sampler);
                }
                running.remove_recorder();
                let exit = Exit {
                    code,
                    signal,
                    killed: running.killed,
                    phase: running.phase,
                    in_call,
                    channels,
                };
                FromAgent::Exited(exit)
            }
        };
        self.say(number, &message);
    }

    /// Sends the recorder's file, for the record of the run.
    fn hand_over(&self, number: u32, sampler: &Sampler) {
        for (offset, bytes) in sampler.pieces() {
            self.say(
                number,
                &FromAgent::Recording {
                    offset,
                    base64: BASE64.encode(bytes),
                },
            );
        }
    }

    /// One look at the recorder: a sample, and perhaps a verdict.
    fn look(&mut self, number: u32, now: Instant) {
        let Some(running) = self.workers.get_mut(&number) else {
            return;
        };
        if running.kill_at.is_some_and(|at| now >= at) {
            running.kill_at = None;
            running.killed = true;
            running.worker.kill();
        }
        if !matches!(running.phase, Phase::WarmUp | Phase::Measuring) {
            return;
        }
        let channels = running.now();
        running.commit_fault(&channels);
        let verdict = running.stall.look(&channels, now);
        if running.is_due(channels.len()) {
            self.say(number, &FromAgent::Sample(channels));
        }
        match verdict {
            Verdict::Quiet => {}
            Verdict::Stalled(channels) => self.say(number, &FromAgent::Stall(channels)),
            Verdict::Recovered => self.say(number, &FromAgent::Recovered),
        }
    }

    fn end_workers(&mut self) {
        for running in self.workers.values_mut() {
            running.worker.kill();
            running.remove_recorder();
        }
    }
}

/// Channels of one sample that are passed on at every look; with more, looks are
/// passed over, so that reading along costs the same.
const CHANNELS_PER_LOOK: usize = 16;

impl Running {
    /// Whether this look is passed on.
    fn is_due(&mut self, channels: usize) -> bool {
        self.looks += 1;
        self.looks
            .is_multiple_of(channels.div_ceil(CHANNELS_PER_LOOK).clamp(1, 10))
    }

    fn now(&mut self) -> Vec<ChannelNow> {
        self.sampler.as_mut().map(Sampler::now).unwrap_or_default()
    }

    /// Does to the worker what was ordered, once it has come as far.
    fn commit_fault(&mut self, channels: &[ChannelNow]) {
        let done: u64 = channels.iter().map(|channel| channel.done).sum();
        let Some(order) = self.fault.take_if(|order| done >= order.after_chunk) else {
            return;
        };
        match order.kind {
            ProcessFault::Stop => self.worker.signal(Signal::STOP),
            ProcessFault::Kill => self.worker.signal(Signal::KILL),
            ProcessFault::Crash => self.worker.signal(Signal::ABORT),
            ProcessFault::Exit => self.worker.tell(&ToWorker::Exit),
            // Nobody hears of it, and the worker ends with its stream.
            ProcessFault::KillAgent => _ = kill_process(getpid(), Signal::KILL),
        }
    }

    fn remove_recorder(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            sampler.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_login_is_the_servers() {
        assert_eq!(
            reached_at(Some("10.0.1.25 50022 10.0.0.226 22")),
            "10.0.0.226".parse().ok()
        );
        assert_eq!(reached_at(Some("junk")), None);
        assert_eq!(reached_at(None), None);
    }
}
