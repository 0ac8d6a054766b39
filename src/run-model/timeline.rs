//! A run over time: its current state, and the history that a view steps back through.
//!
//! Bounded: old counters are thinned out (`Series`), the oldest lines are dropped.
#![forbid(unsafe_code)]

use crate::counters::{ChannelNow, SAMPLES_MAX, Sample, Series};
use crate::event::{Event, EventKind};
use crate::ids::{NodeId, WorkerId};
use crate::phase::Phase;
use crate::state::RunState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use tcpx_words::units::printable;

/// Most channel samples of one worker, some 400 bytes each.
const SAMPLES_OF_CHANNELS_MAX: usize = 200_000;
/// Most log lines.
const LINES_MAX: usize = 5000;
/// Most marks.
const MARKS_MAX: usize = 1000;
/// Most phases of one worker: a run has ten.
const PHASES_MAX: usize = 64;

/// A moment that a view can jump to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When, nanoseconds since 1970.
    pub at_ns: u64,
    /// The worker it is about.
    pub worker: WorkerId,
    /// What happened.
    pub kind: MarkKind,
}

/// What happened at a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// The worker's last state change before a standstill.
    Stalled,
    /// The worker moved again.
    Moving,
    /// The worker entered this phase.
    Phase(Phase),
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineLine {
    /// When, nanoseconds since 1970.
    pub at_ns: u64,
    /// The worker it is about; `None` for lines of the coordinator or an agent.
    pub worker: Option<WorkerId>,
    /// The node it is about; `None` for lines about the run.
    pub node: Option<NodeId>,
    /// Its source.
    pub kind: LineKind,
    /// The text, without control characters.
    pub text: String,
    /// Equal for lines of one source that differ only in digits.
    pub shape: u64,
}

fn shape(kind: LineKind, worker: Option<WorkerId>, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, worker).hash(&mut hasher);
    // A number is one sign, however long it is.
    let mut is_digit = false;
    for byte in text.bytes() {
        let was_digit = std::mem::replace(&mut is_digit, byte.is_ascii_digit());
        if !is_digit {
            hasher.write_u8(byte);
        } else if !was_digit {
            hasher.write_u8(b'0');
        }
    }
    hasher.finish()
}

/// The source of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A WARN line of the plugin.
    Warning,
    /// Any other log line of the plugin.
    Plugin,
    /// Output of a worker process.
    Output,
    /// An observation of the coordinator or an agent.
    Note,
}

/// A run over time.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The current state.
    pub state: RunState,
    /// Counters over time, by worker.
    pub series: BTreeMap<WorkerId, Series>,
    /// Log lines, ordered by time.
    pub lines: VecDeque<TimelineLine>,
    /// Number of lines that were dropped.
    pub lines_lost: u64,
    /// Marks, ordered by time.
    pub marks: Vec<Mark>,
    kept: BTreeMap<WorkerId, Kept>,
}

/// History of one worker besides its counters.
#[derive(Debug, Default)]
struct Kept {
    /// Whether it was stalled at its newest sample.
    stalled: bool,
    /// Number of channels that its series is sized for.
    room: usize,
    /// Phases with the time they were entered, nanoseconds since 1970, ordered by time.
    phases: Vec<(u64, Phase)>,
}

/// Whether the channel has requests in flight and none changed state for `after_ms`.
pub fn stands_still(channel: &ChannelNow, after_ms: u64) -> bool {
    !channel.closed && channel.posted > channel.consumed && channel.quiet_ms >= after_ms
}

