//! Tables of layouts with random secrets and names of several kinds, and of ordinary lines. The
//! second look is tried on the same tables.

use super::Redactor;
use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;

const SECRETS: &str = include_str!("../../../probes/node/redact/secrets.txt");
const NUMBERS: &str = include_str!("../../../probes/node/redact/numbers.txt");
const NAMES: &str = include_str!("../../../probes/node/redact/names.txt");
const SHAPES: &str = include_str!("../../../probes/node/redact/shapes.txt");
/// As `logged.txt`, of tools beside a job.
const TOOLS: &str = include_str!("../../../probes/node/redact/tools.txt");
const ORDINARY: &str = include_str!("../../../probes/node/redact/ordinary.txt");
/// Values of several kinds: letters, a word with signs and digits, letters and digits, a hash.
const KINDS: [&str; 4] = [
    "[a-z]{12}",
    "[A-Z][a-z]{5}%[0-9]{4}",
    "[A-Za-z0-9]{20}",
    "[0-9a-f]{40}",
];
const NAME_KINDS: [&str; 2] = ["[a-z]{8}", "[a-z]{5}-[a-z]{5}-[0-9]{2}"];
/// Values of `logged.txt`: tokens, digits and ordinary words; phrases; names; digits alone.
const LOGGED: &str = include_str!("../../../probes/node/redact/logged.txt");
const VALUES: [&str; 7] = [
    "[a-z]{12}",
    "[A-Za-z0-9]{20}",
    "[0-9a-f]{40}",
    "[A-Z][a-z]{5}%[0-9]{4}",
    "[1-9][0-9]{4,9}",
    "[1-9][0-9]{3}",
    "(sunshine|football|welcome|monkey|shadow|network|release|letmein|master|qwerty|winter|server|orange)",
];
const PHRASES: [&str; 1] = ["(correct|green|seven) (horse|table|winter) (battery|garden|matrix)"];
const CHOSEN: [&str; 4] = [
    "(train-data-7|large-model|vision-team|model-run-3)",
    "(google|harbor|atlas|falcon|apple)",
    "(radiant|gentle|silver)-(sunset|river|cloud)-[1-9][0-9]?",
    "[a-z]{8}",
];
const DIGITS: [&str; 2] = ["[1-9][0-9]{4}", "[1-9][0-9]{5,9}"];
/// Values for each layout, and for each shape.
const TRIES: usize = 20;
const TRIES_LOGGED: usize = 6;
const TRIES_OF_A_SHAPE: usize = 60;

fn lines(table: &str) -> impl Iterator<Item = String> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.replace('~', "\n"))
}

/// The layouts in which the redaction leaves more than one value of 20: by chance, letters are spelled like a word.
fn remaining(layouts: &[String], kinds: &[&str], tries: usize) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for kind in kinds {
        let values = string_regex(kind).expect("a kind");
        for layout in layouts {
            let mut missed = Vec::new();
            for _ in 0..tries {
                let value = values.new_tree(&mut runner).expect("a value").current();
                let text = layout.replace("VALUE", &value);
                let redacted = Redactor::default().redact(&text);
                if redacted.contains(&value) {
                    missed.push(redacted);
                }
            }
            if missed.len() > tries / 20 {
                left.push(format!("{} {kind}: {}", missed.len(), missed[0]));
            }
        }
    }
    left
}

#[test]
fn a_secret_of_any_kind_is_replaced_in_every_layout() {
    let left = remaining(&lines(SECRETS).collect::<Vec<_>>(), &KINDS, TRIES);
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_number_that_is_a_secret_is_replaced_in_every_layout() {
    let mut left = Vec::new();
    for line in lines(NUMBERS) {
        let (digits, layout) = line.split_once('\t').expect("digits and a layout");
        let kind = format!(
            "[1-9][0-9]{{{}}}",
            digits.parse::<usize>().expect("digits") - 1
        );
        let kinds = [kind.as_str(), "[1-9][0-9]{9}"];
        left.extend(remaining(&[layout.to_owned()], &kinds, TRIES));
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_name_is_replaced_in_every_layout() {
    let table = NAMES;
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for kind in NAME_KINDS {
        let values = string_regex(kind).expect("a kind");
        for layout in table.lines().filter(|line| !line.starts_with('#')) {
            let value = values.new_tree(&mut runner).expect("a value").current();
            let redacted =
                Redactor::default().redact(&layout.replace('^', "\n").replace("VALUE", &value));
            if redacted.contains(&value) {
                left.push(redacted);
            }
        }
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn a_secret_is_replaced_for_its_shape() {
    let mut left = Vec::new();
    for line in lines(SHAPES) {
        let (kind, layout) = line.split_once('\t').expect("a kind and a layout");
        left.extend(remaining(&[layout.to_owned()], &[kind], TRIES_OF_A_SHAPE));
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn bytes_of_a_dump_behind_the_name_of_a_secret_are_replaced() {
    for layout in [
        "password bytes: DUMP",
        "secret: DUMP  |x|",
        "token =\n00000000  DUMP",
    ] {
        let dump = "6f 6f 61 61 6b 67 6d 6a 79 6c 78 6c";
        let redacted = Redactor::default().redact(&layout.replace("DUMP", dump));
        assert!(!redacted.contains("61 6b 67"), "{redacted}");
    }
}

#[test]
fn ordinary_lines_are_kept() {
    let changed: Vec<String> = ORDINARY
        .lines()
        .filter_map(|line| {
            let redacted = Redactor::default().redact(line);
            (redacted != line).then(|| format!("{line}\n  {redacted}"))
        })
        .collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
    // Together, what one line shows is learned for the others.
    assert_eq!(Redactor::default().redact(ORDINARY), ORDINARY);
}

/// The kinds of values that a layout of `logged.txt` is tried with.
fn kinds_logged(kind: &str) -> Vec<&'static str> {
    match kind {
        "phrase" => VALUES.iter().chain(&PHRASES).copied().collect(),
        "secret" => VALUES.to_vec(),
        "token" => {
            let is_long = |kind: &&str| !kind.ends_with("{3}");
            VALUES.into_iter().filter(is_long).collect()
        }
        "digits" => DIGITS.to_vec(),
        _ => CHOSEN.to_vec(),
    }
}

/// Checks that no part of a value is left in any of the layouts.
fn check_nothing_is_left(layouts: &'static str) {
    let mut runner = TestRunner::deterministic();
    let mut left = Vec::new();
    for line in lines(layouts) {
        let (kind, layout) = line.split_once('\t').expect("a kind and a layout");
        for kind in kinds_logged(kind) {
            let values = string_regex(kind).expect("a kind");
            left.extend((0..TRIES_LOGGED).find_map(|_| {
                let value = values.new_tree(&mut runner).expect("a value").current();
                let text = Redactor::default().redact_foreign(&layout.replace("VALUE", &value));
                let is_left = value.split(' ').any(|word| text.contains(word));
                is_left.then(|| format!("{kind:.12}: {text}"))
            }));
        }
    }
    assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
}

#[test]
fn nothing_of_a_secret_or_a_name_that_a_program_logs_is_left() {
    check_nothing_is_left(LOGGED);
}

#[test]
fn nothing_is_left_in_the_layouts_of_tools_beside_a_job() {
    check_nothing_is_left(TOOLS);
}
