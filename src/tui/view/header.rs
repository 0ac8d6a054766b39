//! What is looked at, when, and the one sentence that says how it is; then a line
//! for each node.
#![forbid(unsafe_code)]

use crate::tui::canvas::{Pen, age, gb};
use crate::tui::state::ViewState;
use crate::tui::theme::{Ink, Theme};
use crate::watch::{Level, Model, NodePicture, Picture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_words::units::ByteCount;

/// Nodes that have a line of their own at most.
const NODES_MAX: u16 = 8;
const SPARK_STEP_NS: u64 = 500_000_000;

pub(super) fn height(picture: &Picture<'_>, area: Rect) -> u16 {
    let most = NODES_MAX.min(area.height / 4).max(1);
    2 + (picture.nodes.len() as u16).min(most)
}

pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    model: &Model,
    state: &ViewState,
    picture: &Picture<'_>,
    now_ns: u64,
) {
    title(buffer, area, model, state, picture, now_ns);
    banner(buffer, area, state, picture);
    let room = usize::from(area.height.saturating_sub(2));
    for (node, row) in picture.nodes.iter().take(room).zip(2..) {
        let mut pen = Pen::at(buffer, state.theme, area, row);
        if usize::from(row) == room + 1 && picture.nodes.len() > room {
            pen.write(Ink::Faint, format!(" and {} more nodes", picture.nodes.len() + 1 - room));
        } else {
            node_line(&mut pen, state.theme, model, picture, node);
        }
    }
}

fn title(buffer: &mut Buffer, area: Rect, model: &Model, state: &ViewState, picture: &Picture<'_>, now_ns: u64) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    let name = if model.title.name.is_empty() { "watch" } else { &model.title.name };
    pen.write(Ink::Title, " tcpxctl ").write(Ink::Strong, name);
    let began = model.title.started_ns;
    let elapsed = |at_ns: u64| age(at_ns.saturating_sub(began) / 1_000_000);
    if began > 0 {
        pen.write(Ink::Faint, "  ").write(Ink::Plain, elapsed(picture.at_ns));
    }
    if model.title.iterations > 0 {
        let done = model.nodes.iter().map(|node| node.iterations).min().unwrap_or(0);
        pen.write(Ink::Faint, "  iteration ").write(Ink::Plain, format!("{done}/{}", model.title.iterations));
    }
    let (verified, wrong) = model
        .nodes
        .iter()
        .filter_map(|node| node.verified)
        .fold((0u64, 0u64), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
    if model.nodes.iter().any(|node| node.verified.is_some()) {
        pen.write(Ink::Faint, "  verified ").write(Ink::Plain, ByteCount(verified).about());
        let ink = if wrong == 0 { Ink::Plain } else { Ink::Bad };
        pen.write(Ink::Faint, "  wrong ").write(ink, wrong.to_string());
    }
    match state.at {
        Some(at_ns) => {
            let behind = age(now_ns.saturating_sub(at_ns) / 1_000_000);
            pen.right(Ink::Warn, &format!(" PAUSED {behind} back "));
        }
        None if model.ended.is_some() => {
            pen.right(Ink::Faint, " over ");
        }
        None if state.replay => {
            pen.right(Ink::Title, " REPLAY ");
        }
        None => {
            pen.right(Ink::Good, " LIVE ");
        }
    }
}

fn banner(buffer: &mut Buffer, area: Rect, state: &ViewState, picture: &Picture<'_>) {
    let health = &picture.health;
    let (ink, glyph) = match health.level {
        Level::Moving | Level::Passed => (Ink::GoodBanner, if state.theme.ascii { ">" } else { "▶" }),
        Level::Quiet => (Ink::QuietBanner, state.theme.dot()),
        Level::Waiting => (Ink::WarnBanner, if state.theme.ascii { "!" } else { "▲" }),
        Level::Stalled | Level::Failed => (Ink::BadBanner, if state.theme.ascii { "#" } else { "■" }),
    };
    let mut pen = Pen::at(buffer, state.theme, area, 1);
    pen.write(ink, format!(" {glyph} {}  {}", health.word, health.why));
    pen.fill(ink, " ");
}

fn node_line(pen: &mut Pen<'_>, theme: Theme, model: &Model, picture: &Picture<'_>, node: &NodePicture<'_>) {
    let facts = &node.node.facts;
    let width = model.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    pen.write(Ink::Strong, format!(" {:<width$}", node.node.name));
    let spark = if pen.left() > 90 { 20 } else { 8 };
    let step = SPARK_STEP_NS;
    for (word, send, rate) in [("out", true, node.out_per_s), ("in ", false, node.in_per_s)] {
        let has = node.sample.is_some_and(|sample| sample.channels.iter().any(|one| (one.side == "send") == send));
        if has {
            pen.write(Ink::Faint, format!("  {word} "))
                .write(Ink::Strong, format!("{:>5}", gb(rate)))
                .write(Ink::Faint, " GB/s ");
            let history = picture.node_history(node, send, spark, step);
            let most = history.iter().copied().fold(1.0, f64::max);
            let bars: String = history.iter().map(|rate| theme.spark(rate / most)).collect();
            pen.write(Ink::Posted, bars);
        }
    }
    match (node.ended, node.phase) {
        (Some(how), _) => pen.write(Ink::Faint, format!("  {how}")),
        (None, Some(phase)) => pen.write(Ink::Plain, format!("  {phase}")),
        (None, None) => pen,
    };
    if !facts.host.is_empty() {
        pen.write(Ink::Faint, format!("  {}", facts.host));
    }
    if !facts.plugin.is_empty() {
        pen.write(Ink::Faint, format!("  {}", facts.plugin));
    }
}
