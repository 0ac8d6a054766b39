//! The bootstrap connections of one worker: one per lane.
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicBool;
use tcpx_bootstrap::{BootstrapError, Deadline, Handle, PeerLink};
use tcpx_run_model::lanes::LaneChannels;
use tcpx_words::error::Outcome;

/// The connections in the order of the task's lanes.
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

    /// Sends each lane's connect handles over its own connection, and, if this end `connects`,
    /// receives one for each of its channels.
    pub(super) fn exchange_handles(
        &mut self,
        mine: &[Handle],
        connects: bool,
        channels: &LaneChannels,
        deadline: Deadline,
        stop: &AtomicBool,
    ) -> Result<Vec<Handle>, BootstrapError> {
        let mut theirs = Vec::new();
        for (lane, link) in self.0.iter_mut().enumerate() {
            let of_lane = channels.channels(lane);
            let expected = if connects { of_lane.len() } else { 0 };
            // An end that does not receive has no handles.
            let mine = mine.get(of_lane).unwrap_or_default();
            theirs.extend(link.exchange_handles(mine, expected, deadline, stop)?);
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
