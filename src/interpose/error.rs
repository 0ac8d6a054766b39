//! Why a program cannot be given the tap.
#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use tcpx_words::error::{NextStep, Outcome};

/// Why a program cannot be given the tap.
#[derive(Debug, thiserror::Error)]
pub enum InterposeError {
    /// Nothing names a plugin, and no usual place has one.
    #[error("found no plugin that the program would load; looked for {looked}")]
    NoPlugin {
        /// Every candidate.
        looked: String,
    },
    /// `builtin` is no file that another process could load.
    #[error("the built-in plugin is no file, so no other program can load it")]
    Builtin,
    /// The file is no plugin, or cannot be read.
    #[error(transparent)]
    Plugin(#[from] tcpx_node::plugin_files::LoadError),
    /// It exports nothing that the tap knows.
    #[error("{} exports {found}; the tap knows versions 4 to 12", path.display())]
    Versions {
        /// The plugin.
        path: PathBuf,
        /// What it exports.
        found: String,
    },
    /// An object of the tap is not where it should be.
    #[error("cannot find {name}, the tap; looked for {looked}")]
    NoTap {
        /// File name.
        name: String,
        /// Every place.
        looked: String,
    },
    /// The folder of links could not be made.
    #[error("cannot make a private folder in {}: {source}", parent.display())]
    Folder {
        /// Where.
        parent: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// As given.
        program: String,
        /// Why.
        source: io::Error,
    },
}

impl InterposeError {
    /// Whose problem it is.
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
                Some("name it: tcpxctl tap --plugin /path/to/libnccl-net-tcpx.so -- ...".into())
            }
            Self::Builtin => Some("use --plugin soft, which is a file".into()),
            Self::Plugin(error) => error.next_step(),
            Self::NoTap { .. } => Some(
                "run scripts/install, or copy it from target/release/deps beside tcpxctl".into(),
            ),
            Self::Folder { .. } => Some("set TMPDIR to a folder that can be written".into()),
            Self::Versions { .. } | Self::Start { .. } => None,
        }
    }
}
