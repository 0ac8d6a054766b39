//! What the words of an error mean, whatever the program is that writes them.
//!
//! A line that no signature explains mostly has words of the system, such as `Connection refused`, or
//! words that all programs use alike, such as `heartbeat` or `must be divisible by`. They tell what to
//! look at. The system's words also tell more than a signature of lines that name no cause.
#![forbid(unsafe_code)]

mod codes;
mod cuda;
mod exact;
mod frames;
mod nccl;
mod needed;
mod numbers;
mod own_words;
mod programs;
mod signals;
mod system;
mod vague;

pub(super) use codes::words_of_system;
pub(super) use exact::NO_KERNEL;
pub(super) use frames::explain_traceback;
pub(super) use own_words::{BESIDE, NO_MORE, tell_of_beside, tell_own_words, tells_error};

use crate::report::{STATED_ERROR, SignatureFinding, StatedLine, UNKNOWN_WARNING, WAITS_AT_END};
use crate::signature::{Role, Signature};
use cuda::OF_CUDA;
use nccl::{OF_NCCL, OF_RDMA, OF_RESULTS, OF_USE};
use needed::Regexes;
use programs::{BROAD, OF_PROGRAMS};
use regex::bytes::Regex;
use signals::OF_ENDS;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;
use system::OF_SYSTEM;
use vague::VAGUE;

/// An error and what it means.
struct Reason {
    /// Its words, as a regex or, in `exact`, as plain text; case does not decide.
    words: &'static str,
    cause: &'static str,
    next: &'static str,
}

/// Bytes of the cache of the search for a reason's words.
const CACHE_MAX: usize = 64 << 10;

/// For each of [`all`], its words. One search for all of them would need an automaton with more states than
/// any cache holds, because most say that two words are near each other.
static WORDS: LazyLock<Regexes> = LazyLock::new(|| {
    Regexes::new(all().map(|(reason, kind)| match kind {
        // NCCL before 2.3 writes `WARN` alone.
        Kind::Source => format!("(?-i){}\\d+ (?:(?:NCCL )?WARN |-> [1-9]\\b)", reason.words),
        Kind::Use => format!("(?-i){}\\d+ (?:NCCL )?WARN ", reason.words),
        _ => reason.words.to_owned(),
    }))
});

/// All reasons whose words are a regex, in the order in which they count. Exact wordings are before them.
fn all() -> impl Iterator<Item = (&'static Reason, Kind)> {
    fn of(reasons: &'static [Reason], kind: Kind) -> impl Iterator<Item = (&'static Reason, Kind)> {
        reasons.iter().map(move |reason| (reason, kind))
    }
    of(OF_RDMA, Kind::Rdma)
        .chain(of(OF_ENDS, Kind::Ended))
        .chain(of(OF_SYSTEM, Kind::System))
        .chain(of(OF_CUDA, Kind::Cuda))
        .chain(of(OF_NCCL, Kind::Source))
        .chain(of(OF_USE, Kind::Use))
        .chain(of(OF_RESULTS, Kind::Result))
        .chain(of(OF_PROGRAMS, Kind::Other))
        .chain(of(BROAD, Kind::Broad))
        .chain(of(VAGUE, Kind::Vague))
}

/// Gives findings on lines that no signature explains the causes of the words in them. Where a
/// signature names no cause, those of the system's words are before its own.
pub(super) fn explain(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    for finding in findings {
        explain_one(finding, signatures);
        signals::explain_stack(finding);
        leave_to_nvshmem(finding);
        if HIPIFIED.iter().any(|word| finding.sample.contains(word)) {
            finding.meaning = finding
                .meaning
                .replace("the CUDA runtime", "the HIP runtime");
            let next = finding.next_step.as_mut();
            if let Some(next) = next.filter(|next| next.contains(CUDA_PEERS)) {
                *next = next.replace(CUDA_PEERS, HIP_PEERS);
            }
        }
    }
}

/// How to look at the peer access of GPUs of NVIDIA and of AMD.
const CUDA_PEERS: &str = "`nvidia-smi topo -p2p r` in the container";
const HIP_PEERS: &str = "`rocm-smi --showtopo` in the container";
/// The folders of RCCL's sources, which are NCCL's in words of HIP and mostly still say `Cuda failure`, and what else
/// they say.
const HIPIFIED: [&str; 3] = ["/hipify/", "/rccl/", "HIP failure"];

