//! The plugin conformance suite: what every plugin must do, and what TCPX adds. `selftest`
//! and the tests run it; it is written once over `&dyn Net`.
//!
//! A row is one promise and a function that checks it on an initialised plugin, over its own
//! connection between two ends in this process (`pair`). Each family of rows has a file. A
//! row always ends with a sentence of evidence, every wait has a deadline, and nothing stays
//! open afterwards.
//!
//! Legal calls go through the safe `Net`; `calls` makes deliberately illegal ones on the raw
//! table, with arguments that the real TCPX answers with an error. A row whose call crashes
//! the real TCPX says so and is not run on it.
//!
//! Not here: processes. The caller runs each row in its own process, because `init` happens
//! once per process and a crash must cost one row only.

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
pub struct ContractCheck {
    /// Stable kebab-case name.
    pub id: &'static str,
    /// What the plugin must do, in one sentence.
    pub promise: &'static str,
    /// Whether only plugins of the TCPX family must do it.
    pub tcpx_only: bool,
    /// What Google's plugin does instead, if the row must not be run on it.
    pub never_on_google: Option<&'static str>,
    check: fn(&Subject<'_>) -> Checked,
}

impl ContractCheck {
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
                "only TCPX and its stand-ins promise this, and {name} is neither"
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

const FAMILIES: &[&[ContractCheck]] = &[
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

tcpx_words::word_set! {
    /// The verdict on one row of the suite.
    pub enum ContractVerdict {
        /// The plugin keeps the promise.
        Pass = "PASS",
        /// The plugin breaks the promise.
        Fail = "FAIL",
        /// The plugin's worker died in the row.
        Crashed = "CRASHED",
        /// The plugin does not owe the promise.
        NotSupported = "NOT SUPPORTED",
        /// The user ended the row.
        Interrupted = "INTERRUPTED",
    }
}

/// The result of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractRow {
    /// Stable name.
    pub id: String,
    /// What the row found: pass, fail or not supported.
    pub verdict: ContractVerdict,
    /// The evidence, in one sentence.
    pub detail: String,
}

/// Every row, in the order in which the suite runs them.
pub fn rows() -> impl Iterator<Item = &'static ContractCheck> {
    FAMILIES.iter().copied().flatten()
}

/// Runs the row named `id` on an initialised plugin; `None` if there is no such row.
/// `before` is the state of the process before the plugin was loaded. `note` is told how far a row that may
/// take long has come.
pub fn run_row(
    net: &dyn Net,
    devices: &[Device],
    before: Option<&Before>,
    id: &str,
    note: &dyn Fn(String),
) -> Option<ContractRow> {
    let row = rows().find(|row| row.id == id)?;
    let (verdict, detail) = match row.try_on(&Subject {
        net,
        devices,
        before,
        note,
    }) {
        Ok(seen) => (ContractVerdict::Pass, seen),
        Err(Shortfall::Broken(seen)) => (ContractVerdict::Fail, seen),
        Err(Shortfall::NotOwed(why)) => (ContractVerdict::NotSupported, why),
    };
    Some(ContractRow {
        id: id.to_owned(),
        verdict,
        detail,
    })
}
