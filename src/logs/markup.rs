//! What a page or a mail puts around the lines of a log that is pasted into it: marks of quoting, numbers of lines,
//! marks of a difference, an indentation, bold type, blanks that do not break, and characters as HTML writes them.
//!
//! What a person writes above, between and below quoted lines, or around a block between fences (```` ``` ````), is
//! left out: it may name errors that the log does not have.
//!
//! Each of them hides where a line begins, from which its prefix and its level are read. Whether a log has them is
//! decided on its first lines; then they are taken off every line that has them. The numbers of lines stay.
//!
//! Not here: what launchers and collectors put before a line (`shape`).
#![forbid(unsafe_code)]

use super::input::{LineSource, read_lines, with_head};
use memchr::{memchr, memmem, memrchr};
use std::borrow::Cow;
use std::io::{self, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes at the front of a log from which its markup is told.
const HEAD: usize = 4096;
/// Bytes that are read from the source at once, and of a line that is looked at as a whole.
const PART: usize = 64 * 1024;
/// Lines that must have a mark: of two, both may be lines of a log that begin so by chance.
const QUOTED_MIN: usize = 3;
const OTHERS_MIN: usize = 4;
const NUMBERED_MIN: usize = 6;
/// Words of a sentence, and of a line in which one goes on, at least.
const PROSE_WORDS_MIN: usize = 3;
const MORE_WORDS_MIN: usize = 2;
/// Digits of the number of a line: more are a time.
const DIGITS_MAX: usize = 7;
/// An indentation that is one of a page.
const INDENT_MIN: usize = 2;
/// Characters that a page writes in another way.
const CHARACTERS: [(&[u8], u8); 7] = [
    (b"&gt;", b'>'),
    (b"&lt;", b'<'),
    (b"&amp;", b'&'),
    (b"&quot;", b'"'),
    (b"&#39;", b'\''),
    (b"&nbsp;", b' '),
    (b"\xc2\xa0", b' '),
];
const BOLD: &[u8] = b"**";

/// What is before every line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// `>`, also several times.
    Quote,
    /// `|`
    Bar,
    /// `+`, as before the new lines of a difference.
    Plus,
    /// `12:` or `12 |`
    Number,
}

impl Mark {
    const ALL: [Self; 4] = [Self::Quote, Self::Bar, Self::Plus, Self::Number];

    /// What is behind the mark of a line.
    fn off(self, line: &[u8]) -> Option<&[u8]> {
        let text = line.trim_ascii_start();
        let mut rest = match self {
            Self::Quote => text.strip_prefix(b">")?,
            Self::Bar => text.strip_prefix(b"|")?,
            // `+---` is the border of a table.
            Self::Plus => line
                .strip_prefix(b"+")
                .filter(|rest| !rest.starts_with(b"-"))?,
            Self::Number => return numbered(line).map(|(_, rest)| rest),
        };
        if let Self::Quote = self {
            while let Some(more) = rest.trim_ascii_start().strip_prefix(b">") {
                rest = more;
            }
        }
        if let Self::Plus = self {
            return Some(rest);
        }
        Some(rest.strip_prefix(b" ").unwrap_or(rest))
    }

    /// Whether the lines of a text have this mark.
    fn is_of(self, lines: &[&[u8]]) -> bool {
        let marked = lines.iter().filter(|line| self.off(line).is_some()).count();
        let is_each = marked == lines.len();
        match self {
            Self::Quote => marked >= QUOTED_MIN && marked >= lines.len() / 5 * 3,
            Self::Bar => {
                // A table has a border on both sides.
                let closed = lines.iter().filter(|line| line.ends_with(b"|")).count();
                is_each && marked >= OTHERS_MIN && closed < marked / 2
            }
            Self::Plus => is_each && marked >= OTHERS_MIN,
            Self::Number => {
                // The ranks that a launcher writes so do not grow with every line, and begin with 0.
                let numbers = lines.iter().filter_map(|line| numbered(line)?.0.into());
                let grows = numbers.is_sorted_by(|one: &u64, next| one < next);
                let first = lines.first().and_then(|line| numbered(line));
                is_each && marked >= NUMBERED_MIN && grows && first.is_some_and(|(one, _)| one > 0)
            }
        }
    }
}

