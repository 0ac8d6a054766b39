//! Why a call to an endpoint failed.
#![forbid(unsafe_code)]

use std::time::Duration;
use tcpx_words::error::NextStep;

/// Why a call or an operation failed. Several waiters may get the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument is wrong; nothing was started.
    #[error("{0}")]
    Usage(String),
    /// The plugin or the GPU cannot be used, or refuses a call.
    #[error("{0}")]
    Plugin(String),
    /// The peer refused an operation; nothing was moved.
    #[error("endpoint `{peer}` refused: {why}")]
    Refused {
        /// Name of the peer.
        peer: String,
        /// Its reason.
        why: String,
    },
    /// No connection could be made, or it is lost.
    #[error("connection to {peer}: {why}")]
    Connection {
        /// Name or address of the peer.
        peer: String,
        /// What happened.
        why: String,
    },
    /// A wait ended before what it waited for.
    #[error("{what} took longer than {} s", allowed.as_secs_f64())]
    TimedOut {
        /// What was awaited.
        what: String,
        /// The limit.
        allowed: Duration,
    },
    /// The endpoint is closed.
    #[error("the endpoint is closed")]
    Closed,
    /// A bound of the endpoint is reached.
    #[error("{max} {what} at once are the limit")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

impl Error {
    pub(crate) fn no_connection(number: u64) -> Self {
        Self::Usage(format!("connection {number} does not exist or has ended"))
    }
}

impl NextStep for Error {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::TooMany { .. } => Some("wait for an operation before starting the next".into()),
            Self::TimedOut { .. } => {
                Some("show both ends with `tcpxctl watch`, or `tcpxctl diagnose`".into())
            }
            _ => None,
        }
    }
}
