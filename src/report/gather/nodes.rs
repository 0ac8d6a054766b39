//! Nodes and workers: their facts, their plugins and environment, and how nodes differ.
#![forbid(unsafe_code)]

use crate::story::{NodeDifference, Story, StoryNode, StoryPair, StoryProcess, StoryWorker};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{NodeId, PairId, WorkerId};
use tcpx_run_model::results::{Driving, PluginRecord};
use tcpx_run_model::state::{NodeState, RunState, WorkerState};
use tcpx_words::units::counted;

/// The facts of a node that a report shows: name, and JSON pointer into the facts.
const FACTS: [(&str, &str); 9] = [
    ("kernel", "/host/kernel"),
    ("boot id", "/host/boot_id"),
    ("network namespace", "/host/network_namespace"),
    ("CPU", "/cpu/model"),
    ("CPUs", "/cpu/online"),
    ("memory, bytes", "/cpu/memory_total_bytes"),
    ("NVIDIA driver", "/gpus/driver_version"),
    ("open files, soft limit", "/limits/open_files/soft"),
    (
        "locked memory, soft limit",
        "/limits/locked_memory_bytes/soft",
    ),
];
/// Facts that are different on every machine, so they are not compared.
const OWN: [&str; 2] = ["boot id", "network namespace"];

/// The facts of a worker that a report shows: name, and key in the record.
const USED: [(&str, &str); 4] = [
    ("messages in", "memory"),
    ("windows", "windows"),
    ("registered, bytes", "registered_bytes"),
    ("worker resident, bytes", "resident_bytes"),
];

