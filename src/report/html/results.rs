//! Results: tables of rates and counters, and charts over time.
#![forbid(unsafe_code)]

use crate::chart::{ChartLine, Dot, dots, heat, histogram, lines};
use crate::columns::{self, ChannelRow, TablePlace};
use crate::compare::profiles;
use crate::page::Page;
use crate::story::{ChannelSeries, Story, SweepPoint, TimeAxis};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_words::payload::Unit;
use tcpx_words::side::Side;
use tcpx_words::units::ByteCount;

/// Up to this many channels are drawn as lines, more as heat strips.
const LINES_MAX: usize = 8;
/// Maximum figures of one kind, and lines of one figure. Of more pairs the slowest are shown.
const FIGURES_MAX: usize = 16;
/// Of more transfers of a mesh, only the slowest are listed.
const TRANSFERS_MAX: usize = 32;
/// Maximum strips of a chart.
const STRIPS_MAX: usize = 128;
/// A longer counters table is folded.
const ROWS_OPEN: usize = 16;

pub(super) fn results(page: &mut Page, story: &Story) {
    page.section("results", "Results");
    let programs = columns::programs(story.harness_results());
    if story.transfers.is_empty() && programs.is_none() {
        page.tag("p", story.no_results(page.language));
    }
    if let Some(programs) = programs {
        let note = page.language.sentence(columns::PROGRAMS_NOTE);
        page.tag("p class=\"soft\"", &note);
        page.columns(programs);
    }
    if !story.transfers.is_empty() {
        transfers(page, story);
        kv(page, story);
        sums(page, story);
        iterations(page, story);
    }
    sweep(page, story);
    over_time(page, story);
    latencies(page, story);
    counters(page, story);
}

fn transfers(page: &mut Page, story: &Story) {
    let all = story.transfers.len();
    if story.mesh.is_some() && all > TRANSFERS_MAX {
        // The matrices have their rates.
        let rows = story.slowest_rows(TRANSFERS_MAX);
        page.tag(
            "p class=\"soft\"",
            &format!("The {TRANSFERS_MAX} slowest of {all} transfers; the JSON report has all."),
        );
        page.columns(columns::results(TablePlace::Report, rows));
    } else {
        page.columns(columns::results(TablePlace::Report, story.result_rows()));
    }
    for one in &story.transfers {
        let unit = Unit::of_kv(one.record.kv.is_some());
        for mismatch in &one.record.mismatches {
            page.tag("pre", &mismatch.words(unit));
        }
    }
}

/// The requests of KV-cache traffic.
fn kv(page: &mut Page, story: &Story) {
    if let Some(table) = columns::kv(&story.kv_rows()) {
        page.heading("KV-cache requests");
        for (direction, one) in story.kv_each().take(TRANSFERS_MAX) {
            page.tag("p", &format!("{direction}: {}", columns::kv_sentence(one)));
        }
        page.columns(table);
    }
}

/// The rates of nodes, GPUs and interfaces while all transfers measured.
fn sums(page: &mut Page, story: &Story) {
    if let Some(sums) = &story.sums {
        page.heading("Rates together");
        page.tag("p", &columns::sums_sentence(sums));
        page.columns(columns::sums(sums, &story.names()));
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
                hollow: false,
            })
            .collect();
        all.extend(transfer.first_iteration_seconds.map(|seconds| Dot {
            x: 0.0,
            y: rate(seconds),
            hollow: true,
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
        let title = format!("Rate of each iteration, {direction}");
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
            &format!("hollow: the first iteration, not in the median{which}"),
            &svg,
        );
    }
}

