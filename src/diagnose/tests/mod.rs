//! Every rule over recorded and constructed evidence.
//!
//! `fixtures/CONDITION.json` is what `tcpxctl diagnose RUN --evidence` printed of a run
//! with that fault, made small; the file's name, up to a dot, is the condition that has to come first.
//! `healthy*.json` are runs without one. The family files of the rules construct what no
//! software on one machine can cause (`cases`), from the parts in `builders`.

mod apart;
pub(crate) mod builders;

use super::*;
use crate::evidence::{EvidenceChannel, EvidenceNode, Gone, Watched};
use crate::rules::CASES;
use builders::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tcpx_run_model::chinese::{chinese, meaning_in_chinese};
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_run_model::ids::{NodeId, PairId, Who, WorkerId};
use tcpx_run_model::phase::{Phase, how_ended};
use tcpx_run_model::state::RunState;
use tcpx_words::error::Outcome;
use tcpx_words::log::LogSummary;
use tcpx_words::side::Side;

/// The condition that has to come first, and what constructs the evidence.
pub(crate) type Case = (Condition, fn() -> Evidence);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(name: &str) -> Evidence {
    let path = fixtures().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixture_names() -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(fixtures()).expect("fixtures") {
        let path = entry.expect("a file").path();
        names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    names
}

/// Recorded and constructed evidence of faults, with the condition that has to come first.
fn faulty() -> Vec<(Condition, Evidence)> {
    let mut all = Vec::new();
    for name in fixture_names() {
        if !name.starts_with("healthy") {
            let first = name.split('.').next().unwrap_or(&name);
            let condition = Condition::from_name(first).unwrap_or_else(|| panic!("{name}"));
            all.push((condition, fixture(&name)));
        }
    }
    for (condition, construct) in CASES.iter().copied().flatten() {
        all.push((*condition, construct()));
    }
    all
}

fn names(findings: &[Finding]) -> Vec<&str> {
    findings
        .iter()
        .map(|finding| finding.condition.as_str())
        .collect()
}

#[test]
fn each_fault_has_its_condition_first() {
    for (condition, evidence) in faulty() {
        let findings = diagnose(&evidence);
        assert_eq!(
            names(&findings).first(),
            Some(&condition.word()),
            "{findings:#?}"
        );
    }
}

#[test]
fn a_channel_that_stood_for_seconds_is_told_before_the_kill_that_ended_both_programs() {
    let findings = diagnose(&fixture("polls-others-only.then-killed"));
    let expected = ["polls-others-only", "process-killed", "process-killed"];
    assert_eq!(names(&findings), expected);
    let stall = &findings[0];
    assert!(stall.because[0].contains("recv 0"), "{stall:#?}");
}

#[test]
fn evidence_is_written_and_read_again() {
    for (condition, evidence) in faulty() {
        let text = serde_json::to_string(&evidence);
        let text = text.unwrap_or_else(|error| panic!("{condition}: {error}"));
        let again: Evidence = serde_json::from_str(&text).expect("evidence");
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}

/// Facts that are a message of the plugin or a worker.
fn is_quoted(finding: &Finding, text: &str) -> bool {
    let quotes = [
        "settings-differ",
        "recv-sync-differs",
        "connect-never-completes",
        "call-refused",
    ];
    quotes.contains(&finding.condition.as_str()) && !text.contains(": posted ")
}

#[test]
fn every_text_of_a_finding_has_a_chinese_translation() {
    let mut missing = BTreeSet::new();
    for condition in Condition::ALL {
        let entry = condition.entry();
        if meaning_in_chinese(condition.word()).is_none() {
            missing.insert(condition.word().to_owned());
        }
        let texts = [Some(entry.fix), entry.otherwise, entry.decided_by]
            .into_iter()
            .flatten();
        missing.extend(
            texts
                .filter(|text| chinese(text).is_none())
                .map(str::to_owned),
        );
    }
    for (_, evidence) in faulty() {
        for finding in diagnose(&evidence) {
            let texts = finding.because.iter().chain(&finding.cannot_see);
            for text in texts.chain(&finding.next_step) {
                if chinese(text).is_none() && !is_quoted(&finding, text) {
                    missing.insert(format!("{}: {text}", finding.condition));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "src/run-model/chinese.toml lacks {missing:#?}"
    );
}

#[test]
fn a_healthy_run_has_no_finding_above_info() {
    for name in ["healthy", "healthy-many", "first-iteration-counted"] {
        let findings = diagnose(&fixture(name));
        assert!(
            findings
                .iter()
                .all(|finding| finding.severity == Severity::Info),
            "{name}: {findings:#?}"
        );
    }
}

#[test]
fn every_condition_is_found_in_some_evidence() {
    let mut found = BTreeSet::new();
    for (_, evidence) in faulty() {
        found.extend(
            diagnose(&evidence)
                .into_iter()
                .map(|finding| finding.condition),
        );
    }
    // The coordinator reports this one before a worker starts: no rule does.
    found.insert(Condition::MessageExceedsTaskChunks.to_string());
    let mut missing = Condition::ALL.to_vec();
    missing.retain(|condition| !found.contains(condition.word()));
    assert_eq!(missing, []);
}

/// The file of a new condition: `UPDATE_DOCS=1 cargo test -p tcpx-diagnose`.
#[test]
fn rehearsals_that_run_nothing_judge_the_evidence_of_these_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/repro/evidence");
    let mut stale = Vec::new();
    for condition in Condition::ALL {
        if !condition.entry().simulated {
            continue;
        }
        let case = CASES
            .iter()
            .copied()
            .flatten()
            .find(|case| case.0 == *condition);
        let evidence = match case {
            Some((_, construct)) => construct(),
            None => fixture(condition.word()),
        };
        let value = serde_json::to_value(evidence).expect("a document");
        let text = format!("{value:#}\n");
        let path = folder.join(format!("{condition}.json"));
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(condition.word());
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &text).expect("evidence is writable");
            }
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ: run with UPDATE_DOCS=1, read the diff, and run again"
    );
}

#[test]
fn what_follows_from_something_else_is_never_first() {
    let symptoms = [Condition::ConnectionReset, Condition::PeerExitedFirst];
    for name in fixture_names() {
        let findings = diagnose(&fixture(&name));
        for (place, finding) in findings.iter().enumerate() {
            let is_symptom = symptoms.iter().any(|one| one.word() == finding.condition);
            assert!(place > 0 || !is_symptom, "{name}: {findings:#?}");
            let follows = |fact: &String| fact.starts_with("it follows from ");
            if finding.because.iter().any(follows) {
                assert_eq!(finding.severity, Severity::Info, "{name}: {findings:#?}");
            }
        }
    }
}

#[test]
fn rivals_are_named_with_what_would_decide() {
    let findings = diagnose(&stuck_with_other_settings());
    assert!(
        findings[0]
            .cannot_see
            .iter()
            .any(|what| what.contains("what decides: ")),
        "{findings:#?}"
    );
}

#[test]
fn an_end_whose_plugin_says_try_again_for_ever_is_told_to_look_at_the_plugin() {
    let put_off = |side: Side, posted, meanwhile| {
        let mut one = channel(side, [posted; 3], 9000);
        one.now.null_requests = 21_995;
        one.watched = Some(Watched {
            ms: 3000.0,
            null_requests: meanwhile,
            ..Watched::default()
        });
        one
    };
    let (send, recv) = (
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [44, 28, 28], 4000),
    );
    for (evidence, condition, node, call, is_put_off) in [
        (
            pair(put_off(Side::Send, 28, 9000), recv.clone()),
            "sender-silent",
            "local",
            "isend",
            true,
        ),
        (
            pair(put_off(Side::Send, 0, 0), recv.clone()),
            "sender-silent",
            "local",
            "isend",
            true,
        ),
        (
            pair(send, put_off(Side::Recv, 28, 9000)),
            "receiver-silent",
            "peer",
            "irecv",
            true,
        ),
        // The plugin said "try again" while it connected; later its program stopped posting.
        (
            pair(put_off(Side::Send, 28, 0), recv),
            "sender-silent",
            "local",
            "isend",
            false,
        ),
    ] {
        let found = &diagnose(&evidence)[0];
        assert_eq!(
            (found.condition.as_str(), found.place()),
            (condition, Some(node)),
            "{found:#?}"
        );
        let why = format!(
            "{call} returned 0 and no request 21995 times so far, and nothing is in flight"
        );
        assert_eq!(
            found.because.iter().any(|fact| fact.contains(&why)),
            is_put_off,
            "{found:#?}"
        );
        let next_step = found.next_step.as_deref().unwrap_or_default();
        assert_eq!(
            next_step.contains(&format!("look at the plugin on {node}")),
            is_put_off,
            "{next_step}"
        );
    }
}

#[test]
fn a_declared_stall_of_a_run_without_its_scenario_names_the_quiet_channel() {
    let mut state = RunState::default();
    state.introduce_two_nodes();
    let mut apply = |ms: f64, node: u32, kind: EventKind| {
        let worker = WorkerId::of_pair(NodeId(node), PairId(0));
        state.apply(&Event::new(ms, Who::Worker(worker), kind));
    };
    let counters = |side, posted, quiet_ms| {
        let mut now = channel(side, [posted, 28, 28], quiet_ms).now;
        now.tests = 1000 * quiet_ms;
        vec![now]
    };
    // The run had stall_after = 1 s, and was over before 3 s, which is the default.
    apply(5000.0, 0, EventKind::Sample(counters(Side::Send, 40, 900)));
    apply(5100.0, 1, EventKind::Stall(counters(Side::Recv, 44, 1000)));
    apply(6000.0, 0, EventKind::Sample(counters(Side::Send, 40, 1900)));
    apply(6100.0, 1, EventKind::Sample(counters(Side::Recv, 44, 2000)));
    let evidence = ended(Outcome::Stalled, Evidence::from_state(&state));
    assert_eq!(evidence.stall_after_ms, 1000);
    let findings = diagnose(&evidence);
    assert_eq!(
        names(&findings).first(),
        Some(&"nothing-arrives"),
        "{findings:#?}"
    );
}

#[test]
fn lines_that_are_warnings_or_not_printed_do_not_slow_a_run() {
    let found = |warnings, unprinted| {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        let worker = WorkerId::of_pair(NodeId(1), PairId(0));
        let log = LogSummary {
            lines: 90_000,
            warnings,
            unprinted,
            passed_on: 100,
        };
        let sample = EventKind::Sample(vec![channel(Side::Recv, [10, 10, 10], 10).now]);
        state.apply(&Event::new(900.0, Who::Worker(worker), sample));
        state.apply(&Event::new(
            1000.0,
            Who::Worker(worker),
            EventKind::Finished(log),
        ));
        let findings = diagnose(&ended(Outcome::Passed, Evidence::from_state(&state)));
        names(&findings).contains(&"slow-because-of-logging")
    };
    assert!(found(100, 0));
    assert!(!found(89_900, 0));
    assert!(!found(100, 89_800));
}

/// One process that is both ends, as a benchmark on one machine may be.
#[test]
fn a_receive_that_is_never_tested_is_named_if_its_own_send_waits_for_it() {
    let mut evidence = pair(
        channel(Side::Send, [299, 283, 283], 8000),
        channel(Side::Recv, [216, 200, 200], 8000),
    );
    let mut recv = evidence.nodes.remove(1).channels.remove(0);
    recv.watched = Some(Watched {
        tests: 0,
        ..recv.watched.unwrap()
    });
    let send = &mut evidence.nodes[0].channels[0];
    send.now.peer = Some("10.0.1.25:4000".into());
    recv.now.local = send.now.peer.clone();
    evidence.nodes[0].channels.push(recv);
    let findings = diagnose(&evidence);
    assert_eq!(findings[0].condition, "polls-others-only", "{findings:?}");
    assert_eq!(findings[0].cannot_see, Vec::<String>::new());
}

#[test]
fn a_test_that_may_have_been_earlier_does_not_show_that_a_channel_is_tested() {
    let found = |tests_in_doubt| {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 8000),
            channel(Side::Recv, [44, 28, 28], 8000),
        );
        evidence.nodes.truncate(1);
        let channel = &mut evidence.nodes[0].channels[0];
        channel.watched = Some(Watched {
            ms: 8000.0,
            tests: 200,
            tests_in_doubt,
            ..Watched::default()
        });
        diagnose(&evidence)[0].condition.clone()
    };
    assert_eq!(found(200), "local-loop-starved");
    assert_ne!(found(0), "local-loop-starved");
}

