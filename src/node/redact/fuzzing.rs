//! Properties of redaction for every text and every file. A target under `fuzz/` searches for
//! counterexamples; the test suite runs its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use super::{Outlet, Redactor};

/// A secret that its name shows, between any two texts.
const SECRET: &str = "quietly-Burning7candle";

/// Redacts the bytes as text, as JSON and as files of every kind.
pub fn bytes(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let middle = text.floor_char_boundary(text.len() / 2);
    let (before, behind) = text.split_at(middle);
    let planted = format!("{before}\nHF_TOKEN={SECRET}\n{behind} {SECRET}");
    let mut redactor = Redactor::default();
    let redacted = redactor.redact(&planted);
    assert!(!redacted.contains(SECRET), "{redacted:?}");
    let ends = |text: &str| text.matches('\n').count();
    assert_eq!(ends(&redacted), ends(&planted));
    assert!(!redactor.redact_secrets(&planted).contains(SECRET));
    assert_eq!(ends(&redactor.known_words(&redacted)), ends(&planted));
    let document = serde_json::json!({ "HF_TOKEN": SECRET, "text": planted });
    let line = redactor.redact_json_line(&document.to_string());
    let parsed: serde_json::Value = serde_json::from_str(&line).expect("still JSON");
    assert_eq!(parsed["HF_TOKEN"], super::SECRET);
    assert!(!line.contains(SECRET), "{line}");
    for name in ["a.log", "a.json", "a.jsonl", "a.tcpxrec"] {
        let mut redactor = Redactor::default();
        redactor.learn_file(name, data);
        let cleared = Outlet::redacting(redactor).file(name, data.to_vec());
        let is_recorder = name.ends_with("rec");
        assert!(!is_recorder || cleared.is_ok_and(|cleared| cleared.bytes().len() == data.len()));
    }
}
