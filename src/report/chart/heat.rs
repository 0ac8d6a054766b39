//! A heat strip for each channel: the stronger the colour, the higher the value.
//!
//! All cells of one level are one SVG path, and equal neighbours one rectangle, so that a chart
//! of 128 channels stays below a few hundred kilobytes however long the run is.
#![forbid(unsafe_code)]

use super::scale::{BOTTOM, LEFT, Plane, TOP, WIDTH, frame_end};
use crate::page::escape;
use crate::story::TimeAxis;
use std::fmt::Write;

/// Highest level; 0 is empty.
const LEVELS: usize = 6;
const RIGHT: f64 = 16.0;
/// Width of one character of a label.
const LETTER: f64 = 6.6;
/// Characters of the longest label that is shown whole.
const LABEL_MAX: usize = 40;

/// A strip's label, and its value in each part of the axis, 0 to 1.
pub(crate) type Strip = (String, Vec<Option<f64>>);

/// Heat strips with a legend below. `full` is the legend's text for the value 1.
pub(crate) fn heat(title: &str, axis: TimeAxis, strips: &[Strip], full: &str) -> String {
    let row = if strips.len() > 32 {
        7.0
    } else if strips.len() > 12 {
        12.0
    } else {
        18.0
    };
    let longest = strips.iter().map(|(name, _)| name.chars().count());
    let label = longest.max().unwrap_or(0).min(LABEL_MAX) as f64 * LETTER;
    let left = (label + 8.0).max(LEFT);
    let legend = 22.0;
    let height = TOP + strips.len() as f64 * row + legend + BOTTOM;
    let plane = Plane {
        height: height - legend,
        left,
        right: RIGHT,
        x: (axis.from_ms, axis.to_ms),
        y: (0.0, 1.0),
    };
    let mut svg = Plane { height, ..plane }.begin(title);
    let part = (WIDTH - left - RIGHT) / axis.parts.max(1) as f64;
    let mut paths = vec![String::new(); LEVELS + 1];
    for (place, (name, values)) in strips.iter().enumerate() {
        let y = TOP + place as f64 * row;
        if row >= 12.0 || place % 8 == 0 {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y + row.min(14.0) - 2.0,
                escape(&cut(name))
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
                let (x, width) = (left + from as f64 * part, same as f64 * part);
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
        let (x, y) = (left + level as f64 * 30.0, height - 14.0);
        let _ = write!(
            svg,
            "<path class=\"heat h{level}\" d=\"M{x:.1} {y:.1}h28v10h-28z\"/>"
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">empty</text><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        left - 5.0,
        height - 5.0,
        left + 30.0 * (LEVELS + 1) as f64 + 4.0,
        height - 5.0,
        escape(full)
    );
    frame_end(svg)
}

/// The end of a label that is too long, because a label ends with the channel.
fn cut(name: &str) -> String {
    match name.chars().count().checked_sub(LABEL_MAX) {
        None | Some(0) => name.to_owned(),
        Some(over) => format!("…{}", name.chars().skip(over + 1).collect::<String>()),
    }
}

/// The level of a value. Only 0 has the lowest level and only 1 the highest.
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
    fn empty_and_full_have_levels_of_their_own() {
        assert_eq!(
            [0.0, 0.01, 0.5, 0.99, 1.0, 3.0].map(level),
            [0, 1, 3, 5, 6, 6]
        );
    }
}
