//! How a log ends: the last line of each process, and whether it says that the process waits.
//!
//! A program that waits for a rendezvous, a placement, an engine or its peers often says so as an
//! ordinary line and then says nothing more. Such a line is no error, and programs find new words
//! for it every year. That nothing follows it is what tells, so the end of a file is read once
//! more, line by line, whatever signatures its lines have.
//!
//! Not here: waits that end in an error, which are findings by themselves, and programs that
//! drive the plugin, whose lines `harness` follows.
#![forbid(unsafe_code)]

use super::benchmarks;
use super::by_hand::ByHand;
use super::fields;
use super::loggers::regex;
use super::measured::{self, Measured, ToldRow};
use super::said_stalls::SaidStalls;
use super::seen::Place;
use super::shape::{self, Record};
use super::time::Years;
use super::traceback;
use super::traceback_box::TracebackBox;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Bytes of the end of a file that are read.
pub(super) const TAIL: usize = 64 << 10;
/// Processes whose last line is kept, in all files; with their texts 4 MiB at most.
const ENDS_MAX: usize = 4096;
/// Longest text of a line that is kept, in bytes.
const TEXT_MAX: usize = 400;
/// The message is searched up to here.
const FRONT: usize = 512;
const SHAPE_MAX: usize = 160;

/// What a process says that it waits for, or that it has begun and cannot end alone.
static WAITS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\bwait(?:s|ing)?\b(?:[ -][\w.]+){0,4}?[ -](?:for|on|until|till|to|in)\b",
        r"|\bawaiting\b|\bblocked (?:on|in|by|until)\b|\brendezvous'?ing\b",
        r"|\bjoining (?:\w+ )?(?:rendezvous|cluster|group|quorum)|\bnot yet (?:ready|available|started|joined|connected)\b",
        r"|\b(?:is|are|still|remains?) pending\b|\bpending (?:placement|creation|until|for)\b",
        r"|\b(?:re-?)?try(?:ing)? (?:again|in \d|to (?:re)?(?:connect|join|reach))|\bretrying\b|\bwill retry\b",
        r"|\b(?:re)?connecting to\b|\bno available shared memory broadcast block\b",
        r"|\bcannot be retrieved \(gai error|\bno progress (?:past|beyond|since|for|after|in)\b",
        r"|\bstalled (?:for|since|at)\b",
        r"|\binitializing (?:torch ?distributed|torch ?backend|distributed|ddp\b|(?:default |the )?process group)",
    ))
});
/// Words of a wait that is over, that is none, or that a server has between two requests.
static OVER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\b(?:done|finished|stopped|after|without|no|not|instead of|while|before) (?:waiting|retrying|pending)\b",
        r"|\bfrom front-?end\b|\bfor (?:\w+ ){0,2}(?:requests?|jobs?|tasks?|work|input|prompts?|commands?|events?)\b",
        r"|\b(?:if|when|to avoid)\b.*\bwait|\b(?:successfully|succeeded)\b",
        // An analysis of VTune.
        r"|\blocks and waits\b",
        // A setting that is named so: `flow steering wait in micros 0`.
        r"|\bwait in (?:micro|milli|nano)?(?:s|secs?|seconds?)\b|\brestored? to default\b",
    ))
});
/// Lines of NCCL behind which a rank waits until all others have come as far.
static NCCL_BEGINS: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"^\s*Bootstrap ?: Using |{COMM_BEGINS}")));
/// Those of them that are of one communicator; older releases write the last form.
const COMM_BEGINS: &str =
    r"\bInit START\b|^\s*comm 0x\w+ rank \d+ nranks \d+ cudaDev \d+ nvmlDev \d+\s*$";
static OF_COMM: LazyLock<Regex> = LazyLock::new(|| regex(COMM_BEGINS));
static ALONE: LazyLock<Regex> = LazyLock::new(|| regex(r"\bnranks 1\b"));
/// Lines that say nothing about whether a program goes on: of stack traces, and of programs that
/// are ended from outside.
static NEUTRAL: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^(?:\s|\^C|Traceback|KeyboardInterrupt|Killed|Terminated|Aborted|\*{5}|-{5}|={5})",
        r"|^NCCL version |\bcudaDriverVersion \d",
    ))
});

