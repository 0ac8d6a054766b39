//! What programs with their own window did, as text: verdicts, programs, results.
#![forbid(unsafe_code)]

use super::output::Columns;
use std::fmt::Write;
use tcpx_logs::{HarnessProgram, HarnessReport, HarnessResult, HarnessState, HarnessVerdict};
use tcpx_report::columns::{PROGRAMS_NOTE, programs as programs_table};

/// Rows of a table without `--verbose`.
const ROWS: usize = 20;

pub(super) fn render(harness: &HarnessReport, verbose: bool) -> String {
    let rows = if verbose { usize::MAX } else { ROWS };
    let mut text = String::new();
    for one in harness.verdicts.iter().take(rows) {
        text.push_str(&verdict(one, &harness.programs));
    }
    more(harness.verdicts.len(), rows, "verdicts", &mut text);
    programs(&harness.programs, rows, &mut text);
    results(&harness.results, rows, &mut text);
    text
}

pub(super) fn verdict(verdict: &HarnessVerdict, programs: &[HarnessProgram]) -> String {
    let mut text = String::new();
    let names: Vec<&str> = verdict
        .programs
        .iter()
        .filter_map(|index| Some(programs.get(*index)?.name.as_str()))
        .collect();
    let names = names.join(", ");
    if verdict.state == HarnessState::Finished {
        let _ = writeln!(
            text,
            "# {} : {}, {names}",
            verdict.condition, verdict.summary
        );
    } else {
        let _ = writeln!(
            text,
            "{} {} : {names}",
            verdict.state.name().to_uppercase(),
            verdict.condition
        );
        let _ = writeln!(text, "  {}", verdict.summary);
        if let Some(turn) = verdict.turn {
            let _ = writeln!(text, "  turn : the {}'s", turn.name());
        }
        verdict
            .because
            .iter()
            .for_each(|fact| line("because", fact, &mut text));
    }
    for (number, step) in verdict.next_steps.iter().enumerate() {
        line(&format!("next {}", number + 1), step, &mut text);
    }
    verdict
        .cannot_tell
        .iter()
        .for_each(|gap| line("cannot tell", gap, &mut text));
    text
}

fn line(key: &str, value: &str, text: &mut String) {
    let _ = writeln!(text, "  {key} : {value}");
}

fn programs(programs: &[HarnessProgram], rows: usize, text: &mut String) {
    let header = [
        "program",
        "phase",
        "iterations",
        "posted",
        "done",
        "fullest window",
        "tests",
        "tests done",
        "last line",
    ];
    let mut columns = Columns::new(&header);
    for one in programs.iter().take(rows) {
        let silent = one.silent_seconds.filter(|seconds| *seconds >= 1.0);
        let silent = silent.map_or_else(String::new, |seconds| {
            format!(", {seconds:.0} s before the end")
        });
        columns.row([
            one.name.clone(),
            one.phase.to_string(),
            iterations(one),
            some(one.posted),
            some(one.done),
            window(one),
            some(one.tests.logged),
            if one.tests.logged > 0 {
                one.tests.done.to_string()
            } else {
                some(0)
            },
            format!("{}{silent}", one.last.line),
        ]);
    }
    text.push_str(&columns.render());
    more(programs.len(), rows, "programs", text);
}

/// `3 of 20`: those that ended.
fn iterations(program: &HarnessProgram) -> String {
    let ended = program
        .iterations
        .ended
        .map_or(0, |ended| u64::from(ended) + 1);
    let wanted = program
        .iterations
        .wanted
        .map_or_else(String::new, |wanted| format!(" of {wanted}"));
    format!("{ended}{wanted}")
}

/// A count of lines; without a line nothing is known.
fn some(count: u64) -> String {
    if count > 0 {
        count.to_string()
    } else {
        "-".to_owned()
    }
}

fn window(program: &HarnessProgram) -> String {
    let fullest = program
        .channels
        .first()
        .and_then(|one| Some((one.in_flight, one.size?)));
    fullest.map_or_else(|| "-".to_owned(), |(count, size)| format!("{count}/{size}"))
}

fn results(results: &[HarnessResult], rows: usize, text: &mut String) {
    let Some(table) = programs_table(results) else {
        return;
    };
    let _ = writeln!(text, "# results : {PROGRAMS_NOTE}");
    let mut columns = Columns::new(&table.heads);
    let shown = table.rows.into_iter().take(rows);
    shown.for_each(|row| columns.row(row));
    text.push_str(&columns.render());
    more(results.len(), rows, "results", text);
}

fn more(all: usize, rows: usize, what: &str, text: &mut String) {
    if all > rows {
        let _ = writeln!(
            text,
            "# and {} more {what} (--verbose, or --json)",
            all - rows
        );
    }
}
