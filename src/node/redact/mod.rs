//! Redaction: host names, IP, MAC and mail addresses, user names, home folders, ids of
//! projects, buckets and pods, and secrets are replaced by placeholders. The same name gets the
//! same placeholder everywhere; all secrets get the same one, and no map has them.
//!
//! Addresses keep the relations that checks compare: two of one /24 stay in one /24,
//! loopback stays loopback, and equal addresses stay equal. PCI addresses, versions and the folders of systems,
//! packages and images do not identify a site and are kept; other first folders of a path are replaced.
//!
//! A name or a secret is replaced if it was given or learned. Call [`Redactor::learn_file`] on
//! every file first, so that what one file shows is replaced in all.
//!
//! * `pairs.rs` finds secrets by their names (`keys.rs`, `foreign.rs`) and the signs behind them (`signs.rs`),
//!   `strings.rs`, `rows.rs` and `nested.rs` in strings, in other cells and on other lines, `sentences.rs` by the
//!   words around them, `tokens.rs`, `random.rs` and `spelling.rs` by their shapes, and `learned.rs` by their values,
//!   through the escapes that `view.rs` removes.
//! * `commands.rs` finds them in the arguments of `programs.rs`, `shell.rs` in here documents, `secret_formats.rs` in
//!   files and messages, `hidden.rs` behind letters that take no place.
//! * `headers.rs` knows what launchers and NCCL write before a message: it is no secret, and the message is a line.
//! * `telling.rs` keeps only ordinary words (`ordinary.rs`) of a line that tells of a secret, `tables.rs`
//!   of a column beneath a header that does.
//! * `listings.rs` finds names in listings of jobs and pods.
//! * `lines.rs` knows the line of a name, `parts.rs` bounds the length of a line that is searched at once, `ahead.rs`
//!   how often a place is passed over.
//! * `context.rs` and `nodes.rs` find names, also in the formats of `name_formats.rs`, which `templates.rs` matches;
//!   `printed.rs` finds what commands print, `shape.rs` addresses.
//! * `words.rs` keeps only known words of a log, `han.rs` knows Chinese ones, `chosen.rs` and `own.rs` the places of names.
//! * `json.rs` redacts documents, `recorder.rs` recorder files, `file.rs` any recorded file.
//! * `outlet.rs` is the way out, which every byte that leaves must pass.
//!
//! Not here: writing the map of replacements ([`Redactor::map`]) to a file, and the check of a
//! bundle, which shares nothing with this code.
#![forbid(unsafe_code)]

mod ahead;
mod chosen;
mod commands;
mod context;
mod file;
mod foreign;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod han;
mod headers;
mod hidden;
mod json;
mod keys;
#[cfg(test)]
mod layouts;
mod learned;
mod lines;
mod listings;
mod literals;
mod name_formats;
mod nested;
mod nodes;
mod ordinary;
mod outlet;
mod own;
mod pairs;
mod parts;
mod printed;
mod programs;
mod published;
mod random;
mod recorder;
mod rows;
mod secret_formats;
mod sentences;
mod shape;
mod shell;
mod signs;
mod spelling;
mod strings;
mod tables;
mod telling;
mod templates;
#[cfg(test)]
mod tests;
mod tokens;
mod view;
mod words;

pub use file::FileError;
pub use outlet::{Cleared, Outlet};

