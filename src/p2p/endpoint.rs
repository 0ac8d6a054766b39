//! Making an endpoint, connecting it and closing it. What moves memory is in `operations`. Every
//! call may be made from any thread.
#![forbid(unsafe_code)]

use crate::accept::{self, Terms};
use crate::blob::Seal;
use crate::connection::Peer;
use crate::driver::Driver;
use crate::gpu::Movable;
use crate::loaded::Named;
use crate::memory::Memory;
use crate::message::Message;
use crate::pieces::LocalPiece;
use crate::shared::{Accepted, Command, Shared, Start};
use crate::{Error, Loaded, Metadata, Settings, helper, loaded};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tcpx_bootstrap::{Config, Secret};
use tcpx_engine::gpu::{DeviceMemory, HostMemory};
use tcpx_node::environment::{captured, shared_settings_of};

/// How long an attempt may take that only tells the other end of a missing secret.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(2);

/// An endpoint. Dropping it closes every connection. A fork has none of its threads: there every call
/// fails, and dropping it does nothing.
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    terms: Terms,
    pub(crate) metadata: Metadata,
    secret: Option<Secret>,
    threads: Vec<JoinHandle<()>>,
    /// `None` where the program has loaded the plugin, and labels its recorder itself.
    _named: Option<Named>,
}

impl Endpoint {
    /// Loads the plugin, listens, and starts the endpoint's threads.
    ///
    /// The first endpoint of a process sets `NCCL_DYNAMIC_CHUNK_SIZE` where TCPX needs it and it is
    /// unset: make it before other threads change the environment. With a GPU, it also tells the
    /// software plugin to move GPU memory: where endpoints of a process have GPUs, the first of them does.
    ///
    /// # Errors
    /// A setting is wrong, the plugin does not load, or the address is not available.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        settings.check()?;
        // Before the plugin, which uses the GPU that is current.
        let mut movable = Movable::open(&settings.memory)?;
        let (loaded, named) = loaded::plugin(settings, &mut movable)?;
        Self::made(loaded, Some(named), movable, settings)
    }

    /// As [`Endpoint::new`], over a plugin that the program has loaded and initialised.
    ///
    /// # Errors
    /// A setting is wrong, no endpoint can be made over the plugin, or the address is not
    /// available.
    pub fn over(loaded: Loaded, settings: &Settings) -> Result<Self, Error> {
        settings.check()?;
        loaded.check().map_err(Error::Plugin)?;
        let movable = Movable::open(&settings.memory)?;
        Self::made(Arc::new(loaded), None, movable, settings)
    }

    fn made(
        loaded: Arc<Loaded>,
        named: Option<Named>,
        movable: Movable,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let system = |error: &dyn std::fmt::Display| {
            Error::Plugin(format!("endpoint {}: {error}", settings.name))
        };
        let interface = loaded.interface.as_deref();
        let ip = settings
            .address
            .or_else(|| tcpx_node::address_of(interface?))
            .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let listener = TcpListener::bind((ip, settings.port)).map_err(|error| {
            Error::Usage(format!(
                "cannot listen on {ip} port {}: {error}",
                settings.port
            ))
        })?;
        listener
            .set_nonblocking(true)
            .map_err(|error| system(&error))?;
        let address = listener.local_addr().map_err(|error| system(&error))?;
        let random = Secret::generate().map_err(|error| system(&error))?;
        let nonce = *random.bytes();
        let number = Secret::generate().map_err(|error| system(&error))?;
        let endpoint = u64::from_le_bytes(std::array::from_fn(|at| number.bytes()[at]));
        let gpu = movable.device();
        let metadata = Metadata {
            endpoint,
            name: settings.name.clone(),
            address,
            gpu: gpu.as_ref().map(|(number, _)| *number),
            bdf: gpu.map(|(_, bdf)| bdf).unwrap_or_default(),
            needs_secret: settings.secret.is_some(),
            nonce,
        };
        let terms = Terms {
            key: metadata
                .key(settings.secret.as_ref())
                .map_err(|error| system(&error))?,
            has_secret: settings.secret.is_some(),
            config: config(settings, &loaded, endpoint),
            lanes: settings.lanes,
            within: settings.connect_within,
        };
        let shared = Shared::new(Start {
            name: settings.name.clone(),
            scratch: scratch().map_err(|error| system(&error))?,
            loaded,
            memory: Memory::new(movable),
            seal: Seal::new(endpoint).map_err(|error| system(&error))?,
            hello: Message::Hello {
                endpoint,
                gpu: metadata.gpu,
                name: settings.name.clone(),
            },
            chunk: settings.chunk,
            stall_after: settings.stall_after,
            threads: helper::threads(settings.threads),
        });
        let shared = Arc::new(shared.map_err(|error| system(&error))?);
        let mut made = Self {
            shared,
            terms,
            metadata,
            secret: settings.secret.clone(),
            threads: Vec::new(),
            _named: named,
        };
        made.start(listener).map_err(|error| system(&error))?;
        Ok(made)
    }

    fn start(&mut self, listener: TcpListener) -> std::io::Result<()> {
        let driver = Driver::new(Arc::clone(&self.shared));
        let name = |what: &str| std::thread::Builder::new().name(format!("tcpxp2p-{what}"));
        self.threads
            .push(name("drive").spawn(move || driver.run())?);
        let (shared, terms) = (Arc::clone(&self.shared), self.terms.clone());
        let serve = move || accept::serve(&listener, &shared, &terms);
        self.threads.push(name("accept").spawn(serve)?);
        Ok(())
    }

    /// What another endpoint needs to connect to this one. Confidential, as the memory is that
    /// this endpoint advertises.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Connects to the endpoint of this metadata and returns the connection.
    ///
    /// # Errors
    /// The endpoint is not reached, has another secret, or differs in plugin or settings.
    pub fn connect(&self, metadata: &Metadata) -> Result<u64, Error> {
        self.shared.check_process()?;
        let key = match metadata.key(self.secret.as_ref()) {
            Ok(key) => key,
            Err(error) => {
                self.be_turned_away(metadata);
                return Err(Error::Usage(error.to_string()));
            }
        };
        let mut terms = Terms {
            key,
            ..self.terms.clone()
        };
        terms.config.pair = pair_of(metadata.endpoint);
        accept::connect(metadata.address, &self.shared, &terms)
    }

    /// Tries a connection that cannot be made, because one end lacks the shared secret: the other end
    /// learns of it only by turning this one away.
    fn be_turned_away(&self, metadata: &Metadata) {
        if let Ok(key) = metadata.key_with(self.secret.as_ref()) {
            let terms = Terms {
                key,
                within: TURNED_AWAY_WITHIN,
                ..self.terms.clone()
            };
            // This end knows the reason already.
            let _ = accept::connect(metadata.address, &self.shared, &terms);
        }
    }

    /// The oldest connection that a peer made and that was not returned yet. It may have ended: a fast peer is done before
    /// this is called, and its notifications wait too.
    ///
    /// # Errors
    /// There is none within `allowed`, or the endpoint is closed.
    pub fn accept(&self, allowed: Duration) -> Result<Accepted, Error> {
        self.shared.check_process()?;
        let accepted = self.shared.accepted.pop(allowed, &self.shared.stop);
        accepted.ok_or_else(|| {
            let turned_away = self.shared.take_turned_away();
            let turned_away = turned_away.map(|why| format!(" ({why})"));
            Error::TimedOut {
                what: format!("a connection of a peer{}", turned_away.unwrap_or_default()),
                allowed,
            }
        })
    }

    /// The peer of a connection and its address; `None` once the connection has ended.
    pub fn peer(&self, connection: u64) -> Option<(Peer, IpAddr)> {
        self.shared.peers().get(&connection).cloned()
    }

    /// Ends a connection: every operation on it fails on both ends.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn disconnect(&self, connection: u64) -> Result<(), Error> {
        let ask = |reply| Command::Disconnect { connection, reply };
        self.shared
            .call(ask, "closing a connection", self.shared.stall_after)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.shared.is_in_a_fork() {
            // Its threads and its name in the flight recorder are those of the other process.
            self.threads.drain(..).for_each(std::mem::forget);
            std::mem::forget(self._named.take());
            return;
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({:?})", self.metadata)
    }
}

