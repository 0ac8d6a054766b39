//! The log lines of the plugin and the workers, read as `tcpxctl logs` reads files: settings,
//! lines that match a signature, and WARN lines that match none.
#![forbid(unsafe_code)]

use super::programs;
use crate::story::{LogExcerpt, LogFinding, PluginSetting, Story, StoryState, StoryWorker};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::LazyLock;
use tcpx_logs::{
    HarnessReport, LinePlace, LogFilter, LogReader, LogReport, SignatureCatalogue,
    SignatureCatalogueError, SignatureFinding, UNKNOWN_WARNING,
};
use tcpx_run_model::adopt::LOGS;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Names, NodeId, PairId, WorkerId};
use tcpx_run_model::record::RunFiles;
use tcpx_run_model::state::{KeptLine, LineSource, RunState, WorkerState};
use tcpx_words::units::printable;

/// Maximum size of one worker's log.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of signatures, and of unknown lines, in a report.
const KINDS_MAX: usize = 64;

/// The signatures, made once: building the search takes longer than searching the lines of most runs.
pub(in super::super) fn catalogue()
-> Result<&'static SignatureCatalogue, &'static SignatureCatalogueError> {
    static CATALOGUE: LazyLock<Result<SignatureCatalogue, SignatureCatalogueError>> =
        LazyLock::new(SignatureCatalogue::embedded);
    CATALOGUE.as_ref()
}

pub(super) fn add_log(files: &RunFiles, state: &RunState, story: &mut Story) {
    let catalogue = match catalogue() {
        Ok(catalogue) => catalogue,
        Err(error) => return story.lacks("meaning of log lines", error.to_string()),
    };
    let logs = log_names(files);
    let mut workers = state.workers.values();
    if logs.is_empty() && workers.all(|worker| worker.lines().is_empty()) {
        story.lacks(
            "plugin log",
            "no line of the plugin or a worker was recorded",
        );
    }
    let filter = LogFilter::default();
    let mut settings = Settings::default();
    let mut log = Vec::new();
    for (id, worker) in &state.workers {
        let subject = Subject::worker(*id, &state.names);
        let mut reader = LogReader::new(catalogue, &filter);
        reader.stream(&subject.name, text(worker, state).as_bytes());
        let report = reader.report();
        take(&report, &mut log, story, |_| subject.clone());
        for setting in report.settings {
            settings
                .entry(setting.key)
                .or_default()
                .effective
                .insert(*id, setting.value);
        }
    }
    // The workers' lines have the times of one clock; the files are in the order of their reader.
    log.sort_by(|(_, a), (_, b)| a.excerpt.at.cmp(&b.excerpt.at));
    let report = read_logs(files, &logs, catalogue, |name, error| {
        story.damaged(name, error.to_string());
    });
    take(&report, &mut log, story, subject_at);
    story.logged_hosts.clone_from(&report.hosts);
    log.sort_by_key(|(order, _)| *order);
    let judged = story.findings.first().cloned();
    let of_log = programs::findings_of_log(&report);
    let versions = report.transport.versions.keys();
    story.logged_plugins = versions.map(|one| format!("TCPX {one}")).collect();
    if story.logged_plugins.is_empty() {
        let network = network(report.transport.verdict);
        story.logged_plugins.extend(network.map(str::to_owned));
    }
    programs::add_programs(report.harness, story);
    if story.state == StoryState::Adopted {
        story.findings.extend(of_log);
        story.findings.sort_by_key(|finding| finding.severity);
    }
    programs::head(judged.as_ref(), story);
    story.log = log.into_iter().map(|(_, found)| found).collect();
    story.settings = beside_the_environment(settings, &state.names, story);
    story.log.truncate(KINDS_MAX);
    story.unknown_lines.truncate(KINDS_MAX);
}

/// The network of a verdict on logs, in this program's own words; `None` if they name none, or several.
fn network(verdict: &str) -> Option<&'static str> {
    Some(match verdict {
        "tcpx" => "TCPX",
        "tcpxo" => "TCPXO",
        "socket" => "sockets",
        "fastsocket" => "FastSocket",
        "ib" => "InfiniBand or RoCE",
        "ofi" => "libfabric",
        "within-node" => "peer access or shared memory",
        _ => return None,
    })
}

/// The logs in a run folder that no worker wrote.
fn log_names(files: &RunFiles) -> Vec<String> {
    let names = files.names().into_iter();
    names.filter(|name| name.starts_with(LOGS)).collect()
}

