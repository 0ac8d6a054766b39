//! The recorders of both ends: how long requests took, and what each request of
//! the channel in question did.
#![forbid(unsafe_code)]

use super::stream::Stream;
use crate::report::story::{Latency, State, Story, Timeline, TimelineEnd, TimelineRequest, Window};
use crate::trace::{Channel, Node, Request, each_request};
use std::collections::BTreeMap;
use tcpx_recorder::{Histogram, Reader};
use tcpx_run_model::record::{LatencyUs, RunFiles};

/// Requests of one end that are drawn.
const REQUESTS_MAX: usize = 24;
/// Log lines of one node beside them.
const NOTES_MAX: usize = 12;

/// Every recorder of the run, by the clock of the coordinator.
pub(super) fn read(files: &RunFiles, story: &mut Story) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (name, file) in files.recorders() {
        let read = files.file(&file).map_err(Into::into).and_then(Reader::from_file);
        match read.and_then(|mut reader| Node::read(&name, &mut reader)) {
            Ok(mut node) => {
                let end = name.split(' ').next().unwrap_or_default();
                let clock = story.nodes.iter().find(|node| node.name == end).and_then(|node| node.clock);
                node.move_clock(clock.map_or(0, |clock| clock.offset_us));
                nodes.push(node);
            }
            Err(error) => {
                story.state = State::Damaged;
                story.lacks(&format!("requests of {name}"), format!("{file}: {error}"));
            }
        }
    }
    if nodes.is_empty() {
        story.lacks("latency distribution and requests one by one", "the run folder has no recorder that can be read");
    }
    nodes
}

pub(super) fn tell(nodes: &[Node], stream: &Stream, story: &mut Story) {
    story.latencies = latencies(nodes);
    if story.windows.is_empty() {
        story.windows = nodes.iter().flat_map(windows).collect();
    }
    for window in &mut story.windows {
        let of = |node: &&Node| node.name == window.node;
        let channel = nodes.iter().find(of).and_then(|node| channel(node, &window.side, window.index));
        if let Some(channel) = channel
            && window.dev.is_empty()
        {
            window.dev.clone_from(&channel.device);
        }
    }
    story.timeline = timeline(nodes, stream, story);
}

fn latencies(nodes: &[Node]) -> Vec<Latency> {
    let mut all = Vec::new();
    for node in nodes {
        for side in ["send", "recv"] {
            let mut sum = Histogram::empty();
            node.channels.iter().filter(|channel| channel.side == side).for_each(|one| sum.add(&one.sample.latency));
            if sum.count() == 0 {
                continue;
            }
            let quantiles = sum.quantiles_ns([0.5, 0.99, 0.999]).zip(sum.max_ns());
            let quantiles = quantiles.map(|([p50, p99, p999], max)| {
                let [p50, p99, p999, max] = [p50, p99, p999, max].map(|ns| ns as f64 / 1e3);
                LatencyUs { p50, p99, p999, max }
            });
            let buckets = sum.buckets().filter(|bucket| bucket.2 > 0).collect();
            all.push(Latency { node: node.name.clone(), side: side.to_owned(), buckets, quantiles });
        }
    }
    all
}

/// What a run without samples leaves in its recorders.
fn windows(node: &Node) -> Vec<Window> {
    let moving = node.channels.iter().filter(|channel| channel.side != "listen");
    let window = |channel: &Channel| {
        let sample = &channel.sample;
        Window {
            node: node.name.clone(),
            side: channel.side.to_owned(),
            index: channel.index,
            dev: channel.device.clone(),
            requests: sample.requests.iter().map(|request| request.stage.letter()).collect(),
            posted: sample.posted,
            done: sample.done,
            consumed: sample.retired(),
            tests: sample.tests,
            tests_not_done: sample.tests_not_done,
            rc_errors: sample.rc_errors(),
            in_call: sample.in_call.map(|inside| inside.call.name().to_owned()),
            last_error: sample.last_error.map(|last| (last.call.name().to_owned(), last.code)),
            ..Window::default()
        }
    };
    moving.map(window).collect()
}

fn channel<'a>(node: &'a Node, side: &str, index: usize) -> Option<&'a Channel> {
    node.channels.iter().find(|channel| channel.side == side && channel.index == index)
}

