//! The libraries beside NCCL that move data, as the front of a log names them.
//!
//! Only the front is read, once for each file: what libraries say when they start is there, and no literal of a signature
//! is needed for it.
//!
//! Not here: signatures of such lines. They may hold any name, so they do not leave with a log.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Bytes at the front of a file that are searched.
pub(super) const FRONT: usize = 64 << 10;
/// Bytes before and behind a word that are of its line.
const NEAR: usize = 1 << 10;
const MOONCAKE_RDMA: &str = "Mooncake RDMA";

/// Libraries that move data, each with words of their own lines. A line that says that a library is missing has none of
/// these, or one of [`ABSENT`].
const LIBRARIES: [(&str, &[&str]); 24] = [
    (
        "Mooncake over a network that no line names",
        &[
            "transfer_engine_impl.cpp:",
            "transfer_engine.cpp:",
            "transfer_engine_py.cpp:",
            "transfer_task.cpp:",
            "ascend_direct_transport",
            "Mooncake store successfully",
            "Mooncake store warmup",
            "mooncake/conn.py",
            "mooncake_connector.py",
            "mooncake_store.py",
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
        "oneCCL over MPI or libfabric",
        &[
            "|CCL_INFO|",
            "|CCL_WARN|",
            "|CCL_ERROR|",
            "oneccl_bindings",
            "ProcessGroupXCCL",
            "'ccl' for distributed",
        ],
    ),
    ("OpenMPI OFI", &["mtl_ofi", "mtl/ofi/", "Open MPI OFI MTL"]),
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
        "NVSHMEM over InfiniBand or RoCE",
        &[
            "transport: IBGDA",
            "transport: IBRC",
            "transport: ibrc",
            "ibgda.cpp",
            "ibrc.cpp",
            // DeepEP's kernels between nodes.
            "internode_dispatch",
            "internode_combine",
            "csrc/kernels/internode",
        ],
    ),
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
        &["ProcessGroupHCCL", "hcclComm", "[HCCL]", "HcclComm"],
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
    (
        "MSCCL++ over a network that no line names",
        &[" MSCCLPP INFO ", " MSCCLPP WARN "],
    ),
    (
        "UCX over a network that no line names",
        &["pml_ucx.c:", "osc_ucx_component.c:", "/libucp.so"],
    ),
    ("TensorPipe TCP", &["tensorpipe/transport/uv/"]),
    ("TensorPipe IB", &["tensorpipe/transport/ibv/"]),
    ("MPICH OFI", &["OFI poll failed", "MPICH WARNING: OFI "]),
    ("libfabric cxi", &["cxil_map", "cxip_"]),
    ("GASNet OFI", &["ofi-conduit/gasnet"]),
    ("GASNet IB", &["ibv-conduit/gasnet"]),
    ("Neuron OFI", &["CCOM INFO NET/OFI Selected"]),
];

/// Words of a line on a library that is not there.
const ABSENT: [&[u8]; 12] = [
    b"No module named",
    b"not installed",
    b"not available",
    b"not found",
    b"cannot open",
    b"unable to open",
    b"ailed to import",
    b"isabled",
    b"not support",
    b"ailed to create UCP",
    b"No matched device",
    b"o device",
];

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

/// What the fronts of files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fronts {
    /// Indices in [`LIBRARIES`].
    libraries: BTreeSet<usize>,
}

impl Fronts {
    /// Reads the front of a file.
    pub(super) fn read(&mut self, block: &[u8]) {
        let front = &block[..block.len().min(FRONT)];
        self.see_libraries(front);
    }

    /// Reads lines for the libraries that they name.
    pub(super) fn see_libraries(&mut self, lines: &[u8]) {
        let words = &*WORDS;
        for found in words.search.find_iter(lines) {
            let library = words.of[found.pattern().as_usize()];
            if !self.libraries.contains(&library) && !says_absent(line_at(lines, found.start())) {
                self.libraries.insert(library);
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.libraries.extend(other.libraries);
    }

    /// The libraries that lines name.
    pub(super) fn libraries(&self) -> impl Iterator<Item = &'static str> {
        let all = self.libraries.iter().map(|library| LIBRARIES[*library].0);
        let is_other = |name: &str| ["Mooncake TCP", "Mooncake EFA"].contains(&name);
        let has_other = all.clone().any(is_other);
        all.filter(move |name| !has_other || *name != MOONCAKE_RDMA)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fronts(log: &str) -> Fronts {
        let mut fronts = Fronts::default();
        fronts.read(log.as_bytes());
        fronts
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
            "Topology discovery complete. Found 4 HCAs.\n",
            Some("Mooncake RDMA"),
        );
        check(
            "Topology discovery complete. Found 0 HCAs.\n",
            Some("Mooncake TCP"),
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
