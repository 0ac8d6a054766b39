//! Findings of a run or of watched programs while they go on, reported when they change.
#![forbid(unsafe_code)]

use super::evidence::{Evidence, WATCHED_MIN_MS};
use super::of_state::KnownLines;
use super::rank::diagnose;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_run_model::phase::Phase;
use tcpx_run_model::record::{RunRecord, WorkerFile, worker_file};
use tcpx_run_model::state::{CallSample, RunState, WorkerState};
use tcpx_words::error::Outcome;

/// Interval between two judgements that no event causes.
const EVERY_MS: f64 = 500.0;

/// A program is judged without rates if it was sampled only once for so long.
const RATES_WITHIN_MS: f64 = 2000.0;

/// Judges a state when an event or the interval gives cause to.
#[derive(Default)]
pub struct Watcher {
    known: KnownLines,
    reported: Vec<Finding>,
    looked_ms: Option<f64>,
}

impl Watcher {
    /// Judges a run to which `event` was just applied, if the event can change the findings.
    /// Returns the findings if they changed.
    pub fn event(&mut self, event: &Event, state: &RunState) -> Option<Vec<Finding>> {
        if Self::is_cause(event) {
            self.judge(state)
        } else {
            None
        }
    }

    /// Whether an event of a run can change the findings. A worker that ends as it should cannot:
    /// in a mesh there are thousands, and each judgement reads the whole state.
    pub(super) fn is_cause(event: &Event) -> bool {
        match &event.kind {
            EventKind::Stall(_)
            | EventKind::Recovered
            | EventKind::Frame(_)
            | EventKind::Failed(_) => true,
            EventKind::Exited(exit) => exit.code != Some(0) || exit.phase != Phase::Finished,
            _ => false,
        }
    }

    /// Judges watched programs as soon as their rates are known, then at most twice per second. Returns the findings if they
    /// changed.
    pub fn look(&mut self, state: &RunState) -> Option<Vec<Finding>> {
        let is_early = |looked_ms| state.now_ms - looked_ms < EVERY_MS;
        let mut running = state.workers.values().filter(|worker| !worker.is_gone());
        if self.looked_ms.is_some_and(is_early) || running.any(|one| lacks_rates(one, state.now_ms))
        {
            return None;
        }
        self.looked_ms = Some(state.now_ms);
        self.judge(state)
    }

    /// The findings in a state, if they are not those reported last.
    pub(super) fn judge(&mut self, state: &RunState) -> Option<Vec<Finding>> {
        let found = diagnose(&Evidence::with_known_lines(state, &mut self.known));
        let name = |one: &Finding| (one.condition.clone(), one.subject.clone(), one.severity);
        let is_new = !found.iter().map(name).eq(self.reported.iter().map(name));
        self.reported.clone_from(&found);
        is_new.then_some(found)
    }

    /// Adds the findings to the record of a run that has ended.
    pub fn conclude(&mut self, state: &RunState, run: &mut RunRecord) {
        let mut evidence = Evidence::with_known_lines(state, &mut self.known);
        evidence.add_record(run);
        let found = diagnose(&evidence);
        if let Some((first, reason)) = found.first().zip(run.reason.as_mut())
            && run.outcome == Outcome::Stalled
            && first.severity == Severity::Error
        {
            let place = first.place().unwrap_or("both ends");
            let fact = first.because.first().map_or("", String::as_str);
            reason.push_str(&format!("; {} at {place}: {fact}", first.condition));
            run.next_step.clone_from(&first.next_step);
        }
        // A warning from before the run is dropped if the same condition was found.
        let same = |one: &Finding| {
            found
                .iter()
                .any(|other| other.condition == one.condition && other.subject == one.subject)
        };
        run.findings.retain(|one| !same(one));
        run.findings.splice(0..0, found);
        run.findings.sort_by_key(|one| one.severity);
        for worker in state.workers.values().filter(|worker| worker.was_framed) {
            let pair = worker
                .id
                .pair()
                .and_then(|pair| run.pairs.get_mut(pair.index()));
            let Some(pair) = pair else { continue };
            let places = pair.nodes.into_iter().zip(&mut pair.workers);
            for (_, record) in places
                .into_iter()
                .filter(|(node, _)| *node == worker.id.node)
            {
                record.frame = Some(worker_file(WorkerFile::Frame, worker.id, &state.names));
            }
        }
    }
}