/// The number before a line, and what is behind it: `12:text`, `12: text`, `12 | text`, or `12` and a tab.
fn numbered(line: &[u8]) -> Option<(u64, &[u8])> {
    let text = line.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=DIGITS_MAX).contains(&digits) {
        return None;
    }
    let number = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let rest = &text[digits..];
    if rest.is_empty() {
        return Some((number, rest));
    }
    if let Some(behind) = rest.strip_prefix(b"\t") {
        return Some((number, behind));
    }
    let behind = rest
        .strip_prefix(b":")
        .or_else(|| rest.trim_ascii_start().strip_prefix(b"|"))?;
    // `14:05` is a time.
    let is_time = rest.starts_with(b":")
        && matches!(behind, [one, other, ..] if one.is_ascii_digit() && other.is_ascii_digit());
    (!is_time).then(|| (number, behind.strip_prefix(b" ").unwrap_or(behind)))
}

/// The markup of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Markup {
    mark: Option<Mark>,
    /// Blanks before every line, behind the mark.
    indent: usize,
    is_bold: bool,
    has_characters: bool,
    /// Whether blocks of it are between fences.
    has_fences: bool,
}

/// What is before a line that is not quoted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// Nothing, or a blank line: a text may begin.
    #[default]
    Blank,
    /// A sentence of a person.
    Prose,
    /// One that announces something else.
    Announced,
    Other,
}

/// Where in a text a line is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Within {
    before: Before,
    is_fenced: bool,
}

impl Within {
    /// Whether a line that is not quoted is prose.
    fn is_prose(&mut self, line: &[u8]) -> bool {
        let is_prose = match self.before {
            Before::Blank | Before::Announced => is_prose(line) || is_personal(line),
            Before::Prose => may_be_prose(line, MORE_WORDS_MIN),
            Before::Other => false,
        };
        self.before = match line.trim_ascii() {
            b"" => Before::Blank,
            line if is_prose && line.ends_with(b":") => Before::Announced,
            _ if is_prose => Before::Prose,
            _ => Before::Other,
        };
        is_prose
    }
}

impl Markup {
    /// The markup of a log that begins so, if it has any.
    fn of(head: &[u8]) -> Option<Self> {
        // The last line of it may be cut.
        let head = match head.get(..HEAD) {
            Some(front) => &front[..memrchr(b'\n', front).unwrap_or(HEAD)],
            None => head,
        };
        let has_characters = CHARACTERS
            .iter()
            .any(|(written, _)| memmem::find(head, written).is_some());
        let mut text = Cow::Borrowed(head);
        if has_characters {
            text = Cow::Owned(with_characters(head));
        }
        let lines = text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii_end);
        let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        let mark = Mark::ALL.into_iter().find(|mark| mark.is_of(&lines));
        let behind = lines.iter().filter_map(|line| match mark {
            Some(mark) => mark.off(line),
            None => Some(line),
        });
        let blanks = |line: &[u8]| line.iter().take_while(|byte| **byte == b' ').count();
        let indents = behind.filter(|line| !line.is_empty()).map(blanks);
        let indent = indents.min().filter(|_| lines.len() >= OTHERS_MIN);
        let found = Self {
            mark,
            indent: indent
                .filter(|size| *size >= INDENT_MIN)
                .unwrap_or_default(),
            is_bold: lines.iter().any(|line| without_bold(line).is_some()),
            has_characters,
            has_fences: lines.iter().any(|line| is_fence(line)),
        };
        (found != Self::default()).then_some(found)
    }

    /// A line without its markup. `within` is updated for the next.
    fn off(&self, line: &[u8], within: &mut Within) -> Vec<u8> {
        let mut text = Cow::Borrowed(line);
        if self.has_characters {
            text = Cow::Owned(with_characters(line));
        }
        let mut rest: &[u8] = &text;
        let behind = self.mark.and_then(|mark| mark.off(rest));
        if self.has_fences && is_fence(rest) {
            within.is_fenced = !within.is_fenced;
            within.before = Before::Blank;
        } else {
            let is_reply = self.mark == Some(Mark::Quote) && behind.is_none();
            if is_reply || self.has_fences && !within.is_fenced && self.mark.is_none() {
                if within.is_prose(rest) {
                    return Vec::new();
                }
            } else {
                within.before = Before::Other;
                if behind.is_some_and(asks) {
                    return Vec::new();
                }
            }
        }
        rest = behind.unwrap_or(rest);
        let blanks = rest.iter().take(self.indent);
        rest = &rest[blanks.take_while(|byte| **byte == b' ').count()..];
        if self.is_bold {
            rest = without_bold(rest).unwrap_or(rest);
        }
        rest.to_vec()
    }
}

