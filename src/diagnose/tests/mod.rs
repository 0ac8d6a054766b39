//! The rules over evidence that was recorded.
//!
//! `fixtures/*.json` are what `tcpxctl diagnose RUN --evidence` printed of runs
//! with a fault, made small; `simulated.rs` makes what no software on one machine
//! brings about.

mod simulated;

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tcpx_run_model::finding::Severity;

/// A fixture and the condition that is to come first.
const RECORDED: &[(&str, &str)] = &[
    ("never-consumed", "window-never-consumed"),
    ("not-polling", "local-loop-starved"),
    ("polls-others", "polls-others-only"),
    ("younger-tested", "head-not-tested"),
    ("seventeenth-post", "slots-exhausted"),
    ("consumed-early", "consumed-early"),
    ("corrupt", "payload-wrong"),
    ("call-refused", "call-refused"),
    ("header-lost", "nothing-arrives"),
    ("one-stops", "one-channel-starved"),
    ("reader-starved", "zero-window-at-peer"),
    ("closed-early", "premature-close"),
    ("hangs-in-test", "hang-inside-call"),
    ("no-cmsg", "no-cmsg"),
    ("never-connects", "connect-never-completes"),
    ("not-steered", "flow-steering-refused"),
    ("recv-sync", "recv-sync-differs"),
    ("chunk-zero", "dynamic-chunk-size-zero"),
    ("stopped", "process-stopped"),
    ("killed", "process-killed"),
    ("segfault", "plugin-crash"),
    ("late", "stalled-and-recovered"),
    ("first-iteration", "first-iteration-counted"),
];
/// Nothing above info is found in these.
const HEALTHY: &[&str] = &["healthy", "healthy-many", "first-iteration"];

fn fixture(name: &str) -> Evidence {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(findings: &[tcpx_run_model::finding::Finding]) -> Vec<&str> {
    findings
        .iter()
        .map(|finding| finding.condition.as_str())
        .collect()
}

#[test]
fn each_recorded_fault_has_its_condition_first() {
    for (name, expected) in RECORDED {
        let findings = diagnose(&fixture(name));
        assert_eq!(
            names(&findings).first(),
            Some(expected),
            "{name}: {findings:#?}"
        );
    }
}

#[test]
fn what_is_healthy_has_no_finding_above_info() {
    for name in HEALTHY {
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
    let recorded = RECORDED
        .iter()
        .flat_map(|(name, _)| diagnose(&fixture(name)));
    let simulated = simulated::ALL
        .iter()
        .flat_map(|(_, make)| diagnose(&make()));
    let found: BTreeSet<String> = recorded
        .chain(simulated)
        .map(|finding| finding.condition)
        .collect();
    // Told before anything runs, by `coord::assign`.
    let known = ["message-exceeds-task-chunks"];
    let all = Catalogue::embedded()
        .conditions
        .iter()
        .map(|condition| condition.name.as_str());
    let missing: Vec<&str> = all
        .filter(|name| !found.contains(*name) && !known.contains(name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// After a change: `UPDATE_DOCS=1 cargo test -p tcpx-diagnose`.
#[test]
fn rehearsals_that_run_nothing_are_judged_from_evidence_that_is_here() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/repro/evidence");
    let mut stale = Vec::new();
    for file in std::fs::read_dir(folder).expect("evidence") {
        let path = file.expect("a file").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name")
            .to_owned();
        let made = simulated::ALL
            .iter()
            .find(|(simulated, _)| *simulated == name);
        let evidence = made.map_or_else(|| fixture(&name), |(_, make)| make());
        let text = format!(
            "{:#}\n",
            serde_json::to_value(evidence).expect("a document")
        );
        if std::fs::read_to_string(&path).expect("readable") != text {
            stale.push(name);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &text).expect("evidence is writable");
            }
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?}: UPDATE_DOCS=1, look at the differences, and once more"
    );
}

#[test]
fn what_follows_from_something_else_is_never_first() {
    for (name, _) in RECORDED {
        let findings = diagnose(&fixture(name));
        let secondary = ["connection-reset", "peer-exited-first"];
        assert!(
            !secondary.contains(&findings[0].condition.as_str()),
            "{name}"
        );
        let follows = |finding: &&tcpx_run_model::finding::Finding| {
            finding
                .because
                .iter()
                .any(|fact| fact.starts_with("it follows from "))
        };
        assert!(
            findings
                .iter()
                .filter(follows)
                .all(|finding| finding.severity == Severity::Info),
            "{name}: {findings:#?}"
        );
    }
}

#[test]
fn rivals_are_named_with_what_would_decide() {
    let findings = diagnose(&simulated::stuck_with_other_settings());
    assert!(
        findings[0]
            .cannot_see
            .iter()
            .any(|what| what.contains("what decides: ")),
        "{findings:#?}"
    );
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
    fn any_evidence_is_judged(which in 0..RECORDED.len(), numbers in prop::collection::vec(number(), 1..400)) {
        let mut value = serde_json::to_value(fixture(RECORDED[which].0)).expect("a document");
        spoil(&mut value, &mut numbers.into_iter().cycle().take(20_000));
        // What does not fit its type any more is refused.
        if let Ok(evidence) = serde_json::from_value::<Evidence>(value) {
            let findings = diagnose(&evidence);
            prop_assert!(findings.len() <= 100);
        }
    }
}
