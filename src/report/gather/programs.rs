//! Programs that drive the plugin themselves: what `tcpxctl logs` says of them, as the findings of a
//! run that has no record.
#![forbid(unsafe_code)]

use super::lines::subject_at;
use crate::story::{Story, StoryState};
use tcpx_logs::{HarnessReport, HarnessState, HarnessVerdict};
use tcpx_run_model::finding::{Finding, Severity};

/// Confidence in a verdict: its lines show what it says, and more if nothing is left open.
const CONFIDENCE: [f64; 2] = [0.7, 0.9];

/// Adds the programs. Their worst verdict is the reason and the next step of an adopted run.
pub(super) fn add_programs(harness: Option<HarnessReport>, story: &mut Story) {
    let Some(harness) = harness else { return };
    let verdicts = harness.verdicts.iter();
    let findings = verdicts.filter_map(|verdict| finding(verdict, &harness));
    story.findings.extend(findings);
    story.findings.sort_by_key(|finding| finding.severity);
    if let (Some(worst), StoryState::Adopted) = (harness.verdicts.first(), story.state) {
        story.reason = Some(worst.summary.clone());
        story.next_step = worst.next_steps.first().cloned();
    }
    story.harness = Some(harness);
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
