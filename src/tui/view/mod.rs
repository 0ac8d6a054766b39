//! A model and what is chosen, drawn. Pure: the same in a test as on a terminal.
#![forbid(unsafe_code)]

mod channels;
mod detail;
mod findings;
mod header;
mod help;
mod log;

use super::canvas::Pen;
use super::state::{Pane, ViewState};
use super::theme::Ink;
use crate::watch::{Model, Picture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws everything; `now_ns` is as late as anything is known. Says how many
/// lines of the table there was room for.
pub(crate) fn view(model: &Model, state: &mut ViewState, now_ns: u64, buffer: &mut Buffer) -> usize {
    let area = buffer.area;
    let picture = Picture::at(model, state.at.unwrap_or(now_ns));
    let header = header::height(&picture, area);
    let [top, rest] = split(area, header);
    let [middle, bottom] = split(rest, rest.height.saturating_sub(1));
    header::draw(buffer, top, model, state, &picture, now_ns);
    let pane_height = match state.pane {
        Pane::None => 0,
        _ if state.zoomed => middle.height,
        Pane::Detail => (middle.height * 3 / 5).max(8).min(middle.height.saturating_sub(3)),
        Pane::Log | Pane::Findings => (middle.height / 3).clamp(3.min(middle.height), 16),
    };
    let [table, pane] = split(middle, middle.height - pane_height.min(middle.height));
    let items = state.items(&picture);
    channels::draw(buffer, table, state, &picture, &items);
    match state.pane {
        Pane::Log if pane.width >= WIDE && !model.findings.is_empty() => {
            let [left, right] = halves(pane);
            log::draw(buffer, left, model, state, &picture);
            findings::draw(buffer, right, model, state);
        }
        Pane::Log => log::draw(buffer, pane, model, state, &picture),
        Pane::Findings => findings::draw(buffer, pane, model, state),
        Pane::Detail => detail::draw(buffer, pane, model, state, &picture, &items),
        Pane::None => {}
    }
    footer(buffer, bottom, state);
    if state.help {
        help::draw(buffer, area, state.theme);
    }
    usize::from(table.height.saturating_sub(1))
}

/// From here on log and findings stand side by side.
const WIDE: u16 = 150;

fn split(area: Rect, at: u16) -> [Rect; 2] {
    let at = at.min(area.height);
    [Rect { height: at, ..area }, Rect { y: area.y + at, height: area.height - at, ..area }]
}

fn halves(area: Rect) -> [Rect; 2] {
    let left = area.width * 3 / 5;
    [Rect { width: left, ..area }, Rect { x: area.x + left, width: area.width - left, ..area }]
}

/// A rule with a title in it, at the top of a pane; what is left below.
fn frame(buffer: &mut Buffer, area: Rect, state: &ViewState, title: &str, right: &str) -> Rect {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    let rule = state.theme.rule();
    pen.write(Ink::Faint, rule).write(Ink::Faint, rule).write(Ink::Title, format!(" {title} "));
    let left = pen.left().saturating_sub(right.chars().count() + 3);
    pen.write(Ink::Faint, rule.repeat(left));
    if !right.is_empty() {
        pen.write(Ink::Faint, format!(" {right} "));
    }
    pen.fill(Ink::Faint, rule);
    split(area, 1)[1]
}

fn footer(buffer: &mut Buffer, area: Rect, state: &ViewState) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    if state.typing {
        pen.write(Ink::Title, " filter: ").write(Ink::Strong, &state.filter).write(Ink::Strong, "_");
        pen.right(Ink::Faint, "Enter keeps, Esc drops ");
        return;
    }
    if let Some(said) = &state.said {
        pen.write(Ink::Strong, format!(" {said}"));
        return;
    }
    let hints = [
        ("q", "leave"),
        ("?", "help"),
        ("Enter", "detail"),
        ("Space", "pause"),
        ("Left/Right", "step"),
        ("s", "stall"),
        ("n", "next trouble"),
        ("/", "filter"),
        ("<>", "sort"),
        ("t", "groups"),
        ("p", "save"),
    ];
    for (key, word) in hints {
        if pen.left() < key.len() + word.len() + 3 {
            break;
        }
        pen.write(Ink::Strong, format!(" {key}")).write(Ink::Faint, format!(" {word} "));
    }
    if !state.filter.is_empty() {
        pen.right(Ink::Warn, &format!("filter: {} ", state.filter));
    }
}
