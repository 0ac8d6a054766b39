//! The words of NCCL, and of the RDMA devices below it.
#![forbid(unsafe_code)]

use super::Reason;

/// The source files of NCCL whose warnings are about one part of it.
pub(super) const OF_NCCL: &[Reason] = &[
    Reason {
        words: r"transport/nvls\.cc:",
        cause: "multicast over NVLink (NVLS) was not set up: the fabric manager does not run or lost its state, or the container hides GPUs",
        next: "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node; NCCL_NVLS_ENABLE=0 goes without it",
    },
    Reason {
        words: r"(?:include/shm\.h|shmutils\.cc|transport/shm\.(?:cc|cu)):",
        cause: "shared memory between processes of one node was not set up: /dev/shm is too small, or the containers do not share it",
        next: "`df -h /dev/shm` in the container; NCCL_SHM_DISABLE=1 goes without it",
    },
    Reason {
        words: r"transport/p2p\.(?:cc|cu):",
        cause: "GPUs of one node cannot access each other's memory: separate containers, an IOMMU or ACS, or hidden devices",
        next: "`nvidia-smi topo -p2p r` in the container; NCCL_P2P_DISABLE=1 goes without it",
    },
    Reason {
        words: r"(?:misc/ibv\w+|transport/net_ib\w*(?:/\w+)?)\.(?:cc|cu|h):",
        cause: "an InfiniBand or RoCE NIC refused a call: its port is down, its GID does not fit, or the container lacks its device or locked memory",
        next: "`ibv_devinfo`, `show_gids` and `ulimit -l` in the container",
    },
    Reason {
        words: r"graph/\w+\.(?:cc|cu|h):",
        cause: "NCCL does not understand the machine's topology: a virtual machine, a container, or a file of NCCL_TOPO_FILE",
        next: "`nvidia-smi topo -m` on the host and in the container; unset NCCL_TOPO_FILE",
    },
    Reason {
        words: r"proxy\.(?:cc|cu):",
        cause: "NCCL's proxy thread got what it did not expect: another rank had ended, or a program that is not NCCL connected to its port",
        next: "read the first failure of the other ranks of this node; look for port scanners",
    },
    Reason {
        words: r"(?:bootstrap|misc/socket|include/socket)\.(?:cc|cu|h):",
        cause: "the connections between ranks failed: a rank ended, or they use another network",
        next: "read the first failure of the other ranks; set NCCL_SOCKET_IFNAME to the interface that all nodes share",
    },
];

/// The source files of NCCL that warn of the program's calls. They also pass on what other parts of NCCL fail with.
pub(super) const OF_USE: &[Reason] = &[Reason {
    words: r"(?:misc/argcheck|enqueue|group)\.(?:cc|cu):",
    cause: "the program called NCCL with wrong arguments or in a wrong order",
    next: "compare the calls of all ranks: operation, count, type, communicator",
}];

