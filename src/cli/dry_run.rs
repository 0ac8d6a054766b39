//! `tcpxctl run --dry-run`: every key with its origin, and what a run would start on each node.
//!
//! The nodes are asked for their plugin, their interfaces and their environment, as before a run;
//! no worker is started. The nodes of a mesh are not asked.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending};
use super::mesh::MeshArguments;
use super::nodes::Nodes;
use super::output::{Columns, print, print_json};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tcpx_coord::{TaskNode, environment};
use tcpx_node::NodeFacts;
use tcpx_node::environment::{is_setting, is_shared};
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_run_model::ids::shown_names;
use tcpx_run_model::scenario::{Direction, Resolved, Scenario};
use tcpx_words::side::Side;
use tcpx_words::units::printable;

pub(super) fn dry_run(
    common: &Common,
    nodes: &Nodes,
    mesh: &MeshArguments,
    points: &[Resolved],
) -> Ended {
    let mut plans = Vec::new();
    for point in points {
        let meeting = mesh.meeting(nodes, &point.scenario)?;
        let at = meeting.transports.iter().map(|transport| transport.node());
        let at: Vec<&str> = at.collect();
        let asked = match point.scenario.mesh {
            None => nodes.all(&point.scenario.plugin)?,
            Some(_) => Vec::new(),
        };
        plans.push(DryRun::new(point, &at, &asked));
    }
    if common.json {
        print_json(&DryRunDocument {
            schema: "tcpxctl.dry-run/1",
            points: &plans,
        });
    } else {
        plans.iter().for_each(|plan| print(&plan.text()));
    }
    Ok(Ending::PASSED)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DryRunDocument<'a> {
    schema: &'static str,
    points: &'a [DryRun],
}

/// One point of a scenario, as `--dry-run` shows it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DryRun {
    /// The values that `--sweep` or `[sweep]` gave it; empty without a sweep.
    point: String,
    /// Of the scenario with every key resolved.
    sha256: String,
    keys: Vec<DryRunKey>,
    /// The nodes in their order; of a mesh, those that are named.
    nodes: Vec<DryRunNode>,
    /// Settings that both ends must share and do not: a run would be refused.
    differences: Vec<String>,
    /// Settings that both ends usually share, and that the scenario sets for one role or one node only.
    chosen_differences: Vec<String>,
    /// Other settings of the plugin in which the nodes differ, as nodes may.
    node_differences: Vec<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DryRunKey {
    /// `transfer.chunk`
    key: String,
    value: String,
    origin: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DryRunNode {
    /// `local`, `peer`, or the name of a node of a mesh.
    name: String,
    /// How it is reached.
    at: String,
    /// None if the node was not asked, or has none.
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Object>"))]
    plugin: Option<ChosenPlugin>,
    /// Why there is no plugin.
    error: Option<String>,
    /// Environment of its worker by its role, `send` or `recv`, beside the node's own.
    env: BTreeMap<String, BTreeMap<String, String>>,
    /// What the node's own environment sets of what its worker reads, without what `env` replaces.
    own_env: BTreeMap<String, String>,
}

/// The role whose variables the worker of the node at this place of a pair gets. With both directions, that is the role
/// of the first direction.
fn side(direction: Direction, at: usize) -> Side {
    match (direction, at) {
        (Direction::Reverse, 0) => Side::Recv,
        (Direction::Reverse, _) => Side::Send,
        (Direction::Forward | Direction::Both | Direction::PingPong, 0) => Side::Send,
        (Direction::Forward | Direction::Both | Direction::PingPong, _) => Side::Recv,
    }
}

/// What a node answered, and what a run would make of it.
struct Asked<'a> {
    facts: &'a NodeFacts,
    plugin: Result<ChosenPlugin, String>,
    /// Where the other node reaches it.
    control: Option<IpAddr>,
}

impl<'a> Asked<'a> {
    /// The ends of a pair; without a peer, both run on the one node that was asked.
    fn ends(asked: &'a [(String, TaskNode)]) -> Vec<Self> {
        let [first, second] = match asked {
            [] => return Vec::new(),
            [(_, node)] => [node, node],
            [(_, first), (_, second), ..] => [first, second],
        };
        let control = match asked {
            [_] => [None; 2],
            _ => TaskNode::control_addresses([first, second]),
        };
        let plugins = TaskNode::plugins_of_pair([first, second]);
        let ends = [first, second].into_iter().zip(plugins).zip(control);
        ends.map(|((node, plugin), control)| Self {
            facts: &node.facts,
            plugin: plugin.map_err(|none| none.why),
            control,
        })
        .collect()
    }
}

