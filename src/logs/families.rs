//! The most common failures of each family of logs: the cause is first, whatever is logged before
//! it, and what followed is told as that.

use super::{LogFilter, LogReader, Role, SignatureCatalogue};
use std::sync::LazyLock;

static CATALOGUE: LazyLock<SignatureCatalogue> =
    LazyLock::new(|| SignatureCatalogue::embedded().unwrap());

/// A cause, and lines that are logged because of it, by the names of signatures.
type Failure = (&'static str, &'static [&'static str]);

/// What ends a job of PyTorch after any failure.
const ABORT: &[&str] = &["watchdog-terminated", "cxx-terminate", "slurm-cancelled"];
/// What other ranks log when one has failed.
const PEERS: &[&str] = &["nccl-proxy-failed", "nccl-remote-error", "torchrun-failed"];

/// Three failures of each family, which users report most.
const FAMILIES: [(&str, [Failure; 3]); 12] = [
    (
        "TCPX's plugin",
        [
            ("nccl-no-external-plugin", &[]),
            ("nccl-plugin-load-failed", ABORT),
            ("hpcx-plugin-used", &[]),
        ],
    ),
    (
        "TCPX's transfers",
        [
            ("ctrl-timeout", ABORT),
            ("slots-exhausted", &["error-propagated"]),
            ("rx-no-cmsg", PEERS),
        ],
    ),
    (
        "TCPX's receive manager",
        [
            ("rxdm-memory-connect-failed", PEERS),
            ("rxdm-rule-failed", PEERS),
            ("manager-rules-exhausted", &[]),
        ],
    ),
    (
        "TCPXO and its manager",
        [
            ("fastrak-manager-not-ready", &["fastrak-init-failed"]),
            ("fastrak-connect-timeout", PEERS),
            ("fastrak-versions-differ", ABORT),
        ],
    ),
    (
        "sockets and bootstrap",
        [
            ("bootstrap-no-interface", ABORT),
            ("socket-connect-gave-up", PEERS),
            ("socket-connect-error", &["socket-propagated"]),
        ],
    ),
    (
        "InfiniBand and RoCE",
        [
            ("ib-completion-error", PEERS),
            ("ib-modify-qp-failed", PEERS),
            ("ib-async-fatal", &["ib-fatal-detected"]),
        ],
    ),
    (
        "EFA and its plugin",
        [
            ("ofi-unresponsive", PEERS),
            ("ofi-init-failed", &["ofi-plugin-failed"]),
            ("libfabric-completion-failed", PEERS),
        ],
    ),
    (
        "shared memory",
        [
            ("shm-full", PEERS),
            ("shm-extend-failed", &["shm-create-failed"]),
            ("shm-create-failed", ABORT),
        ],
    ),
    (
        "CUDA",
        [
            ("cuda-out-of-memory", PEERS),
            ("cuda-driver-old", ABORT),
            ("cuda-not-initialized", &["unhandled-cuda"]),
        ],
    ),
    (
        "usage",
        [
            ("duplicate-gpu", &["nccl-result-text"]),
            ("collective-mismatch", ABORT),
            ("nccl-version-mismatch", ABORT),
        ],
    ),
    (
        "PyTorch",
        [
            ("watchdog-timeout", ABORT),
            ("heartbeat-timeout", &["cxx-terminate"]),
            ("torch-async-exception", PEERS),
        ],
    ),
    (
        "Ray, Megatron and vLLM",
        [
            ("ray-worker-died", &["vllm-worker-exit"]),
            ("megatron-bad-gradient", &["torchrun-failed"]),
            ("python-exception", &["vllm-engine-failed"]),
        ],
    ),
];

/// A job of several nodes that is meant to use TCPX.
const CONTEXT: &str = "node9:1:1 [0] NCCL INFO NCCL_NET set by environment to GPUDirectTCPX_v7\n";

/// Whether lines of a signature follow another failure wherever they are.
fn is_consequence(name: &str) -> bool {
    let mut all = CATALOGUE.signatures().iter();
    all.any(|one| one.name == name && one.role == Role::Consequence)
}

/// The names of the findings, the first one first, and whether each only follows another.
fn findings(lines: &[&str]) -> Vec<(String, bool)> {
    let catalogue = &*CATALOGUE;
    let example = |name: &&str| {
        let mut all = catalogue.signatures().iter();
        let signature = all.find(|one| one.name == *name);
        format!(
            "{}\n",
            signature.unwrap_or_else(|| panic!("{name}")).example
        )
    };
    let log: String = std::iter::once(CONTEXT.to_owned())
        .chain(lines.iter().map(example))
        .collect();
    let filter = LogFilter::default();
    let mut reader = LogReader::new(catalogue, &filter);
    reader.source("x.log", log.as_bytes(), log.as_bytes());
    let follows = |role: Role| role == Role::Consequence;
    let all = reader.report().findings.into_iter();
    all.map(|one| (one.signature, follows(one.role))).collect()
}

#[test]
fn the_cause_is_first_in_each_family() {
    for (family, failures) in FAMILIES {
        for (cause, followed) in failures {
            // Other ranks may log what followed before the rank that failed first logs why.
            let after = [&[cause], followed].concat();
            let consequences = followed.iter().filter(|name| is_consequence(name));
            let before: Vec<&str> = consequences.copied().chain([cause]).collect();
            for lines in [after, before] {
                let found = findings(&lines);
                let (first, is_consequence) = &found[0];
                assert_eq!(
                    (first.as_str(), *is_consequence),
                    (cause, false),
                    "{family}: {found:?}"
                );
                for (name, is_consequence) in &found[1..] {
                    assert!(
                        *is_consequence || !followed.contains(&name.as_str()),
                        "{family}: {cause}: {found:?}"
                    );
                }
            }
        }
    }
}
