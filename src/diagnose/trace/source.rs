//! What a word on the command line means: a run folder, a recorder file, or the
//! process that writes one now.
#![forbid(unsafe_code)]

use super::recorded::{Trace, WorkerTrace};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use tcpx_recorder::{Liveness, ReadError, Reader, SHARED_MEMORY, list};
use tcpx_run_model::event::EventKind;
use tcpx_run_model::ids::{NodeId, Unit, WorkerId};
use tcpx_run_model::record::{
    FilesError, RECORD_BYTES_MAX, RunFiles, Sample, Series, WorkerFile, for_each_event,
    record_value,
};
use tcpx_run_model::state::RunState;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::printable;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No such folder, file or process.
    #[error("{what} is no run folder, no recorder file, and no process that writes one")]
    Nothing {
        /// As given.
        what: String,
    },
    /// A run folder without a recorder and without events.
    #[error("{} holds neither a recorder nor an event stream", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A recorder file that cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// A folder that cannot be listed, an event stream that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SourceError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        if matches!(self, Self::Nothing { .. }) {
            Outcome::Usage
        } else {
            Outcome::NotRun
        }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Nothing { .. } | Self::Empty { .. } => {
                let folder = Path::new(SHARED_MEMORY).join(tcpx_recorder::folder_name());
                Some(format!(
                    "look for recorder files in {}, and for run folders in reports/",
                    folder.display()
                ))
            }
            Self::Unreadable { .. } | Self::Io { .. } => None,
        }
    }
}

/// Reads everything that `what` names.
///
/// # Errors
/// It names nothing, or what it names cannot be read.
pub fn open(what: &str) -> Result<Trace, SourceError> {
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return run_files(path);
    }
    if path.is_file() {
        return Ok(Trace {
            workers: vec![recorder("process", path, 0)?],
            ..Trace::default()
        });
    }
    match what.parse::<u32>() {
        Ok(pid) => process(pid),
        Err(_) => Err(SourceError::Nothing {
            what: what.to_owned(),
        }),
    }
}

/// The recorder of a process of this machine, `number` among its others.
fn recorder(name: &str, path: &Path, number: u32) -> Result<WorkerTrace, SourceError> {
    let unreadable = |source| SourceError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut reader = Reader::open(path).map_err(unreadable)?;
    let pid = reader.header().map_err(unreadable)?.writer.pid;
    let unit = Unit::Process {
        pid,
        recorder: number,
    };
    WorkerTrace::read(
        WorkerId {
            node: NodeId(0),
            unit,
        },
        name,
        &mut reader,
    )
    .map_err(unreadable)
}

/// Every worker of a run, by the clocks that its record has.
fn run_files(run: &Path) -> Result<Trace, SourceError> {
    let failed = |source| SourceError::Io {
        path: run.to_owned(),
        source,
    };
    let files = match RunFiles::open(run) {
        Ok(files) => files,
        Err(FilesError::NoRun(path)) => return Err(SourceError::Empty { path }),
        Err(error) => return Err(failed(io::Error::other(error))),
    };
    let ahead_us = offsets_us(&files);
    let (mut state, mut series) = (files.begun(), BTreeMap::new());
    let events = files.file("events.jsonl").map(BufReader::new);
    let told = events.and_then(|events| read_stream(events, &ahead_us, &mut state, &mut series));
    if let Ok(Some(record)) = files.record() {
        state.conclude(&record);
    }
    let mut workers = Vec::new();
    for (id, file) in files.of_workers(WorkerFile::Recorder, &state.names) {
        let unreadable = |source| SourceError::Unreadable {
            path: run.join(&file),
            source,
        };
        let opened = files
            .file(&file)
            .map_err(|error| unreadable(error.into()))?;
        let name = printable(&state.names.worker(id));
        let read = Reader::from_file(opened)
            .and_then(|mut reader| WorkerTrace::read(id, &name, &mut reader));
        let mut worker = read.map_err(unreadable)?;
        worker.move_clock(ahead_us.get(&id.node).copied().unwrap_or(0));
        workers.push(worker);
    }
    match told {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound && !workers.is_empty() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SourceError::Empty {
                path: run.to_owned(),
            });
        }
        Err(error) => return Err(failed(error)),
    }
    let samples_of = |(id, series): (&WorkerId, &Series)| {
        (
            printable(&state.names.worker(*id)),
            series.iter().cloned().collect(),
        )
    };
    Ok(Trace {
        workers,
        samples: series.iter().map(samples_of).collect(),
        notes: state
            .notes
            .iter()
            .map(|note| (state.at_ns(note.at_ms), printable(&note.what)))
            .collect(),
    })
}