impl Timeline {
    /// A timeline that begins with this state.
    pub fn from_state(state: RunState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// Folds one event into the state and the history.
    pub fn apply(&mut self, event: &Event) {
        self.state.apply(event);
        let at_ns = self.state.at_ns(event.ms);
        let (worker, node) = (event.worker(), event.node);
        let mut say = |kind, text: &str| {
            let text = printable(text);
            self.line(TimelineLine {
                at_ns,
                worker,
                node,
                kind,
                shape: shape(kind, worker, &text),
                text,
            })
        };
        match &event.kind {
            EventKind::Note(text) => say(LineKind::Note, text),
            EventKind::AgentBroken(why) => say(LineKind::Note, &format!("the agent failed: {why}")),
            EventKind::AgentGone => say(LineKind::Note, "the agent is gone"),
            EventKind::AgentStopped { pid } => say(
                LineKind::Note,
                &format!("the agent is stopped: its process {pid} is in state T"),
            ),
            EventKind::Recovered => say(LineKind::Note, "the stalled channels move again"),
            EventKind::Failed(failure) => say(
                LineKind::Note,
                &format!("{}: {}", failure.phase, failure.message),
            ),
            EventKind::Output { stream, text } => {
                say(LineKind::Output, &format!("{stream}: {text}"))
            }
            EventKind::PluginLine(line) => {
                let warns = line.level == tcpx_abi::level::WARN;
                let kind = if warns {
                    LineKind::Warning
                } else {
                    LineKind::Plugin
                };
                say(
                    kind,
                    &format!("{}:{} {}", line.function, line.line, line.text),
                );
            }
            EventKind::Stall(channels) => {
                say(LineKind::Note, "stall: no request changes state");
                self.sample(at_ns, worker, channels);
            }
            EventKind::Exited(exit) => {
                say(LineKind::Note, &format!("the worker {}", exit.how()));
                self.sample(at_ns, worker, &exit.channels);
            }
            EventKind::Sample(channels) => self.sample(at_ns, worker, channels),
            EventKind::Phase(phase) => {
                if let Some(worker) =
                    worker.filter(|worker| self.state.workers.contains_key(worker))
                {
                    self.kept.entry(worker).or_default().enter(at_ns, *phase);
                    self.mark(Mark {
                        at_ns,
                        worker,
                        kind: MarkKind::Phase(*phase),
                    });
                }
            }
            _ => {}
        }
    }

    fn line(&mut self, line: TimelineLine) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.lines_lost += 1;
        }
        // Lines of one source arrive in order, lines of several sources do not.
        let place = self
            .lines
            .partition_point(|before| before.at_ns <= line.at_ns);
        self.lines.insert(place, line);
    }

    fn sample(&mut self, at_ns: u64, worker: Option<WorkerId>, channels: &[ChannelNow]) {
        let Some(worker) = worker.filter(|_| !channels.is_empty()) else {
            return;
        };
        if !self.state.workers.contains_key(&worker) {
            // The state keeps no more workers.
            return;
        }
        let stall_after_ms = self.state.stall_after_ms;
        let standing = channels
            .iter()
            .filter(|one| stands_still(one, stall_after_ms));
        let quiet_ms = standing.map(|one| one.quiet_ms).min();
        let kept = self.kept.entry(worker).or_default();
        let series = self.series.entry(worker).or_default();
        if channels.len() > kept.room {
            kept.room = channels.len().next_power_of_two();
            thin_for(series, kept.room);
        }
        series.push(Sample {
            at_ns,
            channels: channels.to_vec(),
        });
        let was_stalled = std::mem::replace(&mut kept.stalled, quiet_ms.is_some());
        match (was_stalled, quiet_ms) {
            (false, Some(quiet_ms)) => {
                let at_ns = at_ns.saturating_sub(quiet_ms.saturating_mul(1_000_000));
                self.mark(Mark {
                    at_ns,
                    worker,
                    kind: MarkKind::Stalled,
                });
            }
            (true, None) => self.mark(Mark {
                at_ns,
                worker,
                kind: MarkKind::Moving,
            }),
            _ => {}
        }
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MARKS_MAX {
            self.marks.remove(0);
        }
        let place = self
            .marks
            .partition_point(|before| before.at_ns <= mark.at_ns);
        self.marks.insert(place, mark);
    }

    /// The phase of a worker at a moment.
    pub fn phase(&self, worker: WorkerId, at_ns: u64) -> Option<Phase> {
        let phases = &self.kept.get(&worker)?.phases;
        let entered = phases.partition_point(|(entered_ns, _)| *entered_ns <= at_ns);
        Some(phases[entered.checked_sub(1)?].1)
    }

    /// Times of the first and the last counters, nanoseconds since 1970.
    pub fn span(&self) -> Option<(u64, u64)> {
        let first = self
            .series
            .values()
            .filter_map(|series| series.iter().next())
            .map(|sample| sample.at_ns)
            .min()?;
        let last = self
            .series
            .values()
            .filter_map(Series::last)
            .map(|sample| sample.at_ns)
            .max()?;
        Some((first, last))
    }

    /// Time of the next sample after `at_ns`, or of the previous one.
    pub fn step(&self, at_ns: u64, forward: bool) -> Option<u64> {
        let times = self
            .series
            .values()
            .flat_map(Series::iter)
            .map(|sample| sample.at_ns);
        if forward {
            times.filter(|at| *at > at_ns).min()
        } else {
            times.filter(|at| *at < at_ns).max()
        }
    }

    /// Time of the last stall before `at_ns`, otherwise of the first stall.
    pub fn stall_before(&self, at_ns: u64) -> Option<u64> {
        let mut stalls = self
            .marks
            .iter()
            .filter(|mark| mark.kind == MarkKind::Stalled)
            .map(|mark| mark.at_ns);
        let before = stalls.clone().rfind(|stall| *stall < at_ns);
        before.or_else(|| stalls.next())
    }
}

impl Kept {
    fn enter(&mut self, at_ns: u64, phase: Phase) {
        if self.phases.len() == PHASES_MAX {
            self.phases.remove(0);
        }
        let place = self
            .phases
            .partition_point(|(entered_ns, _)| *entered_ns <= at_ns);
        self.phases.insert(place, (at_ns, phase));
    }
}

