//! Which of several files failed first, as far as their lines show it.
//!
//! Within a file the order of lines is the order of events. Between files only times order
//! them, or what the lines say: a file that lost a peer, or was ended by its launcher, failed
//! after another one. Where neither tells, the answer is that it is unknown; the order of the
//! files' names never decides.
#![forbid(unsafe_code)]

use super::catalogue::SignatureCatalogue;
use super::compose::losses::{tells_of_end, tells_of_loss};
use super::report::{FirstFailure, SignatureFinding, UNKNOWN_WARNING};
use super::seen::{Place, SeenLines};
use super::signature::{Role, Severity};
use super::tally::{Speaker, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// Files that are named.
const NAMED_MAX: usize = 16;

/// What one file says about its failure.
#[derive(Default)]
struct OfFile {
    /// The first line that names a cause, that tells of an end by its own doing, that names what failed as a peer was
    /// lost, and any failure.
    cause: Option<Moment>,
    ended: Option<Moment>,
    lost_peer: Option<Moment>,
    first: Option<Moment>,
    /// Peers that it lost.
    lost: BTreeSet<String>,
    /// Hosts that wrote it.
    hosts: BTreeSet<String>,
}

/// A line, and its time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    place: Place,
    time: Option<i64>,
}

impl Moment {
    fn of(seen: &SeenLines) -> Self {
        Self {
            place: seen.first,
            time: seen.first_line_us,
        }
    }
}

/// Which file failed first; `None` if fewer than two failed.
pub(super) fn first_failure(
    catalogue: &SignatureCatalogue,
    tally: &Tally,
    files: &[String],
    findings: &[SignatureFinding],
) -> Option<FirstFailure> {
    let of = of_files(catalogue, tally, files, findings);
    let failed: BTreeMap<u32, &OfFile> = of
        .iter()
        .filter(|(_, file)| file.first.is_some())
        .map(|(number, file)| (*number, file))
        .collect();
    if failed.len() < 2 {
        return None;
    }
    let name = |number: &u32| files.get(*number as usize).cloned().unwrap_or_default();
    let known = |number: u32, because: String| FirstFailure {
        files: vec![name(&number)],
        is_known: true,
        because,
    };
    if let Some(number) = earliest(&failed) {
        let because = "its first failure is the earliest, if the nodes' clocks agree";
        return Some(known(number, because.to_owned()));
    }
    type Part = fn(&OfFile) -> Option<Moment>;
    let parts: [(Part, &str); 3] = [
        (|file| file.cause, "only this file names a cause"),
        (
            |file| file.ended,
            "only this file tells of an exception, a crash or a kill",
        ),
        (|file| file.lost_peer, "only this file names a cause"),
    ];
    for (part, only) in parts {
        let of = failed.iter().filter(|(_, file)| part(file).is_some());
        let of: Vec<u32> = of.map(|(number, _)| *number).collect();
        let others = failed.len() - of.len();
        match of.as_slice() {
            [] => {}
            [number] => {
                return Some(known(
                    *number,
                    format!("{only}; {others} others report lost peers, waits or ends"),
                ));
            }
            several => {
                return Some(FirstFailure {
                    files: several.iter().take(NAMED_MAX).map(name).collect(),
                    is_known: false,
                    because: "each names a cause, and their lines have no times to compare"
                        .to_owned(),
                });
            }
        }
    }
    Some(FirstFailure {
        files: Vec::new(),
        is_known: false,
        because: lost(&of, &failed),
    })
}

/// The file with the earliest failure, if all have times.
fn earliest(failed: &BTreeMap<u32, &OfFile>) -> Option<u32> {
    let times = failed.iter().map(|(number, file)| {
        let first = file
            .cause
            .or(file.ended)
            .or(file.lost_peer)
            .or(file.first)?;
        Some((first.time?, *number))
    });
    let mut times: Vec<(i64, u32)> = times.collect::<Option<_>>()?;
    times.sort_unstable();
    let (first, second) = (times.first()?, times.get(1)?);
    (first.0 != second.0).then_some(first.1)
}

