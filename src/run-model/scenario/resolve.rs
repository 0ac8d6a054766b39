//! Resolves files, variables and flags to checked scenarios.
//!
//! A flag beats what `--env-file` and `--forward-env` import, which beats a `TCPXCTL_*` variable,
//! which beats the scenario, which beats the user's config, which beats the default; tables are
//! merged key by key.
//! Three variables are read: `TCPXCTL_SET="transfer.connections=8,limits.total=2m"`
//! has the effect of that many `--set` flags, `TCPXCTL_PLUGIN` names the plugin (a path if it
//! contains a slash), and `TCPXCTL_ABI` is the version of its table.
#![forbid(unsafe_code)]

use super::checked::Scenario;
use super::error::{ScenarioError, printable};
use super::explain::{self, Index};
use super::file::{self, Layer, Source, Sources, Tree};
use super::imported::Imported;
use super::setting;
use super::shipped;
use super::sweep;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::folders::user_config;
use toml::Spanned;
use toml::de::DeValue;

/// Environment variable with the version of the plugin's table, for every command.
pub(super) const ABI_VARIABLE: &str = "TCPXCTL_ABI";

/// All sources of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The scenario file; without it, the defaults are used.
    pub scenario: Option<PathBuf>,
    /// The user's config, read if it exists.
    pub user_config: Option<PathBuf>,
    /// The value of `TCPXCTL_SET`.
    pub variable_set: Option<String>,
    /// The value of `TCPXCTL_PLUGIN`.
    pub variable_plugin: Option<String>,
    /// The value of `TCPXCTL_ABI`.
    pub variable_abi: Option<AbiVersion>,
    /// Settings of a script and of forwarded variables; they beat the files and the variables
    /// above, and flags beat them.
    pub imported: Imported,
    /// Flags: the flag as typed, and the `key=value` it is short for.
    pub flags: Vec<(String, String)>,
}

impl Inputs {
    /// Inputs from the environment; `variable` is usually [`std::env::var_os`].
    ///
    /// # Errors
    /// A variable that is not UTF-8, or names no version.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ScenarioError> {
        let text = |name: &'static str| match variable(name).map(OsString::into_string) {
            Some(Ok(text)) if !text.is_empty() => Ok(Some(text)),
            Some(Err(_)) => Err(ScenarioError::VariableNotText(name)),
            _ => Ok(None),
        };
        let version = |text: String| {
            text.parse().map_err(|error| ScenarioError::Variable {
                name: ABI_VARIABLE,
                value: printable(&text, 60),
                error,
            })
        };
        Ok(Self {
            scenario: None,
            user_config: user_config(&variable).map(|folder| folder.join("config.toml")),
            variable_set: text("TCPXCTL_SET")?,
            variable_plugin: text("TCPXCTL_PLUGIN")?,
            variable_abi: text(ABI_VARIABLE)?.map(version).transpose()?,
            imported: Imported::default(),
            flags: Vec::new(),
        })
    }

    /// Adds `--set KEY=VALUE`.
    pub fn set(&mut self, key_value: impl Into<String>) {
        self.flags.push(("--set".to_owned(), key_value.into()));
    }
}

/// One scenario to run: a whole file, or one point of its sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What to run.
    pub scenario: Scenario,
    /// Which point of the sweep it is, such as `connections=4 chunk=512KiB`;
    /// empty where nothing is swept.
    pub point: String,
    origins: BTreeMap<String, Origin>,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Kind of source.
    pub layer: Layer,
    /// The file and line, the flag or the variable; empty for a default.
    pub at: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.at.is_empty() {
            "default"
        } else {
            &self.at
        })
    }
}

impl Resolved {
    /// Every key with its value as JSON text and where it came from, sorted.
    pub fn listing(&self) -> impl Iterator<Item = (String, String, Origin)> {
        self.scenario.leaves().into_iter().map(|(key, value)| {
            let origin = self.origin(&key);
            (key, value, origin)
        })
    }

    /// Where the value of `key` came from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin {
            layer: Layer::Default,
            at: String::new(),
        })
    }
}

/// Reads, merges, expands and checks.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn resolve(inputs: &Inputs) -> Result<Vec<Resolved>, ScenarioError> {
    let mut sources = files(inputs)?;
    add_settings(inputs, &mut sources);
    merge(&sources)
}

/// As [`resolve`], for sources that have been read.
pub(super) fn merge(sources: &Sources) -> Result<Vec<Resolved>, ScenarioError> {
    let mut merged = Tree::new();
    for (base, source) in sources.iter() {
        let tree = match source.layer {
            Layer::Default | Layer::UserConfig | Layer::Scenario => {
                file::parse(sources, base, &source.text)?
            }
            Layer::Environment | Layer::Flag => setting::parse(sources, base, source)?,
        };
        if source.layer == Layer::UserConfig {
            refuse_name(&tree, sources)?;
        }
        file::overlay(&mut merged, tree);
        if source.layer == Layer::Scenario {
            require_name(&merged, base, source, sources)?;
        }
    }
    refuse_lists_of_tables(&merged, sources)?;
    sweep::expand(merged, sources)?
        .map(|(point, tree)| check(point, tree, sources))
        .collect()
}

