//! Ends a process together with what it has started, where they have no process group of their own.
#![forbid(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};

/// Most times that the descendants are listed: each finds what was started before the last one was
/// stopped.
const ROUNDS_MAX: usize = 16;
/// Most descendants that are ended.
const DESCENDANTS_MAX: usize = 1024;

/// Sends SIGKILL to a child of this process that has not been waited for, and to its descendants.
/// All are stopped first, because a process whose parent is gone is no descendant any more, and
/// a shell starts its next command when one is gone.
pub(crate) fn kill_tree(child: Pid) {
    let mut held: BTreeMap<i32, OwnedFd> = BTreeMap::new();
    for _ in 0..ROUNDS_MAX {
        let known: BTreeSet<i32> = held.keys().copied().collect();
        for pid in tree(child.as_raw_nonzero().get()) {
            if !known.contains(&pid) && held.len() <= DESCENDANTS_MAX {
                held.extend(stopped(pid).map(|one| (pid, one)));
            }
        }
        if held.len() == known.len() {
            break;
        }
    }
    for one in held.values() {
        // Fails only if it has ended meanwhile.
        let _ = pidfd_send_signal(one, Signal::KILL);
    }
}

/// Stops a process, and holds it by a descriptor: its number may be given to another one. `None` if
/// it has ended.
fn stopped(pid: i32) -> Option<OwnedFd> {
    let parent = parent_of(pid)?;
    let one = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // The number was not given to another process before it was opened.
    let is_same = parent_of(pid) == Some(parent);
    is_same
        .then(|| pidfd_send_signal(&one, Signal::STOP).ok())
        .flatten()?;
    Some(one)
}

/// A process and its descendants.
fn tree(root: i32) -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(i32, i32)> = pids
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut tree = BTreeSet::from([root]);
    // At most as many times as the tree is deep.
    loop {
        let before = tree.len();
        for (pid, parent) in &parents {
            if tree.contains(parent) {
                tree.insert(*pid);
            }
        }
        if tree.len() == before {
            return tree;
        }
    }
}

/// Whether a process of this machine is stopped: by a signal, or by a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may have spaces and parentheses.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

/// The parent of a process; `None` if it is not seen or waits to be collected.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| state != "Z")
}
