//! For how long programs are sampled before they can be judged.
#![forbid(unsafe_code)]

use crate::event::Event;
use crate::ids::Names;
use crate::state::{RunState, WorkerState};
use std::time::{Duration, Instant};

/// How long running programs are sampled, and how often.
const SAMPLE_FOR: Duration = Duration::from_millis(700);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// For how much longer they are sampled at most, if their rates are not known by then.
const SAMPLE_FOR_MORE: Duration = Duration::from_secs(2);

/// The state of programs with a recorder: of running ones sampled until it can be judged, of those
/// that are gone as of their last moment. `look` appends new events to the list that it is given;
/// `names` are the names of the nodes.
///
/// # Errors
/// The error of `look`.
pub fn sampled<E>(
    names: Names,
    mut look: impl FnMut(&mut Vec<Event>) -> Result<(), E>,
) -> Result<RunState, E> {
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
    Ok(state)
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
