//! Whole runs over the software plugin with the pages in a GPU's memory.

use crate::support::{fake_runtime, on_a_real_gpu, said, tool};
use std::process::Output;

/// A run on the real GPU if tests may use it, else over the fake driver.
fn run(settings: &[&str]) -> Output {
    run_with(settings, real())
}

/// Variables of a run: on a real GPU an empty LD_LIBRARY_PATH, so that the real driver is loaded.
fn real() -> &'static [(&'static str, &'static str)] {
    if on_a_real_gpu() {
        &[("LD_LIBRARY_PATH", "")]
    } else {
        &[]
    }
}

fn run_with(settings: &[&str], environment: &[(&str, &str)]) -> Output {
    run_over("builtin", settings, environment)
}

fn run_over(plugin: &str, settings: &[&str], environment: &[(&str, &str)]) -> Output {
    let settings = [&["transfer.total=2MiB"], settings].concat();
    run_scenario("1conn.toml", plugin, &settings, environment)
}

fn run_scenario(
    scenario: &str,
    plugin: &str,
    settings: &[&str],
    environment: &[(&str, &str)],
) -> Output {
    let folder = tempfile::TempDir::new().unwrap();
    let reports = folder.path().to_str().unwrap();
    let scenario = format!("{}/scenarios/{scenario}", env!("CARGO_MANIFEST_DIR"));
    let mut arguments = vec!["run", &scenario, "--plugin", plugin, "--reports", reports];
    let small = [
        "transfer.memory=device",
        "transfer.iterations=2",
        "transfer.warmup=1",
    ];
    let patient = ["limits.stall_after=30s", "topology.nics=[\"lo\"]"];
    small
        .iter()
        .chain(&patient)
        .chain(settings)
        .for_each(|setting| arguments.extend(["--set", setting]));
    let mut environment = environment.to_vec();
    environment.push(("TCPXSOFT_CUDA", "device"));
    tool(&arguments, &environment)
}

fn passes(settings: &[&str]) {
    has_passed(settings, &run(settings));
}

fn has_passed(settings: &[&str], output: &Output) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(0), "{settings:?}: {said}");
    assert!(
        said.contains("memory : GPU 0 (") && said.contains("# Outcome : passed"),
        "{settings:?}: {said}"
    );
}

#[test]
fn every_policy_moves_every_byte() {
    for policy in ["kernel", "d2d", "host"] {
        passes(&[&format!("transfer.unpack={policy}")]);
    }
    passes(&["transfer.unpack=none", "transfer.verify=false"]);
}

#[test]
fn every_shape_of_a_run_passes() {
    passes(&["transfer.chunk=100001", "transfer.total=1000003"]);
    passes(&[
        "transfer.connections=3",
        "progress.policy=dedicated-thread",
        "env.NCCL_NSOCKS_PERTHREAD=2",
    ]);
    passes(&["transfer.direction=both"]);
    passes(&["transfer.direction=ping-pong", "transfer.chunk=64KiB"]);
    passes(&["transfer.recv_window=1", "transfer.send_window=1"]);
    passes(&["progress.policy=window-full-only", "transfer.verify=false"]);
    passes(&["env.TCPXSOFT_IO=helper"]);
}

#[test]
fn receives_without_unpacking_are_flushed_before_comparison() {
    for settings in [
        &["transfer.connections=2"][..],
        &["transfer.direction=both"],
        &["env.TCPXSOFT_IO=helper"],
    ] {
        for abi in ["v4", "v8", "v12"] {
            let environment = [real(), &[("TCPXCTL_ABI", abi)]].concat();
            has_passed(settings, &run_over("plainsoft", settings, &environment));
        }
    }
}

/// Few small pages.
const KV: [&str; 6] = [
    "traffic.layers=2",
    "traffic.head_size=16",
    "traffic.tokens=\"40x3, 200\"",
    "traffic.batch=8",
    "traffic.cache=256KiB",
    "transfer.connections=2",
];

fn run_kv(plugin: &str, settings: &[&str]) -> Output {
    run_scenario("kv-cache.toml", plugin, &[&KV, settings].concat(), real())
}

#[test]
fn pages_of_a_kv_cache_move_between_gpus_and_are_compared_there() {
    for plugin in ["builtin", "plainsoft"] {
        for settings in [
            &["traffic.op=pull", "transfer.direction=both"][..],
            &["traffic.op=push"],
            &[
                "topology.gpus=[0]",
                "transfer.verify=false",
                "traffic.head_size=17",
            ],
        ] {
            has_passed(settings, &run_kv(plugin, settings));
        }
    }
}

