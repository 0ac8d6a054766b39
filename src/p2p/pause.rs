//! How a thread of an endpoint waits while no message advances.
//!
//! As in a run (`engine/transfer/pace.rs`): with much in flight, the sockets hold enough for a short nap, and a yield
//! takes the core from the threads that share it and is followed by a system call for few bytes. On 16 CPUs, which are
//! threads of 8 cores, an experiment with such naps had 1.03 to 1.12 of the rate over 4 connections and 0.95 to 1.03 over
//! one, within noise.
#![forbid(unsafe_code)]

use std::time::Duration;

/// Bytes of a lane that take longer than a nap.
const MUCH: usize = 1 << 20;
/// With so few CPUs, the ends of a connection wait for each other, which a yield serves best.
const CPUS_FEW: usize = 2;

/// How to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Turns without progress before the thread gives its CPU away.
    pub(crate) spins: u32,
    /// Turns without progress before it sleeps.
    pub(crate) yields: u32,
    pub(crate) nap: Duration,
}

const WITH_MUCH: Pause = Pause {
    spins: 8,
    yields: 16,
    nap: Duration::from_micros(20),
};

/// How a thread waits, by what it waits for.
pub(crate) struct Pauses {
    usual: Pause,
    naps_soon: bool,
}

impl Pauses {
    pub(crate) fn new(usual: Pause) -> Self {
        let cpus = std::thread::available_parallelism();
        Self {
            usual,
            naps_soon: cpus.is_ok_and(|cpus| cpus.get() > CPUS_FEW),
        }
    }

    /// `left` are the bytes that each lane with messages has left.
    pub(crate) fn with_left(&self, left: impl Iterator<Item = usize>) -> Pause {
        match left.min() {
            Some(least) if self.naps_soon && least >= MUCH => WITH_MUCH,
            _ => self.usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Pause = Pause {
        spins: 64,
        yields: 400,
        nap: Duration::from_micros(50),
    };

    #[test]
    fn a_thread_naps_soon_where_every_lane_has_much_left_and_there_are_cpus() {
        let on = |naps_soon| Pauses {
            usual: USUAL,
            naps_soon,
        };
        let many = on(true);
        assert_eq!(many.with_left([MUCH, 2 * MUCH].into_iter()), WITH_MUCH);
        // One message of few bytes is waited for without naps.
        assert_eq!(many.with_left([MUCH, 64].into_iter()), USUAL);
        assert_eq!(many.with_left([].into_iter()), USUAL);
        assert_eq!(on(false).with_left([MUCH].into_iter()), USUAL);
    }
}
