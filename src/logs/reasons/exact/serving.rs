//! Wordings of vLLM, SGLang, Ray, DeepSpeed, Megatron and TensorRT-LLM.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "waiting for creating a placement group",
        cause: "Ray finds no place for the job: the cluster has fewer free GPUs than it asks for, or no node with the address that it names",
        next: "`ray status` shows what is free and what is asked for; compare its nodes' addresses with VLLM_HOST_IP, and end jobs that hold the GPUs",
    },
    Reason {
        words: "unable to find backend library for backend",
        cause: "Triton has no library for the backend that the model's config.pbtxt names: the image was built without it, or the name is wrong",
        next: "`ls /opt/tritonserver/backends` in the container; take the image of Triton that has this backend, such as the one with trtllm in its tag",
    },
    Reason {
        words: "does not support running on mig|not support mig",
        cause: "NCCL does not join slices of GPUs (MIG): the process was given a slice instead of a whole GPU",
        next: "`nvidia-smi -L` shows MIG devices; give each rank a whole GPU, or train with one process without NCCL",
    },
    Reason {
        words: "transfer_fail|transfer_incomplete",
        cause: "a Mooncake transfer failed; lines of its transfer engine say why, here or on the other side",
        next: "read the lines of the transfer engine (`transfer_engine`, `rdma_`, `tcp_transport`) of both sides around this time",
    },
    Reason {
        words: "segment descriptor not found|failed to get segment descriptor",
        cause: "Mooncake does not know the segment of the other side: it was not registered, or its entry is gone from the metadata server",
        next: "read the log of the process that owns the segment: has it registered it, does it still run; ask the metadata server for its name",
    },
    Reason {
        words: "could finish the model loading, but there are other ranks",
        cause: "other ranks did not finish loading the model: slow storage, no memory left, or they ended",
        next: "read the logs of the other ranks of the tensor-parallel group from their start; compare how fast each node reads the model",
    },
    Reason {
        words: "heartbeat timeout*remote task|task:*heartbeat timeout",
        cause: "a task of the job sends no heartbeats any more: it crashed, was ended, or its node or network failed",
        next: "read the log of the task that the line names, from the time before the timeout",
    },
    Reason {
        words: "connection error code 2. end of file|exits with an exit code none|may have exceeded k8s pod memory",
        cause: "a worker of Ray ended without a word: killed, mostly for memory, or crashed in native code",
        next: "`dmesg -T | grep -i -e oom -e segfault` on its node, and the worker's files under /tmp/ray/session_latest/logs",
    },
    Reason {
        words: "running low on memory|due to memory pressure",
        cause: "Ray killed a worker because its node ran out of memory",
        next: "`free -g` on the node at that time; run fewer workers there, or give each more memory",
    },
    Reason {
        words: "raylet died|raylet is dead|local raylet",
        cause: "the raylet of the node ended: the node was out of memory or disk, or Ray was stopped there",
        next: "read raylet.out under /tmp/ray/session_latest/logs, and `dmesg -T` of that node",
    },
    Reason {
        words: "failed core proc(s)*: -9",
        cause: "the process was killed from outside, mostly because the node or its container was out of memory",
        next: "`dmesg -T | grep -i -e oom -e killed` on its node, and the memory limit of the container",
    },
    Reason {
        words: "failed core proc(s)*: -11",
        cause: "the process crashed in native code: a bug, or libraries of releases that do not fit",
        next: "run with PYTHONFAULTHANDLER=1 or under gdb to see the call; compare the releases of the libraries that it loads",
    },
    Reason {
        words: "unique ip address",
        cause: "two nodes report the same address: VLLM_HOST_IP is equal on both, or the interface that Ray takes",
        next: "give each node its own VLLM_HOST_IP, on the network that all nodes share",
    },
    Reason {
        words: "no available node types can fulfill|number of required gpus exceeds|cannot provide a placement group|current node has no gpu|larger than the number of available gpus|actorunschedulable|total resources available",
        cause: "the job asks Ray for more GPUs than its nodes have, or for a node by an address that Ray does not know",
        next: "`ray status`: compare its GPUs with tensor times pipeline parallel size, and its addresses with VLLM_HOST_IP",
    },
    Reason {
        words: "less than desired gpu memory utilization|memory capacity is unbalanced",
        cause: "another process, or one of an earlier run, holds memory of a GPU",
        next: "`nvidia-smi` on the node lists the processes; end them, or lower the program's share of the memory",
    },
    Reason {
        words: "no available memory for the cache blocks|kv cache is needed|available kv cache memory|that can be stored in kv cache|runtimeerror: not enough memory",
        cause: "no GPU memory is left for the KV cache beside the model's weights",
        next: "more GPUs for each model, a smaller maximum length (`--max-model-len`, `--context-length`), or a larger share of the memory",
    },
    Reason {
        words: "attention heads*divisible|divisible by*parallel|not divisible by*parallel|divisible by tp|not divisible by tensor",
        cause: "a parallel size does not divide the number of ranks, heads or layers",
        next: "choose tensor, pipeline and expert parallel sizes that divide the numbers in the line",
    },
    Reason {
        words: "could not find any running ray instance|failed to connect to gcs|unable to connect to gcs|can't connect to gcs|could not connect to ray|ray is trying to start at",
        cause: "no Ray cluster answers at the address: `ray start` was not run on this node, has ended, or another cluster is there",
        next: "`ray status` on the head node and on this one; `ray stop`, then `ray start --address=HEAD:6379`",
    },
    Reason {
        words: "failed to unpickle serialized exception",
        cause: "a worker failed with an exception that this process cannot read, because packages of the nodes differ",
        next: "read the worker's own log for the exception; compare `pip list` on all nodes",
    },
    Reason {
        words: "get timed out: some object",
        cause: "a task or an actor of Ray did not answer in time: it hangs, or waits for resources",
        next: "`ray list actors` and `ray stack` on the nodes show what it does",
    },
    Reason {
        words: "its node has died|node*has died|owner's node",
        cause: "the node of the actor was lost: its raylet ended, it was out of memory, or the network to it is cut",
        next: "read raylet.out and `dmesg -T` of that node",
    },
    Reason {
        words: "check batch related parameters",
        cause: "DeepSpeed's batch sizes do not fit the number of ranks: the whole batch is the micro batch times accumulation times ranks",
        next: "correct or omit one of the three values in the configuration; compare the number of ranks with the launcher's",
    },
    Reason {
        words: "not reachable via ssh|ssh -o passwordauthentication=no|ssh exited with exit code 255|setup passwordless ssh",
        cause: "the launcher cannot log in to the node by ssh without a password",
        next: "`ssh -o BatchMode=yes HOST true` as the same user, from the same container; the node's host key and authorized_keys",
    },
    Reason {
        words: "mpisize == tp|mpi size*tp*pp|world size*must be equal to*tp",
        cause: "the number of MPI processes is not the one that the engine was built for: tensor times pipeline parallel size",
        next: "start it with `mpirun -n N`, N being that number",
    },
    Reason {
        words: "custom_all_reduce.cuh|custom_all_reduce*error|custom allreduce*fail",
        cause: "the program's own all-reduce (vLLM's, which SGLang has too) cannot use the memory of the other GPUs: the GPUs have no access to each other, or the allocator's memory cannot be shared",
        next: "start with `--disable-custom-all-reduce`; `nvidia-smi topo -p2p r` shows the access",
    },
    Reason {
        words: "shared memory broadcast block|rpc call to*timed out|waiting for engine core",
        cause: "a worker of the engine does not answer: it hangs in a collective or a kernel, or has ended",
        next: "`py-spy dump` of each worker; read the first error of every worker's log",
    },
    Reason {
        words: "current loss scale already at minimum",
        cause: "the numbers of the training left their range",
        next: "look at loss and gradient norm of the steps before; compare the ranks: one alone points at its GPU or its data",
    },
    Reason {
        words: "cluster was started with:",
        cause: "this process has another release of Ray or Python than the cluster",
        next: "use one image on all nodes; compare `ray --version` and `python --version`",
    },
    Reason {
        words: "failed to get kvcache from prefill instance",
        cause: "the decode side did not get a request's cache from the prefill side: the transfer failed, or that side ended; the line does not say which",
        next: "read the log of the prefill side at the same time, from its first error on",
    },
    Reason {
        words: "engine was built for sm *running on sm|built with different gpu architecture|engine plan file is generated on an incompatible device|using an engine plan file across different models of devices",
        cause: "the engine was built for another kind of GPU, and an engine runs only on the kind that it was built for",
        next: "build the engine again on this kind of GPU, or start the job on nodes with the kind that it was built for",
    },
    Reason {
        words: "error in memory profiling",
        cause: "another process gave back or took memory of the GPU while vLLM measured what is free",
        next: "`nvidia-smi` on the node: end other programs on these GPUs, or start the engines one after another",
    },
    Reason {
        words: "version tag does not match|kserialization_version",
        cause: "the engine was built by another release of TensorRT than the one that loads it",
        next: "build the engine again with the release in this image, or take the image of the release that built it",
    },
    Reason {
        words: "flashattention only supports",
        cause: "this kind of GPU is older than FlashAttention supports",
        next: "choose another kind of attention (attn_implementation, --attention-backend), or a newer GPU",
    },
];
