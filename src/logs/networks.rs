//! The names of networks in lines, and what each is.
//!
//! Lines differ in what they show: that a plugin was loaded, that a network was initialized, that NCCL chose it for a
//! communicator, or that a channel uses it. A stronger line overrides weaker ones, because
//! NCCL initializes several networks and chooses one.
#![forbid(unsafe_code)]

use crate::loggers::regex;
use regex::bytes::Regex;
use std::sync::LazyLock;
use tcpx_words::plugin_family::PluginFamily;

/// What a line shows about a network, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Proof {
    /// It is of a library beside NCCL, whose name is before that of the network.
    OfLibrary,
    /// Its plugin was loaded.
    Loaded,
    /// It was initialized.
    Up,
    /// NCCL chose it for a communicator.
    Chosen,
    /// A channel uses it.
    Used,
}

/// The kind of a network, as the verdict of a report names it.
pub(super) fn kind(name: &str) -> &'static str {
    let family = PluginFamily::of_table_name(name);
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.contains(word);
    match () {
        () if family.has_tcpx_semantics() => "tcpx",
        () if family == PluginFamily::Tcpxo => "tcpxo",
        () if has("fastsocket") => "fastsocket",
        () if has("socket") => "socket",
        () if has("libfabric")
            || has("-ofi-")
            || has("nccl_ofi")
            || name.starts_with("ofi")
            || name.starts_with("efa") =>
        {
            "ofi"
        }
        () if name.starts_with("ib") || name.starts_with("gib") => "ib",
        // In-network reduction goes over the same links.
        () if name.starts_with("sharp") => "ib",
        // HPC-X names its InfiniBand plugin so.
        () if has("rdma plugin") => "ib",
        () => "other",
    }
}

/// The kind of the network of a library: `UCX rc_mlx5/mlx5_0:1`, `Mooncake TCP`.
pub(super) fn kind_of_library(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let (library, network) = name.split_once(' ').unwrap_or_default();
    let starts = |words: &[&str]| words.iter().any(|word| network.starts_with(word));
    match () {
        () if starts(&["over "]) => "other",
        () if starts(&["within a node"]) => "within-node",
        () if starts(&["tcp", "uv", "sockets"]) => "socket",
        // UCX goes over EFA without libfabric.
        () if library == "ucx" && starts(&["efa", "srd", "rdmap"]) => "other",
        // The devices of EFA are named `rdmap0s31`.
        () if starts(&["efa", "srd", "libfabric", "ofi", "cxi", "rdmap"]) => "ofi",
        // Providers of libfabric for Omni-Path, which Open MPI also uses without libfabric.
        () if library == "libfabric" && starts(&["psm2", "psm3", "opx"]) => "ofi",
        // What these name is the device, which has any name.
        () if ["mooncake", "uccl"].contains(&library) => "ib",
        () if starts(&[
            "rc_",
            "dc_",
            "ud_",
            "rc/",
            "dc/",
            "ud/",
            "ib",
            "infiniband",
            "mlx",
            "openib",
            "verbs",
            "rdma",
            "roce",
            "bnxt",
            "irdma",
            "hns",
            "mxm",
        ]) =>
        {
            "ib"
        }
        () => "other",
    }
}

/// NCCL tries an external plugin first, then InfiniBand, then sockets, so of several networks
/// that are up the first of these is the one in use.
pub(super) fn preference(name: &str) -> u8 {
    match kind(name) {
        "socket" => 2,
        "ib" => 1,
        _ => 0,
    }
}

/// The network that a WARN names at its start, `NET/IB : ...`, unless the WARN says that the
/// network did not come up.
pub(super) fn of_warning(message: &[u8]) -> Option<&[u8]> {
    let name = message.trim_ascii_start().strip_prefix(b"NET/")?;
    let letters = name.iter().take_while(|byte| byte.is_ascii_alphanumeric());
    let name = &name[..letters.count()];
    let absent = [
        &b"nitializ"[..],
        b"No device",
        b"not find",
        b"no device",
        b"to open device",
        b"usable provider",
    ];
    let is_absent = absent
        .iter()
        .any(|word| memchr::memmem::find(message, word).is_some());
    // A plugin that looks for a function of NCCL is loaded.
    let is_absent = is_absent && !message.ends_with(b" symbol");
    (!name.is_empty() && name != b"Plugin" && !is_absent).then_some(name)
}

