//! The run folder: `reports/<utc>-<scenario>/` with `run.json`, `events.jsonl`,
//! `scenario.toml`, and for each node `nodes/<node>/recorder.tcpxrec`.
//!
//! The folder is made before anything runs, so that an unwritable location is reported at once. A
//! file that cannot be written later never changes the outcome of the run; it is reported, and
//! `run.json`, for which disk space is reserved at the start, says what is missing.
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
use std::sync::{Mutex, PoisonError};
use tcpx_words::error::NextStep;
use tcpx_words::output::limit_to_raise;
use tcpx_words::units::counted;

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
        Some(next_step(&self.source, Some(&self.parent)))
    }
}

const ELSEWHERE: &str = "choose another place with --reports DIR";

/// What to do about a file or folder that cannot be made or written below `place`.
pub(crate) fn next_step(error: &io::Error, place: Option<&Path>) -> String {
    if let Some(limit) = limit_to_raise(error) {
        return limit.to_owned();
    }
    match (is_full(error), place.map(lacks_inodes)) {
        (true, Some(true)) => {
            format!("no inodes are left there (`df -i`): remove files, or {ELSEWHERE}")
        }
        (true, Some(false)) => format!("free disk space, or {ELSEWHERE}"),
        (true, None) => format!("free disk space or inodes (`df -i`), or {ELSEWHERE}"),
        (false, _) => ELSEWHERE.to_owned(),
    }
}

/// Fewer inodes than this, beside more bytes than these, are why there was no room.
const INODES_FEW: u64 = 16;
const SPACE_ENOUGH: u64 = 1 << 20;

/// Whether the file system of a place, or of the nearest folder above it that exists, has no inodes
/// left. One that makes inodes as they are needed counts none.
fn lacks_inodes(place: &Path) -> bool {
    let above = |place: &Path| match place.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => place.to_owned(),
    };
    let told = place
        .ancestors()
        .find_map(|place| rustix::fs::statvfs(above(place)).ok());
    told.is_some_and(|told| {
        // What could not be finished is removed before the question, and gives its inodes back.
        let are_few = told.f_favail == 0
            || (told.f_favail < INODES_FEW && told.f_bavail * told.f_frsize > SPACE_ENOUGH);
        told.f_files > 0 && are_few
    })
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
    /// Disk space for `run.json`; `None` if there was too little from the start.
    room: Option<Room>,
    /// The writes that failed.
    failed: Option<Unwritten>,
}

/// Most files that are named of those that could not be written.
const UNWRITTEN_NAMED_MAX: usize = 16;

/// The files of a run folder that could not be written completely.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.words())]
pub struct Unwritten {
    /// The first error.
    source: io::Error,
    /// The files by error, the first one first.
    files: Vec<(String, Vec<String>)>,
    /// How many more there are.
    more: usize,
    next: String,
}

impl Unwritten {
    fn new(file: &str, source: io::Error, place: &Path) -> Self {
        Self {
            next: next_step(&source, Some(place)),
            files: vec![(source.to_string(), vec![file.to_owned()])],
            more: 0,
            source,
        }
    }

    /// Adds a file, unless it is there.
    fn add(&mut self, file: &str, why: &str) {
        let known = || self.files.iter().flat_map(|(_, files)| files);
        if known().any(|one| one == file) {
            return;
        }
        if known().count() >= UNWRITTEN_NAMED_MAX {
            self.more += 1;
            return;
        }
        match self.files.iter_mut().find(|(other, _)| other == why) {
            Some((_, files)) => files.push(file.to_owned()),
            None => self.files.push((why.to_owned(), vec![file.to_owned()])),
        }
    }

    /// `events.jsonl, nodes/peer/recorder.tcpxrec: No space left on device`.
    fn words(&self) -> String {
        let of_error =
            |(why, files): &(String, Vec<String>)| format!("{}: {why}", files.join(", "));
        let mut words: Vec<String> = self.files.iter().map(of_error).collect();
        if self.more > 0 {
            words.push(format!("and {} more", counted(self.more, "write")));
        }
        words.join("; ")
    }
}

impl NextStep for Unwritten {
    fn next_step(&self) -> Option<String> {
        Some(self.next.clone())
    }
}

