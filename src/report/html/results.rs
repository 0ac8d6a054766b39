//! How much, how fast, and how it went over time.
#![forbid(unsafe_code)]

use super::page::{Page, Row};
use crate::report::chart::{Dot, Line, dots, heat, histogram, lines};
use crate::report::compare::profiles;
use crate::report::story::{ChannelSeries, Point, Story};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_words::units::ByteCount;

/// Channels that are lines of a chart; more are strips.
const LINES_MAX: usize = 8;
/// Rows of counters that are shown without being asked for.
const ROWS_OPEN: usize = 16;

pub(super) fn results(page: &mut Page, story: &Story) {
    page.section("results", "Results");
    if story.transfers.is_empty() {
        page.tag("p", "Nothing was measured.");
    } else {
        transfers(page, story);
        iterations(page, story);
    }
    sweep(page, story);
    over_time(page, story);
    latencies(page, story);
    counters(page, story);
}

fn transfers(page: &mut Page, story: &Story) {
    let row = |one: &tcpx_run_model::record::TransferRecord| -> Row {
        let first = one.first_iteration_seconds.map_or("-".to_owned(), |first| format!("{:.3}", first * 1e3));
        let round = one.round_trip_us.map_or("-".to_owned(), |us| format!("{:.1} / {:.1}", us.p50, us.p99));
        [
            one.direction(),
            rate(one, one.median_gb_per_s),
            rate(one, one.gb_per_s),
            one.iterations.to_string(),
            one.bytes.to_string(),
            format!("{:.4}", one.seconds),
            first,
            one.verified_bytes.to_string(),
            one.wrong_bytes.to_string(),
            round,
        ]
        .into()
    };
    let rows: Vec<Row> = story.transfers.iter().map(row).collect();
    page.table(
        "",
        &[
            "direction",
            "#median GB/s",
            "#overall GB/s",
            "#iterations",
            "#bytes",
            "#seconds",
            "#first iteration, ms",
            "#verified bytes",
            "#wrong bytes",
            "#round trip p50 / p99, µs",
        ],
        &rows,
    );
    for mismatch in story.transfers.iter().flat_map(|one| &one.mismatches) {
        page.tag("pre", &format!("{mismatch:?}"));
    }
}

/// A rate, where anything was measured.
pub(in crate::report) fn rate(transfer: &tcpx_run_model::record::TransferRecord, gb_per_s: f64) -> String {
    if transfer.iterations == 0 { "-".to_owned() } else { format!("{gb_per_s:.3}") }
}

fn iterations(page: &mut Page, story: &Story) {
    for transfer in story.transfers.iter().filter(|one| one.iterations > 1) {
        let per_iteration = transfer.bytes as f64 / f64::from(transfer.iterations);
        let rate = |seconds: f64| if seconds > 0.0 { per_iteration / seconds / 1e9 } else { 0.0 };
        let mut all: Vec<Dot> = transfer
            .iteration_seconds
            .iter()
            .enumerate()
            .map(|(index, seconds)| Dot { x: index as f64 + 1.0, y: rate(*seconds), apart: false })
            .collect();
        all.extend(transfer.first_iteration_seconds.map(|seconds| Dot { x: 0.0, y: rate(seconds), apart: true }));
        let last = transfer.iteration_seconds.len();
        let step = (last / 10).max(1);
        let marks: Vec<(f64, String)> = std::iter::once((0.0, "first".to_owned()))
            .chain((step..=last).step_by(step).map(|n| (n as f64, n.to_string())))
            .collect();
        let title = format!("Rate of every iteration, {}", transfer.direction());
        let svg = dots(
            &title,
            "GB/s",
            "measured iteration",
            &all,
            &[("median".to_owned(), transfer.median_gb_per_s)],
            &marks,
        );
        page.figure(&title, "hollow: the very first, which does not count", &svg);
    }
}

