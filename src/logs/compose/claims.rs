//! Findings on ranks that contradict each other: two on one GPU, or two processes with one rank.
#![forbid(unsafe_code)]

use super::ranking::is_later;
use super::{Compose, shown};
use crate::catalogue::Values;
use crate::claims::{RankOfComm, RankOfJob};
use crate::loggers::regex;
use crate::reasons::NO_KERNEL;
use crate::report::{LinePlace, SignatureFinding, UNFINISHED_NCCL_INIT};
use crate::seen::Place;
use crate::signature::{Role, Severity};
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The finding on ranks that are jobs of their own.
pub(crate) const RANKS_ALONE: &str = "ranks-alone";
/// What to do where ranks are jobs of their own.
const BUILD_WITH_MPI: &str = "build nccl-tests with `make MPI=1` and the MPI of the launcher; `mpirun hostname` and the number of ranks in the program's first lines show whether they are one job";

/// NCCL's own finding on two ranks of one GPU, whose texts serve here too.
const DUPLICATE_GPU: &str = "duplicate-gpu";
/// The ranks and the GPU in the line of NCCL.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"rank (?P<first>\d+) and rank (?P<second>\d+) both on CUDA device (?P<device>[\da-f]+)")
});
/// Lines behind which ranks that share a GPU are meant to: its parts have one PCI address.
const OF_PARTS: [&str; 2] = ["mig-device", "mig-visible"];
/// A line of a job whose ranks have met.
const HAVE_MET: &str = "lightning-registered";
/// Ranks that are named.
const NAMED_MAX: usize = 16;

/// A rank on a GPU: its number, its process and its line.
type OnGpu = (u32, u32, Place);

