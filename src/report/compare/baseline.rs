//! Results that are kept under a name, and figures that are shipped.
#![forbid(unsafe_code)]

use super::measured::{Measured, Metric};
use crate::write_whole;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::folders::user_config;

const PROFILES: &str = include_str!("profiles/profiles.toml");
/// Bytes of a kept result.
const FILE_MAX: u64 = 64 << 20;

/// A figure with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// As it is asked for.
    pub(crate) name: String,
    /// What it is a figure of.
    pub(crate) metric: String,
    /// 10^9 bytes per second.
    pub(crate) gb_per_s: f64,
    /// In words.
    pub(crate) what: String,
    /// Where it is said.
    pub(crate) source: String,
    /// When it was said, or looked up.
    pub(crate) date: String,
}

#[derive(Deserialize)]
struct File {
    profile: Vec<Profile>,
}

/// Those that are shipped; a test reads them.
pub(crate) fn profiles() -> &'static [Profile] {
    static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| {
        toml::from_str::<File>(PROFILES)
            .map(|file| file.profile)
            .unwrap_or_default()
    });
    &ALL
}

impl From<&Profile> for Measured {
    fn from(profile: &Profile) -> Self {
        let mut measured = Self {
            name: profile.name.clone(),
            tool: "profile".to_owned(),
            source: format!("{} ({}, {})", profile.what, profile.source, profile.date),
            ..Self::default()
        };
        measured.metric(profile.metric.clone(), Metric::rate([profile.gb_per_s]));
        measured
    }
}

/// What goes wrong with them.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not a name.
    #[error("`{0}` is no name for a baseline: letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// A name of ours.
    #[error("`{0}` is a shipped profile")]
    Shipped(String),
    /// Nothing of that name.
    #[error("there is no baseline `{name}` in {}", folder.display())]
    Nothing {
        /// As given.
        name: String,
        /// Where was looked.
        folder: PathBuf,
    },
    /// One that cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Or written.
    #[error(transparent)]
    Write(#[from] crate::WriteError),
}

impl BaselineError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Name(_) | Self::Shipped(_) | Self::Nothing { .. } => Outcome::Usage,
            Self::Unreadable { .. } | Self::Write(_) => Outcome::NotRun,
        }
    }
}

impl NextStep for BaselineError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Nothing { .. } => Some("`tcpxctl baseline list` names them all".into()),
            Self::Shipped(_) => Some("choose another name".into()),
            _ => None,
        }
    }
}

/// Where a user's baselines are: a file each.
#[derive(Debug, Clone)]
pub struct Baselines {
    folder: PathBuf,
}

impl Baselines {
    /// In this folder.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// `$XDG_CONFIG_HOME/tcpxctl/baselines`, or the same under `~/.config`.
    pub fn of_user(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        Self::at(
            user_config(variable)
                .unwrap_or_else(|| PathBuf::from("./tcpxctl"))
                .join("baselines"),
        )
    }

    fn path(&self, name: &str) -> Result<PathBuf, BaselineError> {
        let plain = tcpx_words::units::file_name(name) == name
            && !name.is_empty()
            && !name.starts_with('.');
        match plain {
            true => Ok(self.folder.join(format!("{name}.json"))),
            false => Err(BaselineError::Name(name.to_owned())),
        }
    }

    /// Keeps a result under a name; one that is there is replaced.
    ///
    /// # Errors
    /// A name that is none, or a place that cannot be written.
    pub fn save(&self, name: &str, measured: &Measured) -> Result<PathBuf, BaselineError> {
        if profiles().iter().any(|profile| profile.name == name) {
            return Err(BaselineError::Shipped(name.to_owned()));
        }
        let path = self.path(name)?;
        let unwritable = |error: std::io::Error| BaselineError::Unreadable {
            path: self.folder.clone(),
            why: error.to_string(),
        };
        std::fs::create_dir_all(&self.folder).map_err(unwritable)?;
        let named = Measured {
            name: name.to_owned(),
            source: format!("{}, {}", measured.name, measured.source),
            ..measured.clone()
        };
        write_whole(&path, |to| {
            serde_json::to_writer_pretty(to, &named).map_err(Into::into)
        })?;
        Ok(path)
    }

    /// The one of that name; a shipped profile is one, too.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn load(&self, name: &str) -> Result<Measured, BaselineError> {
        if let Some(profile) = profiles().iter().find(|profile| profile.name == name) {
            return Ok(profile.into());
        }
        let path = self.path(name)?;
        if !path.is_file() {
            return Err(BaselineError::Nothing {
                name: name.to_owned(),
                folder: self.folder.clone(),
            });
        }
        read(&path).map_err(|why| BaselineError::Unreadable { path, why })
    }

    /// All that can be read, by name, and then the shipped ones.
    pub fn list(&self) -> Vec<Measured> {
        let entries = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten();
        let mut own: Vec<Measured> = entries
            .filter_map(|entry| read(&entry.path()).ok())
            .collect();
        own.sort_by(|a, b| a.name.cmp(&b.name));
        own.extend(profiles().iter().map(Measured::from));
        own
    }
}

fn read(path: &Path) -> Result<Measured, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
