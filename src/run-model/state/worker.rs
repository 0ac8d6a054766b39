//! One worker, or one process that was found, as far as events have told it.
#![forbid(unsafe_code)]

use super::lines::{KeptLine, Lines};
use super::same_counts;
use crate::event::{EventKind, PluginReady};
use crate::ids::WorkerId;
use crate::phase::{Exit, Failure, Phase};
use crate::record::live::ProcessFacts;
use crate::record::{ChannelNow, Frame};
use crate::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use tcpx_words::log::LogSummary;
use tcpx_words::payload::{Mismatch, Tally};

/// Looks that are kept, spread over the time that a stall takes.
const LOOKS: usize = 10;
/// Repeats of a handshake that are kept.
const HANDSHAKES_MAX: usize = 100_000;

/// Something with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct At<T> {
    /// When the coordinator learnt of it, milliseconds since the command started.
    pub at_ms: f64,
    /// What.
    #[serde(flatten)]
    pub what: T,
}

/// Counters of a worker at one moment, as much as tells a standstill's causes apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// When.
    pub at_ms: f64,
    /// By the place of the channel in the sample.
    pub channels: Vec<Counts>,
}

/// Calls of one channel up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// All calls that have returned.
    pub calls: u64,
    /// Tests.
    pub tests: u64,
    /// Posts that were answered with "try again".
    pub null_requests: u64,
    /// It was inside a call.
    pub in_call: bool,
}

impl Counts {
    /// Of one channel.
    pub fn of(one: &ChannelNow) -> Self {
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
        }
    }
}

/// Counters as they were when a stall was declared.
#[derive(Debug, Clone, PartialEq)]
pub struct StallPicture {
    /// When they were taken.
    pub at_ms: f64,
    /// Of every channel.
    pub channels: Vec<ChannelNow>,
}

/// Everything around a worker at the moment of a stall.
#[derive(Debug, Clone, PartialEq)]
pub struct Framed {
    /// When it was taken.
    pub at_ms: f64,
    /// What.
    pub frame: Box<Frame>,
}

/// What a worker's event changed beyond itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Effect {
    /// When it got somewhere, if it did.
    pub(super) progress_ms: Option<f64>,
    /// Requests changed state after a freeze-frame was taken of it.
    pub(super) moved_on: bool,
}

/// One worker, or one process that was found.
#[derive(Debug, Clone)]
pub struct WorkerState {
    /// Which.
    pub id: WorkerId,
    /// Where it is; a process that was found has no phases.
    pub phase: Option<Phase>,
    /// When it got there.
    pub phase_ms: f64,
    /// Between which times it measured, milliseconds since the command started.
    pub measured_ms: Option<(f64, f64)>,
    /// The critical checks of its node.
    pub preflight: Option<Preflight>,
    /// Its plugin, once ready.
    pub plugin: Option<Box<PluginReady>>,
    /// What a process that was found says of itself.
    pub process: Option<ProcessFacts>,
    /// Environment it was given on top of the node's.
    pub env: BTreeMap<String, String>,
    /// Where its recorder is.
    pub recorder: Option<PathBuf>,
    /// Handshakes, one list per repeat.
    pub handshakes: Vec<Vec<ConnectionTimes>>,
    /// What it held before and after all handshakes.
    pub held: Option<(Held, Held)>,
    /// The registration sweep.
    pub registrations: Option<Vec<MrRow>>,
    /// Its newest counters.
    pub channels: Vec<ChannelNow>,
    /// When they were taken; `None`: there never were any.
    pub sampled_ms: Option<f64>,
    /// Its counters when it failed: what it did afterwards hides why.
    pub at_failure: Option<StallPicture>,
    /// Its counters when the stall of its pair was declared.
    pub at_stall: Option<StallPicture>,
    /// Earlier looks at its counters, the oldest first.
    pub looks: VecDeque<Look>,
    /// Iterations that ended, warm-up included.
    pub iterations: u32,
    /// Bytes compared, and those that were wrong.
    pub verified: Option<(u64, u64)>,
    /// The first wrong stretch.
    pub mismatch: Option<Mismatch>,
    /// What its transfer came to.
    pub transfer: Option<Box<TransferResult>>,
    /// Why it could not go on.
    pub failure: Option<At<Failure>>,
    /// How its process ended.
    pub exit: Option<At<Exit>>,
    /// Totals of its plugin's log, once it has said all it had to say.
    pub log: Option<LogSummary>,
    /// What surrounded it at a stall that it has not moved on from.
    pub frame: Option<Framed>,
    /// Whether a frame was ever taken of it.
    pub was_framed: bool,
    lines: Lines,
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
            looks: VecDeque::new(),
            iterations: 0,
            verified: None,
            mismatch: None,
            transfer: None,
            failure: None,
            exit: None,
            log: None,
            frame: None,
            was_framed: false,
            lines: Lines::default(),
        }
    }

    /// Kinds of lines that its plugin logged or that it printed, in the order of
    /// their first. Only grows.
    pub fn lines(&self) -> &[KeptLine] {
        self.lines.kept()
    }

    /// Whether it has said all it had to say.
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
                self.exit = Some(At {
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
            self.at_failure = Some(StallPicture {
                at_ms,
                channels: self.channels.clone(),
            });
            self.failure = Some(At {
                at_ms,
                what: failure.clone(),
            });
        }
    }

    fn sample(&mut self, at_ms: f64, channels: &[ChannelNow], stall_after_ms: u64) -> Effect {
        if channels.is_empty() {
            return Effect::default();
        }
        let apart = stall_after_ms as f64 / LOOKS as f64;
        if self
            .looks
            .back()
            .is_none_or(|look| at_ms - look.at_ms >= apart)
        {
            if self.looks.len() >= LOOKS {
                self.looks.pop_front();
            }
            self.looks.push_back(Look {
                at_ms,
                channels: channels.iter().map(Counts::of).collect(),
            });
        }
        let progressed = !same_counts(&self.channels, channels);
        self.channels = channels.to_vec();
        self.sampled_ms = Some(at_ms);
        let quiet_ms = channels
            .iter()
            .map(|channel| channel.quiet_ms)
            .min()
            .unwrap_or_default();
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
                .channels
                .iter()
                .fold(0u64, |sum, one| sum.saturating_add(count(&one.tally)))
        };
        self.verified = Some((
            sum(|tally| tally.verified_bytes),
            sum(|tally| tally.wrong_bytes),
        ));
        self.mismatch = result
            .channels
            .iter()
            .find_map(|one| one.tally.first_mismatch.clone());
        self.transfer = Some(Box::new(result.clone()));
        effect
    }

    /// Keeps what surrounded it, if that is still of now.
    pub fn take_frame(&mut self, at_ms: f64, frame: &Frame) {
        self.was_framed = true;
        let is_of_now = self.channels.is_empty() || same_counts(&self.channels, &frame.channels);
        self.frame = is_of_now.then(|| Framed {
            at_ms,
            frame: Box::new(frame.clone()),
        });
    }

    pub(super) fn keep_picture(&mut self) {
        if let Some(at_ms) = self.sampled_ms {
            self.at_stall = Some(StallPicture {
                at_ms,
                channels: self.channels.clone(),
            });
        }
    }

    /// Its counters and when they were taken, as of its failure if it failed.
    pub fn judged(&self) -> (Option<f64>, &[ChannelNow]) {
        match &self.at_failure {
            Some(picture) if !picture.channels.is_empty() => {
                (Some(picture.at_ms), &picture.channels)
            }
            _ => (self.sampled_ms, &self.channels),
        }
    }

    /// The interface of a plugin device, where it is known.
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
