//! Secrets that words tell: `pass: VALUE`, `the password is VALUE`, a word of another language or
//! of two scripts before a value, and the line behind `password:`.
//!
//! Such words stand in much that tells no secret, so a value is in doubt if it mixes digits and
//! letters, or if its letters cannot be pronounced.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::prose::unseen;
use super::spoken::is_remark;
use super::{Found, is_placeholder, is_replaced};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Whether a value is in doubt.
type Doubted = fn(&str) -> bool;

/// What stands before a value, with its first letter, and which values are in doubt.
struct Rule {
    before: Regex,
    doubted: Doubted,
}

static RULES: LazyLock<Option<Vec<Rule>>> = LazyLock::new(|| {
    let value = r#"["'\\\x{201c}\x{300c}\[]*[^\s\\&|"'`<>,;)}\]\x{201d}\x{300d}]"#;
    let sign = r#"(?:\\?["'])?\s*[:=\x{ff1a}\x{ff1d}]\s*"#;
    let noun = "(?:passw(?:or)?d|passphrase|passwort|kennwort|apikey|token|secret|bearer|pass|(?:api|access|secret|account|auth|private)[ -]key)";
    let other = "(?:\u{5bc6}\u{7801}|\u{5bc6}\u{78bc}|\u{53e3}\u{4ee4}|\u{4ee4}\u{724c}|\u{5bc6}\u{94a5}|\u{30d1}\u{30b9}\u{30ef}\u{30fc}\u{30c9}|\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}|\u{442}\u{43e}\u{43a}\u{435}\u{43d}|\u{c554}\u{d638}|\u{be44}\u{bc00}\u{bc88}\u{d638}|contrase(?:\u{f1}|n)a|kennwort|passwort|mot de passe|senha)";
    let copula = r"(?:\s+(?:is|was|to|as|ist|est|for\s+\w+):?)?";
    let rules: [(String, Doubted); 8] = [
        (
            format!(r"(?i)(?:^|[^\w.-])(?:pass|psw|passcode|pw|pin){sign}{value}"),
            is_any,
        ),
        (
            format!(r"(?i)(?:^|[^\w.\s-]|(?:^|export|env)\s+)(?:pin|key|auth|bearer){sign}{value}"),
            is_given,
        ),
        (
            format!(
                r"(?i)(?:[\w-]*_(?:key|pass|pw|auth)|(?:api|access|secret|account|auth|private)[ -]key){sign}{value}"
            ),
            is_given,
        ),
        (
            format!(r"(?i)(?:login|basic[_-]?auth|auth|credentials?)[\s:=]+[\w.-]+:{value}"),
            is_given,
        ),
        (format!(r"(?i){noun}{copula}\s+{value}"), is_given_or_short),
        (
            format!(
                r"(?i){other}(?:\s*[:=\x{{ff1a}}\x{{ff1d}}\x{{4e3a}}\x{{662f}}\x{{306f}}])?\s*{value}"
            ),
            is_given,
        ),
        (
            format!(
                r"(?:[A-Za-z][\p{{Cyrillic}}\p{{Greek}}]|[\p{{Cyrillic}}\p{{Greek}}][A-Za-z]|[\x{{ff21}}-\x{{ff5a}}]{{3}})[\w]*{sign}{value}"
            ),
            is_any,
        ),
        (format!(r"--from-literal[= ][\w.-]+={value}"), is_any),
    ];
    let rules = rules.into_iter().map(|(before, doubted)| {
        Some(Rule {
            before: Regex::new(&before).ok()?,
            doubted,
        })
    });
    rules.collect()
});

