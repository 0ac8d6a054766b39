//! The nodes and rounds of a mesh, and the table of what it measured.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::launcher::LauncherArguments;
use super::nodes::Nodes;
use super::output::Columns;
use super::run_table::together;
use clap::Args;
use std::collections::BTreeMap;
use tcpx_coord::reach::Transport;
use tcpx_coord::{OnFailure, WORKERS_MAX, one_pair};
use tcpx_fleet::attribute::{Attribution, Cell, Names as PartNames, attribute, retests};
use tcpx_fleet::groups::Groups;
use tcpx_fleet::schedule::{self, Round};
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::record::{MeshCell, RunRecord};
use tcpx_run_model::scenario::{Mesh, Rails, Rounds, Scenario};
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

/// The nodes of a mesh.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct MeshArguments {
    /// Nodes of a mesh: a list such as node_ips/tcpx.txt, or names such as a3-[0-15].
    #[arg(long, value_name = "FILE|NAMES", conflicts_with_all = ["peer", "join", "from"])]
    hosts: Option<String>,
    /// Go on without up to K nodes that cannot be reached.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) allow_missing: usize,
    #[command(flatten)]
    launcher: LauncherArguments,
}

/// The nodes of a run, and which of them transfer with which, by rounds.
pub(crate) struct Meeting {
    pub(crate) transports: Vec<Box<dyn Transport>>,
    pub(crate) rounds: Vec<Vec<[usize; 2]>>,
    pub(crate) on_failure: OnFailure,
    /// The launcher and where its nodes come from.
    launcher: Option<String>,
}

impl MeshArguments {
    /// Two nodes, or those of the mesh.
    pub(crate) fn meeting(&self, nodes: &Nodes, scenario: &Scenario) -> Result<Meeting, Failure> {
        let named = self.hosts.is_some() || self.launcher.names_nodes();
        let mesh = match &scenario.mesh {
            Some(mesh) => mesh,
            None if !named => {
                return Ok(Meeting {
                    transports: nodes.transports()?.into(),
                    rounds: one_pair(),
                    on_failure: OnFailure::StopAll,
                    launcher: None,
                });
            }
            None => {
                let message = "the nodes of a mesh are named, and the scenario has no [mesh]";
                return Err(Failure::new(Outcome::Usage, message)
                    .next("run scenarios/mesh.toml, or add --set mesh.pattern=pairs"));
            }
        };
        let (transports, launcher) = self.launcher.reached(nodes, self.hosts.as_deref())?;
        if transports.len() < 2 {
            let message = "a mesh needs two nodes or more, and one is named";
            return Err(Failure::new(Outcome::Usage, message));
        }
        let rounds = rounds(mesh, transports.len());
        if let Some((node, pairs)) = rounds.iter().find_map(|round| overloaded(round)) {
            let message = format!(
                "{} would take part in {pairs} pairs at once, and a node runs at most {WORKERS_MAX} workers",
                transports[node].node()
            );
            return Err(Failure::new(Outcome::Usage, message)
                .next("name fewer nodes, or run the rounds one by one: mesh.pattern=pairs, mesh.rounds=isolated"));
        }
        Ok(Meeting {
            rounds,
            transports,
            on_failure: OnFailure::GoOn,
            launcher,
        })
    }
}

/// The pairs of each round. The first node is the one of `one-to-many` and `many-to-one`.
fn rounds(mesh: &Mesh, nodes: usize) -> Vec<Vec<[usize; 2]>> {
    // The same nodes meet in the same order in every run, so that runs can be compared.
    let rounds = schedule::rounds(mesh.pattern, nodes, 0, 0);
    match mesh.rounds {
        Rounds::Isolated => rounds.iter().map(pairs).collect(),
        Rounds::Loaded => vec![rounds.iter().flat_map(pairs).collect()],
    }
}

/// A node with more pairs in a round than it runs workers, and how many.
fn overloaded(round: &[[usize; 2]]) -> Option<(usize, usize)> {
    let mut pairs_of = BTreeMap::new();
    for node in round.iter().flatten() {
        *pairs_of.entry(*node).or_insert(0) += 1;
    }
    pairs_of.into_iter().find(|(_, pairs)| *pairs > WORKERS_MAX)
}

