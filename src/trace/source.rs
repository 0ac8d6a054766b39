//! Opens what a command-line argument names: a run folder, a bundle, a recorder file, or the
//! process that writes one.
#![forbid(unsafe_code)]

use super::recorded::{Trace, WorkerTrace};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use tcpx_recorder::{ReadError, Reader, SHARED_MEMORY, list};
use tcpx_run_model::counters::{Sample, Series};
use tcpx_run_model::event::EventKind;
use tcpx_run_model::ids::{NodeId, Unit, WorkerId};
use tcpx_run_model::live::{recorders_of, torn, why_unrecorded, without_room};
use tcpx_run_model::record::{FilesError, RunFiles, WorkerFile, record_value};
use tcpx_run_model::replay::{RECORD_BYTES_MAX, damaged_lines, for_each_event};
use tcpx_run_model::state::RunState;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::printable;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No such folder, file or process.
    #[error("{what} is not a run folder, a recorder file, or a process that writes one")]
    Nothing {
        /// The argument.
        what: String,
    },
    /// The process is not seen, or no recorder of it is found.
    #[error("{why}")]
    Unrecorded {
        /// Why, in words.
        why: String,
        /// What to do.
        next: &'static str,
    },
    /// A run folder without recorders and without events.
    #[error("{} holds neither recorders nor events.jsonl", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A recorder file that cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the reader.
        source: ReadError,
    },
    /// A folder cannot be listed, or an event stream cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl SourceError {
    /// The exit code of the error.
    pub fn outcome(&self) -> Outcome {
        if matches!(self, Self::Nothing { .. } | Self::Unrecorded { .. }) {
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
            Self::Unrecorded { next, .. } => Some((*next).to_owned()),
            Self::Unreadable { .. } | Self::Io { .. } => None,
        }
    }
}

