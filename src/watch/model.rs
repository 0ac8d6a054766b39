//! Everything a view was told, kept so that it can go back.
//!
//! Bounded: counters thin out with age (`Series`), the oldest log lines go. The
//! model knows no clock and no screen; a time is what an update says.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use tcpx_run_model::record::live::{Detail, Line, NodeNow, Title, Update};
use tcpx_run_model::record::{ChannelNow, Finding, Sample, Series};

/// Channel samples of one node that are kept, some 400 bytes each.
const SAMPLES_OF_CHANNELS_MAX: usize = 200_000;
/// Log lines that are kept.
const LINES_MAX: usize = 5000;
/// Marks that are kept.
const MARKS_MAX: usize = 1000;
const NODES_MAX: usize = 256;

/// A moment worth going back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    /// When.
    pub at_ns: u64,
    /// Of which node.
    pub node: String,
    /// What.
    pub kind: MarkKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MarkKind {
    /// The last change before a standstill.
    Stalled,
    /// It moved again.
    Moving,
    Phase(String),
}

/// One node, or one process.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    pub facts: NodeNow,
    pub series: Series,
    pub iterations: u32,
    pub verified: Option<(u64, u64)>,
    stalled: bool,
    /// Channels that the series has room for.
    room: usize,
}

impl Node {
    /// More channels are fewer samples.
    fn make_room(&mut self, channels: usize) {
        if channels > self.room {
            self.room = channels.next_power_of_two();
            let most = (SAMPLES_OF_CHANNELS_MAX / self.room).clamp(64, tcpx_run_model::record::SAMPLES_MAX);
            let before = std::mem::replace(&mut self.series, Series::new(most));
            before.iter().for_each(|sample| self.series.push(sample.clone()));
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub at_ns: u64,
    pub outcome: String,
    pub reason: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub title: Title,
    pub nodes: Vec<Node>,
    pub lines: VecDeque<Line>,
    /// Lines that are gone.
    pub lines_lost: u64,
    pub marks: Vec<Mark>,
    pub findings: Vec<Finding>,
    pub detail: Option<Detail>,
    pub ended: Option<Ended>,
}

/// What is taken for a stall where nobody says.
const STALL_AFTER_MS: u64 = 3000;

impl Model {
    pub(crate) fn take(&mut self, update: Update) {
        match update {
            Update::Title(title) => self.title = title,
            Update::Node { node, facts } => {
                if let Some(node) = self.node(&node) {
                    node.facts = facts;
                }
            }
            Update::Sample { node, at_ns, channels } => self.sample(&node, at_ns, channels),
            Update::Line(line) => {
                if self.lines.len() == LINES_MAX {
                    self.lines.pop_front();
                    self.lines_lost += 1;
                }
                // Several sources of one node, several nodes: each in order, not all of them.
                let place = self.lines.partition_point(|before| before.at_ns <= line.at_ns);
                self.lines.insert(place, line);
            }
            Update::Phase { node, at_ns, phase } => self.mark(at_ns, &node, MarkKind::Phase(phase)),
            Update::Iterations { node, done } => {
                if let Some(node) = self.node(&node) {
                    node.iterations = done;
                }
            }
            Update::Verified { node, bytes, wrong } => {
                if let Some(node) = self.node(&node) {
                    node.verified = Some((bytes, wrong));
                }
            }
            Update::Detail(detail) => self.detail = Some(*detail),
            Update::Findings(findings) => self.findings = findings,
            Update::Ended { at_ns, outcome, reason } => self.ended = Some(Ended { at_ns, outcome, reason }),
        }
    }

    /// Milliseconds without a change that are a stall.
    pub(crate) fn stall_after_ms(&self) -> u64 {
        if self.title.stall_after_ms == 0 { STALL_AFTER_MS } else { self.title.stall_after_ms }
    }

    /// The node of that name, new if need be; none where there are too many.
    fn node(&mut self, name: &str) -> Option<&mut Node> {
        let place = match self.nodes.iter().position(|node| node.name == name) {
            Some(place) => place,
            None if self.nodes.len() == NODES_MAX => return None,
            None => {
                let place = self.nodes.partition_point(|node| node.name.as_str() < name);
                self.nodes.insert(place, Node { name: name.to_owned(), ..Node::default() });
                place
            }
        };
        self.nodes.get_mut(place)
    }

    fn sample(&mut self, name: &str, at_ns: u64, channels: Vec<ChannelNow>) {
        let stall_after_ms = self.stall_after_ms();
        let quiet = channels.iter().filter(|one| is_quiet(one, stall_after_ms)).map(|one| one.quiet_ms).min();
        let Some(node) = self.node(name) else { return };
        node.make_room(channels.len());
        let was = std::mem::replace(&mut node.stalled, quiet.is_some());
        node.series.push(Sample { at_ns, channels });
        match (was, quiet) {
            (false, Some(quiet_ms)) => {
                self.mark(at_ns.saturating_sub(quiet_ms.saturating_mul(1_000_000)), name, MarkKind::Stalled)
            }
            (true, None) => self.mark(at_ns, name, MarkKind::Moving),
            _ => {}
        }
    }

    fn mark(&mut self, at_ns: u64, node: &str, kind: MarkKind) {
        if self.marks.len() == MARKS_MAX {
            self.marks.remove(0);
        }
        let place = self.marks.partition_point(|mark| mark.at_ns <= at_ns);
        self.marks.insert(place, Mark { at_ns, node: node.to_owned(), kind });
    }

    /// The phase of a node at a moment.
    pub(crate) fn phase(&self, node: &str, at_ns: u64) -> Option<&str> {
        let before = self.marks.iter().rev().filter(|mark| mark.at_ns <= at_ns && mark.node == node);
        before.into_iter().find_map(|mark| match &mark.kind {
            MarkKind::Phase(phase) => Some(phase.as_str()),
            _ => None,
        })
    }

    /// The first and the last moment that is known of.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let first = self.nodes.iter().filter_map(|node| node.series.iter().next()).map(|sample| sample.at_ns).min()?;
        let last = self.nodes.iter().filter_map(|node| node.series.last()).map(|sample| sample.at_ns).max()?;
        Some((first, last))
    }

    /// The next sample after a moment, or the one before it.
    pub(crate) fn step(&self, at_ns: u64, forward: bool) -> Option<u64> {
        let times = self.nodes.iter().flat_map(|node| node.series.iter()).map(|sample| sample.at_ns);
        if forward { times.filter(|at| *at > at_ns).min() } else { times.filter(|at| *at < at_ns).max() }
    }

    /// The stall to look at from `at_ns`: the one before it, else the first.
    pub(crate) fn stall_before(&self, at_ns: u64) -> Option<u64> {
        let mut stalls = self.marks.iter().filter(|mark| mark.kind == MarkKind::Stalled).map(|mark| mark.at_ns);
        let before = stalls.clone().rfind(|stall| *stall < at_ns);
        before.or_else(|| stalls.next())
    }
}

/// Something is in flight and nothing has changed for `after_ms`.
pub(super) fn is_quiet(channel: &ChannelNow, after_ms: u64) -> bool {
    !channel.closed && channel.posted > channel.consumed && channel.quiet_ms >= after_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::record::live::LineKind;

    #[test]
    fn lines_of_two_nodes_stand_in_the_order_of_their_times_and_the_oldest_go() {
        let mut model = Model::default();
        for at_ns in [5, 9, 7, 1, 9] {
            let line = Line { node: "peer".into(), at_ns, kind: LineKind::Note, text: String::new() };
            model.take(Update::Line(line));
        }
        assert!(model.lines.iter().map(|line| line.at_ns).eq([1, 5, 7, 9, 9]));
        for at_ns in 10..10 + LINES_MAX as u64 {
            let line = Line { node: "local".into(), at_ns, kind: LineKind::Note, text: String::new() };
            model.take(Update::Line(line));
        }
        assert_eq!((model.lines.len(), model.lines_lost, model.lines[0].at_ns), (LINES_MAX, 5, 10));
    }

    fn channel(posted: u64, quiet_ms: u64) -> Vec<ChannelNow> {
        vec![ChannelNow { side: "recv".into(), posted, quiet_ms, ..ChannelNow::default() }]
    }

    #[test]
    fn a_stall_is_marked_where_the_last_change_was_and_its_end_too() {
        let mut model = Model::default();
        for (second, quiet_ms) in [(1, 0), (2, 1000), (4, 3000), (5, 4000), (6, 10)] {
            let at_ns = second * 1_000_000_000;
            model.take(Update::Sample { node: "peer".into(), at_ns, channels: channel(3, quiet_ms) });
        }
        let marks: Vec<_> = model.marks.iter().map(|mark| (mark.at_ns / 1_000_000_000, mark.kind.clone())).collect();
        assert_eq!(marks, [(1, MarkKind::Stalled), (6, MarkKind::Moving)]);
        assert_eq!(model.stall_before(u64::MAX), Some(1_000_000_000));
        assert_eq!(model.step(4_000_000_000, false), Some(2_000_000_000));
        assert_eq!(model.step(4_000_000_000, true), Some(5_000_000_000));
    }

    #[test]
    fn more_channels_are_fewer_samples_and_none_is_lost_at_once() {
        let mut model = Model::default();
        model.take(Update::Sample { node: "peer".into(), at_ns: 1, channels: channel(1, 0) });
        for at_ns in 2..500 {
            let channels = vec![ChannelNow::default(); 1024];
            model.take(Update::Sample { node: "peer".into(), at_ns, channels });
        }
        let samples = model.nodes[0].series.len();
        assert!((64..=SAMPLES_OF_CHANNELS_MAX / 1024 + 1).contains(&samples), "{samples}");
        assert_eq!(model.span(), Some((1, 499)));
    }
}
