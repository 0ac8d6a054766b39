//! Searches the smallest settings of a scenario that are as fast as the best.
//!
//! 1. *Halving*: the scenario's own settings, every change of one knob and random combinations of
//!    them are measured in turn. The faster half stays and is measured twice as often, until one
//!    is left.
//! 2. *Shrinking*: for one knob after the other, all its values are measured beside each other, and
//!    the smallest within 2 % of the best stays.
//! 3. *Confirming*: the best of many noisy figures looks better than it is. So what is said of a
//!    knob, or of the whole, rests on further runs that had no part in the choice: pairs of runs,
//!    one directly after the other, and an exact test. A knob whose worth is not real goes back to
//!    the scenario's own value, unless its new value is smaller.
//!
//! Not here: running scenarios. The caller passes a function that does.
#![forbid(unsafe_code)]

mod evidence;
mod knobs;
#[cfg(test)]
mod tests;

pub(crate) use evidence::Paired;
pub(crate) use knobs::{Knob, knobs};

use std::collections::BTreeMap;

/// The index of a value for each knob.
pub(crate) type Settings = Vec<usize>;

/// What one run of some settings measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measured {
    /// 10^9 bytes per second.
    Rate(f64),
    /// The run did not pass with these settings.
    Failed,
    /// The search must end: an interrupt.
    Stop,
}

/// The means of a search.
pub(crate) struct Means<'a> {
    /// Runs the scenario once with some settings.
    pub(crate) run: &'a mut dyn FnMut(&Settings) -> Measured,
    /// The share of the time budget that is used, from 0.
    pub(crate) spent: &'a dyn Fn() -> f64,
    /// Told when a stage begins, with the number of settings that it measures.
    pub(crate) stage: &'a mut dyn FnMut(Stage, usize),
}

/// A part of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Halving,
    Shrinking,
    Confirming,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub(crate) struct Tuned {
    /// The smallest settings that are as fast as the best.
    pub(crate) settings: Settings,
    /// What each knob is worth that differs from the scenario: the result over the result with
    /// the scenario's own value.
    pub(crate) worth: BTreeMap<usize, Paired>,
    /// The result over the scenario as it is; `None` if they are the same.
    pub(crate) whole: Option<Paired>,
    /// Whether the time was enough for every stage.
    pub(crate) is_complete: bool,
}

/// What of the rate may be given up for smaller settings.
pub(crate) const TOLERANCE: f64 = 0.02;

/// Most settings that are halved.
const POOL_MAX: usize = 32;
const POOL_MIN: usize = 4;
/// Runs of all settings together per setting of the pool: 1 + 1 + 1 + 1 + …, for repeats that
/// double while the settings halve.
const RUNS_PER_SETTING: f64 = 5.0;
/// Most runs of each setting in one round of halving.
const REPEATS_MAX: usize = 4;
/// Runs of each value while shrinking.
const SHRINK_ROUNDS: usize = 5;
/// Shares of the time budget at which halving and shrinking end.
const HALVING_ENDS: f64 = 0.35;
const SHRINKING_ENDS: f64 = 0.65;
/// Fewest and most pairs of runs behind a sentence.
const PAIRS_MIN: usize = 8;
const PAIRS_MAX: usize = 15;

/// Searches from the scenario's own settings, the [`Knob::own`] of each. `seed` decides which
/// combinations are tried.
pub(crate) fn tune<'a>(knobs: &'a [Knob], seed: u64, means: Means<'a>) -> Option<Tuned> {
    let own: Settings = knobs.iter().map(|knob| knob.own).collect();
    let mut search = Search {
        knobs,
        means,
        is_stopped: false,
        is_complete: true,
    };
    // The first run is slower than the others, and tells how long one takes.
    let before = (search.means.spent)();
    search.run(&own)?;
    let one = ((search.means.spent)() - before).max(f64::EPSILON);
    let affordable = (HALVING_ENDS / one / RUNS_PER_SETTING) as usize;
    let pool = pool(knobs, &own, affordable.clamp(POOL_MIN, POOL_MAX), seed);
    let best = search.halve(pool);
    let small = search.shrink(best);
    let tuned = search.confirm(&own, small);
    (!search.is_stopped).then_some(tuned)
}

