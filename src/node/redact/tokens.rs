//! Secrets that are recognised without a name: tokens by their prefix, PEM blocks, passwords in
//! URLs, webhooks. `random.rs` finds words that look random.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys::{is_absent, is_chosen, is_words};
use super::literals::Literals;
use super::{ordinary, random, spelling};
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Beginnings that only tokens and keys have: GitHub, GitLab, AWS, Google, Slack, npm, PyPI,
/// Docker, DigitalOcean, Databricks, NVIDIA, Stripe, Vault, Azure DevOps, JWT, SSH keys and
/// hashed passwords.
const PREFIXES: [&str; 63] = [
    "tskey-",
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
    // PEM in base64, as in a kubeconfig.
    "LS0tLS1CRUdJTi",
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNh",
    "AGE-SECRET-KEY-",
    "$1$",
    "$apr1$",
    "$2a$",
    "{SSHA",
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
/// Longest part of a token that is searched for words.
const WORDS_BYTES_MAX: usize = 256;
/// Longest PEM block.
const PEM_BYTES_MAX: usize = 64 << 10;
/// Addresses that are secrets themselves.
const WEBHOOKS: [&str; 13] = [
    "events.pagerduty.com/integration/",
    "events.eu.pagerduty.com/integration/",
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
    random::places(text, &mut places);
    logins(text, &mut places);
    pem(text, &mut places);
    pem_tail(text, &mut places);
    passwords(text, &mut places);
    webhooks(text, &mut places);
    cluster_secrets(text, &mut places);
    databases(text, &mut places);
    places
}

/// The places of secrets of files whose lines have a format.
pub(super) fn of_lines(text: &str, places: &mut Vec<Range<usize>>) {
    logins(text, places);
    cluster_secrets(text, places);
    databases(text, places);
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
    // Where the characters of the last token end, and where without full stops. It may contain many prefixes.
    let (mut token_end, mut end) = (0, 0);
    for found in finder.find_overlapping_iter(text) {
        let before = found.start().checked_sub(1).map(|at| bytes[at]);
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        if found.end() > token_end {
            token_end = found.end() + run(&bytes[found.end()..], is_of_token);
            let token = text[found.end()..token_end].trim_end_matches('.');
            end = found.end() + token.len();
        }
        let rest = text.get(found.end()..end).unwrap_or_default();
        let is_ambiguous = found.pattern().as_usize() >= PREFIXES.len();
        let most = &rest[..rest.floor_char_boundary(WORDS_BYTES_MAX)];
        if rest.len() > CHARS_MIN && !(is_ambiguous && is_words(most)) {
            places.push(found.start()..end);
        }
    }
}

/// Blocks of PEM, also with escaped line ends.
fn pem(text: &str, places: &mut Vec<Range<usize>>) {
    let mut from = 0;
    let ends = Ahead::default();
    while let Some(begin) = text[from..].find("-----BEGIN ").map(|at| from + at) {
        let most = text.floor_char_boundary(begin + PEM_BYTES_MAX);
        let block = &text[begin..most];
        let end = ends.find(text, begin, |rest| rest.find("-----END ")) + "-----END ".len();
        let length = match (end <= most).then_some(end - begin) {
            Some(label) => block[label..]
                .find("-----")
                .map_or(block.len(), |close| label + close + "-----".len()),
            // The block is cut: what can be part of it.
            None => run(block.as_bytes(), |byte| {
                byte.is_ascii_alphanumeric() || b"+/=-\\ \r\n,:".contains(&byte)
            }),
        };
        places.push(begin..begin + length);
        from = begin + length.max(1);
    }
}

/// The rest of a block whose beginning is not in the text: lines of base64 before `-----END`, or
/// beside a line of 64 random digits.
fn pem_tail(text: &str, places: &mut Vec<Range<usize>>) {
    let is_line = |line: &str| {
        (4..=PEM_LINE_BYTES_MAX).contains(&line.len())
            && line
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let mut block: Option<Range<usize>> = None;
    let (mut from, mut is_key) = (0, false);
    for line in text.split_inclusive('\n') {
        let written = line.trim();
        let begin = from + (line.len() - line.trim_start().len());
        from += line.len();
        if is_line(written) {
            is_key |= written.len() >= PEM_LINE_BYTES && random::is_random(written);
            let end = begin + written.len();
            let whole = block.take().map_or(begin..end, |block| block.start..end);
            block = Some(whole);
            continue;
        }
        is_key |= block.is_some() && written.starts_with("-----END ");
        places.extend(block.take().filter(|_| is_key));
        is_key = false;
    }
    places.extend(block.filter(|_| is_key));
}

/// Length of the lines of a block, and of the longest ones.
const PEM_LINE_BYTES: usize = 64;
const PEM_LINE_BYTES_MAX: usize = 80;

/// The values of a secret of Kubernetes: the lines below `data:`, which are in base64, and below
/// `stringData:`, which are not.
fn cluster_secrets(text: &str, places: &mut Vec<Range<usize>>) {
    static DATA: LazyLock<Literals> = LazyLock::new(|| Literals::new(["ata:\n", "ata:\r\n"]));
    for (which, at) in DATA.find(text) {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let key = text[line..at].trim_start_matches(' ');
        let own = at - line - key.len();
        let is_plain = key == "stringD";
        let is_key = is_plain || key == "d";
        let mut from = at + if which == 0 { 5 } else { 6 };
        for next in text[from..].split_inclusive('\n').take_while(|_| is_key) {
            let indent = next.len() - next.trim_start_matches(' ').len();
            let Some((_, value)) = next.trim_end().split_once(": ").filter(|_| indent > own) else {
                break;
            };
            let value = value.trim().trim_matches(['"', '\'']);
            if is_base64(value) || (is_plain && value.len() >= PLAIN_BYTES_MIN) {
                let begin = from + next.rfind(value).unwrap_or(0);
                places.push(begin..begin + value.len());
            }
            from += next.len();
        }
    }
}

/// Shortest value below `stringData:` that is taken.
const PLAIN_BYTES_MIN: usize = 4;

/// Whether a value is in base64, and no word or number.
fn is_base64(value: &str) -> bool {
    let digits = value.trim_end_matches('=');
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_word =
        digits.len() == value.len() && is_words(value) && !spelling::is_likely_random(value);
    value.len() >= 4
        && value.len().is_multiple_of(4)
        && value.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
        && !is_number
        && !is_word
}

/// Passwords in URLs: `https://user:PASSWORD@host`, and tokens in place of a user.
fn passwords(text: &str, places: &mut Vec<Range<usize>>) {
    each_login(text, |login| match login.password {
        Some(password) if !is_absent(&text[password.clone()]) => places.push(password),
        Some(_) => {}
        None => {
            let name = &text[login.user.clone()];
            let is_token = (name.len() > CHARS_MIN && !is_words(name))
                || is_chosen(name)
                || ordinary::is_unknown(name);
            if is_token {
                places.push(login.user);
            }
        }
    });
}

/// Users in URLs with their passwords, which may be absent. They are no secrets elsewhere.
pub(super) fn users(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    each_login(text, |login| {
        if let Some(password) = login.password {
            places.push(login.user.start..password.end);
        }
    });
    places
}

/// Hosts of URLs with a user.
pub(super) fn hosts(text: &str) -> Vec<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let mut hosts = Vec::new();
    each_login(text, |login| {
        let end = login.password.unwrap_or(login.user).end;
        let host = text[end..].strip_prefix('@').unwrap_or_default();
        hosts.extend(host.split(|letter| !is_of_name(letter)).next());
    });
    hosts
}

/// What stands before the host of a URL.
struct Login {
    user: Range<usize>,
    /// Not empty.
    password: Option<Range<usize>>,
}

fn each_login(text: &str, mut found: impl FnMut(Login)) {
    let (ends, signs) = (Ahead::default(), Ahead::default());
    let is_part = |byte: u8| !byte.is_ascii_whitespace() && !b"\"'`<>\0\\".contains(&byte);
    for at in memchr::memmem::find_iter(text.as_bytes(), "://") {
        let from = at + "://".len();
        let end = ends.find(text, from, |rest| Some(run(rest.as_bytes(), is_part)));
        let word = &text[from..end];
        let authority = word.find(['/', '?', '#']).unwrap_or(word.len());
        let sign = signs.find(text, from, |rest| rest.find('@'));
        let sign = (sign < end).then(|| sign - from);
        let (name, is_odd) = match (word[..authority].rfind('@'), sign) {
            (Some(end), _) => (&word[..end], false),
            // A password may have a slash that was not escaped.
            (None, Some(end)) => (&word[..end], true),
            (None, None) => continue,
        };
        let Some((user, password)) = name.split_once(':') else {
            if !is_odd {
                let user = from..from + name.len();
                found(Login {
                    user,
                    password: None,
                });
            }
            continue;
        };
        let port = run(password.as_bytes(), |byte| byte.is_ascii_digit());
        let is_port = is_odd && password[port..].starts_with(['/', '?', '#']);
        if !password.is_empty() && !is_port {
            let begin = from + user.len() + 1;
            found(Login {
                user: from..from + user.len(),
                password: Some(begin..begin + password.len()),
            });
        }
    }
}

/// Passwords of databases: `jdbc:oracle:thin:user/PASSWORD@host`, and `host:5432:db:user:PASSWORD`.
fn databases(text: &str, places: &mut Vec<Range<usize>>) {
    let ends = Ahead::default();
    for at in memchr::memmem::find_iter(text.as_bytes(), "jdbc:oracle:") {
        let is_part = |byte: u8| byte.is_ascii_graphic();
        let end = ends.find(text, at, |rest| Some(run(rest.as_bytes(), is_part)));
        let word = &text[at..end];
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
            && (is_chosen(password) || port.len() == 4 && password.matches('-').count() > 1)
            && !password.contains(char::is_whitespace)
        {
            let end = from + line.trim_end().len();
            places.push(end - password.len()..end);
        }
        from += line.len();
    }
}

/// Passwords behind `user:` before `@tcp(host)`, and of files with `machine host login user
/// password PASSWORD`, whose words may stand on lines of their own.
fn logins(text: &str, places: &mut Vec<Range<usize>>) {
    static SIGNS: LazyLock<Literals> =
        LazyLock::new(|| Literals::new(["@tcp(", "@unix(", "@udp(", "@("]));
    static LOGIN: LazyLock<Literals> = LazyLock::new(|| Literals::new(["login"]));
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_graphic() && !b"\"'`".contains(byte);
    // The word of the last sign, up to its first colon.
    let (mut begin, mut colon, mut seen) = (0, None, 0);
    for (_, at) in SIGNS.find(text) {
        if at < seen {
            (begin, colon, seen) = (0, None, 0);
        }
        if let Some(end) = bytes[seen..at].iter().rposition(|byte| !is_part(byte)) {
            (begin, colon) = (seen + end + 1, None);
        }
        let from = begin.max(seen);
        colon = colon.or_else(|| memchr::memchr(b':', &bytes[from..at]).map(|colon| from + colon));
        seen = at;
        if let Some(password) = colon.map(|colon| colon + 1..at)
            && !password.is_empty()
            && !is_absent(&text[password.clone()])
        {
            places.push(password);
        }
    }
    let ends_word = |at: &usize| bytes.get(*at).is_some_and(u8::is_ascii_whitespace);
    let found = LOGIN.find(text).map(|(_, at)| at);
    for at in found.filter(|at| ends_word(&(at + "login".len()))) {
        let mut words = text[at..].split_ascii_whitespace();
        if (words.next(), words.nth(1)) == (Some("login"), Some("password"))
            && let Some(password) = words.next()
        {
            let begin = password.as_ptr() as usize - text.as_ptr() as usize;
            places.push(begin..begin + password.len());
        }
    }
}

fn webhooks(text: &str, places: &mut Vec<Range<usize>>) {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(WEBHOOKS));
    let ends = Ahead::default();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./+=~%?&;:@#".contains(&byte);
    for (which, at) in FINDER.find(text) {
        let from = at + WEBHOOKS[which].len();
        let end = ends.find(text, from, |rest| Some(run(rest.as_bytes(), is_part)));
        if from < end {
            places.push(from..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_full_of_signs_is_passed_over_once() {
        for piece in [
            "a@(",
            "b:@(",
            "://",
            "a://b:c@",
            "jdbc:oracle:",
            "hooks.slack.com/",
            "login",
            "-----BEGIN _",
            "sk-.",
        ] {
            // A search to the end of the word from each sign takes minutes.
            let text = piece.repeat(1 << 15);
            assert!(places(&text).len() <= 1 << 15, "{piece}");
        }
    }

    #[test]
    fn values_of_a_secret_of_kubernetes_are_found_plain_and_in_base64() {
        let text = "kind: Secret\nstringData:\n  user: wren\n  pin: 'abc'\ndata:\n  key: b2N0b3B1cw==\nspec:\n  a: wren\n";
        let mut found = Vec::new();
        cluster_secrets(text, &mut found);
        let found: Vec<&str> = found.into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, ["wren", "b2N0b3B1cw=="]);
    }
}
