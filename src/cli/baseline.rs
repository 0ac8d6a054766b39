//! `tcpxctl baseline`: results saved under a name, as references for `compare`.
//!
//! ```console
//! $ tcpxctl baseline save last-month reports/20261020T101500Z-4conn
//! # Baseline : last-month in ~/.config/tcpxctl/baselines/last-month.json
//! $ tcpxctl baseline list
//! $ tcpxctl compare last-month reports/20261120T101500Z-4conn
//! ```
//!
//! The shipped profiles are baselines too; each names its source and date.
#![forbid(unsafe_code)]

use super::Common;
use super::compare::measured;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, path_text, print, print_json};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::Path;
use tcpx_report::compare::{Baselines, Measured};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: BaselineCommand,
}

#[derive(Subcommand)]
enum BaselineCommand {
    /// Save a result under a name.
    Save {
        /// Name of the baseline: letters, digits, `.`, `_` and `-`.
        name: String,
        /// A run folder, a bundle, or a result file of another tool.
        #[arg(value_name = "RESULT")]
        result: String,
    },
    /// List all baselines, the shipped profiles last.
    List,
    /// Show a baseline with its metrics.
    Show {
        /// Name of the baseline, as `list` prints it.
        name: String,
    },
}

/// A result that was saved.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BaselineDocument<'a> {
    schema: &'static str,
    /// The name it can be compared by.
    saved: &'a str,
    /// The file it is kept in.
    path: &'a Path,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BaselinesDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Measured>"))]
    baselines: &'a [Measured],
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let baselines = Baselines::of_user(|name| std::env::var_os(name));
    let shown = match &arguments.command {
        BaselineCommand::Save { name, result } => {
            let measured = measured(result, None)?;
            if measured.metrics.is_empty() {
                let message = format!("{result} has no result to save");
                return Err(Failure::new(Outcome::NotRun, message));
            }
            let path = baselines.save(name, &measured)?;
            match common.json {
                true => print_json(&BaselineDocument {
                    schema: "tcpxctl.baseline/1",
                    saved: name,
                    path: &path,
                }),
                false => print(&format!("# Baseline : {name} in {}\n", path_text(&path))),
            }
            return Ok(Ending::PASSED);
        }
        BaselineCommand::List => baselines.list(),
        BaselineCommand::Show { name } => vec![baselines.load(name)?],
    };
    if common.json {
        print_json(&BaselinesDocument {
            schema: "tcpxctl.baselines/1",
            baselines: &shown,
        });
    } else {
        print(&text(
            &shown,
            matches!(arguments.command, BaselineCommand::Show { .. }),
        ));
    }
    Ok(Ending::PASSED)
}

fn text(all: &[Measured], whole: bool) -> String {
    let mut columns = Columns::new(&["name", "metric", "median", "unit", "samples"]);
    for one in all {
        for (name, metric) in one
            .metrics
            .iter()
            .filter(|(name, _)| whole || name.contains("rate") || name.contains("busbw"))
        {
            let median = metric.median().unwrap_or_default();
            let cells = [
                one.name.clone(),
                name.clone(),
                format!("{median:.3}"),
                metric.unit.clone(),
                metric.samples.len().to_string(),
            ];
            columns.row(cells);
        }
    }
    let sources: String = all
        .iter()
        .map(|one| format!("# {} : {}\n", one.name, one.source))
        .collect();
    columns.render() + &sources
}
