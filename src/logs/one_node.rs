//! Counts of nodes and ranks at the front of a log: whether all ranks of the job run on one node.
//!
//! A count of several nodes, or the number of a node that is not the first, is enough to say nothing.
//!
//! Not here: signatures of such lines. Commands and configurations may hold any name, so they do not leave with a log.
#![forbid(unsafe_code)]

use super::front::GPUS_OF_A_NODE;
use super::loggers::regex;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Counts, and numbers of nodes: `nnodes=1`, `"NUM_NODES": 1`, `--nnodes 1`, `world size 8`. A range is of several nodes.
static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)(?:\b(?:(?P<nodes>(?:pet_)?nnodes|num_nodes|num_machines|max_nodes|group_world_size|slurm_nnodes|slurm_job_num_nodes)|(?P<node>node[_-]rank|machine_rank|group_rank)|(?P<local>local_world_size|num_local_procs|nproc[_-]per[_-]node|n?_?gpus[_-]per[_-]node)|(?P<world>(?:dist_)?world[_ ]size)|(?P<tensor>tp[_-]size|tensor[_-]parallel[_-]size)|(?P<data>data[_-]parallel[_-]size)|(?P<pipeline>pp[_-]size|pipeline[_-]parallel[_-]size))|--(?:(?P<of_slurm>nodes)|(?P<tp>tp)))["']?(?: ?[=:] ?| )["']?(?P<count>\d{1,6})\b(?P<range>[:-]\d+)?"#,
    )
});

/// What a launcher of torch says of its ranks: `group_world_size=1 … global_world_sizes=[8, 8]`.
static WORLDS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bglobal_world_sizes=\[(?P<count>\d{1,6})\b"));

/// A rank: `rank=0`, `"LOCAL_RANK": "0"`, `rank      : 1 (local_rank: 1)`.
static RANK: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)\b(?P<of>[a-z]+[_ -]?)?rank["']?(?: *[=:] *| )["']?(?P<rank>\d{1,5})\b(?:/(?P<world>\d{1,5}) on CUDA device (?P<device>\d{1,3})\b)?"#,
    )
});
/// Words before a rank that is of something else than of the job or of a node.
const RANKS_OF_PARTS: [&str; 18] = [
    "node", "machine", "group", "role", "tp", "pp", "dp", "ep", "cp", "sp", "data", "pipeline",
    "tensor", "model", "expert", "moe", "parallel", "dcp",
];

/// What a process of accelerate says of itself, in lines of one block.
static OF_ACCELERATE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bNum processes: (?P<world>\d{1,5})\s{1,8}Process index: (?P<rank>\d{1,5})\s{1,8}Local process index: (?P<local>\d{1,5})\s",
    )
});

/// A rank of a communicator of NCCL, and the number of its GPU on its node: `rank 3 nranks 4 cudaDev 3`.
static RANK_OF_COMM: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\brank (?P<rank>\d{1,5}) nranks (?P<ranks>\d{1,5}) cudaDev (?P<device>\d{1,3})\b")
});
/// The least ranks of a communicator whose GPUs' numbers tell that they are of one node: with fewer, a program may have
/// taken the rank for the number of the GPU.
const RANKS_BY_GPU: u32 = 4;

/// What NCCL says to be reached from a GPU: `GPU/23000 :GPU/1000 (2/24.0/PHB) GPU/23000 (0/5000.0/LOC) CPU/0 (1/24.0/PHB)`.
static PATHS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"NCCL INFO GPU/[0-9A-Fa-f-]+ :(?P<paths>GPU/[^\n]*\)) *\r?\n"));
const OF_GPU: &[u8] = b"GPU/";
const OF_NET: &[u8] = b"NET/";

