//! A result that can be compared, whichever tool measured it.
#![forbid(unsafe_code)]

use super::harness;
use super::statistics::quartiles;
use crate::story::{Story, StoryMesh, StoryState, StoryWorker};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_node::redact::Redactor;
use tcpx_run_model::ids::{Names, NodeId};
use tcpx_run_model::record::{KvRecord, Sums, TransferRecord};
use tcpx_run_model::results::Driving;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::side::Side;

/// Maximum samples of one metric.
const SAMPLES_MAX: usize = 100_000;

/// Findings of a mesh that are compared.
const FINDINGS_MAX: usize = 8;

/// The settings and metrics of one result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Run id, baseline name, profile name or file name.
    pub name: String,
    /// `tcpxctl`, `nccl-tests`, `iperf3`, `neper`, `harness` or `profile`.
    pub tool: String,
    /// Time of the run, path of the file, or source of the profile, in words.
    pub source: String,
    /// Settings by name.
    pub settings: BTreeMap<String, String>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, Metric>,
    /// The nodes that took part, if a file of another tool names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The rate of each node, if the tool tells one, 10^9 bytes per second.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_node: BTreeMap<String, f64>,
}

/// A run whose record cannot be read, so that it has no metrics to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{run}: {why}")]
pub struct UnreadRun {
    run: String,
    why: String,
    next_step: Option<String>,
}

impl NextStep for UnreadRun {
    fn next_step(&self) -> Option<String> {
        self.next_step.clone()
    }
}

/// Whether a metric is better when it is higher or lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Higher is better, as for a rate.
    Higher,
    /// Lower is better, as for a latency or an error count.
    Lower,
}

/// The samples of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Unit of the samples.
    pub unit: String,
    /// Whether higher or lower samples are better.
    pub better: Better,
    /// Whether a comparison fails if this metric gets worse.
    pub gates: bool,
    /// One sample for each iteration or channel; a single one if only one figure is known.
    pub samples: Vec<f64>,
}

impl Metric {
    fn new(
        unit: &str,
        better: Better,
        gates: bool,
        samples: impl IntoIterator<Item = f64>,
    ) -> Self {
        let samples = samples
            .into_iter()
            .filter(|sample| sample.is_finite())
            .take(SAMPLES_MAX)
            .collect();
        Self {
            unit: unit.to_owned(),
            better,
            gates,
            samples,
        }
    }

    /// The median of the samples; `None` without samples.
    pub fn median(&self) -> Option<f64> {
        quartiles(&self.samples).map(|[median, ..]| median)
    }

    /// A gating metric in 10^9 bytes per second.
    pub(crate) fn rate(samples: impl IntoIterator<Item = f64>) -> Self {
        Self::new("GB/s", Better::Higher, true, samples)
    }
}

impl Measured {
    /// Adds a metric, unless it has no samples.
    pub(crate) fn metric(&mut self, name: impl Into<String>, metric: Metric) {
        if !metric.samples.is_empty() {
            self.metrics.insert(name.into(), metric);
        }
    }

    /// The result with names, addresses and secrets replaced. Metric names are not redacted.
    #[must_use]
    pub(crate) fn redacted(self, redactor: &mut Redactor) -> Self {
        Self {
            name: redactor.redact(&self.name),
            source: redactor.redact(&self.source),
            nodes: self
                .nodes
                .iter()
                .map(|node| redactor.redact(node))
                .collect(),
            by_node: self
                .by_node
                .iter()
                .map(|(node, rate)| (redactor.redact(node), *rate))
                .collect(),
            settings: self
                .settings
                .iter()
                .map(|(name, value)| setting(redactor, name, value))
                .collect(),
            ..self
        }
    }