/// Name of the file that holds the space for `run.json`. A killed coordinator leaves it; readers
/// and bundles skip it.
pub(super) const ROOM: &str = ".room";
/// Its name if `run.json` could not be written, so that readers do not take the coordinator for
/// killed.
pub(super) const UNWRITTEN: &str = ".unwritten";
/// Its name if a second signal ended the coordinator before it could write `run.json`.
pub(super) const INTERRUPTED: &str = ".interrupted";
/// Largest offset of a recorder file that is kept.
const RECORDER_BYTES_MAX: u64 = 4 << 30;

impl RunFolder {
    /// Makes `<parent>/<stamp>-<name>`, mode 0700, with a number behind it if it exists. On a
    /// full disk the run goes ahead without a folder.
    pub fn create(parent: &Path, stamp: &str, name: &str) -> Result<Self, FolderError> {
        match Self::make(parent, stamp, name) {
            Err(error) if is_full(&error.source) => {
                let id = format!("{stamp}-{name}");
                Ok(Self {
                    path: parent.join(&id),
                    id,
                    events: None,
                    _lock: None,
                    recorders: BTreeMap::new(),
                    room: None,
                    failed: Some(Unwritten::new("the run folder", error.source, parent)),
                })
            }
            made => made,
        }
    }

    /// As [`RunFolder::create`], of which a full disk is an error.
    pub fn make(parent: &Path, stamp: &str, name: &str) -> Result<Self, FolderError> {
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
                    // Removing it fails only if another program has put a file there.
                    let removed = |error| {
                        let _ = std::fs::remove_dir(&path);
                        failed(error)
                    };
                    let room = Room::reserve(&path).map_err(removed)?;
                    let events = match create(&path.join("events.jsonl")) {
                        Ok(events) => events,
                        Err(error) => {
                            drop(room);
                            return Err(removed(error));
                        }
                    };
                    let lock = events.try_clone().map_err(failed)?;
                    // Without locks, a running run looks like a killed one to readers.
                    let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self {
                        id,
                        room: Some(room),
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

    fn note(&mut self, file: &str, written: io::Result<()>) {
        let Err(source) = written else { return };
        match &mut self.failed {
            // Without a folder, no file in it can be written.
            Some(_) if self._lock.is_none() => {}
            Some(failed) => failed.add(file, &source.to_string()),
            None => self.failed = Some(Unwritten::new(file, source, &self.path)),
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
            Err(error) => self.note("events.jsonl", Err(error.into())),
        }
    }

    /// Writes a piece of a worker's recorder file at its offset. Ranges without a piece stay holes.
    pub fn recording(&mut self, worker: WorkerId, names: &Names, offset: u64, bytes: &[u8]) {
        let name = worker_file(WorkerFile::Recorder, worker, names);
        let written = self.recorder(&name).and_then(|file| {
            if offset > RECORDER_BYTES_MAX {
                return Err(io::Error::other(format!(
                    "larger than {} GiB; the rest was not kept",
                    RECORDER_BYTES_MAX >> 30
                )));
            }
            file.write_all_at(bytes, offset)
        });
        self.note(&name, written);
    }

    /// Writes a worker's freeze-frame; a later one replaces it.
    pub fn frame(&mut self, worker: WorkerId, names: &Names, frame: &Frame) {
        let name = worker_file(WorkerFile::Frame, worker, names);
        let path = self.path.join(&name);
        let made = below(&self.path, &path);
        let text = serde_json::to_vec_pretty(frame).map_err(io::Error::from);
        let written = made.and(text).and_then(|text| write_whole(&path, &text));
        self.note(&name, written);
    }

    fn recorder(&mut self, name: &str) -> io::Result<&File> {
        let path = self.path.join(name);
        match self.recorders.entry(path) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => {
                below(&self.path, place.key())?;
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
        below(&self.path, &path)?;
        io::copy(&mut from, &mut create(&path)?)
    }

    /// Ends a folder that has no `run.json`.
    ///
    /// # Errors
    /// The writes to the folder that failed.
    pub fn close(mut self) -> Result<(), Unwritten> {
        let events = self.events.take().map_or(Ok(()), EventWriter::end);
        self.note("events.jsonl", events);
        self.failed.map_or(Ok(()), Err)
    }

    /// Writes the resolved scenario, so that the run can be repeated.
    pub fn scenario(&mut self, resolved: &str) {
        let written = write_whole(&self.path.join("scenario.toml"), resolved.as_bytes());
        self.note("scenario.toml", written);
    }

    /// Where the run is recorded, unless the folder was removed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `run.json`, also if other files failed; then it names them, and a record of success has the exit code of an incomplete one.
    ///
    /// # Errors
    /// The writes to the folder that failed.
    pub fn finish(mut self, run: &mut RunRecord) -> Result<PathBuf, Unwritten> {
        let events = self.events.take().map_or(Ok(()), EventWriter::end);
        self.note("events.jsonl", events);
        let mut written = self.write_record(run);
        if written.as_ref().is_err_and(is_full) && !self.recorders.is_empty() {
            // Recorder files are the largest; the record is worth more.
            for (path, _) in std::mem::take(&mut self.recorders) {
                let _ = std::fs::remove_file(path);
            }
            self.note("the recorder files", written);
            written = self.write_record(run);
        }
        if written.as_ref().is_err_and(is_full) {
            self.note("events.jsonl", written);
            written = self
                .shorten_events(run)
                .and_then(|()| self.write_record(run));
        }
        if written.is_err() {
            self.is_unwritten(written);
        }
        if self._lock.is_some() && !self.path.join("events.jsonl").exists() {
            // This explains every other error.
            let source = io::Error::other("removed or moved during the run");
            self.failed = Some(Unwritten::new("the run folder", source, &self.path));
        }
        let Some(failed) = self.failed.take() else {
            return Ok(std::mem::take(&mut self.path));
        };
        run.is_incomplete(&failed);
        Err(failed)
    }

    /// Leaves a mark for readers and names `run.json` among the files that failed.
    fn is_unwritten(&mut self, written: io::Result<()>) {
        if let Some(room) = self.room.take() {
            // If this fails, the folder is gone, which the caller finds out.
            let _ = std::fs::rename(&room.path, self.path.join(UNWRITTEN));
        }
        self.note("run.json", written);
    }

    /// Makes room for the record by the last events. Readers see that they end before the run.
    fn shorten_events(&mut self, run: &mut RunRecord) -> io::Result<()> {
        let needed = self.record_text(run)?.len() as u64 + SLACK_BYTES;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join("events.jsonl"))?;
        let end = file.metadata()?.len().saturating_sub(needed);
        let begin = end.saturating_sub(EVENT_BYTES_MAX);
        let mut before = vec![0; (end - begin) as usize];
        file.read_exact_at(&mut before, begin)?;
        let line_end = before.iter().rposition(|byte| *byte == b'\n');
        file.set_len(line_end.map_or(begin, |at| begin + at as u64 + 1))
    }

    fn record_text(&self, run: &mut RunRecord) -> io::Result<String> {
        if let Some(failed) = &self.failed {
            run.is_incomplete(failed);
        }
        Ok(format!("{}\n", serde_json::to_string_pretty(run)?))
    }

    fn write_record(&mut self, run: &mut RunRecord) -> io::Result<()> {
        let text = self.record_text(run)?;
        let path = self.path.join("run.json");
        match self.room.as_mut().filter(|room| room.has_space) {
            Some(room) => room.write(&path, text.as_bytes()),
            None => write_whole(&path, text.as_bytes()),
        }
    }
}

/// A file with disk space for `run.json`, which would be lost on a full disk otherwise.
struct Room {
    file: File,
    path: PathBuf,
    has_space: bool,
}

/// The rooms of the runs that this process records.
static ROOMS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Leaves a mark in the folders of runs whose `run.json` is not written, for readers: a second signal
/// ends this process now. Gives these folders.
pub fn leave_interrupted() -> Vec<PathBuf> {
    let rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
    let marked = rooms.iter().filter(|room| mark_interrupted(room));
    marked
        .filter_map(|room| room.parent().map(Path::to_owned))
        .collect()
}

/// Whether the folder is marked: not if `run.json` was written into the room, or the folder is gone.
pub(super) fn mark_interrupted(room: &Path) -> bool {
    let mark = room.with_file_name(INTERRUPTED);
    let is_marked = std::fs::rename(room, &mark).is_ok();
    if is_marked {
        let _ = OpenOptions::new().write(true).truncate(true).open(mark);
    }
    is_marked
}

/// Space for the pages that a file occupies beyond its bytes.
const SLACK_BYTES: u64 = 8 << 10;
/// Longest line that is looked for at the place where events are cut.
const EVENT_BYTES_MAX: u64 = 1 << 20;
/// Space reserved for `run.json`, bytes: of two nodes with eight GPUs it is some 100 KiB.
const ROOM_BYTES: u64 = 256 << 10;

impl Room {
    /// Makes the file, which has no space on a full disk.
    fn reserve(folder: &Path) -> io::Result<Self> {
        let path = folder.join(ROOM);
        let file = create(&path)?;
        let mut rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.push(path.clone());
        drop(rooms);
        let zeros = vec![0; ROOM_BYTES as usize];
        // Written, because not every file system can allocate.
        let has_space = file.write_all_at(&zeros, 0).is_ok();
        let mut room = Self {
            file,
            path,
            has_space,
        };
        if !has_space {
            room.give_up_space();
        }
        Ok(room)
    }

    /// Writes `bytes` into the reserved space, and moves the file to `path`.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let written = self
            .file
            .write_all_at(bytes, 0)
            .and_then(|()| self.file.set_len(bytes.len() as u64))
            .and_then(|()| std::fs::rename(&self.path, path));
        if written.is_err() {
            self.give_up_space();
        }
        written
    }

    fn give_up_space(&mut self) {
        self.has_space = false;
        // If it fails, there is less space for the record.
        let _ = self.file.set_len(0);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|room| *room != self.path);
        // After a move there is no file of this name.
        let _ = std::fs::remove_file(&self.path);
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

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// Makes the folders of a file below the run folder; that one is not made again once it is removed.
fn below(run: &Path, file: &Path) -> io::Result<()> {
    if !run.is_dir() {
        return Err(io::Error::other("removed or moved during the run"));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(file.parent().unwrap_or(run))
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
    fn a_run_that_a_second_signal_ended_is_interrupted_and_keeps_no_room() {
        use crate::record::{RunFiles, Unfinished};
        let parent = tempfile::tempdir().expect("a folder");
        let folder = RunFolder::create(parent.path(), "20261120T101500Z", "4conn").expect("made");
        let path = folder.path.clone();
        let room = path.join(ROOM);
        let is_known = |room: &PathBuf| ROOMS.lock().expect("a list").contains(room);
        assert!(is_known(&room));
        mark_interrupted(&room);
        let files = RunFiles::open(&path).expect("a run");
        assert_eq!(files.unfinished(), Some(Unfinished::Interrupted));
        assert_eq!(files.names(), ["events.jsonl"]);
        assert!(!room.exists());
        assert_eq!(std::fs::read(path.join(INTERRUPTED)).expect("a mark"), b"");
        drop(folder);
        assert!(!is_known(&room));
        // The record was written into it.
        mark_interrupted(&room);
    }

    #[test]
    fn a_limit_of_the_process_is_raised_and_no_other_place_is_advised() {
        for (errno, expected) in [
            (libc::EFBIG, "ulimit -f"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EACCES, "--reports DIR"),
        ] {
            let source = || io::Error::from_raw_os_error(errno);
            let unwritten = Unwritten::new("events.jsonl", source(), Path::new("reports"));
            let none = FolderError {
                parent: "reports".into(),
                source: source(),
            };
            for step in [unwritten.next_step(), none.next_step()] {
                assert!(step.expect("one").contains(expected));
            }
        }
    }

    #[test]
    fn every_file_that_could_not_be_written_is_named_once_up_to_a_bound() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        let mut failed = Unwritten::new("events.jsonl", full(), Path::new("."));
        for file in ["nodes/a/frame.json", "events.jsonl", "nodes/b/frame.json"] {
            failed.add(file, &full().to_string());
        }
        failed.add("run.json", "denied");
        assert_eq!(
            failed.to_string(),
            format!(
                "events.jsonl, nodes/a/frame.json, nodes/b/frame.json: {}; run.json: denied",
                full()
            )
        );
        for number in 0..20 {
            failed.add(&format!("nodes/{number}/frame.json"), "denied");
        }
        let words = failed.to_string();
        assert!(words.ends_with("; and 8 writes more"), "{words}");
        assert!(
            failed
                .next_step()
                .expect("one")
                .starts_with("free disk space")
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
