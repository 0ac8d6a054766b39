//! A run folder or a bundle, read back into the state of its run.
#![forbid(unsafe_code)]

use crate::counters::Frame;
use crate::event::{Event, EventKind};
use crate::ids::{Unit, WorkerId};
use crate::record::{RecordError, RunFiles, RunRecord, Thinned, WorkerFile, record_value, thin};
use crate::scenario::Scenario;
use crate::state::RunState;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

/// Longest line of an event stream that is read.
pub const EVENT_BYTES_MAX: u64 = 16 << 20;
/// Largest `run.json` that is read.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Lines of an event stream before its nodes are introduced.
const INTRODUCED_WITHIN: usize = 100;
/// Largest freeze-frame, and largest scenario.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl RunFiles {
    /// The record of the run, if there is one.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or of a version that is not known.
    pub fn record(&self) -> Result<Option<RunRecord>, RecordError> {
        match self.read("run.json", RECORD_BYTES_MAX) {
            Ok(bytes) => RunRecord::parse(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordError::Damaged(error.to_string())),
        }
    }

    /// The scenario as it was resolved.
    pub fn scenario(&self) -> Option<Scenario> {
        let text = self.read("scenario.toml", FILE_BYTES_MAX).ok()?;
        toml::from_str(&String::from_utf8(text).ok()?).ok()
    }

    /// How the nodes are called, by the record or by what the event stream begins with;
    /// folders of nodes are called by it.
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

    /// A state that knows the scenario, and nothing yet of what happened.
    pub fn begun(&self) -> RunState {
        let mut state = self
            .scenario()
            .as_ref()
            .map(RunState::of_scenario)
            .unwrap_or_default();
        state.introduce_two_nodes();
        state
    }

    /// Everything that the files tell of the run. A line that is cut off, or that
    /// this version has no word for, says nothing.
    ///
    /// # Errors
    /// There is no event stream, or it cannot be read on.
    pub fn replay(&self) -> io::Result<RunState> {
        let mut state = self.begun();
        for_each_event(BufReader::new(self.file("events.jsonl")?), |event| {
            state.apply(&event)
        })?;
        self.complete(&mut state);
        Ok(state)
    }

    /// As [`RunFiles::replay`], of a stream of any length: most counters are passed
    /// over unread. A worker's are looked at where something depends on them: when a
    /// stall is declared, when it fails, and at the end. So they are right there,
    /// while `looks` and `progress_ms` of the state are coarse. Returns the samples
    /// that were kept, and how many lines are damaged.
    ///
    /// # Errors
    /// There is no event stream, or it cannot be read on; `state` has what came before.
    pub fn skim(&self, state: &mut RunState) -> io::Result<(Thinned, u64)> {
        skim(
            BufReader::with_capacity(1 << 20, self.file("events.jsonl")?),
            state,
        )
    }

    /// Adds what stands in files of its own: freeze-frames, and the record.
    pub fn complete(&self, state: &mut RunState) {
        for (worker, name) in self.of_workers(WorkerFile::Frame, &state.names) {
            let frame = self.read(&name, FILE_BYTES_MAX).ok();
            let frame = frame.and_then(|bytes| serde_json::from_slice::<Frame>(&bytes).ok());
            if let (Some(frame), Some(worker)) = (frame, state.workers.get_mut(&worker)) {
                let at_ms = worker.sampled_ms.unwrap_or(worker.phase_ms);
                worker.take_frame(at_ms, &frame);
            }
        }
        if let Ok(Some(record)) = self.record() {
            state.conclude(&record);
        }
    }
}

fn skim(reader: impl BufRead, state: &mut RunState) -> io::Result<(Thinned, u64)> {
    let mut skim = Skim {
        state,
        applied: BTreeMap::new(),
        unreadable: 0,
    };
    let thinned = thin(reader, |_, line, thinned| skim.line(line, thinned))?;
    skim.catch_up(&thinned, |_| true);
    Ok((thinned, skim.unreadable))
}

struct Skim<'a> {
    state: &'a mut RunState,
    /// Number of the newest line of counters that was applied.
    applied: BTreeMap<WorkerId, u64>,
    unreadable: u64,
}

impl Skim<'_> {
    fn line(&mut self, line: &[u8], thinned: &Thinned) {
        let Some(event) = Event::parse(line) else {
            self.unreadable += u64::from(is_damaged(line));
            return;
        };
        let depends = matches!(
            event.kind,
            EventKind::Stall(_)
                | EventKind::Failed(_)
                | EventKind::Transfer(_)
                | EventKind::Exited(_)
        );
        if depends {
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

    /// Applies the newest counters of the workers that are meant.
    fn catch_up(&mut self, thinned: &Thinned, is_meant: impl Fn(WorkerId) -> bool) {
        for samples in thinned.samples.values() {
            let Some(worker) = samples.worker.filter(|worker| is_meant(*worker)) else {
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

/// Whether a line that is no event never was one: a last line without an end was
/// being written, and another version has news that this one has no word for.
fn is_damaged(line: &[u8]) -> bool {
    line.last() == Some(&b'\n') && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

/// Calls `each` with every event of a stream. Returns how many lines are damaged.
///
/// # Errors
/// The stream cannot be read on.
pub fn for_each_event(mut reader: impl BufRead, mut each: impl FnMut(Event)) -> io::Result<u64> {
    let (mut line, mut unreadable) = (Vec::new(), 0);
    loop {
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
            None => unreadable += u64::from(is_damaged(&line)),
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
    fn what_is_skimmed_has_the_counters_of_what_is_replayed() {
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
