//! What the front of a log says on networks that no line of NCCL names: the libraries beside NCCL that move data, and
//! what a command or an environment asks for.
//!
//! Only the front is read, once for each file: a job's command, its environment and what its libraries say when they
//! start are there, and no literal of a signature is needed for them.
//!
//! Not here: signatures of such lines. They may hold any name, so they do not leave with a log.
#![forbid(unsafe_code)]

use super::loggers::regex;
use super::one_node::OneNode;
use super::seen::add_value;
use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Bytes at the front of a file that are searched.
pub(super) const FRONT: usize = 64 << 10;
/// Bytes before and behind a word that are of its line.
const NEAR: usize = 1 << 10;
/// Most bytes of a value.
const VALUE_BYTES: usize = 64;
/// The variable that keeps NCCL from InfiniBand.
const IB_DISABLE: &str = "NCCL_IB_DISABLE";

/// Words of nccl-tests where the GPUs have less memory than its largest size needs.
pub(super) const REDUCED: &[u8] = b" due to memory limitation";

const MOONCAKE_RDMA: &str = "Mooncake RDMA";
pub(super) const UCC_UCX: &str = "UCC UCX";
/// What moves data that GPUs send themselves, in NCCL's examples of it.
pub(super) const GIN: &str = "NCCL GIN";
/// The link of a test of RDMA.
pub(super) const PERFTEST_ROCE: &str = "perftest RoCE";
pub(super) const PERFTEST_IB: &str = "perftest InfiniBand";
pub(super) const UCX_WITHIN: &str = "UCX within a node";
/// A process of UCX that logs what it does, as each one of a job does then.
static OF_UCX: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\[(?P<host>[\w.-]+):(?P<pid>\d+):\w+ *\] +\w+\.c:\d+ +UCX +(?:DEBUG|TRACE|REQ|DATA|ASYNC|FUNC|POLL) ",
    )
});
/// Most processes of UCX that are kept.
const UCX_MAX: usize = 32;
/// What ctest writes of its tests, whose numbers are before the lines of each.
static CTEST: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?m)^ *\d+/\d+ Test +#\d+: |^ +Start +\d+: |% tests passed, \d+ tests? failed out of ")
});
/// Words of libfabric and of its plugin where the provider is that of EFA, and providers that NCCL's plugin selects.
const OF_EFA: [&[u8]; 5] = [
    b"provider: efa",
    b"FI_PROTO_EFA",
    b"fi_addr_efa:",
    b"reachable by EFA device",
    b"Setting provider_filter to efa",
];
const EFA: &[u8] = b"efa";
const CXI: &[u8] = b"cxi";
static SELECTED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[Ss]elected [Pp]rovider is (?P<provider>[a-z]+)"));
/// A program's own calls of libibverbs.
pub(super) const RDMA_VERBS: &str = "RDMA verbs";

