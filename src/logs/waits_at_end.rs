//! What the ends of logs come to: the last lines of processes, and findings on logs that end
//! in a wait.
#![forbid(unsafe_code)]

use super::benchmarks::{NIXLBENCH, PERFTEST};
use super::by_hand::{self, ByHand};
use super::compose::{Compose, RANKS_ALONE, headline, quoted_exception, shown};
use super::ends::{self, BenchmarkTable, End, LastLine, LastWait, OpenTraceback, WaitKind};
use super::report::{
    BENCHMARK_WITHOUT_ROW, LinePlace, LogEnd, LogReport, SignatureFinding, UNFINISHED_NCCL_INIT,
    WAITS_AT_END,
};
use super::said_stalls::SaidStalls;
use super::seen::Place;
use super::signature::{Role, Severity};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Slurm's lines on a step or a job that it ended, whatever that did.
const ENDED_BY_SLURM: [&str; 2] = ["slurm-cancelled", "slurm-ended-job"];
/// How many ranks a communicator has, in a line with which one of them begins it.
static RANKS: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\bnranks (?P<ranks>\d+)\b"));
/// The id of a communicator, which all its ranks log.
static COMM_ID: LazyLock<Regex> = LazyLock::new(|| crate::loggers::regex(r"\bcommId 0x[0-9a-f]+"));
/// Signatures of tables, and of tracebacks, within which a log ends.
const BENCHMARK_TABLE_OPEN: &str = "benchmark-table-open";
const TRACEBACK_TORN: &str = "traceback-torn";
/// Signature of programs that say that they do not go on.
const SAID_STALL: &str = "said-stall";
/// Processes that are named of one line.
const NAMED_MAX: usize = 64;
/// Kinds of last lines, and of waits that are findings.
const ENDS_MAX: usize = 64;
const WAITS_MAX: usize = 4;
/// Shortest silence that is told, seconds.
const SILENT_MIN: f64 = 60.0;

/// Adds the last lines to a report, and findings where they are waits and no finding names what
/// failed.
pub(super) fn add(compose: &Compose<'_>, report: &mut LogReport) {
    report.ends = ends(compose);
    let explains = |one: &SignatureFinding| match one.role {
        Role::Cause => one.severity < Severity::Warning,
        Role::General => true,
        Role::Consequence => false,
    };
    let has_harness = compose.has_harness();
    // Of other programs that drive the plugin, a verdict tells.
    let tables = compose.tally.ends.tables_without_rows();
    let tables = tables.filter(|one| !has_harness || one.benchmark == NIXLBENCH);
    // Processes that are jobs of their own do not wait for each other.
    let are_alone = report
        .findings
        .iter()
        .any(|one| one.signature == RANKS_ALONE);
    let tables = tables.filter(|_| !are_alone).take(WAITS_MAX);
    if report.findings.iter().any(explains) {
        let beside = tables
            .filter_map(|table| beside_failures(without_row(compose, table), &report.findings));
        let beside: Vec<SignatureFinding> = beside.collect();
        report.findings.extend(beside);
        return;
    }
    let fails = |one: &SignatureFinding| one.severity < Severity::Warning;
    let open = compose.tally.ends.open_tracebacks().take(WAITS_MAX);
    let open = open.filter(|_| !report.findings.iter().any(fails));
    let open: Vec<SignatureFinding> = open.map(|one| torn(compose, one)).collect();
    if !open.is_empty() {
        report.findings.extend(open);
        return;
    }
    let mut waits = match has_harness {
        true => Vec::new(),
        false => waits_of_programs(compose, report),
    };
    if waits.is_empty() && !report.findings.iter().any(fails) {
        let said = compose.tally.ends.said_stalls();
        let said = said.filter_map(|(file, said)| said_stall(compose, *file, said));
        waits = said.take(WAITS_MAX).collect();
    }
    if waits.is_empty() && !report.findings.iter().any(fails) {
        waits = tables.map(|table| without_row(compose, table)).collect();
    }
    if waits.is_empty() && !has_harness && !report.findings.iter().any(fails) {
        let by_hand = compose.tally.ends.by_hand();
        waits = by_hand
            .filter_map(|(file, by_hand)| stopped_by_hand(compose, *file, by_hand))
            .take(WAITS_MAX)
            .collect();
    }
    report.findings.append(&mut waits);
}

