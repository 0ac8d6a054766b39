//! `tcpxctl watch`: shows every channel's window, live or replayed.
//!
//! ```console
//! $ tcpxctl watch                     # every process of this machine that has a recorder
//! $ tcpxctl watch 4242                # one process
//! $ tcpxctl watch reports/20261120T101500Z-4conn
//! $ tcpxctl watch --peer 10.0.0.226   # what runs on both nodes now
//! $ tcpxctl watch --replay reports/20261120T101500Z-4conn --speed 2
//! ```
//!
//! Without a terminal it prints one frame, as with `--once`. `--json` prints every event as one
//! line of JSON, until the run ends or the pipe is closed.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::nodes::{Nodes, upload};
use super::output::{cut_short, print, stdout_colors};
use super::signals::interrupted;
use super::watch_peer::Peer;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;
use tcpx_coord::Watching;
use tcpx_coord::reach::Transport;
use tcpx_report::write_whole;
use tcpx_tui::watch::{Clock, FolderSource, Source, open};
use tcpx_tui::{self as tui, Theme, ViewExit, ViewOptions};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folder, or process ids and recorder files [default: every process of this machine with a recorder].
    #[arg(value_name = "RUN|PID|FILE", conflicts_with = "replay")]
    what: Vec<String>,
    /// Run folder or bundle to replay from its start.
    #[arg(long, value_name = "RUN")]
    replay: Option<PathBuf>,
    /// Speed of the replay: 2 is twice as fast as the run.
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "replay", value_parser = speed)]
    speed: f64,
    /// Print one frame and exit.
    #[arg(long)]
    once: bool,
    /// With --once, write the frame to FILE: .svg, .ans (ANSI) or text.
    #[arg(long, value_name = "FILE", requires = "once")]
    out: Option<PathBuf>,
    /// Size of the frame when stdout is not a terminal, such as 120x40.
    #[arg(long, value_name = "COLUMNSxLINES", value_parser = size)]
    size: Option<(u16, u16)>,
    #[command(flatten)]
    look: LookArguments,
    #[command(flatten)]
    nodes: Nodes,
}

/// Display options of the view.
#[derive(Args, Clone, Copy)]
pub(crate) struct LookArguments {
    /// Draw with ASCII only.
    #[arg(long)]
    ascii: bool,
    /// Frames per second.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=60))]
    fps: u16,
}

impl LookArguments {
    pub(crate) fn look(self, common: &Common) -> ViewOptions {
        let theme = Theme {
            color: stdout_colors(common),
            ascii: self.ascii || !is_utf8(),
        };
        ViewOptions {
            theme,
            frame: Duration::from_secs(1) / u32::from(self.fps),
            stay: true,
        }
    }
}

/// Whether the locale is UTF-8, by the first variable that is set; UTF-8 if none is.
fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && (0.01..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.01 to 1000".to_owned()),
    }
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    parsed
        .filter(|(width, height)| (10..=1000).contains(width) && (3..=1000).contains(height))
        .ok_or_else(|| "expected COLUMNSxLINES, such as 120x40".to_owned())
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let is_shown = io::stdout().is_terminal() && io::stdin().is_terminal();
    let is_one_frame = !common.json && (arguments.once || !is_shown);
    // The one frame of a replay is that of its end.
    let speed = (!is_one_frame && !arguments.once).then_some(arguments.speed);
    let mut source = source(arguments, speed)?;
    let look = arguments.look.look(common);
    if common.json {
        return stream(&mut *source, look, arguments.once);
    }
    if is_one_frame {
        return once(arguments, &mut *source, look);
    }
    match tui::run(&mut *source, look) {
        Ok(ViewExit::Quit) => Ok(Ending::PASSED),
        Ok(ViewExit::Interrupted) => Ok(Ending::from(Outcome::Interrupted)),
        Err(error) if error.is_hang_up() => Ok(Ending::from(Outcome::Interrupted)),
        Err(error) => Err(error.into()),
    }
}

fn source(arguments: &Arguments, speed: Option<f64>) -> Result<Box<dyn Source>, Failure> {
    let named = !arguments.what.is_empty() || arguments.replay.is_some();
    match (arguments.nodes.peer()?, &arguments.replay) {
        (Some(_), _) if named => {
            let message = "--peer shows what runs on two nodes now, and RUN, PID or FILE is a \
                           recording on this machine";
            Err(Failure::new(Outcome::Usage, message).next("omit one of them"))
        }
        (Some(transport), _) => peer(arguments, &*transport),
        (None, Some(run)) => Ok(Box::new(FolderSource::open(run, speed)?)),
        (None, None) => Ok(open(&arguments.what)?),
    }
}

fn peer(arguments: &Arguments, transport: &dyn Transport) -> Result<Box<dyn Source>, Failure> {
    let transports = arguments.nodes.transports()?;
    let watching = Watching::start(
        &transports,
        Vec::new(),
        &*interrupted()?,
        &mut |node, sent, all| upload(node, sent, all),
    )?;
    let title = format!("{} and {}", transports[0].node(), transport.node());
    Ok(Box::new(Peer::judged(watching, title)))
}

fn once(arguments: &Arguments, source: &mut dyn Source, look: ViewOptions) -> Ended {
    let here = ratatui::crossterm::terminal::size()
        .ok()
        .filter(|_| io::stdout().is_terminal());
    let (width, height) = arguments.size.or(here).unwrap_or((120, 40));
    let frame = tui::once(source, look, width, height)?;
    let Some(path) = &arguments.out else {
        print(&if look.theme.color {
            tui::ansi(&frame)
        } else {
            tui::text(&frame)
        });
        return Ok(Ending::PASSED);
    };
    let content = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => tui::svg(&frame),
        Some("ans") => tui::ansi(&frame),
        _ => tui::text(&frame),
    };
    write_whole(path, |to| to.write_all(content.as_bytes()))?;
    Ok(Ending::PASSED)
}

/// Prints every event as a line, and the end of the run last; with `once`, only what there is.
fn stream(source: &mut dyn Source, look: ViewOptions, once: bool) -> Ended {
    loop {
        let events = source.poll()?;
        let mut stdout = io::stdout().lock();
        let written = events.iter().try_for_each(|event| line(&mut stdout, event));
        let ended = source.record().map(|run| StreamEnd {
            outcome: run.outcome,
            reason: run.reason,
        });
        let written = written.and_then(|()| {
            ended
                .iter()
                .try_for_each(|ended| line(&mut stdout, &json!({ "ended": ended })))
        });
        if let Err(error) = written.and_then(|()| stdout.flush()) {
            cut_short(&error);
            return Ok(Ending::PASSED);
        }
        let is_all = ended.is_some() || source.clock() == Clock::Over;
        drop(stdout);
        if !is_all && matches!(source.clock(), Clock::Reading(_)) {
            continue;
        }
        if is_all || (once && events.is_empty()) {
            return Ok(Ending::PASSED);
        }
        std::thread::sleep(look.frame);
    }
}

/// The last line of a stream, once the run has ended.
#[derive(Serialize)]
struct StreamEnd {
    outcome: Outcome,
    reason: Option<String>,
}

fn line(to: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, document).map_err(io::Error::from)?;
    to.write_all(b"\n")
}