/// The link layers behind the devices in NCCL's line on them, `[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB/SHARP`: whether each is
/// of Ethernet.
pub(super) fn are_of_ethernet(line: &[u8]) -> impl Iterator<Item = bool> {
    LINK_LAYERS
        .captures_iter(line)
        .map(|layer| &layer["layer"] == b"RoCE")
}

/// The same of lines on one device each: `NET/IB: [2] mlx5_2:uverbs2:1/RoCE provider=Mlx5`.
pub(super) fn listed_of_ethernet(text: &[u8]) -> impl Iterator<Item = bool> {
    let has = memchr::memmem::find(text, b"NET/IB: [").is_some();
    let lines = has.then(|| LISTED.captures_iter(text));
    let layers = lines.into_iter().flatten();
    layers.map(|found| &found["layer"] == b"RoCE")
}

static LISTED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"NET/IB: \[\d+\] [\w.-]+:[\w.-]+:\d+/(?P<layer>RoCE|IB)\b"));

static LINK_LAYERS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\[\d+\] ?[\w.-]+:\d+/(?P<layer>RoCE|IB)\b"));

/// Whether the port that a line of UCX names, `mlx5_0:1/RoCE`, is of Ethernet.
pub(super) fn is_port_of_ethernet(line: &[u8]) -> Option<bool> {
    let layer = PORTS.captures(line)?;
    Some(&layer["layer"] == b"RoCE")
}

static PORTS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[a-z][\w-]*:\d{1,2}/(?P<layer>RoCE|IB)\b"));

/// Whether the first GID in a line is of Ethernet; `None` without one. RoCE makes them of an IPv4 address, or of a MAC
/// address with `ff:fe` in its middle, which the GUIDs of InfiniBand do not have.
pub(super) fn has_ethernet_gid(line: &[u8]) -> Option<bool> {
    memchr::memmem::find(line, b"Gid")?;
    let gid = GIDS.captures(line)?.name("gid")?.as_bytes();
    let is_of_mac = || {
        let parts: Vec<&[u8]> = gid.rsplitn(4, |byte| *byte == b':').collect();
        matches!(parts[..], [_, low, middle, _] if middle.ends_with(b"ff") && low.starts_with(b"fe") && low.len() == 4)
    };
    Some(gid.starts_with(b"::ffff:") || is_of_mac())
}

/// Whether a queue pair was not connected because the system found no way to the peer's address, or no answer of it. Only
/// RoCE resolves an address then.
pub(super) fn has_no_ethernet_route(line: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    has(b"ibv_modify_qp failed with")
        && (has(b"Network is unreachable") || has(b"No route to host"))
}

