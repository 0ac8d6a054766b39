//! Table to `Net`, one shim per version. What every version does alike is the
//! macro in `table.rs`; a version's file says where it differs.

#[macro_use]
mod table;
mod v7;
mod v8;

pub use v7::wrap as wrap_v7;
pub use v8::wrap as wrap_v8;

/// Members without which no table is a plugin.
pub(super) const REQUIRED: &[&str] = &[
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "accept",
    "regMr",
    "deregMr",
    "isend",
    "irecv",
    "test",
    "closeSend",
    "closeRecv",
    "closeListen",
];
