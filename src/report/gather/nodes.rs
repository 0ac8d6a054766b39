//! Both nodes: what they are, what they were given, and where they differ.
#![forbid(unsafe_code)]

use super::stream::{Stream, end_name};
use crate::coord::event::What;
use crate::coord::message::{FromAgent, FromWorker};
use crate::report::story::{Difference, Node, Story};
use serde_json::Value;
use std::collections::BTreeMap;
use tcpx_run_model::record::PluginRecord;

/// What is shown of a node's facts, and where it stands in them.
const FACTS: [(&str, &str); 9] = [
    ("kernel", "/host/kernel"),
    ("boot id", "/host/boot_id"),
    ("network namespace", "/host/network_namespace"),
    ("CPU", "/cpu/model"),
    ("CPUs", "/cpu/online"),
    ("memory, bytes", "/cpu/memory_total_bytes"),
    ("NVIDIA driver", "/gpus/driver_version"),
    ("open files, soft limit", "/limits/open_files/soft"),
    ("locked memory, soft limit", "/limits/locked_memory_bytes/soft"),
];
/// Of these, what every machine has of its own.
const OWN: [&str; 2] = ["boot id", "network namespace"];

pub(super) fn tell(record: Option<&Value>, stream: &Stream, story: &mut Story) {
    let recorded = record.and_then(|record| record["nodes"].as_array());
    story.nodes = match recorded {
        Some(nodes) => nodes.iter().map(node).collect(),
        None => from_events(stream),
    };
    if story.nodes.is_empty() {
        story.lacks("nodes", "neither run.json nor the event stream describes them");
    }
    for event in &stream.events {
        let What::Said(said) = &event.what else { continue };
        let words = match &**said {
            FromAgent::Exited(exit) => {
                let call = exit.in_call.as_ref().map(|call| format!(", inside {call}")).unwrap_or_default();
                format!("the worker {} while {}{call}", exit.how(), exit.phase)
            }
            FromAgent::Broken(why) => format!("the agent: {why}"),
            FromAgent::Worker(FromWorker::Failed(failure)) => format!("{}: {}", failure.phase, failure.message),
            _ => continue,
        };
        if let Some(node) = story.nodes.iter_mut().find(|node| node.name == event.node) {
            let gpu = event.gpu.map(|gpu| format!("gpu {gpu}: ")).unwrap_or_default();
            node.last_words.push(format!("{gpu}{words}"));
        }
    }
    story.differences = differences(&story.nodes);
}

fn node(value: &Value) -> Node {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Node {
        name: text("name"),
        role: text("role"),
        host: text("host"),
        address: text("address"),
        plugin: serde_json::from_value::<PluginRecord>(value["plugin"].clone()).ok(),
        clock: serde_json::from_value(value["clock"].clone()).ok(),
        facts: facts(&value["facts"], value),
        env: strings(&value["env"]),
        node_env: strings(&value["facts"]["environment"]),
        last_words: Vec::new(),
    }
}

/// A run without a record: what its agents said when they came.
fn from_events(stream: &Stream) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for event in &stream.events {
        let What::Said(said) = &event.what else { continue };
        let known = nodes.iter().position(|node| node.name == event.node);
        match (&**said, known) {
            (FromAgent::Hello { facts: told, .. }, None) => {
                let value = serde_json::to_value(told).unwrap_or_default();
                nodes.push(Node {
                    name: event.node.clone(),
                    host: value.pointer("/host/name").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
                    facts: facts(&value, &Value::Null),
                    node_env: strings(&value["environment"]),
                    ..Node::default()
                });
            }
            (FromAgent::Worker(FromWorker::Loaded(loaded)), known) => {
                let plugin = PluginRecord {
                    path: loaded.file.as_ref().map_or("builtin".into(), |file| file.realpath.display().to_string()),
                    sha256: loaded.file.as_ref().map_or("builtin".into(), |file| file.sha256.clone()),
                    abi: loaded.about.abi,
                    name: loaded.about.name.clone(),
                    version: loaded.version.clone(),
                    why: loaded.choice.why.clone(),
                    passed_over: loaded.choice.passed_over.clone(),
                };
                let place = known.unwrap_or_else(|| {
                    nodes.push(Node { name: event.node.clone(), ..Node::default() });
                    nodes.len() - 1
                });
                nodes[place].plugin = Some(plugin);
            }
            _ => {}
        }
    }
    nodes
}

