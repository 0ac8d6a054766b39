//! Redaction of JSON: values, and text whose strings are redacted in place with the rest
//! unchanged. What a key, a name beside it or an option before it says about a string is used.
#![forbid(unsafe_code)]

use super::{Redactor, SECRET, keys};
use serde_json::{Map, Value};

/// Keys whose value names what the rest of the object is about: `"name": "HF_TOKEN"`.
const NAMING: [&str; 4] = ["name", "key", "what", "variable"];

/// Keys whose values hold words of others: a line of a log, a command, the path of a file, the text of a scenario. So
/// do variables.
const FOREIGN: [&str; 4] = ["text", "command", "from", "scenario_toml"];
/// The folder of the logs of other programs, which begins the names of these in a run.
const LOGS: &str = "logs/";

/// The parts of a secret of Kubernetes with its values, and a key whose values are all secret.
const CLUSTER_DATA: [&str; 2] = ["data", "stringData"];
const SECRET_KEY: &str = "secret";

impl Redactor {
    /// As [`Redactor::learn`], for every text in a document. The values of `host`, `hostname`
    /// and `address` are host names.
    pub fn learn_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn(text),
            Value::Array(all) => {
                all.iter().for_each(|one| self.learn_value(one));
                for pair in all.windows(2) {
                    if let [Value::String(option), Value::String(text)] = pair
                        && is_before_secret(option)
                    {
                        self.learn_pair(option, text);
                    }
                }
            }
            Value::Object(all) => {
                let named = named(all).map(str::to_owned);
                if all.get("kind").and_then(Value::as_str) == Some("Secret") {
                    let parts = CLUSTER_DATA.iter().filter_map(|part| all.get(*part));
                    parts.for_each(|part| self.learn_all(SECRET_KEY, part));
                }
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
                    self.learn_all(key, value);
                    if let Some(name) = &named
                        && !is_naming(key)
                    {
                        self.learn_all(name, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Learns every text in the value of a key.
    fn learn_all(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) => self.learn_pair(key, text),
            Value::Array(all) => {
                for one in all {
                    self.learn_all(key, one);
                    if let Some(text) = one
                        .as_str()
                        .filter(|text| keys::is_secret_in_list(key, text))
                    {
                        self.secrets.add(text, true);
                    }
                }
            }
            Value::Object(all) => all.values().for_each(|one| self.learn_all(key, one)),
            _ => {}
        }
    }

    /// The document with every text and key redacted.
    pub fn redact_value(&mut self, value: Value) -> Value {
        self.value_of("", value)
    }

    /// The redacted value of a key.
    fn value_of(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_pair(key, &text)),
            Value::Number(number) if keys::is_secret_number(key, &number.to_string()) => {
                Value::String(SECRET.to_owned())
            }
            Value::Array(all) => {
                let mut before = String::new();
                let redacted = all.into_iter().map(|one| {
                    let key = if is_before_secret(&before) {
                        &before
                    } else {
                        key
                    };
                    let redacted = self.value_of(key, one.clone());
                    before = one.as_str().unwrap_or_default().to_owned();
                    redacted
                });
                Value::Array(redacted.collect())
            }
            Value::Object(all) => {
                let named = named(&all).map(str::to_owned);
                let is_cluster_secret = all.get("kind").and_then(Value::as_str) == Some("Secret");
                let mut redacted = Map::new();
                for (inner, value) in all {
                    let key = match &named {
                        _ if is_cluster_secret && CLUSTER_DATA.contains(&inner.as_str()) => {
                            SECRET_KEY
                        }
                        Some(name) if !is_naming(&inner) => name,
                        _ if keys::is_secret(key) => key,
                        _ => &inner,
                    };
                    let value = self.value_of(key, value);
                    redacted.insert(self.redact(&inner), value);
                }
                Value::Object(redacted)
            }
            plain => plain,
        }
    }

    /// The redacted value of a key. If the key names a secret, the whole value is replaced.
    pub fn redact_pair(&mut self, key: &str, value: &str) -> String {
        if let Some(title) = self.title(key, value) {
            return title.clone();
        }
        self.learn_pair(key, value);
        let is_secret = keys::is_secret_pair(key, value) || keys::is_secret_in_list(key, value);
        match is_secret && !keys::is_absent(value) {
            true => SECRET.to_owned(),
            false if is_foreign(key, value) => self.redact_foreign(value),
            false => self.redact(value),
        }
    }

    /// JSON with its strings redacted in place, on one line or several. Text that is not JSON
    /// is redacted as text.
    pub fn redact_json_line(&mut self, line: &str) -> String {
        self.json(line, Self::redact, Self::redact_foreign)
    }

    /// As [`Redactor::redact_secrets`], for JSON.
    pub fn redact_json_secrets(&mut self, text: &str) -> String {
        self.json(text, Self::redact_secrets, Self::redact_secrets)
    }

    /// `foreign` redacts the strings of other programs, `redact` all others.
    fn json(
        &mut self,
        text: &str,
        redact: fn(&mut Self, &str) -> String,
        foreign: fn(&mut Self, &str) -> String,
    ) -> String {
        let mut out = String::with_capacity(text.len());
        let mut place = Place {
            is_cluster_secret: is_cluster_secret(text),
            ..Place::default()
        };
        let mut rest = text;
        while let Some(open) = rest.find('"') {
            out.push_str(&place.gap(&rest[..open]));
            out.push('"');
            rest = &rest[open + 1..];
            let Some(close) = end_of_string(rest) else {
                break;
            };
            let inside = &rest[..close];
            let is_key = rest[close + 1..].trim_start().starts_with(':');
            let parsed = match inside.contains('\\') {
                false => None,
                true => serde_json::from_str::<String>(&format!("\"{inside}\"")).ok(),
            };
            let string = parsed.as_deref().unwrap_or(inside);
            let key = place.key.as_deref().unwrap_or_default();
            let is_foreign = !is_key && is_foreign(key, string);
            let title = self.title(key, string).filter(|_| !is_key).cloned();
            let is_secret = place.string(string, is_key) && !keys::is_absent(string);
            if is_secret {
                self.secrets.add(string, true);
                out.push_str(SECRET);
            } else {
                let redacted = match title {
                    Some(title) => title,
                    None if is_foreign => foreign(self, string),
                    None => redact(self, string),
                };
                match (parsed.is_some(), redacted == string) {
                    (_, true) => out.push_str(inside),
                    (true, false) => {
                        let quoted = Value::String(redacted).to_string();
                        out.push_str(&quoted[1..quoted.len() - 1]);
                    }
                    (false, false) => out.push_str(&redacted),
                }
            }
            out.push('"');
            rest = &rest[close + 1..];
        }
        match rest.len() == text.len() {
            // No string, so this may be any text.
            true => redact(self, text),
            false => out + &redact(self, &place.gap(rest)),
        }
    }
}

