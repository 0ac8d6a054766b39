//! Other processes that have a TCPX plugin loaded. A leftover test holds steering rules,
//! ports and GPU memory.
//!
//! A process is identified by its mapped files, not by its name. Reading the maps of other
//! users' processes needs privileges; the number that could not be read is part of the
//! answer. Nothing here ends a process.
#![forbid(unsafe_code)]

use crate::printable;
use crate::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use tcpx_words::plugin_family::PluginFamily;

/// Most bytes of `/proc/PID/maps` that are read; thousands of mappings are megabytes.
const MAPS_BYTES_MAX: u64 = 8 << 20;
/// Longest time for all processes.
const PATIENCE: Duration = Duration::from_millis(300);
/// Parts of the paths of TCPX's plugin files.
const LIBRARIES: [&str; 3] = [
    "libnccl-net-tcpx",
    "gpudirecttcpx",
    "/tcpx/lib64/libnccl-net.so",
];

/// One process that has the plugin loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUser {
    /// Process id.
    pub pid: u32,
    /// Path of the executable, or the command name.
    pub program: String,
}

/// Processes with the plugin, and the number that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUsers {
    /// Processes that have the plugin loaded.
    pub found: Vec<PluginUser>,
    /// Processes of other users, and those not read in time.
    pub not_looked_into: usize,
}

impl PluginUsers {
    /// Reads the maps of every process except this one.
    pub(crate) fn read(root: &Root) -> Fact<Self> {
        root.ask("plugin-users", || Fact::Known(Self::now()))
    }

    fn now() -> Self {
        let until = Instant::now() + PATIENCE;
        let mut users = Self {
            found: Vec::new(),
            not_looked_into: 0,
        };
        for pid in pids().filter(|pid| *pid != std::process::id()) {
            match if Instant::now() < until {
                has_plugin(pid)
            } else {
                Err(io::ErrorKind::TimedOut.into())
            } {
                Ok(true) => users.found.push(PluginUser {
                    pid,
                    program: program(pid),
                }),
                Ok(false) => {}
                // The process ended meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => users.not_looked_into += 1,
            }
        }
        users
    }
}

/// Ids of all processes now.
pub(super) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn has_plugin(pid: u32) -> io::Result<bool> {
    let maps = BufReader::new(File::open(format!("/proc/{pid}/maps"))?.take(MAPS_BYTES_MAX));
    for line in maps.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if is_plugin(&line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a line of `/proc/PID/maps` names a file of TCPX's plugin.
fn is_plugin(line: &str) -> bool {
    let path = line
        .find('/')
        .map(|start| Path::new(line[start..].trim_end_matches(" (deleted)")));
    LIBRARIES.iter().any(|library| line.contains(library))
        && path.map(PluginFamily::expected_of_path) == Some(PluginFamily::Tcpx)
}

fn program(pid: u32) -> String {
    let of_link = fs::read_link(format!("/proc/{pid}/exe")).map(|path| path.display().to_string());
    let name = of_link
        .or_else(|_| fs::read_to_string(format!("/proc/{pid}/comm")))
        .unwrap_or_default();
    printable(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_tcpx_counts_as_the_plugin() {
        let mapped = |path: &str| {
            is_plugin(&format!(
                "7f0000000000-7f0000001000 r-xp 00000000 08:01 1234   {path}"
            ))
        };
        assert!(mapped("/usr/local/tcpx/lib64/libnccl-net-tcpx.so.3.1.9"));
        assert!(mapped("/var/lib/tcpx/lib64/libnccl-net.so (deleted)"));
        assert!(!mapped("/usr/local/lib/libnccl-net-tcpxo.so"));
        assert!(!mapped("/usr/local/bin/tcpxctl") && !mapped("") && !mapped("[heap]"));
    }

    #[test]
    fn a_process_without_the_plugin_is_not_a_user_of_it() {
        assert!(!has_plugin(std::process::id()).unwrap());
        assert!(pids().any(|pid| pid == std::process::id()));
        let users = PluginUsers::now();
        assert!(
            users
                .found
                .iter()
                .all(|user| user.pid != std::process::id())
        );
    }
}