/// The event stream of a run, whole or as far as it is written: into the state, and
/// counters by the coordinator's clock. A node's own time says when they were taken.
fn read_stream(
    events: impl BufRead,
    ahead_us: &BTreeMap<NodeId, i64>,
    state: &mut RunState,
    series: &mut BTreeMap<WorkerId, Series>,
) -> io::Result<u64> {
    for_each_event(events, |event| {
        state.apply(&event);
        let Some(worker) = event.worker() else { return };
        let ahead_us = ahead_us.get(&worker.node).copied().unwrap_or(0);
        let taken_ns = event
            .node_us
            .map(|us| us.saturating_sub_signed(ahead_us).saturating_mul(1000));
        if let (Some(at_ns), EventKind::Sample(channels) | EventKind::Stall(channels)) =
            (taken_ns.or_else(|| event.at_ns()), event.kind)
            && state.workers.contains_key(&worker)
        {
            series
                .entry(worker)
                .or_default()
                .push(Sample { at_ns, channels });
        }
    })
}

/// What each node's clock is ahead of the coordinator's, where the run measured it;
/// of a damaged record as much as it has.
fn offsets_us(files: &RunFiles) -> BTreeMap<NodeId, i64> {
    let record = files
        .read("run.json", RECORD_BYTES_MAX)
        .ok()
        .and_then(|bytes| record_value(&bytes).ok());
    let nodes = record
        .as_ref()
        .and_then(|record| record["nodes"].as_array());
    let offset = |(id, node): (u32, &serde_json::Value)| {
        Some((NodeId(id), node["clock"]["offset_us"].as_i64()?))
    };
    (0..)
        .zip(nodes.into_iter().flatten())
        .filter_map(offset)
        .collect()
}

