//! Every reason for a missing GPU is a separate error with a next step and exit code 3.

use crate::support::{fake_driver, said, tool};

fn refused(environment: &[(&str, &str)], arguments: &[&str], words: &[&str]) {
    let output = tool(
        &[&["gpu", "--total", "64KiB", "--rounds", "1"], arguments].concat(),
        environment,
    );
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{environment:?}: {said}");
    for words in words {
        assert!(
            said.contains(words),
            "{environment:?}: no `{words}` in {said}"
        );
    }
}

/// Whether the machine has a real driver, which tcpxctl then finds regardless of the test's
/// environment.
fn machine_has_a_driver() -> bool {
    let none = said(&tool(
        &["gpu"],
        &[
            ("LD_LIBRARY_PATH", "/nonexistent"),
            ("CUDA_VISIBLE_DEVICES", ""),
        ],
    ));
    let found = !none.contains("no NVIDIA driver library");
    if found {
        eprintln!("skipped in part: this machine has an NVIDIA driver");
    }
    found
}

#[test]
fn no_driver_at_all() {
    if machine_has_a_driver() {
        return;
    }
    refused(
        &[("LD_LIBRARY_PATH", "/nonexistent")],
        &[],
        &[
            "no NVIDIA driver library",
            "next: install the NVIDIA driver",
        ],
    );
}

#[test]
fn a_driver_without_a_gpu() {
    refused(
        &[("FAKE_CUDA_DEVICES", "0")],
        &[],
        &["lists no GPU", "nvidia-smi"],
    );
    refused(
        &[("CUDA_VISIBLE_DEVICES", "")],
        &[],
        &[
            "CUDA_VISIBLE_DEVICES is ``",
            "next: check CUDA_VISIBLE_DEVICES",
        ],
    );
}

#[test]
fn a_driver_that_is_too_old() {
    refused(
        &[("FAKE_CUDA_VERSION", "10020")],
        &[],
        &[
            "supports CUDA 10.2; 11.0 or later",
            "update the NVIDIA driver",
        ],
    );
}

#[test]
fn a_library_that_only_looks_like_a_driver() {
    let folder = tempfile::TempDir::new().unwrap();
    let empty = folder.path().join("empty.c");
    std::fs::write(&empty, "int cuInit(unsigned flags) { return (int)flags; }").unwrap();
    let library = folder.path().join("libcuda.so.1");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&empty)
        .status();
    assert!(built.unwrap().success());
    std::os::unix::fs::symlink("libcuda.so.1", folder.path().join("libcuda.so")).unwrap();
    refused(
        &[("LD_LIBRARY_PATH", folder.path().to_str().unwrap())],
        &[],
        &["the NVIDIA driver library has no cuDriverGetVersion"],
    );
}

#[test]
fn unknown_error_codes_are_printed() {
    refused(
        &[("FAKE_CUDA_FAIL", "cuInit:34")],
        &[],
        &["CUDA_ERROR_STUB_LIBRARY (code 34)", "toolkit's stub"],
    );
    refused(
        &[("FAKE_CUDA_FAIL", "cuInit:919")],
        &[],
        &["cuInit failed: unknown code (code 919)"],
    );
    refused(&[("FAKE_CUDA_FAIL", "cuInit:-7")], &[], &["code -7"]);
    refused(
        &[("FAKE_CUDA_FAIL", "cuModuleLoadData:218")],
        &[],
        &["cuModuleLoadData failed: CUDA_ERROR_INVALID_PTX"],
    );
    refused(
        &[("FAKE_CUDA_FAIL", "cuLaunchKernel:700")],
        &[],
        &["cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS"],
    );
}

