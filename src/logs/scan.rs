//! Scans a log, one block after another on several threads:
//!
//! 1. `matcher` finds the next place where a literal may be. The rest of its line is not searched.
//! 2. `parser` splits the line into records with their signatures, once for all lines of a form.
//! 3. `Counter` reads times, processes and the facts of the signatures, and counts them.
//!
//! Every thread keeps its own tally; the tallies are merged at the end of a file. Until
//! then a line number consists of the number of the block and of the line in the block.
//!
//! Seconds for 2 GiB on 32 idle CPUs with five threads, and CPU seconds, 2026-11-28, medians of 9 at 80 % and of 3
//! elsewhere, beside ripgrep 15.1 with the same 727 literals, which reads one file with one thread:
//!
//! | lines with a literal | seconds | CPU seconds | peak MiB | ripgrep, seconds |
//! |---|---|---|---|---|
//! | 80 % | 3.66 | 16.4 | 56 | 5.71 |
//! | 20 % | 2.02 | 8.5 | 52 | 5.51 |
//! | 1 % | 1.14 | 4.4 | 41 | 5.34 |
//! | every fourth line of TCPX alone | 1.08 | 4.7 | 33 | 5.49 |
#![forbid(unsafe_code)]

use super::blocks::{Block, Blocks};
use super::catalogue::SignatureCatalogue;
use super::claims::{RankOfComm, RankOfJob};
use super::fields;
use super::filter::LogFilter;
use super::got_over;
use super::harness::{BlockLines, Harness};
use super::help_text::HelpText;
use super::networks::{self, Proof};
use super::order::InOrder;
use super::parser::{Found, ParsedLine, ParsedRecord, Parser};
use super::seen::{Around, CountedLine, Place, SAMPLE_BYTES};
use super::shape::{self, Level, Record};
use super::signature::Fact;
use super::tally::{Group, Tally, Wait};
use super::time::Years;
use super::word::has;
use super::wrapped::Joined;
use memchr::{memchr, memchr_iter, memrchr};
use std::io::{self, Read};

/// Each takes some 5 MiB of memory, of which a report has 64; five were at 56. Before the regexes shared their caches, six took
/// 8 MiB more than five, and 5 % less time; four took 20 % more.
const THREADS_MAX: usize = 5;
const ESCAPE: u8 = 0x1b;
/// Longest name of a process of a launcher that is kept, in bytes.
const PROCESS_MAX: usize = 64;
/// Most bytes that are kept of blocks of which an earlier one is not scanned yet.
const EARLY_MAX: usize = 4 << 20;
/// Longest name of a collective, in bytes.
const OPERATION_MAX: usize = 80;
/// Lines after which it is decided whether each line of the block is parsed.
const ATTEMPT_LINES: u32 = 64;
/// Blocks of which one is attempted where most lines are of no known form.
const ATTEMPT_EVERY: u32 = 8;
/// Bits of a line number that hold the line within its block; a block has fewer lines.
const BLOCK_BITS: u32 = 24;

/// A stream to scan.
pub(super) struct Stream<R> {
    pub source: R,
    /// The number of its file.
    pub file: u32,
    /// What was read of the file earlier.
    pub before: ReadLines,
    pub years: Years,
}

/// How far a file was read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadLines {
    /// Lines, with one that was read only in part.
    pub count: u64,
    /// Whether the last one was read only in part.
    pub ends_within: bool,
}

/// What a stream came to.
pub(super) struct Scanned {
    pub tally: Tally,
    pub bytes: u64,
    pub years: Years,
    /// Whether the stream ends within a line.
    pub ends_within: bool,
    pub result: io::Result<()>,
}

