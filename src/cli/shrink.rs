//! `tcpxctl shrink SCENARIO`: reduces a scenario to the smallest one that shows its finding.
//!
//! ```console
//! $ tcpxctl shrink scenarios/repro/window-never-consumed.toml --out small.toml
//! # window-never-consumed : shown by connections 4, chunk 512KiB, total 64MiB, windows 12/16
//! # run 1 : connections 4, chunk 512KiB, total 64MiB, windows 12/16, iterations 1: shown
//! ...
//! # 31 runs : small.toml
//! ```
//!
//! The finding is `--finding` or the scenario's `expect.finding`, and must be the first finding.
//! Connections, windows, chunk, bytes, iterations and the moment of the fault are halved; policy
//! and environment are reset to their defaults. When `--runs` is used up, the result still shows
//! the finding, and a smaller scenario may exist. So it is after an interrupt, with exit code 130.
#![forbid(unsafe_code)]

use super::Common;
use super::child::ChildRuns;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print, print_json, print_warning, say};
use super::plugin_arguments::PluginArguments;
use super::scenario::{must_be_runnable, points_of};
use super::signals::interrupted;
use crate::shrink::shrink;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use tcpx_report::write_whole;
use tcpx_run_model::scenario::Scenario;
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Scenario file that shows the finding.
    scenario: PathBuf,
    /// Condition that must stay the first finding [default: expect.finding of the scenario].
    #[arg(long, value_name = "CONDITION")]
    finding: Option<String>,
    /// File for the smallest scenario [default: SCENARIO.small.toml].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Maximum number of runs.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Override a scenario key before shrinking; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    plugin: PluginArguments,
    /// Folder for the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ShrinkDocument<'a> {
    schema: &'static str,
    finding: &'a str,
    runs: u32,
    is_smallest: bool,
    out: String,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    scenario: &'a Scenario,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let path = Some(arguments.scenario.clone());
    let points = points_of(path, &arguments.set, &arguments.plugin)?;
    let [point] = points.as_slice() else {
        return Err(Failure::new(Outcome::Usage, "a sweep cannot be shrunk")
            .next("give each list one value with --set"));
    };
    let mut scenario = point.scenario.clone();
    must_be_runnable(&scenario)?;
    let expected = scenario.expect.finding.clone();
    let Some(finding) = arguments.finding.clone().or(expected) else {
        return Err(
            Failure::new(Outcome::Usage, "the scenario expects no finding")
                .next("name the condition with --finding, or in expect.finding"),
        );
    };
    scenario.expect.finding = Some(finding.clone());
    let flag = interrupted()?;
    let extra = ["--no-preflight".to_owned()];
    let mut runs = ChildRuns::new(&arguments.reports, "shrink", &extra, &flag)?;
    let mut number = 0;
    let mut shows = |scenario: &Scenario| {
        if runs.is_interrupted() {
            return None;
        }
        let ran = runs.run(scenario);
        let shown = ran.as_ref().is_ok_and(|ran| {
            ran.record
                .findings
                .first()
                .is_some_and(|one| one.condition == finding)
        });
        number += 1;
        let shown = tried(shown, runs.is_interrupted());
        say(&format!(
            "# run {number} : {}: {}\n",
            described(scenario),
            match shown {
                Some(true) => "shown",
                Some(false) => "not shown",
                None => "interrupted",
            }
        ));
        shown
    };
    let Some(is_shown) = shows(&scenario) else {
        let message = "interrupted in the first run, so nothing was shrunk";
        return Err(Failure::new(Outcome::Interrupted, message));
    };
    if !is_shown {
        let file = arguments.scenario.display();
        let message = format!("{file} does not show {finding} first");
        let next =
            format!("run it; `tcpxctl diagnose --explain {finding}` says how it is reproduced");
        return Err(Failure::new(Outcome::Failed, message).next(next));
    }
    let shrunk = shrink(&scenario, arguments.runs - 1, &mut shows);
    write(common, arguments, &finding, &shrunk, number)?;
    let (outcome, warning, next) = match (shrunk.is_smallest, runs.is_interrupted()) {
        (true, _) => return Ok(Ending::PASSED),
        (false, true) => (Outcome::Interrupted, "interrupted", None),
        (false, false) => (Outcome::Passed, "--runs was used up", Some("raise --runs")),
    };
    let message = format!("a smaller scenario may exist: {warning}");
    print_warning(common, message, next);
    Ok(Ending::from(outcome))
}

/// Whether a run showed the finding; `None` if it was interrupted before it could.
fn tried(shown: bool, is_interrupted: bool) -> Option<bool> {
    (shown || !is_interrupted).then_some(shown)
}

fn write(
    common: &Common,
    arguments: &Arguments,
    finding: &str,
    shrunk: &crate::shrink::Shrunk,
    runs: u32,
) -> Result<(), Failure> {
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.scenario.with_extension("small.toml"));
    let head = format!(
        "# The smallest scenario found in {} that shows {finding}.\n",
        counted(runs as usize, "run")
    );
    let text = toml::to_string_pretty(&shrunk.scenario).unwrap_or_default();
    write_whole(&path, |to| to.write_all((head + &text).as_bytes()))
        .map_err(|error| Failure::from(error).next("choose another file with --out FILE"))?;
    if common.json {
        let (is_smallest, scenario) = (shrunk.is_smallest, &shrunk.scenario);
        let out = path.display().to_string();
        print_json(&ShrinkDocument {
            schema: "tcpxctl.shrink/1",
            finding,
            runs,
            is_smallest,
            out,
            scenario,
        });
    } else {
        print(&format!(
            "# {} : {}, {}\n",
            counted(runs as usize, "run"),
            described(&shrunk.scenario),
            path_text(&path)
        ));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_without_the_finding_tells_nothing() {
        assert_eq!(tried(false, true), None);
        assert_eq!(tried(false, false), Some(false));
        assert_eq!(
            (tried(true, true), tried(true, false)),
            (Some(true), Some(true))
        );
    }
}
