//! Draws the model and the state of the view to a buffer, without any other input, so that a
//! test sees what a terminal shows.
//!
//! A pane is a file of this folder with a `PANE`, which `PANES` lists.
#![forbid(unsafe_code)]

mod channels;
mod detail;
mod findings;
mod header;
mod help;
mod log;
mod mesh;

use super::canvas::Pen;
use super::state::{TableLine, ViewState};
use super::theme::Ink;
use crate::watch::{Model, Picture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::counters::ChannelKey;

/// Every pane of the lower half of the screen. Keys and help are made from this list. The first
/// pane is shown at the start.
pub(crate) static PANES: &[&Pane] = &[&log::PANE, &findings::PANE, &detail::PANE];

/// A pane of the lower half of the screen, which shows one pane at a time.
#[derive(Debug)]
pub(crate) struct Pane {
    /// The key that shows or hides the pane. `keys.rs` must not use it otherwise.
    pub(crate) key: char,
    /// The pane's contents, for the help.
    pub(crate) shows: &'static str,
    /// Whether the pane shows the channel under the cursor. Enter opens such a pane, and the
    /// source is asked for the channel's details.
    pub(crate) is_of_channel: bool,
    /// The number of lines to scroll through, if the pane can scroll when maximized.
    pub(crate) lines: Option<fn(&Model) -> usize>,
    /// The pane's height, given the number of lines between header and footer.
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

/// The input of a pane's `draw`.
struct Scene<'a> {
    model: &'a Model,
    state: &'a ViewState,
    picture: &'a Picture<'a>,
    /// The lines of the table.
    items: &'a [TableLine],
}

/// The result of drawing a frame.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    /// Number of table lines on the screen.
    pub(crate) page: usize,
    /// The channel whose live details are shown.
    pub(crate) focus: Option<ChannelKey>,
}

/// Draws the whole screen. `now_ns` is the time of the newest data.
pub(crate) fn view(
    model: &Model,
    state: &mut ViewState,
    now_ns: u64,
    buffer: &mut Buffer,
) -> Drawn {
    let area = buffer.area;
    let picture = state.picture(model, now_ns);
    let is_matrix = state.shows_matrix(model);
    let header = match is_matrix {
        true => header::ALONE,
        false => header::height(&picture, area),
    };
    let [top, rest] = split(area, header);
    let [middle, bottom] = split(rest, rest.height.saturating_sub(1));
    header::draw(buffer, top, model, state, &picture, now_ns);
    if is_matrix {
        mesh::banner(buffer, top, model, state);
    }
    let pane_height = match state.pane {
        None => 0,
        Some(_) if state.zoomed => middle.height,
        Some(pane) => (pane.height)(middle.height).min(middle.height),
    };
    let [table, below] = split(middle, middle.height - pane_height);
    let items = state.items(&picture);
    if is_matrix {
        mesh::draw(buffer, table, model, state);
    } else {
        let without = match picture.waits {
            true => "this pair has not started: its round comes later",
            false => "no recorded channel yet",
        };
        channels::draw(buffer, table, state, &picture, &items, without);
    }
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
    footer(buffer, bottom, state, is_matrix);
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

/// The height of panes that list lines.
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

/// Draws the rule with the title at the top of a pane, and returns the area below.
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

fn footer(buffer: &mut Buffer, area: Rect, state: &ViewState, is_matrix: bool) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    if state.typing {
        pen.write(Ink::Title, " filter: ")
            .write(Ink::Strong, &state.filter)
            .write(Ink::Strong, "_");
        pen.right(Ink::Faint, "Enter applies, Esc clears ");
        return;
    }
    if let Some(notice) = &state.notice {
        pen.write(Ink::Strong, format!(" {notice}"));
        return;
    }
    let of_matrix = [
        ("q", "quit"),
        ("?", "help"),
        ("Arrows", "move"),
        ("Enter", "open the pair"),
        ("f", "findings"),
        ("l", "log"),
        ("p", "save"),
    ];
    let of_table = [
        ("q", "quit"),
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
    let hints = if is_matrix {
        &of_matrix[..]
    } else {
        &of_table[..]
    };
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
