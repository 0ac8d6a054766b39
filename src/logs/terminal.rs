//! A log whose lines a terminal or a page cut at its width: each goes on in the next line.
//!
//! A terminal cuts within words, and a mail behind the last word that has room.
//!
//! The whole log shows that it is cut: no line is wider than the page, many have its very width, and what follows most
//! of these begins within a word and not as the lines do that follow a short line. A table, a progress bar or a dump
//! has lines of one width, which all begin alike. Such a log is read as it was written. The lines are joined where the
//! first of them is, and the numbers of all others stay: empty lines are left behind.
//!
//! Not here: a single line that was wrapped at the end of a word (`wrapped`), and what a page puts before its lines
//! (`markup`).
#![forbid(unsafe_code)]

use super::digits;
use super::input::{LineSource, read_lines, with_head};
use memchr::{memchr, memrchr};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Cursor, Read};

/// Bytes at the front of a log from which its width is told.
const HEAD: usize = 16 * 1024;
const PART: usize = 64 * 1024;
/// Widths of terminals and pages.
const WIDTHS: std::ops::RangeInclusive<usize> = 72..=240;
const WIDTHS_OF_MAIL: std::ops::RangeInclusive<usize> = 72..=100;
/// Cuts of different places that a log must have.
const CUTS_MIN: usize = 3;
const CUTS_OF_MAIL_MIN: usize = 3;
/// Characters by which a line may be shorter than the page that ends with its last word.
const NEARLY: usize = 8;
/// Most lines of which a line is joined.
const LINES_MAX: usize = 12;
/// Characters at the front of a line by which its form is told, and on both sides of a cut by which its place is.
const FRONT: usize = 24;
const BESIDE: usize = 8;

/// How the lines of a log are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    width: usize,
    /// Whether lines are cut between words only.
    keeps_words: bool,
    /// The forms of lines that certainly begin as they were written: they follow a short one.
    fronts: BTreeSet<Vec<u8>>,
}

impl Page {
    /// The page of a log that begins so, if it is cut.
    fn of(head: &[u8]) -> Option<Self> {
        let head = match head.get(..HEAD) {
            Some(front) => &front[..memrchr(b'\n', front)?],
            None => head,
        };
        let widths = head.split(|byte| *byte == b'\n').map(width);
        let width = widths.max().filter(|width| WIDTHS.contains(width))?;
        let lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').map(text).collect();
        Self::within_words(width, &lines).or_else(|| Self::behind_words(width, &lines))
    }

    fn new(width: usize, keeps_words: bool, lines: &[&[u8]]) -> Self {
        let mut page = Self {
            width,
            keeps_words,
            fronts: BTreeSet::new(),
        };
        let mut before: &[u8] = b"";
        for line in lines {
            if !page.is_full(before, line) && !line.is_empty() {
                page.fronts.insert(front(line));
            }
            before = line;
        }
        page
    }

    /// The page of a terminal.
    fn within_words(width_of_all: usize, lines: &[&[u8]]) -> Option<Self> {
        let page = Self::new(width_of_all, false, lines);
        let full: Vec<(&[u8], &[u8])> = pairs(lines)
            .filter(|(line, next)| page.is_full(line, next))
            .collect();
        // Lines that end with their last word are not all of one width.
        let nearly = width_of_all - NEARLY..width_of_all;
        let nearly = pairs(lines).filter(|(line, _)| nearly.contains(&width(line)));
        let nearly = nearly
            .filter(|(line, next)| page.is_cut(line, next))
            .count();
        let cuts = full.iter().filter(|(line, next)| page.is_cut(line, next));
        let cuts: Vec<(&[u8], &[u8])> = cuts.copied().collect();
        let is_it = places(&cuts) >= CUTS_MIN
            && cuts.iter().any(|(line, next)| is_within_word(line, next))
            && cuts.len() * 3 >= full.len() * 2
            && nearly * 3 < cuts.len();
        is_it.then_some(page)
    }