/// Libraries that move data, each with words of their own lines. A line that says that a library is missing has none of
/// these, or one of [`ABSENT`].
const LIBRARIES: [(&str, &[&str]); 46] = [
    (
        "Mooncake over a network that no line names",
        &[
            "transfer_engine_impl.cpp:",
            "transfer_metadata.cpp:",
            "transfer_metadata_plugin.cpp:",
            "key=mooncake%2Fr",
            "transfer_engine.cpp:",
            "transfer_engine_py.cpp:",
            "transfer_task.cpp:",
            "ascend_direct_transport",
            "Mooncake store successfully",
            "Mooncake store warmup",
            "mooncake/conn.py",
            "mooncake_connector.py",
            "mooncake_store.py",
            "mooncake_backend",
        ],
    ),
    // It uses RDMA if it finds a device, unless it says that it takes another one of these.
    (
        MOONCAKE_RDMA,
        &[
            "Topology discovery complete. Found 1",
            "Topology discovery complete. Found 2",
            "Topology discovery complete. Found 3",
            "Topology discovery complete. Found 4",
            "Topology discovery complete. Found 5",
            "Topology discovery complete. Found 6",
            "Topology discovery complete. Found 7",
            "Topology discovery complete. Found 8",
            "Topology discovery complete. Found 9",
            "rdma_context.cpp:",
            "rdma_endpoint.cpp:",
            "rdma_transport.cpp:",
        ],
    ),
    (
        "Mooncake TCP",
        &[
            "Topology discovery complete. Found 0 HCAs",
            "Installing TCP transport",
            "tcp_transport.cpp:",
        ],
    ),
    (
        "Mooncake EFA",
        &[
            "AWS Elastic Fabric Adapter transport initialized",
            "discovery complete for EFA. Found",
        ],
    ),
    (
        "oneCCL over a network that no line names",
        &[
            "|CCL_INFO|",
            "|CCL_WARN|",
            "|CCL_ERROR|",
            "oneccl_bindings",
            "ProcessGroupXCCL",
            ": oneCCL: ",
            "'ccl' for distributed",
        ],
    ),
    ("oneCCL OFI", &["switch to ATL/OFI"]),
    (
        "oneCCL over MPI",
        &["finalize atl-mpi", "finalized atl-mpi"],
    ),
    ("oneCCL within a node", &[": is_single_node"]),
    ("OpenMPI OFI", &["mtl_ofi", "mtl/ofi/", "Open MPI OFI MTL"]),
    (
        "OpenMPI openib",
        &[
            "/mca/btl/openib/",
            "btl_openib_connect_",
            "mca_btl_openib.so(",
            "BTLs attempted: openib",
        ],
    ),
    ("OpenMPI mxm", &["selected yalla best priority"]),
    // The table of settings with which nixlbench begins.
    ("NIXL UCX", &[]),
    ("NIXL LIBFABRIC", &[]),
    ("NIXL Mooncake over a network that no line names", &[]),
    // The rates of DeepEP's tests between nodes, beside those of NVLink.
    (
        "DeepEP RDMA and NVLink",
        &["GB/s (RDMA)", "rdma_send_bytes: ", "kernel(RDMA): "],
    ),
    (
        GLOO,
        &[
            "Gloo connectFullMesh",
            "= ProcessGroupGloo(",
            "gloo/transport/tcp/",
        ],
    ),
    ("OpenMPI TCP", &["btl_tcp_endpoint.c:", "btl_tcp_frag.c:"]),
    (
        "MVAPICH2 verbs",
        &[
            "channels/mrail/src/gen2/",
            "MPIDI_CH3I_MRAIL",
            "][handle_cqe]",
        ],
    ),
    (
        "TensorFlow gRPC",
        &["server with target: grpc://", "GrpcChannelCache for job"],
    ),
    (
        NVSHMEM_RDMA,
        &[
            "transport: IBGDA",
            "transport: IBRC",
            "transport: ibrc",
            "ibgda.cpp",
            "ibrc.cpp",
            "ib_roce_get_version_num",
            // DeepEP's kernels between nodes.
            "internode_dispatch",
            "internode_combine",
            "csrc/kernels/internode",
        ],
    ),
    // What a device says that NVSHMEM's transport tries, which may be none that moves data.
    (NVSHMEM_RDMA, &[TRIED]),
    (
        "NVSHMEM over a network that no line names",
        &[
            "nvshmem/src/host/",
            "main_nvshmem/src/",
            "nvshmem_src/src/",
            "NVSHMEM initialized",
            "nvshmemi_",
        ],
    ),
    (
        "NIXL over a network that no line names, mostly UCX",
        &[
            "NIXL_ERR_",
            "nixl_connector.py",
            "nixl/conn.py",
            "nixl_agent",
            "NIXL agent",
            "nixl_agent.cpp",
            "NIXL transport",
            "NIXL worker",
            "NIXL INFO",
        ],
    ),
    (
        "Ascend HCCL",
        &[
            "ProcessGroupHCCL",
            "hcclComm",
            "[HCCL]",
            "HcclComm",
            "HCCL_SUCCESS",
        ],
    ),
    (
        "Habana HCCL",
        &[
            "distributed/hccl/",
            "HCCL demo",
            "/HCL/hcl/src/",
            "][HCCL  ",
        ],
    ),
    (
        "UCC over a network that no line names",
        &[
            " UCC  ERROR",
            " UCC  WARN",
            " UCC  INFO",
            " CL_BASIC ",
            " TL_UCP ",
        ],
    ),
    (UCC_UCX, &["/libucc_tl_ucp.so(", "/src/components/tl/ucp/"]),
    (
        "MSCCL++ over a network that no line names",
        &[" MSCCLPP INFO ", " MSCCLPP WARN "],
    ),
    (
        "UCX over a network that no line names",
        &[
            "pml_ucx.c:",
            "osc_ucx_component.c:",
            "/libucp.so",
            "/src/ucp/core/",
            "/src/uct/base/",
            " UCX  WARN ",
            " UCX  INFO ",
            " UCX  ERROR ",
            "] UCXPY ",
            "ucx://",
        ],
    ),
    (
        "UCX IB",
        &[
            "libuct_ib.so.0(uct_rc_",
            "libuct_ib.so.0(uct_dc_",
            "libuct_ib.so.0(uct_ud_",
        ],
    ),
    (
        RDMA_VERBS,
        &[
            "ailed to modify QP state to ",
            "ailed to modify QP to ",
            "ibverbs init qp failed",
        ],
    ),
    ("TensorPipe TCP", &["tensorpipe/transport/uv/"]),
    ("TensorPipe IB", &["tensorpipe/transport/ibv/"]),
    (
        "TensorPipe within a node",
        &[
            "tensorpipe/transport/shm/",
            "tensorpipe/channel/cma/",
            "tensorpipe/channel/cuda_ipc/",
        ],
    ),
    (
        "MPICH OFI",
        &[
            "OFI poll failed",
            "MPICH WARNING: OFI ",
            "MPIDI_OFI_send",
            "MPIDI_OFI_recv",
            "MPIDI_OFI_progress",
        ],
    ),
    ("MPICH UCX", &["MPIDI_UCX_"]),
    (
        "MPICH within a node",
        &["MPIDI_IPCI_", "MPIDI_GPU_ipc_handle_map"],
    ),
    // What Open MPI copies from the memory of another process of the host.
    (
        "OpenMPI within a node",
        &[
            "] Read -1, expected ",
            "(mca_btl_vader_get_cma",
            "(mca_btl_vader_put_cma",
            "(mca_btl_vader_get_xpmem",
            "(mca_btl_vader_put_xpmem",
            // Memory of a GPU that another process of the host is to map.
            "The call to cuIpcOpenMemHandle failed",
            "The call to cuIpcGetMemHandle failed",
        ],
    ),
    (UCX_WITHIN, &["cuda_ipc_md.c:", "uct_cuda_ipc_"]),
    (
        GIN,
        &[
            "device communicator with GIN support",
            "GIN AlltoAll",
            "GIN Ring Exchange",
        ],
    ),
    (PERFTEST_ROCE, &["Link type       : Ethernet"]),
    (PERFTEST_IB, &["Link type       : IB"]),
    ("libfabric cxi", &["cxil_map", "cxip_"]),
    ("GASNet OFI", &["ofi-conduit/gasnet"]),
    ("GASNet IB", &["ibv-conduit/gasnet"]),
    ("Neuron OFI", &["CCOM INFO NET/OFI Selected"]),
];

const NVSHMEM_RDMA: &str = "NVSHMEM over InfiniBand or RoCE";
const TRIED: &str = "buffer on the specified memory type";
/// NVSHMEM's transport that did not start.
const FAILED_TRANSPORT: &[u8] = b"init failed for transport";

/// The path between two GPUs that is no NVLink, in NCCL's table of paths, and what NCCL says of two that have none.
static OVER_PCIE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"GPU/\w+ :(?:[A-Z]+/\w+ \([\d./]+/\w+\) )*GPU/\w+ \(\d+/[\d.]+/(?:PIX|PXB|PHB|NODE|SYS)\)|P2P is disabled between connected GPUs \d",
    )
});

/// What nixlbench moves data with: `Backend (--backend=[UCX,POSIX,OBJ])    : UCX`.
static OF_NIXLBENCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\(--backend=\[[^\]\n]{0,200}\]\) *: *(?P<backend>UCX|LIBFABRIC|Mooncake)\b")
});

