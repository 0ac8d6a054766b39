//! What the last collectives of all ranks tell beside each other: arguments that differ, and that all ranks are of one
//! host.
#![forbid(unsafe_code)]

use super::Compose;
use super::claims::claim;
use crate::calls::LastCall;
use crate::report::SignatureFinding;
use crate::tally::Speaker;
use std::collections::{BTreeMap, BTreeSet};

/// The finding on ranks that call one collective with other arguments.
const CALLS_DIFFER: &str = "collective-calls-differ";
/// What else it may be where only the number of ranks tells that the calls are of one communicator.
const OF_TWO: &str = "or the calls are of several communicators of as many ranks: the log has no id that tells them apart";
/// The arguments of a call, in their order.
const ARGUMENTS: [&str; 4] = ["counts", "data types", "operations", "roots"];
/// Processes that are named of one value, and values.
const NAMED_MAX: usize = 8;

/// Calls of the ranks of one communicator, each with its process.
type OfComm<'a> = Vec<(u32, &'a LastCall)>;

impl Compose<'_> {
    /// Ranks of one communicator whose last call is the same collective, with other arguments.
    pub(super) fn calls_differ(&self) -> Option<SignatureFinding> {
        let by_id = self.calls_by_id();
        if by_id.is_empty() {
            let mut finding = self.differ(&self.calls_of_all()?)?;
            finding.causes.push(OF_TWO.to_owned());
            return Some(finding);
        }
        by_id.into_values().find_map(|calls| self.differ(&calls))
    }

    /// The last calls of each communicator whose id the log has.
    fn calls_by_id(&self) -> BTreeMap<u64, OfComm<'_>> {
        let mut by = BTreeMap::<u64, OfComm<'_>>::new();
        for (speaker, comm, last) in self.tally.calls.iter() {
            let member = self.tally.members.get(&(speaker, comm));
            if let Some((_, member)) = member.filter(|(begun, _)| *begun < last.place) {
                by.entry(member.comm_id).or_default().push((speaker, last));
            }
        }
        by
    }

    /// The last calls of all ranks, where as many communicators are called as each of them has ranks, so they are one.
    fn calls_of_all(&self) -> Option<OfComm<'_>> {
        let calls = self.tally.calls.iter();
        let calls: OfComm<'_> = calls.map(|(speaker, _, last)| (speaker, last)).collect();
        let ranks = calls.first()?.1.call.ranks;
        let are_one = calls.len() as u64 == ranks
            && calls.iter().all(|(_, last)| last.call.ranks == ranks)
            && self.tally.most_ranks.is_none_or(|most| most <= ranks);
        are_one.then_some(calls)
    }

    /// The host of all ranks, and how many there are, where each calls a collective of the communicator that all share.
    pub(super) fn calls_of_one_host(&self) -> Option<(String, u32)> {
        let calls = self.calls_of_all()?;
        let host_of = |speaker: &u32| match self.tally.speakers.get_index(*speaker as usize) {
            Some(Speaker::Process { .. }) => self.named_host(*speaker),
            _ => None,
        };
        let hosts: Option<BTreeSet<String>> =
            calls.iter().map(|(speaker, _)| host_of(speaker)).collect();
        let host = hosts?.pop_first()?;
        let (hosts, _) = self.processes();
        (hosts.len() == 1).then_some((host, u32::try_from(calls.len()).ok()?))
    }

    fn differ(&self, calls: &OfComm<'_>) -> Option<SignatureFinding> {
        let number = calls.iter().map(|(_, last)| last.call.number).max()?;
        let of_last = calls.iter().filter(|(_, last)| last.call.number == number);
        let of_last: OfComm<'_> = of_last.copied().collect();
        let first = of_last
            .iter()
            .map(|(_, last)| last)
            .min_by_key(|one| one.place)?;
        let is_comparable =
            |last: &LastCall| last.call.name == first.call.name && !last.is_of_several;
        if !of_last.iter().all(|(_, last)| is_comparable(last)) {
            return None;
        }
        let (argument, by) = ARGUMENTS.iter().enumerate().find_map(|(at, name)| {
            let mut by = BTreeMap::<u64, Vec<String>>::new();
            for (speaker, last) in &of_last {
                by.entry(last.call.arguments[at])
                    .or_default()
                    .push(self.name(*speaker));
            }
            (by.len() > 1).then_some((name, by))
        })?;
        let values: Vec<String> = by
            .into_iter()
            .map(|(value, mut processes)| {
                processes.truncate(NAMED_MAX);
                format!("{value} on {}", processes.join(", "))
            })
            .take(NAMED_MAX)
            .collect();
        let (name, values) = (first.call.name, values.join("; "));
        let last = of_last.iter().map(|(_, last)| last.place).max()?;
        let processes: BTreeSet<String> = of_last.iter().map(|(one, _)| self.name(*one)).collect();
        Some(SignatureFinding {
            count: of_last.len() as u64,
            processes: processes.into_iter().collect(),
            last: self.place(last, None),
            causes: vec![
                "the program passes a size, a type or a root that is not the same on all ranks: a batch, a partition or a branch differs, so the collective never ends or mixes up data".to_owned(),
            ],
            next_step: Some(format!("compare what each rank passes to {name}: print the arguments on all ranks before the call")),
            sample: format!("{name}: opCount {number:x}: {argument} {values}"),
            ..claim(
                CALLS_DIFFER,
                format!("the ranks of a communicator call {name} number {number} with different {argument}: {values}"),
                self.place(first.place, None),
            )
        })
    }
}