/// What is known if no file names a cause: a peer that was lost and whose log is not here.
fn lost(of: &BTreeMap<u32, OfFile>, failed: &BTreeMap<u32, &OfFile>) -> String {
    let hosts: BTreeSet<&String> = of.values().flat_map(|file| &file.hosts).collect();
    let lost = failed.values().flat_map(|file| &file.lost);
    let absent: BTreeSet<&String> = lost.filter(|peer| !hosts.contains(peer)).collect();
    let mut names = absent.iter().map(|name| name.as_str());
    match (names.next(), absent.len()) {
        (Some(peer), 1) => {
            let by = failed.values().filter(|file| file.lost.contains(peer));
            format!(
                "no file names a cause; {} lost {peer}, whose log is not among them",
                by.count()
            )
        }
        _ => "no file names a cause, and their lines do not order them".to_owned(),
    }
}

fn of_files(
    catalogue: &SignatureCatalogue,
    tally: &Tally,
    files: &[String],
    findings: &[SignatureFinding],
) -> BTreeMap<u32, OfFile> {
    let names: BTreeSet<&str> = findings.iter().map(|one| one.signature.as_str()).collect();
    let mut of = BTreeMap::<u32, OfFile>::new();
    for ((number, speaker), seen) in &tally.seen {
        let Some(signature) = catalogue.signatures.get(*number as usize) else {
            continue;
        };
        let file = of.entry(seen.first.file).or_default();
        if let Some(Speaker::Process { host, .. }) = tally.speakers.get_index(*speaker as usize) {
            file.hosts.insert(super::compose::shown(host));
        }
        if signature.severity >= Severity::Warning || !names.contains(signature.name.as_str()) {
            continue;
        }
        let moment = Some(Moment::of(seen));
        file.first = file.first.into_iter().chain(moment).min();
        let line = String::from_utf8_lossy(&seen.sample);
        let is_lost = tells_of_loss(Some(signature), &line);
        let part = match signature.role {
            Role::Cause if is_lost => Some(&mut file.lost_peer),
            Role::Cause => Some(&mut file.cause),
            Role::General if tells_of_end(Some(signature), &line) => Some(&mut file.ended),
            Role::General | Role::Consequence => None,
        };
        if let Some(part) = part {
            *part = part.take().into_iter().chain(moment).min();
        }
        if is_lost && let Some(peer) = catalogue.values(*number as usize, &seen.sample).get("peer")
        {
            file.lost.insert(peer.to_owned());
        }
    }
    let unknown = findings
        .iter()
        .filter(|one| one.signature == UNKNOWN_WARNING);
    for finding in unknown.filter(|one| tells_of_end(None, &one.sample)) {
        let number = files.iter().position(|file| *file == finding.first.file);
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else {
            continue;
        };
        let place = Place {
            file: number,
            line: finding.first.line,
        };
        let time = finding.first.at.as_deref().and_then(super::time::typed);
        let file = of.entry(number).or_default();
        let moment = Some(Moment { place, time });
        file.first = file.first.into_iter().chain(moment).min();
        file.ended = file.ended.into_iter().chain(moment).min();
    }
    of
}

#[cfg(test)]
mod tests {
    use crate::{FirstFailure, LogFilter, LogReader, SignatureCatalogue};

    fn read(texts: &[(&str, &str)]) -> Option<FirstFailure> {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        for (name, text) in texts {
            reader.source(name, text.as_bytes(), text.as_bytes());
        }
        reader.report().first_failure
    }

    const CAUSE: &str = "node-c:71:79 [0] f:1 NCCL WARN NET/GPUDirectTCPX : mhandle is null\n";
    const LOST: &str = "node-a:71:79 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-c<45074>\n";