#[test]
fn who_tests_rarely_is_not_blamed_while_the_other_end_has_not_posted() {
    let first = |posted_there: u64, tests: u64| {
        let mut evidence = pair(
            channel(Side::Send, [posted_there; 3], 9000),
            channel(Side::Recv, [227, 211, 211], 9000),
        );
        evidence.nodes[1].channels[0].watched = Some(Watched {
            ms: 9000.0,
            tests,
            ..Watched::default()
        });
        diagnose(&evidence)[0].condition.clone()
    };
    assert_eq!(first(211, 27), "sender-silent");
    assert_eq!(first(211, 0), "sender-silent");
    // What was sent has not been received: testing it would.
    assert_eq!(first(220, 0), "local-loop-starved");
}

#[test]
fn the_rate_said_of_a_process_that_is_gone_is_the_most_that_it_may_have_been() {
    let mut evidence = pair(
        channel(Side::Send, [40, 28, 28], 9000),
        channel(Side::Recv, [44, 28, 28], 9000),
    );
    evidence.nodes.truncate(1);
    evidence.nodes[0].channels[0].watched = Some(Watched {
        ms: 10_000.0,
        tests: 270,
        tests_in_doubt: 256,
        ..Watched::default()
    });
    let because = diagnose(&evidence)[0].because.join("\n");
    assert!(because.contains("tested more than 27 times/s"), "{because}");
}

