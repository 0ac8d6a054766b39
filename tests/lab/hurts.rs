//! Each kind of `lab hurt` has its documented effect, on the chosen interface only, and `heal`
//! removes the fault.

use crate::lab::{Lab, address};
use crate::sockets::{
    PATIENCE, SILENCE, burst, connect, datagrams, is_whole, pair, round_trip, share_that_arrives,
    stream,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// An address of node1 with a closed port.
fn closed(interface: &str) -> SocketAddr {
    format!("{}:9", address("node1", interface))
        .parse()
        .unwrap()
}

/// Checks that nothing arrives within the time limit of the socket.
fn is_silent(socket: &UdpSocket) {
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    let error = socket.recv(&mut [0; 16]).expect_err("something arrived");
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
}

fn arrives(from: &UdpSocket, to: &UdpSocket) {
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    from.send(&[1]).unwrap();
    assert_eq!(to.recv(&mut [0; 16]).unwrap(), 1);
}

#[test]
fn loss_drops_its_share_of_packets_each_way() {
    let Some(lab) = Lab::up() else { return };
    let [one, other] = pair(&lab, "eth1");
    lab.hurt("node1", "eth1", "loss 30");
    for (from, to) in [(&one, &other), (&other, &one)] {
        // 1000 packets: the share is within 0.06 of 0.7, except in 1 of 30000 runs.
        let share = share_that_arrives(from, to, 10);
        assert!((0.64..0.76).contains(&share), "{share}");
    }
    is_whole(&lab, "eth2");
    lab.hurt("node1", "eth1", "loss 100");
    assert!(burst(&one, &other, SILENCE).is_empty());
    lab.heal();
    is_whole(&lab, "eth1");
}

#[test]
fn loss_of_one_direction_spares_the_other() {
    let Some(lab) = Lab::up() else { return };
    let [one, other] = pair(&lab, "eth1");
    for (how, whole, lossy) in [
        ("out", (&other, &one), (&one, &other)),
        ("in", (&one, &other), (&other, &one)),
    ] {
        lab.hurt("node0", "eth1", &format!("loss 30 {how}"));
        let share = share_that_arrives(lossy.0, lossy.1, 10);
        assert!((0.64..0.76).contains(&share), "{how}: {share}");
        assert_eq!(burst(whole.0, whole.1, PATIENCE).len(), 100, "{how}");
    }
}

/// Datagram sockets of two nodes on eth1, connected to each other.
fn between(lab: &Lab, nodes: [&str; 2]) -> [UdpSocket; 2] {
    let [one, other] = nodes.map(|node| datagrams(lab, node, "eth1"));
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    [one, other]
}

#[test]
fn a_cut_pair_reaches_every_other_node() {
    let Some(lab) = Lab::of(4) else { return };
    lab.hurt("node2", "eth1", "cut node3");
    let [one, other] = between(&lab, ["node2", "node3"]);
    for (from, to) in [(&one, &other), (&other, &one)] {
        from.send(&[1]).unwrap();
        is_silent(to);
    }
    for whole in [["node2", "node0"], ["node3", "node1"]] {
        let [one, other] = between(&lab, whole);
        arrives(&one, &other);
        arrives(&other, &one);
    }
    let refused = lab.script(&["hurt", "node2", "eth1", "cut", "node9"]);
    assert_eq!(refused.status.code(), Some(2));
    lab.heal();
    let [one, other] = between(&lab, ["node2", "node3"]);
    arrives(&one, &other);
}

#[test]
fn nodes_behind_a_trunk_share_its_rate_to_the_others() {
    let Some(lab) = Lab::of(3) else { return };
    for node in ["node1", "node2"] {
        lab.hurt(node, "rails", "trunk 20");
    }
    is_limited_to_20_mbit(&lab, "eth2");
    for pair in [["node1", "node2"], ["node2", "node0"]] {
        let [one, other] = between(&lab, pair);
        arrives(&one, &other);
        arrives(&other, &one);
    }
    // A delay of a node behind the trunk keeps it there.
    lab.hurt("node2", "eth1", "delay 5");
    let [one, other] = between(&lab, ["node2", "node1"]);
    arrives(&one, &other);
    lab.heal();
    is_whole(&lab, "eth2");
}

#[test]
fn rate_limits_throughput_each_way() {
    let Some(lab) = Lab::up() else { return };
    lab.hurt("node1", "eth2", "rate 20");
    is_limited_to_20_mbit(&lab, "eth2");
    lab.heal();
    let queues = lab.exec("node1", &["tc", "qdisc", "show", "dev", "eth2"]);
    assert!(!queues.contains("tbf"), "{queues}");
    is_whole(&lab, "eth2");
}

/// Checks that node0 and node1 send each other something, and at most 20 Mbit/s.
fn is_limited_to_20_mbit(lab: &Lab, interface: &str) {
    for reversed in [false, true] {
        let [mut from, mut to] = stream(lab, interface);
        if reversed {
            std::mem::swap(&mut from, &mut to);
        }
        from.set_write_timeout(Some(SILENCE)).unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || while from.write(&[0; 65536]).is_ok() {});
            let (mut got, mut buffer) = (0, vec![0; 65536]);
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(1) {
                got += to.read(&mut buffer).unwrap();
            }
            let (seconds, bytes) = (since.elapsed().as_secs_f64(), got as f64);
            drop(to);
            sending.join().unwrap();
            // The bucket may be full at first (64 KiB), and the other buffers hold as much.
            let bound = 20e6 / 8.0 * seconds * 1.1 + 2.0 * 65536.0;
            assert!(
                bytes > 0.0 && bytes < bound,
                "{bytes} bytes in {seconds} s, bound {bound}"
            );
        });
    }
}

