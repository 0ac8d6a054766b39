//! Questions that only a running kernel, driver or process can answer.
//!
//! On the running machine a question is asked; in a captured tree the answer is a file under
//! `/asked`, one JSON document per question, which the capture wrote. Callers use
//! [`Root::ask`] for both.
//!
//! Not here: the questions themselves. Each is in the module of its subject.
#![forbid(unsafe_code)]

use crate::root::{FILE_BYTES_MAX, printable};
use crate::{Fact, Root};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The folder of recorded answers in a captured tree.
pub(crate) const ASKED: &str = "/asked";

impl Root {
    /// The answer to `question`, which is a file name without extension. On the running
    /// machine `live` asks it; in a captured tree the answer is read from the file. Without
    /// the file the answer is unknown.
    pub(crate) fn ask<T: Serialize + DeserializeOwned>(
        &self,
        question: &str,
        live: impl FnOnce() -> Fact<T>,
    ) -> Fact<T> {
        let path = format!("{ASKED}/{question}.json");
        if !self.is_live() {
            return self.text(&path).known().map_or_else(
                || {
                    Fact::unknown(format!(
                        "{question}: the captured tree has no answer, and only a running machine can give it"
                    ))
                },
                |text| answer(&path, text),
            );
        }
        let answer = live();
        if let Some(recording) = self.recording() {
            recording.answered(&path, &answer);
        }
        answer
    }
}

/// Parses a recorded answer, which is untrusted: its length is bounded, and control
/// characters are removed.
fn answer<T: DeserializeOwned>(path: &str, text: &str) -> Fact<T> {
    if text.len() as u64 >= FILE_BYTES_MAX {
        return Fact::unknown(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
    }
    read_cleaned::<Fact<T>>(text).unwrap_or_else(|_| {
        Fact::unknown(format!("{path}: not an answer that this version can read"))
    })
}

/// Reads a document after removing control characters from its texts.
pub(crate) fn read_cleaned<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let document = cleaned(serde_json::from_slice(text.as_bytes())?);
    // From bytes again: reading the types from a `Value` as well would compile their readers twice.
    serde_json::from_slice(document.to_string().as_bytes())
}

/// Removes control characters from every text in a document. A field whose name would
/// change is dropped, because names are looked up.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(cleaned).collect()),
        Value::Object(all) => {
            let named = all.into_iter().filter(|(name, _)| printable(name) == *name);
            Value::Object(named.map(|(name, value)| (name, cleaned(value))).collect())
        }
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_captured_answer_is_read_and_a_missing_one_is_unknown() {
        let tree = fixture::tree(
            "asked/a.json = [\"eth1\\u001b[2J\",\"eth2\"]\nasked/b.json = {\"unknown\":\"EPERM\"}\nasked/c.json = {",
        );
        let ask = |question: &str| {
            tree.root
                .ask::<Vec<String>>(question, || panic!("the kernel was asked"))
        };
        assert_eq!(
            ask("a"),
            Fact::Known(vec!["eth1[2J".to_owned(), "eth2".to_owned()])
        );
        assert_eq!(ask("b").why(), Some("EPERM"));
        assert_eq!(
            ask("c").why(),
            Some("/asked/c.json: not an answer that this version can read")
        );
        assert_eq!(
            ask("none").why(),
            Some("none: the captured tree has no answer, and only a running machine can give it")
        );
        assert_eq!(Root::live().ask("a", || Fact::Known(1)), Fact::Known(1));
    }
}