/// Reads a stream to its end. `harness` follows the programs in it. If reading failed, the tally
/// holds the lines up to that point.
pub(super) fn scan(
    catalogue: &SignatureCatalogue,
    filter: &LogFilter,
    stream: Stream<impl Read + Send>,
    threads: usize,
    harness: &mut Harness,
) -> Scanned {
    let (file, before) = (stream.file, stream.before.count);
    let blocks = Blocks::new(stream.source, stream.years, stream.before.ends_within);
    let mut lines = before;
    let in_order = InOrder::new(EARLY_MAX, |part: BlockLines| {
        let within = u64::from(part.is_within_line);
        harness.take(file, lines.saturating_sub(within), &part);
        lines += u64::from(part.lines);
    });
    let threads = threads.clamp(1, THREADS_MAX);
    let work = || {
        let _guard = in_order.guard();
        Worker::new(catalogue, filter, file, threads).run(&blocks, |index, part: BlockLines| {
            in_order.hand_over(index, part.bytes(), part);
        })
    };
    let others = threads - 1;
    let done: Vec<Done> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
        let mine = work();
        // The part of a thread that panicked is lost.
        started
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .chain([mine])
            .collect()
    });
    drop(in_order);
    let (mut tally, result) = merged(done, file, before);
    let (bytes, ends_within) = (blocks.bytes(), blocks.is_within_line());
    let (tail, years) = blocks.into_tail();
    tally.read_end((filter, years), file, &tail, before);
    Scanned {
        tally,
        bytes,
        years,
        ends_within,
        result,
    }
}

/// One tally of those of all threads. It does not depend on which thread took which block, as
/// long as no bound is exceeded.
fn merged(done: Vec<Done>, file: u32, before: u64) -> (Tally, io::Result<()>) {
    let (mut tally, mut lines, mut result) = (Tally::default(), Vec::new(), Ok(()));
    tally.number_speakers(done.iter().map(|part| &part.tally));
    for mut part in done {
        lines.append(&mut part.lines);
        tally.merge(part.tally);
        result = result.and(part.result);
    }
    resolve(&mut tally, lines, file, before);
    (tally, result)
}

/// Turns line numbers within blocks into line numbers of the file.
fn resolve(tally: &mut Tally, mut lines: Vec<LinesOfBlock>, file: u32, earlier: u64) {
    lines.sort_unstable_by_key(|block| block.index);
    let mut sum = earlier;
    let mut before = Vec::with_capacity(lines.len());
    for block in lines {
        before.push(sum.saturating_sub(u64::from(block.is_within_line)));
        sum += u64::from(block.count);
    }
    tally.lines = sum - earlier;
    tally.resolve(|place| {
        let (block, line) = (
            place.line >> BLOCK_BITS,
            place.line & ((1 << BLOCK_BITS) - 1),
        );
        let before = usize::try_from(block)
            .ok()
            .and_then(|block| before.get(block))
            .copied()
            .unwrap_or_default();
        Place {
            file,
            line: before + line + 1,
        }
    });
}

struct Done {
    tally: Tally,
    lines: Vec<LinesOfBlock>,
    result: io::Result<()>,
}

/// The lines of a block.
struct LinesOfBlock {
    index: u32,
    /// Lines that begin in it.
    count: u32,
    /// Whether its front belongs to the last line before it, which then has the number 0 in it.
    is_within_line: bool,
}

/// The work of one thread: finds the lines with a literal, which the parser reads and the
/// counter counts.
struct Worker<'a> {
    catalogue: &'a SignatureCatalogue,
    pace: Pace,
    parser: Parser<'a>,
    counter: Counter<'a>,
}

impl<'a> Worker<'a> {
    fn new(
        catalogue: &'a SignatureCatalogue,
        filter: &'a LogFilter,
        file: u32,
        threads: usize,
    ) -> Self {
        Self {
            catalogue,
            pace: Pace::default(),
            parser: Parser::new(catalogue),
            counter: Counter {
                catalogue,
                filter,
                years: Years::default(),
                file,
                tally: Tally::of_one_of(threads),
                harness: BlockLines::default(),
            },
        }
    }

