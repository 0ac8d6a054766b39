//! `tcpxctl compare A B [...]`: is the second result better, worse, or within the noise?
//!
//! ```console
//! $ tcpxctl compare reports/20261120T101500Z-4conn reports/20261120T102200Z-4conn
//! $ tcpxctl compare google-150gbps reports/20261120T102200Z-4conn --tolerance 10
//! $ tcpxctl compare last-month reports/20261120T102200Z-4conn iperf3.json --format html --out compare.html
//! ```
//!
//! A result is a run folder, a bundle, a baseline or a shipped profile by name, or a
//! file of nccl-tests (table or -J), iperf3 (-J) or neper, or a log of the P2P harness, of
//! UCCL's P2P benchmark or of nixlbench. The first is the reference. The exit code is 1 if a gating metric got worse.
//!
//! Names and addresses are replaced unless `--no-redact`; with `--out`, what was
//! replaced by what goes beside it, for its owner only.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, json_text, path_text, print, say};
use super::report::{beside, keep_map};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tcpx_diagnose::findings_from_files;
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_report::compare::{
    Baselines, Comparison, Measured, RULE, compare, compared_html, compared_markdown,
    compared_text, read,
};
use tcpx_report::{gather, learn, write_whole};
use tcpx_run_model::record::RunFiles;
use tcpx_words::error::Outcome;

#[derive(Args)]
#[command(after_help = RULE)]
pub(crate) struct Arguments {
    /// The reference, then the results to compare: runs, bundles, baselines, profiles, files of other tools.
    #[arg(value_name = "RESULT", num_args = 2.., required = true)]
    results: Vec<String>,
    /// Largest difference of medians, in percent, that counts as noise.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    tolerance: f64,
    /// Format of the comparison.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// File to write [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not replace names and addresses.
    #[arg(long)]
    no_redact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns for a terminal.
    Text,
    /// Tables to paste.
    Markdown,
    /// A page with a plot of every metric.
    Html,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("expected a percentage from 0 to 1000, such as 5".to_owned()),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CompareDocument<'a> {
    schema: &'static str,
    rule: &'static str,
    exit_code: u8,
    redacted: bool,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "super::schemas::Compared"))]
    compared: &'a Comparison,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let mut outlet = Outlet::of_command(arguments.no_redact);
    let results = arguments
        .results
        .iter()
        .map(|name| measured(name, outlet.redactor()));
    let mut compared = compare(
        results.collect::<Result<Vec<Measured>, _>>()?,
        arguments.tolerance / 100.0,
    );
    if let Some(redactor) = outlet.redactor() {
        compared = compared.redacted(redactor);
    }
    let outcome = if compared.rows.is_empty() {
        Outcome::NotRun
    } else if compared.regressions().next().is_some() {
        Outcome::Failed
    } else {
        Outcome::Passed
    };
    if common.json {
        let exit_code = outcome.exit_code();
        let redacted = outlet.is_redacting();
        let document = json_text(&CompareDocument {
            schema: "tcpxctl.compare/1",
            rule: RULE,
            exit_code,
            redacted,
            compared: &compared,
        });
        print(&outlet.rendered_json(document).text());
        return nothing_in_common(&compared)
            .map_or(Ok(outcome.into()), |failure| Err(failure.in_result()));
    }
    let rendered = match arguments.format {
        Format::Text => compared_text(&compared, |header, rows| {
            let mut columns = Columns::new(header);
            rows.iter().for_each(|row| columns.row(row.clone()));
            columns.render()
        }),
        Format::Markdown => compared_markdown(&compared),
        Format::Html => compared_html(&compared),
    };
    let cleared = outlet.rendered(rendered);
    match &arguments.out {
        None => print(&cleared.text()),
        Some(path) => {
            write_whole(path, |to| to.write_all(cleared.bytes()))?;
            let how = if outlet.is_redacting() {
                "redacted"
            } else {
                "NOT redacted"
            };
            say(&format!("# Comparison : {} ({how})\n", path_text(path)));
            keep_map(&beside(path), &outlet)?;
        }
    }
    if let Some(failure) = nothing_in_common(&compared) {
        return Err(failure);
    }
    Ok(Ending::from(outcome))
}

/// The failure of a comparison without a row.
fn nothing_in_common(compared: &Comparison) -> Option<Failure> {
    compared.rows.is_empty().then(|| {
        let message = "the results have no metric in common";
        let next = "`tcpxctl baseline show NAME` and --json list the metrics of each";
        Failure::new(Outcome::NotRun, message).next(next)
    })
}

/// The result that `name` stands for: a run or bundle, else a file of another tool, else a
/// baseline. The redactor learns every name in it.
pub(crate) fn measured(name: &str, redactor: Option<&mut Redactor>) -> Result<Measured, Failure> {
    let path = Path::new(name);
    if path.is_dir() || RunFiles::is_bundle(path) {
        let story = gather(&RunFiles::open(path)?, findings_from_files);
        if let Some(redactor) = redactor {
            learn(&story, redactor);
        }
        return Measured::of_run(&story).map_err(|error| Failure::because(Outcome::NotRun, &error));
    }
    // A pipe of a shell is one of another tool's results.
    if path.exists() {
        return read(path, redactor).map_err(|error| Failure::because(Outcome::Usage, &error));
    }
    let baselines = Baselines::of_user(|name| std::env::var_os(name));
    Ok(baselines.load(name)?)
}
