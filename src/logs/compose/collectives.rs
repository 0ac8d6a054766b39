//! What a collective of PyTorch that did not end is told with: its process group, and how far its ranks are.
#![forbid(unsafe_code)]

use super::{Compose, TIMEOUT, shown};
use crate::report::SignatureFinding;
use crate::signature::{Role, Severity};
use crate::tally::{Group, Speaker, Wait};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// PyTorch's lines on how far a rank is, which it writes beside what failed.
const PROGRESS: [&str; 4] = [
    "watchdog-progress",
    "watchdog-work-failed",
    "dump-signal-own",
    "dump-signal-of-rank",
];
/// How the names of those begin that tell of a collective without naming it.
const SIGNAL: &str = "dump-signal-";
/// PyTorch's lines on a collective that failed.
const FAILED: [&str; 2] = [TIMEOUT, "torch-async-exception"];
const COMPLETED: &str = " completed ";
/// The number of the collective that failed, in a line on how far the rank is.
static OF_WORK: LazyLock<Regex> =
    LazyLock::new(|| crate::loggers::regex(r"\bwork(?: sequence id)?: (?P<number>\d+)[, ]"));
/// The group of all ranks, and one whose line does not name it.
const OF_ALL: [&[u8]; 4] = [b"", b"0", b"0(default_pg)", b"0 (default_pg)"];

/// Added to a finding for each other process of a rank, and the most of them.
const OTHER_PROCESS: &str =
    "another process of rank {rank}, pid {pid}, gave up on {operation} number {number}";
const OTHERS_MAX: usize = 4;

impl Compose<'_> {
    /// The process group of a wait. Some releases name it only in another line, on how far the rank is.
    fn group_of(&self, speaker: u32, wait: &Wait) -> Vec<u8> {
        let groups = self.tally.progress.keys().filter_map(|key| match key {
            (of, Group::Torch(name)) if *of == speaker && !name.is_empty() => Some(name.to_vec()),
            _ => None,
        });
        let groups: BTreeSet<Vec<u8>> = groups.collect();
        let failed = self.tally.failed_groups.get(&(speaker, wait.sequence));
        if let Some((_, name)) = failed.filter(|_| wait.group.is_empty()) {
            return name.clone();
        }
        match groups.first() {
            Some(only) if wait.group.is_empty() && groups.len() == 1 => only.clone(),
            _ => wait.group.clone(),
        }
    }

    /// Whether each rank that waits does so in the group of all ranks. The members of others are not known.
    pub(super) fn wait_is_of_all(&self) -> bool {
        let mut waits = self.tally.collectives.iter();
        waits.all(|(speaker, (_, wait))| OF_ALL.contains(&self.group_of(*speaker, wait).as_slice()))
    }

    /// The last collective that each rank says it started in the group of all ranks.
    pub(super) fn started(&self) -> BTreeMap<u32, u64> {
        let mut started = BTreeMap::new();
        for ((speaker, group), (_, number)) in &self.tally.progress {
            let speaker = self.tally.speakers.get_index(*speaker as usize);
            if let (Some(Speaker::Rank { rank, .. }), Group::Torch(name)) = (speaker, group)
                && OF_ALL.contains(&&**name)
            {
                let last = started.entry(*rank).or_insert(*number);
                *last = (*last).max(*number);
            }
        }
        started
    }

    /// The ranks that are in the collective for which a rank waits: they say so, or that they started it.
    pub(super) fn joined(&self) -> BTreeSet<u32> {
        let mut joined: BTreeSet<u32> = self.waiting().map(|(_, rank)| rank).collect();
        let number = self.waiting().map(|(wait, _)| wait.sequence).min();
        if let Some(number) = number.filter(|_| self.wait_is_of_all()) {
            let started = self.started().into_iter();
            joined.extend(
                started
                    .filter(|(_, last)| *last >= number)
                    .map(|(rank, _)| rank),
            );
        }
        joined
    }

    /// The call of PyTorch's collectives in which the exception of a finding was raised.
    pub(super) fn raised_in_collective(&self, finding: &SignatureFinding) -> Option<String> {
        let traceback = self.seen_of(finding)?.traceback.as_deref()?;
        traceback.raised_in("distributed_c10d.py")
    }

    /// Tells of the collectives that other processes of a rank gave up on: the log is of several runs.
    pub(super) fn tell_of_other_processes(&self, findings: &mut [SignatureFinding]) {
        let Some(timeout) = findings.iter_mut().find(|one| one.signature == TIMEOUT) else {
            return;
        };
        let others = self.tally.process_waits.iter();
        let others = others.filter_map(|((speaker, process), (place, wait))| {
            let Speaker::Rank { rank, .. } = self.tally.speakers.get_index(*speaker as usize)?
            else {
                return None;
            };
            let (_, first) = self.tally.collectives.get(speaker)?;
            let is_same = (&first.operation, first.sequence) == (&wait.operation, wait.sequence);
            let digits = process
                .split(|byte| !byte.is_ascii_digit())
                .find(|part| !part.is_empty())?;
            let pid = crate::fields::number(digits)?;
            (!is_same).then_some((place, *rank, pid, wait))
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(place, ..)| **place);
        for (_, rank, pid, wait) in others.into_iter().take(OTHERS_MAX) {
            let told = OTHER_PROCESS
                .replace("{pid}", &pid.to_string())
                .replace("{rank}", &rank.to_string())
                .replace("{operation}", &shown(&wait.operation))
                .replace("{number}", &wait.sequence.to_string());
            timeout.meaning = format!("{}; {told}", timeout.meaning);
        }
    }

    /// Names the process group of a collective that did not end, unless it is that of all ranks.
    pub(super) fn tell_of_group(&self, findings: &mut [SignatureFinding]) {
        let waits = self.tally.collectives.iter();
        let groups: BTreeSet<Vec<u8>> = waits
            .map(|(speaker, (_, wait))| self.group_of(*speaker, wait))
            .collect();
        let Some(group) = groups.first().filter(|_| groups.len() == 1) else {
            return;
        };
        if OF_ALL.contains(&group.as_slice()) {
            return;
        }
        let timeout = findings.iter_mut().find(|one| one.signature == TIMEOUT);
        if let Some(timeout) = timeout {
            timeout.meaning = format!("{}; its process group is {}", timeout.meaning, shown(group));
        }
    }
}

