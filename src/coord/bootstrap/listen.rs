//! The receiver's end: waits on a port for the peer and rejects all other connections.
//!
//! Connections that have not proved themselves are held in a short list and served by one `poll`
//! loop, so that a silent one does not delay the others. They are bounded in number (connections
//! without a hello are dropped first), in bytes (two messages of `UNPROVEN_BODY_MAX`) and in time.
//! A connection with a wrong message gets a `Refusal` and is dropped; rejected connections are
//! counted for the error message.
#![forbid(unsafe_code)]

use super::config::Config;
use super::error::{BootstrapError, Cause, Endpoint, Rejections};
use super::exchange::PeerLink;
use super::handshake::{Handshake, Step, refusal};
use super::message::{Message, Role};
use super::noise::Purpose;
use super::secret::Secret;
use super::wait::{Awaited, Deadline, Wait};
use super::wire::{Wire, ready};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Connections that the kernel queues until `accept` runs. When the queue is full, the peer's
/// first packet is dropped and sent again a second later. The kernel's own limit
/// (`net.core.somaxconn`) may be lower.
const BACKLOG: i32 = 1024;

/// Bounds for connections that have not proved themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLimits {
    /// Connections held at once; at least 1.
    pub at_once_max: usize,
    /// Time in which a connection must prove itself.
    pub time_max: Duration,
}

/// A bound port that waits for its one peer.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    limits: PendingLimits,
}

/// A connection that has not proved itself.
struct Pending {
    wire: Wire,
    handshake: Handshake,
    since: Instant,
}

/// Connections that have not proved themselves, and the number of rejected ones.
struct PendingPeers<'a> {
    listener: &'a Listener,
    secret: &'a Secret,
    pending: Vec<Pending>,
    rejections: Rejections,
}

impl Default for PendingLimits {
    fn default() -> Self {
        Self {
            at_once_max: 16,
            time_max: Duration::from_secs(2),
        }
    }
}

impl Listener {
    /// Binds and listens; port 0 takes a free port. From now on the peer can connect, even before
    /// `accept` is called.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, BootstrapError> {
        Self::bind_with(address, PendingLimits::default())
    }

    /// [`Listener::bind`] with other limits for connections that have not proved themselves.
    pub(crate) fn bind_with(
        address: SocketAddr,
        limits: PendingLimits,
    ) -> Result<Self, BootstrapError> {
        let open = || {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::STREAM.nonblocking(),
                Some(Protocol::TCP),
            )?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            let socket = TcpListener::from(socket);
            let limits = PendingLimits {
                at_once_max: limits.at_once_max.max(1),
                ..limits
            };
            Ok(Self {
                address: socket.local_addr()?,
                socket,
                limits,
            })
        };
        open().map_err(|source| {
            let never = AtomicBool::new(false);
            let wait = Wait::new(
                Endpoint::Anyone(address),
                Awaited::Port,
                Deadline::after("bind", Duration::ZERO),
                &never,
            );
            wait.error(Cause::System {
                doing: "listen",
                source,
            })
        })
    }

    /// The address at which the peer can connect.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer, and closes the port once the peer has proved itself.
    ///
    /// # Errors
    /// At the deadline or when stopped, with the number of rejected connections; and if comparing
    /// configurations with the proven peer fails.
    pub(crate) fn accept(
        self,
        secret: &Secret,
        mine: &Config,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<PeerLink, BootstrapError> {
        let mine = mine.without_secrets(secret);
        let wait = Wait::new(
            Endpoint::Anyone(self.address),
            Awaited::Peer,
            deadline,
            stop,
        );
        let mut pending_peers = PendingPeers {
            listener: &self,
            secret,
            pending: Vec::new(),
            rejections: Rejections::default(),
        };
        let wire = pending_peers.wait_for_the_peer(&wait);
        let rejections = pending_peers.rejections;
        drop(self);
        let wire = wire.map_err(|mut error| {
            error.at.rejections = rejections;
            error
        })?;
        let mut link = PeerLink::establish(wire, Role::Listens, &mine, wait)?;
        link.rejections = rejections;
        Ok(link)
    }
}

