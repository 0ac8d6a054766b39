//! A matrix of rates: a row for each sender, a column for each receiver, darker where slower.
//!
//! The tooltip of a cell tells its figures. Levels differ by lightness, and a cell without a rate
//! has a cross, so that it is readable without colour.
#![forbid(unsafe_code)]

use super::scale::{WIDTH, frame_end};
use crate::page::escape;
use std::fmt::Write;

/// A cell of a matrix.
pub(crate) struct MatrixCell {
    pub(crate) row: usize,
    pub(crate) column: usize,
    /// The rate as a share of the others'; `None` if every measurement failed.
    pub(crate) share: Option<f64>,
    /// Whether a part of it is much worse than its share.
    pub(crate) is_marked: bool,
    /// Text of the tooltip.
    pub(crate) about: String,
}

/// A row or column of a matrix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MatrixLabel {
    pub(crate) name: String,
    /// Whether a finding names it.
    pub(crate) is_suspect: bool,
    /// Whether another group begins with it.
    pub(crate) begins_group: bool,
}

/// Share below which a cell has the level of the index plus one.
const LEVELS: [f64; 6] = [0.95, 0.9, 0.8, 0.65, 0.5, 0.3];
/// Side of a cell that is wide enough for a number.
const WITH_NUMBER: f64 = 26.0;
const SIDE_MAX: f64 = 44.0;
const SIDE_MIN: f64 = 7.0;
/// Width of one character of a label.
const LETTER: f64 = 6.9;
const LABEL_MAX: usize = 28;
const LEGEND: f64 = 34.0;

/// A matrix with a legend below.
pub(crate) fn matrix(
    title: &str,
    rows: &[MatrixLabel],
    columns: &[MatrixLabel],
    cells: &[MatrixCell],
) -> String {
    let longest = |labels: &[MatrixLabel]| {
        let letters = labels.iter().map(|label| label.name.chars().count());
        letters.max().unwrap_or(0).min(LABEL_MAX) as f64 * LETTER + 10.0
    };
    let (left, top) = (longest(rows), longest(columns));
    let side = (WIDTH - left - 8.0) / columns.len().max(1) as f64;
    let side = side.clamp(SIDE_MIN, SIDE_MAX).floor();
    let bottom = top + side * rows.len() as f64;
    let height = bottom + LEGEND;
    let title = escape(title);
    let mut svg = format!(
        "<svg class=\"chart matrix\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n"
    );
    labels(&mut svg, rows, columns, (left, top, side));
    let gap = if side > 10.0 { 1.0 } else { 0.5 };
    let size = side - gap;
    for level in 0..=LEVELS.len() + 1 {
        let of_level: Vec<&MatrixCell> = cells
            .iter()
            .filter(|cell| level_of(cell) == level)
            .collect();
        if of_level.is_empty() {
            continue;
        }
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(svg, "<g class=\"{}\">", class(level));
        for cell in of_level {
            let x = left + side * cell.column as f64;
            let y = top + side * cell.row as f64;
            let _ = write!(svg, "<path d=\"M{x:.0} {y:.0}h{size}v{size}h-{size}z");
            if cell.share.is_none() {
                let _ = write!(svg, "l{size} {size}m0 -{size}l-{size} {size}");
            }
            let _ = writeln!(svg, "\"><title>{}</title></path>", escape(&cell.about));
            let (middle, base) = (x + size / 2.0, y + size / 2.0 + 4.0);
            match cell.share {
                Some(share) if side >= WITH_NUMBER => {
                    let _ = writeln!(
                        svg,
                        "<text x=\"{middle:.1}\" y=\"{base:.1}\">{:.0}</text>",
                        share * 100.0
                    );
                }
                _ => {}
            }
            if cell.is_marked {
                let radius = (size / 5.0).clamp(1.5, 4.0);
                let (x, y) = (x + size - radius - 1.0, y + radius + 1.0);
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>"
                );
            }
        }
        svg.push_str("</g>\n");
    }
    let is_marked = cells.iter().any(|cell| cell.is_marked);
    legend(&mut svg, left.min(120.0), bottom + 14.0, is_marked);
    frame_end(svg)
}

