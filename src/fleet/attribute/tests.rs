use super::*;
use crate::schedule::Meeting;
use proptest::prelude::*;

/// All pairs in both directions at 20 GB/s, each rate up to 1 % off in a fixed order, times what
/// `share` says.
fn mesh(nodes: usize, rails: usize, share: impl Fn(usize, usize, usize) -> f64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for from in 0..nodes {
        for to in (0..nodes).filter(|&to| to != from) {
            for rail in 0..rails {
                let wobble = 0.992 + 0.002 * ((cells.len() * 7 + from * 3 + to * 5) % 9) as f64;
                let gb_per_s = Some(20.0 * wobble * share(from, to, rail));
                cells.push(Cell {
                    from,
                    to,
                    rail,
                    gb_per_s,
                    segments: None,
                });
            }
        }
    }
    cells
}

fn words(nodes: usize, attribution: &Attribution) -> Vec<String> {
    let groups = Groups::default();
    let nodes: Vec<String> = (0..nodes).map(|node| format!("a3-{node}")).collect();
    let rails: Vec<String> = (1..5).map(|rail| format!("eth{rail}")).collect();
    let names = Names {
        nodes: &nodes,
        rails: &rails,
        groups: &groups,
    };
    attribution
        .findings
        .iter()
        .map(|finding| finding.words(&names))
        .collect()
}

fn found(nodes: usize, rails: usize, share: impl Fn(usize, usize, usize) -> f64) -> Vec<String> {
    let cells = mesh(nodes, rails, share);
    words(nodes, &attribute(&cells, &[], &Groups::default()))
}

fn slow(is_slow: bool, share: f64) -> f64 {
    if is_slow { share } else { 1.0 }
}

/// What retests measure of a mesh that is now like this.
fn measured_again(meetings: &[Meeting], now: &[Cell]) -> Vec<Cell> {
    let of_pair = |meeting: &Meeting| {
        let pair = (meeting.from, meeting.to);
        let is_of_pair =
            move |cell: &&Cell| (cell.from.min(cell.to), cell.from.max(cell.to)) == pair;
        now.iter().filter(is_of_pair).copied()
    };
    meetings.iter().flat_map(of_pair).collect()
}

#[test]
fn of_two_nodes_neither_is_blamed() {
    let rail = |_, _, rail| slow(rail == 2, 0.13);
    let both = "rail eth3 between a3-0 and a3-1 runs at 13 % of the others";
    assert_eq!(found(2, 4, rail), [both]);
    let rail = |from, _, rail| slow(from == 1 && rail == 2, 0.13);
    let one_way = "rail eth3 from a3-1 to a3-0 runs at 13 % of the others";
    assert_eq!(found(2, 4, rail), [one_way]);
}

#[test]
fn two_rates_scatter_by_what_is_between_them() {
    let cell = |from, gb_per_s| Cell {
        from,
        to: 0,
        rail: 0,
        gb_per_s: Some(gb_per_s),
        segments: None,
    };
    let cells = [cell(1, 0.07), cell(2, 0.08)];
    let found = attribute(&cells, &[], &Groups::default());
    assert_eq!(found.findings, []);
    assert!(found.scatter < 0.2, "{}", found.scatter);
}

#[test]
fn one_cause_is_one_finding() {
    let says = |found: Vec<String>, expected: &[&str]| assert_eq!(found, expected);
    says(found(16, 4, |_, _, _| 1.0), &[]);
    let rail = |from, _, rail| slow(from == 7 && rail == 2, 0.61);
    says(
        found(16, 4, rail),
        &["rail eth3 of a3-7 sends at 61 % of the others"],
    );
    let rail = |from, to, rail| slow((from == 7 || to == 7) && rail == 2, 0.5);
    says(
        found(16, 4, rail),
        &["rail eth3 of a3-7 runs at 50 % of the others"],
    );
    let node = |from, to, _| slow(from == 7 || to == 7, 0.7);
    says(
        found(16, 4, node),
        &["node a3-7 runs at 70 % of the others"],
    );
    let node = |_, to, _| slow(to == 7, 0.7);
    says(
        found(16, 4, node),
        &["node a3-7 receives at 70 % of the others"],
    );
    let direction = |from, to, _| slow((from, to) == (3, 1), 0.5);
    says(
        found(16, 4, direction),
        &["the network from a3-3 to a3-1 runs at 50 % of the others"],
    );
    let every = |_, _, rail| slow(rail == 0, 0.5);
    says(
        found(16, 4, every),
        &["rail eth1 of all nodes runs at 50 % of the others"],
    );
    let dead = |from: usize, to: usize, _| slow(from.min(to) == 2 && from.max(to) == 5, 0.0);
    says(
        found(16, 4, dead),
        &["the network between a3-2 and a3-5: all 8 measurements are missing"],
    );
}