    /// The result of a run. If the run has only one direction, its rate is named `rate`, as in
    /// the results of other tools.
    ///
    /// # Errors
    /// The run's record has a version that this program does not know.
    pub fn of_run(story: &Story) -> Result<Self, UnreadRun> {
        if story.state == StoryState::OtherVersion {
            let why = story.reason.clone().unwrap_or_default();
            return Err(UnreadRun {
                run: story.id.clone(),
                why,
                next_step: story.next_step.clone(),
            });
        }
        let mut measured = Self {
            name: story.id.clone(),
            tool: "tcpxctl".to_owned(),
            source: story
                .started
                .clone()
                .unwrap_or_else(|| "started at an unknown time".to_owned()),
            settings: settings(story),
            ..Self::default()
        };
        if let Some(outcome) = &story.outcome {
            let passed = f64::from(u8::from(*outcome == Outcome::Passed));
            measured.metric(
                "passed",
                Metric::new("1 or 0", Better::Higher, true, [passed]),
            );
        }
        if story.transfers.is_empty() && !story.harness_results().is_empty() {
            let of_logs = harness::of_results(story.harness_results());
            measured.tool = of_logs.tool;
            measured.settings.extend(of_logs.settings);
            measured.metrics.extend(of_logs.metrics);
        }
        if let Some(mesh) = &story.mesh {
            measured.add_mesh(mesh);
            return Ok(measured);
        }
        for transfer in &story.transfers {
            let suffix = match story.transfers.len() {
                1 => String::new(),
                _ => format!(" {}", transfer.direction),
            };
            measured.add_transfer(&transfer.record, &suffix);
        }
        for (_, worker) in story.workers() {
            let driving = worker.driving.as_ref();
            let cost = driving.and_then(Driving::cpu_per_gb);
            let kinds = [
                ("", cost.map(|(driving, other)| driving + other)),
                (", driving", cost.map(|(driving, _)| driving)),
                (
                    ", of which verify",
                    driving.and_then(Driving::verify_per_gb),
                ),
                (", other threads", cost.map(|(_, other)| other)),
            ];
            for (kind, cost) in kinds {
                // What a transfer costs depends on the other work of the machine, so it does not gate.
                measured.metric(
                    format!("CPU of {}{kind}", worker.name),
                    Metric::new("CPU s/GB", Better::Lower, false, cost),
                );
            }
        }
        if let Some(sums) = story.sums.as_ref().filter(|sums| sums.transfers > 1) {
            measured.add_sums(sums, &story.names());
        }
        Ok(measured)
    }

    /// Adds the rates of a mesh, by rail; each direction is a sample.
    fn add_mesh(&mut self, mesh: &StoryMesh) {
        for (number, rail) in (0..).zip(&mesh.rails) {
            let of_rail = || mesh.cells.iter().filter(move |one| one.rail == number);
            let rates = of_rail().filter_map(|one| one.gb_per_s);
            self.metric(format!("rate over {rail}"), Metric::rate(rates));
            let failed = of_rail().filter(|one| one.gb_per_s.is_none()).count();
            let failed = Metric::new("directions", Better::Lower, true, [failed as f64]);
            self.metric(format!("failed over {rail}"), failed);
        }
        let at_fault = mesh.nodes_at_fault.len() as f64;
        self.metric(
            "nodes at fault",
            Metric::new("nodes", Better::Lower, true, [at_fault]),
        );
        for (number, one) in (1..).zip(&mesh.findings).take(FINDINGS_MAX) {
            let said = format!("{}: {}", one.standing, one.sentence);
            self.settings.insert(format!("mesh finding {number}"), said);
        }
    }

    /// Adds the rates of nodes and interfaces over the interval that all transfers measured in.
    fn add_sums(&mut self, sums: &Sums, names: &Names) {
        self.metric("rate of all", Metric::rate([sums.gb_per_s]));
        for node in &sums.nodes {
            let name = names.node(node.node);
            self.metric(format!("rate of {name}"), Metric::rate(node.rates.faster()));
        }
        // A NIC's limit is one of each direction. Connections of several transfers share it, so the
        // rate of a transfer tells nothing about it.
        let nics = sums.nodes.iter().flat_map(|node| &node.nics);
        self.metric(
            "rate per NIC",
            Metric::rate(nics.filter_map(|one| one.rates.faster())),
        );
    }

