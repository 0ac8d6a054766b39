//! Templates of lines and of parts of lines with names in them: `Linux {node} {word} #{d}`. A template is
//! matched part by part from one place on, without going back, so its time is bounded by its length.
//!
//! * `{node}`, `{user}`, `{project}`: a name. With `~` in front, only a word that is not ordinary.
//! * `{d}` digits, `{f}` a number, `{s}` white space on the line, `{word}` up to white space, `{tag}` the name
//!   of a program, `{q}` quotes or none,
//!   `{sign}` an equals sign or a colon, `{time}` of ISO 8601, `{v4}` an address, `{mode}` of a file.
//! * `{ids}` a list such as `27(X),100(Y)`, `{nodes}` the words up to the line end, `{person}` words up to `<`.
//! * `{[node}` and `{]}` stand around parts that are one name together, `{hash}` is at least 8 digits of one, `{secret}` a
//!   word that looks like one, `{pool}` the rest of the name of a node of a pool in Google's cloud.
#![forbid(unsafe_code)]

use super::context::{Kind, may_be_name};
use super::keys::looks_secret;
use super::{NAME_BYTES_MAX, nodes, ordinary};
use std::ops::Range;

/// Longest word, and most white space, that a template passes over.
const WORD_BYTES_MAX: usize = 256;
const SPACES_MAX: usize = 64;
/// Most names of a list, and most words of the name of a person.
const NAMES_MAX: usize = 16;
/// Most hosts behind an address.
const HOSTS_MAX: usize = 4;
const PERSON_BYTES_MAX: usize = 64;
/// Fewest digits of a hash.
const HASH_BYTES_MIN: usize = 8;
/// Shortest name that is told from a word.
const NAME_BYTES_MIN: usize = 4;
/// Users and groups that systems have, and owners of public models and images.
const PUBLIC: &str = "munge slurm slurmctld syslog sshd chrony polkitd postfix nginx dbus nfsnobody wheel docker render sudo \
    plugdev dialout messagebus avahi rtkit reboot runlevel kubelet containerd meta-llama mistralai deepseek-ai qwen nvidia \
    google microsoft openai facebook eleutherai bigscience tiiuae huggingfaceh4 stabilityai allenai thudm databricks \
    mosaicml library pytorch vllm rocm ghcr quay bitnami grafana prom rayproject tensorflow jupyter datasets lmsys bigcode \
    uvicorn gunicorn hypercorn istio-envoy cloudflare aarch64 arm64 amd64 dgx-h100 dgx-a100 hgx-h100 rdzv c10d nogroup";

/// Parts of the types of machines: `a3-highgpu-8g`.
const MACHINES: [&str; 9] = [
    "highgpu", "megagpu", "ultragpu", "maxgpu", "edgegpu", "standard", "highmem", "highcpu",
    "metal",
];

/// A part of a template.
#[derive(Debug, Clone, Copy)]
enum Part {
    Literal(&'static str),
    /// A name, and whether any word is one.
    Name(Kind, bool),
    Begin(Kind),
    Stop,
    Digits,
    Float,
    Space,
    Word,
    Quotes,
    Sign,
    Time,
    V4,
    Mode,
    Ids,
    Nodes,
    Person,
    Hash,
    Pool,
    Tag,
    Secret,
}

/// What a template found: a name of a kind, or a secret.
type Match<'a> = (Option<Kind>, &'a str);

/// A template, prepared once.
#[derive(Debug)]
pub(super) struct Template {
    parts: Vec<Part>,
    /// Whether it may begin inside a key: `target_host=`.
    is_end_of_key: bool,
}

impl Template {
    /// The template that `written` describes. Behind `*`, it may begin inside a key.
    pub(super) fn new(written: &'static str) -> Self {
        let key = written.strip_prefix('*');
        let mut parts = Vec::new();
        let mut rest = key.unwrap_or(written);
        while !rest.is_empty() {
            let open = rest.find('{').unwrap_or(rest.len());
            if open > 0 {
                parts.push(Part::Literal(&rest[..open]));
                rest = &rest[open..];
                continue;
            }
            let close = rest.find('}').unwrap_or(rest.len() - 1);
            parts.push(part(&rest[1..close]));
            rest = &rest[close + 1..];
        }
        Self {
            parts,
            is_end_of_key: key.is_some(),
        }
    }

