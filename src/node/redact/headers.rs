//! What launchers, loggers and NCCL write before the message of a line: times, levels, ranks, `host:pid:tid [dev]`,
//! and the class of an exception.
//!
//! No header is a secret, whatever stands above it: a `password:` before lines of NCCL would take the evidence of a
//! whole log. What stands behind headers is also searched as lines of their own ([`Messages`]), since most formats of
//! secrets begin a line.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Longest header that is looked at, and most parts of one.
const BYTES_MAX: usize = 320;
const PARTS_MAX: usize = 12;
/// Words for the level of a line, in lower case.
const LEVELS: [&str; 11] = [
    "error", "warn", "warning", "info", "debug", "trace", "critical", "fatal", "abort", "version",
    "notice",
];
/// Ends of the names of exceptions, and programs whose name begins a message, in lower case.
const EXCEPTIONS: [&str; 4] = ["error", "exception", "panic", "warning"];
const PROGRAMS: [&str; 5] = ["srun", "slurmstepd", "fatal error", "caused by", "task"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The header of a line: what of it no secret can be, and where the message begins.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    kept: Range<usize>,
    message: usize,
    is_of_nccl: bool,
}

/// The parts of a text that are headers, in order.
pub(super) fn kept(text: &str) -> Vec<Range<usize>> {
    let mut kept = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let header = header(line);
        if !header.kept.is_empty() {
            kept.push(at + header.kept.start..at + header.kept.end);
        }
        at += line.len();
    }
    kept
}

/// What is left of a value that one name has: it ends before the first header in it.
pub(super) fn without(kept: &[Range<usize>], value: Range<usize>) -> Range<usize> {
    let mut value = value;
    let mut next = kept.partition_point(|header| header.end <= value.start);
    while let Some(header) = kept.get(next).filter(|header| header.start < value.end) {
        if header.start > value.start {
            value.end = header.start;
            break;
        }
        value.start = header.end.min(value.end);
        next += 1;
    }
    value
}

/// Puts what is left of places in order between headers into `cut`.
pub(super) fn cut(kept: &[Range<usize>], places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut cut = Vec::with_capacity(places.len());
    let mut next = 0;
    for place in places {
        let mut from = place.start;
        while kept.get(next).is_some_and(|header| header.end <= from) {
            next += 1;
        }
        let mut at = next;
        while let Some(header) = kept.get(at).filter(|header| header.start < place.end) {
            if header.start > from {
                cut.push(from..header.start);
            }
            from = header.end.max(from);
            at += 1;
        }
        if from < place.end {
            cut.push(from..place.end);
        }
    }
    cut
}

/// Whether a text has the form `host:pid:tid`.
pub(super) fn is_of_process(text: &str) -> bool {
    let mut parts = text.rsplitn(3, ':');
    let mut is_number = || {
        let part = parts.next().unwrap_or_default();
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_number() && is_number() && parts.next().is_some_and(is_host)
}

fn is_host(text: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_host)
}

/// The messages of the lines that have a header, without it.
#[derive(Default)]
pub(super) struct Messages {
    text: String,
    /// Where each message begins here and in the text, in order.
    lines: Vec<(usize, usize)>,
}

/// A line between messages that belong together with none, which begins no value.
const BETWEEN: &str = "none\n";

