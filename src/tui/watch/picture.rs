//! The state of every channel at one moment, with the rates over the second before it.
//!
//! A picture depends only on the model and the moment. It borrows from the model, so channels
//! that are not on the screen cost no copy.
#![forbid(unsafe_code)]

use super::model::Model;
use tcpx_diagnose::turn::WAITING_MS;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::counters::{ChannelNow, Sample, Series};
use tcpx_run_model::ids::{NodeId, WorkerId};
use tcpx_run_model::phase::Phase;
use tcpx_run_model::state::WorkerState;
use tcpx_run_model::timeline::stands_still;
use tcpx_words::side::Side;

/// The window that rates are computed over, or the time since the first sample if that is less.
const RATE_NS: u64 = 1_000_000_000;

/// Whether a channel moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChannelState {
    /// Requests in flight, and no change for the stall limit of the run.
    Stuck,
    /// Requests in flight, and no change for [`WAITING_MS`].
    Waiting,
    /// Requests in flight, or a change within the last second.
    Moving,
    /// Nothing in flight.
    Idle,
    Closed,
}

/// One channel at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelPicture<'a> {
    /// Index into [`Picture::nodes`].
    pub(crate) node: usize,
    /// Index of the channel in the worker's sample.
    pub(crate) place: usize,
    pub(crate) now: &'a ChannelNow,
    pub(crate) state: ChannelState,
    /// Time since any request changed state.
    pub(crate) quiet_ms: u64,
    pub(crate) head_age_ms: Option<u64>,
    pub(crate) bytes_per_s: f64,
    pub(crate) tests_per_s: f64,
    /// Share of `test` calls in the last second that returned done=0, from 0 to 1.
    pub(crate) not_done: Option<f64>,
}

impl ChannelPicture<'_> {
    pub(crate) fn in_flight(&self) -> u64 {
        self.now.posted.saturating_sub(self.now.consumed)
    }

    /// Requests that are done and not consumed.
    pub(crate) fn done_unconsumed(&self) -> u64 {
        self.now.done.saturating_sub(self.now.consumed)
    }

    pub(crate) fn sends(&self) -> bool {
        self.now.side == Side::Send
    }
}

/// One worker, or one process, at one moment.
#[derive(Debug)]
pub(crate) struct WorkerPicture<'a> {
    pub(crate) id: WorkerId,
    pub(crate) worker: &'a WorkerState,
    pub(crate) name: &'a str,
    pub(crate) phase: Option<Phase>,
    pub(crate) sample: Option<&'a Sample>,
    series: Option<&'a Series>,
    pub(crate) out_per_s: f64,
    pub(crate) in_per_s: f64,
    /// Age of the newest sample; 0 once the worker has ended.
    pub(crate) stale_ms: u64,
    /// How the worker ended, if it had ended at that moment.
    pub(crate) ended: Option<String>,
}

impl WorkerPicture<'_> {
    /// What is known of its process once its counters change no more, as a word.
    pub(crate) fn end_word(&self) -> &'static str {
        match &self.worker.process {
            Some(process) if process.is_copy => "COPY",
            Some(process) if process.is_elsewhere => "END UNKNOWN",
            _ => "ENDED",
        }
    }
}

/// Everything at one moment.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) at_ns: u64,
    /// Whether these two nodes of a mesh have not begun.
    pub(crate) waits: bool,
    /// Every worker, in the order of the ids.
    pub(crate) nodes: Vec<WorkerPicture<'a>>,
    /// Every channel, by worker, in the order of the worker's sample.
    pub(crate) rows: Vec<ChannelPicture<'a>>,
}

