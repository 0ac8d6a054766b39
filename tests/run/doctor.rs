//! `doctor`: the checks of captured nodes, and the critical checks that `run` and `handshake` make
//! before they load a plugin.

#[path = "../../src/node/fixtures/lay.rs"]
mod lay;

use crate::tcpxctl::{Ended, Tool};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const A3_HIGH: &str = include_str!("../../src/node/fixtures/a3-high.tree");

/// `doctor` of an A3-high node with these lines of its tree replaced.
fn doctor(changes: &[(&str, &str)], arguments: &[&str]) -> Tool {
    let tool = Tool::new(&[&["doctor", "--sysroot", "tree"], arguments].concat());
    let tree = tool.folder().join("tree");
    lay::lay(A3_HIGH, &tree);
    for (path, content) in changes {
        std::fs::write(tree.join(path), content).unwrap();
    }
    tool
}

/// `doctor` of a node whose fourth interface has a standard MTU, with a misspelt variable.
fn broken(arguments: &[&str]) -> Tool {
    let environment = r#"{"NCCL_DYNAMIC_CHUNK_SIZE":"524288","NCCL_NSOCKS_PER_THREAD":"4","NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX":"/run/tcpx","NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS":"500000","NCCL_USE_DMA_BUF":"0"}"#;
    doctor(
        &[
            ("sys/class/net/eth4/mtu", "1460"),
            ("asked/environment.json", environment),
        ],
        arguments,
    )
}

