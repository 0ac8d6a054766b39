//! `tcpxctl history`: lists the runs under `reports/`, and their rates over time.
//!
//! ```console
//! $ tcpxctl history --scenario 4conn --last 3
//! #  started               scenario  outcome  median GB/s  wrong  finding  run
//!    2026-11-20T10:15:00Z  4conn     passed         5.571      0           20261120T101500Z-4conn
//! # 4conn local->peer : ▅▆█ 5.571 GB/s now, median 5.480 of 3, best 5.571
//! $ tcpxctl history prune --keep 20 --keep-failed --dry-run
//! ```
//!
//! Result files of other tools (nccl-tests, iperf3, neper, logs of the P2P harness and of UCCL's and
//! NIXL's benchmarks, as `compare` reads them) are listed among the runs if they are named:
//! `tcpxctl history logs/*.log`. Their time is the one in their name, or when they were written.
//!
//! Running, killed and damaged runs are listed with that word as their outcome. The list comes
//! from an index in the folder, which each call compares with the run folders.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, print, print_error, print_json, print_json_line, say};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tcpx_report::history::{
    History, KeepRules, MEASURED, RATE_COLUMNS, RateRow, RunEntry, SlowerRail, choose, newer_half,
    read, remove, slower_rails, suspects_of,
};
use tcpx_report::rates_page;
use tcpx_run_model::record::{RunFiles, Unfinished};
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

/// Maximum width of a sparkline, in columns.
const SPARKS: usize = 40;

/// Of a run with more directions, the rate of all is shown in their place.
const RATES_MAX: usize = 4;

/// The note below a table with a killed run.
const KILLED: &str = "# killed : the coordinator was killed before it wrote run.json; `tcpxctl diagnose RUN` and \
                      `tcpxctl report RUN` read its events.jsonl\n";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// Result files of other tools to list too; files without a result are left out with a warning.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only runs of this scenario.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Only runs with this outcome: passed, stalled, damaged, killed, running, ...
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only the newest N runs.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Subcommand)]
enum HistoryCommand {
    /// List the rate of every pair, rail and direction, one row each.
    Rates(RatesArguments),
    /// Name the rails that became slower.
    Slower(SlowerArguments),
    /// Remove the run folders that no --keep flag keeps.
    Prune(PruneArguments),
}

#[derive(Args)]
struct RatesArguments {
    /// Result files of other tools too: of nccl-tests, UCCL's benchmark, nixlbench or cluster-health-scanner.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only runs of this scenario.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Only the newest N runs.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Format of the rows.
    #[arg(long, value_enum, default_value_t = RateFormat::Text)]
    format: RateFormat,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Args)]
