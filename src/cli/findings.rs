//! Findings as text.
#![forbid(unsafe_code)]

use tcpx_run_model::finding::{Finding, Severity};

/// A finding in full: headline, deciding facts, missing evidence, next step.
pub(crate) fn render(finding: &Finding) -> String {
    let mut text = format!("{}\n", headline(finding));
    finding
        .because
        .iter()
        .for_each(|fact| text.push_str(&format!("  {fact}\n")));
    finding
        .cannot_see
        .iter()
        .for_each(|what| text.push_str(&format!("  cannot see : {what}\n")));
    if let Some(next) = &finding.next_step {
        text.push_str(&format!("  next : {next}\n"));
    }
    text
}

/// `error window-never-consumed : peer, channel 1 (97 %)`
pub(crate) fn headline(finding: &Finding) -> String {
    let node = finding.place().unwrap_or("both ends");
    let channel = finding
        .channel
        .map(|channel| format!(", channel {channel}"))
        .unwrap_or_default();
    let sure = finding.confidence * 100.0;
    format!(
        "{} {} : {node}{channel} ({sure:.0} %)",
        finding.severity, finding.condition
    )
}

/// All findings; those that only follow from others share one line.
pub(crate) fn render_all(findings: &[Finding]) -> String {
    let (told, rest): (Vec<&Finding>, Vec<&Finding>) = findings
        .iter()
        .partition(|one| one.severity != Severity::Info || one.condition == findings[0].condition);
    let mut text: String = told.into_iter().map(render).collect();
    let rest: Vec<String> = rest.into_iter().map(|one| one.condition.clone()).collect();
    if !rest.is_empty() {
        text.push_str(&format!("also seen : {}\n", rest.join(", ")));
    }
    text
}
