//! Lanes: which GPU exchanges messages with which, with stand-ins over host memory.

use crate::tcpxctl::Tool;
use serde_json::{Value, json};

const SMALL: [&str; 4] = [
    "transfer.total=256KiB",
    "transfer.chunk=32KiB",
    "transfer.iterations=2",
    "plugin.name=builtin",
];
const BYTES: u64 = 2 * (256 << 10);

fn full_mesh(settings: &[&str]) -> Tool {
    Tool::shipped("8gpu-full-mesh.toml", &SMALL).set(settings)
}

fn transfers(record: &Value) -> &Vec<Value> {
    record["transfers"].as_array().unwrap()
}

/// Connections of a transfer.
fn connections(transfer: &Value) -> usize {
    let channels = transfer["channels"].as_array().unwrap();
    channels.iter().filter(|one| one["side"] == "send").count()
}

#[test]
fn every_gpu_reaches_every_gpu_of_the_other_node_and_has_the_sum_of_its_lanes() {
    let ended = full_mesh(&[]).ends_with(0);
    ended.says(&["local->peer@gpu3->5", "local->peer@gpu3 "]);
    let record = ended.recorded("passed");
    assert_eq!(transfers(&record).len(), 64);
    for (number, transfer) in transfers(&record).iter().enumerate() {
        let (from, to) = (number / 8, number % 8);
        let lane = match from == to {
            true => json!({ "gpu": from }),
            false => json!({ "gpus": [from, to] }),
        };
        assert_eq!(transfer["lane"], lane);
        assert_eq!(transfer["verified_bytes"], BYTES, "{transfer}");
        assert_eq!(
            (&transfer["wrong_bytes"], connections(transfer)),
            (&0.into(), 1)
        );
    }
    let gpus = |node: usize| {
        record["sums"]["nodes"][node]["gpus"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!([gpus(0), gpus(1)], [8, 8]);
}

#[test]
fn a_map_by_hand_and_connections_per_gpu_are_kept_in_both_directions_and_by_single_processes() {
    let map = [
        r#"topology.lanes={ "0" = [2, 3], "5" = 0 }"#,
        r#"topology.gpu_connections={ "0" = 3 }"#,
        "transfer.direction=both",
    ];
    for processes in ["topology.processes=single", "topology.processes=per-gpu"] {
        let ended = full_mesh(&map).set(&[processes]).ends_with(0);
        let is_row = |line: &&str| line.contains("local->peer@gpu0->2 ");
        let row = ended.out.lines().find(is_row).expect("a row");
        assert_eq!(row.split_whitespace().nth(4), Some("3"), "conns: {row}");
        let record = ended.recorded("passed");
        let lane = |one: &Value| {
            assert_eq!(one["verified_bytes"], BYTES, "{one}");
            let gpus = [0, 1].map(|end| one["lane"]["gpus"][end].as_u64().unwrap());
            (one["from"].as_u64().unwrap(), gpus, connections(one))
        };
        let lanes: Vec<_> = transfers(&record).iter().map(lane).collect();
        let expected = [
            (0, [0, 2], 3),
            (1, [2, 0], 3),
            (0, [0, 3], 3),
            (1, [3, 0], 3),
            (0, [5, 0], 1),
            (1, [0, 5], 1),
        ];
        assert_eq!(lanes, expected, "{processes}");
        // GPU 0 of the second node receives from GPU 5 and sends to it.
        let second = &record["sums"]["nodes"][1]["gpus"][0];
        assert_eq!(second["gpu"], 0);
        assert!(
            second["rates"]["recv_gb_per_s"].as_f64() > Some(0.0),
            "{second}"
        );
    }
}

#[test]
fn lanes_that_cannot_be_kept_are_refused_with_the_reason() {
    let check = |settings: &[&str], words: &[&str]| {
        full_mesh(settings).ends_with(3).says(words);
    };
    check(
        &[r#"topology.lanes={ "9" = 0 }"#],
        &[
            "topology.lanes has GPU 9 of the first node",
            "GPU 0, 1, 2, 3, 4, 5, 6, 7",
        ],
    );
    check(
        &[r#"topology.lanes={ "0" = [1, 8] }"#],
        &["topology.lanes has GPU 8 of the second node"],
    );
    check(
        &[r#"topology.gpu_connections={ "8" = 2 }"#],
        &["topology.gpu_connections has GPU 8"],
    );
    check(
        &["topology.gpus=auto"],
        &["topology.lanes is about GPUs", "host memory"],
    );
    check(
        &[
            "topology.processes=per-gpu",
            "topology.gpus={ stand_ins = 9 }",
        ],
        &["a worker per lane, here 81", "processes = \"single\""],
    );
}
