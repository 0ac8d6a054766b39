//! What comes out of a sound file.

use super::super::*;
use super::points;
use std::path::{Path, PathBuf};
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::progress::DriverFault;
use tcpx_words::side::Side;

#[test]
fn the_order_of_keys_and_the_way_a_value_is_written_do_not_change_the_hash() {
    let hash = |text: &str| points(text)[0].scenario.hash();
    let one = hash(
        "name = \"x\"\n[transfer]\nchunk = \"512KiB\"\ntotal = \"1MiB\"\n[env]\nA = 1\nB = \"2\"\n",
    );
    let two = hash("env = { B = 2, A = \"1\" }\ntransfer.total = 1048576\nname = \"x\"\n");
    assert_eq!(one, two);
    assert_ne!(
        one,
        hash("env = { B = 2, A = \"1\" }\ntransfer.total = 1048577\nname = \"x\"\n")
    );
}

#[test]
fn faults_are_read_as_what_they_are() {
    let fault = |text: &str| {
        points(&format!("name = \"x\"\nfault = {{ {text} }}\n"))
            .remove(0)
            .scenario
            .fault
    };
    assert_eq!(
        fault(
            "by = \"driver\", side = \"recv\", kind = \"never-consumed\", channel = 1, after_chunk = 40"
        ),
        Some(Fault::Driver {
            side: Sides::Recv,
            kind: DriverFault::NeverConsumed,
            channel: 1,
            after_chunk: 40
        })
    );
    assert_eq!(
        fault("by = \"plugin\", side = \"send\", spec = \"stop after=3\""),
        Some(Fault::Plugin {
            side: Sides::Send,
            spec: "stop after=3".to_owned()
        })
    );
    assert!(matches!(
        fault("by = \"network\", side = \"both\", kind = \"loss\", percent = 1"),
        Some(Fault::Network { .. })
    ));
    assert!(matches!(
        fault("by = \"process\", side = \"send\", kind = \"kill\""),
        Some(Fault::Process { .. })
    ));
    assert!(matches!(
        fault("by = \"evidence\", side = \"send\", kind = \"lost\""),
        Some(Fault::Evidence { .. })
    ));
}

#[test]
fn a_name_becomes_a_part_of_a_file_name() {
    let slug = |name: &str| {
        Scenario {
            name: name.to_owned(),
            ..Scenario::default()
        }
        .slug()
    };
    assert_eq!(slug("4conn"), "4conn");
    assert_eq!(
        slug("receiver stops after chunk 40"),
        "receiver-stops-after-chunk-40"
    );
    assert_eq!(slug("../../etc/passwd"), "etc-passwd");
    assert_eq!(slug("测试"), "scenario");
    assert_eq!(slug(&"x".repeat(100)).len(), 64);
}

#[test]
fn every_shipped_scenario_is_sound() {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"))
        .expect("scenarios/")
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    for path in &files {
        let points = resolve(&Inputs {
            scenario: Some(path.clone()),
            ..Inputs::default()
        });
        let points = points.unwrap_or_else(|error| panic!("{}", error.render(false)));
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        assert!(
            points
                .iter()
                .all(|point| Some(point.scenario.name.as_str()) == stem),
            "{}",
            path.display()
        );
    }
    assert!(files.len() >= 9, "{files:?}");
}

#[test]
fn a_gate_may_be_a_whole_number() {
    let expect = points(
        "name = \"x\"\nexpect = { min_gb_per_s = 5, max_wrong_bytes = 0, outcome = \"passed\" }\n",
    )
    .remove(0)
    .scenario
    .expect;
    assert_eq!(expect.min_gb_per_s.map(GbPerS::get), Some(5.0));
    assert_eq!(expect.max_wrong_bytes, Some(0));
    assert_eq!(expect.outcome, Some(tcpx_words::error::Outcome::Passed));
}

#[test]
fn a_plugin_fault_reaches_only_the_end_it_is_meant_for() {
    let text =
        "name = \"x\"\nenv.A = 1\nfault = { by = \"plugin\", side = \"recv\", spec = \"stop\" }\n";
    let scenario = points(text).remove(0).scenario;
    let env = |side| format!("{:?}", scenario.worker_env(side, "node0"));
    assert_eq!(env(Side::Send), r#"{"A": "1"}"#);
    assert_eq!(env(Side::Recv), r#"{"A": "1", "TCPXSOFT_FAULT": "stop"}"#);
}

#[test]
fn the_shipped_scenarios_ask_what_they_say() {
    let shipped = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../scenarios")
            .join(name);
        resolve(&Inputs {
            scenario: Some(path),
            ..Inputs::default()
        })
        .expect("sound")
    };
    let main_job = &shipped("4conn.toml")[0].scenario;
    assert_eq!(main_job.transfer, Transfer::default());
    assert_eq!(main_job.progress, Progress::default());
    assert_eq!(shipped("sweep.toml").len(), 16);
    assert_eq!(shipped("progress.toml").len(), 3);
    for name in ["sweep.toml", "progress.toml", "latency.toml"] {
        assert!(
            shipped(name).iter().all(|point| point
                .scenario
                .check_against_plugin(PluginFamily::Tcpx, None)
                .is_ok()),
            "{name}"
        );
    }
}