fn explain_one(finding: &mut SignatureFinding, signatures: &[Signature]) {
    let name = finding.signature.as_str();
    let signature = Signature::named(signatures, name);
    let only_quotes = only_quotes(name, signature);
    let is_unexplained = only_quotes || signature.is_some_and(|one| one.fallback);
    let has_below = signature.is_some_and(|one| one.below.is_some());
    let names_no_cause = has_below || signature.is_some_and(|one| one.role != Role::Cause);
    // The message of an error whose line ends with a colon goes on below.
    let goes_on = only_quotes && finding.sample.trim_end().ends_with(':');
    let below = finding.after.as_deref();
    let below = below.filter(|_| has_below || goes_on);
    let of_below = match below.filter(|_| has_below) {
        // What ended a process stands in the meaning, which the signature takes of such a text: lines of other
        // programs may follow it.
        Some(text) => match of(text) {
            Some((_, Kind::Ended)) => of(&finding.meaning),
            // Numbers of a process's memory are of the process that wrote them.
            Some((reason, _)) if reason.cause.contains("{mine}") => of(&finding.meaning),
            told => told,
        },
        None => below.and_then(of),
    };
    // A wording may begin in the line and end below it.
    let mut of_line = of(&finding.sample);
    if let (Some((_, Kind::Exact)), Some(below)) = (of_line, below.filter(|_| has_below)) {
        of_line = of(&format!("{} {below}", finding.sample)).or(of_line);
    }
    // A wording that names one failure is before the error below it.
    let told_below = of_below.filter(|(_, kind)| !matches!(kind, Kind::Vague));
    let told_below = told_below.filter(|_| !matches!(of_line, Some((_, Kind::Exact))));
    let source = below.filter(|_| told_below.is_some());
    let source = source.unwrap_or(&finding.sample);
    let Some((reason, kind)) = told_below.or(of_line) else {
        return;
    };
    if matches!(kind, Kind::Vague) && !only_quotes {
        return;
    }
    let cause = numbers::fill(reason.cause, source.as_bytes());
    let next = numbers::fill(reason.next, source.as_bytes());
    let is_first = finding.role == Role::General;
    if is_unexplained {
        finding.causes = vec![cause];
        finding.next_step = Some(next);
        return;
    }
    if matches!(kind, Kind::Exact) {
        if finding.causes.first() != Some(&cause) {
            // A cause of a signature may be the same behind its codes.
            finding.causes.retain(|one| !one.ends_with(&cause));
            finding.causes.insert(0, cause);
            finding.next_step = Some(next);
        }
        if reason.cause.contains("{mine}") {
            finding.causes.retain(|one| !one.starts_with(HELD));
        }
        if reason.cause.ends_with(NO_NETWORK) {
            finding.causes.retain(|cause| !cause.contains("firewall"));
        }
        return;
    }
    // A signature that quotes a program's error knows less than the words of the error.
    let has = |place: &str| signature.is_some_and(|one| one.meaning.contains(place));
    let quotes = has("{error}") || has("{event}");
    let is_told_by_words = match kind {
        Kind::Rdma => names_no_cause || quotes,
        Kind::Ended | Kind::System | Kind::Cuda => names_no_cause,
        Kind::Result => names_no_cause && is_first,
        Kind::Other | Kind::Broad => names_no_cause && is_first && quotes,
        Kind::Source | Kind::Use | Kind::Vague | Kind::Exact => false,
    };
    if is_told_by_words {
        // A cause of a signature may be the beginning of the same.
        finding
            .causes
            .retain(|one| !cause.starts_with(one.as_str()));
        finding.causes.insert(0, cause);
        if matches!(kind, Kind::Ended) && below.is_none() {
            finding.next_step = Some(next);
        }
    }
}

/// The cause of lines that do not tell who holds a GPU's memory.
const HELD: &str = "the program, or another process, holds";
/// The end of the cause of lines about an address of the node itself.
const NO_NETWORK: &str = "no network is between";

