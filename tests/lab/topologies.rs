//! Eight GPUs per node, with host memory in place of GPU memory: one process per GPU, and one
//! process for all.

use crate::lab::{Lab, RAILS};
use crate::peer::PEER;
use serde_json::Value;

/// Bytes of one iteration of one GPU.
const TOTAL: u64 = 2 << 20;
/// Enough iterations that all GPUs measure at the same time, in any scheduling order.
const ITERATIONS: u64 = 24;
const SHORT: [&str; 5] = [
    "transfer.total=2MiB",
    "transfer.chunk=64KiB",
    "transfer.iterations=24",
    "transfer.warmup=1",
    "limits.total=2m",
];

/// Runs the shipped scenario, shortened; returns its record, the bytes on each rail, and its events.
fn run(lab: &Lab, scenario: &str, settings: &[&str]) -> (Value, Vec<u64>, String) {
    let before = RAILS.map(|rail| lab.counters("node0", rail).tx_bytes);
    let path = format!("{}/scenarios/{scenario}.toml", env!("CARGO_MANIFEST_DIR"));
    let ended = lab
        .tool("node0", &["run", &path, "--peer", PEER])
        .set(&SHORT)
        .set(settings)
        .ends_with(0);
    let carried = RAILS
        .iter()
        .zip(before)
        .map(|(rail, before)| lab.counters("node0", rail).tx_bytes - before);
    let events = std::fs::read_to_string(ended.run_folders()[0].join("events.jsonl")).unwrap();
    (ended.recorded("passed"), carried.collect(), events)
}

