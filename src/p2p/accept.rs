//! The thread that waits for peers: it proves them, and hands each to a thread of its own, because
//! agreeing on a connection takes several round trips.
#![forbid(unsafe_code)]

use crate::Error;
use crate::joining::{Joining, Lanes};
use crate::shared::{Command, Shared};
use crate::transfer::Reply;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tcpx_bootstrap::{
    BootstrapError, Cause, Config, Deadline, PAIR, PeerLink, PendingLimits, Proven, Purpose,
    Secret, Strangers,
};
use tcpx_words::error::Outcome;

/// Proven peers that are being connected at once.
const INTRODUCED_MAX: usize = 64;
const SLICE: Duration = Duration::from_millis(50);
const CONNECT_LIMIT: &str = "the endpoint's connect_within";

/// What a connection needs on this end.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) key: Secret,
    /// Whether a shared secret is part of the key.
    pub(crate) has_secret: bool,
    pub(crate) config: Config,
    pub(crate) lanes: usize,
    pub(crate) within: Duration,
}

/// Serves the port until the endpoint is closed.
pub(crate) fn serve(listener: &TcpListener, shared: &Arc<Shared>, terms: &Terms) {
    let limits = PendingLimits::default();
    let mut strangers = Strangers::new(listener, limits, &terms.key, Purpose::Endpoint);
    let busy = Arc::new(AtomicUsize::new(0));
    while !shared.stop.load(Ordering::Relaxed) {
        let served = strangers.serve(None, SLICE);
        if let Some((from, cause)) = strangers.last_rejected.take()
            && let Some(why) = rejection(&cause, terms.has_secret)
        {
            shared.turn_away(&format!("a peer at {from} was not connected: {why}"));
        }
        // A failed poll is tried again: the port stays open for other peers.
        let Ok(Some(proven)) = served else {
            continue;
        };
        if busy.load(Ordering::Relaxed) >= INTRODUCED_MAX {
            continue;
        }
        busy.fetch_add(1, Ordering::Relaxed);
        let (shared, terms, busy) = (Arc::clone(shared), terms.clone(), Arc::clone(&busy));
        let introduce = move || {
            let from = proven.from;
            // The peer learns of an error by its own end of the connection.
            if let Err(error) = introduce(proven, &shared, &terms) {
                let why = match error {
                    Error::Connection { why, .. } => why,
                    other => other.to_string(),
                };
                shared.turn_away(&format!("a peer at {from} was not connected: {why}"));
            }
            busy.fetch_sub(1, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("tcpxp2p-peer".into());
        // Without a thread the peer's connection ends, which it sees.
        let _ = thread.spawn(introduce);
    }
}

fn introduce(proven: Proven, shared: &Shared, terms: &Terms) -> Result<(), Error> {
    let deadline = Deadline::after(CONNECT_LIMIT, terms.within);
    let link = proven.agree(&terms.key, &terms.config, deadline, &shared.stop);
    let link = link.map_err(|error| failed("a peer", &error))?;
    join(link, shared, terms, None)
}

/// Connects to an endpoint that listens.
pub(crate) fn connect(
    address: std::net::SocketAddr,
    shared: &Shared,
    terms: &Terms,
) -> Result<u64, Error> {
    let deadline = Deadline::after(CONNECT_LIMIT, terms.within);
    let (key, config) = (&terms.key, &terms.config);
    let link = tcpx_bootstrap::connect(
        address,
        key,
        Purpose::Endpoint,
        config,
        deadline,
        &shared.stop,
    );
    let link = link.map_err(|error| failed(&address.to_string(), &error))?;
    let (reply, connected) = std::sync::mpsc::sync_channel(1);
    join(link, shared, terms, Some(reply))?;
    // The driver answers at its own deadlines; this one is for a driver inside a plugin call.
    let allowed = terms.within + shared.stall_after;
    connected
        .recv_timeout(allowed)
        .map_err(|_| Error::TimedOut {
            what: format!("a connection to {address}"),
            allowed,
        })?
}

/// Exchanges the plugin's connect handles and lets the driver connect the lanes.
fn join(
    mut link: PeerLink,
    shared: &Shared,
    terms: &Terms,
    reply: Option<Reply<u64>>,
) -> Result<(), Error> {
    let peer = link.peer().ip();
    let count = terms.lanes;
    let listening = shared.call(
        |reply| Command::Listen { count, reply },
        "listening on the plugin's devices",
        terms.within,
    );
    let (listening, mine) = match listening {
        Ok(made) => made,
        Err(error) => {
            // The peer, which waits for handles, learns the reason.
            link.abort(Outcome::NotRun, &error.to_string());
            return Err(error);
        }
    };
    let deadline = Deadline::after(CONNECT_LIMIT, terms.within);
    let handles = link.exchange_handles(&mine, count, deadline, &shared.stop);
    let ready = handles
        .map_err(|error| failed(&peer.to_string(), &error))
        .and_then(|handles| match link.into_duplex() {
            Ok(duplex) => Ok((handles, duplex)),
            Err(error) => {
                let (peer, why) = (peer.to_string(), error.to_string());
                Err(Error::Connection { peer, why })
            }
        });
    match ready {
        Ok((handles, duplex)) => shared.ask(Command::Join(Box::new(Joining {
            listening,
            duplex,
            handles,
            peer,
            deadline: Instant::now() + terms.within,
            reply,
            lanes: Lanes::default(),
        }))),
        Err(error) => {
            shared.ask(Command::Forget { listening })?;
            Err(error)
        }
    }
}

/// Why a peer that has proved nothing was turned away; `None` for what is no endpoint.
fn rejection(cause: &Cause, has_secret: bool) -> Option<String> {
    match cause {
        Cause::WrongSecret if has_secret => Some(
            "it has another shared secret, or none, or the metadata of another endpoint".to_owned(),
        ),
        Cause::WrongSecret => Some(
            "it has a shared secret, which this endpoint lacks, or the metadata of another endpoint"
                .to_owned(),
        ),
        Cause::OtherVersion { .. } => Some(cause.to_string()),
        _ => None,
    }
}

/// The bootstrap's error in the words of endpoints. Where the peer answered, how long it took is of no use.
fn failed(peer: &str, error: &BootstrapError) -> Error {
    let why = match &error.cause {
        Cause::WrongSecret => {
            "the endpoint there has another secret, or is not the one of this metadata".to_owned()
        }
        Cause::DifferentConfig(differences) => {
            match differences.0.iter().find(|one| one.key == PAIR) {
                Some(pair) => format!(
                    "the connecting end has the metadata of another endpoint: {} here, {} there",
                    pair.here, pair.there
                ),
                None => error.cause.to_string(),
            }
        }
        Cause::Refused => {
            "nothing listens there: the endpoint of this metadata has ended".to_owned()
        }
        Cause::PeerAborted { .. } => error.cause.to_string(),
        _ => error.to_string(),
    };
    let peer = peer.to_owned();
    Error::Connection { peer, why }
}
