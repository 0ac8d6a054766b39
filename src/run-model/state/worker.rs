//! State of one worker, or of one process that was found, from the events so far.
#![forbid(unsafe_code)]

use super::lines::{KeptLine, KeptLines};
use super::same_counts;
use crate::counters::ProcessFacts;
use crate::counters::{ChannelNow, Frame};
use crate::event::{EventKind, PluginReady};
use crate::ids::WorkerId;
use crate::phase::{Exit, Failure, Phase};
use crate::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use tcpx_words::log::LogSummary;
use tcpx_words::payload::{Mismatch, Tally};

/// Call counts that are kept, spread over the time that makes a stall.
const LOOKS: usize = 10;
/// Most freeze-frames that are kept of stalls that are over.
const EARLIER_FRAMES_MAX: usize = 4;
/// Most handshakes of one worker.
const HANDSHAKES_MAX: usize = 100_000;

/// A value with the time at which the coordinator received it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed<T> {
    /// Milliseconds since the command started.
    pub at_ms: f64,
    /// The value.
    #[serde(flatten)]
    pub what: T,
}

/// Call counts of a worker's channels at one moment, which the rules compare over a standstill.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSample {
    /// When they were sampled, milliseconds since the command started.
    pub at_ms: f64,
    /// Counts by the channel's index in the sample.
    pub channels: Vec<CallCounts>,
}

/// Calls of one channel since its comm was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCounts {
    /// All calls that have returned.
    pub calls: u64,
    /// Calls of `test`.
    pub tests: u64,
    /// Posts that returned success without a request: try again.
    pub null_requests: u64,
    /// Whether a call had not returned.
    pub in_call: bool,
    /// Milliseconds since a request last changed state.
    pub quiet_ms: u64,
    /// Of these, milliseconds in which a thread of its process waited for a CPU.
    pub no_cpu_ms: u64,
    /// The thread that drives it, if they are its own.
    pub thread: Option<u32>,
    /// Its turns on a CPU in that time.
    pub turns: u64,
}

impl CallCounts {
    /// The counts of one sampled channel.
    pub fn of_channel(one: &ChannelNow) -> Self {
        let calls = [
            one.posted,
            one.done,
            one.consumed,
            one.tests,
            one.rc_errors,
            one.null_requests,
        ];
        Self {
            calls: calls
                .iter()
                .fold(0, |sum: u64, count| sum.saturating_add(*count)),
            tests: one.tests,
            null_requests: one.null_requests,
            in_call: one.in_call.is_some(),
            quiet_ms: one.quiet_ms,
            no_cpu_ms: one.no_cpu_ms,
            thread: one.thread,
            turns: one.turns,
        }
    }

    /// Whether these counts and later ones show the same call, which has not returned between them.
    pub fn shows_one_call(&self, later: &Self) -> bool {
        self.in_call && later.in_call && self.calls == later.calls
    }
}

/// Counters of all channels at a stall or a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct StallPicture {
    /// When they were sampled, milliseconds since the command started.
    pub at_ms: f64,
    /// Counters of every channel.
    pub channels: Vec<ChannelNow>,
}

/// A freeze-frame with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Framed {
    /// When it was taken, milliseconds since the command started.
    pub at_ms: f64,
    /// The freeze-frame.
    pub frame: Box<Frame>,
}

/// What a worker's event changes in the state of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Effect {
    /// When the worker last made progress, if the event shows progress.
    pub(super) progress_ms: Option<f64>,
    /// Requests changed state after the worker's freeze-frame was taken.
    pub(super) moved_on: bool,
}

