//! Many nodes: which pairs are measured when, and which part is slow or dead.
//!
//! Nodes are indices into the caller's list. No clock, no I/O, and no randomness but a given seed.

pub mod attribute;
pub mod exclude;
pub mod groups;
pub mod node_list;
pub mod schedule;
mod seed;
#[cfg(any(test, feature = "simulate"))]
pub mod simulate;
