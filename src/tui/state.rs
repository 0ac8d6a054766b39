//! The state of the view: cursor, sorting, filter and panes, and the table's lines that follow.
#![forbid(unsafe_code)]

use super::theme::Theme;
use super::view::{PANES, Pane};
use crate::watch::{ChannelPicture, ChannelState, Model, Picture};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::ids::{NodeId, WorkerId};

/// The order of channels within their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortOrder {
    Channel,
    /// Stuck channels first, then waiting ones.
    Trouble,
    InFlight,
    HeadAge,
    Quiet,
    Posted,
    Rate,
    Tests,
    Errors,
}

impl SortOrder {
    pub(crate) const ALL: [Self; 9] = [
        Self::Channel,
        Self::Trouble,
        Self::InFlight,
        Self::HeadAge,
        Self::Quiet,
        Self::Posted,
        Self::Rate,
        Self::Tests,
        Self::Errors,
    ];

    fn compare(self, a: &ChannelPicture<'_>, b: &ChannelPicture<'_>) -> Ordering {
        match self {
            Self::Channel => Ordering::Equal,
            Self::Trouble => a.state.cmp(&b.state).then(b.quiet_ms.cmp(&a.quiet_ms)),
            Self::InFlight => b.in_flight().cmp(&a.in_flight()),
            Self::HeadAge => b.head_age_ms.cmp(&a.head_age_ms),
            Self::Quiet => b.quiet_ms.cmp(&a.quiet_ms),
            Self::Posted => b.now.posted.cmp(&a.now.posted),
            Self::Rate => b.bytes_per_s.total_cmp(&a.bytes_per_s),
            Self::Tests => b.tests_per_s.total_cmp(&a.tests_per_s),
            Self::Errors => b.now.rc_errors.cmp(&a.now.rc_errors),
        }
    }
}

/// The identity of a line of the table, which stays the same when lines move.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LineKey {
    Group { worker: WorkerId, device: i64 },
    Channel(ChannelKey),
}

