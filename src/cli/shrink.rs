//! `tcpxctl shrink SCENARIO`: the smallest scenario that still shows its finding.
//!
//! ```console
//! $ tcpxctl shrink scenarios/repro/window-never-consumed.toml --out small.toml
//! # window-never-consumed : shown by connections 4, chunk 512KiB, total 64MiB, windows 12/16
//! # run 1 : connections 4, chunk 512KiB, total 64MiB, windows 12/16, iterations 1: shown
//! ...
//! # 31 runs : small.toml
//! ```
//!
//! The finding is that of `--finding`, or the scenario's `expect.finding`, and has
//! to come first. Connections, windows, chunk, bytes, iterations and the moment of
//! the fault are halved, policy and environment put back to their defaults. What
//! is left when `--runs` are used up still shows it, and may not be the smallest.
#![forbid(unsafe_code)]

use super::Common;
use super::child::Runs;
use super::output::{complain, fail_with, print, print_json, refuse_scenario, say};
use super::signals::interrupted;
use super::which::Which;
use crate::shrink::shrink;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use tcpx_run_model::scenario::{Scenario, resolve};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Scenario file that shows the finding.
    scenario: PathBuf,
    /// The condition to keep; expect.finding without it.
    #[arg(long, value_name = "CONDITION")]
    finding: Option<String>,
    /// Where the smallest one is written; SCENARIO.small.toml without it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Runs at most.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Override a key of the scenario first; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Where run folders go.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    finding: &'a str,
    runs: u32,
    is_smallest: bool,
    out: String,
    scenario: &'a Scenario,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let points = super::run::inputs(
        Some(arguments.scenario.clone()),
        &arguments.set,
        &arguments.which,
    )
    .and_then(|inputs| resolve(&inputs));
    let points = match points {
        Ok(points) => points,
        Err(error) => return refuse_scenario(common, &error),
    };
    let [point] = points.as_slice() else {
        let next = "give each list one value with --set";
        return fail_with(
            common,
            Outcome::Usage,
            "a sweep cannot be shrunk",
            Some(next),
        );
    };
    let mut scenario = point.scenario.clone();
    if let Some(code) = super::run::refuse_evidence(common, &scenario) {
        return code;
    }
    let Some(finding) = arguments
        .finding
        .clone()
        .or_else(|| scenario.expect.finding.clone())
    else {
        let next = "name the condition with --finding, or in expect.finding";
        return fail_with(
            common,
            Outcome::Usage,
            "the scenario expects no finding",
            Some(next),
        );
    };
    scenario.expect.finding = Some(finding.clone());
    let flag = match interrupted(common) {
        Ok(flag) => flag,
        Err(code) => return code,
    };
    let extra = ["--no-preflight".to_owned()];
    let mut runs = match Runs::new(&arguments.reports, "shrink", &extra, &flag) {
        Ok(runs) => runs,
        Err(error) => {
            let message = format!(
                "cannot make a folder in {}: {error}",
                arguments.reports.display()
            );
            return fail_with(
                common,
                Outcome::NotRun,
                &message,
                Some("choose another place with --reports DIR"),
            );
        }
    };
    let mut number = 0;
    let mut shows = |scenario: &Scenario| {
        let ran = runs.run(scenario);
        let shown = ran.as_ref().is_ok_and(|ran| {
            ran.record
                .findings
                .first()
                .is_some_and(|one| one.condition == finding)
        });
        number += 1;
        say(&format!(
            "# run {number} : {}: {}\n",
            described(scenario),
            if shown { "shown" } else { "not shown" }
        ));
        (!runs.is_interrupted()).then_some(shown)
    };
    if shows(&scenario) != Some(true) {
        let message = format!(
            "{} does not show {finding} first",
            arguments.scenario.display()
        );
        let next =
            format!("run it; `tcpxctl diagnose --explain {finding}` says how it is reproduced");
        return fail_with(common, Outcome::Failed, &message, Some(&next));
    }
    let shrunk = shrink(&scenario, arguments.runs - 1, &mut shows);
    write(common, arguments, &finding, &shrunk)
}

fn write(
    common: &Common,
    arguments: &Arguments,
    finding: &str,
    shrunk: &crate::shrink::Shrunk,
) -> ExitCode {
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.scenario.with_extension("small.toml"));
    let head = format!(
        "# The smallest scenario found in {} runs that shows {finding}.\n",
        shrunk.runs + 1
    );
    let text = toml::to_string_pretty(&shrunk.scenario).unwrap_or_default();
    if let Err(error) = std::fs::write(&path, head + &text) {
        let message = format!("cannot write {}: {error}", path.display());
        return fail_with(
            common,
            Outcome::NotRun,
            &message,
            Some("choose another place with --out FILE"),
        );
    }
    if common.json {
        let (runs, is_smallest, scenario) = (shrunk.runs + 1, shrunk.is_smallest, &shrunk.scenario);
        let out = path.display().to_string();
        print_json(&Document {
            schema: "tcpxctl.shrink/1",
            finding,
            runs,
            is_smallest,
            out,
            scenario,
        });
    } else {
        print(&format!(
            "# {} runs : {}, {}\n",
            shrunk.runs + 1,
            described(&shrunk.scenario),
            path.display()
        ));
    }
    if !shrunk.is_smallest {
        complain(
            common,
            "it may not be the smallest: no run was left",
            Some("raise --runs".into()),
        );
    }
    ExitCode::SUCCESS
}

fn described(scenario: &Scenario) -> String {
    let one = &scenario.transfer;
    format!(
        "connections {}, chunk {}, total {}, windows {}/{}, iterations {}+{}",
        one.connections,
        one.chunk,
        one.total,
        one.send_window,
        one.recv_window,
        one.warmup,
        one.iterations
    )
}
