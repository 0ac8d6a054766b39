//! The agent: one per node, between coordinator and worker.
//!
//! It loads no plugin. It starts the workers of its node and passes messages through. It reads
//! each worker's recorder from outside, which works even while the worker is stuck in a plugin
//! call, and declares stalls. When its stdin ends or the coordinator has been silent for 8 s, it
//! kills the workers and removes their recorders; so it does on SIGTERM, on SIGINT from `serve` and, as a launcher's task,
//! when the launcher's process that started it is gone, and says so.
//!
//! `starter.rs` knows that process. `stall_watch.rs` decides when channels stand still, `connect_watch.rs` when a worker
//! connects for long, `stop_order.rs` when a worker is told to stop. `one_gpu.rs` shows a worker a single GPU if its plugin
//! cannot be told which one to use.
#![forbid(unsafe_code)]

mod connect_watch;
mod one_gpu;
mod stall_watch;
mod starter;
mod stop_order;

use crate::dial::dial;
use crate::process::leftovers::{remove_recorder, sweep_recorders};
use crate::process::no_cpu::NoCpu;
use crate::process::spawn::inherited;
use crate::process::supervise::{Worker, WorkerEvent};
use crate::protocol::limits::{HEARTBEAT, OVERSLEPT, RETURNS_MAX, SILENCE_MAX};
use crate::protocol::message::{
    AddressedOrder, AgentMessage, CoordinatorOrder, Launch, NoPlugin, PROTOCOL, ProcessOrder,
    WORKERS_MAX, WorkerMessage, WorkerOrder,
};
use crate::protocol::variables::choose;
use crate::protocol::wire::{QueuedSender, Received, Receiver};
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use connect_watch::ConnectWatch;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stall_watch::{StallChange, StallWatch};
use starter::Starter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use stop_order::StopOrder;
use tcpx_bootstrap::Secret;
use tcpx_node::{NodeFacts, Root};
use tcpx_recorder::EndedHow;
use tcpx_run_model::counters::sample::Sampler;
use tcpx_run_model::counters::{ChannelNow, Frame};
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::live::{RecorderFilter, Recorders};
use tcpx_run_model::phase::{Exit, Phase};
use tcpx_run_model::scenario::ProcessFault;

/// Time between two samples of a worker's recorder.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Time between two samples of the recorders that a view watches.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Longest time to write the last messages to a coordinator that may have been stopped.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

enum AgentInput {
    Coordinator(AddressedOrder),
    CoordinatorGone,
    Worker(u32, WorkerEvent),
    Frame(u32, FrameFor, Box<Frame>),
    Calls(u32, AgentMessage),
    Terminated(i32),
}

/// Who wants a freeze-frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameFor {
    Coordinator,
    /// [`ConnectWatch`].
    Connect,
}

struct Agent {
    to_coordinator: QueuedSender,
    inputs: mpsc::Receiver<AgentInput>,
    to_inputs: mpsc::Sender<AgentInput>,
    workers: BTreeMap<u32, Running>,
    watched: Option<Recorders>,
    /// Whether the coordinator was told what they have.
    has_answered: bool,
    /// Of a launcher's task.
    starter: Option<Starter>,
}

struct Running {
    worker: Worker,
    phase: Phase,
    sampler: Option<Sampler>,
    /// Interface names of its plugin's devices.
    nics: Vec<String>,
    stall: StallWatch,
    connect: ConnectWatch,
    no_cpu: NoCpu,
    looks: usize,
    looks_per_sample: usize,
    kill_at: Option<Instant>,
    killed: bool,
    fault: Option<ProcessOrder>,
    sends_every_recording: bool,
    stop: StopOrder,
}

/// Serves one coordinator over stdin and stdout.
pub fn main() -> ExitCode {
    close_boot_descriptor();
    let reached_at = reached_at(std::env::var("SSH_CONNECTION").ok().as_deref());
    serve(io::stdin(), io::stdout(), reached_at, None)
}

