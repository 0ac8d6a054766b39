//! Turns a tally into a report: phases, transport, connections by both ends, builds.
#![forbid(unsafe_code)]

use super::catalogue::{SignatureCatalogue, Values};
use super::fields::Polls;
use super::input::InputProblem;
use super::networks::{Proof, kind, preference};
use super::report::{
    BuildMismatch, CollectiveWait, Comm, LinePlace, LogReport, PollRate, STATED_ERROR, Setting,
    SignatureFinding, StatedLine, Transport, UNKNOWN_WARNING, UnknownWarning,
};
use super::signature::{Fact, Need, Phase, Role, Severity, Signature};
use super::tally::{Address, FlowKey, FlowSeen, Place, SeenLines, SeenShape, Speaker, Tally, Wait};
use super::time;
use std::collections::{BTreeMap, BTreeSet};

/// Processes that are named of a finding.
const NAMED_MAX: usize = 64;
/// Most WARN lines without a signature that are findings.
const UNKNOWN_MAX: usize = 16;
/// Hosts that are named of each network.
const HOSTS_NAMED: usize = 4;

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
    report.inputs.filtered_records = tally.filtered_records;
    report.own_signatures = catalogue.own.clone();
    report.transport = compose.transport();
    report.settings = compose.settings();
    compose.findings(&mut report);
    report.first_failure = super::first::first_failure(catalogue, tally, files, &report.findings);
    report.waits = compose.waits();
    report.gaps = super::gaps::gaps(tally, |speaker| compose.name(speaker));
    report.comms = compose.comms();
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

/// As [`shown`], with the blanks at its start: they tell lines of a stack trace.
fn shown_whole(text: &[u8]) -> String {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    format!("{:blanks$}{}", "", shown(text))
}

/// Most lines behind an error with which a log ends.
const ENDING_LINES: u64 = 10;

/// Lines of the source by host.
type Hosts = BTreeMap<String, BTreeSet<u32>>;

pub(super) struct Compose<'a> {
    catalogue: &'a SignatureCatalogue,
    pub(super) tally: &'a Tally,
    pub(super) files: &'a [String],
}