use crate::Root;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use context::Kind;
use learned::Learned;
use shape::Shape;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Placeholder addresses: 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
const PLACEHOLDER_NET: [u8; 2] = [198, 18];
/// Beginning of placeholder MAC addresses, which are locally administered.
const MAC_PLACEHOLDER: &str = "02:00:00:00:";
/// Beginning of placeholder addresses of IPv6, and of mail.
const V6_PLACEHOLDER: &str = "2001:db8::";
const MAIL_PLACEHOLDER: &str = "email";
/// Beginning of placeholders of folders that a site named.
const FOLDER_PLACEHOLDER: &str = "folder";
/// Beginning of placeholder UUIDs.
const UUID_PLACEHOLDER: &str = "00000000-0000-4000-8000-";
/// Placeholder of every secret. What a secret was is in no map.
const SECRET: &str = "SECRET";
/// Most /24 networks that get a placeholder of their own; all others share one.
const NETWORKS_MAX: u16 = 512;
/// Shortest user name that is replaced; shorter ones could be words.
const NAME_CHARS_MIN: usize = 3;
/// Shortest host name that is replaced; a machine may be called `vm`.
const HOST_CHARS_MIN: usize = 2;
/// Longest name of a host or a user; a name of DNS or of a file is not longer.
const NAME_BYTES_MAX: usize = 255;
/// Most hosts of a list that are written out.
const HOSTS_SHOWN_MAX: usize = 4;
/// Most names, of hosts and users together.
const NAMES_MAX: usize = 4096;
/// Names that are not replaced: common user and host names, and this program's names for
/// the two ends.
const COMMON_NAMES: [&str; 18] = [
    "system",
    "default",
    "root",
    "user",
    "localhost",
    "local",
    "peer",
    "host",
    "node",
    "unknown",
    "ubuntu",
    "nobody",
    "tcpxctl",
    "tcpx",
    "nccl",
    "none",
    "null",
    "secret",
];

/// Replaces names, addresses and secrets consistently over all texts that it is given.
#[derive(Debug, Default)]
pub struct Redactor {
    names: BTreeMap<String, String>,
    /// Finds all names in one pass; rebuilt after a name was added.
    finder: Option<AhoCorasick>,
    networks: BTreeMap<[u8; 3], u16>,
    secrets: Learned,
    words: words::Words,
    map: BTreeMap<String, String>,
    /// How many placeholders of each kind stand for something.
    given: BTreeMap<&'static str, usize>,
}

