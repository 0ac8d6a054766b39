//! Run folders for the tests: a stalled run of two nodes, and a stalled run of three.

use crate::Story;
use serde_json::{Value, json};
use std::path::Path;
use tcpx_diagnose::findings_from_files;
use tcpx_recorder::format::Role;
use tcpx_recorder::{Address, Addresses, Opening, Options, Recorder};
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Lane, NodeId, NodeIntro, PairId, PairIntro, Who, WorkerId};
use tcpx_run_model::phase::{Exit, Phase};
use tcpx_run_model::record::{RunFiles, SCHEMA};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::log::LogLine;
use tcpx_words::side::Side;

/// The story of a run, judged if it has no record.
pub(super) fn gather(files: &RunFiles) -> Story {
    crate::gather(files, findings_from_files)
}

/// A run folder or bundle that version 1 wrote.
pub(super) fn v1(name: &str) -> RunFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../run-model/record/fixtures/v1");
    RunFiles::open(&folder.join(name)).expect("a run")
}

/// Names and secrets that redacted output must not contain.
pub(crate) struct Names {
    pub host: String,
    pub user: String,
    pub address: String,
    pub mac: String,
    pub token: String,
    /// Of the plugin, below the root.
    pub folder: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            host: "gpu-box-7".into(),
            user: "ada.lovelace".into(),
            address: "10.0.1.25".into(),
            mac: "42:01:0a:00:01:19".into(),
            token: "ghp_abcdefghijklmnopqrstuv".into(),
            folder: "harbor".into(),
        }
    }
}

/// Writes a run folder of a stalled run: receive channel 1 has 16 requests done, none consumed.
pub(crate) fn stalled(run: &Path, names: &Names) {
    write(run, "run.json", &record(names).to_string());
    write(
        run,
        "scenario.toml",
        &format!(
            "name = \"never-consumed\"\n# by {} in /home/{}\n",
            names.user, names.user
        ),
    );
    write(run, "events.jsonl", &events(names));
    std::fs::create_dir_all(run.join("nodes/peer")).expect("a folder");
    let frame =
        json!({ "taken_at": "2026-11-20T10:15:03Z", "sockets": [names.address], "by": names.user });
    write(run, "nodes/peer/freeze-frame.json", &frame.to_string());
}

/// Adds a recorder with a name in its label, an address in its slot, and both in its log.
pub(super) fn recorder(run: &Path, names: &Names) {
    recorder_at(run, names, "nodes/peer/recorder.tcpxrec");
}

fn recorder_at(run: &Path, names: &Names, name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        role: &names.host,
        capacity: 4,
        ring_events: 8,
        log_entries: 8,
        ..Options::new("test")
    };
    let recorder = Recorder::create_in(folder.path(), &options).expect("a recorder");
    let ip = names.address.parse().expect("an address");
    let here = Address {
        ip,
        port: 4000,
        scope: 0,
    };
    let addresses = Addresses {
        local: Some(here),
        ctrl: Some(here),
        ..Addresses::default()
    };
    let opening = Opening {
        role: Role::Recv,
        device: 0,
        comm: 1,
        retires_consumed: true,
        addresses,
    };
    recorder.open(&opening).expect("a slot");
    let text = format!(
        "eth1:{} of {} at {} with {}",
        names.address, names.user, names.mac, names.token
    );
    recorder.log(&tcpx_recorder::LogLine {
        level: 2,
        flags: 0,
        function: b"tcpxConnect",
        line: 7,
        text: text.as_bytes(),
    });
    let path = run.join(name);
    std::fs::create_dir_all(path.parent().expect("below the run")).expect("a folder");
    std::fs::copy(recorder.path(), path).expect("copied");
}

pub(super) fn write(run: &Path, name: &str, text: &str) {
    std::fs::write(run.join(name), text).expect("written");
}

