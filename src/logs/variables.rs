//! Every variable that a signature names is read by a program.
//!
//! A remedy with a variable that nothing reads costs its reader a day.

use super::catalogue::SignatureCatalogue;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Prefixes of variables. Other words in capitals are constants of C.
const PREFIXES: [&str; 16] = [
    "NCCL_", "NET_", "TCPX", "UCCL_", "CUDA_", "LD_", "GLOO_", "TORCH_", "MASTER_", "UCX_",
    "NIXL_", "NVSHMEM_", "FI_", "RAY_", "VLLM_", "OMP_",
];
/// Names of errors and constants with such a prefix.
const CONSTANTS: [&str; 3] = ["CUDA_ERROR_", "NCCL_DEVICE_UNPACK", "NIXL_ERR_"];
/// Variables that the doctor's table does not list, and what reads each.
const OF_FRAMEWORKS: [(&str, &str); 34] = [
    ("NCCL_GRAPH_FILE", "NCCL"),
    ("NCCL_GRAPH_DUMP_FILE", "NCCL"),
    ("I_MPI_PMI_LIBRARY", "Intel MPI"),
    ("NCCL_GIN_ENABLE", "NCCL 2.28"),
    ("GLOO_SOCKET_IFNAME", "PyTorch"),
    ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "PyTorch"),
    ("TORCH_DISTRIBUTED_DEBUG", "PyTorch"),
    ("MASTER_ADDR", "PyTorch"),
    ("MASTER_PORT", "PyTorch"),
    ("LD_PRELOAD", "glibc"),
    ("UCX_NET_DEVICES", "UCX"),
    ("UCX_TLS", "UCX"),
    ("UCX_IB_GID_INDEX", "UCX"),
    ("UCX_LOG_LEVEL", "UCX"),
    ("UCX_VFS_ENABLE", "UCX"),
    ("NIXL_LOG_LEVEL", "NIXL"),
    ("FI_EFA_FORK_SAFE", "libfabric"),
    ("FI_LOG_LEVEL", "libfabric"),
    ("FI_PROVIDER", "libfabric"),
    ("FI_PROVIDER_PATH", "libfabric"),
    ("FI_MR_CACHE_MONITOR", "libfabric"),
    ("FI_CXI_DISABLE_HMEM_DEV_REGISTER", "libfabric"),
    ("FI_CXI_DEFAULT_CQ_SIZE", "libfabric"),
    ("FI_CXI_RX_MATCH_MODE", "libfabric"),
    ("VLLM_HOST_IP", "vLLM"),
    ("NVSHMEM_DEBUG", "NVSHMEM"),
    ("NVSHMEM_HCA_LIST", "NVSHMEM"),
    ("NVSHMEM_REMOTE_TRANSPORT", "NVSHMEM"),
    ("NVSHMEM_SYMMETRIC_SIZE", "NVSHMEM"),
    ("NVSHMEM_IB_GID_INDEX", "NVSHMEM"),
    ("I_MPI_OFI_PROVIDER", "Intel MPI"),
    ("HABANA_VISIBLE_DEVICES", "Habana's container runtime"),
    ("TF_CONFIG", "TensorFlow"),
    ("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "NVSHMEM"),
];

#[derive(Deserialize)]
struct Table {
    nccl: Vec<String>,
    variable: Vec<Variable>,
    family: Vec<Family>,
}

#[derive(Deserialize)]
struct Family {
    prefix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Variable {
    name: String,
    read_by: String,
}

/// The names that a program reads, by the table of the doctor.
fn read_names() -> (BTreeSet<String>, Vec<String>) {
    let table: Table = toml::from_str(include_str!("../../probes/node/variables.toml")).unwrap();
    let of_nccl = table.nccl.iter().map(|name| format!("NCCL_{name}"));
    let others = table.variable.iter().filter(|one| one.read_by != "nobody");
    let names = of_nccl
        .chain(others.map(|one| one.name.clone()))
        .chain(OF_FRAMEWORKS.map(|(name, _)| name.to_owned()))
        .collect();
    (
        names,
        table
            .family
            .into_iter()
            .map(|family| family.prefix)
            .collect(),
    )
}

/// The variables that a text names.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let in_name =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let words = text.split(move |letter| !in_name(letter));
    words.filter(|word| {
        PREFIXES
            .iter()
            .any(|prefix| word.starts_with(prefix) && word.len() > prefix.len())
            && word.contains('_')
            && !CONSTANTS.iter().any(|constant| word.starts_with(constant))
    })
}

#[test]
fn every_variable_that_a_signature_names_is_read_by_a_program() {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let (read, families) = read_names();
    let mut unread = BTreeSet::new();
    let mut check = |of: &str, text: &str| {
        for name in variables(text) {
            let of_family = families.iter().any(|prefix| name.starts_with(prefix));
            if !read.contains(name) && !of_family {
                unread.insert(format!("{of}: {name}"));
            }
        }
    };
    for signature in catalogue.signatures() {
        let texts = signature.causes.iter().chain(&signature.next);
        for text in texts.chain([&signature.meaning]) {
            check(&signature.name, text);
        }
    }
    for text in super::reasons::texts() {
        check("a reason", text);
    }
    assert!(unread.is_empty(), "{unread:#?}");
}

#[test]
fn a_variable_is_told_from_a_constant() {
    let names: Vec<&str> =
        variables("NCCL_DEBUG=INFO; CUDA_ERROR_NO_DEVICE, SO_ZEROCOPY").collect();
    assert_eq!(names, ["NCCL_DEBUG"]);
}
