//! Evidence from where it lies: a run folder, finished or not, a bundle, and recorders of
//! programs that run now.
#![forbid(unsafe_code)]

use super::evidence::Evidence;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_run_model::event::Event;
use tcpx_run_model::ids::{Names, Unit};
use tcpx_run_model::record::{Frame, RunFiles};
use tcpx_run_model::state::RunState;
use tcpx_words::error::NextStep;

/// How long programs that run are looked at, and how often.
const LOOK_FOR: Duration = Duration::from_millis(700);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A folder without an event stream.
    #[error("{} has no events.jsonl to judge by: {why}", path.display())]
    NoEvents {
        /// Which.
        path: PathBuf,
        /// In the system's words.
        why: String,
    },
    /// No run was ever kept here.
    #[error("there is no run in {}", .0.display())]
    NoRuns(PathBuf),
    /// Nothing more comes from a node.
    #[error("{0}")]
    Lost(String),
}

impl NextStep for OpenError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::NoEvents { .. } | Self::NoRuns(_) => {
                Some("name a folder under reports/, a process that writes a recorder, or a recorder file".into())
            }
            Self::Lost(_) => None,
        }
    }
}

/// The newest run folder below `reports`.
///
/// # Errors
/// There is none.
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

/// What a run left, as far as it has got, in its folder or in a bundle.
///
/// # Errors
/// It has no event stream.
pub fn of_files(files: &RunFiles) -> Result<Evidence, OpenError> {
    let no_events = |error: io::Error| OpenError::NoEvents {
        path: files.path().to_owned(),
        why: error.to_string(),
    };
    let mut evidence = Evidence::of(&files.replay().map_err(no_events)?);
    if let Ok(Some(record)) = files.record() {
        evidence.add_record(&record);
    }
    Ok(evidence)
}

/// What programs that run now show while they are looked at for a moment. `look`
/// adds events to what it is given; `names` says how their nodes are called.
///
/// # Errors
/// What `look` fails with.
pub fn of_recorders<E>(
    names: Names,
    mut look: impl FnMut(&mut Vec<Event>) -> Result<(), E>,
) -> Result<Evidence, E> {
    let (mut state, began) = (
        RunState {
            names,
            ..RunState::default()
        },
        Instant::now(),
    );
    loop {
        let mut events = Vec::new();
        look(&mut events)?;
        events.iter().for_each(|event| state.apply(event));
        if began.elapsed() >= LOOK_FOR {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // Of processes on other nodes nothing more can be asked.
    let is_here = state.names.nodes.len() <= 1;
    let standing = if is_here {
        standing_processes(&Evidence::of(&state))
    } else {
        BTreeSet::new()
    };
    for worker in state.workers.values_mut() {
        let Unit::Process { pid, .. } = worker.id.unit else {
            continue;
        };
        if !standing.contains(&pid) {
            continue;
        }
        let devices = worker
            .process
            .iter()
            .flat_map(|process| process.nics.values());
        let nics: Vec<String> = devices
            .collect::<BTreeSet<_>>()
            .into_iter()
            .cloned()
            .collect();
        let frame = Frame::take(pid, &nics, worker.channels.clone(), None);
        let at_ms = worker.sampled_ms.unwrap_or(0.0);
        worker.take_frame(at_ms, &frame);
    }
    Ok(Evidence::of(&state))
}

/// Processes with a channel that stands still.
fn standing_processes(evidence: &Evidence) -> BTreeSet<u32> {
    evidence
        .standing()
        .filter_map(|spot| spot.node.subject.pid)
        .collect()
}
