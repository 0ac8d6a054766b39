//! The model of the view: the run over time, and the details of one channel.
//!
//! The timeline folds the events. All times are those of the events, except that a live source
//! goes by the clock of this machine.
#![forbid(unsafe_code)]

use super::mesh::MeshNow;
use super::source::{Beginning, Clock, Source, SourceError};
use std::collections::BTreeMap;
use tcpx_run_model::counters::ChannelDetail;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Who, WorkerId};
use tcpx_run_model::state::RunState;
use tcpx_run_model::timeline::{Timeline, TimelineLine};
use tcpx_words::units::now_us;

#[derive(Debug)]
pub(crate) struct Model {
    /// Name of the scenario, process or machine.
    pub(crate) title: String,
    pub(crate) timeline: Timeline,
    /// The newest details of the channel in focus.
    pub(crate) detail: Option<ChannelDetail>,
    /// The pairs of a mesh; empty with two nodes.
    mesh: MeshNow,
    /// Whether `mesh` is that of the run's end.
    is_mesh_whole: bool,
    /// What the record of the run lacks, in words.
    pub(crate) lost: Vec<String>,
    /// The clock of the source.
    pub(crate) clock: Clock,
    /// When the last poll began, in nanoseconds since 1970.
    polled_ns: u64,
    /// Cache of `timeline.state.name` for each worker, which is slow with many pairs.
    names: BTreeMap<WorkerId, String>,
    /// Number of pairs when `names` was filled.
    named_pairs: usize,
}

impl Model {
    pub(crate) fn new(beginning: Beginning) -> Self {
        Self {
            title: beginning.title,
            timeline: Timeline::from_state(beginning.state),
            detail: None,
            mesh: MeshNow::default(),
            is_mesh_whole: false,
            lost: Vec::new(),
            clock: Clock::Wall,
            polled_ns: 0,
            names: BTreeMap::new(),
            named_pairs: 0,
        }
    }

    /// A model after these events.
    #[cfg(test)]
    pub(crate) fn after(beginning: Beginning, events: impl IntoIterator<Item = Event>) -> Self {
        let mut model = Self::new(beginning);
        events.into_iter().for_each(|event| model.take(event));
        model.keep_names();
        model.keep_mesh();
        model
    }

    pub(crate) fn state(&self) -> &RunState {
        &self.timeline.state
    }

    /// Applies the new events of a source.
    ///
    /// # Errors
    /// The source fails.
    pub(crate) fn poll(&mut self, source: &mut dyn Source) -> Result<(), SourceError> {
        self.polled_ns = now_us() * 1000;
        for event in source.poll()? {
            self.take(event);
        }
        if let Some(record) = source.record() {
            self.timeline.state.conclude(&record);
            self.lost = source.lost().to_vec();
            self.names.clear();
        }
        self.clock = source.clock();
        self.keep_names();
        self.keep_mesh();
        Ok(())
    }

    fn keep_mesh(&mut self) {
        let state = &self.timeline.state;
        if state.is_mesh() {
            // Of a run that is over, the last picture stays.
            let is_over = state.ended.is_some();
            if !(is_over && self.is_mesh_whole) {
                self.mesh.refresh(state, is_over);
            }
            self.is_mesh_whole = is_over;
        }
    }

    /// The pairs of a mesh and their rates.
    pub(crate) fn mesh(&self) -> &MeshNow {
        &self.mesh
    }

    /// Whether this is a run of a mesh.
    pub(crate) fn is_mesh(&self) -> bool {
        self.state().is_mesh()
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
        // An event stream of version 1 introduces a pair with the pair's first event.
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

    /// The display name of a worker.
    pub(crate) fn name(&self, worker: WorkerId) -> &str {
        self.names.get(&worker).map_or("?", String::as_str)
    }

    /// Number of characters of the longest worker name.
    pub(crate) fn names_width(&self) -> usize {
        self.names
            .values()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0)
    }

    /// The display name of a log line's origin.
    pub(crate) fn who_said(&self, line: &TimelineLine) -> String {
        match (line.worker, line.node) {
            (Some(worker), _) => self.name(worker).to_owned(),
            (None, Some(node)) => self.state().names.node(node),
            (None, None) => self.state().names.who(Who::Run),
        }
    }

    /// Time of the newest event, in nanoseconds since 1970.
    pub(crate) fn last_ns(&self) -> u64 {
        self.state().at_ns(self.state().now_ms)
    }

    /// The time by the clock of the source, in nanoseconds since 1970. That of a live one is when it
    /// was polled: the time that the rules and this program's wait for a CPU take after the counters
    /// were read is no time in which nothing moved.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.clock {
            Clock::Wall => self.polled_ns.max(self.last_ns()),
            Clock::Events | Clock::Reading(_) | Clock::Over => self.last_ns(),
        }
    }
}
