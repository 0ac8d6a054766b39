//! The story as JSON, with schema `tcpxctl.report/2`.
#![forbid(unsafe_code)]

use super::Story;

/// The story as one JSON document. NaN and infinite numbers become `null`.
///
/// # Errors
/// The story cannot be serialized. No story that `gather` returns causes this.
pub(crate) fn json(story: &Story) -> serde_json::Result<String> {
    serde_json::to_string_pretty(story).map(|text| text + "\n")
}
