//! What any plugin owes us: the suite behind `selftest` and the tests.
#![forbid(unsafe_code)]

use crate::coord::message::ContractRow;
use crate::plugin::{Device, Net};

/// One promise.
pub struct Row {
    /// Stable kebab-case name.
    pub id: &'static str,
    /// What is owed, in one sentence.
    pub promise: &'static str,
    /// Only the TCPX family owes it.
    pub tcpx_only: bool,
    /// Tries it on an initialised plugin.
    pub check: fn(&dyn Net, &[Device]) -> Verdict,
}

/// What a row found.
pub enum Verdict {
    /// Kept; with what was seen.
    Pass(String),
    /// Broken; with what was seen.
    Fail(String),
    /// The plugin does not claim to.
    NotSupported(String),
}

/// Every row, in the order in which they are run.
pub const ROWS: &[Row] = &[];

/// Runs one row on an initialised plugin; `None` when there is no such row.
pub fn run_row(net: &dyn Net, devices: &[Device], id: &str) -> Option<ContractRow> {
    let row = ROWS.iter().find(|row| row.id == id)?;
    let (verdict, detail) = match (row.check)(net, devices) {
        Verdict::Pass(detail) => ("PASS", detail),
        Verdict::Fail(detail) => ("FAIL", detail),
        Verdict::NotSupported(detail) => ("NOT SUPPORTED", detail),
    };
    Some(ContractRow { id: id.to_owned(), verdict: verdict.to_owned(), detail })
}