/// State of one worker, or of one process that was found.
#[derive(Debug, Clone)]
pub struct WorkerState {
    /// Its id.
    pub id: WorkerId,
    /// Its phase; a process that was found has none.
    pub phase: Option<Phase>,
    /// When it entered the phase, milliseconds since the command started.
    pub phase_ms: f64,
    /// When it began and stopped measuring, milliseconds since the command started.
    pub measured_ms: Option<(f64, f64)>,
    /// Result of the critical checks of its node.
    pub preflight: Option<Preflight>,
    /// Its plugin, once initialised.
    pub plugin: Option<Box<PluginReady>>,
    /// Role, plugin and NICs of a process that was found.
    pub process: Option<ProcessFacts>,
    /// Environment it was given in addition to the node's.
    pub env: BTreeMap<String, String>,
    /// Path of its recorder file on its node.
    pub recorder: Option<PathBuf>,
    /// Times of its handshakes, one list per repeat.
    pub handshakes: Vec<Vec<ConnectionTimes>>,
    /// Descriptors and threads before the first and after the last handshake.
    pub held: Option<(Held, Held)>,
    /// Results of the registration sweep.
    pub registrations: Option<Vec<MrRow>>,
    /// Its newest counters.
    pub channels: Vec<ChannelNow>,
    /// When they were sampled; `None` if there were never any.
    pub sampled_ms: Option<f64>,
    /// Its counters when it failed, which later calls no longer show.
    pub at_failure: Option<StallPicture>,
    /// Its counters when the stall of its pair was declared.
    pub at_stall: Option<StallPicture>,
    /// Calls in the time before it, oldest first.
    pub looks_at_stall: VecDeque<CallSample>,
    /// Its counters before its comms were closed with requests in flight, after a stall was declared. When
    /// both ends give up, the other may close a connection before this one reports its failure.
    before_close: Option<StallPicture>,
    /// Earlier call counts, the oldest first.
    pub looks: VecDeque<CallSample>,
    /// Iterations that ended, warm-up included.
    pub iterations: u32,
    /// Bytes compared, and how many of them were wrong.
    pub verified: Option<(u64, u64)>,
    /// The first wrong stretch of bytes.
    pub mismatch: Option<Mismatch>,
    /// Result of its transfer.
    pub transfer: Option<Box<TransferResult>>,
    /// Why it could not complete its task.
    pub failure: Option<Timed<Failure>>,
    /// How its process ended.
    pub exit: Option<Timed<Exit>>,
    /// Totals of its plugin's log, from its last message.
    pub log: Option<LogSummary>,
    /// Freeze-frame of the current stall.
    pub frame: Option<Framed>,
    /// Freeze-frames before the last movement, the oldest first. They do not show why it stands
    /// still now, but what the network had lost by then.
    pub earlier_frames: VecDeque<Framed>,
    /// Whether a freeze-frame was ever taken of it.
    pub was_framed: bool,
    lines: KeptLines,
}

impl WorkerState {
    pub(super) fn new(id: WorkerId) -> Self {
        Self {
            id,
            phase: None,
            phase_ms: 0.0,
            measured_ms: None,
            preflight: None,
            plugin: None,
            process: None,
            env: BTreeMap::new(),
            recorder: None,
            handshakes: Vec::new(),
            held: None,
            registrations: None,
            channels: Vec::new(),
            sampled_ms: None,
            at_failure: None,
            at_stall: None,
            looks_at_stall: VecDeque::new(),
            before_close: None,
            looks: VecDeque::new(),
            iterations: 0,
            verified: None,
            mismatch: None,
            transfer: None,
            failure: None,
            exit: None,
            log: None,
            frame: None,
            earlier_frames: VecDeque::new(),
            was_framed: false,
            lines: KeptLines::default(),
        }
    }

    /// Kinds of lines that its plugin logged or that it printed, in the order of their first
    /// occurrence. The list only grows.
    pub fn lines(&self) -> &[KeptLine] {
        self.lines.kept()
    }

    /// The newest line of its process's own output.
    pub fn last_printed(&self) -> Option<&str> {
        self.lines.last_printed()
    }

    /// Time between the first look that is kept and the last sample, in ms.
    pub fn watched_ms(&self) -> Option<f64> {
        Some(self.sampled_ms? - self.looks.front()?.at_ms)
    }

