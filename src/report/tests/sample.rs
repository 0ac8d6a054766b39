//! `reports/sample` shows every format for a stalled run. The test fails if a file is out of
//! date, and `UPDATE_DOCS=1` writes the files.

use super::fixture::{Names, gather, stalled};
use crate::story::{RequestTimeline, SideLatency, Story, TimelineEnd, TimelineRequest};
use crate::{Language, html, json, junit, markdown, redacted, short};
use std::path::Path;
use tcpx_node::redact::Redactor;
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{NodeId, PairId, WorkerId};
use tcpx_run_model::record::RunFiles;
use tcpx_words::side::Side;

fn sample() -> Story {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    let mut story = redacted(story, &mut Redactor::default());
    // Fixed data in place of recorders, whose times depend on the machine.
    story
        .missing
        .retain(|missing| !missing.what.starts_with("latency"));
    let workers = [(0, Side::Send), (1, Side::Recv)];
    story.latencies = workers
        .map(|(node, side)| latency(subject(&story, node), side))
        .into();
    let ends = workers.map(|(node, side)| TimelineEnd {
        worker: subject(&story, node),
        side,
        requests: (40..64)
            .map(|number| request(number, side == Side::Recv))
            .collect(),
    });
    story.timeline = Some(RequestTimeline {
        why: "named by the finding window-never-consumed".into(),
        channel: 1,
        before_ns: 1_400_000,
        after_ns: 280_000,
        ends: ends.into(),
        notes: Vec::new(),
    });
    story
}

fn subject(story: &Story, node: u32) -> Subject {
    Subject::worker(WorkerId::of_pair(NodeId(node), PairId(0)), &story.names())
}

fn latency(worker: Subject, side: Side) -> SideLatency {
    let count = |step: u64| (step * (40 - step)).saturating_sub(100);
    let buckets = (4..36)
        .map(|step| (1000 * step, 1000 * (step + 1), count(step)))
        .filter(|bucket| bucket.2 > 0)
        .collect();
    let quantiles = Some(LatencyUs {
        p50: 20.0,
        p99: 34.5,
        p999: 35.75,
        max: 36.0,
    });
    SideLatency {
        worker,
        side,
        buckets,
        quantiles,
    }
}

fn request(number: u32, stuck: bool) -> TimelineRequest {
    let posted = (i64::from(number) - 64) * 55_000 - 60_000;
    let done = Some(posted + 21_000 + i64::from(number % 5) * 7_000);
    let consumed = done.filter(|_| stuck && number < 48).map(|at| at + 9_000);
    TimelineRequest {
        number,
        posted: Some(posted),
        done,
        unpacked: consumed,
        consumed,
    }
}

#[test]
fn the_sample_in_the_repository_is_up_to_date() {
    let story = sample();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/sample");
    let files = [
        ("report.html", html(&story, false, Language::English)),
        ("report.md", markdown(&story, false, Language::English)),
        ("report.json", json(&story).expect("JSON")),
        ("junit.xml", junit(&story)),
        ("short.md", short(&story, Language::English)),
        ("short.zh.md", short(&story, Language::Chinese)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(&path, &text).expect("written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "reports/sample/{name} is out of date: UPDATE_DOCS=1 cargo test -p tcpx-report sample"
        );
    }
}
