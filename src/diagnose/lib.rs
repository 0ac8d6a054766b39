//! Why a transfer does not move.
//!
//! `evidence` is what rules look at, `of_state` makes it of a run's state; `rules`
//! are pure functions over it; `rank` makes findings of what they found, causes
//! before what follows from them. `catalogue` names what can be wrong: data under
//! `probes/conditions`. `turn` says whose turn it is, `watcher` tells findings while
//! a run goes on, `open` reads evidence from where it lies. `trace` is the timeline
//! of a run as a file for viewers.
//!
//! Not here: printing, and taking a freeze-frame, which an agent does.
#![forbid(unsafe_code)]

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
pub mod trace;
pub mod turn;
mod watcher;

pub use catalogue::{CatalogueEntry, Condition};
pub use evidence::Evidence;
pub use open::{OpenError, newest_run, of_files, of_recorders};
pub use rank::diagnose;
pub use watcher::Watcher;
