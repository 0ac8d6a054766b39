//! Which network each process uses, and hosts of one job that differ in it.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::front::{GIN, PERFTEST_IB, PERFTEST_ROCE, RDMA_VERBS, UCC_UCX, UCX_WITHIN};
use crate::networks::{Proof, kind, kind_of_library, preference};
use crate::report::{LinePlace, SignatureFinding, Transport};
use crate::seen::{Place, SeenLines};
use crate::signature::{Need, Role, Severity, Signature};
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Hosts that are named of each network.
const HOSTS_NAMED: usize = 4;
/// What is told of what was asked for.
const ASKED_MAX: usize = 3;
/// The plugin of libfabric says that it could not be initialized, or found no device, so that NCCL does not use it.
const OFI_OFF: [&str; 2] = ["ofi-init-failed", "ofi-no-provider"];
/// HPC-X's plugin for InfiniBand, and NCCL's line where there is no device of it.
const HPCX_IB: &[u8] = b"IBext";
const NO_IB_DEVICE: &str = "nccl-ib-no-device";
/// Words in the names of signatures on lines of NCCL and of programs that use it.
const OF_NCCL: [&str; 4] = ["nccl", "watchdog", "torch-comm", "unique-id"];

/// Lines of oneCCL that do not tell over what it goes.
const ONECCL_UNNAMED: &str = "oneCCL over a network that no line names";

/// What libraries do within a node.
const WITHIN: [&str; 4] = [
    "MPICH within a node",
    "OpenMPI within a node",
    "TensorPipe within a node",
    UCX_WITHIN,
];

/// Lines of UCX that do not tell over what it goes.
const UCX_UNNAMED: &str = "UCX over a network that no line names";
const UCX_IB: &str = "UCX IB";
/// Google's plugin for RDMA, whose NICs are all of Ethernet.
const GIB: &str = "gIB";
/// Names of signatures on a variable that limits the networks, which is their literal.
const SETS: &str = "sets-";

/// The variable that names the one network that NCCL may use, and its value in a command.
const NCCL_NET: &str = "NCCL_NET";
const SETS_NET: &str = "sets-nccl-net";
static NET_VALUE: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(
        r#"\bNCCL_NET=(?:["'](?P<quoted>[\w -]+)["']|(?P<word>AWS Libfabric|[\w-]+))"#,
    )
});

/// What moves data between GPUs of a node.
const OF_PEERS: &str = "peer access between GPUs of a node (P2P)";
const OF_SHARED_MEMORY: &str = "shared memory within a node (SHM)";

const IN_ONE_PROCESS: &str = "no line names a network; one process makes the communicators of all its GPUs (ncclCommInitAll), so peer access or shared memory moves the data";

const ONE_PROCESS: &str =
    "no line names a network; the command starts one process, so none moves data between ranks";

/// The source of what NCCL does over any network. Those of each network are also used where it only looks for them.
const OF_ANY_NETWORK: &[u8] = b"transport/net.c";

const IS_WITHIN: [&str; 2] = [OF_PEERS, OF_SHARED_MEMORY];

/// Words of lines that tell of what moves data where no network is named.
const OF_OTHERS: [(&[&[u8]], &str); 10] = [
    (
        &[OF_ANY_NETWORK],
        "NCCL's calls of a network for data, which no line names",
    ),
    (
        &[
            b"transport/p2p.c",
            b"P2P/IPC",
            b"P2P/CUMEM",
            b"P2P/direct",
            b"IpcGetMemHandle",
        ],
        OF_PEERS,
    ),
    (
        &[
            b"transport/shm.c",
            b"/dev/shm/nccl-",
            b"creating shared memory segment",
            b"via SHM/",
            b"include/shm.h",
        ],
        OF_SHARED_MEMORY,
    ),
    (
        &[b"isAllCudaP2p 1"],
        "GPUs of a node that all have peer access to each other",
    ),
    (
        &[b"ncclNetPluginShim", b"Unloading plugin libnccl-net"],
        "an external network plugin of NCCL, whose name no line tells",
    ),
    (
        &[
            b"mm_posix.c:",
            b"mm_sysv.c:",
            b"mm_ep.c:",
            b"UCX  ERROR shmget(",
        ],
        "UCX's shared memory within a node",
    ),
    (
        &[b"misc/socket.cc", b"os/linux.cc", b"bootstrap.cc"],
        "NCCL's own TCP sockets, over which its bootstrap goes with any network",
    ),
    (
        &[b"/libpsm2.so", b"mtl_psm2"],
        "PSM2, the library of Omni-Path",
    ),
    (
        &[b"Fatal error in PMPI_", b"MPI_ERRORS_ARE_FATAL"],
        "MPI, whose network no line names",
    ),
    (
        &[b"have NCCL built in"],
        "a PyTorch without NCCL, so none of its networks is used",
    ),
];

