//! Formats of files and messages in which a secret has a fixed place and no name: of `.pgpass` and `crypttab`, of
//! OpenVPN, and names that stand for a secret in one kind of text only. They are templates, as those of names are.
#![forbid(unsafe_code)]

use super::templates::Template;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::ops::Range;
use std::sync::LazyLock;

/// Formats that begin with a text wherever it stands.
const ANYWHERE: [&str; 12] = [
    "AUTH PLAIN {secret}",
    "AUTH LOGIN {secret}",
    "New value: {secret}",
    " -k {secret}",
    "*tokens{q}{sign}[{q}{secret}",
    "sessionid{sign}{q}{secret}",
    "csrftoken{sign}{q}{secret}",
    "admin / {secret}",
    "root / {secret}",
    "/t/{secret}/",
    "pwd/{secret}",
    "password/{secret}",
];
/// Formats of a whole line, or of its beginning.
const LINES: [&str; 6] = [
    "{tag}:{d}:{tag}:{tag}:{secret}",
    "{tag}:*:{tag}:{tag}:{secret}",
    "{tag}{s}/dev/{tag}{s}{secret}",
    "{tag}{s}UUID={tag}{s}{secret}",
    "sk{sign}{q}{secret}",
    "{s}sk{sign}{q}{secret}",
];
/// A line behind which a user and a secret have a line each.
const LOGIN: &str = "auth-user-pass\n";

static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| ANYWHERE.into_iter().map(Template::new).collect());
static OF_LINES: LazyLock<Vec<Template>> =
    LazyLock::new(|| LINES.into_iter().map(Template::new).collect());
static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(AhoCorasickKind::DFA));
    builder.build(TEMPLATES.iter().map(Template::literal)).ok()
});

/// The places of secrets in such formats.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    if let Some(finder) = &*FINDER {
        let found = finder.find_overlapping_iter(text);
        places.extend(
            found.filter_map(|found| {
                TEMPLATES[found.pattern().as_usize()].secret(text, found.start())
            }),
        );
    }
    let mut begin = 0;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
    for next in ends.chain([text.len()]) {
        let line = &text[begin..next];
        if !line.is_empty() {
            places.extend(
                OF_LINES
                    .iter()
                    .filter_map(|format| format.secret(text, begin)),
            );
        }
        if line.ends_with(LOGIN) {
            let user = text[next..]
                .find('\n')
                .map_or(text.len(), |end| next + end + 1);
            let end = text[user..].find('\n').map_or(text.len(), |end| user + end);
            places.push(user..end);
        }
        begin = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_formats_of_files_are_found() {
        for (text, expected) in [
            ("db.x:5432:app:ada:bavotukemi\n", vec!["bavotukemi"]),
            ("luks /dev/sda2 bavotukemi", vec!["bavotukemi"]),
            ("auth-user-pass\nada\nbavotukemi\nx", vec!["bavotukemi"]),
            ("https://c.x/t/bavotukemi/label", vec!["bavotukemi"]),
            ("a:1:b:c:allreduce luks /dev/sda2 none", vec![]),
        ] {
            let mut found = Vec::new();
            places(text, &mut found);
            let found: Vec<&str> = found.into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
