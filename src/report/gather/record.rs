//! Reads `run.json` key by key: a damaged record still yields every key that can be read, and
//! a record of an earlier version yields the same keys as a current one.
#![forbid(unsafe_code)]

use crate::columns::Asked;
use crate::story::{Story, StoryState, StoryTransfer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::{Names, NodeIntro, PairIntro};
use tcpx_run_model::record::{
    RecordError, RunFiles, Sums, TransferRecord, Unfinished, record_value,
};
use tcpx_run_model::replay::{RECORD_BYTES_MAX, clock_set_back, events_until_ms};
use tcpx_run_model::scenario;
use tcpx_words::error::NextStep;

/// Scenario keys that a report shows, most important first.
const KEYS: [&str; 29] = [
    "traffic.kind",
    "traffic.model",
    "traffic.page_tokens",
    "traffic.page",
    "traffic.tp",
    "traffic.tokens",
    "traffic.op",
    "traffic.batch",
    "traffic.depth",
    "traffic.requests",
    "traffic.concurrency",
    "traffic.rate",
    "traffic.seed",
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
    "progress.threads",
    "progress.idle",
    "limits.stall_after",
];

/// Those that KV-cache traffic does not use.
const OF_STREAMS: [&str; 4] = [
    "transfer.total",
    "transfer.recv_window",
    "transfer.send_window",
    "transfer.unpack",
];

/// Reads the record as JSON of the current version, and copies the result of the run into the
/// story. `None` if there is no readable record.
pub(super) fn read(files: &RunFiles, story: &mut Story) -> Option<Value> {
    story.scenario_toml = files
        .read("scenario.toml", 1 << 20)
        .ok()
        .map(|text| String::from_utf8_lossy(&text).into());
    let record = match files.read("run.json", RECORD_BYTES_MAX) {
        Ok(bytes) => record_value(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let unfinished = files.unfinished().unwrap_or(Unfinished::Open);
            story.state = StoryState::from(unfinished);
            story.lacks(
                "outcome and results",
                format!("there is no run.json ({})", unfinished.word()),
            );
            story.scenario = match unfinished {
                Unfinished::Adopted => "adopted recordings".to_owned(),
                _ => scenario_name(story.scenario_toml.as_deref()),
            };
            return None;
        }
        Err(error) => Err(RecordError::Damaged(error.to_string())),
    };
    match record {
        Ok(record) => {
            story.state = StoryState::Finished;
            add_result(&record, story);
            Some(record)
        }
        Err(error) => {
            story.state = match error {
                RecordError::Damaged(_) => StoryState::Damaged,
                RecordError::Schema { .. } => StoryState::OtherVersion,
            };
            story.scenario = scenario_name(story.scenario_toml.as_deref());
            if story.state == StoryState::OtherVersion {
                (story.reason, story.next_step) = (Some(error.to_string()), error.next_step());
            }
            story.lacks("outcome and results", error.to_string());
            None
        }
    }
}

/// What the run left and its folder no longer has, in words.
pub(super) fn lost(files: &RunFiles, record: &Value, last_ms: f64) -> Vec<String> {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let pairs = record["pairs"].as_array().into_iter().flatten();
    let workers = pairs.flat_map(|pair| pair["workers"].as_array().into_iter().flatten());
    let frames = workers.filter_map(|worker| worker["frame"].as_str());
    let when = [text("started"), text("finished")];
    let until_ms = events_until_ms(record["events_until_ms"].as_f64(), when);
    files.lost(until_ms, record["unwritten"].as_str(), frames, last_ms)
}

fn add_result(record: &Value, story: &mut Story) {
    let text = |key: &str| record[key].as_str().map(str::to_owned);
    (story.started, story.finished) = (text("started"), text("finished"));
    (story.reason, story.next_step, story.command) =
        (text("reason"), text("next_step"), text("command"));
    story.outcome = Deserialize::deserialize(&record["outcome"]).ok();
    story.exit_code = record["exit_code"]
        .as_u64()
        .and_then(|code| u8::try_from(code).ok());
    if let Some(id) = text("id").filter(|id| !id.is_empty()) {
        story.id = id;
    }
    let scenario = &record["scenario"];
    story.scenario = scenario["name"].as_str().unwrap_or("unknown").to_owned();
    let is_kv = scenario["resolved"]["traffic"].is_object();
    story.transfer = KEYS
        .iter()
        .filter(|key| !(is_kv && OF_STREAMS.contains(key)))
        .filter_map(|key| Some(((*key).to_owned(), setting(&scenario["resolved"], key)?)))
        .collect();
    let traffic = scenario::Traffic::deserialize(&scenario["resolved"]["traffic"]).ok();
    story.asked = scenario::Transfer::deserialize(&scenario["resolved"]["transfer"])
        .ok()
        .map(|transfer| Asked::new(&transfer, traffic.as_ref()));
    story.unmet = each(&record["unmet"], "unmet", story);
    story.findings = each::<Finding>(&record["findings"], "findings", story);
    story.findings.sort_by_key(|finding| finding.severity);
    if story.outcome.is_none() {
        story.damaged("outcome", "run.json has no valid outcome");
    }
    let times = [&story.started, &story.finished].map(|time| time.as_deref().unwrap_or_default());
    if let Some(why) = clock_set_back(times) {
        story.lacks("duration by the clock", why);
    }
}

/// Copies the names of nodes and pairs from the record, where it has them.
pub(super) fn introduce(record: &Value, names: &mut Names) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |key: &str| record[key].as_array().into_iter().flatten();
    let node = |node: &Value| NodeIntro {
        name: text(&node["name"]),
        address: text(&node["address"]),
    };
    let nodes: Vec<NodeIntro> = list("nodes").map(node).collect();
    if !nodes.is_empty() {
        names.nodes = nodes;
    }
    let pair = |(place, pair): (usize, &Value)| {
        let lanes = Deserialize::deserialize(&pair["lanes"]).unwrap_or_default();
        match Deserialize::deserialize(&pair["nodes"]) {
            Ok(nodes) => Some(PairIntro {
                nodes,
                lanes,
                rail: Deserialize::deserialize(&pair["rail"]).unwrap_or_default(),
                round: Deserialize::deserialize(&pair["round"]).unwrap_or_default(),
            }),
            Err(_) => names.pairs.get(place).cloned(),
        }
    };
    // A pair's index is its id, so a pair that cannot be read ends the list.
    let pairs: Vec<PairIntro> = list("pairs").enumerate().map_while(pair).collect();
    if !pairs.is_empty() {
        names.pairs = pairs;
    }
}

