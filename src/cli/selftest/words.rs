//! Rows as a table and as JUnit XML, and what is said where a row has no answer.
#![forbid(unsafe_code)]

use super::super::output::Columns;
use super::{INTERRUPTED, Row};
use crate::coord::Problem;
use crate::coord::message::Loaded;
use crate::error::Outcome;
use crate::plugin::Choice;
use crate::report::suite::{Case, Ended, Suite};
use std::fmt::Write;

/// Verdict and detail of a worker that ended before it could answer.
pub(super) fn of_problem(problem: &Problem) -> (String, String) {
    let verdict = match problem.outcome {
        Outcome::PluginDied => "CRASHED",
        Outcome::Interrupted => return interrupted(),
        _ => "FAIL",
    };
    (verdict.into(), problem.message.clone())
}

/// The same of the row that the user ended.
pub(super) fn interrupted() -> (String, String) {
    (INTERRUPTED.into(), "ended by the user; the rows after it were not run".into())
}

/// The same where no table can be used.
pub(super) fn no_table() -> (String, String) {
    ("NOT SUPPORTED".into(), "no table of the library can be used".into())
}

fn count(rows: &[Row], verdict: &str) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// For people: every row, the limits that were found, and the sums.
pub(super) fn text(choice: &Choice, loaded: Option<&Loaded>, rows: &[Row]) -> String {
    let mut columns = Columns::new(&["verdict", "row", "detail"]);
    for row in rows {
        columns.row([row.verdict.clone(), row.id.clone(), row.detail.clone()]);
    }
    let mut text = format!("# Plugin : {} ({})\n", choice.source, choice.why);
    if let Some(loaded) = loaded {
        let exports = loaded.exports.join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# Table : {} from {} (exports {exports})", loaded.about.name, loaded.symbol);
    }
    text.push_str(&columns.render());
    let limits = rows.iter().filter(|row| row.verdict == "PASS");
    for row in limits {
        let what = row.id.strip_prefix("limit-").or_else(|| row.id.strip_prefix("slots-"));
        if let Some(what) = what.filter(|what| LIMITS.contains(what)) {
            let _ = writeln!(text, "# Limit : {what}: {}", row.detail);
        }
    }
    let _ = writeln!(
        text,
        "# {} passed, {} failed, {} crashed, {} not supported{}",
        count(rows, "PASS"),
        count(rows, "FAIL"),
        count(rows, "CRASHED"),
        count(rows, "NOT SUPPORTED"),
        match rows.last().filter(|last| last.verdict == INTERRUPTED) {
            Some(last) => format!("; interrupted in {}, so this is not all", last.id),
            None => String::new(),
        },
    );
    text
}

/// Rows whose detail is a limit that an author wants at a glance.
const LIMITS: [&str; 5] = ["message", "registration", "connections", "receives", "sends"];

/// For CI: one case per row; what is not owed is skipped.
pub(super) fn junit(choice: &Choice, rows: &[Row]) -> String {
    let case = |row: &Row| {
        let detail = row.detail.clone();
        let ended = match row.verdict.as_str() {
            "FAIL" => Ended::Failure(detail),
            "CRASHED" | INTERRUPTED => Ended::Error(detail),
            "NOT SUPPORTED" => Ended::Skipped(detail),
            _ => Ended::Passed(Some(detail)),
        };
        Case { name: row.id.clone(), seconds: row.seconds, ended }
    };
    let suite = Suite {
        name: choice.source.to_string(),
        classname: "tcpxctl.selftest".to_owned(),
        cases: rows.iter().map(case).collect(),
        ..Suite::default()
    };
    suite.render()
}
