//! The output of `run`: tables with the columns of nccl-tests, `#` before every other line, and
//! a progress line on a terminal.
#![forbid(unsafe_code)]

use super::handshake::preflight_line;
use super::mesh;
use super::output::Columns;
use std::io::{self, IsTerminal, Write};
use tcpx_coord::{PairOutcome, RunOutcome};
use tcpx_report::columns::{self, Asked, ChannelRow, ResultRow, TablePlace, TextTable};
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::{Event, EventKind, PluginDevice};
use tcpx_run_model::ids::{Lane, Names, NodeId, WorkerId};
use tcpx_run_model::record::{Role, RunRecord, TransferRecord};
use tcpx_run_model::scenario::{Resolved, Scenario};
use tcpx_run_model::state::{DeclaredStall, RunState, WorkerState};
use tcpx_words::error::Outcome;
use tcpx_words::payload::Unit;
use tcpx_words::side::Side;
use tcpx_words::units::{ByteCount, counted};

/// Most GPUs with connections of their own that the header names.
const GPUS_SHOWN_MAX: usize = 8;

/// The connections of a pair of GPUs, and the GPUs that have others: `2 connections (GPU 1 has 3)`.
fn connections(scenario: &Scenario) -> String {
    let all = counted(scenario.transfer.connections as usize, "connection");
    let own = &scenario.topology.gpu_connections;
    let others = own
        .iter()
        .filter(|(_, count)| **count != scenario.transfer.connections);
    let mut shown: Vec<String> = others
        .clone()
        .take(GPUS_SHOWN_MAX)
        .map(|(gpu, count)| format!("GPU {gpu} has {count}"))
        .collect();
    if others.count() > GPUS_SHOWN_MAX {
        shown.push("\u{2026}".to_owned());
    }
    match shown.is_empty() {
        true => all,
        false => format!("{all} ({})", shown.join(", ")),
    }
}

/// The first lines of the output: the run's id and its settings.
pub(crate) fn header(id: &str, point: &Resolved, is_sweep: bool) -> String {
    let transfer = &point.scenario.transfer;
    let mut text = format!("# tcpxctl {}  run {id}\n", env!("CARGO_PKG_VERSION"));
    if is_sweep {
        text.push_str(&format!("# Point : {}\n", point.point));
    }
    let connections = connections(&point.scenario);
    let verify = if transfer.verify { "on" } else { "off" };
    if let Some(kv) = &point.scenario.traffic {
        text.push_str(&format!(
            "# KV cache : {} of {}, seed {}\n\
             # {}, {} of each in flight, {}\n\
             # {}, chunk {}, {} requests of {} per iteration, {} iterations after {} warm-up, verify {verify}\n",
            kv.op,
            kv.what(),
            kv.seed,
            kv.cut(),
            kv.depth,
            kv.arrives(),
            connections,
            transfer.chunk,
            kv.requests,
            ByteCount(point.scenario.iteration_bytes()),
            transfer.iterations,
            transfer.warmup,
        ));
        return text;
    }
    text.push_str(&format!(
        "# {}, chunk {}, {} per iteration, {} iterations after {} warm-up, windows {} recv / {} send, {}, verify {verify}\n",
        connections,
        transfer.chunk,
        transfer.total,
        transfer.iterations,
        transfer.warmup,
        transfer.recv_window,
        transfer.send_window,
        point.scenario.progress.policy,
    ));
    text
}

/// The nodes, the results so far, and the outcome of a run.
pub(crate) fn table(run: &RunRecord, outcome: &RunOutcome) -> String {
    if run.mesh.is_some() {
        return mesh::table(run) + &verdict(run);
    }
    let names = run.names();
    let mut text = nodes(run, outcome, &names);
    text.push_str(&rails(outcome));
    if !run.transfers.is_empty() {
        text.push_str(&performance(run, &names));
        for transfer in &run.transfers {
            text.push_str(&channels(transfer));
        }
    }
    text.push_str(&footer(run, outcome, &names));
    text
}

