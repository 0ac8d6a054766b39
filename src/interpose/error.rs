//! Why a program cannot be given the tap.
#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use tcpx_words::error::{NextStep, Outcome};

/// Why a program cannot be given the tap.
#[derive(Debug, thiserror::Error)]
pub enum InterposeError {
    /// No variable names a plugin, and no default location has one.
    #[error("found no plugin that the program would load; looked for {looked}")]
    NoPlugin {
        /// Every path that was tried.
        looked: String,
    },
    /// `builtin` is part of tcpxctl, not a file.
    #[error("the built-in plugin is not a file, so no other program can load it")]
    Builtin,
    /// The file is not a plugin, or cannot be read.
    #[error(transparent)]
    Plugin(#[from] tcpx_node::plugin_files::LoadError),
    /// The plugin exports no table version that the tap supports.
    #[error("{} exports {found}; the tap supports versions 4 to 12", path.display())]
    Versions {
        /// The plugin.
        path: PathBuf,
        /// The net tables that it exports.
        found: String,
    },
    /// The tap's object was not found.
    #[error("cannot find the tap {name}; looked for {looked}")]
    NoTap {
        /// File name of the tap.
        name: String,
        /// Every path that was tried.
        looked: String,
    },
    /// The folder of links cannot be made.
    #[error("cannot make a private folder in {}: {source}", parent.display())]
    Folder {
        /// The folder that should contain it.
        parent: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder for the recorder files cannot be made or written.
    #[error("cannot write recorder files to {}: {source}", folder.display())]
    RecorderFolder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program, as typed.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

impl InterposeError {
    /// The exit code's category: wrong usage, or not run.
    pub(crate) fn outcome(&self) -> Outcome {
        if matches!(self, Self::Builtin) {
            Outcome::Usage
        } else {
            Outcome::NotRun
        }
    }
}

impl NextStep for InterposeError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::NoPlugin { .. } => {
                Some("name the plugin with --plugin PATH, or use the software plugin with --plugin soft".into())
            }
            Self::Builtin => Some("use --plugin soft, the software plugin as a file".into()),
            Self::Plugin(error) => error.next_step(),
            Self::NoTap { .. } => Some(
                "run scripts/install, or copy the tap from target/release/deps to the folder of tcpxctl".into(),
            ),
            Self::Folder { .. } => Some("set TMPDIR to a writable folder".into()),
            Self::RecorderFolder { .. } => Some("choose another folder with --folder DIR".into()),
            Self::Versions { .. } | Self::Start { .. } => None,
        }
    }
}
