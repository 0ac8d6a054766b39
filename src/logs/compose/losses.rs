//! Reports of a lost peer, which follow the end of that peer.
//!
//! What a process says of a NIC's request that failed, or of a connection that closed, names what failed there, and may
//! still be no more than what it noticed of the end of another process. Where the log shows such an end, that one is
//! the cause: an exception, a crash or a kill before it, of the peer that the line names, or of any process where the
//! log does not tell where that peer was. A launcher tells of a death late, so that one of that peer, or of one that may be
//! it, counts behind it too.
#![forbid(unsafe_code)]

use super::hosts::{host_in, short};
use super::ranking::{CALL_CHAIN, INNER_CALLS, is_exception, is_later};
use super::{Compose, ENDING_LINES, shown};
use crate::loggers::regex;
use crate::report::{LinePlace, SignatureFinding, UNKNOWN_WARNING};
use crate::seen::SeenLines;
use crate::signature::{Role, Severity, Signature};
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The peer that a line names, by its host, its address or its rank.
static PEER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\b(?:peer,?|from|to) \[?(?P<peer>[A-Za-z0-9][\w.:-]*?)(?:<\d+>|\]:\d+)|\b(?:peer|remote) rank[ =](?P<rank>\d+)\b",
    )
});

/// An interface and its address in a line of NCCL on what it uses: `[0]eth0:10.0.1.25<0>`.
static USED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[a-z][\w.-]*:(?P<address>[0-9a-f.:]+)<\d+>"));

/// What an exception says that only passes on the end of another process, or that a wait for it ended.
static OF_OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)nccl|gloo|timed? ?out|connection|broken pipe|\bEOFError\b|\bpeer\b|\bworkers?\b|\bactors?\b|\bengine\b|\bdied\b|\bterminated\b|\baborted\b|unexpectedly|KeyboardInterrupt|ChildFailedError|CalledProcessError|SIGTERM",
    )
});

/// How a process died, in words that are of no end that another process, or a launcher, causes.
static DIED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)out[ -]of[ -]memory|\boom\b|oom[-_ ]kill|segmentation fault|\bSIGSEGV\b|bus error|\bSIGBUS\b|illegal instruction|\bSIGILL\b|floating point exception|\bSIGFPE\b|signal (?:4|7|8|11)\b",
    )
});

/// An exception without a message, as a line behind its traceback.
static BARE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:\[[^\]]*\]:? *)?(?:\w+\.)*\w+(?:Error|Exception)$"));

/// The process and the thread of a line of NCCL: `node-a:71:79 [0] `.
static PROCESS: LazyLock<Regex> = LazyLock::new(|| regex(r":(?P<pid>\d+):\d+ \["));

/// What NCCL logs as a communicator's abort begins, and as it ends.
static ABORTS: LazyLock<Regex> =
    LazyLock::new(|| regex(r" - Abort (?:START|COMPLETE)|\bin abort, error "));

/// Calls by which NCCL frees what it has, and what they say where the driver is gone.
static FREES: LazyLock<Regex> = LazyLock::new(|| freeing("destroy|dereg|dealloc|close|modify"));

/// Those of them by which NCCL frees what was in use, which it does only as a process ends.
static ENDS: LazyLock<Regex> = LazyLock::new(|| freeing("destroy|dereg|dealloc|close"));

fn freeing(calls: &str) -> Regex {
    regex(&format!(
        r" NCCL WARN .*(?:ibv_(?:{calls})_\w+|driver shutting down)"
    ))
}

/// Whether a finding is all that a process may notice of the end of another one.
fn is_loss(finding: &SignatureFinding, signatures: &[Signature]) -> bool {
    tells_of_loss(
        Signature::named(signatures, &finding.signature),
        &finding.sample,
    )
}

/// The same of a line and its signature.
pub(crate) fn tells_of_loss(signature: Option<&Signature>, line: &str) -> bool {
    signature.is_some_and(|one| one.loss) || crate::reasons::is_loss(line)
}

