//! What a run of a mesh measured, as a table of rates.
#![forbid(unsafe_code)]

use super::model::{PairRecord, RunRecord, TransferRecord};
use crate::ids::{NodeId, PairId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use tcpx_words::error::Outcome;

/// What of a mesh was not run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshRecord {
    /// The nodes whose agents did not start.
    pub missing: Vec<MissingNode>,
    /// Rounds that were not started, because the budget was used up or the run interrupted.
    pub rounds_left_out: usize,
    /// Their pairs.
    pub pairs_left_out: usize,
    /// The first pair that measured again what was suspect; so did all pairs after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_retest: Option<PairId>,
}

/// A node that the run went on without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingNode {
    /// The node.
    pub node: NodeId,
    /// Why its agent did not start, in one sentence.
    pub reason: String,
}

/// The rate from one node to another over a rail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeshCell {
    /// The node that sent.
    pub from: NodeId,
    /// The node that received.
    pub to: NodeId,
    /// Place of the rail in the lists of interfaces, from 0; 0 where rails were not measured by
    /// themselves.
    pub rail: u32,
    /// Sum of the lanes; `None` if a pair failed.
    pub gb_per_s: Option<f64>,
}

/// The rate of each direction of these of the pairs, in the order of the first pair of each.
pub fn cells(
    pairs: &[PairRecord],
    transfers: &[TransferRecord],
    which: Range<usize>,
) -> Vec<MeshCell> {
    let mut places = BTreeMap::new();
    let mut cells: Vec<MeshCell> = Vec::new();
    let mut add = |from: NodeId, to: NodeId, rail: u32, rate: Option<f64>| {
        let place = *places.entry((from, to, rail)).or_insert_with(|| {
            let gb_per_s = Some(0.0);
            cells.push(MeshCell {
                from,
                to,
                rail,
                gb_per_s,
            });
            cells.len() - 1
        });
        let sum = &mut cells[place].gb_per_s;
        *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
    };
    let rail = |pair: &PairRecord| pair.rail.as_ref().map_or(0, |rail| rail.number);
    let of_these = |one: &&TransferRecord| which.contains(&one.pair.index());
    for transfer in transfers.iter().filter(of_these) {
        let Some(pair) = pairs.get(transfer.pair.index()) else {
            continue;
        };
        let is_whole = pair.outcome == Outcome::Passed && transfer.iterations > 0;
        let rate = is_whole.then_some(transfer.gb_per_s);
        add(transfer.from, transfer.to, rail(pair), rate);
    }
    // A pair that failed early has no transfer.
    let these = pairs.get(which).unwrap_or_default();
    for pair in these.iter().filter(|pair| pair.outcome != Outcome::Passed) {
        let [first, second] = pair.nodes;
        for (from, to) in [(first, second), (second, first)] {
            let role = &pair.workers[usize::from(from == second)].role;
            if *role != super::Role::Recv {
                add(from, to, rail(pair), None);
            }
        }
    }
    cells
}

impl RunRecord {
    /// The rates of a mesh, and those of the pairs that measured again what was suspect.
    pub fn rates(&self) -> [Vec<MeshCell>; 2] {
        let mesh = self.mesh.as_ref();
        let all = self.pairs.len();
        let first = mesh.and_then(|mesh| mesh.first_retest);
        let first = first.map_or(all, |pair| pair.index().min(all));
        [0..first, first..all].map(|which| cells(&self.pairs, &self.transfers, which))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lane, Rail};
    use crate::record::{Role, WorkerRecord};
    use serde_json::json;

    fn pair(nodes: [u32; 2], rail: u32, role: Role, outcome: Outcome) -> PairRecord {
        let worker = |role| WorkerRecord {
            role,
            ..WorkerRecord::default()
        };
        let other = match role {
            Role::Send => Role::Recv,
            Role::Recv => Role::Send,
            Role::Both => Role::Both,
        };
        PairRecord {
            nodes: nodes.map(NodeId),
            lanes: vec![Lane::Host],
            rail: Some(Rail {
                number: rail,
                nics: ["eth1", "eth1"].map(str::to_owned),
            }),
            round: None,
            outcome,
            reason: None,
            workers: [worker(role), worker(other)],
        }
    }

    fn transfer(pair: u32, from: u32, to: u32, rate: f64) -> TransferRecord {
        let text = json!({
            "pair": PairId(pair), "from": from, "to": to, "lane": Lane::Host, "bytes": 1,
            "verified_bytes": 1, "wrong_bytes": 0, "seconds": 1.0, "gb_per_s": rate,
            "median_gb_per_s": rate, "iterations": 3, "first_iteration_seconds": null,
            "iteration_seconds": [], "round_trip_us": null, "mismatches": [], "channels": [],
        });
        serde_json::from_str(&text.to_string()).expect("a transfer")
    }

    fn rates(
        pairs: &[PairRecord],
        transfers: &[TransferRecord],
    ) -> Vec<(u32, u32, u32, Option<f64>)> {
        let cell = |one: MeshCell| (one.from.0, one.to.0, one.rail, one.gb_per_s);
        cells(pairs, transfers, 0..pairs.len())
            .into_iter()
            .map(cell)
            .collect()
    }

    #[test]
    fn lanes_of_one_rail_are_summed_and_a_failed_pair_has_no_rate() {
        let passed = |rail| pair([0, 1], rail, Role::Send, Outcome::Passed);
        let pairs = [passed(0), passed(0), passed(1)];
        let transfers = [
            transfer(0, 0, 1, 2.0),
            transfer(1, 0, 1, 3.0),
            transfer(2, 0, 1, 4.0),
        ];
        let whole = [(0, 1, 0, Some(5.0)), (0, 1, 1, Some(4.0))];
        assert_eq!(rates(&pairs, &transfers), whole);
        let broken = [
            passed(0),
            pair([0, 1], 0, Role::Send, Outcome::Stalled),
            pair([2, 0], 1, Role::Both, Outcome::PeerLost),
        ];
        let expected = [(0, 1, 0, None), (2, 0, 1, None), (0, 2, 1, None)];
        assert_eq!(rates(&broken, &transfers[..1]), expected);
    }
}
