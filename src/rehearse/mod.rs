//! Rehearsals: one scenario per condition, and the result of each.
//!
//! A scenario under `scenarios/repro` causes one fault and expects one finding; file and
//! scenario have the name of the condition. A fault that cannot be injected on one machine
//! (`[fault] by = "evidence"`) is judged from recorded or constructed evidence instead of a
//! run, and its row says `simulated`.
//!
//! Not here: running the scenarios.
#![forbid(unsafe_code)]

#[cfg(test)]
mod page;

use serde::Serialize;
use tcpx_diagnose::{Condition, Evidence, diagnose};
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::finding::Finding;
use tcpx_run_model::scenario::Scenario;
use tcpx_run_model::state::RunState;

/// One failure that can be rehearsed: the scenario of a condition, which has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rehearsal(Condition);

/// One row of the table of results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RehearsalRow {
    /// Name of the scenario.
    pub(crate) scenario: String,
    /// The condition that the scenario expects.
    pub(crate) expected: String,
    /// The condition found first, or the outcome in parentheses if nothing was found.
    pub(crate) found: String,
    /// Seconds from the last progress to the first report of the expected condition; `None` if
    /// nothing was run, or the condition was found only after the run.
    pub(crate) seconds_to_verdict: Option<f64>,
    /// The expected condition came first, and every other expectation was met.
    pub(crate) passed: bool,
    /// Judged from evidence without a run.
    pub(crate) simulated: bool,
    /// Expectations other than the finding that were not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unmet: Vec<String>,
}

/// One for each condition, in the order of the catalogue.
pub(crate) fn rehearsals() -> impl Iterator<Item = Rehearsal> {
    Condition::ALL.iter().copied().map(Rehearsal)
}

impl Rehearsal {
    /// The name of the condition, of the scenario and of its file.
    pub(crate) fn name(self) -> &'static str {
        self.0.word()
    }

    /// The scenario of its file, with defaults.
    ///
    /// # Errors
    /// The parser's error; a test parses every file.
    pub(crate) fn scenario(self) -> Result<Scenario, String> {
        toml::from_str(self.0.entry().scenario).map_err(|error| error.to_string())
    }

    /// Judges the evidence of a simulated condition; `None` for a scenario that has to run.
    pub(crate) fn judge(self, scenario: &Scenario) -> Option<RehearsalRow> {
        scenario.evidence_only()?;
        let evidence = self.0.entry().evidence;
        let evidence = evidence.ok_or("scenarios/repro/evidence has no file for it".to_owned());
        let evidence = evidence
            .and_then(|text| serde_json::from_str::<Evidence>(text).map_err(|e| e.to_string()));
        let (findings, unmet) = match evidence {
            Ok(evidence) => (diagnose(&evidence), Vec::new()),
            Err(why) => (Vec::new(), vec![why]),
        };
        Some(RehearsalRow {
            simulated: true,
            ..rehearsal_row(scenario, &findings, "nothing", unmet)
        })
    }
}

/// The row of a run with these findings; `ending` is its outcome. A rehearsal passes if the
/// expected condition comes first, or follows from the condition that does: a symptom never
/// comes before its cause.
pub(crate) fn rehearsal_row(
    scenario: &Scenario,
    findings: &[Finding],
    ending: &str,
    unmet: Vec<String>,
) -> RehearsalRow {
    let expected = scenario.expect.finding.clone().unwrap_or_default();
    let first = findings.first().map(|first| first.condition.as_str());
    let explains = first
        .and_then(Condition::from_name)
        .map_or(&[][..], |first| first.entry().explains);
    let is_symptom = explains.iter().any(|symptom| symptom.word() == expected)
        && findings.iter().any(|finding| finding.condition == expected);
    let passed = (first == Some(&expected) || is_symptom) && unmet.is_empty();
    let found = first.map_or_else(|| format!("({ending})"), str::to_owned);
    let found = if is_symptom {
        format!("{found}, then it")
    } else {
        found
    };
    let scenario = scenario.name.clone();
    RehearsalRow {
        scenario,
        expected,
        found,
        seconds_to_verdict: None,
        passed,
        simulated: false,
        unmet,
    }
}

/// Measures the time from the last progress to the first report of a condition.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    condition: String,
    state: RunState,
    seconds: Option<f64>,
}

