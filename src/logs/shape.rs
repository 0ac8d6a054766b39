//! Splits a line into records: the headers of NCCL, launchers and collectors, and the
//! message.
//!
//! NCCL up to 2.25 writes `host:pid:tid [dev] function:line NCCL WARN message`, and INFO
//! without function and line; since 2.26 a time may precede it. A launcher adds a rank
//! (`[1,3]<stderr>:`, `[rank3]:`, `3: `), Ray a worker, kubectl a pod and a time, in any order;
//! a collector may have dropped host and process. So every part of the header is optional: the marker
//! ` NCCL WARN `, if present, separates header and message.
//!
//! A line holds several records if several ranks wrote at once; each marker starts one.
//!
//! Where the parts of a record are depends on what is a digit and not on its value, so that
//! lines that differ only in their numbers have one [`Layout`].
#![forbid(unsafe_code)]

use super::time::{self, Years};
use super::word::{find, has};
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memmem, memrchr};
use std::num::NonZeroU32;
use std::sync::LazyLock;

/// Longest header before a marker, in bytes.
const HEADER_MAX: usize = 1024;
/// Bytes on either side of a hit that are searched for the start and the end of its record.
/// NCCL cuts lines at 1 KiB; the limit keeps very long lines from being read repeatedly.
const RECORD_MAX: usize = 4096;
/// Longest path of a source file in a header, in bytes.
const SITE_MAX: usize = 256;
/// Longest prefix of a launcher or a collector, in bytes.
pub(super) const PREFIX_MAX: usize = 256;
/// Parts of a prefix before the rank: a pod, a time in two words, a stream.
const PREFIX_PARTS: usize = 6;
/// Digits of a rank, a process id or a line of a source.
const DIGITS_MAX: usize = 9;
const MARKER: &[u8; 10] = b"NCCL WARN ";
/// Marker of programs that pass their own logger to the plugin.
const OWN_LOGGER: &[u8] = b"[ncclNet:";

/// Start of a line of `events.jsonl`.
pub(super) const OWN_EVENT: &[u8] = br#"{"at":""#;

/// The level of a record, if the line has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// WARN.
    Warn,
    /// INFO.
    Info,
}

/// One record: header fields and message, each of them a part of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record<'a> {
    /// The prefix from the first text on that has the form of a time.
    time: Option<&'a [u8]>,
    /// The same for a time without a year.
    yearless: Option<&'a [u8]>,
    rank: Option<&'a [u8]>,
    gpu: Option<&'a [u8]>,
    /// Host name up to the first dot, as NCCL writes it.
    pub host: Option<&'a [u8]>,
    pid: Option<&'a [u8]>,
    level: Option<&'a [u8]>,
    site: Option<(&'a [u8], &'a [u8])>,
    /// The message, up to the end of the record.
    pub message: &'a [u8],
}

impl<'a> Record<'a> {
    /// Microseconds since 1970; a time without a zone is read as UTC.
    pub(super) fn time_us(&self, years: Years) -> Option<i64> {
        let time = self.time.and_then(time::find);
        time.or_else(|| time::yearless(self.yearless?, years))
    }

    /// The rank in the launcher's prefix.
    pub(super) fn rank(&self) -> Option<u32> {
        self.rank.map(value)
    }

    /// The GPU of the process, in NCCL's header.
    pub(super) fn gpu(&self) -> Option<u32> {
        self.gpu.map(value)
    }

    /// Process id.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid.map(value)
    }

    /// WARN, INFO, or neither.
    pub(super) fn level(&self) -> Option<Level> {
        match self.level? {
            b"WARN" | b"2" => Some(Level::Warn),
            b"INFO" | b"3" => Some(Level::Info),
            _ => None,
        }
    }

    /// Whether it has a field for the level, whatever that says.
    pub(super) fn has_level(&self) -> bool {
        self.level.is_some()
    }

    /// The function, without its arguments, and the line of the source.
    pub(super) fn site(&self) -> Option<(&'a [u8], u32)> {
        self.site.map(|(name, line)| (name, value(line)))
    }
}

/// A part of a line, as offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    /// One more than the end, so that a part which is not there takes no more room: thousands of layouts are kept.
    behind_end: NonZeroU32,
}

impl Span {
    /// Where `part`, which is a part of `line`, begins and ends.
    pub(super) fn of(line: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(line.as_ptr().addr());
        // A line is at most a block.
        let end = (start + part.len()) as u32;
        Self {
            start: start as u32,
            behind_end: NonZeroU32::MIN.saturating_add(end),
        }
    }

    fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn in_line(self, line: &[u8]) -> &[u8] {
        let end = self.behind_end.get() - 1;
        line.get(self.start()..end as usize).unwrap_or_default()
    }
}

/// Where the parts of a record are in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    time: Option<Span>,
    yearless: Option<Span>,
    rank: Option<Span>,
    gpu: Option<Span>,
    host: Option<Span>,
    pid: Option<Span>,
    level: Option<Span>,
    site: Option<(Span, Span)>,
    message: Span,
}

impl Layout {
    /// The layout of a record of `line`.
    pub(super) fn of(line: &[u8], record: &Record<'_>) -> Self {
        let span = |part: &[u8]| Span::of(line, part);
        Self {
            time: record.time.map(span),
            yearless: record.yearless.map(span),
            rank: record.rank.map(span),
            gpu: record.gpu.map(span),
            host: record.host.map(span),
            pid: record.pid.map(span),
            level: record.level.map(span),
            site: record.site.map(|(name, line)| (span(name), span(line))),
            message: span(record.message),
        }
    }

    /// The record of a line with this layout.
    pub(super) fn record<'a>(&self, line: &'a [u8]) -> Record<'a> {
        let part = |span: Span| span.in_line(line);
        Record {
            time: self.time.map(part),
            yearless: self.yearless.map(part),
            rank: self.rank.map(part),
            gpu: self.gpu.map(part),
            host: self.host.map(part),
            pid: self.pid.map(part),
            level: self.level.map(part),
            site: self.site.map(|(name, line)| (part(name), part(line))),
            message: part(self.message),
        }
    }
}

static MARKER_AFTER: LazyLock<Finder> = LazyLock::new(|| Finder::new(" NCCL "));
static NAMED_RANK: LazyLock<Finder> = LazyLock::new(|| Finder::new("[rank"));
static OWN_LOGGER_IN: LazyLock<Finder> = LazyLock::new(|| Finder::new(OWN_LOGGER));

/// The record around offset `place` of a line, and the offsets of its message.
pub(super) fn record_at(line: &[u8], place: usize) -> (Record<'_>, usize, usize) {
    let place = place.min(line.len());
    let marker = marker_before(line, place).or_else(|| marker_of_header(line, place));
    let start = marker.map_or(0, |(at, _)| at + MARKER.len());
    let end = next_header(line, start.max(place)).unwrap_or(line.len());
    let mut record = Record {
        message: &line[start..end],
        ..Record::default()
    };
    prefix(line, &mut record);
    match marker {
        Some((at, level)) => {
            record.level = Some(level);
            header(&line[at.saturating_sub(HEADER_MAX)..at], &mut record);
            record.host = record.host.map(|host| whole_host(line, host));
            if record.time.is_none() {
                let header = record.host.map_or(at, |host| Span::of(line, host).start());
                record.yearless = yearless(&line[..header.min(PREFIX_MAX)]);
            }
        }
        None if line.starts_with(OWN_EVENT) => {
            own_event(&line[..line.len().min(RECORD_MAX)], &mut record)
        }
        None => {
            own_logger(line, &mut record);
            if record.level.is_none() {
                torch(line, &mut record);
            }
            if record.host.is_none() && record.rank.is_none() {
                ucx(line, &mut record);
            }
        }
    }
    (record, start, end)
}

/// The last marker that starts at or before `place`, with its offset.
fn marker_before(line: &[u8], place: usize) -> Option<(usize, &[u8])> {
    let from = place.saturating_sub(RECORD_MAX);
    let mut end = line.len().min(place + MARKER.len());
    // Search for the rarest byte of the marker: a backward search for several bytes is not
    // vectorized.
    while let Some(last) = memrchr(b'L', &line[from..end]) {
        end = from + last;
        if let Some(at) = end.checked_sub(3).filter(|at| (from..=place).contains(at))
            && let Some(level) = level(&line[at..])
        {
            return Some((at, level));
        }
    }
    None
}

/// The marker of the header that `place` is in: `transport/net_ib.cc:77 NCCL WARN `.
fn marker_of_header(line: &[u8], place: usize) -> Option<(usize, &[u8])> {
    let rest = &line[place..line.len().min(place + SITE_MAX)];
    let at = MARKER_AFTER.find(rest)?;
    let level = level(&rest[at + 1..])?;
    // A speaker between the two starts another record.
    speaker(&rest[..at])
        .is_none()
        .then_some((place + at + 1, level))
}