/// Reads everything that `what` names.
///
/// # Errors
/// Nothing has that name, or it cannot be read.
pub fn open(what: &str) -> Result<Trace, SourceError> {
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return run_files(path);
    }
    if path.is_file() {
        let (worker, damaged) = recorder("process", path, 0)?;
        return Ok(Trace {
            workers: vec![worker],
            damaged,
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

/// Reads a recorder of a process of this machine; `number` is its index among several. Also
/// returns what it lacks, in words.
fn recorder(
    name: &str,
    path: &Path,
    number: u32,
) -> Result<(WorkerTrace, Vec<String>), SourceError> {
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
    let id = WorkerId {
        node: NodeId(0),
        unit,
    };
    let worker = WorkerTrace::read(id, name, &mut reader).map_err(unreadable)?;
    Ok((worker, lacks(&path.display().to_string(), &mut reader)))
}

/// What a recorder file lacks, in words.
fn lacks(name: &str, reader: &mut Reader) -> Vec<String> {
    let header = reader.header();
    let without_room = header.map(|header| without_room(name, &header));
    let torn = torn(name, reader).into_iter();
    torn.chain(without_room.unwrap_or_default()).collect()
}

/// Reads every worker of a run; times are corrected by the clock offsets of its record.
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
    let stream = events.and_then(|events| read_stream(events, &ahead_us, &mut state, &mut series));
    if let Ok(Some(record)) = files.record() {
        state.conclude(&record);
    }
    let (mut workers, mut damaged, mut unreadable_recorders) = (Vec::new(), Vec::new(), 0);
    for (id, file) in files.of_workers(WorkerFile::Recorder, &state.names) {
        let name = printable(&state.names.worker(id));
        let opened = files.file(&file).map_err(ReadError::from);
        let read = opened.and_then(Reader::from_file).and_then(|mut reader| {
            let worker = WorkerTrace::read(id, &name, &mut reader)?;
            Ok((worker, lacks(&file, &mut reader)))
        });
        match read {
            Ok((mut worker, lacks)) => {
                damaged.extend(lacks);
                worker.move_clock(ahead_us.get(&id.node).copied().unwrap_or(0));
                workers.push(worker);
            }
            Err(error) => {
                unreadable_recorders += 1;
                damaged.push(format!("no requests of {name}: {file}: {error}"));
            }
        }
    }
    match stream {
        Ok(0) => {}
        Ok(lines) => damaged.push(damaged_lines(lines)),
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
        damaged,
        unreadable_recorders,
    })
}

/// Reads the event stream of a run, complete or not, into the state, and samples into `series`
/// by the coordinator's clock. Returns the number of unreadable lines.
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

/// By how many microseconds each node's clock is ahead of the coordinator's, if the run
/// measured it. A damaged record is read as far as possible.
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

/// Reads every recorder that a process writes or, if none of this id writes one, has written.
fn process(pid: u32) -> Result<Trace, SourceError> {
    let mut files = recorders_of(pid);
    if files.is_empty() {
        files = left_by(pid)?;
    }
    if files.is_empty() {
        let (why, next) = why_unrecorded(pid);
        return Err(SourceError::Unrecorded { why, next });
    }
    let mut trace = Trace::default();
    for (file, number) in files.iter().zip(0..) {
        let (worker, lacks) = recorder(&format!("pid {pid}"), file, number)?;
        trace.workers.push(worker);
        trace.damaged.extend(lacks);
    }
    Ok(trace)
}

/// The recorders in the folders for them that a process with this id has left.
fn left_by(pid: u32) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = Vec::new();
    for parent in [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()] {
        let found = list(&parent).map_err(|source| SourceError::Io {
            path: parent.clone(),
            source,
        })?;
        let is_of_it = |one: &tcpx_recorder::Listed| {
            let header = one.header.as_ref();
            header.is_ok_and(|header| header.writer.pid == pid)
        };
        files.extend(found.into_iter().filter(is_of_it).map(|one| one.path));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::event::Event;
    use tcpx_run_model::ids::{Lane, NodeIntro, PairId, PairIntro, Who};
    use tcpx_words::side::Side;

    #[test]
    fn a_missing_source_and_a_damaged_one_are_different_errors() {
        assert!(matches!(open("/nowhere"), Err(SourceError::Nothing { .. })));
        assert!(matches!(
            open("999999999"),
            Err(SourceError::Unrecorded { .. })
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
    fn a_damaged_stream_is_read_as_far_as_possible() {
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
    fn a_recorder_that_is_cut_is_told_as_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = tcpx_recorder::Options {
            capacity: 1,
            ring_events: 8,
            ..tcpx_recorder::Options::new("cut")
        };
        let recorder =
            tcpx_recorder::Recorder::create_in(folder.path(), &options).expect("a recorder");
        let opening = tcpx_recorder::Opening {
            role: tcpx_recorder::format::Role::Send,
            device: 0,
            comm: 1,
            retires_consumed: false,
            addresses: tcpx_recorder::Addresses::default(),
        };
        recorder.open(&opening).expect("a slot");
        let bytes = std::fs::read(recorder.path()).expect("read");
        let told = |bytes: &[u8]| {
            let path = folder.path().join("cut.tcpxrec");
            std::fs::write(&path, bytes).expect("written");
            let trace = open(&path.display().to_string()).expect("a trace");
            (trace.events(), trace.unreadable(), trace.damaged)
        };
        assert_eq!(told(&bytes), (1, 0, Vec::new()));
        // The header and the only slot.
        let (events, unreadable, damaged) = told(&bytes[..4096 + 3392]);
        assert_eq!((events, unreadable, damaged.len()), (0, 1, 1));
        assert!(damaged[0].contains("cut.tcpxrec is torn"), "{damaged:?}");
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
    fn a_run_of_three_nodes_has_its_workers() {
        let run = tempfile::tempdir().expect("a folder");
        let nodes = ["a3-1", "a3-2", "a3-3"].map(|name| NodeIntro {
            name: name.into(),
            address: name.into(),
        });
        let pairs =
            [[0, 1], [1, 2]].map(|nodes| PairIntro::new(nodes.map(NodeId), vec![Lane::Host]));
        let worker = |node, pair| Who::Worker(WorkerId::of_pair(NodeId(node), PairId(pair)));
        let sample = || EventKind::Sample(vec![ChannelNow::default()]);
        let stream = [
            (Who::Run, EventKind::Nodes(nodes.to_vec())),
            (Who::Run, EventKind::Pairs(pairs.to_vec())),
            (worker(1, 1), sample()),
            (worker(0, 0), sample()),
        ];
        let line =
            |(who, kind)| serde_json::to_string(&Event::new(1.0, who, kind)).expect("JSON") + "\n";
        let text: String = stream.into_iter().map(line).collect();
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
