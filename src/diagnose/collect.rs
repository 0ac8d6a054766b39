//! Evidence as it comes in: from a run's events, live or from its file, or from
//! recorders that somebody watches.
//!
//! Counters are kept for a few looks, because how often a channel was tested
//! while it stood still is what tells most causes apart. What a node did after it
//! failed or ended is not taken in: it would hide why.
#![forbid(unsafe_code)]

use super::evidence::{At, Channel, Evidence, Line, Machine, Moved, Nic, Node, Stall, Watched};
use crate::coord::event::{Event, What};
use crate::coord::message::{FromAgent, FromWorker, Loaded, Phase, TransferResult};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;
use tcpx_logs::{Catalogue as Signatures, Phase as LogPhase, Severity as LineSeverity, Signature};
use tcpx_node::NodeFacts;
use tcpx_run_model::record::live::{LineKind, NodeNow, Update};
use tcpx_run_model::record::{ChannelNow, Frame, RunRecord};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::log::LogLine;
use tcpx_words::units::printable;

/// Kinds of lines that are kept of one node.
const LINES_MAX: usize = 64;
/// Letters of one line that are kept.
const LINE_CHARS_MAX: usize = 400;
/// Looks that are kept of one node, spread over the time that a stall takes.
const LOOKS: usize = 10;
const NODES_MAX: usize = 256;
const SETTINGS_MAX: usize = 512;
/// What is taken for a stall where nobody says.
const STALL_AFTER_MS: u64 = 3000;

/// Keeps what rules need of everything that is told.
pub struct Collector {
    evidence: Evidence,
    looks: BTreeMap<String, VecDeque<Look>>,
    nics: BTreeMap<String, BTreeMap<i64, String>>,
    framed: BTreeSet<String>,
    /// Of the first update, nanoseconds since 1970.
    began_ns: Option<u64>,
}

/// Counters of a node at one moment.
struct Look {
    at_ms: f64,
    channels: Vec<Counts>,
}

#[derive(Clone, Copy, PartialEq)]
struct Counts {
    /// All calls that have returned.
    calls: u64,
    tests: u64,
    null_requests: u64,
    in_call: bool,
}

impl Counts {
    fn of(one: &ChannelNow) -> Self {
        let calls = [one.posted, one.done, one.consumed, one.tests, one.rc_errors, one.null_requests];
        let (tests, null_requests) = (one.tests, one.null_requests);
        Self { calls: calls.iter().sum(), tests, null_requests, in_call: one.in_call.is_some() }
    }
}

impl Default for Collector {
    fn default() -> Self {
        let evidence = Evidence { stall_after_ms: STALL_AFTER_MS, ..Evidence::default() };
        Self { evidence, looks: BTreeMap::new(), nics: BTreeMap::new(), framed: BTreeSet::new(), began_ns: None }
    }
}

impl Collector {
    /// Of a run that does what `scenario` says.
    pub fn of_run(scenario: &Scenario) -> Self {
        let mut collector = Self::default();
        let after = Duration::from(scenario.limits.stall_after).as_millis();
        collector.evidence.stall_after_ms = u64::try_from(after).unwrap_or(u64::MAX);
        collector.evidence.scenario = Some(scenario.clone());
        collector
    }

    /// What is known by now.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// What is known by now, to be kept.
    pub fn into_evidence(self) -> Evidence {
        self.evidence
    }

    /// Something happened in a run.
    pub fn event(&mut self, event: &Event) {
        let What::Said(said) = &event.what else { return };
        self.evidence.now_ms = self.evidence.now_ms.max(event.ms);
        let name = event.gpu.map_or_else(|| event.node.clone(), |gpu| format!("{} gpu {gpu}", event.node));
        self.said(&name, event.ms, said);
    }

