//! Recognises addresses of machines and persons anywhere in a text: `eth1:10.0.1.25<0>`,
//! `ada@example.com`, ids of pods and boots, which are UUIDs, and names of pods.
#![forbid(unsafe_code)]

use super::literals::Literals;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// Endings of units of systemd, which look like mail addresses: `getty@tty1.service`.
const UNITS: [&str; 9] = [
    "service", "socket", "timer", "target", "mount", "slice", "scope", "path", "device",
];
/// More bytes than an address of IPv6 and one of IPv4 have, so that a search from each place of a long word ends.
const V6_BYTES_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len() + 1;
const V4_BYTES_MAX: usize = "255.255.255.255".len() + 1;
/// Parts of a UUID.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// What Kubernetes makes hashes from, so that they spell no word.
const POD_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Letters of the hash of a ReplicaSet, and of the end of a pod.
const POD_HASH_BYTES: std::ops::RangeInclusive<usize> = 8..=10;
const POD_END_BYTES: usize = 5;

/// The kind of a recognised text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Mac,
    Uuid,
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

/// The sign of a mail address: plain, and as in URLs and HTML.
const SIGNS: [&str; 3] = ["@", "%40", "&#64;"];

/// Start and end of every mail address, in order.
pub(super) fn mails(text: &str) -> Vec<(usize, usize)> {
    let mut mails = Vec::new();
    let bytes = text.as_bytes();
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(SIGNS));
    for (which, at) in FINDER.find(text) {
        let sign = SIGNS[which];
        let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
        let start = at - bytes[..at].iter().rev().take_while(is_of_name).count();
        if let Some(end) = end_of_domain(text, at + sign.len())
            && start < at
            && &text[start..at] != super::SECRET
        {
            mails.push((start, end));
        }
    }
    mails
}

/// The end of a mail address's domain.
fn end_of_domain(text: &str, at: usize) -> Option<usize> {
    let is_of_domain = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    let length = text.as_bytes()[at..]
        .iter()
        .take_while(is_of_domain)
        .count();
    let domain = text[at..at + length].trim_end_matches(['.', '-']);
    let (site, top) = domain.rsplit_once('.')?;
    let is_top =
        (2..=24).contains(&top.len()) && top.bytes().all(|byte| byte.is_ascii_alphabetic());
    (!site.is_empty() && is_top && !UNITS.contains(&top)).then_some(at + domain.len())
}

/// Names of pods of a Deployment, by the two ends that Kubernetes gives them: `trainer-6d4b75cb6d-hwvk7`.
pub(super) fn pods(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    text.split(move |letter| !is_of_name(letter))
        .filter(|name| is_pod(name))
}

fn is_pod(name: &str) -> bool {
    let is_made = |byte: u8| POD_LETTERS.contains(&byte);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let mut parts = name.rsplitn(3, '-');
    let (Some(end), Some(hash), Some(owner)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    end.len() == POD_END_BYTES
        && POD_HASH_BYTES.contains(&hash.len())
        && hash.bytes().all(is_made)
        && hash.bytes().any(is_digit)
        && !hash.bytes().all(is_digit)
        && !owner.is_empty()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"._-:+".contains(&byte)
}

fn addresses(word: &str, mut found: impl FnMut(usize, usize, Shape)) {
    let bytes = word.as_bytes();
    let count = |byte: u8| bytes.iter().filter(|one| **one == byte).count();
    if count(b'.') < 3 && count(b':') < 2 && count(b'-') < 4 && count(b'_') < 4 {
        return;
    }
    let mut at = 0;
    while at < bytes.len() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let here = uuid(bytes, at, before)
            .or_else(|| mac(bytes, at, before))
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

fn uuid(bytes: &[u8], at: usize, before: Option<u8>) -> Option<(usize, Shape)> {
    let separator = *bytes.get(at + UUID_PARTS[0])?;
    // `pod` stands directly before it, so only digits are excluded.
    if !b"-_".contains(&separator) || before.is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut end = at;
    for (number, length) in UUID_PARTS.into_iter().enumerate() {
        if number > 0 {
            (*bytes.get(end)? == separator).then_some(())?;
            end += 1;
        }
        let part = bytes.get(end..end + length)?;
        part.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        end += length;
    }
    let behind = bytes.get(end);
    (!behind.is_some_and(u8::is_ascii_hexdigit)).then_some((end, Shape::Uuid))
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
        .take(V6_BYTES_MAX)
        .take_while(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte))
        .count();
    let behind = bytes.get(at + run);
    let run = word.get(at..at + run)?;
    if run.bytes().filter(|byte| *byte == b':').count() < 2 {
        return None;
    }
    // A full stop or a port may follow the address.
    let mut text = run.trim_end_matches('.');
    loop {
        // `c10::DistBackendError` begins like an address.
        let is_name = text.len() == run.len()
            && behind.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !is_name && let Ok(address) = text.parse::<Ipv6Addr>() {
            // None, or the beginning of a range: `fe80::`.
            let is_range = address.segments()[1..].iter().all(|group| *group == 0);
            let plain = address.is_loopback() || is_range;
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
        .take(V4_BYTES_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_behind_a_word_that_is_full_of_beginnings_of_one() {
        for piece in ["1.", "a:", "fe80:", "6f:", "1:."] {
            // A search to the end of the word from each place takes minutes.
            let text = piece.repeat(1 << 15) + " [fe80::aff:1]:80 10.0.1.25...";
            let mut last = Vec::new();
            each(&text, |start, end, _| last.push(&text[start..end]));
            let found = last.iter().rev().take(2).rev();
            assert!(found.eq(&["fe80::aff:1", "10.0.1.25"]), "{piece}");
        }
    }

    #[test]
    fn the_longest_addresses_are_found() {
        let text = "0011:2233:4455:6677:8899:aabb:255.255.255.254 255.255.255.254 \
            1111:2233:4455:6677:8899:aabb:ccdd:eeff:80";
        let mut found = Vec::new();
        each(text, |start, end, _| found.push(&text[start..end]));
        let mut expected: Vec<&str> = text.split(' ').collect();
        expected[2] = expected[2].trim_end_matches(":80");
        assert_eq!(found, expected);
    }
}
