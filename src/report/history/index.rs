//! All runs of a folder, from one file where that is still right.
//!
//! The index is a cache and never the truth: an entry counts only while its run's
//! record has the size and the time of change that it was made of. What is new,
//! changed or missing is read from the runs; an index that is gone, damaged or of
//! another version costs the time to read them all.
#![forbid(unsafe_code)]

use super::entry::{Entry, OTHER_VERSION};
use crate::write_whole;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tcpx_words::error::{NextStep, Outcome};

/// Beside the runs; not a name that a run has.
const INDEX: &str = ".history.json";
/// Indexes of earlier programs call runs of `tcpxctl.run/2` damaged.
const VERSION: u32 = 2;
/// Runs that are looked at.
const RUNS_MAX: usize = 1_000_000;
/// Readers of records at once.
const THREADS_MAX: usize = 8;

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {}: {source}", folder.display())]
pub struct HistoryError {
    folder: PathBuf,
    source: io::Error,
}

impl HistoryError {
    /// Whose problem it is.
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
        Some("name the folder of the runs with --reports DIR".into())
    }
}

/// The runs of a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The oldest first.
    pub runs: Vec<Entry>,
    /// How many were read from their folders and not from the index.
    pub read: usize,
    /// Why the index could not be kept.
    pub unkept: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    runs: Vec<Entry>,
}

/// Every run under a folder.
///
/// # Errors
/// The folder cannot be listed. A run that cannot be read is one all the same.
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
    let mut known: HashMap<String, Entry> = known
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

/// Size and time of change of a run's record.
fn seen(run: &Path) -> Option<(u64, i64)> {
    let meta = std::fs::symlink_metadata(run.join("run.json"))
        .ok()
        .filter(|meta| meta.is_file())?;
    Some((
        meta.len(),
        meta.mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(meta.mtime_nsec()),
    ))
}

fn known(folder: &Path) -> Vec<Entry> {
    let file = std::fs::read(folder.join(INDEX))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<File>(&bytes).ok());
    file.filter(|file| file.version == VERSION)
        .map(|file| file.runs)
        .unwrap_or_default()
}

fn read_all(folder: &Path, fresh: &[(String, Option<(u64, i64)>)]) -> Vec<Entry> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_MAX);
    let each = |part: &[(String, Option<(u64, i64)>)]| {
        part.iter()
            .map(|(id, seen)| Entry::read(folder, id, *seen))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let parts = fresh.chunks(fresh.len().div_ceil(threads).max(1));
        let readers: Vec<_> = parts.map(|part| scope.spawn(move || each(part))).collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, Vec<Entry>>| {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        readers.into_iter().flat_map(join).collect()
    })
}

/// What cannot be kept costs time, and is said.
fn keep(folder: &Path, runs: &[Entry]) -> Option<String> {
    // A run that has no record yet is looked at again, and one of another version
    // may be of one that the next program knows.
    let is_settled = |entry: &&Entry| entry.seen.is_some() && entry.outcome != OTHER_VERSION;
    let runs = runs.iter().filter(is_settled).cloned().collect();
    let file = File {
        version: VERSION,
        runs,
    };
    let written = write_whole(&folder.join(INDEX), |to| {
        serde_json::to_writer(to, &file).map_err(Into::into)
    });
    written.err().map(|error| error.to_string())
}
