//! `handshake` and `mr`: consistent tables, and no resource left open.

use crate::tcpxctl::Tool;
use serde_json::Value;

/// The rounds of both ends, each a list of connections.
fn rounds(json: &Value) -> Vec<&Vec<Value>> {
    let ends = json["rounds"].as_array().unwrap().iter();
    ends.flat_map(|end| end.as_array().unwrap())
        .map(|round| round.as_array().unwrap())
        .collect()
}

#[test]
fn every_connection_comes_up_with_its_times_and_addresses() {
    for (plugin, n) in [("soft", 1), ("soft", 4), ("soft", 64), ("builtin", 4)] {
        let count = n.to_string();
        let json = Tool::new(&["handshake", "-n", &count, "--plugin", plugin, "--json"])
            .ends_with(0)
            .json();
        assert_eq!(
            (&json["schema"], &json["outcome"]),
            (&"tcpxctl.handshake/1".into(), &"passed".into())
        );
        let rounds = rounds(&json);
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            assert_eq!(round.len(), n);
            for row in round {
                let sends = row["sends"] == true;
                assert_eq!(
                    (row["connect_ms"].is_f64(), row["accept_ms"].is_f64()),
                    (sends, !sends),
                    "{row}"
                );
                assert_eq!(
                    (row["listen_ms"].is_f64(), row["bootstrap_ms"].is_f64()),
                    (!sends, true),
                    "{row}"
                );
                // One control socket and one data socket, at the device's own address.
                let flows = row["flows"].as_array().unwrap();
                assert_eq!(flows.len(), 2, "{row}");
                assert!(
                    flows
                        .iter()
                        .all(|flow| flow[1].as_str().is_some_and(|peer| peer.contains(':'))),
                    "{row}"
                );
            }
        }
    }
}

#[test]
fn a_handshake_closes_what_it_opens() {
    for tool in [
        Tool::new(&["handshake", "-n", "16", "--repeat", "3", "--json"]),
        Tool::new(&["handshake", "-n", "4", "--repeat", "3", "--json"])
            .env("TCPXSOFT_IO", "helper"),
        Tool::new(&["handshake", "-n", "4", "--repeat", "3", "--json"]).strict(""),
    ] {
        let ended = tool.ends_with(0);
        let json = ended.json();
        assert_eq!(rounds(&json).len(), 6);
        check_held(&json);
    }
}

/// Checks that each worker has as many descriptors after the rounds as before, and no more
/// threads: one of its start may still have been ending when they were counted.
fn check_held(json: &Value) {
    let held = json["held"].as_array().unwrap();
    assert_eq!(held.len(), 2);
    for end in held {
        let (before, after) = (&end["before"], &end["after"]);
        assert!(before["descriptors"].as_u64().unwrap() > 3, "{json}");
        assert_eq!(before["descriptors"], after["descriptors"], "{json}");
        let threads = |held: &Value| held["threads"].as_u64().unwrap();
        assert!(threads(after) <= threads(before), "{json}");
    }
}

#[test]
fn a_failed_handshake_closes_what_it_opened() {
    let short = [
        "limits.connect=1s",
        "env.NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=0",
    ];
    for (side, spec, code, words) in [
        ("send", "hang:comm=3", 4, "still not ready"),
        ("recv", "hang:comm=3", 4, "still not ready"),
        ("recv", "refuse:comm=3", 1, "returned"),
        (
            "send",
            "rc:call=connect,value=3,nth=7",
            1,
            "connect returned 3",
        ),
        (
            "recv",
            "rc:call=listen,value=3,nth=5",
            1,
            "listen returned 3",
        ),
        (
            "recv",
            "rc:call=accept,value=3,nth=5",
            1,
            "accept returned 3",
        ),
    ] {
        let fault = [
            "fault.by=plugin".to_owned(),
            format!("fault.side={side}"),
            format!("fault.spec={spec}"),
        ];
        let ended = Tool::new(&["handshake", "-n", "8", "--json"])
            .set(&short)
            .set(&fault.each_ref().map(String::as_str))
            .ends_with(code);
        println!("{side} {spec}");
        ended.says(&[words]);
        let json = ended.json();
        let [local, peer] = json["held"].as_array().unwrap().as_slice() else {
            panic!("{json}")
        };
        assert_eq!(peer["before"], peer["after"], "{json}");
        // The plugin retries a connect for 22 s and has no call to cancel it, so its one socket
        // stays open until the process ends.
        let descriptors = |when: &str| local[when]["descriptors"].as_u64().unwrap();
        assert!(descriptors("after") <= descriptors("before") + 8, "{json}");
        assert_eq!(
            local["before"]["threads"], local["after"]["threads"],
            "{json}"
        );
    }
}

#[test]
fn without_json_the_output_is_a_table() {
    let ended = Tool::new(&["handshake", "-n", "2"]).ends_with(0);
    ended.says(&["connect", "accept", "# Outcome : passed", "TCPXSoft_v7"]);
}

#[test]
fn mr_lists_refused_registrations_with_the_plugins_message() {
    let json = Tool::new(&["mr", "--plugin", "soft", "--json"])
        .ends_with(0)
        .json();
    let rows = json["rows"].as_array().unwrap();
    let row = |side: &str, memory: &str, what: &str, size: u64, offset: u64| {
        let wanted = |row: &&Value| {
            row["side"] == side
                && row["memory"] == memory
                && row["what"] == what
                && row["size"] == size
                && row["offset"] == offset
        };
        rows.iter()
            .find(wanted)
            .unwrap_or_else(|| panic!("no row {side} {memory} {what} {size} {offset}"))
    };
    for side in ["send", "recv"] {
        for size in [
            1,
            4095,
            4096,
            4097,
            524_288,
            4 << 20,
            1 << 30,
            (1 << 31) - 1,
        ] {
            assert_eq!(
                row(side, "host", "size", size, 0)["accepted"],
                true,
                "{size}"
            );
        }
        let beyond = row(side, "host", "size", 1 << 31, 0);
        assert!(
            beyond["accepted"] == false && beyond["said"].as_str().unwrap().contains("C int"),
            "{beyond}"
        );
        for offset in [0, 1, 512, 4095, 4096] {
            assert_eq!(
                row(side, "host", "offset", 4096, offset)["accepted"],
                true,
                "{offset}"
            );
            let device = row(side, "device stand-in", "offset", 4096, offset);
            assert_eq!(device["accepted"], offset % 4096 == 0, "{device}");
            assert!(
                offset % 4096 == 0 || device["said"].as_str().unwrap().contains("not aligned"),
                "{device}"
            );
        }
        for memory in ["host", "device stand-in"] {
            let storm = row(side, memory, "storm", 4096, 0);
            assert!(
                storm["accepted"] == true && storm["count"] == 2000,
                "{storm}"
            );
        }
    }
    let text = Tool::new(&["mr", "--plugin", "builtin"]).ends_with(0);
    text.says(&["not aligned", "refused", "accepted", "# Outcome : passed"]);
}
