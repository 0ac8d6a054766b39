//! A line that states an error in words as a finding, if no other line tells what failed.
#![forbid(unsafe_code)]

use super::ranking::is_later;
use super::{Compose, ENDING_LINES, read_around, shown};
use crate::reasons::Telling;
use crate::report::{
    LinePlace, LogReport, STATED_ERROR, SignatureFinding, StatedLine, UNKNOWN_WARNING,
    UnknownWarning,
};
use crate::signature::{Need, Role, Severity, Signature};
use crate::stated::Counted;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Words of steps, of results, and of a job that began or ended well.
static GOES_ON: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(concat!(
        r"(?i)\b(?:step|iter|iteration|epoch|loss|throughput)\b|\bInit COMPLETE\b|\b(?:avg )?bus bandwidth\b",
        r"|\d GB/s\b|\bsuccessfully\b|\b(?:succeeded|finished|completed|passed|done)\b|\b(?:fallback|falling back)\b",
        r"|\bvia (?:P2P|SHM|NET)/|^\s*\d+\s+\d+\s+(?:float|half|double|u?int|bfloat|f8)",
    ))
});

/// What is said of a job that goes on.
const WENT_ON: &str = "the job went on behind it: its last line is line {n}: {line}";

/// Bytes of a line by which it is told whether another one says the same.
const SHAPE_MAX: usize = 256;

/// Least length of the end of a line by which the whole line is known.
const REST_MIN: usize = 24;

