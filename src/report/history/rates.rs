//! The rate of every pair, rail and direction of runs and of other tools' results, one row each,
//! as CSV and as JSON lines, and the rails that became slower.
#![forbid(unsafe_code)]

use super::entry::started_in;
use crate::compare::{Measured, mann_whitney_p, quartiles};
use crate::csv::cell;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::ids::{NodeId, PairId};
use tcpx_run_model::record::{
    MeshAttribution, MeshCell, PairRecord, Role, RunRecord, TransferRecord,
};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;
use tcpx_words::units::printable;

/// The heads of the rows as CSV.
pub const RATE_COLUMNS: &str =
    "started,run,scenario,tool,from,to,rail,gpu,to_gpu,round,pair,again,outcome,gb_per_s";

/// The rate of one direction of one pair over one rail.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RateRow {
    /// RFC 3339, UTC.
    pub started: String,
    /// The run, or the name of the file.
    pub run: String,
    /// The scenario's name; the tool's, for a file of another tool.
    pub scenario: String,
    /// `tcpxctl`, or the tool that wrote the file.
    pub tool: String,
    /// The node that sent.
    pub from: String,
    /// The node that received; empty where the tool measured a node as a whole.
    pub to: String,
    /// The interface, several joined with `+`, or `all`.
    pub rail: String,
    /// The GPU that sent, if the lane is of GPUs.
    pub gpu: Option<u32>,
    /// The GPU that received.
    pub to_gpu: Option<u32>,
    /// The round of the mesh.
    pub round: Option<u32>,
    /// The number of the pair in its run.
    pub pair: Option<u32>,
    /// Whether the pair was measured again, because it was suspect.
    pub again: bool,
    /// `passed`, or how the pair ended; `measured` for a file of another tool.
    pub outcome: String,
    /// 10^9 bytes per second; `None` if the pair was not measured.
    pub gb_per_s: Option<f64>,
}

impl RateRow {
    /// The row as a line of CSV, with the columns of [`RATE_COLUMNS`].
    pub fn csv(&self) -> String {
        let number = |number: Option<u32>| number.map_or(String::new(), |one| one.to_string());
        let rate = self
            .gb_per_s
            .map_or(String::new(), |rate| format!("{rate:.6}"));
        [
            cell(&self.started),
            cell(&self.run),
            cell(&self.scenario),
            cell(&self.tool),
            cell(&self.from),
            cell(&self.to),
            cell(&self.rail),
            number(self.gpu),
            number(self.to_gpu),
            number(self.round),
            number(self.pair),
            self.again.to_string(),
            cell(&self.outcome),
            rate,
        ]
        .join(",")
    }

    /// The rows of a run: one for each direction of each lane, and one for each direction of a pair
    /// that failed before it measured.
    pub fn of_run(run: &RunRecord) -> Vec<Self> {
        let names = run.names();
        let first_retest = run.mesh.as_ref().and_then(|mesh| mesh.first_retest);
        let base = |id: PairId, pair: &PairRecord, [from, to]: [NodeId; 2]| Self {
            started: printable(&run.started),
            run: printable(&run.id),
            scenario: printable(&run.scenario.name),
            tool: "tcpxctl".to_owned(),
            from: names.node(from),
            to: names.node(to),
            rail: pair
                .rail
                .as_ref()
                .map_or("all".to_owned(), |rail| printable(&rail.nics[0])),
            gpu: None,
            to_gpu: None,
            round: pair.round,
            pair: Some(id.0),
            again: first_retest.is_some_and(|first| id >= first),
            outcome: pair.outcome.to_string(),
            gb_per_s: None,
        };
        let mut rows = Vec::new();
        let mut measured = BTreeSet::new();
        for transfer in &run.transfers {
            let Some(pair) = run.pairs.get(transfer.pair.index()) else {
                continue;
            };
            measured.insert((transfer.pair, transfer.from));
            let mut row = base(transfer.pair, pair, [transfer.from, transfer.to]);
            if pair.rail.is_none() {
                row.rail = interfaces(transfer);
            }
            let gpus = transfer.lane.gpus();
            row.gpu = gpus.map(|[gpu, _]| gpu);
            row.to_gpu = gpus.map(|[_, gpu]| gpu);
            let is_whole = pair.outcome == Outcome::Passed && transfer.iterations > 0;
            row.gb_per_s = is_whole.then_some(transfer.gb_per_s);
            rows.push(row);
        }
        for (id, pair) in (0..).map(PairId).zip(&run.pairs) {
            let [first, second] = pair.nodes;
            for (end, ends) in [[first, second], [second, first]].into_iter().enumerate() {
                let sends = pair.workers[end].role != Role::Recv;
                if sends && !measured.contains(&(id, ends[0])) {
                    rows.push(base(id, pair, ends));
                }
            }
        }
        rows
    }