/// A line of the table, as indices into a [`Picture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableLine {
    /// Heads the channels of one worker over one NIC.
    Group {
        node: usize,
        device: i64,
        open: bool,
    },
    /// Index of a channel in the picture's rows.
    Channel(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct ViewState {
    pub(crate) theme: Theme,
    /// The moment that is shown; `None` is now.
    pub(crate) at: Option<u64>,
    pub(crate) selected: Option<LineKey>,
    /// Index of the first visible line of the table.
    pub(crate) scroll: usize,
    pub(crate) sort: SortOrder,
    pub(crate) reversed: bool,
    pub(crate) grouped: bool,
    pub(crate) filter: String,
    /// Whether the filter is being typed.
    pub(crate) typing: bool,
    pub(crate) collapsed: BTreeSet<(WorkerId, i64)>,
    /// The pane in the lower half of the screen.
    pub(crate) pane: Option<&'static Pane>,
    pub(crate) zoomed: bool,
    pub(crate) help: bool,
    /// Number of log lines that the log pane is scrolled back by.
    pub(crate) lines_back: usize,
    /// A message in the footer, until the next key.
    pub(crate) notice: Option<String>,
    /// Row and column of the cursor in the matrix of a mesh.
    pub(crate) mesh_at: (usize, usize),
    /// The pair of a mesh that was opened; `None` shows the matrix.
    pub(crate) pair: Option<[NodeId; 2]>,
}

impl ViewState {
    pub(crate) fn new(theme: Theme) -> Self {
        Self {
            theme,
            at: None,
            selected: None,
            scroll: 0,
            sort: SortOrder::Channel,
            reversed: false,
            grouped: true,
            filter: String::new(),
            typing: false,
            collapsed: BTreeSet::new(),
            pane: PANES.first().copied(),
            zoomed: false,
            help: false,
            lines_back: 0,
            notice: None,
            mesh_at: (0, 1),
            pair: None,
        }
    }

    /// Whether the matrix of a mesh is shown.
    pub(crate) fn shows_matrix(&self, model: &Model) -> bool {
        model.is_mesh() && self.pair.is_none()
    }

    /// The picture that is shown: of all workers, or of the opened pair.
    pub(crate) fn picture<'a>(&self, model: &'a Model, now_ns: u64) -> Picture<'a> {
        Picture::of(model, self.at.unwrap_or(now_ns), self.pair)
    }

    /// The lines of the table after filtering and sorting.
    pub(crate) fn items(&self, picture: &Picture<'_>) -> Vec<TableLine> {
        let wanted = |place: &usize| self.passes(picture, &picture.rows[*place]);
        let mut places: Vec<usize> = (0..picture.rows.len()).filter(wanted).collect();
        let group = |place: &usize| (picture.rows[*place].node, picture.rows[*place].now.device);
        let order = |a: &usize, b: &usize| {
            let order = self.sort.compare(&picture.rows[*a], &picture.rows[*b]);
            let order = if self.reversed {
                order.reverse()
            } else {
                order
            };
            order.then(if self.reversed && self.sort == SortOrder::Channel {
                b.cmp(a)
            } else {
                a.cmp(b)
            })
        };
        if !self.grouped {
            places.sort_by(order);
            return places.into_iter().map(TableLine::Channel).collect();
        }
        places.sort_by(|a, b| group(a).cmp(&group(b)).then_with(|| order(a, b)));
        let mut items = Vec::with_capacity(places.len() + 16);
        let mut last = None;
        let mut open = true;
        for place in places {
            let (node, device) = group(&place);
            if last != Some((node, device)) {
                last = Some((node, device));
                open = !self.collapsed.contains(&(picture.nodes[node].id, device));
                items.push(TableLine::Group { node, device, open });
            }
            if open {
                items.push(TableLine::Channel(place));
            }
        }
        items
    }

    /// Whether a channel passes the filter: node, side, index, NIC and state together must
    /// contain every word of the filter.
    fn passes(&self, picture: &Picture<'_>, row: &ChannelPicture<'_>) -> bool {
        if self.filter.trim().is_empty() {
            return true;
        }
        let node = &picture.nodes[row.node];
        let nic = node.worker.nic(row.now.device).unwrap_or_default();
        let line = format!(
            "{} {} {} {nic} {}",
            node.name,
            row.now.side,
            row.now.index,
            doing(row.state)
        );
        let line = line.to_lowercase();
        self.filter
            .to_lowercase()
            .split_whitespace()
            .all(|word| line.contains(word))
    }

    pub(crate) fn key(&self, picture: &Picture<'_>, item: TableLine) -> LineKey {
        match item {
            TableLine::Group { node, device, .. } => LineKey::Group {
                worker: picture.nodes[node].id,
                device,
            },
            TableLine::Channel(place) => LineKey::Channel(picture.key(&picture.rows[place])),
        }
    }

    /// Index of the selected line. If no line is selected or the selected line is gone, the
    /// first stuck channel.
    pub(crate) fn cursor(&self, picture: &Picture<'_>, items: &[TableLine]) -> usize {
        let Some(selected) = &self.selected else {
            return default_place(picture, items);
        };
        let is = |item: &TableLine| match (item, selected) {
            (TableLine::Channel(place), LineKey::Channel(key)) => {
                let row = &picture.rows[*place];
                row.now.index == key.index
                    && row.now.side == key.side
                    && picture.nodes[row.node].id == key.worker
            }
            (
                TableLine::Group { node, device, .. },
                LineKey::Group {
                    worker,
                    device: theirs,
                },
            ) => device == theirs && picture.nodes[*node].id == *worker,
            _ => false,
        };
        items
            .iter()
            .position(is)
            .unwrap_or_else(|| default_place(picture, items))
    }

    /// The channel under the cursor.
    pub(crate) fn channel<'a, 'b>(
        &self,
        picture: &'b Picture<'a>,
        items: &[TableLine],
    ) -> Option<&'b ChannelPicture<'a>> {
        match items.get(self.cursor(picture, items))? {
            TableLine::Channel(place) => picture.rows.get(*place),
            TableLine::Group { .. } => None,
        }
    }
}

/// Index of the first stuck channel, or otherwise of the first channel.
fn default_place(picture: &Picture<'_>, items: &[TableLine]) -> usize {
    let is_stuck = |item: &TableLine| matches!(item, TableLine::Channel(place) if picture.rows[*place].state == ChannelState::Stuck);
    let is_channel = |item: &TableLine| matches!(item, TableLine::Channel(_));
    items
        .iter()
        .position(is_stuck)
        .or_else(|| items.iter().position(is_channel))
        .unwrap_or(0)
}

pub(crate) fn doing(state: ChannelState) -> &'static str {
    match state {
        ChannelState::Stuck => "stuck",
        ChannelState::Waiting => "waiting",
        ChannelState::Moving => "moving",
        ChannelState::Idle => "idle",
        ChannelState::Closed => "closed",
    }
}