/// Each node with its plugin, devices and memory, as the decisive pair reports them. In most
/// runs all pairs have the same.
fn nodes(run: &RunRecord, outcome: &RunOutcome, names: &Names) -> String {
    let decisive = outcome.decisive();
    let mut text = String::new();
    for (node, record) in (0..).map(NodeId).zip(&run.nodes) {
        let mut of_node = outcome
            .pairs
            .iter()
            .filter(|pair| pair.nodes.contains(&node));
        let pair = if decisive.nodes.contains(&node) {
            Some(decisive)
        } else {
            of_node.next()
        };
        let worker = pair.map(|pair| WorkerId::of_pair(node, pair.id));
        let state = worker.and_then(|worker| outcome.state.workers.get(&worker));
        let role = worker
            .and_then(|worker| role(run, worker))
            .unwrap_or_default();
        let plugin = match state
            .and_then(|worker| worker.plugin.as_ref())
            .map(|ready| &ready.plugin)
        {
            Some(plugin) => {
                let version = plugin
                    .version
                    .as_ref()
                    .map(|version| format!(" {version}"))
                    .unwrap_or_default();
                format!(
                    "{} v{}{version}, {} ({})",
                    plugin.name, plugin.abi, plugin.path, plugin.why
                )
            }
            None => "plugin not ready".to_owned(),
        };
        text.push_str(&format!(
            "# {:<5} {} ({role}) : {plugin}\n",
            names.node(node),
            record.host
        ));
        let Some(state) = state else { continue };
        if let Some(preflight) = &state.preflight {
            text.push_str(&preflight_line(preflight));
        }
        if let Some(ready) = &state.plugin {
            let device = |device: &PluginDevice| format!("[{}] {}", device.index, device.name);
            let devices: Vec<String> = ready.devices.iter().map(device).collect();
            text.push_str(&format!("#       devices : {}\n", devices.join("  ")));
        }
        if let Some(transfer) = &state.transfer {
            text.push_str(&format!("#       memory : {}\n", transfer.memory));
            if let Some(windows) = &transfer.windows {
                text.push_str(&format!("#       windows : {windows}\n"));
            }
            if let Some(driving) = &transfer.driving {
                text.push_str(&format!("#       driven by : {driving}\n"));
            }
        }
    }
    text
}

fn role(run: &RunRecord, worker: WorkerId) -> Option<Role> {
    let found = run
        .workers()
        .find(|(pair, node, _)| WorkerId::of_pair(*node, *pair) == worker);
    found.map(|(_, _, record)| record.role)
}

/// The rails of each pair, if there are several pairs.
fn rails(outcome: &RunOutcome) -> String {
    if outcome.pairs.len() < 2 {
        return String::new();
    }
    let of = |worker: Option<&WorkerState>| {
        let ready = worker.and_then(|worker| worker.plugin.as_ref());
        let names = ready.map(|ready| {
            ready
                .devices
                .iter()
                .map(|device| device.name.as_str())
                .collect::<Vec<_>>()
        });
        names.map_or("-".to_owned(), |names| names.join(" "))
    };
    let line = |pair: &PairOutcome| {
        let lanes: Vec<String> = pair.lanes.iter().map(Lane::to_string).collect();
        let ends = pair.nodes.iter().zip(outcome.state.ends(pair.id));
        let ends: Vec<String> = ends
            .map(|(node, worker)| format!("{} {}", outcome.state.names.node(*node), of(worker)))
            .collect();
        format!(
            "# {:<5} {}\n",
            lanes.join(" ").replace("gpu", "GPU"),
            ends.join(", ")
        )
    };
    outcome.pairs.iter().map(line).collect()
}

fn performance(run: &RunRecord, names: &Names) -> String {
    let scenario = &run.scenario.resolved;
    let asked = Some(Asked::new(&scenario.transfer, scenario.traffic.as_ref()));
    let directions: Vec<String> = run
        .transfers
        .iter()
        .map(|transfer| names.direction(transfer.from, transfer.to, transfer.lane))
        .collect();
    let rows = directions.iter().zip(&run.transfers);
    let results = rows.map(|(direction, transfer)| ResultRow {
        direction,
        transfer,
        asked,
    });
    let table = columns::results(TablePlace::Terminal, results);
    format!("#\n{}{}#\n", render(table), kv(run))
}

