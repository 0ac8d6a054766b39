//! The table: a line for each channel, grouped by node and NIC, as many columns
//! as the width has room for.
//!
//! Cells are made for lines that are on the screen only.
#![forbid(unsafe_code)]

use crate::canvas::{Pen, age, count, gb};
use crate::state::{Item, Sort, ViewState};
use crate::theme::{Ink, Theme};
use crate::watch::{NodePicture, Picture, Row, State};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Slots of a comm; what the bar shows.
const SLOTS: usize = 16;
const SPARK_STEP_NS: u64 = 500_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
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

impl Column {
    /// In their order on the screen.
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

    /// Name, width, and when it is left out: the highest first.
    fn facts(self) -> (&'static str, usize, u8) {
        match self {
            Self::Name => ("channel", 9, 0),
            Self::Slots => ("slots", SLOTS, 1),
            Self::InFlight => ("fly", 4, 2),
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
            Self::Call => ("in call", 14, 12),
        }
    }

    fn sort(self) -> Option<Sort> {
        Some(match self {
            Self::Name => Sort::Channel,
            Self::Slots => Sort::Trouble,
            Self::InFlight => Sort::InFlight,
            Self::HeadAge => Sort::HeadAge,
            Self::Change => Sort::Quiet,
            Self::Posted => Sort::Posted,
            Self::Rate => Sort::Rate,
            Self::Tests => Sort::Tests,
            Self::Errors => Sort::Errors,
            _ => return None,
        })
    }

    fn is_left(self) -> bool {
        matches!(self, Self::Name | Self::Slots | Self::Spark | Self::Call)
    }
}

/// As many as fit, those left out first that matter least.
fn columns(width: usize) -> Vec<(Column, usize)> {
    let needs = |most: u8| -> usize {
        Column::ALL
            .iter()
            .map(|one| one.facts())
            .filter(|facts| facts.2 <= most)
            .map(|facts| facts.1 + 1)
            .sum()
    };
    let most = (0..=12)
        .rev()
        .find(|most| needs(*most) < width)
        .unwrap_or(0);
    let mut all: Vec<_> = Column::ALL
        .into_iter()
        .filter(|one| one.facts().2 <= most)
        .map(|one| (one, one.facts().1))
        .collect();
    // What is left over makes the history longer.
    let over = width.saturating_sub(needs(most) + 1).min(32);
    if let Some(spark) = all.iter_mut().find(|(column, _)| *column == Column::Spark) {
        spark.1 += over;
    }
    all
}

pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    state: &mut ViewState,
    picture: &Picture<'_>,
    items: &[Item],
) {
    if area.height == 0 {
        return;
    }
    let columns = columns(usize::from(area.width));
    head(buffer, area, state, &columns);
    let room = usize::from(area.height - 1).max(1);
    let cursor = state.cursor(picture, items);
    state.scroll = state.scroll.min(items.len().saturating_sub(room));
    state.scroll = state
        .scroll
        .clamp((cursor + 1).saturating_sub(room), cursor);
    // The group's own line stays in sight with its first channel.
    if state.scroll == cursor
        && cursor > 0
        && room > 1
        && matches!(items.get(cursor - 1), Some(Item::Group { .. }))
    {
        state.scroll -= 1;
    }
    for (line, item) in (1..area.height).zip(items.iter().skip(state.scroll)) {
        let is_selected = usize::from(line) - 1 + state.scroll == cursor;
        let pen = Pen::at(buffer, state.theme, area, line).selected(is_selected);
        match *item {
            Item::Group { node, device, open } => {
                group(pen, state.theme, picture, node, device, open)
            }
            Item::Channel(place) => channel(
                pen,
                state.theme,
                picture,
                &picture.rows[place],
                &columns,
                is_selected,
                state.grouped,
            ),
        }
    }
    if items.is_empty() && area.height > 1 {
        let why = if state.filter.is_empty() {
            "no channel yet"
        } else {
            "no channel matches the filter"
        };
        Pen::at(buffer, state.theme, area, 1).write(Ink::Faint, format!("  {why}"));
    }
}