fn facts(facts: &Value, node: &Value) -> Vec<(String, String)> {
    if !facts.is_object() {
        return Vec::new();
    }
    let mut told: Vec<(String, String)> =
        FACTS.iter().map(|(name, pointer)| ((*name).to_owned(), shown(facts.pointer(pointer)))).collect();
    let numa = facts["cpu"]["numa_nodes"].as_array().map_or("unknown".to_owned(), |all| all.len().to_string());
    told.push(("NUMA nodes".to_owned(), numa));
    for nic in facts["nics"].as_array().into_iter().flatten().filter(|nic| nic["virtual"] != Value::Bool(true)) {
        let of = |key: &str| shown(nic.get(key));
        let speed = nic["speed"]["mbit_per_s"]
            .as_u64()
            .map_or("speed not readable".to_owned(), |speed| format!("{speed} Mbit/s"));
        let words = format!(
            "{}, {}, MTU {}, {speed}, {} at {}, NUMA {}",
            of("driver"),
            of("operstate"),
            of("mtu"),
            of("pci_address"),
            of("pci_root"),
            of("numa_node")
        );
        told.push((format!("NIC {}", of("name")), words));
    }
    for gpu in facts["gpus"]["devices"].as_array().into_iter().flatten() {
        let of = |key: &str| shown(gpu.get(key));
        told.push((
            format!("GPU {}", of("index")),
            format!("{} at {}, {}, NUMA {}", of("model"), of("pci_address"), of("pci_root"), of("numa_node")),
        ));
    }
    for (name, key) in [
        ("messages in", "memory"),
        ("registered, bytes", "registered_bytes"),
        ("worker resident, bytes", "worker_resident_bytes"),
    ] {
        if let Some(value) = node.get(key).filter(|value| !value.is_null()) {
            told.push((name.to_owned(), shown(Some(value))));
        }
    }
    told
}

/// A value for people; an unknown with its reason.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(all)) => match all.get("unknown").and_then(Value::as_str) {
            Some(why) => format!("unknown ({why})"),
            None => "unknown".to_owned(),
        },
        Some(other) => other.to_string(),
    }
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn differences(nodes: &[Node]) -> Vec<Difference> {
    let [local, peer] = nodes else { return Vec::new() };
    let mut found = Vec::new();
    let mut compare = |what: &str, local: Option<&str>, peer: Option<&str>| {
        if local != peer {
            let said = |side: Option<&str>| side.unwrap_or("absent").to_owned();
            found.push(Difference { what: what.to_owned(), local: said(local), peer: said(peer) });
        }
    };
    type Pick = fn(&PluginRecord) -> String;
    let picks: [(&str, Pick); 5] = [
        ("plugin, name", |plugin| plugin.name.clone()),
        ("plugin, version", |plugin| plugin.version.clone().unwrap_or_else(|| "not logged".into())),
        ("plugin, path", |plugin| plugin.path.clone()),
        ("plugin, sha256", |plugin| plugin.sha256.clone()),
        ("plugin, ncclNet version", |plugin| format!("v{}", plugin.abi)),
    ];
    for (what, pick) in picks {
        let [local, peer] = [local, peer].map(|node| node.plugin.as_ref().map(pick));
        compare(what, local.as_deref(), peer.as_deref());
    }
    let names = |of: fn(&Node) -> Vec<String>| {
        let all: std::collections::BTreeSet<String> = [local, peer].into_iter().flat_map(of).collect();
        all
    };
    for name in names(|node| node.facts.iter().map(|fact| fact.0.clone()).collect()) {
        if OWN.contains(&name.as_str()) || name.ends_with(", bytes") {
            continue;
        }
        let of = |node: &Node| node.facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone());
        compare(&name, of(local).as_deref(), of(peer).as_deref());
    }
    for name in names(|node| node.env.keys().cloned().collect()) {
        compare(&name, local.env.get(&name).map(String::as_str), peer.env.get(&name).map(String::as_str));
    }
    found
}

/// Interfaces of a node's devices, as its worker told.
pub(super) fn devices(stream: &Stream) -> BTreeMap<String, BTreeMap<i64, String>> {
    let mut all: BTreeMap<String, BTreeMap<i64, String>> = BTreeMap::new();
    for event in &stream.events {
        let What::Said(said) = &event.what else { continue };
        if let FromAgent::Worker(FromWorker::Loaded(loaded)) = &**said {
            let of = all.entry(end_name(event)).or_default();
            of.extend(loaded.devices.iter().map(|device| (device.index as i64, device.name.clone())));
        }
    }
    all
}
