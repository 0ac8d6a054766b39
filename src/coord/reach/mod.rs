//! Transports: starting an agent on a node and connecting to its stdin and stdout.
//!
//! | way | for |
//! |---|---|
//! | `child` | this machine |
//! | `ssh` | libssh2, one session per node |
//! | `rsh` | any program that runs a command there: ssh, `kubectl exec`, `srun` |
//! | `join` | a node where somebody typed `tcpxctl serve` |
//!
//! Each ends in an [`AgentLink`]: two streams that carry the agent's lines, whatever
//! it prints beside them, and something to hold that ends it. The last two of
//! the table and ssh start the agent through a shell line that brings the
//! program there first (`install`).
#![forbid(unsafe_code)]

pub mod child;
pub mod install;
pub mod join;
pub mod rsh;
#[cfg(feature = "ssh")]
pub mod ssh;
#[cfg(not(feature = "ssh"))]
#[path = "without_ssh.rs"]
pub mod ssh;
mod target;

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tcpx_node::route_to;
use tcpx_words::error::{NextStep, Outcome};

/// Longest it may take to reach a node and log in.
pub(crate) const REACH_MAX: Duration = Duration::from_secs(15);

/// Starts an agent on one node.
pub trait Transport: Send + Sync {
    /// The node, as its user calls it: `10.0.0.226`, `this machine`.
    fn node(&self) -> &str;

    /// Starts the agent. `progress` is told of an upload: bytes sent and in all.
    ///
    /// # Errors
    /// In words that name the node.
    fn open(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<AgentLink, ReachError>;
}

/// A started agent.
pub struct AgentLink {
    /// Its stdin.
    pub to_agent: Box<dyn Write + Send>,
    /// Its stdout, possibly behind a banner.
    pub from_agent: Box<dyn Read + Send>,
    /// Lines of its stderr and of whatever carries it, where they are apart.
    pub beside: Option<mpsc::Receiver<String>>,
    /// Ends it.
    pub hold: Box<dyn Hold>,
    /// How the two machines reached each other.
    pub addresses: Addresses,
}

/// The address this machine would send from.
fn source_towards(there: IpAddr) -> Option<IpAddr> {
    route_to(there).known().map(|route| route.local)
}

/// The writing half of a connection: dropped, the agent's stdin ends.
struct Half<S: Write + AsFd>(S);

impl<S: Write + AsFd> Write for Half<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Write + AsFd> Drop for Half<S> {
    fn drop(&mut self) {
        // Fails only when the far side has ended first.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }
}

/// The process or connection behind a link.
pub trait Hold: Send {
    /// Its streams are closed: waits until it has ended, and ends it by force
    /// when it has not after `patience`.
    fn finish(&mut self, patience: Duration);
}

/// Both ends of the connection to a node, where there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Of this machine, towards the node.
    pub here: Option<IpAddr>,
    /// Of the node, as this machine reached it.
    pub there: Option<IpAddr>,
}

/// Why a node's agent could not be started.
#[derive(Debug)]
pub struct ReachError {
    /// The node, as its user calls it.
    pub node: String,
    /// Whose problem it is.
    pub outcome: Outcome,
    /// What happened.
    pub what: String,
    /// What to do.
    pub next: Option<String>,
}

impl ReachError {
    /// About `node`.
    pub fn new(node: &str, outcome: Outcome, what: impl Into<String>) -> Self {
        Self {
            node: node.to_owned(),
            outcome,
            what: what.into(),
            next: None,
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl std::fmt::Display for ReachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.node, self.what)
    }
}

impl std::error::Error for ReachError {}

impl NextStep for ReachError {
    fn next_step(&self) -> Option<String> {
        self.next.clone()
    }
}

/// A moment by which something must have happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until(Instant);

impl Until {
    pub(super) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(super) fn is_past(self) -> bool {
        self.left().is_zero()
    }
}

/// Longest line of text that is kept of what a node prints.
const TEXT_MAX: usize = 4096;

/// Reads `from` to its end in a thread of its own, so that its writer never
/// waits, and passes on its lines as long as somebody takes them.
pub(super) fn lines(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        while let Some(line) = line(&mut from) {
            // More than anybody reads is thrown away, not waited for.
            if let Err(mpsc::TrySendError::Disconnected(_)) = to.try_send(line) {
                let _ = std::io::copy(&mut from, &mut std::io::sink());
            }
        }
    });
    lines
}

/// Lines that wait to be read.
const LINES_MAX: usize = 256;

/// One line, byte by byte, so that nothing behind it is taken.
pub(super) fn line(from: &mut dyn Read) -> Option<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match from.read(&mut byte) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) if line.is_empty() => return None,
            Ok(0) | Err(_) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() < TEXT_MAX => line.push(byte[0]),
            Ok(_) => {}
        }
    }
    Some(tcpx_words::units::printable(&String::from_utf8_lossy(
        &line,
    )))
}
