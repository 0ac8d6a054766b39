//! Errors of finding and loading a plugin.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::{NextStep, Outcome};

/// A plugin could not be found or loaded. Exit code 3, or 2 for [`LoadError::NoVersion`].
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file does not exist.
    #[error("plugin {}: no such file", path.display())]
    NotFound {
        /// The path, as given.
        path: PathBuf,
    },
    /// The file exists but cannot be read.
    #[error("plugin {}: {why}", path.display())]
    Unreadable {
        /// The path, as given.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// The file is not a shared object for this machine.
    #[error("plugin {}: {what}", path.display())]
    NotAPlugin {
        /// The path, as given.
        path: PathBuf,
        /// What the file is, as a predicate: `is a text file, ...`.
        what: String,
    },
    /// dlopen failed.
    #[error("plugin {}: dlopen failed: {why}", path.display())]
    Open {
        /// The path, as given.
        path: PathBuf,
        /// The message of dlerror.
        why: String,
    },
    /// The library exports no table of a known version.
    #[error(
        "plugin {}: exports none of {} to {}; it exports {exported}",
        path.display(), AbiVersion::OLDEST.symbol(), AbiVersion::NEWEST.symbol()
    )]
    NoTable {
        /// The path, as given.
        path: PathBuf,
        /// The exported `ncclNetPlugin_vN` symbols, separated by commas.
        exported: String,
    },
    /// The library does not export the requested version.
    #[error("plugin {}: no table of version {wanted}; it exports {exported}", path.display())]
    NoVersion {
        /// The path, as given.
        path: PathBuf,
        /// The requested version.
        wanted: AbiVersion,
        /// The exported `ncclNetPlugin_vN` symbols, separated by commas.
        exported: String,
    },
    /// The exported symbol is not a table.
    #[error("plugin {}: {symbol} {what}", path.display())]
    NotATable {
        /// The path, as given.
        path: PathBuf,
        /// The symbol.
        symbol: String,
        /// What is wrong, as a predicate of the symbol.
        what: String,
    },
    /// A required member of the table is null.
    #[error("plugin {}: {symbol} has a null {member}", path.display())]
    NullMember {
        /// The path, as given.
        path: PathBuf,
        /// The symbol of the table.
        symbol: String,
        /// The null member.
        member: &'static str,
    },
    /// The name resolves to no file.
    #[error("no plugin named `{name}`; tried {looked}")]
    NoSuchName {
        /// The name, as given.
        name: String,
        /// Every path that was tried, separated by commas.
        looked: String,
    },
}

impl LoadError {
    /// The outcome of the command: a usage error if a missing version was requested.
    pub fn outcome(&self) -> Outcome {
        if matches!(self, Self::NoVersion { .. }) {
            Outcome::Usage
        } else {
            Outcome::NotRun
        }
    }
}

impl NextStep for LoadError {
    fn next_step(&self) -> Option<String> {
        match self {
            // `ldd` without -r reports libraries that are missing, and no symbols.
            Self::Open { path, why } if why.contains("undefined symbol") => Some(format!(
                "run `ldd -r {}`, which lists every undefined symbol; a library that has them, and that the plugin \
                 does not name, can be named in LD_PRELOAD",
                path.display()
            )),
            Self::Open { path, .. } => Some(format!(
                "run `ldd {}` and look for `not found`",
                path.display()
            )),
            Self::NoTable { path, .. } => Some(format!(
                "run `nm -D {} | grep ncclNet` to see what it exports",
                path.display()
            )),
            Self::NotFound { .. } | Self::NoSuchName { .. } => Some(
                "give --plugin a path, `soft`, `builtin`, or a name X for libnccl-net-X.so".into(),
            ),
            Self::NoVersion { .. } => {
                Some("give one of these versions to --abi, or omit --abi for the newest".into())
            }
            Self::NotATable { .. } | Self::NullMember { .. } => Some(
                "NCCL would load this table and crash; choose another version with --abi".into(),
            ),
            Self::Unreadable { .. } | Self::NotAPlugin { .. } => None,
        }
    }
}
