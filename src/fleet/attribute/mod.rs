//! Which part of a mesh is slow or dead: node, rail of a node, direction, pair or group.
#![forbid(unsafe_code)]

mod finding;
mod subject;
#[cfg(test)]
#[expect(dead_code, reason = "the fit reads the rest")]
mod table;

pub use finding::{Attribution, Defect, Finding, Standing};
pub use subject::{Names, Place, Subject, Way};

/// One measurement. Nodes and rails are indices into the caller's lists; a mesh whose rails were
/// measured together has one rail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The node that sent.
    pub from: usize,
    /// The node that received.
    pub to: usize,
    /// The rail of both.
    pub rail: usize,
    /// `None` if the measurement failed. A rate of 0 is one that failed.
    pub gb_per_s: Option<f64>,
}

#[cfg(test)]
impl Cell {
    fn rate(&self) -> Option<f64> {
        self.gb_per_s.filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}
