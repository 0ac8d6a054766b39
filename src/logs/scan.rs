//! Scans a log: searches its blocks for literals and parses only lines with a hit.
//!
//! Every thread keeps its own tally; the tallies are merged at the end of a file. Until
//! then a line number consists of the number of the block and of the line in the block.
#![forbid(unsafe_code)]

use super::blocks::Blocks;
use super::catalogue::{Regexes, SignatureCatalogue};
use super::fields;
use super::filter::LogFilter;
use super::harness::{BlockLines, Harness, HarnessReading};
use super::networks::{self, Proof};
use super::order::InOrder;
use super::shape::{self, Level, Record};
use super::signature::Fact;
use super::tally::{CountedLine, Group, Place, Tally, Wait};
use memchr::{memchr, memchr_iter, memrchr};
use std::io::{self, Read};

/// Most hits of one line that are examined; a line of many MiB may have millions.
const HITS_MAX: usize = 64;
/// More threads do not make the scan faster.
const THREADS_MAX: usize = 4;
const ESCAPE: u8 = 0x1b;
/// Most lines of harnesses that are kept because an earlier block is not scanned yet.
const EARLY_MAX: usize = 1 << 14;
/// Longest name of a collective, in bytes.
const OPERATION_MAX: usize = 80;
/// Bits of a line number that hold the line within its block; a block has fewer lines.
const BLOCK_BITS: u32 = 24;

/// Reads a stream to its end. `harness` follows the programs in it.
///
/// # Errors
/// Reading failed; the tally holds the lines up to that point.
pub(super) fn scan(
    catalogue: &SignatureCatalogue,
    filter: &LogFilter,
    source: impl Read + Send,
    file: u32,
    threads: usize,
    harness: &mut Harness,
) -> (Tally, u64, io::Result<()>) {
    let blocks = Blocks::new(source);
    let mut before = 0;
    let in_order = InOrder::new(EARLY_MAX, |part: BlockLines| {
        harness.take(file, before, &part);
        before += u64::from(part.lines);
    });
    let work = || {
        let _guard = in_order.guard();
        Worker::new(catalogue, filter, file).run(&blocks, |index, part: BlockLines| {
            in_order.hand_over(index, part.len(), part);
        })
    };
    let others = threads.clamp(1, THREADS_MAX) - 1;
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
    let (mut tally, mut lines, mut result) = (Tally::default(), Vec::new(), Ok(()));
    for mut part in done {
        lines.append(&mut part.lines);
        tally.merge(part.tally);
        result = result.and(part.result);
    }
    drop(in_order);
    resolve(&mut tally, lines, file);
    (tally, blocks.bytes(), result)
}

/// Turns line numbers within blocks into line numbers of the file.
fn resolve(tally: &mut Tally, mut lines: Vec<(u32, u32)>, file: u32) {
    lines.sort_unstable();
    let mut sum = 0_u64;
    let mut before = Vec::with_capacity(lines.len());
    for (_, count) in lines {
        before.push(sum);
        sum += u64::from(count);
    }
    tally.lines = sum;
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
    /// Index and number of lines of each block.
    lines: Vec<(u32, u32)>,
    result: io::Result<()>,
}

/// The work of one thread.
struct Worker<'a> {
    catalogue: &'a SignatureCatalogue,
    regexes: Regexes,
    filter: &'a LogFilter,
    file: u32,
    tally: Tally,
    /// The lines of harnesses in the block.
    harness: BlockLines,
    found: Vec<usize>,
    hits: Vec<(usize, usize)>,
}

impl<'a> Worker<'a> {
    fn new(catalogue: &'a SignatureCatalogue, filter: &'a LogFilter, file: u32) -> Self {
        let regexes = catalogue.regexes();
        Self {
            catalogue,
            regexes,
            filter,
            file,
            tally: Tally::default(),
            harness: BlockLines::default(),
            found: Vec::new(),
            hits: Vec::new(),
        }
    }

