//! The flight recorder: one file per process that drives a plugin, holding a
//! slot of counters for every comm. The process that drives the plugin writes
//! it through a shared mapping; anyone who may read the file reads it at any
//! time, also while the writer is stuck inside a plugin call or after SIGKILL.
//!
//! * [`mod@format`] is the file, byte by byte, and the words both sides share.
//! * [`Recorder`] writes: no lock, no allocation, no system call and no atomic
//!   read-modify-write, but when a comm is opened.
//! * [`Reader`] reads and believes nothing it finds.
//! * [`sweep()`] removes what dead writers left.
//!
//! This crate is loaded into other people's processes: it depends on libc only,
//! never panics on what it finds, never prints.
//!
//! Not here: which plugin call changes which counter. `tap` decides that, and
//! the engine adds `unpacked`.

pub mod format;

mod clock;
mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod histogram;
mod process;
mod read;
mod sample;
mod slot;
mod sweep;
mod words;
mod write;

pub use clock::{Clock, monotonic_ns};
pub use folder::{SHARED_MEMORY, folder_name};
pub use histogram::Histogram;
pub use process::{Identity, Liveness};
pub use read::{Header, ReadError, Reader, Snapshot};
pub use sample::{ChannelSample, InCall, LastError, State};
pub use slot::{CallToken, Slot};
pub use sweep::{Swept, sweep};
pub use write::{CreateError, Key, Opening, Options, Recorder};
