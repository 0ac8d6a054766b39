//! Takes parts of a stream in its order from threads that finish them in any order.
//!
//! A part that comes early is kept, as long as the kept parts are small together; otherwise
//! its thread waits. The thread with the next part never waits, so they cannot all wait.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Parts that arrive by number, from 0.
pub(super) struct InOrder<T, F> {
    state: Mutex<State<T, F>>,
    turn: Condvar,
    /// Most bytes of all parts that are kept.
    early_max: usize,
}

struct State<T, F> {
    take: F,
    next: u32,
    early: BTreeMap<u32, (usize, T)>,
    kept: usize,
    is_broken: bool,
}

impl<T, F: FnMut(T)> InOrder<T, F> {
    /// `take` is called with each part, in order.
    pub(super) fn new(early_max: usize, take: F) -> Self {
        let state = State {
            take,
            next: 0,
            early: BTreeMap::new(),
            kept: 0,
            is_broken: false,
        };
        Self {
            state: Mutex::new(state),
            turn: Condvar::new(),
            early_max,
        }
    }

    /// Hands over part `number`, which takes so many `bytes`.
    pub(super) fn hand_over(&self, number: u32, bytes: usize, part: T) {
        let mut state = self.lock();
        while state.next != number && state.kept + bytes > self.early_max && !state.is_broken {
            state = self
                .turn
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_broken {
            return;
        }
        state.kept += bytes;
        state.early.insert(number, (bytes, part));
        let before = state.next;
        while let Some((bytes, part)) = {
            let next = state.next;
            state.early.remove(&next)
        } {
            (state.take)(part);
            state.kept -= bytes;
            state.next = state.next.saturating_add(1);
        }
        if state.next != before {
            self.turn.notify_all();
        }
    }

    /// Calls `give_up` when it is dropped by a panic.
    pub(super) fn guard(&self) -> Guard<'_, T, F> {
        Guard(self)
    }

    /// A part will never come: the later ones are dropped.
    fn give_up(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        state.early.clear();
        self.turn.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the other threads from waiting for a thread that panicked.
pub(super) struct Guard<'a, T, F: FnMut(T)>(&'a InOrder<T, F>);

impl<T, F: FnMut(T)> Drop for Guard<'_, T, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_many_threads_are_taken_in_order_and_few_are_kept() {
        let mut taken = Vec::new();
        let order = InOrder::new(10, |part: u32| taken.push(part));
        let next = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = {
                            let mut next = next.lock().unwrap();
                            *next += 1;
                            *next - 1
                        };
                        if number >= 2000 {
                            return;
                        }
                        order.hand_over(number, 7, number);
                        assert!(order.lock().kept <= 10);
                    }
                });
            }
        });
        drop(order);
        assert_eq!(taken, (0..2000).collect::<Vec<_>>());
    }

    #[test]
    fn a_missing_part_does_not_stop_the_others() {
        let mut taken = Vec::new();
        let order = InOrder::new(1, |part: u32| taken.push(part));
        std::thread::scope(|scope| {
            scope.spawn(|| order.hand_over(2, 5, 2));
            order.hand_over(0, 1, 0);
            order.give_up();
        });
        drop(order);
        assert_eq!(taken, [0]);
    }
}
