//! Lines that are harmless as a rule, and are not: the same thread's calls fail right behind them, and no other line says
//! why.
#![forbid(unsafe_code)]

use super::Compose;
use crate::loggers::regex;
use crate::report::{LinePlace, LogReport, SignatureFinding};
use crate::seen::SeenLines;
use crate::signature::{Role, Severity};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// A harmless line is blamed for a call at most this many lines below it: other processes write between them.
const BEHIND: u64 = 8;
/// A process of NCCL with its thread.
static THREAD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?P<thread>[\w.-]+:\d+:\d+) \[\d+\] [^\n]*NCCL (?:INFO|WARN) "));
/// A call that fails: `init.cc:876 -> 2`.
static CALL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bNCCL INFO [\w./-]*\w\.(?:cc|cpp|cu|h):\d+ -> [1-7]\b"));
const WARN: &str = "NCCL WARN ";

fn thread(lines: &SeenLines) -> Option<&[u8]> {
    let found = THREAD.captures(&lines.sample)?;
    Some(found.name("thread")?.as_bytes())
}

impl Compose<'_> {
    /// What NCCL warns of is the cause of the calls that fail right behind it.
    pub(super) fn blame_warnings(&self, report: &mut LogReport) {
        let (findings, benign) = (&report.findings, &mut report.benign);
        let is_cause = |one: &mut SignatureFinding| {
            one.sample.contains(WARN) && self.failing_behind(one, findings).is_some()
        };
        let causes: Vec<SignatureFinding> = benign.extract_if(.., is_cause).collect();
        let causes = causes.into_iter().map(|one| SignatureFinding {
            severity: Severity::Error,
            role: Role::Cause,
            ..one
        });
        report.findings.extend(causes);
    }

    /// What it logs at INFO may be their cause.
    pub(super) fn blame_harmless(&self, report: &mut LogReport) {
        for one in std::mem::take(&mut report.benign) {
            let Some(chain) = self.failing_behind(&one, &report.findings) else {
                report.benign.push(one);
                continue;
            };
            report.findings[chain].causes.insert(0, one.meaning.clone());
            report.seen.push(one);
        }
    }

    /// The number of the finding on calls that fail right behind a line of `harmless`, in the same thread and with no other
    /// finding between.
    fn failing_behind(
        &self,
        harmless: &SignatureFinding,
        findings: &[SignatureFinding],
    ) -> Option<usize> {
        let is_between = |before: &LinePlace, behind: &LinePlace| {
            findings.iter().any(|one| {
                one.first.file == before.file
                    && (before.line..behind.line).contains(&one.first.line)
            })
        };
        let is_behind = |lines: &SeenLines, calls: &SeenLines| {
            let before = self.place(lines.last, None);
            let behind = self.place(calls.first, None);
            let apart = behind.line.checked_sub(before.line);
            before.file == behind.file
                && apart.is_some_and(|lines| lines <= BEHIND)
                && thread(lines).is_some()
                && thread(lines) == thread(calls)
                && !is_between(&before, &behind)
        };
        let lines: Vec<(u32, &SeenLines)> = self.lines_of(&harmless.signature).collect();
        findings.iter().position(|chain| {
            let calls = self.lines_of(&chain.signature);
            let mut calls = calls.filter(|(_, calls)| CALL.is_match(&calls.sample));
            calls.any(|(speaker, calls)| {
                let mut its = lines.iter().filter(|(one, _)| *one == speaker);
                its.any(|(_, lines)| is_behind(lines, calls))
            })
        })
    }
}
