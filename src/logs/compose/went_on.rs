//! Warnings that a job got over: a plugin that did not come up before another network did, or a plugin that was asked
//! for and is not there. They are told, as info, where nothing else is a finding: the job may be slower than it should be.
//! Where a plugin failed and channels between nodes are of sockets, it is slower, and that is a warning.
#![forbid(unsafe_code)]

use super::Compose;
use crate::networks::{Proof, kind};
use crate::report::{LogReport, SignatureFinding};
use crate::signature::{Need, Severity, Signature};
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
        let networks = self.networks();
        // A channel of a network is one between nodes.
        let is_slower = networks
            .iter()
            .any(|(_, name, proof)| *proof == Proof::Used && kind(&super::shown(name)) == "socket");
        let chosen = networks.into_iter();
        let chosen = chosen.filter(|(_, _, proof)| *proof >= Proof::Chosen);
        let chosen: BTreeSet<String> = chosen.map(|(_, name, _)| super::shown(name)).collect();
        let chosen: Vec<String> = chosen.into_iter().collect();
        for one in &mut told {
            let has_failed = self
                .signature(&one.signature)
                .is_some_and(|its| its.needs == Some(Need::UnfinishedInit));
            one.severity = match is_slower && has_failed {
                true => Severity::Warning,
                false => Severity::Info,
            };
            one.meaning = match chosen.as_slice() {
                names if one.severity == Severity::Warning => format!(
                    "{}; NCCL chose {} instead, so data between nodes go over that",
                    one.meaning,
                    names.join(", ")
                ),
                [] => format!("{}; no line shows that it stopped the job", one.meaning),
                names => format!("{}; NCCL chose {}", one.meaning, names.join(", ")),
            };
        }
        report.findings = told;
    }

    fn signature(&self, name: &str) -> Option<&Signature> {
        Signature::named(&self.catalogue.signatures, name)
    }

    /// Whether lines that are no finding here warn of something that the job then had to do without.
    fn is_got_over(&self, seen: &SignatureFinding) -> bool {
        self.signature(&seen.signature).is_some_and(|one| {
            one.got_over
                || one.needs == Some(Need::UnfinishedInit)
                || one.severity.is_finding() && seen.sample.contains(WARN)
        })
    }
}
