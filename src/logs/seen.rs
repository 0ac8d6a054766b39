//! The lines of one signature or of one shape: how many, where, and the first of them.
#![forbid(unsafe_code)]

use super::any_of::AnyOf;
use super::below::{self, BelowText};
use super::fields::Polls;
use super::native_stack;
use super::shape::record_at;
use super::traceback::Traceback;
use super::word::{after, has};
use memchr::memmem::Finder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Most pairs of a shape and a speaker whose last line is kept; 2 MiB at most.
pub(super) const LASTS_MAX: usize = 32_768;
/// Most functions per signature and speaker.
const SITES_MAX: usize = 4;
pub(super) const SAMPLE_BYTES: usize = 400;
/// Bytes of a sample whose values are read by a regex: what it captures may be far behind.
pub(super) const VALUES_SAMPLE_BYTES: usize = 1200;
/// Bytes of a sample before the text that was found, if the line is too long to be whole.
const SAMPLE_BEFORE: usize = 120;
/// Bytes of a sample from the text that was found on, at least.
const SAMPLE_AFTER: usize = 120;
/// Lines that are kept before an unknown error, and bytes of each; they are searched within so many bytes.
const CONTEXT_BEFORE: usize = 3;
const CONTEXT_BYTES: usize = 200;
const CONTEXT_WITHIN: usize = 4096;
/// What precedes a rank in a line.
const RANK: &[u8] = b"ank";
/// Most ranks that lines of one error name.
const RANKS_MAX: usize = 64;
/// Most values of one kind per speaker.
const VALUES_MAX: usize = 8;
pub(super) const VALUE_BYTES: usize = 200;

/// Bytes of a rank in a set, with its share of a node.
const RANK_BYTES: usize = 16;
/// Longest PCI address, and with the number of an Xid.
const GPU_BYTES: usize = 16;
const GPU_TEXT_BYTES: usize = GPU_BYTES + 11;

/// The number of the Xid that a line is about: of the earlier one that it names, or its own.
fn xid(text: &[u8]) -> Option<&[u8]> {
    let finds = |words: &[u8]| memchr::memmem::find(text, words).map(|at| at + words.len());
    let at = finds(b"previous Xid ").or_else(|| finds(b"): "))?;
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let size = digits.count();
    (1..=4).contains(&size).then(|| &text[at..at + size])
}

/// The place of a line: index of the file, and line number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    pub file: u32,
    pub line: u64,
}

/// A line that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedLine<'a> {
    pub place: Place,
    pub time_us: Option<i64>,
    /// Function and source line of a WARN.
    pub site: Option<(&'a [u8], u32)>,
    pub text: &'a [u8],
    /// The offset in `text` that a sample must show.
    pub at: usize,
    pub around: Around<'a>,
    /// Whether the lines below complete it.
    pub has_below: bool,
    /// Whether it is the last line of a traceback.
    pub has_frames: bool,
    /// Whether it is of a GPU's driver, which says of which GPU.
    pub names_gpu: bool,
    /// Whether its text may name a rank, for lines of which more are kept.
    pub names_rank: bool,
    /// Most bytes of a sample.
    pub sample_max: usize,
    /// Whether the lines beside the first are kept, for what they name.
    pub keeps_near: bool,
}

