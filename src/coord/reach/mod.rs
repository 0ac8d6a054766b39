//! Transports: starting an agent on a node and connecting to its stdin and stdout.
//!
//! | transport | for |
//! |---|---|
//! | `child` | this machine |
//! | `ssh` | libssh2, one session per node |
//! | `rsh` | any program that runs a command there: ssh |
//! | `kubectl` | pods that are there, by `kubectl exec` |
//! | `srun`, `mpirun` | the nodes of an allocation, each by one program for all of them (`tasks`) |
//! | `join` | a node where `tcpxctl serve` runs |
//! | `callers` | nodes where `tcpxctl serve --call` runs |
//!
//! Each returns an [`AgentLink`]: the agent's stdin, stdout and stderr, and a handle that ends the
//! agent. `ssh` and `rsh` start the agent by a shell line that first copies tcpxctl to the node
//! (`install`). Agents of `tasks` and `callers` connect to the coordinator (`call_in`).
#![forbid(unsafe_code)]

pub mod allocation;
mod call_in;
pub mod call_out;
pub mod callers;
pub mod child;
mod helper;
pub mod install;
pub mod join;
pub mod kubectl;
mod last_words;
pub mod mpirun;
pub mod rsh;
pub mod serve;
pub mod srun;
#[cfg(feature = "ssh")]
pub mod ssh;
#[cfg(not(feature = "ssh"))]
#[path = "without_ssh.rs"]
pub mod ssh;
mod target;
pub mod tasks;

use helper::Helpers;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tcpx_node::{SentAgain, route_to};
use tcpx_words::error::{NextStep, Outcome};

/// Longest time to reach a node and log in.
pub(crate) const REACH_MAX: Duration = Duration::from_secs(15);

/// Starts an agent on one node.
pub trait Transport: Send + Sync {
    /// The node, as the user named it: `10.0.0.226`, `this machine`.
    fn node(&self) -> &str;

    /// Whether opening it is a login, of which only so many are made at a time.
    fn is_login(&self) -> bool {
        true
    }

    /// What the program that started the agents of all nodes has printed, and whether it has ended; `None` if there is
    /// none; asked while the agents should still run.
    fn launcher_said(&self) -> Option<Vec<String>> {
        None
    }

    /// Starts the agent. Every wait has a deadline and ends when the user interrupts.
    ///
    /// # Errors
    /// The node cannot be reached, the agent does not start, or the user interrupted; the error
    /// names the node.
    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError>;
}

/// The caller of [`Transport::open`]: who is told of an upload, and who may interrupt.
pub struct Opening<'a> {
    /// Set by a signal handler: give up.
    pub interrupted: &'a AtomicBool,
    /// Called during an upload with the bytes sent and the total.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Why a wait returned without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// The user interrupted.
    Interrupted,
    /// The deadline has passed.
    Late,
    /// The sender is gone.
    Ended,
}

/// Longest time between two checks of the interrupt flag.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The next value of `from`, or the reason why there is none.
pub(crate) fn hear<T>(
    from: &mpsc::Receiver<T>,
    until: Until,
    interrupted: &AtomicBool,
) -> Result<T, Unheard> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(Unheard::Interrupted);
        }
        let left = until.left();
        match from.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(heard) => return Ok(heard),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Unheard::Ended),
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => return Err(Unheard::Late),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Opening<'_> {
    /// Does `work` in a thread and waits for its result. `work` may block in calls that no flag
    /// ends (a resolver, libssh2); when the user interrupts or the time is over, its helpers are
    /// ended, and it is left to its own deadlines.
    fn in_thread<T: Send + 'static>(
        &self,
        node: &str,
        most: Duration,
        work: impl FnOnce(&Helpers) -> T + Send + 'static,
    ) -> Result<T, ReachError> {
        let (to_caller, result) = mpsc::channel();
        let helpers = Helpers::default();
        let of_thread = helpers.clone();
        std::thread::spawn(move || {
            // Fails only if the caller has given up.
            let _ = to_caller.send(work(&of_thread));
        });
        let heard = hear(&result, Until::after(most), self.interrupted);
        if heard.is_err() {
            helpers.give_up();
        }
        heard.map_err(|why| match why {
            Unheard::Interrupted => ReachError::interrupted(node),
            Unheard::Late | Unheard::Ended => ReachError::new(
                node,
                Outcome::PeerLost,
                format!("not reached within {} s", most.as_secs()),
            )
            .next("check the address, and that the node's sshd and this machine's resolver and ssh agent answer"),
        })
    }
}

