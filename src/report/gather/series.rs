//! Counters over time, in as many parts as a chart can show.
#![forbid(unsafe_code)]

use super::nodes::devices;
use super::stream::{Counters, Sampled, Stream};
use crate::report::story::{Axis, ChannelSeries, Story, Window};
use std::collections::BTreeMap;
use tcpx_run_model::record::ChannelNow;

/// Parts of the time axis; a chart is some 900 pixels wide.
const PARTS_MAX: usize = 240;
/// Channels of all nodes that are shown.
const CHANNELS_MAX: usize = 4096;

pub(super) fn tell(stream: &Stream, story: &mut Story) {
    let all = || stream.samples.values().flatten();
    let most = stream.samples.values().map(Vec::len).max().unwrap_or(0);
    let (from_ms, to_ms) =
        (all().map(|one| one.ms).fold(f64::MAX, f64::min), all().map(|one| one.ms).fold(0.0, f64::max));
    story.axis.stall_ms = stream.stall.as_ref().map(|stall| stall.ms);
    if most < 2 || to_ms <= from_ms {
        story.lacks("charts over time", "fewer than two samples of any node were recorded");
        return;
    }
    story.axis = Axis { from_ms, to_ms, parts: most.min(PARTS_MAX), ..story.axis };
    let devices = devices(stream);
    for (node, samples) in &stream.samples {
        let of_node = devices.get(node);
        let name = |device: i64| of_node.and_then(|devices| devices.get(&device)).cloned().unwrap_or_default();
        let mut series = of_samples(node, samples, story.axis, name);
        series.truncate(CHANNELS_MAX.saturating_sub(story.series.len()));
        story.series.append(&mut series);
    }
}

fn of_samples(node: &str, samples: &[Sampled], axis: Axis, name: impl Fn(i64) -> String) -> Vec<ChannelSeries> {
    let mut found: BTreeMap<(String, usize), Gathered> = BTreeMap::new();
    for sample in samples {
        for counters in &sample.channels {
            let gathered = found.entry((counters.side.clone(), counters.index)).or_insert_with(|| {
                let series = ChannelSeries {
                    node: node.to_owned(),
                    side: counters.side.clone(),
                    index: counters.index,
                    dev: name(counters.device),
                    ..ChannelSeries::default()
                };
                Gathered::new(series, axis)
            });
            gathered.take(sample.ms, counters);
        }
    }
    found.into_values().map(Gathered::told).collect()
}

struct Gathered {
    series: ChannelSeries,
    axis: Axis,
    bytes: Vec<Option<f64>>,
    in_flight: Vec<Option<u32>>,
    before: Option<(f64, u64)>,
}

impl Gathered {
    fn new(series: ChannelSeries, axis: Axis) -> Self {
        Self { series, axis, bytes: vec![None; axis.parts], in_flight: vec![None; axis.parts], before: None }
    }

    fn take(&mut self, ms: f64, now: &Counters) {
        let retired = if now.side == "recv" { now.consumed } else { now.done };
        let in_flight = u32::try_from(now.posted.saturating_sub(retired)).unwrap_or(u32::MAX);
        let Some(part) = self.axis.part(ms) else { return };
        self.in_flight[part] = self.in_flight[part].max(Some(in_flight));
        if let Some((from_ms, bytes)) = self.before {
            self.spread(from_ms, ms, now.bytes.saturating_sub(bytes));
        }
        self.before = Some((ms, now.bytes));
    }

    /// Bytes between two samples belong to the parts between them, by time.
    fn spread(&mut self, from_ms: f64, to_ms: f64, bytes: u64) {
        let (Some(first), Some(last)) = (self.axis.part(from_ms), self.axis.part(to_ms)) else { return };
        let part_ms = (self.axis.to_ms - self.axis.from_ms) / self.axis.parts as f64;
        for part in first..=last {
            let begins = self.axis.from_ms + part as f64 * part_ms;
            let inside = (to_ms.min(begins + part_ms) - from_ms.max(begins)).max(0.0);
            let share = if to_ms > from_ms { inside / (to_ms - from_ms) } else { 1.0 };
            *self.bytes[part].get_or_insert(0.0) += bytes as f64 * share;
        }
    }

    fn told(mut self) -> ChannelSeries {
        // Between two samples nothing else was seen.
        let last = self.in_flight.iter().rposition(Option::is_some).unwrap_or(0);
        let mut seen = None;
        for place in self.in_flight.iter_mut().take(last) {
            seen = place.or(seen);
            *place = seen;
        }
        self.series.bytes = self.bytes.into_iter().map(|bytes| bytes.map(|bytes| bytes.round() as u64)).collect();
        self.series.in_flight = self.in_flight;
        self.series
    }
}

pub(super) fn windows(stream: &Stream, story: &mut Story) {
    let devices = devices(stream);
    for (node, (_, channels)) in &stream.windows {
        let of_node = devices.get(node);
        let name = |device: i64| of_node.and_then(|devices| devices.get(&device)).cloned().unwrap_or_default();
        story.windows.extend(channels.iter().take(CHANNELS_MAX).map(|now| window(node, name(now.device), now)));
    }
}

fn window(node: &str, dev: String, now: &ChannelNow) -> Window {
    Window {
        node: node.to_owned(),
        side: now.side.clone(),
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
        addresses: now.local.clone().zip(now.peer.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(bytes: u64, posted: u64) -> Counters {
        Counters { side: "recv".into(), index: 0, device: 0, posted, done: posted, consumed: 0, bytes }
    }

    #[test]
    fn bytes_fall_into_the_parts_they_moved_in_and_none_is_lost() {
        let samples: Vec<Sampled> = [(0.0, 0, 1), (10.0, 100, 5), (35.0, 350, 2), (40.0, 400, 2)]
            .map(|(ms, bytes, posted)| Sampled { ms, channels: vec![counters(bytes, posted)] })
            .into();
        let axis = Axis { from_ms: 0.0, to_ms: 40.0, parts: 4, stall_ms: None };
        let series = of_samples("peer", &samples, axis, |_| "eth1".into());
        assert_eq!(series[0].bytes, [100, 100, 100, 100].map(Some));
        assert_eq!(series[0].in_flight, [Some(1), Some(5), Some(5), Some(2)]);
    }
}
