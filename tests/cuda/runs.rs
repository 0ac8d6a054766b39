//! Whole runs over the software plugin with the pages in a GPU's memory.

use crate::support::{on_a_real_gpu, said, tool};
use std::process::Output;

fn run(settings: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::TempDir::new().unwrap();
    let reports = folder.path().to_str().unwrap();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/1conn.toml");
    let mut arguments = vec!["run", scenario, "--plugin", "builtin", "--reports", reports];
    let small = ["transfer.memory=device", "transfer.total=2MiB", "transfer.iterations=2", "transfer.warmup=1"];
    let patient = ["limits.stall_after=30s", "topology.nics=[\"lo\"]"];
    small.iter().chain(&patient).chain(settings).for_each(|setting| arguments.extend(["--set", setting]));
    let mut environment = environment.to_vec();
    environment.push(("TCPXSOFT_CUDA", "device"));
    if on_a_real_gpu() {
        environment.push(("LD_LIBRARY_PATH", ""));
    }
    tool(&arguments, &environment)
}

fn passes(settings: &[&str]) {
    let output = run(settings, &[]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{settings:?}: {said}");
    assert!(said.contains("memory : GPU 0 (") && said.contains("# Outcome : passed"), "{settings:?}: {said}");
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
    passes(&["transfer.connections=3", "progress.policy=dedicated-thread", "env.NCCL_NSOCKS_PERTHREAD=2"]);
    passes(&["transfer.direction=both"]);
    passes(&["transfer.direction=ping-pong", "transfer.chunk=64KiB"]);
    passes(&["transfer.recv_window=1", "transfer.send_window=1"]);
    passes(&["progress.policy=window-full-only", "transfer.verify=false"]);
    passes(&["env.TCPXSOFT_IO=helper"]);
}

#[test]
fn pages_handed_back_too_early_are_found_wrong_on_the_gpu() {
    let fault = "fault={by=\"driver\",side=\"recv\",kind=\"consumed-early\",channel=0,after_chunk=2}";
    let output = run(&[fault], &[]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in ["is 0xdb, expected", "wrong bytes", "# wrong : channel 0 chunk"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn one_corrupt_byte_is_named_by_chunk_and_offset() {
    let fault = "env.recv.TCPXSOFT_FAULT=\"corrupt:chunk=2,byte=12345\"";
    let output = run(&[fault, "transfer.warmup=0", "transfer.iterations=1"], &[]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("chunk 1 byte 12345 is 0x"), "{said}");
    assert!(said.contains(", 1 wrong)"), "{said}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_not_replaced_by_anything() {
    let refused = |environment: &[(&str, &str)], words: &str| {
        let output = run(&[], environment);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{environment:?}: {said}");
        assert!(said.contains(words), "{environment:?}: no `{words}` in {said}");
    };
    refused(&[("TCPXCTL_GPU", "7")], "there is no GPU 7");
    refused(&[("FAKE_CUDA_MIG", "0")], "is a MIG instance");
    refused(&[("FAKE_CUDA_FAIL", "cuInit:100")], "CUDA_ERROR_NO_DEVICE");
    refused(&[("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:999")], "cuDevicePrimaryCtxRetain failed");
}

#[test]
fn the_shipped_scenarios_pass_on_a_gpu_and_are_skipped_with_the_reason_elsewhere() {
    for name in ["gpu-4conn", "gpu-unpack", "gpu-memory", "repro/gpu-consumed-early"] {
        let folder = tempfile::TempDir::new().unwrap();
        let scenario = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let few = ["transfer.total=4MiB", "transfer.iterations=2", "limits.stall_after=30s"];
        let mut arguments = vec!["run", &scenario, "--reports", folder.path().to_str().unwrap()];
        few.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let output = tool(&arguments, &[("LD_LIBRARY_PATH", "")]);
        let said = said(&output);
        let expected = if on_a_real_gpu() { 0 } else { 3 };
        assert_eq!(output.status.code(), Some(expected), "{name}: {said}");
        assert!(on_a_real_gpu() || said.contains("skipped: the scenario requires gpu, and the"), "{name}: {said}");
    }
}
