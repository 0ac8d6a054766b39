//! The details of one channel: its requests slot by slot, its last calls, the latency of
//! requests, and its sockets.
#![forbid(unsafe_code)]

use super::{Pane, Scene, channels, frame};
use crate::canvas::{Pen, age, count, short};
use crate::state::doing;
use crate::theme::{Ink, Theme};
use crate::watch::ChannelPicture;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::counters::{ChannelDetail, EventDetail};
use tcpx_words::units::ByteCount;

pub(super) static PANE: Pane = Pane {
    key: 'd',
    shows: "channel details",
    is_of_channel: true,
    lines: None,
    height,
    draw,
};

fn height(lines: u16) -> u16 {
    (lines * 3 / 5).max(8).min(lines.saturating_sub(3))
}

fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let (model, state) = (scene.model, scene.state);
    let Some(row) = state.channel(scene.picture, scene.items) else {
        let inside = frame(buffer, area, state, "detail", "");
        Pen::at(buffer, state.theme, inside, 0).write(Ink::Faint, " select a channel");
        return;
    };
    let key = scene.picture.key(row);
    let part_of = row.now.part_of.as_deref();
    let part_of = part_of.map_or(String::new(), |part_of| format!(" ({part_of})"));
    let title = format!(
        "{} {} {}{part_of}",
        model.name(key.worker),
        key.side,
        key.index
    );
    let inside = frame(buffer, area, state, &title, doing(row.state));
    let close = model
        .detail
        .as_ref()
        .filter(|detail| detail.channel == key && state.at.is_none());
    let wide = inside.width >= WIDE;
    let left = Rect {
        width: if wide {
            inside.width - EVENTS_WIDTH
        } else {
            inside.width
        },
        ..inside
    };
    let used = counters(buffer, left, state.theme, row, close);
    let below = Rect {
        y: left.y + used.min(left.height),
        height: left.height.saturating_sub(used),
        ..left
    };
    let right = if wide {
        Rect {
            x: left.right(),
            width: inside.width - left.width,
            ..inside
        }
    } else {
        below
    };
    match close {
        None => {
            let why = if state.at.is_some() {
                "calls and sockets are not shown while paused"
            } else {
                "the worker's recorder cannot be read from here"
            };
            Pen::at(buffer, state.theme, right, 0).write(Ink::Faint, format!(" {why}"));
        }
        Some(close) if wide => {
            let used = histogram(buffer, below, state.theme, close);
            let rest = Rect {
                y: below.y + used.min(below.height),
                height: below.height.saturating_sub(used),
                ..below
            };
            sockets(buffer, rest, state.theme, close);
            events(buffer, right, state.theme, &close.events);
        }
        Some(close) => {
            let sockets_height = sockets_height(close).min(right.height / 2);
            let [above, below] = super::split(right, right.height - sockets_height);
            events(buffer, above, state.theme, &close.events);
            sockets(buffer, below, state.theme, close);
        }
    }
}

/// Screens of at least this width show the last calls beside the rest.
const WIDE: u16 = 132;
const EVENTS_WIDTH: u16 = 62;