/// The level of a text that starts with a marker.
fn level(text: &[u8]) -> Option<&[u8]> {
    let marker: &[u8; MARKER.len()] = text.first_chunk()?;
    matches!(marker, b"NCCL WARN " | b"NCCL INFO ").then(|| &marker[5..9])
}

/// Start of the header of a later record in the same line.
fn next_header(line: &[u8], from: usize) -> Option<usize> {
    let rest = &line[from..line.len().min(from + RECORD_MAX)];
    let at = MARKER_AFTER
        .find_iter(rest)
        .find(|at| level(&rest[at + 1..]).is_some())?;
    let (_, start, _) = speaker(&rest[..at])?;
    Some(from + start)
}

/// Parses `... host:pid:tid [dev] function:line `.
fn header<'a>(text: &'a [u8], record: &mut Record<'a>) {
    if let Some(((host, pid), _, end)) = speaker(text) {
        (record.host, record.pid) = (Some(host), Some(pid));
        let open = memrchr(b'[', &text[..end]).map_or(end, |open| open + 1);
        record.gpu = text[open..end]
            .strip_suffix(b"]")
            .filter(|gpu| is_number(gpu));
        record.site = site(&text[end..]);
    } else {
        let after = memchr(b']', text)
            .filter(|_| text.starts_with(b"["))
            .map_or(0, |at| at + 1);
        record.site = site(&text[after..]);
    }
}

/// The host of a header, without what is left of another process's line in front of it: `a:71a:70:80` is `a` where the
/// line begins with a header of that host. Digits are taken as equal, as they are in the form of a line.
fn whole_host<'a>(line: &[u8], host: &'a [u8]) -> &'a [u8] {
    let first = &line[..memchr(b':', line).unwrap_or_default()];
    let Some(torn) = host.len().checked_sub(first.len()) else {
        return host;
    };
    let is_same =
        |(one, other): (&u8, &u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    let ends_so = host[torn..].iter().zip(first).all(is_same);
    if !first.is_empty() && torn > 0 && ends_so && begins_as_nccl(line) {
        &host[torn..]
    } else {
        host
    }
}

/// Bytes of a line in which UCX names its process.
const UCX_MAX: usize = 160;

/// Parses `[1795162444.829711] [host:pid:thread]  file.c:line`, or `[host:pid:0:thread] file.c:line`, as UCX writes them.
fn ucx<'a>(line: &'a [u8], record: &mut Record<'a>) {
    let text = &line[..line.len().min(UCX_MAX)];
    let is_time = |inner: &[u8]| {
        inner
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    let bracket = |text: &'a [u8]| {
        let inner = text.strip_prefix(b"[")?;
        let end = memchr(b']', inner)?;
        Some((&inner[..end], inner[end + 1..].strip_prefix(b" ")?))
    };
    let Some((mut who, mut rest)) = bracket(text) else {
        return;
    };
    if is_time(who) {
        let Some(next) = bracket(rest) else {
            return;
        };
        (who, rest) = next;
    }
    let mut parts = who.split(|byte| *byte == b':');
    let (Some(host), Some(pid), Some(_thread)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let pid = pid.trim_ascii_end();
    let rest = rest.trim_ascii_start();
    let source = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_source = has!(source, b".c:");
    if host.first().is_some_and(u8::is_ascii_alphabetic)
        && is_number(pid)
        && (is_source || rest.starts_with(b"Caught signal "))
    {
        // With a process too it would count as a line of NCCL.
        record.host = Some(host);
    }
}

/// Host and process id.
pub(super) type Process<'a> = (&'a [u8], &'a [u8]);
pub(super) type Speaker<'a> = (Process<'a>, usize, usize);

/// The last `host:pid:tid [dev]`: who, where it begins, where it ends.
pub(super) fn speaker(text: &[u8]) -> Option<Speaker<'_>> {
    let mut end = text.len();
    while let Some(open) = memrchr(b'[', &text[..end]) {
        let before = text[..open].strip_suffix(b" ");
        if let Some(close) = device_end(&text[open + 1..])
            && let Some((who, start)) = before.and_then(host_pid_tid)
        {
            return Some((who, start, open + 1 + close));
        }
        end = open;
    }
    None
}