/// Whether a program was seen too briefly for a rate. One look does not tell whether its requests are tested.
pub fn lacks_rates(worker: &WorkerState, now_ms: f64) -> bool {
    let is_new = |first: &CallSample| now_ms - first.at_ms < RATES_WITHIN_MS;
    worker.watched_ms().is_some_and(|ms| ms < WATCHED_MIN_MS)
        && worker.looks.front().is_some_and(is_new)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::ids::{NodeId, Unit, Who, WorkerId};
    use tcpx_run_model::phase::Exit;
    use tcpx_words::side::Side;

    fn sample(at_ms: u64, quiet_ms: u64, tests: u64) -> Event {
        let worker = WorkerId {
            node: NodeId(0),
            unit: Unit::Process {
                pid: 7,
                recorder: 0,
            },
        };
        let one = ChannelNow {
            side: Side::Recv,
            posted: 16,
            quiet_ms,
            tests,
            ..ChannelNow::default()
        };
        Event::new(
            at_ms as f64,
            Who::Worker(worker),
            EventKind::Sample(vec![one]),
        )
    }

    /// A run in which a channel stands still, and the event that says so.
    pub(in super::super) fn stalled() -> (RunState, Event) {
        let mut state = RunState::default();
        let samples = (0..6000).step_by(100);
        samples.for_each(|at_ms: u64| state.apply(&sample(at_ms, at_ms.saturating_sub(1000), 9)));
        let mut stall = sample(6000, 5000, 9);
        if let EventKind::Sample(channels) = stall.kind {
            stall.kind = EventKind::Stall(channels);
        }
        state.apply(&stall);
        (state, stall)
    }

    #[test]
    fn a_stall_is_reported_once_and_so_is_its_end() {
        let (mut watcher, mut state) = (Watcher::default(), RunState::default());
        let mut look = |event: Event| {
            state.apply(&event);
            watcher.look(&state)
        };
        let stalls = (0..6000)
            .step_by(100)
            .map(|at_ms| sample(at_ms, at_ms.saturating_sub(1000), 9));
        let reports: Vec<Vec<Finding>> = stalls.filter_map(&mut look).collect();
        let [findings] = reports.as_slice() else {
            panic!("{reports:?}")
        };
        assert_eq!(findings[0].condition, "local-loop-starved");
        assert_eq!(look(sample(9000, 0, 5000)), Some(Vec::new()));
    }

    #[test]
    fn a_program_that_was_seen_once_is_not_judged() {
        let (mut watcher, mut state) = (Watcher::default(), RunState::default());
        let mut look = |at_ms: u64, tests| {
            state.apply(&sample(at_ms, 9000 + at_ms, tests));
            let found = watcher.look(&state)?.into_iter().next();
            Some(found.expect("a finding").condition)
        };
        assert_eq!(look(10_000, 9), None);
        assert_eq!(look(10_100, 9), None);
        assert_eq!(look(10_250, 9).as_deref(), Some("local-loop-starved"));
    }

    #[test]
    fn the_end_of_a_worker_that_has_finished_is_not_judged() {
        let is_cause = |code, phase| {
            let exit = Exit {
                code,
                signal: code.is_none().then_some(libc::SIGKILL),
                killed: false,
                phase,
                in_call: None,
                channels: Vec::new(),
            };
            let mut event = sample(1, 0, 0);
            event.kind = EventKind::Exited(exit);
            Watcher::is_cause(&event)
        };
        assert!(!is_cause(Some(0), Phase::Finished));
        assert!(
            is_cause(Some(0), Phase::Measuring),
            "the plugin called exit(0)"
        );
        assert!(is_cause(Some(1), Phase::Finished));
        assert!(is_cause(None, Phase::Finished));
    }
}
