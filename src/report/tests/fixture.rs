//! Run folders made from data: what a stalled run of two nodes leaves, and what is
//! left of it when it was killed.

use crate::coord::event::{Event, What};
use crate::coord::message::{Exit, FromAgent, Phase};
use serde_json::{Value, json};
use std::path::Path;
use tcpx_recorder::format::Role;
use tcpx_recorder::{Address, Addresses, Opening, Options, Recorder};
use tcpx_run_model::record::ChannelNow;
use tcpx_run_model::scenario::Scenario;
use tcpx_words::log::LogLine;

/// Names that no output may hold.
pub(super) struct Names {
    pub host: String,
    pub user: String,
    pub address: String,
    pub mac: String,
    pub token: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            host: "gpu-box-7".into(),
            user: "ada.lovelace".into(),
            address: "10.0.1.25".into(),
            mac: "42:01:0a:00:01:19".into(),
            token: "ghp_abcdefghijklmnopqrstuv".into(),
        }
    }
}

/// Writes a run folder: receive channel 1 waits with 16 done.
pub(super) fn stalled(run: &Path, names: &Names) {
    write(run, "run.json", &record(names).to_string());
    write(run, "scenario.toml", &format!("name = \"never-consumed\"\n# by {} in /home/{}\n", names.user, names.user));
    write(run, "events.jsonl", &events(names));
    std::fs::create_dir_all(run.join("nodes/peer")).expect("a folder");
    let frame = json!({ "taken_at": "2026-11-20T10:15:03Z", "sockets": [names.address], "by": names.user });
    write(run, "nodes/peer/freeze-frame.json", &frame.to_string());
}

/// A recorder with a name in its label, an address in its slot and both in its log.
pub(super) fn recorder(run: &Path, names: &Names) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { role: &names.host, capacity: 4, ring_events: 8, log_entries: 8, ..Options::new("test") };
    let recorder = Recorder::create_in(folder.path(), &options).expect("a recorder");
    let ip = names.address.parse().expect("an address");
    let here = Address { ip, port: 4000, scope: 0 };
    let addresses = Addresses { local: Some(here), ctrl: Some(here), ..Addresses::default() };
    let opening = Opening { role: Role::Recv, device: 0, comm: 1, retires_consumed: true, addresses };
    recorder.open(&opening).expect("a slot");
    let text = format!("eth1:{} of {} at {} with {}", names.address, names.user, names.mac, names.token);
    recorder.log(&tcpx_recorder::LogLine {
        level: 2,
        flags: 0,
        function: b"tcpxConnect",
        line: 7,
        text: text.as_bytes(),
    });
    std::fs::create_dir_all(run.join("nodes/peer")).expect("a folder");
    std::fs::copy(recorder.path(), run.join("nodes/peer/recorder.tcpxrec")).expect("copied");
}

pub(super) fn write(run: &Path, name: &str, text: &str) {
    std::fs::write(run.join(name), text).expect("written");
}

