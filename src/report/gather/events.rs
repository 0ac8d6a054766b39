//! Reads `events.jsonl` in one pass, however long it is, and keeps the run's state and as many
//! samples of each worker as a chart needs.
#![forbid(unsafe_code)]

use crate::story::{Story, StoryState};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use tcpx_run_model::event::SampleLine;
use tcpx_run_model::ids::WorkerId;
use tcpx_run_model::record::{RunFiles, Thinned};
use tcpx_run_model::state::RunState;
use tcpx_words::side::Side;

/// The contents of the event stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The run's state after the last event.
    pub(crate) state: RunState,
    /// The samples of each worker, oldest first.
    pub(crate) samples: BTreeMap<WorkerId, Vec<SampleLine<Counters>>>,
}

/// The counters of a channel that charts use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Counters {
    pub(crate) side: Side,
    pub(crate) index: usize,
    pub(crate) device: i64,
    pub(crate) posted: u64,
    pub(crate) done: u64,
    pub(crate) consumed: u64,
    pub(crate) bytes: u64,
}

impl Events {
    pub(super) fn read(files: &RunFiles, story: &mut Story) -> Self {
        let mut events = Self {
            state: files.begun(),
            samples: BTreeMap::new(),
        };
        match files.skim(&mut events.state) {
            Ok((thinned, unreadable)) => {
                events.samples = samples(&thinned);
                if unreadable > 0 {
                    story.damaged(
                        "some events",
                        format!("{unreadable} lines of events.jsonl cannot be read"),
                    );
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                story.lacks("events over time", format!("events.jsonl: {error}"));
            }
            Err(error) => story.damaged(
                "the end of the event stream",
                format!("events.jsonl: {error}"),
            ),
        }
        if story.state == StoryState::OtherVersion {
            story.lacks(
                "part of the event stream",
                "events that only its newer version defines are skipped",
            );
        }
        events
    }
}

fn samples(thinned: &Thinned) -> BTreeMap<WorkerId, Vec<SampleLine<Counters>>> {
    let mut all: BTreeMap<WorkerId, Vec<SampleLine<Counters>>> = BTreeMap::new();
    for samples in thinned.samples.values() {
        for line in samples
            .lines()
            .filter_map(|(_, line)| SampleLine::parse(line))
        {
            all.entry(line.worker).or_default().push(line);
        }
    }
    for samples in all.values_mut() {
        samples.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    }
    all
}
