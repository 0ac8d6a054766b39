//! Whether the retests of a slow part show what its first measurements did.
#![forbid(unsafe_code)]

use super::CONFIRMED_MIN;
use super::fit::{CONFIDENCE_MIN, Effect, Fit, RATIO_MAX};
use super::robust;
use super::subject::{Place, Subject};
use std::collections::BTreeMap;

/// Fewer retests that show an effect can be chance.
const AGAIN_MIN: usize = 3;
/// A part of so few rates was suspected because one of many thousands is very low. Whether chance makes
/// it low again is judged by how rates of this mesh scatter: their tails may be heavy.
const PICKED: usize = 2;
/// The confidence for such parts: of each run, many are picked.
const PICKED_CONFIDENCE_MIN: f64 = 0.99;
/// Low rates without a retest are low by chance if, of those with a retest, this many were not low again for each
/// that was. One is added to those that were, because few retests prove little.
const LOW_ONCE: usize = 8;

impl Fit<'_> {
    /// The parts of its effects.
    pub(super) fn into_suspects(self) -> Vec<Subject> {
        let slow = self.effects.iter().filter(|effect| effect.is_slow());
        slow.map(|effect| effect.subject).collect()
    }

    /// The effects, with whether their retests alone show them, too; `None` without enough retests.
    ///
    /// `at_first` are the suspects of the first measurements alone. A part with the fewest measurements that is not
    /// among them is left out: only retests of other parts moved the fit a little.
    pub(super) fn into_effects(
        mut self,
        at_first: Option<&[Subject]>,
    ) -> Vec<(Effect, Option<bool>)> {
        let is_new = |effect: &Effect| {
            effect.rates <= PICKED && at_first.is_some_and(|first| !first.contains(&effect.subject))
        };
        let is_kept = |effect: &Effect| effect.is_slow() && !is_new(effect);
        let kept = (0..self.effects.len()).filter(|&at| is_kept(&self.effects[at]));
        let mut kept: Vec<usize> = kept.collect();
        kept.sort_by(|&one, &other| self.effects[other].gain.total_cmp(&self.effects[one].gain));
        let suspects = kept.len();
        let tail = Tail::of(&self);
        let (mut found, mut picked_again, mut picked_once) = (Vec::new(), 0, Vec::new());
        for at in kept {
            let effect = self.effects[at];
            let (first, again) = self.first_and_again(effect.subject);
            let is_picked = first <= PICKED;
            let is_confirmed = self.is_confirmed(at, suspects, again, is_picked.then_some(&tail));
            match is_confirmed {
                Some(true) if is_picked => picked_again += 1,
                None if is_picked => picked_once.push(found.len()),
                _ => {}
            }
            found.push((effect, is_confirmed));
        }
        if tail.low_once >= LOW_ONCE * (1 + tail.low_again + picked_again) {
            picked_once.iter().for_each(|at| found[*at].1 = Some(false));
        }
        found
    }

    /// How many first measurements a part has, and its retests.
    fn first_and_again(&self, subject: Subject) -> (usize, Vec<usize>) {
        let mut rates = Vec::new();
        self.table.rates_of(subject, &mut rates);
        let all = rates.len();
        rates.retain(|&rate| self.table.rates[rate].is_retest);
        (all - rates.len(), rates)
    }

    /// `tail` is given for a part that was picked.
    fn is_confirmed(
        &mut self,
        at: usize,
        suspects: usize,
        rates: Vec<usize>,
        tail: Option<&Tail>,
    ) -> Option<bool> {
        let effect = self.effects[at];
        if rates.is_empty() {
            return None;
        }
        self.set_causes(&rates, Some(at));
        let free = |rate: &&usize| self.causes[**rate].is_free();
        let mut again: Vec<usize> = rates.iter().filter(free).copied().collect();
        if again.is_empty() {
            again.clone_from(&rates);
        }
        let mut again: Vec<f64> = again.iter().map(|&rate| self.residuals[rate]).collect();
        self.set_causes(&rates, None);
        let shows = |residual: f64| residual < shown_below(&effect);
        let median = robust::median(&mut again);
        if !shows(median) {
            // A trunk is slow only where several cross it at a time, which a retest cannot promise.
            let stays = is_of_group(effect.subject) && effect.confidence >= CONFIRMED_MIN;
            return (!stays).then_some(false);
        }
        if again.len() < AGAIN_MIN {
            return None;
        }
        // Of the fewest, all must show it, not only their median.
        let are_enough = again.len() > AGAIN_MIN || again.iter().all(|&residual| shows(residual));
        let is_beyond = |tail: &Tail| tail.confidence(&again) >= PICKED_CONFIDENCE_MIN;
        let z = -median / robust::error_of_median(self.sigma, again.len());
        let is_shown = are_enough
            && tail.is_none_or(is_beyond)
            && robust::confidence(z, suspects) >= CONFIDENCE_MIN;
        // It was picked by chance if rates of this mesh are as low without a cause.
        let is_chance = || tail.is_some_and(|tail| tail.as_low_as(&again) > 0);
        match is_shown {
            true => Some(true),
            false => is_chance().then_some(false),
        }
    }
}

