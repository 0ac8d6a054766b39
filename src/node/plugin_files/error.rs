//! Why a file could not become a plugin.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::{NextStep, Outcome};

/// Why a file could not become a plugin. Exit code 3.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error("plugin {}: no such file", path.display())]
    NotFound {
        /// As given.
        path: PathBuf,
    },
    /// It exists and cannot be read.
    #[error("plugin {}: {why}", path.display())]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// Not a shared object for this machine.
    #[error("plugin {}: {what}", path.display())]
    NotAPlugin {
        /// As given.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The dynamic linker refused.
    #[error("plugin {}: the dynamic linker refused it: {why}", path.display())]
    Open {
        /// As given.
        path: PathBuf,
        /// dlerror's words.
        why: String,
    },
    /// No table that we know.
    #[error(
        "plugin {}: exports none of {} to {}; it exports {exported}",
        path.display(), AbiVersion::OLDEST.symbol(), AbiVersion::NEWEST.symbol()
    )]
    NoTable {
        /// As given.
        path: PathBuf,
        /// What it exports of that kind.
        exported: String,
    },
    /// Not the version that was asked for.
    #[error("plugin {}: has no version {wanted}; it exports {exported}", path.display())]
    NoVersion {
        /// As given.
        path: PathBuf,
        /// The version asked for.
        wanted: AbiVersion,
        /// What it exports of that kind.
        exported: String,
    },
    /// A symbol of that name which is no such table.
    #[error("plugin {}: {symbol} {what}", path.display())]
    NotATable {
        /// As given.
        path: PathBuf,
        /// The symbol.
        symbol: String,
        /// What it is instead.
        what: String,
    },
    /// A table without a member that every plugin owes.
    #[error("plugin {}: {symbol} has a null {member}", path.display())]
    NullMember {
        /// As given.
        path: PathBuf,
        /// The table.
        symbol: String,
        /// The member.
        member: &'static str,
    },
    /// A name that leads to no file.
    #[error("no plugin called `{name}`; looked for {looked}")]
    NoSuchName {
        /// As given.
        name: String,
        /// Every path that was tried.
        looked: String,
    },
}

impl LoadError {
    /// Whose problem it is: a version that is not there was the request's.
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
                Some("name one of these with --abi, or leave it out for the newest".into())
            }
            Self::NotATable { .. } | Self::NullMember { .. } => {
                Some("NCCL would take it and crash; --abi names another version".into())
            }
            Self::Unreadable { .. } | Self::NotAPlugin { .. } => None,
        }
    }
}