/// The channel that a finding names, or else the one that has waited longest.
fn in_question(story: &Story) -> Option<(usize, String)> {
    let named = story.findings.iter().find_map(|finding| {
        let channel = finding.channel.filter(|_| finding.severity != "info")?;
        Some((channel, format!("named by the finding {}", finding.condition)))
    });
    let waiting = || {
        let stuck = story.windows.iter().filter(|window| window.in_flight() > 0);
        let longest = stuck.max_by_key(|window| (window.quiet_ms, window.head_age_ms))?;
        Some((longest.index, format!("{} {} of {} has waited longest", longest.side, longest.index, longest.node)))
    };
    named.or_else(waiting)
}

/// Both ends of one channel up to the last thing that happened on it.
fn timeline(nodes: &[Node], stream: &Stream, story: &Story) -> Option<Timeline> {
    if story.outcome.as_deref() == Some("passed") && stream.stall.is_none() {
        return None;
    }
    let (index, why) = in_question(story)?;
    let is_end = |channel: &&Channel| channel.index == index && channel.side != "listen";
    let ends: Vec<(&Node, &Channel)> =
        nodes.iter().flat_map(|node| node.channels.iter().filter(is_end).map(move |channel| (node, channel))).collect();
    let changed = |(node, channel): &(&Node, &Channel)| node.unix_ns(channel.sample.last_change_ns);
    // What a comm does last is to be closed; the moment before that is meant.
    let stirred = |end: &(&Node, &Channel)| {
        let times = requests(end.1).into_iter().flat_map(|one| [one.posted, one.done, one.unpacked, one.consumed]);
        times.flatten().max().map_or_else(|| changed(end), |at| end.0.unix_ns(at))
    };
    let moment = ends.iter().map(stirred).max()?;
    let mut ends: Vec<TimelineEnd> = ends.iter().map(|(node, channel)| end(node, channel, moment)).collect();
    // As the data goes: from the sender down.
    ends.sort_by_key(|end| (end.side != "send", end.node.clone()));
    let times =
        || ends.iter().flat_map(|end| &end.requests).flat_map(|one| [one.posted, one.done, one.consumed]).flatten();
    let before_ns = times().min().unwrap_or(0).min(-1_000).unsigned_abs();
    let mut timeline = Timeline { why, channel: index, before_ns, after_ns: before_ns / 5, ends, notes: Vec::new() };
    timeline.notes = notes(nodes, moment, &timeline);
    Some(timeline)
}

fn requests(channel: &Channel) -> Vec<Request> {
    let mut all = Vec::new();
    each_request(&channel.events.events, channel.side == "recv", |request| all.push(request.clone()));
    all.sort_by_key(|request| (request.begins(), request.number));
    all.split_off(all.len().saturating_sub(REQUESTS_MAX))
}

fn end(node: &Node, channel: &Channel, moment: u64) -> TimelineEnd {
    let from = |at: Option<u64>| at.map(|at| node.unix_ns(at).wrapping_sub(moment).cast_signed());
    let request = |one: Request| TimelineRequest {
        number: one.number,
        posted: from(one.posted),
        done: from(one.done),
        unpacked: from(one.unpacked),
        consumed: from(one.consumed),
    };
    let requests = requests(channel).into_iter().map(request).collect();
    TimelineEnd { node: node.name.clone(), side: channel.side.to_owned(), requests }
}

fn notes(nodes: &[Node], moment: u64, timeline: &Timeline) -> Vec<(i64, String, String)> {
    let range = -(timeline.before_ns.cast_signed())..=timeline.after_ns.cast_signed();
    let mut all = Vec::new();
    for node in nodes {
        let mut seen = BTreeMap::new();
        for line in &node.log {
            let at = node.unix_ns(line.at_ns).wrapping_sub(moment).cast_signed();
            let count: &mut usize = seen.entry((&line.function, line.line)).or_default();
            *count += 1;
            if range.contains(&at) && *count == 1 && seen.len() <= NOTES_MAX {
                all.push((at, node.name.clone(), format!("{}:{} {}", line.function, line.line, line.text)));
            }
        }
    }
    all.sort();
    all
}
