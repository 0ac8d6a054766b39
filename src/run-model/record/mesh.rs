//! What a run of a mesh measured: its rates, and which parts they make suspect.
//!
//! The findings are computed once, when the run ends, and kept in `run.json`: the table, reports,
//! `compare` and `history` show the same ones.
#![forbid(unsafe_code)]

use super::model::{PairRecord, RunRecord, TransferRecord};
use crate::ids::{Names, NodeId, PairId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use tcpx_fleet::attribute::{self, Attribution, Cell, Finding, Segments};
use tcpx_fleet::groups::Groups;
use tcpx_node::NodeFacts;
use tcpx_words::error::Outcome;

/// What of a mesh was not run, and what its rates say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// By node: the part of the network that it shares with others. Empty if no group is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Option<String>>,
    /// What differs between the nodes and may explain rates or failures, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What the program that started the agents of all nodes printed, such as srun or mpirun: its first
    /// lines, and whether it ended before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launcher_said: Vec<String>,
    /// Which parts are slow or dead, or lose segments. Records of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<MeshAttribution>,
}

/// A node that the run went on without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingNode {
    /// The node.
    pub node: NodeId,
    /// Why its agent did not start, in one sentence.
    pub reason: String,
}

/// What the rates of a mesh say about its parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshAttribution {
    /// The part that explains most first; dead ones before all others.
    pub findings: Vec<MeshFinding>,
    /// Parts that looked slow at first, and were not when they were measured again.
    pub cleared: Vec<MeshFinding>,
    /// How much the measurements scatter without any of this: 0.1 is 10 %.
    pub scatter: f64,
    /// Number of measurements with a rate, and without one.
    pub measured: usize,
    /// Number of measurements without a rate.
    pub missing: usize,
    /// The nodes that a confirmed finding names, or one of whose rails it names: what a scheduler
    /// should leave out.
    pub nodes_at_fault: Vec<NodeId>,
    /// The slowest directions, as a share of the median of all.
    pub slowest: Vec<SlowDirection>,
}

/// One part that is slow or dead, or loses segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeshFinding {
    /// One sentence: `rail eth3 of a3-7 sends at 61 % of the others`.
    pub words: String,
    /// The part; its indices are those of nodes, rails and, by name, of groups.
    #[serde(flatten)]
    pub finding: Finding,
}

/// One direction that is slower than most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlowDirection {
    /// The node that sent.
    pub from: NodeId,
    /// The node that received.
    pub to: NodeId,
    /// As in [`MeshCell`].
    pub rail: u32,
    /// 10^9 bytes per second.
    pub gb_per_s: f64,
    /// Its rate divided by the median of all.
    pub share: f64,
}

/// Most of the slowest directions that are kept.
const SLOWEST_MAX: usize = 20;

/// The rate from one node to another over a rail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
    /// TCP segments of the sender, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<Segments>,
}

impl From<&MeshCell> for Cell {
    fn from(cell: &MeshCell) -> Self {
        Self {
            from: cell.from.index(),
            to: cell.to.index(),
            rail: cell.rail as usize,
            gb_per_s: cell.gb_per_s,
            segments: cell.segments,
        }
    }
}

/// The part of a pair that its rates are read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshPair {
    /// The nodes of the two workers.
    pub nodes: [NodeId; 2],
    /// Whether the worker of each sends.
    pub sends: [bool; 2],
    /// The TCP segments that each sent, if they are known.
    pub segments: [Option<Segments>; 2],
    /// The number of its rail, 0 without one.
    pub rail: u32,
    /// The round of a mesh in which it measured.
    pub round: Option<u32>,
    /// Whether it passed.
    pub passed: bool,
    /// Whether a failure is one of its nodes or their network.
    pub was_tried: bool,
}

/// Whether a pair with this outcome says something about its nodes and their network.
pub fn was_tried(outcome: Outcome) -> bool {
    outcome != Outcome::Interrupted
}

impl From<&PairRecord> for MeshPair {
    fn from(pair: &PairRecord) -> Self {
        Self {
            nodes: pair.nodes,
            sends: [0, 1].map(|end| pair.workers[end].role != super::Role::Recv),
            segments: [0, 1].map(|end| pair.workers[end].network.as_ref()?.segments()),
            rail: pair.rail.as_ref().map_or(0, |rail| rail.number),
            round: pair.round,
            passed: pair.outcome == Outcome::Passed,
            was_tried: was_tried(pair.outcome),
        }
    }
}

