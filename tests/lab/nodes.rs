//! The nodes of the lab match the description in `scripts/lab help`.

use crate::lab::{Lab, NODES, RAILS, address};
use crate::sockets::{self, datagrams, is_whole, pair};
use std::process::Command;

#[test]
fn both_nodes_are_reached_by_ssh_from_each_other_and_from_a_laptop() {
    let Some(lab) = Lab::up() else { return };
    for (from, to, name) in [
        ("node0", "node1", "node1"),
        ("node1", "node0", "node0"),
        ("node0", "10.0.0.226", "node1"),
        ("node1", "10.0.1.25", "node0"),
        ("laptop", "10.0.0.226", "node1"),
    ] {
        let said = lab.exec(
            from,
            &[
                "ssh",
                "-o",
                "BatchMode=yes",
                to,
                "uname -n; echo $HOME; exit 0",
            ],
        );
        assert_eq!(said, format!("{name}\n/root\n"), "{from} to {to}");
    }
    let refused = lab.script(&[
        "exec",
        "stranger",
        "ssh",
        "-o",
        "BatchMode=yes",
        "node1",
        "true",
    ]);
    assert_eq!(refused.status.code(), Some(255), "a stranger got in");
    lab.is_left_clean();
}

#[test]
fn the_machine_reaches_the_nodes_with_the_labs_ssh_config() {
    let Some(lab) = Lab::up() else { return };
    let configuration = format!("/run/tcpxctl-lab-{}/ssh_config", lab.name());
    for (to, name) in [("node0", "node0\n"), ("10.0.0.226", "node1\n")] {
        let ended = Command::new("ssh")
            .args(["-F", &configuration, to, "uname -n"])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout),
            name,
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}

#[test]
fn each_node_has_five_interfaces_with_the_users_addresses() {
    let Some(lab) = Lab::up() else { return };
    for node in NODES {
        let json = lab.run(node, &["discover", "--json"]).json();
        assert_eq!(json["node"]["host"]["name"], *node, "{json}");
        let nics = json["node"]["nics"].to_string();
        let devices = json["loaded"]["devices"].as_array().unwrap();
        for interface in ["eth0"].iter().chain(&RAILS) {
            assert!(
                nics.contains(&address(node, interface)),
                "{interface} of {node}: {nics}"
            );
            let mtu =
                std::fs::read_to_string(lab.path(node, &format!("/sys/class/net/{interface}/mtu")))
                    .unwrap();
            assert_eq!(
                mtu.trim(),
                if *interface == "eth0" { "1460" } else { "8244" },
                "{interface} of {node}"
            );
            assert!(
                devices.iter().any(|device| device["name"] == *interface),
                "no device {interface}: {json}"
            );
        }
    }
}

#[test]
fn a_lab_of_eight_has_eight_hosts_that_reach_each_other_by_name() {
    let Some(lab) = Lab::of(8) else { return };
    let names = "for node in 0 1 2 3 4 5 6 7; do ssh -o BatchMode=yes node$node uname -n; done";
    let said = lab.exec("laptop", &["sh", "-c", names]);
    assert_eq!(said.lines().collect::<Vec<_>>(), lab.nodes());
    let rails = lab
        .nodes()
        .into_iter()
        .flat_map(|node| RAILS.map(|rail| address(&node, rail)));
    let shown = lab.done(&["status"]);
    rails.for_each(|rail| assert!(shown.contains(&rail), "{rail}: {shown}"));
    let other = lab.script(&["up", "--nodes", "4"]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("up with 8 nodes"), "{said}");
    lab.is_left_clean();
}

#[test]
fn a_full_unfragmented_packet_passes_every_rail_and_a_larger_one_none() {
    let Some(lab) = Lab::up() else { return };
    for rail in RAILS {
        let [one, other] = pair(&lab, rail);
        for (from, to) in [(&one, &other), (&other, &one)] {
            // 20 bytes of IP, 8 of UDP.
            let full = vec![7; 8244 - 28];
            let before = lab.counters("node1", rail);
            assert_eq!(from.send(&full).unwrap(), full.len(), "{rail}");
            let mut arrived = vec![0; 10_000];
            assert_eq!(to.recv(&mut arrived).unwrap(), full.len(), "{rail}");
            let after = lab.counters("node1", rail);
            assert!(
                after.rx_bytes + after.tx_bytes - before.rx_bytes - before.tx_bytes >= 8244,
                "{after:?}"
            );
            let error = from.send(&vec![7; 8244 - 27]).unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(rustix::io::Errno::MSGSIZE.raw_os_error()),
                "{rail}"
            );
        }
    }
}

#[test]
fn rails_are_separate_networks() {
    let Some(lab) = Lab::up() else { return };
    for interface in ["eth0"].iter().chain(&RAILS) {
        is_whole(&lab, interface);
    }
    let lone = datagrams(&lab, "node0", "eth1");
    lone.send_to(&[1], (address("node1", "eth1"), 9)).unwrap();
    let stranger =
        sockets::connect(&lab, "stranger", (([192, 168, 1, 25]), 22).into()).unwrap_err();
    assert_eq!(
        stranger.kind(),
        std::io::ErrorKind::NetworkUnreachable,
        "the stranger is on control only"
    );
    assert!(sockets::connect(&lab, "stranger", ([10, 0, 0, 226], 22).into()).is_ok());
}

#[test]
fn nodes_share_no_written_folder_and_see_only_their_own_processes() {
    let Some(lab) = Lab::up() else { return };
    for folder in ["/tmp", "/run", "/dev/shm", "/root"] {
        lab.exec("node0", &["touch", &format!("{folder}/of-node0")]);
        assert!(
            lab.path("node0", folder).join("of-node0").exists(),
            "{folder}"
        );
        assert!(
            !lab.path("node1", folder).join("of-node0").exists(),
            "{folder} is shared"
        );
        assert!(
            !std::path::Path::new(folder).join("of-node0").exists(),
            "{folder} is the machine's"
        );
    }
    lab.exec("node0", &["bash", "-c", "sleep 600 & exit"]);
    assert_eq!(lab.ps("node0").len(), 1, "{:?}", lab.ps("node0"));
    assert_eq!(lab.ps("node1"), []);
    let names = |node| lab.exec(node, &["bash", "-c", "cat /proc/[0-9]*/comm"]);
    assert!(
        names("node0").contains("sleep") && !names("node1").contains("sleep"),
        "{}",
        names("node1")
    );
    lab.ps("node0")
        .iter()
        .for_each(crate::tcpxctl::Process::kill);
    lab.is_left_clean();
}

#[test]
fn lab_exec_returns_the_exit_code_and_its_end_ends_the_command() {
    let Some(lab) = Lab::up() else { return };
    assert_eq!(
        lab.script(&["exec", "node0", "bash", "-c", "exit 42"])
            .status
            .code(),
        Some(42)
    );
    assert_eq!(
        lab.script(&["exec", "node0", "no-such-command"])
            .status
            .code(),
        Some(127)
    );
    let tool = lab
        .tool("node1", &["run", "small.toml"])
        .set(&["transfer.iterations=1000000", "limits.total=50s"]);
    tool.write("small.toml", crate::tcpxctl::SMALL);
    let mut running = tool.start();
    running.until("a run", |_| {
        lab.ps("node1")
            .iter()
            .any(|process| process.role == "worker")
    });
    running.child.kill().unwrap();
    running.ended();
    lab.is_left_clean();
}
