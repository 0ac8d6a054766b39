//! Counters over time, divided into as many parts as a chart can show.
#![forbid(unsafe_code)]

use super::events::{Counters, Events};
use crate::story::{ChannelSeries, ChannelWindow, Story, TimeAxis, in_flight};
use std::collections::BTreeMap;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::SampleLine;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::state::{DeclaredStall, RunState, WorkerState};
use tcpx_words::side::Side;

/// Maximum parts of the time axis; a chart is about 900 pixels wide.
const PARTS_MAX: usize = 240;
/// Maximum channels in a report, over all workers.
const CHANNELS_MAX: usize = 4096;

pub(super) fn add_series(events: &Events, story: &mut Story) {
    let state = &events.state;
    let all = || events.samples.values().flatten();
    let most = events.samples.values().map(Vec::len).max().unwrap_or(0);
    let (from_ms, to_ms) = (
        all().map(|one| one.ms).fold(f64::MAX, f64::min),
        all().map(|one| one.ms).fold(0.0, f64::max),
    );
    story.axis.stall_ms = state.stall().map(|stall| stall.at_ms);
    if most < 3 || to_ms <= from_ms {
        story.lacks("charts over time", "no worker has three or more samples");
        return;
    }
    story.axis = TimeAxis {
        from_ms,
        to_ms,
        parts: most.min(PARTS_MAX),
        ..story.axis
    };
    for (id, samples) in &events.samples {
        let worker = Subject::worker(*id, &state.names);
        let worker_state = state.workers.get(id);
        let mut series = channel_series(&worker, samples, story.axis, |device| {
            interface(worker_state, device)
        });
        series.truncate(CHANNELS_MAX.saturating_sub(story.series.len()));
        story.series.append(&mut series);
    }
}

/// The interface of a plugin device, as its worker reported it.
fn interface(worker: Option<&WorkerState>, device: i64) -> String {
    worker
        .and_then(|worker| worker.nic(device))
        .unwrap_or_default()
        .to_owned()
}

fn channel_series(
    worker: &Subject,
    samples: &[SampleLine<Counters>],
    axis: TimeAxis,
    interface: impl Fn(i64) -> String,
) -> Vec<ChannelSeries> {
    let mut found: BTreeMap<(Side, usize), SeriesBuilder> = BTreeMap::new();
    for sample in samples {
        for counters in &sample.channels {
            let gathered = found
                .entry((counters.side, counters.index))
                .or_insert_with(|| {
                    let series = ChannelSeries {
                        worker: worker.clone(),
                        side: counters.side,
                        index: counters.index,
                        dev: interface(counters.device),
                        bytes: Vec::new(),
                        in_flight: Vec::new(),
                    };
                    SeriesBuilder::new(series, axis)
                });
            gathered.add(sample.ms, counters);
        }
    }
    found.into_values().map(SeriesBuilder::finish).collect()
}

/// The series of one channel while samples are added.
struct SeriesBuilder {
    series: ChannelSeries,
    axis: TimeAxis,
    bytes: Vec<Option<f64>>,
    in_flight: Vec<Option<u32>>,
    /// Milliseconds and bytes of the previous sample.
    before: Option<(f64, u64)>,
}

impl SeriesBuilder {
    fn new(series: ChannelSeries, axis: TimeAxis) -> Self {
        Self {
            series,
            axis,
            bytes: vec![None; axis.parts],
            in_flight: vec![None; axis.parts],
            before: None,
        }
    }

    fn add(&mut self, ms: f64, now: &Counters) {
        let in_flight = in_flight(now.side, now.posted, now.done, now.consumed);
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let Some(part) = self.axis.part(ms) else {
            return;
        };
        self.in_flight[part] = self.in_flight[part].max(Some(in_flight));
        if let Some((from_ms, bytes)) = self.before {
            self.spread(from_ms, ms, now.bytes.saturating_sub(bytes));
        }
        self.before = Some((ms, now.bytes));
    }

    /// Spreads the bytes between two samples evenly over the time between them.
    fn spread(&mut self, from_ms: f64, to_ms: f64, bytes: u64) {
        let (Some(first), Some(last)) = (self.axis.part(from_ms), self.axis.part(to_ms)) else {
            return;
        };
        let part_ms = (self.axis.to_ms - self.axis.from_ms) / self.axis.parts as f64;
        for part in first..=last {
            let begins = self.axis.from_ms + part as f64 * part_ms;
            let inside = (to_ms.min(begins + part_ms) - from_ms.max(begins)).max(0.0);
            let share = if to_ms > from_ms {
                inside / (to_ms - from_ms)
            } else {
                1.0
            };
            *self.bytes[part].get_or_insert(0.0) += bytes as f64 * share;
        }
    }

