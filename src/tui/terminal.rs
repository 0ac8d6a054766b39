//! The terminal: entering and restoring it, its keys, and the signals that concern it.
#![forbid(unsafe_code)]

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// Input from the terminal.
pub(crate) enum TerminalInput {
    Key(KeyEvent),
    Resized,
    Other,
}

/// The terminal in raw mode, on the alternate screen. Drop and panics restore it.
pub(crate) struct Screen {
    /// Not dropped: when the terminal was closed, that would print an error to a closed stderr and
    /// panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    keyboard: Keyboard,
    is_hidden: bool,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        let keyboard = Keyboard::open()?;
        // A pipe whose writer has ended hangs up too, and may still hold bytes for its reader.
        if keyboard.other.is_none() {
            guard_stdin();
        }
        restore_on_panic();
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        Ok(Self {
            terminal: ManuallyDrop::new(terminal.inspect_err(|_| restore())?),
            keyboard,
            is_hidden: false,
        })
    }

    /// Whether the terminal is left to another process, because this one is in its background.
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut()))?;
        Ok(())
    }

    /// Clears the screen, so that the next frame redraws everything.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Restores the terminal and stops this process until SIGCONT.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.resume()
    }

    /// Takes the terminal again, unless this process is in its background. The shell may have
    /// changed its settings.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.is_hidden = is_in_background();
        if self.is_hidden {
            return Ok(());
        }
        restore();
        enter()?;
        self.redraw()
    }

    /// Waits until `until` for input, and returns whether there is some.
    ///
    /// # Errors
    /// The terminal was closed.
    pub(crate) fn has_more(&mut self, until: Instant) -> io::Result<bool> {
        self.keyboard.has_more(until)
    }

    /// Fails if the terminal was closed.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.keyboard.wait(Duration::ZERO).map(drop)
    }

    /// The next input. Blocks until there is some.
    pub(crate) fn read(&mut self) -> io::Result<TerminalInput> {
        Ok(match event::read()? {
            Event::Key(key) => TerminalInput::Key(key),
            Event::Resize(..) => TerminalInput::Resized,
            _ => TerminalInput::Other,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal is in raw mode on the alternate screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

fn enter() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Whether the foreground of the terminal is another process group: as soon as this process reads
/// the terminal or changes its settings, the system stops it. A terminal that does not control this
/// process has no background.
pub(crate) fn is_in_background() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|foreground| foreground != getpgrp())
}

/// Restores the terminal if the view has it, for a process that is about to end; any thread may
/// call this. Errors are ignored: when the terminal was closed, `ratatui::restore` would print the
/// error to a closed stderr and panic. In the background, the shell has restored it.
pub fn restore() {
    if is_in_background() {
        return;
    }
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), Show);
        let _ = ratatui::try_restore();
    }
}

/// Restores the terminal before a panic prints its message.
fn restore_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
    });
}

/// Whether stdin has hung up.
static HAS_HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Starts a thread that waits until stdin hangs up and then puts a socket without input in its place: where the terminal
/// goes away while crossterm reads it, crossterm would read its end for ever.
fn guard_stdin() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Ok((quiet, other)) = UnixStream::pair() else {
            return;
        };
        // Without the guard, only a terminal that goes away at that moment is missed.
        let _ = std::thread::Builder::new()
            .name("stdin".into())
            .spawn(move || {
                let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
                loop {
                    // No input is waited for: a hang-up is always reported.
                    let mut polled = [PollFd::from_borrowed_fd(
                        rustix::stdio::stdin(),
                        PollFlags::empty(),
                    )];
                    match rustix::event::poll(&mut polled, None) {
                        Ok(_) if polled[0].revents().intersects(gone) => break,
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(_) => return,
                    }
                }
                HAS_HUNG_UP.store(true, Ordering::Relaxed);
                if quiet.set_nonblocking(true).is_ok() && rustix::stdio::dup2_stdin(&quiet).is_ok()
                {
                    // Closed, it would be an end again.
                    std::mem::forget(other);
                }
            });
    });
}

/// The terminal that crossterm reads keys from. When the terminal has hung up, crossterm reads
/// it in an endless loop. So this type polls the terminal itself, and asks crossterm only if
/// there is input.
struct Keyboard {
    /// `/dev/tty`, if standard input is not a terminal.
    other: Option<File>,
    /// Whether crossterm may hold more keys that arrived together with the last one.
    may_hold: bool,
    /// Number of further polls that ask crossterm without any input, after a change of size:
    /// crossterm's SIGWINCH may arrive after the new size is visible.
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

    /// Waits until `until` for a key or a new size, and returns whether there is one.
    ///
    /// # Errors
    /// The terminal was closed.
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
            if is_in_background() {
                return Ok(false);
            }
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

    /// Waits at most `most`, which is less than a second, and returns whether a key was typed.
    fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
        let most = Timespec {
            tv_sec: 0,
            tv_nsec: most.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut polled, Some(&most)) {
            // EINTR: the caller checks its signal flags.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = polled[0].revents();
        let is_gone = self.other.is_none() && HAS_HUNG_UP.load(Ordering::Relaxed);
        if is_gone || seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            let hung_up = io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal hung up");
            return Err(hung_up);
        }
        Ok(seen.contains(PollFlags::IN))
    }
}

/// Time between two checks of the terminal's size, which poll does not report.
const SIZE_EVERY: Duration = Duration::from_millis(50);
/// Number of polls after a change of size within which SIGWINCH is expected.
const RESIZED_ASKS: u32 = 4;

/// Flags that signal handlers set and the loop reads.
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
            (SIGINT, &signals.end),
            (SIGTERM, &signals.end),
            (SIGHUP, &signals.end),
            (SIGQUIT, &signals.end),
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
