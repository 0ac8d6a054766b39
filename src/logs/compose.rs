//! Turns a tally into a report: phases, transport, connections by both ends, builds.
#![forbid(unsafe_code)]

use super::catalogue::SignatureCatalogue;
use super::fields::Polls;
use super::input::InputProblem;
use super::report::{
    BuildMismatch, Comm, LinePlace, LogReport, PollRate, Setting, SignatureFinding, Transport,
    UnknownWarning,
};
use super::signature::{Phase, Severity, Signature};
use super::tally::{Address, FlowKey, FlowSeen, Place, SeenLines, Speaker, Tally};
use super::time;
use std::collections::{BTreeMap, BTreeSet};
use tcpx_words::plugin_family::PluginFamily;

/// Processes that are named of a finding.
const NAMED_MAX: usize = 64;

/// What the files said.
pub(super) fn compose(
    catalogue: &SignatureCatalogue,
    tally: &Tally,
    files: &[String],
) -> LogReport {
    let compose = Compose {
        catalogue,
        tally,
        files,
    };
    let mut report = LogReport {
        schema: "tcpxctl.logs/1",
        ..LogReport::default()
    };
    (report.inputs.lines, report.inputs.matched_lines) = (tally.lines, tally.matched_lines);
    compose.findings(&mut report);
    report.transport = compose.transport();
    report.settings = compose.settings();
    report.comms = compose.comms();
    report.unknown = compose.unknown();
    report.builds = compose.builds();
    for (kind, count) in &tally.too_many {
        let problem =
            format!("too many {kind}: {count} were counted under a common name or left out");
        report.problems.push(InputProblem {
            path: String::new(),
            problem,
        });
    }
    report
}

/// Text of a log as one line without control characters.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Lines of the source by host.
type Hosts = BTreeMap<String, BTreeSet<u32>>;

struct Compose<'a> {
    catalogue: &'a SignatureCatalogue,
    tally: &'a Tally,
    files: &'a [String],
}

