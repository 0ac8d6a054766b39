//! The part of a `run.json` that a list of runs shows. Everything else is skipped while parsing,
//! because there may be thousands of runs.
#![forbid(unsafe_code)]

use super::RecordError;
use super::model::known_version;
use crate::event::node_of_v1;
use crate::finding::Severity;
use crate::ids::{Lane, Names, NodeId, NodeIntro, shown_names};
use serde::Deserialize;
use tcpx_words::error::Outcome;

/// Summary of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunBrief {
    /// When it started: RFC 3339 UTC.
    pub started: String,
    /// Name of the scenario.
    pub scenario: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Exit code of the command.
    pub exit_code: Option<u8>,
    /// Whether the run could not write a part of its record.
    pub is_incomplete: bool,
    /// Transfers, one per direction.
    pub transfers: Vec<BriefTransfer>,
    /// Rate of all transfers over the interval that they measured in together, if there is one.
    pub all_gb_per_s: Option<f64>,
    /// The parts of a mesh that are slow or dead, one sentence each.
    pub mesh: Vec<String>,
    /// Conditions that were found, with their severity.
    pub findings: Vec<(String, Severity)>,
}

/// Summary of one direction of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BriefTransfer {
    /// `local->peer`, and `local->peer@gpu3` for one GPU.
    pub direction: String,
    /// Measured iterations that completed.
    pub iterations: u32,
    /// Median rate of the measured iterations, 10^9 bytes per second.
    pub median_gb_per_s: f64,
    /// Bytes that differed from the pattern.
    pub wrong_bytes: u64,
}

#[derive(Deserialize)]
struct Record {
    schema: Option<String>,
    #[serde(default)]
    started: String,
    outcome: Outcome,
    #[serde(default)]
    exit_code: Option<u8>,
    #[serde(default)]
    unwritten: Option<serde::de::IgnoredAny>,
    scenario: Named,
    #[serde(default)]
    nodes: Vec<Named>,
    #[serde(default)]
    transfers: Vec<Transfer>,
    #[serde(default)]
    sums: Option<AllRate>,
    #[serde(default)]
    mesh: Option<Mesh>,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Mesh {
    attribution: Option<Attribution>,
}

#[derive(Deserialize)]
struct Attribution {
    findings: Vec<Words>,
}

#[derive(Deserialize)]
struct Words {
    words: String,
}

#[derive(Deserialize)]
struct AllRate {
    gb_per_s: f64,
}

#[derive(Deserialize)]
struct Transfer {
    from: End,
    to: End,
    #[serde(default)]
    lane: Option<Lane>,
    /// Version 1.
    #[serde(default)]
    gpu: Option<u32>,
    #[serde(default)]
    iterations: u32,
    #[serde(default)]
    median_gb_per_s: f64,
    #[serde(default)]
    wrong_bytes: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum End {
    Id(NodeId),
    /// Version 1.
    Name(String),
}

impl End {
    fn id(&self) -> NodeId {
        match self {
            Self::Id(node) => *node,
            // An unknown name becomes an id that is in no list.
            Self::Name(name) => node_of_v1(name).unwrap_or(NodeId(u32::MAX)),
        }
    }
}

#[derive(Deserialize)]
struct Finding {
    condition: String,
    severity: Severity,
}

#[derive(Deserialize)]
struct Schema {
    schema: Option<String>,
}

impl RunBrief {
    /// Reads a `run.json` of any known version.
    ///
    /// # Errors
    /// It is damaged, or of an unknown version.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        match serde_json::from_slice::<Record>(bytes) {
            Ok(record) => {
                known_version(record.schema.as_deref())?;
                Ok(Self::from_record(record))
            }
            Err(error) => {
                let schema = serde_json::from_slice::<Schema>(bytes)
                    .ok()
                    .and_then(|record| record.schema);
                known_version(schema.as_deref())?;
                Err(RecordError::Damaged(error.to_string()))
            }
        }
    }

    fn from_record(record: Record) -> Self {
        let mut names: Vec<String> = record.nodes.into_iter().map(|node| node.name).collect();
        if names.iter().all(String::is_empty) {
            names = shown_names(&["", ""]);
        }
        let node = |name| NodeIntro {
            name,
            address: String::new(),
        };
        let names = Names {
            nodes: names.into_iter().map(node).collect(),
            pairs: Vec::new(),
        };
        let transfer = |one: Transfer| BriefTransfer {
            direction: names.direction(
                one.from.id(),
                one.to.id(),
                one.lane.unwrap_or(one.gpu.into()),
            ),
            iterations: one.iterations,
            median_gb_per_s: one.median_gb_per_s,
            wrong_bytes: one.wrong_bytes,
        };
        Self {
            started: record.started,
            scenario: record.scenario.name,
            outcome: record.outcome,
            exit_code: record.exit_code,
            is_incomplete: record.unwritten.is_some(),
            transfers: record.transfers.into_iter().map(transfer).collect(),
            all_gb_per_s: record.sums.map(|sums| sums.gb_per_s),
            mesh: record
                .mesh
                .and_then(|mesh| mesh.attribution)
                .map_or(Vec::new(), |found| {
                    found.findings.into_iter().map(|one| one.words).collect()
                }),
            findings: record
                .findings
                .into_iter()
                .map(|one| (one.condition, one.severity))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    const V1: &[u8] = include_bytes!("fixtures/v1/20261120T101500Z-two-gpus/run.json");

    #[test]
    fn a_record_of_either_version_has_the_same_brief() {
        let first = RunBrief::parse(V1).expect("version 1");
        let record = RunRecord::parse(V1).expect("version 1");
        let second =
            RunBrief::parse(&serde_json::to_vec(&record).expect("JSON")).expect("version 2");
        assert_eq!(first, second);
        assert_eq!(first.transfers[1].direction, "local->peer@gpu1");
        assert_eq!(
            (first.findings[0].1, first.outcome),
            (Severity::Error, Outcome::Stalled)
        );
    }

    #[test]
    fn a_future_version_is_reported_as_such_whatever_else_the_file_holds() {
        for text in [
            r#"{"schema":"tcpxctl.run/9","outcome":7}"#,
            r#"{"schema":"tcpxctl.run/9","outcome":"passed","scenario":{}}"#,
        ] {
            let error = RunBrief::parse(text.as_bytes()).expect_err("of the future");
            assert!(matches!(error, RecordError::Schema { .. }), "{error}");
        }
        assert!(matches!(
            RunBrief::parse(b"{\"outcome\":"),
            Err(RecordError::Damaged(_))
        ));
    }
}
