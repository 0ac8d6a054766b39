//! A run that loses a process, a node or a connection ends soon, names the loss, keeps its
//! evidence, and leaves nothing on either node.

use crate::lab::{Lab, NODES, address};
use crate::peer::{PEER, small};
use crate::tcpxctl::{Ended, Process, Running};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Time limit from the loss to the end of the run: 10 s, and the rest for a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// The process with this role on a node.
fn process(lab: &Lab, node: &str, role: &str) -> Process {
    let all = lab.ps(node);
    all.iter()
        .find(|process| process.role == role)
        .cloned()
        .unwrap_or_else(|| panic!("no {role} in {all:?}"))
}

/// An endless run that has begun to measure.
fn under_way(lab: &Lab, node: &str, more: &[&str]) -> Running {
    let endless = ["transfer.iterations=1000000", "limits.total=50s"];
    let mut run = small(lab, node, more).set(&endless).start();
    measures(&mut run);
    run
}

/// Waits until both ends have sent a sample.
fn measures(run: &mut Running) {
    let ended = "\"iteration\":{\"index\":3";
    run.until("a fourth iteration on both ends", |run| {
        run.events().matches(ended).count() >= 2
    });
}

/// Causes a loss during a run, which must then end soon with `code` and `outcome`.
fn loses(what: impl FnOnce(&Lab), code: i32, outcome: &str) {
    let Some(lab) = Lab::up() else { return };
    let run = under_way(&lab, "node0", &[]);
    let at = Instant::now();
    what(&lab);
    let ended = run.ended();
    is_over(&lab, &ended, at);
    assert_eq!(ended.status.code(), Some(code), "{ended}");
    let record = ended.recorded(outcome);
    assert!(
        record["transfers"][0]["bytes"].as_u64().unwrap() > 0,
        "nothing was kept: {record}"
    );
}

fn is_over(lab: &Lab, ended: &Ended, at: Instant) {
    assert!(at.elapsed() < SOON, "{:?}\n{ended}", at.elapsed());
    lab.is_left_clean();
    assert!(
        at.elapsed() < SOON,
        "the last process went after {:?}\n{ended}",
        at.elapsed()
    );
}

#[test]
fn loss_of_the_peers_agent() {
    loses(|lab| process(lab, "node1", "agent").kill(), 5, "peer-lost");
}

#[test]
fn loss_of_the_local_agent() {
    loses(|lab| process(lab, "node0", "agent").kill(), 5, "peer-lost");
}

#[test]
fn loss_of_the_peers_worker() {
    loses(
        |lab| process(lab, "node1", "worker").kill(),
        6,
        "plugin-died",
    );
}

#[test]
fn loss_of_the_local_worker() {
    loses(
        |lab| process(lab, "node0", "worker").kill(),
        6,
        "plugin-died",
    );
}

#[test]
fn loss_of_the_ssh_connection() {
    loses(
        |lab| lab.sessions("node1").iter().for_each(Process::kill),
        5,
        "peer-lost",
    );
}

#[test]
fn loss_of_the_control_network() {
    loses(|lab| lab.hurt("node1", "eth0", "blackhole"), 5, "peer-lost");
}

#[test]
fn loss_of_one_direction_of_the_control_network() {
    loses(|lab| lab.hurt("node1", "eth0", "oneway in"), 5, "peer-lost");
}

#[test]
fn silent_loss_of_the_whole_peer() {
    loses(|lab| lab.hurt("node1", "all", "blackhole"), 5, "peer-lost");
}

#[test]
fn a_stopped_peer_is_lost_and_ends_once_it_continues() {
    let stop = |lab: &Lab| {
        lab.ps("node1")
            .iter()
            .for_each(|process| process.signal(Signal::STOP))
    };
    let Some(lab) = Lab::up() else { return };
    let run = under_way(&lab, "node0", &[]);
    let at = Instant::now();
    stop(&lab);
    let ended = run.ended();
    assert!(at.elapsed() < SOON, "{:?}\n{ended}", at.elapsed());
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.recorded("peer-lost");
    // A stopped process cannot end; it ends once it continues.
    lab.ps("node1")
        .iter()
        .for_each(|process| process.signal(Signal::CONT));
    lab.is_left_clean();
}

#[test]
fn loss_of_the_coordinator() {
    for (from, node, more) in [
        ("node0", "node0", &[][..]),
        ("laptop", "laptop", &["--from", "10.0.1.25"]),
    ] {
        let Some(lab) = Lab::up() else { return };
        let run = under_way(&lab, from, more);
        let at = Instant::now();
        process(&lab, node, "run").kill();
        let ended = run.ended();
        is_over(&lab, &ended, at);
    }
}

#[test]
fn ctrl_c_ends_a_run_between_two_nodes() {
    let Some(lab) = Lab::up() else { return };
    let run = under_way(&lab, "node0", &[]);
    let at = Instant::now();
    process(&lab, "node0", "run").signal(Signal::INT);
    let ended = run.ended();
    is_over(&lab, &ended, at);
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    ended.recorded("interrupted");
}

/// Injects a fault on eth2 of node1, one of two rails of a run, which then stalls; returns its
/// record.
fn a_rail(breaks: impl FnOnce(&Lab)) -> Option<Value> {
    let lab = Lab::up()?;
    let limits = [
        "limits.stall_after=2s",
        "limits.give_up_after=1s",
        "topology.nics=[\"eth1\", \"eth2\"]",
    ];
    let endless = ["transfer.iterations=1000000", "limits.total=50s"];
    let mut run = small(&lab, "node0", &[]).set(&limits).set(&endless).start();
    measures(&mut run);
    breaks(&lab);
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(4), "{ended}");
    let record = ended.recorded("stalled");
    lab.is_left_clean();
    Some(record)
}

