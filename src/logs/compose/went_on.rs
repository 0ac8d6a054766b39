//! Warnings that a job got over: a plugin that did not come up before another network did, or a plugin that was asked
//! for and is not there. They are told, as info, where nothing else is a finding: the job may be slower than it should be.
#![forbid(unsafe_code)]

use super::Compose;
use crate::networks::Proof;
use crate::report::{LogReport, SignatureFinding};
use crate::signature::{Need, Severity};
use std::collections::BTreeSet;

/// What stands in a line that NCCL or a plugin logs as a warning.
const WARN: &str = " NCCL WARN ";

impl Compose<'_> {
    /// Makes findings of warnings that stopped nothing, where the log has no other finding.
    pub(super) fn tell_of_what_went_on(&self, report: &mut LogReport) {
        if !report.findings.is_empty() {
            return;
        }
        let is_told = |one: &mut SignatureFinding| self.is_got_over(one);
        let mut told: Vec<SignatureFinding> = report.seen.extract_if(.., is_told).collect();
        told.sort_by_key(|one| (one.first.file.clone(), one.first.line));
        let chosen = self.networks().into_iter();
        let chosen = chosen.filter(|(_, _, proof)| *proof >= Proof::Chosen);
        let chosen: BTreeSet<String> = chosen.map(|(_, name, _)| super::shown(name)).collect();
        let chosen: Vec<String> = chosen.into_iter().collect();
        for one in &mut told {
            one.severity = Severity::Info;
            one.meaning = match chosen.as_slice() {
                [] => format!("{}; no line shows that it stopped the job", one.meaning),
                names => format!("{}; NCCL chose {}", one.meaning, names.join(", ")),
            };
        }
        report.findings = told;
    }

    /// Whether lines that are no finding here warn of something that the job then had to do without.
    fn is_got_over(&self, seen: &SignatureFinding) -> bool {
        let signatures = self.catalogue.signatures.iter();
        let mut its = signatures.filter(|one| one.name == seen.signature);
        its.any(|one| {
            one.got_over
                || one.needs == Some(Need::UnfinishedInit)
                || one.severity.is_finding() && seen.sample.contains(WARN)
        })
    }
}
