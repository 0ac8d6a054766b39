//! A story in each format, cleared to leave the machine. The renderers are private to this
//! crate, so nothing of a story leaves it another way.
#![forbid(unsafe_code)]

use super::{Language, Story, csv, html, json, junit, markdown, prometheus, redacted, short};
use std::borrow::Cow;
use tcpx_node::redact::{Cleared, Outlet};

/// What to render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One HTML file with charts.
    Html,
    /// Markdown, to paste.
    Markdown,
    /// At most sixty lines of Markdown.
    Short,
    /// Everything as one JSON document.
    Json,
    /// The counters over time.
    Csv,
    /// The run's gates as JUnit XML.
    Junit,
    /// Prometheus text format.
    Prometheus,
}

/// Renders a story. `for_google` puts the questions for Google first. A story that is not
/// redacted yet is redacted if the outlet redacts.
pub fn render(
    story: &Story,
    format: Format,
    for_google: bool,
    language: Language,
    outlet: &mut Outlet,
) -> Cleared {
    let story = match outlet.redactor() {
        Some(redactor) if !story.redacted => Cow::Owned(redacted(story.clone(), redactor)),
        _ => Cow::Borrowed(story),
    };
    let text = match format {
        Format::Html => html(&story, for_google, language),
        Format::Markdown => markdown(&story, for_google, language),
        Format::Short => short(&story, language),
        // Every type in a story can be written as JSON.
        Format::Json => return outlet.rendered_json(json(&story).unwrap_or_default()),
        Format::Csv => csv(&story),
        Format::Junit => junit(&story),
        Format::Prometheus => prometheus(&story),
    };
    outlet.rendered(text)
}
