//! A trial of the redaction with some 900 values, in all layouts of the tables: how many are left, and how many of these
//! the second look takes for clean. It takes minutes, so it is run by hand:
//!
//! `cargo test -p tcpx-report --lib -- --ignored trial --nocapture`
#![forbid(unsafe_code)]

use super::fixture::{Names, gather, recorder, stalled, write};
use crate::second_look::{LookedFor, doubts};
use crate::{Language, LogLines, bundle, html, json, markdown, redacted};
use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use tcpx_node::redact::{Outlet, Redactor};
use tcpx_run_model::record::RunFiles;

const LOGGED: &str = include_str!("../../../probes/node/redact/logged.txt");
const SECRETS: &str = include_str!("../../../probes/node/redact/secrets.txt");
const CHOSEN: &str = include_str!("../../../probes/node/redact/chosen.txt");
const WORDS: &str = include_str!("../../../probes/node/redact/words.txt");
/// Values of each kind.
const OF_A_KIND: usize = 60;
/// Values that each layout is tried with.
const TRIES: usize = 30;
/// Tokens of several alphabets.
const TOKENS: [&str; 8] = [
    "[A-Za-z0-9]{20}",
    "[a-z0-9]{16}",
    "[0-9a-f]{40}",
    "[A-Z2-7]{16}",
    "[A-Za-z0-9+/]{31}[0-9]=",
    "[A-Za-z0-9_-]{22}[A-Z][0-9]",
    "[A-Z][a-z]{5}%[0-9]{4}",
    "[a-z]{12}",
];
const DIGITS: [&str; 1] = ["[1-9][0-9]{4,9}"];
const FOUR: [&str; 1] = ["[1-9][0-9]{3}"];
const NAMES: [&str; 3] = [
    "gpu-[a-z]{5}-[0-9]{2}",
    "[a-z]{5}-[a-z]{6}-prod",
    "[a-z]{8}",
];
/// Ends of words that no secret has behind `password is`.
const REMARKS: [&str; 7] = ["ed", "ing", "ly", "able", "ent", "ive", "ory"];

fn drawn(kinds: &[&str], runner: &mut TestRunner) -> Vec<String> {
    let of_kind = |kind: &&str| string_regex(kind).expect("a kind");
    let all = kinds.iter().map(of_kind).flat_map(|values| {
        let one = |_| values.new_tree(runner).expect("a value").current();
        (0..OF_A_KIND).map(one).collect::<Vec<_>>()
    });
    all.collect()
}

/// Ordinary words: far from each other in the list.
fn words(length: std::ops::Range<usize>) -> Vec<String> {
    let is_word = |word: &&str| {
        length.contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_lowercase())
            && !REMARKS.iter().any(|end| word.ends_with(end))
    };
    let all: Vec<&str> = WORDS.split_ascii_whitespace().filter(is_word).collect();
    let step = all.len() / OF_A_KIND;
    all.iter()
        .step_by(step)
        .take(OF_A_KIND)
        .map(|word| (*word).to_owned())
        .collect()
}

/// Each kind of layout with the values that it is tried with.
fn values_of(kind: &str, runner: &mut TestRunner) -> Vec<String> {
    let words = words(5..10);
    let joined = |sign: &'static str| {
        let others = words.iter().rev();
        words
            .iter()
            .zip(others)
            .map(move |(one, other)| format!("{one}{sign}{other}"))
    };
    let mut all = match kind {
        "digits" => drawn(&DIGITS, runner),
        "name" => drawn(&NAMES, runner),
        "plain" => drawn(&TOKENS, runner),
        _ => [
            drawn(&TOKENS, runner),
            drawn(&DIGITS, runner),
            words.clone(),
        ]
        .concat(),
    };
    match kind {
        "phrase" => {
            all.extend(drawn(&FOUR, runner));
            all.extend(joined(" "));
        }
        "secret" => all.extend(drawn(&FOUR, runner)),
        "name" => {
            all.extend(joined("-"));
            all.extend(
                joined("-")
                    .enumerate()
                    .map(|(number, name)| format!("{name}-{number}")),
            );
        }
        _ => {}
    }
    all
}

fn layouts() -> impl Iterator<Item = (&'static str, String)> {
    let of = |table: &'static str| table.lines().filter(|line| !line.starts_with('#'));
    let logged = of(LOGGED).filter_map(|line| line.split_once('\t'));
    let secrets = of(SECRETS).map(|line| ("plain", line));
    let chosen = of(CHOSEN).map(|line| ("name", line));
    let all = logged.chain(secrets).chain(chosen);
    all.map(|(kind, layout)| (kind, layout.replace('~', "\n")))
}