/// Draws the counters, and returns the number of lines used.
fn counters(
    buffer: &mut Buffer,
    area: Rect,
    theme: Theme,
    row: &ChannelPicture<'_>,
    close: Option<&ChannelDetail>,
) -> u16 {
    let now = row.now;
    let mut pen = Pen::at(buffer, theme, area, 0);
    pen.write(Ink::Plain, " ");
    channels::slots(&mut pen, theme, row);
    let head = row.head_age_ms.map_or_else(|| "-".into(), age);
    pen.write(Ink::Faint, "  in flight ")
        .write(Ink::Strong, row.in_flight().to_string());
    pen.write(Ink::Faint, " (max ")
        .write(Ink::Plain, now.in_flight_high_water.to_string())
        .write(Ink::Faint, ")  head ");
    pen.write(Ink::Plain, head)
        .write(Ink::Faint, "  change ")
        .write(Ink::Plain, age(row.quiet_ms));
    let mut pen = Pen::at(buffer, theme, area, 1);
    for (word, number) in [
        ("posted", Some(now.posted)),
        ("done", Some(now.done)),
        ("unpacked", now.unpacked),
        ("consumed", Some(now.consumed)),
        ("rc!=0", Some(now.rc_errors)),
    ] {
        if let Some(number) = number {
            pen.write(Ink::Faint, format!(" {word} "))
                .write(Ink::Plain, number.to_string());
        }
    }
    pen.write(Ink::Faint, " bytes ")
        .write(Ink::Plain, ByteCount(now.bytes).about());
    let mut pen = Pen::at(buffer, theme, area, 2);
    calls(&mut pen, now);
    let mut used = 3;
    if now.local.is_some() || now.peer.is_some() {
        let known = |address: &Option<String>| address.clone().unwrap_or_else(|| "?".into());
        Pen::at(buffer, theme, area, used)
            .write(Ink::Faint, " from ")
            .write(Ink::Plain, known(&now.local))
            .write(Ink::Faint, " to ")
            .write(Ink::Plain, known(&now.peer));
        used += 1;
    }
    if let Some(latency) = now.latency_us {
        let us = |us: f64| short((us * 1e3) as u64);
        let mut pen = Pen::at(buffer, theme, area, used);
        pen.write(Ink::Faint, " posted to done  ");
        for (word, value) in [
            ("p50", latency.p50),
            ("p99", latency.p99),
            ("p99.9", latency.p999),
            ("max", latency.max),
        ] {
            pen.write(Ink::Faint, format!("{word} "))
                .write(Ink::Plain, format!("{}  ", us(value)));
        }
        used += 1;
    }
    used + requests(buffer, area, theme, close, used)
}

fn calls(pen: &mut Pen<'_>, now: &ChannelNow) {
    let share = if now.tests > 0 {
        now.tests_not_done as f64 / now.tests as f64 * 100.0
    } else {
        0.0
    };
    pen.write(Ink::Faint, " tests ")
        .write(Ink::Plain, now.tests.to_string());
    pen.write(Ink::Faint, " with done=0 ")
        .write(Ink::Plain, format!("{share:.1}%"));
    pen.write(Ink::Faint, " null requests ")
        .write(Ink::Plain, now.null_requests.to_string());
    if let Some(call) = &now.in_call {
        pen.write(Ink::Faint, "  inside ").write(Ink::Warn, call);
    }
    if let Some((call, code)) = &now.last_error {
        pen.write(Ink::Bad, format!("  {call} returned {code}"));
    }
}

/// Draws the requests in flight, two on a line at 80 columns, on at most half of the remaining
/// lines. Returns the number of lines used.
fn requests(
    buffer: &mut Buffer,
    area: Rect,
    theme: Theme,
    close: Option<&ChannelDetail>,
    from: u16,
) -> u16 {
    let Some(close) = close.filter(|close| !close.requests.is_empty()) else {
        return 0;
    };
    let across = usize::from(area.width / 38).max(1);
    let most = area.height.saturating_sub(from) / 2;
    let mut used = 0;
    for line in close.requests.chunks(across).take(most.into()) {
        let mut pen = Pen::at(buffer, theme, area, from + used);
        for request in line {
            let (glyph, ink) = theme.slot(request.stage);
            let word = match request.stage {
                'd' => "done",
                'u' => "unpacked",
                _ => "posted",
            };
            pen.write(ink, format!(" {glyph} "))
                .write(Ink::Plain, format!("#{:<9}", count(request.number, 8)));
            pen.write(ink, format!("{word:<9}")).write(
                Ink::Plain,
                format!("{:>8}", ByteCount(request.bytes).to_string()),
            );
            pen.write(Ink::Faint, format!("{:>7} ", age(request.age_us / 1000)));
        }
        used += 1;
    }
    used
}

fn events(buffer: &mut Buffer, area: Rect, theme: Theme, events: &[EventDetail]) {
    if area.height == 0 {
        return;
    }
    Pen::at(buffer, theme, area, 0)
        .write(Ink::Title, " last calls")
        .write(
            Ink::Faint,
            "        ago  call            rc      req     value",
        );
    let room = usize::from(area.height - 1);
    for (event, row) in events.iter().rev().take(room).zip(1..) {
        let mut pen = Pen::at(buffer, theme, area, row);
        let ink = match event.what.as_str() {
            "done" => Ink::Done,
            "posted" => Ink::Posted,
            "consumed" | "unpacked" => Ink::Unpacked,
            _ if event.rc != 0 => Ink::Bad,
            _ => Ink::Plain,
        };
        let value = if event.what == "called" {
            short(event.value)
        } else {
            ByteCount(event.value).to_string()
        };
        pen.write(ink, format!(" {:<9}", event.what)).write(
            Ink::Faint,
            format!("{:>13}", short(event.ago_us.saturating_mul(1000))),
        );
        pen.write(Ink::Plain, format!("  {:<14}", event.call));
        pen.write(
            if event.rc == 0 { Ink::Plain } else { Ink::Bad },
            format!("{:>4}", event.rc),
        );
        pen.write(Ink::Faint, format!(" {:08x}", event.request))
            .write(Ink::Plain, format!("{value:>10}"));
    }
    if events.is_empty() {
        Pen::at(buffer, theme, area, 1).write(Ink::Faint, " none recorded");
    }
}