impl DryRunNode {
    fn new(
        scenario: &Scenario,
        name: String,
        at: &str,
        place: usize,
        asked: Option<&Asked<'_>>,
    ) -> Self {
        let mut env = BTreeMap::new();
        if let Some(Asked {
            facts,
            plugin: Ok(plugin),
            control,
        }) = asked
        {
            let side = side(scenario.transfer.direction, place);
            let variables = environment(scenario, facts, side, plugin, *control);
            env.insert(side.to_string(), variables);
        }
        let is_replaced = |name: &String| env.values().any(|of_role| of_role.contains_key(name));
        let own = asked.into_iter().flat_map(|asked| &asked.facts.environment);
        let own_env = own
            .filter(|(name, _)| !is_replaced(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let plugin = asked.map(|asked| asked.plugin.clone());
        Self {
            name,
            at: at.to_owned(),
            error: plugin
                .as_ref()
                .and_then(|plugin| plugin.as_ref().err().cloned()),
            plugin: plugin.and_then(Result::ok),
            env,
            own_env,
        }
    }

    /// The plugin's settings of its worker, as far as they are known.
    fn settings(&self) -> BTreeMap<String, String> {
        let all = self.own_env.iter().chain(self.env.values().flatten());
        all.filter(|(name, _)| is_setting(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

impl DryRun {
    fn new(point: &Resolved, at: &[&str], asked: &[(String, TaskNode)]) -> Self {
        let ends = Asked::ends(asked);
        let names = shown_names(at).into_iter().zip(at).enumerate();
        let nodes: Vec<DryRunNode> = names
            .map(|(place, (name, at))| {
                DryRunNode::new(&point.scenario, name, at, place, ends.get(place))
            })
            .collect();
        let all = match (&nodes[..], &ends[..]) {
            ([here, there], [_, _]) => differences([here, there]),
            _ => BTreeMap::new(),
        };
        let (chosen, others): (BTreeMap<_, _>, BTreeMap<_, _>) = all
            .into_iter()
            .partition(|(name, _)| point.scenario.env.is_one_sided(name));
        let (refused, of_nodes): (BTreeMap<_, _>, BTreeMap<_, _>) =
            others.into_iter().partition(|(name, _)| is_shared(name));
        Self {
            point: point.point.clone(),
            sha256: point.scenario.hash(),
            keys: point
                .listing()
                .map(|(key, value, origin)| DryRunKey {
                    key,
                    value,
                    origin: origin.to_string(),
                })
                .collect(),
            nodes,
            differences: refused.into_values().collect(),
            chosen_differences: chosen.into_values().collect(),
            node_differences: of_nodes.into_values().collect(),
        }
    }

    fn text(&self) -> String {
        let mut columns = Columns::new(&["key", "value", "origin"]);
        for key in &self.keys {
            columns.row([key.key.clone(), key.value.clone(), key.origin.clone()]);
        }
        let mut text = String::new();
        if !self.point.is_empty() {
            text.push_str(&format!("# Point : {}\n", self.point));
        }
        text.push_str(&columns.render());
        text.push_str(&format!("# Scenario sha256 : {}\n", self.sha256));
        for node in &self.nodes {
            let name = &node.name;
            match (&node.plugin, &node.error) {
                (Some(plugin), _) => text.push_str(&format!(
                    "# Plugin, {name} : {} ({})\n",
                    plugin.source, plugin.why
                )),
                (None, Some(why)) => text.push_str(&format!("# Plugin, {name} : none: {why}\n")),
                (None, None) => {}
            }
            for (side, env) in &node.env {
                for (variable, value) in env {
                    text.push_str(&format!(
                        "# Environment, {name} {side} : {variable}={value}\n"
                    ));
                }
            }
            for (variable, value) in &node.own_env {
                text.push_str(&format!(
                    "# Environment, {name}, its own : {variable}={}\n",
                    printable(value)
                ));
            }
        }
        for (why, differences) in [
            ("so a run is refused", &self.differences),
            ("by the scenario", &self.chosen_differences),
            ("as nodes may", &self.node_differences),
        ] {
            for difference in differences {
                text.push_str(&format!("# Differs, {why} : {difference}\n"));
            }
        }
        for DryRunNode { name, at, .. } in &self.nodes {
            text.push_str(&format!(
                "# Would start : tcpxctl agent ({name}, on {at}), which starts: tcpxctl worker\n"
            ));
        }
        text
    }
}

/// Settings with different values, as sentences by their names.
fn differences([here, there]: [&DryRunNode; 2]) -> BTreeMap<String, String> {
    let (ours, theirs) = (here.settings(), there.settings());
    let shown = |value: Option<&String>| {
        value.map_or("not set".to_owned(), |value| {
            format!("`{}`", printable(value))
        })
    };
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| ours.get(*name) != theirs.get(*name));
    differing
        .map(|name| {
            let sentence = format!(
                "{name} is {} on {} and {} on {}",
                shown(ours.get(name)),
                here.name,
                shown(theirs.get(name)),
                there.name
            );
            (name.clone(), sentence)
        })
        .collect()
}
