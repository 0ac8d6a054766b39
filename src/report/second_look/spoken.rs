//! Values that sentences tell: `the password is sunshine`, `invalid password sunshine`, `密码是sunshine`. Any word is in
//! doubt there that says nothing of the secret itself.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::{Found, is_replaced};
use std::sync::LazyLock;

static SPOKEN: LazyLock<Option<[Pattern; 5]>> = LazyLock::new(|| {
    let noun = "(?:passw(?:or)?d|passphrase|passcode|secret|pin(?: code)?)";
    let phrase = "(?:passw(?:or)?d|passphrase|passcode)";
    let word = r"([^\s\x22'`<>|,;:()=\[\]{}\\]{4,})";
    let quote = r"[\x22'`(]{0,2}";
    let end = r"[\x22'`)]{0,2}[.,;]?";
    let now = "(?: (?:now|still|currently|actually|just|probably))?";
    let other = "(?:密码|密碼|口令|パスワード|비밀번호|암호|пароль)";
    Some([
        Pattern::new(&format!(
            r"(?i)\b{noun} (?:is|was):?{now} {quote}{word}(?:{end}\s*$|[\x22'`)]|[,;] )"
        ))?,
        // In quotes, with spaces too.
        Pattern::new(&format!(
            r"(?i)\b{phrase} (?:(?:is|was) )?(?:\x22([^\x22]{{4,80}})\x22|'([^']{{4,80}})'|\(([^()\s]{{4,}})\))"
        ))?,
        Pattern::new(&format!(
            r"(?i)\b(?:[A-Z]+_)*{phrase}(?: for [\w ]{{1,40}}:)?\s+{quote}{word}{end}\s*$"
        ))?,
        Pattern::new(&format!(r"(?i)<\w*{noun}>\s*([^<>\s][^<>]{{3,80}})</"))?,
        Pattern::new(&format!(r"(?i){other}\s?[:：=＝是为は]\s?([!-~]{{4,}})"))?,
    ])
});
/// What a sentence says of a secret, and ends of such words.
const REMARKS: [&str; 36] = [
    "absent",
    "bad",
    "blank",
    "correct",
    "default",
    "empty",
    "false",
    "file",
    "fine",
    "given",
    "good",
    "here",
    "hidden",
    "incorrect",
    "invalid",
    "known",
    "long",
    "missing",
    "none",
    "null",
    "okay",
    "optional",
    "present",
    "prompt",
    "right",
    "safe",
    "sent",
    "set",
    "short",
    "stale",
    "there",
    "true",
    "unknown",
    "unset",
    "valid",
    "wrong",
];
const ENDS: [&str; 9] = [
    "ed", "ing", "able", "ible", "ory", "ly", "ive", "ent", "set",
];
/// What `password` names together with its next word.
const COMPOUNDS: [&str; 34] = [
    "again",
    "attempt",
    "attempts",
    "auth",
    "authentication",
    "below",
    "change",
    "check",
    "cache",
    "database",
    "entry",
    "error",
    "errors",
    "failure",
    "field",
    "file",
    "files",
    "format",
    "from",
    "hash",
    "input",
    "length",
    "login",
    "logins",
    "manager",
    "mismatch",
    "only",
    "policy",
    "prompt",
    "prompts",
    "protection",
    "reset",
    "store",
    "with",
];
/// What is pinned.
const PINNED: [&str; 9] = [
    "auto", "core", "cores", "cpus", "device", "host", "memory", "numa", "threads",
];
pub(super) fn find(line: &str) -> Vec<Found> {
    let found = |at| Found {
        what: "a value that a sentence tells",
        at,
    };
    let Some(patterns) = &*SPOKEN else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    for pattern in patterns {
        let on = pattern.on(line);
        for captures in on.into_iter().flat_map(|on| on.captures_iter(line)) {
            let words = captures.iter().skip(1).flatten();
            let words = words.filter(|word| is_value(word.as_str()));
            all.extend(words.map(|word| found(word.range())));
        }
    }
    all
}

fn is_value(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',']);
    !is_replaced(word)
        && !is_remark(word)
        && !COMPOUNDS.contains(&word)
        && !word.starts_with(['/', '$', '*', '-', '%', '{', '<'])
}

/// Whether a word says something of a secret, or of memory that is pinned, and is none.
pub(super) fn is_remark(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    REMARKS.contains(&lower.as_str())
        || PINNED.contains(&lower.as_str())
        || ENDS.iter().any(|end| lower.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn what_is_told_is_doubted_and_what_is_said_of_it_is_not() {
        for line in [
            "the password is sunshine",
            "The passcode is now sunshine, ask him",
            "invalid password sunshine",
            "password \"seven winter garden\" rejected",
            "Password for user x: sunshine",
            "密码是sunshine",
        ] {
            assert_eq!(find(line).len(), 1, "{line}");
        }
        for line in [
            "the password is wrong; the secret is not set",
            "no password file",
            "the password is SECRET",
            "invalid password SECRET",
        ] {
            assert!(find(line).is_empty(), "{line}");
        }
    }
}
