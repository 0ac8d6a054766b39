//! Folds the files of a run folder or a bundle into a `RunState`.
#![forbid(unsafe_code)]

use crate::counters::Frame;
use crate::event::{Event, EventKind};
use crate::ids::{Unit, WorkerId};
use crate::live::torn;
use crate::record::{
    RecordError, RunFiles, RunRecord, Thinned, Unfinished, WorkerFile, record_value, thin,
};
use crate::scenario::Scenario;
use crate::state::RunState;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use tcpx_recorder::Reader;
use tcpx_words::units::{parse_utc_ns, printable};

/// Longest line of an event stream.
pub const EVENT_BYTES_MAX: u64 = 16 << 20;
/// Largest `run.json`.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Most lines of a stream that are no events of this build. A file with more of them is none of
/// ours, and may expand to a hundred million.
pub const STRANGE_LINES_MAX: u64 = 1_000_000;
/// Lines at the start of an event stream among which the `Nodes` event is searched.
const INTRODUCED_WITHIN: usize = 100;
/// Largest freeze-frame and largest scenario file.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl RunFiles {
    /// The run's `run.json`; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or its version is unknown.
    pub fn record(&self) -> Result<Option<RunRecord>, RecordError> {
        match self.read("run.json", RECORD_BYTES_MAX) {
            Ok(bytes) => RunRecord::parse(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordError::Damaged(error.to_string())),
        }
    }

    /// The resolved scenario.
    pub fn scenario(&self) -> Option<Scenario> {
        let text = self.read("scenario.toml", FILE_BYTES_MAX).ok()?;
        toml::from_str(&String::from_utf8(text).ok()?).ok()
    }

    /// Names of the nodes, from `run.json` or the start of the event stream. The nodes' folders
    /// have the same names.
    pub fn node_names(&self) -> Vec<String> {
        let record = self
            .read("run.json", RECORD_BYTES_MAX)
            .ok()
            .and_then(|bytes| record_value(&bytes).ok());
        let recorded = record
            .as_ref()
            .and_then(|record| record["nodes"].as_array())
            .into_iter()
            .flatten();
        let names: Vec<String> = recorded
            .filter_map(|node| Some(node["name"].as_str()?.to_owned()))
            .collect();
        if !names.is_empty() {
            return names;
        }
        let mut state = self.begun();
        if let Ok(events) = self.file("events.jsonl") {
            let lines = BufReader::new(events.take(EVENT_BYTES_MAX))
                .split(b'\n')
                .map_while(Result::ok);
            let introduced = |event: &Event| matches!(event.kind, EventKind::Nodes(_));
            let nodes = lines
                .take(INTRODUCED_WITHIN)
                .filter_map(|line| Event::parse(&line))
                .find(introduced);
            nodes.iter().for_each(|event| state.apply(event));
        }
        state
            .names
            .nodes
            .into_iter()
            .map(|node| node.name)
            .collect()
    }

    /// The state before the first event: the scenario only.
    pub fn begun(&self) -> RunState {
        let mut state = self
            .scenario()
            .as_ref()
            .map(RunState::of_scenario)
            .unwrap_or_default();
        state.introduce_two_nodes();
        state
    }

    /// Folds the event stream, the freeze-frames and `run.json`. Skips truncated lines and events
    /// of unknown kinds.
    ///
    /// # Errors
    /// There is no event stream, reading it fails, or `run.json` is of another version: its
    /// events may mean something else.
    pub fn replay(&self) -> Result<Replayed, ReplayError> {
        let mut damaged = Vec::new();
        let record = self.record().or_else(|error| match error {
            RecordError::Schema { .. } => Err(error),
            RecordError::Damaged(_) => {
                damaged.push(error.to_string());
                Ok(None)
            }
        })?;
        let mut state = self.begun();
        let events = BufReader::new(self.file("events.jsonl")?);
        let lines = for_each_event(events, |event| state.apply(&event))?;
        if lines > 0 {
            damaged.push(damaged_lines(lines));
        }
        damaged.extend(self.add_frames(&mut state));
        // The recordings of a run that goes on are being written.
        if record.is_some() || self.unfinished() == Some(Unfinished::Adopted) {
            damaged.extend(self.torn(&state));
        }
        if let Some(record) = &record {
            damaged.extend(self.lost_of(record, state.now_ms));
            state.conclude(record);
        }
        Ok(Replayed {
            state,
            record,
            damaged,
        })
    }

    /// Folds an event stream of any length faster than [`RunFiles::replay`], without parsing most
    /// samples. Applies a worker's newest sample only when a stall is declared, when the worker
    /// fails and at the end. The counters are exact at these times; `looks` and `progress_ms` of
    /// the state are coarse. Returns the kept samples and the number of damaged lines.
    ///
    /// # Errors
    /// There is no event stream, or reading it fails; `state` has the events up to there.
    pub fn skim(&self, state: &mut RunState) -> io::Result<(Thinned, u64)> {
        skim(
            BufReader::with_capacity(1 << 20, self.file("events.jsonl")?),
            state,
        )
    }

    /// What the run could not write, and what its folder no longer has, in words: events up to its
    /// end, and these freeze-frames. The run wrote events until `until_ms`, and the last one that is
    /// left is at `last_ms`.
    pub fn lost<'a>(
        &self,
        until_ms: Option<f64>,
        unwritten: Option<&str>,
        frames: impl Iterator<Item = &'a str>,
        last_ms: f64,
    ) -> Vec<String> {
        let missing = frames.filter(|name| self.size(name).is_none());
        let missing = missing.map(|name| format!("{} is missing", printable(name)));
        let events = until_ms.and_then(|until_ms| lost_events(until_ms, last_ms));
        let unwritten =
            unwritten.map(|what| format!("the run could not write {}", printable(what)));
        let all = unwritten.into_iter().chain(events);
        all.chain(missing).collect()
    }

    /// As [`RunFiles::lost`], of a record.
    pub fn lost_of(&self, record: &RunRecord, last_ms: f64) -> Vec<String> {
        let frames = record
            .workers()
            .filter_map(|(_, _, worker)| worker.frame.as_deref());
        let when = [&*record.started, &record.finished];
        let until_ms = events_until_ms(record.events_until_ms, when);
        self.lost(until_ms, record.unwritten.as_deref(), frames, last_ms)
    }

    /// The recordings that end too early, in words.
    fn torn(&self, state: &RunState) -> Vec<String> {
        let recordings = self.of_workers(WorkerFile::Recorder, &state.names);
        let torn = |(_, name): (WorkerId, String)| {
            let mut reader = Reader::from_file(self.file(&name).ok()?).ok()?;
            torn(&name, &mut reader)
        };
        recordings.into_iter().filter_map(torn).collect()
    }

    /// Adds the freeze-frames to their workers. Returns what cannot be read of them.
    fn add_frames(&self, state: &mut RunState) -> Vec<String> {
        let mut damaged = Vec::new();
        for (worker, name) in self.of_workers(WorkerFile::Frame, &state.names) {
            let read = self.read(&name, FILE_BYTES_MAX);
            let parsed = match read {
                Ok(bytes) => Frame::parse(&bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(error),
            };
            match (parsed, state.workers.get_mut(&worker)) {
                (Ok(frame), Some(worker)) => {
                    let at_ms = worker.sampled_ms.unwrap_or(worker.phase_ms);
                    worker.take_frame(at_ms, &frame);
                }
                (Ok(_), None) => {}
                (Err(error), _) => damaged.push(format!("{name} is damaged: {error}")),
            }
        }
        damaged
    }
}

