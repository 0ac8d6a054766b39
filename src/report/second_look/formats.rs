//! Published formats of tokens and keys, and formats of addresses and ids.
#![forbid(unsafe_code)]

use super::Found;
use super::pattern::{is_slow, without_boundaries};
use regex::{Regex, RegexSet, RegexSetBuilder};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// What a text looks like, its format, and whether a match is a placeholder or ordinary.
type Format = (&'static str, &'static str, fn(&str) -> bool);

const FORMATS: [Format; 50] = [
    (
        "a GitHub token",
        r"\b(?:gh[a-z]_[0-9A-Za-z]{20,}|github_pat_\w{20,})",
        never,
    ),
    (
        "a GitLab token",
        r"\bgl[a-z]{2,6}-[0-9A-Za-z_-]{16,}",
        never,
    ),
    (
        "an AWS key id",
        r"\bA(?:3T[A-Z0-9]|KIA|SIA|BIA|CCA|GPA|IDA|ROA)[A-Z0-9]{16}\b",
        never,
    ),
    ("a Google API key", r"\bAIza[0-9A-Za-z_-]{30,}", never),
    (
        "a Google OAuth token",
        r"\bya29\.[0-9A-Za-z_-]{10,}|\bGOCSPX-[0-9A-Za-z_-]{10,}",
        never,
    ),
    (
        "an Azure secret",
        r"[0-9A-Za-z_~.]{3}\dQ~[0-9A-Za-z_~.-]{31}|[?&]sig=[0-9A-Za-z%]{20,}",
        never,
    ),
    ("a Hugging Face token", r"\bhf_[0-9A-Za-z]{20,}", never),
    (
        "an API key",
        r"\bsk-(?:proj-|ant-|or-)?[0-9A-Za-z_]{20,}|\bnvapi-[\w-]{20,}",
        never,
    ),
    (
        "a Slack token",
        r"\bxox[a-z][-.][0-9A-Za-z-]{10,}|\bxapp-\d-[0-9A-Za-z-]{10,}",
        never,
    ),
    (
        "a webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/\d|\.webhook\.office\.com/webhook|chat\.googleapis\.com/v1/spaces/\w",
        never,
    ),
    (
        "a Stripe key",
        r"\b[sr]k_(?:live|test)_[0-9A-Za-z]{16,}|\bwhsec_[0-9A-Za-z]{16,}",
        never,
    ),
    (
        "a package registry's token",
        r"\bnpm_[0-9A-Za-z]{30,}|\bpypi-AgE[\w-]{20,}|\bdckr_pat_[\w-]{20,}",
        never,
    ),
    ("a JSON Web Token", r"\beyJ[\w-]{10,}\.[\w-]{10,}\.", never),
    ("a key in PEM", r"-----BEGIN [A-Z0-9 ]+-----", never),
    ("an SSH key", r"\bAAAA[BCE][23]N[a-zA-Z0-9+/]{20,}", never),
    (
        "a hashed password",
        r"\$(?:[1256y]|2[aby]|argon2\w*)\$[^\s\x22']{8,}\$?",
        never,
    ),
    (
        "a password in a URL",
        r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@\x22'<>]*:[^\s/@\x22'<>]+@",
        is_secret_url,
    ),
    (
        "a key behind a prefix",
        r"\b[A-Za-z]\w*[_.-][0-9a-f]{32,}\b",
        is_hash,
    ),
    (
        "a key in groups",
        r"\b[A-Z0-9]{2,11}(?:-[A-Z0-9]{5,11}){4,}\b",
        |text| !text.bytes().any(|byte| byte.is_ascii_digit()),
    ),
    (
        "a password beside a login",
        r"\blogin\s+\S+\s+password\s+\S+",
        is_secret_last,
    ),
    (
        "a password behind a user and a slash",
        r"(?i)\b(?:login|pass|credentials?)\s?:\s*\S+ / \S{6,}\s*$",
        |text| text.trim_end().ends_with("SECRET"),
    ),
    (
        "a string that PowerShell hides",
        r"ConvertTo-SecureString\s+(?:-String\s+)?[\x22'][^\x22'$]+",
        |text| text.ends_with("SECRET"),
    ),
    (
        "a password in an address",
        r"\b[^\s:@/]+:[^\s:@/]+@(?:tcp|unix|udp)?\(",
        |text| text.contains(":SECRET@"),
    ),
    (
        "credentials of HTTP",
        r"(?i)\b(?:basic\s+|\x22auth\x22\s*:\s*\x22)[0-9a-z+/]{11,}={0,2}",
        |text| {
            !text
                .bytes()
                .any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        },
    ),
    (
        "a token of a cluster",
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        is_of_words,
    ),
    ("PEM in base64", r"\bLS0tLS1CRUdJTi", never),
    (
        "a mail address",
        r"\b[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b",
        is_no_mail,
    ),
    (
        "an IPv4 address",
        r"(?:^|[^0-9.])(?:\d{1,3}\.){3}\d{1,3}(?:$|[^0-9.])",
        is_placeholder_v4,
    ),
    (
        "an IPv6 address",
        r"(?i)\b(?:[0-9a-f]{1,4}:){1,7}(?::?[0-9a-f]{1,4}){1,7}\b",
        is_placeholder_v6,
    ),
    (
        "a MAC address",
        r"(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b",
        is_placeholder_mac,
    ),
    (
        "a UUID",
        r"(?i)\b[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}\b",
        is_placeholder_uuid,
    ),
    (
        "a home folder",
        r"/(?:home|Users)/[A-Za-z][\w.-]*",
        is_placeholder_path,
    ),
    (
        "a bucket",
        r"\b(?:gs|s3a?|oss|obs|cos)://[a-z0-9][\w.-]+",
        is_placeholder_path,
    ),
    (
        "a bucket",
        r"\bstorage\.(?:googleapis|cloud\.google)\.com/[a-z0-9][\w.-]+|\bgcsfuse(?:\s+-\S+)*\s+[a-z0-9][\w.-]+",
        is_placeholder_name,
    ),
    (
        "a bucket",
        r"\b[a-z0-9][\w-]*\.(?:storage\.googleapis\.com|s3[.-](?:[\w-]+\.)?amazonaws\.com|(?:blob|dfs)\.core\.windows\.net|oss-[\w-]+\.aliyuncs\.com)",
        |text| super::is_placeholder(text.split('.').next().unwrap_or_default()),
    ),
    (
        "the name of a project, a bucket or a namespace",
        r"(?:(?i:project[_-]?id|project[_-]?number|bucket|namespace)\b|_PROJECT\b|[\x22']project)[\x22'\\]*\s{0,2}[:=]\s{0,2}[\x22'\\]*[a-z][a-z0-9._-]{4,}",
        is_placeholder_name,
    ),
    (
        "the name of a project, a bucket or a namespace",
        r"--(?:project|namespace|bucket)[= ][a-z][a-z0-9-]{4,}",
        is_placeholder_name,
    ),
    (
        "a Kubernetes pod",
        r"\bpods?/[a-z][a-z0-9-]{4,}|(?:\bPOD_NAME|_POD)(?:[\x22']?[:=]\s?| set by environment to )[\x22']?[a-z][a-z0-9-]{4,}|\b[a-z][a-z0-9-]*-[b-df-hj-np-tv-xz24-9]{8,10}-[a-z0-9]{5}\b",
        is_placeholder_name,
    ),
    (
        "a user",
        r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER)=[a-z][\w.-]{2,}|\bsudo -i?u [a-z][\w.-]+|\bsu (?:-l?|-) [a-z][\w.-]+|\buid=\d+\([a-z][\w.-]+|\\Users\\+\w[\w.-]+|/(?:scratch|data/users)/[a-z][\w.-]+|(?:^|[\s='\x22])~[a-z][\w.-]*/|\bopened for user [a-z][\w.-]+",
        is_placeholder_name,
    ),
    (
        "a user",
        r"\b(?:ssh|scp|sftp|rsync)\s(?:\S+\s){0,6}[\w.-]+@[\w-]|\b[a-z][\w.-]*@[\w-]+:[~/]",
        |text| {
            let before = text.split('@').next().unwrap_or_default();
            is_placeholder_name(before)
        },
    ),
    (
        "an account",
        r"\barn:aws[\w-]*:[\w-]*:[\w-]*:\d{12}\b|\bprojects/\d{9,}",
        never,
    ),
    (
        "the id of a machine",
        r"(?i)\b(?:machine|boot)[ _-]?id[\x22']?(?:\s*[:=])?\s*[\x22']?[0-9a-f]{8,32}(?:-[0-9a-f]+)*\b",
        is_no_id_last,
    ),
    (
        "a Kubernetes pod",
        r"\b[Pp]ods? [\x22']?[0-9a-f]{8,32}(?:-[0-9a-f]+)*\b",
        is_no_id_last,
    ),
    (
        "a webhook",
        r"\bevents\.(?:eu\.)?pagerduty\.com/integration/\w{16,}",
        never,
    ),
    ("a Tailscale key", r"\btskey-[\w-]{12,}", never),
    ("a Weights & Biases key", r"\bwandb: [0-9a-f]{40}\b", never),
    (
        "a part of a key in PEM",
        r"^\s*[A-Za-z0-9+/]{64}\s*$|-----END [A-Z0-9 ]+-----",
        |text| text.trim().bytes().all(|byte| byte.is_ascii_hexdigit()),
    ),
    (
        "a project",
        r"\bprojects/[a-z0-9-]{6,30}/(?:zones|regions|locations|global|secrets)",
        |text| text.contains("/project"),
    ),
    (
        "an internal host name",
        r"\b[A-Za-z0-9][\w-]*\.(?:[\w-]+\.)*(?:internal|corp|intranet)\b",
        is_replaced_host,
    ),
    (
        "a Kubernetes pod",
        r"\bpod[0-9a-f]{8}[_-][0-9a-f]{4}",
        |text| text.starts_with("pod00000000"),
    ),
];

/// Most memory of the automaton of all formats. With the 2 MiB of the library, it is thrown away and made
/// again all the time: a log of 6 MB takes 10 s instead of 0.4 s.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;

static REGEXES: LazyLock<Option<(RegexSet, Vec<Regex>)>> = LazyLock::new(|| {
    let patterns = FORMATS.map(|(_, pattern, _)| pattern);
    let regexes = patterns.iter().map(|pattern| Regex::new(pattern));
    Some((set(patterns)?, regexes.collect::<Result<_, _>>().ok()?))
});
/// The formats that a long line with letters beyond ASCII may have, without boundaries of words: as in `pattern.rs`.
static LOOSE: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| set(FORMATS.map(|(_, pattern, _)| without_boundaries(pattern))));

