//! The runs under `reports/`: each in a line, and where a metric stands over time.
//!
//! `entry.rs` is what is kept of a run, `index.rs` keeps all of them in one file
//! that is believed only as far as the folders agree with it; `prune.rs` says
//! which runs could go.
#![forbid(unsafe_code)]

mod entry;
mod index;
mod prune;
#[cfg(test)]
mod tests;

pub use entry::{Entry, OTHER_VERSION, Rate};
pub use index::{History, HistoryError, read};
pub use prune::{Keep, choose, remove};
