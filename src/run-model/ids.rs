//! The participants of a run: nodes, pairs of workers, lanes, and their display names.
//!
//! An id is an index into a list of the run and is valid within that run only. A *pair* is two
//! workers on two nodes that move bytes between them. Its *lanes* are the memories they move
//! bytes for: host memory, or GPUs. A run with one worker per GPU has one pair per GPU; a run
//! with one worker per node has one pair with one lane per GPU.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fmt;
use tcpx_words::units::printable;

/// A node of a run: its index in `nodes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The index into the run's list of nodes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pair of workers: its index in `pairs`, and the number under which each agent keeps its
/// worker of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PairId(pub u32);

impl PairId {
    /// The index into the run's list of pairs.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The memory that a pair moves bytes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Host memory.
    Host,
    /// One GPU of each node, the same number of CUDA's on both.
    Gpu(u32),
    /// One GPU of each node, with different numbers: of a pair's first node and its second, or
    /// of a transfer's sender and its receiver.
    Gpus(u32, u32),
}

impl Lane {
    /// A lane between two GPUs.
    pub const fn between(first: u32, second: u32) -> Self {
        if first == second {
            Self::Gpu(first)
        } else {
            Self::Gpus(first, second)
        }
    }

    /// CUDA's numbers of the GPUs; `None` for host memory.
    pub const fn gpus(self) -> Option<[u32; 2]> {
        match self {
            Self::Host => None,
            Self::Gpu(gpu) => Some([gpu, gpu]),
            Self::Gpus(first, second) => Some([first, second]),
        }
    }

    /// The lane as seen from the other end.
    pub const fn reversed(self) -> Self {
        match self {
            Self::Gpus(first, second) => Self::Gpus(second, first),
            same => same,
        }
    }
}

impl From<Option<u32>> for Lane {
    fn from(gpu: Option<u32>) -> Self {
        gpu.map_or(Self::Host, Self::Gpu)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Gpu(gpu) => write!(f, "gpu {gpu}"),
            Self::Gpus(first, second) => write!(f, "gpu {first}->{second}"),
        }
    }
}

/// A worker of a run or a process that was found: what drives channels on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// The worker of a pair.
    Pair(PairId),
    /// A process that was found by its recorder.
    Process {
        /// Its process id.
        pid: u32,
        /// Number of the recorder within the process, from 0.
        recorder: u32,
    },
}

/// One worker of a run, or one process that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId {
    /// The node it runs on.
    pub node: NodeId,
    /// Its pair or its process id on that node.
    pub unit: Unit,
}

impl WorkerId {
    /// The worker of `pair` on `node`.
    pub const fn of_pair(node: NodeId, pair: PairId) -> Self {
        Self {
            node,
            unit: Unit::Pair(pair),
        }
    }

    /// Its pair; `None` for a process that no run started.
    pub const fn pair(self) -> Option<PairId> {
        match self.unit {
            Unit::Pair(pair) => Some(pair),
            Unit::Process { .. } => None,
        }
    }
}

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The run as a whole.
    Run,
    /// A pair: both its workers.
    Pair(PairId),
    /// A node and its agent.
    Node(NodeId),
    /// One worker.
    Worker(WorkerId),
}

/// Names of a node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIntro {
    /// Display name: see [`shown_names`].
    pub name: String,
    /// The address from the command line.
    pub address: String,
}

impl NodeIntro {
    /// Without control characters, because it came from a file or another node.
    pub(crate) fn printable(&self) -> Self {
        Self {
            name: printable(&self.name),
            address: printable(&self.address),
        }
    }
}

/// Nodes and lanes of a pair of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairIntro {
    /// The nodes of the two workers. With direction `forward` the first one sends.
    pub nodes: [NodeId; 2],
    /// The lanes, in the scenario's order.
    pub lanes: Vec<Lane>,
    /// The rail that the pair uses, in a mesh that measures each rail by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<Rail>,
    /// The round of the mesh that the pair is measured in, from 0; retests are rounds too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
}

impl PairIntro {
    /// A pair that uses every rail.
    pub fn new(nodes: [NodeId; 2], lanes: Vec<Lane>) -> Self {
        Self {
            nodes,
            lanes,
            rail: None,
            round: None,
        }
    }
}

/// A rail of a mesh: the data interfaces of the two nodes with the same place in their lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// Place in the list of data interfaces, from 0.
    pub number: u32,
    /// The interface of each node.
    pub nics: [String; 2],
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.nics {
            [first, second] if first == second => f.write_str(&printable(first)),
            [first, second] => write!(f, "{}-{}", printable(first), printable(second)),
        }
    }
}

