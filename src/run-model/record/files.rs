//! The files of a run, from its folder or from a bundle.
//!
//! Files are named by their path in the run folder (`run.json`, `nodes/peer/recorder.tcpxrec`).
//! A bundle is not unpacked to disk: its files are opened as anonymous memory.
#![forbid(unsafe_code)]

use super::archive::{Archive, ArchiveError};
use super::folder::{INTERRUPTED, ROOM, UNWRITTEN, WorkerFile, node_folder};
use crate::event::node_of_v1;
use crate::ids::{Names, NodeId, NodeIntro, PairId, Unit, WorkerId};
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::printable;

/// Most files of one run.
const FILES_MAX: usize = 4096;
/// Most levels of folders below a run folder.
const DEPTH_MAX: usize = 6;

/// Why a run cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// No file or folder has that name.
    #[error("there is no run at {}", .0.display())]
    Nothing(PathBuf),
    /// A folder without anything that a run writes.
    #[error("{} is not a run folder: it has neither run.json nor events.jsonl", .0.display())]
    NoRun(PathBuf),
    /// It exists and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is not a bundle, or a bundle that is refused.
    #[error("cannot read the bundle {}: {source}", path.display())]
    Bundle {
        /// Which.
        path: PathBuf,
        /// Why.
        source: ArchiveError,
    },
}

impl FilesError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Nothing(_) | Self::NoRun(_) | Self::Bundle { .. } => Outcome::Usage,
            Self::Unreadable { .. } => Outcome::NotRun,
        }
    }
}

impl NextStep for FilesError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Nothing(_) | Self::NoRun(_) => Some(
                "name a folder under reports/ or a bundle; `tcpxctl history` lists the runs".into(),
            ),
            Self::Bundle { .. } => Some("give a .tar.gz file that `tcpxctl bundle` wrote".into()),
            Self::Unreadable { .. } => None,
        }
    }
}

/// Why a run has no `run.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Its coordinator is still running.
    GoesOn,
    /// Its coordinator ended without writing it.
    Killed,
    /// A second signal ended its coordinator before that wrote it.
    Interrupted,
    /// It could not be written when the run ended.
    Unwritten,
    /// Nothing was run: the folder holds a report of the doctor.
    Examined,
    /// Nothing was run: the folder holds recordings and logs of other programs.
    Adopted,
    /// Still running or killed, which cannot be told of a copy.
    Open,
}

impl Unfinished {
    /// One word for the list of runs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::GoesOn => "running",
            Self::Killed => "killed",
            Self::Interrupted => "interrupted",
            Self::Unwritten => "unwritten",
            Self::Examined => "examined",
            Self::Adopted => "adopted",
            Self::Open => "unfinished",
        }
    }

    /// A sentence, with how much of the run `events.jsonl` covers: `known_ms` milliseconds.
    pub fn words(self, known_ms: f64) -> String {
        let what = match self {
            Self::GoesOn => "no run.json yet: the run is still going",
            Self::Killed => "the coordinator was killed before it wrote run.json",
            Self::Interrupted => {
                "the run was interrupted by a second signal before run.json was written"
            }
            Self::Unwritten => "the run ended and could not write run.json, as on a full disk",
            Self::Examined => return "nothing was run: the nodes were examined".to_owned(),
            Self::Adopted => {
                return "recordings and logs of programs that no run started".to_owned();
            }
            Self::Open => {
                "no run.json: the run was still going when it was copied, or had been killed"
            }
        };
        match known_ms > 0.0 {
            true => format!(
                "{what}; events.jsonl covers the first {:.1} s",
                known_ms / 1e3
            ),
            false => format!("{what}, and events.jsonl has no usable events"),
        }
    }
}

/// Name of the doctor's report in a run folder.
pub const DOCTOR: &str = "doctor.json";

/// Name of the list of adopted files in a run folder.
pub const ADOPTED: &str = "adopted.json";

