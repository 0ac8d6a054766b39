//! The machine: product, distribution, kernel settings, kernel log, mounts and NVIDIA device
//! files.
#![forbid(unsafe_code)]

use crate::printable;
use crate::{Fact, Root};
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;

/// Most records that are read; no kernel ring buffer holds as many.
const KERNEL_LINES_MAX: usize = 200_000;
/// Words that select the lines of the kernel log that are kept.
const KERNEL_WORDS: [&str; 4] = ["devmem", "gve ", "NVRM", "Xid"];
const KERNEL_KEPT_MAX: usize = 200;
/// Lines that [`kernel_log_tail`] returns.
const KERNEL_TAIL: usize = 60;
const DEVICE_FILES_MAX: usize = 64;
/// Only in the machine's own network namespace. One line per CPU, in hexadecimal.
const NEIGHBOURS: &str = "/proc/net/stat/arp_cache";

/// The machine and its kernel settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// Product name from firmware.
    pub product: Fact<String>,
    /// `PRETTY_NAME` of the distribution; in a container, that of the container.
    pub distribution: Fact<String>,
    /// `net.core.optmem_max`: bytes of option memory per socket, which every zero-copy
    /// completion uses.
    pub optmem_max: Fact<u64>,
    /// First and last ephemeral port.
    pub local_ports: Fact<(u16, u16)>,
    /// How often an IPv4 neighbour found no room in the kernel's table, since boot.
    pub neighbours_refused: Fact<u64>,
    /// Lines of the kernel log about device memory, gve and the GPU driver.
    pub kernel_log: Fact<Vec<String>>,
    /// Device files `/dev/nvidia*` that this user may open, by name.
    pub nvidia_devices: Fact<Vec<String>>,
    /// Device files `/dev/nvidia*` that this user may not open.
    pub nvidia_devices_closed: Fact<Vec<String>>,
}

impl System {
    /// Reads `/proc`, `/sys`, `/etc` and `/dev`; the kernel log, which is long, only if
    /// `with_log` is set.
    pub(crate) fn read(root: &Root, with_log: bool) -> Self {
        let devices: Fact<Vec<(String, bool)>> =
            root.ask("nvidia-devices", || nvidia_devices().into());
        let of = |open: bool| {
            devices.as_ref().map(|all| {
                all.iter()
                    .filter(|(_, may)| *may == open)
                    .map(|(name, _)| name.clone())
                    .collect()
            })
        };
        Self {
            product: root.line("/sys/class/dmi/id/product_name"),
            distribution: root
                .text("/etc/os-release")
                .and_then(|text| distribution(&text)),
            optmem_max: root.parsed("/proc/sys/net/core/optmem_max"),
            local_ports: root
                .text("/proc/sys/net/ipv4/ip_local_port_range")
                .and_then(|line| port_range(&line)),
            neighbours_refused: root
                .text(NEIGHBOURS)
                .and_then(|text| neighbours_refused(&text)),
            kernel_log: match with_log {
                true => root.ask("kernel-log", || {
                    kernel_log()
                        .map_err(|error| format!("/dev/kmsg: {error}"))
                        .into()
                }),
                false => Fact::unknown("not read before a run"),
            },
            nvidia_devices: of(true),
            nvidia_devices_closed: of(false),
        }
    }
}

fn distribution(text: &str) -> Fact<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map(|name| printable(name.trim_matches('"')))
        .ok_or_else(|| "/etc/os-release: no PRETTY_NAME".to_owned())
        .into()
}

fn port_range(line: &str) -> Fact<(u16, u16)> {
    let mut words = line.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => Fact::Known((first, last)),
        _ => crate::root::unexpected("/proc/sys/net/ipv4/ip_local_port_range", line),
    }
}

fn neighbours_refused(text: &str) -> Fact<u64> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default();
    let column = names
        .split_whitespace()
        .position(|name| name == "table_fulls");
    let counts: Option<Vec<u64>> = column.and_then(|column| {
        let of = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
        lines.map(of).collect()
    });
    match counts {
        Some(counts) => Fact::Known(counts.into_iter().fold(0, u64::saturating_add)),
        None => crate::root::unexpected(NEIGHBOURS, names),
    }
}

fn kernel_log() -> rustix::io::Result<Vec<String>> {
    let mut kept = Vec::new();
    kernel_records(|message| {
        if KERNEL_WORDS.iter().any(|word| message.contains(word)) && kept.len() < KERNEL_KEPT_MAX {
            kept.push(printable(message));
        }
    })?;
    Ok(kept)
}

/// The newest lines of the kernel log, whatever they are about.
pub fn kernel_log_tail() -> Fact<Vec<String>> {
    let mut kept = VecDeque::new();
    let read = kernel_records(|message| {
        if kept.len() == KERNEL_TAIL {
            kept.pop_front();
        }
        kept.push_back(printable(message));
    });
    read.map(|()| kept.into())
        .map_err(|error| format!("/dev/kmsg: {error}"))
        .into()
}