/// The settings to halve: the scenario's own, every change of one knob, combinations.
fn pool(knobs: &[Knob], own: &Settings, most: usize, seed: u64) -> Vec<Settings> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut changes: Vec<Settings> = Vec::new();
    for (at, knob) in knobs.iter().enumerate() {
        for value in (0..knob.values.len()).filter(|value| *value != knob.own) {
            let mut changed = own.clone();
            changed[at] = value;
            changes.push(changed);
        }
    }
    random.shuffle(&mut changes);
    changes.truncate(most / 2);
    let mut pool = vec![own.clone()];
    pool.extend(changes);
    // Knobs with few values have few combinations, so the attempts are bounded.
    for _ in 0..8 * most {
        if pool.len() >= most {
            break;
        }
        let combined: Settings = knobs
            .iter()
            .map(|knob| random.usize(..knob.values.len()))
            .collect();
        if !pool.contains(&combined) {
            pool.push(combined);
        }
    }
    pool
}

struct Search<'a> {
    knobs: &'a [Knob],
    means: Means<'a>,
    is_stopped: bool,
    is_complete: bool,
}

/// Settings and the rates of their runs, `None` where a run did not pass.
struct Racer {
    settings: Settings,
    rates: Vec<Option<f64>>,
}

impl Racer {
    /// 0 if any run did not pass: settings that fail now and then are not a result.
    fn median(&self) -> f64 {
        let rates: Option<Vec<f64>> = self.rates.iter().copied().collect();
        rates.as_deref().and_then(evidence::median).unwrap_or(0.0)
    }
}

