//! The story itself: `tcpxctl.report/2`.
#![forbid(unsafe_code)]

use super::Story;

/// As one JSON document.
///
/// # Errors
/// None that a story can have; numbers that are none become `null`.
pub fn json(story: &Story) -> serde_json::Result<String> {
    serde_json::to_string_pretty(story).map(|text| text + "\n")
}
