//! Line charts over time.
#![forbid(unsafe_code)]

use super::scale::{LEFT, Plane, RIGHT, WIDTH, frame_end, ticks};
use crate::page::escape;
use crate::story::TimeAxis;
use std::fmt::Write;

const HEIGHT: f64 = 280.0;
/// Number of line styles in the style sheet.
const KINDS: usize = 8;
/// Minimum distance between the names of two lines.
const NAME_GAP: f64 = 14.0;

/// One line of a chart.
pub(crate) struct ChartLine {
    pub(crate) name: String,
    /// One value for each part of the axis; `None` interrupts the line.
    pub(crate) values: Vec<Option<f64>>,
}

/// A chart of lines over the parts of a time axis.
pub(crate) fn lines(title: &str, unit: &str, axis: TimeAxis, all: &[ChartLine]) -> String {
    let values = all
        .iter()
        .flat_map(|line| line.values.iter().flatten().copied());
    let most = values.fold(0.0, f64::max);
    let top = ticks(most * 1.02).last().copied().unwrap_or(1.0);
    let plane = Plane {
        height: HEIGHT,
        left: LEFT,
        right: RIGHT,
        x: (axis.from_ms, axis.to_ms),
        y: (0.0, top),
    };
    let mut svg = plane.begin(title);
    plane.vertical_axis(&mut svg, unit);
    plane.time_axis(&mut svg);
    if let Some(ms) = axis.stall_ms {
        plane.moment(&mut svg, ms, "stall declared");
    }
    let part_ms = (axis.to_ms - axis.from_ms) / axis.parts.max(1) as f64;
    let mut names = Vec::new();
    for (kind, line) in all.iter().enumerate() {
        let (mut path, mut down) = (String::new(), false);
        let mut last = None;
        for (part, value) in line.values.iter().enumerate() {
            let Some(value) = value else {
                down = false;
                continue;
            };
            let (x, y) = (
                plane.at_x(axis.from_ms + (part as f64 + 0.5) * part_ms),
                plane.at_y(*value),
            );
            let _ = write!(path, "{}{x:.1} {y:.1}", if down { "L" } else { "M" });
            (down, last) = (true, Some((x, y)));
        }
        let _ = writeln!(svg, "<path class=\"line k{}\" d=\"{path}\"/>", kind % KINDS);
        names.extend(last.map(|(_, y)| (y, kind, &line.name)));
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends: Vec<f64> = names.iter().map(|(y, ..)| *y).collect();
    for (at, (_, kind, name)) in heights_of_names(&ends).into_iter().zip(names) {
        let _ = writeln!(
            svg,
            "<path class=\"line k{}\" d=\"M{:.1} {at:.1}h22\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            kind % KINDS,
            WIDTH - RIGHT + 6.0,
            WIDTH - RIGHT + 32.0,
            at + 4.0,
            escape(name)
        );
    }
    frame_end(svg)
}

/// Where the names of lines stand that end at these heights, in order from the top: beside the end, moved down so that
/// they do not overlap, and up again so that the last one is within the chart.
fn heights_of_names(ends: &[f64]) -> Vec<f64> {
    let mut heights = Vec::with_capacity(ends.len());
    let mut free = 0.0f64;
    for end in ends {
        let at = end.max(free);
        heights.push(at);
        free = at + NAME_GAP;
    }
    let mut most = HEIGHT - NAME_GAP / 2.0;
    for at in heights.iter_mut().rev() {
        *at = at.min(most);
        most = *at - NAME_GAP;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_that_end_at_the_bottom_are_within_the_chart() {
        let bottom = HEIGHT - 30.0;
        for count in [1, 2, 4, KINDS] {
            let heights = heights_of_names(&vec![bottom; count]);
            assert!(heights.iter().all(|at| at + NAME_GAP / 2.0 <= HEIGHT));
            assert!(heights.is_sorted_by(|above, below| below - above >= NAME_GAP));
        }
        assert_eq!(
            heights_of_names(&[20.0, 90.0]),
            [20.0, 90.0],
            "names with room stay beside their lines"
        );
    }
}
