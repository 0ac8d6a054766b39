//! What somebody found out: the condition, what it rests on, what to do.
#![forbid(unsafe_code)]

use super::frame;
use crate::tui::canvas::Pen;
use crate::tui::state::ViewState;
use crate::tui::theme::Ink;
use crate::watch::Model;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::record::Finding;
use textwrap::{Options, WordSplitter};

pub(super) fn draw(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState) {
    if area.height == 0 {
        return;
    }
    let inside = frame(buffer, area, state, "findings", &model.findings.len().to_string());
    let mut row = 0;
    if model.findings.is_empty() {
        Pen::at(buffer, state.theme, inside, 0).write(Ink::Faint, " none so far");
    }
    for finding in &model.findings {
        for (ink, text) in lines(finding) {
            for part in wrapped(&text, usize::from(inside.width)).lines() {
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
    let ink = match finding.severity.as_str() {
        "error" => Ink::Bad,
        "warning" => Ink::Warn,
        _ => Ink::Title,
    };
    let node = finding.node.as_ref().map(|node| format!(" {node}")).unwrap_or_default();
    let channel = finding.channel.map(|channel| format!(" channel {channel}")).unwrap_or_default();
    let sure = format!(" {:.0} %", finding.confidence * 100.0);
    let mut lines = vec![(ink, format!(" {} {}{node}{channel}{sure}", finding.severity, finding.condition))];
    lines.extend(finding.because.iter().map(|fact| (Ink::Plain, format!("   {fact}"))));
    lines.extend(finding.cannot_see.iter().map(|what| (Ink::Faint, format!("   cannot see: {what}"))));
    lines.extend(finding.next_step.iter().map(|step| (Ink::Strong, format!("   next: {step}"))));
    lines
}

/// Words on lines of at most `width`, the later ones set in more than the first.
fn wrapped(text: &str, width: usize) -> String {
    let words = text.trim_start();
    let indent = " ".repeat(text.len() - words.len() + 2);
    let options = Options::new(width).initial_indent(&indent[2..]).subsequent_indent(&indent);
    textwrap::fill(words, options.break_words(false).word_splitter(WordSplitter::NoHyphenation))
}