#[test]
fn the_cause_that_explains_most_is_first() {
    let node_and_rail = |from: usize, to: usize, rail: usize| {
        let node = slow(from == 3 || to == 3, 0.7);
        node.min(slow((from == 9 || to == 9) && rail == 0, 0.5))
    };
    assert_eq!(
        found(16, 4, node_and_rail),
        [
            "node a3-3 runs at 70 % of the others",
            "rail eth1 of a3-9 runs at 50 % of the others"
        ]
    );
}

#[test]
fn three_slow_rails_of_four_are_not_a_slow_node() {
    let three = |from, to, rail| slow((from == 7 || to == 7) && rail < 3, 0.5);
    let found = found(16, 4, three);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found.iter().all(|words| words.starts_with("rail eth")),
        "{found:?}"
    );
}

#[test]
fn in_small_meshes_a_slow_node_is_found_and_two_nodes_are_not_told_apart() {
    for nodes in [3, 4, 5] {
        let node = |from, to, _| slow(from == 1 || to == 1, 0.6);
        assert_eq!(
            found(nodes, 4, node),
            ["node a3-1 runs at 60 % of the others"],
            "{nodes}"
        );
    }
    let sends = |from, _, _| slow(from == 0, 0.6);
    assert_eq!(
        found(2, 4, sends),
        ["the network from a3-0 to a3-1 runs at 60 % of the others"]
    );
    assert_eq!(found(0, 0, |_, _, _| 1.0), [""; 0]);
}

#[test]
fn a_slow_trunk_is_the_group_and_none_of_its_nodes() {
    let names: Vec<String> = (0..32).map(|node| node.to_string()).collect();
    let groups = Groups::of(&names, |name| {
        Some(format!("rack{}", name.parse::<usize>().ok()? / 8))
    });
    let crosses = |from: usize, to: usize, _| slow((from < 8) != (to < 8), 0.6);
    let attribution = attribute(&mesh(32, 2, crosses), &[], &groups);
    let subjects: Vec<Subject> = attribution
        .findings
        .iter()
        .map(|finding| finding.subject)
        .collect();
    assert_eq!(subjects, [Subject::both(Place::Group { group: 0 })]);
    assert_eq!(attribution.nodes_at_fault(), [0; 0]);
}

#[test]
fn a_slow_node_behind_a_slow_trunk_is_told_from_its_partners() {
    let names: Vec<String> = (0..32).map(|node| node.to_string()).collect();
    let groups = Groups::of(&names, |name| {
        Some(format!("rack{}", name.parse::<usize>().ok()? / 8))
    });
    let is_met = |cell: &Cell| cell.from / 8 != cell.to / 8 || cell.from.max(cell.to) == 3;
    let rate = |from: usize, to: usize, _| {
        let trunk = slow((from < 8) != (to < 8), 0.6);
        trunk.min(slow(from == 3 || to == 3, 0.7))
    };
    // Inside its group, where the trunk does not hide it, it met three nodes, and is measured again
    // with three others, which met no other node there.
    let all = mesh(32, 4, rate);
    let first: Vec<Cell> = all.iter().copied().filter(is_met).collect();
    let is_again = |cell: &Cell| {
        let (a, b) = (cell.from.min(cell.to), cell.from.max(cell.to));
        matches!((a, b), (3, 4..=6) | (0..=3, 8..=11)) && a + 8 >= b
    };
    let again: Vec<Cell> = all.iter().copied().filter(is_again).collect();
    let attribution = attribute(&first, &again, &groups);
    let found: Vec<Subject> = attribution.findings.iter().map(|one| one.subject).collect();
    let [trunk, node] = [Place::Group { group: 0 }, Place::Node { node: 3 }].map(Subject::both);
    assert_eq!(found, [trunk, node], "{attribution:#?}");
    assert_eq!(attribution.cleared, []);
}

#[test]
fn a_retest_confirms_what_stays_and_clears_what_does_not() {
    let first = mesh(16, 4, |from, to, _| slow(from == 7 || to == 7, 0.7));
    let groups = Groups::default();
    let suspected = attribute(&first, &[], &groups);
    assert_eq!(suspected.findings[0].standing, Standing::Suspected);
    assert_eq!(suspected.nodes_at_fault(), [0; 0]);
    let meetings = retests(&suspected, 16, &groups, 64);
    assert!(
        meetings.len() >= 3
            && meetings
                .iter()
                .all(|meeting| meeting.from == 7 || meeting.to == 7)
    );
    let again = |share: f64| -> Vec<Cell> {
        let met = |cell: &&Cell| {
            meetings
                .iter()
                .any(|m| (m.from, m.to) == (cell.from.min(cell.to), cell.from.max(cell.to)))
        };
        mesh(16, 4, |_, _, _| share)
            .iter()
            .filter(met)
            .copied()
            .collect()
    };
    let stays = attribute(&first, &again(0.7), &groups);
    assert_eq!(words(16, &stays), ["node a3-7 runs at 70 % of the others"]);
    assert_eq!(
        (stays.findings[0].standing, stays.nodes_at_fault()),
        (Standing::Confirmed, vec![7])
    );
    let gone = attribute(&first, &again(1.0), &groups);
    assert_eq!((gone.findings.len(), gone.cleared.len()), (0, 1));
}

