//! Runs of many nodes, each an agent of its own on this machine.

use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tcpxctl");
/// A shell for every node but `a3-9`, which is down.
const SHELL: &str = "#!/bin/sh\n[ \"$1\" != a3-9 ] || { echo no route >&2; exit 255; }\n\
                     shift\nexec sh -c \"$*\"\n";

/// A small mesh over these nodes with these further flags.
fn mesh(hosts: &str, flags: &[&str]) -> Tool {
    of_nodes("mesh.toml", &SMALL, hosts, flags)
}

/// A shipped mesh with these keys over these nodes, with these further flags.
fn of_nodes(name: &str, keys: &[&str], hosts: &str, flags: &[&str]) -> Tool {
    let remote = [
        "--hosts",
        hosts,
        "--rsh",
        "./shell {}",
        "--remote-bin",
        BINARY,
    ];
    let arguments = remote.iter().chain(flags);
    let tool = arguments.fold(Tool::shipped(name, keys), |tool, one| tool.arg(one));
    tool.write_program("shell", SHELL);
    tool
}

const SMALL: [&str; 4] = [
    "transfer.total=256KiB",
    "transfer.iterations=2",
    "plugin.name=builtin",
    "topology.nics=[\"lo\"]",
];

fn ends(tool: Tool, code: i32) -> (Ended, Value) {
    let ended = tool.arg("--json").ends_with(code);
    let record = serde_json::from_str(&ended.out).expect("one JSON document");
    (ended, record)
}

#[test]
fn every_node_meets_every_other_once_on_its_rail() {
    let (_, record) = ends(mesh("a3-[0-3]", &[]), 0);
    let pairs = record["pairs"].as_array().unwrap();
    // What comes after was measured again, because the rates of a busy machine scatter.
    let first = record["mesh"]["first_retest"].as_u64();
    let pairs = &pairs[..first.map_or(pairs.len(), |first| first as usize)];
    let mut met: Vec<[u64; 2]> = pairs
        .iter()
        .map(|pair| {
            assert_eq!(pair["rail"]["nics"], serde_json::json!(["lo", "lo"]));
            [0, 1].map(|end| pair["nodes"][end].as_u64().unwrap())
        })
        .collect();
    met.iter_mut().for_each(|pair| pair.sort_unstable());
    met.sort_unstable();
    assert_eq!(met, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
    let transfers = record["transfers"].as_array().unwrap();
    let of_these = |one: &&Value| one["pair"].as_u64().unwrap() < 6;
    assert_eq!(transfers.iter().filter(of_these).count(), 12);
    assert_eq!(record["mesh"]["rounds_left_out"], 0);
}

#[test]
fn shipped_meshes_are_quiet_however_often_they_run() {
    let few = ["traffic.tokens=64", "traffic.requests=2"];
    for (name, keys) in [
        ("incast.toml", &[][..]),
        ("kv-incast.toml", &few),
        ("mesh-quick.toml", &[]),
        ("mesh.toml", &[]),
        ("rails.toml", &[]),
    ] {
        let keys = [&SMALL, keys, &["limits.stall_after=30s"]].concat();
        for _ in 0..20 {
            let (ended, record) = ends(of_nodes(name, &keys, "a3-[0-2]", &[]), 0);
            assert_eq!(record["outcome"], "passed", "{ended}");
            for finding in record["findings"].as_array().unwrap() {
                assert_eq!(finding["severity"], "info", "{name}: {finding}");
            }
        }
    }
}

#[test]
fn a_mesh_goes_on_without_a_missing_node_if_it_may() {
    mesh("a3-[0-1,9]", &[])
        .ends_with(5)
        .says(&["a3-9", "no route"]);
    let (_, record) = ends(mesh("a3-[0-1,9]", &["--allow-missing", "1"]), 0);
    assert_eq!(record["pairs"].as_array().unwrap().len(), 1);
    assert_eq!(record["mesh"]["missing"][0]["node"], 2);
}

#[test]
fn rounds_beyond_the_budget_are_left_out_and_told() {
    let (_, record) = ends(mesh("a3-[0-3]", &["--set", "mesh.budget=1ms"]), 0);
    assert_eq!(record["mesh"]["rounds_left_out"], 2);
    assert_eq!(record["mesh"]["pairs_left_out"], 4);
    mesh("a3-[0-3]", &["--set", "mesh.budget=1ms"])
        .ends_with(0)
        .says(&["Left out : 2 rounds with 4 pairs"]);
}

#[test]
fn lists_of_nodes_that_cannot_be_a_mesh_are_refused() {
    let refused = |tool: Tool, words: &[&str]| _ = tool.ends_with(2).says(words);
    refused(
        Tool::shipped("mesh.toml", &[]),
        &["no nodes are named", "--hosts"],
    );
    let pair = Tool::shipped("1conn.toml", &[]).arg("--hosts").arg("a,b");
    refused(pair, &["[mesh]", "mesh.pattern=pairs"]);
    refused(mesh("a3-1", &[]), &["two nodes or more"]);
    refused(mesh("a3-1,a3-2,a3-1", &[]), &["a3-1 is named twice"]);
    refused(mesh("a3-[0-4999]", &[]), &["5000 nodes", "1024"]);
    refused(mesh("a3-[3-1]", &[]), &["3-1", "a3-[0-3,7]"]);
    let incast = ["--set", "mesh.pattern=many-to-one"];
    refused(
        mesh("a3-[0-65]", &incast),
        &["a3-0 would", "65 pairs", "at most 64"],
    );
    refused(mesh("nodes.txt", &[]), &["nodes.txt"]);
    let listed = |text: &str| {
        let tool = mesh("nodes.txt", &[]);
        tool.write("nodes.txt", text);
        tool
    };
    refused(listed("# nothing\r\n\r\n"), &["names no host"]);
    refused(
        listed("a3-0\r\na3-1\r\na3-0\r\n"),
        &["nodes.txt:3", "already on line 1"],
    );
    listed("\u{feff}# four\r\na3-0 slots=8\r\na3-1   # the second\r\n").ends_with(0);
}

#[test]
fn the_two_nodes_of_a_mesh_have_their_own_names() {
    let ended = mesh("a3-[0-1]", &[]).ends_with(0);
    let record = ended.recorded("passed");
    let names = [0, 1].map(|node| record["nodes"][node]["name"].as_str().unwrap());
    assert_eq!(names, ["a3-0", "a3-1"]);
    assert!(!ended.out.contains("peer"), "{ended}");
}
