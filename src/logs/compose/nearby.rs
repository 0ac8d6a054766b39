//! What the lines right beside a finding's first line tell of the same event: the tasks that ended next, whose memory a
//! failing address is, and how long a rank waited.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::loggers::regex;
use crate::report::{SignatureFinding, UNKNOWN_WARNING};
use crate::seen::SeenLines;
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Slurm's line on a task that ended, behind its program's name.
const TASK: &str = "srun-exit";
const ENDED: &str = "a task of Slurm ended: ";
const ENDED_FIRST: &str = "a task of Slurm ended first: {word}, then {rest}";
static TASK_LINE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bsrun: error: (?P<what>\S+: tasks? \S+: \S.*)$"));
/// Tasks that are named beside the first.
const TASKS_MAX: usize = 2;

/// The address at which a process failed, in the lines of Open MPI, UCX and HIP.
static FAILED_AT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:failing at address|at address|fault address|address):? \(?(?P<address>0x[0-9a-f]{6,16})\b",
    )
});
/// A line of nothing but words and addresses that lists memory of GPUs, and the rank in it.
static OF_GPU: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:rank \d+\b)?[ :=,/|-]{0,6}(?:(?:host|device|gpu|cuda|send|recv|src|dst|buffers?|pointers?|ptr|address(?:es)?|memory)[ :=,/|_-]{0,4}){2,6}(?:0x[0-9a-f]{4,16}[ ,/|]{0,4}){1,4}$",
    )
});
static OF_RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\brank[ =:]*(?P<rank>\d+)\b"));
const ADDRESS_OF_GPU: &str =
    "the address {word} at which it failed is in a line before that lists buffers of a GPU";
const ADDRESS_OF_RANK: &str = "the address {word} at which it failed is in a line before that lists buffers of a GPU, those of rank {rank}";
const NOT_GPU_AWARE: &str = "a pointer to GPU memory was given to a library that reads it on the CPU: MPI or libfabric is not built for GPU memory (not GPU-aware)";
/// What such a pointer is given to.
static TAKES_POINTER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bP?MPI_\w+|\blib(?:mpi|fabric|uc[pts]|psm)\w*\.so"));

/// The time limit of a collective in a line of PyTorch's watchdog.
static LIMIT: LazyLock<Regex> = LazyLock::new(|| regex(r"\bTimeout\(ms\)=(?P<ms>\d+)"));
/// A call of the system that failed in NCCL's InfiniBand, and the settings by which that chooses a GID.
static OF_IB: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\btransport/net_ib\w*(?:/\w+)?\.cc:\d+ -> 2"));
const GID_SETTINGS: [&str; 4] = [
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ROCE_VERSION_NUM",
];
const NO_GID: &str = "no GID of the NIC is as {word} ask for, or the peer is not reached from the one that they choose: NCCL's InfiniBand failed as it set up a connection";
const LOOK_AT_GID: &str = "`show_gids` on every node: each NIC must have a GID of this address, family and version of RoCE at the same place; run it again without these settings, and with NCCL_DEBUG_SUBSYS=INIT,NET, which names the GID that NCCL takes";
/// What stands for a collective without its name and number, or without its number.
const NO_NAME: &str = " ? number ?";
const TORN_NAME: &str = " a collective whose name is torn off its line";
const NO_NUMBER: &str = " number ?";
const NOT_AMONG: &str = "rank {word} is not among those that report it";
const SEVERAL_NOT_AMONG: &str = "ranks {word} are not among those that report it";

