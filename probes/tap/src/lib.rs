//! The recording interposer: takes a plugin's table and gives back a table of
//! the same version that does the same and writes down what happened.
//!
//! * [`v7::wrap`] and its like for every other version make the table; nothing is
//!   called yet.
//! * Every argument, return code, out-parameter and request pointer passes
//!   through as it is. A member that is null stays null, the name stays the
//!   plugin's own string. Requests are not wrapped, as callers read their bytes.
//! * A comm gets a [`tcpx_recorder::Slot`] when `listen`, `connect` or `accept`
//!   delivers it, and keeps it until closed. Calls that belong to no known comm
//!   are counted in the recorder's header.
//!
//! A C function has no room for a closure, so each table's state is found
//! through a constant of its functions: a process may wrap [`TAPS_MAX`] tables
//! per version, and none is ever unwrapped, as plugins are never unloaded.
//!
//! The rules of a plugin hold for its tap: one thread at a time per comm. Who
//! breaks them loses counts. Times are those at which calls *return*; a `test`
//! that is not done reads no clock. What it costs: `examples/tap_cost.rs`.
//!
//! Every call of the data path that changes something becomes an event in the
//! channel's ring, every line of the plugin's log an entry of the recorder's; the
//! program's own logger gets it too, formatted.
//!
//! [`object`] makes a shared object of all this, which presents the versions that
//! the plugin behind it exports; `object/` is that object.
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

/// Tables of one version that one process may wrap.
pub const TAPS_MAX: usize = 4;

/// All [`TAPS_MAX`] places of this version are taken.
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
