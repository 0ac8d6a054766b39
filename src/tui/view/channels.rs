//! The table of channels, grouped by worker and NIC, with as many columns as the width allows.
//!
//! Cells are made only for the lines on the screen.
#![forbid(unsafe_code)]

use crate::canvas::{Pen, age, count, gb};
use crate::state::{SortOrder, TableLine, ViewState};
use crate::theme::{Ink, Theme};
use crate::watch::{ChannelPicture, ChannelState, Picture, WorkerPicture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Request slots of a comm, which the `slots` column shows.
const SLOTS: usize = 16;
const SPARK_STEP_NS: u64 = 500_000_000;
/// Width of the name column, unless it shows full names.
const NAME_WIDTH: usize = 9;
/// Highest rank of a column.
const RANK_MAX: u8 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableColumn {
    Name,
    Slots,
    InFlight,
    High,
    HeadAge,
    Posted,
    Done,
    Consumed,
    Errors,
    Tests,
    NotDone,
    Rate,
    Spark,
    Change,
    Call,
}

impl TableColumn {
    /// Every column, in the order on the screen.
    const ALL: [Self; 15] = [
        Self::Name,
        Self::Slots,
        Self::InFlight,
        Self::High,
        Self::HeadAge,
        Self::Posted,
        Self::Done,
        Self::Consumed,
        Self::Rate,
        Self::Spark,
        Self::Tests,
        Self::NotDone,
        Self::Errors,
        Self::Change,
        Self::Call,
    ];

    /// Name, width and rank. On a narrow screen the columns with the highest rank are omitted.
    fn facts(self) -> (&'static str, usize, u8) {
        match self {
            Self::Name => ("channel", NAME_WIDTH, 0),
            Self::Slots => ("slots", SLOTS, 1),
            Self::InFlight => ("infl", 4, 2),
            Self::HeadAge => ("head", 6, 3),
            Self::Posted => ("posted", 8, 4),
            Self::Done => ("done", 8, 4),
            Self::Consumed => ("consumed", 8, 4),
            Self::Rate => ("GB/s", 5, 5),
            Self::Change => ("change", 6, 6),
            Self::Errors => ("rc!=0", 5, 7),
            Self::Spark => ("", 8, 8),
            Self::NotDone => ("done=0", 6, 9),
            Self::High => ("high", 4, 10),
            Self::Tests => ("tests/s", 7, 11),
            Self::Call => ("in call", 14, RANK_MAX),
        }
    }

    fn sort(self) -> Option<SortOrder> {
        Some(match self {
            Self::Name => SortOrder::Channel,
            Self::Slots => SortOrder::Trouble,
            Self::InFlight => SortOrder::InFlight,
            Self::HeadAge => SortOrder::HeadAge,
            Self::Change => SortOrder::Quiet,
            Self::Posted => SortOrder::Posted,
            Self::Rate => SortOrder::Rate,
            Self::Tests => SortOrder::Tests,
            Self::Errors => SortOrder::Errors,
            _ => return None,
        })
    }

    fn is_left(self) -> bool {
        matches!(self, Self::Name | Self::Slots | Self::Spark | Self::Call)
    }
}

/// The columns that fit, with their widths.
fn columns(width: usize, name_width: usize) -> Vec<(TableColumn, usize)> {
    let up_to = |rank: u8| -> Vec<(TableColumn, usize)> {
        let mut columns = Vec::new();
        for column in TableColumn::ALL {
            let (_, width, own_rank) = column.facts();
            if column == TableColumn::Name {
                columns.push((column, name_width));
            } else if own_rank <= rank {
                columns.push((column, width));
            }
        }
        columns
    };
    let needs = |columns: &[(TableColumn, usize)]| -> usize {
        columns.iter().map(|(_, width)| width + 1).sum()
    };
    let mut all = (0..=RANK_MAX)
        .rev()
        .map(up_to)
        .find(|columns| needs(columns) < width)
        .unwrap_or_else(|| up_to(0));
    // The spark line uses the remaining width.
    let over = width.saturating_sub(needs(&all) + 1).min(32);
    if let Some(spark) = all
        .iter_mut()
        .find(|(column, _)| *column == TableColumn::Spark)
    {
        spark.1 += over;
    }
    all
}

/// Draws the table; without a channel, `without` says why.
pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    state: &mut ViewState,
    picture: &Picture<'_>,
    items: &[TableLine],
    without: &str,
) {
    if area.height == 0 {
        return;
    }
    let full_name = if state.grouped {
        None
    } else {
        full_name_width(picture, usize::from(area.width))
    };
    let columns = columns(usize::from(area.width), full_name.unwrap_or(NAME_WIDTH));
    head(buffer, area, state, &columns);
    let room = usize::from(area.height - 1).max(1);
    let cursor = state.cursor(picture, items);
    state.scroll = state.scroll.min(items.len().saturating_sub(room));
    state.scroll = state
        .scroll
        .clamp((cursor + 1).saturating_sub(room), cursor);
    // The first line is kept for the group's head, so that it says whose channels these are.
    if state.grouped
        && state.scroll == cursor
        && cursor > 0
        && room > 1
        && matches!(items.get(cursor), Some(TableLine::Channel(_)))
    {
        state.scroll -= 1;
    }
    for (line, item) in (1..area.height).zip(items.iter().skip(state.scroll)) {
        let is_selected = usize::from(line) - 1 + state.scroll == cursor;
        let item = if state.grouped && line == 1 && room > 1 {
            group_of(items, state.scroll).unwrap_or(item)
        } else {
            item
        };
        let pen = Pen::at(buffer, state.theme, area, line).selected(is_selected);
        match *item {
            TableLine::Group { node, device, open } => {
                group(pen, state.theme, picture, node, device, open)
            }
            TableLine::Channel(place) => channel(
                pen,
                state.theme,
                picture,
                &picture.rows[place],
                &columns,
                is_selected,
                match (state.grouped, full_name) {
                    (true, _) => ChannelName::InGroup,
                    (false, Some(_)) => ChannelName::Full,
                    (false, None) => ChannelName::Short,
                },
            ),
        }
    }
    if items.is_empty() && area.height > 1 {
        let why = if state.filter.is_empty() {
            without
        } else {
            "no channel matches the filter"
        };
        Pen::at(buffer, state.theme, area, 1).write(Ink::Faint, format!("  {why}"));
    }
}