fn record(names: &Names) -> Value {
    let scenario = Scenario::default();
    let Names { host, user, address, mac, token } = names;
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
            "name": "GPUDirectTCPX_v7", "version": "3.1.9", "why": "it is there", "passed_over": [] })
    };
    let channel = |id: usize, side: &str, consumed: u64| {
        json!({ "id": id, "dev": "eth1", "side": side, "posted": 64, "done": 64, "consumed": consumed, "bytes": 33_554_432,
            "in_flight_high_water": 16, "tests": 79, "tests_not_done": 15, "rc_errors": 0, "null_requests": 0,
            "latency_us": { "p50": 24.5, "p99": 61.0, "p999": 80.25, "max": 81.0 } })
    };
    json!({
        "schema": "tcpxctl.run/1", "id": "20261120T101500Z-never-consumed", "started": "2026-11-20T10:15:00Z",
        "finished": "2026-11-20T10:15:14Z", "tcpxctl_version": "0.1.0", "outcome": "stalled", "exit_code": 4,
        "reason": "stalled, first seen by the peer end (recv channel 1: 16 in flight)", "next_step": "call irecv_consumed",
        "command": format!("tcpxctl run never-consumed.toml --peer {address}"),
        "scenario": { "name": "never-consumed", "sha256": "ab", "resolved": scenario },
        "nodes": [
            { "name": "local", "role": "send", "host": host, "address": host, "plugin": plugin("/usr/local/tcpx/lib64/libnccl-net-tcpx.so"),
              "env": { "NCCL_MIN_ZCOPY_SIZE": "4096", "HF_TOKEN": token }, "facts": facts(8244), "warnings": [], "log_lines": [3, 1] },
            { "name": "peer", "role": "recv", "host": "node1.c.project.internal", "address": address,
              "plugin": plugin(&format!("/home/{user}/tcpx/libnccl-net-tcpx.so")), "env": {}, "facts": facts(1460),
              "clock": { "offset_us": 120, "round_trip_us": 300 }, "warnings": [], "log_lines": [3, 1] },
        ],
        "transfers": [ { "from": "local", "to": "peer", "gpu": null, "measured_ms": null, "bytes": 134_217_728,
            "verified_bytes": 58_720_256, "wrong_bytes": 0, "seconds": 0.008, "gb_per_s": 16.777_216, "median_gb_per_s": 17.25,
            "iterations": 2, "iteration_seconds": [0.0039, 0.0041], "first_iteration_seconds": 1.16, "round_trip_us": null,
            "mismatches": [], "channels": [channel(0, "send", 64), channel(1, "send", 64), channel(0, "recv", 64), channel(1, "recv", 48)] } ],
        "findings": [ { "condition": "window-never-consumed", "severity": "error", "confidence": 0.95, "node": "peer", "channel": 1,
            "because": [format!("recv channel 1 of {host}: all 16 requests done, none consumed"), format!("token {token} seen")],
            "cannot_see": ["who should have consumed them"], "next_step": "call irecv_consumed once per receive", "reference": null } ],
        "unmet": [],
    })
}

fn events(names: &Names) -> String {
    let Names { host, user, address, mac, token } = names;
    let mut text = String::new();
    let mut say = |ms: f64, node: &str, what: What| {
        let at = format!("2026-11-20T10:15:{:06.3}Z", ms / 1e3);
        let event = Event { at, ms, node: node.into(), gpu: None, node_us: None, what };
        text.push_str(&serde_json::to_string(&event).expect("JSON"));
        text.push('\n');
    };
    let said = |said| What::Said(Box::new(said));
    let line = |line: i32, text: String| {
        said(FromAgent::PluginLine(LogLine { level: 2, function: "tcpxTest".into(), line, text, count: 1 }))
    };
    say(90.0, "peer", line(7, format!("NET/GPUDirectTCPX : Using [0]eth1:{address}<0>")));
    say(95.0, "peer", line(8, format!("a line that nobody knows, of {user} at {mac}\n{host}")));
    let window = |side: &str, index: usize, step: u64, stuck: bool| ChannelNow {
        side: side.into(),
        index,
        posted: 4 * step,
        done: 4 * step,
        consumed: if stuck { (4 * step).min(48) } else { 4 * step },
        bytes: step * 2_097_152,
        requests: if stuck && step > 12 { "d".repeat((4 * step - 48) as usize) } else { String::new() },
        quiet_ms: 40,
        tests: 10 * step,
        tests_not_done: step,
        head_age_ms: (stuck && step > 12).then_some(1000),
        local: Some(format!("{address}:4000")),
        peer: Some("10.0.0.226:5000".into()),
        ..ChannelNow::default()
    };
    for step in 0..=16 {
        let ms = 100.0 + step as f64 * 50.0;
        say(ms, "local", said(FromAgent::Sample(vec![window("send", 0, step, false), window("send", 1, step, false)])));
        say(
            ms + 5.0,
            "peer",
            said(FromAgent::Sample(vec![window("recv", 0, step, false), window("recv", 1, step, true)])),
        );
    }
    say(3000.0, "peer", said(FromAgent::Stall(vec![window("recv", 0, 16, false), window("recv", 1, 16, true)])));
    say(3001.0, "coordinator", What::Note(format!("stall declared, says {host}")));
    say(
        3002.0,
        "peer",
        said(FromAgent::Output { stream: "stderr".into(), text: format!("password={token} for {user}") }),
    );
    let exit = Exit {
        code: Some(130),
        signal: None,
        killed: false,
        phase: Phase::Measuring,
        in_call: None,
        channels: Vec::new(),
    };
    say(14_000.0, "peer", said(FromAgent::Exited(exit)));
    text
}