/// Reads them with one reader, because what failed first may stand in another file.
fn read_logs(
    files: &RunFiles,
    names: &[String],
    catalogue: &SignatureCatalogue,
    mut unread: impl FnMut(&str, &io::Error),
) -> LogReport {
    let filter = LogFilter::default();
    let mut reader = LogReader::new(catalogue, &filter);
    for name in names {
        match files.file(name) {
            Ok(file) => reader.stream(name, file),
            Err(error) => unread(name, &error),
        }
    }
    reader.report()
}

/// The programs that drive the plugin themselves, in the logs of a run folder.
pub(in super::super) fn harness(files: &RunFiles) -> Option<HarnessReport> {
    let names = log_names(files);
    read_logs(files, &names, catalogue().ok()?, |_, _| {}).harness
}

/// A worker's lines with their times, in the form that programs with their own plugin logger
/// print. The record keeps repeated lines as a count, so the first of a kind is placed at its
/// first time and the others at its last.
fn text(worker: &WorkerState, state: &RunState) -> String {
    let mut places: Vec<(f64, u64, &KeptLine)> = Vec::new();
    for line in worker.lines() {
        places.push((line.first_ms, 1, line));
        places.push((line.last_ms, line.count.saturating_sub(1), line));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = String::new();
    for (ms, count, line) in places {
        let at = i128::from(state.at_ns(ms));
        let at = jiff::Timestamp::from_nanosecond(at)
            .map(|at| format!("{at:.3}"))
            .unwrap_or_default();
        let text = printable(&line.text);
        let shown = match &line.source {
            LineSource::Plugin {
                level,
                function,
                line,
                ..
            } => {
                format!("{at} [ncclNet:{level}] {function}:{line} {text}\n")
            }
            LineSource::Output(_) => format!("{at} {text}\n"),
        };
        for _ in 0..count {
            if all.len() + shown.len() >= BYTES_MAX {
                return all;
            }
            all.push_str(&shown);
        }
    }
    all
}

/// The place of a line in a log that no worker wrote.
pub(super) fn subject_at(place: &LinePlace) -> Subject {
    Subject {
        node: NodeId(0),
        pair: None,
        pid: None,
        name: format!("{}:{}", place.file, place.line),
    }
}

/// Findings with their place in the order of the report.
type Ordered = Vec<(u8, LogFinding)>;

/// Lines of a program are covered by the verdict on it.
const COVERED: u8 = 4;

/// Adds the findings of a log to `log`; `subject` names the place of a line.
fn take(
    report: &LogReport,
    log: &mut Ordered,
    story: &mut Story,
    subject: impl Fn(&LinePlace) -> Subject,
) {
    let explained = |found: &&SignatureFinding| found.signature != UNKNOWN_WARNING;
    for found in report.findings.iter().filter(explained) {
        let (at, text) = (found.first.at.clone(), found.sample.clone());
        let order = match report.is_in_verdict(found) {
            true => COVERED,
            false => found.order(),
        };
        let found = LogFinding {
            signature: found.signature.clone(),
            severity: found.severity,
            count: found.count,
            meaning: found.meaning.clone(),
            causes: found.causes.clone(),
            next_step: found.next_step.clone(),
            excerpt: LogExcerpt {
                worker: subject(&found.first),
                at,
                count: found.count,
                text,
            },
            last_at: found.last.at.clone(),
        };
        log.push((order, found));
    }
    for line in &report.unknown {
        let (at, text) = (line.first.at.clone(), line.sample.clone());
        story.unknown_lines.push(LogExcerpt {
            worker: subject(&line.first),
            at,
            count: line.count,
            text,
        });
    }
    story
        .unknown_lines
        .extend(report.stated.iter().map(|line| LogExcerpt {
            worker: subject(&line.place),
            at: line.place.at.clone(),
            count: 1,
            text: line.sample.clone(),
        }));
}

/// The values of each setting, by the plugin's label or by the name of the variable.
type Settings = BTreeMap<String, SettingValues>;

#[derive(Default)]
struct SettingValues {
    /// The value that the plugin logged.
    effective: BTreeMap<WorkerId, String>,
    /// The value in the node's environment.
    of_node: BTreeMap<NodeId, String>,
    /// The value that the worker was given on top of its node's environment.
    of_worker: BTreeMap<WorkerId, String>,
}

impl SettingValues {
    /// The value in a worker's environment.
    fn given(&self, worker: WorkerId) -> Option<&String> {
        self.of_worker
            .get(&worker)
            .or_else(|| self.of_node.get(&worker.node))
    }
}

/// Joins the settings that the plugin logged with the variables of the environment. The
/// plugin's label for a setting is the end of the variable's name, in any case.
fn beside_the_environment(
    mut settings: Settings,
    names: &Names,
    story: &Story,
) -> Vec<PluginSetting> {
    // Each name is matched once, because many workers have the same few variables.
    let mut keys: BTreeMap<&str, String> = BTreeMap::new();
    let of_nodes = story.nodes.iter().flat_map(|node| node.env.keys());
    for name in of_nodes.chain(story.workers().flat_map(|(_, worker)| worker.env.keys())) {
        let label = || {
            settings
                .keys()
                .find(|label| means(label, name))
                .unwrap_or(name)
                .clone()
        };
        keys.entry(name).or_insert_with(label);
    }
    for (id, node) in (0..).zip(&story.nodes) {
        for (name, value) in &node.env {
            settings
                .entry(keys[name.as_str()].clone())
                .or_default()
                .of_node
                .insert(NodeId(id), value.clone());
        }
    }
    for (id, worker) in story.workers() {
        for (name, value) in &worker.env {
            settings
                .entry(keys[name.as_str()].clone())
                .or_default()
                .of_worker
                .insert(id, value.clone());
        }
    }
    let workers: BTreeMap<WorkerId, &StoryWorker> = story.workers().collect();
    settings
        .into_iter()
        .map(|(key, known)| setting(key, &known, &workers, names, story))
        .collect()
}

fn setting(
    key: String,
    known: &SettingValues,
    workers: &BTreeMap<WorkerId, &StoryWorker>,
    names: &Names,
    story: &Story,
) -> PluginSetting {
    let mut environment = BTreeMap::new();
    for (id, node) in (0..).zip(&story.nodes) {
        // Worker ids are ordered by node first.
        let all = WorkerId::of_pair(NodeId(id), PairId(0))
            ..=WorkerId::of_pair(NodeId(id), PairId(u32::MAX));
        let here = || workers.range(all.clone());
        let given: BTreeSet<Option<&String>> =
            here().map(|(worker, _)| known.given(*worker)).collect();
        match (given.len(), known.of_node.get(&NodeId(id))) {
            (0, value) => environment.extend(value.map(|value| (node.name.clone(), value.clone()))),
            (1, _) => {
                let value = given.into_iter().flatten().next();
                environment.extend(value.map(|value| (node.name.clone(), value.clone())));
            }
            (_, _) => {
                let each = |(id, worker): (&WorkerId, &&StoryWorker)| {
                    Some((worker.name.clone(), known.given(*id)?.clone()))
                };
                environment.extend(here().filter_map(each));
            }
        }
    }
    let named = |(id, value): (&WorkerId, &String)| (names.worker(*id), value.clone());
    let effective = known.effective.iter().map(named);
    let taken: BTreeSet<&String> = known.effective.values().collect();
    let is_other =
        |(id, taken): (&WorkerId, &String)| known.given(*id).is_some_and(|given| given != taken);
    let differs = known.effective.iter().any(is_other) || taken.len() > 1;
    PluginSetting {
        key,
        effective: effective.collect(),
        environment,
        differs,
    }
}

/// Whether a label such as `tx bindings` names a variable such as
/// `NCCL_GPUDIRECTTCPX_TX_BINDINGS`.
fn means(label: &str, variable: &str) -> bool {
    let plain = |text: &str| {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect::<String>()
    };
    let (label, variable) = (plain(label), plain(variable));
    label.len() > 3
        && (variable == label
            || variable.strip_prefix("nccl").is_some_and(|rest| {
                rest == label || rest.strip_prefix("gpudirecttcpx") == Some(&label)
            }))
}

#[cfg(test)]
mod tests {
    use super::means;

    #[test]
    fn a_label_matches_the_variable_that_it_abbreviates() {
        assert!(means("NSOCKS_PERTHREAD", "NCCL_NSOCKS_PERTHREAD"));
        assert!(means("tx_bindings", "NCCL_GPUDIRECTTCPX_TX_BINDINGS"));
        assert!(!means("TX_BINDINGS", "NCCL_GPUDIRECTTCPX_RX_BINDINGS"));
        assert!(!means("port", "UCCL_TCPX_PORT"));
    }
}
