//! Frames over one non-blocking socket.
//!
//! Frames travel in the clear until `encrypt`, and then inside the records of a Noise session.
//!
//! `fill`, `next` and `flush` never wait, so that a listener can serve many connections; `send` and
//! `recv` wait with a deadline. `send` reads while it waits, so that two ends that send at the same
//! time do not block each other. The inbox holds at most the largest frame or record allowed at the
//! time, which is small before the peer has proved itself.
//!
//! Small frames are sent at once (no Nagle). Keepalive packets let the kernel detect that the
//! peer's host is gone even if neither end sends.
#![forbid(unsafe_code)]

use super::duplex::Duplex;
use super::error::{BootstrapError, Cause};
use super::families::of_its_family;
use super::message::{BODY_MAX, HEADER_LEN, Message};
use super::noise::{Session, sealed_len};
use super::stream::{Reader, Writer};
use super::wait::Wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Largest body accepted before the peer has proved itself. A hello has 49 bytes.
pub(super) const UNPROVEN_BODY_MAX: usize = 256;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time without an acknowledgement after which the kernel drops the connection.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(8);
const READ_LEN: usize = 4096;

pub(super) struct Wire {
    stream: TcpStream,
    /// Received, not yet decrypted or decoded.
    inbox: Vec<u8>,
    /// To be written.
    pub(super) outbox: Vec<u8>,
    encryption: Option<Encryption>,
    body_max: usize,
    end: Option<End>,
}

/// A session and its buffers, which keep their memory from frame to frame.
struct Encryption {
    session: Session,
    /// A frame to encrypt.
    frame: Vec<u8>,
    /// Decrypted, not yet decoded.
    opened: Vec<u8>,
}

/// Why nothing more will be read.
#[derive(Debug, Clone, Copy)]
enum End {
    Closed,
    Failed(io::ErrorKind),
}

impl Wire {
    /// Wraps a connected socket. Bodies are limited to [`UNPROVEN_BODY_MAX`] until `trust`.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        enable_keepalive(&SockRef::from(&stream))?;
        Ok(Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            encryption: None,
            body_max: UNPROVEN_BODY_MAX,
            end: None,
        })
    }

    /// Encrypts what is queued from now on, and decrypts what arrives after the last message.
    pub(super) fn encrypt(&mut self, session: Session) {
        self.encryption = Some(Encryption {
            session,
            frame: Vec::new(),
            opened: Vec::new(),
        });
    }

    /// Allows the largest bodies, once the peer has proved itself.
    pub(super) fn trust(&mut self) {
        self.body_max = BODY_MAX;
    }

    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr().map(of_its_family)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Appends a message to the outbox.
    pub(super) fn queue(&mut self, message: &Message) -> Result<(), Cause> {
        let Some(Encryption { session, frame, .. }) = &mut self.encryption else {
            return Ok(message.encode(&mut self.outbox)?);
        };
        frame.clear();
        message.encode(frame)?;
        let sealed = session.sealer.seal(frame, &mut self.outbox);
        sealed.map_err(|source| Cause::System {
            doing: "encrypt a message",
            source,
        })
    }

    /// Most bytes of the inbox: those of one frame. It has room for a whole one, because `send`
    /// reads and does not decode.
    fn inbox_max(&self) -> usize {
        let frame_max = HEADER_LEN + self.body_max;
        if self.encryption.is_some() {
            sealed_len(frame_max)
        } else {
            frame_max
        }
    }

    /// Writes as much of the outbox as the socket accepts. Returns whether the outbox is empty.
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

    /// Reads once. Returns whether there is new data, or the end of the stream.
    pub(super) fn fill(&mut self) -> bool {
        let mut bytes = [0; READ_LEN];
        let room = self
            .inbox_max()
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

    /// The next complete message, or an error if none can arrive any more.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Cause> {
        let record_max = self.inbox_max();
        loop {
            let frames = match &mut self.encryption {
                Some(encryption) => &mut encryption.opened,
                None => &mut self.inbox,
            };
            if let Some((message, used)) = Message::decode(frames, self.body_max)? {
                frames.drain(..used);
                return Ok(Some(message));
            }
            let Some(Encryption {
                session, opened, ..
            }) = &mut self.encryption
            else {
                return self.ended();
            };
            match session.opener.open(&self.inbox, record_max, opened)? {
                Some(used) => drop(self.inbox.drain(..used)),
                None => return self.ended(),
            }
        }
    }

    fn ended(&self) -> Result<Option<Message>, Cause> {
        match self.end {
            None => Ok(None),
            Some(End::Closed) => Err(Cause::ClosedEarly { goodbye: false }),
            Some(End::Failed(kind)) => Err(Cause::from_io("read from the peer", kind.into())),
        }
    }

    /// Sends a message and the rest of the outbox.
    pub(super) fn send(
        &mut self,
        message: &Message,
        wait: &Wait<'_>,
    ) -> Result<(), BootstrapError> {
        self.queue(message).map_err(|cause| wait.error(cause))?;
        while !self.flush().map_err(|cause| wait.error(cause))? {
            let slice = wait.slice()?;
            let reads = if self.end.is_none() && self.inbox.len() < self.inbox_max() {
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

    /// Receives a message. Polls `spins` times before it sleeps, because waking up takes longer
    /// than a message that is about to arrive.
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

    /// Both directions, for one thread that never waits.
    pub(super) fn into_duplex(self) -> io::Result<Duplex> {
        let Some(Encryption {
            session, opened, ..
        }) = self.encryption
        else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        Ok(Duplex::new(self.stream, session, self.inbox, opened))
    }

    /// The two directions as blocking streams of bytes, for two threads.
    pub(super) fn into_streams(self) -> io::Result<(Reader, Writer)> {
        let Some(Encryption {
            session, opened, ..
        }) = self.encryption
        else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.stream.set_nonblocking(false)?;
        let writing = self.stream.try_clone()?;
        Ok((
            Reader::new(self.stream, session.opener, self.inbox, opened),
            Writer::new(writing, session.sealer),
        ))
    }

    /// Shuts down the writing side and gives the peer time to read, while discarding what arrives:
    /// closing a socket with unread bytes resets the connection, and the peer loses what was sent.
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

/// Waits until one of the sockets is ready, `at_most` has passed or a signal arrives.
pub(super) fn ready(sockets: &mut [PollFd<'_>], at_most: Duration) -> Result<(), Cause> {
    // A slice always fits a `Timespec`; otherwise poll without waiting.
    let timeout = Timespec::try_from(at_most).unwrap_or_default();
    match poll(sockets, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(Cause::System {
            doing: "poll the bootstrap's sockets",
            source: errno.into(),
        }),
    }
}

/// Lets the kernel detect that the peer's host is gone, even if neither end sends.
pub(super) fn enable_keepalive(socket: &SockRef<'_>) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}