#[test]
fn a_failure_of_any_driver_call_is_reported() {
    let calls = "cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem_v2 \
                 cuDevicePrimaryCtxRetain cuCtxSetCurrent cuMemAlloc_v2 cuMemHostAlloc cuMemGetAddressRange_v2 \
                 cuPointerGetAttribute cuMemcpyHtoDAsync_v2 cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuStreamCreate \
                 cuEventCreate cuEventRecord cuEventQuery cuEventElapsedTime cuModuleGetFunction";
    for call in calls.split_whitespace() {
        // Attributes that old drivers lack may be missing, except the first one.
        refused(
            &[("FAKE_CUDA_FAIL", &format!("{call}:999"))],
            &[],
            &["code 999", "error: "],
        );
    }
}

#[test]
fn a_gpu_that_does_not_exist_or_cannot_be_used() {
    let listed = "the driver lists 0 (0000:04:00.0), 1 (0000:05:00.0)";
    refused(&[], &["--gpu", "2"], &["there is no GPU 2", listed]);
    refused(
        &[],
        &["--gpu", "0000:09:00.0"],
        &["there is no GPU 0000:09:00.0", listed, "tcpxctl discover"],
    );
    refused(
        &[("CUDA_VISIBLE_DEVICES", "1")],
        &["--gpu", "0000:04:00.0"],
        &["0 (0000:05:00.0)", "CUDA_VISIBLE_DEVICES is `1`"],
    );
    refused(
        &[("FAKE_CUDA_MIG", "1")],
        &["--gpu", "1"],
        &["GPU 1 is a MIG instance", "choose a whole GPU"],
    );
}

#[test]
fn too_little_memory_prints_the_free_size() {
    refused(
        &[("FAKE_CUDA_MEMORY", "3000000")],
        &[],
        &["GPU 0 has ", "of 3000000 bytes free", "are required"],
    );
}

#[test]
fn an_allocation_off_a_page_boundary_is_an_error() {
    refused(
        &[("FAKE_CUDA_MISALIGN", "1")],
        &[],
        &["is not on a 4096-byte boundary"],
    );
}

#[test]
fn every_failure_releases_all_driver_resources() {
    let folder = tempfile::TempDir::new().unwrap();
    let report = folder.path().join("report");
    for fail in [
        "",
        "cuModuleLoadData:218",
        "cuMemAlloc_v2:2:3",
        "cuEventQuery:700:9",
        "cuLaunchKernel:700:5",
    ] {
        let environment = [
            ("FAKE_CUDA_REPORT", report.to_str().unwrap()),
            ("FAKE_CUDA_FAIL", fail),
        ];
        let output = tool(
            &[
                "gpu", "--total", "64KiB", "--rounds", "1", "--chunk", "64KiB",
            ],
            &environment,
        );
        assert_eq!(
            output.status.code(),
            Some(if fail.is_empty() { 0 } else { 3 }),
            "{fail}: {}",
            said(&output)
        );
        let left = std::fs::read_to_string(&report).unwrap();
        assert_eq!(
            left, "contexts 0, device bytes 0, pinned bytes 0, streams 0, events 0, modules 0\n",
            "{fail}"
        );
    }
}

#[test]
fn discover_lists_cudas_gpus_or_the_reason_for_none() {
    let discover = |environment: &[(&str, &str)]| {
        let output = tool(&["discover", "--plugin", "builtin"], environment);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    };
    let both = discover(&[
        ("LD_LIBRARY_PATH", fake_driver().to_str().unwrap()),
        ("FAKE_CUDA_MIG", "1"),
    ]);
    for words in [
        "# GPUs, from CUDA 12.2\n",
        "0000:04:00.0",
        "8192 MiB",
        "no, a MIG instance",
    ] {
        assert!(both.contains(words), "no `{words}` in {both}");
    }
    let one = discover(&[("CUDA_VISIBLE_DEVICES", "1")]);
    assert!(
        one.contains("CUDA_VISIBLE_DEVICES is `1`") && !one.contains("0000:04:00.0"),
        "{one}"
    );
    if machine_has_a_driver() {
        return;
    }
    let none = discover(&[("LD_LIBRARY_PATH", "/nonexistent")]);
    assert!(
        none.contains("# GPUs, from CUDA\n#   none: no NVIDIA driver library"),
        "{none}"
    );
}