    fn said(&mut self, name: &str, at_ms: f64, said: &FromAgent) {
        match said {
            FromAgent::Sample(channels) => self.sample(name, at_ms, channels),
            FromAgent::Stall(channels) => {
                self.sample(name, at_ms, channels);
                self.evidence.stall.get_or_insert(Stall { at_ms, recovered: false }).recovered = false;
            }
            FromAgent::Recovered => self.recovered(),
            FromAgent::Frozen(frame) => self.frame(name, Some(at_ms), frame),
            FromAgent::PluginLine(line) => self.plugin_line(name, at_ms, line),
            FromAgent::Output { text, .. } => self.line(name, at_ms, text, false),
            FromAgent::Exited(exit) => {
                self.sample(name, at_ms, &exit.channels);
                let Some(node) = self.node(name) else { return };
                node.inside = exit.in_call.clone();
                node.exit = Some(At { at_ms, what: exit.clone() });
            }
            FromAgent::Worker(message) => self.worker(name, at_ms, message),
            _ => {}
        }
    }

    /// What was seen around a stall says nothing of what comes after it.
    fn recovered(&mut self) {
        if let Some(stall) = &mut self.evidence.stall {
            stall.recovered = true;
        }
        self.evidence.nodes.iter_mut().for_each(|node| node.frame = None);
    }

    fn worker(&mut self, name: &str, at_ms: f64, message: &FromWorker) {
        match message {
            FromWorker::Loaded(loaded) => self.loaded(name, loaded),
            FromWorker::Transfer(result) => self.transferred(name, at_ms, result),
            _ => {}
        }
        let Some(node) = self.node(name) else { return };
        match message {
            FromWorker::Phase(phase) => (node.phase, node.phase_ms) = (Some(*phase), at_ms),
            FromWorker::Iteration(iteration) => {
                node.verified = Some((iteration.verified_bytes, iteration.wrong_bytes));
            }
            FromWorker::Failed(failure) => {
                node.failure.get_or_insert(At { at_ms, what: failure.clone() });
            }
            FromWorker::Finished(log) => node.logged = Some(log.lines),
            _ => {}
        }
    }

    fn loaded(&mut self, name: &str, loaded: &Loaded) {
        let nics = loaded.devices.iter().map(|device| (device.index as i64, printable(&device.name)));
        self.nics.insert(name.to_owned(), nics.collect());
        if let Some(node) = self.node(name) {
            let version = loaded.version.as_deref().unwrap_or_default();
            node.plugin = Some(printable(format!("{} {version}", loaded.about.name).trim()));
        }
    }

    fn transferred(&mut self, name: &str, at_ms: f64, result: &TransferResult) {
        let counters: Option<Vec<ChannelNow>> = result.channels.iter().map(|one| one.counters.clone()).collect();
        self.sample(name, at_ms, &counters.unwrap_or_default());
        let Some(node) = self.node(name) else { return };
        let sum = |count: fn(&tcpx_words::payload::Tally) -> u64| {
            result.channels.iter().fold(0u64, |sum, one| sum.saturating_add(count(&one.tally)))
        };
        node.verified = Some((sum(|tally| tally.verified_bytes), sum(|tally| tally.wrong_bytes)));
        let first = result.channels.iter().find_map(|one| one.tally.first_mismatch.as_ref());
        node.mismatch = first.map(|wrong| {
            let (channel, chunk, kind) = (wrong.id.channel, wrong.id.chunk, wrong.kind);
            format!(
                "channel {channel} chunk {chunk}: {} bytes wrong from byte {}, {kind:?}",
                wrong.wrong_bytes, wrong.offset
            )
        });
    }

    /// A view was told something.
    pub fn update(&mut self, update: &Update) {
        match update {
            Update::Title(title) if title.stall_after_ms > 0 => self.evidence.stall_after_ms = title.stall_after_ms,
            Update::Sample { node, at_ns, channels } => {
                let at_ms = self.since(*at_ns);
                self.sample(node, at_ms, channels);
            }
            Update::Node { node, facts } => self.facts_now(node, facts),
            Update::Line(line) if line.kind != LineKind::Note => {
                let at_ms = self.since(line.at_ns);
                self.line(&line.node, at_ms, &line.text, line.kind == LineKind::Warning);
            }
            _ => {}
        }
    }

    fn since(&mut self, at_ns: u64) -> f64 {
        let began_ns = *self.began_ns.get_or_insert(at_ns);
        let at_ms = at_ns.saturating_sub(began_ns) as f64 / 1e6;
        self.evidence.now_ms = self.evidence.now_ms.max(at_ms);
        at_ms
    }

