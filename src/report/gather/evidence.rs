//! Other files of the run folder: freeze-frames, the doctor's checks, and the critical checks
//! that each worker made before it loaded the plugin.
#![forbid(unsafe_code)]

use crate::story::{DoctorCheck, EvidenceFile, Story};
use serde_json::Value;
use std::io;
use tcpx_run_model::record::{DOCTOR, RunFiles};
use tcpx_run_model::results::Preflight;
use tcpx_run_model::state::RunState;

/// Bytes of each file that a report shows.
const SHOWN_MAX: usize = 24 << 10;
/// Bytes of a file that is read.
const READ_MAX: u64 = 16 << 20;
/// Number of files that a report shows.
const FILES_MAX: usize = 32;

pub(super) fn add_evidence(files: &RunFiles, state: &RunState, story: &mut Story) {
    for (id, worker) in &state.workers {
        if let Some(preflight) = &worker.preflight {
            checked(&state.names.worker(*id), preflight, &mut story.checks);
        }
    }
    for name in files.names() {
        if name.ends_with(DOCTOR) {
            match read_json(files, &name) {
                Ok(document) => examined("", &document, &mut story.checks),
                Err(error) => story.lacks("doctor checks", format!("{name}: {error}")),
            }
        } else if name.starts_with("nodes/") && !name.ends_with(tcpx_recorder::format::FILE_SUFFIX)
        {
            show(files, &name, story);
        }
    }
    if story.checks.is_empty() {
        story.lacks(
            "doctor checks",
            "the nodes were not checked: use `run --report-on-fail`, or save the output of `tcpxctl doctor --json` as doctor.json in the run folder",
        );
    }
}

fn read_json(files: &RunFiles, name: &str) -> io::Result<Value> {
    let bytes = files.read(name, READ_MAX)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn show(files: &RunFiles, name: &str, story: &mut Story) {
    let bytes = files.size(name).unwrap_or(0);
    if story.evidence.len() >= FILES_MAX {
        return;
    }
    match files.read(name, READ_MAX) {
        Ok(whole) if !whole.contains(&0) => {
            let cut = whole.len() > SHOWN_MAX;
            let text = String::from_utf8_lossy(&whole[..whole.len().min(SHOWN_MAX)]).into_owned();
            story.evidence.push(EvidenceFile {
                name: name.to_owned(),
                bytes,
                text,
                cut,
            });
        }
        Ok(_) => {}
        Err(error) => story.lacks(name, error.to_string()),
    }
}

/// Adds the checks that a worker made before it loaded the plugin.
fn checked(node: &str, preflight: &Preflight, checks: &mut Vec<DoctorCheck>) {
    let mut push = |id: &str, verdict: &str, value: String| {
        checks.push(DoctorCheck {
            node: node.to_owned(),
            id: id.to_owned(),
            verdict: verdict.to_owned(),
            value,
            next_step: None,
        });
    };
    let passed = format!("{} passed", preflight.passed);
    push("critical checks before the run", "PASS", passed);
    for id in &preflight.failed {
        push(id, "FAIL", "before the run".to_owned());
    }
    for id in &preflight.open {
        push(id, "UNKNOWN", "before the run".to_owned());
    }
}

/// Adds every list of checks in a doctor document, each with its node.
fn examined(node: &str, document: &Value, checks: &mut Vec<DoctorCheck>) {
    let node = document["node"].as_str().unwrap_or(node);
    let Some(all) = document.as_object() else {
        return;
    };
    for (key, value) in all {
        match value {
            Value::Array(rows) if key == "checks" => {
                checks.extend(rows.iter().filter_map(|row| check(node, row)))
            }
            Value::Object(_) => examined(
                if key == "both" { "both nodes" } else { node },
                value,
                checks,
            ),
            _ => {}
        }
    }
}

fn check(node: &str, row: &Value) -> Option<DoctorCheck> {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    Some(DoctorCheck {
        node: node.to_owned(),
        id: text("id")?,
        verdict: text("verdict")?,
        value: text("value").unwrap_or_default(),
        next_step: text("next_step"),
    })
}
