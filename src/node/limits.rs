//! Resource limits of this process, which a worker inherits.
#![forbid(unsafe_code)]

use crate::{Fact, Root};
use serde::{Deserialize, Serialize};

const FILE: &str = "/proc/self/limits";
/// `/proc/PID/limits` pads a limit's name to this many columns.
const NAME_COLUMNS: usize = 26;

/// A limit. In JSON the number, or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bound {
    /// At most this many of the unit of the limit.
    AtMost(u64),
    /// No limit.
    Unlimited(Unlimited),
}

/// The word `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlimited {
    /// `unlimited`, as in `/proc/self/limits`.
    Unlimited,
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The limit in force.
    pub soft: Bound,
    /// The highest value that the process may set without privileges.
    pub hard: Bound,
}

/// The limits that a transfer can hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Open descriptors: sockets of all comms, and files.
    pub open_files: Fact<Limit>,
    /// Bytes that may be pinned.
    pub locked_memory_bytes: Fact<Limit>,
    /// Processes and threads of this user.
    pub processes: Fact<Limit>,
    /// Bytes of address space.
    pub address_space_bytes: Fact<Limit>,
}

impl Limits {
    /// Reads `/proc/self/limits`.
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.text(FILE);
        let limit = |name: &str| text.as_ref().and_then(|text| find(text, name));
        Self {
            open_files: limit("Max open files"),
            locked_memory_bytes: limit("Max locked memory"),
            processes: limit("Max processes"),
            address_space_bytes: limit("Max address space"),
        }
    }
}

fn find(text: &str, name: &str) -> Fact<Limit> {
    let line = text.lines().find(|line| {
        line.get(..NAME_COLUMNS)
            .is_some_and(|column| column.trim_end() == name)
    });
    let mut words = line
        .and_then(|line| line.get(NAME_COLUMNS..))
        .unwrap_or_default()
        .split_whitespace();
    let mut limit = || {
        Some(Limit {
            soft: bound(words.next()?)?,
            hard: bound(words.next()?)?,
        })
    };
    limit()
        .ok_or_else(|| format!("{FILE}: no `{name}` line"))
        .into()
}

fn bound(word: &str) -> Option<Bound> {
    match word {
        "unlimited" => Some(Bound::Unlimited(Unlimited::Unlimited)),
        number => number.parse().ok().map(Bound::AtMost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_agrees_with_getrlimit() {
        let limits = Limits::read(&Root::live());
        let asked = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let expected = asked
            .current
            .map_or(Bound::Unlimited(Unlimited::Unlimited), Bound::AtMost);
        assert_eq!(
            limits.open_files.known().map(|limit| limit.soft),
            Some(expected)
        );
    }

    #[test]
    fn unlimited_is_a_word_and_malformed_lines_are_unknown() {
        let line =
            "Max locked memory         8388608              unlimited            bytes     \n";
        let limit = find(line, "Max locked memory");
        assert_eq!(
            serde_json::to_string(&limit).unwrap(),
            r#"{"soft":8388608,"hard":"unlimited"}"#
        );
        for text in [
            "",
            "Max locked memory",
            "Max locked memory         lots  more",
            "Mäx løcked memory  ÿÿÿÿÿÿÿÿÿÿ 1 2",
        ] {
            assert!(find(text, "Max locked memory").known().is_none(), "{text}");
        }
    }
}
