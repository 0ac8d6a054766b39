//! Reads the recorders of running processes, as events.
//!
//! `recorders.rs` polls the recorder files of this machine, `detail.rs` reads one channel in
//! detail. Not here: keeping what was read; `state` does.
#![forbid(unsafe_code)]

mod detail;
mod recorders;

pub use recorders::{RecorderFilter, Recorders};
