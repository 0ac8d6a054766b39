//! What the two ends must agree on before the first byte.
//!
//! Both ends send their configuration, compare, and name the first key that differs: tcpxctl and
//! the pair before the scenario, the scenario before the plugin, the plugin before its settings,
//! since an earlier difference usually explains the later ones. The caller leaves settings out of
//! `settings` that may differ between two nodes, such as interface names.
//!
//! A value whose key looks like a secret is never sent or shown: it is replaced by a MAC, which
//! still shows a difference.
#![forbid(unsafe_code)]

use super::error::printable;
use super::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

const VALUE_CHARS_MAX: usize = 120;
const SECRET_WORDS: [&str; 10] = [
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
    "key",
    "cookie",
];

/// One end's view of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `tcpxctl --version`.
    pub tcpxctl_version: String,
    /// Name of the pair, chosen by the caller. All pairs of a run share one secret, so the name
    /// keeps a sender from connecting to the receiver of another pair.
    pub pair: String,
    /// SHA-256 of the resolved scenario, in hexadecimal.
    pub scenario_sha256: String,
    /// The resolved scenario, key by key (`transfer.chunk`), so that a difference has a name.
    pub scenario: BTreeMap<String, String>,
    /// Name in the plugin's table.
    pub plugin_name: String,
    /// Version from the plugin's log; empty if the plugin logs none.
    pub plugin_version: String,
    /// SHA-256 of the plugin file, in hexadecimal, or `builtin`.
    pub plugin_sha256: String,
    /// The plugin's effective settings that both ends must share.
    pub settings: BTreeMap<String, String>,
}

/// The first key on which two configurations disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The scenario key or variable: `transfer.chunk`, `NCCL_NSOCKS_PERTHREAD`.
    pub key: String,
    /// This end's value, without control characters.
    pub here: String,
    /// The peer's value, without control characters.
    pub there: String,
    /// How many more keys differ.
    pub others: usize,
}

impl Config {
    /// A copy with a placeholder for every value that looks like a secret.
    pub(super) fn without_secrets(&self, secret: &Secret) -> Self {
        let hide = |map: &BTreeMap<String, String>| {
            let hidden = |key: &String, value: &String| {
                if looks_secret(key) {
                    secret.placeholder(key, value)
                } else {
                    value.clone()
                }
            };
            map.iter()
                .map(|(key, value)| (key.clone(), hidden(key, value)))
                .collect()
        };
        Self {
            scenario: hide(&self.scenario),
            settings: hide(&self.settings),
            ..self.clone()
        }
    }

    /// The first key that differs, or `None`.
    pub fn difference(&self, theirs: &Self) -> Option<Difference> {
        let (here, there) = (self.terms(), theirs.terms());
        let keys: std::collections::BTreeSet<_> = here.keys().chain(there.keys()).collect();
        let mut differing = keys
            .into_iter()
            .filter(|key| here.get(key) != there.get(key));
        let first = differing.next()?;
        Some(Difference {
            key: printable(first.1, VALUE_CHARS_MAX),
            here: shown(first.1, here.get(first)),
            there: shown(first.1, there.get(first)),
            others: differing.count(),
        })
    }

    /// Everything that is compared, by rank and key.
    fn terms(&self) -> BTreeMap<(u8, &str), &str> {
        let single = [
            ((0, "tcpxctl version"), self.tcpxctl_version.as_str()),
            ((1, "pair"), &self.pair),
            ((3, "scenario sha256"), &self.scenario_sha256),
            ((4, "plugin name"), &self.plugin_name),
            ((5, "plugin version"), &self.plugin_version),
            ((6, "plugin sha256"), &self.plugin_sha256),
        ];
        let ranked = |rank, map| {
            BTreeMap::iter(map).map(move |(k, v): (&String, &String)| ((rank, &**k), &**v))
        };
        single
            .into_iter()
            .chain(ranked(2, &self.scenario))
            .chain(ranked(7, &self.settings))
            .collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {} here and {} there",
            self.key, self.here, self.there
        )?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str(", and 1 more key differs"),
            others => write!(f, ", and {others} more keys differ"),
        }
    }
}

fn shown(key: &str, value: Option<&&str>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(_) if looks_secret(key) => "(hidden)".to_owned(),
        Some(value) => format!("`{}`", printable(value, VALUE_CHARS_MAX)),
    }
}