/// Whether a line begins or ends a block of a page.
fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"```")
}

/// Words with which people write about themselves or to others.
const PERSONAL: [&[u8]; 14] = [
    b"I", b"I'm", b"I've", b"my", b"My", b"we", b"We", b"we've", b"our", b"Our", b"you", b"You",
    b"your", b"us",
];

/// Whether a line that is not quoted is of a person's sentence, whose end is in another line.
fn is_personal(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    words.any(|word| PERSONAL.contains(&word)) && may_be_prose(line, PROSE_WORDS_MIN)
}

/// Whether a quoted line is a question to a person.
fn asks(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let mut words = line.split(|byte| *byte == b' ');
    let is_word = |word: &[u8]| word.iter().all(u8::is_ascii_alphabetic);
    line.ends_with(b"?")
        && words.next().is_some_and(is_word)
        && words.any(|word| PERSONAL.contains(&word))
}

/// Whether nothing in a line shows that a program wrote it: no time, no level, no name or place at its front, no
/// indentation.
fn may_be_prose(line: &[u8], words_min: usize) -> bool {
    let text = line.trim_ascii_end();
    let mut words = text.split(|byte| *byte == b' ');
    let first = words.next().unwrap_or_default();
    let is_marked = first.is_empty()
        || first.ends_with(b":")
        || first.iter().any(|byte| b"[]{}<>|=#$\t".contains(byte))
        || first.first().is_some_and(u8::is_ascii_digit) && first.contains(&b':');
    // Within a sentence, and between quotation marks, is what a person quotes.
    let is_word = first.starts_with(b"\"")
        || first.iter().all(u8::is_ascii_alphabetic)
            && (first.len() == 1 || first.iter().any(u8::is_ascii_lowercase));
    let record = super::shape::record_at(text, text.len()).0;
    !is_marked
        && words.count() >= words_min - 1
        && (is_word || record.level().is_none())
        && super::loggers::logged_error(text).is_none()
        && !super::traceback::ends(text)
}

/// Whether a line that is not quoted, where others are, is a sentence of the one who quotes them.
fn is_prose(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let mut words = line.split(|byte| *byte == b' ');
    let is_word = |word: &[u8]| {
        let word = word.strip_suffix(b",").unwrap_or(word);
        word.iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'\'')
    };
    words.next().is_some_and(is_word)
        && words.count() >= PROSE_WORDS_MIN - 1
        && line.last().is_some_and(|last| b".?!:,".contains(last))
        && super::shape::record_at(line, line.len())
            .0
            .level()
            .is_none()
}

/// A line between the marks of bold type.
fn without_bold(line: &[u8]) -> Option<&[u8]> {
    let inner = line
        .trim_ascii_end()
        .strip_prefix(BOLD)?
        .strip_suffix(BOLD)?;
    let is_text = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'*' && *byte != b' ');
    (is_text(inner.first()) && is_text(inner.last())).then_some(inner)
}

