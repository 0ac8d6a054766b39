//! Why a transfer does not move.
//!
//! `collect` keeps what a run, a recorder or an agent tells, as `evidence` of both
//! ends; `rules` are pure functions over it; `rank` makes findings of what they
//! found, causes before what follows from them. `catalogue` names what can be
//! wrong: data under `probes/conditions`. `open` reads evidence from where it lies.
//!
//! Not here: printing, and taking a freeze-frame, which an agent does.
#![forbid(unsafe_code)]

mod catalogue;
mod collect;
mod evidence;
mod open;
#[cfg(test)]
mod page;
mod rank;
mod rehearse;
mod rules;
mod shrink;
#[cfg(test)]
mod tests;
mod watcher;

pub use catalogue::{Catalogue, CatalogueError, Condition, Severity};
pub use collect::Collector;
pub use evidence::{At, Channel, Evidence, Line, Machine, Moved, Nic, Node, Spot, Stall, Watched};
pub use open::{OpenError, newest_run, of_files, of_recorders};
pub use rank::diagnose;
pub use rehearse::{Rehearsal, Row, Stopwatch, rehearsals, row};
pub use shrink::{Shrunk, shrink};
pub use watcher::Watcher;
