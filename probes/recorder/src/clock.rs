//! Monotonic nanoseconds at the cost of one `rdtsc`.
//!
//! `clock_gettime` costs about 20 ns, `rdtsc` about 9, and every state change reads the clock
//! once. If CPUID reports an invariant TSC, a straight line from ticks to `CLOCK_MONOTONIC` is
//! fitted, and refitted from two new samples at the first reading after about a second. A line
//! that ran ahead continues with a smaller slope instead of stepping back. If the TSC disagrees
//! with the kernel by more than the fit explains (a migrated or suspended machine), it is not
//! used any more. Without an invariant TSC, and for the first 10 ms, every reading is
//! `clock_gettime`.
//!
//! Many threads read the line and one replaces it: there are two lines used alternately, and a
//! reader that sees the current one change reads again. Two *threads* may disagree by the
//! error of a fit (well below a microsecond), so a slot never stores a time below its last
//! one.
#![expect(unsafe_code, reason = "clock_gettime and rdtsc")]

/// `CLOCK_MONOTONIC` in nanoseconds, from the kernel.
pub fn monotonic_ns() -> u64 {
    kernel_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, from the kernel.
pub(crate) fn wall_ns() -> u64 {
    kernel_ns(libc::CLOCK_REALTIME)
}

fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// A source of `CLOCK_MONOTONIC` nanoseconds that many threads may read.
#[derive(Debug)]
pub struct Clock {
    #[cfg(target_arch = "x86_64")]
    tsc: Option<tsc::Tsc>,
}

impl Clock {
    /// Checks once whether the CPU has an invariant TSC.
    #[cfg(target_arch = "x86_64")]
    pub fn new() -> Self {
        Self {
            tsc: tsc::is_invariant().then(tsc::Tsc::new),
        }
    }

    /// Without `rdtsc` every reading is `clock_gettime`.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new() -> Self {
        Self {}
    }

    /// The current time in nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if let Some(tsc) = &self.tsc {
            return tsc.now_ns();
        }
        monotonic_ns()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use super::monotonic_ns;
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};

    const SECOND: u64 = 1_000_000_000;
    /// Shortest time over which the first line is fitted; less would be too coarse.
    const FIRST_FIT_NS: u64 = 10_000_000;

    /// CPUID leaf 0x8000_0007, EDX bit 8.
    pub(super) fn is_invariant() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    #[inline]
    fn ticks_now() -> u64 {
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _rdtsc() }
    }

    /// `ns + ((ticks - self.ticks) * slope >> 32)`, valid for `window` ticks.
    #[derive(Debug, Default)]
    struct Line {
        ticks: AtomicU64,
        ns: AtomicU64,
        slope: AtomicU64,
        window: AtomicU64,
    }

    /// A simultaneous reading of both clocks.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Sample {
        pub(super) ticks: u64,
        pub(super) ns: u64,
    }

    impl Sample {
        /// Takes the tightest of three readings, so that one interrupt does no harm.
        fn take() -> Self {
            let mut best = (u64::MAX, Self { ticks: 0, ns: 0 });
            for _ in 0..3 {
                let before = ticks_now();
                let ns = monotonic_ns();
                let width = ticks_now().wrapping_sub(before);
                if width < best.0 {
                    best = (
                        width,
                        Self {
                            ticks: before.wrapping_add(width / 2),
                            ns,
                        },
                    );
                }
            }
            best.1
        }
    }

    #[derive(Debug)]
    pub(super) struct Tsc {
        /// The index of the current line. Both lines are empty, and so unused, before the first
        /// fit.
        turn: AtomicU64,
        lines: [Line; 2],
        /// Set while a thread fits a line; the other threads do not wait.
        fitting: AtomicBool,
        given_up: AtomicBool,
        /// The sample behind the current line; read and written while `fitting`.
        last_ticks: AtomicU64,
        last_ns: AtomicU64,
    }

    impl Tsc {
        pub(super) fn new() -> Self {
            let first = Sample::take();
            Self {
                turn: AtomicU64::new(0),
                lines: [Line::default(), Line::default()],
                fitting: AtomicBool::new(false),
                given_up: AtomicBool::new(false),
                last_ticks: AtomicU64::new(first.ticks),
                last_ns: AtomicU64::new(first.ns),
            }
        }

        #[inline]
        pub(super) fn now_ns(&self) -> u64 {
            let turn = self.turn.load(Acquire);
            let line = &self.lines[(turn & 1) as usize];
            let passed = ticks_now().wrapping_sub(line.ticks.load(Relaxed));
            if passed < line.window.load(Relaxed) {
                // The window is a second, so the product stays below 2^63.
                let ns = line
                    .ns
                    .load(Relaxed)
                    .wrapping_add(passed.wrapping_mul(line.slope.load(Relaxed)) >> 32);
                fence(Acquire);
                if self.turn.load(Relaxed) == turn {
                    return ns;
                }
            }
            self.outside_the_window()
        }

        #[cold]
        fn outside_the_window(&self) -> u64 {
            if self.given_up.load(Relaxed) || self.fitting.swap(true, Acquire) {
                return monotonic_ns();
            }
            let ns = self.fit(Sample::take());
            self.fitting.store(false, Release);
            ns
        }

        /// Replaces the line by one through `now`. Returns the time of `now` on it.
        pub(super) fn fit(&self, now: Sample) -> u64 {
            let last = Sample {
                ticks: self.last_ticks.load(Relaxed),
                ns: self.last_ns.load(Relaxed),
            };
            let turn = self.turn.load(Relaxed);
            let ns_passed = now.ns.saturating_sub(last.ns);
            if turn == 0 && ns_passed < FIRST_FIT_NS {
                return now.ns;
            }
            let ticks_passed = now.ticks.wrapping_sub(last.ticks);
            // If the TSC went backwards, the difference wraps to a huge number.
            if ns_passed == 0 || ticks_passed == 0 || ticks_passed > u64::MAX / 2 {
                return self.give_up(now);
            }
            let slope = (u128::from(ns_passed) << 32) / u128::from(ticks_passed);
            let predicted = self.predict(turn, now);
            if now.ns.abs_diff(predicted) > 100_000 + ns_passed / 1000
                || slope == 0
                || slope >> 40 != 0
            {
                return self.give_up(now);
            }
            let ahead = predicted.saturating_sub(now.ns);
            let slope = slope as u64
                - (slope * u128::from(ahead.min(SECOND / 2)) / u128::from(SECOND)) as u64;
            let next = &self.lines[(turn.wrapping_add(1) & 1) as usize];
            let base = now.ns.wrapping_add(ahead);
            next.ticks.store(now.ticks, Relaxed);
            next.ns.store(base, Relaxed);
            next.slope.store(slope, Relaxed);
            next.window.store(
                (u128::from(SECOND) * u128::from(ticks_passed) / u128::from(ns_passed)) as u64,
                Relaxed,
            );
            self.last_ticks.store(now.ticks, Relaxed);
            self.last_ns.store(now.ns, Relaxed);
            self.turn.store(turn.wrapping_add(1), Release);
            base
        }

        fn predict(&self, turn: u64, now: Sample) -> u64 {
            if turn == 0 {
                return now.ns;
            }
            let line = &self.lines[(turn & 1) as usize];
            let passed = now.ticks.wrapping_sub(line.ticks.load(Relaxed));
            let grown = (u128::from(passed) * u128::from(line.slope.load(Relaxed))) >> 32;
            line.ns.load(Relaxed).wrapping_add(grown as u64)
        }

        fn give_up(&self, now: Sample) -> u64 {
            self.given_up.store(true, Relaxed);
            for line in &self.lines {
                line.window.store(0, Relaxed);
            }
            self.turn.fetch_add(2, Release);
            now.ns
        }

        #[cfg(test)]
        pub(super) fn starting_at(ticks: u64, ns: u64) -> Self {
            let clock = Self::new();
            clock.last_ticks.store(ticks, Relaxed);
            clock.last_ns.store(ns, Relaxed);
            clock
        }

        #[cfg(test)]
        pub(super) fn gave_up(&self) -> bool {
            self.given_up.load(Relaxed)
        }

        #[cfg(test)]
        pub(super) fn predicted(&self, ticks: u64) -> u64 {
            self.predict(self.turn.load(Relaxed), Sample { ticks, ns: 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_never_sees_time_go_back_and_stays_near_the_kernel() {
        let clock = Clock::new();
        let start = monotonic_ns();
        let mut last = 0;
        // Until after the first fit, so that both sources are used.
        while last < start + 30_000_000 {
            let before = monotonic_ns();
            let now = clock.now_ns();
            assert!(now >= last, "{now} after {last}");
            assert!(now + 1_000_000 > before, "{now} long before {before}");
            last = now;
        }
    }

    #[cfg(target_arch = "x86_64")]
    mod fitted {
        use super::super::tsc::{Sample, Tsc};

        const SECOND: u64 = 1_000_000_000;

        /// Ticks are three per nanosecond, plus `wrong` parts per million.
        fn at(ns: u64, wrong_ppm: i64) -> Sample {
            let ticks = i128::from(ns) * 3;
            Sample {
                ticks: (ticks + ticks * i128::from(wrong_ppm) / 1_000_000) as u64,
                ns,
            }
        }

        #[test]
        fn a_line_goes_through_its_samples() {
            let clock = Tsc::starting_at(0, 0);
            assert_eq!(clock.fit(at(SECOND, 0)), SECOND);
            assert!(
                clock
                    .predicted(at(SECOND * 3 / 2, 0).ticks)
                    .abs_diff(SECOND * 3 / 2)
                    <= 2
            );
            assert!(!clock.gave_up());
        }

        #[test]
        fn a_line_that_ran_ahead_slows_down_instead_of_going_back() {
            let clock = Tsc::starting_at(0, 0);
            clock.fit(at(SECOND, 0));
            // The ticks ran 50 ppm fast in this second: the old line is 50 us ahead.
            let late = Sample {
                ticks: 3 * 2 * SECOND + 150_000,
                ns: 2 * SECOND,
            };
            let before = clock.predicted(late.ticks);
            let after = clock.fit(late);
            assert!(
                before > late.ns && after.abs_diff(before) <= 2,
                "{before} then {after}"
            );
            // After one correct second the lead is gone.
            let third = Sample {
                ticks: late.ticks + 3 * SECOND + 150_000,
                ns: 3 * SECOND,
            };
            assert!(
                clock.predicted(third.ticks).abs_diff(third.ns) < 100,
                "{}",
                clock.predicted(third.ticks)
            );
            assert!(!clock.gave_up());
        }

        #[test]
        fn a_line_that_fell_behind_steps_forward() {
            let clock = Tsc::starting_at(0, 0);
            clock.fit(at(SECOND, 0));
            let early = Sample {
                ticks: 3 * 2 * SECOND - 150_000,
                ns: 2 * SECOND,
            };
            assert_eq!(clock.fit(early), early.ns);
        }

        #[test]
        fn a_counter_that_disagrees_with_the_kernel_is_given_up() {
            for broken in [
                Sample {
                    ticks: 1,
                    ns: 2 * SECOND,
                },
                Sample {
                    ticks: 3 * SECOND,
                    ns: 2 * SECOND,
                },
                Sample {
                    ticks: 3 * 50 * SECOND,
                    ns: 2 * SECOND,
                },
                Sample {
                    ticks: 3 * 2 * SECOND,
                    ns: SECOND,
                },
            ] {
                let clock = Tsc::starting_at(0, 0);
                clock.fit(at(SECOND, 0));
                assert_eq!(clock.fit(broken), broken.ns, "{broken:?}");
                assert!(clock.gave_up(), "{broken:?}");
                let real = super::super::monotonic_ns();
                assert!(clock.now_ns() >= real);
            }
        }

        #[test]
        fn the_counter_is_kept_after_a_long_idle_time() {
            let clock = Tsc::starting_at(0, 0);
            clock.fit(at(SECOND / 50, 40));
            clock.fit(at(3600 * SECOND, 0));
            assert!(!clock.gave_up());
        }
    }
}
