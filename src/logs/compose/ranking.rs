//! Which finding is first: what failed, before what followed from it.
#![forbid(unsafe_code)]

use super::ENDING_LINES;
use crate::reasons::Telling;
use crate::report::{LinePlace, STATED_ERROR, SignatureFinding, UNKNOWN_WARNING};
use crate::signature::{Follows, Role, Severity, Signature};
use crate::time;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Most lines of a text that begins with a line that only opens it, such as `error: {`.
const TEXT_LINES: u64 = 64;

/// The same of a line right above a traceback, which logs a frame in several lines.
const TRACEBACK_LINES: u64 = 256;

/// Drops unknown lines that only open a text in which another finding is, or that quote the exception of a task with
/// which the text ends: that one tells more.
pub(super) fn drop_heads(findings: &mut Vec<SignatureFinding>) {
    let others = findings.iter();
    let others = others.filter(|one| one.signature != UNKNOWN_WARNING);
    let known: Vec<(LinePlace, String)> = others
        .map(|one| (one.first.clone(), one.sample.clone()))
        .collect();
    findings.retain(|one| {
        let opens = one.sample.ends_with(['{', '[', '(', ':']);
        let after = one.after.as_deref().unwrap_or_default();
        let has_traceback = after.contains("Traceback (most recent call last)");
        let quoted = quoted_exception(&one.sample);
        let is_within = |(other, sample): &(LinePlace, String)| {
            let behind = other.line.saturating_sub(one.first.line);
            let is_quoted = quoted.is_some_and(|quoted| sample.contains(quoted));
            let is_text = (opens || is_quoted) && (1..=TEXT_LINES).contains(&behind);
            let is_raised =
                has_traceback && is_exception(sample) && (1..=TRACEBACK_LINES).contains(&behind);
            // Of threads that write at once, the lines of a traceback are anywhere.
            let raises = ["Error: ", "Exception: "]
                .iter()
                .any(|word| sample.contains(word));
            let is_of_thread = raises && one.sample.contains(OF_THREAD);
            other.file == one.first.file && (is_text || is_raised || is_of_thread)
        };
        !(one.signature == UNKNOWN_WARNING && known.iter().any(is_within))
    });
}

/// What Python writes above the traceback of a thread.
const OF_THREAD: &str = "Exception in thread ";

/// Advice in a text of several lines, each of which has the level of the error that it is about.
static ADVICE: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(
        r"^(?:\d{1,2}\. [A-Z]|(?:Note|Hint|Tips?|Solutions?|[Rr]ecommended \w+): ?)",
    )
});

/// Drops unknown lines that only advise, if the log has another finding.
pub(super) fn drop_advice(findings: &mut Vec<SignatureFinding>) {
    let is_advice = |one: &SignatureFinding| {
        let text = super::headline(&one.sample);
        one.signature == UNKNOWN_WARNING && ADVICE.is_match(text.as_bytes())
    };
    if !findings.iter().all(is_advice) {
        findings.retain(|one| !is_advice(one));
    }
}

/// The exception that a line of Ray wraps: `TypeError` in `RayTaskError(TypeError): `.
pub(crate) fn quoted_exception(line: &str) -> Option<&str> {
    const WRAPS: [&str; 2] = ["RayTaskError(", "RemoteError("];
    let rest = WRAPS
        .iter()
        .find_map(|wrap| Some(line.split_once(wrap)?.1))?;
    let (name, _) = rest.split_once(')')?;
    (!name.is_empty()).then_some(name)
}

/// The time of a line, in an order that is that of its text: a fraction has no zeros at its end, and without the zone
/// the shorter of two is the earlier.
fn instant(place: &LinePlace) -> Option<&str> {
    Some(place.at.as_deref()?.trim_end_matches('Z'))
}

/// Whether a line is later than another, as far as their times or their file show it.
pub(super) fn is_later(one: &LinePlace, other: &LinePlace) -> bool {
    match (instant(one), instant(other)) {
        (Some(one), Some(other)) if one != other => one > other,
        _ => one.file == other.file && one.line > other.line,
    }
}

/// A failure without a reason that is logged after a named one follows it.
pub(super) fn follow(findings: &mut [SignatureFinding]) {
    let is_named =
        |one: &&SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
    let named = findings
        .iter()
        .filter(is_named)
        .map(|one| one.first.clone());
    let named: Vec<LinePlace> = named.collect();
    for finding in findings {
        let is_general = finding.role == Role::General && finding.signature != UNKNOWN_WARNING;
        if is_general && named.iter().any(|cause| is_later(&finding.first, cause)) {
            finding.role = Role::Consequence;
        }
    }
}

