//! The recorders of all workers: the latency of requests, and the history of each request of
//! the channel in question.
#![forbid(unsafe_code)]

use crate::story::{
    ChannelWindow, RequestTimeline, SideLatency, Story, TimelineEnd, TimelineRequest,
};
use std::collections::BTreeMap;
use tcpx_recorder::{Histogram, Reader};
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::finding::{Severity, Subject};
use tcpx_run_model::ids::Unit;
use tcpx_run_model::live::torn;
use tcpx_run_model::record::{RunFiles, WorkerFile, worker_file};
use tcpx_run_model::state::RunState;
use tcpx_trace::{ChannelTrace, Request, WorkerTrace, each_request};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

/// Maximum number of requests of each end in the timeline.
const REQUESTS_MAX: usize = 24;
/// Maximum number of different log lines of each worker beside the timeline.
const NOTES_MAX: usize = 12;

/// The contents of a worker's recorder, with times by the coordinator's clock.
pub(super) struct WorkerRecording {
    worker: Subject,
    trace: WorkerTrace,
}

/// Reads every recorder of the run.
pub(super) fn read(files: &RunFiles, state: &RunState, story: &mut Story) -> Vec<WorkerRecording> {
    let (mut all, names) = (Vec::new(), &state.names);
    let recorders = files.of_workers(WorkerFile::Recorder, names);
    let loaded = state
        .workers
        .values()
        .filter(|worker| worker.plugin.is_some());
    for worker in loaded.filter(|worker| recorders.iter().all(|(id, _)| *id != worker.id)) {
        let file = worker_file(WorkerFile::Recorder, worker.id, names);
        let what = format!("requests of {}", names.worker(worker.id));
        story.lacks(&what, format!("{file} is missing"));
    }
    for (id, file) in recorders {
        let worker = Subject::worker(id, names);
        let mut opened = files
            .file(&file)
            .map_err(Into::into)
            .and_then(Reader::from_file);
        if let Some(torn) = opened.as_mut().ok().and_then(|reader| torn(&file, reader)) {
            story.damaged(&format!("requests of {}", worker.name), torn);
        }
        match opened.and_then(|mut reader| WorkerTrace::read(id, &worker.name, &mut reader)) {
            Ok(mut trace) => {
                let clock = story.nodes.get(id.node.index()).and_then(|node| node.clock);
                trace.move_clock(clock.map_or(0, |clock| clock.offset_us));
                all.push(WorkerRecording { worker, trace });
            }
            Err(error) => story.damaged(
                &format!("requests of {}", worker.name),
                format!("{file}: {error}"),
            ),
        }
    }
    if all.is_empty() {
        story.lacks(
            "latency distribution and request timeline",
            "the run folder has no readable recorder",
        );
    }
    all
}

pub(super) fn add_requests(recorders: &[WorkerRecording], story: &mut Story) {
    story.latencies = latencies(recorders);
    if story.windows.is_empty() {
        story.windows = recorders.iter().flat_map(windows).collect();
    }
    for window in &mut story.windows {
        if window.dev.is_empty() {
            window.dev = interface(recorders, window).unwrap_or_default();
        }
    }
    story.timeline = timeline(recorders, story);
}

/// The interface of a window's channel, from the recorder of its worker.
fn interface(recorders: &[WorkerRecording], window: &ChannelWindow) -> Option<String> {
    let recorded = recorders
        .iter()
        .find(|recorded| recorded.worker == window.worker)?;
    let channel = recorded
        .trace
        .channels
        .iter()
        .find(|one| one.side() == Some(window.side) && one.index == window.index)?;
    Some(channel.device.clone())
}

fn latencies(recorders: &[WorkerRecording]) -> Vec<SideLatency> {
    let mut all = Vec::new();
    for recorded in recorders {
        for side in [Side::Send, Side::Recv] {
            let mut sum = Histogram::empty();
            let of_side = recorded
                .trace
                .channels
                .iter()
                .filter(|channel| channel.side() == Some(side));
            of_side.for_each(|one| sum.add(&one.sample.latency));
            if sum.count() == 0 {
                continue;
            }
            let quantiles = sum.quantiles_ns([0.5, 0.99, 0.999]).zip(sum.max_ns());
            let quantiles = quantiles.map(|([p50, p99, p999], max)| {
                let [p50, p99, p999, max] = [p50, p99, p999, max].map(|ns| ns as f64 / 1e3);
                LatencyUs {
                    p50,
                    p99,
                    p999,
                    max,
                }
            });
            let buckets = sum.buckets().filter(|bucket| bucket.2 > 0).collect();
            all.push(SideLatency {
                worker: recorded.worker.clone(),
                side,
                buckets,
                quantiles,
            });
        }
    }
    all
}

/// The windows of a run without samples, from the last state in its recorders.
fn windows(recorded: &WorkerRecording) -> Vec<ChannelWindow> {
    let window = |channel: &ChannelTrace| {
        let sample = &channel.sample;
        Some(ChannelWindow {
            worker: recorded.worker.clone(),
            side: channel.side()?,
            index: channel.index,
            dev: channel.device.clone(),
            requests: sample
                .requests
                .iter()
                .map(|request| request.stage.letter())
                .collect(),
            posted: sample.posted,
            done: sample.done,
            consumed: sample.retired(),
            head_age_ms: None,
            quiet_ms: 0,
            tests: sample.tests,
            tests_not_done: sample.tests_not_done,
            rc_errors: sample.rc_errors(),
            in_call: sample.in_call.map(|inside| inside.call.name().to_owned()),
            last_error: sample
                .last_error
                .map(|last| (last.call.name().to_owned(), last.code)),
            addresses: None,
        })
    };
    recorded.trace.channels.iter().filter_map(window).collect()
}

