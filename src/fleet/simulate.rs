//! Meshes with planted faults, and how well they are found.
//!
//! A rate is that of the slowest part on its way, as in a real network, times noise. Nodes differ a
//! little even without a fault.
#![forbid(unsafe_code)]

use crate::attribute::{
    Attribution, Cell, Defect, Place, Segments, Standing, Subject, Way, attribute, retests,
};
use crate::groups::Groups;
use crate::schedule::{Meeting, Round, rounds};
use crate::seed::Numbers;
use tcpx_words::pattern::Pattern;
use tcpx_words::word_set;

/// What a healthy rail moves.
const GB_PER_S: f64 = 20.0;
/// Segments of a measurement.
const SEGMENTS: usize = 540;
/// The share of its rate that a rail keeps that loses segments.
const LOSSY_RATIO: f64 = 0.97;
/// The share of segments that it loses.
const LOSSY_SHARE: f64 = 0.03;
/// How much healthy nodes differ, in their logarithm.
const NODES_DIFFER: f64 = 0.01;
/// Most meetings in a retest: per node, and in a small mesh.
const RETESTS_PER_NODE: usize = 1;
const RETESTS_MIN: usize = 64;
/// How often a place is drawn for a fault; in the second half also behind a slow trunk, because a small
/// mesh has no other.
const TRIES_MAX: usize = 10_000;

word_set! {
    /// How measurements scatter.
    pub enum Noise {
        /// Their logarithm is normal.
        Lognormal = "lognormal",
        /// As Student's t with 3 degrees of freedom, scaled to the same middle half.
        HeavyTails = "heavy-tails",
        /// Lognormal, and one in 50 measurements is disturbed: 30 to 90 % of its rate.
        Disturbed = "disturbed",
    }
}

word_set! {
    /// A kind of planted fault.
    pub enum Fault {
        /// A rail of a node at 50 %, both directions.
        Rail = "rail at 50 %",
        /// A node at 70 %.
        Node = "node at 70 %",
        /// What a rail of a node sends, at 60 %.
        RailSends = "rail sends at 60 %",
        /// One direction of a pair at 50 %.
        Direction = "direction at 50 %",
        /// A pair whose measurements fail.
        DeadPair = "dead pair",
        /// What a rail of a node sends loses 3 % of its segments, and is hardly slower.
        Lossy = "rail loses 3 %",
        /// All that crosses the trunk of a group, at 60 %.
        Group = "group at 60 %",
    }
}

/// A mesh to simulate.
#[derive(Debug, Clone)]
pub struct Mesh {
    /// How many nodes there are.
    pub nodes: usize,
    /// Rails of each node.
    pub rails: usize,
    /// Nodes of each group.
    pub group: usize,
    /// Who meets whom.
    pub pattern: Pattern,
    /// How measurements scatter.
    pub noise: Noise,
    /// By how much: 0.1 is 10 %.
    pub scatter: f64,
    /// Whether a fault may be behind the slow trunk of a group, which hides it where it is not slower
    /// than the trunk.
    pub hides: bool,
}

/// How findings compare with planted faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// Planted and named.
    pub right: usize,
    /// Named and not planted.
    pub wrong: usize,
    /// Planted and not named.
    pub missed: usize,
}

impl Score {
    /// Adds another run.
    pub fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missed += other.missed;
    }

    /// The share of names that are right; 1 without a name.
    pub fn precision(&self) -> f64 {
        share(self.right, self.wrong)
    }

    /// The share of faults that are named; 1 without a fault.
    pub fn recall(&self) -> f64 {
        share(self.right, self.missed)
    }
}

fn share(part: usize, rest: usize) -> f64 {
    if part + rest == 0 {
        1.0
    } else {
        part as f64 / (part + rest) as f64
    }
}

