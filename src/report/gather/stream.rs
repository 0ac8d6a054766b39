//! `events.jsonl` in one pass, however long it is.
//!
//! Nearly all of it is samples, of which a report needs a few hundred: a line is
//! known for a sample by its first bytes, and only those that are kept are parsed.
//! Which are kept is decided as they come: once full, every second one goes.
#![forbid(unsafe_code)]

use crate::coord::event::{Event, What};
use crate::coord::message::FromAgent;
use crate::record::{ChannelNow, RunFiles};
use crate::report::story::{State, Story};
use memchr::memmem::Finder;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is read.
const LINE_MAX: u64 = 16 << 20;
/// Samples of one node that are kept: twice the parts of the time axis.
const KEPT_MAX: usize = 512;
/// Events that are no samples.
const EVENTS_MAX: usize = 200_000;
/// What says so stands within these first bytes of a line.
const HEAD: usize = 256;

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

/// Lines of samples of one node.
struct Thin {
    every: usize,
    passed: usize,
    kept: Vec<Vec<u8>>,
    newest: Vec<u8>,
}

impl Default for Thin {
    fn default() -> Self {
        Self { every: 1, passed: 0, kept: Vec::new(), newest: Vec::new() }
    }
}

impl Thin {
    fn push(&mut self, line: &[u8]) {
        self.newest.clear();
        self.newest.extend_from_slice(line);
        self.passed += 1;
        if self.passed < self.every {
            return;
        }
        self.passed = 0;
        if self.kept.len() == KEPT_MAX {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.kept.push(line.to_vec());
    }

    fn sampled(mut self) -> Vec<Sampled> {
        if self.kept.last() != Some(&self.newest) {
            self.kept.push(self.newest);
        }
        let mut all: Vec<Sampled> = self.kept.iter().filter_map(|line| sampled(line)).collect();
        all.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        all
    }
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

    fn lines(&mut self, mut reader: impl BufRead, unreadable: &mut u64) -> io::Result<()> {
        let is_sample = Finder::new(br#""said":{"sample":["#);
        let (mut line, mut thin) = (Vec::new(), BTreeMap::<Vec<u8>, Thin>::new());
        loop {
            line.clear();
            if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let head = &line[..line.len().min(HEAD)];
            if is_sample.find(head).is_some() {
                let of = node_of(head);
                match thin.get_mut(of) {
                    Some(thin) => thin.push(&line),
                    None => thin.entry(of.to_vec()).or_default().push(&line),
                }
                continue;
            }
            match serde_json::from_slice::<Event>(&line) {
                Ok(event) => self.take(event, &thin),
                // The last line of a run that was killed is cut off, and no damage.
                Err(_) if line.last() != Some(&b'\n') => {}
                Err(_) => *unreadable += 1,
            }
        }
        if self.windows.is_empty() {
            self.windows = windows(&thin);
        }
        for thin in thin.into_values() {
            let Some(node) = name(&thin.newest) else { continue };
            self.samples.entry(node).or_default().extend(thin.sampled());
        }
        Ok(())
    }

    fn take(&mut self, event: Event, thin: &BTreeMap<Vec<u8>, Thin>) {
        if let What::Said(said) = &event.what {
            match &**said {
                FromAgent::Stall(channels) if self.stall.as_ref().is_none_or(|stall| stall.recovered) => {
                    self.windows = windows(thin);
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

/// Where a line says whose it is: what tells the nodes and GPUs apart, unparsed.
fn node_of(head: &[u8]) -> &[u8] {
    let from = memchr::memmem::find(head, br#""node":"#).unwrap_or(0);
    let to = memchr::memmem::find(&head[from..], br#""node_us":"#)
        .or_else(|| memchr::memmem::find(&head[from..], br#""said":"#))
        .map_or(head.len(), |at| from + at);
    &head[from..to]
}

fn name(line: &[u8]) -> Option<String> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    Some(line.gpu.map_or_else(|| line.node.clone().into_owned(), |gpu| format!("{} gpu {gpu}", line.node)))
}

fn windows(thin: &BTreeMap<Vec<u8>, Thin>) -> BTreeMap<String, (f64, Vec<ChannelNow>)> {
    let of = |thin: &Thin| {
        let event: Event = serde_json::from_slice(&thin.newest).ok()?;
        let node = end_name(&event);
        match event.what {
            What::Said(said) => match *said {
                FromAgent::Sample(channels) => Some((node, (event.ms, channels))),
                _ => None,
            },
            _ => None,
        }
    };
    thin.values().filter_map(of).collect()
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
            assert!((256..=KEPT_MAX + 1).contains(&samples.len()), "{}", samples.len());
            assert!(samples[0].ms < 2.0 && samples[samples.len() - 1].ms > 2997.0);
        }
        assert_eq!(stream.windows["peer"].1[0].posted, 3);
    }
}
