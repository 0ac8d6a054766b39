//! One check, as written in `probes/node/*.toml`.
#![forbid(unsafe_code)]

use super::path::{BadPath, FactPath};
use super::predicate::Must;
use serde::{Deserialize, Deserializer, Serialize, de};

/// How severe a failed check is. Critical and high give FAIL, medium and low WARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing moves, or the process dies. Checked before every run.
    Critical,
    /// A wrong result, or a large slowdown.
    High,
    /// Some channels are affected, or the fault is intermittent.
    Medium,
    /// Inconvenient, and no transfer is affected.
    Low,
}

impl Severity {
    /// Whether the check gives FAIL rather than WARN.
    pub(crate) fn fails(self) -> bool {
        self <= Self::High
    }
}

/// One file of checks. Its checks may need checks of earlier layers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Short name, repeated in each row: `nic`.
    pub layer: String,
    /// Heading above the rows.
    pub title: String,
    /// Whether the checks compare two nodes. They then read the facts of both, and the
    /// results of probing the rails between them.
    #[serde(default)]
    pub both: bool,
    /// In the order in which they are printed.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Stable name, such as `rail-mtu`.
    pub id: String,
    /// What is true when the check passes, in a few words.
    pub title: String,
    /// Path of the fact that the check reads.
    #[serde(deserialize_with = "fact_path")]
    pub reads: FactPath,
    /// The condition on the fact.
    pub must: Must,
    /// The condition in words, if the text of `must` is not clear enough.
    pub expected: Option<String>,
    /// How severe a failure is.
    pub severity: Severity,
    /// Why it matters.
    pub why: String,
    /// What to do. `{name}` is replaced by the first failing element (`eth3`), `{value}` by
    /// the value that was read.
    #[serde(rename = "do")]
    pub next_step: String,
    /// The symptom that follows if the failure is ignored.
    pub prevents: String,
    /// Ids of checks that must not have failed; otherwise this check is UNKNOWN.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A fact that must be known and not false; otherwise the check is left out.
    #[serde(default, deserialize_with = "optional_path")]
    pub when: Option<FactPath>,
}

fn fact_path<'de, D: Deserializer<'de>>(from: D) -> Result<FactPath, D::Error> {
    String::deserialize(from)?
        .parse()
        .map_err(|error: BadPath| de::Error::custom(error))
}

fn optional_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FactPath>, D::Error> {
    fact_path(from).map(Some)
}
