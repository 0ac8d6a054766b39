//! The engine: loads ncclNet plugins, drives their channels, moves verified bytes.
//!
//! `plugin` is one safe interface to every ncclNet version, `gpu` the memory that transfers
//! move, `transfer` the windows and the loop that drives them, `contract` the plugin
//! conformance suite.
//!
//! Not here: processes, scenarios, the files of a run, or user-facing output.

pub mod contract;
pub mod gpu;
pub mod plugin;
pub mod transfer;
