//! A data socket and the ring of task chunks assigned to it: six as in TCPX, or sixteen if they
//! are small, so that a window of small messages is one system call.
//!
//! Two roles access a lane. The *caller*, the thread that calls `test`, assigns tasks and reaps
//! finished ones. The *mover*, either the caller or one of the comm's helper threads, moves their
//! bytes in order. Three increasing counters separate them: the caller writes assigned and reaped, the
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
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// Most task chunks of one data socket in TCPX, and here with injected faults or many bytes.
pub(crate) const TASKS: usize = 6;
/// Most task chunks of one data socket while they have fewer than [`SMALL_MAX`] bytes.
pub(crate) const TASKS_SMALL: usize = 16;
/// Messages gain if they are moved together: I/O in pieces of 64 to 128 KiB is 20 to 55 % slower than in
/// larger ones. This many bytes are not held back for more, and are enough for six tasks.
pub(crate) const SMALL_MAX: usize = 512 << 10;

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
    pub held: [usize; TASKS_SMALL],
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
    tasks: [UnsafeCell<Task>; TASKS_SMALL],
    assigned: AtomicU32,
    finished: AtomicU32,
    reaped: AtomicU32,
    /// Bytes of the tasks that are assigned and not reaped; the caller's.
    bytes: AtomicUsize,
    /// Most tasks while they have few bytes.
    tasks_small: usize,
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
            bytes: AtomicUsize::new(0),
            tasks_small: if faults.is_some() { TASKS } else { TASKS_SMALL },
            dead: AtomicBool::new(false),
            mover: UnsafeCell::new(Mover {
                faults,
                ..Mover::default()
            }),
        }
    }

    /// Caller: whether one more task can be assigned.
    pub(crate) fn has_room(&self) -> bool {
        let assigned = self.assigned.load(Relaxed);
        let waiting = assigned.wrapping_sub(self.reaped.load(Relaxed)) as usize;
        waiting < TASKS || waiting < self.tasks_small && self.bytes.load(Relaxed) < SMALL_MAX
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
        self.bytes
            .store(self.bytes.load(Relaxed) + task.length, Relaxed);
        true
    }

    /// Caller: takes back the oldest finished task.
    pub(crate) fn reap(&self) -> Option<Task> {
        let number = self.reaped.load(Relaxed);
        if number == self.finished.load(Acquire) {
            return None;
        }
        self.reaped.store(number.wrapping_add(1), Relaxed);
        let task = self.task(number);
        self.bytes
            .store(self.bytes.load(Relaxed) - task.length, Relaxed);
        Some(task)
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
    number as usize % TASKS_SMALL
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
    /// Bytes after which one system call takes no further task.
    pub enough: usize,
    /// Intervals of slowness lines, if enabled.
    pub patience: Option<Patience>,
    /// Set to end the helper threads.
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
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::net::TcpListener;

    fn lane(faults: Option<SocketFaults>) -> Lane {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Lane::new(
            TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            String::new(),
            faults,
        )
    }

    fn task(number: u64, length: usize) -> Task {
        Task {
            number,
            length,
            ..NO_TASK
        }
    }

    /// How many tasks of `length` bytes fit on an empty lane.
    fn most(lane: &Lane, length: usize) -> usize {
        (0..100)
            .take_while(|number| lane.assign(task(*number, length)))
            .count()
    }

    #[test]
    fn six_tasks_fit_and_an_entry_is_free_only_once_reaped() {
        let lane = lane(None);
        for number in 0..6 {
            assert!(lane.assign(task(number, SMALL_MAX)));
        }
        assert!(!lane.assign(task(6, SMALL_MAX)));
        assert_eq!((lane.unfinished(), lane.has_work()), ((0, 6), true));
        lane.finish_to(2);
        assert!(!lane.assign(task(6, 1)), "finished is not reaped");
        assert_eq!(lane.reap().map(|task| task.number), Some(0));
        assert!(lane.assign(task(6, 1)));
        assert_eq!(lane.reap().map(|task| task.number), Some(1));
        assert!(lane.reap().is_none());
        assert_eq!(lane.unfinished(), (2, 7));
    }

    #[test]
    fn sixteen_small_tasks_fit_except_where_a_fault_imitates_a_full_socket() {
        assert_eq!(most(&lane(None), 4096), TASKS_SMALL);
        assert_eq!(most(&lane(None), 64 << 10), 8, "512 KiB together");
        assert_eq!(most(&lane(None), 512 << 10), TASKS);
        assert_eq!(most(&lane(Some(SocketFaults::default())), 64), TASKS);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Assign(usize),
        Finish(usize),
        Reap,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop_oneof![1usize..9000, 30_000usize..200_000, Just(512usize << 10)].prop_map(Step::Assign),
            1 => (0usize..17).prop_map(Step::Finish),
            2 => Just(Step::Reap),
        ]
    }

    proptest! {
        /// Compares a lane with a model of two queues: unfinished tasks, and finished ones.
        #[test]
        fn tasks_are_finished_and_reaped_in_the_order_of_assignment(
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let lane = lane(None);
            let (mut unfinished, mut finished) = (VecDeque::new(), VecDeque::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Assign(length) => {
                        let bytes: usize = unfinished.iter().chain(&finished).map(|(_, length)| length).sum();
                        let waiting = unfinished.len() + finished.len();
                        let fits = waiting < 6 || waiting < 16 && bytes < SMALL_MAX;
                        prop_assert_eq!(lane.has_room(), fits);
                        prop_assert_eq!(lane.assign(task(number as u64, length)), fits);
                        if fits {
                            unfinished.push_back((number as u64, length));
                        }
                    }
                    Step::Finish(count) => {
                        let count = count.min(unfinished.len());
                        let (first, last) = lane.unfinished();
                        prop_assert_eq!(last.wrapping_sub(first) as usize, unfinished.len());
                        lane.finish_to(first.wrapping_add(count as u32));
                        finished.extend(unfinished.drain(..count));
                    }
                    Step::Reap => {
                        let reaped = lane.reap().map(|task| (task.number, task.length));
                        prop_assert_eq!(reaped, finished.pop_front());
                    }
                }
                prop_assert_eq!(lane.has_work(), !unfinished.is_empty());
            }
        }
    }
}