/// Names of rows and columns, and lines between groups.
fn labels(
    svg: &mut String,
    rows: &[MatrixLabel],
    columns: &[MatrixLabel],
    (left, top, side): (f64, f64, f64),
) {
    // Of labels that would overlap, every n-th is shown, and all that a finding names.
    let step = (9.0 / side).ceil().max(1.0) as usize;
    let class = |label: &MatrixLabel| {
        let small = if side < 12.0 { " small" } else { "" };
        let suspect = if label.is_suspect { " suspect" } else { "" };
        format!("tick{small}{suspect}")
    };
    let is_shown = |at: usize, label: &MatrixLabel| at.is_multiple_of(step) || label.is_suspect;
    for (at, label) in rows
        .iter()
        .enumerate()
        .filter(|(at, one)| is_shown(*at, one))
    {
        let y = top + side * at as f64 + side / 2.0 + 3.5;
        let _ = writeln!(
            svg,
            "<text class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            class(label),
            left - 5.0,
            escape(&cut(&label.name))
        );
    }
    for (at, label) in columns
        .iter()
        .enumerate()
        .filter(|(at, one)| is_shown(*at, one))
    {
        let x = left + side * at as f64 + side / 2.0 + 3.5;
        let _ = writeln!(
            svg,
            "<text class=\"{}\" transform=\"translate({x:.1} {:.1}) rotate(-90)\">{}</text>",
            class(label),
            top - 5.0,
            escape(&cut(&label.name))
        );
    }
    let (width, height) = (side * columns.len() as f64, side * rows.len() as f64);
    for (at, _) in rows.iter().enumerate().filter(|(_, one)| one.begins_group) {
        let y = top + side * at as f64 - 0.5;
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left:.1} {y:.1}h{width:.1}\"/>"
        );
    }
    for (at, _) in columns
        .iter()
        .enumerate()
        .filter(|(_, one)| one.begins_group)
    {
        let x = left + side * at as f64 - 0.5;
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {top:.1}v{height:.1}\"/>"
        );
    }
}

fn legend(svg: &mut String, left: f64, y: f64, is_marked: bool) {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let mut names: Vec<String> = vec![format!("{} % of the median or more", percent(LEVELS[0]))];
    names.extend(
        LEVELS[1..]
            .iter()
            .map(|share| format!("{}+", percent(*share))),
    );
    names.push("less".to_owned());
    names.push("failed".to_owned());
    let mut x = left;
    for (level, name) in names.iter().enumerate() {
        let cross = if level > LEVELS.len() {
            "l14 12m0 -12l-14 12"
        } else {
            ""
        };
        let _ = write!(
            svg,
            "<g class=\"{}\"><path d=\"M{x:.0} {y:.0}h14v12h-14z{cross}\"/></g><text class=\"tick\" x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            class(level),
            x + 18.0,
            y + 10.0
        );
        x += 30.0 + name.len() as f64 * LETTER;
    }
    if is_marked {
        let _ = write!(
            svg,
            "<g class=\"heat h0\"><circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"3\"/></g><text class=\"tick\" x=\"{:.0}\" y=\"{:.0}\">a direction below 65, or failed</text>",
            x + 6.0,
            y + 6.0,
            x + 14.0,
            y + 10.0
        );
    }
}

fn class(level: usize) -> String {
    if level > LEVELS.len() {
        "heat failed".to_owned()
    } else {
        format!("heat h{level}")
    }
}

/// 0 for a rate like the others', one more below each of [`LEVELS`]; the last is no rate.
fn level_of(cell: &MatrixCell) -> usize {
    cell.share.map_or(LEVELS.len() + 1, |share| {
        LEVELS.iter().filter(|limit| share < **limit).count()
    })
}

/// The beginning of a name that is too long.
fn cut(name: &str) -> String {
    if name.chars().count() <= LABEL_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(LABEL_MAX - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_falls_with_the_rate_and_no_rate_has_its_own() {
        let level = |share| {
            level_of(&MatrixCell {
                row: 0,
                column: 0,
                share,
                is_marked: false,
                about: String::new(),
            })
        };
        let shares = [1.3, 0.95, 0.94, 0.7, 0.3, 0.1];
        assert_eq!(shares.map(|share| level(Some(share))), [0, 0, 1, 3, 5, 6]);
        assert_eq!(level(None), 7);
    }
}
