//! Selecting old runs and deleting them.
#![forbid(unsafe_code)]

use super::entry::RunEntry;
use std::io;
use std::path::Path;
use tcpx_run_model::record::Unfinished;

/// Which runs to keep. A run is kept if any of the conditions holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeepRules {
    /// Keep this many of the newest runs of each scenario.
    pub newest: Option<usize>,
    /// Keep runs that started at this time or later, RFC 3339.
    pub since: Option<String>,
    /// Keep runs that did not pass, whatever their age.
    pub failed: bool,
}

/// Outcomes of runs that may still be going.
const OPEN: [&str; 2] = [Unfinished::GoesOn.word(), Unfinished::Open.word()];

/// The runs to delete, oldest first. A run that may still be going is always kept.
pub fn choose<'a>(runs: &'a [RunEntry], keep: &KeepRules) -> Vec<&'a RunEntry> {
    let mut newer = std::collections::HashMap::<&str, usize>::new();
    let mut going: Vec<&RunEntry> = runs
        .iter()
        .rev()
        .filter(|run| {
            let place = newer.entry(&run.scenario).or_default();
            *place += 1;
            let is_new = keep.newest.is_some_and(|newest| *place <= newest);
            let is_young = keep
                .since
                .as_ref()
                .is_some_and(|since| run.started.as_str() >= since.as_str());
            let is_evidence = keep.failed && run.outcome != "passed";
            !(is_new || is_young || is_evidence || OPEN.contains(&run.outcome.as_str()))
        })
        .collect();
    going.reverse();
    going
}

/// Deletes a run's folder, directly below `folder`. Symbolic links inside are deleted and not
/// followed.
///
/// # Errors
/// The run's id is not a plain name or not a folder, or the folder cannot be deleted.
pub fn remove(folder: &Path, run: &RunEntry) -> io::Result<()> {
    let is_plain = !run.id.is_empty() && !run.id.contains('/') && !run.id.starts_with('.');
    let path = folder.join(&run.id);
    match is_plain && std::fs::symlink_metadata(&path)?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a run folder",
        )),
    }
}
