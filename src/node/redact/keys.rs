//! Which names stand for secrets: `HF_TOKEN`, `--password`, `spring.datasource.password`,
//! `X-Api-Key`, `authToken`, `PGPASSWORD`. Which values are none: `unset`, `$HF_TOKEN`, plain words.
//!
//! A name such as `APP_KEY`, `PASS` or `auth` may stand for anything, so what its value looks like
//! decides ([`Weak`]).
#![forbid(unsafe_code)]

use super::{ordinary, sentences, spelling};
use std::iter::Peekable;

/// Longest name that is looked at.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// Parts that make a name that of a secret, wherever they stand in it.
const PARTS: [&str; 29] = [
    "mnemonic",
    // A pattern for a prompt.
    "assword",
    "token",
    "psw",
    "password",
    "passwords",
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
/// Words for a password and a key in languages with mostly ASCII letters, in lower case. Others are in
/// `foreign.rs`.
pub(super) const FOREIGN: [&str; 36] = [
    "zugangsdaten",
    "segredo",
    "geheim",
    "kodas",
    "passwort",
    "kennwort",
    "contrasena",
    "contrasenya",
    "senha",
    "wachtwoord",
    "haslo",
    "sifre",
    "parola",
    "losenord",
    "salasana",
    "heslo",
    "geslo",
    "lozinka",
    "adgangskode",
    "kodeord",
    "jelszo",
    "katasandi",
    "sandi",
    "matkhau",
    "passord",
    "motdepasse",
    "clave",
    "chave",
    "chiave",
    "parool",
    "slaptazodis",
    "pasahitza",
    "palavrapasse",
    "sleutel",
    "schluessel",
    "codigo_secreto",
];
/// Ends of a part that is written as one word: `PGPASSWORD`, `hubtoken`.
const ENDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "apikey",
    "token",
    "secret",
    "psk",
    "pwd",
];
/// Owners of a `pass` or `pw`, in one word or two: `SSHPASS`, `become_pass`, `bindpw`.
const OWNERS: [&str; 31] = [
    "keystore",
    "truststore",
    "srcstore",
    "deststore",
    "admin",
    "ansible",
    "become",
    "bind",
    "bmc",
    "db",
    "ftp",
    "http",
    "imap",
    "ipmi",
    "ldap",
    "login",
    "mail",
    "my",
    "mysql",
    "pg",
    "proxy",
    "redis",
    "require",
    "root",
    "smtp",
    "ssh",
    "sudo",
    "user",
    "vault",
    "vnc",
    "wifi",
];
/// Parts that do so before `key`.
const BEFORE_KEY: [&str; 24] = [
    "anthropic",
    "comet",
    "datadog",
    "neptune",
    "ngc",
    "openai",
    "preshared",
    "wandb",
    "unseal",
    "munge",
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
/// Words before `code`.
const BEFORE_CODE: [&str; 24] = [
    "pin",
    "access",
    "activation",
    "auth",
    "authorization",
    "door",
    "entry",
    "invitation",
    "invite",
    "secret",
    "security",
    "unlock",
    "verify",
    "verification",
    "recovery",
    "time",
    "backup",
    "otp",
    "confirmation",
    "2fa",
    "mfa",
    "pairing",
    "login",
    "device",
];
/// Parts that do so at the end of a variable or an option; elsewhere they are ordinary words.
const LAST: [&str; 12] = [
    "salt",
    "pass",
    "pw",
    "auth",
    "pat",
    "sig",
    "dsn",
    "pin",
    "signature",
    "community",
    "mnemonic",
    "seed",
];
/// Parts before `key` of names whose value is no secret.
const OPEN_KEYS: [&str; 12] = [
    "cache",
    "foreign",
    "group",
    "host",
    "index",
    "partition",
    "primary",
    "public",
    "remote",
    "routing",
    "sort",
    "store",
];
/// Parts before `token` in the names of tokens of a language.
const OPEN_TOKENS: [&str; 17] = [
    "bos", "class", "cls", "eos", "image", "input", "mask", "next", "output", "pad", "per",
    "prompt", "sep", "special", "stop", "text", "unk",
];
/// Names of one part whose value is a secret unless it is a plain word or a number.
const ALONE: [&str; 4] = ["auth", "bearer", "mnemonic", "salt"];
/// What is pinned, and to what.
const PINNED: [&str; 12] = [
    "auto", "core", "cores", "cpus", "device", "gpus", "host", "memory", "numa", "socket",
    "thread", "threads",
];
/// Parts of names of a number of tokens.
const COUNTING: [&str; 13] = [
    "avg", "batch", "budget", "consumed", "count", "first", "last", "max", "min", "n", "num",
    "start", "total",
];
/// Ends of names whose value is a secret unless a word of `OF_TESTS` or a small number.
const PASSES: [&str; 3] = ["pass", "pw", "pwd"];
/// What follows `pass:` where tests, compilers and training steps are told.
const OF_TESTS: [&str; 16] = [
    "all", "backward", "error", "fail", "failed", "first", "forward", "ok", "pass", "passed",
    "prefill", "decode", "second", "skip", "skipped", "through",
];
/// Names before the colon of `user:VALUE`.
const LOGINS: [&str; 6] = [
    "login",
    "auth",
    "basicauth",
    "basic",
    "credentials",
    "userpass",
];
/// Last parts of names whose value describes a secret and is not secret itself.
const HARMLESS: [&str; 36] = [
    "error",
    "errors",
    "exception",
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
    "budget",
];

/// Shortest value that looks chosen.
const CHOSEN_BYTES_MIN: usize = 8;
/// Longest value that is looked at.
const VALUE_BYTES_MAX: usize = 4096;

/// Words that stand for the absence of a value.
const ABSENT: [&str; 20] = [
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
    "auto",
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
    // `eos_token`, `pad_token_id`.
    let token = match parts.as_slice() {
        [before @ .., last] if last == "id" || last == "ids" => before,
        all => all,
    };
    // The numbers of the tokens of a text.
    if let [only, ids] = parts.as_slice()
        && only == "token"
        && ids == "ids"
    {
        return false;
    }
    if let [.., before, last] = token
        && last == "token"
        && OPEN_TOKENS.contains(&before.as_str())
    {
        return false;
    }
    let is_part = |part: &String| {
        let ends = |end: &&str| part.ends_with(*end);
        PARTS.contains(&part.as_str())
            || FOREIGN.contains(&part.as_str())
            || ENDS.iter().any(ends)
            || is_owned(part)
    };
    let is_pair = |pair: &[String]| match pair[1].as_str() {
        "code" => BEFORE_CODE.contains(&pair[0].as_str()),
        "phrase" => pair[0] == "pass",
        "assertion" => pair[0] == "client",
        "key" | "keys" => BEFORE_KEY.contains(&pair[0].as_str()),
        "pass" | "pw" => OWNERS.contains(&pair[0].as_str()),
        _ => false,
    };
    // `cred_p_unpack` is a function.
    let is_credential = matches!(last.as_str(), "cred" | "creds");
    let is_last = (is_variable(name) || name.starts_with('-')) && LAST.contains(&last.as_str());
    parts.iter().any(is_part) || parts.windows(2).any(is_pair) || is_last || is_credential
}

/// Whether this value of this name is a secret.
pub(super) fn is_secret_pair(name: &str, value: &str) -> bool {
    match is_secret(name) {
        true => !is_other(name, value),
        false => weak(name).is_some_and(|weak| weak.is_secret(value)),
    }
}

/// Whether a number in a document is a secret.
pub(super) fn is_secret_number(name: &str, number: &str) -> bool {
    let is_of_number = |weak: &Weak| matches!(weak, Weak::Pin | Weak::Alone);
    match is_secret(name) {
        true => !is_other(name, number),
        false => weak(name)
            .filter(is_of_number)
            .is_some_and(|weak| weak.is_secret(number)),
    }
}

/// Whether a string in the list of this name is a secret. `tokens` are numbers or words of a text, too.
pub(super) fn is_secret_in_list(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("tokens") && looks_secret(value)
}

/// Whether a value is chosen, or letters that are no word.
pub(super) fn looks_secret(value: &str) -> bool {
    is_chosen(value) || spelling::is_likely_random(value) || ordinary::is_unknown(value)
}

/// Whether this value says that the name stands for something else: a number of tokens, a flag, or
/// the current folder.
pub(super) fn is_other(name: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_long = value.len() >= PIN_DIGITS_MIN;
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let is_counting = || {
        name.split(['_', '-', '.'])
            .any(|part| COUNTING.contains(&part))
    };
    let is_count = name.ends_with("token") && (!is_long || is_counting());
    (is_number && (is_count || value.len() == 1)) || (name == "pwd" && value.starts_with('/'))
}

/// `sshpass`, `rootpw`.
fn is_owned(part: &str) -> bool {
    let owner = ["pass", "pw"].iter().find_map(|end| part.strip_suffix(end));
    owner.is_some_and(|owner| OWNERS.contains(&owner))
}

/// A name that may stand for a secret or for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weak {
    /// `pass`: anything but a word that tests and compilers write.
    Pass,
    /// `auth`, `bearer`: what no person would write as a name, and a number.
    Alone,
    /// `key`: as above, and only a longer number.
    Key,
    /// `pin`: anything but a remark on one or a word of memory and threads, and a shorter number.
    Pin,
    /// `APP_KEY`, `wandb_key`: as above, and no number.
    Part,
    /// `login`: what follows the colon of `user:VALUE`.
    Login,
}

