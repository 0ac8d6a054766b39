//! Secrets in sentences and messages: `the password is VALUE`, `password 'VALUE' rejected`,
//! `IDENTIFIED BY 'VALUE'`, and the same in other languages.
//!
//! A sentence about a password seldom holds one, so what a word looks like decides: it is chosen,
//! not spelled like a word, in quotes, or the last word of `the password is VALUE`.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys::{self, is_chosen};
use super::{ordinary, spelling, telling};
use std::ops::Range;

/// Most words between the name of a secret and its value.
const WORDS_MAX: usize = 6;
/// Most words before one that is a secret for its spelling alone: `password for deploy`.
const SPELLED_WORDS_MAX: usize = 3;
/// Most bytes between them.
const BYTES_MAX: usize = 160;
/// Shortest value in quotes, and shortest word of a sentence that tells one.
const TOLD_BYTES_MIN: usize = 4;
/// Words that a value follows.
const COPULAS: [&str; 9] = ["is", "was", "ist", "est", "es", "=", "\u{2014}", "to", "as"];
/// Words between one of these and the value.
const ADVERBS: [&str; 7] = [
    "now",
    "still",
    "currently",
    "actually",
    "just",
    "simply",
    "probably",
];
/// Words that name something else together with `password`: `password file`.
const COMPOUNDS: [&str; 47] = [
    "again",
    "attempt",
    "attempts",
    "auth",
    "authentication",
    "below",
    "above",
    "change",
    "check",
    "cache",
    "database",
    "entry",
    "error",
    "errors",
    "expiry",
    "failure",
    "failures",
    "field",
    "file",
    "files",
    "format",
    "from",
    "hash",
    "hashes",
    "here",
    "input",
    "instead",
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
    "provider",
    "reset",
    "rotation",
    "rules",
    "rule",
    "store",
    "strength",
    "there",
    "verification",
    "with",
];
/// What a sentence says of a secret without telling it, apart from participles.
const TOLD: [&str; 46] = [
    "absent",
    "accessible",
    "compatible",
    "possible",
    "reset",
    "set",
    "unset",
    "bad",
    "blank",
    "correct",
    "default",
    "empty",
    "enough",
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
    "manager",
    "missing",
    "mandatory",
    "necessary",
    "none",
    "null",
    "okay",
    "optional",
    "present",
    "prompt",
    "ready",
    "right",
    "safe",
    "sent",
    "short",
    "stale",
    "there",
    "too",
    "true",
    "unknown",
    "valid",
    "wrong",
];
/// Ends of words that say something of a secret: `expired`, `required`, `missing`.
const ENDS: [&str; 7] = ["ed", "ing", "able", "ory", "ly", "ive", "ent"];

/// Whether a word says something of a secret, and is none: `required`, `missing`, `incorrect`.
pub(super) fn is_remark(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    TOLD.contains(&lower.as_str()) || ENDS.iter().any(|end| lower.ends_with(end))
}

/// Words that hand a secret over: `using API key VALUE`.
const HANDING: [&str; 8] = [
    "using", "use", "used", "with", "enter", "entered", "got", "sent",
];
/// Most words between such a word and the name of the secret.
const HANDED_WORDS_MAX: usize = 3;

/// Whether the words before a name hand over what it names, which is then the next word whatever it looks like.
fn is_handed_over(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let mut words = line.split_whitespace().rev().take(HANDED_WORDS_MAX);
    words.any(|word| HANDING.iter().any(|hands| word.eq_ignore_ascii_case(hands)))
}

/// Whether a user stands before a name: `user bob, pass VALUE`.
pub(super) fn is_behind_user(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let mut words = line.split_whitespace().rev();
    let mut next = || words.next().map(|word| word.trim_end_matches([',', ';']));
    let user = match next() {
        Some("and" | "with") => next(),
        other => other,
    };
    let is_user = |word: &str| {
        let name = word.trim_start_matches('-').trim_end_matches([':', '=']);
        ["user", "username"]
            .iter()
            .any(|user| name.eq_ignore_ascii_case(user))
    };
    user.is_some_and(|user| !is_remark(user)) && next().is_some_and(is_user)
}

