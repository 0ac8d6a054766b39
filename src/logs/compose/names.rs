//! Who a finding is about: rank, host and GPU, in its first sentence.
//!
//! A line of an exception names no rank, and the table of torchrun below it does. Lines of one event of one rank are one
//! finding with all their names, and the others follow it.
#![forbid(unsafe_code)]

use super::Compose;
use super::ranking::is_later;
use crate::loggers::regex;
use crate::report::{STATED_ERROR, SignatureFinding, UNKNOWN_WARNING};
use crate::signature::Role;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What torchrun's table says of the first rank that ended.
static ROOT: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^torchrun saw rank (?P<rank>\d+) on (?P<host>[^\s,]+) fail first"));
/// A rank in a sentence.
static RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"\branks? \d"));
/// A rank as PyTorch writes it before a message.
static WRITTEN_RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"\bRank (?P<rank>\d+)\]"));
/// The address of a GPU, or its number, in lines of its driver.
static PCI: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b"));
static GPU: LazyLock<Regex> = LazyLock::new(|| regex(r"\bGPU ?\d+\b"));
/// What a launcher writes before the rank that died.
static DIED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?P<host>[\w.-]+): rank (?P<rank>\d+) died"));

/// What srun writes of a task that ended with an error.
static EXITED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bsrun: error: (?P<host>[A-Za-z][\w.-]*): (?P<rank>tasks? [\d,-]+): Exited with exit code",
    )
});

/// The process that Ray or vLLM writes before a line.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    // A worker's line that its engine passes on has the prefix of both.
    regex(
        r"^(?:\([^()]* pid=\d+[^()]*\) )*\((?P<name>[A-Za-z][\w.]*(?: [\w.]+)?) pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\d.]+))?\) ",
    )
});

/// What mpirun writes of the process whose signal it noticed.
static NOTICED: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on\b")
});

/// What a finding on an exception says of its place.
const RAISED: &str = "; raised at ";
const ROOT_CAUSE: &str = "torchrun-root-cause";
/// The ranks that torchrun's table lists besides.
pub(super) const LISTED: &str = "torchrun-failures";
/// What torchrun's table says of a rank that a signal ended, and of one that SIGTERM ended, as torchrun itself ends the
/// others.
pub(super) const SIGNAL: &str = "torch-child-signal";
const ENDED: &str = "torch-child-ended";
const ONE_DIED: &str = "torchrun reports that a rank died from ";
/// The end of a Python program whose exception nothing caught.
const RAISED_EXIT: &str = "with exit code 1";
const TASK_EXIT: &str = "srun-exit";
const NOTICED_EXIT: &str = "mpi-noticed-exit";
const KILLED_BY_KERNEL: &str = "slurm-oom";
const ILLEGAL: &str = "illegal-instruction";
const DIED_OF_SIGNAL: &str = "rank-died-signal";
/// Two lines of PyTorch on one watchdog; the second has the time.
const HEARTBEAT: &str = "heartbeat-timeout";
const STUCK: &str = "watchdog-stuck";

/// Adds ranks, hosts and GPUs to the sentences that lack them, and lets lines of the same event follow.
///
/// `listed` is what torchrun's table says of the ranks beside the first.
pub(super) fn name(
    findings: &mut [SignatureFinding],
    listed: Option<&SignatureFinding>,
    quotes: impl Fn(&str) -> bool,
) {
    follow_event(findings);
    name_by_same_error(findings);
    name_ranks(findings, &quotes);
    name_noticed(findings);
    name_prefixed(findings);
    name_exited(findings, |one| {
        quotes(&one.signature) || one.signature == UNKNOWN_WARNING || one.role == Role::General
    });
    if let Some(listed) = listed {
        name_listed(findings, listed);
    }
    for finding in findings.iter_mut() {
        name_gpu(finding);
    }
}