/// A text with the characters that a page wrote in another way.
fn with_characters(text: &[u8]) -> Vec<u8> {
    let (mut all, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, behind)) = rest.split_first() {
        let written = CHARACTERS
            .iter()
            .find(|(written, _)| rest.starts_with(written));
        match written {
            Some((written, character)) => {
                all.push(*character);
                rest = &rest[written.len()..];
            }
            None => {
                all.push(*byte);
                rest = behind;
            }
        }
    }
    all
}

/// A log without its markup; one that has none passes unchanged.
pub(super) fn plain_text(log: &[u8]) -> Cow<'_, [u8]> {
    let Some(markup) = Markup::of(log) else {
        return Cow::Borrowed(log);
    };
    let mut within = Within::default();
    let lines = log
        .split(|byte| *byte == b'\n')
        .map(|line| markup.off(line, &mut within));
    Cow::Owned(lines.collect::<Vec<_>>().join(&b'\n'))
}

/// The same for a stream. `left_out` counts the bytes of the markup.
pub(super) fn plain<'a>(
    source: impl Read + Send + 'a,
    left_out: &'a AtomicU64,
) -> Box<dyn Read + Send + 'a> {
    let (head, source) = with_head(source, HEAD);
    let markup = Markup::of(&head);
    match markup {
        Some(markup) => Box::new(Plain {
            source,
            markup,
            within: Within::default(),
            left_out,
            line: Vec::new(),
            part: vec![0; PART],
            out: Cursor::new(Vec::new()),
        }),
        None => source,
    }
}

struct Plain<'a, R> {
    source: R,
    markup: Markup,
    within: Within,
    left_out: &'a AtomicU64,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    part: Vec<u8>,
    out: Cursor<Vec<u8>>,
}

impl<R: Read> Plain<'_, R> {
    /// Moves the line that was read to what is passed.
    fn take_line(&mut self, out: &mut Vec<u8>) {
        let mut plain = self.markup.off(&self.line, &mut self.within);
        let left_out = self.line.len().saturating_sub(plain.len());
        self.left_out.fetch_add(left_out as u64, Ordering::Relaxed);
        out.append(&mut plain);
        self.line.clear();
    }
}

impl<R: Read> LineSource for Plain<'_, R> {
    fn out(&mut self) -> &mut Cursor<Vec<u8>> {
        &mut self.out
    }

    fn fill(&mut self) -> io::Result<bool> {
        let size = self.source.read(&mut self.part)?;
        let mut out = std::mem::take(&mut self.out).into_inner();
        out.clear();
        let part = std::mem::take(&mut self.part);
        let mut rest = part.get(..size).unwrap_or_default();
        while let Some(end) = memchr(b'\n', rest) {
            self.line.extend_from_slice(&rest[..end]);
            self.take_line(&mut out);
            out.push(b'\n');
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        // A line that is longer than a part is one of no page.
        if size == 0 || self.line.len() > PART {
            self.take_line(&mut out);
        }
        (self.part, self.out) = (part, Cursor::new(out));
        Ok(size > 0)
    }
}

