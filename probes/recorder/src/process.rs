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
    /// It is or was in another pid namespace.
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
        self.seen_from(&Self::own(), start_ticks(self.pid))
    }

    fn seen_from(&self, observer: &Self, start_ticks_now: Option<u64>) -> Liveness {
        if self.boot_id_hash != observer.boot_id_hash {
            return Liveness::Dead;
        }
        if self.pid_namespace != observer.pid_namespace {
            return Liveness::Unknown;
        }
        if start_ticks_now == Some(self.start_ticks) {
            Liveness::Alive
        } else {
            Liveness::Dead
        }
    }
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
    fn a_pid_alone_does_not_identify_a_process() {
        let own = Identity::own();
        let now = Some(own.start_ticks);
        assert_eq!(
            Identity {
                start_ticks: 1,
                ..own
            }
            .seen_from(&own, now),
            Liveness::Dead
        );
        assert_eq!(
            Identity {
                boot_id_hash: 1,
                ..own
            }
            .seen_from(&own, now),
            Liveness::Dead
        );
        assert_eq!(
            Identity {
                pid_namespace: 1,
                ..own
            }
            .seen_from(&own, now),
            Liveness::Unknown
        );
        assert_eq!(own.seen_from(&own, None), Liveness::Dead);
    }
}
