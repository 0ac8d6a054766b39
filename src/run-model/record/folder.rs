//! The run folder: `reports/<utc>-<scenario>/` with `run.json`, `events.jsonl`,
//! `scenario.toml`, and for each node `nodes/<node>/recorder.tcpxrec`.
//!
//! The folder is made before anything runs, so that an unwritable location is reported at once. A
//! file that cannot be written later is reported and never changes the outcome of the run.
#![forbid(unsafe_code)]

use super::event_writer::EventWriter;
use super::model::RunRecord;
use crate::counters::Frame;
use crate::ids::{Names, Unit, WorkerId};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tcpx_words::error::NextStep;

/// Most run folders of one scenario and second.
const SAME_SECOND_MAX: u32 = 1000;

/// Why there is no run folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a run folder in {}: {source}", parent.display())]
pub struct FolderError {
    parent: PathBuf,
    source: io::Error,
}

impl NextStep for FolderError {
    fn next_step(&self) -> Option<String> {
        Some("choose another place with --reports DIR".into())
    }
}

/// One run's folder, while it is written.
pub struct RunFolder {
    /// Name of the folder; the run's id.
    pub id: String,
    /// Path of the folder.
    pub path: PathBuf,
    /// Writer of `events.jsonl`; `None` if the disk was full from the start.
    events: Option<EventWriter>,
    /// `events.jsonl` again, locked until `run.json` is written: a reader that finds neither
    /// knows that this process was killed.
    _lock: Option<File>,
    /// Open recorder files, by path.
    recorders: BTreeMap<PathBuf, File>,
    /// Error of the first write that failed.
    failed: Option<io::Error>,
}

/// Largest offset of a recorder file that is kept.
const RECORDER_BYTES_MAX: u64 = 4 << 30;

impl RunFolder {
    /// Makes `<parent>/<stamp>-<name>`, mode 0700, with a number behind it if it exists. On a
    /// full disk the run goes ahead without a folder.
    pub fn create(parent: &Path, stamp: &str, name: &str) -> Result<Self, FolderError> {
        match Self::make(parent, stamp, name) {
            Err(error)
                if matches!(
                    error.source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded
                ) =>
            {
                let id = format!("{stamp}-{name}");
                Ok(Self {
                    path: parent.join(&id),
                    id,
                    events: None,
                    _lock: None,
                    recorders: BTreeMap::new(),
                    failed: Some(error.source),
                })
            }
            made => made,
        }
    }

    fn make(parent: &Path, stamp: &str, name: &str) -> Result<Self, FolderError> {
        let failed = |source| FolderError {
            parent: parent.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .create(parent)
            .map_err(failed)?;
        for attempt in 1..=SAME_SECOND_MAX {
            let id = if attempt == 1 {
                format!("{stamp}-{name}")
            } else {
                format!("{stamp}-{name}-{attempt}")
            };
            let path = parent.join(&id);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let events = create(&path.join("events.jsonl")).map_err(failed)?;
                    let lock = events.try_clone().map_err(failed)?;
                    // Without locks, a running run looks like a killed one to readers.
                    let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self {
                        id,
                        path,
                        events: Some(EventWriter::new(events)),
                        _lock: Some(lock),
                        recorders: BTreeMap::new(),
                        failed: None,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::Error::other("a thousand runs in one second")))
    }

    fn note(&mut self, written: io::Result<()>) {
        if let (Err(error), None) = (written, &self.failed) {
            self.failed = Some(error);
        }
    }

    /// Appends one event within milliseconds and without blocking: readers follow the file, and
    /// a killed run leaves its events.
    pub fn event(&mut self, event: &impl Serialize) {
        let Some(events) = &mut self.events else {
            return;
        };
        match serde_json::to_vec(event) {
            Ok(mut line) => {
                line.push(b'\n');
                events.push(line);
            }
            Err(error) => self.note(Err(error.into())),
        }
    }

    /// Writes a piece of a worker's recorder file at its offset. Ranges without a piece stay holes.
    pub fn recording(&mut self, worker: WorkerId, names: &Names, offset: u64, bytes: &[u8]) {
        let written = self.recorder_of(worker, names).and_then(|file| {
            if offset > RECORDER_BYTES_MAX {
                let name = names.worker(worker);
                return Err(io::Error::other(format!(
                    "the recorder of {name} is larger than {} GiB; the rest was not kept",
                    RECORDER_BYTES_MAX >> 30
                )));
            }
            file.write_all_at(bytes, offset)
        });
        self.note(written);
    }

    /// Writes a worker's freeze-frame; a later one replaces it.
    pub fn frame(&mut self, worker: WorkerId, names: &Names, frame: &Frame) {
        let path = self
            .path
            .join(worker_file(WorkerFile::Frame, worker, names));
        let folder = path.parent().unwrap_or(&self.path).to_owned();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let text = serde_json::to_vec_pretty(frame).map_err(io::Error::from);
        let written = made.and(text).and_then(|text| write_whole(&path, &text));
        self.note(written);
    }

    fn recorder_of(&mut self, worker: WorkerId, names: &Names) -> io::Result<&File> {
        let path = self
            .path
            .join(worker_file(WorkerFile::Recorder, worker, names));
        match self.recorders.entry(path) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => {
                let folder = place.key().parent().unwrap_or(&self.path);
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
                let file = create(place.key())?;
                Ok(place.insert(file))
            }
        }
    }

