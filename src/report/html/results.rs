//! How much, how fast, and how it went over time.
#![forbid(unsafe_code)]

use super::page::Page;
use crate::chart::{Dot, Line, dots, heat, histogram, lines};
use crate::columns::{self, ChannelRow, Place};
use crate::compare::profiles;
use crate::story::{ChannelSeries, Point, Story};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_words::side::Side;
use tcpx_words::units::ByteCount;

/// Channels that are lines of a chart; more are strips.
const LINES_MAX: usize = 8;
/// Figures of one kind, and lines of one: with many pairs the slowest are looked for.
const FIGURES_MAX: usize = 16;
/// Strips of a chart.
const STRIPS_MAX: usize = 128;
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
    page.columns(columns::results(Place::Report, story.result_rows()));
    for mismatch in story
        .transfers
        .iter()
        .flat_map(|one| &one.record.mismatches)
    {
        page.tag("pre", &format!("{mismatch:?}"));
    }
}

fn iterations(page: &mut Page, story: &Story) {
    let all = story
        .transfers
        .iter()
        .filter(|one| one.record.iterations > 1)
        .collect();
    let (shown, which) = slowest(all, FIGURES_MAX, |one| one.record.median_gb_per_s);
    for (direction, transfer) in shown.into_iter().map(|one| (&one.direction, &one.record)) {
        let per_iteration = transfer.bytes as f64 / f64::from(transfer.iterations);
        let rate = |seconds: f64| {
            if seconds > 0.0 {
                per_iteration / seconds / 1e9
            } else {
                0.0
            }
        };
        let mut all: Vec<Dot> = transfer
            .iteration_seconds
            .iter()
            .enumerate()
            .map(|(index, seconds)| Dot {
                x: index as f64 + 1.0,
                y: rate(*seconds),
                apart: false,
            })
            .collect();
        all.extend(transfer.first_iteration_seconds.map(|seconds| Dot {
            x: 0.0,
            y: rate(seconds),
            apart: true,
        }));
        let last = transfer.iteration_seconds.len();
        let step = (last / 10).max(1);
        let marks: Vec<(f64, String)> = std::iter::once((0.0, "first".to_owned()))
            .chain(
                (step..=last)
                    .step_by(step)
                    .map(|n| (n as f64, n.to_string())),
            )
            .collect();
        let title = format!("Rate of every iteration, {direction}");
        let svg = dots(
            &title,
            "GB/s",
            "measured iteration",
            &all,
            &[("median".to_owned(), transfer.median_gb_per_s)],
            &marks,
        );
        page.figure(
            &title,
            &format!("hollow: the very first, which does not count{which}"),
            &svg,
        );
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
        let values: BTreeSet<u64> = story
            .sweep
            .iter()
            .map(pick)
            .filter(|value| *value > 0)
            .collect();
        if values.len() < 2 {
            continue;
        }
        // Sizes are doubled from point to point, connections mostly, too.
        let at = |value: u64| (value as f64).log2();
        let all: Vec<Dot> = story
            .sweep
            .iter()
            .filter(|point| pick(point) > 0)
            .map(|point| Dot {
                x: at(pick(point)),
                y: point.median_gb_per_s,
                apart: point.run == story.id,
            })
            .collect();
        let shown = |value: u64| {
            if is_size {
                ByteCount(value).to_string()
            } else {
                value.to_string()
            }
        };
        let marks: Vec<(f64, String)> = values
            .iter()
            .map(|value| (at(*value), shown(*value)))
            .collect();
        let nics = story
            .sweep
            .iter()
            .map(|point| point.nics)
            .max()
            .unwrap_or(1) as f64;
        let is_of_tcpx = crate::is_of_tcpx(story);
        let per_nic = profiles()
            .iter()
            .filter(|one| one.metric == "rate per NIC" && is_of_tcpx);
        let references: Vec<(String, f64)> = per_nic
            .map(|one| (format!("{}:", one.name), one.gb_per_s * nics))
            .collect();
        let title = format!("Median rate over {name}");
        let svg = dots(&title, "GB/s", name, &all, &references, &marks);
        page.figure(
            &title,
            "every run that was named; hollow: the one that is told here",
            &svg,
        );
    }
}