impl CountedLine<'_> {
    /// The traceback that it ends.
    fn traceback(&self) -> Option<Box<Traceback>> {
        self.has_frames
            .then(|| Box::new(Traceback::of(self.text, self.around)))
    }

    /// The PCI address of the GPU that it is about: `Xid (PCI:0000:dc:00): 149`.
    fn gpu(&self) -> Option<Vec<u8>> {
        let text = self.names_gpu.then_some(self.text)?;
        let address = &text[memchr::memmem::find(text, b"(PCI:")? + b"(PCI:".len()..];
        let address = &address[..address.len().min(GPU_BYTES)];
        let is_of_it = |byte: &&u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
        let size = address.iter().take_while(is_of_it).count();
        let code = xid(text).map_or(Vec::new(), |code| [b" (Xid ", code, b")"].concat());
        (size > 0).then(|| [&address[..size], &code].concat())
    }

    /// The rank that an error names: `Global rank: 13`.
    fn named_rank(&self) -> Option<u32> {
        let text = (self.keeps_near && self.names_rank).then_some(self.text)?;
        let behind = after!(text, RANK)?;
        let marks = behind.iter().take_while(|byte| b" :=[".contains(byte));
        let behind = &behind[marks.count()..];
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit());
        str::from_utf8(&behind[..digits.count()]).ok()?.parse().ok()
    }

    /// The lines beside it, if these are kept.
    fn near(&self) -> Option<Box<NearLines>> {
        if !self.keeps_near {
            return None;
        }
        let lines = if crashes(self.text) {
            self.around.stack(process(self.text))
        } else {
            self.around.near(self.text.trim_ascii_end().ends_with(b":"))
        };
        Some(Box::new(NearLines {
            lines,
            ranks: self.named_rank().into_iter().collect(),
            is_final: !may_be_told(self.text),
        }))
    }

    /// The lines below, if they complete it and would be among those that are kept.
    fn below(&self, kept: &[BelowText]) -> Option<BelowText> {
        let takes = self.has_below && below::takes(kept, self.place);
        takes.then(|| BelowText::of(self.place, self.around))
    }
}

/// Lines that are kept on each side of the first line of an error, and bytes of each.
const NEAR_LINES: usize = 3;
const NEAR_BYTES: usize = 240;
/// Lines that are kept below one that announces a list.
const OPENED_LINES: usize = 8;

/// The same of the stack of a crash, and bytes behind its line that are searched for it.
const STACK_LINES: usize = 24;
const STACK_WITHIN: usize = 8192;

/// The process in front of a line of Open MPI, `[node-a:71] `, or nothing.
fn process(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_end();
    let end = memchr::memchr(b']', line).filter(|_| line.starts_with(b"["));
    let name = end.map_or(&b""[..], |end| &line[..=end]);
    // UCX names thread and process too, and writes its stack without a prefix.
    let is_of_process = memchr::memchr_iter(b':', name).count() == 1 && !name.contains(&b' ');
    if is_of_process { name } else { b"" }
}

/// The lines beside a line, those behind it first, and the ranks that the lines of its kind name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NearLines {
    lines: Vec<Vec<u8>>,
    ranks: BTreeSet<u32>,
    /// Whether the first line is known to be one that [`tells_more`] has no other line for.
    is_final: bool,
}

/// Where a line is in its block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around<'a> {
    pub block: &'a [u8],
    pub start: usize,
    pub end: usize,
}

/// The rank of a line as `--rank` selects it.
fn rank(line: &[u8]) -> Option<u32> {
    let (record, ..) = record_at(line, line.len());
    record.rank().or(record.gpu())
}

