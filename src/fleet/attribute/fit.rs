//! Slow parts: the few effects that explain the rates.
//!
//! The logarithm of a rate is a common level plus the effects of all parts that it is of: sender,
//! receiver, their rails, groups, pair. Fitting all of them at once would spread one cause over
//! many parts. Here nearly all effects are 0: each pass finds the parts whose rates are lower than
//! the rest by more than chance and more than other parts of their kind differ, takes those that
//! explain most, and looks again at what they do not explain.
//!
//! Where two slow parts are on one way, the rate is that of the slower one if they are limits, and
//! lower if they are losses. Anything between the two is explained.
#![forbid(unsafe_code)]

use super::causes::Causes;
use super::robust;
use super::subject::{Place, Subject};
use super::table::Table;
use std::collections::{BTreeSet, HashMap};

/// Only what is slower than this share of the others is named.
pub const RATIO_MAX: f64 = 0.9;
/// Parts that are slower by chance with a higher probability than 1 minus this are left out.
pub(super) const CONFIDENCE_MIN: f64 = 0.9;
/// A pass takes at least one part, so this bounds nested causes, not their number.
const PASSES_MAX: usize = 24;
/// In one pass, a part may share this much of the rates that it is judged by with parts that explain
/// more.
const SHARED_MAX: f64 = 0.25;
/// The spread of a family of fewer parts says nothing.
const FAMILY_MIN: usize = 8;
/// From this share of all rates on, a part is compared with the rest and not with all.
const LARGE: f64 = 0.03;
/// Rates scatter at least by this, so that exact ones have no infinite significance.
const SIGMA_MIN: f64 = 0.005;
/// The share of a part's rates that must be nearer to its effect than to none.
const AGREEING: f64 = 0.85;
/// A part is judged by the rates that no other slow part is on, if there are so many.
const FREE_MIN: usize = 3;
const SWEEPS: usize = 3;

/// A part that is slow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    pub(super) subject: Subject,
    /// Difference of the logarithm.
    pub(super) log: f64,
    pub(super) confidence: f64,
    /// How much of the loss it explains.
    pub(super) gain: f64,
    /// Its rates.
    pub(super) rates: usize,
    /// How its parts of the same kind and direction differ, and how many of them there are.
    family_spread: f64,
    family: usize,
}

/// What a fit found.
pub(super) struct Fit<'a> {
    pub(super) table: &'a Table<'a>,
    level: f64,
    pub(super) sigma: f64,
    pub(super) effects: Vec<Effect>,
    /// By rate.
    pub(super) causes: Vec<Causes>,
    pub(super) residuals: Vec<f64>,
    marked: Vec<bool>,
    /// The effects on a rate that has some, by their place in the list.
    on_rate: HashMap<usize, Vec<usize>>,
}

/// Finds the slow parts, the one that explains most first.
pub(super) fn fit<'a>(table: &'a Table<'a>) -> Fit<'a> {
    let count = table.rates.len();
    let mut fit = Fit {
        table,
        level: 0.0,
        sigma: SIGMA_MIN,
        effects: Vec::new(),
        causes: vec![Causes::default(); count],
        residuals: vec![0.0; count],
        marked: vec![false; count],
        on_rate: HashMap::new(),
    };
    for _ in 0..PASSES_MAX {
        fit.set_level();
        let mut found = fit.candidates();
        found.sort_by(|one, other| {
            let gains = other.gain.total_cmp(&one.gain);
            gains.then(one.subject.cmp(&other.subject))
        });
        if !fit.take(&found) {
            break;
        }
    }
    fit.refine();
    fit
}

