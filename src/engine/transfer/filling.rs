//! Slots of a sender whose pattern a GPU writes: no longer free, not yet posted.
//!
//! Each slot is for one turn of its channel. Slots are added in the order of the turns and
//! GPU jobs finish in that order, so the written slots are at the front.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// The slots of one channel that are being filled or are filled and not posted.
pub(super) struct Filling {
    queue: VecDeque<(u8, u64)>,
    written: usize,
    next: u64,
}

impl Filling {
    /// For a channel with `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(slots),
            written: 0,
            next: 0,
        }
    }

    /// Starts turns at 0 again. Every slot must have been posted.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// The turn of the next slot to be added.
    pub(super) fn next_turn(&self) -> u64 {
        self.next
    }

    /// Adds a slot whose job for the next turn was queued.
    pub(super) fn add(&mut self, slot: u8) {
        self.queue.push_back((slot, self.next));
        self.next += 1;
    }

    /// Whether any job is unfinished.
    pub(super) fn is_waiting(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Marks the oldest unfinished job as finished.
    pub(super) fn passed(&mut self) {
        self.written += 1;
    }

    /// The slot that holds the message of this turn, if it is written.
    pub(super) fn written_for(&self, turn: u64) -> Option<u8> {
        let front = self
            .queue
            .front()
            .filter(|(_, of)| self.written > 0 && *of == turn);
        front.map(|(slot, _)| *slot)
    }

    /// Removes the slot that was posted.
    pub(super) fn posted(&mut self) {
        if self.queue.pop_front().is_some() {
            self.written -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_posted_for_its_own_turn_and_only_once_written() {
        let mut filling = Filling::new(3);
        [7, 2].into_iter().for_each(|slot| filling.add(slot));
        assert_eq!((filling.written_for(0), filling.is_waiting()), (None, true));
        filling.passed();
        assert_eq!(
            (filling.written_for(0), filling.written_for(1)),
            (Some(7), None)
        );
        filling.posted();
        assert_eq!((filling.written_for(1), filling.next_turn()), (None, 2));
        filling.passed();
        assert_eq!(
            (filling.written_for(1), filling.is_waiting()),
            (Some(2), false)
        );
        filling.posted();
        filling.restart();
        filling.add(5);
        filling.passed();
        assert_eq!(filling.written_for(0), Some(5));
    }
}
