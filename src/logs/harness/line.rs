//! What one line of a program says. Texts are those of the programs' sources; values are
//! claims.
//!
//! The words of a line decide how it is read ([`Reading`]), and then its numbers are.
#![forbid(unsafe_code)]

use super::readers::{READERS, Reader, role};
use super::text::Text;
use crate::shape::Span;
use serde::{Deserialize, Serialize};

/// The end of the transfer that a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HarnessRole {
    /// Receives: `server`.
    Server,
    /// Sends: `client`.
    Client,
}

impl HarnessRole {
    /// The word in logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// A recognised line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub role: Option<HarnessRole>,
    pub gpu: Option<u32>,
    pub channel: Option<u32>,
    pub event: Event,
}

/// Requests in a window, and its size.
pub(super) type Occupancy = (u32, u32);

/// A setting that a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingKind {
    Gpu,
    Channels,
    Iterations,
    ChunkBytes,
    /// Of each GPU.
    SizeBytes,
    /// Of all GPUs.
    TotalBytes,
}

/// A step before the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    BootstrapListens(Option<u32>),
    BootstrapConnects(Option<u32>),
    HandlesExchanged,
    Listens,
    Accepts,
    Accepted,
    Connects,
    Connected,
    Registers,
    Registered,
    WaitsForPosts,
    /// A benchmark waits for the program at the other end.
    MeetsPeer,
}

/// A failure that a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Bootstrap,
    Accept,
    Connect,
    HandleCount,
    Register,
    Post {
        rc: Option<i64>,
        chunk: Option<u32>,
    },
    Test {
        rc: i64,
        done: bool,
        chunk: Option<u32>,
    },
    /// The plugin did not take a receive back.
    Consume,
    /// A benchmark says that it failed.
    Benchmark,
    Other,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event {
    /// The program says which end it is: a run begins.
    Starts,
    Setting(SettingKind, u64),
    Step(Step),
    /// A step of the GPU that the line names, in a program with several.
    StepOfGpu(Step),
    IterationBegins {
        iteration: u32,
        bytes: Option<u64>,
        chunk_bytes: Option<u64>,
    },
    IterationEnds {
        iteration: u32,
        ms: f64,
    },
    IterationAborted(u32),
    /// The next chunk of a channel, before its post.
    Chunk {
        chunk: u32,
        window: Option<Occupancy>,
    },
    /// `irecv` or `isend` is about to be called.
    Calls {
        chunk: Option<u32>,
    },
    /// `irecv` or `isend` has returned a request.
    Returned,
    /// A window is full; the oldest request is waited for.
    Full(Option<Occupancy>),
    /// The same, and the oldest request is done: the program waits for its own kernel.
    FullOfDone(Option<Occupancy>),
    /// A window has room again.
    Room,
    Test {
        rc: i64,
        done: bool,
        chunk: Option<u32>,
    },
    /// The result of a test in words that any program may have: many of them, and nothing else, are one of these.
    BareTest {
        rc: i64,
        done: bool,
    },
    /// A request is done.
    Done,
    /// The wrapper's test of a request that is done, logged beside the program's own line.
    CallDone,
    /// Requests left a window.
    Released {
        count: u32,
        window: Option<Occupancy>,
    },
    /// Tests of the oldest send so far.
    StillWaits(u64),
    /// All chunks of an iteration are posted.
    AllPosted,
    Drains {
        pending: Option<u32>,
    },
    Drained,
    /// The peer closed the connection, before or after the request was done.
    PeerClosed {
        done: bool,
    },
    Fails(Failure),
    /// The program's own mean, in the unit that it prints.
    Mean {
        iterations: Option<u32>,
        ms: f64,
        rate: Option<f64>,
    },
    /// A rate in 10^9 bytes per second, at a message size.
    Rate {
        bytes: u64,
        gb_per_s: f64,
    },
    Ends,
    /// A line of such a program that says nothing about its state.
    Other,
}

/// How a line is read. Its words decide that, and the values of its digits do not, so one
/// reading serves all lines of a form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// Index in `READERS`.
    reader: usize,
    role: Option<HarnessRole>,
    is_recv: Option<Span>,
    gpu: Option<Span>,
    channel: Option<Span>,
}

impl Reading {
    /// `None`: the line belongs to no such program.
    pub(super) fn of(message: &[u8]) -> Option<Self> {
        let text = Text::new(message);
        let read = |(index, reader): (usize, &Reader)| Some((index, reader(text)?));
        let (reader, event) = READERS.iter().enumerate().find_map(read)?;
        let channel = text.digits("hannel ").or_else(|| text.digits("channel="));
        let span = |digits: &[u8]| Span::of(message, digits);
        Some(Self {
            reader,
            role: role(text, event),
            is_recv: text.digits("is_recv=").map(span),
            gpu: text.digits("GPU ").map(span),
            channel: channel.map(span),
        })
    }

    /// The content of a line that is read so.
    pub(super) fn line(&self, message: &[u8]) -> Option<Line> {
        let event = READERS.get(self.reader)?(Text::new(message))?;
        let number = |span: Span| Text::new(span.in_line(message)).number("");
        let is_recv = self.is_recv.and_then(number);
        let role = is_recv.map(|is_recv| match is_recv {
            0 => HarnessRole::Client,
            _ => HarnessRole::Server,
        });
        Some(Line {
            role: role.or(self.role),
            gpu: self.gpu.and_then(number),
            channel: self.channel.and_then(number),
            event,
        })
    }
}
