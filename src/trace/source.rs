//! What a word on the command line means: a run folder, a recorder file, or the
//! process that writes one now.
#![forbid(unsafe_code)]

use super::stream::{Stream, read_stream};
use super::timeline::{Node, Timeline};
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use tcpx_recorder::{Liveness, ReadError, Reader, SHARED_MEMORY, list};
use tcpx_run_model::record::{FilesError, RunFiles};
use tcpx_words::error::{NextStep, Outcome};

/// Longest record that is read.
const RECORD_MAX: u64 = 64 << 20;

/// Why there is no timeline.
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
        if matches!(self, Self::Nothing { .. }) { Outcome::Usage } else { Outcome::NotRun }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Nothing { .. } | Self::Empty { .. } => {
                let folder = Path::new(SHARED_MEMORY).join(tcpx_recorder::folder_name());
                Some(format!("look for recorder files in {}, and for run folders in reports/", folder.display()))
            }
            Self::Unreadable { .. } | Self::Io { .. } => None,
        }
    }
}

/// Reads everything that `what` names.
///
/// # Errors
/// It names nothing, or what it names cannot be read.
pub fn open(what: &str) -> Result<Timeline, SourceError> {
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return run_files(path);
    }
    if path.is_file() {
        return Ok(Timeline::new(vec![recorder("process", path)?], Stream::default()));
    }
    match what.parse::<u32>() {
        Ok(pid) => process(pid),
        Err(_) => Err(SourceError::Nothing { what: what.to_owned() }),
    }
}

fn recorder(name: &str, path: &Path) -> Result<Node, SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
    Node::read(name, &mut Reader::open(path).map_err(unreadable)?).map_err(unreadable)
}

/// The two ends of a run, with the clocks that its record has.
fn run_files(run: &Path) -> Result<Timeline, SourceError> {
    let failed = |source| SourceError::Io { path: run.to_owned(), source };
    let files = match RunFiles::open(run) {
        Ok(files) => files,
        Err(FilesError::NoRun(path)) => return Err(SourceError::Empty { path }),
        Err(error) => return Err(failed(io::Error::other(error))),
    };
    let offsets = offsets_us(&files);
    let ahead_us = |node: &str| offsets.get(node).copied().unwrap_or(0);
    let mut nodes = Vec::new();
    for (name, file) in files.recorders() {
        let unreadable = |source| SourceError::Unreadable { path: run.join(&file), source };
        let opened = files.file(&file).map_err(|error| unreadable(error.into()))?;
        let shown = tcpx_words::units::printable(&name);
        let mut node =
            Reader::from_file(opened).and_then(|mut reader| Node::read(&shown, &mut reader)).map_err(unreadable)?;
        node.move_clock(ahead_us(name.split(' ').next().unwrap_or_default()));
        nodes.push(node);
    }
    let stream = match files.file("events.jsonl").and_then(|events| read_stream(BufReader::new(events), ahead_us)) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !nodes.is_empty() => Stream::default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SourceError::Empty { path: run.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    };
    Ok(Timeline::new(nodes, stream))
}

/// What each node's clock is ahead of the coordinator's, where the run measured it.
fn offsets_us(files: &RunFiles) -> BTreeMap<String, i64> {
    let record = files.read("run.json", RECORD_MAX).ok();
    let record: Option<serde_json::Value> = record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let nodes = record.as_ref().and_then(|record| record["nodes"].as_array());
    let offset =
        |node: &serde_json::Value| Some((node["name"].as_str()?.to_owned(), node["clock"]["offset_us"].as_i64()?));
    nodes.into_iter().flatten().filter_map(offset).collect()
}

/// Every recorder that a process writes, or wrote.
fn process(pid: u32) -> Result<Timeline, SourceError> {
    let mut nodes = Vec::new();
    for parent in [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()] {
        let found = list(&parent).map_err(|source| SourceError::Io { path: parent.clone(), source })?;
        let written = |one: &tcpx_recorder::Listed| one.header.as_ref().is_ok_and(|header| header.writer.pid == pid);
        let mut files: Vec<_> = found.into_iter().filter(written).collect();
        // A pid comes again: who lives is meant.
        if files.iter().any(|one| one.writer == Liveness::Alive) {
            files.retain(|one| one.writer == Liveness::Alive);
        }
        for file in files {
            nodes.push(recorder(&format!("pid {pid}"), &file.path)?);
        }
    }
    if nodes.is_empty() {
        return Err(SourceError::Nothing { what: pid.to_string() });
    }
    Ok(Timeline::new(nodes, Stream::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_nothing_is_said_and_what_is_damaged_is_named() {
        assert!(matches!(open("/nowhere"), Err(SourceError::Nothing { .. })));
        assert!(matches!(open("999999999"), Err(SourceError::Nothing { .. })));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        assert!(matches!(open(&path), Err(SourceError::Empty { .. })));
        let file = folder.path().join("x.tcpxrec");
        std::fs::write(&file, "nonsense").expect("written");
        assert!(matches!(open(&file.display().to_string()), Err(SourceError::Unreadable { .. })));
    }
}
