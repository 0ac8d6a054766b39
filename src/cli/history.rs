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
use super::output::{Columns, print, print_error, print_json, say};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpx_report::history::{History, KeepRules, MEASURED, RunEntry, choose, read, remove};
use tcpx_run_model::record::Unfinished;
use tcpx_words::error::Outcome;

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
    /// Remove the run folders that no --keep flag keeps.
    Prune(PruneArguments),
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
pub(super) struct PrunedDocument<'a> {
    schema: &'static str,
    dry_run: bool,
    removed: Vec<&'a str>,
    kept: usize,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if let Some(HistoryCommand::Prune(arguments)) = &arguments.command {
        return prune(common, arguments);
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
            Err(why) => say(&format!("warning: {why}\n")),
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
            run.finding.clone().unwrap_or_default(),
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