impl Search<'_> {
    /// The rate of one run; `None` if it did not pass or the search must end.
    fn run(&mut self, settings: &Settings) -> Option<f64> {
        if self.is_stopped {
            return None;
        }
        match (self.means.run)(settings) {
            Measured::Rate(rate) if rate.is_finite() && rate > 0.0 => Some(rate),
            Measured::Rate(_) | Measured::Failed => None,
            Measured::Stop => {
                self.is_stopped = true;
                None
            }
        }
    }

    /// Whether a stage must end for lack of time, or the search by an interrupt.
    fn is_over(&mut self, ends: f64) -> bool {
        let late = (self.means.spent)() >= ends;
        self.is_complete &= !late;
        late || self.is_stopped
    }

    /// Runs each racer once, in an order that turns, so that no one always runs after the same
    /// other.
    fn round(&mut self, racers: &mut [Racer], number: usize, ends: f64) -> bool {
        let count = racers.len();
        for step in 0..count {
            if self.is_over(ends) {
                return false;
            }
            let racer = &mut racers[(step + number) % count];
            let rate = self.run(&racer.settings);
            racer.rates.push(rate);
        }
        true
    }

    fn halve(&mut self, pool: Vec<Settings>) -> Settings {
        (self.means.stage)(Stage::Halving, pool.len());
        let mut racers: Vec<Racer> = pool.into_iter().map(racer).collect();
        let (mut repeats, mut number) = (1, 0);
        while racers.len() > 1 {
            for _ in 0..repeats {
                if !self.round(&mut racers, number, HALVING_ENDS) {
                    return fastest(racers);
                }
                number += 1;
            }
            racers.sort_by(|one, other| other.median().total_cmp(&one.median()));
            racers.truncate(racers.len().div_ceil(2));
            repeats = (2 * repeats).min(REPEATS_MAX);
        }
        fastest(racers)
    }

    /// For each knob, the smallest of its values within the tolerance of the best.
    fn shrink(&mut self, mut best: Settings) -> Settings {
        let candidates = self.knobs.iter().map(|knob| knob.values.len()).sum();
        (self.means.stage)(Stage::Shrinking, candidates);
        for (at, knob) in self.knobs.iter().enumerate() {
            let mut racers: Vec<Racer> = (0..knob.values.len())
                .map(|value| {
                    let mut settings = best.clone();
                    settings[at] = value;
                    racer(settings)
                })
                .collect();
            if racers.len() < 2 {
                continue;
            }
            for number in 0..SHRINK_ROUNDS {
                if !self.round(&mut racers, number, SHRINKING_ENDS) {
                    return best;
                }
                // What is far behind after a round stays behind.
                let most = racers.iter().map(Racer::median).fold(0.0, f64::max);
                racers.retain(|racer| racer.median() >= most * (1.0 - 10.0 * TOLERANCE));
            }
            let most = racers.iter().map(Racer::median).fold(0.0, f64::max);
            let smallest = racers
                .iter()
                .filter(|racer| most > 0.0 && racer.median() >= most * (1.0 - TOLERANCE))
                .min_by_key(|racer| racer.settings[at]);
            if let Some(smallest) = smallest {
                best.clone_from(&smallest.settings);
            }
        }
        best
    }

    fn confirm(&mut self, own: &Settings, mut settings: Settings) -> Tuned {
        let changed = |settings: &Settings| -> Vec<usize> {
            (0..own.len())
                .filter(|knob| settings[*knob] != own[*knob])
                .collect()
        };
        let candidates = changed(&settings);
        // One sentence for each knob and one for the whole share the risk of a false one.
        let sentences = candidates.len() + 1;
        (self.means.stage)(Stage::Confirming, sentences);
        let mut worth = BTreeMap::new();
        for knob in candidates {
            self.step_down(&mut settings, knob, own[knob], sentences);
            let mut without = settings.clone();
            without[knob] = own[knob];
            let paired = self.pairs(&settings, &without, sentences);
            let is_kept = if settings[knob] > own[knob] {
                paired.is_gain()
            } else {
                !paired.is_loss()
            };
            if is_kept {
                worth.insert(knob, paired);
            } else {
                settings = without;
            }
        }
        let whole = (settings != *own).then(|| self.pairs(&settings, own, sentences));
        let is_worse = whole
            .as_ref()
            .is_some_and(|whole| whole.is_loss() || whole.is_unknown());
        if is_worse {
            (settings, worth) = (own.clone(), BTreeMap::new());
        }
        Tuned {
            settings,
            worth,
            whole: whole.filter(|_| !is_worse),
            is_complete: self.is_complete,
        }
    }

    /// Takes smaller values of a knob, down to beside the scenario's own, for as long as the larger
    /// one is no gain: among noisy figures, a value that is too large is sometimes the fastest.
    fn step_down(&mut self, settings: &mut Settings, knob: usize, own: usize, sentences: usize) {
        while settings[knob] > own + 1 {
            let mut smaller = settings.clone();
            smaller[knob] -= 1;
            let paired = self.pairs(settings, &smaller, sentences);
            if paired.is_gain() || paired.count() < PAIRS_MIN {
                return;
            }
            *settings = smaller;
        }
    }

    /// Pairs of runs of two settings, until their difference is real or there are enough.
    fn pairs(&mut self, one: &Settings, other: &Settings, sentences: usize) -> Paired {
        let mut paired = Paired::new(sentences);
        for number in 0..PAIRS_MAX {
            let over = (self.means.spent)() >= 1.0 || self.is_stopped;
            self.is_complete &= !over;
            if over || (number >= PAIRS_MIN && paired.is_real()) {
                break;
            }
            let first = number % 2 == 0;
            let (a, b) = if first { (one, other) } else { (other, one) };
            let (a, b) = (self.run(a), self.run(b));
            let (ours, theirs) = if first { (a, b) } else { (b, a) };
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => paired.add(ours, theirs),
                // Settings that do not pass lose.
                (None, Some(_)) if !self.is_stopped => paired.add(1.0, 2.0),
                (Some(_), None) if !self.is_stopped => paired.add(2.0, 1.0),
                _ => {}
            }
        }
        paired
    }
}

fn racer(settings: Settings) -> Racer {
    Racer {
        settings,
        rates: Vec::new(),
    }
}

/// The one with the highest median; the first of equals, so the scenario's own if none passed.
fn fastest(racers: Vec<Racer>) -> Settings {
    let mut best: Option<Racer> = None;
    for racer in racers {
        if best
            .as_ref()
            .is_none_or(|best| racer.median() > best.median())
        {
            best = Some(racer);
        }
    }
    best.map(|best| best.settings).unwrap_or_default()
}