#[test]
fn loss_of_a_rail_is_a_stall_and_not_a_lost_peer() {
    a_rail(|lab| lab.hurt("node1", "eth2", "blackhole"));
}

/// The condition comes first, with this fact, and what follows from it is no error.
fn is_first(record: &Value, condition: &str, fact: &str) {
    let found = &record["findings"][0];
    assert_eq!(
        (&found["condition"], &found["severity"]),
        (&condition.into(), &"error".into()),
        "{record:#}"
    );
    assert!(
        found["because"][0].as_str().unwrap().contains(fact),
        "{found:#}"
    );
    let others = record["findings"].as_array().unwrap();
    assert!(
        others[1..].iter().all(|one| one["severity"] != "error"),
        "{others:#?}"
    );
}

#[test]
fn a_rail_that_is_down_ranks_before_its_consequences() {
    if let Some(record) = a_rail(|lab| lab.hurt("node1", "eth2", "down")) {
        is_first(&record, "link-down", "eth2 is down");
    }
}

/// A run of many connections on a rail of node1 with this fault, which is given up; returns its record.
fn unconnected(how: &str) -> Option<Value> {
    let lab = Lab::up()?;
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/8conn-1nic.toml");
    let limits = ["limits.connect=10s", "limits.give_up_after=5s"];
    lab.hurt("node1", "eth1", how);
    let tool = lab.tool("node0", &["run", scenario, "--peer", PEER]);
    let ended = tool.set(&limits).ends_with(4);
    lab.is_left_clean();
    Some(ended.recorded("stalled"))
}

#[test]
fn heavy_loss_is_named_whether_or_not_the_pair_connects() {
    // Seven of ten handshakes of one SYN fail.
    if let Some(record) = unconnected("loss 45") {
        let first = &record["findings"][0]["condition"];
        assert_eq!(first, "network-loss", "{:#}", record["findings"]);
    }
}

#[test]
fn a_rail_that_drops_every_syn_is_not_called_loss() {
    if let Some(record) = unconnected("blackhole") {
        let first = &record["findings"][0]["condition"];
        assert_eq!(first, "connect-never-completes", "{:#}", record["findings"]);
    }
}

#[test]
fn an_address_that_is_removed_is_not_called_loss() {
    let remove = |lab: &Lab| {
        let prefix = format!("{}/24", address("node1", "eth2"));
        lab.exec("node1", &["ip", "address", "del", &prefix, "dev", "eth2"]);
    };
    if let Some(record) = a_rail(remove) {
        is_first(&record, "address-gone", "no interface has 192.168.2.226");
    }
}

#[test]
fn a_slow_rail_of_a_run_that_passes_is_named() {
    let Some(lab) = Lab::up() else { return };
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/4conn.toml");
    let short = [
        "transfer.total=32MiB",
        "transfer.iterations=6",
        "transfer.warmup=1",
    ];
    for hurts in [&["rate 200"][..], &["loss 1", "delay 20"]] {
        for how in hurts {
            lab.hurt("node1", "eth2", how);
        }
        let tool = lab.tool("node0", &["run", scenario, "--peer", PEER]);
        let record = tool.set(&short).ends_with(0).recorded("passed");
        let found = record["findings"].as_array().unwrap();
        let is = |one: &&Value| one["condition"] == "rail-slower-than-others";
        let rail = found.iter().find(is);
        let rail = rail.unwrap_or_else(|| panic!("{hurts:?}: {:#}", record["pairs"]));
        assert!(
            rail["because"][0].as_str().unwrap().contains("over eth2 "),
            "{rail:#}"
        );
        lab.heal();
    }
}

#[test]
fn packet_loss_on_a_rail_does_not_fail_the_run() {
    let Some(lab) = Lab::up() else { return };
    for how in ["loss 1", "delay 5", "rate 200"] {
        lab.hurt("node1", "eth1", how);
        let ended = small(&lab, "node0", &[]).ends_with(0);
        println!("{how}: {:?}", ended.took);
        assert_eq!(ended.recorded("passed")["transfers"][0]["wrong_bytes"], 0);
        lab.heal();
    }
    assert_eq!(NODES.map(|node| lab.done(&["ps", node])), ["", ""]);
}

/// tcpxctl is being copied to the peer when the connection goes dead. The first Ctrl-C ends the
/// run, and the peer removes its part of the copy although it hears nothing more.
fn interrupted_upload(more: &[&str]) {
    let Some(lab) = Lab::up() else { return };
    lab.hurt("node1", "eth0", "rate 20");
    let run = small(&lab, "node0", more).start();
    let cache = lab.path("node1", "/root/.cache/tcpxctl");
    let parts = || {
        let files = std::fs::read_dir(&cache).into_iter().flatten().flatten();
        let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with(".up-"));
        parts
            .filter_map(|part| Some(part.metadata().ok()?.len()))
            .collect::<Vec<_>>()
    };
    within(Duration::from_secs(30), || {
        parts().iter().any(|size| *size > 0)
    });
    lab.hurt("node1", "eth0", "blackhole");
    let at = Instant::now();
    process(&lab, "node0", "run").signal(Signal::INT);
    let ended = run.ended();
    assert!(at.elapsed() < Duration::from_secs(5), "{ended}");
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    ended.says(&["10.0.0.226", "interrupted"]);
    within(Duration::from_secs(60), || parts().is_empty());
}

fn within(limit: Duration, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < limit, "not within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_c_ends_an_upload_over_a_dead_connection() {
    interrupted_upload(&[]);
}

#[test]
fn ctrl_c_ends_an_upload_over_a_dead_connection_of_another_program() {
    interrupted_upload(&["--rsh", "ssh"]);
}