/// The latencies of KV-cache traffic.
pub(super) fn kv(run: &RunRecord) -> String {
    let directions: Vec<String> = run.transfers.iter().map(|one| run.direction(one)).collect();
    let directions = directions.iter().map(String::as_str);
    let transfers: Vec<_> = directions.zip(&run.transfers).collect();
    match columns::kv(&transfers) {
        Some(table) => format!("#\n{}", render(table)),
        None => String::new(),
    }
}

fn channels(transfer: &TransferRecord) -> String {
    // The terminal's columns do not show the direction.
    let rows = transfer.channels.iter().map(|channel| ChannelRow {
        direction: "",
        channel,
    });
    let mut text = render(columns::channels(TablePlace::Terminal, rows));
    if let Some(note) = columns::uncounted(&transfer.channels) {
        text.push_str(&format!("# note : {note}\n"));
    }
    text
}

fn render(table: TextTable) -> String {
    let mut columns = Columns::new(&table.heads);
    for row in table.rows {
        columns.row(row);
    }
    columns.render()
}

fn rate(transfer: &TransferRecord, names: &Names) -> String {
    let (from, to) = (names.node(transfer.from), names.node(transfer.to));
    let gpu = match transfer.lane {
        Lane::Host => String::new(),
        Lane::Gpu(gpu) => format!(", GPU {gpu}"),
        Lane::Gpus(first, second) => format!(", GPU {first} -> GPU {second}"),
    };
    if transfer.iterations == 0 {
        return format!("# {from} -> {to}{gpu} : no worker reported its results\n");
    }
    let first = transfer
        .first_iteration_seconds
        .map_or("-".into(), |seconds| format!("{:.1} us", seconds * 1e6));
    format!(
        "# {from} -> {to}{gpu} : {:.3} GB/s ({} in {:.4} s, median iteration {:.3} GB/s), first iteration {first}\n",
        transfer.gb_per_s,
        ByteCount(transfer.bytes),
        transfer.seconds,
        transfer.median_gb_per_s,
    )
}

fn footer(run: &RunRecord, outcome: &RunOutcome, names: &Names) -> String {
    let pair = outcome.decisive();
    let mut text = String::from("#\n");
    for transfer in &run.transfers {
        text.push_str(&rate(transfer, names));
        if let Some(kv) = &transfer.kv {
            text.push_str(&format!("# KV cache : {}\n", columns::kv_sentence(kv)));
        }
        if let Some(trip) = &transfer.round_trip_us {
            text.push_str(&format!(
                "# round trip : p50 {:.1} us, p99 {:.1}, p99.9 {:.1}, max {:.1}\n",
                trip.p50, trip.p99, trip.p999, trip.max
            ));
        }
        for mismatch in transfer.mismatches.iter().take(4) {
            let unit = Unit::of_kv(transfer.kv.is_some());
            text.push_str(&format!("# wrong : {}\n", mismatch.words(unit)));
        }
    }
    if let Some(overlap) = run.overlap() {
        let all = if run
            .transfers
            .iter()
            .any(|transfer| transfer.lane.gpus().is_some())
        {
            "all GPUs"
        } else {
            "both directions"
        };
        text.push_str(&format!(
            "# overlap : {all} measured together for {:.0} % of the time\n",
            overlap * 100.0
        ));
    }
    text.push_str(&together(run, names));
    if let Some(stall) = &pair.stall {
        let how = if stall.recovered {
            "moved again later"
        } else {
            "did not move again"
        };
        text.push_str(&format!(
            "# stall declared at {:.1} s by {}; it {how}\n",
            stall.at_ms / 1e3,
            seen_by(stall, pair, outcome)
        ));
    }
    // After a recovery the last counters do not show the stall.
    if pair.stall.as_ref().is_some_and(|stall| !stall.recovered) || run.outcome == Outcome::PeerLost
    {
        text.push_str(&counters(pair, outcome));
    }
    text + &verdict(run)
}

