//! Pages of the book that are made from the program: a page that is out of step
//! fails, and `UPDATE_DOCS=1 cargo test -p tcpxctl --lib book` writes it.

use super::command;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use tcpx_words::abi_version::AbiVersion;

/// Holds a page against what it should be, or writes it.
fn in_step(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "{name} is out of step: UPDATE_DOCS=1 cargo test -p tcpxctl --lib book"
    );
}

/// The list of versions is `tcpx_abi`'s alone; text names their range.
#[test]
fn a_range_of_versions_is_all_that_there_are() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        in_step(
            name,
            &with_range(&std::fs::read_to_string(path).expect("readable")),
        );
    }
    assert_eq!(
        with_range("from v1 to v2, to v3, v4 to"),
        format!("from {}, to v3, v4 to", AbiVersion::RANGE)
    );
}

/// `vN to vM` as it should be.
fn with_range(text: &str) -> String {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut parts = text.split(" to v");
    let mut fixed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let before = fixed.trim_end_matches(|c: char| c.is_ascii_digit());
        if before.len() < fixed.len() && before.ends_with('v') && digits(part) > 0 {
            fixed.truncate(before.len() - 1);
            fixed += AbiVersion::RANGE;
            fixed += &part[digits(part)..];
        } else {
            fixed = format!("{fixed} to v{part}");
        }
    }
    fixed
}

#[test]
fn every_key_of_a_scenario_is_in_the_book() {
    let mut text = String::from(
        "# Scenario keys\n\nMade from the schema, `scenarios/schema.json`. Where a single value stands, a list is a sweep. `--set KEY=VALUE` \
         overrides any key.\n\n| key | what it is | default | values |\n|---|---|---|---|\n",
    );
    let schema = include_str!("../../scenarios/schema.json");
    keys(&serde_json::from_str(schema).expect("JSON"), "", &mut text);
    in_step("docs/scenario-reference.md", &text);
}

fn keys(schema: &Value, path: &str, text: &mut String) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let about = property["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ")
            .replace('|', "\\|");
        if property["properties"].is_object() {
            // A table that has keys of any name beside the known ones.
            if property["additionalProperties"].is_object() {
                let values = values(&property["additionalProperties"]);
                writeln!(text, "| `{path}.NAME` | {about} | | {values} |").expect("a string");
            }
            keys(property, &path, text);
            continue;
        }
        let default = match &property["default"] {
            Value::Null => String::new(),
            value => format!("`{value}`"),
        };
        writeln!(
            text,
            "| `{path}` | {about} | {default} | {} |",
            values(property)
        )
        .expect("a string");
    }
}

/// The words or the kind of value that a key takes.
fn values(property: &Value) -> String {
    let options = ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| property[*key].as_array());
    let mut all: Vec<String> = match options {
        Some(options) => options.iter().map(values).collect(),
        None => match (&property["enum"], &property["const"], &property["type"]) {
            (Value::Array(words), ..) => words.iter().map(|word| format!("`{word}`")).collect(),
            (_, word @ Value::String(_), _) => vec![format!("`{word}`")],
            (.., Value::String(kind)) if kind == "array" => vec!["a list".to_owned()],
            (.., Value::String(kind)) => vec![kind.clone()],
            (.., Value::Array(kinds)) => kinds
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        },
    };
    all.dedup();
    all.join(", ").replace('|', "\\|")
}

#[test]
fn every_command_says_what_it_is_and_shows_how() {
    let command = command();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        let name = below.get_name();
        assert!(below.get_about().is_some(), "{name}");
        let shown = below
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(
            shown.contains(&format!("tcpxctl {name}")),
            "--help of {name} has no example"
        );
        for argument in below
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
        {
            assert!(
                argument.get_help().is_some(),
                "{name} {}",
                argument.get_id()
            );
        }
    }
}

#[test]
fn the_book_has_every_page_that_it_lists() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).expect("a summary");
    let pages: Vec<&str> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    assert!(pages.len() > 10);
    for page in pages {
        assert!(docs.join(page).is_file(), "{page}");
    }
}