    /// The rows of a result of another tool: of two nodes, one for each direction, because a
    /// collective of two moves as much either way; of more or fewer, one of all.
    pub fn of_file(measured: &Measured, modified: std::time::SystemTime) -> Vec<Self> {
        let written = jiff::Timestamp::try_from(modified).map(|at| format!("{at:.0}"));
        let base = Self {
            started: started_in(&measured.name).unwrap_or(written.unwrap_or_default()),
            run: printable(&measured.name),
            scenario: printable(&measured.tool),
            tool: printable(&measured.tool),
            rail: "all".to_owned(),
            outcome: super::MEASURED.to_owned(),
            ..Self::default()
        };
        if !measured.by_node.is_empty() {
            let row = |(node, rate): (&String, &f64)| Self {
                from: printable(node),
                gb_per_s: Some(*rate),
                ..base.clone()
            };
            return measured.by_node.iter().map(row).collect();
        }
        let rate = ["busbw", "rate", "average busbw"]
            .iter()
            .find_map(|name| measured.metrics.get(*name)?.median());
        let nodes: Vec<String> = measured.nodes.iter().map(|node| printable(node)).collect();
        let row = |from: &str, to: &str| Self {
            from: from.to_owned(),
            to: to.to_owned(),
            gb_per_s: rate,
            ..base.clone()
        };
        match nodes.as_slice() {
            [one, other] => vec![row(one, other), row(other, one)],
            nodes => vec![row(&nodes.join("+"), "")],
        }
    }
}

/// The interfaces of the sending end.
fn interfaces(transfer: &TransferRecord) -> String {
    let sends = transfer
        .channels
        .iter()
        .filter(|one| one.side == Side::Send);
    let names: BTreeSet<String> = sends.map(|one| printable(&one.dev)).collect();
    match names.is_empty() {
        true => "all".to_owned(),
        false => names.into_iter().collect::<Vec<_>>().join("+"),
    }
}

/// The rows that are of two nodes each, as a mesh.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateMesh {
    /// Its nodes, by name.
    pub nodes: Vec<String>,
    /// Its rails, by name.
    pub rails: Vec<String>,
    /// The first measurements, and those that were made again because of suspects.
    pub cells: [Vec<MeshCell>; 2],
}

impl RateMesh {
    /// The mesh of these rows, without those of a node as a whole.
    pub fn of<'a>(rows: impl Iterator<Item = &'a RateRow> + Clone) -> Self {
        let of_pairs = || {
            rows.clone()
                .filter(|row| !row.from.is_empty() && !row.to.is_empty())
        };
        let sorted = |names: BTreeSet<&String>| names.into_iter().cloned().collect::<Vec<String>>();
        let nodes = sorted(of_pairs().flat_map(|row| [&row.from, &row.to]).collect());
        let rails = sorted(of_pairs().map(|row| &row.rail).collect());
        let place = |names: &[String], name: &String| names.binary_search(name).ok();
        let cell = |row: &RateRow| {
            Some(MeshCell {
                from: NodeId(place(&nodes, &row.from)? as u32),
                to: NodeId(place(&nodes, &row.to)? as u32),
                rail: place(&rails, &row.rail)? as u32,
                gb_per_s: row.gb_per_s,
                segments: None,
            })
        };
        let (again, first): (Vec<&RateRow>, Vec<&RateRow>) = of_pairs().partition(|row| row.again);
        let cells = [first, again].map(|rows| rows.into_iter().filter_map(cell).collect());
        Self {
            nodes,
            rails,
            cells,
        }
    }

    /// What the rates say about nodes and rails; of two nodes neither is told apart.
    pub fn attribution(&self) -> Option<MeshAttribution> {
        let is_told = self.nodes.len() > 2;
        is_told.then(|| MeshAttribution::of(&self.cells, &self.nodes, &self.rails, &[]))
    }
}

