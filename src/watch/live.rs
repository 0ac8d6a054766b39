//! A run of this very command, as its coordinator tells it.
#![forbid(unsafe_code)]

use super::events::{Translator, title};
use super::folder::cleaned;
use super::source::{Source, SourceError};
use crate::coord::Closely;
use crate::coord::event::Event;
use std::collections::BTreeMap;
use std::sync::{PoisonError, mpsc};
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::record::live::{ChannelKey, Update};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::units::now_us;

/// Taken at one poll.
const TOLD_MAX: usize = 10_000;

/// From the coordinator's thread.
pub(crate) enum Told {
    Event(Box<Event>),
    /// How it ended.
    Over(Box<RunRecord>),
}

/// The end that is looked at.
pub(crate) struct Live<'a> {
    told: mpsc::Receiver<Told>,
    translator: Translator,
    title: Option<Update>,
    closely: Option<&'a Closely>,
    over: bool,
}

impl<'a> Live<'a> {
    /// `hosts` are the nodes as their user calls them; `closely` is where the
    /// coordinator finds what is looked at.
    pub(crate) fn new(
        scenario: &Scenario,
        hosts: BTreeMap<String, String>,
        told: mpsc::Receiver<Told>,
        closely: Option<&'a Closely>,
    ) -> Self {
        let title = Some(Update::Title(title(scenario, now_us() * 1000)));
        Self { told, translator: Translator::new(hosts), title, closely, over: false }
    }

    fn end(&mut self, record: RunRecord, updates: &mut Vec<Update>) {
        self.over = true;
        updates.push(Update::Findings(record.findings.into_iter().map(cleaned).collect()));
        let (outcome, reason) =
            (record.outcome.to_string(), record.reason.as_deref().map(tcpx_words::units::printable));
        updates.push(Update::Ended { at_ns: self.translator.last_ns, outcome, reason });
    }
}

impl Source for Live<'_> {
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        updates.extend(self.title.take());
        for _ in 0..TOLD_MAX {
            match self.told.try_recv() {
                Ok(Told::Event(event)) => self.translator.take(&event, updates),
                Ok(Told::Over(record)) => self.end(*record, updates),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        (!self.over).then(|| now_us() * 1000)
    }

    fn want(&mut self, channel: Option<ChannelKey>) {
        let Some(closely) = self.closely else { return };
        let recorder = |channel: ChannelKey| {
            let path = self.translator.recorders.get(&channel.node)?.clone();
            Some((channel, path))
        };
        *closely.lock().unwrap_or_else(PoisonError::into_inner) = channel.and_then(recorder);
    }
}
