//! Runs between the two nodes over ssh, as users type them: every byte is verified, each
//! connection uses its rail, and nothing is left on either node.

use crate::lab::{Lab, NODES, RAILS, address};
use crate::tcpxctl::{Ended, SMALL, Tool};

/// Control address of the other node.
pub(crate) const PEER: &str = "10.0.0.226";
/// Connections of the shipped scenario, one rail each.
const RAIL_COUNT: u64 = 4;
/// Maximum number of bytes that headers, acknowledgements and barriers add to the payload.
const OVERHEAD: f64 = 1.15;

/// `run` of a small scenario between the nodes, from `node`.
pub(crate) fn small(lab: &Lab, node: &str, more: &[&str]) -> Tool {
    let tool = lab.tool(
        node,
        &[&["run", "small.toml", "--peer", PEER], more].concat(),
    );
    tool.write("small.toml", SMALL);
    tool
}

/// The shipped baseline scenario, shortened to 5 times 8 MiB.
fn baseline(lab: &Lab, more: &[&str]) -> Ended {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/4conn.toml");
    let short = [
        "transfer.total=8MiB",
        "transfer.iterations=4",
        "transfer.warmup=1",
    ];
    let tool = lab
        .tool("node0", &["run", scenario, "--peer", PEER])
        .set(&short)
        .set(more);
    tool.ends_with(0)
}

/// Bytes that an interface of node0 has carried out and in since `before`.
fn carried(lab: &Lab, interface: &str, before: crate::lab::Counters) -> (u64, u64) {
    let after = lab.counters("node0", interface);
    (
        after.tx_bytes - before.tx_bytes,
        after.rx_bytes - before.rx_bytes,
    )
}