/// What Horovod is built with: `Available Tensor Operations:` and a list, `    [X] Gloo`.
static OF_HOROVOD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bAvailable Tensor Operations:[ \t]*\r?\n(?P<list>(?:[ \t]*\[[ X]\] [\w-]+[ \t]*\r?\n)+)",
    )
});
const BUILT_WITH: &[u8] = b"[X] ";
const GLOO: &str = "Gloo TCP";

/// Words of a line on a library that is not there, or that could be used and need not be.
const ABSENT: [&[u8]; 14] = [
    FAILED_TRANSPORT,
    b" is available",
    b" imported",
    b"No module named",
    b"not installed",
    b"not available",
    b"cannot open",
    b"unable to open",
    b"ailed to import",
    b"isabled",
    b"not support",
    b"ailed to create UCP",
    b"No matched device",
    b"o device",
];

/// Words of a library that is not there, or of what a library that is there looks for.
const NOT_FOUND: &[u8] = b"not found";

struct Words {
    search: AhoCorasick,
    /// The library of each word.
    of: Vec<usize>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let all = LIBRARIES.iter().enumerate();
    let all = all.flat_map(|(library, (_, words))| words.iter().map(move |word| (library, *word)));
    let (of, words): (Vec<usize>, Vec<&str>) = all.unzip();
    let search = AhoCorasick::new(words).expect("few words");
    Words { search, of }
});

/// What a variable asks for.
#[derive(Clone, Copy)]
enum Asks {
    /// What its value names, behind these words.
    Value(&'static str),
    /// This, whatever its value.
    Fixed(&'static str),
    /// This, if it is 0.
    IfZero(&'static str),
    /// This, if it is not 0.
    Unless0(&'static str),
}

const IB: &str = "InfiniBand or RoCE";
const SOCKETS: &str = "sockets instead of InfiniBand";
const PROVIDER: &str = "libfabric's provider";
/// NCCL's call that makes a communicator for each GPU of one process.
const ALL_IN_ONE: &[u8] = b"ncclCommInitAll";
/// Variables that ask for a network, the strongest first of those of one program, which is before its variables: empty
/// where the value names it.
const VARIABLES: [(&str, &str, Asks); 28] = [
    ("NCCL", "NCCL_NET", Asks::Value("the network")),
    ("NCCL", "NCCL_NET_PLUGIN", Asks::Value("the plugin")),
    ("NCCL", "NCCL_FASTRAK_CTRL_DEV", Asks::Fixed("TCPXO")),
    ("NCCL", "NCCL_FASTRAK_IFNAME", Asks::Fixed("TCPXO")),
    (
        "NCCL",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        Asks::Fixed("TCPX"),
    ),
    ("NCCL", "NCCL_GPUDIRECTTCPX_CTRL_DEV", Asks::Fixed("TCPX")),
    ("NCCL", "NCCL_IB_HCA", Asks::Fixed(IB)),
    ("NCCL", "NCCL_IB_GID_INDEX", Asks::Fixed(IB)),
    ("NCCL", "NCCL_IB_TC", Asks::Fixed(IB)),
    ("NCCL", "NCCL_IB_QPS_PER_CONNECTION", Asks::Fixed(IB)),
    ("NCCL", "NCCL_IB_PCI_RELAXED_ORDERING", Asks::Fixed(IB)),
    ("NCCL", "NCCL_IB_ADAPTIVE_ROUTING", Asks::Fixed(IB)),
    // Its default: another variable tells more.
    ("NCCL", IB_DISABLE, Asks::IfZero(IB)),
    ("NCCL", "FI_PROVIDER", Asks::Value(PROVIDER)),
    (
        "NCCL",
        "FI_EFA_USE_DEVICE_RDMA",
        Asks::Unless0("libfabric's provider efa"),
    ),
    // What is left to NCCL without a plugin.
    ("NCCL", IB_DISABLE, Asks::Unless0(SOCKETS)),
    (
        "NVSHMEM",
        "NVSHMEM_REMOTE_TRANSPORT",
        Asks::Value("NVSHMEM over"),
    ),
    (
        "NVSHMEM",
        "NVSHMEM_IB_ENABLE_IBGDA",
        Asks::Unless0("NVSHMEM over ibgda"),
    ),
    ("oneCCL", "CCL_ATL_TRANSPORT", Asks::Value("oneCCL over")),
    (
        "Mooncake",
        "MOONCAKE_PROTOCOL",
        Asks::Value("Mooncake over"),
    ),
    (
        "Mooncake",
        "MC_FORCE_TCP",
        Asks::Unless0("Mooncake over tcp"),
    ),
    ("", "kv_connector", Asks::Value("the KV connector")),
    (
        "",
        "disaggregation-transfer-backend",
        Asks::Value("the transfer backend"),
    ),
    ("UCX", "UCX_TLS", Asks::Value("UCX over")),
    ("MPI", "OMPI_MCA_pml", Asks::Value("Open MPI's pml")),
    ("MPI", "OMPI_MCA_btl", Asks::Value("Open MPI's btl")),
    ("MPI", "I_MPI_FABRICS", Asks::Value("Intel MPI over")),
    ("MPI", "MPIR_CVAR_CH4_NETMOD", Asks::Value("MPICH over")),
];

/// Values that ask for nothing.
const NO_VALUES: [&str; 8] = ["", "none", "None", "null", "all", "not", "unset", "default"];

/// A variable with its value: in a command, an `export`, or a table of an environment. Advice quotes what one may set.
/// A value has a space within quotes of its own, and in the one name of a network that has one.
static SETTING: LazyLock<Regex> = LazyLock::new(|| {
    let names: BTreeSet<&str> = VARIABLES.iter().map(|(_, name, _)| *name).collect();
    let names: Vec<&str> = names.into_iter().rev().collect();
    regex(&format!(
        r#"(?:^|[^\w`$\{{.-])(?P<name>{})["']?(?: ?[=:] ?|\s+"?value"?: *| set to )(?:'(?P<quoted>[\w^=][\w/.:,^=* -]*)'|"(?P<twice>[\w^=][\w/.:,^=* -]*)"|\\?["']?(?P<value>AWS Libfabric\b|[\w^=][\w/.:,^=\\*-]*))"#,
        names.join("|")
    ))
});

/// An option of a command that asks for one.
static OPTION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?:-(?:mca|genv)\s+(?P<name>pml|btl|I_MPI_FABRICS|FI_PROVIDER|UCX_TLS)\s+|--(?P<option>disaggregation-transfer-backend)[ =])\\?["']?(?P<value>[\w^][\w:,^-]*)"#,
    )
});

/// What is before a variable that a sentence advises to set. `set` and `export` alone are commands.
static ADVICE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b(?:[Pp]lease|[Tt]o|[Ii]f|[Yy]ou|[Tt]ry:?|or|by|with|via|should|must|can)\s(?:.*\s)?(?:set|export)\s|(?:^|\s)(?:Set|[Tt]ry:?|[Uu]se|[Tt]o (?:force )?enable)\s",
    )
});

