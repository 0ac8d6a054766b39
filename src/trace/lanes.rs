//! Assigns lanes to overlapping requests: each takes the lowest free lane, so that a window
//! of sixteen needs sixteen lanes.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The lanes of one channel.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    free: BinaryHeap<Reverse<usize>>,
    used: usize,
}

impl Lanes {
    /// Takes the lowest free lane.
    pub(super) fn take(&mut self) -> usize {
        if let Some(Reverse(lane)) = self.free.pop() {
            return lane;
        }
        self.used += 1;
        self.used - 1
    }

    /// Frees a lane.
    pub(super) fn give_back(&mut self, lane: usize) {
        self.free.push(Reverse(lane));
    }
}
