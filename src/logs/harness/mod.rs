//! What programs that drive the plugin themselves did, by their own lines: the P2P harness with
//! its sliding window, UCCL's P2P benchmark, nixlbench.
//!
//! The scan parses only lines with a literal of `probes/logs/harness.toml`. Each becomes an
//! event (`line`), and events in the order of the file change the state of one end of one
//! process (`program`). A log has no process ids, so a process is a file, or a rank of a
//! launcher in it; its two ends, if one file has both, are told apart by their lines.
#![forbid(unsafe_code)]

mod compose;
mod line;
#[cfg(test)]
mod line_tests;
mod pair;
mod program;
mod readers;
mod report;
mod results;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

pub use line::HarnessRole;
pub use report::{
    HarnessChannel, HarnessIterations, HarnessProgram, HarnessReport, HarnessResult, HarnessState,
    HarnessTests, HarnessVerdict,
};

use super::report::SignatureFinding;
use line::{Event, Line, Reading};
use program::{LastLine, Program};
use std::collections::BTreeMap;
use table::Head;

/// Most processes whose lines are followed.
const PROCESSES_MAX: usize = 256;
/// Most ends of GPUs in one file.
const ENDS_MAX: usize = 32;
/// How the names of `probes/logs/harness.toml` begin.
const HARNESS_SIGNATURES: [&str; 4] = ["harness-", "window-", "uccl-", "nixlbench-"];
/// Whether a finding is about a line of such a program, which the verdict on it covers.
pub(super) fn is_own(finding: &SignatureFinding) -> bool {
    let name = &finding.signature;
    HARNESS_SIGNATURES
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Bytes of a line that are kept until its block is taken.
const KEPT_BYTES: usize = 240;

/// How a line of such a program is read, which does not depend on the values of its digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum HarnessReading {
    /// As the head of a table.
    Head,
    Line(Reading),
}

impl HarnessReading {
    /// `None`: the line belongs to no such program.
    pub(super) fn of(message: &[u8]) -> Option<Self> {
        match Head::read(message) {
            Some(_) => Some(Self::Head),
            None => Reading::of(message).map(Self::Line),
        }
    }
}

/// The lines behind the head of a table that are rows of it, from 0.
pub(super) fn rows_of_table(head: &[u8], behind: &[u8]) -> Vec<u32> {
    let mut rows = Vec::new();
    if let Some(head) = Head::read(head) {
        head.rows(behind, |row, _, _| rows.push(row));
    }
    rows
}

/// The lines of such programs in one block.
#[derive(Debug, Default)]
pub(super) struct BlockLines {
    /// Number of lines that begin in the block, of any kind.
    pub lines: u32,
    /// Whether the front of the block belongs to the last line before it.
    pub is_within_line: bool,
    heard: Vec<Heard>,
    text: Vec<u8>,
    /// The head of a table whose rows follow.
    head: Option<TableOf>,
    /// A table that goes on in the next block, and its lines in this one.
    open: Option<(TableOf, u32)>,
    /// Lines at the front that may be rows of the last block's table: number, start and size in
    /// `text`.
    front: Vec<(u32, u32, u32)>,
}

/// A table's head, and the rank and the time of its line.
type TableOf = (Head, Option<u32>, Option<i64>);

#[derive(Debug)]
struct Heard {
    /// Within the block, from 0.
    number: u32,
    rank: Option<u32>,
    time_us: Option<i64>,
    line: Line,
    /// Start and size in `text`.
    quoted: (u32, u32),
}

impl BlockLines {
    /// Keeps a line of such a program.
    pub(super) fn hear(
        &mut self,
        number: u32,
        rank: Option<u32>,
        time_us: Option<i64>,
        reading: HarnessReading,
        message: &[u8],
    ) {
        match reading {
            HarnessReading::Head => {
                self.head = Head::read(message).map(|head| (head, rank, time_us));
            }
            HarnessReading::Line(reading) => {
                if let Some(line) = reading.line(message) {
                    self.keep(number, rank, time_us, line, message);
                }
            }
        }
    }

