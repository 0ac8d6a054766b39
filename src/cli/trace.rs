//! `tcpxctl trace`: exports a recording as a timeline for other tools.
//!
//! ```console
//! $ tcpxctl trace reports/20261120T101500Z-4conn --out 4conn.json
//! # trace : 7312 events of 18 channels in 4conn.json (2048 older events were overwritten)
//! # next : open it at https://ui.perfetto.dev
//! ```
//!
//! The recording is a run folder, a bundle, a recorder file of `tcpxctl tap`, or the id of a
//! process that writes a recorder now. Formats: `perfetto` (Chrome's JSON
//! trace format), `csv` and `jsonl` (one event per row or line).
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print_json, print_warning, say};
use super::signals::end_soon;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tcpx_recorder::format::Role;
use tcpx_report::write_whole_unless;
use tcpx_trace::{Trace, open, write_csv, write_jsonl, write_perfetto};
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folder, bundle, recorder file or process id.
    #[arg(value_name = "RUN|FILE|PID")]
    what: String,
    /// Format of the timeline.
    #[arg(long, value_enum, default_value_t = Format::Perfetto)]
    format: Format,
    /// File to write [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Format {
    /// Chrome's JSON trace format; opens at <https://ui.perfetto.dev>.
    Perfetto,
    /// One row per event.
    Csv,
    /// One JSON object per event.
    Jsonl,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TracedDocument<'a> {
    schema: &'static str,
    format: Format,
    out: &'a Path,
    nodes: Vec<&'a str>,
    channels: usize,
    events: usize,
    overwritten: u64,
    /// Events that should be in the recording, and are cut off or not valid.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable: u64,
    /// Files of the run that cannot be read, or only in part, in words.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    damaged: &'a [String],
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let stop = end_soon()?;
    let trace = open(&arguments.what)?;
    let damaged = trace.damaged.iter();
    damaged.for_each(|what| print_warning(common, what, None));
    let format = arguments.format;
    let written = match &arguments.out {
        Some(out) => {
            write_whole_unless(out, &stop, |to| write(&trace, format, to))?;
            tell(common, arguments, &trace, out);
            return Ok(ending(&trace));
        }
        None => {
            let mut stdout = BufWriter::with_capacity(1 << 20, io::stdout().lock());
            write(&trace, format, &mut stdout)
        }
    };
    match written {
        // The reader of stdout may have left, with all that it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write stdout: {error}");
            return Err(Failure::new(Outcome::NotRun, message).in_result());
        }
        _ => {}
    }
    Ok(ending(&trace))
}

/// A timeline without a single event, because no recorder file of the run can be read, is no success.
fn ending(trace: &Trace) -> Ending {
    match trace.workers.is_empty() && trace.unreadable_recorders > 0 {
        true => Outcome::NotRun.into(),
        false => Ending::PASSED,
    }
}

fn write(trace: &Trace, format: Format, to: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Perfetto => write_perfetto(trace, to),
        Format::Csv => write_csv(trace, to),
        Format::Jsonl => write_jsonl(trace, to),
    }?;
    to.flush()
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// In parentheses, which events the recording had, and the trace has not.
fn lacking(overwritten: u64, unreadable: u64) -> String {
    let gone = (overwritten > 0).then(|| format!("{overwritten} older events were overwritten"));
    let cut = (unreadable > 0).then(|| format!("{unreadable} events are cut off or damaged"));
    let words: Vec<String> = gone.into_iter().chain(cut).collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    }
}

fn tell(common: &Common, arguments: &Arguments, trace: &Trace, out: &Path) {
    let channels = trace
        .workers
        .iter()
        .flat_map(|worker| &worker.channels)
        .filter(|channel| channel.role != Role::Listen)
        .count();
    let (events, overwritten) = (trace.events(), trace.overwritten());
    let unreadable = trace.unreadable();
    if common.json {
        let nodes = trace
            .workers
            .iter()
            .map(|worker| worker.name.as_str())
            .collect();
        let format = arguments.format;
        return print_json(&TracedDocument {
            schema: "tcpxctl.traced/1",
            format,
            out,
            nodes,
            channels,
            events,
            overwritten,
            unreadable,
            damaged: &trace.damaged,
        });
    }
    let lacks = lacking(overwritten, unreadable);
    say(&format!(
        "# trace : {} of {} in {}{lacks}\n",
        counted(events, "event"),
        counted(channels, "channel"),
        path_text(out)
    ));
    if trace.workers.is_empty() {
        let lacks = match trace.unreadable_recorders {
            0 => "the run has no recorder file".to_owned(),
            torn => format!(
                "{} torn: no event can be shown",
                match torn {
                    1 => "the recorder file is".to_owned(),
                    several => format!("all {several} recorder files are"),
                }
            ),
        };
        let rest = match trace.samples.iter().all(|(_, samples)| samples.is_empty()) {
            true => "the timeline has nothing to show",
            false => "the timeline has its samples only",
        };
        say(&format!("# note : {lacks}; {rest}\n"));
    }
    if arguments.format == Format::Perfetto {
        say("# next : open it at https://ui.perfetto.dev\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_cut_off_are_not_told_as_overwritten() {
        assert_eq!(lacking(0, 0), "");
        assert_eq!(lacking(7, 0), " (7 older events were overwritten)");
        assert_eq!(
            lacking(7, 3),
            " (7 older events were overwritten, 3 events are cut off or damaged)"
        );
    }
}
