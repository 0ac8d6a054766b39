//! Other processes that have a TCPX plugin loaded: what a test leaves behind
//! holds NIC rules, ports and GPU memory.
//!
//! A process is known by what it has mapped, not by its name. Maps of other
//! users' processes need privileges; how many could not be looked into is part
//! of the answer. Nothing is ever ended here.
#![forbid(unsafe_code)]

use crate::printable;
use crate::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use tcpx_words::plugin_family::PluginFamily;

/// A process of thousands of mappings has megabytes of them.
const MAPS_BYTES_MAX: u64 = 8 << 20;
/// The whole look; a node with that many processes is not idle anyway.
const PATIENCE: Duration = Duration::from_millis(300);
/// What a plugin's file is called.
const LIBRARIES: [&str; 3] = [
    "libnccl-net-tcpx",
    "gpudirecttcpx",
    "/tcpx/lib64/libnccl-net.so",
];

/// One process with the plugin in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUser {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub program: String,
}

/// Who was found, and how many could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUsers {
    /// With the plugin loaded.
    pub found: Vec<PluginUser>,
    /// Of other users, or not reached in time.
    pub not_looked_into: usize,
}

impl PluginUsers {
    /// Looks at every process but this one.
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
                // Gone since, or a thread of the kernel.
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => users.not_looked_into += 1,
            }
        }
        users
    }
}

/// Every process number there is now.
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

/// Whether a line of a process's mappings names a plugin's file, and it is TCPX's.
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
    fn a_mapping_is_tcpx_by_its_files_name_and_no_other_product() {
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
