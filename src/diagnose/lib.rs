//! Why a transfer does not move.
//!
//! `evidence` is what rules look at; `of_state` makes it of a run's state, `open` reads it
//! from run folders, bundles and running processes. `rules` are pure functions over it.
//! `rank` makes findings of their results, causes before symptoms. `catalogue` holds the
//! conditions of `probes/conditions`. `turn` says whose turn it is on the channel that
//! waits, `watcher` reports findings while a run goes on, and `background` does so on a thread.
//!
//! Not here: printing.
#![forbid(unsafe_code)]

mod background;
mod catalogue;
#[cfg(test)]
mod catalogue_source;
mod evidence;
mod of_state;
mod open;
mod rank;
mod rules;
#[cfg(test)]
mod tests;
mod transfers;
pub mod turn;
mod watcher;

pub use background::BackgroundWatcher;
pub use catalogue::{CatalogueEntry, Condition};
pub use evidence::Evidence;
pub use open::{
    OpenError, evidence_from_files, evidence_from_recorders, findings_from_files, newest_run,
};
pub use rank::diagnose;
pub use watcher::{Watcher, lacks_rates};
