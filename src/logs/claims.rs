//! What processes say that they are: their rank, and the GPU of a rank.
//!
//! Nothing is wrong with one such line. Two that contradict each other tell why a job does not start, which NCCL only
//! says where it logs warnings, and PyTorch Lightning never.
#![forbid(unsafe_code)]

use super::seen::Place;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Most claims of one kind.
const CLAIMS_MAX: usize = 16_384;
/// Most processes that are told apart of one rank.
const PROCESSES_MAX: usize = 8;

/// A rank of a communicator in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankOfComm {
    /// NCCL's id of the communicator, the same on all ranks.
    pub comm_id: u64,
    pub speaker: u32,
    pub rank: u32,
    /// How many ranks the communicator has; 0 if the line does not say.
    pub ranks: u32,
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
    /// Which processes say that they are a rank.
    ranks: BTreeMap<RankOfJob, Claimants>,
    /// The tables of all ranks of a job, in each file that has one.
    tables: BTreeMap<u32, RankTable>,
    /// Files from which lines were left out because others repeat them, as Ray does.
    cut: BTreeSet<u32>,
}

/// The ranks that the tables of a file list, by their host.
#[derive(Debug, Default)]
struct RankTable {
    /// At most `PROCESSES_MAX`: all that is asked of more is whether there are several.
    hosts: BTreeMap<Box<[u8]>, BTreeSet<u32>>,
    has_more: bool,
}

impl RankTable {
    fn row(&mut self, rank: u32, host: Box<[u8]>) {
        let ranks = self.hosts.entry(host).or_default();
        if ranks.len() < CLAIMS_MAX {
            ranks.insert(rank);
        }
        while self.hosts.len() > PROCESSES_MAX {
            self.has_more = true;
            self.hosts.pop_last();
        }
    }

    /// How many ranks each host has, where every host has the same, from the first one on: those of a job of its own.
    fn ranks_of_each(&self) -> Option<usize> {
        let sizes: BTreeSet<usize> = self.hosts.values().map(BTreeSet::len).collect();
        let is_whole = |ranks: &BTreeSet<u32>| {
            let last = ranks.last();
            last.is_some_and(|last| *last as usize + 1 == ranks.len())
        };
        let size = sizes.first().filter(|_| sizes.len() == 1)?;
        (!self.has_more && self.hosts.values().all(is_whole)).then_some(*size)
    }
}

/// The processes that say that they are one rank.
#[derive(Debug)]
struct Claimants {
    /// The first line.
    first: Place,
    /// Lines that do not name their process: each may be of another one.
    nameless: u64,
    /// Processes that a launcher names before the line, which may write it several times.
    named: BTreeSet<Box<[u8]>>,
}

impl Claims {
    /// A rank begins to make a communicator on a GPU.
    pub(super) fn gpu(&mut self, of: RankOfComm, place: Place, bus: u64) {
        if self.gpus.len() < CLAIMS_MAX || self.gpus.contains_key(&of) {
            let known = self.gpus.entry(of).or_insert((place, bus));
            *known = (*known).max((place, bus));
        }
    }

    /// A line of a process that says which rank it is; `process` is what a launcher calls the process.
    pub(super) fn rank(&mut self, of: RankOfJob, place: Place, process: Option<&[u8]>) {
        let named = process.map(Box::from).into_iter().collect();
        let nameless = u64::from(process.is_none());
        self.claim(
            of,
            Claimants {
                first: place,
                nameless,
                named,
            },
        );
    }

    /// A row of a table of all ranks of a job.
    pub(super) fn listed(&mut self, file: u32, rank: u32, host: &[u8]) {
        let table = self.tables.entry(file).or_default();
        table.row(rank, host.into());
    }

    /// Whether a table lists several hosts.
    pub(super) fn lists_hosts(&self) -> bool {
        self.tables.values().any(|one| one.hosts.len() > 1)
    }

    /// The hosts that have all ranks of a job each, and how many, if every table is of one host.
    pub(super) fn listed_hosts(&self) -> Option<(BTreeSet<&[u8]>, u32)> {
        let of = self.tables.values().map(RankTable::ranks_of_each);
        let sizes: Option<Vec<usize>> = of.collect();
        let hosts = self.tables.values().flat_map(|one| one.hosts.keys());
        let ranks = sizes?.into_iter().max()?;
        Some((
            hosts.map(|host| &**host).collect(),
            u32::try_from(ranks).ok()?,
        ))
    }

    fn claim(&mut self, of: RankOfJob, more: Claimants) {
        if self.ranks.len() >= CLAIMS_MAX && !self.ranks.contains_key(&of) {
            return;
        }
        match self.ranks.entry(of) {
            Entry::Vacant(empty) => {
                empty.insert(more);
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.first = known.first.min(more.first);
                known.nameless += more.nameless;
                known.named.extend(more.named);
                while known.named.len() > PROCESSES_MAX {
                    known.named.pop_last();
                }
            }
        }
    }

    /// Lines of a file were left out because others repeat them.
    pub(super) fn cut(&mut self, file: u32) {
        self.cut.insert(file);
    }

    /// Whether lines of a file were left out.
    pub(super) fn is_cut(&self, file: u32) -> bool {
        self.cut.contains(&file)
    }

    /// Adds the claims of another thread or file.
    pub(super) fn merge(&mut self, other: Self, number: impl Fn(u32) -> u32) {
        for (of, (place, bus)) in other.gpus {
            let speaker = number(of.speaker);
            self.gpu(RankOfComm { speaker, ..of }, place, bus);
        }
        for (of, claimants) in other.ranks {
            self.claim(of, claimants);
        }
        for (file, table) in other.tables {
            let into = self.tables.entry(file).or_default();
            into.has_more |= table.has_more;
            for (host, ranks) in table.hosts {
                ranks
                    .into_iter()
                    .for_each(|rank| into.row(rank, host.clone()));
            }
        }
        self.cut.extend(other.cut);
    }

    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        let gpus = self.gpus.values_mut().map(|(place, _)| place);
        gpus.chain(self.ranks.values_mut().map(|one| &mut one.first))
    }

    /// Every rank of a communicator, its line, and the PCI address of its GPU.
    pub(super) fn gpus(&self) -> impl Iterator<Item = (RankOfComm, Place, u64)> {
        self.gpus
            .iter()
            .map(|(of, (place, bus))| (*of, *place, *bus))
    }

    /// Every rank that processes say that they are, the first line, and how many processes it may be.
    pub(super) fn ranks(&self) -> impl Iterator<Item = (RankOfJob, Place, u64)> {
        self.ranks
            .iter()
            .map(|(of, one)| (*of, one.first, one.nameless + one.named.len() as u64))
    }
}
