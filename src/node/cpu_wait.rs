//! How long the threads of a process waited for a CPU: without one, a process that stands still
//! proves nothing about itself. Of a thread that sleeps or runs beside busy ones, its own wait tells.
//!
//! The kernel counts per thread the time on a CPU and the time on a run queue
//! (`/proc/PID/task/TID/schedstat`: nanoseconds, nanoseconds, slices). The second grows only when
//! the thread gets a CPU again, so the state in `/proc/PID/task/TID/stat` tells whether it waits at
//! the moment of a look.
#![forbid(unsafe_code)]

use super::Root;
use super::cpu_quota::throttled;
use super::threads::THREADS_MAX;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most sums kept: at two looks a second those of the last two minutes.
const SUMS_MAX: usize = 256;

/// How long the calling thread has waited for a CPU so far; zero where the kernel does not count.
pub fn waited_so_far(root: &Root) -> Duration {
    wait_of(root, "/proc/thread-self").unwrap_or_default()
}

/// How long all threads of a process have waited for a CPU so far, together; `None` where the kernel does not count.
pub fn waited_by_all(root: &Root, pid: u32) -> Option<Duration> {
    let folder = format!("/proc/{pid}/task");
    let threads = root.names(&folder);
    let threads = threads.known()?.iter().take(THREADS_MAX);
    // A thread that ended meanwhile has no file any more.
    threads
        .map(|tid| wait_of(root, &format!("{folder}/{tid}")))
        .fold(None, |sum, one| {
            one.map_or(sum, |waited| Some(sum.unwrap_or_default() + waited))
        })
}

/// How long the thread with this folder has waited for a CPU so far. `None` where the kernel does not count.
pub(super) fn wait_of(root: &Root, folder: &str) -> Option<Duration> {
    Some(Times::read(root, folder)?.waited)
}

/// Sums up how long the thread of a process that waited longest for a CPU did so, and how long
/// single threads did.
#[derive(Debug, Default)]
pub struct CpuWait {
    threads: BTreeMap<u32, Seen>,
    /// Waits of the thread that waited longest between any two looks.
    longest: Sums,
    /// Waits of the threads that were asked for, by id.
    single: BTreeMap<u32, Sums>,
    /// What the CPU quotas of its cgroups held back between any two looks.
    throttled: Sums,
    /// The same so far, at the last look.
    throttled_so_far: Option<Duration>,
}

/// What a single thread did since a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// How long it waited for a CPU.
    pub waited: Duration,
    /// How often it was given a CPU and gave it back by itself: it slept or yielded.
    pub turns: u64,
}

/// The sums since the first look at each look, oldest first.
#[derive(Debug, Default)]
struct Sums(Vec<(Instant, ThreadTimes)>);

/// A thread at the last look.
#[derive(Debug, Clone, Copy)]
struct Seen {
    times: Times,
    /// What was added for a wait that the kernel had not counted yet.
    ahead: Duration,
}

/// Time of a thread so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    on_cpu: Duration,
    waited: Duration,
    /// How often it was given a CPU.
    slices: u64,
}

/// Shortest time over which a share is computed: a few periods of a quota, which are 0.1 s long.
const SHARE_MIN: Duration = Duration::from_millis(300);

/// A thread that runs for less at a time gives its CPU back by itself: the kernel takes one away
/// after 0.7 ms at the earliest.
const GIVEN_BACK_MAX: Duration = Duration::from_micros(200);

impl CpuWait {
    /// Reads the times of the process. A kernel that does not count them adds nothing.
    pub fn look(&mut self, root: &Root, pid: u32, now: Instant) {
        self.look_at(root, pid, &[], now);
    }