/// What the rows say about nodes and rails, if they are of three nodes or more.
pub fn suspects_of(rows: &[RateRow]) -> Option<MeshAttribution> {
    RateMesh::of(rows.iter()).attribution()
}

/// A rail of a node, or the whole node, whose rate fell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowerRail {
    /// The scenario of the runs that are compared.
    pub scenario: String,
    /// The node.
    pub node: String,
    /// Its interface.
    pub rail: String,
    /// Start of the first run that counts as after.
    pub since: String,
    /// Number of runs before and after.
    pub runs: (usize, usize),
    /// Median of the runs before, 10^9 bytes per second.
    pub before_gb_per_s: f64,
    /// Median of the runs after.
    pub after_gb_per_s: f64,
    /// Relative change of the median: -0.2 is 20 % slower.
    pub change: f64,
    /// That this is chance; `None` with fewer than four runs on either side.
    pub p: Option<f64>,
}

/// A smaller fall is not told, and without a test a larger one is asked for.
const FALL_MIN: f64 = 0.05;
const FALL_MIN_UNTESTED: f64 = 0.10;
/// With fewer runs on either side no test can tell.
const RUNS_MIN: usize = 4;
const P_MAX: f64 = 0.05;

/// The rails that are slower in runs from `since` on than before, the largest fall first. A rail's
/// rate in a run is the median of all pairs that used it, in both directions, so that one bad
/// partner does not count.
pub fn slower_rails(rows: &[RateRow], since: &str) -> Vec<SlowerRail> {
    /// By scenario, node and rail, and then by run: scenarios have rates of their own.
    type Rails<'a> = BTreeMap<[&'a str; 3], BTreeMap<[&'a str; 2], Vec<f64>>>;
    let mut rails: Rails<'_> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.again) {
        let Some(rate) = row.gb_per_s else { continue };
        let ends = [&row.from, &row.to];
        for node in ends.into_iter().filter(|node| !node.is_empty()) {
            let runs = rails.entry([&row.scenario, node, &row.rail]).or_default();
            runs.entry([&row.started, &row.run]).or_default().push(rate);
        }
    }
    let slower = |([scenario, node, rail], runs): ([&str; 3], BTreeMap<[&str; 2], Vec<f64>>)| {
        let median = |rates: &[f64]| quartiles(rates).map(|[median, ..]| median);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut first_after = None;
        for ([started, _], rates) in &runs {
            let Some(rate) = median(rates) else { continue };
            if *started < since {
                before.push(rate);
            } else {
                first_after = first_after.or(Some(*started));
                after.push(rate);
            }
        }
        let (was, is) = (median(&before)?, median(&after)?);
        let is_tested = before.len().min(after.len()) >= RUNS_MIN;
        let p = is_tested.then(|| mann_whitney_p(&before, &after));
        let change = is / was - 1.0;
        let least = if is_tested {
            FALL_MIN
        } else {
            FALL_MIN_UNTESTED
        };
        let is_slower = was > 0.0 && -change > least && p.is_none_or(|p| p < P_MAX);
        is_slower.then(|| SlowerRail {
            scenario: scenario.to_owned(),
            node: node.to_owned(),
            rail: rail.to_owned(),
            since: first_after.unwrap_or(since).to_owned(),
            runs: (before.len(), after.len()),
            before_gb_per_s: was,
            after_gb_per_s: is,
            change,
            p,
        })
    };
    let mut slower: Vec<SlowerRail> = rails.into_iter().filter_map(slower).collect();
    slower.sort_by(|one, other| one.change.total_cmp(&other.change));
    slower
}