/// The process in the prefix of a launcher.
static PID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\([A-Za-z][\w.]*(?: [\w.]+)? pid=(?P<pid>\d+)"));
/// NCCL's calls on a connection for data, and a cause that is of the connections of its bootstrap only.
static OF_DATA: LazyLock<Regex> = LazyLock::new(|| regex(r"\btransport/net(?:_\w+)?\.cc"));
const NO_RANK: &str = "no rank was there: a port scanner";

impl Compose<'_> {
    /// Tells what the lines beside those of each finding say.
    pub(super) fn tell_of_nearby(&self, findings: &mut [SignatureFinding]) {
        for finding in findings {
            let Some(seen) = self.seen_of(finding) else {
                continue;
            };
            tell_of_next_tasks(finding, seen);
            self.tell_of_wait(finding);
            self.tell_of_gid(finding);
            tell_of_address(finding, seen);
            tell_of_exception(finding, seen);
            if seen.near_lines().any(|line| OF_DATA.is_match(line)) {
                finding.causes.retain(|cause| !cause.starts_with(NO_RANK));
            }
        }
    }

    /// Names the choice of a GID where a call of the system failed within NCCL's InfiniBand, and settings choose it.
    fn tell_of_gid(&self, finding: &mut SignatureFinding) {
        let is_of_ib = OF_IB.is_match(finding.sample.as_bytes());
        if finding.signature != super::NET_CHAIN || !is_of_ib {
            return;
        }
        let set = GID_SETTINGS.into_iter().filter(|name| self.is_set(name));
        let set: Vec<&str> = set.collect();
        if !set.is_empty() {
            finding
                .causes
                .insert(0, NO_GID.replace("{word}", &set.join(", ")));
            finding.next_step = Some(LOOK_AT_GID.to_owned());
        }
    }

    /// Says how long ranks waited in a collective that PyTorch gave up, and which do not report it.
    fn tell_of_wait(&self, finding: &mut SignatureFinding) {
        if finding.signature != super::TIMEOUT {
            return;
        }
        // Before `OpType=` a line is torn; older releases have no `SeqNum=`.
        finding.meaning = finding.meaning.replace(NO_NAME, TORN_NAME);
        finding.meaning = finding.meaning.replace(NO_NUMBER, "");
        let limit = LIMIT.captures(finding.sample.as_bytes());
        let limit = limit.and_then(|found| str::from_utf8(&found["ms"]).ok()?.parse::<u64>().ok());
        if let Some(seconds) = limit.map(|ms| ms / 1000).filter(|seconds| *seconds > 0) {
            finding.meaning = format!("{}; waited for {seconds} s", finding.meaning);
        }
        let waits = self.waits();
        let absent = self.not_waiting(&waits);
        if waits.len() != 1
            || finding.meaning.contains(" did not wait in it")
            || !(1..=super::ABSENT_MAX).contains(&absent.len())
        {
            return;
        }
        let told = if absent.len() == 1 {
            NOT_AMONG
        } else {
            SEVERAL_NOT_AMONG
        };
        let absent: Vec<String> = absent.iter().map(u32::to_string).collect();
        let told = told.replace("{word}", &absent.join(", "));
        finding.meaning = format!("{}; {told}", finding.meaning);
    }

    /// Names the rank that NCCL's lines give the process whose number a launcher writes before an error.
    pub(super) fn name_rank_of_process(&self, findings: &mut [SignatureFinding]) {
        for finding in findings {
            let pid = PID.captures_iter(finding.sample.as_bytes()).last();
            let Some(pid) = pid.map(|found| found["pid"].to_vec()) else {
                continue;
            };
            if finding.meaning.to_ascii_lowercase().contains("rank ") {
                continue;
            }
            let speakers = self.tally.speakers.iter().zip(0_u32..);
            let is_it = |one: &Speaker| matches!(one, Speaker::Process { pid: Some(of), .. } if of.to_string().as_bytes() == pid);
            let of: Vec<u32> = speakers
                .filter(|(one, _)| is_it(one))
                .map(|(_, at)| at)
                .collect();
            if let [speaker] = of[..]
                && let Some(rank) = self.rank_of(speaker)
            {
                finding.meaning = format!("{}; it is of rank {rank}", finding.meaning);
            }
        }
    }

    /// The lines of a finding's signature whose first is the finding's.
    pub(super) fn seen_of(&self, finding: &SignatureFinding) -> Option<&SeenLines> {
        if finding.signature == UNKNOWN_WARNING {
            return None;
        }
        let is_first = |seen: &&SeenLines| {
            let place = self.place(seen.first, None);
            (&place.file, place.line) == (&finding.first.file, finding.first.line)
        };
        let of = self.lines_of(&finding.signature);
        of.map(|(_, seen)| seen).find(is_first)
    }

    /// The lines of a signature, by process.
    pub(super) fn lines_of(&self, name: &str) -> impl Iterator<Item = (u32, &SeenLines)> {
        let mut signatures = self.catalogue.signatures.iter().zip(0_u32..);
        let number = signatures.find(|(one, _)| one.name == name);
        let number = number.map(|(_, number)| number);
        let seen = self.tally.seen.iter();
        let seen = seen.filter(move |((one, _), _)| Some(*one) == number);
        seen.map(|((_, speaker), lines)| (*speaker, lines))
    }
}

/// What Open MPI writes of the address at which a process failed.
static FAULT: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\[[\w.-]+:\d+\] Failing at address: (?:0x[0-9a-f]+|\(nil\))$"));