    fn run<R: Read>(mut self, blocks: &Blocks<R>, hand_over: impl Fn(u32, BlockLines)) -> Done {
        let (mut buffer, mut lines) = (Vec::new(), Vec::new());
        let result = loop {
            match blocks.next(&mut buffer) {
                Ok(Some(Block {
                    index,
                    size,
                    years,
                    is_within_line,
                })) => {
                    self.counter.years = years;
                    let count = self.block(&buffer[..size], index);
                    let count = count.saturating_sub(u32::from(is_within_line));
                    lines.push(LinesOfBlock {
                        index,
                        count,
                        is_within_line,
                    });
                    let mut harness = std::mem::take(&mut self.counter.harness);
                    (harness.lines, harness.is_within_line) = (count, is_within_line);
                    hand_over(index, harness);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        Done {
            tally: self.counter.tally,
            lines,
            result,
        }
    }

    /// Scans a block and returns its number of lines and parts of lines.
    fn block(&mut self, block: &[u8], index: u32) -> u32 {
        let block = &*super::source::without_differences(block);
        let mut at = At {
            block,
            index,
            from: 0,
            lines: 0,
        };
        self.counter.harness.read_front(block);
        self.counter.tally.see_local_channels(block);
        if index == 0 {
            self.counter.tally.commands.read(block);
            self.counter.tally.fronts.read(block);
        }
        // An escape sequence may be within a literal, which only one of the two ways would find.
        if memchr(ESCAPE, block).is_some() {
            self.search(&mut at, true);
        } else {
            if self.pace.reads_each_line() {
                self.each_line(&mut at);
            }
            self.search(&mut at, false);
        }
        at.lines as u32 + u32::from(!block.ends_with(b"\n") && !block.is_empty())
    }

    /// Parses every line, as long as most are of known forms.
    fn each_line(&mut self, at: &mut At<'_>) {
        while at.from < at.block.len() && self.pace.reads_on() {
            let end = memchr(b'\n', &at.block[at.from..]);
            let end = end.map_or(at.block.len(), |size| at.from + size);
            self.line(at, end, None);
            self.pace.read(self.parser.was_known());
        }
    }

    /// Searches for the lines that may have a literal, and parses them.
    fn search(&mut self, at: &mut At<'_>, has_escapes: bool) {
        let mut scratch = has_escapes.then(Vec::new);
        let mut walk = self.catalogue.walk(at.block);
        while let Some(place) = walk.next_from(at.from) {
            let before = &at.block[at.from..place];
            let start = memrchr(b'\n', before).map_or(0, |end| end + 1);
            let begin = super::wrapped::begin(at.block, at.from, at.from + start);
            let start = begin - at.from;
            at.lines += count_lines(&before[..start]);
            at.from += start;
            let end = memchr(b'\n', &at.block[at.from..]);
            let end = end.map_or(at.block.len(), |size| at.from + size);
            self.line(at, end, scratch.as_mut());
        }
        at.lines += count_lines(&at.block[at.from..]);
    }

    /// Parses and counts the line up to `end`. `scratch` is for lines with escape sequences.
    fn line(&mut self, at: &mut At<'_>, end: usize, scratch: Option<&mut Vec<u8>>) {
        let line = &at.block[at.from..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = match scratch {
            Some(scratch) => shape::without_escapes(line, scratch),
            None => line,
        };
        let parsed = self.parser.parse(line);
        let joined = parsed
            .may_go_on
            .then(|| super::wrapped::join(line, &at.block[end..]));
        let joined = joined.flatten();
        let (parsed, line, end, more) = match &joined {
            Some(Joined { text, size, lines }) => {
                (self.parser.parse(text), text.as_slice(), end + size, *lines)
            }
            None => (parsed, line, end, 0),
        };
        let place = at.place(self.counter.file);
        let around = Around {
            block: at.block,
            start: at.from,
            end,
        };
        let is_code = parsed.looks_like_code && super::source::is_code(at.block, at.from, line);
        if !is_code {
            self.counter.line(parsed, line, place, around);
        }
        at.from = at.block.len().min(end + 1);
        at.lines += more + usize::from(end < at.block.len());
        let behind = &at.block[at.from..];
        self.counter.harness.read_table(at.lines as u32, behind);
    }
}

/// How far a block is scanned.
struct At<'a> {
    block: &'a [u8],
    index: u32,
    /// Offset of the next line.
    from: usize,
    /// Lines before it.
    lines: usize,
}

impl At<'_> {
    fn place(&self, file: u32) -> Place {
        // A block has fewer lines than bytes.
        Place {
            file,
            line: (u64::from(self.index) << BLOCK_BITS) | self.lines as u64,
        }
    }
}

/// Whether to parse each line or to search for literals first. A line of a known form is parsed
/// faster than it is searched; another one is not. What is found does not depend on it.
#[derive(Default)]
struct Pace {
    /// Lines of the block that were parsed, and how many of them are of known forms.
    lines: u32,
    known: u32,
    /// Blocks to search before the next attempt.
    wait: u32,
}

impl Pace {
    /// Whether to begin a block with parsing each line.
    fn reads_each_line(&mut self) -> bool {
        (self.lines, self.known) = (0, 0);
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0
    }

    fn read(&mut self, was_known: bool) {
        self.lines += 1;
        self.known += u32::from(was_known);
        if !self.reads_on() {
            self.wait = ATTEMPT_EVERY;
        }
    }

    fn reads_on(&self) -> bool {
        !self.lines.is_multiple_of(ATTEMPT_LINES) || self.known >= self.lines / 8 * 7
    }
}

fn count_lines(text: &[u8]) -> usize {
    memchr_iter(b'\n', text).count()
}

/// Counts parsed lines.
struct Counter<'a> {
    catalogue: &'a SignatureCatalogue,
    filter: &'a LogFilter,
    /// Of the times in the block.
    years: Years,
    file: u32,
    tally: Tally,
    /// The lines of harnesses in the block.
    harness: BlockLines,
}

impl Counter<'_> {
    fn line(&mut self, parsed: &ParsedLine, line: &[u8], place: Place, around: Around<'_>) {
        self.tally.matched_lines += u64::from(parsed.has_signature);
        for one in &parsed.records {
            let record = one.record(line);
            if self.filter.takes(&record, self.years) {
                self.record(one, &record, line, place, around);
            } else if !one.found.is_empty() {
                self.tally.filtered_records += 1;
                let mut nodes = one.found.iter();
                let nodes = nodes.find(|one| one.counting.fact == Some(Fact::Nodes));
                let nodes = nodes.and_then(|found| fields::number(found.groups(line)[0]?));
                // A communicator has fewer nodes than 2^32.
                let most = self
                    .tally
                    .filtered_nodes
                    .max(nodes.map(|nodes| nodes as u32));
                self.tally.filtered_nodes = most;
            }
        }
    }