/// The rank that a finding's only process is.
fn rank_of(finding: &SignatureFinding) -> Option<&str> {
    // Lines of a rank without its prefix are of the file.
    let named = finding.processes.iter();
    let mut named = named.filter(|one| **one != finding.first.file);
    let (process, None) = (named.next()?, named.next()) else {
        return None;
    };
    let (_, rank) = process.rsplit_once(" rank ")?;
    rank.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(rank)
}

/// Ranks up to which a number before a line is a rank, where it is the only one.
const ONLY_MAX: u32 = 63;

/// Whether the number before a line is one of a test, as ctest writes it before all that a test prints.
fn is_of_test(finding: &SignatureFinding, rank: &str) -> bool {
    let number: u32 = rank.parse().unwrap_or_default();
    number > ONLY_MAX && finding.sample.starts_with(&format!("{rank}: "))
}

/// A rank and its host.
struct Named {
    at: usize,
    rank: String,
    host: String,
}

/// The rank that a finding's text names.
fn named(findings: &[SignatureFinding], signature: &str, words: &Regex) -> Option<Named> {
    let is_its = |one: &SignatureFinding| one.signature == signature;
    let at = findings.iter().position(is_its)?;
    let one = findings.get(at)?;
    let found = words
        .captures(one.meaning.as_bytes())
        .or_else(|| words.captures(one.sample.as_bytes()))?;
    let text =
        |name: &str| Some(String::from_utf8_lossy(found.name(name)?.as_bytes()).into_owned());
    Some(Named {
        at,
        rank: text("rank")?,
        host: text("host")?,
    })
}

fn follow_event(findings: &mut [SignatureFinding]) {
    let stuck = findings.iter().find(|one| one.signature == STUCK);
    let stuck = stuck.map(|one| one.processes.clone()).unwrap_or_default();
    let mut tables = findings.iter().filter(|one| one.signature == ROOT_CAUSE);
    let is_raised = tables.any(|one| one.meaning.contains(RAISED_EXIT));
    let has_died = findings.iter().any(|one| one.signature == SIGNAL);
    for finding in findings.iter_mut() {
        let is_of = finding.processes.iter().all(|one| stuck.contains(one));
        let was_ended = finding.signature == ENDED && (is_raised || has_died);
        if finding.signature == HEARTBEAT && is_of || was_ended {
            finding.role = Role::Consequence;
        }
        let count = finding.count;
        let of = finding.meaning.strip_prefix(ONE_DIED);
        if let Some(signal) = of.filter(|_| finding.signature == SIGNAL && count > 1) {
            finding.meaning =
                format!("torchrun reports that {count} ranks died, the first from {signal}");
        }
    }
}

/// Bytes of the lines below an error that are searched for the words of another.
const QUOTED_MAX: usize = 400;
/// Least bytes of the words of an error by which two lines are of one.
const WORDS_MIN: usize = 16;

/// Names the rank of an error whose own line names none, where a line of one rank quotes its words.
fn name_by_same_error(findings: &mut [SignatureFinding]) {
    let of_rank = |one: &SignatureFinding| {
        let written = WRITTEN_RANK.captures(one.sample.as_bytes());
        let written = written.map(|found| super::shown(&found["rank"]));
        let rank = rank_of(one).map(str::to_owned).or(written)?;
        let after = one.after.as_deref().unwrap_or_default();
        let text = format!(
            "{} {}",
            one.sample,
            &after[..after.floor_char_boundary(QUOTED_MAX)]
        );
        Some((one.first.file.clone(), rank, text))
    };
    let quotes: Vec<(String, String, String)> = findings.iter().filter_map(of_rank).collect();
    for finding in findings.iter_mut() {
        let words = finding.sample.rsplit(": ").next().unwrap_or_default();
        let file = &finding.first.file;
        let others = finding.processes.iter().filter(|one| *one != file);
        if others.count() > 1
            || rank_of(finding).is_some()
            || words.len() < WORDS_MIN
            || RANK.is_match(finding.meaning.as_bytes())
        {
            continue;
        }
        let same = quotes
            .iter()
            .filter(|(file, _, sample)| *file == finding.first.file && sample.contains(words));
        let ranks: BTreeSet<&String> = same.map(|(_, rank, _)| rank).collect();
        if let (1, Some(rank)) = (ranks.len(), ranks.first()) {
            finding.meaning = format!("{}; it is of rank {rank}", finding.meaning);
        }
    }
}

