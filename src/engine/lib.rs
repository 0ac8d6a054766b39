//! The engine: loads ncclNet plugins, drives their channels, moves verified bytes.
//!
//! `plugin` is one safe face over any ncclNet version, `gpu` the memory that a
//! transfer moves, `transfer` the windows and the loop that drives them, `contract`
//! what every plugin owes its callers.
//!
//! Not here: processes, scenarios, files of a run, or anything that talks to people.

pub mod contract;
pub mod gpu;
pub mod plugin;
pub mod transfer;