fn ids(document: &Value, verdict: &str) -> Vec<String> {
    let checks = document["checks"].as_array().unwrap().iter();
    checks
        .filter(|row| row["verdict"] == verdict)
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_correct_node_is_one_screen_of_passes_and_exit_0() {
    let ended = doctor(&[], &[]).ends_with(0);
    ended.says(&[
        "a3-node0, for GPUDirect-TCPX",
        "# GPUs and their driver",
        "# Found : 0 FAIL, 0 WARN, 0 UNKNOWN",
    ]);
    assert!(
        !ended.out.contains(" why ") && !ended.out.contains('\u{1b}'),
        "{ended}"
    );
    assert!(
        ended.out.lines().count() < 80 && ended.err.is_empty(),
        "{ended}"
    );
}

#[test]
fn the_document_has_the_keys_that_scripts_rely_on() {
    let document = broken(&["--json"]).ends_with(1).json();
    assert_eq!(
        (&document["schema"], &document["node"]),
        (&"tcpxctl.doctor/1".into(), &"a3-node0".into())
    );
    let checks = document["checks"].as_array().unwrap();
    assert!(checks.len() >= 40, "{}", checks.len());
    for row in checks {
        for key in [
            "id",
            "layer",
            "verdict",
            "value",
            "expected",
            "why",
            "next_step",
        ] {
            assert!(row.get(key).is_some(), "{key} of {row}");
        }
        assert_eq!(
            row["next_step"].is_null(),
            row["verdict"] == "PASS",
            "{row}"
        );
    }
    assert_eq!(ids(&document, "FAIL"), ["env-disabled"]);
    assert_eq!(ids(&document, "WARN"), ["rail-mtu", "env-unknown-name"]);
}

#[test]
fn failed_checks_are_explained_and_repeated_at_the_end() {
    let ended = broken(&[]).ends_with(1);
    ended.says(&[
        "1460 (eth4) (must be: at least 8244)",
        "ip link set dev eth4 mtu 8244",
        "did you mean NCCL_NSOCKS_PERTHREAD?",
        "# Found : 1 FAIL, 2 WARN, 0 UNKNOWN",
        "# First : env-disabled: unset the variable; found: ",
    ]);
    let colored = broken(&["--color", "always"]).ends_with(1);
    assert!(
        colored.out.contains("\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m"),
        "{colored}"
    );
    let plain = broken(&[]).env("NO_COLOR", "1").ends_with(1);
    assert_eq!(plain.out, ended.out);
}

#[test]
fn a_file_that_is_not_a_plugin_does_not_pass() {
    let named = |path: &str| Tool::new(&["doctor", "--plugin", path]);
    let nothing = named("/no/such/library.so").ends_with(3);
    nothing.says(&["/no/such/library.so", "no such file"]);
    assert!(!nothing.out.contains("PASS"), "{nothing}");
    let text = named("./text.so");
    text.write("text.so", "not a library\n".repeat(10));
    text.ends_with(3).says(&["is a text file"]);
    named(&crate::plugin_files::libc())
        .ends_with(3)
        .says(&["ncclNetPlugin_v12", "nm -D"]);
    let strict = crate::strict::library().to_str().unwrap();
    let judged = named(strict).ended();
    judged.says(&[
        &format!("for {strict}, with the checks of the software plugin"),
        "rail-present",
    ]);
}

#[test]
fn the_output_of_fix_env_corrects_the_environment() {
    let lines = broken(&["--fix-env"]).ends_with(0);
    assert_eq!(
        lines.out,
        "export NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0
export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME==eth1,eth2,eth3,eth4
export NCCL_NSOCKS_PERTHREAD=4
unset NCCL_NSOCKS_PER_THREAD
unset NCCL_USE_DMA_BUF
"
    );
    doctor(&[], &["--fix-env"])
        .ends_with(0)
        .says(&["nothing to correct"]);
    // On this machine: after a shell has run the lines, --fix-env has nothing to correct.
    let script = "eval \"$(\"$@\" doctor --fix-env)\" && \"$@\" doctor --fix-env";
    let again = Tool::new(&[])
        .env("NCCL_DYNAMIC_CHUNK_SIZE", "512K")
        .through("sh", &["-c", script, "sh"])
        .ends_with(0);
    assert!(
        again.out.is_empty() && again.err.contains("nothing to correct"),
        "{again}"
    );
}

#[test]
fn a_capture_gives_the_same_table_on_another_machine() {
    let script = "code=0; \"$@\" doctor --capture node.tar.gz --no-redact > here || code=$?
mkdir tree && tar xzf node.tar.gz -C tree
again=0; \"$@\" doctor --sysroot tree > there || again=$?
cat here && test $code = $again && cmp here there";
    Tool::new(&[])
        .through("sh", &["-ec", script, "sh"])
        .ends_with(0)
        .says(&["# Found : "]);
}

#[test]
fn a_redacted_capture_contains_no_names() {
    let tool = Tool::new(&["doctor", "--capture", "node.tar.gz"])
        .env("USER", "somebody")
        .env("UCCL_HOME", "/home/somebody/x");
    let ended = tool.ended();
    ended.says(&[
        "# Capture : node.tar.gz (",
        "redacted",
        "# Map : node.tar.gz.map.json (the real names: do not send it)",
    ]);
    // As with reports and bundles, the map is beside the capture, readable by its owner only.
    let map = ended.folder().join("node.tar.gz.map.json");
    assert_eq!(
        std::fs::metadata(&map).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let map: Value = serde_json::from_slice(&std::fs::read(map).unwrap()).unwrap();
    assert!(map.as_object().unwrap().contains_key("somebody"), "{map}");
    let archive = std::fs::read(ended.folder().join("node.tar.gz")).unwrap();
    assert!(!archive.windows(8).any(|bytes| bytes == b"somebody"));
}

#[test]
fn two_nodes_are_compared_by_their_facts() {
    let facts = doctor(&[], &["--facts"]).ends_with(0);
    facts.json();
    let tool = doctor(
        &[("proc/sys/kernel/osrelease", "6.6.72+")],
        &["--peer-facts", "there.json", "--json"],
    );
    tool.write("there.json", &facts.out);
    let document = tool.ends_with(1).json();
    let both = document["both"].as_array().unwrap();
    let odd: Vec<&Value> = both.iter().filter(|row| row["verdict"] != "PASS").collect();
    let found: Vec<&str> = odd.iter().map(|row| row["id"].as_str().unwrap()).collect();
    // The same boot id and addresses mean that both are one node.
    assert_eq!(found, ["peer-distinct", "peer-addresses", "peer-kernel"]);
    assert_eq!(odd[2]["value"], "6.6.72+ here, 6.6.93+ there");
    assert_eq!(document["peer"]["node"], "a3-node0");
}

#[test]
fn bad_input_is_named_with_a_next_step() {
    let check = |arguments: &[&str], code: i32, words: &[&str]| {
        let tool = Tool::new(&[&["doctor"], arguments].concat());
        tool.write("junk.json", "{\"node\":1}");
        tool.write("file", "x");
        tool.ends_with(code).says(words);
    };
    check(
        &["--sysroot", "nowhere"],
        2,
        &[
            "--sysroot nowhere: there is no such folder",
            "next: name the folder",
        ],
    );
    check(&["--sysroot", "file"], 2, &["there is no such folder"]);
    check(&["--plugin", "other"], 2, &["--plugin other"]);
    check(
        &["--peer-facts", "junk.json"],
        2,
        &[
            "junk.json: not the facts of a node",
            "tcpxctl doctor --facts",
        ],
    );
    check(&["--peer-facts", "/dev/zero"], 2, &["not a regular file"]);
    check(
        &["--capture", "file"],
        3,
        &["cannot write the capture file", "does not exist yet"],
    );
    check(
        &["--capture", "no/such/x.tar.gz"],
        3,
        &["cannot write no/such/x.tar.gz"],
    );
    check(&["--scenario", "none.toml"], 2, &["none.toml"]);
    check(&["--no-redact"], 2, &["--capture"]);
}

#[test]
fn a_run_checks_its_node_first_and_prints_the_result() {
    Tool::run(&[])
        .ends_with(0)
        .says(&["#       preflight : ", "critical checks passed"]);
    let without = Tool::run(&[]).arg("--no-preflight").ends_with(0);
    assert!(!without.out.contains("preflight"), "{without}");
    Tool::new(&["handshake", "-n", "1"])
        .ends_with(0)
        .says(&["preflight : "]);
}

/// The strict plugin under Google's name.
fn as_tcpx(tool: Tool) -> (Tool, PathBuf) {
    let path = tool.folder().join("libnccl-net-tcpx.so");
    std::fs::copy(crate::strict::library(), &path).unwrap();
    (tool.arg("--plugin").arg(path.to_str().unwrap()), path)
}

#[test]
fn a_node_that_cannot_run_tcpx_is_refused_before_the_plugin_is_loaded() {
    for tool in [Tool::run(&[]), Tool::new(&["handshake"])] {
        let (tool, _) = as_tcpx(tool);
        let ended: Ended = tool.ends_with(3);
        ended.says(&[
            "this node cannot run TCPX: gpu-present is none",
            "also ",
            "--no-preflight",
        ]);
    }
    let (tool, _) = as_tcpx(Tool::run(&[]).arg("--no-preflight"));
    let ended = tool.ended();
    assert!(!ended.said().contains("cannot run TCPX"), "{ended}");
}
