//! Recognises addresses, home folders and host names anywhere in a text:
//! `eth1:10.0.1.25<0>`, `/home/someone`.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr};

/// Domains of internal host names.
const DOMAINS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];
/// Folders that hold home folders.
const HOMES: [&str; 2] = ["/home/", "/Users/"];

/// The kind of a recognised text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Mac,
}

/// Calls `found` with start, end and shape of everything that is recognised, in order.
pub(super) fn each(text: &str, mut found: impl FnMut(usize, usize, Shape)) {
    let bytes = text.as_bytes();
    let mut at = 0;
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
        addresses(&text[at..end], |from, to, shape| {
            found(at + from, at + to, shape)
        });
        at = end;
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"._-:".contains(&byte)
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
    // All zeroes, and the broadcast address.
    let is_common = all.iter().all(|byte| *byte == b'0' || *byte == separator)
        || all
            .iter()
            .all(|byte| byte.eq_ignore_ascii_case(&b'f') || *byte == separator);
    (fits && !is_common).then_some((at + 17, Shape::Mac))
}

fn v6(word: &str, at: usize, before: Option<u8>) -> Option<(usize, Shape)> {
    let bytes = word.as_bytes();
    // `dev:fe80::1` contains an address, `std::abc::de` does not.
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
    // A full stop or a port may follow the address.
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
    // Of five or more numbers with dots, the first four are the address.
    let text = &word[at..at + ends.next().unwrap_or(run)];
    let address = text.parse::<Ipv4Addr>().ok()?;
    Some((at + text.len(), Shape::V4(address)))
}

/// Names of users in the paths of home folders.
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

/// Host names that can be recognised: those with an internal domain, and those before NCCL's
/// process and thread ids (`host:71:84 [0] NCCL INFO`).
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

/// The length in bytes of the domain that follows a host name.
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