pub(super) fn add_nodes(record: Option<&Value>, state: &RunState, story: &mut Story) {
    let list = |key: &str| {
        record
            .and_then(|record| record[key].as_array())
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let (nodes, pairs) = (list("nodes"), list("pairs"));
    // An event stream of version 1 does not introduce its two nodes, so the names alone do not
    // show that anything is known about them.
    // Nor does a recording describe its machine.
    let has_workers = state.workers.keys().any(|worker| worker.pair().is_some());
    let is_known = !nodes.is_empty() || !state.nodes.is_empty() || has_workers;
    if !is_known || state.names.nodes.is_empty() {
        let why = "no run.json, event or recording describes them";
        story.lacks("nodes", why);
    }
    if !is_known {
        return;
    }
    for (id, intro) in (0..).zip(&state.names.nodes) {
        let node_state = state.node(NodeId(id));
        let mut node = match nodes.get(id as usize) {
            Some(value) => recorded_node(value),
            None => node_of_state(node_state),
        };
        (node.name, node.address) = (intro.name.clone(), intro.address.clone());
        if let Some(broken) = node_state.and_then(|node| node.broken.as_ref()) {
            node.last_words = vec![format!("the agent: {}", broken.what)];
        }
        story.nodes.push(node);
    }
    for (id, intro) in (0..).zip(&state.names.pairs) {
        let value = pairs.get(id as usize);
        let worker = |place: usize| {
            let id = WorkerId::of_pair(intro.nodes[place], PairId(id));
            worker(id, value.map(|pair| &pair["workers"][place]), state)
        };
        story.pairs.push(StoryPair {
            nodes: intro.nodes,
            lanes: intro.lanes.clone(),
            rail: intro.rail.clone(),
            round: intro.round,
            outcome: value.and_then(|pair| Deserialize::deserialize(&pair["outcome"]).ok()),
            reason: value.and_then(|pair| Some(pair["reason"].as_str()?.to_owned())),
            workers: [worker(0), worker(1)],
        });
    }
    story.differences = differences(story);
}

/// Adds the processes that no run started.
pub(super) fn add_processes(state: &RunState, story: &mut Story) {
    for worker in state.workers.values() {
        let Some(process) = &worker.process else {
            continue;
        };
        let subject = Subject::worker(worker.id, &state.names);
        if process.unrecorded > 0 {
            let comms = counted(process.unrecorded as usize, "comm");
            let why = format!("its recorder had no slot or no memory for {comms}");
            story.lacks(&format!("channels of {}", subject.name), why);
        }
        story.processes.push(StoryProcess {
            worker: subject,
            role: process.role.clone(),
            plugin: process.plugin.clone(),
            ended: match (process.is_gone, &process.ended) {
                (false, _) => "was running".to_owned(),
                (true, Some(how)) => how.clone(),
                (true, None) if process.is_copy => "runs; its recorder is a copy".to_owned(),
                (true, None) if process.is_elsewhere => {
                    "of another boot, machine or container; its end was not seen".to_owned()
                }
                (true, None) => "is gone".to_owned(),
            },
        });
    }
}

fn recorded_node(value: &Value) -> StoryNode {
    StoryNode {
        host: value["host"].as_str().unwrap_or_default().to_owned(),
        clock: Deserialize::deserialize(&value["clock"]).ok(),
        facts: facts(&value["facts"]),
        env: strings(&value["facts"]["environment"]),
        ..StoryNode::default()
    }
}

/// A node of a run without a record, from the facts that its agent sent when it connected.
fn node_of_state(state: Option<&NodeState>) -> StoryNode {
    let recorded = state
        .and_then(|state| serde_json::to_value(state.facts.as_ref()?).ok())
        .unwrap_or_default();
    StoryNode {
        host: recorded
            .pointer("/host/name")
            .and_then(Value::as_str)
            .unwrap_or("unknown")
            .to_owned(),
        clock: state.and_then(|state| state.clock),
        facts: facts(&recorded),
        env: strings(&recorded["environment"]),
        ..StoryNode::default()
    }
}

fn worker(id: WorkerId, value: Option<&Value>, state: &RunState) -> StoryWorker {
    let heard = state.workers.get(&id);
    let ready = || heard.and_then(|heard| Some(heard.plugin.as_ref()?.plugin.clone()));
    let value = value.unwrap_or(&Value::Null);
    let used = |(name, key): (&str, &str)| {
        let used = value.get(key).filter(|used| !used.is_null())?;
        Some((name.to_owned(), shown(Some(used))))
    };
    let driving = Driving::deserialize(&value["driving"]).ok();
    let driven_by = driving
        .as_ref()
        .map(|driving| ("driven by".to_owned(), driving.to_string()));
    StoryWorker {
        name: state.names.worker(id),
        role: Deserialize::deserialize(&value["role"]).ok(),
        plugin: Deserialize::deserialize(&value["plugin"])
            .ok()
            .or_else(ready),
        env: strings(&value["env"]),
        facts: USED.into_iter().filter_map(used).chain(driven_by).collect(),
        driving,
        last_words: heard.map(last_words).unwrap_or_default(),
    }
}

fn last_words(worker: &WorkerState) -> Vec<String> {
    let failed = worker.failure.as_ref().map(|failure| {
        (
            failure.at_ms,
            format!("{}: {}", failure.what.phase, failure.what.message),
        )
    });
    let exited = worker.exit.as_ref().map(|exit| {
        let (at_ms, exit) = (exit.at_ms, &exit.what);
        let call = exit
            .in_call
            .as_ref()
            .map(|call| format!(", inside {call}"))
            .unwrap_or_default();
        (
            at_ms,
            format!("the worker {} while {}{call}", exit.how(), exit.phase),
        )
    });
    let mut words: Vec<(f64, String)> = failed.into_iter().chain(exited).collect();
    words.sort_by(|a, b| a.0.total_cmp(&b.0));
    words.into_iter().map(|(_, words)| words).collect()
}

fn facts(facts: &Value) -> Vec<(String, String)> {
    if !facts.is_object() {
        return Vec::new();
    }
    let mut shown_facts: Vec<(String, String)> = FACTS
        .iter()
        .map(|(name, pointer)| ((*name).to_owned(), shown(facts.pointer(pointer))))
        .collect();
    let numa = facts["cpu"]["numa_nodes"]
        .as_array()
        .map_or("unknown".to_owned(), |all| all.len().to_string());
    shown_facts.push(("NUMA nodes".to_owned(), numa));
    for nic in facts["nics"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|nic| nic["virtual"] != Value::Bool(true))
    {
        let fact = |key: &str| shown(nic.get(key));
        let speed = nic["speed"]["mbit_per_s"]
            .as_u64()
            .map_or("speed unreadable".to_owned(), |speed| {
                format!("{speed} Mbit/s")
            });
        let words = format!(
            "{}, {}, MTU {}, {speed}, {} at {}, NUMA {}",
            fact("driver"),
            fact("operstate"),
            fact("mtu"),
            fact("pci_address"),
            fact("pci_root"),
            fact("numa_node")
        );
        shown_facts.push((format!("NIC {}", fact("name")), words));
    }
    for gpu in facts["gpus"]["devices"].as_array().into_iter().flatten() {
        let fact = |key: &str| shown(gpu.get(key));
        let words = format!(
            "{} at {}, {}, NUMA {}",
            fact("model"),
            fact("pci_address"),
            fact("pci_root"),
            fact("numa_node")
        );
        shown_facts.push((format!("GPU {}", fact("index")), words));
    }
    shown_facts
}

/// A fact as text; for an unknown fact, the reason.
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
    pairs
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn differences(story: &Story) -> Vec<NodeDifference> {
    if story.nodes.len() < 2 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut compare = |what: &str, of: &dyn Fn(NodeId, &StoryNode) -> Option<String>| {
        let values: Vec<Option<String>> = (0..)
            .zip(&story.nodes)
            .map(|(id, node)| of(NodeId(id), node))
            .collect();
        if values.iter().any(|value| *value != values[0]) {
            found.push(NodeDifference {
                what: what.to_owned(),
                values,
            });
        }
    };
    let mut by_node: BTreeMap<NodeId, Vec<&StoryWorker>> = BTreeMap::new();
    story
        .workers()
        .for_each(|(id, worker)| by_node.entry(id.node).or_default().push(worker));
    // The value of a node's workers, joined with `and` where they differ among themselves.
    let of_workers = |node: NodeId, pick: &dyn Fn(&StoryWorker) -> Option<String>| {
        let values: BTreeSet<String> = by_node
            .get(&node)?
            .iter()
            .filter_map(|worker| pick(worker))
            .collect();
        (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" and "))
    };
    type Pick = fn(&PluginRecord) -> String;
    let picks: [(&str, Pick); 5] = [
        ("plugin, name", |plugin| plugin.name.clone()),
        ("plugin, version", |plugin| {
            plugin
                .version
                .clone()
                .unwrap_or_else(|| "not logged".into())
        }),
        ("plugin, path", |plugin| plugin.path.clone()),
        ("plugin, sha256", |plugin| plugin.sha256.clone()),
        ("plugin, ncclNet version", |plugin| {
            format!("v{}", plugin.abi)
        }),
    ];
    for (what, pick) in picks {
        compare(what, &|id, _| {
            of_workers(id, &|worker| worker.plugin.as_ref().map(pick))
        });
    }
    let of_nodes = story.nodes.iter().flat_map(|node| &node.facts);
    let of_all = of_nodes.chain(story.workers().flat_map(|(_, worker)| &worker.facts));
    let names: BTreeSet<&str> = of_all.map(|fact| fact.0.as_str()).collect();
    for name in names
        .into_iter()
        .filter(|name| !OWN.contains(name) && !name.ends_with(", bytes"))
    {
        let fact = |facts: &[(String, String)]| {
            facts
                .iter()
                .find(|fact| fact.0 == name)
                .map(|fact| fact.1.clone())
        };
        compare(name, &|id, node| {
            fact(&node.facts).or_else(|| of_workers(id, &|worker| fact(&worker.facts)))
        });
    }
    // What a run sets for a worker replaces what its node sets.
    let of_nodes = story.nodes.iter().flat_map(|node| node.env.keys());
    let of_all = of_nodes.chain(story.workers().flat_map(|(_, worker)| worker.env.keys()));
    let names: BTreeSet<&String> = of_all.collect();
    for name in names {
        compare(name, &|id, node| {
            let set = of_workers(id, &|worker| worker.env.get(name).cloned());
            set.or_else(|| node.env.get(name).cloned())
        });
    }
    found
}
