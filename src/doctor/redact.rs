//! What may leave the machine: host names, addresses, user names and home
//! folders become stand-ins, the same ones wherever they stand.
//!
//! Addresses keep what checks and readers compare: two of one /24 stay in one
//! /24, loopback stays loopback, and equal stays equal. PCI addresses, versions
//! and paths of installations say nothing of anyone and are kept.
//!
//! Not here: writing the map. [`Redactor::map`] is for the one who keeps it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// RFC 2544's range for benchmarks: nobody's machine.
const STAND_IN: [u8; 2] = [198, 18];
/// Shorter names are words of their own right.
const NAME_CHARS_MIN: usize = 3;
/// A run of letters and digits that is longer than any hash or number we keep
/// is not cut; these prefixes are of known kinds of secrets.
const SECRETS: [&str; 6] = ["ghp_", "glpat-", "hf_", "sk-", "AKIA", "ya29."];

/// Replaces, consistently, for as long as it lives.
#[derive(Debug, Default)]
pub struct Redactor {
    names: BTreeMap<String, String>,
    networks: BTreeMap<[u8; 3], u8>,
    map: BTreeMap<String, String>,
}

impl Redactor {
    /// Knows these host and user names, apart from what it recognises by shape.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a str>, users: impl IntoIterator<Item = &'a str>) -> Self {
        let mut redactor = Self::default();
        for (kind, all) in [("node", hosts.into_iter().collect::<Vec<_>>()), ("user", users.into_iter().collect())] {
            for name in
                all.into_iter().filter(|name| name.len() >= NAME_CHARS_MIN && !matches!(*name, "root" | "localhost"))
            {
                let number = redactor.names.values().filter(|known| known.starts_with(kind)).count();
                redactor.names.entry(name.to_owned()).or_insert_with(|| format!("{kind}{number}"));
            }
        }
        redactor
    }

    /// What was replaced by what.
    pub fn map(&self) -> &BTreeMap<String, String> {
        &self.map
    }

    /// The text without them.
    pub fn redact(&mut self, text: &str) -> String {
        text.split_inclusive('\n').map(|line| self.line(line)).collect()
    }

    fn line(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while !rest.is_empty() {
            let length = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            if word.is_empty() {
                let mut letters = rest.chars();
                out.extend(letters.next());
                rest = letters.as_str();
                continue;
            }
            let home = out.ends_with("/home/") || out.ends_with("/Users/");
            out.push_str(&self.word(word, home));
            rest = after;
        }
        out
    }

    /// A run of letters, digits and what stands inside names and addresses.
    fn word(&mut self, word: &str, is_user: bool) -> String {
        if let Some(stand_in) = self.known(word) {
            return stand_in;
        }
        if is_user {
            let number = self.names.values().filter(|known| known.starts_with("user")).count();
            self.names.insert(word.to_owned(), format!("user{number}"));
            return self.replaced(word, format!("user{number}"));
        }
        if SECRETS.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len() + 12) {
            return self.replaced(word, "SECRET".to_owned());
        }
        // An address may carry a port, a range's end or a trailing point.
        let (address, tail) = word.split_at(word.find(|letter: char| !is_address(letter)).unwrap_or(word.len()));
        let (address, dots) = address.split_at(address.trim_end_matches(['.', ':']).len());
        if is_mac(address) {
            let number = self.map.values().filter(|value| value.starts_with("02:00:00:00:")).count();
            let stand_in = format!("02:00:00:00:{:02x}:{:02x}", number / 256 % 256, number % 256);
            return self.replaced(address, stand_in) + dots + tail;
        }
        let (plain, port) = match address.rsplit_once(':') {
            Some((plain, port)) if plain.contains('.') && !plain.contains(':') => (plain, format!(":{port}")),
            _ => (address, String::new()),
        };
        if let Ok(v4) = plain.parse::<Ipv4Addr>() {
            return self.v4(v4) + &port + dots + tail;
        }
        match address.parse::<Ipv6Addr>() {
            Ok(v6) if !v6.is_loopback() && !v6.is_unspecified() => self.v6(v6) + dots + tail,
            _ => self.dotted(word),
        }
    }

    fn known(&mut self, word: &str) -> Option<String> {
        let known = self.map.get(word).or_else(|| self.names.get(word))?.clone();
        self.map.insert(word.to_owned(), known.clone());
        Some(known)
    }

    /// A known name with a domain behind it, or within a longer name.
    fn dotted(&mut self, word: &str) -> String {
        let part = |name: &String| {
            let mut found = word.match_indices(name.as_str());
            found.find_map(|(at, _)| {
                let before = word[..at].chars().next_back().is_none_or(|letter| !letter.is_alphanumeric());
                let after = word[at + name.len()..].chars().next().is_none_or(|letter| !letter.is_alphanumeric());
                (before && after).then(|| at..at + name.len())
            })
        };
        let found = self.names.iter().find_map(|(name, stand_in)| Some((part(name)?, stand_in.clone())));
        match found {
            // The domain says as much as the name.
            Some((at, stand_in)) if word[at.end..].starts_with('.') => {
                let whole = format!("{}{stand_in}", &word[..at.start]);
                self.replaced(word, whole)
            }
            Some((at, stand_in)) => format!("{}{stand_in}{}", &word[..at.start], &word[at.end..]),
            None => word.to_owned(),
        }
    }

    fn v4(&mut self, address: Ipv4Addr) -> String {
        let [a, b, c, host] = address.octets();
        // Masks, loopback, and our own stand-ins stay what they are.
        if address.is_loopback() || address.is_unspecified() || a == 255 || [a, b] == STAND_IN {
            return address.to_string();
        }
        let next = u8::try_from(self.networks.len()).unwrap_or(u8::MAX);
        let network = *self.networks.entry([a, b, c]).or_insert(next);
        let stand_in = Ipv4Addr::new(STAND_IN[0], STAND_IN[1], network, host);
        self.replaced(&address.to_string(), stand_in.to_string())
    }

    fn v6(&mut self, address: Ipv6Addr) -> String {
        let text = address.to_string();
        if let Some(known) = self.known(&text) {
            return known;
        }
        let number = self.map.values().filter(|value| value.starts_with("2001:db8::")).count();
        self.replaced(&text, format!("2001:db8::{:x}", number + 1))
    }

    fn replaced(&mut self, word: &str, stand_in: String) -> String {
        self.map.insert(word.to_owned(), stand_in.clone());
        stand_in
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || "._-:".contains(letter)
}

