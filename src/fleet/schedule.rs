//! Rounds of meetings between nodes.
//!
//! The rounds of a pattern come most informative first: every prefix mixes the nodes as well as
//! that many rounds can, so a budget keeps a prefix, and `sampled` is a prefix of `pairs`.
//!
//! Not here: rails, GPUs, directions of a pair and how long a round takes. The caller expands a
//! meeting into those.
#![forbid(unsafe_code)]

use crate::seed::Numbers;
use serde::Serialize;
use std::collections::BTreeSet;
use tcpx_words::pattern::Pattern;

/// Two nodes that exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Meeting {
    /// The node that sends. In a pattern that is not one-way: the smaller index.
    pub from: usize,
    /// The node that receives. In a pattern that is not one-way: the larger index.
    pub to: usize,
}

/// Meetings that take place at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Round {
    /// In `pairs`, `ring`, `bisection` and `sampled`, no node is in two of them.
    pub meetings: Vec<Meeting>,
}

/// The rounds of a pattern. `root` is the one node of `one-to-many` and `many-to-one`. `seed`
/// determines the order of `pairs` and the choice of `sampled`.
///
/// Without two nodes, or with a root that is not among them, there are no rounds.
pub fn rounds(pattern: Pattern, nodes: usize, root: usize, seed: u64) -> Vec<Round> {
    let mut rounds = match pattern {
        Pattern::Pairs => tournament(nodes, usize::MAX, seed),
        Pattern::Ring => ring(nodes),
        Pattern::OneToMany => vec![star(nodes, root, |root, other| (root, other))],
        Pattern::ManyToOne => vec![star(nodes, root, |root, other| (other, root))],
        Pattern::AllToAll => vec![everybody(nodes)],
        Pattern::Bisection => bisection(nodes),
        Pattern::Sampled => tournament(nodes, log2(nodes), seed),
    };
    rounds.retain(|round| !round.meetings.is_empty());
    rounds
}