/// An unknown line whose words name no reason, behind a line that says that a process failed or
/// was ended, follows it too.
pub(super) fn follow_ends(findings: &mut [SignatureFinding]) {
    let is_end =
        |one: &&SignatureFinding| one.role == Role::Consequence && one.severity < Severity::Warning;
    let ends = findings.iter().filter(is_end).map(|one| one.first.clone());
    let ends: Vec<LinePlace> = ends.collect();
    for finding in findings {
        let is_unknown =
            finding.signature == UNKNOWN_WARNING && !crate::reasons::tells_why(&finding.sample);
        if is_unknown && ends.iter().any(|end| is_later(&finding.first, end)) {
            finding.role = Role::Consequence;
        }
    }
}

/// What a launcher says of a process that ended follows every error that a program logged before, whether or not a
/// signature explains it.
pub(super) fn follow_errors(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    let errors = findings.iter();
    let errors = errors.filter(|one| {
        let is_unknown = one.signature == UNKNOWN_WARNING;
        // That a peer was lost does not say which process ended first.
        let is_own = one.role == Role::General
            && one.severity < Severity::Warning
            && !crate::reasons::is_loss(&one.sample)
            && !is_of_launcher(one, signatures);
        (is_unknown || is_own) && !one.sample.trim_start().starts_with("srun: ")
    });
    let errors: Vec<LinePlace> = errors.map(|one| one.first.clone()).collect();
    for finding in findings {
        let is_later = errors.iter().any(|error| is_later(&finding.first, error));
        if is_later && is_of_launcher(finding, signatures) {
            finding.role = Role::Consequence;
        }
    }
}

/// Whether the lines of a finding are a launcher's on processes that ended.
fn is_of_launcher(finding: &SignatureFinding, signatures: &[Signature]) -> bool {
    Signature::named(signatures, &finding.signature).is_some_and(|one| one.launcher)
}

/// What a process logs as its own runtime ends it: an exception that nothing catches, and PyTorch's watchdog.
const ENDS_ITSELF: [&str; 2] = ["cxx-terminate", "watchdog-terminated"];

/// The signal on which a process ended, where it may be what `abort` raises, or what fails while a process ends.
static SIGNALLED: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(
        r"(?i)\bsignal:? ?(?:6|11|abort|segm)|\bSIG(?:ABRT|SEGV)\b|\babort(?:ed)?\b|\bsegmentation fault",
    )
});

/// The same, of what `abort` raises.
static ABORTED: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"(?i)\babort(?:ed)?\b|\bSIGABRT\b"));

/// A rank in a line, or in the name of a process.
static RANK: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"(?i)\brank[ :=]?(?P<rank>\d+)\b"));

/// The signal of a process that its own runtime ended follows the error for which that was. A launcher's line on a
/// rank counts only for the same one: another may have crashed first.
pub(super) fn follow_own_end(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    let is_table =
        |one: &SignatureFinding| one.signature == ROOT_CAUSE && one.meaning.ends_with(ABORT_CODE);
    let is_signal =
        |one: &SignatureFinding| SIGNALLED.is_match(one.sample.as_bytes()) || is_table(one);
    let rank = |text: &str| Some(RANK.captures(text.as_bytes())?["rank"].to_vec());
    let is_end = |one: &SignatureFinding| ENDS_ITSELF.contains(&one.signature.as_str());
    let ends = findings.iter().filter(|one| is_end(one));
    let ends: Vec<SignatureFinding> = ends.cloned().collect();
    let errors = findings.iter().filter(|one| {
        one.severity < Severity::Warning && one.signature != ENDS_ITSELF[0] && !is_signal(one)
    });
    let errors: Vec<LinePlace> = errors.map(|one| one.first.clone()).collect();
    for finding in findings.iter_mut().filter(|one| is_signal(one)) {
        let is_of_launcher = is_of_launcher(finding, signatures);
        let told = match is_table(finding) {
            true => rank(&finding.meaning),
            false => None,
        };
        let names_rank = |end: &SignatureFinding| {
            let mut texts = end.processes.iter().chain([&end.sample]);
            texts.find_map(|text| rank(text))
        };
        // A line on its end that names a rank tells whose the others are.
        let ranks: Vec<Vec<u8>> = ends.iter().filter_map(&names_rank).collect();
        let follows = |end: &SignatureFinding| {
            let is_same = match rank(&finding.sample) {
                None if told.is_some() => match &told {
                    Some(of) if !ranks.is_empty() => ranks.contains(of),
                    _ => is_of_one(finding, end),
                },
                Some(of) if is_of_launcher => {
                    let mut names = end.processes.iter();
                    names.any(|name| rank(name).as_ref() == Some(&of))
                }
                Some(_) | None => {
                    let is_own = !is_of_launcher || ABORTED.is_match(finding.sample.as_bytes());
                    is_own && is_of_one(finding, end)
                }
            };
            let behind = finding.first.line.saturating_sub(end.last.line);
            // What an exception says is in the line behind that on its end.
            let is_before = |error: &LinePlace| {
                error.file == end.first.file && error.line <= end.first.line + 1
            };
            is_same
                && finding.first.file == end.first.file
                && finding.first.line > end.first.line
                && behind <= TEXT_LINES
                && errors.iter().any(is_before)
        };
        if finding.role == Role::General && ends.iter().any(follows) {
            finding.role = Role::Consequence;
        }
    }
}

