//! Event lines of `tcpxctl.run/1`: nodes are called `local` and `peer`, pairs are numbered by
//! `gpu`, and the messages of agents and workers are embedded as they were sent.
#![forbid(unsafe_code)]

use super::{Event, EventKind, PluginDevice, PluginReady};
use crate::ids::{NodeId, PairId};
use crate::results::PluginRecord;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tcpx_words::plugin_family::PluginFamily;

#[derive(Deserialize)]
struct V1Line {
    at: String,
    ms: f64,
    node: String,
    #[serde(default)]
    gpu: Option<u32>,
    #[serde(default)]
    node_us: Option<u64>,
    #[serde(flatten)]
    content: Map<String, Value>,
}

/// The node with this name in version 1.
pub(crate) fn node_of(name: &str) -> Option<NodeId> {
    match name {
        "local" => Some(NodeId(0)),
        "peer" => Some(NodeId(1)),
        _ => None,
    }
}

pub(super) fn parse(line: &[u8]) -> Option<Event> {
    let line: V1Line = serde_json::from_slice(line).ok()?;
    let node = node_of(&line.node);
    let (key, value) = line.content.into_iter().next()?;
    let kind = match key.as_str() {
        "said" => said(value)?,
        "found" => kind("findings", value)?,
        "note" => kind("note", value)?,
        _ => return None,
    };
    // Version 1 gave an agent's messages about its node the number of its first worker.
    let of_node = matches!(kind, EventKind::Agent { .. } | EventKind::AgentBroken(_));
    let pair = if of_node || (node.is_none() && line.gpu.is_none()) {
        None
    } else {
        Some(PairId(line.gpu.unwrap_or(0)))
    };
    Some(Event {
        at: line.at,
        ms: line.ms,
        node,
        pair,
        pid: None,
        recorder_number: 0,
        node_us: line.node_us,
        kind,
    })
}

fn said(message: Value) -> Option<EventKind> {
    let (key, value) = match message {
        Value::String(word) => (word, Value::Null),
        Value::Object(fields) => fields.into_iter().next()?,
        _ => return None,
    };
    match key.as_str() {
        "worker" => worker(value),
        "hello" => kind("agent", value),
        "broken" => kind("agent-broken", value),
        "recovered" => Some(EventKind::Recovered),
        "sample" | "stall" | "plugin-line" | "output" | "exited" => kind(&key, value),
        _ => None,
    }
}

fn worker(message: Value) -> Option<EventKind> {
    let Value::Object(fields) = message else {
        return None;
    };
    let (key, value) = fields.into_iter().next()?;
    match key.as_str() {
        "loaded" => Some(EventKind::Plugin(Box::new(plugin(&value)?))),
        "mr" => kind("registrations", value),
        "phase" | "listening" | "recorder" | "iteration" | "handshake" | "held" | "preflight"
        | "transfer" | "failed" | "finished" => kind(&key, value),
        _ => None,
    }
}

/// Reads from bytes as [`crate::record::RunRecord::parse`] does.
fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_slice(value.to_string().as_bytes()).ok()
}

fn kind(key: &str, value: Value) -> Option<EventKind> {
    read(&json!({ key: value }))
}

fn plugin(loaded: &Value) -> Option<PluginReady> {
    let text = |pointer: &str| {
        loaded
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let number = |key: &str| loaded[key].as_f64().unwrap_or_default();
    let devices = loaded["devices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|device| {
            let index = usize::try_from(device["index"].as_u64()?).ok()?;
            Some(PluginDevice {
                index,
                name: device["name"].as_str()?.to_owned(),
            })
        });
    Some(PluginReady {
        plugin: PluginRecord {
            path: text("/file/realpath").unwrap_or_else(|| "builtin".to_owned()),
            sha256: text("/file/sha256").unwrap_or_else(|| "builtin".to_owned()),
            abi: u32::try_from(loaded.pointer("/about/abi")?.as_u64()?).ok()?,
            family: PluginFamily::of_table_name(&text("/about/name")?),
            name: text("/about/name")?,
            version: text("/version"),
            why: text("/choice/why").unwrap_or_default(),
            passed_over: read(&loaded["choice"]["passed_over"]).unwrap_or_default(),
        },
        devices: devices.collect(),
        load_ms: number("load_ms"),
        init_ms: number("init_ms"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Who;
    use crate::phase::Phase;

    fn read(line: &str) -> Option<Event> {
        Event::parse(line.as_bytes())
    }

    #[test]
    fn lines_of_version_1_are_read() {
        let at = r#""at":"2026-11-20T10:00:00Z","ms":1"#;
        let event = read(&format!(
            r#"{{{at},"node":"peer","node_us":9,"said":{{"worker":{{"phase":"measuring"}}}}}}"#
        ));
        let event = event.expect("a phase");
        assert_eq!(
            (event.node, event.pair, event.node_us),
            (Some(NodeId(1)), Some(PairId(0)), Some(9))
        );
        assert_eq!(event.kind, EventKind::Phase(Phase::Measuring));
        let event = read(&format!(
            r#"{{{at},"node":"local","gpu":3,"said":"recovered"}}"#
        ))
        .expect("a recovery");
        assert_eq!(
            (event.pair, event.kind),
            (Some(PairId(3)), EventKind::Recovered)
        );
        let event = read(&format!(r#"{{{at},"node":"coordinator","note":"x"}}"#)).expect("a note");
        assert_eq!(
            (event.who(), event.kind),
            (Who::Run, EventKind::Note("x".into()))
        );
        let found =
            read(&format!(r#"{{{at},"node":"coordinator","found":[]}}"#)).expect("findings");
        assert_eq!(found.kind, EventKind::Findings(Vec::new()));
    }

    #[test]
    fn messages_that_are_no_events_are_skipped() {
        let at = r#""at":"2026-11-20T10:00:00Z","ms":1,"node":"peer""#;
        for said in [
            r#""said":"heartbeat""#,
            r#""said":{"echo":{"us":1}}"#,
            r#""said":7"#,
            r#""word":1"#,
            r#""ms":1"#,
        ] {
            assert_eq!(read(&format!("{{{at},{said}}}")), None, "{said}");
        }
        assert_eq!(read("nonsense"), None);
    }
}
