//! The nodes and rounds of a mesh, and the table of what it measured.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::launcher::LauncherArguments;
use super::nodes::Nodes;
use super::output::Columns;
use super::run_table::{kv, together};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use tcpx_coord::reach::Transport;
use tcpx_coord::{OnFailure, WORKERS_MAX, one_pair};
use tcpx_fleet::attribute::{Standing, retests};
use tcpx_fleet::exclude::ExcludeFormat;
use tcpx_fleet::groups::{self, Groups};
use tcpx_fleet::node_list;
use tcpx_fleet::schedule::{self, Round};
use tcpx_run_model::ids::{Names, PairId, WorkerId};
use tcpx_run_model::record::{
    MeshAttribution, MeshCell, MeshFinding, RunRecord, attributed, median_rate, nothing_found,
};
use tcpx_run_model::scenario::{Mesh, Rails, Rounds, Scenario};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::counted;

/// The nodes of a mesh.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct MeshArguments {
    /// Nodes of a mesh: a list such as node_ips/tcpx.txt, or names such as a3-[0-15].
    #[arg(long, value_name = "FILE|NAMES", conflicts_with_all = ["peer", "join", "from"])]
    hosts: Option<String>,
    /// File with a node and its group on each line, such as `a3-[0-15] rack1` [default: what the cloud says].
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Print only the nodes at fault, for a scheduler, to stdout; the table goes to stderr.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["json", "live"])]
    pub(crate) exclude_format: Option<ExcludeWord>,
    /// Go on without up to K nodes that cannot be reached.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) allow_missing: usize,
    #[command(flatten)]
    launcher: LauncherArguments,
}

/// As in [`ExcludeFormat`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExcludeWord {
    /// One folded list, for `--exclude` and `scontrol update nodename=`.
    Slurm,
    /// One `kubectl cordon` per node.
    Kubectl,
    /// One name per line.
    Hosts,
}

impl From<ExcludeWord> for ExcludeFormat {
    fn from(word: ExcludeWord) -> Self {
        match word {
            ExcludeWord::Slurm => Self::Slurm,
            ExcludeWord::Kubectl => Self::Kubectl,
            ExcludeWord::Hosts => Self::Hosts,
        }
    }
}

/// The nodes of a run, and which of them transfer with which, by rounds.
pub(crate) struct Meeting {
    pub(crate) transports: Vec<Box<dyn Transport>>,
    pub(crate) rounds: Vec<Vec<[usize; 2]>>,
    pub(crate) on_failure: OnFailure,
    /// The launcher and where its nodes come from.
    launcher: Option<String>,
    /// The group of nodes by name.
    pub(crate) topology: BTreeMap<String, String>,
}

