//! Rewords errors of `toml` and `serde` in terms of scenario keys.
//!
//! Their errors have a place and a kind, but name fields, variants and `u32`. Here the place is
//! mapped to a key, and the expected value comes from the rule of that key.
#![forbid(unsafe_code)]

use super::error::{InvalidValue, Place, ScenarioError, printable};
use super::file::{Sources, Tree};
use super::identity::dotted;
use super::keys;
use super::rules;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::DeValue;

/// Places of every key and value, by dotted key.
pub(super) struct Index(BTreeMap<String, Spot>);

struct Spot {
    key: Range<usize>,
    value: Range<usize>,
}

impl Index {
    pub(super) fn from_tree(tree: &Tree<'_>) -> Self {
        let mut spots = BTreeMap::new();
        index(tree, &mut Vec::new(), &mut spots);
        Self(spots)
    }

    /// The place of a key's value.
    pub(super) fn value(&self, key: &str) -> Option<&Range<usize>> {
        self.0.get(key).map(|spot| &spot.value)
    }

    /// The place of a key's value, or of the innermost table that would hold it.
    fn closest(&self, key: &str) -> Option<&Range<usize>> {
        self.value(key).or_else(|| {
            key.rsplit_once('.')
                .and_then(|(table, _)| self.closest(table))
        })
    }

    /// The innermost key whose name or value covers `span`.
    fn key_at(&self, span: &Range<usize>) -> Option<&str> {
        let covers = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let around = self
            .0
            .iter()
            .filter(|(_, spot)| covers(&spot.key) || covers(&spot.value));
        around
            .max_by_key(|(key, _)| key.len())
            .map(|(key, _)| key.as_str())
    }
}

fn index(tree: &Tree<'_>, path: &mut Vec<String>, spots: &mut BTreeMap<String, Spot>) {
    for (key, value) in tree {
        path.push(key.get_ref().to_string());
        spots.insert(
            dotted(path),
            Spot {
                key: key.span(),
                value: value.span(),
            },
        );
        if let DeValue::Table(table) = value.get_ref() {
            index(table, path, spots);
        }
        path.pop();
    }
}

/// Words an error about a value of the wrong type or an unknown key.
pub(super) fn mistyped(error: &toml::de::Error, index: &Index, sources: &Sources) -> ScenarioError {
    let message = printable(error.message(), 1000);
    let subject = subject(&message);
    let given = error.span().unwrap_or(0..0);
    let span = subject
        .and_then(|key| index.closest(key))
        .cloned()
        .unwrap_or(given);
    let key = subject.or_else(|| index.key_at(&span)).unwrap_or_default();
    let place = sources.place(&span);
    let marked = place.as_ref().map_or("this", Place::marked).to_owned();
    let wrong = marked.trim_matches(['"', '\'']);
    let candidates = candidates(&message);
    if message.starts_with("unknown field") {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let at = if table.is_empty() {
            String::new()
        } else {
            format!(" in [{table}]")
        };
        let title = format!("unknown key `{}`{at}", printable(name, 60));
        return ScenarioError::written(place, title, String::new(), known_key(name, &candidates));
    }
    let help =
        nearest(wrong, candidates.iter().copied()).map(|word| format!("did you mean `{word}`?"));
    let (title, label) = match subject {
        Some(_) => message
            .split_once(": ")
            .map_or((message.clone(), String::new()), |(title, label)| {
                (title.to_owned(), label.to_owned())
            }),
        None => (
            // A table without brackets, `a.b.c = 1`, has the place of its name.
            match index.0.get(key).is_some_and(|spot| spot.key == span) {
                true => format!("`{key}` cannot be a table"),
                false => format!("`{key}` cannot be {marked}"),
            },
            expected(key, &message, &candidates),
        ),
    };
    ScenarioError::written(place, title, label, help)
}

/// A value outside its range.
pub(super) fn refused(refused: InvalidValue, index: &Index, sources: &Sources) -> ScenarioError {
    match index
        .closest(&refused.key)
        .and_then(|span| sources.place(span))
    {
        Some(place) => {
            // Quote the value as the file has it, which may differ from its JSON form.
            let title = match index.value(&refused.key) {
                Some(_) => format!("`{}` cannot be {}", refused.key, place.marked()),
                None => format!("`{}` is missing or wrong", refused.key),
            };
            ScenarioError::written(
                Some(place),
                title,
                format!("expected {}", refused.expected),
                None,
            )
        }
        None => ScenarioError::InvalidValue(refused),
    }
}

/// The key that a message of this crate is about: it comes first, in backquotes.
fn subject(message: &str) -> Option<&str> {
    let key = message
        .strip_prefix('`')
        .and_then(|rest| rest.split_once('`'))
        .map(|(key, _)| key);
    key.filter(|key| ["plugin", "fault"].contains(key) || key.starts_with("fault."))
}

fn expected(key: &str, message: &str, candidates: &[&str]) -> String {
    let words = || (!candidates.is_empty()).then(|| candidates.join(", "));
    let said = || {
        message
            .rsplit_once(", expected ")
            .map(|(_, said)| plainly(said))
    };
    match rule(key).map(str::to_owned).or_else(words).or_else(said) {
        Some(expected) => format!("expected {expected}"),
        None => message.to_owned(),
    }
}

/// The expected value by the rule of this key, or of a table around it.
fn rule(key: &str) -> Option<&'static str> {
    let own = rules::all()
        .find(|rule| rule.key == key && rule.is_about_type)
        .map(|rule| rule.expected);
    own.or_else(|| key.rsplit_once('.').and_then(|(table, _)| rule(table)))
}

/// Translates serde's name of a type to the terms of a TOML file.
fn plainly(said: &str) -> String {
    let is_whole = ["u8", "u16", "u32", "u64", "i64"].contains(&said);
    match said {
        _ if is_whole => "a whole number, zero or more".to_owned(),
        _ if said.starts_with("struct ") || said == "a map" => "a table".to_owned(),
        "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        _ => said.to_owned(),
    }
}

/// The valid words that a message lists: serde's after `expected`, each in backquotes, this
/// crate's after `one of`.
fn candidates(message: &str) -> Vec<&str> {
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let offered = message
            .rsplit_once(", expected ")
            .map_or("", |(_, offered)| offered);
        return offered.split('`').skip(1).step_by(2).collect();
    }
    message
        .rsplit_once("one of ")
        .map_or(Vec::new(), |(_, offered)| offered.split(", ").collect())
}

fn known_key(name: &str, here: &[&str]) -> Option<String> {
    if let Some(near) = nearest(name, here.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let known = keys::keys();
    let elsewhere = known
        .iter()
        .find(|key| key.rsplit_once('.').is_some_and(|(_, last)| last == name));
    let offer = || (!here.is_empty()).then(|| format!("the keys here are {}", here.join(", ")));
    elsewhere
        .map(|key| format!("did you mean `{key}`?"))
        .or_else(offer)
}

/// The candidate closest to `written`, if it is close enough to be a typing error.
pub fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (written.chars().count() / 3).max(1);
    let distances =
        candidates.map(|candidate| (strsim::damerau_levenshtein(written, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    (distance <= bound && written.len() <= 100).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_close_word_is_offered() {
        let words = ["connections", "chunk", "total", "recv_window"];
        let check = |written: &str, expected| {
            assert_eq!(nearest(written, words.into_iter()), expected, "{written}")
        };
        check("conections", Some("connections"));
        check("chunks", Some("chunk"));
        check("recvwindow", Some("recv_window"));
        check("size", None);
        check("", None);
        check(&"x".repeat(1_000_000), None);
    }
}