/// The table in which torchrun names the rank whose end it saw first, and what it says of one that `abort` ended.
const ROOT_CAUSE: &str = "torchrun-root-cause";
const ABORT_CODE: &str = "fail first, with exit code -6";

/// Errors in which a program passes on a result of NCCL.
const PASSES_ON: [&str; 2] = ["nccl-error-text", "python-exception"];
/// The result that NCCL has where a peer is lost, in the words of PyTorch and as its own line below them.
const LOST: &str = "remote process exited or there was a network error";
const LOST_RESULT: &str = "nccl-remote-error";
const LOST_WITHIN: u64 = 4;

/// A program's error that NCCL lost a peer follows any error before it: the peer, or the network to it, failed first.
pub(super) fn follow_lost_peer(findings: &mut [SignatureFinding]) {
    let places = |is_its: &dyn Fn(&SignatureFinding) -> bool| -> Vec<LinePlace> {
        let its = findings.iter().filter(|one| is_its(one));
        its.map(|one| one.first.clone()).collect()
    };
    let passes_on = |one: &SignatureFinding| {
        PASSES_ON.contains(&one.signature.as_str()) && one.sample.contains("NCCL error")
    };
    let results = places(&|one| one.signature == LOST_RESULT);
    let errors = places(&|one| {
        one.severity < Severity::Warning && one.role != Role::Consequence && !passes_on(one)
    });
    for finding in findings.iter_mut().filter(|one| passes_on(one)) {
        let is_result = |place: &LinePlace| {
            let behind = place.line.saturating_sub(finding.first.line);
            place.file == finding.first.file && (1..=LOST_WITHIN).contains(&behind)
        };
        let is_lost = finding.sample.contains(LOST) || results.iter().any(is_result);
        let is_before =
            |place: &LinePlace| place.file == finding.first.file && place.line < finding.first.line;
        if is_lost && finding.role == Role::General && errors.iter().any(is_before) {
            finding.role = Role::Consequence;
        }
    }
}

/// The process that a line names: `pid=71`, `[PID: 71]`.
static PID: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\b(?:pid|PID)[=:] ?(?P<pid>\d+)\b"));

/// Gives findings the role of a consequence whose signatures say that they follow another one, where that one is.
pub(super) fn follow_named(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    let pid = |one: &SignatureFinding| {
        let found = PID.captures(one.sample.as_bytes())?;
        Some(found["pid"].to_vec())
    };
    let is_before = |one: &SignatureFinding, other: &SignatureFinding, rule: &Follows| {
        let behind = one.first.line.saturating_sub(other.first.line);
        let (of_one, of_other) = (pid(one), pid(other));
        rule.names.contains(&other.signature)
            && other.role != Role::Consequence
            && !crate::stated::is_warning(&other.sample)
            && match rule.within {
                Some(most) => other.first.file == one.first.file && (1..=most).contains(&behind),
                None => is_later(&one.first, &other.first),
            }
            && (!rule.other_process || of_one.is_some() && of_other.is_some() && of_one != of_other)
    };
    let follows = |one: &SignatureFinding| {
        let rule = Signature::named(signatures, &one.signature)?
            .follows
            .as_ref()?;
        let mut others = findings.iter();
        Some(others.any(|other| is_before(one, other, rule)))
    };
    let follow: Vec<bool> = findings
        .iter()
        .map(|one| follows(one) == Some(true))
        .collect();
    for (finding, _) in findings.iter_mut().zip(follow).filter(|(_, is)| *is) {
        finding.role = Role::Consequence;
    }
}

/// An exception of a worker that a program passes on follows the one below it that it quotes.
pub(super) fn follow_wrapped(findings: &mut [SignatureFinding]) {
    let errors = findings.iter();
    let errors = errors.filter(|one| {
        one.severity < Severity::Warning
            && one.role != Role::Consequence
            && !crate::seen::wraps(one.sample.as_bytes())
    });
    let errors: Vec<LinePlace> = errors.map(|one| one.first.clone()).collect();
    for finding in findings {
        let is_quoted = |error: &LinePlace| {
            let behind = error.line.saturating_sub(finding.first.line);
            error.file == finding.first.file && (1..=TEXT_LINES).contains(&behind)
        };
        if crate::seen::wraps(finding.sample.as_bytes()) && errors.iter().any(is_quoted) {
            finding.role = Role::Consequence;
        }
    }
}