/// The value that a sentence tells behind a name. `is_strong` says that the name can be that of
/// a secret only, `ends` where the last words end.
pub(super) fn behind(
    text: &str,
    name: Range<usize>,
    is_strong: bool,
    ends: &Ahead,
) -> Option<Range<usize>> {
    let at = name.end;
    let is_phrase = keys::is_phrase(&text[name.clone()]);
    let before = &text[text.floor_char_boundary(name.start.saturating_sub(BYTES_MAX))..name.start];
    // `secret-free` is no secret.
    let last = text[name.clone()].rsplit(['-', '_']).next();
    let is_whole = last.is_some_and(|last| keys::is_secret(last) || last.len() == name.len());
    let is_handed = is_strong && is_whole && (is_handed_over(before) || is_behind_user(before));
    let rest = &text[at..];
    let most = rest.floor_char_boundary(BYTES_MAX.min(rest.len()));
    let line = rest[..most].split(['\n', '\r', '\0']).next()?;
    let is_for = line.starts_with(" for ");
    // A word that begins at the bound is cut there, and is read to its end.
    let mut begin = 0;
    let mut words = 0;
    let mut is_behind = false;
    let mut is_behind_to = false;
    while words < WORDS_MAX && begin < line.len() {
        let gap = line[begin..].find(|letter| !ends_word(letter))?;
        let from = begin + gap;
        let length = ends.find(text, at + from, |rest| rest.find(ends_word)) - at - from;
        let word = rest[from..from + length].trim_end_matches(['.', ':', '!', '?', ']', '}']);
        let place = at + from..at + from + word.len();
        let is_behind_copula =
            is_behind || line[begin..from].contains(['为', '是', 'は', '：', '＝']);
        let is_next = words == 0 || is_behind_copula;
        let gap = &line[begin..from];
        let is_random = words < SPELLED_WORDS_MAX && spelling::is_random(word)
            || is_next && ordinary::is_unknown(word)
            // `password VALUE rejected`.
            || is_strong && is_next && gap == " " && ordinary::is_mixed(word);
        let is_quoted = is_in_quotes(&line[begin..from], &rest[from + length..]);
        let behind = &rest[from + length..];
        let is_behind_prompt = is_for && is_phrase && line[..from].ends_with(": ");
        // `the password is VALUE, ask him`.
        let is_last = (is_behind_copula && !is_behind_to || is_behind_prompt)
            && (is_last(behind) || is_behind_copula && behind.starts_with([',', ';']));
        // `invalid password VALUE`, `password (VALUE) is wrong`.
        let is_alone = gap.trim().is_empty() && self::is_last(behind)
            || gap == " (" && behind.starts_with(')');
        let is_next_value =
            words == 0 && (is_phrase || is_handed) && !COMPOUNDS.contains(&word) && is_alone;
        let is_number = is_handed && words == 0 && is_number(word);
        if is_next
            && is_phrase
            && gap.starts_with(' ')
            && let Some(phrase) = quoted_phrase(gap, &line[from..])
        {
            return Some(at + from..at + from + phrase);
        }
        let is_given = is_chosen(word) || is_random;
        let is_told = match is_strong {
            true => {
                is_given
                    || (is_next && is_quoted && is_quotable(word))
                    || ((is_last || is_next_value) && is_value(word))
                    || is_number
            }
            false => is_next && is_given && !word.contains('/') && !keys::is_dotted(word),
        };
        if is_told {
            return Some(place);
        }
        // The sentence ends; dots alone lead to the value.
        if !word.is_empty() && rest[from..from + length].ends_with('.') {
            return None;
        }
        // An infinitive may follow `to`.
        is_behind_to = matches!(word, "to" | "as");
        is_behind = COPULAS.contains(&word) && words < SPELLED_WORDS_MAX
            || is_behind && ADVERBS.contains(&word);
        begin = from + length;
        words += 1;
    }
    None
}

/// Names of secrets that have other meanings, beside `token` and `key`. Behind `is`, these seldom have a number.
const OF_NUMBERS: [&str; 4] = ["pass", "pin", "code", "otp"];
/// Words before `pin` that make it a verb.
const OF_VERBS: [&str; 5] = ["to", "not", "cannot", "can", "will"];
/// Words before or behind a token, a key or a code that was refused.
const REFUSED: [&str; 9] = [
    "bad",
    "wrong",
    "invalid",
    "incorrect",
    "expired",
    "rejected",
    "refused",
    "denied",
    "revoked",
];
/// Words before a name that make it that of somebody's secret.
const OWNERS: [&str; 8] = ["my", "your", "his", "her", "our", "their", "user", "pin"];
/// Words before `code` that make it one of programs.
const OF_PROGRAMS: [&str; 12] = [
    "error", "exit", "fault", "op", "reason", "response", "result", "return", "signal", "status",
    "event", "vendor",
];
/// Words behind a number that counts something.
const COUNTED: [&str; 12] = [
    "b", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "of", "pages", "times", "tokens",
];