/// A finding on a program that says itself that it does not go on, where no line behind that shows that it did.
fn said_stall(compose: &Compose<'_>, file: u32, said: &SaidStalls) -> Option<SignatureFinding> {
    let (line, text) = said.first.as_ref()?;
    let of = |line: u64| compose.place(Place { file, line }, None);
    let (first, last) = (of(*line), of(said.last));
    if compose.goes_on(&last) {
        return None;
    }
    let sample = shown(text);
    let mut meaning = format!(
        "a program says itself that it does not go on: {}",
        headline(&sample)
    );
    if said.ranks.len() > 1 {
        let ranks: Vec<String> = said.ranks.iter().map(u32::to_string).collect();
        meaning.push_str(&format!("; ranks that say so: {}", ranks.join(", ")));
    }
    let finding = stall(
        SAID_STALL,
        &[
            "a collective or a transfer that does not end: a rank entered it late or never, or data do not pass between two of the GPUs or NICs",
            "a call of CUDA or of the system does not return on one of the ranks",
        ],
        "take stacks of every rank while it hangs (`py-spy dump --pid PID`, `gdb -p PID -batch -ex 'thread apply all bt'`): the rank that waits elsewhere than the others is the one to look at",
    );
    Some(SignatureFinding {
        count: said.count,
        processes: vec![first.file.clone()],
        first,
        last,
        meaning,
        sample,
        ..finding
    })
}

/// Findings on programs that say that they wait, or that NCCL begins a communicator. Where the log may just have been
/// cut there, it is no finding.
fn waits_of_programs(compose: &Compose<'_>, report: &mut LogReport) -> Vec<SignatureFinding> {
    // A file without lines, as the events of a bundle may be, is no other log.
    let files: BTreeSet<u32> = compose.tally.ends.iter().map(|(file, ..)| file).collect();
    let is_one = files.len() <= 1 && report.findings.is_empty();
    let has_complete = !compose.tally.init_complete.is_empty();
    let may_be_cut = |one: &SignatureFinding| is_one && (!has_complete || has_all_ranks(one));
    let (cut, mut waits): (Vec<_>, Vec<_>) = waits(compose, &report.findings)
        .into_iter()
        .partition(|one| {
            one.signature == UNFINISHED_NCCL_INIT && may_be_cut(one) && !lasts(compose, one)
        });
    // A communicator of one rank waits for no other.
    waits
        .retain(|one| one.signature != UNFINISHED_NCCL_INIT || compose.tally.most_ranks != Some(1));
    let cut = cut.into_iter().map(|one| as_info(compose, one));
    report.seen.extend(cut);
    waits
}

/// Whether all ranks of a communicator begin it: none of them waits for one that did not come.
fn has_all_ranks(wait: &SignatureFinding) -> bool {
    let ranks = RANKS.captures(wait.sample.as_bytes());
    let ranks = ranks.and_then(|found| str::from_utf8(&found["ranks"]).ok()?.parse().ok());
    ranks == Some(wait.processes.len())
}

/// Whether the log goes on for a while after a wait began, by its times.
fn lasts(compose: &Compose<'_>, wait: &SignatureFinding) -> bool {
    let began = wait.first.at.as_deref().and_then(crate::time::typed);
    let times = compose.tally.ends.iter();
    let latest = times.filter_map(|(_, _, end)| end.last.time_us).max();
    let passed = began
        .zip(latest)
        .map(|(began, latest)| seconds(latest - began));
    passed.is_some_and(|passed| passed >= SILENT_MIN)
}