/// Whether a line tells that a process ended by its own doing: an exception that is not of a lost peer, or a crash.
pub(crate) fn tells_of_end(signature: Option<&Signature>, line: &str) -> bool {
    let is_quoted = signature.is_none_or(crate::reasons::quotes);
    let raises = is_quoted
        && (is_exception(line.trim_start()) || BARE.is_match(line.trim().as_bytes()))
        || signature.is_some_and(crate::reasons::quotes);
    let raises = raises && !OF_OTHERS.is_match(line.as_bytes());
    let crashes = signature.is_some_and(|one| one.severity < Severity::Warning && !one.launcher)
        && crate::seen::crashes(line.as_bytes());
    !tells_of_loss(signature, line) && (raises || crashes || dies(signature, line))
}

/// Whether a line tells that a process was killed for its memory, or died of a fault of its own.
fn dies(signature: Option<&Signature>, line: &str) -> bool {
    let fails = signature.is_some_and(|one| one.severity < Severity::Warning);
    fails && DIED.is_match(line.as_bytes())
}

/// A connection between two ranks of Open MPI that broke.
const MPI_BROKE: &str = "mpi-tcp-broke";

/// Whether a finding is an error of a program, without a signature, for which a rank may have ended.
fn may_end(finding: &SignatureFinding, signatures: &[Signature]) -> bool {
    finding.signature == UNKNOWN_WARNING
        && finding.role == Role::General
        && !crate::stated::is_warning(&finding.sample)
        && !is_loss(finding, signatures)
}

/// The end of a process.
struct End {
    first: LinePlace,
    /// Where it was, as far as the log tells it.
    hosts: BTreeSet<String>,
    /// Whether it is of a fault of its own, which a launcher tells late.
    is_death: bool,
    /// Whether a launcher tells of it.
    is_told_late: bool,
    /// Whether it names what failed, and no end of a process: it is the reason only of what lost that peer.
    is_named: bool,
    /// Its rank, as far as its line tells it.
    rank: Option<String>,
}

/// The rank that a line of Open MPI, or of a launcher, names: `[[12114,1],5]`, `process rank 5`, `[rank5]`.
static OF_RANK: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\[\[\d+,\d+\],(?P<peer>\d+)\]|\b[Rr]ank ?(?P<rank>\d+)\b"));

fn rank_in(line: &str) -> Option<String> {
    let found = OF_RANK.captures(line.as_bytes())?;
    let rank = found.name("peer").or_else(|| found.name("rank"))?;
    Some(shown(rank.as_bytes()))
}