/// Display names of the nodes with these addresses: `local` and `peer` for two nodes that are no
/// mesh, otherwise those of a mesh.
pub fn shown_names(addresses: &[&str]) -> Vec<String> {
    match addresses {
        [_, _] => vec!["local".to_owned(), "peer".to_owned()],
        _ => mesh_names(addresses),
    }
}

/// Display names of the nodes of a mesh: their addresses, numbered if one is repeated.
pub fn mesh_names(addresses: &[&str]) -> Vec<String> {
    let numbered = |(index, address): (usize, &&str)| {
        let before = addresses[..index]
            .iter()
            .filter(|other| *other == address)
            .count();
        if before == 0 {
            (*address).to_owned()
        } else {
            format!("{address}#{}", before + 1)
        }
    };
    addresses.iter().enumerate().map(numbered).collect()
}

/// Display names of a run's nodes and pairs, from its `nodes` and `pairs` events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Nodes, by [`NodeId`].
    pub nodes: Vec<NodeIntro>,
    /// Pairs, by [`PairId`].
    pub pairs: Vec<PairIntro>,
}

impl Names {
    /// `local`; `node 3` for an unknown node; empty if the only node is this machine.
    pub fn node(&self, node: NodeId) -> String {
        match self.nodes.get(node.index()) {
            Some(intro) => intro.name.clone(),
            None => format!("node {}", node.0),
        }
    }

    /// `peer gpu 3`, `a3-1 with a3-2`, `pid 4242`.
    pub fn worker(&self, worker: WorkerId) -> String {
        format!("{} {}", self.node(worker.node), self.unit(worker))
            .trim()
            .to_owned()
    }

    /// The part of the name that distinguishes a worker from the others on its node: `gpu 3`,
    /// `with a3-2`, `pid 4242`; empty if it is the only one.
    pub fn unit(&self, worker: WorkerId) -> String {
        match worker.unit {
            Unit::Process { pid, recorder: 0 } => format!("pid {pid}"),
            Unit::Process { pid, recorder } => format!("pid {pid} #{}", recorder + 1),
            Unit::Pair(pair) => self.pair_suffix(worker.node, pair),
        }
    }

    /// The name of an event's subject; `coordinator` for the run.
    pub fn who(&self, who: Who) -> String {
        match who {
            Who::Run => "coordinator".to_owned(),
            Who::Node(node) => self.node(node),
            Who::Worker(worker) => self.worker(worker),
            Who::Pair(pair) => match self.pairs.get(pair.index()) {
                Some(intro) => intro
                    .nodes
                    .map(|node| self.worker(WorkerId::of_pair(node, pair)))
                    .join(" and "),
                None => format!("pair {}", pair.0),
            },
        }
    }

    /// `local->peer`, `local->peer@gpu3` for one GPU of each, `local->peer@gpu3->5` for two.
    pub fn direction(&self, from: NodeId, to: NodeId, lane: Lane) -> String {
        let gpu = match lane {
            Lane::Host => String::new(),
            Lane::Gpu(gpu) => format!("@gpu{gpu}"),
            Lane::Gpus(first, second) => format!("@gpu{first}->{second}"),
        };
        format!("{}->{}{gpu}", self.node(from), self.node(to))
    }

    /// The node at the other end of a pair.
    pub fn other_end(&self, node: NodeId, pair: PairId) -> Option<NodeId> {
        let [first, second] = self.pairs.get(pair.index())?.nodes;
        if node == first {
            Some(second)
        } else {
            (node == second).then_some(first)
        }
    }

