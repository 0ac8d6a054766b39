//! The host of the first finding, named in its sentence where its lines name none.
//!
//! An exception or a sentence of a library names no host, and other lines of the same file do: NCCL's header, the
//! prefix of Open MPI, torchrun's table, Slurm's words. If they all name one host, the failure was there. If they name
//! several, only those in the lines of the finding itself count.
#![forbid(unsafe_code)]

use super::{Compose, has_known_form};
use crate::loggers::regex;
use crate::report::SignatureFinding;
use crate::seen::SeenLines;
use crate::signature::Severity;
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What it is called in the sentence, alone or behind other facts.
const NAMED: &str = "the log names ";
/// Most hosts of a finding's own lines that are named.
const OWN_MAX: usize = 2;

/// A host in a line of Open MPI, of UCX, of Slurm, or of torchrun's table.
static HOST: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\[(?P<ompi>[A-Za-z][\w.-]*)(?::\d+\] |\]\[\[\d+,\d+\],\d+\])|\[(?P<ucx>[A-Za-z][\w.-]*):\d+ *:\d+(?::\d+)?\] +(?:\w+\.c:\d+|Caught signal) |\bsrun: error: (?P<srun>[A-Za-z][\w.-]*): task|^MPICH ERROR \[Rank \d+\] \[job id [^\]]*\] \[[^\]]*\] \[(?P<mpich>[A-Za-z][\w.-]*)\]|^torchrun saw rank \d+ on (?P<torchrun>[A-Za-z][^\s,]*) fail first",
    )
});

/// The prefix of pdsh before an exception: a name with a number in it that is not `rank`.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?P<host>(?:[a-qs-z][a-z-]*|r[b-z][a-z-]*)\d[\w.-]*): (?:\w+\.)*\w*(?:Error|Exception): ",
    )
});

pub(super) fn host_in(text: &[u8]) -> Option<String> {
    let found = HOST.captures(text)?;
    let host = found
        .name("ompi")
        .or(found.name("ucx"))
        .or(found.name("srun"))
        .or(found.name("mpich"))
        .or(found.name("torchrun"))?;
    // A program that passes its own logger to the plugin writes `[ncclNet:2]`.
    (host.as_bytes() != b"ncclNet").then(|| super::shown(host.as_bytes()))
}

/// The name up to its first dot, by which two spellings of one host are the same.
pub(super) fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

/// Names hosts in the sentence of a finding, alone or behind its other facts.
pub(super) fn add(finding: &mut SignatureFinding, hosts: &str) {
    let last = finding.meaning.rsplit("; ").next();
    let is_of_facts = last.is_some_and(|part| part.starts_with(NAMED));
    let before = if is_of_facts {
        ", "
    } else {
        "; the log names "
    };
    finding.meaning = format!("{}{before}host {hosts}", finding.meaning);
}