/// What perftest prints of its ends once a client has connected.
static CONNECTED: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:local|remote) address: "));

/// What a rank logs on its own behind the beginning of its communicator, before its first connection.
static NCCL_GOES_ON: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:Setting affinity |Channel \d+(?:/\d+)? :|Ring \d+ :|CUDA Dev \d|NET/\w+ : GPU Direct RDMA |Trees? |P2P Chunksize |Connected all |comm 0x\w+ rank \d+ nRanks )",
    )
});

/// The ends of files by file and speaker.
#[derive(Debug, Default)]
pub(super) struct Ends {
    of: BTreeMap<(u32, u32), End>,
    /// For each file: the first line of the part that was read last that is no wait.
    goes_on: BTreeMap<u32, Place>,
    /// The number of the last line of each file.
    last: BTreeMap<u32, u64>,
    /// For each file: the table of a benchmark that it has last.
    tables: BTreeMap<u32, BenchmarkTable>,
    /// For each file: the traceback in which the part that was read last ends.
    tracebacks: BTreeMap<u32, OpenTraceback>,
    /// For each file: what its rows of nccl-tests tell.
    measured: BTreeMap<u32, Measured>,
    /// Files of which the part that was read last has a row of a table.
    rows: BTreeSet<u32>,
    /// For each file: what a person did in the part that was read last.
    by_hand: BTreeMap<u32, ByHand>,
    /// For each file: where its program says that it does not go on, in the part that has such lines last.
    said_stalls: BTreeMap<u32, SaidStalls>,
    /// The ranks of communicators that processes destroyed, with the size of each: process, rank, ranks.
    destroyed: BTreeSet<(u32, u32, u64)>,
}

/// The last table of a benchmark in a file.
#[derive(Debug, Clone)]
pub(super) struct BenchmarkTable {
    pub benchmark: &'static str,
    pub speaker: u32,
    /// The last line of its head.
    pub head: LastLine,
    pub has_row: bool,
    /// The size of the last row, if hardly anything is behind it.
    pub last_size: Option<u64>,
    /// The columns of its last row, and the decimals of the last one of them.
    columns: usize,
    decimals: usize,
    /// Rows with another size than the one before.
    pub sizes: usize,
    /// The size of its last row to come, as far as it is known.
    pub largest: u64,
}

/// A traceback whose exception is not there.
#[derive(Debug, Clone)]
pub(super) struct OpenTraceback {
    pub speaker: u32,
    /// Its first line.
    pub head: LastLine,
    /// The place of its last frame.
    pub frame: String,
    /// The call of CUDA or of a library for collectives in the code of that frame.
    pub call: Option<String>,
    /// What the driver asked of its workers in the last such call.
    pub asked: Option<String>,
    /// The start of the exception's class, and its line, if the log ends within that.
    pub torn: Option<(Place, Vec<u8>)>,
    /// The number of its last line, if it is torn only where no other line is behind that.
    last: Option<u64>,
}

/// How the lines of one speaker in one file end.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub last: LastLine,
    pub wait: Option<LastWait>,
}

/// A line.
#[derive(Debug, Clone)]
pub(super) struct LastLine {
    pub place: Place,
    pub time_us: Option<i64>,
    pub text: Vec<u8>,
    /// The line with every number as `#`.
    pub shape: Vec<u8>,
}

impl LastLine {
    fn new((place, time_us): (Place, Option<i64>), line: &[u8], front: &[u8]) -> Self {
        Self {
            place,
            time_us,
            text: line[..line.len().min(TEXT_MAX)].to_vec(),
            shape: shape_of(front.trim_ascii()),
        }
    }
}

/// The last lines of a speaker that say that it waits, with no other line of it in between.
#[derive(Debug, Clone)]
pub(super) struct LastWait {
    pub first: LastLine,
    pub last: LastLine,
    pub count: u64,
    pub kind: WaitKind,
    /// What a rank logged last of the communicator that it begins.
    pub reached: Option<Vec<u8>>,
    /// The first line behind them that is no wait: of this speaker, and of any.
    pub own_after: Option<Place>,
    pub any_after: Option<Place>,
}

