//! Dead parts: those whose measurements are missing.
#![forbid(unsafe_code)]

use super::Cell;
use super::cover::{Key, counts, cover};
use super::subject::Subject;
use super::table::Table;
use crate::groups::Groups;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A part whose measurements are missing, wholly or mostly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dead {
    pub(super) subject: Subject,
    /// Its measurements that are missing.
    pub(super) missing: usize,
    /// All of its measurements.
    pub(super) measured: usize,
    /// Whether they are missing in a retest, too; `None` without a retest.
    pub(super) is_confirmed: Option<bool>,
}

/// The fewest parts that explain what is missing. A measurement that a retest brought back is not
/// missing.
pub(super) fn dead_parts(
    cells: &[Cell],
    retests: &[Cell],
    table: &Table<'_>,
    groups: &Groups,
) -> Vec<Dead> {
    if table.rates.is_empty() {
        // Nothing to compare with: the whole mesh is dead.
        return Vec::new();
    }
    let key = |cell: &Cell| (cell.from, cell.to, cell.rail);
    let mut is_dead: BTreeMap<Key, bool> = BTreeMap::new();
    for cell in cells
        .iter()
        .chain(retests)
        .filter(|cell| cell.rate().is_none())
    {
        is_dead.insert(key(cell), true);
    }
    for cell in retests.iter().filter(|cell| cell.rate().is_some()) {
        is_dead
            .entry(key(cell))
            .and_modify(|is_dead| *is_dead = false);
    }
    let open: BTreeSet<Key> = is_dead
        .into_iter()
        .filter(|(_, is_dead)| *is_dead)
        .map(|(key, _)| key)
        .collect();
    let mut alive: HashMap<Subject, usize> = HashMap::new();
    let mut all_missing: HashMap<Subject, usize> = HashMap::new();
    for (subject, missing) in counts(&open, |key| *key, groups) {
        let mut rates = Vec::new();
        table.rates_of(subject, &mut rates);
        alive.insert(subject, rates.len());
        all_missing.insert(subject, missing);
    }
    let is_alive = |subject: &Subject| alive[subject];
    let parts = cover(open, |key| *key, is_alive, groups, |_| true);
    let found = parts.into_iter().map(|(subject, of_it)| {
        let again = retests
            .iter()
            .filter(|cell| subject.covers(cell.from, cell.to, cell.rail, groups));
        let is_confirmed = again
            .map(|cell| of_it.contains(&key(cell)))
            .reduce(|one, other| one || other);
        let missing = all_missing[&subject];
        Dead {
            subject,
            missing,
            measured: missing + alive[&subject],
            is_confirmed,
        }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::subject::{Place, Way};

    const NODES: usize = 6;
    const RAILS: usize = 2;

    /// All pairs, where `is_dead` says which measurements are missing.
    fn cells(is_dead: impl Fn(usize, usize, usize) -> bool) -> Vec<Cell> {
        let mut cells = Vec::new();
        for from in 0..NODES {
            for to in (0..NODES).filter(|&to| to != from) {
                for rail in 0..RAILS {
                    let gb_per_s = (!is_dead(from, to, rail)).then_some(10.0);
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

    fn found(cells: &[Cell], retests: &[Cell]) -> Vec<(Subject, usize, usize, Option<bool>)> {
        let groups = Groups::default();
        let table = Table::new(cells, retests, &groups);
        let dead = dead_parts(cells, retests, &table, &groups).into_iter();
        dead.map(|dead| (dead.subject, dead.missing, dead.measured, dead.is_confirmed))
            .collect()
    }

    fn sends(place: Place) -> Subject {
        let way = Way::Sends;
        Subject { place, way }
    }

    #[test]
    fn the_fewest_parts_explain_what_is_missing() {
        let check = |cells: Vec<Cell>, expected: &[(Subject, usize, usize)]| {
            let found: Vec<_> = found(&cells, &[])
                .into_iter()
                .map(|(part, missing, of, _)| (part, missing, of))
                .collect();
            assert_eq!(found, expected);
        };
        check(cells(|_, _, _| false), &[]);
        let node = Subject::both(Place::Node { node: 3 });
        check(cells(|from, to, _| from == 3 || to == 3), &[(node, 20, 20)]);
        let rail = Subject::both(Place::Rail { node: 3, rail: 1 });
        check(
            cells(|from, to, rail| rail == 1 && (from == 3 || to == 3)),
            &[(rail, 10, 10)],
        );
        let direction = sends(Place::Pair { a: 1, b: 4 });
        check(
            cells(|from, to, _| (from, to) == (1, 4)),
            &[(direction, 2, 2)],
        );
        let lane = sends(Place::Lane {
            a: 1,
            b: 4,
            rail: 0,
        });
        check(
            cells(|from, to, rail| (from, to, rail) == (1, 4, 0)),
            &[(lane, 1, 1)],
        );
        // A node that died midway, and a pair.
        let pair = Subject::both(Place::Pair { a: 0, b: 1 });
        let both = cells(|from, to, _| {
            from.min(to) == 0 && from.max(to) == 1 || (from == 3 || to == 3) && from.min(to) != 0
        });
        check(both, &[(node, 16, 20), (pair, 4, 4)]);
        check(
            cells(|_, _, rail| rail == 0),
            &[(Subject::both(Place::EveryRail { rail: 0 }), 30, 30)],
        );
    }

    #[test]
    fn a_mesh_without_a_rate_has_no_dead_part() {
        assert_eq!(found(&cells(|_, _, _| true), &[]), []);
    }

    #[test]
    fn a_retest_confirms_a_dead_part_or_brings_it_back() {
        let first = cells(|from, to, _| from.min(to) == 0 && from.max(to) == 1);
        let again: Vec<Cell> = first
            .iter()
            .copied()
            .filter(|cell| cell.gb_per_s.is_none())
            .collect();
        let pair = Subject::both(Place::Pair { a: 0, b: 1 });
        assert_eq!(found(&first, &[]), [(pair, 4, 4, None)]);
        assert_eq!(found(&first, &again), [(pair, 4, 4, Some(true))]);
        let back: Vec<Cell> = again
            .iter()
            .map(|cell| Cell {
                gb_per_s: Some(9.0),
                ..*cell
            })
            .collect();
        assert_eq!(found(&first, &back), []);
    }
}