impl Weak {
    /// Whether this value is a secret.
    pub(super) fn is_secret(self, value: &str) -> bool {
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let begins = ["/", ".", "$", "<", "{", "[", "(", "0x", "~", "%"];
        if is_number || begins.iter().any(|begin| value.starts_with(begin)) {
            let digits_min = match self {
                Self::Pin | Self::Pass => PIN_DIGITS_MIN,
                Self::Key => COUNT_DIGITS_MIN,
                _ => DIGITS_MIN,
            };
            return is_number && value.len() >= digits_min && self != Self::Part;
        }
        if value.len() > VALUE_BYTES_MAX || value.contains(char::is_whitespace) {
            return false;
        }
        match self {
            Self::Pass => {
                let is_of_test = OF_TESTS.iter().any(|word| value.eq_ignore_ascii_case(word))
                    || value.starts_with("test")
                    || value.contains("::");
                value.len() >= PASS_BYTES_MIN
                    && !is_of_test
                    && !value.contains("://")
                    && !value.ends_with(':')
            }
            // The name of a variable is the value of `key` in many a document.
            _ if self != Self::Login && (is_variable(value) || is_dotted(value)) => false,
            Self::Pin => {
                value.len() >= PIN_DIGITS_MIN
                    && !sentences::is_remark(value)
                    && !PINNED.contains(&value)
            }
            Self::Alone | Self::Key | Self::Part => {
                let mut parts = value.split([':', '-', '_', '.', '/']);
                // Words that are listed may be spelled like no others: `neighbour`.
                let is_random = |part: &str| {
                    ordinary::is_unknown(part)
                        || spelling::is_likely_random(part) && !ordinary::is_ordinary(part)
                };
                parts.any(is_random) || (is_chosen(value) && !ordinary::is_ordinary(value))
            }
            Self::Login => login(value).is_some(),
        }
    }
}

