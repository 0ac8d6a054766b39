//! What the front of a log counts of nodes and ranks: whether all ranks of the job are of one node.
//!
//! A count of several nodes, or the number of a node that is not the first, is enough to say nothing.
//!
//! Not here: signatures of such lines. Commands and configurations may hold any name, so they do not leave with a log.
#![forbid(unsafe_code)]

use super::front::GPUS_OF_A_NODE;
use super::loggers::regex;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Counts, and numbers of nodes: `nnodes=1`, `"NUM_NODES": 1`, `--nnodes 1`, `world size 8`. A range is of several nodes.
static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)(?:\b(?:(?P<nodes>nnodes|num_nodes|num_machines|max_nodes|group_world_size|slurm_nnodes|slurm_job_num_nodes)|(?P<node>node[_-]rank|machine_rank|group_rank)|(?P<local>local_world_size|num_local_procs|nproc[_-]per[_-]node|n?_?gpus[_-]per[_-]node)|(?P<world>(?:dist_)?world[_ ]size)|(?P<tensor>tp[_-]size|tensor[_-]parallel[_-]size)|(?P<data>data[_-]parallel[_-]size)|(?P<pipeline>pp[_-]size|pipeline[_-]parallel[_-]size))|--(?:(?P<of_slurm>nodes)|(?P<tp>tp)))["']?(?: ?[=:] ?| )["']?(?P<count>\d{1,6})\b(?P<range>[:-]\d+)?"#,
    )
});

/// What a launcher of torch says of its ranks: `group_world_size=1 … global_world_sizes=[8, 8]`.
static WORLDS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bglobal_world_sizes=\[(?P<count>\d{1,6})\b"));

/// A worker of Ray on another host than the one that writes the log: `(RayWorker pid=71, ip=10.0.0.226)`.
static OF_RAY: LazyLock<Regex> = LazyLock::new(|| regex(r"\bpid=\d+, ip=\d"));

/// A host in the table of torchrun: `  host      : node-a`.
static HOST: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^\W*host +: (?P<host>[\w.-]+)"));
/// Most hosts that are kept: two are as good as many.
const HOSTS_MAX: usize = 2;

/// What the fronts of files count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OneNode {
    nodes: Values,
    /// Ranks of the job, and of a node.
    world: Values,
    local: Values,
    /// Ranks that share a model, its layers, and its requests.
    tensor: Values,
    pipeline: Values,
    data: Values,
    /// Whether the number of a node, or a worker, is of another node.
    has_other_node: bool,
    hosts: BTreeSet<Vec<u8>>,
}

impl OneNode {
    /// Reads the front of a file.
    pub(super) fn read(&mut self, front: &[u8]) {
        for found in COUNTS.captures_iter(front) {
            let count = std::str::from_utf8(&found["count"]);
            let Some(count) = count.ok().and_then(|count| count.parse().ok()) else {
                continue;
            };
            let is = |name: &str| found.name(name).is_some();
            let is_range = found
                .name("range")
                .is_some_and(|range| range.as_bytes() != b":1");
            match () {
                () if is("nodes") || is("of_slurm") => {
                    let nodes = if is_range { u32::MAX } else { count };
                    self.nodes.add(nodes);
                }
                () if is("node") => self.has_other_node |= count > 0,
                () if is("local") => self.local.add(count),
                () if is("world") => self.world.add(count),
                () if is("tensor") || is("tp") => self.tensor.add(count),
                () if is("data") => self.data.add(count),
                () => self.pipeline.add(count),
            }
        }
        for found in WORLDS.captures_iter(front) {
            let count = std::str::from_utf8(&found["count"]);
            if let Some(count) = count.ok().and_then(|count| count.parse().ok()) {
                self.world.add(count);
            }
        }
        self.has_other_node |= OF_RAY.is_match(front);
        for found in HOST.captures_iter(front) {
            self.add_host(found["host"].to_vec());
        }
    }

