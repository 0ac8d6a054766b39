//! All runs of a folder, with an index file as a cache.
//!
//! An entry of the index is used only while the run's record has the size and modification time
//! that it was read with. New and changed runs are read from their folders. If the index is
//! missing, damaged or of another version, all runs are read.
#![forbid(unsafe_code)]

use super::entry::{OTHER_VERSION, RunEntry};
use crate::write_whole;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tcpx_run_model::record::ADOPTED;
use tcpx_words::error::{NextStep, Outcome};

/// File name of the index, beside the runs. No run's name starts with a dot.
const INDEX: &str = ".history.json";
/// Why something in the place of the index is neither read nor written.
const NO_FILE: &str = "it is no regular file";
/// Earlier versions are not used: 1 lists runs of `tcpxctl.run/2` as damaged, 2 has no wrong bytes
/// of runs that verified nothing, 3 has no rate of all directions, 4 does not tell incomplete records.
const VERSION: u32 = 5;
/// Maximum runs of a folder.
const RUNS_MAX: usize = 1_000_000;
/// Maximum threads that read records.
const THREADS_MAX: usize = 8;

/// The folder of the runs cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {}: {source}", folder.display())]
pub struct HistoryError {
    folder: PathBuf,
    source: io::Error,
}

impl HistoryError {
    /// The outcome that decides the exit code.
    pub fn outcome(&self) -> Outcome {
        if self.source.kind() == io::ErrorKind::NotFound {
            Outcome::Usage
        } else {
            Outcome::NotRun
        }
    }
}

impl NextStep for HistoryError {
    fn next_step(&self) -> Option<String> {
        Some("name the folder that holds the runs with --reports DIR".into())
    }
}

/// The runs of a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Oldest first.
    pub runs: Vec<RunEntry>,
    /// Number of runs that were read from their folders rather than from the index.
    pub read: usize,
    /// Why the index could not be written.
    pub unkept: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct IndexFile {
    version: u32,
    runs: Vec<RunEntry>,
}

/// Lists every run in a folder, including runs that cannot be read.
///
/// # Errors
/// The folder cannot be listed.
pub fn read(folder: &Path) -> Result<History, HistoryError> {
    let failed = |source| HistoryError {
        folder: folder.to_owned(),
        source,
    };
    let mut ids: Vec<String> = std::fs::read_dir(folder)
        .map_err(failed)?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .take(RUNS_MAX)
        .collect();
    ids.sort();
    let known = known(folder);
    let (count, mut fresh) = (known.len(), Vec::new());
    let mut runs = Vec::with_capacity(ids.len());
    let mut known: HashMap<String, RunEntry> = known
        .into_iter()
        .map(|entry| (entry.id.clone(), entry))
        .collect();
    for id in &ids {
        let seen = seen(&folder.join(id));
        match known
            .remove(id)
            .filter(|entry| entry.seen == seen && seen.is_some())
        {
            Some(entry) => runs.push(entry),
            None if seen.is_some() || folder.join(id).join("events.jsonl").exists() => {
                fresh.push((id.clone(), seen))
            }
            None => {}
        }
    }
    let read = fresh.len();
    let changed = read > 0 || runs.len() != count;
    runs.extend(read_all(folder, &fresh));
    runs.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    let unkept = if changed { keep(folder, &runs) } else { None };
    Ok(History { runs, read, unkept })
}

/// Size and modification time (in nanoseconds) of a run's record, or of what was adopted instead:
/// neither changes, and reading logs takes long.
fn seen(run: &Path) -> Option<(u64, i64)> {
    let meta = |name| std::fs::symlink_metadata(run.join(name)).ok();
    let meta = meta("run.json").or_else(|| meta(ADOPTED));
    let meta = meta.filter(|meta| meta.is_file())?;
    Some((
        meta.len(),
        meta.mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(meta.mtime_nsec()),
    ))
}

fn known(folder: &Path) -> Vec<RunEntry> {
    let file = read_index(&folder.join(INDEX))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<IndexFile>(&bytes).ok());
    file.filter(|file| file.version == VERSION)
        .map(|file| file.runs)
        .unwrap_or_default()
}

fn read_index(path: &Path) -> io::Result<Vec<u8>> {
    let (file, mut bytes) = (tcpx_words::input::open(path)?, Vec::new());
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other(NO_FILE));
    }
    file.take(meta.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_all(folder: &Path, fresh: &[(String, Option<(u64, i64)>)]) -> Vec<RunEntry> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_MAX);
    let each = |part: &[(String, Option<(u64, i64)>)]| {
        part.iter()
            .map(|(id, seen)| RunEntry::read(folder, id, *seen))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let parts = fresh.chunks(fresh.len().div_ceil(threads).max(1));
        let readers: Vec<_> = parts.map(|part| scope.spawn(move || each(part))).collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, Vec<RunEntry>>| {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        readers.into_iter().flat_map(join).collect()
    })
}

/// Writes the index, and returns the error if that fails.
fn keep(folder: &Path, runs: &[RunEntry]) -> Option<String> {
    // A run without a record is read again next time, and so is a run of another version, which
    // a newer program may know.
    let is_settled = |entry: &&RunEntry| entry.seen.is_some() && entry.outcome != OTHER_VERSION;
    let runs = runs.iter().filter(is_settled).cloned().collect();
    let file = IndexFile {
        version: VERSION,
        runs,
    };
    let path = folder.join(INDEX);
    // A pipe or a device would be written, and is not what was left here.
    if std::fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        return Some(format!("cannot write {}: {NO_FILE}", path.display()));
    }
    let written = write_whole(&path, |to| {
        serde_json::to_writer(to, &file).map_err(Into::into)
    });
    written.err().map(|error| error.to_string())
}
