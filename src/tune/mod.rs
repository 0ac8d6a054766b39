//! Searches the smallest settings of a scenario that are as fast as the best.
#![forbid(unsafe_code)]

mod evidence;
mod knobs;

/// What of the rate may be given up for smaller settings.
pub(crate) const TOLERANCE: f64 = 0.02;
