//! The flight recorder: one file per process that drives a plugin, holding a
//! slot of counters and a ring of call events for every comm, and the plugin's
//! log lines. The process that drives the plugin writes
//! it through a shared mapping; anyone who may read the file reads it at any
//! time, also while the writer is stuck inside a plugin call or after SIGKILL.
//!
//! * [`mod@format`] is the file, byte by byte, and the words both sides share.
//! * [`Recorder`] writes: no lock, no allocation, no system call and no atomic
//!   read-modify-write, but when a comm is opened.
//! * [`Reader`] reads and believes nothing it finds: [`Reader::snapshot`] for the
//!   counters, [`Reader::events`] for a channel's history, [`Reader::log`] for
//!   what the plugin said. Live or long after, the calls are the same.
//! * [`list()`] finds the files of this user.
//! * [`sweep()`] removes what dead writers left.
//!
//! This crate is loaded into other people's processes: it depends on libc only,
//! never panics on what it finds, never prints.
//!
//! Not here: which plugin call changes which counter. `tap` decides that, and
//! the engine adds `unpacked`.

#![cfg_attr(
    test,
    allow(
        clippy::duplicate_mod,
        reason = "model.rs compiles two files over atomics of its own"
    )
)]

pub mod format;

mod address;
mod clock;
mod events;
mod file;
mod folder;
mod fork;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod histogram;
mod list;
mod log;
mod map;
#[cfg(test)]
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

/// What `slot.rs` and `ring.rs` store with; `model.rs` has another.
mod atomic {
    pub(crate) use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
}

pub use address::{Address, SOCKADDR_BYTES};
pub use clock::{Clock, monotonic_ns};
pub use events::{Event, Events};
pub use folder::{SHARED_MEMORY, folder_name};
pub use histogram::Histogram;
pub use list::{Listed, list};
pub use log::{LogEntry, LogLines};
pub use options::{CreateError, Options};
pub use process::{Identity, Liveness};
pub use read::{DeviceFacts, Header, ReadError, Reader, Snapshot};
pub use ring::Note;
pub use sample::{ChannelSample, InCall, LastError, RequestNow, Stage, State};
pub use slot::{Addresses, CallToken, Opening, Slot};
pub use sweep::{Swept, sweep};
pub use write::{Device, Key, LogLine, Recorder, Settled, SetupToken};