#[test]
fn a_process_whose_end_was_not_seen_stood_still_at_least_as_long_as_it_was_seen() {
    let found = |quiet_ms: u64| {
        let mut evidence = pair(
            channel(Side::Send, [211; 3], quiet_ms),
            channel(Side::Recv, [227, 211, 211], quiet_ms),
        );
        for node in &mut evidence.nodes {
            let (how, signal) = (None, None);
            node.gone = Some(Gone { how, signal });
        }
        assert!(evidence.is_undecided());
        diagnose(&evidence)
    };
    let seen = found(9000);
    assert_eq!(names(&seen), ["sender-silent"]);
    let because = seen[0].because.join("\n");
    assert!(because.contains("quiet for at least 9.0 s"), "{because}");
    assert_eq!(found(0), []);
}

#[test]
fn a_program_that_ended_by_itself_is_said_to_have_left_its_requests() {
    let said = |signal: Option<i32>, consumed: u64| {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, consumed], 10),
            channel(Side::Recv, [0; 3], 0),
        );
        evidence.nodes.truncate(1);
        let how = Some(how_ended(signal.is_none().then_some(0), signal));
        evidence.nodes[0].gone = Some(Gone { how, signal });
        evidence.left_in_flight()
    };
    let left = said(None, 28).expect("said");
    assert!(
        left.starts_with("local called exit(0) with 12 requests in flight: "),
        "{left}"
    );
    assert_eq!(said(None, 40), None);
    assert_eq!(said(Some(9), 28), None, "that is a finding");
}