/// Whether a line has nothing but addresses of memory of a GPU, or the one at which a process failed.
pub(super) fn tells_address(line: &[u8]) -> bool {
    lists_memory(line) || FAULT.is_match(line)
}

/// Whether a line lists addresses of memory, of a GPU among them.
fn lists_memory(line: &[u8]) -> bool {
    let is_gpu = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    (is_gpu(b"device") || is_gpu(b"gpu") || is_gpu(b"GPU") || is_gpu(b"cuda"))
        && OF_GPU.is_match(line)
}

/// Says that a task ended first, and names those of the next lines.
fn tell_of_next_tasks(finding: &mut SignatureFinding, seen: &SeenLines) {
    if finding.signature != TASK || finding.count < 2 {
        return;
    }
    let what = |line: &[u8]| Some(shown(&TASK_LINE.captures(line)?["what"]));
    let Some(first) = what(&seen.sample) else {
        return;
    };
    let mut next: Vec<String> = seen.near_lines().filter_map(|line| what(line)).collect();
    next.retain(|one| *one != first);
    next.dedup();
    next.truncate(TASKS_MAX);
    let Some(rest) = finding.meaning.strip_prefix(ENDED) else {
        return;
    };
    if !next.is_empty() {
        let facts = rest.strip_prefix(first.as_str()).unwrap_or_default();
        let told = ENDED_FIRST.replace("{word}", &first);
        finding.meaning = format!("{}{facts}", told.replace("{rest}", &next.join(" and ")));
    }
}

/// What C++ libraries of PyTorch write above the stack of an exception.
const THROWN: &[u8] = b"xception raised from ";
const IS_THROWN: &str = "an exception that nothing caught was ending the process, as a line beside the crash shows: the first error of this process says why";

/// Says that an exception was ending the process as it crashed.
fn tell_of_exception(finding: &mut SignatureFinding, seen: &SeenLines) {
    let mut lines = seen.near_lines();
    if crate::seen::crashes(&seen.sample)
        && lines.any(|line| memchr::memmem::find(line, THROWN).is_some())
    {
        finding.causes.insert(0, IS_THROWN.to_owned());
    }
}

/// Says that the address at which a process crashed is of a GPU's memory, where a line before it lists it as that.
fn tell_of_address(finding: &mut SignatureFinding, seen: &SeenLines) {
    if !crate::seen::crashes(&seen.sample) {
        return;
    }
    let lines = || seen.near_lines().chain([&seen.sample]);
    let address = lines().find_map(|line| Some(shown(&FAILED_AT.captures(line)?["address"])));
    let Some(address) = address else {
        return;
    };
    let lists = |line: &&Vec<u8>| {
        lists_memory(line)
            && !FAILED_AT.is_match(line)
            && memchr::memmem::find(line, address.as_bytes()).is_some()
    };
    let Some(listed) = lines().find(lists) else {
        return;
    };
    let rank = OF_RANK.captures(listed).map(|found| shown(&found["rank"]));
    let told = match rank {
        Some(rank) => ADDRESS_OF_RANK.replace("{rank}", &rank),
        None => ADDRESS_OF_GPU.to_owned(),
    };
    let told = told.replace("{word}", &address);
    finding.meaning = format!("{}; {told}", finding.meaning);
    if lines().any(|line| TAKES_POINTER.is_match(line)) {
        finding.causes.insert(0, NOT_GPU_AWARE.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use tcpx_run_model::chinese::chinese;

    #[test]
    fn what_is_added_to_a_sentence_has_chinese() {
        for text in [
            "a task of Slurm ended first: node-a: task 0: Exited with exit code 1, then node-b: task 1: Exited with exit code 134",
            "waited for 1800 s",
            "no GID of the NIC is as NCCL_IB_ADDR_RANGE, NCCL_IB_ADDR_FAMILY ask for, or the peer is not reached from the one that they choose: NCCL's InfiniBand failed as it set up a connection",
            super::LOOK_AT_GID,
            "PyTorch gave up on ALLREDUCE, which did not end",
            "PyTorch gave up on a collective whose name is torn off its line, which did not end",
            super::IS_THROWN,
            "rank 0 is not among those that report it",
            "ranks 0, 3 are not among those that report it",
            "the address 0x14fcb0400000 at which it failed is in a line before that lists buffers of a GPU",
            "the address 0x14fcb0400000 at which it failed is in a line before that lists buffers of a GPU, those of rank 0",
        ] {
            assert!(chinese(text).is_some(), "add to chinese-logs.toml: {text}");
        }
    }
}