/// NCCL's level in a command or an environment. NCCL's own advice, `run with NCCL_DEBUG=INFO for details`, is none.
static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?m)(?:^|^\S*[$+#>] |(?:-x|-e|-genv|--env|export|&&|[;,{] ?|\w=\S*) +|--env=|--export=\S*|[{,])\s*["']?NCCL_DEBUG["']?(?: ?[=:] ?|\s+"?value"?: *| set by environment to )["']?(?P<level>(?i:WARN|INFO|ABORT|TRACE))\b"#,
    )
});

/// The variable that has NCCL write into files, with a value.
static DEBUG_FILE: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?m)(?:^|[\s"'{,])NCCL_DEBUG_FILE["']?(?: ?[=:] ?)["']?[\w/.~%$]"#));

/// The level at which a log shows that NCCL logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Unknown,
    Warn,
    Info,
}

/// Most GPUs of a node; a job of more ranks has several nodes.
pub(super) const GPUS_OF_A_NODE: u32 = 8;

/// Counts of nodes, or of all ranks.
static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)(?:\b(?:nnodes|num_nodes|slurm_nnodes|slurm_job_num_nodes)|--nodes)["']?(?: ?[=:] ?| )["']?(?P<nodes>\d{1,6})\b|\bsrun\s[^\n]{0,200}\s(?-i:-N) ?(?P<of_srun>\d{1,6})\b|\bworld[_ ]size["']?(?: ?[=:] ?| )["']?(?P<ranks>\d{1,6})\b"#,
    )
});

fn is_of_several(found: &Captures<'_>) -> bool {
    let most = |name: &str, most: u32| {
        let count = found.name(name).map(|count| count.as_bytes());
        let count = count.and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        count.is_some_and(|count: u32| count > most)
    };
    most("nodes", 1) || most("of_srun", 1) || most("ranks", GPUS_OF_A_NODE)
}

/// What the fronts of files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fronts {
    /// Indices in [`LIBRARIES`].
    libraries: BTreeSet<usize>,
    /// Whether a transport of NVSHMEM did not start.
    has_failed_transport: bool,
    /// Values of variables.
    values: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Whether a script of Google's gIB runs.
    has_gib_scripts: bool,
    /// Whether one process makes all communicators.
    is_of_one_process: bool,
    /// Whether the job has more nodes than one, or more ranks than a node has GPUs.
    has_several_nodes: bool,
    /// What is counted of nodes and ranks.
    one_node: OneNode,
    level: Level,
    /// Whether nccl-tests lowered its largest size, as the GPUs have no more memory.
    has_reduced_size: bool,
    /// Whether NCCL writes its lines into files of their own.
    has_debug_file: bool,
    /// Whether NCCL says that two GPUs of a node are connected over PCIe.
    has_gpus_over_pcie: bool,
    /// Whether ctest writes the lines, each behind the number of its test.
    is_of_ctest: bool,
    /// Processes of UCX that log what they do.
    of_ucx: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// Whether libfabric has the provider of EFA or of Slingshot, and whether NCCL's plugin selects another one.
    has_efa: bool,
    has_cxi: bool,
    has_other_provider: bool,
    /// Whether the RDMA devices that NCCL lists one by one are of Ethernet.
    of_ethernet: BTreeSet<bool>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// The program that is asked; empty where `what` names it.
    pub of: &'static str,
    /// What, and the variable that asks for it: `InfiniBand or RoCE (NCCL_IB_HCA)`.
    pub what: String,
}

impl Fronts {
    /// Reads the front of a file.
    pub(super) fn read(&mut self, block: &[u8]) {
        let front = &block[..block.len().min(FRONT)];
        self.see_libraries(front);
        self.see_nixlbench(front);
        self.see_horovod(front);
        self.has_several_nodes |= COUNTS
            .captures_iter(front)
            .any(|found| is_of_several(&found));
        self.one_node.read(front);
        self.is_of_one_process |= memchr::memmem::find(front, ALL_IN_ONE).is_some();
        self.has_gib_scripts |= memchr::memmem::find(front, b"/usr/local/gib/").is_some();
        self.has_reduced_size |= memchr::memmem::find(front, REDUCED).is_some();
        self.has_gpus_over_pcie |= OVER_PCIE.is_match(front);
        self.is_of_ctest |= CTEST.is_match(front);
        let has = |word: &&[u8]| memchr::memmem::find(front, word).is_some();
        self.has_efa |= OF_EFA.iter().any(has);
        for found in SELECTED.captures_iter(front) {
            match &found["provider"] {
                EFA => self.has_efa = true,
                CXI => self.has_cxi = true,
                _ => self.has_other_provider = true,
            }
        }
        self.of_ethernet
            .extend(crate::networks::listed_of_ethernet(front));
        if has(&&b" UCX  "[..]) {
            let processes = OF_UCX.captures_iter(front);
            self.add_ucx(processes.map(|one| (one["host"].to_vec(), one["pid"].to_vec())));
        }
        if memchr::memmem::find(front, b" NCCL INFO ").is_some() {
            self.level = Level::Info;
        }
        self.see_level(front);
        for found in SETTING
            .captures_iter(front)
            .chain(OPTION.captures_iter(front))
        {
            let (Some(name), Some(value)) = (
                found.name("name").or_else(|| found.name("option")),
                found
                    .name("value")
                    .or_else(|| found.name("quoted"))
                    .or_else(|| found.name("twice")),
            ) else {
                continue;
            };
            let before = line_before(front, name.start());
            if !is_comment(before) && !ADVICE.is_match(last_sentence(before)) {
                let name = match name.as_bytes() {
                    b"pml" => b"OMPI_MCA_pml",
                    b"btl" => b"OMPI_MCA_btl",
                    name => name,
                };
                self.set(name, value.as_bytes());
            }
        }
    }

