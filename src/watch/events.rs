//! A run's event stream as updates, live or from its file.
#![forbid(unsafe_code)]

use crate::coord::event::{Event, What};
use crate::coord::message::{FromAgent, FromWorker, Loaded, TransferResult};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tcpx_run_model::record::live::{Line, LineKind, NodeNow, Title, Update};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::units::printable;

/// Keeps what one event needs of those before it.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    /// The command's start, nanoseconds since 1970.
    began_ns: Option<u64>,
    nodes: BTreeMap<String, NodeNow>,
    hosts: BTreeMap<String, String>,
    /// Recorders of the run's workers, by node.
    pub recorders: BTreeMap<String, PathBuf>,
    /// When the last event happened.
    pub last_ns: u64,
}

/// The view's title of a run of `scenario`.
pub(crate) fn title(scenario: &Scenario, started_ns: u64) -> Title {
    Title {
        name: scenario.slug(),
        started_ns,
        iterations: scenario.transfer.warmup + scenario.transfer.iterations,
        stall_after_ms: u64::try_from(Duration::from(scenario.limits.stall_after).as_millis()).unwrap_or(u64::MAX),
    }
}

impl Translator {
    /// With the names of the nodes' machines, where they are known.
    pub(crate) fn new(hosts: BTreeMap<String, String>) -> Self {
        Self { hosts, ..Self::default() }
    }

    /// What an event means to a view.
    pub(crate) fn take(&mut self, event: &Event, updates: &mut Vec<Update>) {
        match &event.what {
            What::Upload { .. } => return,
            What::Closely(seen) => return updates.extend(seen.iter().cloned()),
            _ => {}
        }
        let since_ns = (event.ms.max(0.0) * 1e6) as u64;
        let told = || event.at.parse::<jiff::Timestamp>().ok().and_then(|at| u64::try_from(at.as_nanosecond()).ok());
        let began_ns = *self.began_ns.get_or_insert_with(|| told().unwrap_or(0).saturating_sub(since_ns));
        let at_ns = began_ns.saturating_add(since_ns);
        self.last_ns = self.last_ns.max(at_ns);
        let node = event.gpu.map_or_else(|| event.node.clone(), |gpu| format!("{} gpu {gpu}", event.node));
        let line = |kind, text: &str| Update::Line(Line { node: node.clone(), at_ns, kind, text: printable(text) });
        let said = match &event.what {
            What::Said(said) => said,
            What::Note(text) => return updates.push(line(LineKind::Note, text)),
            What::Found(findings) => {
                return updates.push(Update::Findings(findings.iter().cloned().map(super::folder::cleaned).collect()));
            }
            What::Upload { .. } | What::Closely(_) => return,
        };
        match &**said {
            FromAgent::Sample(channels) | FromAgent::Stall(channels) => {
                if matches!(**said, FromAgent::Stall(_)) {
                    updates.push(line(LineKind::Note, "nothing changes any more"));
                }
                updates.push(Update::Sample { node, at_ns, channels: channels.clone() });
            }
            FromAgent::Recovered => updates.push(line(LineKind::Note, "it moves again")),
            FromAgent::PluginLine(plugin) => {
                let kind = if plugin.level == tcpx_abi::level::WARN { LineKind::Warning } else { LineKind::Plugin };
                updates.push(line(kind, &format!("{}:{} {}", plugin.function, plugin.line, plugin.text)));
            }
            FromAgent::Output { stream, text } => updates.push(line(LineKind::Output, &format!("{stream}: {text}"))),
            FromAgent::Exited(exit) => {
                if !exit.channels.is_empty() {
                    updates.push(Update::Sample { node: node.clone(), at_ns, channels: exit.channels.clone() });
                }
                let how = exit.how();
                updates.push(line(LineKind::Note, &format!("the worker {how}")));
                self.node(node, updates, |facts| facts.ended = Some(format!("the worker {how}")));
            }
            FromAgent::Broken(why) => updates.push(line(LineKind::Note, why)),
            FromAgent::Worker(message) => self.worker(node, at_ns, message, updates),
            FromAgent::Hello { .. }
            | FromAgent::Chosen(_)
            | FromAgent::Echo { .. }
            | FromAgent::Recording { .. }
            | FromAgent::Watched(_)
            | FromAgent::Frozen(_)
            | FromAgent::Heartbeat => {}
        }
    }

    fn worker(&mut self, node: String, at_ns: u64, message: &FromWorker, updates: &mut Vec<Update>) {
        match message {
            FromWorker::Phase(phase) => updates.push(Update::Phase { node, at_ns, phase: phase.to_string() }),
            FromWorker::Recorder(path) => {
                self.recorders.insert(node, path.clone());
            }
            FromWorker::Loaded(loaded) => self.node(node, updates, |facts| load(facts, loaded)),
            FromWorker::Iteration(iteration) => {
                let (bytes, wrong) = (iteration.verified_bytes, iteration.wrong_bytes);
                if bytes > 0 {
                    updates.push(Update::Verified { node: node.clone(), bytes, wrong });
                }
                updates.push(Update::Iterations { node, done: iteration.index.saturating_add(1) });
            }
            FromWorker::Transfer(result) => {
                let (bytes, wrong) = verified(result);
                updates.push(Update::Verified { node, bytes, wrong });
            }
            FromWorker::Failed(failure) => {
                let text = printable(&format!("{}: {}", failure.phase, failure.message));
                updates.push(Update::Line(Line { node, at_ns, kind: LineKind::Note, text }));
            }
            _ => {}
        }
    }

    fn node(&mut self, node: String, updates: &mut Vec<Update>, change: impl FnOnce(&mut NodeNow)) {
        let facts = self.nodes.entry(node.clone()).or_default();
        if facts.host.is_empty() {
            let end = node.split(' ').next().unwrap_or_default();
            facts.host = self.hosts.get(end).cloned().unwrap_or_default();
        }
        change(facts);
        updates.push(Update::Node { node, facts: facts.clone() });
    }
}

fn load(facts: &mut NodeNow, loaded: &Loaded) {
    let version = loaded.version.as_deref().unwrap_or("");
    facts.plugin = printable(&format!("{} v{} {version}", loaded.about.name, loaded.about.abi));
    facts.nics = loaded.devices.iter().map(|device| (device.index as i64, printable(&device.name))).collect();
}

fn verified(result: &TransferResult) -> (u64, u64) {
    let sum = |count: fn(&tcpx_words::payload::Tally) -> u64| {
        result.channels.iter().fold(0u64, |sum, one| sum.saturating_add(count(&one.tally)))
    };
    (sum(|tally| tally.verified_bytes), sum(|tally| tally.wrong_bytes))
}
