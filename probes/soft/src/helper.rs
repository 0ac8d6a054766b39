//! `TCPXSOFT_IO=helper`: threads of a comm that move bytes between `test` calls, as the real
//! plugin's do. Each has its share of the data sockets.
//!
//! `TCPXSOFT_IO=auto` gives a comm helpers if at its first task chunk the process has several
//! comms, and twice as many CPUs as comms (affinity and cgroup, at `init`). A thread moves about
//! 5 GB/s, so a caller with one thread needs helpers for more; a single comm does not. Twice,
//! because the peer's helpers may be on the same machine: with fewer CPUs, helpers take time from
//! the threads that copy. An INFO line tells the choice.
//!
//! The threads start with the first task chunk, sleep while no bytes can be moved, and end at
//! close or when a data socket fails. Such a failure is never reported through the API, and
//! stops all lanes of the comm.
#![expect(unsafe_code, reason = "moves the tasks that the caller assigns")]

use crate::io::{Moved, pump};
use crate::lane::{Lane, Lanes};
use crate::log::note;
use crate::settings::{Io, Settings};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpx_abi::subsystem::{INIT, NET};

/// Turns without progress before a thread sleeps.
const SPINS: u32 = 16;
/// The same where the process has two CPUs for each helper: some 100 us of system calls. Each step of a
/// collective waits for the one before, so a thread that sleeps delays all that follow.
const SPINS_OF_MANY_CPUS: u32 = 200;
/// The same for helpers of the plain flavour that are the only one of their comm or have several sockets, some 2 ms: as
/// long as NCCL's own socket threads poll. On 32 CPUs, PyTorch's all-reduce of two GPUs moved 1.17 to 1.33 times as much
/// with it over one socket, and 1.04 to 1.06 times with two helpers of two sockets each. With four helpers of one socket
/// each it moved less, 0.77 to 0.85 times.
const SPINS_OF_FEW_HELPERS: u32 = 5000;
/// Sleep while all sockets are blocked: long enough to leave the core to other threads, short
/// enough for socket buffers not to run empty.
const BLOCKED_SLEEP: Duration = Duration::from_micros(50);
/// Longest sleep without tasks; a new task wakes the thread.
const IDLE_SLEEP: Duration = Duration::from_millis(100);

/// The choice of `TCPXSOFT_IO=auto`.
pub(crate) fn choose(cpus: usize, comms: usize) -> Io {
    if comms > 1 && cpus / 2 >= comms {
        Io::Helper
    } else {
        Io::Inline
    }
}

/// Turns without progress before a thread sleeps, where the process has `helpers` in all.
pub(crate) fn spins(cpus: usize, helpers: usize, polls_long: bool) -> u32 {
    match (cpus / 2 >= helpers, polls_long) {
        (true, true) => SPINS_OF_FEW_HELPERS,
        (true, false) => SPINS_OF_MANY_CPUS,
        (false, _) => SPINS,
    }
}

/// Whether helper threads of the plain flavour take turns between several data sockets each.
///
/// A message is then complete when each of its sockets has had its turn, and a call that moves several messages on one
/// socket delays all others. So a call moves one long task, and the sockets of a comm share a message evenly. On 32 CPUs,
/// PyTorch's all-reduce of two GPUs moved 1.14 to 1.19 times as much with it over one thread with four sockets, and
/// 1.03 to 1.05 times over two with two.
pub(crate) fn takes_turns(settings: &Settings, lanes: usize) -> bool {
    settings.is_plain() && settings.io == Io::Helper && lanes > settings.threads
}

/// Bytes after which one system call takes no further task: small ones are moved together.
pub(crate) fn enough(takes_turns: bool) -> usize {
    if takes_turns { 64 << 10 } else { usize::MAX }
}

/// The running helpers of a comm.
pub(crate) struct Helpers {
    threads: Vec<JoinHandle<()>>,
    lanes: Arc<Lanes>,
}

