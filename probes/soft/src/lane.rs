//! One data socket and the ring of at most six task chunks assigned to it.
//!
//! Two hands touch a lane. The *caller* (whoever calls `test`) assigns tasks
//! and reaps finished ones. The *mover* (the caller again, or the comm's helper
//! thread) moves their bytes in order. Three counters that only grow separate
//! them: assigned is the caller's to write, finished the mover's, reaped the
//! caller's. A task belongs to the mover between assigned and finished, and to
//! the caller otherwise.
//!
//! Not here: moving bytes (`io`), or deciding what becomes a task.
#![expect(
    unsafe_code,
    reason = "a ring shared by two threads, synchronised by its counters"
)]

use crate::fault::{Side, SocketFaults};
use crate::pages::PagePool;
use crate::stall::{Patience, Stall};
use std::cell::UnsafeCell;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Task chunks of one data socket.
pub(crate) const TASKS: usize = 6;

/// Where the bytes of a task are, or go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Memory {
    /// In place, in the caller's buffer.
    Flat(*mut u8),
    /// In pages; the numbers of the pages taken so far are written here, to
    /// room for as many as the task can need.
    Pages(*mut u32),
}

/// One task chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    /// Where its bytes are.
    pub memory: Memory,
    /// How many they are; never 0.
    pub length: usize,
    /// Bytes of the message before it.
    pub offset: usize,
    /// Bytes of the message.
    pub total: usize,
    /// Ring slot of its request.
    pub slot: usize,
    /// Count of this chunk on its comm, from 1.
    pub number: u64,
}

const NO_TASK: Task = Task {
    memory: Memory::Flat(std::ptr::null_mut()),
    length: 0,
    offset: 0,
    total: 0,
    slot: 0,
    number: 0,
};

/// What only the mover looks at.
#[derive(Default)]
pub(crate) struct Mover {
    /// Bytes of the first unfinished task that have moved.
    pub done: usize,
    /// Pages taken for each task of the ring.
    pub held: [usize; TASKS],
    /// Bytes moved on this socket.
    pub bytes: u64,
    /// Since when nothing moves.
    pub stall: Stall,
    /// What goes wrong on purpose.
    pub faults: Option<SocketFaults>,
}

/// One data socket with its tasks.
pub(crate) struct Lane {
    /// The socket.
    pub stream: TcpStream,
    /// Its flow string.
    pub flow: String,
    tasks: [UnsafeCell<Task>; TASKS],
    assigned: AtomicU32,
    finished: AtomicU32,
    reaped: AtomicU32,
    dead: AtomicBool,
    mover: UnsafeCell<Mover>,
}

// SAFETY: the counters hand each task from one side to the other with release
// and acquire; `mover` is touched by the mover only.
unsafe impl Sync for Lane {}
// SAFETY: the raw pointers in tasks are the caller's buffers, valid until the
// request is done, as `isend` and `irecv` require.
unsafe impl Send for Lane {}

impl Lane {
    /// A lane without tasks.
    pub(crate) fn new(stream: TcpStream, flow: String, faults: Option<SocketFaults>) -> Self {
        Self {
            stream,
            flow,
            tasks: std::array::from_fn(|_| UnsafeCell::new(NO_TASK)),
            assigned: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            reaped: AtomicU32::new(0),
            dead: AtomicBool::new(false),
            mover: UnsafeCell::new(Mover {
                faults,
                ..Mover::default()
            }),
        }
    }

    /// Caller: whether one more task fits.
    pub(crate) fn has_room(&self) -> bool {
        self.assigned
            .load(Relaxed)
            .wrapping_sub(self.reaped.load(Relaxed))
            < TASKS as u32
    }

    /// Caller: gives the mover one more task. `false` when there is no room.
    pub(crate) fn assign(&self, task: Task) -> bool {
        if !self.has_room() {
            return false;
        }
        let number = self.assigned.load(Relaxed);
        // SAFETY: this place was reaped, so the mover has let go of it.
        unsafe { *self.tasks[place(number)].get() = task };
        self.assigned.store(number.wrapping_add(1), Release);
        true
    }

    /// Caller: takes back the oldest finished task.
    pub(crate) fn reap(&self) -> Option<Task> {
        let number = self.reaped.load(Relaxed);
        if number == self.finished.load(Acquire) {
            return None;
        }
        self.reaped.store(number.wrapping_add(1), Relaxed);
        Some(self.task(number))
    }

    /// Mover: the numbers of the first unfinished task and behind the last.
    pub(crate) fn unfinished(&self) -> (u32, u32) {
        (self.finished.load(Relaxed), self.assigned.load(Acquire))
    }

    /// Whoever holds it: the task of this number.
    pub(crate) fn task(&self, number: u32) -> Task {
        // SAFETY: a task is written before it is assigned and not again until
        // it is reaped; a copy is taken.
        unsafe { *self.tasks[place(number)].get() }
    }

    /// Mover: hands back every task before `number`.
    pub(crate) fn finish_to(&self, number: u32) {
        self.finished.store(number, Release);
    }

    /// Mover: its own state.
    ///
    /// # Safety
    /// The thread that asks is the lane's only mover and holds no other borrow.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the contract above")]
    pub(crate) unsafe fn mover(&self) -> &mut Mover {
        // SAFETY: the caller is the only mover.
        unsafe { &mut *self.mover.get() }
    }

    /// Caller: whether tasks wait for the mover.
    pub(crate) fn has_work(&self) -> bool {
        self.finished.load(Relaxed) != self.assigned.load(Relaxed)
    }

    /// The socket failed; nothing moves on it any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Mover: see [`Lane::is_dead`].
    pub(crate) fn die(&self) {
        self.dead.store(true, Relaxed);
    }
}

/// Index in the ring, or in [`Mover::held`], of a task number.
pub(crate) fn place(number: u32) -> usize {
    number as usize % TASKS
}

/// The lanes of one comm and what their mover needs to know about it.
pub(crate) struct Lanes {
    /// One per data socket, by index.
    pub all: Vec<Lane>,
    /// Which way the bytes go.
    pub side: Side,
    /// Where device receives land.
    pub pool: Option<&'static PagePool>,
    /// The comm, as its pointer prints.
    pub comm: usize,
    /// Device index.
    pub device: usize,
    /// Interface name.
    pub interface: String,
    /// When slowness is reported, if it is.
    pub patience: Option<Patience>,
    /// Tells a helper to end.
    pub stop: AtomicBool,
}

impl Lanes {
    /// Whether any lane has room for a task.
    pub(crate) fn have_room(&self) -> bool {
        self.all.iter().any(Lane::has_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn lane() -> Lane {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Lane::new(
            TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            String::new(),
            None,
        )
    }

    #[test]
    fn six_tasks_fit_and_a_place_is_free_only_once_reaped() {
        let lane = lane();
        let task = |number| Task { number, ..NO_TASK };
        for number in 0..6 {
            assert!(lane.assign(task(number)));
        }
        assert!(!lane.assign(task(6)));
        assert_eq!((lane.unfinished(), lane.has_work()), ((0, 6), true));
        lane.finish_to(2);
        assert!(!lane.assign(task(6)), "finished is not reaped");
        assert_eq!(lane.reap().map(|task| task.number), Some(0));
        assert!(lane.assign(task(6)));
        assert_eq!(lane.reap().map(|task| task.number), Some(1));
        assert!(lane.reap().is_none());
        assert_eq!(lane.unfinished(), (2, 7));
    }
}