fn name_ranks(findings: &mut [SignatureFinding], quotes: impl Fn(&str) -> bool) {
    let root = named(findings, ROOT_CAUSE, &ROOT);
    let died = named(findings, DIED_OF_SIGNAL, &DIED);
    let place = |named: &Option<Named>| {
        let of = named.as_ref().and_then(|named| findings.get(named.at));
        of.map(|one| one.first.clone())
    };
    let (root_at, died_at) = (place(&root), place(&died));
    let (mut root_follows, mut died_follows) = (false, false);
    let is_told = |one: &SignatureFinding| quotes(&one.signature) || one.meaning.contains(RAISED);
    // The streams of torchrun and of a rank may be in a file one behind the other.
    let is_behind_table = root.as_ref().is_some_and(|root| {
        let root = &findings[root.at];
        let mut told = findings.iter().filter(|one| is_told(one));
        let is_before = |one: &SignatureFinding| is_later(&root.first, &one.first);
        root.meaning.contains(RAISED_EXIT) && !told.any(is_before)
    });
    for finding in findings.iter_mut() {
        let is_before = |place: &Option<crate::report::LinePlace>| {
            place.as_ref().is_some_and(|place| {
                place.file == finding.first.file && is_later(place, &finding.first)
            })
        };
        if finding.role == Role::Consequence
            || [ROOT_CAUSE, DIED_OF_SIGNAL].contains(&finding.signature.as_str())
        {
            continue;
        }
        let is_named = RANK.is_match(finding.meaning.as_bytes());
        let rank = rank_of(finding).filter(|rank| !is_of_test(finding, rank));
        let rank = rank.map(str::to_owned);
        let is_of = |named: &&Named| rank.as_deref() == Some(named.rank.as_str());
        let is_of_table = is_behind_table && is_told(finding);
        let of_root = root.as_ref().filter(|_| is_before(&root_at) || is_of_table);
        let of_died = died.as_ref().filter(|_| is_before(&died_at));
        let is_quoted = quotes(&finding.signature) || finding.signature == UNKNOWN_WARNING;
        let own_host = of_root.filter(is_of).or(of_died.filter(is_of));
        root_follows |= of_root.is_some_and(|root| is_of(&root)) && is_quoted;
        died_follows |= of_died.is_some_and(|died| is_of(&died));
        let text = match (rank.as_deref(), own_host, of_root) {
            (Some(rank), Some(of), _) => format!("it is of rank {rank} on {}", of.host),
            (Some(rank), None, _) => format!("it is of rank {rank}"),
            // The processes of one line share its stream, so a table of one rank is of its exception.
            (None, _, Some(root)) if is_told(finding) && of_one_file(finding) => {
                root_follows = true;
                format!("torchrun names rank {} on {}", root.rank, root.host)
            }
            _ => continue,
        };
        if !is_named {
            finding.meaning = format!("{}; {text}", finding.meaning);
        }
    }
    for (named, follows) in [(root, root_follows), (died, died_follows)] {
        let named = named.filter(|_| follows);
        if let Some(one) = named.and_then(|named| findings.get_mut(named.at)) {
            one.role = Role::Consequence;
        }
    }
}

