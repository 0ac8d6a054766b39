//! KV-cache traffic: pages over endpoints, pulled and pushed, in closed loops and at random times.

use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;

/// Few small pages, of requests of two lengths.
const FEW: [&str; 11] = [
    "traffic.kind=kv",
    "traffic.layers=2",
    "traffic.head_size=16",
    "traffic.tokens=\"40x3, 200\"",
    "traffic.batch=8",
    "traffic.requests=12",
    "traffic.concurrency=3",
    "traffic.cache=256KiB",
    "transfer.iterations=2",
    "transfer.warmup=1",
    "plugin.name=builtin",
];

/// A run over a plugin of `tests/plugins/bad`.
fn over(name: &str, settings: &[&str]) -> Tool {
    let library = crate::built::built(
        &format!("libnccl-net-{name}.so"),
        &format!("plugins/bad/{name}.c"),
        &["-shared", "-fPIC", "-fvisibility=hidden"],
    );
    let few = FEW.iter().filter(|one| !one.starts_with("plugin."));
    let settings: Vec<&str> = few.chain(settings).copied().collect();
    let plugin = library.to_str().unwrap().to_owned();
    Tool::run(&settings).arg("--plugin").arg(&plugin)
}

fn passed(settings: &[&str]) -> (Ended, Value) {
    let ended = Tool::run(&[&FEW, settings].concat()).ends_with(0);
    let record = ended.recorded("passed");
    (ended, record)
}