    fn record(
        &mut self,
        parsed: &ParsedRecord,
        record: &Record<'_>,
        text: &[u8],
        place: Place,
        around: Around<'_>,
    ) {
        let level = record.level();
        let line = CountedLine {
            place,
            time_us: record.time_us(self.years),
            site: record.site().filter(|_| level == Some(Level::Warn)),
            text,
            at: parsed.at,
            around,
            has_below: false,
            has_frames: false,
            names_gpu: false,
            names_rank: parsed.names_rank,
            sample_max: SAMPLE_BYTES,
            keeps_near: false,
        };
        let mut counting = parsed.found.iter().map(|found| found.counting);
        let has_none = counting.clone().all(|one| one.is_label);
        // A signature that only tells whose line it is does not explain a warning.
        let is_unexplained = level == Some(Level::Warn) && !counting.any(|one| one.explains);
        if has_none || is_unexplained {
            let said = match level {
                Some(Level::Warn) => {
                    let is_notice = shape::is_of_ras(text, record.message);
                    Some((record.message, is_notice))
                }
                Some(Level::Info) => None,
                None => {
                    let error = parsed.error(text);
                    let error = error.map(|error| (error, got_over::opens(text, around)));
                    error.or_else(|| Some((parsed.notice(text)?, true)))
                }
            };
            if let Some(stated) = parsed.stated(text) {
                self.state(stated, place, around);
            }
            if let Some((message, is_notice)) = said {
                let speaker = self.tally.speaker(record, self.file);
                self.tally.see_unknown(speaker, message, is_notice, line);
                if let Some(name) = networks::of_warning(record.message) {
                    self.tally.transport(speaker, name, Proof::Up, place);
                }
            }
        }
        if parsed.found.is_empty() {
            return;
        }
        let speaker = self.tally.speaker(record, self.file);
        if let Some(reading) = parsed.harness.as_deref().copied() {
            // The number of a line within its block.
            let number = (place.line & ((1 << BLOCK_BITS) - 1)) as u32;
            self.harness
                .hear(number, record.rank(), line.time_us, reading, record.message);
        }
        for found in &parsed.found {
            let counting = found.counting;
            if level == Some(Level::Info) && counting.is_foreign {
                continue;
            }
            self.note(
                found,
                speaker,
                record,
                CountedLine {
                    at: found.at,
                    has_below: counting.has_below,
                    has_frames: found.has_frames,
                    names_gpu: counting.names_gpu,
                    sample_max: counting.sample_max(),
                    keeps_near: counting.is_finding,
                    ..line
                },
            );
        }
    }

