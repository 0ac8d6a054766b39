//! A run folder of what programs left that no run started: the recordings of a tap, of one end or
//! both, and log files.
//!
//! The folder has what a run's has, so everything that reads runs reads it: events from the
//! recordings, the recordings themselves, and [`ADOPTED`], which says where each file came from.
#![forbid(unsafe_code)]

use crate::counters::sample::Sampler;
use crate::event::{Event, EventKind};
use crate::ids::{Names, Who};
use crate::live::{self, RecorderFilter, Recorders};
use crate::record::{
    ADOPTED, FolderError, RunFolder, Unwritten, WorkerFile, is_full, next_step, open_regular,
    worker_file,
};
use crate::repeats::Repeat;
use serde::Serialize;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tcpx_recorder::ReadError;
use tcpx_words::error::NextStep;
use tcpx_words::units::{file_name, now_us, utc_of_us};

/// Largest log file that is copied.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Folder of the logs in a run folder.
pub const LOGS: &str = "logs/";

/// Why nothing was adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// A recording cannot be read.
    #[error("cannot read the recording {}: {source}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ReadError,
    },
    /// A log cannot be copied.
    #[error("cannot copy {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// There is no run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Files of the run folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritten {
        /// The run folder.
        path: PathBuf,
        /// The files and their errors.
        source: Unwritten,
    },
    /// The run folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The run folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl NextStep for AdoptError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Folder(error) => error.next_step(),
            Self::Unwritten { source, .. } => source.next_step(),
            // The folder is removed by then, which frees what it had.
            Self::Log { source, .. } | Self::Write { source, .. } if is_full(source) => {
                Some(next_step(source, None))
            }
            Self::Recording { .. } | Self::Log { .. } | Self::Write { .. } => None,
        }
    }
}

/// Text that was compressed or encoded, and whether it was.
pub type Unpacked = (Box<dyn Read + Send>, bool);
/// Turns a log into text that can be redacted. A compressed stream that redaction reads may pass
/// unchanged.
pub type Unpack = fn(Box<dyn Read + Send>) -> io::Result<Unpacked>;
/// Suffixes of names of logs that are unpacked.
const PACKED: [&str; 3] = [".xz", ".zst", ".zstd"];

/// The files to adopt.
#[derive(Debug, Default)]
pub struct Adoptable {
    /// Recorder files; their writers may run, here, or be gone.
    pub recordings: Vec<PathBuf>,
    /// Log files.
    pub logs: Vec<PathBuf>,
    /// Files that were named more than once.
    pub repeats: Vec<Repeat>,
}