/// The values in a line that its words tell.
pub(super) fn find(line: &str) -> Vec<Found> {
    let Some(rules) = &*RULES else {
        return vec![found(0..line.len())];
    };
    if !may_tell(line) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for rule in rules {
        let mut from = 0;
        while let Some(before) = rule.before.find_at(line, from) {
            let value = value_ending(line, before.end());
            from = value.start.max(before.start() + 1);
            let written = &line[value.clone()];
            let rest = &line[value.end..];
            let is_sentence = rest.starts_with(' ')
                && rest
                    .trim_start()
                    .starts_with(|letter: char| letter.is_lowercase())
                && written.bytes().all(|byte| byte.is_ascii_lowercase())
                && !is_given(written);
            // The result of a test, before its name.
            let is_result = line[before.range()].contains("PASS: ")
                && !written.bytes().any(|byte| byte.is_ascii_digit());
            let is_doubted = (rule.doubted)(written) && !is_sentence && !is_result;
            // The placeholder of a secret is no name of one.
            let before =
                line[..value.start].trim_end_matches(|letter: char| " \"'".contains(letter));
            let is_placed = is_placeholder(written) || before.ends_with("SECRET");
            if !is_placed && is_doubted {
                from = value.end;
                all.push(found(value));
            }
        }
    }
    commands(line, &mut all);
    all
}

/// The value whose first letter ends at `at`. Where a line is full of words that tell one, each value would be as long as
/// the line.
fn value_ending(line: &str, at: usize) -> Range<usize> {
    let ends =
        |letter: char| letter.is_whitespace() || "\\&|\"'`<>,;)}]\u{201d}\u{300d}".contains(letter);
    let first = line[..at].chars().next_back().map_or(0, char::len_utf8);
    let most = line.floor_char_boundary((at + VALUE_BYTES_MAX).min(line.len()));
    let length = line[at..most].find(ends).unwrap_or(most - at);
    at - first..at + length
}

/// What one line at least must have for the rules, which are slow, to be tried.
fn may_tell(line: &str) -> bool {
    static STEMS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let stems = "pass|psw|\\bpw|pin|key|auth|bearer|token|secret|login|credential|contrase";
        Regex::new(&format!("(?i){stems}|kennwort|senha|ftp|mysql|--from")).ok()
    });
    !line.is_ascii() || STEMS.as_ref().is_none_or(|stems| stems.is_match(line))
}

/// Words of commands that take a secret.
fn commands(line: &str, all: &mut Vec<Found>) {
    static COMMAND: LazyLock<Option<Pattern>> = LazyLock::new(|| {
        Pattern::new(r"\b(?:vault login|wandb login|huggingface-cli login|sshpass|mysql\w*|ftp)\s")
    });
    let command = COMMAND.as_ref().and_then(|command| command.on(line));
    let Some(command) = command.and_then(|command| command.find(line)) else {
        return;
    };
    let mut from = command.end();
    for word in line[command.end()..].split_inclusive(char::is_whitespace) {
        let written = word.trim_end();
        let value = written.strip_prefix("-p").unwrap_or(written);
        // A quote in HTML before it, and a tag or another one behind it.
        let value = value
            .strip_prefix('&')
            .and_then(|rest| Some(rest.split_once(';')?.1))
            .unwrap_or(value);
        let begin = from + written.len() - value.len();
        let value = value
            .split(['<', '&', '"', '\'', '\\'])
            .next()
            .unwrap_or_default();
        from += word.len();
        if is_given(value) && !is_placeholder(value) {
            all.push(found(begin..begin + value.len()));
        }
    }
}

/// What the lines before a line say of it.
#[derive(Default)]
pub(super) struct Before {
    /// The last one ended with the name of a secret and a colon, or with what begins its value.
    is_open: bool,
    /// The last one is a value whose name may follow.
    is_value: bool,
    /// Below `data:` of Kubernetes, which is indented by as many spaces.
    data: Option<usize>,
}

