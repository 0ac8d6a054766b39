//! Several runs in one log, one behind the other: the failure of the first one is first, whatever a later one warns of.
#![forbid(unsafe_code)]

use super::{Compose, shown};
use crate::loggers::regex;
use crate::report::{LogReport, SignatureFinding, StatedLine};
use crate::signature::{Role, Severity};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// How a program of nccl-tests ends, with its process: `.. node-a pid 71: Test failure common.cu:893`.
static ENDED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*\.\. \S+ pid (?P<pid>\d+): Test failure "));
/// What it says right before.
const FAILURES: [&str; 2] = [": Test NCCL failure ", ": Test CUDA failure "];
const LATER_RUN: &str = "it ended a run, and what failed below it is of a later one";

impl Compose<'_> {
    /// Puts the failure of a run that ended before the findings that are of other processes.
    pub(super) fn put_first_run_first(&self, report: &mut LogReport) {
        let ends = self.tally.stated.counted().filter_map(|one| {
            let pid = ENDED.captures(&one.text)?["pid"].to_vec();
            Some((one.first, pid))
        });
        let Some((place, pid)) = ends.min() else {
            return;
        };
        let place = self.place(place, None);
        let is_later = |one: &SignatureFinding| {
            one.first.file == place.file
                && one.first.line > place.line
                && self.pids_of(one).is_some_and(|other| other != pid)
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
    fn pids_of(&self, finding: &SignatureFinding) -> Option<Vec<u8>> {
        let of_end = |line: &[u8]| Some(ENDED.captures(line)?["pid"].to_vec());
        let seen = self.seen_of(finding);
        let below = seen.into_iter().flat_map(|seen| seen.near_lines());
        let below = below.take(1).find_map(|line| of_end(line));
        let own = || {
            let name = finding.processes.first()?;
            let (_, pid) = name.rsplit_once(':')?;
            pid.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| pid.as_bytes().to_vec())
        };
        below.or_else(own)
    }
}
