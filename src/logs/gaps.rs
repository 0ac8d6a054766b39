//! Which ranks started fewer collectives than others of their group.
//!
//! A rank that has not started a collective keeps all others waiting, so the rank behind is
//! where to look. Three kinds of lines tell how far a rank is: NCCL's `opCount`, PyTorch's
//! `last enqueued work`, and the collective in which PyTorch's watchdog found a rank. Numbers
//! are compared within one communicator or process group only.
//!
//! Not here: ranks that logged nothing about a group. They may be behind, in front, or gone.
#![forbid(unsafe_code)]

use super::compose::shown;
use super::report::{CollectiveGap, RankBehind};
use super::tally::{Group, Speaker, Tally, Wait};
use std::collections::{BTreeMap, BTreeSet};

/// Ranks that are named of one group.
const BEHIND_MAX: usize = 64;
/// Most groups with a gap that are reported.
const GAPS_MAX: usize = 64;

/// How many collectives a rank may be behind others of its group of PyTorch. Its numbers are not of one job otherwise: a
/// collective ends when all ranks are in it, and CUDA keeps about as many launches that wait.
const LAG_MAX: u64 = 1024;

/// The ranks of a group, with the last collective that each started.
type Ranks = BTreeMap<u32, (u64, u32)>;
type Groups = BTreeMap<GroupName, Ranks>;

/// A group by the name that all its ranks use.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupName {
    Comm(u64),
    Torch(Vec<u8>),
}

/// The groups with a gap; `name` names a process.
pub(super) fn gaps(tally: &Tally, name: impl Fn(u32) -> String) -> Vec<CollectiveGap> {
    let groups = groups(tally);
    let gap = |(group, ranks): (&GroupName, Ranks)| {
        let started = ranks.values().map(|(started, _)| *started).max()?;
        let is_behind = |(_, (own, _)): &(&u32, &(u64, u32))| *own < started;
        let mut behind: Vec<RankBehind> = ranks
            .iter()
            .filter(is_behind)
            .map(|(rank, (started, speaker))| RankBehind {
                started: *started,
                rank: *rank,
                process: name(*speaker),
            })
            .collect();
        let in_front = ranks.len() - behind.len();
        behind.sort();
        behind.truncate(BEHIND_MAX);
        (!behind.is_empty()).then(|| CollectiveGap {
            group: match group {
                GroupName::Comm(id) => format!("{id:#x}"),
                GroupName::Torch(name) => shown(name),
            },
            started,
            in_front,
            behind,
        })
    };
    let of_jobs = groups.iter().flat_map(|(group, ranks)| {
        let of_jobs = match group {
            GroupName::Comm(_) => vec![ranks.clone()],
            GroupName::Torch(_) => jobs(ranks),
        };
        of_jobs.into_iter().map(move |ranks| (group, ranks))
    });
    of_jobs.filter_map(gap).take(GAPS_MAX).collect()
}

/// The ranks of each job: PyTorch names the groups of all jobs alike, and a log may have several.
fn jobs(ranks: &Ranks) -> Vec<Ranks> {
    let mut by_number: Vec<(u64, u32, u32)> = ranks
        .iter()
        .map(|(rank, (started, speaker))| (*started, *rank, *speaker))
        .collect();
    by_number.sort_unstable();
    let parts = by_number.chunk_by(|(one, ..), (next, ..)| next - one <= LAG_MAX);
    let part = |part: &[(u64, u32, u32)]| {
        let ranks = part.iter();
        ranks
            .map(|(started, rank, speaker)| (*rank, (*started, *speaker)))
            .collect()
    };
    parts.map(part).collect()
}