/// The head of the group that a line of the table belongs to.
fn group_of(items: &[TableLine], line: usize) -> Option<&TableLine> {
    let above = items.get(..=line)?;
    let is_group = |item: &&TableLine| matches!(item, TableLine::Group { .. });
    above.iter().rev().find(is_group)
}

/// Width of the longest full name of a channel, if all full names fit in a fifth of the screen.
fn full_name_width(picture: &Picture<'_>, screen: usize) -> Option<usize> {
    let width = |row: &ChannelPicture<'_>| {
        let node = picture.nodes[row.node].name.chars().count();
        let index = row.now.index.to_string().len().max(3);
        node + 1 + row.now.side.word().len() + index
    };
    let longest = picture.rows.iter().map(width).max()?;
    (longest <= screen / 5).then_some(longest.max(NAME_WIDTH))
}

fn head(buffer: &mut Buffer, area: Rect, state: &ViewState, columns: &[(TableColumn, usize)]) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    pen.write(Ink::Title, " ");
    for (column, width) in columns {
        let mut name = column.facts().0.to_owned();
        let is_sorted = column.sort() == Some(state.sort)
            && (state.sort != SortOrder::Channel || state.reversed);
        if is_sorted {
            name.push_str(if state.reversed {
                state.theme.up()
            } else {
                state.theme.down()
            });
        }
        let ink = if is_sorted { Ink::Strong } else { Ink::Title };
        let name: String = name.chars().take(*width + 1).collect();
        pen.write(
            ink,
            if column.is_left() {
                format!("{name:<width$} ")
            } else {
                format!("{name:>width$} ")
            },
        );
    }
}

