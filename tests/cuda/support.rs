//! A GPU for every machine: the fake driver of `fake_cuda.c`, or a real driver.
//!
//! The driver is looked for once per process, so whatever a test says about it is
//! said in a child of its own: this test program again, or the tool. With
//! `TCPXCTL_TEST_GPU=1` those that ask for no particular driver use the machine's.

use crate::built::built;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

const CHILD: &str = "TCPXCTL_TEST_CHILD";

/// The folder that holds the fake driver as `libcuda.so.1`; the runtime has one of its own.
pub(crate) fn fake_driver() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let driver = library("libcuda.so.1", "cuda/fake_cuda.c");
        driver.parent().unwrap().to_path_buf()
    });
    &FOLDER
}

/// The fake CUDA runtime.
pub(crate) fn fake_runtime() -> PathBuf {
    library("libcudart.so.12", "cuda/fake_cudart.c")
}

fn library(name: &str, source: &str) -> PathBuf {
    let flags = [
        "-shared",
        "-fPIC",
        "-Wno-unknown-pragmas",
        "-fvisibility=hidden",
    ];
    built(
        name,
        source,
        &[&flags[..], &[&format!("-Wl,-soname,{name}")]].concat(),
    )
}

/// Whether this machine's own driver is to be used.
pub(crate) fn on_a_real_gpu() -> bool {
    std::env::var_os("TCPXCTL_TEST_GPU").is_some_and(|value| value == "1")
}

/// Runs `body` in a child with a driver: the real one if there is to be one, else
/// the stand-in. `name` is the test's own.
pub(crate) fn with_driver(name: &str, body: impl FnOnce()) {
    let environment: &[(&str, &str)] = &[];
    with(name, environment, !on_a_real_gpu(), body);
}

/// Like `with_driver`, but always with the fake driver, with these settings.
pub(crate) fn with_fake(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    with(name, environment, true, body);
}

fn with(name: &str, environment: &[(&str, &str)], fake: bool, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name);
    child.envs(environment.iter().copied());
    if fake {
        child.env("LD_LIBRARY_PATH", fake_driver());
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    // A name that matches no test would pass, too.
    assert!(text.contains("1 passed"), "{name} did not run:\n{text}");
}

/// `tcpxctl ARGUMENTS` over the fake driver with these settings.
pub(crate) fn tool(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpxctl"));
    command
        .args(arguments)
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env("LD_LIBRARY_PATH", fake_driver());
    command.envs(environment.iter().copied()).output().unwrap()
}

/// What a command printed.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