/// Longest time between the last event that is written and one that a run does not write, milliseconds.
const EVENTS_END_MS: f64 = 1000.0;

/// What is noted of a run that ended before it started, by its record.
pub fn clock_set_back([started, finished]: [&str; 2]) -> Option<&'static str> {
    let [began, ended] = [started, finished].map(parse_utc_ns);
    (ended? < began?)
        .then_some("run.json has an end before the start: the clock of that machine was set back")
}

/// Until when a run wrote events, milliseconds since its start: as it recorded it or, if it is older than
/// that, until its end.
pub fn events_until_ms(recorded: Option<f64>, [started, finished]: [&str; 2]) -> Option<f64> {
    let of_times = || {
        let [began, ended] = [started, finished].map(parse_utc_ns);
        Some(ended?.checked_sub(began?)? as f64 / 1e6)
    };
    recorded.or_else(of_times)
}

/// What an event stream whose last event is at `last_ms` lacks at its end, in words.
fn lost_events(until_ms: f64, last_ms: f64) -> Option<String> {
    (until_ms - last_ms > EVENTS_END_MS).then(|| {
        format!(
            "events.jsonl ends after {:.1} s of the {:.1} s of the run",
            last_ms.max(0.0) / 1e3,
            until_ms / 1e3
        )
    })
}