    /// The same; the waits of these threads are known singly from now on.
    pub fn look_at(&mut self, root: &Root, pid: u32, single: &[u32], now: Instant) {
        self.single.retain(|tid, _| single.contains(tid));
        for tid in single {
            self.single.entry(*tid).or_default();
        }
        let folder = format!("/proc/{pid}/task");
        let names = root.names(&folder);
        let tids = names
            .known()
            .into_iter()
            .flatten()
            .filter_map(|name| name.parse().ok());
        let mut times = BTreeMap::new();
        for tid in tids.take(THREADS_MAX) {
            if let Some(read) = Times::read(root, &format!("{folder}/{tid}")) {
                times.insert(tid, read);
            }
        }
        let throttled = throttled(root, pid);
        let before = self
            .throttled_so_far
            .replace(throttled)
            .unwrap_or(throttled);
        let held_back = ThreadTimes {
            waited: throttled.saturating_sub(before),
            turns: 0,
        };
        self.throttled.add(now, held_back);
        self.add(times, now, |tid| {
            let stat = root.text(&format!("{folder}/{tid}/stat"));
            stat.known().is_some_and(|stat| is_runnable(stat))
        });
    }

    fn add(
        &mut self,
        times: BTreeMap<u32, Times>,
        now: Instant,
        is_runnable: impl Fn(u32) -> bool,
    ) {
        let last = self.looked().unwrap_or(now);
        let apart = now.saturating_duration_since(last);
        let mut longest = Duration::ZERO;
        let mut threads = BTreeMap::new();
        for (tid, times) in times {
            let mut seen = Seen {
                times,
                ahead: Duration::ZERO,
            };
            let before = self.threads.get(&tid);
            let new = before.map_or_else(ThreadTimes::default, |before| ThreadTimes {
                waited: seen.wait_since(before, apart, is_runnable(tid)),
                turns: times.turns_since(&before.times),
            });
            longest = longest.max(new.waited);
            if let Some(sums) = self.single.get_mut(&tid) {
                if sums.0.is_empty() && before.is_some() {
                    sums.add(last, ThreadTimes::default());
                }
                sums.add(now, new);
            }
            threads.insert(tid, seen);
        }
        self.threads = threads;
        let longest = ThreadTimes {
            waited: longest,
            turns: 0,
        };
        self.longest.add(now, longest);
    }

    /// When the process was last looked at.
    pub fn looked(&self) -> Option<Instant> {
        self.longest.0.last().map(|(at, _)| *at)
    }

    /// How long it waited from this moment to the last look; less if the first look came later.
    /// Between two looks it waited at a constant rate.
    pub fn since(&self, moment: Instant) -> Duration {
        self.longest.since(moment).waited
    }

    /// The share of the time from this moment to the last look in which CPU quotas held it back, 0 to 1; `None` if
    /// it was looked at too shortly. A quota counts only as far as the thread that waited longest, or this one, waited.
    pub fn throttled_share(&self, tid: Option<u32>, moment: Instant) -> Option<f64> {
        let sums = &self.throttled.0;
        let from = sums.first()?.0.max(moment);
        let span = sums.last()?.0.saturating_duration_since(from);
        let own = tid.and_then(|tid| self.of_thread_since(tid, from));
        let waited = own.map_or_else(|| self.since(from), |own| own.waited);
        let held_back = self.throttled.since(from).waited.min(waited);
        let share = held_back.as_secs_f64() / span.as_secs_f64();
        (span >= SHARE_MIN).then(|| share.min(1.0))
    }

    /// What a single thread did; `None` if it was not asked for, has ended, or was asked for
    /// later than what is known of its process began.
    pub fn of_thread_since(&self, tid: u32, moment: Instant) -> Option<ThreadTimes> {
        self.threads.get(&tid)?;
        let sums = self.single.get(&tid)?;
        let from = |sums: &Sums| sums.0.first().map(|(at, _)| *at);
        let begins = from(sums)?;
        (begins <= moment || from(&self.longest) == Some(begins)).then(|| sums.since(moment))
    }
}

