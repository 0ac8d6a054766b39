//! What holds of any text that claims to be a scenario or a list of hosts:
//! targets under `fuzz/` look for a counterexample, the suite tries their seeds.
//!
//! Absent from a normal build.
#![forbid(unsafe_code)]

use super::file::{Layer, Source, Sources};
use super::hosts::{self, HOSTS_MAX, Host};
use super::resolve::{Inputs, Resolved, add_settings, merge};
use super::{Scenario, ScenarioError};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tcpx_words::error::Outcome;

/// More than any one mistake takes to explain.
const SAID_BYTES_MAX: usize = 4000;
/// Points of a sweep that are looked at.
const POINTS_SEEN: usize = 3;

/// Texts with a zero byte between them: the scenario file, the user's config,
/// `TCPXCTL_SET`, `TCPXCTL_PLUGIN`, and any number of `--set` flags. What begins
/// with a brace is read as a scenario that was shipped, too.
pub fn texts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if text.starts_with('{') {
        match Scenario::from_json(&text) {
            Ok(scenario) => is_the_same_everywhere(&scenario),
            Err(error) => is_explained(&error),
        }
    }
    match merge(&sources(&text)) {
        Ok(points) => {
            points
                .iter()
                .take(POINTS_SEEN)
                .chain(points.last())
                .for_each(is_sound);
            assert!(!points.is_empty());
        }
        Err(error) => is_explained(&error),
    }
}

fn sources(text: &str) -> Sources {
    let mut parts = text.split('\0');
    let mut sources = Sources::default();
    let mut part = || {
        parts
            .next()
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
    };
    let (scenario, config) = (part(), part());
    let mut inputs = Inputs {
        variable_set: part(),
        variable_plugin: part(),
        ..Inputs::default()
    };
    parts.for_each(|flag| inputs.set(flag));
    for (layer, name, text) in [
        (Layer::UserConfig, "config.toml", config),
        (Layer::Scenario, "scenario.toml", scenario),
    ] {
        text.into_iter().for_each(|text| {
            sources.add(Source {
                layer,
                name: name.to_owned(),
                text,
            })
        });
    }
    add_settings(&inputs, &mut sources);
    sources
}

fn is_sound(point: &Resolved) {
    assert!(is_shown(&point.point));
    assert!(
        point
            .listing()
            .all(|(_, _, origin)| is_shown(&origin.to_string()))
    );
    is_the_same_everywhere(&point.scenario);
}

/// Shipped as JSON, or written out key by key, it is the same scenario.
fn is_the_same_everywhere(scenario: &Scenario) {
    scenario.check().expect("what was accepted is sound");
    let json = serde_json::to_string(scenario).expect("serialises");
    assert_eq!(&Scenario::from_json(&json).expect("reads back"), scenario);
    let mut inputs = Inputs::default();
    scenario
        .leaves()
        .into_iter()
        .for_each(|(key, value)| inputs.set(format!("{key}={value}")));
    let mut sources = Sources::default();
    add_settings(&inputs, &mut sources);
    let written = merge(&sources)
        .map_err(|error| error.render(false))
        .expect("reads back");
    assert_eq!(&written[0].scenario, scenario);
    assert_eq!(written[0].scenario.hash(), scenario.hash());
}

fn is_explained(error: &ScenarioError) {
    let said = error.render(false);
    assert!(
        said.starts_with("error: ") && said.len() < SAID_BYTES_MAX,
        "{said}"
    );
    assert!(said.lines().all(is_shown), "{said:?}");
    assert_eq!(error.outcome(), Outcome::Usage);
}

fn is_shown(line: &str) -> bool {
    !line.chars().any(char::is_control)
}

/// A list of hosts.
pub fn hosts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match hosts::parse(&text) {
        Ok(hosts) => {
            assert!(hosts.len() <= HOSTS_MAX);
            assert_eq!(
                hosts
                    .iter()
                    .map(|host| &host.name)
                    .collect::<BTreeSet<_>>()
                    .len(),
                hosts.len()
            );
            let written: Vec<String> = hosts.iter().map(line).collect();
            assert_eq!(hosts::parse(&written.join("\n")).as_ref(), Ok(&hosts));
        }
        Err((line, problem)) => {
            assert!((1..=text.lines().count()).contains(&line));
            assert!(
                is_shown(&problem) && problem.len() < SAID_BYTES_MAX,
                "{problem:?}"
            );
        }
    }
}

/// The host as one line of a list. What goes to ssh must not look like an option.
fn line(host: &Host) -> String {
    let mut line = host.host.clone();
    // An address is no name that could be given, but stands in for one.
    if host.name != host.host {
        line += &format!(" name={}", host.name);
    }
    host.user
        .iter()
        .for_each(|user| line += &format!(" user={user}"));
    host.port
        .iter()
        .for_each(|port| line += &format!(" port={port}"));
    host.key
        .iter()
        .for_each(|key| line += &format!(" key={}", key.display()));
    assert!(is_shown(&line), "{line:?}");
    let key = host.key.iter().map(|key| key.to_string_lossy());
    let words = [&host.host, &host.name]
        .into_iter()
        .chain(&host.user)
        .map(|word| word.as_str().into());
    assert!(
        words
            .chain(key)
            .all(|word: Cow<'_, str>| !word.starts_with('-')),
        "{line:?}"
    );
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_targets_hold() {
        seeds::read("scenario", "")
            .iter()
            .for_each(|seed| texts(seed));
        seeds::read("hosts", "").iter().for_each(|seed| hosts(seed));
    }

    #[test]
    fn a_valid_seed_is_a_scenario() {
        for seed in seeds::read("scenario", "valid") {
            let text = String::from_utf8(seed).expect("text");
            let read = if text.starts_with('{') {
                Scenario::from_json(&text).map(drop)
            } else {
                merge(&sources(&text)).map(drop)
            };
            assert!(read.is_ok(), "{text}: {}", read.unwrap_err().render(false));
        }
    }

    proptest! {
        #[test]
        fn any_list_of_hosts_holds(
            text in "(([a-c]@)?([a-c]|10\\.0\\.[01]\\.[0-9]{1,3}|fd00::[0-9a-f])( (name|user|key|port|slots)=[a-c0-9/-]{0,5}){0,3}( ?#.{0,5})?\r?\n){0,6}"
        ) {
            hosts(text.as_bytes());
        }
    }
}
