//! The plane of a chart: its axes with round ticks, and its frame.
#![forbid(unsafe_code)]

use crate::page::escape;
use std::fmt::Write;

/// Width of every chart.
pub(super) const WIDTH: f64 = 960.0;
/// Left margin, for the numbers of the vertical axis.
pub(super) const LEFT: f64 = 64.0;
/// Right margin, for the names of lines.
pub(super) const RIGHT: f64 = 150.0;
/// Top margin.
pub(super) const TOP: f64 = 14.0;
/// Bottom margin, for the numbers of the horizontal axis.
pub(super) const BOTTOM: f64 = 40.0;

/// Four to eight round values from 0 to at least `most`.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0, 1.0];
    }
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough)
        .unwrap_or(power * 10.0);
    let count = (most / step - 1e-9).ceil() as usize;
    (0..=count.max(1)).map(|n| n as f64 * step).collect()
}

/// A number with three to five significant digits, and no trailing zeros.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 || size == 0.0 => format!("{value:.4}"),
        _ => return format!("{value:.1e}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A duration in ns, µs, ms or s, whichever gives a short number.
pub(crate) fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => (ns, "ns"),
        size if size < 1e6 => (ns / 1e3, "µs"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!(
        "{} {unit}",
        if value.abs() >= 100.0 {
            format!("{value:.0}")
        } else {
            number((value * 100.0).round() / 100.0)
        }
    )
}

/// Milliseconds as seconds.
pub(crate) fn seconds(ms: f64) -> String {
    format!("{} s", number((ms / 10.0).round() / 100.0))
}

/// The area of a chart, and the values that its axes span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub(crate) height: f64,
    /// Left margin.
    pub(crate) left: f64,
    /// Right margin.
    pub(crate) right: f64,
    /// First and last value of the horizontal axis.
    pub(crate) x: (f64, f64),
    /// First and last value of the vertical axis.
    pub(crate) y: (f64, f64),
}

impl Plane {
    /// Horizontal position of the value `x`.
    pub(crate) fn at_x(&self, x: f64) -> f64 {
        let span = self.x.1 - self.x.0;
        let share = if span > 0.0 {
            (x - self.x.0) / span
        } else {
            0.0
        };
        self.left + share.clamp(0.0, 1.0) * (WIDTH - self.left - self.right)
    }

    /// Vertical position of the value `y`.
    pub(crate) fn at_y(&self, y: f64) -> f64 {
        let span = self.y.1 - self.y.0;
        let share = if span > 0.0 {
            (y - self.y.0) / span
        } else {
            0.0
        };
        self.height - BOTTOM - share.clamp(0.0, 1.0) * (self.height - TOP - BOTTOM)
    }

    /// Opens the SVG element. Screen readers read the title.
    pub(crate) fn begin(&self, title: &str) -> String {
        let title = escape(title);
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n",
            self.height
        )
    }

    /// Draws horizontal grid lines with their numbers, and the unit.
    pub(crate) fn vertical_axis(&self, svg: &mut String, unit: &str) {
        for tick in ticks(self.y.1) {
            if tick > self.y.1 * 1.0001 {
                break;
            }
            let y = self.at_y(tick);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.left,
                WIDTH - self.right,
                self.left - 6.0,
                y + 4.0,
                number(tick)
            );
        }
        let middle = (TOP + self.height - BOTTOM) / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"unit\" transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(unit)
        );
    }

    /// Draws the horizontal axis with its marks, each a value and its text, and the label below.
    pub(crate) fn horizontal_axis(
        &self,
        svg: &mut String,
        label: &str,
        marks: impl IntoIterator<Item = (f64, String)>,
    ) {
        let y = self.height - BOTTOM;
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{:.1} {y:.1}H{:.1}\"/>",
            self.left,
            WIDTH - self.right
        );
        for (x, text) in marks {
            let x = self.at_x(x);
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {y:.1}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 18.0,
                escape(&text)
            );
        }
        let middle = (self.left + WIDTH - self.right) / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"unit\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            self.height - 5.0,
            escape(label)
        );
    }

    /// Draws a horizontal axis in seconds since the command started.
    pub(crate) fn time_axis(&self, svg: &mut String) {
        let (from, to) = self.x;
        let step = ticks((to - from) / 1e3).get(1).copied().unwrap_or(1.0) * 1e3;
        let first = (from / step).ceil() as i64;
        let marks = (first..)
            .map(|n| n as f64 * step)
            .take_while(|ms| *ms <= to)
            .take(16)
            .map(|ms| (ms, number(ms / 1e3)));
        self.horizontal_axis(svg, "seconds since the command started", marks);
    }

    /// Draws a vertical line with a name at the value `x`.
    pub(crate) fn moment(&self, svg: &mut String, x: f64, name: &str) {
        let at = self.at_x(x);
        let (anchor, text) = if at > WIDTH / 2.0 {
            ("end", at - 4.0)
        } else {
            ("start", at + 4.0)
        };
        let _ = writeln!(
            svg,
            "<path class=\"moment\" d=\"M{at:.1} {TOP}V{:.1}\"/><text class=\"moment\" x=\"{text:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            self.height - BOTTOM,
            TOP + 10.0,
            escape(name)
        );
    }
}

/// Closes the SVG element.
pub(super) fn frame_end(mut svg: String) -> String {
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_maximum() {
        for (most, expected) in [
            (1.0, "0 0.2 0.4 0.6 0.8 1"),
            (17.3, "0 5 10 15 20"),
            (0.07, "0 0.02 0.04 0.06 0.08"),
            (0.0, "0 1"),
            (f64::NAN, "0 1"),
        ] {
            assert_eq!(
                ticks(most)
                    .into_iter()
                    .map(number)
                    .collect::<Vec<_>>()
                    .join(" "),
                expected,
                "{most}"
            );
        }
    }

    #[test]
    fn durations_are_shown_in_the_unit_that_gives_a_short_number() {
        for (ns, expected) in [
            (12.0, "12 ns"),
            (1500.0, "1.5 µs"),
            (-2_500_000.0, "-2.5 ms"),
            (3.2e9, "3.2 s"),
        ] {
            assert_eq!(duration(ns), expected);
        }
    }
}
