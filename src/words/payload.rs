//! Results of comparing a payload with the expected pattern.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The iteration, channel and chunk that a stamp in the pattern names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampId {
    /// Iteration, modulo 1024.
    pub iteration: u64,
    /// Channel within its direction, modulo 1024.
    pub channel: u64,
    /// Chunk index over all channels, modulo 2^22.
    pub chunk: u64,
}

/// What the wrong bytes look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MismatchKind {
    /// All zero: the memory was never written.
    Zero,
    /// Bytes of an earlier iteration.
    Stale,
    /// Bytes of another chunk or channel of this iteration.
    Swapped,
    /// Bytes of this chunk, from another offset.
    Shifted,
    /// None of the others.
    Corrupt,
    /// The canary after the slot was overwritten.
    Overrun,
}

/// The first wrong byte of a chunk, and the kind of the mismatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The expected stamp.
    pub id: StampId,
    /// Offset of the first wrong byte in the chunk.
    pub offset: u64,
    /// Number of wrong bytes in the chunk.
    pub wrong_bytes: u64,
    /// The expected byte.
    pub expected: u8,
    /// The byte that was read.
    pub got: u8,
    /// What the wrong bytes look like.
    pub kind: MismatchKind,
    /// The stamp in the wrong block, if it has a valid one.
    pub from: Option<StampId>,
}

/// Counts of one channel since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes done since measuring began.
    pub bytes: u64,
    /// Bytes compared with the pattern since measuring began.
    pub verified_bytes: u64,
    /// Wrong bytes, warm-up included.
    pub wrong_bytes: u64,
    /// Posts that returned success without a request.
    pub null_requests: u64,
    /// The first mismatch of the channel.
    pub first_mismatch: Option<Mismatch>,
}