/// Simulates one run: measures, retests the suspects, and compares what is confirmed with `faults`
/// that it plants, in turn of these kinds.
pub fn run(
    mesh: &Mesh,
    kinds: &[Fault],
    faults: usize,
    seed: u64,
) -> (Score, Attribution, Vec<Subject>) {
    let mut run = Run::new(mesh, seed);
    let schedule = rounds(mesh.pattern, mesh.nodes, 0, seed);
    run.plant(kinds, faults, &schedule);
    let meetings: Vec<Meeting> = schedule
        .into_iter()
        .flat_map(|round| round.meetings)
        .collect();
    let cells = run.measure(&meetings);
    let first = attribute(&cells, &[], &run.groups);
    let again = retests(
        &first,
        mesh.nodes,
        &run.groups,
        (RETESTS_PER_NODE * mesh.nodes).max(RETESTS_MIN),
    );
    let again = run.measure(&again);
    let second = attribute(&cells, &again, &run.groups);
    let named = second
        .findings
        .iter()
        .filter(|finding| finding.standing == Standing::Confirmed);
    let named: Vec<(Subject, Kind)> = named
        .map(|finding| (finding.subject, kind_of(&finding.defect)))
        .collect();
    let planted: Vec<(Subject, Kind)> = run
        .planted
        .iter()
        .map(|(subject, ratio)| (*subject, planted_kind(*ratio)))
        .collect();
    let right = named.iter().filter(|name| planted.contains(name)).count();
    let score = Score {
        right,
        wrong: named.len() - right,
        missed: planted.len() - right,
    };
    (
        score,
        second,
        planted.into_iter().map(|(subject, _)| subject).collect(),
    )
}

/// What is wrong with a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Slow,
    Dead,
    Lossy,
}

fn kind_of(defect: &Defect) -> Kind {
    match defect {
        Defect::Slow { .. } => Kind::Slow,
        Defect::Dead { .. } => Kind::Dead,
        Defect::Lossy { .. } => Kind::Lossy,
    }
}

fn planted_kind(ratio: f64) -> Kind {
    match ratio {
        0.0 => Kind::Dead,
        LOSSY_RATIO => Kind::Lossy,
        _ => Kind::Slow,
    }
}

struct Run<'a> {
    mesh: &'a Mesh,
    numbers: Numbers,
    /// For lost segments: the rates of a seed stay the same.
    losses: Numbers,
    groups: Groups,
    /// The logarithm of what each node does differently.
    nodes: Vec<f64>,
    /// Parts and their share of the healthy rate; 0 is dead.
    planted: Vec<(Subject, f64)>,
}

impl<'a> Run<'a> {
    fn new(mesh: &'a Mesh, seed: u64) -> Self {
        let mut numbers = Numbers::of(seed ^ 0x5151);
        let names: Vec<String> = (0..mesh.nodes).map(|node| node.to_string()).collect();
        let group_of =
            |name: &str| Some(format!("{:03}", name.parse::<usize>().ok()? / mesh.group));
        Self {
            mesh,
            groups: Groups::of(&names, group_of),
            nodes: (0..mesh.nodes)
                .map(|_| NODES_DIFFER * normal(&mut numbers))
                .collect(),
            numbers,
            losses: Numbers::of(seed ^ 0xa5a5),
            planted: Vec::new(),
        }
    }

