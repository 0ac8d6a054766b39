//! Searches on simulated machines, whose rate is a function of the settings, with noise and drift.

use super::*;
use std::cell::Cell;
use tcpx_run_model::scenario::Scenario;

/// A machine: the true rate of some settings.
type Rate = fn(&Named<'_>) -> f64;

/// Settings by the names of their knobs.
struct Named<'a>(&'a [Knob], &'a Settings);

impl Named<'_> {
    fn text(&self, name: &str) -> &str {
        let at = self.0.iter().position(|knob| knob.name == name).unwrap();
        &self.0[at].values[self.1[at]].text
    }

    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap()
    }
}

struct Simulated {
    knobs: Vec<Knob>,
    tuned: Tuned,
    runs: usize,
}

impl Simulated {
    fn text(&self, name: &str) -> &str {
        let at = self
            .knobs
            .iter()
            .position(|knob| knob.name == name)
            .unwrap();
        &self.knobs[at].values[self.tuned.settings[at]].text
    }

    fn gain(&self) -> bool {
        self.tuned.whole.as_ref().is_some_and(Paired::is_gain)
            || self.tuned.worth.values().any(Paired::is_gain)
    }
}

/// Tunes a machine whose runs spread by `noise`, with time for `budget` runs.
fn simulate(rate: Rate, noise: f64, seed: u64, budget: usize) -> Simulated {
    let knobs = knobs(&Scenario::default(), 4);
    let mut random = fastrand::Rng::with_seed(seed);
    let runs = Cell::new(0);
    let mut run = |settings: &Settings| {
        runs.set(runs.get() + 1);
        // The machine gets slower and faster again, by a tenth, as clouds do.
        let drift = 1.0 + 0.1 * (runs.get() as f64 / 40.0).sin();
        let luck = 1.0 + noise * (random.f64() + random.f64() + random.f64() - 1.5);
        match rate(&Named(&knobs, settings)) {
            0.0 => Measured::Failed,
            rate => Measured::Rate(rate * drift * luck),
        }
    };
    let spent = || runs.get() as f64 / budget as f64;
    let means = Means {
        run: &mut run,
        spent: &spent,
        stage: &mut |_, _| {},
    };
    let tuned = tune(&knobs, seed, means).expect("no interrupt");
    Simulated {
        knobs,
        tuned,
        runs: runs.get(),
    }
}

#[test]
fn noise_is_never_reported_as_a_gain() {
    for seed in 0..100 {
        let flat = simulate(|_| 10.0, 0.1, seed, 400);
        assert!(!flat.gain(), "seed {seed}: {:?}", flat.tuned);
    }
}

#[test]
fn on_a_flat_machine_the_smallest_settings_are_enough() {
    let mut small = 0;
    for seed in 0..20 {
        let flat = simulate(|_| 10.0, 0.01, seed, 500);
        let own: usize = flat.knobs.iter().map(|knob| knob.own).sum();
        small += usize::from(flat.tuned.settings.iter().sum::<usize>() < own);
        assert!(flat.tuned.is_complete || flat.runs >= 500);
    }
    assert!(small >= 18, "smaller in {small} of 20");
}

#[test]
fn the_settings_that_matter_are_found_and_nothing_beyond_them() {
    // Twice as fast with 8 connections, no more with 16; half a chunk costs a fifth.
    let machine: Rate = |settings| {
        let connections = settings.number("connections").min(8.0) / 8.0;
        let small = matches!(settings.text("chunk"), "128KiB" | "256KiB");
        20.0 * connections.sqrt() * if small { 0.8 } else { 1.0 }
    };
    for seed in 0..20 {
        let found = simulate(machine, 0.06, seed, 600);
        assert_eq!(found.text("connections"), "8", "seed {seed}");
        assert_eq!(found.text("chunk"), "512KiB", "seed {seed}");
        let whole = found.tuned.whole.as_ref().unwrap();
        assert!(whole.is_gain(), "seed {seed}: {whole:?}");
        let ratio = whole.ratio();
        assert!((1.3..1.55).contains(&ratio), "seed {seed}: {ratio}");
    }
}

#[test]
fn settings_that_fail_are_never_chosen() {
    let machine: Rate = |settings| match settings.number("connections") {
        many if many > 4.0 => 0.0,
        few => 2.0 * few,
    };
    for seed in 0..10 {
        let found = simulate(machine, 0.03, seed, 500);
        assert_eq!(found.text("connections"), "4", "seed {seed}");
    }
}

#[test]
fn a_search_without_time_changes_nothing() {
    let machine: Rate = |settings| settings.number("connections");
    for budget in [1, 5, 20] {
        let short = simulate(machine, 0.05, 1, budget);
        assert!(!short.tuned.is_complete);
        assert!(!short.gain() || short.runs > PAIRS_MIN, "{:?}", short.tuned);
        assert!(short.runs <= budget + 2, "{} of {budget}", short.runs);
    }
}

#[test]
fn an_interrupt_ends_the_search_without_a_result() {
    let knobs = knobs(&Scenario::default(), 4);
    let mut runs = 0;
    let means = Means {
        run: &mut |_| {
            runs += 1;
            if runs > 10 {
                Measured::Stop
            } else {
                Measured::Rate(1.0)
            }
        },
        spent: &|| 0.1,
        stage: &mut |_, _| {},
    };
    assert!(tune(&knobs, 1, means).is_none());
    assert_eq!(runs, 11);
}