fn is_address(letter: char) -> bool {
    letter.is_ascii_hexdigit() || letter == ':' || letter == '.'
}

fn is_mac(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let mut redactor = Redactor::new(["a3-node0"], ["maintainer"]);
        assert_eq!(redactor.redact(text), expected);
    }

    #[test]
    fn what_names_someone_is_replaced_and_what_names_a_thing_is_kept() {
        check("10.0.1.25\n10.0.1.26 10.0.2.25", "198.18.0.25\n198.18.0.26 198.18.1.25");
        check("10.0.1.25:8080, 127.0.0.1 255.255.255.0 0.0.0.0", "198.18.0.25:8080, 127.0.0.1 255.255.255.0 0.0.0.0");
        check("a3-node0 a3-node0.c.project.internal xa3-node0", "node0 node0 xa3-node0");
        check("/home/someone/x and someone", "/home/user1/x and user1");
        check("by maintainer at 0000:06:00.0", "by user0 at 0000:06:00.0");
        check("ether 42:01:0a:00:01:19 brd", "ether 02:00:00:00:00:00 brd");
        check("fe80::4001:aff:fe00:119 ::1", "2001:db8::1 ::1");
        check("driver 535.129.03, NCCL 2.19.4, kernel 6.6.93+", "driver 535.129.03, NCCL 2.19.4, kernel 6.6.93+");
        check("token ghp_abcdefghijklmnopqrstuvwxyz", "token SECRET");
        check("eth1:8-21,112-125;eth2:8-21", "eth1:8-21,112-125;eth2:8-21");
        check("[\"10.0.1.25\",{\"name\":\"a3-node0\"}]", "[\"198.18.0.25\",{\"name\":\"node0\"}]");
    }

    proptest! {
        #[test]
        fn an_address_never_survives(octets in any::<[u8; 4]>(), before in "[ ,=\"(]", after in "[ ,\")/\n]") {
            let address = Ipv4Addr::from(octets);
            prop_assume!(!address.is_loopback() && !address.is_unspecified() && octets[0] != 255 && octets[..2] != STAND_IN);
            let mut redactor = Redactor::default();
            let text = redactor.redact(&format!("x{before}{address}{after}y"));
            prop_assert!(!text.contains(&address.to_string()), "{}", text);
        }

        #[test]
        fn any_text_is_redacted_and_only_once(text in "\\PC{0,120}") {
            let mut redactor = Redactor::new(["host7"], ["someone"]);
            let once = redactor.redact(&text);
            prop_assert_eq!(once.lines().count(), text.lines().count());
        }
    }
}