/// Adds the measured transfers, with the names of their directions.
pub(super) fn add_transfers(record: Option<&Value>, names: &Names, story: &mut Story) {
    let Some(record) = record else { return };
    let records: Vec<TransferRecord> = each(&record["transfers"], "transfers", story);
    for record in records {
        story.transfers.push(StoryTransfer {
            direction: names.direction(record.from, record.to, record.lane),
            record,
        });
    }
    // Records of earlier versions have no sums; those of a mesh leave retests out.
    let sums = match Sums::deserialize(&record["sums"]) {
        Ok(sums) => Some(sums),
        Err(_) if record["mesh"].is_object() => None,
        Err(_) => Sums::of(story.transfers.iter().map(|one| &one.record)),
    };
    story.sums = sums.filter(Sums::is_more_than_one);
}

fn setting(resolved: &Value, key: &str) -> Option<String> {
    let value = key
        .split('.')
        .try_fold(resolved, |value, part| value.get(part))?;
    Some(
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
}

/// The elements of a list that can be read; the others are recorded as missing.
fn each<T: DeserializeOwned>(list: &Value, what: &str, story: &mut Story) -> Vec<T> {
    let Some(list) = list.as_array() else {
        story.lacks(what, format!("run.json has no list of {what}"));
        return Vec::new();
    };
    let mut elements = Vec::new();
    for (index, element) in list.iter().enumerate() {
        match T::deserialize(element) {
            Ok(element) => elements.push(element),
            Err(error) => story.damaged(
                what,
                format!("{what}[{index}] of run.json cannot be read: {error}"),
            ),
        }
    }
    elements
}

fn scenario_name(toml: Option<&str>) -> String {
    let name = toml
        .and_then(|text| text.parse::<toml::Table>().ok())
        .and_then(|table| Some(table.get("name")?.as_str()?.to_owned()));
    name.unwrap_or_else(|| "unknown".to_owned())
}