/// Whether a text begins with the header of one of NCCL's lines: `host:pid:tid [dev] function:line NCCL WARN `.
pub(super) fn begins_as_nccl(text: &[u8]) -> bool {
    let front = &text[..text.len().min(HEADER_MAX)];
    let word = &front[..memchr(b' ', front).unwrap_or_default()];
    host_pid_tid(word).is_some_and(|(_, start)| start == 0)
        && MARKER_AFTER
            .find_iter(front)
            .any(|at| level(&front[at + 1..]).is_some())
}

/// The length of `3]`, or of `-1]` for no device.
fn device_end(text: &[u8]) -> Option<usize> {
    let digits = text
        .iter()
        .take(6)
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
        .count();
    (digits > 0 && text.get(digits) == Some(&b']')).then_some(digits + 1)
}

fn host_pid_tid(text: &[u8]) -> Option<(Process<'_>, usize)> {
    let (rest, _tid) = number_after_colon(text)?;
    let (rest, pid) = number_after_colon(rest)?;
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let host = rest
        .iter()
        .rev()
        .take(255)
        .take_while(|byte| name(byte))
        .count();
    (host > 0).then(|| ((&rest[rest.len() - host..], pid), rest.len() - host))
}

/// The text before `:123`, and the number.
fn number_after_colon(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = text
        .iter()
        .rev()
        .take(11)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (rest, digits) = text.split_at(text.len() - digits);
    Some((
        rest.strip_suffix(b":")?,
        Some(digits).filter(|digits| is_number(digits))?,
    ))
}

/// ` tcpxResult_t tcpxCommProgress(tcpxComm*):1238 `: the name, and 1238.
pub(super) fn site(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, line) = number_after_colon(text.trim_ascii())?;
    let name = function(rest);
    (!name.is_empty()).then_some((name, line))
}

/// The bare name of a function without its type and arguments, or of a file without its
/// path.
fn function(pretty: &[u8]) -> &[u8] {
    let pretty = memchr(b'(', pretty).map_or(pretty, |at| &pretty[..at]);
    let start = pretty
        .iter()
        .rposition(|byte| matches!(byte, b' ' | b'/' | b'*' | b'&'))
        .map_or(0, |at| at + 1);
    &pretty[start..]
}

/// `[ncclNet:2] function:line message`.
fn own_logger<'a>(line: &'a [u8], record: &mut Record<'a>) {
    let front = &line[..line.len().min(HEADER_MAX)];
    let Some(at) = OWN_LOGGER_IN.find(front) else {
        return;
    };
    let rest = &line[at + OWN_LOGGER.len()..];
    let Some((level, rest)) = rest.split_at_checked(1) else {
        return;
    };
    record.level = Some(level);
    let Some(rest) = rest.strip_prefix(b"] ") else {
        return;
    };
    if let Some(end) = site_end(rest) {
        record.site = site(&rest[..end]);
        record.message = rest[end..].trim_ascii_start();
    }
}

