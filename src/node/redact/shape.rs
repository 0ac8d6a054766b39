//! What looks like an address, a secret, a home folder or a host, wherever it
//! stands in a text: `eth1:10.0.1.25<0>`, `password=…`, `/home/someone`.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr};

/// Prefixes of known kinds of secrets, and how much must follow.
const SECRETS: [&str; 16] = [
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "sk-",
    "AKIA",
    "ASIA",
    "ya29.",
    "xoxb-",
    "xoxp-",
    "AIza",
    "npm_",
    "eyJ",
];
const SECRET_CHARS_MIN: usize = 12;
/// A name that ends so has a secret behind it.
const KEYS: [&str; 10] = [
    "token",
    "password",
    "passwd",
    "secret",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "credential",
    "credentials",
];
/// Names behind which the next word is one.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
/// Ends of names that only insiders resolve.
const DOMAINS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];
const HOMES: [&str; 2] = ["/home/", "/Users/"];

/// What was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Mac,
    Secret,
}

/// Calls `found` with every place that has a shape, in order.
pub(super) fn each(text: &str, mut found: impl FnMut(usize, usize, Shape)) {
    let bytes = text.as_bytes();
    let (mut at, mut secret_next) = (0, false);
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let end = at
            + bytes[at..]
                .iter()
                .take_while(|byte| is_word(**byte))
                .count();
        let word = &text[at..end];
        if secret_next {
            // All of it: what a password is made of knows no words.
            let end = at
                + bytes[at..]
                    .iter()
                    .take_while(|byte| !ends_secret(**byte))
                    .count();
            found(at, end.max(at + word.len()), Shape::Secret);
            (at, secret_next) = (end.max(at + word.len()), false);
            continue;
        }
        if let Some(behind) = key_inside(word) {
            let end = at
                + bytes[at..]
                    .iter()
                    .take_while(|byte| !ends_secret(**byte))
                    .count();
            found(at + behind, end.max(at + word.len()), Shape::Secret);
            at = end.max(at + word.len());
            continue;
        }
        if is_secret(word) {
            found(at, end, Shape::Secret);
        } else {
            addresses(word, |from, to, shape| found(at + from, at + to, shape));
        }
        secret_next = is_followed_by_secret(word, &bytes[end..]);
        at = end;
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"._-:".contains(&byte)
}

fn ends_secret(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"',;&)]}<>".contains(&byte)
}

/// `password:hunter2` is one word: where its second half begins.
fn key_inside(word: &str) -> Option<usize> {
    let (key, value) = word.split_once(':')?;
    (!value.is_empty() && is_key(key)).then_some(key.len() + 1)
}

fn is_key(word: &str) -> bool {
    let lower = word
        .trim_start_matches('-')
        .to_ascii_lowercase()
        .replace('-', "_");
    word.len() <= 64 && KEYS.iter().any(|key| lower.ends_with(key))
}

/// Whether what stands behind a word says that the next one is a secret.
fn is_followed_by_secret(word: &str, behind: &[u8]) -> bool {
    let (word, colon) = word
        .strip_suffix(':')
        .map_or((word, false), |key| (key, true));
    let gap = behind
        .iter()
        .take(4)
        .take_while(|byte| b"=\"': \t".contains(byte))
        .count();
    let gap = &behind[..gap];
    if word.len() > 64 || gap.is_empty() {
        return false;
    }
    if SCHEMES
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
    {
        // `Basic` is a word, too: only what is as long as a credential is one.
        let next = behind[gap.len()..]
            .iter()
            .take_while(|byte| !ends_secret(**byte))
            .count();
        return next > SECRET_CHARS_MIN;
    }
    is_key(word) && (colon || gap.iter().any(|byte| b"=:".contains(byte)))
}

fn is_secret(word: &str) -> bool {
    if word.len() <= SECRET_CHARS_MIN {
        return false;
    }
    let known = SECRETS
        .iter()
        .any(|prefix| word.starts_with(prefix) && word.len() > prefix.len() + SECRET_CHARS_MIN);
    known || is_random(word)
}

/// Longer than any name, and of all kinds of letters at once; hashes in
/// hexadecimal are not.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    word.len() >= 32
        && !word.contains(['.', ':'])
        && count(u8::is_ascii_digit) >= 4
        && count(u8::is_ascii_uppercase) >= 6
        && count(u8::is_ascii_lowercase) >= 6
}