/// Names the rank that mpirun noticed in the sentence of a crash that names none.
fn name_noticed(findings: &mut [SignatureFinding]) {
    let Some(noticed) = named(findings, NOTICED_EXIT, &NOTICED) else {
        return;
    };
    let place = findings[noticed.at].first.clone();
    let crash = findings.iter_mut().find(|one| {
        // Slurm tells of the kernel's kill when the step has ended.
        let is_killed = one.signature == KILLED_BY_KERNEL;
        let crashed = crate::seen::crashes(one.sample.as_bytes())
            || [ILLEGAL, STATED_ERROR, UNKNOWN_WARNING].contains(&one.signature.as_str())
                && one.count == 1
                && of_one_file(one);
        (is_killed || crashed && is_later(&place, &one.first))
            && one.first.file == place.file
            && one.role != Role::Consequence
    });
    if let Some(crash) = crash.filter(|one| !RANK.is_match(one.meaning.as_bytes())) {
        let (rank, host) = (&noticed.rank, &noticed.host);
        crash.meaning = format!("{}; mpirun names rank {rank} on {host}", crash.meaning);
    }
}

/// Names the task that srun saw end first in the sentence of the error before it that names no process.
fn name_exited(findings: &mut [SignatureFinding], is_error: impl Fn(&SignatureFinding) -> bool) {
    let Some(task) = named(findings, TASK_EXIT, &EXITED) else {
        return;
    };
    let place = findings[task.at].first.clone();
    let is_before = |one: &&mut SignatureFinding| {
        is_error(one)
            && one.signature != TASK_EXIT
            && one.role != Role::Consequence
            && one.first.file == place.file
            && is_later(&place, &one.first)
            && of_one_file(one)
    };
    let error = findings
        .iter_mut()
        .filter(is_before)
        .min_by_key(|one| one.first.line);
    if let Some(error) = error.filter(|one| !RANK.is_match(one.meaning.as_bytes())) {
        error.meaning = format!(
            "{}; srun names {} on {}",
            error.meaning, task.rank, task.host
        );
    }
}

/// Names the process that a launcher writes before an error whose sentence names none.
fn name_prefixed(findings: &mut [SignatureFinding]) {
    for finding in findings {
        let names_one = finding.meaning.contains("; it is of ")
            || RANK.is_match(finding.meaning.as_bytes())
            || !of_one_file(finding);
        let Some(found) = PREFIX.captures(finding.sample.as_bytes()) else {
            continue;
        };
        if names_one || finding.role == Role::Consequence {
            continue;
        }
        let [name, pid] = ["name", "pid"].map(|part| super::shown(&found[part]));
        let host = found.name("ip").map(|ip| super::shown(ip.as_bytes()));
        let host = host.map_or(String::new(), |host| format!(" on {host}"));
        let what = if finding.count == 1 {
            "it is of"
        } else {
            "its first line is of"
        };
        finding.meaning = format!("{}; {what} {name} (pid {pid}){host}", finding.meaning);
    }
}

/// Lines between an error and a line that says whose it was, where the log has other errors too.
const BLAME_LINES: u64 = 4;

impl Compose<'_> {
    /// Adds to the sentence of an error without a rank what a line behind it says of whose it was: `blames` of that
    /// line's signature.
    pub(super) fn name_blamed(&self, findings: &mut [SignatureFinding]) {
        let signatures = (0..).zip(&self.catalogue.signatures);
        for (number, signature, text) in
            signatures.filter_map(|(at, one)| Some((at, one, one.blames.as_ref()?)))
        {
            let Some(line) = findings.iter().find(|one| one.signature == signature.name) else {
                continue;
            };
            let values = self.catalogue.values(number, line.sample.as_bytes());
            let place = line.first.clone();
            let is_before = |one: &&mut SignatureFinding| {
                one.first.file == place.file
                    && one.first.line < place.line
                    && one.signature != signature.name
                    && one.role != Role::Consequence
            };
            let mut errors: Vec<_> = findings.iter_mut().filter(is_before).collect();
            errors.sort_by_key(|one| one.first.line);
            let only = errors.len() == 1;
            let Some(error) = errors.pop() else {
                continue;
            };
            let is_near = place.line - error.first.line <= BLAME_LINES;
            let is_open = error.count == 1 && !RANK.is_match(error.meaning.as_bytes());
            if is_open && (only || is_near) && values.has_all(text) {
                error.meaning = format!("{}; {}", error.meaning, values.fill(text));
            }
        }
    }
}