impl MeshArguments {
    /// The group of each node of the topology file, by name; empty without one.
    fn topology(&self) -> Result<BTreeMap<String, String>, Failure> {
        let Some(path) = &self.topology else {
            return Ok(BTreeMap::new());
        };
        let shown = path.display();
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::new(Outcome::Usage, format!("cannot use {shown}: {why}"))
        };
        let file = tcpx_words::input::open(path).map_err(|error| cannot(&error))?;
        let mut text = String::new();
        let length = file.take(TOPOLOGY_BYTES_MAX).read_to_string(&mut text);
        if length.map_err(|error| cannot(&error))? as u64 == TOPOLOGY_BYTES_MAX {
            return Err(cannot(&"it is longer than any list of nodes"));
        }
        groups::parse(&text).map_err(|bad| {
            let failure = cannot(&bad);
            match bad.next_step() {
                Some(next) => failure.next(next),
                None => failure,
            }
        })
    }

    /// Two nodes, or those of the mesh.
    pub(crate) fn meeting(&self, nodes: &Nodes, scenario: &Scenario) -> Result<Meeting, Failure> {
        let named = self.hosts.is_some() || self.launcher.names_nodes();
        let mesh = match &scenario.mesh {
            Some(mesh) => mesh,
            None if !named => {
                if self.topology.is_some() || self.exclude_format.is_some() {
                    let message = "--topology and --exclude-format are of meshes, and the scenario has no [mesh]";
                    return Err(Failure::new(Outcome::Usage, message)
                        .next("run scenarios/mesh.toml, or add --set mesh.pattern=pairs"));
                }
                return Ok(Meeting {
                    transports: nodes.transports()?.into(),
                    rounds: one_pair(),
                    on_failure: OnFailure::StopAll,
                    launcher: None,
                    topology: BTreeMap::new(),
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
            return Err(Failure::new(Outcome::Usage, message)
                .next("name at least two nodes, as in --hosts a3-[0-7], or give the path of a file with their names: --hosts ./nodes"));
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
            topology: self.topology()?,
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

/// A topology file for more nodes than can be driven is some other file.
const TOPOLOGY_BYTES_MAX: u64 = 16 << 20;

/// Most pairs of nodes that are measured again.
const RETESTS_MAX: usize = 64;

/// The rounds that measure again what these rates make suspect.
pub(crate) fn retest_rounds(
    rates: &[MeshCell],
    groups: &[Option<String>],
    nodes: usize,
) -> Vec<Vec<[usize; 2]>> {
    let found = attributed(rates, &[], groups);
    let meetings = retests(&found, nodes, &Groups::by_node(groups), RETESTS_MAX);
    schedule::disjoint(&meetings).iter().map(pairs).collect()
}

/// The names of the nodes at fault, as a scheduler takes them.
pub(crate) fn excluded(run: &RunRecord, format: ExcludeFormat) -> String {
    let names = run.names();
    let found = run.attribution().unwrap_or_default();
    let at_fault = found.nodes_at_fault.iter().map(|node| names.node(*node));
    format.render(&at_fault.collect::<Vec<_>>())
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
    if run.pairs.iter().all(|pair| pair.round.is_none()) {
        // No pair was planned: the error says why.
        return format!("#\n{}", not_run(run));
    }
    let [cells, _] = run.rates();
    let names = run.names();
    let rails = run.rail_names();
    let rail_name = |rail: u32| rails.get(rail as usize).map_or("?", String::as_str);
    let mut columns = Columns::new(&["rail", "directions", "failed", "median GB/s", "min", "max"]);
    for rail in 0..rails.len() as u32 {
        let of_rail = || cells.iter().filter(move |cell| cell.rail == rail);
        if of_rail().next().is_none() {
            continue;
        }
        let rates = || of_rail().filter_map(|cell| cell.gb_per_s);
        let shown = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.3}"));
        columns.row([
            rail_name(rail).to_owned(),
            of_rail().count().to_string(),
            (of_rail().count() - rates().count()).to_string(),
            shown(median_rate(of_rail())),
            shown(rates().reduce(f64::min)),
            shown(rates().reduce(f64::max)),
        ]);
    }
    let found = run.attribution().unwrap_or_default();
    let mut text = format!("#\n{}{}", columns.render(), kv(run));
    text.push_str(&suspects(&found, || {
        nothing_found(&cells, &rails, found.scatter, &run.findings)
    }));
    if !found.slowest.is_empty() {
        text.push_str("# Slowest directions, as a share of the median\n");
    }
    for slow in found.slowest.iter().take(SLOWEST_MAX) {
        text.push_str(&format!(
            "#   {} -> {} {} : {:.3} GB/s, {:.0} %\n",
            names.node(slow.from),
            names.node(slow.to),
            rail_name(slow.rail),
            slow.gb_per_s,
            slow.share * 100.0
        ));
    }
    text.push_str(&failed(run, &names));
    text.push_str(&together(run, &names));
    text.push_str(&not_run(run));
    text
}

/// Most pairs of nodes that a line about failed ones lists.
const FAILED_MAX: usize = 4;

/// Most lines about failed pairs.
const FAILED_LINES_MAX: usize = 4;

/// Pairs of nodes that failed for the same reason.
struct FailedPairs {
    /// That of the first.
    why: String,
    /// Whether the numbers of another one differ.
    differs: bool,
    /// Each pair of nodes once, with its rails.
    pairs: Vec<(String, Vec<String>)>,
}

impl FailedPairs {
    fn add(&mut self, nodes: String, rail: Option<String>) {
        let known = self.pairs.iter().position(|(known, _)| *known == nodes);
        let at = known.unwrap_or_else(|| {
            self.pairs.push((nodes, Vec::new()));
            self.pairs.len() - 1
        });
        let rails = &mut self.pairs[at].1;
        // A pair that was measured again failed twice.
        rails.extend(rail.filter(|rail| !rails.contains(rail)));
    }

    fn line(&self) -> String {
        let one = |(nodes, rails): &(String, Vec<String>)| match rails[..] {
            [] => nodes.clone(),
            _ => format!("{nodes} ({})", rails.join(", ")),
        };
        let shown: Vec<String> = self.pairs.iter().take(FAILED_MAX).map(one).collect();
        let more = match self.pairs.len().saturating_sub(FAILED_MAX) {
            0 => String::new(),
            more => format!(" and {}", counted(more, "more pair")),
        };
        let numbers = match self.differs {
            true => " (numbers of the first)",
            false => "",
        };
        format!(
            "# Failed : {}{more} : {}{numbers}\n",
            shown.join(", "),
            self.why
        )
    }
}

/// The pairs that failed, those whose reasons differ in numbers at most on one line.
fn failed(run: &RunRecord, names: &Names) -> String {
    let mut by_reason: Vec<FailedPairs> = Vec::new();
    let pairs = (0..).map(PairId).zip(&run.pairs);
    for (id, pair) in pairs.filter(|(_, pair)| pair.outcome != Outcome::Passed) {
        let [first, second] = pair.nodes.map(|node| names.node(node));
        let reason = pair.reason.as_deref().unwrap_or_default();
        // The line begins with the pair: its reason need not.
        let own = pair
            .nodes
            .map(|node| names.worker(WorkerId::of_pair(node, id)));
        let rest = own
            .iter()
            .find_map(|own| reason.strip_prefix(own.as_str())?.strip_prefix(", "));
        let why = match rest.unwrap_or(reason) {
            "" => pair.outcome.to_string(),
            reason if reason == pair.outcome.to_string() => reason.to_owned(),
            reason => format!("{}, {reason}", pair.outcome),
        };
        let is_like_it = |known: &FailedPairs| without_numbers(&known.why) == without_numbers(&why);
        let known = by_reason.iter().position(is_like_it);
        let at = known.unwrap_or_else(|| {
            by_reason.push(FailedPairs {
                why: why.clone(),
                differs: false,
                pairs: Vec::new(),
            });
            by_reason.len() - 1
        });
        by_reason[at].differs |= by_reason[at].why != why;
        by_reason[at].add(
            format!("{first} with {second}"),
            pair.rail.as_ref().map(ToString::to_string),
        );
    }
    // The reason of most pairs first.
    by_reason.sort_by_key(|failed| std::cmp::Reverse(failed.pairs.len()));
    let shown = by_reason.iter().take(FAILED_LINES_MAX);
    let mut text: String = shown.map(FailedPairs::line).collect();
    let others = by_reason.iter().skip(FAILED_LINES_MAX);
    let pairs: usize = others.clone().map(|failed| failed.pairs.len()).sum();
    if pairs > 0 {
        let (pairs, reasons) = (
            counted(pairs, "more pair"),
            counted(others.count(), "other reason"),
        );
        text.push_str(&format!(
            "# Failed : {pairs} for {reasons}: run.json has them\n"
        ));
    }
    text
}

/// The words of a text without its numbers, and without addresses with a port, which each connection has
/// of its own. Names of nodes and other addresses stay.
fn without_numbers(text: &str) -> Vec<&str> {
    let is_number = |word: &&str| {
        let word = word.trim_matches([',', ';', ':', '(', ')']);
        word.parse::<f64>().is_ok() || word.parse::<SocketAddr>().is_ok()
    };
    let words = text.split_whitespace();
    words.filter(|word| !is_number(word)).collect()
}

/// Most parts that are listed although they are only suspected.
const SUSPECTED_MAX: usize = 8;

/// The parts that explain what is slow or failed: those that were measured again, then the others.
fn suspects(found: &MeshAttribution, nothing_found: impl Fn() -> String) -> String {
    if found.findings.is_empty() {
        let words = nothing_found();
        return format!("#\n# {words}\n#\n");
    }
    let line = |one: &&MeshFinding| format!("# {} : {}\n", one.finding.standing, one.words);
    let is_confirmed = |one: &&MeshFinding| one.finding.standing == Standing::Confirmed;
    let confirmed: String = found
        .findings
        .iter()
        .filter(is_confirmed)
        .map(|one| line(&one))
        .collect();
    let suspected = || found.findings.iter().filter(|one| !is_confirmed(one));
    let shown: String = suspected()
        .take(SUSPECTED_MAX)
        .map(|one| line(&one))
        .collect();
    let more = match suspected().count().saturating_sub(SUSPECTED_MAX) {
        0 => String::new(),
        more => format!(
            "# suspected : {}, in run.json and the report\n",
            counted(more, "more part")
        ),
    };
    format!("#\n{confirmed}{shown}{more}#\n")
}

pub(super) fn without_name<'a>(reason: &'a str, node: &str) -> &'a str {
    let rest = reason
        .strip_prefix(node)
        .and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(reason)
}

/// Nodes that did not come and why, those with one reason on one line.
pub(super) fn missing_lines(missing: impl Iterator<Item = (String, String)>) -> String {
    let mut by_reason: Vec<(String, Vec<String>)> = Vec::new();
    for (node, reason) in missing {
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, nodes)) => nodes.push(node),
            None => by_reason.push((reason, vec![node])),
        }
    }
    let line = |(reason, nodes): &(String, Vec<String>)| {
        // Nodes that have not said their names are told apart by words, which are no list.
        let nodes = match nodes.iter().all(|node| node_list::is_name(node)) {
            true => node_list::fold(nodes),
            false => nodes.join(", "),
        };
        format!("# Missing : {nodes}: {reason}\n")
    };
    by_reason.iter().map(line).collect()
}