#[test]
fn four_connections_use_one_rail_each_and_every_byte_is_verified() {
    let Some(lab) = Lab::up() else { return };
    // The first run uploads the agent; the second shows the traffic of a run itself.
    baseline(&lab, &[]);
    for direction in ["forward", "reverse", "both"] {
        let before = RAILS.map(|rail| lab.counters("node0", rail));
        let control = lab.counters("node0", "eth0");
        let record =
            baseline(&lab, &[&format!("transfer.direction={direction}")]).recorded("passed");
        let total: u64 = 4 * (8 << 20);
        for transfer in record["transfers"].as_array().unwrap() {
            assert_eq!(
                (&transfer["bytes"], &transfer["verified_bytes"]),
                (&total.into(), &total.into()),
                "{transfer}"
            );
            assert_eq!(transfer["wrong_bytes"], 0);
        }
        // Including the warm-up.
        let share = (total + (8 << 20)) / RAIL_COUNT;
        let is_share =
            |bytes: u64| (share as f64..share as f64 * OVERHEAD).contains(&(bytes as f64));
        for (rail, before) in RAILS.iter().zip(before) {
            let (out, back) = carried(&lab, rail, before);
            println!("{direction} {rail}: {out} out, {back} in, share {share}");
            assert_eq!(
                (is_share(out), is_share(back)),
                (direction != "reverse", direction != "forward"),
                "{rail}"
            );
        }
        let (out, back) = carried(&lab, "eth0", control);
        assert!(
            out + back < 2 << 20,
            "control carried {out} and {back} bytes: payload, or the agent once more"
        );
        let hosts: Vec<&str> = record["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["host"].as_str().unwrap())
            .collect();
        assert_eq!(hosts, NODES, "{}", record["nodes"]);
    }
    lab.is_left_clean();
}

#[test]
fn a_laptop_drives_two_nodes_and_carries_no_payload() {
    let Some(lab) = Lab::up() else { return };
    let run = || {
        small(&lab, "laptop", &["--from", "10.0.1.25"])
            .ends_with(0)
            .recorded("passed")
    };
    run();
    let (control, rail) = (lab.counters("node1", "eth0"), lab.counters("node0", "eth1"));
    let record = run();
    assert_eq!(record["transfers"][0]["wrong_bytes"], 0);
    let after = lab.counters("node1", "eth0");
    // 3 MiB of payload, over two of the rails.
    assert!(
        after.rx_bytes + after.tx_bytes - control.rx_bytes - control.tx_bytes < 1 << 20,
        "{after:?}"
    );
    assert!(carried(&lab, "eth1", rail).0 > 1 << 20);
    lab.is_left_clean();
    assert_eq!(lab.done(&["ps", "laptop"]), "");
}

#[test]
fn a_laptop_without_from_gets_a_next_step_that_names_the_flag() {
    let Some(lab) = Lab::up() else { return };
    let tools = [
        small(&lab, "laptop", &[]),
        lab.tool("laptop", &["handshake", "--peer", PEER]),
        lab.tool("laptop", &["mr", "--peer", PEER]),
    ];
    for tool in tools {
        let ended = tool.ends_with(1);
        ended.says(&[
            "laptop has no route to 192.168.1.226 of node1: ",
            "Network is unreachable",
        ]);
        ended
            .says(&["next: if laptop should only drive the transfer, replace it with --from HOST"]);
    }
    lab.is_left_clean();
}

#[test]
fn flows_between_nodes_carry_the_addresses_of_the_rails() {
    let Some(lab) = Lab::up() else { return };
    let json = lab
        .tool("node0", &["handshake", "-n", "4", "--peer", PEER, "--json"])
        .ends_with(0)
        .json();
    let mut rails = Vec::new();
    for row in json["rounds"][0][0].as_array().unwrap() {
        let flows = row["flows"].as_array().unwrap();
        for flow in flows {
            let rail = RAILS.iter().find(|rail| {
                let is_of = |end: usize, node| {
                    flow[end]
                        .as_str()
                        .unwrap()
                        .starts_with(&format!("{}:", address(node, rail)))
                };
                (is_of(0, "node0") && is_of(1, "node1")) || (is_of(0, "node1") && is_of(1, "node0"))
            });
            rails.push(*rail.unwrap_or_else(|| panic!("a flow along no rail: {flow}")));
        }
    }
    rails.sort_unstable();
    rails.dedup();
    assert_eq!(rails, RAILS);
    assert!(!json["rounds"].to_string().contains("127.0.0.1"), "{json}");
    lab.is_left_clean();
}

#[test]
fn discover_selftest_and_mr_inspect_the_peer() {
    let Some(lab) = Lab::up() else { return };
    let json = lab
        .tool("node0", &["discover", "--peer", PEER, "--json"])
        .ends_with(0)
        .json();
    let names = [0, 1].map(|end| {
        json["nodes"][end]["node"]["host"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    });
    assert_eq!(names, NODES);
    // A plugin that exists on the peer only.
    let plugin = "/tmp/libnccl-net-only-here.so";
    let library = format!(
        "{}/deps/libnccl_net_tcpxsoft.so",
        env!("CARGO_BIN_EXE_tcpxctl").rsplit_once('/').unwrap().0
    );
    lab.exec("node1", &["cp", &library, plugin]);
    let selftest = |more: &[&str]| {
        lab.tool(
            "node0",
            &[&["selftest", "--plugin", plugin, "--json"], more].concat(),
        )
    };
    selftest(&["--peer", PEER]).ends_with(0);
    selftest(&[]).ends_with(3).says(&[plugin]);
    // Registration has two sides, one on each node.
    lab.run("node0", &["mr", "--peer", PEER, "--plugin", "builtin"])
        .says(&["# Outcome : passed"]);
    lab.is_left_clean();
}

#[test]
fn many_runs_in_a_row_leave_nothing_on_either_node() {
    let Some(lab) = Lab::up() else { return };
    let rounds = std::env::var("LAB_ROUNDS").map_or(10, |text| text.parse().unwrap());
    let files = |node| {
        lab.exec(
            node,
            &["sh", "-c", "find /dev/shm /tmp /root /run -type f | sort"],
        )
    };
    small(&lab, "node0", &[]).ends_with(0);
    let before = NODES.map(files);
    for round in 0..rounds {
        println!("round {round}");
        small(&lab, "node0", &[]).ends_with(0);
        assert_eq!(lab.done(&["ps", "node0"]), "");
    }
    lab.is_left_clean();
    assert_eq!(NODES.map(files), before);
}

#[test]
fn strangers_on_the_control_network_do_not_disturb_a_run() {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    let Some(lab) = Lab::up() else { return };
    let late = [
        "fault.by=plugin",
        "fault.side=send",
        "fault.spec=spin:call=init,ms=1500",
    ];
    let mut run = small(&lab, "node0", &[]).set(&late).start();
    run.until_event("\"listening\":\"");
    let events = run.events();
    let after = events.split("\"listening\":\"").nth(1).unwrap();
    let listening: SocketAddr = after.split('"').next().unwrap().parse().unwrap();
    assert_eq!(
        listening.ip().to_string(),
        PEER,
        "the bootstrap listens where the peer is reached"
    );
    let mut silent = lab.inside("stranger", || {
        let connect = || TcpStream::connect(listening).unwrap();
        for words in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"TCXB",
            &[0xff; 5000],
            b"SSH-2.0-x\r\n",
            &[0; 64],
        ] {
            // A client that is disconnected while it writes was rejected too.
            let _ = connect().write_all(words);
        }
        (0..100).for_each(|_| drop(connect()));
        connect()
    });
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    ended.recorded("passed");
    silent
        .set_read_timeout(Some(crate::sockets::PATIENCE))
        .unwrap();
    let mut said = Vec::new();
    let _ = silent.read_to_end(&mut said);
    assert!(said.len() < 200, "{} bytes to a stranger", said.len());
    lab.is_left_clean();
}