/// Rates over each quantity that the sweep varies, with the shipped profiles as references.
fn sweep(page: &mut Page, story: &Story) {
    type Pick = fn(&SweepPoint) -> u64;
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
        // Sweeps usually double sizes and connections from point to point.
        let at = |value: u64| (value as f64).log2();
        let all: Vec<Dot> = story
            .sweep
            .iter()
            .filter(|point| pick(point) > 0)
            .map(|point| Dot {
                x: at(pick(point)),
                y: point.median_gb_per_s,
                hollow: point.run == story.id,
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
        let title = format!("Median rate by {name}");
        let svg = dots(&title, "GB/s", name, &all, &references, &marks);
        page.figure(
            &title,
            "all runs named on the command line; hollow: the run of this report",
            &svg,
        );
    }
}

fn over_time(page: &mut Page, story: &Story) {
    if story.series.is_empty() {
        return;
    }
    let channels = receivers(story);
    rates_of_rails(page, story, &channels);
    rates_of_channels(page, story, channels);
    occupancy(page, story);
}

/// GB/s of each part of the time axis, from its bytes.
fn rates_of_parts(axis: TimeAxis, bytes: &[Option<u64>]) -> Vec<Option<f64>> {
    let part_ms = (axis.to_ms - axis.from_ms) / axis.parts.max(1) as f64;
    let rate = |bytes: u64| bytes as f64 / part_ms / 1e6;
    bytes.iter().map(|bytes| bytes.map(rate)).collect()
}

fn rates_of_rails(page: &mut Page, story: &Story, channels: &[&ChannelSeries]) {
    let rails = rails(story, channels).into_iter().collect();
    let (rails, which) = slowest(rails, FIGURES_MAX, |(_, bytes)| moved(bytes));
    let mut all = Vec::new();
    for (name, bytes) in rails {
        let values = rates_of_parts(story.axis, &bytes);
        all.push(ChartLine { name, values });
    }
    let title = "Rate over time per rail";
    let svg = lines(title, "GB/s", story.axis, &all);
    let about = format!("bytes completed by all channels of an interface{which}");
    page.figure(title, &about, &svg);
}

fn rates_of_channels(page: &mut Page, story: &Story, channels: Vec<&ChannelSeries>) {
    let (channels, which) = slowest(channels, STRIPS_MAX, |series| moved(&series.bytes));
    let is_one_worker = channels
        .iter()
        .all(|series| series.worker == channels[0].worker);
    let mut all = Vec::new();
    for series in &channels {
        let values = rates_of_parts(story.axis, &series.bytes);
        let name = match is_one_worker {
            true => name(series),
            false => format!("{} {}", series.worker.name, name(series)),
        };
        all.push(ChartLine { name, values });
    }
    let title = "Rate over time per channel";
    if all.len() <= LINES_MAX {
        let svg = lines(title, "GB/s", story.axis, &all);
        return page.figure(title, "bytes completed", &svg);
    }
    let rates = all.iter().flat_map(|line| line.values.iter().flatten());
    let most = rates.copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut strips = Vec::new();
    for line in all {
        let shares = line.values.into_iter().map(|rate| Some(rate? / most));
        strips.push((line.name, shares.collect()));
    }
    let svg = heat(title, story.axis, &strips, &format!("{most:.3} GB/s"));
    let about = format!("stronger colour: higher rate{which}");
    page.figure(title, &about, &svg);
}

/// The slowest `most` elements in their original order, and a note for the caption if others
/// were left out.
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

/// Sum of the bytes over all parts of the time axis.
fn moved(bytes: &[Option<u64>]) -> f64 {
    bytes.iter().flatten().map(|bytes| *bytes as f64).sum()
}

/// The receiving channels, or the sending ones if no receiver was sampled. Receivers are
/// preferred because they run until every request is consumed.
fn receivers(story: &Story) -> Vec<&ChannelSeries> {
    let has_receivers = story.series.iter().any(|one| one.side == Side::Recv);
    let side = if has_receivers {
        Side::Recv
    } else {
        Side::Send
    };
    let series = story.series.iter();
    series.filter(|one| one.side == side).collect()
}

/// Bytes over time of each interface of each node.
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
        let about = format!("maximum requests in flight; stronger colour: fuller window{which}");
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
            &format!("posted to done, {count} requests, logarithmic axis"),
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
    let table = columns::channels(TablePlace::Report, rows);
    let count = table.rows.len();
    if count > 0 {
        let title = format!("Counters of {count} channel ends, warm-up included");
        page.folded(&title, count <= ROWS_OPEN, |page| page.columns(table));
    }
    let channels = story.transfers.iter().flat_map(|one| &one.record.channels);
    if let Some(note) = columns::uncounted(channels) {
        page.tag("p class=\"soft\"", &format!("The {note}."));
    }
}
