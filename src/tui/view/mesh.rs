//! The matrix of a mesh: a row for each sender, a column for each receiver. Enter opens the pair
//! under the cursor as two nodes.
//!
//! With more nodes than fit, a cell is a block of neighbours and shows its worst direction.
#![forbid(unsafe_code)]

use super::{frame, split};
use crate::canvas::Pen;
use crate::state::ViewState;
use crate::theme::{Ink, Theme};
use crate::watch::{DirectionNow, MeshNow, Model};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::ids::NodeId;
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

/// Lines of the header that names the columns by their last letters.
const HEADS: u16 = 2;
/// Fewest lines below the matrix: the pair under the cursor, and a few suspects.
const BELOW: u16 = 5;
/// Longest name of a row.
const NAME_MAX: usize = 16;

/// Draws the matrix and what is known below it.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState) {
    let now = model.mesh();
    let median = now
        .median
        .map_or(String::new(), |rate| format!(", median {rate:.2} GB/s"));
    let title = format!("mesh: {} of {} pairs{median}", now.ended, now.pairs);
    let running = format!("{} running, {} failed", now.running, now.failed);
    let inside = frame(buffer, area, state, &title, &running);
    let room = inside.height - BELOW.min(inside.height / 3);
    let nodes = model.state().names.nodes.len();
    let needed = HEADS.saturating_add(u16::try_from(nodes).unwrap_or(u16::MAX));
    let [matrix, below] = split(inside, room.min(needed));
    cells(buffer, matrix, model, state);
    about(buffer, below, model, state);
}

/// The line below the title: the state of the run as a whole. Of a single worker that ended or
/// waits, as the banner of two nodes tells it, there are always some.
pub(super) fn banner(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState) {
    let now = model.mesh();
    let (ink, text) = match &model.state().ended {
        Some(ended) if ended.outcome == Outcome::Passed => {
            let (ink, found) = match now.suspects.len() {
                0 => (Ink::GoodBanner, String::new()),
                1 => (Ink::WarnBanner, ", 1 part stands out".to_owned()),
                parts => (Ink::WarnBanner, format!(", {parts} parts stand out")),
            };
            (ink, format!("PASSED  {} pairs{found}", now.pairs))
        }
        Some(ended) => {
            let word = ended.outcome.to_string().to_uppercase();
            let reason = ended.reason.as_deref().unwrap_or_default();
            (Ink::BadBanner, format!("{word}  {reason}"))
        }
        None if now.failed > 0 => {
            let failed = counted(now.failed, "pair");
            (
                Ink::WarnBanner,
                format!("RUNS  {failed} failed, marked in the matrix"),
            )
        }
        None if now.suspects.is_empty() => (Ink::QuietBanner, "RUNS".to_owned()),
        None => {
            let suspects = counted(now.suspects.len(), "suspect");
            (Ink::WarnBanner, format!("RUNS  {suspects} so far"))
        }
    };
    Pen::at(buffer, state.theme, area, 1)
        .write(ink, format!(" {text} "))
        .fill(ink, " ");
}

/// Which nodes share a row and a column.
fn block_size(nodes: usize, rows: usize, columns: usize) -> usize {
    nodes.div_ceil(rows.min(columns).max(1)).max(1)
}

