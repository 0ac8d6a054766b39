//! Connections by both ends, and hosts whose builds of the plugin differ.
#![forbid(unsafe_code)]

use super::ranking::PEER_CLOSED;
use super::{Compose, shown};
use crate::report::{BuildMismatch, Comm, LogReport, SignatureFinding};
use crate::signature::{Role, Severity};
use crate::tally::{Address, FlowKey, FlowSeen};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Lines of the source by host.
type Hosts = BTreeMap<String, BTreeSet<u32>>;

/// Received bytes that are not in GPU memory, and the cause that both ends of the flow show.
const NOT_IN_GPU: [&str; 2] = ["rx-no-cmsg", "rx-no-data"];
const ON_ONE_HOST: &str = "both ends of the flow have the address {word}: they are on one host, whose own bytes do not come through the NIC that puts them into GPU memory";
const USE_OTHER_HOST: &str = "give the ranks of one host peer access or shared memory (unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE), or start the receiver on another host";

/// Names the host first where both ends of a flow, whose bytes are not in GPU memory, have its address.
pub(super) fn tell_of_one_host(findings: &mut [SignatureFinding]) {
    let of_flow = |one: &&mut SignatureFinding| NOT_IN_GPU.contains(&one.signature.as_str());
    for finding in findings.iter_mut().filter(of_flow) {
        let flow = crate::fields::flow(finding.sample.as_bytes());
        let Some(flow) = flow.filter(|flow| flow.local.ip == flow.remote.ip) else {
            continue;
        };
        let address = shown(flow.local.ip);
        finding
            .causes
            .retain(|cause| !cause.starts_with("both ends"));
        finding
            .causes
            .insert(0, ON_ONE_HOST.replace("{word}", &address));
        finding.next_step = Some(USE_OTHER_HOST.to_owned());
    }
}

/// Causes of a failed connection that fit one error only: how they begin, and words of the error.
const OF_ERRORS: [(&str, &[&str]); 4] = [
    ("refused:", &["refused"]),
    ("timed out:", &["timed out"]),
    ("no route:", &["no route", "unreachable"]),
    ("aborted:", &["abort"]),
];
/// Addresses and interfaces that other hosts cannot reach, and a word of the cause that fits them.
const OF_ONE_LINK: [(&str, &str); 5] = [
    ("fe80:", "fe80::"),
    ("fe80:", "veth"),
    (" veth", "veth"),
    (" docker", "veth"),
    (" virbr", "veth"),
];

/// Failures of connecting, and of calls of NCCL's sockets of which no line tells more.
const OF_CONNECTING: [&str; 4] = [
    "socket-propagated",
    "socket-connect-failed",
    "socket-connect-gave-up",
    "socket-call-connect-failed",
];
/// The interface of a process, where its address is one of Docker's bridge.
static ON_BRIDGE: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\bthis node uses [\w.-]+:172\.17\.\d+\.\d+"));
const OWN_BRIDGE: &str = "NCCL uses an interface on Docker's bridge (172.17.*), whose addresses only this host reaches: ranks of other hosts cannot connect to it";
const LEAVE_BRIDGE: &str = "start the container with --network=host, or give it the hosts' network, and set NCCL_SOCKET_IFNAME to the interface that all nodes share";

/// Puts the causes first that fit the addresses of a failed connection, and drops those that fit other errors.
pub(super) fn tell_of_addresses(findings: &mut [SignatureFinding]) {
    let of_sockets = |one: &&mut SignatureFinding| one.signature.starts_with("socket-connect-");
    for finding in findings.iter_mut().filter(of_sockets) {
        let said = finding.sample.to_ascii_lowercase();
        let is_said = |(_, words): &&(&str, &[&str])| words.iter().any(|word| said.contains(word));
        if let Some((own, _)) = OF_ERRORS.iter().find(is_said)
            && finding.causes.iter().any(|cause| cause.starts_with(own))
        {
            let is_other = |cause: &String| {
                let mut heads = OF_ERRORS.iter().map(|(head, _)| head);
                heads.any(|head| head != own && cause.starts_with(head))
            };
            finding.causes.retain(|cause| !is_other(cause));
        }
        let of_link = OF_ONE_LINK.iter().find_map(|(sign, word)| {
            let is_it = |cause: &String| cause.contains(word);
            let is_named = finding.meaning.contains(sign);
            is_named.then(|| finding.causes.iter().position(is_it))?
        });
        if let Some(of_link) = of_link {
            finding.causes[..=of_link].rotate_right(1);
        }
    }
}