    /// The text that it begins with.
    pub(super) fn literal(&self) -> &'static str {
        match self.parts.as_slice() {
            [Part::Literal(text), ..] | [Part::Begin(_), Part::Literal(text), ..] => text,
            _ => "",
        }
    }

    /// Calls `found` with the names of a text that has the template at `at`.
    pub(super) fn names<'a>(
        &self,
        text: &'a str,
        at: usize,
        found: &mut impl FnMut(Kind, &'a str),
    ) {
        if self.is_in_word(text, at) {
            return;
        }
        let mut all = Vec::new();
        if self.matches(text, at, &mut all) {
            let names = all
                .into_iter()
                .filter_map(|(kind, name)| Some((kind?, name)));
            names.for_each(|(kind, name)| found(kind, name));
        }
    }

    /// The place of the secret of a text that has the template at `at`.
    pub(super) fn secret(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let mut all = Vec::new();
        let is_found = !self.is_in_word(text, at) && self.matches(text, at, &mut all);
        let secret = all.into_iter().find(|(kind, _)| kind.is_none());
        let begin = |secret: &str| secret.as_ptr() as usize - text.as_ptr() as usize;
        let (_, secret) = secret.filter(|_| is_found)?;
        Some(begin(secret)..begin(secret) + secret.len())
    }

    /// Whether a place is inside a word with which the template begins.
    fn is_in_word(&self, text: &str, at: usize) -> bool {
        let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
        let is_joined = |letter: char| match self.is_end_of_key {
            true => letter.is_alphanumeric(),
            false => is_of_word(letter),
        };
        self.literal().starts_with(is_of_word) && text[..at].ends_with(is_joined)
    }

    fn matches<'a>(&self, text: &'a str, at: usize, names: &mut Vec<Match<'a>>) -> bool {
        let mut at = at;
        let mut begun = None;
        for part in &self.parts {
            let rest = &text[at..];
            let length = match *part {
                Part::Literal(literal) => rest.starts_with(literal).then_some(literal.len()),
                Part::Begin(kind) => {
                    begun = Some((kind, at));
                    Some(0)
                }
                Part::Stop => {
                    names.extend(
                        begun
                            .take()
                            .map(|(kind, from)| (Some(kind), &text[from..at])),
                    );
                    Some(0)
                }
                Part::Name(kind, is_any) => {
                    let name = name(rest);
                    is_name(kind, name, is_any).then(|| {
                        names.push((Some(kind), name));
                        name.len()
                    })
                }
                Part::Secret => secret(rest).map(|secret| {
                    names.push((None, secret));
                    secret.len()
                }),
                Part::Ids => ids(rest, names),
                Part::Nodes => hosts(rest, names),
                Part::Person => person(rest, names),
                plain => length(plain, rest),
            };
            let Some(length) = length else { return false };
            at += length;
        }
        true
    }
}

fn part(written: &'static str) -> Part {
    let word = written.trim_start_matches(['~', '[']);
    let kind = match word {
        "user" => Kind::User,
        "project" => Kind::Project,
        "machine" => Kind::Machine,
        _ => Kind::Node,
    };
    match word {
        "]" => Part::Stop,
        "d" => Part::Digits,
        "f" => Part::Float,
        "s" => Part::Space,
        "word" => Part::Word,
        "q" => Part::Quotes,
        "sign" => Part::Sign,
        "time" => Part::Time,
        "v4" => Part::V4,
        "mode" => Part::Mode,
        "ids" => Part::Ids,
        "nodes" => Part::Nodes,
        "person" => Part::Person,
        "hash" => Part::Hash,
        "pool" => Part::Pool,
        "tag" => Part::Tag,
        "secret" => Part::Secret,
        _ if written.starts_with('[') => Part::Begin(kind),
        _ => Part::Name(kind, !written.starts_with('~')),
    }
}