    fn run<R: Read>(mut self, blocks: &Blocks<R>, hand_over: impl Fn(u32, BlockLines)) -> Done {
        let (mut buffer, mut lines) = (Vec::new(), Vec::new());
        let result = loop {
            match blocks.next(&mut buffer) {
                Ok(Some((index, size))) => {
                    let count = self.block(&buffer[..size], index);
                    lines.push((index, count));
                    let mut harness = std::mem::take(&mut self.harness);
                    harness.lines = count;
                    hand_over(index, harness);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        Done {
            tally: self.tally,
            lines,
            result,
        }
    }

    /// Scans a block and returns its number of lines.
    fn block(&mut self, block: &[u8], index: u32) -> u32 {
        let catalogue = self.catalogue;
        let mut at = Cursor {
            index,
            has_escapes: memchr(ESCAPE, block).is_some(),
            ..Cursor::default()
        };
        catalogue.hits(block, |literal, place| {
            if place >= at.end {
                self.line(block, &mut at);
                at.start = memrchr(b'\n', &block[..place]).map_or(0, |newline| newline + 1);
                at.end =
                    memchr(b'\n', &block[place..]).map_or(block.len(), |newline| place + newline);
            }
            if self.hits.len() < HITS_MAX {
                self.hits.push((literal, place - at.start));
            }
        });
        self.line(block, &mut at);
        at.count_to(block, block.len());
        at.lines + u32::from(!block.ends_with(b"\n") && !block.is_empty())
    }

    /// Parses the line whose hits were collected.
    fn line(&mut self, block: &[u8], at: &mut Cursor) {
        if self.hits.is_empty() {
            return;
        }
        at.count_to(block, at.start);
        let place = Place {
            file: self.file,
            line: (u64::from(at.index) << BLOCK_BITS) | u64::from(at.lines),
        };
        at.count_line(block);
        let line = &block[at.start..at.end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut hits = std::mem::take(&mut self.hits);
        // The search reports hits in the order of their anchors.
        hits.sort_unstable_by_key(|(_, at)| *at);
        if hits
            .iter()
            .any(|(literal, _)| self.catalogue.is_signature(*literal))
        {
            self.tally.matched_lines += 1;
        }
        if at.has_escapes && memchr(ESCAPE, line).is_some() {
            let mut scratch = Vec::new();
            let plain = shape::without_escapes(line, &mut scratch);
            hits.clear();
            self.catalogue.hits(plain, |literal, place| {
                if hits.len() < HITS_MAX {
                    hits.push((literal, place));
                }
            });
            hits.sort_unstable_by_key(|(_, at)| *at);
            self.records(plain, &hits, place);
        } else {
            self.records(line, &hits, place);
        }
        let behind = block.get(at.end + 1..).unwrap_or_default();
        self.harness.read_table(at.lines, behind);
        hits.clear();
        self.hits = hits;
    }

    /// Parses each record of a line that has a hit.
    fn records(&mut self, line: &[u8], hits: &[(usize, usize)], place: Place) {
        let mut rest = hits;
        while let Some((&(_, first), _)) = rest.split_first() {
            let (record, start, end) = shape::record_at(line, first);
            // A marker precedes its message.
            let size = rest
                .iter()
                .take_while(|(_, at)| *at < end.max(first + 1))
                .count()
                .max(1);
            let (mine, others) = rest.split_at(size);
            let mut found = std::mem::take(&mut self.found);
            let is_of_message = |at: usize| at >= start || record.level().is_none();
            let hits = mine.iter().filter(|(_, at)| is_of_message(*at));
            let literals = hits.map(|(literal, _)| *literal);
            self.catalogue
                .of_message(literals, record.message, &self.regexes, &mut found);
            if self.filter.takes(&record) {
                let site = record
                    .site()
                    .filter(|_| record.level() == Some(Level::Warn));
                self.take(
                    &record,
                    &found,
                    CountedLine {
                        place,
                        time_us: record.time_us(),
                        site,
                        text: line,
                        at: first,
                    },
                    mine,
                );
            } else if !found.is_empty() {
                self.tally.filtered_records += 1;
            }
            self.found = found;
            rest = others;
        }
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        found: &[usize],
        line: CountedLine<'_>,
        hits: &[(usize, usize)],
    ) {
        if found.is_empty() {
            let message = match record.level() {
                Some(Level::Warn) => Some(record.message),
                Some(Level::Info) => None,
                None => shape::glog_error(line.text),
            };
            if let Some(message) = message {
                let speaker = self.tally.speaker(record, self.file);
                self.tally.see_unknown(speaker, message, line);
                if let Some(name) = networks::of_warning(record.message) {
                    self.tally.transport(speaker, name, Proof::Up, line.place);
                }
            }
            return;
        }
        let speaker = self.tally.speaker(record, self.file);
        let facts = found
            .iter()
            .map(|index| self.catalogue.signatures[*index].fact);
        if facts.into_iter().any(|fact| fact == Some(Fact::Harness)) {
            // The number of a line within its block.
            let number = (line.place.line & ((1 << BLOCK_BITS) - 1)) as u32;
            if let Some(reading) = HarnessReading::of(record.message) {
                let (rank, time_us) = (record.rank(), record.time_us());
                self.harness
                    .hear(number, rank, time_us, reading, record.message);
            }
        }
        for &index in found {
            let hit = hits
                .iter()
                .find(|(literal, _)| self.catalogue.has(*literal, index));
            let at = hit.map_or(line.at, |(_, at)| *at);
            self.note(index, speaker, record, CountedLine { at, ..line });
        }
    }

    fn note(&mut self, index: usize, speaker: u32, record: &Record<'_>, line: CountedLine<'_>) {
        let signature = &self.catalogue.signatures[index];
        // At most SIGNATURES_MAX.
        let number = index as u32;
        let message = record.message;
        let polls = if signature.fact == Some(Fact::Polls) {
            fields::polls(message).and_then(fields::Polls::new)
        } else {
            None
        };
        self.tally.see(number, speaker, polls, line);
        let captures = if signature.fact.is_some_and(Fact::has_groups) {
            self.regexes[index]
                .as_ref()
                .and_then(|regex| regex.captures(message))
        } else {
            None
        };
        let group = |name: &str| captures.as_ref()?.name(name).map(|group| group.as_bytes());
        match signature.fact {
            None | Some(Fact::Harness) => {}
            Some(Fact::Polls) => {
                if let Some(flow) = fields::flow(message) {
                    self.tally.flow(speaker, flow, |flow| {
                        flow.slow += 1;
                        if flow.nic.is_none() {
                            flow.nic = fields::nic(message).map(Into::into);
                        }
                    });
                }
            }
            Some(Fact::Flow) => {
                if let Some(flow) = fields::flow(message) {
                    self.tally.flow(speaker, flow, |flow| {
                        flow.made += 1;
                        flow.is_control |=
                            memchr::memmem::find(message, b" through host").is_some();
                    });
                }
            }
            Some(Fact::Setting) => {
                if let (Some(key), Some(value)) = (group("key"), group("value")) {
                    self.tally.set(speaker, key, value);
                }
            }
            Some(
                fact @ (Fact::TransportLoaded
                | Fact::TransportUp
                | Fact::Transport
                | Fact::TransportUsed),
            ) => {
                let proof = match fact {
                    Fact::TransportUsed => Proof::Used,
                    Fact::Transport => Proof::Chosen,
                    Fact::TransportLoaded => Proof::Loaded,
                    _ => Proof::Up,
                };
                if let Some(name) = group("transport") {
                    self.tally.transport(speaker, name, proof, line.place);
                }
            }
            Some(Fact::Nodes) => {
                if let Some(nodes) = group("nodes").and_then(fields::number) {
                    // A communicator has fewer nodes than 2^32.
                    self.tally.nodes(speaker, nodes as u32);
                }
            }
            Some(Fact::Collective) => {
                let sequence = group("sequence").and_then(fields::number);
                if let Some((sequence, operation)) = sequence.zip(group("operation")) {
                    let wait = Wait {
                        group: fields::torch_group(message).unwrap_or_default().to_vec(),
                        sequence,
                        operation: operation[..operation.len().min(OPERATION_MAX)].to_vec(),
                    };
                    self.tally.collective(speaker, wait);
                }
            }
            Some(Fact::Progress) => {
                if let Some(started) = group("enqueued").and_then(fields::number) {
                    let name = fields::torch_group(message).unwrap_or_default();
                    let group = Group::Torch(name.into());
                    self.tally.progress(speaker, group, line.place, started);
                }
            }
            Some(Fact::OpCount) => {
                if let Some((comm, started)) = fields::op_count(message) {
                    let group = Group::Comm(comm);
                    self.tally.progress(speaker, group, line.place, started);
                }
            }
            Some(Fact::InitComplete) => {
                self.tally.init_complete(speaker, line.place);
                if let Some((comm, rank)) = fields::comm_rank(message) {
                    self.tally.member(speaker, comm, line.place, rank);
                }
            }
            Some(Fact::Version) => {
                if let Some(version) = group("version") {
                    self.tally.version(speaker, version);
                }
            }
            Some(Fact::Devices) => self.tally.devices(speaker, message),
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

/// The line whose hits are being collected, and how far lines were counted.
#[derive(Default)]
struct Cursor {
    index: u32,
    has_escapes: bool,
    start: usize,
    end: usize,
    counted: usize,
    lines: u32,
}

impl Cursor {
    fn count_to(&mut self, block: &[u8], to: usize) {
        let newlines = memchr_iter(b'\n', &block[self.counted..to]).count();
        // A block has fewer lines than bytes.
        self.lines += newlines as u32;
        self.counted = to;
    }

    /// Counts the parsed line, whose end is known.
    fn count_line(&mut self, block: &[u8]) {
        self.lines += u32::from(self.end < block.len());
        self.counted = block.len().min(self.end + 1);
    }
}
