//! The screen. Only this file knows that a terminal exists: it reads keys, asks
//! the source for what is new, draws, and gives the terminal back however it ends.
//!
//! `keys.rs` makes messages of keys, `update.rs` changes `state.rs` by them,
//! `view/` draws; `shot.rs` keeps what is drawn.
#![forbid(unsafe_code)]

mod canvas;
mod keys;
mod shot;
mod state;
#[cfg(test)]
mod tests;
mod theme;
mod update;
mod view;

pub(crate) use shot::{ansi, svg, text};
pub(crate) use theme::Theme;

use crate::watch::{Model, Source, SourceError};
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTERM, SIGTSTP};
use state::{Pane, ViewState, channel_key};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use update::{Effect, update};

/// How the view was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// By `q`.
    Quit,
    /// By Ctrl-C or a signal.
    Interrupted,
}

/// Why the view ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TuiError {
    #[error("the terminal does not work: {0}")]
    Terminal(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub theme: Theme,
    /// Between two frames.
    pub frame: Duration,
    /// It tells what was, as it was.
    pub replay: bool,
    /// It is shown until somebody leaves, also once it is over.
    pub stay: bool,
}

/// Shows a source until somebody leaves.
///
/// # Errors
/// The terminal or the source fails.
pub(crate) fn run(source: &mut dyn Source, look: Look) -> Result<Left, TuiError> {
    let signals = Signals::register()?;
    let mut screen = Screen::open()?;
    let mut seen = Seen::new(look);
    let left = seen.serve(source, &mut screen, &signals);
    drop(screen);
    left
}

