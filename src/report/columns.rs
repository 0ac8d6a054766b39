//! The columns of the results and counters tables, for the terminal, HTML and Markdown alike.
//!
//! Each column has a head for each place that shows it: the terminal uses the words of
//! nccl-tests, reports use longer ones. To show a new figure, add a column here.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tcpx_logs::HarnessResult;
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::ids::Names;
use tcpx_run_model::kv_plan::KvPlan;
use tcpx_run_model::latencies::Latencies;
use tcpx_run_model::record::{ChannelRecord, KvRecord, NodeSum, PartRates, Sums, TransferRecord};
use tcpx_run_model::scenario::{Traffic, Transfer};
use tcpx_words::side::Side;
use tcpx_words::units::ByteCount;

/// Where a table is shown, which decides its columns and their heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePlace {
    /// The output of `tcpxctl run`.
    Terminal,
    /// An HTML or Markdown report.
    Report,
}

/// The requested sizes and windows, from which figures are derived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Bytes of one iteration and direction.
    pub(crate) total_bytes: u64,
    pub(crate) chunk_bytes: u64,
    /// For each lane.
    pub(crate) connections: u64,
    /// Maximum number of receives in flight on a channel.
    pub(crate) recv_window: u64,
    /// Maximum number of sends in flight on a channel.
    pub(crate) send_window: u64,
    /// Whether every byte was verified.
    pub(crate) verify: bool,
}

impl Asked {
    /// What a scenario asks for.
    pub fn new(transfer: &Transfer, traffic: Option<&Traffic>) -> Self {
        let requests = traffic.map(|traffic| KvPlan::new(traffic).bytes());
        Self {
            total_bytes: requests.unwrap_or(transfer.total.0),
            chunk_bytes: transfer.chunk.0,
            connections: transfer.connections.into(),
            recv_window: transfer.recv_window.into(),
            send_window: transfer.send_window.into(),
            verify: transfer.verify,
        }
    }
}

/// One row of the results table: one direction of one lane.
#[derive(Debug, Clone, Copy)]
pub struct ResultRow<'a> {
    /// Display name of the direction, such as `local->peer`.
    pub direction: &'a str,
    /// The measured figures.
    pub transfer: &'a TransferRecord,
    /// The requested sizes, if the record has them.
    pub asked: Option<Asked>,
}

/// One row of the counters table: one channel of one end.
#[derive(Debug, Clone, Copy)]
pub struct ChannelRow<'a> {
    /// Display name of the direction that the channel belongs to.
    pub direction: &'a str,
    /// The channel's counters.
    pub channel: &'a ChannelRecord,
}

/// One column: its head in each place that shows it, and the function that fills its cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<F> {
    terminal: Option<&'static str>,
    report: Option<&'static str>,
    /// Whether HTML aligns the cells as numbers.
    pub(crate) is_number: bool,
    /// Whether the column is omitted when all its cells are empty.
    pub(crate) is_optional: bool,
    cell: F,
}

