//! Identifies the process that wrote a file, and tells whether it still runs. A pid alone is
//! not enough: it is reused, and it means another process after a reboot or in another pid
//! namespace that shares `/dev/shm`.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Identifies one process among all that ever had its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id, in its own pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Hash of the kernel's boot id.
    pub boot_id_hash: u64,
    /// Inode of the pid namespace; 0 if unknown.
    pub pid_namespace: u64,
}

/// Whether a process still runs, as far as this process can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It is or was in a pid namespace that this process does not see.
    Unknown,
}

impl Identity {
    /// The identity of this process. Parts that `/proc` does not provide are 0.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
            boot_id_hash: boot_id_hash(),
            pid_namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
        }
    }

    /// Whether it still runs.
    pub fn liveness(&self) -> Liveness {
        self.looked_up().0
    }

    /// Whether it is or was of this boot of this machine. Of one of another boot, nothing here shows
    /// whether it has ended, and its monotonic clock is another one.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot_id_hash == boot_id_hash()
    }

    /// Its process id as this process sees it, if it runs: another than its own if it is in a pid
    /// namespace below.
    pub fn pid_here(&self) -> Option<u32> {
        self.looked_up().1
    }

    fn looked_up(&self) -> (Liveness, Option<u32>) {
        let own = Self::own();
        let is_inside =
            self.boot_id_hash == own.boot_id_hash && self.pid_namespace != own.pid_namespace;
        match is_inside {
            true => self.among(&inner_processes(self.pid), own.pid_namespace),
            false => self.seen_from(&own, start_ticks(self.pid)),
        }
    }

    /// For a process of the same pid namespace, or of another boot.
    fn seen_from(&self, observer: &Self, start_ticks_now: Option<u64>) -> (Liveness, Option<u32>) {
        let is_it =
            self.boot_id_hash == observer.boot_id_hash && start_ticks_now == Some(self.start_ticks);
        match is_it {
            true => (Liveness::Alive, Some(self.pid)),
            false => (Liveness::Dead, None),
        }
    }

    /// For a process of another pid namespace: it is one of `inner`, or has ended if all namespaces
    /// are seen from `own_namespace`.
    fn among(&self, inner: &[InnerProcess], own_namespace: u64) -> (Liveness, Option<u32>) {
        let is_it = |one: &&InnerProcess| {
            one.namespace == Some(self.pid_namespace) && one.start_ticks == Some(self.start_ticks)
        };
        let may_be_it = |one: &InnerProcess| one.namespace.is_none();
        match inner.iter().find(is_it) {
            Some(one) => (Liveness::Alive, Some(one.pid_here)),
            None if own_namespace == FIRST_NAMESPACE && !inner.iter().any(may_be_it) => {
                (Liveness::Dead, None)
            }
            None => (Liveness::Unknown, None),
        }
    }
}

/// Inode of the first pid namespace of every Linux kernel (`PROC_PID_INIT_INO`), which sees the
/// processes of all others.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A process of a pid namespace below that of this process.
#[derive(Debug, Clone, Copy)]
struct InnerProcess {
    pid_here: u32,
    /// Inode of its namespace; `None` if that cannot be read.
    namespace: Option<u64>,
    start_ticks: Option<u64>,
}

/// The processes of namespaces below that have this id in their own.
fn inner_processes(pid: u32) -> Vec<InnerProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let here = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let inner = here.filter_map(|pid_here| {
        let status = fs::read_to_string(format!("/proc/{pid_here}/status")).ok()?;
        (innermost_pid(&status)? == pid).then(|| InnerProcess {
            pid_here,
            namespace: fs::metadata(format!("/proc/{pid_here}/ns/pid"))
                .ok()
                .map(|meta| meta.ino()),
            start_ticks: start_ticks(pid_here),
        })
    });
    inner.collect()
}

/// The last id of the line `NSpid` of `/proc/PID/status`, that in its own namespace; `None` if it has
/// only one, so that its namespace is that of the reader.
fn innermost_pid(status: &str) -> Option<u32> {
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().skip(1).last()?.parse().ok()
}

/// Start time of the process with this pid. `None` if there is none or it is a zombie, which
/// no longer writes.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    parse_start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses field 22 of `/proc/PID/stat`. The command, field 2, may contain parentheses and
/// spaces, so fields are counted from its last parenthesis.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn boot_id_hash() -> u64 {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or(0, |id| fnv1a(id.trim().as_bytes()))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_command_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        for command in ["sh", "a b", "we) ird (", ") S 1 2"] {
            assert_eq!(
                parse_start_ticks(&format!("77 ({command}) {tail}")),
                Some(4242),
                "{command}"
            );
        }
        assert_eq!(
            parse_start_ticks("77 (sh) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242"),
            None
        );
        for broken in [
            "",
            ")",
            "77 (sh) S 1 2",
            "77 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x",
        ] {
            assert_eq!(parse_start_ticks(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_is_alive() {
        let own = Identity::own();
        assert!(own.start_ticks > 0);
        assert_eq!(own.liveness(), Liveness::Alive);
    }

    #[test]
    fn another_boot_is_told_from_this_one() {
        let own = Identity::own();
        let other = Identity {
            boot_id_hash: own.boot_id_hash ^ 1,
            ..own
        };
        assert!(own.is_of_this_boot() && !other.is_of_this_boot());
    }

    #[test]
    fn a_pid_alone_does_not_identify_a_process() {
        let own = Identity::own();
        let now = Some(own.start_ticks);
        let dead = (Liveness::Dead, None);
        let other_start = Identity {
            start_ticks: 1,
            ..own
        };
        assert_eq!(other_start.seen_from(&own, now), dead);
        let other_boot = Identity {
            boot_id_hash: 1,
            ..own
        };
        assert_eq!(other_boot.seen_from(&own, now), dead);
        assert_eq!(own.seen_from(&own, None), dead);
        assert_eq!(own.seen_from(&own, now), (Liveness::Alive, Some(own.pid)));
    }

    #[test]
    fn a_process_of_another_pid_namespace_is_known_by_its_namespace_and_start() {
        let own = Identity::own();
        let of = |namespace, start_ticks| InnerProcess {
            pid_here: 4242,
            namespace,
            start_ticks,
        };
        let (space, now) = (Some(own.pid_namespace), Some(own.start_ticks));
        let seen = |inner: &[InnerProcess]| own.among(inner, FIRST_NAMESPACE);
        assert_eq!(seen(&[of(space, now)]), (Liveness::Alive, Some(4242)));
        assert_eq!(seen(&[]), (Liveness::Dead, None));
        assert_eq!(seen(&[of(Some(1), now)]), (Liveness::Dead, None));
        assert_eq!(seen(&[of(space, Some(1))]), (Liveness::Dead, None));
        assert_eq!(seen(&[of(space, None)]), (Liveness::Dead, None), "a zombie");
        assert_eq!(seen(&[of(None, now)]), (Liveness::Unknown, None));
        assert_eq!(
            own.among(&[], 1),
            (Liveness::Unknown, None),
            "not all are seen"
        );
    }

    #[test]
    fn the_innermost_id_is_the_last() {
        let status = |ids: &str| format!("Name:\tx\nNSpid:\t{ids}\nNSpgid:\t1\n");
        assert_eq!(innermost_pid(&status("77\t5\t2")), Some(2));
        assert_eq!(innermost_pid(&status("77")), None);
        assert_eq!(innermost_pid(&status("")), None);
        assert_eq!(innermost_pid("Name:\tx\n"), None);
    }
}