/// The rates of nodes, GPUs and NICs while all transfers measured.
pub(super) fn together(run: &RunRecord, names: &Names) -> String {
    match &run.sums {
        Some(sums) if sums.is_more_than_one() => format!(
            "# together : {}\n{}#\n",
            columns::sums_sentence(sums),
            render(columns::sums(sums, names))
        ),
        _ => String::new(),
    }
}

/// The findings and the outcome.
fn verdict(run: &RunRecord) -> String {
    let mut text = String::new();
    for finding in &run.findings {
        let because = finding
            .because
            .first()
            .map(|fact| format!(" : {fact}"))
            .unwrap_or_default();
        text.push_str(&format!(
            "# {} {}{because}\n",
            finding.severity, finding.condition
        ));
    }
    let verified: u64 = run
        .transfers
        .iter()
        .map(|transfer| transfer.verified_bytes)
        .sum();
    let verdict = if run.scenario.resolved.transfer.verify {
        format!("{verified} bytes verified, {} wrong", run.wrong_bytes())
    } else {
        "payload not verified".to_owned()
    };
    text.push_str(&format!("# Outcome : {} ({verdict})\n", run.outcome));
    text
}

/// The worker that declared a stall, or the coordinator if it took the counters of both ends.
fn seen_by(stall: &DeclaredStall, pair: &PairOutcome, outcome: &RunOutcome) -> String {
    let worker = stall
        .by
        .map(|node| outcome.state.name(WorkerId::of_pair(node, pair.id)));
    worker.unwrap_or_else(|| "the coordinator".to_owned())
}

/// The last counters of every channel of both ends.
fn counters(pair: &PairOutcome, outcome: &RunOutcome) -> String {
    let mut text = String::new();
    for worker in outcome.state.ends(pair.id).into_iter().flatten() {
        let name = outcome.state.name(worker.id);
        match (&worker.exit, worker.sampled_ms) {
            (None, Some(at_ms)) => {
                text.push_str(&format!(
                    "#   {name} : last counters, at {:.1} s\n",
                    at_ms / 1e3
                ));
            }
            (None, None) => text.push_str(&format!("#   {name} : no counters received\n")),
            (Some(_), _) => {}
        }
        for channel in &worker.channels {
            text.push_str(&format!(
                "#   {name} {} {} : posted {} done {} consumed {} in flight {} quiet {} ms tests {} (not done {})\n",
                channel.side,
                channel.index,
                channel.posted,
                channel.done,
                channel.consumed,
                channel.posted.saturating_sub(channel.consumed),
                channel.quiet_ms,
                channel.tests,
                channel.tests_not_done,
            ));
        }
    }
    text
}

/// The points of a sweep as a table.
pub(crate) fn summary(points: &[Resolved], runs: &[RunRecord]) -> String {
    let mut columns = Columns::new(&[
        "point",
        "dir",
        "GB/s",
        "median",
        "trip p50(us)",
        "#wrong",
        "outcome",
    ]);
    for (point, run) in points.iter().zip(runs) {
        for transfer in &run.transfers {
            columns.row([
                point.point.clone(),
                run.direction(transfer),
                format!("{:.3}", transfer.gb_per_s),
                format!("{:.3}", transfer.median_gb_per_s),
                transfer
                    .round_trip_us
                    .map_or_else(|| "-".into(), |trip| format!("{:.1}", trip.p50)),
                transfer.wrong_bytes.to_string(),
                run.outcome.to_string(),
            ]);
        }
        // A point without transfers still has a row.
        if run.transfers.is_empty() {
            let [nothing, rate, median, trip, wrong] = ["-"; 5].map(str::to_owned);
            columns.row([
                point.point.clone(),
                nothing,
                rate,
                median,
                trip,
                wrong,
                run.outcome.to_string(),
            ]);
        }
    }
    format!(
        "#\n# Sweep, {} of {} points\n{}",
        runs.len(),
        points.len(),
        columns.render()
    )
}

