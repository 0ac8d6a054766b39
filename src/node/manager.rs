//! The receive-datapath-manager (RxDM) of a node: its unix sockets, its process if it is
//! visible in this process namespace, and its log.
//!
//! The plugin asks RxDM for each GPU's receive memory and for a steering rule per data
//! socket. An RxDM that died leaves its socket files behind, so each socket is connected to.
//! Nothing is written; RxDM sees a client that disconnects.
#![forbid(unsafe_code)]

use crate::{Fact, PciAddress, Root};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The variable that names the folder of RxDM's sockets.
pub(crate) const PREFIX: &str = "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX";
/// The plugin's default folder; 3.1.9 `flags.cc`.
pub(crate) const DEFAULT_PREFIX: &str = "/tmp";
/// Longest socket path: `sockaddr_un` holds 108 bytes with the final NUL. The plugin does not
/// check the length.
pub(crate) const PATH_BYTES_MAX: usize = 107;
const NAMES: [&str; 2] = ["rx_rule_manager", "rx_rule_uninstall"];
/// Beginning of the command name of RxDM's process.
const PROCESS: &str = "tcpgpudmarxd";

/// The result of connecting to one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketAnswer {
    /// A process accepts connections.
    Accepts,
    /// The socket file does not exist.
    Missing,
    /// The socket has no listener, or the file is not a socket.
    Refused,
    /// This user may not connect.
    Forbidden,
    /// Any other error.
    Failed,
}

/// The RxDM of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manager {
    /// The folder of the sockets.
    pub prefix: String,
    /// Whether the folder exists.
    pub folder: Fact<bool>,
    /// The result for each socket, by its name in the folder.
    pub sockets: Fact<BTreeMap<String, SocketAnswer>>,
    /// Command lines of RxDM processes in this process namespace. A container sees only its
    /// own processes.
    pub processes: Fact<Vec<String>>,
}

impl Manager {
    /// Tries the sockets under `prefix` that `gpus` need, and lists RxDM processes if
    /// `with_processes` is set.
    pub(crate) fn read(
        root: &Root,
        prefix: &str,
        gpus: &[PciAddress],
        with_processes: bool,
    ) -> Self {
        Self {
            prefix: prefix.to_owned(),
            folder: root.ask("manager-folder", || {
                Fact::Known(std::path::Path::new(prefix).is_dir())
            }),
            sockets: root.ask("manager-sockets", || {
                let ask = |name: String| {
                    let answer = try_to_connect(&format!("{prefix}/{name}"));
                    (name, answer)
                };
                Fact::Known(names(gpus).into_iter().map(ask).collect())
            }),
            processes: match with_processes {
                true => root.ask("manager-processes", || Fact::Known(processes())),
                false => Fact::unknown("not read before a run"),
            },
        }
    }

    /// The result for the socket `name`.
    pub(crate) fn socket(&self, name: &str) -> Fact<SocketAnswer> {
        self.sockets.as_ref().and_then(|all| {
            all.get(name)
                .copied()
                .ok_or_else(|| format!("the socket {name} was not tried"))
                .into()
        })
    }
}

/// Names of the sockets that the plugin connects to for `gpus`.
pub(crate) fn names(gpus: &[PciAddress]) -> Vec<String> {
    let of_gpu = |gpu: &PciAddress| {
        [
            format!("get_gpu_fd_{gpu}"),
            format!("get_gpu_metadata_{gpu}"),
        ]
    };
    NAMES
        .map(str::to_owned)
        .into_iter()
        .chain(gpus.iter().flat_map(of_gpu))
        .collect()
}

fn try_to_connect(path: &str) -> SocketAnswer {
    let attempt = || {
        let address = SocketAddrUnix::new(path)?;
        // Does not wait. A full backlog (EAGAIN) means that there is a listener.
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    };
    match attempt() {
        Ok(()) | Err(Errno::AGAIN) => SocketAnswer::Accepts,
        Err(Errno::NOENT | Errno::NOTDIR) => SocketAnswer::Missing,
        Err(Errno::CONNREFUSED | Errno::PROTOTYPE) => SocketAnswer::Refused,
        Err(Errno::ACCESS | Errno::PERM) => SocketAnswer::Forbidden,
        Err(_) => SocketAnswer::Failed,
    }
}

/// Folder of container logs on a node, and parts of the names of RxDM's logs.
const LOG_FOLDER: &str = "/var/log/containers";
const LOG_NAMES: [&str; 4] = [
    "rxdm",
    "receive-datapath-manager",
    "tcpgpudmarxd",
    "tcpx-daemon",
];
const LOG_TAIL_BYTES: u64 = 16 << 10;
const LOG_TAIL_LINES: usize = 60;

/// The newest lines of RxDM's log, if this user may read it.
pub fn log_tail(root: &Root) -> Fact<Vec<String>> {
    let is_its =
        |name: &String| LOG_NAMES.iter().any(|word| name.contains(word)) && name.ends_with(".log");
    root.names(LOG_FOLDER)
        .and_then(|names| match names.into_iter().filter(is_its).max() {
            None => Fact::unknown(format!("{LOG_FOLDER}: no log of RxDM")),
            Some(name) => tail(&format!("{LOG_FOLDER}/{name}")).into(),
        })
}

fn tail(path: &str) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    // Does not wait: the path may be a FIFO.
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let mut file = opened.map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))
        .map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.lines().map(crate::printable).collect();
    Ok(lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].to_vec())
}

fn processes() -> Vec<String> {
    let mut found = Vec::new();
    for pid in crate::processes::pids() {
        // The kernel keeps fifteen characters of a command name.
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim_end().starts_with(PROCESS) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push(crate::printable(
                &String::from_utf8_lossy(&line).replace('\0', " "),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_a_dead_socket_and_a_missing_file_give_different_answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let _alive = UnixListener::bind(path("alive")).unwrap();
        drop(UnixListener::bind(path("dead")).unwrap());
        std::fs::write(path("file"), "").unwrap();
        for (name, expected) in [
            ("alive", SocketAnswer::Accepts),
            ("dead", SocketAnswer::Refused),
            ("file", SocketAnswer::Refused),
            ("none", SocketAnswer::Missing),
            ("file/below", SocketAnswer::Missing),
        ] {
            assert_eq!(try_to_connect(&path(name)), expected, "{name}");
        }
        assert_eq!(try_to_connect(&"x".repeat(200)), SocketAnswer::Failed);
    }

    #[test]
    fn the_tail_of_a_long_log_is_read_and_a_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rxdm.log");
        std::fs::write(
            &path,
            (0..5000)
                .map(|number| format!("line {number} \x1b[2J\n"))
                .collect::<String>(),
        )
        .unwrap();
        let lines = tail(&path.display().to_string()).unwrap();
        assert!(
            lines.len() == LOG_TAIL_LINES
                && lines
                    .last()
                    .is_some_and(|line| line.starts_with("line 4999"))
        );
        assert!(lines.iter().all(|line| !line.contains('\x1b')));
        assert!(tail(&folder.path().display().to_string()).is_err());
    }

    #[test]
    fn there_are_two_sockets_for_rules_and_two_per_gpu() {
        let gpus: [PciAddress; 1] = ["0000:04:00.0".parse().unwrap()];
        let expected = [
            "rx_rule_manager",
            "rx_rule_uninstall",
            "get_gpu_fd_0000:04:00.0",
            "get_gpu_metadata_0000:04:00.0",
        ];
        assert_eq!(names(&gpus), expected);
    }
}
