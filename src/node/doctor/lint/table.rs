//! The table of known names: who reads what, within which range.
#![forbid(unsafe_code)]

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const EMBEDDED: &str = include_str!("../../../../probes/node/variables.toml");

/// Who reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reader {
    /// TCPX, by its 3.1.9 source.
    Plugin,
    /// NCCL.
    Nccl,
    /// The users' own programs.
    Harness,
    /// This program, or the software plugin.
    Tool,
    /// The CUDA runtime.
    Cuda,
    /// The dynamic loader.
    Loader,
    /// Nobody, though it is passed on.
    Nobody,
    /// Another product.
    Other,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Variable {
    /// Its name.
    pub name: String,
    /// Who reads it.
    pub read_by: Reader,
    /// Least and most, where it goes through the plugin's integer parser.
    pub integer: Option<(i64, i64)>,
    /// The published A3-high value.
    pub recommended: Option<String>,
    /// The name that is meant.
    pub instead: Option<String>,
    /// What the name really is.
    pub note: Option<String>,
}

/// A prefix that belongs to somebody as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Family {
    /// How its names begin.
    pub prefix: String,
    /// Who reads them.
    pub read_by: Reader,
    /// Whose they are.
    pub product: Option<String>,
    /// Prefixes within it whose names are all listed.
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

/// Everything that is known to be read.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub(super) variables: BTreeMap<String, Variable>,
    nccl: BTreeSet<String>,
    families: Vec<Family>,
}

impl Table {
    /// The embedded one.
    ///
    /// # Errors
    /// Data that does not parse; a test holds the embedded file against it.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// A table as text.
    ///
    /// # Errors
    /// The parser's words.
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

    /// What is known of one name by itself.
    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// The family a name belongs to, unless it is from a part that is listed.
    pub(crate) fn family(&self, name: &str) -> Option<&Family> {
        let begins = |prefix: &String| name.starts_with(prefix.as_str());
        self.families
            .iter()
            .find(|family| begins(&family.prefix) && !family.closed.iter().any(begins))
    }

    /// Whether NCCL itself reads it.
    pub(crate) fn is_nccl(&self, name: &str) -> bool {
        self.nccl.contains(name)
    }

    /// The known name nearest to one that is not known, where it is near enough
    /// to be what was meant: a third of its letters may differ, five at most.
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

/// A name without the prefixes that people swap: `NET_GPUDIRECTTCPX_X`,
/// `NCCL_GPUDIRECTTCPX_X` and `NCCL_X` are told apart by X.
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
    fn the_nearest_real_name_is_found_and_only_a_near_one() {
        let table = Table::embedded().unwrap();
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
    fn a_name_that_nobody_reads_is_never_the_one_that_was_meant() {
        let table = Table::embedded().unwrap();
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
