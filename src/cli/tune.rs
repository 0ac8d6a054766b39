//! `tcpxctl tune SCENARIO`: finds the smallest settings that are as fast as the best.
//!
//! ```console
//! $ tcpxctl tune scenarios/4conn.toml --budget 10m
//! # knob         was       now       worth
//!   connections  4         8         1.31 x, p 0.0001 of 15 pairs of runs
//!   windows      12/16     8/8       no slower : 1.00 x, p 0.62 of 15 pairs
//! # Rate : 12.31 GB/s, 1.30 x of the scenario's own 9.44, p 0.0001 of 15 pairs of runs
//! # 231 runs in 9 min 12 s : scenarios/4conn.tuned.toml
//! ```
//!
//! Each run is one `tcpxctl run`, with every key of the scenario but the knobs. A gain is printed only
//! if it is larger than 2 % and an exact test of further runs shows it; see `tune`.
#![forbid(unsafe_code)]

use super::Common;
use super::child::ChildRuns;
use super::failure::{Ended, Ending, Failure};
use super::nodes::Nodes;
use super::output::{Columns, print, print_json, print_warning, say};
use super::plugin_arguments::PluginArguments;
use super::scenario::{must_be_runnable, points_of};
use super::signals::interrupted;
use crate::tune::{Knob, Means, Measured, Paired, Settings, Stage, TOLERANCE, Tuned, knobs, tune};
use clap::Args;
use serde::Serialize;
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tcpx_report::write_whole;
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::scenario::Scenario;
use tcpx_words::error::Outcome;
use tcpx_words::units::TimeSpan;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Scenario file, such as scenarios/4conn.toml.
    scenario: PathBuf,
    /// Time for all runs.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    budget: TimeSpan,
    /// Knobs to turn, such as connections,chunk [default: all].
    #[arg(long, value_name = "KNOB,...", value_delimiter = ',')]
    knobs: Vec<String>,
    /// File for the tuned scenario [default: SCENARIO.tuned.toml].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides which combinations of knobs are tried.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Override a scenario key before tuning; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    plugin: PluginArguments,
    /// Folder for the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
    #[command(flatten)]
    nodes: Nodes,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let path = Some(arguments.scenario.clone());
    let points = points_of(path, &arguments.set, &arguments.plugin)?;
    let [point] = points.as_slice() else {
        return Err(Failure::new(Outcome::Usage, "a sweep cannot be tuned")
            .next("give each list one value with --set"));
    };
    let scenario = &point.scenario;
    must_be_runnable(scenario)?;
    if scenario.mesh.is_some() {
        let message = "a mesh cannot be tuned: its pairs differ";
        return Err(Failure::new(Outcome::Usage, message).next("tune one pair of nodes"));
    }
    let knobs = chosen(knobs(scenario, cores()), &arguments.knobs)?;
    let flag = interrupted()?;
    let mut extra = vec!["--no-preflight".to_owned()];
    extra.extend(arguments.nodes.as_arguments());
    let runs = ChildRuns::new(&arguments.reports, "tune", &extra, &flag)?;
    let mut session = Session {
        scenario,
        knobs: &knobs,
        runs,
        count: 0,
        stage: None,
        first_failure: None,
    };
    let started = Instant::now();
    let tuned = session.tune(arguments.seed, arguments.budget.0, started);
    let Some(tuned) = tuned else {
        return session.without_result(arguments);
    };
    let elapsed = started.elapsed();
    let path = write(arguments, scenario, &knobs, &tuned)?;
    let document = TuneDocument {
        schema: "tcpxctl.tune/1",
        runs: session.count,
        seconds: elapsed.as_secs_f64(),
        is_complete: tuned.is_complete,
        out: path.display().to_string(),
        rate: tuned.whole.as_ref().map(Worth::of),
        knobs: rows(&knobs, &tuned),
    };
    if common.json {
        print_json(&document);
    } else {
        print(&document.text());
    }
    if !tuned.is_complete {
        let message = "the time was not enough for every stage; what is said was measured";
        print_warning(common, message, Some("raise --budget"));
    }
    Ok(Ending::PASSED)
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism();
    cores.map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