    /// Reads lines for the libraries that they name.
    pub(super) fn see_libraries(&mut self, lines: &[u8]) {
        let words = &*WORDS;
        self.has_failed_transport |= memchr::memmem::find(lines, FAILED_TRANSPORT).is_some();
        for found in words.search.find_iter(lines) {
            let library = words.of[found.pattern().as_usize()];
            if self.libraries.contains(&library) {
                continue;
            }
            let line = line_at(lines, found.start());
            // A library that logs a place in its own source is there.
            let is_own = lines[found.range()].ends_with(b".cpp:");
            let is_missing = !is_own && memchr::memmem::find(line, NOT_FOUND).is_some();
            if !is_missing && !says_absent(line) {
                self.libraries.insert(library);
            }
        }
    }

    fn see_nixlbench(&mut self, front: &[u8]) {
        let Some(found) = OF_NIXLBENCH.captures(front) else {
            return;
        };
        let of = |name: &str| {
            let backend = name.strip_prefix("NIXL ")?.split(' ').next()?;
            (backend.as_bytes() == &found["backend"]).then_some(())
        };
        let library = LIBRARIES.iter().position(|(name, _)| of(name).is_some());
        self.libraries.extend(library);
    }

    /// Reads whether Horovod has nothing else than Gloo to move data.
    fn see_horovod(&mut self, front: &[u8]) {
        let Some(found) = OF_HOROVOD.captures(front) else {
            return;
        };
        let list = found["list"].split(|byte| *byte == b'\n');
        let mut built = list.filter_map(|line| line.trim_ascii().strip_prefix(BUILT_WITH));
        if built.next() == Some(b"Gloo") && built.next().is_none() {
            let library = LIBRARIES.iter().position(|(name, _)| *name == GLOO);
            self.libraries.extend(library);
        }
    }

    fn see_level(&mut self, front: &[u8]) {
        let is_set = |end: usize| {
            let before = line_before(front, end);
            !is_comment(before) && !ADVICE.is_match(last_sentence(before))
        };
        for found in LEVEL.captures_iter(front) {
            let level = &found["level"];
            let is_warn = level.eq_ignore_ascii_case(b"WARN");
            if found.get(0).is_some_and(|found| is_set(found.end())) {
                let level = if is_warn { Level::Warn } else { Level::Info };
                self.level = self.level.max(level);
            }
        }
        let mut files = DEBUG_FILE.find_iter(front);
        self.has_debug_file |= files.any(|found| is_set(found.end()));
    }

