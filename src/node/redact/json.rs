//! Documents: a value whose every text is redacted, and lines of JSON whose
//! strings are, with the rest left as it is written.
#![forbid(unsafe_code)]

use super::Redactor;
use serde_json::Value;

impl Redactor {
    /// As [`Redactor::learn`], of every text in a document. Values of keys that
    /// name a host are hosts.
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
                }
            }
            _ => {}
        }
    }

    /// The document without what may not leave.
    pub fn redact_value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(all) => {
                Value::Array(all.into_iter().map(|one| self.redact_value(one)).collect())
            }
            Value::Object(all) => {
                let of = |redactor: &mut Self, (key, value): (String, Value)| {
                    let told = match value {
                        Value::String(text) => Value::String(redactor.redact_pair(&key, &text)),
                        other => redactor.redact_value(other),
                    };
                    (redactor.redact(&key), told)
                };
                Value::Object(all.into_iter().map(|pair| of(self, pair)).collect())
            }
            plain => plain,
        }
    }

    /// The value of a key, which may say that it is a secret.
    pub fn redact_pair(&mut self, key: &str, value: &str) -> String {
        let whole = format!("{key}=");
        let mut is_secret = false;
        super::shape::each(&format!("{whole}x"), |start, _, shape| {
            is_secret |= shape == super::Shape::Secret && start >= whole.len();
        });
        match is_secret && !value.is_empty() {
            true => self.replaced(value, "SECRET".to_owned()),
            false => self.redact(value),
        }
    }

    /// One line of JSON, its strings redacted in place; what is no JSON is
    /// redacted as text.
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

/// Where a string ends whose opening quote was before.
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
