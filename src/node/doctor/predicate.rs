//! Conditions on a fact: everything that `must` in `probes/node/*.toml` can say.
//!
//! A condition that needs more is first computed as a fact, in Rust, where it has a name
//! and a test.
#![forbid(unsafe_code)]

use serde::Deserialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

/// One condition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Must {
    /// Equal to this value.
    Equals(Value),
    /// Equal to one of these values.
    OneOf(Vec<Value>),
    /// A number, at least this large, or the word `unlimited`.
    AtLeast(f64),
    /// A number, at most this large.
    AtMost(f64),
    /// A list with at least this many elements.
    CountAtLeast(usize),
    /// A list with at most this many elements.
    CountAtMost(usize),
    /// A dotted version, at least this one. Text after the numbers is ignored.
    VersionAtLeast(String),
    /// A list that has this element, or a text that contains it.
    Contains(String),
    /// Known, whatever the value. An unknown fact fails the check, with its reason as value.
    Known(bool),
    /// An empty (true) or non-empty (false) list, object or text.
    Empty(bool),
    /// Equal on both nodes (true), or different (false).
    Same(bool),
}

impl Must {
    /// Whether a known value meets the condition. `there` is the peer's value.
    pub(crate) fn holds(&self, value: &Value, there: Option<&Value>) -> bool {
        match self {
            Self::Equals(wanted) => value == wanted,
            Self::OneOf(all) => all.contains(value),
            Self::AtLeast(least) => {
                value == "unlimited" || value.as_f64().is_some_and(|number| number >= *least)
            }
            Self::AtMost(most) => value.as_f64().is_some_and(|number| number <= *most),
            Self::CountAtLeast(least) => value.as_array().is_some_and(|all| all.len() >= *least),
            Self::CountAtMost(most) => value.as_array().is_some_and(|all| all.len() <= *most),
            Self::VersionAtLeast(least) => {
                let order = value
                    .as_str()
                    .and_then(|version| compare_versions(version, least));
                order.is_some_and(Ordering::is_ge)
            }
            Self::Contains(part) => match value {
                Value::Array(all) => all.iter().any(|element| element == part),
                Value::String(text) => text.contains(part),
                _ => false,
            },
            Self::Known(_) => true,
            Self::Empty(wanted) => is_empty(value) == Some(*wanted),
            Self::Same(wanted) => there.is_some_and(|there| (value == there) == *wanted),
        }
    }

    /// Whether the condition compares two nodes.
    pub(crate) fn is_about_both(&self) -> bool {
        matches!(self, Self::Same(_))
    }

    /// Whether an unknown fact fails the check rather than leaving it UNKNOWN.
    pub(crate) fn fails_unknown(&self) -> bool {
        matches!(self, Self::Known(_))
    }
}

fn is_empty(value: &Value) -> Option<bool> {
    match value {
        Value::Array(all) => Some(all.is_empty()),
        Value::String(text) => Some(text.is_empty()),
        Value::Object(all) => Some(all.is_empty()),
        _ => None,
    }
}

/// Compares dotted versions number by number. Text after the numbers, such as the `+` of
/// `6.6.93+`, is ignored; `None` if either text does not start with a number.
pub(super) fn compare_versions(one: &str, other: &str) -> Option<Ordering> {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let dotted: String = text
            .chars()
            .take_while(|letter| letter.is_ascii_digit() || *letter == '.')
            .collect();
        dotted
            .trim_end_matches('.')
            .split('.')
            .map(|part| part.parse().ok())
            .collect()
    };
    Some(numbers(one)?.cmp(&numbers(other)?))
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(Value::Bool(true)) => f.write_str("yes"),
            Self::Equals(Value::Bool(false)) => f.write_str("no"),
            Self::Equals(wanted) => f.write_str(&plain(wanted)),
            Self::OneOf(all) => write!(
                f,
                "one of {}",
                all.iter().map(plain).collect::<Vec<_>>().join(", ")
            ),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::CountAtLeast(least) => write!(f, "at least {least}"),
            Self::CountAtMost(most) => write!(f, "at most {most}"),
            Self::VersionAtLeast(least) => write!(f, "{least} or newer"),
            Self::Contains(part) => f.write_str(part),
            Self::Known(_) => f.write_str("known"),
            Self::Empty(true) => f.write_str("none"),
            Self::Empty(false) => f.write_str("some"),
            Self::Same(true) => f.write_str("the same on both nodes"),
            Self::Same(false) => f.write_str("not the same on both nodes"),
        }
    }
}

/// A value in words: `yes`, `none`, `eth1, eth2`.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        // The name identifies an object that has one.
        Value::Object(all) if all.get("name").is_some_and(Value::is_string) => plain(&all["name"]),
        Value::Object(all) => {
            let pairs = all
                .iter()
                .map(|(name, value)| format!("{name} {}", plain(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(must: &str, value: Value, expected: bool) {
        let must: Must = toml::from_str::<toml::Table>(&format!("must = {{ {must} }}"))
            .map(|mut table| table.remove("must").unwrap().try_into().unwrap())
            .unwrap();
        assert_eq!(must.holds(&value, None), expected, "{must:?} of {value}");
    }

    #[test]
    fn each_condition_holds_for_the_values_it_names() {
        check("equals = true", json!(true), true);
        check("equals = 1", json!(true), false);
        check("one-of = ['gve', 'x']", json!("gve"), true);
        check("at-least = 8244", json!(8244), true);
        check("at-least = 8244", json!(8243), false);
        check("at-least = 1", json!("unlimited"), true);
        check("at-least = 1", json!("9"), false);
        check("at-most = 4", json!(4), true);
        check("version-at-least = '5.15'", json!("6.6.93+"), true);
        check("version-at-least = '5.15'", json!("5.4.0-1097-gcp"), false);
        check("version-at-least = '535'", json!("535.129.03"), true);
        check("version-at-least = '535'", json!("unknown"), false);
        check("contains = 'v7'", json!(["v6", "v7"]), true);
        check("contains = 'v7'", json!(["v70"]), false);
        check("known = true", json!(0), true);
        check("empty = true", json!([]), true);
        check("empty = false", json!([]), false);
        check("empty = true", json!(0), false);
    }

    #[test]
    fn same_needs_the_value_of_the_peer() {
        assert!(Must::Same(true).holds(&json!(1), Some(&json!(1))));
        assert!(!Must::Same(true).holds(&json!(1), None));
        assert!(Must::Same(false).holds(&json!(1), Some(&json!(2))));
    }
}
