//! Numbers behind words that tell a secret: `bad pin 48151`, `"access_code": 48151`.
#![forbid(unsafe_code)]

use super::Found;
use super::pattern::Pattern;
use std::sync::LazyLock;

/// A number behind a word that tells a secret, or a longer one behind a word that may.
static NUMBERS: LazyLock<Option<[Pattern; 3]>> = LazyLock::new(|| {
    let code = "(?:access|activation|auth|one-time|2fa|mfa|backup|door|entry|invit(?:e|ation)|login|otp|recovery|secret|security|sms|unlock|verif(?:y|ication))[ _-]?codes?";
    let word = r"pin(?: code)?|otp|passcode|passphrase|pass|pw|pwd|passw(?:or)?d|passwort|secret(?:[ _-]key)?|(?:api|access|auth)[ _-]?(?:key|token)";
    let other = "PIN\u{7801}|\u{9a8c}\u{8bc1}\u{7801}|\u{5bc6}\u{7801}|\u{5bc6}\u{78bc}|\u{53e3}\u{4ee4}|\u{6388}\u{6743}\u{7801}";
    let quote = r"[\s\x22'`\\:=|<>()\x{ff1a}\x{ff1d}\x{4e3a}\x{662f}]{1,8}";
    let gap = format!(
        r"(?:{quote}(?:(?:is|was|ist|est|es){quote})?|[\x{{ff1a}}\x{{ff1d}}\x{{4e3a}}\x{{662f}}])"
    );
    let end = r"(?:[.:!?]?(?:\s|$)|[\x22'`\\|<>(),;\]}]|[^\x00-\x7f])";
    let refused =
        "(?:bad|wrong|invalid|incorrect|expired|rejected|refused|denied|revoked|your|my|the)";
    let weak = "(?:token|key|code|auth)";
    let strong = format!(
        r"(?i)(?:(?:^|[^a-z0-9])(?:[\w.-]*_|--)?(?:{code}|{word})|{other}){gap}([0-9]{{4,}}){end}"
    );
    let before = format!(r"(?i)\b{refused} {weak}{gap}([0-9]{{5,}}){end}");
    let behind = format!(
        r"(?i)\b{weak}{gap}([0-9]{{5,}}) {refused}|\b(?:token|code|auth){gap}([0-9]{{5,}})\s*$|(?:\b|--)(?:token|auth)[\x22']?[:= ] ?[\x22']?([0-9]{{5,}}){end}"
    );
    Some([
        Pattern::new(&strong)?,
        Pattern::new(&before)?,
        Pattern::new(&behind)?,
    ])
});
/// Codes of programs, and how near a number they stand.
const NEAR_BYTES: usize = 20;
const OF_PROGRAMS: [&str; 10] = [
    "error code",
    "event code",
    "exit code",
    "fault code",
    "reason code",
    "response code",
    "result code",
    "return code",
    "status code",
    "vendor code",
];
/// Words behind a number that counts something, and ends of a line before `pin` as a verb.
const COUNTED: [&str; 9] = [
    "b", "bytes", "kb", "kib", "mb", "mib", "of", "pages", "tokens",
];
const BEFORE_VERB: [&str; 4] = ["to pin", "not pin", "cannot pin", "will pin"];

pub(super) fn find(line: &str) -> Vec<Found> {
    let found = |at| Found {
        what: "a number that the words before it tell",
        at,
    };
    let Some(patterns) = &*NUMBERS else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    for pattern in patterns {
        let on = pattern.on(line);
        for captures in on.into_iter().flat_map(|on| on.captures_iter(line)) {
            let Some(number) = captures.iter().skip(1).flatten().next() else {
                continue;
            };
            let before = line[..number.start()].trim_end().to_ascii_lowercase();
            let next = line[number.end()..].split_whitespace().next();
            let next = next.unwrap_or_default().to_ascii_lowercase();
            let is_verb = BEFORE_VERB.iter().any(|verb| before.ends_with(verb));
            let near =
                &before[before.floor_char_boundary(before.len().saturating_sub(NEAR_BYTES))..];
            let is_of_program = OF_PROGRAMS.iter().any(|code| near.contains(code));
            if !is_of_program && !is_verb && !COUNTED.contains(&&*next) {
                all.push(found(number.range()));
            }
        }
    }
    all
}
