//! The identity of a scenario: its hash.
//!
//! A scenario is flattened to its leaves, `transfer.chunk = "512KiB"`, sorted by
//! key. The hash is taken over them, so neither the order of the keys in a file
//! nor that of the fields in the source matters, and a default is the same as
//! the same value written out. Both ends of a run compare the hash; `tcpx-coord`'s
//! bootstrap compares the leaves and names the first key that differs.
#![forbid(unsafe_code)]

use super::checked::Scenario;
use super::error::ScenarioError;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

impl Scenario {
    /// Every value under its dotted key, as JSON text; lists are one value.
    pub fn leaves(&self) -> BTreeMap<String, String> {
        let tree = serde_json::to_value(self)
            .expect("a scenario holds text, numbers, lists and text-keyed maps only");
        let mut leaves = BTreeMap::new();
        flatten(&tree, &mut Vec::new(), &mut leaves);
        leaves
    }

    /// SHA-256 over the leaves, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for (key, value) in self.leaves() {
            hasher.update(key.as_bytes());
            hasher.update(b"=");
            hasher.update(value.as_bytes());
            hasher.update(b"\n");
        }
        hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Reads a scenario that another process sent as JSON.
    ///
    /// # Errors
    /// JSON that is not a scenario, or a value outside its range.
    pub fn from_json(json: &str) -> Result<Self, ScenarioError> {
        let scenario: Self =
            serde_json::from_slice(json.as_bytes()).map_err(ScenarioError::Json)?;
        scenario.check()?;
        Ok(scenario)
    }
}

fn flatten(tree: &Value, path: &mut Vec<String>, leaves: &mut BTreeMap<String, String>) {
    match tree {
        Value::Object(table) => {
            for (key, value) in table {
                path.push(key.clone());
                flatten(value, path, leaves);
                path.pop();
            }
        }
        Value::Null => {}
        leaf => {
            leaves.insert(dotted(path), leaf.to_string());
        }
    }
}

/// A key path as TOML writes it, quoting the parts that are not bare, such as
/// `env.node."10.0.1.25".NCCL_DEBUG`.
pub(super) fn dotted(path: &[impl AsRef<str>]) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let parts = path.iter().map(|part| match part.as_ref() {
        bare if !bare.is_empty() && bare.chars().all(is_bare) => bare.to_owned(),
        other => Value::from(other).to_string(),
    });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_defaults_is_this_one() {
        // It changes only when a key, a default or the flattening does, and then
        // two builds must not call their scenarios the same.
        insta::assert_snapshot!(Scenario::default().hash(), @"7d8271192bffcc04d32d7f5f389a80b80a41501ce16910db36f5d1648b7d1164");
    }
}