/// What follows the colon of `user:VALUE`, unless it is a port, a folder or the time.
pub(super) fn login(value: &str) -> Option<&str> {
    let (user, password) = value.split_once(':')?;
    let is_of_user = |letter: char| letter.is_alphanumeric() || "._-@".contains(letter);
    let is_user = !user.is_empty() && user.chars().all(is_of_user);
    let is_number = password
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b':');
    let begins = ['/', '\\', '$', ':'];
    (is_user && password.len() >= PASS_BYTES_MIN && !is_number && !password.starts_with(begins))
        .then_some(password)
}

/// Whether a value is a path to a parameter: `layers.0.attn.k_proj.weight`.
pub(super) fn is_dotted(value: &str) -> bool {
    value.matches('.').count() >= 3
}

/// Fewest digits of a number that may be a secret, and of one behind `key`, which numbers many things.
pub(super) const DIGITS_MIN: usize = 5;
const COUNT_DIGITS_MIN: usize = 6;
/// Fewest digits of a PIN.
pub(super) const PIN_DIGITS_MIN: usize = 4;
/// Shortest value of a name such as `pass`.
const PASS_BYTES_MIN: usize = 5;

/// Whether a name is that of a password or a phrase, whose value may have spaces.
pub(super) fn is_phrase(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ends = ["password", "passwd", "passphrase", "passcode"];
    name == "otp" || ends.iter().any(|end| name.ends_with(end))
}

/// How a name may stand for a secret: `APP_KEY`, `PASS`, `"auth"`, `wandb_key`.
pub(super) fn weak(name: &str) -> Option<Weak> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let parts: Vec<String> = Parts {
        letters: name.chars().peekable(),
    }
    .collect();
    let is_login = LOGINS.contains(&parts.concat().as_str());
    match parts.as_slice() {
        [only] if PASSES.contains(&only.as_str()) => Some(Weak::Pass),
        [only] if only == "pin" => Some(Weak::Pin),
        [only] if only == "key" => Some(Weak::Key),
        [only] if ALONE.contains(&only.as_str()) => Some(Weak::Alone),
        _ if is_login => Some(Weak::Login),
        [.., before, last] if last == "key" => {
            (!OPEN_KEYS.contains(&before.as_str())).then_some(Weak::Part)
        }
        [.., last] => (PASSES.contains(&last.as_str()) || last == "auth").then_some(Weak::Part),
        [] => None,
    }
}