impl Compose<'_> {
    /// Lines that state an error in words, unless a finding names a cause. If all findings
    /// followed something, the first of the lines before them is what failed.
    pub(super) fn state(&self, report: &mut LogReport) {
        let is_cause =
            |one: &SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
        if report.findings.iter().any(is_cause) {
            return;
        }
        let lines = self.tally.stated.lines().map(|(place, text)| StatedLine {
            place: self.place(place, None),
            sample: shown(text),
        });
        let precedes = |line: &StatedLine| {
            let mut findings = report.findings.iter();
            findings.all(|one| is_later(&one.first, &line.place))
        };
        // A line that begins a traceback tells nothing else, and of one that the log ends within its frames tell more.
        let open: Vec<LinePlace> = self
            .tally
            .ends
            .open_tracebacks()
            .map(|open| self.place(open.head.place, None))
            .collect();
        let is_head = |line: &StatedLine| {
            open.contains(&line.place) && crate::traceback::begins(line.sample.as_bytes())
        };
        let lines = lines.filter(|line| !is_head(line) && !self.is_rest_of_harmless(line));
        report.stated = lines.filter(precedes).collect();
        let has_followed = |one: &SignatureFinding| one.role == Role::Consequence;
        let first = match report.findings.is_empty() {
            false if report.findings.iter().all(has_followed) => first_told(&report.stated),
            false => self
                .tells_why_before(report)
                .or_else(|| follow_own_words(&mut report.findings, &report.stated)),
            true => self.ends_in_an_error(&report.stated),
        };
        if let Some(first) = first.filter(|first| *first < report.stated.len()) {
            let first = report.stated.remove(first);
            report.findings.push(stated_finding(first));
        }
    }

    /// Whether a log begins within a line that is harmless whole, by how such a line ends.
    fn is_rest_of_harmless(&self, line: &StatedLine) -> bool {
        if line.place.line > 1 {
            return false;
        }
        let shape = |text: &[u8]| crate::fields::message_shape(text, SHAPE_MAX);
        let rest = shape(line.sample.as_bytes());
        let is_harmless = |one: &&Signature| {
            one.severity > Severity::Warning
                || one.severity == Severity::Warning && one.needs == Some(Need::TcpxExpected)
        };
        let mut signatures = self.catalogue.signatures.iter().filter(is_harmless);
        signatures.any(|one| {
            let whole = shape(one.example.as_bytes());
            let is_end = rest.len() >= REST_MIN && whole.ends_with(&rest);
            let end = one.example.find(one.literal.as_str());
            let end = end.map(|from| shape(&one.example.as_bytes()[from..]));
            is_end || end.is_some_and(|end| end.len() >= REST_MIN && rest.ends_with(&end))
        })
    }

    /// The first of the lines that tell why something failed, right before the first finding, if
    /// that one only says that something failed.
    fn tells_why_before(&self, report: &LogReport) -> Option<usize> {
        let findings = report.findings.iter();
        let failures = findings.filter(|one| one.role != Role::Consequence);
        let first = failures.min_by_key(|one| &one.first)?;
        let tells = |line: &StatedLine| {
            first.first.line.saturating_sub(line.place.line) <= ENDING_LINES
                && !crate::stated::is_warning(&line.sample)
                && crate::reasons::tells_why(&line.sample)
        };
        let number = report.stated.iter().position(tells);
        // A shell goes on behind a command that it does not find, up to what a program of Slurm refuses then.
        let is_got_over = |number: &usize| {
            refuses(&first.sample) && NO_COMMAND.is_match(report.stated[*number].sample.as_bytes())
        };
        let number = number.filter(|number| !is_got_over(number));
        let telling = crate::reasons::telling(first, &self.catalogue.signatures);
        let is_exact = |line: &str| crate::reasons::exact_cause(line).is_some();
        // A wording that names one failure tells more than words that programs use alike.
        let tells_more = |number: &usize| {
            first.signature == UNKNOWN_WARNING
                && is_exact(&report.stated[*number].sample)
                && !is_exact(&first.sample)
        };
        number.filter(|number| telling != Telling::Why || tells_more(number))
    }

    /// Whether a line behind the first one of a finding states an error, in other words and not of another process.
    pub(super) fn states_more(&self, finding: &SignatureFinding) -> bool {
        let shape = |line: &str| crate::fields::message_shape(line.as_bytes(), SHAPE_MAX);
        let writer = |line: &str| crate::traceback::writer(line.as_bytes()).to_vec();
        let (own, of) = (shape(&finding.sample), writer(&finding.sample));
        let states = |place: &LinePlace, line: &str| {
            let other = writer(line);
            place.file == finding.first.file
                && place.line > finding.first.line
                && !crate::stated::is_warning(line)
                && (other.is_empty() || of.is_empty() || other == of)
                && shape(line) != own
        };
        let stated = self.tally.stated.lines();
        let mut stated = stated.map(|(place, text)| (self.place(place, None), shown(text)));
        if stated.any(|(place, text)| states(&place, &text)) {
            return true;
        }
        let ends = self.tally.ends.iter().map(|(.., end)| &end.last);
        let mut ends = ends.filter(|last| crate::stated::stated(&last.text).is_some());
        ends.any(|last| states(&self.place(last.place, None), &shown(&last.text)))
    }

    /// The number of a file's last line.
    fn last_line(&self, name: &str) -> Option<u64> {
        let of_file = |(file, last): (&u32, &u64)| {
            let is_same = self
                .files
                .get(*file as usize)
                .is_some_and(|one| one == name);
            is_same.then_some(*last)
        };
        self.tally.ends.last_lines().find_map(of_file)
    }

    /// Whether hardly anything is behind a line in its file.
    pub(super) fn ends_with(&self, place: &LinePlace) -> bool {
        let last = self.last_line(&place.file);
        last.is_some_and(|last| last.saturating_sub(place.line) <= ENDING_LINES)
    }

    /// Whether the job ended with a line: hardly anything is behind it, and none of that shows that it went on.
    pub(super) fn has_ended(&self, place: &LinePlace) -> bool {
        self.ends_with(place) && !self.goes_on(place)
    }

    /// Whether the last message of a process that is behind a line of its file shows that the job went on.
    pub(crate) fn goes_on(&self, place: &LinePlace) -> bool {
        self.line_of_going_on(place).is_some()
    }

    /// The last of these messages, and its line.
    fn line_of_going_on(&self, place: &LinePlace) -> Option<(u64, String)> {
        let ends = self.tally.ends.iter().filter(|(file, _, end)| {
            let is_of_file = self.files.get(*file as usize) == Some(&place.file);
            let text = end.last.text.as_slice();
            let fails = || {
                crate::stated::stated(text).is_some()
                    || crate::loggers::logged_error(text).is_some()
            };
            is_of_file && end.last.place.line > place.line && GOES_ON.is_match(text) && !fails()
        });
        let last = ends.max_by_key(|(.., end)| end.last.place)?.2;
        Some((last.last.place.line, shown(&last.last.text)))
    }

    /// Tells that the job went on behind a warning of NCCL, where the log ends with words that show it.
    pub(super) fn tell_of_going_on(&self, findings: &mut [SignatureFinding]) {
        let warns = |one: &&mut SignatureFinding| one.sample.contains("NCCL WARN ");
        let Some(first) = findings.first_mut().filter(warns) else {
            return;
        };
        let told = self.line_of_going_on(&first.last);
        if let Some((number, line)) = told.filter(|_| first.role != Role::Consequence) {
            let text = WENT_ON.replace("{n}", &number.to_string());
            let text = text.replace("{line}", line.trim());
            first.meaning = format!("{}; {text}", first.meaning);
        }
    }

    /// The first of the lines that state an error with which a file ends, or of those of them that
    /// tell why: hardly anything comes behind them, so what failed was not got over.
    fn ends_in_an_error(&self, stated: &[StatedLine]) -> Option<usize> {
        let mut first = None;
        for (number, line) in stated.iter().enumerate().rev() {
            let of_next = |next: usize| {
                let next: &LinePlace = &stated[next].place;
                (next.file == line.place.file).then_some(next.line)
            };
            let last = || self.last_line(&line.place.file);
            let behind = first.and_then(of_next).or_else(last);
            if behind.is_none_or(|behind| behind.saturating_sub(line.place.line) > ENDING_LINES) {
                break;
            }
            first = Some(number);
        }
        let fails = |number: &usize| !crate::stated::is_warning(&stated[*number].sample);
        let tells = |number: &usize| crate::reasons::tells_why(&stated[*number].sample);
        let mut at_end = (first?..stated.len()).filter(fails);
        let raised = |number: &usize| super::ranking::is_exception(&stated[*number].sample);
        let told = at_end.clone().find(tells);
        told.or_else(|| at_end.clone().find(raised))
            .or_else(|| at_end.next())
    }
}