fn not_run(run: &RunRecord) -> String {
    let Some(mesh) = &run.mesh else {
        return String::new();
    };
    let names = run.names();
    let mut text = String::new();
    text.push_str(&missing_lines(mesh.missing.iter().map(|missing| {
        let node = names.node(missing.node);
        // The reason begins with the name as it was typed.
        let reason = without_name(&missing.reason, &node).to_owned();
        (node, reason)
    })));
    for difference in &mesh.differences {
        text.push_str(&format!("# Differs : {difference}\n"));
    }
    for line in &mesh.launcher_said {
        text.push_str(&format!("# Launcher said : {line}\n"));
    }
    if mesh.rounds_left_out > 0 {
        text.push_str(&format!(
            "# Left out : {} with {}, because the budget was used up or the run interrupted\n",
            counted(mesh.rounds_left_out, "round"),
            counted(mesh.pairs_left_out, "pair")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::ids::NodeId;

    #[test]
    fn reasons_are_alike_if_they_differ_in_numbers_and_not_in_names() {
        let alike = |one: &str, other: &str| without_numbers(one) == without_numbers(other);
        assert!(alike(
            "no progress for 4.1 s, in flight 12",
            "no progress for 8 s, in flight 3"
        ));
        assert!(!alike(
            "the agent of node3 is gone",
            "the agent of node5 is gone"
        ));
        assert!(!alike("cannot reach 10.0.1.25", "cannot reach 10.0.0.226"));
        assert!(alike(
            "bootstrap with 10.0.1.25:54026, the two ends disagree",
            "bootstrap with 10.0.0.226:1234, the two ends disagree"
        ));
    }

    #[test]
    fn nodes_that_are_missing_for_one_reason_are_on_one_line() {
        let missing = (0..16).map(|node| {
            let reason = if node == 3 {
                "unknown host"
            } else {
                "no answer"
            };
            (format!("a3-{node}"), reason.to_owned())
        });
        assert_eq!(
            missing_lines(missing),
            "# Missing : a3-[0-2,4-15]: no answer\n# Missing : a3-3: unknown host\n"
        );
        let missing = (1..3).map(|node| (format!("node {node} of 2"), "no call".to_owned()));
        assert_eq!(
            missing_lines(missing),
            "# Missing : node 1 of 2, node 2 of 2: no call\n"
        );
    }

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
                segments: None,
            }
        };
        let rates: Vec<MeshCell> = all.filter(|(from, to)| from != to).map(rate).collect();
        let again: Vec<[usize; 2]> = retest_rounds(&rates, &[], 8)
            .into_iter()
            .flatten()
            .collect();
        assert!(!again.is_empty());
        assert!(again.iter().all(|pair| pair.contains(&3)), "{again:?}");
        let healthy = |rate: &MeshCell| rate.from != slow && rate.to != slow;
        let rates: Vec<MeshCell> = rates.into_iter().filter(healthy).collect();
        assert_eq!(retest_rounds(&rates, &[], 8), Vec::<Vec<[usize; 2]>>::new());
    }
}