    /// The part of the name that distinguishes the worker of `pair` from the others on `node`.
    fn pair_suffix(&self, node: NodeId, pair: PairId) -> String {
        let Some(this) = self.pairs.get(pair.index()) else {
            return if pair.0 == 0 {
                String::new()
            } else {
                format!("pair {}", pair.0)
            };
        };
        let here = || {
            self.pairs
                .iter()
                .filter(|other| other.nodes.contains(&node))
        };
        let is_same = |other: &PairIntro| {
            other.nodes == this.nodes || other.nodes == [this.nodes[1], this.nodes[0]]
        };
        let mut words = Vec::new();
        if here().any(|other| !is_same(other))
            && let Some(other) = self.other_end(node, pair)
        {
            words.push(format!("with {}", self.node(other)));
        }
        if here().filter(|other| is_same(other)).count() > 1 {
            let rail = this.rail.as_ref().map(|rail| format!("rail {rail}"));
            let gpu = match this.lanes[..] {
                [lane @ (Lane::Gpu(_) | Lane::Gpus(..))] => Some(lane.to_string()),
                _ => None,
            };
            let known = words.len();
            words.extend(rail.into_iter().chain(gpu));
            if words.len() == known {
                words.push(format!("pair {}", pair.0));
            }
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(addresses: &[&str], pairs: &[([u32; 2], &[Lane])]) -> Names {
        let node = |(name, address): (String, &&str)| NodeIntro {
            name,
            address: (*address).to_owned(),
        };
        let pair = |(nodes, lanes): &([u32; 2], &[Lane])| PairIntro {
            nodes: nodes.map(NodeId),
            lanes: lanes.to_vec(),
            rail: None,
            round: None,
        };
        Names {
            nodes: shown_names(addresses)
                .into_iter()
                .zip(addresses)
                .map(node)
                .collect(),
            pairs: pairs.iter().map(pair).collect(),
        }
    }

    fn check(names: &Names, node: u32, pair: u32, expected: &str) {
        assert_eq!(
            names.worker(WorkerId::of_pair(NodeId(node), PairId(pair))),
            expected
        );
    }

    #[test]
    fn two_nodes_are_local_and_peer_and_gpus_tell_their_workers_apart() {
        let one = names(&["here", "10.0.0.226"], &[([0, 1], &[Lane::Host])]);
        check(&one, 0, 0, "local");
        check(&one, 1, 0, "peer");
        let gpus = names(
            &["here", "10.0.0.226"],
            &[([0, 1], &[Lane::Gpu(4)]), ([0, 1], &[Lane::Gpu(5)])],
        );
        check(&gpus, 1, 0, "peer gpu 4");
        check(&gpus, 0, 1, "local gpu 5");
        assert_eq!(gpus.who(Who::Pair(PairId(1))), "local gpu 5 and peer gpu 5");
    }

    #[test]
    fn with_more_nodes_a_worker_is_named_with_its_node_and_the_other_node() {
        let three = names(
            &["a3-0", "a3-1", "a3-1"],
            &[([0, 1], &[Lane::Host]), ([1, 2], &[Lane::Host])],
        );
        check(&three, 0, 0, "a3-0");
        check(&three, 1, 0, "a3-1 with a3-0");
        check(&three, 1, 1, "a3-1 with a3-1#2");
        check(&three, 2, 1, "a3-1#2");
    }

    #[test]
    fn rails_and_gpus_tell_the_workers_of_two_nodes_apart() {
        let lanes: &[Lane] = &[Lane::Gpu(3)];
        let mut two = names(&["a3-0", "a3-1"], &[([0, 1], lanes), ([0, 1], lanes)]);
        let rail = |number, nics: [&str; 2]| {
            Some(Rail {
                number,
                nics: nics.map(str::to_owned),
            })
        };
        two.pairs[0].rail = rail(0, ["eth1", "eth1"]);
        two.pairs[1].rail = rail(1, ["eth2", "ens5"]);
        check(&two, 0, 0, "local rail eth1 gpu 3");
        check(&two, 1, 1, "peer rail eth2-ens5 gpu 3");
        two.pairs[1].lanes = vec![Lane::Host];
        check(&two, 1, 1, "peer rail eth2-ens5");
    }

    #[test]
    fn a_lane_of_two_gpus_is_named_by_both_and_read_from_either_end() {
        let crossed = Lane::between(3, 5);
        assert_eq!(crossed.to_string(), "gpu 3->5");
        assert_eq!(crossed.reversed(), Lane::between(5, 3));
        assert_eq!(Lane::between(3, 3).reversed(), Lane::Gpu(3));
        let two = names(
            &["here", "there"],
            &[([0, 1], &[crossed]), ([0, 1], &[Lane::Gpu(3)])],
        );
        check(&two, 1, 0, "peer gpu 3->5");
        let direction = two.direction(NodeId(1), NodeId(0), crossed.reversed());
        assert_eq!(direction, "peer->local@gpu5->3");
    }

    #[test]
    fn unknown_nodes_and_found_processes_have_names() {
        let unknown = Names::default();
        check(&unknown, 7, 0, "node 7");
        check(&unknown, 7, 2, "node 7 pair 2");
        let process = WorkerId {
            node: NodeId(0),
            unit: Unit::Process {
                pid: 4242,
                recorder: 1,
            },
        };
        let here = names(&[""], &[]);
        assert_eq!(here.worker(process), "pid 4242 #2");
        assert_eq!(here.other_end(NodeId(0), PairId(0)), None);
    }
}