/// What XLA says of the last warning of NCCL that it quotes.
const MAY_BE_UNRELATED: &str = "Last NCCL warning(error) log entry (may be unrelated)";

/// An error of XLA that quotes NCCL's last warning follows another warning of NCCL that names a cause.
pub(super) fn follow_last_warning(findings: &mut [SignatureFinding]) {
    let names_cause = |one: &SignatureFinding, quoting: &str| {
        let message = one.sample.split_once("NCCL WARN ");
        one.role == Role::Cause
            && one.severity < Severity::Warning
            && message.is_some_and(|(_, message)| !quoting.contains(message.trim_end()))
    };
    let others = findings.to_vec();
    for finding in findings.iter_mut() {
        let is_told = |one: &SignatureFinding| {
            one.first.file == finding.first.file && names_cause(one, &finding.sample)
        };
        if finding.sample.contains(MAY_BE_UNRELATED) && others.iter().any(is_told) {
            finding.role = Role::Consequence;
        }
    }
}

/// Slurm's line on a step or a job that it ended.
const CANCELLED: &str = "slurm-cancelled";
const FROM_OUTSIDE: &str = "it was cancelled from outside: by scancel, by Ctrl-C of srun, or because its session ended; no error of a program is before it in this log";
/// How the meaning begins where the next line has the reason.
const WITH_REASON: &str = "Slurm ended the step or the job: ";
const WHO_CANCELLED: &str =
    "`sacct -j JOB -o jobid,state,exitcode,end` tells the state, and `CANCELLED by` the user";

/// Where Slurm ended a step before any error, what its tasks report of their end follows.
pub(super) fn follow_cancel(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    let Some(number) = findings.iter().position(|one| one.signature == CANCELLED) else {
        return;
    };
    let cancelled = findings[number].clone();
    let has_reason = cancelled.sample.to_ascii_lowercase().contains("due to");
    if has_reason || cancelled.meaning.starts_with(WITH_REASON) {
        return;
    }
    let mut others = findings
        .iter()
        .filter(|one| one.signature != CANCELLED && one.severity < Severity::Warning);
    let is_of_end = |one: &SignatureFinding| {
        let is_of_launcher = is_of_launcher(one, signatures) || one.role == Role::Consequence;
        is_of_launcher && is_later(&one.first, &cancelled.first)
    };
    // Errors without a signature count as warnings up to here.
    let fails_before = |one: &SignatureFinding| {
        one.signature == UNKNOWN_WARNING
            && is_later(&cancelled.first, &one.first)
            && crate::reasons::tells_why(&one.sample)
    };
    if !others.all(is_of_end) || findings.iter().any(fails_before) {
        return;
    }
    for finding in findings.iter_mut() {
        if is_of_launcher(finding, signatures) {
            finding.role = Role::Consequence;
        }
    }
    let cancelled = &mut findings[number];
    cancelled.role = Role::General;
    if let Some((step, node)) = super::steps::named(&cancelled.sample) {
        cancelled.meaning =
            format!("step {step} on {node} was cancelled, and Slurm ended its tasks");
    }
    cancelled.causes.insert(0, FROM_OUTSIDE.to_owned());
    cancelled.next_step = Some(WHO_CANCELLED.to_owned());
}

/// A line that only a logger's level or its words call an error is one where the log shows that something failed: a
/// launcher says so, or the log ends with it and no line behind it shows that its program went on.
pub(super) fn promote(findings: &mut [SignatureFinding], has_ended: impl Fn(&LinePlace) -> bool) {
    let is_quoted =
        |one: &SignatureFinding| [UNKNOWN_WARNING, STATED_ERROR].contains(&one.signature.as_str());
    let is_error = |one: &SignatureFinding| one.severity < Severity::Warning;
    let passes_on = |one: &SignatureFinding| crate::seen::wraps(one.sample.as_bytes());
    let has_failed = findings.iter().any(|one| is_error(one) || passes_on(one));
    let first = findings.first_mut();
    let Some(first) = first.filter(|one| is_quoted(one) && one.role != Role::Consequence) else {
        return;
    };
    // NCCL has no other level for what failed.
    let is_of_nccl = first.sample.contains("NCCL WARN ");
    if crate::stated::is_warning(&first.sample) && !is_of_nccl {
        return;
    }
    let states = crate::stated::stated(first.sample.as_bytes()).is_some();
    let has_level = states || crate::loggers::logged_error(first.sample.as_bytes()).is_some();
    let tells = crate::reasons::tells_why(&first.sample) || is_exception(&first.sample);
    let fails = has_level && tells || states;
    if has_failed || fails && has_ended(&first.last) {
        first.severity = Severity::Error;
    }
}