    /// Whether it is a process that has ended, by its recorder.
    pub fn is_gone(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.is_gone)
    }

    /// Whether its last message has arrived.
    pub fn is_finished(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn apply(&mut self, at_ms: f64, kind: &EventKind, stall_after_ms: u64) -> Effect {
        let progressed = Effect {
            progress_ms: Some(at_ms),
            moved_on: false,
        };
        match kind {
            EventKind::Sample(channels) => return self.sample(at_ms, channels, stall_after_ms),
            EventKind::Stall(channels) => {
                return Effect {
                    progress_ms: None,
                    ..self.sample(at_ms, channels, stall_after_ms)
                };
            }
            EventKind::Phase(phase) => {
                self.enter(at_ms, *phase);
                return progressed;
            }
            EventKind::Iteration(iteration) => {
                self.iterations = iteration.index.saturating_add(1);
                self.verified = Some((iteration.verified_bytes, iteration.wrong_bytes));
                return progressed;
            }
            EventKind::Transfer(result) => return self.transferred(at_ms, result, stall_after_ms),
            EventKind::Frame(frame) => {
                let effect = self.sample(at_ms, &frame.channels, stall_after_ms);
                self.take_frame(at_ms, frame);
                return Effect {
                    progress_ms: None,
                    ..effect
                };
            }
            EventKind::Exited(exit) => {
                let effect = self.sample(at_ms, &exit.channels, stall_after_ms);
                self.exit = Some(Timed {
                    at_ms,
                    what: exit.clone(),
                });
                return Effect {
                    progress_ms: None,
                    ..effect
                };
            }
            EventKind::Failed(failure) => self.fail(at_ms, failure),
            EventKind::Preflight(found) => self.preflight = Some(found.clone()),
            EventKind::Recorder(path) => self.recorder = Some(path.clone()),
            EventKind::Plugin(ready) => self.plugin = Some(ready.clone()),
            EventKind::Process(facts) => self.process = Some(facts.clone()),
            EventKind::Handshake(times) if self.handshakes.len() < HANDSHAKES_MAX => {
                self.handshakes.push(times.clone());
            }
            EventKind::Held { before, after } => self.held = Some((*before, *after)),
            EventKind::Registrations(rows) => self.registrations = Some(rows.clone()),
            EventKind::Finished(log) => self.log = Some(*log),
            EventKind::PluginLine(line) => self.lines.logged(at_ms, line, self.phase),
            EventKind::Output { stream, text } => {
                self.lines.printed(at_ms, stream, text, self.phase)
            }
            _ => {}
        }
        Effect::default()
    }

    fn enter(&mut self, at_ms: f64, phase: Phase) {
        match (phase, &mut self.measured_ms) {
            (Phase::Measuring, None) => self.measured_ms = Some((at_ms, at_ms)),
            (Phase::Closing, Some((_, ended))) => *ended = at_ms,
            _ => {}
        }
        (self.phase, self.phase_ms) = (Some(phase), at_ms);
    }

    fn fail(&mut self, at_ms: f64, failure: &Failure) {
        if self.failure.is_none() {
            self.at_failure = self.before_close.take().or_else(|| {
                Some(StallPicture {
                    at_ms,
                    channels: self.channels.clone(),
                })
            });
            self.failure = Some(Timed {
                at_ms,
                what: failure.clone(),
            });
        }
    }

    fn sample(&mut self, at_ms: f64, channels: &[ChannelNow], stall_after_ms: u64) -> Effect {
        if channels.is_empty() {
            return Effect::default();
        }
        let channels = with_known_waits(&self.channels, channels);
        let apart = stall_after_ms as f64 / LOOKS as f64;
        if self
            .looks
            .back()
            .is_none_or(|look| at_ms - look.at_ms >= apart)
        {
            if self.looks.len() >= LOOKS {
                self.looks.pop_front();
            }
            self.looks.push_back(CallSample {
                at_ms,
                channels: channels.iter().map(CallCounts::of_channel).collect(),
            });
        }
        let progressed = !same_counts(&self.channels, &channels);
        if progressed {
            self.before_close = None;
        } else if let (Some(_), None, Some(at_ms)) =
            (&self.at_stall, &self.before_close, self.sampled_ms)
            && closes_in_flight(&self.channels, &channels)
        {
            let channels = std::mem::take(&mut self.channels);
            self.before_close = Some(StallPicture { at_ms, channels });
        }
        self.sampled_ms = Some(at_ms);
        let quiet_ms = channels
            .iter()
            .map(|channel| channel.quiet_ms)
            .min()
            .unwrap_or_default();
        self.channels = channels;
        Effect {
            progress_ms: progressed.then_some(at_ms - quiet_ms as f64),
            moved_on: progressed && self.frame.is_some() && self.failure.is_none(),
        }
    }

    fn transferred(&mut self, at_ms: f64, result: &TransferResult, stall_after_ms: u64) -> Effect {
        let counters: Option<Vec<ChannelNow>> = result
            .channels
            .iter()
            .map(|one| one.counters.clone())
            .collect();
        let effect = self.sample(at_ms, &counters.unwrap_or_default(), stall_after_ms);
        let sum = |count: fn(&Tally) -> u64| {
            result
                .tallies()
                .fold(0u64, |sum, one| sum.saturating_add(count(one)))
        };
        self.verified = Some((
            sum(|tally| tally.verified_bytes),
            sum(|tally| tally.wrong_bytes),
        ));
        self.mismatch = result.tallies().find_map(|one| one.first_mismatch.clone());
        self.transfer = Some(Box::new(result.clone()));
        effect
    }

    /// Keeps a freeze-frame: as that of the current stall, unless newer counters show progress
    /// since it was taken.
    pub fn take_frame(&mut self, at_ms: f64, frame: &Frame) {
        self.was_framed = true;
        let is_of_now = self.channels.is_empty() || same_counts(&self.channels, &frame.channels);
        self.frame = Some(Framed {
            at_ms,
            frame: Box::new(frame.clone()),
        });
        if !is_of_now {
            self.moves_again();
        }
    }

    /// The stall is over: its freeze-frame is an earlier one from now on.
    pub(super) fn moves_again(&mut self) {
        let Some(frame) = self.frame.take() else {
            return;
        };
        if self.earlier_frames.len() == EARLIER_FRAMES_MAX {
            self.earlier_frames.pop_front();
        }
        self.earlier_frames.push_back(frame);
    }

    pub(super) fn keep_picture(&mut self) {
        if let Some(at_ms) = self.sampled_ms {
            self.at_stall = Some(StallPicture {
                at_ms,
                channels: self.channels.clone(),
            });
            self.looks_at_stall.clone_from(&self.looks);
        }
    }

    /// The counters to judge it by and when they were sampled: those at its failure if it
    /// failed, otherwise the newest.
    pub fn judged(&self) -> (Option<f64>, &[ChannelNow]) {
        match &self.at_failure {
            Some(picture) if !picture.channels.is_empty() => {
                (Some(picture.at_ms), &picture.channels)
            }
            _ => (self.sampled_ms, &self.channels),
        }
    }

    /// The interface name of a plugin device, if known.
    pub fn nic(&self, device: i64) -> Option<&str> {
        if let Some(process) = &self.process {
            return process.nics.get(&device).map(String::as_str);
        }
        let devices = &self.plugin.as_ref()?.devices;
        devices
            .iter()
            .find(|one| one.index as i64 == device)
            .map(|one| one.name.as_str())
    }
}