fn over_time(page: &mut Page, story: &Story) {
    if story.series.is_empty() {
        return;
    }
    let part_ms = (story.axis.to_ms - story.axis.from_ms) / story.axis.parts.max(1) as f64;
    let rate = |bytes: u64| bytes as f64 / part_ms / 1e6;
    let moving: Vec<&ChannelSeries> = receivers(story);
    let (rails, which) = slowest(
        rails(story, &moving).into_iter().collect(),
        FIGURES_MAX,
        |(_, bytes)| moved(bytes),
    );
    let rail_lines: Vec<Line> = rails
        .into_iter()
        .map(|(name, bytes)| Line {
            name,
            values: bytes.into_iter().map(|sum| sum.map(rate)).collect(),
        })
        .collect();
    let svg = lines("Rate over time per rail", "GB/s", story.axis, &rail_lines);
    page.figure(
        "Rate over time per rail",
        &format!("bytes done, all channels of an interface{which}"),
        &svg,
    );
    let (moving, which) = slowest(moving, STRIPS_MAX, |series| moved(&series.bytes));
    let many = moving.len() > LINES_MAX;
    let rates = |series: &ChannelSeries| {
        series
            .bytes
            .iter()
            .map(|bytes| bytes.map(rate))
            .collect::<Vec<_>>()
    };
    if many {
        let most = moving
            .iter()
            .flat_map(|series| rates(series))
            .flatten()
            .fold(0.0, f64::max)
            .max(f64::MIN_POSITIVE);
        let strips: Vec<_> = moving
            .iter()
            .map(|series| {
                (
                    name(series),
                    rates(series)
                        .into_iter()
                        .map(|value| value.map(|value| value / most))
                        .collect(),
                )
            })
            .collect();
        let svg = heat(
            "Rate over time per channel",
            story.axis,
            &strips,
            &format!("{most:.3} GB/s"),
        );
        page.figure(
            "Rate over time per channel",
            &format!("the stronger, the faster{which}"),
            &svg,
        );
    } else {
        let is_one = moving
            .iter()
            .all(|series| series.worker == moving[0].worker);
        let name = |series| {
            if is_one {
                name(series)
            } else {
                format!("{}, {}", name(series), series.worker.name)
            }
        };
        let all: Vec<Line> = moving
            .iter()
            .map(|series| Line {
                name: name(series),
                values: rates(series),
            })
            .collect();
        let svg = lines("Rate over time per channel", "GB/s", story.axis, &all);
        page.figure("Rate over time per channel", "bytes done", &svg);
    }
    occupancy(page, story);
}

/// As many of them as are shown, in their order: the slowest, and words for it.
fn slowest<T>(mut all: Vec<T>, most: usize, rate: impl Fn(&T) -> f64) -> (Vec<T>, String) {
    let count = all.len();
    if count <= most {
        return (all, String::new());
    }
    let mut rates: Vec<f64> = all.iter().map(&rate).collect();
    rates.sort_by(f64::total_cmp);
    let limit = rates[most - 1];
    all.retain(|one| rate(one).total_cmp(&limit).is_le());
    all.truncate(most);
    (all, format!("; the {most} slowest of {count}"))
}

/// Bytes of all parts of the time.
fn moved(bytes: &[Option<u64>]) -> f64 {
    bytes.iter().flatten().map(|bytes| *bytes as f64).sum()
}

/// The receiving side where there is one: its clock runs until everything is consumed.
fn receivers(story: &Story) -> Vec<&ChannelSeries> {
    let of = |side: Side| {
        story
            .series
            .iter()
            .filter(move |series| series.side == side)
            .collect::<Vec<_>>()
    };
    let receiving = of(Side::Recv);
    if receiving.is_empty() {
        of(Side::Send)
    } else {
        receiving
    }
}