impl Messages {
    pub(super) fn of(text: &str) -> Self {
        let mut all = Self::default();
        let mut at = 0;
        let mut is_joined = false;
        for line in text.split_inclusive('\n') {
            let header = header(line);
            if header.message == 0 || header.message >= line.trim_end().len() {
                is_joined = false;
            } else {
                if !is_joined {
                    all.text.push_str(BETWEEN);
                }
                all.lines.push((all.text.len(), at + header.message));
                all.text.push_str(&line[header.message..]);
                is_joined = !header.is_of_nccl && line.ends_with('\n');
                if !line.ends_with('\n') {
                    all.text.push('\n');
                }
            }
            at += line.len();
        }
        all
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where a place in the messages is in the text, as far as its first line.
    pub(super) fn place(&self, place: Range<usize>) -> Option<Range<usize>> {
        let line = self
            .lines
            .partition_point(|(begin, _)| *begin <= place.start);
        let (begin, of_text) = *self.lines.get(line.checked_sub(1)?)?;
        let length = self.text[begin..]
            .find('\n')
            .unwrap_or(self.text.len() - begin);
        let end = place.end.min(begin + length);
        (place.start < end).then(|| of_text + place.start - begin..of_text + end - begin)
    }
}

fn header(line: &str) -> Header {
    let near = &line[..line.floor_char_boundary(BYTES_MAX)];
    let mut found = Header::default();
    if let Some(nccl) = of_nccl(near) {
        found.message = nccl.end;
        found.kept = nccl;
        found.is_of_nccl = true;
        return found;
    }
    let mut is_kept = true;
    let mut is_timed = false;
    for _ in 0..PARTS_MAX {
        let rest = &near[found.message..];
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let rest = &rest[spaces..];
        let strict = time(rest).or_else(|| rank(rest));
        is_timed |= strict.is_some();
        let Some(length) = strict.or_else(|| level(rest)) else {
            let Some(length) = source(rest, is_timed).or_else(|| exception(rest)) else {
                break;
            };
            found.message += spaces + length;
            is_kept = false;
            continue;
        };
        found.message += spaces + length;
        if is_kept {
            found.kept = 0..found.message;
        }
    }
    // One space separates a header from its message, of which more may be an indentation.
    found.message += usize::from(found.message > 0 && near[found.message..].starts_with(' '));
    found
}

/// `host:pid:tid [dev] NCCL LEVEL`, also with a source before `NCCL`, behind any launcher's prefix.
fn of_nccl(near: &str) -> Option<Range<usize>> {
    let sign = near.find(" NCCL ")?;
    let before = &near[..sign];
    let device = before.find(" [").filter(|at| {
        let word = before[..*at].rsplit([' ', '\t', '>', ']', '|']).next();
        word.is_some_and(|word| is_of_process(word.trim_start_matches(':')))
    })?;
    let word = before[..device].rsplit([' ', '\t', '>', ']', '|']).next()?;
    let begin = device - word.trim_start_matches(':').len();
    let from = sign + " NCCL ".len();
    let level = near[from..].split(' ').next().unwrap_or_default();
    let is_level = LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known));
    let end = if is_level { from + level.len() } else { from };
    Some(begin..(end + usize::from(near[end..].starts_with(' '))))
}

/// The length of a time or a date at the beginning of a text.
fn time(rest: &str) -> Option<usize> {
    let word = rest.split([' ', '\t', '\n']).next().unwrap_or_default();
    let is_of_time = |byte: u8| byte.is_ascii_digit() || b"-:.,/TZ+".contains(&byte);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let begins = word.as_bytes().iter().take(2).all(u8::is_ascii_digit);
    let is_date = word.matches('-').count() == 2 || word.matches('/').count() == 2;
    let is_time = word.matches(':').count() == 2;
    if begins && word.bytes().all(is_of_time) && (6..=24).contains(&digits) && (is_date || is_time)
    {
        return Some(word.len());
    }
    let number = word.strip_prefix(['E', 'W', 'I', 'F']).unwrap_or_default();
    if number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(word.len());
    }
    // `Nov 20 10:15:00`.
    MONTHS.contains(&word).then(|| {
        let day = rest[word.len()..].trim_start();
        let digits = day.bytes().take_while(u8::is_ascii_digit).count();
        (1..=2)
            .contains(&digits)
            .then(|| rest.len() - day.len() + digits)
    })?
}

/// `[rank3]:`, `[1,0]<stdout>:`, `[  12.3]`, `[ERROR]`, and the number that `srun --label` writes.
fn rank(rest: &str) -> Option<usize> {
    if let Some(inner) = rest.strip_prefix('[') {
        let close = inner.find(']').filter(|close| *close <= 24)?;
        let word = inner[..close].trim();
        let number = word.strip_prefix("rank").unwrap_or(word);
        let is_number = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b",.: ".contains(&byte));
        let is_level = LEVELS.iter().any(|known| word.eq_ignore_ascii_case(known));
        if word.is_empty() || !(is_number && number.len() <= 16 || is_level) {
            return None;
        }
        let mut end = close + 2;
        for stream in ["<stdout>", "<stderr>"] {
            end += rest[end..].strip_prefix(stream).map_or(0, |_| stream.len());
        }
        return Some(end + usize::from(rest[end..].starts_with(':')));
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    ((1..=4).contains(&digits) && rest[digits..].starts_with(": ")).then_some(digits + 1)
}

fn level(rest: &str) -> Option<usize> {
    let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = &rest[..length];
    let is_level = LEVELS.iter().any(|known| word.eq_ignore_ascii_case(known))
        && word.starts_with(|letter: char| letter.is_ascii_uppercase());
    let behind = &rest[length..];
    let ends = [" - ", ": ", " "]
        .iter()
        .find(|end| behind.starts_with(**end));
    is_level.then(|| Some(length + ends?.trim_end().len()))?
}

