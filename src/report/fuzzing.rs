//! Properties of the report of any run folder. A target under `fuzz/` searches for
//! counterexamples; the tests run its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use crate::{Format, Judge, Language, gather, redacted, render};
use std::path::PathBuf;
use tcpx_node::redact::Outlet;
use tcpx_run_model::event::Event;
use tcpx_run_model::record::{Archive, RunBrief, RunFiles, RunRecord};

/// Ends a file of the input.
const NEXT_FILE: &[u8] = b"\n---\n";
/// The files of the input, in this order.
const FILES: [&str; 2] = ["run.json", "events.jsonl"];

/// Reads the bytes as the files of a run, folds and judges them, and renders the report.
pub fn run(data: &[u8], judge: Judge) {
    let mut archive = Archive {
        top: "run".into(),
        ..Archive::default()
    };
    let mut rest = data;
    for name in FILES {
        let end = rest
            .windows(NEXT_FILE.len())
            .position(|part| part == NEXT_FILE);
        let file = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[][..], |end| &rest[end + NEXT_FILE.len()..]);
        if !file.is_empty() {
            archive.files.insert(name.into(), file.to_vec());
        }
    }
    if let Some(file) = archive.files.get(FILES[0]) {
        record(file);
    }
    if let Some(file) = archive.files.get(FILES[1]) {
        file.split(|byte| *byte == b'\n').for_each(event);
    }
    let files = RunFiles::Bundle {
        path: PathBuf::from("run.tar.gz"),
        archive,
    };
    if let Ok(replayed) = files.replay() {
        let now = replayed.state.now_ms;
        assert!(now.is_finite() && now >= 0.0, "{now}");
    }
    // The rules are asked by `gather` only if there is no record.
    for finding in judge(&files) {
        assert!((0.0..=1.0).contains(&finding.confidence), "{finding:?}");
    }
    let mut outlet = Outlet::of_command(false);
    let mut story = gather(&files, judge);
    if let Some(redactor) = outlet.redactor() {
        story = redacted(story, redactor);
    }
    let formats = [
        Format::Html,
        Format::Markdown,
        Format::Short,
        Format::Json,
        Format::Csv,
        Format::Junit,
        Format::Prometheus,
    ];
    for format in formats {
        let cleared = render(&story, format, false, Language::English, &mut outlet);
        let text = cleared.text();
        // CSV has CR LF.
        let shown = |c: char| !c.is_control() || "\r\n\t".contains(c);
        assert!(text.chars().all(shown), "{format:?} has control characters");
        if format == Format::Json {
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        }
    }
}

/// A record that is read is the same after writing and reading, and a list of runs can show it.
fn record(file: &[u8]) {
    let Ok(record) = RunRecord::parse(file) else {
        return;
    };
    let written = serde_json::to_vec(&record).expect("JSON");
    let again = RunRecord::parse(&written).expect("a record");
    let again = serde_json::to_vec(&again).expect("JSON");
    assert_eq!(again, written);
    assert!(RunBrief::parse(&written).is_ok());
}

/// An event that is read is the same after writing and reading.
fn event(line: &[u8]) {
    let Some(event) = Event::parse(line) else {
        return;
    };
    let written = serde_json::to_vec(&event).expect("JSON");
    let again = Event::parse(&written).expect("an event");
    assert_eq!(serde_json::to_vec(&again).expect("JSON"), written);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::{self, Names};
    use proptest::prelude::*;
    use std::path::Path;
    use tcpx_diagnose::findings_from_files;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        seeds::read("run_files", "")
            .iter()
            .for_each(|seed| run(seed, findings_from_files));
    }

    /// Run this after a change of the record or of the events:
    /// `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let folder = tempfile::tempdir().expect("a folder");
        fixture::stalled(folder.path(), &Names::default());
        let v1 = "../run-model/record/fixtures/v1/20261120T101500Z-two-gpus";
        let v1 = Path::new(env!("CARGO_MANIFEST_DIR")).join(v1);
        for (name, folder) in [("valid-2", folder.path()), ("valid-1", &v1)] {
            let [record, events] = FILES.map(|file| std::fs::read(folder.join(file)));
            let (record, events) = (record.expect("a record"), events.expect("events"));
            // The first events introduce everything; the fuzzer repeats the others itself.
            let lines = events.split_inclusive(|byte| *byte == b'\n').take(40);
            let events = lines.collect::<Vec<_>>().concat();
            let whole = [&record[..], &events[..]].join(NEXT_FILE);
            seeds::write("run_files", name, &whole);
            seeds::write(
                "run_files",
                &format!("killed-{name}"),
                &[&[][..], &events[..]].join(NEXT_FILE),
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_damaged_seed_holds(seed: prop::sample::Index, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut: prop::sample::Index) {
            let seeds = seeds::read("run_files", "");
            let mut data = seed.get(&seeds).clone();
            let len = data.len();
            flips.iter().for_each(|(at, byte)| data[at.index(len)] = *byte);
            data.truncate(cut.index(2 * len));
            run(&data, findings_from_files);
        }
    }
}