/// What PyTorch says of how far a rank is follows the collective of this rank that failed. A rank that completed none
/// has -1, or a number that was never set.
pub(super) fn tell_of_progress(findings: &mut [SignatureFinding]) {
    let failed: Vec<SignatureFinding> = findings
        .iter()
        .filter(|one| FAILED.contains(&one.signature.as_str()) && one.severity < Severity::Warning)
        .cloned()
        .collect();
    let progress = findings
        .iter_mut()
        .filter(|one| PROGRESS.contains(&one.signature.as_str()));
    for finding in progress {
        let is_own = |name: &String| failed.iter().any(|one| one.processes.contains(name));
        // What another rank tells of is the same failure, and says less of it.
        let is_passed_on = finding.signature.starts_with(SIGNAL) && !failed.is_empty();
        // A rank that gave up on the same number gave up on the same collective.
        let number = OF_WORK.captures(finding.sample.as_bytes());
        let number = number.map(|found| format!(" number {},", shown(&found["number"])));
        let is_same = number.is_some_and(|number| {
            let mut timeouts = failed.iter().filter(|one| one.signature == TIMEOUT);
            timeouts.any(|one| one.meaning.contains(&number))
        });
        if is_passed_on || is_same || finding.processes.iter().all(is_own) {
            finding.role = Role::Consequence;
        }
        let Some((head, rest)) = finding.meaning.split_once(COMPLETED) else {
            continue;
        };
        let is_number = |letter: char| letter == '-' || letter.is_ascii_digit();
        let end = rest.find(|letter| !is_number(letter));
        let (number, tail) = rest.split_at(end.unwrap_or(rest.len()));
        if number.parse::<u32>().is_err() {
            finding.meaning = format!("{head}{COMPLETED}none{tail}");
        }
    }
}
