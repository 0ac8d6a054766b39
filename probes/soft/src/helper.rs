//! `TCPXSOFT_IO=helper`: one thread per comm that moves bytes between `test`
//! calls, as the real plugin's does.
//!
//! `TCPXSOFT_IO=auto` gives a comm a helper if at its first task chunk the process has several
//! comms, and twice as many CPUs as comms (affinity and cgroup, at `init`). A thread moves about
//! 5 GB/s, so a caller with one thread needs helpers for more; a single comm does not. Twice,
//! because the peer's helpers may be on the same machine: with fewer CPUs, helpers take time from
//! the threads that copy. An INFO line tells the choice.
//!
//! The thread starts with the first task chunk, sleeps while no bytes can be moved, and ends at
//! close or when a data socket fails. Such a failure is never reported through the API, and
//! stops all lanes of the comm.
#![expect(unsafe_code, reason = "moves the tasks that the caller assigns")]

use crate::io::{Moved, pump};
use crate::lane::Lanes;
use crate::log::note;
use crate::settings::Io;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpx_abi::subsystem::{INIT, NET};

/// Turns without progress before the thread sleeps.
const SPINS: u32 = 16;
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

/// A running helper.
pub(crate) struct Helper {
    thread: JoinHandle<()>,
    lanes: Arc<Lanes>,
}

impl Helper {
    /// Starts the helper thread, which becomes the only mover of `lanes`.
    pub(crate) fn start(lanes: Arc<Lanes>) -> io::Result<Self> {
        let theirs = Arc::clone(&lanes);
        let thread = thread::Builder::new()
            .name("tcpxsoft-helper".into())
            .spawn(move || run(&theirs))?;
        note!(
            INIT | NET,
            c"softHelper",
            "Comm {:#x} thread 0 started",
            lanes.comm
        );
        Ok(Self { thread, lanes })
    }

    /// Wakes the thread after a task was assigned.
    pub(crate) fn wake(&self) {
        self.thread.thread().unpark();
    }

    /// Ends the thread and waits for it, for microseconds, because it never blocks.
    pub(crate) fn end(self) {
        self.lanes.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

fn run(lanes: &Lanes) {
    // SAFETY: no pointers; shortens the sleeps of this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut idle = 0;
    while !lanes.stop.load(Relaxed) {
        match turn(lanes) {
            Moved::Died => return,
            Moved::Some => idle = 0,
            _ if idle < SPINS => {
                idle += 1;
                std::hint::spin_loop();
            }
            Moved::Blocked => thread::sleep(BLOCKED_SLEEP),
            Moved::Nothing => thread::park_timeout(IDLE_SLEEP),
        }
    }
}

/// Moves bytes once on every lane.
fn turn(lanes: &Lanes) -> Moved {
    let mut result = Moved::Nothing;
    for lane in &lanes.all {
        // SAFETY: this thread is the only mover, and tasks' memory is valid
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
