//! Parts that lose segments, far more than the others.
//!
//! TCP hides a loss of a few per cent where round trips are short: the rate of such a part is hardly lower
//! than that of the others. A measurement counts as lossy or not, and parts are found as dead ones
//! are: the fewest that explain the lossy measurements, where chance does not.
#![forbid(unsafe_code)]

use super::cover::{counts, cover};
use super::fit::{CONFIDENCE_MIN, Effect};
use super::robust;
use super::subject::Subject;
use super::table::Table;
use super::{CONFIRMED_MIN, Finding, Segments};
use std::collections::{BTreeSet, HashMap};

/// A measurement is lossy from this share of segments on. On a loaded machine without a fault up to
/// 0.3 % were seen.
const SHARE_MIN: f64 = 0.005;
/// And from this many times the median of all: a network may lose some everywhere.
const TIMES_MIN: f64 = 5.0;
/// And from so many segments on.
const LOST_MIN: u64 = 3;
/// How many measurements are lossy by chance at least.
const CHANCE_MIN: f64 = 0.01;
/// Of fewer lossy measurements all can be of one moment: both directions are measured at a time.
const LOSSY_MIN: usize = 3;
/// Fewer retests can be chance.
const AGAIN_MIN: usize = 3;
/// A slow part is inside a lossy one if this share of its rates is.
const INSIDE: f64 = 0.85;
/// A slow part loses segments itself, as a full queue does, if this share of its rates does.
const CONGESTED: f64 = 0.2;

/// A part that loses segments.
#[derive(Debug, Clone)]
pub(super) struct Lossy {
    pub(super) subject: Subject,
    /// The share of segments that it lost, and that all others did.
    pub(super) share: f64,
    pub(super) others: f64,
    /// Its measurements.
    pub(super) measurements: usize,
    pub(super) confidence: f64,
    /// How many measurements it explains, less those that it does not: comparable with the gain of a slow part.
    gain: f64,
    /// Whether retests show it, too; `None` without enough of them.
    pub(super) is_confirmed: Option<bool>,
}

/// What is known of the segments of a part.
#[derive(Clone, Copy, Default)]
struct Tally {
    counted: usize,
    lossy: usize,
    segments: Segments,
}

struct Losses<'a> {
    table: &'a Table<'a>,
    threshold: f64,
    all: Tally,
}

/// The fewest parts that explain the measurements that lost segments.
pub(super) fn lossy_parts(table: &Table<'_>) -> Vec<Lossy> {
    let losses = Losses::new(table);
    let rates = table.rates.iter().enumerate();
    let lossy = rates.filter(|(_, rate)| rate.segments.is_some_and(|one| losses.is_lossy(one)));
    let open: BTreeSet<usize> = lossy.map(|(at, _)| at).collect();
    let key = |at: &usize| {
        let rate = table.rates[*at];
        (rate.from, rate.to, rate.rail)
    };
    let parts = counts(&open, key, table.groups).into_keys();
    let tallies: HashMap<Subject, Tally> = parts
        .map(|subject| (subject, losses.of(subject, |_| true)))
        .collect();
    let clean = |subject: &Subject| {
        let tally = tallies[subject];
        tally.counted - tally.lossy
    };
    let is_enough =
        |(subject, _): &(Subject, usize)| losses.confidence(tallies[subject]) >= CONFIDENCE_MIN;
    let found = cover(open, key, clean, table.groups, is_enough);
    let found = found.into_iter().map(|(subject, _)| {
        let tally = tallies[&subject];
        let confidence = losses.confidence(tally);
        let rest = Segments {
            sent: losses.all.segments.sent - tally.segments.sent,
            lost: losses.all.segments.lost - tally.segments.lost,
        };
        Lossy {
            subject,
            share: tally.segments.share(),
            others: rest.share(),
            measurements: tally.counted,
            confidence,
            gain: tally.lossy as f64 - clean(&subject) as f64,
            is_confirmed: losses.is_confirmed(subject, confidence),
        }
    });
    found.collect()
}

