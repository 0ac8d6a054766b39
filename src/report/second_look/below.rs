//! Secrets on the lines below one that tells of them: here documents, maps below a key, the value of a name on
//! the line above, and parts of forms.
#![forbid(unsafe_code)]

use super::{Found, is_placeholder, is_replaced, prose};
use regex::Regex;
use std::sync::LazyLock;

/// Most lines below such a line, and longest one.
const LINES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 4096;
/// Shortest secret.
const BYTES_MIN: usize = 4;

struct Patterns {
    document: Regex,
    map: Regex,
    open_key: Regex,
    name: Regex,
    value: Regex,
    login: Regex,
    part: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let name = "(?:passw(?:or)?d|passphrase|secret|token|credentials?|key)";
    let regex = |written: &str| Regex::new(written).ok();
    Some(Patterns {
        document: regex(
            r"(?i)(?:passwd|--with-token|password-stdin|sudo -S|kinit|(?:>|tee) *[^ ]*(?:pass|pw|secret|token|cred)[^ ]*).*[^<]<<[-~]? *[\x22']?([a-z_]+)",
        )?,
        map: regex(
            r"(?i)^( *)(?:- )?[\x22']?[a-z0-9_.-]*(?:secrets?|passwords?|tokens?|credentials?|chpasswd)[\x22']?:\s*$",
        )?,
        open_key: regex(
            r"(?i)^(?:- )?[\x22']?(?:[a-z_]*(?:name|ref|path|file|url|mode)|kind|type|namespace|key|host|uid|labels)[\x22']?:",
        )?,
        name: regex(&format!(
            r"(?i)(?:name|key|variable)[^a-z0-9]{{1,6}}[a-z0-9_.-]*{name}[a-z0-9_.-]*[^a-z0-9]{{0,6}}(?:</[a-z]+>)?\s*$"
        ))?,
        value: regex(
            r"(?i)^[^a-z0-9]*(?:value|default|val|string|data)[^a-z0-9]{1,6}([^\s\x22'<>,]{4,})",
        )?,
        login: regex(r"^auth-user-pass\s*$")?,
        part: regex(&format!(r"(?i)name=\x22[a-z_-]*{name}\x22\s*$"))?,
    })
});

/// What the last lines tell of the next ones.
#[derive(Default)]
pub(super) enum Below {
    #[default]
    Nothing,
    /// The lines up to this word are secrets.
    Document(String, usize),
    /// The lines that are indented further have secrets.
    Map(usize, usize),
    /// The next line may be the value of a name.
    Value,
    /// So many lines on, a line is a secret.
    Line(usize),
}

impl Below {
    /// The secrets of a line, for what stands above it.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let Some(patterns) = &*PATTERNS else {
            return vec![found(0, line)];
        };
        let mut all = Vec::new();
        if line.len() > LINE_BYTES_MAX {
            *self = Self::Nothing;
            return all;
        }
        let is_left = self.goes_on(patterns, line, &mut all);
        if !is_left {
            *self = Self::of(patterns, line);
        }
        all
    }

    /// Looks at a line below; whether the next one is below, too.
    fn goes_on(&mut self, patterns: &Patterns, line: &str, all: &mut Vec<Found>) -> bool {
        let written = line.trim();
        let indent = line.len() - line.trim_start().len();
        match self {
            Self::Nothing => false,
            Self::Document(end, count) => {
                *count += 1;
                let is_in = written != end.as_str() && *count <= LINES_MAX;
                if is_in {
                    whole(line, all);
                }
                is_in
            }
            Self::Map(own, count) => {
                *count += 1;
                let is_below = written.is_empty() || indent > *own && *count <= LINES_MAX;
                if is_below && !patterns.open_key.is_match(written) {
                    let from = written.find(": ").map_or(indent, |at| indent + at + 1);
                    prose::words(line, from..line.len(), all);
                }
                is_below
            }
            Self::Value => {
                let value = patterns.value.captures(line).and_then(|value| value.get(1));
                let value = value.filter(|value| !is_replaced(value.as_str()));
                all.extend(value.map(|value| found(value.start(), value.as_str())));
                false
            }
            Self::Line(count) => {
                *count -= 1;
                if *count == 0 {
                    whole(line, all);
                }
                *count > 0
            }
        }
    }

    /// What a line tells of the next ones.
    fn of(patterns: &Patterns, line: &str) -> Self {
        if let Some(end) = patterns
            .document
            .captures(line)
            .and_then(|found| found.get(1))
        {
            return Self::Document(end.as_str().to_owned(), 0);
        }
        if let Some(own) = patterns.map.captures(line).and_then(|found| found.get(1)) {
            return Self::Map(own.len(), 0);
        }
        if patterns.login.is_match(line) || patterns.part.is_match(line) {
            return Self::Line(2);
        }
        if patterns.name.is_match(line) {
            return Self::Value;
        }
        Self::Nothing
    }
}

/// The word of a line, or the odd ones of several.
fn whole(line: &str, all: &mut Vec<Found>) {
    let word = line.trim();
    let secret = word.rsplit(':').next().unwrap_or_default();
    match word.contains(char::is_whitespace) {
        true => prose::words(line, 0..line.len(), all),
        false if secret.len() < BYTES_MIN || is_placeholder(secret) => {}
        false => all.push(found(line.rfind(secret).unwrap_or(0), secret)),
    }
}

fn found(at: usize, text: &str) -> Found {
    Found {
        what: "a value that a line above tells",
        at: at..at + text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_below_one_that_tells_of_a_secret_are_doubted() {
        let text = "cat > pw.txt <<EOF\nkestral\nEOF\nkestral\nvariable \"db_password\" {\n default = \"kestral\"\n\
            auth-user-pass\nada\nkestral\nkestral";
        let mut below = Below::default();
        let doubted: Vec<bool> = text
            .lines()
            .map(|line| !below.find(line).is_empty())
            .collect();
        let at: Vec<usize> = (0..doubted.len()).filter(|at| doubted[*at]).collect();
        assert_eq!(at, [1, 5, 8]);
    }
}
