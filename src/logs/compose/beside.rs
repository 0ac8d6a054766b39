//! What the first finding takes from findings and lines right beside it: an expert reads them together.
#![forbid(unsafe_code)]

use super::headline;
use crate::report::{LogReport, SignatureFinding, UnknownWarning};
use crate::signature::Role;

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

/// Lines between the first finding and an error that its sentence quotes.
const NEIGHBOR_LINES: u64 = 12;
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
    let text = nearest.map(|one| headline(&one.sample));
    if let Some((first, text)) = report.findings.first_mut().zip(text) {
        let text = crate::reasons::BESIDE.replace("{word}", &text);
        first.meaning = format!("{}; {text}", first.meaning);
    }
}
