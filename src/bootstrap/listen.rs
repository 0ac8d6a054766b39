//! The receiver's end: waits on a port for the peer and rejects all other connections.
#![forbid(unsafe_code)]

use super::config::Config;
use super::error::{BootstrapError, Cause, Endpoint};
use super::exchange::PeerLink;
use super::message::Role;
use super::noise::Purpose;
use super::secret::Secret;
use super::strangers::{PendingLimits, Proven, Strangers};
use super::wait::{Awaited, Deadline, Wait};
use super::wire::Wire;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Connections that the kernel queues until `accept` runs. When the queue is full, the peer's
/// first packet is dropped and sent again a second later. The kernel's own limit
/// (`net.core.somaxconn`) may be lower.
pub(super) const BACKLOG: i32 = 1024;

/// A bound port that waits for its one peer.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    limits: PendingLimits,
}

impl Listener {
    /// Binds and listens; port 0 takes a free port. From now on the peer can connect, even before
    /// `accept` is called.
    pub fn bind(address: SocketAddr) -> Result<Self, BootstrapError> {
        Self::bind_with(address, PendingLimits::default())
    }

    /// [`Listener::bind`] with other limits for connections that have not proved themselves.
    pub fn bind_with(address: SocketAddr, limits: PendingLimits) -> Result<Self, BootstrapError> {
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
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer, and closes the port once the peer has proved itself.
    ///
    /// # Errors
    /// At the deadline or when stopped, with the number of rejected connections; and if comparing
    /// configurations with the proven peer fails.
    pub fn accept(
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
        let mut strangers = Strangers::new(&self.socket, self.limits, secret, Purpose::Pair);
        let wire = first_proven(&mut strangers, &wait);
        let rejections = strangers.rejections;
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

impl Proven {
    /// Compares configurations with the peer, as [`Listener::accept`] does, and leaves the port
    /// open.
    ///
    /// # Errors
    /// At the deadline or when stopped; and if the configurations differ.
    pub fn agree(
        self,
        secret: &Secret,
        mine: &Config,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<PeerLink, BootstrapError> {
        let wait = Wait::new(Endpoint::Peer(self.from), Awaited::Config, deadline, stop);
        let mine = mine.without_secrets(secret);
        PeerLink::establish(self.wire, Role::Listens, &mine, wait)
    }
}

fn first_proven(strangers: &mut Strangers<'_>, wait: &Wait<'_>) -> Result<Wire, BootstrapError> {
    loop {
        let slice = wait.slice()?;
        let served = strangers.serve(None, slice);
        if let Some(proven) = served.map_err(|cause| wait.error(cause))? {
            return Ok(proven.wire);
        }
    }
}
