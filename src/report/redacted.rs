//! A story that may leave the machine.
#![forbid(unsafe_code)]

use super::story::{State, Story};
use tcpx_node::redact::Redactor;

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
pub fn redacted(story: Story, redactor: &mut Redactor) -> Story {
    learn(&story, redactor);
    let id = redactor.redact(&story.id);
    let told = serde_json::to_value(&story).and_then(|value| serde_json::from_value(redactor.redact_value(value)));
    // Nothing at all, before something that names somebody.
    let nothing = Story { id, state: State::Damaged, ..Story::default() };
    Story { redacted: true, ..told.unwrap_or(nothing) }
}
