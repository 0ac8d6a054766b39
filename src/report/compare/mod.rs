//! Results beside each other: runs, baselines, shipped profiles, and what other
//! tools measured.
//!
//! Everything becomes [`Measured`]: settings, and metrics with the samples behind
//! them. The first is the reference that the others are held against; the rule is
//! in `statistics.rs`.
#![forbid(unsafe_code)]

mod baseline;
mod measured;
mod others;
mod render;
mod statistics;
#[cfg(test)]
mod tests;

pub(crate) use baseline::profiles;
pub use baseline::{BaselineError, Baselines};
pub use measured::{Better, Measured, Metric, UnreadRun};
pub use others::{ReadError, read};
pub use render::{compared_html, compared_markdown, compared_text};
pub use statistics::{Compared, RULE, Row, Verdict, compare};