impl Around<'_> {
    /// Whether a line is not empty, and of the same rank as far as both lines have one: a launcher mixes
    /// what ranks write.
    fn is_beside(&self) -> impl Fn(&&[u8]) -> bool {
        let own = self.block.get(self.start..self.end).and_then(rank);
        let is_of_rank =
            move |line: &[u8]| own.is_none() || rank(line).is_none_or(|one| Some(one) == own);
        move |line| !line.trim_ascii().is_empty() && is_of_rank(line)
    }

    /// The lines beside it, nearest first: those behind it, and then those before it.
    fn near(&self, is_opened: bool) -> Vec<Vec<u8>> {
        let is_beside = self.is_beside();
        let after = self.block.get(self.end..).unwrap_or_default();
        let after = &after[..after.len().min(CONTEXT_WITHIN)];
        let after = after.split(|byte| *byte == b'\n').filter(&is_beside);
        let own = self.block.get(self.start..self.end).unwrap_or_default();
        let (behind, ahead) = match is_opened {
            true => (OPENED_LINES, 0),
            false if is_member(own) => (NEAR_LINES, OPENED_LINES),
            false => (NEAR_LINES, NEAR_LINES),
        };
        let after = after.take(behind).map(near_line);
        after.chain(self.before(ahead)).collect()
    }

    /// The lines before it, nearest first.
    fn before(&self, count: usize) -> impl Iterator<Item = Vec<u8>> {
        let before = self.block.get(..self.start).unwrap_or_default();
        let before = &before[before.len().saturating_sub(CONTEXT_WITHIN)..];
        let lines = before.rsplit(|byte| *byte == b'\n');
        lines.filter(self.is_beside()).take(count).map(near_line)
    }

    /// The lines of the stack of a crash behind it, without those of other processes, and those before it.
    fn stack(&self, process: &[u8]) -> Vec<Vec<u8>> {
        let after = self.block.get(self.end..).unwrap_or_default();
        let whole = native_stack::whole_frames(&after[..after.len().min(STACK_WITHIN)]);
        let lines = whole.iter().map(|line| &**line);
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        let mut own = lines.clone().filter(|line| line.starts_with(process));
        // UCX's handler of signals writes the stack without a process where Open MPI's names one.
        let has_frames = own.by_ref().take(STACK_LINES).any(native_stack::is_frame);
        let is_of_process = move |line: &&[u8]| {
            line.starts_with(process) || !has_frames && self::process(line).is_empty()
        };
        let lines = lines.filter(is_of_process);
        // UCX writes the source of an assertion before its stack.
        let is_above = |line: &&[u8]| !line.starts_with(b"==== backtrace");
        let has_head = lines.clone().take(STACK_LINES).any(|line| !is_above(&line));
        let lines = lines.skip_while(|line| has_head && is_above(line));
        // A debugger writes one stack for each thread.
        let mut threads = 0;
        let is_of_first = |line: &&[u8]| {
            threads += usize::from(super::by_hand::begins_thread(line));
            threads < 2
        };
        let lines = lines.take(STACK_LINES).take_while(is_of_first);
        let stack = lines.map(near_line);
        let ahead = if has_frames { NEAR_LINES } else { OPENED_LINES };
        stack.chain(self.before(ahead)).collect()
    }

    /// The lines before it, and the one behind it, as far as the block has them.
    pub(super) fn lines(&self) -> Context {
        let cut = |line: &[u8]| cut(line.trim_ascii_end(), CONTEXT_BYTES);
        let is_beside = self.is_beside();
        let before = self.block.get(..self.start).unwrap_or_default();
        let before =
            before[before.len().saturating_sub(CONTEXT_WITHIN)..].rsplit(|byte| *byte == b'\n');
        let mut before: Vec<Vec<u8>> = before
            .filter(&is_beside)
            .take(CONTEXT_BEFORE)
            .map(cut)
            .collect();
        before.reverse();
        let after = self.block.get(self.end..).unwrap_or_default();
        let after = after[..after.len().min(CONTEXT_WITHIN)].split(|byte| *byte == b'\n');
        Context {
            before,
            after: after.into_iter().find(&is_beside).map(cut),
        }
    }
}

/// What a line that names a rank has. It is asked once for all lines of a form.
pub(super) fn may_name_rank(line: &[u8]) -> bool {
    has!(line, RANK)
}

/// A line beside another one, as it is kept.
fn near_line(line: &[u8]) -> Vec<u8> {
    cut(line.trim_ascii_end(), NEAR_BYTES)
}

/// The lines around the first line of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Context {
    pub before: Vec<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