/// What both ends of a connection to `endpoint` must agree on.
fn config(settings: &Settings, loaded: &Loaded, endpoint: u64) -> Config {
    let about = loaded.net.about();
    let terms = [
        ("endpoint.lanes", settings.lanes),
        ("endpoint.chunk", settings.chunk),
    ];
    let mut shared = shared_settings_of(captured(std::env::vars_os()));
    // Each end moves memory of its own kind.
    shared.remove(loaded::SOFT_CUDA);
    Config {
        pair: pair_of(endpoint),
        tcpxctl_version: env!("CARGO_PKG_VERSION").into(),
        scenario: terms
            .map(|(key, value)| (key.to_owned(), value.to_string()))
            .into(),
        plugin_name: about.name,
        plugin_sha256: loaded.sha256.clone(),
        settings: shared,
        ..Config::default()
    }
}

/// The name under which both ends of a connection know it: that of the endpoint that is connected to.
fn pair_of(endpoint: u64) -> String {
    format!("endpoint {endpoint:016x}")
}

/// A registration of the endpoint's own for messages without bytes.
fn scratch() -> Result<LocalPiece, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Plugin(error.to_string());
    let region = HostMemory::host()
        .allocate(4096)
        .map_err(|error| failed(&error))?;
    Ok(LocalPiece {
        held: crate::memory::Held::own(region),
        offset: 0,
        len: 0,
    })
}
