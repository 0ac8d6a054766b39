//! Which workers and processes take part in one transfer: only there one condition explains
//! another. Processes of one machine may have nothing to do with each other.
#![forbid(unsafe_code)]

use super::evidence::{Evidence, Spot};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::NodeId;

/// The transfers of some evidence.
pub(crate) struct Transfers<'a> {
    evidence: &'a Evidence,
    /// Of the processes; found when two of them have findings.
    groups: OnceCell<Groups>,
}

/// Processes that are connected by channels, by their place in the evidence.
struct Groups {
    of_node: Vec<usize>,
    /// Groups with a channel whose other end is in no process that was inspected.
    open: BTreeMap<usize, bool>,
}

impl<'a> Transfers<'a> {
    pub(crate) fn new(evidence: &'a Evidence) -> Self {
        let groups = OnceCell::new();
        Self { evidence, groups }
    }

    /// Whether what is found about one may be the cause of what is found about the other; no
    /// subject is the transfer as a whole.
    pub(crate) fn are_one(&self, one: Option<&Subject>, other: Option<&Subject>) -> bool {
        let (Some(one), Some(other)) = (one, other) else {
            return true;
        };
        match (one.pair, other.pair) {
            _ if one == other => true,
            (Some(_), Some(_)) => {
                let there = self.nodes_of(other);
                self.nodes_of(one).iter().any(|node| there.contains(node))
            }
            (None, None) => self.are_connected(one, other),
            _ => true,
        }
    }

    /// The nodes of both ends of a worker's pair.
    fn nodes_of(&self, subject: &Subject) -> Vec<NodeId> {
        let of_pair = self
            .evidence
            .nodes
            .iter()
            .filter(|node| node.subject.pair == subject.pair);
        let mut nodes: Vec<NodeId> = of_pair.map(|node| node.subject.node).collect();
        nodes.push(subject.node);
        nodes
    }

    /// Whether channels connect two processes, or may do so: both have channels to a process that
    /// was not inspected.
    fn are_connected(&self, one: &Subject, other: &Subject) -> bool {
        let groups = self.groups.get_or_init(|| groups(self.evidence));
        let group = |subject: &Subject| {
            let place = self
                .evidence
                .nodes
                .iter()
                .position(|node| node.subject == *subject);
            place.map(|place| groups.of_node[place])
        };
        let is_open = |group: usize| groups.open.get(&group).copied().unwrap_or(true);
        match (group(one), group(other)) {
            (Some(one), Some(other)) => one == other || (is_open(one) && is_open(other)),
            _ => true,
        }
    }
}

fn groups(evidence: &Evidence) -> Groups {
    let place = |spot: &Spot<'_>| {
        let mut nodes = evidence.nodes.iter();
        nodes.position(|node| std::ptr::eq(node, spot.node))
    };
    let mut of_node: Vec<usize> = (0..evidence.nodes.len()).collect();
    let mut is_open = vec![false; of_node.len()];
    for spot in evidence
        .spots()
        .filter(|spot| spot.node.subject.pair.is_none())
    {
        let Some(here) = place(&spot) else { continue };
        let Some(there) = spot.other_end().as_ref().and_then(place) else {
            is_open[here] = true;
            continue;
        };
        let (from, to) = (of_node[there], of_node[here]);
        if from != to {
            let members = of_node.iter_mut().filter(|group| **group == from);
            members.for_each(|group| *group = to);
        }
    }
    let mut open = BTreeMap::new();
    for (group, is_open) in of_node.iter().zip(is_open) {
        *open.entry(*group).or_insert(false) |= is_open;
    }
    Groups { of_node, open }
}