fn pairs(round: &Round) -> Vec<[usize; 2]> {
    let pair = |meeting: &schedule::Meeting| [meeting.from, meeting.to];
    round.meetings.iter().map(pair).collect()
}

/// Most pairs of nodes that are measured again.
const RETESTS_MAX: usize = 64;

/// The rounds that measure again what these rates make suspect.
pub(crate) fn retest_rounds(rates: &[MeshCell], nodes: usize) -> Vec<Vec<[usize; 2]>> {
    let groups = Groups::default();
    let found = attribute(&parts(rates), &[], &groups);
    let meetings = retests(&found, nodes, &groups, RETESTS_MAX);
    schedule::disjoint(&meetings).iter().map(pairs).collect()
}

/// What the rates of a mesh say about its nodes and rails.
fn attributed(run: &RunRecord) -> Attribution {
    let [first, again] = run.rates();
    attribute(&parts(&first), &parts(&again), &Groups::default())
}

fn parts(rates: &[MeshCell]) -> Vec<Cell> {
    let part = |rate: &MeshCell| Cell {
        from: rate.from.index(),
        to: rate.to.index(),
        rail: rate.rail as usize,
        gb_per_s: rate.gb_per_s,
    };
    rates.iter().map(part).collect()
}

/// The line of the header that describes a mesh.
pub(crate) fn header(mesh: &Mesh, meeting: &Meeting) -> String {
    let rails = match &mesh.rails {
        Rails::Each => "each rail by itself".to_owned(),
        Rails::All => "all rails at once".to_owned(),
        Rails::List(nics) => format!("{} by itself", nics.join(", ")),
    };
    let pairs: usize = meeting.rounds.iter().map(Vec::len).sum();
    let launcher = meeting.launcher.as_ref();
    let launcher = launcher.map(|launcher| format!("# Launcher : {launcher}\n"));
    format!(
        "{}# Mesh of {} nodes : {}, {} in {} ({}), {rails}\n",
        launcher.unwrap_or_default(),
        meeting.transports.len(),
        mesh.pattern,
        counted(pairs, "pair"),
        counted(meeting.rounds.len(), "round"),
        mesh.rounds,
    )
}

/// Most of the slowest directions that the table lists.
const SLOWEST_MAX: usize = 5;

/// The rates of a mesh: a line per rail, the slowest directions, and what failed or was not run.
pub(crate) fn table(run: &RunRecord) -> String {
    let [cells, _] = run.rates();
    let names = run.names();
    let mut rails: Vec<u32> = cells.iter().map(|cell| cell.rail).collect();
    rails.sort_unstable();
    rails.dedup();
    let mut columns = Columns::new(&["rail", "directions", "failed", "median", "min", "max"]);
    let mut slowest: Vec<(f64, MeshCell)> = Vec::new();
    for rail in rails {
        let of_rail = || cells.iter().filter(move |cell| cell.rail == rail);
        let mut rates: Vec<f64> = of_rail().filter_map(|cell| cell.gb_per_s).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied();
        let shown = |rate: Option<&f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.3}"));
        columns.row([
            rail_name(run, rail),
            of_rail().count().to_string(),
            of_rail()
                .filter(|cell| cell.gb_per_s.is_none())
                .count()
                .to_string(),
            shown(median.as_ref()),
            shown(rates.first()),
            shown(rates.last()),
        ]);
    }
    let mut rates: Vec<f64> = cells.iter().filter_map(|cell| cell.gb_per_s).collect();
    rates.sort_by(f64::total_cmp);
    if let Some(&median) = rates.get(rates.len() / 2).filter(|median| **median > 0.0) {
        let share = |cell: &'_ MeshCell| Some((cell.gb_per_s? / median, *cell));
        slowest.extend(cells.iter().filter_map(share));
    }
    let mut text = format!("#\n{}", columns.render());
    slowest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let direction = |cell: &MeshCell| {
        let (from, to) = (names.node(cell.from), names.node(cell.to));
        format!("{from} -> {to} {}", rail_name(run, cell.rail))
    };
    text.push_str(&suspects(run));
    text.push_str("# Slowest directions, as a share of the median\n");
    for (ratio, cell) in slowest.iter().take(SLOWEST_MAX) {
        text.push_str(&format!(
            "#   {} : {:.3} GB/s, {:.0} %\n",
            direction(cell),
            cell.gb_per_s.unwrap_or_default(),
            ratio * 100.0
        ));
    }
    for pair in run
        .pairs
        .iter()
        .filter(|pair| pair.outcome != Outcome::Passed)
    {
        let [first, second] = pair.nodes.map(|node| names.node(node));
        let rail = pair.rail.as_ref().map(|rail| format!(" {rail}"));
        let reason = pair.reason.as_ref().map(|reason| format!(", {reason}"));
        text.push_str(&format!(
            "# Failed : {first} with {second}{} : {}{}\n",
            rail.unwrap_or_default(),
            pair.outcome,
            reason.unwrap_or_default()
        ));
    }
    text.push_str(&together(run, &names));
    text.push_str(&not_run(run));
    text
}

