//! The sender's end: connects to an address until it has a proven peer.
//!
//! The peer may still be starting, so transient failures (refused, reset, closed, dropped) are
//! retried with growing pauses until the deadline. An explicit refusal (another version, secret or
//! protocol) is final. The error at the deadline is that of the last attempt.
#![forbid(unsafe_code)]

use super::config::Config;
use super::error::{BootstrapError, Cause, Endpoint};
use super::exchange::PeerLink;
use super::handshake::{Handshake, Step};
use super::message::{Message, Role};
use super::noise::Purpose;
use super::secret::Secret;
use super::wait::{Awaited, Deadline, Wait};
use super::wire::{Wire, enable_keepalive, ready};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Longest attempt. The kernel doubles the time between its SYNs, so a new attempt finds a host
/// that has just come up sooner.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// Connects to a listening peer, authenticates both ends and compares configurations.
///
/// # Errors
/// A final [`Cause`] at once; a transient one at the deadline, or soon after `stop` is set.
pub fn connect(
    address: SocketAddr,
    secret: &Secret,
    purpose: Purpose,
    mine: &Config,
    deadline: Deadline,
    stop: &AtomicBool,
) -> Result<PeerLink, BootstrapError> {
    let mine = mine.without_secrets(secret);
    let mut wait = Wait::new(Endpoint::Peer(address), Awaited::Connection, deadline, stop);
    let again = |cause: &Cause| is_tried_again(purpose, cause);
    let wire = meet(address, secret, purpose, &mut wait, again)?;
    PeerLink::establish(wire, Role::Connects, &mine, wait)
}

/// Whether a connection is tried again after `cause`. An endpoint's address becomes known once it listens, so an
/// endpoint that refuses a connection has ended.
fn is_tried_again(purpose: Purpose, cause: &Cause) -> bool {
    let has_ended = purpose == Purpose::Endpoint && matches!(cause, Cause::Refused);
    cause.is_transient() && !has_ended
}

/// A connection to a peer that has proved itself. Tries again after a cause for which `again` is
/// true.
pub(super) fn meet(
    address: SocketAddr,
    secret: &Secret,
    purpose: Purpose,
    wait: &mut Wait<'_>,
    again: impl Fn(&Cause) -> bool,
) -> Result<Wire, BootstrapError> {
    let mut pause = PAUSE_MIN;
    let mut last = None;
    loop {
        wait.try_again();
        let hasty = wait.remaining() < PAUSE_MAX;
        match attempt(address, secret, purpose, wait) {
            Ok(wire) => return Ok(wire),
            Err(error) if again(&error.cause) => last = Some(error.cause),
            Err(error) if hasty => return Err(explained(error, last, wait)),
            Err(error) => return Err(error),
        }
        if let Err(error) = wait.pause(pause) {
            return Err(explained(error, last, wait));
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// At the deadline, or in an attempt cut short by it, returns the cause of the previous attempt,
/// which explains more than a timeout.
fn explained(error: BootstrapError, last: Option<Cause>, wait: &Wait<'_>) -> BootstrapError {
    match (&error.cause, last) {
        (_, None | Some(Cause::Vanished)) => error,
        (Cause::TimedOut { .. }, Some(cause)) => wait.error(cause),
        _ => error,
    }
}

/// A connection to a peer that has proved itself.
fn attempt(
    address: SocketAddr,
    secret: &Secret,
    purpose: Purpose,
    wait: &mut Wait<'_>,
) -> Result<Wire, BootstrapError> {
    let stream = open(address, wait)?;
    let system = |doing, source| Cause::System { doing, source };
    let mut wire =
        Wire::new(stream).map_err(|source| wait.error(system("set up a socket", source)))?;
    let (mut handshake, hello) =
        Handshake::connects(secret, purpose).map_err(|cause| wait.error(cause))?;
    wait.set_awaited(Awaited::Hello);
    send(&mut wire, &hello, wait)?;
    loop {
        let message = wire.recv(wait, 0)?;
        match handshake
            .receive(message)
            .map_err(|cause| wait.error(cause))?
        {
            Step::Proven => return Ok(wire),
            Step::Encrypt { session, .. } => {
                wire.encrypt(session);
                wait.set_awaited(Awaited::Proof);
                send(&mut wire, &Message::Proof, wait)?;
            }
        }
    }
}

/// Sends a message. A transient error is ignored, so that the next read finds the peer's last
/// message.
fn send(wire: &mut Wire, message: &Message, wait: &Wait<'_>) -> Result<(), BootstrapError> {
    wire.send(message, wait).or_else(|error| {
        if error.cause.is_transient() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Opens a TCP connection. Blocks for at most a slice at a time.
fn open(address: SocketAddr, wait: &Wait<'_>) -> Result<TcpStream, BootstrapError> {
    let refused = |source| wait.error(Cause::from_io("connect", source));
    let start = || {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        enable_keepalive(&SockRef::from(&socket))?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
            Err(error) => Err(error),
            Ok(()) => Ok((socket, true)),
        }
    };
    let since = Instant::now();
    let (socket, mut connected) = start().map_err(refused)?;
    while !connected {
        let slice = wait.slice()?;
        ready(&mut [PollFd::new(&socket, PollFlags::OUT)], slice)
            .map_err(|cause| wait.error(cause))?;
        connected = is_connected(&socket).map_err(refused)?;
        if !connected && since.elapsed() >= ATTEMPT_MAX {
            return Err(wait.error(Cause::Vanished));
        }
    }
    let stream = TcpStream::from(socket);
    if stream.local_addr().map_err(refused)? == address {
        // On one host the kernel may pick the target port as the source port, and TCP then
        // connects the socket to itself although nothing listens there.
        return Err(wait.error(Cause::Refused));
    }
    Ok(stream)
}

fn is_connected(socket: &Socket) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
