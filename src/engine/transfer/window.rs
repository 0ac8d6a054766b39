//! The in-flight requests of one channel.
//!
//! A comm finishes and releases requests in posting order: once one is transmitting, `test`
//! is refused for any but the oldest unfinished request, and `irecvConsumed` for any but the
//! oldest finished one. The window offers exactly one request for each. A slot is free only
//! once its request is consumed; a send counts as consumed as soon as it is done.
//!
//! The state is four counters over a ring: request n is posted if `n < posted`, done if
//! `n < done`, and so on.
//!
//! Not here: calling the plugin, waiting, or choosing a channel for a chunk.
#![forbid(unsafe_code)]

use crate::plugin::Request;

/// Request slots of one TCPX comm; no window is deeper.
pub const SLOTS_MAX: usize = 16;
/// Request slots that every plugin has: NCCL's `NCCL_NET_MAX_REQUESTS` up to 2.18.
pub(super) const SLOTS_MIN: usize = 8;
/// The last ncclNet version of these NCCL releases.
const LAST_WITH_MIN: u32 = 6;

/// Request slots that a comm of a plugin of ncclNet `version` is sure to have.
pub fn slots_of(version: u32) -> usize {
    if version <= LAST_WITH_MIN {
        SLOTS_MIN
    } else {
        SLOTS_MAX
    }
}

/// The stage of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Posted to the plugin.
    Posted,
    /// `test` reported it done.
    Done,
    /// The payload is in its buffer and verified.
    Unpacked,
    /// Consumed; the slot is free.
    Consumed,
}

/// A step from one stage to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `test` reports done.
    Finish,
    /// The payload was unpacked and verified.
    Unpack,
    /// `irecvConsumed` for a receive, no call for a send.
    Consume,
}

/// A step that is not allowed in the request's stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a request that is {stage:?} cannot {step:?}")]
pub struct Illegal {
    /// The stage of the request.
    pub stage: Stage,
    /// The attempted step.
    pub step: Step,
}

impl Stage {
    /// The stage after `step`.
    pub fn after(self, step: Step) -> Result<Self, Illegal> {
        match (self, step) {
            (Self::Posted, Step::Finish) => Ok(Self::Done),
            (Self::Done, Step::Unpack) => Ok(Self::Unpacked),
            // Consuming earlier frees the bounce pages while they are still being
            // read, and the payload then differs.
            (Self::Unpacked, Step::Consume) => Ok(Self::Consumed),
            (stage, step) => Err(Illegal { stage, step }),
        }
    }
}

/// One posted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// The plugin's request.
    pub request: Request,
    /// The channel's turn, which determines the chunk.
    pub turn: u64,
    /// The memory slot that it uses.
    pub slot: u8,
    /// Bytes.
    pub len: u32,
}

/// The requests of one channel between post and consume, oldest first.
#[derive(Debug)]
pub struct Window {
    ring: [Option<InFlight>; SLOTS_MAX],
    depth: u64,
    posted: u64,
    done: u64,
    unpacked: u64,
    consumed: u64,
}

impl Window {
    /// A window of `depth` requests, clamped to 1..=16.
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, SLOTS_MAX) as u64;
        Self {
            ring: [None; SLOTS_MAX],
            depth,
            posted: 0,
            done: 0,
            unpacked: 0,
            consumed: 0,
        }
    }

    /// Most requests between post and consume.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Narrows the window to the requests in flight now.
    pub(crate) fn narrow(&mut self) {
        self.depth = (self.posted - self.consumed).max(1);
    }

    /// Requests between post and consume.
    pub fn in_flight(&self) -> usize {
        (self.posted - self.consumed) as usize
    }

    /// Whether one more request can be posted.
    pub fn has_room(&self) -> bool {
        self.posted - self.consumed < self.depth
    }

    /// Adds a posted request, or returns it as an error if the window is full. The window
    /// thus refuses the 17th post before the plugin does.
    pub fn post(&mut self, one: InFlight) -> Result<(), InFlight> {
        if !self.has_room() {
            return Err(one);
        }
        self.ring[index(self.posted)] = Some(one);
        self.posted += 1;
        Ok(())
    }

    /// The one request that may be tested.
    pub fn to_test(&self) -> Option<InFlight> {
        if self.done < self.posted {
            self.ring[index(self.done)]
        } else {
            None
        }
    }

    /// The request after the one that may be tested. Only `rogue` tests it, as a fault.
    pub(super) fn second_oldest(&self) -> Option<InFlight> {
        if self.done + 1 < self.posted {
            self.ring[index(self.done + 1)]
        } else {
            None
        }
    }

    /// The one request that may be unpacked.
    pub fn to_unpack(&self) -> Option<InFlight> {
        if self.unpacked < self.done {
            self.ring[index(self.unpacked)]
        } else {
            None
        }
    }

    /// Applies a step to the oldest request that can take it.
    pub fn step(&mut self, step: Step) -> Result<(), Illegal> {
        let next = match step {
            Step::Finish => self.done,
            Step::Unpack => self.unpacked,
            Step::Consume => self.consumed,
        };
        match self.stage(next).after(step)? {
            Stage::Posted => {}
            Stage::Done => self.done += 1,
            Stage::Unpacked => self.unpacked += 1,
            Stage::Consumed => self.consumed += 1,
        }
        Ok(())
    }

    /// The stage of request `number`, counted from 0 over the life of the channel. A request
    /// that is not posted yet counts as consumed, because its slot is free.
    fn stage(&self, number: u64) -> Stage {
        match number {
            _ if number >= self.posted => Stage::Consumed,
            _ if number >= self.done => Stage::Posted,
            _ if number >= self.unpacked => Stage::Done,
            _ if number >= self.consumed => Stage::Unpacked,
            _ => Stage::Consumed,
        }
    }

    /// Whether no request is in flight.
    pub fn is_drained(&self) -> bool {
        self.posted == self.consumed
    }

    /// Requests posted, done, unpacked and consumed over the life of the channel.
    pub(crate) fn totals(&self) -> [u64; 4] {
        [self.posted, self.done, self.unpacked, self.consumed]
    }
}