    /// Copies a file into the folder, under a path below it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn copy(&mut self, name: &str, mut from: impl Read) -> io::Result<u64> {
        let path = self.path.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path.parent().unwrap_or(&self.path))?;
        io::copy(&mut from, &mut create(&path)?)
    }

    /// Ends a folder that has no `run.json`.
    ///
    /// # Errors
    /// The first error of any write to the folder.
    pub fn close(mut self) -> io::Result<()> {
        let events = self.events.take().map_or(Ok(()), EventWriter::end);
        self.note(events);
        self.failed.map_or(Ok(()), Err)
    }

    /// Writes the resolved scenario, so that the run can be repeated.
    pub fn scenario(&mut self, resolved: &str) {
        let written = write_whole(&self.path.join("scenario.toml"), resolved.as_bytes());
        self.note(written);
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// The first error of any write to the folder.
    pub fn finish(mut self, run: &RunRecord) -> io::Result<PathBuf> {
        let events = self.events.take().map_or(Ok(()), EventWriter::end);
        self.note(events);
        // Try to write run.json even if other files failed.
        let text = serde_json::to_string_pretty(run).map_err(io::Error::from);
        let written = text.and_then(|text| {
            write_whole(&self.path.join("run.json"), format!("{text}\n").as_bytes())
        });
        self.note(written);
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.path),
        }
    }
}

/// A kind of file that a run folder has for each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerFile {
    /// The flight recorder.
    Recorder,
    /// The freeze-frame of a stall.
    Frame,
}

impl WorkerFile {
    pub(super) const fn affixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Recorder => ("recorder", ".tcpxrec"),
            Self::Frame => ("frame", ".json"),
        }
    }
}

/// Path of a worker's file in the run folder: `nodes/peer/recorder.tcpxrec`, or with several pairs
/// `nodes/peer/recorder-pair3.tcpxrec`. Of a process, `nodes/a3-1/recorder-pid4242.tcpxrec`, or of its
/// second recorder `recorder-pid4242-1.tcpxrec`.
pub fn worker_file(kind: WorkerFile, worker: WorkerId, names: &Names) -> String {
    let (stem, extension) = kind.affixes();
    let of = match worker.unit {
        Unit::Pair(pair) if names.pairs.len() > 1 => format!("-pair{}", pair.0),
        Unit::Pair(_) => String::new(),
        Unit::Process { pid, recorder: 0 } => format!("-pid{pid}"),
        Unit::Process { pid, recorder } => format!("-pid{pid}-{recorder}"),
    };
    let node = node_folder(&names.node(worker.node));
    format!("nodes/{node}/{stem}{of}{extension}")
}

/// Name of a node's folder; a node without a name is the only one.
pub(super) fn node_folder(node: &str) -> String {
    match node {
        "" => "node".to_owned(),
        node => tcpx_words::units::file_name(node),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Writes a file so that readers see either all of it or no file.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let written = create(&partial).and_then(|mut file| file.write_all(bytes));
    let moved = written.and_then(|()| std::fs::rename(&partial, path));
    if moved.is_err() {
        // A leftover would be taken for a file of the run.
        let _ = std::fs::remove_file(&partial);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_second_get_two_folders() {
        let parent = tempfile::tempdir().expect("a folder");
        let ids: Vec<String> = (0..3)
            .map(|_| {
                RunFolder::create(parent.path(), "20261120T101500Z", "4conn")
                    .expect("made")
                    .id
            })
            .collect();
        assert_eq!(
            ids,
            [
                "20261120T101500Z-4conn",
                "20261120T101500Z-4conn-2",
                "20261120T101500Z-4conn-3"
            ]
        );
    }

    #[test]
    fn a_parent_that_is_a_file_is_refused() {
        let parent = tempfile::NamedTempFile::new().expect("a file");
        let error = RunFolder::create(parent.path(), "now", "4conn")
            .map(|folder| folder.id)
            .expect_err("refused");
        assert!(
            error.to_string().contains("cannot make a run folder"),
            "{error}"
        );
    }
}