impl Before {
    /// The value that stands alone on a line behind a name, or in base64 below `data:`.
    pub(super) fn find(&mut self, line: &str) -> Option<Found> {
        static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
            let name = "(?:passw(?:or)?d|passphrase|pass|token|secret|credentials?|key)";
            let opens = r#"(?:["']?\s*[:\x{ff1a}]|["']>|\s*=\s*<<[-~]?["']?\w+["']?)"#;
            Regex::new(&format!(r"(?i){name}{opens}\s*$")).ok()
        });
        static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
            let name = "(?:passw(?:or)?d|passphrase|token|secret|credentials?|key)";
            Regex::new(&format!(r#"(?i)^(?:- )?name:\s*["']?[\w.-]*{name}["']?$"#)).ok()
        });
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        let found = match self.data.filter(|own| indent > *own) {
            Some(_) => encoded(line),
            None if self.is_value && NAME.as_ref().is_none_or(|name| name.is_match(trimmed)) => {
                Some(found(indent..indent + trimmed.len()))
            }
            None => alone(line).filter(|_| self.is_open),
        };
        let value = trimmed.trim_start_matches("- ").strip_prefix("value:");
        self.is_value = value.is_some_and(|value| {
            let value = value.trim().trim_matches(['"', '\'']);
            value.len() > 1 && !is_replaced(value)
        });
        self.data = match trimmed == "data:" {
            true => Some(indent),
            false => self.data.filter(|own| indent > *own),
        };
        self.is_open = (trimmed.ends_with([':', '\u{ff1a}', '>']) || trimmed.contains("<<"))
            && OPEN.as_ref().is_none_or(|open| open.is_match(trimmed));
        found
    }
}

/// The value that stands alone on a line.
fn alone(line: &str) -> Option<Found> {
    let trimmed = line.trim();
    let inner = trimmed.strip_prefix("- ").unwrap_or(trimmed);
    let value = inner.trim_matches(|letter: char| "\"', }".contains(letter));
    let is_value = !value.contains(char::is_whitespace) && !inner.ends_with(':') && is_given(value);
    let begin = line.find(value)?;
    (is_value && !is_placeholder(value)).then(|| found(begin..begin + value.len()))
}

/// A value in base64 behind a key.
fn encoded(line: &str) -> Option<Found> {
    let (_, value) = line.trim_end().split_once(": ")?;
    let value = value.trim();
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let is_random =
        value.ends_with('=') || is_given(value) || changes_of_case(value) * 3 >= value.len();
    let is_base64 = value.len() >= 8
        && value.len().is_multiple_of(4)
        && value.bytes().all(is_of_base64)
        && is_random;
    let begin = line.rfind(value)?;
    (is_base64 && !is_placeholder(value)).then(|| found(begin..begin + value.len()))
}

fn found(at: Range<usize>) -> Found {
    Found {
        what: "a value that the words before it tell",
        at,
    }
}

/// Longest value that is looked at.
const VALUE_BYTES_MAX: usize = 512;
/// Shortest value of a name such as `pass`, and shortest one that looks given.
const BYTES_MIN: usize = 5;
const GIVEN_BYTES_MIN: usize = 8;
/// Results of tests, and steps of training.
const RESULTS: [&str; 8] = [
    "failed", "passed", "forward", "backward", "first", "second", "error", "skipped",
];

/// Any value but a number, a path, a reference, or the result of a test.
fn is_any(value: &str) -> bool {
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".:".contains(&byte));
    let is_result = RESULTS
        .iter()
        .any(|result| value.eq_ignore_ascii_case(result));
    value.len() >= BYTES_MIN
        && !is_number
        && !is_result
        && !is_remark(value)
        && !value.starts_with(['/', '.', '$', '<', '{', '*', '%'])
        && !value.starts_with("test")
        && !value.contains("::")
}

