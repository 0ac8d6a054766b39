//! Meetings that tell whether a suspect is at fault: with partners that nothing was found about.
#![forbid(unsafe_code)]

use super::subject::{Place, Subject};
use super::{Attribution, Defect, Finding, Standing};
use crate::groups::Groups;
use crate::schedule::Meeting;
use std::collections::BTreeMap;

/// Meetings of a suspect that is slow or loses segments.
const TURNS: usize = 4;
/// Meetings of a suspect whose measurements are missing: each that fails waits for a time limit on every
/// rail, and one shows whether they fail again.
const TURNS_OF_DEAD: usize = 1;
/// How often a pair meets again.
const REPEATS_MAX: usize = 3;

/// Meetings that retest the suspects of an attribution, beginning with the one that explains most,
/// at most `meetings_max`. Both directions and all rails of each are to be measured. No pair meets
/// more than three times. [`crate::schedule::disjoint`] makes rounds of them.
pub fn retests(
    attribution: &Attribution,
    nodes: usize,
    groups: &Groups,
    meetings_max: usize,
) -> Vec<Meeting> {
    let found = attribution.findings.iter().map(|finding| finding.subject);
    let is_lane = |subject: &Subject| matches!(subject.place, Place::Lane { .. });
    let mut plan = Plan {
        nodes,
        groups,
        found: found.filter(|subject| !is_lane(subject)).collect(),
        next: 0,
        meetings: Vec::new(),
        repeats: BTreeMap::new(),
    };
    let suspected = |finding: &&Finding| finding.standing == Standing::Suspected;
    for finding in attribution.findings.iter().filter(suspected) {
        let turns = match finding.defect {
            Defect::Dead { .. } => TURNS_OF_DEAD,
            Defect::Slow { .. } | Defect::Lossy { .. } => TURNS,
        };
        // A suspect that is retested in part cannot be confirmed.
        if plan.meetings.len() + turns > meetings_max {
            break;
        }
        for _ in 0..turns {
            plan.retest(finding.subject);
        }
    }
    plan.meetings
}

struct Plan<'a> {
    nodes: usize,
    groups: &'a Groups,
    /// What no partner may be part of. Lanes are left out: there can be very many, and each is one
    /// rail of one pair.
    found: Vec<Subject>,
    /// Where the search for the next partner starts, so that all good nodes take part.
    next: usize,
    meetings: Vec<Meeting>,
    repeats: BTreeMap<Meeting, usize>,
}

impl Plan<'_> {
    fn retest(&mut self, subject: Subject) {
        let groups = self.groups;
        match subject.place {
            Place::Node { node } | Place::Rail { node, .. } => {
                self.meet_a_good_one(node, subject, |_| true);
            }
            Place::Lane { a, b, .. } | Place::Pair { a, b } => {
                self.meet(a, b);
            }
            Place::Group { group } => {
                let is_inside = |node: usize| groups.of_node(node) == Some(group);
                self.across(subject, is_inside, |node| !is_inside(node));
            }
            Place::Groups { a, b } => {
                let is_in = |group: usize| move |node: usize| groups.of_node(node) == Some(group);
                self.across(subject, is_in(a), is_in(b));
            }
            Place::EveryRail { .. } => self.across(subject, |_| true, |_| true),
        }
    }

    /// The next node of one kind with a good one of another.
    fn across(
        &mut self,
        subject: Subject,
        is_one: impl Fn(usize) -> bool,
        is_other: impl Fn(usize) -> bool,
    ) {
        let mut ones: Vec<usize> = self
            .nodes_from_next()
            .filter(|&node| is_one(node))
            .collect();
        // Each turn takes another one, so that their meetings can be in one round: a slow trunk is
        // seen only where several cross it at a time.
        let is_of = |node: usize, meeting: &Meeting| meeting.from == node || meeting.to == node;
        let met = |node: &usize| self.meetings.iter().filter(|one| is_of(*node, one)).count();
        ones.sort_by_cached_key(met);
        // A node that is at fault itself has no clean meeting, but it crosses the trunk of its group.
        for one in ones.into_iter().take(TURNS * TURNS) {
            if self.meet_a_good_one(one, subject, &is_other) {
                return;
            }
        }
    }

    /// A meeting with a node that is part of no other finding; of the suspect itself it is, or not,
    /// as the caller asks for with `fits`. Without such a node there is none. What is found about `one`
    /// itself does not matter for a group, of which as many nodes as possible are to take part at a time.
    fn meet_a_good_one(
        &mut self,
        one: usize,
        subject: Subject,
        fits: impl Fn(usize) -> bool,
    ) -> bool {
        let is_of_group = matches!(subject.place, Place::Group { .. } | Place::Groups { .. });
        let is_in_the_way = |found: &&Subject| {
            **found != subject && !(is_of_group && found.touches(one, one, self.groups))
        };
        let good = self.nodes_from_next().find(|&other| {
            let others = self.found.iter().filter(is_in_the_way);
            let touches = |found: &Subject| found.touches(one, other, self.groups);
            other != one && fits(other) && !others.copied().any(|found| touches(&found))
        });
        let Some(other) = good else {
            return false;
        };
        self.next = other + 1;
        self.meet(one, other)
    }

    /// All nodes, in turn.
    fn nodes_from_next(&self) -> impl Iterator<Item = usize> + use<> {
        let (next, nodes) = (self.next, self.nodes);
        (0..nodes).map(move |step| (next + step) % nodes)
    }

    fn meet(&mut self, one: usize, other: usize) -> bool {
        let meeting = Meeting {
            from: one.min(other),
            to: one.max(other),
        };
        let repeats = self.repeats.entry(meeting).or_insert(0);
        if *repeats >= REPEATS_MAX {
            return false;
        }
        *repeats += 1;
        self.meetings.push(meeting);
        true
    }
}
