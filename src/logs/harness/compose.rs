//! Turns the programs of all files into a report: pairs of ends, verdicts, results.
#![forbid(unsafe_code)]

use super::super::compose::shown;
use super::super::report::{LinePlace, SignatureFinding};
use super::super::signature::{Role, Severity};
use super::super::time;
use super::Harness;
use super::line::{HarnessRole, Step};
use super::pair::both;
use super::program::{Program, Spot};
use super::report::{
    HarnessChannel, HarnessIterations, HarnessProgram, HarnessReport, HarnessResult, HarnessTests,
    HarnessVerdict,
};
use super::results::Measurement;
use super::verdict::{Side, TOO_FAST, alone};
use std::collections::BTreeMap;

/// Most channels of a program in a report.
const CHANNELS_SHOWN: usize = 64;

/// A program with the names that only its file has.
struct Known<'a> {
    file: &'a str,
    rank: Option<u32>,
    program: Program,
}

impl Harness {
    /// The report; `None` without such a program. `last_us` has the time of each file's last line.
    pub(in super::super) fn report(
        &self,
        files: &[String],
        findings: &[SignatureFinding],
        last_us: &BTreeMap<u32, i64>,
    ) -> Option<HarnessReport> {
        let known: Vec<Known<'_>> = self
            .programs()
            .map(|(file, rank, program)| Known::new(files, file, rank, program))
            .collect();
        if known.is_empty() {
            return None;
        }
        // Lines of NCCL and of the plugin may go on when the program is silent.
        let of_files = self
            .processes
            .keys()
            .filter_map(|(file, _)| last_us.get(file));
        let last_us = known
            .iter()
            .filter_map(|one| one.program.last.time_us)
            .chain(of_files.copied())
            .max();
        let sides: Vec<Side<'_>> = (0..)
            .zip(&known)
            .map(|(index, one)| one.side(index, findings, last_us))
            .collect();
        Some(HarnessReport {
            verdicts: verdicts(&sides),
            programs: known.iter().map(|one| one.row(last_us)).collect(),
            results: (0..)
                .zip(&known)
                .flat_map(|(index, one)| results(index, &one.program))
                .collect(),
        })
    }
}

impl<'a> Known<'a> {
    fn new(files: &'a [String], file: u32, rank: Option<u32>, mut program: Program) -> Self {
        let file = files.get(file as usize).map_or("", String::as_str);
        // The launchers put both into the name: `fullmesh_server_gpu3_20261007.log`.
        let base = file.rsplit('/').next().unwrap_or(file);
        let named = [HarnessRole::Server, HarnessRole::Client]
            .into_iter()
            .filter(|role| base.contains(role.name()));
        let named: Vec<HarnessRole> = named.collect();
        if let [role] = named[..] {
            program.role = program.role.or(Some(role));
        }
        program.gpu = program.gpu.or_else(|| gpu_of(base));
        Self {
            file,
            rank,
            program,
        }
    }

    fn side<'b>(
        &'b self,
        index: usize,
        findings: &'b [SignatureFinding],
        last_us: Option<i64>,
    ) -> Side<'b> {
        let ends_at = self.program.ends_at.unwrap_or(u64::MAX);
        let is_within = |one: &SignatureFinding| {
            one.last.line >= self.program.begins_at && one.first.line <= ends_at
                || one.first.file != self.file
                || one.last.file != self.file
        };
        let is_here = |one: &&SignatureFinding| {
            is_within(one)
                && (one.first.file == self.file
                    || one.last.file == self.file
                    || one.processes.iter().any(|process| process == self.file))
        };
        let is_cause = |one: &&SignatureFinding| {
            one.role != Role::Consequence && one.severity < Severity::Warning
        };
        let causes = findings
            .iter()
            .filter(|one| is_here(one) && is_cause(one) && !super::is_own(one));
        Side {
            index,
            file: self.file,
            program: &self.program,
            causes: causes.collect(),
            silent_us: self.silent_us(last_us),
        }
    }

    fn silent_us(&self, last_us: Option<i64>) -> Option<i64> {
        let (all, own) = last_us.zip(self.program.last.time_us)?;
        Some(all.saturating_sub(own))
    }

    fn name(&self) -> String {
        let rank = self
            .rank
            .map_or_else(String::new, |rank| format!(" rank {rank}"));
        let role = self
            .program
            .role
            .map_or_else(String::new, |role| format!(" {}", role.name()));
        let gpu = self
            .program
            .gpu
            .map_or_else(String::new, |gpu| format!(" gpu {gpu}"));
        format!("{}{rank}{role}{gpu}", self.file)
    }

    fn row(&self, last_us: Option<i64>) -> HarnessProgram {
        let program = &self.program;
        HarnessProgram {
            name: self.name(),
            file: self.file.to_owned(),
            role: program.role,
            gpu: program.gpu,
            phase: phase(program).into(),
            lines: program.lines,
            last: LinePlace {
                file: self.file.to_owned(),
                line: program.last.line,
                at: program.last.time_us.and_then(time::shown),
            },
            last_text: shown(&program.last.text),
            silent_seconds: self.silent_us(last_us).map(|us| us as f64 / 1e6),
            iterations: HarnessIterations {
                wanted: program.iterations_wanted,
                begun: program.begun,
                ended: program.ended,
                aborted: program.aborted,
            },
            posted: program.posted(),
            done: program.done(),
            tests: HarnessTests {
                logged: program.tests.count,
                done: program.tests.done,
                not_done_at_end: program.tests.run,
                with_rc: program.tests.with_rc,
                first_rc: program.tests.first_rc,
            },
            channels: channels(program),
            failure: program
                .failure
                .as_ref()
                .map(|(_, quoted)| shown(&quoted.text)),
        }
    }
}