/// Where the next string of a JSON text stands.
#[derive(Default)]
struct Place {
    /// Open brackets and braces.
    depth: usize,
    /// The last key, until its value has begun.
    key: Option<String>,
    /// The last string that is no key, until something other than a comma follows.
    before: Option<String>,
    /// The name of the list of strings at this depth.
    list: Option<(usize, String)>,
    /// Everything at this depth or deeper is a secret.
    secret_from: Option<usize>,
    /// The document is a secret of Kubernetes.
    is_cluster_secret: bool,
}

impl Place {
    /// Passes over the text between two strings. A number that is a secret is replaced.
    fn gap(&mut self, gap: &str) -> String {
        if gap.trim() != "," {
            self.before = None;
        }
        let key = self.key.clone();
        let is_secret = self.secret_from.is_some();
        for letter in gap.chars() {
            match letter {
                '[' | '{' => {
                    self.depth += 1;
                    let is_data = |key: &str| self.is_cluster_secret && CLUSTER_DATA.contains(&key);
                    let key = self.key.take();
                    let name = key.clone().filter(|_| letter == '[');
                    self.list = name.map(|name| (self.depth, name));
                    if key.is_some_and(|key| keys::is_secret(&key) || is_data(&key)) {
                        self.secret_from.get_or_insert(self.depth);
                    }
                }
                ']' | '}' => {
                    self.list = self.list.take().filter(|(depth, _)| *depth < self.depth);
                    self.depth = self.depth.saturating_sub(1);
                    if self.secret_from.is_some_and(|depth| self.depth < depth) {
                        self.secret_from = None;
                    }
                }
                _ => {}
            }
        }
        let behind = gap.trim_start_matches([':', ' ', '\t', '\n']);
        let digits = behind.len()
            - behind
                .trim_start_matches(|letter: char| {
                    letter.is_ascii_digit() || "-+.eE".contains(letter)
                })
                .len();
        if gap.contains(',') {
            self.key = None;
        }
        let is_number = |key: &str| keys::is_secret_number(key, &behind[..digits]);
        match digits > 0 && (is_secret || key.as_deref().is_some_and(is_number)) {
            true => {
                let begin = gap.len() - behind.len();
                format!("{}\"{SECRET}\"{}", &gap[..begin], &behind[digits..])
            }
            false => gap.to_owned(),
        }
    }

    /// Whether the next string is a secret.
    fn string(&mut self, string: &str, is_key: bool) -> bool {
        if is_key {
            self.key = Some(string.to_owned());
            self.before = None;
            return false;
        }
        let key = self.key.take();
        if key.as_deref().is_some_and(is_naming) && is_name_of_secret(string) {
            self.secret_from.get_or_insert(self.depth);
            return false;
        }
        let before = self.before.replace(string.to_owned());
        let list = self.list.as_ref().filter(|(depth, _)| *depth == self.depth);
        let is_in_list = list.is_some_and(|(_, name)| keys::is_secret_in_list(name, string));
        is_in_list
            || self.secret_from.is_some()
            || key
                .as_deref()
                .is_some_and(|key| keys::is_secret_pair(key, string))
            || (key.is_none() && before.as_deref().is_some_and(is_before_secret))
    }
}

/// Whether a document has an object of the kind `Secret`.
fn is_cluster_secret(text: &str) -> bool {
    let mut kinds = text.match_indices("\"kind\"");
    kinds.any(|(at, kind)| {
        let behind = text[at + kind.len()..].trim_start_matches([' ', ':']);
        behind.starts_with("\"Secret\"")
    })
}

fn is_foreign(key: &str, value: &str) -> bool {
    FOREIGN.contains(&key) || keys::is_variable(key) || value.starts_with(LOGS)
}

fn is_naming(key: &str) -> bool {
    NAMING.iter().any(|name| key.eq_ignore_ascii_case(name))
}

/// Whether the next string of a list is a secret: `"--password", "VALUE"`.
fn is_before_secret(text: &str) -> bool {
    is_name_of_secret(text) && (text.starts_with('-') || keys::is_variable(text))
}

fn is_name_of_secret(text: &str) -> bool {
    !text.contains([' ', '=', ':', '/']) && keys::is_secret(text)
}

/// The name of a secret that an object is about.
fn named(all: &Map<String, Value>) -> Option<&str> {
    let named = all.iter().filter(|(key, _)| is_naming(key));
    let mut names = named.filter_map(|(_, name)| name.as_str());
    names.find(|name| is_name_of_secret(name))
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
