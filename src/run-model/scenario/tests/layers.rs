//! Who has the last word.

use super::super::*;
use super::{outcome, said, written};
use std::ffi::OsString;
use std::path::PathBuf;
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::side::Side;

#[test]
fn a_flag_beats_a_variable_beats_the_scenario_beats_the_config_beats_the_default() {
    let (folder, mut inputs) =
        written(b"name = \"x\"\n[transfer]\nconnections = 2\nchunk = 2\ntotal = 2\n");
    let config = folder.path().join("config.toml");
    std::fs::write(
        &config,
        "plugin.name = \"soft\"\n[transfer]\nwarmup = 1\nconnections = 1\nchunk = 1\ntotal = 1\n",
    )
    .expect("a file");
    inputs.user_config = Some(config);
    inputs.variable_set = Some("transfer.chunk=3,transfer.total=3".to_owned());
    inputs.variable_plugin = Some("/opt/x.so".to_owned());
    inputs.set("transfer.total=4");
    inputs.flags.push((
        "--iterations".to_owned(),
        "transfer.iterations=5".to_owned(),
    ));
    let resolved = resolve(&inputs).expect("sound").remove(0);
    let shown = resolved
        .listing()
        .filter(|(key, ..)| key.starts_with("transfer.") || key.starts_with("plugin."));
    let shown: Vec<String> = shown
        .map(|(key, value, origin)| format!("{key} = {value}  # {origin}"))
        .collect();
    let shown = shown
        .join("\n")
        .replace(&*folder.path().to_string_lossy(), "~");
    insta::assert_snapshot!(shown, @r#"
    plugin.path = "/opt/x.so"  # TCPXCTL_PLUGIN
    transfer.chunk = "3B"  # TCPXCTL_SET
    transfer.connections = 2  # ~/bad.toml:3
    transfer.direction = "forward"  # default
    transfer.iterations = 5  # --iterations
    transfer.memory = "auto"  # default
    transfer.recv_window = 16  # default
    transfer.send_window = 12  # default
    transfer.total = "4B"  # --set
    transfer.unpack = "auto"  # default
    transfer.verify = true  # default
    transfer.warmup = 1  # ~/config.toml:3
    "#);
}

#[test]
fn a_config_that_is_not_there_is_no_mistake_and_a_wrong_one_is() {
    let (folder, mut inputs) = written(b"name = \"x\"\n");
    let config = folder.path().join("config.toml");
    inputs.user_config = Some(config.clone());
    assert_eq!(outcome(&folder, &inputs), "fine: 1 scenario(s)");
    std::fs::write(&config, "[transfer]\nchunk = 0\n").expect("a file");
    assert!(outcome(&folder, &inputs).contains("~/config.toml:2:9"));
    std::fs::write(&config, "name = \"mine\"\n").expect("a file");
    assert!(outcome(&folder, &inputs).contains("`name` belongs in a scenario"));
}

#[test]
fn the_environment_says_where_the_config_lies_and_what_is_set() {
    let inputs = |pairs: &[(&str, &str)]| {
        let find = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        Inputs::from_environment(find).expect("text")
    };
    let config = |pairs| inputs(pairs).user_config;
    assert_eq!(
        config(&[("HOME", "/h")]),
        Some(PathBuf::from("/h/.config/tcpxctl/config.toml"))
    );
    assert_eq!(
        config(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]),
        Some(PathBuf::from("/c/tcpxctl/config.toml"))
    );
    assert_eq!(
        config(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")]),
        Some(PathBuf::from("/h/.config/tcpxctl/config.toml"))
    );
    assert_eq!(config(&[]), None);
    assert_eq!(
        inputs(&[("TCPXCTL_SET", "a=1")]).variable_set.as_deref(),
        Some("a=1")
    );
    assert_eq!(inputs(&[("TCPXCTL_SET", "")]).variable_set, None);
}

#[test]
fn tables_are_merged_key_by_key_and_a_plugins_name_replaces_its_path() {
    let (_folder, mut inputs) = written(
        b"name = \"x\"\nplugin = { path = \"/a.so\", abi = \"v9\" }\nenv = { A = 1, B = 1 }\n",
    );
    inputs.set("plugin.name=builtin");
    inputs.set("env.B=2");
    inputs.set("env.node.\"10.0.1.25\".C=3");
    let scenario = resolve(&inputs).expect("sound").remove(0).scenario;
    assert_eq!(
        scenario.plugin,
        PluginChoice {
            abi: Some(AbiVersion::V9),
            ..PluginChoice::named("builtin")
        }
    );
    assert_eq!(
        format!("{:?}", scenario.env.worker(Side::Send, "10.0.1.25")),
        r#"{"A": "1", "B": "2", "C": "3"}"#
    );
}

#[test]
fn without_a_file_there_are_the_defaults() {
    let resolved = resolve(&Inputs::default()).expect("sound").remove(0);
    assert_eq!(resolved.scenario, Scenario::default());
    assert!(
        resolved
            .listing()
            .all(|(.., origin)| origin.layer == Layer::Default)
    );
}

#[test]
fn a_version_of_the_table_comes_from_a_file_a_variable_or_a_flag() {
    let (_folder, mut inputs) = written(b"name = \"x\"\nplugin.abi = \"v9\"\n");
    let resolved = |inputs: &Inputs| {
        let resolved = resolve(inputs).expect("sound").remove(0);
        (
            resolved.scenario.plugin.abi,
            resolved.origin("plugin.abi").layer,
        )
    };
    assert_eq!(resolved(&inputs), (Some(AbiVersion::V9), Layer::Scenario));
    inputs.variable_abi = Some(AbiVersion::V8);
    assert_eq!(
        resolved(&inputs),
        (Some(AbiVersion::V8), Layer::Environment)
    );
    inputs
        .flags
        .push(("--abi".to_owned(), "plugin.abi=\"v7\"".to_owned()));
    assert_eq!(resolved(&inputs), (Some(AbiVersion::V7), Layer::Flag));
    assert_eq!(resolved(&Inputs::default()), (None, Layer::Default));
}

#[test]
fn a_version_in_the_environment_is_checked_where_it_is_read() {
    let read =
        |text: &str| Inputs::from_environment(|name| (name == "TCPXCTL_ABI").then(|| text.into()));
    for (text, version) in [
        ("v8", Some(AbiVersion::V8)),
        ("8", Some(AbiVersion::V8)),
        ("", None),
    ] {
        assert_eq!(read(text).expect("read").variable_abi, version, "{text}");
    }
    let error = read("v99").expect_err("refused");
    let expected = format!(
        "environment variable TCPXCTL_ABI is `v99`: expected {}",
        AbiVersion::RANGE
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_flag_that_chooses_another_variant_replaces_the_keys_of_the_first() {
    let fault = "name = \"a\"\n[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumed\"\nchannel = 1\n";
    let network = ["fault.by=network", "fault.kind=loss", "fault.percent=20"];
    for order in [[0, 1, 2], [2, 1, 0]] {
        assert_eq!(
            said(fault, &order.map(|at| network[at])),
            "fine: 1 scenario(s)"
        );
    }
    let plugin = ["fault.spec='drop-ctrl:nth=3'", "fault.by=plugin"];
    assert_eq!(said(fault, &plugin), "fine: 1 scenario(s)");
    let gpus = "name = \"a\"\n[topology]\ngpus = { or_stand_ins = 2 }\n";
    assert_eq!(
        said(gpus, &["topology.gpus.stand_ins=4"]),
        "fine: 1 scenario(s)"
    );
    assert_eq!(said(gpus, &["topology.gpus=auto"]), "fine: 1 scenario(s)");
}

#[test]
fn a_setting_replaces_a_table_that_is_one_value_and_has_its_errors() {
    for (file, set) in [
        ("gpus = { or_stand_ins = 2 }", "topology.gpus={first=2}"),
        ("gpus = { or_stand_ins = 2 }", "topology.gpus.first=2"),
        ("nics = { first = 1 }", "topology.nics={pick=2}"),
    ] {
        let text = format!("name = \"a\"\n[topology]\n{file}\n");
        let said = said(&text, &[set]);
        assert!(said.contains("--set:1:"), "{set}: {said}");
    }
}
