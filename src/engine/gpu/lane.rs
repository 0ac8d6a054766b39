//! The work of one channel on memory that only a GPU can access.
//!
//! Jobs are queued, launched together, and polled; nothing waits for them. A job that the GPU
//! has finished has *passed*. Jobs pass in the order in which they were queued, so a channel
//! consumes a receive exactly when its job has passed.
#![forbid(unsafe_code)]

use super::{MemoryError, Scatter, Span, Unpack};

/// Words after which the body of the pattern repeats, one page.
pub const TABLE_WORDS: usize = 512;

/// Parameters of a run's pattern, defined by `transfer::Pattern`.
#[derive(Clone)]
pub struct PatternKey {
    /// The words of the body.
    pub table: Box<[u64; TABLE_WORDS]>,
    /// Scrambles the stamps.
    pub key: u64,
}

/// Parameters of one message's pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Added to every word of the table.
    pub body: u64,
    /// The stamp of the first block, before scrambling.
    pub first: u64,
}

/// One job.
pub enum Work<'a> {
    /// Write a message's pattern.
    Fill {
        /// The bytes to write.
        span: Span,
        /// The message's pattern.
        stamp: Stamp,
    },
    /// Unpack a received message and compare it.
    Take {
        /// The checked scatter list; `None` if the message is already in its buffer.
        list: Option<&'a Scatter<'a>>,
        /// The message's buffer.
        span: Span,
        /// The expected pattern; `None` to skip the comparison.
        verify: Option<Stamp>,
        /// Offset of the canary from the start of `span`.
        guard: usize,
    },
}

/// The result of a job that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// The message was written, or is correct, or was not compared.
    Right,
    /// Some byte of the message differs; the host finds out which.
    Wrong,
    /// The message is correct, but the canary after it was overwritten.
    Overrun,
}

/// Sizes and options of a lane.
#[derive(Clone)]
pub struct LaneSetup<'a> {
    /// Most jobs that are queued and have not passed.
    pub jobs: usize,
    /// Bytes of the longest message.
    pub chunk: usize,
    /// How received messages are unpacked.
    pub unpack: Unpack,
    /// The pattern for filling and comparing, if any.
    pub pattern: Option<&'a PatternKey>,
}

/// The GPU work of one channel, in order. Driven by one thread at a time.
pub trait Lane: Send {
    /// Adds a job to the next launch.
    fn queue(&mut self, work: &Work<'_>) -> Result<(), MemoryError>;
    /// Launches the queued jobs, unless all other batches are still in progress.
    fn launch(&mut self) -> Result<(), MemoryError>;
    /// Launches the queued jobs and waits until all jobs have passed, within a deadline. Not
    /// for the timed part.
    fn settle(&mut self) -> Result<(), MemoryError>;
    /// The result of the oldest unreported job, if it has passed. Does not wait.
    fn passed(&mut self) -> Result<Option<Passed>, MemoryError>;
}
