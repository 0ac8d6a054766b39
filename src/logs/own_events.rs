//! The events of a run, `events.jsonl`: only lines in which the plugin or a program speaks are log
//! lines. Every other line is passed as an empty one, so that the numbers of lines stay.
#![forbid(unsafe_code)]

use super::input::{LineSource, read_lines};
use super::shape::OWN_EVENT;
use memchr::{memchr, memmem};
use std::io::{self, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of an event is within this many bytes of its line: before it come the time, the node and
/// the pair.
const FRONT: usize = 512;
/// Bytes that are read from the source at once.
const PART: usize = 64 * 1024;
/// Keys of the events that hold a line of the plugin or of a program. A text has its quotes escaped,
/// so it cannot look like a key.
const KINDS: [&[u8]; 2] = [br#""plugin-line":{"#, br#""output":{"#];

/// A log, of which only the log lines are passed if it begins as the events of a run do. `left_out`
/// counts the others.
///
/// # Errors
/// The source cannot be read.
pub(super) fn log_lines<'a>(
    mut source: impl Read + Send + 'a,
    left_out: &'a AtomicU64,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut head = Vec::with_capacity(OWN_EVENT.len());
    let size = OWN_EVENT.len() as u64;
    source.by_ref().take(size).read_to_end(&mut head)?;
    let is_of_run = head == OWN_EVENT;
    let source = Cursor::new(head).chain(source);
    Ok(match is_of_run {
        true => Box::new(LogEvents::new(source, left_out)),
        false => Box::new(source),
    })
}

/// What becomes of the rest of a line.
#[derive(Clone, Copy)]
enum Line {
    /// Its kind is not known yet.
    Begins,
    Passes,
    IsLeftOut,
}

struct LogEvents<'a, R> {
    source: R,
    left_out: &'a AtomicU64,
    line: Line,
    /// The start of a line whose kind is not known.
    front: Vec<u8>,
    part: Vec<u8>,
    out: Cursor<Vec<u8>>,
}

impl<'a, R: Read> LogEvents<'a, R> {
    fn new(source: R, left_out: &'a AtomicU64) -> Self {
        Self {
            source,
            left_out,
            line: Line::Begins,
            front: Vec::with_capacity(FRONT),
            part: vec![0; PART],
            out: Cursor::new(Vec::new()),
        }
    }

    /// Takes a piece of a line, which may be its end.
    fn take(&mut self, mut piece: &[u8], is_end: bool, out: &mut Vec<u8>) {
        if let Line::Begins = self.line {
            let more = piece.len().min(FRONT - self.front.len());
            self.front.extend_from_slice(&piece[..more]);
            piece = &piece[more..];
            if is_end || self.front.len() >= FRONT {
                self.decide(out);
            }
        }
        if let Line::Passes = self.line {
            out.extend_from_slice(piece);
        }
        if is_end {
            let is_left_out = matches!(self.line, Line::IsLeftOut);
            let count = u64::from(is_left_out);
            self.left_out.fetch_add(count, Ordering::Relaxed);
            out.push(b'\n');
            self.line = Line::Begins;
        }
    }

    fn decide(&mut self, out: &mut Vec<u8>) {
        let has = |kind: &&[u8]| memmem::find(&self.front, kind).is_some();
        // Others may have written lines of their own behind the events.
        let is_log = !self.front.starts_with(OWN_EVENT) || KINDS.iter().any(has);
        self.line = match is_log {
            true => {
                out.extend_from_slice(&self.front);
                Line::Passes
            }
            false => Line::IsLeftOut,
        };
        self.front.clear();
    }
}

impl<R: Read> LineSource for LogEvents<'_, R> {
    fn out(&mut self) -> &mut Cursor<Vec<u8>> {
        &mut self.out
    }

    fn fill(&mut self) -> io::Result<bool> {
        let size = self.source.read(&mut self.part)?;
        let part = std::mem::take(&mut self.part);
        let mut out = std::mem::take(&mut self.out).into_inner();
        out.clear();
        let mut rest = part.get(..size).unwrap_or_default();
        while !rest.is_empty() {
            let end = memchr(b'\n', rest);
            let piece = &rest[..end.unwrap_or(rest.len())];
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
            self.take(piece, end.is_some(), &mut out);
        }
        if size == 0 {
            self.decide(&mut out);
        }
        (self.part, self.out) = (part, Cursor::new(out));
        Ok(size > 0)
    }
}

impl<R: Read> Read for LogEvents<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_lines(self, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives a few bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = buffer.len().min(self.1);
            self.0.read(&mut buffer[..size])
        }
    }

    fn passed(text: &str, at_once: usize) -> String {
        counted(text, at_once).0
    }

    /// What passes, and the number of lines that do not.
    fn counted(text: &str, at_once: usize) -> (String, u64) {
        let (mut all, left_out) = (String::new(), AtomicU64::new(0));
        let mut lines = log_lines(Slow(text.as_bytes(), at_once), &left_out).expect("read");
        lines.read_to_string(&mut all).expect("text");
        drop(lines);
        (all, left_out.into_inner())
    }

    #[test]
    fn events_that_are_no_log_lines_become_empty_lines() {
        let plugin = r#"{"at":"2026-11-20T14:07:30.522Z","ms":19.1,"node":0,"plugin-line":{"level":2,"text":"WARN x"}}"#;
        let said =
            r#"{"at":"2026-11-20T14:07:30.522Z","ms":1,"output":{"stream":"stderr","text":"y"}}"#;
        let exited = r#"{"at":"2026-11-20T14:07:30.522Z","ms":20.1,"node":0,"exited":{"code":0,"note":"\"output\":{ failed"}}"#;
        let long = exited.replace("failed", &"failed ".repeat(1000));
        let long_line = plugin.replace("WARN x", &"WARN x ".repeat(1000));
        let all = [
            exited,
            plugin,
            &long,
            said,
            &long_line,
            "another line",
            exited,
        ];
        let expected = ["", plugin, "", said, &long_line, "another line", ""];
        for at_once in [1, 7, 100, 1 << 20] {
            assert_eq!(passed(&all.join("\n"), at_once), expected.join("\n"));
        }
        // A line without an end is none.
        assert_eq!(counted(&all.join("\n"), 7).1, 2);
        let torn = format!("{exited}\n{}", &plugin[..plugin.len() - 3]);
        assert!(passed(&torn, 5).ends_with("WARN x"), "{}", passed(&torn, 5));
    }

    #[test]
    fn other_text_passes_unchanged() {
        for text in [
            "",
            "{\"a",
            "node0:71:71 [0] NCCL INFO a line\n{\"at\":\"x\"}\n",
        ] {
            assert_eq!(passed(text, 3), text);
        }
    }
}