#[test]
#[ignore = "takes minutes; its numbers are what it is for"]
fn trial_of_values_in_layouts() {
    let mut runner = TestRunner::deterministic();
    let mut counts = std::collections::BTreeMap::<&str, [usize; 4]>::new();
    let mut shown = Vec::new();
    let kinds = ["phrase", "secret", "token", "digits", "name", "plain"];
    let pools = kinds.map(|kind| (kind, values_of(kind, &mut runner)));
    let all: std::collections::BTreeSet<&String> =
        pools.iter().flat_map(|(_, values)| values).collect();
    println!("{} values, {} layouts", all.len(), layouts().count());
    for (number, (kind, layout)) in layouts().enumerate() {
        let (_, values) = pools.iter().find(|(one, _)| *one == kind).expect("a kind");
        let count = counts.entry(kind).or_default();
        for of_layout in 0..TRIES {
            let value = &values[(number * 7 + of_layout * values.len() / TRIES) % values.len()];
            let text = layout.replace("VALUE", value);
            let left = Redactor::default().redact_foreign(&text);
            let is_clean = |text: &str| doubts(text.as_bytes(), LookedFor::All).is_empty();
            count[0] += 1;
            count[3] += usize::from(is_clean(&text));
            if value.split(' ').any(|word| left.contains(word)) {
                count[1] += 1;
                let is_unseen = is_clean(&left);
                count[2] += usize::from(is_unseen);
                shown.push(format!(
                    "{} {left}",
                    if is_unseen { "clean" } else { "doubt" }
                ));
            }
        }
    }
    for (kind, [tried, left, clean, unseen]) in counts {
        println!(
            "{kind}: {tried} tried, {left} left, {clean} of these clean to verify; {unseen} unredacted ones clean"
        );
    }
    shown
        .iter()
        .step_by(1 + shown.len() / 60)
        .for_each(|one| println!("{one}"));
}

#[test]
#[ignore = "takes minutes; its numbers are what it is for"]
fn trial_of_values_in_a_run() {
    let mut runner = TestRunner::deterministic();
    let (mut log, mut secret, mut planted) = (String::new(), String::new(), Vec::new());
    for (number, (kind, layout)) in layouts().enumerate() {
        let kinds: &[&str] = if kind == "name" { &NAMES } else { &TOKENS };
        let value = drawn(&kinds[number % kinds.len()..][..1], &mut runner).swap_remove(0);
        let line = format!("{}\n", layout.replace("VALUE", &value));
        log += &line;
        // Other texts of a run are tcpxctl's own, in which no program writes a name.
        if kind != "name" {
            secret += &line;
        }
        planted.push((value, layout));
    }
    let run = tempfile::tempdir().expect("a folder");
    stalled(run.path(), &Names::default());
    recorder(run.path(), &Names::default());
    std::fs::create_dir_all(run.path().join("logs")).expect("made");
    write(run.path(), "logs/rank0.log", &log);
    write(run.path(), "nodes/peer/environ.txt", &secret);
    let path = run.path().join("run.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["reason"] = secret.clone().into();
    record["findings"][0]["because"][1] = secret.into();
    write(run.path(), "run.json", &record.to_string());
    let files = RunFiles::open(run.path()).expect("a run");
    for lines in [LogLines::All, LogLines::Known] {
        let mut redactor = Redactor::default();
        let story = redacted(gather(&files), &mut redactor);
        let mut outlet = Outlet::redacting(redactor);
        let texts = [
            html(&story, true, Language::English),
            markdown(&story, true, Language::English),
            json(&story).expect("JSON"),
        ];
        let mut outputs: Vec<Vec<u8>> = texts
            .into_iter()
            .map(|text| outlet.rendered(text).bytes().to_vec())
            .collect();
        let mut packed = Vec::new();
        bundle(&files, &story, lines, &mut outlet)
            .write(&mut packed)
            .expect("packed");
        let place = run.path().join("sent.tar.gz");
        std::fs::write(&place, packed).expect("written");
        let sent = RunFiles::open(&place).expect("a bundle");
        let names = sent.names();
        outputs.push(
            names
                .iter()
                .flat_map(|name| sent.read(name, 1 << 26).expect("read"))
                .collect(),
        );
        for (what, bytes) in ["html", "md", "json", "bundle"].iter().zip(&outputs) {
            let is_left = |(value, _): &&(String, String)| {
                memchr::memmem::find(bytes, value.as_bytes()).is_some()
            };
            let left: Vec<&(String, String)> = planted.iter().filter(is_left).collect();
            let clean = doubts(bytes, LookedFor::All).is_empty();
            println!(
                "{lines:?} {what}: {} of {} left, clean {clean}: {:?}",
                left.len(),
                planted.len(),
                &left[..left.len().min(12)]
            );
        }
        let verified = crate::verify(&sent);
        println!(
            "{lines:?}: verify tells {} places",
            verified.revealing.len()
        );
    }
}

#[derive(serde::Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    log: String,
}

/// Of so many lines of the golden logs, in one at most a placeholder stands for more than a host.
const LINES_A_REPLACED_ONE: usize = 60;
/// How the logs name their hosts, which do not leave.
const HOSTS: &str = "node-";

#[test]
fn few_words_of_logs_without_secrets_are_replaced() {
    let cases: Cases = toml::from_str(include_str!("../../logs/golden.toml")).expect("cases");
    let (mut count, mut changed, mut doubted) = (0, Vec::new(), Vec::new());
    for case in &cases.case {
        let mut redactor = Redactor::default();
        let left = redactor.redact_foreign(&case.log);
        let is_changed = |(line, left): &(&str, &str)| {
            left.contains("word") && !["word", HOSTS].iter().any(|part| line.contains(part))
        };
        count += case.log.lines().count();
        let lines = case.log.lines().zip(left.lines()).filter(is_changed);
        changed.extend(lines.map(|(line, left)| format!("{line:.160}\n  {left:.160}\n")));
        for doubt in doubts(left.as_bytes(), LookedFor::All) {
            let line = left.lines().nth(doubt.line - 1).unwrap_or_default();
            doubted.push(format!("{}: {line:.200}", doubt.what));
        }
    }
    let replaced = changed.len();
    assert!(
        replaced * LINES_A_REPLACED_ONE <= count,
        "{replaced} of {count}: {}",
        changed.concat()
    );
    assert!(doubted.is_empty(), "{}", doubted.join("\n"));
}