fn set(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Option<RegexSet> {
    RegexSetBuilder::new(patterns)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build()
        .ok()
}

pub(super) fn find(line: &str) -> Vec<Found> {
    let Some((set, regexes)) = &*REGEXES else {
        // Without the formats, nothing is certain.
        return vec![Found {
            what: "a text that could not be checked",
            at: 0..line.len(),
        }];
    };
    let set = match is_slow(line) {
        true => LOOSE.as_ref().unwrap_or(set),
        false => set,
    };
    let mut found = Vec::new();
    for number in set.matches(line) {
        let (what, _, is_ordinary) = FORMATS[number];
        let places = regexes[number]
            .find_iter(line)
            .filter(|place| !is_ordinary(place.as_str()));
        found.extend(places.map(|place| Found {
            what,
            at: place.range(),
        }));
    }
    found
}

fn never(_: &str) -> bool {
    false
}

/// Whether the owner of a domain, and its host unless that is a letter or two, are placeholders.
fn is_replaced_host(text: &str) -> bool {
    let is_placeholder = |label: &str| {
        let kind = label.trim_end_matches(|letter: char| letter.is_ascii_digit());
        kind.len() < label.len() && ["word", "node", "project"].contains(&kind)
    };
    let mut labels = text.split('.');
    let host = labels.next().unwrap_or_default();
    let owner = labels.nth_back(1);
    (host.len() < 3 || is_placeholder(host))
        && owner.is_none_or(is_placeholder)
        && (owner.is_some() || is_placeholder(host))
}

/// Whether the last word is a number, a word, or a UUID, which is judged by its own shape.
fn is_no_id_last(text: &str) -> bool {
    let is_of_id = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    let id = &text[text.trim_end_matches(is_of_id).len()..];
    let is_uuid = id.len() == 36 && id.split('-').count() == 5;
    let has = |is: fn(&u8) -> bool| id.bytes().any(|byte| is(&byte));
    is_uuid || !has(u8::is_ascii_digit) || !has(u8::is_ascii_alphabetic)
}

/// Hashes and ids stand behind the name of their kind.
fn is_hash(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "sha",
        "md5",
        "blake",
        "hash",
        "digest",
        "commit",
        "git",
        "rev",
        "docker",
        "containerd",
        "crio",
        "libpod",
        "container",
        "sandbox",
        "layer",
    ]
    .iter()
    .any(|kind| text.contains(kind))
}