fn files(inputs: &Inputs) -> Result<Sources, ScenarioError> {
    let mut sources = Sources::default();
    let shown = |path: &Path| printable(&path.to_string_lossy(), 200);
    if let Some(path) = &inputs.user_config
        && let Some(text) = file::read_config(path)?
    {
        sources.add(Source {
            layer: Layer::UserConfig,
            name: shown(path),
            text,
        });
    }
    if let Some(path) = &inputs.scenario {
        sources.add(Source {
            layer: Layer::Scenario,
            name: shown(path),
            text: match shipped::text(path) {
                Some(text) => text.to_owned(),
                None => file::read(path)?,
            },
        });
    }
    Ok(sources)
}

/// Adds variables and flags, which override the files.
pub(super) fn add_settings(inputs: &Inputs, sources: &mut Sources) {
    if let Some(plugin) = &inputs.variable_plugin {
        let key = if plugin.contains('/') { "path" } else { "name" };
        let text = format!("plugin.{key}={plugin}");
        sources.add(Source {
            layer: Layer::Environment,
            name: "TCPXCTL_PLUGIN".to_owned(),
            text,
        });
    }
    if let Some(version) = inputs.variable_abi {
        let text = format!("plugin.abi={version}");
        sources.add(Source {
            layer: Layer::Environment,
            name: ABI_VARIABLE.to_owned(),
            text,
        });
    }
    for setting in setting::split(inputs.variable_set.as_deref().unwrap_or_default()) {
        let name = "TCPXCTL_SET".to_owned();
        sources.add(Source {
            layer: Layer::Environment,
            name,
            text: setting.to_owned(),
        });
    }
    for (flag, setting) in inputs.imported.settings.iter().chain(&inputs.flags) {
        sources.add(Source {
            layer: Layer::Flag,
            name: flag.clone(),
            text: setting.clone(),
        });
    }
}

fn check(point: String, tree: Tree<'_>, sources: &Sources) -> Result<Resolved, ScenarioError> {
    let index = Index::from_tree(&tree);
    let reader = toml::de::Deserializer::from(Spanned::new(0..0, tree));
    let scenario = Scenario::deserialize(reader)
        .map_err(|error| explain::mistyped(&error, &index, sources))?;
    if let Some(refused) = scenario.refused() {
        return Err(explain::refused(refused, &index, sources));
    }
    let leaves = scenario.leaves().into_keys();
    let origins =
        leaves.filter_map(|key| Some((key.clone(), origin(index.value(&key)?, sources)?)));
    let origins = origins.collect();
    Ok(Resolved {
        scenario,
        point,
        origins,
    })
}

fn origin(span: &std::ops::Range<usize>, sources: &Sources) -> Option<Origin> {
    let (source, _) = sources.find(span)?;
    let at = match source.layer {
        Layer::UserConfig | Layer::Scenario => {
            let place = sources.place(span)?;
            format!("{}:{}", place.source, place.line)
        }
        _ => source.name.clone(),
    };
    Some(Origin {
        layer: source.layer,
        at,
    })
}

fn refuse_name(config: &Tree<'_>, sources: &Sources) -> Result<(), ScenarioError> {
    let Some((key, _)) = config.get_key_value("name") else {
        return Ok(());
    };
    let title = "`name` belongs in a scenario, not in the user's config".to_owned();
    Err(ScenarioError::written(
        sources.place(&key.span()),
        title,
        String::new(),
        None,
    ))
}

fn require_name(
    merged: &Tree<'_>,
    base: usize,
    source: &Source,
    sources: &Sources,
) -> Result<(), ScenarioError> {
    if merged.contains_key("name") {
        return Ok(());
    }
    let is_empty = source
        .text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let title = if is_empty {
        "the scenario is empty"
    } else {
        "the scenario has no `name`"
    };
    let help =
        "begin with a line such as name = \"my-run\"; scenarios/4conn.toml shows the usual keys";
    Err(ScenarioError::written(
        sources.place(&(base..base)),
        title.to_owned(),
        String::new(),
        Some(help.to_owned()),
    ))
}

/// Refuses a list in place of a table, which derived readers would accept as its fields in order.
fn refuse_lists_of_tables(merged: &Tree<'_>, sources: &Sources) -> Result<(), ScenarioError> {
    let list = merged
        .iter()
        .find(|(key, value)| key.get_ref() != "requires" && value.get_ref().is_array());
    let Some((key, value)) = list.filter(|(_, value)| matches!(value.get_ref(), DeValue::Array(_)))
    else {
        return Ok(());
    };
    let title = format!("`{}` cannot be a list", printable(key.get_ref(), 60));
    Err(ScenarioError::written(
        sources.place(&value.span()),
        title,
        String::new(),
        None,
    ))
}
