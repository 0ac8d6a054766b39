//! A channel as plain streams.
//!
//! libssh2 lets one thread at a time touch a session. So one thread owns it and
//! moves bytes between the channel and two socket pairs, never blocked in either:
//! what cannot be written yet is kept (bounded) and read no further.
#![forbid(unsafe_code)]

use super::super::{Addresses, AgentLink, Half, Hold, Until, lines};
use crate::stream::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use ssh2::{BlockDirections, Channel, ErrorCode, Session};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

/// Bytes in flight in one direction.
const ROOM: usize = 256 * 1024;
/// Between keepalive messages, and the longest one sleep.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// For the far side to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// Whatever the poll says, look again.
const LOOK: Duration = Duration::from_millis(250);

/// Starts the thread. `socket` is another handle of the session's own.
pub(super) fn start(
    session: Session,
    channel: Channel,
    socket: OwnedFd,
    proxy: Option<Child>,
    addresses: Addresses,
) -> io::Result<AgentLink> {
    let (caller, ours) = UnixStream::pair()?;
    let (caller_beside, beside) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    beside.set_nonblocking(true)?;
    session.set_blocking(false);
    session.set_keepalive(true, KEEPALIVE.as_secs() as u32);
    let (to_holder, ended) = mpsc::channel();
    std::thread::Builder::new()
        .name("ssh".into())
        .spawn(move || {
            let mut pump = Pump {
                session,
                channel,
                socket,
                ours,
                beside,
                said_goodbye: None,
            };
            pump.run();
            drop(pump);
            end_proxy(proxy);
            // The holder may have stopped waiting.
            let _ = to_holder.send(());
        })?;
    let from_agent = caller.try_clone()?;
    Ok(AgentLink {
        to_agent: Box::new(Half(caller)),
        from_agent: Box::new(from_agent),
        beside: Some(lines(caller_beside)),
        hold: Box::new(Running(ended)),
        addresses,
    })
}

struct Running(mpsc::Receiver<()>);

impl Hold for Running {
    /// The thread ends by itself within `GOODBYE`, whatever the far side does.
    fn finish(&mut self, patience: Duration) {
        let _ = self.0.recv_timeout(patience);
    }
}

/// A proxy ends when its stdin does; one that does not is killed.
fn end_proxy(proxy: Option<Child>) {
    let Some(mut proxy) = proxy else { return };
    let until = Until::after(GOODBYE);
    while matches!(proxy.try_wait(), Ok(None)) {
        if until.is_past() {
            // Gone meanwhile is as good.
            let _ = proxy.kill();
            let _ = proxy.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Pump {
    session: Session,
    channel: Channel,
    socket: OwnedFd,
    ours: UnixStream,
    beside: UnixStream,
    said_goodbye: Option<Until>,
}

/// Bytes that were read and are not yet written.
struct Pending {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Nothing more can be read, or nobody takes it.
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

    /// Reads when there is nothing left to write, and writes what there is.
    /// Returns whether anything moved. A reader that is gone ends it too.
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
        let (mut down, mut up, mut beside) = (Pending::new(), Pending::new(), Pending::new());
        let mut stream = Stream::new();
        loop {
            let sent = down.step(&mut self.ours, &mut self.channel.stream(0));
            let mut moved = up.step(&mut self.channel.stream(0), &mut self.ours);
            moved |= beside.step(&mut self.channel.stderr(), &mut self.beside);
            if down.ended && down.is_empty() {
                self.say_goodbye();
            }
            let drained = up.is_empty() && beside.is_empty();
            if drained && (self.channel.eof() || up.ended)
                || self.said_goodbye.is_some_and(Until::is_past)
            {
                return;
            }
            if !moved && !sent && !self.wait(&down, &up, &beside) {
                return;
            }
            if moved && !sent && up.is_empty() {
                // A packet at a time is a dozen system calls for a few lines.
                stream.rest(1);
            }
        }
    }

    /// Our last word: the agent's stdin ends.
    fn say_goodbye(&mut self) {
        // Again until it has gone out; it can be said more than once.
        let _ = self.channel.send_eof();
        self.said_goodbye
            .get_or_insert_with(|| Until::after(GOODBYE));
    }

    /// Sleeps until some stream can go on; false when the session is lost.
    fn wait(&self, down: &Pending, up: &Pending, beside: &Pending) -> bool {
        let next = match self.session.keepalive_send() {
            Ok(seconds) => Duration::from_secs(u64::from(seconds)).min(LOOK),
            Err(error) if error.code() == WOULD_BLOCK => LOOK,
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
        if !beside.is_empty() {
            fds.push(PollFd::new(&self.beside, PollFlags::OUT));
        }
        let next = Timespec {
            tv_sec: 0,
            tv_nsec: next.subsec_nanos().into(),
        };
        // Woken for nothing is woken early.
        let _ = rustix::event::poll(&mut fds, Some(&next));
        true
    }
}

/// libssh2's "try again".
const WOULD_BLOCK: ErrorCode = ErrorCode::Session(-37);