/// The lines of one signature or shape.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenLines {
    pub count: u64,
    pub first: Place,
    pub last: Place,
    pub first_us: Option<i64>,
    pub last_us: Option<i64>,
    /// The time of the first line, which orders lines of several ranks.
    pub first_line_us: Option<i64>,
    /// Text of the first line.
    pub sample: Vec<u8>,
    /// The lowest poll rate, and the longest wait.
    pub slowest: Option<Polls>,
    pub longest: Option<Polls>,
    /// Functions that logged them, with their source lines.
    pub sites: Vec<(Vec<u8>, BTreeSet<u32>)>,
    /// The lines below some of them, for signatures that read these.
    pub below: Vec<BelowText>,
    /// The traceback of the first line, if it ends one.
    pub traceback: Option<Box<Traceback>>,
    /// The GPUs that they are about, if a driver logged them.
    pub gpus: BTreeSet<Vec<u8>>,
    /// The lines beside the first one, if it is an error.
    pub near: Option<Box<NearLines>>,
}

/// The WARN lines of one shape, which no signature knows.
#[derive(Debug)]
pub(super) struct SeenShape {
    pub lines: SeenLines,
    /// The lines around the first one.
    pub context: Context,
    /// The last line of each speaker.
    pub last: BTreeMap<u32, Place>,
    /// Whether `last` lacks a speaker.
    pub lacks_speakers: bool,
    /// Whether all lines are warnings of a program that warns in healthy jobs too.
    pub is_notice: bool,
}

impl SeenShape {
    pub(super) fn new(lines: SeenLines, context: Context, is_notice: bool) -> Self {
        Self {
            lines,
            context,
            last: BTreeMap::new(),
            lacks_speakers: false,
            is_notice,
        }
    }

    /// Keeps the last line of a speaker; `kept` counts the entries of all shapes.
    pub(super) fn said_by(&mut self, speaker: u32, place: Place, kept: &mut usize) {
        if let Some(known) = self.last.get_mut(&speaker) {
            *known = place.max(*known);
        } else if *kept < LASTS_MAX {
            *kept += 1;
            self.last.insert(speaker, place);
        } else {
            self.lacks_speakers = true;
        }
    }
}

/// Whether a line is a member of JSON that is written over several lines.
pub(super) fn is_member(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"\"")
}

/// Whether a line is of a signal that ended a process.
pub(super) fn crashes(line: &[u8]) -> bool {
    static WORDS: LazyLock<AnyOf> = LazyLock::new(|| {
        AnyOf::new(&[
            "egmentation fault",
            "egfault encountered",
            "Process received signal",
            "Caught signal ",
            "Bus error",
            "SIGABRT",
            "Signal: Abort",
            "  Assertion `",
            "*** SIG",
            // What glibc says before it aborts a process.
            "detected ***",
            "double free or corruption",
            "free(): ",
            "alloc(): ",
        ])
    });
    WORDS.is_in(line)
}

/// Whether a line only passes on an exception of a worker: `Caught KeyError in DataLoader worker process 0.`, what
/// Ray says of an actor whose start failed, or what vLLM says where its engine died.
pub(super) fn wraps(line: &[u8]) -> bool {
    static WRAPS: LazyLock<AnyOf> = LazyLock::new(|| {
        AnyOf::new(&[
            "Error: Caught ",
            "The actor died because of an error raised in its creation task, ",
            "ray.exceptions.RayTaskError: ",
            " See stack trace ",
            // A test of PyTorch, which has the exception below.
            " and exception:",
            " See root cause ",
        ])
    });
    WRAPS.is_in(line)
}

/// Whether an exception may be told by another one, in [`tells_more`].
fn may_be_told(sample: &[u8]) -> bool {
    wraps(sample) || KEY_ERROR.find(sample).is_some()
}

/// Whether an exception tells what an earlier one only passes on.
fn tells_more(earlier: &[u8], line: &[u8]) -> bool {
    wraps(earlier) && !wraps(line) || explains(earlier, line)
}

/// Least bytes of a key by which an exception is of another one.
const KEY_MIN: usize = 4;
static KEY_ERROR: LazyLock<Finder> = LazyLock::new(|| Finder::new("KeyError: '"));