    /// The page of a mail: what is behind a line had no room in it. Where plain words follow lines with a header that
    /// had room for them, they are lines of their own.
    fn behind_words(width_of_all: usize, lines: &[&[u8]]) -> Option<Self> {
        if !WIDTHS_OF_MAIL.contains(&width_of_all) {
            return None;
        }
        let page = Self::new(width_of_all, true, lines);
        // A text of other programs may have lines of any length.
        let (cuts, others): (Vec<_>, Vec<_>) = pairs(lines)
            .filter(|(line, next)| has_rank_or_process(line) && page.is_cut(line, next))
            .partition(|(line, next)| page.is_full(line, next));
        let of_header = others.iter().filter(|(line, _)| page.has_header(line));
        let is_it = places(&cuts) >= CUTS_OF_MAIL_MIN && of_header.count() * 4 <= cuts.len();
        is_it.then_some(page)
    }

    /// Whether a line has no room for more.
    fn is_full(&self, line: &[u8], next: &[u8]) -> bool {
        if !self.keeps_words {
            return width(line) == self.width;
        }
        let word = next.split(|byte| *byte == b' ').next().unwrap_or_default();
        let size = width(line);
        (self.width / 2 + 1..=self.width).contains(&size)
            && size + usize::from(!line.ends_with(b" ")) + width(word) > self.width
    }

    /// Whether a line goes on in the next one, by their forms.
    fn is_cut(&self, line: &[u8], next: &[u8]) -> bool {
        front(line) != front(next) && !self.begins(next)
    }

    /// Whether a line begins as it was written.
    fn begins(&self, line: &[u8]) -> bool {
        line.is_empty()
            || line.starts_with(b"  ")
            || line.starts_with(b"\t")
            || line.starts_with(b"Traceback ")
            || has_rank_or_process(line)
            || self.has_header(line)
    }

    /// Whether a line has more than words at its front, as others that begin as they were written.
    fn has_header(&self, line: &[u8]) -> bool {
        let front = front(line);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
        !front.iter().all(is_plain) && self.fronts.contains(&front)
    }

    /// Whether a line goes on in the next one.
    fn goes_on(&self, line: &[u8], next: &[u8]) -> bool {
        let is_full = self.is_full(text(line), text(next)) && width(next) <= self.width;
        is_full && !is_rule(line) && !self.begins(text(next))
    }
}

/// Whether a line begins with a rank, `[rank0]:`, with a level and a time, `[E1120`, or with a process of NCCL,
/// `node-a:71:80 [0]`.
fn has_rank_or_process(line: &[u8]) -> bool {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let [first, second] = [words.next(), words.next()].map(Option::unwrap_or_default);
    let is_level = |rest: &[u8]| matches!(rest, [level, digit, ..] if b"EWIF".contains(level) && digit.is_ascii_digit());
    let is_bracket = first
        .strip_prefix(b"[")
        .is_some_and(|rest| is_level(rest) || memchr::memmem::find(rest, b"]:").is_some());
    let mut parts = first.rsplit(|byte| *byte == b':');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    let is_process = is_number(parts.next()) && is_number(parts.next()) && parts.next().is_some();
    is_bracket || is_process && second.starts_with(b"[")
}

/// Each line with the next.
fn pairs<'a>(lines: &[&'a [u8]]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let next = lines.iter().skip(1);
    lines.iter().zip(next).map(|(line, next)| (*line, *next))
}

/// How many different places cuts are at.
fn places(cuts: &[(&[u8], &[u8])]) -> usize {
    let places = cuts.iter().map(|(line, next)| place(line, next));
    places.collect::<BTreeSet<Vec<u8>>>().len()
}