impl Fit<'_> {
    /// The level of rates without a slow part, and what the effects leave unexplained. The scatter
    /// is estimated from all rates and from neighbours, which slow nodes, pairs and groups do not
    /// move apart; the smaller one counts.
    fn set_level(&mut self) {
        let rates = self.table.rates.iter().zip(&self.causes);
        let free = rates.filter(|(_, causes)| causes.is_free());
        let mut free: Vec<f64> = free.map(|(rate, _)| rate.log).collect();
        if free.len() >= FREE_MIN.min(self.table.rates.len()) {
            self.level = robust::median(&mut free);
        }
        self.set_residuals();
        let overall = robust::spread(&mut self.residuals.clone(), 0.0);
        let neighbours = self.table.rates.windows(2).zip(self.residuals.windows(2));
        let of_one_pair = neighbours
            .filter(|(rates, _)| rates[0].from == rates[1].from && rates[0].to == rates[1].to);
        let steps = of_one_pair.map(|(_, residuals)| residuals[1] - residuals[0]);
        let mut steps: Vec<f64> = steps.collect();
        let are_enough = steps.len() * 3 >= self.residuals.len();
        let between = robust::spread(&mut steps, 0.0) / std::f64::consts::SQRT_2;
        self.sigma = if are_enough {
            overall.min(between)
        } else {
            overall
        };
        self.sigma = self.sigma.max(SIGMA_MIN);
    }

    fn set_residuals(&mut self) {
        let rates = self.table.rates.iter().zip(&self.causes);
        let residuals = rates.map(|(rate, causes)| causes.residual(rate.log - self.level));
        self.residuals.clear();
        self.residuals.extend(residuals);
    }

    fn candidates(&self) -> Vec<Effect> {
        let mut found = Vec::new();
        let upper = robust::upper_part(&mut self.residuals.clone());
        let (mut rates, mut scratch) = (Vec::new(), Vec::new());
        for family in self.table.families() {
            let mut measured = Vec::with_capacity(family.len());
            for subject in family {
                self.table.rates_of(subject, &mut rates);
                if !rates.is_empty() && rates.len() < self.residuals.len() {
                    measured.push((subject, self.judged_median(&rates, &mut scratch).0));
                }
            }
            let mut medians: Vec<f64> = measured.iter().map(|(_, median)| *median).collect();
            let center = robust::median(&mut medians);
            let spread = match medians.len() {
                0..FAMILY_MIN => 0.0,
                _ => robust::spread(&mut medians, center),
            };
            for &(subject, median) in &measured {
                self.table.rates_of(subject, &mut rates);
                if median - self.level_beside_max(&rates, upper) <= RATIO_MAX.ln() {
                    found.extend(self.judge(subject, &mut rates, spread, measured.len()));
                }
            }
        }
        found.extend(self.slow_lanes());
        found
    }

    /// Lanes with a rate that is low by itself.
    fn slow_lanes(&self) -> Vec<Effect> {
        if self.table.rails < 2 {
            return Vec::new();
        }
        let rates = self.table.rates.iter().zip(&self.residuals);
        let low = rates.filter(|(_, residual)| **residual < -3.0 * self.sigma);
        let lanes = low.flat_map(|(rate, _)| {
            let (a, b) = (rate.from.min(rate.to), rate.from.max(rate.to));
            Subject::ways_of(Place::Lane {
                a,
                b,
                rail: rate.rail,
            })
        });
        let lanes: BTreeSet<Subject> = lanes.collect();
        let mut rates = Vec::new();
        let judged = lanes.into_iter().filter_map(|subject| {
            self.table.rates_of(subject, &mut rates);
            let is_some = !rates.is_empty() && rates.len() < self.residuals.len();
            is_some.then(|| self.judge(subject, &mut rates, 0.0, self.residuals.len()))?
        });
        judged.collect()
    }

    /// The median of a part, and of how many rates: those that no other slow part is on, or all.
    fn judged_median(&self, rates: &[usize], scratch: &mut Vec<f64>) -> (f64, usize) {
        let free = |rate: &&usize| self.causes[**rate].is_free();
        scratch.clear();
        scratch.extend(rates.iter().filter(free).map(|&rate| self.residuals[rate]));
        if scratch.len() < FREE_MIN {
            scratch.clear();
            scratch.extend(rates.iter().map(|&rate| self.residuals[rate]));
        }
        (robust::median(scratch), scratch.len())
    }

    /// The level of all rates but these. Of a small part, that of all rates.
    fn level_beside(&self, rates: &[usize]) -> f64 {
        if (rates.len() as f64) < LARGE * self.residuals.len() as f64 {
            return 0.0;
        }
        let mut is_in = vec![false; self.residuals.len()];
        rates.iter().for_each(|&rate| is_in[rate] = true);
        let rest = self.residuals.iter().zip(is_in).filter(|(_, is_in)| !is_in);
        robust::median(&mut rest.map(|(residual, _)| *residual).collect::<Vec<f64>>())
    }

    /// Not less than `level_beside`, and cheap: the rest of a part of a quarter at most has its
    /// median within the lower five eighths of all rates, whose end is `upper`.
    fn level_beside_max(&self, rates: &[usize], upper: f64) -> f64 {
        match rates.len() as f64 / self.residuals.len() as f64 {
            share if share < LARGE => 0.0,
            share if share <= 0.25 => upper,
            _ => f64::INFINITY,
        }
    }

    /// The effect of a part, if it is slow beyond chance and its rates agree on that.
    fn judge(
        &self,
        subject: Subject,
        rates: &mut [usize],
        family_spread: f64,
        family: usize,
    ) -> Option<Effect> {
        let beside = self.level_beside(rates);
        let (median, judged) = self.judged_median(rates, &mut Vec::new());
        let mut effect = Effect {
            subject,
            log: median - beside,
            confidence: 0.0,
            gain: 0.0,
            rates: rates.len(),
            family_spread,
            family,
        };
        effect.confidence = self.confidence(&effect, judged);
        if !effect.is_slow() {
            return None;
        }
        // In one order, so that two parts with the same rates have the same gain.
        rates.sort_unstable();
        let log_of = |rate: usize| self.table.rates[rate].log - self.level - beside;
        let after = |rate: usize| self.causes[rate].and(effect.log).residual(log_of(rate));
        let before = |rate: usize| self.causes[rate].residual(log_of(rate));
        let agrees = |rate: &&usize| after(**rate).abs() < before(**rate).abs();
        let free = |rate: &&usize| judged == rates.len() || self.causes[**rate].is_free();
        let agreeing = rates.iter().filter(free).filter(agrees).count();
        let expected = AGREEING * robust::share_below(-effect.log / 2.0 / self.sigma);
        let slack = (expected * (1.0 - expected) / judged as f64).sqrt();
        if (agreeing as f64) < (expected - slack) * judged as f64 {
            return None;
        }
        let loss = |residual: f64| robust::loss(residual / self.sigma);
        let gains = rates
            .iter()
            .map(|&rate| loss(before(rate)) - loss(after(rate)));
        effect.gain = gains.sum();
        (effect.gain > 0.0).then_some(effect)
    }

    fn confidence(&self, effect: &Effect, judged: usize) -> f64 {
        let error = robust::error_of_median(self.sigma, judged).max(effect.family_spread);
        robust::confidence(-effect.log / error, effect.family)
    }

    /// Takes the parts that explain most and share few of the rates that they are judged by. What is
    /// left is judged again beside them.
    fn take(&mut self, found: &[Effect]) -> bool {
        self.marked.fill(false);
        let mut rates = Vec::new();
        let first = self.effects.len();
        for effect in found {
            self.table.rates_of(effect.subject, &mut rates);
            if self.marked_share(&rates) <= SHARED_MAX {
                self.effects.push(*effect);
            }
            // Those of a part that waits are marked, too: nothing in it is taken before it.
            rates.iter().for_each(|&rate| self.marked[rate] = true);
        }
        for at in first..self.effects.len() {
            self.table.rates_of(self.effects[at].subject, &mut rates);
            self.add(self.effects[at].log, &rates);
        }
        !found.is_empty()
    }

    /// How many of the rates that a part is judged by are marked.
    fn marked_share(&self, rates: &[usize]) -> f64 {
        let share = |judged: usize, marked: usize| marked as f64 / judged as f64;
        let is_marked = |rate: &&usize| self.marked[**rate];
        let free = || rates.iter().filter(|rate| self.causes[**rate].is_free());
        match free().count() {
            0..FREE_MIN => share(rates.len(), rates.iter().filter(is_marked).count()),
            count => share(count, free().filter(is_marked).count()),
        }
    }

    fn add(&mut self, log: f64, rates: &[usize]) {
        for &rate in rates {
            self.causes[rate] = self.causes[rate].and(log);
        }
    }

    /// Estimates each effect again, beside all others, and drops those that the others explain: the
    /// weakest first, because of two parts with the same rates the stronger one stays.
    fn refine(&mut self) {
        let mut rates = Vec::new();
        for (at, effect) in self.effects.iter().enumerate() {
            self.table.rates_of(effect.subject, &mut rates);
            for &rate in &rates {
                self.on_rate.entry(rate).or_default().push(at);
            }
        }
        for _ in 0..SWEEPS {
            for at in (0..self.effects.len()).rev() {
                let mut effect = self.effects[at];
                self.table.rates_of(effect.subject, &mut rates);
                self.set_causes(&rates, Some(at));
                let (median, judged) = self.judged_median(&rates, &mut Vec::new());
                effect.log = median - self.level_beside(&rates);
                effect.confidence = self.confidence(&effect, judged);
                if !effect.is_slow() {
                    effect.log = 0.0;
                }
                self.effects[at] = effect;
                self.set_causes(&rates, None);
            }
        }
    }

    /// The causes and residuals of these rates, without one of the effects.
    pub(super) fn set_causes(&mut self, rates: &[usize], without: Option<usize>) {
        for &rate in rates {
            let mut causes = Causes::default();
            for &at in self.on_rate.get(&rate).into_iter().flatten() {
                if Some(at) != without {
                    causes = causes.and(self.effects[at].log);
                }
            }
            self.causes[rate] = causes;
            self.residuals[rate] = causes.residual(self.table.rates[rate].log - self.level);
        }
    }
}

impl Effect {
    pub(super) fn is_slow(&self) -> bool {
        self.log <= RATIO_MAX.ln() && self.confidence >= CONFIDENCE_MIN
    }
}
