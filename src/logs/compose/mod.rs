//! Turns a tally into a report: findings and their phases here, and the rest in the files beside this one.
#![forbid(unsafe_code)]

mod beside;
mod blame;
mod calls;
mod claims;
mod collectives;
mod connections;
mod facts;
mod first_process;
mod hosts;
pub(super) mod losses;
mod meeting;
mod names;
mod nearby;
mod one_host;
mod ranking;
mod rows;
mod runs;
mod stated;
mod steps;
mod transport;
mod went_on;

pub(super) use self::claims::RANKS_ALONE;
pub(super) use self::ranking::quoted_exception;
use self::ranking::{
    drop_advice, drop_heads, follow, follow_cancel, follow_deaths, follow_ends, follow_errors,
    follow_last_warning, follow_lost_peer, follow_named, follow_own_end, follow_warnings,
    follow_wrapped, lead_by_worker, order, promote,
};
use super::below::{BelowText, SAID, telling};
use super::catalogue::{SignatureCatalogue, Values};
use super::fields::Polls;
use super::front::Level;
use super::input::InputProblem;
use super::networks::{Proof, kind};
use super::reasons::Telling;
use super::report::{
    CollectiveWait, LinePlace, LogReport, PollRate, Setting, SignatureFinding, UNKNOWN_WARNING,
    UnknownWarning, WAITS_AT_END,
};
use super::seen::{Place, SAMPLE_BYTES, SeenLines, SeenShape};
use super::signature::{Fact, Need, Phase, Role, Severity, Signature};
use super::tally::{Speaker, Tally, Wait};
use super::time;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Processes that are named of a finding.
const NAMED_MAX: usize = 64;
/// Ranks below which those that do not wait are named.
const RANKS_MAX: u32 = 65_536;
/// Most WARN lines without a signature that are findings.
const UNKNOWN_MAX: usize = 16;

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
    report.hosts = compose.processes().0.into_iter().map(shown).collect();
    report.settings = compose.settings();
    compose.findings(&mut report);
    report.first_failure = super::first::first_failure(catalogue, tally, files, &report.findings);
    report.waits = compose.waits();
    report.not_waiting = compose.not_waiting(&report.waits);
    report.gaps = super::gaps::gaps(tally, |speaker| compose.name(speaker));
    report.comms = compose.comms();
    report.builds = compose.builds();
    compose.tell_of_what_went_on(&mut report);
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

/// Whether a line is nothing but the prefix of a launcher, which names a process.
pub(super) fn is_torn_prefix(line: &[u8]) -> bool {
    facts::torn_prefix(line).is_some()
}

/// Whether a line of no other known form has a fact for a finding beside it, and nothing else that is anyone's own.
pub(super) fn tells_beside(line: &[u8]) -> bool {
    facts::is_field(line)
        || facts::is_of_json(line)
        || facts::is_loaded(line)
        || nearby::tells_address(line)
}

/// The rank in the front of a line that PyTorch writes as its watchdog gives up.
fn torn_report(line: &[u8]) -> Option<u32> {
    let found = TORN_REPORT.captures(line.trim_ascii())?;
    let source = found.name("source").map_or(&b""[..], |one| one.as_bytes());
    let is_cut = OF_WATCHDOG.starts_with(source);
    let rank = str::from_utf8(&found["rank"]).ok()?.parse().ok();
    rank.filter(|_| is_cut)
}

/// Whether a line is the front of one that PyTorch writes as its watchdog gives up.
pub(super) fn is_torn_report(line: &[u8]) -> bool {
    torn_report(line).is_some()
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

/// What NCCL says of its topology where it lacks an attribute, and signatures of what fails behind that.
const XML_ATTRIBUTE: &str = "nccl-xml-attribute";
const FAILS_BEHIND: [&str; 2] = ["nccl-call-chain", "nccl-topology-failed"];
/// NCCL's line on the RDMA devices and the interface that it uses.
const NICS_USED: &str = "nccl-ib-used";
/// NCCL's line on the interfaces of its sockets.
const SOCKETS_USED: &str = "nccl-socket-fallback";
/// Calls of NCCL's network that failed, one for each level.
const NET_CHAIN: &str = "nccl-net-propagated";
/// Sources in which NCCL tries what the machine may not have, those in which threads that wait for a peer end as a
/// process does, and the code of a call that is still in progress.
const NO_FAILURES: [&str; 7] = [
    "net.cc:",
    "transport/net",
    "wrap.cc:",
    "plugin/",
    "socket.cc:",
    "proxy.cc:",
    "-> 7",
];
/// Ray's line on the disk to which it spills objects.
const RAY_DISK_FULL: &str = "ray-disk-full";
/// NCCL's source of channels over any network.
const OF_CHANNELS: &str = "transport/net.c";
/// PyTorch's line on a collective that did not end, and its cause where ranks call it with other sizes.
const TIMEOUT: &str = "watchdog-timeout";
const TIMEOUT_TORN: &str = "watchdog-timeout-torn";
const OTHER_SIZE: &str = "the ranks called different collectives under one number, as the sizes show: a branch, a batch or a number of steps differs on the rank with another size";
/// The front of a line of PyTorch's errors that is cut before the end of its source, and the source of what its watchdog
/// logs.
static TORN_REPORT: LazyLock<Regex> = LazyLock::new(|| {
    crate::loggers::regex(
        r"^\[rank(?P<rank>\d{1,6})\]:\[E(?:\d+(?: [\d:.]*(?: (?P<source>[\w.:]*))?)?)?$",
    )
});
const OF_WATCHDOG: &[u8] = b"ProcessGroupNCCL.cpp:";
/// Causes that do not apply where GPUs are connected over PCIe, and the text that replaces them.
const NO_MANAGER: &str = "the fabric manager does not run";
const NO_NVLS: &str = "multicast over NVLink (NVLS) was not set up: the fabric manager";
const NO_SWITCH: &str = "NCCL tried multicast over NVLink (NVLS), though lines before say that the GPUs are connected over PCIe: the call of CUDA failed, not a fabric manager, which such a machine lacks";
const WITHOUT_NVLS: &str = "NCCL_NVLS_ENABLE=0 goes without it; where the next call of CUDA fails too, compare the release of the driver (`nvidia-smi`) with that of the CUDA that NCCL was built for, and start the process without a fork";
/// Its cause where ranks wait in others, and most ranks that are named of each.
const OTHER_ORDER: &str = "the ranks do not call the same collectives in the same order: a branch, a batch or a number of steps differs between them";
const WAITING_MAX: usize = 8;
/// Most ranks that are named as absent from a collective.
const ABSENT_MAX: usize = 4;
/// What NCCL prints once, and what that tells of a crash.
const NCCL_VERSION: &[u8] = b"NCCL version ";
const FIRST_COMM: &str = "right before the log has NCCL's version, {word}, which NCCL prints as it begins its first communicator";
/// What NCCL says of kernels that want more of a GPU's shared memory than there is.
const MORE_SHARED_MEMORY: &str = "nccl-shared-memory-exceeds";
/// Most lines behind an error with which a log ends.
const ENDING_LINES: u64 = 10;

pub(super) struct Compose<'a> {
    catalogue: &'a SignatureCatalogue,
    pub(super) tally: &'a Tally,
    pub(super) files: &'a [String],
}