type ResultColumn = Column<fn(&ResultRow<'_>) -> String>;
type ChannelColumn = Column<fn(&ChannelRow<'_>) -> String>;

/// The text of a cell whose value is not known.
const NOTHING: &str = "-";

const fn both<F>(terminal: &'static str, report: &'static str, cell: F) -> Column<F> {
    Column {
        terminal: Some(terminal),
        report: Some(report),
        is_number: true,
        is_optional: false,
        cell,
    }
}

const fn on_terminal<F>(head: &'static str, cell: F) -> Column<F> {
    Column {
        terminal: Some(head),
        report: None,
        is_number: true,
        is_optional: false,
        cell,
    }
}

const fn in_report<F>(head: &'static str, cell: F) -> Column<F> {
    Column {
        terminal: None,
        report: Some(head),
        is_number: true,
        is_optional: false,
        cell,
    }
}

const fn words<F: Copy>(column: Column<F>) -> Column<F> {
    Column {
        is_number: false,
        ..column
    }
}

const fn optional<F: Copy>(column: Column<F>) -> Column<F> {
    Column {
        is_optional: true,
        ..column
    }
}

/// The columns of the results table, in order.
const RESULTS: &[ResultColumn] = &[
    on_terminal("size", |row| asked(row, |asked| asked.total_bytes)),
    on_terminal("count", |row| {
        asked(row, |asked| {
            asked.total_bytes.div_ceil(asked.chunk_bytes.max(1))
        })
    }),
    words(on_terminal("type", |_| "uint8".to_owned())),
    words(both("dir", "direction", |row| row.direction.to_owned())),
    on_terminal("conns", connections),
    on_terminal("time(us)", |row| {
        time(row, |times| times.get(times.len() / 2))
    }),
    on_terminal("min", |row| time(row, |times| times.first())),
    on_terminal("max", |row| time(row, |times| times.last())),
    in_report("median GB/s", |row| {
        rate(row.transfer, row.transfer.median_gb_per_s)
    }),
    both("algbw", "overall GB/s", |row| {
        rate(row.transfer, row.transfer.gb_per_s)
    }),
    on_terminal("busbw", |row| rate(row.transfer, row.transfer.gb_per_s)),
    in_report("iterations", |row| row.transfer.iterations.to_string()),
    in_report("bytes", |row| row.transfer.bytes.to_string()),
    in_report("seconds", |row| format!("{:.4}", row.transfer.seconds)),
    in_report("first iteration, ms", |row| {
        or_nothing(
            row.transfer
                .first_iteration_seconds
                .map(|first| first * 1e3),
            3,
        )
    }),
    in_report("verified bytes", |row| {
        row.transfer.verified_bytes.to_string()
    }),
    both("#wrong", "wrong bytes", wrong),
    optional(in_report("round trip p50 / p99, µs", |row| {
        let trip = row.transfer.round_trip_us;
        trip.map_or(NOTHING.to_owned(), |us| {
            format!("{:.1} / {:.1}", us.p50, us.p99)
        })
    })),
];

/// The columns of the counters table, in order.
const CHANNELS: &[ChannelColumn] = &[
    words(in_report("direction", |row| row.direction.to_owned())),
    words(in_report("channel", |row| {
        format!("{} {}", row.channel.side, row.channel.id)
    })),
    words(on_terminal("side", |row| row.channel.side.to_string())),
    on_terminal("chan", |row| row.channel.id.to_string()),
    words(both("nic", "interface", |row| row.channel.dev.clone())),
    both("posted", "posted", |row| counted(row, row.channel.posted)),
    both("done", "done", |row| counted(row, row.channel.done)),
    both("consumed", "consumed", |row| {
        counted(row, row.channel.consumed)
    }),
    both("bytes", "bytes", |row| row.channel.bytes.to_string()),
    both("high", "max in flight", |row| {
        counted(row, row.channel.in_flight_high_water)
    }),
    both("tests", "tests", |row| counted(row, row.channel.tests)),
    on_terminal("not-done", |row| {
        let (not_done, tests) = (
            row.channel.tests_not_done as f64,
            row.channel.tests.max(1) as f64,
        );
        match row.channel.uncounted {
            true => NOTHING.to_owned(),
            false => format!("{:.0}%", 100.0 * not_done / tests),
        }
    }),
    in_report("tests not done", |row| {
        counted(row, row.channel.tests_not_done)
    }),
    both("rc!=0", "rc errors", |row| {
        counted(row, row.channel.rc_errors)
    }),
    both("p50(us)", "p50 µs", |row| latency(row, |us| us.p50)),
    both("p99", "p99 µs", |row| latency(row, |us| us.p99)),
    on_terminal("p99.9", |row| latency(row, |us| us.p999)),
    on_terminal("max", |row| latency(row, |us| us.max)),
];

/// A counter, if the worker's recorder counted.
fn counted(row: &ChannelRow<'_>, counter: u64) -> String {
    match row.channel.uncounted {
        true => NOTHING.to_owned(),
        false => counter.to_string(),
    }
}

/// What the counters table cannot tell of these channels, and why.
pub fn uncounted<'a>(channels: impl IntoIterator<Item = &'a ChannelRecord>) -> Option<String> {
    let count = channels.into_iter().filter(|one| one.uncounted).count();
    (count > 0).then(|| {
        format!(
            "counters of {} are not known, except bytes: their worker had no flight recorder, or no \
             memory for them in it (`df /dev/shm`)",
            tcpx_words::units::counted(count, "channel end")
        )
    })
}

/// A rate in GB/s, if at least one iteration was measured.
fn rate(transfer: &TransferRecord, gb_per_s: f64) -> String {
    if transfer.iterations == 0 {
        NOTHING.to_owned()
    } else {
        format!("{gb_per_s:.3}")
    }
}

/// The channels that sent: with `topology.gpu_connections` a lane may have others than it is asked for.
fn connections(row: &ResultRow<'_>) -> String {
    let channels = row.transfer.channels.iter();
    let sent = channels.filter(|channel| channel.side == Side::Send);
    let sent: BTreeSet<usize> = sent.map(|channel| channel.id).collect();
    // A connection of an endpoint has several comms.
    if sent.is_empty() || row.transfer.kv.is_some() {
        return asked(row, |asked| asked.connections);
    }
    sent.len().to_string()
}

fn asked(row: &ResultRow<'_>, pick: fn(Asked) -> u64) -> String {
    row.asked
        .map_or(NOTHING.to_owned(), |asked| pick(asked).to_string())
}

fn time(row: &ResultRow<'_>, pick: fn(&[f64]) -> Option<&f64>) -> String {
    let mut seconds = row.transfer.iteration_seconds.clone();
    seconds.sort_by(f64::total_cmp);
    or_nothing(pick(&seconds).map(|seconds| seconds * 1e6), 1)
}

fn latency(row: &ChannelRow<'_>, pick: fn(&LatencyUs) -> f64) -> String {
    or_nothing(row.channel.latency_us.as_ref().map(pick), 1)
}

fn or_nothing(figure: Option<f64>, digits: usize) -> String {
    figure.map_or(NOTHING.to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Bytes that failed verification, if any byte was verified.
fn wrong(row: &ResultRow<'_>) -> String {
    let transfer = row.transfer;
    match transfer.verified_bytes.saturating_add(transfer.wrong_bytes) {
        _ if row.asked.is_some_and(|asked| !asked.verify) => "N/A".to_owned(),
        // The worker that verifies was lost before it could report.
        0 => NOTHING.to_owned(),
        _ => transfer.wrong_bytes.to_string(),
    }
}

/// A table as text: the heads of its columns, and its cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextTable {
    /// One head for each column.
    pub heads: Vec<&'static str>,
    /// For each column, whether HTML aligns the cells as numbers.
    pub(crate) is_number: Vec<bool>,
    /// One cell for each column in each row.
    pub rows: Vec<Vec<String>>,
}

impl<F> Column<F> {
    fn head(&self, place: TablePlace) -> Option<&'static str> {
        match place {
            TablePlace::Terminal => self.terminal,
            TablePlace::Report => self.report,
        }
    }
}

type ProgramColumn = Column<fn(&HarnessResult) -> String>;

const PROGRAMS: &[ProgramColumn] = &[
    words(in_report("role", |row| {
        row.role.map_or(NOTHING, |role| role.name()).to_owned()
    })),
    in_report("gpu", |row| or_dash(row.gpu)),
    in_report("size", |row| or_dash(row.bytes.map(ByteCount))),
    in_report("iterations", |row| match (row.wanted, row.iterations) {
        (Some(wanted), iterations) => format!("{iterations} of {wanted}"),
        (None, 0) => NOTHING.to_owned(),
        (None, iterations) => iterations.to_string(),
    }),
    in_report("first ms", |row| or_nothing(row.first_ms, 1)),
    in_report("median ms", |row| or_nothing(row.median_ms, 3)),
    in_report("GB/s", |row| or_nothing(row.gb_per_s, 3)),
    in_report("printed", |row| or_nothing(row.printed, 2)),
    words(in_report("note", |row| {
        let wrong = row.wrong.as_ref();
        wrong.map_or_else(String::new, |wrong| format!("wrong: {wrong}"))
    })),
];

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

/// The results of programs that drive the plugin themselves: by GPU, and by role.
pub fn programs(results: &[HarnessResult]) -> Option<TextTable> {
    let mut sorted: Vec<&HarnessResult> = results.iter().collect();
    sorted.sort_by_key(|one| (one.gpu, one.role, one.program));
    let table = table(PROGRAMS, TablePlace::Report, sorted.len(), |column, row| {
        (column.cell)(sorted[row])
    });
    (!results.is_empty()).then_some(table)
}

/// What the table of such results shows.
pub const PROGRAMS_NOTE: &str = "GB/s are 10^9 bytes per second, without the first of several iterations; \"printed\" is the program's own mean, in GiB/s";

/// The results table.
pub fn results<'a>(place: TablePlace, rows: impl IntoIterator<Item = ResultRow<'a>>) -> TextTable {
    let rows: Vec<ResultRow<'_>> = rows.into_iter().collect();
    table(RESULTS, place, rows.len(), |column, row| {
        (column.cell)(&rows[row])
    })
}