fn record(names: &Names) -> Value {
    let scenario = Scenario::default();
    let Names {
        host,
        user,
        address,
        mac,
        token,
        folder,
    } = names;
    let facts = |mtu: u32| {
        json!({
            "host": { "name": host, "kernel": "6.6.93+", "boot_id": "b", "network_namespace": 1 },
            "nics": [ { "name": "eth1", "mtu": mtu, "driver": "gve", "operstate": "up", "pci_address": "0000:06:00.0",
                "speed": { "source": "sysfs", "mbit_per_s": 200_000 }, "virtual": false, "addresses": [address] } ],
            "environment": { "NCCL_DEBUG": "WARN", "NCCL_NSOCKS_PERTHREAD": "4", "NCCL_HOSTID": mac },
        })
    };
    let plugin = |path: &str| {
        json!({ "path": path, "sha256": "3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88", "abi": 7,
            "name": "GPUDirectTCPX_v7", "family": "tcpx", "version": "3.1.9", "why": "it is there", "passed_over": [] })
    };
    let channel = |id: usize, side: &str, consumed: u64| {
        json!({ "id": id, "dev": "eth1", "side": side, "posted": 64, "done": 64, "consumed": consumed, "bytes": 33_554_432,
            "in_flight_high_water": 16, "tests": 79, "tests_not_done": 15, "rc_errors": 0, "null_requests": 0,
            "latency_us": { "p50": 24.5, "p99": 61.0, "p999": 80.25, "max": 81.0 } })
    };
    json!({
        "schema": SCHEMA, "id": "20261120T101500Z-never-consumed", "started": "2026-11-20T10:15:00Z",
        "finished": "2026-11-20T10:15:14Z", "tcpxctl_version": "0.1.0", "outcome": "stalled", "exit_code": 4,
        "reason": "stalled, first seen by the peer end (recv channel 1: 16 in flight)", "next_step": "call irecv_consumed",
        "command": format!("tcpxctl run never-consumed.toml --peer {address}"),
        "scenario": { "name": "never-consumed", "sha256": "ab", "resolved": scenario },
        "nodes": [
            { "name": "local", "host": host, "address": host, "facts": facts(8244) },
            { "name": "peer", "host": "node1.c.project.internal", "address": address, "facts": facts(1460),
              "clock": { "offset_us": 120, "round_trip_us": 300 } },
        ],
        "pairs": [ { "nodes": [0, 1], "lanes": ["host"], "outcome": "stalled", "reason": "recv channel 1: 16 in flight", "workers": [
            { "role": "send", "plugin": plugin(&format!("/{folder}/lib64/libnccl-net-tcpx.so")),
              "env": { "NCCL_MIN_ZCOPY_SIZE": "4096", "HF_TOKEN": token }, "warnings": [], "log_lines": [3, 1] },
            { "role": "recv", "plugin": plugin(&format!("/home/{user}/tcpx/libnccl-net-tcpx.so")), "env": {},
              "warnings": [], "log_lines": [3, 1] },
        ] } ],
        "transfers": [ { "pair": 0, "from": 0, "to": 1, "lane": "host", "measured_ms": null, "bytes": 134_217_728,
            "verified_bytes": 58_720_256, "wrong_bytes": 0, "seconds": 0.008, "gb_per_s": 16.777_216, "median_gb_per_s": 17.25,
            "iterations": 2, "iteration_seconds": [0.0039, 0.0041], "first_iteration_seconds": 1.16, "round_trip_us": null,
            "mismatches": [], "channels": [channel(0, "send", 64), channel(1, "send", 64), channel(0, "recv", 64), channel(1, "recv", 48)] } ],
        "findings": [ { "condition": "window-never-consumed", "severity": "error", "confidence": 0.95,
            "subject": { "node": 1, "pair": 0, "name": "peer" }, "channel": 1,
            "because": [format!("recv channel 1 of {host}: all 16 requests done, none consumed"), format!("token {token} seen")],
            "cannot_see": ["why the application did not call irecv_consumed"], "next_step": "call irecv_consumed once per receive", "reference": null } ],
        "unmet": [],
    })
}

/// The text of an event stream, with fixed times.
#[derive(Default)]
struct Events(String);

