//! The lines of a log that this program reads: what is left of a log that leaves the machine.
//!
//! A log may hold anything: the shell session that started a job, whatever its program printed. No search finds every
//! name and every secret in it. So what leaves has only lines of forms that are known: those of NCCL and its plugins,
//! those with a signature, those that log or state an error or that say that a program waits, the frames of tracebacks,
//! and rows of numbers. For every other line stands a mark, so that lines keep their numbers, and a log goes on where it
//! went on.
//!
//! Not here: searching the lines that are left for names and secrets, which redaction does.
#![forbid(unsafe_code)]

use super::below::BelowText;
use super::benchmarks;
use super::catalogue::SignatureCatalogue;
use super::ends;
use super::front::Fronts;
use super::got_over;
use super::harness;
use super::help_text::{LINES_MAX, is_dashes};
use super::input;
use super::markup;
use super::native_stack;
use super::parser::{ParsedLine, Parser};
use super::seen::{Around, Place};
use super::shape;
use super::signature::Fact;
use super::source::is_quoted;
use super::traceback::{
    self, COUNTS_WITHIN, MORE_LINES, SOURCE_MAX, begins, done_with, in_front, is_before_writing,
    is_count_of_zero, is_frame, is_more, is_of_actor, is_rest, is_source, path_of,
};
use std::io::{self, Cursor, Read};

/// What stands for a line that is not known.
pub(super) const LEFT_OUT: &[u8] = b"[left out]";
/// The same beside a traceback, where the line says that the program got over it.
const GOT_OVER: &[u8] = b"[left out: retry]";
/// Longest text of a log, in bytes.
const TEXT_MAX: u64 = 64 << 20;
/// Numbers that a row of numbers has at least: the tables of benchmarks have more, a code or a date has fewer.
const ROW_NUMBERS_MIN: usize = 6;
/// Longest word in a row of numbers: a type, an operation, `N/A`.
const ROW_WORD_MAX: usize = 8;
/// Length of a rule, at least.
const RULE_MIN: usize = 8;
/// What is in every line of the NVIDIA driver in the kernel's log, and what Python and Ray write around tracebacks.
const OF_ITSELF: [&str; 12] = [
    " due to memory limitation",
    "selected yalla best",
    ", switch to ATL/OFI",
    ": is_single_node",
    "libuct_ib.so.0(uct_",
    "NVRM: ",
    "] ib_mlx5_log.c:",
    "Traceback (most recent call last)",
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
    "ray.exceptions.RayTaskError(",
    "NCCL version ",
];

/// Whether a line is nothing but a rule, which begins or ends a text of several lines.
fn is_rule(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.len() >= RULE_MIN && line.iter().all(|byte| matches!(byte, b'-' | b'='))
}

/// A log without the lines that are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownLines {
    /// The log; for a line that is not known stands `[left out]`.
    pub text: Vec<u8>,
    /// Lines that are not empty.
    pub lines: usize,
    /// How many of them are not known.
    pub left_out: usize,
}

