//! Applies messages to the state of the view. Actions that need the terminal are returned as
//! effects.
#![forbid(unsafe_code)]

use super::keys::Message;
use super::state::{LineKey, SortOrder, TableLine, ViewState};
use super::view::{PANES, Pane, pane_of_channel};
use crate::watch::{ChannelState, Model};
use tcpx_run_model::ids::NodeId;

/// An action that needs the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Leave,
    Interrupt,
    Suspend,
    Redraw,
    Screenshot,
}

/// Applies a message. `now_ns` is the time of the newest data, and `page` is the height of a
/// page in lines.
pub(crate) fn update(
    state: &mut ViewState,
    model: &Model,
    message: Message,
    now_ns: u64,
    page: usize,
) -> Option<Effect> {
    state.notice = None;
    if state.help
        && !matches!(
            message,
            Message::Interrupt | Message::Suspend | Message::Redraw | Message::Screenshot
        )
    {
        state.help = false;
        return None;
    }
    if state.shows_matrix(model) && in_matrix(state, model, message, page) {
        return None;
    }
    match message {
        Message::Quit => return Some(Effect::Leave),
        Message::Interrupt => return Some(Effect::Interrupt),
        Message::Suspend => return Some(Effect::Suspend),
        Message::Redraw => return Some(Effect::Redraw),
        Message::Screenshot => return Some(Effect::Screenshot),
        Message::Help => state.help = true,
        Message::Up(by) => vertical(state, model, now_ns, -(by as isize)),
        Message::Down(by) => vertical(state, model, now_ns, by as isize),
        Message::PageUp => vertical(state, model, now_ns, -(page.max(1) as isize)),
        Message::PageDown => vertical(state, model, now_ns, page.max(1) as isize),
        Message::First => vertical(state, model, now_ns, isize::MIN / 2),
        Message::Last => vertical(state, model, now_ns, isize::MAX / 2),
        Message::Pause => {
            state.at = if state.at.is_some() {
                None
            } else {
                Some(now_ns)
            }
        }
        Message::Back(by) => (0..by).for_each(|_| step(state, model, now_ns, false)),
        Message::Forward(by) => (0..by).for_each(|_| step(state, model, now_ns, true)),
        Message::Oldest => state.at = model.timeline.span().map(|(first, _)| first),
        Message::Now => state.at = None,
        Message::ToStall => match model.timeline.stall_before(state.at.unwrap_or(now_ns)) {
            Some(at_ns) => state.at = Some(at_ns),
            None => state.notice = Some("no stall so far".into()),
        },
        Message::MarkBefore => to_mark(state, model, now_ns, false),
        Message::MarkAfter => to_mark(state, model, now_ns, true),
        Message::SortNext => state.sort = sort(state.sort, 1),
        Message::SortBefore => state.sort = sort(state.sort, SortOrder::ALL.len() - 1),
        Message::Reverse => state.reversed = !state.reversed,
        Message::Groups => state.grouped = !state.grouped,
        Message::Collapse => collapse(state, model, now_ns),
        Message::CollapseAll => collapse_all(state, model, now_ns),
        Message::NextTrouble => next_trouble(state, model, now_ns),
        Message::Show(pane) => state.pane = (state.pane != Some(pane)).then_some(pane),
        Message::NextPane => state.pane = next_pane(state.pane),
        Message::Open => open(state, model, now_ns),
        Message::Close => close(state),
        Message::Zoom => state.zoomed = !state.zoomed && state.pane.is_some(),
        Message::Filter => state.typing = true,
        Message::Type(c) if state.filter.len() < FILTER_MAX => state.filter.push(c),
        Message::Type(_) => {}
        Message::Erase => {
            state.filter.pop();
        }
        Message::Accept => state.typing = false,
        Message::Ascii => state.theme.ascii = !state.theme.ascii,
    }
    None
}

/// Moves the cursor of the matrix, or opens the pair under it. Returns whether the message was one
/// of the matrix.
fn in_matrix(state: &mut ViewState, model: &Model, message: Message, page: usize) -> bool {
    if state.zoomed {
        return false;
    }
    let last = model.state().names.nodes.len().saturating_sub(1);
    let (row, column) = &mut state.mesh_at;
    match message {
        Message::Up(by) => *row = row.saturating_sub(by),
        Message::Down(by) => *row = (*row + by).min(last),
        Message::PageUp => *row = row.saturating_sub(page.max(1)),
        Message::PageDown => *row = (*row + page.max(1)).min(last),
        Message::Back(by) => *column = column.saturating_sub(by),
        Message::Forward(by) => *column = (*column + by).min(last),
        Message::First => (*row, *column) = (0, 0),
        Message::Last => (*row, *column) = (last, last),
        Message::Open => {
            let ends = [*row, *column].map(|node| NodeId(node as u32));
            if model.mesh().directions.contains_key(&(ends[0], ends[1])) {
                state.pair = Some(ends);
                state.selected = None;
            } else {
                state.notice = Some("these two do not meet in this run".into());
            }
        }
        _ => return false,
    }
    true
}