/// Below which residual a retest shows the effect. Of a group, whose trunk is faster the fewer cross it at a
/// time, it is enough that it is slow.
fn shown_below(effect: &Effect) -> f64 {
    match is_of_group(effect.subject) {
        true => (effect.log / 2.0).max(RATIO_MAX.ln()),
        false => effect.log / 2.0,
    }
}

fn is_of_group(subject: Subject) -> bool {
    matches!(subject.place, Place::Group { .. } | Place::Groups { .. })
}

/// How low rates are that no slow part is on.
struct Tail {
    /// Ascending.
    residuals: Vec<f64>,
    /// How many directions of a pair and rail were measured again. Each may be low by chance, also those that
    /// were not suspected before: parts are looked for in all rates together.
    again: usize,
    /// Directions of a pair and rail that were low and, measured again, were not.
    low_once: usize,
    /// Those that were low each time, and no part explains it.
    low_again: usize,
}

impl Tail {
    fn of(fit: &Fit<'_>) -> Self {
        let rates = || fit.table.rates.iter().enumerate();
        let healthy = rates().filter(|(at, rate)| !rate.is_retest && fit.causes[*at].is_free());
        let mut residuals: Vec<f64> = healthy.map(|(at, _)| fit.residuals[at]).collect();
        residuals.sort_unstable_by(f64::total_cmp);
        let mut again = BTreeMap::<[usize; 3], Vec<f64>>::new();
        for (at, rate) in rates().filter(|(_, rate)| rate.is_retest) {
            let of_direction = again.entry([rate.from, rate.to, rate.rail]).or_default();
            of_direction.push(fit.residuals[at]);
        }
        let is_low = |residual: f64| residual <= RATIO_MAX.ln();
        let low = rates().filter(|(at, rate)| !rate.is_retest && is_low(fit.residuals[*at]));
        let (mut low_once, mut low_again) = (0, 0);
        for (_, rate) in low {
            match again.get(&[rate.from, rate.to, rate.rail]) {
                Some(again) if is_low(robust::median(&mut again.clone())) => low_again += 1,
                Some(_) => low_once += 1,
                None => {}
            }
        }
        Self {
            residuals,
            again: again.len(),
            low_once,
            low_again,
        }
    }

    /// How many residuals are as low as the highest of these.
    fn as_low_as(&self, again: &[f64]) -> usize {
        let weakest = again.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.residuals
            .partition_point(|residual| *residual <= weakest)
    }

    /// How likely it is that chance makes nothing that was measured again as low as these, each time again.
    fn confidence(&self, again: &[f64]) -> f64 {
        // One more, because the rarest residuals may be missing in this run.
        let share = (self.as_low_as(again) + 1) as f64 / (self.residuals.len() + 1) as f64;
        let chance = share.powi(i32::try_from(again.len()).unwrap_or(i32::MAX));
        (1.0 - self.again as f64 * chance).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retests_of_picked_parts_are_judged_by_how_far_the_rates_of_the_mesh_scatter() {
        let tail = |lowest: f64| Tail {
            residuals: (0..999)
                .map(|at| lowest * (1.0 - f64::from(at) / 500.0))
                .collect(),
            again: 100,
            low_once: 0,
            low_again: 0,
        };
        let again = [-0.6, -0.5, -0.7];
        assert!(tail(-0.4).confidence(&again) > 0.999_99);
        // Every tenth rate is as low.
        assert!(tail(-0.62).confidence(&again) < 0.95);
        assert_eq!(tail(-2.0).confidence(&again), 0.0);
    }
}
