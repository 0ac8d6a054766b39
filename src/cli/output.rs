//! Printing: tables, errors, colour, and a quiet end when the reader of a pipe has left.
#![forbid(unsafe_code)]

use super::{Color, Common};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpx_words::error::Outcome;
use tcpx_words::units::{is_reordering, printable};
use textwrap::core::display_width;

/// Whether stderr is printed in colour.
pub(crate) fn colors(common: &Common) -> bool {
    takes_color(common, &io::stderr())
}

/// Whether stdout is printed in colour.
pub(crate) fn stdout_colors(common: &Common) -> bool {
    takes_color(common, &io::stdout())
}

fn takes_color(common: &Common, stream: &impl IsTerminal) -> bool {
    match common.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            stream.is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

/// Whether a write to stdout failed.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// Writes to stdout; a closed pipe ends quietly, as `head` expects.
pub(crate) fn print(text: &str) {
    // Text of logs may change the order in which a terminal shows it.
    let text = text.replace(is_reordering, "");
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        cut_short(&error);
    }
}

/// Reports once that stdout could not be written, and makes a success exit code 3. A reader
/// that has left is no error.
pub(crate) fn cut_short(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe && !IS_INCOMPLETE.swap(true, Ordering::Relaxed) {
        say(&format!("error: the output is incomplete: {error}\n"));
    }
}

/// The exit code: 3 instead of success if stdout could not be written completely.
pub(crate) fn ending(code: ExitCode) -> ExitCode {
    let is_cut_short = code == ExitCode::SUCCESS && IS_INCOMPLETE.load(Ordering::Relaxed);
    if is_cut_short {
        ExitCode::from(Outcome::NotRun.exit_code())
    } else {
        code
    }
}

/// Writes one JSON document to stdout.
pub(crate) fn print_json(document: &impl Serialize) {
    // Written while it is serialized: the document of a large log would take 10 MiB as text.
    let mut stdout = BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut stdout, document).map_err(io::Error::from);
    let mut ended = || stdout.write_all(b"\n").and_then(|()| stdout.flush());
    if let Err(error) = written.and_then(|()| ended()) {
        cut_short(&error);
    }
}

/// One JSON document as text; empty, with the reason on stderr, if it cannot be written as JSON.
pub(crate) fn json_text(document: &impl Serialize) -> String {
    match serde_json::to_string_pretty(document) {
        Ok(text) => format!("{text}\n"),
        Err(error) => {
            say(&format!("error: cannot write JSON: {error}\n"));
            String::new()
        }
    }
}

/// Writes to stderr, without control characters: names of files may have them.
pub(crate) fn say(text: &str) {
    say_in_color(&without_controls(text));
}

