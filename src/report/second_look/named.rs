//! Values beside a name that says that they are secret, on one line.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::spoken::is_remark;
use super::{Found, is_number, is_replaced};
use std::ops::Range;
use std::sync::LazyLock;

/// A name and what separates it from its value: a sign, a cell of a table, or a list.
static NAMED: LazyLock<Option<Pattern>> = LazyLock::new(|| {
    let name = r"(?:p[a4]ssw(?:[o0]r)?ds?|jeton|d['\x{2019}]acc\x{e8}s|passphrase|pwd|psk|mnemonic|bindpw|secret(?:[_-]?key)?|(?:app|anthropic|comet|datadog|neptune|ngc|openai|preshared|wandb|storage|fernet|hmac|unseal)[_-]?key|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|creds?|salt|pin[ _-]?code|munge[._-]?key|encryption[_-]?key|authorization|auth[_-]?token|cookie)";
    let tail = r"(?:_(?:value|id|base|old|new|\d+))?";
    let behind = r"(?:&quot;|%2[27]|Some\(|[\x22'`*\\\]])*";
    let sign = r"\s*(?:=>?[{\[(]?|:|->|\||\x{ff1a}|\x{ff1d}|%3[AaDd]|\.{2,}|set by environment to)\s*(?:(?:bearer|basic)\s+)?";
    let open = r"[\x22'\\]*\s*[:=]\s*\[\s*[\x22'\\]+";
    let list = r"[\x22']\s*,\s*(?:[\x22']value[\x22']\s*:\s*)?[\x22']";
    let cell = r"\s*(?:</\w+>\s*)+(?:<\w[^>]*>\s*)+";
    let option = r"\s+";
    Pattern::new(&format!(
        r"(?i)(?:(--(?:[\w-]*{name}{tail}|(?:[\w-]*-)?pin)){option}|\b([\w.-]*{name}{tail}|(?:[\w-]*[_-])?pin)(?:{behind}{sign}{behind}|{behind}{cell}|{open}|{list}))"
    ))
});

/// Longest value, and most bytes of the cells of a row behind a name.
const VALUE_BYTES_MAX: usize = 512;
const ROW_BYTES_MAX: usize = 4096;

/// Parts of the names of numbers of tokens, and of tokens of a language.
const COUNTED: [&str; 26] = [
    "avg", "batch", "bos", "budget", "class", "cls", "consumed", "count", "eos", "first", "image",
    "last", "mask", "max", "min", "n", "next", "num", "pad", "per", "sep", "start", "stop",
    "total", "unk", "special",
];
/// Fewest digits of a number that is a secret, and of one behind `token` in small letters.
const DIGITS_MIN: usize = 4;
const TOKEN_DIGITS_MIN: usize = 5;

pub(super) fn find(line: &str) -> Vec<Found> {
    let Some(named) = &*NAMED else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    let names = named.on(line).map(|named| named.find_iter(line));
    for name in names.into_iter().flatten() {
        // The placeholder is no name, but a variable may be called so.
        let is_placeholder = name.as_str().starts_with("SECRET");
        let is_value = line[..name.start()].ends_with(':');
        if is_placeholder && (is_value || !name.as_str().contains(['=', ':'])) {
            continue;
        }
        let before = line[..name.end()].trim_end();
        if before.ends_with('|') || before.ends_with('>') {
            cells(line, name.as_str(), name.end(), &mut all);
        } else if let Some(place) = word(line, name.as_str(), name.end())
            // The shell's variable of the current folder.
            && !(line[place.clone()].starts_with('/') && is_of_folder(name.as_str()))
        {
            all.push(found(place));
        }
    }
    all
}

fn is_of_folder(name: &str) -> bool {
    let name = name.trim_end_matches(|letter: char| !letter.is_alphanumeric());
    name.to_ascii_lowercase().ends_with("pwd")
}

fn found(at: Range<usize>) -> Found {
    Found {
        what: "the value of a secret's name",
        at,
    }
}

