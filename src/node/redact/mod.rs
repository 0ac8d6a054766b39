//! What may leave the machine: host names, addresses, user names, home folders and
//! what looks like a token become stand-ins, the same ones wherever they stand.
//!
//! Addresses keep what checks and readers compare: two of one /24 stay in one
//! /24, loopback stays loopback, and equal stays equal. PCI addresses, versions
//! and paths of installations say nothing of anyone and are kept.
//!
//! A name is known when it was told or learnt: [`Redactor::learn`] everything
//! first, and what one file gives away no other file keeps. `shape.rs` knows what
//! looks like an address or a secret; `json.rs` and `recorder.rs` go through
//! documents and recorder files.
//!
//! Not here: writing the map. [`Redactor::map`] is for the one who keeps it.
#![forbid(unsafe_code)]

mod json;
mod recorder;
mod shape;
#[cfg(test)]
mod tests;

use crate::Root;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use shape::Shape;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RFC 2544's range for benchmarks, 198.18.0.0/15: nobody's machine.
const STAND_IN: [u8; 2] = [198, 18];
/// Of the range for local use.
const MAC_STAND_IN: &str = "02:00:00:00:";
/// Networks that are told apart; beyond them all share one stand-in.
const NETWORKS_MAX: u16 = 512;
/// Shorter names are words of their own right; a machine may be called `vm`.
const NAME_CHARS_MIN: usize = 3;
const HOST_CHARS_MIN: usize = 2;
/// Names that are known of one kind.
const NAMES_MAX: usize = 4096;
/// What everybody's machine is called, and what our own records call the two ends.
const NOBODY: [&str; 8] = [
    "root",
    "localhost",
    "local",
    "peer",
    "host",
    "node",
    "unknown",
    "ubuntu",
];

/// Replaces, consistently, for as long as it lives.
#[derive(Debug, Default)]
pub struct Redactor {
    names: BTreeMap<String, String>,
    /// Finds all names at once; made when it is needed next.
    finder: Option<AhoCorasick>,
    networks: BTreeMap<[u8; 3], u16>,
    map: BTreeMap<String, String>,
}

