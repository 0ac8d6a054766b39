//! tcpxctl: proves, measures and explains transfers over GPUDirect-TCPX and
//! other ncclNet plugins.
//!
//! This crate is the command line, and what runs other commands: `interpose` starts a user's
//! program with the tap, `rehearse`, `shrink` and `tune` run scenarios. Everything else is in the crates
//! that ARCHITECTURE.md lists.

pub mod cli;
pub mod interpose;
mod rehearse;
mod shrink;
mod tune;
