//! The parts of a mesh that a finding can name.
#![forbid(unsafe_code)]

use crate::groups::Groups;
use serde::{Deserialize, Serialize};
use tcpx_words::word_set;

/// A part of the mesh. Nodes, rails and groups are indices into the caller's lists.
///
/// The order decides between parts that the same measurements are of, as the pair and either node
/// are in a mesh of two: the first accuses the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Place {
    /// One rail between two nodes, `a < b`.
    Lane {
        /// The smaller node.
        a: usize,
        /// The larger node.
        b: usize,
        /// The rail of both.
        rail: usize,
    },
    /// All rails between two nodes, `a < b`.
    Pair {
        /// The smaller node.
        a: usize,
        /// The larger node.
        b: usize,
    },
    /// One rail of a node, to all others.
    Rail {
        /// The node.
        node: usize,
        /// Its rail.
        rail: usize,
    },
    /// A node with all its rails.
    Node {
        /// The node.
        node: usize,
    },
    /// What nodes of one group exchange with those of another; inside one group if `a == b`.
    Groups {
        /// The smaller group.
        a: usize,
        /// The larger group, or the same.
        b: usize,
    },
    /// What nodes of one group exchange with all nodes outside it.
    Group {
        /// The group.
        group: usize,
    },
    /// One rail of all nodes.
    EveryRail {
        /// The rail.
        rail: usize,
    },
}

word_set! {
    /// The direction of a part.
    pub enum Way {
        /// Both directions.
        Both = "both",
        /// What it sends; from `a` to `b`.
        Sends = "sends",
        /// What it receives; from `b` to `a`.
        Receives = "receives",
    }
}

/// A part of the mesh, in both directions or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The part.
    #[serde(flatten)]
    pub place: Place,
    /// Its direction.
    pub way: Way,
}

impl Subject {
    /// The part in both directions.
    pub fn both(place: Place) -> Self {
        let way = Way::Both;
        Self { place, way }
    }

    /// The part in each direction that it has.
    pub(super) fn ways_of(place: Place) -> impl Iterator<Item = Self> {
        place.ways().iter().map(move |&way| Self { place, way })
    }

    /// Whether a measurement is of this part.
    pub fn covers(self, from: usize, to: usize, rail: usize, groups: &Groups) -> bool {
        let ends = |is_source: bool, is_target: bool| match self.way {
            Way::Both => is_source || is_target,
            Way::Sends => is_source,
            Way::Receives => is_target,
        };
        let (outer, inner) = (groups.of_node(from), groups.of_node(to));
        match self.place {
            Place::Lane { a, b, rail: on } => {
                on == rail && ends((from, to) == (a, b), (from, to) == (b, a))
            }
            Place::Pair { a, b } => ends((from, to) == (a, b), (from, to) == (b, a)),
            Place::Rail { node, rail: on } => on == rail && ends(from == node, to == node),
            Place::Node { node } => ends(from == node, to == node),
            Place::Groups { a, b } => ends(
                (outer, inner) == (Some(a), Some(b)),
                (outer, inner) == (Some(b), Some(a)),
            ),
            Place::Group { group } => {
                outer != inner && ends(outer == Some(group), inner == Some(group))
            }
            Place::EveryRail { rail: on } => on == rail,
        }
    }

    /// Whether one of the measurements between two nodes is of this part.
    pub fn touches(self, one: usize, other: usize, groups: &Groups) -> bool {
        let rail = match self.place {
            Place::Lane { rail, .. } | Place::Rail { rail, .. } | Place::EveryRail { rail } => rail,
            _ => 0,
        };
        self.covers(one, other, rail, groups) || self.covers(other, one, rail, groups)
    }