#[test]
fn delay_is_added_each_way_on_its_rail_only() {
    let Some(lab) = Lab::up() else { return };
    lab.hurt("node0", "eth3", "delay 40");
    assert!(round_trip(&lab, "eth3") >= Duration::from_millis(80));
    assert!(round_trip(&lab, "eth4") < Duration::from_millis(40));
    is_whole(&lab, "eth3");
    // Full packets pass too, and a stream with segments larger than a packet.
    carries(&lab, "eth3");
    lab.hurt("node0", "eth3", "delay 10");
    let trip = round_trip(&lab, "eth3");
    assert!(
        trip >= Duration::from_millis(20) && trip < Duration::from_millis(80),
        "{trip:?}"
    );
    lab.heal();
    assert!(round_trip(&lab, "eth3") < Duration::from_millis(20));
    carries(&lab, "eth3");
}

/// Checks that a megabyte arrives unchanged each way.
fn carries(lab: &Lab, interface: &str) {
    let sent: Vec<u8> = (0..1_000_000u32).map(|index| (index % 251) as u8).collect();
    let [mut one, mut other] = stream(lab, interface);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            scope.spawn(|| one.write_all(&sent).unwrap());
            let mut arrived = vec![0; sent.len()];
            other.read_exact(&mut arrived).unwrap();
            assert!(arrived == sent, "{interface} changed bytes");
        });
        std::mem::swap(&mut one, &mut other);
    }
}

#[test]
fn reordering_changes_the_order_and_loses_nothing() {
    let Some(lab) = Lab::up() else { return };
    let [one, other] = pair(&lab, "eth4");
    lab.hurt("node1", "eth4", "reorder 30");
    let mut arrived = burst(&one, &other, PATIENCE);
    assert!(!arrived.is_sorted(), "{arrived:?}");
    arrived.sort_unstable();
    assert!(
        arrived.iter().copied().eq(0..arrived.len() as u32) && arrived.len() == 100,
        "{arrived:?}"
    );
    lab.heal();
    is_whole(&lab, "eth4");
}