/// Sources of NVSHMEM, whose bootstrap is a copy of NCCL's and reads other variables.
const OF_NVSHMEM: [&str; 5] = [
    "NVSHMEM ",
    "nvshmem",
    "/transport/ibrc/",
    "/transport/ibgda/",
    "/bootstrap/uid/",
];
const ADVICE_OF_NVSHMEM: &str = "read the first line of this kind; NVSHMEM_DEBUG=INFO shows more";

/// Takes NCCL's variables and advice out of a finding on a line that a source of NVSHMEM logged.
fn leave_to_nvshmem(finding: &mut SignatureFinding) {
    let is_of = OF_NVSHMEM.iter().any(|of| finding.sample.contains(of));
    let has_source = [".cpp:", ".cu:", ".h:"]
        .iter()
        .any(|of| finding.sample.contains(of));
    if !is_of || !has_source || finding.sample.contains("NCCL ") {
        return;
    }
    finding.causes.retain(|cause| !cause.contains("NCCL"));
    if finding
        .next_step
        .as_ref()
        .is_some_and(|next| next.contains("NCCL") && !next.contains("NVSHMEM_"))
    {
        finding.next_step = Some(ADVICE_OF_NVSHMEM.to_owned());
    }
}

/// Gives findings on logs that end in a wait the causes that the system told in their lines, or in lines near them
/// that state an error.
pub(super) fn explain_waits(findings: &mut [SignatureFinding], stated: &[StatedLine]) {
    let system = |line: &str| {
        let (reason, kind) = of(line)?;
        matches!(kind, Kind::System | Kind::Rdma | Kind::Exact).then_some(reason)
    };
    for finding in findings
        .iter_mut()
        .filter(|one| one.signature == WAITS_AT_END)
    {
        let place = &finding.first;
        let is_near = |one: &&StatedLine| {
            one.place.file == place.file && one.place.line.abs_diff(place.line) <= WAIT_LINES
        };
        let near = stated.iter().filter(is_near).map(|one| one.sample.as_str());
        let told = [finding.sample.as_str()]
            .into_iter()
            .chain(near)
            .find_map(system);
        let Some(reason) = told else { continue };
        let cause = numbers::fill(reason.cause, finding.sample.as_bytes());
        if !finding.causes.contains(&cause) {
            finding.causes.insert(0, cause);
            finding.next_step = Some(numbers::fill(reason.next, finding.sample.as_bytes()));
        }
    }
}

/// Lines around a wait in which an error tells why.
const WAIT_LINES: u64 = 10;

/// Whose words they are.
#[derive(Clone, Copy)]
enum Kind {
    /// A wording that names one failure.
    Exact,
    Rdma,
    /// What ended a process.
    Ended,
    System,
    Cuda,
    /// A source file of NCCL, in a warning or in a call that failed.
    Source,
    /// A source file of NCCL that checks calls, in a warning.
    Use,
    /// A result of NCCL.
    Result,
    Other,
    /// They tell of what kind an error is.
    Broad,
    /// They tell what kind of call failed, and not why.
    Vague,
}

/// Where a text goes on with what may have happened, or with advice.
static SUPPOSES: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"\. (?:There are some potential|Some (?:common|possible|potential|likely) |This (?:may|might|could|can|usually|error may)|It (?:may|might|could)|Possible (?:causes|reasons)|(?:To|For) (?:debug|troubleshoot|more)|Please )";
    Regex::new(words).expect("a sound regex")
});

