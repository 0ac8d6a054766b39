//! Starts a child with two extra descriptors, and exits without exit handlers.
//!
//! The descriptors are close-on-exec here and duplicated to high numbers in the
//! child only, so no other child of this process inherits them: the worker must
//! see the end of its control stream when this process dies. High, because the
//! real plugin closes descriptor 0 by mistake and low numbers are then reused.
#![expect(
    unsafe_code,
    reason = "duplicates descriptors between fork and exec, and ends without exit handlers"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Descriptor of a worker's control stream.
pub(crate) const CONTROL_FD: i32 = 200;
/// Descriptor to which a worker writes the plugin's log lines, one per packet.
pub(crate) const LOG_FD: i32 = 201;

/// Path of this program, to start a child: its file, or `/proc/self/exe` if an upgrade has
/// replaced the file meanwhile.
pub(crate) fn ourselves() -> PathBuf {
    std::env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| "/proc/self/exe".into())
}

/// Makes `command`'s child inherit the two descriptors at their fixed numbers.
pub(crate) fn inherit(command: &mut Command, control: BorrowedFd<'_>, log: BorrowedFd<'_>) {
    let pairs = [(control.as_raw_fd(), CONTROL_FD), (log.as_raw_fd(), LOG_FD)];
    let duplicate = move || {
        for (from, to) in pairs {
            // SAFETY: dup2 is async-signal-safe and touches no memory.
            if unsafe { libc::dup2(from, to) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls dup2, which is allowed between fork and exec.
    unsafe { command.pre_exec(duplicate) };
}

/// Takes an inherited descriptor over, made close-on-exec; `None` when it is not open.
pub(crate) fn inherited(number: i32) -> Option<OwnedFd> {
    // SAFETY: asks about a number, owns nothing.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: open, and by the convention of `inherit` nobody else's.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether descriptor 0 is open; if not, opens /dev/null there.
pub(crate) fn keep_descriptor_zero() {
    // SAFETY: asks about a number.
    if unsafe { libc::fcntl(0, libc::F_GETFD) } < 0 {
        // SAFETY: a literal path; the lowest free number is 0.
        let _ = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) };
    }
}

/// Duplicates a descriptor that the plugin owns, to query its addresses; `None` if it was closed
/// meanwhile.
pub(crate) fn peek(number: i32) -> Option<OwnedFd> {
    // SAFETY: duplicating a number is safe whatever it names.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return None;
    }
    // SAFETY: the duplicate was made for us just now.
    Some(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Exits at once, without destructors and exit handlers: a plugin's may block forever.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}
