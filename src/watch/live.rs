//! A run of this very command, as its coordinator tells it.
#![forbid(unsafe_code)]

use super::events::{Translator, title};
use super::folder::cleaned;
use super::source::{Source, SourceError};
use crate::coord::event::Event;
use crate::record::RunRecord;
use crate::record::live::{ChannelKey, Recorders, Update, Which};
use crate::scenario::Scenario;
use crate::units::now_us;
use std::collections::BTreeMap;
use std::sync::mpsc;

/// Taken at one poll.
const TOLD_MAX: usize = 10_000;

/// From the coordinator's thread.
pub(crate) enum Told {
    Event(Box<Event>),
    /// How it ended.
    Over(Box<RunRecord>),
}

/// The end that is looked at.
pub(crate) struct Live {
    told: mpsc::Receiver<Told>,
    translator: Translator,
    title: Option<Update>,
    recorders: Option<Recorders>,
    over: bool,
}

impl Live {
    /// `hosts` are the nodes as their user calls them.
    pub(crate) fn new(scenario: &Scenario, hosts: BTreeMap<String, String>, told: mpsc::Receiver<Told>) -> Self {
        let title = Some(Update::Title(title(scenario, now_us() * 1000)));
        Self { told, translator: Translator::new(hosts), title, recorders: None, over: false }
    }

    fn end(&mut self, record: RunRecord, updates: &mut Vec<Update>) {
        self.over = true;
        updates.push(Update::Findings(record.findings.into_iter().map(cleaned).collect()));
        let (outcome, reason) = (record.outcome.to_string(), record.reason.as_deref().map(crate::units::printable));
        updates.push(Update::Ended { at_ns: self.translator.last_ns, outcome, reason });
    }
}

impl Source for Live {
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        updates.extend(self.title.take());
        for _ in 0..TOLD_MAX {
            match self.told.try_recv() {
                Ok(Told::Event(event)) => self.translator.take(&event, updates),
                Ok(Told::Over(record)) => self.end(*record, updates),
                Err(_) => break,
            }
        }
        if let Some(recorders) = self.recorders.as_mut().filter(|_| !self.over) {
            let mut close = Vec::new();
            // A recorder on another node is not here to be read.
            let _ = recorders.look(now_us() * 1000, &mut close);
            updates.extend(close.into_iter().filter(|update| matches!(update, Update::Detail(_))));
        }
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        (!self.over).then(|| now_us() * 1000)
    }

    fn want(&mut self, channel: Option<ChannelKey>) {
        if channel.is_some() && self.recorders.is_none() && !self.translator.recorders.is_empty() {
            self.recorders = Some(Recorders::new(Which::Named(self.translator.recorders.clone())));
        }
        if let Some(recorders) = &mut self.recorders {
            recorders.want(channel);
        }
    }
}