impl<'a> Losses<'a> {
    fn new(table: &'a Table<'a>) -> Self {
        let known = table.rates.iter().filter_map(|rate| rate.segments);
        let mut shares: Vec<f64> = known.map(Segments::share).collect();
        let threshold = SHARE_MIN.max(TIMES_MIN * robust::median(&mut shares));
        let mut losses = Self {
            table,
            threshold,
            all: Tally::default(),
        };
        losses.all = losses.tally(0..table.rates.len());
        losses
    }

    fn is_lossy(&self, segments: Segments) -> bool {
        segments.lost >= LOST_MIN && segments.share() >= self.threshold
    }

    fn tally(&self, rates: impl IntoIterator<Item = usize>) -> Tally {
        let mut tally = Tally::default();
        for segments in rates
            .into_iter()
            .filter_map(|at| self.table.rates[at].segments)
        {
            tally.counted += 1;
            tally.lossy += usize::from(self.is_lossy(segments));
            tally.segments = tally.segments.and(segments);
        }
        tally
    }

    /// Of the measurements of a part that `is_wanted` takes.
    fn of(&self, subject: Subject, is_wanted: impl Fn(usize) -> bool) -> Tally {
        let mut rates = Vec::new();
        self.table.rates_of(subject, &mut rates);
        rates.retain(|at| is_wanted(*at));
        self.tally(rates)
    }

    /// How likely it is that chance makes no part as lossy as this, if it makes any measurement lossy
    /// as often as those of the rest are. From a bound, so rather too low.
    fn confidence(&self, part: Tally) -> f64 {
        let rest = self.all.counted - part.counted;
        if part.lossy < LOSSY_MIN || rest == 0 {
            return 0.0;
        }
        let chance = (self.all.lossy - part.lossy) as f64 / rest as f64;
        let chance = chance.max(CHANCE_MIN);
        let share = part.lossy as f64 / part.counted as f64;
        if share <= chance {
            return 0.0;
        }
        // Chernoff's bound of the binomial distribution's tail.
        let term = |share: f64, chance: f64| match share {
            0.0 => 0.0,
            _ => share * (share / chance).ln(),
        };
        let distance = term(share, chance) + term(1.0 - share, 1.0 - chance);
        let tail = (-(part.counted as f64) * distance).exp();
        // A kind of part has at most as many parts as there are measurements.
        (1.0 - self.all.counted as f64 * tail).max(0.0)
    }

    fn is_confirmed(&self, subject: Subject, confidence: f64) -> Option<bool> {
        let again = self.of(subject, |at| self.table.rates[at].is_retest);
        if again.counted > 0 && 2 * again.lossy < again.counted {
            return Some(false);
        }
        let is_shown = again.counted >= AGAIN_MIN && confidence >= CONFIRMED_MIN;
        is_shown.then_some(true)
    }

    /// Whether a slow part loses segments outside of a lossy one, too: then its queue is full, and the lossy
    /// part is one of those that show it.
    fn is_congested(&self, slow: Subject, lossy: Subject) -> bool {
        let mut inside = Vec::new();
        self.table.rates_of(lossy, &mut inside);
        let inside: BTreeSet<usize> = inside.into_iter().collect();
        let rest = self.of(slow, |at| !inside.contains(&at));
        let of_both = self.of(slow, |at| inside.contains(&at));
        of_both.lossy > 0
            && rest.counted > 0
            && rest.lossy as f64 >= CONGESTED * rest.counted as f64
    }

    /// Whether a slow part is inside a lossy one, in any direction: one waits for the other.
    fn is_inside(&self, slow: Subject, lossy: Subject) -> bool {
        let (mut rates, mut all) = (Vec::new(), Vec::new());
        self.table.rates_of(slow, &mut rates);
        self.table.rates_of(Subject::both(lossy.place), &mut all);
        let all: BTreeSet<usize> = all.into_iter().collect();
        let inside = rates.iter().filter(|at| all.contains(at)).count();
        inside as f64 >= INSIDE * rates.len() as f64
    }
}

