//! A data socket and the ring of at most six task chunks assigned to it.
//!
//! Two roles access a lane. The *caller*, the thread that calls `test`, assigns tasks and reaps
//! finished ones. The *mover*, either the caller or the comm's helper thread, moves their bytes
//! in order. Three increasing counters separate them: the caller writes assigned and reaped, the
//! mover writes finished. A task belongs to the mover between assigned and finished, and to the
//! caller otherwise.
//!
//! Not here: moving bytes (`io`), and dividing messages into tasks.
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

/// Most task chunks of one data socket.
pub(crate) const TASKS: usize = 6;

/// The memory of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Memory {
    /// The caller's buffer.
    Flat(*mut u8),
    /// Pages of the pool. Points to room for the numbers of all pages that the task can need,
    /// to which the mover writes those of the pages it takes.
    Pages(*mut u32),
}

/// One task chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    /// The memory of its bytes.
    pub memory: Memory,
    /// Number of bytes, not 0.
    pub length: usize,
    /// Offset within the message.
    pub offset: usize,
    /// Bytes of the message.
    pub total: usize,
    /// Slot of its request.
    pub slot: usize,
    /// Number of the chunk on its comm, from 1.
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

/// State that only the mover accesses.
#[derive(Default)]
pub(crate) struct Mover {
    /// Bytes of the first unfinished task that have moved.
    pub done: usize,
    /// Pages taken for each task of the ring.
    pub held: [usize; TASKS],
    /// Bytes moved on this socket.
    pub bytes: u64,
    /// Tracks how long nothing has moved.
    pub stall: Stall,
    /// Injected faults.
    pub faults: Option<SocketFaults>,
}

/// A data socket with its tasks.
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

    /// Caller: whether one more task can be assigned.
    pub(crate) fn has_room(&self) -> bool {
        self.assigned
            .load(Relaxed)
            .wrapping_sub(self.reaped.load(Relaxed))
            < TASKS as u32
    }

    /// Caller: assigns a task to the mover. `false` if there is no room.
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

    /// Mover: the number of the first unfinished task, and the number after the last task.
    pub(crate) fn unfinished(&self) -> (u32, u32) {
        (self.finished.load(Relaxed), self.assigned.load(Acquire))
    }

    /// The task with this number, for the role to which it belongs.
    pub(crate) fn task(&self, number: u32) -> Task {
        // SAFETY: a task is written before it is assigned and not again until
        // it is reaped; a copy is taken.
        unsafe { *self.tasks[place(number)].get() }
    }

    /// Mover: marks every task before `number` as finished.
    pub(crate) fn finish_to(&self, number: u32) {
        self.finished.store(number, Release);
    }

    /// Mover: the mover's state.
    ///
    /// # Safety
    /// The thread that asks is the lane's only mover and holds no other borrow.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the contract above")]
    pub(crate) unsafe fn mover(&self) -> &mut Mover {
        // SAFETY: the caller is the only mover.
        unsafe { &mut *self.mover.get() }
    }

    /// Caller: whether the mover has unfinished tasks.
    pub(crate) fn has_work(&self) -> bool {
        self.finished.load(Relaxed) != self.assigned.load(Relaxed)
    }

    /// Whether the socket has failed, so that no bytes are moved on it any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Mover: marks the lane as dead.
    pub(crate) fn die(&self) {
        self.dead.store(true, Relaxed);
    }
}

/// Index of a task number in the ring and in [`Mover::held`].
pub(crate) fn place(number: u32) -> usize {
    number as usize % TASKS
}

/// The lanes of one comm, and what their mover needs to know about the comm.
pub(crate) struct Lanes {
    /// One per data socket, by index.
    pub all: Vec<Lane>,
    /// Direction of the bytes.
    pub side: Side,
    /// The page pool of device receives.
    pub pool: Option<&'static PagePool>,
    /// The comm's address, for log lines.
    pub comm: usize,
    /// Device index.
    pub device: usize,
    /// Interface name.
    pub interface: String,
    /// Intervals of slowness lines, if enabled.
    pub patience: Option<Patience>,
    /// Set to end the helper thread.
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
    fn six_tasks_fit_and_an_entry_is_free_only_once_reaped() {
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
