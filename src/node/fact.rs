//! A fact, or the reason why it is unknown. A fact is never a guess: a value that the machine
//! does not report stays unknown, with the file and the error.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value read from the machine, or why it is unknown. In JSON the value itself, or
/// `{ "unknown": "why" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// The value as the machine reports it.
    Known(T),
    /// The value does not exist, cannot be read, or does not apply.
    Unknown {
        /// The reason, with the file if there is one.
        unknown: String,
    },
}

impl<T> Fact<T> {
    /// An unknown with its reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown {
            unknown: why.into(),
        }
    }

    /// The value, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// The reason, if there is no value.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Unknown { unknown } => Some(unknown),
        }
    }

    /// A fact derived from this one; the reason carries over.
    pub fn map<U>(self, derive: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(derive(value)))
    }

    /// As [`Fact::map`], where the derivation can itself fail.
    pub(crate) fn and_then<U>(self, derive: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => derive(value),
            Self::Unknown { unknown } => Fact::Unknown { unknown },
        }
    }

    /// A fact that borrows the value. The reason is cloned.
    pub(crate) fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Known(value) => Fact::Known(value),
            Self::Unknown { unknown } => Fact::unknown(unknown.clone()),
        }
    }
}

impl<T> From<Result<T, String>> for Fact<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(unknown) => Self::Unknown { unknown },
        }
    }
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => value.fmt(f),
            Self::Unknown { .. } => f.pad("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_fact_serializes_as_its_value_and_an_unknown_one_as_its_reason() {
        let facts = [Fact::Known(8244), Fact::unknown("no such file")];
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(json, r#"[8244,{"unknown":"no such file"}]"#);
        assert_eq!(
            serde_json::from_str::<Vec<Fact<u32>>>(&json).unwrap(),
            facts
        );
        assert_eq!(format!("{} {:>8}", facts[0], facts[1]), "8244  unknown");
    }
}