impl Events {
    fn push(&mut self, ms: f64, who: Who, kind: EventKind) {
        let at = format!("2026-11-20T10:15:{:06.3}Z", ms / 1e3);
        let event = Event {
            at,
            ..Event::new(ms, who, kind)
        };
        self.0
            .push_str(&(serde_json::to_string(&event).expect("JSON") + "\n"));
    }
}

fn worker(node: u32, pair: u32) -> Who {
    Who::Worker(WorkerId::of_pair(NodeId(node), PairId(pair)))
}

fn node(name: &str, address: &str) -> NodeIntro {
    NodeIntro {
        name: name.into(),
        address: address.into(),
    }
}

fn pair(nodes: [u32; 2]) -> PairIntro {
    PairIntro::new(nodes.map(NodeId), vec![Lane::Host])
}

/// One channel after `step` rounds. A stuck channel consumes nothing after request 48.
fn window(side: Side, index: usize, step: u64, stuck: bool) -> ChannelNow {
    ChannelNow {
        side,
        index,
        posted: 4 * step,
        done: 4 * step,
        consumed: if stuck { (4 * step).min(48) } else { 4 * step },
        bytes: step * 2_097_152,
        requests: if stuck && step > 12 {
            "d".repeat((4 * step - 48) as usize)
        } else {
            String::new()
        },
        quiet_ms: 40,
        tests: 10 * step,
        tests_not_done: step,
        head_age_ms: (stuck && step > 12).then_some(1000),
        ..ChannelNow::default()
    }
}

fn exited() -> EventKind {
    EventKind::Exited(Exit {
        code: Some(130),
        signal: None,
        killed: false,
        phase: Phase::Measuring,
        in_call: None,
        channels: Vec::new(),
    })
}

fn events(names: &Names) -> String {
    let Names {
        host,
        user,
        address,
        mac,
        token,
        ..
    } = names;
    let (mut events, [local, peer]) = (Events::default(), [worker(0, 0), worker(1, 0)]);
    events.push(
        1.0,
        Who::Run,
        EventKind::Nodes(vec![node("local", host), node("peer", address)]),
    );
    events.push(1.0, Who::Run, EventKind::Pairs(vec![pair([0, 1])]));
    let line = |line: i32, text: String| {
        EventKind::PluginLine(LogLine {
            level: 2,
            function: "tcpxTest".into(),
            line,
            text,
            count: 1,
        })
    };
    events.push(
        90.0,
        peer,
        line(7, format!("NET/GPUDirectTCPX : Using [0]eth1:{address}<0>")),
    );
    events.push(
        95.0,
        peer,
        line(8, format!("an unknown line from {user} at {mac}\n{host}")),
    );
    let window = |side: Side, index: usize, step: u64, stuck: bool| ChannelNow {
        local: Some(format!("{address}:4000")),
        peer: Some("10.0.0.226:5000".into()),
        ..window(side, index, step, stuck)
    };
    let sent = |step: u64| {
        [0, 1]
            .map(|index| window(Side::Send, index, step, false))
            .to_vec()
    };
    let received = |step: u64| {
        [0, 1]
            .map(|index| window(Side::Recv, index, step, index == 1))
            .to_vec()
    };
    for step in 0..=16 {
        let ms = 100.0 + step as f64 * 50.0;
        events.push(ms, local, EventKind::Sample(sent(step)));
        events.push(ms + 5.0, peer, EventKind::Sample(received(step)));
    }
    events.push(3000.0, peer, EventKind::Stall(received(16)));
    events.push(
        3001.0,
        Who::Run,
        EventKind::Note(format!("stall declared, says {host}")),
    );
    let text = format!("password={token} for {user}");
    events.push(
        3002.0,
        peer,
        EventKind::Output {
            stream: "stderr".into(),
            text,
        },
    );
    events.push(14_000.0, peer, exited());
    events.0
}

/// The nodes of [`three`], as named on the command line.
pub(super) const THREE: [&str; 3] = ["a3-east-1", "a3-east-2", "10.0.1.33"];