impl<'a> Picture<'a> {
    /// Whether all is from recorder files that change no more here, of processes that may run.
    pub(crate) fn is_of_recordings(&self) -> bool {
        let is_recording = |one: &WorkerPicture<'_>| {
            let process = one.worker.process.as_ref();
            process.is_some_and(|process| process.is_copy || process.is_elsewhere)
        };
        !self.nodes.is_empty() && self.nodes.iter().all(is_recording)
    }

    #[cfg(test)]
    pub(crate) fn at(model: &'a Model, at_ns: u64) -> Self {
        Self::of(model, at_ns, None)
    }

    /// The state at a moment, in nanoseconds since 1970: of all workers, or of those between two
    /// nodes.
    pub(crate) fn of(model: &'a Model, at_ns: u64, only: Option<[NodeId; 2]>) -> Self {
        let mut picture = Self {
            at_ns,
            waits: only.is_some_and(|ends| model.mesh().waits(ends)),
            nodes: Vec::new(),
            rows: Vec::new(),
        };
        let names = &model.state().names;
        let is_shown = |id: WorkerId| {
            let (Some([a, b]), Some(pair)) = (only, id.pair()) else {
                return only.is_none();
            };
            let nodes = names.pairs.get(pair.index()).map(|intro| intro.nodes);
            nodes == Some([a, b]) || nodes == Some([b, a])
        };
        for worker in model
            .state()
            .workers
            .values()
            .filter(|one| is_shown(one.id))
        {
            picture.add(model, worker);
        }
        picture
    }

    fn add(&mut self, model: &'a Model, worker: &'a WorkerState) {
        let (id, at_ns) = (worker.id, self.at_ns);
        let series = model.timeline.series.get(&id);
        let sample = series.and_then(|series| series.at(at_ns));
        let ended = ended(model, worker, series, at_ns);
        let is_over = ended.is_some() || model.state().ended.is_some();
        let mut node = WorkerPicture {
            id,
            worker,
            name: model.name(id),
            phase: if at_ns >= model.last_ns() {
                worker.phase
            } else {
                model.timeline.phase(id, at_ns)
            },
            sample,
            series,
            out_per_s: 0.0,
            in_per_s: 0.0,
            stale_ms: sample
                .filter(|_| !is_over)
                .map_or(0, |one| at_ns.saturating_sub(one.at_ns) / 1_000_000),
            ended,
        };
        if let (Some(sample), Some(series)) = (sample, series) {
            let before = series
                .at(sample.at_ns.saturating_sub(RATE_NS))
                .or_else(|| series.iter().next());
            let seconds = before.map_or(0.0, |before| {
                sample.at_ns.saturating_sub(before.at_ns) as f64 / 1e9
            });
            let since = SampleTimes {
                // A rate from stale samples is shown as 0.
                seconds: if node.stale_ms > 2000 { 0.0 } else { seconds },
                stale_ms: node.stale_ms,
                stall_after_ms: model.state().stall_after_ms,
            };
            for (place, now) in sample.channels.iter().enumerate() {
                let before = before.and_then(|before| same(before, place, now));
                let row = since.row(self.nodes.len(), place, now, before);
                let rate = if row.sends() {
                    &mut node.out_per_s
                } else {
                    &mut node.in_per_s
                };
                *rate += row.bytes_per_s;
                self.rows.push(row);
            }
        }
        self.nodes.push(node);
    }

    /// The identity of a row's channel.
    pub(crate) fn key(&self, row: &ChannelPicture<'_>) -> ChannelKey {
        ChannelKey {
            worker: self.nodes[row.node].id,
            side: row.now.side,
            index: row.now.index,
        }
    }

    /// Bytes per second of one channel, `count` points of `step_ns` up to now.
    pub(crate) fn history(&self, row: &ChannelPicture<'_>, count: usize, step_ns: u64) -> Vec<f64> {
        let Some(picture) = self.nodes.get(row.node) else {
            return Vec::new();
        };
        let points = self.points(picture, count, step_ns);
        let bytes = |sample: &Sample| same(sample, row.place, row.now).map(|one| one.bytes);
        rates(&points, bytes)
    }

    /// Bytes per second of all channels of one side of a worker.
    pub(crate) fn node_history(
        &self,
        picture: &WorkerPicture<'_>,
        side: Side,
        count: usize,
        step_ns: u64,
    ) -> Vec<f64> {
        let points = self.points(picture, count, step_ns);
        rates(&points, |sample| {
            Some(
                sample
                    .channels
                    .iter()
                    .filter(|one| one.side == side)
                    .fold(0, |sum: u64, one| sum.saturating_add(one.bytes)),
            )
        })
    }

    fn points<'b>(
        &self,
        picture: &WorkerPicture<'b>,
        count: usize,
        step_ns: u64,
    ) -> Vec<Option<&'b Sample>> {
        let time = |back: usize| self.at_ns.checked_sub(back as u64 * step_ns);
        (0..=count)
            .rev()
            .map(|back| picture.series?.at(time(back)?))
            .collect()
    }
}