static GIDS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"Gids? ?(?P<gid>::ffff:(?:[\d.]{7,}|[\[<*])|fe80:[0-9a-f:]{10,})"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_a_network_names_it() {
        let of = |text: &'static str| of_warning(text.as_bytes());
        assert_eq!(of("NET/OFI Could not register memory"), Some(&b"OFI"[..]));
        assert_eq!(of("NET/IB : No device found"), None);
        assert_eq!(of("NET/IB : Unable to open device mlx5_0"), None);
        assert_eq!(
            of("NET/OFI Could not find ncclGetVersion symbol"),
            Some(&b"OFI"[..])
        );
        assert_eq!(of("NET/Plugin: odd"), None);
        assert_eq!(of("odd"), None);
    }

    #[test]
    fn networks_of_libraries_have_kinds() {
        for (name, expected) in [
            ("UCX rc_mlx5/mlx5_0:1", "ib"),
            ("UCX tcp/eth0", "socket"),
            ("NVSHMEM ibgda", "ib"),
            ("Mooncake mlx5_bond_1", "ib"),
            ("Mooncake EFA", "ofi"),
            ("Mooncake fabric_bond2", "ib"),
            ("UCCL eno2np1:1", "ib"),
            ("UCX rc_iface", "ib"),
            ("UCX tcp_ep", "socket"),
            ("NVSHMEM libfabric", "ofi"),
            ("Gloo TCP", "socket"),
            ("NIXL LIBFABRIC", "ofi"),
            ("NIXL UCX", "other"),
            ("UCX srd/rdmap16s27:1", "other"),
            ("Mooncake over a network that no line names", "other"),
            ("Mooncake RDMA", "ib"),
            ("MVAPICH2 verbs", "ib"),
            ("libfabric CXI", "ofi"),
            ("libfabric mlx", "ib"),
            ("libfabric psm2", "ofi"),
            ("OpenMPI PSM2", "other"),
            ("OpenMPI openib", "ib"),
            ("OpenMPI mxm", "ib"),
            ("TensorPipe uv", "socket"),
            ("oneCCL OFI", "ofi"),
            ("oneCCL over MPI", "other"),
            ("oneCCL within a node", "within-node"),
            ("RDMA verbs", "ib"),
            ("perftest InfiniBand", "ib"),
            ("perftest RoCE", "ib"),
            ("TensorPipe within a node", "within-node"),
            ("MPICH UCX", "other"),
            ("NCCL GIN", "other"),
            ("libfabric tcp-ofi-rxm", "socket"),
            ("libfabric rdmap0s31-rdm", "ofi"),
            ("UCX over a network that no line names", "other"),
        ] {
            assert_eq!(kind_of_library(name), expected, "{name}");
        }
    }

    #[test]
    fn names_have_kinds() {
        for (name, expected) in [
            ("GPUDirectTCPX_v7", "tcpx"),
            ("FasTrak", "tcpxo"),
            ("FastSocket", "fastsocket"),
            ("Socket", "socket"),
            ("AWS Libfabric", "ofi"),
            ("aws-ofi-nccl", "ofi"),
            ("nccl_ofi", "ofi"),
            ("OFI", "ofi"),
            ("IBext_v8", "ib"),
            ("gIB", "ib"),
            ("NCCL RDMA Plugin v6", "ib"),
            ("UCX", "other"),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn devices_and_ends_of_ethernet_are_told_from_those_of_infiniband() {
        let layers = |line: &'static str| are_of_ethernet(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            layers("Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE}"),
            [true, true]
        );
        assert_eq!(
            layers("Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/RoCE [RO]"),
            [false, true]
        );
        let port = |line: &'static str| is_port_of_ethernet(line.as_bytes());
        assert_eq!(port("error on mlx5_0:1/RoCE (synd 0x4)"), Some(true));
        assert_eq!(port("error on mlx5_0:1/IB (synd 0x4)"), Some(false));
        assert_eq!(port("failed on rc_mlx5/mlx5_0:1"), None);
        let gid = |line: &'static str| has_ethernet_gid(line.as_bytes());
        assert_eq!(gid("(Recv) localGid ::ffff:10.0.1.25"), Some(true));
        assert_eq!(
            gid("(Recv) localGid fe80::9e63:c0ff:feab:b8da remoteGids"),
            Some(true)
        );
        assert_eq!(gid("(Recv) localGid fe80::b859:9f03:a6:1234"), Some(false));
        assert_eq!(gid("(Recv) localGids :: remoteGids ::"), None);
        assert_eq!(gid("localGid ::ffff:[MASKED] remoteGid"), Some(true));
        let route = |line: &'static str| has_no_ethernet_route(line.as_bytes());
        assert!(route(
            "Call to ibv_modify_qp failed with error No route to host"
        ));
        assert!(!route(
            "Call to ibv_modify_qp failed with error Invalid argument"
        ));
    }
}