fn chosen(all: Vec<Knob>, wanted: &[String]) -> Result<Vec<Knob>, Failure> {
    let names: Vec<&str> = all.iter().map(|knob| knob.name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        let message = format!("there is no knob `{unknown}`");
        let next = format!("choose from {}", names.join(", "));
        return Err(Failure::new(Outcome::Usage, message).next(next));
    }
    let is_wanted = |knob: &Knob| wanted.is_empty() || wanted.iter().any(|name| name == knob.name);
    Ok(all.into_iter().filter(is_wanted).collect())
}

/// The runs of one search.
struct Session<'a> {
    scenario: &'a Scenario,
    knobs: &'a [Knob],
    runs: ChildRuns<'a>,
    count: u32,
    stage: Option<Stage>,
    /// Why the first run that did not pass did not.
    first_failure: Option<String>,
}

impl Session<'_> {
    fn tune(&mut self, seed: u64, budget: Duration, started: Instant) -> Option<Tuned> {
        let spent = || started.elapsed().as_secs_f64() / budget.as_secs_f64().max(f64::EPSILON);
        let stage = Cell::new(None);
        let mut tell = |next: Stage, settings: usize| {
            stage.set(Some(next));
            say(&format!("# {}\n", described(next, settings)));
        };
        let knobs = self.knobs;
        let mut run = |settings: &Settings| {
            self.stage = stage.get();
            self.run(settings)
        };
        let means = Means {
            run: &mut run,
            spent: &spent,
            stage: &mut tell,
        };
        tune(knobs, seed, means)
    }

    fn run(&mut self, settings: &Settings) -> Measured {
        let scenario = with(self.scenario, self.knobs, settings);
        let ran = self.runs.run(&scenario);
        self.count += 1;
        if self.runs.is_interrupted() {
            return Measured::Stop;
        }
        let why = match &ran {
            Ok(ran) if ran.record.outcome == Outcome::Passed => {
                let rate = rate(&ran.record);
                say(&format!(
                    "# run {} : {rate:.2} GB/s, {}\n",
                    self.count,
                    texts(self.knobs, settings)
                ));
                return Measured::Rate(rate);
            }
            Ok(ran) => ran.record.reason.clone().unwrap_or_default(),
            Err(why) => format!("{why:#}"),
        };
        say(&format!(
            "# run {} : did not pass, {}: {why}\n",
            self.count,
            texts(self.knobs, settings)
        ));
        self.first_failure.get_or_insert(why);
        Measured::Failed
    }

    fn without_result(&self, arguments: &Arguments) -> Ended {
        if self.runs.is_interrupted() {
            return Ok(Ending::from(Outcome::Interrupted));
        }
        let file = arguments.scenario.display();
        let why = self.first_failure.as_deref().unwrap_or("it has no rate");
        let message = format!("{file} does not pass as it is: {why}");
        Err(Failure::new(Outcome::Failed, message).next(format!("run it: tcpxctl run {file}")))
    }
}

/// The rate of everything that the run measured, 10^9 bytes per second.
fn rate(record: &RunRecord) -> f64 {
    record.transfers.iter().map(|one| one.gb_per_s).sum()
}

fn with(scenario: &Scenario, knobs: &[Knob], settings: &Settings) -> Scenario {
    let mut changed = scenario.clone();
    for (knob, value) in knobs.iter().zip(settings) {
        // A knob at its own value leaves the scenario as it was written.
        if *value != knob.own {
            knob.apply(*value, &mut changed);
        }
    }
    changed
}

fn texts(knobs: &[Knob], settings: &Settings) -> String {
    let texts = knobs
        .iter()
        .zip(settings)
        .map(|(knob, value)| format!("{} {}", knob.name, knob.values[*value].text));
    texts.collect::<Vec<_>>().join(", ")
}

fn described(stage: Stage, settings: usize) -> String {
    match stage {
        Stage::Halving => format!("Halving : {settings} settings, the faster half stays"),
        Stage::Shrinking => {
            format!(
                "Shrinking : {settings} values of all knobs, the smallest of the fast ones stays"
            )
        }
        Stage::Confirming => {
            format!("Confirming : {settings} comparisons, by further pairs of runs")
        }
    }
}