/// What an RDMA device says of a request that failed, in the words of libibverbs and of what uses it.
pub(super) const OF_RDMA: &[Reason] = &[
    Reason {
        words: r"rnr retry counter exceeded|receiver not ready",
        cause: "the peer posted no receive in time: it is slow, stuck or has ended",
        next: "read the peer's log of the same time",
    },
    Reason {
        words: r"transport retry count(?:er)? exceeded|retry exceeded error",
        cause: "the peer's NIC does not answer: packets are lost on the path, the rails, GIDs or MTUs differ, or the peer has ended",
        next: "`ib_write_bw` between the two NICs; the counters of both ports; the peer's log of the same time",
    },
    Reason {
        words: r"local catastrophic error",
        cause: "the NIC, its firmware or its driver failed",
        next: "`dmesg -T | grep mlx5` on this node; restart or replace the NIC",
    },
    Reason {
        words: r"local protection error|local access (?:violation|error)",
        cause: "the memory of the request is not registered with this NIC, or was deregistered or freed before the request ended",
        next: "compare the address and the length in the line with the program's registrations on this NIC",
    },
    Reason {
        words: r"remote access error|remote invalid request|remote protection error",
        cause: "the peer does not allow access to this memory: another key, a range beyond its registration, or it was deregistered",
        next: "compare the key and the address in the line with the peer's registrations",
    },
    Reason {
        words: r"work request flushed|wr flushed|flushed error",
        cause: "the queue pair was closed before this request: an earlier error of the connection, or the peer has ended",
        next: "read the first error of the same connection, and the peer's log before this time",
    },
    Reason {
        words: r"(?:create|modify|open|query|post|alloc)\w*.{0,24}\b(?:qp|cq|srq|pd|ah|queue pair|address handle|completion queue|device context)\b.{0,60}fail|fail.{0,40}\b(?:create|modify|open|query|post|alloc)\w*.{0,24}\b(?:qp|cq|srq|pd|queue pair|address handle|completion queue|device context)\b|ibv_(?:[a-qs-z]|r[a-df-z])\w+ (?:failed|returned)|\bgid\b.{0,40}(?:not found|invalid|fail)",
        cause: "the RDMA device refused to make a connection: a port is down, the GID does not fit, or the container lacks its device or locked memory",
        next: "`ibv_devinfo`, `show_gids` and `ulimit -l` in the container",
    },
];

/// The words of NCCL's results, of which programs log nothing else where NCCL_DEBUG is unset.
pub(super) const OF_RESULTS: &[Reason] = &[
    Reason {
        words: r"proxy call to rank \d+ failed \(connect\)",
        cause: "the data connection of the rank to its peer could not be made: the interface or the port of the other host is not reached, or a firewall is between",
        next: "set NCCL_SOCKET_IFNAME to the interface that all nodes share, open its ports between the nodes, and read the first `NCCL WARN` of the other rank",
    },
    Reason {
        words: r"unhandled cuda error",
        cause: "a CUDA call inside NCCL failed: memory is full, GPUs cannot access each other, the driver does not fit, or an earlier kernel failed",
        next: "set NCCL_DEBUG=WARN on all ranks and run again; the first WARN names the CUDA error",
    },
    Reason {
        words: r"(?:nccl error|nccl failure|nccl operation|nccl\w+ failed).{0,200}invalid usage",
        cause: "the program used NCCL wrongly: two ranks on one GPU, ranks that disagree on a communicator, or a GPU that is not visible",
        next: "compare CUDA_VISIBLE_DEVICES and the GPU of each rank; NCCL_DEBUG=WARN names the rule that was broken",
    },
    Reason {
        words: r"(?:nccl error|nccl failure|nccl operation|nccl\w+ failed).{0,200}invalid argument",
        cause: "the program passed NCCL an argument that it refuses: a rank, a count, a GPU, or memory of another GPU",
        next: "compare the world size and the GPU of each rank; NCCL_DEBUG=WARN names the argument",
    },
    Reason {
        words: r"unhandled system error",
        cause: "a call of the system inside NCCL failed: a socket, an RDMA device, or shared memory",
        next: "set NCCL_DEBUG=WARN on all ranks and run again; the first WARN names the call",
    },
    Reason {
        words: r"internal error - please report this issue to the nccl|(?:nccl error|nccl failure|nccl operation|nccl\w+ failed).{0,200}internal error",
        cause: "NCCL found a state that should not be: ranks with different settings or versions, or a topology that it does not understand",
        next: "set NCCL_DEBUG=WARN on all ranks and run again; compare NCCL's version on all nodes",
    },
    Reason {
        words: r"(?:nccl error|nccl failure|nccl operation|nccl\w+ failed).{0,200}remote process exited",
        cause: "another rank ended first, or the network to it failed: its own log has the reason",
        next: "read the first failure of the rank that ended first",
    },
    Reason {
        words: r"communicator (?:was |is )?aborted|communicator .{0,60}aborted|nccl.{0,40}was aborted",
        cause: "PyTorch aborted the communicator because a collective failed or timed out on some rank",
        next: "read the first error of any rank before this line; NCCL_DEBUG=WARN names the reason",
    },
];