impl<R: Read> Read for Plain<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_lines(self, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: [&str; 7] = [
        "node-a:71:79 [0] NCCL INFO a",
        "",
        "[rank0]: Traceback (most recent call last):",
        "[rank0]:   File \"a.py\", line 7, in f",
        "  RuntimeError: it < b && c",
        "3: srun: error: it failed",
        "done",
    ];

    fn marked(mark: impl Fn(usize, &str) -> String) -> String {
        let lines = LINES.iter().enumerate();
        lines
            .map(|(number, line)| mark(number + 1, line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn read(text: &str) -> String {
        let mut all = String::new();
        let left_out = AtomicU64::new(0);
        let mut source = plain(text.as_bytes(), &left_out);
        source.read_to_string(&mut all).expect("text");
        drop(source);
        assert_eq!(left_out.into_inner(), (text.len() - all.len()) as u64);
        assert_eq!(plain_text(text.as_bytes()), all.as_bytes());
        all
    }

    #[test]
    fn marks_before_lines_are_taken_off() {
        let expected = LINES.join("\n");
        assert_eq!(read(&marked(|_, line| format!("> {line}"))), expected);
        assert_eq!(read(&marked(|_, line| format!("> > {line}"))), expected);
        assert_eq!(
            read(&marked(|_, line| format!(">>        {line}"))),
            expected
        );
        assert_eq!(read(&marked(|_, line| format!("| {line}"))), expected);
        assert_eq!(read(&marked(|_, line| format!("+{line}"))), expected);
        assert_eq!(
            read(&marked(|_, line| format!("    {line}"))).trim_ascii(),
            expected
        );
        assert_eq!(
            read(&marked(|at, line| format!("{}: {line}", 3 * at))),
            expected
        );
        assert_eq!(
            read(&marked(|at, line| format!("{at:4} | {line}"))),
            expected
        );
        assert_eq!(
            read(&marked(|at, line| format!("  {at}\t{line}"))),
            expected
        );
    }

    #[test]
    fn characters_of_a_page_are_what_they_stand_for() {
        let expected = LINES.join("\n");
        let written = |_, line: &str| {
            let line = line.replace('&', "&amp;").replace('<', "&lt;");
            format!("&gt; {}", line.replace(' ', "\u{a0}"))
        };
        assert_eq!(read(&marked(written)), expected);
        let bold = "**NCCL version 2.4.7**\n**node-a:71:79 [0] NCCL WARN it failed**\nplain";
        assert_eq!(
            read(bold),
            "NCCL version 2.4.7\nnode-a:71:79 [0] NCCL WARN it failed\nplain"
        );
    }

    #[test]
    fn sentences_of_a_person_around_quoted_lines_are_left_out() {
        let quoted = marked(|_, line| format!("> {line}"));
        let blanks = |lines: usize| "\n".repeat(lines);
        let of = |above: &str, below: &str| read(&format!("{above}\n{quoted}\n\n{below}"));
        let lines = LINES.join("\n");
        let above = "first I thought of an error, since they had\n\"NCCL WARN it failed\" last week, but not\n10 times.";
        assert_eq!(
            of(above, "It failed again."),
            format!("{}{lines}\n\n", blanks(3))
        );
        for said in [
            "CUDA error: out of memory",
            "E: it failed, as we said",
            "  we failed here",
            "Segmentation fault (core dumped)",
        ] {
            assert_eq!(of("", said), format!("\n{lines}\n\n{said}"));
        }
        let wrapped = format!("{quoted}\nwe come from the line above");
        assert_eq!(
            read(&wrapped),
            format!("{lines}\nwe come from the line above")
        );
        let fenced = "we saw it fail\n```\nwe failed\n```\nit failed, as we\nsaid, it failed";
        assert_eq!(read(fenced), "\n```\nwe failed\n```\n\n");
    }

    #[test]
    fn what_a_program_writes_before_its_lines_stays() {
        for text in [
            LINES.join("\n"),
            "> building\n> compiling\na\nb\nc\nd".to_owned(),
            "0: a\n1: b\n2: c\n3: d\n4: e\n5: f\n6: g".to_owned(),
            "1: a\n0: b\n2: c\n3: d\n4: e\n5: f\n6: g".to_owned(),
            "+----+\n|  a |\n+----+\n|  b |\n|  c |\n|  d |\n+----+".to_owned(),
            "# a\n# b\n# c\n# d\n# e\n# f\n".to_owned(),
            "1:02:03 a\n1:02:04 b\n1:02:05 c\n1:02:06 d\n1:02:07 e\n1:02:08 f".to_owned(),
            "*** a ***\n** b\n".to_owned(),
        ] {
            assert_eq!(read(&text), text);
        }
    }

    proptest! {
        #[test]
        fn lines_keep_their_numbers(text in "(> |>|\\||\\+|[0-9]:|\\*\\*|&gt;|&|;| |a|\n){0,60}") {
            let all = read(&text);
            prop_assert_eq!(all.matches('\n').count(), text.matches('\n').count());
        }
    }
}
