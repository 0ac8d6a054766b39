//! Paths to facts in a document: names separated by dots, `*` for each element of a list
//! or object.
//!
//! `view.rails.*.mtu` is the MTU of every rail; each value comes with the name of its
//! rail. Where the document has `{ "unknown": why }` (see [`crate::Fact`]) the path ends,
//! and everything below it is unknown for the same reason.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::str::FromStr;

/// Most names in a path; no document is as deep.
const PARTS_MAX: usize = 16;
/// Most elements that one path finds.
const FOUND_MAX: usize = 4096;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPath(Vec<String>);

/// One value that a path leads to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FactAtPath<'a> {
    /// Names of the elements that each `*` stood for: `eth1`, or `eth1 rx`. Empty without a
    /// `*`.
    pub element: String,
    /// The value, or why it is unknown.
    pub value: Result<&'a Value, String>,
}

/// The text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path to a fact such as view.rails.*.mtu")]
pub struct BadPath(String);

impl FromStr for FactPath {
    type Err = BadPath;
    fn from_str(text: &str) -> Result<Self, BadPath> {
        let is_name = |part: &str| {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            part == "*" || (!part.is_empty() && part.chars().all(plain))
        };
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        let valid = parts.len() <= PARTS_MAX && parts.iter().all(|part| is_name(part));
        if valid {
            Ok(Self(parts))
        } else {
            Err(BadPath(text.chars().take(80).collect()))
        }
    }
}

impl FactPath {
    /// All values that the path leads to in `document`, in the document's order.
    pub(crate) fn find<'a>(&self, document: &'a Value) -> Vec<FactAtPath<'a>> {
        let mut found = Vec::new();
        follow(document, &self.0, String::new(), &mut found);
        found
    }

    /// Whether the value is a number of bytes, by the name of the fact.
    pub(crate) fn is_in_bytes(&self) -> bool {
        self.0.iter().any(|part| part.ends_with("_bytes"))
    }
}

impl std::fmt::Display for FactPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Adds the facts at `parts` below `value` to `found`; `element` names the way there.
fn follow<'a>(
    value: &'a Value,
    parts: &[String],
    element: String,
    found: &mut Vec<FactAtPath<'a>>,
) {
    if found.len() >= FOUND_MAX {
        return;
    }
    if let Some(why) = unknown(value) {
        let value = Err(why);
        return found.push(FactAtPath { element, value });
    }
    let Some((part, rest)) = parts.split_first() else {
        let value = Ok(value);
        return found.push(FactAtPath { element, value });
    };
    match (part.as_str(), value) {
        ("*", Value::Array(all)) => {
            for (index, one) in all.iter().enumerate() {
                let name = one
                    .get("name")
                    .and_then(Value::as_str)
                    .map_or(index.to_string(), str::to_owned);
                follow(one, rest, join(&element, &name), found);
            }
        }
        ("*", Value::Object(all)) => {
            for (name, one) in all {
                follow(one, rest, join(&element, name), found);
            }
        }
        (name, Value::Object(all)) if all.contains_key(name) => {
            follow(&all[name], rest, element, found)
        }
        (name, _) => {
            let value = Err(format!("no fact `{name}`"));
            found.push(FactAtPath { element, value });
        }
    }
}

/// The reason, if `value` is an unknown fact.
fn unknown(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("unknown".to_owned()),
        Value::Object(all) if all.len() == 1 => Some(all.get("unknown")?.as_str()?.to_owned()),
        _ => None,
    }
}

fn join(element: &str, name: &str) -> String {
    if element.is_empty() {
        name.to_owned()
    } else {
        format!("{element} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(document: &Value, path: &str, expected: &[(&str, Result<Value, &str>)]) {
        let path: FactPath = path.parse().unwrap();
        let found = path.find(document);
        let found: Vec<_> = found
            .iter()
            .map(|seen| {
                (
                    seen.element.as_str(),
                    seen.value
                        .as_ref()
                        .map(|value| (*value).clone())
                        .map_err(String::as_str),
                )
            })
            .collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn a_path_leads_to_each_element_by_its_name() {
        let document = json!({
            "mtu": 9000,
            "rails": [{ "name": "eth1", "mtu": 8244 }, { "name": "eth2", "mtu": { "unknown": "no file" } }, { "mtu": 1 }],
            "none": { "unknown": "not asked" },
            "empty": [],
        });
        check(&document, "mtu", &[("", Ok(json!(9000)))]);
        check(
            &document,
            "rails.*.mtu",
            &[
                ("eth1", Ok(json!(8244))),
                ("eth2", Err("no file")),
                ("2", Ok(json!(1))),
            ],
        );
        check(&document, "none.*.mtu", &[("", Err("not asked"))]);
        check(&document, "empty.*.mtu", &[]);
        check(&document, "mtu.x", &[("", Err("no fact `x`"))]);
        check(&document, "nothing", &[("", Err("no fact `nothing`"))]);
    }

    #[test]
    fn an_invalid_path_is_rejected() {
        for text in ["", ".", "a.", "a b", "a.*x", "ä", &"a.".repeat(40)] {
            assert!(text.parse::<FactPath>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_path_through_any_document_is_bounded(text in "[a-z*.]{1,24}", json in "\\PC{0,60}") {
            let document = serde_json::from_str(&json).unwrap_or(Value::String(json));
            if let Ok(path) = text.parse::<FactPath>() {
                prop_assert!(path.find(&document).len() <= FOUND_MAX);
                prop_assert_eq!(path.to_string(), text);
            }
        }
    }
}