/// Names the other ranks of torchrun's table in the sentences that name its first.
fn name_listed(findings: &mut [SignatureFinding], listed: &SignatureFinding) {
    let Some(root) = named(findings, ROOT_CAUSE, &ROOT) else {
        return;
    };
    let first = format!("rank {} on {}", root.rank, root.host);
    for finding in findings {
        let is_of_table = finding.meaning.contains(&first);
        let names_all = finding.processes.len() > 1;
        if is_of_table && finding.first.file == listed.first.file && !names_all {
            finding.meaning = format!("{}; {}", finding.meaning, listed.meaning);
        }
    }
}

/// Whether only the file tells who logged a finding's lines.
fn of_one_file(finding: &SignatureFinding) -> bool {
    finding.processes == [finding.first.file.clone()]
}

fn name_gpu(finding: &mut SignatureFinding) {
    let sample = finding.sample.as_bytes();
    if !["NVRM", "fallen off the bus"]
        .iter()
        .any(|word| finding.sample.contains(word))
    {
        return;
    }
    let text =
        |found: regex::bytes::Match<'_>| String::from_utf8_lossy(found.as_bytes()).into_owned();
    let pci = PCI.find(sample).map(text);
    let gpu = GPU.find(sample).map(text);
    let added = match (pci, gpu) {
        (Some(pci), _) if !finding.meaning.contains(&pci) => format!("the GPU is at {pci}"),
        (None, Some(gpu)) if !finding.meaning.contains(&gpu) => format!("the GPU is {gpu}"),
        _ => return,
    };
    finding.meaning = format!("{}; {added}", finding.meaning);
}

/// Ranks that are named of the lines of one process.
const RANKS_NAMED: usize = 16;

/// The finding with the ranks that lines name, if nothing else tells whose each is.
pub(super) fn with_ranks(
    mut finding: SignatureFinding,
    ranks: impl Iterator<Item = u32>,
) -> SignatureFinding {
    let ranks: BTreeSet<u32> = ranks.collect();
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let is_digit = |letter: char| letter.is_ascii_digit();
    let is_told = |rank: &String| {
        let mut numbers = finding.meaning.split(|letter| !is_digit(letter));
        numbers.any(|number| number == rank)
    };
    if of_one_file(&finding)
        && (2..=RANKS_NAMED).contains(&ranks.len())
        && !ranks.iter().all(is_told)
    {
        finding.meaning = format!(
            "{}; its lines name rank {}",
            finding.meaning,
            ranks.join(", ")
        );
    }
    finding
}

/// The finding with the GPUs that its lines are about, if these are several.
pub(super) fn with_gpus<'a>(
    mut finding: SignatureFinding,
    gpus: impl Iterator<Item = &'a Vec<u8>>,
) -> SignatureFinding {
    let gpus: BTreeSet<String> = gpus.map(|gpu| super::shown(gpu)).collect();
    if gpus.len() > 1 {
        let gpus: Vec<String> = gpus.into_iter().collect();
        finding.meaning = format!("{}; the GPUs are at {}", finding.meaning, gpus.join(", "));
    }
    finding
}

#[cfg(test)]
mod tests {
    use tcpx_run_model::chinese::chinese;

    #[test]
    fn what_is_added_to_a_sentence_has_chinese() {
        for text in [
            "it is of rank 3",
            "it is of rank 3 on node-a",
            "torchrun names rank 3 on node-a",
            "torchrun lists rank 0, 2 too",
            "mpirun names rank 14 on node-a",
            "rank 3 aborted the job",
            "srun names task 3 on node-a",
            "srun names tasks 0-1 on node-a",
            "it is of Worker_TP1 (pid 71)",
            "its first line is of Worker TP1 (pid 71) on 10.0.1.25",
            "the GPU is at 0000:b3:00",
            "the GPUs are at 0000:b3:00, 0000:dc:00",
            "the GPU is GPU6",
            "its lines name rank 8, 9",
        ] {
            assert!(chinese(text).is_some(), "add to chinese-logs.toml: {text}");
        }
    }
}
