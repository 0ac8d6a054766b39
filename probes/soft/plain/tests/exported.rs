//! The shared object exports every version and nothing else.

use std::path::PathBuf;
use std::process::Command;

/// Cargo puts it beside the tests or one directory up; the first is the fresh one.
fn library() -> PathBuf {
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let name = "libnccl_net_plainsoft.so";
    [deps.join(name), deps.parent().unwrap().join(name)]
        .into_iter()
        .find(|path| path.exists())
        .unwrap()
}

#[test]
fn the_shared_object_exports_every_version_and_nothing_else() {
    let out = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let mut symbols: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let mut expected =
        tcpx_abi::VERSIONS.map(|version| format!("{}{version}", tcpx_abi::SYMBOL_PREFIX));
    symbols.sort_unstable();
    expected.sort_unstable();
    assert_eq!(symbols, expected);
}
