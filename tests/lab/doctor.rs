//! `doctor --peer`: checks both nodes and every rail between them.

use crate::lab::Lab;
use crate::peer::PEER;
use serde_json::Value;
use std::path::Path;

fn both(lab: &Lab) -> Value {
    let ended = lab.run(
        "node0",
        &["doctor", "--plugin", "soft", "--peer", PEER, "--json"],
    );
    let document = ended.json();
    assert_eq!(
        document["exit_code"].as_i64(),
        ended.status.code().map(i64::from),
        "{ended}"
    );
    document
}

/// The rows that are not PASS, as `id: value`.
fn odd(document: &Value) -> Vec<String> {
    let rows = document["both"].as_array().unwrap().iter();
    let odd = rows.filter(|row| row["verdict"] != "PASS");
    odd.map(|row| {
        format!(
            "{}: {}",
            row["id"].as_str().unwrap(),
            row["value"].as_str().unwrap()
        )
    })
    .collect()
}

#[test]
fn a_healthy_pair_passes_and_each_faulty_rail_is_named() {
    let Some(lab) = Lab::up() else { return };
    let document = both(&lab);
    assert_eq!(odd(&document), Vec::<String>::new());
    assert_eq!(
        (&document["node"], &document["peer"]["node"]),
        (&"node0".into(), &"node1".into())
    );
    assert_eq!(document["exit_code"], 0, "{document:#}");

    lab.hurt("node1", "eth2", "blackhole");
    let found = odd(&both(&lab));
    assert_eq!(found[0], "peer-rail-reachable: no (eth2)", "{found:#?}");
    lab.heal();

    lab.exec(
        "node1",
        &["ip", "link", "set", "dev", "eth3", "mtu", "1500"],
    );
    let found = odd(&both(&lab));
    assert_eq!(
        found,
        [
            "peer-interfaces: eth3: MTU 8244 here, MTU 1500 there",
            "peer-rail-mtu: no (eth3)"
        ]
    );
    lab.is_left_clean();
}

#[test]
fn a_firewall_on_part_of_the_port_range_is_detected_from_the_peer() {
    let Some(lab) = Lab::up() else { return };
    let rules = "table inet hurt { chain in { type filter hook input priority 0; iifname eth4 tcp dport 40000-50000 drop; }; }";
    lab.exec(
        "node0",
        &["sh", "-c", &format!("echo '{rules}' | nft -f -")],
    );
    let found = odd(&both(&lab));
    assert!(
        found.len() == 1
            && found[0].starts_with("peer-rail-ports: ")
            && found[0].ends_with("(eth4)"),
        "{found:#?}"
    );
}

#[test]
fn a_peer_that_cannot_be_reached_is_exit_5() {
    let Some(lab) = Lab::up() else { return };
    let ended = lab.run(
        "node0",
        &["doctor", "--plugin", "soft", "--peer", "10.0.0.227"],
    );
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["10.0.0.227", "next: "]);
}

#[test]
fn a_plugin_missing_on_one_node_is_reported() {
    let Some(lab) = Lab::up() else { return };
    let library =
        Path::new(env!("CARGO_BIN_EXE_tcpxctl")).with_file_name("deps/libnccl_net_tcpxsoft.so");
    lab.exec("node0", &["cp", library.to_str().unwrap(), "/root/mine.so"]);
    let ended = lab.run(
        "node0",
        &["doctor", "--plugin", "/root/mine.so", "--peer", PEER],
    );
    assert_eq!(ended.status.code(), Some(3), "{ended}");
    ended.says(&[
        "plugin on 10.0.0.226: /root/mine.so",
        "put the same file on both nodes",
    ]);
}
