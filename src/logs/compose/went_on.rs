//! Warnings that a job got over: a plugin that did not come up before another network did, or a plugin that was asked
//! for and is not there. They are told, as info, where nothing else is a finding: the job may be slower than it should be.
//! Where a plugin failed and channels between nodes are of sockets, or a job of several nodes asked for the plugin and
//! NCCL chose sockets, it is slower, and that is a warning.
#![forbid(unsafe_code)]

use super::Compose;
use crate::ends::End;
use crate::loggers::regex;
use crate::networks::{Proof, kind};
use crate::report::{LogReport, SignatureFinding, UnknownWarning};
use crate::seen::{Place, SeenLines};
use crate::signature::{Need, Role, Severity, Signature};
use crate::tally::Speaker;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What stands in a line that NCCL or a plugin logs as a warning.
const WARN: &str = " NCCL WARN ";
/// The signature of plugins that failed in words of their own.
const PLUGIN_FAILED: &str = "net-plugin-failed";
/// NCCL's line on a plugin that a variable names.
const PLUGIN_NAMED: &str = "nccl-plugin-name-set";

/// NCCL's line on a host without InfiniBand, and what asks for it all the same.
const IB_ABSENT: &str = "nccl-ib-no-device";
const OF_IB: &str = "InfiniBand or RoCE (";
const ASKS_IB: [&str; 2] = [
    "InfiniBand or RoCE (NCCL_IB_HCA)",
    "the network IB (NCCL_NET)",
];
const NO_IB: &str = "NCCL finds no InfiniBand or RoCE device, though the job asks for {word}: data between nodes go over sockets";
const NO_IB_CAUSES: [&str; 2] = [
    "the container lacks the device files of /dev/infiniband",
    "the nodes have no RDMA device, or its driver or libibverbs is not loaded there",
];
const NO_IB_NEXT: &str = "run `ibv_devinfo` on each node and in its container: it must list the devices that NCCL_IB_HCA names";

/// What a plugin says of its own failure: `NET/FasTrak: init failed: no NIC matches`.
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r" NCCL WARN NET/(?P<name>\w+) ?:? ?(?P<said>.*(?i:\bfail|\bno (?:[\w-]+ )?(?:interface|device|nic|provider|port)s?\b|\bnot found\b|\bunable to\b|\bcannot\b|\bcould not\b).*)$",
    )
});

/// A program that finds no device of a fast network.
static NO_DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\bno (?:active |usable |available )?(?:rdma|infiniband|ib|roce|efa|verbs|hca)(?: \w+)? (?:was |were )?(?:found|detected|available)\b|\bno (?:hca|rdma nic)s? ",
    )
});