/// Whether a word before `key` makes a name of two words of it: `API key`.
pub(super) fn is_before_key(word: &str) -> bool {
    BEFORE_KEY
        .iter()
        .any(|before| word.eq_ignore_ascii_case(before))
}

/// Whether a word before `code` makes a name of two words of it: `recovery code`.
pub(super) fn is_before_code(word: &str) -> bool {
    BEFORE_CODE
        .iter()
        .any(|before| word.eq_ignore_ascii_case(before))
}

/// Whether a word before `token` makes a part of a language of it: `pad token`.
pub(super) fn is_before_token(word: &str) -> bool {
    OPEN_TOKENS
        .iter()
        .any(|before| word.eq_ignore_ascii_case(before))
}

/// Whether a value looks like a password or a token: letters mixed with digits, and neither words,
/// a path, an address, a time nor a measured value.
pub(super) fn is_chosen(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let begins = ["/", ".", "$", "<", "{", "0x", "@", "~", "-", "\\", "%"];
    if value.len() < CHOSEN_BYTES_MIN
        || value.len() > VALUE_BYTES_MAX
        || begins.iter().any(|begin| value.starts_with(begin))
        || value.contains("://")
        || !(has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
        || is_words(value)
    {
        return false;
    }
    let is_of_number = |byte: u8| byte.is_ascii_digit() || b".,:-+T".contains(&byte);
    let rest =
        value.trim_start_matches(|letter: char| letter.is_ascii() && is_of_number(letter as u8));
    // `512KiB`, `12.5ms`, `2026-11-20T10:15:00Z`.
    let is_measure = rest.len() < value.len()
        && rest.len() <= 7
        && !rest.bytes().any(|byte| byte.is_ascii_digit());
    // A comm, a hash of 64 bits, a MAC or IPv6 address.
    let is_hex = value
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        && value.len() < 20;
    // `eth1`, `node-0`, `slot12`, `tcp.rs:71`: a word and a number.
    let stem = value.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered =
        is_words(stem) && value.len() - stem.len() < 3 && !has(u8::is_ascii_uppercase);
    !(is_measure || is_hex || is_numbered)
}

/// Whether the value of this name in a URL is a secret: `?sig=…`, `&key=…`.
pub(super) fn is_secret_in_url(name: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or(name);
    let is_last = |word: &&str| last.eq_ignore_ascii_case(word);
    is_secret(name) || LAST.iter().any(is_last) || name.eq_ignore_ascii_case("key")
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
            NCCL_FAKE_PASSWORD client_secret SLACK_WEBHOOK_URL Set-Cookie apikey --auth \
            PGPASSWORD SSHPASS DBPASSWORD ROOTPW LDAP_BINDPW ansible_become_pass vault_pw WPA_PSK \
            DB_PW SNMP_COMMUNITY";
        for name in secrets.split_whitespace() {
            assert!(is_secret(name), "{name}");
        }
        let others = "TOKEN_FILE token_count max_tokens key NCCL_SOCKET_IFNAME pass compass \
            posted bypass secretary PASSWORD_MIN author mhandle PUBLIC_KEY sha256 keyboard TOKENS \
            forward_pass APP_KEY";
        for name in others.split_whitespace() {
            assert!(!is_secret(name), "{name}");
        }
        for (name, expected) in [
            ("APP_KEY", Some(Weak::Part)),
            ("wandb_key", Some(Weak::Part)),
            ("PWD", Some(Weak::Pass)),
            ("auth", Some(Weak::Alone)),
            ("PUBLIC_KEY", None),
            ("key", Some(Weak::Key)),
            ("forward_pass", Some(Weak::Part)),
            ("basic-auth", Some(Weak::Login)),
        ] {
            assert_eq!(weak(name), expected, "{name}");
        }
    }

    #[test]
    fn chosen_values_are_told_from_measured_ones() {
        for value in
            "hun-ter22x Zm9vYmFyQmF6 quietly-Burning7candle 822265d0bf976f7deb6f28d6 p4ssw0rd!"
                .split(' ')
        {
            assert!(is_chosen(value), "{value}");
        }
        let others = "0x7f00dead12 512KiB 12.5ms 2026-11-20T10:15:00Z 10.0.1.25:8080 hunter2 /run/a1b2c3d4 \
            42:01:0a:00:01:19 worker-12 535.129.03 tcp_rail1 $HF_TOKEN2 3.2GB/s not-found";
        for value in others.split_whitespace() {
            assert!(!is_chosen(value), "{value}");
        }
    }
}
