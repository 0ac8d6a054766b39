//! The table of known variables: which program reads each, and the range of its numbers.
#![forbid(unsafe_code)]

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const EMBEDDED: &str = include_str!("../../../../probes/node/variables.toml");

/// Who reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reader {
    /// TCPX, by the source of 3.1.9.
    Plugin,
    /// NCCL itself.
    Nccl,
    /// UCCL's test programs.
    Harness,
    /// This program, or the software plugin.
    Tool,
    /// The CUDA runtime.
    Cuda,
    /// The dynamic loader.
    Loader,
    /// Nothing, although scripts set it.
    Nobody,
    /// Another product.
    Other,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Variable {
    /// Name of the variable.
    pub name: String,
    /// The program that reads it.
    pub read_by: Reader,
    /// Least and greatest number, if the plugin's integer parser reads it.
    pub integer: Option<(i64, i64)>,
    /// The published A3-high value.
    pub recommended: Option<String>,
    /// The variable to set instead.
    pub instead: Option<String>,
    /// What the name stands for elsewhere.
    pub note: Option<String>,
}

/// A prefix whose names all have one reader.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Family {
    /// The prefix.
    pub prefix: String,
    /// The program that reads the names.
    pub read_by: Reader,
    /// The product that the names belong to.
    pub product: Option<String>,
    /// Longer prefixes whose names are all listed, so that any other is unknown.
    #[serde(default)]
    pub closed: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nccl: Vec<String>,
    variable: Vec<Variable>,
    family: Vec<Family>,
}

/// All known variables.
#[derive(Debug, Clone, Default)]
pub struct VariableTable {
    pub(super) variables: BTreeMap<String, Variable>,
    nccl: BTreeSet<String>,
    families: Vec<Family>,
}

impl VariableTable {
    /// The table embedded in the binary.
    ///
    /// # Errors
    /// The embedded file does not parse; a test makes sure that it does.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// Parses a table.
    ///
    /// # Errors
    /// The parser's message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self {
            variables: file
                .variable
                .into_iter()
                .map(|variable| (variable.name.clone(), variable))
                .collect(),
            nccl: file
                .nccl
                .into_iter()
                .map(|name| format!("NCCL_{name}"))
                .collect(),
            families: file.family,
        })
    }

    /// The variable of this name, if it is listed.
    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// The family of a name, unless a closed prefix excludes it.
    pub(crate) fn family(&self, name: &str) -> Option<&Family> {
        let begins = |prefix: &String| name.starts_with(prefix.as_str());
        self.families
            .iter()
            .find(|family| begins(&family.prefix) && !family.closed.iter().any(begins))
    }

    /// Whether NCCL itself reads the variable.
    pub(crate) fn is_nccl(&self, name: &str) -> bool {
        self.nccl.contains(name)
    }

    /// The known name nearest to an unknown one, if it is near enough to be the one that was
    /// meant: at most a third of the letters differ, and at most five.
    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        let read = |variable: &&Variable| variable.read_by != Reader::Nobody;
        let known = self
            .variables
            .values()
            .filter(read)
            .map(|variable| variable.name.as_str());
        let all = known.chain(self.nccl.iter().map(String::as_str));
        let distance = |other: &str| {
            (
                strsim::osa_distance(name, other),
                strsim::osa_distance(core(name), core(other)),
            )
        };
        let near = |other: &&str| {
            let (whole, tail) = distance(other);
            whole.min(tail) <= (core(name).len() / 3).min(5)
        };
        all.filter(near).min_by_key(|other| {
            let (whole, tail) = distance(other);
            (whole.min(tail), whole)
        })
    }
}

/// A name without its prefix, because prefixes are easily confused: `NET_GPUDIRECTTCPX_X`,
/// `NCCL_GPUDIRECTTCPX_X` and `NCCL_X` are compared by X.
fn core(name: &str) -> &str {
    let prefixes = [
        "NCCL_GPUDIRECTTCPX_",
        "NET_GPUDIRECTTCPX_",
        "GPUDIRECTTCPX_",
        "NCCL_TCPX_",
        "UCCL_TCPX_",
        "NCCL_",
    ];
    prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_suggested() {
        let table = VariableTable::embedded().unwrap();
        for (name, expected) in [
            ("NCCL_DYNAMIC_CHUNKSIZE", Some("NCCL_DYNAMIC_CHUNK_SIZE")),
            ("NCCL_NSOCKS_PER_THREAD", Some("NCCL_NSOCKS_PERTHREAD")),
            (
                "NCCL_GPUDIRECTTCPX_CTRL_DEVICE",
                Some("NCCL_GPUDIRECTTCPX_CTRL_DEV"),
            ),
            (
                "NET_GPUDIRECTTCPX_SOCKET_IFNAME",
                Some("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"),
            ),
            (
                "NCCL_GPUDIRECTTCPX_NSOCKS_PERTHREAD",
                Some("NCCL_NSOCKS_PERTHREAD"),
            ),
            (
                "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFX",
                Some("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"),
            ),
            ("UCCL_TCPX_CHUNK_BYTE", Some("UCCL_TCPX_CHUNK_BYTES")),
            ("NCCL_WHOLLY_INVENTED_SETTING", None),
        ] {
            assert_eq!(table.nearest(name), expected, "{name}");
        }
    }

    #[test]
    fn the_variable_to_set_instead_is_one_that_is_read() {
        let table = VariableTable::embedded().unwrap();
        for variable in table.variables.values() {
            if let Some(instead) = &variable.instead {
                assert!(
                    table.is_nccl(instead) || table.variable(instead).is_some(),
                    "{instead}"
                );
                assert_eq!(variable.read_by, Reader::Nobody, "{}", variable.name);
            }
        }
    }
}