    /// Adds the metrics of one direction; `suffix` ends their names.
    fn add_transfer(&mut self, transfer: &TransferRecord, suffix: &str) {
        let per_iteration = transfer.bytes as f64 / f64::from(transfer.iterations.max(1));
        let times = transfer
            .iteration_seconds
            .iter()
            .filter(|seconds| **seconds > 0.0);
        let rates: Vec<f64> = times.map(|seconds| per_iteration / seconds / 1e9).collect();
        let nics: BTreeSet<&str> = transfer
            .channels
            .iter()
            .map(|channel| channel.dev.as_str())
            .collect();
        let nics = nics.len().max(1) as f64;
        self.metric(
            format!("rate per NIC{suffix}"),
            Metric::rate(rates.iter().map(|rate| rate / nics)),
        );
        self.metric(format!("rate{suffix}"), Metric::rate(rates));
        let us = |gates, samples: Vec<f64>| Metric::new("µs", Better::Lower, gates, samples);
        for (side, name) in [(Side::Send, "send"), (Side::Recv, "recv")] {
            let of_side = transfer
                .channels
                .iter()
                .filter(|channel| channel.side == side);
            let latencies: Vec<_> = of_side.filter_map(|channel| channel.latency_us).collect();
            self.metric(
                format!("{name} p50{suffix}"),
                us(true, latencies.iter().map(|one| one.p50).collect()),
            );
            self.metric(
                format!("{name} p99{suffix}"),
                us(true, latencies.iter().map(|one| one.p99).collect()),
            );
        }
        let round = transfer.round_trip_us;
        self.metric(
            format!("round trip p50{suffix}"),
            us(true, round.iter().map(|one| one.p50).collect()),
        );
        self.metric(
            format!("round trip p99{suffix}"),
            us(true, round.iter().map(|one| one.p99).collect()),
        );
        self.add_kv(transfer.kv.as_deref(), suffix);
        // The first iteration includes loading and connecting, so it is shown but does not gate.
        let first = transfer
            .first_iteration_seconds
            .map(|seconds| seconds * 1e6);
        self.metric(
            format!("first iteration{suffix}"),
            us(false, first.into_iter().collect()),
        );
        let wrong = Metric::new("bytes", Better::Lower, true, [transfer.wrong_bytes as f64]);
        self.metric(format!("wrong{suffix}"), wrong);
    }
}

impl Measured {
    /// Adds the latencies and the goodput of KV-cache traffic. Quantiles are of all requests, so each
    /// is one sample.
    fn add_kv(&mut self, kv: Option<&KvRecord>, suffix: &str) {
        let Some(kv) = kv else { return };
        self.metric(
            format!("goodput{suffix}"),
            Metric::rate([kv.goodput_gb_per_s]),
        );
        for (what, times) in [
            ("request", &kv.times.requests),
            ("batch", &kv.times.batches),
        ] {
            let Some(us) = times.us else { continue };
            for (name, value, count_min) in [
                ("p50", us.p50, 1),
                ("p99", us.p99, 100),
                ("p99.9", us.p999, 1000),
            ] {
                // With fewer times, a quantile is the longest one, which is mostly luck.
                let gates = times.count >= count_min;
                let metric = Metric::new("µs", Better::Lower, gates, [value]);
                self.metric(format!("{what} {name}{suffix}"), metric);
            }
        }
    }
}

/// A setting, redacted. The first word of `NAME of peer` is the variable's name.
pub(super) fn setting(redactor: &mut Redactor, name: &str, value: &str) -> (String, String) {
    let key = name.split(' ').next().unwrap_or(name);
    let value = redactor.redact_pair(key, value);
    (redactor.redact(name), value)
}

fn settings(story: &Story) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = story.transfer.iter().cloned().collect();
    settings.insert("scenario".to_owned(), story.scenario.clone());
    for (id, node) in (0..).zip(&story.nodes) {
        let workers: Vec<(&str, &StoryWorker)> = story
            .workers()
            .filter(|(worker, _)| worker.node == NodeId(id))
            .map(|(_, worker)| (worker.name.as_str(), worker))
            .collect();
        let mut set = |name: &str, pick: &dyn Fn(&StoryWorker) -> Option<String>| {
            let values: Vec<Option<String>> =
                workers.iter().map(|(_, worker)| pick(worker)).collect();
            // One setting for the node if its workers agree, otherwise one for each worker.
            let is_same = values.windows(2).all(|two| two[0] == two[1]);
            let whose = workers
                .iter()
                .map(|(worker, _)| if is_same { node.name.as_str() } else { worker });
            let known = whose
                .zip(values)
                .filter_map(|(whose, value)| Some((format!("{name} of {whose}"), value?)));
            settings.extend(known);
        };
        set("plugin", &|worker| {
            let plugin = worker.plugin.as_ref()?;
            Some(format!(
                "{}, {}",
                plugin.name,
                plugin.version.as_deref().unwrap_or("version not logged")
            ))
        });
        set("plugin sha256", &|worker| {
            Some(worker.plugin.as_ref()?.sha256.clone())
        });
        let names: BTreeSet<&String> = workers
            .iter()
            .flat_map(|(_, worker)| worker.env.keys())
            .collect();
        names
            .into_iter()
            .for_each(|name| set(name, &|worker| worker.env.get(name).cloned()));
    }
    settings
}