/// Whether an exception says in words what the key that another one lacked is: a program catches `KeyError: 'a_model'`
/// and raises what it means.
fn explains(other: &[u8], line: &[u8]) -> bool {
    let Some(at) = KEY_ERROR.find(other) else {
        return false;
    };
    let key = &other[at + KEY_ERROR.needle().len()..];
    let key = &key[..memchr::memchr(b'\'', key).unwrap_or_default()];
    key.len() >= KEY_MIN
        && KEY_ERROR.find(line).is_none()
        && memchr::memmem::find(line, key).is_some()
}

pub(super) fn cut(text: &[u8], size: usize) -> Vec<u8> {
    text[..text.len().min(size)].to_vec()
}

/// Lines of one message of the kernel, and bytes before its last.
const MESSAGE_LINES: usize = 4;
const MESSAGE_WITHIN: usize = 512;

/// A line of a driver's message that goes on below its time, behind the lines before it.
fn joined(line: CountedLine<'_>) -> Option<Vec<u8>> {
    let goes_on = |line: &[u8]| line.trim_ascii_start().starts_with(b"NVRM: ") && line[0] == b' ';
    if !goes_on(line.text) {
        return None;
    }
    let above = line.around.block.get(..line.around.start)?;
    let above = &above[above.len().saturating_sub(MESSAGE_WITHIN)..];
    let (mut parts, mut is_whole) = (vec![line.text], false);
    for part in above
        .rsplit(|byte| *byte == b'\n')
        .skip(1)
        .take(MESSAGE_LINES)
    {
        parts.push(part);
        is_whole = !part.is_empty() && !goes_on(part);
        if is_whole || part.is_empty() {
            break;
        }
    }
    let behind_name = |part: &&[u8]| {
        let part = part.trim_ascii();
        part.strip_prefix(b"NVRM: ").unwrap_or(part).to_vec()
    };
    let parts: Vec<Vec<u8>> = parts.iter().rev().map(behind_name).collect();
    is_whole.then(|| parts.join(&b' '))
}

/// The part of a line around offset `at`: the whole line if it is short.
fn sample(line: &[u8], at: usize, size_max: usize) -> Vec<u8> {
    let from = if at + SAMPLE_AFTER <= SAMPLE_BYTES || line.len() <= SAMPLE_BYTES {
        0
    } else {
        let from = at.saturating_sub(SAMPLE_BEFORE).min(line.len());
        let blank = line[from..].iter().position(|byte| *byte == b' ');
        from + blank.map_or(0, |blank| blank + 1)
    };
    cut(line[from.min(line.len())..].trim_ascii(), size_max)
}

impl SeenLines {
    pub(super) fn new(line: CountedLine<'_>, polls: Option<Polls>) -> Self {
        let (place, time_us, sample) = (
            line.place,
            line.time_us,
            match joined(line) {
                Some(text) => cut(&text, line.sample_max),
                None => sample(line.text, line.at, line.sample_max),
            },
        );
        let mut new = Self {
            count: 1,
            first: place,
            last: place,
            first_us: time_us,
            last_us: time_us,
            first_line_us: time_us,
            sample,
            slowest: polls,
            longest: polls,
            sites: Vec::new(),
            below: line.below(&[]).into_iter().collect(),
            traceback: line.traceback(),
            gpus: line.gpu().into_iter().collect(),
            near: line.near(),
        };
        new.site(line.site);
        new
    }

    /// Whether all of them are exceptions that the program says to have got over: the first line is the first one that
    /// is not, if there is one.
    pub(super) fn is_got_over(&self) -> bool {
        is_got_over(&self.traceback)
    }

    /// The lines beside the first one.
    pub(super) fn near_lines(&self) -> impl Iterator<Item = &Vec<u8>> + Clone {
        self.near.iter().flat_map(|near| &near.lines)
    }

