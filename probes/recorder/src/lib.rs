//! The flight recorder: one file per process that drives a plugin. It holds a slot of counters
//! and a ring of call events for every comm, and the plugin's log lines. The process writes it
//! through a shared mapping; other processes can read it at any time, also while the writer is
//! stuck inside a plugin call or after SIGKILL.
//!
//! * [`mod@format`] describes the file byte by byte, and has the types both sides share.
//! * [`Recorder`] writes. It takes no lock, allocates nothing and makes no system call and no
//!   atomic read-modify-write, except when a comm is opened.
//! * [`Reader`] reads without trusting the file: [`Reader::snapshot`] returns the counters,
//!   [`Reader::events`] a channel's history, [`Reader::log`] the plugin's log lines. Files of
//!   running and of ended processes are read alike.
//! * [`list()`] finds the files of this user.
//! * [`sweep()`] removes the files of ended writers.
//!
//! This crate is loaded into users' processes: it depends on libc only, never panics on file
//! content, and never prints.
//!
//! Not here: which plugin call changes which counter. `tap` decides that, and the engine adds
//! `unpacked`.

#![cfg_attr(
    test,
    allow(
        clippy::duplicate_mod,
        reason = "model.rs compiles two files with its own atomics"
    )
)]

pub mod format;

mod address;
mod clock;
mod connecting;
mod ended;
mod events;
mod file;
mod folder;
mod fork;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod histogram;
#[cfg(all(test, any(loom, miri)))]
mod in_file;
mod list;
mod log;
#[cfg(all(test, loom))]
mod loom_model;
mod map;
#[cfg(all(test, miri))]
mod miri_model;
#[cfg(all(test, not(any(loom, miri))))]
mod model;
mod options;
mod process;
mod read;
mod ring;
mod sample;
mod slot;
mod sweep;
mod thread;
mod words;
mod write;

/// The atomics that `slot.rs` and `ring.rs` use; `model.rs` and `loom_model.rs` substitute others.
mod atomic {
    #[cfg(all(test, loom))]
    pub(crate) use loom::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(not(all(test, loom)))]
    pub(crate) use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
}

pub use address::{Address, SOCKADDR_BYTES};
pub use clock::{Clock, monotonic_ns};
pub use connecting::Connecting;
pub use ended::{Ended, EndedHow, note_life};
pub use events::{Event, Events};
pub use folder::{SHARED_MEMORY, folder_name};
pub use histogram::Histogram;
pub use list::{Listed, list};
pub use log::{LogEntry, LogLines};
pub use options::{CreateError, Options};
pub use process::{Identity, Liveness};
pub use read::{DeviceFacts, Header, ReadError, Reader, Snapshot};
pub use ring::Note;
pub use sample::{ChannelSample, InCall, LastError, Polls, RequestNow, Stage, State};
pub use slot::{Addresses, CallToken, Opening, Slot};
pub use sweep::{Swept, sweep};
pub use write::{ConnectToken, Device, Key, LogLine, Recorder, Settled, SetupToken};