/// Who says that a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitKind {
    /// A program in its own words.
    Said,
    /// NCCL, which begins to make a communicator.
    Nccl,
}

impl BenchmarkTable {
    /// Reads a line behind the head.
    fn row(&mut self, line: &[u8]) {
        let columns = line.trim_ascii().split(u8::is_ascii_whitespace);
        let columns = columns.filter(|column| !column.is_empty()).count();
        let decimals = benchmarks::decimals(self.benchmark, line);
        let size = benchmarks::size_of_whole_row(self.benchmark, line);
        // A number that is torn has fewer decimals than that of the row before.
        match size.filter(|_| columns >= self.columns && decimals >= self.decimals) {
            Some(size) => {
                (self.columns, self.decimals) = (columns, decimals);
                self.sizes += usize::from(self.last_size != Some(size));
                self.last_size = Some(size);
            }
            // A row that is torn is the last line of its file.
            None if benchmarks::size_of_row(line).is_some() || line.trim_ascii().is_empty() => {}
            None => self.last_size = None,
        }
    }
}

impl Ends {
    /// Adds the last lines of a part of a file. `last_line` is the number of the very last one;
    /// `speaker` gives the speaker of a record that is not left out.
    pub(super) fn read(
        &mut self,
        file: u32,
        tail: &[u8],
        last_line: u64,
        years: Years,
        mut speaker: impl FnMut(&Record<'_>) -> Option<u32>,
    ) {
        let mut part = Self::default();
        let text = tail.strip_suffix(b"\n").unwrap_or(tail);
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let before = last_line.saturating_sub(lines.len() as u64);
        let mut scratch = Vec::new();
        let mut by_hand = ByHand::default();
        let mut said_stalls = SaidStalls::default();
        let mut tracebacks = BTreeMap::<&[u8], OpenTraceback>::new();
        let (mut boxed, mut marked) = (TracebackBox::default(), None);
        // The last line that is of no traceback.
        let mut other = 0;
        let mut largest = None;
        let mut above: &[u8] = b"";
        for (number, line) in (before + 1..).zip(lines) {
            // The first word of one more line of NCCL, which is torn.
            let is_start = !line.is_empty() && above.starts_with(line);
            if number == last_line && is_start && memchr::memmem::find(above, b" NCCL ").is_some() {
                break;
            }
            above = line;
            let raw = line.strip_suffix(b"\r").unwrap_or(line);
            let line = shape::without_escapes(raw, &mut scratch);
            part.answer(file, line);
            largest = benchmarks::largest_size(&line[..line.len().min(FRONT)]).or(largest);
            let writer = traceback::logger(raw).unwrap_or_else(|| traceback::writer(raw));
            let begins_so = |of: &&&[u8]| !of.is_empty() && raw.starts_with(of);
            let logger = tracebacks
                .keys()
                .filter(begins_so)
                .max_by_key(|of| of.len());
            let writer = logger.copied().unwrap_or(writer);
            let frame = traceback::place_of_frame(line);
            if let Some(open) = tracebacks.get_mut(writer) {
                open.last = open.last.map(|_| number);
                match &frame {
                    Some(frame) => {
                        open.frame.clone_from(frame);
                        open.call = None;
                    }
                    None if !traceback::is_within(raw, writer) => {
                        let torn = traceback::torn_exception(raw, writer);
                        let torn = torn.filter(|_| number == last_line);
                        let place = Place { file, line: number };
                        open.torn = torn.map(|torn| (place, torn.to_vec()));
                        if open.torn.is_none() {
                            tracebacks.remove(writer);
                        }
                    }
                    None => {
                        open.call = open.call.take().or_else(|| traceback::call_in(line));
                        open.asked = traceback::asked_in(line).or(open.asked.take());
                    }
                }
            }
            let is_of_open = boxed.line(number, line) || tracebacks.contains_key(writer);
            if !is_of_open && !line.trim_ascii().is_empty() {
                other = number;
            }
            by_hand.line(number, &line[..line.len().min(FRONT)]);
            said_stalls.line(number, &line[..line.len().min(FRONT)]);
            if !line.iter().any(u8::is_ascii_alphabetic) {
                continue;
            }
            let (record, ..) = shape::record_at(line, line.len());
            if let Some(speaker) = speaker(&record) {
                let place = Place { file, line: number };
                part.line(speaker, (place, record.time_us(years)), line, &record);
                part.table(speaker, (place, record.time_us(years)), line, largest);
                part.row(speaker, place, line);
                let is_logged = traceback::logger(raw).is_some();
                let is_headless = is_logged && !tracebacks.contains_key(writer);
                let is_begun = traceback::begins(line) || traceback::begins_of_ray(line);
                if is_begun || is_headless && frame.is_some() {
                    let open = OpenTraceback {
                        speaker,
                        head: LastLine::new((place, record.time_us(years)), line, line),
                        frame: frame.unwrap_or_default(),
                        call: None,
                        asked: None,
                        torn: None,
                        last: is_logged.then_some(number),
                    };
                    tracebacks.insert(writer, open);
                }
                if boxed.is_marked(number) {
                    marked = Some((speaker, LastLine::new((place, None), line, line)));
                }
            }
        }
        by_hand.end_of_stack();
        part.by_hand.insert(file, by_hand);
        if said_stalls.first.is_some() {
            part.said_stalls.insert(file, said_stalls);
        }
        let of_box = boxed
            .torn()
            .zip(marked)
            .map(|((last, frame), (speaker, head))| OpenTraceback {
                speaker,
                head,
                frame,
                call: None,
                asked: None,
                torn: None,
                last: Some(last),
            });
        let open = tracebacks.into_values().chain(of_box);
        let is_at_end = |one: &OpenTraceback| one.last.is_none_or(|last| last > other);
        let open = open.filter(|one| !one.frame.is_empty() && is_at_end(one));
        if let Some(first) = open.min_by_key(|one| one.head.place) {
            part.tracebacks.insert(file, first);
        }
        part.last.insert(file, last_line);
        self.merge(part, |speaker| speaker);
    }

    fn line(
        &mut self,
        speaker: u32,
        (place, time_us): (Place, Option<i64>),
        line: &[u8],
        record: &Record<'_>,
    ) {
        let message = if record.level().is_some() {
            record.message
        } else {
            line
        };
        self.destroy(speaker, message);
        let front = &message[..message.len().min(FRONT)];
        let kind = waits(front);
        let says = CONNECTED.is_match(front) || super::compose::is_torn_report(front);
        let is_neutral = kind.is_none() && NEUTRAL.is_match(front) && !says;
        if is_neutral {
            return;
        }
        let last = LastLine::new((place, time_us), line, front);
        if kind.is_none()
            && NCCL_GOES_ON.is_match(front)
            && let Some(wait) = self.begun(speaker, place.file)
        {
            (wait.last.place, wait.any_after) = (place, None);
            wait.reached = Some(last.text);
            return;
        }
        let Some(kind) = kind else {
            self.goes_on.entry(place.file).or_insert(place);
            for end in self.of.values_mut() {
                if let Some(wait) = &mut end.wait {
                    wait.any_after.get_or_insert(place);
                }
            }
            let end = self.end(speaker, last);
            if let Some(wait) = end.and_then(|end| end.wait.as_mut()) {
                wait.own_after.get_or_insert(place);
            }
            return;
        };
        if kind == WaitKind::Nccl {
            self.end_of_said(place);
        }
        let Some(end) = self.end(speaker, last.clone()) else {
            return;
        };
        match &mut end.wait {
            Some(wait) if wait.own_after.is_none() && wait.kind == kind => {
                (wait.last, wait.count) = (last, wait.count + 1);
                wait.any_after = None;
            }
            wait => {
                *wait = Some(LastWait {
                    first: last.clone(),
                    last,
                    count: 1,
                    kind,
                    reached: None,
                    own_after: None,
                    any_after: None,
                });
            }
        }
    }

    /// Notes the rank of a communicator that a process destroyed.
    fn destroy(&mut self, speaker: u32, message: &[u8]) {
        let of = message.ends_with(b" - Destroy COMPLETE").then_some(message);
        let rank = of
            .and_then(fields::rank_of_comm)
            .zip(of.and_then(fields::ranks));
        if let Some((rank, ranks)) = rank.filter(|_| self.destroyed.len() < ENDS_MAX) {
            self.destroyed.insert((speaker, rank, ranks));
        }
    }

    /// The ranks of communicators that processes destroyed, with the size of each: process, rank, ranks.
    pub(super) fn destroyed(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.destroyed.iter().copied()
    }

    /// Notes that the table of a file has a row, if a line is one.
    fn answer(&mut self, file: u32, line: &[u8]) {
        let benchmark = self.tables.get(&file).map_or("", |table| table.benchmark);
        let line = &line[..line.len().min(FRONT)];
        if let Some(table) = self.tables.get_mut(&file) {
            table.row(line);
        }
        if benchmarks::is_answer(benchmark, line) {
            self.rows.insert(file);
            self.tables
                .values_mut()
                .for_each(|table| table.has_row = true);
        }
    }

    /// Reads what a row of nccl-tests measured.
    fn row(&mut self, speaker: u32, place: Place, line: &[u8]) {
        let line_of = &line[..line.len().min(FRONT)];
        if let Some(row) = measured::row(line_of) {
            let told = ToldRow {
                row,
                speaker,
                line: place.line,
                text: line_of[..line_of.len().min(TEXT_MAX)].to_vec(),
            };
            self.measured.entry(place.file).or_default().read(told);
        }
    }

    /// Begins a table, if a line ends the head of one.
    fn table(
        &mut self,
        speaker: u32,
        (place, time_us): (Place, Option<i64>),
        line: &[u8],
        largest: Option<u64>,
    ) {
        let front = &line[..line.len().min(FRONT)];
        if let Some(benchmark) = benchmarks::benchmark_of_head(front) {
            let head = LastLine::new((place, time_us), line, front);
            let table = BenchmarkTable {
                benchmark,
                speaker,
                head,
                has_row: false,
                last_size: None,
                columns: 0,
                decimals: 0,
                sizes: 0,
                largest: largest.unwrap_or(benchmarks::last_size(benchmark)),
            };
            self.tables.insert(place.file, table);
        }
    }

    /// A rank that begins to make a communicator goes on, whatever its program said that it waits for.
    fn end_of_said(&mut self, place: Place) {
        let waits = self.of.values_mut().filter_map(|end| end.wait.as_mut());
        for wait in waits.filter(|wait| wait.kind == WaitKind::Said) {
            wait.own_after.get_or_insert(place);
            wait.any_after.get_or_insert(place);
        }
    }

    /// The wait of a rank that has begun to make a communicator.
    fn begun(&mut self, speaker: u32, file: u32) -> Option<&mut LastWait> {
        let wait = self.of.get_mut(&(file, speaker))?.wait.as_mut()?;
        let has_begun = begins_comm(&wait.last.text);
        (has_begun && wait.own_after.is_none()).then_some(wait)
    }

    /// The end of a speaker, with its new last line; `None` if too many are kept.
    fn end(&mut self, speaker: u32, last: LastLine) -> Option<&mut End> {
        let key = (last.place.file, speaker);
        if self.of.len() >= ENDS_MAX && !self.of.contains_key(&key) {
            return None;
        }
        let end = self.of.entry(key).or_insert_with(|| End {
            last: last.clone(),
            wait: None,
        });
        end.last = last;
        Some(end)
    }

    /// Adds the ends of other files, or of a later part of a file.
    pub(super) fn merge(&mut self, other: Self, number: impl Fn(u32) -> u32) {
        for ((file, _), end) in &mut self.of {
            if let Some((wait, place)) = end.wait.as_mut().zip(other.goes_on.get(file)) {
                wait.any_after.get_or_insert(*place);
            }
        }
        for ((file, speaker), end) in other.of {
            let key = (file, number(speaker));
            if self.of.len() < ENDS_MAX || self.of.contains_key(&key) {
                self.of.insert(key, end);
            }
        }
        self.goes_on.extend(other.goes_on);
        self.by_hand.extend(other.by_hand);
        self.said_stalls.extend(other.said_stalls);
        for (file, table) in &mut self.tables {
            table.has_row |= other.rows.contains(file);
            if other.last.contains_key(file) {
                table.last_size = None;
            }
        }
        self.tracebacks
            .retain(|file, _| !other.last.contains_key(file));
        self.tracebacks
            .extend(other.tracebacks.into_iter().map(|(file, open)| {
                let speaker = number(open.speaker);
                (file, OpenTraceback { speaker, ..open })
            }));
        for (file, measured) in other.measured {
            let known = self.measured.entry(file).or_default();
            known.merge(measured.numbered(&number));
        }
        self.last.extend(other.last);
        self.rows.extend(other.rows);
        let destroyed = other.destroyed.into_iter();
        self.destroyed
            .extend(destroyed.map(|(speaker, rank, ranks)| (number(speaker), rank, ranks)));
        let tables = other.tables.into_iter();
        self.tables.extend(tables.map(|(file, table)| {
            let speaker = number(table.speaker);
            (file, BenchmarkTable { speaker, ..table })
        }));
    }

    /// The tables that have a head and no row.
    pub(super) fn tables_without_rows(&self) -> impl Iterator<Item = &BenchmarkTable> {
        self.tables.values().filter(|table| !table.has_row)
    }

    /// The tables behind whose last row nothing is, and that are not complete, each with the size of that row.
    pub(super) fn open_tables(&self) -> impl Iterator<Item = (&BenchmarkTable, u64)> {
        let open = self.tables.values();
        let open = open.filter_map(|table| Some((table, table.last_size?)));
        // One row alone may be all that the options of the others ask for.
        open.filter(|(table, size)| {
            *size < table.largest && (table.sizes > 1 || table.largest == u64::MAX)
        })
    }

    /// The traceback in which each file ends.
    pub(super) fn open_tracebacks(&self) -> impl Iterator<Item = &OpenTraceback> {
        self.tracebacks.values()
    }

    /// What the rows of nccl-tests tell of each file.
    pub(super) fn measured(&self) -> impl Iterator<Item = (&u32, &Measured)> {
        self.measured.iter()
    }

    /// What a person did to the programs of each file.
    pub(super) fn by_hand(&self) -> impl Iterator<Item = (&u32, &ByHand)> {
        self.by_hand.iter()
    }

    /// Where the program of each file says that it does not go on.
    pub(super) fn said_stalls(&self) -> impl Iterator<Item = (&u32, &SaidStalls)> {
        self.said_stalls.iter()
    }

    /// The number of the last line of each file.
    pub(super) fn last_lines(&self) -> impl Iterator<Item = (&u32, &u64)> {
        self.last.iter()
    }

    /// The ends of all files, by file and speaker.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, &End)> {
        let all = self.of.iter();
        all.map(|((file, speaker), end)| (*file, *speaker, end))
    }

