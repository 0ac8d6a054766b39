//! Lines that are indented below a key that tells of a secret: `secret:` with `value: VALUE`, `chpasswd:` with a
//! list of users and passwords. Of their values, only ordinary words stay.
#![forbid(unsafe_code)]

use super::keys;
use super::telling;
use std::ops::Range;

/// Most lines below a key.
const LINES_MAX: usize = 16;
/// Longest key, and longest line with one.
const KEY_BYTES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 512;
/// The key of cloud-init whose lines are logins.
const LOGINS: &str = "chpasswd";
/// Keys whose value describes a secret.
const OPEN: [&str; 12] = [
    "name",
    "kind",
    "type",
    "namespace",
    "path",
    "file",
    "url",
    "key",
    "mode",
    "host",
    "uid",
    "labels",
];

const ENDS: [&str; 6] = ["name", "ref", "path", "file", "mode", "url"];

/// The words that may be secrets below such a key.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    // The indentation of the last such key, and how many lines stood below it.
    let mut open: Option<(usize, usize)> = None;
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let at = begin;
        begin += line.len();
        let written = line.trim();
        if written.is_empty() || line.len() > LINE_BYTES_MAX {
            open = open.filter(|_| written.is_empty());
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_below = open.is_some_and(|(own, count)| indent > own && count < LINES_MAX);
        if let Some((_, count)) = open.as_mut().filter(|_| is_below) {
            *count += 1;
            value(text, at + indent, written, places);
            continue;
        }
        open = tells(written).then_some((indent, 0));
    }
}

/// Whether a line is a key alone, of a secret.
fn tells(line: &str) -> bool {
    let key = line.strip_suffix(':').unwrap_or_default();
    let key = key.trim_start_matches("- ").trim_matches(['"', '\'']);
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_reference = key.ends_with("Ref") || key.ends_with("Name");
    !key.is_empty()
        && key.len() <= KEY_BYTES_MAX
        && key.bytes().all(is_key)
        && !is_reference
        && (key == LOGINS || keys::is_secret(key))
}

/// The value of a line that begins at `at`, unless its key says that it is none.
fn value(text: &str, at: usize, written: &str, places: &mut Vec<Range<usize>>) {
    let pair = written.split_once(": ");
    let key = pair.map(|(key, _)| key.trim_start_matches("- ").trim_matches(['"', '\'']));
    let is_open = |key: &str| {
        let lower = key.to_ascii_lowercase();
        OPEN.iter().any(|open| lower == *open) || ENDS.iter().any(|end| lower.ends_with(end))
    };
    if key.is_some_and(is_open) {
        return;
    }
    let end = at + written.len();
    let begin = pair.map_or(at, |(_, value)| end - value.len());
    telling::words(text, begin..end, places);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        places(text, &mut found);
        found.into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn values_below_a_key_that_tells_of_a_secret_are_found() {
        assert_eq!(
            found("secret:\n  value: bavotukemi\nnext: dunapelito"),
            ["bavotukemi"]
        );
        assert_eq!(
            found("chpasswd:\n  list: |\n    root:bavotukemi\n"),
            ["bavotukemi"]
        );
        for text in [
            "secretKeyRef:\n  name: bavotukemi\n  key: dunapelito",
            "secret:\n  secretName: bavotukemi",
            "volumes:\n  value: bavotukemi",
            "tokens:\nbavotukemi",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }
}
