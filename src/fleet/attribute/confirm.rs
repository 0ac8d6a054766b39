//! Whether the retests of a slow part show what its first measurements did.
#![forbid(unsafe_code)]

use super::fit::{CONFIDENCE_MIN, Effect, Fit};
use super::robust;

/// Fewer retests that show an effect can be chance.
const AGAIN_MIN: usize = 3;

impl Fit<'_> {
    /// The effects, with whether their retests alone show them, too; `None` without a retest.
    pub(super) fn into_effects(mut self) -> Vec<(Effect, Option<bool>)> {
        let kept = (0..self.effects.len()).filter(|&at| self.effects[at].is_slow());
        let mut kept: Vec<usize> = kept.collect();
        kept.sort_by(|&one, &other| self.effects[other].gain.total_cmp(&self.effects[one].gain));
        let suspects = kept.len();
        let confirmed = kept.into_iter().map(|at| {
            let is_confirmed = self.is_confirmed(at, suspects);
            (self.effects[at], is_confirmed)
        });
        confirmed.collect()
    }

    fn is_confirmed(&mut self, at: usize, suspects: usize) -> Option<bool> {
        let effect = self.effects[at];
        let mut rates = Vec::new();
        self.table.rates_of(effect.subject, &mut rates);
        rates.retain(|&rate| self.table.rates[rate].is_retest);
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
        let shows = |residual: f64| residual < effect.log / 2.0;
        let median = robust::median(&mut again);
        if !shows(median) {
            return Some(false);
        }
        // Of the fewest, all must show it, not only their median.
        let are_few = again.len() == AGAIN_MIN;
        if again.len() < AGAIN_MIN || are_few && !again.iter().all(|&residual| shows(residual)) {
            return None;
        }
        let z = -median / robust::error_of_median(self.sigma, again.len());
        (robust::confidence(z, suspects) >= CONFIDENCE_MIN).then_some(true)
    }
}
