//! The live view of every channel: of a run, or of other processes that write recorders.
//!
//! `watch` has the model and the sources of its events. This file is the loop: it polls the
//! source, draws, and reads keys. `keys.rs` turns keys into messages, `update.rs` applies them
//! to `state.rs`, `view/` draws, `shot.rs` saves a screen. Only `terminal.rs` knows that a
//! terminal exists.
#![forbid(unsafe_code)]

mod canvas;
mod keys;
mod shot;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod update;
mod view;
pub mod watch;

pub use shot::{ansi, svg, text};
pub use terminal::restore;
pub use theme::Theme;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use state::ViewState;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tcpx_diagnose::lacks_rates;
use terminal::{Screen, Signals, TerminalInput};
use update::{Effect, update};
use watch::{Clock, Model, Source, SourceError};

/// How the user left the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewExit {
    /// With `q`, or the run is over and the view does not stay.
    Quit,
    /// With Ctrl-C or a signal.
    Interrupted,
}

/// Why the view failed.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// There is no terminal, or it was closed.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The process is in the background of its terminal.
    #[error("no view is shown: this process is in the background of its terminal")]
    Background,
    /// The source of events failed.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl TuiError {
    /// Whether the terminal was closed, as when an ssh connection to it is lost.
    pub fn is_hang_up(&self) -> bool {
        matches!(self, Self::Terminal(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }
}

/// Options of the view.
#[derive(Debug, Clone, Copy)]
pub struct ViewOptions {
    /// Colours and glyphs.
    pub theme: Theme,
    /// Time between two frames.
    pub frame: Duration,
    /// Whether the view stays open after the run is over.
    pub stay: bool,
}

/// Shows a source in the terminal until the user leaves.
///
/// # Errors
/// The terminal or the source fails, or the process is in the background.
pub fn run(source: &mut dyn Source, look: ViewOptions) -> Result<ViewExit, TuiError> {
    if terminal::is_in_background() {
        return Err(TuiError::Background);
    }
    let signals = Signals::register()?;
    let mut screen = Screen::open()?;
    let mut seen = ViewLoop::new(source, look);
    let left = seen.serve(&mut screen, &signals);
    // The source need not read the details of a channel any more.
    seen.source.focus(None, seen.model.state());
    // After a hang-up, any call on the terminal may be the first that fails.
    match (left, screen.check()) {
        (Err(TuiError::Terminal(_)), Err(hung_up)) => Err(hung_up.into()),
        (left, _) => left,
    }
}

/// Draws one frame without a terminal.
///
/// # Errors
/// The source fails.
pub fn once(
    source: &mut dyn Source,
    look: ViewOptions,
    width: u16,
    height: u16,
) -> Result<Buffer, SourceError> {
    let mut seen = ViewLoop::new(source, look);
    seen.poll()?;
    while let Clock::Reading(_) = seen.model.clock {
        seen.poll()?;
    }
    let until = Instant::now() + ONCE_MAX;
    while seen.model.clock == Clock::Wall && Instant::now() < until {
        // A rate needs two samples, and those from another node may take a while.
        let had_any = !seen.model.state().workers.is_empty();
        std::thread::sleep(ONCE);
        seen.poll()?;
        let state = seen.model.state();
        let mut running = state.workers.values().filter(|one| !one.is_gone());
        if had_any && !running.any(|one| lacks_rates(one, state.now_ms)) {
            break;
        }
    }
    Ok(seen.drawn(Rect::new(0, 0, width, height)))
}

/// Time between two polls before a single frame.
const ONCE: Duration = Duration::from_millis(250);
/// Longest wait before a single frame is drawn, even if there is no sample.
const ONCE_MAX: Duration = Duration::from_secs(3);

struct ViewLoop<'a> {
    source: &'a mut dyn Source,
    model: Model,
    state: ViewState,
    look: ViewOptions,
    page: usize,
}

impl<'a> ViewLoop<'a> {
    fn new(source: &'a mut dyn Source, look: ViewOptions) -> Self {
        let model = Model::new(source.begin());
        Self {
            source,
            model,
            state: ViewState::new(look.theme),
            look,
            page: 1,
        }
    }

    fn poll(&mut self) -> Result<(), SourceError> {
        self.model.poll(self.source)
    }

    fn serve(&mut self, screen: &mut Screen, signals: &Signals) -> Result<ViewExit, TuiError> {
        loop {
            let began = Instant::now();
            if signals.ended() {
                return Ok(ViewExit::Interrupted);
            }
            if signals.stop() {
                screen.suspend()?;
            }
            if signals.continued() || screen.is_hidden() {
                screen.resume()?;
            }
            self.poll()?;
            let stays = self.look.stay && !screen.is_hidden();
            if self.model.clock == Clock::Over && !stays {
                return Ok(ViewExit::Quit);
            }
            if screen.is_hidden() {
                std::thread::sleep(self.look.frame);
                continue;
            }
            let (model, state, now_ns) = (&self.model, &mut self.state, self.model.now_ns());
            let mut drawn = view::Drawn::default();
            screen.draw(|buffer| drawn = view::view(model, state, now_ns, buffer))?;
            self.page = drawn.page;
            self.source.focus(drawn.focus.as_ref(), self.model.state());
            // What was written before is read without a pause.
            let next = match self.model.clock {
                Clock::Reading(_) => began,
                Clock::Wall | Clock::Events | Clock::Over => began + self.look.frame,
            };
            if let Some(left) = self.keys(next, now_ns, screen)? {
                return Ok(left);
            }
        }
    }

    /// Handles keys until the next frame is due, or until all pending keys are handled.
    fn keys(
        &mut self,
        next: Instant,
        now_ns: u64,
        screen: &mut Screen,
    ) -> Result<Option<ViewExit>, TuiError> {
        let began = Instant::now();
        while screen.has_more(next)? {
            let message = match screen.read()? {
                TerminalInput::Key(key) => keys::message(key, self.state.typing),
                TerminalInput::Resized => return Ok(None),
                TerminalInput::Other => None,
            };
            let Some(message) = message else { continue };
            match update(&mut self.state, &self.model, message, now_ns, self.page) {
                Some(Effect::Leave) => return Ok(Some(ViewExit::Quit)),
                Some(Effect::Interrupt) => return Ok(Some(ViewExit::Interrupted)),
                Some(Effect::Suspend) => screen.suspend()?,
                Some(Effect::Redraw) => screen.redraw()?,
                Some(Effect::Screenshot) => self.screenshot(screen),
                None => {}
            }
            if !screen.has_more(began)? {
                // The result of a key is drawn at once.
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn screenshot(&mut self, screen: &Screen) {
        let Ok((width, height)) = screen.size() else {
            return;
        };
        let buffer = self.drawn(Rect::new(0, 0, width, height));
        self.state.notice = Some(match shot::save(&buffer, Path::new(".")) {
            Ok(base) => format!("saved {}.txt, .ans and .svg", base.display()),
            Err(error) => format!("cannot save the screen: {error}"),
        });
    }

    fn drawn(&mut self, area: Rect) -> Buffer {
        let mut buffer = Buffer::empty(area);
        view::view(
            &self.model,
            &mut self.state,
            self.model.now_ns(),
            &mut buffer,
        );
        buffer
    }
}
