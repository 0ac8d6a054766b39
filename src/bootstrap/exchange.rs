//! The messages between proven peers: the configurations first, then connect handles and
//! barriers, and at the end a goodbye or an abort with its reason.
//!
//! Both ends call the same methods in the same order; an error names both steps if they differ.
//! One thread owns a link. After a method has failed, only `abort` may be called.
#![forbid(unsafe_code)]

use super::config::Config;
use super::duplex::Duplex;
use super::error::{BootstrapError, Cause, Endpoint, Rejections, printable};
use super::message::{Flow, HANDLES_MAX, Handle, Message, Role};
use super::wait::{Awaited, Deadline, Wait};
use super::wire::Wire;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tcpx_words::error::Outcome;

/// How often a barrier polls before it sleeps: some tens of microseconds, about the time between
/// two ends that finish together.
const BARRIER_SPINS: u32 = 100;
/// How long an abort may take to be sent and read.
const ABORT_LINGER: Duration = Duration::from_millis(250);
const REASON_CHARS_SHOWN: usize = 400;

/// A connection between two workers that share a secret and a configuration.
pub struct PeerLink {
    pub(super) wire: Wire,
    role: Role,
    pub(super) peer: SocketAddr,
    epoch: u64,
    pub(super) rejections: Rejections,
}

impl PeerLink {
    /// Compares configurations with a peer that has proved itself.
    pub(super) fn establish(
        mut wire: Wire,
        role: Role,
        mine: &Config,
        wait: Wait<'_>,
    ) -> Result<Self, BootstrapError> {
        let peer = wire
            .peer()
            .map_err(|source| wait.error(Cause::from_io("ask for the peer's address", source)))?;
        wire.trust();
        let mut link = Self {
            wire,
            role,
            peer,
            epoch: 0,
            rejections: Rejections::default(),
        };
        match link.agree(mine, wait.with(Endpoint::Peer(peer), Awaited::Config)) {
            Ok(()) => Ok(link),
            Err(error) => {
                // Report what only this end knows; the peer finds every other error itself.
                if matches!(error.cause, Cause::Stopped | Cause::TooLarge { .. }) {
                    link.abort(error.outcome(), &error.cause.to_string());
                }
                Err(error)
            }
        }
    }

    fn agree(&mut self, mine: &Config, mut wait: Wait<'_>) -> Result<(), BootstrapError> {
        self.send(&Message::Config(mine.clone()), &wait)?;
        match self.recv(&wait, 0)? {
            Message::Config(config) => {
                if let Some(differences) = mine.differences(&config) {
                    return Err(wait.error(Cause::DifferentConfig(differences)));
                }
            }
            other => return Err(wait.error(out_of_step("configuration", &other))),
        }
        wait.set_awaited(Awaited::Ready);
        self.send(&Message::Ready, &wait)?;
        match self.recv(&wait, 0)? {
            Message::Ready => Ok(()),
            other => Err(wait.error(out_of_step("ready", &other))),
        }
    }