/// Writes a run folder of three nodes, each of which sends to the next. The last pair has
/// stalled, and the last node has a different plugin.
pub(super) fn three(run: &Path) {
    let pairs = [[0, 1], [1, 2], [2, 0]];
    write(run, "scenario.toml", "name = \"ring\"\n");
    write(run, "events.jsonl", &three_events(pairs));
    write(run, "run.json", &three_record(pairs).to_string());
    recorder_at(
        run,
        &Names::default(),
        &format!("nodes/{}/recorder-pair2.tcpxrec", THREE[0]),
    );
}

fn three_events(pairs: [[u32; 2]; 3]) -> String {
    let mut events = Events::default();
    events.push(
        1.0,
        Who::Run,
        EventKind::Nodes(THREE.map(|name| node(name, name)).to_vec()),
    );
    events.push(1.0, Who::Run, EventKind::Pairs(pairs.map(pair).to_vec()));
    for (id, [from, to]) in (0..).zip(pairs) {
        let stuck = id == 2;
        for step in 0..=16 {
            let ms = 100.0 + step as f64 * 50.0;
            events.push(
                ms,
                worker(from, id),
                EventKind::Sample(vec![window(Side::Send, 0, step, false)]),
            );
            events.push(
                ms + 5.0,
                worker(to, id),
                EventKind::Sample(vec![window(Side::Recv, 0, step, stuck)]),
            );
        }
    }
    events.push(
        3000.0,
        worker(0, 2),
        EventKind::Stall(vec![window(Side::Recv, 0, 16, true)]),
    );
    events.push(4000.0, worker(0, 2), exited());
    events.0
}

fn three_record(pairs: [[u32; 2]; 3]) -> Value {
    let worker = |node: u32, role: &str| {
        let version = if node == 2 { "3.1.7" } else { "3.1.9" };
        json!({ "role": role, "env": { "NCCL_DEBUG": "WARN" }, "warnings": [], "log_lines": null,
            "plugin": { "path": "/opt/tcpx/libnccl-net.so", "sha256": version, "abi": 7, "name": "GPUDirectTCPX_v7", "family": "tcpx",
                "version": version, "why": "it is there", "passed_over": [] } })
    };
    let outcome = |id: usize| if id == 2 { "stalled" } else { "passed" };
    let pair = |(id, [from, to]): (usize, [u32; 2])| {
        json!({ "nodes": [from, to], "lanes": ["host"], "outcome": outcome(id),
            "workers": [worker(from, "send"), worker(to, "recv")] })
    };
    let transfer = |(id, [from, to]): (usize, [u32; 2])| {
        json!({ "pair": id, "from": from, "to": to, "lane": "host", "bytes": 1_000_000_000, "verified_bytes": 1_000_000_000,
            "wrong_bytes": 0, "seconds": 0.1, "gb_per_s": 10.0 - id as f64, "median_gb_per_s": 10.0 - id as f64, "iterations": 2,
            "iteration_seconds": [0.05, 0.05], "first_iteration_seconds": 1.0, "round_trip_us": null, "mismatches": [],
            "channels": [] })
    };
    let node = |name: &str| json!({ "name": name, "address": name, "host": name, "facts": null });
    json!({
        "schema": SCHEMA, "id": "20261120T101500Z-ring", "started": "2026-11-20T10:15:00Z", "finished": "2026-11-20T10:15:14Z",
        "tcpxctl_version": "0.1.0", "outcome": "stalled", "exit_code": 4, "reason": "one pair of three has stalled",
        "next_step": null, "scenario": { "name": "ring", "sha256": "ab", "resolved": Scenario::default() },
        "nodes": THREE.map(node),
        "pairs": pairs.into_iter().enumerate().map(pair).collect::<Vec<_>>(),
        "transfers": pairs.into_iter().enumerate().map(transfer).collect::<Vec<_>>(),
        "findings": [ { "condition": "window-never-consumed", "severity": "error", "confidence": 0.95,
            "subject": { "node": 0, "pair": 2, "name": "a3-east-1 with 10.0.1.33" }, "channel": 0, "because": ["all 16 requests done"],
            "cannot_see": [], "next_step": null, "reference": null } ],
        "unmet": [],
    })
}