/// Rates over whatever the sweep varies, beside what is known of such NICs.
fn sweep(page: &mut Page, story: &Story) {
    type Pick = fn(&Point) -> u64;
    let axes: [(&str, bool, Pick); 3] = [
        ("bytes per iteration", true, |point| point.total_bytes),
        ("bytes per chunk", true, |point| point.chunk_bytes),
        ("connections", false, |point| point.connections),
    ];
    for (name, is_size, pick) in axes {
        let values: BTreeSet<u64> = story.sweep.iter().map(pick).filter(|value| *value > 0).collect();
        if values.len() < 2 {
            continue;
        }
        // Sizes are doubled from point to point, connections mostly, too.
        let at = |value: u64| (value as f64).log2();
        let all: Vec<Dot> = story
            .sweep
            .iter()
            .filter(|point| pick(point) > 0)
            .map(|point| Dot { x: at(pick(point)), y: point.median_gb_per_s, apart: point.run == story.id })
            .collect();
        let shown = |value: u64| if is_size { ByteCount(value).to_string() } else { value.to_string() };
        let marks: Vec<(f64, String)> = values.iter().map(|value| (at(*value), shown(*value))).collect();
        let nics = story.sweep.iter().map(|point| point.nics).max().unwrap_or(1) as f64;
        let is_tcpx = |node: &crate::report::story::Node| node.plugin.as_ref().is_some_and(crate::report::is_tcpx);
        let per_nic = profiles().iter().filter(|one| one.metric == "rate per NIC" && story.nodes.iter().any(is_tcpx));
        let references: Vec<(String, f64)> =
            per_nic.map(|one| (format!("{}:", one.name), one.gb_per_s * nics)).collect();
        let title = format!("Median rate over {name}");
        let svg = dots(&title, "GB/s", name, &all, &references, &marks);
        page.figure(&title, "every run that was named; hollow: the one that is told here", &svg);
    }
}

fn over_time(page: &mut Page, story: &Story) {
    if story.series.is_empty() {
        return;
    }
    let part_ms = (story.axis.to_ms - story.axis.from_ms) / story.axis.parts.max(1) as f64;
    let rate = |bytes: u64| bytes as f64 / part_ms / 1e6;
    let moving: Vec<&ChannelSeries> = receivers(story);
    let rails = rails(&moving);
    let rail_lines: Vec<Line> = rails
        .into_iter()
        .map(|(name, bytes)| Line { name, values: bytes.into_iter().map(|sum| sum.map(rate)).collect() })
        .collect();
    let svg = lines("Rate over time per rail", "GB/s", story.axis, &rail_lines);
    page.figure("Rate over time per rail", "bytes done, all channels of an interface", &svg);
    let many = moving.len() > LINES_MAX;
    let rates = |series: &ChannelSeries| series.bytes.iter().map(|bytes| bytes.map(rate)).collect::<Vec<_>>();
    if many {
        let most = moving.iter().flat_map(|series| rates(series)).flatten().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let strips: Vec<_> = moving
            .iter()
            .map(|series| {
                (name(series), rates(series).into_iter().map(|value| value.map(|value| value / most)).collect())
            })
            .collect();
        let svg = heat("Rate over time per channel", story.axis, &strips, &format!("{most:.3} GB/s"));
        page.figure("Rate over time per channel", "the stronger, the faster", &svg);
    } else {
        let all: Vec<Line> = moving.iter().map(|series| Line { name: name(series), values: rates(series) }).collect();
        let svg = lines("Rate over time per channel", "GB/s", story.axis, &all);
        page.figure("Rate over time per channel", "bytes done", &svg);
    }
    occupancy(page, story);
}

/// The receiving side where there is one: its clock runs until everything is consumed.
fn receivers(story: &Story) -> Vec<&ChannelSeries> {
    let of = |side: &'static str| story.series.iter().filter(move |series| series.side == side).collect::<Vec<_>>();
    let receiving = of("recv");
    if receiving.is_empty() { of("send") } else { receiving }
}