type Found = Option<(&'static Reason, Kind)>;

/// Most lines whose reasons a thread remembers.
const REMEMBERED_MAX: usize = 1024;

thread_local! {
    /// Each step of a report's composition asks about the same lines. Samples are short (`seen`).
    static REMEMBERED: RefCell<HashMap<Box<str>, Found>> = RefCell::default();
}

/// The reason in what a line states, and whose words tell it.
fn of(line: &str) -> Found {
    REMEMBERED.with_borrow_mut(|remembered| {
        if let Some(found) = remembered.get(line) {
            return *found;
        }
        let found = found_in(line);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(line.into(), found);
        found
    })
}

fn found_in(line: &str) -> Found {
    let stated = match SUPPOSES.find(line.as_bytes()) {
        Some(supposed) => &line.as_bytes()[..supposed.start()],
        None => line.as_bytes(),
    };
    let found = reason_in(stated).filter(|(_, kind)| !matches!(kind, Kind::Vague));
    // What a library writes in front of its lines is no word of theirs.
    let found = found.or_else(|| vague_in(message(stated)));
    match &found {
        // The number of an error tells more than words that programs use alike.
        None | Some((_, Kind::Other | Kind::Broad | Kind::Vague)) => codes::words(stated)
            .and_then(|words| reason_in(words.as_bytes()))
            .or(found),
        Some(_) => found,
    }
}

/// The message of a line of NCCL or of libfabric; other lines whole.
fn message(line: &[u8]) -> &[u8] {
    let behind = |marker: &[u8]| {
        let at = memchr::memmem::rfind(line, marker)?;
        Some(&line[at + marker.len()..])
    };
    let of_libfabric =
        || behind(b"<warn> ").filter(|_| memchr::memmem::find(line, b"libfabric:").is_some());
    behind(b"NCCL WARN ").or_else(of_libfabric).unwrap_or(line)
}

/// The reason in the words of a text that tell only what kind of call failed.
fn vague_in(text: &[u8]) -> Option<(&'static Reason, Kind)> {
    let first = all().position(|(_, kind)| matches!(kind, Kind::Vague))?;
    let number = WORDS.first_in(text, first)?;
    all().nth(number)
}

/// Whether a line only says that another process was lost, or that NCCL failed: what is logged before tells more.
pub(super) fn is_loss(line: &str) -> bool {
    const OF_LOSS: [&str; 5] = [
        "the program at the other end of the connection",
        "nothing listens at the address",
        "another rank ended first",
        "the queue pair was closed",
        "a request was canceled",
    ];
    of(line).is_some_and(|(reason, kind)| {
        matches!(kind, Kind::Result) || OF_LOSS.iter().any(|loss| reason.cause.starts_with(loss))
    })
}

/// Whether a line tells of a request of a NIC that failed, or of a lost connection.
pub(super) fn is_of_network(line: &str) -> bool {
    is_loss(line)
        || line.contains("ompletion with error")
        || of(line).is_some_and(|(_, kind)| matches!(kind, Kind::Rdma))
}

/// The reason in the words of a text.
fn reason_in(text: &[u8]) -> Option<(&'static Reason, Kind)> {
    if let Some(reason) = numbers::of(text).or_else(|| exact::of(text)) {
        return Some((reason, Kind::Exact));
    }
    let number = WORDS.first_in(text, 0)?;
    all().nth(number)
}

/// Whether a finding only quotes what a program says: `signature` is none, or that of any exception.
fn only_quotes(name: &str, signature: Option<&Signature>) -> bool {
    matches!(name, UNKNOWN_WARNING | STATED_ERROR) || signature.is_some_and(quotes)
}

/// Whether a signature is that of any exception, which it quotes.
pub(super) fn quotes(signature: &Signature) -> bool {
    signature.fallback && signature.role == Role::General && signature.meaning.contains("{error}")
}

/// How much the line of a finding tells, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Telling {
    /// That something failed.
    Failure,
    /// That NCCL failed, and with which of its results.
    Result,
    /// What a signature knows of such lines.
    Signature,
    /// Why, in its own words.
    Why,
}

/// How much a finding tells.
pub(super) fn telling(finding: &SignatureFinding, signatures: &[Signature]) -> Telling {
    let name = finding.signature.as_str();
    let signature = Signature::named(signatures, name);
    match of(&finding.sample) {
        _ if signature.is_some_and(|one| one.passes_on) => Telling::Result,
        Some((_, Kind::Result)) if finding.role == Role::General => Telling::Result,
        Some((_, kind)) if !matches!(kind, Kind::Vague) => Telling::Why,
        _ if only_quotes(name, signature) => Telling::Failure,
        _ => Telling::Signature,
    }
}

/// The next step where NCCL logs enough.
pub(super) const READ_WARNINGS: &str = "read the first `NCCL WARN` of each rank's log, and the lines with `->` of the same process: they name the call";

/// The same where NCCL writes its lines into files of their own.
pub(super) const READ_FILES: &str = "read the first `NCCL WARN` of the files that NCCL_DEBUG_FILE names, on every host: it names the reason";

/// The cause of the one failure that the wording of a line names.
pub(super) fn exact_cause(line: &str) -> Option<&'static str> {
    let (reason, kind) = of(line)?;
    matches!(kind, Kind::Exact).then_some(reason.cause)
}