/// A command of a script that its shell does not find.
static NO_COMMAND: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"(?:^|: )line \d+: \S+: command not found"));

/// What programs of Slurm write before an error.
const SLURM: [&str; 3] = ["srun: error: ", "sbatch: error: ", "salloc: error: "];
/// Lines that are between two of one refusal at most: rules and empty ones.
const BETWEEN_MAX: u64 = 2;

/// Whether a line is of a program of Slurm, which says why it does not start a job.
fn refuses(line: &str) -> bool {
    SLURM.iter().any(|program| line.contains(program))
}

/// Joins the lines in which a program of Slurm says why it does not start a job: a site's filter writes several, and the
/// reason is in one of them.
pub(super) fn join_refusals(unknown: &mut Vec<UnknownWarning>) {
    let mut from = 0;
    while from < unknown.len() {
        let program = SLURM
            .into_iter()
            .find(|program| unknown[from].sample.starts_with(program));
        let mut to = from + 1;
        let is_next = |to: usize| {
            let (one, next) = (&unknown[to - 1].last, unknown.get(to)?);
            let program = program.filter(|program| next.sample.starts_with(program))?;
            let distance = next.first.line.checked_sub(one.line)?;
            (one.file == next.first.file && distance <= BETWEEN_MAX).then_some(program)
        };
        while is_next(to).is_some() {
            to += 1;
        }
        if let Some(program) = program.filter(|_| to - from > 1) {
            let mut parts: Vec<_> = unknown.drain(from..to).collect();
            let messages = parts.iter().map(|part| &part.sample[program.len()..]);
            let text = messages.collect::<Vec<_>>().join("; ");
            let telling = parts
                .iter()
                .position(|part| crate::reasons::tells_why(&part.sample));
            let last = parts.last().map(|part| part.last.clone());
            let mut whole = parts.swap_remove(telling.unwrap_or(parts.len() - 1));
            whole.sample = format!("{program}{text}");
            whole.last = last.unwrap_or(whole.last);
            unknown.insert(from, whole);
        }
        from += 1;
    }
}

/// What PyTorch lists of a checkpoint that it loads in part only, as with `strict=False`.
const OTHER_SHAPE: &str = "size mismatch for ";
const OTHER_MODEL: &str = "the checkpoint is of another model than the program builds, as lines before it say, for example of another number of classes: {word}";

