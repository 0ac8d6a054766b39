//! The program while it runs, and how it ended.
//!
//! The program shares the terminal, the standard streams and the process group of `tap`, so Ctrl-C
//! reaches it directly. A SIGTERM or SIGHUP to `tap` alone is passed on to the program.
#![forbid(unsafe_code)]

use super::environment::ProgramEnvironment;
use super::error::InterposeError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A running program with the tap.
pub(crate) struct Program {
    child: Child,
    pidfd: OwnedFd,
    /// Signals to pass on, each with the flag that its arrival sets.
    passed_on: [(Signal, Arc<AtomicBool>); 2],
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramEnding {
    /// Exited with this code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
}

impl Program {
    /// Starts the program. `stdout_to_stderr` keeps stdout for the document of `--json`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(
        command: &[String],
        given: &ProgramEnvironment,
        stdout_to_stderr: bool,
    ) -> Result<Self, InterposeError> {
        let (program, arguments) = command
            .split_first()
            .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let failed = |source| InterposeError::Start {
            program: program.to_owned(),
            source,
        };
        // The program would inherit ignored signals, but does not inherit handlers.
        let flag = |signal| -> io::Result<Arc<AtomicBool>> {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
            Ok(flag)
        };
        for signal in [SIGINT, SIGQUIT] {
            flag(signal).map_err(failed)?;
        }
        let passed_on = [
            (Signal::TERM, flag(SIGTERM).map_err(failed)?),
            (Signal::HUP, flag(SIGHUP).map_err(failed)?),
        ];
        let mut command = Command::new(program);
        command.args(arguments).envs(&given.variables);
        if stdout_to_stderr {
            command.stdout(Stdio::from(
                io::stderr().as_fd().try_clone_to_owned().map_err(failed)?,
            ));
        }
        let child = command.spawn().map_err(failed)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(io::Error::from)
            .map_err(failed)?;
        Ok(Self {
            child,
            pidfd,
            passed_on,
        })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits at most `at_most` for the program's end, and passes signals on.
    ///
    /// # Errors
    /// The system refuses the wait.
    pub(crate) fn wait(&mut self, at_most: Duration) -> io::Result<Option<ProgramEnding>> {
        let most = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // A signal to this process interrupts the poll.
        let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&most));
        for (signal, came) in &self.passed_on {
            if came.swap(false, Ordering::Relaxed) {
                // Fails once the program has ended.
                let _ = pidfd_send_signal(&self.pidfd, *signal);
            }
        }
        let status = self.child.try_wait()?;
        Ok(status.map(|status| match status.code() {
            Some(code) => ProgramEnding::Exited(code),
            None => ProgramEnding::Killed(status.signal().unwrap_or(0)),
        }))
    }

    /// Processes of the program that have mapped the plugin but not the tap: they opened the
    /// plugin by a fixed path.
    pub(crate) fn bypassing(&self, folder: &Path, real: &Path, tap: &Path) -> Vec<u32> {
        with_in_environment(folder)
            .filter(|pid| {
                let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
                let has =
                    |path: &Path| memchr(&maps, path.as_os_str().as_encoded_bytes()).is_some();
                has(real) && !has(tap)
            })
            .collect()
    }
}

/// Processes of this user that have a path in their environment.
pub(super) fn with_in_environment(path: &Path) -> impl Iterator<Item = u32> {
    let marker = path.as_os_str().as_encoded_bytes();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(move |pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        memchr(&environ, marker).is_some()
    })
}

/// Ends this process by the signal that killed the program, without a core file.
pub(crate) fn end_by(signal: i32) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // If this fails, a second core file may be written.
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    // If the signal does not end this process, the caller returns the shell's exit code for it.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

fn memchr(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len().max(1))
        .position(|window| window == wanted)
}

/// Largest program file that is searched for paths.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// Absolute plugin paths in the program's file, which the program may open regardless of its
/// environment. The program's file is searched on `path`, as a shell does.
pub(crate) fn fixed_paths(program: &str, path: Option<&str>) -> Vec<String> {
    let file = if program.contains('/') {
        Some(PathBuf::from(program))
    } else {
        path.unwrap_or_default()
            .split(':')
            .map(|folder| Path::new(folder).join(program))
            .find(|file| file.is_file())
    };
    let small =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|meta| meta.len() <= PROGRAM_BYTES_MAX);
    let bytes = file
        .filter(small)
        .and_then(|file| std::fs::read(file).ok())
        .unwrap_or_default();
    paths_in(&bytes)
}

fn paths_in(bytes: &[u8]) -> Vec<String> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'<>:;,".contains(byte);
    let mut found = Vec::new();
    for word in bytes
        .split(|byte| !plain(byte))
        .filter(|word| word.first() == Some(&b'/'))
    {
        if word.len() < 4096 && memchr(word, b"/libnccl-net").is_some() {
            found.push(String::from_utf8_lossy(word).into_owned());
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_paths_are_found_in_a_program() {
        let bytes =
            b"\x7fELF\0/usr/local/tcpx/lib64/libnccl-net-tcpx.so\0/lib/libc.so\0libnccl-net.so\0'/x/libnccl-net.so'";
        assert_eq!(
            paths_in(bytes),
            [
                "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
                "/x/libnccl-net.so"
            ]
        );
        assert!(
            fixed_paths("/nowhere", None).is_empty()
                && fixed_paths("nosuch", Some("/bin:/usr/bin")).is_empty()
        );
    }
}