/// The channel that a finding names, or otherwise the channel that has waited longest: its pair,
/// its index, and the reason for choosing it.
fn in_question(story: &Story) -> Option<(Option<Unit>, usize, String)> {
    let unit = |worker: &Subject| worker.pair.map(Unit::Pair);
    let named = story.findings.iter().find_map(|finding| {
        let channel = finding
            .channel
            .filter(|_| finding.severity != Severity::Info)?;
        let why = format!("named by the finding {}", finding.condition);
        Some((finding.subject.as_ref().and_then(unit), channel, why))
    });
    let waiting = || {
        let stuck = story.windows.iter().filter(|window| window.in_flight() > 0);
        let longest = stuck.max_by_key(|window| (window.quiet_ms, window.head_age_ms))?;
        let why = format!(
            "{} of {} has waited longest",
            longest.channel(),
            longest.worker.name
        );
        Some((unit(&longest.worker), longest.index, why))
    };
    named.or_else(waiting)
}

/// The requests of both ends of the channel in question, up to the channel's last change.
fn timeline(recorders: &[WorkerRecording], story: &Story) -> Option<RequestTimeline> {
    if story.is(Outcome::Passed) && story.axis.stall_ms.is_none() {
        return None;
    }
    let (unit, index, why) = in_question(story)?;
    let of_pair = recorders
        .iter()
        .filter(|recorded| unit.is_none_or(|unit| recorded.trace.id.unit == unit));
    let is_end = |channel: &&ChannelTrace| channel.index == index && channel.side().is_some();
    let mut ends: Vec<(&WorkerRecording, &ChannelTrace)> = Vec::new();
    for recorded in of_pair {
        ends.extend(
            recorded
                .trace
                .channels
                .iter()
                .filter(is_end)
                .map(|channel| (recorded, channel)),
        );
    }
    // The last change of a request, because the last change of a comm is its close.
    let last_change = |(recorded, channel): &(&WorkerRecording, &ChannelTrace)| {
        let times = requests(channel)
            .into_iter()
            .flat_map(|one| [one.posted, one.done, one.unpacked, one.consumed]);
        recorded.trace.unix_ns(
            times
                .flatten()
                .max()
                .unwrap_or(channel.sample.last_change_ns),
        )
    };
    let moment = ends.iter().map(last_change).max()?;
    let mut ends: Vec<TimelineEnd> = ends
        .iter()
        .filter_map(|(recorded, channel)| end(recorded, channel, moment))
        .collect();
    // In the direction of the data: senders above receivers.
    ends.sort_by_key(|end| (end.side, end.worker.name.clone()));
    let times = || {
        ends.iter()
            .flat_map(|end| &end.requests)
            .flat_map(|one| [one.posted, one.done, one.consumed])
            .flatten()
    };
    let before_ns = times().min().unwrap_or(0).min(-1_000).unsigned_abs();
    let mut timeline = RequestTimeline {
        why,
        channel: index,
        before_ns,
        after_ns: before_ns / 5,
        ends,
        notes: Vec::new(),
    };
    timeline.notes = notes(recorders, moment, &timeline);
    Some(timeline)
}

fn requests(channel: &ChannelTrace) -> Vec<Request> {
    let mut all = Vec::new();
    let until_consumed = channel.side() == Some(Side::Recv);
    each_request(&channel.events.events, until_consumed, |request| {
        all.push(request.clone())
    });
    all.sort_by_key(|request| (request.begins(), request.number));
    all.split_off(all.len().saturating_sub(REQUESTS_MAX))
}

fn end(recorded: &WorkerRecording, channel: &ChannelTrace, moment: u64) -> Option<TimelineEnd> {
    let from = |at: Option<u64>| {
        at.map(|at| {
            recorded
                .trace
                .unix_ns(at)
                .wrapping_sub(moment)
                .cast_signed()
        })
    };
    let request = |one: Request| TimelineRequest {
        number: one.number,
        posted: from(one.posted),
        done: from(one.done),
        unpacked: from(one.unpacked),
        consumed: from(one.consumed),
    };
    let requests = requests(channel).into_iter().map(request).collect();
    Some(TimelineEnd {
        worker: recorded.worker.clone(),
        side: channel.side()?,
        requests,
    })
}

fn notes(
    recorders: &[WorkerRecording],
    moment: u64,
    timeline: &RequestTimeline,
) -> Vec<(i64, String, String)> {
    let range = -(timeline.before_ns.cast_signed())..=timeline.after_ns.cast_signed();
    let mut all = Vec::new();
    for WorkerRecording { worker, trace } in recorders {
        let mut seen = BTreeMap::new();
        for line in &trace.log {
            let at = trace.unix_ns(line.at_ns).wrapping_sub(moment).cast_signed();
            let count: &mut usize = seen.entry((&line.function, line.line)).or_default();
            *count += 1;
            if range.contains(&at) && *count == 1 && seen.len() <= NOTES_MAX {
                all.push((
                    at,
                    worker.name.clone(),
                    format!("{}:{} {}", line.function, line.line, line.text),
                ));
            }
        }
    }
    all.sort();
    all
}
