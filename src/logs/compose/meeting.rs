//! Why ranks that all wait, or that do not find each other, do not meet.
#![forbid(unsafe_code)]

use super::Compose;
use crate::claims::RankOfComm;
use crate::report::{LogReport, SignatureFinding};
use crate::seen::Place;
use crate::signature::{Role, Severity};
use crate::tally::Speaker;

/// PyTorch's line on a collective that did not end.
const TIMEOUT: &str = "watchdog-timeout";
/// NCCL's line on a connection that was refused until it gave up.
const REFUSED: &str = "socket-connect-gave-up";

/// Why several ranks wait in the first collective of a group, where the log may not have all of its ranks.
const OF_FIRST: &str = "it is the first collective of its group: data do not pass between its ranks at all (peer access of the GPUs, shared memory or the network), or one rank entered the collective late or never: look for the rank without this line";

/// NCCL's source in which ranks find each other.
const BOOTSTRAP: &str = "bootstrap.cc:";

/// A rank that begins to make a communicator, and where.
type Start = (RankOfComm, Place);

impl Compose<'_> {
    /// Tells more of findings on ranks that do not meet.
    pub(super) fn tell_of_meeting(&self, report: &mut LogReport) {
        self.tell_of_same_collective(report);
        let stale = self.stale_id();
        let is_of_root = |one: &SignatureFinding| one.sample.contains(BOOTSTRAP);
        let of_root = report.findings.iter().any(is_of_root);
        let mut refused = report.findings.iter_mut();
        let Some(refused) = refused.find(|one| one.signature == REFUSED) else {
            return;
        };
        if let Some((old, new)) = stale {
            refused.causes.insert(
                0,
                format!(
                    "rank {} begins a communicator with the id of an earlier one, commId 0x{:x}, and rank {} with a new one, 0x{:x}: they never meet",
                    old.rank, old.comm_id, new.rank, new.comm_id
                ),
            );
            refused.next_step = Some(
                "give all ranks one new id: a process group that is made again needs another prefix or another store, or its old keys removed"
                    .to_owned(),
            );
        } else if of_root && refused.sample.contains("refused") {
            refused.causes.insert(
                0,
                "refused by the root of the communicator's bootstrap: nothing listens at the address that its rank 0 gave out, as its interface is another one or its process had ended, or this rank has the id of an earlier communicator"
                    .to_owned(),
            );
        }
    }

    /// Where every rank of the log waits in one collective, none of them is missing, and a first one never worked.
    fn tell_of_same_collective(&self, report: &mut LogReport) {
        let waits = self.waits();
        let [wait] = waits.as_slice() else {
            return;
        };
        let waits_too = |speaker: &Speaker| match speaker {
            Speaker::Rank { rank, .. } => wait.ranks.contains(rank),
            _ => true,
        };
        let is_cause =
            |one: &SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
        if wait.ranks.len() < 2 || report.findings.iter().any(is_cause) {
            return;
        }
        // NCCL counts the ranks of its communicators.
        let most = self.tally.most_ranks;
        let are_counted = most.is_none_or(|ranks| ranks as usize <= wait.ranks.len());
        let are_all = are_counted
            && self.not_waiting(&waits).is_empty()
            && self.tally.speakers.iter().all(waits_too);
        let mut timeouts = report.findings.iter_mut();
        let Some(timeout) = timeouts.find(|one| one.signature == TIMEOUT) else {
            return;
        };
        if wait.sequence > 1 {
            if are_all && self.wait_is_of_all() {
                timeout.meaning =
                    format!("{}; every rank of this log waits in it", timeout.meaning);
            }
        } else if !are_all {
            timeout.causes.splice(..1, [OF_FIRST.to_owned()]);
        } else {
            timeout.causes = vec![
                "every rank of this log waits in this first collective, so none of them is missing: data do not pass between them, over peer access of the GPUs (ACS, an IOMMU), shared memory or the network".to_owned(),
                "a rank whose log is not here did not enter it".to_owned(),
            ];
            timeout.next_step = Some("run once with NCCL_P2P_DISABLE=1, once with NCCL_SHM_DISABLE=1, and once with another NCCL_SOCKET_IFNAME: the run that works names the path; NCCL_DEBUG=INFO shows which path each channel takes".to_owned());
        }
    }

    /// A rank that begins a communicator with the id of one that was complete before, and another rank of the file
    /// that begins with an id of its own, which never gets complete.
    fn stale_id(&self) -> Option<(RankOfComm, RankOfComm)> {
        let starts: Vec<Start> = self
            .tally
            .claims
            .gpus()
            .map(|(of, place, _)| (of, place))
            .collect();
        let completed = |of: &RankOfComm| {
            let members = self.tally.members.iter();
            let mut members = members.filter(|((speaker, _), (_, one))| {
                *speaker == of.speaker && one.comm_id == of.comm_id && one.rank == of.rank
            });
            members.next().map(|(_, (place, _))| *place)
        };
        let is_stale = |(of, place): &&Start| completed(of).is_some_and(|before| before < *place);
        let (old, at) = starts.iter().find(is_stale)?;
        let is_new = |(of, place): &&Start| {
            of.speaker != old.speaker
                && of.rank != old.rank
                && of.comm_id != old.comm_id
                && place.file == at.file
                && !self.is_ready(of.comm_id)
        };
        let (new, _) = starts.iter().find(is_new)?;
        Some((*old, *new))
    }
}