/// A run's files.
#[derive(Debug)]
pub enum RunFiles {
    /// The files of a run folder.
    Folder(PathBuf),
    /// The files of a bundle.
    Bundle {
        /// Path of the bundle.
        path: PathBuf,
        /// Its contents.
        archive: Archive,
    },
}

impl RunFiles {
    /// Whether a file begins like a gzip file, as bundles do and recorder files do not.
    pub fn is_bundle(path: &Path) -> bool {
        let mut magic = [0; 2];
        let read = open_regular(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == [0x1f, 0x8b]
    }

    /// Opens a run folder or a bundle.
    ///
    /// # Errors
    /// The path is neither, or the bundle is refused.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        let unreadable = |source| FilesError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FilesError::Nothing(path.to_owned()));
            }
            Err(error) => return Err(unreadable(error)),
        };
        if meta.is_dir() {
            let has = |name: &str| path.join(name).exists();
            return match has("run.json") || has("events.jsonl") || has("nodes") {
                true => Ok(Self::Folder(path.to_owned())),
                false => Err(FilesError::NoRun(path.to_owned())),
            };
        }
        let file = open_regular(path).map_err(unreadable)?;
        let archive = Archive::read(file).map_err(|source| FilesError::Bundle {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::Bundle {
            path: path.to_owned(),
            archive,
        })
    }

    /// Path of the folder or the bundle.
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Bundle { path, .. } => path,
        }
    }

    /// Why there is no `run.json`; `None` if there is one. A running coordinator holds a lock on
    /// `events.jsonl`.
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.size("run.json").is_some() {
            return None;
        }
        if self.size("events.jsonl") == Some(0) && self.size(DOCTOR).is_some() {
            return Some(Unfinished::Examined);
        }
        if self.size(ADOPTED).is_some() {
            return Some(Unfinished::Adopted);
        }
        let Self::Folder(_) = self else {
            return Some(Unfinished::Open);
        };
        if self.size(INTERRUPTED).is_some() {
            return Some(Unfinished::Interrupted);
        }
        if self.size(UNWRITTEN).is_some() {
            return Some(Unfinished::Unwritten);
        }
        let lock = |events: File| flock(&events, FlockOperation::NonBlockingLockShared);
        Some(match self.file("events.jsonl").map(lock) {
            Ok(Ok(())) => Unfinished::Killed,
            Ok(Err(Errno::WOULDBLOCK)) => Unfinished::GoesOn,
            Ok(Err(_)) | Err(_) => Unfinished::Open,
        })
    }

    /// The id of the run: the name of its folder, without control characters.
    pub fn id(&self) -> String {
        match self {
            Self::Folder(path) => {
                let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
                let name = whole.file_name().unwrap_or_default();
                printable(&name.to_string_lossy())
            }
            Self::Bundle { archive, .. } => archive.top.clone(),
        }
    }

    /// Paths of all regular files, sorted.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Folder(path) => {
                let mut names = Vec::new();
                walk(path, "", 0, &mut names);
                names.sort();
                names
            }
            Self::Bundle { archive, .. } => archive.files.keys().cloned().collect(),
        }
    }

    /// Size of a file, bytes.
    pub fn size(&self, name: &str) -> Option<u64> {
        match self {
            Self::Folder(path) => Some(std::fs::symlink_metadata(path.join(name)).ok()?.len()),
            Self::Bundle { archive, .. } => Some(archive.files.get(name)?.len() as u64),
        }
    }

    /// Opens a file for reading; never follows a link.
    ///
    /// # Errors
    /// It does not exist, is not a regular file, or cannot be read.
    pub fn file(&self, name: &str) -> io::Result<File> {
        match self {
            Self::Folder(path) => open_with(&path.join(name), libc::O_NOFOLLOW),
            Self::Bundle { archive, .. } => {
                let bytes = archive.files.get(name).ok_or(io::ErrorKind::NotFound)?;
                let mut file = File::from(memfd_create("tcpxctl-bundle", MemfdFlags::CLOEXEC)?);
                file.write_all(bytes)?;
                file.rewind()?;
                Ok(file)
            }
        }
    }

    /// Reads a whole file of at most `max` bytes.
    ///
    /// # Errors
    /// As [`RunFiles::file`], or the file is longer.
    pub fn read(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(max + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > max {
            true => Err(io::Error::other(format!("it is longer than {max} bytes"))),
            false => Ok(bytes),
        }
    }

    /// The files of one kind with the workers they belong to, ordered by worker.
    pub fn of_workers(&self, kind: WorkerFile, names: &Names) -> Vec<(WorkerId, String)> {
        let worker = |name: String| Some((worker_of(&name, kind, names)?, name));
        let mut found: Vec<_> = self.names().into_iter().filter_map(worker).collect();
        found.sort();
        found
    }
}

