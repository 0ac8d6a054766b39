//! A story that may leave the machine.
#![forbid(unsafe_code)]

use super::story::{State, Story};
use serde_json::Value;
use tcpx_node::redact::Redactor;

/// Keys whose values are words of this program's own: a machine may be called `send`.
const WORDS: [&str; 8] = [
    "outcome", "severity", "side", "role", "state", "lane", "lanes", "family",
];
/// Keys whose values are by names of somebody else's.
const MAPS: [&str; 3] = ["env", "effective", "environment"];

/// From now on knows the names in a story: what one part of it gives away, no other
/// part keeps.
pub fn learn(story: &Story, redactor: &mut Redactor) {
    for node in &story.nodes {
        redactor.host(&node.host);
        redactor.host(&node.address);
    }
    if let Ok(value) = serde_json::to_value(story) {
        redactor.learn_value(&value);
    }
}

/// The story with every text redacted.
pub fn redacted(mut story: Story, redactor: &mut Redactor) -> Story {
    learn(&story, redactor);
    // What a variable is called says that its value is a secret.
    for setting in &mut story.settings {
        let values = setting
            .effective
            .values_mut()
            .chain(setting.environment.values_mut());
        values.for_each(|value| *value = redactor.redact_pair(&setting.key, value));
    }
    for one in &mut story.differences {
        one.values
            .iter_mut()
            .flatten()
            .for_each(|value| *value = redactor.redact_pair(&one.what, value));
    }
    let id = redactor.redact(&story.id);
    let told = serde_json::to_value(&story)
        .map(|value| told(value, "", redactor))
        .and_then(serde_json::from_value);
    // Nothing at all, before something that names somebody.
    let nothing = Story {
        id,
        state: State::Damaged,
        ..Story::default()
    };
    Story {
        redacted: true,
        ..told.unwrap_or(nothing)
    }
}

/// The value of a key without what may not leave.
fn told(value: Value, key: &str, redactor: &mut Redactor) -> Value {
    match value {
        Value::String(word) if WORDS.contains(&key) => Value::String(word),
        Value::String(text) => Value::String(redactor.redact_pair(key, &text)),
        Value::Array(all) => Value::Array(
            all.into_iter()
                .map(|one| told(one, key, redactor))
                .collect(),
        ),
        Value::Object(all) => {
            let is_map = MAPS.contains(&key);
            let of = |(key, value): (String, Value)| {
                let value = told(value, &key, redactor);
                (if is_map { redactor.redact(&key) } else { key }, value)
            };
            Value::Object(all.into_iter().map(of).collect())
        }
        plain => plain,
    }
}
