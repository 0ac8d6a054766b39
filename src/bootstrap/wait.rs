//! Waiting with a deadline, a stop flag and the name of what is awaited.
//!
//! Every wait of the bootstrap is a [`Wait`]. None sleeps longer than `SLICE` before it checks the
//! flag and the clock again.
#![forbid(unsafe_code)]

use super::error::{BootstrapError, Cause, Endpoint, ErrorContext, Rejections};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest sleep between two checks of the stop flag.
const SLICE: Duration = Duration::from_millis(50);

/// A deadline and the name of the limit that sets it, so that an error names the limit to raise.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    name: &'static str,
    start: Instant,
    allowed: Duration,
}

impl Deadline {
    /// `allowed` from now, under a name such as `limits.connect`.
    pub fn after(name: &'static str, allowed: Duration) -> Self {
        Self {
            name,
            start: Instant::now(),
            allowed,
        }
    }

    /// Time until the deadline; zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.allowed.saturating_sub(self.start.elapsed())
    }
}

/// What is awaited, as named in an error.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaited<'a> {
    Port,
    Peer,
    Connection,
    Hello,
    Proof,
    Config,
    Ready,
    Handles,
    Barrier(&'a str),
    Bye,
    Abort,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    endpoint: Endpoint,
    awaited: Awaited<'a>,
    since: Instant,
    tries: u32,
    deadline: Deadline,
    stop: &'a AtomicBool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        endpoint: Endpoint,
        awaited: Awaited<'a>,
        deadline: Deadline,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            endpoint,
            awaited,
            since: Instant::now(),
            tries: 0,
            deadline,
            stop,
        }
    }

    /// The same wait for another endpoint and another message.
    pub(super) fn with(mut self, endpoint: Endpoint, awaited: Awaited<'a>) -> Self {
        (self.endpoint, self.awaited) = (endpoint, awaited);
        self
    }

    /// Sets what is awaited next.
    pub(super) fn set_awaited(&mut self, awaited: Awaited<'a>) {
        self.awaited = awaited;
    }

    pub(super) fn try_again(&mut self) {
        (self.tries, self.awaited) = (self.tries + 1, Awaited::Connection);
    }

    /// Longest time to sleep now, or an error if the deadline has passed or the stop flag is set.
    pub(super) fn slice(&self) -> Result<Duration, BootstrapError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(self.error(Cause::Stopped));
        }
        match self.deadline.remaining() {
            Duration::ZERO => Err(self.timed_out()),
            remaining => Ok(remaining.min(SLICE)),
        }
    }

    /// Sleeps for `pause`, unless the wait ends first.
    pub(super) fn pause(&self, pause: Duration) -> Result<(), BootstrapError> {
        let start = Instant::now();
        loop {
            let slice = self.slice()?;
            match pause.saturating_sub(start.elapsed()) {
                Duration::ZERO => return Ok(()),
                left => std::thread::sleep(slice.min(left)),
            }
        }
    }

    /// Time until the deadline.
    pub(super) fn remaining(&self) -> Duration {
        self.deadline.remaining()
    }

    pub(super) fn error(&self, cause: Cause) -> BootstrapError {
        let at = ErrorContext {
            endpoint: self.endpoint,
            awaited: self.awaited.to_string(),
            waited: self.since.elapsed(),
            tries: self.tries,
            rejections: Rejections::default(),
        };
        BootstrapError {
            at: Box::new(at),
            cause,
        }
    }

    fn timed_out(&self) -> BootstrapError {
        let Deadline { name, allowed, .. } = self.deadline;
        self.error(Cause::TimedOut {
            limit: name,
            allowed,
        })
    }
}

impl fmt::Display for Awaited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier(name) => return write!(f, "barrier `{name}`"),
            Self::Port => "a free port",
            Self::Peer => "the peer",
            Self::Connection => "a connection",
            Self::Hello => "the peer's hello",
            Self::Proof => "the peer's proof",
            Self::Config => "the peer's configuration",
            Self::Ready => "the peer's ready",
            Self::Handles => "the peer's connect handles",
            Self::Bye => "the peer's goodbye",
            Self::Abort => "an abort to be sent",
        })
    }
}
