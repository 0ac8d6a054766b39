//! Histograms of durations, and dot charts of single iterations.
#![forbid(unsafe_code)]

use super::scale::{BOTTOM, LEFT, Plane, RIGHT, TOP, WIDTH, duration, frame_end, number, ticks};
use crate::page::escape;
use std::fmt::Write;

const HEIGHT: f64 = 220.0;

/// A histogram of durations: buckets (first ns, first ns after the bucket, count), and named
/// marks.
pub(crate) fn histogram(title: &str, buckets: &[(u64, u64, u64)], marks: &[(&str, f64)]) -> String {
    let log = |ns: f64| ns.max(1.0).log10();
    let from = buckets
        .iter()
        .map(|one| log(one.0 as f64))
        .fold(f64::MAX, f64::min);
    let to = marks
        .iter()
        .map(|mark| log(mark.1))
        .chain(buckets.iter().map(|one| log(one.0 as f64 * 1.125)))
        .fold(0.0, f64::max);
    let (from, to) = if from < to {
        (from - 0.05, to + 0.05)
    } else {
        (0.0, 1.0)
    };
    let all = buckets
        .iter()
        .fold(0u64, |sum, one| sum.saturating_add(one.2))
        .max(1) as f64;
    let most = buckets
        .iter()
        .map(|one| one.2 as f64 / all * 100.0)
        .fold(0.0, f64::max);
    let plane = Plane {
        height: HEIGHT,
        left: LEFT,
        right: RIGHT,
        x: (from, to),
        y: (0.0, ticks(most * 1.02).last().copied().unwrap_or(1.0)),
    };
    let mut svg = plane.begin(title);
    plane.vertical_axis(&mut svg, "% of requests");
    let mut path = String::new();
    for (first, end, count) in buckets {
        let end = if *end == u64::MAX {
            *first as f64 * 1.125
        } else {
            *end as f64
        };
        let (left, right) = (plane.at_x(log(*first as f64)), plane.at_x(log(end)));
        let y = plane.at_y(*count as f64 / all * 100.0);
        let _ = write!(
            path,
            "M{left:.1} {:.1}V{y:.1}H{:.1}V{:.1}z",
            HEIGHT - BOTTOM,
            (right - 0.6).max(left + 0.6),
            HEIGHT - BOTTOM
        );
    }
    let _ = writeln!(svg, "<path class=\"bar\" d=\"{path}\"/>");
    let decades = (from.floor() as i32..=to.ceil() as i32).flat_map(|power| {
        let steps: &[f64] = if to - from < 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        steps.iter().map(move |step| step * 10f64.powi(power))
    });
    let marked = decades
        .filter(|ns| log(*ns) > from && log(*ns) < to)
        .map(|ns| (log(ns), duration(ns)));
    plane.horizontal_axis(&mut svg, "posted to done", marked);
    for (place, (name, ns)) in marks.iter().enumerate() {
        let x = plane.at_x(log(*ns));
        let y = TOP + 9.0 + 13.0 * place as f64;
        let text = format!("{name} {}", duration(*ns));
        let (anchor, at) = if x > 640.0 {
            ("end", x - 4.0)
        } else {
            ("start", x + 4.0)
        };
        let _ = writeln!(
            svg,
            "<path class=\"mark\" d=\"M{x:.1} {TOP}V{:.1}\"/><text class=\"name\" x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            escape(&text)
        );
    }
    frame_end(svg)
}

/// One dot of a chart: an iteration, a sample, or a run of a sweep.
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Whether the dot is drawn hollow.
    pub(crate) hollow: bool,
}

/// A dot chart with named horizontal reference lines.
pub(crate) fn dots(
    title: &str,
    unit: &str,
    below: &str,
    all: &[Dot],
    references: &[(String, f64)],
    x_marks: &[(f64, String)],
) -> String {
    let most = all
        .iter()
        .map(|dot| dot.y)
        .chain(references.iter().map(|one| one.1))
        .fold(0.0, f64::max);
    let x = all
        .iter()
        .map(|dot| dot.x)
        .chain(x_marks.iter().map(|mark| mark.0));
    let (from, to) = x.fold((f64::MAX, f64::MIN), |(from, to), x| {
        (from.min(x), to.max(x))
    });
    let pad = ((to - from) * 0.03).max(0.5);
    let plane = Plane {
        height: HEIGHT,
        left: LEFT,
        right: RIGHT,
        x: (from - pad, to + pad),
        y: (0.0, ticks(most * 1.02).last().copied().unwrap_or(1.0)),
    };
    let mut svg = plane.begin(title);
    plane.vertical_axis(&mut svg, unit);
    plane.horizontal_axis(&mut svg, below, x_marks.iter().cloned());
    for (name, value) in references {
        let y = plane.at_y(*value);
        let _ = writeln!(
            svg,
            "<path class=\"reference\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{} {}</text>",
            LEFT,
            WIDTH - RIGHT,
            WIDTH - RIGHT + 6.0,
            y + 4.0,
            escape(name),
            number((value * 1000.0).round() / 1000.0)
        );
    }
    for dot in all {
        let class = if dot.hollow { "dot apart" } else { "dot" };
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            plane.at_x(dot.x),
            plane.at_y(dot.y)
        );
    }
    frame_end(svg)
}
