//! Why a transfer does not move.
//!
//! `catalogue` names what can be wrong: data under `probes/conditions`.
#![forbid(unsafe_code)]

mod catalogue;

pub use catalogue::{Catalogue, CatalogueError, Condition, Severity};
