//! Which GPUs and NICs take part, and on which CPUs their workers run.
//!
//! `auto` and `nearest` are answered by the machine's facts, not here.
#![forbid(unsafe_code)]

use super::checked::Scenario;
use crate::ids::Lane;
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
    /// Which GPU of the first node exchanges messages with which of the second.
    pub lanes: GpuLanes,
    /// Connections of the lanes of single GPUs of the first node, instead of
    /// `transfer.connections`.
    pub gpu_connections: BTreeMap<String, u32>,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            processes: Processes::PerGpu,
            gpus: Gpus::Auto,
            nics: Nics::Auto,
            map: NicMap::Nearest,
            lanes: GpuLanes::Same,
            gpu_connections: BTreeMap::new(),
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

/// Which GPU of the first node exchanges messages with which of the second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GpuLanes {
    /// The one with its own number.
    Same,
    /// Every one: a lane for each two GPUs.
    All,
    /// By hand: GPU of the first node to GPU of the second, or to several.
    #[serde(untagged)]
    Fixed(BTreeMap<String, PeerGpus>),
}

/// GPUs of the second node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub enum PeerGpus {
    /// One.
    One(u32),
    /// Several.
    Several(Vec<u32>),
}

impl PeerGpus {
    /// The numbers.
    pub fn numbers(&self) -> &[u32] {
        match self {
            Self::One(gpu) => std::slice::from_ref(gpu),
            Self::Several(gpus) => gpus,
        }
    }
}

impl GpuLanes {
    /// The lanes between these GPUs of two nodes, by the GPUs of the first node.
    ///
    /// # Errors
    /// A GPU of the map that does not take part.
    pub fn between(&self, first: &[u32], second: &[u32]) -> Result<Vec<Lane>, String> {
        let to = |gpu: u32, peers: &[u32]| -> Vec<Lane> {
            peers.iter().map(|peer| Lane::between(gpu, *peer)).collect()
        };
        let map = match self {
            Self::Same => return Ok(first.iter().map(|gpu| Lane::Gpu(*gpu)).collect()),
            Self::All => return Ok(first.iter().flat_map(|gpu| to(*gpu, second)).collect()),
            Self::Fixed(map) => map,
        };
        let mut lanes = Vec::new();
        for gpu in first {
            let peers = map.get(&gpu.to_string());
            lanes.extend(to(*gpu, peers.map_or(&[], PeerGpus::numbers)));
        }
        let takes_part = |gpus: &[u32], gpu: &str| gpus.iter().any(|one| one.to_string() == gpu);
        if let Some(gpu) = map.keys().find(|gpu| !takes_part(first, gpu)) {
            return Err(format!(
                "topology.lanes has GPU {gpu} of the first node, and the run has {}",
                listed(first)
            ));
        }
        let mut peers = map.values().flat_map(PeerGpus::numbers);
        match peers.find(|gpu| !second.contains(gpu)) {
            Some(gpu) => Err(format!(
                "topology.lanes has GPU {gpu} of the second node, and the run has {}",
                listed(second)
            )),
            None => Ok(lanes),
        }
    }
}

/// `GPU 0, 1, 5`, or `no GPUs`.
fn listed(gpus: &[u32]) -> String {
    let numbers: Vec<String> = gpus.iter().map(u32::to_string).collect();
    match gpus {
        [] => "no GPUs".to_owned(),
        _ => format!("GPU {}", numbers.join(", ")),
    }
}

impl Topology {
    /// Checks that every GPU with connections of its own takes part.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check_connections(&self, first: &[u32]) -> Result<(), String> {
        let takes_part = |gpu: &String| first.iter().any(|one| one.to_string() == *gpu);
        match self.gpu_connections.keys().find(|gpu| !takes_part(gpu)) {
            Some(gpu) => Err(format!(
                "topology.gpu_connections has GPU {gpu}, and the first node has {}",
                listed(first)
            )),
            None => Ok(()),
        }
    }
}

impl Scenario {
    /// The connections of a lane of a pair.
    pub fn connections_of(&self, lane: Lane) -> u32 {
        let own = lane.gpus().map(|[gpu, _]| gpu.to_string());
        let own = own.and_then(|gpu| self.topology.gpu_connections.get(&gpu));
        own.copied().unwrap_or(self.transfer.connections)
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
    fn lanes_are_of_equal_numbers_of_all_or_of_a_map_that_can_be_kept() {
        let lanes = |text: &str| {
            let lanes: GpuLanes = serde_json::from_str(text).expect("lanes");
            let lanes = lanes.between(&[0, 1], &[0, 1, 2])?;
            let words: Vec<String> = lanes.iter().map(Lane::to_string).collect();
            Ok::<_, String>(words.join(" "))
        };
        let check = |text, expected: &str| assert_eq!(lanes(text).as_deref(), Ok(expected));
        check("\"same\"", "gpu 0 gpu 1");
        check("\"all\"", "gpu 0 gpu 0->1 gpu 0->2 gpu 1->0 gpu 1 gpu 1->2");
        check(r#"{"1": [2, 0], "0": 1}"#, "gpu 0->1 gpu 1->2 gpu 1->0");
        check(r#"{"1": 1}"#, "gpu 1");
        let refused = |text| lanes(text).expect_err("refused");
        assert_eq!(
            refused(r#"{"2": 0}"#),
            "topology.lanes has GPU 2 of the first node, and the run has GPU 0, 1"
        );
        assert_eq!(
            refused(r#"{"0": [1, 7]}"#),
            "topology.lanes has GPU 7 of the second node, and the run has GPU 0, 1, 2"
        );
    }

    #[test]
    fn a_gpu_may_have_connections_of_its_own() {
        let mut scenario = Scenario::default();
        scenario.topology.gpu_connections.insert("1".into(), 9);
        assert_eq!(scenario.connections_of(Lane::between(1, 0)), 9);
        assert_eq!(
            scenario.connections_of(Lane::between(0, 1)),
            scenario.transfer.connections
        );
        assert_eq!(
            scenario.connections_of(Lane::Host),
            scenario.transfer.connections
        );
        assert_eq!(scenario.topology.check_connections(&[0, 1]), Ok(()));
        assert_eq!(
            scenario.topology.check_connections(&[0]),
            Err("topology.gpu_connections has GPU 1, and the first node has GPU 0".into())
        );
    }

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