/// The last line of a traceback, behind the prefixes of launchers and loggers: the class of an exception.
static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"^(?:[\[(][^\])]*[\])]:? *|ERROR [^\]]*\] *)*(?:(?:\w+\.)*\w*(?:Exception|Error)|(?:\w+\.)+[A-Z]\w*): ";
    crate::loggers::regex(words)
});

/// Whether a line is the last one of a traceback.
pub(super) fn is_exception(line: &str) -> bool {
    EXCEPTION.is_match(line.as_bytes())
}

/// Orders findings: what failed first, then failures without a reason, warnings, and what
/// followed, mere warnings last. Lines of one file are in the order of the file unless all have a
/// time. A line that only says that something failed is behind one next to it that tells more, and
/// a result of NCCL behind one that says why.
pub(super) fn order(findings: &mut Vec<SignatureFinding>, telling: &[Telling]) {
    let have_times = have_clocks(findings);
    let tells = |number: usize| telling.get(number).copied().unwrap_or(Telling::Signature);
    let generals = findings.iter().enumerate();
    let generals = generals.filter(|(_, one)| one.role == Role::General);
    let generals: Vec<(Telling, LinePlace)> = generals
        .map(|(number, one)| (tells(number), one.first.clone()))
        .collect();
    let is_near = |one: &LinePlace, other: &LinePlace| {
        one.file == other.file && one.line.abs_diff(other.line) <= ENDING_LINES
    };
    let warnings: Vec<SignatureFinding> =
        findings.iter().filter(|one| warns(one)).cloned().collect();
    let losses: Vec<LinePlace> = findings
        .iter()
        .filter(|one| crate::reasons::is_loss(&one.sample))
        .map(|one| one.first.clone())
        .collect();
    let key = |(number, finding): &(usize, SignatureFinding)| {
        let at = instant(&finding.first).filter(|_| have_times);
        let at = at.map(str::to_owned);
        let is_mild = finding.role == Role::Consequence && finding.severity >= Severity::Warning;
        let least = match tells(*number) {
            Telling::Failure => Some(Telling::Result),
            Telling::Result => Some(Telling::Why),
            Telling::Signature | Telling::Why => None,
        };
        let tells_more = |(telling, place): &(Telling, LinePlace)| {
            let follows =
                warns(finding) && losses.contains(place) && is_later(place, &finding.first);
            least.is_some_and(|least| *telling >= least)
                && is_near(&finding.first, place)
                && !follows
        };
        let follows = losses.contains(&finding.first)
            && warnings
                .iter()
                .any(|one| is_of_one(finding, one) && is_later(&finding.first, &one.first));
        let yields = finding.role == Role::General && (follows || generals.iter().any(tells_more));
        let is_known_warning = finding.severity >= Severity::Warning
            && ![UNKNOWN_WARNING, STATED_ERROR].contains(&finding.signature.as_str());
        // A general error that no signature explains may be the cause; a known warning is none.
        let order = match finding.order() {
            1 if is_known_warning => 2,
            order => order,
        };
        (order, is_mild, yields, at, finding.first.clone())
    };
    let mut numbered: Vec<_> = std::mem::take(findings).into_iter().enumerate().collect();
    numbered.sort_by_cached_key(key);
    findings.extend(numbered.into_iter().map(|(_, finding)| finding));
}

/// Whether a finding is a warning of NCCL or of its plugin that no signature explains, and that tells more than that
/// a peer was lost.
fn warns(finding: &SignatureFinding) -> bool {
    finding.signature == UNKNOWN_WARNING
        && finding.role == Role::General
        && finding.sample.contains("NCCL WARN ")
        && !crate::reasons::is_loss(&finding.sample)
}

/// Whether two findings may be of one process: they name one, or a line does not tell its process.
fn is_of_one(one: &SignatureFinding, other: &SignatureFinding) -> bool {
    let is_file = |finding: &SignatureFinding| finding.processes.contains(&finding.first.file);
    let shares = |name: &String| other.processes.contains(name);
    one.first.file == other.first.file
        && (is_file(one) || is_file(other) || one.processes.iter().any(shares))
}