fn head(buffer: &mut Buffer, area: Rect, state: &ViewState, columns: &[(Column, usize)]) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    pen.write(Ink::Title, " ");
    for (column, width) in columns {
        let mut name = column.facts().0.to_owned();
        let is_sorted =
            column.sort() == Some(state.sort) && (state.sort != Sort::Channel || state.reversed);
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
    let NodePicture { name, worker, .. } = &picture.nodes[node];
    let rows = picture
        .rows
        .iter()
        .filter(|row| row.node == node && row.now.device == device);
    let (mut channels, mut rate, mut stuck, mut waiting) = (0, 0.0, 0, 0);
    for row in rows {
        channels += 1;
        rate += row.bytes_per_s;
        stuck += usize::from(row.state == State::Stuck);
        waiting += usize::from(row.state == State::Waiting);
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
    row: &Row<'_>,
    columns: &[(Column, usize)],
    is_selected: bool,
    grouped: bool,
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
            Column::Slots => slots(&mut pen, theme, row),
            Column::Spark => spark(&mut pen, theme, picture, row, *width),
            Column::Name => {
                let name = if grouped {
                    format!("{} {:>3}", row.now.side, row.now.index)
                } else {
                    ungrouped_name(picture, row, *width)
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

/// `l:send  0`, `p:recv  1`; where the names of several nodes begin alike, with the
/// node's number in the header: `2:send  0`.
fn ungrouped_name(picture: &Picture<'_>, row: &Row<'_>, width: usize) -> String {
    let first = |node: &NodePicture<'_>| node.name.chars().next();
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

fn state_ink(state: State) -> Ink {
    match state {
        State::Stuck => Ink::Bad,
        State::Waiting => Ink::Warn,
        State::Moving => Ink::Plain,
        State::Idle | State::Closed => Ink::Faint,
    }
}

/// So that nothing is told by a colour alone.
fn mark(theme: Theme, state: State) -> &'static str {
    match (state, theme.ascii) {
        (State::Stuck, true) => "!",
        (State::Stuck, false) => "■",
        (State::Waiting, true) => "~",
        (State::Waiting, false) => "▲",
        _ => " ",
    }
}

/// Requests oldest first, then free slots.
pub(super) fn letters(row: &Row<'_>) -> String {
    if !row.now.requests.is_empty() || row.in_flight() == 0 {
        return row.now.requests.clone();
    }
    // A run recorded before the requests were: what the counters say.
    let done = row.done_unconsumed().min(SLOTS as u64) as usize;
    let posted = (row.in_flight().min(SLOTS as u64) as usize).saturating_sub(done);
    "d".repeat(done) + &"p".repeat(posted)
}

pub(super) fn slots(pen: &mut Pen<'_>, theme: Theme, row: &Row<'_>) {
    let stages: Vec<char> = letters(row)
        .chars()
        .chain(std::iter::repeat(' '))
        .take(SLOTS)
        .collect();
    // One word for each run of slots that look alike: writing has its price.
    for alike in stages.chunk_by(|a, b| a == b) {
        let (glyph, ink) = theme.slot(alike[0]);
        pen.write(ink, glyph.repeat(alike.len()));
    }
}

fn spark(pen: &mut Pen<'_>, theme: Theme, picture: &Picture<'_>, row: &Row<'_>, width: usize) {
    let history = picture.history(row, width, SPARK_STEP_NS);
    let most = history.iter().copied().fold(1.0, f64::max);
    let bars: String = history
        .iter()
        .map(|rate| theme.spark(rate / most))
        .collect();
    pen.write(Ink::Posted, format!("{bars:<width$}"));
}

fn cell(column: Column, width: usize, row: &Row<'_>) -> (String, Ink) {
    let now = row.now;
    let late = if row.in_flight() > 0 {
        state_ink(row.state)
    } else {
        Ink::Faint
    };
    match column {
        Column::InFlight => (
            row.in_flight().to_string(),
            if row.in_flight() >= SLOTS as u64 {
                Ink::Strong
            } else {
                Ink::Plain
            },
        ),
        Column::High => (now.in_flight_high_water.to_string(), Ink::Plain),
        Column::HeadAge => (row.head_age_ms.map_or_else(|| "-".into(), age), late),
        Column::Posted => (count(now.posted, width), Ink::Plain),
        Column::Done => (count(now.done, width), Ink::Plain),
        Column::Consumed => {
            let is_behind = !row.sends()
                && row.done_unconsumed() > 0
                && row.done_unconsumed() == row.in_flight();
            (
                count(now.consumed, width),
                if is_behind { Ink::Done } else { Ink::Plain },
            )
        }
        Column::Errors if now.rc_errors == 0 => ("0".into(), Ink::Faint),
        Column::Errors => (count(now.rc_errors, width), Ink::Bad),
        Column::Tests => (count(row.tests_per_s as u64, width), Ink::Plain),
        Column::NotDone => (
            row.not_done
                .map_or_else(|| "-".into(), |share| format!("{:.0}%", share * 100.0)),
            Ink::Plain,
        ),
        Column::Rate => (
            gb(row.bytes_per_s),
            if row.bytes_per_s > 0.0 {
                Ink::Strong
            } else {
                Ink::Faint
            },
        ),
        Column::Change if now.posted == 0 => ("-".into(), Ink::Faint),
        Column::Change => (age(row.quiet_ms), late),
        Column::Call => (now.in_call.clone().unwrap_or_default(), Ink::Warn),
        Column::Name | Column::Slots | Column::Spark => (String::new(), Ink::Plain),
    }
}
