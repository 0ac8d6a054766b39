//! Which runs could go, and their removal.
#![forbid(unsafe_code)]

use super::entry::Entry;
use std::io;
use std::path::Path;
use tcpx_run_model::record::Unfinished;

/// What stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// So many of the newest runs of each scenario.
    pub newest: Option<usize>,
    /// Whatever began at this time or later, RFC 3339.
    pub since: Option<String>,
    /// Runs that did not pass, whatever their age.
    pub failed: bool,
}

/// Not over, as far as anybody can say.
const OPEN: [&str; 2] = [Unfinished::GoesOn.word(), Unfinished::Open.word()];

/// Those that nothing keeps, the oldest first. A run that is not over is kept.
pub fn choose<'a>(runs: &'a [Entry], keep: &Keep) -> Vec<&'a Entry> {
    let mut newer = std::collections::HashMap::<&str, usize>::new();
    let mut going: Vec<&Entry> = runs
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

/// Removes a run's folder, which must be one below `folder`; links are removed and
/// not followed.
///
/// # Errors
/// It is no plain name, or cannot be removed.
pub fn remove(folder: &Path, run: &Entry) -> io::Result<()> {
    let is_plain = !run.id.is_empty() && !run.id.contains('/') && !run.id.starts_with('.');
    let path = folder.join(&run.id);
    match is_plain && std::fs::symlink_metadata(&path)?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no run folder",
        )),
    }
}
