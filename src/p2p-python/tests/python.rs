//! The module as Python imports it: the built library beside the package, and scripts that use
//! only the standard library. What needs NumPy is skipped without it, with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The package as a wheel would install it, without the program.
fn package(folder: &Path) {
    let built = std::env::current_exe().expect("a path");
    let library = built.with_file_name("libtcpxp2p_python.so");
    copy_tree(&source("tcpxctl"), &folder.join("tcpxctl"));
    let module = folder.join("tcpxctl/_native.abi3.so");
    std::fs::copy(library, module).expect("the module is built");
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let place = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_tree(&path, &place),
            false => drop(std::fs::copy(&path, &place).expect("copied")),
        }
    }
}

/// Runs a script of this folder; its last lines are those of `unittest`.
fn run(script: &str) {
    run_with(script, &[]);
}

fn run_with(script: &str, environment: &[(&str, &Path)]) {
    if let Err(error) = Command::new("python3").arg("--version").output() {
        println!("skipped: no python3: {error}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    package(folder.path());
    let ran = Command::new("python3")
        .args(["-B", "-W", "error::ResourceWarning"])
        .arg(source("tests").join(script))
        // The package of the sources, in the folder of the tests, has no module.
        .current_dir(folder.path())
        .env("PYTHONPATH", folder.path())
        .env("TCPXSOFT_SOCKET_IFNAME", "lo")
        .envs(environment.iter().copied())
        .output()
        .expect("runs");
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    println!("{out}{err}");
    assert!(ran.status.success(), "{script}: {}", ran.status);
}

#[test]
fn objects_and_exceptions() {
    run("objects.py");
}

#[test]
fn the_calls_of_uccl() {
    run("calls.py");
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    run("bad_input.py");
}

#[test]
fn processes_that_end_fork_or_are_interrupted() {
    run("processes.py");
}

#[test]
fn a_program_for_uccl_runs_unchanged() {
    run("unchanged.py");
}

#[test]
fn gpu_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"])
        .args(["-Wno-unknown-pragmas", "-Wl,-soname,libcuda.so.1"])
        .arg(source("../../tests/cuda/fake_cuda.c"))
        .arg("-o")
        .arg(folder.path().join("libcuda.so.1"))
        .status();
    assert!(compiled.expect("a C compiler named cc").success());
    run_with("gpu.py", &[("LD_LIBRARY_PATH", folder.path())]);
}

/// The stub names every class and function of the module, and nothing else.
#[test]
fn the_stub_declares_what_the_module_has() {
    run("stub.py");
}