/// A started agent.
pub struct AgentLink {
    /// The agent's stdin.
    pub to_agent: Box<dyn Write + Send>,
    /// The agent's stdout, which may begin with a banner.
    pub from_agent: Box<dyn Read + Send>,
    /// Lines of the agent's stderr and of the program that carries it; `None` if the transport does
    /// not forward stderr.
    pub stderr: Option<mpsc::Receiver<String>>,
    /// Ends the agent.
    pub hold: Box<dyn Hold>,
    /// Addresses at which the two machines reached each other.
    pub addresses: Addresses,
}

/// The address that this machine sends from to reach `there`.
fn source_towards(there: IpAddr) -> Option<IpAddr> {
    route_to(there).known().map(|route| route.local)
}

/// The writing half of a connection; dropping it closes the agent's stdin.
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
        // Fails only if the other end has closed the connection first.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }
}

/// The process or connection behind a link.
pub trait Hold: Send {
    /// Called after the streams are closed. Waits until the process or connection has ended, and
    /// kills it after `patience`.
    fn finish(&mut self, patience: Duration);
}

/// Both addresses of the connection to a node, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Address of this machine on the route to the node.
    pub here: Option<IpAddr>,
    /// Address at which this machine reached the node.
    pub there: Option<IpAddr>,
}

/// Why a node's agent could not be started.
#[derive(Debug, Clone)]
pub struct ReachError {
    /// The node, as the user named it.
    pub node: String,
    /// Outcome of the command, which decides its exit code.
    pub outcome: Outcome,
    /// What happened.
    pub what: String,
    /// What the user can do.
    pub next: Option<String>,
}

impl ReachError {
    /// An error about `node`, without a next step.
    pub fn new(node: &str, outcome: Outcome, what: impl Into<String>) -> Self {
        Self {
            node: node.to_owned(),
            outcome,
            what: what.into(),
            next: None,
        }
    }

    /// The user interrupted before the agent of `node` had started.
    pub(crate) fn interrupted(node: &str) -> Self {
        let what = "interrupted before the agent on this node had started";
        Self::new(node, Outcome::Interrupted, what)
    }

    /// Adds what the network to the node at this address does, if it loses packets.
    pub(crate) fn over(self, there: Option<IpAddr>) -> Self {
        let lost = |_: &IpAddr| self.outcome == Outcome::PeerLost;
        match there.filter(lost).and_then(resent_to) {
            None => self,
            resent => Self {
                what: self.what + &loss(resent),
                next: Some(LOSSY.to_owned()),
                ..self
            },
        }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// What to do about a network that loses packets.
pub(crate) const LOSSY: &str =
    "look at the network between this machine and the node: it loses packets";

/// Segments that connections of this machine to an address sent again, if the network to it loses packets. Also those of
/// connections that were closed a moment ago, as by `ssh`.
pub(crate) fn resent_to(there: IpAddr) -> Option<u32> {
    let mut sockets = tcpx_node::tcp_sockets().ok()?;
    sockets.retain(|socket| socket.peer.ip() == there);
    SentAgain::of(&sockets).map(|again| again.count)
}

/// The same, as the end of a sentence.
pub(crate) fn loss(resent: Option<u32>) -> String {
    resent
        .map(|count| format!("; {count} segments to the node were sent again"))
        .unwrap_or_default()
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

/// A deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until(Instant);

impl Until {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_past(self) -> bool {
        self.left().is_zero()
    }
}

/// Bytes kept of a line that a node prints.
const TEXT_MAX: usize = 4096;

/// Reads `from` to its end in a thread, so that the writer never waits, and passes on its lines
/// while the receiver exists.
pub(super) fn lines(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        while let Some(line) = line(&mut from) {
            // If the queue is full, the line is dropped.
            if let Err(mpsc::TrySendError::Disconnected(_)) = to.try_send(line) {
                let _ = std::io::copy(&mut from, &mut std::io::sink());
            }
        }
    });
    lines
}

/// Lines in the queue to the receiver.
const LINES_MAX: usize = 256;

/// Reads one line, byte by byte, so that nothing after it is consumed.
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