#[test]
fn a_program_that_was_asked_to_end_is_noted_with_the_signal() {
    let said = |signal: i32, consumed: u64| {
        let mut evidence = pair(
            channel(Side::Send, [40, 40, consumed], 10),
            channel(Side::Recv, [0; 3], 0),
        );
        evidence.nodes.truncate(1);
        let how = Some(how_ended(None, Some(signal)));
        let signal = Some(signal);
        evidence.nodes[0].gone = Some(Gone { how, signal });
        evidence.asked_to_end()
    };
    let asked = said(15, 40).expect("said");
    let expected = "local was killed by signal 15 (SIGTERM) with nothing in flight: ";
    assert!(asked.starts_with(expected), "{asked}");
    assert_eq!([said(15, 39), said(9, 40)], [None, None]);
}

#[test]
fn a_loop_that_waits_for_another_channel_is_not_blamed_for_this_one() {
    // The peer is stopped or gone, or each call on channel 1 is refused: the loop of the inspected
    // process waits there and never comes to channel 0.
    let inspected = |refused: u64, stands: bool| {
        let mut waiting = channel(Side::Send, [12, 0, 0], if stands { 9000 } else { 10 });
        waiting.now.index = 1;
        waiting.now.rc_errors = refused;
        waiting.now.last_error = (refused > 0).then(|| ("test".into(), 2));
        let mut left = channel(Side::Send, [12, 0, 0], 9000);
        left.watched = Some(Watched {
            ms: 3000.0,
            ..Watched::default()
        });
        Evidence {
            stall_after_ms: 3000,
            now_ms: 9000.0,
            nodes: vec![node("local", vec![left, waiting])],
            ..Evidence::default()
        }
    };
    let has = |evidence: &Evidence| names(&diagnose(evidence)).contains(&"polls-others-only");
    assert!(has(&inspected(0, false)));
    assert!(!has(&inspected(0, true)));
    assert!(!has(&inspected(75_000, true)));
}

