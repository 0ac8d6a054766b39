//! What differs between the nodes of a mesh and may explain its rates or failures, in sentences:
//! builds, plugins, interfaces, places of the flight recorders, clocks. Also, which nodes are the same machine.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use tcpx_node::Host;
use tcpx_recorder::SHARED_MEMORY;
use tcpx_run_model::record::Clock;

/// Clocks that differ by less do not confuse a reader of logs.
const CLOCK_US_MAX: u64 = 5_000_000;

/// What is compared of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeTraits {
    pub(super) name: String,
    /// Version of tcpxctl.
    pub(super) version: String,
    /// The plugin that its workers loaded, and the start of its hash.
    pub(super) plugin: Option<String>,
    /// Its data interfaces; `None` if they are unknown.
    pub(super) rails: Option<Vec<String>>,
    /// The flight recorder of one of its workers, or why there is none; `None` if no worker got so far.
    pub(super) recorder: Option<Result<PathBuf, String>>,
    pub(super) clock: Option<Clock>,
}

/// A sentence for each difference.
pub(super) fn sentences(nodes: &[NodeTraits]) -> Vec<String> {
    let versions = || {
        let version = |node: &NodeTraits| Some(format!("tcpxctl {}", node.version));
        differing(nodes, "", version)
    };
    let plugins = || differing(nodes, "the plugin ", |node| node.plugin.clone());
    let rails = || {
        let rails = |node: &NodeTraits| Some(node.rails.as_ref()?.join(" "));
        differing(nodes, "the data interfaces ", rails)
    };
    let recorders = nodes.iter().filter_map(recorder);
    let clocks = nodes.iter().filter_map(clock);
    let all = versions().into_iter().chain(plugins()).chain(rails());
    all.chain(recorders).chain(clocks).collect()
}

/// A node whose flight recorders are not where they belong.
fn recorder(node: &NodeTraits) -> Option<String> {
    let name = &node.name;
    match node.recorder.as_ref()? {
        Ok(path) if path.starts_with(SHARED_MEMORY) => None,
        Ok(path) => {
            let parent = path.parent().unwrap_or(path).display();
            let why = format!("{SHARED_MEMORY} is full or not writable");
            Some(format!(
                "the flight recorders of {name} are in {parent}, because {why}"
            ))
        }
        Err(why) => Some(format!("{name} has {why}")),
    }
}

/// `node3 has eth1 eth2, the other nodes have eth1 eth2 eth3`.
fn differing(
    nodes: &[NodeTraits],
    what: &str,
    of: impl Fn(&NodeTraits) -> Option<String>,
) -> Option<String> {
    let mut by_value: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(value) = of(node) {
            by_value.entry(value).or_default().push(&node.name);
        }
    }
    // Of two values that are as frequent, that of the first node is the usual one.
    let first = nodes.iter().find_map(&of)?;
    let usual = by_value
        .iter()
        .max_by_key(|(value, names)| (names.len(), **value == first));
    let usual = usual.map(|(value, _)| value.clone())?;
    by_value.remove(&usual);
    let odd = by_value.iter().map(|(value, names)| {
        let verb = if names.len() == 1 { "has" } else { "have" };
        format!("{} {verb} {what}{value}", listed(names))
    });
    let odd: Vec<String> = odd.collect();
    (!odd.is_empty()).then(|| format!("{}; the other nodes have {what}{usual}", odd.join(", ")))
}

/// Most names that a sentence lists.
const NAMES_MAX: usize = 8;

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn clock(node: &NodeTraits) -> Option<String> {
    let offset = node.clock?.offset_us;
    let way = if offset > 0 { "ahead of" } else { "behind" };
    let seconds = offset.unsigned_abs() / 1_000_000;
    (offset.unsigned_abs() > CLOCK_US_MAX).then(|| {
        format!(
            "the clock of {} is {seconds} s {way} this machine's; the times of its events are corrected, those in its logs are not",
            node.name
        )
    })
}

