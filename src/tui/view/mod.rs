//! A model and what is chosen, drawn. Pure: the same in a test as on a terminal.
//!
//! A pane is a file here that has a `PANE`, and its place in `PANES`.
#![forbid(unsafe_code)]

mod channels;
mod detail;
mod findings;
mod header;
mod help;
mod log;

use super::canvas::Pen;
use super::state::{Item, ViewState};
use super::theme::Ink;
use crate::watch::{Model, Picture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::record::live::ChannelKey;

/// Every pane of the lower half of the screen: keys and help are made from this list.
/// The first is shown at the beginning.
pub(crate) static PANES: &[&Pane] = &[&log::PANE, &findings::PANE, &detail::PANE];

/// A part of the lower half of the screen, one at a time.
#[derive(Debug)]
pub(crate) struct Pane {
    /// Shows it, or hides it where it is shown: one that `keys.rs` has no other use for.
    pub(crate) key: char,
    /// What it shows, for the help.
    pub(crate) shows: &'static str,
    /// It shows the channel under the cursor: Enter opens it, and the source is asked
    /// for that channel's details.
    pub(crate) is_of_channel: bool,
    /// Lines that there are to scroll through where it is alone on the screen.
    pub(crate) lines: Option<fn(&Model) -> usize>,
    /// Its share of the lines between header and footer.
    height: fn(u16) -> u16,
    draw: fn(&mut Buffer, Rect, &Scene<'_>),
}

impl PartialEq for Pane {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Pane {}

/// The pane that shows the channel under the cursor.
pub(crate) fn pane_of_channel() -> Option<&'static Pane> {
    PANES.iter().copied().find(|pane| pane.is_of_channel)
}

/// What panes draw.
struct Scene<'a> {
    model: &'a Model,
    state: &'a ViewState,
    picture: &'a Picture<'a>,
    /// Lines of the table.
    items: &'a [Item],
}

/// What was drawn.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    /// Lines of the table that there was room for.
    pub(crate) page: usize,
    /// The channel that is shown closely as it is now.
    pub(crate) focus: Option<ChannelKey>,
}

/// Draws everything; `now_ns` is as late as anything is known.
pub(crate) fn view(
    model: &Model,
    state: &mut ViewState,
    now_ns: u64,
    buffer: &mut Buffer,
) -> Drawn {
    let area = buffer.area;
    let picture = Picture::at(model, state.at.unwrap_or(now_ns));
    let header = header::height(&picture, area);
    let [top, rest] = split(area, header);
    let [middle, bottom] = split(rest, rest.height.saturating_sub(1));
    header::draw(buffer, top, model, state, &picture, now_ns);
    let pane_height = match state.pane {
        None => 0,
        Some(_) if state.zoomed => middle.height,
        Some(pane) => (pane.height)(middle.height).min(middle.height),
    };
    let [table, below] = split(middle, middle.height - pane_height);
    let items = state.items(&picture);
    channels::draw(buffer, table, state, &picture, &items);
    if let Some(pane) = state.pane
        && below.height > 0
    {
        (pane.draw)(
            buffer,
            below,
            &Scene {
                model,
                state,
                picture: &picture,
                items: &items,
            },
        );
    }
    footer(buffer, bottom, state);
    if state.help {
        help::draw(buffer, area, state.theme);
    }
    let is_close = state.at.is_none() && state.pane.is_some_and(|pane| pane.is_of_channel);
    let focused = if is_close {
        state.channel(&picture, &items)
    } else {
        None
    };
    Drawn {
        page: usize::from(table.height.saturating_sub(1)),
        focus: focused.map(|row| picture.key(row)),
    }
}

/// Of panes that are lists of lines.
fn a_third(lines: u16) -> u16 {
    (lines / 3).clamp(3.min(lines), 16)
}

fn split(area: Rect, at: u16) -> [Rect; 2] {
    let at = at.min(area.height);
    [
        Rect { height: at, ..area },
        Rect {
            y: area.y + at,
            height: area.height - at,
            ..area
        },
    ]
}

/// A rule with a title in it, at the top of a pane; what is left below.
fn frame(buffer: &mut Buffer, area: Rect, state: &ViewState, title: &str, right: &str) -> Rect {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    let rule = state.theme.rule();
    pen.write(Ink::Faint, rule)
        .write(Ink::Faint, rule)
        .write(Ink::Title, format!(" {title} "));
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
        pen.write(Ink::Title, " filter: ")
            .write(Ink::Strong, &state.filter)
            .write(Ink::Strong, "_");
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
        pen.write(Ink::Strong, format!(" {key}"))
            .write(Ink::Faint, format!(" {word} "));
    }
    if !state.filter.is_empty() {
        pen.right(Ink::Warn, &format!("filter: {} ", state.filter));
    }
}
