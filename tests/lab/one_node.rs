//! Commands with both ends in one node of the lab: the flows use the addresses of its rails.

use crate::lab::{Lab, RAILS, address};
use crate::tcpxctl::SMALL;

#[test]
fn a_handshake_goes_over_every_rail_by_its_address() {
    let Some(lab) = Lab::up() else { return };
    for node in crate::lab::NODES {
        let json = lab
            .tool(node, &["handshake", "-n", "4", "--json"])
            .env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4")
            .ends_with(0)
            .json();
        let flows = json["rounds"].to_string();
        for rail in RAILS {
            assert!(
                flows.contains(&format!("{}:", address(node, rail))),
                "{rail}: {flows}"
            );
        }
        assert!(!flows.contains("127.0.0.1"), "{flows}");
    }
}

#[test]
fn a_run_in_one_node_is_verified_and_sends_nothing_to_the_network() {
    let Some(lab) = Lab::up() else { return };
    let before = RAILS.map(|rail| lab.counters("node0", rail).tx_bytes);
    let tool = lab
        .tool("node0", &["run", "small.toml"])
        .set(&["topology.nics=[\"eth1\",\"eth2\"]"]);
    tool.write("small.toml", SMALL);
    let ended = tool.ends_with(0);
    let record = ended.recorded("passed");
    assert_eq!(record["transfers"][0]["wrong_bytes"], 0);
    assert_eq!(record["nodes"][0]["host"], "node0", "{}", record["nodes"]);
    // Traffic to a node's own address uses the loopback interface.
    let after = RAILS.map(|rail| lab.counters("node0", rail).tx_bytes);
    assert!(
        before
            .iter()
            .zip(after)
            .all(|(before, after)| after - before < 10_000),
        "{before:?} {after:?}"
    );
    lab.is_left_clean();
}
