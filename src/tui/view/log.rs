//! The log: lines of the plugin, output of the workers, and notes, up to the moment shown.
#![forbid(unsafe_code)]

use super::{Pane, Scene, a_third, findings, frame};
use crate::canvas::Pen;
use crate::theme::Ink;
use crate::watch::Model;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::HashMap;
use tcpx_run_model::timeline::{LineKind, TimelineLine};

pub(super) static PANE: Pane = Pane {
    key: 'l',
    shows: "log",
    is_of_channel: false,
    lines: Some(|model| model.timeline.lines.len()),
    height: a_third,
    draw,
};

/// Screens of at least this width show the findings beside the log.
const WIDE: u16 = 150;
/// Most characters of a worker's name.
const NAME_MAX: usize = 24;
/// The same on screens that are narrower than [`NARROW`].
const NAME_MAX_NARROW: usize = 16;
const NARROW: u16 = 75;

fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    if area.width < WIDE || scene.model.state().findings.is_empty() {
        return log(buffer, area, scene);
    }
    let left = area.width * 3 / 5;
    log(
        buffer,
        Rect {
            width: left,
            ..area
        },
        scene,
    );
    findings::draw(
        buffer,
        Rect {
            x: area.x + left,
            width: area.width - left,
            ..area
        },
        scene,
    );
}

fn log(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let (model, state) = (scene.model, scene.state);
    let lines = &model.timeline.lines;
    let until = lines
        .iter()
        .rposition(|line| line.at_ns <= scene.picture.at_ns)
        .map_or(0, |place| place + 1);
    let rows = folded(lines.iter().take(until));
    let warnings = rows
        .iter()
        .filter(|(line, _)| line.kind == LineKind::Warning)
        .count();
    let lost = match model.timeline.lines_lost {
        0 => String::new(),
        lost => format!(", {lost} older dropped"),
    };
    let inside = frame(
        buffer,
        area,
        state,
        "log",
        &format!("{until} lines, {warnings} WARN{lost}"),
    );
    let last = rows
        .len()
        .saturating_sub(state.lines_back)
        .max(usize::from(inside.height).min(rows.len()));
    let first = last.saturating_sub(inside.height.into());
    let name_max = match inside.width < NARROW {
        true => NAME_MAX_NARROW,
        false => NAME_MAX,
    };
    let width = model.names_width().min(name_max);
    for ((line, count), row) in rows[first..last].iter().zip(0..) {
        draw_line(
            Pen::at(buffer, state.theme, inside, row),
            line,
            *count,
            model,
            width,
        );
    }
}

/// Each WARN that was repeated, possibly with other numbers, is one row with the number of times,
/// at the place of the last one. A plugin may repeat a WARN thousands of times in a healthy run.
fn folded<'a>(lines: impl Iterator<Item = &'a TimelineLine>) -> Vec<(&'a TimelineLine, usize)> {
    let mut rows: Vec<(&TimelineLine, usize)> = Vec::new();
    let mut places = HashMap::new();
    for line in lines {
        let before = (line.kind == LineKind::Warning)
            .then(|| places.insert(line.shape, rows.len()))
            .flatten();
        let earlier = before.map_or(0, |place: usize| std::mem::take(&mut rows[place].1));
        rows.push((line, earlier + 1));
    }
    rows.retain(|(_, count)| *count > 0);
    rows
}

fn draw_line(mut pen: Pen<'_>, line: &TimelineLine, count: usize, model: &Model, width: usize) {
    let since_s = line
        .at_ns
        .wrapping_sub(model.state().at_ns(0.0))
        .cast_signed() as f64
        / 1e9;
    let (word, ink) = match line.kind {
        LineKind::Warning => ("WARN", Ink::Bad),
        LineKind::Plugin => ("    ", Ink::Plain),
        LineKind::Output => ("out ", Ink::Plain),
        LineKind::Note => ("note", Ink::Title),
    };
    let node: String = model.who_said(line).chars().take(width).collect();
    pen.write(Ink::Faint, format!(" {since_s:>8.3} {node:<width$} "))
        .write(ink, format!("{word} "));
    if count > 1 {
        pen.write(Ink::Faint, format!("{count} times, the last: "));
    }
    pen.write(
        if line.kind == LineKind::Plugin {
            Ink::Plain
        } else {
            Ink::Strong
        },
        &line.text,
    );
}