/// A plugin's line in `events.jsonl`. The text keeps its JSON escapes.
fn own_event<'a>(line: &'a [u8], record: &mut Record<'a>) {
    let value = |key: &[u8]| {
        let rest = &line[memmem::find(line, key)? + key.len()..];
        let end = memchr_iter(b'"', rest).find(|at| rest[..*at].last() != Some(&b'\\'))?;
        Some(&rest[..end])
    };
    record.host = value(br#""node":""#);
    record.message = value(br#""text":""#).unwrap_or(line);
    let digits = |key: &[u8]| {
        let rest = &line[memmem::find(line, key)? + key.len()..];
        let size = rest
            .iter()
            .take(7)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        (size > 0).then(|| &rest[..size])
    };
    record.level = digits(br#""level":"#);
    record.site = value(br#""function":""#)
        .map(function)
        .zip(digits(br#""line":"#));
}

/// The end of the first `:123 ` in a text.
fn site_end(text: &[u8]) -> Option<usize> {
    memchr_iter(b':', &text[..text.len().min(HEADER_MAX)]).find_map(|colon| {
        let digits = text[colon + 1..]
            .iter()
            .take(7)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        (digits > 0 && text.get(colon + 1 + digits) == Some(&b' ')).then_some(colon + 1 + digits)
    })
}

/// Time and rank from the start of the line.
fn prefix<'a>(line: &'a [u8], record: &mut Record<'a>) {
    let front = &line[..line.len().min(PREFIX_MAX)];
    record.time = time::places(front).next().map(|at| &front[at..]);
    record.rank = named_rank(front).or_else(|| rank(front));
}

/// The rank in `[rank3]:`, which a program writes itself, behind the prefixes of launchers.
fn named_rank(front: &[u8]) -> Option<&[u8]> {
    rank_at(&front[NAMED_RANK.find(front)?..])
}

/// The rank in the first part of a prefix that has one: `[pod/a/b] 2026-11-20 08:14:04 [rank3]: `.
fn rank(front: &[u8]) -> Option<&[u8]> {
    let mut rest = front;
    for part in 0..PREFIX_PARTS {
        rest = rest.trim_ascii_start();
        if let Some(rank) = rank_at(rest) {
            return Some(rank);
        }
        let size = match rest.first() {
            Some(b'[') => memchr(b']', rest).map(|end| end + 1),
            Some(b'(') => memchr(b')', rest).map(|end| end + 1),
            _ if part == 0 && host_prefix(rest).is_some() => host_prefix(rest),
            _ if part == 0 && service_prefix(rest).is_some() => service_prefix(rest),
            Some(b'0'..=b'9' | b's' | b'F' | b'P') => memchr(b' ', rest).filter(|size| {
                let word = &rest[..*size];
                matches!(word, b"stdout" | b"stderr" | b"F" | b"P") || is_date_or_clock(word)
            }),
            _ => None,
        };
        let Some(size) = size else { break };
        rest = &rest[size..];
        // A bracket without a blank behind it is a part of a message.
        if !matches!(rest.first(), Some(b' ' | b':')) {
            break;
        }
        rest = rest.strip_prefix(b":").unwrap_or(rest);
    }
    tagged_rank(front)
}

/// The size of the host that pdsh puts before a line, `node-1.example: [`; only a bracket behind
/// it tells it from a message.
fn host_prefix(text: &[u8]) -> Option<usize> {
    let name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let size = text.iter().take_while(name).count();
    (size > 0 && text[size..].starts_with(b": [")).then_some(size)
}

/// The size of what Docker Compose puts before a line: `worker_1    |`.
fn service_prefix(text: &[u8]) -> Option<usize> {
    let name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let name = text.iter().take_while(name).count();
    let blanks = text[name..].iter().take_while(|byte| **byte == b' ');
    let bar = name + blanks.count();
    (name > 0 && bar > name && text[bar..].starts_with(b"| ")).then_some(bar + 1)
}

/// The rank of Open MPI behind a date of its own: `Fri Nov 20 08:14:04 2026[1,3]<stderr>:`.
fn tagged_rank(front: &[u8]) -> Option<&[u8]> {
    let close = find!(front, b"]<std")?;
    rank_at(&front[memrchr(b'[', &front[..close])?..])
}

/// `2026-11-20`, `2026-11-20T08:14:04Z` or `08:14:04.123`.
fn is_date_or_clock(word: &[u8]) -> bool {
    let at = |place: usize, byte: u8| word.get(place) == Some(&byte);
    (at(4, b'-') && at(7, b'-')) || (at(2, b':') && at(5, b':'))
}

/// `[rank3]:`, `[default3]:`, `[1,3]<stderr>:`, `[3]:`, `3: `, `(Worker rank=3 pid=71)`, vLLM's
/// `(Worker_TP3 pid=71)` and SGLang's `[2026-11-20 08:14:04 TP3]`.
fn rank_at(text: &[u8]) -> Option<&[u8]> {
    if let Some(inside) = text.strip_prefix(b"(") {
        let inside = &inside[..memchr(b')', inside)?];
        let digits = match find!(inside, b" rank=") {
            Some(at) => &inside[at + 6..],
            None => inside.strip_prefix(b"Worker_TP")?,
        };
        let digits = digits.split(|byte| !byte.is_ascii_digit()).next()?;
        return Some(digits).filter(|digits| is_number(digits));
    }
    if let Some(rank) = rank_of_sglang(text) {
        return Some(rank);
    }
    let Some(inside) = text.strip_prefix(b"[") else {
        let (digits, _) = text.split_at(memchr(b':', &text[..text.len().min(7)])?);
        let is_rank = is_number(digits) && text.get(digits.len() + 1) == Some(&b' ');
        return is_rank.then_some(digits);
    };
    let end = memchr(b']', &inside[..inside.len().min(24)])?;
    let (inside, after) = (&inside[..end], inside.get(end + 1));
    let comma = memrchr(b',', inside);
    let digits = comma.map_or(inside, |at| &inside[at + 1..]);
    // torchrun puts the name of the role before the rank.
    let letters = digits.iter().take_while(|byte| byte.is_ascii_alphabetic());
    let digits = &digits[letters.count()..];
    (is_number(digits) && matches!(after, Some(b':' | b'<'))).then_some(digits)
}

/// The `3` of `[2026-11-20 08:14:04 TP3]`. A worker of several groups, `DP0 TP3`, has no rank there.
fn rank_of_sglang(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"[")?;
    let inside = &inside[..memchr(b']', &inside[..inside.len().min(40)])?];
    let mut words = inside.split(|byte| *byte == b' ');
    let (date, clock, group) = (words.next()?, words.next()?, words.next()?);
    let digits = group
        .strip_prefix(b"TP")
        .filter(|digits| is_number(digits))?;
    let is_time = is_date_or_clock(date) && is_date_or_clock(clock);
    (is_time && words.next().is_none()).then_some(digits)
}

/// A front from the first text on that has the form of a time without a year.
fn yearless(front: &[u8]) -> Option<&[u8]> {
    time::yearless_places(front).next().map(|at| &front[at..])
}

/// Time and rank of a line of glog or of PyTorch's loggers.
fn torch<'a>(line: &'a [u8], record: &mut Record<'a>) {
    let front = &line[..line.len().min(PREFIX_MAX)];
    record.yearless = yearless(front);
    record.rank = match (record.rank, torch_rank(front)) {
        (Some(rank), Some(own)) if !counts_job(front, rank) && own.is_of_job => Some(own.rank),
        (rank, own) => rank.or(own.map(|own| own.rank)),
    };
}

/// Whether the rank of a prefix is one of the whole job: `[rank3]`, `[1,3]<stderr>` and `(Worker rank=3)`. Others
/// may count the processes of a node, or its nodes.
fn counts_job(front: &[u8], rank: &[u8]) -> bool {
    let before = &front[..(Span::of(front, rank).start as usize).min(front.len())];
    matches!(before.last(), Some(b'k' | b',' | b'='))
}

/// Whether a line is of NCCL's RAS, which watches a job and moves none of its data.
pub(super) fn is_of_ras(line: &[u8], message: &[u8]) -> bool {
    let header = &line[..(Span::of(line, message).start as usize).min(line.len())];
    let header = &header[header.len().saturating_sub(HEADER_MAX)..];
    has!(header, b" ras/")
}

/// A rank as PyTorch writes it.
struct TorchRank<'a> {
    rank: &'a [u8],
    /// Whether it is one of the whole job; other process groups count their own ranks.
    is_of_job: bool,
}

/// `] [Rank 3] ` of PyTorch's process groups.
fn torch_rank(front: &[u8]) -> Option<TorchRank<'_>> {
    let (before, rest) = front.split_at(find!(front, b"Rank ")? + 5);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_of_job = before.ends_with(b"[Rank ") || before.ends_with(b"(default_pg) Rank ");
    let is_rank = is_number(&rest[..digits]) && rest.get(digits) == Some(&b']');
    is_rank.then(|| TorchRank {
        rank: &rest[..digits],
        is_of_job,
    })
}

