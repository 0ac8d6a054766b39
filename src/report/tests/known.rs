//! What a bundle keeps of a log comes to the same findings as the log.

use crate::gather::catalogue;
use tcpx_logs::{KnownLines, LogFilter, LogReader};
use tcpx_node::redact::{Outlet, Redactor};

/// Cases whose findings need what does not leave the machine: a word that cannot be told from a password, `b3000NCCL`,
/// which two ranks wrote; and the name of a host, of which a cut line has the end. Each name becomes a number.
const NOT_KEPT: [&str; 2] = [
    "the address of a GPU ends before text that another rank wrote behind it",
    "what is left of a host's name is no second host",
];

#[derive(serde::Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    log: String,
}

/// The transport, and of each finding its signature, severity, line and role.
fn findings(log: &str) -> String {
    let filter = LogFilter::default();
    let mut reader = LogReader::new(catalogue().expect("sound"), &filter);
    reader.stream("x.log", log.as_bytes());
    let report = reader.report();
    let found = report.findings.iter().map(|one| {
        format!(
            "\n{} {:?} {} {:?}",
            one.signature, one.severity, one.first.line, one.role
        )
    });
    format!("{}{}", report.transport.verdict, found.collect::<String>())
}

#[test]
fn the_known_words_of_known_lines_come_to_the_same_findings() {
    let cases: Cases = toml::from_str(include_str!("../../logs/golden.toml")).expect("cases");
    let differs = |case: &Case| {
        let known = KnownLines::of(catalogue().expect("sound"), case.log.as_bytes());
        let mut redactor = Redactor::default();
        let redacted = redactor.redact(&String::from_utf8_lossy(&known.text));
        let words = redactor.known_words(&redacted);
        let (whole, left) = (findings(&case.log), findings(&words));
        (whole != left).then(|| format!("{}: {whole}\nbut left:\n{left}\nof\n{words}\n", case.name))
    };
    let different: Vec<String> = cases
        .case
        .iter()
        .filter(|case| !NOT_KEPT.contains(&case.name.as_str()))
        .filter_map(differs)
        .collect();
    assert!(
        different.is_empty(),
        "{} of {}: {}",
        different.len(),
        cases.case.len(),
        different.concat()
    );
}

#[test]
fn shipped_scenarios_and_their_names_have_known_words() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let (mut redactor, mut different) = (Redactor::default(), Vec::new());
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let text = std::fs::read_to_string(&path).expect("text");
        let settings: String = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        let command = format!(
            "tcpxctl run scenarios/{} --peer 10.0.0.226",
            path.file_name().expect("a name").display()
        );
        for text in [settings, command] {
            let left = redactor.known_words(&text);
            let lines = left.lines().zip(text.lines());
            different.extend(
                lines
                    .filter(|(left, line)| left != line)
                    .map(|(_, line)| line.to_owned()),
            );
        }
    }
    assert_eq!(different, [""; 0]);
}

/// Of a scenario, unknown words are replaced in every file: a document with another value could not be read.
#[test]
fn the_values_that_a_scenario_chooses_from_are_known_words() {
    let reference = include_str!("../../../docs/scenario-reference.md");
    let quoted = reference.split('"').skip(1).step_by(2);
    let different: Vec<&str> = quoted
        .filter(|value| Redactor::default().known_words(value) != **value)
        .collect();
    assert_eq!(different, [""; 0]);
}

/// The texts of a file of ours: without quoted lines, commands and patterns.
fn own_texts(value: &toml::Value, texts: &mut Vec<String>) {
    const QUOTED: [&str; 6] = ["example", "sample", "regex", "literal", "reproduce", "log"];
    match value {
        toml::Value::String(text) => texts.push(text.clone()),
        toml::Value::Array(all) => all.iter().for_each(|one| own_texts(one, texts)),
        toml::Value::Table(all) => all
            .iter()
            .filter(|(key, _)| !QUOTED.iter().any(|quoted| key.starts_with(quoted)))
            .for_each(|(_, value)| own_texts(value, texts)),
        _ => {}
    }
}

/// Reports and bundles have these texts; earlier versions wrote them too.
#[test]
fn the_texts_of_this_program_are_neither_replaced_nor_doubted() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folders = ["probes/conditions", "probes/logs", "src/run-model"];
    let mut texts = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(format!("{root}/{folder}")).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
            let text = std::fs::read_to_string(&path).expect("text");
            if let Ok(file) = toml::from_str::<toml::Value>(&text) {
                own_texts(&file, &mut texts);
            }
        }
    }
    assert!(texts.len() > 1000, "{}", texts.len());
    let mut wrong = Vec::new();
    for text in texts {
        let redacted = Redactor::default().redact(&text);
        if redacted != text {
            wrong.push(format!("{text}\n  is {redacted}"));
        }
        let cleared = Outlet::unredacted().rendered(text.clone());
        let doubts = crate::second_look::revealing("", &cleared);
        wrong.extend(doubts.iter().map(|doubt| format!("{text}\n  {doubt}")));
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.join("\n"));
}
