//! What a payload was found to be: results of the comparison, as data.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Whose bytes these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampId {
    /// Iteration, modulo 1024.
    pub iteration: u64,
    /// Channel within its direction, modulo 1024.
    pub channel: u64,
    /// Chunk index over all channels, modulo 2^22.
    pub chunk: u64,
}

/// What a wrong stretch looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MismatchKind {
    /// All zero: never written.
    Zero,
    /// Bytes of an earlier iteration.
    Stale,
    /// Bytes of another chunk or channel of this iteration.
    Swapped,
    /// Bytes of this chunk, at another place.
    Shifted,
    /// None of these.
    Corrupt,
    /// The canary after the slot was overwritten.
    Overrun,
}

/// The first wrong byte of a chunk, and what it seems to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// What was expected here.
    pub id: StampId,
    /// First wrong byte, from the start of the chunk.
    pub offset: u64,
    /// Wrong bytes in this chunk.
    pub wrong_bytes: u64,
    /// The byte that should be there.
    pub expected: u8,
    /// The byte that is.
    pub got: u8,
    /// What happened, as far as the bytes tell.
    pub kind: MismatchKind,
    /// Where the wrong block says it came from, when it says so.
    pub from: Option<StampId>,
}

/// What a channel did since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes done since measuring began.
    pub bytes: u64,
    /// Bytes compared with the pattern since measuring began.
    pub verified_bytes: u64,
    /// Wrong bytes, warm-up included.
    pub wrong_bytes: u64,
    /// Posts that came back as success without a request.
    pub null_requests: u64,
    /// The first mismatch of the channel.
    pub first_mismatch: Option<Mismatch>,
}
