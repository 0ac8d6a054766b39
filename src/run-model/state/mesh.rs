//! The pairs of a mesh at this moment: which wait, run, ended or failed, and their rates so far.
#![forbid(unsafe_code)]

use super::{RunState, WorkerState};
use crate::counters::NetworkUse;
use crate::ids::{NodeId, PairId, PairIntro};
use crate::record::MeshCell;
use tcpx_words::side::Side;

/// How far a pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PairProgress {
    /// Its workers have not started.
    Waiting,
    /// A worker has not ended its transfer.
    Running,
    /// It was measured.
    Measured,
    /// A worker failed, or ended without a result.
    Failed,
}

impl RunState {
    /// Whether this is a run of a mesh, whose pairs come in rounds.
    pub fn is_mesh(&self) -> bool {
        self.names.pairs.iter().any(|pair| pair.round.is_some())
    }

    /// How far a pair is, and the rate of each direction that it has measured.
    pub fn pair_rates(&self, id: PairId, pair: &PairIntro) -> (PairProgress, Vec<MeshCell>) {
        let ends = self.ends(id);
        let rail = pair.rail.as_ref().map_or(0, |rail| rail.number);
        let has_failed = ends.iter().flatten().any(|worker| has_failed(worker));
        let is_measured =
            |end: &Option<&WorkerState>| end.is_some_and(|end| end.transfer.is_some());
        let progress = if has_failed {
            PairProgress::Failed
        } else if ends.iter().all(is_measured) {
            PairProgress::Measured
        } else if ends.iter().any(Option::is_some) {
            PairProgress::Running
        } else {
            PairProgress::Waiting
        };
        let [first, second] = pair.nodes;
        let directions = [(second, first, [1, 0]), (first, second, [0, 1])];
        let cell = |(from, to, [sender, receiver]): (NodeId, NodeId, [usize; 2])| {
            let rate = ends[receiver].and_then(received_gb_per_s);
            let sent = ends[sender].and_then(|end| end.transfer.as_ref()?.network.as_ref());
            let gb_per_s = match progress {
                PairProgress::Measured => Some(rate?),
                PairProgress::Failed => None,
                PairProgress::Waiting | PairProgress::Running => return None,
            };
            Some(MeshCell {
                from,
                to,
                rail,
                gb_per_s,
                segments: sent.and_then(NetworkUse::segments),
            })
        };
        (progress, directions.into_iter().filter_map(cell).collect())
    }
}

fn has_failed(worker: &WorkerState) -> bool {
    worker.failure.is_some() || worker.exit.is_some() && worker.transfer.is_none()
}

/// What a worker received in its measured iterations; `None` if it only sends.
fn received_gb_per_s(worker: &WorkerState) -> Option<f64> {
    let result = worker.transfer.as_deref()?;
    let received = result.channels.iter().filter(|one| one.side == Side::Recv);
    let bytes = received.fold(0u64, |sum, one| sum.saturating_add(one.tally.bytes));
    let measured = result.iterations.iter().filter(|one| !one.warmup);
    let ns = measured.fold(0u64, |sum, one| sum.saturating_add(one.nanoseconds));
    (bytes > 0 && ns > 0).then(|| bytes as f64 / ns as f64)
}
