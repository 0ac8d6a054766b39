//! The summary of one run in the history.
#![forbid(unsafe_code)]

use crate::compare::harness::of_results;
use crate::compare::{Measured, Metric};
use crate::gather::harness;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tcpx_run_model::finding::Severity;
use tcpx_run_model::record::{BriefTransfer, RecordError, RunBrief, RunFiles, Unfinished};
use tcpx_run_model::replay::RECORD_BYTES_MAX;
use tcpx_words::units::printable;

/// The outcome shown for a run whose record has a version that this program does not know.
pub const OTHER_VERSION: &str = "other-version";

/// The outcome shown for a result file of another tool.
pub const MEASURED: &str = "measured";

/// Maximum rates of a result file.
const RATES_MAX: usize = 16;

/// The summary of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEntry {
    /// Name of its folder.
    pub id: String,
    /// Start time, RFC 3339; taken from the folder's name if there is no record.
    pub started: String,
    /// The scenario's name.
    pub scenario: String,
    /// The run's outcome, such as `passed`. Without a record, a word of [`Unfinished`];
    /// `damaged` or [`OTHER_VERSION`] if the record cannot be read.
    pub outcome: String,
    /// Exit code of `tcpxctl run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Whether the run could not write a part of its record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// The median rate of each direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<DirectionRate>,
    /// Rate of all directions over the interval that they were measured in together, 10^9 bytes
    /// per second; only with several directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_gb_per_s: Option<f64>,
    /// Bytes that failed verification, summed over all directions; `None` without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_bytes: Option<u64>,
    /// Condition of the first finding that is a warning or an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// The part of a mesh that explains most of what is slow or dead, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Why a damaged record, or one of another version, cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Size and modification time (in nanoseconds) of `run.json` when it was read; `None` if
    /// there is no `run.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<(u64, i64)>,
}

/// The median rate of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionRate {
    /// Display name of the direction, such as `local->peer`.
    pub direction: String,
    /// 10^9 bytes per second.
    pub median_gb_per_s: f64,
}

impl RunEntry {
    /// The entry of a result file of another tool, whose results [`crate::compare::read`] found.
    /// `modified` is when the file was written; a time in its name, as launchers write it, is
    /// the start.
    pub fn of_file(measured: &Measured, modified: std::time::SystemTime) -> Self {
        let modified = jiff::Timestamp::try_from(modified)
            .map(|at| format!("{at:.0}"))
            .unwrap_or_default();
        Self {
            id: printable(&measured.name),
            started: started_in(&measured.name).unwrap_or(modified),
            scenario: printable(&measured.tool),
            outcome: MEASURED.to_owned(),
            rates: rates_of(measured),
            ..Self::default()
        }
    }