    /// The time of each file's last line.
    pub(super) fn last_us(&self) -> BTreeMap<u32, i64> {
        let mut last_us = BTreeMap::new();
        for (file, _, end) in self.iter() {
            if let Some(time_us) = end.last.time_us {
                let latest = last_us.entry(file).or_insert(time_us);
                *latest = time_us.max(*latest);
            }
        }
        last_us
    }
}

/// A line with every number as `#`, that of its rank too.
fn shape_of(line: &[u8]) -> Vec<u8> {
    let mut shape: Vec<u8> = line
        .iter()
        .map(|byte| if byte.is_ascii_digit() { b'#' } else { *byte })
        .collect();
    shape.dedup_by(|next, byte| *next == b'#' && *byte == b'#');
    shape.truncate(SHAPE_MAX);
    shape
}

/// Whether a line is one with which a rank begins a communicator.
pub(super) fn begins_comm(line: &[u8]) -> bool {
    OF_COMM.is_match(super::shape::record_at(line, line.len()).0.message)
}

/// Whether a message says that its program waits. A communicator of one rank waits for nobody.
pub(super) fn waits(message: &[u8]) -> Option<WaitKind> {
    if NCCL_BEGINS.is_match(message) {
        return (!ALONE.is_match(message)).then_some(WaitKind::Nccl);
    }
    let said = WAITS.is_match(message) && !OVER.is_match(message);
    said.then_some(WaitKind::Said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::report_of as report;

    /// The signature, the processes, the first line and the number of lines of each finding.
    fn found(text: &str) -> Vec<(String, Vec<String>, u64, u64)> {
        let findings = report(&[("x.log", text)]).findings.into_iter();
        let one = findings.map(|one| (one.signature, one.processes, one.first.line, one.count));
        one.collect()
    }

    fn said(processes: &[&str], line: u64, count: u64) -> (String, Vec<String>, u64, u64) {
        let processes = processes.iter().map(|one| (*one).to_owned()).collect();
        ("waits-at-end".to_owned(), processes, line, count)
    }

    #[test]
    fn a_row_with_fewer_columns_than_the_one_before_is_torn() {
        let last_size = |benchmark: &'static str, rows: &[&str]| {
            let mut table = BenchmarkTable {
                benchmark,
                speaker: 0,
                head: LastLine::new((Place::default(), None), b"", b""),
                has_row: true,
                last_size: None,
                columns: 0,
                decimals: 0,
                sizes: 0,
                largest: 0,
            };
            rows.iter().for_each(|row| table.row(row.as_bytes()));
            table.last_size
        };
        let osu = ["32768     48.11", "65536     61.02"];
        assert_eq!(last_size("OSU's test", &osu), Some(65536));
        let torn = [osu[0], osu[1], "1310"];
        assert_eq!(last_size("OSU's test", &torn), Some(65536));
        let perftest = [" 4096  5000  11.2  11.1  0.28", " 8192  50"];
        assert_eq!(last_size(benchmarks::PERFTEST, &perftest), Some(4096));
    }

    #[test]
    fn a_line_says_that_its_program_waits() {
        let check = |line: &str, expected: bool| {
            assert_eq!(waits(line.as_bytes()).is_some(), expected, "{line}");
        };
        check("Waiting for 2 local core engine proc(s) to start.", true);
        check("[default] Rendezvous'ing worker group", true);
        check("rank 3 waits in the barrier on node-b", true);
        check("Waiting in store based barrier, worker_count=1", true);
        check("Waiting 10 seconds for other agents", true);
        check("(raylet) placement group pg-7 is still pending", true);
        check("connect refused, retrying in 5 s", true);
        check("Connecting to the store at node-a:29500", true);
        check("node-a:1:1 [0] NCCL INFO Bootstrap : Using eth0", false);
        check("Bootstrap : Using eth0:10.0.1.25<0>", true);
        check("comm 0x1 rank 0 nranks 2 - Init START", true);
        check("comm 0x1 rank 0 nranks 1 - Init START", false);
        check("comm 0x1 rank 0 nranks 2 - Init COMPLETE", false);
        check("Done waiting for other agents. Elapsed: 0.1", false);
        check("Running: 0 reqs, Waiting: 0 reqs", false);
        check(
            " | or run the Locks and Waits analysis to identify bottlenecks",
            false,
        );
        check("Waiting for new requests", false);
        check(
            "worker group successfully finished. Waiting 300 seconds for others",
            false,
        );
        check(
            "NET/GPUDirectTCPX : flow steering wait in micros 50000",
            false,
        );
        check("wait time 0 invalid, restore to default.", false);
        check("no need to wait for it, not waiting for rank 3", false);
    }

    #[test]
    fn a_log_that_ends_in_a_wait_has_a_finding() {
        let text = "loaded\nwaiting for node-b to join, 10 s\nwaiting for node-b to join, 20 s\n";
        assert_eq!(found(text), [said(&["x.log"], 2, 2)]);
        assert!(found(&format!("{text}step 1\n")).is_empty());
        // Stack traces and the end from outside say nothing about it.
        let stopped = "^CTraceback (most recent call last):\n  File \"a.py\"\nKeyboardInterrupt\n";
        let names: Vec<String> = found(&format!("{text}{stopped}"))
            .into_iter()
            .map(|one| one.0)
            .collect();
        assert!(names.contains(&"waits-at-end".to_owned()), "{names:?}");
    }

    #[test]
    fn all_ranks_that_wait_are_named_and_one_that_goes_on_ends_the_wait() {
        let text = "[rank0]: started\n[rank0]: waiting for all ranks\n[rank1]: started\n\
            [rank2]: waiting for all ranks\n[rank1]: waiting for all ranks\n";
        let ranks = ["x.log rank 0", "x.log rank 1", "x.log rank 2"];
        assert_eq!(found(text), [said(&ranks, 2, 3)]);
        assert!(found(&format!("{text}[rank0]: step 1\n")).is_empty());
        // A rank that said that it waits may have nothing more to say.
        assert!(found(&format!("{text}[rank3]: step 1\n")).is_empty());
    }

    #[test]
    fn a_named_failure_needs_no_wait() {
        let text = "node-a:1:1 [0] a.cc:1 NCCL WARN NET/GPUDirectTCPX : mhandle is null\nwaiting for node-b\n";
        assert!(found(text).iter().all(|one| one.0 != "waits-at-end"));
    }

    #[test]
    fn the_bootstrap_of_nccl_waits_for_all_ranks() {
        let using = "node-a:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.1.25<0>\n";
        let version = "NCCL version 2.21.5+cuda12.4\n";
        let affinity = "node-a:7:8 [0] NCCL INFO Setting affinity for GPU 0 to 0f\n";
        assert!(found(&format!("{using}{affinity}")).is_empty());
        let start = "node-a:7:8 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init START\n";
        // Without a sign that time passed, the log may have been cut here.
        assert!(found(&format!("{using}{version}")).is_empty());
        let texts = [("x.log", &*format!("{using}{version}")), ("y.log", "")];
        assert!(report(&texts).findings.is_empty());
        let texts = [texts[0], ("y.log", "step 1\n")];
        let findings = report(&texts).findings;
        let names = findings.iter();
        let names: Vec<(&str, u64)> = names
            .map(|one| (one.signature.as_str(), one.first.line))
            .collect();
        assert_eq!(names, [("nccl-init-unfinished", 1)]);
        let heartbeat = "DEBUG 11-20 08:14:05 client.py:189] Waiting for output from the engine.\n";
        let cut = format!("{heartbeat}{heartbeat}{start}{affinity}");
        let findings = self::report(&[("x.log", &cut)]).findings;
        let told = findings
            .iter()
            .map(|one| (one.signature.as_str(), one.severity));
        let info = crate::signature::Severity::Info;
        assert_eq!(told.collect::<Vec<_>>(), [("nccl-init-unfinished", info)]);
        let done = "node-a:7:8 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n";
        let report = report(&[("x.log", &format!("{using}{version}{done}"))]);
        assert!(report.findings.is_empty());
        assert_eq!((report.ends.len(), report.ends[0].waits), (1, false));
    }

    #[test]
    fn the_end_of_a_long_log_has_its_line_numbers() {
        let text = format!(
            "{}still waiting for rank 7\n",
            "a line of progress\n".repeat(40_000)
        );
        assert_eq!(found(&text), [said(&["x.log"], 40_001, 1)]);
    }

    #[test]
    fn a_row_in_a_later_part_of_a_file_is_of_the_table_before_it() {
        let head = "# Size       Avg Latency(us)\n";
        let parts = |parts: &[&str]| {
            let (mut ends, mut lines) = (Ends::default(), 0);
            for part in parts {
                lines += part.lines().count() as u64;
                let mut other = Ends::default();
                other.read(0, part.as_bytes(), lines, Years::default(), |_| Some(0));
                ends.merge(other, |speaker| speaker);
            }
            ends.tables_without_rows()
                .map(|one| one.head.place.line)
                .next()
        };
        assert_eq!(parts(&[head]), Some(1));
        assert_eq!(parts(&[head, "still here\n"]), Some(1));
        assert_eq!(parts(&[head, "1                       3.10\n"]), None);
        assert_eq!(parts(&[head, "1          3.10\n", head]), Some(3));
    }

    #[test]
    fn a_rank_that_is_silent_is_told_with_its_silence() {
        let text = "[2026-11-20 08:14:04] [rank1]: step 4 done\n[2026-11-20 08:24:05] [rank0]: step 5 done\n\
            [2026-11-20 08:24:06] [rank0]: saved\n";
        let ends = report(&[("x.log", text)]).ends;
        let silent: Vec<Option<f64>> = ends.iter().map(|end| end.silent_seconds).collect();
        assert_eq!(silent, [None, Some(602.0)]);
    }
}