/// The counters table.
pub fn channels<'a>(
    place: TablePlace,
    rows: impl IntoIterator<Item = ChannelRow<'a>>,
) -> TextTable {
    let rows: Vec<ChannelRow<'_>> = rows.into_iter().collect();
    table(CHANNELS, place, rows.len(), |column, row| {
        (column.cell)(&rows[row])
    })
}

/// Of more directions with KV-cache traffic, only all together are shown.
const KV_ROWS_MAX: usize = 16;

/// The latencies of KV-cache traffic, by direction and of all of them together; `None` without any.
pub fn kv(transfers: &[(&str, &TransferRecord)]) -> Option<TextTable> {
    let kv = |(direction, transfer): &(&str, &TransferRecord)| {
        Some(((*direction).to_owned(), transfer.kv.clone()?))
    };
    let each: Vec<(String, Box<KvRecord>)> = transfers.iter().filter_map(kv).collect();
    if each.is_empty() {
        return None;
    }
    let row = |direction: &str, what: &str, times: &Latencies| {
        let quantile = |pick: fn(&LatencyUs) -> f64| or_nothing(times.us.as_ref().map(pick), 1);
        vec![
            direction.to_owned(),
            what.to_owned(),
            times.count.to_string(),
            or_nothing((times.count > 0).then_some(times.mean_us), 1),
            quantile(|us| us.p50),
            quantile(|us| us.p99),
            quantile(|us| us.p999),
            quantile(|us| us.max),
        ]
    };
    let mut rows = Vec::new();
    if each.len() <= KV_ROWS_MAX {
        for (direction, kv) in &each {
            rows.push(row(direction, "request", &kv.times.requests));
            rows.push(row(direction, "batch", &kv.times.batches));
        }
    }
    if each.len() > 1 {
        let all = |pick: fn(&KvRecord) -> &Latencies| {
            Latencies::merged(each.iter().map(|(_, kv)| pick(kv)))
        };
        rows.push(row("all", "request", &all(|kv| &kv.times.requests)));
        rows.push(row("all", "batch", &all(|kv| &kv.times.batches)));
    }
    let heads = [
        "direction",
        "latency of",
        "count",
        "mean(us)",
        "p50(us)",
        "p99",
        "p99.9",
        "max",
    ];
    Some(TextTable {
        heads: heads.to_vec(),
        is_number: heads
            .iter()
            .map(|head| !["direction", "latency of"].contains(head))
            .collect(),
        rows,
    })
}

