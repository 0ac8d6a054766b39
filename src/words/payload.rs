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

/// What a stamp's chunk is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// One stream of bytes, dealt over channels.
    Chunk,
    /// A KV cache, whose pages any channel carries.
    Page,
}

impl Unit {
    /// That of a transfer, by whether it was KV-cache traffic.
    pub fn of_kv(is_kv: bool) -> Self {
        if is_kv { Self::Page } else { Self::Chunk }
    }
}

impl Mismatch {
    /// Where the wrong bytes are, in words.
    pub fn place(&self, unit: Unit) -> String {
        let StampId { channel, chunk, .. } = self.id;
        match unit {
            Unit::Chunk => format!("channel {channel} chunk {chunk}"),
            Unit::Page => format!("page {chunk} of the cache"),
        }
    }

    /// The first wrong byte in words.
    pub fn words(&self, unit: Unit) -> String {
        let what = match unit {
            Unit::Chunk => "chunk",
            Unit::Page => "page",
        };
        format!(
            "{} byte {} is {:#04x}, expected {:#04x} ({:?}, {} bytes of the {what})",
            self.place(unit),
            self.offset,
            self.got,
            self.expected,
            self.kind,
            self.wrong_bytes
        )
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_names_the_chunk_or_the_page() {
        let id = StampId {
            iteration: 1,
            channel: 2,
            chunk: 77,
        };
        let wrong = Mismatch {
            id,
            offset: 5,
            wrong_bytes: 3,
            expected: 0x10,
            got: 0x1,
            kind: MismatchKind::Stale,
            from: None,
        };
        assert_eq!(
            wrong.words(Unit::of_kv(false)),
            "channel 2 chunk 77 byte 5 is 0x01, expected 0x10 (Stale, 3 bytes of the chunk)"
        );
        assert_eq!(
            wrong.words(Unit::of_kv(true)),
            "page 77 of the cache byte 5 is 0x01, expected 0x10 (Stale, 3 bytes of the page)"
        );
    }
}