/// Whether a value mixes digits and letters otherwise than names and measures do, or has letters
/// that cannot be pronounced.
pub(super) fn is_given(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ':', '!', '?']);
    if value.len() < GIVEN_BYTES_MIN
        || !is_any(value)
        || !value.is_ascii()
        || value.starts_with("0x")
    {
        return false;
    }
    // The name of a variable.
    let is_of_variable =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = value.contains('_') || !value.bytes().any(|byte| byte.is_ascii_digit());
    if is_name && value.bytes().all(is_of_variable) {
        return false;
    }
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    if digits == 0 {
        return (oddities(value) >= 2 && unseen(value) > 0)
            || changes_of_case(value) * 3 >= value.len();
    }
    let is_hex = value.len() < 20
        && value
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    let is_measure = value.starts_with(|letter: char| letter.is_ascii_digit()) && letters <= 4;
    let stem = value.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = value.len() - stem.len() < 4
        && !stem
            .bytes()
            .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'%');
    let is_path = value.contains('.') && value.matches(['.', '_', '/']).count() >= 2;
    letters >= 3 && !is_hex && !is_measure && !is_numbered && !is_path
}

/// Whether a value is given, or is short and mixes letters and digits in an order that no device's name has.
fn is_given_or_short(value: &str) -> bool {
    static DRAWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("^(?:[A-Za-z]+[0-9]+[A-Za-z][A-Za-z0-9]*|[0-9]+[A-Za-z]+[0-9]+[A-Za-z0-9]*)$")
            .ok()
    });
    let short = value.trim_end_matches(['.', ':', '!', '?']);
    let is_device = ["eth", "en", "ib", "mlx"]
        .iter()
        .any(|device| short.starts_with(device));
    let is_drawn = || DRAWN.as_ref().is_none_or(|drawn| drawn.is_match(short));
    is_given(value) || (4..GIVEN_BYTES_MIN).contains(&short.len()) && !is_device && is_drawn()
}

fn changes_of_case(value: &str) -> usize {
    let neighbours = value.as_bytes().windows(2);
    let changes =
        neighbours.filter(|pair| pair[0].is_ascii_lowercase() != pair[1].is_ascii_lowercase());
    changes.count()
}

/// How often the letters of a word follow each other as in no pronounced word: four consonants and
/// more, three vowels, and pairs such as `mj`, `qw` and `vd`.
fn oddities(word: &str) -> usize {
    const VOWELS: &[u8] = b"aeiouy";
    let word = word.to_ascii_lowercase();
    let letters = word.as_bytes();
    let mut count = 0;
    let mut consonants = 0;
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphabetic() {
            consonants = 0;
            continue;
        }
        let is_vowel = VOWELS.contains(letter);
        consonants = if is_vowel { 0 } else { consonants + 1 };
        count += match consonants {
            0..=3 => 0,
            4 => 2,
            _ => 1,
        };
        let Some(next) = letters
            .get(at + 1)
            .filter(|next| next.is_ascii_alphabetic())
        else {
            continue;
        };
        let odd: &[u8] = match letter {
            b'b' => b"dfgkmnptjqvwxz",
            b'c' => b"jqvwxzbdfgmnp",
            b'd' => b"bcfkptjqxz",
            b'f' => b"bcdghkmnpsvjqwxz",
            b'g' => b"bcdfkptvjqwxz",
            b'h' | b'v' | b'w' => b"bcdfgjkmpqvxz",
            b'k' => b"bcdfgmptvjqwxz",
            b'l' => b"jqrxzn",
            b'm' => b"cdfghklrtjqvwxz",
            b'n' => b"bhlmprqxz",
            b'p' => b"bcdfgkmnvjqwxz",
            b'q' => b"abcdefghijklmnopqrstvwxyz",
            b'r' => b"qxzj",
            b's' => b"bdgvzxj",
            b't' => b"bdgkpvxqjn",
            b'x' => b"bdfghjklmnqrsvwxz",
            b'j' | b'z' => b"bcdfghjklmnpqrstvwx",
            _ => b"",
        };
        count += usize::from(odd.contains(next));
        let three = [Some(letter), Some(next), letters.get(at + 2)];
        count += usize::from(
            three
                .iter()
                .all(|one| one.is_some_and(|one| VOWELS.contains(one))),
        );
    }
    count
}
