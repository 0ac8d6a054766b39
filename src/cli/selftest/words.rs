//! Renders rows as a table and as JUnit XML, and has the details of rows without a result.
#![forbid(unsafe_code)]

use super::Row;
use std::fmt::Write;
use tcpx_coord::Loaded;
use tcpx_coord::{Calls, TaskError};
use tcpx_engine::contract::ContractVerdict;
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_report::suite::{JunitCase, JunitResult, JunitSuite};
use tcpx_words::error::Outcome;

/// Verdict and detail of a row whose worker ended before it sent a result.
pub(super) fn verdict_of_error(error: &TaskError) -> (ContractVerdict, String) {
    let verdict = match error.outcome {
        Outcome::PluginDied => ContractVerdict::Crashed,
        Outcome::Interrupted => return interrupted(),
        // The row asks more of a slow plugin than its time allows, which is no failure of the plugin.
        _ if error.calls == Calls::Return => {
            let detail = format!(
                "{}: a limit of the row, not of the plugin; give it more with --timeout",
                error.message
            );
            return (ContractVerdict::NotSupported, detail);
        }
        _ => ContractVerdict::Fail,
    };
    (verdict, error.message.clone())
}

/// Verdict and detail of the row that the user interrupted.
pub(super) fn interrupted() -> (ContractVerdict, String) {
    (
        ContractVerdict::Interrupted,
        "interrupted by the user; later rows were not run".into(),
    )
}

/// Verdict and detail of a row if no table is usable.
pub(super) fn no_table() -> (ContractVerdict, String) {
    (ContractVerdict::NotSupported, NO_TABLE.into())
}

const NO_TABLE: &str = "no table of the library is usable";

fn count(rows: &[Row], verdict: ContractVerdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// `1 device`, `4 devices`.
pub(super) fn devices(count: usize) -> String {
    format!("{count} device{}", if count == 1 { "" } else { "s" })
}

/// The lines above the rows: the plugin, its table, and the column heads. `width` is that of the
/// longest row id.
pub(super) fn head(choice: &ChosenPlugin, loaded: Option<&Loaded>, width: usize) -> String {
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
    text + &column_heads(width)
}

/// The lines above the rows of an endpoint.
pub(super) fn head_of_endpoint(endpoint: &str, python: &str, width: usize) -> String {
    format!("# Endpoint : {endpoint} ({python})\n") + &column_heads(width)
}

fn column_heads(width: usize) -> String {
    format!("#  {:<13}  {:<width$}  detail\n", "verdict", "row")
}

/// One row as text. A row that failed or crashed has a second line with its requirement.
pub(super) fn line(row: &Row, width: usize) -> String {
    let mut text = format!(
        "   {:<13}  {:<width$}  {}\n",
        row.verdict, row.id, row.detail
    );
    if is_bad(row) {
        let _ = writeln!(
            text,
            "   {:<13}  {:<width$}  required : {}",
            "", "", row.promise
        );
    }
    text
}

pub(super) fn is_bad(row: &Row) -> bool {
    matches!(
        row.verdict,
        ContractVerdict::Fail | ContractVerdict::Crashed
    )
}

/// The lines below the rows: causes that many rows share, limits of the plugin, and the number of
/// rows with each verdict.
pub(super) fn sums(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut printed = Vec::new();
    for row in rows.iter().filter(|row| is_bad(row)) {
        let same = rows
            .iter()
            .filter(|other| is_bad(other) && cause(other) == cause(row))
            .count();
        if same >= MANY && !printed.contains(&cause(row)) {
            printed.push(cause(row));
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
    let inapplicable = rows.iter().filter(|row| row.is_inapplicable()).count();
    if inapplicable > 0 {
        let _ = writeln!(
            text,
            "# TCPX : rows for TCPX only, not shown: {inapplicable} (--json has them)"
        );
    }
    let is_untried = |row: &&Row| row.detail == NO_TABLE && !row.is_inapplicable();
    let untried = rows.iter().filter(is_untried).count();
    let _ = writeln!(
        text,
        "# {} passed, {} failed, {} crashed, {} not supported{}{}",
        count(rows, ContractVerdict::Pass),
        count(rows, ContractVerdict::Fail),
        count(rows, ContractVerdict::Crashed),
        count(rows, ContractVerdict::NotSupported) - inapplicable,
        match untried {
            0 => String::new(),
            rows => format!(", of which {rows} were not tried: {NO_TABLE}"),
        },
        match rows
            .last()
            .filter(|last| last.verdict == ContractVerdict::Interrupted)
        {
            Some(last) => format!("; interrupted in {}, later rows were not run", last.id),
            None => String::new(),
        },
    );
    text
}

/// The detail without the plugin's log line, which may differ from row to row.
fn cause(row: &Row) -> &str {
    row.detail
        .split("; its last WARN: ")
        .next()
        .unwrap_or_default()
}

/// Minimum number of failed rows with the same detail that are summarized as one cause.
const MANY: usize = 3;

/// Rows whose detail is a limit of the plugin, which the summary repeats.
const LIMITS: [&str; 5] = [
    "message",
    "registration",
    "connections",
    "receives",
    "sends",
];

/// JUnit XML with one case per row; rows that `tested` does not support are skipped.
pub(super) fn junit(tested: &str, rows: &[Row]) -> String {
    let case = |row: &Row| {
        let detail = if is_bad(row) {
            format!("{}; required: {}", row.detail, row.promise)
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
        name: tested.to_owned(),
        classname: "tcpxctl.selftest".to_owned(),
        cases: rows.iter().map(case).collect(),
        ..JunitSuite::default()
    };
    suite.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_counts_rows_as_they_are_shown() {
        let row = || Row::new("init".into(), "", no_table(), 0.0);
        let text = sums(&[row(), row()]);
        let sum = "# 0 passed, 0 failed, 0 crashed, 2 not supported, of which 2 were not tried: ";
        assert!(text.contains(sum), "{text}");
    }
}