#[test]
fn who_presses_ctrl_c_is_not_told_about_a_premature_close() {
    // The worker of the other end was told to stop first and closed its connections.
    let mut evidence = pair(
        channel(Side::Send, [40, 28, 28], 20),
        channel(Side::Recv, [44, 28, 28], 20),
    );
    let sender = &mut evidence.nodes[0];
    sender.channels[0].now.last_error = Some(("test".into(), 2));
    sender.channels[0].now.rc_errors = 1;
    sender.failure = failure(Phase::Measuring, "test returned 2", true);
    sender.lines = vec![line(
        "data-socket-closed",
        "Connection closed by remote peer",
    )];
    evidence.outcome = Some(Outcome::Failed);
    assert_eq!(names(&diagnose(&evidence)), ["premature-close"]);
    evidence.outcome = Some(Outcome::Interrupted);
    assert_eq!(diagnose(&evidence), []);
}

#[test]
fn a_worker_that_ended_with_its_agent_is_not_said_to_have_closed_early() {
    // The command was stopped for so long that the agents ended, and their workers with them.
    let mut evidence = pair(
        channel(Side::Send, [40, 40, 40], 20),
        channel(Side::Recv, [44, 40, 40], 20),
    );
    let receiver = &mut evidence.nodes[1];
    receiver.channels[0].now.last_error = Some(("test".into(), 2));
    receiver.channels[0].now.rc_errors = 1;
    evidence.outcome = Some(Outcome::NotRun);
    assert_eq!(diagnose(&evidence), []);
    evidence.outcome = Some(Outcome::Failed);
    assert_eq!(names(&diagnose(&evidence)), ["call-refused"]);
}

#[test]
fn a_channel_that_was_quiet_for_too_short_is_not_reported_as_empty() {
    let evidence = pair(
        channel(Side::Send, [40, 28, 28], 1900),
        channel(Side::Recv, [44, 28, 28], 2000),
    );
    let findings = diagnose(&ended(Outcome::Stalled, evidence));
    assert_eq!(names(&findings), ["stalled"]);
    assert_eq!(findings[0].place(), Some("peer"));
    let facts = findings[0].because.join("; ");
    assert!(
        facts.contains("quiet for 2.0 s") && facts.contains("no channel that was quiet for 3.0 s"),
        "{facts}"
    );
}

#[test]
fn a_slow_pair_that_moves_is_silent() {
    let mut evidence = pair(
        channel(Side::Send, [40, 28, 28], 900),
        channel(Side::Recv, [44, 28, 28], 900),
    );
    assert_eq!(names(&diagnose(&evidence)), Vec::<&str>::new());
    // Starved of its processor for longer than a stall takes, and then it passed.
    evidence.outcome = Some(Outcome::Passed);
    for node in &mut evidence.nodes {
        node.channels[0].now.quiet_ms = 9000;
        node.channels[0].watched = Some(Watched {
            ms: 3000.0,
            tests: 0,
            in_one_call: true,
            ..Watched::default()
        });
    }
    assert_eq!(names(&diagnose(&evidence)), Vec::<&str>::new());
}

/// A number that makes arithmetic meet its ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(16), Just(u64::MAX), any::<u64>()]
}

