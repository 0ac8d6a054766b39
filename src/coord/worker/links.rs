//! The bootstrap connections of one worker: one per GPU, or a single one for host memory.
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicBool;
use tcpx_bootstrap::{BootstrapError, Deadline, Handle, PeerLink};
use tcpx_words::error::Outcome;

/// The connections in the order of the task's GPUs.
pub(super) struct PeerLinks(pub(super) Vec<PeerLink>);

impl PeerLinks {
    /// Returns when both ends have reached the barrier on every connection.
    pub(super) fn barrier(
        &mut self,
        name: &str,
        payload: u64,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<(), BootstrapError> {
        self.0
            .iter_mut()
            .try_for_each(|link| link.barrier(name, payload, deadline, stop).map(drop))
    }

    /// Sends each GPU's connect handles over its own connection, and receives `expected` handles on
    /// each.
    pub(super) fn exchange_handles(
        &mut self,
        mine: &[Handle],
        expected: usize,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<Vec<Handle>, BootstrapError> {
        let each = mine.len() / self.0.len().max(1);
        let mut theirs = Vec::new();
        for (at, link) in self.0.iter_mut().enumerate() {
            theirs.extend(link.exchange_handles(
                &mine[at * each..][..each],
                expected,
                deadline,
                stop,
            )?);
        }
        Ok(theirs)
    }

    /// Sends the peer the reason why this end gives up, on every connection.
    pub(super) fn abort(self, outcome: Outcome, reason: &str) {
        self.0
            .into_iter()
            .for_each(|link| link.abort(outcome, reason));
    }

    /// Closes every connection; a peer that has closed first is not an error.
    pub(super) fn close(self, deadline: Deadline, stop: &AtomicBool) {
        self.0
            .into_iter()
            .for_each(|link| drop(link.close(deadline, stop)));
    }
}
