//! Sources of events, and the source that reads recorder files of this machine.
#![forbid(unsafe_code)]

use super::folder::FolderSource;
use super::judged::JudgedSource;
use std::path::{Path, PathBuf};
use tcpx_recorder::{ReadError, Reader};
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Names, Who};
use tcpx_run_model::live::{RecorderFilter, Recorders, recorders_of, torn, why_unrecorded};
use tcpx_run_model::record::{RecordError, RunFiles, RunRecord};
use tcpx_run_model::repeats::{Repeat, take_repeated_recordings};
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

    /// What the record of the run lacks, in words, once the record is there.
    fn lost(&self) -> &[String] {
        &[]
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
    /// The times of the events, until what was written before has been read, of which so many
    /// percent are read.
    Reading(u8),
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
    /// The argument is a folder or a bundle, and not the only one.
    #[error("{what} is a folder or a bundle, and these are read one at a time")]
    NotAlone {
        /// The argument.
        what: String,
    },
    /// The process is not seen, or no recorder of it is found.
    #[error("{why}")]
    Unrecorded {
        /// Why, in words.
        why: String,
        /// What to do.
        next: &'static str,
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
            Self::NotASource { .. } | Self::NotAlone { .. } | Self::Unrecorded { .. } => {
                Outcome::Usage
            }
            Self::Lost { .. } => Outcome::PeerLost,
            Self::NoRecorder | Self::Unreadable { .. } | Self::Record { .. } => Outcome::NotRun,
        }
    }
}

impl SourceError {
    fn of_process(pid: u32) -> Self {
        let (why, next) = why_unrecorded(pid);
        Self::Unrecorded { why, next }
    }
}

impl NextStep for SourceError {
    fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::NotASource { .. } => {
                "name a folder under reports/, a recorder file or a process id".into()
            }
            Self::NotAlone { .. } => {
                "name one run, or several recorder files and process ids".into()
            }
            Self::Unrecorded { next, .. } => (*next).into(),
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
        if let RecorderFilter::Pid(pid) = filter
            && recorders_of(pid).is_empty()
        {
            return Err(SourceError::of_process(pid));
        }
        let (title, what) = match &filter {
            RecorderFilter::All | RecorderFilter::Workers(_) => ("this machine".to_owned(), None),
            RecorderFilter::Pid(pid) => (format!("process {pid}"), Some(pid.to_string())),
            RecorderFilter::Files(paths) => {
                let name = |path: &PathBuf| {
                    let name = path.file_name().unwrap_or_default();
                    name.to_string_lossy().into_owned()
                };
                let names: Vec<String> = paths.iter().map(name).collect();
                let paths: Vec<String> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                (names.join(", "), Some(paths.join(", ")))
            }
        };
        let mut opened = Self {
            title,
            recorders: Recorders::new(filter),
            first: Vec::new(),
        };
        opened.first = opened.look()?;
        opened.first.extend(opened.torn());
        match (opened.recorders.is_empty(), what) {
            (true, Some(what)) => Err(SourceError::NotASource { what }),
            (true, None) => Err(SourceError::NoRecorder),
            (false, _) => Ok(opened),
        }
    }

    /// A note for each named file that was copied in part.
    fn torn(&self) -> Vec<Event> {
        let RecorderFilter::Files(paths) = self.recorders.which() else {
            return Vec::new();
        };
        let note = |path: &PathBuf| {
            let name = path.display().to_string();
            let text = torn(&name, &mut Reader::open(path).ok()?)?;
            Some(Event::new(0.0, Who::Run, EventKind::Note(text)))
        };
        paths.iter().filter_map(note).collect()
    }

    fn look(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = std::mem::take(&mut self.first);
        let looked = self.recorders.look(now_us() * 1000, &mut events);
        looked.map_err(|error| self.unreadable(&error))?;
        Ok(events)
    }

    fn unreadable(&self, error: &ReadError) -> SourceError {
        let path = match self.recorders.which() {
            RecorderFilter::Files(paths) => paths.first().cloned().unwrap_or_default(),
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
        let names = Names {
            nodes: self.recorders.nodes(),
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
        // Other processes may start as long as not all of them are named.
        let is_all = matches!(self.recorders.which(), RecorderFilter::All);
        if !is_all && self.recorders.have_ended() {
            Clock::Over
        } else {
            Clock::Wall
        }
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, _state: &RunState) {
        self.recorders.want(channel.cloned());
    }
}

/// Opens the source that the arguments name: a run folder or a bundle, or any number of recorder
/// files and process ids. Without an argument, every recorder of this user on this machine.
///
/// # Errors
/// An argument does not name a source, or the source cannot be read.
pub fn open(what: &[String]) -> Result<Box<dyn Source>, SourceError> {
    let local = |filter| -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(JudgedSource::new(LocalRecorders::open(filter)?)))
    };
    let not_a_source = |what: &str| SourceError::NotASource {
        what: what.to_owned(),
    };
    match what {
        [] => return local(RecorderFilter::All),
        [run] if Path::new(run).is_dir() || RunFiles::is_bundle(Path::new(run)) => {
            return Ok(Box::new(FolderSource::open(Path::new(run), None)?));
        }
        // Recorders that a single process opens later are found too.
        [pid] if !Path::new(pid).is_file() => {
            let pid = pid.parse().map_err(|_| not_a_source(pid))?;
            return local(RecorderFilter::Pid(pid));
        }
        _ => {}
    }
    let mut files = Vec::new();
    for one in what {
        let path = PathBuf::from(one);
        if path.is_dir() || RunFiles::is_bundle(&path) {
            return Err(SourceError::NotAlone { what: one.clone() });
        }
        let found = match one.parse() {
            _ if path.is_file() => vec![path],
            Ok(pid) => recorders_of(pid),
            Err(_) => Vec::new(),
        };
        if found.is_empty() {
            let pid = one.parse().map(SourceError::of_process);
            return Err(pid.unwrap_or_else(|_| not_a_source(one)));
        }
        files.extend(found);
    }
    let repeats = take_repeated_recordings(&mut files);
    let mut recorders = LocalRecorders::open(RecorderFilter::Files(files))?;
    let note = |repeat: &Repeat| Event::new(0.0, Who::Run, EventKind::Note(repeat.sentence()));
    recorders.first.extend(repeats.iter().map(note));
    Ok(Box::new(JudgedSource::new(recorders)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(what: &[&str]) -> String {
        let what: Vec<String> = what.iter().map(|one| (*one).to_owned()).collect();
        open(&what).err().expect("refused").to_string()
    }

    #[test]
    fn a_folder_among_several_is_said_to_be_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().to_str().expect("a name");
        let told = refusal(&[folder, folder]);
        assert!(
            told.ends_with("is a folder or a bundle, and these are read one at a time"),
            "{told}"
        );
        let told = refusal(&["no-such-file", folder]);
        assert!(told.contains("no-such-file is not a run folder"), "{told}");
    }
}