/// Each node that is the same machine as an earlier one, with that one; a missing node is `None`. If all
/// nodes are one machine, the user means it, and none is returned.
pub(super) fn doubles(nodes: &[Option<&Host>]) -> BTreeMap<usize, usize> {
    let same = |one: usize, other: usize| {
        let (one, other) = (nodes[one]?, nodes[other]?);
        one.is_same_stack(other)
    };
    let earlier = |node: usize| (0..node).find(|other| same(*other, node) == Some(true));
    let doubles: BTreeMap<usize, usize> = (0..nodes.len())
        .filter_map(|node| Some((node, earlier(node)?)))
        .collect();
    let there = nodes.iter().flatten().count();
    if doubles.len() + 1 == there {
        return BTreeMap::new();
    }
    doubles
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_node::{Fact, Root};

    fn node(name: &str) -> NodeTraits {
        NodeTraits {
            name: name.to_owned(),
            version: "0.2.0".to_owned(),
            plugin: Some("/opt/net.so 1234abcd".to_owned()),
            rails: Some(["eth1", "eth2"].map(str::to_owned).to_vec()),
            recorder: Some(Ok("/dev/shm/tcpxctl-0/worker.tcpxrec".into())),
            clock: Some(Clock {
                offset_us: 800,
                round_trip_us: 100,
            }),
        }
    }

    #[test]
    fn what_differs_is_said_of_the_few_and_nothing_of_nodes_that_are_alike() {
        let mut nodes = ["a3-0", "a3-1", "a3-2", "a3-3"].map(node);
        assert_eq!(sentences(&nodes), Vec::<String>::new());
        nodes[1].version = "0.1.9".into();
        nodes[2].plugin = Some("/opt/net.so 5678abcd".into());
        nodes[3].plugin = nodes[2].plugin.clone();
        nodes[3].rails = Some(vec!["eth1".into()]);
        nodes[0].rails = None;
        nodes[1].recorder = Some(Ok("/tmp/tcpxctl-0/worker.tcpxrec".into()));
        nodes[2].recorder = Some(Err("no counters: no place".into()));
        nodes[3].recorder = None;
        for (node, offset_us) in [(1, 3_600_000_000), (2, -90_000_000)] {
            nodes[node].clock = Some(Clock {
                offset_us,
                round_trip_us: 100,
            });
        }
        insta::assert_snapshot!(sentences(&nodes).join("\n"), @r"
        a3-1 has tcpxctl 0.1.9; the other nodes have tcpxctl 0.2.0
        a3-2, a3-3 have the plugin /opt/net.so 5678abcd; the other nodes have the plugin /opt/net.so 1234abcd
        a3-3 has the data interfaces eth1; the other nodes have the data interfaces eth1 eth2
        the flight recorders of a3-1 are in /tmp/tcpxctl-0, because /dev/shm is full or not writable
        a3-2 has no counters: no place
        the clock of a3-1 is 3600 s ahead of this machine's; the times of its events are corrected, those in its logs are not
        the clock of a3-2 is 90 s behind this machine's; the times of its events are corrected, those in its logs are not
        ");
    }

    #[test]
    fn a_second_name_of_a_machine_is_found_unless_one_machine_is_all_nodes() {
        let here = Host::read(&Root::live());
        let other = Host {
            boot_id: Fact::Known("another".into()),
            ..here.clone()
        };
        let check = |nodes: &[Option<&Host>], expected: &[(usize, usize)]| {
            assert_eq!(doubles(nodes), expected.iter().copied().collect());
        };
        check(&[Some(&here), Some(&other), Some(&here)], &[(2, 0)]);
        check(&[Some(&other), None, Some(&here), Some(&here)], &[(3, 2)]);
        check(&[Some(&here), Some(&here), Some(&here)], &[]);
        check(&[Some(&here), None, Some(&here)], &[]);
        check(&[None, None], &[]);
    }
}
