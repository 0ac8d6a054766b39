//! What a view holds: the run over time, and the channel that is looked at closely.
//!
//! It folds nothing itself: the timeline does. It knows no clock and no screen; a
//! time is what an event says.
#![forbid(unsafe_code)]

use super::source::{Beginning, Clock, Source, SourceError};
use std::collections::BTreeMap;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Who, WorkerId};
use tcpx_run_model::record::live::Detail;
use tcpx_run_model::state::RunState;
use tcpx_run_model::timeline::{Line, Timeline};
use tcpx_words::units::now_us;

#[derive(Debug)]
pub(crate) struct Model {
    /// What is looked at.
    pub(crate) title: String,
    pub(crate) timeline: Timeline,
    /// The newest of the channel that is looked at closely.
    pub(crate) detail: Option<Detail>,
    /// By which the source goes.
    pub(crate) clock: Clock,
    /// What `timeline.state.name` says of each worker, which takes a while with many
    /// pairs; and how many pairs there were then.
    names: BTreeMap<WorkerId, String>,
    named_pairs: usize,
}

impl Model {
    pub(crate) fn new(beginning: Beginning) -> Self {
        Self {
            title: beginning.title,
            timeline: Timeline::of(beginning.state),
            detail: None,
            clock: Clock::Wall,
            names: BTreeMap::new(),
            named_pairs: 0,
        }
    }

    /// After these events.
    #[cfg(test)]
    pub(crate) fn after(beginning: Beginning, events: impl IntoIterator<Item = Event>) -> Self {
        let mut model = Self::new(beginning);
        events.into_iter().for_each(|event| model.take(event));
        model.keep_names();
        model
    }

    pub(crate) fn state(&self) -> &RunState {
        &self.timeline.state
    }

    /// Takes in what is new.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn poll(&mut self, source: &mut dyn Source) -> Result<(), SourceError> {
        for event in source.poll()? {
            self.take(event);
        }
        if let Some(record) = source.record() {
            self.timeline.state.conclude(&record);
            self.names.clear();
        }
        self.clock = source.clock();
        self.keep_names();
        Ok(())
    }

    fn take(&mut self, event: Event) {
        match event.kind {
            EventKind::Detail(detail) => {
                self.detail = Some(*detail);
                return;
            }
            EventKind::Nodes(_) | EventKind::Pairs(_) => self.names.clear(),
            _ => {}
        }
        self.timeline.apply(&event);
    }

    fn keep_names(&mut self) {
        let state = &self.timeline.state;
        // A stream of version 1 introduces pairs as it comes to them.
        if self.named_pairs != state.names.pairs.len() {
            self.named_pairs = state.names.pairs.len();
            self.names.clear();
        }
        if self.names.len() != state.workers.len() {
            for worker in state.workers.keys() {
                self.names
                    .entry(*worker)
                    .or_insert_with(|| state.name(*worker));
            }
        }
    }

    /// What a worker is called.
    pub(crate) fn name(&self, worker: WorkerId) -> &str {
        self.names.get(&worker).map_or("?", String::as_str)
    }

    /// Letters of the longest of these names.
    pub(crate) fn names_width(&self) -> usize {
        self.names
            .values()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0)
    }

    /// Who said a line.
    pub(crate) fn who_said(&self, line: &Line) -> String {
        match (line.worker, line.node) {
            (Some(worker), _) => self.name(worker).to_owned(),
            (None, Some(node)) => self.state().names.node(node),
            (None, None) => self.state().names.who(Who::Run),
        }
    }

    /// As late as anything is known.
    pub(crate) fn last_ns(&self) -> u64 {
        self.state().at_ns(self.state().now_ms)
    }

    /// Now, by the clock of the source.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.clock {
            Clock::Wall => now_us() * 1000,
            Clock::Events | Clock::Over => self.last_ns(),
        }
    }
}