    /// Bytes that it takes, with its place in a map that is half full.
    pub(super) fn bytes(&self) -> usize {
        let sites = self.sites.iter().map(|(function, _)| site_bytes(function));
        let below = self.below.iter().map(below_bytes);
        2 * size_of::<((u32, u32), Self)>()
            + self.sample.capacity()
            + sites.sum::<usize>()
            + below.sum::<usize>()
            + self.gpus.len() * (size_of::<Vec<u8>>() + GPU_TEXT_BYTES)
            + RANK_BYTES * self.named_ranks().count()
            + self.traceback.as_ref().map_or(0, |one| one.bytes())
            + self
                .near_lines()
                .map(|line| size_of::<Vec<u8>>() + line.len())
                .sum::<usize>()
    }

    /// Counts another line. Returns the bytes that it takes more.
    pub(super) fn again(&mut self, line: CountedLine<'_>, polls: Option<Polls>) -> usize {
        self.count += 1;
        let is_final = self.near.as_ref().is_some_and(|near| near.is_final);
        let was_got_over = self.is_got_over();
        let traceback = was_got_over.then(|| line.traceback());
        if let Some(traceback) = traceback.filter(|one| !is_got_over(one)) {
            self.first = line.place;
            self.sample = sample(line.text, line.at, line.sample_max);
            self.traceback = traceback;
            self.replace_near(line.near());
            (self.first_us, self.first_line_us) = (line.time_us, line.time_us);
        } else if line.has_frames && !is_final && tells_more(&self.sample, line.text) {
            // The exception of a worker is below the line that passes it on.
            self.first = line.place;
            self.sample = sample(line.text, line.at, line.sample_max);
            self.traceback = line.traceback();
            if let Some(traceback) = &mut self.traceback {
                traceback.is_got_over &= was_got_over;
            }
            self.replace_near(line.near());
        } else if line.has_frames && self.lacks_frames(line.text) {
            self.traceback = line.traceback();
        }
        // A thread reads its blocks, and their lines, in order.
        self.last = line.place;
        self.times(line.time_us, line.time_us);
        self.polls(polls, polls);
        if let Some(gpu) = line.gpu() {
            add_value(&mut self.gpus, gpu);
        }
        self.ranks(line.named_rank());
        let below = line.below(&self.below);
        let kept = below.map_or(0, |below| self.add_below([below]));
        self.site(line.site) + kept
    }

    /// Whether another process wrote into the exception that is kept, and a text is that exception, whole: its frames
    /// are those of both.
    fn lacks_frames(&self, text: &[u8]) -> bool {
        let frames = self.traceback.as_ref();
        frames.is_some_and(|frames| !frames.has_frames())
            && super::traceback::is_torn_form(&self.sample, text)
    }

    /// Adds lines below a line. Returns the bytes that it takes more.
    fn add_below(&mut self, more: impl IntoIterator<Item = BelowText>) -> usize {
        let bytes = |texts: &[BelowText]| texts.iter().map(below_bytes).sum::<usize>();
        let before = bytes(&self.below);
        below::keep(&mut self.below, more);
        bytes(&self.below).saturating_sub(before)
    }

    /// Adds the place of a WARN. Returns the bytes that it takes more.
    fn site(&mut self, site: Option<(&[u8], u32)>) -> usize {
        let Some((function, line)) = site else {
            return 0;
        };
        let function = &function[..function.len().min(VALUE_BYTES)];
        if let Some((_, lines)) = self.sites.iter_mut().find(|(known, _)| known == function) {
            add_value(lines, line);
        } else if self.sites.len() < SITES_MAX {
            // Most have one, and a vector grows to four.
            self.sites.reserve_exact(1);
            self.sites.push((function.to_vec(), BTreeSet::from([line])));
            return site_bytes(function);
        } else if let Some(last) = self
            .sites
            .iter_mut()
            .max()
            .filter(|last| *function < *last.0)
        {
            *last = (function.to_vec(), BTreeSet::from([line]));
        }
        0
    }

