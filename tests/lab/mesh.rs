//! Meshes of nodes that are not alike: each difference is said, and the others are measured.

use crate::lab::Lab;
use crate::peer::PEER;
use crate::tcpxctl::Tool;

const SMALL: [&str; 4] = [
    "transfer.total=256KiB",
    "transfer.iterations=2",
    "transfer.connections=1",
    "plugin.name=builtin",
];

fn mesh(lab: &Lab, hosts: &str, flags: &[&str]) -> Tool {
    let words = [&["run", "mesh", "--hosts", hosts], flags].concat();
    lab.tool("node0", &words).set(&SMALL)
}

#[test]
fn a_second_name_and_a_missing_interface_are_said_and_rails_keep_their_names() {
    let Some(lab) = Lab::of(4) else { return };
    lab.exec("node2", &["ip", "link", "set", "eth2", "down"]);
    let ended = mesh(&lab, &format!("node[0-3],{PEER}"), &[]).ends_with(0);
    ended.says(&[
        "Mesh of 5 nodes",
        &format!("Missing : {PEER}: it is the same machine as node1 (host name node1)"),
        "Differs : node2 has the data interfaces eth1 eth3 eth4; the other nodes have",
    ]);
    let record = ended.recorded("passed");
    let pairs = record["pairs"].as_array().unwrap();
    let rails: Vec<_> = pairs.iter().map(|pair| &pair["rail"]["nics"]).collect();
    assert!(rails.iter().all(|nics| nics[0] == nics[1]), "{rails:?}");
    let first = record["mesh"]["first_retest"].as_u64();
    let first = first.map_or(pairs.len(), |first| first as usize);
    // Six pairs on four rails, without those of node2 on eth2.
    assert_eq!(first, 6 * 4 - 3);
    lab.is_left_clean();
}

#[test]
fn a_node_with_a_full_disk_is_missing_and_the_others_are_measured() {
    let Some(lab) = Lab::of(3) else { return };
    let full = "mkdir -p /root/.cache; mount -t tmpfs -o size=2m tmpfs /root/.cache";
    lab.exec("node2", &["sh", "-ec", full]);
    let ended = mesh(&lab, "node[0-2]", &["--allow-missing", "1"]).ends_with(0);
    ended.says(&["Missing : node2: ", "No space left on device"]);
    let ended = mesh(&lab, "node[0-2]", &[]).ends_with(3);
    ended.says(&["node2", "No space left on device"]);
    lab.is_left_clean();
}