/// The parts that explain what is slow or failed: those that were measured again, then the others.
fn suspects(run: &RunRecord) -> String {
    let found = attributed(run);
    let names = run.names();
    let nodes: Vec<String> = (0..run.nodes.len() as u32)
        .map(|node| names.node(NodeId(node)))
        .collect();
    let rails: Vec<String> = (0..=run.rates()[0]
        .iter()
        .map(|cell| cell.rail)
        .max()
        .unwrap_or(0))
        .map(|rail| rail_name(run, rail))
        .collect();
    let groups = Groups::default();
    let parts = PartNames {
        nodes: &nodes,
        rails: &rails,
        groups: &groups,
    };
    if found.findings.is_empty() {
        let scatter = found.scatter * 100.0;
        return format!(
            "#\n# No node, rail or pair stands out; rates scatter by {scatter:.0} %\n#\n"
        );
    }
    let mut text = String::from("#\n");
    for finding in &found.findings {
        text.push_str(&format!(
            "# {} : {}\n",
            finding.standing,
            finding.words(&parts)
        ));
    }
    text.push_str("#\n");
    text
}

/// The interface of the rail on the first node that has it.
fn rail_name(run: &RunRecord, rail: u32) -> String {
    let rails = run.pairs.iter().filter_map(|pair| pair.rail.as_ref());
    let mut of_number = rails.filter(|one| one.number == rail);
    of_number
        .next()
        .map_or("all".to_owned(), |rail| rail.nics[0].clone())
}

fn without_name<'a>(reason: &'a str, node: &str) -> &'a str {
    let rest = reason
        .strip_prefix(node)
        .and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(reason)
}

fn not_run(run: &RunRecord) -> String {
    let Some(mesh) = &run.mesh else {
        return String::new();
    };
    let names = run.names();
    let mut text = String::new();
    for missing in &mesh.missing {
        let node = names.node(missing.node);
        // The reason begins with the name as it was typed.
        text.push_str(&format!(
            "# Missing : {node}: {}\n",
            without_name(&missing.reason, &node)
        ));
    }
    if mesh.rounds_left_out > 0 {
        text.push_str(&format!(
            "# Left out : {} rounds with {} pairs, because the budget was used up or the run interrupted\n",
            mesh.rounds_left_out, mesh.pairs_left_out
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_node_is_measured_again_with_good_partners() {
        let nodes = 8;
        let slow = NodeId(3);
        let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        let rate = |(from, to): (u32, u32)| {
            let (from, to) = (NodeId(from), NodeId(to));
            // A scatter of 1 % that no part explains.
            let scatter = 1.0 + f64::from((from.0 * 7 + to.0 * 3) % 5) / 250.0;
            let share = if from == slow || to == slow { 0.5 } else { 1.0 };
            MeshCell {
                from,
                to,
                rail: 0,
                gb_per_s: Some(10.0 * share * scatter),
            }
        };
        let rates: Vec<MeshCell> = all.filter(|(from, to)| from != to).map(rate).collect();
        let again: Vec<[usize; 2]> = retest_rounds(&rates, 8).into_iter().flatten().collect();
        assert!(!again.is_empty());
        assert!(again.iter().all(|pair| pair.contains(&3)), "{again:?}");
        let healthy = |rate: &MeshCell| rate.from != slow && rate.to != slow;
        let rates: Vec<MeshCell> = rates.into_iter().filter(healthy).collect();
        assert_eq!(retest_rounds(&rates, 8), Vec::<Vec<[usize; 2]>>::new());
    }
}