impl Compose<'_> {
    /// Names the host of the first finding, if only other lines do.
    pub(super) fn name_host(&self, findings: &mut [SignatureFinding]) {
        let Some((first, others)) = findings.split_first_mut() else {
            return;
        };
        if first.severity >= Severity::Warning {
            return;
        }
        let own = self.own_hosts(first);
        let hosts = if own.is_empty() {
            let of_log = self.hosts_of_log(first, others);
            if of_log.len() == 1 { of_log } else { own }
        } else {
            own
        };
        let is_named = |host: &String| {
            let host = short(host);
            let mut processes = first.processes.iter();
            first.meaning.contains(host) || processes.any(|name| name.contains(host))
        };
        let names: Vec<String> = hosts.iter().filter(|one| !is_named(one)).cloned().collect();
        if !names.is_empty() && names.len() <= OWN_MAX {
            add(first, &names.join(" and "));
        }
    }

    /// The lines of the file of a finding that are kept, and who wrote them.
    fn lines_of_file(&self, finding: &SignatureFinding) -> impl Iterator<Item = (u32, &SeenLines)> {
        let file = self.files.iter().position(|one| *one == finding.first.file);
        let seen = self.tally.seen.iter();
        let seen = seen.map(|((_, speaker), seen)| (*speaker, seen));
        seen.filter(move |(_, seen)| Some(seen.first.file as usize) == file)
    }

    fn own_hosts(&self, finding: &SignatureFinding) -> BTreeSet<String> {
        // Lines of other ranks may be beside a line that names its own.
        if let Some(host) = host_in(finding.sample.as_bytes()) {
            return BTreeSet::from([host]);
        }
        let lines = self.lines_of_file(finding);
        let lines = lines.filter(|(_, seen)| seen.first.line == finding.first.line);
        let near = lines.flat_map(|(_, seen)| seen.near_lines());
        let near = near.filter(|line| has_known_form(line));
        let near = near.filter_map(|line| host_in(line));
        let texts = finding.before.iter().chain(&finding.after);
        let texts = texts.filter(|text| has_known_form(text.as_bytes()));
        let texts = texts.chain([&finding.sample]);
        let prefix = PREFIX.captures(finding.sample.as_bytes());
        let prefix = prefix.map(|found| super::shown(&found["host"]));
        let own = prefix
            .into_iter()
            .chain(near)
            .chain(texts.filter_map(|text| host_in(text.as_bytes())));
        // One spelling of each.
        let mut hosts = BTreeSet::<String>::new();
        for host in own {
            if !hosts.iter().any(|one| short(one) == short(&host)) {
                hosts.insert(host);
            }
        }
        hosts
    }

    fn hosts_of_log(
        &self,
        first: &SignatureFinding,
        others: &[SignatureFinding],
    ) -> BTreeSet<String> {
        let of_speaker = |speaker: u32| match self.tally.speakers.get_index(speaker as usize)? {
            Speaker::Process { host, .. } => Some(super::shown(host)),
            _ => None,
        };
        let is_of_file = |file: u32| self.files.get(file as usize) == Some(&first.first.file);
        let ends = self.tally.ends.iter();
        let ends = ends.filter(|(file, ..)| is_of_file(*file));
        let ends = ends.map(|(_, speaker, _)| speaker);
        let speakers = self.lines_of_file(first).map(|(speaker, _)| speaker);
        let speakers = speakers.chain(ends).filter_map(of_speaker);
        let lines = self
            .lines_of_file(first)
            .filter_map(|(_, seen)| host_in(&seen.sample));
        let near = self
            .lines_of_file(first)
            .flat_map(|(_, seen)| seen.near_lines());
        let near = near.filter(|line| has_known_form(line));
        let near = near.filter_map(|line| host_in(line));
        let told = others
            .iter()
            .filter(|one| one.first.file == first.first.file);
        let told = told.filter_map(|one| host_in(one.meaning.as_bytes()));
        let hosts = speakers.chain(lines).chain(near).chain(told);
        hosts.map(|host| short(&host).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_launcher_names_its_host() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(host_in(line.as_bytes()).as_deref(), expected, "{line}");
        };
        check(
            "[node-a:71] Local abort before MPI_INIT completed",
            Some("node-a"),
        );
        check("srun: error: node-b: task 3: Terminated", Some("node-b"));
        check(
            "MPICH ERROR [Rank 5] [job id 71.0] [Fri Nov 20 08:14:04 2026] [node-a] - Abort(1): Fatal error in PMPI_Send: Other",
            Some("node-a"),
        );
        check(
            "torchrun saw rank 6 on node-a.example fail first: exit 1",
            Some("node-a.example"),
        );
        check(
            "1: [1795162444.5] [node-b:5215 :0]            sock.c:325  UCX  ERROR   a",
            Some("node-b"),
        );
        check(
            "[node-a:71:0:71] ib_mlx5_log.c:179  Transport retry count exceeded on mlx5_0:1/IB",
            Some("node-a"),
        );
        check(
            "[node-b:71 :0:71] Caught signal 11 (Segmentation fault: address not mapped)",
            Some("node-b"),
        );
        check(
            "[node-a][[50702,1],0][btl_tcp_endpoint.c:655:f] connect() to 10.0.0.226 failed",
            Some("node-a"),
        );
        check("[ncclNet:2] tcpxResult_t tcpxTest():1326 a", None);
        check("[1,0]<stderr>: node-a", None);
        check("[12:71] a", None);
    }

    #[test]
    fn the_sentence_has_chinese() {
        for text in [
            "the log names host node-a",
            "the log names host node-a and node-b",
        ] {
            assert!(tcpx_run_model::chinese::chinese(text).is_some());
        }
    }
}
