//! How long CPU quotas kept the processes of a cgroup from running (`limits.cpu` of a container, `CPUQuota` of a
//! unit): a run queue does not tell them from a busy machine.
//!
//! `throttled_usec` in `cpu.stat` of cgroup v2, `throttled_time` of v1. Each level above may have a quota as well,
//! and a container sees its own cgroup at the mount's root. The kernel adds up what it held back on each CPU, so
//! the sum may be more than has passed.
#![forbid(unsafe_code)]

use super::Root;
use std::time::Duration;

/// Where the hierarchies with the counts are mounted.
const MOUNTS_V1: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
const MOUNTS_V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Most levels of one hierarchy.
const LEVELS_MAX: usize = 32;

/// What quotas held back so far of the cgroups that a process is in.
pub(super) fn throttled(root: &Root, pid: u32) -> Duration {
    let cgroups = root.text(&format!("/proc/{pid}/cgroup"));
    let lines = cgroups.known().into_iter().flat_map(|text| text.lines());
    let held_back = lines.filter_map(place).flat_map(|(mounts, path)| {
        let levels = path.match_indices('/').map(|(end, _)| &path[..end]);
        let levels: Vec<&str> = levels
            .take(LEVELS_MAX)
            .chain([path.trim_end_matches('/')])
            .collect();
        let of_mount = |mount: &&str| {
            let mut seen = levels.clone();
            seen.dedup();
            let stat =
                |level: &str| of_stat(root.text(&format!("{mount}{level}/cpu.stat")).known()?);
            seen.into_iter()
                .filter_map(stat)
                .fold(Duration::ZERO, Duration::saturating_add)
        };
        mounts.iter().map(of_mount).collect::<Vec<_>>()
    });
    held_back.fold(Duration::ZERO, Duration::saturating_add)
}

/// The mounts and the path of a line of `/proc/PID/cgroup`, if its hierarchy counts CPU time.
fn place(line: &str) -> Option<(&'static [&'static str], &str)> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let counts = |controllers: &str| controllers.split(',').any(|one| one == "cpu");
    let mounts = match controllers {
        "" => &MOUNTS_V2,
        _ if counts(controllers) => &MOUNTS_V1,
        _ => return None,
    };
    (!path.split('/').any(|name| name == "..")).then_some((mounts, path))
}

fn of_stat(stat: &str) -> Option<Duration> {
    let value = |key: &str| {
        let mut lines = stat.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value?.trim().parse().ok()
    };
    let of_v2 = value("throttled_usec").map(Duration::from_micros);
    of_v2.or_else(|| value("throttled_time").map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn machine(files: &[(&str, &str)]) -> (TempDir, Root) {
        let folder = TempDir::new().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        let root = Root::captured(folder.path()).expect("a tree");
        (folder, root)
    }

    #[test]
    fn quotas_of_every_level_and_of_both_versions_count() {
        let v2 = machine(&[
            ("proc/7/cgroup", "0::/pod/box\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            (
                "sys/fs/cgroup/pod/cpu.stat",
                "nr_throttled 3\nthrottled_usec 2000000\n",
            ),
            ("sys/fs/cgroup/pod/box/cpu.stat", "throttled_usec 500000\n"),
            (
                "sys/fs/cgroup/pod/other/cpu.stat",
                "throttled_usec 7000000\n",
            ),
        ]);
        assert_eq!(throttled(&v2.1, 7), Duration::from_millis(2500));
        let v1 = machine(&[
            ("proc/7/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a/b\n0::/\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat",
                "nr_periods 9\nthrottled_time 30000000\n",
            ),
            (
                "sys/fs/cgroup/memory/a/cpu.stat",
                "throttled_time 70000000\n",
            ),
        ]);
        assert_eq!(throttled(&v1.1, 7), Duration::from_millis(30));
        // A container of v1 has its cgroup at the mount's root, and the path of its host.
        let inside = machine(&[
            ("proc/7/cgroup", "2:cpu:/docker/4711\n"),
            ("sys/fs/cgroup/cpu/cpu.stat", "throttled_time 40000000\n"),
        ]);
        assert_eq!(throttled(&inside.1, 7), Duration::from_millis(40));
    }

    #[test]
    fn a_machine_without_counts_or_with_strange_ones_has_no_quota() {
        for cgroup in ["0::/../../secret\n", "0::/none\n", "cpu\n", "1:cpu\n", ""] {
            let one = machine(&[
                ("proc/7/cgroup", cgroup),
                ("sys/fs/cgroup/secret/cpu.stat", "throttled_usec 1\n"),
                ("sys/fs/cgroup/cpu.stat", "throttled_usec many\n"),
            ]);
            assert_eq!(throttled(&one.1, 7), Duration::ZERO, "{cgroup}");
            assert_eq!(throttled(&one.1, 8), Duration::ZERO);
        }
    }
}
