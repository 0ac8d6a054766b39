//! Secrets that are recognised without a name: tokens by their prefix or because they look
//! random, PEM blocks, passwords in URLs, webhooks.
#![forbid(unsafe_code)]

use super::keys::{is_absent, is_chosen, is_words};
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Beginnings that only tokens and keys have: GitHub, GitLab, AWS, Google, Slack, npm, PyPI,
/// Docker, DigitalOcean, Databricks, NVIDIA, Stripe, Vault, Azure DevOps, JWT, SSH keys and
/// hashed passwords.
const PREFIXES: [&str; 58] = [
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glptt-",
    "glcbt-",
    "glft-",
    "glsoat-",
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "AIza",
    "ya29.",
    "GOCSPX-",
    "GOOG1E",
    "1//0",
    "xoxa-",
    "xoxb-",
    "xoxc-",
    "xoxd-",
    "xoxe-",
    "xoxe.",
    "xoxo-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "dop_v1_",
    "doo_v1_",
    "dapi",
    "nvapi-",
    "sk_live_",
    "rk_live_",
    "sk_test_",
    "whsec_",
    "hvs.",
    "hvb.",
    "eyJ",
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNh",
    "AGE-SECRET-KEY-",
    "$1$",
    "$5$",
    "$6$",
    "$y$",
    "$2b$",
    "$2y$",
    "$argon2",
];
/// Beginnings that ordinary names have, too: Hugging Face, OpenAI, SendGrid, Mailgun, Twilio.
const AMBIGUOUS: [&str; 7] = ["hf_", "sk-", "SG.", "key-", "api_org_", "SK", "lin_api_"];
/// A token has more characters than this after its prefix.
const CHARS_MIN: usize = 12;
/// Shortest word that is a secret because it looks random.
const RANDOM_CHARS_MIN: usize = 32;
/// Longest PEM block.
const PEM_BYTES_MAX: usize = 64 << 10;
/// Addresses that are secrets themselves.
const WEBHOOKS: [&str; 11] = [
    "hooks.slack.com/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    ".webhook.office.com/",
    ".logic.azure.com",
    "chat.googleapis.com/v1/",
    "open.feishu.cn/open-apis/bot/",
    "open.larksuite.com/open-apis/bot/",
    "qyapi.weixin.qq.com/cgi-bin/webhook/",
    "hooks.zapier.com/hooks/",
    "api.telegram.org/bot",
];

static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(PREFIXES.iter().chain(&AMBIGUOUS)).ok());

/// The places of secrets in a text, in no order. They may overlap.
pub(super) fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    prefixed(text, &mut places);
    random(text, &mut places);
    pem(text, &mut places);
    passwords(text, &mut places);
    webhooks(text, &mut places);
    databases(text, &mut places);
    places
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=~$".contains(&byte)
}

fn run(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

fn prefixed(text: &str, places: &mut Vec<Range<usize>>) {
    let Some(finder) = &*FINDER else { return };
    let bytes = text.as_bytes();
    for found in finder.find_overlapping_iter(text) {
        let before = found.start().checked_sub(1).map(|at| bytes[at]);
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let end = found.end() + run(&bytes[found.end()..], is_of_token);
        let end = found.start() + text[found.start()..end].trim_end_matches('.').len();
        let rest = text.get(found.end()..end).unwrap_or_default();
        let is_ambiguous = found.pattern().as_usize() >= PREFIXES.len();
        if rest.len() > CHARS_MIN && !(is_ambiguous && is_words(rest)) {
            places.push(found.start()..end);
        }
    }
}

/// Long words whose letters and digits are mixed as in base64.
fn random(text: &str, places: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+/".contains(&byte);
    let mut at = 0;
    while at < bytes.len() {
        let digits = run(&bytes[at..], is_digit);
        // Padding ends a word; `=` between two words is a sign.
        let length = digits + run(&bytes[at + digits..], |byte| byte == b'=');
        if length >= RANDOM_CHARS_MIN {
            let word = &text[at..at + length];
            // The folders of a path are no digits of base64.
            let mut from = at;
            let parts = word.split('/');
            if is_random(word) {
                places.push(at..at + length);
            } else {
                for part in parts {
                    if is_random(part) {
                        places.push(from..from + part.len());
                    }
                    from += part.len() + 1;
                }
            }
        }
        at += length + 1;
    }
}

/// Whether a word looks random: digits and letters of both cases, which alternate. Hexadecimal
/// hashes do not match, nor do names of C++.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let class = |byte: u8| {
        (
            byte.is_ascii_digit(),
            byte.is_ascii_uppercase(),
            byte.is_ascii_lowercase(),
        )
    };
    let changes = word
        .bytes()
        .zip(word.bytes().skip(1))
        .filter(|(one, next)| one.is_ascii_alphanumeric() && next.is_ascii_alphanumeric())
        .filter(|(one, next)| class(*one) != class(*next))
        .count();
    word.len() >= RANDOM_CHARS_MIN
        && count(u8::is_ascii_digit) >= 4
        && count(u8::is_ascii_uppercase) >= 6
        && count(u8::is_ascii_lowercase) >= 6
        && changes * 3 >= word.len()
}

