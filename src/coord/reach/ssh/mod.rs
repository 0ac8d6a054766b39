//! Transport over libssh2: one session, one channel, and one thread that owns both.
//!
//! `ssh -G` resolves the user's configuration for the host, with Match, Include and the rest; if
//! ssh is not installed, the address is used as given. A ProxyJump or ProxyCommand is a child
//! process whose streams carry the session.
#![forbid(unsafe_code)]

mod config;
mod hostkey;
mod login;
mod pump;

use super::helper::{Helper, Helpers};
use super::install::{Boot, bring};
pub use super::target::Target;
use super::{Addresses, AgentLink, Opening, REACH_MAX, ReachError, Transport, Until};
use config::Settings;
use ssh2::Session;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use tcpx_words::error::Outcome;

/// A node behind an sshd.
#[derive(Clone)]
pub struct Ssh {
    target: Target,
    boot: Boot,
}

impl Ssh {
    /// Checks the target without connecting.
    ///
    /// # Errors
    /// The host is empty or begins with `-`.
    pub fn new(target: Target, boot: Boot) -> Result<Self, ReachError> {
        target.check()?;
        Ok(Self { target, boot })
    }

    fn error(&self, outcome: Outcome, what: impl Into<String>) -> ReachError {
        ReachError::new(&self.target.name, outcome, what)
    }

    /// Opens a session over a stream, checks the host key and logs in.
    fn session(
        &self,
        stream: Stream,
        settings: &Settings,
        until: Until,
    ) -> Result<(Session, OwnedFd), ReachError> {
        let broken =
            |error: ssh2::Error| self.error(Outcome::PeerLost, format!("ssh: {}", error.message()));
        let mut session = Session::new().map_err(broken)?;
        let socket = stream.give_to(&mut session).map_err(|error| {
            self.error(
                Outcome::NotRun,
                format!("cannot duplicate a socket: {error}"),
            )
        })?;
        session.set_timeout(u32::try_from(until.left().as_millis().max(1)).unwrap_or(u32::MAX));
        let known = hostkey::Known::read(&self.target.name, settings)?;
        known.prefer(&session);
        session
            .handshake()
            .map_err(|error| known.explain(&error, &self.target))?;
        known.check(&session, &self.target)?;
        login::log_in(&session, settings, &self.target)?;
        Ok((session, socket))
    }

    fn stream(
        &self,
        settings: &Settings,
        helpers: &Helpers,
        until: Until,
    ) -> Result<(Stream, Addresses, Option<Helper>), ReachError> {
        if let Some(command) = settings.proxy(&self.target) {
            return self.through(&command, settings, helpers);
        }
        let (host, port) = (settings.host.as_str(), settings.port);
        let unknown = |why: String| {
            self.error(Outcome::Usage, format!("cannot resolve {host}: {why}"))
                .next(
                    "give an address, a name from node_ips/*.txt, or one that ~/.ssh/config knows",
                )
        };
        let addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| unknown(error.to_string()))?;
        let mut last = unknown("the name has no address".into());
        for address in addresses {
            match TcpStream::connect_timeout(
                &address,
                until.left().max(std::time::Duration::from_millis(1)),
            ) {
                Ok(stream) => {
                    // Messages are lines of a few bytes; do not delay them.
                    let _ = stream.set_nodelay(true);
                    let here = stream.local_addr().ok().map(|local| local.ip());
                    let addresses = Addresses {
                        here,
                        there: Some(address.ip()),
                    };
                    return Ok((Stream::Tcp(stream), addresses, None));
                }
                Err(error) => {
                    let what = format!("cannot reach {address}: {error}");
                    last = self
                        .error(Outcome::PeerLost, what)
                        .next(match error.kind() {
                            io::ErrorKind::ConnectionRefused => {
                                "check that an sshd runs there on that port"
                            }
                            _ => "check the address, and that no firewall blocks this port",
                        });
                }
            }
        }
        Err(last)
    }

    fn through(
        &self,
        command: &str,
        settings: &Settings,
        helpers: &Helpers,
    ) -> Result<(Stream, Addresses, Option<Helper>), ReachError> {
        let failed = |error: io::Error| {
            self.error(
                Outcome::PeerLost,
                format!("cannot start the proxy `{command}`: {error}"),
            )
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let stdin = OwnedFd::from(theirs.try_clone().map_err(failed)?);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::inherit());
        let proxy = helpers.start(&mut shell).map_err(failed)?;
        let there = settings.host.parse().ok();
        let here = there.and_then(super::source_towards);
        Ok((Stream::Pair(ours), Addresses { here, there }, Some(proxy)))
    }
}

enum Stream {
    Tcp(TcpStream),
    Pair(UnixStream),
}

impl Stream {
    /// Gives the stream to the session. Returns a duplicate of its descriptor, for polling.
    fn give_to(self, session: &mut Session) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Tcp(stream) => {
                let socket = stream.try_clone()?;
                session.set_tcp_stream(stream);
                socket.into()
            }
            Self::Pair(stream) => {
                let socket = stream.try_clone()?;
                session.set_tcp_stream(stream);
                socket.into()
            }
        })
    }
}

impl Transport for Ssh {
    fn node(&self) -> &str {
        &self.target.name
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let node = self.clone();
        let opened = opening.in_thread(&self.target.name, login::MAX, move |helpers| {
            node.link(helpers)
        });
        if opened.is_err() {
            login::end_prompt();
        }
        bring(&self.target.name, opened??, &self.boot, opening)
    }
}

impl Ssh {
    /// Logs in and starts the shell line of `install`.
    fn link(&self, helpers: &Helpers) -> Result<AgentLink, ReachError> {
        let until = Until::after(REACH_MAX);
        let settings = config::ask(&self.target, helpers, until)?;
        let (stream, addresses, proxy) = self.stream(&settings, helpers, until)?;
        let broken =
            |error: ssh2::Error| self.error(Outcome::PeerLost, format!("ssh: {}", error.message()));
        let started = self
            .session(stream, &settings, until)
            .and_then(|(session, socket)| {
                let mut channel = session.channel_session().map_err(broken)?;
                let line = tcpx_words::units::shell_word(&self.boot.line());
                channel.exec(&format!("sh -c {line}")).map_err(broken)?;
                Ok((session, socket, channel))
            });
        let (session, socket, channel) = started.map_err(|error| error.over(addresses.there))?;
        pump::start(session, channel, socket, proxy, addresses).map_err(|error| {
            self.error(
                Outcome::NotRun,
                format!("cannot set up the streams of the ssh channel: {error}"),
            )
        })
    }
}