    #[test]
    fn each_reason_has_chinese() {
        let others = "2 others report lost peers, waits or ends";
        let reasons = [
            "its first failure is the earliest, if the nodes' clocks agree",
            &format!("only this file names a cause; {others}"),
            &format!("only this file tells of an exception, a crash or a kill; {others}"),
            "each names a cause, and their lines have no times to compare",
            "no file names a cause; 2 lost node-c, whose log is not among them",
            "no file names a cause, and their lines do not order them",
        ];
        for reason in reasons {
            let chinese = tcpx_run_model::chinese::chinese(reason);
            let missing = format!("add to chinese-logs.toml: {reason}");
            assert!(!chinese.expect(&missing).contains("file"), "{missing}");
        }
    }

    #[test]
    fn the_only_file_with_a_cause_failed_first() {
        let other = LOST.replace("node-a", "node-b");
        let first = read(&[("a", LOST), ("b", &other), ("c", CAUSE)]).unwrap();
        assert_eq!((first.files, first.is_known), (vec!["c".to_owned()], true));
        assert!(first.because.contains("2 others"), "{}", first.because);
    }

    #[test]
    fn a_lost_peer_without_a_log_is_named_and_not_guessed_further() {
        let other = LOST.replace("node-a", "node-b");
        let first = read(&[("a", LOST), ("b", &other)]).unwrap();
        assert!(!first.is_known && first.files.is_empty());
        assert!(first.because.contains("2 lost node-c"), "{}", first.because);
        // Each lost the other: the lines do not tell which was first.
        let mutual = other.replace("peer node-c", "peer node-a");
        let first = read(&[
            ("a", &LOST.replace("peer node-c", "peer node-b")),
            ("b", &mutual),
        ])
        .unwrap();
        assert!(!first.because.contains("whose log"), "{}", first.because);
    }

    /// A rank's exception, beside lines of NCCL that name its host and its rank.
    const RAISED: &str = "node-c:71:79 [0] NCCL INFO ncclCommInitRank comm 0x55d1c0de0000 rank 8 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6f2d81c4b7aa9e10 - Init COMPLETE\n[rank8]: Traceback (most recent call last):\n[rank8]:   File \"/app/train.py\", line 5, in step\n[rank8]: KeyError: 'labels'\n";

    #[test]
    fn an_exception_of_the_lost_peer_was_first() {
        let status = LOST.replace(
            "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-c<45074>",
            "transport/net_ib.cc:1610 NCCL WARN NET/IB : Got completion from peer node-c<45074> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        );
        for lost in [LOST, &status] {
            let first = read(&[("a", lost), ("c", RAISED)]).unwrap();
            assert_eq!((first.files, first.is_known), (vec!["c".to_owned()], true));
            assert!(first.because.contains("1 others"), "{}", first.because);
        }
        let first = read(&[("a", &status), ("b", &LOST.replace("node-a", "node-b"))]).unwrap();
        assert_eq!((first.files, first.is_known), (vec!["a".to_owned()], true));
    }

    #[test]
    fn two_causes_without_times_are_not_ordered_and_with_times_they_are() {
        let other = CAUSE.replace("node-c", "node-a");
        let first = read(&[("a", &other), ("c", CAUSE)]).unwrap();
        assert_eq!((first.files.len(), first.is_known), (2, false));
        let (late, early) = (
            format!("[2026-11-20 08:14:05] {other}"),
            format!("[2026-11-20 08:14:04] {CAUSE}"),
        );
        let first = read(&[("a", &late), ("c", &early)]).unwrap();
        assert_eq!((first.files, first.is_known), (vec!["c".to_owned()], true));
        let first = read(&[("a", &other), ("c", &early)]).unwrap();
        assert!(!first.is_known);
    }

    #[test]
    fn one_file_needs_no_answer() {
        assert_eq!(read(&[("a", CAUSE), ("b", "nothing\n")]), None);
    }
}
