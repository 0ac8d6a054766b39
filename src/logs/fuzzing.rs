//! Properties of every input that is read as a log or as a file of signatures. A target
//! under `fuzz/` searches for counterexamples; the test suite runs its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use super::catalogue::SignatureCatalogue;
use super::check;
use super::filter::LogFilter;
use super::read::LogReader;
use std::sync::LazyLock;

static CATALOGUE: LazyLock<SignatureCatalogue> =
    LazyLock::new(|| SignatureCatalogue::embedded().expect("sound"));

/// Reads the bytes as a log, as a compressed log, and as a file of signatures.
pub fn bytes(data: &[u8]) {
    let filter = LogFilter::default();
    let mut reader = reader(&filter);
    reader.source("x", data, data);
    let report = reader.report();
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64
        + u64::from(!data.is_empty() && !data.ends_with(b"\n"));
    if report.telemetry.is_empty() {
        // A line longer than a block counts as several.
        assert!(report.inputs.lines >= lines && report.inputs.bytes == data.len() as u64);
    }
    assert!(report.inputs.matched_lines <= report.inputs.lines);
    for finding in report
        .findings
        .iter()
        .chain(&report.benign)
        .chain(&report.seen)
    {
        assert!(
            finding.count >= 1
                && finding.first.line >= 1
                && finding.first.line <= report.inputs.lines
        );
        assert!(!finding.sample.chars().any(char::is_control));
    }
    let known = super::known::KnownLines::of(&CATALOGUE, data);
    let ends = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    assert!(ends(&known.text) == ends(data) && known.left_out <= known.lines);
    let document = serde_json::to_string(&report).expect("a report is JSON");
    assert!(!document.contains('\u{1b}'));
    if let Ok(source) = super::input::plain(Box::new(std::io::Cursor::new(data.to_vec())))
        && source.is_packed
    {
        let mut unpacked = self::reader(&filter);
        unpacked.source(
            "x",
            &source.head,
            std::io::Read::take(source.source, 1 << 20),
        );
        unpacked.report();
    }
    if let Ok(text) = std::str::from_utf8(data) {
        check::parse(&[("x.toml".to_owned(), text.to_owned())]);
    }
}

/// A reader of one thread: the threads of a scan take longer to start than an input takes.
fn reader(filter: &LogFilter) -> LogReader<'_> {
    let mut reader = LogReader::new(&CATALOGUE, filter);
    reader.threads = 1;
    reader
}