#[test]
fn a_wrong_byte_in_a_page_of_a_gpu_is_found() {
    for op in ["traffic.op=pull", "traffic.op=push"] {
        let fault = "env.recv.TCPXSOFT_FAULT=\"corrupt:chunk=5,byte=77\"";
        let output = run_kv("builtin", &[op, fault]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{op}: {said}");
        assert!(said.contains("of the cache byte 77 is 0x"), "{op}: {said}");
    }
}

#[test]
fn a_page_of_a_gpu_that_is_done_before_its_flush_is_found() {
    for op in ["traffic.op=pull", "traffic.op=push"] {
        // The call returns success and starts no flush: the bytes stay in the plugin's buffer.
        let fault = "env.recv.TCPXSOFT_FAULT=\"rc:call=iflush,value=0,nth=5\"";
        let output = run_kv("plainsoft", &[op, fault]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{op}: {said}");
        assert!(said.contains("of the cache byte"), "{op}: {said}");
    }
}

#[test]
fn kv_pages_in_a_stand_in_are_refused() {
    let output = run_kv("builtin", &["env.TCPXSOFT_CUDA=standin"]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("has no stand-in for GPU memory"), "{said}");
}

#[test]
fn pages_consumed_too_early_fail_verification_on_the_gpu() {
    let fault =
        "fault={by=\"driver\",side=\"recv\",kind=\"consumed-early\",channel=0,after_chunk=2}";
    // The GPU poisons freed pages while the caller goes on.
    let mut environment = real().to_vec();
    environment.push(("FAKE_CUDA_EAGER", "1"));
    let output = run_with(&[fault], &environment);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in [
        "is 0xdb, expected",
        "wrong bytes",
        "# wrong : channel 0 chunk",
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn one_corrupt_byte_is_named_by_chunk_and_offset() {
    let fault = "env.recv.TCPXSOFT_FAULT=\"corrupt:chunk=2,byte=12345\"";
    // On a machine with several GPUs, each pair would use a different GPU.
    let output = run(&[
        fault,
        "transfer.warmup=0",
        "transfer.iterations=1",
        "topology.gpus=[0]",
    ]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("chunk 1 byte 12345 is 0x"), "{said}");
    assert!(said.contains(", 1 wrong)"), "{said}");
}

#[test]
fn an_unusable_gpu_is_not_replaced_by_host_memory() {
    let refused = |environment: &[(&str, &str)], words: &str| {
        let output = run_with(&[], environment);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{environment:?}: {said}");
        assert!(
            said.contains(words),
            "{environment:?}: no `{words}` in {said}"
        );
    };
    refused(&[("TCPXCTL_GPU", "7")], "there is no GPU 7");
    refused(&[("FAKE_CUDA_MIG", "0")], "is a MIG instance");
    refused(&[("FAKE_CUDA_FAIL", "cuInit:100")], "CUDA_ERROR_NO_DEVICE");
    refused(
        &[("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:999")],
        "cuDevicePrimaryCtxRetain failed",
    );
}

#[test]
fn the_shipped_scenarios_pass_on_a_gpu_and_are_skipped_with_a_reason_elsewhere() {
    for name in [
        "gpu-4conn",
        "gpu-unpack",
        "gpu-memory",
        "repro/gpu-consumed-early",
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let scenario = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let few = [
            "transfer.total=4MiB",
            "transfer.iterations=2",
            "limits.stall_after=30s",
        ];
        let mut arguments = vec![
            "run",
            &scenario,
            "--reports",
            folder.path().to_str().unwrap(),
        ];
        few.iter()
            .for_each(|setting| arguments.extend(["--set", setting]));
        let output = tool(&arguments, &[("LD_LIBRARY_PATH", "")]);
        let said = said(&output);
        let expected = if on_a_real_gpu() { 0 } else { 3 };
        assert_eq!(output.status.code(), Some(expected), "{name}: {said}");
        assert!(
            on_a_real_gpu() || said.contains("skipped: the scenario requires gpu, and "),
            "{name}: {said}"
        );
    }
}

#[test]
fn mr_registers_gpu_memory() {
    let small = [
        ("TCPXSOFT_CUDA", "device"),
        ("FAKE_CUDA_MEMORY", "100000000"),
    ];
    let output = tool(&["mr", "--plugin", "builtin", "--json"], &small);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = document["rows"].as_array().unwrap();
    let of = |what: &str, size: u64, offset: u64| {
        let fits = |row: &&serde_json::Value| {
            row["what"] == what && row["size"] == size && row["offset"] == offset
        };
        let gpu = |row: &&serde_json::Value| {
            row["memory"] == "GPU 0 (0000:04:00.0)" && row["side"] == "recv"
        };
        rows.iter()
            .find(|row| fits(row) && gpu(row))
            .unwrap_or_else(|| panic!("no {what} row of {size} at {offset}"))
    };
    assert_eq!(of("size", 4096, 0)["accepted"], true);
    assert_eq!(of("offset", 4096, 4096)["accepted"], true);
    for offset in [1, 512, 4095] {
        let row = of("offset", 4096, offset);
        assert!(
            row["said"].as_str().unwrap().contains("data not aligned"),
            "{row}"
        );
    }
    // The driver refuses more memory than the GPU has, and only that row fails.
    let row = of("size", 1 << 30, 0);
    assert!(
        row["said"].as_str().unwrap().contains("bytes free"),
        "{row}"
    );
    assert_eq!(
        of("storm", 4096, 0)["accepted"],
        true,
        "{}",
        of("storm", 4096, 0)
    );
}

#[test]
fn cuda_set_device_is_called_before_every_control_call() {
    let folder = tempfile::TempDir::new().unwrap();
    let log = folder.path().join("log");
    let runtime = fake_runtime();
    let preloaded = [
        ("LD_PRELOAD", runtime.to_str().unwrap()),
        ("FAKE_CUDART_LOG", log.to_str().unwrap()),
    ];
    let on_one = [&preloaded[..], &[("TCPXCTL_GPU", "1")]].concat();
    let output = run_with(&["transfer.connections=2"], &on_one);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(told.lines().all(|line| line == "1"), "{told}");
    // Two listens, two accepts, two connects, and two registrations on each end.
    assert!(told.lines().count() >= 10, "{told}");
    let output = run_with(
        &[],
        &[&preloaded[..], &[("FAKE_CUDART_CODE", "101")]].concat(),
    );
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("cudaSetDevice(0) of "),
        "{}",
        said(&output)
    );
}
