//! What processes say that they are: their rank, and the GPU of a rank.
//!
//! Nothing is wrong with one such line. Two that contradict each other tell why a job does not start, which NCCL only
//! says where it logs warnings, and PyTorch Lightning never.
#![forbid(unsafe_code)]

use super::seen::Place;
use std::collections::BTreeMap;

/// Most claims of one kind.
const CLAIMS_MAX: usize = 16_384;

/// A rank of a communicator in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankOfComm {
    /// NCCL's id of the communicator, the same on all ranks.
    pub comm_id: u64,
    pub speaker: u32,
    pub rank: u32,
}

/// A rank among all of a job, in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankOfJob {
    pub file: u32,
    pub ranks: u32,
    pub rank: u32,
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The last line of each with the PCI address of the GPU.
    gpus: BTreeMap<RankOfComm, (Place, u64)>,
    /// The first line of each, and how many there are.
    ranks: BTreeMap<RankOfJob, (Place, u64)>,
}

impl Claims {
    /// A rank begins to make a communicator on a GPU.
    pub(super) fn gpu(&mut self, of: RankOfComm, place: Place, bus: u64) {
        if self.gpus.len() < CLAIMS_MAX || self.gpus.contains_key(&of) {
            let known = self.gpus.entry(of).or_insert((place, bus));
            *known = (*known).max((place, bus));
        }
    }

    /// Lines of a process that say which rank it is.
    pub(super) fn rank(&mut self, of: RankOfJob, place: Place, count: u64) {
        if self.ranks.len() < CLAIMS_MAX || self.ranks.contains_key(&of) {
            let (first, known) = self.ranks.entry(of).or_insert((place, 0));
            (*first, *known) = (place.min(*first), *known + count);
        }
    }

    /// Adds the claims of another thread or file.
    pub(super) fn merge(&mut self, other: Self, number: impl Fn(u32) -> u32) {
        for (of, (place, bus)) in other.gpus {
            let speaker = number(of.speaker);
            self.gpu(RankOfComm { speaker, ..of }, place, bus);
        }
        for (of, (place, count)) in other.ranks {
            self.rank(of, place, count);
        }
    }

    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        let gpus = self.gpus.values_mut().map(|(place, _)| place);
        gpus.chain(self.ranks.values_mut().map(|(place, _)| place))
    }

    /// Every rank of a communicator, its line, and the PCI address of its GPU.
    pub(super) fn gpus(&self) -> impl Iterator<Item = (RankOfComm, Place, u64)> {
        self.gpus
            .iter()
            .map(|(of, (place, bus))| (*of, *place, *bus))
    }

    /// Every rank that processes say that they are, the first line, and the number of lines.
    pub(super) fn ranks(&self) -> impl Iterator<Item = (RankOfJob, Place, u64)> {
        self.ranks
            .iter()
            .map(|(of, (place, count))| (*of, *place, *count))
    }
}