/// A communicator that is being made where a log may just have been cut.
fn as_info(compose: &Compose<'_>, wait: SignatureFinding) -> SignatureFinding {
    let ends = compose.tally.ends.iter();
    let waits = ends.filter_map(|(.., end)| end.wait.as_ref());
    let of_nccl = waits.filter(|one| one.kind == WaitKind::Nccl);
    let reached = of_nccl.max_by_key(|one| one.last.place);
    let reached = reached.and_then(|one| one.reached.as_deref());
    let reached = reached.map_or(String::new(), |text| {
        let message = crate::shape::record_at(text, text.len()).0.message;
        format!(
            "; its last line of NCCL is line {}: {}",
            wait.last.line,
            shown(message)
        )
    });
    let ranks = RANKS.captures(wait.sample.as_bytes());
    let ranks = ranks.map_or(String::new(), |found| {
        let ranks = shown(&found["ranks"]);
        format!(
            "; processes that begin it: {}, its ranks: {ranks}",
            wait.processes.len()
        )
    });
    SignatureFinding {
        severity: Severity::Info,
        role: Role::Cause,
        meaning: format!(
            "the log ends while a communicator of NCCL is being set up: if the job still runs, it hangs there{ranks}{reached}"
        ),
        causes: wait.causes.into_iter().rev().collect(),
        next_step: wait
            .next_step
            .map(|next| format!("look whether the job still runs; if so, {next}")),
        ..wait
    }
}

/// The log's one communicator that is being made as it ends, if lines of it are there: told where nothing else is.
pub(super) fn open_comm(report: &mut LogReport) -> Vec<SignatureFinding> {
    let is_it = |one: &mut SignatureFinding| {
        one.signature == UNFINISHED_NCCL_INIT && ends::begins_comm(one.sample.as_bytes())
    };
    report.seen.extract_if(.., is_it).collect()
}

/// A finding on a benchmark of which the log has the head of a table and no row.
fn without_row(compose: &Compose<'_>, table: &BenchmarkTable) -> SignatureFinding {
    let ends = &compose.tally.ends;
    let (file, line) = (table.head.place.file, table.head.place.line);
    let mut last = ends.last_lines();
    let last = last.find_map(|(of, last)| (*of == file).then_some(*last));
    let mut meaning = format!(
        "{} printed the head of its table and no row of results: its first size did not end",
        table.benchmark
    );
    meaning.push_str(&match last.unwrap_or_default().saturating_sub(line) {
        0 => "; the log ends there".to_owned(),
        behind => format!("; lines behind it, none of them a row: {behind}"),
    });
    let of_nccl = ends.iter().filter(|(of, _, end)| {
        *of == file && memchr::memmem::find(&end.last.text, b" NCCL ").is_some()
    });
    // Who copies the first lines of such a program stops here too. Perftest and nixlbench have met their peer by now.
    let ends_there = last.is_none_or(|last| last <= line);
    let mut may_be_cut = ends_there && ![PERFTEST, NIXLBENCH].contains(&table.benchmark);
    if let Some((.., end)) = of_nccl.max_by_key(|(.., end)| end.last.place) {
        let said = shown(&end.last.text);
        let number = end.last.place.line;
        meaning.push_str(&format!("; the last line of NCCL is line {number}: {said}"));
        may_be_cut |= last == Some(number) && is_of_channel(&end.last.text);
    }
    let place = compose.place(table.head.place, table.head.time_us);
    let mut finding = SignatureFinding {
        processes: vec![compose.name(table.speaker)],
        first: place.clone(),
        last: place,
        meaning,
        sample: shown(&table.head.text),
        ..without_row_of(table.benchmark)
    };
    if may_be_cut {
        finding.severity = Severity::Info;
        finding.causes.rotate_right(1);
    }
    finding
}

/// Whether a line tells of a channel that NCCL connects: a log that ends in such a line may just have been cut, as the
/// first collective of a benchmark connects its channels right behind the head of the table.
fn is_of_channel(line: &[u8]) -> bool {
    let message = super::shape::record_at(line, line.len()).0.message;
    message.starts_with(b"Channel ")
}

