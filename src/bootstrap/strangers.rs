//! Connections that have not proved that they have the secret, of one listening socket.
//!
//! They are held in a short list and served by one `poll`, so that a silent one does not delay the
//! others. They are bounded in number (connections without a hello are dropped first, the oldest of
//! them before the others), in bytes (one frame of `UNPROVEN_BODY_MAX`) and in time, from accept to
//! proof. A connection with a wrong message gets a `Refusal` and is dropped; rejected connections
//! are counted.
#![forbid(unsafe_code)]

use super::error::{Cause, Rejections};
use super::families::of_its_family;
use super::handshake::{Handshake, Step, refusal};
use super::message::{Message, Role};
use super::noise::Purpose;
use super::secret::Secret;
use super::wire::{Wire, ready};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bounds for connections that have not proved themselves.
#[derive(Debug, Clone, Copy)]
pub struct PendingLimits {
    /// Connections held at once; at least 1.
    pub at_once_max: usize,
    /// Time in which a connection must prove itself.
    pub time_max: Duration,
}

/// A connection that has proved itself.
pub struct Proven {
    pub(super) wire: Wire,
    /// The address that it connected from.
    pub from: SocketAddr,
}

/// The connections that have not proved themselves, and what became of the others.
pub struct Strangers<'a> {
    listener: &'a TcpListener,
    limits: PendingLimits,
    secret: &'a Secret,
    purpose: Purpose,
    pending: Vec<Pending>,
    /// Connections that were rejected.
    pub rejections: Rejections,
    /// The last of them.
    pub last_rejected: Option<(SocketAddr, Cause)>,
}

/// A connection that has not proved itself.
struct Pending {
    wire: Wire,
    from: SocketAddr,
    handshake: Handshake,
    since: Instant,
}

impl Default for PendingLimits {
    fn default() -> Self {
        Self {
            at_once_max: 16,
            time_max: Duration::from_secs(2),
        }
    }
}

impl<'a> Strangers<'a> {
    /// The connections of `listener`, which is non-blocking.
    pub fn new(
        listener: &'a TcpListener,
        limits: PendingLimits,
        secret: &'a Secret,
        purpose: Purpose,
    ) -> Self {
        Self {
            listener,
            limits,
            secret,
            purpose,
            pending: Vec::new(),
            rejections: Rejections::default(),
            last_rejected: None,
        }
    }

    /// Waits at most `at_most` for connections, or for `also` to have something to read; serves
    /// them, and returns one that has proved itself.
    pub fn serve(
        &mut self,
        also: Option<BorrowedFd<'_>>,
        at_most: Duration,
    ) -> Result<Option<Proven>, Cause> {
        self.poll(also, at_most)?;
        // Read pending connections before accepting new ones, so that new ones cannot evict a
        // connection whose proof has arrived.
        let proven = self.read_pending();
        if proven.is_none() {
            self.admit()?;
        }
        Ok(proven)
    }

    fn poll(&self, also: Option<BorrowedFd<'_>>, at_most: Duration) -> Result<(), Cause> {
        let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let pending = self.pending.iter().map(|one| input(one.wire.as_fd()));
        let listener = PollFd::new(self.listener, PollFlags::IN);
        let all = pending.chain(also.map(input)).chain([listener]);
        ready(&mut all.collect::<Vec<_>>(), at_most)
    }

    /// Accepts new connections, at most as many as the list holds.
    fn admit(&mut self) -> Result<(), Cause> {
        for _ in 0..self.limits.at_once_max.max(1) {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let from = of_its_family(from);
                    self.make_room();
                    // Setting up the socket fails if the other end has already closed it.
                    match Wire::new(stream) {
                        Ok(wire) => self.hold(wire, from)?,
                        Err(_) => {
                            self.rejections.rejected = self.rejections.rejected.saturating_add(1)
                        }
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

    fn hold(&mut self, wire: Wire, from: SocketAddr) -> Result<(), Cause> {
        self.pending.push(Pending {
            wire,
            from,
            handshake: Handshake::listens(self.secret, self.purpose)?,
            since: Instant::now(),
        });
        Ok(())
    }

    fn make_room(&mut self) {
        while self.pending.len() >= self.limits.at_once_max.max(1) {
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
            self.reject(evicted, Cause::Dropped);
        }
    }

    /// Reads from each connection once; returns the first that has proved itself.
    fn read_pending(&mut self) -> Option<Proven> {
        let mut index = 0;
        while index < self.pending.len() {
            let overdue = self.pending[index].since.elapsed() >= self.limits.time_max;
            match self.pending[index].read() {
                Ok(true) => {
                    let Pending { wire, from, .. } = self.pending.swap_remove(index);
                    return Some(Proven { wire, from });
                }
                Ok(false) if !overdue => index += 1,
                Ok(false) => {
                    let silent = self.pending.swap_remove(index);
                    self.reject(silent, Cause::Dropped);
                }
                Err(cause) => {
                    let wrong = self.pending.swap_remove(index);
                    self.reject(wrong, cause);
                }
            }
        }
        None
    }

    fn reject(&mut self, mut pending: Pending, cause: Cause) {
        self.rejections.rejected = self.rejections.rejected.saturating_add(1);
        self.rejections.wrong_secret += u32::from(matches!(cause, Cause::WrongSecret));
        self.rejections.other_version += u32::from(matches!(cause, Cause::OtherVersion { .. }));
        // A single attempt: the refusal only improves the other end's error message.
        let queued = pending.wire.queue(&Message::Refusal(refusal(&cause)));
        let _ = queued.and_then(|()| pending.wire.flush());
        self.last_rejected = Some((pending.from, cause));
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