/// The word at `at`, unless it is a placeholder or a part of a sentence.
fn word(line: &str, name: &str, at: usize) -> Option<Range<usize>> {
    let ends = |letter: char| letter.is_whitespace() || "\"'`<>|,;\\&)}]%".contains(letter);
    let rest = near(line, at, VALUE_BYTES_MAX);
    let word = rest[..rest.find(ends).unwrap_or(rest.len())].trim_end_matches('.');
    let is_reference = word.starts_with(['$', '%', '{']);
    let is_sentence = word.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest[word.len()..].starts_with([' ', ','])
        && !super::told::is_given(word)
        && !line[..at].ends_with(['=', '"', '\''])
        && (!is_of_phrase(name) || is_remark(word));
    // The next key of an object: `"name":"DB_PASSWORD","value":`. The path of a URL whose secret was replaced.
    let behind = &rest[word.len()..];
    let quoted = behind.trim_start_matches(['\\', '"', '\'']);
    let is_key = quoted.len() < behind.len() && quoted.starts_with(':');
    let is_of_url = |byte: u8| byte.is_ascii_lowercase() || b".-/".contains(&byte);
    let is_cleared_url = word.strip_suffix("SECRET").is_some_and(|kept| {
        let kept = kept.trim_start_matches("https:");
        kept.starts_with("//") && kept.bytes().all(is_of_url)
    });
    let is_doubt = word.len() > 1
        && !is_key
        && !is_cleared_url
        && !is_replaced(word)
        && (!is_number(word) || !is_count(name, word))
        && !is_reference
        && !is_sentence
        && !is_measured(word);
    is_doubt.then_some(at..at + word.len())
}

/// Whether a name is that of a password, whose value may have spaces.
fn is_of_phrase(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["passw", "passphrase", "passcode"]
        .iter()
        .any(|part| name.contains(part))
}

/// Whether a number behind a name is too small for a secret, or counts tokens.
fn is_count(name: &str, number: &str) -> bool {
    let name = name.trim_matches(|letter: char| !letter.is_alphanumeric());
    let is_small = name.ends_with("token") && !name.contains("_TOKEN");
    let least = if is_small {
        TOKEN_DIGITS_MIN
    } else {
        DIGITS_MIN
    };
    let lower = name.to_ascii_lowercase();
    let is_counted = lower.contains("token")
        && lower
            .split(|letter: char| !letter.is_alphanumeric())
            .any(|part| COUNTED.contains(&part));
    number.len() < least || is_counted
}

/// A line from a place on, as far as a value or a row is read: a line may be full of names.
fn near(line: &str, at: usize, bytes: usize) -> &str {
    &line[at..line.floor_char_boundary((at + bytes).min(line.len()))]
}

/// A decimal fraction, with or without a unit of time: `per token: 11.2ms`.
fn is_measured(word: &str) -> bool {
    let number = word.trim_end_matches(['m', 'u', 'n', 's']);
    let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    number.len() <= 8 && number.matches('.').count() == 1 && number.bytes().all(is_of_number)
}

/// The words in the rest of a row, without tags.
fn cells(line: &str, name: &str, at: usize, all: &mut Vec<Found>) {
    let row = near(line, at, ROW_BYTES_MAX);
    // In a JSON string, a line ends with an escape.
    let end = ["</tr", "\\n"].iter().filter_map(|end| row.find(end)).min();
    let row = &row[..end.unwrap_or(row.len())];
    let mut is_tag = false;
    let mut begin = 0;
    for (end, letter) in row.char_indices().chain([(row.len(), '|')]) {
        if !matches!(letter, '<' | '>' | '|') {
            continue;
        }
        // A row inside a string ends with the string.
        let quote = row[begin..end].find('"').filter(|_| !is_tag);
        let cell = &row[begin..quote.map_or(end, |quote| begin + quote)];
        let trimmed = cell.trim();
        let is_count = is_number(trimmed) && is_count(name, trimmed);
        if !is_tag && trimmed.len() > 1 && !is_replaced(trimmed) && !is_count {
            let from = at + begin + (cell.len() - cell.trim_start().len());
            all.push(found(from..from + trimmed.len()));
        }
        if quote.is_some() {
            break;
        }
        is_tag = letter == '<';
        begin = end + letter.len_utf8();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_long_line_is_followed_by_a_bounded_value() {
        for (piece, bytes) in [
            ("credentials=(", VALUE_BYTES_MAX),
            ("<td>password</td><td>value</td>", ROW_BYTES_MAX),
        ] {
            // To the end of the line, each would be as long as the line.
            for found in find(&piece.repeat(1 << 10)) {
                assert!(found.at.len() <= bytes, "{piece}");
            }
        }
    }
}