/// Tells of a checkpoint whose tensors did not fit the model, where an exception follows later: the run went on
/// without them.
pub(super) fn tell_of_other_model(findings: &mut [SignatureFinding], stated: &[StatedLine]) {
    let Some(line) = stated.iter().find(|one| one.sample.contains(OTHER_SHAPE)) else {
        return;
    };
    let exceptions = findings.iter_mut();
    let mut exceptions = exceptions.filter(|one| super::ranking::is_exception(&one.sample));
    if let Some(exception) = exceptions.next() {
        let cause = OTHER_MODEL.replace("{word}", line.sample.trim_end_matches('.'));
        exception.causes.insert(0, cause);
    }
}

/// A process in a line: its host and its number.
static PROCESS: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\[[A-Za-z][\w.-]*:0*(?P<pid>\d+)(?: *:|\])"));

/// The first of the errors that a process stated right before it crashed, whatever their words. The crash follows.
fn follow_own_words(findings: &mut [SignatureFinding], stated: &[StatedLine]) -> Option<usize> {
    let pid = |line: &str| {
        let found = PROCESS.captures(line.as_bytes())?;
        Some(shown(&found["pid"]))
    };
    let crash = findings
        .iter_mut()
        .filter(|one| one.role != Role::Consequence)
        .min_by(|one, other| one.first.cmp(&other.first))?;
    let own = pid(&crash.sample).filter(|_| crate::seen::crashes(crash.sample.as_bytes()))?;
    let number = stated.iter().position(|line| {
        crash.first.line.saturating_sub(line.place.line) <= ENDING_LINES
            && !crate::stated::is_warning(&line.sample)
            && pid(&line.sample).as_ref() == Some(&own)
    })?;
    crash.role = Role::Consequence;
    Some(number)
}

/// The first line that is no mere warning, or one next to it that tells why it failed.
fn first_told(stated: &[StatedLine]) -> Option<usize> {
    let fails = |line: &StatedLine| !crate::stated::is_warning(&line.sample);
    let number = stated.iter().position(fails)?;
    let stated = &stated[number..];
    let is_near = |line: &&StatedLine| {
        stated.first().is_some_and(|first| {
            let behind = line.place.line.saturating_sub(first.place.line);
            line.place.file == first.place.file && behind <= ENDING_LINES
        })
    };
    let tells = |line: &StatedLine| {
        !crate::stated::is_warning(&line.sample) && crate::reasons::tells_why(&line.sample)
    };
    let mut near = stated.iter().take_while(is_near);
    Some(number + near.position(tells).unwrap_or(0))
}

/// Times from which on a failure that a program states is one that it did not get over.
const REPEATED_MIN: u64 = 2;

impl Compose<'_> {
    /// The first failure that a program states more than once, at any level below INFO or at none, where no line behind
    /// the last shows that the job went on.
    pub(super) fn repeated_failure(&self) -> Option<SignatureFinding> {
        let fails = |one: &&Counted| {
            let text = shown(&one.text);
            let last = self.place(one.last, None);
            one.count >= REPEATED_MIN && !crate::stated::is_warning(&text) && !self.goes_on(&last)
        };
        let repeated = self.tally.stated.counted().filter(fails);
        let one = repeated.min_by_key(|one| one.first)?;
        let (sample, count) = (shown(&one.text), one.count);
        let finding = stated_finding(StatedLine {
            place: self.place(one.first, None),
            sample,
        });
        Some(SignatureFinding {
            count,
            last: self.place(one.last, None),
            meaning: format!(
                "a program states a failure {count} times, and no line shows that it went on; tcpxctl has no signature for it: {}",
                super::headline(&finding.sample)
            ),
            ..finding
        })
    }
}

/// A line that states an error in words as a finding.
pub(super) fn stated_finding(line: StatedLine) -> SignatureFinding {
    SignatureFinding {
        signature: STATED_ERROR.to_owned(),
        severity: Severity::Warning,
        role: Role::General,
        count: 1,
        processes: vec![line.place.file.clone()],
        first: line.place.clone(),
        last: line.place.clone(),
        phase: None,
        meaning: format!(
            "a line before the end that states an error; tcpxctl has no signature for it: {}",
            super::headline(&line.sample)
        ),
        causes: Vec::new(),
        next_step: Some(read_around(&line.place)),
        versions: String::new(),
        polls: None,
        sample: line.sample,
        before: Vec::new(),
        after: None,
    }
}