impl Adoptable {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.recordings.len() + self.logs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The document [`ADOPTED`] of a run folder.
#[derive(Debug, Clone, Serialize)]
pub struct AdoptedFiles {
    /// `tcpxctl.adopted/1`.
    pub schema: &'static str,
    /// The files.
    pub files: Vec<AdoptedFile>,
}

/// One file that was adopted.
#[derive(Debug, Clone, Serialize)]
pub struct AdoptedFile {
    /// Path in the run folder.
    pub name: String,
    /// Path that it was copied from; bytes that are not UTF-8 are replaced.
    pub from: String,
}

impl AdoptedFile {
    fn new(name: String, from: &Path) -> Self {
        Self {
            name,
            from: from.to_string_lossy().into_owned(),
        }
    }
}

/// Makes `<reports>/<stamp>-<name>` of these files. Returns its path and the files in it. `unpack`
/// reads the logs.
///
/// # Errors
/// A recording cannot be read, a log cannot be copied, or the folder cannot be written.
pub fn adopt(
    reports: &Path,
    stamp: &str,
    name: &str,
    files: &Adoptable,
    unpack: Unpack,
) -> Result<(PathBuf, AdoptedFiles), AdoptError> {
    // Read before anything is made, so that a wrong argument leaves nothing behind.
    let (recorders, events) = sampled(&files.recordings)?;
    let mut folder = RunFolder::make(reports, stamp, &file_name(name))?;
    let path = folder.path.clone();
    let filled = fill(&mut folder, &recorders, &events, &files.logs, unpack).and_then(|adopted| {
        let closed = folder.close().map_err(|source| AdoptError::Unwritten {
            path: path.clone(),
            source,
        });
        closed.map(|()| adopted)
    });
    match filled {
        Ok(adopted) => Ok((path, adopted)),
        Err(error) => {
            // What cannot be removed has nothing but copies in it.
            let _ = std::fs::remove_dir_all(&path);
            Err(error)
        }
    }
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> AdoptError + use<> {
    let path = path.to_owned();
    move |source| AdoptError::Write {
        path: path.clone(),
        source,
    }
}

/// Copies everything into the run folder.
fn fill(
    folder: &mut RunFolder,
    recorders: &Recorders,
    events: &[Event],
    logs: &[PathBuf],
    unpack: Unpack,
) -> Result<AdoptedFiles, AdoptError> {
    let names = Names {
        nodes: recorders.nodes(),
        pairs: Vec::new(),
    };
    let mut adopted = AdoptedFiles {
        schema: "tcpxctl.adopted/1",
        files: Vec::new(),
    };
    let began_us = recorders.began_ns().map_or_else(now_us, |ns| ns / 1000);
    folder.event(&Event {
        at: utc_of_us(began_us),
        ..Event::new(0.0, Who::Run, EventKind::Nodes(names.nodes.clone()))
    });
    events.iter().for_each(|event| folder.event(event));
    for (worker, from) in recorders.files() {
        for (offset, bytes) in Sampler::new(from.to_owned()).pieces() {
            folder.recording(worker, &names, offset, &bytes);
        }
        let name = worker_file(WorkerFile::Recorder, worker, &names);
        adopted.files.push(AdoptedFile::new(name, from));
    }
    for from in logs {
        let failed = |source| AdoptError::Log {
            path: from.clone(),
            source,
        };
        let log = open_regular(from).map_err(failed)?;
        let (log, was_packed) = unpack(Box::new(log)).map_err(failed)?;
        let name = log_name(from, was_packed, &adopted);
        folder
            .copy(&name, log.take(LOG_BYTES_MAX))
            .map_err(failed)?;
        adopted.files.push(AdoptedFile::new(name, from));
    }
    let failed = not_written(&folder.path);
    let text = serde_json::to_vec_pretty(&adopted).map_err(|error| failed(error.into()))?;
    folder.copy(ADOPTED, &text[..]).map_err(failed)?;
    Ok(adopted)
}

/// All events of recordings: of running programs for as long as it takes to judge them, of those
/// that are gone as of their last moment.
fn sampled(paths: &[PathBuf]) -> Result<(Recorders, Vec<Event>), AdoptError> {
    let mut recorders = Recorders::new(RecorderFilter::Files(paths.to_vec()));
    let mut events = Vec::new();
    if paths.is_empty() {
        return Ok((recorders, events));
    }
    live::sampled(Names::default(), |new| {
        let looked = recorders.look(now_us() * 1000, new);
        looked.map_err(|source| AdoptError::Recording {
            path: paths.get(recorders.len()).cloned().unwrap_or_default(),
            source,
        })?;
        events.extend(new.iter().cloned());
        Ok::<_, AdoptError>(())
    })?;
    events.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    Ok((recorders, events))
}

/// `logs/NAME`, numbered if another log has the name.
fn log_name(from: &Path, was_packed: bool, adopted: &AdoptedFiles) -> String {
    let name = file_name(&from.file_name().unwrap_or_default().to_string_lossy());
    let suffix = |suffix: &&str| was_packed && name.len() > suffix.len() && name.ends_with(*suffix);
    let packed = PACKED.into_iter().find(suffix).unwrap_or_default();
    let name = name.strip_suffix(packed).unwrap_or(&name);
    let is_free = |name: &String| adopted.files.iter().all(|file| file.name != *name);
    let numbered = (2..).map(|number| format!("{LOGS}{number}-{name}"));
    std::iter::once(format!("{LOGS}{name}"))
        .chain(numbered)
        .find(is_free)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Unit;
    use crate::record::{RunFiles, Unfinished};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use tcpx_recorder::format::Role;
    use tcpx_recorder::{Addresses, Opening, Options, Recorder};

    fn plain(log: Box<dyn Read + Send>) -> io::Result<Unpacked> {
        Ok((log, false))
    }

    #[test]
    fn recordings_and_logs_become_a_run_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder =
            Recorder::create_in(parent.path(), &Options::new("adopt")).expect("a recorder");
        let opening = Opening {
            role: Role::Recv,
            device: 0,
            comm: 1,
            retires_consumed: true,
            addresses: Addresses::default(),
        };
        let slot = recorder
            .open(&opening)
            .and_then(|key| recorder.slot(key))
            .expect("a slot");
        slot.post(64, recorder.now_ns());
        let logs = ["a", "b"].map(|folder| parent.path().join(folder).join("rank 0.log"));
        for log in &logs {
            std::fs::create_dir(log.parent().expect("a folder")).expect("made");
            std::fs::write(log, "NCCL WARN x\n").expect("written");
        }
        let files = Adoptable {
            recordings: vec![recorder.path()],
            logs: logs.to_vec(),
            ..Adoptable::default()
        };
        let (path, adopted) = adopt(
            parent.path(),
            "20261122T100000Z",
            "their job",
            &files,
            plain,
        )
        .expect("adopted");
        let names: Vec<&str> = adopted.files.iter().map(|file| &*file.name).collect();
        let pid = std::process::id();
        let recording = format!("nodes/node/recorder-pid{pid}.tcpxrec");
        assert_eq!(names, [&*recording, "logs/rank-0.log", "logs/2-rank-0.log"]);

        let run = RunFiles::open(&path).expect("a run");
        assert_eq!(run.unfinished(), Some(Unfinished::Adopted));
        let state = run.replay().expect("events").state;
        let worker = state.workers.values().next().expect("a process");
        assert_eq!(worker.id.unit, Unit::Process { pid, recorder: 0 });
        assert_eq!(worker.channels[0].posted, 1);
        let kept = run.of_workers(WorkerFile::Recorder, &state.names);
        assert_eq!(kept, [(worker.id, recording)]);
    }

    #[test]
    fn a_file_that_is_no_recording_leaves_nothing_behind() {
        let parent = tempfile::tempdir().expect("a folder");
        let noise = parent.path().join("x.tcpxrec");
        std::fs::write(&noise, "nonsense").expect("written");
        let files = Adoptable {
            recordings: vec![noise.clone()],
            ..Adoptable::default()
        };
        let error =
            adopt(&parent.path().join("reports"), "now", "x", &files, plain).expect_err("refused");
        assert!(error.to_string().contains("x.tcpxrec"), "{error}");
        assert!(!parent.path().join("reports").exists());
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_adopted_and_a_log_that_cannot_be_read_leaves_nothing_behind() {
        let parent = tempfile::tempdir().expect("a folder");
        let reports = parent.path().join("reports");
        let log = parent.path().join(OsStr::from_bytes(b"rank\xff.log"));
        std::fs::write(&log, "NCCL WARN x\n").expect("written");
        let of = |logs| Adoptable {
            logs,
            ..Adoptable::default()
        };
        let gone = parent.path().join("gone.log");
        let error = adopt(&reports, "now", "x", &of(vec![log.clone(), gone]), plain);
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("gone.log"), "{error}");
        assert_eq!(std::fs::read_dir(&reports).expect("a folder").count(), 0);
        let (_, adopted) = adopt(&reports, "now", "x", &of(vec![log]), plain).expect("adopted");
        assert!(adopted.files[0].from.ends_with("rank\u{fffd}.log"));
    }
}