impl Compose<'_> {
    pub(super) fn transport(&self) -> Transport {
        let by_value = |from: &BTreeMap<u32, BTreeSet<Vec<u8>>>| {
            let mut by = BTreeMap::<String, Vec<String>>::new();
            for (speaker, values) in from {
                values.iter().for_each(|value| {
                    by.entry(shown(value))
                        .or_default()
                        .push(self.name(*speaker))
                });
            }
            by
        };
        let (mut named, versions) = (
            BTreeMap::<String, Vec<String>>::new(),
            by_value(&self.tally.versions),
        );
        let networks = self.networks();
        let proof = networks.iter().map(|(_, _, proof)| *proof).max();
        for (speaker, name, _) in &networks {
            let name = shown(name);
            // NCCL and its plugins write one network as `IB` and as `ib`.
            let mut known = named.keys();
            let known = known.find(|known: &&String| known.eq_ignore_ascii_case(&name));
            let name = known.cloned().unwrap_or(name);
            named.entry(name).or_default().push(self.name(*speaker));
        }
        let says = match proof {
            Some(Proof::Used) => "channels use",
            Some(Proof::Chosen) => "NCCL names",
            // Programs of verbs have lines of IB; networks of other names are plugins of NCCL.
            _ if !self.has_nccl() && named.keys().all(|name| name == "IB") => {
                "no line is of NCCL; the log has lines of"
            }
            _ => "no line says which network NCCL chose; the log has lines of",
        };
        let kinds: BTreeSet<&'static str> = named.keys().map(|name| kind(name)).collect();
        let is_gib = named.keys().all(|name| name.eq_ignore_ascii_case(GIB));
        let fabric = match kinds.first() {
            Some(&"ib") if is_gib => Some("RoCE"),
            Some(&"ib") => self
                .is_over_ethernet()
                .map(|is_ethernet| match is_ethernet {
                    true => "RoCE",
                    false => "InfiniBand",
                }),
            Some(&"ofi") => self.tally.fronts.fabric(),
            _ => None,
        };
        let over = fabric.map_or(String::new(), |fabric| format!(" over {fabric}"));
        let libraries = self.library_networks();
        let (verdict, because) = match (kinds.len(), kinds.first()) {
            (1, Some(kind)) => (*kind, format!("{says} {}{over}", list(named.keys()))),
            (0, _) if !self.tally.flows.is_empty() => (
                "tcpx",
                "the plugin connected flows; no line of NCCL names the network".to_owned(),
            ),
            (0, _) if !versions.is_empty() => (
                "unknown",
                "the plugin was initialised, but no line shows that it was used".to_owned(),
            ),
            (0, _) => match self.only_network() {
                Some(name) => (
                    kind(&name),
                    format!(
                        "{NCCL_NET} limits NCCL to {name}, and a communicator came up; no line says that it is used"
                    ),
                ),
                None => ("unknown", self.no_network(!libraries.is_empty())),
            },
            _ => ("mixed", format!("{says} {}", list(named.keys()))),
        };
        let is_cut = self.is_cut_by_filter();
        let may_stay = self.may_stay_within() && !is_cut && !self.fails_in_network();
        let one_host = self
            .one_host()
            .filter(|_| may_stay && proof <= Some(Proof::Chosen) && !self.has_one_rank());
        let because = match proof {
            _ if let Some(why) = &one_host => {
                let others = proof.map_or("", |_| " for other nodes");
                format!("{because}{others}; {why}, so peer access or shared memory moves the data")
            }
            None if is_cut && verdict == "unknown" => format!(
                "{because}; the filters leave lines out, and these may name the network between nodes"
            ),
            Some(Proof::Up | Proof::Chosen) if is_cut => because,
            Some(Proof::Up | Proof::Chosen) if self.has_one_rank() => format!(
                "{because} for other ranks; every communicator of this log has one rank, so no network moves its data"
            ),
            Some(Proof::Up | Proof::Chosen) if may_stay && self.is_of_one_node() => format!(
                "{because} for other nodes; every communicator of this log is of one node, so peer access or shared memory moves the data"
            ),
            Some(Proof::Up | Proof::Chosen) if self.tally.has_node_nvlink => format!(
                "{because} for nodes without NVLink to this one; channels of this log go over NVLink between nodes (MNNVL)"
            ),
            Some(Proof::Up | Proof::Chosen) if self.has_local_channels() => format!(
                "{because} for other nodes; every channel that this log has a line of is within a node, by peer access or shared memory"
            ),
            _ => because,
        };
        let is_within = may_stay && (self.is_within_node(proof) || self.is_within_host(proof));
        let is_open = may_stay && !is_within && one_host.is_none() && verdict == "unknown";
        let lines_within = self.lines_within(proof).filter(|_| is_open);
        let (is_within, because) = match lines_within {
            Some(why) => (true, why),
            None => (is_within, because),
        };
        // What NCCL chose for other nodes, or a plugin that is only there, moves nothing where no other node takes part.
        let verdict = match proof {
            _ if one_host.is_some() || is_within => "within-node",
            Some(Proof::Up | Proof::Chosen) if self.is_one_rank() && !is_cut => "within-node",
            Some(Proof::Up) if may_stay && self.is_of_one_node() => "unknown",
            Some(Proof::Up | Proof::Chosen) if self.tally.has_node_nvlink => "other",
            _ => verdict,
        };
        let (verdict, because) = match verdict {
            "unknown" if libraries.contains_key(GIN) => (
                "other",
                format!("{because}; GPUs start transfers themselves (NCCL's GIN)"),
            ),
            _ => (verdict, because),
        };
        let names = libraries.keys().take(HOSTS_NAMED).cloned().collect();
        let is_of_nccl = !named.is_empty() || verdict != "unknown" || self.has_nccl();
        let is_of_nccl = is_of_nccl || libraries.is_empty();
        let asked = match verdict {
            "unknown" if named.is_empty() => self.asked(&libraries),
            _ => Vec::new(),
        };
        let (verdict, because) = self.with_libraries(libraries, verdict, because, &mut named);
        let (verdict, because) = match (verdict, asked.as_slice()) {
            ("unknown", [_, ..]) => (
                "asked-for",
                format!(
                    "{because}; asked for, not seen to be used: {}",
                    list(asked.iter())
                ),
            ),
            _ => (verdict, because),
        };
        Transport {
            verdict,
            fabric: fabric.filter(|_| ["ib", "ofi"].contains(&verdict)),
            because,
            named,
            versions,
            libraries: names,
            asked,
            is_of_nccl,
        }
    }

    /// Whether every communicator of the log has one rank.
    fn has_one_rank(&self) -> bool {
        let most = self.tally.most_ranks;
        most.or_else(|| self.tally.fronts.one_node().comm_ranks()) == Some(1)
    }

    /// Whether one process has all communicators of the log, and each has one rank: no data leaves its GPU.
    fn is_one_rank(&self) -> bool {
        self.tally.most_ranks == Some(1) && self.processes().1 == 1
    }

    /// Lines of peer access or shared memory in a log of one host, where no line names a network.
    fn lines_within(&self, proof: Option<Proof>) -> Option<String> {
        if proof.is_some() || !self.tried().is_empty() || self.has_one_rank() {
            return None;
        }
        let (hosts, processes) = self.processes();
        if self.tally.commands.has_one_process()
            && processes <= 1
            && self.library_networks().is_empty()
            && self.tally.most_ranks.is_none()
        {
            return Some(ONE_PROCESS.to_owned());
        }
        if self.tally.fronts.is_of_one_process()
            && hosts.len() <= 1
            && self.asked(&BTreeMap::new()).is_empty()
        {
            return Some(IN_ONE_PROCESS.to_owned());
        }
        let of = self.others_named();
        let within: Vec<&str> = of
            .into_iter()
            .filter(|what| IS_WITHIN.contains(what))
            .collect();
        let host = self.only_host().filter(|_| !within.is_empty())?;
        let is_none = self.asked(&BTreeMap::new()).is_empty();
        is_none.then(|| {
            format!(
                "no line names a network; the log has lines of {}, all its processes of NCCL are of {host}, and no line tells of another host",
                within.join(", ")
            )
        })
    }

    /// What a command or an environment asks for: of NCCL, or of a library that lines name.
    fn asked(&self, libraries: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let is_of_nccl = libraries.is_empty() || self.has_nccl();
        let asked = self.tally.fronts.asked(|name| self.set_value(name));
        let is_its = |of: &str| match of {
            "NCCL" => is_of_nccl,
            "" => libraries.is_empty(),
            of => libraries.keys().any(|library| library.contains(of)),
        };
        let asked = asked.into_iter().filter(|one| is_its(one.of));
        asked.map(|one| one.what).take(ASKED_MAX).collect()
    }

    /// Whether the RDMA devices that the log names are all of Ethernet, or none is: those that NCCL lists, or the ends of
    /// its connections.
    fn is_over_ethernet(&self) -> Option<bool> {
        let name = |number: u32| Some(&self.catalogue.signatures.get(number as usize)?.name);
        let seen = self.tally.seen.iter();
        let mut listed = self.tally.fronts.of_ethernet().clone();
        let mut ends = BTreeSet::new();
        for ((number, _), seen) in seen {
            if name(*number).is_some_and(|name| name == super::NICS_USED) {
                listed.extend(crate::networks::are_of_ethernet(&seen.sample));
            }
            let lines = seen.near_lines().chain([&seen.sample]);
            for line in lines {
                ends.extend(crate::networks::has_ethernet_gid(line));
                ends.extend(crate::networks::has_no_ethernet_route(line).then_some(true));
            }
        }
        let only = |of: &BTreeSet<bool>| of.first().copied().filter(|_| of.len() == 1);
        // An end of InfiniBand looks like one that has no address.
        let of_ends = only(&ends).filter(|is_ethernet| *is_ethernet && listed.is_empty());
        only(&listed).or(of_ends)
    }

    /// Why no network is named, with what the log has lines of. Other libraries may name theirs.
    fn no_network(&self, others_do: bool) -> String {
        let tried = self.tried();
        let none = match others_do {
            _ if !tried.is_empty() => format!(
                "no line says that a network came up; the log names {}",
                list(tried.iter())
            ),
            true => "no line of NCCL names a network".to_owned(),
            false => "no line names a network".to_owned(),
        };
        let of = self.others_named();
        let is_of_one_node = self.is_of_one_node() && !self.is_cut_by_filter();
        let (hosts, _) = self.processes();
        let nodes = match hosts.first() {
            _ if is_of_one_node => "; every communicator is of one node".to_owned(),
            _ if self.is_within_node(None) || self.is_cut_by_filter() => String::new(),
            Some(host) if hosts.len() == 1 && of.iter().any(|what| IS_WITHIN.contains(what)) => {
                let most = self.tally.nodes.values().max();
                let others = match most.filter(|nodes| **nodes > 1) {
                    Some(nodes) => format!("a communicator has {nodes} nodes"),
                    None => "no line says whether the job has other hosts".to_owned(),
                };
                format!(
                    "; all its processes of NCCL are of {}, and {others}",
                    shown(host)
                )
            }
            _ => String::new(),
        };
        let set = self.network_variables();
        match of.as_slice() {
            [] if is_of_one_node => format!("{none}{nodes}"),
            [] if !set.is_empty() => format!(
                "{none}; the log sets {}; that limits the networks and does not tell which one is used",
                set.join(", ")
            ),
            [] if !tried.is_empty() => none,
            [] if self.logs_info() || !self.has_nccl() => none,
            [] => format!("{none}; NCCL logs it at INFO only"),
            of => {
                let of = of.join(", ");
                format!("{none}; the log has lines of {of}{nodes}")
            }
        }
    }

    /// Whether a call of a network for data failed: ranks of one node may have one, too.
    fn fails_in_network(&self) -> bool {
        let mut lines = self.kept_lines();
        lines.any(|line| memchr::memmem::find(line, OF_ANY_NETWORK).is_some())
    }

    /// What moves data, or may, by lines that are kept.
    fn others_named(&self) -> Vec<&'static str> {
        let has = |word: &&[u8]| {
            let mut lines = self.kept_lines();
            lines.any(|line| memchr::memmem::find(line, word).is_some())
        };
        let is_peer = |what: &str| what == OF_PEERS && self.tally.has_peer_channels;
        let of = OF_OTHERS.iter();
        let of = of.filter(|(words, what)| is_peer(what) || words.iter().any(has));
        of.map(|(_, what)| *what).collect()
    }

    /// Whether a line is of peer access or of shared memory.
    pub(super) fn moves_within(&self) -> bool {
        self.others_named()
            .iter()
            .any(|what| IS_WITHIN.contains(what))
    }

    /// The lines that are kept.
    pub(super) fn kept_lines(&self) -> impl Iterator<Item = &Vec<u8>> {
        let unknown = self.tally.shapes.values().map(|shape| &shape.lines);
        let seen = self.tally.seen.values().chain(unknown);
        let seen = seen.flat_map(|seen| seen.near_lines().chain([&seen.sample]));
        seen.chain(self.tally.ends.iter().map(|(.., end)| &end.last.text))
    }

    /// Whether a line that is kept is one that NCCL writes at level INFO.
    pub(super) fn logs_info(&self) -> bool {
        let info = |line: &[u8]| memchr::memmem::find(line, b" NCCL INFO ").is_some();
        self.tally.seen.values().any(|seen| info(&seen.sample))
    }

    /// Whether no line names a network of NCCL, and nothing asks for one.
    pub(super) fn names_no_network(&self) -> bool {
        self.networks().is_empty()
            && self.tried().is_empty()
            && self.asked(&BTreeMap::new()).is_empty()
    }

    /// The networks that NCCL's lines name, asked where none of them came up.
    fn tried(&self) -> BTreeSet<String> {
        let named = self.tally.transports.values().flatten();
        let of_nccl = named.filter(|(_, (proof, _))| *proof > Proof::OfLibrary);
        of_nccl.map(|(name, _)| shown(name)).collect()
    }

    /// The one network that NCCL_NET leaves to NCCL, where a communicator came up: NCCL fails without it.
    fn only_network(&self) -> Option<String> {
        if self.tally.most_ranks.is_none() || self.tally.members.is_empty() {
            return None;
        }
        let signatures = self.catalogue.signatures.iter();
        let number = signatures
            .enumerate()
            .find(|(_, one)| one.name == SETS_NET)?
            .0;
        let mut seen = self.tally.seen.iter();
        let of_line = seen.find(|((one, _), _)| *one as usize == number);
        let of_line = of_line.and_then(|(_, seen)| {
            let found = NET_VALUE.captures(&seen.sample)?;
            let name = found.name("quoted").or_else(|| found.name("word"))?;
            Some(shown(name.as_bytes()))
        });
        let name = self.set_value(NCCL_NET).or(of_line)?;
        (!name.is_empty() && !name.starts_with('^')).then_some(name)
    }

    /// The variables on networks that the log shows to be set.
    fn network_variables(&self) -> Vec<&str> {
        let signatures = self.catalogue.signatures.iter().enumerate();
        let of = signatures.filter(|(_, one)| one.name.starts_with(SETS));
        let variables = of.filter_map(|(number, one)| {
            let variable = one.literal.trim_end_matches('=');
            let is_its = |(seen, _): &(u32, u32)| *seen as usize == number;
            (self.tally.seen.keys().any(is_its) || self.is_set(variable)).then_some(variable)
        });
        variables.collect()
    }

    /// Whether a call of the source of NCCL's sockets for data failed in a process.
    fn connects_by_sockets(&self, speaker: u32) -> bool {
        let signatures = self.catalogue.signatures.iter().zip(0_u32..);
        let mut its = signatures.filter(|(one, _)| one.name == super::NET_CHAIN);
        its.any(|(_, number)| {
            let seen = self.tally.seen.get(&(number, speaker));
            seen.is_some_and(|seen| memchr::memmem::find(&seen.sample, b"net_socket").is_some())
        })
    }

    /// The processes in which a call for data failed within HPC-X's plugin of UCX, whose source is in the chain of calls.
    fn speakers_of_ucx_plugin(&self) -> BTreeSet<u32> {
        let name = |number: u32| Some(&self.catalogue.signatures.get(number as usize)?.name);
        let has = |line: &[u8], word: &[u8]| memchr::memmem::find(line, word).is_some();
        let seen = self.tally.seen.iter();
        let chains =
            seen.filter(|((of, _), _)| name(*of).is_some_and(|name| name == super::NET_CHAIN));
        let of_plugin = chains.filter(|(_, seen)| {
            let mut lines = seen.near_lines().chain([&seen.sample]);
            let is_of_data = lines.clone().any(|line| has(line, OF_ANY_NETWORK));
            is_of_data && lines.any(|line| has(line, b" ucx_plugin.c:") && has(line, b" -> "))
        });
        of_plugin.map(|((_, speaker), _)| *speaker).collect()
    }

    /// Whether HPC-X's plugin for InfiniBand, which NCCL loads before it looks for a device, may be in use: there is another
    /// host, and no line says that a device is missing.
    fn may_use_hpcx(&self) -> bool {
        self.processes().0.len() > 1 && !self.any_seen(&[NO_IB_DEVICE.to_owned()])
    }

    /// Whether the data of the log's communicators stays within a node, over peer access or shared memory.
    fn is_within_node(&self, proof: Option<Proof>) -> bool {
        if proof > Some(Proof::Chosen) || self.has_one_rank() {
            return false;
        }
        let is_chosen = proof == Some(Proof::Chosen);
        match proof {
            None if self.tally.nodes.is_empty() => {
                // Of what is between two hosts, lines of channels within them tell nothing.
                self.has_local_channels()
                    && self.processes().0.len() <= 1
                    && !self.has_other_hosts()
                    || !self.tally.members.is_empty() && self.is_of_one_host()
            }
            _ => {
                self.is_of_one_node() && (is_chosen || proof.is_none() || self.has_local_channels())
            }
        }
    }

    /// Whether the log, whose processes of NCCL are all of one host and all of the job, has lines of channels within the
    /// node and of no channel of a network. Where a channel of a network is made, its line is beside those.
    fn is_within_host(&self, proof: Option<Proof>) -> bool {
        let (hosts, processes) = self.processes();
        let is_of_host = hosts.len() == 1 && self.tally.nodes.is_empty();
        // One process may have all ranks, as a thread for each GPU.
        let ready = self.tally.ready_ranks.iter().map(|(_, rank)| *rank);
        let ready = ready.collect::<BTreeSet<u32>>().len().max(processes);
        let has_all = self
            .tally
            .most_ranks
            .is_none_or(|ranks| ranks as usize <= ready);
        // A warning about peer access alone is of one pair of GPUs, not of the job.
        (proof == Some(Proof::Chosen) || proof == Some(Proof::Up))
            && is_of_host
            && ready > 1
            && has_all
            && self.has_local_channels()
    }

    /// The hosts of NCCL's processes, and the number of these. A line that lacks its front has the end of a host's name.
    pub(super) fn processes(&self) -> (BTreeSet<&[u8]>, usize) {
        let speakers = self.tally.speakers.iter();
        let processes = speakers.filter_map(|speaker| match speaker {
            Speaker::Process {
                host,
                pid: Some(pid),
            } => Some((*pid, host.as_ref())),
            _ => None,
        });
        let processes: BTreeSet<(u32, &[u8])> = processes.collect();
        let is_rest = |(pid, host): &(u32, &[u8])| {
            let from = processes.range((*pid, &[][..])..);
            from.take_while(|(of, _)| of == pid)
                .any(|(_, other)| other.len() > host.len() && other.ends_with(host))
        };
        let whole = processes.iter().filter(|one| !is_rest(one));
        let hosts: Vec<&[u8]> = whole.map(|(_, host)| *host).collect();
        let count = hosts.len();
        (hosts.into_iter().collect(), count)
    }

    /// Whether a channel is within a node. Asked where no channel uses a network.
    fn has_local_channels(&self) -> bool {
        self.tally.has_peer_channels || self.tally.has_shared_channels
    }

    /// Whether filters leave lines out of a job that is not known to be of one node: what is left tells nothing of it.
    fn is_cut_by_filter(&self) -> bool {
        let nodes = self.tally.nodes.values().copied().max();
        let most = nodes.max(self.tally.filtered_nodes);
        self.tally.filtered_records > 0 && most.is_none_or(|nodes| nodes > 1)
    }

    /// Why the whole job is on one host, if a table of its ranks or its command says so, and no process of NCCL is of
    /// another.
    pub(super) fn one_host(&self) -> Option<String> {
        let (ranks, why) = match self.tally.claims.listed_hosts() {
            Some((hosts, ranks)) => {
                let named: Vec<String> = hosts
                    .iter()
                    .take(HOSTS_NAMED)
                    .map(|one| shown(one))
                    .collect();
                let why = match named.as_slice() {
                    [host] => format!("the table of the job's ranks has all {ranks} on {host}"),
                    _ => format!(
                        "each table of ranks has all {ranks} on one host: {}",
                        named.join(", ")
                    ),
                };
                (ranks, why)
            }
            None if let Some(gpus) = self.tally.commands.gpus_of_tests() => {
                let why = format!("one process of nccl-tests has all {gpus} GPUs of the test");
                (gpus, why)
            }
            None if let Some(ranks) = self.tally.commands.ranks_on_one_host() => {
                let why = format!("torchrun starts all {ranks} ranks of the job on this host");
                (ranks, why)
            }
            None => {
                let of_comms = self
                    .ranks_of_one_host()
                    .or_else(|| self.calls_of_one_host());
                let of_comms = of_comms.map(|(host, ranks)| {
                    let why =
                        format!("all {ranks} ranks of the largest communicator are on {host}");
                    (ranks, why)
                });
                of_comms.or_else(|| self.ranks_of_one_node())?
            }
        };
        let has_all = self
            .tally
            .most_ranks
            .is_none_or(|most| most <= u64::from(ranks));
        let is_alone = self.processes().0.len() <= 1;
        (ranks > 1 && has_all && is_alone).then_some(why)
    }

    /// Whether data within a node may go by peer access or shared memory: no settings keep them from both.
    fn may_stay_within(&self) -> bool {
        let is_on = |variable: &str| {
            self.set_value(variable)
                .is_some_and(|value| value.trim_end_matches('.') != "0")
        };
        !(is_on("NCCL_P2P_DISABLE") && is_on("NCCL_SHM_DISABLE"))
    }

    /// Whether NCCL says of every communicator that it is of one node, or all ranks of each begin on one host.
    pub(super) fn is_of_one_node(&self) -> bool {
        let nodes = &self.tally.nodes;
        if nodes.is_empty() {
            return self.is_of_one_host();
        }
        nodes.values().all(|nodes| *nodes <= 1)
    }

    /// Whether the log has all ranks of each communicator that begins or is complete, and all are of one host.
    fn is_of_one_host(&self) -> bool {
        let mut comms = BTreeMap::<u64, (BTreeSet<u32>, u32)>::new();
        let mut hosts = BTreeSet::new();
        let begun = self.tally.claims.gpus();
        let begun = begun.map(|(of, ..)| (of.speaker, of.comm_id, of.rank, of.ranks));
        let complete = self.tally.members.iter();
        let complete =
            complete.map(|((speaker, _), (_, of))| (*speaker, of.comm_id, of.rank, of.ranks));
        for (speaker, comm_id, rank, ranks) in begun.chain(complete) {
            let (seen, all) = comms.entry(comm_id).or_default();
            seen.insert(rank);
            *all = ranks;
            hosts.insert(self.named_host(speaker));
        }
        let is_whole = |(seen, all): &(BTreeSet<u32>, u32)| seen.len() as u32 == *all;
        hosts.len() == 1 && !hosts.contains(&None) && comms.values().all(is_whole)
    }

    /// The verdict with the networks of libraries beside NCCL. They are the answer only where no line is of NCCL.
    fn with_libraries(
        &self,
        of: BTreeMap<String, Vec<String>>,
        verdict: &'static str,
        because: String,
        named: &mut BTreeMap<String, Vec<String>>,
    ) -> (&'static str, String) {
        if of.is_empty() {
            return (verdict, because);
        }
        let listed = list(of.keys().take(HOSTS_NAMED));
        // Gloo moves no data of GPUs where another library does, and what another library names of UCX is one of UCX's
        // own networks.
        // oneCCL goes over libfabric.
        let has_libfabric = of.keys().any(|name| name.starts_with("libfabric "));
        let moves = |name: &&String| {
            !(name.starts_with("Gloo ")
                || name.ends_with(" UCX")
                || has_libfabric && *name == ONECCL_UNNAMED)
        };
        let others = of.keys().any(|name| moves(&name));
        let movers = of.keys().filter(|name| !others || moves(name));
        let kinds: BTreeSet<&'static str> = movers.map(|name| kind_of_library(name)).collect();
        let only = kinds
            .first()
            .filter(|kind| kinds.len() == 1 && **kind != "other");
        let is_of_nccl = !named.is_empty() || verdict != "unknown" || self.has_nccl();
        match only.filter(|_| !is_of_nccl) {
            Some(kind) => {
                named.extend(of.clone());
                (
                    kind,
                    format!("no line is of NCCL; other libraries name {listed}"),
                )
            }
            None if !is_of_nccl => (
                verdict,
                format!("no line is of NCCL; other libraries name {listed}"),
            ),
            None => (verdict, format!("{because}; other libraries name {listed}")),
        }
    }

    /// Where every process whose libfabric plugin failed chose another network behind it, the job goes on over that.
    pub(super) fn tell_of_fallback(&self, findings: &mut [SignatureFinding]) {
        let of_plugin = |one: &&mut SignatureFinding| one.signature.starts_with("ofi-");
        let mut has_fallen_back = false;
        for finding in findings.iter_mut().filter(of_plugin) {
            let signatures = self.catalogue.signatures.iter();
            let mut its = signatures.filter(|one| one.name == finding.signature);
            if !its.any(|one| one.needs == Some(Need::UnfinishedInit)) {
                continue;
            }
            let mut chosen = BTreeMap::<String, BTreeSet<String>>::new();
            for (speaker, names) in &self.tally.transports {
                let names = names
                    .iter()
                    .filter(|(_, (proof, _))| *proof == Proof::Chosen);
                for (name, _) in names {
                    let of = chosen.entry(shown(name)).or_default();
                    of.insert(self.name(*speaker));
                }
            }
            let has_all =
                |of: &BTreeSet<String>| finding.processes.iter().all(|one| of.contains(one));
            let of_others = chosen
                .iter()
                .find(|(name, of)| kind(name) != "ofi" && has_all(of));
            if let Some((name, _)) = of_others {
                finding.severity = Severity::Warning;
                finding.meaning = format!(
                    "{}; NCCL chose {name} instead, so data between nodes go over that",
                    finding.meaning
                );
                has_fallen_back = true;
            }
        }
        if has_fallen_back {
            self.restore_first(findings);
        }
    }

    /// Where a plugin's failure, which NCCL got over, was all that failures followed, the first of them tells what failed.
    fn restore_first(&self, findings: &mut [SignatureFinding]) {
        let fails = |one: &SignatureFinding| one.severity < Severity::Warning;
        let is_told = |one: &SignatureFinding| fails(one) && one.role != Role::Consequence;
        if findings.iter().any(is_told) {
            return;
        }
        let is_own = |one: &SignatureFinding| {
            let its = Signature::named(&self.catalogue.signatures, &one.signature);
            its.is_some_and(|its| its.role != Role::Consequence && !its.launcher)
        };
        let followed = findings.iter_mut().filter(|one| fails(one) && is_own(one));
        if let Some(first) = followed.min_by(|one, other| one.first.cmp(&other.first)) {
            first.role = Role::Cause;
        }
    }

    /// The networks of libraries beside NCCL, each with its processes.
    pub(super) fn library_networks(&self) -> BTreeMap<String, Vec<String>> {
        let mut of = BTreeMap::<String, Vec<String>>::new();
        for (speaker, names) in &self.tally.transports {
            let names = names
                .iter()
                .filter(|(_, (proof, _))| *proof == Proof::OfLibrary);
            for (name, _) in names {
                of.entry(shown(name)).or_default().push(self.name(*speaker));
            }
        }
        for (number, speaker) in self.tally.seen.keys() {
            let signature = self.catalogue.signatures.get(*number as usize);
            let network =
                signature.and_then(|one| Some((one.library.as_ref()?, one.network.as_ref()?)));
            if let Some((library, network)) = network {
                let name = format!("{library} {network}");
                // A line writes it as `tcp`.
                let mut known = of.keys();
                let known = known.find(|known: &&String| known.eq_ignore_ascii_case(&name));
                let name = known.cloned().unwrap_or(name);
                of.entry(name).or_default().push(self.name(*speaker));
            }
        }
        self.name_roce(&mut of);
        for processes in of.values_mut() {
            processes.sort();
            processes.dedup();
        }
        // UCX may be under another library, which then names it, or one of its own networks is named.
        let names_ucx = |name: &String| name.starts_with("UCX ") || name.ends_with(" UCX");
        let is_told = of.keys().any(|name| names_ucx(name) && name != UCX_UNNAMED);
        of.retain(|name, _| !is_told || name != UCX_UNNAMED);
        self.add_libraries_of_fronts(&mut of);
        // What is within a node of one process may be between nodes of another.
        let of_node: Vec<String> = of
            .keys()
            .filter(|name| WITHIN.contains(&name.as_str()) && !self.may_be_within(name))
            .cloned()
            .collect();
        for name in of_node {
            let library = name.split(' ').next().unwrap_or_default().to_owned();
            let unnamed = format!("{library} over a network that no line names");
            let is_named = of
                .keys()
                .any(|other| *other != name && other.split(' ').next() == Some(library.as_str()));
            if let Some(processes) = of.remove(&name)
                && !is_named
            {
                of.insert(unnamed, processes);
            }
        }
        of
    }

    /// Whether no line tells of a second node of the job, and all processes of UCX are known.
    fn may_be_within(&self, name: &str) -> bool {
        let fronts = &self.tally.fronts;
        let has_others = fronts.has_several_nodes()
            || !fronts.one_node().is_of_one()
            || self.tally.commands.has_several_nodes()
            || self.tally.claims.lists_hosts()
            || self.processes().0.len() > 1;
        !has_others && (name != UCX_WITHIN || fronts.has_ucx_of_one_host())
    }

    /// Adds the libraries that the fronts of files name, where no other line tells of them. What names a network tells
    /// more than what names a library alone.
    fn add_libraries_of_fronts(&self, of: &mut BTreeMap<String, Vec<String>>) {
        if !self.networks().is_empty() {
            return;
        }
        let library = |name: &str| name.split(' ').next().map(str::to_owned);
        let known: BTreeSet<Option<String>> = of.keys().map(|name| library(name)).collect();
        let mut fronts = self.tally.fronts.clone();
        self.kept_lines()
            .for_each(|line| fronts.see_libraries(line));
        let named: Vec<&'static str> = fronts.libraries().collect();
        let is_unnamed = |name: &str| name.contains("that no line names");
        for name in &named {
            let its = library(name);
            let is_told = |other: &&str| !is_unnamed(other) && library(other) == its;
            let is_under_ucc = *name == UCX_UNNAMED && named.contains(&UCC_UCX);
            let is_told = is_unnamed(name) && named.iter().any(is_told) || is_under_ucc;
            // The link tells more than that it is one of RDMA.
            if [PERFTEST_IB, PERFTEST_ROCE].contains(name) {
                if let Some(processes) = of.remove("perftest IB") {
                    of.insert((*name).to_owned(), processes);
                }
                continue;
            }
            let is_named = |other: &String| library(other) == its && !is_unnamed(other);
            if is_told || known.contains(&its) && (is_unnamed(name) || of.keys().any(is_named)) {
                continue;
            }
            of.retain(|other, _| library(other) != its || is_named(other));
            let is_nixl_over_ucx = name.starts_with("NIXL ")
                && (known.contains(&Some("UCX".into())) || named.contains(&UCX_IB));
            let name = match is_unnamed(name).then_some(its).flatten() {
                _ if is_nixl_over_ucx => "NIXL UCX".to_owned(),
                Some(its) if named.contains(&RDMA_VERBS) => format!("{its} verbs"),
                _ => (*name).to_owned(),
            };
            of.insert(name, self.files.to_vec());
        }
    }

    /// Names a library's network RoCE where all ports that its lines name are of Ethernet.
    fn name_roce(&self, of: &mut BTreeMap<String, Vec<String>>) {
        let mut ports = BTreeMap::<&str, BTreeSet<bool>>::new();
        for ((number, _), seen) in &self.tally.seen {
            let signature = self.catalogue.signatures.get(*number as usize);
            let library = signature.and_then(|one| one.library.as_deref());
            if let Some(library) = library {
                let layer = crate::networks::is_port_of_ethernet(&seen.sample);
                ports.entry(library).or_default().extend(layer);
            }
        }
        for (library, layers) in ports {
            if layers.len() == 1
                && layers.contains(&true)
                && let Some(processes) = of.remove(&format!("{library} IB"))
            {
                let names = of.entry(format!("{library} RoCE")).or_default();
                names.extend(processes);
            }
        }
    }

    /// Whether a line is of NCCL, or of a program that uses it.
    pub(super) fn has_nccl(&self) -> bool {
        let name = |number: u32| Some(&self.catalogue.signatures.get(number as usize)?.name);
        let is_of = |name: &String| OF_NCCL.iter().any(|word| name.contains(word));
        let mut seen = self.tally.seen.keys();
        let speaks = |one: &Speaker| matches!(one, Speaker::Process { pid: Some(_), .. });
        self.tally.speakers.iter().any(speaks)
            || seen.any(|(number, _)| name(*number).is_some_and(is_of))
    }

    /// The networks of each process by its strongest lines. Weak lines count only if no
    /// process has stronger ones.
    pub(super) fn networks(&self) -> Vec<(u32, &[u8], Proof)> {
        let mut of = BTreeMap::<u32, Vec<(&[u8], Proof)>>::new();
        for (speaker, names) in &self.tally.transports {
            let names = names
                .iter()
                .filter(|(_, (proof, _))| *proof > Proof::OfLibrary)
                .map(|(name, (proof, _))| (name.as_slice(), *proof));
            of.entry(*speaker).or_default().extend(names);
        }
        for (number, speaker) in self.tally.seen.keys() {
            let signature = self.catalogue.signatures.get(*number as usize);
            let signature = signature.filter(|signature| signature.library.is_none());
            if let Some(name) = signature.and_then(|signature| signature.network.as_deref()) {
                of.entry(*speaker)
                    .or_default()
                    .push((name.as_bytes(), Proof::Up));
            }
        }
        for speaker in self.speakers_of_ucx_plugin() {
            of.entry(speaker).or_default().push((b"UCX", Proof::Up));
        }
        let strongest = of.values().flatten().map(|(_, proof)| *proof).max();
        let mut all = Vec::new();
        for (speaker, names) in of {
            let proof = names.iter().map(|(_, proof)| *proof).max();
            let is_weak = proof <= Some(Proof::Up) && proof < strongest;
            if is_weak {
                continue;
            }
            let names = names.into_iter().filter(|one| Some(one.1) == proof);
            all.extend(names.map(|(name, proof)| (speaker, name, proof)));
        }
        if strongest == Some(Proof::Loaded) && !self.may_use_hpcx() {
            all.retain(|(_, name, _)| !name.starts_with(HPCX_IB));
        }
        if strongest <= Some(Proof::Up) && self.any_seen(&OFI_OFF.map(str::to_owned)) {
            all.retain(|(_, name, _)| kind(&shown(name)) != "ofi");
        }
        if strongest == Some(Proof::Loaded) && self.fails() {
            return Vec::new();
        }
        if strongest <= Some(Proof::Up) {
            let rank = |name: &[u8]| preference(&shown(name));
            let best = all.iter().map(|(_, name, _)| rank(name)).min();
            let of_best = all.iter().filter(|(_, name, _)| Some(rank(name)) == best);
            let of_best: BTreeSet<u32> = of_best.map(|(speaker, ..)| *speaker).collect();
            all.retain(|(speaker, name, _)| {
                // A process whose connections for data are of sockets has lost the network of the others.
                let is_of_sockets = !of_best.contains(speaker)
                    && kind(&shown(name)) == "socket"
                    && self.connects_by_sockets(*speaker);
                Some(rank(name)) == best || is_of_sockets
            });
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the log names something that failed.
    fn fails(&self) -> bool {
        let signature = |number: u32| self.catalogue.signatures.get(number as usize);
        let is_error = |one: &Signature| one.severity <= Severity::Error && one.needs.is_none();
        let mut seen = self
            .tally
            .seen
            .keys()
            .filter_map(|(number, _)| signature(*number));
        seen.any(is_error)
    }

    /// Hosts whose channels or communicators use networks of different kinds.
    pub(super) fn mixed(&self) -> Option<SignatureFinding> {
        let mut hosts = BTreeMap::<&'static str, BTreeSet<String>>::new();
        for (speaker, name, proof) in self.networks() {
            if proof > Proof::Up {
                hosts
                    .entry(kind(&shown(name)))
                    .or_default()
                    .insert(self.host(speaker));
            }
        }
        let (first, others) = hosts.values().next().zip(hosts.values().nth(1))?;
        if !first.is_disjoint(others) {
            return None;
        }
        let places = self.tally.transports.values().flat_map(BTreeMap::values);
        let place = places
            .filter(|(proof, _)| *proof > Proof::Up)
            .map(|(_, place)| *place)
            .min();
        let place = self.place(place.unwrap_or_default(), None);
        let of_host = |(kind, hosts): (&&'static str, &BTreeSet<String>)| {
            format!("{kind} on {}", list(hosts.iter().take(HOSTS_NAMED)))
        };
        let said = self.said_of_networks(&hosts);
        let hosts: Vec<String> = hosts.iter().map(of_host).collect();
        let hosts = hosts.join("; ");
        let mut meaning = format!("the hosts of one job use different networks: {hosts}");
        for said in said {
            let beside = crate::reasons::BESIDE.replace("{word}", &said);
            meaning = format!("{meaning}; {beside}");
        }
        Some(SignatureFinding {
            meaning,
            sample: hosts,
            ..hosts_differ("networks-mixed", place)
        })
    }

    /// Warnings of networks on hosts of one kind of network alone, of which hosts of another have none: why they use it.
    fn said_of_networks(&self, hosts: &BTreeMap<&'static str, BTreeSet<String>>) -> Vec<String> {
        let mut said = BTreeMap::<String, (Place, BTreeSet<&'static str>)>::new();
        let mut add = |lines: &SeenLines, speaker: u32| {
            let text = shown(&lines.sample);
            let message = text.split_once(OF_NETWORK).map(|(_, message)| message);
            let host = self.host(speaker);
            let kind = hosts.iter().find(|(_, hosts)| hosts.contains(&host));
            if let Some((message, (kind, _))) = message.zip(kind) {
                let message = format!("NET/{message}");
                let of = said
                    .entry(message)
                    .or_insert((lines.first, BTreeSet::new()));
                of.0 = of.0.min(lines.first);
                of.1.insert(kind);
            }
        };
        for ((_, speaker), lines) in &self.tally.seen {
            add(lines, *speaker);
        }
        for shape in self.tally.shapes.values() {
            shape
                .last
                .keys()
                .for_each(|speaker| add(&shape.lines, *speaker));
        }
        let said = said.into_iter().filter(|(_, (_, kinds))| kinds.len() == 1);
        let mut said: Vec<(Place, String)> = said.map(|(text, (place, _))| (place, text)).collect();
        said.sort_unstable();
        said.into_iter()
            .map(|(_, text)| text)
            .take(SAID_MAX)
            .collect()
    }

    /// Hosts that have an external network plugin beside hosts that do not find one.
    pub(super) fn plugin_on_some_hosts(&self) -> Option<SignatureFinding> {
        let hosts = |name: &str| {
            let number = self
                .catalogue
                .signatures
                .iter()
                .position(|one| one.name == name);
            let of = |(signature, _): &&(u32, u32)| Some(*signature as usize) == number;
            let seen = self.tally.seen.keys().filter(of);
            seen.map(|(_, speaker)| self.host(*speaker))
                .collect::<BTreeSet<String>>()
        };
        let (with, without) = (hosts("nccl-plugin-path"), hosts("nccl-plugin-not-found"));
        if with.is_empty() || without.is_empty() || !with.is_disjoint(&without) {
            return None;
        }
        let name =
            |signature: &u32| Some(&self.catalogue.signatures.get(*signature as usize)?.name);
        let lines = self.tally.seen.iter();
        let of_none = lines
            .filter(|((one, _), _)| name(one).is_some_and(|one| one == "nccl-plugin-not-found"));
        let first = of_none
            .map(|(_, seen)| seen)
            .min_by_key(|seen| seen.first)?;
        let place = self.place(first.first, first.first_line_us);
        let named = |hosts: &BTreeSet<String>| list(hosts.iter().take(HOSTS_NAMED));
        Some(SignatureFinding {
            processes: without.iter().cloned().collect(),
            meaning: format!(
                "the hosts of one job have different network plugins: an external one on {}, none on {}",
                named(&with),
                named(&without)
            ),
            sample: shown(&first.sample),
            ..hosts_differ("plugin-on-some-hosts", place)
        })
    }
}

/// How the warning of a network goes on behind its place, and warnings that are quoted of hosts with another network.
const OF_NETWORK: &str = " NCCL WARN NET/";
const SAID_MAX: usize = 2;

/// A finding on hosts of one job that use different networks; what differs is to be added.
fn hosts_differ(signature: &str, place: LinePlace) -> SignatureFinding {
    SignatureFinding {
        signature: signature.to_owned(),
        severity: Severity::Error,
        role: Role::Cause,
        count: 1,
        processes: Vec::new(),
        first: place.clone(),
        last: place,
        phase: None,
        meaning: String::new(),
        causes: vec![
            "the plugin is missing or failed on some hosts".to_owned(),
            "the environment or the image differs between hosts".to_owned(),
        ],
        next_step: Some(
            "compare NCCL_NET, NCCL_NET_PLUGIN and LD_LIBRARY_PATH of the hosts".to_owned(),
        ),
        versions: "any NCCL".to_owned(),
        polls: None,
        sample: String::new(),
        before: Vec::new(),
        after: None,
    }
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.cloned().collect::<Vec<_>>().join(", ")
}
