//! Counter samples in `events.jsonl`: nearly every line of a long stream is one.
//!
//! The first bytes of a line tell whether it is a sample, so a reader can skip it unparsed.
//! The reader also chooses what is parsed of each channel.
#![forbid(unsafe_code)]

use super::{Event, EventKind, v1};
use crate::counters::ChannelNow;
use crate::ids::{NodeId, PairId, Unit, WorkerId};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The key that tells the kind of a line is within this many first bytes.
const HEAD: usize = 256;

/// Whether a line of `events.jsonl`, of any version, holds counters.
pub fn is_sample(line: &[u8]) -> bool {
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""sample":["#));
    KEY.find(&line[..line.len().min(HEAD)]).is_some()
}

/// Counters of one worker at one moment. `C` is the type each channel is parsed into.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLine<C> {
    /// Milliseconds since the command started.
    pub ms: f64,
    /// The worker that owns the channels.
    pub worker: WorkerId,
    /// Counters of every channel.
    pub channels: Vec<C>,
}

#[derive(Deserialize)]
struct SampleFields<'a, C> {
    #[serde(borrow)]
    at: Cow<'a, str>,
    ms: f64,
    #[serde(borrow)]
    node: NodeField<'a>,
    #[serde(default)]
    pair: Option<PairId>,
    #[serde(default)]
    pid: Option<u32>,
    #[serde(default)]
    recorder_number: u32,
    /// Version 1: the number of the pair.
    #[serde(default)]
    gpu: Option<u32>,
    #[serde(default)]
    node_us: Option<u64>,
    sample: Option<Vec<C>>,
    /// Version 1.
    said: Option<V1Message<C>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NodeField<'a> {
    Id(NodeId),
    #[serde(borrow)]
    Name(Cow<'a, str>),
}

#[derive(Deserialize)]
struct V1Message<C> {
    sample: Vec<C>,
}

impl<C> SampleFields<'_, C> {
    fn worker(&self) -> Option<WorkerId> {
        let (node, pair) = match &self.node {
            NodeField::Id(node) => (*node, self.pair),
            NodeField::Name(name) => (v1::node_of(name)?, Some(PairId(self.gpu.unwrap_or(0)))),
        };
        let unit = match (pair, self.pid) {
            (Some(pair), _) => Unit::Pair(pair),
            (None, Some(pid)) => Unit::Process {
                pid,
                recorder: self.recorder_number,
            },
            (None, None) => return None,
        };
        Some(WorkerId { node, unit })
    }
}

impl<C: DeserializeOwned> SampleLine<C> {
    /// Reads one sample line, of this version or version 1.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut line: SampleFields<'_, C> = serde_json::from_slice(line).ok()?;
        let worker = line.worker()?;
        let channels = line.sample.take().or_else(|| Some(line.said?.sample))?;
        line.ms.is_finite().then_some(Self {
            ms: line.ms,
            worker,
            channels,
        })
    }
}

/// Reads a sample line as an event. The derived reader of [`Event`] would buffer and read every
/// value twice, because of its flattened field.
pub(super) fn parse(line: &[u8]) -> Option<Event> {
    let mut line: SampleFields<'_, ChannelNow> = serde_json::from_slice(line).ok()?;
    let worker = line.worker()?;
    let channels = line
        .sample
        .take()
        .or_else(|| Some(line.said.take()?.sample))?;
    let (pair, pid, recorder_number) = match worker.unit {
        Unit::Pair(pair) => (Some(pair), None, 0),
        Unit::Process { pid, recorder } => (None, Some(pid), recorder),
    };
    Some(Event {
        at: line.at.into_owned(),
        ms: line.ms,
        node: Some(worker.node),
        pair,
        pid,
        recorder_number,
        node_us: line.node_us,
        kind: EventKind::Sample(channels),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Who;
    use serde::de::IgnoredAny;

    #[test]
    fn both_readers_read_the_same_counters() {
        let channel = ChannelNow {
            posted: 7,
            ..ChannelNow::default()
        };
        for unit in [
            Unit::Pair(PairId(3)),
            Unit::Process {
                pid: 9,
                recorder: 1,
            },
        ] {
            let worker = WorkerId {
                node: NodeId(2),
                unit,
            };
            let event = Event::new(
                1.5,
                Who::Worker(worker),
                EventKind::Sample(vec![channel.clone()]),
            );
            let line = serde_json::to_vec(&Event {
                node_us: Some(8),
                ..event.clone()
            })
            .expect("JSON");
            assert!(is_sample(&line));
            assert_eq!(parse(&line), serde_json::from_slice(&line).ok());
            let read = SampleLine::parse(&line).expect("counters");
            assert_eq!(
                read,
                SampleLine {
                    ms: 1.5,
                    worker,
                    channels: vec![channel.clone()]
                }
            );
        }
    }

    #[test]
    fn counters_of_version_1_belong_to_the_worker_that_the_line_names() {
        let line = br#"{"at":"x","ms":2,"node":"peer","gpu":3,"said":{"sample":[{},{}]}}"#;
        let read = SampleLine::<IgnoredAny>::parse(line).expect("counters");
        assert_eq!(
            (read.worker, read.channels.len()),
            (WorkerId::of_pair(NodeId(1), PairId(3)), 2)
        );
        for none in [
            r#"{"at":"x","ms":2,"node":"peer","said":"recovered"}"#,
            r#"{"at":"x","ms":2,"node":0,"sample":[]}"#,
        ] {
            assert_eq!(
                SampleLine::<IgnoredAny>::parse(none.as_bytes()).map(|read| read.worker),
                None,
                "{none}"
            );
        }
    }
}