impl PendingPeers<'_> {
    fn wait_for_the_peer(&mut self, wait: &Wait<'_>) -> Result<Wire, BootstrapError> {
        loop {
            self.poll(wait.slice()?)
                .map_err(|cause| wait.error(cause))?;
            // Read pending connections before accepting new ones, so that new ones cannot evict
            // a connection whose proof has arrived.
            if let Some(wire) = self.read_pending() {
                return Ok(wire);
            }
            self.admit().map_err(|cause| wait.error(cause))?;
        }
    }

    fn poll(&self, slice: Duration) -> Result<(), Cause> {
        let listener = PollFd::new(&self.listener.socket, PollFlags::IN);
        let pending = self
            .pending
            .iter()
            .map(|one| PollFd::from_borrowed_fd(one.wire.as_fd(), PollFlags::IN));
        ready(
            &mut std::iter::once(listener).chain(pending).collect::<Vec<_>>(),
            slice,
        )
    }

    /// Accepts new connections, at most as many as the list holds.
    fn admit(&mut self) -> Result<(), Cause> {
        for _ in 0..self.listener.limits.at_once_max {
            match self.listener.socket.accept() {
                Ok((stream, _)) => {
                    self.make_room();
                    // Setting up the socket fails if the other end has already closed it.
                    match Wire::new(stream) {
                        Ok(wire) => self.hold(wire)?,
                        Err(_) => self.rejections.rejected += 1,
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_lost_connection(&error) => {}
                Err(source) if self.pending.is_empty() => {
                    return Err(Cause::System {
                        doing: "accept",
                        source,
                    });
                }
                // Most likely out of descriptors or memory: dropping a connection frees both.
                Err(_) => {
                    self.evict_one();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn hold(&mut self, wire: Wire) -> Result<(), Cause> {
        self.pending.push(Pending {
            wire,
            handshake: Handshake::listens(self.secret, Purpose::Pair)?,
            since: Instant::now(),
        });
        Ok(())
    }

    fn make_room(&mut self) {
        while self.pending.len() >= self.listener.limits.at_once_max {
            self.evict_one();
        }
    }

    /// Drops the oldest connection without a hello, or else the oldest.
    fn evict_one(&mut self) {
        let oldest = self
            .pending
            .iter()
            .enumerate()
            .min_by_key(|(_, one)| (one.handshake.greeted(), one.since));
        if let Some((index, _)) = oldest {
            let evicted = self.pending.swap_remove(index);
            self.reject(evicted, &Cause::Dropped);
        }
    }

    /// Reads from each connection once; returns the first that has proved itself.
    fn read_pending(&mut self) -> Option<Wire> {
        let mut index = 0;
        while index < self.pending.len() {
            let overdue = self.pending[index].since.elapsed() >= self.listener.limits.time_max;
            match self.pending[index].read() {
                Ok(true) => return Some(self.pending.swap_remove(index).wire),
                Ok(false) if !overdue => index += 1,
                Ok(false) => {
                    let silent = self.pending.swap_remove(index);
                    self.reject(silent, &Cause::Dropped);
                }
                Err(cause) => {
                    let wrong = self.pending.swap_remove(index);
                    self.reject(wrong, &cause);
                }
            }
        }
        None
    }

    fn reject(&mut self, mut pending: Pending, cause: &Cause) {
        self.rejections.rejected += 1;
        self.rejections.wrong_secret += u32::from(matches!(cause, Cause::WrongSecret));
        self.rejections.other_version += u32::from(matches!(cause, Cause::OtherVersion { .. }));
        // A single attempt: the refusal only improves the other end's error message.
        let queued = pending.wire.queue(&Message::Refusal(refusal(cause)));
        let _ = queued.and_then(|()| pending.wire.flush());
    }
}

impl Pending {
    /// Handles the messages that have arrived; returns whether the peer has proved itself.
    fn read(&mut self) -> Result<bool, Cause> {
        self.wire.fill();
        while let Some(message) = self.wire.next()? {
            match self.handshake.receive(message)? {
                Step::Encrypt { hello, session } => {
                    if let Some(greeting) = hello {
                        let role = Role::Listens;
                        self.answer(&Message::Hello { role, greeting })?;
                    }
                    self.wire.encrypt(session);
                }
                Step::Proven => {
                    self.answer(&Message::Proof)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn answer(&mut self, answer: &Message) -> Result<(), Cause> {
        self.wire.queue(answer)?;
        // The answer is small and fits into an empty socket buffer.
        if self.wire.flush()? {
            Ok(())
        } else {
            Err(Cause::garbage("the peer does not read"))
        }
    }
}

/// Whether the connection was lost before it was accepted; see accept(2), "Error handling".
fn is_lost_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
    )
}