    /// Reads a run folder. A damaged run gives an entry too.
    pub(super) fn read(folder: &Path, id: &str, seen: Option<(u64, i64)>) -> Self {
        let bare = |outcome: &str| Self {
            id: printable(id),
            started: started(id),
            scenario: scenario(id),
            outcome: outcome.to_owned(),
            seen,
            ..Self::default()
        };
        let files = RunFiles::Folder(folder.join(id));
        match files.unfinished() {
            Some(Unfinished::Adopted) => return bare(Unfinished::Adopted.word()).with_logs(&files),
            unfinished if seen.is_none() => {
                return bare(unfinished.unwrap_or(Unfinished::Open).word());
            }
            _ => {}
        }
        let file = File::open(folder.join(id).join("run.json"));
        let mut bytes = Vec::new();
        let read = file.and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes));
        match read.map(|_| RunBrief::parse(&bytes)) {
            Ok(Ok(brief)) => Self::from_brief(brief, id, seen),
            Ok(Err(error)) => Self {
                why: Some(error.to_string()),
                ..bare(match error {
                    RecordError::Schema { .. } => OTHER_VERSION,
                    RecordError::Damaged(_) => "damaged",
                })
            },
            Err(error) => Self {
                why: Some(error.to_string()),
                ..bare("damaged")
            },
        }
    }

    /// The entry with the results and the worst verdict of programs that drive the plugin themselves.
    fn with_logs(self, files: &RunFiles) -> Self {
        let Some(harness) = harness(files) else {
            return self;
        };
        let worst = harness.verdicts.first();
        let worst = worst.filter(|verdict| verdict.state.severity().is_some());
        Self {
            rates: rates_of(&of_results(&harness.results)),
            finding: worst.map(|verdict| verdict.condition.to_string()),
            ..self
        }
    }

    fn from_brief(brief: RunBrief, id: &str, seen: Option<(u64, i64)>) -> Self {
        let measured = brief.transfers.iter().filter(|one| one.iterations > 0);
        let rate = |one: &BriefTransfer| DirectionRate {
            direction: printable(&one.direction),
            median_gb_per_s: one.median_gb_per_s,
        };
        let worst = brief
            .findings
            .iter()
            .find(|(_, severity)| *severity != Severity::Info);
        Self {
            id: printable(id),
            started: printable(&brief.started),
            scenario: printable(&brief.scenario),
            outcome: brief.outcome.to_string(),
            exit_code: brief.exit_code,
            is_incomplete: brief.is_incomplete,
            all_gb_per_s: brief.all_gb_per_s.filter(|_| brief.transfers.len() > 1),
            rates: measured.map(rate).collect(),
            wrong_bytes: Some(
                brief
                    .transfers
                    .iter()
                    .fold(0, |sum, one| sum.saturating_add(one.wrong_bytes)),
            ),
            finding: worst.map(|(condition, _)| printable(condition)),
            part: brief.mesh.first().map(|words| printable(words)),
            why: None,
            seen,
        }
    }
}

/// The median rates of results that were measured by another program.
fn rates_of(measured: &Measured) -> Vec<DirectionRate> {
    let is_rate = |name: &str| name.starts_with("rate") || name == "busbw";
    let metrics = measured.metrics.iter().filter(|(name, _)| is_rate(name));
    // The end that measured, if all rates of the file are of one end.
    let of = |key: &str| measured.settings.get(key);
    let role = of("role").map_or_else(String::new, |role| format!(" {role}"));
    let gpu = of("gpu").map_or_else(String::new, |gpu| format!(" gpu {gpu}"));
    let rate = |(name, metric): (&String, &Metric)| {
        let direction = printable(&format!("{name}{role}{gpu}"));
        Some(DirectionRate {
            direction,
            median_gb_per_s: metric.median()?,
        })
    };
    metrics.filter_map(rate).take(RATES_MAX).collect()
}

/// The start time in a run's id: `20261120T101500Z-4conn` gives `2026-11-20T10:15:00Z`.
fn started(id: &str) -> String {
    let digits = |from: usize, to: usize| {
        id.get(from..to)
            .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let parts =
        [(0, 4), (4, 6), (6, 8), (9, 11), (11, 13), (13, 15)].map(|(from, to)| digits(from, to));
    match parts {
        [
            Some(year),
            Some(month),
            Some(day),
            Some(hour),
            Some(minute),
            Some(second),
        ] => {
            format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")
        }
        _ => String::new(),
    }
}

/// The time in the name of a launcher's log: `singleproc_server_20251007_111638.log`. Its zone is
/// not known; it is taken as UTC.
pub(super) fn started_in(name: &str) -> Option<String> {
    let is_digits = |part: &str, size: usize| {
        part.len() == size && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = name.split(['_', '-', '.']).collect();
    let pair = parts
        .windows(2)
        .find(|pair| is_digits(pair[0], 8) && is_digits(pair[1], 6))?;
    let at = started(&format!("{}T{}", pair[0], pair[1]));
    at.parse::<jiff::Timestamp>().ok().map(|_| at)
}

fn scenario(id: &str) -> String {
    id.split_once('-')
        .map(|(_, name)| printable(name))
        .unwrap_or_default()
}
