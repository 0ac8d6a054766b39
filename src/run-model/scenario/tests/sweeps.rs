//! Lists where a value belongs.

use super::super::*;
use super::points;

#[test]
fn a_list_is_a_run_per_value_and_the_first_key_changes_slowest() {
    let text = r#"
        name = "x"
        env.NCCL_NSOCKS_PERTHREAD = [1, 2]
        [transfer]
        chunk = ["512KiB", 4096]
        connections = [1, 2]
    "#;
    let points = points(text);
    let names: Vec<&str> = points.iter().map(|point| point.point.as_str()).collect();
    assert_eq!(
        names[0],
        "NCCL_NSOCKS_PERTHREAD=1 chunk=512KiB connections=1"
    );
    assert_eq!(
        names[1],
        "NCCL_NSOCKS_PERTHREAD=1 chunk=512KiB connections=2"
    );
    assert_eq!(names[7], "NCCL_NSOCKS_PERTHREAD=2 chunk=4096 connections=2");
    assert_eq!(names.len(), 8);
    let chunks: Vec<u64> = points
        .iter()
        .map(|point| point.scenario.transfer.chunk.0)
        .collect();
    assert_eq!(
        chunks,
        [524_288, 524_288, 4096, 4096, 524_288, 524_288, 4096, 4096]
    );
    assert!(
        points[0]
            .origin("transfer.chunk")
            .at
            .ends_with("bad.toml:5")
    );
}

#[test]
fn axes_with_the_same_last_name_are_told_apart() {
    let points = points(
        "name = \"x\"\ntransfer.total = [1, 2]\nlimits.total = [\"1s\"]\nrequires = [\"gpu\"]\n",
    );
    assert_eq!(points[1].point, "transfer.total=2 limits.total=1s");
    assert_eq!(points[1].scenario.requires, [Requirement::Gpu]);
}

#[test]
fn lists_that_are_values_are_not_swept() {
    let points = points(
        "name = \"x\"\n[topology]\ngpus = [0, 1]\nnics = [\"eth1\", \"eth2\"]\nprocesses = [\"single\"]\n",
    );
    assert_eq!(points.len(), 1);
    assert_eq!(points[0].scenario.topology.gpus, Gpus::List(vec![0, 1]));
    assert_eq!(points[0].point, "processes=single");
}
