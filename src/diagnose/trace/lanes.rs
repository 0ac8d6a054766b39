//! Lanes for things that overlap: the lowest free one each, so that a window of
//! sixteen takes sixteen.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which lanes are free.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    free: BinaryHeap<Reverse<usize>>,
    used: usize,
}

impl Lanes {
    /// The lowest free lane.
    pub(super) fn take(&mut self) -> usize {
        if let Some(Reverse(lane)) = self.free.pop() {
            return lane;
        }
        self.used += 1;
        self.used - 1
    }

    /// A lane that was taken is free again.
    pub(super) fn give_back(&mut self, lane: usize) {
        self.free.push(Reverse(lane));
    }
}