/// The number that a sentence tells right behind the name of a secret: `the password is 48151623`, `your PIN 481516`.
pub(super) fn number_behind(text: &str, name: Range<usize>) -> Option<Range<usize>> {
    let is_gap = |letter: char| " \t:=\"'`(：＝是为為は".contains(letter);
    let rest = text[name.end..].trim_start_matches(is_gap);
    if rest.len() + name.end == text.len() {
        return None;
    }
    let behind_copula = |copula: &&'static str| {
        rest.strip_prefix(*copula)
            .filter(|rest| rest.starts_with(is_gap))
    };
    let copula = COPULAS.iter().find_map(behind_copula);
    let told = copula.unwrap_or(rest).trim_start_matches(is_gap);
    let told = prompted(rest, &text[name.clone()]).unwrap_or(told);
    let behind_adverb = |adverb: &&'static str| told.strip_prefix(*adverb)?.strip_prefix(' ');
    let adverb = copula.and_then(|_| ADVERBS.iter().find_map(behind_adverb));
    let told = adverb.unwrap_or(told);
    let length = told.find(|letter: char| !letter.is_ascii_digit());
    let (number, behind) = told.split_at(length.unwrap_or(told.len()));
    let next = |text: &str| {
        let letters = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..letters.unwrap_or(text.len())].to_ascii_lowercase()
    };
    let is_whole = match behind.strip_prefix(['.', ':', '-', '/', '_']) {
        Some(rest) => !rest.starts_with(|letter: char| letter.is_alphanumeric()),
        None => !behind.starts_with(|letter: char| letter.is_alphanumeric()),
    };
    let next = next(behind.trim_start_matches(' '));
    let start = text.len() - told.len();
    let word = told.split(ends_word).next().unwrap_or_default();
    if copula.is_some() && is_own_code(&text[..name.start], &text[name.clone()]) && is_chosen(word)
    {
        return Some(start..start + word.len());
    }
    let least = digits_min(text, name, copula.is_some(), &next);
    let is_told =
        is_whole && !COUNTED.contains(&&*next) && least.is_some_and(|least| number.len() >= least);
    is_told.then(|| start..start + number.len())
}

/// What `password for user NAME: ` asks for, at the end of its line.
fn prompted<'a>(behind: &'a str, name: &str) -> Option<&'a str> {
    let asked = behind
        .strip_prefix("for ")
        .filter(|_| keys::is_phrase(name))?;
    let line = asked.split(['\n', '\r', '\0']).next()?;
    let near = &line[..line.floor_char_boundary(BYTES_MAX)];
    let at = near.rfind(": ")? + ": ".len();
    Some(&asked[at..])
}

/// Whether a code is somebody's, and none of a program: `your code`.
fn is_own_code(before: &str, name: &str) -> bool {
    let word = before
        .trim_end_matches(' ')
        .rsplit(char::is_whitespace)
        .next();
    let is_owner = |word: &str| OWNERS.iter().any(|owner| owner.eq_ignore_ascii_case(word));
    name.eq_ignore_ascii_case("code") && word.is_some_and(is_owner)
}

/// The fewest digits of a number behind a name that is a secret. Tokens of a language, codes of programs and passes over
/// data have numbers too.
fn digits_min(text: &str, name: Range<usize>, is_behind_copula: bool, next: &str) -> Option<usize> {
    let (before, name) = (&text[..name.start], &text[name]);
    let word = before
        .trim_end_matches([' ', '-'])
        .rsplit(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let is_any_of =
        |words: &[&str], word: &str| words.iter().any(|one| one.eq_ignore_ascii_case(word));
    let is_code = name.eq_ignore_ascii_case("code");
    let is_name = is_any_of(&OF_NUMBERS, name) || is_any_of(&["token", "key"], name);
    let is_pin = is_any_of(&["pin", "otp"], name) && !is_any_of(&OF_VERBS, word);
    let is_number =
        telling::is_strong(before, name) || is_code && keys::is_before_code(word) || is_pin;
    let is_long = is_name && is_any_of(&OWNERS, word)
        || is_any_of(&OF_NUMBERS, name) && is_behind_copula && !is_any_of(&OF_PROGRAMS, word)
        || is_name && (is_any_of(&REFUSED, word) || REFUSED.contains(&next))
        || is_any_of(&["token"], name) && word.is_empty() && next.is_empty();
    match (is_number, is_long) {
        (true, _) => Some(keys::PIN_DIGITS_MIN),
        (false, true) => Some(keys::DIGITS_MIN),
        (false, false) => None,
    }
}

/// The password of `user:VALUE` in the next word.
pub(super) fn login_behind(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].strip_prefix(' ')?;
    // `login with user/VALUE`.
    let mut hands = ["with ", "as "].iter();
    let handed = hands.find_map(|hands| rest.strip_prefix(hands));
    let rest = handed.unwrap_or(rest);
    let word = rest
        .split(|letter: char| letter.is_whitespace() || "\"'`,;".contains(letter))
        .next()?;
    let password = keys::login(word).or_else(|| Some(word.split_once('/')?.1))?;
    let is_secret = handed.is_some() && (is_value(password) || is_number(password))
        || is_chosen(password)
        || spelling::is_likely_random(password)
        || ordinary::is_unknown(password);
    let end = text.len() - rest.len() + word.len();
    is_secret.then_some(end - password.len()..end)
}