/// The causes of a table without a row, and what to do, by the library that its benchmark uses.
fn without_row_of(benchmark: &str) -> SignatureFinding {
    const ENDED: &str = "a rank hangs or has ended without a word";
    const CUT: &str = "the program went on, and its log was copied or cut here";
    match benchmark {
        PERFTEST => stall(
            BENCHMARK_WITHOUT_ROW,
            &[
                "packets of RDMA do not pass, though the two ends met over TCP: over Ethernet mostly another GID index (`-x`), an MTU that a switch does not pass, or PFC and ECN that are not set",
                "the two ends use devices of rails that are not connected to each other",
                CUT,
            ],
            "look in `show_gids` for the index of RoCE v2 with an address of this network and run both ends with it (`ib_write_bw -d DEVICE -x INDEX`), then with a small message and MTU (`-s 64 -m 1024`): what makes it print a row names the reason",
        ),
        NIXLBENCH => stall(
            BENCHMARK_WITHOUT_ROW,
            &[
                "the first transfer hangs: its backend chose a device or a path over which no data pass, for UCX mostly a NIC of another rail or another GID index",
                "the other worker hangs or has ended without a word",
                CUT,
            ],
            "run it again with UCX_LOG_LEVEL=info, which names the devices that UCX chose, then with UCX_TLS=tcp,cuda_copy, and test the path alone with `ib_write_bw -d DEVICE -x INDEX`: what makes it print rows names the path",
        ),
        _ => stall(
            BENCHMARK_WITHOUT_ROW,
            &[
                "the first transfer or collective hangs: data do not pass between two of the GPUs or NICs that it uses (between GPUs of one host mostly an IOMMU or ACS, between hosts a firewall or another interface)",
                ENDED,
                CUT,
            ],
            "take stacks of its processes (`gdb -p PID -batch -ex 'thread apply all bt'`), and run it again with NCCL_DEBUG=INFO on one host first, then with NCCL_P2P_DISABLE=1: what makes it print rows names the path",
        ),
    }
}

/// A table without a row beside failures, unless one behind its head tells why: it hung until Slurm ended it, or it
/// followed what failed before.
fn beside_failures(
    finding: SignatureFinding,
    findings: &[SignatureFinding],
) -> Option<SignatureFinding> {
    let is_of_file = |one: &&SignatureFinding| one.first.file == finding.first.file;
    let mut failures = findings.iter().filter(is_of_file);
    let is_behind = |one: &SignatureFinding| one.first.line > finding.first.line;
    let is_of_slurm = |one: &SignatureFinding| {
        ENDED_BY_SLURM.contains(&one.signature.as_str()) || one.role == Role::Consequence
    };
    let role = match failures
        .clone()
        .all(|one| is_behind(one) && is_of_slurm(one))
    {
        true => Role::General,
        false if failures.any(|one| !is_behind(one)) => Role::Consequence,
        false => return None,
    };
    Some(SignatureFinding { role, ..finding })
}

/// Findings on tables that end within: told where nothing else is.
pub(super) fn open_tables(compose: &Compose<'_>) -> Vec<SignatureFinding> {
    if compose.has_harness() {
        return Vec::new();
    }
    let open = compose.tally.ends.open_tables().take(WAITS_MAX);
    let open = open.map(|(table, size)| {
        let place = compose.place(table.head.place, table.head.time_us);
        SignatureFinding {
            severity: Severity::Info,
            processes: vec![compose.name(table.speaker)],
            first: place.clone(),
            last: place,
            meaning: format!(
                "the log ends within the table of {}, behind the row of size {size}: it was cut there, or the next size does not end",
                table.benchmark
            ),
            sample: shown(&table.head.text),
            ..stall(
                BENCHMARK_TABLE_OPEN,
                &[
                    "the program went on, and its log was copied or cut here",
                    "the transfer or collective of the next size hangs: it goes another way (protocol, algorithm, channel) than the sizes before",
                ],
                "look whether the program still runs; if so, take stacks of its processes (`gdb -p PID -batch -ex 'thread apply all bt'`), and run the next size alone",
            )
        }
    });
    open.collect()
}

