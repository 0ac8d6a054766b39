//! What the first finding takes from findings and lines right beside it: an expert reads them together.
#![forbid(unsafe_code)]

use super::headline;
use crate::report::{LogReport, SignatureFinding, StatedLine, UNKNOWN_WARNING, UnknownWarning};
use crate::signature::{Role, Severity, Signature};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// PyTorch's exception on a call of NCCL.
const NCCL_ERROR: &str = "nccl-error-text";
/// Most lines between an exception and the line of the first finding below it.
const LAST_ERROR_LINES: u64 = 5;
/// Whose the exception is, and its places, in its sentence.
const OF_EXCEPTION: [&str; 4] = [
    "it is of process ",
    "raised at ",
    "the program's own code calls it at ",
    "it was called from ",
];

/// The first finding, and the exception right above its line for which `is_it` holds.
fn with_exception_above(
    findings: &mut [SignatureFinding],
    is_it: impl Fn(&SignatureFinding, &SignatureFinding) -> bool,
) -> Option<(&mut SignatureFinding, &SignatureFinding)> {
    let (first, others) = findings.split_first_mut()?;
    let is_above = |one: &&SignatureFinding| {
        let behind = first.first.line.saturating_sub(one.first.line);
        is_it(first, one)
            && one.first.file == first.first.file
            && (1..=LAST_ERROR_LINES).contains(&behind)
    };
    let exception = others.iter().find(is_above)?;
    Some((first, exception))
}

/// An exception on a call of NCCL that quotes the first finding's warning follows it.
pub(super) fn follow_quoted(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let message = first.sample.split_once("NCCL WARN ");
    let Some(message) = message
        .map(|(_, message)| message.trim())
        .filter(|one| !one.is_empty())
    else {
        return;
    };
    let quotes = |one: &&mut SignatureFinding| {
        one.signature == NCCL_ERROR
            && one.first.file == first.first.file
            && one.first.line > first.first.line
            && one.meaning.contains(message)
    };
    others
        .iter_mut()
        .filter(quotes)
        .for_each(|one| one.role = Role::Consequence);
}

/// Tells the places of an exception on a call of NCCL where the error that PyTorch quotes below it is the first
/// finding.
pub(super) fn tell_of_last_error(findings: &mut [SignatureFinding]) {
    let Some((first, exception)) =
        with_exception_above(findings, |_, one| one.signature == NCCL_ERROR)
    else {
        return;
    };
    let parts = exception.meaning.split("; ");
    for part in parts.filter(|part| OF_EXCEPTION.iter().any(|of| part.starts_with(of))) {
        if !first.meaning.contains(part) {
            first.meaning = format!("{}; {part}", first.meaning);
        }
    }
}

/// Most lines and microseconds between the lines of one event, and the latter where a time has whole seconds.
const EVENT_LINES: u64 = 12;
const EVENT_US: i64 = 100_000;
const EVENT_SECOND_US: i64 = 1_000_000;
/// What MPICH reports of a call that failed below it.
const OF_MPICH: &str = "mpich-rank-error";

/// Errors without a signature that a process, or a file in the same moment, logs beside the first finding, which has
/// none either, are other lines of the same failure: each layer of a library tells of it. So is what another signature
/// makes of the same line.
pub(super) fn join_event(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let is_quoted = first.signature == UNKNOWN_WARNING && first.severity < Severity::Warning;
    let tells_why = crate::reasons::tells_why(&first.sample);
    let at = |one: &SignatureFinding| one.first.at.clone();
    let is_file = |one: &SignatureFinding| one.processes.contains(&one.first.file);
    for one in others.iter_mut().filter(|one| one.role == Role::General) {
        let is_near = one.first.file == first.first.file
            && one.first.line.abs_diff(first.first.line) <= EVENT_LINES;
        let is_same = match (at(one), at(first)) {
            (Some(one), Some(first)) => is_same_moment(&one, &first),
            _ => !is_file(one) && one.processes == first.processes,
        };
        let is_error = one.signature == UNKNOWN_WARNING && !crate::stated::is_warning(&one.sample);
        let is_above = one.signature == OF_MPICH && tells_why && one.first.line > first.first.line;
        if is_quoted && is_near && (is_error && is_same || is_above) || one.first == first.first {
            one.role = Role::Consequence;
        }
    }
    others.sort_by_key(|one| one.role == Role::Consequence);
}

/// Whether two times may be of one event.
fn is_same_moment(one: &str, other: &str) -> bool {
    let most = match one.contains('.') && other.contains('.') {
        true => EVENT_US,
        false => EVENT_SECOND_US,
    };
    let times = crate::time::typed(one).zip(crate::time::typed(other));
    times.is_some_and(|(one, other)| (one - other).abs() <= most)
}