/// The rate of each direction of these of the pairs in each round, in the order of the first pair of each.
/// Lanes that measured together are summed; two nodes that met again have another rate.
pub fn cells<'a>(
    pairs: &[MeshPair],
    transfers: impl IntoIterator<Item = &'a TransferRecord>,
    which: Range<usize>,
) -> Vec<MeshCell> {
    let mut places = BTreeMap::new();
    let mut cells: Vec<MeshCell> = Vec::new();
    let mut add = |from: NodeId, to: NodeId, pair: &MeshPair, rate: Option<f64>| {
        let MeshPair { rail, round, .. } = *pair;
        let place = *places.entry((from, to, rail, round)).or_insert_with(|| {
            let gb_per_s = Some(0.0);
            cells.push(MeshCell {
                from,
                to,
                rail,
                gb_per_s,
                segments: None,
            });
            cells.len() - 1
        });
        let sum = &mut cells[place].gb_per_s;
        *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
    };
    let of_these = |one: &&TransferRecord| which.contains(&one.pair.index());
    for transfer in transfers.into_iter().filter(of_these) {
        let Some(pair) = pairs
            .get(transfer.pair.index())
            .filter(|pair| pair.passed || pair.was_tried)
        else {
            continue;
        };
        let is_whole = pair.passed && transfer.iterations > 0;
        let rate = is_whole.then_some(transfer.gb_per_s);
        add(transfer.from, transfer.to, pair, rate);
    }
    let these = pairs.get(which).unwrap_or_default();
    let ways = |pair: &MeshPair| {
        let ([first, second], sends) = (pair.nodes, pair.sends);
        let ways = [(0, first, second), (1, second, first)];
        ways.into_iter().filter(move |(end, ..)| sends[*end])
    };
    // A pair that failed early has no transfer.
    for pair in these.iter().filter(|pair| !pair.passed && pair.was_tried) {
        ways(pair).for_each(|(_, from, to)| add(from, to, pair, None));
    }
    // Segments are those of the pair, which may have several lanes.
    for pair in these.iter().filter(|pair| pair.passed) {
        for (end, from, to) in ways(pair) {
            let place = places.get(&(from, to, pair.rail, pair.round));
            if let (Some(place), Some(more)) = (place, pair.segments[end]) {
                let segments = &mut cells[*place].segments;
                *segments = Some(segments.map_or(more, |known| known.and(more)));
            }
        }
    }
    cells
}

/// What these rates, and those of the retests, say.
pub fn attributed(
    rates: &[MeshCell],
    again: &[MeshCell],
    groups: &[Option<String>],
) -> Attribution {
    let [rates, again] =
        [rates, again].map(|cells| cells.iter().map(Cell::from).collect::<Vec<_>>());
    attribute::attribute(&rates, &again, &Groups::by_node(groups))
}

/// Least share of the fastest rail's median that a rail must reach so that rails do not differ.
const RAIL_SHARE_MIN: f64 = 0.5;

/// What is said where no part is found. `findings` are those of the transfers of the run, which compare the
/// rails of one pair.
pub fn nothing_found(
    cells: &[MeshCell],
    rails: &[String],
    scatter: f64,
    findings: &[crate::finding::Finding],
) -> String {
    if median_rate(cells).is_none() {
        return "No rate was measured, so no part can be compared with the others".to_owned();
    }
    let scatter = format!("rates scatter by {:.0} %", scatter * 100.0);
    let is_rail = |one: &crate::finding::Finding| one.condition == "rail-slower-than-others";
    if findings.iter().any(is_rail) {
        return format!(
            "No node or pair stands out, but a rail does within the pairs: see rail-slower-than-others; {scatter}"
        );
    }
    let of_rail = |rail: usize| cells.iter().filter(move |cell| cell.rail as usize == rail);
    let rates = rails
        .iter()
        .enumerate()
        .filter_map(|(rail, name)| Some((name, median_rate(of_rail(rail))?)));
    let best = rates.clone().map(|(_, rate)| rate).fold(0.0, f64::max);
    let (slow, fast): (Vec<_>, Vec<_>) = rates.partition(|(_, rate)| *rate < RAIL_SHARE_MIN * best);
    let listed = |rails: &[(&String, f64)]| {
        let one = |(name, rate): &(&String, f64)| format!("{name} {rate:.3} GB/s");
        rails.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    match slow.is_empty() {
        true => format!("No node, rail or pair stands out; {scatter}"),
        false => format!(
            "Rails differ: {} against {}; so many are slow that no single node, rail or pair explains it{}",
            listed(&slow),
            listed(&fast),
            within_rails((0..rails.len()).map(|rail| spread(of_rail(rail))))
        ),
    }
}

/// By how much the fastest rate of several is above the slowest; `None` if there are not two.
fn spread<'a>(cells: impl Iterator<Item = &'a MeshCell>) -> Option<f64> {
    let rates: Vec<f64> = cells.filter_map(|cell| cell.gb_per_s).collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    (rates.len() > 1 && lowest > 0.0).then(|| highest / lowest - 1.0)
}

