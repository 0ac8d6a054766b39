//! Runs the rules on the events of a source that has no coordinator to do so.
#![forbid(unsafe_code)]

use super::source::{Beginning, Clock, Source, SourceError};
use tcpx_diagnose::Watcher;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::Who;
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::state::RunState;

/// A source with the findings of the rules added to its events.
pub struct JudgedSource<S> {
    source: S,
    state: RunState,
    watcher: Watcher,
}

impl<S: Source> JudgedSource<S> {
    /// Adds findings to the events of `source`.
    pub fn new(source: S) -> Self {
        let state = source.begin().state;
        Self {
            source,
            state,
            watcher: Watcher::default(),
        }
    }
}

impl<S: Source> Source for JudgedSource<S> {
    fn begin(&self) -> Beginning {
        self.source.begin()
    }

    fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = self.source.poll()?;
        events.iter().for_each(|event| self.state.apply(event));
        if let Some(findings) = self.watcher.look(&self.state) {
            events.push(Event::new(
                self.state.now_ms,
                Who::Run,
                EventKind::Findings(findings),
            ));
        }
        Ok(events)
    }

    fn record(&mut self) -> Option<Box<RunRecord>> {
        self.source.record()
    }

    fn lost(&self) -> &[String] {
        self.source.lost()
    }

    fn clock(&self) -> Clock {
        self.source.clock()
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, state: &RunState) {
        self.source.focus(channel, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::ids::{NodeId, Unit, WorkerId};
    use tcpx_words::side::Side;

    /// A source of samples of one receive channel that does not change.
    struct Standing(u64);

    impl Source for Standing {
        fn begin(&self) -> Beginning {
            Beginning {
                title: "standing".into(),
                state: RunState::default(),
            }
        }

        fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
            self.0 += 100;
            let worker = WorkerId {
                node: NodeId(0),
                unit: Unit::Process {
                    pid: 7,
                    recorder: 0,
                },
            };
            let one = ChannelNow {
                side: Side::Recv,
                posted: 16,
                tests: 9,
                quiet_ms: self.0,
                ..ChannelNow::default()
            };
            Ok(vec![Event::new(
                self.0 as f64,
                Who::Worker(worker),
                EventKind::Sample(vec![one]),
            )])
        }

        fn clock(&self) -> Clock {
            Clock::Wall
        }
    }

    #[test]
    fn a_stall_is_found_once() {
        let mut source = JudgedSource::new(Standing(0));
        let mut found = Vec::new();
        for _ in 0..80 {
            for event in source.poll().expect("events") {
                if let EventKind::Findings(findings) = event.kind {
                    found.push(findings);
                }
            }
        }
        assert!(
            matches!(&found[..], [one] if one[0].condition == "local-loop-starved"),
            "{found:?}"
        );
    }
}