    /// Sends the connect handles of this end's listeners (none if it only sends) and receives the
    /// peer's, of which there must be `expected`.
    pub fn exchange_handles(
        &mut self,
        mine: &[Handle],
        expected: usize,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<Vec<Handle>, BootstrapError> {
        let wait = self.wait(Awaited::Handles, deadline, stop);
        if mine.len() > HANDLES_MAX {
            let cause = Cause::TooLarge {
                what: "list of connect handles",
                len: mine.len(),
                max: HANDLES_MAX,
            };
            return Err(wait.error(cause));
        }
        self.send(
            &Message::Handles {
                flow: Flow::towards(self.role),
                handles: mine.to_vec(),
            },
            &wait,
        )?;
        match self.recv(&wait, 0)? {
            Message::Handles { flow, .. } if flow == Flow::towards(self.role) => Err(wait.error(
                Cause::garbage("the peer's connect handles are for the wrong direction"),
            )),
            Message::Handles { handles, .. } if handles.len() == expected => Ok(handles),
            Message::Handles { handles, .. } => Err(wait.error(Cause::OutOfStep {
                here: format!("{expected} of the peer's connections"),
                there: format!("{} connect handles", handles.len()),
            })),
            other => Err(wait.error(out_of_step("connect handles", &other))),
        }
    }

    /// Returns when both ends have called this with the same name and for the same number of times.
    /// Sends `payload` and returns the peer's. The name has at most 64
    /// bytes.
    pub fn barrier(
        &mut self,
        name: &str,
        payload: u64,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<u64, BootstrapError> {
        let wait = self.wait(Awaited::Barrier(name), deadline, stop);
        let here = self.epoch;
        self.epoch += 1;
        self.send(
            &Message::Barrier {
                epoch: here,
                payload,
                name: name.to_owned(),
            },
            &wait,
        )?;
        match self.recv(&wait, BARRIER_SPINS)? {
            Message::Barrier {
                epoch,
                payload,
                name: theirs,
            } if epoch == here && theirs == name => Ok(payload),
            Message::Barrier {
                epoch,
                name: theirs,
                ..
            } => {
                let shown =
                    |name, epoch| format!("barrier `{}` (epoch {epoch})", printable(name, 64));
                let (here, there) = (shown(name, here), shown(&theirs, epoch));
                Err(wait.error(Cause::OutOfStep { here, there }))
            }
            other => Err(wait.error(out_of_step(&format!("barrier `{name}`"), &other))),
        }
    }

    /// Sends the peer the reason why this end gives up; best effort, for at most `ABORT_LINGER`.
    pub fn abort(mut self, outcome: Outcome, reason: &str) {
        let never = AtomicBool::new(false);
        let wait = self.wait(
            Awaited::Abort,
            Deadline::after("abort", ABORT_LINGER),
            &never,
        );
        if self
            .wire
            .send(
                &Message::Abort {
                    outcome,
                    reason: reason.to_owned(),
                },
                &wait,
            )
            .is_ok()
        {
            self.wire.linger(wait.remaining());
        }
    }

    /// The connection as bytes for one thread that never waits. Both ends call it after the same
    /// message.
    ///
    /// # Errors
    /// The connection is not encrypted, which cannot be after [`PeerLink`] was made.
    pub fn into_duplex(self) -> std::io::Result<Duplex> {
        self.wire.into_duplex()
    }

    /// The address of the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Says goodbye and waits for the peer's, so that neither end sees a lost connection.
    pub fn close(mut self, deadline: Deadline, stop: &AtomicBool) -> Result<(), BootstrapError> {
        let wait = self.wait(Awaited::Bye, deadline, stop);
        self.send(&Message::Bye, &wait)?;
        match self.wire.recv(&wait, 0)? {
            Message::Bye => Ok(()),
            other => match expect_open(other) {
                Ok(other) => Err(wait.error(out_of_step("goodbye", &other))),
                Err(cause) => Err(wait.error(cause)),
            },
        }
    }

    fn wait<'a>(&self, awaited: Awaited<'a>, deadline: Deadline, stop: &'a AtomicBool) -> Wait<'a> {
        Wait::new(Endpoint::Peer(self.peer), awaited, deadline, stop)
    }

    /// Sends a message. If the connection is lost, returns the reason from the peer's last
    /// messages, if any.
    fn send(&mut self, message: &Message, wait: &Wait<'_>) -> Result<(), BootstrapError> {
        let Err(error) = self.wire.send(message, wait) else {
            return Ok(());
        };
        if !error.cause.is_transient() {
            return Err(error);
        }
        while self.wire.fill() {}
        while let Ok(Some(message)) = self.wire.next() {
            expect_open(message).map_err(|cause| wait.error(cause))?;
        }
        Err(error)
    }

    fn recv(&mut self, wait: &Wait<'_>, spins: u32) -> Result<Message, BootstrapError> {
        let message = self.wire.recv(wait, spins)?;
        expect_open(message).map_err(|cause| wait.error(cause))
    }
}

impl std::fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PeerLink({:?}, peer {}, epoch {})",
            self.role, self.peer, self.epoch
        )
    }
}

/// Turns an abort or a goodbye into an error; passes on any other message.
pub(super) fn expect_open(message: Message) -> Result<Message, Cause> {
    match message {
        Message::Abort { outcome, reason } => Err(Cause::PeerAborted {
            outcome,
            reason: printable(&reason, REASON_CHARS_SHOWN),
        }),
        Message::Bye => Err(Cause::ClosedEarly { goodbye: true }),
        other => Ok(other),
    }
}

pub(super) fn out_of_step(here: &str, there: &Message) -> Cause {
    Cause::OutOfStep {
        here: here.to_owned(),
        there: there.name().to_owned(),
    }
}