/// NCCL's lines on calls that failed one in another, of any source and of its sockets and networks.
pub(super) const CALL_CHAIN: &str = "nccl-call-chain";
pub(super) const INNER_CALLS: [&str; 2] = ["socket-propagated", "nccl-net-propagated"];

/// A chain of failed calls follows the warning of its process that is before it, or the inner call that another
/// signature knows. The inner calls of sockets yield to a warning of the process next to them, which tells more.
pub(super) fn follow_warnings(findings: &mut [SignatureFinding]) {
    let warnings = findings.iter();
    let warnings: Vec<SignatureFinding> = warnings
        .filter(|one| one.sample.contains("NCCL WARN ") || one.sample.contains(" -> "))
        .cloned()
        .collect();
    for chain in findings
        .iter_mut()
        .filter(|one| one.signature == CALL_CHAIN)
    {
        let is_before =
            |one: &SignatureFinding| is_of_one(chain, one) && is_later(&chain.first, &one.first);
        if warnings.iter().any(is_before) {
            chain.role = Role::Consequence;
        }
    }
    tell_of_proxy(findings);
    let warnings: Vec<SignatureFinding> = findings
        .iter()
        .filter(|one| one.role != Role::Consequence && one.sample.contains("NCCL WARN "))
        .cloned()
        .collect();
    for calls in findings.iter_mut() {
        let is_near = |one: &SignatureFinding| {
            is_of_one(calls, one) && one.first.line.abs_diff(calls.first.line) <= ENDING_LINES
        };
        let name = calls.signature.as_str();
        let is_inner = INNER_CALLS.contains(&name) || name == CALL_CHAIN;
        if is_inner && calls.role == Role::General && warnings.iter().any(is_near) {
            calls.role = Role::Consequence;
        }
    }
}

/// The source in a line of a chain of failed calls: `misc/socket.cc` in `misc/socket.cc:505 -> 2`.
static SOURCE_OF_CALL: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"(?P<source>\S+\.(?:cc|h)):\d+ -> \d"));

/// Inner calls follow a chain of the same processes that begins before them in the same source: it tells them.
pub(super) fn follow_chain(findings: &mut [SignatureFinding]) {
    let source = |one: &SignatureFinding| {
        let found = SOURCE_OF_CALL.captures(one.sample.as_bytes())?;
        Some(found["source"].to_vec())
    };
    let chains = findings.iter();
    let chains = chains.filter(|one| one.signature == CALL_CHAIN && one.role == Role::General);
    let chains: Vec<SignatureFinding> = chains.cloned().collect();
    for calls in findings.iter_mut() {
        let is_told = |chain: &SignatureFinding| {
            is_of_one(calls, chain)
                && is_later(&calls.first, &chain.first)
                && calls
                    .processes
                    .iter()
                    .all(|one| chain.processes.contains(one))
                && source(calls).is_some()
                && source(calls) == source(chain)
        };
        let is_inner = INNER_CALLS.contains(&calls.signature.as_str());
        if is_inner && calls.role == Role::General && chains.iter().any(is_told) {
            calls.role = Role::Consequence;
        }
    }
}

/// NCCL's warning that names the operation and the rank for which its proxy failed.
pub(super) const PROXY: &str = "nccl-proxy-failed";

/// Where the calls of sockets right before it are all that a process says until then, the proxy's warning tells more
/// than they do: it names the rank.
fn tell_of_proxy(findings: &mut [SignatureFinding]) {
    let Some(number) = findings.iter().position(|one| one.signature == PROXY) else {
        return;
    };
    let proxy = &findings[number];
    let is_inner = |one: &SignatureFinding| INNER_CALLS.contains(&one.signature.as_str());
    let is_before = |one: &&SignatureFinding| is_later(&proxy.first, &one.first);
    // The proxy warns again behind the calls of what it had to do next.
    let is_before_last = |one: &&SignatureFinding| is_later(&proxy.last, &one.first);
    let calls = findings.iter().filter(is_before_last).find(|one| {
        let distance = proxy.first.line.abs_diff(one.first.line);
        is_inner(one) && is_of_one(proxy, one) && distance <= ENDING_LINES
    });
    let tells = |one: &SignatureFinding| {
        one.role != Role::Consequence
            && one.severity < Severity::Warning
            && !is_inner(one)
            && one.signature != CALL_CHAIN
    };
    let is_told = findings.iter().filter(is_before).any(tells);
    let what = proxy.sample.split_once("Failed to execute ");
    if let Some((calls, (_, what))) = calls.zip(what).filter(|_| !is_told) {
        let told = SignatureFinding {
            role: Role::General,
            meaning: of_sockets(what, &calls.meaning, &proxy.meaning),
            causes: match calls.causes.get(1..) {
                Some(causes @ [_, ..]) => causes.to_vec(),
                _ if calls.meaning.contains(OF_NET_SOCKET) && what.contains("Connect") => {
                    vec![OF_NET_CONNECT.to_owned()]
                }
                _ if calls.meaning.contains(OF_NET_IB) && what.contains("Connect") => {
                    vec![OF_IB_CONNECT.to_owned()]
                }
                _ => vec![OF_CONNECT.to_owned()],
            },
            next_step: calls.next_step.clone(),
            ..proxy.clone()
        };
        let closed = findings.iter_mut().filter(|one| {
            one.signature == PEER_CLOSED
                && is_of_one(&told, one)
                && is_later(&one.first, &told.first)
                && is_of_own_host(one)
        });
        // The proxy of the same process was the peer.
        closed.for_each(|one| one.role = Role::Consequence);
        findings[number] = told;
    }
}

