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
    let (mut depth, mut quotes) = (0usize, Quotes::default());
    let parts = list.split(move |c: char| {
        if quotes.hold(c) {
            return false;
        }
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Follows the quotes of a text, as TOML has them.
#[derive(Default)]
struct Quotes {
    open: Option<char>,
    is_escaped: bool,
}

impl Quotes {
    /// Whether the next character is quoted, or is a quote.
    fn hold(&mut self, next: char) -> bool {
        let was_escaped = std::mem::take(&mut self.is_escaped);
        match (self.open, next) {
            (Some(_), _) if was_escaped => {}
            (Some('"'), '\\') => self.is_escaped = true,
            (Some(open), _) if open == next => self.open = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => self.open = Some(next),
            (None, _) => return false,
        }
        true
    }
}

/// Splits at the first `=` that is not quoted.
fn key_and_value(text: &str) -> Option<(&str, &str)> {
    let mut quotes = Quotes::default();
    text.split_once(|c: char| !quotes.hold(c) && c == '=')
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
    let (key, value) = key_and_value(text).ok_or_else(|| wrong("no `=`", FORM))?;
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
    if key.contains(['\n', '\r']) {
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
    use super::*;

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
        check(
            r#"a="\\",b="\",",c='\',d=1"#,
            &[r#"a="\\""#, r#"b="\",""#, r"c='\'", "d=1"],
        );
    }

    #[test]
    fn an_equals_sign_within_a_quoted_key_belongs_to_it() {
        let check = |text: &str, expected| assert_eq!(key_and_value(text), expected, "{text}");
        check("a.b=c=d", Some(("a.b", "c=d")));
        check(r#"env.node."a=b".C=1"#, Some((r#"env.node."a=b".C"#, "1")));
        check(r#"env."a\"=b"=1"#, Some((r#"env."a\"=b""#, "1")));
        check(r#"a."b=1"#, None);
    }

    #[test]
    fn a_key_is_whole_or_refused() {
        let parts = |key: &str| {
            let path = key_path(key)?;
            Some(
                path.into_iter()
                    .map(|(name, _)| name)
                    .collect::<Vec<_>>()
                    .join("|"),
            )
        };
        assert_eq!(
            parts(r#"env.node."a=#b".C"#).as_deref(),
            Some("env|node|a=#b|C")
        );
        for bad in ["", "a#b", "a\nb", "a b", "a."] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
    }
}