fn looks_secret(key: &str) -> bool {
    let mut words = key.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        SECRET_WORDS
            .iter()
            .any(|secret| word.eq_ignore_ascii_case(secret))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(scenario: &[(&str, &str)], settings: &[(&str, &str)]) -> Config {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        Config {
            scenario: map(scenario),
            settings: map(settings),
            ..Config::default()
        }
    }

    fn said(here: &Config, there: &Config) -> String {
        here.difference(there)
            .map(|difference| difference.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn the_first_differing_key_is_named_with_both_values() {
        let here = config(
            &[("transfer.chunk", "512KiB"), ("transfer.total", "64MiB")],
            &[],
        );
        let there = config(
            &[("transfer.chunk", "1MiB"), ("transfer.total", "32MiB")],
            &[],
        );
        assert_eq!(
            said(&here, &there),
            "transfer.chunk is `512KiB` here and `1MiB` there, and 1 more key differs"
        );
        assert_eq!(said(&here, &here), "");
    }

    #[test]
    fn a_key_on_one_side_only_is_a_difference() {
        let (here, there) = (
            config(&[], &[("NCCL_NSOCKS_PERTHREAD", "4")]),
            config(&[], &[]),
        );
        assert_eq!(
            said(&here, &there),
            "NCCL_NSOCKS_PERTHREAD is `4` here and not set there"
        );
    }

    #[test]
    fn the_scenario_is_named_before_its_hash_and_the_plugin_before_its_settings() {
        let mut here = config(&[("name", "a")], &[("X", "1")]);
        let mut there = config(&[("name", "b")], &[("X", "2")]);
        here.scenario_sha256 = "00".to_owned();
        here.plugin_version = "3.1.9".to_owned();
        assert!(said(&here, &there).starts_with("name is"));
        there.scenario = here.scenario.clone();
        assert!(said(&here, &there).starts_with("scenario sha256 is"));
        there.scenario_sha256 = here.scenario_sha256.clone();
        assert!(said(&here, &there).starts_with("plugin version is `3.1.9` here and `` there"));
    }

    #[test]
    fn values_of_secret_looking_keys_are_neither_sent_nor_shown() {
        let secret = Secret::of_test(7);
        for key in [
            "API_TOKEN",
            "env.my-secret",
            "AWS_SECRET_ACCESS_KEY",
            "db.Password",
        ] {
            let here = config(&[(key, "hunter2")], &[(key, "hunter2")]).without_secrets(&secret);
            let same = config(&[(key, "hunter2")], &[(key, "hunter2")]).without_secrets(&secret);
            let there = config(&[(key, "hunter3")], &[(key, "hunter2")]).without_secrets(&secret);
            assert_eq!(here, same, "equal values stay equal");
            assert!(!format!("{here:?}").contains("hunter"));
            assert_eq!(
                said(&here, &there),
                format!("{key} is (hidden) here and (hidden) there")
            );
        }
        for key in [
            "transfer.chunk",
            "NCCL_KEYED",
            "tokens_per_s",
            "env.NCCL_SOCKET_NTHREADS",
        ] {
            assert!(!looks_secret(key), "{key}");
        }
    }

    #[test]
    fn control_characters_from_the_peer_are_replaced() {
        let (here, there) = (
            config(&[("name", "a")], &[]),
            config(&[("name", "\x1b[2J\u{202e}evil\r\n")], &[]),
        );
        assert_eq!(
            said(&here, &there),
            "name is `a` here and `?[2J?evil??` there"
        );
        let there = config(&[("name", &"b".repeat(9000))], &[]);
        assert!(said(&here, &there).len() < 300);
    }

    proptest! {
        #[test]
        fn configurations_are_equal_exactly_when_nothing_differs(
            a in proptest::collection::btree_map("[ab]{0,2}", "[ab]{0,2}", 0..3),
            b in proptest::collection::btree_map("[ab]{0,2}", "[ab]{0,2}", 0..3),
            swap in any::<bool>(),
        ) {
            let one = Config { scenario: a.clone(), settings: b.clone(), ..Config::default() };
            let two = if swap { Config { scenario: b, settings: a, ..Config::default() } } else { one.clone() };
            prop_assert_eq!(one == two, one.difference(&two).is_none());
        }
    }
}