/// Bytes of every interface of every node.
fn rails(story: &Story, series: &[&ChannelSeries]) -> BTreeMap<String, Vec<Option<u64>>> {
    let mut rails: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
    for one in series {
        let dev = if one.dev.is_empty() {
            "unknown"
        } else {
            &one.dev
        };
        let node = story
            .nodes
            .get(one.worker.node.index())
            .map_or(one.worker.name.as_str(), |node| &node.name);
        let sum = rails
            .entry(format!("{dev} of {node}"))
            .or_insert_with(|| vec![None; one.bytes.len()]);
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
    let mut by_worker: BTreeMap<(&str, Side), Vec<&ChannelSeries>> = BTreeMap::new();
    story.series.iter().for_each(|one| {
        by_worker
            .entry((&one.worker.name, one.side))
            .or_default()
            .push(one)
    });
    let rate = |(_, all): &((&str, Side), Vec<&ChannelSeries>)| {
        all.iter().map(|one| moved(&one.bytes)).sum()
    };
    let (shown, which) = slowest(by_worker.into_iter().collect(), 2 * FIGURES_MAX, rate);
    for ((worker, side), all) in shown {
        let window = story.asked.map(|asked| match side {
            Side::Send => asked.send_window,
            Side::Recv => asked.recv_window,
        });
        let seen = all
            .iter()
            .flat_map(|series| series.in_flight.iter().flatten())
            .max()
            .copied()
            .unwrap_or(1);
        let full = window
            .map_or(f64::from(seen), |window| window as f64)
            .max(1.0);
        let strips: Vec<_> = all
            .iter()
            .map(|series| {
                (
                    name(series),
                    series
                        .in_flight
                        .iter()
                        .map(|count| count.map(|count| f64::from(count) / full))
                        .collect(),
                )
            })
            .collect();
        let title = format!("Window occupancy over time, {side} side, {worker}");
        let svg = heat(
            &title,
            story.axis,
            &strips,
            &format!("full ({full:.0} requests in flight)"),
        );
        let about =
            format!("most requests in flight in each part; the stronger, the fuller{which}");
        page.figure(&title, &about, &svg);
    }
}

fn latencies(page: &mut Page, story: &Story) {
    for one in story.latencies.iter().take(2 * FIGURES_MAX) {
        let marks: Vec<(&str, f64)> = one
            .quantiles
            .map(|us| {
                vec![
                    ("p50", us.p50 * 1e3),
                    ("p99", us.p99 * 1e3),
                    ("p99.9", us.p999 * 1e3),
                    ("max", us.max * 1e3),
                ]
            })
            .unwrap_or_default();
        let count = one
            .buckets
            .iter()
            .fold(0u64, |sum, bucket| sum.saturating_add(bucket.2));
        let title = format!("Latency of {} requests, {}", one.side, one.worker.name);
        let svg = histogram(&title, &one.buckets, &marks);
        page.figure(
            &title,
            &format!("posted to done, {count} requests, logarithmic"),
            &svg,
        );
    }
    let more = story.latencies.len().saturating_sub(2 * FIGURES_MAX);
    if more > 0 {
        page.tag(
            "p class=\"soft\"",
            &format!("Latencies of {more} more workers are in the JSON report."),
        );
    }
}

fn counters(page: &mut Page, story: &Story) {
    let rows = story.transfers.iter().flat_map(|one| {
        one.record.channels.iter().map(|channel| ChannelRow {
            direction: &one.direction,
            channel,
        })
    });
    let table = columns::channels(Place::Report, rows);
    let count = table.rows.len();
    if count > 0 {
        let title = format!("Counters of {count} channel ends, warm-up included");
        page.folded(&title, count <= ROWS_OPEN, |page| page.columns(table));
    }
}