#[test]
fn all_nodes_behind_a_suspected_trunk_can_cross_it_at_a_time() {
    let names: Vec<String> = (0..16).map(|node| format!("a3-{node}")).collect();
    let groups = Groups::of(&names, |name| {
        Some(if matches!(name, "a3-12" | "a3-13" | "a3-14" | "a3-15") {
            "rack-b".to_owned()
        } else {
            "rack-a".to_owned()
        })
    });
    let is_crossing = |from: usize, to: usize| (from >= 12) != (to >= 12);
    let first = mesh(16, 4, |from, to, _| slow(is_crossing(from, to), 0.4));
    let suspected = attribute(&first, &[], &groups);
    assert_eq!(suspected.findings.len(), 1, "{suspected:#?}");
    let meetings = retests(&suspected, 16, &groups, 64);
    let ends = meetings.iter().flat_map(|one| [one.from, one.to]);
    let ends: std::collections::BTreeSet<usize> = ends.collect();
    assert_eq!((meetings.len(), ends.len()), (4, 8), "{meetings:?}");
    assert!(meetings.iter().all(|one| is_crossing(one.from, one.to)));
}

#[test]
fn a_slow_trunk_before_slow_rails_is_retested_by_four_pairs_at_a_time() {
    let names: Vec<String> = (0..16).map(|node| node.to_string()).collect();
    let groups = Groups::of(&names, |name| {
        Some((name.parse::<usize>().ok()? / 4).to_string())
    });
    let is_crossing = |from: usize, to: usize| (from < 12) != (to < 12);
    let is_slow_rail =
        |from, to, rail| rail == 1 && [13, 14].iter().any(|node| [from, to].contains(node));
    let trunk = |share: f64| {
        mesh(16, 4, |from, to, rail| {
            slow(is_crossing(from, to), share) * slow(is_slow_rail(from, to, rail), 0.5)
        })
    };
    let first = trunk(0.28);
    let suspected = attribute(&first, &[], &groups);
    let group = Place::Group { group: 3 };
    assert_eq!(suspected.findings[0].subject.place, group, "{suspected:#?}");
    assert!(suspected.findings.len() > 1, "{suspected:#?}");
    let meetings = retests(&suspected, 16, &groups, 64);
    let round = &crate::schedule::disjoint(&meetings)[0];
    let crossing = round
        .meetings
        .iter()
        .filter(|one| is_crossing(one.from, one.to));
    assert_eq!(crossing.count(), 4, "{meetings:?}");
    // Fewer crossed it at a time.
    let met = |cell: &&Cell| {
        meetings
            .iter()
            .any(|one| [one.from, one.to] == [cell.from.min(cell.to), cell.from.max(cell.to)])
    };
    for (share, standing) in [(0.56, Standing::Confirmed), (1.0, Standing::Suspected)] {
        let again: Vec<Cell> = trunk(share).iter().filter(met).copied().collect();
        let found = attribute(&first, &again, &groups).findings;
        assert_eq!(
            (found[0].subject.place, found[0].standing),
            (group, standing)
        );
    }
}

#[test]
fn one_direction_of_one_rail_of_a_pair_is_retested_often_enough_to_be_confirmed() {
    let lane = |from, to, rail| slow((from, to, rail) == (3, 1, 0), 0.5);
    let (first, groups) = (mesh(16, 4, lane), Groups::default());
    let suspected = attribute(&first, &[], &groups);
    let again = measured_again(&retests(&suspected, 16, &groups, 64), &first);
    let confirmed = attribute(&first, &again, &groups);
    assert_eq!(
        words(16, &confirmed),
        ["rail eth1 from a3-3 to a3-1 runs at 50 % of the others"]
    );
    assert_eq!(confirmed.findings[0].standing, Standing::Confirmed);
}

