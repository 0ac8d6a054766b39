//! Which names stand for secrets: `HF_TOKEN`, `--password`, `spring.datasource.password`,
//! `X-Api-Key`, `authToken`. Which values are none: `unset`, `$HF_TOKEN`, plain words.
#![forbid(unsafe_code)]

use std::iter::Peekable;

/// Longest name that is looked at.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// Parts that make a name that of a secret, wherever they stand in it.
const PARTS: [&str; 25] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "apikey",
    "authkey",
    "accesskey",
    "accountkey",
    "privatekey",
    "secretkey",
    "authtoken",
    "accesstoken",
    "credential",
    "credentials",
    "cookie",
    "authorization",
    "connectionstring",
    "webhook",
    "jwt",
    "otp",
    "kubeconfig",
];
/// Parts that do so before `key`.
const BEFORE_KEY: [&str; 14] = [
    "api",
    "access",
    "account",
    "auth",
    "private",
    "secret",
    "signing",
    "encryption",
    "license",
    "master",
    "shared",
    "subscription",
    "deploy",
    "session",
];
/// Parts that do so at the end of a variable or an option; elsewhere they are ordinary words.
const LAST: [&str; 7] = ["pass", "auth", "pat", "sig", "dsn", "pin", "signature"];
/// Last parts of names whose value describes a secret and is not secret itself.
const HARMLESS: [&str; 32] = [
    "file",
    "path",
    "dir",
    "name",
    "type",
    "ttl",
    "count",
    "limit",
    "max",
    "min",
    "length",
    "len",
    "size",
    "timeout",
    "expiry",
    "expires",
    "expiration",
    "enabled",
    "required",
    "url",
    "uri",
    "endpoint",
    "version",
    "algorithm",
    "policy",
    "provider",
    "scheme",
    "header",
    "prefix",
    "format",
    "bytes",
    "rate",
];

/// Words that stand for the absence of a value.
const ABSENT: [&str; 19] = [
    "",
    "-",
    "\u{2014}",
    "null",
    "none",
    "nil",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "unset",
    "empty",
    "not",
    "(unset)",
    "undefined",
    "SECRET",
    "REDACTED",
];

/// Whether the value of this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    // The shell's variables of the current folder.
    if name.len() > NAME_BYTES_MAX || matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let parts: Vec<String> = Parts {
        letters: name.chars().peekable(),
    }
    .collect();
    let Some(last) = parts.last() else {
        return false;
    };
    if HARMLESS.contains(&last.as_str()) && parts.len() > 1 {
        // A webhook's address is its secret.
        return parts.iter().any(|part| part == "webhook") && last == "url";
    }
    let is_part = |part: &String| PARTS.contains(&part.as_str());
    let is_key = |pair: &[String]| pair[1] == "key" && BEFORE_KEY.contains(&pair[0].as_str());
    let is_last = (is_variable(name) || name.starts_with('-')) && LAST.contains(&last.as_str());
    parts.iter().any(is_part) || parts.windows(2).any(is_key) || is_last
}

/// Whether the value of this name in a URL is a secret: `?sig=…`, `&key=…`.
pub(super) fn is_secret_in_url(name: &str) -> bool {
    is_secret(name)
        || LAST
            .iter()
            .chain(&["key"])
            .any(|last| name.eq_ignore_ascii_case(last))
}

/// Whether a name is written like an environment variable with more than one part.
pub(super) fn is_variable(name: &str) -> bool {
    let is_of_variable =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.contains('_') && name.bytes().all(is_of_variable)
}

/// Whether a value says that there is none, refers to a variable, or was replaced before.
pub(super) fn is_absent(value: &str) -> bool {
    let value = value.trim();
    let is_masked = value.bytes().all(|byte| b"*.".contains(&byte))
        || (value.len() > 2 && value.bytes().all(|byte| b"xX#".contains(&byte)));
    let is_variable = value.strip_prefix('$').is_some_and(|name| {
        let inner = name
            .trim_start_matches(['{', '('])
            .trim_end_matches(['}', ')']);
        !inner.is_empty()
            && inner
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    is_masked || is_variable || ABSENT.iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// Whether a value consists of plain words: `not found`, `NCCL_SOCKET_IFNAME`.
pub(super) fn is_words(value: &str) -> bool {
    let is_separator = |letter: char| letter.is_whitespace() || "_-./,:;'()".contains(letter);
    value.split(is_separator).all(|word| {
        let is_alphabetic = word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let tail = word.get(1..).unwrap_or_default();
        let is_one_case = !tail.bytes().any(|byte| byte.is_ascii_uppercase())
            || !word.bytes().any(|byte| byte.is_ascii_lowercase());
        is_alphabetic && is_one_case
    })
}

/// The parts of a name, in lower case and without numbers at their ends: `hf`, `token` of
/// `HF_TOKEN2` and `hfToken`.
struct Parts<I: Iterator<Item = char>> {
    letters: Peekable<I>,
}

impl<I: Iterator<Item = char>> Iterator for Parts<I> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while self
            .letters
            .next_if(|letter| !letter.is_alphanumeric())
            .is_some()
        {}
        let mut part = String::new();
        let mut was_lower = false;
        while let Some(letter) = self
            .letters
            .next_if(|letter| letter.is_alphanumeric() && !(was_lower && letter.is_uppercase()))
        {
            was_lower = letter.is_lowercase();
            part.extend(letter.to_lowercase());
        }
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            part.truncate(
                part.trim_end_matches(|letter: char| letter.is_ascii_digit())
                    .len(),
            );
        }
        (!part.is_empty()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_about_secrets() {
        let secrets = "HF_TOKEN password --password Password2 X-Api-Key authToken api_key \
            AWS_SECRET_ACCESS_KEY spring.datasource.password SECRET_KEY_BASE DB_PASS \
            NCCL_FAKE_PASSWORD client_secret SLACK_WEBHOOK_URL Set-Cookie apikey --auth";
        for name in secrets.split_whitespace() {
            assert!(is_secret(name), "{name}");
        }
        let others = "TOKEN_FILE token_count max_tokens key NCCL_SOCKET_IFNAME pass compass \
            posted bypass secretary PASSWORD_MIN author mhandle PUBLIC_KEY sha256 keyboard TOKENS";
        for name in others.split_whitespace() {
            assert!(!is_secret(name), "{name}");
        }
    }
}
