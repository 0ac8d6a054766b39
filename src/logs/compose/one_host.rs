//! Whether a log is of one host only, where lines of what moves data within a host are all that it tells of a network.
//!
//! A host that is not seen may still be of the job, so any sign of another one is enough to say nothing.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::front::GPUS_OF_A_NODE;
use crate::loggers::regex;
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// GPUs of a host at most.
const MOST_GPUS: u64 = 16;

/// The other end of a connection as NCCL names it: `node-a.example<48295>`.
static END: LazyLock<Regex> = LazyLock::new(|| regex(r"(?P<end>\w[\w.-]*)<[1-9]\d*>"));

impl Compose<'_> {
    /// The one host of the log's processes of NCCL, unless a line tells of another one.
    pub(super) fn only_host(&self) -> Option<String> {
        let (hosts, _) = self.processes();
        let host = hosts.first().filter(|_| hosts.len() == 1)?;
        let ranks = self.tally.speakers.iter().filter_map(|one| match one {
            Speaker::Rank { rank, .. } => Some(*rank),
            Speaker::Others => Some(u32::MAX),
            Speaker::Process { .. } | Speaker::File(_) => None,
        });
        let named: BTreeSet<u32> = ranks.collect();
        // The lower ranks may be of another host. Of what moves data within a host, this one has two at least, and its
        // second rank is beside the first.
        let lacks_first = named.first().is_some_and(|rank| *rank > 1);
        let has_comms = self.tally.most_ranks.is_some() || !self.tally.nodes.is_empty();
        let has_others = lacks_first
            || named.last().is_some_and(|rank| *rank >= GPUS_OF_A_NODE)
            || self.has_other_hosts()
            || has_comms && !self.is_of_one_node()
            || self.tally.commands.has_other_jobs()
            || self.tally.fronts.has_several_nodes()
            || self.tally.claims.lists_hosts()
            || self.names_other_end(host);
        (!has_others).then(|| shown(host))
    }

    /// Whether a channel within a host, or a communicator that came up, has more ranks than this host is seen to have,
    /// and than a host has GPUs.
    pub(super) fn has_other_hosts(&self) -> bool {
        let (_, processes) = self.processes();
        let most = (processes as u64).max(MOST_GPUS);
        // A host with more GPUs than most have is seen to have them.
        let seen = (processes as u64).max(u64::from(GPUS_OF_A_NODE));
        self.tally.channel_ranks.is_some_and(|ranks| ranks > most)
            || self.tally.most_ranks.is_some_and(|ranks| ranks > seen)
    }

    /// The one host of the log's processes of NCCL and the size of the largest communicator, if lines on communicators
    /// that are complete or destroyed tell every rank of it.
    pub(super) fn ranks_of_one_host(&self) -> Option<(String, u32)> {
        let (hosts, _) = self.processes();
        let host = hosts.first().filter(|_| hosts.len() == 1)?;
        let destroyed = || self.tally.ends.destroyed();
        let ready = self.tally.ready_ranks.iter().map(|(_, rank)| *rank);
        let ranks: BTreeSet<u32> = ready.chain(destroyed().map(|(_, rank, _)| rank)).collect();
        let most = destroyed()
            .map(|(.., ranks)| ranks)
            .chain(self.tally.most_ranks)
            .max()?;
        let is_whole = most > 1
            && ranks.len() as u64 == most
            && ranks
                .last()
                .is_some_and(|last| u64::from(*last) + 1 == most);
        // Where lines with the ids of communicators tell all ranks of each, they are not asked twice; where they tell of
        // several, a rank may be of either.
        let members = self.tally.members.values().map(|(_, of)| of.comm_id);
        let begun = self.tally.claims.gpus().map(|(of, ..)| of.comm_id);
        let ids: BTreeSet<u64> = members.chain(begun).collect();
        let has_others = ids.len() > 1
            || self.is_of_one_node()
            || !self.tally.nodes.is_empty()
            || self.tally.commands.has_other_jobs()
            || self.tally.fronts.has_several_nodes()
            || self.tally.claims.lists_hosts()
            || self.names_other_end(host);
        (is_whole && !has_others).then(|| (shown(host), ranks.len() as u32))
    }

    /// The ranks of a job of one node, and why it is one by its counts, its command or its workers, unless any sign tells
    /// of another node, or another library moves data too.
    pub(super) fn ranks_of_one_node(&self) -> Option<(u32, String)> {
        let (hosts, processes) = self.processes();
        let fronts = &self.tally.fronts;
        let ranks = self.tally.speakers.iter().filter_map(|one| match one {
            Speaker::Rank { rank, .. } => Some(*rank),
            Speaker::Others => Some(u32::MAX),
            Speaker::Process { .. } | Speaker::File(_) => None,
        });
        let ranks: BTreeSet<u32> = ranks.collect();
        let is_far = ranks.last().is_some_and(|rank| *rank >= GPUS_OF_A_NODE);
        // Where NCCL counts nodes itself, no other count is asked.
        let says_nothing = is_far
            || !self.tally.nodes.is_empty()
            || self.tally.commands.has_several_nodes()
            || fronts.has_several_nodes()
            || self.tally.claims.lists_hosts()
            || hosts.first().is_some_and(|host| self.names_other_end(host));
        if says_nothing {
            return None;
        }
        let most = self
            .tally
            .most_ranks
            .unwrap_or_default()
            .max(processes as u64);
        let seen = u32::try_from(most)
            .ok()
            .filter(|most| *most <= GPUS_OF_A_NODE);
        let of_fronts = fronts.ranks_of_one_node(seen.unwrap_or_default());
        let of_command = || {
            let started = self.tally.commands.ranks_without_nodes()?;
            let has_all = processes as u64 == u64::from(started) && hosts.len() == 1
                || ranks.iter().copied().eq(0..started);
            let why = format!(
                "torchrun starts {started} ranks on this host and counts no nodes, and the log has all of them"
            );
            let is_one = has_all && fronts.one_node().is_of_one();
            is_one.then_some((started, why))
        };
        let of_launcher = || {
            let started = self.tally.commands.ranks_on_localhost()?;
            let why = format!("the command starts all {started} ranks of the job on this host");
            fronts.one_node().is_of_one().then_some((started, why))
        };
        let of_memory = || {
            let world = fronts.one_node().world()?;
            let hosts: BTreeSet<&[u8]> = hosts
                .iter()
                .copied()
                .chain(fronts.one_node().hosts())
                .collect();
            let is_one =
                hosts.len() == 1 && ranks.iter().copied().eq(0..world) && self.moves_within();
            let why = format!(
                "the log has all {world} ranks of the job, names one host, and has lines of what moves data within it"
            );
            is_one.then_some((world, why))
        };
        let of_gpus = || {
            let found = fronts.one_node().of_gpus()?;
            let has_more = ranks.last().is_some_and(|last| *last >= found.0);
            (!has_more && self.names_no_network()).then_some(found)
        };
        let found = of_fronts
            .or_else(of_command)
            .or_else(of_launcher)
            .or_else(of_memory)
            .or_else(of_gpus)?;
        let libraries = self.library_networks();
        let is_of_gloo = libraries.keys().all(|one| one.starts_with("Gloo "));
        let moves_own = libraries.is_empty() || is_of_gloo && self.has_nccl();
        moves_own.then_some(found)
    }

    /// Whether a connection goes to another host, or to several addresses.
    fn names_other_end(&self, host: &[u8]) -> bool {
        let mut addresses = BTreeSet::new();
        for line in self.kept_lines() {
            for end in END.captures_iter(line) {
                let end = end["end"].to_vec();
                let is_name = end.iter().any(u8::is_ascii_alphabetic);
                let first = end.split(|byte| *byte == b'.').next().unwrap_or_default();
                let own = host.split(|byte| *byte == b'.').next().unwrap_or_default();
                match is_name {
                    true if first != own => return true,
                    true => {}
                    false => _ = addresses.insert(end),
                }
            }
        }
        addresses.len() > 1
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn data_of_a_job_of_one_node_stay_within_it() {
        for (log, verdict, because) in [
            // DeepSpeed's launcher counts one node and four ranks.
            (
                r#"[2026-11-20 08:14:04,117] [INFO] [launch.py:87:main] nnodes=1, num_local_procs=4, node_rank=0
[2026-11-20 08:14:04,117] [INFO] [launch.py:100:main] dist_world_size=4
[2026-11-20 08:14:04,117] [INFO] [launch.py:103:main] Setting CUDA_VISIBLE_DEVICES=0,1,2,3
"#,
                "within-node",
                "the job counts one node and 4 ranks",
            ),
            // DeepSpeed's launcher counts two nodes of four ranks.
            (
                r#"[2026-11-20 08:14:04,117] [INFO] [launch.py:87:main] nnodes=2, num_local_procs=4, node_rank=0
[2026-11-20 08:14:04,117] [INFO] [launch.py:100:main] dist_world_size=8
[2026-11-20 08:14:04,117] [INFO] [launch.py:103:main] Setting CUDA_VISIBLE_DEVICES=0,1,2,3
"#,
                "unknown",
                "",
            ),
            // The ranks of a node are all ranks of the job, whatever NCCL chose for other nodes.
            (
                r#"RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
node-a:71:71 [0] NCCL INFO Using network Socket
node-a:72:72 [1] NCCL INFO Using network Socket
"#,
                "within-node",
                "the ranks of this node are all 2 ranks of the job",
            ),
            // The ranks of a node are half of the job's.
            (
                r#"RANK=0 LOCAL_RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2
node-a:71:71 [0] NCCL INFO Using network Socket
node-a:72:72 [1] NCCL INFO Using network Socket
"#,
                "socket",
                "",
            ),
            // Torchrun counts no nodes, and the log has all four ranks that it starts.
            (
                r#"$NCCL_DEBUG=TRACE torchrun --nproc-per-node=4 train.py
node-a:71:71 [0] NCCL INFO cudaDriverVersion 12010
node-a:72:72 [1] NCCL INFO cudaDriverVersion 12010
node-a:73:73 [2] NCCL INFO cudaDriverVersion 12010
node-a:74:74 [3] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'
"#,
                "within-node",
                "torchrun starts 4 ranks on this host and counts no nodes",
            ),
            // Torchrun counts no nodes, and the log lacks ranks that it starts.
            (
                r#"$NCCL_DEBUG=TRACE torchrun --nproc-per-node=4 train.py
node-a:71:71 [0] NCCL INFO cudaDriverVersion 12010
node-a:74:74 [3] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'
"#,
                "unknown",
                "",
            ),
            // Each rank of the communicators has the number of its GPU.
            (
                r#"Using 2 GPUs for ring communication
All communicators initialized successfully
  GPU 0 -> NCCL rank 0/2 on CUDA device 0
  GPU 1 -> NCCL rank 1/2 on CUDA device 1
"#,
                "within-node",
                "each of all 2 ranks of the job has the same number on its node",
            ),
            // Ranks of two nodes have the same GPU.
            (
                r#"All communicators initialized successfully
  GPU 0 -> NCCL rank 0/2 on CUDA device 0
  GPU 0 -> NCCL rank 1/2 on CUDA device 0
"#,
                "unknown",
                "",
            ),
            // The ranks of vLLM meet at the loopback address.
            (
                r#"DEBUG 11-20 08:14:04 parallel_state.py:917] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:41543 backend=nccl
INFO 11-20 08:14:05 pynccl.py:63] vLLM is using nccl==2.20.5
"#,
                "within-node",
                "all 2 ranks of the job meet at the loopback address",
            ),
            // The ranks of vLLM meet at the address of a host.
            (
                r#"DEBUG 11-20 08:14:04 parallel_state.py:917] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://10.0.1.25:41543 backend=nccl
INFO 11-20 08:14:05 pynccl.py:63] vLLM is using nccl==2.20.5
"#,
                "unknown",
                "",
            ),
            // The log has all tensor-parallel workers of SGLang.
            (
                r#"python3 -m sglang.launch_server --model model --tensor-parallel-size 2
[08:14:04 TP0] Init nccl begin.
[08:14:04 TP1] Init nccl begin.
"#,
                "within-node",
                "the log has the workers of all 2 tensor-parallel ranks",
            ),
            // The log has the tensor-parallel workers of one of two nodes.
            (
                r#"python3 -m sglang.launch_server --model model --tensor-parallel-size 4 --nnodes 2 --node-rank 0
[08:14:04 TP0] Init nccl begin.
[08:14:04 TP1] Init nccl begin.
"#,
                "unknown",
                "",
            ),
            // One process makes the communicators of its GPUs, whatever NCCL chose for other nodes.
            (
                r#"Thread 1 (Thread 0x7ffff7d8e000 (LWP 71) "all_reduce_perf"):
#8  0x00007fffc2c41f1c in ncclCommInitAll (comms=0x555557532e30, ndev=2, devlist=<optimized out>) at /usr/src/debug/nccl/nccl/src/init.cc:1791
node-a:71:71 [0] NCCL INFO Using network IB
"#,
                "within-node",
                "one process makes the communicators of all its 2 GPUs",
            ),
            // Shared memory of all ranks of a job on the one host that the log names.
            (
                r#"WORLD_SIZE=2
[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error
[rank0]: Error while creating shared memory segment /dev/shm/nccl-q4LZ7n (size 5767520)
[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error
[rank1]: Error while creating shared memory segment /dev/shm/nccl-q4LZ7m (size 5767520)
  host      : node-a
"#,
                "within-node",
                "the log has all 2 ranks of the job, names one host",
            ),
            // Shared memory of two of the four ranks of a job.
            (
                r#"WORLD_SIZE=4
[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error
[rank0]: Error while creating shared memory segment /dev/shm/nccl-q4LZ7n (size 5767520)
[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error
[rank1]: Error while creating shared memory segment /dev/shm/nccl-q4LZ7m (size 5767520)
  host      : node-a
"#,
                "unknown",
                "",
            ),
            // Each process of accelerate has the same number on its node.
            (
                r#"11/20/2026 08:14:04 - INFO - __main__ - Distributed environment: MULTI_GPU  Backend: nccl
Num processes: 2
Process index: 1
Local process index: 1
Device: cuda:1

"#,
                "within-node",
                "the last of the 2 ranks of the job has that number on its node",
            ),
            // Processes of accelerate are of two nodes.
            (
                r#"11/20/2026 08:14:04 - INFO - __main__ - Distributed environment: MULTI_GPU  Backend: nccl
Num processes: 4
Process index: 3
Local process index: 1
Device: cuda:1

"#,
                "unknown",
                "",
            ),
            // A rank of the second half has the GPU of its number, so the first half is on its node.
            (
                "node-a:71:91 [3] NCCL INFO comm 0x55bd1c0a7e40 rank 3 nranks 4 cudaDev 3 busId 70 - Abort COMPLETE\n",
                "within-node",
                "rank 3 of the 4 ranks of a communicator has GPU 3 of its node",
            ),
            // Two nodes of two ranks, of ranks in turn, of more ranks, of two hosts, and with a network.
            (
                "node-a:71:91 [1] NCCL INFO comm 0x55bd1c0a7e40 rank 3 nranks 4 cudaDev 1 busId 70 - Abort COMPLETE\n",
                "unknown",
                "",
            ),
            (
                "node-a:71:91 [1] NCCL INFO comm 0x55bd1c0a7e40 rank 1 nranks 4 cudaDev 1 busId 70 - Abort COMPLETE\n",
                "unknown",
                "",
            ),
            (
                "node-a:71:91 [1] NCCL INFO comm 0x55bd1c0a7e40 rank 1 nranks 2 cudaDev 1 busId 70 - Abort COMPLETE\n",
                "unknown",
                "",
            ),
            (
                r#"node-a:71:91 [3] NCCL INFO comm 0x55bd1c0a7e40 rank 3 nranks 4 cudaDev 3 busId 70 - Abort COMPLETE
node-a:71:91 [3] NCCL INFO comm 0x55bd1c0a8e40 rank 3 nranks 16 cudaDev 3 busId 70 - Abort COMPLETE
"#,
                "unknown",
                "",
            ),
            (
                r#"node-a:71:91 [3] NCCL INFO comm 0x55bd1c0a7e40 rank 3 nranks 4 cudaDev 3 busId 70 - Abort COMPLETE
node-b:71:91 [2] NCCL INFO comm 0x55bd1c0a7e40 rank 2 nranks 4 cudaDev 2 busId 70 - Abort COMPLETE
"#,
                "unknown",
                "",
            ),
            (
                r#"node-a:71:91 [3] NCCL INFO Using network IB
node-a:71:91 [3] NCCL INFO comm 0x55bd1c0a7e40 rank 3 nranks 4 cudaDev 3 busId 70 - Abort COMPLETE
"#,
                "ib",
                "",
            ),
            // NCCL keeps no NIC, as the GPUs of the node are of all ranks.
            (
                r#"node-a:71:91 [0] NCCL INFO GPU/23000 :GPU/1000 (2/24.000000/PHB) GPU/23000 (0/5000.000000/LOC) CPU/0 (1/24.000000/PHB) 
node-a:72:92 [1] NCCL INFO GPU/1000 :GPU/1000 (0/5000.000000/LOC) GPU/23000 (2/24.000000/PHB) CPU/0 (1/24.000000/PHB) 
"#,
                "within-node",
                "NCCL's paths from each GPU lead to 2 GPUs and to no NIC",
            ),
            // It keeps a NIC, or the line ends within a path.
            (
                r#"node-a:71:91 [0] NCCL INFO GPU/23000 :GPU/1000 (2/24.000000/PHB) GPU/23000 (0/5000.000000/LOC) CPU/0 (1/24.000000/PHB) 
node-a:72:92 [1] NCCL INFO GPU/1000 :GPU/1000 (0/5000.000000/LOC) GPU/23000 (2/24.000000/PHB) CPU/0 (1/24.000000/PHB) NET/0 (2/12.500000/PHB) 
"#,
                "unknown",
                "",
            ),
            (
                "node-a:71:91 [0] NCCL INFO GPU/23000 :GPU/1000 (2/24.000000/PHB) GPU/23000 (0/5000.000000/LOC) CPU/0 (1/24.000000/PHB)",
                "unknown",
                "",
            ),
            // One process has the GPUs of a ring, or those of half of it.
            (
                r#"node-a:71:91 [0] NCCL INFO Channel 01/24 :    0   1
node-a:71:92 [1] NCCL INFO P2P Chunksize set to 524288
"#,
                "within-node",
                "one process has the GPUs of all 2 ranks of its rings",
            ),
            (
                r#"node-a:71:91 [0] NCCL INFO Channel 01/24 :    0   1   2   3
node-a:71:92 [1] NCCL INFO P2P Chunksize set to 524288
"#,
                "unknown",
                "",
            ),
            (
                r#"node-a:71:91 [0] NCCL INFO Channel 01/24 :    0   1
node-a:72:92 [1] NCCL INFO P2P Chunksize set to 524288
"#,
                "unknown",
                "",
            ),
            // A command starts all ranks on this host, or some on another.
            (
                r#"$ mpirun -np 2 -H localhost:2 -x NCCL_DEBUG=INFO python train.py
node-a:71:71 [0] NCCL INFO cudaDriverVersion 12010
"#,
                "within-node",
                "the command starts all 2 ranks of the job on this host",
            ),
            (
                r#"$ mpirun -np 2 -H localhost:1,node-b:1 -x NCCL_DEBUG=INFO python train.py
node-a:71:71 [0] NCCL INFO cudaDriverVersion 12010
"#,
                "unknown",
                "",
            ),
            // Horovod without NCCL has Gloo move the data, over TCP on one host too.
            (
                r#"Available Tensor Operations:
    [ ] NCCL
    [ ] DDL
    [ ] CCL
    [ ] MPI
    [X] Gloo

$ horovodrun -np 2 -H localhost:2 python train.py
"#,
                "socket",
                "Gloo TCP",
            ),
            (
                r#"Available Tensor Operations:
    [X] NCCL
    [ ] DDL
    [ ] CCL
    [X] MPI
    [X] Gloo

$ horovodrun -np 2 -H node-a:1,node-b:1 python train.py
"#,
                "unknown",
                "",
            ),
            // The ranks meet over the loopback interface, or some of them do.
            (
                r#"node-a:71:71 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
node-a:72:72 [1] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>
node-a:71:71 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
"#,
                "within-node",
                "NCCL's ranks meet over the loopback interface, over which they reach no other host",
            ),
            (
                r#"node-a:71:71 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
node-a:72:72 [1] NCCL INFO Bootstrap : Using eth0:10.0.1.25<0>
node-a:71:71 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
"#,
                "socket",
                "",
            ),
            (
                r#"node-a:71:71 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
node-b:72:72 [1] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
"#,
                "unknown",
                "",
            ),
            // A table of nccl-tests without its marks has one host, or two, or ends the log.
            (
                r#" Using devices
 Rank  0 Group  0 Pid 71 on node-a device  0 [0x16] NVIDIA GeForce RTX 4090
 Rank  1 Group  0 Pid 71 on node-a device  1 [0x34] NVIDIA GeForce RTX 4090

node-a:71:71 [0] NCCL INFO Bootstrap : Using eno2:10.0.1.25<0>
"#,
                "within-node",
                "nccl-tests lists all 2 ranks of the job on node-a",
            ),
            (
                r#" Using devices
 Rank  0 Group  0 Pid 71 on node-a device  0 [0x16] NVIDIA GeForce RTX 4090
 Rank  1 Group  0 Pid 72 on node-b device  0 [0x34] NVIDIA GeForce RTX 4090

node-a:71:71 [0] NCCL INFO Bootstrap : Using eno2:10.0.1.25<0>
"#,
                "unknown",
                "",
            ),
            (
                r#"node-a:71:71 [0] NCCL INFO Bootstrap : Using eno2:10.0.1.25<0>
 Using devices
 Rank  0 Group  0 Pid 71 on node-a device  0 [0x16] NVIDIA GeForce RTX 4090
 Rank  1 Group  0 Pid 71 on node-a device  1 [0x34] NVIDIA GeForce RTX 4090
"#,
                "unknown",
                "",
            ),
            // One process has a thread for each of its GPUs.
            (
                "Using 4 devices with pthreads\n  Thread 0: NCCL communicator initialized\n",
                "within-node",
                "one process has a thread for each of its 4 GPUs",
            ),
            (
                "Using 1 devices with pthreads\n  Thread 0: NCCL communicator initialized\n",
                "unknown",
                "",
            ),
            // The proxies of all ranks listen at the loopback address, or one listens elsewhere, or the host has fewer ranks.
            (
                "Rank 0-7: ncclCommInitRank()\n [Proxy Service] proxy listening socket at 127.0.0.1<48112>\n",
                "within-node",
                "meet over the loopback interface",
            ),
            (
                "Rank 0-7: ncclCommInitRank()\nproxy listening socket at 127.0.0.1<48112>\nproxy listening socket at 10.0.1.25<48112>\n",
                "unknown",
                "",
            ),
            (
                "Rank 0-15: ncclCommInitRank()\n [Proxy Service] proxy listening socket at 127.0.0.1<48112>\n",
                "unknown",
                "",
            ),
            // Ray's own instance has all ranks, or a worker of another host, or more ranks than a host has GPUs.
            (
                "INFO worker.py:1749 -- Started a local Ray instance.\n(RayTrainWorker pid=71) Setting up process group for: env:// [rank=0, world_size=8]\n",
                "within-node",
                "Ray started a local instance",
            ),
            (
                "INFO worker.py:1749 -- Started a local Ray instance.\n(RayTrainWorker pid=71, ip=10.0.0.226) Setting up process group for: env:// [rank=0, world_size=8]\n",
                "unknown",
                "",
            ),
            (
                "INFO worker.py:1749 -- Started a local Ray instance.\n(RayTrainWorker pid=71) Setting up process group for: env:// [rank=0, world_size=16]\n",
                "unknown",
                "",
            ),
            // The paths of GPUs lead to those of all ranks, whatever NCCL chose for other nodes, or of half of them.
            (
                r#"node-a:71:71 [1] NCCL INFO Using network Socket
node-a:71:71 [1] NCCL INFO comm 0x55c01d7ae000 rank 1 nranks 2 cudaDev 1 busId 41000 - Init START
node-a:71:91 [1] NCCL INFO GPU/41000 :GPU/1000 (1/80.000000/NVL) GPU/41000 (0/5000.000000/LOC) CPU/1 (2/24.000000/PHB)
"#,
                "within-node",
                "lead to the GPUs of all 2 ranks",
            ),
            (
                r#"node-a:71:71 [1] NCCL INFO Using network Socket
node-a:71:71 [1] NCCL INFO comm 0x55c01d7ae000 rank 1 nranks 4 cudaDev 1 busId 41000 - Init START
node-a:71:91 [1] NCCL INFO GPU/41000 :GPU/1000 (1/80.000000/NVL) GPU/41000 (0/5000.000000/LOC) CPU/1 (2/24.000000/PHB)
"#,
                "socket",
                "",
            ),
            // A network is up, and every channel of all processes is within the host, or the log has two hosts.
            (
                r#"node-a:71:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.25<0>
node-a:71:91 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read
node-a:72:92 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct
"#,
                "within-node",
                "every channel that this log has a line of is within a node",
            ),
            (
                r#"node-a:71:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.25<0>
node-a:71:91 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read
node-b:72:92 [1] NCCL INFO Channel 00 : 3[1] -> 2[0] via SHM/direct/direct
"#,
                "socket",
                "",
            ),
            // MPI starts one process, or more, or advice quotes the command.
            (
                "$ /opt/openmpi/bin/mpirun -np 1 ./mpi_test\n[node-a:71] *** Process received signal ***\n",
                "within-node",
                "the command starts one process",
            ),
            (
                "$ mpirun -np 1 ./one : -np 2 ./two\n[node-a:71] *** Process received signal ***\n",
                "unknown",
                "",
            ),
            (
                "$ mpirun -np 1 ./one\n$ mpirun -np 4 ./one\n[node-a:71] *** Process received signal ***\n",
                "unknown",
                "",
            ),
            (
                "Try this: mpirun -np 1 ./mpi_test\n[node-a:71] *** Process received signal ***\n",
                "unknown",
                "",
            ),
            // A communicator of one rank, in the words of an old release.
            (
                "node-a:71:71 [0] NCCL INFO Using internal Network IB\nnode-a:71:71 [0] NCCL INFO rank 0 nranks 1\n",
                "ib",
                "every communicator of this log has one rank",
            ),
            // Peer access fails in the second rank, which is beside the first; the third may be of another host.
            (
                "node-a:71:91 [0] NCCL INFO transport/p2p.cc:123 -> 3\nnode-a:71:91 [0] NCCL INFO init.cc:1014 -> 3\n[rank1]: ncclInternalError: Internal check failed.\n",
                "within-node",
                "peer access",
            ),
            (
                "node-a:71:91 [0] NCCL INFO transport/p2p.cc:123 -> 3\nnode-a:71:91 [0] NCCL INFO init.cc:1014 -> 3\n[rank2]: ncclInternalError: Internal check failed.\n",
                "unknown",
                "",
            ),
            // Libraries that move data within a node, and counts of several.
            (
                "[W tensorpipe_agent.cpp:916] RPC agent for 3 encountered error: reset by peer (this error originated at tensorpipe/transport/shm/connection_impl.cc:187)\n",
                "within-node",
                "TensorPipe within a node",
            ),
            (
                "nnodes=2\n[W tensorpipe_agent.cpp:916] RPC agent for 3 encountered error: reset by peer (this error originated at tensorpipe/transport/shm/connection_impl.cc:187)\n",
                "unknown",
                "",
            ),
            (
                "reset by peer (this error originated at tensorpipe/transport/shm/connection_impl.cc:187)\nreset by peer (this error originated at tensorpipe/transport/uv/connection_impl.cc:187)\n",
                "unknown",
                "",
            ),
            (
                "MPIDI_GPU_ipc_handle_map(355)..:  gpu_ipc_handle_map failed\n",
                "within-node",
                "MPICH",
            ),
            (
                "MPIDI_OFI_handle_cq_error(1059): OFI poll failed\n",
                "ofi",
                "MPICH OFI",
            ),
            ("MPIDI_UCX_recv(80): odd\n", "unknown", "MPICH UCX"),
            (
                "[node-a:71] Read -1, expected 2362084, errno = 38\n",
                "within-node",
                "OpenMPI",
            ),
            (
                "[node-a:71] Read -1, expected 2362084, errno = 38\n[node-b:71] Read -1, expected 2362084, errno = 38\n",
                "unknown",
                "",
            ),
            (
                "RuntimeError: oneCCL: ze_fd_manager.cpp:214 fill_device_fds: EXCEPTION: open failed\n",
                "unknown",
                "oneCCL",
            ),
            (
                "  File \"/opt/job/tests/test_mooncake_backend.py\", line 105, in check\n",
                "unknown",
                "Mooncake",
            ),
            (
                "  Rank 0 created device communicator with GIN support\n",
                "other",
                "NCCL's GIN",
            ),
            // All processes of UCX that log what they do are of one host, or of two.
            (
                r#"[1795162444.3] [node-a:71:2] wireup_ep.c:372  UCX  DEBUG ep 0x2aab4eba3048: destroy wireup ep
[1795162444.3] [node-a:72:2] wireup_ep.c:372  UCX  DEBUG ep 0x2aab4eba3048: destroy wireup ep
[1795162444.3] [node-a:71:2] cuda_ipc_md.c:62   UCX  ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context
"#,
                "within-node",
                "UCX",
            ),
            (
                r#"[1795162444.3] [node-a:71:2] wireup_ep.c:372  UCX  DEBUG ep 0x2aab4eba3048: destroy wireup ep
[1795162444.3] [node-b:72:2] wireup_ep.c:372  UCX  DEBUG ep 0x2aab4eba3048: destroy wireup ep
[1795162444.3] [node-a:71:2] cuda_ipc_md.c:62   UCX  ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context
"#,
                "unknown",
                "UCX over a network that no line names",
            ),
            // The job's network is that of another library.
            (
                "nnodes=1 WORLD_SIZE=2\nI1120 08:14:04.054445 71 rdma_endpoint.cpp:108] Connection has been established\n",
                "ib",
                "Mooncake",
            ),
        ] {
            let transport = crate::tests::report_of(&[("x.log", log)]).transport;
            assert_eq!(transport.verdict, verdict, "{log}{}", transport.because);
            assert!(
                transport.because.contains(because),
                "{log}{}",
                transport.because
            );
        }
    }
}