    /// Adds a line that states an error, with the whole help text that it is in.
    fn state(&mut self, stated: &[u8], place: Place, around: Around<'_>) {
        let Some(text) = HelpText::of(around) else {
            return self.tally.stated.add(place, stated);
        };
        if !text.is_advice() {
            // The lines before it are of the same block.
            let line = place.line - text.lines_before;
            self.tally.stated.add(Place { line, ..place }, &text.text);
        }
    }

    /// Adds the line behind one that announces a warning, unless it may be one of a signature.
    fn last_warning(&mut self, speaker: u32, line: CountedLine<'_>) {
        let block = line.around.block;
        let behind = block.get(line.around.end + 1..).unwrap_or_default();
        let end = memchr::memchr(b'\n', behind).unwrap_or(behind.len());
        let next = &behind[..end];
        let (mut is_known, catalogue) = (false, self.catalogue);
        catalogue.hits(next, |literal, _| {
            is_known |= catalogue.is_only_of_signatures(literal)
        });
        // Both lines have the prefix of the same launcher.
        let prefix = &line.text[..line.at.min(line.text.len())];
        let message = next.strip_prefix(prefix).unwrap_or(next).trim_ascii();
        if is_known || message.is_empty() {
            return;
        }
        let place = Place {
            line: line.place.line + 1,
            ..line.place
        };
        let around = Around {
            block,
            start: line.around.end + 1,
            end: line.around.end + 1 + end,
        };
        let said = CountedLine {
            place,
            site: None,
            text: next,
            at: 0,
            around,
            names_rank: true,
            ..line
        };
        self.tally.see_unknown(speaker, message, false, said);
    }