impl Redactor {
    /// A redactor that replaces these host and user names, and everything that it recognises
    /// by shape.
    pub(crate) fn new<'a>(
        hosts: impl IntoIterator<Item = &'a str>,
        users: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut redactor = Self::default();
        hosts.into_iter().for_each(|host| redactor.host(host));
        users.into_iter().for_each(|user| redactor.user(user));
        redactor
    }

    /// A redactor that replaces this machine's host name and the name of the calling user.
    pub fn of_this_machine() -> Self {
        let host = Root::live()
            .line("/proc/sys/kernel/hostname")
            .known()
            .cloned();
        let users: Vec<String> = ["USER", "LOGNAME", "SUDO_USER"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .collect();
        let mut redactor = Self::new(host.as_deref(), users.iter().map(String::as_str));
        for (name, value) in std::env::vars_os() {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                redactor.learn_pair(name, value);
            }
        }
        redactor
    }

    /// Adds a host name, with or without its domain. Text that is an address or is not a host
    /// name is ignored.
    pub fn host(&mut self, name: &str) {
        let short = name.split('.').next().unwrap_or(name);
        let is_name = |text: &str| {
            text.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
        };
        if is_name(name) && name.parse::<IpAddr>().is_err() {
            self.name(Kind::Node, short, HOST_CHARS_MIN);
        }
    }

    /// Adds the host of a URL with a user. Of `registry.example.com`, the first word alone is no name.
    fn host_of_url(&mut self, name: &str) {
        let name = name.trim_end_matches('.');
        match name.split_once('.') {
            Some((short, _)) if ordinary::is_ordinary(short) && name.parse::<IpAddr>().is_err() => {
                self.name(Kind::Node, name, HOST_CHARS_MIN);
            }
            _ => self.host(name),
        }
    }

    /// Adds the hosts of a list such as `gpu-[0-3]`, and the list, which their placeholders replace.
    fn hosts(&mut self, list: &str) {
        let hosts = nodes::hosts(list);
        hosts.iter().for_each(|host| self.host(host));
        let lower = list.to_ascii_lowercase();
        let placeholders: Vec<&str> = hosts
            .iter()
            .filter_map(|host| self.names.get(&host.to_ascii_lowercase()))
            .map(String::as_str)
            .collect();
        if placeholders.len() < hosts.len()
            || hosts.is_empty()
            || self.names.contains_key(&lower)
            || self.names.len() >= NAMES_MAX
        {
            return;
        }
        let all = match placeholders.as_slice() {
            [first, .., last] if placeholders.len() > HOSTS_SHOWN_MAX => format!("{first}..{last}"),
            few => few.join(","),
        };
        self.names.insert(lower, all);
        self.finder = None;
    }

    /// Adds a user name.
    pub(crate) fn user(&mut self, name: &str) {
        self.name(Kind::User, name, NAME_CHARS_MIN);
    }

    fn name(&mut self, kind: Kind, name: &str, chars_min: usize) {
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let kind = kind.word();
        let lower = name.to_ascii_lowercase();
        // Of a project, the number is a name.
        let is_number = name.len() < 9 && name.bytes().all(|byte| byte.is_ascii_digit());
        let is_known = COMMON_NAMES.contains(&lower.as_str()) || self.names.contains_key(&lower);
        // The kernel names it, as in `pci0000:c0`.
        let is_pci_root = lower.strip_prefix("pci").is_some_and(|domain| {
            domain.len() >= 4 && domain.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let is_known = is_known || is_pci_root;
        if name.len() < chars_min || is_number || is_known || self.names.len() >= NAMES_MAX {
            return;
        }
        // A placeholder of an earlier redaction is kept, without the domain that follows a host
        // of that name.
        let is_placeholder = lower
            .strip_prefix(kind)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let placeholder = match is_placeholder {
            true => lower.clone(),
            false => self.free_placeholder(kind),
        };
        self.names.insert(lower, placeholder);
        self.finder = None;
    }

    /// The next placeholder of a kind that stands for no name yet.
    fn free_placeholder(&self, kind: &str) -> String {
        let of_kind = self.names.values().filter(|known| known.starts_with(kind));
        let mut number = of_kind.count();
        loop {
            let placeholder = format!("{kind}{number}");
            if !self.names.values().any(|known| *known == placeholder) {
                return placeholder;
            }
            number += 1;
        }
    }

    /// Adds the names and the secrets that a text reveals.
    pub fn learn(&mut self, text: &str) {
        if is_json(text)
            && let Ok(value) = serde_json::from_str(text)
        {
            return self.learn_value(&value);
        }
        let mut names = Vec::new();
        for part in parts::of(text) {
            let hosts = tokens::hosts(part.text()).into_iter();
            hosts.for_each(|host| self.host_of_url(host));
            names.extend(shape::pods(part.text()).map(|pod| (Kind::Node, pod)));
            context::names(part.text(), |kind, name| names.push((kind, name)));
        }
        for (kind, name) in names {
            self.learn_name(kind, name);
        }
        self.learn_lines(text);
        for value in learned::bounded(self.values(text), text.len(), |value| value.at.clone()) {
            // The value of a line in a string of JSON ends with the escaped line end.
            let line = text[value.at].split("\\n").next().unwrap_or_default();
            self.secrets.add(line, value.is_certain);
        }
        for place in learned::bounded(tokens(text).collect(), text.len(), Range::clone) {
            self.secrets.add(&text[place], true);
        }
    }

    /// Adds what the JSON at the end of a line of a log reveals.
    fn learn_lines(&mut self, text: &str) {
        let ends = |line: &str| matches!(line.trim_end().as_bytes().last(), Some(b'}' | b']'));
        for line in text.lines().filter(|line| ends(line) && line.contains('"')) {
            let begin = line.find('{').or_else(|| line.find('['));
            let value = begin.and_then(|at| serde_json::from_str(&line[at..]).ok());
            if let Some(value) = value {
                self.learn_value(&value);
            }
        }
    }

    /// Adds the value of a variable or of a key, if it is a name or a secret.
    pub fn learn_pair(&mut self, key: &str, value: &str) {
        if let Some(kind) = context::kind_of_value(key)
            && context::may_be_name(kind, value)
            && (kind != Kind::User || context::is_user(key, value))
        {
            self.learn_name(kind, value);
        }
        if keys::is_secret_pair(key, value) {
            self.secrets.add(value, true);
        }
    }

    fn learn_name(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Node if name.contains('[') => self.hosts(name),
            Kind::Node => self.host(name),
            _ => self.name(kind, name, NAME_CHARS_MIN),
        }
    }

    /// Every replaced name and address with its placeholder.
    pub fn map(&self) -> &BTreeMap<String, String> {
        &self.map
    }

    /// The text with names, addresses and secrets replaced.
    pub fn redact(&mut self, text: &str) -> String {
        self.learn(text);
        if is_json(text) {
            return self.redact_json_line(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for place in self.secret_places(text) {
            self.names(&text[from..place.start], &mut out);
            replace_secret(&text[place.clone()], &mut out);
            from = place.end;
        }
        self.names(&text[from..], &mut out);
        out
    }

    /// The text with secrets replaced, and names and addresses kept: the last pass over a
    /// text whose names have been replaced. A word of its markup may be a host's name.
    pub fn redact_secrets(&mut self, text: &str) -> String {
        if is_json(text) {
            return self.redact_json_secrets(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for place in self.secret_places(text) {
            out.push_str(&text[from..place.start]);
            replace_secret(&text[place.clone()], &mut out);
            from = place.end;
        }
        out + &text[from..]
    }

    /// The values of secret names, and the words that may be secrets on lines that tell of one. There,
    /// a name that is known is no secret.
    fn values(&self, text: &str) -> Vec<pairs::Value> {
        let mut values = Self::values_of(text);
        let messages = headers::Messages::of(text);
        let of_messages = Self::values_of(messages.text()).into_iter();
        values.extend(of_messages.filter_map(|value| {
            Some(pairs::Value {
                at: messages.place(value.at)?,
                ..value
            })
        }));
        if !values.is_empty() {
            let kept = headers::kept(text);
            for value in &mut values {
                value.at = headers::without(&kept, value.at.clone());
            }
        }
        let is_name = |word: &str| {
            word.len() <= NAME_BYTES_MAX && self.names.contains_key(&word.to_ascii_lowercase())
        };
        values.retain(|value| {
            let word = &text[value.at.clone()];
            !(word.trim().is_empty() || value.is_of_line && is_name(word))
        });
        values
    }

    /// The values of secret names in a text, headers of lines included.
    fn values_of(text: &str) -> Vec<pairs::Value> {
        let mut values = Vec::new();
        for part in parts::of(text) {
            let mut of_part = pairs::values(part.text());
            hidden::values(part.text(), &mut of_part);
            values.extend(of_part.into_iter().map(|value| pairs::Value {
                at: part.place(value.at),
                ..value
            }));
        }
        values
    }

    /// The places of secrets, in order and without overlaps.
    fn secret_places(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut places = self.secrets.places(text);
        places.extend(tokens(text));
        places.extend(parts::of(text).flat_map(|part| {
            let users = tokens::users(part.text()).into_iter();
            users.map(move |user| part.place(user)).collect::<Vec<_>>()
        }));
        places.extend(self.values(text).into_iter().map(|value| value.at));
        for place in &mut places {
            *place = text.floor_char_boundary(place.start)..text.ceil_char_boundary(place.end);
        }
        places.sort_by_key(|place| place.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for place in places {
            match joined.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => joined.push(place),
            }
        }
        match joined.is_empty() {
            true => joined,
            false => {
                let mut kept = headers::kept(text);
                kept.extend(published::kept(text));
                kept.sort_by_key(|at| at.start);
                headers::cut(&kept, joined)
            }
        }
    }

    /// Copies `text` to `out`, with names and addresses replaced.
    fn names(&mut self, text: &str, out: &mut String) {
        let mut known = self.known(text);
        // A mail address holds names of hosts and projects.
        for (start, end) in shape::mails(text) {
            let placeholder = self.numbered(MAIL_PLACEHOLDER, &text[start..end]);
            known.push((start, end, placeholder));
        }
        for at in own::folders(text) {
            let placeholder = self.numbered(FOLDER_PLACEHOLDER, &text[at.clone()]);
            known.push((at.start, at.end, placeholder));
        }
        known.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        let mut from = 0;
        for (start, end, placeholder) in known {
            if start >= from {
                self.shapes(&text[from..start], out);
                out.push_str(&placeholder);
                if text[start..end] != placeholder && !words::is_placeholder(&placeholder) {
                    self.map.insert(text[start..end].to_owned(), placeholder);
                }
                from = end;
            }
        }
        self.shapes(&text[from..], out);
    }

    /// Start, end and placeholder of each known name that is a whole word, with the domain
    /// that follows it.
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
            // Names cannot be searched for, so the whole text is replaced.
            return vec![(0, text.len(), "REDACTED".to_owned())];
        };
        let is_part = |letter: char| letter.is_alphanumeric();
        // Where the domain of the last name ends. It may have names in it, which are replaced with it.
        let mut domain_end = 0;
        let found = finder.find_iter(text).filter_map(|found| {
            let (start, mut end) = (found.start(), found.end());
            if end <= domain_end {
                return None;
            }
            let before = text[..start].chars().next_back();
            if before.is_some_and(is_part) || text[end..].chars().next().is_some_and(is_part) {
                return None;
            }
            let placeholder = names.get(&text[start..end].to_ascii_lowercase())?.clone();
            let is_joined = is_in_compound(text, start..end) || is_in_variable(text, start..end);
            if placeholder.starts_with("node") && is_joined {
                return None;
            }
            // The domain identifies the site, so it is replaced with the name.
            if placeholder.starts_with("node") {
                end += shape::domain(&text[end..]);
                domain_end = end;
            }
            Some((start, end, placeholder))
        });
        found.collect()
    }

    /// Copies `text` to `out`, with everything that is recognised by its shape replaced.
    fn shapes(&mut self, text: &str, out: &mut String) {
        let mut from = 0;
        shape::each(text, |start, end, shape| {
            out.push_str(&text[from..start]);
            let found = &text[start..end];
            let placeholder = match shape {
                Shape::V4(address) => self.v4(address),
                Shape::V6(address) => self.v6(address),
                Shape::Mac => self.mac(found),
                Shape::Uuid => self.numbered(UUID_PLACEHOLDER, &found.replace('_', "-")),
            };
            out.push_str(&placeholder);
            from = end;
        });
        out.push_str(&text[from..]);
    }

    fn mac(&mut self, found: &str) -> String {
        let plain = found.to_ascii_lowercase().replace('-', ":");
        if plain.starts_with(MAC_PLACEHOLDER) {
            return plain;
        }
        if let Some(known) = self.map.get(&plain).cloned() {
            return self.replaced(found, known);
        }
        let number = self.next_number(MAC_PLACEHOLDER);
        let placeholder = format!(
            "{MAC_PLACEHOLDER}{:02x}:{:02x}",
            number / 256 % 256,
            number % 256
        );
        self.replaced(&plain, placeholder.clone());
        self.replaced(found, placeholder)
    }

    fn v4(&mut self, address: Ipv4Addr) -> String {
        let [a, b, c, host] = address.octets();
        // Masks, loopback and placeholders are kept.
        let is_placeholder = a == PLACEHOLDER_NET[0] && b & 0xfe == PLACEHOLDER_NET[1];
        if address.is_loopback() || address.is_unspecified() || a == 255 || is_placeholder {
            return address.to_string();
        }
        let next = u16::try_from(self.networks.len())
            .unwrap_or(u16::MAX)
            .min(NETWORKS_MAX - 1);
        let [high, low] = self.networks.entry([a, b, c]).or_insert(next).to_be_bytes();
        let placeholder = Ipv4Addr::new(PLACEHOLDER_NET[0], PLACEHOLDER_NET[1] + high, low, host);
        self.replaced(&address.to_string(), placeholder.to_string())
    }

    fn v6(&mut self, address: Ipv6Addr) -> String {
        let text = address.to_string();
        // 2001:db8::/32, which RFC 3849 reserves for documentation, holds the placeholders.
        if address.is_loopback()
            || address.is_unspecified()
            || address.segments()[..2] == [0x2001, 0xdb8]
        {
            return text;
        }
        if let Some(known) = self.map.get(&text) {
            return known.clone();
        }
        let number = self.next_number(V6_PLACEHOLDER);
        self.replaced(&text, format!("{V6_PLACEHOLDER}{:x}", number + 1))
    }

    /// The placeholder of a mail address, a UUID or a folder, which has a number of its own among those of its kind.
    fn numbered(&mut self, kind: &'static str, found: &str) -> String {
        let lower = found.to_ascii_lowercase();
        if lower.starts_with(UUID_PLACEHOLDER) {
            return lower;
        }
        if let Some(known) = self.map.get(&lower) {
            return known.clone();
        }
        let placeholder = match (kind, self.next_number(kind)) {
            (UUID_PLACEHOLDER, number) => format!("{kind}{number:012x}"),
            (_, number) => format!("{kind}{number}"),
        };
        self.replaced(&lower, placeholder)
    }

    fn next_number(&mut self, kind: &'static str) -> usize {
        let given = self.given.entry(kind).or_default();
        *given += 1;
        *given - 1
    }

    fn replaced(&mut self, word: &str, placeholder: String) -> String {
        self.map.insert(word.to_owned(), placeholder.clone());
        placeholder
    }
}

/// The places of secrets that their shape tells.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let messages = headers::Messages::of(text);
    let mut of_messages = Vec::new();
    for part in parts::of(messages.text()) {
        let mut logins = Vec::new();
        tokens::of_lines(part.text(), &mut logins);
        of_messages.extend(
            logins
                .into_iter()
                .filter_map(|place| messages.place(part.place(place))),
        );
    }
    let places = parts::of(text).flat_map(|part| {
        let places = tokens::places(part.text());
        places.into_iter().map(move |place| part.place(place))
    });
    places.chain(of_messages)
}

/// Whether the value of a variable is a secret.
pub(crate) fn is_secret_variable(name: &str, value: &str) -> bool {
    keys::is_secret_pair(name, value) && !keys::is_absent(value)
}

/// A value with `mask` for each secret in it that its shape tells.
pub(crate) fn masked_value(value: &str, mask: &str) -> String {
    Redactor::default()
        .redact_secrets(value)
        .replace(SECRET, mask)
}

/// Whether a name that is also a word is a part of a variable's name: `PROXY` of `NCCL_PROXY_URL`.
fn is_in_variable(text: &str, name: Range<usize>) -> bool {
    let is_part = |two: Option<[u8; 2]>| {
        two.is_some_and(|[sign, next]| {
            sign == b'_' && (next.is_ascii_uppercase() || next.is_ascii_digit())
        })
    };
    let bytes = text.as_bytes();
    let before = bytes[..name.start].last_chunk::<2>();
    let after = bytes[name.end..].first_chunk::<2>();
    let word = &text[name];
    word.bytes().all(|byte| byte.is_ascii_uppercase())
        && (is_part(before.map(|[next, sign]| [*sign, *next])) || is_part(after.copied()))
        && ordinary::is_ordinary(&word.to_ascii_lowercase())
}

/// Whether a name that is also a word is part of a word of ordinary ones that hyphens join, such as
/// `vm` of the kernel's `total-vm:4kB`. A name that is too short to be listed is so only before a
/// number.
fn is_in_compound(text: &str, name: Range<usize>) -> bool {
    let is_listed = |word: &str| {
        word.len() > 3
            && word.bytes().all(|byte| byte.is_ascii_lowercase())
            && ordinary::is_ordinary(word)
    };
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '-';
    let before = &text[..name.start];
    let before = &before[before.trim_end_matches(is_of_word).len()..];
    let after = &text[name.end..];
    let rest = after.trim_start_matches(is_of_word);
    let after = &after[..after.len() - rest.len()];
    let others = || before.split('-').chain(after.split('-'));
    let word = &text[name];
    let is_word = match word.len() {
        0..=3 => {
            let value = rest.strip_prefix([':', '=']);
            word.bytes().all(|byte| byte.is_ascii_lowercase())
                && value.is_some_and(|value| value.starts_with(|one: char| one.is_ascii_digit()))
        }
        _ => is_listed(word),
    };
    is_word
        && before.len() + after.len() > 0
        && (before.is_empty() || before.ends_with('-'))
        && (after.is_empty() || after.starts_with('-'))
        && !rest.starts_with(['.', '@', '/'])
        && others().filter(|part| !part.is_empty()).all(is_listed)
}

/// Writes the placeholder of a secret, and as many line ends as the secret had.
fn replace_secret(secret: &str, out: &mut String) {
    out.push_str(SECRET);
    let ends = secret.matches('\n').count();
    (0..ends).for_each(|_| out.push('\n'));
}

/// Whether a text is a JSON document with strings.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && text.contains('"')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
