//! Which GPUs and NICs take part, and on which CPUs their workers run.
//!
//! `auto` and `nearest` are answered by the machine's facts, not here.
#![forbid(unsafe_code)]

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use tcpx_words::word_set;

/// Which GPUs and NICs take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Topology {
    /// Who holds which plugin instance.
    pub processes: Processes,
    /// The GPUs of each node.
    pub gpus: Gpus,
    /// The data NICs of each node.
    pub nics: Nics,
    /// Which GPU uses which NIC.
    pub map: NicMap,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            processes: Processes::PerGpu,
            gpus: Gpus::Auto,
            nics: Nics::Auto,
            map: NicMap::Nearest,
        }
    }
}

word_set! {
    /// Who holds which plugin instance.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Processes {
        /// One worker per GPU.
        PerGpu = "per-gpu",
        /// One worker for all GPUs.
        Single = "single",
    }
}

/// The GPUs of each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gpus {
    /// All GPUs; a host pair if there is none.
    Auto,
    /// All GPUs; this many stand-ins over host memory if there is none.
    OrStandIns(u32),
    /// This many stand-ins over host memory.
    StandIns(u32),
    /// These CUDA devices.
    #[serde(untagged)]
    List(Vec<u32>),
}

/// The data NICs of each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Nics {
    /// Every interface that is up, except the one that routes to the peer.
    Auto,
    /// The first of those, this many.
    First(u32),
    /// These interfaces.
    #[serde(untagged)]
    List(Vec<String>),
}

/// Which GPU uses which NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NicMap {
    /// The NIC that shares the GPU's PCI root.
    Nearest,
    /// In turn.
    RoundRobin,
    /// Every NIC: the connections of each GPU are dealt over all of them.
    All,
    /// By hand: CUDA device to interface, or to several that its connections are dealt over.
    #[serde(untagged)]
    Fixed(BTreeMap<String, MappedNics>),
}

/// The interfaces of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub enum MappedNics {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl MappedNics {
    /// The names.
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

/// CPU sets of the workers. The most specific one holds: NIC, node, role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Bindings {
    /// Of every sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<CpuSet>,
    /// Of every receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recv: Option<CpuSet>,
    /// By node name.
    pub node: BTreeMap<String, CpuSet>,
    /// By interface.
    pub nic: BTreeMap<String, CpuSet>,
}

/// CPUs as the kernel lists them: `"0-3,8"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// One more than the highest CPU a set may name (the kernel's own bound).
const CPUS_MAX: u32 = 8192;

impl CpuSet {
    /// The CPUs, ascending; never none.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl FromStr for CpuSet {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| {
                digits
                    .trim()
                    .parse::<u32>()
                    .ok()
                    .filter(|cpu| *cpu < CPUS_MAX)
            };
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err("not a CPU list".to_owned()),
            }
        }
        Ok(Self(cpus))
    }
}

impl TryFrom<String> for CpuSet {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> Self {
        cpus.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for cpu in self.cpus() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        let runs = runs.iter().map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        });
        f.pad(&runs.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sets_read_and_print_like_the_kernel_s() {
        for (text, printed) in [
            ("0", "0"),
            ("0-3,8", "0-3,8"),
            ("3,1,2", "1-3"),
            ("1-2,2-4, 9", "1-4,9"),
        ] {
            assert_eq!(
                text.parse::<CpuSet>().map(|set| set.to_string()),
                Ok(printed.to_owned()),
                "{text}"
            );
        }
        for text in ["", ",", "3-1", "-1", "x", "0-99999999", "8192", "1,,2"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }
}
