//! Words that tell what kind of call failed, and not why.
#![forbid(unsafe_code)]

use super::Reason;

/// A call that failed, in the words that programs use: `failed to load`, `could not send`.
macro_rules! failed_to {
    ($verbs:literal) => {
        concat!(
            r"(?:fail\w*|unable|cannot|can't|could ?n[o']t|error|exception|problem|trouble)\b,?:? (?:to |while |in |when |on |during |with )?(?:\w+ ){0,2}?(?:",
            $verbs,
            r")|\b(?:",
            $verbs,
            r")\w*\b.{0,40}\bfail(?:ed|s|ure)\b"
        )
    };
}

/// A thing next to the words that it failed, before or behind it.
macro_rules! near {
    ($things:literal) => {
        concat!(
            $things,
            r"\b.{0,24}\b(?:fail\w*|errors?|refused|lost|closed|broken|reset|unavailable|invalid|corrupt\w*|incomplete|empty|unexpected)\b|\b(?:fail\w*|errors?|cannot|could not|couldn't|unable|invalid|corrupt\w*|incomplete|unexpected|bad)\b.{0,24}?",
            $things,
            r"\b"
        )
    };
}

/// The first counts; they count where no other words are in a line.
pub(super) const VAGUE: &[Reason] = &[
    Reason {
        words: r"oci runtime|\brunc\b|containerd|shim task|createcontainer|crashloopbackoff|back-?off restarting|pod sandbox|\benroot\b|\bpyxis\b|singularity|apptainer|docker daemon|response from daemon",
        cause: "a container was not made or not started",
        next: "start the same image by hand on the node; read the log of its container runtime",
    },
    Reason {
        words: r"not[ _-]?found|does not exist|doesn't exist|not exist|no such|unknown|(?:can(?:not|'t)|could ?n[o']t|unable to) (?:find|locate|resolve|determine)|not registered|unregistered|no .{1,40} (?:found|matches|available|registered)|missing|undefined|unresolved|not recogni[sz]ed|unrecogni[sz]ed",
        cause: "what the line names is not there: its name is wrong, or it was not made, installed, mounted or registered, or it has expired",
        next: "look for the name in the line: in the configuration, on this node, in the container and at the service that should have it",
    },
    Reason {
        words: failed_to!("load|read|open|pars|decod|deserializ|download|fetch|extract|unpack"),
        cause: "a file, a model or a message could not be read: it is missing, incomplete, of another format, or its source does not answer",
        next: "read it by hand on this node, in the container, with the path or the address in the line or above it",
    },
    Reason {
        words: failed_to!("writ|sav|stor|upload|flush|commit|dump|checkpoint"),
        cause: "something could not be written: no space, no right, or a file system or service that does not answer",
        next: "`df -h`, `ls -ld` and a write by hand to the path or the address in the line",
    },
    Reason {
        words: failed_to!("alloc|reserv|map|regist|pin|lock|acquir"),
        cause: "memory or another resource could not be had: it is used up, or the process may not take it",
        next: "`nvidia-smi`, `free -g`, `ulimit -a` and the limits of the container on this node",
    },
    Reason {
        words: failed_to!(
            "send|receiv|recv|transfer|transmit|push|pull|post|publish|forward|deliver|sync|broadcast|gather|all_?reduce"
        ),
        cause: "data did not get to or from another process: it ended, is stuck, or the network between them failed",
        next: "read the log of the other process of the same time; then the network between the two nodes",
    },
    Reason {
        words: failed_to!(
            "launch|start|spawn|creat|initiali|init|set ?up|setup|configur|build|compil|mount|attach|join|execut|invok|run|call|import|enabl|bring"
        ),
        cause: "a part of the program could not be started or called: the lines around it name the part",
        next: "read the lines of this process before and behind it; start the same part alone",
    },
    Reason {
        words: r"\b(?:child|sub)?process(?:es)?\b.{0,60}\b(?:died|dead|failed|crashed|exited|ended|lost|gone)\b|\b(?:worker|actor|owner|container|pod|task|rank|job|engine|server|replica|executor|agent|node|instance|peer|client|daemon|service)s?\b.{0,60}\b(?:died|dead|fail(?:ed|s|ure)?|crash(?:ed)?|exit(?:ed)?|lost|gone|unhealthy|down)\b|non-?zero (?:exit|status|code)|exit(?:ed|s)?(?: with)?(?: (?:exit|return|error))?[ _-]?(?:code|status)?[ :=(]*[1-9]\d*\b",
        cause: "a process of the job ended or failed: its own log has the reason",
        next: "read the last lines of that process's own log, before this time",
    },
    Reason {
        words: r"\babort|\bcancel|interrupt|shut(?:ting)? ?down|torn down|\bterminat|\bstopped\b|\bkill",
        cause: "the program was ended because of something else: an earlier failure, a timeout, or a person",
        next: "read the first failure of any process of the job before this line",
    },
    Reason {
        words: r"\b(?:npu|npus|hccl|hccp|ascend|acl|torch_npu|cann)\b",
        cause: "a call on an NPU, its driver or HCCL failed",
        next: "`npu-smi info` on this node, and the logs of CANN under ~/ascend/log of the same time",
    },
    Reason {
        words: r"\b(?:cuda|gpu|gpus|nvlink|nvml|cudart|hip|rocm|device-side)\b",
        cause: "a call on a GPU or its driver failed",
        next: "`nvidia-smi`, `dmesg -T | grep -i -e xid -e nvrm`; run with CUDA_LAUNCH_BLOCKING=1",
    },
    Reason {
        words: r"\b(?:rdma|infiniband|roce|mlx5?_?\w*|ibv?\w*|verbs|efa|libfabric|ucx|ucp|uct|hca|nic)\b",
        cause: "a call on an RDMA device or its library failed",
        next: "`ibv_devinfo` and `dmesg -T | tail` on this node, and the log of the peer of the same time",
    },
    Reason {
        words: r"\b(?:collective|communicator|process ?group|rendezvous|barrier|all_?reduce|all_?gather)s?\b",
        cause: "ranks did not come together in a call that all must make",
        next: "read the first failure of every rank; the rank whose log ends first is the one to look at",
    },
    Reason {
        words: r"\bnet/(?:ofi|ib|fastrak|socket|gpudirecttcpx\w*|fastsocket|ibext\w*|gib)\b",
        cause: "a call of NCCL's network failed, and this line does not say why",
        next: "read the other lines of the same network in this log before it, and the peer's log of the same time",
    },
    Reason {
        words: r"\b(?:nccl|rccl|gloo|mpi|store)\b",
        cause: "a call of the library that connects the ranks failed, and this line does not say why",
        next: "read the earlier lines of this process, and the first failure of every rank",
    },
    Reason {
        words: near!(
            r"(?:^|[\s'\x22(\[])(?:sockets?|connections?|connect|server|https?|grpc|rpc|url|endpoint|requests?)"
        ),
        cause: "a connection or a request to another program failed",
        next: "read the other program's log of the same time; `nc -vz HOST PORT` from this node",
    },
    Reason {
        words: near!(
            r"\b(?:files?|directory|folder|disk|filesystem|mount|checkpoint|dataset|tokenizer|weights|safetensors)"
        ),
        cause: "a file, or what is in it, is not what the program expects",
        next: "`ls -l` the path on this node, in the container; compare it with another node",
    },
    Reason {
        words: r"\b(?:valueerror|configuration|invalid|unsupported|wrong)\b|\b(?:bad|unexpected|illegal|missing|incorrect) (?:config|argument|option|setting|parameter|environment|value|size|shape|dtype)\b|\b(?:config|argument|option|setting|parameter|environment|value|size|shape|dtype)s? .{0,40}\b(?:must|should|cannot|not|out of)\b",
        cause: "a value that the program was given is one that it refuses",
        next: "compare the value in the line with the documentation of the same release, and with the other ranks",
    },
];