impl Sums {
    fn add(&mut self, now: Instant, new: ThreadTimes) {
        let sums = &mut self.0;
        let before = sums.last().map(|(_, sum)| *sum).unwrap_or_default();
        let sum = ThreadTimes {
            waited: before.waited + new.waited,
            turns: before.turns + new.turns,
        };
        if sums.len() >= SUMS_MAX {
            let mut keep = [true, false].into_iter().cycle();
            sums.retain(|_| keep.next().unwrap_or(true));
        }
        sums.push((now, sum));
    }

    fn since(&self, moment: Instant) -> ThreadTimes {
        let next = self.0.partition_point(|(at, _)| *at < moment);
        let (Some(after), Some(last)) = (self.0.get(next), self.0.last()) else {
            return ThreadTimes::default();
        };
        let before = next.checked_sub(1).map_or(after, |one| &self.0[one]);
        let step = after.0 - before.0;
        let waited = after.1.waited.saturating_sub(before.1.waited);
        let left = after.0.saturating_duration_since(moment);
        let share = left.as_secs_f64() / step.as_secs_f64().max(1e-9);
        ThreadTimes {
            waited: waited.mul_f64(share.min(1.0)) + last.1.waited.saturating_sub(after.1.waited),
            // Of the step that the moment is in, none is known to be later.
            turns: last.1.turns - after.1.turns,
        }
    }
}

impl Seen {
    /// How long it waited since the look before. What one that can run now waits is added before the
    /// kernel counts it, and not again then.
    fn wait_since(&mut self, before: &Self, apart: Duration, is_runnable: bool) -> Duration {
        let on_cpu = self.times.on_cpu.saturating_sub(before.times.on_cpu);
        let counted = self.times.waited.saturating_sub(before.times.waited);
        let slices = self.times.slices.saturating_sub(before.times.slices);
        let new = counted.saturating_sub(before.ahead);
        let goes_on = match is_runnable {
            false => Duration::ZERO,
            true if self.times == before.times => apart,
            // It may have slept before, so that this wait may be short: most likely like the others.
            true => counted * 2 / u32::try_from(slices).unwrap_or(u32::MAX).max(1),
        };
        let waited = (new + goes_on).min(apart.saturating_sub(on_cpu));
        self.ahead = before.ahead.saturating_sub(counted) + waited.saturating_sub(new);
        waited
    }
}

impl Times {
    fn read(root: &Root, folder: &str) -> Option<Self> {
        let text = root.text(&format!("{folder}/schedstat"));
        Self::parse(text.known()?)
    }

    fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_ascii_whitespace();
        let mut next = || fields.next()?.parse().ok();
        Some(Self {
            on_cpu: Duration::from_nanos(next()?),
            waited: Duration::from_nanos(next()?),
            slices: next()?,
        })
    }

    /// How often it was given a CPU and gave it back by itself.
    fn turns_since(&self, before: &Self) -> u64 {
        let slices = self.slices.saturating_sub(before.slices);
        let on_cpu = self.on_cpu.saturating_sub(before.on_cpu);
        let most = u32::try_from(slices).map_or(Duration::MAX, |slices| GIVEN_BACK_MAX * slices);
        if on_cpu <= most { slices } else { 0 }
    }
}