/// Opens a file for reading that is no pipe or device, on which opening or reading may block
/// without end.
///
/// # Errors
/// It does not exist, is not a regular file, or cannot be read.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// The worker that a file belongs to: `nodes/peer/recorder-pair3.tcpxrec`, or in
/// `tcpxctl.run/1`, `nodes/peer/recorder-gpu3.tcpxrec`.
fn worker_of(name: &str, kind: WorkerFile, names: &Names) -> Option<WorkerId> {
    let (folder, file) = name.strip_prefix("nodes/")?.split_once('/')?;
    let is_folder = |node: &NodeIntro| node_folder(&node.name) == folder;
    let node = match names.nodes.iter().position(is_folder) {
        Some(index) => NodeId(u32::try_from(index).ok()?),
        None => node_of_v1(folder)?,
    };
    let (stem, extension) = kind.affixes();
    let suffix = file.strip_prefix(stem)?.strip_suffix(extension)?;
    if let Some(process) = suffix.strip_prefix("-pid") {
        let (pid, recorder) = process.split_once('-').unwrap_or((process, "0"));
        let (pid, recorder) = (pid.parse().ok()?, recorder.parse().ok()?);
        return Some(WorkerId {
            node,
            unit: Unit::Process { pid, recorder },
        });
    }
    let number = suffix
        .strip_prefix("-pair")
        .or_else(|| suffix.strip_prefix("-gpu"));
    let pair = match (suffix, number) {
        ("", _) => 0,
        (_, Some(number)) => number.parse().ok()?,
        (_, None) => return None,
    };
    Some(WorkerId::of_pair(node, PairId(pair)))
}

fn walk(folder: &Path, below: &str, depth: usize, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        let name = format!("{below}{name}");
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), &format!("{name}/"), depth + 1, names);
        } else if kind.is_file()
            && names.len() < FILES_MAX
            && ![ROOM, UNWRITTEN, INTERRUPTED].contains(&name.as_str())
        {
            names.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_bits_truncate(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
        assert!(!RunFiles::is_bundle(&pipe));
        let error = RunFiles::open(&pipe).expect_err("refused").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn paths_that_are_no_runs_are_refused_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(
            RunFiles::open(&folder.path().join("x")),
            Err(FilesError::Nothing(_))
        ));
        assert!(matches!(
            RunFiles::open(folder.path()),
            Err(FilesError::NoRun(_))
        ));
        std::fs::write(folder.path().join("events.jsonl"), "{}\n").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("run.json")).expect("linked");
        let files = RunFiles::open(folder.path()).expect("a run");
        assert_eq!(files.names(), ["events.jsonl"]);
        assert!(files.file("run.json").is_err());
        assert_eq!(files.read("events.jsonl", 3).expect("read"), b"{}\n");
        assert!(files.read("events.jsonl", 2).is_err());
        let noise = folder.path().join("noise");
        std::fs::write(&noise, "no bundle").expect("written");
        assert!(matches!(
            RunFiles::open(&noise),
            Err(FilesError::Bundle { .. })
        ));
    }
}
