//! Two nodes side by side: what must differ, what must be equal, and the results of
//! probing the rails between them.
#![forbid(unsafe_code)]

use super::evaluate::Subject;
use super::facts::DoctorFacts;
use super::view;
use crate::{Fact, Nic};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Variables that must be equal on both ends, because one end's value decides what the
/// other end reads.
const MUST_MATCH: [&str; 9] = [
    "NCCL_DYNAMIC_CHUNK_SIZE",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_INLINE_THRESHOLD",
    "NCCL_GPUDIRECTTCPX_RECV_SYNC",
    "NCCL_GPUDIRECTTCPX_CONNECTION_RETRY",
    "NCCL_P2P_NET_CHUNKSIZE",
    "UCCL_TCPX_CHUNK_BYTES",
    "UCCL_TCPX_NUM_CHANNELS",
];

/// The result of probing one rail, from one node to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedRail {
    /// The interface that sent the probes.
    pub name: String,
    /// The peer's address, which was probed.
    pub to: IpAddr,
    /// Whether a small packet came back.
    pub reachable: Fact<bool>,
    /// Whether a packet of the full MTU arrived unfragmented.
    pub full_mtu: Fact<bool>,
    /// Probed ports that did not accept a connection.
    pub ports_closed: Fact<Vec<u16>>,
}

/// The results of probing all rails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedRails {
    /// One result per rail.
    pub rails: Vec<ProbedRail>,
}

/// The document of `here`, with facts about both nodes under `pair`.
pub(super) fn document(
    here: &DoctorFacts,
    there: &DoctorFacts,
    tried: Option<&ProbedRails>,
    subject: Subject,
) -> Value {
    let (settings, environment) = differences(&here.node.environment, &there.node.environment);
    let mut document = view::document(here, subject);
    document["pair"] = json!({
        "two_nodes": here
            .node
            .host
            .is_same_stack(&there.node.host)
            .map_or_else(|| Fact::unknown("the boot id or the network namespace is unknown"), |same| Fact::Known(!same)),
        "shared_addresses": shared_addresses(here, there),
        "settings": settings,
        "environment": environment,
        "interfaces": interfaces(here, there, subject),
        "tried": tried,
    });
    document
}

/// Addresses that both nodes hold, except loopback and link-local ones.
fn shared_addresses(here: &DoctorFacts, there: &DoctorFacts) -> Fact<Vec<String>> {
    let global = |one: &IpAddr| match one {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let of = |facts: &DoctorFacts| -> Fact<BTreeSet<IpAddr>> {
        facts.node.nics.as_ref().and_then(|nics| {
            let held: Result<Vec<&Vec<IpAddr>>, String> = nics
                .iter()
                .filter(|nic| !is_container(nic))
                .map(|nic| {
                    nic.addresses
                        .known()
                        .ok_or_else(|| format!("the addresses of {} are unknown", nic.name))
                })
                .collect();
            Fact::from(held).map(|all| {
                all.into_iter()
                    .flatten()
                    .filter(|one| global(one))
                    .copied()
                    .collect()
            })
        })
    };
    of(here).and_then(|here| {
        of(there).map(|there| here.intersection(&there).map(ToString::to_string).collect())
    })
}

/// A container bridge has the same address on every node, which is harmless.
fn is_container(nic: &Nic) -> bool {
    nic.is_virtual
        && ["docker", "br-", "virbr", "cni"]
            .iter()
            .any(|prefix| nic.name.starts_with(prefix))
}

/// Variables that differ: those that must match, then the others.
fn differences(
    here: &BTreeMap<String, String>,
    there: &BTreeMap<String, String>,
) -> (Vec<String>, Vec<String>) {
    let (mut must_match, mut others) = (Vec::new(), Vec::new());
    let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    for name in names {
        let (value, peers) = (here.get(name), there.get(name));
        if value == peers || name.starts_with("TCPXCTL_") {
            continue;
        }
        let text = difference(name, value, peers, "unset");
        if MUST_MATCH.contains(&name.as_str()) {
            must_match.push(text);
        } else {
            others.push(text);
        }
    }
    (must_match, others)
}

fn difference(name: &str, here: Option<&String>, there: Option<&String>, absent: &str) -> String {
    let here = here.map_or(absent, String::as_str);
    let there = there.map_or(absent, String::as_str);
    format!("{name}: {here} here, {there} there")
}

/// Rails that only one node has, or that differ in MTU.
fn interfaces(here: &DoctorFacts, there: &DoctorFacts, subject: Subject) -> Fact<Vec<String>> {
    rail_mtus(here, subject).and_then(|here| {
        rail_mtus(there, subject).map(|there| {
            let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            names
                .into_iter()
                .filter(|name| here.get(*name) != there.get(*name))
                .map(|name| difference(name, here.get(name), there.get(name), "no rail"))
                .collect()
        })
    })
}

/// The MTU of each rail in words, by the name of the rail.
fn rail_mtus(facts: &DoctorFacts, subject: Subject) -> Fact<BTreeMap<String, String>> {
    facts.node.nics.as_ref().map(|_| {
        let mut mtus = BTreeMap::new();
        for nic in view::rails(facts, subject) {
            let mtu = match nic.mtu.known() {
                Some(mtu) => format!("MTU {mtu}"),
                None => "MTU unknown".to_owned(),
            };
            mtus.insert(nic.name.clone(), mtu);
        }
        mtus
    })
}