    /// What stands for a line that is left out of a log and sets the level of NCCL.
    pub(super) fn level_of(line: &[u8]) -> Option<&'static [u8]> {
        let mut fronts = Self::default();
        if memchr::memmem::find(line, b"NCCL_DEBUG").is_some() {
            fronts.see_level(line);
        }
        match (fronts.level, fronts.has_debug_file) {
            (Level::Unknown, _) => None,
            (Level::Warn, false) => Some(b"NCCL_DEBUG=WARN [left out]"),
            (Level::Warn, true) => Some(b"NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/ [left out]"),
            (Level::Info, false) => Some(b"NCCL_DEBUG=INFO [left out]"),
            (Level::Info, true) => Some(b"NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/ [left out]"),
        }
    }

    /// The level of NCCL that a command or an environment sets, or that lines have.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Whether NCCL says that two GPUs of a node are connected over PCIe.
    pub(super) fn has_gpus_over_pcie(&self) -> bool {
        self.has_gpus_over_pcie
    }

    /// Whether nccl-tests lowered its largest size.
    pub(super) fn has_reduced_size(&self) -> bool {
        self.has_reduced_size
    }

    /// Whether a command or an environment has NCCL write its lines into files of their own.
    pub(super) fn has_debug_file(&self) -> bool {
        self.has_debug_file && self.level != Level::Unknown
    }

    /// Adds a value of a variable.
    fn set(&mut self, name: &[u8], value: &[u8]) {
        let of = self.values.entry(name.to_vec()).or_default();
        add_value(of, value[..value.len().min(VALUE_BYTES)].to_vec());
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.libraries.extend(other.libraries);
        self.has_failed_transport |= other.has_failed_transport;
        self.has_gpus_over_pcie |= other.has_gpus_over_pcie;
        self.is_of_ctest |= other.is_of_ctest;
        self.has_efa |= other.has_efa;
        self.has_cxi |= other.has_cxi;
        self.has_other_provider |= other.has_other_provider;
        self.of_ethernet.extend(other.of_ethernet);
        self.add_ucx(other.of_ucx);
        self.is_of_one_process |= other.is_of_one_process;
        self.has_gib_scripts |= other.has_gib_scripts;
        self.has_several_nodes |= other.has_several_nodes;
        self.one_node.merge(other.one_node);
        self.has_debug_file |= other.has_debug_file;
        self.has_reduced_size |= other.has_reduced_size;
        self.level = self.level.max(other.level);
        for (name, values) in other.values {
            values.iter().for_each(|value| self.set(&name, value));
        }
    }

    fn add_ucx(&mut self, processes: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        for one in processes {
            if self.of_ucx.len() < UCX_MAX {
                self.of_ucx.insert(one);
            }
        }
    }

    /// Whether the processes of UCX, which log what they do, are several of one host.
    pub(super) fn has_ucx_of_one_host(&self) -> bool {
        let hosts: BTreeSet<&[u8]> = self.of_ucx.iter().map(|(host, _)| &host[..]).collect();
        hosts.len() == 1 && (2..UCX_MAX).contains(&self.of_ucx.len())
    }

    /// Whether numbers before lines are those of tests, and of no rank.
    pub(super) fn is_of_ctest(&self) -> bool {
        self.is_of_ctest
    }

    /// The fabric behind libfabric, where its lines name the provider of one.
    pub(super) fn fabric(&self) -> Option<&'static str> {
        match (self.has_efa, self.has_cxi, self.has_other_provider) {
            (true, false, false) => Some("EFA"),
            (false, true, false) => Some("Slingshot"),
            _ => None,
        }
    }

    /// Whether the RDMA devices that NCCL lists one by one are of Ethernet.
    pub(super) fn of_ethernet(&self) -> &BTreeSet<bool> {
        &self.of_ethernet
    }

    /// Whether a command, an environment or a program counts several nodes.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.has_several_nodes
    }

    /// The ranks of the job and why all run on one node, if the fronts say so.
    /// `seen`: the ranks that lines of NCCL tell.
    pub(super) fn ranks_of_one_node(&self, seen: u32) -> Option<(u32, String)> {
        self.one_node
            .ranks(seen)
            .filter(|_| !self.has_several_nodes)
    }

    /// What the fronts count of nodes and ranks.
    pub(super) fn one_node(&self) -> &OneNode {
        &self.one_node
    }

    /// Whether one process makes the communicators of all its GPUs, so that no other node takes part.
    pub(super) fn is_of_one_process(&self) -> bool {
        self.is_of_one_process && !self.has_several_nodes
    }

    /// The libraries that lines name.
    pub(super) fn libraries(&self) -> impl Iterator<Item = &'static str> {
        let moves =
            |library: &&usize| !self.has_failed_transport || LIBRARIES[**library].1 != [TRIED];
        let all = self
            .libraries
            .iter()
            .filter(moves)
            .map(|library| LIBRARIES[*library].0);
        let is_other = |name: &str| ["Mooncake TCP", "Mooncake EFA"].contains(&name);
        let has_other = all.clone().any(is_other);
        all.filter(move |name| !has_other || *name != MOONCAKE_RDMA)
    }

    /// Whether a setting asks for EFA. An instance of AWS may have none.
    pub(super) fn expects_efa(&self, of_nccl: impl Fn(&str) -> Option<String>) -> bool {
        let asked = self.asked(of_nccl);
        let mut of_provider = asked.iter().filter(|one| one.what.contains(PROVIDER));
        of_provider
            .next()
            .is_some_and(|first| first.what.contains("efa"))
    }

    /// What is asked for, with the values of variables that lines of NCCL name, each once.
    pub(super) fn asked(&self, of_nccl: impl Fn(&str) -> Option<String>) -> Vec<Asked> {
        let value = |name: &str| {
            let values = self.values.get(name.as_bytes());
            let value = values.and_then(BTreeSet::first);
            let value = value.map(|value| String::from_utf8_lossy(value).replace('\\', ""));
            // NCCL ends its line on a variable with a full stop.
            let of_nccl = || Some(of_nccl(name)?.trim_end_matches('.').to_owned());
            value.or_else(of_nccl)
        };
        let is_off = value(IB_DISABLE).is_some_and(|value| value != "0");
        let mut asked = Vec::<Asked>::new();
        if self.has_gib_scripts {
            let what = "Google's gIB (a script of /usr/local/gib)".to_owned();
            asked.push(Asked { of: "NCCL", what });
        }
        for (of, name, asks) in VARIABLES {
            let Some(value) = value(name) else {
                continue;
            };
            let is_none = value.starts_with('^') || NO_VALUES.contains(&value.as_str());
            let what = match asks {
                Asks::Value(words) if !is_none => format!("{words} {value}"),
                Asks::Fixed(IB) if is_off => continue,
                Asks::Unless0(SOCKETS) if !asked.is_empty() => continue,
                Asks::Fixed(what) => what.to_owned(),
                Asks::IfZero(what) if value == "0" => what.to_owned(),
                Asks::Unless0(what) if value != "0" => what.to_owned(),
                _ => continue,
            };
            let front = format!("{what} (");
            if !asked.iter().any(|one| one.what.starts_with(&front)) {
                let what = format!("{front}{name})");
                asked.push(Asked { of, what });
            }
        }
        asked
    }
}

/// The line around a place, as far as it is near.
fn line_at(text: &[u8], at: usize) -> &[u8] {
    let (before, behind) = (at.saturating_sub(NEAR), text.len().min(at + NEAR));
    let start = memchr::memrchr(b'\n', &text[before..at]).map_or(before, |end| before + end + 1);
    let end = memchr::memchr(b'\n', &text[at..behind]).map_or(behind, |size| at + size);
    &text[start..end]
}

fn says_absent(line: &[u8]) -> bool {
    let has = |word: &&[u8]| memchr::memmem::find(line, word).is_some();
    ABSENT.iter().any(has)
}

/// What is before a place in its line, as far as it is near.
fn line_before(text: &[u8], at: usize) -> &[u8] {
    let before = &text[at.saturating_sub(NEAR)..at];
    let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    &before[start..]
}