/// Blocks of PEM, also with escaped line ends.
fn pem(text: &str, places: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(begin) = text[from..].find("-----BEGIN ").map(|at| from + at) {
        let most = text.floor_char_boundary(begin + PEM_BYTES_MAX);
        let block = &text[begin..most];
        let length = match block.find("-----END ") {
            Some(end) => {
                let label = end + "-----END ".len();
                block[label..]
                    .find("-----")
                    .map_or(block.len(), |close| label + close + "-----".len())
            }
            // The block is cut: what can be part of it.
            None => run(block.as_bytes(), |byte| {
                byte.is_ascii_alphanumeric() || b"+/=-\\ \r\n,:".contains(&byte)
            }),
        };
        places.push(begin..begin + length);
        from = begin + length.max(1);
    }
}

/// Passwords in URLs: `https://user:PASSWORD@host`.
fn passwords(text: &str, places: &mut Vec<Range<usize>>) {
    for at in memchr::memmem::find_iter(text.as_bytes(), "://") {
        let from = at + "://".len();
        let rest = &text.as_bytes()[from..];
        let word = run(rest, |byte| {
            !byte.is_ascii_whitespace() && !b"\"'`<>\0\\".contains(&byte)
        });
        let word = &text[from..from + word];
        let authority = word.find(['/', '?', '#']).unwrap_or(word.len());
        let (name, is_odd) = match (word[..authority].rfind('@'), word.find('@')) {
            (Some(end), _) => (&word[..end], false),
            // A password may have a slash that was not escaped.
            (None, Some(end)) => (&word[..end], true),
            (None, None) => continue,
        };
        let Some((user, password)) = name.split_once(':') else {
            // A token in place of a name.
            if name.len() > CHARS_MIN && !is_words(name) && !is_odd {
                places.push(from..from + name.len());
            }
            continue;
        };
        let port = run(password.as_bytes(), |byte| byte.is_ascii_digit());
        let is_port = is_odd && password[port..].starts_with(['/', '?', '#']);
        if !password.is_empty() && !is_port && !is_absent(password) {
            let begin = from + user.len() + 1;
            places.push(begin..begin + password.len());
        }
    }
}

/// Passwords of databases: `jdbc:oracle:thin:user/PASSWORD@host`, and `host:5432:db:user:PASSWORD`.
fn databases(text: &str, places: &mut Vec<Range<usize>>) {
    for at in memchr::memmem::find_iter(text.as_bytes(), "jdbc:oracle:") {
        let word = &text[at..at + run(&text.as_bytes()[at..], |byte| byte.is_ascii_graphic())];
        if let Some((before, _)) = word.split_once('@')
            && let Some(slash) = before.rfind('/')
        {
            places.push(at + slash + 1..at + before.len());
        }
    }
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        let fields: Vec<&str> = line.trim_end().splitn(6, ':').collect();
        if let [_, port, _, user, password] = fields.as_slice()
            && !port.is_empty()
            && port
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'*')
            && !user.contains(char::is_whitespace)
            && is_chosen(password)
            && !password.contains(char::is_whitespace)
        {
            let end = from + line.trim_end().len();
            places.push(end - password.len()..end);
        }
        from += line.len();
    }
}

fn webhooks(text: &str, places: &mut Vec<Range<usize>>) {
    for webhook in WEBHOOKS {
        for at in memchr::memmem::find_iter(text.as_bytes(), webhook) {
            let from = at + webhook.len();
            let length = run(&text.as_bytes()[from..], |byte| {
                byte.is_ascii_alphanumeric() || b"_-./+=~%?&;:@#".contains(&byte)
            });
            if length > 0 {
                places.push(from..from + length);
            }
        }
    }
}
