//! Errors of the bootstrap: the address, what was awaited and for how long (`ErrorContext`, the
//! same for all), and what happened (`Cause`, one variant each).
#![forbid(unsafe_code)]

use super::config::Differences;
use super::message::{Malformed, TooLarge};
use super::noise::NotAuthentic;
use super::wait::Awaited;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tcpx_words::error::{NextStep, Outcome};

/// Most keys that a next step lists.
const KEYS_IN_STEP_MAX: usize = 5;

/// A bootstrap that failed.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {cause}{}", at.rejections)]
pub struct BootstrapError {
    /// What was awaited, from which address, for how long.
    pub at: Box<ErrorContext>,
    /// What happened.
    pub cause: Cause,
}

/// The state of a bootstrap when it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorContext {
    /// The peer's address, or the listening address while there is no peer.
    pub endpoint: Endpoint,
    /// What was awaited: `the peer's proof`, ``barrier `warm-up` ``.
    pub awaited: String,
    /// How long the bootstrap had waited.
    pub waited: Duration,
    /// Connection attempts; 0 at the end that listens.
    pub tries: u32,
    /// Other connections that were rejected in the meantime.
    pub rejections: Rejections,
}

/// The address that a wait is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The peer at this address.
    Peer(SocketAddr),
    /// Any peer that connects to this listening address.
    Anyone(SocketAddr),
}

/// What happened.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Nothing listens there, or a firewall rejects.
    #[error("the connection was refused")]
    Refused,
    /// The deadline came first.
    #[error("nothing arrived within {limit} ({} s)", allowed.as_secs_f64())]
    TimedOut {
        /// The deadline's name.
        limit: &'static str,
        /// Its length.
        allowed: Duration,
    },
    /// The kernel gave up on a host that no longer acknowledges packets.
    #[error("the peer's host stopped answering")]
    Vanished,
    /// No route to the address.
    #[error("the address cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The peer's kernel reset the connection: the process died or did not read.
    #[error("the connection was reset by the peer")]
    Reset,
    /// The peer closed the connection before it sent what was awaited.
    #[error("the peer {} too early", if *goodbye { "sent a goodbye" } else { "closed the connection" })]
    ClosedEarly {
        /// Whether the peer sent a goodbye first, so that it has finished.
        goodbye: bool,
    },
    /// The listener closed the connection before this end had sent its proof.
    #[error(
        "the listener dropped this connection before its proof: too slow, or too many connections at once"
    )]
    Dropped,
    /// The other end does not have this end's secret.
    #[error("the two ends have different secrets: the peer belongs to another run")]
    WrongSecret,
    /// The peer is another build.
    #[error("the peer speaks bootstrap version {theirs}, this end {ours}")]
    OtherVersion {
        /// Version of this end.
        ours: u16,
        /// Version of the peer.
        theirs: u16,
    },
    /// The configurations of the two ends differ.
    #[error("the two ends disagree: {0}")]
    DifferentConfig(Differences),
    /// The peer gave up and said why.
    #[error("the peer gave up ({outcome}): {reason}")]
    PeerAborted {
        /// How it ended there.
        outcome: Outcome,
        /// The peer's reason, without control characters.
        reason: String,
    },
    /// The peer sent something that no tcpxctl sends.
    #[error("the peer does not speak tcpxctl's bootstrap protocol: {what}")]
    Garbage {
        /// What is wrong with the data.
        what: String,
    },
    /// A record of the peer does not open.
    #[error(
        "a message of the peer fails its authentication: packets were changed, repeated or left out on the way"
    )]
    NotAuthentic,
    /// Both ends are tcpxctl, but at different steps.
    #[error("the two ends are out of step: {here} here, {there} there")]
    OutOfStep {
        /// Where this end is.
        here: String,
        /// Where the peer is.
        there: String,
    },
    /// The stop flag was set.
    #[error("stopped")]
    Stopped,
    /// A message of this end exceeds a limit.
    #[error("the {what} has length {len}, the limit is {max}")]
    TooLarge {
        /// Kind of message: `configuration`, `connect handles`.
        what: &'static str,
        /// Length, in bytes or handles.
        len: usize,
        /// The limit, in the same unit.
        max: usize,
    },
    /// A system call failed on this machine.
    #[error("cannot {doing}: {source}")]
    System {
        /// The operation: `listen`, `accept`.
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Connections other than the peer's that were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rejections {
    /// Number of rejected connections.
    pub rejected: u32,
    /// How many of them spoke the protocol with another secret.
    pub wrong_secret: u32,
    /// How many of them were other versions of tcpxctl.
    pub other_version: u32,
}