const FILTER_MAX: usize = 80;

fn sort(now: SortOrder, by: usize) -> SortOrder {
    let place = SortOrder::ALL
        .iter()
        .position(|sort| *sort == now)
        .unwrap_or(0);
    SortOrder::ALL[(place + by) % SortOrder::ALL.len()]
}

/// The next pane of the list; no pane after the last one, and the first after no pane.
fn next_pane(pane: Option<&'static Pane>) -> Option<&'static Pane> {
    let Some(pane) = pane else {
        return PANES.first().copied();
    };
    let place = PANES.iter().position(|one| *one == pane)?;
    PANES.get(place + 1).copied()
}

/// Scrolls the pane if it is maximized and can scroll, otherwise moves the table's cursor.
fn vertical(state: &mut ViewState, model: &Model, now_ns: u64, by: isize) {
    if state.zoomed
        && let Some(lines) = state.pane.and_then(|pane| pane.lines)
    {
        state.lines_back = state
            .lines_back
            .saturating_add_signed(by.saturating_neg())
            .min(lines(model));
        return;
    }
    let picture = state.picture(model, now_ns);
    let items = state.items(&picture);
    let Some(last) = items.len().checked_sub(1) else {
        return;
    };
    let cursor = state
        .cursor(&picture, &items)
        .saturating_add_signed(by)
        .min(last);
    state.selected = Some(state.key(&picture, items[cursor]));
}

fn step(state: &mut ViewState, model: &Model, now_ns: u64, forward: bool) {
    let from = state.at.unwrap_or(now_ns);
    match model.timeline.step(from, forward) {
        Some(at_ns) => state.at = Some(at_ns),
        None if forward => state.at = None,
        None => {}
    }
}

fn to_mark(state: &mut ViewState, model: &Model, now_ns: u64, forward: bool) {
    let from = state.at.unwrap_or(now_ns);
    let mut times = model.timeline.marks.iter().map(|mark| mark.at_ns);
    match if forward {
        times.find(|at| *at > from)
    } else {
        times.rfind(|at| *at < from)
    } {
        Some(at_ns) => state.at = Some(at_ns),
        None if forward => state.at = None,
        None => state.notice = Some("no earlier mark".into()),
    }
}

fn collapse(state: &mut ViewState, model: &Model, now_ns: u64) {
    let picture = state.picture(model, now_ns);
    let items = state.items(&picture);
    let Some(item) = items.get(state.cursor(&picture, &items)) else {
        return;
    };
    let (node, device) = match *item {
        TableLine::Group { node, device, .. } => (node, device),
        TableLine::Channel(place) => (picture.rows[place].node, picture.rows[place].now.device),
    };
    let worker = picture.nodes[node].id;
    state.selected = Some(LineKey::Group { worker, device });
    if !state.collapsed.remove(&(worker, device)) {
        state.collapsed.insert((worker, device));
    }
}

fn collapse_all(state: &mut ViewState, model: &Model, now_ns: u64) {
    if !state.collapsed.is_empty() {
        return state.collapsed.clear();
    }
    let picture = state.picture(model, now_ns);
    let groups = picture
        .rows
        .iter()
        .map(|row| (picture.nodes[row.node].id, row.now.device));
    state.collapsed = groups.collect();
}

fn next_trouble(state: &mut ViewState, model: &Model, now_ns: u64) {
    let picture = state.picture(model, now_ns);
    let items = state.items(&picture);
    let cursor = state.cursor(&picture, &items);
    let is_bad = |item: &&TableLine| match item {
        TableLine::Channel(place) => {
            let row = &picture.rows[*place];
            matches!(row.state, ChannelState::Stuck | ChannelState::Waiting)
                || row.now.rc_errors > 0
        }
        TableLine::Group { .. } => false,
    };
    let after = items.iter().skip(cursor + 1).chain(&items).find(is_bad);
    match after {
        Some(item) => state.selected = Some(state.key(&picture, *item)),
        None => state.notice = Some("no channel is stuck, waiting or failing".into()),
    }
}

/// Enter on a group opens or closes the group, on a channel it shows the channel's details.
fn open(state: &mut ViewState, model: &Model, now_ns: u64) {
    let picture = state.picture(model, now_ns);
    let items = state.items(&picture);
    match items.get(state.cursor(&picture, &items)) {
        Some(TableLine::Group { .. }) => collapse(state, model, now_ns),
        Some(item) => {
            state.selected = Some(state.key(&picture, *item));
            state.pane = pane_of_channel();
        }
        None => {}
    }
}

fn close(state: &mut ViewState) {
    if state.typing {
        state.typing = false;
        state.filter.clear();
    } else if state.zoomed {
        state.zoomed = false;
    } else if state.pane.is_some_and(|pane| pane.is_of_channel) {
        state.pane = PANES.first().copied();
    } else if !state.filter.is_empty() {
        state.filter.clear();
    } else if state.at.is_some() {
        state.at = None;
    } else {
        state.pair = None;
    }
}
