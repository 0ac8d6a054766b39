//! A story that may leave the machine.
#![forbid(unsafe_code)]

use super::story::{State, Story};
use crate::redact::Redactor;

/// The story with every text redacted: what one part of it gives away, no other
/// part keeps.
pub fn redacted(story: Story, redactor: &mut Redactor) -> Story {
    for node in &story.nodes {
        redactor.host(&node.host);
        redactor.host(&node.address);
    }
    let id = redactor.redact(&story.id);
    let told = serde_json::to_value(&story).and_then(|value| {
        redactor.learn_value(&value);
        serde_json::from_value(redactor.redact_value(value))
    });
    // Nothing at all, before something that names somebody.
    let nothing = Story { id, state: State::Damaged, ..Story::default() };
    Story { redacted: true, ..told.unwrap_or(nothing) }
}