    /// Keeps the lines at the front of the block that may be rows of a table.
    pub(super) fn read_front(&mut self, block: &[u8]) {
        let (front, text) = (&mut self.front, &mut self.text);
        table::front(block, |number, line| {
            front.push((number, text.len() as u32, line.len() as u32));
            text.extend_from_slice(line);
        });
    }

    /// Reads the rows of a table whose head was the line before `behind`.
    pub(super) fn read_table(&mut self, number: u32, behind: &[u8]) {
        let Some(table) = self.head.take() else {
            return;
        };
        let (head, rank, time_us) = table;
        let open = head.rows(behind, |row, line, text| {
            self.keep(number + row, rank, time_us, line, text)
        });
        self.open = open.map(|lines| (table, lines));
    }

    fn keep(
        &mut self,
        number: u32,
        rank: Option<u32>,
        time_us: Option<i64>,
        line: Line,
        text: &[u8],
    ) {
        let kept = &text[..text.len().min(KEPT_BYTES)];
        // A block has fewer bytes than 2^32.
        let quoted = (self.text.len() as u32, kept.len() as u32);
        self.text.extend_from_slice(kept);
        self.heard.push(Heard {
            number,
            rank,
            time_us,
            line,
            quoted,
        });
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let front = self.front.capacity() * size_of::<(u32, u32, u32)>();
        let heard = self.heard.capacity() * size_of::<Heard>();
        size_of::<Self>() + self.text.capacity() + front + heard
    }
}

/// The programs of all files.
#[derive(Debug, Default)]
pub(super) struct Harness {
    processes: BTreeMap<(u32, Option<u32>), Process>,
    /// For each file, the table that its last block left open.
    open: BTreeMap<u32, (TableOf, u32)>,
    /// Lines of processes beyond the limit.
    pub left_out: u64,
}

/// The ends of one process.
#[derive(Debug, Default)]
struct Process {
    server: Option<Box<Program>>,
    client: Option<Box<Program>>,
    /// Lines that do not say their end, if the file has both.
    unsaid: Option<Box<Program>>,
    /// Runs that are over, the last one of each end and GPU: logs of several processes may be joined.
    over: Vec<Program>,
    /// The end of the last line that says one.
    current: Option<HarnessRole>,
    /// Lines of one end follow lines of the other, and the other way round.
    is_mixed: bool,
    /// Runs that are over, beyond the limit.
    left_out: u64,
}

impl Harness {
    /// Takes the lines of a block. `before` is the number of lines of the file before its first one.
    pub(super) fn take(&mut self, file: u32, before: u64, block: &BlockLines) {
        let mut rows = self.rows_of_front(file, block).into_iter().peekable();
        for heard in &block.heard {
            while let Some(row) = rows.next_if(|row| row.number < heard.number) {
                self.hear(file, before, block, &row);
            }
            self.hear(file, before, block, heard);
        }
        rows.for_each(|row| self.hear(file, before, block, &row));
        match block.open {
            Some(open) => self.open.insert(file, open),
            None => self.open.remove(&file),
        };
    }

    /// The rows at the front of a block, of the table that the last one left open.
    fn rows_of_front(&self, file: u32, block: &BlockLines) -> Vec<Heard> {
        let Some(((head, rank, time_us), lines)) = self.open.get(&file).copied() else {
            return Vec::new();
        };
        let heard = |&(number, start, size): &(u32, u32, u32)| {
            let row = block.text.get(start as usize..(start + size) as usize)?;
            let line = table::is_behind(lines, number).then(|| head.row(row));
            Some(Heard {
                number,
                rank,
                time_us,
                line: line.flatten()?,
                quoted: (start, size.min(KEPT_BYTES as u32)),
            })
        };
        block.front.iter().filter_map(heard).collect()
    }

    fn hear(&mut self, file: u32, before: u64, block: &BlockLines, heard: &Heard) {
        let (start, size) = (heard.quoted.0 as usize, heard.quoted.1 as usize);
        let text = block.text.get(start..start + size).unwrap_or_default();
        let said = LastLine {
            line: before + u64::from(heard.number) + 1,
            time_us: heard.time_us,
            text,
        };
        let key = (file, heard.rank);
        if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.processes
            .entry(key)
            .or_default()
            .take(heard.line, said);
    }