/// Packs meetings into rounds in which no node is twice, in their order.
pub fn disjoint(meetings: &[Meeting]) -> Vec<Round> {
    let mut rounds: Vec<(BTreeSet<usize>, Round)> = Vec::new();
    for &meeting in meetings {
        let ends = [meeting.from, meeting.to];
        let free = rounds
            .iter()
            .position(|(busy, _)| ends.iter().all(|node| !busy.contains(node)));
        let place = free.unwrap_or_else(|| {
            let meetings = Vec::new();
            rounds.push((BTreeSet::new(), Round { meetings }));
            rounds.len() - 1
        });
        let (busy, round) = &mut rounds[place];
        busy.extend(ends);
        round.meetings.push(meeting);
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

/// A pair in a pattern that is not one-way.
fn pair(a: usize, b: usize) -> Meeting {
    Meeting {
        from: a.min(b),
        to: a.max(b),
    }
}

/// Every pair once, in rounds of disjoint pairs: N-1 rounds, or N if N is odd and one node sits out.
///
/// The seed deals the seats and the order of the rounds. The first two rounds are neighbours in the
/// tournament, which together are one path or circle through all nodes: whatever is left out
/// later, all nodes are connected after two rounds. At most `rounds_max` rounds are made.
fn tournament(nodes: usize, rounds_max: usize, seed: u64) -> Vec<Round> {
    if nodes < 2 {
        return Vec::new();
    }
    let mut numbers = Numbers::of(seed);
    let mut seats: Vec<usize> = (0..nodes).collect();
    numbers.shuffle(&mut seats);
    // The last seat is outside the circle; with an odd number it is empty.
    let circle = nodes - 1 + nodes % 2;
    let mut order: Vec<usize> = (0..circle).collect();
    if let Some(later) = order.get_mut(2..) {
        numbers.shuffle(later);
    }
    let kept = order.into_iter().take(rounds_max);
    kept.map(|turn| round_of_tournament(&seats, circle, turn))
        .collect()
}

/// The seats `a` and `b` of the circle with `a + b = turn` meet. The one seat that would meet
/// itself meets the seat outside.
fn round_of_tournament(seats: &[usize], circle: usize, turn: usize) -> Round {
    let seat = |a: usize| seats.get(a);
    let opposite = |a: usize| match (turn + circle - a) % circle {
        b if b == a => circle,
        b => b,
    };
    let met = (0..circle).map(|a| (a, opposite(a)));
    let once = met.filter(|(a, b)| a < b);
    let meetings = once.filter_map(|(a, b)| Some(pair(*seat(a)?, *seat(b)?)));
    Round {
        meetings: meetings.collect(),
    }
}

/// Rounded up.
fn log2(nodes: usize) -> usize {
    nodes.next_power_of_two().ilog2() as usize
}

/// Every other edge of the circle, then the edges between them; the edge that closes an odd circle
/// is a round of its own.
fn ring(nodes: usize) -> Vec<Round> {
    let edge = |a: usize| pair(a, (a + 1) % nodes);
    let edges = |first: usize| Round {
        meetings: (first..nodes - 1).step_by(2).map(edge).collect(),
    };
    match nodes {
        0 | 1 => Vec::new(),
        2 => vec![edges(0)],
        _ => {
            let closing = edge(nodes - 1);
            let (even, mut odd) = (edges(0), edges(1));
            if nodes.is_multiple_of(2) {
                odd.meetings.push(closing);
                return vec![even, odd];
            }
            let meetings = vec![closing];
            vec![even, odd, Round { meetings }]
        }
    }
}

/// One round with the root in all meetings: the point is what its NICs do under all of them.
fn star(nodes: usize, root: usize, ends: impl Fn(usize, usize) -> (usize, usize)) -> Round {
    let others = (0..nodes).filter(|&other| other != root && root < nodes);
    let meetings = others.map(|other| {
        let (from, to) = ends(root, other);
        Meeting { from, to }
    });
    Round {
        meetings: meetings.collect(),
    }
}

/// One round with both directions of every pair, because the point is that all run at once.
fn everybody(nodes: usize) -> Round {
    let meetings = (0..nodes).flat_map(|from| {
        let others = (0..nodes).filter(move |&to| to != from);
        others.map(move |to| Meeting { from, to })
    });
    Round {
        meetings: meetings.collect(),
    }
}

/// Two rounds in which every pair crosses one cut of the list. First the list is cut in the middle
/// and node i of the first half meets node i of the second. Then the cut moves by a quarter, and
/// the halves meet in mirrored order, so that at most one pair is repeated from three nodes on.
fn bisection(nodes: usize) -> Vec<Round> {
    let half = nodes / 2;
    let straight = (0..half).map(|i| pair(i, half + i));
    let quarter = (nodes / 4).max(1);
    let moved = |i: usize| (quarter + i) % nodes;
    let mirrored = (0..half).map(|i| pair(moved(i), moved(2 * half - 1 - i)));
    let rounds = [straight.collect(), mirrored.collect()];
    let mut rounds: Vec<Round> = rounds.map(|meetings| Round { meetings }).into();
    rounds.dedup();
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODES_MAX: usize = 1024;

    fn all(pattern: Pattern, nodes: usize) -> Vec<Round> {
        rounds(pattern, nodes, 0, 7)
    }

    fn meetings(rounds: &[Round]) -> Vec<Meeting> {
        let meetings = rounds.iter().flat_map(|round| round.meetings.clone());
        meetings.collect()
    }

    fn shown(rounds: &[Round]) -> String {
        let round = |round: &Round| {
            let pairs = round.meetings.iter();
            let pairs: Vec<String> = pairs.map(|m| format!("{}-{}", m.from, m.to)).collect();
            pairs.join(" ")
        };
        let rounds: Vec<String> = rounds.iter().map(round).collect();
        rounds.join(" | ")
    }

    /// Fails if a node is twice in a round, meets itself or is not in the list.
    fn assert_disjoint(rounds: &[Round], nodes: usize) -> Result<(), TestCaseError> {
        for round in rounds {
            let mut seen = vec![false; nodes];
            for meeting in &round.meetings {
                for node in [meeting.from, meeting.to] {
                    prop_assert!(!seen[node], "node {} twice in {:?}", node, round);
                    seen[node] = true;
                }
            }
        }
        Ok(())
    }

    /// The number of parts that the meetings do not connect.
    fn parts(rounds: &[Round], nodes: usize) -> usize {
        let mut part: Vec<usize> = (0..nodes).collect();
        for meeting in meetings(rounds) {
            let (kept, gone) = (part[meeting.from], part[meeting.to]);
            part.iter_mut()
                .filter(|p| **p == gone)
                .for_each(|p| *p = kept);
        }
        part.into_iter().collect::<BTreeSet<usize>>().len()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn in_pairs_every_pair_meets_once_and_no_node_is_twice_in_a_round(
            nodes in prop_oneof![0..20usize, 0..=NODES_MAX],
            seed: u64,
        ) {
            let rounds = rounds(Pattern::Pairs, nodes, 0, seed);
            let odd = nodes % 2;
            let expected = if nodes < 2 { 0 } else { nodes - 1 + odd };
            prop_assert_eq!(rounds.len(), expected);
            prop_assert!(rounds.iter().all(|round| round.meetings.len() == nodes / 2));
            assert_disjoint(&rounds, nodes)?;
            let met = meetings(&rounds);
            prop_assert!(met.iter().all(|meeting| meeting.from < meeting.to));
            let different: BTreeSet<Meeting> = met.iter().copied().collect();
            prop_assert_eq!(different.len(), met.len());
            prop_assert_eq!(met.len(), nodes * nodes.saturating_sub(1) / 2);
        }

        #[test]
        fn two_rounds_of_pairs_connect_all_nodes(nodes in 2..=NODES_MAX, seed: u64) {
            let mut rounds = rounds(Pattern::Pairs, nodes, 0, seed);
            rounds.truncate(2);
            prop_assert_eq!(parts(&rounds, nodes), 1);
        }

        #[test]
        fn sampled_has_log2_rounds_of_disjoint_pairs_that_connect_all_nodes(
            nodes in prop_oneof![2..20usize, 2..=NODES_MAX],
            seed: u64,
        ) {
            let sampled = rounds(Pattern::Sampled, nodes, 0, seed);
            prop_assert_eq!(sampled.len(), (nodes as f64).log2().ceil() as usize);
            assert_disjoint(&sampled, nodes)?;
            prop_assert_eq!(parts(&sampled, nodes), 1);
            prop_assert_eq!(&sampled, &rounds(Pattern::Sampled, nodes, 0, seed));
            let different: BTreeSet<Meeting> = meetings(&sampled).into_iter().collect();
            prop_assert_eq!(different.len(), meetings(&sampled).len());
        }

        #[test]
        fn a_ring_has_every_neighbour_once(nodes in 3..=NODES_MAX) {
            let rounds = all(Pattern::Ring, nodes);
            prop_assert_eq!(rounds.len(), 2 + nodes % 2);
            assert_disjoint(&rounds, nodes)?;
            let edges: BTreeSet<Meeting> = meetings(&rounds).into_iter().collect();
            let expected = (0..nodes).map(|a| pair(a, (a + 1) % nodes));
            prop_assert_eq!(edges, expected.collect::<BTreeSet<Meeting>>());
            prop_assert_eq!(meetings(&rounds).len(), nodes);
        }

        #[test]
        fn both_rounds_of_bisection_use_all_nodes_and_differ(nodes in 3..=NODES_MAX) {
            let rounds = all(Pattern::Bisection, nodes);
            prop_assert_eq!(rounds.len(), 2);
            assert_disjoint(&rounds, nodes)?;
            prop_assert!(rounds.iter().all(|round| round.meetings.len() == nodes / 2));
            let different: BTreeSet<Meeting> = meetings(&rounds).into_iter().collect();
            prop_assert!(different.len() + 1 >= nodes / 2 * 2);
        }

        #[test]
        fn packed_meetings_are_all_there_and_disjoint(
            ends in prop::collection::vec((0..24usize, 0..24usize), 0..80),
        ) {
            let ends = ends.into_iter().filter(|(a, b)| a != b);
            let mut given: Vec<Meeting> = ends.map(|(from, to)| Meeting { from, to }).collect();
            let rounds = disjoint(&given);
            assert_disjoint(&rounds, 24)?;
            let mut packed = meetings(&rounds);
            packed.sort();
            given.sort();
            prop_assert_eq!(packed, given);
        }
    }

    #[test]
    fn small_meshes() {
        for &pattern in Pattern::ALL {
            assert_eq!(shown(&all(pattern, 0)), "", "{pattern}");
            assert_eq!(shown(&all(pattern, 1)), "", "{pattern}");
        }
        for (pattern, two, three) in [
            (Pattern::Pairs, "0-1", "0-2 | 1-2 | 0-1"),
            (Pattern::Ring, "0-1", "0-1 | 1-2 | 0-2"),
            (Pattern::OneToMany, "0-1", "0-1 0-2"),
            (Pattern::ManyToOne, "1-0", "1-0 2-0"),
            (Pattern::AllToAll, "0-1 1-0", "0-1 0-2 1-0 1-2 2-0 2-1"),
            (Pattern::Bisection, "0-1", "0-1 | 1-2"),
            (Pattern::Sampled, "0-1", "0-2 | 1-2"),
        ] {
            assert_eq!(shown(&all(pattern, 2)), two, "{pattern}");
            assert_eq!(shown(&all(pattern, 3)), three, "{pattern}");
        }
        assert_eq!(shown(&all(Pattern::Ring, 4)), "0-1 2-3 | 1-2 0-3");
        assert_eq!(shown(&all(Pattern::Bisection, 4)), "0-2 1-3 | 0-1 2-3");
    }

    #[test]
    fn a_root_that_is_no_node_has_no_rounds() {
        assert_eq!(rounds(Pattern::OneToMany, 4, 4, 0), []);
        assert_eq!(shown(&rounds(Pattern::ManyToOne, 4, 2, 0)), "0-2 1-2 3-2");
    }

    #[test]
    fn another_seed_is_another_sample() {
        let sample = |seed| rounds(Pattern::Sampled, 64, 0, seed);
        assert_ne!(sample(1), sample(2));
    }
}
