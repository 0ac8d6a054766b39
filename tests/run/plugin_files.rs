//! Files that are not plugins, and plugins whose `init` fails.

use crate::strict;
use crate::tcpxctl::{Tool, shared_object};

/// Checks that `run` and `discover` with this plugin exit with 3 and print these words.
fn no_plugin(path: &str, words: &[&str]) {
    let ended = Tool::run(&[]).arg("--plugin").arg(path).ends_with(3);
    ended.says(words);
    assert_eq!(
        ended.recorded("not-run")["transfers"],
        serde_json::json!([]),
        "{ended}"
    );
    Tool::new(&["discover", "--plugin", path])
        .ends_with(3)
        .says(words)
        .says(&["# Network interfaces"]);
}

pub(crate) fn libc() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    paths
        .rfind(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .unwrap()
        .to_owned()
}

#[test]
fn files_that_are_not_plugins_are_named_by_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    no_plugin(
        "/no/such/plugin.so",
        &["/no/such/plugin.so", "no such file"],
    );
    let text = file(
        "text.so",
        "this is a text file that is no plugin\n"
            .repeat(10)
            .as_bytes(),
    );
    no_plugin(&text, &[&text, "is a text file"]);
    no_plugin(&file("empty.so", b""), &["empty.so", "0 bytes"]);
    no_plugin(folder.path().to_str().unwrap(), &["is a directory"]);
    no_plugin(
        &libc(),
        &["libc", "exports none of", tcpx_abi::newest::SYMBOL],
    );
    let mut foreign = std::fs::read(strict::library()).unwrap();
    foreign[18..20].copy_from_slice(&243u16.to_le_bytes());
    no_plugin(
        &file("riscv.so", &foreign),
        &["riscv.so", "for another machine"],
    );
    let half = std::fs::read(strict::library()).unwrap();
    no_plugin(&file("half.so", &half[..half.len() / 2]), &["half.so"]);
}

#[test]
fn a_plugin_of_this_folder_needs_no_path() {
    for (command, scenario) in [("run", true), ("discover", false)] {
        let tool = if scenario {
            Tool::run(&[])
        } else {
            Tool::new(&[command])
        };
        std::fs::copy(strict::library(), tool.folder().join("here.so")).unwrap();
        tool.arg("--plugin")
            .arg("here.so")
            .ends_with(0)
            .says(&["Strict", "here.so"]);
    }
}

#[test]
fn an_unresolved_dependency_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "extern int a_function_of_nobody(void); int f(void) { return a_function_of_nobody(); }";
    let library = shared_object(source, folder.path(), "lacking.so");
    no_plugin(
        library.to_str().unwrap(),
        &["lacking.so", "a_function_of_nobody", "ldd -r"],
    );
}

#[test]
fn a_table_with_a_missing_entry_and_an_empty_table() {
    let folder = tempfile::tempdir().unwrap();
    let library = shared_object(
        "void *ncclNetPlugin_v7[19] = {(void *)\"Hole\"};",
        folder.path(),
        "hole.so",
    );
    no_plugin(
        library.to_str().unwrap(),
        &["hole.so", "ncclNetPlugin_v7", "null init"],
    );
}

#[test]
fn a_constructor_may_end_the_process() {
    let folder = tempfile::tempdir().unwrap();
    for (name, body, words) in [
        ("exits.so", "_exit(0)", "exit(0)"),
        ("aborts.so", "abort()", "SIGABRT"),
    ] {
        let source = format!(
            "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void start(void) {{ {body}; }}"
        );
        let library = shared_object(&source, folder.path(), name);
        let ended = Tool::run(&[])
            .arg("--plugin")
            .arg(library.to_str().unwrap())
            .ends_with(6);
        ended.says(&[words, "loading the plugin"]);
        ended.recorded("plugin-died");
    }
}

#[test]
fn every_failure_of_init_is_reported() {
    for (hazard, code, outcome, words) in [
        ("init-error", 3, "not-run", &["init returned 3"][..]),
        ("no-devices", 3, "not-run", &["Strict", "no device"]),
        (
            "no-such-hazard",
            3,
            "not-run",
            &["unknown hazard no-such-hazard"],
        ),
        ("init-exit", 6, "plugin-died", &["exit(1)", "initialising"]),
        ("init-abort", 6, "plugin-died", &["SIGABRT", "initialising"]),
    ] {
        let ended = Tool::run(&[]).strict(hazard).ends_with(code);
        ended.says(words).recorded(outcome);
        let discover = Tool::new(&["discover"]).strict(hazard).ends_with(code);
        discover.says(words).says(&["# Network interfaces"]);
    }
}

#[test]
fn a_failed_init_of_one_end_ends_the_run() {
    for side in ["send", "recv"] {
        let hazard = format!("env.{side}.STRICT_HAZARD=init-exit");
        let ended = Tool::run(&[&hazard]).strict("").ends_with(6);
        let end = if side == "send" { "local" } else { "peer" };
        ended.says(&[&format!("the plugin of {end} called exit(1)")]);
    }
}

#[test]
fn an_init_that_hangs_is_ended() {
    for side in ["send", "recv"] {
        let hazard = format!("env.{side}.STRICT_HAZARD=init-hang");
        let ended = Tool::run(&[&hazard, "limits.connect=2s"])
            .strict("")
            .ends_with(3);
        ended
            .says(&["hangs while initialising", "limits.connect"])
            .recorded("not-run");
    }
    let discover = Tool::new(&["discover", "--timeout", "1"])
        .strict("init-hang")
        .ends_with(3);
    discover.says(&["hangs while initialising", "# Network interfaces"]);
}

/// On a fresh clone, `cargo run` builds only the program and its dependencies.
#[test]
fn building_the_program_builds_its_shared_objects() {
    let deps = std::path::Path::new(env!("CARGO_BIN_EXE_tcpxctl")).with_file_name("deps");
    for name in ["tcpxsoft", "plainsoft", "tcpxtap"] {
        let object = deps.join(format!("libnccl_net_{name}.so"));
        assert!(object.is_file(), "no {}", object.display());
    }
    let manifest = include_str!("../../Cargo.toml");
    let dependencies = manifest
        .split("\n[dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .unwrap();
    for package in ["tcpx-soft-object", "plain-soft-object", "tcpx-tap-object"] {
        assert!(
            dependencies.contains(package),
            "the root package does not depend on {package}"
        );
    }
}
