//! What the plugin logged, what was printed and noticed, up to the moment that is
//! looked at.
#![forbid(unsafe_code)]

use super::frame;
use crate::tui::canvas::Pen;
use crate::tui::state::ViewState;
use crate::tui::theme::Ink;
use crate::watch::{Model, Picture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::record::live::{Line, LineKind};

pub(super) fn draw(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState, picture: &Picture<'_>) {
    if area.height == 0 {
        return;
    }
    let until = model.lines.iter().rposition(|line| line.at_ns <= picture.at_ns).map_or(0, |place| place + 1);
    let warnings = model.lines.iter().take(until).filter(|line| line.kind == LineKind::Warning).count();
    let lost = if model.lines_lost > 0 { format!(", {} older gone", model.lines_lost) } else { String::new() };
    let inside = frame(buffer, area, state, "log", &format!("{until} lines, {warnings} WARN{lost}"));
    let last = until.saturating_sub(state.lines_back).max(usize::from(inside.height).min(until));
    let first = last.saturating_sub(inside.height.into());
    let width = model.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0).min(16);
    for (line, row) in model.lines.range(first..last).zip(0..) {
        draw_line(Pen::at(buffer, state.theme, inside, row), line, model, width);
    }
}

fn draw_line(mut pen: Pen<'_>, line: &Line, model: &Model, width: usize) {
    let since = line.at_ns as f64 - model.title.started_ns as f64;
    let time = if model.title.started_ns == 0 { 0.0 } else { since / 1e9 };
    let (word, ink) = match line.kind {
        LineKind::Warning => ("WARN", Ink::Bad),
        LineKind::Plugin => ("    ", Ink::Plain),
        LineKind::Output => ("said", Ink::Plain),
        LineKind::Note => ("note", Ink::Title),
    };
    let node: String = line.node.chars().take(width).collect();
    pen.write(Ink::Faint, format!(" {time:>8.3} {node:<width$} ")).write(ink, format!("{word} "));
    pen.write(if line.kind == LineKind::Plugin { Ink::Plain } else { Ink::Strong }, &line.text);
}