/// A line of NCCL of a GPU of a process, and a ring of all ranks: `Channel 01/24 :    0   1`.
static OF_DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?P<process>[\w.-]+:\d+):\d+ \[(?P<device>\d{1,3})\] NCCL INFO (?:Channel \d+/\d+ :(?P<ring>(?: +\d+)+) *\r?\n)?",
    )
});
/// The interface over which NCCL's ranks meet: `Bootstrap : Using [0]lo:127.0.0.1<0>`.
static BOOTSTRAP: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"Bootstrap : Using (?:\[0\])?(?P<interface>[\w.-]+):(?P<address>\S+)<")
});
/// Most processes whose GPUs are kept.
const PROCESSES_MAX: usize = 16;

/// A worker of a model's tensor-parallel ranks: SGLang's `[08:14:04 TP1]`, vLLM's `(Worker_TP1 pid=71)`.
static WORKER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:\[[^\[\]\n]{0,40}\bTP|\(Worker_TP|\(VllmWorker rank=)(?P<worker>\d{1,3})(?:[_ ]EP\d+)?(?:\]| pid=)",
    )
});
/// A worker of one of several copies or parts of a model.
static OF_PART: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\[[^\[\]\n]{0,40}\b(?:DP|PP)\d[^\[\]\n]{0,20}\]|\b(?:Worker|EngineCore)_[DP]P\d")
});
/// A process that vLLM's executor of one host started, which gives its ranks the loopback address.
static OF_EXECUTOR: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\(VllmWorkerProcess pid=(?P<pid>\d+)\)"));
/// Most workers that are kept, and ranks with their place.
const WORKERS_MAX: usize = 64;

/// Where vLLM's ranks meet.
static MEETING: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bdistributed_init_method=tcp://(?P<host>[\w.-]+|\[[\w:]+\]):"));
const LOOPBACK: [&[u8]; 3] = [b"127.0.0.1", b"localhost", b"[::1]"];

/// The interface at which a proxy of NCCL listens is that over which the ranks meet.
static PROXY: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bproxy listening socket at (?P<address>[\w.:]+)<"));
/// Ranks that a program counts as one: `Rank 0-7: ncclCheckpointRestore()`.
static ALL_RANKS: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[Rr]anks? 0-(?P<last>\d{1,5})\b"));
/// NCCL's example of one process with a thread for each GPU.
static THREADS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bUsing (?P<gpus>\d{1,3}) devices with pthreads\b"));
/// What Ray says where it starts a cluster of its own on the host.
const LOCAL_RAY: &[u8] = b"Started a local Ray instance";
/// A size of a communicator of NCCL.
static RANKS_OF_COMM: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\brank \d{1,5} n[rR]anks (?P<ranks>\d{1,5})\b"));

/// NCCL's call for all GPUs of one process, in a debugger's stack.
static IN_ONE_PROCESS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bncclCommInitAll ?\([^\n()]{0,200}\bndev=(?P<gpus>\d{1,3})\b"));
/// PyTorch's DataParallel, and its work for several GPUs of one process.
const DATA_PARALLEL: &[u8] = b"torch/nn/parallel/data_parallel.py";
const OF_REPLICAS: [&[u8]; 3] = [
    b"torch/nn/parallel/replicate.py",
    b"torch/nn/parallel/parallel_apply.py",
    b" in replica ",
];
/// Processes of PyTorch that form a job.
const OF_PROCESSES: [&[u8]; 4] = [
    b"torch.distributed",
    b"torch/distributed/",
    b"ProcessGroup",
    b"[rank",
];

/// A worker of Ray on another host than the one that writes the log: `(RayWorker pid=71, ip=10.0.0.226)`.
static OF_RAY: LazyLock<Regex> = LazyLock::new(|| regex(r"\bpid=\d+, ip=\d"));

/// A rank in a table of nccl-tests that was copied without its marks: ` Rank  1 Group  0 Pid 71 on node-a device  1`.
static LISTED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?m)^ ?Rank +(?P<rank>\d{1,5})(?: Group +\d+)? Pid +\d+ on +(?P<host>[\w.-]+) device [^\n]*\n",
    )
});