/// Whether a text has fewer than two digits or two letters behind its full stop.
fn is_of_words(text: &str) -> bool {
    let behind = text.rsplit('.').next().unwrap_or_default();
    let digits = behind.bytes().filter(u8::is_ascii_digit).count();
    digits < 2 || behind.len() - digits < 2
}

/// Whether the last word is the placeholder, with the end of a string or of a cell behind it.
fn is_secret_last(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_sign = |letter: char| !letter.is_alphanumeric();
    let behind = word.trim_start_matches(is_sign).strip_prefix("SECRET");
    behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(is_sign))
}

fn is_secret_url(text: &str) -> bool {
    text.ends_with(":SECRET@")
}

/// Units of systemd, and a password in a URL that was replaced.
fn is_no_mail(text: &str) -> bool {
    text.starts_with("SECRET@")
        || [
            ".service", ".socket", ".timer", ".target", ".mount", ".slice", ".scope", ".path",
            ".device",
        ]
        .iter()
        .any(|end| text.ends_with(end))
}

fn is_placeholder_v4(text: &str) -> bool {
    let text = text.trim_matches(|letter: char| !letter.is_ascii_digit());
    match text.parse::<Ipv4Addr>().map(|address| address.octets()) {
        Ok([198, 18 | 19, ..] | [127 | 255, ..] | [0, 0, 0, 0]) | Err(_) => true,
        Ok(_) => false,
    }
}