/// Calls `take` with each record of the kernel log, oldest first. A read returns one record,
/// or EPIPE if records were overwritten meanwhile.
fn kernel_records(mut take: impl FnMut(&str)) -> rustix::io::Result<()> {
    use rustix::io::Errno;
    let log = rustix::fs::open(
        "/dev/kmsg",
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut record = vec![0; 8192];
    for _ in 0..KERNEL_LINES_MAX {
        let length = match rustix::io::read(&log, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(length) => length,
            Err(Errno::PIPE) => continue,
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&record[..length]);
        take(text.split_once(';').map_or("", |(_, message)| {
            message.lines().next().unwrap_or_default()
        }));
    }
    Ok(())
}

fn nvidia_devices() -> Result<Vec<(String, bool)>, String> {
    let entries = std::fs::read_dir("/dev").map_err(|error| format!("/dev: {error}"))?;
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let is_device = entry.file_type().is_ok_and(|kind| kind.is_char_device());
        if is_device
            && entry.file_name().as_bytes().starts_with(b"nvidia")
            && found.len() < DEVICE_FILES_MAX
        {
            let may = rustix::fs::accessat(
                rustix::fs::CWD,
                entry.path(),
                Access::READ_OK | Access::WRITE_OK,
                AtFlags::empty(),
            );
            found.push((printable(&entry.file_name().to_string_lossy()), may.is_ok()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// One mounted file system, as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    pub at: String,
    /// File system type.
    pub kind: String,
    /// Whether the mount is noexec, so that programs and libraries cannot be mapped.
    pub no_exec: bool,
}

/// The mount that holds `path`: the one with the longest mount point above it, the last of
/// several on the same mount point.
pub(crate) fn mount_of<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let holds = |mount: &&Mount| {
        mount.at == "/" || path == mount.at || path.starts_with(&format!("{}/", mount.at))
    };
    mounts
        .iter()
        .filter(holds)
        .max_by_key(|mount| mount.at.len())
}

/// Reads `/proc/self/mountinfo`.
pub(crate) fn mounts(root: &Root) -> Fact<Vec<Mount>> {
    root.text("/proc/self/mountinfo")
        .map(|text| text.lines().filter_map(mount).collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut words = before.split(' ').skip(4);
    let (at, options) = (words.next()?, words.next()?);
    let no_exec = options.split(',').any(|option| option == "noexec");
    // The kernel writes a space in a path as an octal escape.
    let at = printable(&at.replace("\\040", " "));
    Some(Mount {
        at,
        kind: printable(after.split(' ').next()?),
        no_exec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_innermost_mount_decides() {
        let tree = fixture::tree(
            "proc/self/mountinfo = 1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
proc/self/mountinfo = 2 1 8:1 / /var rw,nosuid,nodev,noexec - ext4 /dev/sda2 rw
proc/self/mountinfo = 3 2 8:1 / /var/lib/tcpx rw - ext4 /dev/sda2 rw
proc/self/mountinfo = junk",
        );
        let mounts = mounts(&tree.root).known().cloned().unwrap();
        assert_eq!(mounts.len(), 3);
        let no_exec = |path: &str| mount_of(&mounts, path).map(|mount| mount.no_exec);
        assert_eq!(no_exec("/var/lib/x.so"), Some(true));
        assert_eq!(no_exec("/var/lib/tcpx/lib64/x.so"), Some(false));
        assert_eq!(no_exec("/variant/x.so"), Some(false));
    }

    #[test]
    fn neighbours_without_room_are_counted_over_all_cpus() {
        let known = |text: &str| neighbours_refused(text).known().copied();
        let names = "entries  allocs  table_fulls \n";
        let of_two_cpus =
            format!("{names}00000048 00000c3c 0000000f\n00000048 00000c3c 00000002\n");
        assert_eq!(known(&of_two_cpus), Some(17));
        assert_eq!(known("entries allocs\n00000048 00000c3c\n"), None);
        assert_eq!(known(&format!("{names}00000048 00000c3c\n")), None);
    }

    #[test]
    fn this_machine_has_ports_and_a_root_file_system() {
        let system = System::read(&Root::live(), true);
        assert!(system.local_ports.known().is_some(), "{system:#?}");
        assert!(mount_of(mounts(&Root::live()).known().unwrap(), "/usr/lib").is_some());
    }

    #[test]
    fn a_port_range_is_two_numbers_in_order() {
        assert_eq!(port_range("32768\t60999"), Fact::Known((32768, 60999)));
        for line in ["", "1", "2 1", "a b", "1 70000"] {
            assert!(port_range(line).known().is_none(), "{line}");
        }
    }
}