/// NCCL's line on a connection that it tries again, and how many make a peer that does not listen.
const RETRYING: &str = "tcpx-connect-retrying";
const RETRIES_MIN: u64 = 3;
const REFUSED: &str = "socket-connect-refused";
/// The peer in a line on a closed connection, where it is this host.
static ITSELF: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r" peer <?(?:localhost|127\.[\d.]+|::1)\b"));
const BY_HOST: &str = "the peer is this process itself: its one rank connects to its own listener over the loopback interface, so nothing of another process ended; a firewall or security software of the host closes such connections, or a limit on open files or memory is reached";
const LOOK_AT_HOST: &str = "look at the rules for the interface `lo` (`iptables -S`, `nft list ruleset`), at security software and at `ulimit -n`; set NCCL_SOCKET_IFNAME to another interface";

/// The same where a connection to the host itself fails.
const OWN_ADDRESS: &str = "all ranks of the job are on this host, so the address is its own: that of an alias, of one link only or of an interface that went down, or security software of the host closes such connections";
const USE_OTHER_INTERFACE: &str = "set NCCL_SOCKET_IFNAME=lo, or to another interface of the host that has an address (`ip -br address`); look at the firewall and at security software of the host";

impl Compose<'_> {
    /// Makes a finding of connections that were refused until their process gave up, where the log names no other cause:
    /// the processes that tried again have no communicator.
    pub(super) fn tell_of_refusals(&self, report: &mut LogReport) {
        let is_cause =
            |one: &SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
        let fails = |one: &SignatureFinding| one.severity < Severity::Warning;
        if report.findings.iter().any(is_cause) || !report.findings.iter().any(fails) {
            return;
        }
        let is_up = self.tally.most_ranks.is_some() || !self.tally.members.is_empty();
        let is_it = |one: &mut SignatureFinding| {
            one.signature == RETRYING && one.count >= RETRIES_MIN && !is_up
        };
        let refused = report.benign.extract_if(.., is_it);
        let refused = refused.map(|one| SignatureFinding {
            signature: REFUSED.to_owned(),
            severity: Severity::Error,
            role: Role::Cause,
            meaning: format!(
                "a peer refused the connection {} times or more, and no communicator came up",
                one.count
            ),
            causes: vec![
                "the peer's process has failed or has not started: no process listens at the address that it told"
                    .to_owned(),
                "the peer told an address of an interface that this node reaches at another host, or a firewall refuses the connection"
                    .to_owned(),
            ],
            next_step: Some(
                "read the logs of the other ranks up to this time for the one that failed first; set NCCL_SOCKET_IFNAME to the interface that all nodes share"
                    .to_owned(),
            ),
            ..one
        });
        report.findings.extend(refused);
    }

    /// Names the host's own address where all ranks that could not connect are on one host.
    pub(super) fn tell_of_own_address(&self, findings: &mut [SignatureFinding]) {
        let is_it = |one: &&mut SignatureFinding| one.signature == "socket-connect-failed";
        if self.one_host().is_none() {
            return;
        }
        for finding in findings.iter_mut().filter(is_it) {
            finding.causes.insert(0, OWN_ADDRESS.to_owned());
            finding.next_step = Some(USE_OTHER_INTERFACE.to_owned());
        }
    }

    /// Names the bridge of Docker where a process has its address there, and calls of its sockets failed: the ranks of
    /// other hosts do not reach it.
    pub(super) fn tell_of_bridge(&self, findings: &mut [SignatureFinding]) {
        if self.one_host().is_some() || self.is_of_one_node() {
            return;
        }
        let is_it = |one: &&mut SignatureFinding| {
            OF_CONNECTING.contains(&one.signature.as_str())
                && ON_BRIDGE.is_match(one.meaning.as_bytes())
        };
        for finding in findings.iter_mut().filter(is_it) {
            finding.causes.insert(0, OWN_BRIDGE.to_owned());
            finding.next_step = Some(LEAVE_BRIDGE.to_owned());
        }
    }

    /// Names the host where the one rank of a job loses a connection to itself.
    pub(super) fn tell_of_loopback(&self, findings: &mut [SignatureFinding]) {
        let is_alone = match self.tally.claims.listed_hosts() {
            Some((hosts, ranks)) => hosts.len() == 1 && ranks == 1,
            None => self.tally.most_ranks == Some(1),
        };
        let is_it = |one: &&mut SignatureFinding| {
            one.signature == PEER_CLOSED && ITSELF.is_match(one.sample.as_bytes())
        };
        for finding in findings.iter_mut().filter(|one| is_alone && is_it(one)) {
            finding.meaning =
                "a connection of this process to itself over the loopback interface was closed"
                    .to_owned();
            finding.causes = vec![BY_HOST.to_owned()];
            finding.next_step = Some(LOOK_AT_HOST.to_owned());
            finding.role = Role::Cause;
        }
    }

    /// One row per connection: the flow of one end is the mirrored flow of the other.
    pub(super) fn comms(&self) -> Vec<Comm> {
        let nics = self.nics();
        let mut comms = BTreeMap::<_, Comm>::new();
        let flows: BTreeMap<_, _> = self.tally.flows.iter().collect();
        for (key, flow) in flows {
            let (from, to) = if key.sends {
                (&key.local, &key.remote)
            } else {
                (&key.remote, &key.local)
            };
            let comm = comms.entry((from, to)).or_insert_with(|| Comm {
                from: address(from),
                to: address(to),
                sender: None,
                receiver: None,
                from_nic: None,
                to_nic: None,
                kind: "data",
                slow_at_sender: 0,
                slow_at_receiver: 0,
            });
            let nic = flow
                .nic
                .as_deref()
                .map(shown)
                .or_else(|| nics.get(&(key.speaker, key.local.0.clone())).cloned());
            self.add_end(comm, key, flow, nic);
        }
        comms.into_values().collect()
    }

    fn add_end(&self, comm: &mut Comm, key: &FlowKey, flow: &FlowSeen, nic: Option<String>) {
        if flow.is_control {
            comm.kind = "control";
        }
        if key.sends {
            comm.sender = Some(self.name(key.speaker));
            comm.from_nic = nic.or(comm.from_nic.take());
            comm.slow_at_sender += flow.slow;
        } else {
            comm.receiver = Some(self.name(key.speaker));
            comm.to_nic = nic.or(comm.to_nic.take());
            comm.slow_at_receiver += flow.slow;
        }
    }

    /// The interfaces of each process by address.
    fn nics(&self) -> BTreeMap<(u32, Address), String> {
        let all = self.tally.devices.iter();
        all.flat_map(|(speaker, (_, devices))| {
            devices
                .iter()
                .map(move |(name, ip)| ((*speaker, Address::new(ip)), shown(name)))
        })
        .collect()
    }

    /// Functions that log the same message from different source lines on different hosts.
    pub(super) fn builds(&self) -> Vec<BuildMismatch> {
        let mut by = BTreeMap::<(&Vec<u8>, u32), Hosts>::new();
        for ((signature, speaker), seen) in &self.tally.seen {
            let functions = seen.sites.iter().filter(|(site, _)| !is_file(site));
            for (function, lines) in functions {
                by.entry((function, *signature))
                    .or_default()
                    .entry(self.host(*speaker))
                    .or_default()
                    .extend(lines);
            }
        }
        // Several source lines may log the same message, so only disjoint sets differ.
        let differ = |hosts: &Hosts| {
            hosts
                .values()
                .any(|lines| hosts.values().any(|others| lines.is_disjoint(others)))
        };
        let mismatch = |((function, signature), hosts): ((&Vec<u8>, u32), Hosts)| BuildMismatch {
            function: shown(function),
            signature: self
                .catalogue
                .signatures
                .get(signature as usize)
                .map(|one| one.name.clone())
                .unwrap_or_default(),
            lines: hosts
                .into_iter()
                .map(|(host, lines)| (host, lines.into_iter().collect()))
                .collect(),
        };
        by.into_iter()
            .filter(|(_, hosts)| differ(hosts))
            .map(mismatch)
            .collect()
    }
}

fn address((ip, port): &(Address, u32)) -> String {
    match ip {
        Address::V4(ip) => format!("{ip}:{port}"),
        Address::Text(ip) => format!("{}:{port}", shown(ip)),
    }
}

/// Whether a site is a source file, as NCCL names it, and not a function of a plugin. Two
/// places of one file are not two builds.
fn is_file(site: &[u8]) -> bool {
    let ending = site
        .iter()
        .rposition(|byte| *byte == b'.')
        .map(|dot| &site[dot..]);
    matches!(
        ending,
        Some(b".c" | b".h" | b".cc" | b".cpp" | b".cu" | b".hpp")
    )
}