impl KnownLines {
    /// As [`KnownLines::of`], of a log that may be compressed or UTF-16; also returns whether it was.
    ///
    /// # Errors
    /// It is damaged, of a compression that is not read, or its text is longer than 64 MiB.
    pub fn read(catalogue: &SignatureCatalogue, log: Vec<u8>) -> io::Result<(Self, bool)> {
        let opened = input::plain(Box::new(Cursor::new(log)))?;
        let mut text = Vec::new();
        opened.source.take(TEXT_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > TEXT_MAX {
            let message = format!("its text is longer than {} MiB", TEXT_MAX >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok((Self::of(catalogue, &text), opened.is_packed))
    }

    /// The lines of a log in plain text that are known.
    pub fn of(catalogue: &SignatureCatalogue, log: &[u8]) -> Self {
        let log = markup::plain_text(log);
        let log = super::terminal::whole_text(&log);
        let log = &*super::source::without_differences(&log);
        let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        let known = Search::new(catalogue, log, &lines).known();
        let has_tracebacks = begins(log);
        let (mut text, mut all, mut left_out) = (Vec::new(), 0, 0);
        for (number, (line, is_known)) in lines.iter().zip(&known).enumerate() {
            if number > 0 {
                text.push(b'\n');
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            all += 1;
            left_out += usize::from(!is_known);
            let is_beside = || {
                let next = lines.get(number + 1);
                let is_above = next.is_some_and(|next| begins(next));
                let is_behind = number.checked_sub(1).is_some_and(|before| known[before]);
                (is_above || is_behind) && got_over::says(line)
            };
            text.extend_from_slice(match is_known {
                true => line,
                false if has_tracebacks && is_beside() => GOT_OVER,
                false => Fronts::level_of(line).unwrap_or(LEFT_OUT),
            });
        }
        Self {
            text,
            lines: all,
            left_out,
        }
    }
}

/// The search for known lines.
struct Search<'a> {
    catalogue: &'a SignatureCatalogue,
    log: &'a [u8],
    lines: &'a [&'a [u8]],
    known: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(catalogue: &'a SignatureCatalogue, log: &'a [u8], lines: &'a [&'a [u8]]) -> Self {
        let known = vec![false; lines.len()];
        Self {
            catalogue,
            log,
            lines,
            known,
        }
    }

    /// For each line, whether it is known.
    fn known(mut self) -> Vec<bool> {
        let (mut parser, mut scratch) = (Parser::new(self.catalogue), Vec::new());
        let divides_by_zero = memchr::memmem::find(self.log, b"ZeroDivisionError").is_some();
        let writes = memchr::memmem::find(self.log, b"save_checkpoint").is_some();
        let lists_actors = memchr::memmem::find(self.log, b"Worker exit detail: ").is_some();
        let mut start = 0;
        // What a logger writes in front of each line of the traceback that was read last.
        let mut logger: &[u8] = b"";
        for (number, raw) in self.lines.iter().enumerate() {
            let line = raw.strip_suffix(b"\r").unwrap_or(raw);
            let line = shape::without_escapes(line, &mut scratch);
            // Without the lines around it, of which most are not known, it would be taken for an error.
            if is_quoted(self.log, start, line) {
                start += raw.len() + 1;
                continue;
            }
            let joined = super::wrapped::join(line, &self.log[start + raw.len()..]);
            let (line, more) = match &joined {
                Some(joined) => (joined.text.as_slice(), joined.lines),
                None => (line, 0),
            };
            let parsed = parser.parse(line);
            logger = traceback::logger(raw).unwrap_or(logger);
            let is_logged =
                !logger.is_empty() && traceback::is_within(raw, logger) && raw.starts_with(logger);
            let is_of_traceback = is_logged
                || divides_by_zero && is_count_of_zero(line)
                || writes && is_before_writing(line)
                || lists_actors && is_of_actor(line)
                || super::compose::is_torn_prefix(raw)
                || is_rule(line)
                || benchmarks::largest_size(line).is_some()
                || self.is_torn_row(number, line)
                || self.is_torn_start(number)
                || super::compose::tells_beside(line);
            if is_known(parsed, line) || is_of_traceback {
                self.mark(number, 1 + more);
            }
            if native_stack::is_wrapped(line) {
                self.mark(number + 1, 1);
            }
            if let Some(path) = path_of(line) {
                self.mark_before(number, path);
            }
            let goes_on = line.trim_ascii_end().ends_with(b":") && says_error(parsed, line)
                || super::compose::is_open_message(line);
            let next = self.lines.get(number + 1);
            if goes_on && next.is_some_and(|next| next.starts_with(b" ")) {
                self.mark(number + 1, 1);
            }
            let below = self.lines.iter().skip(number + 1);
            let below = below.take(in_front(line).map_or(0, |_| MORE_LINES));
            let more: Vec<usize> = (number + 1..)
                .zip(below)
                .filter(|(_, next)| is_more(line, next))
                .map(|(number, _)| number)
                .collect();
            more.into_iter().for_each(|number| self.mark(number, 1));
            let end = start + raw.len();
            self.mark_behind(
                number,
                parsed,
                line,
                Around {
                    block: self.log,
                    start,
                    end,
                },
            );
            start = end + 1;
        }
        self.mark_help_texts();
        self.known
    }

    /// Whether the last line is a row of a table that is torn: the line before it is a known row, or its head.
    fn is_torn_row(&self, number: usize, line: &[u8]) -> bool {
        let mut behind = self.lines.iter().skip(number + 1);
        let before = number.checked_sub(1);
        let is_below_row = before.is_some_and(|before| {
            let above = self.lines[before];
            self.known[before]
                && (benchmarks::size_of_row(above).is_some()
                    || benchmarks::benchmark_of_head(above).is_some())
        });
        is_below_row
            && benchmarks::size_of_row(line).is_some()
            && behind.all(|line| line.is_empty())
    }

    /// Whether the last line is no more than how the known line before it begins.
    fn is_torn_start(&self, number: usize) -> bool {
        let before = number.checked_sub(1).filter(|before| self.known[*before]);
        let line = self.lines[number];
        let is_start = before.is_some_and(|before| self.lines[before].starts_with(line));
        is_start && !line.is_empty() && number + 1 == self.lines.len()
    }

    fn mark(&mut self, first: usize, count: usize) {
        self.known
            .iter_mut()
            .skip(first)
            .take(count)
            .for_each(|known| *known = true);
    }

    /// Marks the lines before an exception that tell what was done with the path in its message.
    fn mark_before(&mut self, number: usize, path: &[u8]) {
        let mut within = COUNTS_WITHIN;
        for before in (0..number).rev() {
            let Some(left) = within.checked_sub(self.lines[before].len() + 1) else {
                return;
            };
            within = left;
            if done_with(path, self.lines[before]).is_some() {
                self.mark(before, 1);
            }
        }
    }

    /// Marks the lines that complete one: its list, the code of a frame, a warning that it announces, the rows of its
    /// table.
    fn mark_behind(&mut self, number: usize, parsed: &ParsedLine, line: &[u8], around: Around<'_>) {
        if is_frame(line) {
            let source = self.lines.iter().skip(number + 2).take(SOURCE_MAX);
            let more = source.take_while(|line| is_source(line)).count();
            self.mark(number + 1, 1 + more);
        }
        for record in &parsed.records {
            for found in &record.found {
                let signature = &self.catalogue.signatures[found.signature];
                if signature.below.is_some() {
                    self.mark(number + 1, BelowText::of(Place::default(), around).lines());
                }
                if signature.fact == Some(Fact::LastWarning) {
                    self.mark(number + 1, 1);
                }
            }
            let behind = around.block.get(around.end + 1..).unwrap_or_default();
            if record.harness.is_some() {
                let rows = harness::rows_of_table(record.record(line).message, behind);
                for row in rows {
                    self.mark(number + 1 + row as usize, 1);
                }
            }
        }
    }

    /// Marks each help text of which a line is known.
    fn mark_help_texts(&mut self) {
        let dashes: Vec<usize> = (0..self.lines.len())
            .filter(|number| is_dashes(self.lines[*number]))
            .collect();
        for ends in dashes.windows(2) {
            let [first, last] = [ends[0], ends[1]];
            let size = last - first;
            if size <= LINES_MAX + 1 && self.known[first..last].contains(&true) {
                self.mark(first, size + 1);
            }
        }
    }
}

/// Whether a line is an error of a program, whose message may go on below.
fn says_error(parsed: &ParsedLine, line: &[u8]) -> bool {
    let mut records = parsed.records.iter();
    records.any(|record| record.found.is_empty() && record.error(line).is_some())
}

/// Whether a line is of a known form by itself.
fn is_known(parsed: &ParsedLine, line: &[u8]) -> bool {
    let says = parsed.records.iter().any(|record| {
        !record.found.is_empty()
            || record.error(line).is_some()
            || record.notice(line).is_some()
            || record.stated(line).is_some()
    });
    says || is_rest(line)
        || native_stack::is_frame(line)
        || super::by_hand::is_sign(line)
        || super::by_hand::begins_thread(line)
        || super::compose::is_torn_report(line)
        || got_over::ignores(line)
        || shape::record_at(line, line.len()).0.has_level()
        || is_frame(line)
        || is_row(line)
        || super::measured::row(line).is_some()
        || super::traceback_box::tells(line)
        || ends::waits(line).is_some()
        || benchmarks::benchmark_of_head(line).is_some()
        || OF_ITSELF
            .iter()
            .any(|words| memchr::memmem::find(line, words.as_bytes()).is_some())
}

/// Whether a line is a row of a benchmark's table: numbers and short words.
fn is_row(line: &[u8]) -> bool {
    let is_number = |word: &[u8]| {
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        digits > 0 && word.iter().all(|byte| b"0123456789.,+-e%x".contains(byte))
    };
    let is_word = |word: &[u8]| {
        word.len() <= ROW_WORD_MAX
            && word
                .iter()
                .all(|byte| b"/|()".contains(byte) || byte.is_ascii_alphabetic())
    };
    let (mut numbers, mut others) = (0, 0);
    for word in line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
    {
        match word {
            word if is_number(word) => numbers += 1,
            word if is_word(word) => others += 1,
            _ => return false,
        }
    }
    numbers >= ROW_NUMBERS_MIN && others < numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(log: &str) -> String {
        let catalogue = SignatureCatalogue::embedded().expect("sound");
        String::from_utf8(KnownLines::of(&catalogue, log.as_bytes()).text).expect("text")
    }

    #[test]
    fn a_line_of_no_known_form_is_left_out() {
        let log = "$ hostname\nnode-7\nnode0:71:79 [3] NCCL INFO a line\n\nepoch 3 loss 0.4\n\
            node0:71:79 [3] transport/net_ib.cc:77 NCCL WARN what nobody has seen\r\nthe end";
        let expected = "[left out]\n[left out]\nnode0:71:79 [3] NCCL INFO a line\n\n[left out]\n\
            node0:71:79 [3] transport/net_ib.cc:77 NCCL WARN what nobody has seen\r\n[left out]";
        assert_eq!(known(log), expected);
        let catalogue = SignatureCatalogue::embedded().expect("sound");
        let counted = KnownLines::of(&catalogue, log.as_bytes());
        assert_eq!((counted.lines, counted.left_out), (6, 4));
    }

    #[test]
    fn what_completes_a_line_is_known_with_it() {
        let all = [
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\n    step(batch)\nKeyError: 'a'\n",
            "    8388608       2097152     float     sum      -1    190.1   44.13   82.75      0    189.9   44.17   82.82      0\n",
            "ssh: connect to host node-b port 22: Connection refused\n",
        ];
        for log in all {
            assert_eq!(known(log), log);
        }
    }

    #[test]
    fn numbers_alone_are_no_row() {
        for line in ["123456", "8675309 4821 77", "2026-11-20 08:14:04 login", ""] {
            assert!(!is_row(line.as_bytes()), "{line}");
        }
    }
}