    fn facts_now(&mut self, name: &str, facts: &NodeNow) {
        self.nics.insert(name.to_owned(), facts.nics.clone());
        let Some(node) = self.node(name) else { return };
        node.plugin = Some(facts.plugin.clone()).filter(|plugin| !plugin.is_empty());
        node.inside.clone_from(&facts.inside);
    }

    /// Counters of a node that has not failed yet.
    fn sample(&mut self, name: &str, at_ms: f64, channels: &[ChannelNow]) {
        let (stall_after_ms, nics) = (self.evidence.stall_after_ms, self.nics.get(name).cloned().unwrap_or_default());
        if channels.is_empty() || self.node(name).is_none_or(|node| node.failure.is_some()) {
            return;
        }
        let looks = self.looks.entry(name.to_owned()).or_default();
        let watched: Vec<_> =
            channels.iter().enumerate().map(|(place, one)| watched(looks, place, one, at_ms)).collect();
        let apart = stall_after_ms as f64 / LOOKS as f64;
        if looks.back().is_none_or(|look| at_ms - look.at_ms >= apart) {
            looks.truncate(LOOKS);
            if looks.len() == LOOKS {
                looks.pop_front();
            }
            looks.push_back(Look { at_ms, channels: channels.iter().map(Counts::of).collect() });
        }
        let Some(node) = self.node(name) else { return };
        let moved = node.frame.is_some() && !same_counts(&node.channels, channels);
        node.sampled_ms = Some(at_ms);
        let channel = |(now, watched): (&ChannelNow, Option<Watched>)| Channel {
            nic: nics.get(&now.device).cloned().unwrap_or_default(),
            now: now.clone(),
            watched,
        };
        node.channels = channels.iter().zip(watched).map(channel).collect();
        if moved {
            self.recovered();
        }
    }

    fn plugin_line(&mut self, name: &str, at_ms: f64, line: &LogLine) {
        if line.text.contains("cudaDev ") && line.text.contains(" listen port ") {
            let number =
                line.text.split("cudaDev ").nth(1).and_then(|rest| rest.split([' ', ',']).next()?.parse().ok());
            if let (Some(node), Some(gpu)) = (self.node(name), number) {
                node.listened_on_gpus.insert(gpu);
            }
        }
        self.line(name, at_ms, &line.text, line.level == tcpx_abi::level::WARN);
    }

    fn line(&mut self, name: &str, at_ms: f64, text: &str, warns: bool) {
        let Some(signatures) = SIGNATURES.as_ref() else { return };
        let Some(node) = self.node(name) else { return };
        if let Some((label, value)) = setting(text)
            && node.settings.len() < SETTINGS_MAX
        {
            node.settings.insert(label, value);
        }
        let known = signatures.matches(text.as_bytes()).into_iter().next();
        let (signature, severity) = match known {
            Some(known) if is_benign(known, node.phase) => (Some(&known.name), LineSeverity::Benign),
            Some(known) => (Some(&known.name), known.severity),
            None if warns => (None, LineSeverity::Warning),
            None => return,
        };
        if let Some(line) = node.lines.iter_mut().find(|line| line.signature.as_ref() == signature) {
            (line.count, line.last_ms) = (line.count + 1, at_ms);
        } else if node.lines.len() < LINES_MAX {
            node.lines.push(Line {
                signature: signature.cloned(),
                severity,
                text: printable(text).chars().take(LINE_CHARS_MAX).collect(),
                count: 1,
                first_ms: at_ms,
                last_ms: at_ms,
                phase: node.phase,
            });
        }
    }

    /// Everything around a node at the moment of a stall; without a time it is
    /// only kept: its counters came some other way.
    pub fn frame(&mut self, name: &str, at_ms: Option<f64>, frame: &Frame) {
        if let Some(at_ms) = at_ms {
            self.sample(name, at_ms, &frame.channels);
            self.evidence.stall.get_or_insert(Stall { at_ms, recovered: false });
        }
        self.framed.insert(name.to_owned());
        if let Some(node) = self.node(name) {
            let is_of_now = node.channels.is_empty() || same_counts(&node.channels, &frame.channels);
            node.frame = is_of_now.then(|| Box::new(frame.clone()));
        }
    }

    /// Nodes around which everything was kept at some stall.
    pub fn framed(&self) -> impl Iterator<Item = &str> {
        self.framed.iter().map(String::as_str)
    }