/// A line without the end that a terminal writes.
fn text(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The number of characters of a line.
fn width(line: &[u8]) -> usize {
    let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
    text(line).iter().filter(begins).count()
}

/// Whether a line repeats one character.
fn is_rule(line: &[u8]) -> bool {
    text(line).windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether a word begins in a line and ends in the next.
fn is_within_word(line: &[u8], next: &[u8]) -> bool {
    let is_of_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_of_word(line.last()) && is_of_word(next.first())
}

/// The form of the front of a line: a letter for each word, and a digit for each number.
fn front(line: &[u8]) -> Vec<u8> {
    form(&line[..line.len().min(FRONT)])
}

/// The form of what is on both sides of a cut.
fn place(line: &[u8], next: &[u8]) -> Vec<u8> {
    let before = &line[line.len().saturating_sub(BESIDE)..];
    let behind = &next[..next.len().min(BESIDE)];
    digits::form(&[before, behind].concat())
}

fn form(text: &[u8]) -> Vec<u8> {
    let kind = |byte: &u8| match byte {
        b'0'..=b'9' => b'0',
        byte if byte.is_ascii_alphabetic() => b'a',
        other => *other,
    };
    let mut form: Vec<u8> = text.iter().map(kind).collect();
    form.dedup();
    form
}

/// A log as it was written; one that is not cut passes unchanged.
pub(super) fn whole_text(log: &[u8]) -> Cow<'_, [u8]> {
    let Some(page) = Page::of(log) else {
        return Cow::Borrowed(log);
    };
    let mut whole = Whole::new(page);
    let mut out = Vec::with_capacity(log.len());
    let mut lines = log.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() || !line.is_empty() {
            whole.take(line, lines.peek().is_some(), &mut out);
        }
    }
    whole.end(&mut out);
    Cow::Owned(out)
}

/// The same for a stream.
pub(super) fn whole<'a>(source: impl Read + Send + 'a) -> Box<dyn Read + Send + 'a> {
    let (head, source) = with_head(source, HEAD);
    let page = Page::of(&head);
    match page {
        Some(page) => Box::new(Lines {
            source,
            whole: Whole::new(page),
            line: Vec::new(),
            is_long: false,
            part: vec![0; PART],
            out: Cursor::new(Vec::new()),
        }),
        None => source,
    }
}

/// The lines of a log that is cut, joined.
struct Whole {
    page: Page,
    /// What is joined so far, where the last of its lines begins, and their number.
    joined: Vec<u8>,
    last: usize,
    lines: usize,
    /// Whether the last line has an end.
    is_ended: bool,
}

impl Whole {
    fn new(page: Page) -> Self {
        Self {
            page,
            joined: Vec::new(),
            last: 0,
            lines: 0,
            is_ended: true,
        }
    }

    /// Takes a line, and passes what is before it if it begins another one.
    fn take(&mut self, line: &[u8], is_ended: bool, out: &mut Vec<u8>) {
        let last = &self.joined[self.last.min(self.joined.len())..];
        let goes_on = (1..LINES_MAX).contains(&self.lines)
            && self.page.goes_on(last, line)
            && (!self.page.keeps_words || has_rank_or_process(&self.joined));
        if goes_on {
            self.joined.truncate(text(&self.joined).len());
            if self.page.keeps_words && !self.joined.ends_with(b" ") {
                self.joined.push(b' ');
            }
        } else {
            self.end(out);
        }
        self.last = self.joined.len();
        self.joined.extend_from_slice(line);
        self.lines += 1;
        self.is_ended = is_ended;
    }

    /// Passes the lines that are joined.
    fn end(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.joined);
        let ends = self.lines.saturating_sub(usize::from(!self.is_ended));
        out.resize(out.len() + ends, b'\n');
        self.lines = 0;
    }
}

struct Lines<R> {
    source: R,
    whole: Whole,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    /// Whether the line is longer than a part, and so than any page: it passes at once.
    is_long: bool,
    part: Vec<u8>,
    out: Cursor<Vec<u8>>,
}

impl<R: Read> LineSource for Lines<R> {
    fn out(&mut self) -> &mut Cursor<Vec<u8>> {
        &mut self.out
    }

