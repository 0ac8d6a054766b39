//! Several runs in one log, one behind the other: the failure of the first one is first, whatever a later one warns of.
//!
//! A later run is told by a process of the host on which the first one ended, whose lines are all behind that. What
//! another host says behind it may be of the same job, and so may a connection that its peer closed.
#![forbid(unsafe_code)]

use super::ranking::PEER_CLOSED;
use super::{Compose, shown};
use crate::loggers::regex;
use crate::report::{LogReport, SignatureFinding, StatedLine};
use crate::signature::{Role, Severity};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// How a program of nccl-tests ends, with its process: `.. node-a pid 71: Test failure common.cu:893`.
static ENDED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*\.\. (?P<host>\S+) pid (?P<pid>\d+): Test failure "));
/// What it says right before.
const FAILURES: [&str; 2] = [": Test NCCL failure ", ": Test CUDA failure "];
const LATER_RUN: &str = "it ended a run, and what failed below it is of a later one";

impl Compose<'_> {
    /// Puts the failure of a run that ended before the findings that are of other processes.
    pub(super) fn put_first_run_first(&self, report: &mut LogReport) {
        let ends = self
            .tally
            .stated
            .counted()
            .filter_map(|one| Some((one.first, ended(&one.text)?)));
        let Some((place, ended)) = ends.min() else {
            return;
        };
        let place = self.place(place, None);
        let is_later = |one: &SignatureFinding| {
            one.first.file == place.file
                && one.first.line > place.line
                && one.signature != PEER_CLOSED
                && self
                    .process_of(one)
                    .is_some_and(|other| other.host == ended.host && other.pid != ended.pid)
        };
        let failures = report.findings.iter();
        let mut failures = failures.filter(|one| one.role != Role::Consequence);
        let has_failures = failures.clone().next().is_some();
        if !has_failures || !failures.all(is_later) {
            return;
        }
        let is_head = |line: u64, sample: &str| {
            line + 1 == place.line && FAILURES.iter().any(|words| sample.contains(words))
        };
        let known = report
            .findings
            .iter()
            .position(|one| one.first.file == place.file && is_head(one.first.line, &one.sample));
        let head = match known {
            Some(known) => report.findings.remove(known),
            None => {
                let mut lines = self.tally.stated.lines().map(|(place, text)| StatedLine {
                    place: self.place(place, None),
                    sample: shown(text),
                });
                let line = lines.find(|one| {
                    one.place.file == place.file && is_head(one.place.line, &one.sample)
                });
                let Some(line) = line else {
                    return;
                };
                report.stated.retain(|one| *one != line);
                let mut head = [super::stated::stated_finding(line)];
                crate::reasons::explain(&mut head, &self.catalogue.signatures);
                let [head] = head;
                head
            }
        };
        let head = SignatureFinding {
            role: Role::General,
            severity: Severity::Error,
            meaning: format!("{}; {LATER_RUN}", head.meaning),
            ..head
        };
        report.findings.insert(0, head);
    }

    /// The process that a finding's first line, or the next ones, name.
    fn process_of(&self, finding: &SignatureFinding) -> Option<Process> {
        let seen = self.seen_of(finding);
        let below = seen.into_iter().flat_map(|seen| seen.near_lines());
        let below = below.take(1).find_map(|line| ended(line));
        let own = || {
            let (host, pid) = finding.processes.first()?.rsplit_once(':')?;
            let is_pid = pid.bytes().all(|byte| byte.is_ascii_digit());
            is_pid.then(|| Process {
                host: host.as_bytes().to_vec(),
                pid: pid.as_bytes().to_vec(),
            })
        };
        below.or_else(own)
    }
}

/// A process by the names that lines give it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    host: Vec<u8>,
    pid: Vec<u8>,
}

/// The process that a line says has ended.
fn ended(line: &[u8]) -> Option<Process> {
    let found = ENDED.captures(line)?;
    let [host, pid] = ["host", "pid"].map(|name| found[name].to_vec());
    Some(Process { host, pid })
}
