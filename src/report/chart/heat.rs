//! A strip per channel: the stronger, the fuller.
//!
//! Cells of one level are one path, and neighbours one rectangle, so that 128
//! channels over a run of any length stay a few hundred kilobytes.
#![forbid(unsafe_code)]

use super::scale::{BOTTOM, LEFT, Plane, TOP, WIDTH, frame_end};
use crate::html::escape;
use crate::story::Axis;
use std::fmt::Write;

/// Levels between empty and full.
const LEVELS: usize = 6;
const RIGHT: f64 = 16.0;

/// A strip's name, and how full it was in each part of the axis, 0 to 1.
pub(crate) type Strip = (String, Vec<Option<f64>>);

/// Strips, and below them what the levels mean.
pub(crate) fn heat(title: &str, axis: Axis, strips: &[Strip], full: &str) -> String {
    let row = if strips.len() > 32 {
        7.0
    } else if strips.len() > 12 {
        12.0
    } else {
        18.0
    };
    let legend = 22.0;
    let height = TOP + strips.len() as f64 * row + legend + BOTTOM;
    let plane = Plane {
        height: height - legend,
        right: RIGHT,
        x: (axis.from_ms, axis.to_ms),
        y: (0.0, 1.0),
    };
    let mut svg = Plane { height, ..plane }.begin(title);
    let part = (WIDTH - LEFT - RIGHT) / axis.parts.max(1) as f64;
    let mut paths = vec![String::new(); LEVELS + 1];
    for (place, (name, values)) in strips.iter().enumerate() {
        let y = TOP + place as f64 * row;
        if row >= 12.0 || place % 8 == 0 {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                y + row.min(14.0) - 2.0,
                escape(name)
            );
        }
        let level = |value: &Option<f64>| value.map(level);
        let mut from = 0;
        while from < values.len() {
            let now = level(&values[from]);
            let same = values[from..]
                .iter()
                .take_while(|value| level(value) == now)
                .count();
            if let Some(now) = now {
                let (x, width) = (LEFT + from as f64 * part, same as f64 * part);
                let _ = write!(
                    paths[now],
                    "M{x:.1} {y:.1}h{width:.1}v{:.1}h-{width:.1}z",
                    row - 1.0
                );
            }
            from += same;
        }
    }
    for (level, path) in paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
    {
        let _ = writeln!(svg, "<path class=\"heat h{level}\" d=\"{path}\"/>");
    }
    plane.time_axis(&mut svg);
    if let Some(ms) = axis.stall_ms {
        plane.moment(&mut svg, ms, "stall declared");
    }
    for level in 0..=LEVELS {
        let (x, y) = (LEFT + level as f64 * 30.0, height - 14.0);
        let _ = write!(
            svg,
            "<path class=\"heat h{level}\" d=\"M{x:.1} {y:.1}h28v10h-28z\"/>"
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">empty</text><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT - 5.0,
        height - 5.0,
        LEFT + 30.0 * (LEVELS + 1) as f64 + 4.0,
        height - 5.0,
        escape(full)
    );
    frame_end(svg)
}

/// Empty and full are levels of their own.
fn level(value: f64) -> usize {
    match value {
        value if value <= 0.0 => 0,
        value if value >= 1.0 => LEVELS,
        value => 1 + (value * (LEVELS - 1) as f64) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn empty_and_full_are_told_from_nearly_so() {
        assert_eq!(
            [0.0, 0.01, 0.5, 0.99, 1.0, 3.0].map(level),
            [0, 1, 3, 5, 6, 6]
        );
    }
}
