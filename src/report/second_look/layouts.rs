//! The tables of the redaction's tests: each layout is doubted, and no ordinary line is.

use super::{Doubt, LookedFor};
use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;

const SECRETS: &str = include_str!("../../../probes/node/redact/secrets.txt");
const NUMBERS: &str = include_str!("../../../probes/node/redact/numbers.txt");
const CHOSEN: &str = include_str!("../../../probes/node/redact/chosen.txt");
const SHAPES: &str = include_str!("../../../probes/node/redact/shapes.txt");
const NAMES: &str = include_str!("../../../probes/node/redact/names.txt");
const ORDINARY: &str = include_str!("../../../probes/node/redact/ordinary.txt");
/// Letters, a word with signs and digits, letters and digits, a hash.
const KINDS: [&str; 4] = [
    "[a-z]{12}",
    "[A-Z][a-z]{5}%[0-9]{4}",
    "[A-Za-z0-9]{20}",
    "[0-9a-f]{40}",
];
/// Layouts of tools beside a job, with the kinds of `logged.txt`.
const TOOLS: &str = include_str!("../../../probes/node/redact/tools.txt");
/// Kinds of values in `logged.txt`: words and digits too, phrases, and names of ordinary words.
const LOGGED: &str = include_str!("../../../probes/node/redact/logged.txt");
const TOKENS: [&str; 5] = [
    "[A-Za-z0-9]{20}",
    "[A-Z][a-z]{5}%[0-9]{4}",
    "[1-9][0-9]{4,9}",
    "[1-9][0-9]{3}",
    "(sunshine|football|welcome|monkey|shadow|network|release|letmein|master|qwerty|winter|server|orange|purple)",
];
const PHRASES: [&str; 1] = ["(violet|green|seven) (horse|table|winter) (battery|garden|matrix)"];
const DIGITS: [&str; 2] = ["[1-9][0-9]{4}", "[1-9][0-9]{5,9}"];
const CHOSEN_NAMES: [&str; 3] = [
    "(train-data-7|large-model|vision-team|model-run-3)",
    "(google|harbor|atlas|falcon|apple)",
    "(radiant|gentle|silver)-(sunset|river|cloud)-[1-9][0-9]?",
];
const NAME_KINDS: [&str; 2] = ["[a-z]{8}", "[a-z]{5}-[a-z]{5}-[0-9]{2}"];
const TRIES: usize = 60;
/// By chance, letters can be pronounced.
const MISSED_MAX: usize = 8;

fn doubts(bytes: &[u8]) -> Vec<Doubt> {
    super::doubts(bytes, LookedFor::All)
}

fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// A text of this layout in which nothing is doubted, if that happens more than a few times.
fn undoubted(layout: &str, kind: &str, runner: &mut TestRunner) -> Option<String> {
    let values = string_regex(kind).expect("a kind");
    let texts = (0..TRIES).map(|_| {
        let value = values.new_tree(runner).expect("a value").current();
        layout.replace("VALUE", &value)
    });
    let missed: Vec<String> = texts
        .filter(|text| doubts(text.as_bytes()).is_empty())
        .collect();
    (missed.len() > MISSED_MAX).then(|| format!("{} {}", missed.len(), missed[0]))
}

#[test]
fn a_secret_of_any_kind_is_doubted_in_every_layout() {
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for layout in lines(SECRETS) {
        let layout = layout.replace('~', "\n");
        left.extend(
            KINDS
                .iter()
                .filter_map(|kind| undoubted(&layout, kind, &mut runner)),
        );
    }
    for line in lines(SHAPES) {
        let (kind, layout) = line.split_once('\t').expect("a kind and a layout");
        left.extend(undoubted(&layout.replace('~', "\n"), kind, &mut runner));
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_number_that_is_a_secret_is_doubted_in_every_layout() {
    let mut runner = TestRunner::deterministic();
    let left: Vec<String> = lines(NUMBERS)
        .filter_map(|line| {
            let (digits, layout) = line.split_once('\t').expect("digits and a layout");
            let kind = format!(
                "[1-9][0-9]{{{}}}",
                digits.parse::<usize>().expect("digits") - 1
            );
            undoubted(layout, &kind, &mut runner)
        })
        .collect();
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_name_of_ordinary_words_is_doubted_in_every_layout() {
    let mut left = Vec::new();
    for layout in lines(CHOSEN) {
        for name in ["train-data-7", "large-model", "network-group", "google"] {
            let text = layout.replace("VALUE", name);
            left.extend(doubts(text.as_bytes()).is_empty().then_some(text));
        }
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn what_a_program_logs_is_doubted() {
    all_are_doubted(LOGGED);
}

#[test]
fn what_a_tool_beside_a_job_prints_is_doubted() {
    all_are_doubted(TOOLS);
}

/// Tries a table whose lines begin with what VALUE is.
fn all_are_doubted(table: &str) {
    let mut left = Vec::new();
    for line in lines(table) {
        let (kind, layout) = line.split_once('\t').expect("a kind and a layout");
        let layout = layout.replace('~', "\n");
        let kinds: Vec<&str> = match kind {
            "phrase" => TOKENS.iter().chain(&PHRASES).copied().collect(),
            "secret" => TOKENS.to_vec(),
            "token" => TOKENS
                .into_iter()
                .filter(|kind| !kind.ends_with("{3}"))
                .collect(),
            "digits" => DIGITS.to_vec(),
            _ => CHOSEN_NAMES.to_vec(),
        };
        let mut runner = TestRunner::deterministic();
        let mut undoubted = |kind: &&str| {
            undoubted(&layout, kind, &mut runner).map(|one| format!("{kind:.12} {one}"))
        };
        left.extend(kinds.iter().filter_map(&mut undoubted));
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_name_is_doubted_in_every_layout() {
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for layout in lines(NAMES) {
        let layout = layout.replace('^', "\n");
        left.extend(
            NAME_KINDS
                .iter()
                .filter_map(|kind| undoubted(&layout, kind, &mut runner)),
        );
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn ordinary_lines_are_not_doubted() {
    let told: Vec<String> = lines(ORDINARY)
        .flat_map(|line| {
            doubts(line.as_bytes())
                .into_iter()
                .map(move |doubt| format!("{line}\n  {}", doubt.told("")))
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}