impl Compose<'_> {
    /// Two ranks of a communicator on one GPU of one host, where a failure follows and no rank of the communicator
    /// got ready.
    pub(super) fn shared_gpu(&self, findings: &[SignatureFinding]) -> Option<SignatureFinding> {
        let is_told = findings.iter().any(|one| one.signature == DUPLICATE_GPU);
        if is_told || self.any_seen(&OF_PARTS.map(str::to_owned)) {
            return None;
        }
        let mut by = BTreeMap::<(u64, u32, String, u64), Vec<OnGpu>>::new();
        for (of, place, bus) in self.tally.claims.gpus() {
            if let Some(host) = self
                .named_host(of.speaker)
                .filter(|_| !self.is_ready(of.comm_id))
            {
                let key = (of.comm_id, place.file, host, bus);
                by.entry(key)
                    .or_default()
                    .push((of.rank, of.speaker, place));
            }
        }
        let found = by.into_iter().find_map(|((_, _, host, bus), mut ranks)| {
            ranks.sort_unstable();
            let first = *ranks.first()?;
            let second = *ranks.iter().find(|(rank, ..)| *rank != first.0)?;
            let place = self.place(first.2.max(second.2), None);
            let fails = |one: &SignatureFinding| {
                one.severity < Severity::Warning && is_later(&one.first, &place)
            };
            findings
                .iter()
                .any(fails)
                .then_some((host, bus, first, second))
        });
        let (host, bus, first, second) = found?;
        self.on_one_gpu(&host, bus, first, second)
    }

    /// Names the other pairs of ranks that share a GPU, and the host, where all are of one.
    pub(super) fn tell_of_pairs(&self, findings: &mut [SignatureFinding]) {
        let is_it = |one: &&mut SignatureFinding| one.signature == DUPLICATE_GPU;
        let Some(finding) = findings.iter_mut().find(is_it) else {
            return;
        };
        let (mut pairs, mut hosts) = (BTreeMap::new(), BTreeSet::new());
        for (speaker, lines) in self.lines_of(DUPLICATE_GPU) {
            hosts.insert(self.named_host(speaker));
            if let Some(found) = PAIR.captures(&lines.sample) {
                let mut ranks = [shown(&found["first"]), shown(&found["second"])];
                ranks.sort_by_key(|rank| (rank.len(), rank.clone()));
                pairs.insert(ranks, shown(&found["device"]));
            }
        }
        if let Some(found) = PAIR.captures(finding.sample.as_bytes()) {
            let [first, second] = ["first", "second"].map(|name| shown(&found[name]));
            pairs.remove(&[first.clone(), second.clone()]);
            pairs.remove(&[second, first]);
        }
        let others = pairs
            .iter()
            .take(NAMED_MAX)
            .map(|([first, second], device)| {
                format!("; ranks {first} and {second} use the same GPU (PCI {device})")
            });
        let others: String = others.collect();
        let (head, facts) = match finding.meaning.split_once("; ") {
            Some((head, facts)) => (head, format!("; {facts}")),
            None => (finding.meaning.as_str(), String::new()),
        };
        finding.meaning = format!("{head}{others}{facts}");
        let hosts: Vec<Option<String>> = hosts.into_iter().collect();
        if let [Some(host)] = hosts.as_slice() {
            super::hosts::add(finding, host);
        }
    }

    fn on_one_gpu(
        &self,
        host: &str,
        bus: u64,
        first: OnGpu,
        second: OnGpu,
    ) -> Option<SignatureFinding> {
        let signatures = self.catalogue.signatures.iter();
        let signature = signatures
            .into_iter()
            .find(|one| one.name == DUPLICATE_GPU)?;
        let mut values = Values::default();
        values.add("first", &first.0.to_string());
        values.add("second", &second.0.to_string());
        values.add("device", &format!("{bus:x}"));
        let place = |at: Place| self.place(at, None);
        Some(SignatureFinding {
            count: 2,
            processes: vec![self.name(first.1), self.name(second.1)],
            last: place(first.2.max(second.2)),
            causes: signature.causes.clone(),
            next_step: signature.next.clone(),
            sample: format!(
                "rank {} and rank {}: busId {bus:x} on {host}",
                first.0, second.0
            ),
            ..claim(
                DUPLICATE_GPU,
                values.fill(&signature.meaning),
                place(first.2.min(second.2)),
            )
        })
    }

    /// The host that a process's lines name, unless every host may have this name.
    pub(super) fn named_host(&self, speaker: u32) -> Option<String> {
        match self.tally.speakers.get_index(speaker as usize) {
            Some(Speaker::Process { host, .. }) if **host != *b"localhost" => Some(shown(host)),
            _ => None,
        }
    }

    pub(super) fn is_ready(&self, comm_id: u64) -> bool {
        let mut members = self.tally.members.values();
        members.any(|(_, member)| member.comm_id == comm_id)
    }

    /// Processes of one job that say that they are the same rank, where other ranks are missing and the job did not
    /// begin.
    pub(super) fn rank_announced_twice(&self) -> Option<SignatureFinding> {
        let mut jobs = BTreeMap::<(u32, u32), Vec<(RankOfJob, Place, u64)>>::new();
        for claim in self.tally.claims.ranks() {
            let (of, ..) = claim;
            jobs.entry((of.file, of.ranks)).or_default().push(claim);
        }
        let has_begun = |file: u32| {
            let mut complete = self.tally.init_complete.values();
            complete.any(|place| place.file == file) || self.any_seen(&[HAVE_MET.to_owned()])
        };
        jobs.into_iter()
            .filter(|((file, _), _)| !has_begun(*file) && !self.tally.claims.is_cut(*file))
            .find_map(|((_, all), claims)| self.announced_twice(all, &claims))
    }

    fn announced_twice(
        &self,
        all: u32,
        claims: &[(RankOfJob, Place, u64)],
    ) -> Option<SignatureFinding> {
        let said: BTreeSet<u32> = claims.iter().map(|(of, ..)| of.rank).collect();
        let twice = claims.iter().filter(|(.., count)| *count > 1);
        let place = twice.clone().map(|(_, place, _)| *place).min()?;
        let missing = (0..all).filter(|rank| !said.contains(rank));
        let missing = list(missing);
        if missing.is_empty() {
            return None;
        }
        let ranks = list(twice.map(|(of, ..)| of.rank));
        let meaning = format!(
            "several processes say that they are rank {ranks} of {all}, and none is rank {missing}"
        );
        Some(SignatureFinding {
            count: claims.iter().map(|(.., count)| *count).sum(),
            causes: vec![
                "the launcher starts each process as a job of its own, without the number that the program reads as its rank".to_owned(),
                "one job was started several times, and its starts are in one log".to_owned(),
            ],
            next_step: Some("print the rank and the host of each process at its start; start as many tasks per node as the program has devices there (`srun --ntasks-per-node`), or let torchrun start them".to_owned()),
            sample: format!("rank {ranks} of {all}"),
            ..claim("rank-announced-twice", meaning, self.place(place, None))
        })
    }
}