/// Serves the coordinator that listens at one of `addresses`, as the node `name`.
///
/// # Errors
/// No coordinator with this secret listens there.
pub fn call(name: &str, addresses: &[SocketAddr], secret: &Secret) -> Result<ExitCode, String> {
    let starter = Starter::of_this_process();
    close_boot_descriptor();
    let (reader, writer) = dial(name, addresses, secret, &AtomicBool::new(false))?;
    let connection = writer.connection().ok();
    let reached_at = connection.and_then(|connection| Some(connection.local_addr().ok()?.ip()));
    Ok(serve(reader, writer, reached_at, Some(starter)))
}

fn close_boot_descriptor() {
    if std::env::var_os(BOOT_VARIABLE).is_some() {
        // The shell line runs this program from the descriptor and leaves it open.
        drop(inherited(BOOT_FD));
    }
}

fn serve(
    from_coordinator: impl Read + Send + 'static,
    to_coordinator: impl Write + Send + 'static,
    reached_at: Option<IpAddr>,
    starter: Option<Starter>,
) -> ExitCode {
    sweep_recorders();
    let (to_inputs, inputs) = mpsc::channel();
    let for_reader = to_inputs.clone();
    std::thread::spawn(move || read_coordinator(from_coordinator, &for_reader));
    let for_signals = to_inputs.clone();
    std::thread::spawn(move || await_signal(&for_signals));
    let mut agent = Agent {
        to_coordinator: QueuedSender::new(to_coordinator),
        inputs,
        to_inputs,
        workers: BTreeMap::new(),
        watched: None,
        has_answered: false,
        starter,
    };
    let mut facts = NodeFacts::read(&Root::live());
    facts.host.physical = tcpx_node::physical_host(&Root::live());
    let hello = AgentMessage::Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build_id(File::open("/proc/self/exe")),
        pid: std::process::id(),
        facts: Box::new(facts),
        reached_at,
    };
    agent.say(0, &hello);
    agent.serve();
    agent.to_coordinator.finish(LAST_WORDS_MAX);
    ExitCode::SUCCESS
}

/// Where the linker's note is: at the beginning of the file.
const NOTES_BYTES_MAX: u64 = 64 << 10;
/// The note's header: lengths of its name and id, its type, its name.
const BUILD_ID_NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
const BUILD_ID_BYTES: usize = 20;

/// The linker's id of an executable; `None` if it has none.
fn build_id(program: io::Result<impl Read>) -> Option<String> {
    let mut bytes = Vec::new();
    let mut notes = program.ok()?.take(NOTES_BYTES_MAX);
    notes.read_to_end(&mut bytes).ok()?;
    let at = memchr::memmem::find(&bytes, BUILD_ID_NOTE)? + BUILD_ID_NOTE.len();
    let id = bytes.get(at..at + BUILD_ID_BYTES)?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Set by the shell line of `reach::install`, which runs the program from descriptor `BOOT_FD`.
const BOOT_VARIABLE: &str = "TCPXCTL_BOOT";
const BOOT_FD: i32 = 3;

/// `CLIENT PORT SERVER PORT`, as sshd sets it.
fn reached_at(connection: Option<&str>) -> Option<IpAddr> {
    connection?.split(' ').nth(2)?.parse().ok()
}

/// A signal that cannot be caught ends the agent, and its workers with their control streams.
fn await_signal(inputs: &mpsc::Sender<AgentInput>) {
    let Ok(mut signals) = Signals::new([SIGTERM, SIGINT]) else {
        return;
    };
    if let Some(signal) = signals.forever().next() {
        // The agent may have ended.
        let _ = inputs.send(AgentInput::Terminated(signal));
    }
}

/// Why an agent that got this signal ends.
fn why_terminated(signal: i32) -> &'static str {
    match signal {
        SIGINT => "`tcpxctl serve`, which had started it, was ended",
        _ => "it got SIGTERM, as from scancel, a time limit or a launcher that ends",
    }
}

