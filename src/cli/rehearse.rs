//! `tcpxctl rehearse [NAME...]`: injects known failures, and checks that each is diagnosed.
//!
//! ```console
//! $ tcpxctl rehearse window-never-consumed plugin-crash
//! #  scenario               expected               found                  seconds  verdict
//!    window-never-consumed  window-never-consumed  window-never-consumed      3.1  passed
//!    plugin-crash           plugin-crash           plugin-crash               0.1  passed
//! # 2 of 2 passed : reports/20261120T140730Z-rehearsal-4242
//! ```
//!
//! Each rehearsal is a scenario, run as `tcpxctl run` runs it; `--list` lists them. The seconds
//! are from the last progress to the first finding of the expected condition. A fault that cannot
//! be injected is judged from recorded evidence, and its row says `simulated`. The exit code is 1
//! if a rehearsal's first finding is not the expected condition.
#![forbid(unsafe_code)]

use super::Common;
use super::child::ChildRuns;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, path_text, print, print_error, print_json, print_warning};
use super::signals::interrupted;
use crate::rehearse::{Rehearsal, RehearsalRow, Stopwatch, rehearsal_row, rehearsals};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use tcpx_run_model::scenario::{Scenario, nearest};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Failures to rehearse [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the failures, and run nothing.
    #[arg(long)]
    list: bool,
    /// Folder for the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
    /// Plugin: soft or builtin; only the software plugin can inject faults.
    #[arg(long, value_name = "PLUGIN", default_value = "builtin", value_parser = ["soft", "builtin"])]
    plugin: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RehearseDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::RehearsalRow>"))]
    rows: &'a [RehearsalRow],
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let chosen = chosen(&arguments.names)?;
    if arguments.list {
        list(common, &chosen);
        return Ok(Ending::PASSED);
    }
    let flag = interrupted()?;
    let extra = [
        "--plugin".to_owned(),
        arguments.plugin.clone(),
        "--no-preflight".to_owned(),
    ];
    let mut runs = ChildRuns::new(&arguments.reports, "rehearsal", &extra, &flag)?;
    let mut rows = Vec::new();
    let mut line = Lines::new(common, &chosen);
    for (_, scenario, rehearsal) in &chosen {
        let row = rehearsal
            .judge(scenario)
            .unwrap_or_else(|| rehearse(&mut runs, scenario));
        if runs.is_interrupted() {
            break;
        }
        line.show(&row);
        rows.push(row);
    }
    let passed = rows.iter().filter(|row| row.passed).count();
    if common.json {
        print_json(&RehearseDocument {
            schema: "tcpxctl.rehearse/1",
            rows: &rows,
        });
    } else {
        print(&format!(
            "# {passed} of {} passed : {}\n",
            chosen.len(),
            path_text(runs.folder())
        ));
    }
    if runs.is_interrupted() {
        let (judged, all) = (rows.len(), chosen.len());
        let message = format!("interrupted: only {judged} of {all} rehearsals were judged");
        print_warning(common, message, None);
    }
    let outcome = match (runs.is_interrupted(), passed == chosen.len()) {
        (true, _) => Outcome::Interrupted,
        (_, true) => Outcome::Passed,
        (_, false) => Outcome::Failed,
    };
    Ok(Ending::from(outcome))
}

type Chosen = (&'static str, Scenario, Rehearsal);

fn chosen(names: &[String]) -> Result<Vec<Chosen>, Failure> {
    let mut wanted: Vec<Rehearsal> = Vec::new();
    for name in names {
        match rehearsals().find(|one| one.name() == name) {
            Some(rehearsal) => wanted.push(rehearsal),
            None => {
                let near = nearest(name, rehearsals().map(Rehearsal::name));
                let next = near.map_or("list them with `tcpxctl rehearse --list`".into(), |near| {
                    format!("did you mean {near}?")
                });
                let message = format!("there is no rehearsal `{name}`");
                return Err(Failure::new(Outcome::Usage, message).next(next));
            }
        }
    }
    if names.is_empty() {
        wanted = rehearsals().collect();
    }
    let mut chosen = Vec::new();
    for rehearsal in wanted {
        let scenario = rehearsal.scenario().map_err(|error| {
            Failure::new(Outcome::Usage, format!("{}: {error}", rehearsal.name()))
        })?;
        chosen.push((rehearsal.name(), scenario, rehearsal));
    }
    Ok(chosen)
}

fn rehearse(runs: &mut ChildRuns<'_>, scenario: &Scenario) -> RehearsalRow {
    let ran = match runs.run(scenario) {
        Ok(ran) => ran,
        Err(why) => return rehearsal_row(scenario, &[], "no record", vec![format!("{why:#}")]),
    };
    let record = &ran.record;
    let row = rehearsal_row(
        scenario,
        &record.findings,
        &record.outcome.to_string(),
        record.unmet.clone(),
    );
    let mut stopwatch = Stopwatch::new(&row.expected);
    ran.events(|event| stopwatch.event(event));
    RehearsalRow {
        seconds_to_verdict: stopwatch.seconds(),
        ..row
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RehearsalsDocument<'a> {
    schema: &'static str,
    scenarios: Vec<&'a str>,
}

fn list(common: &Common, chosen: &[Chosen]) {
    if common.json {
        let scenarios = chosen.iter().map(|(name, ..)| *name).collect();
        print_json(&RehearsalsDocument {
            schema: "tcpxctl.rehearsals/1",
            scenarios,
        });
        return;
    }
    let mut columns = Columns::new(&["scenario", "expects", "by"]);
    for (name, scenario, _) in chosen {
        let expects = scenario.expect.finding.clone().unwrap_or_default();
        let by = scenario
            .fault
            .as_ref()
            .map_or("settings".to_owned(), |fault| fault.by().to_string());
        columns.row([(*name).to_owned(), expects, by]);
    }
    print(&columns.render());
}

/// Prints each row as soon as it is known: rehearsing all failures takes minutes.
struct Lines<'a> {
    common: &'a Common,
    width: usize,
}

impl<'a> Lines<'a> {
    fn new(common: &'a Common, chosen: &[Chosen]) -> Self {
        let width = chosen
            .iter()
            .map(|(name, ..)| name.len())
            .max()
            .unwrap_or_default()
            .max(COLUMN);
        if !common.json {
            print(&format!(
                "#  {:width$}  {:COLUMN$}  {:COLUMN$}  seconds  verdict\n",
                "scenario", "expected", "found"
            ));
        }
        Self { common, width }
    }

    fn show(&mut self, row: &RehearsalRow) {
        if self.common.json {
            return;
        }
        let width = self.width;
        let seconds = row
            .seconds_to_verdict
            .map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
        let verdict = if row.passed { "passed" } else { "FAILED" };
        let simulated = if row.simulated { " (simulated)" } else { "" };
        print(&format!(
            "   {:width$}  {:COLUMN$}  {:COLUMN$}  {seconds:>7}  {verdict}{simulated}\n",
            row.scenario, row.expected, row.found
        ));
        for unmet in &row.unmet {
            print_error(self.common, format!("{}: {unmet}", row.scenario), None);
        }
    }
}

/// Column width: that of the longest condition name.
const COLUMN: usize = 27;
