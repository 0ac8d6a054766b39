//! A run's files to its story.
//!
//! `run.json` says how it ended, `events.jsonl` what happened meanwhile, the
//! recorders what each request did. Each is taken as far as it can be read; what
//! is absent is named with the reason and never filled in.
#![forbid(unsafe_code)]

mod evidence;
mod lines;
mod nodes;
mod record;
mod recorders;
mod series;
mod stream;

use super::questions;
use super::story::{SCHEMA, State, Story};
use crate::diagnose::{diagnose, of_files};
use serde_json::Value;
use stream::Stream;
use tcpx_run_model::record::RunFiles;
use tcpx_words::units::printable;

/// Tells a run. Never fails: a run of which nothing can be read is a story, too.
pub fn gather(files: &RunFiles) -> Story {
    let mut story = Story {
        schema: SCHEMA.to_owned(),
        tcpxctl_version: env!("CARGO_PKG_VERSION").to_owned(),
        id: files.id(),
        ..Story::default()
    };
    let record = record::read(files, &mut story);
    let stream = Stream::read(files, &mut story);
    if record.is_none() {
        // Nobody has judged it yet.
        let evidence = of_files(files).unwrap_or_default();
        story.findings = diagnose(&evidence);
        story.reason = files.unfinished().map(|unfinished| unfinished.words(evidence.now_ms));
    }
    nodes::tell(record.as_ref(), &stream, &mut story);
    series::tell(&stream, &mut story);
    let recorders = recorders::read(files, &mut story);
    series::windows(&stream, &mut story);
    recorders::tell(&recorders, &stream, &mut story);
    lines::tell(&stream, &mut story);
    evidence::tell(files, &stream, &mut story);
    story.questions = questions::of(&story);
    clean(story)
}

/// Every text fit for a terminal, Markdown and CSV: it came from a file.
fn clean(story: Story) -> Story {
    let id = printable(&story.id);
    let told = serde_json::to_value(&story).map(tidy).and_then(serde_json::from_value);
    // A story without text at all is still one.
    told.unwrap_or(Story { id, state: State::Damaged, ..Story::default() })
}

fn tidy(value: Value) -> Value {
    let lines = |text: &str| text.lines().map(printable).collect::<Vec<_>>().join("\n");
    match value {
        Value::String(text) => Value::String(lines(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(tidy).collect()),
        Value::Object(all) => Value::Object(all.into_iter().map(|(key, value)| (lines(&key), tidy(value))).collect()),
        plain => plain,
    }
}
