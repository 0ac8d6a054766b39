//! Reports of runs that version 1 recorded, and of runs that a future version recorded.

use super::fixture::{gather, v1, write};
use crate::compare::{Baselines, Measured, compare};
use crate::history;
use crate::story::{Story, StoryState};
use crate::{Language, LogLines, bundle, csv, html, markdown, redacted, short, verify};
use std::path::Path;
use tcpx_diagnose::{diagnose, evidence_from_files};
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_run_model::record::RunFiles;
use tcpx_words::error::{NextStep, Outcome};

const RUN: &str = "20261120T101500Z-two-gpus";

fn story_of(name: &str) -> Story {
    Story {
        tcpxctl_version: "VERSION".into(),
        ..gather(&v1(name))
    }
}

#[test]
fn a_run_of_version_1_is_reported() {
    let story = story_of(RUN);
    assert_eq!(
        (story.state, story.outcome, story.pairs.len()),
        (StoryState::Finished, Some(Outcome::Stalled), 2)
    );
    insta::assert_snapshot!("version_1", markdown(&story, false, Language::English));
    assert!(
        html(&story, false, Language::English)
            .contains("Window occupancy over time, recv side, peer gpu 1")
    );
    assert!(short(&story, Language::English).contains("peer gpu 1 recv 1: `pppppppp`"));
    assert!(csv(&story).contains("\r\npeer gpu 1,recv,1,eth1,"));
    let sent = story_of("two-gpus.tar.gz");
    assert_eq!(
        (&sent.transfers, &sent.windows.len()),
        (&story.transfers, &story.windows.len())
    );
}

#[test]
fn a_run_of_version_1_can_be_bundled_and_its_bundle_verified() {
    let verified = verify(&v1("two-gpus.tar.gz"));
    // The redaction of that version kept the ids of boots.
    let is_boot_id = |text: &String| text.contains(": a UUID: 0");
    assert!(
        verified.redacted
            && verified.problems.is_empty()
            && verified.revealing.iter().all(is_boot_id),
        "{verified:?}"
    );
    let files = v1(RUN);
    let mut redactor = Redactor::default();
    let story = redacted(gather(&files), &mut redactor);
    let place = tempfile::NamedTempFile::new().expect("a file");
    let mut packed = Vec::new();
    bundle(
        &files,
        &story,
        LogLines::All,
        &mut Outlet::redacting(redactor),
    )
    .write(&mut packed)
    .expect("packed");
    // Its first bytes tell whose file a killed writer left.
    assert!(packed[..32].windows(7).any(|piece| piece == b"tcpxctl"));
    std::fs::write(place.path(), packed).expect("written");
    let sent = RunFiles::open(place.path()).expect("a bundle");
    let verified = verify(&sent);
    assert!(
        verified.redacted && verified.problems.is_empty() && verified.revealing.is_empty(),
        "{verified:?}"
    );
    assert_eq!(gather(&sent).windows, story.windows);
}

#[test]
fn a_killed_run_of_version_1_is_diagnosed() {
    for name in [RUN, "two-gpus.tar.gz"] {
        let found = diagnose(&evidence_from_files(&v1(name)).expect("events"));
        let places: Vec<Option<&str>> = found.iter().map(|one| one.place()).collect();
        assert!(
            found
                .iter()
                .all(|one| one.condition == "one-channel-starved"),
            "{found:?}"
        );
        assert!(
            places.contains(&Some("peer gpu 0")) && places.contains(&Some("peer gpu 1")),
            "{places:?}"
        );
    }
    let run = tempfile::tempdir().expect("a folder");
    for name in ["events.jsonl", "scenario.toml"] {
        std::fs::copy(v1(RUN).path().join(name), run.path().join(name)).expect("copied");
    }
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    assert_eq!(
        (story.state, story.nodes.len(), story.pairs.len()),
        (StoryState::Killed, 2, 2)
    );
    assert!(
        story
            .workers()
            .all(|(_, worker)| worker.plugin.is_some() && !worker.last_words.is_empty())
    );
    assert!(
        story
            .findings
            .iter()
            .any(|one| one.place() == Some("peer gpu 1")),
        "{:?}",
        story.findings
    );
}

#[test]
fn a_run_is_compared_with_a_baseline_of_version_1() {
    let home = tempfile::tempdir().expect("a folder");
    let kept =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../run-model/record/fixtures/v1/baseline.json");
    std::fs::copy(kept, home.path().join("two-gpus.json")).expect("copied");
    let baseline = Baselines::at(home.path().to_owned())
        .load("two-gpus")
        .expect("read");
    let run = Measured::of_run(&story_of(RUN)).expect("read");
    let compared = compare(vec![baseline, run], 0.05);
    assert!(
        compared.rows.len() > 10 && compared.settings.is_empty(),
        "{compared:?}"
    );
    assert!(
        compared
            .rows
            .iter()
            .any(|row| row.metric == "rate local->peer@gpu1")
    );
    assert_eq!(compared.regressions().count(), 0);
}

/// Copies the run of version 1 to a folder of runs, with another schema in its record.
fn copy_with_schema(reports: &Path, id: &str, schema: &str) {
    let run = reports.join(id);
    std::fs::create_dir_all(&run).expect("a folder");
    for name in ["events.jsonl", "scenario.toml"] {
        std::fs::copy(v1(RUN).path().join(name), run.join(name)).expect("copied");
    }
    let record = std::fs::read_to_string(v1(RUN).path().join("run.json")).expect("read");
    write(&run, "run.json", &record.replace("tcpxctl.run/1", schema));
}

#[test]
fn every_format_names_the_schema_of_a_future_version() {
    let reports = tempfile::tempdir().expect("a folder");
    copy_with_schema(reports.path(), RUN, "tcpxctl.run/1");
    copy_with_schema(reports.path(), "20261120T101600Z-two-gpus", "tcpxctl.run/9");
    let files = RunFiles::open(&reports.path().join("20261120T101600Z-two-gpus")).expect("a run");
    let story = gather(&files);
    assert_eq!(
        (story.state, story.outcome, story.findings.len()),
        (StoryState::OtherVersion, None, 0)
    );
    let why = "run.json has schema tcpxctl.run/9";
    let outputs = [
        html(&story, false, Language::English),
        markdown(&story, false, Language::English),
        short(&story, Language::Chinese),
    ];
    for output in outputs {
        assert!(
            output.contains(why) && output.contains("OTHER VERSION"),
            "{output}"
        );
    }
    let error = Measured::of_run(&story).expect_err("nothing is known of it");
    assert!(
        error.to_string().contains(why) && error.next_step().is_some(),
        "{error}"
    );

    for _ in 0..2 {
        let history = history::read(reports.path()).expect("read");
        let [first, second] = history.runs.as_slice() else {
            panic!("two runs")
        };
        assert_eq!(
            (first.outcome.as_str(), first.finding.as_deref()),
            ("stalled", Some("one-channel-starved"))
        );
        let directions: Vec<&str> = first
            .rates
            .iter()
            .map(|rate| rate.direction.as_str())
            .collect();
        assert_eq!(directions, ["local->peer@gpu0", "local->peer@gpu1"]);
        assert_eq!(
            (second.outcome.as_str(), second.scenario.as_str()),
            (history::OTHER_VERSION, "two-gpus")
        );
        assert!(
            second
                .why
                .as_deref()
                .is_some_and(|said| said.starts_with(why)),
            "{second:?}"
        );
    }
}
