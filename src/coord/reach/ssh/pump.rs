//! Connects an ssh channel to plain streams.
//!
//! libssh2 allows one thread at a time to use a session. So one thread owns the session and copies
//! bytes between the channel and two socket pairs, without blocking in either: bytes that cannot be
//! written yet are kept, and until they are written, no more are read in that direction.
#![forbid(unsafe_code)]

use super::super::helper::Helper;
use super::super::{Addresses, AgentLink, Half, Hold, Until, lines};
use crate::stream::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use ssh2::{BlockDirections, Channel, ErrorCode, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Bytes buffered in one direction.
const ROOM: usize = 256 * 1024;
/// Time between keepalive messages.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Longest wait for the other end to close the channel after this end has sent EOF.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// Longest sleep in one poll.
const POLL_MAX: Duration = Duration::from_millis(250);

/// Starts the thread. `socket` is a duplicate of the session's socket.
pub(super) fn start(
    session: Session,
    channel: Channel,
    socket: OwnedFd,
    proxy: Option<Helper>,
    addresses: Addresses,
) -> io::Result<AgentLink> {
    let (caller, ours) = UnixStream::pair()?;
    let (caller_stderr, stderr) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    stderr.set_nonblocking(true)?;
    session.set_blocking(false);
    session.set_keepalive(true, KEEPALIVE.as_secs() as u32);
    let (to_holder, ended) = mpsc::channel();
    let given_up = Arc::new(AtomicBool::new(false));
    let hold = Box::new(Running {
        ended,
        given_up: Arc::clone(&given_up),
    });
    std::thread::Builder::new()
        .name("ssh".into())
        .spawn(move || {
            let mut pump = Pump {
                session,
                channel,
                socket,
                ours,
                stderr,
                close_by: None,
                given_up,
            };
            pump.run();
            drop(pump);
            end_proxy(proxy);
            // Fails if `finish` has stopped waiting.
            let _ = to_holder.send(());
        })?;
    let from_agent = caller.try_clone()?;
    Ok(AgentLink {
        to_agent: Box::new(Half(caller)),
        from_agent: Box::new(from_agent),
        stderr: Some(lines(caller_stderr)),
        hold,
        addresses,
    })
}

struct Running {
    ended: mpsc::Receiver<()>,
    given_up: Arc<AtomicBool>,
}

impl Hold for Running {
    /// The thread ends by itself within `CLOSE_MAX`, unless it holds bytes that the other end does
    /// not take.
    fn finish(&mut self, patience: Duration) {
        if self.ended.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.given_up.store(true, Ordering::Relaxed);
            // The thread looks at the flag after each sleep.
            let _ = self.ended.recv_timeout(2 * POLL_MAX);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// Waits until the proxy has ended, as it should when its stdin closes; ends it otherwise.
fn end_proxy(proxy: Option<Helper>) {
    let Some(proxy) = proxy else { return };
    let until = Until::after(CLOSE_MAX);
    while !proxy.has_ended() && !until.is_past() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Pump {
    session: Session,
    channel: Channel,
    socket: OwnedFd,
    ours: UnixStream,
    stderr: UnixStream,
    /// When to stop waiting for the other end; set when this end has sent EOF.
    close_by: Option<Until>,
    /// Set when the caller does not wait any longer.
    given_up: Arc<AtomicBool>,
}

/// Bytes of one direction that were read and are not yet written.
struct Pending {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Whether the reader is at its end or the writer is closed.
    ended: bool,
}

impl Pending {
    fn new() -> Self {
        Self {
            bytes: vec![0; ROOM],
            from: 0,
            to: 0,
            ended: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Writes the buffered bytes; reads new ones if there are none. Returns whether any bytes were
    /// read or written.
    fn step(&mut self, from: &mut impl Read, to: &mut impl Write) -> bool {
        let mut moved = false;
        if self.is_empty() && !self.ended {
            match from.read(&mut self.bytes) {
                Ok(0) => self.ended = true,
                Ok(length) => (self.from, self.to, moved) = (0, length, true),
                Err(error) if is_patient(&error) => {}
                Err(_) => self.ended = true,
            }
        }
        if !self.is_empty() {
            match to.write(&self.bytes[self.from..self.to]) {
                Ok(length) => {
                    self.from += length;
                    moved |= length > 0;
                }
                Err(error) if is_patient(&error) => {}
                Err(_) => (self.from, self.to, self.ended) = (0, 0, true),
            }
        }
        moved
    }
}

fn is_patient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Pump {
    fn run(&mut self) {
        let (mut down, mut up, mut stderr) = (Pending::new(), Pending::new(), Pending::new());
        let mut stream = Stream::new();
        loop {
            let sent = down.step(&mut self.ours, &mut self.channel.stream(0));
            let mut moved = up.step(&mut self.channel.stream(0), &mut self.ours);
            moved |= stderr.step(&mut self.channel.stderr(), &mut self.stderr);
            if down.ended && down.is_empty() {
                self.send_eof();
            }
            let drained = up.is_empty() && stderr.is_empty();
            if drained && (self.channel.eof() || up.ended)
                || self.close_by.is_some_and(Until::is_past)
                || self.given_up.load(Ordering::Relaxed)
            {
                return;
            }
            if !moved && !sent && !self.wait(&down, &up, &stderr) {
                return;
            }
            if moved && !sent && up.is_empty() {
                // Let packets accumulate: one at a time costs a dozen system calls for a few lines.
                stream.rest(1);
            }
        }
    }

    /// Closes the agent's stdin.
    fn send_eof(&mut self) {
        // Called again in every round, because EOF may not have been sent; repeating it is
        // harmless.
        let _ = self.channel.send_eof();
        self.close_by.get_or_insert_with(|| Until::after(CLOSE_MAX));
    }

    /// Sleeps until a stream is ready; returns false if the session is lost.
    fn wait(&self, down: &Pending, up: &Pending, stderr: &Pending) -> bool {
        let next = match self.session.keepalive_send() {
            Ok(seconds) => Duration::from_secs(u64::from(seconds)).min(POLL_MAX),
            Err(error) if error.code() == WOULD_BLOCK => POLL_MAX,
            Err(_) => return false,
        };
        let blocked_out = matches!(
            self.session.block_directions(),
            BlockDirections::Outbound | BlockDirections::Both
        );
        let socket = if blocked_out {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let mut fds = vec![PollFd::new(&self.socket, socket)];
        if down.is_empty() && !down.ended {
            fds.push(PollFd::new(&self.ours, PollFlags::IN));
        }
        if !up.is_empty() {
            fds.push(PollFd::new(&self.ours, PollFlags::OUT));
        }
        if !stderr.is_empty() {
            fds.push(PollFd::new(&self.stderr, PollFlags::OUT));
        }
        let next = Timespec {
            tv_sec: 0,
            tv_nsec: next.subsec_nanos().into(),
        };
        // An error only shortens the sleep.
        let _ = rustix::event::poll(&mut fds, Some(&next));
        true
    }
}

/// libssh2's "try again".
const WOULD_BLOCK: ErrorCode = ErrorCode::Session(-37);
