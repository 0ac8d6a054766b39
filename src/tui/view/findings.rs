//! The findings: each condition with its evidence and next step.
#![forbid(unsafe_code)]

use super::{Pane, Scene, a_third, frame};
use crate::canvas::Pen;
use crate::theme::Ink;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::finding::{Finding, Severity};

pub(super) static PANE: Pane = Pane {
    key: 'f',
    shows: "findings",
    is_of_channel: false,
    lines: None,
    height: a_third,
    draw,
};

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let (state, findings) = (scene.state, &scene.model.state().findings);
    let inside = frame(buffer, area, state, "findings", &findings.len().to_string());
    let mut row = 0;
    if findings.is_empty() {
        let none = match state.shows_matrix(scene.model) {
            true => " none about single pairs so far; slow parts are listed below the matrix",
            false => " none so far",
        };
        Pen::at(buffer, state.theme, inside, 0).write(Ink::Faint, none);
    }
    for finding in findings {
        for (ink, text) in lines(finding) {
            for part in wrapped(&text, usize::from(inside.width)) {
                Pen::at(buffer, state.theme, inside, row).write(ink, part);
                row += 1;
                if row >= inside.height {
                    return;
                }
            }
        }
    }
}

fn lines(finding: &Finding) -> Vec<(Ink, String)> {
    let ink = match finding.severity {
        Severity::Error => Ink::Bad,
        Severity::Warning => Ink::Warn,
        Severity::Info => Ink::Title,
    };
    let node = finding
        .place()
        .map(|place| format!("  {place}"))
        .unwrap_or_default();
    let channel = finding
        .channel
        .map(|channel| format!(" channel {channel}"))
        .unwrap_or_default();
    let sure = format!("  {:.0} %", finding.confidence * 100.0);
    let mut lines = vec![(
        ink,
        format!(
            " {} {}{node}{channel}{sure}",
            finding.severity, finding.condition
        ),
    )];
    lines.extend(
        finding
            .because
            .iter()
            .map(|fact| (Ink::Plain, format!("   {fact}"))),
    );
    lines.extend(
        finding
            .cannot_see
            .iter()
            .map(|what| (Ink::Faint, format!("   cannot see: {what}"))),
    );
    lines.extend(
        finding
            .next_step
            .iter()
            .map(|step| (Ink::Strong, format!("   next: {step}"))),
    );
    lines
}

/// Wraps text to lines of at most `width` columns, and indents the later lines by two more.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let is_first = line.trim().is_empty();
        if is_first || line.chars().count() + 1 + word.chars().count() <= width {
            if !is_first {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(format!("{}{word}", " ".repeat(indent + 2)));
        }
    }
    lines
}
