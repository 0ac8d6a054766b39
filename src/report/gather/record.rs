//! `run.json`, key by key: a record of another version, or a damaged one, still
//! says what it can.
#![forbid(unsafe_code)]

use crate::report::story::{State, Story};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;
use tcpx_run_model::record::{Finding, RunFiles, TransferRecord, Unfinished};

/// Longer records are none of ours.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Keys that say what was run, in the order in which people ask.
const KEYS: [&str; 15] = [
    "transfer.connections",
    "transfer.chunk",
    "transfer.total",
    "transfer.iterations",
    "transfer.warmup",
    "transfer.recv_window",
    "transfer.send_window",
    "transfer.direction",
    "transfer.memory",
    "transfer.unpack",
    "topology.processes",
    "topology.nics",
    "progress.policy",
    "progress.idle",
    "limits.stall_after",
];

pub(super) fn read(files: &RunFiles, story: &mut Story) -> Option<Value> {
    story.scenario_toml = files.read("scenario.toml", 1 << 20).ok().map(|text| String::from_utf8_lossy(&text).into());
    let record = match files.read("run.json", RECORD_BYTES_MAX) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).map_err(|error| format!("run.json is damaged: {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let unfinished = files.unfinished().unwrap_or(Unfinished::Open);
            story.state = State::from(unfinished);
            story.lacks("outcome and results", format!("there is no run.json ({})", unfinished.word()));
            story.scenario = scenario_name(story.scenario_toml.as_deref());
            return None;
        }
        Err(error) => Err(format!("run.json cannot be read: {error}")),
    };
    let record = match record {
        Ok(record) => record,
        Err(why) => {
            story.state = State::Damaged;
            story.lacks("outcome and results", why);
            story.scenario = scenario_name(story.scenario_toml.as_deref());
            return None;
        }
    };
    story.state = State::Finished;
    tell(&record, story);
    Some(record)
}

fn tell(record: &Value, story: &mut Story) {
    let text = |key: &str| record[key].as_str().map(str::to_owned);
    (story.started, story.finished) = (text("started"), text("finished"));
    (story.outcome, story.reason, story.next_step) = (text("outcome"), text("reason"), text("next_step"));
    story.command = text("command");
    story.exit_code = record["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok());
    if let Some(id) = text("id").filter(|id| !id.is_empty()) {
        story.id = id;
    }
    let scenario = &record["scenario"];
    story.scenario = scenario["name"].as_str().unwrap_or("unknown").to_owned();
    story.transfer =
        KEYS.iter().filter_map(|key| Some(((*key).to_owned(), setting(&scenario["resolved"], key)?))).collect();
    story.unmet = each(&record["unmet"], "unmet", story);
    story.transfers = each::<TransferRecord>(&record["transfers"], "transfers", story);
    story.findings = each::<Finding>(&record["findings"], "findings", story);
    story.findings.sort_by_key(|finding| rank(&finding.severity));
    if story.outcome.is_none() {
        story.state = State::Damaged;
        story.lacks("outcome", "run.json does not say it");
    }
}

/// The worst first.
pub(super) fn rank(severity: &str) -> u8 {
    match severity {
        "fatal" | "critical" => 0,
        "error" => 1,
        "stall" => 2,
        "warning" => 3,
        _ => 4,
    }
}

fn setting(resolved: &Value, key: &str) -> Option<String> {
    let value = key.split('.').try_fold(resolved, |value, part| value.get(part))?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// The elements that can be read; the others are said to be missing.
fn each<T: DeserializeOwned>(list: &Value, what: &str, story: &mut Story) -> Vec<T> {
    let Some(list) = list.as_array() else {
        story.lacks(what, format!("run.json has no list of {what}"));
        return Vec::new();
    };
    let mut told = Vec::new();
    for (index, element) in list.iter().enumerate() {
        match T::deserialize(element) {
            Ok(element) => told.push(element),
            Err(error) => {
                story.state = State::Damaged;
                story.lacks(what, format!("entry {index} of run.json cannot be read: {error}"));
            }
        }
    }
    told
}

fn scenario_name(toml: Option<&str>) -> String {
    let name = toml
        .and_then(|text| text.parse::<toml::Table>().ok())
        .and_then(|table| Some(table.get("name")?.as_str()?.to_owned()));
    name.unwrap_or_else(|| "unknown".to_owned())
}
