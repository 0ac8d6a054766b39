//! Sources of events, and the source that reads recorder files of this machine.
#![forbid(unsafe_code)]

use super::folder::FolderSource;
use super::judged::JudgedSource;
use std::path::{Path, PathBuf};
use tcpx_recorder::ReadError;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::Event;
use tcpx_run_model::ids::{Names, NodeIntro};
use tcpx_run_model::live::{RecorderFilter, Recorders};
use tcpx_run_model::record::{RecordError, RunFiles, RunRecord};
use tcpx_run_model::state::RunState;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// A source of events.
pub trait Source {
    /// The state before the first event.
    fn begin(&self) -> Beginning;

    /// The events since the last poll. Never blocks.
    ///
    /// # Errors
    /// The source has failed, and no more events will come.
    fn poll(&mut self) -> Result<Vec<Event>, SourceError>;

    /// The record of the run. Returned once, with or after the last event.
    fn record(&mut self) -> Option<Box<RunRecord>> {
        None
    }

    /// The clock that the source goes by.
    fn clock(&self) -> Clock;

    /// Requests the details of a channel among the events, or of no channel. `state` is the
    /// state after all events so far. The same channel may be requested again and again.
    fn focus(&mut self, _channel: Option<&ChannelKey>, _state: &RunState) {}
}

/// The state of a source before its first event.
#[derive(Debug, Default)]
pub struct Beginning {
    /// Name of the scenario, process or machine.
    pub title: String,
    /// Names and scenario, if they are known.
    pub state: RunState,
}

/// The clock that a source goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The clock of this machine, for a live source.
    Wall,
    /// The times of the events, for a replay.
    Events,
    /// No clock, because the run is over.
    Over,
}

/// Why a source cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The argument does not name a source.
    #[error("{what} is not a run folder, a recorder file, or a process that writes a recorder")]
    NotASource {
        /// The argument.
        what: String,
    },
    /// No process of this user writes a recorder.
    #[error("no process of this user writes a recorder on this machine")]
    NoRecorder,
    /// The connection to the source was lost.
    #[error("{what}")]
    Lost {
        /// The error message.
        what: String,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The error message.
        why: String,
    },
    /// The run's record has a version that this program does not know.
    #[error("cannot read {}: {error}", path.display())]
    Record {
        /// The run folder or bundle.
        path: PathBuf,
        /// The error with the record's schema.
        error: RecordError,
    },
}

impl SourceError {
    /// The outcome that decides the exit code.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotASource { .. } => Outcome::Usage,
            Self::Lost { .. } => Outcome::PeerLost,
            Self::NoRecorder | Self::Unreadable { .. } | Self::Record { .. } => Outcome::NotRun,
        }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::NotASource { .. } => {
                "name a folder under reports/, a recorder file or a process id".into()
            }
            Self::NoRecorder => {
                "start one with `tcpxctl tap -- COMMAND`, or name a run folder under reports/"
                    .into()
            }
            Self::Record { error, .. } => return error.next_step(),
            Self::Unreadable { .. } | Self::Lost { .. } => return None,
        })
    }
}

/// The recorder files of this machine.
struct LocalRecorders {
    title: String,
    recorders: Recorders,
    /// Events that were read when the source was opened.
    first: Vec<Event>,
}

impl LocalRecorders {
    /// Opens the recorders that match a filter.
    ///
    /// # Errors
    /// No recorder matches, or a recorder file cannot be read.
    fn open(filter: RecorderFilter) -> Result<Self, SourceError> {
        let (title, what) = match &filter {
            RecorderFilter::All | RecorderFilter::Workers(_) => ("this machine".to_owned(), None),
            RecorderFilter::Pid(pid) => (format!("process {pid}"), Some(pid.to_string())),
            RecorderFilter::File(path) => {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                (name, Some(path.display().to_string()))
            }
        };
        let mut opened = Self {
            title,
            recorders: Recorders::new(filter),
            first: Vec::new(),
        };
        opened.first = opened.look()?;
        match (opened.recorders.is_empty(), what) {
            (true, Some(what)) => Err(SourceError::NotASource { what }),
            (true, None) => Err(SourceError::NoRecorder),
            (false, _) => Ok(opened),
        }
    }

    fn look(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = std::mem::take(&mut self.first);
        let looked = self.recorders.look(now_us() * 1000, &mut events);
        looked.map_err(|error| self.unreadable(&error))?;
        Ok(events)
    }

    fn unreadable(&self, error: &ReadError) -> SourceError {
        let path = match self.recorders.which() {
            RecorderFilter::File(path) => path.clone(),
            _ => PathBuf::new(),
        };
        SourceError::Unreadable {
            path,
            why: error.to_string(),
        }
    }
}

impl Source for LocalRecorders {
    fn begin(&self) -> Beginning {
        // With only one machine, its name is not shown.
        let here = NodeIntro {
            name: String::new(),
            address: String::new(),
        };
        let names = Names {
            nodes: vec![here],
            pairs: Vec::new(),
        };
        Beginning {
            title: self.title.clone(),
            state: RunState {
                names,
                ..RunState::default()
            },
        }
    }

    fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
        self.look()
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, _state: &RunState) {
        self.recorders.want(channel.cloned());
    }
}

/// Opens the source that an argument names: a run folder, a bundle, a recorder file or a process
/// id. Without an argument, every recorder of this user on this machine.
///
/// # Errors
/// The argument does not name a source, or the source cannot be read.
pub fn open(what: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    let local = |filter| -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(JudgedSource::new(LocalRecorders::open(filter)?)))
    };
    let Some(what) = what else {
        return local(RecorderFilter::All);
    };
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return Ok(Box::new(FolderSource::open(path, None)?));
    }
    if path.is_file() {
        return local(RecorderFilter::File(path.to_owned()));
    }
    match what.parse() {
        Ok(pid) => local(RecorderFilter::Pid(pid)),
        Err(_) => Err(SourceError::NotASource {
            what: what.to_owned(),
        }),
    }
}