/// Checks the traffic of each direction: every request of the measured iterations, every byte.
fn check(record: &Value, directions: usize) {
    let transfers = record["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), directions);
    for transfer in transfers {
        let kv = &transfer["kv"];
        // A layer of 8 heads of 16 elements, keys and values, 2 bytes each, 16 tokens.
        assert_eq!(kv["page_bytes"], 8 * 16 * 2 * 2 * 16);
        assert_eq!(kv["requests"]["count"], 2 * 12, "{kv}");
        // A request has 2 layers of 3 or of 13 pages, so 1 or 4 batches.
        let batches = kv["batches"]["count"].as_u64().unwrap();
        assert!((2 * 12..=8 * 12).contains(&batches), "{kv}");
        assert_eq!(kv["good_bytes"], transfer["bytes"]);
        assert_eq!(transfer["verified_bytes"], transfer["bytes"]);
        assert_eq!(transfer["wrong_bytes"], 0);
        let us = |of: &str, quantile: &str| kv[of]["us"][quantile].as_f64().unwrap();
        for of in ["requests", "batches"] {
            let quantiles = ["p50", "p99", "p999", "max"].map(|quantile| us(of, quantile));
            assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{kv}");
        }
        assert!(us("requests", "max") * 1.01 >= us("batches", "max"), "{kv}");
        assert_eq!(kv["goodput_gb_per_s"], transfer["gb_per_s"]);
    }
}

#[test]
fn pages_are_pulled_by_the_end_that_receives_them() {
    let (ended, record) = passed(&[]);
    check(&record, 1);
    let kv = &record["transfers"][0]["kv"];
    assert_eq!((&kv["op"], &kv["seed"]), (&"pull".into(), &1.into()));
    let sent = |worker: usize| {
        let channels = &record["transfers"][0]["channels"].as_array().unwrap();
        let side = ["send", "recv"][worker];
        let of_side = channels.iter().filter(|one| one["side"] == side);
        of_side
            .map(|one| one["bytes"].as_u64().unwrap())
            .sum::<u64>()
    };
    let bytes = record["transfers"][0]["bytes"].as_u64().unwrap();
    assert_eq!([sent(0), sent(1)], [bytes, bytes]);
    for words in [
        "# KV cache : pull of llama-3.1-8b, 2 layers",
        "request",
        "goodput",
    ] {
        assert!(ended.out.contains(words), "no {words}: {ended}");
    }
}

#[test]
fn pages_are_pushed_both_ways_and_compared_by_the_end_that_receives_them() {
    let (_, record) = passed(&["traffic.op=push", "transfer.direction=both"]);
    check(&record, 2);
}

#[test]
fn the_latency_of_a_request_that_waits_for_its_turn_counts_from_its_arrival() {
    // All twelve requests of an iteration arrive within microseconds, and one runs at a time: the
    // latencies add up to many times the time that all of them took.
    let (_, record) = passed(&[
        "traffic.concurrency=1",
        "traffic.arrival=poisson",
        "traffic.rate=1000000",
        "traffic.tokens=200",
    ]);
    check(&record, 1);
    let transfer = &record["transfers"][0];
    let sum = transfer["kv"]["requests"]["sum_ns"].as_f64().unwrap() / 1e9;
    assert!(
        sum > 3.0 * transfer["seconds"].as_f64().unwrap(),
        "{transfer}"
    );
}

#[test]
fn a_wrong_byte_in_a_page_is_found_and_its_request_is_no_goodput() {
    for op in ["pull", "push"] {
        let op = format!("traffic.op={op}");
        let settings = [
            op.as_str(),
            "transfer.warmup=0",
            "transfer.iterations=1",
            "fault.by=plugin",
            "fault.side=recv",
            "fault.spec=corrupt:chunk=5",
        ];
        let ended = Tool::run(&[&FEW, &settings[..]].concat()).ends_with(1);
        let record = ended.record();
        let transfer = &record["transfers"][0];
        assert!(transfer["wrong_bytes"].as_u64().unwrap() > 0, "{ended}");
        let good = transfer["kv"]["good_bytes"].as_u64().unwrap();
        assert!(good < transfer["bytes"].as_u64().unwrap(), "{ended}");
        assert!(ended.out.contains("of the cache byte"), "{ended}");
    }
}

#[test]
fn pages_that_arrive_after_done_are_found() {
    for op in ["traffic.op=pull", "traffic.op=push"] {
        let ended = over("early", &[op, "traffic.requests=4"])
            .env("BAD_EARLY", "recv")
            .ends_with(1);
        let record = ended.record();
        let wrong = record["transfers"][0]["wrong_bytes"].as_u64().unwrap();
        assert!(wrong > 0, "{op}: {ended}");
        assert!(
            record["findings"].to_string().contains("payload-wrong"),
            "{op}: {ended}"
        );
    }
}

/// The cache has another pattern in every iteration, so a page that was filled again before its bytes
/// had left would arrive wrong.
#[test]
fn a_page_is_filled_again_only_once_the_peer_has_it() {
    for op in ["traffic.op=pull", "traffic.op=push"] {
        let ended = over(
            "early",
            &[op, "traffic.requests=4", "transfer.iterations=3"],
        )
        .env("BAD_EARLY", "send")
        .ends_with(0);
        let transfer = &ended.recorded("passed")["transfers"][0];
        assert_eq!(transfer["verified_bytes"], transfer["bytes"], "{op}");
    }
}

#[test]
fn a_plugin_that_says_try_again_loses_no_page() {
    let ended = over("again", &["transfer.direction=both"]).ends_with(0);
    check(&ended.recorded("passed"), 2);
}

#[test]
fn a_page_that_never_arrives_is_a_stall_named_by_its_operation() {
    let settings = [
        // A message that follows the lost one would take its place, and may have another size.
        "traffic.batch=1",
        "traffic.depth=1",
        "traffic.concurrency=1",
        "limits.stall_after=1s",
        "limits.give_up_after=1s",
        "fault.by=plugin",
        "fault.side=send",
        "fault.spec=drop-ctrl:nth=5",
    ];
    let ended = Tool::run(&[&FEW, &settings[..]].concat()).ends_with(4);
    let findings = ended.record()["findings"].to_string();
    assert!(findings.contains("nothing-arrives"), "{ended}");
    assert!(findings.contains("read "), "{ended}");
}

#[test]
fn the_options_of_nixlbench_give_its_table_which_compare_reads() {
    let options =
        "--op_type READ --max_block_size 8192 --num_iter 20 --warmup_iter 2 --check_consistency";
    let arguments = ["run", "--like-nixlbench", options, "--plugin", "builtin"];
    let ended = Tool::new(&arguments).ends_with(0);
    let (_, table) = ended.out.split_once("\nBlock Size (B)").expect("the table");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 2, "{ended}");
    for (row, block) in rows.iter().zip(["4096", "8192"]) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells.len(), cells[0], cells[1]), (10, block, "1"), "{row}");
        assert!(cells[2].parse::<f64>().unwrap() > 0.0, "{row}");
    }
    for run in ended.run_folders() {
        let record = std::fs::read(run.join("run.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["transfers"][0]["kv"]["requests"]["count"], 20);
        // The local end is the initiator, and it reads.
        assert_eq!(record["transfers"][0]["to"], 0);
    }
    let other = Tool::new(&["compare", "a.txt", "b.txt", "--json"]);
    other.write("a.txt", &ended.out);
    other.write("b.txt", &ended.out);
    let compared = other.ended();
    assert!(compared.out.contains("rate at 8KiB"), "{compared}");
}
