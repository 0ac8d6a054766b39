//! What the plugin and the workers printed, read as `tcpxctl logs` reads files:
//! settings, known lines with their counts, and WARN lines that nobody knows.
#![forbid(unsafe_code)]

use super::record::rank;
use super::stream::{Stream, end_name};
use crate::coord::event::What;
use crate::coord::message::FromAgent;
use crate::report::story::{Excerpt, LogFinding, Setting, Story};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tcpx_logs::{Catalogue, CatalogueError, Filter, Reader, Report};
use tcpx_words::units::printable;

/// Bytes of one node's lines that are read.
const BYTES_MAX: usize = 16 << 20;
/// Kinds of lines that are shown.
const KINDS_MAX: usize = 64;

pub(super) fn tell(stream: &Stream, story: &mut Story) {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for event in &stream.events {
        let What::Said(said) = &event.what else { continue };
        let line = match &**said {
            // As a program prints them that hands the plugin a logger of its own.
            FromAgent::PluginLine(line) => {
                format!(
                    "{} [ncclNet:{}] {}:{} {}\n",
                    event.at,
                    line.level,
                    line.function,
                    line.line,
                    printable(&line.text)
                )
            }
            FromAgent::Output { text, .. } => format!("{} {}\n", event.at, printable(text)),
            _ => continue,
        };
        let of = lines.entry(end_name(event)).or_default();
        if of.len() + line.len() < BYTES_MAX {
            of.push_str(&line);
        }
    }
    // Making the search takes longer than most runs have lines for.
    static CATALOGUE: LazyLock<Result<Catalogue, CatalogueError>> = LazyLock::new(Catalogue::embedded);
    let catalogue = match &*CATALOGUE {
        Ok(catalogue) => catalogue,
        Err(error) => return story.lacks("what log lines mean", error.to_string()),
    };
    if lines.is_empty() {
        story.lacks("plugin log", "no line of a plugin or a worker was recorded");
    }
    let filter = Filter::default();
    let mut settings: BTreeMap<String, Setting> = BTreeMap::new();
    for (node, text) in &lines {
        let mut reader = Reader::new(catalogue, &filter);
        reader.stream(node, text.as_bytes());
        take(node, &reader.report(), story, &mut settings);
    }
    story.settings = beside_the_environment(settings, story);
    story.log.sort_by_key(|one| (rank(&one.severity), std::cmp::Reverse(one.count)));
    story.log.truncate(KINDS_MAX);
    story.unknown_lines.truncate(KINDS_MAX);
}

fn take(node: &str, report: &Report, story: &mut Story, settings: &mut BTreeMap<String, Setting>) {
    for found in &report.findings {
        story.log.push(LogFinding {
            signature: found.signature.clone(),
            severity: found.severity.name().to_owned(),
            count: found.count,
            meaning: found.meaning.clone(),
            causes: found.causes.clone(),
            next_step: found.next_step.clone(),
            excerpt: Excerpt {
                node: node.to_owned(),
                at: found.first.at.clone(),
                count: found.count,
                text: found.sample.clone(),
            },
            last_at: found.last.at.clone(),
        });
    }
    for line in &report.unknown {
        let (at, text) = (line.first.at.clone(), line.sample.clone());
        story.unknown_lines.push(Excerpt { node: node.to_owned(), at, count: line.count, text });
    }
    for setting in &report.settings {
        let row = settings.entry(setting.key.clone()).or_insert_with(|| empty(&setting.key));
        row.effective.insert(node.to_owned(), setting.value.clone());
    }
}

fn empty(key: &str) -> Setting {
    Setting { key: key.to_owned(), effective: BTreeMap::new(), environment: BTreeMap::new(), differs: false }
}

/// What is known of a variable on either side in one row. The plugin's label of a
/// setting is the variable's end, in its own case.
fn beside_the_environment(mut settings: BTreeMap<String, Setting>, story: &Story) -> Vec<Setting> {
    for node in &story.nodes {
        for (name, value) in node.node_env.iter().chain(&node.env) {
            let key = settings.keys().find(|label| means(label, name)).cloned().unwrap_or_else(|| name.clone());
            let row = settings.entry(key.clone()).or_insert_with(|| empty(&key));
            row.environment.insert(node.name.clone(), value.clone());
        }
    }
    for row in settings.values_mut() {
        let given = |end: &str| row.environment.get(end.split(' ').next().unwrap_or_default());
        let differs = |(end, taken): (&String, &String)| given(end).is_some_and(|given| given != taken);
        let values: std::collections::BTreeSet<&String> = row.effective.values().collect();
        row.differs = row.effective.iter().any(differs) || values.len() > 1;
    }
    settings.into_values().collect()
}

/// `NCCL_GPUDIRECTTCPX_TX_BINDINGS` and `tx bindings`.
fn means(label: &str, variable: &str) -> bool {
    let plain = |text: &str| {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect::<String>()
    };
    let (label, variable) = (plain(label), plain(variable));
    label.len() > 3
        && (variable == label
            || variable
                .strip_prefix("nccl")
                .is_some_and(|rest| rest == label || rest.strip_prefix("gpudirecttcpx") == Some(&label)))
}

#[cfg(test)]
mod tests {
    use super::means;

    #[test]
    fn a_label_and_its_variable_are_one_setting() {
        assert!(means("NSOCKS_PERTHREAD", "NCCL_NSOCKS_PERTHREAD"));
        assert!(means("tx_bindings", "NCCL_GPUDIRECTTCPX_TX_BINDINGS"));
        assert!(!means("TX_BINDINGS", "NCCL_GPUDIRECTTCPX_RX_BINDINGS"));
        assert!(!means("port", "UCCL_TCPX_PORT"));
    }
}