    fn note(&mut self, found: &Found, speaker: u32, record: &Record<'_>, line: CountedLine<'_>) {
        // At most SIGNATURES_MAX.
        let number = found.signature as u32;
        let message = record.message;
        let polls = found.polls(line.text);
        let polls = polls.filter(|_| found.counting.fact == Some(Fact::Polls));
        self.tally.see(number, speaker, polls, line);
        let [first, second] = found.groups(line.text);
        match found.counting.fact {
            None | Some(Fact::Harness) => {}
            Some(Fact::LastWarning) => self.last_warning(speaker, line),
            Some(Fact::Polls) => {
                if let Some(flow) = found.flow(line.text) {
                    self.tally.flow(speaker, flow, |flow| {
                        flow.slow += 1;
                        if flow.nic.is_none() {
                            flow.nic = found.nic(line.text).map(Into::into);
                        }
                    });
                }
            }
            Some(Fact::Flow) => {
                if let Some(flow) = found.flow(line.text) {
                    self.tally.flow(speaker, flow, |flow| {
                        flow.made += 1;
                        flow.is_control |= has!(message, b" through host");
                    });
                }
            }
            Some(Fact::Setting) => {
                if let (Some(key), Some(value)) = (first, second) {
                    self.tally.set(speaker, key, value);
                }
            }
            Some(
                fact @ (Fact::TransportLoaded
                | Fact::TransportUp
                | Fact::Transport
                | Fact::TransportUsed),
            ) => {
                let signature = &self.catalogue.signatures[found.signature];
                let proof = match fact {
                    _ if signature.library.is_some() => Proof::OfLibrary,
                    Fact::TransportUsed => Proof::Used,
                    Fact::Transport => Proof::Chosen,
                    Fact::TransportLoaded => Proof::Loaded,
                    _ => Proof::Up,
                };
                if let Some(name) = first {
                    let name = match &signature.library {
                        Some(library) => [library.as_bytes(), name].join(&b' '),
                        None => name.to_vec(),
                    };
                    self.tally.transport(speaker, &name, proof, line.place);
                }
            }
            Some(Fact::Nodes) => {
                if let Some(nodes) = first.and_then(fields::number) {
                    // A communicator has fewer nodes than 2^32.
                    self.tally.nodes(speaker, nodes as u32);
                }
            }
            Some(Fact::Collective) => {
                let sequence = first.and_then(fields::number);
                if let Some((sequence, operation)) = sequence.zip(second) {
                    let operation = fields::whole_operation(message, operation);
                    let wait = Wait {
                        group: fields::torch_group(message).unwrap_or_default().to_vec(),
                        sequence,
                        operation: operation[..operation.len().min(OPERATION_MAX)].to_vec(),
                        size: fields::elements(message).to_vec(),
                    };
                    if let Some(process) = fields::launched_process(line.text) {
                        let of = (speaker, process[..process.len().min(PROCESS_MAX)].to_vec());
                        self.tally.process_wait(of, line.place, wait.clone());
                    }
                    self.tally.collective(speaker, line.place, wait);
                }
            }
            Some(Fact::Progress) => {
                if let Some(started) = first.and_then(fields::number) {
                    let name = fields::torch_group(message).unwrap_or_default();
                    if let Some(failed) = fields::failed_work(message) {
                        self.tally.name_group(speaker, failed, line.place, name);
                    }
                    let group = Group::Torch(name.into());
                    self.tally.progress(speaker, group, line.place, started);
                }
            }
            Some(Fact::OpCount) => {
                if let Some((comm, started)) = fields::op_count(message) {
                    let group = Group::Comm(comm);
                    self.tally.progress(speaker, group, line.place, started);
                    self.tally
                        .calls
                        .see((speaker, comm), line.place, started, message);
                }
            }
            Some(Fact::InitComplete) => {
                self.tally.init_complete(speaker, line.place);
                if let Some(rank) = fields::rank_of_comm(message) {
                    self.tally.ready_rank(speaker, rank);
                }
                let ranks = fields::ranks(message);
                self.tally.most_ranks = self.tally.most_ranks.max(ranks);
                if let Some((comm, rank)) = fields::comm_rank(message) {
                    self.tally.member(speaker, comm, line.place, rank);
                }
            }
            Some(Fact::RankGpu) => {
                if let Some((member, bus)) = fields::rank_gpu(message) {
                    let of = RankOfComm {
                        comm_id: member.comm_id,
                        speaker,
                        rank: member.rank,
                        ranks: member.ranks,
                    };
                    let ranks = Some(u64::from(of.ranks)).filter(|ranks| *ranks > 0);
                    self.tally.most_ranks = self.tally.most_ranks.max(ranks);
                    self.tally.claims.gpu(of, line.place, bus);
                }
            }
            Some(Fact::AnnouncedRank) => {
                let number = |digits: Option<&[u8]>| u32::try_from(fields::number(digits?)?).ok();
                if let Some((rank, ranks)) = number(first).zip(number(second)) {
                    let of = RankOfJob {
                        file: self.file,
                        ranks,
                        rank,
                    };
                    let claims = &mut self.tally.claims;
                    claims.rank(of, line.place, fields::launched_process(line.text));
                    if has!(message, b"[repeated ") {
                        claims.cut(self.file);
                    }
                }
            }
            Some(Fact::ListedRank) => {
                let rank = first.and_then(fields::number);
                if let Some((rank, host)) =
                    rank.and_then(|rank| u32::try_from(rank).ok()).zip(second)
                {
                    self.tally.claims.listed(self.file, rank, host);
                }
            }
            Some(Fact::Version) => {
                if let Some(version) = first {
                    self.tally.version(speaker, version);
                }
            }
            Some(Fact::Devices) => self.tally.devices(speaker, line.place, message),
            Some(Fact::Volume) => {
                let digits = message.iter().skip_while(|byte| !byte.is_ascii_digit());
                let bytes = digits.take_while(|byte| byte.is_ascii_digit());
                let sum = bytes.fold(0_u64, |sum, digit| {
                    sum.saturating_mul(10)
                        .saturating_add(u64::from(digit - b'0'))
                });
                self.tally.volume(speaker, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::compose;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static CATALOGUE: LazyLock<SignatureCatalogue> =
        LazyLock::new(|| SignatureCatalogue::embedded().expect("sound"));
    static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let examples = CATALOGUE.signatures().iter().map(|one| one.example.clone());
        let ordinary = include_str!("../../probes/logs/ordinary.txt").lines();
        examples.chain(ordinary.map(str::to_owned)).collect()
    });

    /// The report on blocks of lines of which each thread took those that have its number. One
    /// thread alone searches each block for literals first; several parse each line.
    fn report(blocks: &[(Vec<String>, usize)], threads: usize) -> String {
        let filter = LogFilter::default();
        let mut done = Vec::new();
        for number in 0..threads {
            let (mut worker, mut counts) = (Worker::new(&CATALOGUE, &filter, 0, 1), Vec::new());
            worker.pace.wait = if threads == 1 { u32::MAX } else { 0 };
            let mine = blocks.iter().enumerate();
            for (index, (lines, _)) in mine.filter(|(_, (_, of))| of % threads == number) {
                let block = lines.concat();
                let index = index as u32;
                counts.push(LinesOfBlock {
                    index,
                    count: worker.block(block.as_bytes(), index),
                    is_within_line: false,
                });
            }
            done.push(Done {
                tally: worker.counter.tally,
                lines: counts,
                result: Ok(()),
            });
        }
        let (tally, _) = merged(done, 0, 0);
        serde_json::to_string_pretty(&compose(&CATALOGUE, &tally, &["x".to_owned()])).expect("JSON")
    }

    /// A line with other digits, behind the prefix of a launcher.
    fn line() -> impl Strategy<Value = String> {
        let prefix = prop::sample::select(vec!["", "", "[rank1]:", "[rank2]: ", "3: "]);
        let digit = prop::sample::select(vec!["", "", "1", "7"]);
        (0..LINES.len(), prefix, digit).prop_map(|(line, prefix, digit)| {
            let line = &LINES[line];
            let line = if digit.is_empty() {
                line.clone()
            } else {
                line.replace('0', digit)
            };
            format!("{prefix}{line}\n")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_report_does_not_depend_on_which_thread_scans_which_block(
            blocks in prop::collection::vec((prop::collection::vec(line(), 1..60), 0usize..4), 1..8),
        ) {
            let alone = report(&blocks, 1);
            for threads in 2..=4 {
                prop_assert_eq!(&alone, &report(&blocks, threads));
            }
        }
    }
}