fn group(
    mut pen: Pen<'_>,
    theme: Theme,
    picture: &Picture<'_>,
    node: usize,
    device: i64,
    open: bool,
) {
    let WorkerPicture { name, worker, .. } = &picture.nodes[node];
    let rows = picture
        .rows
        .iter()
        .filter(|row| row.node == node && row.now.device == device);
    let (mut channels, mut rate, mut stuck, mut waiting) = (0, 0.0, 0, 0);
    for row in rows {
        channels += 1;
        rate += row.bytes_per_s;
        stuck += usize::from(row.state == ChannelState::Stuck);
        waiting += usize::from(row.state == ChannelState::Waiting);
    }
    let nic = match worker.nic(device) {
        Some(nic) => nic.to_owned(),
        None if device < 0 => "device unknown".to_owned(),
        None => format!("device {device}"),
    };
    pen.write(
        Ink::Faint,
        format!(" {} ", if open { theme.open() } else { theme.shut() }),
    );
    pen.write(Ink::Strong, format!("{name} {} {nic}", theme.dot()));
    pen.write(
        Ink::Faint,
        format!(
            "  {channels} {}  {} GB/s",
            if channels == 1 { "channel" } else { "channels" },
            gb(rate)
        ),
    );
    if stuck > 0 {
        pen.write(Ink::Bad, format!("  {stuck} stuck"));
    }
    if waiting > 0 {
        pen.write(Ink::Warn, format!("  {waiting} waiting"));
    }
}

fn channel(
    mut pen: Pen<'_>,
    theme: Theme,
    picture: &Picture<'_>,
    row: &ChannelPicture<'_>,
    columns: &[(TableColumn, usize)],
    is_selected: bool,
    name: ChannelName,
) {
    let ink = state_ink(row.state);
    pen.write(
        ink,
        if is_selected {
            theme.cursor()
        } else {
            mark(theme, row.state)
        },
    );
    for (column, width) in columns {
        match column {
            TableColumn::Slots => slots(&mut pen, theme, row),
            TableColumn::Spark => spark(&mut pen, theme, picture, row, *width),
            TableColumn::Name => {
                let (side, index) = (row.now.side, row.now.index);
                let name = match name {
                    ChannelName::InGroup => format!("{side} {index:>3}"),
                    ChannelName::Full => {
                        format!("{} {side}{index:>3}", picture.nodes[row.node].name)
                    }
                    ChannelName::Short => short_name(picture, row, *width),
                };
                pen.write(
                    ink,
                    format!("{:<width$}", name.chars().take(*width).collect::<String>()),
                );
            }
            _ => {
                let (text, ink) = cell(*column, *width, row);
                pen.write(
                    ink,
                    if column.is_left() {
                        format!("{text:<width$}")
                    } else {
                        format!("{text:>width$}")
                    },
                );
            }
        };
        pen.write(Ink::Plain, " ");
    }
}

/// The form of a channel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelName {
    /// `send   0`, below the head of its group.
    InGroup,
    /// `local send  0`.
    Full,
    /// `l:send  0`.
    Short,
}

/// A name with the first letter of the worker, such as `l:send  0`. If the names of several
/// workers begin with the same letter, with the number of the worker's line in the header.
fn short_name(picture: &Picture<'_>, row: &ChannelPicture<'_>, width: usize) -> String {
    let first = |node: &WorkerPicture<'_>| node.name.chars().next();
    let mine = first(&picture.nodes[row.node]);
    let alike = picture
        .nodes
        .iter()
        .filter(|node| first(node) == mine)
        .count();
    let node = match mine {
        Some(letter) if alike == 1 => letter.to_string(),
        _ => (row.node + 1).to_string(),
    };
    let (side, index) = (row.now.side.word(), row.now.index);
    let name = format!("{node}:{side}{index:>3}");
    if name.chars().count() <= width {
        name
    } else {
        format!("{node}:{}{index:>3}", &side[..1])
    }
}

fn state_ink(state: ChannelState) -> Ink {
    match state {
        ChannelState::Stuck => Ink::Bad,
        ChannelState::Waiting => Ink::Warn,
        ChannelState::Moving => Ink::Plain,
        ChannelState::Idle | ChannelState::Closed => Ink::Faint,
    }
}