/// Behind a time: `123 x.cc:45]`, `- trainer -`, `host kubelet[12]:`.
fn source(rest: &str, is_timed: bool) -> Option<usize> {
    if !is_timed {
        return None;
    }
    let word = rest.split([' ', '\t', '\n']).next().unwrap_or_default();
    let is_number =
        !word.is_empty() && word.len() <= 8 && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = word.ends_with(']') && word.contains(':') && !word.contains('=')
        || word.ends_with("]:") && word.contains('[') && !word.starts_with('[');
    if word == "-" || word == "***" || is_number || is_place {
        return Some(word.len());
    }
    let behind = &rest[word.len()..];
    (is_host(word) && behind.starts_with(" - ")).then_some(word.len() + 2)
}

/// The class of an exception, or a program: `java.lang.RuntimeException:`, `srun: error: node0: task 3:`.
fn exception(rest: &str) -> Option<usize> {
    const THREAD: &str = "Exception in thread \"main\" ";
    if rest.starts_with(THREAD) {
        return Some(THREAD.len() - 1);
    }
    if rest.starts_with("*** ") {
        return Some(3);
    }
    let colon = rest.find(": ").filter(|colon| *colon <= 96)?;
    let name = &rest[..colon];
    let lower = name.to_ascii_lowercase();
    let is_word = is_host(name);
    let is_exception = is_word && EXCEPTIONS.iter().any(|end| lower.ends_with(end));
    let begins = |program: &str| {
        lower.strip_prefix(program).is_some_and(|rest| {
            rest.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b' ')
        })
    };
    let is_message = lower.ends_with(" error")
        || lower.starts_with("failed to ")
        || lower.contains(" was unable to ");
    let is_message = is_message && !name.contains(['=', '"', '\'']);
    let is_node = is_word && rest[colon..].starts_with(": task ");
    (is_exception || is_node || is_message || PROGRAMS.iter().any(|program| begins(program)))
        .then_some(colon + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> &str {
        &line[header(line).message..]
    }

    #[test]
    fn what_stands_before_a_message_is_its_header() {
        for before in [
            "node0:71:79 [3] NCCL WARN ",
            "[1,0]<stdout>:node0:71:79 [3] transport/net.cc:212 NCCL INFO ",
            "trainer-0 node-b.x:71:79 [3] NCCL WARN ",
            "2026-11-26 10:00:00,123 - trainer - ERROR - ",
            "2026-11-26T10:00:00Z ERROR ",
            "E1126 10:00:00.000000 123 x.cc:45] ",
            "[rank3]: RuntimeError: ",
            "java.lang.RuntimeException: ",
            "Exception in thread \"main\" java.lang.OutOfMemoryError: ",
            "srun: error: node0: task 3: ",
            "panic: ",
            "3: ",
        ] {
            assert_eq!(message(&format!("{before}bob X")), "bob X", "{before}");
        }
        for line in [
            "[password] => x",
            "password: x",
            "node0 said x",
            "",
            "db:5432:x:y:z",
            "key: 3",
        ] {
            assert_eq!(header(line), Header::default(), "{line}");
        }
    }

    #[test]
    fn values_end_before_headers_and_places_are_cut_by_them() {
        let text = "password: [see\nnode0:71:79 [3] NCCL WARN x\n10:15:00.5 y";
        let kept = kept(text);
        let shown: Vec<&str> = kept.iter().map(|at| &text[at.clone()]).collect();
        assert_eq!(shown, ["node0:71:79 [3] NCCL WARN ", "10:15:00.5"]);
        assert_eq!(&text[without(&kept, 10..30)], "[see\n");
        assert!(without(&kept, 16..22).is_empty());
        let all: Vec<&str> = cut(&kept, vec![11..40, 41..text.len()])
            .into_iter()
            .map(|at| &text[at])
            .collect();
        assert_eq!(all, ["see\n", "x\n", " y"]);
    }

    #[test]
    fn messages_are_lines_of_their_own_and_those_of_nccl_stand_alone() {
        let text = "x\n[rank3]: Password:\n[rank3]: hunter2\nnode0:71:79 [3] NCCL WARN key\n";
        let messages = Messages::of(text);
        assert_eq!(messages.text(), "none\nPassword:\nhunter2\nkey\n");
        let at = messages.text().find("hunter2").unwrap_or_default();
        assert_eq!(
            messages.place(at..at + 9).map(|at| &text[at]),
            Some("hunter2")
        );
        assert_eq!(messages.place(0..4), None);
    }
}
