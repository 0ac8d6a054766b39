//! The threads of a process at this moment: state, the kernel function that each waits in,
//! and the kernel stack if this user may read it (`proc(5)`).
#![forbid(unsafe_code)]

use super::cpu_wait::wait_of;
use super::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most threads of one process that are read.
pub(super) const THREADS_MAX: usize = 256;
const STACK_LINES_MAX: usize = 24;

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Thread name.
    pub name: String,
    /// State letter of `proc(5)`: `R`, `S`, `D`, `T`, `t`, ...
    pub state: char,
    /// Time in user and kernel mode, in clock ticks.
    pub ticks: (u64, u64),
    /// The CPU that the thread last ran on.
    pub processor: Option<u32>,
    /// How long it waited for a CPU, of how long it has existed; absent in frames of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_cpu: Option<WithoutCpu>,
    /// The kernel function that the thread waits in; empty while it runs.
    pub waits_in: Fact<String>,
    /// Kernel stack, one line per frame.
    pub stack: Fact<Vec<String>>,
}

/// How long a thread waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithoutCpu {
    /// The wait so far, milliseconds.
    pub waited_ms: u64,
    /// Since it was started, milliseconds.
    pub of_ms: u64,
}

/// Of the times in `/proc/PID/stat`, whatever the kernel's own clock: `USER_HZ` of Linux.
const MS_PER_TICK: u64 = 10;

impl Thread {
    /// Reads all threads of a process, in the order of their ids.
    pub fn read_all(root: &Root, pid: u32) -> Fact<Vec<Self>> {
        let folder = format!("/proc/{pid}/task");
        root.names(&folder).map(|names| {
            let mut tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
            tids.sort_unstable();
            let uptime = uptime(root);
            // A thread that ended meanwhile has no files any more.
            tids.into_iter()
                .take(THREADS_MAX)
                .filter_map(|tid| Self::read(root, &folder, tid, uptime))
                .collect()
        })
    }

    /// `uptime` is how long the machine has been up.
    fn read(root: &Root, folder: &str, tid: u32, uptime: Option<Duration>) -> Option<Self> {
        let at = |file: &str| format!("{folder}/{tid}/{file}");
        let stat = root.text(&at("stat"));
        let lines = |text: String| {
            text.lines()
                .take(STACK_LINES_MAX)
                .map(super::printable)
                .collect()
        };
        let thread = Self::parse(
            tid,
            stat.known()?,
            root.line(&at("wchan"))
                .map(|name| if name == "0" { String::new() } else { name }),
            root.text(&at("stack")).map(lines),
        )?;
        let without_cpu = || {
            let started = Duration::from_millis(started_ms(stat.known()?)?);
            Some(WithoutCpu {
                waited_ms: millis(wait_of(root, &format!("{folder}/{tid}"))?),
                of_ms: millis(uptime?.checked_sub(started)?),
            })
        };
        Some(Self {
            without_cpu: without_cpu(),
            ..thread
        })
    }

    /// Parses `1234 (a name) S 1 ...`. A name may contain spaces and parentheses.
    fn parse(
        tid: u32,
        stat: &str,
        waits_in: Fact<String>,
        stack: Fact<Vec<String>>,
    ) -> Option<Self> {
        let (before, rest) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| words.get(field - 3).and_then(|word| word.parse().ok());
        Some(Self {
            tid,
            name: super::printable(name),
            state: words.first()?.chars().next()?,
            ticks: (number(14).unwrap_or(0), number(15).unwrap_or(0)),
            processor: number(39).and_then(|number: u64| number.try_into().ok()),
            without_cpu: None,
            waits_in,
            stack,
        })
    }

    /// Whether the thread is stopped, by job control or a debugger.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// How long the machine has been up.
fn uptime(root: &Root) -> Option<Duration> {
    let text = root.text("/proc/uptime");
    let seconds = text.known()?.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// When the thread of this `stat` was started, milliseconds since the machine was.
fn started_ms(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 = rest.split_whitespace().nth(22 - 3)?.parse().ok()?;
    ticks.checked_mul(MS_PER_TICK)
}

/// Context switches of all threads of a process so far: those in which a thread waited, and those
/// in which another took its CPU.
pub fn context_switches(root: &Root, pid: u32) -> Option<[u64; 2]> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = [0_u64; 2];
    for tid in root.names(&folder).known()?.iter().take(THREADS_MAX) {
        // A thread that ended meanwhile has no file any more.
        if let Some(status) = root.text(&format!("{folder}/{tid}/status")).known() {
            let [waited, preempted] = switches(status);
            sum = [
                sum[0].saturating_add(waited),
                sum[1].saturating_add(preempted),
            ];
        }
    }
    Some(sum)
}

fn switches(status: &str) -> [u64; 2] {
    ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|key| {
        let value = status.lines().find_map(|line| line.strip_prefix(key));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_threads_of_this_process_are_listed() {
        let all = Thread::read_all(&Root::live(), std::process::id());
        let all = all.known().expect("our own");
        assert!(all.iter().any(|thread| thread.state == 'R'), "{all:?}");
    }

    #[test]
    fn it_is_known_for_how_long_a_thread_waited_for_a_cpu() {
        let tree = crate::fixture::tree(
            "proc/uptime = 100.50 300.00
proc/7/task/7/stat = 7 (a) b) R 1 7 7 0 -1 1077936384 3 0 0 0 12 34 0 0 20 0 1 0 9000 0 0
proc/7/task/7/schedstat = 1000000000 9000000000 50
proc/7/task/8/stat = 8 (a) S 1 7 7 0 -1 1077936384 3 0 0 0 12 34 0 0 20 0 1 0 9000 0 0",
        );
        let all = Thread::read_all(&tree.root, 7);
        let waits = all.known().expect("two threads").iter();
        let waits: Vec<_> = waits.map(|thread| thread.without_cpu).collect();
        let waited = WithoutCpu {
            waited_ms: 9000,
            of_ms: 10_500,
        };
        assert_eq!(waits, [Some(waited), None]);
    }

    #[test]
    fn a_name_may_contain_parentheses() {
        let unknown = || Fact::unknown("x");
        let stat = "7 (a) b) T 1 7 7 0 -1 1077936384 3 0 0 0 12 34 0 0 20 0 1 0 5 0 0";
        let thread = Thread::parse(7, stat, unknown(), Fact::unknown("x")).expect("a thread");
        assert_eq!(
            (thread.name.as_str(), thread.ticks, thread.processor),
            ("a) b", (12, 34), None)
        );
        assert!(thread.is_stopped());
    }

    #[test]
    fn context_switches_are_those_of_all_threads() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), [7, 3]);
        let before = context_switches(&Root::live(), std::process::id()).unwrap();
        let (turns, partner) = std::sync::mpsc::sync_channel(0);
        let waits = std::thread::spawn(move || partner.iter().take(50).count());
        (0..50).for_each(|turn| turns.send(turn).unwrap());
        let now = context_switches(&Root::live(), std::process::id()).unwrap();
        assert!(now[0] > before[0], "{before:?} {now:?}");
        assert_eq!(waits.join().unwrap(), 50);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,120}") {
            let _ = Thread::parse(1, &text, Fact::unknown("x"), Fact::unknown("x"));
        }
    }
}