/// Communicators that are named where ranks begin different ones.
const IDS_NAMED: usize = 4;
const OTHER_IDS: &str = "the ranks have different ids of the communicator, so they wait for each other in different places: a process group was made again on some ranks only, or a rank read the id of an earlier one";
const COMPARE_IDS: &str = "let all ranks destroy and make the process group together, with a prefix of its own in the store; compare the ids in the lines `Init START` of all ranks";

impl Compose<'_> {
    /// Names the ids where the log ends while all its processes, which are all ranks of one job, make communicators
    /// with different ids.
    pub(super) fn tell_of_other_ids(&self, findings: &mut [SignatureFinding]) {
        let mut last = BTreeMap::<u32, (Place, RankOfComm)>::new();
        for (of, place, _) in self.tally.claims.gpus() {
            let known = last.entry(of.speaker).or_insert((place, of));
            *known = (*known).max((place, of));
        }
        let is_open = |(place, of): &&(Place, RankOfComm)| {
            let done = self.tally.members.get(&(of.speaker, of.comm_id));
            done.is_none_or(|(done, _)| done < place)
        };
        let open: Vec<RankOfComm> = last.values().filter(is_open).map(|(_, of)| *of).collect();
        let mut ids = BTreeMap::<u64, BTreeSet<u32>>::new();
        for of in &open {
            ids.entry(of.comm_id).or_default().insert(of.rank);
        }
        let ranks: BTreeSet<u32> = open.iter().map(|of| of.rank).collect();
        let all = open.first().map_or(0, |of| of.ranks);
        let is_whole = open.len() == last.len()
            && open.len() == all as usize
            && ranks.len() == open.len()
            && open.iter().all(|of| of.ranks == all);
        let is_its = |one: &&mut SignatureFinding| one.signature == UNFINISHED_NCCL_INIT;
        let Some(finding) = findings.iter_mut().find(is_its) else {
            return;
        };
        if !is_whole || !(2..=IDS_NAMED).contains(&ids.len()) {
            return;
        }
        for (id, ranks) in ids {
            let ranks = list(ranks.into_iter());
            finding.meaning = format!("{}; rank {ranks} begins with id {id:#x}", finding.meaning);
        }
        finding.causes.insert(0, OTHER_IDS.to_owned());
        finding.next_step = Some(COMPARE_IDS.to_owned());
    }

    /// Processes of nccl-tests on several hosts whose communicators all have one rank: nothing is sent between them.
    pub(super) fn ranks_alone(&self) -> Option<SignatureFinding> {
        self.listed_alone().or_else(|| self.made_alone())
    }

    /// Tables of nccl-tests with the rank 0 of each of several hosts, before the first row.
    fn listed_alone(&self) -> Option<SignatureFinding> {
        let (hosts, ranks) = self.tally.claims.listed_hosts()?;
        let table = self.tally.ends.tables_without_rows().next()?;
        if hosts.len() < 2 || ranks != 1 {
            return None;
        }
        let signatures = &self.catalogue.signatures;
        let number = signatures.iter().position(|one| one.name == OF_TESTS)?;
        let listed = self.tally.seen.iter();
        let listed = listed.filter(|((of, _), _)| *of as usize == number);
        let (_, first) = listed.min_by_key(|(_, seen)| seen.first)?;
        let meaning = format!(
            "each of {} processes of nccl-tests is a job of its own, with rank 0 alone, so nothing is sent between them",
            hosts.len()
        );
        let hosts: Vec<String> = hosts.into_iter().map(shown).collect();
        Some(SignatureFinding {
            count: hosts.len() as u64,
            processes: vec![self.name(table.speaker)],
            causes: vec![
                "nccl-tests was built without MPI, so each process that mpirun starts runs the test on its own GPU alone".to_owned(),
                "it was built with another MPI than the one whose mpirun started it".to_owned(),
            ],
            next_step: Some(BUILD_WITH_MPI.to_owned()),
            sample: format!("rank 0 alone on {}", hosts.join(", ")),
            // Two tests that were meant to be apart look the same where a log is cut in their heads.
            severity: Severity::Warning,
            ..claim(RANKS_ALONE, meaning, self.place(first.first, None))
        })
    }

    fn made_alone(&self) -> Option<SignatureFinding> {
        let complete = self.tally.members.iter();
        let complete = complete.map(|((speaker, _), (place, of))| (*speaker, *place, of.ranks));
        let begun = self.tally.claims.gpus();
        let begun = begun.map(|(of, place, _)| (of.speaker, place, of.ranks));
        let members: Vec<(u32, Place, u32)> = complete.chain(begun).collect();
        let are_alone = members.iter().all(|(.., ranks)| *ranks == 1);
        if !are_alone || !self.any_seen(&[OF_TESTS.to_owned()]) {
            return None;
        }
        let processes: BTreeSet<u32> = members.iter().map(|(speaker, ..)| *speaker).collect();
        let hosts: BTreeSet<String> = processes
            .iter()
            .filter_map(|speaker| self.named_host(*speaker))
            .collect();
        let place = members.iter().map(|(_, place, _)| *place).min()?;
        if hosts.len() < 2 {
            return None;
        }
        let meaning = format!(
            "{} processes on {} hosts each made a communicator of one rank, so nothing is sent between them",
            processes.len(),
            hosts.len()
        );
        Some(SignatureFinding {
            count: processes.len() as u64,
            processes: processes.iter().map(|one| self.name(*one)).collect(),
            causes: vec![
                "the launcher started each process as a job of its own: nccl-tests was built without MPI, or mpirun's settings did not reach it".to_owned(),
            ],
            next_step: Some(BUILD_WITH_MPI.to_owned()),
            sample: format!("rank 0 of 1 on {}", hosts.into_iter().collect::<Vec<_>>().join(", ")),
            ..claim(RANKS_ALONE, meaning, self.place(place, None))
        })
    }

    /// Names the kind of the GPUs, as PyTorch or nccl-tests tells it, where a library has no kernel for it.
    pub(super) fn tell_of_gpu_kind(&self, findings: &mut [SignatureFinding]) {
        let kind_in = |name: &&str| {
            let mut signatures = self.catalogue.signatures.iter();
            let number = signatures.position(|one| one.name == *name)?;
            let seen = self.tally.seen.iter();
            let seen = seen.filter(|((of, _), _)| *of as usize == number);
            let (_, first) = seen.min_by_key(|(_, seen)| seen.first)?;
            let values = self.catalogue.values(number, &first.sample);
            let gpu = values.get("gpu").filter(|gpu| !gpu.is_empty())?;
            Some(match values.get("kind") {
                Some(kind) => format!("{gpu}, {kind}"),
                None => gpu.to_owned(),
            })
        };
        let Some(kind) = [UNSUPPORTED, OF_TESTS].iter().find_map(kind_in) else {
            return;
        };
        let has_none =
            |one: &&mut SignatureFinding| one.causes.iter().any(|cause| cause == NO_KERNEL);
        for finding in findings.iter_mut().filter(has_none) {
            finding.meaning = format!("{}; the GPUs are {kind}", finding.meaning);
        }
        let name = |number: u32| Some(&self.catalogue.signatures.get(number as usize)?.name);
        let of_tests = self.tally.seen.iter();
        let of_tests =
            of_tests.filter(|((of, _), _)| name(*of).is_some_and(|name| name == OF_TESTS));
        let ranks: u64 = of_tests.map(|(_, seen)| seen.count).sum();
        let fails = |one: &&mut SignatureFinding| one.sample.contains(TEST_FAILED);
        if let Some(finding) = findings.iter_mut().find(fails).filter(|_| ranks > 0) {
            finding.meaning = format!(
                "{}; nccl-tests lists {ranks} ranks, the first on {kind}",
                finding.meaning
            );
        }
    }
}

/// A line of PyTorch on a GPU for which it has no kernels.
const UNSUPPORTED: &str = "torch-gpu-unsupported";
/// What nccl-tests writes of a call of CUDA that failed.
const TEST_FAILED: &str = ": Test CUDA failure";
/// A line of nccl-tests on a rank.
const OF_TESTS: &str = "nccl-tests-rank";

/// A finding on claims that contradict each other; what to do about it is to be added.
pub(super) fn claim(signature: &str, meaning: String, place: LinePlace) -> SignatureFinding {
    SignatureFinding {
        signature: signature.to_owned(),
        severity: Severity::Error,
        role: Role::Cause,
        count: 1,
        processes: vec![place.file.clone()],
        first: place.clone(),
        last: place,
        phase: None,
        meaning,
        causes: Vec::new(),
        next_step: None,
        versions: "any".to_owned(),
        polls: None,
        sample: String::new(),
        before: Vec::new(),
        after: None,
    }
}

fn list(ranks: impl Iterator<Item = u32>) -> String {
    let ranks: Vec<String> = ranks.take(NAMED_MAX).map(|rank| rank.to_string()).collect();
    ranks.join(", ")
}