/// `3` of `fullmesh_server_gpu3_20261007.log`.
fn gpu_of(base: &str) -> Option<u32> {
    let rest = base.split("gpu").nth(1)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

fn phase(program: &Program) -> &'static str {
    let is_client = program.role == Some(HarnessRole::Client);
    match program.spot {
        Spot::Starting if program.tests.count > 0 => "post",
        Spot::Starting => "starting",
        Spot::Setup(Step::BootstrapListens(_) | Step::BootstrapConnects(_)) => "bootstrap",
        Spot::Setup(Step::Listens) => "listen",
        Spot::Setup(Step::HandlesExchanged | Step::Accepts) if !is_client => "accept",
        Spot::Setup(Step::HandlesExchanged | Step::Accepts | Step::Connects) => "connect",
        Spot::Setup(Step::Accepted | Step::Connected | Step::Registers) => "register",
        Spot::Setup(Step::Registered | Step::WaitsForPosts) => "ready",
        Spot::Setup(Step::MeetsPeer) => "bootstrap",
        Spot::Rates => "measuring",
        Spot::Transfer | Spot::InCall | Spot::WindowFull | Spot::Posted => "post",
        Spot::Drain => "drain",
        Spot::Between => "between",
        Spot::Ended => "done",
    }
}

fn channels(program: &Program) -> Vec<HarnessChannel> {
    let mut all: Vec<HarnessChannel> = program
        .channels
        .iter()
        .map(|((gpu, channel), state)| HarnessChannel {
            gpu: *gpu,
            channel: *channel,
            posted: state.posted,
            released: state.released,
            in_flight: state.in_flight,
            high_water: state.high_water,
            size: state.size,
        })
        .collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.in_flight), one.gpu, one.channel));
    all.truncate(CHANNELS_SHOWN);
    all
}

/// Pairs a server with its client: by GPU, or because there is one of each.
fn verdicts(sides: &[Side<'_>]) -> Vec<HarnessVerdict> {
    let of = |role| {
        sides
            .iter()
            .filter(move |side| side.program.role == Some(role))
    };
    let mut by_gpu = BTreeMap::<Option<u32>, (Vec<&Side<'_>>, Vec<&Side<'_>>)>::new();
    let (mut servers, mut clients) = (of(HarnessRole::Server), of(HarnessRole::Client));
    let only = (servers.clone().count(), clients.clone().count()) == (1, 1);
    let gpu = |side: &Side<'_>| if only { None } else { side.program.gpu };
    servers
        .by_ref()
        .for_each(|side| by_gpu.entry(gpu(side)).or_default().0.push(side));
    clients
        .by_ref()
        .for_each(|side| by_gpu.entry(gpu(side)).or_default().1.push(side));
    let mut all = Vec::new();
    for (servers, clients) in by_gpu.into_values() {
        match (&servers[..], &clients[..]) {
            ([server], [client]) => all.push(both(server, client)),
            _ => all.extend(servers.iter().chain(&clients).map(|side| alone(side))),
        }
    }
    // Lines of a file with both ends that name neither belong to one of the two.
    let is_of_a_pair = |side: &&Side<'_>| {
        sides
            .iter()
            .any(|other| other.program.role.is_some() && other.file == side.file)
    };
    let unsaid = sides.iter().filter(|side| side.program.role.is_none());
    all.extend(unsaid.filter(|side| !is_of_a_pair(side)).map(alone));
    all.sort_by_key(|verdict| (verdict.state as u8, verdict.programs.first().copied()));
    all
}

fn results(index: usize, program: &Program) -> Vec<HarnessResult> {
    let of_all = program.total_bytes.is_some();
    let row = |one: &Measurement| {
        let rates = one.rates();
        let later = if rates.len() > 1 {
            &rates[1..]
        } else {
            &rates[..]
        };
        let later_ms = if one.ms.len() > 1 {
            &one.ms[1..]
        } else {
            &one.ms[..]
        };
        let gb_per_s = one.gb_per_s.or_else(|| median(later));
        let wrong = if one.is_false {
            Some("a post or a test failed in it")
        } else if one.gb_per_s.is_none() && gb_per_s.is_some_and(|rate| rate > TOO_FAST) && !of_all
        {
            Some("more than a NIC carries")
        } else {
            None
        };
        HarnessResult {
            program: index,
            role: program.role,
            gpu: program.gpu.filter(|_| !of_all),
            bytes: one.bytes,
            iterations: one.ms.len() as u64 + one.left_out,
            wanted: one.wanted,
            first_ms: one.ms.first().copied(),
            median_ms: median(later_ms),
            gb_per_s,
            samples_gb_per_s: one.gb_per_s.map_or(rates, |rate| vec![rate]),
            printed: one.mean.and_then(|(.., rate)| rate),
            wrong: wrong.map(Into::into),
        }
    };
    program.results.all.iter().map(row).collect()
}

fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (
        sorted.get(sorted.len().checked_sub(1)? / 2)?,
        sorted.get(sorted.len() / 2)?,
    );
    Some((low + high) / 2.0)
}