fn groups(tally: &Tally) -> Groups {
    let mut groups = Groups::new();
    let mut add = |group, rank, started, speaker| {
        let known = groups
            .entry(group)
            .or_default()
            .entry(rank)
            .or_insert((started, speaker));
        *known = (started, speaker).max(*known);
    };
    let rank_of = |speaker: u32| match tally.speakers.get_index(speaker as usize) {
        Some(Speaker::Rank { rank, .. }) => Some(*rank),
        _ => None,
    };
    for ((speaker, group), (place, started)) in &tally.progress {
        match group {
            Group::Torch(name) => {
                if let Some(rank) = rank_of(*speaker) {
                    add(GroupName::Torch(name.to_vec()), rank, *started, *speaker);
                }
            }
            Group::Comm(comm) => {
                // The lines of an earlier communicator at this address do not count.
                if let Some((init, member)) = tally.members.get(&(*speaker, *comm))
                    && init < place
                {
                    add(
                        GroupName::Comm(member.comm_id),
                        member.rank,
                        *started,
                        *speaker,
                    );
                }
            }
        }
    }
    let told = tally.progress.keys();
    let told: BTreeSet<u32> = told
        .filter(|(_, group)| matches!(group, Group::Torch(_)))
        .map(|(speaker, _)| *speaker)
        .collect();
    // The lowest collective in which ranks were found that tell what they started, by their group.
    let mut lowest = BTreeMap::<&[u8], u64>::new();
    for (speaker, group) in tally.progress.keys() {
        let wait = tally.collectives.get(speaker).map(|(_, wait)| wait);
        if let Group::Torch(name) = group {
            let is_its = |of: &&Wait| of.group.is_empty() || of.group[..] == name[..];
            let number = wait.filter(is_its).map_or(0, |of| of.sequence);
            let known = lowest.entry(name).or_insert(number);
            *known = number.min(*known);
        }
    }
    for (speaker, (_, wait)) in &tally.collectives {
        // A rank's own word about what it started says more than the wait in which it was found; a wait in a group
        // without a name is of one of the groups that its rank names, and not of one that all ranks share.
        let group = Group::Torch(wait.group.clone().into());
        let is_told = match wait.group.is_empty() {
            true => told.contains(speaker),
            false => tally.progress.contains_key(&(*speaker, group)),
        };
        // What it started since is unknown: it is behind those that tell it if it waits for an earlier one than they.
        let is_behind = lowest
            .get(&wait.group[..])
            .is_none_or(|lowest| wait.sequence < *lowest);
        if let Some(rank) = rank_of(*speaker).filter(|_| !is_told && is_behind) {
            add(
                GroupName::Torch(wait.group.clone()),
                rank,
                wait.sequence,
                *speaker,
            );
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use crate::{CollectiveGap, LogFilter, LogReader, SignatureCatalogue};

    fn read(text: &str) -> Vec<CollectiveGap> {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.source("x.log", text.as_bytes(), text.as_bytes());
        reader.report().gaps
    }

    /// Started, ranks in front, and the ranks behind with what they started.
    type Short = (u64, usize, Vec<(u32, u64)>);

    fn short(gaps: &[CollectiveGap]) -> Vec<Short> {
        let behind = |gap: &CollectiveGap| {
            gap.behind
                .iter()
                .map(|one| (one.rank, one.started))
                .collect()
        };
        gaps.iter()
            .map(|gap| (gap.started, gap.in_front, behind(gap)))
            .collect()
    }

    fn init(pid: u32, comm: u32, rank: u32, id: u32) -> String {
        format!(
            "node-a:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm {comm:#x} rank {rank} nranks 3 cudaDev 0 busId 4000 commId {id:#x} - Init COMPLETE\n"
        )
    }

    fn call(pid: u32, comm: u32, count: u32) -> String {
        format!(
            "node-a:{pid}:{pid} [0] NCCL INFO AllReduce: opCount {count:x} sendbuff 0x7f3a80000000 recvbuff 0x7f3a90000000 count 8 datatype 7 op 0 root 0 comm {comm:#x} [nranks=3] stream 0x1\n"
        )
    }

    #[test]
    fn the_rank_with_the_lowest_op_count_is_behind() {
        let text = [
            init(1, 16, 0, 7),
            init(2, 32, 1, 7),
            init(3, 48, 2, 7),
            call(1, 16, 0x1f),
            call(2, 32, 0x1f),
            call(3, 48, 0x1d),
            call(1, 16, 0x20),
            call(2, 32, 0x20),
        ];
        let gaps = read(&text.concat());
        assert_eq!(short(&gaps), [(0x20, 2, vec![(2, 0x1d)])]);
        assert_eq!(
            (gaps[0].group.as_str(), gaps[0].behind[0].process.as_str()),
            ("0x7", "node-a:3")
        );
    }

    #[test]
    fn communicators_are_not_compared_with_each_other() {
        let text = [
            init(1, 16, 0, 7),
            init(2, 32, 0, 8),
            call(1, 16, 90),
            call(2, 32, 4),
        ];
        assert!(read(&text.concat()).is_empty());
        // Without the lines of init, it is unknown which communicators belong together.
        assert!(read(&text[2..].concat()).is_empty());
    }

    #[test]
    fn a_new_communicator_at_the_address_of_an_old_one_counts_anew() {
        let old = [init(1, 16, 0, 6), call(1, 16, 90)];
        let new = [init(1, 16, 0, 7), init(2, 32, 1, 7), call(2, 32, 4)];
        assert!(read(&[old.concat(), new.concat()].concat()).is_empty());
        let text = [old.concat(), new.concat(), call(1, 16, 3)];
        assert_eq!(short(&read(&text.concat())), [(4, 1, vec![(0, 3)])]);
    }

    fn status(rank: u32, group: &str, enqueued: u32) -> String {
        format!(
            "[rank{rank}]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID {group} Rank 0]  failure detected by watchdog at work sequence id: 78 PG status: last enqueued work: {enqueued}, last completed work: 77\n"
        )
    }

    #[test]
    fn the_rank_that_enqueued_least_is_behind_in_its_group() {
        let text = [
            status(0, "0(default_pg)", 82),
            status(1, "0(default_pg)", 79),
            status(2, "5(tp)", 3),
        ];
        let gaps = read(&text.concat());
        assert_eq!(short(&gaps), [(82, 1, vec![(1, 79)])]);
        assert_eq!(gaps[0].group, "0(default_pg)");
    }

    #[test]
    fn older_lines_name_the_wait_only() {
        let wait = |rank: u32, sequence: u32| {
            format!(
                "[rank{rank}]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1) ran for 600012 milliseconds\n"
            )
        };
        let gaps = read(&[wait(3, 80), wait(1, 78), wait(0, 80)].concat());
        assert_eq!(short(&gaps), [(80, 2, vec![(1, 78)])]);
        let status = |rank: u32, guid: u32, enqueued: u32| {
            format!(
                "[rank{rank}]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:1795] [PG ID 11 PG GUID {guid} Rank 0] Exception (either an error or timeout) detected by watchdog at work: 78, last enqueued NCCL work: {enqueued}, last completed NCCL work: 77.\n"
            )
        };
        let of_groups = [
            wait(3, 80),
            status(3, 119, 82),
            wait(1, 78),
            status(1, 112, 78),
        ];
        assert_eq!(short(&read(&of_groups.concat())), []);
    }

    #[test]
    fn a_rank_that_does_not_tell_what_it_started_is_behind_by_its_wait_only() {
        let wait = |rank: u32, sequence: u32| {
            format!(
                "[rank{rank}]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:1515] [PG 1 Rank {rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1) ran for 600012 milliseconds\n"
            )
        };
        let status = |rank: u32| {
            format!(
                "[rank{rank}]:[E1120 08:14:04.5 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: 78, last enqueued NCCL work: 80, last completed NCCL work: 77.\n"
            )
        };
        let told = [wait(0, 78), status(0), wait(4, 78), status(4)].concat();
        assert_eq!(short(&read(&[told.clone(), wait(6, 78)].concat())), []);
        assert_eq!(
            short(&read(&[told, wait(6, 77)].concat())),
            [(80, 2, vec![(6, 77)])]
        );
    }

    #[test]
    fn numbers_of_two_jobs_are_not_compared() {
        let wait = |rank: u32, sequence: u32| {
            format!(
                "[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1) ran for 600012 milliseconds\n"
            )
        };
        let of_two = [wait(2, 880), wait(4, 880), wait(0, 96_120), wait(7, 64_088)];
        assert_eq!(short(&read(&of_two.concat())), []);
        // A gap within each of the jobs is told.
        let with_gap = [wait(2, 880), wait(4, 879), wait(0, 96_120)];
        assert_eq!(short(&read(&with_gap.concat())), [(880, 1, vec![(4, 879)])]);
        let far = [wait(0, 2000), wait(1, 976)];
        assert_eq!(short(&read(&far.concat())), [(2000, 1, vec![(1, 976)])]);
        // NCCL's ids are those of one communicator, however far its ranks are.
        let of_comm = [
            init(1, 16, 0, 7),
            init(2, 32, 1, 7),
            call(1, 16, 9000),
            call(2, 32, 4),
        ];
        assert_eq!(short(&read(&of_comm.concat())), [(9000, 1, vec![(1, 4)])]);
    }
}
