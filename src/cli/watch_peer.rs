//! The recorders of running processes on the nodes of `--peer`, read by agents there.
#![forbid(unsafe_code)]

use tcpx_coord::Watching;
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::Event;
use tcpx_run_model::ids::Names;
use tcpx_run_model::state::RunState;
use tcpx_tui::watch::{Beginning, Clock, JudgedSource, Source, SourceError};

/// The nodes that `--peer` names.
pub(crate) struct Peer {
    watching: Watching,
    title: String,
}

impl Peer {
    /// `title` names the nodes as the user typed them.
    pub(crate) fn judged(watching: Watching, title: String) -> JudgedSource<Self> {
        JudgedSource::new(Self { watching, title })
    }
}

impl Source for Peer {
    fn begin(&self) -> Beginning {
        let names = Names {
            nodes: self.watching.nodes().to_vec(),
            pairs: Vec::new(),
        };
        Beginning {
            title: self.title.clone(),
            state: RunState {
                names,
                ..RunState::default()
            },
        }
    }

    fn poll(&mut self) -> Result<Vec<Event>, SourceError> {
        let mut events = Vec::new();
        self.watching
            .look(&mut events)
            .map_err(|what| SourceError::Lost { what })?;
        Ok(events)
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }

    fn focus(&mut self, channel: Option<&ChannelKey>, _state: &RunState) {
        self.watching.want(channel.cloned());
    }
}