/// The counters with the waits for a CPU that were known of the same standstill: those that a worker
/// counts itself have none, and may arrive after later ones.
fn with_known_waits(before: &[ChannelNow], after: &[ChannelNow]) -> Vec<ChannelNow> {
    let mut all = after.to_vec();
    for (before, after) in before.iter().zip(&mut all) {
        // What is known of its own thread says more than what was of all.
        let is_of_another = after.thread.is_some() && before.thread != after.thread;
        if stands_on(before, after) && !is_of_another {
            after.throttled_ms = after
                .throttled_ms
                .max(before.throttled_ms.min(after.quiet_ms));
            let known_ms = before.no_cpu_ms.min(after.quiet_ms);
            if known_ms > after.no_cpu_ms {
                (after.no_cpu_ms, after.thread) = (known_ms, before.thread);
                after.turns = before.turns;
            }
        }
    }
    all
}

/// Whether nothing changed in between.
fn stands_on(before: &ChannelNow, after: &ChannelNow) -> bool {
    let counts = |one: &ChannelNow| (one.posted, one.done, one.consumed, one.unpacked, one.closed);
    counts(before) == counts(after)
}

/// Whether comms were closed in between that had requests in flight.
fn closes_in_flight(before: &[ChannelNow], after: &[ChannelNow]) -> bool {
    let was_open = |one: &ChannelNow| !one.closed && one.posted > one.consumed;
    let mut both = before.iter().zip(after);
    both.any(|(before, after)| was_open(before) && after.closed)
}
