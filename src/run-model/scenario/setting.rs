//! `key=value`, as in `--set transfer.connections=8`.
//!
//! The key is dotted as in TOML. The value is read as TOML, or as plain text if it is not valid
//! TOML, so that `transfer.chunk=1MiB` needs no quotes.
#![forbid(unsafe_code)]

use super::error::ScenarioError;
use super::file::{DEPTH_MAX, Source, Sources, Tree, move_value};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The settings of a comma-separated list; a comma within brackets, braces or
/// quotes belongs to a value.
pub(super) fn split(list: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quote) = (0usize, None);
    let parts = list.split(move |c: char| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => return c == ',' && depth == 0,
        }
        false
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// A table that holds the one key.
pub(super) fn parse<'a>(
    sources: &Sources,
    base: usize,
    source: &'a Source,
) -> Result<Tree<'a>, ScenarioError> {
    let text = source.text.as_str();
    let whole = base..base + text.len();
    let wrong = |title: &str, help: &str| {
        let title = format!("{}: {title}", source.name);
        ScenarioError::written(
            sources.place(&whole),
            title,
            String::new(),
            Some(help.to_owned()),
        )
    };
    const FORM: &str = "write it as KEY=VALUE, such as transfer.connections=8";
    let (key, value) = text.split_once('=').ok_or_else(|| wrong("no `=`", FORM))?;
    let path = key_path(key).ok_or_else(|| wrong("not a key", FORM))?;
    let value_base = base + key.len() + 1;
    let value = match DeValue::parse(value.trim_ascii_start()) {
        Ok(parsed) => move_value(
            parsed,
            value_base + value.len() - value.trim_ascii_start().len(),
            DEPTH_MAX,
        ),
        Err(_) => Spanned::new(
            value_base..base + text.len(),
            DeValue::String(Cow::Borrowed(value.trim())),
        ),
    };
    Ok(nest(path, base, value))
}

/// The parts of a dotted key with their places.
fn key_path(key: &str) -> Option<Vec<(String, Range<usize>)>> {
    // On one line, so that what follows cannot be a second key.
    if key.contains(['\n', '\r', '#', '=']) {
        return None;
    }
    let line = format!("{key}=0");
    let parsed = DeTable::parse(&line).ok()?;
    let mut path = Vec::new();
    let mut table = parsed.get_ref();
    loop {
        let (key, value) = table.iter().next()?;
        path.push((key.get_ref().to_string(), key.span()));
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

fn nest<'a>(
    path: Vec<(String, Range<usize>)>,
    base: usize,
    value: Spanned<DeValue<'a>>,
) -> Tree<'a> {
    let mut tree = Tree::new();
    let mut below = Some(value);
    for (name, span) in path.into_iter().rev() {
        let span = base + span.start..base + span.end;
        let value = below.take().unwrap_or_else(|| {
            Spanned::new(span.clone(), DeValue::Table(std::mem::take(&mut tree)))
        });
        tree.insert(Spanned::new(span, Cow::Owned(name)), value);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_comma_within_a_value_does_not_split() {
        let check = |list: &str, expected: &[&str]| {
            assert_eq!(split(list).collect::<Vec<_>>(), expected, "{list}")
        };
        check("", &[]);
        check("a=1", &["a=1"]);
        check(
            "transfer.connections=8, limits.total=2m,",
            &["transfer.connections=8", "limits.total=2m"],
        );
        check(
            "a=[1,2],b={ c=1, d=2 },e=\"x,y\",f='],['",
            &["a=[1,2]", "b={ c=1, d=2 }", "e=\"x,y\"", "f='],['"],
        );
        check("a=]],b=1", &["a=]]", "b=1"]);
    }
}