/// Every recorder that a process writes, or wrote.
fn process(pid: u32) -> Result<Trace, SourceError> {
    let mut workers = Vec::new();
    for parent in [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()] {
        let found = list(&parent).map_err(|source| SourceError::Io {
            path: parent.clone(),
            source,
        })?;
        let written = |one: &tcpx_recorder::Listed| {
            one.header
                .as_ref()
                .is_ok_and(|header| header.writer.pid == pid)
        };
        let mut files: Vec<_> = found.into_iter().filter(written).collect();
        // A pid comes again: who lives is meant.
        if files.iter().any(|one| one.writer == Liveness::Alive) {
            files.retain(|one| one.writer == Liveness::Alive);
        }
        for file in files {
            let number = u32::try_from(workers.len()).unwrap_or(u32::MAX);
            workers.push(recorder(&format!("pid {pid}"), &file.path, number)?);
        }
    }
    if workers.is_empty() {
        return Err(SourceError::Nothing {
            what: pid.to_string(),
        });
    }
    Ok(Trace {
        workers,
        ..Trace::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::event::Event;
    use tcpx_run_model::ids::{Lane, NodeIntro, PairId, PairIntro, Who};
    use tcpx_run_model::record::ChannelNow;
    use tcpx_words::side::Side;

    #[test]
    fn what_names_nothing_is_said_and_what_is_damaged_is_named() {
        assert!(matches!(open("/nowhere"), Err(SourceError::Nothing { .. })));
        assert!(matches!(
            open("999999999"),
            Err(SourceError::Nothing { .. })
        ));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        assert!(matches!(open(&path), Err(SourceError::Empty { .. })));
        let file = folder.path().join("x.tcpxrec");
        std::fs::write(&file, "nonsense").expect("written");
        assert!(matches!(
            open(&file.display().to_string()),
            Err(SourceError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_stream_that_is_cut_off_or_mixed_up_is_read_as_far_as_it_goes() {
        let line = r#"{"at":"2026-11-20T10:00:00Z","ms":1,"node":"peer","node_us":7,"said":{"sample":[]}}"#;
        let channel = ChannelNow {
            side: Side::Recv,
            bytes: 9,
            ..ChannelNow::default()
        };
        let kind = EventKind::Sample(vec![channel.clone()]);
        let peer = WorkerId::of_pair(NodeId(1), PairId(0));
        let event = Event {
            node_us: Some(7),
            ..Event::new(1.0, Who::Worker(peer), kind)
        };
        let sample = serde_json::to_string(&event).expect("JSON");
        let note =
            r#"{"at":"2026-11-20T10:00:00Z","ms":1,"node":"coordinator","note":"stall declared"}"#;
        let text = format!("{line}\n{sample}\nnonsense\n{note}\n{}", &line[..30]);
        let (mut state, mut series) = (RunState::default(), BTreeMap::new());
        let ahead_us = BTreeMap::from([(NodeId(1), -3)]);
        let unreadable =
            read_stream(text.as_bytes(), &ahead_us, &mut state, &mut series).expect("read");
        assert_eq!(
            series[&peer].last(),
            Some(&Sample {
                at_ns: 10_000,
                channels: vec![channel]
            })
        );
        assert_eq!(
            state
                .notes
                .iter()
                .map(|note| note.what.as_str())
                .collect::<Vec<_>>(),
            ["stall declared"]
        );
        assert_eq!(
            (unreadable, state.at_ns(1.0)),
            (1, 1_795_168_800_000_000_000)
        );
    }

    /// A recorder in a run folder, where a worker's is.
    fn record(run: &Path, name: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let options = tcpx_recorder::Options {
            capacity: 1,
            ring_events: 8,
            ..tcpx_recorder::Options::new("test")
        };
        let recorder =
            tcpx_recorder::Recorder::create_in(folder.path(), &options).expect("a recorder");
        let path = run.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::copy(recorder.path(), path).expect("copied");
    }

    #[test]
    fn a_run_of_version_1_has_its_workers() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../run-model/record/fixtures/v1/20261120T101500Z-two-gpus");
        let run = tempfile::tempdir().expect("a folder");
        for name in ["run.json", "events.jsonl", "scenario.toml"] {
            std::fs::copy(sample.join(name), run.path().join(name)).expect("copied");
        }
        record(run.path(), "nodes/peer/recorder-gpu1.tcpxrec");
        let trace = open(&run.path().display().to_string()).expect("read");
        let names: Vec<&str> = trace
            .samples
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(
            names,
            ["local gpu 0", "local gpu 1", "peer gpu 0", "peer gpu 1"]
        );
        assert_eq!(
            (trace.workers.len(), trace.workers[0].name.as_str()),
            (1, "peer gpu 1")
        );
        assert_eq!(
            (trace.workers[0].id, trace.notes.len()),
            (WorkerId::of_pair(NodeId(1), PairId(1)), 4)
        );
    }

    #[test]
    fn a_run_of_three_nodes_has_theirs() {
        let run = tempfile::tempdir().expect("a folder");
        let nodes = ["a3-1", "a3-2", "a3-3"].map(|name| NodeIntro {
            name: name.into(),
            address: name.into(),
        });
        let pairs = [[0, 1], [1, 2]].map(|nodes| PairIntro {
            nodes: nodes.map(NodeId),
            lanes: vec![Lane::Host],
        });
        let worker = |node, pair| Who::Worker(WorkerId::of_pair(NodeId(node), PairId(pair)));
        let sample = || EventKind::Sample(vec![ChannelNow::default()]);
        let told = [
            (Who::Run, EventKind::Nodes(nodes.to_vec())),
            (Who::Run, EventKind::Pairs(pairs.to_vec())),
            (worker(1, 1), sample()),
            (worker(0, 0), sample()),
        ];
        let line =
            |(who, kind)| serde_json::to_string(&Event::new(1.0, who, kind)).expect("JSON") + "\n";
        let text: String = told.into_iter().map(line).collect();
        std::fs::write(run.path().join("events.jsonl"), text).expect("written");
        record(run.path(), "nodes/a3-2/recorder-pair1.tcpxrec");
        let trace = open(&run.path().display().to_string()).expect("read");
        let names: Vec<&str> = trace
            .samples
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(
            (names, trace.workers[0].name.as_str()),
            (vec!["a3-1", "a3-2 with a3-3"], "a3-2 with a3-3")
        );
    }
}
