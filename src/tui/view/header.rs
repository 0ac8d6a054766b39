//! The title line, the banner with the state of the run, and a line for each worker.
#![forbid(unsafe_code)]

use crate::canvas::{Pen, age, gb};
use crate::state::ViewState;
use crate::theme::{Ink, Theme};
use crate::watch::{Clock, Health, HealthLevel, Model, Picture, WorkerPicture};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::borrow::Cow;
use tcpx_words::side::Side;
use tcpx_words::units::{ByteCount, counted};

/// Height of the title and the banner.
pub(super) const ALONE: u16 = 2;
/// Maximum number of worker lines.
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
    banner(buffer, area, state, &Health::of_picture(model, picture));
    let room = usize::from(area.height.saturating_sub(2));
    for (node, row) in picture.nodes.iter().take(room).zip(2..) {
        let mut pen = Pen::at(buffer, state.theme, area, row);
        if usize::from(row) == room + 1 && picture.nodes.len() > room {
            pen.write(
                Ink::Faint,
                format!(" and {} more", picture.nodes.len() + 1 - room),
            );
        } else {
            node_line(&mut pen, state.theme, model, picture, node);
        }
    }
}

fn title(
    buffer: &mut Buffer,
    area: Rect,
    model: &Model,
    state: &ViewState,
    picture: &Picture<'_>,
    now_ns: u64,
) {
    let mut pen = Pen::at(buffer, state.theme, area, 0);
    let name = if model.title.is_empty() {
        "watch"
    } else {
        &model.title
    };
    pen.write(Ink::Title, " tcpxctl ").write(Ink::Strong, name);
    let run = model.state();
    if let Some(began_ns) = run.began_ns {
        let elapsed = age(picture.at_ns.saturating_sub(began_ns) / 1_000_000);
        // Of programs that no run started, it is not known when they began.
        let is_foreign = run.workers.keys().all(|id| id.pair().is_none());
        let is_watched = is_foreign
            && !run.workers.is_empty()
            && matches!(model.clock, Clock::Wall)
            && !picture.is_of_recordings();
        let since = if is_watched { "  watched for " } else { "  " };
        pen.write(Ink::Faint, since).write(Ink::Plain, elapsed);
    }
    let workers = run.workers.values();
    if let Some(scenario) = &run.scenario {
        let (transfer, done) = (
            &scenario.transfer,
            workers.clone().map(|worker| worker.iterations).min(),
        );
        let all = transfer.warmup.saturating_add(transfer.iterations);
        pen.write(Ink::Faint, "  iteration ")
            .write(Ink::Plain, format!("{}/{all}", done.unwrap_or(0)));
    }
    let verified = workers.filter_map(|worker| worker.verified);
    let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    if let Some((verified, wrong)) = verified.reduce(sum) {
        pen.write(Ink::Faint, "  verified ")
            .write(Ink::Plain, ByteCount(verified).about());
        let ink = if wrong == 0 { Ink::Plain } else { Ink::Bad };
        pen.write(Ink::Faint, "  wrong ")
            .write(ink, wrong.to_string());
    }
    match (state.at, model.clock) {
        (Some(at_ns), _) => {
            let behind = age(now_ns.saturating_sub(at_ns) / 1_000_000);
            pen.right(Ink::Warn, &format!(" PAUSED {behind} ago "));
        }
        (None, Clock::Over) => {
            pen.right(Ink::Faint, " over ");
        }
        (None, Clock::Events) => {
            pen.right(Ink::Title, " REPLAY ");
        }
        (None, Clock::Reading(_)) => {
            pen.right(Ink::Title, " READING ");
        }
        (None, Clock::Wall) if picture.is_of_recordings() => {
            pen.right(Ink::Faint, " recording ");
        }
        (None, Clock::Wall) => {
            pen.right(Ink::Good, " LIVE ");
        }
    }
}

fn banner(buffer: &mut Buffer, area: Rect, state: &ViewState, health: &Health) {
    let (ink, glyph) = match health.level {
        HealthLevel::Moving | HealthLevel::Passed => {
            (Ink::GoodBanner, if state.theme.ascii { ">" } else { "▶" })
        }
        HealthLevel::Quiet => (Ink::QuietBanner, state.theme.dot()),
        HealthLevel::Waiting => (Ink::WarnBanner, if state.theme.ascii { "!" } else { "▲" }),
        HealthLevel::Stalled | HealthLevel::Failed => {
            (Ink::BadBanner, if state.theme.ascii { "#" } else { "■" })
        }
    };
    let mut pen = Pen::at(buffer, state.theme, area, 1);
    pen.write(ink, format!(" {glyph} {}  {}", health.word, health.why));
    pen.fill(ink, " ");
}

fn node_line(
    pen: &mut Pen<'_>,
    theme: Theme,
    model: &Model,
    picture: &Picture<'_>,
    node: &WorkerPicture<'_>,
) {
    // `{:width$}` panics at widths beyond 65535.
    let width = model.names_width().min(pen.left());
    pen.write(Ink::Strong, format!(" {:<width$}", node.name));
    let spark = if pen.left() > 90 { 20 } else { 8 };
    for (word, side, rate) in [
        ("out", Side::Send, node.out_per_s),
        ("in ", Side::Recv, node.in_per_s),
    ] {
        let has = node
            .sample
            .is_some_and(|sample| sample.channels.iter().any(|one| one.side == side));
        if has {
            pen.write(Ink::Faint, format!("  {word} "))
                .write(Ink::Strong, format!("{:>5}", gb(rate)))
                .write(Ink::Faint, " GB/s ");
            let history = picture.node_history(node, side, spark, SPARK_STEP_NS);
            let most = history.iter().copied().fold(1.0, f64::max);
            let bars: String = history
                .iter()
                .map(|rate| theme.spark(rate / most))
                .collect();
            pen.write(Ink::Posted, bars);
        }
    }
    match (&node.ended, node.phase) {
        (Some(how), _) => pen.write(Ink::Faint, format!("  {how}")),
        (None, Some(phase)) => pen.write(Ink::Plain, format!("  {phase}")),
        (None, None) => pen,
    };
    let unrecorded = node.worker.process.as_ref().map_or(0, |one| one.unrecorded);
    if unrecorded > 0 {
        let comms = counted(unrecorded as usize, "comm");
        pen.write(Ink::Warn, format!("  {comms} not recorded"));
    }
    for what in [place(model, node), &plugin(node)]
        .into_iter()
        .filter(|what| !what.is_empty())
    {
        pen.write(Ink::Faint, format!("  {what}"));
    }
}

/// The role of a process, or the host of a worker if the worker's name does not contain it.
fn place<'a>(model: &'a Model, node: &WorkerPicture<'a>) -> &'a str {
    if let Some(process) = &node.worker.process {
        return &process.role;
    }
    let (run, id) = (model.state(), node.id.node);
    if let Some(host) = run.node(id).and_then(|node| node.host.as_deref()) {
        return host;
    }
    let intro = run
        .names
        .nodes
        .get(id.index())
        .filter(|intro| intro.address != intro.name);
    intro.map_or("", |intro| intro.address.as_str())
}

fn plugin<'a>(node: &WorkerPicture<'a>) -> Cow<'a, str> {
    match (&node.worker.process, &node.worker.plugin) {
        (Some(process), _) => process.plugin.as_str().into(),
        (None, Some(ready)) => ready.title().into(),
        (None, None) => "".into(),
    }
}
