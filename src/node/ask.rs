//! What only a running kernel, driver or process can say, as a file where the
//! machine is a captured one.
//!
//! On the running machine a question is put to the kernel; the answer of a
//! captured tree lies under `/asked`, one JSON document per question, written
//! by the capture from the very same answers. So every reader has one way, and
//! a captured machine is read as it was.
//!
//! Not here: any question. Those live with what they are about.
#![forbid(unsafe_code)]

use crate::root::{FILE_BYTES_MAX, printable};
use crate::{Fact, Root};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The folder of answers in a captured tree.
pub(crate) const ASKED: &str = "/asked";

impl Root {
    /// The answer to `question` (a file name without its ending): asked of the
    /// running machine by `live`, read from a captured one. A captured tree that
    /// was never asked says so.
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
                        "{question}: only the running machine knows, and this is a captured tree"
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

/// A document of someone else's: parsed with bounds, its text made fit to show.
fn answer<T: DeserializeOwned>(path: &str, text: &str) -> Fact<T> {
    if text.len() as u64 >= FILE_BYTES_MAX {
        return Fact::unknown(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
    }
    let parsed = serde_json::from_str::<Value>(text)
        .map(cleaned)
        .and_then(serde_json::from_value::<Fact<T>>);
    parsed.unwrap_or_else(|_| Fact::unknown(format!("{path}: not the answer of this version")))
}

/// Every text in a document without control characters; names that would change
/// are left out, because they would be looked up again.
pub(crate) fn cleaned(value: Value) -> Value {
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
            Some("/asked/c.json: not the answer of this version")
        );
        assert_eq!(
            ask("none").why(),
            Some("none: only the running machine knows, and this is a captured tree")
        );
        assert_eq!(Root::live().ask("a", || Fact::Known(1)), Fact::Known(1));
    }
}