/// `pull of llama-3.1-8b, 32 layers, pages of 16 tokens (64KiB), requests of 1024 tokens in batches of
/// 64 pages, closed loop of 4, seed 1: 80 requests, goodput 3.121 GB/s`
pub fn kv_sentence(kv: &KvRecord) -> String {
    let op = kv.op.map_or("transfer", |op| op.word());
    format!(
        "{op} of {}, {}, {}, seed {}: {} requests, goodput {:.3} GB/s",
        kv.what, kv.requests_of, kv.arrival, kv.seed, kv.times.requests.count, kv.goodput_gb_per_s
    )
}

/// Of more nodes, only their sums are shown, and not those of their GPUs and interfaces.
const NODES_WHOLE_MAX: usize = 16;

/// The rates of nodes, GPUs and interfaces over the interval that all transfers measured in.
pub fn sums(sums: &Sums, names: &Names) -> TextTable {
    let is_whole = sums.nodes.len() <= NODES_WHOLE_MAX;
    let row = |node: &NodeSum, part: String, rates: PartRates| {
        let rate = |rate| or_nothing(rate, 3);
        let (send, recv) = (rate(rates.send_gb_per_s), rate(rates.recv_gb_per_s));
        vec![names.node(node.node), part, send, recv]
    };
    let rows = sums.nodes.iter().flat_map(|node| {
        let gpus = node.gpus.iter();
        let gpus = gpus.map(|one| row(node, format!("gpu {}", one.gpu), one.rates));
        let nics = node.nics.iter();
        let nics = nics.map(|one| row(node, one.nic.clone(), one.rates));
        let parts = gpus.chain(nics).filter(|_| is_whole);
        std::iter::once(row(node, "all".to_owned(), node.rates)).chain(parts)
    });
    TextTable {
        heads: vec!["node", "part", "sends GB/s", "receives GB/s"],
        is_number: vec![false, false, true, true],
        rows: rows.collect(),
    }
}

