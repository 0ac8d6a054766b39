//! Two nodes, through the agents there.
#![forbid(unsafe_code)]

use super::source::{Source, SourceError};
use crate::coord::Watching;
use crate::diagnose::Watcher;
use tcpx_run_model::record::live::{ChannelKey, Title, Update};
use tcpx_words::units::now_us;

/// Both ends of what `--peer` names.
pub(crate) struct Peer {
    watching: Watching,
    title: Option<Update>,
    watcher: Watcher,
}

impl Peer {
    /// `name` is what its user calls the pair.
    pub(crate) fn new(watching: Watching, name: String) -> Self {
        let title = Title { name, started_ns: now_us() * 1000, ..Title::default() };
        Self { watching, title: Some(Update::Title(title)), watcher: Watcher::default() }
    }
}

impl Source for Peer {
    fn poll(&mut self, updates: &mut Vec<Update>) -> Result<(), SourceError> {
        updates.extend(self.title.take());
        self.watching.look(updates).map_err(|what| SourceError::Lost { what })?;
        self.watcher.add_to(updates);
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        Some(now_us() * 1000)
    }

    fn want(&mut self, channel: Option<ChannelKey>) {
        self.watching.want(channel);
    }
}