    fn finish(mut self) -> ChannelSeries {
        // A part without a sample keeps the value of the part before, up to the last sample.
        let last = self
            .in_flight
            .iter()
            .rposition(Option::is_some)
            .unwrap_or(0);
        let mut seen = None;
        for place in self.in_flight.iter_mut().take(last) {
            seen = place.or(seen);
            *place = seen;
        }
        self.series.bytes = self
            .bytes
            .into_iter()
            .map(|bytes| bytes.map(|bytes| bytes.round() as u64))
            .collect();
        self.series.in_flight = self.in_flight;
        self.series
    }
}

/// Adds every channel's window. In a run that stalled, these are the windows of the stalled
/// pairs at the stall. Otherwise they are the newest, or those at the failure of a worker.
pub(super) fn add_windows(state: &RunState, story: &mut Story) {
    let stalls: BTreeMap<usize, DeclaredStall> = (0..)
        .zip(&state.pairs)
        .filter_map(|(pair, of)| Some((pair, of.stall?)))
        .collect();
    let is_over = stalls.values().all(|stall| stall.recovered);
    for worker in state.workers.values() {
        let stall = worker.id.pair().and_then(|pair| stalls.get(&pair.index()));
        let channels = match (stall, &worker.at_stall) {
            (Some(stall), Some(picture)) if is_over || !stall.recovered => {
                picture.channels.as_slice()
            }
            _ if stalls.is_empty() => worker.judged().1,
            _ => continue,
        };
        let subject = Subject::worker(worker.id, &state.names);
        let window = |now: &ChannelNow| window(&subject, interface(Some(worker), now.device), now);
        story
            .windows
            .extend(channels.iter().take(CHANNELS_MAX).map(window));
    }
    if story.windows.len() > CHANNELS_MAX {
        // Channels with requests in flight are kept first.
        story.windows.sort_by_key(|window| window.in_flight() == 0);
        story.windows.truncate(CHANNELS_MAX);
        story.lacks("some windows", format!("only {CHANNELS_MAX} are shown"));
    }
}

fn window(worker: &Subject, dev: String, now: &ChannelNow) -> ChannelWindow {
    ChannelWindow {
        worker: worker.clone(),
        side: now.side,
        index: now.index,
        dev,
        requests: now.requests.clone(),
        posted: now.posted,
        done: now.done,
        consumed: now.consumed,
        head_age_ms: now.head_age_ms,
        quiet_ms: now.quiet_ms,
        tests: now.tests,
        tests_not_done: now.tests_not_done,
        rc_errors: now.rc_errors,
        in_call: now.in_call.clone(),
        last_error: now.last_error.clone(),
        addresses: (now.local.is_some() || now.peer.is_some())
            .then(|| (now.local.clone(), now.peer.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::ids::{Names, NodeId, PairId, WorkerId};

    #[test]
    fn bytes_are_spread_over_the_parts_between_two_samples() {
        let id = WorkerId::of_pair(NodeId(1), PairId(0));
        let counters = |bytes: u64, posted: u64| Counters {
            side: Side::Recv,
            posted,
            done: posted,
            bytes,
            ..Counters::default()
        };
        let samples: Vec<SampleLine<Counters>> =
            [(0.0, 0, 1), (10.0, 100, 5), (35.0, 350, 2), (40.0, 400, 2)]
                .map(|(ms, bytes, posted)| SampleLine {
                    ms,
                    worker: id,
                    channels: vec![counters(bytes, posted)],
                })
                .into();
        let axis = TimeAxis {
            from_ms: 0.0,
            to_ms: 40.0,
            parts: 4,
            stall_ms: None,
        };
        let worker = Subject::worker(id, &Names::default());
        let series = channel_series(&worker, &samples, axis, |_| "eth1".into());
        assert_eq!(series[0].bytes, [100, 100, 100, 100].map(Some));
        assert_eq!(series[0].in_flight, [Some(1), Some(5), Some(5), Some(2)]);
    }
}