struct SlowerArguments {
    /// Only runs of this scenario.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Compare runs from this time on with those before (RFC 3339, or a prefix: 2026-11) [default: the newer half].
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RateFormat {
    /// Columns for a terminal, and the parts that the rates make suspect.
    Text,
    /// CSV with a header, for a spreadsheet, DuckDB or pandas.
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// A page with a matrix for each tool and rail.
    Html,
}

#[derive(Args)]
struct PruneArguments {
    /// Keep the newest N runs of each scenario.
    #[arg(long, value_name = "N", required_unless_present = "keep_since")]
    keep: Option<usize>,
    /// Keep runs that started at this time or later (RFC 3339, or a prefix: 2026-11).
    #[arg(long, value_name = "TIME")]
    keep_since: Option<String>,
    /// Keep runs that did not pass.
    #[arg(long)]
    keep_failed: bool,
    /// Print what would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HistoryDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::HistoryEntry>"))]
    runs: &'a [&'a RunEntry],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RatesDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::RateOfPair>"))]
    rates: &'a [RateRow],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SlowerDocument<'a> {
    schema: &'static str,
    /// Runs from this time on are compared with those before; absent with fewer than two runs.
    since: Option<&'a str>,
    /// Number of runs with rates.
    runs: usize,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::SlowerRail>"))]
    rails: &'a [SlowerRail],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PrunedDocument<'a> {
    schema: &'static str,
    dry_run: bool,
    removed: Vec<&'a str>,
    kept: usize,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    match &arguments.command {
        Some(HistoryCommand::Prune(arguments)) => return prune(common, arguments),
        Some(HistoryCommand::Rates(arguments)) => return rates(common, arguments),
        Some(HistoryCommand::Slower(arguments)) => return slower(common, arguments),
        None => {}
    }
    let mut history = match read(&arguments.reports) {
        Ok(history) => history,
        // Result files may be all that there is.
        Err(error) if arguments.files.is_empty() || error.outcome() != Outcome::Usage => {
            return Err(error.into());
        }
        Err(_) => History::default(),
    };
    warn(&history);
    for path in &arguments.files {
        match result_file(path) {
            Ok(entry) => history.runs.push(entry),
            Err(why) => {
                let why = tcpx_words::units::printable(&why.to_string());
                say(&format!("warning: {why}\n"));
            }
        }
    }
    history
        .runs
        .sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    let is_selected = |run: &&RunEntry| {
        arguments
            .scenario
            .as_ref()
            .is_none_or(|name| *name == run.scenario)
            && arguments
                .outcome
                .as_ref()
                .is_none_or(|outcome| *outcome == run.outcome)
    };
    let mut runs: Vec<&RunEntry> = history.runs.iter().filter(is_selected).collect();
    if let Some(last) = arguments.last {
        runs.drain(..runs.len().saturating_sub(last));
    }
    match common.json {
        true => print_json(&HistoryDocument {
            schema: "tcpxctl.history/1",
            runs: &runs,
        }),
        false => print(&text(&runs)),
    }
    Ok(Ending::PASSED)
}

/// The rows of the selected runs of a folder, oldest first. Runs without a readable record have
/// none; `history` lists them with the reason.
fn rows_of(
    reports: &Path,
    scenario: Option<&str>,
    last: Option<usize>,
) -> Result<Vec<RateRow>, Failure> {
    let history = read(reports)?;
    warn(&history);
    let is_selected = |run: &&RunEntry| scenario.is_none_or(|name| name == run.scenario);
    let runs: Vec<&RunEntry> = history.runs.iter().filter(is_selected).collect();
    let first = last.map_or(0, |last| runs.len().saturating_sub(last));
    let mut rows = Vec::new();
    for run in &runs[first..] {
        let files = RunFiles::Folder(reports.join(&run.id));
        if let Ok(Some(record)) = files.record() {
            rows.extend(RateRow::of_run(&record));
        }
    }
    Ok(rows)
}

fn rates(common: &Common, arguments: &RatesArguments) -> Ended {
    let scenario = arguments.scenario.as_deref();
    let mut rows = match rows_of(&arguments.reports, scenario, arguments.last) {
        Ok(rows) => rows,
        // Result files may be all that there is.
        Err(_) if !arguments.files.is_empty() && !arguments.reports.exists() => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let mut of_files = Vec::new();
    for path in &arguments.files {
        let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
        match tcpx_report::compare::read(path, None) {
            Ok(measured) => of_files.extend(RateRow::of_file(
                &measured,
                modified.unwrap_or(std::time::UNIX_EPOCH),
            )),
            Err(why) => {
                let why = tcpx_words::units::printable(&why.to_string());
                say(&format!("warning: {why}\n"));
            }
        }
    }
    let suspects = suspects_of(&of_files);
    rows.extend(of_files);
    if common.json {
        print_json(&RatesDocument {
            schema: "tcpxctl.rates/1",
            rates: &rows,
        });
        return Ok(Ending::PASSED);
    }
    match arguments.format {
        RateFormat::Csv => {
            let lines = rows.iter().map(|row| row.csv() + "\r\n");
            print(&(format!("{RATE_COLUMNS}\r\n") + &lines.collect::<String>()));
        }
        RateFormat::Jsonl => rows.iter().for_each(print_json_line),
        RateFormat::Html => print(&rates_page(&rows)),
        RateFormat::Text => {
            print(&rates_text(&rows));
            for one in suspects.iter().flat_map(|found| &found.findings) {
                print(&format!("# {} : {}\n", one.finding.standing, one.words));
            }
        }
    }
    Ok(Ending::PASSED)
}

fn rates_text(rows: &[RateRow]) -> String {
    let heads = [
        "started", "scenario", "from", "to", "rail", "gpu", "round", "outcome", "GB/s",
    ];
    let mut columns = Columns::new(&heads);
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |one| one.to_string());
    let again = |row: &RateRow| if row.again { ", again" } else { "" };
    for row in rows {
        let to = if row.to.is_empty() { "-" } else { &row.to };
        columns.row([
            row.started.clone(),
            row.scenario.clone(),
            row.from.clone(),
            to.to_owned(),
            row.rail.clone(),
            match (row.gpu, row.to_gpu) {
                (Some(gpu), Some(to)) if gpu != to => format!("{gpu}->{to}"),
                (gpu, _) => number(gpu),
            },
            number(row.round),
            format!("{}{}", row.outcome, again(row)),
            row.gb_per_s
                .map_or("-".to_owned(), |rate| format!("{rate:.3}")),
        ]);
    }
    columns.render()
}

fn slower(common: &Common, arguments: &SlowerArguments) -> Ended {
    let rows = rows_of(&arguments.reports, arguments.scenario.as_deref(), None)?;
    let since = arguments.since.clone().or_else(|| newer_half(&rows));
    let rails = since
        .as_deref()
        .map_or(Vec::new(), |since| slower_rails(&rows, since));
    let runs: BTreeSet<&str> = rows.iter().map(|row| row.run.as_str()).collect();
    let runs = runs.len();
    if common.json {
        print_json(&SlowerDocument {
            schema: "tcpxctl.slower/1",
            since: since.as_deref(),
            runs,
            rails: &rails,
        });
        return Ok(Ending::PASSED);
    }
    let Some(since) = since else {
        print("# Two runs or more are needed to tell what became slower\n");
        return Ok(Ending::PASSED);
    };
    for one in &rails {
        let p = one
            .p
            .map_or("too few runs to test".to_owned(), |p| format!("p = {p:.3}"));
        print(&format!(
            "{} : rail {} of {} : {:.3} GB/s in {} runs, {:.3} in {} since {} : {:+.0} %, {p}\n",
            one.scenario,
            one.rail,
            one.node,
            one.before_gb_per_s,
            one.runs.0,
            one.after_gb_per_s,
            one.runs.1,
            one.since,
            one.change * 100.0,
        ));
    }
    if rails.is_empty() {
        print(&format!(
            "# No rail is slower from {since} on than before, in {}\n",
            counted(runs, "run")
        ));
    }
    Ok(Ending::PASSED)
}

fn result_file(path: &Path) -> Result<RunEntry, String> {
    let measured = tcpx_report::compare::read(path, None).map_err(|error| error.to_string())?;
    let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
    Ok(RunEntry::of_file(
        &measured,
        modified.unwrap_or(std::time::UNIX_EPOCH),
    ))
}

fn warn(history: &History) {
    if let Some(why) = &history.unkept {
        say(&format!(
            "warning: cannot write the index, so the next listing takes as long: {why}\n"
        ));
    }
}

fn text(runs: &[&RunEntry]) -> String {
    let mut columns = Columns::new(&[
        "started",
        "scenario",
        "outcome",
        "median GB/s",
        "wrong",
        "finding",
        "run",
    ]);
    let mut over_time: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        let rates: Vec<String> = run
            .rates
            .iter()
            .map(|rate| format!("{:.3}", rate.median_gb_per_s))
            .collect();
        let rates = match run.all_gb_per_s {
            _ if rates.is_empty() => "-".to_owned(),
            Some(all) if rates.len() > RATES_MAX => {
                format!("{all:.3} of {} together", rates.len())
            }
            None if rates.len() > RATES_MAX => {
                format!("{} ... of {}", rates[..RATES_MAX].join(" "), rates.len())
            }
            _ => rates.join(" "),
        };
        columns.row([
            run.started.clone(),
            run.scenario.clone(),
            run.outcome.clone(),
            rates,
            run.wrong_bytes
                .map_or("-".to_owned(), |wrong| wrong.to_string()),
            what_stands_out(run),
            run.id.clone(),
        ]);
        if !["passed", MEASURED].contains(&run.outcome.as_str()) {
            continue;
        }
        let mut add = |direction, rate| {
            let rates: &mut Vec<f64> = over_time.entry((&run.scenario, direction)).or_default();
            rates.push(rate);
        };
        if let Some(all) = run.all_gb_per_s {
            add("all together", all);
        }
        for rate in run.rates.iter().filter(|_| run.rates.len() <= RATES_MAX) {
            add(&rate.direction, rate.median_gb_per_s);
        }
    }
    let mut text = columns.render();
    if runs
        .iter()
        .any(|run| run.outcome == Unfinished::Killed.word())
    {
        text.push_str(KILLED);
    }
    for run in runs {
        text.extend(run.why.iter().map(|why| format!("# {} : {why}\n", run.id)));
    }
    for ((scenario, direction), rates) in over_time {
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        let (now, best) = (rates[rates.len() - 1], sorted[sorted.len() - 1]);
        let median = sorted[sorted.len() / 2];
        text.push_str(&format!(
            "# {scenario} {direction} : {} {now:.3} GB/s now, median {median:.3} of {}, best {best:.3}\n",
            sparkline(&rates),
            rates.len()
        ));
    }
    text
}

/// The latest rates as bars of eight heights, from 0 to the best rate.
fn sparkline(rates: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &rates[rates.len().saturating_sub(SPARKS)..];
    let best = shown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    shown
        .iter()
        .map(|rate| BARS[((rate / best * 8.0).ceil() as usize).clamp(1, 8) - 1])
        .collect()
}

fn prune(common: &Common, arguments: &PruneArguments) -> Ended {
    let history = read(&arguments.reports)?;
    let keep = KeepRules {
        newest: arguments.keep,
        since: arguments.keep_since.clone(),
        failed: arguments.keep_failed,
    };
    let going = choose(&history.runs, &keep);
    let mut removed = Vec::new();
    for run in &going {
        let done = if arguments.dry_run {
            Ok(())
        } else {
            remove(&arguments.reports, run)
        };
        match done {
            Ok(()) => removed.push(run.id.as_str()),
            Err(error) => {
                print_error(common, format!("cannot remove {}: {error}", run.id), None);
            }
        }
    }
    let kept = history.runs.len() - removed.len();
    let removed_count = removed.len();
    let removed_all = removed_count == going.len();
    if common.json {
        print_json(&PrunedDocument {
            schema: "tcpxctl.pruned/1",
            dry_run: arguments.dry_run,
            removed,
            kept,
        });
    } else {
        let how = if arguments.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        removed
            .iter()
            .for_each(|id| print(&format!("{how} {id}\n")));
        print(&format!(
            "# Pruned : {} {how}, {kept} kept\n",
            removed.len()
        ));
    }
    match removed_all {
        true => Ok(Ending::PASSED),
        false => {
            let message = format!(
                "{} run folders could not be removed",
                going.len() - removed_count
            );
            Err(Failure::new(Outcome::NotRun, message).in_result())
        }
    }
}

/// The part of a mesh that is slow, else the worst finding, and whether the record is whole.
fn what_stands_out(run: &RunEntry) -> String {
    let mut all: Vec<&str> = run
        .part
        .iter()
        .chain(&run.finding)
        .map(String::as_str)
        .take(1)
        .collect();
    if run.is_incomplete {
        all.push("record incomplete");
    }
    all.join("; ")
}
