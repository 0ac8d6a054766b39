//! `discover`: lists exactly the existing devices and plugins.

use crate::tcpxctl::Tool;
use std::collections::BTreeSet;

#[test]
fn every_device_is_an_interface_of_the_kernel() {
    for plugin in ["soft", "builtin", "auto"] {
        let json = Tool::new(&["discover", "--plugin", plugin, "--json"])
            .ends_with(0)
            .json();
        assert_eq!(json["schema"], "tcpxctl.discover/1");
        let kernel: BTreeSet<String> = std::fs::read_dir("/sys/class/net")
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let devices = json["loaded"]["devices"].as_array().unwrap();
        assert!(!devices.is_empty(), "{json}");
        for device in devices {
            assert!(
                kernel.contains(device["name"].as_str().unwrap()),
                "an invented device: {device}"
            );
            assert_eq!(
                (&device["net_device_type"], &device["net_device_version"]),
                (&1.into(), &7.into())
            );
        }
        let shown = json["node"]["nics"].to_string();
        assert!(
            kernel.iter().all(|name| shown.contains(name.as_str())),
            "{kernel:?} in {shown}"
        );
        assert_eq!(json["error"], serde_json::Value::Null);
    }
}

#[test]
fn discover_lists_the_chosen_and_the_rejected_plugins() {
    let ended = Tool::new(&["discover"]).ends_with(0);
    ended.says(&[
        "# Plugin : ",
        "no TCPX plugin on this node",
        "passed over : /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
    ]);
    ended.says(&[
        "sha256",
        "ncclNetPlugin_v7",
        "UNPACK 7",
        "# Network interfaces, from the kernel",
        "# GPUs",
    ]);
    let ended = Tool::new(&["discover"]).strict("").ends_with(0);
    ended.says(&["Strict", "libnccl-net-strict.so"]);
}

#[test]
fn a_tcpx_plugin_that_does_not_load_is_an_error_without_fallback() {
    for command in ["discover", "run"] {
        let tool = if command == "run" {
            Tool::run(&[])
        } else {
            Tool::new(&[command])
        };
        tool.write("libnccl-net-tcpx.so", "text\n".repeat(100));
        let ended = tool
            .env("UCCL_TCPX_PLUGIN_PATH", "./libnccl-net-tcpx.so")
            .ends_with(3);
        ended.says(&["libnccl-net-tcpx.so", "is a text file"]);
        assert!(!ended.said().contains("TCPXSoft_v7"), "{ended}");
    }
}

#[test]
fn a_plugin_name_that_is_not_found_lists_the_searched_paths() {
    let ended = Tool::new(&["discover", "--plugin", "nosuch"]).ends_with(3);
    ended.says(&[
        "nosuch",
        "/usr/local/tcpx/lib64/libnccl-net-nosuch.so",
        "# Network interfaces",
    ]);
    Tool::run(&[])
        .arg("--plugin")
        .arg("nosuch")
        .ends_with(3)
        .says(&["nosuch", "libnccl-net-nosuch.so"]);
}

#[test]
fn a_crashing_plugin_loses_only_its_part_of_the_document() {
    for (hazard, code, outcome) in [
        ("init-abort", 6, "plugin-died"),
        ("init-exit", 6, "plugin-died"),
        ("init-error", 3, "not-run"),
    ] {
        let json = Tool::new(&["discover", "--json"])
            .strict(hazard)
            .ends_with(code)
            .json();
        assert_eq!(json["error"]["outcome"], outcome, "{json}");
        assert!(
            json["node"]["nics"].to_string().contains("lo") && json["loaded"].is_null(),
            "{json}"
        );
    }
}
