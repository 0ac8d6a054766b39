//! Connections by both ends, and hosts whose builds of the plugin differ.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::report::{BuildMismatch, Comm, SignatureFinding};
use crate::tally::{Address, FlowKey, FlowSeen};
use std::collections::{BTreeMap, BTreeSet};

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

impl Compose<'_> {
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
