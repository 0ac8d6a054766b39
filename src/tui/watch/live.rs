//! Events of the run that this command coordinates.
#![forbid(unsafe_code)]

use super::source::{Beginning, Clock, Source, SourceError};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::Event;
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::scenario::Scenario;
use tcpx_run_model::state::RunState;

/// Maximum updates of one poll.
const UPDATES_MAX: usize = 10_000;

/// The channel whose details are shown, and the recorder of its worker.
pub type FocusedChannel = (ChannelKey, PathBuf);

/// A message from the coordinator's thread to the view.
pub enum ViewUpdate {
    /// An event of the run.
    Event(Box<Event>),
    /// The record of the run. It is the last message.
    Over(Box<RunRecord>),
}

/// The events of a run that this command coordinates.
pub struct LiveSource<'a> {
    scenario: &'a Scenario,
    updates: Receiver<ViewUpdate>,
    focus: Option<FocusedChannel>,
    focused: Box<dyn FnMut(Option<FocusedChannel>) + 'a>,
    record: Option<Box<RunRecord>>,
    is_over: bool,
}

impl<'a> LiveSource<'a> {
    /// `focused` is called when the channel in focus changes.
    pub fn new(
        scenario: &'a Scenario,
        updates: Receiver<ViewUpdate>,
        focused: impl FnMut(Option<FocusedChannel>) + 'a,
    ) -> Self {
        Self {
            scenario,
            updates,
            focus: None,
            focused: Box::new(focused),
            record: None,
            is_over: false,
        }
    }
}

impl Source for LiveSource<'_> {
    fn begin(&self) -> Beginning {
        Beginning {
            title: self.scenario.slug(),
            state: RunState::of_scenario(self.scenario),
        }
    }

    fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = Vec::new();
        while events.len() < UPDATES_MAX && !self.is_over {
            match self.updates.try_recv() {
                Ok(ViewUpdate::Event(event)) => events.push(*event),
                Ok(ViewUpdate::Over(record)) => (self.record, self.is_over) = (Some(record), true),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    let what = "the coordinator's thread ended without a result".to_owned();
                    return Err(SourceError::Lost { what });
                }
            }
        }
        Ok(events)
    }

    fn record(&mut self) -> Option<Box<RunRecord>> {
        self.record.take()
    }

    fn clock(&self) -> Clock {
        if self.is_over {
            Clock::Over
        } else {
            Clock::Wall
        }
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, state: &RunState) {
        let recorder = |channel: &ChannelKey| {
            let path = state.workers.get(&channel.worker)?.recorder.clone()?;
            Some((channel.clone(), path))
        };
        let focus = channel.and_then(recorder);
        if self.focus != focus {
            self.focus.clone_from(&focus);
            (self.focused)(focus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::mpsc::channel;
    use tcpx_run_model::event::EventKind;
    use tcpx_run_model::ids::{NodeId, PairId, Who, WorkerId};
    use tcpx_words::side::Side;

    #[test]
    fn a_run_is_followed_to_its_record_and_a_lost_thread_is_an_error() {
        let scenario = Scenario::default();
        let (sender, updates) = channel();
        let mut source = LiveSource::new(&scenario, updates, |_| {});
        let note = Event::new(1.0, Who::Run, EventKind::Note("x".into()));
        sender
            .send(ViewUpdate::Event(Box::new(note.clone())))
            .expect("sent");
        assert_eq!(
            (source.poll().expect("events"), source.clock()),
            (vec![note], Clock::Wall)
        );
        let record = RunRecord::parse(br#"{"schema": "tcpxctl.run/2", "outcome": "passed"}"#)
            .expect("a record");
        sender
            .send(ViewUpdate::Over(Box::new(record)))
            .expect("sent");
        drop(sender);
        assert!(source.poll().expect("events").is_empty() && source.clock() == Clock::Over);
        assert!(source.record().is_some() && source.record().is_none() && source.poll().is_ok());
        let (sender, updates) = channel();
        drop(sender);
        assert!(matches!(
            LiveSource::new(&scenario, updates, |_| {}).poll(),
            Err(SourceError::Lost { .. })
        ));
    }

    #[test]
    fn the_focused_channel_is_passed_on_once_with_its_recorder() {
        let scenario = Scenario::default();
        let focused = RefCell::new(Vec::new());
        let (_sender, updates) = channel();
        let mut source = LiveSource::new(&scenario, updates, |channel| {
            focused.borrow_mut().push(channel)
        });
        let worker = WorkerId::of_pair(NodeId(1), PairId(0));
        let channel = ChannelKey {
            worker,
            side: Side::Recv,
            index: 3,
        };
        let mut state = source.begin().state;
        source.focus(Some(&channel), &state);
        state.apply(&Event::new(
            0.0,
            Who::Worker(worker),
            EventKind::Recorder("/dev/shm/x".into()),
        ));
        source.focus(Some(&channel), &state);
        source.focus(Some(&channel), &state);
        source.focus(None, &state);
        drop(source);
        assert_eq!(
            focused.into_inner(),
            [Some((channel, "/dev/shm/x".into())), None]
        );
    }
}
