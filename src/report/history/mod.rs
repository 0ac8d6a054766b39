//! The runs under `reports/`, one line each.
//!
//! `entry.rs` summarizes a run, `index.rs` caches the summaries of all runs in one file and
//! checks it against the folders, `prune.rs` selects runs to delete. `rates.rs` has a row per pair,
//! rail and direction, and compares the rails over time.
#![forbid(unsafe_code)]

mod entry;
mod index;
mod prune;
mod rates;
#[cfg(test)]
mod tests;

pub use entry::{DirectionRate, MEASURED, OTHER_VERSION, RunEntry};
pub use index::{History, HistoryError, read};
pub use prune::{KeepRules, choose, remove};
pub use rates::{
    RATE_COLUMNS, RateMesh, RateRow, SlowerRail, newer_half, slower_rails, suspects_of,
};