fn index(number: u64) -> usize {
    (number % SLOTS_MAX as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn one(turn: u64) -> InFlight {
        InFlight {
            request: Request::for_tests(turn as usize + 1),
            turn,
            slot: 0,
            len: 1,
        }
    }

    /// The turn of the one request that may be consumed.
    fn turn_to_consume(window: &Window) -> Option<u64> {
        if window.consumed == window.unpacked {
            return None;
        }
        window.ring[index(window.consumed)].map(|one| one.turn)
    }

    #[test]
    fn the_whole_transition_table() {
        let mut table = String::new();
        for stage in [Stage::Posted, Stage::Done, Stage::Unpacked, Stage::Consumed] {
            for step in [Step::Finish, Step::Unpack, Step::Consume] {
                let after = stage
                    .after(step)
                    .map_or_else(|illegal| format!("! {illegal}"), |next| format!("{next:?}"));
                table.push_str(&format!("{stage:?} + {step:?} -> {after}\n"));
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn the_window_refuses_the_seventeenth_post() {
        let mut window = Window::new(16);
        for turn in 0..16 {
            window.post(one(turn)).expect("room");
        }
        assert_eq!(window.post(one(16)), Err(one(16)));
    }

    #[test]
    fn a_done_receive_still_holds_its_slot() {
        let mut window = Window::new(1);
        window.post(one(0)).expect("room");
        window.step(Step::Finish).expect("posted");
        assert!(!window.has_room());
        assert_eq!(
            window.step(Step::Consume),
            Err(Illegal {
                stage: Stage::Done,
                step: Step::Consume
            })
        );
        window.step(Step::Unpack).expect("done");
        window.step(Step::Consume).expect("unpacked");
        assert!(window.has_room() && window.is_drained());
    }

    proptest! {
        #[test]
        fn requests_leave_in_posting_order(steps in prop::collection::vec(0u8..4, 0..300), depth in 1usize..=16) {
            let mut window = Window::new(depth);
            let mut model: [VecDeque<u64>; 3] = Default::default();
            let mut next = 0;
            for step in steps {
                match step {
                    0 => {
                        let room = model.iter().map(VecDeque::len).sum::<usize>() < depth;
                        prop_assert_eq!(window.post(one(next)).is_ok(), room);
                        if room {
                            model[0].push_back(next);
                            next += 1;
                        }
                    }
                    1 => {
                        prop_assert_eq!(window.to_test().map(|one| one.turn), model[0].front().copied());
                        let moved = model[0].pop_front();
                        prop_assert_eq!(window.step(Step::Finish).is_ok(), moved.is_some());
                        model[1].extend(moved);
                    }
                    2 => {
                        prop_assert_eq!(window.to_unpack().map(|one| one.turn), model[1].front().copied());
                        let moved = model[1].pop_front();
                        prop_assert_eq!(window.step(Step::Unpack).is_ok(), moved.is_some());
                        model[2].extend(moved);
                    }
                    _ => {
                        prop_assert_eq!(turn_to_consume(&window), model[2].front().copied());
                        prop_assert_eq!(window.step(Step::Consume).is_ok(), model[2].pop_front().is_some());
                    }
                }
                prop_assert_eq!(window.in_flight(), model.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