impl Compose<'_> {
    fn name(&self, speaker: u32) -> String {
        let file = |file: u32| self.files.get(file as usize).cloned().unwrap_or_default();
        match self.tally.speakers.get(speaker as usize) {
            Some(Speaker::Process {
                host,
                pid: Some(pid),
            }) => format!("{}:{pid}", shown(host)),
            Some(Speaker::Process { host, pid: None }) => shown(host),
            Some(Speaker::Rank { file: of, rank }) => format!("{} rank {rank}", file(*of)),
            Some(Speaker::File(of)) => file(*of),
            Some(Speaker::Others) | None => "(others)".to_owned(),
        }
    }

    fn host(&self, speaker: u32) -> String {
        match self.tally.speakers.get(speaker as usize) {
            Some(Speaker::Process { host, .. }) => shown(host),
            _ => self.name(speaker),
        }
    }

    fn place(&self, place: Place, time_us: Option<i64>) -> LinePlace {
        let file = self
            .files
            .get(place.file as usize)
            .cloned()
            .unwrap_or_default();
        LinePlace {
            file,
            line: place.line,
            at: time_us.and_then(time::shown),
        }
    }

    // ---- findings ----------------------------------------------------------

    fn findings(&self, report: &mut LogReport) {
        let phases = self.phases();
        // By signature, and whether its lines are harmless in their phase.
        let mut kinds = BTreeMap::<(u32, bool), Vec<(u32, &SeenLines, Option<Phase>)>>::new();
        for ((number, speaker), seen) in &self.tally.seen {
            let Some(signature) = self.catalogue.signatures.get(*number as usize) else {
                continue;
            };
            let phase = phases.get(speaker).and_then(|ends| ends.phase_of(seen));
            let harmless = phase.is_some_and(|phase| signature.benign.contains(&phase));
            kinds
                .entry((*number, harmless))
                .or_default()
                .push((*speaker, seen, phase));
        }
        for ((number, harmless), parts) in kinds {
            let Some(signature) = self.catalogue.signatures.get(number as usize) else {
                continue;
            };
            let finding = self.finding(signature, &parts);
            match signature.severity {
                Severity::Info => report.seen.push(finding),
                Severity::Benign => report.benign.push(finding),
                _ if harmless => report.benign.push(finding),
                _ => report.findings.push(finding),
            }
        }
        let order = |finding: &SignatureFinding| {
            (
                finding.severity,
                finding.first.at.clone(),
                finding.first.clone(),
            )
        };
        report.findings.sort_by_cached_key(order);
        report.benign.sort_by_cached_key(order);
    }

    fn finding(
        &self,
        signature: &Signature,
        parts: &[(u32, &SeenLines, Option<Phase>)],
    ) -> SignatureFinding {
        let seen = || parts.iter().map(|(_, seen, _)| *seen);
        // Lines of several ranks are in the order of their clocks if all have one.
        let have_clocks = seen().all(|seen| seen.first_clock_us.is_some());
        let first =
            seen().min_by_key(|seen| (seen.first_clock_us.filter(|_| have_clocks), seen.first));
        let last = seen().max_by_key(|seen| (seen.last_us, seen.last));
        let first_us = seen().filter_map(|seen| seen.first_us).min();
        let last_us = seen().filter_map(|seen| seen.last_us).max();
        let slowest = seen()
            .filter_map(|seen| seen.slowest)
            .min_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        let longest = seen()
            .filter_map(|seen| seen.longest)
            .max_by_key(|polls: &Polls| polls.nanoseconds);
        let phases: BTreeSet<_> = parts
            .iter()
            .map(|(_, _, phase)| phase.map(|phase| phase as u8))
            .collect();
        let mut processes: Vec<String> = parts
            .iter()
            .map(|(speaker, ..)| self.name(*speaker))
            .collect();
        processes.sort();
        processes.truncate(NAMED_MAX);
        SignatureFinding {
            signature: signature.name.clone(),
            severity: signature.severity,
            count: seen().map(|seen| seen.count).sum(),
            processes,
            first: self.place(first.map(|seen| seen.first).unwrap_or_default(), first_us),
            last: self.place(last.map(|seen| seen.last).unwrap_or_default(), last_us),
            phase: parts
                .first()
                .and_then(|(_, _, phase)| *phase)
                .filter(|_| phases.len() == 1),
            meaning: signature.meaning.clone(),
            causes: signature.causes.clone(),
            next_step: signature.next.clone(),
            versions: signature.versions.clone(),
            polls: slowest
                .zip(longest)
                .map(|(slowest, longest)| PollRate::new(slowest, longest)),
            sample: first.map(|seen| shown(&seen.sample)).unwrap_or_default(),
        }
    }

    /// The phases of each process, by its own lines.
    fn phases(&self) -> BTreeMap<u32, Ends> {
        let mut phases = BTreeMap::<u32, Ends>::new();
        for ((number, speaker), seen) in &self.tally.seen {
            let ends = phases.entry(*speaker).or_default();
            match self
                .catalogue
                .signatures
                .get(*number as usize)
                .and_then(|signature| signature.marks)
            {
                Some(Phase::Setup) => ends.setup = ends.setup.max(Some(seen.last)),
                Some(Phase::Close) => {
                    ends.close = Some(ends.close.map_or(seen.first, |first| first.min(seen.first)))
                }
                Some(Phase::Transfer) | None => {}
            }
        }
        phases
    }

    fn unknown(&self) -> Vec<UnknownWarning> {
        let unknown = |(shape, seen): (&Vec<u8>, &SeenLines)| UnknownWarning {
            shape: shown(shape),
            count: seen.count,
            first: self.place(seen.first, seen.first_us),
            last: self.place(seen.last, seen.last_us),
            sample: shown(&seen.sample),
        };
        let mut all: Vec<UnknownWarning> = self.tally.shapes.iter().map(unknown).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.shape.cmp(&b.shape)));
        all
    }

    // ---- networks, settings, connections -----------------------------------------------------

    fn transport(&self) -> Transport {
        let by_value = |from: &BTreeMap<u32, BTreeSet<Vec<u8>>>| {
            let mut by = BTreeMap::<String, Vec<String>>::new();
            for (speaker, values) in from {
                values.iter().for_each(|value| {
                    by.entry(shown(value))
                        .or_default()
                        .push(self.name(*speaker))
                });
            }
            by
        };
        let (named, versions) = (
            by_value(&self.tally.transports),
            by_value(&self.tally.versions),
        );
        let kinds: BTreeSet<&'static str> = named.keys().map(|name| kind(name)).collect();
        let (verdict, because) = match (kinds.len(), kinds.first()) {
            (1, Some(kind)) => (*kind, format!("NCCL names {}", list(named.keys()))),
            (0, _) if !self.tally.flows.is_empty() => (
                "tcpx",
                "the plugin connected flows; no line of NCCL names the network".to_owned(),
            ),
            (0, _) if !versions.is_empty() => (
                "unknown",
                "the plugin was initialised, but no line shows that it was used".to_owned(),
            ),
            (0, _) => (
                "unknown",
                "no line names a network; NCCL logs it at INFO only".to_owned(),
            ),
            _ => ("mixed", format!("NCCL names {}", list(named.keys()))),
        };
        Transport {
            verdict,
            because,
            named,
            versions,
        }
    }

    /// One row if all processes have the same value, otherwise one row per value.
    fn settings(&self) -> Vec<Setting> {
        let mut by = BTreeMap::<&Vec<u8>, BTreeMap<&Vec<u8>, Vec<u32>>>::new();
        for ((speaker, key), values) in &self.tally.settings {
            let of_key = by.entry(key).or_default();
            values
                .iter()
                .for_each(|value| of_key.entry(value).or_default().push(*speaker));
        }
        let rows = by.into_iter().flat_map(|(key, values)| {
            let agree = values.len() == 1;
            values.into_iter().map(move |(value, speakers)| {
                let processes = if agree {
                    Vec::new()
                } else {
                    speakers.iter().map(|one| self.name(*one)).collect()
                };
                Setting {
                    key: shown(key),
                    value: shown(value),
                    processes,
                }
            })
        });
        rows.collect()
    }

    /// One row per connection: the flow of one end is the mirrored flow of the other.
    fn comms(&self) -> Vec<Comm> {
        let nics = self.nics();
        let mut comms = BTreeMap::<_, Comm>::new();
        for (key, flow) in &self.tally.flows {
            let (from, to) = if key.sends {
                (&key.local, &key.remote)
            } else {
                (&key.remote, &key.local)
            };
            let comm = comms.entry((from, to)).or_insert_with(|| Comm {
                from: address(from),
                to: address(to),
                sender: None,
                receiver: None,
                from_nic: None,
                to_nic: None,
                kind: "data",
                slow_at_sender: 0,
                slow_at_receiver: 0,
            });
            let nic = flow
                .nic
                .as_deref()
                .map(shown)
                .or_else(|| nics.get(&(key.speaker, key.local.0.clone())).cloned());
            self.add_end(comm, key, flow, nic);
        }
        comms.into_values().collect()
    }

    fn add_end(&self, comm: &mut Comm, key: &FlowKey, flow: &FlowSeen, nic: Option<String>) {
        if flow.is_control {
            comm.kind = "control";
        }
        if key.sends {
            comm.sender = Some(self.name(key.speaker));
            comm.from_nic = nic.or(comm.from_nic.take());
            comm.slow_at_sender += flow.slow;
        } else {
            comm.receiver = Some(self.name(key.speaker));
            comm.to_nic = nic.or(comm.to_nic.take());
            comm.slow_at_receiver += flow.slow;
        }
    }

    /// The interfaces of each process by address.
    fn nics(&self) -> BTreeMap<(u32, Address), String> {
        let all = self.tally.devices.iter();
        all.flat_map(|(speaker, devices)| {
            devices
                .iter()
                .map(move |(name, ip)| ((*speaker, Address::new(ip)), shown(name)))
        })
        .collect()
    }

    /// Functions that log the same message from different source lines on different hosts.
    fn builds(&self) -> Vec<BuildMismatch> {
        let mut by = BTreeMap::<(&Vec<u8>, u32), Hosts>::new();
        for ((signature, speaker), seen) in &self.tally.seen {
            for (function, lines) in &seen.sites {
                by.entry((function, *signature))
                    .or_default()
                    .entry(self.host(*speaker))
                    .or_default()
                    .extend(lines);
            }
        }
        // Several source lines may log the same message, so only disjoint sets differ.
        let differ = |hosts: &Hosts| {
            hosts
                .values()
                .any(|lines| hosts.values().any(|others| lines.is_disjoint(others)))
        };
        let mismatch = |((function, signature), hosts): ((&Vec<u8>, u32), Hosts)| BuildMismatch {
            function: shown(function),
            signature: self
                .catalogue
                .signatures
                .get(signature as usize)
                .map(|one| one.name.clone())
                .unwrap_or_default(),
            lines: hosts
                .into_iter()
                .map(|(host, lines)| (host, lines.into_iter().collect()))
                .collect(),
        };
        by.into_iter()
            .filter(|(_, hosts)| differ(hosts))
            .map(mismatch)
            .collect()
    }
}

