//! The measured rates, with an index from each part of the mesh to its measurements.
#![forbid(unsafe_code)]

use super::subject::{Place, Subject, Way};
use super::{Cell, Segments};
use crate::groups::Groups;
use std::collections::BTreeSet;
use std::ops::Range;

/// One measured rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rail: usize,
    pub(super) log: f64,
    pub(super) segments: Option<Segments>,
    /// From a retest.
    pub(super) is_retest: bool,
}

/// Rates sorted by sender, receiver and rail.
pub(super) struct Table<'a> {
    pub(super) rates: Vec<Rate>,
    pub(super) groups: &'a Groups,
    pub(super) rails: usize,
    nodes: usize,
    /// Each sender, receiver, and its rates.
    directions: Vec<(usize, usize, Range<usize>)>,
    /// The directions of each sender.
    senders: Vec<Range<usize>>,
    receivers: Index,
    sending_rails: Index,
    receiving_rails: Index,
    leaving: Index,
    entering: Index,
    between: Index,
    on_rail: Index,
}

/// For each key, the rates that have it.
#[derive(Default)]
struct Index {
    starts: Vec<usize>,
    rates: Vec<usize>,
}

impl Index {
    fn new(keys: usize, rates: &[Rate], key: impl Fn(&Rate) -> Option<usize>) -> Self {
        let mut starts = vec![0; keys + 1];
        for key in rates.iter().filter_map(&key) {
            starts[key + 1] += 1;
        }
        for at in 0..keys {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; starts[keys]];
        for (at, rate) in rates.iter().enumerate() {
            if let Some(key) = key(rate) {
                sorted[next[key]] = at;
                next[key] += 1;
            }
        }
        Self {
            starts,
            rates: sorted,
        }
    }

    fn of(&self, key: usize) -> &[usize] {
        match (self.starts.get(key), self.starts.get(key + 1)) {
            (Some(&start), Some(&end)) => &self.rates[start..end],
            _ => &[],
        }
    }
}

impl<'a> Table<'a> {
    /// Cells without a rate are left out.
    pub(super) fn new(cells: &[Cell], retests: &[Cell], groups: &'a Groups) -> Self {
        let read = |cells: &[Cell], is_retest: bool| -> Vec<Rate> {
            let rates = cells.iter().filter_map(|cell| {
                let log = cell.rate()?.ln();
                let Cell {
                    from,
                    to,
                    rail,
                    segments,
                    ..
                } = *cell;
                Some(Rate {
                    from,
                    to,
                    rail,
                    log,
                    segments,
                    is_retest,
                })
            });
            rates.collect()
        };
        let mut rates = read(cells, false);
        rates.extend(read(retests, true));
        rates.sort_by_key(|rate| (rate.from, rate.to, rate.rail));
        let bound = |of: fn(&Rate) -> usize| rates.iter().map(of).max().map_or(0, |most| most + 1);
        let nodes = bound(|rate| rate.from.max(rate.to));
        let rails = bound(|rate| rate.rail);
        let count = groups.count();
        let crossing = |rate: &Rate| groups.of_node(rate.from) != groups.of_node(rate.to);
        let index = |keys, key: &dyn Fn(&Rate) -> Option<usize>| Index::new(keys, &rates, key);
        let receivers = index(nodes, &|rate| Some(rate.to));
        let sending_rails = index(nodes * rails, &|rate| Some(rate.from * rails + rate.rail));
        let receiving_rails = index(nodes * rails, &|rate| Some(rate.to * rails + rate.rail));
        let on_rail = index(rails, &|rate| Some(rate.rail));
        let leaving = index(count, &|rate| {
            groups.of_node(rate.from).filter(|_| crossing(rate))
        });
        let entering = index(count, &|rate| {
            groups.of_node(rate.to).filter(|_| crossing(rate))
        });
        let between = index(count * count, &|rate| {
            Some(groups.of_node(rate.from)? * count + groups.of_node(rate.to)?)
        });
        let directions = directions(&rates);
        let mut senders = vec![0..0; nodes];
        let mut start = 0;
        for run in directions.chunk_by(|one, other| one.0 == other.0) {
            if let Some((from, ..)) = run.first() {
                senders[*from] = start..start + run.len();
            }
            start += run.len();
        }
        Self {
            rates,
            groups,
            rails,
            nodes,
            directions,
            senders,
            receivers,
            sending_rails,
            receiving_rails,
            leaving,
            entering,
            between,
            on_rail,
        }
    }

    /// The rates of one direction of a pair.
    fn direction(&self, from: usize, to: usize) -> Range<usize> {
        let of_sender = self.senders.get(from).cloned().unwrap_or_default();
        let directions = &self.directions[of_sender];
        match directions.binary_search_by_key(&to, |(_, to, _)| *to) {
            Ok(at) => directions[at].2.clone(),
            Err(_) => 0..0,
        }
    }