fn histogram(buffer: &mut Buffer, area: Rect, theme: Theme, close: &ChannelDetail) -> u16 {
    // Buckets are joined to octaves: a bucket of the recorder is a quarter of an octave.
    let mut octaves: Vec<(u64, u64)> = Vec::new();
    for (first, _, count) in &close.latency {
        let octave = 1u64 << (63 - first.max(&1).leading_zeros());
        match octaves.last_mut() {
            Some(last) if last.0 == octave => last.1 = last.1.saturating_add(*count),
            _ => octaves.push((octave, *count)),
        }
    }
    let most = octaves.iter().map(|octave| octave.1).max().unwrap_or(0);
    let room = usize::from(area.height / 2);
    if most == 0 || room < 2 {
        return 0;
    }
    Pen::at(buffer, theme, area, 0).write(Ink::Title, " posted to done");
    let shown = &octaves[octaves.len().saturating_sub(room - 1)..];
    let width = usize::from(area.width).saturating_sub(24);
    for ((from, count_), row) in shown.iter().zip(1..) {
        let bar = (*count_ as f64 / most as f64 * width as f64).ceil() as usize;
        let mut pen = Pen::at(buffer, theme, area, row);
        pen.write(Ink::Faint, format!(" {:>7} ", short(*from)))
            .write(Ink::Posted, theme.slot('p').0.repeat(bar));
        pen.write(Ink::Plain, format!(" {}", count(*count_, 8)));
    }
    shown.len() as u16 + 1
}

fn sockets_height(close: &ChannelDetail) -> u16 {
    2 + close
        .sockets
        .as_ref()
        .map_or(1, |sockets| sockets.len().max(1) as u16)
}

fn sockets(buffer: &mut Buffer, area: Rect, theme: Theme, close: &ChannelDetail) {
    if area.height == 0 {
        return;
    }
    Pen::at(buffer, theme, area, 0)
        .write(Ink::Title, " sockets")
        .write(
            Ink::Faint,
            "  state        recv-q    send-q retrans     rtt  local > peer",
        );
    let none = match &close.sockets {
        Err(why) => Some(why.as_str()),
        Ok(sockets) if sockets.is_empty() => Some("no socket has the channel's addresses"),
        Ok(_) => None,
    };
    if let Some(why) = none {
        Pen::at(buffer, theme, area, 1).write(Ink::Faint, format!("          {why}"));
    }
    let mut row = 1;
    for socket in close.sockets.iter().flatten() {
        let mut pen = Pen::at(buffer, theme, area, row);
        let (recv, send) = (
            count(socket.recv_queue.into(), 8),
            count(socket.send_queue.into(), 9),
        );
        pen.write(
            Ink::Plain,
            format!("          {:<11}{recv:>8}{send:>10}", socket.state),
        );
        let again = socket.retransmits.unwrap_or(0);
        pen.write(
            if again > 0 { Ink::Warn } else { Ink::Faint },
            format!("{again:>8}"),
        );
        let rtt = socket
            .rtt_us
            .map_or_else(|| "-".into(), |us| short(u64::from(us) * 1000));
        pen.write(Ink::Plain, format!("{rtt:>8}"));
        pen.write(Ink::Faint, format!("  {} > {}", socket.local, socket.peer));
        row += 1;
    }
    row = row.max(2);
    let mut pen = Pen::at(buffer, theme, area, row);
    for (name, value) in close
        .nic
        .iter()
        .filter(|(name, value)| *value > 0 || name.starts_with("rx_"))
    {
        pen.write(Ink::Faint, format!(" {name} "))
            .write(Ink::Plain, count(*value, 9));
    }
}