/// The length of a part that holds no name, at the beginning of a text.
fn length(part: Part, rest: &str) -> Option<usize> {
    let run = |most: usize, is: fn(u8) -> bool| {
        let bytes = rest.bytes().take(most);
        bytes.take_while(|byte| is(*byte)).count()
    };
    let some = |length: usize| (length > 0).then_some(length);
    match part {
        Part::Digits => some(run(SPACES_MAX, |byte| byte.is_ascii_digit())),
        Part::Float => some(run(SPACES_MAX, |byte| {
            byte.is_ascii_digit() || byte == b'.'
        })),
        Part::Space => some(run(SPACES_MAX, |byte| byte == b' ' || byte == b'\t')),
        Part::Word => some(run(WORD_BYTES_MAX, |byte| !byte.is_ascii_whitespace()))
            .filter(|length| rest.is_char_boundary(*length)),
        Part::Quotes => Some(run(NAMES_MAX, |byte| b"\"'`\\".contains(&byte))),
        Part::Sign => {
            let before = run(NAMES_MAX, |byte| byte == b' ');
            let sign = rest[before..].chars().next()?;
            let length = before + sign.len_utf8();
            let behind = rest[length..].bytes().take(NAMES_MAX);
            let behind = behind.take_while(|byte| *byte == b' ').count();
            matches!(sign, '=' | ':' | '\u{ff1a}').then_some(length + behind)
        }
        Part::Time => {
            let length = run(WORD_BYTES_MAX, |byte| {
                byte.is_ascii_digit() || b"T:.,+Z-".contains(&byte)
            });
            (length >= 19 && rest.as_bytes()[10] == b'T').then_some(length)
        }
        Part::V4 => {
            let length = run(16, |byte| byte.is_ascii_digit() || byte == b'.');
            let address = rest[..length].parse::<std::net::Ipv4Addr>();
            address.is_ok().then_some(length)
        }
        Part::Mode => {
            let bytes = rest.as_bytes().get(..10)?;
            let is_mode = b"-dlcbps".contains(&bytes[0])
                && bytes[1..].iter().all(|byte| b"rwxsStT-".contains(byte));
            let is_marked = rest
                .as_bytes()
                .get(10)
                .is_some_and(|byte| b".+@".contains(byte));
            is_mode.then_some(10 + usize::from(is_marked))
        }
        Part::Hash => {
            let length = run(WORD_BYTES_MAX, |byte| {
                byte.is_ascii_hexdigit() || byte == b'x'
            });
            (length >= HASH_BYTES_MIN).then_some(length)
        }
        Part::Tag => some(run(WORD_BYTES_MAX, |byte| {
            byte.is_ascii_alphanumeric() || b"_./*-".contains(&byte)
        })),
        Part::Pool => {
            let name = name(rest);
            let mut ends = name.rsplit('-');
            let (last, hash) = (ends.next()?, ends.next()?);
            let is_pool = last.len() == 4
                && hash.len() == HASH_BYTES_MIN
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_pool.then_some(name.len())
        }
        _ => None,
    }
}

/// The name at the beginning of a text; empty if it is longer than a name.
fn name(rest: &str) -> &str {
    let most = &rest[..rest.floor_char_boundary((NAME_BYTES_MAX + 1).min(rest.len()))];
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let end = most
        .find(|letter| !is_of_name(letter))
        .unwrap_or(most.len());
    // Two dashes are between the owner and the name of a model.
    let end = most[..end].find("--").unwrap_or(end);
    match end > NAME_BYTES_MAX {
        true => "",
        false => most[..end].trim_end_matches(['.', '-']),
    }
}

/// Whether a word is a name of a kind. If not any word is one, an ordinary one, and a public one, is none.
fn is_name(kind: Kind, name: &str, is_any: bool) -> bool {
    if !name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        || !may_be_name(Kind::User, name)
    {
        return false;
    }
    if is_any {
        return true;
    }
    let is_machine = name.split(['-', '.']).any(|part| MACHINES.contains(&part));
    let is_public = is_machine
        || PUBLIC
            .split_ascii_whitespace()
            .any(|public| name.eq_ignore_ascii_case(public));
    name.len() >= NAME_BYTES_MIN
        && !is_public
        && match kind {
            Kind::Node => nodes::is_name(name),
            // The address of a registry.
            Kind::Project if name.contains('.') => false,
            _ => {
                name.starts_with(|letter: char| letter.is_ascii_alphabetic())
                    && !ordinary::is_ordinary(name)
            }
        }
}