/// Resizes a series: the more channels a sample has, the fewer samples are kept.
fn thin_for(series: &mut Series, channels: usize) {
    let most = (SAMPLES_OF_CHANNELS_MAX / channels).clamp(64, SAMPLES_MAX);
    let before = std::mem::replace(series, Series::new(most));
    before.iter().for_each(|sample| series.push(sample.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{PairId, Who};
    use tcpx_words::side::Side;

    const PEER: WorkerId = WorkerId::of_pair(NodeId(1), PairId(0));

    fn apply_at(timeline: &mut Timeline, ms: f64, kind: EventKind) {
        timeline.apply(&Event {
            at: "1970-01-01T00:00:00Z".into(),
            ..Event::new(ms, Who::Worker(PEER), kind)
        });
    }

    #[test]
    fn lines_are_ordered_by_time_and_the_oldest_are_dropped() {
        let mut timeline = Timeline::default();
        let note = |timeline: &mut Timeline, ms: usize| {
            apply_at(timeline, ms as f64, EventKind::Note(String::new()))
        };
        [0, 5, 9, 7, 1, 9]
            .into_iter()
            .for_each(|ms| note(&mut timeline, ms));
        assert!(
            timeline
                .lines
                .iter()
                .map(|line| line.at_ns / 1_000_000)
                .eq([0, 1, 5, 7, 9, 9])
        );
        (10..10 + LINES_MAX).for_each(|ms| note(&mut timeline, ms));
        assert_eq!((timeline.lines.len(), timeline.lines_lost), (LINES_MAX, 6));
        assert_eq!(timeline.lines[0].at_ns, 10_000_000);
    }

    #[test]
    fn a_line_from_before_the_first_event_keeps_its_time() {
        let mut timeline = Timeline::default();
        let note = |ms: f64| {
            let event = Event::new(ms, Who::Worker(PEER), EventKind::Note(String::new()));
            Event {
                at: "1970-01-01T00:01:00Z".into(),
                ..event
            }
        };
        [0.0, -20_000.0, f64::NAN]
            .into_iter()
            .for_each(|ms| timeline.apply(&note(ms)));
        assert!(
            timeline
                .lines
                .iter()
                .map(|line| line.at_ns / 1_000_000_000)
                .eq([40, 60, 60])
        );
        assert_eq!(timeline.state.now_ms, 0.0);
    }

    fn channel(posted: u64, quiet_ms: u64) -> Vec<ChannelNow> {
        vec![ChannelNow {
            side: Side::Recv,
            posted,
            quiet_ms,
            ..ChannelNow::default()
        }]
    }

    #[test]
    fn a_stall_is_marked_at_the_last_change_before_it_and_at_its_end() {
        let mut timeline = Timeline::default();
        apply_at(&mut timeline, 0.0, EventKind::Recovered);
        for (second, quiet_ms) in [(1, 0), (2, 1000), (4, 3000), (5, 4000), (6, 10)] {
            apply_at(
                &mut timeline,
                f64::from(second) * 1e3,
                EventKind::Sample(channel(3, quiet_ms)),
            );
        }
        let marks = timeline
            .marks
            .iter()
            .map(|mark| (mark.at_ns / 1_000_000_000, mark.kind));
        assert!(
            marks.eq([(1, MarkKind::Stalled), (6, MarkKind::Moving)]),
            "{:?}",
            timeline.marks
        );
        assert_eq!(timeline.stall_before(u64::MAX), Some(1_000_000_000));
        assert_eq!(timeline.step(4_000_000_000, false), Some(2_000_000_000));
        assert_eq!(timeline.step(4_000_000_000, true), Some(5_000_000_000));
    }

    #[test]
    fn the_phase_of_each_of_many_workers_is_known_at_any_time() {
        let mut timeline = Timeline::default();
        for pair in 0..2 * MARKS_MAX as u32 {
            let worker = WorkerId::of_pair(NodeId(1), PairId(pair));
            for (ms, phase) in [
                (1.0, Phase::Loading),
                (5.0, Phase::Measuring),
                (9.0, Phase::Finished),
            ] {
                let event = Event::new(ms, Who::Worker(worker), EventKind::Phase(phase));
                timeline.apply(&Event {
                    at: "1970-01-01T00:00:00Z".into(),
                    ..event
                });
            }
        }
        let at = |ms: u64| timeline.phase(PEER, ms * 1_000_000);
        assert_eq!(
            [at(0), at(1), at(8), at(9)],
            [
                None,
                Some(Phase::Loading),
                Some(Phase::Measuring),
                Some(Phase::Finished)
            ]
        );
    }

    #[test]
    fn a_worker_with_more_channels_keeps_fewer_samples() {
        let mut timeline = Timeline::default();
        apply_at(&mut timeline, 0.0, EventKind::Sample(channel(1, 0)));
        for ms in 1..500 {
            apply_at(
                &mut timeline,
                f64::from(ms),
                EventKind::Sample(vec![ChannelNow::default(); 1024]),
            );
        }
        let samples = timeline.series[&PEER].len();
        assert!(
            (64..=SAMPLES_OF_CHANNELS_MAX / 1024 + 1).contains(&samples),
            "{samples}"
        );
        assert_eq!(timeline.span(), Some((0, 499_000_000)));
    }
}