fn address((ip, port): &(Address, u32)) -> String {
    match ip {
        Address::V4(ip) => format!("{ip}:{port}"),
        Address::Text(ip) => format!("{}:{port}", shown(ip)),
    }
}

fn kind(name: &str) -> &'static str {
    let family = PluginFamily::of_table_name(name);
    let name = name.to_ascii_lowercase();
    match () {
        () if family.has_tcpx_semantics() => "tcpx",
        () if name.contains("socket") => "socket",
        () if name.starts_with("ib") => "ib",
        () => "other",
    }
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.cloned().collect::<Vec<_>>().join(", ")
}

/// The last line of a process's setup, and the first of its close.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    setup: Option<Place>,
    close: Option<Place>,
}

impl Ends {
    /// The phase that all of these lines are in; `None` if they span phases or no line marks
    /// one.
    fn phase_of(self, seen: &SeenLines) -> Option<Phase> {
        let (setup, close) = (self.setup, self.close);
        if setup.is_some_and(|end| seen.last <= end) {
            return Some(Phase::Setup);
        }
        if close.is_some_and(|begin| seen.first >= begin) {
            return Some(Phase::Close);
        }
        let after = setup.is_some_and(|end| seen.first > end);
        let before = close.is_none_or(|begin| seen.last < begin);
        (after && before).then_some(Phase::Transfer)
    }
}
