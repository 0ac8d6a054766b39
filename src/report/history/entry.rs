//! What a history keeps of one run: as much as fits a line.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use tcpx_run_model::record::{RunFiles, Unfinished};
use tcpx_words::units::printable;

/// Longest record that is read.
const RECORD_MAX: u64 = 64 << 20;

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of its folder.
    pub id: String,
    /// When it began, RFC 3339; as the folder's name has it where there is no record.
    pub started: String,
    /// The scenario's name.
    pub scenario: String,
    /// `passed`, `stalled`, ...; a word of [`Unfinished`] without a record, `damaged` where it cannot be read.
    pub outcome: String,
    /// Of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Of every direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
    /// Of all directions.
    #[serde(default)]
    pub wrong_bytes: u64,
    /// The first finding that is more than information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// What the record looked like when it was read: size, and when it was changed in
    /// nanoseconds. None without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<(u64, i64)>,
}

/// One direction's median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// `local->peer`.
    pub direction: String,
    /// 10^9 bytes per second.
    pub median_gb_per_s: f64,
}

/// The parts of `run.json` that are kept; all else is skipped unread.
#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    started: String,
    outcome: String,
    #[serde(default)]
    exit_code: Option<u8>,
    scenario: Scenario,
    #[serde(default)]
    transfers: Vec<Transfer>,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
}

#[derive(Deserialize)]
struct Transfer {
    from: String,
    to: String,
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
struct Finding {
    condition: String,
    #[serde(default)]
    severity: String,
}

impl Entry {
    /// Reads a run folder; a damaged one is an entry, too.
    pub(super) fn read(folder: &Path, id: &str, seen: Option<(u64, i64)>) -> Self {
        let bare = |outcome: &str| Self {
            id: printable(id),
            started: started(id),
            scenario: scenario(id),
            outcome: outcome.to_owned(),
            seen,
            ..Self::default()
        };
        if seen.is_none() {
            let unfinished = RunFiles::Folder(folder.join(id)).unfinished();
            return bare(unfinished.unwrap_or(Unfinished::Open).word());
        }
        let file = File::open(folder.join(id).join("run.json"));
        let record = file.ok().and_then(|file| {
            let mut bytes = Vec::new();
            BufReader::new(file).take(RECORD_MAX).read_to_end(&mut bytes).ok()?;
            serde_json::from_slice::<Record>(&bytes).ok()
        });
        record.map_or_else(|| bare("damaged"), |record| Self::of(record, id, seen))
    }

    fn of(record: Record, id: &str, seen: Option<(u64, i64)>) -> Self {
        let rate = |one: &Transfer| {
            let gpu = one.gpu.map(|gpu| format!("@gpu{gpu}")).unwrap_or_default();
            Rate {
                direction: printable(&format!("{}->{}{gpu}", one.from, one.to)),
                median_gb_per_s: one.median_gb_per_s,
            }
        };
        let worst = record.findings.iter().find(|finding| finding.severity != "info");
        Self {
            id: printable(id),
            started: printable(&record.started),
            scenario: printable(&record.scenario.name),
            outcome: printable(&record.outcome),
            exit_code: record.exit_code,
            rates: record.transfers.iter().filter(|one| one.iterations > 0).map(rate).collect(),
            wrong_bytes: record.transfers.iter().fold(0, |sum, one| sum.saturating_add(one.wrong_bytes)),
            finding: worst.map(|finding| printable(&finding.condition)),
            seen,
        }
    }
}

/// `20261120T101500Z-4conn` began at 2026-11-20T10:15:00Z.
fn started(id: &str) -> String {
    let digits =
        |from: usize, to: usize| id.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let parts = [(0, 4), (4, 6), (6, 8), (9, 11), (11, 13), (13, 15)].map(|(from, to)| digits(from, to));
    match parts {
        [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)] => {
            format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")
        }
        _ => String::new(),
    }
}

fn scenario(id: &str) -> String {
    id.split_once('-').map(|(_, name)| printable(name)).unwrap_or_default()
}
