//! What log files say about runs over TCPX.
//!
//! Lines go in, one [`Report`] comes out: which network was used, the settings of
//! each process, who talked to whom, what is wrong, and what to do. What is looked
//! for is data under `probes/logs` ([`Signature`]), to which users add their own;
//! each has a literal that its lines must have. A stream is searched for all of
//! them at once (`matcher`), in blocks that several threads take (`blocks`,
//! `scan`), and only lines with a hit are looked at (`shape`, `fields`). So the
//! lines without one cost a vector search, and memory does not grow with a log.
//!
//! Regular expressions are the `regex` crate's: no pattern takes more than linear
//! time. A line longer than a block (256 KiB) comes in pieces.
//!
//! Not here: printing, and saying why a run stalled, which takes more than lines.
#![forbid(unsafe_code)]

mod anchors;
mod blocks;
mod buckets;
mod catalogue;
mod check;
mod compose;
mod fields;
mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod input;
mod matcher;
mod read;
mod report;
mod scan;
mod shape;
mod signature;
mod tally;
mod telemetry;
#[cfg(test)]
mod tests;
mod time;

pub use catalogue::{Catalogue, CatalogueError};
pub use check::{Mistake, check_folder};
pub use filter::{Filter, parse_time};
pub use input::Problem;
pub use read::{Reader, follow};
pub use report::{
    BuildMismatch, Comm, Finding, Inputs, PollRate, Report, Setting, Transport, Unknown, Where,
};
pub use signature::{Fact, Phase, Severity, Signature};
pub use telemetry::{Stage, Telemetry};