/// The progress line on stderr: the phase and iteration of the slowest worker, and the rate.
pub(crate) struct Progress {
    on: bool,
    wanted: u32,
    last: Option<(f64, u64)>,
    /// `None` until two samples of a receiver are known: after a live view, the first is in its middle.
    rate: Option<f64>,
    shown: bool,
}

impl Progress {
    /// A progress line that is shown only if stderr is a terminal.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            on: io::stderr().is_terminal(),
            wanted: scenario.transfer.warmup + scenario.transfer.iterations,
            last: None,
            rate: None,
            shown: false,
        }
    }

    /// Updates the line after an event.
    pub(crate) fn show(&mut self, event: &Event, state: &RunState) {
        let is_news = matches!(
            event.kind,
            EventKind::Phase(_) | EventKind::Iteration(_) | EventKind::Sample(_)
        );
        if !self.on || !is_news {
            return;
        }
        let Some(text) = self.text(event, state) else {
            return;
        };
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
        self.shown = true;
    }

    fn text(&mut self, event: &Event, state: &RunState) -> Option<String> {
        let behind = state
            .workers
            .values()
            .min_by_key(|worker| (worker.phase, worker.iterations))?;
        let received = |one: &&ChannelNow| one.side == Side::Recv;
        let is_of_receiver = match &event.kind {
            EventKind::Sample(channels) => channels.iter().any(|one| received(&one)),
            _ => false,
        };
        if is_of_receiver {
            let all = state.workers.values().flat_map(|worker| &worker.channels);
            let bytes = all
                .filter(received)
                .fold(0u64, |sum, one| sum.saturating_add(one.bytes));
            if let Some((ms, before)) = self.last.filter(|(ms, _)| event.ms - ms >= RATE_MS) {
                self.rate = Some(bytes.saturating_sub(before) as f64 / (event.ms - ms) / 1e6);
                self.last = None;
            }
            self.last.get_or_insert((event.ms, bytes));
        }
        let phase = behind.phase.unwrap_or_default();
        let (done, wanted) = (behind.iterations, self.wanted);
        let rate = self.rate.map(|rate| format!(", {rate:.2} GB/s"));
        let rate = rate.unwrap_or_default();
        Some(format!("{phase} : iteration {done} of {wanted}{rate}"))
    }

    /// Erases the line.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.shown = false;
        }
    }
}

/// Shortest window that a rate is computed over.
const RATE_MS: f64 = 90.0;

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::ids::{NodeId, PairId, Who, WorkerId};

    #[test]
    fn gpus_with_connections_of_their_own_are_named_in_the_header() {
        let mut scenario = Scenario::default();
        scenario.transfer.connections = 2;
        assert_eq!(connections(&scenario), "2 connections");
        let own = &mut scenario.topology.gpu_connections;
        own.extend([("0".to_owned(), 2), ("1".to_owned(), 3)]);
        assert_eq!(connections(&scenario), "2 connections (GPU 1 has 3)");
    }

    #[test]
    fn a_rate_is_told_once_it_is_known() {
        let mut progress = Progress {
            on: true,
            wanted: 401,
            last: None,
            rate: None,
            shown: false,
        };
        let mut state = RunState::default();
        let mut told = |ms: f64, node: u32, side: Side, bytes: u64| {
            let channel = ChannelNow {
                side,
                bytes,
                ..ChannelNow::default()
            };
            let who = Who::Worker(WorkerId::of_pair(NodeId(node), PairId(0)));
            let event = Event::new(ms, who, EventKind::Sample(vec![channel]));
            state.apply(&event);
            progress.text(&event, &state).expect("a line")
        };
        let unknown = "starting : iteration 0 of 401";
        assert_eq!(told(0.0, 1, Side::Recv, 7 << 30), unknown);
        assert_eq!(told(500.0, 0, Side::Send, 8 << 30), unknown);
        let known = told(1000.0, 1, Side::Recv, (7 << 30) + 2_000_000_000);
        assert_eq!(known, format!("{unknown}, 2.00 GB/s"));
    }
}
