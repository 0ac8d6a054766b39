//! The sources of a scenario: files, flags and variables as text, merged key by key.
//!
//! All sources share one address space, one after the other. So a span in the merged table still
//! tells its source, and an error is reported at its place in the file or `--set` flag.
//!
//! Not here: what keys there are, or what they mean (`checked`, `rules`).
#![forbid(unsafe_code)]

use super::error::{Place, ScenarioError, printable};
use super::explain;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Larger than any scenario; a larger file is refused without parsing.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Deeper than any key.
pub(super) const DEPTH_MAX: usize = 6;

/// The kind of source of a value, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The built-in default.
    Default,
    /// `$XDG_CONFIG_HOME/tcpxctl/config.toml`.
    UserConfig,
    /// The scenario file.
    Scenario,
    /// A `TCPXCTL_*` variable.
    Environment,
    /// A flag.
    Flag,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::UserConfig => "user config",
            Self::Scenario => "scenario",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// One text with keys in it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub layer: Layer,
    /// The file, flag or variable, as it is shown.
    pub name: String,
    pub text: String,
}

/// All texts of one request, each at its own address.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<(usize, Source)>);

impl Sources {
    pub(super) fn add(&mut self, source: Source) {
        let base = self
            .0
            .last()
            .map_or(0, |(base, last)| base + last.text.len() + 1);
        self.0.push((base, source));
    }

    /// Every source with its address, in the order they were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Source)> {
        self.0.iter().map(|(base, source)| (*base, source))
    }

    /// The source that `span` points into, and the span within it.
    pub(super) fn find(&self, span: &Range<usize>) -> Option<(&Source, Range<usize>)> {
        let (base, source) = self.0.iter().rev().find(|(base, _)| *base <= span.start)?;
        Some((source, span.start - base..span.end.max(span.start) - base))
    }

    pub(super) fn place(&self, span: &Range<usize>) -> Option<Place> {
        self.find(span)
            .map(|(source, span)| Place::new(&source.name, &source.text, span))
    }
}

/// A table whose spans are addresses in [`Sources`].
pub(super) type Tree<'a> = DeTable<'a>;

/// Parses a whole text that stands at `base`.
pub(super) fn parse<'a>(
    sources: &Sources,
    base: usize,
    text: &'a str,
) -> Result<Tree<'a>, ScenarioError> {
    let tree = DeTable::parse(text).map_err(|error| {
        let message = printable(error.message(), 200);
        let span = moved(&error.span().unwrap_or(0..0), base);
        ScenarioError::written(
            sources.place(&span),
            format!("not TOML: {message}"),
            String::new(),
            None,
        )
    })?;
    Ok(move_table(tree.into_inner(), base, DEPTH_MAX))
}

/// Tables whose keys say the same thing in different ways, so that the later one counts.
const VARIANTS: [(&str, &[&str]); 1] = [("plugin", &["name", "path"])];
/// Tables that are one value, such as `{ first = 2 }`: they are replaced, so that an error has the place of the later
/// one.
const VALUES: [&str; 2] = ["gpus", "nics"];

/// Lays `upper` over `lower`: tables are merged, anything else is replaced. A key that chooses
/// another variant of a table removes what only the variant below has.
pub(super) fn overlay<'a>(lower: &mut Tree<'a>, upper: Tree<'a>) {
    for (key, mut value) in upper {
        let name = key.get_ref().clone();
        if name == "plugin" && value.get_ref().as_table().is_some_and(DeTable::is_empty) {
            continue; // A header with its keys commented out chooses nothing.
        }
        if !VALUES.contains(&name.as_ref())
            && let (DeValue::Table(above), Some(DeValue::Table(below))) = (
                value.get_mut(),
                lower.get_mut(name.as_ref()).map(Spanned::get_mut),
            )
        {
            for (_, keys) in VARIANTS.iter().filter(|(table, _)| *table == name) {
                if keys.iter().any(|key| above.contains_key(*key)) {
                    keys.iter().for_each(|key| drop(below.remove(*key)));
                }
            }
            let by = above.get("by").and_then(|by| by.get_ref().as_str());
            if name == "fault"
                && let Some(by) = by
            {
                let foreign = super::fault::foreign_keys(by);
                foreign.iter().for_each(|key| drop(below.remove(*key)));
            }
            overlay(below, std::mem::take(above));
        } else {
            // The key goes too: its span belongs with the value's.
            lower.remove(name.as_ref());
            lower.insert(key, value);
        }
    }
}

