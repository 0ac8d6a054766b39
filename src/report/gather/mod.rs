//! A run's files to its story.
//!
//! `run.json` says how it ended, `events.jsonl` what happened meanwhile, the
//! recorders what each request did. Each is taken as far as it can be read; what
//! is absent is named with the reason and never filled in.
//!
//! Not here: folding events. A story is a projection of the run's state, its record
//! and the samples that `record` keeps of a long stream.
#![forbid(unsafe_code)]

mod events;
mod evidence;
mod lines;
mod nodes;
mod record;
mod recorders;
mod series;

use super::questions;
use super::story::{SCHEMA, State, Story};
use events::Events;
use serde_json::Value;
use tcpx_diagnose::{diagnose, of_files};
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
    let mut events = Events::read(files, &mut story);
    if let Some(record) = &record {
        record::introduce(record, &mut events.state.names);
    }
    // What this program cannot read it does not judge.
    if record.is_none() && story.state != State::OtherVersion {
        story.findings = of_files(files)
            .map(|evidence| diagnose(&evidence))
            .unwrap_or_default();
        story.reason = files
            .unfinished()
            .map(|unfinished| unfinished.words(events.state.now_ms));
    }
    nodes::tell(record.as_ref(), &events.state, &mut story);
    record::transfers(record.as_ref(), &events.state.names, &mut story);
    series::tell(&events, &mut story);
    let recorders = recorders::read(files, &events.state.names, &mut story);
    series::windows(&events.state, &mut story);
    recorders::tell(&recorders, &mut story);
    lines::tell(&events.state, &mut story);
    evidence::tell(files, &events.state, &mut story);
    story.questions = questions::of(&story);
    clean(story)
}

/// Every text fit for a terminal, Markdown and CSV: it came from a file.
fn clean(story: Story) -> Story {
    let id = printable(&story.id);
    let told = serde_json::to_value(&story)
        .map(tidy)
        .and_then(serde_json::from_value);
    // A story without text at all is still one.
    told.unwrap_or(Story {
        id,
        state: State::Damaged,
        ..Story::default()
    })
}

fn tidy(value: Value) -> Value {
    let lines = |text: &str| text.lines().map(printable).collect::<Vec<_>>().join("\n");
    match value {
        Value::String(text) => Value::String(lines(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(tidy).collect()),
        Value::Object(all) => Value::Object(
            all.into_iter()
                .map(|(key, value)| (lines(&key), tidy(value)))
                .collect(),
        ),
        plain => plain,
    }
}
