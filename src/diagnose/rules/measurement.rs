//! Measurements that do not mean what they appear to.
#![forbid(unsafe_code)]

use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, Moved};
use std::collections::BTreeSet;
use tcpx_words::error::Outcome;

pub(super) const RULES: &[Rule] = &[first_iteration, above_line_rate, logging];

fn first_iteration(evidence: &Evidence) -> Vec<Found> {
    let Some(scenario) = &evidence.scenario else {
        return Vec::new();
    };
    let counted = scenario.transfer.warmup == 0 && scenario.transfer.iterations == 1;
    if !counted || evidence.moved.iter().all(|moved| moved.seconds <= 0.0) {
        return Vec::new();
    }
    vec![Found::of_transfer(
        Condition::FirstIterationCounted,
        1.0,
        "warmup = 0 and iterations = 1: only the first iteration is measured",
    )]
}

/// A rate above the sum of the NICs by more than this factor is not a rounding error.
const MARGIN: f64 = 1.1;

fn above_line_rate(evidence: &Evidence) -> Vec<Found> {
    evidence
        .moved
        .iter()
        .filter_map(|moved| too_fast(evidence, moved))
        .collect()
}

fn too_fast(evidence: &Evidence, moved: &Moved) -> Option<Found> {
    let rate = (moved.seconds > 0.0).then(|| moved.bytes as f64 / moved.seconds / 1e9)?;
    let worker = |node| {
        let is =
            |one: &&EvidenceNode| one.subject.node == node && one.subject.pair == Some(moved.pair);
        evidence.nodes.iter().find(is)
    };
    let (from, node) = (worker(moved.from), worker(moved.to)?);
    let most = line_rate(node)?;
    (rate > most * MARGIN).then(|| {
        Found::at(
            Condition::RateAboveLineRate,
            node,
            0.95,
            format!(
                "{} -> {}: {rate:.1} GB/s, but the NICs in use carry {most:.1} GB/s at most",
                from.map_or("its peer", EvidenceNode::name),
                node.name()
            ),
        )
    })
}

/// 10^9 bytes per second of all NICs in use; `None` if the speed of one is unknown.
fn line_rate(node: &EvidenceNode) -> Option<f64> {
    let nics = &node.machine.as_ref()?.nics;
    let used: BTreeSet<&str> = node
        .channels
        .iter()
        .map(|channel| channel.nic.as_str())
        .collect();
    let speed = |name: &&str| nics.iter().find(|nic| nic.name == **name)?.mbit_per_s;
    let speeds: Option<Vec<u32>> = used.iter().map(speed).collect();
    // The speed that a virtual interface reports means nothing.
    let is_virtual = |name: &&str| {
        nics.iter()
            .any(|nic| nic.name == **name && nic.pci_root.is_none())
    };
    if used.is_empty() || used.iter().any(is_virtual) {
        return None;
    }
    Some(speeds?.iter().map(|mbit| f64::from(*mbit)).sum::<f64>() / 8000.0)
}

/// Lines per second below which logging does not slow a transfer: at about 20 us each, this
/// many take a tenth of a core.
const LINES_PER_S: f64 = 5000.0;
/// Lines that a plugin may log while one comm is made and closed.
const LINES_OF_A_COMM: u64 = 100;

fn logging(evidence: &Evidence) -> Vec<Found> {
    // A plugin that makes no progress may log at every test. Of a run whose events were cut, neither
    // the finished requests nor the time are known.
    if evidence
        .outcome
        .is_some_and(|outcome| outcome != Outcome::Passed)
        || evidence.standing().next().is_some()
        || !evidence.damaged.is_empty()
    {
        return Vec::new();
    }
    let found = evidence.nodes.iter().filter_map(|node| {
        let lines = node
            .logged
            .filter(|lines| *lines as f64 >= LINES_PER_S * evidence.now_ms / 1e3)?;
        let done = node
            .channels
            .iter()
            .fold(0u64, |sum, channel| sum.saturating_add(channel.now.done));
        let set_up = LINES_OF_A_COMM.saturating_mul(node.channels.len() as u64);
        (done > 0 && lines > done.saturating_add(set_up)).then(|| {
            let why = format!(
                "{}: the plugin wrote {lines} lines below WARN for {done} finished requests",
                node.name()
            );
            Found::at(Condition::SlowBecauseOfLogging, node, 0.7, why)
                .unseen("the cost of each line: compare with the same run at NCCL_DEBUG=WARN")
        })
    });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_run_model::ids::{NodeId, PairId};

    pub(crate) const CASES: &[Case] = &[
        (Condition::RateAboveLineRate, too_fast),
        (Condition::SlowBecauseOfLogging, chatty),
    ];

    fn too_fast() -> Evidence {
        let mut evidence = passed();
        evidence.nodes[1].machine = Some(machine(&[]));
        evidence.moved = vec![Moved {
            pair: PairId(0),
            from: NodeId(0),
            to: NodeId(1),
            bytes: 40_000_000_000,
            seconds: 1.0,
        }];
        evidence
    }

    #[test]
    fn a_run_whose_finished_requests_are_not_known_is_not_slow_because_of_logging() {
        assert_eq!(logging(&chatty()).len(), 1);
        let mut cut = chatty();
        cut.damaged = vec!["events.jsonl ends after 0.0 s of the 3.7 s of the run".into()];
        assert_eq!(logging(&cut), []);
        let mut without_counters = chatty();
        without_counters.nodes[1].channels.clear();
        assert_eq!(logging(&without_counters), []);
    }

    fn chatty() -> Evidence {
        let mut evidence = passed();
        evidence.nodes[1].logged = Some(90_000);
        evidence
    }
}