    fn fill(&mut self) -> io::Result<bool> {
        let size = self.source.read(&mut self.part)?;
        let mut out = std::mem::take(&mut self.out).into_inner();
        out.clear();
        let mut rest = self.part.get(..size).unwrap_or_default();
        while let Some(end) = memchr(b'\n', rest) {
            if std::mem::take(&mut self.is_long) {
                out.extend_from_slice(&rest[..=end]);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                self.whole.take(&self.line, true, &mut out);
                self.line.clear();
            }
            rest = &rest[end + 1..];
        }
        if !self.is_long && self.line.len() + rest.len() > PART {
            self.is_long = true;
            self.whole.end(&mut out);
            out.append(&mut self.line);
        }
        if self.is_long {
            out.extend_from_slice(rest);
        } else {
            self.line.extend_from_slice(rest);
        }
        if size == 0 {
            if !self.line.is_empty() {
                self.whole.take(&self.line, false, &mut out);
                self.line.clear();
            }
            self.whole.end(&mut out);
        }
        self.out = Cursor::new(out);
        Ok(size > 0)
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_lines(self, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// A log as a terminal of a width cuts it.
    fn cut(log: &str, width: usize) -> String {
        let mut text = String::new();
        for line in log.lines() {
            let letters: Vec<char> = line.chars().collect();
            if letters.is_empty() {
                text.push('\n');
            }
            for part in letters.chunks(width) {
                text.extend(part);
                text.push('\n');
            }
        }
        text
    }

    fn log() -> String {
        let mut log = String::new();
        for rank in 0..4 {
            let pid = 71 + rank;
            writeln!(log, "node-a:{pid}:{pid} [{rank}] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin instead of an external one, as none is there.").unwrap();
            writeln!(
                log,
                "node-a:{pid}:{pid} [{rank}] NCCL INFO Using network IB"
            )
            .unwrap();
            writeln!(log, "node-a:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x5581aa000000 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId 1b000 commId 0x91be77d1c0aa3e10 - Init COMPLETE").unwrap();
        }
        log.push_str("epoch 0 | step     1 | loss 3.9900\n\n");
        log.push_str("node-a:71:80 [0] transport/net_ib.cc:2133 NCCL WARN NET/IB: Got completion from peer 10.0.0.226<54862> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(0) reqSize=0 vendor_err=129 req_type=Send\n");
        log
    }

    fn read(log: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        whole(log).read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn a_log_that_is_cut_is_read_as_it_was_written() {
        // Few of its lines are longer than that.
        for width in 72..=132 {
            let log = log();
            let text = cut(&log, width);
            for (log, text) in [
                (log.clone(), text.clone()),
                (log.clone(), text.replace('\n', "\r\n")),
            ] {
                let whole = whole_text(text.as_bytes()).into_owned();
                let whole = String::from_utf8(whole).unwrap();
                assert_eq!(whole.lines().count(), text.lines().count());
                let has = |line: &&str| whole.lines().any(|one| one == *line);
                let lost: Vec<&str> = log.lines().filter(|line| !has(line)).collect();
                assert_eq!(lost, [""; 0], "{width}: {whole}");
                assert_eq!(read(text.as_bytes()), whole.as_bytes());
                let open = text.trim_end();
                assert_eq!(read(open.as_bytes()), whole_text(open.as_bytes()).as_ref());
            }
        }
    }

    #[test]
    fn a_log_that_a_mail_wrapped_is_read_as_it_was_written() {
        for width in [76, 78, 80] {
            // A plain line of a program right behind a full one is taken for its rest.
            let log = log().replace("epoch 0", "\nepoch 0");
            let mut text = String::new();
            for line in log.lines() {
                let mut size = 0;
                for word in line.split_inclusive(' ') {
                    if size > 0 && size + word.trim_end().len() > width {
                        text.truncate(text.trim_end().len());
                        text.push('\n');
                        size = 0;
                    }
                    text.push_str(word);
                    size += word.len();
                }
                text.push('\n');
            }
            let whole = String::from_utf8(read(text.as_bytes())).unwrap();
            let has = |line: &&str| whole.lines().any(|one| one == *line);
            let lost: Vec<&str> = log.lines().filter(|line| !has(line)).collect();
            assert_eq!(lost, [""; 0], "{width}: {text}\n{whole}");
        }
    }

    #[test]
    fn a_log_that_no_mail_wrapped_is_not_joined() {
        let lines = |lines: &[&str]| lines.join("\n").repeat(6);
        let of_nccl = lines(&[
            "node-a:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.0.1.25<0>",
            "node-a:71:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.25<0> [1]eth1:10.0.1.26<0>",
            "NCCL version 2.21.5+cuda12.4",
            "node-a:71:80 [0] NCCL INFO Setting affinity for GPU 0 to ffff,ffffffff",
            "epoch 0 | step     1 | loss 3.9900 | grad_norm 1.0 | 412.0 ms/step",
            "",
        ]);
        let of_torch = lines(&[
            "[rank0]: Traceback (most recent call last):",
            "[rank0]:   File \"/app/train.py\", line 159, in <module>",
            "[rank0]:     engine, _, _, _ = deepspeed.initialize(model=model, config=config)",
            "[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77,",
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
            "Last error:",
            "socketProgress: Connection closed by remote peer node-b<49112>",
            "",
        ]);
        let of_program = lines(&[
            "2026-11-20 08:14:04,531 INFO loading the model, which takes some minutes here",
            "weights: 17 files",
            "2026-11-20 08:14:05,531 INFO serving",
            "All communicators are ready; the first request is served a little slower than",
            "2026-11-20 08:14:06,531 INFO done",
            "",
        ]);
        for log in [of_nccl, of_torch, of_program] {
            assert_eq!(read(log.as_bytes()), log.as_bytes());
        }
        // A log of short lines, at whichever width its widest line is.
        for width in WIDTHS_OF_MAIL {
            let log = log();
            let short = log.lines().filter(|line| line.len() <= width);
            let short = short.collect::<Vec<_>>().join("\n") + &"x".repeat(width);
            assert_eq!(read(short.as_bytes()), short.as_bytes());
        }
    }

    #[test]
    fn a_healthy_log_of_one_width_is_not_joined() {
        let table: String = (3..40)
            .map(|size| {
                let size = 1_u64 << size;
                format!("{size:>12} {size:>13}     float     sum      -1    19342   55.51  110.92      0    19201   55.92\n")
            })
            .collect();
        let named: String = (0..40)
            .map(|host| {
                let host = format!("node-{host}");
                format!("{host:<20} gpu0 ok gpu1 ok gpu2 ok gpu3 ok gpu4 ok gpu5 ok gpu6 ok gpu7 ok 400 Gbps up\n")
            })
            .collect();
        let bars: String = (0..40)
            .map(|step| {
                format!(
                    "Epoch {step:>3}: {:#<40} | {step:>3}/40 [00:07<00:01, 1.50it/s, loss 0.25]\n",
                    ""
                )
            })
            .collect();
        let dump: String = (0..40)
            .map(|line| {
                format!(
                    "{:08x}: 0000 1111 2222 3333 4444 5555 6666 7777 8888 9999 aaaa bbbb cccc\n",
                    line * 32
                )
            })
            .collect();
        let rules = format!("{}\nresults\n", "-".repeat(80)).repeat(8);
        let repeated = format!(
            "{}\nsee the manual\n",
            "node-a: a warning ".repeat(5).trim()
        )
        .repeat(8);
        for log in [table, named, bars, dump, rules, repeated, log()] {
            assert_eq!(Page::of(log.as_bytes()), None, "{log}");
            assert_eq!(read(log.as_bytes()), log.as_bytes());
        }
    }

    #[test]
    fn what_begins_as_others_do_is_a_line_of_its_own() {
        let log = format!(
            "{}{}",
            log(),
            "node-a:71:71 [0] NCCL INFO a line of the very width of this page, no more no\nnode-a:71:71 [0] NCCL INFO b\n"
        );
        let text = cut(&log, 76);
        let whole = whole_text(text.as_bytes()).into_owned();
        assert!(
            String::from_utf8(whole)
                .unwrap()
                .ends_with("no more no\nnode-a:71:71 [0] NCCL INFO b\n")
        );
    }

    #[test]
    fn a_line_longer_than_a_part_passes_and_is_not_kept() {
        let long = "x".repeat(3 * PART);
        for behind in [format!("{long}\nb\n"), long.clone()] {
            let text = format!("{}{behind}", cut(&log(), 76));
            let whole = read(text.as_bytes());
            assert!(whole.ends_with(behind.as_bytes()));
            assert_eq!(whole, whole_text(text.as_bytes()).as_ref());
        }
    }
}