impl Helpers {
    /// Starts `count` threads, which become the only movers of `lanes`. `spins` is the number of turns
    /// without progress before a thread sleeps.
    pub(crate) fn start(lanes: Arc<Lanes>, count: usize, spins: u32) -> io::Result<Self> {
        let mut started = Self {
            threads: Vec::new(),
            lanes,
        };
        for number in 0..count {
            let lanes = Arc::clone(&started.lanes);
            let thread = thread::Builder::new()
                .name("tcpxsoft-helper".into())
                .spawn(move || run(&lanes, (number, count), spins));
            match thread {
                Ok(thread) => started.threads.push(thread),
                Err(error) => {
                    started.end();
                    return Err(error);
                }
            }
            note!(
                INIT | NET,
                c"softHelper",
                "Comm {:#x} thread {number} started",
                started.lanes.comm
            );
        }
        Ok(started)
    }

    /// Wakes the threads that have work, after a task was assigned.
    pub(crate) fn wake(&self) {
        let count = self.threads.len();
        for (number, thread) in self.threads.iter().enumerate() {
            if share(&self.lanes, (number, count)).any(Lane::has_work) {
                thread.thread().unpark();
            }
        }
    }

    /// Ends the threads and waits for them, for microseconds, because they never block.
    pub(crate) fn end(self) {
        self.lanes.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The lanes of thread `number`: every `count`th.
fn share(lanes: &Lanes, (number, count): (usize, usize)) -> impl Iterator<Item = &Lane> {
    lanes.all.iter().skip(number).step_by(count)
}

fn run(lanes: &Lanes, thread: (usize, usize), spins: u32) {
    // SAFETY: no pointers; shortens the sleeps of this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut idle = 0;
    while !lanes.stop.load(Relaxed) {
        match turn(lanes, thread) {
            Moved::Died => lanes.stop.store(true, Relaxed),
            Moved::Some => idle = 0,
            _ if idle < spins => {
                idle += 1;
                std::hint::spin_loop();
            }
            Moved::Blocked => thread::sleep(BLOCKED_SLEEP),
            Moved::Nothing => thread::park_timeout(IDLE_SLEEP),
        }
    }
}

/// Moves bytes once on every lane of a thread.
fn turn(lanes: &Lanes, thread: (usize, usize)) -> Moved {
    let mut result = Moved::Nothing;
    for lane in share(lanes, thread) {
        // SAFETY: this thread is the only mover of its lanes, and tasks' memory is valid
        // until they are done.
        match unsafe { pump(lanes, lane) } {
            Moved::Died => return Moved::Died,
            Moved::Some => result = Moved::Some,
            Moved::Blocked if result == Moved::Nothing => result = Moved::Blocked,
            _ => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_helpers_with_cpus_to_spare_poll_for_long() {
        for (cpus, helpers, polls_long, expected) in [
            (32, 4, true, SPINS_OF_FEW_HELPERS),
            (32, 16, true, SPINS_OF_FEW_HELPERS),
            (32, 17, true, SPINS),
            (32, 16, false, SPINS_OF_MANY_CPUS),
            (2, 2, true, SPINS),
        ] {
            assert_eq!(
                spins(cpus, helpers, polls_long),
                expected,
                "{cpus} {helpers}"
            );
        }
    }

    #[test]
    fn auto_has_helpers_only_with_several_comms_and_two_cpus_for_each() {
        for (cpus, comms) in [
            (2, 1),
            (2, 2),
            (2, 8),
            (16, 1),
            (16, 9),
            (64, 1),
            (0, 0),
            (7, 4),
        ] {
            assert_eq!(
                choose(cpus, comms),
                Io::Inline,
                "{cpus} CPUs, {comms} comms"
            );
        }
        for (cpus, comms) in [(4, 2), (16, 8), (208, 2), (208, 104)] {
            assert_eq!(
                choose(cpus, comms),
                Io::Helper,
                "{cpus} CPUs, {comms} comms"
            );
        }
    }
}