impl Compose<'_> {
    /// Makes findings of warnings that stopped nothing, where the log has no other finding.
    pub(super) fn tell_of_what_went_on(&self, report: &mut LogReport) {
        if !report.findings.is_empty() {
            return;
        }
        let is_told = |one: &mut SignatureFinding| self.is_got_over(one);
        let mut told: Vec<SignatureFinding> = report.seen.extract_if(.., is_told).collect();
        let is_marked = |one: &mut SignatureFinding| {
            self.signature(&one.signature)
                .is_some_and(|its| its.got_over)
        };
        told.extend(report.benign.extract_if(.., is_marked));
        told.sort_by_key(|one| (one.first.file.clone(), one.first.line));
        let networks = self.networks();
        // A channel of a network is one between nodes.
        let is_slower = self.uses("socket") || self.lacks_asked_plugin();
        let chosen = networks.into_iter();
        let chosen = chosen.filter(|(_, _, proof)| *proof >= Proof::Chosen);
        let chosen: BTreeSet<String> = chosen.map(|(_, name, _)| super::shown(name)).collect();
        let chosen: Vec<String> = chosen.into_iter().collect();
        if is_slower && self.is_of_several_nodes() {
            let failed = report.unknown.extract_if(.., |one| is_of_plugin(one));
            told.extend(failed.map(|one| of_plugin(&one)));
        }
        for one in &mut told {
            let signature = self.signature(&one.signature);
            let has_failed = one.signature == PLUGIN_FAILED
                || signature.is_some_and(|its| its.needs == Some(Need::UnfinishedInit));
            // What a plugin found only later is no loss.
            let is_settled =
                signature.is_some_and(|its| !its.settled_by.is_empty() && its.needs.is_none());
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
                _ if is_settled => format!("{}; the job went on without it", one.meaning),
                [] => format!("{}; no line shows that it stopped the job", one.meaning),
                names => format!("{}; NCCL chose {}", one.meaning, names.join(", ")),
            };
        }
        told.extend(crate::waits_at_end::open_comm(report));
        told.extend(self.bandwidth_falls());
        told.extend(crate::waits_at_end::open_tables(self));
        if told.is_empty() {
            let failures = self
                .without_device(report)
                .or_else(|| self.repeated_failure());
            told.extend(failures);
            crate::reasons::explain(&mut told, &self.catalogue.signatures);
        }
        report.findings = told;
    }

    /// The warning of a program that finds no device for its fast network, where sockets move the data.
    fn without_device(&self, report: &mut LogReport) -> Option<SignatureFinding> {
        if report.transport.verdict != "socket" {
            return None;
        }
        let lacks =
            |one: &UnknownWarning| !one.survived && NO_DEVICE.is_match(one.sample.as_bytes());
        let number = report.unknown.iter().position(lacks)?;
        let finding = super::unknown_finding(&report.unknown.remove(number));
        let because = &report.transport.because;
        Some(SignatureFinding {
            meaning: format!("{}; so data go over sockets: {because}", finding.meaning),
            ..finding
        })
    }

    /// That NCCL found no InfiniBand is a warning where the job asks for it and its nodes use sockets.
    pub(super) fn tell_of_absent_ib(&self, report: &mut LogReport) {
        if report.transport.verdict != "socket" || !self.is_of_several_nodes() {
            return;
        }
        let asked = self.tally.fronts.asked(|name| self.set_value(name));
        let asks = |what: &str| {
            let names_devices = self.is_set("NCCL_IB_HCA") || what.contains("NCCL_IB_HCA");
            let is_of_devices = what.starts_with(OF_IB) && names_devices;
            is_of_devices || ASKS_IB.contains(&what)
        };
        let asked = asked.into_iter().find(|one| asks(&one.what));
        let absent = report.benign.iter();
        let absent = absent.zip(0..).find(|(one, _)| one.signature == IB_ABSENT);
        if let Some((asked, (_, at))) = asked.zip(absent) {
            let absent = report.benign.remove(at);
            report.findings.push(SignatureFinding {
                severity: Severity::Warning,
                role: Role::Cause,
                meaning: NO_IB.replace("{word}", &asked.what),
                causes: NO_IB_CAUSES.map(str::to_owned).to_vec(),
                next_step: Some(NO_IB_NEXT.to_owned()),
                ..absent
            });
        }
    }

    /// Exceptions that programs say they got over are findings where one ended all the same: the log ends with it, it is
    /// the last that its rank or its process wrote of a job that failed, or nothing else tells why a job failed. The
    /// others are told as info.
    pub(super) fn tell_of_got_over(
        &self,
        got_over: Vec<(SignatureFinding, bool)>,
        report: &mut LogReport,
    ) {
        let fails = |one: &&SignatureFinding| one.severity < Severity::Warning;
        let has_failed = report.findings.iter().any(|one| fails(&one));
        let is_explained = report.findings.iter().filter(fails).any(|one| {
            let is_of_launcher = self
                .signature(&one.signature)
                .is_some_and(|its| its.launcher);
            one.role != Role::Consequence && !is_of_launcher
        });
        for (mut finding, is_last) in got_over {
            let is_end = has_failed && (is_last || !is_explained);
            if is_end || self.has_ended(&finding.last) {
                report.findings.push(finding);
            } else {
                finding.severity = Severity::Info;
                report.seen.push(finding);
            }
        }
    }

    /// Whether lines are the last of a rank or a process.
    pub(super) fn is_end_of(&self, speaker: u32, seen: &SeenLines) -> bool {
        let is_file = matches!(
            self.tally.speakers.get_index(speaker as usize),
            Some(Speaker::File(_)) | None
        );
        let mut ends = self.tally.ends.iter();
        let ends_with = |end: &End| {
            end.last.place
                <= Place {
                    line: seen.last.line + 1,
                    ..seen.last
                }
        };
        !is_file && ends.any(|(_, of, end)| of == speaker && ends_with(end))
    }

    /// Whether channels use networks of this kind, and no other.
    pub(super) fn uses(&self, of: &str) -> bool {
        let networks = self.networks().into_iter();
        let used = networks.filter(|(_, _, proof)| *proof == Proof::Used);
        let kinds: BTreeSet<&str> = used.map(|(_, name, _)| kind(&super::shown(name))).collect();
        kinds.len() == 1 && kinds.contains(of)
    }

    /// Whether a job of several nodes asks for a plugin of NCCL, and NCCL chose sockets.
    fn lacks_asked_plugin(&self) -> bool {
        let networks = self.networks();
        let is_socket =
            |name: &[u8], proof| proof == Proof::Chosen && kind(&super::shown(name)) == "socket";
        let is_asked = self.any_seen(&[PLUGIN_NAMED.to_owned()])
            || self.tally.fronts.expects_efa(|name| self.set_value(name));
        let is_slower = !networks.is_empty()
            && networks
                .iter()
                .all(|(_, name, proof)| is_socket(name, *proof));
        is_asked && is_slower && self.is_of_several_nodes()
    }

    /// Whether a communicator is of several nodes, or processes of NCCL are of several hosts.
    pub(super) fn is_of_several_nodes(&self) -> bool {
        self.tally.nodes.values().any(|nodes| *nodes > 1) || self.processes().0.len() > 1
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

/// Whether a warning without a signature is one of a plugin that failed. NCCL's own networks have signatures.
fn is_of_plugin(warning: &UnknownWarning) -> bool {
    let found = FAILS.captures(warning.sample.as_bytes());
    found.is_some_and(|found| !matches!(&found["name"], b"IB" | b"Socket" | b"Plugin"))
}

fn of_plugin(warning: &UnknownWarning) -> SignatureFinding {
    let found = FAILS.captures(warning.sample.as_bytes());
    let said = |name: &str| {
        let part = found.as_ref().and_then(|found| found.name(name));
        part.map_or(String::new(), |part| super::shown(part.as_bytes()))
    };
    SignatureFinding {
        signature: PLUGIN_FAILED.to_owned(),
        meaning: format!("the network plugin {} failed: {}", said("name"), said("said")),
        causes: vec![
            "the plugin, or a device, an interface or a service that it needs, is not set up on these nodes or in their containers".to_owned(),
        ],
        next_step: Some(
            "set up what the line names, and look that NCCL then says `Using network` with the plugin's name".to_owned(),
        ),
        ..super::unknown_finding(warning)
    }
}
