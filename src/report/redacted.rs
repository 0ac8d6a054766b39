//! Redacting a story, so that it may leave the machine.
#![forbid(unsafe_code)]

use super::story::{Story, StoryState};
use serde_json::Value;
use tcpx_node::redact::Redactor;
use tcpx_run_model::scenario::is_shipped;
use toml::Table;

/// Keys whose values are this program's own words. They are not redacted, even on a machine
/// named `send`.
const WORDS: [&str; 9] = [
    "outcome", "severity", "side", "role", "standing", "state", "lane", "lanes", "family",
];
/// Names that this program gives to scenarios and runs.
const OWN_TITLES: [&str; 7] = [
    "adopted",
    "adopted recordings",
    "logs",
    "scenario",
    "tap",
    "tap-stall",
    "unknown",
];
/// Keys and values of scenarios: a file in which one is replaced could not be read.
const SCHEMA: &str = include_str!("../../scenarios/schema.json");
/// Keys of maps whose keys are redacted too: node names, worker names and variables.
const MAPS: [&str; 3] = ["env", "effective", "environment"];

/// Teaches the redactor every name in a story, so that a name found in one part is replaced
/// in all parts.
pub fn learn(story: &Story, redactor: &mut Redactor) {
    for node in &story.nodes {
        redactor.host(&node.host);
        redactor.host(&node.address);
    }
    for host in &story.logged_hosts {
        redactor.host(host);
    }
    if let Ok(value) = serde_json::to_value(story) {
        redactor.learn_value(&value);
    }
    // Names and secrets come first: a word that is one of these has its placeholder.
    redactor.learn_name_in_files(&story.scenario);
    for title in titles(story) {
        redactor.learn_title(title, &story.id);
    }
    let scenario = story.scenario_toml.as_deref().map(toml::from_str::<Table>);
    if let Some(Ok(scenario)) = scenario {
        learn_settings(&scenario, redactor);
    }
}

/// The names of the scenario and of the run that a user chose.
fn titles(story: &Story) -> impl Iterator<Item = &str> {
    let of_run = story
        .id
        .split_once("Z-")
        .map_or(&*story.id, |(_, name)| name);
    let is_own = move |name: &str| {
        let is_value = SCHEMA.contains(&format!("\"{name}\""));
        // A part of the name of a condition cannot be replaced.
        let mut findings = story.findings.iter();
        let is_of_condition = findings.any(|found| found.condition.contains(name));
        OWN_TITLES.contains(&name) || is_shipped(name) || is_value || is_of_condition
    };
    [&*story.scenario, of_run]
        .into_iter()
        .filter(move |name| !is_own(name))
}

/// Teaches the redactor the words in the values of a scenario, and in the names of variables. Other keys are this
/// program's own.
fn learn_settings(table: &Table, redactor: &mut Redactor) {
    for (key, value) in table {
        if key.contains(|letter: char| letter.is_ascii_uppercase()) {
            redactor.learn_words(key);
        }
        learn_setting(key, value, redactor);
    }
}

fn learn_setting(key: &str, value: &toml::Value, redactor: &mut Redactor) {
    match value {
        toml::Value::String(text) => {
            let redacted = redactor.redact_pair(key, text);
            redactor.learn_words(&redacted);
        }
        toml::Value::Array(all) => all.iter().for_each(|one| learn_setting(key, one, redactor)),
        toml::Value::Table(inner) => learn_settings(inner, redactor),
        _ => {}
    }
}

/// The story with every text redacted.
pub fn redacted(mut story: Story, redactor: &mut Redactor) -> Story {
    learn(&story, redactor);
    // The name of a variable can show that its value is a secret.
    for setting in &mut story.settings {
        let values = setting
            .effective
            .values_mut()
            .chain(setting.environment.values_mut());
        for value in values {
            let redacted = redactor.redact_pair(&setting.key, value);
            *value = redactor.known_words(&redacted);
        }
    }
    for one in &mut story.differences {
        one.values
            .iter_mut()
            .flatten()
            .for_each(|value| *value = redactor.redact_pair(&one.what, value));
    }
    let id = redactor.redact(&story.id);
    known_words(&mut story, redactor);
    // What this program found on a node has words of the kernel that no log has.
    let mut evidence = std::mem::take(&mut story.evidence);
    for text in evidence
        .iter_mut()
        .flat_map(|file| [&mut file.name, &mut file.text])
    {
        *text = redactor.redact(text);
    }
    let redacted = serde_json::to_value(&story)
        .map(|value| redact_value(value, "", redactor))
        .and_then(serde_json::from_value);
    // An empty story is safer than one that is not redacted.
    let empty = Story {
        id,
        state: StoryState::Damaged,
        ..Story::default()
    };
    Story {
        redacted: true,
        evidence,
        ..redacted.unwrap_or(empty)
    }
}

/// Replaces the words of logs that are not known, in what is quoted of them.
fn known_words(story: &mut Story, redactor: &mut Redactor) {
    let mut replace = |text: &mut String| *text = redactor.redact_foreign(text);
    // What adopted files come to quotes them.
    if story.state == StoryState::Adopted {
        let head = story.reason.iter_mut().chain(&mut story.next_step);
        head.for_each(&mut replace);
        for found in &mut story.findings {
            let facts = found.because.iter_mut().chain(&mut found.cannot_see);
            facts.chain(&mut found.next_step).for_each(&mut replace);
        }
    }
    for found in &mut story.log {
        replace(&mut found.meaning);
        found.causes.iter_mut().for_each(&mut replace);
        found.next_step.iter_mut().for_each(&mut replace);
        replace(&mut found.excerpt.text);
    }
    story
        .unknown_lines
        .iter_mut()
        .for_each(|line| replace(&mut line.text));
}

/// The value of a key, redacted.
fn redact_value(value: Value, key: &str, redactor: &mut Redactor) -> Value {
    match value {
        Value::String(word) if WORDS.contains(&key) => Value::String(word),
        Value::String(text) => Value::String(redactor.redact_pair(key, &text)),
        Value::Array(all) => Value::Array(
            all.into_iter()
                .map(|one| redact_value(one, key, redactor))
                .collect(),
        ),
        Value::Object(all) => {
            let is_map = MAPS.contains(&key);
            let entry = |(key, value): (String, Value)| {
                let value = redact_value(value, &key, redactor);
                (if is_map { redactor.redact(&key) } else { key }, value)
            };
            Value::Object(all.into_iter().map(entry).collect())
        }
        plain => plain,
    }
}