fn move_table<'a>(table: Tree<'a>, base: usize, depth: usize) -> Tree<'a> {
    let entry = |(key, value): (Spanned<Cow<'a, str>>, Spanned<DeValue<'a>>)| {
        let span = moved(&key.span(), base);
        (
            Spanned::new(span, key.into_inner()),
            move_value(value, base, depth),
        )
    };
    table.into_iter().map(entry).collect()
}

/// Moves spans by `base`. Tables deeper than any key are emptied: they are refused anyway, and
/// later code then need not bound its recursion.
pub(super) fn move_value<'a>(
    value: Spanned<DeValue<'a>>,
    base: usize,
    depth: usize,
) -> Spanned<DeValue<'a>> {
    let span = moved(&value.span(), base);
    let value = match value.into_inner() {
        DeValue::Table(_) if depth == 0 => DeValue::Table(Tree::new()),
        DeValue::Array(_) if depth == 0 => DeValue::Array(DeArray::new()),
        DeValue::Table(table) => DeValue::Table(move_table(table, base, depth - 1)),
        DeValue::Array(items) => {
            let mut array = DeArray::new();
            items
                .into_iter()
                .for_each(|item| array.push(move_value(item, base, depth - 1)));
            DeValue::Array(array)
        }
        other => other,
    };
    Spanned::new(span, value)
}

fn moved(span: &Range<usize>, base: usize) -> Range<usize> {
    span.start + base..span.end + base
}

/// Reads a text file of at most [`FILE_BYTES_MAX`] bytes.
pub(super) fn read(path: &Path) -> Result<String, ScenarioError> {
    let unreadable = |source| ScenarioError::Unreadable {
        path: path.to_owned(),
        source,
        nearest: nearest_file(path),
    };
    let file = tcpx_words::input::open(path).map_err(unreadable)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(ScenarioError::Directory(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ScenarioError::TooLarge {
            path: path.to_owned(),
            limit: FILE_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        ScenarioError::NotText {
            path: path.to_owned(),
            offset,
        }
    })
}

/// Reads the user's configuration as [`read`] does; `None` if there is none.
pub(super) fn read_config(path: &Path) -> Result<Option<String>, ScenarioError> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(ScenarioError::Unreadable { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(ScenarioError::Unreadable { path, source, .. }) => {
            Err(ScenarioError::UnreadableConfig { path, source })
        }
        Err(ScenarioError::Directory(path)) => {
            let source = io::ErrorKind::IsADirectory.into();
            Err(ScenarioError::UnreadableConfig { path, source })
        }
        Err(error) => Err(error),
    }
}

fn nearest_file(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_string_lossy().into_owned();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let names = std::fs::read_dir(folder)
        .ok()?
        .take(1000)
        .flatten()
        .map(|entry| entry.file_name());
    let names = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".toml") && *name != wanted);
    let names: Vec<String> = names.collect();
    let bare = format!("{wanted}.toml");
    let nearest = names.iter().find(|name| **name == bare).cloned();
    let nearest = nearest.or_else(|| {
        explain::nearest(&wanted, names.iter().map(String::as_str)).map(str::to_owned)
    })?;
    Some(path.with_file_name(nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_the_nearest_to_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.toml");
        std::fs::write(&path, "").expect("written");
        assert_eq!(nearest_file(&path), None);
        assert_eq!(nearest_file(&folder.path().join("ine.toml")), Some(path));
    }
}