/// A finding on a file that ends within a traceback.
fn torn(compose: &Compose<'_>, open: &OpenTraceback) -> SignatureFinding {
    let place = compose.place(open.head.place, open.head.time_us);
    let (record, ..) = crate::shape::record_at(&open.head.text, open.head.text.len());
    let who = match record.rank() {
        Some(rank) => format!("rank {rank}"),
        None => "the program".to_owned(),
    };
    let frame = &open.frame;
    // Ray names the exception of a worker in front of its traceback.
    let head = String::from_utf8_lossy(&open.head.text);
    let raised = quoted_exception(&head).filter(|name| name.contains("Nccl"));
    let raised = raised.map(|_| "NCCL".to_owned());
    let call = open.call.as_ref().or(raised.as_ref());
    let calls = open.call.as_ref();
    let calls = calls.map_or(String::new(), |call| TORN_CALL.replace("{word}", call));
    let parts = [
        (SAYS, crate::traceback::said_of(&open.head.text)),
        (ASKED, open.asked.clone()),
        (TORN_WITHIN, open.torn.as_ref().map(|(_, torn)| shown(torn))),
    ];
    let parts =
        parts.map(|(text, word)| word.map_or(String::new(), |word| text.replace("{word}", &word)));
    let more = parts.concat();
    let of_call = call.map(|call| CALL_FAILED.replace("{word}", call));
    let finding = stall(
        TRACEBACK_TORN,
        &["the program was killed as it wrote its traceback, or the log was cut here"],
        "read the log of that process to its end: its last line names the exception; what the last frame does tells where it was raised",
    );
    SignatureFinding {
        severity: Severity::Error,
        processes: vec![compose.name(open.speaker)],
        first: place.clone(),
        last: place,
        meaning: format!(
            "{who} raised an exception whose text is torn off: the log ends within its traceback, behind {frame}{calls}{more}"
        ),
        sample: shown(&open.head.text),
        causes: of_call.into_iter().chain(finding.causes).collect(),
        ..finding
    }
}

/// What the last frame of a torn traceback calls, and what that tells.
const SAYS: &str = "; its first line says: {word}";
const ASKED: &str = "; the driver asked {word} of its workers";
const TORN_WITHIN: &str = "; its class is torn too: {word}";
const TORN_CALL: &str = "; its code calls {word}";
const CALL_FAILED: &str = "{word} failed or was interrupted: why is in the exception's text, which is torn off, or in a line with WARN of the library before it";

/// A finding on a program that a person stopped, or whose stack a person took, because it did not go on.
fn stopped_by_hand(compose: &Compose<'_>, file: u32, by_hand: &ByHand) -> Option<SignatureFinding> {
    let (line, meaning, finding) = match (&by_hand.stack, &by_hand.interrupted) {
        (Some((line, told)), _) => (
            line,
            format!(
                "a debugger's stack, without a crash, shows where a process did not go on: {}",
                told.join(", called from ")
            ),
            stall(
                by_hand::STACK,
                &[
                    "the call waits for a peer or a device that does not answer, or its own loop does not end",
                ],
                "take the stack again some seconds later: the same innermost call waits, another one loops; compare the release of the library that the frames name with the one that the program was built for",
            ),
        ),
        (None, Some((line, size))) => (
            line,
            format!(
                "a benchmark was interrupted after its row of size {size}: the next size did not end"
            ),
            stall(
                by_hand::INTERRUPTED,
                &[
                    "the transfer or collective of the next size hangs: it goes another way (protocol, algorithm, channel) than the sizes before",
                    "a rank hangs or has ended without a word",
                    "a person had seen enough rows",
                ],
                "take stacks of its processes while it hangs (`gdb -p PID -batch -ex 'thread apply all bt'`), and run that size alone with NCCL_DEBUG=INFO, then with another NCCL_PROTO or interface: what makes it end names the path",
            ),
        ),
        (None, None) => return None,
    };
    let number = line.number;
    let place = compose.place(Place { file, line: number }, None);
    Some(SignatureFinding {
        processes: vec![place.file.clone()],
        first: place.clone(),
        last: place,
        meaning,
        sample: shown(&line.text),
        ..finding
    })
}

