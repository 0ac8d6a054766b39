//! Gathers a run's files into its story.
//!
//! `run.json` has the result, `events.jsonl` the course of the run, the recorders the history
//! of each request. Each file is used as far as it can be read. Missing data is listed with the
//! reason and never guessed.
//!
//! Not here: folding events. A story is a projection of the run's state, its record and the
//! samples that `record` keeps of a long stream.
#![forbid(unsafe_code)]

mod events;
mod evidence;
mod lines;
mod mesh;
mod nodes;
mod programs;
mod record;
mod recorders;
mod series;

pub(super) use lines::{catalogue, harness};

use super::questions;
use super::story::{RUN_FILES, SCHEMA, Story, StoryState};
use events::Events;
use serde_json::Value;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::record::RunFiles;
use tcpx_words::units::printable;

/// Judges a run by its files; without findings if they cannot be read.
pub type Judge = fn(&RunFiles) -> Vec<Finding>;

/// Gathers the story of a run. This never fails: from a run folder without any readable file
/// comes a story that lists everything as missing. `judge` is asked if there is no record.
pub fn gather(files: &RunFiles, judge: Judge) -> Story {
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
    if let Some(record) = &record {
        let lost = record::lost(files, record, events.state.now_ms);
        lost.iter().for_each(|what| story.lacks(RUN_FILES, what));
    }
    // A record of an unknown version is not diagnosed: its events may mean something else.
    if record.is_none() && story.state != StoryState::OtherVersion {
        story.findings = judge(files);
        story.reason = files
            .unfinished()
            .map(|unfinished| unfinished.words(events.state.now_ms));
    }
    nodes::add_nodes(record.as_ref(), &events.state, &mut story);
    nodes::add_processes(&events.state, &mut story);
    // Of logs alone, the first event tells when they were adopted.
    if story.state == StoryState::Adopted && !story.processes.is_empty() {
        story.started = events.state.began_ns.and_then(shown_at);
    }
    record::add_transfers(record.as_ref(), &events.state.names, &mut story);
    mesh::add_mesh(record.as_ref(), &mut story);
    series::add_series(&events, &mut story);
    let recorders = recorders::read(files, &events.state, &mut story);
    series::add_windows(&events.state, &mut story);
    recorders::add_requests(&recorders, &mut story);
    lines::add_log(files, &events.state, &mut story);
    evidence::add_evidence(files, &events.state, &mut story);
    story.questions = questions::questions_for(&story);
    clean(story)
}

/// A time in nanoseconds since 1970, as RFC 3339.
fn shown_at(ns: u64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(ns.into()).ok()?;
    (ns > 0).then(|| format!("{time:.0}"))
}

/// Removes control and escape characters from every text, because all of it came from files.
fn clean(story: Story) -> Story {
    let id = printable(&story.id);
    let cleaned = serde_json::to_value(&story)
        .map(clean_value)
        .and_then(serde_json::from_value);
    cleaned.unwrap_or(Story {
        id,
        state: StoryState::Damaged,
        ..Story::default()
    })
}

fn clean_value(value: Value) -> Value {
    let lines = |text: &str| text.lines().map(printable).collect::<Vec<_>>().join("\n");
    match value {
        Value::String(text) => Value::String(lines(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(clean_value).collect()),
        Value::Object(all) => Value::Object(
            all.into_iter()
                .map(|(key, value)| (lines(&key), clean_value(value)))
                .collect(),
        ),
        plain => plain,
    }
}