/// Whether the rates of rails that differ are those of all their pairs: the widest spread in one rail.
fn within_rails(spreads: impl Iterator<Item = Option<f64>>) -> String {
    let widest = spreads.flatten().reduce(f64::max);
    widest.map_or_else(String::new, |widest| {
        let percent = widest * 100.0;
        format!("; within a rail, the fastest rate is at most {percent:.0} % above the slowest")
    })
}

impl MeshAttribution {
    /// The attribution with the names of the run's parts.
    pub fn of(
        [rates, again]: &[Vec<MeshCell>; 2],
        nodes: &[String],
        rails: &[String],
        groups: &[Option<String>],
    ) -> Self {
        let found = attributed(rates, again, groups);
        let groups = Groups::by_node(groups);
        let names = attribute::Names {
            nodes,
            rails,
            groups: &groups,
        };
        let at_fault = found.nodes_at_fault();
        let named = |findings: Vec<Finding>| {
            let named = |finding: Finding| MeshFinding {
                words: finding.words(&names),
                finding,
            };
            findings.into_iter().map(named).collect()
        };
        Self {
            findings: named(found.findings),
            cleared: named(found.cleared),
            scatter: found.scatter,
            measured: found.measured,
            missing: found.missing,
            nodes_at_fault: at_fault
                .into_iter()
                .map(|node| NodeId(node as u32))
                .collect(),
            slowest: slowest(rates),
        }
    }
}

/// The slowest directions over all rails, slowest first.
fn slowest(rates: &[MeshCell]) -> Vec<SlowDirection> {
    let mut slowest: Vec<SlowDirection> = Vec::new();
    if let Some(median) = median_rate(rates).filter(|median| *median > 0.0) {
        let slow = |cell: &MeshCell| {
            let gb_per_s = cell.gb_per_s?;
            Some(SlowDirection {
                from: cell.from,
                to: cell.to,
                rail: cell.rail,
                gb_per_s,
                share: gb_per_s / median,
            })
        };
        slowest.extend(rates.iter().filter_map(slow).filter(|one| one.share < 1.0));
    }
    slowest.sort_by(|one, other| one.share.total_cmp(&other.share));
    slowest.truncate(SLOWEST_MAX);
    slowest
}

/// The median of the rates; `None` if there is no rate.
pub fn median_rate<'a>(cells: impl IntoIterator<Item = &'a MeshCell>) -> Option<f64> {
    let mut rates: Vec<f64> = cells.into_iter().filter_map(|cell| cell.gb_per_s).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// The group of each node: that of the topology file, by its name, its address or its host name,
/// or, without such a file, what the cloud says of its physical host. Empty if no group is known.
pub fn node_groups<'a>(
    names: &Names,
    facts: impl Fn(NodeId) -> Option<&'a NodeFacts>,
    topology: &BTreeMap<String, String>,
) -> Vec<Option<String>> {
    let group = |(id, intro): (NodeId, &crate::ids::NodeIntro)| {
        let host = facts(id).map(|facts| &facts.host);
        if topology.is_empty() {
            let rack = host?.physical.as_deref()?.rsplit_once('/')?.0;
            return Some(rack.to_owned());
        }
        let by_host = host.and_then(|host| topology.get(host.name.known()?));
        let typed = topology
            .get(&intro.name)
            .or_else(|| topology.get(&intro.address));
        typed.or(by_host).cloned()
    };
    let groups: Vec<_> = (0..).map(NodeId).zip(&names.nodes).map(group).collect();
    if groups.iter().all(Option::is_none) {
        return Vec::new();
    }
    groups
}

impl RunRecord {
    /// The rates of a mesh, and those of the pairs that measured again what was suspect.
    pub fn rates(&self) -> [Vec<MeshCell>; 2] {
        let pairs: Vec<MeshPair> = self.pairs.iter().map(MeshPair::from).collect();
        let first = self.mesh.as_ref().and_then(|mesh| mesh.first_retest);
        rates(&pairs, &self.transfers, first)
    }

    /// The interface of each rail, on the first node that has it; `all` if rails were not measured
    /// by themselves.
    pub fn rail_names(&self) -> Vec<String> {
        rail_names(self.pairs.iter().filter_map(|pair| pair.rail.as_ref()))
    }