/// Every number of a fixture replaced, every text cut, every list shortened.
fn spoil(value: &mut serde_json::Value, random: &mut impl Iterator<Item = u64>) {
    use serde_json::Value;
    let Some(next) = random.next() else { return };
    match value {
        Value::Number(number) if number.is_u64() => *value = next.into(),
        Value::String(text) if next % 11 == 0 => {
            *text = text.chars().take(next as usize % 5).collect()
        }
        Value::Array(list) => {
            if next % 7 == 0 {
                list.truncate(next as usize % 3);
            }
            list.iter_mut().for_each(|one| spoil(one, random));
        }
        Value::Object(map) => map.values_mut().for_each(|one| spoil(one, random)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_evidence_is_judged(which in 0..fixture_names().len(), numbers in prop::collection::vec(number(), 1..400)) {
        let mut value = serde_json::to_value(fixture(&fixture_names()[which])).expect("a document");
        spoil(&mut value, &mut numbers.into_iter().cycle().take(20_000));
        // What does not fit its type any more is refused.
        if let Ok(evidence) = serde_json::from_value::<Evidence>(value) {
            let findings = diagnose(&evidence);
            prop_assert!(findings.len() <= 100);
        }
    }
}

/// A key of a scenario with a value, as in `map = "nearest"`, or a variable.
fn names_a_setting(fix: &str) -> bool {
    ["NCCL_", "TCPXSOFT_", " = \"", "policy ", "sixteen"]
        .iter()
        .any(|part| fix.contains(part))
}

#[test]
fn no_remedy_recommends_what_just_failed() {
    // These name a setting without a value: its rule compares it with the run's own sizes, or ends.
    let compared = [
        Condition::RecvSyncDiffers,
        Condition::MessageExceedsTaskChunks,
    ];
    for condition in Condition::ALL {
        let entry = condition.entry();
        if names_a_setting(entry.fix) && !compared.contains(condition) {
            assert!(entry.otherwise.is_some(), "{condition}: {}", entry.fix);
        }
    }
    let mut replaced = BTreeSet::new();
    for (_, mut evidence) in faulty() {
        for finding in diagnose(&evidence) {
            let entry = Condition::from_name(&finding.condition).unwrap().entry();
            for (name, value) in entry.recommends {
                put_in_force(&mut evidence, name, value);
            }
            for again in diagnose(&evidence) {
                let is_same = again.condition == finding.condition;
                if is_same && entry.otherwise.is_some() {
                    assert_ne!(again.next_step.as_deref(), Some(entry.fix), "{again:?}");
                    replaced.insert(again.condition);
                }
            }
        }
    }
    // With their settings in force, the others are not found at all.
    assert!(replaced.len() > 3, "{replaced:?}");
}

fn put_in_force(evidence: &mut Evidence, name: &str, value: &str) {
    let Some((table, key)) = name.split_once('.') else {
        for node in &mut evidence.nodes {
            node.settings.insert(name.to_owned(), value.to_owned());
        }
        return;
    };
    let mut scenario = serde_json::to_value(evidence.scenario.clone().unwrap_or_default()).unwrap();
    scenario[table][key] = value
        .parse::<u64>()
        .map_or_else(|_| value.into(), serde_json::Value::from);
    evidence.scenario = Some(serde_json::from_value(scenario).unwrap());
}

#[test]
fn programs_that_post_nothing_for_the_stall_limit_are_idle() {
    let of = |in_flight: u64, quiet_ms: u64| {
        let send = channel(Side::Send, [40, 40 - in_flight, 40 - in_flight], quiet_ms);
        let mut evidence = pair(send, channel(Side::Recv, [40, 40, 40], 3500));
        evidence.scenario = None;
        evidence
    };
    assert!(
        of(0, 3000)
            .idle()
            .is_some_and(|words| words.contains("for 3.0 s"))
    );
    assert_eq!(of(0, 2999).idle(), None);
    assert_eq!(of(1, 3000).idle(), None);
    let mut idle = of(0, 3000);
    idle.nodes[0].channels[0].now.closed = true;
    assert!(idle.idle().is_some_and(|words| words.contains("for 3.5 s")));
    idle.nodes[1].channels[0].now.closed = true;
    assert_eq!(idle.idle(), None, "no channel is open");
}
