//! The terminal: taken and given back, its keys, and the signals that concern it.
#![forbid(unsafe_code)]

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTERM, SIGTSTP};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// What a terminal sends.
pub(crate) enum Input {
    Key(KeyEvent),
    Resized,
    Other,
}

/// The terminal, ours until dropped. A panic gives it back too.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    keyboard: Keyboard,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        let keyboard = Keyboard::open()?;
        give_back_on_panic();
        Ok(Self {
            terminal: take()?,
            keyboard,
        })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut()))?;
        Ok(())
    }

    /// Draws everything anew at the next frame.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Stops this process with the terminal as it was before, until it goes on.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.terminal = take()?;
        self.redraw()
    }

    /// Whether there is something to read, or comes until then.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn has_more(&mut self, until: Instant) -> io::Result<bool> {
        self.keyboard.has_more(until)
    }

    /// What was sent, once there is something.
    pub(crate) fn read(&mut self) -> io::Result<Input> {
        Ok(match event::read()? {
            Event::Key(key) => Input::Key(key),
            Event::Resize(..) => Input::Resized,
            _ => Input::Other,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<DefaultTerminal> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

/// A terminal that is gone takes nothing back, and nobody could read that it does
/// not: `ratatui::restore` would print it, and panic as stderr is gone too.
fn give_back() {
    let _ = ratatui::try_restore();
}

/// So that what a panic prints is seen, and the shell after it works.
fn give_back_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
    });
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
        let other = if io::stdin().is_terminal() {
            None
        } else {
            Some(File::open("/dev/tty")?)
        };
        Ok(Self {
            other,
            may_hold: false,
            asks: 0,
            size: None,
        })
    }

    /// Whether a key or a new size is there, or comes until then.
    ///
    /// # Errors
    /// The terminal is gone.
    fn has_more(&mut self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_typed = self.wait(if self.may_hold {
                Duration::ZERO
            } else {
                left.min(SIZE_EVERY)
            })?;
            self.asks = if self.is_resized() {
                RESIZED_ASKS
            } else {
                self.asks.saturating_sub(1)
            };
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
        let size = tcgetwinsize(self.fd())
            .ok()
            .map(|size| (size.ws_col, size.ws_row));
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
        let most = Timespec {
            tv_sec: 0,
            tv_nsec: most.subsec_nanos().into(),
        };
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
pub(crate) struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    pub(crate) fn register() -> io::Result<Self> {
        let mut signals = Self {
            end: Arc::default(),
            stop: Arc::default(),
            go_on: Arc::default(),
            registered: Vec::new(),
        };
        let wanted = [
            (SIGTERM, &signals.end),
            (SIGHUP, &signals.end),
            (SIGTSTP, &signals.stop),
            (SIGCONT, &signals.go_on),
        ];
        let ids: io::Result<Vec<_>> = wanted
            .into_iter()
            .map(|(signal, flag)| signal_hook::flag::register(signal, Arc::clone(flag)))
            .collect();
        signals.registered = ids?;
        Ok(signals)
    }

    pub(crate) fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn continued(&self) -> bool {
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