/// The word at the beginning of a text, if it looks like a secret.
fn secret(rest: &str) -> Option<&str> {
    let most = &rest[..rest.floor_char_boundary(WORD_BYTES_MAX.min(rest.len()))];
    let ends = |letter: char| letter.is_whitespace() || "\"'`,;&<>)]}\\/".contains(letter);
    let word = &most[..most.find(ends).unwrap_or(most.len())];
    looks_secret(word).then_some(word)
}

/// `27(X),100(Y)`.
fn ids<'a>(rest: &'a str, names: &mut Vec<Match<'a>>) -> Option<usize> {
    let mut at = 0;
    for _ in 0..NAMES_MAX {
        let id = &rest[at..];
        let Some(open) = length(Part::Digits, id).filter(|end| id[*end..].starts_with('(')) else {
            break;
        };
        let name = name(&id[open + 1..]);
        if is_name(Kind::User, name, false) {
            names.push((Some(Kind::User), name));
        }
        at += open + 1 + name.len();
        match rest[at..].strip_prefix("),") {
            Some(_) => at += 2,
            None => break,
        }
    }
    Some(at)
}

/// The hosts behind an address, which nothing else follows on the line but a comment.
fn hosts<'a>(rest: &'a str, names: &mut Vec<Match<'a>>) -> Option<usize> {
    let most = &rest[..rest.floor_char_boundary(WORD_BYTES_MAX.min(rest.len()))];
    let line = most.split(['\n', '\r', '#']).next()?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_host = |word: &&str| name(word).len() == word.len();
    if words.is_empty() || words.len() > HOSTS_MAX || !words.iter().all(is_host) {
        return None;
    }
    let hosts = words.into_iter().filter(|word| {
        let short = word.split('.').next().unwrap_or_default();
        is_name(Kind::Node, short, false)
    });
    names.extend(hosts.map(|host| (Some(Kind::Node), host)));
    Some(line.len())
}

/// The name of a person before a mail address: all of it, and each word of it that is not ordinary.
fn person<'a>(rest: &'a str, names: &mut Vec<Match<'a>>) -> Option<usize> {
    let most = &rest[..rest.floor_char_boundary(PERSON_BYTES_MAX.min(rest.len()))];
    let end = most.find(" <")?;
    let written = &most[..end];
    if written.contains(|letter: char| letter.is_control() || ":=/\"".contains(letter)) {
        return None;
    }
    names.push((Some(Kind::User), written));
    let words = written
        .split(' ')
        .filter(|word| is_name(Kind::User, word, false));
    names.extend(words.map(|word| (Some(Kind::User), word)));
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(template: &'static str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Template::new(template).names(text, 0, &mut |_, name| found.push(name.to_owned()));
        found
    }

    #[test]
    fn names_are_found_where_the_whole_template_is() {
        assert_eq!(
            found("Linux {node} {word} #{d}", "Linux kestral 6.1-x #58 SMP"),
            ["kestral"]
        );
        assert!(found("Linux {node} {word} #{d}", "Linux version 6.1-x (gcc)").is_empty());
        assert_eq!(
            found("groups={ids}", "groups=27(sudo),100(kestral)"),
            ["kestral"]
        );
        assert_eq!(found("{[node}ip-{d}-{d}{]}", "ip-10-2 x"), ["ip-10-2"]);
        assert_eq!(
            found("{v4}{s}{nodes}", "10.0.1.25  kestral kestral.x # y"),
            ["kestral", "kestral.x"]
        );
        assert_eq!(
            found("By: {person} <", "By: Kes Tral <a@b>"),
            ["Kes Tral", "Tral"]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_matched_without_a_panic(text in "\\PC{0,40}") {
            for template in ["{time} {node}", "{word}{s}{q}{sign}{user}", "{mode}{s}{hash}", "{ids}{person}{nodes}{v4}{f}"] {
                found(template, &text);
            }
        }
    }
}