    /// Runs of ends that are in no report, since their file has too many.
    pub(super) fn runs_left_out(&self) -> u64 {
        self.processes.values().map(|one| one.left_out).sum()
    }

    /// The programs that say more than a tag: file, rank, state.
    fn programs(&self) -> impl Iterator<Item = (u32, Option<u32>, Program)> {
        self.processes.iter().flat_map(|((file, rank), process)| {
            let programs = process.programs().into_iter();
            programs.map(|program| (*file, *rank, program))
        })
    }
}

impl Process {
    fn take(&mut self, line: Line, said: LastLine<'_>) {
        self.begin(line, said.line);
        self.end_of(line).take(line, said);
    }

    /// Puts an end aside whose last run is over, if the line is the first of another one.
    fn begin(&mut self, line: Line, number: u64) {
        let role = line.role.or(self.current.filter(|_| !self.is_mixed));
        let begins = |end: &mut Option<Box<Program>>| {
            end.take_if(|program| program.begins_again(line.event))
        };
        let over = match role {
            Some(HarnessRole::Server) => begins(&mut self.server),
            Some(HarnessRole::Client) => begins(&mut self.client),
            None => begins(&mut self.unsaid),
        };
        if let Some(over) = over {
            self.put_aside(*over, number);
            // The line may not say which end the next run is.
            self.current = line.role.or(self.current.filter(|_| self.is_mixed));
            let mut next = Box::<Program>::default();
            next.begins_at = number;
            match line.role {
                Some(HarnessRole::Server) => self.server = Some(next),
                Some(HarnessRole::Client) => self.client = Some(next),
                None => self.unsaid = Some(next),
            }
        }
    }

    /// Keeps a run that is over: as the last one of its end and its GPU.
    fn put_aside(&mut self, mut over: Program, next: u64) {
        if !over.is_known() || over.is_head_alone() {
            return;
        }
        over.results.close();
        over.ends_at = Some(next.saturating_sub(1));
        let is_kept = add_run(&mut self.over, over, ENDS_MAX);
        self.left_out += u64::from(!is_kept);
    }

    /// The last run of each end of each GPU.
    fn programs(&self) -> Vec<Program> {
        let mut all = self.over.clone();
        let ends = [&self.server, &self.client, &self.unsaid];
        let known = ends.into_iter().flatten().filter(|one| one.is_known());
        let ends_max = ENDS_MAX + ends.len();
        for one in known {
            add_run(&mut all, Program::clone(one), ends_max);
        }
        all
    }

    /// The program that a line belongs to.
    fn end_of(&mut self, line: Line) -> &mut Program {
        if let Some(role) = line.role {
            let unsaid = match self.current {
                None => self.unsaid.take(),
                Some(_) => None,
            };
            let (end, other) = match role {
                HarnessRole::Server => (&mut self.server, &self.client),
                HarnessRole::Client => (&mut self.client, &self.server),
            };
            // A log that is joined to another one begins with its head.
            let is_head = line.event == Event::Starts || unsaid.is_some();
            self.is_mixed |=
                end.is_some() && other.is_some() && self.current != Some(role) && !is_head;
            self.current = Some(role);
            if let Some(next) = unsaid {
                let begins_at = next.begins_at;
                if let Some(over) = end.replace(next) {
                    self.put_aside(*over, begins_at);
                }
            }
            let end = match role {
                HarnessRole::Server => &mut self.server,
                HarnessRole::Client => &mut self.client,
            };
            return end.get_or_insert_default();
        }
        let end = match self.current.filter(|_| !self.is_mixed) {
            Some(HarnessRole::Server) => &mut self.server,
            Some(HarnessRole::Client) => &mut self.client,
            None => &mut self.unsaid,
        };
        end.get_or_insert_default()
    }
}

/// Adds a run, if there is room. An earlier one of the same end and GPU is part of it then.
fn add_run(all: &mut Vec<Program>, mut run: Program, ends_max: usize) -> bool {
    let is_same = |other: &Program| (other.role, other.gpu) == (run.role, run.gpu);
    match all.iter().position(is_same) {
        Some(at) => {
            run.follows(std::mem::take(&mut all[at]));
            all[at] = run;
        }
        None if all.len() < ends_max => all.push(run),
        None => return false,
    }
    true
}