impl Compose<'_> {
    /// What is reported of a lost peer follows the end of that peer.
    pub(super) fn follow_lost(&self, findings: &mut [SignatureFinding]) {
        let signatures = &self.catalogue.signatures;
        let is_lost =
            |one: &SignatureFinding| one.role != Role::Consequence && is_loss(one, signatures);
        if !findings.iter().any(is_lost) {
            return;
        }
        let ends: Vec<End> = findings.iter().filter_map(|one| self.end(one)).collect();
        let errors = findings.iter().filter(|one| may_end(one, signatures));
        let errors: Vec<LinePlace> = errors.map(|one| one.first.clone()).collect();
        let homes = self.homes();
        for finding in findings.iter_mut().filter(|one| is_lost(one)) {
            let peer = self.peer(finding, &homes);
            let follows = |end: &End| {
                let is_peer = !end.hosts.is_disjoint(&peer);
                let is_behind = is_later(&finding.first, &end.first);
                let is_before = is_later(&end.first, &finding.first);
                let may_be_peer = !end.is_named && (peer.is_empty() || end.hosts.is_empty());
                let is_other = end.rank.is_none() || end.rank != rank_in(&finding.sample);
                let is_told_behind =
                    end.is_told_late && is_other && end.first.file == finding.first.file;
                is_peer && (is_behind || !is_before || end.is_death)
                    || may_be_peer && (is_behind || is_told_behind)
            };
            // Open MPI names no peer, and mpirun writes what all ranks print into one log.
            let is_behind = |error: &LinePlace| {
                let behind = finding.first.line.saturating_sub(error.line);
                error.file == finding.first.file && (1..=ENDING_LINES).contains(&behind)
            };
            let is_of_mpi = finding.signature == MPI_BROKE;
            if ends.iter().any(follows) || is_of_mpi && errors.iter().any(is_behind) {
                finding.role = Role::Consequence;
            }
        }
    }

    /// Calls that fail while a process aborts its communicators are of its tear-down: they follow what else failed.
    pub(super) fn follow_aborts(&self, findings: &mut [SignatureFinding]) {
        let signatures = &self.catalogue.signatures;
        let is_chain = |one: &SignatureFinding| {
            let name = one.signature.as_str();
            one.role == Role::General && (name == CALL_CHAIN || INNER_CALLS.contains(&name))
        };
        let fails = |one: &SignatureFinding| {
            one.severity < Severity::Warning
                && one.role != Role::Consequence
                && !is_chain(one)
                && !is_loss(one, signatures)
        };
        if findings.iter().any(fails) {
            let chains = findings.iter_mut().filter(|one| is_chain(one));
            let of_abort = chains.filter(|one| self.is_within_abort(one));
            of_abort.for_each(|one| one.role = Role::Consequence);
        }
        // Ranks that abort lose their peers, which abort too.
        let is_freed = |one: &SignatureFinding| {
            FREES.is_match(one.sample.as_bytes()) || is_loss(one, signatures)
        };
        // What has come up is freed at the end of a process only.
        let is_at_end = |one: &SignatureFinding| ENDS.is_match(one.sample.as_bytes());
        let failed = findings.iter().filter(|one| fails(one) && !is_freed(one));
        let failed: Vec<LinePlace> = failed.map(|one| one.first.clone()).collect();
        for one in findings.iter_mut().filter(|one| is_freed(one)) {
            let is_behind = failed.iter().any(|place| is_later(&one.first, place));
            if is_behind && (is_at_end(one) || self.is_within_abort(one)) {
                one.role = Role::Consequence;
            }
        }
    }

    /// Whether the lines beside the first one are of its process and tell that it aborts a communicator.
    fn is_within_abort(&self, finding: &SignatureFinding) -> bool {
        let process = |line: &[u8]| Some(PROCESS.captures(line)?["pid"].to_vec());
        let own = process(finding.sample.as_bytes());
        let is_first = |seen: &&SeenLines| {
            let place = self.place(seen.first, None);
            (&place.file, place.line) == (&finding.first.file, finding.first.line)
        };
        let mut seen = self.tally.seen.values().filter(is_first);
        let aborts = |line: &Vec<u8>| ABORTS.is_match(line) && process(line) == own;
        own.is_some() && seen.any(|seen| seen.near_lines().any(aborts))
    }

    /// The end of a process that a finding tells.
    fn end(&self, finding: &SignatureFinding) -> Option<End> {
        if finding.role == Role::Consequence {
            return None;
        }
        let signature = Signature::named(&self.catalogue.signatures, &finding.signature);
        let ends = tells_of_end(signature, &finding.sample);
        let is_named = finding.role == Role::Cause
            && finding.severity < Severity::Warning
            && !tells_of_loss(signature, &finding.sample);
        if !ends && !is_named {
            return None;
        }
        let speaker = self.speaker_of(finding);
        let went_on = self.of_same(speaker).any(|one| {
            let complete = self.tally.init_complete.get(&one);
            complete.is_some_and(|place| is_later(&self.place(*place, None), &finding.first))
        });
        let hosts = self.hosts_of(finding, speaker);
        let is_death = dies(signature, &finding.sample);
        (!went_on).then(|| End {
            first: finding.first.clone(),
            is_death,
            is_told_late: is_death && signature.is_some_and(|one| one.launcher),
            rank: rank_in(&finding.sample),
            is_named: !ends,
            hosts,
        })
    }

    /// Who wrote the first line of a finding.
    fn speaker_of(&self, finding: &SignatureFinding) -> Option<u32> {
        let is_its = |number: u32| {
            let signature = self.catalogue.signatures.get(number as usize);
            signature.is_some_and(|one| one.name == finding.signature)
        };
        let mut seen = self.tally.seen.iter().filter(|((number, _), seen)| {
            let place = self.place(seen.first, None);
            is_its(*number)
                && (&place.file, place.line) == (&finding.first.file, finding.first.line)
        });
        if let Some(((_, speaker), _)) = seen.next() {
            return Some(*speaker);
        }
        let [process] = finding.processes.as_slice() else {
            return None;
        };
        (0..u32::try_from(self.tally.speakers.len()).ok()?).find(|one| self.name(*one) == *process)
    }

    /// The hosts on which the first line of a finding may have been written.
    fn hosts_of(&self, finding: &SignatureFinding, speaker: Option<u32>) -> BTreeSet<String> {
        let sample = finding.sample.as_bytes();
        if let Some(host) = host_in(sample).or_else(|| self.host_before(&finding.sample)) {
            return BTreeSet::from([short(&host).to_owned()]);
        }
        let speaker = speaker.and_then(|one| self.tally.speakers.get_index(one as usize));
        let of_rank = match speaker {
            Some(Speaker::Process { host, .. }) => {
                return BTreeSet::from([short(&shown(host)).to_owned()]);
            }
            Some(Speaker::Rank { rank, .. }) => self.hosts_of_rank(*rank),
            _ => BTreeSet::new(),
        };
        let of_file = || {
            let hosts = self.hosts_of_file(&finding.first.file);
            if hosts.len() == 1 {
                hosts
            } else {
                BTreeSet::new()
            }
        };
        if of_rank.is_empty() {
            of_file()
        } else {
            of_rank
        }
    }

    /// The host of the log with whose name a line begins, behind the prefix of a launcher.
    fn host_before(&self, line: &str) -> Option<String> {
        let (word, _) = line.split_once(": ")?;
        let word = word.rsplit(' ').next().unwrap_or(word);
        let is_it = |(speaker, _): &(u32, &Speaker)| short(&self.host(*speaker)) == short(word);
        let mut processes = self.of_processes();
        processes.any(|one| is_it(&one)).then(|| word.to_owned())
    }

    fn of_processes(&self) -> impl Iterator<Item = (u32, &Speaker)> {
        let speakers = (0_u32..).zip(&self.tally.speakers);
        speakers.filter(|(_, one)| matches!(one, Speaker::Process { .. }))
    }

    /// The processes that are a rank in every communicator that they made.
    fn of_rank(&self, rank: u32) -> impl Iterator<Item = u32> {
        let of = self.of_processes().map(|(speaker, _)| speaker);
        of.filter(move |speaker| self.rank_of(*speaker) == Some(rank))
    }

    fn hosts_of_rank(&self, rank: u32) -> BTreeSet<String> {
        let of = self.of_rank(rank);
        of.map(|speaker| short(&self.host(speaker)).to_owned())
            .collect()
    }

    /// A speaker, and the processes of its rank.
    fn of_same(&self, speaker: Option<u32>) -> impl Iterator<Item = u32> {
        let number = speaker.and_then(|one| self.tally.speakers.get_index(one as usize));
        let rank = match number {
            Some(Speaker::Rank { rank, .. }) => Some(*rank),
            _ => None,
        };
        let of_rank = rank.into_iter().flat_map(|rank| self.of_rank(rank));
        speaker.into_iter().chain(of_rank)
    }

    fn hosts_of_file(&self, name: &str) -> BTreeSet<String> {
        let is_of_file = |file: u32| self.files.get(file as usize).is_some_and(|one| one == name);
        let seen = self.tally.seen.iter();
        let seen = seen.filter(|(_, seen)| is_of_file(seen.first.file));
        let seen = seen.map(|((_, speaker), _)| *speaker);
        let ends = self
            .tally
            .ends
            .iter()
            .filter(|(file, ..)| is_of_file(*file));
        let speakers: BTreeSet<u32> = seen.chain(ends.map(|(_, speaker, _)| speaker)).collect();
        let speakers = speakers.into_iter();
        let is_process = |one: &u32| {
            matches!(
                self.tally.speakers.get_index(*one as usize),
                Some(Speaker::Process { .. })
            )
        };
        speakers
            .filter(is_process)
            .map(|one| short(&self.host(one)).to_owned())
            .collect()
    }

    /// The hosts that use each address, by NCCL's lines on their interfaces.
    fn homes(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut homes = BTreeMap::<String, BTreeSet<String>>::new();
        for ((_, speaker), seen) in &self.tally.seen {
            let is_process = matches!(
                self.tally.speakers.get_index(*speaker as usize),
                Some(Speaker::Process { .. })
            );
            if !is_process || memchr::memmem::find(&seen.sample, b" : Using ").is_none() {
                continue;
            }
            for used in USED.captures_iter(&seen.sample) {
                let hosts = homes.entry(shown(&used["address"])).or_default();
                hosts.insert(short(&self.host(*speaker)).to_owned());
            }
        }
        homes
    }

    /// The host of the peer that a line names, if the log has lines of it. An address that several hosts use, as that
    /// of a bridge, names none.
    fn peer(
        &self,
        finding: &SignatureFinding,
        homes: &BTreeMap<String, BTreeSet<String>>,
    ) -> BTreeSet<String> {
        let Some(named) = PEER.captures(finding.sample.as_bytes()) else {
            return BTreeSet::new();
        };
        let rank = named.name("rank").map(|rank| shown(rank.as_bytes()));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            return self.hosts_of_rank(rank);
        }
        let peer = named.name("peer").map(|peer| shown(peer.as_bytes()));
        let peer = peer.unwrap_or_default();
        if let Some(hosts) = homes.get(&peer) {
            let is_one = hosts.len() == 1;
            return if is_one {
                hosts.clone()
            } else {
                BTreeSet::new()
            };
        }
        let host = short(&peer);
        let is_known = self
            .of_processes()
            .any(|(one, _)| short(&self.host(one)) == host);
        is_known.then(|| host.to_owned()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::report_of as report;

    /// The signature and the line of the first finding.
    fn first(texts: &[(&str, &str)]) -> (String, u64) {
        let findings = report(texts).findings;
        let first = findings.first().expect("a finding");
        (first.signature.clone(), first.first.line)
    }

    /// What two hosts say as they make a communicator of 16 ranks.
    fn hosts() -> [String; 2] {
        [("node-a", "10.0.1.25", 0), ("node-b", "10.0.0.226", 8)].map(|(host, address, rank)| {
            format!(
                "{host}:71:79 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:{address}<0>\n\
                 {host}:71:79 [0] NCCL INFO Using network IB\n\
                 {host}:71:79 [0] NCCL INFO ncclCommInitRank comm 0x55d1c0de0000 rank {rank} nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6f2d81c4b7aa9e10 - Init COMPLETE\n"
            )
        })
    }

    const STATUS: &str = "node-a:71:80 [0] transport/net_ib.cc:1610 NCCL WARN NET/IB : Got completion from peer 10.0.0.226<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n";
    const RAISED: &str = "[rank8]: Traceback (most recent call last):\n[rank8]:   File \"/app/train.py\", line 5, in step\n[rank8]: ValueError: bad shape\n";

    #[test]
    fn what_the_others_report_follows_the_exception_of_the_peer() {
        let [one, other] = hosts();
        let both = format!("{one}{other}");
        let losses = [
            STATUS,
            &STATUS.replace("status=12", "status=4"),
            &STATUS.replace("status=12", "status=10"),
            "node-a:71:80 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-b<41112>\n",
            "node-a:71:80 [0] ofi_process_cq:196 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 15. Error: 4126 (Unresponsive receiver). Completed length: 0, Request: x\n",
            "node-a:71:80 [0] tcpxResult_t socketProgressOpt(int, int, void*, int, int*, int):48 NCCL WARN Net/GPUDirectTCPX : Connection closed by remote peer, 10.0.0.226<43835><-10.0.1.25<50699> rx\n",
        ];
        for lost in losses {
            let found = report(&[("x", &format!("{both}{RAISED}{lost}"))]).findings;
            let roles: Vec<_> = found.iter().map(|one| (one.first.line, one.role)).collect();
            assert_eq!(
                roles,
                [(9, Role::General), (10, Role::Consequence)],
                "{lost}"
            );
        }
        let bare = RAISED.replace("ValueError: bad shape", "AssertionError");
        assert_eq!(first(&[("x", &format!("{both}{bare}{STATUS}"))]).1, 9);
        // A crash, also of another process of the host.
        let crash = "[node-b:72] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))\n";
        assert_eq!(first(&[("x", &format!("{both}{crash}{STATUS}"))]).1, 7);
    }

    #[test]
    fn an_exception_of_another_host_or_behind_it_or_of_a_loss_is_no_reason() {
        let [one, other] = hosts();
        let both = format!("{one}{other}");
        let check = |raised: &str| {
            let text = format!("{both}{raised}{STATUS}");
            let line = text.lines().count() as u64;
            assert_eq!(
                first(&[("x", &text)]),
                ("ib-completion-error".to_owned(), line),
                "{raised}"
            );
        };
        check(&RAISED.replace("rank8", "rank0"));
        check(&RAISED.replace("ValueError: bad shape", "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.1.25]:52343"));
        assert_eq!(first(&[("x", &format!("{both}{STATUS}{RAISED}"))]).1, 7);
        // A process that made a communicator behind it went on.
        let text = format!("{one}{RAISED}{other}{STATUS}");
        assert_eq!(first(&[("x", &text)]).0, "ib-completion-error");
    }

    #[test]
    fn a_peer_that_the_log_does_not_know_may_be_any_process() {
        let [one, other] = hosts();
        let unknown = STATUS.replace("10.0.0.226", "10.0.7.7");
        assert_eq!(
            first(&[("x", &format!("{one}{other}{RAISED}{unknown}"))]).1,
            9
        );
        assert_eq!(first(&[("x", &format!("{one}{RAISED}{STATUS}"))]).1, 6);
    }

    #[test]
    fn files_without_times_are_ordered_by_the_peer_that_is_named() {
        let [one, other] = hosts();
        let (lost, raised) = (format!("{one}{STATUS}"), format!("{other}{RAISED}"));
        let read = report(&[("a", &lost), ("b", &raised)]);
        assert_eq!(read.findings[0].first.file, "b");
        let first = read.first_failure.unwrap();
        assert_eq!((first.files, first.is_known), (vec!["b".to_owned()], true));
        let unknown = lost.replace("10.0.0.226<", "10.0.7.7<");
        assert_eq!(
            report(&[("a", &unknown), ("b", &raised)]).findings[0]
                .first
                .file,
            "a"
        );
    }

    #[test]
    fn a_launcher_tells_late_of_a_death_of_the_peer() {
        let [one, other] = hosts();
        let closed = "node-a:71:80 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-b.example<41112>\n";
        let check = |death: &str, is_first: bool| {
            let text = format!("{one}{other}{closed}{death}\n");
            let line = if is_first { 8 } else { 7 };
            assert_eq!(first(&[("x", &text)]).1, line, "{death}");
        };
        check("srun: error: node-b: task 8: Out Of Memory", true);
        check(
            "node-b: bash: line 1:  4024 Segmentation fault      (core dumped) ./all_reduce_perf",
            true,
        );
        check("srun: error: node-a: task 0: Out Of Memory", false);
        check("srun: error: node-b: task 8: Terminated", false);
        check("srun: error: node-b: task 8: Aborted (core dumped)", false);
    }
}
