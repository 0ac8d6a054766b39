//! Events of a run folder or a bundle, all at once or at the pace of the run. A run that is still
//! going is followed.
#![forbid(unsafe_code)]

use super::source::{Beginning, Clock, Source, SourceError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;
use tcpx_recorder::Reader;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Who, WorkerId};
use tcpx_run_model::live::{RecorderFilter, Recorders};
use tcpx_run_model::record::{RecordError, RunFiles, RunRecord, Unfinished, WorkerFile};
use tcpx_run_model::replay::{EVENT_BYTES_MAX, STRANGE_LINES_MAX, clock_set_back, damaged_lines};
use tcpx_run_model::state::RunState;
use tcpx_words::units::now_us;

/// Maximum events of one poll.
const EVENTS_MAX: usize = 20_000;
/// Maximum bytes of one poll, whose lines may be no events: a view is drawn between two polls.
const POLL_BYTES_MAX: u64 = 16 << 20;

/// The event stream of a run folder or a bundle.
pub struct FolderSource {
    files: RunFiles,
    stream: BufReader<File>,
    /// The beginning of a line that is still being written.
    partial: Vec<u8>,
    next: Option<Event>,
    /// Bytes that this poll may still read.
    budget: u64,
    /// Bytes that were read so far.
    read: u64,
    /// Lines that are no events.
    strange: u64,
    /// Whether the last poll ended before the end of the stream.
    is_behind: bool,
    pace: Option<Pace>,
    /// The recorder of the worker whose channel is shown in detail.
    focused: Option<(WorkerId, Recorders)>,
    record: Option<Box<RunRecord>>,
    /// What the record lacks, in words.
    lost: Vec<String>,
    is_over: bool,
    /// Time of the newest event, milliseconds since the command started.
    last_ms: f64,
}

/// The pace of a replay.
struct Pace {
    /// 2.0 is twice as fast as the run.
    speed: f64,
    began: Instant,
    /// Time of the first event, in milliseconds of the run.
    from_ms: Option<f64>,
}

/// Why reading the stream gives no event.
enum NoEvent {
    /// Nothing more has been written.
    End,
    /// There is more, and this poll has read enough.
    Later,
}

impl FolderSource {
    /// Opens a run. With a `speed`, the events are replayed at the pace of the run times `speed`.
    ///
    /// # Errors
    /// The run has no event stream, or its record has an unknown version.
    pub fn open(run: &Path, speed: Option<f64>) -> Result<Self, SourceError> {
        let unreadable = |why: String| SourceError::Unreadable {
            path: run.to_owned(),
            why,
        };
        let files = RunFiles::open(run).map_err(|error| unreadable(error.to_string()))?;
        if let Err(error @ RecordError::Schema { .. }) = files.record() {
            return Err(SourceError::Record {
                path: run.to_owned(),
                error,
            });
        }
        let stream = files
            .file("events.jsonl")
            .map_err(|error| unreadable(format!("events.jsonl: {error}")))?;
        Ok(Self {
            files,
            stream: BufReader::with_capacity(1 << 18, stream),
            partial: Vec::new(),
            next: None,
            budget: 0,
            read: 0,
            strange: 0,
            is_behind: false,
            pace: speed.map(|speed| Pace {
                speed,
                began: Instant::now(),
                from_ms: None,
            }),
            focused: None,
            record: None,
            lost: Vec::new(),
            is_over: false,
            last_ms: 0.0,
        })
    }

    fn next_event(&mut self) -> Result<Event, NoEvent> {
        if let Some(event) = self.next.take() {
            return Ok(event);
        }
        while self.budget > 0 {
            if self.strange >= STRANGE_LINES_MAX {
                return Err(NoEvent::End);
            }
            let room = EVENT_BYTES_MAX.saturating_sub(self.partial.len() as u64);
            let limit = room.min(self.budget);
            let mut part = Read::take(&mut self.stream, limit);
            let Ok(count) = part.read_until(b'\n', &mut self.partial) else {
                return Err(NoEvent::End);
            };
            self.read += count as u64;
            self.budget -= count as u64;
            let is_whole = self.partial.last() == Some(&b'\n') || room == 0;
            match is_whole {
                false if self.budget == 0 => return Err(NoEvent::Later),
                // The line is still being written.
                false if (count as u64) < limit => return Err(NoEvent::End),
                false => continue,
                true => {}
            }
            let event = Event::parse(&self.partial);
            self.partial.clear();
            match event {
                Some(event) => return Ok(event),
                None => self.strange += 1,
            }
        }
        Err(NoEvent::Later)
    }

    /// How much of the stream has been read, in percent.
    fn percent(&self) -> u8 {
        let length = self
            .stream
            .get_ref()
            .metadata()
            .map_or(0, |file| file.len());
        let percent = self.read.saturating_mul(100).checked_div(length);
        percent.unwrap_or(0).min(99) as u8
    }