/// A process of MPI as its libraries name it: `[node-a:71] `.
static OF_MPI: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?m)^(?:\d+: *)?\[(?P<host>[A-Za-z][\w-]*)(?:\.[\w.-]+)?:\d{2,7}\] "));

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
    /// Ranks of the job, each with its rank on its node.
    places: BTreeSet<(u32, u32)>,
    /// Tensor-parallel ranks of workers, and whether some are of a part or a copy of the model.
    workers: BTreeSet<u32>,
    has_parts: bool,
    /// Processes of vLLM's executor of one host.
    of_executor: BTreeSet<u32>,
    /// Whether ranks meet at the loopback address, and at others.
    meet_within: bool,
    meet_elsewhere: bool,
    /// GPUs of one process of NCCL, and those of one with a thread for each.
    in_one_process: u32,
    threads: u32,
    /// Whether Ray started a cluster of its own on the host.
    has_local_ray: bool,
    /// Ranks that a program counts as one.
    all_ranks: u32,
    /// The most ranks of a communicator of NCCL.
    comm_ranks: u32,
    /// Whether PyTorch's DataParallel uses several GPUs, and whether processes form a job.
    has_data_parallel: bool,
    has_processes: bool,
    /// Whether the number of a node, or a worker, is of another node.
    has_other_node: bool,
    hosts: BTreeSet<Vec<u8>>,
    /// First names of hosts of MPI's processes, two if there are more.
    of_mpi: BTreeSet<Vec<u8>>,
    /// Ranks that nccl-tests lists, and whether the log ends with the list.
    listed: BTreeSet<u32>,
    ends_with_list: bool,
    /// Whether the place of a rank is the number of a GPU, which need not be its rank on its node.
    has_devices: bool,
    /// For each size of a communicator, its highest rank, and whether each rank has the number of its GPU.
    comms: BTreeMap<u32, (u32, bool)>,
    /// Whether NCCL's ranks meet over the loopback interface, and over others.
    boots_within: bool,
    boots_elsewhere: bool,
    /// The most GPUs that NCCL reaches from one, and whether it reaches a NIC.
    reached: u32,
    reaches_nics: bool,
    /// GPUs of each process of NCCL, and the ranks of the rings.
    devices: BTreeMap<Vec<u8>, BTreeSet<u32>>,
    rings: Values,
}

/// Adds values as long as the set has room: a node has fewer.
fn add<T: Ord>(set: &mut BTreeSet<T>, more: impl IntoIterator<Item = T>) {
    let more = more.into_iter().take(WORKERS_MAX);
    for one in more {
        if set.len() < WORKERS_MAX {
            set.insert(one);
        }
    }
}

