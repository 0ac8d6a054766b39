//! `events.jsonl` in one pass, however long it is.
//!
//! Nearly all of it is samples, of which a report needs a few hundred: `thin` keeps
//! those, and only they are parsed.
#![forbid(unsafe_code)]

use crate::coord::event::{Event, What};
use crate::coord::message::FromAgent;
use crate::report::story::{State, Story};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use tcpx_run_model::record::{ChannelNow, RunFiles, Samples, Thinned, thin};

/// Events that are no samples.
const EVENTS_MAX: usize = 200_000;

/// What the event stream says.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Samples by node, oldest first.
    pub samples: BTreeMap<String, Vec<Sampled>>,
    /// All that is no sample, in order.
    pub events: Vec<Event>,
    /// When a stall was declared that did not end, or else the last one.
    pub stall: Option<Stall>,
    /// The last sample of each node before that moment, or before the end.
    pub windows: BTreeMap<String, (f64, Vec<ChannelNow>)>,
}

/// A stall as it was declared.
#[derive(Debug, Clone)]
pub(super) struct Stall {
    /// Milliseconds since the command started.
    pub ms: f64,
    /// Channels moved again.
    pub recovered: bool,
}

/// Counters of a node at one moment.
#[derive(Debug)]
pub(super) struct Sampled {
    pub ms: f64,
    pub channels: Vec<Counters>,
}

/// As much of a [`ChannelNow`] as a chart needs.
#[derive(Debug, Deserialize)]
pub(super) struct Counters {
    pub side: String,
    pub index: usize,
    #[serde(default)]
    pub device: i64,
    #[serde(default)]
    pub posted: u64,
    #[serde(default)]
    pub done: u64,
    #[serde(default)]
    pub consumed: u64,
    #[serde(default)]
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    ms: f64,
    #[serde(borrow)]
    node: Cow<'a, str>,
    #[serde(default)]
    gpu: Option<u32>,
    said: Said,
}

#[derive(Deserialize)]
struct Said {
    sample: Vec<Counters>,
}

fn sampled(line: &[u8]) -> Option<Sampled> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    line.ms.is_finite().then_some(Sampled { ms: line.ms, channels: line.said.sample })
}

/// `peer`, or `peer gpu 3`.
pub(super) fn end_name(event: &Event) -> String {
    event.gpu.map_or_else(|| event.node.clone(), |gpu| format!("{} gpu {gpu}", event.node))
}

impl Stream {
    pub(super) fn read(files: &RunFiles, story: &mut Story) -> Self {
        let mut stream = Self::default();
        let file = match files.file("events.jsonl") {
            Ok(file) => file,
            Err(error) => {
                story.lacks("what happened over time", format!("events.jsonl: {error}"));
                return stream;
            }
        };
        let mut unreadable = 0;
        let read = stream.lines(BufReader::with_capacity(1 << 20, file), &mut unreadable);
        if let Err(error) = read {
            story.state = State::Damaged;
            story.lacks("the end of the event stream", format!("events.jsonl: {error}"));
        }
        if unreadable > 0 {
            story.state = State::Damaged;
            story.lacks("some events", format!("{unreadable} lines of events.jsonl cannot be read"));
        }
        stream
    }

    fn lines(&mut self, reader: impl BufRead, unreadable: &mut u64) -> io::Result<()> {
        let thinned = thin(reader, |_, line, thinned| match serde_json::from_slice::<Event>(line) {
            Ok(event) => self.take(event, thinned),
            // The last line of a run that was killed is cut off, and no damage.
            Err(_) if line.last() != Some(&b'\n') => {}
            Err(_) => *unreadable += 1,
        })?;
        if self.windows.is_empty() {
            self.windows = windows(&thinned);
        }
        for samples in thinned.samples.values() {
            let Some(node) = name(samples.newest()) else { continue };
            let of = self.samples.entry(node).or_default();
            of.extend(samples.lines().filter_map(|(_, line)| sampled(line)));
            of.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        }
        Ok(())
    }

    fn take(&mut self, event: Event, thinned: &Thinned) {
        if let What::Said(said) = &event.what {
            match &**said {
                FromAgent::Stall(channels) if self.stall.as_ref().is_none_or(|stall| stall.recovered) => {
                    self.windows = windows(thinned);
                    self.windows.insert(end_name(&event), (event.ms, channels.clone()));
                    self.stall = Some(Stall { ms: event.ms, recovered: false });
                }
                FromAgent::Recovered => {
                    if let Some(stall) = &mut self.stall {
                        stall.recovered = true;
                    }
                }
                _ => {}
            }
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }
}

fn name(line: &[u8]) -> Option<String> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    Some(line.gpu.map_or_else(|| line.node.clone().into_owned(), |gpu| format!("{} gpu {gpu}", line.node)))
}

fn windows(thinned: &Thinned) -> BTreeMap<String, (f64, Vec<ChannelNow>)> {
    let of = |samples: &Samples| {
        let event: Event = serde_json::from_slice(samples.newest()).ok()?;
        let node = end_name(&event);
        match event.what {
            What::Said(said) => match *said {
                FromAgent::Sample(channels) => Some((node, (event.ms, channels))),
                _ => None,
            },
            _ => None,
        }
    };
    thinned.samples.values().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: usize, node: &str) -> String {
        let channel = ChannelNow { side: "recv".into(), bytes: ms as u64, posted: 3, ..ChannelNow::default() };
        let event = Event {
            at: "2026-11-20T10:00:00Z".into(),
            ms: ms as f64,
            node: node.into(),
            gpu: None,
            node_us: Some(7),
            what: What::Said(Box::new(FromAgent::Sample(vec![channel]))),
        };
        format!("{}\n", serde_json::to_string(&event).expect("JSON"))
    }

    #[test]
    fn a_long_stream_is_thinned_and_keeps_its_ends() {
        let text: String = (0..3000).map(|ms| sample(ms, if ms % 2 == 0 { "local" } else { "peer" })).collect();
        let (mut stream, mut unreadable) = (Stream::default(), 0);
        stream.lines(format!("{text}nonsense\n{}", &text[..40]).as_bytes(), &mut unreadable).expect("read");
        assert_eq!(unreadable, 1);
        assert_eq!(stream.samples.keys().collect::<Vec<_>>(), ["local", "peer"]);
        for samples in stream.samples.values() {
            assert!((256..=513).contains(&samples.len()), "{}", samples.len());
            assert!(samples[0].ms < 2.0 && samples[samples.len() - 1].ms > 2997.0);
        }
        assert_eq!(stream.windows["peer"].1[0].posted, 3);
    }
}