impl Redactor {
    /// Knows these host and user names, apart from what it recognises by shape.
    pub(crate) fn new<'a>(
        hosts: impl IntoIterator<Item = &'a str>,
        users: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut redactor = Self::default();
        hosts.into_iter().for_each(|host| redactor.host(host));
        users.into_iter().for_each(|user| redactor.user(user));
        redactor
    }

    /// Knows this machine's name and who calls.
    pub fn of_this_machine() -> Self {
        let host = Root::live()
            .line("/proc/sys/kernel/hostname")
            .known()
            .cloned();
        let users: Vec<String> = ["USER", "LOGNAME", "SUDO_USER"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .collect();
        Self::new(host.as_deref(), users.iter().map(String::as_str))
    }

    /// From now on knows a machine's name, with or without its domain. An address
    /// is none, nor are words.
    pub fn host(&mut self, name: &str) {
        let short = name.split('.').next().unwrap_or(name);
        let is_name = |text: &str| {
            text.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
        };
        if is_name(name) && name.parse::<IpAddr>().is_err() {
            self.name("node", short, HOST_CHARS_MIN);
        }
    }

    /// From now on knows a user's name.
    pub(crate) fn user(&mut self, name: &str) {
        self.name("user", name, NAME_CHARS_MIN);
    }

    fn name(&mut self, kind: &str, name: &str, chars_min: usize) {
        let lower = name.to_ascii_lowercase();
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        // A stand-in of an earlier redaction stands for itself.
        let is_stand_in = name
            .strip_prefix(kind)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let is_known = NOBODY.contains(&lower.as_str()) || self.names.contains_key(&lower);
        if name.len() < chars_min
            || is_number
            || is_stand_in
            || is_known
            || self.names.len() >= NAMES_MAX
        {
            return;
        }
        let number = self
            .names
            .values()
            .filter(|known| known.starts_with(kind))
            .count();
        self.names.insert(lower, format!("{kind}{number}"));
        self.finder = None;
    }

    /// Takes the names that a text gives away: home folders, hosts with an internal
    /// domain, hosts in front of NCCL's process ids.
    pub fn learn(&mut self, text: &str) {
        for found in shape::homes(text) {
            self.user(found);
        }
        for found in shape::hosts(text) {
            self.host(found);
        }
    }

    /// What was replaced by what.
    pub fn map(&self) -> &BTreeMap<String, String> {
        &self.map
    }

    /// The text without them.
    pub fn redact(&mut self, text: &str) -> String {
        self.learn(text);
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (start, end, stand_in) in self.known(text) {
            if start >= from {
                self.shapes(&text[from..start], &mut out);
                out.push_str(&stand_in);
                self.map.insert(text[start..end].to_owned(), stand_in);
                from = end;
            }
        }
        self.shapes(&text[from..], &mut out);
        out
    }

    /// Places of known names that are words of their own, with the domain behind them.
    fn known(&mut self, text: &str) -> Vec<(usize, usize, String)> {
        if self.names.is_empty() {
            return Vec::new();
        }
        if self.finder.is_none() {
            let built = AhoCorasickBuilder::new()
                .match_kind(MatchKind::LeftmostLongest)
                .ascii_case_insensitive(true)
                .build(self.names.keys());
            self.finder = built.ok();
        }
        let names = &self.names;
        let Some(finder) = &self.finder else {
            // Without a search for the names nothing may leave.
            return vec![(0, text.len(), "REDACTED".to_owned())];
        };
        let is_part = |letter: char| letter.is_alphanumeric();
        let found = finder.find_iter(text).filter_map(|found| {
            let (start, mut end) = (found.start(), found.end());
            let before = text[..start].chars().next_back();
            if before.is_some_and(is_part) || text[end..].chars().next().is_some_and(is_part) {
                return None;
            }
            let stand_in = names.get(&text[start..end].to_ascii_lowercase())?.clone();
            // The domain says as much as the name.
            if stand_in.starts_with("node") {
                end += shape::domain(&text[end..]);
            }
            Some((start, end, stand_in))
        });
        found.collect()
    }

    /// What is recognised by its shape alone.
    fn shapes(&mut self, text: &str, out: &mut String) {
        let mut from = 0;
        shape::each(text, |start, end, shape| {
            out.push_str(&text[from..start]);
            let found = &text[start..end];
            let stand_in = match shape {
                Shape::V4(address) => self.v4(address),
                Shape::V6(address) => self.v6(address),
                Shape::Mac => self.mac(found),
                Shape::Secret => self.replaced(found, "SECRET".to_owned()),
            };
            out.push_str(&stand_in);
            from = end;
        });
        out.push_str(&text[from..]);
    }

    fn mac(&mut self, found: &str) -> String {
        let plain = found.to_ascii_lowercase().replace('-', ":");
        if plain.starts_with(MAC_STAND_IN) {
            return plain;
        }
        if let Some(known) = self.map.get(&plain).cloned() {
            return self.replaced(found, known);
        }
        let number = self
            .map
            .values()
            .filter(|value| value.starts_with(MAC_STAND_IN))
            .count();
        let stand_in = format!(
            "{MAC_STAND_IN}{:02x}:{:02x}",
            number / 256 % 256,
            number % 256
        );
        self.replaced(&plain, stand_in.clone());
        self.replaced(found, stand_in)
    }

    fn v4(&mut self, address: Ipv4Addr) -> String {
        let [a, b, c, host] = address.octets();
        // Masks, loopback, and our own stand-ins stay what they are.
        let is_ours = a == STAND_IN[0] && b & 0xfe == STAND_IN[1];
        if address.is_loopback() || address.is_unspecified() || a == 255 || is_ours {
            return address.to_string();
        }
        let next = u16::try_from(self.networks.len())
            .unwrap_or(u16::MAX)
            .min(NETWORKS_MAX - 1);
        let [high, low] = self.networks.entry([a, b, c]).or_insert(next).to_be_bytes();
        let stand_in = Ipv4Addr::new(STAND_IN[0], STAND_IN[1] + high, low, host);
        self.replaced(&address.to_string(), stand_in.to_string())
    }

    fn v6(&mut self, address: Ipv6Addr) -> String {
        let text = address.to_string();
        // RFC 3849's range is for documents, and ours.
        if address.is_loopback()
            || address.is_unspecified()
            || address.segments()[..2] == [0x2001, 0xdb8]
        {
            return text;
        }
        if let Some(known) = self.map.get(&text) {
            return known.clone();
        }
        let number = self
            .map
            .values()
            .filter(|value| value.starts_with("2001:db8::"))
            .count();
        self.replaced(&text, format!("2001:db8::{:x}", number + 1))
    }

    fn replaced(&mut self, word: &str, stand_in: String) -> String {
        self.map.insert(word.to_owned(), stand_in.clone());
        stand_in
    }
}
