//! Which part of a mesh is slow, dead or loses segments: node, rail of a node, direction, pair or group.
//!
//! `subject` has the parts, `finding` what is said about them, `fit` finds slow ones, `dead` those whose measurements are missing, and
//! `lossy` those that lose segments, also where the rate is hardly lower.
//! A part that is found is suspected: it is measured again with partners known to be good, and named
//! if that shows the same. One or two rates are low by chance in any large mesh, so a lane or a direction of a
//! pair is no suspect any more if its retest is no lower than others of the mesh, or if it has no retest and nearly
//! all low rates that have one were not low again (`confirm`).
#![forbid(unsafe_code)]

mod causes;
mod confirm;
mod cover;
mod dead;
mod finding;
mod fit;
mod lossy;
mod retest;
mod robust;
mod subject;
mod table;

pub use finding::{Attribution, Defect, Finding, Standing};
pub use fit::RATIO_MAX;
pub use retest::retests;
pub use subject::{ALL_RAILS, Names, Place, Subject, Way};

use crate::groups::Groups;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use table::Table;

/// One measurement. Nodes and rails are indices into the caller's lists; a mesh whose rails were
/// measured together has one rail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The node that sent.
    pub from: usize,
    /// The node that received.
    pub to: usize,
    /// The rail of both.
    pub rail: usize,
    /// `None` if the measurement failed. A rate of 0 is one that failed.
    pub gb_per_s: Option<f64>,
    /// `None` if they are unknown.
    pub segments: Option<Segments>,
}

/// TCP segments with data of one measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Those that were sent, repetitions included.
    pub sent: u64,
    /// Those that were lost: sent again and not received twice.
    pub lost: u64,
}

impl Segments {
    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            lost: self.lost.saturating_add(other.lost),
        }
    }

    /// The share that was lost; 0 of nothing.
    pub fn share(self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => self.lost as f64 / sent as f64,
        }
    }
}

impl Cell {
    fn rate(&self) -> Option<f64> {
        self.gb_per_s.filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}

/// Finds the parts that explain what is slow or missing. Without `retests`, all are suspected.
///
/// The indices in `cells` size tables: they are those of a run's nodes and rails.
pub fn attribute(cells: &[Cell], retests: &[Cell], groups: &Groups) -> Attribution {
    let table = Table::new(cells, retests, groups);
    let dead = dead::dead_parts(cells, retests, &table, groups);
    let fit = fit::fit(&table);
    let (mut findings, mut cleared) = (Vec::new(), Vec::new());
    for dead in &dead {
        let place = if dead.is_confirmed == Some(false) {
            &mut cleared
        } else {
            &mut findings
        };
        place.push(Finding::of_dead(dead));
    }
    let scatter = fit.sigma.exp_m1();
    let at_first =
        (!retests.is_empty()).then(|| fit::fit(&Table::new(cells, &[], groups)).into_suspects());
    let (gone, slow): (Vec<_>, Vec<_>) = fit
        .into_effects(at_first.as_deref())
        .into_iter()
        .partition(|(_, is_confirmed)| *is_confirmed == Some(false));
    let (lossy, lossy_once): (Vec<_>, Vec<_>) = lossy::lossy_parts(&table)
        .into_iter()
        .partition(|lossy| lossy.is_confirmed != Some(false));
    findings.extend(lossy::merged(&slow, lossy, &table));
    cleared.extend(
        gone.iter()
            .map(|(effect, _)| Finding::of_slow(effect, false)),
    );
    cleared.extend(
        lossy_once
            .iter()
            .map(|lossy| Finding::of_lossy(lossy, None)),
    );
    let all = || cells.iter().chain(retests);
    for finding in findings.iter_mut().chain(&mut cleared) {
        finding.subject = narrowed(finding.subject, &mut all());
    }
    Attribution {
        findings,
        cleared,
        scatter,
        measured: table.rates.len(),
        missing: all().filter(|cell| cell.rate().is_none()).count(),
    }
}

/// Of a node that was measured with one partner only, as in a mesh of two: what is between the two,
/// because neither can be told from the other.
fn narrowed(subject: Subject, cells: &mut dyn Iterator<Item = &Cell>) -> Subject {
    let (Place::Rail { node, .. } | Place::Node { node }) = subject.place else {
        return subject;
    };
    let partners = cells.filter_map(|cell| match (cell.from == node, cell.to == node) {
        (true, false) => Some(cell.to),
        (false, true) => Some(cell.from),
        _ => None,
    });
    let partners: BTreeSet<usize> = partners.collect();
    let &[partner] = partners.into_iter().collect::<Vec<_>>().as_slice() else {
        return subject;
    };
    let (a, b) = (node.min(partner), node.max(partner));
    let place = match subject.place {
        Place::Rail { rail, .. } => Place::Lane { a, b, rail },
        _ => Place::Pair { a, b },
    };
    // The ways of a lane are those of its smaller node.
    let way = match subject.way {
        Way::Both => Way::Both,
        way if node == a => way,
        Way::Sends => Way::Receives,
        Way::Receives => Way::Sends,
    };
    Subject { place, way }
}

/// A slow part with less confidence stays suspected, whatever its retest shows.
const CONFIRMED_MIN: f64 = 0.999;
/// The share of measurements that may fail by chance.
const FAILING: f64 = 0.05;

fn standing(is_confirmed: bool) -> Standing {
    if is_confirmed {
        Standing::Confirmed
    } else {
        Standing::Suspected
    }
}

impl Finding {
    fn of_slow(effect: &fit::Effect, is_confirmed: bool) -> Self {
        Self {
            subject: effect.subject,
            defect: Defect::Slow {
                ratio: effect.log.exp(),
            },
            measurements: effect.rates,
            confidence: effect.confidence,
            standing: standing(is_confirmed && effect.confidence >= CONFIRMED_MIN),
        }
    }

    /// A part that loses segments, and that is slow as well if there is an effect.
    fn of_lossy(lossy: &lossy::Lossy, slow: Option<&(fit::Effect, Option<bool>)>) -> Self {
        let is_slow = slow.is_some_and(|(_, is_confirmed)| *is_confirmed == Some(true));
        Self {
            subject: lossy.subject,
            defect: Defect::Lossy {
                share: lossy.share,
                others: lossy.others,
                ratio: slow.map(|(effect, _)| effect.log.exp()),
            },
            measurements: lossy.measurements,
            confidence: lossy.confidence,
            standing: standing(is_slow || lossy.is_confirmed == Some(true)),
        }
    }

    fn of_dead(dead: &dead::Dead) -> Self {
        let exponent = i32::try_from(dead.missing).unwrap_or(i32::MAX);
        Self {
            subject: dead.subject,
            defect: Defect::Dead {
                missing: dead.missing,
            },
            measurements: dead.measured,
            confidence: 1.0 - FAILING.powi(exponent),
            standing: standing(dead.is_confirmed == Some(true)),
        }
    }
}

#[cfg(test)]
mod tests;