fn addresses(word: &str, mut found: impl FnMut(usize, usize, Shape)) {
    let bytes = word.as_bytes();
    let count = |byte: u8| bytes.iter().filter(|one| **one == byte).count();
    if count(b'.') < 3 && count(b':') < 2 && count(b'-') < 5 {
        return;
    }
    let mut at = 0;
    while at < bytes.len() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let here = mac(bytes, at, before)
            .or_else(|| v6(word, at, before))
            .or_else(|| v4(word, at, before));
        match here {
            Some((end, shape)) => {
                found(at, end, shape);
                at = end;
            }
            None => at += 1,
        }
    }
}

fn mac(bytes: &[u8], at: usize, before: Option<u8>) -> Option<(usize, Shape)> {
    let (all, behind) = (bytes.get(at..at + 17)?, bytes.get(at + 17));
    let separator = all[2];
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == separator;
    if !b":-".contains(&separator)
        || before.is_some_and(is_part)
        || behind.is_some_and(|byte| is_part(*byte))
    {
        return None;
    }
    let fits = all.iter().enumerate().all(|(place, byte)| match place % 3 {
        2 => *byte == separator,
        _ => byte.is_ascii_hexdigit(),
    });
    // Nobody's, and everybody's.
    let is_common = all.iter().all(|byte| *byte == b'0' || *byte == separator)
        || all
            .iter()
            .all(|byte| byte.eq_ignore_ascii_case(&b'f') || *byte == separator);
    (fits && !is_common).then_some((at + 17, Shape::Mac))
}

fn v6(word: &str, at: usize, before: Option<u8>) -> Option<(usize, Shape)> {
    let bytes = word.as_bytes();
    // `dev:fe80::1` holds one, `std::abc::de` does not.
    let in_name = before == Some(b':') && at >= 2 && bytes[at - 2] == b':';
    if in_name || before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80) {
        return None;
    }
    let run = bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte))
        .count();
    let run = word.get(at..at + run)?;
    if run.bytes().filter(|byte| *byte == b':').count() < 2 {
        return None;
    }
    // A sentence may end behind it, and a port may follow.
    let mut text = run.trim_end_matches('.');
    loop {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let plain = address.is_loopback() || address.is_unspecified();
            return (!plain).then_some((at + text.len(), Shape::V6(address)));
        }
        let shorter = text.rfind(':')?;
        text = &text[..shorter];
        if !text.contains(':') {
            return None;
        }
    }
}

fn v4(word: &str, at: usize, before: Option<u8>) -> Option<(usize, Shape)> {
    let bytes = word.as_bytes();
    if !bytes[at].is_ascii_digit() || before.is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let run = bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let mut ends = word
        .get(at..at + run)?
        .match_indices('.')
        .map(|(dot, _)| dot)
        .skip(3);
    // Of five numbers with points, the first four.
    let text = &word[at..at + ends.next().unwrap_or(run)];
    let address = text.parse::<Ipv4Addr>().ok()?;
    Some((at + text.len(), Shape::V4(address)))
}

/// Names of users in paths.
pub(super) fn homes(text: &str) -> impl Iterator<Item = &str> {
    HOMES.iter().flat_map(move |home| {
        memchr::memmem::find_iter(text.as_bytes(), home).map(move |at| {
            let rest = &text[at + home.len()..];
            rest.split(|letter: char| !(letter.is_alphanumeric() || "._-".contains(letter)))
                .next()
                .unwrap_or_default()
        })
    })
}

/// Names of hosts that say so: with an internal domain, or in front of NCCL's
/// process and thread (`host:71:84 [0] NCCL INFO`).
pub(super) fn hosts(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let internal = DOMAINS.iter().flat_map(move |domain| {
        memchr::memmem::find_iter(text.as_bytes(), domain).map(move |at| {
            let begin = text[..at]
                .rfind(|letter| !is_name(letter))
                .map_or(0, |before| before + 1);
            text.get(begin..at).unwrap_or_default()
        })
    });
    let nccl = memchr::memmem::find_iter(text.as_bytes(), "] NCCL ").filter_map(move |at| {
        let line = text[..at].rfind('\n').map_or(0, |before| before + 1);
        let header = text[line..at].rsplit_once(" [")?.0;
        let word = header
            .rsplit(|letter: char| letter.is_whitespace())
            .next()?;
        let mut parts = word.rsplitn(3, ':');
        let is_number = |part: Option<&str>| {
            part.is_some_and(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        (is_number(parts.next()) && is_number(parts.next()))
            .then(|| parts.next())
            .flatten()
    });
    internal.chain(nccl)
}

/// Bytes of a domain that stands behind a host's name.
pub(super) fn domain(behind: &str) -> usize {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut length = 0;
    while let Some(rest) = behind[length..].strip_prefix('.') {
        let part = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        if part == 0 {
            break;
        }
        length += 1 + part;
    }
    length
}