impl Compose<'_> {
    pub(super) fn name(&self, speaker: u32) -> String {
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

    pub(super) fn place(&self, place: Place, time_us: Option<i64>) -> LinePlace {
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
        let context = self.context(report);
        let mut follow_ups = Vec::new();
        for ((number, harmless), parts) in kinds {
            let Some(signature) = self.catalogue.signatures.get(number as usize) else {
                continue;
            };
            let finding = self.finding(number, signature, &parts);
            match signature.severity {
                Severity::Info => report.seen.push(finding),
                Severity::Benign if self.any_seen(&signature.unless) => match signature.role {
                    Role::Cause => report.findings.push(SignatureFinding {
                        severity: Severity::Error,
                        ..finding
                    }),
                    Role::General | Role::Consequence => report.seen.push(finding),
                },
                Severity::Benign => report.benign.push(finding),
                _ if harmless => report.benign.push(finding),
                _ if signature.needs == Some(Need::OtherFindings) => follow_ups.push(finding),
                _ if signature.needs == Some(Need::UnfinishedInit) && self.was_got_over(&parts) => {
                    report.seen.push(finding);
                }
                _ if signature.needs.is_some_and(|need| !context.has(need)) => {
                    report.seen.push(finding);
                }
                _ => report.findings.push(finding),
            }
        }
        let company = if report.findings.is_empty() {
            &mut report.seen
        } else {
            &mut report.findings
        };
        company.append(&mut follow_ups);
        report.findings.extend(self.mixed());
        report.findings.extend(self.plugin_on_some_hosts());
        report.unknown = self.unknown();
        let unknown = report.unknown.iter().filter(|one| !one.is_harmless());
        report
            .findings
            .extend(unknown.take(UNKNOWN_MAX).map(unknown_finding));
        drop_heads(&mut report.findings);
        follow(&mut report.findings);
        self.state(report);
        super::waits_at_end::add(self, report);
        super::reasons::explain(&mut report.findings, &self.catalogue.signatures);
        follow_ends(&mut report.findings);
        let signatures = &self.catalogue.signatures;
        let vague = report.findings.iter();
        let vague: Vec<bool> = vague
            .map(|one| super::reasons::is_vague(one, signatures))
            .collect();
        order(&mut report.findings, |number| {
            vague.get(number) == Some(&true)
        });
        order(&mut report.benign, |_| false);
    }

    /// Lines that state an error in words, unless a finding names a cause. If all findings
    /// followed something, the first of the lines before them is what failed.
    fn state(&self, report: &mut LogReport) {
        let is_cause =
            |one: &SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
        if report.findings.iter().any(is_cause) {
            return;
        }
        let lines = self.tally.stated.lines().map(|(place, text)| StatedLine {
            place: self.place(place, None),
            sample: shown(text),
        });
        let precedes = |line: &StatedLine| {
            let mut findings = report.findings.iter();
            findings.all(|one| is_later(&one.first, &line.place))
        };
        report.stated = lines.filter(precedes).collect();
        let has_followed = |one: &SignatureFinding| one.role == Role::Consequence;
        let first = match report.findings.is_empty() {
            false if report.findings.iter().all(has_followed) => Some(0),
            false => self.tells_why_before(report),
            true => self.ends_in_an_error(&report.stated),
        };
        if let Some(first) = first.filter(|first| *first < report.stated.len()) {
            let first = report.stated.remove(first);
            report.findings.push(stated_finding(first));
        }
    }

    /// The first of the lines that tell why something failed, right before the first finding, if
    /// that one only says that something failed.
    fn tells_why_before(&self, report: &LogReport) -> Option<usize> {
        let findings = report.findings.iter();
        let failures = findings.filter(|one| one.role != Role::Consequence);
        let first = failures.min_by_key(|one| &one.first)?;
        let tells = |line: &StatedLine| {
            first.first.line.saturating_sub(line.place.line) <= ENDING_LINES
                && !super::stated::is_warning(&line.sample)
                && super::reasons::tells_why(&line.sample)
        };
        let number = report.stated.iter().position(tells);
        number.filter(|_| super::reasons::is_vague(first, &self.catalogue.signatures))
    }

    /// The first of the lines that state an error with which a file ends, or of those of them that
    /// tell why: hardly anything comes behind them, so what failed was not got over.
    fn ends_in_an_error(&self, stated: &[StatedLine]) -> Option<usize> {
        let mut first = None;
        for (number, line) in stated.iter().enumerate().rev() {
            let of_next = |next: usize| {
                let next: &LinePlace = &stated[next].place;
                (next.file == line.place.file).then_some(next.line)
            };
            let last = || {
                let of_file = |(file, last): (&u32, &u64)| {
                    let is_same = self.files.get(*file as usize) == Some(&line.place.file);
                    is_same.then_some(*last)
                };
                self.tally.ends.last_lines().find_map(of_file)
            };
            let behind = first.and_then(of_next).or_else(last);
            if behind.is_none_or(|behind| behind.saturating_sub(line.place.line) > ENDING_LINES) {
                break;
            }
            first = Some(number);
        }
        let fails = |number: &usize| !super::stated::is_warning(&stated[*number].sample);
        let tells = |number: &usize| super::reasons::tells_why(&stated[*number].sample);
        let mut at_end = (first?..stated.len()).filter(fails);
        at_end.clone().find(tells).or_else(|| at_end.next())
    }

    /// Whether every process with these lines initialized a communicator afterwards, or the job has
    /// one node.
    fn was_got_over(&self, parts: &[(u32, &SeenLines, Option<Phase>)]) -> bool {
        let complete = &self.tally.init_complete;
        let nodes = &self.tally.nodes;
        let is_one_node = !nodes.is_empty() && nodes.values().all(|nodes| *nodes <= 1);
        let mut parts = parts.iter();
        is_one_node
            || parts
                .all(|(speaker, seen, _)| complete.get(speaker).is_some_and(|at| *at > seen.first))
    }

    /// Whether the log has lines of a program that drives the plugin itself.
    pub(super) fn has_harness(&self) -> bool {
        let fact = |number: u32| self.catalogue.signatures.get(number as usize)?.fact;
        let mut seen = self.tally.seen.keys();
        seen.any(|(number, _)| fact(*number) == Some(Fact::Harness))
    }

    /// Whether the log has lines of any of these signatures.
    fn any_seen(&self, names: &[String]) -> bool {
        let name = |number: u32| Some(&self.catalogue.signatures.get(number as usize)?.name);
        let mut seen = self
            .tally
            .seen
            .keys()
            .filter_map(|(number, _)| name(*number));
        !names.is_empty() && seen.any(|name| names.contains(name))
    }

    /// What the log shows beside the lines of a signature.
    fn context(&self, report: &LogReport) -> Context {
        let names_tcpx = |text: &str| text.to_ascii_lowercase().contains("tcpx");
        let settings = report.settings.iter();
        let several = |nodes: &u32| *nodes > 1;
        Context {
            tcpx_expected: report
                .transport
                .named
                .keys()
                .any(|name| kind(name) == "tcpx")
                || !report.transport.versions.is_empty()
                || settings
                    .into_iter()
                    .any(|one| names_tcpx(&one.key) || names_tcpx(&one.value)),
            several_nodes: self.tally.nodes.is_empty() || self.tally.nodes.values().any(several),
            has_network: report.transport.verdict != "unknown",
        }
    }

    fn finding(
        &self,
        number: u32,
        signature: &Signature,
        parts: &[(u32, &SeenLines, Option<Phase>)],
    ) -> SignatureFinding {
        let seen = || parts.iter().map(|(_, seen, _)| *seen);
        // Lines of several ranks are in the order of their clocks if all have one.
        let have_clocks = seen().all(|seen| seen.first_line_us.is_some());
        let first =
            // Several processes may have written one line.
            seen().min_by_key(|seen| {
                let clock = seen.first_line_us.filter(|_| have_clocks);
                (clock, seen.first, &seen.sample)
            });
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
        let sample = first.map(|seen| seen.sample.as_slice()).unwrap_or_default();
        let values = self.catalogue.values(number as usize, sample);
        SignatureFinding {
            signature: signature.name.clone(),
            severity: signature.severity,
            role: signature.role,
            count: seen().map(|seen| seen.count).sum(),
            processes,
            first: self.place(first.map(|seen| seen.first).unwrap_or_default(), first_us),
            last: self.place(last.map(|seen| seen.last).unwrap_or_default(), last_us),
            phase: parts
                .first()
                .and_then(|(_, _, phase)| *phase)
                .filter(|_| phases.len() == 1),
            meaning: values.fill(&signature.meaning),
            causes: causes(signature, &values),
            next_step: signature.next.as_deref().map(|next| values.fill(next)),
            versions: signature.versions.clone(),
            polls: slowest
                .zip(longest)
                .map(|(slowest, longest)| PollRate::new(slowest, longest)),
            sample: shown(sample),
            before: Vec::new(),
            after: None,
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
        let complete = &self.tally.init_complete;
        let has_survived = |(speaker, place): (&u32, &Place)| {
            let complete = complete.get(speaker);
            complete.is_some_and(|complete| complete > place)
        };
        let unknown = |(text, shape): (&Vec<u8>, &SeenShape)| {
            let (seen, last) = (&shape.lines, &shape.last);
            UnknownWarning {
                survived: !shape.lacks_speakers && last.iter().all(has_survived),
                notice: shape.is_notice,
                processes: last
                    .keys()
                    .take(NAMED_MAX)
                    .map(|one| self.name(*one))
                    .collect(),
                shape: shown(text),
                count: seen.count,
                first: self.place(seen.first, seen.first_us),
                last: self.place(seen.last, seen.last_us),
                sample: shown(&seen.sample),
                before: shape
                    .context
                    .before
                    .iter()
                    .map(|line| shown_whole(line))
                    .collect(),
                after: shape.context.after.as_deref().map(shown_whole),
            }
        };
        let mut all: Vec<UnknownWarning> = self.tally.shapes.iter().map(unknown).collect();
        all.sort_by_cached_key(|one| (one.is_harmless(), one.first.clone(), one.shape.clone()));
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
        let (mut named, versions) = (
            BTreeMap::<String, Vec<String>>::new(),
            by_value(&self.tally.versions),
        );
        let networks = self.networks();
        let proof = networks.iter().map(|(_, _, proof)| *proof).max();
        for (speaker, name, _) in &networks {
            named
                .entry(shown(name))
                .or_default()
                .push(self.name(*speaker));
        }
        let says = match proof {
            Some(Proof::Used) => "channels use",
            Some(Proof::Chosen) => "NCCL names",
            _ => "no line says which network NCCL chose; lines show that this one is up:",
        };
        let kinds: BTreeSet<&'static str> = named.keys().map(|name| kind(name)).collect();
        let (verdict, because) = match (kinds.len(), kinds.first()) {
            (1, Some(kind)) => (*kind, format!("{says} {}", list(named.keys()))),
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
            _ => ("mixed", format!("{says} {}", list(named.keys()))),
        };
        Transport {
            verdict,
            because,
            named,
            versions,
        }
    }

    /// The networks of each process by its strongest lines. Weak lines count only if no
    /// process has stronger ones.
    fn networks(&self) -> Vec<(u32, &[u8], Proof)> {
        let mut of = BTreeMap::<u32, Vec<(&[u8], Proof)>>::new();
        for (speaker, names) in &self.tally.transports {
            let names = names
                .iter()
                .map(|(name, (proof, _))| (name.as_slice(), *proof));
            of.entry(*speaker).or_default().extend(names);
        }
        for (number, speaker) in self.tally.seen.keys() {
            let signature = self.catalogue.signatures.get(*number as usize);
            if let Some(name) = signature.and_then(|signature| signature.network.as_deref()) {
                of.entry(*speaker)
                    .or_default()
                    .push((name.as_bytes(), Proof::Up));
            }
        }
        let strongest = of.values().flatten().map(|(_, proof)| *proof).max();
        let mut all = Vec::new();
        for (speaker, names) in of {
            let proof = names.iter().map(|(_, proof)| *proof).max();
            let is_weak = proof <= Some(Proof::Up) && proof < strongest;
            if is_weak {
                continue;
            }
            let names = names.into_iter().filter(|one| Some(one.1) == proof);
            all.extend(names.map(|(name, proof)| (speaker, name, proof)));
        }
        if strongest == Some(Proof::Loaded) && self.fails() {
            return Vec::new();
        }
        if strongest <= Some(Proof::Up) {
            let rank = |name: &[u8]| preference(&shown(name));
            let best = all.iter().map(|(_, name, _)| rank(name)).min();
            all.retain(|(_, name, _)| Some(rank(name)) == best);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the log names something that failed.
    fn fails(&self) -> bool {
        let signature = |number: u32| self.catalogue.signatures.get(number as usize);
        let is_error = |one: &Signature| one.severity <= Severity::Error && one.needs.is_none();
        let mut seen = self
            .tally
            .seen
            .keys()
            .filter_map(|(number, _)| signature(*number));
        seen.any(is_error)
    }

    /// Hosts whose channels or communicators use networks of different kinds.
    fn mixed(&self) -> Option<SignatureFinding> {
        let mut hosts = BTreeMap::<&'static str, BTreeSet<String>>::new();
        for (speaker, name, proof) in self.networks() {
            if proof > Proof::Up {
                hosts
                    .entry(kind(&shown(name)))
                    .or_default()
                    .insert(self.host(speaker));
            }
        }
        let (first, others) = hosts.values().next().zip(hosts.values().nth(1))?;
        if !first.is_disjoint(others) {
            return None;
        }
        let places = self.tally.transports.values().flat_map(BTreeMap::values);
        let place = places
            .filter(|(proof, _)| *proof > Proof::Up)
            .map(|(_, place)| *place)
            .min();
        let place = self.place(place.unwrap_or_default(), None);
        let of_host = |(kind, hosts): (&&'static str, &BTreeSet<String>)| {
            format!("{kind} on {}", list(hosts.iter().take(HOSTS_NAMED)))
        };
        let hosts: Vec<String> = hosts.iter().map(of_host).collect();
        let hosts = hosts.join("; ");
        Some(SignatureFinding {
            meaning: format!("the hosts of one job use different networks: {hosts}"),
            sample: hosts,
            ..hosts_differ("networks-mixed", place)
        })
    }

    /// Hosts that have an external network plugin beside hosts that do not find one.
    fn plugin_on_some_hosts(&self) -> Option<SignatureFinding> {
        let hosts = |name: &str| {
            let number = self
                .catalogue
                .signatures
                .iter()
                .position(|one| one.name == name);
            let of = |(signature, _): &&(u32, u32)| Some(*signature as usize) == number;
            let seen = self.tally.seen.keys().filter(of);
            seen.map(|(_, speaker)| self.host(*speaker))
                .collect::<BTreeSet<String>>()
        };
        let (with, without) = (hosts("nccl-plugin-path"), hosts("nccl-plugin-not-found"));
        if with.is_empty() || without.is_empty() || !with.is_disjoint(&without) {
            return None;
        }
        let name =
            |signature: &u32| Some(&self.catalogue.signatures.get(*signature as usize)?.name);
        let lines = self.tally.seen.iter();
        let of_none = lines
            .filter(|((one, _), _)| name(one).is_some_and(|one| one == "nccl-plugin-not-found"));
        let first = of_none
            .map(|(_, seen)| seen)
            .min_by_key(|seen| seen.first)?;
        let place = self.place(first.first, first.first_line_us);
        let named = |hosts: &BTreeSet<String>| list(hosts.iter().take(HOSTS_NAMED));
        Some(SignatureFinding {
            processes: without.iter().cloned().collect(),
            meaning: format!(
                "the hosts of one job have different network plugins: an external one on {}, none on {}",
                named(&with),
                named(&without)
            ),
            sample: shown(&first.sample),
            ..hosts_differ("plugin-on-some-hosts", place)
        })
    }

    /// Ranks by the collective that they wait for.
    fn waits(&self) -> Vec<CollectiveWait> {
        let mut by = BTreeMap::<&Wait, Vec<u32>>::new();
        for (speaker, (_, wait)) in &self.tally.collectives {
            if let Some(Speaker::Rank { rank, .. }) = self.tally.speakers.get(*speaker as usize) {
                by.entry(wait).or_default().push(*rank);
            }
        }
        let wait = |(wait, mut ranks): (&Wait, Vec<u32>)| {
            ranks.sort_unstable();
            CollectiveWait {
                group: shown(&wait.group),
                sequence: wait.sequence,
                operation: shown(&wait.operation),
                ranks,
            }
        };
        by.into_iter().map(wait).collect()
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
        let flows: BTreeMap<_, _> = self.tally.flows.iter().collect();
        for (key, flow) in flows {
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
        all.flat_map(|(speaker, (_, devices))| {
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
            let functions = seen.sites.iter().filter(|(site, _)| !is_file(site));
            for (function, lines) in functions {
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

/// A finding on hosts of one job that use different networks; what differs is to be added.
fn hosts_differ(signature: &str, place: LinePlace) -> SignatureFinding {
    SignatureFinding {
        signature: signature.to_owned(),
        severity: Severity::Error,
        role: Role::Cause,
        count: 1,
        processes: Vec::new(),
        first: place.clone(),
        last: place,
        phase: None,
        meaning: String::new(),
        causes: vec![
            "the plugin is missing or failed on some hosts".to_owned(),
            "the environment or the image differs between hosts".to_owned(),
        ],
        next_step: Some(
            "compare NCCL_NET, NCCL_NET_PLUGIN and LD_LIBRARY_PATH of the hosts".to_owned(),
        ),
        versions: "any NCCL".to_owned(),
        polls: None,
        sample: String::new(),
        before: Vec::new(),
        after: None,
    }
}

fn address((ip, port): &(Address, u32)) -> String {
    match ip {
        Address::V4(ip) => format!("{ip}:{port}"),
        Address::Text(ip) => format!("{}:{port}", shown(ip)),
    }
}

/// A warning without a signature as a finding, so that none goes unmentioned.
fn unknown_finding(warning: &UnknownWarning) -> SignatureFinding {
    SignatureFinding {
        signature: UNKNOWN_WARNING.to_owned(),
        severity: Severity::Warning,
        role: Role::General,
        count: warning.count,
        processes: warning.processes.clone(),
        first: warning.first.clone(),
        last: warning.last.clone(),
        phase: None,
        meaning: "a warning or an error that tcpxctl has no signature for".to_owned(),
        causes: Vec::new(),
        next_step: Some(read_around(&warning.first)),
        versions: String::new(),
        polls: None,
        sample: warning.sample.clone(),
        before: warning.before.clone(),
        after: warning.after.clone(),
    }
}

/// How to read the lines around one that no signature explains.
fn read_around(place: &LinePlace) -> String {
    let (from, to) = (place.line.saturating_sub(30).max(1), place.line);
    format!(
        "read what its program did before: lines {from} to {to} of {}; `tcpxctl topic own-signatures` \
         shows how to teach tcpxctl this line",
        place.file
    )
}

/// A line that states an error in words as a finding.
fn stated_finding(line: StatedLine) -> SignatureFinding {
    SignatureFinding {
        signature: STATED_ERROR.to_owned(),
        severity: Severity::Warning,
        role: Role::General,
        count: 1,
        processes: vec![line.place.file.clone()],
        first: line.place.clone(),
        last: line.place.clone(),
        phase: None,
        meaning:
            "the first line before the end that states an error; tcpxctl has no signature for it"
                .to_owned(),
        causes: Vec::new(),
        next_step: Some(read_around(&line.place)),
        versions: String::new(),
        polls: None,
        sample: line.sample,
        before: Vec::new(),
        after: None,
    }
}

/// Most lines of a text that begins with a line that only opens it, such as `error: {`.
const TEXT_LINES: u64 = 64;

/// Drops unknown lines that only open a text in which another finding is: that one tells more.
fn drop_heads(findings: &mut Vec<SignatureFinding>) {
    let others = findings.iter();
    let others = others.filter(|one| one.signature != UNKNOWN_WARNING);
    let known: Vec<LinePlace> = others.map(|one| one.first.clone()).collect();
    findings.retain(|one| {
        let opens = one.sample.ends_with(['{', '[', '(', ':']);
        let is_within = |other: &LinePlace| {
            let behind = other.line.saturating_sub(one.first.line);
            other.file == one.first.file && (1..=TEXT_LINES).contains(&behind)
        };
        !(one.signature == UNKNOWN_WARNING && opens && known.iter().any(is_within))
    });
}

/// Errors of the system with which causes begin: such a cause is of lines with that error.
const SYSTEM_ERRORS: [&str; 5] = ["refused", "timed out", "no route", "reset", "aborted"];

/// The causes of a signature with the values of a line. A cause that begins with codes, as in
/// `4, 9 or 10: `, is the line's own only if one of them is its code; the others come last.
fn causes(signature: &Signature, values: &Values) -> Vec<String> {
    let error = values.get("error").map(str::to_ascii_lowercase);
    let is_of_others = |cause: &String| {
        let (head, _) = cause.split_once(": ").unwrap_or_default();
        if let Some(error) = &error
            && SYSTEM_ERRORS.contains(&head)
        {
            return !error.contains(head);
        }
        let codes = cause.split_once(": ").map_or("", |(codes, _)| codes);
        let mut codes = codes
            .split([',', ' '])
            .filter(|one| !one.is_empty() && *one != "or")
            .peekable();
        let is_number = |one: &&str| one.bytes().all(|byte| byte.is_ascii_digit());
        codes.peek().is_some_and(is_number) && codes.all(|one| Some(one) != values.get("code"))
    };
    let filled = signature.causes.iter().map(|cause| values.fill(cause));
    let (others, mut own): (Vec<_>, Vec<_>) = filled.partition(is_of_others);
    own.extend(others);
    own
}

/// Whether a line is later than another, as far as their times or their file show it.
fn is_later(one: &LinePlace, other: &LinePlace) -> bool {
    match (&one.at, &other.at) {
        (Some(one), Some(other)) if one != other => one > other,
        _ => one.file == other.file && one.line > other.line,
    }
}

/// A failure without a reason that is logged after a named one follows it.
fn follow(findings: &mut [SignatureFinding]) {
    let is_named =
        |one: &&SignatureFinding| one.role == Role::Cause && one.severity < Severity::Warning;
    let named = findings
        .iter()
        .filter(is_named)
        .map(|one| one.first.clone());
    let named: Vec<LinePlace> = named.collect();
    for finding in findings {
        let is_general = finding.role == Role::General && finding.signature != UNKNOWN_WARNING;
        if is_general && named.iter().any(|cause| is_later(&finding.first, cause)) {
            finding.role = Role::Consequence;
        }
    }
}

/// An unknown line whose words name no reason, behind a line that says that a process failed or
/// was ended, follows it too.
fn follow_ends(findings: &mut [SignatureFinding]) {
    let is_end =
        |one: &&SignatureFinding| one.role == Role::Consequence && one.severity < Severity::Warning;
    let ends = findings.iter().filter(is_end).map(|one| one.first.clone());
    let ends: Vec<LinePlace> = ends.collect();
    for finding in findings {
        let is_unknown =
            finding.signature == UNKNOWN_WARNING && !super::reasons::tells_why(&finding.sample);
        if is_unknown && ends.iter().any(|end| is_later(&finding.first, end)) {
            finding.role = Role::Consequence;
        }
    }
}

/// Orders findings: what failed first, then failures without a reason, warnings, and what
/// followed, mere warnings last. Lines of one file are in the order of the file unless all have a
/// time. A line that only says that something failed is behind a line next to it that says why.
fn order(findings: &mut Vec<SignatureFinding>, is_vague: impl Fn(usize) -> bool) {
    let have_times = have_clocks(findings);
    let told = findings.iter().enumerate();
    let told = told.filter(|(number, one)| one.role == Role::General && !is_vague(*number));
    let told: Vec<LinePlace> = told.map(|(_, one)| one.first.clone()).collect();
    let is_near = |one: &LinePlace, other: &LinePlace| {
        one.file == other.file && one.line.abs_diff(other.line) <= ENDING_LINES
    };
    let key = |(number, finding): &(usize, SignatureFinding)| {
        let at = finding.first.at.clone().filter(|_| have_times);
        let is_mild = finding.role == Role::Consequence && finding.severity >= Severity::Warning;
        let yields = finding.role == Role::General
            && is_vague(*number)
            && told.iter().any(|other| is_near(&finding.first, other));
        (finding.order(), is_mild, yields, at, finding.first.clone())
    };
    let mut numbered: Vec<_> = std::mem::take(findings).into_iter().enumerate().collect();
    numbered.sort_by_cached_key(key);
    findings.extend(numbered.into_iter().map(|(_, finding)| finding));
}

/// Most microseconds by which a later line of a file is earlier: ranks write late, and clocks
/// differ a little.
const BACK_MAX_US: i64 = 24 * 3600 * 1_000_000;

/// Whether the times of all lines tell their order. They do not if one is missing, or if a later
/// line of a file is a day earlier: glog's times have no year.
fn have_clocks(findings: &[SignatureFinding]) -> bool {
    let of = |finding: &SignatureFinding| {
        let at = finding.first.at.as_deref().and_then(time::typed)?;
        Some((finding.first.file.clone(), finding.first.line, at))
    };
    let Some(mut all) = findings.iter().map(of).collect::<Option<Vec<_>>>() else {
        return false;
    };
    all.sort_unstable();
    let goes_on = |pair: &[(String, u64, i64)]| match pair {
        [(file, _, at), (other, _, next)] => file != other || at - next < BACK_MAX_US,
        _ => true,
    };
    all.windows(2).all(goes_on)
}

/// What a log shows beside the lines of a signature.
struct Context {
    tcpx_expected: bool,
    several_nodes: bool,
    has_network: bool,
}

impl Context {
    fn has(&self, need: Need) -> bool {
        match need {
            Need::TcpxExpected => self.tcpx_expected,
            Need::SeveralNodes => self.several_nodes,
            Need::NoNetwork => !self.has_network,
            // These are decided where all lines are known.
            Need::OtherFindings | Need::UnfinishedInit => true,
        }
    }
}

/// Whether a site is a source file, as NCCL names it, and not a function of a plugin. Two
/// places of one file are not two builds.
fn is_file(site: &[u8]) -> bool {
    let ending = site
        .iter()
        .rposition(|byte| *byte == b'.')
        .map(|dot| &site[dot..]);
    matches!(
        ending,
        Some(b".c" | b".h" | b".cc" | b".cpp" | b".cu" | b".hpp")
    )
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
