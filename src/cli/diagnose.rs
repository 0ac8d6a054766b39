//! `tcpxctl diagnose`: which condition it is.
//!
//! ```console
//! $ tcpxctl diagnose --explain                          # every condition there is a name for
//! $ tcpxctl diagnose --explain window-never-consumed    # what it means, how it is detected, what to do
//! ```
#![forbid(unsafe_code)]

use super::Common;
use super::output::{Columns, fail_with, print, print_json};
use crate::diagnose::{Catalogue, Condition};
use crate::error::Outcome;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Say what a condition means, how it is detected, how to reproduce it and how to fix it; without a name, list all.
    #[arg(long, value_name = "CONDITION", num_args = 0..=1, required = true)]
    explain: Option<Option<String>>,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    explain(common, arguments.explain.as_ref().and_then(Option::as_deref))
}

#[derive(Serialize)]
struct Explained<'a> {
    schema: &'static str,
    conditions: Vec<&'a Condition>,
}

fn explain(common: &Common, name: Option<&str>) -> ExitCode {
    let catalogue = Catalogue::embedded();
    let conditions: Vec<&Condition> = match name.map(|name| (name, catalogue.get(name))) {
        None => catalogue.conditions.iter().collect(),
        Some((_, Some(condition))) => vec![condition],
        Some((name, None)) => {
            let like = catalogue.like(name).join(", ");
            let next = if like.is_empty() {
                "`tcpxctl diagnose --explain` lists all".to_owned()
            } else {
                format!("did you mean {like}?")
            };
            return fail_with(common, Outcome::Usage, &format!("there is no condition `{name}`"), Some(&next));
        }
    };
    match (common.json, conditions.as_slice()) {
        (true, _) => print_json(&Explained { schema: "tcpxctl.explain/1", conditions }),
        (false, [one]) if name.is_some() => print(&described(one)),
        (false, all) => print(&listed(all)),
    }
    ExitCode::SUCCESS
}

fn listed(conditions: &[&Condition]) -> String {
    let mut columns = Columns::new(&["condition", "severity", "what it means"]);
    for condition in conditions {
        columns.row([condition.name.clone(), condition.severity.name().to_owned(), condition.meaning.clone()]);
    }
    columns.render()
}

fn described(it: &Condition) -> String {
    let causes = it.causes.iter().zip(1..).map(|(cause, number)| format!("  {number}. {cause}\n")).collect::<String>();
    let reproduce = if it.simulated { "to rehearse" } else { "to reproduce" };
    format!(
        "{} ({})\n{}\n\nyou see      : {}\ndetected     : {}\nlikely causes:\n{causes}{reproduce:<13}: {}\nto fix       : {}\nreference    : {}\n",
        it.name,
        it.severity.name(),
        it.meaning,
        it.symptom,
        it.detected,
        it.reproduce,
        it.fix,
        it.reference
    )
}
