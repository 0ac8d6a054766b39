//! Converts `tcpxctl.run/1` to `tcpxctl.run/2`.
//!
//! Version 1 has exactly two nodes, named `local` and `peer`, and keeps a worker's data in its
//! node. The conversion works on JSON, not on types, so that the intact parts of a damaged record
//! are kept.
#![forbid(unsafe_code)]

use crate::event::node_of_v1;
use serde_json::{Map, Value, json};
use tcpx_words::plugin_family::PluginFamily;

/// The GPUs of a version 1 record, in the order of its pairs; `None` is host memory.
fn gpus(record: &Value) -> Vec<Option<u64>> {
    let mut gpus = Vec::new();
    for transfer in record["transfers"].as_array().into_iter().flatten() {
        let gpu = transfer["gpu"].as_u64();
        if !gpus.contains(&gpu) {
            gpus.push(gpu);
        }
    }
    if gpus.is_empty() { vec![None] } else { gpus }
}

fn lane(gpu: Option<u64>) -> Value {
    gpu.map_or(json!("host"), |gpu| json!({ "gpu": gpu }))
}

/// Converts a finding's `peer gpu 3`; version 1 counts pairs there, not GPUs.
fn subject(name: &str) -> Value {
    let (end, rest) = name.split_once(' ').unwrap_or((name, ""));
    let Some(node) = node_of_v1(end) else {
        let pid = name
            .strip_prefix("pid ")
            .and_then(|pid| pid.parse::<u32>().ok());
        return json!({ "node": 0, "pid": pid, "name": name });
    };
    let pair = rest
        .strip_prefix("gpu ")
        .and_then(|pair| pair.parse::<u32>().ok());
    json!({ "node": node, "pair": pair.unwrap_or(0), "name": name })
}

/// Converts a record to version 2.
pub(super) fn upgraded(mut record: Value) -> Value {
    let gpus = gpus(&record);
    let single = record
        .pointer("/scenario/resolved/topology/processes")
        .and_then(Value::as_str)
        == Some("single");
    let pairs = if single || gpus.len() == 1 {
        vec![pair(
            &record,
            0,
            gpus.iter().map(|gpu| lane(*gpu)).collect(),
        )]
    } else {
        let each = gpus.iter().enumerate();
        each.map(|(number, gpu)| pair(&record, number, vec![lane(*gpu)]))
            .collect()
    };
    let pair_of = |gpu: Option<u64>| {
        if single {
            0
        } else {
            gpus.iter().position(|one| *one == gpu).unwrap_or(0)
        }
    };
    for transfer in list(&mut record, "transfers") {
        let gpu = transfer.remove("gpu").and_then(|gpu| gpu.as_u64());
        for end in ["from", "to"] {
            let node = transfer
                .get(end)
                .and_then(Value::as_str)
                .and_then(node_of_v1);
            transfer.insert(end.to_owned(), json!(node));
        }
        transfer.insert("lane".to_owned(), lane(gpu));
        transfer.insert("pair".to_owned(), json!(pair_of(gpu)));
    }
    for finding in list(&mut record, "findings") {
        if let Some(Value::String(node)) = finding.remove("node") {
            finding.insert("subject".to_owned(), subject(&node));
        }
    }
    record["pairs"] = Value::Array(pairs);
    record["schema"] = json!(super::SCHEMA);
    record
}

/// The objects in the record's list `key`.
fn list<'a>(record: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = record.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Adds the plugin's family, which version 1 did not record.
fn plugin(v1: &Value) -> Value {
    let mut plugin = v1.clone();
    if let Some(name) = v1["name"].as_str() {
        plugin["family"] = json!(PluginFamily::of_table_name(name));
    }
    plugin
}

fn pair(record: &Value, number: usize, lanes: Vec<Value>) -> Value {
    let worker = |node: usize| {
        let v1 = &record["nodes"][node];
        let frame = v1["frames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|path| {
                let suffix = if path.contains("-gpu") {
                    format!("-gpu{number}.json")
                } else {
                    ".json".to_owned()
                };
                path.ends_with(&suffix) && (path.contains("-gpu") || number == 0)
            });
        let mut worker = json!({
            "role": v1["role"].as_str().unwrap_or("both"),
            "plugin": plugin(&v1["plugin"]),
            "env": v1["env"].as_object().cloned().unwrap_or_default(),
            "warnings": [],
            "log_lines": null,
            "resident_bytes": null,
            "registered_bytes": null,
            "memory": v1["memory"],
            "frame": frame,
        });
        // Version 1 has these per node, not per pair; the record does not say for which pair.
        if number == 0 {
            worker["warnings"] = json!(v1["warnings"].as_array().cloned().unwrap_or_default());
            worker["log_lines"] = v1["log_lines"].clone();
            worker["resident_bytes"] = v1["worker_resident_bytes"].clone();
            worker["registered_bytes"] = v1["registered_bytes"].clone();
        }
        worker
    };
    json!({
        "nodes": [0, 1],
        "lanes": lanes,
        "outcome": record["outcome"],
        "reason": record["reason"],
        "workers": [worker(0), worker(1)],
    })
}