impl Stopwatch {
    /// A stopwatch that stops when `condition` is reported.
    pub(crate) fn new(condition: &str) -> Self {
        Self {
            condition: condition.to_owned(),
            ..Self::default()
        }
    }

    /// Takes the next event of the run.
    pub(crate) fn event(&mut self, event: &Event) {
        if self.seconds.is_some() {
            return;
        }
        if let EventKind::Findings(findings) = &event.kind
            && findings
                .iter()
                .any(|finding| finding.condition == self.condition)
        {
            self.seconds = Some(((event.ms - self.state.progress_ms) / 1e3).max(0.0));
        }
        self.state.apply(event);
    }

    /// Seconds, if the condition was reported.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::ids::{NodeId, PairId, Who, WorkerId};

    fn finding(condition: &str) -> Finding {
        Finding {
            condition: condition.into(),
            ..serde_json::from_str(NOTHING).unwrap()
        }
    }

    const NOTHING: &str =
        r#"{"condition":"","severity":"error","confidence":1,"because":[],"cannot_see":[]}"#;

    #[test]
    fn every_scenario_of_the_folder_is_a_rehearsal() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/repro");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            // A scenario that needs a GPU is not a rehearsal.
            if path.is_file() && !name.starts_with("gpu-") {
                assert!(Condition::from_name(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn each_scenario_expects_the_condition_of_its_name() {
        for one in rehearsals() {
            let (name, entry) = (one.name(), one.0.entry());
            let scenario = one
                .scenario()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(scenario.check().is_ok(), "{name}");
            let expected = scenario.expect.finding.as_deref();
            assert_eq!((scenario.name.as_str(), expected), (name, Some(name)));
            let is_judged = one.judge(&scenario).is_some();
            assert_eq!(
                (entry.evidence.is_some(), is_judged),
                (entry.simulated, entry.simulated),
                "{name}"
            );
        }
    }

    #[test]
    fn the_evidence_of_every_simulated_condition_shows_it() {
        for one in rehearsals() {
            if let Some(row) = one.judge(&one.scenario().unwrap()) {
                assert!(row.passed && row.simulated, "{row:?}");
            }
        }
    }

    #[test]
    fn a_symptom_passes_only_after_its_cause() {
        let scenario = |name| {
            let condition = Condition::from_name(name).unwrap();
            Rehearsal(condition).scenario().unwrap()
        };
        let check = |name, found: &[&str], passed: bool| {
            let findings: Vec<Finding> = found.iter().map(|name| finding(name)).collect();
            let row = rehearsal_row(&scenario(name), &findings, "passed", Vec::new());
            assert_eq!(row.passed, passed, "{row:?}");
        };
        check(
            "process-killed",
            &["process-killed", "peer-exited-first"],
            true,
        );
        check(
            "peer-exited-first",
            &["process-killed", "peer-exited-first"],
            true,
        );
        check(
            "process-killed",
            &["peer-exited-first", "process-killed"],
            false,
        );
        check("peer-exited-first", &["process-killed"], false);
        check("plugin-crash", &[], false);
        assert!(
            !rehearsal_row(
                &scenario("plugin-crash"),
                &[finding("plugin-crash")],
                "",
                vec!["a gate".into()]
            )
            .passed
        );
    }

    #[test]
    fn the_time_runs_from_the_last_progress() {
        let mut stopwatch = Stopwatch::new("stalled");
        let event = |ms: f64, kind| {
            Event::new(
                ms,
                Who::Worker(WorkerId::of_pair(NodeId(0), PairId(0))),
                kind,
            )
        };
        let sample = |posted, quiet_ms| {
            let channel = tcpx_run_model::counters::ChannelNow {
                posted,
                quiet_ms,
                ..Default::default()
            };
            EventKind::Sample(vec![channel])
        };
        stopwatch.event(&event(1000.0, sample(4, 0)));
        stopwatch.event(&event(2000.0, sample(5, 100)));
        stopwatch.event(&event(3000.0, sample(5, 1100)));
        stopwatch.event(&event(
            4000.0,
            EventKind::Findings(vec![finding("nothing-arrives")]),
        ));
        assert_eq!(stopwatch.seconds(), None);
        stopwatch.event(&event(
            5000.0,
            EventKind::Findings(vec![finding("stalled")]),
        ));
        stopwatch.event(&event(
            9000.0,
            EventKind::Findings(vec![finding("stalled")]),
        ));
        assert_eq!(stopwatch.seconds(), Some(3.1));
    }
}