    /// Every part that a measurement is of.
    pub fn of_measurement(from: usize, to: usize, rail: usize, groups: &Groups) -> Vec<Self> {
        let (a, b) = (from.min(to), from.max(to));
        let mut places = vec![
            Place::Lane { a, b, rail },
            Place::Pair { a, b },
            Place::Rail { node: from, rail },
            Place::Rail { node: to, rail },
            Place::Node { node: from },
            Place::Node { node: to },
            Place::EveryRail { rail },
        ];
        let (outer, inner) = (groups.of_node(from), groups.of_node(to));
        if let (Some(outer), Some(inner)) = (outer, inner) {
            let (a, b) = (outer.min(inner), outer.max(inner));
            places.push(Place::Groups { a, b });
        }
        if outer != inner {
            let ends = [outer, inner].into_iter().flatten();
            places.extend(ends.map(|group| Place::Group { group }));
        }
        let subjects = places.into_iter().flat_map(Self::ways_of);
        subjects
            .filter(|subject| subject.covers(from, to, rail, groups))
            .collect()
    }
}

impl Place {
    /// The nodes and the rail that the part is of, if it is one of nodes or of a rail.
    pub fn nodes_and_rail(self) -> (Vec<usize>, Option<usize>) {
        match self {
            Self::Lane { a, b, rail } => (vec![a, b], Some(rail)),
            Self::Pair { a, b } => (vec![a, b], None),
            Self::Rail { node, rail } => (vec![node], Some(rail)),
            Self::Node { node } => (vec![node], None),
            Self::EveryRail { rail } => (Vec::new(), Some(rail)),
            Self::Groups { .. } | Self::Group { .. } => (Vec::new(), None),
        }
    }

    /// The directions that the part has.
    pub(super) fn ways(self) -> &'static [Way] {
        match self {
            Self::EveryRail { .. } => &[Way::Both],
            Self::Groups { a, b } if a == b => &[Way::Both],
            _ => Way::ALL,
        }
    }
}

/// The name of the one rail of a mesh that measures all rails together.
pub const ALL_RAILS: &str = "all";

/// The names that findings are written with.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// By the index of the node.
    pub nodes: &'a [String],
    /// By the index of the rail.
    pub rails: &'a [String],
    /// The groups that the fit was given.
    pub groups: &'a Groups,
}

impl Names<'_> {
    /// The subject of a sentence: `rail eth3 of a3-7`. With the verb for a rate: `sends`.
    pub fn subject_and_verb(&self, subject: Subject) -> (String, &'static str) {
        let node = |node: usize| name(self.nodes, node);
        let rail = |rail: usize| name(self.rails, rail);
        let group = |group: usize| self.groups.name(group);
        let own_verb = match subject.way {
            Way::Both => "runs",
            Way::Sends => "sends",
            Way::Receives => "receives",
        };
        let between = |a: &str, b: &str| match subject.way {
            Way::Both => format!("between {a} and {b}"),
            Way::Sends => format!("from {a} to {b}"),
            Way::Receives => format!("from {b} to {a}"),
        };
        match subject.place {
            // Where rails were not measured by themselves, a lane is all of them.
            Place::Lane { a, b, .. } if self.rails == [ALL_RAILS] => {
                (format!("the network {}", between(node(a), node(b))), "runs")
            }
            Place::Lane { a, b, rail: on } => (
                format!("rail {} {}", rail(on), between(node(a), node(b))),
                "runs",
            ),
            Place::Pair { a, b } => (format!("the network {}", between(node(a), node(b))), "runs"),
            Place::Rail { node: of, rail: on } => {
                (format!("rail {} of {}", rail(on), node(of)), own_verb)
            }
            Place::Node { node: of } => (format!("node {}", node(of)), own_verb),
            Place::Groups { a, b } if a == b => {
                (format!("the network inside group {}", group(a)), "runs")
            }
            Place::Groups { a, b } => {
                let groups = [a, b].map(|index| format!("group {}", group(index)));
                (
                    format!("the network {}", between(&groups[0], &groups[1])),
                    "runs",
                )
            }
            Place::Group { group: of } => {
                let way = match subject.way {
                    Way::Both => "in and out of",
                    Way::Sends => "out of",
                    Way::Receives => "into",
                };
                (format!("the network {way} group {}", group(of)), "runs")
            }
            Place::EveryRail { rail: on } => (format!("rail {} of all nodes", rail(on)), "runs"),
        }
    }
}

