//! What the two ends must agree on before the first byte.
//!
//! Both ends send their configuration, compare, and name every key that differs: tcpxctl and
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
/// Once the list of differing keys is this long, the rest are counted.
const LISTED_BYTES_MAX: usize = 1000;
/// Rank and name of the scenario's hash.
const SCENARIO_SHA256: (u8, &str) = (3, "scenario sha256");
/// The key of [`Config::pair`] in a difference.
pub const PAIR: &str = "pair";
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

/// A key on which two configurations disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The scenario key or variable: `transfer.chunk`, `NCCL_NSOCKS_PERTHREAD`.
    pub key: String,
    /// This end's value, without control characters.
    pub here: String,
    /// The peer's value, without control characters.
    pub there: String,
}

/// Every key on which two configurations disagree; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences(pub Vec<Difference>);

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

    /// The keys that differ, or `None`.
    pub fn differences(&self, theirs: &Self) -> Option<Differences> {
        let (here, there) = (self.terms(), theirs.terms());
        let keys: std::collections::BTreeSet<_> = here.keys().chain(there.keys()).collect();
        // The hash of the scenario differs wherever one of its keys does.
        let is_hash_told = self.scenario != theirs.scenario;
        let differing = keys.into_iter().filter(|key| {
            here.get(key) != there.get(key) && !(is_hash_told && **key == SCENARIO_SHA256)
        });
        let differing: Vec<_> = differing
            .map(|key| Difference {
                key: printable(key.1, VALUE_CHARS_MAX),
                here: shown(key.1, here.get(key)),
                there: shown(key.1, there.get(key)),
            })
            .collect();
        (!differing.is_empty()).then_some(Differences(differing))
    }

    /// Everything that is compared, by rank and key.
    fn terms(&self) -> BTreeMap<(u8, &str), &str> {
        let single = [
            ((0, "tcpxctl version"), self.tcpxctl_version.as_str()),
            ((1, PAIR), &self.pair),
            (SCENARIO_SHA256, &self.scenario_sha256),
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
        )
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut rest = self.0.iter();
        while text.len() < LISTED_BYTES_MAX
            && let Some(difference) = rest.next()
        {
            let comma = if text.is_empty() { "" } else { ", " };
            text += &format!("{comma}{difference}");
        }
        f.write_str(&text)?;
        match rest.count() {
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
        here.differences(there)
            .map(|differences| differences.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn every_differing_key_is_named_with_both_values() {
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
            "transfer.chunk is `512KiB` here and `1MiB` there, transfer.total is `64MiB` here and `32MiB` there"
        );
        assert_eq!(said(&here, &here), "");
    }

    #[test]
    fn a_list_of_differing_keys_has_a_bound() {
        let keys: Vec<String> = (0..100).map(|number| format!("A_{number:03}")).collect();
        let all: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
        let told = said(&config(&[], &all), &config(&[], &[]));
        assert!(told.len() < 1200 && told.starts_with("A_000 is"), "{told}");
        let listed = told.matches(" here and ").count();
        let rest = format!(", and {} more keys differ", 100 - listed);
        assert!(listed > 20 && told.ends_with(&rest), "{told}");
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
            prop_assert_eq!(one == two, one.differences(&two).is_none());
        }
    }
}
