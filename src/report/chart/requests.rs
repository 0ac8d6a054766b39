//! The requests of both ends of one channel: a row for each request, from posted to consumed.
#![forbid(unsafe_code)]

use super::scale::{BOTTOM, LEFT, Plane, TOP, WIDTH, duration, frame_end, ticks};
use crate::page::escape;
use crate::story::{RequestTimeline, TimelineRequest};
use std::fmt::Write;
use tcpx_words::side::Side;

const ROW: f64 = 11.0;
const HEAD: f64 = 22.0;
const RIGHT: f64 = 24.0;

/// A chart of the requests around the channel's last change: senders above receivers.
pub(crate) fn requests(timeline: &RequestTimeline) -> String {
    let rows: usize = timeline.ends.iter().map(|end| end.requests.len()).sum();
    let height = TOP + timeline.ends.len() as f64 * HEAD + rows as f64 * ROW + BOTTOM + 20.0;
    let range = (
        -(timeline.before_ns as f64) * 1.02,
        timeline.after_ns as f64,
    );
    let plane = Plane {
        height: height - 20.0,
        left: LEFT,
        right: RIGHT,
        x: range,
        y: (0.0, 1.0),
    };
    let mut svg = Plane { height, ..plane }
        .begin("Requests of both ends of one channel around the last change");
    let mut y = TOP;
    for end in &timeline.ends {
        let _ = writeln!(
            svg,
            "<text class=\"lane\" x=\"{LEFT}\" y=\"{:.1}\">{} {} on {}</text>",
            y + 14.0,
            end.side,
            timeline.channel,
            escape(&end.worker.name)
        );
        y += HEAD;
        for request in &end.requests {
            row(&mut svg, &plane, request, end.side == Side::Recv, y);
            y += ROW;
        }
    }
    plane.moment(&mut svg, 0.0, "last change");
    let step = ticks((range.1 - range.0) * 0.6)
        .get(1)
        .copied()
        .unwrap_or(1.0);
    let first = (range.0 / step).ceil() as i64;
    let marks = (first..)
        .map(|n| n as f64 * step)
        .take_while(|ns| *ns <= range.1)
        .take(16)
        .map(|ns| (ns, duration(ns)));
    plane.horizontal_axis(&mut svg, "from the last change", marks);
    legend(&mut svg, height);
    frame_end(svg)
}

fn row(svg: &mut String, plane: &Plane, request: &TimelineRequest, receives: bool, y: f64) {
    let _ = write!(
        svg,
        "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 5.0,
        y + 8.0,
        request.number
    );
    let begins = request
        .posted
        .or(request.done)
        .map_or(plane.x.0, |at| at as f64);
    let end = plane.x.1;
    let stage = |svg: &mut String, class: &str, from: f64, to: Option<i64>| {
        let open = to.is_none();
        let to = to.map_or(end, |at| at as f64);
        let (left, right) = (plane.at_x(from), plane.at_x(to).max(plane.at_x(from) + 1.5));
        let open = if open { " open" } else { "" };
        let _ = write!(
            svg,
            "<path class=\"stage {class}{open}\" d=\"M{left:.1} {y:.1}H{right:.1}v8H{left:.1}z\"/>"
        );
        to
    };
    let done = stage(svg, "posted", begins, request.done);
    if receives && request.done.is_some() {
        stage(svg, "done", done, request.consumed);
    }
    svg.push('\n');
}

fn legend(svg: &mut String, height: f64) {
    let y = height - 14.0;
    let entries = [
        ("posted", "posted, not done"),
        ("done", "done, not consumed"),
        ("posted open", "never done"),
        ("done open", "never consumed"),
    ];
    for (place, (class, words)) in entries.into_iter().enumerate() {
        let x = LEFT + place as f64 * (WIDTH - LEFT) / 4.2;
        let _ = write!(
            svg,
            "<path class=\"stage {class}\" d=\"M{x:.1} {y:.1}h30v8h-30z\"/><text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
            x + 36.0,
            y + 8.0
        );
    }
}
