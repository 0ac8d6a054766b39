//! The request slots of one comm and their five states. There are sixteen slots, or 32 in the
//! plain flavour.
//!
//! Requests enter and leave every state in posting order, so the state is five increasing
//! counters: how many requests have taken each of the five steps. The slot of the k-th request
//! is k mod the number of slots, so request pointers repeat. (TCPX 3.1.9 does the same with
//! 32-bit counters and stops permanently after 2^32 requests; these are 64 bits wide.)
//!
//! Not here: the content of requests, and when they take a step.
#![forbid(unsafe_code)]

/// Slots of one comm.
pub(crate) const SLOTS: usize = tcpx_abi::unpack::SLOTS;
/// Slots of one comm in the plain flavour, as many as NCCL requires.
pub(crate) const SLOTS_MAX: usize = tcpx_abi::REQUESTS_MAX;

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Unused.
    Free,
    /// Posted by `isend` or `irecv` and not started.
    Posted,
    /// Its task chunks are being assigned to data sockets.
    Active,
    /// All task chunks are assigned; bytes are being moved or have been moved.
    Transmitting,
    /// A finished receive that is not yet consumed.
    Inactive,
}

/// The step that takes a slot to its next state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `isend` or `irecv`.
    Post,
    /// The first `test` after posting.
    Activate,
    /// The last task chunk is assigned.
    Transmit,
    /// `test` reports it done.
    Finish,
    /// The slot is freed: a send's at once, a receive's when it is consumed.
    Release,
}

impl Step {
    /// The transition table: the states before and after the step.
    pub(crate) const fn between(self) -> (State, State) {
        match self {
            Step::Post => (State::Free, State::Posted),
            Step::Activate => (State::Posted, State::Active),
            Step::Transmit => (State::Active, State::Transmitting),
            Step::Finish => (State::Transmitting, State::Inactive),
            Step::Release => (State::Inactive, State::Free),
        }
    }
}

impl State {
    /// The step that enters this state and the one that leaves it.
    const fn around(self) -> (Step, Step) {
        match self {
            State::Free => (Step::Release, Step::Post),
            State::Posted => (Step::Post, Step::Activate),
            State::Active => (Step::Activate, Step::Transmit),
            State::Transmitting => (Step::Transmit, Step::Finish),
            State::Inactive => (Step::Finish, Step::Release),
        }
    }
}

/// The states of all slots of one comm.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    /// Requests that have taken each step, in the order of [`Step`].
    taken: [u64; 5],
    slots: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self::with_slots(SLOTS)
    }
}

impl Queue {
    /// A queue of `slots` slots, at most [`SLOTS_MAX`].
    pub(crate) fn with_slots(slots: usize) -> Self {
        Self {
            taken: [0; 5],
            slots: slots.min(SLOTS_MAX) as u64,
        }
    }

    /// Applies `step` to the oldest slot that can take it and returns that slot; `None` if no
    /// slot can.
    pub(crate) fn take(&mut self, step: Step) -> Option<usize> {
        let slot = self.oldest(step.between().0)?;
        self.taken[step as usize] += 1;
        Some(slot)
    }

    /// The slot that has been in `state` for longest.
    pub(crate) fn oldest(&self, state: State) -> Option<usize> {
        let (enters, leaves) = state.around();
        // All slots are free initially, without having taken a step.
        let first = if state == State::Free { self.slots } else { 0 };
        let (entered, left) = (self.taken(enters) + first, self.taken(leaves));
        (entered > left).then_some((left % self.slots) as usize)
    }

    /// Whether `slot` is in `state`, which is not [`State::Free`].
    pub(crate) fn is_in(&self, slot: usize, state: State) -> bool {
        let (enters, leaves) = state.around();
        let (entered, left) = (self.taken(enters), self.taken(leaves));
        let ahead = (slot as u64 + self.slots - left % self.slots) % self.slots;
        ahead < entered - left
    }

    /// Slots that are posted or active, oldest first. Only the first can be active.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + use<> {
        let slots = self.slots;
        (self.taken(Step::Transmit)..self.taken(Step::Post))
            .map(move |number| (number % slots) as usize)
    }

    /// Number of free slots.
    pub(crate) fn free(&self) -> usize {
        (self.slots + self.taken(Step::Release) - self.taken(Step::Post)) as usize
    }

    /// Number of requests that have taken `step` so far.
    pub(crate) fn taken(&self, step: Step) -> u64 {
        self.taken[step as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [State; 5] = [
        State::Free,
        State::Posted,
        State::Active,
        State::Transmitting,
        State::Inactive,
    ];
    const STEPS: [Step; 5] = [
        Step::Post,
        Step::Activate,
        Step::Transmit,
        Step::Finish,
        Step::Release,
    ];

    #[test]
    fn the_transition_table_in_full() {
        let table: Vec<String> = STEPS
            .map(|step| format!("{step:?}: {:?} -> {:?}", step.between().0, step.between().1))
            .into();
        assert_eq!(
            table,
            [
                "Post: Free -> Posted",
                "Activate: Posted -> Active",
                "Transmit: Active -> Transmitting",
                "Finish: Transmitting -> Inactive",
                "Release: Inactive -> Free",
            ]
        );
    }

    #[test]
    fn every_state_lies_between_the_step_that_enters_it_and_the_one_that_leaves_it() {
        for state in STATES {
            let (enters, leaves) = state.around();
            assert_eq!((enters.between().1, leaves.between().0), (state, state));
        }
    }

    #[test]
    fn a_full_queue_refuses_posts() {
        let mut queue = Queue::default();
        for slot in 0..SLOTS {
            assert_eq!(queue.take(Step::Post), Some(slot));
        }
        assert_eq!(queue.take(Step::Post), None);
        assert_eq!(queue.oldest(State::Free), None);
        for step in [Step::Activate, Step::Transmit, Step::Finish] {
            assert_eq!(queue.take(step), Some(0));
            assert_eq!(
                queue.take(Step::Post),
                None,
                "a finished receive keeps its slot"
            );
        }
        assert_eq!(queue.take(Step::Release), Some(0));
        assert_eq!(
            queue.take(Step::Post),
            Some(0),
            "request pointers repeat every sixteen"
        );
    }

    proptest! {
        /// Compares the queue with a model of sixteen separate states.
        #[test]
        fn requests_change_state_in_posting_order(steps in prop::collection::vec(0usize..5, 0..400)) {
            let mut queue = Queue::default();
            let mut slots = [State::Free; SLOTS];
            let mut order: Vec<usize> = Vec::new();
            let mut posted = 0;
            for step in steps {
                let step = STEPS[step];
                let (from, to) = step.between();
                let expected = match step {
                    Step::Post => Some(posted % SLOTS).filter(|slot| slots[*slot] == State::Free),
                    _ => order.iter().copied().find(|slot| slots[*slot] == from),
                };
                prop_assert_eq!(queue.take(step), expected);
                if let Some(slot) = expected {
                    slots[slot] = to;
                    match step {
                        Step::Post => { order.push(slot); posted += 1; }
                        Step::Release => prop_assert_eq!(order.remove(0), slot),
                        _ => {}
                    }
                }
                for state in STATES.into_iter().skip(1) {
                    for (slot, held) in slots.iter().enumerate() {
                        prop_assert_eq!(queue.is_in(slot, state), *held == state);
                    }
                    prop_assert_eq!(queue.oldest(state), order.iter().copied().find(|slot| slots[*slot] == state));
                }
            }
        }
    }
}