impl Compose<'_> {
    pub(super) fn name(&self, speaker: u32) -> String {
        let file = |file: u32| self.files.get(file as usize).cloned().unwrap_or_default();
        match self.tally.speakers.get_index(speaker as usize) {
            Some(Speaker::Process {
                host,
                pid: Some(pid),
            }) => format!("{}:{pid}", shown(host)),
            Some(Speaker::Process { host, pid: None }) => shown(host),
            Some(Speaker::Rank { file: of, .. }) if self.tally.fronts.is_of_ctest() => file(*of),
            Some(Speaker::Rank { file: of, rank }) => format!("{} rank {rank}", file(*of)),
            Some(Speaker::File(of)) => file(*of),
            Some(Speaker::Others) | None => "(others)".to_owned(),
        }
    }

    fn host(&self, speaker: u32) -> String {
        match self.tally.speakers.get_index(speaker as usize) {
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
        // By signature, and whether its lines are harmless in their phase, or were got over.
        let mut kinds = BTreeMap::<(u32, bool, bool), Vec<Part<'_>>>::new();
        for ((number, speaker), seen) in &self.tally.seen {
            let Some(signature) = self.catalogue.signatures.get(*number as usize) else {
                continue;
            };
            let phase = phases.get(speaker).and_then(|ends| ends.phase_of(seen));
            let harmless = phase.is_some_and(|phase| signature.benign.contains(&phase));
            kinds
                .entry((*number, harmless, seen.is_got_over()))
                .or_default()
                .push((*speaker, seen, phase));
        }
        let context = self.context(report);
        let (mut follow_ups, mut got_over) = (Vec::new(), Vec::new());
        let kinds = kinds.into_iter().filter_map(|(key, parts)| {
            let signature = self.catalogue.signatures.get(key.0 as usize)?;
            Some((key, signature, parts))
        });
        let groups = kinds.flat_map(|(key, signature, parts)| {
            let groups = by_reason(signature, parts).into_iter();
            groups.map(move |parts| (key, signature, parts))
        });
        for ((number, harmless, is_got_over), signature, parts) in groups {
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
                _ if is_got_over => {
                    let is_ignored = parts.iter().all(|(_, seen, _)| {
                        let traceback = seen.traceback.as_deref();
                        traceback.is_some_and(|one| one.is_ignored)
                    });
                    if is_ignored {
                        report.seen.push(SignatureFinding {
                            severity: Severity::Info,
                            ..finding
                        });
                        continue;
                    }
                    let is_last = parts
                        .iter()
                        .any(|(speaker, seen, _)| self.is_end_of(*speaker, seen));
                    got_over.push((finding, is_last));
                }
                _ if self.was_settled(signature, &parts) => report.seen.push(finding),
                _ if signature.needs == Some(Need::OtherFindings) => {
                    let place = if self.has_survived(&parts) {
                        &mut report.seen
                    } else {
                        &mut follow_ups
                    };
                    place.push(finding);
                }
                _ if signature.needs == Some(Need::UnfinishedInit) && self.was_got_over(&parts) => {
                    report.seen.push(finding);
                }
                _ if signature.needs == Some(Need::EndOfLog) && !self.has_ended(&finding.last) => {
                    report.seen.push(finding);
                }
                _ if signature.needs.is_some_and(|need| !context.has(need)) => {
                    report.seen.push(finding);
                }
                // NCCL logs at INFO what its caller can do without; calls that fail behind it show that it could not.
                _ if signature.name == XML_ATTRIBUTE
                    && finding.sample.contains(" NCCL INFO ")
                    && !self.any_seen(&FAILS_BEHIND.map(str::to_owned)) =>
                {
                    report.seen.push(finding);
                }
                // The channels show what the warning only supposes.
                _ if signature.name == NICS_USED && self.uses("ib") => report.seen.push(finding),
                _ => report.findings.push(finding),
            }
        }
        if report.findings.is_empty() {
            let (fails, other) = follow_ups
                .into_iter()
                .partition(|one| self.is_last_failure(one));
            (report.findings, follow_ups) = (fails, other);
        }
        let company = if report.findings.is_empty() {
            &mut report.seen
        } else {
            &mut report.findings
        };
        company.append(&mut follow_ups);
        self.wrong_rows(&mut report.findings);
        self.tell_of_got_over(got_over, report);
        self.tell_of_absent_ib(report);
        report.findings.extend(self.mixed());
        report.findings.extend(self.plugin_on_some_hosts());
        report.findings.extend(self.rank_announced_twice());
        report.findings.extend(self.ranks_alone());
        report.findings.extend(self.calls_differ());
        report.findings.extend(self.shared_gpu(&report.findings));
        report.unknown = self.unknown();
        stated::join_refusals(&mut report.unknown);
        let unknown = report.unknown.iter().filter(|one| !one.is_harmless());
        report
            .findings
            .extend(unknown.take(UNKNOWN_MAX).map(unknown_finding));
        self.blame_warnings(report);
        self.leave_to_whole_lines(report);
        self.leave_to_tracebacks(&mut report.findings);
        drop_heads(&mut report.findings);
        drop_advice(&mut report.findings);
        follow_named(&mut report.findings, &self.catalogue.signatures);
        follow(&mut report.findings);
        follow_warnings(&mut report.findings);
        ranking::follow_chain(&mut report.findings);
        self.tell_of_first_process(&mut report.findings);
        self.state(report);
        super::waits_at_end::add(self, report);
        super::reasons::explain(&mut report.findings, &self.catalogue.signatures);
        steps::join(&mut report.findings);
        self.explain_tracebacks(&mut report.findings);
        stated::tell_of_other_model(&mut report.findings, &report.stated);
        super::reasons::explain_waits(&mut report.findings, &report.stated);
        if !context.tcpx_expected {
            report.findings.iter_mut().for_each(leave_out_tcpx);
        }
        self.tell_of_meeting(report);
        self.tell_of_shared_memory(&mut report.findings);
        self.tell_of_gpu_kind(&mut report.findings);
        self.tell_of_first_comm(&mut report.findings);
        self.tell_of_sizes(&mut report.findings);
        self.tell_of_other_collective(&mut report.findings);
        self.tell_of_absent_ranks(&mut report.findings);
        self.tell_of_group(&mut report.findings);
        self.tell_of_other_processes(&mut report.findings);
        self.tell_of_fallback(&mut report.findings);
        connections::tell_of_one_host(&mut report.findings);
        connections::tell_of_addresses(&mut report.findings);
        self.tell_of_own_address(&mut report.findings);
        self.tell_of_bridge(&mut report.findings);
        self.tell_of_pairs(&mut report.findings);
        self.tell_of_refusals(report);
        self.tell_of_loopback(&mut report.findings);
        self.tell_of_stack(&mut report.findings);
        self.tell_of_other_ids(&mut report.findings);
        collectives::tell_of_progress(&mut report.findings);
        tell_of_launchers(&mut report.findings);
        tell_of_lost_settings(&mut report.findings);
        self.know_level(&mut report.findings);
        self.tell_of_reduced_size(&mut report.findings);
        self.know_process(&mut report.findings);
        self.know_switches(&mut report.findings);
        self.tell_own_words(&mut report.findings);
        self.tell_of_nearby(&mut report.findings);
        follow_own_end(&mut report.findings, &self.catalogue.signatures);
        follow_lost_peer(&mut report.findings);
        follow_errors(&mut report.findings, &self.catalogue.signatures);
        follow_ends(&mut report.findings);
        follow_deaths(&mut report.findings);
        follow_cancel(&mut report.findings, &self.catalogue.signatures);
        follow_wrapped(&mut report.findings);
        follow_last_warning(&mut report.findings);
        lead_by_worker(&mut report.findings);
        self.follow_lost(&mut report.findings);
        self.follow_aborts(&mut report.findings);
        let mut listed = report.seen.iter();
        let listed = listed.find(|one| one.signature == names::LISTED && one.after.is_some());
        let listed = listed.cloned();
        names::name(&mut report.findings, listed.as_ref(), |name| {
            let signatures = self.catalogue.signatures.iter();
            let mut its = signatures.filter(|one| one.name == name);
            its.any(super::reasons::quotes)
        });
        self.name_blamed(&mut report.findings);
        self.name_rank_of_process(&mut report.findings);
        let signatures = &self.catalogue.signatures;
        let telling = report.findings.iter();
        let telling: Vec<Telling> = telling
            .map(|one| super::reasons::telling(one, signatures))
            .collect();
        order(&mut report.findings, &telling);
        self.put_first_run_first(report);
        promote(&mut report.findings, |place| self.has_ended(place));
        self.tell_of_going_on(&mut report.findings);
        beside::join_event(&mut report.findings);
        self.name_host(&mut report.findings);
        order(&mut report.benign, &[]);
        beside::tell_of_last_error(&mut report.findings);
        beside::follow_quoted(&mut report.findings);
        beside::tell_of_exception(&mut report.findings);
        beside::tell_of_neighbors(report);
        beside::tell_of_leads(report, &self.catalogue.signatures);
        self.blame_harmless(report);
        beside::tell_of_codes(&mut report.findings);
        beside::tell_of_timeout(&mut report.findings);
        beside::tell_of_part(&mut report.findings);
        beside::tell_of_proxy_call(&mut report.findings);
        beside::follow_message(&mut report.findings);
        // What a log ends with is not harmless where it is a finding.
        let findings = &report.findings;
        let is_told = |one: &SignatureFinding| {
            let is_its =
                |wait: &SignatureFinding| wait.signature == WAITS_AT_END && wait.last == one.last;
            findings.iter().any(is_its)
        };
        report.benign.retain(|one| !is_told(one));
        super::promises::keep(report, |finding| self.states_more(finding));
        let all = [&mut report.findings, &mut report.seen, &mut report.benign];
        all.into_iter().flatten().for_each(shorten);
    }

    /// The last line of a file may be cut: one that begins as a line of a signature does tells no more than that one.
    fn leave_to_whole_lines(&self, report: &mut LogReport) {
        let last_line = |file: &str| {
            let mut lasts = self.tally.ends.last_lines();
            lasts.find_map(|(number, last)| {
                let is_its = self.files.get(*number as usize)? == file;
                is_its.then_some(*last)
            })
        };
        let known = report.findings.iter();
        let known = known.filter(|one| one.signature != UNKNOWN_WARNING);
        let whole = report.benign.iter().chain(known);
        let whole: Vec<String> = whole.map(|one| said(&one.sample)).collect();
        report.findings.retain(|one| {
            let text = said(&one.sample);
            let is_cut = one.count == 1
                && text.len() >= CUT_MIN
                && last_line(&one.last.file) == Some(one.last.line);
            let is_head = |whole: &String| whole.len() > text.len() && whole.starts_with(&text);
            !(is_cut && whole.iter().any(is_head))
        });
    }

    /// The class of an exception that is torn tells no more than the traceback that the log ends within.
    fn leave_to_tracebacks(&self, findings: &mut Vec<SignatureFinding>) {
        let open = self.tally.ends.open_tracebacks();
        let torn = open.filter_map(|open| Some(self.place(open.torn.as_ref()?.0, None)));
        let torn: Vec<LinePlace> = torn.collect();
        let is_torn = |one: &SignatureFinding| {
            let is_its =
                |torn: &LinePlace| (&torn.file, torn.line) == (&one.first.file, one.first.line);
            one.signature == UNKNOWN_WARNING && one.count == 1 && torn.iter().any(is_its)
        };
        findings.retain(|one| !is_torn(one));
    }

    /// Gives exceptions the causes that the frames of their first line tell.
    fn explain_tracebacks(&self, findings: &mut [SignatureFinding]) {
        for ((number, _), seen) in &self.tally.seen {
            let signature = self.catalogue.signatures.get(*number as usize);
            let Some((signature, traceback)) = signature.zip(seen.traceback.as_deref()) else {
                continue;
            };
            let place = self.place(seen.first, None);
            let is_its = |one: &&mut SignatureFinding| {
                one.signature == signature.name
                    && (&one.first.file, one.first.line) == (&place.file, place.line)
            };
            if let Some(finding) = findings.iter_mut().find(is_its)
                && super::reasons::quotes(signature)
            {
                super::reasons::explain_traceback(finding, traceback);
            }
        }
    }

    /// Puts what a line says before causes that are guesses.
    fn tell_own_words(&self, findings: &mut [SignatureFinding]) {
        for finding in findings {
            let mut signatures = self.catalogue.signatures.iter().zip(0_usize..);
            let signature = signatures.find(|(one, _)| one.name == finding.signature);
            let values = signature
                .map(|(_, number)| self.catalogue.values(number, finding.sample.as_bytes()));
            let default = signature.zip(values.as_ref());
            let default =
                default.and_then(|((one, _), values)| Some(values.fill(one.causes.first()?)));
            let error = values.as_ref().and_then(|values| values.get("error"));
            let text = match signature {
                Some(_) => own_words(error.unwrap_or_default(), &finding.sample),
                None => match goes_on_below(&finding.sample, finding.after.as_deref()) {
                    Some(below) => format!("{} {below}", headline(&finding.sample)),
                    None => match failed_check(finding) {
                        Some(check) => format!("{}: {check}", headline(&finding.sample)),
                        None => headline(&finding.sample),
                    },
                },
            };
            let beside = self.beside(finding, signature.map(|(_, number)| number));
            super::reasons::tell_of_beside(finding, &beside, headline);
            let signature = signature.map(|(one, _)| one);
            super::reasons::tell_own_words(finding, signature, &text, default.as_deref());
        }
    }

    /// The lines beside the first line of a finding, as far as they are kept and have a form that is known: others do
    /// not leave in a report.
    fn beside(&self, finding: &SignatureFinding, number: Option<usize>) -> Vec<String> {
        let Some(number) = number else {
            let lines = finding.before.iter().rev().chain(&finding.after);
            let lines = lines.filter(|line| has_known_form(line.as_bytes()));
            return lines.map(|line| line.trim().to_owned()).collect();
        };
        let of = |((one, _), seen): &(&(u32, u32), &SeenLines)| {
            *one as usize == number && self.place(seen.first, None).line == finding.first.line
        };
        let seen = self.tally.seen.iter().find(of);
        let near = seen.into_iter().flat_map(|(_, seen)| seen.near_lines());
        let near = near.filter(|line| has_known_form(line));
        near.map(|line| shown(line)).collect()
    }

    /// Where NCCL said that its kernels want more shared memory than the GPU has, a launch that CUDA refuses is of that.
    fn tell_of_shared_memory(&self, findings: &mut [SignatureFinding]) {
        let signatures = self.catalogue.signatures.iter();
        let mut numbered = signatures.zip(0_u32..);
        let Some((signature, number)) = numbered.find(|(one, _)| one.name == MORE_SHARED_MEMORY)
        else {
            return;
        };
        let seen = self.tally.seen.iter();
        let seen = seen.filter(|((one, _), _)| *one == number);
        let Some((_, seen)) = seen.min_by_key(|(_, seen)| seen.first) else {
            return;
        };
        let values = self.catalogue.values(number as usize, &seen.sample);
        for finding in findings.iter_mut() {
            let refused = ["invalid argument", "invalid value", "too many resources"];
            let is_of = |word: &&str| finding.sample.contains(*word);
            if finding.sample.contains("uda failure") && refused.iter().any(is_of) {
                finding.causes.insert(0, values.fill(&signature.meaning));
            }
        }
    }

    /// Tells that ranks crashed as NCCL made its first communicator, where its version is beside the lines on their end.
    fn tell_of_first_comm(&self, findings: &mut [SignatureFinding]) {
        let is_crash = |one: &&mut SignatureFinding| {
            let crashes = crate::seen::crashes(one.sample.as_bytes());
            crashes || one.signature == names::SIGNAL && one.sample.contains("(SIGSEGV)")
        };
        let crash = findings.iter_mut().find(is_crash);
        let Some(crash) = crash.filter(|_| self.tally.init_complete.is_empty()) else {
            return;
        };
        let seen = self.tally.seen.values();
        let is_before = |seen: &&SeenLines| {
            let place = self.place(seen.first, None);
            place.file == crash.first.file && place.line <= crash.first.line
        };
        let lines = seen.filter(is_before).flat_map(|seen| seen.near_lines());
        let versions = lines.filter_map(|line| line.strip_prefix(NCCL_VERSION));
        // The order of `seen` is that of a hash.
        let version = versions.min();
        if let Some(version) = version.map(shown) {
            crash.meaning = format!(
                "{}; {}",
                crash.meaning,
                FIRST_COMM.replace("{word}", &version)
            );
        }
    }

    /// Where the log shows the level at which NCCL logs, no finding advises to set it.
    fn know_level(&self, findings: &mut [SignatureFinding]) {
        let networks = self.tally.transports.values();
        let mut networks = networks.flat_map(BTreeMap::values);
        let is_info = |one: &SignatureFinding| one.sample.contains(" NCCL INFO ");
        let logs_info = networks.any(|(proof, _)| *proof > Proof::Up)
            || !self.tally.init_complete.is_empty()
            || findings.iter().any(is_info)
            || self.logs_info();
        let level = match logs_info {
            true => Level::Info,
            false => self.tally.fronts.level(),
        };
        let levels: &[&str] = match level {
            Level::Unknown => return,
            Level::Warn => &["NCCL_DEBUG=WARN"],
            Level::Info => &["NCCL_DEBUG=WARN", "NCCL_DEBUG=INFO"],
        };
        let is_in_file = !logs_info && self.tally.fronts.has_debug_file();
        let told = match is_in_file {
            true => crate::reasons::READ_FILES,
            false => crate::reasons::READ_WARNINGS,
        };
        for finding in findings {
            let next = finding.next_step.as_mut();
            let asks = |text: &str| levels.iter().any(|level| text.contains(level));
            if let Some(next) = next.filter(|next| asks(next)) {
                told.clone_into(next);
            }
            let supposes = |cause: &String| cause.starts_with(crate::promises::NO_REASON);
            if is_in_file && finding.causes.iter().any(supposes) {
                let told = crate::promises::IN_FILES.to_owned();
                finding.causes.push(told);
            }
            finding.causes.retain(|cause| !supposes(cause));
        }
    }

    /// Where GPUs of a node are connected over PCIe, there is no NVSwitch for a fabric manager.
    fn know_switches(&self, findings: &mut [SignatureFinding]) {
        if !self.tally.fronts.has_gpus_over_pcie() {
            return;
        }
        for finding in findings {
            finding.causes.retain(|cause| cause != NO_MANAGER);
            let is_of_nvls = |cause: &&mut String| cause.starts_with(NO_NVLS);
            let Some(cause) = finding.causes.iter_mut().find(is_of_nvls) else {
                continue;
            };
            NO_SWITCH.clone_into(cause);
            let next = finding.next_step.as_mut();
            if let Some(next) = next.filter(|next| next.contains("nvidia-fabricmanager")) {
                WITHOUT_NVLS.clone_into(next);
            }
        }
    }

    /// Where one process drives all GPUs that the lines of NCCL name, no other process sees them otherwise.
    fn know_process(&self, findings: &mut [SignatureFinding]) {
        let speakers = self.tally.speakers.iter();
        let is_process = |one: &&Speaker| matches!(one, Speaker::Process { pid: Some(_), .. });
        if speakers.filter(is_process).count() != 1 {
            return;
        }
        let seen = self.tally.seen.values().map(|seen| &seen.sample);
        let unknown = self.tally.shapes.values().map(|shape| &shape.lines.sample);
        let ends = self.tally.ends.iter().map(|(.., end)| &end.last.text);
        let lines = seen.chain(unknown).chain(ends);
        let gpus: BTreeSet<u32> = lines.filter_map(|line| facts::gpu_of(line)).collect();
        if gpus.len() < 2 {
            return;
        }
        for finding in findings {
            let of_others = |cause: &String| cause.starts_with("the processes see the GPUs");
            finding.causes.retain(|cause| !of_others(cause));
            for cause in &mut finding.causes {
                *cause = cause.replace(", or separate containers", "");
            }
        }
    }

    /// Whether every process with these lines initialized a communicator afterwards, or the job has
    /// one node.
    fn was_got_over(&self, parts: &[(u32, &SeenLines, Option<Phase>)]) -> bool {
        let complete = &self.tally.init_complete;
        let mut parts = parts.iter();
        self.is_of_one_node()
            || parts
                .all(|(speaker, seen, _)| complete.get(speaker).is_some_and(|at| *at > seen.first))
    }

    /// Whether every process with these lines initialized a communicator after the last of them.
    fn has_survived(&self, parts: &[(u32, &SeenLines, Option<Phase>)]) -> bool {
        let complete = &self.tally.init_complete;
        let is_later = |(speaker, seen, _): &(u32, &SeenLines, Option<Phase>)| {
            complete.get(speaker).is_some_and(|at| *at > seen.last)
        };
        parts.iter().all(is_later)
    }

    /// Whether calls that failed while NCCL made its channels, of which nothing else tells, are of communicators that did
    /// not come up: the log ends with them, and none was complete before. Calls of one network may be probes. Calls that
    /// failed one in another, and with which the log ends, are NCCL's own return to the program. The same
    /// of a full disk of Ray, whose jobs go on until they need it.
    fn is_last_failure(&self, finding: &SignatureFinding) -> bool {
        // Where NCCL tries something, it logs one call.
        let is_chain = finding.signature == ranking::CALL_CHAIN
            && finding.count > 1
            && !NO_FAILURES.iter().any(|of| finding.sample.contains(of));
        let is_of_channels = finding.signature == NET_CHAIN
            && finding.sample.contains(OF_CHANNELS)
            && self.tally.init_complete.is_empty();
        (is_chain || is_of_channels || finding.signature == RAY_DISK_FULL)
            && self.has_ended(&finding.last)
    }

    /// Whether each process with these lines logged later that what they report was got over.
    fn was_settled(
        &self,
        signature: &Signature,
        parts: &[(u32, &SeenLines, Option<Phase>)],
    ) -> bool {
        let names = &signature.settled_by;
        let settles = |number: u32| {
            let other = self.catalogue.signatures.get(number as usize);
            other.is_some_and(|other| names.contains(&other.name))
        };
        let is_settled = |(speaker, seen, _): &(u32, &SeenLines, Option<Phase>)| {
            // A line that does not tell its process is got over by any process of its file.
            let has_process = !matches!(
                self.tally.speakers.get_index(*speaker as usize),
                Some(Speaker::File(_))
            );
            let is_of = |of: u32, later: &SeenLines| {
                of == *speaker || !has_process && later.last.file == seen.last.file
            };
            let mut all = self.tally.seen.iter();
            all.any(|((number, of), later)| {
                is_of(*of, later) && settles(*number) && later.last > seen.last
            })
        };
        !names.is_empty() && parts.iter().all(is_settled)
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

    /// Whether a line of NCCL says that a variable is set.
    fn is_set(&self, variable: &str) -> bool {
        let mut settings = self.tally.settings.keys();
        settings.any(|(_, key)| key == variable.as_bytes())
    }

    /// The least of the values that lines of NCCL say a variable has.
    fn set_value(&self, variable: &str) -> Option<String> {
        let settings = self.tally.settings.iter();
        let of = settings.filter(|((_, key), _)| key == variable.as_bytes());
        of.flat_map(|(_, values)| values)
            .min()
            .map(|value| shown(value))
    }

    /// What the log shows beside the lines of a signature.
    fn context(&self, report: &LogReport) -> Context {
        let names_tcpx = |text: &str| text.to_ascii_lowercase().contains("tcpx");
        let settings = report.settings.iter();
        let several = |nodes: &u32| *nodes > 1;
        let fronts = &self.tally.fronts;
        Context {
            efa_expected: fronts.expects_efa(|name| self.set_value(name)),
            tcpx_expected: report
                .transport
                .named
                .keys()
                .any(|name| kind(name) == "tcpx")
                || !report.transport.versions.is_empty()
                || settings
                    .into_iter()
                    .any(|one| names_tcpx(&one.key) || names_tcpx(&one.value)),
            several_nodes: match self.tally.nodes.is_empty() {
                true => self.tally.most_ranks != Some(1) && !self.is_of_one_node(),
                false => self.tally.nodes.values().any(several),
            },
            spans_nodes: self.is_of_several_nodes()
                || self.tally.commands.has_several_nodes()
                || fronts.has_several_nodes(),
            has_network: !["unknown", "asked-for", "within-node"]
                .contains(&report.transport.verdict)
                || !report.transport.named.is_empty(),
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
                let wraps = super::seen::wraps(&seen.sample);
                (wraps, clock, seen.first, &seen.sample)
            });
        let first = first.map(|first| with_header(first, seen()));
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
        let finding = SignatureFinding {
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
            causes: causes(signature, &values, |key| self.is_set(key)),
            next_step: signature.next.as_deref().map(|next| values.fill(next)),
            versions: signature.versions.clone(),
            polls: slowest
                .zip(longest)
                .map(|(slowest, longest)| PollRate::new(slowest, longest)),
            sample: shown(sample),
            before: Vec::new(),
            after: None,
        };
        let finding = names::with_gpus(finding, seen().flat_map(|seen| &seen.gpus));
        let finding = names::with_ranks(finding, seen().flat_map(SeenLines::named_ranks));
        let finding = self.with_below(finding, signature, seen().flat_map(|seen| &seen.below));
        if !signature.severity.is_finding() || signature.file.is_some() {
            return finding;
        }
        // The frames of another process tell the place where the first one has none.
        let frames = first.and_then(|seen| seen.traceback.as_deref());
        let has_frames = |seen: &&SeenLines| {
            let frames = seen.traceback.as_deref();
            frames.is_some_and(super::traceback::Traceback::has_frames)
        };
        let other = || seen().filter(has_frames).min_by_key(|seen| seen.first);
        let frames = match frames {
            Some(frames) if !frames.has_frames() => other()
                .and_then(|seen| seen.traceback.as_deref())
                .or(Some(frames)),
            frames => frames,
        };
        let finding = match first.and_then(goes_on_indented) {
            Some(rest) => SignatureFinding {
                meaning: format!("{} {rest}", finding.meaning),
                ..finding
            },
            None => finding,
        };
        // A signature that reads the lines below has told them.
        let rest = frames.and_then(|frames| frames.rest());
        let finding = match rest.filter(|_| signature.below.is_none()) {
            Some(rest) => SignatureFinding {
                meaning: if signature.meaning.contains("{error}") {
                    format!("{} {rest}", finding.meaning)
                } else {
                    let said = crate::reasons::BESIDE.replace("{word}", &rest);
                    format!("{}; {said}", finding.meaning)
                },
                after: Some(rest),
                ..finding
            },
            None => finding,
        };
        let places = match super::traceback::cuts(sample) {
            true => super::traceback::Traceback::places_cut,
            false => super::traceback::Traceback::places,
        };
        let frames = frames.map_or(Vec::new(), places);
        let mut lines: Vec<&SeenLines> = seen().collect();
        lines.sort_unstable_by_key(|seen| seen.first);
        let rank = match parts {
            [(speaker, ..)] => self.rank_of(*speaker),
            _ => None,
        };
        let speaker = parts.iter().min_by_key(|(_, seen, _)| seen.first);
        let nics = speaker.and_then(|(speaker, ..)| self.used_nics(signature, *speaker));
        self.with_facts(finding, &frames, &lines, rank, nics)
    }

    /// The NICs that a process said it uses, for a finding on its network or on its sockets.
    fn used_nics(&self, signature: &Signature, speaker: u32) -> Option<String> {
        let is_of_socket = signature.name.contains("socket");
        let is_of_verbs = signature.network.as_deref() == Some("IB");
        if !(is_of_socket || is_of_verbs) {
            return None;
        }
        let sample = |name: &str| {
            let mut signatures = self.catalogue.signatures.iter().zip(0_u32..);
            let number = signatures.find(|(one, _)| one.name == name)?.1;
            let of_host = || {
                let all = self.tally.seen.iter();
                let of = all.filter(|((one, other), _)| {
                    *one == number && self.host(*other) == self.host(speaker)
                });
                of.map(|(_, seen)| seen).min_by_key(|seen| seen.first)
            };
            let seen = self.tally.seen.get(&(number, speaker)).or_else(of_host)?;
            Some(&seen.sample)
        };
        let of_verbs = sample(NICS_USED).and_then(|line| facts::nics(line, is_of_socket));
        let of_sockets = || facts::socket_nic(sample(SOCKETS_USED)?);
        of_verbs.or_else(|| of_sockets().filter(|_| is_of_socket))
    }

    /// The rank that a process has in every communicator of NCCL that it made or began to make.
    fn rank_of(&self, speaker: u32) -> Option<u32> {
        let of = self.tally.members.range((speaker, 0)..=(speaker, u64::MAX));
        let begun = self.tally.claims.gpus().map(|(of, ..)| of);
        let begun = begun.filter(|of| of.speaker == speaker).map(|of| of.rank);
        let ranks = of.map(|(_, (_, member))| member.rank).chain(begun);
        let ranks: BTreeSet<u32> = ranks.collect();
        ranks.first().copied().filter(|_| ranks.len() == 1)
    }

    /// The finding with the places in the program and the facts that its lines name.
    fn with_facts(
        &self,
        finding: SignatureFinding,
        frames: &[String],
        lines: &[&SeenLines],
        rank: Option<u32>,
        nics: Option<String>,
    ) -> SignatureFinding {
        let mut meaning = finding.meaning;
        for frame in frames {
            meaning = format!("{meaning}; {frame}");
        }
        let mut facts = facts::named(&meaning, &finding.processes, lines);
        if let Some(rank) = rank.map(|rank| format!("rank {rank}"))
            && !meaning.contains("rank ")
            && !facts
                .iter()
                .any(|fact| fact.to_ascii_lowercase().contains("rank"))
        {
            facts.insert(0, rank);
        }
        facts.extend(nics.filter(|nics| !meaning.contains(nics) && !facts.contains(nics)));
        let is_other = |letter: char| !letter.is_ascii_uppercase() && letter != '_';
        let variables = finding.causes.first().into_iter();
        let variables = variables.flat_map(|text| text.split(is_other));
        for variable in variables.filter(|word| word.starts_with("NCCL_") && *word != "NCCL_DEBUG")
        {
            let said = || facts::assigned(variable, lines);
            if let Some(value) = self.set_value(variable).or_else(said) {
                let fact = format!("{variable}={value}");
                if !facts.contains(&fact) {
                    facts.push(fact);
                }
            }
        }
        SignatureFinding {
            meaning: facts::with(meaning, &facts),
            ..finding
        }
    }

    /// The finding with what the lines below its lines tell.
    fn with_below<'a>(
        &self,
        finding: SignatureFinding,
        signature: &Signature,
        texts: impl Iterator<Item = &'a BelowText>,
    ) -> SignatureFinding {
        let below = signature.below.as_ref();
        let told = below.and_then(|below| Some((below, telling(below, texts)?)));
        let Some((below, (text, values))) = told else {
            return finding;
        };
        let place = self.place(text.place, None);
        let is_same = (&place.file, place.line) == (&finding.first.file, finding.first.line);
        // Only a text that was chosen by its time is of another event than the first line.
        let is_chosen = values.get("time").is_some() && !is_same;
        SignatureFinding {
            first: if is_chosen {
                place
            } else {
                finding.first.clone()
            },
            severity: below.severity.unwrap_or(finding.severity),
            role: below.role.unwrap_or(finding.role),
            meaning: values.fill(&below.meaning.replace(SAID, &finding.meaning)),
            causes: if below.causes.is_empty() {
                finding.causes
            } else {
                below.causes.clone()
            },
            next_step: Some(values.fill(&below.next)),
            after: Some(shown(own_part(&text.text))),
            ..finding
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
        self.close_with_the_job(&mut phases);
        phases
    }

    /// The processes of a file close from the line on with which the whole job says that it is at its end, unless they
    /// say so themselves.
    fn close_with_the_job(&self, phases: &mut BTreeMap<u32, Ends>) {
        let of_job = |(speaker, ends): (&u32, &Ends)| {
            let is_file = matches!(
                self.tally.speakers.get_index(*speaker as usize),
                Some(Speaker::File(_))
            );
            ends.close.filter(|_| is_file)
        };
        let closes: Vec<Place> = phases.iter().filter_map(of_job).collect();
        for ((_, speaker), seen) in &self.tally.seen {
            let close = closes.iter().find(|close| close.file == seen.first.file);
            let ends = phases.entry(*speaker).or_default();
            ends.close = ends.close.or(close.copied());
        }
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

    // ---- waits, settings ------------------------------------------------------------------

    /// What each rank waits for.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Wait, u32)> {
        let all = self.tally.collectives.iter();
        all.filter_map(|(speaker, (_, wait))| {
            match self.tally.speakers.get_index(*speaker as usize) {
                Some(Speaker::Rank { rank, .. }) => Some((wait, *rank)),
                _ => None,
            }
        })
    }

    /// Names the ranks that wait in a collective with other sizes than the rest.
    fn tell_of_sizes(&self, findings: &mut [SignatureFinding]) {
        let mut sizes = BTreeMap::<(&[u8], u64, &[u8]), BTreeMap<&[u8], BTreeSet<u32>>>::new();
        for (wait, rank) in self.waiting().filter(|(wait, _)| !wait.size.is_empty()) {
            let of = sizes.entry((&wait.group, wait.sequence, &wait.operation));
            let of = of.or_default().entry(&wait.size).or_default();
            of.insert(rank);
        }
        let differs = sizes.values().find(|of| of.len() == 2);
        let parts = differs.and_then(|of| {
            let mut of: Vec<_> = of.iter().collect();
            of.sort_by_key(|(_, ranks)| ranks.len());
            let [(size, ranks), (others, rest)] = of.as_slice() else {
                return None;
            };
            Some((*size, *ranks, *others, rest.len()))
        });
        let timeout = findings.iter_mut().find(|one| one.signature == TIMEOUT);
        let Some(((size, ranks, others, rest), finding)) = parts.zip(timeout) else {
            return;
        };
        let rest = match ranks.len() == rest {
            true => "as many others",
            false => "the others",
        };
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        finding.meaning = format!(
            "{}; rank {} calls it with {}, {rest} with {}",
            finding.meaning,
            ranks.join(", "),
            shown(size),
            shown(others)
        );
        finding.causes.insert(0, OTHER_SIZE.to_owned());
    }

    /// Names the other collective in which a rank of the same group waits, if there is one.
    fn tell_of_other_collective(&self, findings: &mut [SignatureFinding]) {
        let Some(finding) = findings.iter_mut().find(|one| one.signature == TIMEOUT) else {
            return;
        };
        let named = |wait: &Wait| format!("{} number {}", shown(&wait.operation), wait.sequence);
        let waits: BTreeSet<(String, &[u8], u32)> = self
            .waiting()
            .map(|(wait, rank)| (named(wait), wait.group.as_slice(), rank))
            .collect();
        let is_own = |name: &str| finding.meaning.contains(&format!(" on {name}, "));
        let Some((own, group, _)) = waits.iter().find(|(name, ..)| is_own(name)) else {
            return;
        };
        let mut others = waits
            .iter()
            .filter(|(name, of, _)| of == group && name != own);
        let other = others.next();
        let are_two = others.all(|(name, ..)| other.is_some_and(|(other, ..)| other == name));
        if let Some((other, ..)) = other.filter(|_| are_two) {
            let ranks = |name: &String| {
                let of = waits
                    .iter()
                    .filter(|(one, of, _)| one == name && of == group);
                let ranks: Vec<String> = of.map(|(.., rank)| rank.to_string()).collect();
                ranks[..ranks.len().min(WAITING_MAX)].join(", ")
            };
            let wait = |name: &String| match ranks(name) {
                several if several.contains(',') => format!("ranks {several} wait"),
                one => format!("rank {one} waits"),
            };
            finding.meaning = format!(
                "{}; {} in it; {} in {other}",
                finding.meaning,
                wait(own),
                wait(other)
            );
            let operation = |name: &String| name.split(' ').next().map(str::to_owned);
            if operation(own) != operation(other) {
                finding.causes.insert(0, OTHER_ORDER.to_owned());
            }
        }
    }

    /// Names the ranks that log other lines and none on the collective in which all others wait. What such ranks report
    /// of a lost connection followed, if every other rank was in it: its watchdog ended one of these.
    fn tell_of_absent_ranks(&self, findings: &mut [SignatureFinding]) {
        let waits: BTreeSet<(&[u8], u64)> = self
            .waiting()
            .map(|(wait, _)| (wait.group.as_slice(), wait.sequence))
            .collect();
        let waiting = self.joined();
        if waits.len() != 1 || waiting.len() < 2 {
            return;
        }
        // Only lines of known forms count: others do not leave in a bundle.
        let seen = self.tally.seen.keys().map(|(_, speaker)| speaker);
        let shapes = self.tally.shapes.values();
        let speakers = seen.chain(shapes.flat_map(|shape| shape.last.keys()));
        let ranks = speakers.filter_map(|one| match self.tally.speakers.get_index(*one as usize) {
            Some(Speaker::Rank { rank, .. }) => Some(*rank),
            _ => None,
        });
        let absent: BTreeSet<u32> = ranks.filter(|rank| !waiting.contains(rank)).collect();
        if absent.is_empty() || absent.len() > ABSENT_MAX || absent.len() >= waiting.len() {
            return;
        }
        let are_all = (0..)
            .zip(waiting.union(&absent))
            .all(|(number, rank)| number == *rank);
        let Some(timeout) = findings.iter_mut().find(|one| one.signature == TIMEOUT) else {
            return;
        };
        let names: Vec<String> = absent.iter().map(u32::to_string).collect();
        let names = names.join(", ");
        let started = self.started();
        let last: BTreeSet<_> = absent.iter().map(|rank| started.get(rank)).collect();
        let told = match last.first() {
            Some(Some(last_number)) if last.len() == 1 => {
                format!("rank {names}, whose last is number {last_number}, did not wait in it")
            }
            _ => format!("rank {names} did not wait in it"),
        };
        timeout.meaning = format!("{}; {told}", timeout.meaning);
        let is_absent = |name: &String| {
            let rank = name.rsplit_once(" rank ");
            let rank = rank.and_then(|(_, rank)| rank.parse().ok());
            rank.is_some_and(|rank: u32| absent.contains(&rank))
        };
        let mut other_call = None;
        for finding in findings.iter_mut().filter(|_| are_all) {
            let is_loss = crate::reasons::is_loss(&finding.sample);
            if is_loss && finding.processes.iter().all(is_absent) {
                finding.role = Role::Consequence;
                other_call = other_call.or_else(|| self.raised_in_collective(finding));
            }
        }
        let timeout = findings.iter_mut().find(|one| one.signature == TIMEOUT);
        if let Some((timeout, call)) = timeout.zip(other_call) {
            timeout.meaning = format!("{}; rank {names} was in {call} instead", timeout.meaning);
            timeout.causes.insert(0, OTHER_ORDER.to_owned());
        }
    }

    /// Ranks by the collective that they wait for.
    fn waits(&self) -> Vec<CollectiveWait> {
        let mut by = BTreeMap::<Wait, Vec<u32>>::new();
        for (wait, rank) in self.waiting() {
            // Ranks that call it with other sizes wait for the same.
            let size = Vec::new();
            by.entry(Wait {
                size,
                ..wait.clone()
            })
            .or_default()
            .push(rank);
        }
        let wait = |(wait, mut ranks): (Wait, Vec<u32>)| {
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

    /// Ranks that do not wait. Files of one rank each tell nothing about ranks whose files are not here, and a group
    /// nothing about ranks that may not be in it.
    fn not_waiting(&self, waits: &[CollectiveWait]) -> Vec<u32> {
        if waits.is_empty() || !self.wait_is_of_all() {
            return Vec::new();
        }
        let waiting = self.joined();
        let started = self.started();
        let last = waiting.last().max(started.keys().last()).copied();
        let last = last.max(self.last_listed());
        let torn = self.torn_reports();
        // The ranks of other nodes may have no line here.
        let of_comm = self.tally.most_ranks.unwrap_or_default().saturating_sub(1);
        let last = last.max(torn.last().copied()).unwrap_or_default();
        let last = last.max(u32::try_from(of_comm).unwrap_or(RANKS_MAX));
        let mut of_file = BTreeMap::<u32, BTreeSet<u32>>::new();
        let mut processes = 0;
        for speaker in &self.tally.speakers {
            match speaker {
                Speaker::Rank { file, rank } => {
                    of_file.entry(*file).or_default().insert(*rank);
                }
                Speaker::Process { .. } => processes += 1,
                Speaker::File(_) | Speaker::Others => {}
            }
        }
        let are_of_one =
            of_file.values().all(|ranks| ranks.len() == 1) && processes <= of_file.len();
        let has_lines = |rank: &u32| of_file.values().any(|ranks| ranks.contains(rank));
        let others = (0..=last.min(RANKS_MAX)).filter(|rank| !waiting.contains(rank));
        others
            .filter(|rank| !torn.contains(rank))
            .filter(|rank| !are_of_one || has_lines(rank))
            .collect()
    }

    /// The ranks whose last line is the front of one that PyTorch writes as it gives up, and those whose line of that
    /// is torn before it names the collective.
    fn torn_reports(&self) -> BTreeSet<u32> {
        let ends = self.tally.ends.iter();
        let cut = ends.filter_map(|(.., end)| torn_report(&end.last.text));
        let rank = |speaker: u32| match self.tally.speakers.get_index(speaker as usize) {
            Some(Speaker::Rank { rank, .. }) => Some(*rank),
            _ => None,
        };
        let reported = [TIMEOUT, TIMEOUT_TORN].map(|name| self.lines_of(name));
        let reported = reported.into_iter().flatten();
        cut.chain(reported.filter_map(|(speaker, _)| rank(speaker)))
            .collect()
    }

    /// The highest rank in torchrun's tables.
    fn last_listed(&self) -> Option<u32> {
        let signature = Signature::named(&self.catalogue.signatures, names::LISTED)?;
        let texts = self
            .lines_of(names::LISTED)
            .flat_map(|(_, seen)| &seen.below);
        let (_, values) = telling(signature.below.as_ref()?, texts)?;
        let ranks = values.get("rank")?.split(", ");
        ranks.filter_map(|rank| rank.parse().ok()).max()
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
}

/// Cuts the quoted line of a finding, which has told all that it tells.
fn shorten(finding: &mut SignatureFinding) {
    let end = finding.sample.floor_char_boundary(SAMPLE_BYTES);
    finding.sample.truncate(end);
}

/// Settings of TCPX, whose sockets say the same as NCCL's own, from which they were made.
const OF_TCPX: [&str; 2] = ["CTRL_DEV", "GPUDIRECTTCPX"];

/// Takes the advice on settings of TCPX out of a finding that is not TCPX's, in a log that has nothing of it.
fn leave_out_tcpx(finding: &mut SignatureFinding) {
    // A source of TCPX names its function: `int createListenSocket():587`.
    if finding.sample.to_ascii_lowercase().contains("tcpx") || finding.sample.contains("):") {
        return;
    }
    let names = |text: &String| OF_TCPX.iter().any(|setting| text.contains(setting));
    if finding.causes.iter().any(names) {
        finding.causes.retain(|cause| !names(cause));
    }
    if finding.next_step.as_ref().is_some_and(names) {
        finding.next_step = Some(ADVICE_ON_SOCKETS.to_owned());
    }
}

/// How to look at the sockets of any network.
const ADVICE_ON_SOCKETS: &str = "compare NCCL_SOCKET_IFNAME with `ip -br addr` in the container on every node, and check `ulimit -n`";

/// Least length of the head of a harmless message.
const CUT_MIN: usize = 16;

/// What a line of NCCL says behind its header; any other line as it is.
fn said(line: &str) -> String {
    let marker = line.rfind("NCCL WARN ");
    marker
        .map_or(line, |at| &line[at + "NCCL WARN ".len()..])
        .to_owned()
}

/// A warning without a signature as a finding, so that none goes unmentioned.
fn unknown_finding(warning: &UnknownWarning) -> SignatureFinding {
    SignatureFinding {
        signature: UNKNOWN_WARNING.to_owned(),
        severity: if says_error(&warning.sample) {
            Severity::Error
        } else {
            Severity::Warning
        },
        role: Role::General,
        count: warning.count,
        processes: warning.processes.clone(),
        first: warning.first.clone(),
        last: warning.last.clone(),
        phase: None,
        meaning: {
            let text = headline(&warning.sample);
            let text = match goes_on_below(&warning.sample, warning.after.as_deref()) {
                Some(below) => format!("{text} {below}"),
                None => text,
            };
            let mut facts = facts::of_text(&text, &warning.sample);
            let after = warning.after.as_deref().unwrap_or_default();
            facts.extend(facts::rank_of_same(&text, &warning.sample, after));
            let meaning =
                format!("a warning or an error that tcpxctl has no signature for: {text}");
            facts::with(meaning, &facts)
        },
        causes: Vec::new(),
        next_step: Some(read_around(&warning.first)),
        versions: String::new(),
        polls: None,
        sample: warning.sample.clone(),
        before: warning.before.clone(),
        after: warning.after.clone(),
    }
}

/// What is below a line up to the next error of a program, which is another event.
fn own_part(text: &[u8]) -> &[u8] {
    let ends = memchr::memchr_iter(b'\n', text);
    let mut ends = ends.filter(|end| text[end + 1..].starts_with(crate::loggers::LOWER_WORD));
    &text[..ends.next().unwrap_or(text.len())]
}

/// The indented line below an error that ends with a colon, or counts errors: its message goes on there.
fn goes_on_below<'a>(line: &str, after: Option<&'a str>) -> Option<&'a str> {
    let after = after.filter(|_| crate::traceback::goes_on(line.as_bytes()))?;
    let is_frame = crate::traceback::is_frame(after.as_bytes());
    let text = after.trim();
    (after.starts_with(' ') && !is_frame && !text.is_empty()).then_some(text)
}

/// Whether a line is the message of an exception of C++ that ends in mid-sentence: programs break long messages.
pub(super) fn is_open_message(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"what():")
        && line.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// The line below such a message, which goes on in it.
fn goes_on_indented(seen: &SeenLines) -> Option<String> {
    let mut near = seen.near_lines();
    let below = near.next().filter(|_| is_open_message(&seen.sample))?;
    let text = shown(below);
    let is_text = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    (below.starts_with(b"    ") && is_text && !crate::native_stack::is_frame(below)).then_some(text)
}

/// The line of NCCL right beside a line that quotes it, which has the header; otherwise that line.
fn with_header<'a>(
    first: &'a SeenLines,
    others: impl Iterator<Item = &'a SeenLines>,
) -> &'a SeenLines {
    const MARKER: &[u8] = b"NCCL WARN ";
    let has_header = |seen: &SeenLines| memchr::memmem::find(&seen.sample, MARKER).is_some();
    if has_header(first) {
        return first;
    }
    let is_quoted = |other: &&SeenLines| {
        let message = memchr::memmem::find(&other.sample, MARKER);
        let message = message.and_then(|at| other.sample.get(at + MARKER.len()..));
        let is_near = other.first.file == first.first.file
            && other.first.line.abs_diff(first.first.line) <= ENDING_LINES;
        is_near && message.is_some_and(|text| first.sample.ends_with(text))
    };
    others
        .filter(is_quoted)
        .min_by_key(|one| one.first)
        .unwrap_or(first)
}