#[test]
fn a_lane_that_is_low_again_as_many_of_its_mesh_are_by_chance_is_not_suspected() {
    // Every sixth rate is at 91 %. One lane is lower at first, and hardly lower than these again.
    let lane = |share: f64| {
        move |from, to, rail| match (from, to, rail) {
            (3, 1, 0) => share,
            _ => slow(((from * 16 + to) * 4 + rail) % 6 == 0, 0.91),
        }
    };
    let (first, groups) = (mesh(16, 4, lane(0.86)), Groups::default());
    let suspected = attribute(&first, &[], &groups);
    assert_eq!(suspected.findings.len(), 1, "{suspected:#?}");
    let meetings = retests(&suspected, 16, &groups, 64);
    assert_eq!(meetings, [Meeting { from: 1, to: 3 }; 3]);
    let again = |shares: [f64; 3]| {
        let turn = |(meeting, share): (&Meeting, f64)| {
            measured_again(&[*meeting], &mesh(16, 4, lane(share)))
        };
        let again: Vec<Cell> = meetings.iter().zip(shares).flat_map(turn).collect();
        attribute(&first, &again, &groups)
    };
    let by_chance = again([0.87, 0.87, 0.91]);
    assert_eq!(words(16, &by_chance), [""; 0], "{by_chance:#?}");
    assert_eq!(by_chance.cleared.len(), 1, "{by_chance:#?}");
    let shown = again([0.86; 3]);
    let lane = "rail eth1 from a3-3 to a3-1 runs at 87 % of the others";
    assert_eq!(words(16, &shown), [lane]);
    assert_eq!(shown.findings[0].standing, Standing::Confirmed);
}

#[test]
fn one_direction_of_a_rail_of_two_nodes_stays_suspected_if_nothing_else_is_as_low() {
    let lane = |from, _, rail| slow((from, rail) == (0, 0), 0.5);
    let (first, groups) = (mesh(2, 4, lane), Groups::default());
    let again: Vec<Cell> = [(); 3].iter().flat_map(|()| mesh(2, 4, lane)).collect();
    let found = attribute(&first, &again, &groups);
    let said = "rail eth1 from a3-0 to a3-1 runs at 50 % of the others";
    assert_eq!(words(2, &found), [said], "{found:#?}");
}

#[test]
fn lanes_without_a_retest_are_no_suspects_if_hardly_any_retest_was_low() {
    // The machine is busy: each twentieth rate is low once.
    let at = |from: usize, to: usize, rail: usize| (from * 16 + to) * 4 + rail;
    let first = mesh(16, 4, |from, to, rail| {
        slow(at(from, to, rail) % 20 == 0, 0.8)
    });
    let groups = Groups::default();
    let suspected = attribute(&first, &[], &groups);
    assert_eq!(suspected.findings.len(), 24, "{suspected:#?}");
    let meetings = retests(&suspected, 16, &groups, 30);
    assert_eq!(meetings.len(), 27);
    let again = |share: f64| {
        let all = mesh(16, 4, |from, to, rail| {
            slow(at(from, to, rail) % 20 == 0, share)
        });
        let again = measured_again(&meetings, &all);
        attribute(&first, &again, &groups)
    };
    assert_eq!(words(16, &again(1.0)), [""; 0]);
    let shown = again(0.8);
    let are = |standing: Standing| {
        shown
            .findings
            .iter()
            .filter(move |one| one.standing == standing)
            .count()
    };
    assert_eq!(
        (are(Standing::Confirmed), are(Standing::Suspected)),
        (9, 15),
        "{shown:#?}"
    );
}

#[test]
fn a_dead_pair_is_measured_again_once_because_each_time_costs_a_time_limit() {
    let is_dead = |from: usize, to: usize| (from.min(to), from.max(to)) == (1, 15);
    let mut first = mesh(16, 4, |_, _, _| 1.0);
    for cell in first.iter_mut().filter(|cell| is_dead(cell.from, cell.to)) {
        cell.gb_per_s = None;
    }
    let groups = Groups::default();
    let suspected = attribute(&first, &[], &groups);
    let meetings = retests(&suspected, 16, &groups, 64);
    assert_eq!(meetings, [Meeting { from: 1, to: 15 }]);
    let again: Vec<Cell> = first
        .iter()
        .filter(|cell| is_dead(cell.from, cell.to))
        .copied()
        .collect();
    let confirmed = attribute(&first, &again, &groups);
    assert_eq!(confirmed.findings[0].standing, Standing::Confirmed);
}

proptest! {
    #[test]
    fn any_rates_are_judged(
        cells in prop::collection::vec((0..6usize, 0..6usize, 0..3usize, any::<f64>()), 0..80),
        split in 0..80usize,
    ) {
        let cells = cells.into_iter().filter(|(from, to, ..)| from != to);
        let cells = cells.map(|(from, to, rail, rate)| Cell { from, to, rail, gb_per_s: Some(rate), segments: None });
        let cells: Vec<Cell> = cells.collect();
        let (first, again) = cells.split_at(split.min(cells.len()));
        let attribution = attribute(first, again, &Groups::default());
        prop_assert!(attribution.findings.iter().all(|finding| finding.confidence > 0.0));
        for meeting in retests(&attribution, 6, &Groups::default(), 20) {
            prop_assert!(meeting.from < meeting.to && meeting.to < 6);
        }
    }
}