fn write(
    arguments: &Arguments,
    scenario: &Scenario,
    knobs: &[Knob],
    tuned: &Tuned,
) -> Result<PathBuf, Failure> {
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.scenario.with_extension("tuned.toml"));
    let head = format!(
        "# {}, as `tcpxctl tune` found it: {}.\n",
        scenario.name,
        texts(knobs, &tuned.settings)
    );
    let text = toml::to_string_pretty(&with(scenario, knobs, &tuned.settings)).unwrap_or_default();
    write_whole(&path, |to| to.write_all((head + &text).as_bytes()))
        .map_err(|error| Failure::from(error).next("choose another file with --out FILE"))?;
    Ok(path)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TuneDocument {
    schema: &'static str,
    /// Runs that were made.
    runs: u32,
    seconds: f64,
    /// Whether the time was enough for every stage.
    is_complete: bool,
    /// File of the tuned scenario.
    out: String,
    /// The tuned scenario against the one as it was; absent if they are the same.
    rate: Option<Worth>,
    knobs: Vec<KnobRow>,
}

/// One knob and its two values.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KnobRow {
    knob: &'static str,
    was: String,
    now: String,
    /// Measured only if the value changed.
    worth: Option<Worth>,
}

/// What a change is worth, by pairs of runs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Worth {
    /// `faster`, `slower` or `no real difference`.
    verdict: &'static str,
    /// Median of the ratios, with the change over without it.
    ratio: f64,
    /// Median rates with and without it, 10^9 bytes per second.
    gb_per_s: (f64, f64),
    pairs: usize,
    /// Two-sided p value of the signed-rank test.
    p: f64,
}

impl Worth {
    fn of(paired: &Paired) -> Self {
        let verdict = match (paired.is_gain(), paired.is_real() && paired.ratio() < 1.0) {
            (true, _) => "faster",
            (false, true) => "slower",
            (false, false) => "no real difference",
        };
        Self {
            verdict,
            ratio: paired.ratio(),
            gb_per_s: paired.rates(),
            pairs: paired.count(),
            p: paired.p(),
        }
    }

    fn evidence(&self) -> String {
        let p = if self.p < 0.0001 {
            "p < 0.0001".to_owned()
        } else {
            format!("p {:.4}", self.p)
        };
        format!("{:.2} x, {p} of {} pairs of runs", self.ratio, self.pairs)
    }
}

fn rows(knobs: &[Knob], tuned: &Tuned) -> Vec<KnobRow> {
    let row = |(at, knob): (usize, &Knob)| KnobRow {
        knob: knob.name,
        was: knob.values[knob.own].text.clone(),
        now: knob.values[tuned.settings[at]].text.clone(),
        worth: tuned.worth.get(&at).map(Worth::of),
    };
    knobs.iter().enumerate().map(row).collect()
}

impl TuneDocument {
    fn text(&self) -> String {
        let mut columns = Columns::new(&["knob", "was", "now", "worth"]);
        for row in &self.knobs {
            let worth = row.worth.as_ref().map_or_else(
                || "as it was".to_owned(),
                |worth| format!("{} : {}", worth.verdict, worth.evidence()),
            );
            columns.row([row.knob.to_owned(), row.was.clone(), row.now.clone(), worth]);
        }
        let mut text = columns.render();
        let _ = match &self.rate {
            None => writeln!(
                text,
                "# Rate : no other settings were faster by more than {:.0} %, or as fast and smaller",
                100.0 * TOLERANCE
            ),
            Some(worth) => writeln!(
                text,
                "# Rate : {:.2} GB/s, the scenario as it was {:.2}; {} : {}",
                worth.gb_per_s.0,
                worth.gb_per_s.1,
                worth.verdict,
                worth.evidence()
            ),
        };
        let seconds = self.seconds as u64;
        let _ = writeln!(
            text,
            "# {} runs in {} min {} s : {}",
            self.runs,
            seconds / 60,
            seconds % 60,
            self.out
        );
        text
    }
}
