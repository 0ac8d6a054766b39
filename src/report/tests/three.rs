//! Reports of a run with three nodes and three pairs, which are never called `local` or `peer`.

use super::fixture::{THREE, gather, three};
use crate::compare::Measured;
use crate::history;
use crate::story::Story;
use crate::{
    Language, LogLines, bundle, csv, html, json, junit, markdown, prometheus, redacted, short,
    verify,
};
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::record::RunFiles;
use tcpx_words::error::Outcome;

const ID: &str = "20261120T101500Z-ring";

fn ring() -> (tempfile::TempDir, RunFiles) {
    let reports = tempfile::tempdir().expect("a folder");
    let run = reports.path().join(ID);
    std::fs::create_dir(&run).expect("a folder");
    three(&run);
    let files = RunFiles::open(&run).expect("a run");
    (reports, files)
}

fn outputs(story: &Story) -> [String; 8] {
    [
        html(story, false, Language::English),
        markdown(story, false, Language::English),
        json(story).expect("JSON"),
        csv(story),
        junit(story),
        prometheus(story),
        short(story, Language::English),
        short(story, Language::Chinese),
    ]
}

#[test]
fn a_story_has_every_node_and_every_worker() {
    let (_reports, files) = ring();
    let story = gather(&files);
    let names: Vec<&str> = story
        .workers()
        .map(|(_, worker)| worker.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "a3-east-1 with a3-east-2",
            "a3-east-2 with a3-east-1",
            "a3-east-2 with 10.0.1.33",
            "10.0.1.33 with a3-east-2",
            "10.0.1.33 with a3-east-1",
            "a3-east-1 with 10.0.1.33",
        ]
    );
    let directions: Vec<&str> = story
        .transfers
        .iter()
        .map(|one| one.direction.as_str())
        .collect();
    assert_eq!(
        directions,
        [
            "a3-east-1->a3-east-2",
            "a3-east-2->10.0.1.33",
            "10.0.1.33->a3-east-1"
        ]
    );
    assert_eq!(
        (story.pairs[2].outcome, story.pairs[2].nodes),
        (Some(Outcome::Stalled), [NodeId(2), NodeId(0)])
    );
    assert_eq!(story.series.len(), 6);
    // Only the stalled pair has windows.
    let windows: Vec<&str> = story
        .windows
        .iter()
        .map(|window| window.worker.name.as_str())
        .collect();
    assert_eq!(
        windows,
        ["a3-east-1 with 10.0.1.33", "10.0.1.33 with a3-east-1"]
    );
    let version = story
        .differences
        .iter()
        .find(|one| one.what == "plugin, version")
        .expect("they differ");
    assert_eq!(
        version.values,
        ["3.1.9", "3.1.9", "3.1.7"].map(|version| Some(version.to_owned()))
    );
    let timeline = story.timeline.as_ref().expect("a recorder");
    assert!(
        timeline
            .ends
            .iter()
            .all(|end| end.worker.name == "a3-east-1 with 10.0.1.33"),
        "{timeline:?}"
    );
}

#[test]
fn every_format_names_all_nodes_and_never_local_or_peer() {
    let (reports, files) = ring();
    let story = gather(&files);
    for output in outputs(&story) {
        for name in THREE {
            assert!(output.contains(name), "{name} in {output}");
        }
        let words = output.split(|letter: char| !letter.is_alphanumeric());
        let two: Vec<&str> = words
            .filter(|word| matches!(*word, "local" | "peer"))
            .collect();
        assert!(two.is_empty(), "{two:?} in {output}");
    }
    insta::assert_snapshot!("three_nodes", short(&story, Language::English));
    let history = history::read(reports.path()).expect("read");
    let directions: Vec<&str> = history.runs[0]
        .rates
        .iter()
        .map(|rate| rate.direction.as_str())
        .collect();
    assert_eq!(
        directions,
        [
            "a3-east-1->a3-east-2",
            "a3-east-2->10.0.1.33",
            "10.0.1.33->a3-east-1"
        ]
    );
    let measured = Measured::of_run(&story).expect("read");
    assert!(
        measured.metrics.contains_key("rate 10.0.1.33->a3-east-1"),
        "{:?}",
        measured.metrics.keys()
    );
    assert_eq!(measured.settings["NCCL_DEBUG of a3-east-2"], "WARN");
}

#[test]
fn a_redacted_bundle_names_no_node_and_gives_the_same_story() {
    let (reports, files) = ring();
    let mut redactor = Redactor::default();
    let story = redacted(gather(&files), &mut redactor);
    let place = reports.path().join("sent.tar.gz");
    let mut packed = Vec::new();
    bundle(
        &files,
        &story,
        LogLines::All,
        &mut Outlet::redacting(redactor),
    )
    .write(&mut packed)
    .expect("packed");
    std::fs::write(&place, packed).expect("written");
    let sent = RunFiles::open(&place).expect("a bundle");
    let mut texts: Vec<String> = outputs(&story).into();
    for name in sent.names() {
        texts.push(String::from_utf8_lossy(&sent.read(&name, 1 << 26).expect("read")).into_owned());
        texts.push(name);
    }
    for text in texts {
        for name in THREE {
            assert!(!text.contains(name), "{name} in {text}");
        }
    }
    let verified = verify(&sent);
    assert!(
        verified.redacted && verified.problems.is_empty() && verified.revealing.is_empty(),
        "{verified:?}"
    );
    let again = gather(&sent);
    assert_eq!(
        (&again.windows, &again.pairs),
        (&story.windows, &story.pairs)
    );
    assert_eq!(again.timeline.is_some(), story.timeline.is_some());
}

#[test]
fn of_many_pairs_only_the_slowest_are_charted() {
    let (_reports, files) = ring();
    let mut story = gather(&files);
    let (transfer, series) = (story.transfers[0].clone(), story.series[1].clone());
    story.transfers = (0..40).map(|_| transfer.clone()).collect();
    for (number, transfer) in story.transfers.iter_mut().enumerate() {
        transfer.direction = format!("from {number}");
        transfer.record.median_gb_per_s = 50.0 - number as f64;
    }
    story.series = (0..200).map(|_| series.clone()).collect();
    for (number, series) in story.series.iter_mut().enumerate() {
        series.worker.name = format!("worker {number}");
        series.dev = format!("eth{}", number % 40);
    }
    let page = html(&story, false, Language::English);
    for caption in [
        "the 16 slowest of 40",
        "the 128 slowest of 200",
        "the 32 slowest of 200",
    ] {
        assert!(page.contains(caption), "{caption}");
    }
    assert!(
        page.contains("Rate of each iteration, from 39<")
            && !page.contains("Rate of each iteration, from 23<")
    );
    let words = "median 11.000 to 50.000 GB/s in 40 directions, the slowest from 39.";
    assert!(
        short(&story, Language::English).contains(words),
        "{}",
        short(&story, Language::English)
    );
    assert!(short(&story, Language::Chinese).contains("最慢的是 from 39"));
}
