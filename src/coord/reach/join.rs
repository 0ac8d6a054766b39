//! Reaches a node without ssh: `tcpxctl serve` runs there, and the coordinator uses `--join`.
//!
//! Both read a shared secret from a file. The connection is authenticated and encrypted with it, as
//! that of two workers is (`bootstrap`), and then carries the agent's stdin and stdout.
#![forbid(unsafe_code)]

use super::helper::Helpers;
use super::{Addresses, AgentLink, Half, Hold, Opening, REACH_MAX, ReachError, Transport, Until};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use tcpx_bootstrap::{BootstrapError, Cause, Deadline, Reader, Secret, Writer, of_its_family};
use tcpx_words::error::Outcome;

/// A node where `tcpxctl serve` runs.
#[derive(Clone)]
pub struct Join {
    address: String,
    secret: Secret,
}

impl Join {
    /// `address` is `HOST:PORT` and `secret` the secret of that `serve`.
    pub fn new(address: &str, secret: Secret) -> Self {
        Self {
            address: address.to_owned(),
            secret,
        }
    }

    fn addresses(&self, opening: &Opening<'_>) -> Result<Vec<SocketAddr>, ReachError> {
        let address = self.address.clone();
        let resolve = move |_: &Helpers| address.to_socket_addrs().map(Vec::from_iter);
        let wrong = |what: &str| {
            let what = format!("--join HOST:PORT: {what}");
            ReachError::new(&self.address, Outcome::Usage, what)
        };
        match opening.in_thread(&self.address, REACH_MAX, resolve)? {
            Ok(found) if found.is_empty() => Err(wrong("the host has no address")),
            Ok(found) => Ok(found),
            Err(error) => Err(wrong(&error.to_string())),
        }
    }

    fn failed(&self, address: SocketAddr, error: &BootstrapError) -> ReachError {
        let because = |why: String| {
            let at = Some(address.to_string()).filter(|at| *at != self.address);
            let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
            let what = format!("cannot join{at}: {why}");
            ReachError::new(&self.address, error.outcome(), what)
        };
        match &error.cause {
            Cause::Stopped => ReachError::interrupted(&self.address),
            Cause::WrongSecret => because("`tcpxctl serve` there has another secret".into())
                .next("copy the secret file of one node to the other"),
            Cause::PeerAborted { reason, .. } => {
                because(format!("it {reason}")).next("wait until that run has ended, or end it")
            }
            Cause::OtherVersion { .. } => {
                because(error.cause.to_string()).next("install the same tcpxctl on both nodes")
            }
            Cause::Garbage { what } => {
                because(format!("what listens there is not `tcpxctl serve`: {what}"))
                    .next("check the port, and install the same tcpxctl on both nodes")
            }
            cause => because(cause.to_string())
                .next("check that `tcpxctl serve` runs there and that no firewall is between"),
        }
    }
}

impl Transport for Join {
    fn node(&self) -> &str {
        &self.address
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let until = Until::after(REACH_MAX);
        let mut last = ReachError::interrupted(&self.address);
        for address in self.addresses(opening)? {
            let deadline = Deadline::after("the time to reach a node", until.left());
            match tcpx_bootstrap::join(address, &self.secret, deadline, opening.interrupted) {
                Ok((reader, writer)) => {
                    return link(reader, writer).map_err(|error| {
                        ReachError::new(&self.address, Outcome::PeerLost, error.to_string())
                    });
                }
                Err(error) => last = self.failed(address, &error),
            }
            if last.outcome == Outcome::Interrupted || until.is_past() {
                break;
            }
        }
        Err(last)
    }
}

/// The streams of the agent behind a proven connection.
pub(super) fn link(reader: Reader, writer: Writer) -> io::Result<AgentLink> {
    let connection = writer.connection()?;
    let addresses = Addresses {
        here: Some(of_its_family(connection.local_addr()?).ip()),
        there: Some(of_its_family(connection.peer_addr()?).ip()),
    };
    Ok(AgentLink {
        to_agent: Box::new(Half(writer)),
        from_agent: Box::new(reader),
        stderr: None,
        hold: Box::new(Connection(connection)),
        addresses,
    })
}

struct Connection(TcpStream);

impl Hold for Connection {
    fn finish(&mut self, _patience: Duration) {
        // The agent ends when its stdin closes; the coordinator does not wait for it.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