fn cells(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState) {
    let names: Vec<&str> = model
        .state()
        .names
        .nodes
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let label = longest.min(NAME_MAX);
    let room = usize::from(area.width).saturating_sub(label + 3);
    let wide = if names.len() * 2 <= room { 2 } else { 1 };
    let rows = usize::from(area.height.saturating_sub(HEADS));
    let block = block_size(names.len(), rows, room / wide);
    let blocks = names.len().div_ceil(block);
    let (at_row, at_column) = (state.mesh_at.0 / block, state.mesh_at.1 / block);
    let shared = shared_start(&names);
    for line in 0..HEADS.min(area.height) {
        let mut pen = Pen::at(buffer, state.theme, area, line);
        pen.write(Ink::Faint, " ".repeat(label + 3));
        for column in 0..blocks {
            let own: Vec<char> = names[column * block].chars().skip(shared).collect();
            let place = own.len().checked_sub(usize::from(HEADS - line));
            let letter = place.map_or(' ', |place| own[place]);
            let letter = if letter.is_alphanumeric() {
                letter
            } else {
                ' '
            };
            let ink = if column == at_column {
                Ink::Strong
            } else {
                Ink::Faint
            };
            pen.write(ink, format!("{letter:<wide$}"));
        }
    }
    for row in 0..blocks.min(rows) {
        let mut pen = Pen::at(buffer, state.theme, area, HEADS + row as u16);
        let is_here = row == at_row;
        let ink = if is_here { Ink::Strong } else { Ink::Plain };
        let name: String = names[row * block].chars().take(NAME_MAX).collect();
        pen.write(ink, format!(" {name:>label$}  "));
        for column in 0..blocks {
            let worst = worst(model.mesh(), row, column, block);
            let (glyph, ink) = glyph(state.theme, worst);
            let ink = if is_here && column == at_column {
                Ink::Selected
            } else {
                ink
            };
            pen.write(ink, format!("{glyph:<wide$}"));
        }
    }
}

/// How many letters all names begin with, without those of a number.
fn shared_start(names: &[&str]) -> usize {
    let Some((first, rest)) = names.split_first() else {
        return 0;
    };
    let pairs = |name: &&str| {
        name.chars()
            .zip(first.chars())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let alike = rest.iter().map(pairs).min().unwrap_or(0);
    let shared: String = first.chars().take(alike).collect();
    shared
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .chars()
        .count()
}

/// The worst direction of a block; `None` for a node with itself.
fn worst(now: &MeshNow, row: usize, column: usize, block: usize) -> Option<DirectionNow> {
    let nodes = |at: usize| (at * block..(at + 1) * block).map(|node| NodeId(node as u32));
    let all = nodes(row).flat_map(|from| nodes(column).map(move |to| (from, to)));
    let known = all.filter_map(|ends| now.directions.get(&ends).map(|one| one.now()));
    let rank = |now: &DirectionNow| match now {
        DirectionNow::Failed => -2.0,
        DirectionNow::Running => -1.0,
        DirectionNow::Share(share) => *share,
        DirectionNow::Waiting => f64::MAX,
    };
    known.min_by(|one, other| rank(one).total_cmp(&rank(other)))
}

fn glyph(theme: Theme, now: Option<DirectionNow>) -> (&'static str, Ink) {
    let either = |unicode, ascii| if theme.ascii { ascii } else { unicode };
    match now {
        None => (" ", Ink::Plain),
        Some(DirectionNow::Waiting) => (either("·", "."), Ink::Faint),
        Some(DirectionNow::Running) => (either("○", "o"), Ink::Title),
        Some(DirectionNow::Failed) => (either("×", "x"), Ink::Bad),
        Some(DirectionNow::Share(share)) if share >= 0.9 => (either("█", "#"), Ink::Good),
        Some(DirectionNow::Share(share)) if share >= 0.75 => (either("▓", "+"), Ink::Posted),
        Some(DirectionNow::Share(share)) if share >= 0.5 => (either("▒", "="), Ink::Warn),
        Some(DirectionNow::Share(_)) => (either("░", "-"), Ink::Bad),
    }
}

/// `0.01 GB/s 51 %, again 50, 52 %` if it was measured again.
fn rates_of_rail(rates: &[Option<(f64, f64)>]) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let first = match rates.first() {
        Some(Some((rate, share))) => format!("{rate:.2} GB/s {} %", percent(*share)),
        _ => "failed".to_owned(),
    };
    let again = rates.iter().skip(1);
    let again: Vec<String> = again
        .map(|rate| rate.map_or("failed".to_owned(), |(_, share)| percent(share)))
        .collect();
    match again.is_empty() {
        true => first,
        false => format!("{first}, again {} %", again.join(", ")),
    }
}