/// Gives a crash, or another failure whose line tells no cause, the harmless lines before it that may be its lead as its
/// first causes. They are not harmless then.
pub(super) fn tell_of_leads(report: &mut LogReport, signatures: &[Signature]) {
    let Some(failure) = report.findings.first_mut() else {
        return;
    };
    let is_crash = failure.severity == Severity::Fatal;
    let may_lead =
        |one: &Signature| one.lead && is_crash || one.leads_to.contains(&failure.signature);
    let of_failure = &failure.first;
    let leads = report.benign.extract_if(.., |one| {
        let is_before = one.first.file == of_failure.file && one.first.line < of_failure.line;
        is_before && Signature::named(signatures, &one.signature).is_some_and(may_lead)
    });
    let leads: Vec<SignatureFinding> = leads.collect();
    let causes = leads.iter().map(|one| one.meaning.clone());
    failure.causes.splice(..0, causes);
    report.seen.extend(leads);
}

/// How the lines of one message begin: up to the place in the source that a logger of Python writes, or up to the part of
/// Slurm's PMIx that dumps its state.
static MESSAGE_HEAD: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(
        r"^.{0,120}?\[[\w.]+\.py:\d+\] |^\W{0,8}\w+: error: +mpi/pmix\w*: pmixp_coll",
    )
});
/// Most lines of a message.
const MESSAGE_LINES: u64 = 64;

/// What no signature explains is of the failure of the first finding where it is in the same message.
pub(super) fn follow_message(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let head = |one: &SignatureFinding| {
        let found = MESSAGE_HEAD.find(one.sample.as_bytes());
        found.map(|head| head.as_bytes().to_vec())
    };
    let Some(of_first) = head(first).filter(|_| first.signature != UNKNOWN_WARNING) else {
        return;
    };
    for other in others {
        let is_near = other.first.file == first.first.file
            && other.first.line.abs_diff(first.first.line) <= MESSAGE_LINES;
        if other.signature == UNKNOWN_WARNING && is_near && head(other).as_ref() == Some(&of_first)
        {
            other.role = Role::Consequence;
        }
    }
}

/// Any exception of Python.
const EXCEPTION: &str = "python-exception";

/// Quotes in the first finding, which a library's lines below an exception tell, the exception: it has the call and the
/// number of the error.
pub(super) fn tell_of_exception(findings: &mut [SignatureFinding]) {
    let is_it = |first: &SignatureFinding, one: &SignatureFinding| {
        one.signature == EXCEPTION && one.processes == first.processes
    };
    let Some((first, exception)) = with_exception_above(findings, is_it) else {
        return;
    };
    let text = headline(&exception.sample);
    if text.contains("error code") && !first.meaning.contains(&text) {
        let said = crate::reasons::BESIDE.replace("{word}", &text);
        first.meaning = format!("{}; {said}", first.meaning);
    }
}

/// Codes of libraries that programs pass on, and most lines between an error and the code that it led to.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(r"\b(?:NIXL|UCS|MPI|CUDA|HCCL|ACL|FI)_(?:ERR|ERROR)_[A-Z_]+\b")
});
const CODE_LINES: u64 = 64;
const LED_TO: &str = "it led to {word}";

/// Names the code with which a library passed the first finding on.
pub(super) fn tell_of_codes(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let is_behind = |one: &&SignatureFinding| {
        one.role == Role::Consequence
            && one.first.file == first.first.file
            && (1..=CODE_LINES).contains(&one.first.line.saturating_sub(first.first.line))
    };
    let mut behind = others.iter().filter(is_behind);
    let code = behind.find_map(|one| CODE.find(one.sample.as_bytes()));
    let code = code.map(|code| super::shown(code.as_bytes()));
    if let Some(code) = code.filter(|code| !first.meaning.contains(code)) {
        first.meaning = format!("{}; {}", first.meaning, LED_TO.replace("{word}", &code));
    }
}

/// A rank that sleeps, and the timeouts of what the others wait for then.
const SLEEPS: &str = "rank-sleeps";
static TIMEOUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\bTimeout\(ms\)=(?P<milliseconds>\d{1,12})\b").expect("a sound regex")
});
const TIMEOUT_IS: &str = "the timeout of the collective is {word} s";

