//! The doctor: checks a node before anything runs on it.
//!
//! DoctorFacts go in, rows come out. [`DoctorFacts`] is everything that was read of a node, as a
//! document that another node can send. [`Examination`] is the result of the checks over
//! one node, or over two. The checks are data under `probes/node`: which fact, what must
//! hold of it, why it matters, what to do. Whatever takes more than one comparison (which
//! NIC serves which GPU, what a variable means) is first computed as a fact, by `view`
//! and `lint`.
//!
//! An unknown fact makes a row UNKNOWN, never PASS.
//!
//! Not here: printing, and reaching another node.

mod capture;
mod catalogue;
mod check;
mod evaluate;
mod facts;
pub mod lint;
mod pair;
mod path;
mod predicate;
pub mod probe;
mod row;
#[cfg(test)]
mod tests;
mod view;

pub use capture::{Capture, capture};
pub use catalogue::{Catalogue, CatalogueError};
pub use check::{Check, Layer, Severity};
pub use evaluate::{Examination, NOT_CHECKED, Subject, examine, examine_pair};
pub use facts::{Depth, DoctorFacts, Scope, Tested};
pub use pair::{ProbedRail, ProbedRails};
pub use row::{CheckRow, CheckVerdict};

/// The interfaces that carry data on a node.
pub fn rail_names(facts: &DoctorFacts, subject: Subject) -> Vec<String> {
    view::rails(facts, subject)
        .iter()
        .map(|nic| nic.name.clone())
        .collect()
}

/// The `export` and `unset` lines that correct the environment of a node.
pub fn exports(table: &lint::VariableTable, facts: &DoctorFacts, subject: Subject) -> Vec<String> {
    lint::exports(
        table,
        &facts.node.environment,
        &view::machine(facts, subject),
    )
}