/// The pair under the cursor, the suspects so far, and the legend.
fn about(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState) {
    let now = model.mesh();
    let names = &model.state().names;
    let (from, to) = (
        NodeId(state.mesh_at.0 as u32),
        NodeId(state.mesh_at.1 as u32),
    );
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    pen.write(
        Ink::Strong,
        format!(" {} to {}", names.node(from), names.node(to)),
    );
    match now.directions.get(&(from, to)) {
        None if from == to => pen.write(Ink::Faint, "  the same node"),
        None => pen.write(Ink::Faint, "  not in the plan"),
        Some(direction) => {
            for (rail, rates) in direction.by_rail() {
                let name = now.rails.get(rail as usize).map_or("?", String::as_str);
                pen.write(Ink::Faint, format!("  {name} "))
                    .write(Ink::Plain, rates_of_rail(&rates));
            }
            match direction.now() {
                DirectionNow::Waiting => pen.write(Ink::Faint, "  waits"),
                DirectionNow::Running => pen.write(Ink::Title, "  runs"),
                _ => &mut pen,
            }
        }
    };
    let shown = usize::from(area.height.saturating_sub(2));
    if now.suspects.is_empty() {
        Pen::at(buffer, state.theme, area, 1).write(Ink::Faint, " no part stands out so far");
    }
    for (row, suspect) in (1..).zip(now.suspects.iter().take(shown)) {
        let mut pen = Pen::at(buffer, state.theme, area, row);
        let standing = suspect.finding.standing;
        pen.write(Ink::Bad, format!(" {standing} : {}", suspect.words));
        if usize::from(row) == shown && now.suspects.len() > shown {
            pen.write(
                Ink::Faint,
                format!("  and {} more", now.suspects.len() - shown),
            );
        }
    }
    if area.height > 2 {
        let mut pen = Pen::at(buffer, state.theme, area, area.height - 1);
        pen.write(Ink::Faint, " of the rail's median:");
        for (share, word) in [(0.95, "90 %+"), (0.8, "75"), (0.6, "50"), (0.1, "less")] {
            let (glyph, ink) = glyph(state.theme, Some(DirectionNow::Share(share)));
            pen.write(ink, format!("  {glyph} "))
                .write(Ink::Faint, word);
        }
        for (now, word) in [
            (DirectionNow::Failed, "failed"),
            (DirectionNow::Running, "runs"),
            (DirectionNow::Waiting, "waits"),
        ] {
            let (glyph, ink) = glyph(state.theme, Some(now));
            pen.write(ink, format!("  {glyph} "))
                .write(Ink::Faint, word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{block_size, rates_of_rail, shared_start};

    #[test]
    fn columns_are_headed_by_what_tells_the_names_apart() {
        assert_eq!(shared_start(&["node0", "node1", "node15"]), 4);
        assert_eq!(shared_start(&["a3-1", "a3-10"]), 3);
        assert_eq!(shared_start(&["a", "b"]), 0);
        assert_eq!(shared_start(&[]), 0);
    }

    #[test]
    fn nodes_that_do_not_fit_share_a_cell() {
        assert_eq!(block_size(16, 20, 40), 1);
        assert_eq!(block_size(64, 20, 70), 4);
        assert_eq!(block_size(1024, 40, 200), 26);
        assert_eq!(block_size(5, 0, 0), 5);
    }

    #[test]
    fn a_rail_that_was_measured_again_is_told_once() {
        let half = Some((0.061, 0.51));
        assert_eq!(rates_of_rail(&[half]), "0.06 GB/s 51 %");
        let again = [half, Some((0.06, 0.5)), None, Some((0.06, 0.52))];
        assert_eq!(
            rates_of_rail(&again),
            "0.06 GB/s 51 %, again 50, failed, 52 %"
        );
        assert_eq!(rates_of_rail(&[None]), "failed");
    }
}