/// Whether a text is a number of at most `DIGITS_MAX` digits, whatever they are.
fn is_number(text: &[u8]) -> bool {
    (1..=DIGITS_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

/// The value of a number.
fn value(digits: &[u8]) -> u32 {
    let add = |value: u32, digit: &u8| 10 * value + u32::from(digit - b'0');
    digits.iter().fold(0, add)
}

/// The line without escape sequences; `scratch` holds the result if there are any.
pub(super) fn without_escapes<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr(0x1b, line).is_none() {
        return line;
    }
    scratch.clear();
    let mut rest = line;
    while let Some(at) = memchr(0x1b, rest) {
        scratch.extend_from_slice(&rest[..at]);
        rest = &rest[at + escape_length(&rest[at..])..];
    }
    scratch.extend_from_slice(rest);
    scratch
}

/// The length of an escape sequence: `ESC [ 0-? letter`, otherwise two bytes.
fn escape_length(text: &[u8]) -> usize {
    if text.get(1) != Some(&b'[') {
        return text.len().min(2);
    }
    let inside = text[2..]
        .iter()
        .take(32)
        .take_while(|byte| (0x20..0x40).contains(*byte))
        .count();
    (inside + 3).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at<'a>(line: &'a str, part: &str) -> Record<'a> {
        record_at(line.as_bytes(), line.find(part).expect("a part of it")).0
    }

    const MESSAGE: &str = "Net : Connection closed by remote peer 10.0.1.25<1><-10.0.0.226<2> rx";

    #[test]
    fn headers_of_nccl_are_read_with_and_without_a_host() {
        let line =
            format!("node0:71:79 [3] int taskProgress(tcpxFdData*, int*):191 NCCL WARN {MESSAGE}");
        let record = at(&line, "closed");
        assert_eq!((record.host, record.pid()), (Some(&b"node0"[..]), Some(71)));
        assert_eq!(record.site(), Some((&b"taskProgress"[..], 191)));
        assert_eq!(
            (record.level(), record.message),
            (Some(Level::Warn), MESSAGE.as_bytes())
        );
        assert_eq!((record.gpu(), record.rank()), (Some(3), None));
        let line = format!("[0] tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN {MESSAGE}");
        let record = at(&line, "closed");
        assert_eq!(
            (record.host, record.site()),
            (None, Some((&b"tcpxCommProgress"[..], 1231)))
        );
        let record = at(
            "node0:71:79 [3] NCCL INFO NET/GPUDirectTCPX ver. 3.1.9.",
            "ver",
        );
        assert_eq!(
            (record.pid(), record.site(), record.level()),
            (Some(71), None, Some(Level::Info))
        );
    }

    #[test]
    fn a_rank_behind_the_service_of_docker_compose_is_read() {
        let check = |line: &str, rank: Option<u32>| {
            assert_eq!(at(line, "closed").rank(), rank, "{line}");
        };
        check("worker_1    | 2: closed", Some(2));
        check("trainer-3  | [rank5]: closed", Some(5));
        check("worker_1 | closed", None);
        check("12 | 2: closed", Some(2));
        check("a|2: closed", None);
    }

    #[test]
    fn times_and_ranks_of_launchers_are_read() {
        let check = |prefix: &str, rank, has_time: bool| {
            let line = format!("{prefix}node0:71:79 [3] f:1 NCCL WARN {MESSAGE}");
            let record = at(&line, "closed");
            assert_eq!(
                (record.rank(), record.time_us(Years::default()).is_some()),
                (rank, has_time),
                "{line}"
            );
            assert_eq!(
                (record.pid(), record.site()),
                (Some(71), Some((&b"f"[..], 1))),
                "{line}"
            );
        };
        check("[1,3]<stderr>:", Some(3), false);
        check("[rank12]:", Some(12), false);
        check("[3]:", Some(3), false);
        check("5: ", Some(5), false);
        check(" 5: ", Some(5), false);
        check("[default3]:", Some(3), false);
        check("(Worker rank=3 pid=71) ", Some(3), false);
        check("(RayWorker pid=71, ip=10.0.0.226) ", None, false);
        check("(RayWorker pid=71) [rank3]:", Some(3), false);
        check("[pod/trainer-0/main] [rank3]:", Some(3), false);
        check("[pod/trainer-0/main]: 3: ", Some(3), false);
        check("2026-11-20T08:14:04Z stderr F [rank3]:", Some(3), true);
        check("2026-11-20 08:14:04.531 [1,3]<stdout>:", Some(3), true);
        check("[main] [2026-11-20 08:14:04] 3: ", Some(3), true);
        check("[2026-11-20 08:14:04] ", None, true);
        check(
            "[pod/trainer-0/main] 2026-11-20T08:14:04.123456789Z ",
            None,
            true,
        );
        check("0: [2026-11-20 08:14:04] ", Some(0), true);
        check("2026-11-20T08:14:04Z stderr F ", None, true);
        check("(Worker_TP3 pid=71) ", Some(3), false);
        check("(Worker_DP0_TP3 pid=71) ", None, false);
        check("(EngineCore_DP0 pid=71) ", None, false);
        check("[2026-11-20 08:14:04 TP3] ", Some(3), true);
        check("[2026-11-20 08:14:04 DP0 TP3] ", None, true);
        check("node-1: [rank3]: ", Some(3), false);
        check("10.0.1.25: [rank3]: ", Some(3), false);
        check("Fri Nov 20 08:14:04 2026[1,3]<stderr>:", Some(3), false);
        check(
            "[rank3]:[W1120 08:14:04.531042 ProcessGroupNCCL.cpp:71] ",
            Some(3),
            true,
        );
    }

    #[test]
    fn joined_records_are_separated() {
        let line =
            "node0:71:79 [3] NCCL INFO node1:5:6 [0] f():9 NCCL WARN unable to allocate requests";
        let record = at(line, "unable");
        assert_eq!((record.host, record.pid()), (Some(&b"node1"[..]), Some(5)));
        let line = "node0:71:79 [3] g:7 NCCL WARN not yet freed?node1:5:6 [0] f():9 NCCL WARN no";
        let record = at(line, "freed");
        assert_eq!(
            (record.host, record.message),
            (Some(&b"node0"[..]), &b"not yet freed?"[..])
        );
        let line = "node0:71:79 [3] NCCL INFO 2 channode2:70node1:72:80 [0] f():9 NCCL WARN bad";
        let record = at(line, "bad");
        assert_eq!((record.host, record.pid()), (Some(&b"node1"[..]), Some(72)));
    }

    #[test]
    fn a_line_of_a_program_s_own_logger_is_read() {
        let record = at(
            "[ncclNet:2] tcpxResult_t tcpxTest(void*, int*, int*):1326 no such thing",
            "no such",
        );
        assert_eq!(record.site(), Some((&b"tcpxTest"[..], 1326)));
        assert_eq!(
            (record.level(), record.message),
            (Some(Level::Warn), &b"no such thing"[..])
        );
    }

    #[test]
    fn a_line_of_events_jsonl_is_read() {
        let line = r#"{"at":"2026-11-20T14:07:30.522Z","ms":19.1,"node":"local","said":{"plugin-line":{"level":2,"function":"softInit","line":44,"text":"no \"such\" thing","count":1}}}"#;
        let record = at(line, "no ");
        assert_eq!(
            (record.host, record.level()),
            (Some(&b"local"[..]), Some(Level::Warn))
        );
        assert_eq!(
            (record.site(), record.message),
            (Some((&b"softInit"[..], 44)), &br#"no \"such\" thing"#[..])
        );
    }

    #[test]
    fn a_line_of_pytorch_has_the_rank_of_its_process_group() {
        let check = |line: &str, rank| assert_eq!(at(line, "work").rank(), rank, "{line}");
        check(
            "[E1120 08:14:04.5 ProcessGroupNCCL.cpp:616] [Rank 7] work",
            Some(7),
        );
        check("[PG ID 0 PG GUID 0(default_pg) Rank 12] work", Some(12));
        check("Rank 7 work", None);
        // A launcher may count the processes of a node.
        check("[default0]:[rank8]: work", Some(8));
        check("1: [rank8]:[E1120 08:14:04.5 a.cpp:6] work", Some(8));
        check(
            "[default0]:[PG ID 0 PG GUID 0(default_pg) Rank 8] work",
            Some(8),
        );
        check("3: [E1120 08:14:04.5 a.cpp:6] [Rank 8] work", Some(8));
        check("(Worker pid=71) [Rank 8] work", Some(8));
        // A process group counts its own ranks.
        check("[rank8]:[PG ID 2 PG GUID 3(mesh_tp) Rank 0] work", Some(8));
        check("[1,8]<stderr>:[PG ID 2 PG GUID 3 Rank 0] work", Some(8));
        check("8: [PG ID 2 PG GUID 3(mesh_tp) Rank 0] work", Some(8));
    }

    #[test]
    fn templates_and_paths_become_names() {
        let check =
            |pretty: &str, name: &str| assert_eq!(function(pretty.as_bytes()), name.as_bytes());
        check(
            "tcpxResult_t tcpxBufferedSendSocket<BUF_SIZE>::sync() [with unsigned int BUF_SIZE = 128]",
            "tcpxBufferedSendSocket<BUF_SIZE>::sync",
        );
        check(
            "ssize_t process_recv_cmsg(msghdr*, void*)",
            "process_recv_cmsg",
        );
        check("transport/net_socket.cc", "net_socket.cc");
    }

    #[test]
    fn escape_sequences_are_removed() {
        let mut scratch = Vec::new();
        assert_eq!(
            without_escapes(b"\x1b[1;31mred\x1b[0m \x1bMx\x1b", &mut scratch),
            b"red x"
        );
        assert_eq!(without_escapes(b"plain", &mut scratch), b"plain");
    }

    proptest! {
        #[test]
        fn any_line_is_a_record(line in "([ :\\[\\]0-9a-c]|node0:1:2 \\[0\\]|NCCL WARN |NCCL INFO |\\[ncclNet:2\\] ){0,40}", place in 0usize..200) {
            let (record, start, end) = record_at(line.as_bytes(), place);
            prop_assert!(start <= end && end <= line.len());
            prop_assert!(record.message.len() <= line.len());
        }
    }
}
