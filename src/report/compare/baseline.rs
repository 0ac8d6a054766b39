//! Baselines, which are results saved under a name, and profiles, which are shipped figures.
#![forbid(unsafe_code)]

use super::measured::{Measured, Metric};
use crate::write_whole;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::folders::user_config;

const PROFILES: &str = include_str!("profiles/profiles.toml");
/// Maximum size of a baseline file.
const FILE_MAX: u64 = 64 << 20;

/// A shipped figure with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The name that selects the profile on the command line.
    pub(crate) name: String,
    /// The metric that the figure is compared with.
    pub(crate) metric: String,
    /// 10^9 bytes per second.
    pub(crate) gb_per_s: f64,
    /// What the figure means, in words.
    pub(crate) what: String,
    /// Who published it.
    pub(crate) source: String,
    /// When it was published or looked up, as YYYY-MM-DD.
    pub(crate) date: String,
}

#[derive(Deserialize)]
struct ProfileFile {
    profile: Vec<Profile>,
}

/// The shipped profiles. A test ensures that the file can be parsed.
pub(crate) fn profiles() -> &'static [Profile] {
    static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| {
        toml::from_str::<ProfileFile>(PROFILES)
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

/// Why a baseline cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The name has characters that are not allowed in a file name.
    #[error("`{0}` is not a valid baseline name: use letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// The name belongs to a shipped profile.
    #[error("`{0}` is the name of a shipped profile")]
    Shipped(String),
    /// There is no baseline of that name.
    #[error("there is no baseline `{name}` in {}", folder.display())]
    Nothing {
        /// The requested name.
        name: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// The folder cannot be created, or the file cannot be read or parsed.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The baseline's file, or the folder of baselines.
        path: PathBuf,
        /// The error of the operating system or the JSON parser.
        why: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] crate::WriteError),
}

impl BaselineError {
    /// The outcome that decides the exit code.
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
            Self::Nothing { .. } => Some("run `tcpxctl baseline list` to see all names".into()),
            Self::Shipped(_) => Some("choose another name".into()),
            _ => None,
        }
    }
}

/// The folder of a user's baselines, with one file for each baseline.
#[derive(Debug, Clone)]
pub struct Baselines {
    folder: PathBuf,
}

impl Baselines {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The baselines in `$XDG_CONFIG_HOME/tcpxctl/baselines`, or `~/.config/tcpxctl/baselines`.
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

    /// Saves a result under a name, replacing an older baseline of that name.
    ///
    /// # Errors
    /// The name is invalid or belongs to a profile, or the file cannot be written.
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

    /// Loads the baseline or shipped profile of a name.
    ///
    /// # Errors
    /// There is no such baseline, or its file cannot be read.
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

    /// Every readable baseline, sorted by name, followed by the shipped profiles.
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
    let file = tcpx_run_model::record::open_regular(path).map_err(|error| error.to_string())?;
    file.take(FILE_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