impl Cause {
    pub(super) fn garbage(what: impl Into<String>) -> Self {
        Self::Garbage { what: what.into() }
    }

    /// What a failed read, write or connect means.
    pub(super) fn from_io(doing: &'static str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => Self::Reset,
            io::ErrorKind::TimedOut => Self::Vanished,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable(error),
            _ => Self::System {
                doing,
                source: error,
            },
        }
    }

    /// Whether a new connection attempt may succeed: the peer may not be listening yet, or dropped
    /// this connection. An explicit refusal is final.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Refused
            | Self::Vanished
            | Self::Reset
            | Self::ClosedEarly { .. }
            | Self::Dropped => true,
            Self::Unreachable(error) => error.kind() == io::ErrorKind::HostUnreachable,
            _ => false,
        }
    }
}

impl From<Malformed> for Cause {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Version { theirs } => Self::OtherVersion {
                ours: super::PROTOCOL_VERSION,
                theirs,
            },
            other => Self::garbage(other.to_string()),
        }
    }
}

impl From<NotAuthentic> for Cause {
    fn from(_: NotAuthentic) -> Self {
        Self::NotAuthentic
    }
}

impl From<TooLarge> for Cause {
    fn from(TooLarge { what, len, max }: TooLarge) -> Self {
        Self::TooLarge { what, len, max }
    }
}

impl BootstrapError {
    /// The outcome of a run that fails this way.
    pub fn outcome(&self) -> Outcome {
        match &self.cause {
            Cause::Stopped => Outcome::Interrupted,
            Cause::DifferentConfig(_) | Cause::OtherVersion { .. } => Outcome::Usage,
            Cause::TooLarge { .. } | Cause::System { .. } => Outcome::NotRun,
            // A peer cannot abort with "passed".
            Cause::PeerAborted { outcome, .. } if *outcome != Outcome::Passed => *outcome,
            _ => Outcome::PeerLost,
        }
    }
}

impl NextStep for BootstrapError {
    fn next_step(&self) -> Option<String> {
        let other_run = "wait for the other tcpxctl run on this port to end, or choose another --bootstrap-port";
        let address = self.at.endpoint.address();
        Some(match &self.cause {
            Cause::Refused => {
                format!("check that the peer's worker runs and that no firewall rejects {address}")
            }
            Cause::TimedOut { .. } if self.at.rejections.wrong_secret > 0 => other_run.to_owned(),
            Cause::TimedOut { .. } if self.at.rejections.other_version > 0 => {
                "install the same tcpxctl on both nodes".to_owned()
            }
            Cause::TimedOut { limit, .. } => match self.at.endpoint {
                Endpoint::Anyone(_) => {
                    format!(
                        "check that the peer's worker runs and reaches {address}, or raise {limit}"
                    )
                }
                Endpoint::Peer(_) if self.at.awaited == Awaited::Connection.to_string() => {
                    format!("check whether a firewall drops TCP to {address}, or raise {limit}")
                }
                Endpoint::Peer(_) => return None,
            },
            Cause::Unreachable(_) => {
                format!("check the route with `ip route get {}`", address.ip())
            }
            Cause::WrongSecret => other_run.to_owned(),
            Cause::OtherVersion { .. } => "install the same tcpxctl on both nodes".to_owned(),
            Cause::DifferentConfig(differences) => {
                let keys = differences.0.iter().map(|difference| &*difference.key);
                let named: Vec<&str> = keys.take(KEYS_IN_STEP_MAX).collect();
                let more = match differences.0.len() - named.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("make {}{more} the same on both nodes", named.join(", "))
            }
            Cause::Garbage { .. } => {
                format!("check what else listens on {address}, or choose another --bootstrap-port")
            }
            Cause::NotAuthentic => {
                format!("check for a proxy between this node and {}", address.ip())
            }
            Cause::Reset | Cause::ClosedEarly { .. } | Cause::Vanished => {
                "check how the peer's worker ended".to_owned()
            }
            Cause::System { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "choose another --bootstrap-port, or omit it to use any free port".to_owned()
            }
            _ => return None,
        })
    }
}