/// What is behind the last end of a sentence, or of a command.
fn last_sentence(text: &[u8]) -> &[u8] {
    let is_end = |pair: &[u8]| {
        matches!(pair[0], b';' | b'&' | b'|') || matches!(pair, [b'.' | b'!' | b'?', b' '])
    };
    let end = text.windows(2).rposition(is_end);
    &text[end.map_or(0, |end| end + 1)..]
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fronts(log: &str) -> Fronts {
        let mut fronts = Fronts::default();
        fronts.read(log.as_bytes());
        fronts
    }

    #[test]
    fn a_command_or_an_environment_sets_the_level_of_nccl() {
        let check = |log: &str, expected: (Level, bool)| {
            let fronts = fronts(log);
            assert_eq!((fronts.level(), fronts.has_debug_file()), expected, "{log}");
            let stands = Fronts::level_of(log.as_bytes().trim_ascii_end());
            if let Some(stands) = stands {
                let stands = self::fronts(str::from_utf8(stands).unwrap());
                let told = (stands.level(), stands.has_debug_file());
                assert_eq!(told, expected, "{log}");
            }
        };
        for set in [
            "mpirun -np 16 -x NCCL_IB_TC=106  -x NCCL_DEBUG=INFO ./all_reduce_perf\n",
            "a\nNCCL_DEBUG=INFO python train.py\n",
            "$ NCCL_IB_TC=106 NCCL_DEBUG=info python train.py\n",
            "+ export NCCL_DEBUG=TRACE\n",
            "user@node-a:~$ NCCL_DEBUG=INFO torchrun a.py\n",
            "docker run -e NCCL_DEBUG=INFO image\n",
            "{'RANK': '0', 'NCCL_DEBUG': 'INFO'}\n",
            "  - name: NCCL_TC\n  NCCL_DEBUG: INFO\n",
        ] {
            check(set, (Level::Info, false));
        }
        check("export NCCL_DEBUG=WARN\n", (Level::Warn, false));
        check(
            "mpirun -x NCCL_DEBUG=INFO -x NCCL_DEBUG_FILE=/tmp/nccl.%h.%p a.out\n",
            (Level::Info, true),
        );
        for other in [
            "unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n",
            "Please set NCCL_DEBUG=INFO to see why\n",
            "you may want to export NCCL_DEBUG=INFO before it\n",
            "# export NCCL_DEBUG=INFO\n",
            "export NCCL_DEBUG=VERSION\n",
            "export NCCL_DEBUG_SUBSYS=INIT\n",
            "export NCCL_DEBUG_FILE=/tmp/a\n",
        ] {
            check(other, (Level::Unknown, false));
        }
    }

    #[test]
    fn settings_ask_for_networks() {
        let check = |log: &str, expected: &[&str]| {
            let asked = fronts(log).asked(|_| None);
            let asked: Vec<&str> = asked.iter().map(|one| one.what.as_str()).collect();
            assert_eq!(asked, expected, "{log}");
        };
        check(
            "mpirun -np 16 -x NCCL_NET_PLUGIN=spcx -x NCCL_IB_HCA=mlx5_2\\,mlx5_3 -x UCX_TLS=ib ./all_reduce_perf\n",
            &[
                "the plugin spcx (NCCL_NET_PLUGIN)",
                "InfiniBand or RoCE (NCCL_IB_HCA)",
                "UCX over ib (UCX_TLS)",
            ],
        );
        check("export NCCL_NET=\"AWS\"\n", &["the network AWS (NCCL_NET)"]);
        for quoted in [
            "export 'NCCL_NET=AWS Libfabric'\n",
            "NCCL_NET='AWS Libfabric' srun a.out\n",
            "docker run -e NCCL_NET=\"AWS Libfabric\" image\n",
            "NCCL_NET=AWS Libfabric\n",
            "{'NCCL_NET': 'AWS Libfabric', 'RANK': '0'}\n",
        ] {
            check(quoted, &["the network AWS Libfabric (NCCL_NET)"]);
        }
        check(
            "NCCL_NET='Other Net' a.out\n",
            &["the network Other Net (NCCL_NET)"],
        );
        check(
            "bash -c \"NCCL_NET=Socket python a.py\"\n",
            &["the network Socket (NCCL_NET)"],
        );
        check(
            "  NCCL_IB_DISABLE: 0\n  NCCL_IB_HCA: mlx5_0\n",
            &["InfiniBand or RoCE (NCCL_IB_HCA)"],
        );
        check(
            "NCCL_IB_DISABLE=1 NCCL_IB_HCA=mlx5_0 python train.py\n",
            &["sockets instead of InfiniBand (NCCL_IB_DISABLE)"],
        );
        check(
            "+ srun --mca pml ucx --mca btl ^openib ./a\n",
            &["Open MPI's pml ucx (OMPI_MCA_pml)"],
        );
        check(
            "kubectl exec -it pod -- /usr/local/gib/scripts/run_nccl_tests.sh\n",
            &["Google's gIB (a script of /usr/local/gib)"],
        );
        check(
            "NCCL_IB_DISABLE=1 NCCL_NET_PLUGIN=aws-ofi a.out\n",
            &["the plugin aws-ofi (NCCL_NET_PLUGIN)"],
        );
        check(
            "  - name: NCCL_NET_PLUGIN\n    value: spcx\n",
            &["the plugin spcx (NCCL_NET_PLUGIN)"],
        );
        check(
            "--kv-transfer-config '{\"kv_connector\":\"NixlConnector\"}'\n",
            &["the KV connector NixlConnector (kv_connector)"],
        );
        check(
            "python3 -m sglang.launch_server --disaggregation-transfer-backend mooncake\n",
            &["the transfer backend mooncake (disaggregation-transfer-backend)"],
        );
        check(
            "mpiexec -genv I_MPI_FABRICS shm:ofi ./a\n",
            &["Intel MPI over shm:ofi (I_MPI_FABRICS)"],
        );
        check("kv_connector=None\n", &[]);
        check("{\"UCX_TLS\": \"tcp\"}\n", &["UCX over tcp (UCX_TLS)"]);
        let of_nccl = |name: &str| (name == IB_DISABLE).then(|| "0.".to_owned());
        let asked = fronts("").asked(of_nccl);
        assert_eq!(asked[0].what, "InfiniBand or RoCE (NCCL_IB_DISABLE)");
        for set in [
            "export NCCL_NET=IB\n",
            "$ set NCCL_NET=IB\n",
            "Ready to run. cd app && export NCCL_NET=IB; srun ./a\n",
            "mpirun --use-hwthread-cpus -x NCCL_NET=IB ./a\n",
            "helm install --set NCCL_NET=IB app\n",
            "RUN export NCCL_NET=IB\n",
        ] {
            check(set, &["the network IB (NCCL_NET)"]);
        }
        for none in [
            "WARN no launcher, switch to OFI, to force enable MPI set CCL_ATL_TRANSPORT=mpi\n",
            "NCCL failed. Please set NCCL_IB_DISABLE=1 and try again\n",
            "Set NCCL_IB_DISABLE=1 to use sockets\n",
            "You may try NCCL_NET=Socket\n",
            "Try: export NCCL_NET=Socket\n",
            "If it hangs, use NCCL_IB_DISABLE=1.\n",
            "Please set `NCCL_P2P_DISABLE=\"1\"` and `NCCL_IB_DISABLE=\"1\"`\n",
            "# export NCCL_NET=IB\n",
            "NCCL_NET_PLUGIN=none\n",
            "NCCL_NET=^Socket\n",
            "MY_NCCL_NET=IB\n",
            "NCCL_IB_HCA=$HCA\n",
        ] {
            check(none, &[]);
        }
    }

    #[test]
    fn efa_is_expected_where_it_is_asked_for() {
        for (log, expected) in [
            ("/opt/amazon/openmpi/bin/mpirun -np 16 ./a\n", false),
            ("FI_PROVIDER=efa ./a\n", true),
            ("FI_EFA_USE_DEVICE_RDMA=1 ./a\n", true),
            (
                "/opt/amazon/openmpi/bin/mpirun -x FI_PROVIDER=tcp ./a\n",
                false,
            ),
            ("mpirun -np 16 ./a\n", false),
        ] {
            assert_eq!(fronts(log).expects_efa(|_| None), expected, "{log}");
        }
    }

    #[test]
    fn the_provider_of_a_plugin_names_its_fabric() {
        let check = |log: &str, expected: Option<&str>| {
            assert_eq!(fronts(log).fabric(), expected, "{log}");
        };
        check("Selected provider is efa, fabric is efa\n", Some("EFA"));
        check("provider: efa\n    fabric: efa\n", Some("EFA"));
        check("My EFA addr: fi_addr_efa://[fe80::1]:0:7\n", Some("EFA"));
        check(
            "NET/OFI Selected Provider is cxi (found 2 nics)\n",
            Some("Slingshot"),
        );
        let other = "provider: efa\nNET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)\n";
        check(other, None);
    }

    #[test]
    fn only_lines_of_ctest_are_of_its_tests() {
        assert!(fronts("5/9 Test #5: test-sendrecv ...***Failed\n").is_of_ctest());
        assert!(!fronts("5: Test 5/9\n0: Start training\n").is_of_ctest());
    }

    #[test]
    fn one_process_may_make_all_communicators() {
        let text = "Using ncclCommInitAll() to create all communicators\n";
        assert!(fronts(text).is_of_one_process());
        assert!(!fronts(&format!("srun -l -N 2 ./a\n{text}")).is_of_one_process());
        assert!(!fronts("ncclCommInitRank\n").is_of_one_process());
    }

    #[test]
    fn counts_of_nodes_and_ranks_tell_of_several_nodes() {
        for (log, expected) in [
            ("torchrun --nnodes=2 a.py\n", true),
            ("    \"NUM_NODES\": 2,\n", true),
            ("$ srun --gres=gpu:1 -N3 ./a\n", true),
            ("$ srun --gres=gpu:1 -n 3 ./a\n", false),
            ("#SBATCH --nodes=4\n", true),
            ("SLURM_NNODES=1\n", false),
            ("# nodeloss: world_size=24 pg_timeout=90s\n", true),
            ("WORLD_SIZE: 8\n", false),
            ("torchrun --nnodes=1 a.py\n", false),
        ] {
            assert_eq!(fronts(log).has_several_nodes(), expected, "{log}");
        }
    }

    #[test]
    fn lines_of_libraries_name_them() {
        let check = |log: &str, expected: Option<&str>| {
            assert_eq!(fronts(log).libraries().next(), expected, "{log}");
        };
        let forced = "Topology discovery complete. Found 4 HCAs.\nInstalling TCP transport\n";
        check(forced, Some("Mooncake TCP"));
        let topology = "transfer_engine_impl.cpp:274] Topology discovery complete. Found";
        let mooncake = "Mooncake over a network that no line names";
        check(&format!("{topology} 4 HCAs.\n"), Some(mooncake));
        check(
            "/build/nvshmem_src/src/host/transport/transport.cpp:nvshmemi_transport_init:282: init failed for transport: IBGDA\n",
            None,
        );
        let tried = "WARN: device mlx5_3 cannot allocate buffer on the specified memory type. Skipping...\n";
        check(tried, Some(NVSHMEM_RDMA));
        check(
            &format!("{tried}/s/transport.cpp:282: init failed for transport: IBGDA\n"),
            None,
        );
        check(
            "Topology discovery complete. Found 4 HCAs.\n",
            Some("Mooncake RDMA"),
        );
        check(
            "Topology discovery complete. Found 0 HCAs.\n",
            Some("Mooncake TCP"),
        );
        check(
            "Backend (--backend=[UCX,GDS,GDS_MT,POSIX,Mooncake,OBJ,LIBFABRIC]): LIBFABRIC\n",
            Some("NIXL LIBFABRIC"),
        );
        check("Backend (--backend=[UCX,POSIX,OBJ])   : POSIX\n", None);
        check(
            "dispatch (BF16):    40.60 GB/s (RDMA), t: 2884.3 us, rdma_send_bytes: 117.11 MB\n",
            Some("DeepEP RDMA and NVLink"),
        );
        check(
            "E rdma_endpoint.cpp:219] Peer nic not found in that server\n",
            Some("Mooncake RDMA"),
        );
        check("libpsm.so: nixl_connector.py not found\n", None);
        check(
            "[dev:7] UCXPY  DEBUG Error callback for endpoint\n",
            Some("UCX over a network that no line names"),
        );
        check("dispatch kernel (BF16)(NVL):   149.24 GB/s\n", None);
        check(
            "[node-a:71] [ 4] /w/lib/openmpi/mca_btl_openib.so(+0x3784b)[0x7fe3355a984b]\n",
            Some("OpenMPI openib"),
        );
        check(
            "  Location: ../ompi/mca/mtl/ofi/mtl_ofi_component.c:999\n",
            Some("OpenMPI OFI"),
        );
        check(
            "mca_base_component_repository_open: unable to open mca_mtl_ofi: libfabric.so.1: cannot open shared object file\n",
            None,
        );
        check(
            "ModuleNotFoundError: No module named 'oneccl_bindings_for_pytorch'\n",
            None,
        );
    }
}