/// The last lines, those that differ in their numbers once, the latest first.
fn ends(compose: &Compose<'_>) -> Vec<LogEnd> {
    let last_us = compose.tally.ends.last_us();
    let mut by = BTreeMap::<&[u8], Vec<(u32, u32, &End)>>::new();
    for (file, speaker, end) in compose.tally.ends.iter() {
        let of = by.entry(&end.last.shape).or_default();
        of.push((file, speaker, end));
    }
    let one = |ends: Vec<(u32, u32, &End)>| {
        let (file, _, end) = *ends.iter().max_by_key(|(_, _, end)| end.last.place)?;
        let is_wait = |wait: &LastWait| wait.last.place == end.last.place;
        let latest = last_us.get(&file).zip(end.last.time_us);
        Some((
            end.last.place,
            LogEnd {
                processes: named(compose, ends.iter().map(|(_, speaker, _)| *speaker)),
                last: compose.place(end.last.place, end.last.time_us),
                sample: shown(&end.last.text),
                waits: end.wait.as_ref().is_some_and(is_wait),
                silent_seconds: latest
                    .map(|(latest, own)| seconds(latest - own))
                    .filter(|silent| *silent >= SILENT_MIN),
            },
        ))
    };
    let mut all: Vec<(Place, LogEnd)> = by.into_values().filter_map(one).collect();
    all.sort_by_key(|(place, _)| (place.file, std::cmp::Reverse(place.line)));
    all.truncate(ENDS_MAX);
    all.into_iter().map(|(_, end)| end).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a duration for people")]
fn seconds(time_us: i64) -> f64 {
    time_us as f64 / 1e6
}

fn named(compose: &Compose<'_>, speakers: impl Iterator<Item = u32>) -> Vec<String> {
    let mut names: Vec<String> = speakers.map(|one| compose.name(one)).collect();
    names.sort();
    names.dedup();
    names.truncate(NAMED_MAX);
    names
}

/// Findings on files that end in waits. What a program says when it is ended from outside is no
/// sign that it went on.
fn waits(compose: &Compose<'_>, findings: &[SignatureFinding]) -> Vec<SignatureFinding> {
    let ended = |file: u32| {
        let name = compose.files.get(file as usize);
        // What only warns ends no program.
        let ends = |one: &&SignatureFinding| one.severity < Severity::Warning;
        let of_file = findings
            .iter()
            .filter(|one| Some(&one.first.file) == name)
            .filter(ends);
        of_file.map(|one| one.first.line).min()
    };
    let is_open = |after: Option<Place>| {
        after.is_none_or(|after| ended(after.file).is_some_and(|line| line <= after.line))
    };
    let all = || {
        let ends = compose.tally.ends.iter();
        ends.filter_map(|(file, speaker, end)| Some((file, speaker, end.wait.as_ref()?)))
    };
    let ends_so: Vec<u32> = all()
        .filter(|(_, _, wait)| is_open(wait.any_after))
        .map(|(file, ..)| file)
        .collect();
    // What waits after a failure, waits because of it.
    let has_failed = |file: u32, wait: &LastWait| {
        let name = compose.files.get(file as usize);
        let is_before = |one: &SignatureFinding| {
            Some(&one.first.file) == name && one.first.line < wait.first.place.line
        };
        let mut failures = findings
            .iter()
            .filter(|one| one.severity < Severity::Warning);
        failures.any(is_before)
    };
    let is_complete = |speaker: u32, wait: &LastWait| {
        let complete = compose.tally.init_complete.get(&speaker);
        wait.kind == WaitKind::Nccl && complete.is_some_and(|at| *at > wait.last.place)
    };
    let open = all().filter(|(file, speaker, wait)| {
        let has_passed = has_failed(*file, wait) || is_complete(*speaker, wait);
        ends_so.contains(file) && is_open(wait.own_after) && !has_passed
    });
    let mut by = BTreeMap::<(WaitKind, &[u8]), Vec<(u32, &LastWait)>>::new();
    for (_, speaker, wait) in open {
        // The ranks of one communicator name other addresses and GPUs.
        let id = COMM_ID.find(&wait.last.text).map(|id| id.as_bytes());
        let id = id.filter(|_| wait.kind == WaitKind::Nccl);
        let key = (wait.kind, id.unwrap_or(wait.last.shape.as_slice()));
        by.entry(key).or_default().push((speaker, wait));
    }
    let found = by
        .into_iter()
        .map(|((kind, _), waits)| finding(compose, kind, &waits));
    let mut found: Vec<SignatureFinding> = found.collect();
    found.sort_by(|a, b| a.first.cmp(&b.first));
    found.truncate(WAITS_MAX);
    found
}

fn finding(compose: &Compose<'_>, kind: WaitKind, waits: &[(u32, &LastWait)]) -> SignatureFinding {
    let place = |line: &LastLine| compose.place(line.place, line.time_us);
    let first = waits.iter().map(|(_, wait)| &wait.first);
    let first = first.min_by_key(|line| line.place);
    let last = waits.iter().map(|(_, wait)| &wait.last);
    let last = last.max_by_key(|line| line.place);
    let (signature, meaning, causes, next): (_, _, &[&str], _) = match kind {
        WaitKind::Said => (
            WAITS_AT_END,
            "the log ends with this wait: nothing that its program says comes after it",
            &[
                "what it waits for did not start, has ended, or waits for something itself",
                "it runs and cannot be reached: another address, port or interface, or a firewall",
                "the program went on, and its log was copied or cut here",
            ],
            "look for what the line names: does it run, where is it expected, and what does its own \
             log end with; `py-spy dump --pid PID` shows where a Python process waits",
        ),
        WaitKind::Nccl => (
            UNFINISHED_NCCL_INIT,
            "the log ends while NCCL makes a communicator: each rank waits here until all ranks of it \
             have come as far",
            &[
                "a rank did not start, failed before this call, or makes another communicator first",
                "the ranks cannot connect over the interface that `Bootstrap : Using` names: \
                 NCCL_SOCKET_IFNAME, or a firewall between the hosts",
                "the program went on, and its log was copied or cut here",
            ],
            "count the processes with this line: look at the ranks that lack it; if all have it, try \
             a connection between the hosts over the interface that it names",
        ),
    };
    SignatureFinding {
        count: waits.iter().map(|(_, wait)| wait.count).sum(),
        processes: named(compose, waits.iter().map(|(speaker, _)| *speaker)),
        first: first.map(place).unwrap_or_default(),
        last: last.map(place).unwrap_or_default(),
        meaning: meaning.to_owned(),
        sample: first.map(|line| shown(&line.text)).unwrap_or_default(),
        ..stall(signature, causes, next)
    }
}

/// A finding on a log that ends too early; where, and what it means, is to be added.
fn stall(signature: &str, causes: &[&str], next: &str) -> SignatureFinding {
    SignatureFinding {
        signature: signature.to_owned(),
        severity: Severity::Stall,
        role: Role::General,
        count: 1,
        processes: Vec::new(),
        first: LinePlace::default(),
        last: LinePlace::default(),
        phase: None,
        meaning: String::new(),
        causes: causes.iter().map(|cause| (*cause).to_owned()).collect(),
        next_step: Some(next.to_owned()),
        versions: String::new(),
        polls: None,
        sample: String::new(),
        before: Vec::new(),
        after: None,
    }
}