#[test]
fn a_blackhole_sends_no_reset_and_no_icmp() {
    let Some(lab) = Lab::up() else { return };
    assert_eq!(
        connect(&lab, "node0", closed("eth1")).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    let [mut one, mut other] = stream(&lab, "eth1");
    let datagrams = datagrams(&lab, "node0", "eth1");
    datagrams.connect(closed("eth1")).unwrap();
    lab.hurt("node1", "all", "blackhole");
    // New and existing connections, on both ends: the kernel reports nothing.
    assert_eq!(
        connect(&lab, "node0", closed("eth1")).unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    for end in [&mut one, &mut other] {
        end.write_all(b"still there?").unwrap();
        end.set_read_timeout(Some(SILENCE)).unwrap();
        assert_eq!(
            end.read(&mut [0; 16]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }
    datagrams.send(&[1]).unwrap();
    is_silent(&datagrams);
    assert!(
        lab.exec("node1", &["cat", "/sys/class/net/eth1/operstate"])
            .starts_with("up")
    );
    assert_eq!(
        connect(&lab, "laptop", ([10, 0, 1, 25], 22).into())
            .map(drop)
            .map_err(|error| error.kind()),
        Ok(())
    );
    lab.heal();
    let mut text = [0; 12];
    one.set_read_timeout(Some(PATIENCE)).unwrap();
    one.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"still there?");
    is_whole(&lab, "eth1");
}

#[test]
fn oneway_drops_one_direction_only() {
    let Some(lab) = Lab::up() else { return };
    let [one, other] = pair(&lab, "eth2");
    arrives(&one, &other);
    lab.hurt("node1", "eth2", "oneway");
    arrives(&one, &other);
    other.send(&[1]).unwrap();
    is_silent(&one);
    lab.hurt("node1", "eth2", "oneway in");
    arrives(&other, &one);
    one.send(&[1]).unwrap();
    is_silent(&other);
    lab.heal();
    is_whole(&lab, "eth2");
}

#[test]
fn an_interface_goes_down_and_comes_back() {
    let Some(lab) = Lab::up() else { return };
    lab.hurt("node1", "eth3", "down");
    let state = |name: &str| {
        lab.exec(
            "node1",
            &["cat", &format!("/sys/class/net/{name}/operstate")],
        )
    };
    assert_eq!(
        (state("eth3").as_str(), state("eth4").as_str()),
        ("down\n", "up\n")
    );
    let other = lab
        .inside("node1", || UdpSocket::bind((address("node1", "eth3"), 0)))
        .unwrap();
    let error = other.connect((address("node0", "eth3"), 9)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
    lab.heal();
    assert_eq!(state("eth3"), "up\n");
    is_whole(&lab, "eth3");
}

#[test]
fn faults_add_up_are_listed_and_are_healed_one_by_one() {
    let Some(lab) = Lab::up() else { return };
    lab.hurt("node0", "eth1", "delay 20");
    lab.hurt("node0", "eth1", "loss 2.5");
    lab.hurt("node0", "eth1", "rate 500");
    lab.hurt("node1", "eth2", "oneway");
    let status = lab.done(&["status"]);
    for hurt in [
        "node0 eth1 delay 20",
        "node0 eth1 loss 2.5",
        "node0 eth1 rate 500",
        "node1 eth2 oneway out",
    ] {
        assert!(status.contains(hurt), "{status}");
    }
    lab.done(&["heal", "node1"]);
    is_whole(&lab, "eth2");
    assert!(lab.done(&["status"]).contains("node0 eth1 delay 20"));
    lab.done(&["heal", "node0", "eth1"]);
    is_whole(&lab, "eth1");
    assert!(!lab.done(&["status"]).contains("hurt"));
}

#[test]
fn invalid_faults_are_refused_with_a_message_and_change_nothing() {
    let Some(lab) = Lab::up() else { return };
    for (arguments, words) in [
        (
            &["hurt", "node2", "eth1", "loss"][..],
            "there is no node `node2`",
        ),
        (&["hurt", "node0", "eth5", "loss"], "no interface `eth5`"),
        (&["hurt", "stranger", "eth1", "loss"], "no interface `eth1`"),
        (
            &["hurt", "node0", "eth1", "break"],
            "there is no fault `break`",
        ),
        (&["hurt", "node0", "eth1", "loss", "120"], "per cent"),
        (&["hurt", "node0", "eth1", "loss", "; reboot"], "per cent"),
        (&["hurt", "node0", "eth1", "rate", "0"], "Mbit/s"),
        (&["hurt", "node0", "eth1", "delay", "1.5"], "milliseconds"),
        (&["hurt", "node0", "eth1", "oneway", "up"], "out or in"),
        (&["hurt", "node0", "eth1", "down", "1"], "no value"),
        (&["hurt", "node0"], "takes a node"),
        (&["heal", "node0", "eth1", "x"], "heal takes"),
        (&["exec", "node0"], "exec takes"),
        (&["dance"], "no command `dance`"),
    ] {
        let ended = lab.script(arguments);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!lab.done(&["status"]).contains("hurt"));
}
