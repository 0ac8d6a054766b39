//! What programs with their own window did, as text: verdicts, programs, results.
#![forbid(unsafe_code)]

use super::output::Columns;
use std::fmt::Write;
use tcpx_logs::{HarnessProgram, HarnessReport, HarnessResult, HarnessState, HarnessVerdict};
use tcpx_words::units::ByteCount;

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
            one.phase.to_owned(),
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
    if results.is_empty() {
        return;
    }
    text.push_str("# results : GB/s are 10^9 bytes per second, without the first iteration; \"printed\" is the program's own mean, in GiB/s\n");
    let header = [
        "role",
        "gpu",
        "size",
        "iterations",
        "first ms",
        "median ms",
        "GB/s",
        "printed",
        "note",
    ];
    let mut columns = Columns::new(&header);
    let mut sorted: Vec<&HarnessResult> = results.iter().collect();
    sorted.sort_by_key(|one| (one.gpu, one.role, one.program));
    let number = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
    };
    for one in sorted.into_iter().take(rows) {
        columns.row([
            one.role.map_or("-", |role| role.name()).to_owned(),
            one.gpu
                .map_or_else(|| "-".to_owned(), |gpu| gpu.to_string()),
            one.bytes
                .map_or_else(|| "-".to_owned(), |bytes| ByteCount(bytes).to_string()),
            one.wanted.map_or_else(
                || some(one.iterations),
                |wanted| format!("{} of {wanted}", one.iterations),
            ),
            number(one.first_ms, 1),
            number(one.median_ms, 3),
            number(one.gb_per_s, 3),
            number(one.printed, 2),
            one.wrong
                .map_or_else(String::new, |wrong| format!("wrong: {wrong}")),
        ]);
    }
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
