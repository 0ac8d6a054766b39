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

/// Most lines between such a line and the first call of the chain: other processes write between them.
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
        let of = |name: &str| {
            let its = |(number, _): &(&(u32, u32), &SeenLines)| {
                let signature = self.catalogue.signatures.get(number.0 as usize);
                signature.is_some_and(|one| one.name == name)
            };
            self.tally
                .seen
                .iter()
                .filter(move |one| its(one))
                .collect::<Vec<_>>()
        };
        let is_between = |before: &LinePlace, behind: &LinePlace| {
            findings.iter().any(|one| {
                one.first.file == before.file
                    && (before.line..behind.line).contains(&one.first.line)
            })
        };
        let lines = of(&harmless.signature);
        let mut chains = findings.iter().enumerate();
        let found = chains.find(|(_, chain)| {
            let of_chain = of(&chain.signature);
            let of_chain = of_chain
                .iter()
                .filter(|(_, seen)| CALL.is_match(&seen.sample));
            of_chain.into_iter().any(|((_, speaker), calls)| {
                let mut its = lines.iter().filter(|((_, one), _)| one == speaker);
                its.any(|(_, lines)| {
                    let (before, behind) =
                        (self.place(lines.last, None), self.place(calls.first, None));
                    before.file == behind.file
                        && behind
                            .line
                            .checked_sub(before.line)
                            .is_some_and(|lines| lines <= BEHIND)
                        && thread(lines).is_some()
                        && thread(lines) == thread(calls)
                        && !is_between(&before, &behind)
                })
            })
        });
        found.map(|(number, _)| number)
    }
}
