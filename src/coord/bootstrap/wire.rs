//! Frames over one non-blocking socket.
//!
//! `fill`, `next` and `flush` never wait, so a listener can serve many
//! connections with them; `send` and `recv` wait with a deadline. While waiting
//! to send, whatever arrives is taken in, so that two ends which send at the same
//! time do not wait for each other. The inbox never holds more than the largest
//! frame allowed at that moment, which for somebody unproven is very little.
//!
//! Small frames leave at once (no Nagle), and a peer whose host has vanished is
//! noticed by the kernel even when nobody is sending.
#![forbid(unsafe_code)]

use super::error::{BootstrapError, Cause};
use super::message::{BODY_MAX, HEADER_LEN, Message};
use super::wait::Wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Largest body that is taken from somebody who has not proved itself. The
/// handshake is two messages of at most 64 bytes.
pub(super) const UNPROVEN_BODY_MAX: usize = 256;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Unacknowledged for so long, the peer's host counts as gone.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(8);
const READ_LEN: usize = 4096;

pub(super) struct Wire {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    body_max: usize,
    end: Option<End>,
}

/// Why nothing more will be read.
#[derive(Debug, Clone, Copy)]
enum End {
    Closed,
    Failed(io::ErrorKind),
}

impl Wire {
    /// Takes a connected socket, of which nothing is believed yet.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        watch_the_peer(&SockRef::from(&stream))?;
        Ok(Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            body_max: UNPROVEN_BODY_MAX,
            end: None,
        })
    }

    /// The peer has proved itself: it may say everything.
    pub(super) fn trust(&mut self) {
        self.body_max = BODY_MAX;
    }

    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Puts a message behind those that still have to leave.
    pub(super) fn queue(&mut self, message: &Message) -> Result<(), Cause> {
        Ok(message.encode(&mut self.outbox)?)
    }

    /// Sends what the socket takes; says whether all has left.
    pub(super) fn flush(&mut self) -> Result<bool, Cause> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(0) => return Err(Cause::Reset),
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Cause::from_io("send to the peer", error)),
            }
        }
        Ok(true)
    }

    /// Reads once; says whether anything is new, the end included.
    pub(super) fn fill(&mut self) -> bool {
        let mut bytes = [0; READ_LEN];
        let room = (HEADER_LEN + self.body_max)
            .saturating_sub(self.inbox.len())
            .min(READ_LEN);
        if self.end.is_some() || room == 0 {
            return false;
        }
        match self.stream.read(&mut bytes[..room]) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(read) => self.inbox.extend_from_slice(&bytes[..read]),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return false,
                kind => self.end = Some(End::Failed(kind)),
            },
        }
        true
    }

    /// The next message that has arrived whole, or why none will any more.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Cause> {
        if let Some((message, used)) = Message::decode(&self.inbox, self.body_max)? {
            self.inbox.drain(..used);
            return Ok(Some(message));
        }
        self.ended()
    }

    fn ended(&self) -> Result<Option<Message>, Cause> {
        match self.end {
            None => Ok(None),
            Some(End::Closed) => Err(Cause::ClosedEarly { goodbye: false }),
            Some(End::Failed(kind)) => Err(Cause::from_io("read from the peer", kind.into())),
        }
    }

    /// Sends a message, and whatever was left of earlier ones.
    pub(super) fn send(
        &mut self,
        message: &Message,
        wait: &Wait<'_>,
    ) -> Result<(), BootstrapError> {
        self.queue(message).map_err(|cause| wait.error(cause))?;
        while !self.flush().map_err(|cause| wait.error(cause))? {
            let slice = wait.slice()?;
            let reads = if self.end.is_none() && self.inbox.len() < HEADER_LEN + self.body_max {
                PollFlags::IN
            } else {
                PollFlags::empty()
            };
            ready(
                &mut [PollFd::new(&self.stream, PollFlags::OUT | reads)],
                slice,
            )
            .map_err(|cause| wait.error(cause))?;
            self.fill();
        }
        Ok(())
    }

    /// Receives a message. Looks `spins` times before it sleeps: somebody who is
    /// about to speak is heard sooner than the scheduler would wake us.
    pub(super) fn recv(
        &mut self,
        wait: &Wait<'_>,
        mut spins: u32,
    ) -> Result<Message, BootstrapError> {
        loop {
            if let Some(message) = self.next().map_err(|cause| wait.error(cause))? {
                return Ok(message);
            }
            if self.fill() {
                continue;
            }
            let slice = wait.slice()?;
            if spins > 0 {
                spins -= 1;
                std::thread::yield_now();
            } else {
                ready(&mut [PollFd::new(&self.stream, PollFlags::IN)], slice)
                    .map_err(|cause| wait.error(cause))?;
            }
        }
    }

    /// Says that nothing more will come, and lets the peer read what has been
    /// sent: closing over unread bytes would reset the connection instead.
    pub(super) fn linger(mut self, at_most: Duration) {
        let end = Instant::now() + at_most;
        let _ = self.stream.shutdown(Shutdown::Write);
        while self.end.is_none() && !end.saturating_duration_since(Instant::now()).is_zero() {
            self.inbox.clear();
            let left = end.saturating_duration_since(Instant::now());
            if !self.fill() && ready(&mut [PollFd::new(&self.stream, PollFlags::IN)], left).is_err()
            {
                return;
            }
        }
    }
}

/// Waits until one of the sockets can be used, or `at_most`, or a signal.
pub(super) fn ready(sockets: &mut [PollFd<'_>], at_most: Duration) -> Result<(), Cause> {
    // A slice is far shorter than what a `Timespec` holds; if not, look at once.
    let timeout = Timespec::try_from(at_most).unwrap_or_default();
    match poll(sockets, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(Cause::System {
            doing: "poll the bootstrap's sockets",
            source: errno.into(),
        }),
    }
}

/// Has the kernel notice a peer's host that is gone, also while nobody sends.
pub(super) fn watch_the_peer(socket: &SockRef<'_>) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}
