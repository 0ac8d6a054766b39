//! Reads evidence from a run folder, finished or not, from a bundle, and from the recorders
//! of running programs.
#![forbid(unsafe_code)]

use super::evidence::Evidence;
use super::rank::diagnose;
use std::path::{Path, PathBuf};
use tcpx_run_model::event::Event;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::Names;
use tcpx_run_model::live::sampled;
use tcpx_run_model::record::{RecordError, RunFiles};
use tcpx_run_model::replay::ReplayError;
use tcpx_words::error::NextStep;

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

/// Evidence of programs with a recorder, which `look` reads as [`sampled`] says; `names` are the
/// names of the nodes.
///
/// # Errors
/// The error of `look`.
pub fn evidence_from_recorders<E>(
    names: Names,
    look: impl FnMut(&mut Vec<Event>) -> Result<(), E>,
) -> Result<Evidence, E> {
    Ok(Evidence::from_state(&sampled(names, look)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tcpx_recorder::format::{Call, Role};
    use tcpx_recorder::{Addresses, EndedHow, Opening, Options, Recorder, Slot, note_life};
    use tcpx_run_model::adopt::{Adoptable, adopt};
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::event::EventKind;
    use tcpx_run_model::ids::{NodeId, Unit, Who, WorkerId};
    use tcpx_run_model::live::TESTS_PER_NOTE;
    use tcpx_run_model::state::STALL_AFTER_MS;

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

    fn recorder_in(folder: &Path) -> Recorder {
        Recorder::create_in(folder, &Options::new("adopt")).expect("a recorder")
    }

    fn slot(recorder: &Recorder, role: Role, comm: usize) -> &Slot {
        let opening = Opening {
            role,
            device: 0,
            comm,
            retires_consumed: false,
            addresses: Addresses::default(),
        };
        let key = recorder.open(&opening).expect("a slot");
        recorder.slot(key).expect("a slot")
    }

    /// What is found in a run folder that is made of a recording.
    fn found_in_adopted(folder: &Path, recording: PathBuf) -> Vec<Finding> {
        let files = Adoptable {
            recordings: vec![recording],
            ..Adoptable::default()
        };
        let plain = |log| Ok((log, false));
        let (path, _) = adopt(folder, "now", "x", &files, plain).expect("adopted");
        findings_from_files(&RunFiles::open(&path).expect("a run"))
    }

    /// One of its comms is inside a call, for which the other one is not tested.
    #[test]
    fn what_is_adopted_of_a_program_inside_a_call_tells_that_it_hangs() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder = recorder_in(parent.path());
        slot(&recorder, Role::Send, 0).post(64, recorder.now_ns());
        let hangs = slot(&recorder, Role::Send, 1);
        hangs.post(64, recorder.now_ns());
        let _never_left = hangs.enter(Call::Isend);
        // Its channels have stood still for as long as a stall by then.
        std::thread::sleep(Duration::from_millis(STALL_AFTER_MS));
        let found = found_in_adopted(parent.path(), recorder.path());
        assert_eq!(found[0].condition, "hang-inside-call", "{found:?}");
    }

    /// Many of its tests were done after the last one that the recorder noted with its time.
    #[test]
    fn tests_that_were_done_are_not_taken_for_tests_of_a_program_that_slept_then() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder = recorder_in(parent.path());
        let receives = slot(&recorder, Role::Recv, 0);
        let began_ns = recorder.now_ns();
        for _ in 0..=TESTS_PER_NOTE {
            receives.tested();
            receives.not_done(|| began_ns);
        }
        for test in 1..500 {
            let at_ns = began_ns + test * 1000;
            let number = receives.post(64, at_ns);
            receives.tested();
            receives.finish(number, None, at_ns);
        }
        receives.post(64, began_ns + 1_000_000);
        std::thread::sleep(Duration::from_millis(STALL_AFTER_MS + 100));
        // A copy ends when the writer was last seen.
        note_life(&recorder.path(), EndedHow::Unknown).expect("noted");
        let copy = parent.path().join("copy.tcpxrec");
        std::fs::copy(recorder.path(), &copy).expect("copied");
        let found = found_in_adopted(parent.path(), copy);
        assert_eq!(found[0].condition, "local-loop-starved", "{found:?}");
        let said = found[0].because.join("; ");
        assert!(said.contains("tested at most 1 times/s"), "{said}");
    }
}
