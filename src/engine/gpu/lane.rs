//! Work on memory that only a GPU can reach: what one channel asks of it.
//!
//! A job is queued, launched together with the others queued since the last
//! launch, and has passed once the GPU says so; nobody waits for it. Jobs pass in
//! the order in which they were queued, so a channel consumes a receive exactly
//! when its job has passed.
#![forbid(unsafe_code)]

use super::{MemoryError, Scatter, Span, Unpack};

/// Words after which the body of the pattern repeats: a page.
pub const TABLE_WORDS: usize = 512;

/// What makes the pattern of a run; `transfer::Pattern` has the arithmetic.
#[derive(Clone)]
pub struct PatternKey {
    /// The body.
    pub table: Box<[u64; TABLE_WORDS]>,
    /// What stamps are scrambled with.
    pub key: u64,
}

/// What makes the pattern of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Added to every word of the table.
    pub body: u64,
    /// The stamp of its first block before it is scrambled.
    pub first: u64,
}

/// One job.
pub enum Work<'a> {
    /// Write a message's pattern.
    Fill {
        /// Where.
        span: Span,
        /// Which.
        stamp: Stamp,
    },
    /// Put a received message into place, and compare it.
    Take {
        /// Its scatter list, checked; `None` when it is in place already.
        list: Option<&'a Scatter<'a>>,
        /// Where it belongs.
        span: Span,
        /// What it must be, if that matters.
        verify: Option<Stamp>,
        /// The canary begins this far behind the start of `span`.
        guard: usize,
    },
}

/// What became of a job that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// Written, or taken and right, or not compared.
    Right,
    /// Some byte differs; which one is for the host to find out.
    Wrong,
    /// The message is right and the canary behind it is not.
    Overrun,
}

/// Sizes of a lane.
#[derive(Clone)]
pub struct LaneSetup<'a> {
    /// Jobs between queued and passed, at most.
    pub jobs: usize,
    /// Bytes of the longest message.
    pub chunk: usize,
    /// How received messages get into place.
    pub unpack: Unpack,
    /// For filling and comparing.
    pub pattern: Option<&'a PatternKey>,
}

/// One channel's work, in order. Driven by one thread at a time.
pub trait Lane: Send {
    /// Adds a job to the next launch.
    fn queue(&mut self, work: &Work<'_>) -> Result<(), MemoryError>;
    /// Launches what was queued; leaves it for later while too much is under way.
    fn launch(&mut self) -> Result<(), MemoryError>;
    /// Launches, and waits until all that is under way has passed, within a
    /// deadline. For what is not timed.
    fn settle(&mut self) -> Result<(), MemoryError>;
    /// The oldest job, if it has passed and was not told of. Asks, never waits.
    fn passed(&mut self) -> Result<Option<Passed>, MemoryError>;
}