/// `40.123 GB/s while all 8 transfers measured, from 1.20 s to 2.72 s, time between iterations not counted`
pub fn sums_sentence(sums: &Sums) -> String {
    let (from, to) = sums.measured_ms;
    let which = match sums.transfers {
        1 => "the transfer".to_owned(),
        2 => "both transfers".to_owned(),
        all => format!("all {all} transfers"),
    };
    // Between iterations nothing is measured: patterns are written, and barriers waited for.
    format!(
        "{:.3} GB/s while {which} measured, from {:.2} s to {:.2} s, time between iterations not counted",
        sums.gb_per_s,
        from / 1e3,
        to / 1e3
    )
}

fn table<F>(
    columns: &[Column<F>],
    place: TablePlace,
    rows: usize,
    cell: impl Fn(&Column<F>, usize) -> String,
) -> TextTable {
    let mut table = TextTable {
        rows: vec![Vec::new(); rows],
        ..TextTable::default()
    };
    for column in columns {
        let Some(head) = column.head(place) else {
            continue;
        };
        let cells: Vec<String> = (0..rows).map(|row| cell(column, row)).collect();
        if column.is_optional && cells.iter().all(|cell| cell == NOTHING) {
            continue;
        }
        table.heads.push(head);
        table.is_number.push(column.is_number);
        table
            .rows
            .iter_mut()
            .zip(cells)
            .for_each(|(row, cell)| row.push(cell));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_no_recorder_kept_are_not_shown_as_zeros() {
        let mut channel: ChannelRecord = serde_json::from_value(serde_json::json!({
            "id": 0, "dev": "eth0", "side": "recv", "posted": 0, "done": 0, "consumed": 0, "bytes": 201_326_592,
            "in_flight_high_water": 0, "tests": 0, "tests_not_done": 0, "rc_errors": 0, "null_requests": 0,
            "latency_us": null, "uncounted": true,
        }))
        .expect("a channel");
        let row = |channel: &ChannelRecord| {
            let direction = "local->peer";
            let shown = channels(TablePlace::Terminal, [ChannelRow { direction, channel }]);
            shown.rows[0].join(" ")
        };
        assert_eq!(row(&channel), "recv 0 eth0 - - - 201326592 - - - - - - - -");
        let note = uncounted([&channel]).expect("a note");
        assert!(note.contains("1 channel end are not known"), "{note}");
        channel.uncounted = false;
        assert!(row(&channel).starts_with("recv 0 eth0 0 0 0 201326592 0 0 0% 0"));
        assert_eq!(uncounted([&channel]), None);
    }
}