/// One frame without a terminal.
///
/// # Errors
/// The source fails.
pub(crate) fn once(source: &mut dyn Source, look: Look, width: u16, height: u16) -> Result<Buffer, SourceError> {
    let mut seen = Seen::new(look);
    seen.poll(source)?;
    let until = Instant::now() + ONCE_MAX;
    while source.now_ns().is_some() && !look.replay && Instant::now() < until {
        // Two looks make a rate; from another node the first takes its time.
        let had_any = seen.model.span().is_some();
        std::thread::sleep(ONCE);
        seen.poll(source)?;
        if had_any {
            break;
        }
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let now_ns = seen.now_ns(source);
    view::view(&seen.model, &mut seen.state, now_ns, &mut buffer);
    Ok(buffer)
}

/// Between the looks of a single frame.
const ONCE: Duration = Duration::from_millis(250);
/// Until a frame is drawn, whether or not there is anything on it.
const ONCE_MAX: Duration = Duration::from_secs(3);

struct Seen {
    model: Model,
    state: ViewState,
    look: Look,
    page: usize,
}

impl Seen {
    fn new(look: Look) -> Self {
        let mut state = ViewState::new(look.theme);
        state.replay = look.replay;
        Self { model: Model::default(), state, look, page: 1 }
    }

    fn poll(&mut self, source: &mut dyn Source) -> Result<(), SourceError> {
        let mut updates = Vec::new();
        source.poll(&mut updates)?;
        updates.into_iter().for_each(|update| self.model.take(update));
        Ok(())
    }

    /// As late as anything is known.
    fn now_ns(&self, source: &dyn Source) -> u64 {
        let last = || self.model.ended.as_ref().map(|ended| ended.at_ns).max(self.model.span().map(|(_, last)| last));
        source.now_ns().filter(|_| self.model.ended.is_none()).or_else(last).unwrap_or(0)
    }

    fn serve(&mut self, source: &mut dyn Source, screen: &mut Screen, signals: &Signals) -> Result<Left, TuiError> {
        loop {
            let began = Instant::now();
            if signals.ended() {
                return Ok(Left::Interrupted);
            }
            if signals.stop() {
                screen.suspend()?;
            }
            if signals.continued() {
                screen.redraw()?;
            }
            self.poll(source)?;
            if self.model.ended.is_some() && !self.look.stay {
                return Ok(Left::Quit);
            }
            let now_ns = self.now_ns(source);
            source.want(self.wanted(now_ns));
            screen.draw(|buffer| self.page = view::view(&self.model, &mut self.state, now_ns, buffer))?;
            let next = began + self.look.frame;
            if let Some(left) = self.keys(next, now_ns, screen)? {
                return Ok(left);
            }
        }
    }

    /// Takes keys until the next frame is due, or one was taken and nothing else waits.
    fn keys(&mut self, next: Instant, now_ns: u64, screen: &mut Screen) -> Result<Option<Left>, TuiError> {
        let began = Instant::now();
        while screen.keyboard.has_more(next)? {
            let message = match event::read()? {
                Event::Key(key) => keys::message(key, self.state.typing),
                Event::Resize(..) => return Ok(None),
                _ => None,
            };
            let Some(message) = message else { continue };
            match update(&mut self.state, &self.model, message, now_ns, self.page) {
                Some(Effect::Leave) => return Ok(Some(Left::Quit)),
                Some(Effect::Interrupt) => return Ok(Some(Left::Interrupted)),
                Some(Effect::Suspend) => screen.suspend()?,
                Some(Effect::Redraw) => screen.redraw()?,
                Some(Effect::Screenshot) => self.screenshot(screen, now_ns),
                None => {}
            }
            if !screen.keyboard.has_more(began)? {
                // What was asked for is shown at once.
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn screenshot(&mut self, screen: &Screen, now_ns: u64) {
        let Ok(size) = screen.terminal.size() else { return };
        let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
        view::view(&self.model, &mut self.state, now_ns, &mut buffer);
        self.state.said = Some(match shot::save(&buffer, std::path::Path::new(".")) {
            Ok(base) => format!("saved {}.txt, .ans and .svg", base.display()),
            Err(error) => format!("cannot save the screen: {error}"),
        });
    }

    /// The channel that is shown closely.
    fn wanted(&self, now_ns: u64) -> Option<tcpx_run_model::record::live::ChannelKey> {
        if self.state.pane != Pane::Detail || self.state.at.is_some() {
            return None;
        }
        let picture = crate::watch::Picture::at(&self.model, now_ns);
        let items = self.state.items(&picture);
        self.state.channel(&picture, &items).map(|row| channel_key(&picture, row))
    }
}

/// The terminal, ours until dropped. A panic gives it back too: `try_init` puts a
/// hook in its way.
struct Screen {
    terminal: DefaultTerminal,
    keyboard: Keyboard,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let keyboard = Keyboard::open()?;
        Ok(Self { terminal: ratatui::try_init()?, keyboard })
    }

    fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut()))?;
        Ok(())
    }

    /// Draws everything anew at the next frame.
    fn redraw(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Stops this process with the terminal as it was before, until it goes on.
    fn suspend(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.terminal = ratatui::try_init()?;
        self.redraw()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What crossterm reads keys from. It reads one that has hung up again and again and
/// never comes back, so it is asked only when there is something for it to take, and we
/// look first.
struct Keyboard {
    /// Where standard input is not a terminal.
    other: Option<File>,
    /// Of several keys that came at once crossterm keeps all but the first.
    may_hold: bool,
    /// Looks at which crossterm is asked with nothing typed: its signal of another size
    /// may come after the size itself.
    asks: u32,
    size: Option<(u16, u16)>,
}

impl Keyboard {
    fn open() -> io::Result<Self> {
        let other = if io::stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
        Ok(Self { other, may_hold: false, asks: 0, size: None })
    }

    /// Whether a key or a new size is there, or comes until then.
    ///
    /// # Errors
    /// The terminal is gone.
    fn has_more(&mut self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_typed = self.wait(if self.may_hold { Duration::ZERO } else { left.min(SIZE_EVERY) })?;
            self.asks = if self.is_resized() { RESIZED_ASKS } else { self.asks.saturating_sub(1) };
            if is_typed || self.asks > 0 || self.may_hold {
                self.may_hold = event::poll(Duration::ZERO)?;
                if self.may_hold {
                    return Ok(true);
                }
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn is_resized(&mut self) -> bool {
        let size = tcgetwinsize(self.fd()).ok().map(|size| (size.ws_col, size.ws_row));
        let was = std::mem::replace(&mut self.size, size);
        was != size
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.other {
            Some(other) => other.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }

    /// Whether something was typed, after no longer than this, which is less than a second.
    fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
        let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        match rustix::event::poll(&mut polled, Some(&most)) {
            // A signal: whoever asked looks at what it was.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = polled[0].revents();
        if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up"));
        }
        Ok(seen.contains(PollFlags::IN))
    }
}

/// Between two looks at whether the terminal has another size, which is no key.
const SIZE_EVERY: Duration = Duration::from_millis(50);
/// Its signal may come this many looks after the size itself.
const RESIZED_ASKS: u32 = 4;

/// Signals leave a note; the loop looks.
struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let mut signals =
            Self { end: Arc::default(), stop: Arc::default(), go_on: Arc::default(), registered: Vec::new() };
        let wanted =
            [(SIGTERM, &signals.end), (SIGHUP, &signals.end), (SIGTSTP, &signals.stop), (SIGCONT, &signals.go_on)];
        let ids: io::Result<Vec<_>> =
            wanted.into_iter().map(|(signal, flag)| signal_hook::flag::register(signal, Arc::clone(flag))).collect();
        signals.registered = ids?;
        Ok(signals)
    }

    fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    fn continued(&self) -> bool {
        self.go_on.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