/// Fewest bytes of a dump.
const DUMP_BYTES_MIN: usize = 6;
/// Most bytes between a name and its dump.
const DUMP_DISTANCE_MAX: usize = 24;

/// Bytes in hexadecimal with spaces between them, `70 61 73 73`, on the line of a name or on the next.
pub(super) fn dump_behind(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let near = &rest[..rest.floor_char_boundary(DUMP_DISTANCE_MAX.min(rest.len()))];
    let is_byte = |word: &str| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Something that is two digits, a space and two digits.
    let bytes = near.as_bytes();
    let begin = bytes.windows(6).position(|window| {
        let [before, one, two, gap, three, four] = *window else {
            return false;
        };
        let is_digit = |byte: u8| byte.is_ascii_hexdigit();
        !before.is_ascii_alphanumeric()
            && is_digit(one)
            && is_digit(two)
            && gap == b' '
            && is_digit(three)
            && is_digit(four)
    })? + 1;
    let mut end = begin;
    let mut count = 0;
    // Rows have an offset before their bytes, and letters behind.
    for line in rest[begin..].split_inclusive('\n') {
        let mut from = 0;
        let mut row = 0;
        for word in line.split_inclusive(' ') {
            let written = word.trim_end();
            from += word.len();
            if is_byte(written) {
                row += 1;
                count += 1;
                end = begin.max(
                    line.as_ptr() as usize - rest.as_ptr() as usize + from
                        - (word.len() - written.len()),
                );
            } else if row > 0 && !written.is_empty() {
                break;
            }
        }
        if row == 0 {
            break;
        }
    }
    (count >= DUMP_BYTES_MIN).then_some(at + begin..at + end)
}

/// The length of what stands in quotes that begin at the end of `gap`, if it has several words.
fn quoted_phrase(gap: &str, line: &str) -> Option<usize> {
    let quote = gap
        .chars()
        .next_back()
        .filter(|sign| matches!(sign, '"' | '\'' | '`'))?;
    let length = line.find(quote)?;
    line[..length].contains(' ').then_some(length)
}

/// Whether a word is alone in quotes, with nothing but spaces between it and what stands before.
fn is_in_quotes(before: &str, behind: &str) -> bool {
    const QUOTES: [char; 7] = [
        '"', '\'', '`', '\u{201c}', '\u{201d}', '\u{300c}', '\u{300d}',
    ];
    let gap = before.strip_suffix(QUOTES);
    gap.is_some_and(|gap| gap.trim().is_empty() && gap.starts_with(' '))
        && behind.starts_with(QUOTES)
}

/// Whether a word in quotes may be a secret: not the name of a variable.
fn is_quotable(word: &str) -> bool {
    word.len() >= TOLD_BYTES_MIN && !(word.contains('_') && keys::is_words(word))
}

/// Whether nothing but a full stop follows on the line.
fn is_last(behind: &str) -> bool {
    let is_of_rest = |letter: char| letter.is_whitespace() || letter == '.';
    let is_end = |letter: char| matches!(letter, '\n' | '\r' | '\0');
    let rest = match behind.find(|letter| is_end(letter) || !is_of_rest(letter)) {
        Some(end) if behind[end..].starts_with(is_end) => &behind[..end],
        Some(_) => return false,
        None => behind,
    };
    rest.trim().trim_end_matches('.').is_empty()
}

/// Whether the last word of `the password is VALUE` may be its value.
fn is_value(word: &str) -> bool {
    word.len() >= TOLD_BYTES_MIN
        && word.is_ascii()
        && !word.bytes().all(|byte| byte.is_ascii_digit())
        && !word.starts_with(['/', '<', '$', '*', '-'])
        && !word.starts_with("0x")
        && !is_remark(word)
}

fn is_number(word: &str) -> bool {
    word.len() >= keys::PIN_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace()
        || "\"'`<>()|,;=\\\0\u{1b}：＝为是は".contains(letter)
        || (!letter.is_ascii() && !letter.is_alphanumeric())
}
