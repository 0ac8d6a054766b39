//! The recording interposer: wraps a plugin's table in a table of the same version that passes
//! every call on and records it.
//!
//! * [`v7::wrap`], and the same function of every other version, creates the table without
//!   calling the plugin.
//! * Arguments, return codes, out-parameters and request pointers are passed on unchanged. A
//!   null member stays null, and the name is the plugin's own string. Requests are not wrapped,
//!   because callers read their bytes.
//! * A comm gets a [`tcpx_recorder::Slot`] when `listen`, `connect` or `accept` returns it, and
//!   keeps it until it is closed. Calls on unknown comms are counted in the recorder's header.
//!
//! C functions cannot be closures, so a constant of each table's functions selects its state.
//! A process can wrap [`TAPS_MAX`] tables per version. No table is ever unwrapped, because
//! plugins are never unloaded.
//!
//! The plugin's rule holds for its tap too: one thread at a time per comm. Breaking it loses
//! counts. Recorded times are those at which calls *return*; a `test` that is not done does not
//! read the clock. `examples/tap_cost.rs` measures the cost.
//!
//! Every data path call that changes a request becomes an event in the channel's ring. Every
//! log line of the plugin is recorded, and then passed formatted to the program's logger.
//!
//! [`object`] builds a shared object from this crate that exports the versions of the plugin
//! behind it; `object/` is that shared object.
//!
//! Not here: anything that could panic, wait, print, or refuse a call.

mod book;
mod hide;
mod logger;
pub mod object;
mod pointers;
mod refuse;
mod search;
mod settings;
mod version;

pub use book::Tap;
use std::fmt;
#[doc(hidden)]
pub use tcpx_abi as abi;
pub use version::*;

/// Most tables of one version that a process can wrap.
pub const TAPS_MAX: usize = 4;

/// The process has already wrapped [`TAPS_MAX`] tables of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTaps;

impl fmt::Display for TooManyTaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this process has already wrapped {TAPS_MAX} tables of this version"
        )
    }
}

impl std::error::Error for TooManyTaps {}