fn rails(series: &[&ChannelSeries]) -> BTreeMap<String, Vec<Option<u64>>> {
    let mut rails: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
    for one in series {
        let dev = if one.dev.is_empty() { "unknown" } else { &one.dev };
        let sum = rails.entry(format!("{dev} of {}", one.node)).or_insert_with(|| vec![None; one.bytes.len()]);
        for (sum, bytes) in sum.iter_mut().zip(&one.bytes) {
            *sum = match (*sum, *bytes) {
                (Some(sum), Some(bytes)) => Some(sum.saturating_add(bytes)),
                (sum, bytes) => sum.or(bytes),
            };
        }
    }
    rails
}

fn name(series: &ChannelSeries) -> String {
    format!("{} {}", series.side, series.index)
}

fn occupancy(page: &mut Page, story: &Story) {
    let window = |key: &str| {
        story.transfer.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.parse::<f64>().ok())
    };
    let mut by_node: BTreeMap<(&str, &str), Vec<&ChannelSeries>> = BTreeMap::new();
    story.series.iter().for_each(|series| by_node.entry((&series.node, &series.side)).or_default().push(series));
    for ((node, side), all) in by_node {
        let key = if side == "recv" { "transfer.recv_window" } else { "transfer.send_window" };
        let seen = all.iter().flat_map(|series| series.in_flight.iter().flatten()).max().copied().unwrap_or(1);
        let full = window(key).unwrap_or(f64::from(seen)).max(1.0);
        let strips: Vec<_> = all
            .iter()
            .map(|series| {
                (
                    name(series),
                    series.in_flight.iter().map(|count| count.map(|count| f64::from(count) / full)).collect(),
                )
            })
            .collect();
        let title = format!("Window occupancy over time, {side} side, {node}");
        let svg = heat(&title, story.axis, &strips, &format!("full ({full:.0} requests in flight)"));
        page.figure(&title, "most requests in flight in each part; the stronger, the fuller", &svg);
    }
}

fn latencies(page: &mut Page, story: &Story) {
    for one in &story.latencies {
        let marks: Vec<(&str, f64)> = one
            .quantiles
            .map(|us| {
                vec![("p50", us.p50 * 1e3), ("p99", us.p99 * 1e3), ("p99.9", us.p999 * 1e3), ("max", us.max * 1e3)]
            })
            .unwrap_or_default();
        let count = one.buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.2));
        let title = format!("Latency of {} requests, {}", one.side, one.node);
        let svg = histogram(&title, &one.buckets, &marks);
        page.figure(&title, &format!("posted to done, {count} requests, logarithmic"), &svg);
    }
}

fn counters(page: &mut Page, story: &Story) {
    let rows: Vec<Row> = story
        .transfers
        .iter()
        .flat_map(|transfer| transfer.channels.iter().map(move |channel| (transfer, channel)))
        .map(|(transfer, channel)| {
            let latency = channel
                .latency_us
                .map_or(["-".to_owned(), "-".to_owned()], |us| [format!("{:.1}", us.p50), format!("{:.1}", us.p99)]);
            let [p50, p99] = latency;
            let side = if channel.side == tcpx_words::side::Side::Send { "send" } else { "recv" };
            Row::from([
                transfer.direction(),
                format!("{side} {}", channel.id),
                channel.dev.clone(),
                channel.posted.to_string(),
                channel.done.to_string(),
                channel.consumed.to_string(),
                channel.bytes.to_string(),
                channel.in_flight_high_water.to_string(),
                channel.tests.to_string(),
                channel.tests_not_done.to_string(),
                channel.rc_errors.to_string(),
                p50,
                p99,
            ])
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.folded(
        &format!("Counters of {} channel ends, warm-up included", rows.len()),
        rows.len() <= ROWS_OPEN,
        |page| {
            page.table(
                "",
                &[
                    "direction",
                    "channel",
                    "interface",
                    "#posted",
                    "#done",
                    "#consumed",
                    "#bytes",
                    "#in flight, most",
                    "#tests",
                    "#not done",
                    "#rc errors",
                    "#p50 µs",
                    "#p99 µs",
                ],
                &rows,
            );
        },
    );
}