fn is_placeholder_v6(text: &str) -> bool {
    // Times and PCI addresses have the form, too.
    match text.parse::<Ipv6Addr>().map(|address| address.segments()) {
        Ok([0x2001, 0xdb8, ..] | [0, 0, 0, 0, 0, 0, 0, _]) | Err(_) => true,
        Ok(_) => false,
    }
}

fn is_placeholder_mac(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    digits.starts_with("02000000")
        || digits.bytes().all(|byte| byte == b'0')
        || digits.bytes().all(|byte| byte.eq_ignore_ascii_case(&b'f'))
}

fn is_placeholder_uuid(text: &str) -> bool {
    text.starts_with("00000000-0000-4000-8000-")
}

/// The name at the end of a text, which is a placeholder or no name of a person or a customer.
fn is_placeholder_name(text: &str) -> bool {
    const COMMON: [&str; 16] = [
        "root",
        "default",
        "tmp",
        "temp",
        "data",
        "models",
        "datasets",
        "logs",
        "checkpoints",
        "cache",
        "shared",
        "public",
        "kube-system",
        "ubuntu",
        "system",
        "monitoring",
    ];
    let is_end = |letter: char| !(letter.is_alphanumeric() || "_.-".contains(letter));
    let text = text.trim_end_matches('/');
    let name = text.rsplit(is_end).next().unwrap_or_default();
    super::is_placeholder(name) || COMMON.contains(&name) || name.len() < 3
}

fn is_placeholder_path(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    super::is_placeholder(name) || name == "root" || name.len() < 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_replaced_where_its_owner_is() {
        for text in [
            "x.us-central1-a.c.project20.internal",
            "word1.word2.internal",
            "node3.corp",
        ] {
            assert!(is_replaced_host(text), "{text}");
        }
        for text in [
            "maple-7.us-central1-a.c.project20.internal",
            "x.c.maple.internal",
            "word1.maple.corp",
            "db.corp",
        ] {
            assert!(!is_replaced_host(text), "{text}");
        }
    }
}
