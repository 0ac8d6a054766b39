//! How the engine waits when no request advanced, and how it is stopped.
//!
//! The default strategy, `adaptive`, was measured on TCPX, NCCL's socket transport and the
//! software plugin: a few sweeps at full speed (a `test` that is not done may still have
//! promoted or batched a request), then yields, then short sleeps. Plain spinning slows
//! plugins with busy helper threads down by a factor of 14.
#![forbid(unsafe_code)]

use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep, sched_yield};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    started: Instant,
}

/// Sweeps without progress at full speed, enough for a plugin that batches requests before
/// moving bytes. More would keep a peer on the same core from running.
const SPINS: u32 = 8;
/// Yields after that, before the first sleep.
const YIELDS: u32 = 96;
const NAP: Duration = Duration::from_micros(50);

impl WallPace {
    /// Waits by `strategy` until `stop` is set.
    pub fn new(strategy: Idle, stop: Arc<AtomicBool>) -> Self {
        Self {
            strategy,
            stop,
            started: Instant::now(),
        }
    }
}

impl Pace for WallPace {
    fn idle(&mut self, empty_sweeps: u32) {
        match self.strategy {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => sched_yield(),
            Idle::Sleep(nap) => sleep(nap.0),
            Idle::Adaptive if empty_sweeps <= SPINS => std::hint::spin_loop(),
            Idle::Adaptive if empty_sweeps <= SPINS + YIELDS => sched_yield(),
            Idle::Adaptive => sleep(NAP),
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