/// A glyph for the state, so that it does not depend on colour alone.
fn mark(theme: Theme, state: ChannelState) -> &'static str {
    match (state, theme.ascii) {
        (ChannelState::Stuck, true) => "!",
        (ChannelState::Stuck, false) => "■",
        (ChannelState::Waiting, true) => "~",
        (ChannelState::Waiting, false) => "▲",
        _ => " ",
    }
}

/// One letter for each request in flight, oldest first.
pub(super) fn letters(row: &ChannelPicture<'_>) -> String {
    if !row.now.requests.is_empty() || row.in_flight() == 0 {
        return row.now.requests.clone();
    }
    // Older records have no requests, so the letters follow from the counters.
    let done = row.done_unconsumed().min(SLOTS as u64) as usize;
    let posted = (row.in_flight().min(SLOTS as u64) as usize).saturating_sub(done);
    "d".repeat(done) + &"p".repeat(posted)
}

pub(super) fn slots(pen: &mut Pen<'_>, theme: Theme, row: &ChannelPicture<'_>) {
    let stages: Vec<char> = letters(row)
        .chars()
        .chain(std::iter::repeat(' '))
        .take(SLOTS)
        .collect();
    // Equal slots are written in one call, because every call has a cost.
    for alike in stages.chunk_by(|a, b| a == b) {
        let (glyph, ink) = theme.slot(alike[0]);
        pen.write(ink, glyph.repeat(alike.len()));
    }
}

fn spark(
    pen: &mut Pen<'_>,
    theme: Theme,
    picture: &Picture<'_>,
    row: &ChannelPicture<'_>,
    width: usize,
) {
    let history = picture.history(row, width, SPARK_STEP_NS);
    let most = history.iter().copied().fold(1.0, f64::max);
    let bars: String = history
        .iter()
        .map(|rate| theme.spark(rate / most))
        .collect();
    pen.write(Ink::Posted, format!("{bars:<width$}"));
}

fn cell(column: TableColumn, width: usize, row: &ChannelPicture<'_>) -> (String, Ink) {
    let now = row.now;
    let late = if row.in_flight() > 0 {
        state_ink(row.state)
    } else {
        Ink::Faint
    };
    match column {
        TableColumn::InFlight => (
            row.in_flight().to_string(),
            if row.in_flight() >= SLOTS as u64 {
                Ink::Strong
            } else {
                Ink::Plain
            },
        ),
        TableColumn::High => (now.in_flight_high_water.to_string(), Ink::Plain),
        TableColumn::HeadAge => (row.head_age_ms.map_or_else(|| "-".into(), age), late),
        TableColumn::Posted => (count(now.posted, width), Ink::Plain),
        TableColumn::Done => (count(now.done, width), Ink::Plain),
        TableColumn::Consumed => {
            let is_behind = !row.sends()
                && row.done_unconsumed() > 0
                && row.done_unconsumed() == row.in_flight();
            (
                count(now.consumed, width),
                if is_behind { Ink::Done } else { Ink::Plain },
            )
        }
        TableColumn::Errors if now.rc_errors == 0 => ("0".into(), Ink::Faint),
        TableColumn::Errors => (count(now.rc_errors, width), Ink::Bad),
        TableColumn::Tests => (count(row.tests_per_s as u64, width), Ink::Plain),
        TableColumn::NotDone => (
            row.not_done
                .map_or_else(|| "-".into(), |share| format!("{:.0}%", share * 100.0)),
            Ink::Plain,
        ),
        TableColumn::Rate => (
            gb(row.bytes_per_s),
            if row.bytes_per_s > 0.0 {
                Ink::Strong
            } else {
                Ink::Faint
            },
        ),
        TableColumn::Change if now.posted == 0 => ("-".into(), Ink::Faint),
        TableColumn::Change => (age(row.quiet_ms), late),
        TableColumn::Call => (now.in_call.clone().unwrap_or_default(), Ink::Warn),
        TableColumn::Name | TableColumn::Slots | TableColumn::Spark => (String::new(), Ink::Plain),
    }
}
