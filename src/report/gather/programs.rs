//! Programs that drive the plugin themselves: what `tcpxctl logs` says of them, as the findings of a
//! run that has no record.
#![forbid(unsafe_code)]

use super::lines::subject_at;
use crate::story::{Story, StoryState};
use tcpx_logs::{
    HarnessReport, HarnessState, HarnessVerdict, LogReport, Role, Severity as LineSeverity,
};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_words::units::printable;

/// Confidence in a verdict: its lines show what it says, and more if nothing is left open.
const CONFIDENCE: [f64; 2] = [0.7, 0.9];
/// Most findings on lines of logs.
const OF_LOG_MAX: usize = 8;

/// Adds the programs.
pub(super) fn add_programs(harness: Option<HarnessReport>, story: &mut Story) {
    let Some(harness) = harness else { return };
    let verdicts = harness.verdicts.iter();
    let findings = verdicts.filter_map(|verdict| finding(verdict, &harness));
    story.findings.extend(findings);
    story.findings.sort_by_key(|finding| finding.severity);
    story.harness = Some(harness);
}

/// What the lines of logs come to, as findings: of programs that no run started, `diagnose` says the same.
pub(super) fn findings_of_log(report: &LogReport) -> Vec<Finding> {
    let findings = report.findings.iter().filter_map(|found| {
        let severity = match found.severity {
            LineSeverity::Fatal | LineSeverity::Error | LineSeverity::Stall => Severity::Error,
            LineSeverity::Warning => Severity::Warning,
            LineSeverity::Info | LineSeverity::Benign => return None,
        };
        if found.role == Role::Consequence || report.is_in_verdict(found) {
            return None;
        }
        let cause = found.causes.first();
        let cause = cause.map(|cause| format!("most likely: {cause}"));
        let subject = subject_at(&found.first);
        let line = format!("{}: {}", subject.name, printable(&found.sample));
        Some(Finding {
            condition: found.signature.clone(),
            severity,
            confidence: CONFIDENCE[usize::from(found.causes.len() == 1)],
            subject: Some(subject),
            channel: None,
            because: std::iter::once(found.meaning.clone())
                .chain(cause)
                .chain([line])
                .collect(),
            cannot_see: Vec::new(),
            next_step: found.next_step.clone(),
            reference: None,
        })
    });
    findings.take(OF_LOG_MAX).collect()
}

/// Heads an adopted run with its first finding, or with how its programs ended. `judged` is the first finding by
/// the recordings, which has facts and no sentence.
pub(super) fn head(judged: Option<&Finding>, story: &mut Story) {
    if story.state != StoryState::Adopted {
        return;
    }
    let first = story.findings.first();
    if let Some(first) = first.filter(|first| first.severity != Severity::Info) {
        let fact = first.because.first().cloned().unwrap_or_default();
        let (name, percent) = (&first.condition, first.confidence * 100.0);
        let reason = match judged == Some(first) {
            true if story.stood_still() => {
                format!("it stands still: {name} ({percent:.0} %): {fact}")
            }
            true => format!("{name} ({percent:.0} %): {fact}"),
            false => fact,
        };
        let next_step = first.next_step.clone();
        (story.reason, story.next_step) = (Some(reason), next_step);
        return;
    }
    let harness = story.harness.as_ref();
    if let Some(ended) = harness.and_then(|harness| harness.verdicts.first()) {
        story.reason = Some(ended.summary.clone());
        story.next_step = ended.next_steps.first().cloned();
    }
}

/// A verdict as a finding, unless the program ended as it should.
fn finding(verdict: &HarnessVerdict, harness: &HarnessReport) -> Option<Finding> {
    let severity = match verdict.state {
        HarnessState::Failed | HarnessState::Waits => Severity::Error,
        HarnessState::Doubtful => Severity::Warning,
        HarnessState::Finished => return None,
    };
    let programs = verdict.programs.iter();
    let mut programs = programs.filter_map(|index| harness.programs.get(*index));
    let turn = verdict
        .turn
        .map(|role| format!("the {}'s turn", role.name()));
    let facts = verdict.because.iter().cloned();
    Some(Finding {
        condition: verdict.condition.to_string(),
        severity,
        confidence: CONFIDENCE[usize::from(verdict.cannot_tell.is_empty())],
        subject: programs.next().map(|one| subject_at(&one.last)),
        channel: None,
        because: std::iter::once(verdict.summary.clone())
            .chain(turn)
            .chain(facts)
            .collect(),
        cannot_see: verdict.cannot_tell.clone(),
        next_step: (!verdict.next_steps.is_empty()).then(|| verdict.next_steps.join("; ")),
        reference: None,
    })
}
