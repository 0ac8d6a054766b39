//! What any plugin owes us, and what TCPX adds: the suite behind `selftest` and
//! the tests, written once over `&dyn Net`.
//!
//! A row is one promise and a function that tries it on an initialised plugin,
//! over a connection of its own between two ends in this process (`pair`). Rows
//! come in families, a file each. A row ends in a sentence of evidence whatever
//! it found, waits for nothing without a deadline, and leaves nothing open.
//!
//! Everything legal goes through the safe `Net`; `calls` makes the deliberately
//! illegal calls on the raw table, each in a shape that the real TCPX answers
//! with an error. Where the real one crashes instead, the row says so and is
//! not tried on it.
//!
//! Not here: processes. Whoever runs a row gives it a process of its own, since
//! `init` happens once and a crash should cost one row.

#[cfg(test)]
mod tests;

mod buffer;
mod calls;
mod close;
mod consume;
mod exchange;
mod fatal;
mod group;
mod illegal;
mod limits;
mod order;
mod pages;
mod pair;
mod payload;
mod process;
mod progress;
mod register;
mod scatter;
mod setup;
mod slots;
mod subject;

use crate::plugin::{Device, Net};
pub use process::Before;
use serde::{Deserialize, Serialize};
use subject::{Checked, Shortfall, Subject};
use tcpx_words::plugin_family::PluginFamily;

/// One promise.
pub struct Row {
    /// Stable kebab-case name.
    pub id: &'static str,
    /// What is owed, in one sentence.
    pub promise: &'static str,
    /// Only the TCPX family owes it.
    pub tcpx_only: bool,
    /// What Google's plugin does instead of answering, when it must not be asked.
    pub never_on_google: Option<&'static str>,
    check: fn(&Subject<'_>) -> Checked,
}

impl Row {
    const fn any(
        id: &'static str,
        promise: &'static str,
        check: fn(&Subject<'_>) -> Checked,
    ) -> Self {
        Self {
            id,
            promise,
            tcpx_only: false,
            never_on_google: None,
            check,
        }
    }

    const fn tcpx(
        id: &'static str,
        promise: &'static str,
        check: fn(&Subject<'_>) -> Checked,
    ) -> Self {
        Self {
            tcpx_only: true,
            ..Self::any(id, promise, check)
        }
    }

    const fn never_on_google(self, does: &'static str) -> Self {
        Self {
            never_on_google: Some(does),
            ..self
        }
    }

    fn try_on(&self, subject: &Subject<'_>) -> Checked {
        let name = &subject.net.about().name;
        if self.tcpx_only && !subject.family().has_tcpx_semantics() {
            return Err(Shortfall::NotOwed(format!(
                "only TCPX and its stand-ins promise this; {name} is neither"
            )));
        }
        if let Some(does) = self
            .never_on_google
            .filter(|_| subject.family() == PluginFamily::Tcpx)
        {
            return Err(Shortfall::NotOwed(format!("not tried: {name} {does}")));
        }
        (self.check)(subject)
    }
}

const FAMILIES: &[&[Row]] = &[
    setup::ROWS,
    payload::ROWS,
    order::ROWS,
    group::ROWS,
    slots::ROWS,
    progress::ROWS,
    consume::ROWS,
    scatter::ROWS,
    register::ROWS,
    close::ROWS,
    limits::ROWS,
    process::ROWS,
    illegal::ROWS,
];

/// What a row of the suite came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractRow {
    /// Stable name.
    pub id: String,
    /// PASS, FAIL, NOT SUPPORTED.
    pub verdict: String,
    /// What was seen.
    pub detail: String,
}

/// Every row, in the order in which they are run.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().copied().flatten()
}

/// Runs one row on an initialised plugin; `None` when there is no such row.
/// `before` is the process as it was when there was no plugin in it.
pub fn run_row(
    net: &dyn Net,
    devices: &[Device],
    before: Option<&Before>,
    id: &str,
) -> Option<ContractRow> {
    let row = rows().find(|row| row.id == id)?;
    let (verdict, detail) = match row.try_on(&Subject {
        net,
        devices,
        before,
    }) {
        Ok(seen) => ("PASS", seen),
        Err(Shortfall::Broken(seen)) => ("FAIL", seen),
        Err(Shortfall::NotOwed(why)) => ("NOT SUPPORTED", why),
    };
    Some(ContractRow {
        id: id.to_owned(),
        verdict: verdict.to_owned(),
        detail,
    })
}