/// As [`say`], for text that moves the cursor or has colours, and no names as they are.
pub(crate) fn say_in_color(text: &str) {
    // stderr may be closed, and there is no other place for the text.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A path in a line of the terminal.
pub(crate) fn path_text(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// Writes one JSON document to stdout as one line, which also fits the end of a stream of lines.
pub(crate) fn print_json_line(document: &impl Serialize) {
    match serde_json::to_string(document) {
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => say(&format!("error: cannot write JSON: {error}\n")),
    }
}

/// Prints what failed, and what to do, to stderr. A command that cannot go on returns a
/// `Failure` instead.
pub(crate) fn print_error(common: &Common, message: impl Display, next_step: Option<&str>) {
    print_labelled(common, ("error", AnsiColor::Red), message, next_step);
}

/// As [`print_error`], for what did not keep the command from its work.
pub(crate) fn print_warning(common: &Common, message: impl Display, next_step: Option<&str>) {
    print_labelled(common, ("warning", AnsiColor::Yellow), message, next_step);
}

fn print_labelled(
    common: &Common,
    (word, color): (&str, AnsiColor),
    message: impl Display,
    next_step: Option<&str>,
) {
    let (head, next) = match colors(common) {
        true => (color.on_default().bold(), AnsiColor::Cyan.on_default()),
        false => (Style::new(), Style::new()),
    };
    let mut stderr = io::stderr().lock();
    let message = message_lines(&message.to_string());
    let _ = writeln!(stderr, "{head}{word}{head:#}: {message}");
    if let Some(step) = next_step {
        let step = printable(step);
        let _ = writeln!(stderr, "  {next}next{next:#}: {step}");
    }
}

/// A message without control characters except line ends and tabs: names of files may have them.
fn without_controls(text: &str) -> String {
    text.replace(
        |letter: char| {
            letter.is_control() && !matches!(letter, '\n' | '\t') || is_reordering(letter)
        },
        "",
    )
}

/// A message without control characters. Its further lines are marked: a name of a file in it
/// may have line ends, and must not look like a line of this program.
fn message_lines(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(printable).collect();
    lines.join(CONTINUED)
}

/// Between two lines of a message.
const CONTINUED: &str = "\n  | ";

/// Rows under a header line that starts with `#`, columns aligned: numbers to
/// the right, words to the left.
pub(crate) struct Columns {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Column names.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// One row, as many cells as columns.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// The table as text.
    pub(crate) fn render(&self) -> String {
        let columns: Vec<(usize, bool)> = (0..self.header.len())
            .map(|column| (self.width(column), self.is_numeric(column)))
            .collect();
        let mut text = line("#", &self.header, &columns);
        for row in &self.rows {
            text.push_str(&line(" ", row, &columns));
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells
            .chain(self.header.get(column))
            .map(|cell| display_width(cell))
            .max()
            .unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        let number = |cell: &String| {
            cell.is_empty()
                || cell == "-"
                || cell
                    .trim_end_matches(|c: char| c.is_alphabetic() || c == '%')
                    .parse::<f64>()
                    .is_ok()
        };
        !self.rows.is_empty()
            && self
                .rows
                .iter()
                .filter_map(|row| row.get(column))
                .all(number)
    }
}

/// One line of cells, padded to the width of their columns: numbers on the left, words on the
/// right.
fn line(start: &str, cells: &[String], columns: &[(usize, bool)]) -> String {
    let mut text = start.to_owned();
    for (cell, (width, is_numeric)) in cells.iter().zip(columns) {
        // Not by `{:width$}`, which panics at widths beyond 65535.
        let padding = " ".repeat(width.saturating_sub(display_width(cell)));
        let (before, after) = if *is_numeric {
            (padding.as_str(), "")
        } else {
            ("", padding.as_str())
        };
        text.extend(["  ", before, cell, after]);
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_lines_and_no_escapes() {
        let message = "a\u{1b}[2J.log\u{7}:\n\tb\u{9b}1m";
        assert_eq!(without_controls(message), "a[2J.log:\n\tb1m");
    }

    #[test]
    fn a_name_in_a_message_begins_no_line() {
        let forged = "cannot read a\nerror: b\r\n  next: c\u{1b}[1m\rd";
        assert_eq!(
            message_lines(forged),
            "cannot read a\n  | error: b\n  |   next: c[1m d"
        );
    }

    #[test]
    fn numbers_go_right_and_words_left() {
        let mut columns = Columns::new(&["nic", "mtu"]);
        columns.row(["eth0".into(), "1500".into()]);
        columns.row(["lo".into(), "-".into()]);
        assert_eq!(
            columns.render(),
            "#  nic    mtu\n   eth0  1500\n   lo       -\n"
        );
    }

    #[test]
    fn a_cell_of_any_width_is_a_cell() {
        let mut columns = Columns::new(&["metric", "µs"]);
        columns.row(["日本".into(), "1".into()]);
        columns.row(["x".repeat(70_000), "22".into()]);
        let text = columns.render();
        let widths: Vec<usize> = text.lines().map(display_width).collect();
        assert_eq!(widths, [70_007, 70_007, 70_007]);
        assert!(text.contains("日本  "), "as wide as four letters");
    }
}