fn read_coordinator(from: impl Read, inputs: &mpsc::Sender<AgentInput>) {
    let mut receiver = Receiver::new(from);
    while let Ok(Some(received)) = receiver.next() {
        if let Received::Message(message) = received
            && inputs.send(AgentInput::Coordinator(message)).is_err()
        {
            return;
        }
    }
    let _ = inputs.send(AgentInput::CoordinatorGone);
}

impl Agent {
    fn say(&self, number: u32, message: &AgentMessage) {
        // Errors are ignored: the end of stdin shows that the coordinator is gone.
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
                Ok(AgentInput::Coordinator((number, message))) => {
                    heard_at = Instant::now();
                    self.dispatch(number, message);
                }
                Ok(AgentInput::CoordinatorGone) => break,
                Ok(AgentInput::Worker(number, heard)) => self.relay(number, heard),
                Ok(AgentInput::Calls(number, calls)) => self.say(number, &calls),
                Ok(AgentInput::Frame(number, wanted, frame)) => {
                    self.frame(number, wanted, frame);
                    if let Some(running) = self.workers.get_mut(&number) {
                        running.stop.frame_ends();
                        running.stop_if_due(Instant::now());
                    }
                }
                Ok(AgentInput::Terminated(signal)) => {
                    self.leaves(why_terminated(signal));
                    break;
                }
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
                self.say(0, &AgentMessage::Heartbeat);
                if let Some(why) = self.starter.as_ref().and_then(Starter::is_gone) {
                    self.leaves(&why);
                    break;
                }
            }
            if now.duration_since(heard_at) > SILENCE_MAX {
                break;
            }
        }
        self.end_workers();
    }

    fn leaves(&self, why: &str) {
        self.say(0, &AgentMessage::Leaving(why.to_owned()));
    }

    fn dispatch(&mut self, number: u32, message: CoordinatorOrder) {
        match message {
            CoordinatorOrder::Launch(launch) => self.launch(number, *launch),
            CoordinatorOrder::ToWorker(message) => {
                if let Some(running) = self.workers.get(&number) {
                    running.worker.tell(&message);
                }
            }
            CoordinatorOrder::Stop { grace_ms } => {
                self.release(number);
                if let Some(running) = self.workers.get_mut(&number) {
                    let now = Instant::now();
                    running.kill_at = Some(now + Duration::from_millis(grace_ms.min(60_000)));
                    running.stop.give(now);
                    running.stop_if_due(now);
                }
            }
            CoordinatorOrder::Snapshot => {
                let channels = self
                    .workers
                    .get_mut(&number)
                    .map(Running::now)
                    .unwrap_or_default();
                self.say(number, &AgentMessage::Sample(channels));
            }
            CoordinatorOrder::WatchCalls => self.watch_calls(number),
            CoordinatorOrder::Freeze => self.freeze(number, FrameFor::Coordinator),
            CoordinatorOrder::Choose(wanted) => {
                self.say(
                    number,
                    &AgentMessage::Chosen(choose(&wanted).map_err(NoPlugin::from)),
                );
            }
            CoordinatorOrder::Watch { which, focused } => {
                let watched = self
                    .watched
                    .take()
                    .filter(|watched| *watched.which() == which);
                self.has_answered = watched.is_some();
                self.watched
                    .insert(watched.unwrap_or_else(|| Recorders::new(which)))
                    .want(focused);
            }
            CoordinatorOrder::Heartbeat { us } => self.say(number, &AgentMessage::Echo { us }),
        }
    }

    /// Takes a freeze-frame in a thread, because reading a file under `/proc` may block; then
    /// there is no freeze-frame.
    fn freeze(&mut self, number: u32, wanted: FrameFor) {
        let Some(running) = self.workers.get_mut(&number) else {
            return;
        };
        let (pid, nics, channels) = (running.worker.pid, running.nics.clone(), running.now());
        let in_call = running.sampler.as_mut().and_then(Sampler::in_call);
        running.stop.frame_begins();
        let inputs = self.to_inputs.clone();
        std::thread::spawn(move || {
            let frame = Frame::take(pid, &nics, channels, in_call);
            // The agent may have ended.
            let _ = inputs.send(AgentInput::Frame(number, wanted, Box::new(frame)));
        });
    }

    /// Looks in a thread whether calls return, because that takes a while.
    fn watch_calls(&self, number: u32) {
        let running = self.workers.get(&number);
        let mut sampler = running.and_then(|running| Some(running.sampler.as_ref()?.again()));
        let inputs = self.to_inputs.clone();
        std::thread::spawn(move || {
            let sampler = sampler.as_mut();
            let (do_return, inside) = sampler.map_or((false, None), |sampler| {
                let do_return = sampler.calls_return_within(RETURNS_MAX);
                (do_return, sampler.in_call())
            });
            let calls = AgentMessage::Calls { do_return, inside };
            // The agent may have ended.
            let _ = inputs.send(AgentInput::Calls(number, calls));
        });
    }

    /// Sends a freeze-frame, or keeps it.
    fn frame(&mut self, number: u32, wanted: FrameFor, frame: Box<Frame>) {
        let frame = match (wanted, self.workers.get_mut(&number)) {
            (FrameFor::Connect, Some(running)) => running.connect.keep(frame),
            (FrameFor::Connect, None) => None,
            (FrameFor::Coordinator, _) => Some(frame),
        };
        if let Some(frame) = frame {
            self.say(number, &AgentMessage::Frozen(frame));
        }
    }

    /// Sends the freeze-frame of a worker that will not be connected.
    fn release(&mut self, number: u32) {
        let running = self.workers.get_mut(&number);
        if let Some(frame) = running.and_then(|running| running.connect.release()) {
            self.say(number, &AgentMessage::Frozen(frame));
        }
    }

    /// Sends the events of the watched recorders.
    fn watch(&mut self) {
        let Some(recorders) = &mut self.watched else {
            return;
        };
        let mut events: Vec<Event> = Vec::new();
        // `look` fails only for a single named file, which no order asks for.
        let _ = recorders.look(tcpx_words::units::now_us() * 1000, &mut events);
        let found = match recorders.which() {
            RecorderFilter::Workers(_) => {
                events.retain(|event| matches!(event.kind, EventKind::Detail(_)));
                Vec::new()
            }
            _ => recorders.newly_found(),
        };
        if !found.is_empty() {
            self.say(0, &AgentMessage::Found(found));
        }
        // That there is nothing is told once.
        if !events.is_empty() || !self.has_answered {
            self.has_answered = true;
            self.say(0, &AgentMessage::Watched(events));
        }
    }

    fn launch(&mut self, number: u32, launch: Launch) {
        let refusal = if self.workers.contains_key(&number) {
            Some(format!("worker number {number} is in use"))
        } else if self.workers.len() >= WORKERS_MAX {
            Some(format!("{WORKERS_MAX} workers run already"))
        } else {
            None
        };
        if let Some(why) = refusal {
            return self.say(number, &AgentMessage::Broken(why));
        }
        let inputs = self.to_inputs.clone();
        let heard = move |heard| drop(inputs.send(AgentInput::Worker(number, heard)));
        let (env, said) = one_gpu::environment(&launch, |name| std::env::var_os(name).is_some());
        if let Some(text) = said {
            self.say(
                number,
                &AgentMessage::Output {
                    stream: "stderr".into(),
                    text,
                },
            );
        }
        match Worker::start(&env, heard) {
            Ok(worker) => {
                worker.tell(&WorkerOrder::Start(Box::new(launch.task)));
                let running = Running {
                    worker,
                    phase: Phase::Starting,
                    sampler: None,
                    nics: Vec::new(),
                    stall: StallWatch::new(Duration::from_millis(launch.stall_after_ms)),
                    connect: ConnectWatch::default(),
                    no_cpu: NoCpu::default(),
                    looks: 0,
                    looks_per_sample: launch.looks_per_sample,
                    kill_at: None,
                    killed: false,
                    fault: launch.fault,
                    sends_every_recording: launch.sends_every_recording,
                    stop: StopOrder::default(),
                };
                self.workers.insert(number, running);
            }
            Err(error) => self.say(
                number,
                &AgentMessage::Broken(format!("cannot start a worker: {error}")),
            ),
        }
    }

    fn relay(&mut self, number: u32, heard: WorkerEvent) {
        let message = match heard {
            WorkerEvent::Message(mut message) => {
                if matches!(message, WorkerMessage::Failed(_)) {
                    self.release(number);
                }
                if let Some(running) = self.workers.get_mut(&number) {
                    match &mut message {
                        WorkerMessage::Phase(phase) => {
                            running.phase = *phase;
                            running.connect.enters(*phase, Instant::now());
                        }
                        WorkerMessage::Recorder(path) => {
                            running.sampler = Some(Sampler::new(path.clone()))
                        }
                        WorkerMessage::Loaded(loaded) => {
                            running.nics = loaded
                                .devices
                                .iter()
                                .map(|device| device.name.clone())
                                .collect();
                        }
                        WorkerMessage::Transfer(result) => {
                            let channels = result.channels.iter_mut();
                            let counters = channels.filter_map(|one| one.counters.as_mut());
                            if let Some(sampler) = &mut running.sampler {
                                sampler.note_waits(counters);
                            }
                        }
                        _ => {}
                    }
                }
                AgentMessage::Worker(message)
            }
            WorkerEvent::Log(line) => AgentMessage::PluginLine(line),
            WorkerEvent::Output { stream, text } => AgentMessage::Output {
                stream: stream.to_owned(),
                text,
            },
            WorkerEvent::Exited { code, signal } => {
                self.release(number);
                let Some(mut running) = self.workers.remove(&number) else {
                    return;
                };
                let how = match (code, signal) {
                    (Some(code), _) => EndedHow::Exited(code),
                    (None, Some(signal)) => EndedHow::Killed(signal),
                    (None, None) => EndedHow::Unknown,
                };
                if let Some(sampler) = &running.sampler {
                    sampler.note_end(how);
                }
                let channels = running.now();
                let in_call = running.sampler.as_mut().and_then(Sampler::in_call);
                let is_wanted = running.sends_every_recording || code != Some(0);
                if let Some(sampler) = running.sampler.as_ref().filter(|_| is_wanted) {
                    self.hand_over(number, sampler);
                }
                remove_recorder(running.sampler.take());
                let exit = Exit {
                    code,
                    signal,
                    killed: running.killed,
                    phase: running.phase,
                    in_call,
                    channels,
                };
                AgentMessage::Exited(exit)
            }
        };
        self.say(number, &message);
    }

    /// Sends the recorder file, for the run folder.
    fn hand_over(&self, number: u32, sampler: &Sampler) {
        for (offset, bytes) in sampler.pieces() {
            self.say(
                number,
                &AgentMessage::Recording {
                    offset,
                    base64: BASE64.encode(bytes),
                },
            );
        }
    }

    /// Samples a worker's recorder, sends the counters, and declares a stall or a recovery.
    fn look(&mut self, number: u32, now: Instant) {
        let Some(running) = self.workers.get_mut(&number) else {
            return;
        };
        running.stop_if_due(now);
        if running.kill_at.is_some_and(|at| now >= at) {
            running.kill_at = None;
            running.killed = true;
            running.worker.kill();
        }
        if !matches!(running.phase, Phase::WarmUp | Phase::Measuring) {
            let is_due = running.connect.is_due(now);
            let no_cpu = running
                .no_cpu
                .since_last_look(running.worker.pid, now, HEARTBEAT);
            let ms = u64::try_from(no_cpu.as_millis()).unwrap_or(u64::MAX);
            if ms > 0 {
                self.say(number, &AgentMessage::NoCpu { ms });
            }
            if is_due {
                self.freeze(number, FrameFor::Connect);
            }
            return;
        }
        let channels = running.now();
        running.commit_fault(&channels);
        let verdict = running.stall.look(&channels, now);
        if running.is_due(channels.len()) {
            self.say(number, &AgentMessage::Sample(channels));
        }
        match verdict {
            StallChange::Quiet => {}
            StallChange::Stalled(channels) => self.say(number, &AgentMessage::Stall(channels)),
            StallChange::Recovered => self.say(number, &AgentMessage::Recovered),
        }
    }

    fn end_workers(&mut self) {
        for running in self.workers.values_mut() {
            running.worker.kill();
        }
        let named =
            |_: &u32, running: &mut Running| running.sampler.take().map(Sampler::remove).is_none();
        self.workers.retain(named);
        // The rest have not named their recorders, or have none; the files are found by writers
        // that have ended.
        let until = Instant::now() + END_MAX;
        while !self.workers.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            match self.inputs.recv_timeout(left) {
                Ok(AgentInput::Worker(number, WorkerEvent::Exited { .. })) => {
                    self.workers.remove(&number);
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        sweep_recorders();
    }
}

/// Time for killed workers to end when this process ends.
const END_MAX: Duration = Duration::from_secs(2);

/// A worker with at most this many channels has every sample sent; with more, samples are
/// skipped so that sending costs the same.
const CHANNELS_PER_LOOK: usize = 16;
/// Most looks per sample.
const LOOKS_MAX: usize = 10;

impl Running {
    fn stop_if_due(&mut self, now: Instant) {
        if self.stop.is_due(now) {
            self.worker.tell(&WorkerOrder::Stop);
        }
    }

    /// Whether to send this sample.
    fn is_due(&mut self, channels: usize) -> bool {
        self.looks += 1;
        let looks = channels.div_ceil(CHANNELS_PER_LOOK).max(1);
        let looks = looks.saturating_mul(self.looks_per_sample);
        self.looks.is_multiple_of(looks.clamp(1, LOOKS_MAX))
    }

    fn now(&mut self) -> Vec<ChannelNow> {
        self.sampler.as_mut().map(Sampler::now).unwrap_or_default()
    }

    /// Injects the process fault once enough chunks are done.
    fn commit_fault(&mut self, channels: &[ChannelNow]) {
        let done: u64 = channels.iter().map(|channel| channel.done).sum();
        let Some(order) = self.fault.take_if(|order| done >= order.after_chunk) else {
            return;
        };
        match order.kind {
            ProcessFault::Stop => self.worker.signal(Signal::STOP),
            ProcessFault::Kill => self.worker.signal(Signal::KILL),
            ProcessFault::Crash => self.worker.signal(Signal::ABORT),
            ProcessFault::Exit => self.worker.tell(&WorkerOrder::Exit),
            // Sends no message; the worker ends when its control stream closes.
            ProcessFault::KillAgent => _ = kill_process(getpid(), Signal::KILL),
            ProcessFault::EndAgent => _ = kill_process(getpid(), Signal::TERM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_told_by_the_note_of_the_linker() {
        let own = build_id(File::open("/proc/self/exe"));
        assert_eq!(own, build_id(File::open("/proc/self/exe")));
        let note = [
            b"\x7fELF".as_slice(),
            BUILD_ID_NOTE,
            &[0xab; BUILD_ID_BYTES],
        ]
        .concat();
        assert_eq!(build_id(Ok(&note[..])), Some("ab".repeat(BUILD_ID_BYTES)));
        assert_eq!(build_id(Ok(&note[..note.len() - 1])), None);
        assert_eq!(build_id(Ok(&b"no program"[..])), None);
    }

    #[test]
    fn the_address_is_that_of_the_ssh_server() {
        assert_eq!(
            reached_at(Some("10.0.1.25 50022 10.0.0.226 22")),
            "10.0.0.226".parse().ok()
        );
        assert_eq!(reached_at(Some("junk")), None);
        assert_eq!(reached_at(None), None);
    }
}