/// Names the timeout of the collective for which a rank that sleeps comes late.
pub(super) fn tell_of_timeout(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    if first.signature != SLEEPS {
        return;
    }
    let found = others
        .iter()
        .find_map(|one| TIMEOUT.captures(one.sample.as_bytes()));
    let milliseconds = found.and_then(|found| {
        let digits = std::str::from_utf8(found.name("milliseconds")?.as_bytes());
        digits.ok()?.parse::<u64>().ok()
    });
    if let Some(milliseconds) = milliseconds {
        let seconds = (milliseconds / 1000).to_string();
        first.meaning = format!(
            "{}; {}",
            first.meaning,
            TIMEOUT_IS.replace("{word}", &seconds)
        );
    }
}

/// NCCL's calls on its network and sockets, and its warning on the call of its proxy that failed.
const CALLS: [&str; 2] = ["nccl-net-propagated", "socket-propagated"];
const PROXY_CALLS: [&str; 2] = ["nccl-proxy-call-failed", super::ranking::PROXY];

/// Quotes the warning on NCCL's proxy beside calls of the network, which names what was called for which rank.
pub(super) fn tell_of_proxy_call(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let is_beside = |one: &&SignatureFinding| {
        PROXY_CALLS.contains(&one.signature.as_str())
            && one.first.file == first.first.file
            && one.first.line.abs_diff(first.first.line) <= NEIGHBOR_LINES
            && one
                .processes
                .iter()
                .any(|name| first.processes.contains(name))
    };
    if !CALLS.contains(&first.signature.as_str()) {
        return;
    }
    if let Some(call) = others.iter().find(is_beside) {
        let text = crate::reasons::BESIDE.replace("{word}", &headline(&call.sample));
        first.meaning = format!("{}; {text}", first.meaning);
    }
}

/// What Open MPI says of the part of it that gave up.
const GAVE_UP: &str = "ompi-part-aborts";
const ENDED_FOR_IT: &str = "{word} ended the MPI job for it";

/// Names the part of MPI that ended the job where another line beside it tells why.
pub(super) fn tell_of_part(findings: &mut [SignatureFinding]) {
    let Some((first, others)) = findings.split_first_mut() else {
        return;
    };
    let is_beside = |one: &&mut SignatureFinding| {
        one.signature == GAVE_UP
            && one.first.file == first.first.file
            && one.first.line.abs_diff(first.first.line) <= NEIGHBOR_LINES
    };
    if let Some(part) = others.iter_mut().find(is_beside) {
        let what = part.meaning.split(" ended ").next().unwrap_or_default();
        let told = ENDED_FOR_IT.replace("{word}", what);
        first.meaning = format!("{}; {told}", first.meaning);
        part.role = Role::Consequence;
    }
}

/// Lines between the first finding and an error that its sentence quotes.
const NEIGHBOR_LINES: u64 = 12;
/// A line of libfabric about a call that failed.
static OF_LIBRARY: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"^libfabric:\d+:.*<warn> .*-\d+$"));
/// Shortest text of an error that is quoted beside another one.
const NEIGHBOR_MIN: usize = 20;

/// Quotes in the first finding, if it only passes on what a program says, the nearest error beside it that no signature
/// explains and that names something: an expert reads such lines together.
pub(super) fn tell_of_neighbors(report: &mut LogReport) {
    let Some(first) = report.findings.first() else {
        return;
    };
    if first.role != Role::General {
        return;
    }
    let is_beside = |one: &&UnknownWarning| {
        let text = headline(&one.sample);
        one.first.file == first.first.file
            && one.first.line != first.first.line
            && one.first.line.abs_diff(first.first.line) <= NEIGHBOR_LINES
            && !one.is_harmless()
            && text.len() >= NEIGHBOR_MIN
            && !first.meaning.contains(&text)
            && text.bytes().any(|byte| byte.is_ascii_digit())
            && !text.ends_with(':')
            && crate::reasons::tells_error(&text)
    };
    let beside = report.unknown.iter().filter(is_beside);
    let nearest = beside.min_by_key(|one| one.first.line.abs_diff(first.first.line));
    let is_stated_before = |one: &&StatedLine| {
        let behind = first.first.line.saturating_sub(one.place.line);
        one.place.file == first.first.file
            && (1..=NEIGHBOR_LINES).contains(&behind)
            && !first.meaning.contains(&headline(&one.sample))
            && OF_LIBRARY.is_match(one.sample.as_bytes())
    };
    let stated = || report.stated.iter().rev().find(is_stated_before);
    let text = nearest.map(|one| &one.sample);
    let text = text.or_else(|| Some(&stated()?.sample));
    let text = text.map(|text| headline(text));
    if let Some((first, text)) = report.findings.first_mut().zip(text) {
        let text = crate::reasons::BESIDE.replace("{word}", &text);
        first.meaning = format!("{}; {text}", first.meaning);
    }
}
