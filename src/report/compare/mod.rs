//! Comparing results: runs, baselines, shipped profiles, and the output of other tools.
//!
//! Every result becomes a [`Measured`]: settings, and metrics with their samples. The first
//! result is the reference for the others; the rule is in `statistics.rs`.
#![forbid(unsafe_code)]

mod baseline;
pub(crate) mod harness;
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
pub use statistics::{Comparison, MetricComparison, MetricVerdict, RULE, compare};
pub(crate) use statistics::{mann_whitney_p, quartiles};
