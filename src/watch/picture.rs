//! What was so at one moment, with the rates over the second before it.
//!
//! Pure: a model and a moment in, rows out. Rows borrow; nothing is copied for
//! channels that nobody looks at.
#![forbid(unsafe_code)]

use super::health::Health;
use super::model::{Model, Node};
use tcpx_run_model::record::{ChannelNow, Sample};

/// Rates are over this long, or less where there is less.
const RATE_NS: u64 = 1_000_000_000;

/// How a channel is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Requests in flight, and no change for as long as a stall takes.
    Stuck,
    /// Requests in flight, and no change for a while.
    Waiting,
    /// Something changed within the last second.
    Moving,
    /// Nothing in flight.
    Idle,
    Closed,
}

/// No change for this long is worth a colour.
const WAITING_MS: u64 = 500;

/// One channel at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    /// Place of its node in the picture.
    pub node: usize,
    /// Place in the sample.
    pub place: usize,
    pub now: &'a ChannelNow,
    pub state: State,
    /// Since anything changed.
    pub quiet_ms: u64,
    pub head_age_ms: Option<u64>,
    pub bytes_per_s: f64,
    pub tests_per_s: f64,
    /// Share of these tests with nothing done, 0 to 1.
    pub not_done: Option<f64>,
}

impl Row<'_> {
    pub(crate) fn in_flight(&self) -> u64 {
        self.now.posted.saturating_sub(self.now.consumed)
    }

    /// Done and not handed back.
    pub(crate) fn done_unconsumed(&self) -> u64 {
        self.now.done.saturating_sub(self.now.consumed)
    }

    pub(crate) fn is_send(&self) -> bool {
        self.now.side == "send"
    }
}

/// One node at one moment.
#[derive(Debug)]
pub(crate) struct NodePicture<'a> {
    pub node: &'a Node,
    pub phase: Option<&'a str>,
    pub sample: Option<&'a Sample>,
    pub out_per_s: f64,
    pub in_per_s: f64,
    /// Since its counters were taken.
    pub stale_ms: u64,
    /// How it had ended by then.
    pub ended: Option<&'a str>,
}

/// Everything at one moment.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub at_ns: u64,
    pub nodes: Vec<NodePicture<'a>>,
    /// Every channel, by node, sends first.
    pub rows: Vec<Row<'a>>,
    pub health: Health,
}

impl<'a> Picture<'a> {
    /// `None` is as late as anything is known; `now_ns` is how late that can be.
    pub(crate) fn at(model: &'a Model, at_ns: u64) -> Self {
        let mut rows = Vec::new();
        let nodes = model.nodes.iter().enumerate().map(|(place, node)| {
            let from = rows.len();
            let sample = node.series.at(at_ns);
            let is_last = node.series.last().is_none_or(|last| last.at_ns <= at_ns);
            let ended = node.facts.ended.as_deref().filter(|_| is_last);
            let is_over = ended.is_some() || model.ended.is_some();
            let stale_ms =
                sample.filter(|_| !is_over).map_or(0, |sample| at_ns.saturating_sub(sample.at_ns) / 1_000_000);
            let before = sample.and_then(|sample| node.series.at(sample.at_ns.saturating_sub(RATE_NS)));
            let before = before.or_else(|| node.series.iter().next());
            if let Some(sample) = sample {
                let seconds = before.map_or(0.0, |before| sample.at_ns.saturating_sub(before.at_ns) as f64 / 1e9);
                // What has not been told for long is not going on.
                let seconds = if stale_ms > 2000 { 0.0 } else { seconds };
                rows.extend(sample.channels.iter().enumerate().map(|(index, now)| {
                    row(place, index, now, before.and_then(|before| same(before, index, now)), seconds, stale_ms, model)
                }));
            }
            let rate = |send: bool| {
                rows[from..].iter().filter(|row: &&Row| row.is_send() == send).map(|row| row.bytes_per_s).sum()
            };
            let (out_per_s, in_per_s) = (rate(true), rate(false));
            NodePicture { node, phase: model.phase(&node.name, at_ns), sample, out_per_s, in_per_s, stale_ms, ended }
        });
        let nodes: Vec<_> = nodes.collect();
        let health = Health::of(model, &nodes, &rows, at_ns);
        Self { at_ns, nodes, rows, health }
    }

    /// Bytes per second of one channel, `count` points of `step_ns` up to now.
    pub(crate) fn history(&self, row: &Row<'_>, count: usize, step_ns: u64) -> Vec<f64> {
        let Some(picture) = self.nodes.get(row.node) else { return Vec::new() };
        let points = self.points(picture, count, step_ns);
        let bytes = |sample: &Sample| same(sample, row.place, row.now).map(|one| one.bytes);
        rates(&points, bytes)
    }

    /// The same for all of a node's channels of one side.
    pub(crate) fn node_history(&self, picture: &NodePicture<'_>, send: bool, count: usize, step_ns: u64) -> Vec<f64> {
        let side = if send { "send" } else { "recv" };
        let points = self.points(picture, count, step_ns);
        rates(&points, |sample| Some(sample.channels.iter().filter(|one| one.side == side).map(|one| one.bytes).sum()))
    }

    fn points<'b>(&self, picture: &NodePicture<'b>, count: usize, step_ns: u64) -> Vec<Option<&'b Sample>> {
        let time = |back: usize| self.at_ns.checked_sub(back as u64 * step_ns);
        (0..=count).rev().map(|back| picture.node.series.at(time(back)?)).collect()
    }
}

fn rates(points: &[Option<&Sample>], bytes: impl Fn(&Sample) -> Option<u64>) -> Vec<f64> {
    let rate = |pair: &[Option<&Sample>]| {
        let (before, after) = (pair[0]?, pair[1]?);
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let moved = bytes(after)?.checked_sub(bytes(before)?)?;
        (seconds > 0.0).then(|| moved as f64 / seconds)
    };
    points.windows(2).map(|pair| rate(pair).unwrap_or(0.0)).collect()
}

/// The channel in another sample, which mostly has it in the same place.
fn same<'a>(sample: &'a Sample, place: usize, channel: &ChannelNow) -> Option<&'a ChannelNow> {
    let is = |one: &&ChannelNow| one.index == channel.index && one.side == channel.side;
    sample.channels.get(place).filter(is).or_else(|| sample.channels.iter().find(is))
}

fn row<'a>(
    node: usize,
    place: usize,
    now: &'a ChannelNow,
    before: Option<&ChannelNow>,
    seconds: f64,
    stale_ms: u64,
    model: &Model,
) -> Row<'a> {
    let grown = |count: fn(&ChannelNow) -> u64| before.map_or(0, |before| count(now).saturating_sub(count(before)));
    let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let quiet_ms = now.quiet_ms.saturating_add(stale_ms);
    let (tests, not_done) = (grown(|one| one.tests), grown(|one| one.tests_not_done));
    let in_flight = now.posted > now.consumed;
    let state = match in_flight {
        _ if now.closed => State::Closed,
        true if quiet_ms >= model.stall_after_ms() => State::Stuck,
        true if quiet_ms >= WAITING_MS => State::Waiting,
        true => State::Moving,
        false if quiet_ms < 1000 && now.posted > 0 => State::Moving,
        false => State::Idle,
    };
    Row {
        node,
        place,
        now,
        state,
        quiet_ms,
        head_age_ms: now.head_age_ms.map(|age| age.saturating_add(stale_ms)),
        bytes_per_s: per_s(grown(|one| one.bytes)),
        tests_per_s: per_s(tests),
        not_done: (tests > 0).then(|| not_done as f64 / tests as f64),
    }
}