    /// Plants faults of these kinds in turn, on parts that do not overlap; with `hides`, some may be
    /// inside a slow group.
    fn plant(&mut self, kinds: &[Fault], faults: usize, schedule: &[Round]) {
        let met: Vec<Meeting> = schedule
            .iter()
            .flat_map(|round| round.meetings.clone())
            .collect();
        let mut nodes: Vec<usize> = Vec::new();
        let mut groups: Vec<usize> = Vec::new();
        let group_of = |node: &usize| self.groups.of_node(*node).unwrap_or_default();
        for tries in 0..TRIES_MAX {
            if self.planted.len() >= faults {
                return;
            }
            let kind = kinds[self.planted.len() % kinds.len()];
            let node = self.numbers.below(self.mesh.nodes);
            let rail = self.numbers.below(self.mesh.rails);
            let meeting = met[self.numbers.below(met.len())];
            let (a, b) = (meeting.from, meeting.to);
            let group = group_of(&node);
            let (place, way, ratio, used) = match kind {
                Fault::Rail => (Place::Rail { node, rail }, Way::Both, 0.5, vec![node]),
                Fault::Lossy => (
                    Place::Rail { node, rail },
                    Way::Sends,
                    LOSSY_RATIO,
                    vec![node],
                ),
                Fault::RailSends => (Place::Rail { node, rail }, Way::Sends, 0.6, vec![node]),
                Fault::Node => (Place::Node { node }, Way::Both, 0.7, vec![node]),
                Fault::Direction => (Place::Pair { a, b }, Way::Sends, 0.5, vec![a, b]),
                Fault::DeadPair => (Place::Pair { a, b }, Way::Both, 0.0, vec![a, b]),
                Fault::Group => (Place::Group { group }, Way::Both, 0.6, vec![]),
            };
            let is_group = kind == Fault::Group;
            let is_hidden = !self.mesh.hides
                && tries < TRIES_MAX / 2
                && match is_group {
                    true => nodes.iter().any(|node| group_of(node) == group),
                    false => used.iter().any(|node| groups.contains(&group_of(node))),
                };
            let is_taken = used.iter().any(|node| nodes.contains(node));
            if is_hidden || is_taken || is_group && groups.contains(&group) {
                continue;
            }
            nodes.extend(used);
            groups.extend(is_group.then_some(group));
            self.planted.push((Subject { place, way }, ratio));
        }
    }

    fn measure(&mut self, meetings: &[Meeting]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(meetings.len() * 2 * self.mesh.rails);
        for meeting in meetings {
            for (from, to) in [(meeting.from, meeting.to), (meeting.to, meeting.from)] {
                for rail in 0..self.mesh.rails {
                    let gb_per_s = self.rate(from, to, rail);
                    let segments = Some(self.segments(from, to, rail));
                    cells.push(Cell {
                        from,
                        to,
                        rail,
                        gb_per_s,
                        segments,
                    });
                }
            }
        }
        cells
    }

    fn rate(&mut self, from: usize, to: usize, rail: usize) -> Option<f64> {
        let hit = self
            .planted
            .iter()
            .filter(|(subject, _)| subject.covers(from, to, rail, &self.groups));
        let slowest = hit.map(|(_, ratio)| *ratio).fold(1.0, f64::min);
        let log = self.nodes[from] + self.nodes[to] + self.mesh.scatter * self.noise();
        (slowest > 0.0).then(|| GB_PER_S * slowest * log.exp())
    }

    /// Healthy measurements lose up to two segments, and, if they are disturbed, up to 5 %.
    fn segments(&mut self, from: usize, to: usize, rail: usize) -> Segments {
        let mut parts = self.planted.iter();
        let is_lossy = parts.any(|(subject, ratio)| {
            *ratio == LOSSY_RATIO && subject.covers(from, to, rail, &self.groups)
        });
        let numbers = &mut self.losses;
        let lost = match self.mesh.noise {
            _ if is_lossy => (0..SEGMENTS)
                .filter(|_| unit(numbers) < LOSSY_SHARE)
                .count(),
            Noise::Disturbed if numbers.below(50) == 0 => numbers.below(SEGMENTS / 20),
            _ => numbers.below(3),
        };
        Segments {
            sent: SEGMENTS as u64,
            lost: lost as u64,
        }
    }