    fn is_due(&mut self, event: &Event) -> bool {
        let Some(pace) = &mut self.pace else {
            return true;
        };
        let from_ms = *pace.from_ms.get_or_insert_with(|| {
            pace.began = Instant::now();
            event.ms
        });
        event.ms - from_ms <= pace.began.elapsed().as_secs_f64() * 1e3 * pace.speed
    }

    /// Reads the record if there is one. Without one, the run is over unless its coordinator
    /// runs; that, and what is damaged or lost, becomes a note among the events.
    fn end(&mut self, events: &mut Vec<Event>) {
        if self.strange >= STRANGE_LINES_MAX {
            events.push(self.note(damaged_lines(self.strange)));
        }
        let note = match (self.files.record(), self.files.unfinished()) {
            (Ok(Some(record)), _) => {
                self.lost = self.files.lost_of(&record, self.last_ms);
                let set_back = clock_set_back([&record.started, &record.finished]);
                let set_back = set_back.map(str::to_owned);
                self.record = Some(Box::new(record));
                let lost = self.lost.iter().cloned();
                events.extend(lost.chain(set_back).map(|text| self.note(text)));
                None
            }
            (Ok(None), None | Some(Unfinished::GoesOn)) => return,
            // A file system without locks does not tell whether the coordinator runs.
            (Ok(None), Some(Unfinished::Open)) if matches!(self.files, RunFiles::Folder(_)) => {
                return;
            }
            (Ok(None), Some(unfinished)) => Some(unfinished.words(self.last_ms)),
            (Err(error), _) => Some(error.to_string()),
        };
        events.extend(note.map(|text| self.note(text)));
        self.is_over = true;
    }

    /// A note at the end of the events.
    fn note(&self, text: String) -> Event {
        Event::new(self.last_ms, Who::Run, EventKind::Note(text))
    }

    /// The recorder of one worker: from the run folder once the run is over, before that the
    /// file that the worker writes.
    fn recorders(&self, worker: WorkerId, state: &RunState) -> Recorders {
        let of_worker = |(of, name): (WorkerId, String)| (of == worker).then_some(name);
        let kept = self
            .files
            .of_workers(WorkerFile::Recorder, &state.names)
            .into_iter()
            .find_map(of_worker);
        let reader = kept.and_then(|name| Reader::from_file(self.files.file(&name).ok()?).ok());
        match reader {
            Some(reader) if self.is_over => return Recorders::opened(vec![(worker, reader)]),
            // The live recorders of a bundle's run were on another machine.
            _ if matches!(self.files, RunFiles::Bundle { .. }) => {
                return Recorders::opened(Vec::new());
            }
            _ => {}
        }
        let path = state
            .workers
            .get(&worker)
            .and_then(|worker| worker.recorder.clone());
        Recorders::new(RecorderFilter::Workers(
            path.map(|path| (worker, path)).into_iter().collect(),
        ))
    }

    /// The newest details of the channel in focus. Its samples are in the event stream.
    fn details(&mut self) -> Option<Event> {
        let (_, recorders) = self.focused.as_mut()?;
        let mut events = Vec::new();
        // The worker's recorder may not exist yet, or not any more.
        recorders.look(now_us() * 1000, &mut events).ok()?;
        events
            .into_iter()
            .find(|event| matches!(event.kind, EventKind::Detail(_)))
    }
}

impl Source for FolderSource {
    fn begin(&self) -> Beginning {
        let mut state = self.files.begun();
        if let Ok(Some(record)) = self.files.record() {
            state.introduce(&record);
        }
        let title = state.scenario.as_ref().map(|scenario| scenario.slug());
        Beginning {
            title: title.unwrap_or_default(),
            state,
        }
    }

    fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = Vec::new();
        self.budget = POLL_BYTES_MAX;
        self.is_behind = true;
        while events.len() < EVENTS_MAX {
            let event = match self.next_event() {
                Ok(event) => event,
                Err(NoEvent::Later) => break,
                Err(NoEvent::End) => {
                    self.is_behind = false;
                    if !self.is_over {
                        self.end(&mut events);
                    }
                    break;
                }
            };
            if !self.is_due(&event) {
                self.is_behind = false;
                self.next = Some(event);
                break;
            }
            self.last_ms = self.last_ms.max(event.ms);
            events.push(event);
        }
        events.extend(self.details());
        Ok(events)
    }

    fn record(&mut self) -> Option<Box<RunRecord>> {
        self.record.take()
    }

    fn lost(&self) -> &[String] {
        &self.lost
    }

    fn clock(&self) -> Clock {
        match (&self.pace, self.is_over) {
            (_, true) => Clock::Over,
            (Some(_), false) => Clock::Events,
            (None, false) if self.is_behind => Clock::Reading(self.percent()),
            (None, false) => Clock::Wall,
        }
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, state: &RunState) {
        if let Some(channel) = channel
            && self
                .focused
                .as_ref()
                .is_none_or(|(worker, _)| *worker != channel.worker)
        {
            self.focused = Some((channel.worker, self.recorders(channel.worker, state)));
        }
        if let Some((_, recorders)) = &mut self.focused {
            recorders.want(channel.cloned());
        }
    }
}
