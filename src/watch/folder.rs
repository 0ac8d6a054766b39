//! A run folder or a bundle: its event stream as far as it is written, all at once or at the
//! pace at which it happened. A run that is not over is followed.
#![forbid(unsafe_code)]

use super::events::{Translator, title};
use super::source::{Source, SourceError};
use crate::coord::event::Event;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;
use tcpx_recorder::Reader;
use tcpx_run_model::record::live::{ChannelKey, Recorders, Update, Which};
use tcpx_run_model::record::{Finding, RunFiles};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::units::now_us;

/// Longest event that is read.
const LINE_MAX: u64 = 16 << 20;
/// Longest record that is read.
const RECORD_MAX: u64 = 64 << 20;
/// Events taken in one look while a run is followed or replayed.
const EVENTS_MAX: usize = 20_000;

/// A run folder.
pub(crate) struct Folder {
    files: RunFiles,
    events: BufReader<File>,
    /// The beginning of a line that is not whole yet.
    partial: Vec<u8>,
    translator: Translator,
    next: Option<Event>,
    pace: Option<Pace>,
    recorders: Option<Recorders>,
    titled: bool,
    over: bool,
}

/// How fast it is told.
struct Pace {
    speed: f64,
    began: Instant,
    /// Milliseconds of the run at which telling began.
    from_ms: Option<f64>,
}

impl Folder {
    /// With a `speed`, what happened is told as it happened, so many times as fast.
    ///
    /// # Errors
    /// It has no event stream.
    pub(crate) fn open(run: &Path, speed: Option<f64>) -> Result<Self, SourceError> {
        let unreadable = |why: String| SourceError::Unreadable { path: run.to_owned(), why };
        let files = RunFiles::open(run).map_err(|error| unreadable(error.to_string()))?;
        let events = files.file("events.jsonl").map_err(|error| unreadable(format!("events.jsonl: {error}")))?;
        let hosts = record(&files).as_ref().map(hosts).unwrap_or_default();
        Ok(Self {
            files,
            events: BufReader::with_capacity(1 << 18, events),
            partial: Vec::new(),
            translator: Translator::new(hosts),
            next: None,
            pace: speed.map(|speed| Pace { speed, began: Instant::now(), from_ms: None }),
            recorders: None,
            titled: false,
            over: false,
        })
    }

    fn next_event(&mut self) -> Option<Event> {
        if let Some(event) = self.next.take() {
            return Some(event);
        }
        loop {
            let limit = LINE_MAX.saturating_sub(self.partial.len() as u64);
            let mut part = std::io::Read::take(&mut self.events, limit);
            match part.read_until(b'\n', &mut self.partial) {
                Ok(0) if limit > 0 => return None,
                Err(_) => return None,
                // Still being written.
                Ok(_) if self.partial.last() != Some(&b'\n') && limit > 0 => return None,
                Ok(_) => {}
            }
            let event = serde_json::from_slice(&self.partial).ok();
            self.partial.clear();
            if event.is_some() {
                return event;
            }
        }
    }

    fn is_due(&mut self, event: &Event) -> bool {
        let Some(pace) = &mut self.pace else { return true };
        let from_ms = *pace.from_ms.get_or_insert_with(|| {
            pace.began = Instant::now();
            event.ms
        });
        event.ms - from_ms <= pace.began.elapsed().as_secs_f64() * 1e3 * pace.speed
    }

    fn end(&mut self, updates: &mut Vec<Update>) {
        let Some(record) = record(&self.files) else { return };
        self.over = true;
        let findings = record["findings"].as_array().into_iter().flatten();
        let findings = findings.filter_map(|one| serde_json::from_value::<Finding>(one.clone()).ok());
        updates.push(Update::Findings(findings.map(cleaned).collect()));
        let text = |key: &str| record[key].as_str().map(tcpx_words::units::printable);
        let outcome = text("outcome").unwrap_or_else(|| "ended".into());
        updates.push(Update::Ended { at_ns: self.translator.last_ns, outcome, reason: text("reason") });
    }

    fn details(&mut self) -> &mut Recorders {
        let (files, live, over) = (&self.files, &self.translator.recorders, self.over);
        self.recorders.get_or_insert_with(|| {
            let kept = kept(files);
            match over && !kept.is_empty() {
                true => Recorders::opened(kept),
                // Those of a bundle are of a machine that is not this one.
                false if matches!(files, RunFiles::Bundle { .. }) => Recorders::opened(Vec::new()),
                false => Recorders::new(Which::Named(live.clone())),
            }
        })
    }
}

/// What a file says, made fit for a screen.
pub(super) fn cleaned(mut finding: Finding) -> Finding {
    let clean = |text: &mut String| *text = tcpx_words::units::printable(text);
    clean(&mut finding.condition);
    clean(&mut finding.severity);
    finding.because.iter_mut().for_each(clean);
    finding.cannot_see.iter_mut().for_each(clean);
    finding.next_step.iter_mut().for_each(clean);
    finding
}

fn record(files: &RunFiles) -> Option<serde_json::Value> {
    serde_json::from_slice(&files.read("run.json", RECORD_MAX).ok()?).ok()
}

fn hosts(record: &serde_json::Value) -> BTreeMap<String, String> {
    let text = |node: &serde_json::Value, key: &str| node[key].as_str().map(tcpx_words::units::printable);
    let nodes = record["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| Some((text(node, "name")?, text(node, "host")?))).collect()
}

/// The recorders that the record has, by node as the event stream names it.
fn kept(files: &RunFiles) -> Vec<(String, Reader)> {
    let opened = |(node, name): (String, String)| Some((node, Reader::from_file(files.file(&name).ok()?).ok()?));
    files.recorders().into_iter().filter_map(opened).collect()
}

impl Source for Folder {
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        for _ in 0..EVENTS_MAX {
            let Some(event) = self.next_event() else {
                if !self.over {
                    self.end(updates);
                }
                break;
            };
            if !self.is_due(&event) {
                self.next = Some(event);
                break;
            }
            self.translator.take(&event, updates);
            if !self.titled {
                self.titled = true;
                let scenario = self.files.read("scenario.toml", RECORD_MAX).unwrap_or_default();
                let scenario = String::from_utf8_lossy(&scenario);
                let title =
                    toml::from_str::<Scenario>(&scenario).map(|scenario| title(&scenario, self.translator.last_ns));
                updates.insert(0, Update::Title(title.unwrap_or_default()));
            }
        }
        // Samples of the recorders are the stream's already.
        let mut close = Vec::new();
        let now_ns = self.translator.last_ns;
        let _ = self.details().look(now_ns, &mut close);
        updates.extend(close.into_iter().filter(|update| matches!(update, Update::Detail(_))));
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        match (&self.pace, self.over) {
            (_, true) => None,
            (Some(_), _) => Some(self.translator.last_ns),
            (None, _) => Some(now_us() * 1000),
        }
    }

    fn want(&mut self, channel: Option<ChannelKey>) {
        if channel.is_some() || self.recorders.is_some() {
            self.details().want(channel);
        }
    }
}