/// The findings about slow and lossy parts, the part that explains most first: one about a part that is both, and
/// none about what a part of the other kind explains.
pub(super) fn merged(
    slow: &[(Effect, Option<bool>)],
    mut lossy: Vec<Lossy>,
    table: &Table<'_>,
) -> Vec<Finding> {
    let losses = Losses::new(table);
    lossy.retain(|lossy| {
        let mut elsewhere = slow
            .iter()
            .map(|(effect, _)| effect.subject)
            .filter(|slow| slow.place != lossy.subject.place);
        !elsewhere.any(|slow| losses.is_congested(slow, lossy.subject))
    });
    let mut findings = Vec::new();
    let mut is_told = vec![false; lossy.len()];
    for one in slow {
        let subject = one.0.subject;
        let same = lossy
            .iter()
            .position(|lossy| lossy.subject.place == subject.place);
        if let Some(at) = same {
            if !std::mem::replace(&mut is_told[at], true) {
                let gain = one.0.gain.max(lossy[at].gain);
                findings.push((gain, Finding::of_lossy(&lossy[at], Some(one))));
            }
        } else if !lossy
            .iter()
            .any(|lossy| losses.is_inside(subject, lossy.subject))
        {
            let finding = Finding::of_slow(&one.0, one.1 == Some(true));
            findings.push((one.0.gain, finding));
        }
    }
    let rest = lossy.iter().zip(is_told).filter(|(_, is_told)| !is_told);
    findings.extend(rest.map(|(lossy, _)| (lossy.gain, Finding::of_lossy(lossy, None))));
    findings.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    findings.into_iter().map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::subject::{Place, Way};
    use super::super::{Attribution, Cell, Defect, Standing, attribute, retests};
    use super::*;
    use crate::groups::Groups;
    use proptest::prelude::*;

    const NODES: usize = 8;
    const RAILS: usize = 4;
    const SENT: u64 = 540;

    /// All pairs: what each measurement lost, and its share of the full rate.
    fn mesh(of: impl Fn(usize, usize, usize) -> (u64, f64)) -> Vec<Cell> {
        let mut cells = Vec::new();
        for from in 0..NODES {
            for to in (0..NODES).filter(|&to| to != from) {
                for rail in 0..RAILS {
                    let (lost, share) = of(from, to, rail);
                    let wobble = 0.992 + 0.002 * ((cells.len() * 7 + from * 3 + to * 5) % 9) as f64;
                    cells.push(Cell {
                        from,
                        to,
                        rail,
                        gb_per_s: Some(20.0 * wobble * share),
                        segments: Some(Segments { sent: SENT, lost }),
                    });
                }
            }
        }
        cells
    }

    fn subjects(found: &Attribution) -> Vec<Subject> {
        found.findings.iter().map(|one| one.subject).collect()
    }

    fn sends(place: Place) -> Subject {
        let way = Way::Sends;
        Subject { place, way }
    }

    /// What is lost by chance, in a fixed order.
    fn quiet(from: usize, to: usize, rail: usize) -> u64 {
        u64::from((from * 5 + to * 3 + rail * 7).is_multiple_of(11))
    }

    #[test]
    fn what_loses_segments_is_named_although_its_rate_is_hardly_lower() {
        let check = |subject: Subject| {
            let groups = Groups::default();
            let cells = mesh(
                |from, to, rail| match subject.covers(from, to, rail, &groups) {
                    // As measured of a direction that loses 5 % of its packets.
                    true => (
                        [61, 31, 30, 46, 12, 53, 16, 8, 33, 16, 7][(from + to) % 11],
                        0.97,
                    ),
                    false => (quiet(from, to, rail), 1.0),
                },
            );
            let first = attribute(&cells, &[], &groups);
            assert_eq!(subjects(&first), [subject], "{first:#?}");
            let meetings = retests(&first, NODES, &groups, 64);
            let again = meetings.iter().flat_map(|meeting| {
                let ends = |cell: &&Cell| {
                    (cell.from.min(cell.to), cell.from.max(cell.to)) == (meeting.from, meeting.to)
                };
                cells.iter().filter(ends).copied()
            });
            let again: Vec<Cell> = again.collect();
            let second = attribute(&cells, &again, &groups);
            assert_eq!(subjects(&second), [subject], "{second:#?}");
            assert_eq!(second.findings[0].standing, Standing::Confirmed);
            // Without loss in the retests, it was chance.
            let healthy = again.iter().map(|cell| Cell {
                segments: Some(Segments {
                    sent: SENT,
                    lost: 0,
                }),
                ..*cell
            });
            let third = attribute(&cells, &healthy.collect::<Vec<_>>(), &groups);
            assert_eq!(third.findings, []);
        };
        check(sends(Place::Rail { node: 0, rail: 1 }));
        check(Subject::both(Place::Rail { node: 3, rail: 0 }));
        check(Subject {
            place: Place::Node { node: 5 },
            way: Way::Receives,
        });
        check(sends(Place::Pair { a: 1, b: 6 }));
        check(Subject::both(Place::EveryRail { rail: 2 }));
    }

    #[test]
    fn a_part_that_is_slow_and_loses_segments_is_one_finding_with_the_direction_that_loses() {
        let rail = Place::Rail { node: 3, rail: 1 };
        let cells = mesh(|from, to, rail| {
            let is_sent = (from, rail) == (3, 1);
            let is_slow = is_sent || (to, rail) == (3, 1);
            (
                if is_sent { 40 } else { 0 },
                if is_slow { 0.6 } else { 1.0 },
            )
        });
        let found = attribute(&cells, &[], &Groups::default());
        assert_eq!(subjects(&found), [sends(rail)], "{found:#?}");
        let Defect::Lossy {
            share,
            others,
            ratio,
        } = found.findings[0].defect
        else {
            panic!("{found:#?}")
        };
        assert!((share - 40.0 / 540.0).abs() < 1e-9 && others == 0.0);
        assert!(ratio.is_some_and(|ratio| (0.55..0.65).contains(&ratio)));
    }

    #[test]
    fn a_lossy_rail_explains_its_slow_lanes_and_a_full_queue_its_losses() {
        let rail = Place::Rail { node: 0, rail: 1 };
        let lanes = |from, to, rail| match (from, to, rail) {
            (0, to, 1) => (30, if to % 3 == 0 { 0.6 } else { 1.0 }),
            (from, 0, 1) if from % 3 == 0 => (0, 0.6),
            _ => (0, 1.0),
        };
        let found = attribute(&mesh(lanes), &[], &Groups::default());
        assert_eq!(subjects(&found), [sends(rail)], "{found:#?}");
        // The queue of a slow node overflows now and then, most on one rail.
        let queue = |from: usize, to: usize, rail: usize| match from == 2 || to == 2 {
            true if rail == 3 || (from + to + rail).is_multiple_of(3) => (20, 0.5),
            true => (0, 0.5),
            false => (0, 1.0),
        };
        let found = attribute(&mesh(queue), &[], &Groups::default());
        assert_eq!(
            subjects(&found),
            [Subject::both(Place::Node { node: 2 })],
            "{found:#?}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nothing_is_named_in_a_healthy_mesh_that_loses_segments_here_and_there(
            seed in any::<u64>(), per_mille in 0..40u64, burst in 0..20u64,
        ) {
            let mut numbers = crate::seed::Numbers::of(seed);
            // Any measurement may lose a few, and one in 100 a burst.
            let lost: Vec<u64> = (0..NODES * NODES * RAILS)
                .map(|_| {
                    let few = numbers.below(1 + (2 * per_mille * SENT / 1000) as usize) as u64;
                    let is_burst = numbers.below(100) == 0;
                    if is_burst { few + 3 * burst } else { few }
                })
                .collect();
            let cells = mesh(|from, to, rail| (lost[(from * NODES + to) * RAILS + rail], 1.0));
            let found = attribute(&cells, &[], &Groups::default());
            prop_assert_eq!(found.findings, []);
        }
    }
}