/// Whether the thread of this `stat` runs or waits for a CPU.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(threads: &[(u32, u64, u64)]) -> BTreeMap<u32, Times> {
        let ms = Duration::from_millis;
        let one = |&(tid, on_cpu, waited): &(u32, u64, u64)| {
            let times = Times {
                on_cpu: ms(on_cpu),
                waited: ms(waited),
                slices: on_cpu / 4,
            };
            (tid, times)
        };
        threads.iter().map(one).collect()
    }

    fn waited(meter: &CpuWait, tid: u32, moment: Instant) -> Option<Duration> {
        Some(meter.of_thread_since(tid, moment)?.waited)
    }

    #[test]
    fn a_thread_that_yields_is_told_from_one_whose_cpu_is_taken() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        meter.single = [7, 8].map(|tid| (tid, Sums::default())).into();
        // Both wait nearly all the time, and have as many turns.
        for look in 0..=10_u64 {
            let one = |on_cpu| Times {
                on_cpu,
                waited: Duration::from_millis(96 * look),
                slices: 2 * look,
            };
            let short = Duration::from_micros(20 * look);
            let times = [(7, one(short)), (8, one(Duration::from_millis(4 * look)))];
            meter.add(times.into(), at(100 * look), |_| true);
        }
        let turns = |tid, ms| meter.of_thread_since(tid, at(ms)).map(|one| one.turns);
        assert_eq!((turns(7, 0), turns(8, 0)), (Some(20), Some(0)));
        assert_eq!(turns(7, 550), Some(8));
    }

    #[test]
    fn a_quota_counts_as_far_as_the_thread_waited() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        meter.single = [7, 8].map(|tid| (tid, Sums::default())).into();
        // 7 waits for 90 ms of 100, and 8 sleeps; other threads use up the quota.
        for look in 0..=5_u64 {
            let waited = ThreadTimes {
                waited: Duration::from_millis(if look == 0 { 0 } else { 95 }),
                turns: 0,
            };
            meter.throttled.add(at(100 * look), waited);
            meter.add(
                times(&[(7, 4 * look, 90 * look), (8, 0, 0)]),
                at(100 * look),
                |_| false,
            );
            let is_known = meter.throttled_share(Some(7), start).is_some();
            assert_eq!(is_known, look >= 3);
        }
        let share = |tid, ms| {
            meter
                .throttled_share(tid, at(ms))
                .map(|share| (share * 100.0).round())
        };
        assert_eq!(
            (share(Some(7), 0), share(Some(8), 0)),
            (Some(90.0), Some(0.0))
        );
        assert_eq!((share(None, 150), share(Some(7), 300)), (Some(90.0), None));
    }

    #[test]
    fn the_thread_that_waited_longest_counts() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        meter.add(times(&[(7, 100, 900), (8, 50, 0)]), at(0), |_| true);
        assert_eq!(meter.since(at(0)), Duration::ZERO);
        // 7 waited 300 ms of 500, 8 waited 20; a thread that is new has no time before.
        let next = times(&[(7, 300, 1200), (8, 60, 20), (9, 1, 4000)]);
        meter.add(next.clone(), at(500), |_| false);
        assert_eq!(meter.since(at(0)), Duration::from_millis(300));
        // None got a CPU, and 8 wants one.
        meter.add(next.clone(), at(900), |tid| tid == 8);
        assert_eq!(meter.since(at(0)), Duration::from_millis(700));
        assert_eq!(meter.since(at(250)), Duration::from_millis(150 + 400));
        // All sleep: nothing is added.
        meter.add(next, at(1500), |_| false);
        assert_eq!(meter.since(at(900)), Duration::ZERO);
        assert_eq!(meter.since(at(1501)), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_sleeps_beside_one_that_waits_is_told_apart() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        meter.single = [(7, Sums::default()), (9, Sums::default())].into();
        meter.add(times(&[(7, 100, 10), (8, 50, 0)]), at(0), |tid| tid == 8);
        assert_eq!(waited(&meter, 7, start), Some(Duration::ZERO));
        meter.add(times(&[(7, 100, 10), (8, 60, 900)]), at(1000), |tid| {
            tid == 8
        });
        assert_eq!(meter.since(at(0)), Duration::from_millis(990));
        assert_eq!(waited(&meter, 7, at(0)), Some(Duration::ZERO));
        assert_eq!(meter.of_thread_since(8, at(0)), None, "not asked for");
        assert_eq!(meter.of_thread_since(9, at(0)), None, "there is none");
        meter.single.insert(8, Sums::default());
        meter.add(times(&[(7, 100, 10), (8, 70, 1800)]), at(2000), |_| false);
        assert!(waited(&meter, 8, at(1000)) > Some(Duration::from_millis(800)));
        assert_eq!(meter.of_thread_since(8, at(0)), None, "asked for later");
    }

    #[test]
    fn a_wait_is_never_longer_than_the_time_between_two_looks() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        meter.add(times(&[(7, 0, 0)]), start, |_| false);
        let later = start + Duration::from_millis(10);
        meter.add(times(&[(7, 0, 5000)]), later, |_| false);
        assert_eq!(meter.since(start), Duration::from_millis(10));
    }

    #[test]
    fn looks_that_are_shorter_than_a_wait_miss_none_of_it() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        // It runs for 4 ms of 100, and is looked at 50 ms after each turn.
        for turn in 0..=20 {
            let counted = times(&[(7, 4 * turn, 96 * turn)]);
            for ms in [50, 80] {
                meter.add(counted.clone(), at(100 * turn + ms), |_| true);
            }
        }
        assert_eq!(meter.since(at(50)), Duration::from_millis(2030 - 4 * 20));
        // The last wait, which was added before, ended and a sleep followed.
        meter.add(times(&[(7, 90, 1950)]), at(2200), |_| false);
        assert_eq!(meter.since(at(2080)), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_sleeps_between_short_turns_does_not_wait() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        // Ten turns of 4 ms in 100 ms, and 1 ms of waiting in all: each look finds it ready to run.
        for look in 0..=10 {
            meter.add(times(&[(7, 40 * look, look)]), at(100 * look), |_| true);
        }
        let waited = meter.since(at(0));
        assert!(waited < Duration::from_millis(15), "{waited:?}");
    }

    #[test]
    fn old_sums_are_thinned_out() {
        let (mut meter, start) = (CpuWait::default(), Instant::now());
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            meter.add(times(&[(7, 0, second * 500)]), now, |_| false);
        }
        assert!(meter.longest.0.len() <= SUMS_MAX);
        assert_eq!(meter.since(start), Duration::from_millis(999 * 500));
    }

    #[test]
    fn the_times_of_this_process_are_read() {
        let (mut meter, root) = (CpuWait::default(), Root::live());
        meter.look(&root, std::process::id(), Instant::now());
        assert!(!meter.threads.is_empty() && meter.looked().is_some());
        assert!(is_runnable("7 (a) b) R 1 7") && !is_runnable("7 (R) S 1 7"));
        assert_eq!(Times::parse("12 nonsense"), None);
    }

    /// Ends its process with the test.
    struct Loop(std::process::Child);

    impl Loop {
        fn on_one_core(policy: &str) -> Self {
            let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
            let cores = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .expect("a list of cores");
            let core = cores.trim().split(['-', ',']).next().expect("a core");
            let mut command = std::process::Command::new("taskset");
            command.args([
                "-c",
                core,
                "chrt",
                policy,
                "0",
                "sh",
                "-c",
                "while :; do :; done",
            ]);
            Self(command.spawn().expect("taskset and chrt of util-linux"))
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            _ = self.0.kill();
            _ = self.0.wait();
        }
    }

    #[test]
    fn a_loop_that_gets_the_rest_of_a_busy_core_waits_nearly_always() {
        let (_busy, idle) = (Loop::on_one_core("--other"), Loop::on_one_core("--idle"));
        let (mut meter, root) = (CpuWait::default(), Root::live());
        let is_loop = |text: &str| text.starts_with("sh\n");
        let command = format!("/proc/{}/comm", idle.0.id());
        while !root
            .text(&command)
            .known()
            .is_some_and(|text| is_loop(text))
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        meter.look(&root, idle.0.id(), start);
        while start.elapsed() < Duration::from_millis(600) {
            std::thread::sleep(Duration::from_millis(100));
            meter.look(&root, idle.0.id(), Instant::now());
        }
        let (waited, wall) = (meter.since(start), start.elapsed());
        assert!(waited > wall / 2, "{waited:?} of {wall:?}");
    }
}