impl Subject {
    /// The segments that the part can lose: `the segments that it sends`.
    pub(super) fn segments(self) -> &'static str {
        match (self.place, self.way) {
            (Place::Rail { .. } | Place::Node { .. }, Way::Sends) => "the segments that it sends",
            (Place::Rail { .. } | Place::Node { .. }, Way::Receives) => "the segments sent to it",
            (Place::Rail { .. } | Place::Node { .. }, Way::Both) => "the segments from and to it",
            _ => "the segments",
        }
    }
}

fn name(names: &[String], index: usize) -> &str {
    names.get(index).map_or("?", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups_of_four(nodes: usize) -> Groups {
        let names: Vec<String> = (0..nodes).map(|node| node.to_string()).collect();
        Groups::of(&names, |name| {
            Some(format!("rack{}", name.parse::<usize>().ok()? / 4))
        })
    }

    fn words(place: Place, way: Way) -> String {
        let groups = groups_of_four(8);
        let nodes: Vec<String> = (0..8).map(|node| format!("a3-{node}")).collect();
        let rails: Vec<String> = (1..5).map(|rail| format!("eth{rail}")).collect();
        let names = Names {
            nodes: &nodes,
            rails: &rails,
            groups: &groups,
        };
        let (subject, verb) = names.subject_and_verb(Subject { place, way });
        format!("{subject} {verb}")
    }

    #[test]
    fn parts_are_named_with_a_verb() {
        for (place, way, expected) in [
            (
                Place::Rail { node: 7, rail: 2 },
                Way::Sends,
                "rail eth3 of a3-7 sends",
            ),
            (Place::Node { node: 1 }, Way::Both, "node a3-1 runs"),
            (Place::Node { node: 9 }, Way::Receives, "node ? receives"),
            (
                Place::Pair { a: 1, b: 2 },
                Way::Both,
                "the network between a3-1 and a3-2 runs",
            ),
            (
                Place::Pair { a: 1, b: 2 },
                Way::Receives,
                "the network from a3-2 to a3-1 runs",
            ),
            (
                Place::Lane {
                    a: 1,
                    b: 2,
                    rail: 0,
                },
                Way::Sends,
                "rail eth1 from a3-1 to a3-2 runs",
            ),
            (
                Place::Group { group: 1 },
                Way::Both,
                "the network in and out of group rack1 runs",
            ),
            (
                Place::Groups { a: 0, b: 1 },
                Way::Sends,
                "the network from group rack0 to group rack1 runs",
            ),
            (
                Place::Groups { a: 1, b: 1 },
                Way::Both,
                "the network inside group rack1 runs",
            ),
            (
                Place::EveryRail { rail: 3 },
                Way::Both,
                "rail eth4 of all nodes runs",
            ),
        ] {
            assert_eq!(words(place, way), expected);
        }
    }

    #[test]
    fn a_lane_of_all_rails_is_the_network_between_its_nodes() {
        let nodes = ["a3-0".to_owned(), "a3-1".to_owned()];
        let names = Names {
            nodes: &nodes,
            rails: &[ALL_RAILS.to_owned()],
            groups: &Groups::default(),
        };
        let (a, b, rail) = (0, 1, 0);
        let lane = Subject::both(Place::Lane { a, b, rail });
        let (subject, _) = names.subject_and_verb(lane);
        assert_eq!(subject, "the network between a3-0 and a3-1");
    }

    #[test]
    fn a_measurement_is_of_both_ends_and_of_what_is_between_them() {
        let count = |from, to| Subject::of_measurement(from, to, 0, &groups_of_four(8)).len();
        // 2 each of lane, pair, and rail and node of both ends; one of the rail of all nodes.
        assert_eq!(count(0, 1), 12 + 1 + 1);
        // And 2 each of the groups and of either group.
        assert_eq!(count(0, 5), 12 + 1 + 6);
    }

    proptest! {
        #[test]
        fn what_a_measurement_is_of_covers_it_and_touches_its_nodes(
            from in 0..12usize, to in 0..12usize, rail in 0..4usize,
        ) {
            // Nodes from 8 on are in no group.
            let groups = groups_of_four(8);
            prop_assume!(from != to);
            for subject in Subject::of_measurement(from, to, rail, &groups) {
                prop_assert!(subject.covers(from, to, rail, &groups));
                prop_assert!(subject.touches(to, from, &groups));
            }
        }
    }
}
