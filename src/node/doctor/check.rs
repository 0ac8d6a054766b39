//! A check as `probes/node/*.toml` has it.
#![forbid(unsafe_code)]

use super::path::{BadPath, FactPath};
use super::predicate::Must;
use serde::{Deserialize, Deserializer, Serialize, de};

/// How bad a broken check is. The first two FAIL, the others WARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing moves, or the process dies; looked at before every run.
    Critical,
    /// A wrong result, or a large slowdown.
    High,
    /// Partial, or now and then.
    Medium,
    /// A nuisance.
    Low,
}

impl Severity {
    /// Whether breaking it is a failure, and not a warning.
    pub(crate) fn fails(self) -> bool {
        self <= Self::High
    }
}

/// One file: a layer, whose checks need the layers before it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Short name, in the row.
    pub layer: String,
    /// Its heading.
    pub title: String,
    /// Whether its checks are about two nodes: they read the facts of both, and
    /// what was tried between them.
    #[serde(default)]
    pub both: bool,
    /// In the order in which they are shown.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// A stable name that people can quote.
    pub id: String,
    /// What holds when it passes, in a few words.
    pub title: String,
    /// The fact.
    #[serde(deserialize_with = "fact_path")]
    pub reads: FactPath,
    /// What must hold of it.
    pub must: Must,
    /// The condition in words, where its own are not enough.
    pub expected: Option<String>,
    /// How bad it is when it does not.
    pub severity: Severity,
    /// Why it matters.
    pub why: String,
    /// What to do. `{name}` stands for what it is about (`eth3`), `{value}` for
    /// the value seen.
    #[serde(rename = "do")]
    pub next_step: String,
    /// The failure that people see without it.
    pub prevents: String,
    /// Checks that must pass, else this one says nothing.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A fact that must be there, else this check is not one for this node.
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