    /// Adds ranks that lines name.
    fn ranks(&mut self, ranks: impl IntoIterator<Item = u32>) {
        for rank in ranks {
            let near = self.near.get_or_insert_default();
            if near.ranks.len() < RANKS_MAX {
                near.ranks.insert(rank);
            }
        }
    }

    /// The lines beside a line that is now the first.
    fn replace_near(&mut self, near: Option<Box<NearLines>>) {
        let before = std::mem::replace(&mut self.near, near);
        self.ranks(before.into_iter().flat_map(|near| near.ranks));
    }

    /// The ranks that the lines name.
    pub(super) fn named_ranks(&self) -> impl Iterator<Item = u32> {
        let near = self.near.iter();
        near.flat_map(|near| near.ranks.iter().copied())
    }

    pub(super) fn times(&mut self, first: Option<i64>, last: Option<i64>) {
        self.first_us = [self.first_us, first].into_iter().flatten().min();
        self.last_us = [self.last_us, last].into_iter().flatten().max();
    }

    pub(super) fn polls(&mut self, slowest: Option<Polls>, longest: Option<Polls>) {
        if let Some(other) = slowest
            && self
                .slowest
                .is_none_or(|slowest| other.per_second() < slowest.per_second())
        {
            self.slowest = Some(other);
        }
        if let Some(other) = longest
            && self
                .longest
                .is_none_or(|longest| other.nanoseconds > longest.nanoseconds)
        {
            self.longest = Some(other);
        }
    }

    /// Adds the lines of another thread or file. Returns the bytes that it takes more.
    pub(super) fn merge(&mut self, other: Self) -> usize {
        self.count += other.count;
        // What was got over is not the first where something else was not.
        let (is_first, first_us) = match (self.is_got_over(), other.is_got_over()) {
            (true, false) => (true, other.first_us),
            (false, true) => (false, self.first_us),
            _ => {
                let earlier = [self.first_us, other.first_us].into_iter().flatten().min();
                (other.first < self.first, earlier)
            }
        };
        if is_first {
            (self.first, self.sample) = (other.first, other.sample);
            self.traceback = other.traceback;
            self.replace_near(other.near);
            self.first_line_us = other.first_line_us;
        } else {
            let ranks = other.near.map(|near| near.ranks);
            self.ranks(ranks.into_iter().flatten());
            if self.lacks_frames(&other.sample) {
                self.traceback = other.traceback;
            }
        }
        self.last = self.last.max(other.last);
        for gpu in other.gpus {
            add_value(&mut self.gpus, gpu);
        }
        self.first_us = first_us;
        self.times(None, other.last_us);
        self.polls(other.slowest, other.longest);
        let below = self.add_below(other.below);
        let sites = other.sites.iter();
        let lines =
            sites.flat_map(|(function, lines)| lines.iter().map(move |line| (function, *line)));
        lines
            .map(|(function, line)| self.site(Some((function, line))))
            .sum::<usize>()
            + below
    }
}

fn is_got_over(traceback: &Option<Box<Traceback>>) -> bool {
    traceback.as_ref().is_some_and(|one| one.is_got_over)
}

/// Bytes of lines below a line.
fn below_bytes(text: &BelowText) -> usize {
    size_of::<BelowText>() + text.text.len()
}

/// Bytes of a function that logged a WARN, with the source lines.
fn site_bytes(function: &[u8]) -> usize {
    // A set of a few numbers is one node, of eleven numbers and a head.
    size_of::<(Vec<u8>, BTreeSet<u32>)>() + function.len() + 64
}

/// Keeps the least values, so that the order in which they come does not matter.
pub(super) fn add_value<T: Ord>(values: &mut BTreeSet<T>, value: T) {
    if values.len() < VALUES_MAX {
        values.insert(value);
    } else if values.last().is_some_and(|last| value < *last) && values.insert(value) {
        values.pop_last();
    }
}