    /// How a run ended, and what only its record has.
    pub fn record(&mut self, run: &RunRecord) {
        self.evidence.outcome = Some(run.outcome);
        for record in &run.nodes {
            let (env, facts) = (&record.env, record.facts.as_deref());
            let ends_here = |node: &&mut Node| node.name.split(' ').next() == Some(record.name.as_str());
            if self.evidence.nodes.iter().all(|node| node.name.split(' ').next() != Some(record.name.as_str())) {
                self.node(&record.name);
            }
            for node in self.evidence.nodes.iter_mut().filter(ends_here) {
                node.settings.extend(facts.iter().flat_map(|facts| facts.environment.clone()));
                node.settings.extend(env.clone());
                node.machine = facts.map(machine);
                node.logged = node.logged.or(record.log_lines.map(|(lines, _)| lines));
            }
        }
        self.evidence.moved = run
            .transfers
            .iter()
            .map(|one| Moved { from: one.from.clone(), to: one.to.clone(), bytes: one.bytes, seconds: one.seconds })
            .collect();
    }

    /// The node of that name, new if need be; none where there are too many.
    fn node(&mut self, name: &str) -> Option<&mut Node> {
        let nodes = &mut self.evidence.nodes;
        let place = match nodes.iter().position(|node| node.name == name) {
            Some(place) => place,
            None if nodes.len() == NODES_MAX => return None,
            None => {
                nodes.push(Node { name: name.to_owned(), ..Node::default() });
                nodes.len() - 1
            }
        };
        nodes.get_mut(place)
    }
}

/// Whether no request changed state between the two.
fn same_counts(before: &[Channel], after: &[ChannelNow]) -> bool {
    let counts = |one: &ChannelNow| [one.posted, one.done, one.consumed];
    before.iter().map(|one| counts(&one.now)).eq(after.iter().map(counts))
}

/// Signatures of log lines; the embedded ones are held against their tests.
static SIGNATURES: LazyLock<Option<Signatures>> = LazyLock::new(|| Signatures::embedded().ok());

/// What is seen of a channel over the time in which it has not changed, as far
/// back as looks were kept.
fn watched(looks: &VecDeque<Look>, place: usize, now: &ChannelNow, at_ms: f64) -> Option<Watched> {
    let since_ms = at_ms - now.quiet_ms as f64;
    let oldest = looks.iter().find(|look| look.at_ms >= since_ms && look.at_ms < at_ms)?;
    let (before, after) = (oldest.channels.get(place)?, Counts::of(now));
    Some(Watched {
        ms: at_ms - oldest.at_ms,
        tests: after.tests.saturating_sub(before.tests),
        null_requests: after.null_requests.saturating_sub(before.null_requests),
        in_one_call: before.in_call && after.in_call && before.calls == after.calls,
    })
}

/// `NET/GPUDirectTCPX : nthreads: 1`: what a plugin says of its settings at init.
fn setting(text: &str) -> Option<(String, String)> {
    let (label, value) = text.strip_prefix("NET/")?.split_once(" : ")?.1.rsplit_once(": ")?;
    value.parse::<i64>().ok()?;
    Some((printable(label), value.to_owned()))
}

/// A line that is no finding in the phase in which it came.
fn is_benign(signature: &Signature, phase: Option<Phase>) -> bool {
    let phase = match phase {
        Some(Phase::WarmUp | Phase::Measuring) | None => LogPhase::Transfer,
        Some(Phase::Closing | Phase::Finished) => LogPhase::Close,
        Some(_) => LogPhase::Setup,
    };
    signature.benign.contains(&phase)
}

fn machine(facts: &NodeFacts) -> Machine {
    let nic = |nic: &tcpx_node::Nic| Nic {
        name: nic.name.clone(),
        up: nic.is_up(),
        mbit_per_s: nic.speed.mbit_per_s(),
        pci_root: nic.pci_root.known().cloned(),
    };
    let gpus = facts.gpus.devices.known().map(Vec::as_slice).unwrap_or_default();
    Machine {
        host: Some(facts.host.clone()),
        nics: facts.nics.known().map(|nics| nics.iter().map(nic).collect()).unwrap_or_default(),
        gpu_roots: gpus.iter().map(|gpu| gpu.pci_root.known().cloned()).collect(),
    }
}