/// Checks that each GPU has its own result with its own bytes and channels.
fn each_is_apart(record: &Value, connections: usize) {
    let transfers = record["transfers"].as_array().unwrap();
    let gpus: Vec<u64> = transfers
        .iter()
        .map(|transfer| transfer["lane"]["gpu"].as_u64().unwrap())
        .collect();
    assert_eq!(gpus, (0..8).collect::<Vec<u64>>());
    for transfer in transfers {
        assert_eq!(
            (&transfer["bytes"], &transfer["wrong_bytes"]),
            (&(ITERATIONS * TOTAL).into(), &0.into()),
            "{transfer}"
        );
        assert_eq!(transfer["verified_bytes"], transfer["bytes"]);
        let channels = transfer["channels"].as_array().unwrap();
        assert_eq!(channels.len(), 2 * connections);
        let received: u64 = channels
            .iter()
            .filter(|one| one["side"] == "recv")
            .map(|one| one["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(received, ITERATIONS * TOTAL, "{transfer}");
    }
}

/// Rails of the channels of one GPU.
fn rails(transfer: &Value) -> Vec<&str> {
    let channels = transfer["channels"].as_array().unwrap().iter();
    let mut rails: Vec<&str> = channels
        .map(|channel| channel["dev"].as_str().unwrap())
        .collect();
    rails.sort_unstable();
    rails.dedup();
    rails
}

fn shares_are_even(carried: &[u64]) {
    let share = 8 * (ITERATIONS + 1) * TOTAL / carried.len() as u64;
    assert!(
        carried
            .iter()
            .all(|bytes| (share..share + share / 4).contains(bytes)),
        "{carried:?}, share {share}"
    );
}

#[test]
fn one_process_per_gpu_uses_its_nearest_rail() {
    let Some(lab) = Lab::up() else { return };
    let (record, carried, events) = run(&lab, "8gpu-per-process", &[]);
    each_is_apart(&record, 4);
    for (gpu, transfer) in record["transfers"].as_array().unwrap().iter().enumerate() {
        assert_eq!(rails(transfer), [RAILS[gpu / 2]], "GPU {gpu}");
    }
    shares_are_even(&carried);
    let lines = |phase: &str| {
        let phase = format!("\"phase\":\"{phase}\"");
        events
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains(&phase))
            .map(|(line, _)| line)
            .collect::<Vec<_>>()
    };
    let (gathered, measure) = (lines("gathering"), lines("measuring"));
    assert_eq!(
        (gathered.len(), measure.len()),
        (16, 16),
        "both ends of each GPU"
    );
    assert!(
        gathered.last() < measure.first(),
        "none measures before all have warmed up"
    );
    let times = record["transfers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|transfer| &transfer["measured_ms"]);
    let (began, ended): (Vec<f64>, Vec<f64>) = times
        .map(|time| (time[0].as_f64().unwrap(), time[1].as_f64().unwrap()))
        .unzip();
    let (last, first) = (
        began.iter().copied().fold(0.0, f64::max),
        ended.iter().copied().fold(f64::MAX, f64::min),
    );
    assert!(last < first, "{began:?} {ended:?}");
    lab.is_left_clean();
}

#[test]
fn one_process_for_all_gpus_keeps_to_the_map() {
    let Some(lab) = Lab::up() else { return };
    let check = |settings: &[&str], rails_of: &dyn Fn(usize) -> Vec<&'static str>| {
        let (record, carried, _) = run(&lab, "8gpu-single-process", settings);
        each_is_apart(&record, 8);
        for (gpu, transfer) in record["transfers"].as_array().unwrap().iter().enumerate() {
            assert_eq!(rails(transfer), rails_of(gpu), "{settings:?} GPU {gpu}");
        }
        carried
    };
    shares_are_even(&check(&[], &|gpu| vec![RAILS[gpu / 2]]));
    shares_are_even(&check(&["topology.map=all"], &|_| RAILS.to_vec()));
    let by_hand = r#"topology.map={ 0 = ["eth1", "eth2"], 1 = "eth4" }"#;
    check(&[by_hand], &|gpu| match gpu {
        0 => vec!["eth1", "eth2"],
        1 => vec!["eth4"],
        _ => vec![RAILS[gpu / 2]],
    });
    lab.is_left_clean();
}

#[test]
fn every_gpu_reaches_every_other_and_each_end_of_a_lane_keeps_to_its_own_rail() {
    let Some(lab) = Lab::up() else { return };
    let (record, carried, _) = run(&lab, "8gpu-full-mesh", &["transfer.iterations=3"]);
    let transfers = record["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 64);
    for (number, transfer) in transfers.iter().enumerate() {
        assert_eq!(transfer["verified_bytes"], 3 * TOTAL, "{transfer}");
        let rail_of = |side: &str| {
            let channels = transfer["channels"].as_array().unwrap();
            let mut of_side = channels.iter().filter(|channel| channel["side"] == side);
            of_side.next().unwrap()["dev"].as_str().unwrap()
        };
        let (from, to) = (number / 8, number % 8);
        assert_eq!(rail_of("send"), RAILS[from / 2], "GPU {from} to GPU {to}");
        assert_eq!(rail_of("recv"), RAILS[to / 2], "GPU {from} to GPU {to}");
    }
    // Three iterations and one to warm up, of 16 lanes each.
    let share = 16 * 4 * TOTAL;
    let even = |bytes: &u64| (share..share + share / 4).contains(bytes);
    assert!(carried.iter().all(even), "{carried:?}, share {share}");
    lab.is_left_clean();
}

#[test]
fn a_map_that_cannot_be_kept_is_refused() {
    let Some(lab) = Lab::up() else { return };
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/8gpu-single-process.toml"
    );
    let map = r#"topology.map={ 3 = ["eth1", "eth9"] }"#;
    lab.tool("node0", &["run", path, "--peer", PEER])
        .set(&SHORT)
        .set(&[map])
        .ends_with(3)
        .says(&["gpu 3", "eth9", "devices of the plugin are eth1"]);
    lab.is_left_clean();
}

#[test]
fn a_failed_gpu_ends_the_others_and_is_named() {
    let Some(lab) = Lab::up() else { return };
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/8gpu-per-process.toml"
    );
    let fault = ["topology.map={ 5 = \"eth9\" }"];
    let ended = lab
        .tool("node0", &["run", path, "--peer", PEER])
        .set(&SHORT)
        .set(&fault)
        .ends_with(3);
    ended.says(&["eth9"]);
    lab.is_left_clean();
}