/// What the proxy could not do, in which sockets, and the facts of both findings.
fn of_sockets(what: &str, calls: &str, proxy: &str) -> String {
    let place = if calls.contains(OF_NET_SOCKET) {
        "on a connection of NET/Socket, which carries data to another node"
    } else if calls.contains(OF_NET_IB) {
        "on a connection of NET/IB, which carries data to another node"
    } else {
        "in its sockets"
    };
    let mut facts = Vec::<&str>::new();
    let parts =
        [calls, proxy].map(|text| text.split("; ").find_map(|part| part.strip_prefix(FACTS)));
    for fact in parts.iter().flatten().flat_map(|part| part.split(", ")) {
        if !facts.contains(&fact) && !what.contains(fact) {
            facts.push(fact);
        }
    }
    facts.truncate(FACTS_MAX);
    let meaning = format!("NCCL's proxy failed {place}: {what}");
    match facts.is_empty() {
        true => meaning,
        false => format!("{meaning}; {FACTS}{}", facts.join(", ")),
    }
}

/// How the facts of a finding begin in its sentence.
const FACTS: &str = "the log names ";
const FACTS_MAX: usize = 6;

const OF_CONNECT: &str = "the proxy's own connection to a peer failed: the lines with `->` before it name the call, and the peer's log of the same moment its end";

/// NCCL's source of the sockets that carry data.
const OF_NET_SOCKET: &str = "net_socket.c";
/// That of InfiniBand and RoCE.
const OF_NET_IB: &str = "net_ib.c";
const OF_IB_CONNECT: &str = "a queue pair to the other node could not be made or connected: the port is down, the GID index or the network of the two NICs differs, or the peer ended";
const OF_NET_CONNECT: &str = "an interface that NCCL takes for data has no way to the other node, or the peer ended: NCCL_SOCKET_IFNAME chooses those that all nodes share";

/// A connection that its peer closed.
pub(super) const PEER_CLOSED: &str = "socket-peer-closed";

/// Whether the peer that a line names is on the host that logged it.
pub(super) fn is_of_own_host(finding: &SignatureFinding) -> bool {
    let peer = finding.sample.split_once("remote peer ");
    let host = peer.and_then(|(_, peer)| peer.split(['.', '<', ':']).next());
    let is_own = |name: &String| name.split(['.', ':']).next() == host;
    host.is_some() && finding.processes.iter().all(is_own)
}

/// Ray's lines that tell that a worker or a node ended.
const DEATHS: [&str; 4] = [
    "ray-worker-died",
    "ray-exit-detail",
    "ray-node-dead",
    "ray-memory-kill",
];

fn is_death(finding: &SignatureFinding) -> bool {
    DEATHS.contains(&finding.signature.as_str())
}

/// The process that a line of Ray says has died: `Worker PID: 71`.
static DEAD: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\bWorker PID: (?P<pid>\d+)\b"));

/// A worker of Ray that died follows what its own NIC or connection reported before.
fn follow_own_loss(findings: &mut [SignatureFinding]) -> bool {
    let number = |of: &Regex, one: &SignatureFinding| {
        Some(of.captures(one.sample.as_bytes())?["pid"].to_vec())
    };
    let deaths = findings.iter().filter(|one| is_death(one));
    let dead: Vec<(Vec<u8>, LinePlace)> = deaths
        .filter_map(|one| Some((number(&DEAD, one)?, one.first.clone())))
        .collect();
    let is_own = |one: &SignatureFinding| {
        one.role == Role::General
            && one.severity < Severity::Warning
            && !is_death(one)
            && crate::reasons::is_of_network(&one.sample)
            && number(&PID, one).is_some_and(|pid| {
                let mut dead = dead.iter();
                dead.any(|(of, death)| *of == pid && is_later(death, &one.first))
            })
    };
    if !findings.iter().any(is_own) {
        return false;
    }
    let deaths = findings.iter_mut();
    let deaths = deaths.filter(|one| is_death(one));
    deaths.for_each(|one| one.role = Role::Consequence);
    true
}