/// Longest text of a line in the first sentence of a finding.
const HEADLINE_MAX: usize = 300;

/// What a line says, without its header, for the first sentence of a finding.
pub(crate) fn headline(line: &str) -> String {
    let message = crate::loggers::logged_error(line.as_bytes());
    let message = message.map(shown).filter(|text| !text.is_empty());
    let text = message.unwrap_or_else(|| {
        let behind = line.rsplit_once("NCCL WARN ").map(|(_, behind)| behind);
        behind.unwrap_or(line).to_owned()
    });
    // What is left of the form `[TRT-LLM] [E] ...`.
    let text = text
        .strip_prefix("] [E] ")
        .map(str::to_owned)
        .unwrap_or(text);
    match text.char_indices().nth(HEADLINE_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The check of a program in the line above an exception that says no more than that a check failed.
fn failed_check(finding: &SignatureFinding) -> Option<&str> {
    const BARE: &str = "AssertionError";
    const CHECK: &str = " assert ";
    let above = finding.before.last()?.trim_end();
    let check = above.find(CHECK).map(|at| &above[at + 1..])?;
    (headline(&finding.sample).ends_with(BARE) && !check.ends_with(['(', '\\', ',']))
        .then_some(check)
}

/// Whether a line without a signature is one of an error by its level, or a check that ended its program.
fn says_error(line: &str) -> bool {
    // UCX ends its process after such a line.
    let is_error = crate::loggers::is_glog_error(line.as_bytes()) || line.contains(" Fatal: ");
    is_error && crate::reasons::tells_why(line) || line.contains("Check failed:")
}

/// Ranks that are jobs of their own, and mpirun's line on settings that it did not find, which may be why.
const ALONE: &str = "ranks-alone";
const LOST_SETTINGS: &str = "mpi-settings-file-missing";

/// Names the settings that mpirun did not find where its ranks did not become one job.
fn tell_of_lost_settings(findings: &mut [SignatureFinding]) {
    let lost = findings.iter().find(|one| one.signature == LOST_SETTINGS);
    let Some(lost) = lost.map(|one| one.meaning.clone()) else {
        return;
    };
    for finding in findings.iter_mut().filter(|one| one.signature == ALONE) {
        finding.meaning = format!("{}; {lost}", finding.meaning);
    }
}

/// PyTorch's store whose port is in use, what it then says once for each process that wants to serve it, and the
/// cause where several do.
const PORT_IN_USE: &str = "torch-port-in-use";
const NO_LISTENER: &str = "has failed to listen on any local network address";
const SEVERAL: &str = "several processes want to serve the store at once: more than one launcher runs per node, as with several tasks of srun per node, or every rank is started as rank 0";

/// Tells of several launchers where more than one process found the port of the store in use.
fn tell_of_launchers(findings: &mut [SignatureFinding]) {
    let says = |one: &&SignatureFinding| {
        one.signature == UNKNOWN_WARNING && one.sample.contains(NO_LISTENER)
    };
    let count = findings.iter().find(says).map_or(0, |one| one.count);
    let mut of = findings
        .iter_mut()
        .filter(|one| one.signature == PORT_IN_USE);
    if let Some(finding) = of.next().filter(|_| count > 1) {
        finding.causes.insert(0, SEVERAL.to_owned());
    }
}

/// Words of an error that are fewer tell little without the line that they are in.
const WORDS_MIN: usize = 4;

/// What a line says of an error whose words a signature captured.
fn own_words(error: &str, line: &str) -> String {
    let is_unknown = error.to_ascii_lowercase().starts_with("unknown");
    match error.split_whitespace().count() {
        0 => String::new(),
        _ if is_unknown => String::new(),
        count if count < WORDS_MIN => headline(line),
        _ => error.to_owned(),
    }
}

/// Whether a line has a level of a logger, or states an error.
fn has_known_form(line: &[u8]) -> bool {
    let has_level = crate::shape::record_at(line, line.len()).0.has_level();
    has_level
        || crate::loggers::Logged::of(line) != Default::default()
        || crate::stated::stated(line).is_some()
        || [&b"[W "[..], b"[E "]
            .iter()
            .any(|level| line.starts_with(level))
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

/// A process, its lines of a signature, and the phase that they are in.
type Part<'a> = (u32, &'a SeenLines, Option<Phase>);

/// Errors of the system with which causes begin: such a cause is of lines with that error.
const SYSTEM_ERRORS: [&str; 5] = ["refused", "timed out", "no route", "reset", "aborted"];

/// The causes of a signature with the values of a line. A cause that begins with codes, as in
/// `4, 9 or 10: `, is the line's own only if one of them is its code; the others come last. One that begins with a
/// variable counts where the log shows that the variable is set.
fn causes(signature: &Signature, values: &Values, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let error = values.get("error").map(str::to_ascii_lowercase);
    // The table means the same by a number and by its name.
    let is_same = |one: &str, other: &str| {
        let means = signature.table.get(one);
        means.is_some() && means == signature.table.get(other)
    };
    // Whether a cause is of the captured code; `None` if it is of any.
    let is_of_code = |cause: &str| -> Option<bool> {
        let (codes, _) = cause.split_once(": ")?;
        let mut codes = codes
            .split([',', ' '])
            .filter(|one| !one.is_empty() && *one != "or")
            .peekable();
        let is_number = |one: &&str| one.bytes().all(|byte| byte.is_ascii_digit());
        codes.peek().is_some_and(is_number).then(|| {
            let code = values.get("code");
            codes.any(|one| Some(one) == code || code.is_some_and(|code| is_same(one, code)))
        })
    };
    let is_of_others = |cause: &String| {
        let (head, _) = cause.split_once(": ").unwrap_or_default();
        if let Some(error) = &error
            && SYSTEM_ERRORS.contains(&head)
        {
            return !error.contains(head);
        }
        if head.starts_with("NCCL_") {
            return !is_set(head);
        }
        is_of_code(cause) == Some(false)
    };
    let filled = signature.causes.iter().map(|cause| values.fill(cause));
    let (others, mut own): (Vec<_>, Vec<_>) = filled.partition(is_of_others);
    let is_known = own.iter().any(|cause| is_of_code(cause) == Some(true));
    let is_other_code = |cause: &String| is_known && is_of_code(cause) == Some(false);
    own.extend(others.into_iter().filter(|cause| !is_other_code(cause)));
    // The sentence has the code already.
    let without_code = |cause: String| match cause.split_once(": ") {
        Some((_, text)) if is_of_code(&cause) == Some(true) => text.to_owned(),
        _ => cause,
    };
    own.into_iter().map(without_code).collect()
}

/// The lines of a signature that only quotes an error, apart by what is known of the errors: a process may fail for
/// another reason than the first. Lines of which nothing is known stay with the first ones.
fn by_reason<'a>(signature: &Signature, mut parts: Vec<Part<'a>>) -> Vec<Vec<Part<'a>>> {
    if !signature.fallback || parts.len() < 2 {
        return vec![parts];
    }
    parts.sort_by_key(|(_, seen, _)| seen.first);
    let mut groups = Vec::<(Option<&str>, Vec<Part<'a>>)>::new();
    for part in parts {
        let cause = crate::reasons::exact_cause(&shown(&part.1.sample));
        let is_same = |of: Option<&str>| of.is_none() || cause.is_none() || of == cause;
        match groups.iter_mut().find(|(of, _)| is_same(*of)) {
            Some((of, group)) => {
                *of = of.or(cause);
                group.push(part);
            }
            None => groups.push((cause, vec![part])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What a log shows beside the lines of a signature.
struct Context {
    tcpx_expected: bool,
    efa_expected: bool,
    several_nodes: bool,
    spans_nodes: bool,
    has_network: bool,
}

impl Context {
    fn has(&self, need: Need) -> bool {
        match need {
            Need::TcpxExpected => self.tcpx_expected,
            Need::EfaExpected => self.efa_expected,
            Need::SeveralNodes => self.several_nodes,
            Need::SpansNodes => self.spans_nodes,
            Need::NoNetwork => !self.has_network,
            // These are decided where all lines are known.
            Need::OtherFindings | Need::UnfinishedInit | Need::EndOfLog => true,
        }
    }
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
