//! Parts of registered memory, and the messages that carry them.
#![forbid(unsafe_code)]

use crate::lane::{Job, Part};
use crate::memory::Held;
use crate::shared_lane::SharedLane;

/// A part of a registration.
#[derive(Debug, Clone)]
pub(crate) struct LocalPiece {
    pub(crate) held: Held,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

pub(crate) fn bytes_of(pieces: &[LocalPiece]) -> u64 {
    pieces.iter().map(|piece| piece.len as u64).sum()
}

/// Messages of pieces with these lengths.
pub(crate) fn messages_of(lens: impl Iterator<Item = u64>, chunk: usize) -> u64 {
    lens.fold(0, |sum: u64, len| {
        sum.saturating_add(len.div_ceil(chunk as u64))
    })
}

/// Gives the messages of some pieces to the lanes in turn; returns how many there are.
pub(crate) fn push(
    lanes: &mut [SharedLane],
    first_lane: u16,
    pieces: &[LocalPiece],
    chunk: usize,
    part: Part,
) -> usize {
    let mut lane = usize::from(first_lane) % lanes.len();
    let mut messages = 0;
    for piece in pieces {
        for start in (0..piece.len).step_by(chunk) {
            let len = chunk.min(piece.len - start);
            let (held, offset) = (piece.held.clone(), piece.offset + start);
            lanes[lane].push(Job {
                part,
                held,
                offset,
                len,
            });
            lane = (lane + 1) % lanes.len();
            messages += 1;
        }
    }
    messages
}
