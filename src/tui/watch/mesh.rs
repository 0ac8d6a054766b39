//! A mesh at this moment: a cell per pair of nodes and direction, and the parts that its rates
//! make suspect so far.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use tcpx_run_model::ids::{NodeId, PairId};
use tcpx_run_model::record::{
    MeshAttribution, MeshCell, MeshFinding, median_rate, node_groups, rail_names,
};
use tcpx_run_model::state::{PairProgress, RunState};

/// Time between two computations, by the events' clock.
const EVERY_MS: f64 = 500.0;
/// With more cells, suspects are not computed while the run goes on: it takes too long.
const CELLS_MAX: usize = 20_000;

/// A direction between two nodes over all rails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeshDirection {
    /// Whether one of its pairs runs.
    pub(crate) is_running: bool,
    /// The rate of each rail that was measured, and its share of the rail's median; `None` if the
    /// pair failed.
    pub(crate) rails: Vec<(u32, Option<(f64, f64)>)>,
}

/// What a cell shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DirectionNow {
    Waiting,
    Running,
    Failed,
    /// The smallest share of a rail.
    Share(f64),
}

impl MeshDirection {
    /// The rates of each rail, in the order in which they were measured.
    pub(crate) fn by_rail(&self) -> BTreeMap<u32, Vec<Option<(f64, f64)>>> {
        let mut rails = BTreeMap::<u32, Vec<Option<(f64, f64)>>>::new();
        for (rail, rate) in &self.rails {
            rails.entry(*rail).or_default().push(*rate);
        }
        rails
    }

    /// The worst of its rails.
    pub(crate) fn now(&self) -> DirectionNow {
        if self.rails.iter().any(|(_, rate)| rate.is_none()) {
            return DirectionNow::Failed;
        }
        if self.is_running {
            return DirectionNow::Running;
        }
        let shares = self
            .rails
            .iter()
            .filter_map(|(_, rate)| rate.map(|(_, share)| share));
        shares
            .reduce(f64::min)
            .map_or(DirectionNow::Waiting, DirectionNow::Share)
    }
}

/// The pairs of a mesh and their rates so far.
#[derive(Debug, Default)]
pub(crate) struct MeshNow {
    pub(crate) pairs: usize,
    /// Pairs that were measured or failed.
    pub(crate) ended: usize,
    pub(crate) failed: usize,
    pub(crate) running: usize,
    /// Median of all rates, GB/s.
    pub(crate) median: Option<f64>,
    pub(crate) directions: BTreeMap<(NodeId, NodeId), MeshDirection>,
    /// The name of each rail.
    pub(crate) rails: Vec<String>,
    /// Parts that are slow or dead so far, with those that were measured again as confirmed.
    pub(crate) suspects: Vec<MeshFinding>,
    computed_ms: Option<f64>,
}

impl MeshNow {
    /// Whether two nodes that meet have not begun.
    pub(crate) fn waits(&self, [from, to]: [NodeId; 2]) -> bool {
        let direction = self.directions.get(&(from, to));
        direction.is_some_and(|direction| direction.now() == DirectionNow::Waiting)
    }

    /// Computes the picture anew if it is old, or if the run is over.
    pub(crate) fn refresh(&mut self, state: &RunState, is_over: bool) {
        let is_fresh = |at: f64| state.now_ms - at < EVERY_MS;
        if !is_over && self.computed_ms.is_some_and(is_fresh) {
            return;
        }
        *self = Self::of(state, is_over);
    }

    fn of(state: &RunState, is_over: bool) -> Self {
        let mut now = Self {
            pairs: state.names.pairs.len(),
            computed_ms: Some(state.now_ms),
            rails: rail_names(
                state
                    .names
                    .pairs
                    .iter()
                    .filter_map(|pair| pair.rail.as_ref()),
            ),
            ..Self::default()
        };
        let (mut rates, mut again): (Vec<MeshCell>, Vec<MeshCell>) = Default::default();
        for (id, pair) in (0..).map(PairId).zip(&state.names.pairs) {
            let (progress, measured) = state.pair_rates(id, pair);
            now.ended += usize::from(progress >= PairProgress::Measured);
            now.failed += usize::from(progress == PairProgress::Failed);
            let is_running = progress == PairProgress::Running;
            now.running += usize::from(is_running);
            let [first, second] = pair.nodes;
            for ends in [(first, second), (second, first)] {
                let direction = now.directions.entry(ends).or_insert(MeshDirection {
                    is_running: false,
                    rails: Vec::new(),
                });
                direction.is_running |= is_running;
            }
            match state.first_retest.is_some_and(|first| id >= first) {
                true => again.extend(measured),
                false => rates.extend(measured),
            }
        }
        now.median = median_rate(&rates);
        let medians: Vec<Option<f64>> = (0..now.rails.len() as u32)
            .map(|rail| median_rate(rates.iter().filter(|one| one.rail == rail)))
            .collect();
        for cell in rates.iter().chain(&again) {
            let median = medians.get(cell.rail as usize).copied().flatten();
            let share = |rate: f64| match median.filter(|median| *median > 0.0) {
                Some(median) => rate / median,
                None => 0.0,
            };
            if let Some(direction) = now.directions.get_mut(&(cell.from, cell.to)) {
                let rate = cell.gb_per_s.map(|rate| (rate, share(rate)));
                direction.rails.push((cell.rail, rate));
            }
        }
        if is_over || rates.len() <= CELLS_MAX {
            now.suspects = suspects(state, [rates, again], &now.rails);
        }
        now
    }
}

fn suspects(state: &RunState, rates: [Vec<MeshCell>; 2], rails: &[String]) -> Vec<MeshFinding> {
    let facts = |node| state.node(node).and_then(|node| node.facts.as_deref());
    let groups = node_groups(&state.names, facts, &BTreeMap::new());
    let nodes = state.names.nodes.iter().map(|node| node.name.clone());
    let nodes: Vec<String> = nodes.collect();
    MeshAttribution::of(&rates, &nodes, rails, &groups).findings
}
