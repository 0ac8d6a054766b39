//! What a history keeps of one run: as much as fits a line.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tcpx_run_model::finding::Severity;
use tcpx_run_model::record::{
    BriefTransfer, RECORD_BYTES_MAX, RecordError, RunBrief, RunFiles, Unfinished,
};
use tcpx_words::units::printable;

/// The outcome of a run whose record this program cannot read.
pub const OTHER_VERSION: &str = "other-version";

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of its folder.
    pub id: String,
    /// When it began, RFC 3339; as the folder's name has it where there is no record.
    pub started: String,
    /// The scenario's name.
    pub scenario: String,
    /// `passed`, `stalled`, ...; a word of [`Unfinished`] without a record, `damaged`
    /// where it cannot be read, [`OTHER_VERSION`] where it is of one.
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
    /// Why nothing is known of it, where its record is of another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
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
        let mut bytes = Vec::new();
        let read = file.and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes));
        match read.map(|_| RunBrief::parse(&bytes)) {
            Ok(Ok(brief)) => Self::of(brief, id, seen),
            Ok(Err(error @ RecordError::Schema { .. })) => Self {
                why: Some(error.to_string()),
                ..bare(OTHER_VERSION)
            },
            Ok(Err(RecordError::Damaged(_))) | Err(_) => bare("damaged"),
        }
    }

    fn of(brief: RunBrief, id: &str, seen: Option<(u64, i64)>) -> Self {
        let measured = brief.transfers.iter().filter(|one| one.iterations > 0);
        let rate = |one: &BriefTransfer| Rate {
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
            rates: measured.map(rate).collect(),
            wrong_bytes: brief
                .transfers
                .iter()
                .fold(0, |sum, one| sum.saturating_add(one.wrong_bytes)),
            finding: worst.map(|(condition, _)| printable(condition)),
            why: None,
            seen,
        }
    }
}

/// `20261120T101500Z-4conn` began at 2026-11-20T10:15:00Z.
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

fn scenario(id: &str) -> String {
    id.split_once('-')
        .map(|(_, name)| printable(name))
        .unwrap_or_default()
}