    /// What the rates of a mesh say: as the record has it, or, in one of an earlier version, computed.
    pub fn attribution(&self) -> Option<MeshAttribution> {
        let mesh = self.mesh.as_ref()?;
        if let Some(known) = &mesh.attribution {
            return Some(known.clone());
        }
        let names = self.names();
        let nodes = names.nodes.iter().map(|node| node.name.clone());
        Some(MeshAttribution::of(
            &self.rates(),
            &nodes.collect::<Vec<_>>(),
            &self.rail_names(),
            &mesh.groups,
        ))
    }

    /// Keeps what the rates of a mesh say in the record.
    pub fn attribute(&mut self) {
        let attribution = self.attribution();
        if let Some(mesh) = &mut self.mesh {
            mesh.attribution = attribution;
        }
    }
}

/// The rates of the pairs before the first retest, and from it on.
pub fn rates(
    pairs: &[MeshPair],
    transfers: &[TransferRecord],
    first_retest: Option<PairId>,
) -> [Vec<MeshCell>; 2] {
    let all = pairs.len();
    let first = first_retest.map_or(all, |pair| pair.index().min(all));
    [0..first, first..all].map(|which| cells(pairs, transfers, which))
}

/// The name of each rail: the interface of the first pair that has it.
pub fn rail_names<'a>(rails: impl IntoIterator<Item = &'a crate::ids::Rail>) -> Vec<String> {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for rail in rails {
        let name = || tcpx_words::units::printable(&rail.nics[0]);
        names.entry(rail.number).or_insert_with(name);
    }
    let last = names.keys().last().copied();
    let name = |number| names.get(&number).map_or("?", String::as_str).to_owned();
    last.map_or(vec![attribute::ALL_RAILS.to_owned()], |last| {
        (0..=last).map(name).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lane, Rail};
    use crate::record::{Role, WorkerRecord};
    use serde_json::json;

    #[test]
    fn slow_rails_are_named_where_no_part_stands_out() {
        let cell = |rail: u32, rate: f64| MeshCell {
            from: NodeId(0),
            to: NodeId(1),
            rail,
            gb_per_s: Some(rate),
            segments: None,
        };
        let rails = ["eth1", "eth2", "eth3", "eth4"].map(str::to_owned);
        let differ = [cell(0, 0.55), cell(1, 0.06), cell(2, 0.63), cell(3, 0.09)];
        let told = nothing_found(&differ, &rails, 3.3, &[]);
        assert_eq!(
            told,
            "Rails differ: eth2 0.060 GB/s, eth4 0.090 GB/s against eth1 0.550 GB/s, eth3 0.630 GB/s; \
             so many are slow that no single node, rail or pair explains it"
        );
        let [twice, more] = [cell(1, 0.06), cell(1, 0.075)];
        let told = nothing_found(&[cell(0, 0.55), twice, more], &rails, 3.3, &[]);
        let within = "; within a rail, the fastest rate is at most 25 % above the slowest";
        assert!(told.ends_with(within), "{told}");
        let still = [cell(0, 0.0), cell(1, 0.0), cell(2, 0.5)];
        let told = nothing_found(&still, &rails, 0.0, &[]);
        let slow = "Rails differ: eth1 0.000 GB/s, eth2 0.000 GB/s against eth3 0.500 GB/s;";
        assert!(told.starts_with(slow), "{told}");
        let alike = [cell(0, 0.55), cell(1, 0.54)];
        let told =
            |findings: &[crate::finding::Finding]| nothing_found(&alike, &rails, 0.01, findings);
        let nothing = "No node, rail or pair stands out; rates scatter by 1 %";
        assert_eq!(told(&[]), nothing);
        let finding = serde_json::from_value(json!({
            "condition": "rail-slower-than-others", "severity": "warning", "confidence": 0.9,
            "channel": null, "because": [], "cannot_see": [], "next_step": null, "reference": null,
        }));
        let told = told(&[finding.expect("a finding")]);
        assert!(told.contains("a rail does within the pairs"), "{told}");
        assert!(nothing_found(&[], &rails, 0.0, &[]).starts_with("No rate was measured"));
    }

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
        let parts: Vec<MeshPair> = pairs.iter().map(MeshPair::from).collect();
        cells(&parts, transfers, 0..pairs.len())
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

    #[test]
    fn segments_are_those_of_the_sender_once_for_all_lanes_of_a_pair() {
        let mut both = pair([0, 1], 0, Role::Both, Outcome::Passed);
        let path = json!({
            "local": "10.0.1.25", "peer": "10.0.0.226", "connections": 1, "segments": 540,
            "retransmits": 31, "duplicates": 1, "rtt_us": 400,
        });
        let network = json!({"paths": [path]});
        both.workers[1].network = serde_json::from_value(network).expect("paths");
        // Two lanes.
        let transfers = [(0, 1), (0, 1), (1, 0), (1, 0)];
        let transfers = transfers.map(|(from, to)| transfer(0, from, to, 2.0));
        let pairs = [both.clone(), both];
        let parts: Vec<MeshPair> = pairs.iter().map(MeshPair::from).collect();
        let segments = |which| -> Vec<(u32, Option<Segments>)> {
            let cells = cells(&parts, &transfers, which).into_iter();
            cells.map(|cell| (cell.from.0, cell.segments)).collect()
        };
        let (sent, lost) = (540, 30);
        let expected = [(0, None), (1, Some(Segments { sent, lost }))];
        assert_eq!(segments(0..1), expected);
    }

    #[test]
    fn nodes_that_met_three_times_have_three_rates() {
        let met = |round| PairRecord {
            round: Some(round),
            ..pair([0, 1], 0, Role::Send, Outcome::Passed)
        };
        let pairs = [met(7), met(8), met(9)];
        let transfers = [0, 1, 2].map(|pair| transfer(pair, 0, 1, 5.0 + f64::from(pair)));
        let expected = [5.0, 6.0, 7.0].map(|rate| (0, 1, 0, Some(rate)));
        assert_eq!(rates(&pairs, &transfers), expected);
    }

    /// Six nodes with two rails, of which one rail of node 4 sends at half of the rate.
    fn mesh_record() -> RunRecord {
        let text = json!({"schema": super::super::SCHEMA, "outcome": "passed"});
        let mut run = RunRecord::parse(text.to_string().as_bytes()).expect("a record");
        for node in 0..6 {
            let text = json!({"name": format!("a3-{node}"), "facts": null});
            run.nodes
                .push(serde_json::from_str(&text.to_string()).expect("a node"));
        }
        for (first, second) in
            (0..6).flat_map(|first| (first + 1..6).map(move |second| (first, second)))
        {
            for rail in 0..2 {
                let id = run.pairs.len() as u32;
                let mut one = pair([first, second], rail, Role::Both, Outcome::Passed);
                one.rail = one.rail.map(|rail| Rail {
                    nics: [rail.number + 1; 2].map(|number| format!("eth{number}")),
                    ..rail
                });
                run.pairs.push(one);
                for (from, to) in [(first, second), (second, first)] {
                    let wobble = 1.0 + f64::from((from * 7 + to * 3 + rail) % 5) / 250.0;
                    let share = if (from, rail) == (4, 1) { 0.5 } else { 1.0 };
                    run.transfers
                        .push(transfer(id, from, to, 10.0 * wobble * share));
                }
            }
        }
        run.mesh = Some(MeshRecord::default());
        run
    }

    #[test]
    fn the_record_keeps_what_its_rates_say() {
        let mut run = mesh_record();
        run.attribute();
        let bytes = serde_json::to_vec(&run).expect("JSON");
        let read = RunRecord::parse(&bytes).expect("a record");
        assert_eq!(read.mesh, run.mesh);
        let found = read.attribution().expect("a mesh");
        assert_eq!(
            found.findings[0].words,
            "rail eth2 of a3-4 sends at 50 % of the others"
        );
        let slowest = found.slowest[0];
        assert_eq!(
            (slowest.from, slowest.rail, found.slowest.len()),
            (NodeId(4), 1, 20)
        );
        assert!((0.45..0.55).contains(&slowest.share), "{slowest:?}");
        assert_eq!(found.nodes_at_fault, [], "it was not measured again");
    }

    #[test]
    fn groups_are_those_of_the_file_or_of_the_cloud() {
        let run = mesh_record();
        let none = |_| None;
        assert_eq!(node_groups(&run.names(), none, &BTreeMap::new()), []);
        let file = BTreeMap::from([("a3-1".to_owned(), "rack1".to_owned())]);
        let groups = node_groups(&run.names(), none, &file);
        assert_eq!(groups[..3], [None, Some("rack1".to_owned()), None]);
        let mut facts = NodeFacts::read(&tcpx_node::fixture::a3_high().root);
        facts.host.physical = Some("/block/rack2/host7".to_owned());
        let known = |node| (node == NodeId(0)).then_some(&facts);
        let groups = node_groups(&run.names(), known, &BTreeMap::new());
        assert_eq!(groups[..2], [Some("/block/rack2".to_owned()), None]);
        assert_eq!(
            node_groups(&run.names(), known, &file)[0],
            None,
            "the file is what counts"
        );
    }
}
