//! Rows as a table and as JUnit XML, and what is said where a row has no answer.
#![forbid(unsafe_code)]

use super::Row;
use std::fmt::Write;
use tcpx_coord::Loaded;
use tcpx_coord::Problem;
use tcpx_engine::contract::ContractVerdict;
use tcpx_node::plugin_files::Choice;
use tcpx_report::suite::{JunitCase, JunitResult, JunitSuite};
use tcpx_words::error::Outcome;

/// Verdict and detail of a worker that ended before it could answer.
pub(super) fn verdict_of_problem(problem: &Problem) -> (ContractVerdict, String) {
    let verdict = match problem.outcome {
        Outcome::PluginDied => ContractVerdict::Crashed,
        Outcome::Interrupted => return interrupted(),
        _ => ContractVerdict::Fail,
    };
    (verdict, problem.message.clone())
}

/// The same of the row that the user ended.
pub(super) fn interrupted() -> (ContractVerdict, String) {
    (
        ContractVerdict::Interrupted,
        "ended by the user; the rows after it were not run".into(),
    )
}

/// The same where no table can be used.
pub(super) fn no_table() -> (ContractVerdict, String) {
    (
        ContractVerdict::NotSupported,
        "no table of the library can be used".into(),
    )
}

fn count(rows: &[Row], verdict: ContractVerdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// `1 device`, `4 devices`.
pub(super) fn devices(count: usize) -> String {
    format!("{count} device{}", if count == 1 { "" } else { "s" })
}

/// For people: which plugin, and the columns of the rows, whose names are so wide.
pub(super) fn head(choice: &Choice, loaded: Option<&Loaded>, width: usize) -> String {
    let mut text = format!("# Plugin : {} ({})\n", choice.source, choice.why);
    if let Some(loaded) = loaded {
        let exports = loaded.exports.join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# Table : {} from {} (exports {exports})",
            loaded.about.name, loaded.symbol
        );
    }
    let _ = writeln!(text, "#  {:<13}  {:<width$}  detail", "verdict", "row");
    text
}

/// A row; with what is owed, where that is not what was found.
pub(super) fn line(row: &Row, width: usize) -> String {
    let mut text = format!(
        "   {:<13}  {:<width$}  {}\n",
        row.verdict, row.id, row.detail
    );
    if is_bad(row) {
        let _ = writeln!(
            text,
            "   {:<13}  {:<width$}  owed : {}",
            "", "", row.promise
        );
    }
    text
}

fn is_bad(row: &Row) -> bool {
    matches!(
        row.verdict,
        ContractVerdict::Fail | ContractVerdict::Crashed
    )
}

/// What the rows come to: one cause of many, the limits that were found, and the sums.
pub(super) fn sums(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut told = Vec::new();
    for row in rows.iter().filter(|row| is_bad(row)) {
        let same = rows
            .iter()
            .filter(|other| is_bad(other) && cause(other) == cause(row))
            .count();
        if same >= MANY && !told.contains(&cause(row)) {
            told.push(cause(row));
            let _ = writeln!(
                text,
                "# Same : {same} rows, {} first: {}",
                row.id,
                cause(row)
            );
        }
    }
    for row in rows
        .iter()
        .filter(|row| row.verdict == ContractVerdict::Pass)
    {
        let what = row
            .id
            .strip_prefix("limit-")
            .or_else(|| row.id.strip_prefix("slots-"));
        if let Some(what) = what.filter(|what| LIMITS.contains(what)) {
            let _ = writeln!(text, "# Limit : {what}: {}", row.detail);
        }
    }
    let beside = rows.iter().filter(|row| row.is_inapplicable()).count();
    if beside > 0 {
        let _ = writeln!(
            text,
            "# TCPX : not shown are {beside} of what only TCPX promises; --json has them"
        );
    }
    let _ = writeln!(
        text,
        "# {} passed, {} failed, {} crashed, {} not supported{}",
        count(rows, ContractVerdict::Pass),
        count(rows, ContractVerdict::Fail),
        count(rows, ContractVerdict::Crashed),
        count(rows, ContractVerdict::NotSupported) - beside,
        match rows
            .last()
            .filter(|last| last.verdict == ContractVerdict::Interrupted)
        {
            Some(last) => format!("; interrupted in {}, so this is not all", last.id),
            None => String::new(),
        },
    );
    text
}

/// The detail without the plugin's own words, which name what differs from row to row.
fn cause(row: &Row) -> &str {
    row.detail
        .split("; its last WARN: ")
        .next()
        .unwrap_or_default()
}

/// From so many on, rows with the same words have one cause.
const MANY: usize = 3;

/// Rows whose detail is a limit that an author wants at a glance.
const LIMITS: [&str; 5] = [
    "message",
    "registration",
    "connections",
    "receives",
    "sends",
];

/// For CI: one case per row; what is not owed is skipped.
pub(super) fn junit(choice: &Choice, rows: &[Row]) -> String {
    let case = |row: &Row| {
        let detail = if is_bad(row) {
            format!("{}; owed: {}", row.detail, row.promise)
        } else {
            row.detail.clone()
        };
        let ended = match row.verdict {
            ContractVerdict::Fail => JunitResult::Failure(detail),
            ContractVerdict::Crashed | ContractVerdict::Interrupted => JunitResult::Error(detail),
            ContractVerdict::NotSupported => JunitResult::Skipped(detail),
            ContractVerdict::Pass => JunitResult::Passed(Some(detail)),
        };
        JunitCase {
            name: row.id.clone(),
            seconds: row.seconds,
            ended,
        }
    };
    let suite = JunitSuite {
        name: choice.source.to_string(),
        classname: "tcpxctl.selftest".to_owned(),
        cases: rows.iter().map(case).collect(),
        ..JunitSuite::default()
    };
    suite.render()
}