/// Whether the words of a line tell why something failed.
pub(super) fn tells_why(line: &str) -> bool {
    of(line).is_some_and(|(_, kind)| !matches!(kind, Kind::Vague))
}

/// Every cause and every next step.
#[cfg(test)]
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    let all = all()
        .map(|(one, _)| one)
        .chain(exact::all())
        .chain(numbers::all())
        .chain(frames::all());
    let all = all.flat_map(|one| [one.cause, one.next]);
    all.chain([
        READ_WARNINGS,
        READ_FILES,
        signals::HAS_STACK,
        signals::IN_CUDA,
        signals::IN_PSM2,
        signals::TRY_HOST_MEMORY,
        signals::IN_MPI,
        signals::TRY_OTHER_MPI,
        signals::PEER_GONE,
        signals::KEEP_PEERS,
        frames::OWN_CODE,
        own_words::OWN_WORDS,
        own_words::BESIDE,
        ADVICE_OF_NVSHMEM,
        crate::promises::NOT_HERE,
        crate::promises::IN_FIRST,
        crate::promises::IN_FILES,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFilter, LogReader, SignatureCatalogue};
    use tcpx_run_model::chinese::chinese;

    #[test]
    fn the_words_of_the_system_are_found_in_lines_of_any_program() {
        let check = |line: &str, part: Option<&str>| {
            let why = of(line).filter(|(_, kind)| !matches!(kind, Kind::Vague));
            let cause = why.map(|(reason, _)| reason.cause);
            let is_right = match part {
                Some(part) => cause.is_some_and(|cause| cause.contains(part)),
                None => cause.is_none(),
            };
            assert!(is_right, "{line}: {cause:?}");
        };
        check(
            "dial tcp 10.0.1.25:8080: connect: connection refused",
            Some("nothing listens"),
        );
        check(
            "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
            Some("no answer"),
        );
        check(
            "store->get('0') got error: Connection reset by peer",
            Some("other end"),
        );
        check(
            "dial tcp: lookup node-b on 10.0.0.2:53: no such host",
            Some("name of a host"),
        );
        check("/etc/start.sh: 11: /opt/kubectl: not found", Some("path"));
        check("OSError: [Errno 28] No space left on device", Some("full"));
        check(
            "[Errno 13] Permission denied: '/dev/infiniband/uverbs0'",
            Some("right"),
        );
        check("the page was not found in the cache", None);
        check("a step timed out after 30 s", Some("in time"));
        check(
            "nvidia-container-cli: initialization error: driver error: failed to process request: unknown.",
            Some("GPU driver"),
        );
        check(
            "command terminated with exit code 137",
            Some("out of memory"),
        );
        check("read body failed, error msg:End of file", Some("other end"));
        check(
            "shmat(shmid=1073709056) failed: Identifier removed",
            Some("shared memory"),
        );
        check("NameError: name 'modle' is not defined", Some("own code"));
        check(
            "This thread has been waiting for the clique and may be stuck",
            Some("in time"),
        );
        check("This node has been marked as dead", Some("heartbeats"));
        check(
            "the batch size must be divisible by the number of ranks",
            Some("must fit"),
        );
        check(
            "Failed to mount the segment due to rpc error",
            Some("not reached"),
        );
        check("AssertionError", Some("a check within"));
        check("KeyError: 'lm_head'", Some("looks up"));
        check(
            "NCCL WARN Cuda failure 1 'invalid argument'",
            Some("a call refused a value"),
        );
        check(
            "NET/IB : mlx5_0:1 Got async event : local catastrophic error",
            Some("firmware"),
        );
        check(
            "Process failed for slice (local_nic: mlx5_0): local protection error",
            Some("not registered"),
        );
        check(
            "10-shadow.sh: line 70: 71 Broken pipe             yes",
            None,
        );
        check(
            "RuntimeError: NCCL error in: a.hpp:82, invalid argument, NCCL version 2.4.8",
            Some("an argument that it refuses"),
        );
        check(
            "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
            Some("two ranks on one GPU"),
        );
        check("all ranks joined", None);
        check(
            "node-a:7:7 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the state'",
            Some("multicast"),
        );
        check(
            "node-a:7:7 [1] proxy.cc:1111 NCCL WARN [Service thread] Unknown command 7",
            Some("proxy thread"),
        );
        check(
            "node-a:7:7 [1] NCCL INFO transport/nvls.cc:409 -> 1",
            Some("multicast"),
        );
        check("node-a:7:7 [1] NCCL INFO group.cc:409 -> 1", None);
        check(
            "node-a:7:7 [0] transport/p2p.cu:526 WARN failed to open CUDA IPC handle : 11 invalid argument",
            Some("cannot access each other"),
        );
    }

    #[test]
    fn an_exception_with_such_words_is_told_by_them() {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        let text = "RuntimeError: store->get('0') got error: Connection reset by peer\n";
        reader.source("a", text.as_bytes(), text.as_bytes());
        let report = reader.report();
        let finding = &report.findings[0];
        assert_eq!(finding.signature, "python-exception");
        assert!(finding.causes[0].contains("other end"), "{finding:?}");
        let next = finding.next_step.as_deref().unwrap();
        assert!(next.contains("other end"), "{next}");
    }

    fn first_of(text: &str) -> (u64, Option<String>) {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.source("a", text.as_bytes(), text.as_bytes());
        let report = reader.report();
        let first = report.findings.first();
        let line = first.map_or(0, |one| one.first.line);
        (line, first.and_then(|one| one.causes.first().cloned()))
    }

    #[test]
    fn a_line_that_tells_why_is_before_one_next_to_it_that_does_not() {
        let check = |text: &str, line: u64, part: &str| {
            let (first, cause) = first_of(text);
            let is_right = cause.is_some_and(|cause| cause.contains(part));
            assert!(first == line && is_right, "{text}");
        };
        let error = "slurmd[53]: error: ";
        check(
            &format!(
                "{error}couldn't execute enroot command\n{error}mkdir: /data: Permission denied\n"
            ),
            2,
            "lacks a right",
        );
        check(
            "/bin/bash: line 1: /usr/sbin/sshd: No such file or directory\n[ERROR] Job a failed: no success:\n",
            1,
            "does not exist",
        );
        check(
            "Exception in thread KeepAlive_0:\nTraceback (most recent call last):\n  File \"a.py\"\nMemoryError: std::bad_alloc\n",
            4,
            "in the host's memory",
        );
        // Far away, the order of the file counts.
        let far = format!(
            "{error}it ended\n{}{error}b: Permission denied\n",
            "step\n".repeat(40)
        );
        assert_eq!(first_of(&far).0, 1);
    }

    #[test]
    fn what_a_text_supposes_is_no_reason() {
        let check = |line: &str, expected: bool| assert_eq!(tells_why(line), expected, "{line}");
        check(
            "the worker ended. There are some potential root causes. (1) SIGKILL by the OOM killer",
            false,
        );
        check(
            "the worker got SIGTERM. This may be due to a full disk",
            true,
        );
        check("failed to load the model", false);
    }

    #[test]
    fn the_library_in_front_of_a_line_is_no_word_of_it() {
        let cause = |line: &str| of(line).map_or("", |(reason, _)| reason.cause);
        let front = "libfabric:71:1795162444::core:core:hook_init():192<warn>";
        assert!(!cause(&format!("{front} the hook failed!")).contains("RDMA"));
        assert!(cause(&format!("{front} the NIC failed!")).contains("RDMA"));
    }

    #[test]
    fn words_of_kinds_of_calls_are_the_last_resort() {
        let check = |line: &str, part: &str| {
            let cause = of(line).map_or("", |(reason, _)| reason.cause);
            assert!(cause.contains(part), "{line}: {cause}");
        };
        check("EtcdKeyNotFound: Key not found : /store", "is not there");
        check("could not load the tokenizer", "could not be read");
        check("transfer of block 7 failed", "did not get to or from");
        check("Container failed !!!", "its own log has the reason");
        check("exits with return code = -15", "SIGTERM");
        check("killed by signal 11", "crashed in native code");
        check(
            "response code: 404 body: metadata not found",
            "asks a service for",
        );
        check(
            "Unable to allocate resources: Connection timed out",
            "Slurm",
        );
    }

    #[test]
    fn each_has_chinese() {
        let missing: Vec<&str> = texts().filter(|text| chinese(text).is_none()).collect();
        assert!(missing.is_empty(), "add to chinese-logs.toml: {missing:#?}");
    }
}
