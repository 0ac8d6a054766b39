//! Redaction of JSON: values, and single lines whose strings are redacted in place with the
//! rest unchanged.
#![forbid(unsafe_code)]

use super::Redactor;
use serde_json::Value;

impl Redactor {
    /// As [`Redactor::learn`], for every text in a document. The values of `host`, `hostname`
    /// and `address` are host names.
    pub fn learn_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn(text),
            Value::Array(all) => all.iter().for_each(|one| self.learn_value(one)),
            Value::Object(all) => {
                for (key, value) in all {
                    if let (true, Value::String(name)) = (
                        matches!(key.as_str(), "host" | "hostname" | "address"),
                        value,
                    ) {
                        self.host(name);
                    }
                    // Facts of a node: `"host": { "name": … }`.
                    if let (true, Some(name)) =
                        (key == "host", value.get("name").and_then(Value::as_str))
                    {
                        self.host(name);
                    }
                    self.learn(key);
                    self.learn_value(value);
                    if let Value::String(text) = value {
                        self.learn_pair(key, text);
                    }
                }
            }
            _ => {}
        }
    }

    /// The document with every text and key redacted.
    pub fn redact_value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(all) => {
                Value::Array(all.into_iter().map(|one| self.redact_value(one)).collect())
            }
            Value::Object(all) => {
                let mut redacted = serde_json::Map::new();
                for (key, value) in all {
                    let value = match value {
                        Value::String(text) => Value::String(self.redact_pair(&key, &text)),
                        other => self.redact_value(other),
                    };
                    redacted.insert(self.redact(&key), value);
                }
                Value::Object(redacted)
            }
            plain => plain,
        }
    }

    /// The redacted value of a key. If the key names a secret, the whole value is replaced.
    pub fn redact_pair(&mut self, key: &str, value: &str) -> String {
        self.learn_pair(key, value);
        match super::keys::is_secret(key) && !super::keys::is_absent(value) {
            true => super::SECRET.to_owned(),
            false => self.redact(value),
        }
    }

    /// One line of JSON with its strings redacted in place. Text that is not JSON is redacted
    /// as text.
    pub fn redact_json_line(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(open) = rest.find('"') {
            out.push_str(&rest[..=open]);
            rest = &rest[open + 1..];
            let Some(close) = end_of_string(rest) else {
                break;
            };
            let inside = &rest[..close];
            match inside.contains('\\') {
                false => out.push_str(&self.redact(inside)),
                true => match serde_json::from_str::<String>(&format!("\"{inside}\"")) {
                    Ok(text) => {
                        let quoted = Value::String(self.redact(&text)).to_string();
                        out.push_str(&quoted[1..quoted.len() - 1]);
                    }
                    Err(_) => out.push_str(&self.redact(inside)),
                },
            }
            out.push('"');
            rest = &rest[close + 1..];
        }
        out + &self.redact(rest)
    }
}

/// The offset of the closing quote of a string; `text` starts after the opening quote.
fn end_of_string(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}
