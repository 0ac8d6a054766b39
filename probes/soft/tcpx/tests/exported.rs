//! The shared object exports one table: NCCL takes the highest version it
//! finds, so anything more would be a promise.

use std::path::PathBuf;
use std::process::Command;

/// Cargo puts it beside the tests or one directory up; the first is the fresh one.
fn library() -> PathBuf {
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let name = "libnccl_net_tcpxsoft.so";
    [deps.join(name), deps.parent().unwrap().join(name)]
        .into_iter()
        .find(|path| path.exists())
        .unwrap()
}

#[test]
fn the_shared_object_exports_the_v7_table_and_two_of_its_functions() {
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
    let symbols: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let expected = [
        "_Z13tcpxAccept_v5PvPS_PP24ncclNetDeviceHandle_v7_t",
        "_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t",
        "ncclNetPlugin_v7",
    ];
    assert_eq!(symbols, expected);
}

#[test]
fn the_table_is_whole() {
    let table = tcpx_soft::table();
    assert!(
        table.reg_mr_dma_buf.is_none()
            && table.irecv_consumed.is_some()
            && table.get_device_mr.is_some()
    );
}
