//! The flight recorder: one file per process that drives a plugin, holding a
//! slot of counters for every comm.

pub mod format;
mod histogram;

pub use histogram::Histogram;