/// A run as its files tell it.
#[derive(Debug)]
pub struct Replayed {
    /// All events, freeze-frames and the record, folded.
    pub state: RunState,
    /// `None` if there is no `run.json`, or a damaged one.
    pub record: Option<RunRecord>,
    /// Files that are there and cannot be read, or only in part, in words.
    pub damaged: Vec<String>,
}

/// Why a run cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The event stream cannot be read.
    #[error("events.jsonl: {0}")]
    Events(#[from] io::Error),
    /// The record is of a version that this program does not know.
    #[error(transparent)]
    Record(#[from] RecordError),
}

fn skim(reader: impl BufRead, state: &mut RunState) -> io::Result<(Thinned, u64)> {
    let mut skim = Skim {
        state,
        applied: BTreeMap::new(),
        unreadable: 0,
        strange: 0,
    };
    let thinned = thin(reader, |_, line, thinned| skim.line(line, thinned))?;
    skim.catch_up(&thinned, |_| true);
    Ok((thinned, skim.unreadable))
}

struct Skim<'a> {
    state: &'a mut RunState,
    /// Line number of the last sample applied.
    applied: BTreeMap<WorkerId, u64>,
    unreadable: u64,
    strange: u64,
}

impl Skim<'_> {
    fn line(&mut self, line: &[u8], thinned: &Thinned) {
        if self.strange >= STRANGE_LINES_MAX {
            self.unreadable = self.strange;
            return;
        }
        let Some(event) = Event::parse(line) else {
            self.strange += 1;
            self.unreadable += u64::from(is_damaged(line));
            return;
        };
        let needs_counters = matches!(
            event.kind,
            EventKind::Stall(_)
                | EventKind::Failed(_)
                | EventKind::Transfer(_)
                | EventKind::Exited(_)
        );
        if needs_counters {
            let unit = event
                .worker()
                .map(|worker| worker.unit)
                .or(event.pair.map(Unit::Pair));
            self.catch_up(thinned, |worker| {
                unit.is_none_or(|unit| unit == worker.unit)
            });
        }
        self.state.apply(&event);
    }

    /// Applies the newest sample of each selected worker.
    fn catch_up(&mut self, thinned: &Thinned, is_selected: impl Fn(WorkerId) -> bool) {
        for samples in thinned.samples.values() {
            let Some(worker) = samples.worker.filter(|worker| is_selected(*worker)) else {
                continue;
            };
            let number = samples.newest_number();
            if self.applied.insert(worker, number) == Some(number) {
                continue;
            }
            if let Some(event) = Event::parse(samples.newest()) {
                self.state.apply(&event);
            }
        }
    }
}