fn number_of(value: &[u8]) -> Option<u32> {
    u32::try_from(crate::fields::number(value)?).ok()
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
        self.read_ranks(front);
        self.read_workers(front);
        for found in OF_MPI.captures_iter(front) {
            self.add_host_of_mpi(found["host"].to_vec());
        }
        for found in LISTED.captures_iter(front) {
            self.add_host(found["host"].to_vec());
            add(&mut self.listed, number_of(&found["rank"]));
            let end = found.get(0).map_or(front.len(), |found| found.end());
            self.ends_with_list = front[end..].trim_ascii().is_empty();
        }
        if memchr::memmem::find(front, b"NCCL INFO ").is_some() {
            self.read_comms(front);
        }
        for found in PROXY.captures_iter(front) {
            let is_within = found["address"].starts_with(b"127.");
            self.boots_within |= is_within;
            self.boots_elsewhere |= !is_within;
        }
        for found in ALL_RANKS.captures_iter(front) {
            let ranks = number_of(&found["last"]).unwrap_or_default() + 1;
            self.all_ranks = self.all_ranks.max(ranks);
            self.has_other_node |= ranks > GPUS_OF_A_NODE;
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

    /// Reads which rank of its node a rank of the job is, where one line tells both.
    fn read_ranks(&mut self, front: &[u8]) {
        for found in OF_ACCELERATE.captures_iter(front) {
            let place = number_of(&found["rank"]).zip(number_of(&found["local"]));
            number_of(&found["world"])
                .into_iter()
                .for_each(|all| self.world.add(all));
            self.add_places(place);
        }
        for line in front.split(|byte| *byte == b'\n') {
            let (mut ranks, mut locals) = (BTreeSet::new(), BTreeSet::new());
            for found in RANK.captures_iter(line) {
                let number = |name: &str| number_of(found.name(name)?.as_bytes());
                let Some(rank) = number("rank") else {
                    continue;
                };
                let of = found.name("of").map_or(&b""[..], |of| of.as_bytes());
                let of = String::from_utf8_lossy(of).to_ascii_lowercase();
                let of = of.trim_end_matches(['_', ' ', '-']);
                if of == "local" {
                    locals.insert(rank);
                } else if !RANKS_OF_PARTS.contains(&of) {
                    ranks.insert(rank);
                }
                self.has_devices |= found.name("device").is_some();
                locals.extend(number("device"));
                number("world")
                    .into_iter()
                    .for_each(|all| self.world.add(all));
            }
            if let (1, 1, Some(rank), Some(local)) =
                (ranks.len(), locals.len(), ranks.first(), locals.first())
            {
                self.add_places([(*rank, *local)]);
            }
        }
    }

    fn add_places(&mut self, places: impl IntoIterator<Item = (u32, u32)>) {
        for (rank, local) in places {
            self.has_other_node |= rank >= GPUS_OF_A_NODE;
            add(&mut self.places, [(rank, local)]);
        }
    }

    /// Reads what NCCL says of the GPUs of its ranks.
    fn read_comms(&mut self, front: &[u8]) {
        for found in RANK_OF_COMM.captures_iter(front) {
            let (Some(rank), Some(ranks), Some(device)) = (
                number_of(&found["rank"]),
                number_of(&found["ranks"]),
                number_of(&found["device"]),
            ) else {
                continue;
            };
            self.add_rank_of_comm(ranks, rank, rank == device);
        }
        for found in RANKS_OF_COMM.captures_iter(front) {
            let ranks = number_of(&found["ranks"]).unwrap_or_default();
            self.comm_ranks = self.comm_ranks.max(ranks);
        }
        for found in PATHS.captures_iter(front) {
            let gpus = memchr::memmem::find_iter(&found["paths"], OF_GPU).count();
            self.reached = self.reached.max(u32::try_from(gpus).unwrap_or(u32::MAX));
            self.reaches_nics |= memchr::memmem::find(&found["paths"], OF_NET).is_some();
        }
        for found in BOOTSTRAP.captures_iter(front) {
            let is_within = &found["interface"] == b"lo" && found["address"].starts_with(b"127.");
            self.boots_within |= is_within;
            self.boots_elsewhere |= !is_within;
        }
        for found in OF_DEVICE.captures_iter(front) {
            if let Some(device) = number_of(&found["device"]) {
                self.add_device(found["process"].to_vec(), [device]);
            }
            if let Some(ring) = found.name("ring") {
                let ranks = ring.as_bytes().split(|byte| *byte == b' ');
                let ranks = ranks.filter(|rank| !rank.is_empty()).count();
                self.rings.add(u32::try_from(ranks).unwrap_or(u32::MAX));
            }
        }
    }

    fn add_rank_of_comm(&mut self, ranks: u32, rank: u32, is_its_gpu: bool) {
        if self.comms.len() < WORKERS_MAX || self.comms.contains_key(&ranks) {
            let (most, are_theirs) = self.comms.entry(ranks).or_insert((0, true));
            *most = (*most).max(rank);
            *are_theirs &= is_its_gpu;
        }
    }

    fn add_device(&mut self, process: Vec<u8>, of: impl IntoIterator<Item = u32>) {
        if self.devices.len() < PROCESSES_MAX || self.devices.contains_key(&process) {
            add(self.devices.entry(process).or_default(), of);
        }
    }

    fn read_workers(&mut self, front: &[u8]) {
        let has = |word: &&[u8]| memchr::memmem::find(front, word).is_some();

        let workers = WORKER.captures_iter(front);
        let workers = workers.filter_map(|found| number_of(&found["worker"]));
        add(&mut self.workers, workers);
        let processes = OF_EXECUTOR.captures_iter(front);
        let processes = processes.filter_map(|found| number_of(&found["pid"]));
        add(&mut self.of_executor, processes);
        self.has_parts |= OF_PART.is_match(front);
        for found in MEETING.captures_iter(front) {
            let is_within = LOOPBACK.contains(&&found["host"]);
            self.meet_within |= is_within;
            self.meet_elsewhere |= !is_within;
        }
        for found in IN_ONE_PROCESS.captures_iter(front) {
            let gpus = number_of(&found["gpus"]).unwrap_or_default();
            self.in_one_process = self.in_one_process.max(gpus);
        }
        for found in THREADS.captures_iter(front) {
            self.threads = self
                .threads
                .max(number_of(&found["gpus"]).unwrap_or_default());
        }
        self.has_local_ray |= has(&LOCAL_RAY);
        self.has_data_parallel |= has(&DATA_PARALLEL) && OF_REPLICAS.iter().any(has);
        self.has_processes |= OF_PROCESSES.iter().any(has);
    }

    fn add_host_of_mpi(&mut self, host: Vec<u8>) {
        if self.of_mpi.len() < HOSTS_MAX {
            self.of_mpi.insert(host);
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
        add(&mut self.places, other.places);
        add(&mut self.workers, other.workers);
        add(&mut self.of_executor, other.of_executor);
        self.has_parts |= other.has_parts;
        self.meet_within |= other.meet_within;
        self.meet_elsewhere |= other.meet_elsewhere;
        self.in_one_process = self.in_one_process.max(other.in_one_process);
        self.threads = self.threads.max(other.threads);
        self.has_local_ray |= other.has_local_ray;
        self.all_ranks = self.all_ranks.max(other.all_ranks);
        self.comm_ranks = self.comm_ranks.max(other.comm_ranks);
        self.has_data_parallel |= other.has_data_parallel;
        self.has_processes |= other.has_processes;
        self.has_other_node |= other.has_other_node;
        other.hosts.into_iter().for_each(|one| self.add_host(one));
        other
            .of_mpi
            .into_iter()
            .for_each(|one| self.add_host_of_mpi(one));
        add(&mut self.listed, other.listed);
        self.ends_with_list |= other.ends_with_list;
        self.has_devices |= other.has_devices;
        for (ranks, (rank, is_its_gpu)) in other.comms {
            self.add_rank_of_comm(ranks, rank, is_its_gpu);
        }
        self.reached = self.reached.max(other.reached);
        self.reaches_nics |= other.reaches_nics;
        self.boots_within |= other.boots_within;
        self.boots_elsewhere |= other.boots_elsewhere;
        self.rings.merge(other.rings);
        for (process, of) in other.devices {
            self.add_device(process, of);
        }
    }

    /// The one size of the job that is named, unless there is a sign of several nodes.
    pub(super) fn world(&self) -> Option<u32> {
        self.world
            .only()
            .filter(|world| (2..=GPUS_OF_A_NODE).contains(world) && self.is_of_one())
    }

    /// Whether no sign tells of another node.
    pub(super) fn is_of_one(&self) -> bool {
        !(self.has_other_node
            || self.nodes.most > 1
            || self.world.most > GPUS_OF_A_NODE
            || self.hosts.len() > 1
            || self.of_mpi.len() > 1)
    }

    /// The hosts of ranks in torchrun's table, two if there are more.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &[u8]> {
        self.hosts.iter().map(Vec::as_slice)
    }

    /// The ranks of the job and why all run on one node, if the fronts say so. `seen`: the ranks that lines of NCCL tell.
    pub(super) fn ranks(&self, seen: u32) -> Option<(u32, String)> {
        // Copies of a model that share its requests may each be on a node of its own.
        if !self.is_of_one() || self.data.most > 1 {
            return None;
        }
        self.of_counts(seen)
            .or_else(|| self.of_places())
            .or_else(|| self.of_workers())
            .or_else(|| self.of_process())
            .or_else(|| self.of_bootstrap(seen))
            .or_else(|| self.of_list())
            .or_else(|| self.of_ray())
            .or_else(|| self.of_paths())
    }

    /// The most ranks of a communicator of NCCL.
    pub(super) fn comm_ranks(&self) -> Option<u64> {
        (self.comm_ranks > 0).then_some(u64::from(self.comm_ranks))
    }

    /// Ray's own cluster on the host has no other, unless a worker of another one writes.
    fn of_ray(&self) -> Option<(u32, String)> {
        let world = self.world().filter(|_| self.has_local_ray)?;
        let why = format!("Ray started a local instance, and the job has {world} ranks");
        Some((world, why))
    }

    /// NCCL's paths lead to as many GPUs as the largest communicator has ranks, and NCCL keeps no NIC then.
    fn of_paths(&self) -> Option<(u32, String)> {
        let (ranks, _) = self.comms.last_key_value()?;
        let is_whole = *ranks > 1 && *ranks == self.reached && !self.reaches_nics;
        (is_whole && self.comm_ranks <= *ranks).then(|| {
            let why = format!("NCCL's paths lead to the GPUs of all {ranks} ranks and to no NIC");
            (*ranks, why)
        })
    }

    fn of_list(&self) -> Option<(u32, String)> {
        let ranks = self.listed.len() as u32;
        let is_whole = ranks > 1
            && ranks <= GPUS_OF_A_NODE
            && !self.ends_with_list
            && self.listed.iter().copied().eq(0..ranks);
        let host = self.hosts.first().filter(|_| is_whole)?;
        let host = String::from_utf8_lossy(host);
        let why = format!("nccl-tests lists all {ranks} ranks of the job on {host}");
        Some((ranks, why))
    }

    fn of_bootstrap(&self, seen: u32) -> Option<(u32, String)> {
        let seen = seen.max(self.all_ranks);
        let is_within = self.boots_within && !self.boots_elsewhere && seen > 1;
        is_within.then(|| {
            let why = "NCCL's ranks meet over the loopback interface, over which they reach no other host";
            (seen, why.to_owned())
        })
    }

    fn of_counts(&self, seen: u32) -> Option<(u32, String)> {
        let ranks = match self.world.most {
            0 => self.local.most.max(self.tensor.most).max(seen),
            world => world,
        };
        if ranks > 1 && self.nodes.only() == Some(1) {
            let why = format!("the job counts one node and {ranks} ranks");
            return Some((ranks, why));
        }
        let world = self.world.only().filter(|world| *world > 1)?;
        (self.local.only() == Some(world)).then(|| {
            let why = format!("the ranks of this node are all {world} ranks of the job");
            (world, why)
        })
    }

    /// The ranks of the largest communicator of NCCL and why all are of one node, by its GPUs. A job may have a larger
    /// communicator that the log lacks, so this is asked only where no line names a network.
    pub(super) fn of_gpus(&self) -> Option<(u32, String)> {
        if !self.is_of_one() || self.data.most > 1 {
            return None;
        }
        let largest = self.comms.last_key_value();
        let largest = largest.map(|(ranks, (rank, are_theirs))| (*ranks, *rank, *are_theirs));
        // NCCL keeps no NIC where the GPUs of the node are those of all ranks.
        if self.reached > 1
            && !self.reaches_nics
            && largest.is_none_or(|(ranks, ..)| ranks <= self.reached)
        {
            let ranks = self.reached;
            let why = format!(
                "NCCL's paths from each GPU lead to {ranks} GPUs and to no NIC, as where these are of all ranks"
            );
            return Some((ranks, why));
        }
        if let Some((ranks, rank, true)) = largest
            && (RANKS_BY_GPU..=GPUS_OF_A_NODE).contains(&ranks)
            && rank < ranks
            && rank >= ranks / 2
        {
            let why = format!(
                "rank {rank} of the {ranks} ranks of a communicator has GPU {rank} of its node, so more than half of them are on it"
            );
            return Some((ranks, why));
        }
        let ranks = self.rings.only().filter(|ranks| *ranks > 1)?;
        let mut processes = self.devices.values();
        let is_whole = processes.len() == 1
            && processes.all(|of| of.len() as u32 == ranks)
            && largest.is_none_or(|(of, ..)| of <= ranks);
        is_whole.then(|| {
            let why = format!("one process has the GPUs of all {ranks} ranks of its rings");
            (ranks, why)
        })
    }

    /// Every rank of the job is the same rank of its node, or the last one is.
    fn of_places(&self) -> Option<(u32, String)> {
        let world = self.world()?;
        let last = (world - 1, world - 1);
        let is_same = self.places.iter().all(|(rank, local)| rank == local);
        if is_same && !self.has_devices && self.places.contains(&last) {
            let why =
                format!("the last of the {world} ranks of the job has that number on its node");
            return Some((world, why));
        }
        let is_whole = self
            .places
            .iter()
            .copied()
            .eq((0..world).map(|rank| (rank, rank)));
        is_whole.then(|| {
            let why =
                format!("each of all {world} ranks of the job has the same number on its node");
            (world, why)
        })
    }

    /// Ranks of a server of models.
    fn of_workers(&self) -> Option<(u32, String)> {
        if self.meet_within
            && !self.meet_elsewhere
            && let Some(world) = self.world()
        {
            let why = format!("all {world} ranks of the job meet at the loopback address");
            return Some((world, why));
        }
        if !self.of_executor.is_empty() && !self.meet_elsewhere {
            // The first rank is the process that started the others.
            let ranks = self.of_executor.len() as u32 + 1;
            let ranks = ranks.max(self.tensor.most).max(self.world.most);
            let why = "vLLM's executor of one host started the processes".to_owned();
            return Some((ranks, why));
        }
        let ranks = self.tensor.only().filter(|ranks| *ranks > 1)?;
        let is_whole = self.workers.iter().copied().eq(0..ranks)
            && !self.has_parts
            && self.pipeline.most <= 1
            && self.world.most <= ranks;
        is_whole.then(|| {
            let why = format!(
                "the log has the workers of all {ranks} tensor-parallel ranks, and names one host"
            );
            (ranks, why)
        })
    }

    /// GPUs of one process.
    fn of_process(&self) -> Option<(u32, String)> {
        match () {
            () if self.in_one_process > 1 => Some((
                self.in_one_process,
                format!(
                    "one process makes the communicators of all its {} GPUs (ncclCommInitAll)",
                    self.in_one_process
                ),
            )),
            () if self.threads > 1 => Some((
                self.threads,
                format!(
                    "one process has a thread for each of its {} GPUs",
                    self.threads
                ),
            )),
            () if self.has_data_parallel && !self.has_processes => Some((
                GPUS_OF_A_NODE,
                "PyTorch's DataParallel has all its GPUs in one process".to_owned(),
            )),
            () => None,
        }
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

    fn ranks(log: &str) -> Option<u32> {
        let mut of = OneNode::default();
        of.read(log.as_bytes());
        of.ranks(0).map(|(ranks, _)| ranks)
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

    #[test]
    fn places_of_all_ranks_tell_that_they_are_of_one_node() {
        let place =
            |rank: u32, local: u32| format!("world_size=2 rank={rank} local_rank={local}\n");
        assert_eq!(ranks(&(place(0, 0) + &place(1, 1))), Some(2));
        assert_eq!(ranks(&(place(0, 0) + &place(1, 0))), None);
        assert_eq!(ranks(&place(0, 0)), None);
        let on_device = "Rank 0/2 on CUDA device 0\nRank 1/2 on CUDA device 1\n";
        assert_eq!(ranks(on_device), Some(2));
        assert_eq!(
            ranks("rank 0/2 on CUDA device 0\nrank 1/2 on CUDA device 0\n"),
            None
        );
        let table = "rank      : 0 (local_rank: 0)\nrank      : 1 (local_rank: 1)\n";
        assert_eq!(ranks(table), None);
        assert_eq!(ranks(&format!("WORLD_SIZE=2\n{table}")), Some(2));
        assert_eq!(ranks(&format!("WORLD_SIZE=4\n{table}")), None);
        let of_node = "tp rank 0 local_rank 0\ntp rank 1 local_rank 1\nworld size 2\n";
        assert_eq!(ranks(of_node), None);
    }

    #[test]
    fn workers_of_a_server_are_of_one_node() {
        for (log, expected) in [
            (
                "--tp 2\n[08:14:04 TP0] Init\n[08:14:04 TP1] Init\n",
                Some(2),
            ),
            ("--tp 4\n[08:14:04 TP0] Init\n[08:14:04 TP1] Init\n", None),
            (
                "--tp 2 --nnodes 2\n[08:14:04 TP0] Init\n[08:14:04 TP1] Init\n",
                None,
            ),
            (
                "--tp 2\n[08:14:04 DP1 TP0] Init\n[08:14:04 DP1 TP1] Init\n",
                None,
            ),
            ("[08:14:04 TP0] Init\n[08:14:04 TP1] Init\n", None),
            (
                "tensor_parallel_size=2\n(Worker_TP0 pid=71) a\n(Worker_TP1 pid=72) a\n",
                Some(2),
            ),
            (
                "tensor_parallel_size=2 pipeline_parallel_size=2\n(Worker_TP0 pid=71) a\n(Worker_TP1 pid=72) a\n",
                None,
            ),
            (
                "(VllmWorkerProcess pid=71) ERROR\n(VllmWorkerProcess pid=72) ERROR\n",
                Some(3),
            ),
            (
                "(RayWorkerWrapper pid=71) ERROR\n(RayWorkerWrapper pid=72) ERROR\n",
                None,
            ),
            (
                "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:5001 backend=nccl\n",
                Some(2),
            ),
            (
                "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://10.0.1.25:5001 backend=nccl\n",
                None,
            ),
        ] {
            assert_eq!(ranks(log), expected, "{log}");
        }
    }

    #[test]
    fn one_process_may_have_all_gpus() {
        let frame = |name: &str, gpus: u32| {
            format!("#8 0x7f in {name} (comms=0x55, ndev={gpus}, devlist=0x0) at init.cc:1791\n")
        };
        assert_eq!(ranks(&frame("ncclCommInitAll", 2)), Some(2));
        assert_eq!(ranks(&frame("ncclCommInitAll", 1)), None);
        assert_eq!(ranks(&frame("ncclCommInitRankDev", 2)), None);
        let module =
            "  File \"/opt/env/lib/torch/nn/parallel/data_parallel.py\", line 184, in forward\n";
        let replicas =
            "  File \"/opt/env/lib/torch/nn/parallel/replicate.py\", line 110, in replicate\n";
        assert_eq!(ranks(&format!("{module}{replicas}")), Some(8));
        assert_eq!(ranks(module), None);
        assert_eq!(ranks(&format!("[rank0]: {module}{replicas}")), None);
    }
}