/// The start of the newer half of the runs: what `slower_rails` takes if no time is given.
pub fn newer_half(rows: &[RateRow]) -> Option<String> {
    let starts: BTreeSet<(&str, &str)> = rows
        .iter()
        .map(|row| (row.started.as_str(), row.run.as_str()))
        .collect();
    let middle = starts.len() / 2;
    let (started, _) = starts.into_iter().nth(middle).filter(|_| middle > 0)?;
    Some(started.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(day: u32, from: &str, to: &str, rail: &str, rate: f64) -> RateRow {
        RateRow {
            started: format!("2026-11-{day:02}T10:00:00Z"),
            run: format!("run{day}"),
            from: from.to_owned(),
            to: to.to_owned(),
            rail: rail.to_owned(),
            gb_per_s: Some(rate),
            ..RateRow::default()
        }
    }

    /// Ten days of four nodes with two rails; eth2 of a3-1 is at 60 % from day 6 on.
    fn ten_days() -> Vec<RateRow> {
        let nodes = ["a3-0", "a3-1", "a3-2", "a3-3"];
        let mut rows = Vec::new();
        for day in 1..=10 {
            for from in nodes {
                for to in nodes.into_iter().filter(|to| *to != from) {
                    for rail in ["eth1", "eth2"] {
                        let wobble = 1.0 + f64::from((day * 7 + rows.len() as u32 * 3) % 5) / 100.0;
                        let is_slow = day > 5 && rail == "eth2" && [from, to].contains(&"a3-1");
                        let share = if is_slow { 0.6 } else { 1.0 };
                        rows.push(row(day, from, to, rail, 10.0 * wobble * share));
                    }
                }
            }
        }
        rows
    }

    #[test]
    fn the_rail_that_became_slower_is_the_only_one_that_is_told() {
        let rows = ten_days();
        let since = newer_half(&rows).expect("several runs");
        assert_eq!(since, "2026-11-06T10:00:00Z");
        let [slower] = &slower_rails(&rows, &since)[..] else {
            panic!("{:?}", slower_rails(&rows, &since));
        };
        assert_eq!(
            (slower.node.as_str(), slower.rail.as_str()),
            ("a3-1", "eth2")
        );
        assert_eq!(
            (slower.runs, slower.since.as_str()),
            ((5, 5), since.as_str())
        );
        assert!((-0.45..-0.35).contains(&slower.change), "{slower:?}");
        assert!(
            slower_rails(&rows, "2026-11-20").is_empty(),
            "nothing after"
        );
        assert!(
            slower_rails(&rows[..24], "2026-11-01").is_empty(),
            "nothing before"
        );
    }

    #[test]
    fn runs_of_different_scenarios_are_not_compared() {
        let mut rows: Vec<RateRow> = (1..=4)
            .map(|day| row(day, "a", "b", "eth1", 20.0))
            .collect();
        rows.extend((5..=8).map(|day| RateRow {
            scenario: "latency".to_owned(),
            ..row(day, "a", "b", "eth1", 2.0)
        }));
        assert_eq!(slower_rails(&rows, "2026-11-05"), []);
    }

    #[test]
    fn files_of_two_nodes_each_are_a_mesh() {
        let nodes = ["a3-0", "a3-1", "a3-2", "a3-3", "a3-4"];
        let mut rows = Vec::new();
        for (at, one) in nodes.iter().enumerate() {
            for other in &nodes[at + 1..] {
                let mut measured = Measured {
                    name: format!("{one}_{other}_20261107_111638.log"),
                    tool: "nccl-tests".to_owned(),
                    nodes: vec![(*one).to_owned(), (*other).to_owned()],
                    ..Measured::default()
                };
                let share = if [one, other].contains(&&"a3-3") {
                    0.5
                } else {
                    1.0
                };
                let rate = share * (80.0 + rows.len() as f64 / 10.0);
                measured.metric("busbw", crate::compare::Metric::rate([rate]));
                rows.extend(RateRow::of_file(&measured, std::time::UNIX_EPOCH));
            }
        }
        assert_eq!(rows[0].started, "2026-11-07T11:16:38Z");
        assert_eq!(rows.len(), 20);
        let found = suspects_of(&rows).expect("a mesh");
        let words: Vec<&str> = found
            .findings
            .iter()
            .map(|one| one.words.as_str())
            .collect();
        assert_eq!(words, ["node a3-3 runs at 50 % of the others"]);
        assert_eq!(
            suspects_of(&rows[..2]),
            None,
            "of two nodes neither is told apart"
        );
    }

    #[test]
    fn a_row_has_as_many_cells_as_there_are_columns() {
        let row = row(1, "a3-0", "a,b", "eth1", 1.5);
        let line = row.csv();
        assert!(
            line.ends_with(",1.500000") && line.contains("\"a,b\""),
            "{line}"
        );
        assert_eq!(
            line.replace("\"a,b\"", "ab").split(',').count(),
            RATE_COLUMNS.split(',').count()
        );
    }
}
