//! Where events come from.
#![forbid(unsafe_code)]

use super::folder::Folder;
use super::judged::Judged;
use std::path::{Path, PathBuf};
use tcpx_recorder::ReadError;
use tcpx_run_model::event::Event;
use tcpx_run_model::ids::{Names, NodeIntro};
use tcpx_run_model::record::live::{ChannelKey, RecorderFilter, Recorders};
use tcpx_run_model::record::{RecordError, RunFiles, RunRecord};
use tcpx_run_model::state::RunState;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// Something that tells what happens.
pub trait Source {
    /// What is known before its first event.
    fn begin(&self) -> Beginning;

    /// Events since the last poll. Never waits.
    ///
    /// # Errors
    /// Nothing will ever come.
    fn poll(&mut self) -> Result<Vec<Event>, SourceError>;

    /// How the run ended, once, with or after its last event.
    fn record(&mut self) -> Option<Box<RunRecord>> {
        None
    }

    /// By which clock it goes.
    fn clock(&self) -> Clock;

    /// Asks for the details of a channel among the events, or for none. `state` is
    /// what its events have come to; it may be asked for the same again and again.
    fn focus(&mut self, _channel: Option<&ChannelKey>, _state: &RunState) {}
}

/// What is known before the first event.
#[derive(Debug, Default)]
pub struct Beginning {
    /// What is looked at: a scenario, a process, a machine.
    pub title: String,
    /// Names and scenario, as far as they are known.
    pub state: RunState,
}

/// By which clock a source goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// This machine's: it is live.
    Wall,
    /// Its events': it is told again.
    Events,
    /// Nothing happens any more.
    Over,
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A word on the command line that means nothing.
    #[error("{what} is no run folder, no recorder file, and no process that writes one")]
    Nothing {
        /// The word.
        what: String,
    },
    /// Nothing runs here.
    #[error("no process of this user writes a recorder on this machine")]
    Nobody,
    /// What told the events is gone.
    #[error("{what}")]
    Lost {
        /// In words.
        what: String,
    },
    /// A file or a folder.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// A record that this version cannot read.
    #[error("cannot read {}: {error}", path.display())]
    Record {
        /// The run.
        path: PathBuf,
        /// Why.
        error: RecordError,
    },
}

impl SourceError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Nothing { .. } => Outcome::Usage,
            Self::Lost { .. } => Outcome::PeerLost,
            Self::Nobody | Self::Unreadable { .. } | Self::Record { .. } => Outcome::NotRun,
        }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::Nothing { .. } => {
                "name a folder under reports/, a recorder file or a process id".into()
            }
            Self::Nobody => {
                "start one with `tcpxctl tap -- COMMAND`, or name a run folder under reports/"
                    .into()
            }
            Self::Record { error, .. } => return error.next_step(),
            Self::Unreadable { .. } | Self::Lost { .. } => return None,
        })
    }
}

/// Recorder files of this machine.
struct Local {
    title: String,
    recorders: Recorders,
    /// What the first look found.
    first: Vec<Event>,
}

impl Local {
    /// Starts to look; with nothing there yet this is an error.
    ///
    /// # Errors
    /// No file can be read.
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
        let mut local = Self {
            title,
            recorders: Recorders::new(filter),
            first: Vec::new(),
        };
        local.first = local.look()?;
        match (local.recorders.is_empty(), what) {
            (true, Some(what)) => Err(SourceError::Nothing { what }),
            (true, None) => Err(SourceError::Nobody),
            (false, _) => Ok(local),
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

impl Source for Local {
    fn begin(&self) -> Beginning {
        // This machine, which needs no name.
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

/// What a word on the command line means: a run folder, a bundle, a recorder file,
/// a process; everything that runs here without one.
///
/// # Errors
/// It means nothing, or cannot be read.
pub fn open(what: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    let local = |filter| Ok(Box::new(Judged::new(Local::open(filter)?)) as Box<dyn Source>);
    let Some(what) = what else {
        return local(RecorderFilter::All);
    };
    let path = Path::new(what);
    if path.is_dir() || RunFiles::is_bundle(path) {
        return Ok(Box::new(Folder::open(path, None)?));
    }
    if path.is_file() {
        return local(RecorderFilter::File(path.to_owned()));
    }
    match what.parse() {
        Ok(pid) => local(RecorderFilter::Pid(pid)),
        Err(_) => Err(SourceError::Nothing {
            what: what.to_owned(),
        }),
    }
}