    /// Writes the indices of the rates of a part into `into`.
    pub(super) fn rates_of(&self, subject: Subject, into: &mut Vec<usize>) {
        into.clear();
        let sends = matches!(subject.way, Way::Both | Way::Sends);
        let receives = matches!(subject.way, Way::Both | Way::Receives);
        let mut put = |is_wanted: bool, rates: &[usize]| {
            if is_wanted {
                into.extend_from_slice(rates);
            }
        };
        match subject.place {
            Place::Node { node } => {
                put(receives, self.receivers.of(node));
                if let (true, Some(directions)) = (sends, self.senders.get(node)) {
                    let rates = self.directions[directions.clone()].iter();
                    into.extend(rates.flat_map(|(.., rates)| rates.clone()));
                }
            }
            Place::Rail { node, rail } if rail < self.rails => {
                put(sends, self.sending_rails.of(node * self.rails + rail));
                put(receives, self.receiving_rails.of(node * self.rails + rail));
            }
            // A rail of which no measurement has a rate.
            Place::Rail { .. } => {}
            Place::Pair { a, b } => self.between_nodes(a, b, sends, receives, into),
            Place::Lane { a, b, rail } => {
                self.between_nodes(a, b, sends, receives, into);
                into.retain(|&rate| self.rates[rate].rail == rail);
            }
            Place::EveryRail { rail } => put(true, self.on_rail.of(rail)),
            Place::Group { group } => {
                put(sends, self.leaving.of(group));
                put(receives, self.entering.of(group));
            }
            Place::Groups { a, b } => {
                put(sends, self.between.of(a * self.groups.count() + b));
                put(
                    receives && a != b,
                    self.between.of(b * self.groups.count() + a),
                );
            }
        }
    }

    fn between_nodes(
        &self,
        a: usize,
        b: usize,
        sends: bool,
        receives: bool,
        into: &mut Vec<usize>,
    ) {
        if sends {
            into.extend(self.direction(a, b));
        }
        if receives {
            into.extend(self.direction(b, a));
        }
    }

    /// Parts of one kind and direction each, whose effects are compared with each other. Lanes are
    /// not among them: there are as many as measurements.
    pub(super) fn families(&self) -> Vec<Vec<Subject>> {
        let nodes = 0..self.nodes;
        let rails = || 0..self.rails;
        let groups = 0..self.groups.count();
        let pairs: BTreeSet<Place> = self
            .directions
            .iter()
            .map(|(from, to, _)| Place::Pair {
                a: *from.min(to),
                b: *from.max(to),
            })
            .collect();
        let mut kinds: Vec<Vec<Place>> = vec![
            nodes.clone().map(|node| Place::Node { node }).collect(),
            pairs.into_iter().collect(),
            groups.clone().map(|group| Place::Group { group }).collect(),
            groups
                .clone()
                .flat_map(|a| (a..groups.end).map(move |b| Place::Groups { a, b }))
                .collect(),
        ];
        if self.rails > 1 {
            kinds.push(
                nodes
                    .flat_map(|node| rails().map(move |rail| Place::Rail { node, rail }))
                    .collect(),
            );
            kinds.push(rails().map(|rail| Place::EveryRail { rail }).collect());
        }
        let families = kinds.iter().flat_map(|places| {
            Way::ALL.iter().map(|&way| {
                let places = places
                    .iter()
                    .filter(move |place| place.ways().contains(&way));
                places.map(|&place| Subject { place, way }).collect()
            })
        });
        families
            .filter(|family: &Vec<Subject>| !family.is_empty())
            .collect()
    }
}

fn directions(rates: &[Rate]) -> Vec<(usize, usize, Range<usize>)> {
    let mut start = 0;
    let runs = rates.chunk_by(|one, other| (one.from, one.to) == (other.from, other.to));
    let runs = runs.filter_map(|run| {
        let first = run.first()?;
        let range = start..start + run.len();
        start = range.end;
        Some((first.from, first.to, range))
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Nodes 0 to 5 in two groups, and 6 to 8 in none.
    fn groups() -> Groups {
        let names: Vec<String> = (0..9).map(|node| node.to_string()).collect();
        Groups::of(&names, |name| match name.parse::<usize>().ok()? {
            node @ 0..6 => Some(format!("rack{}", node / 3)),
            _ => None,
        })
    }

    proptest! {
        #[test]
        fn the_index_of_a_part_has_exactly_the_measurements_of_it(
            ends in prop::collection::vec((0..9usize, 0..9usize, 0..3usize, 0..4u8), 0..60),
        ) {
            let cell = |(from, to, rail, rate): &(usize, usize, usize, u8)| Cell {
                from: *from,
                to: *to,
                rail: *rail,
                gb_per_s: (*rate > 0).then(|| f64::from(*rate)),
                segments: None,
            };
            let cells: Vec<Cell> = ends.iter().filter(|(from, to, ..)| from != to).map(cell).collect();
            let groups = groups();
            let table = Table::new(&cells, &cells[..cells.len() / 2], &groups);
            let alive = |cells: &[Cell]| cells.iter().filter(|cell| cell.gb_per_s.is_some()).count();
            prop_assert_eq!(table.rates.len(), alive(&cells) + alive(&cells[..cells.len() / 2]));
            let subjects = cells.iter().flat_map(|cell| Subject::of_measurement(cell.from, cell.to, cell.rail, &groups));
            let mut rates = Vec::new();
            for subject in subjects.collect::<BTreeSet<Subject>>() {
                table.rates_of(subject, &mut rates);
                rates.sort();
                let is_of_it = |rate: &Rate| subject.covers(rate.from, rate.to, rate.rail, &groups);
                let expected = (0..table.rates.len()).filter(|&rate| is_of_it(&table.rates[rate]));
                prop_assert_eq!(&rates, &expected.collect::<Vec<usize>>(), "{:?}", subject);
            }
        }
    }

    #[test]
    fn what_was_not_measured_has_no_rates() {
        let groups = groups();
        let cell = Cell {
            from: 0,
            to: 1,
            rail: 0,
            gb_per_s: Some(1.0),
            segments: None,
        };
        let table = Table::new(&[cell], &[], &groups);
        let mut rates = vec![7];
        for place in [
            Place::Node { node: 8 },
            Place::Pair { a: 7, b: 8 },
            Place::Rail { node: 0, rail: 9 },
        ] {
            table.rates_of(Subject::both(place), &mut rates);
            assert_eq!(rates, [0; 0], "{place:?}");
        }
    }
}