/// What the NICs and the connections of the others report when a worker of Ray has died follows its death. Ray tells
/// of it late.
pub(super) fn follow_deaths(findings: &mut [SignatureFinding]) {
    if follow_own_loss(findings) {
        return;
    }
    let deaths = findings.iter();
    let deaths = deaths.filter(|one| is_death(one));
    let deaths: Vec<LinePlace> = deaths.map(|one| one.first.clone()).collect();
    let mut before = Vec::<(LinePlace, String)>::new();
    for finding in findings.iter_mut() {
        let is_general = finding.role == Role::General && finding.signature != UNKNOWN_WARNING;
        let is_other = !is_death(finding);
        let is_later = deaths.iter().any(|death| is_later(&finding.first, death));
        let is_of_file = deaths.iter().any(|death| death.file == finding.first.file);
        let is_loss = crate::reasons::is_of_network(&finding.sample);
        if is_other && is_loss && (is_later || is_general && is_of_file) {
            finding.role = Role::Consequence;
            if !is_later {
                before.push((finding.first.clone(), super::headline(&finding.sample)));
            }
        }
    }
    let death = findings.iter_mut();
    let death = death.filter(|one| is_death(one));
    let death = death.min_by(|one, other| one.first.cmp(&other.first));
    let earliest = before.into_iter().min();
    if let Some((death, (_, said))) = death.zip(earliest) {
        death.meaning = format!("{}; {}", death.meaning, BEFORE.replace("{word}", &said));
    }
}

/// What an engine says of a worker that ended.
const WORKER_DIED: &str = "worker-died";

/// A worker that ended is first where all that other processes say first behind it is that a peer was lost, and no
/// exception is in the log that may be the worker's own.
pub(super) fn lead_by_worker(findings: &mut [SignatureFinding]) {
    let Some(number) = findings.iter().position(|one| one.signature == WORKER_DIED) else {
        return;
    };
    let died = findings[number].first.clone();
    let is_first = |one: &SignatureFinding| one.role != Role::Consequence;
    let raises = |one: &SignatureFinding| {
        is_first(one) && one.severity < Severity::Warning && is_exception(&one.sample)
    };
    let is_loss = |one: &SignatureFinding| crate::reasons::is_loss(&one.sample);
    let first = findings.iter().filter(|one| is_first(one));
    let first = first.min_by(|one, other| one.first.cmp(&other.first));
    let leads = first.is_some_and(|first| {
        first.first.file == died.file && first.first.line > died.line && is_loss(first)
    });
    if leads && !findings.iter().any(raises) {
        let losses = findings.iter_mut();
        let losses = losses.filter(|one| is_first(one) && is_loss(one));
        losses.for_each(|one| one.role = Role::Consequence);
        findings[number].role = Role::General;
    }
}

/// What a report of Ray's may be late for.
const BEFORE: &str = "before it the log says: {word}";

/// Most microseconds by which a later line of a file is earlier: ranks write late, and clocks
/// differ a little.
const BACK_MAX_US: i64 = 24 * 3600 * 1_000_000;

/// Whether the times of all lines tell their order. They do not if one is missing, or if a later
/// line of a file is a day earlier: glog's times have no year.
fn have_clocks(findings: &[SignatureFinding]) -> bool {
    let of = |finding: &SignatureFinding| {
        let at = finding.first.at.as_deref().and_then(time::typed)?;
        Some((finding.first.file.clone(), finding.first.line, at))
    };
    let Some(mut all) = findings.iter().map(of).collect::<Option<Vec<_>>>() else {
        return false;
    };
    all.sort_unstable();
    let goes_on = |pair: &[(String, u64, i64)]| match pair {
        [(file, _, at), (other, _, next)] => file != other || at - next < BACK_MAX_US,
        _ => true,
    };
    all.windows(2).all(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_later_by_a_fraction_of_a_second() {
        let place = |line: u64, at: &str| LinePlace {
            file: "x.log".to_owned(),
            line,
            at: Some(at.to_owned()),
        };
        let times = [
            "2026-11-20T22:35:11Z",
            "2026-11-20T22:35:11.09Z",
            "2026-11-20T22:35:11.1Z",
            "2026-11-20T22:35:11.1001Z",
            "2026-11-20T22:35:12Z",
        ];
        for pair in times.windows(2) {
            let (one, next) = (place(9, pair[0]), place(1, pair[1]));
            assert!(is_later(&next, &one) && !is_later(&one, &next), "{pair:?}");
        }
    }
}
