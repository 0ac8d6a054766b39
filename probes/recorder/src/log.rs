//! Reads the plugin's log lines. The file is not trusted: control characters are replaced and
//! lengths are checked.
#![forbid(unsafe_code)]

use crate::format::{LOG_ENTRY_BYTES, log, log_place};
use crate::read::{Header, ReadError, Source, read_full};
use crate::words::Words;

/// A range of log lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLines {
    /// In order of their numbers, with gaps for missing lines.
    pub lines: Vec<LogEntry>,
    /// Missing lines between the first requested and `next`: overwritten, not written for lack
    /// of memory, or being written.
    pub missing: u64,
    /// Number of the line with which to continue.
    pub next: u64,
}

/// One log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Counted from 0.
    pub number: u64,
    /// When it was logged, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Log level: 2 WARN, 3 INFO, ...
    pub level: i32,
    /// Subsystem bits.
    pub flags: u64,
    /// The `file` argument of the log call, a function name with TCPX; control characters
    /// replaced.
    pub function: String,
    /// Source line.
    pub line: i32,
    /// The stored part of the message; control characters replaced.
    pub text: String,
    /// Bytes of the whole message.
    pub text_bytes: u32,
    /// Kernel thread id.
    pub thread: u32,
}

impl LogEntry {
    fn decode(words: Words<'_>, number: u64) -> Option<Self> {
        if words.u64(log::SEQUENCE) != number.wrapping_add(1) {
            return None;
        }
        let function = usize::from(words.u16(log::FUNCTION_BYTES));
        Some(Self {
            number,
            at_ns: words.u64(log::AT_NS),
            level: words.u32(log::LEVEL) as i32,
            flags: words.u64(log::FLAGS),
            function: words.text(log::WORDS, function),
            line: words.u32(log::LINE) as i32,
            text: words.text(log::WORDS + function, words.u16(log::TEXT_BYTES).into()),
            text_bytes: words.u32(log::TEXT_WAS),
            thread: words.u32(log::THREAD),
        })
    }
}

pub(crate) fn read_log(
    source: &impl Source,
    header: &Header,
    from: u64,
    max: usize,
) -> Result<LogLines, ReadError> {
    let (entries, kept) = header.log_entries;
    let written = header.log_lines;
    let mut page = LogLines {
        lines: Vec::new(),
        missing: 0,
        next: from.min(written),
    };
    // The log holds a limited number of lines, however many were written.
    let oldest = written
        .saturating_sub(u64::from(entries - kept))
        .max(kept.into());
    while page.next < written && page.lines.len() < max {
        let number = page.next;
        if number >= kept.into() && number < oldest {
            page.missing += oldest - number;
            page.next = oldest;
            continue;
        }
        page.next += 1;
        match read_line(source, header, number)? {
            Some(line) => page.lines.push(line),
            None => page.missing += 1,
        }
    }
    Ok(page)
}

fn read_line(
    source: &impl Source,
    header: &Header,
    number: u64,
) -> Result<Option<LogEntry>, ReadError> {
    let (entries, kept) = header.log_entries;
    let Some(place) = log_place(number, entries, kept) else {
        return Ok(None);
    };
    let mut bytes = [0; LOG_ENTRY_BYTES];
    let offset = header
        .sections
        .log
        .saturating_add(place * LOG_ENTRY_BYTES as u64);
    let there = read_full(source, &mut bytes, offset)?;
    Ok(if there < LOG_ENTRY_BYTES {
        None
    } else {
        LogEntry::decode(Words(&bytes), number)
    })
}
