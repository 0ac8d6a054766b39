//! Slots whose pattern a GPU writes, between free and posted.
//!
//! Each is for one turn of its channel, in the order of the turns; jobs pass in
//! that order, too, so those in front are written.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// The slots of one channel that are on their way to being sent.
pub(super) struct Filling {
    queue: VecDeque<(u8, u64)>,
    written: usize,
    next: u64,
}

impl Filling {
    /// Of a channel with so many slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(slots),
            written: 0,
            next: 0,
        }
    }

    /// Turns count from 0 again; every slot was posted.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// The turn that the next slot is for.
    pub(super) fn next_turn(&self) -> u64 {
        self.next
    }

    /// A job for the next turn was queued for this slot.
    pub(super) fn add(&mut self, slot: u8) {
        self.queue.push_back((slot, self.next));
        self.next += 1;
    }

    /// Whether jobs have not passed yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.written < self.queue.len()
    }

    /// The oldest job that had not passed has.
    pub(super) fn passed(&mut self) {
        self.written += 1;
    }

    /// The slot that is written for this turn.
    pub(super) fn written_for(&self, turn: u64) -> Option<u8> {
        let front = self
            .queue
            .front()
            .filter(|(_, of)| self.written > 0 && *of == turn);
        front.map(|(slot, _)| *slot)
    }

    /// That slot was posted.
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