/// How a worker ended, if it had ended at a moment, or why its counters do.
fn ended(
    model: &Model,
    worker: &WorkerState,
    series: Option<&Series>,
    at_ns: u64,
) -> Option<String> {
    if let Some(exit) = &worker.exit {
        let has_ended = at_ns >= model.state().at_ns(exit.at_ms);
        return has_ended.then(|| format!("the worker {}", exit.what.how()));
    }
    // The time at which a process ended is not known, except that it is after the last sample.
    let is_last = series
        .and_then(Series::last)
        .is_none_or(|last| last.at_ns <= at_ns);
    let process = worker.process.as_ref().filter(|_| is_last)?;
    let how = match (process.is_gone, process.is_copy) {
        (false, _) => return None,
        (true, true) => return Some("its recorder is a copy, and the process runs".to_owned()),
        (true, false) if process.is_elsewhere => {
            let why = "it is of another boot, machine or container, and its end was not seen";
            return Some(why.to_owned());
        }
        (true, false) => process.ended.as_deref().unwrap_or("has ended"),
    };
    Some(format!("the process {how}"))
}

fn rates(points: &[Option<&Sample>], bytes: impl Fn(&Sample) -> Option<u64>) -> Vec<f64> {
    let rate = |pair: &[Option<&Sample>]| {
        let (before, after) = (pair[0]?, pair[1]?);
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let moved = bytes(after)?.checked_sub(bytes(before)?)?;
        (seconds > 0.0).then(|| moved as f64 / seconds)
    };
    points
        .windows(2)
        .map(|pair| rate(pair).unwrap_or(0.0))
        .collect()
}

/// The same channel in another sample, where it usually has the same index.
fn same<'a>(sample: &'a Sample, place: usize, channel: &ChannelNow) -> Option<&'a ChannelNow> {
    let is = |one: &&ChannelNow| one.index == channel.index && one.side == channel.side;
    sample
        .channels
        .get(place)
        .filter(is)
        .or_else(|| sample.channels.iter().find(is))
}

/// The times that turn the counters of one worker into rows.
struct SampleTimes {
    /// Time between the two samples that rates are computed from.
    seconds: f64,
    /// Age of the newer sample.
    stale_ms: u64,
    stall_after_ms: u64,
}

impl SampleTimes {
    fn row<'a>(
        &self,
        node: usize,
        place: usize,
        now: &'a ChannelNow,
        before: Option<&ChannelNow>,
    ) -> ChannelPicture<'a> {
        let grown = |count: fn(&ChannelNow) -> u64| {
            before.map_or(0, |before| count(now).saturating_sub(count(before)))
        };
        let per_s = |count: u64| {
            if self.seconds > 0.0 {
                count as f64 / self.seconds
            } else {
                0.0
            }
        };
        let (tests, not_done) = (grown(|one| one.tests), grown(|one| one.tests_not_done));
        ChannelPicture {
            node,
            place,
            now,
            state: self.state(now),
            quiet_ms: now.quiet_ms.saturating_add(self.stale_ms),
            head_age_ms: now.head_age_ms.map(|age| age.saturating_add(self.stale_ms)),
            bytes_per_s: per_s(grown(|one| one.bytes)),
            tests_per_s: per_s(tests),
            not_done: (tests > 0).then(|| not_done as f64 / tests as f64),
        }
    }

    fn state(&self, now: &ChannelNow) -> ChannelState {
        let stands_for = |ms: u64| stands_still(now, ms.saturating_sub(self.stale_ms));
        let quiet_ms = now.quiet_ms.saturating_add(self.stale_ms);
        match now.posted > now.consumed {
            _ if now.closed => ChannelState::Closed,
            true if stands_for(self.stall_after_ms) => ChannelState::Stuck,
            true if stands_for(WAITING_MS) => ChannelState::Waiting,
            true => ChannelState::Moving,
            false if quiet_ms < 1000 && now.posted > 0 => ChannelState::Moving,
            false => ChannelState::Idle,
        }
    }
}
