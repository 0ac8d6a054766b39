//! How the engine waits when no request advanced, and how it is stopped.
//!
//! The default strategy, `adaptive`, was measured on TCPX, NCCL's socket transport and the
//! software plugin: a few sweeps at full speed (a `test` that is not done may still have
//! promoted or batched a request), then yields, then short sleeps. Plain spinning slows
//! plugins with busy helper threads down by a factor of 14.
//!
//! With a plugin that moves bytes in `test`, and with much in flight, the sockets hold enough for
//! a short nap, while a yield leaves nothing to the threads that share the core and is followed by
//! a system call for few bytes. The nap comes soon then: on 16 CPUs, which are threads of 8 cores,
//! that was 1.00 to 1.10 of the rate with a tenth to a quarter less CPU time at the receiver.
//!
//! A thread that shares its CPU with the thread of the other end yields at once: only the other
//! one can change anything, and eight sweeps first cost 7 to 15 % of the rate.
#![forbid(unsafe_code)]

use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep, sched_yield};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tcpx_words::progress::Idle;

/// The engine's only view of time.
pub trait Pace {
    /// Waits. Called after the n-th sweep in a row without progress, n = 1, 2, …
    fn idle(&mut self, empty_sweeps: u32);
    /// Whether the engine must stop.
    fn stopped(&self) -> bool;
    /// Monotonic time. Not called on the hot path.
    fn now(&self) -> Duration;
}

/// Real time, with a flag that another thread sets to stop the engine.
#[derive(Debug, Clone)]
pub struct WallPace {
    strategy: Idle,
    stop: Arc<AtomicBool>,
    /// A [`Wait`]
    wait: Arc<AtomicUsize>,
    started: Instant,
}

/// How `adaptive` waits, by what else runs where the thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing is known: spins, yields, then naps.
    Usual,
    /// Naps after few yields.
    NapSoon,
    /// Yields without a spin.
    YieldAtOnce,
}

/// What a [`Wait`] does, by its number.
const STEPS: [Steps; 3] = [
    Steps {
        // Enough for a plugin that batches requests before moving bytes. More would keep a peer
        // on the same core from running.
        spins: 8,
        yields: 96,
        nap: Duration::from_micros(50),
    },
    Steps {
        spins: 8,
        yields: 8,
        nap: Duration::from_micros(20),
    },
    Steps {
        spins: 0,
        yields: 96,
        nap: Duration::from_micros(50),
    },
];

struct Steps {
    /// Sweeps without progress at full speed.
    spins: u32,
    /// Yields after that, before the first nap.
    yields: u32,
    nap: Duration,
}

impl WallPace {
    /// Waits by `strategy` until `stop` is set.
    pub fn new(strategy: Idle, stop: Arc<AtomicBool>) -> Self {
        Self {
            strategy,
            stop,
            wait: Arc::new(AtomicUsize::new(Wait::Usual as usize)),
            started: Instant::now(),
        }
    }

    /// How `adaptive` waits from now on, here and in all clones.
    pub fn set_wait(&self, wait: Wait) {
        self.wait.store(wait as usize, Ordering::Relaxed);
    }

    fn adapt(&self, empty_sweeps: u32) {
        let Steps { spins, yields, nap } = STEPS[self.wait.load(Ordering::Relaxed)];
        if empty_sweeps <= spins {
            std::hint::spin_loop();
        } else if empty_sweeps <= spins + yields {
            sched_yield();
        } else {
            sleep(nap);
        }
    }
}

impl Pace for WallPace {
    fn idle(&mut self, empty_sweeps: u32) {
        match self.strategy {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => sched_yield(),
            Idle::Sleep(nap) => sleep(nap.0),
            Idle::Adaptive => self.adapt(empty_sweeps),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

fn sleep(nap: Duration) {
    let request = Timespec {
        tv_sec: nap.as_secs() as i64,
        tv_nsec: i64::from(nap.subsec_nanos()),
    };
    // A signal may end the sleep early, which does no harm.
    let (NanosleepRelativeResult::Ok | _) = nanosleep(&request);
}
