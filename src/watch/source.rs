//! Where updates come from.
#![forbid(unsafe_code)]

use crate::diagnose::Watcher;
use std::path::{Path, PathBuf};
use tcpx_run_model::record::RunFiles;
use tcpx_run_model::record::live::{ChannelKey, Recorders, Title, Update, Which};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// Something that tells what happens.
pub(crate) trait Source {
    /// What is new. Never waits.
    ///
    /// # Errors
    /// Nothing will ever come.
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError>;

    /// Its time, nanoseconds since 1970; `None` once nothing happens any more.
    fn now_ns(&self) -> Option<u64>;

    /// The channel that should be looked at closely.
    fn want(&mut self, channel: Option<ChannelKey>);
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{what} is no run folder, no recorder file, and no process that writes one")]
    Nothing { what: String },
    #[error("no process of this user writes a recorder on this machine")]
    Nobody,
    #[error("{what}")]
    Lost { what: String },
    #[error("cannot read {}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
}

impl SourceError {
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Nothing { .. } => Outcome::Usage,
            Self::Lost { .. } => Outcome::PeerLost,
            Self::Nobody | Self::Unreadable { .. } => Outcome::NotRun,
        }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::Nothing { .. } => "name a folder under reports/, a recorder file or a process id".into(),
            Self::Nobody => "start one with `tcpxctl tap -- COMMAND`, or name a run folder under reports/".into(),
            Self::Unreadable { .. } | Self::Lost { .. } => return None,
        })
    }
}

/// Recorder files of this machine.
pub(crate) struct Local {
    recorders: Recorders,
    /// What the first look found.
    first: Vec<Update>,
    only: Option<PathBuf>,
    watcher: Watcher,
}

impl Local {
    /// Starts to look; with nothing there yet this is an error.
    ///
    /// # Errors
    /// No file can be read.
    pub(crate) fn new(which: Which) -> Result<Self, SourceError> {
        let name = match &which {
            Which::All | Which::Named(_) => "this machine".to_owned(),
            Which::Pid(pid) => format!("process {pid}"),
            Which::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let (what, only) = match &which {
            Which::Pid(pid) => (Some(pid.to_string()), None),
            Which::File(path) => (Some(path.display().to_string()), Some(path.clone())),
            _ => (None, None),
        };
        let title = Title { name, started_ns: now_us() * 1000, ..Title::default() };
        let mut local = Self { recorders: Recorders::new(which), first: Vec::new(), only, watcher: Watcher::default() };
        let mut first = vec![Update::Title(title)];
        local.look(&mut first)?;
        local.first = first;
        match (local.recorders.is_empty(), what) {
            (true, Some(what)) => Err(SourceError::Nothing { what }),
            (true, None) => Err(SourceError::Nobody),
            (false, _) => Ok(local),
        }
    }

    fn look(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        let unreadable = |error: tcpx_recorder::ReadError| SourceError::Unreadable {
            path: self.only.clone().unwrap_or_default(),
            why: error.to_string(),
        };
        self.recorders.look(now_us() * 1000, updates).map_err(unreadable)
    }
}

impl Source for Local {
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        updates.append(&mut self.first);
        self.look(updates)?;
        self.watcher.add_to(updates);
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        Some(now_us() * 1000)
    }

    fn want(&mut self, channel: Option<ChannelKey>) {
        self.recorders.want(channel);
    }
}

/// What a word on the command line means.
///
/// # Errors
/// It means nothing, or cannot be read.
pub(crate) fn open(what: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    let Some(what) = what else { return Ok(Box::new(Local::new(Which::All)?)) };
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return Ok(Box::new(super::Folder::open(path, None)?));
    }
    if path.is_file() {
        return Ok(Box::new(Local::new(Which::File(path.to_owned()))?));
    }
    match what.parse() {
        Ok(pid) => Ok(Box::new(Local::new(Which::Pid(pid))?)),
        Err(_) => Err(SourceError::Nothing { what: what.to_owned() }),
    }
}