impl Endpoint {
    /// The peer's or the listening address.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Peer(address) | Self::Anyone(address) => *address,
        }
    }
}

impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endpoint {
            Endpoint::Peer(address) => write!(f, "bootstrap with {address}")?,
            Endpoint::Anyone(address) => write!(f, "bootstrap listening on {address}")?,
        }
        write!(
            f,
            ", waiting for {} for {:.3} s",
            self.awaited,
            self.waited.as_secs_f64()
        )?;
        if self.tries > 1 {
            write!(f, " ({} tries)", self.tries)
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rejected == 0 {
            return Ok(());
        }
        let plural = if self.rejected == 1 { "" } else { "s" };
        write!(f, "; {} other connection{plural} rejected", self.rejected)?;
        if self.wrong_secret > 0 {
            write!(f, ", {} with a wrong secret", self.wrong_secret)?;
        }
        if self.other_version > 0 {
            write!(f, ", {} of another tcpxctl version", self.other_version)?;
        }
        Ok(())
    }
}

/// At most `chars_max` characters of text from the peer, with characters replaced that move a
/// cursor, colour a terminal or change the writing direction.
pub(super) fn printable(text: &str, chars_max: usize) -> String {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown: String = text
        .chars()
        .take(chars_max)
        .map(|c| if acts(c) { '?' } else { c })
        .collect();
    if text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(cause: Cause) -> BootstrapError {
        let at = ErrorContext {
            endpoint: Endpoint::Peer("10.0.0.226:7000".parse().expect("an address")),
            awaited: "the peer's hello".to_owned(),
            waited: Duration::from_millis(1500),
            tries: 3,
            rejections: Rejections::default(),
        };
        BootstrapError {
            at: Box::new(at),
            cause,
        }
    }

    #[test]
    fn a_message_has_the_address_what_was_awaited_and_for_how_long() {
        assert_eq!(
            error(Cause::Refused).to_string(),
            "bootstrap with 10.0.0.226:7000, waiting for the peer's hello for 1.500 s (3 tries): the connection was refused"
        );
        let mut error = error(Cause::TimedOut {
            limit: "limits.connect",
            allowed: Duration::from_millis(1500),
        });
        error.at.endpoint = Endpoint::Anyone("10.0.1.25:7000".parse().expect("an address"));
        error.at.rejections = Rejections {
            rejected: 3,
            wrong_secret: 1,
            other_version: 0,
        };
        error.at.tries = 0;
        assert_eq!(
            error.to_string(),
            "bootstrap listening on 10.0.1.25:7000, waiting for the peer's hello for 1.500 s: nothing arrived within \
             limits.connect (1.5 s); 3 other connections rejected, 1 with a wrong secret"
        );
        assert!(
            error
                .next_step()
                .expect("one")
                .starts_with("wait for the other tcpxctl run")
        );
    }

    #[test]
    fn each_cause_has_its_exit_code() {
        let aborted = |outcome| Cause::PeerAborted {
            outcome,
            reason: String::new(),
        };
        for (cause, code) in [
            (Cause::Refused, 5),
            (Cause::Vanished, 5),
            (Cause::WrongSecret, 5),
            (Cause::OtherVersion { ours: 1, theirs: 2 }, 2),
            (Cause::Stopped, 130),
            (aborted(Outcome::PluginDied), 6),
            (aborted(Outcome::Passed), 5),
            (
                Cause::TooLarge {
                    what: "report",
                    len: 2,
                    max: 1,
                },
                3,
            ),
        ] {
            let error = error(cause);
            assert_eq!(error.outcome().exit_code(), code, "{error}");
        }
    }

    #[test]
    fn each_errno_of_the_kernel_has_its_own_message() {
        for (errno, expected) in [
            (libc::ECONNREFUSED, "the connection was refused"),
            (libc::ECONNRESET, "the connection was reset by the peer"),
            (libc::EPIPE, "the connection was reset by the peer"),
            (libc::ETIMEDOUT, "the peer's host stopped answering"),
            (
                libc::EHOSTUNREACH,
                "the address cannot be reached: No route to host (os error 113)",
            ),
            (
                libc::EACCES,
                "cannot connect: Permission denied (os error 13)",
            ),
        ] {
            let cause = Cause::from_io("connect", io::Error::from_raw_os_error(errno));
            assert_eq!(cause.to_string(), expected);
        }
    }
}