/// Whether a line that is not an event is damaged. A last line without a newline is not: it was
/// still being written. Nor is valid JSON: it may be an event of a newer version.
fn is_damaged(line: &[u8]) -> bool {
    line.last() == Some(&b'\n') && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

/// A number of damaged lines in words.
pub fn damaged_lines(lines: u64) -> String {
    let rest = match lines >= STRANGE_LINES_MAX {
        true => " and more; the rest was not read",
        false => "",
    };
    format!("damaged lines in events.jsonl: {lines}{rest}")
}

/// Calls `each` with every event of a stream. Returns the number of damaged lines; a stream with
/// too many lines that are no events is not read further.
///
/// # Errors
/// Reading the stream fails.
pub fn for_each_event(mut reader: impl BufRead, mut each: impl FnMut(Event)) -> io::Result<u64> {
    let (mut line, mut unreadable, mut strange) = (Vec::new(), 0, 0);
    loop {
        if strange >= STRANGE_LINES_MAX {
            return Ok(strange);
        }
        line.clear();
        if (&mut reader)
            .take(EVENT_BYTES_MAX)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(unreadable);
        }
        match Event::parse(&line) {
            Some(event) => each(event),
            None => {
                strange += 1;
                unreadable += u64::from(is_damaged(&line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::ChannelNow;
    use crate::ids::{NodeId, PairId, Who};
    use crate::phase::{Exit, Phase};

    const WORKERS: [WorkerId; 2] = [
        WorkerId::of_pair(NodeId(0), PairId(0)),
        WorkerId::of_pair(NodeId(1), PairId(0)),
    ];

    #[test]
    fn a_stream_of_a_hundred_million_lines_is_not_read_to_its_end() {
        let line = b"x\n";
        let reader = || io::BufReader::new(io::repeat(b'\n').take(2 * STRANGE_LINES_MAX));
        let damaged = for_each_event(reader(), |_| panic!("no event")).expect("read");
        assert_eq!(damaged, STRANGE_LINES_MAX);
        assert!(damaged_lines(damaged).ends_with("the rest was not read"));
        assert_eq!(for_each_event(&line[..], |_| ()).expect("read"), 1);
        let (_, skimmed) = skim(reader(), &mut RunState::default()).expect("read");
        assert_eq!(skimmed, STRANGE_LINES_MAX);
    }

    #[test]
    fn a_stream_is_short_of_what_the_run_wrote_and_not_of_the_time_it_took_to_end() {
        let when = ["2026-11-25T10:00:00.000Z", "2026-11-25T10:00:09.500Z"];
        let lost = |recorded| lost_events(events_until_ms(recorded, when)?, 4000.0);
        assert_eq!(lost(Some(4000.25)), None);
        let of = |seconds| format!("events.jsonl ends after 4.0 s of the {seconds} s of the run");
        assert_eq!(lost(Some(9000.0)), Some(of("9.0")));
        assert_eq!(lost(None), Some(of("9.5")));
    }

    #[test]
    fn only_an_end_before_the_start_is_a_clock_that_was_set_back() {
        let (early, late) = ("2026-11-25T10:00:00.000Z", "2026-11-25T10:00:09.500Z");
        let told = [[late, early], [early, late], [early, early], [late, ""]]
            .map(|times| clock_set_back(times).is_some());
        assert_eq!(told, [true, false, false, false]);
    }

    fn counters(posted: u64) -> Vec<ChannelNow> {
        vec![ChannelNow {
            posted,
            ..ChannelNow::default()
        }]
    }

    fn stream() -> String {
        let mut text = String::new();
        let mut say = |ms: u64, worker: usize, kind: EventKind| {
            let event = Event::new(ms as f64, Who::Worker(WORKERS[worker]), kind);
            text.push_str(&(serde_json::to_string(&event).expect("JSON") + "\n"));
        };
        for ms in 0..2000 {
            say(ms, (ms % 2) as usize, EventKind::Sample(counters(ms)));
        }
        say(2000, 1, EventKind::Stall(counters(2000)));
        for ms in 2001..2100 {
            say(ms, (ms % 2) as usize, EventKind::Sample(counters(ms)));
        }
        let exit = Exit {
            code: Some(0),
            signal: None,
            killed: false,
            phase: Phase::Finished,
            in_call: None,
            channels: counters(3000),
        };
        say(2100, 0, EventKind::Exited(exit));
        text + "nonsense\n{\"at\":"
    }

    #[test]
    fn skimming_gives_the_same_counters_as_replaying() {
        let text = stream();
        let (mut whole, mut skimmed) = (RunState::default(), RunState::default());
        whole.introduce_two_nodes();
        skimmed.introduce_two_nodes();
        let unreadable =
            for_each_event(text.as_bytes(), |event| whole.apply(&event)).expect("read");
        let (thinned, passed) = skim(text.as_bytes(), &mut skimmed).expect("read");
        assert_eq!((unreadable, passed, thinned.samples.len()), (1, 1, 2));
        assert_eq!((whole.now_ms, whole.pairs), (skimmed.now_ms, skimmed.pairs));
        for worker in WORKERS {
            let (whole, skimmed) = (&whole.workers[&worker], &skimmed.workers[&worker]);
            assert_eq!(
                (&whole.at_stall, &whole.channels),
                (&skimmed.at_stall, &skimmed.channels)
            );
            assert_eq!(whole.sampled_ms, skimmed.sampled_ms);
        }
        let posted = |worker: usize| {
            skimmed.workers[&WORKERS[worker]]
                .at_stall
                .as_ref()
                .expect("seen")
                .channels[0]
                .posted
        };
        assert_eq!((posted(0), posted(1)), (1998, 2000));
    }
}
