//! Wordings of newer parts of NCCL, of what gives a program its GPUs, and of programs for training.
#![forbid(unsafe_code)]

use super::Reason;

pub(super) const WORDINGS: &[Reason] = &[
    Reason {
        words: "nccl warn uds: ",
        cause: "the ranks of this node pass memory to each other over Unix sockets, and that failed: they are in containers with different network namespaces, or the other rank ended",
        next: "run the ranks of a node in one container, or with the host's network; read the logs of this node's other ranks up to this time; NCCL_CUMEM_ENABLE=0 needs no such sockets",
    },
    Reason {
        words: "nccl library is too old*was compiled with|nccl library is not backwards compatible",
        cause: "the program was compiled for another release of NCCL than the library that it loads, as the line says",
        next: "`ldd` and LD_LIBRARY_PATH of the process; load the release that the program was compiled for, or compile it again",
    },
    Reason {
        words: "nccl warn gin is disabled|nccl warn gin not supported|no gin-capable devices|gin strong signals are required|gin va signals are required",
        cause: "the program's kernels send over the network themselves (NCCL's GIN), and the NICs, their plugin or NCCL_GIN_ENABLE of this job do not allow it",
        next: "NCCL_DEBUG=INFO shows which GIN backend each rank finds; look at NCCL_GIN_ENABLE, and at the NICs and the plugin that GIN needs",
    },
    Reason {
        words: "communicator does not support symmetric memory",
        cause: "not all GPUs of this communicator can map memory of the others, which symmetric memory needs",
        next: "`nvidia-smi topo -p2p r` on each node; look for NCCL_CUMEM_ENABLE=0 and NCCL_P2P_DISABLE=1 in the settings of the job",
    },
    Reason {
        words: "mnnvl is not supported on this system",
        cause: "NCCL_MNNVL_ENABLE=1 asks for an NVLink domain of several nodes, which these nodes do not form",
        next: "unset NCCL_MNNVL_ENABLE; where there is such a domain: `nvidia-smi -q | grep -A4 Fabric` and the IMEX daemons on every node",
    },
    Reason {
        words: "multicast team request setup",
        cause: "the fabric manager does not know a GPU that a program wants for multicast over NVLink: it or the GPU was restarted after the other",
        next: "end all programs on the node's GPUs, then restart nvidia-fabricmanager; NCCL_NVLS_ENABLE=0 runs without multicast until then",
    },
    Reason {
        words: "failed to query nvidia devices",
        cause: "the driver's device files are missing or may not be opened: the driver is not loaded, or was just removed",
        next: "`lsmod | grep nvidia`, `ls -l /dev/nvidia*` and `dmesg -T | grep -i nvrm` on the node",
    },
    Reason {
        words: "unresolvable cdi devices",
        cause: "the container runtime of this node knows no device of this name: its CDI specification was not generated, or has other names",
        next: "`nvidia-ctk cdi list` on the node; `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` makes the specification",
    },
    Reason {
        words: "forward order differs across ranks",
        cause: "the ranks run the parts of the FSDP model in different orders: a branch of the program depends on the rank or on its data",
        next: "compare what the ranks that the line names do in this step; look for parts of the model that only some inputs use",
    },
    Reason {
        words: "inconsistent compute device and `device_id`",
        cause: "the model was put on another GPU than the one that FSDP is given for this rank: the rank had not chosen its GPU before",
        next: "call torch.cuda.set_device(local_rank) before the model is made, and give FSDP the same device_id",
    },
    Reason {
        words: "not supported for nccl process group",
        cause: "NCCL has no such type of numbers: the program gives a collective a tensor that must be converted first",
        next: "convert the tensor, such as a complex one with torch.view_as_real, before the collective that the traceback shows",
    },
    Reason {
        words: "failed to find c compiler",
        cause: "the image has no C compiler, which Triton needs when it first runs a kernel",
        next: "install gcc in the image, or set CC to a compiler that it has",
    },
    Reason {
        words: "environment variable cuda_device_max_connections to",
        cause: "CUDA_DEVICE_MAX_CONNECTIONS is not set as this option of Megatron needs it",
        next: "set the variable to the value in the line for all ranks, in the job's script or with the launcher's option for variables",
    },
    Reason {
        words: "number of tasks per node configured in slurm*does not match|use `--ntasks-per-node",
        cause: "Lightning's number of devices does not fit the tasks of the Slurm job: it wants one task for each GPU of a node",
        next: "`#SBATCH --ntasks-per-node` must be the number of devices, and the program must be started with srun",
    },
    Reason {
        words: "no slot '*specified on host",
        cause: "DeepSpeed's --include or --exclude names a GPU that the hostfile does not give to this host",
        next: "compare the slots of the host in the hostfile with --include; GPUs count from 0",
    },
    Reason {
        words: "launcher '*not installed",
        cause: "the launcher that DeepSpeed is told to use is not installed on this node",
        next: "install it (`apt install pdsh`), or choose another one with --launcher",
    },
    Reason {
        words: "does not match the version torch was compiled with",
        cause: "nvcc of this image is of another CUDA release than the one that PyTorch was built with, so the extension is not compiled",
        next: "install the toolkit of PyTorch's release (torch.version.cuda) and point CUDA_HOME to it; DS_SKIP_CUDA_CHECK=1 where only the minor release differs",
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
