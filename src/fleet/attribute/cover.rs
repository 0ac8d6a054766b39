//! The fewest parts that explain a set of measurements: those that are missing, or lose segments.
#![forbid(unsafe_code)]

use super::subject::Subject;
use crate::groups::Groups;
use std::collections::{BTreeMap, BTreeSet};

/// Sender, receiver and rail of a measurement.
pub(super) type Key = (usize, usize, usize);

/// Again and again the part with most measurements of `open` that no earlier part explains, less its
/// measurements that are not of `open`: `others` has their number. Each part is returned with the
/// measurements that only it explains; one that `is_enough` refuses is left out.
pub(super) fn cover<T: Copy + Ord>(
    mut open: BTreeSet<T>,
    key: impl Fn(&T) -> Key,
    others: impl Fn(&Subject) -> usize,
    groups: &Groups,
    is_enough: impl Fn(&(Subject, usize)) -> bool,
) -> Vec<(Subject, BTreeSet<T>)> {
    let mut found = Vec::new();
    while !open.is_empty() {
        let explained = |(subject, count): &(Subject, usize)| count.saturating_sub(others(subject));
        let candidates = counts(&open, &key, groups).into_iter().filter(&is_enough);
        let best = candidates.max_by(|one, other| {
            explained(one)
                .cmp(&explained(other))
                .then(other.0.cmp(&one.0))
        });
        let Some((subject, _)) = best.filter(|best| explained(best) > 0) else {
            break;
        };
        let is_of_it = |one: &T| {
            let (from, to, rail) = key(one);
            subject.covers(from, to, rail, groups)
        };
        let (of_it, rest) = open.iter().partition(|one| is_of_it(one));
        open = rest;
        found.push((subject, of_it));
    }
    found
}

/// Every part of these measurements, with the number of those that are of it.
pub(super) fn counts<T>(
    open: &BTreeSet<T>,
    key: impl Fn(&T) -> Key,
    groups: &Groups,
) -> BTreeMap<Subject, usize> {
    let mut counts = BTreeMap::new();
    for (from, to, rail) in open.iter().map(key) {
        for subject in Subject::of_measurement(from, to, rail, groups) {
            *counts.entry(subject).or_insert(0) += 1;
        }
    }
    counts
}