    fn noise(&mut self) -> f64 {
        let numbers = &mut self.numbers;
        match self.mesh.noise {
            Noise::Lognormal => normal(numbers),
            Noise::HeavyTails => {
                let squares: f64 = (0..3).map(|_| normal(numbers).powi(2)).sum();
                // The quartiles of t3 are at 0.765, those of a normal distribution at 0.674.
                0.674 / 0.765 * normal(numbers) / (squares / 3.0).sqrt()
            }
            Noise::Disturbed => {
                let quiet = normal(numbers);
                if numbers.below(50) > 0 {
                    return quiet;
                }
                (0.3 + 0.6 * unit(numbers)).ln() / self.mesh.scatter + quiet
            }
        }
    }
}

/// From 0 to 1, and never 0.
fn unit(numbers: &mut Numbers) -> f64 {
    ((numbers.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Box and Muller's.
fn normal(numbers: &mut Numbers) -> f64 {
    let (radius, turn) = (unit(numbers), unit(numbers));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::Finding;

    fn mesh(nodes: usize, pattern: Pattern, noise: Noise) -> Mesh {
        Mesh {
            nodes,
            rails: 4,
            group: 4,
            pattern,
            noise,
            scatter: 0.1,
            hides: false,
        }
    }

    #[test]
    fn every_kind_of_fault_is_named_and_nothing_else() {
        for &noise in Noise::ALL {
            // All kinds in the first noise; in the others those of the fewest measurements.
            let kinds = match noise {
                Noise::Lognormal => Fault::ALL,
                Noise::HeavyTails | Noise::Disturbed => &[Fault::RailSends, Fault::Direction],
            };
            for &kind in kinds {
                let (score, found, planted) = run(&mesh(32, Pattern::Pairs, noise), &[kind], 2, 3);
                let right = Score {
                    right: 2,
                    wrong: 0,
                    missed: 0,
                };
                assert_eq!(
                    score, right,
                    "{noise}, {kind}: planted {planted:?}, found {found:#?}"
                );
            }
        }
    }

    #[test]
    fn faults_of_all_kinds_at_once_are_named_in_a_sample_of_the_pairs() {
        let sampled = mesh(128, Pattern::Sampled, Noise::Lognormal);
        let kinds = [
            Fault::Rail,
            Fault::Node,
            Fault::RailSends,
            Fault::Direction,
            Fault::DeadPair,
        ];
        let (score, found, planted) = run(&sampled, &kinds, 5, 1);
        assert_eq!(
            (score.wrong, score.missed),
            (0, 0),
            "planted {planted:?}, found {found:#?}"
        );
    }

    #[test]
    fn retests_of_others_make_nothing_suspect() {
        let mesh = mesh(16, Pattern::Pairs, Noise::HeavyTails);
        let schedule = rounds(mesh.pattern, mesh.nodes, 0, 0);
        for seed in 0..20 {
            let mut run = Run::new(&mesh, seed);
            run.plant(&[Fault::Node], 1, &schedule);
            let meetings: Vec<Meeting> = schedule
                .iter()
                .flat_map(|round| round.meetings.clone())
                .collect();
            let cells = run.measure(&meetings);
            let first = attribute(&cells, &[], &run.groups);
            let again = retests(&first, mesh.nodes, &run.groups, 4);
            let second = attribute(&cells, &run.measure(&again), &run.groups);
            let was_suspected = |finding: &&Finding| {
                let mut before = first.findings.iter();
                before.any(|one| one.subject == finding.subject)
            };
            let few = second.findings.iter().filter(|one| one.measurements <= 2);
            let new: Vec<&Finding> = few.filter(|one| !was_suspected(one)).collect();
            assert!(new.is_empty(), "seed {seed}: {new:#?}");
        }
    }

    #[test]
    fn in_healthy_meshes_nothing_is_named() {
        for &noise in Noise::ALL {
            for seed in 0..5 {
                let (score, found, _) =
                    run(&mesh(16, Pattern::Pairs, noise), &[Fault::Rail], 0, seed);
                assert_eq!(score, Score::default(), "{noise}, seed {seed}: {found:#?}");
            }
        }
    }
}