    fn add_host(&mut self, host: Vec<u8>) {
        if self.hosts.len() < HOSTS_MAX {
            self.hosts.insert(host);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.nodes.merge(other.nodes);
        self.world.merge(other.world);
        self.local.merge(other.local);
        self.tensor.merge(other.tensor);
        self.pipeline.merge(other.pipeline);
        self.data.merge(other.data);
        self.has_other_node |= other.has_other_node;
        other.hosts.into_iter().for_each(|one| self.add_host(one));
    }

    /// The ranks of the job and why all are of one node, if the fronts say so.
    pub(super) fn ranks(&self) -> Option<(u32, String)> {
        let is_several = self.has_other_node
            || self.nodes.most > 1
            || self.world.most > GPUS_OF_A_NODE
            || self.hosts.len() > 1;
        if is_several {
            return None;
        }
        self.of_counts()
    }

    fn of_counts(&self) -> Option<(u32, String)> {
        // Copies of a model that share its requests may each be a job of its own.
        if self.data.most > 1 {
            return None;
        }
        let ranks = match self.world.most {
            0 => self.local.most.max(self.tensor.most),
            world => world,
        };
        if ranks > 1 && self.nodes.only() == Some(1) {
            let why = format!("the job is of one node, by its own count, and of {ranks} ranks");
            return Some((ranks, why));
        }
        let world = self.world.only().filter(|world| *world > 1)?;
        (self.local.only() == Some(world)).then(|| {
            let why = format!("the ranks of this node are all {world} ranks of the job");
            (world, why)
        })
    }
}

/// The least and the most of some counts, 0 if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Values {
    least: u32,
    most: u32,
}

impl Values {
    fn add(&mut self, value: u32) {
        self.merge(Self {
            least: value,
            most: value,
        });
    }

    fn merge(&mut self, other: Self) {
        self.least = match (self.least, other.least) {
            (0, one) | (one, 0) => one,
            (one, other) => one.min(other),
        };
        self.most = self.most.max(other.most);
    }

    /// The one count, if there are no others.
    fn only(self) -> Option<u32> {
        (self.most > 0 && self.least == self.most).then_some(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn ranks(log: &str) -> Option<u32> {
        let mut of = OneNode::default();
        of.read(log.as_bytes());
        of.ranks().map(|(ranks, _)| ranks)
    }

    #[test]
    fn counts_tell_that_a_job_is_of_one_node() {
        for (log, expected) in [
            (
                "nnodes=1, num_local_procs=4, node_rank=0\ndist_world_size=4\n",
                Some(4),
            ),
            ("{'nnodes': 1, 'nproc_per_node': 2}\n", Some(2)),
            ("\"NUM_NODES\": 1,\n\"WORLD_SIZE\": 8,\n", Some(8)),
            (
                "group_world_size=1 global_world_sizes=[4, 4, 4, 4]\n",
                Some(4),
            ),
            ("WORLD_SIZE=8 LOCAL_WORLD_SIZE=8\n", Some(8)),
            (
                "server_args=ServerArgs(tp_size=4, dp_size=1, nnodes=1, node_rank=0)\n",
                Some(4),
            ),
            ("WORLD_SIZE=8 LOCAL_WORLD_SIZE=4\n", None),
            ("WORLD_SIZE=8\n", None),
            ("LOCAL_WORLD_SIZE=8\n", None),
            ("nnodes=1 world_size=1\n", None),
            ("nnodes=1 world_size=8\nnnodes=2\n", None),
            ("--nnodes=1:4 --nproc_per_node=8\n", None),
            ("--nnodes=1 --nproc_per_node=8 --node_rank=1\n", None),
            ("nnodes=1 world_size=16\n", None),
            (
                "nnodes=1 tensor_parallel_size=2 data_parallel_size=2\n",
                None,
            ),
            (
                "nnodes=1 tp_size=2\n(RayWorker pid=71, ip=10.0.0.226) ready\n",
                None,
            ),
            (
                "nnodes=1 world_size=2\n  host      : node-a\n  host      : node-b\n",
                None,
            ),
        ] {
            assert_eq!(ranks(log), expected, "{log}");
        }
    }
}
