//! Reads evidence from a run folder, finished or not, from a bundle, and from the recorders
//! of running programs.
#![forbid(unsafe_code)]

use super::evidence::Evidence;
use super::rank::diagnose;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_run_model::event::Event;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::Names;
use tcpx_run_model::record::{RecordError, RunFiles};
use tcpx_run_model::replay::ReplayError;
use tcpx_run_model::state::{RunState, WorkerState};
use tcpx_words::error::NextStep;

/// How long running programs are sampled, and how often.
const SAMPLE_FOR: Duration = Duration::from_millis(700);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// For how much longer they are sampled at most, if their rates are not known by then.
const SAMPLE_FOR_MORE: Duration = Duration::from_secs(2);

/// Why there is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A folder without an event stream.
    #[error("cannot read events.jsonl of {}: {why}", path.display())]
    NoEvents {
        /// The run folder or bundle.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// The run's record has a version that this program does not know.
    #[error("cannot judge {}: {error}", path.display())]
    Record {
        /// The run folder or bundle.
        path: PathBuf,
        /// The error with the record's schema.
        error: RecordError,
    },
    /// The folder holds no run.
    #[error("no run in {}", .0.display())]
    NoRuns(PathBuf),
    /// A node stopped answering; the text says which.
    #[error("{0}")]
    Lost(String),
}

impl NextStep for OpenError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::NoEvents { .. } | Self::NoRuns(_) => {
                Some("name a folder under reports/, a process that writes a recorder, or a recorder file".into())
            }
            Self::Record { error, .. } => error.next_step(),
            Self::Lost(_) => None,
        }
    }
}

/// The newest run folder below `reports`.
///
/// # Errors
/// `reports` holds no run folder.
pub fn newest_run(reports: &Path) -> Result<PathBuf, OpenError> {
    let folders = std::fs::read_dir(reports).into_iter().flatten().flatten();
    let runs = folders.filter_map(|entry| {
        let events = entry.path().join("events.jsonl");
        let began = std::fs::metadata(&events)
            .and_then(|meta| meta.modified())
            .ok()?;
        Some((began, entry.path()))
    });
    runs.max()
        .map(|(_, path)| path)
        .ok_or_else(|| OpenError::NoRuns(reports.to_owned()))
}

/// Evidence of a run, finished or not, from its folder or a bundle.
///
/// # Errors
/// It has no event stream, or its record is of another version.
pub fn evidence_from_files(files: &RunFiles) -> Result<Evidence, OpenError> {
    let replayed = files.replay().map_err(|error| match error {
        ReplayError::Events(error) => OpenError::NoEvents {
            path: files.path().to_owned(),
            why: error.to_string(),
        },
        ReplayError::Record(error) => OpenError::Record {
            path: files.path().to_owned(),
            error,
        },
    })?;
    let mut evidence = Evidence::from_state(&replayed.state);
    evidence.damaged.extend(replayed.damaged);
    if let Some(record) = &replayed.record {
        evidence.add_record(record);
    }
    Ok(evidence)
}

/// Findings of a run; none if it cannot be judged.
pub fn findings_from_files(files: &RunFiles) -> Vec<Finding> {
    evidence_from_files(files)
        .map(|evidence| diagnose(&evidence))
        .unwrap_or_default()
}

/// Evidence of programs with a recorder: of running ones sampled for a moment, of those that are
/// gone as of their last moment. `look` appends new events to the list
/// that it is given; `names` are the names of the nodes.
///
/// # Errors
/// The error of `look`.
pub fn evidence_from_recorders<E>(
    names: Names,
    mut look: impl FnMut(&mut Vec<Event>) -> Result<(), E>,
) -> Result<Evidence, E> {
    let mut state = RunState {
        names,
        ..RunState::default()
    };
    // The first look takes freeze-frames, for seconds on a busy machine.
    let mut first_looked: Option<Instant> = None;
    loop {
        let mut events = Vec::new();
        look(&mut events)?;
        events.iter().for_each(|event| state.apply(event));
        let looked = first_looked.get_or_insert_with(Instant::now).elapsed();
        // Whether a call hangs shows only after the time of a stall.
        let enough = match may_hang(&state) {
            true => Duration::from_millis(state.stall_after_ms) + SAMPLE_FOR,
            false => SAMPLE_FOR,
        };
        let mut running = state.workers.values().filter(|worker| !worker.is_gone());
        let is_enough = looked >= enough && running.all(is_measured);
        let all_are_gone =
            !state.workers.is_empty() && state.workers.values().all(WorkerState::is_gone);
        if all_are_gone || is_enough || looked >= enough + SAMPLE_FOR_MORE {
            break;
        }
        std::thread::sleep(SAMPLE_EVERY);
    }
    Ok(Evidence::from_state(&state))
}

/// Whether its samples are far enough apart for a rate, or it has none. On a busy machine a look may be late.
fn is_measured(worker: &WorkerState) -> bool {
    let enough_ms = SAMPLE_FOR.as_millis() as f64 / 2.0;
    worker.watched_ms().is_none_or(|ms| ms >= enough_ms)
}

/// Shortest time inside one call after which a process is watched for longer. A healthy call takes less.
const INSIDE_MS: u64 = 300;

/// Whether a running process has been inside one call for long, but not for as long as a stall.
fn may_hang(state: &RunState) -> bool {
    let undecided = |ms: u64| (INSIDE_MS..state.stall_after_ms).contains(&ms);
    let in_setup = |worker: &WorkerState| {
        let since_ns = worker.process.as_ref()?.inside_since_ns?;
        Some((state.now_ms - state.ms(since_ns)) as u64)
    };
    let mut running = state.workers.values().filter(|worker| !worker.is_gone());
    running.any(|worker| {
        let open = worker.channels.iter().filter(|now| !now.closed);
        let on_channels = open.map(|now| now.in_call_ms);
        on_channels.chain(in_setup(worker)).any(undecided)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::event::EventKind;
    use tcpx_run_model::ids::{NodeId, Unit, Who, WorkerId};

    /// Evidence of a process of which every look shows a moment so much later than the last.
    fn looked_at(apart_ms: f64) -> Evidence {
        let mut looks: u32 = 0;
        let unit = Unit::Process {
            pid: 7,
            recorder: 0,
        };
        let node = NodeId(0);
        let look = |events: &mut Vec<Event>| {
            let one = ChannelNow {
                posted: 8,
                quiet_ms: 60_000 + (f64::from(looks) * apart_ms) as u64,
                tests: u64::from(looks) * 1000,
                ..ChannelNow::default()
            };
            let who = Who::Worker(WorkerId { node, unit });
            let at_ms = 100_000.0 + f64::from(looks) * apart_ms;
            events.push(Event::new(at_ms, who, EventKind::Sample(vec![one])));
            looks += 1;
            Ok::<_, OpenError>(())
        };
        evidence_from_recorders(Names::default(), look).expect("evidence")
    }

    #[test]
    fn programs_are_sampled_until_their_rates_are_known_and_not_for_ever() {
        // Samples of a node that answers late are close together.
        for (apart_ms, is_known) in [(40.0, true), (0.0, false)] {
            let evidence = looked_at(apart_ms);
            let rate = evidence.nodes[0].channels[0].polls_per_s();
            assert_eq!(rate.is_some(), is_known, "{apart_ms}: {rate:?}");
        }
    }
}
