//! Rails, channels and paths of one run compared with each other.
//!
//! A run that passes may still have lost packets.
#![forbid(unsafe_code)]

use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode};
use tcpx_run_model::counters::PathUse;
use tcpx_words::error::Outcome;

pub(super) const RULES: &[Rule] = &[retransmitted];

/// Retransmits that are reported, and their share of all segments. On a loaded machine without a
/// fault up to 0.3 % were seen.
const RETRANSMITS_MIN: u64 = 30;
const RETRANSMITTED_MIN: f64 = 0.007;
/// Most paths that are named.
const PATHS_MAX: usize = 8;

/// Whether the run has come to its end by itself, so that its totals can be compared.
fn has_ended(evidence: &Evidence) -> bool {
    matches!(evidence.outcome, Some(Outcome::Passed | Outcome::Failed))
}

fn paths(node: &EvidenceNode) -> impl Iterator<Item = &PathUse> {
    let network = node.network.as_ref();
    network
        .and_then(|network| network.paths.known())
        .into_iter()
        .flatten()
}

fn is_lossy(path: &PathUse) -> bool {
    path.retransmits >= RETRANSMITS_MIN
        && path.retransmits as f64 >= RETRANSMITTED_MIN * path.segments as f64
}

fn resent(node: &EvidenceNode, path: &PathUse) -> String {
    format!(
        "{}: {} of {} segments on {} -> {} were retransmitted",
        node.name(),
        path.retransmits,
        path.segments,
        path.local,
        path.peer
    )
}

fn retransmitted(evidence: &Evidence) -> Vec<Found> {
    if !has_ended(evidence) {
        return Vec::new();
    }
    let found = evidence.nodes.iter().flat_map(|node| {
        let lossy = paths(node).filter(|path| is_lossy(path)).take(PATHS_MAX);
        lossy.map(|path| {
            let fact = resent(node, path);
            Found::at(Condition::SegmentsRetransmitted, node, 0.8, fact)
        })
    });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use std::net::{IpAddr, SocketAddr};
    use tcpx_node::Fact;
    use tcpx_run_model::counters::{LatencyUs, NetworkUse};
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::SegmentsRetransmitted, loss_on_the_only_rail),
    ];

    /// A run over these channels: interface, latency of sends and of receives, round-trip time and
    /// retransmits at the sender.
    pub(crate) fn run(channels: &[(&str, [f64; 2], u32, u64)]) -> Evidence {
        let mut evidence = passed();
        let mut paths = Vec::new();
        for (end, node) in evidence.nodes.iter_mut().enumerate() {
            node.channels.clear();
            for (index, (nic, latencies, ..)) in channels.iter().enumerate() {
                let mut one = channel([Side::Send, Side::Recv][end], [192; 3], 10);
                (one.nic, one.watched, one.now.index) = ((*nic).into(), None, index);
                let p50 = latencies[end];
                one.now.latency_us = Some(LatencyUs {
                    p50,
                    p99: p50,
                    p999: p50,
                    max: p50,
                });
                let address = Some(SocketAddr::new(on(nic, 226), 4711).to_string());
                match one.now.side {
                    Side::Send => one.now.peer = address,
                    Side::Recv => one.now.local = address,
                }
                node.channels.push(one);
            }
        }
        for (nic, _, rtt_us, retransmits) in channels {
            paths.push(PathUse {
                local: on(nic, 25),
                peer: on(nic, 226),
                connections: 8,
                segments: 12_500,
                retransmits: *retransmits,
                rtt_us: Some(*rtt_us),
            });
        }
        paths.dedup_by_key(|path| path.peer);
        evidence.nodes[0].network = Some(NetworkUse {
            paths: Fact::Known(paths),
            drops: Vec::new(),
        });
        evidence
    }

    /// The address of a host on a rail.
    fn on(nic: &str, host: u8) -> IpAddr {
        let rail: u8 = nic.trim_start_matches("eth").parse().expect("eth1");
        IpAddr::from([192, 168, rail, host])
    }

    fn loss_on_the_only_rail() -> Evidence {
        run(&[("eth1", [9000.0, 20_000.0], 23_000, 124)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;

    #[test]
    fn rails_of_a_healthy_run_on_two_busy_cores_are_not_told_apart() {
        // Latencies and round trips of runs without a fault: one measure differs, no two agree.
        for channels in [
            [
                ("eth1", [3276.8, 13_107.2], 4546, 9),
                ("eth2", [13_107.2, 24_117.2], 7672, 9),
                ("eth3", [14_155.8, 24_117.2], 3990, 12),
                ("eth4", [39_845.9, 22_020.1], 3779, 17),
            ],
            [
                ("eth1", [4980.7, 14_155.8], 3384, 5),
                ("eth2", [19_922.9, 22_020.1], 2594, 10),
                ("eth3", [30_408.7, 26_214.4], 7448, 9),
                ("eth4", [28_311.6, 35_651.6], 4508, 38),
            ],
        ] {
            assert_eq!(diagnose(&cases::run(&channels)), []);
        }
    }
}
