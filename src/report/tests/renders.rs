//! Snapshots of every format of a stalled run's report.

use super::fixture::{Names, gather, stalled, write};
use crate::story::{Story, StoryProcess, StoryState};
use crate::{Language, csv, html, json, junit, markdown, prometheus, redacted, short};
use proptest::prelude::*;
use tcpx_node::redact::Redactor;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::record::RunFiles;

pub(crate) fn stalled_story() -> Story {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    let mut story = redacted(story, &mut Redactor::default());
    story.tcpxctl_version = "VERSION".into();
    story
}

#[test]
fn the_short_report_has_at_most_sixty_lines_in_both_languages() {
    let story = stalled_story();
    for (name, language) in [
        ("short_en", Language::English),
        ("short_zh", Language::Chinese),
    ] {
        let text = short(&story, language);
        assert!(text.lines().count() <= 60, "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn a_report_in_chinese_has_verdict_findings_and_next_steps_in_chinese() {
    let mut story = stalled_story();
    let finding = &mut story.findings[0];
    finding.because = vec![
        "all 16 receives in flight are done, and none is handed back".to_owned(),
        "a sentence of another version".to_owned(),
    ];
    finding.next_step = Some(
        "call irecv_consumed once per receive, in order, after its unpack has finished".to_owned(),
    );
    story.lacks("charts over time", "no worker has three or more samples");
    let language = Language::Chinese;
    for text in [
        short(&story, language),
        markdown(&story, false, language),
        html(&story, false, language),
    ] {
        for part in [
            "停滞（STALLED）",
            "停滞，首先由 peer 端发现（recv 通道 1：16 个在途）。",
            "window-never-consumed",
            "：接收已完成但没有用 irecvConsumed 交还",
            "错误",
            "全部 16 个在途接收都已完成，但没有一个被交还",
            "a sentence of another version",
            "下一步: 每个接收在 unpack 完成之后，按顺序调用一次 irecv_consumed",
            "没有 worker 有三个或更多采样",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}

#[test]
fn adopted_logs_and_an_unrecorded_plugin_are_so_in_chinese() {
    let story = Story {
        state: StoryState::Adopted,
        scenario: "adopted recordings".into(),
        ..Story::default()
    };
    for text in [
        short(&story, Language::Chinese),
        markdown(&story, false, Language::Chinese),
        html(&story, false, Language::Chinese),
    ] {
        for (part, english) in [
            ("收集的日志", "adopted logs"),
            ("没有记录的插件", "an unrecorded plugin"),
        ] {
            assert!(text.contains(part) && !text.contains(english), "{text}");
        }
    }
}

#[test]
fn recordings_of_other_programs_are_headed_by_their_first_finding() {
    let mut story = stalled_story();
    (story.state, story.outcome) = (StoryState::Adopted, None);
    story.settings.clear();
    let text = html(&story, false, Language::English);
    assert!(text.contains("✗ STALLED"), "{text}");
    assert!(text.contains("do not hold their environment"), "{text}");
    assert!(!text.contains("the environment has none"), "{text}");
    story.findings.clear();
    assert!(html(&story, false, Language::English).contains("? ADOPTED"));
}

#[test]
fn adopted_recordings_are_not_called_logs() {
    let mut story = Story {
        state: StoryState::Adopted,
        ..Story::default()
    };
    let told = |story: &Story| markdown(story, false, Language::English);
    story.scenario = "adopted recordings".into();
    let text = told(&story);
    assert!(text.contains("these are logs of other programs"));
    assert!(text.contains("adopted logs"), "{text}");
    assert!(!text.contains("started unknown"), "{text}");
    story.processes.push(StoryProcess {
        worker: Subject {
            node: NodeId(0),
            pair: None,
            pid: Some(4242),
            name: "pid 4242".into(),
        },
        role: String::new(),
        plugin: "TCPXSoft_v7".into(),
        ended: "was running".into(),
    });
    let text = told(&story);
    assert!(
        text.contains("these are recordings of other programs"),
        "{text}"
    );
    assert!(text.contains("adopted recordings"), "{text}");
}

/// The story of a run with a log of another program beside it.
fn story_with_log(text: &str) -> Story {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let logs = run.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    std::fs::write(logs.join("rank0.log"), text).unwrap();
    gather(&RunFiles::open(run.path()).expect("a run"))
}

#[test]
fn a_line_that_no_signature_knows_is_in_the_report() {
    let story = story_with_log("started\nthe device failed to answer\n");
    for text in [
        markdown(&story, false, Language::English),
        html(&story, false, Language::English),
    ] {
        assert!(text.contains("the device failed to answer"), "{text}");
        assert!(text.contains("rank0.log:2"), "{text}");
    }
}

#[test]
fn what_a_log_says_is_in_the_chosen_language() {
    let story = story_with_log("NVRM: fallen off the bus and is not responding to commands.\n");
    for (language, parts) in [
        (Language::English, ["fatal, ", "at an unknown time"]),
        (Language::Chinese, ["致命，", "时间未知"]),
    ] {
        for text in [
            markdown(&story, false, language),
            html(&story, false, language),
        ] {
            for part in parts {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
    }
}

#[test]
fn markdown_has_every_section() {
    insta::assert_snapshot!(markdown(&stalled_story(), false, Language::English));
}

#[test]
fn a_suite_without_an_end_takes_as_long_as_its_cases() {
    let mut story = stalled_story();
    story.finished = None;
    story.transfers[0].record.seconds = 0.602;
    let text = junit(&story);
    let suite = text.lines().find(|line| line.contains("<testsuite "));
    assert!(
        suite.is_some_and(|suite| suite.contains("time=\"0.602\"")),
        "{text}"
    );
}

#[test]
fn junit_prometheus_csv_and_json_can_be_parsed() {
    let story = stalled_story();
    insta::assert_snapshot!("junit", junit(&story));
    insta::assert_snapshot!("prometheus", prometheus(&story));
    let rows = csv(&story);
    assert!(
        rows.lines().all(|row| row.split(',').count() == 9),
        "{rows}"
    );
    assert_eq!(rows.lines().count(), 1 + 4 * story.axis.parts);
    let again: Story = serde_json::from_str(&json(&story).expect("JSON")).expect("a story");
    assert_eq!(again, story);
}

#[test]
fn html_has_every_chart_and_no_script_or_external_resource() {
    let page = html(&stalled_story(), false, Language::English);
    for part in [
        "✗ STALLED",
        "Rate over time per rail",
        "Window occupancy over time, recv side, peer",
        "Rate of each iteration",
        "dddddddddddddddd",
        "MTU 8244",
        "freeze-frame.json",
        "Questions for Google",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in [
        "<script", "http://", "https://", "src=", "@import", "url(", "NaN",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let questions = |page: &str| page.find("id=\"questions\"").expect("there");
    assert!(questions(&html(&stalled_story(), true, Language::English)) < questions(&page));
}

#[test]
fn a_run_without_a_record_is_reported_and_missing_data_listed() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    std::fs::remove_file(run.path().join("run.json")).expect("removed");
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    assert_eq!(
        (story.state, story.outcome, story.scenario.as_str()),
        (StoryState::Killed, None, "never-consumed")
    );
    let why = "the coordinator was killed before it wrote run.json; events.jsonl covers the first ";
    assert!(
        story
            .reason
            .as_deref()
            .is_some_and(|reason| reason.starts_with(why)),
        "{:?}",
        story.reason
    );
    assert!(short(&story, Language::English).contains(why) && junit(&story).contains(why));
    assert!(
        story
            .missing
            .iter()
            .any(|one| one.why.contains("no run.json")),
        "{:?}",
        story.missing
    );
    assert!(html(&story, false, Language::English).contains("KILLED"));

    write(run.path(), "run.json", "{\"outcome\":");
    write(run.path(), "events.jsonl", "nonsense\n");
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    assert_eq!(story.state, StoryState::Damaged);
    assert!(short(&story, Language::English).contains("DAMAGED"));
}

#[test]
fn a_clock_that_was_set_back_is_noted() {
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    let path = run.path().join("run.json");
    let text = std::fs::read_to_string(&path).expect("read");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["finished"] = "2020-01-01T00:00:00Z".into();
    std::fs::write(&path, record.to_string()).expect("written");
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    let is_noted = |one: &crate::story::MissingData| one.why.contains("was set back");
    assert!(story.missing.iter().any(is_noted), "{:?}", story.missing);
}

#[test]
fn text_from_files_is_never_markup() {
    let run = tempfile::tempdir().expect("a folder");
    let evil = "<script>alert(1)</script>|`x`\u{1b}[2J";
    stalled(
        run.path(),
        &Names {
            host: evil.into(),
            ..Names::default()
        },
    );
    let story = gather(&RunFiles::open(run.path()).expect("a run"));
    let page = html(&story, false, Language::English);
    assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
    for text in [
        page,
        markdown(&story, false, Language::English),
        junit(&story),
        csv(&story),
        prometheus(&story),
    ] {
        assert!(!text.contains('\u{1b}'));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_record_is_never_fatal(at in 0usize..8000, bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let run = tempfile::tempdir().expect("a folder");
        stalled(run.path(), &Names::default());
        for name in ["run.json", "events.jsonl"] {
            let path = run.path().join(name);
            let mut whole = std::fs::read(&path).expect("read");
            let from = at % whole.len();
            let to = (from + bytes.len()).min(whole.len());
            whole.splice(from..to, bytes.iter().copied());
            std::fs::write(&path, whole).expect("written");
        }
        let story = gather(&RunFiles::open(run.path()).expect("a run"));
        for text in [html(&story, true, Language::English), short(&story, Language::Chinese), junit(&story), csv(&story)] {
            prop_assert!(!text.is_empty());
        }
    }
}
