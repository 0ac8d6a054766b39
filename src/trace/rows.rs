//! Writes the trace as rows, one per event, as CSV or JSON lines. Samples and notes have no
//! rows; they are in `events.jsonl` of the run.
#![forbid(unsafe_code)]

use super::recorded::{ChannelTrace, Trace, WorkerTrace};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Write};
use tcpx_recorder::Event;
use tcpx_recorder::format::EventKind;

/// One event of a channel, or a call that belongs to no channel.
#[derive(Debug, Serialize)]
struct EventRow<'a> {
    node: &'a str,
    /// `send`, `recv`, `listen`, or `setup`.
    side: &'static str,
    channel: Option<usize>,
    device: &'a str,
    /// Nanoseconds since 1970 by the coordinator's clock.
    unix_ns: u64,
    event: &'static str,
    call: &'static str,
    request: Option<u32>,
    bytes: Option<u64>,
    code: i32,
    duration_ns: Option<u64>,
    thread: u8,
}

impl<'a> EventRow<'a> {
    fn new(worker: &'a WorkerTrace, channel: Option<&'a ChannelTrace>, event: &Event) -> Self {
        let is = |kinds: &[EventKind]| kinds.contains(&event.kind);
        let of_request = is(&[
            EventKind::Posted,
            EventKind::Done,
            EventKind::Unpacked,
            EventKind::Consumed,
        ]);
        Self {
            node: &worker.name,
            side: channel.map_or("setup", ChannelTrace::role_name),
            channel: channel.map(|channel| channel.index),
            device: channel.map_or("", |channel| &channel.device),
            unix_ns: worker.unix_ns(event.at_ns),
            event: event.kind.name(),
            call: event.call.name(),
            request: of_request.then_some(event.request),
            bytes: is(&[EventKind::Posted, EventKind::Done]).then_some(event.value),
            code: event.code,
            duration_ns: is(&[EventKind::Called]).then_some(event.value),
            thread: event.thread,
        }
    }
}

fn each_row<E>(
    trace: &Trace,
    mut write: impl FnMut(&EventRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for worker in &trace.workers {
        for event in &worker.setup.events {
            write(&EventRow::new(worker, None, event))?;
        }
        for channel in &worker.channels {
            for event in &channel.events.events {
                write(&EventRow::new(worker, Some(channel), event))?;
            }
        }
    }
    Ok(())
}

/// One JSON object per line.
///
/// # Errors
/// Writing failed.
pub fn write_jsonl(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let mut line = Vec::new();
    each_row(trace, |row| {
        line.clear();
        serde_json::to_writer(&mut line, row)?;
        line.push(b'\n');
        to.write_all(&line)
    })
}

const HEADER: &str =
    "node,side,channel,device,unix_ns,event,call,request,bytes,code,duration_ns,thread\n";

/// A header line, then one line per event.
///
/// # Errors
/// Writing failed.
pub fn write_csv(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    to.write_all(HEADER.as_bytes())?;
    each_row(trace, |row| {
        let number =
            |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        writeln!(
            to,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            cell(row.node),
            row.side,
            number(row.channel.map(|channel| channel as u64)),
            cell(row.device),
            row.unix_ns,
            row.event,
            row.call,
            number(row.request.map(u64::from)),
            number(row.bytes),
            row.code,
            number(row.duration_ns),
            row.thread,
        )
    })
}

/// A text as a CSV cell that no spreadsheet reads as a formula.
fn cell(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@']);
    if !formula && !text.contains(['"', ',', '\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let mark = if formula { "'" } else { "" };
    Cow::Owned(format!("\"{mark}{}\"", text.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_no_formula_and_no_separator() {
        for (text, expected) in [
            ("eth0", "eth0"),
            ("a,b", "\"a,b\""),
            ("=1+1", "\"'=1+1\""),
            ("x\"y", "\"x\"\"y\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
