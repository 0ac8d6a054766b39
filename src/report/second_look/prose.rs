//! Lines that tell of a password, a key or another secret, and the lines beneath a prompt or a header
//! that does: a word on them is in doubt if its letters follow each other as in no word of ours
//! (`triples.txt`), or if it mixes letters, digits and signs.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::told::is_given;
use super::{Found, is_placeholder};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

const TRIPLES: &str = include_str!("triples.txt");
/// Shortest word of letters that is judged, and triples that no word has from which it is in doubt.
const LETTERS_MIN: usize = 8;
const UNSEEN_MIN: usize = 2;
/// Fewest hexadecimal digits of a key.
const HEX_MIN: usize = 32;
/// Bytes around a name that belong to it, and longest rest of a line that asks for something.
const BEFORE_BYTES_MAX: usize = 120;
const BEHIND_BYTES_MAX: usize = 200;
const PROMPT_BYTES_MAX: usize = 48;
/// Endings of the names of files that reports quote beside a line: `logs/rank0.log:23`.
const ENDINGS: [&str; 6] = [".log", ".txt", ".out", ".err", ".jsonl", ".json"];
/// Longest owner of a model with its key, and longest parts of its name: a word, and a version or a size.
const MODEL_BYTES_MAX: usize = 96;
const PART_BYTES_MAX: usize = 12;
const SIZE_BYTES_MAX: usize = 6;
/// Values of an option that is switched.
const SWITCHED: [&str; 8] = ["auto", "false", "no", "none", "off", "on", "true", "yes"];
/// Most rows beneath a header.
const ROWS_MAX: usize = 100;

/// Names of secrets in prose: English, Latin script, and other scripts; and typed commands that print one.
static TELLS: LazyLock<Option<Pattern>> = LazyLock::new(|| {
    let english = r"passw(?:or)?d|assword|pass ?phrase|passcode|credential|\bcreds?\b|_creds?\b|(?:api|access|private|admin|munge|unseal|vault|root|refresh|login|shared)[ ._-]?(?:key|token)|secret|\bsalt\b|pin[ _-]code|digest username|sudo -S|useradd|usermod|--with-token|\bkinit\b";
    let latin = r"passwort|kennwort|contrase|wachtwoord|\bhas[lł][oae]|[sş]ifre|\bparol[aăeǎ]|l[oö]senord|salasana|\bheslo|adgangskode|jelsz[oó]|kata sandi|m[aậ]t kh[aẩ]u|\bpassord|mot de passe|\bcl[eé]f? (?:api|d.api)|\bclave\b|\bchiave\b|\bchave\b|\bsenha\b";
    let other =
        r"كلمة|पासवर्ड|κωδικ|συνθηματικ|รหัสผ่าน|סיסמ|парол|密码|密碼|パスワード|비밀번호|암호";
    let printed = r"^(?:\$|#|>>>|[^$#%]{0,100}[@~\]][^$#%]{0,60}[$#%]) (?:cat|echo \W?\$|printenv|print\(os\.environ|os\.environ|pass show).*(?:token|key)";
    Pattern::new(&format!("(?i){english}|{latin}|{other}|{printed}"))
});

/// Which letter may be the third behind two, a bit for each.
static SEEN: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut seen = vec![0; 26 * 26];
    let letter = |byte: u8| usize::from(byte - b'a');
    for row in TRIPLES.lines().filter(|row| !row.starts_with('#')) {
        let mut parts = row.split(' ');
        let first = parts.next().map_or(0, |first| letter(first.as_bytes()[0]));
        for part in parts {
            let bytes = part.as_bytes();
            let thirds = bytes[2..].iter().map(|third| 1u32 << letter(*third));
            seen[first * 26 + letter(bytes[0])] = thirds.fold(0, |all, bit| all | bit);
        }
    }
    seen
});

/// What the lines before a line say of it.
#[derive(Default)]
pub(super) struct Above {
    /// The last line with words asked for a secret.
    is_prompt: bool,
    /// The number of columns of a header, and which of them have secrets.
    header: Option<(usize, Vec<usize>)>,
    rows: usize,
    /// The line above is the rule of a table in Markdown, or a row below it.
    is_below_rule: bool,
}

impl Above {
    /// The words of a line that may be secrets.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let Some(tells) = TELLS.as_ref() else {
            return vec![found(0..line.len())];
        };
        let mut all = Vec::new();
        let name = tells
            .on(line)
            .and_then(|tells| {
                let mut names = tells.find_iter(line);
                names.find(|name| !is_switched(&line[name.end()..]))
            })
            .filter(|name| !line[name.range()].ends_with("SECRET"));
        if let Some(name) = &name {
            let begin = line.floor_char_boundary(name.start().saturating_sub(BEFORE_BYTES_MAX));
            let end = line.ceil_char_boundary((name.end() + BEHIND_BYTES_MAX).min(line.len()));
            words(line, begin..end, &mut all);
        } else if self.is_prompt {
            words(
                line,
                0..line.ceil_char_boundary(BEHIND_BYTES_MAX.min(line.len())),
                &mut all,
            );
        }
        let written = line.trim();
        if written.is_empty() {
            self.header = None;
            // A blank line may stand between a prompt and its answer.
            return all;
        }
        self.row(line, &mut all);
        self.is_prompt = name.is_some_and(|name| is_prompt(written, &line[name.end()..]));
        all
    }

    /// A row beneath a header, or a header.
    fn row(&mut self, line: &str, all: &mut Vec<Found>) {
        let cells: Vec<&str> = line
            .trim_end()
            .split(['|', '\t', ' ', ';'])
            .filter(|cell| !cell.is_empty())
            .map(str::trim)
            .collect();
        if let Some((count, columns)) = &self.header {
            self.rows += 1;
            let in_columns = columns
                .iter()
                .filter_map(|at| cells.get(*at))
                .filter(|_| cells.len() == *count);
            let is_cell = |cell: &&&str| !cell.contains(['<', '{', '&']) && is_odd(cell);
            for cell in in_columns.filter(is_cell) {
                let begin = cell.as_ptr() as usize - line.as_ptr() as usize;
                all.push(found(begin..begin + cell.len()));
            }
            if self.rows > ROWS_MAX {
                self.header = None;
            }
        }
        let is_name = |cell: &str| {
            let cell = cell.to_ascii_lowercase();
            [
                "token",
                "secret",
                "password",
                "passwd",
                "pass",
                "key",
                "credentials",
            ]
            .contains(&cell.as_str())
        };
        let is_title = |cell: &&str| {
            cell.bytes()
                .all(|byte| byte.is_ascii_uppercase() || b"_-()".contains(&byte))
        };
        let is_word = |cell: &&str| {
            cell.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-()".contains(&byte))
        };
        let is_header = cells.iter().all(is_title)
            || cells.iter().all(is_word)
                && (line.contains(['|', '\t', ';']) || line.trim().contains("  "));
        let columns = cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| is_name(cell))
            .map(|(at, _)| at);
        let columns: Vec<usize> = columns.collect();
        // In Markdown no header stands below the rule: `| NCCL_AUTH_TOKEN | - | SECRET |` is a row.
        let is_of_table = line.trim_start().starts_with('|');
        let is_rule = is_of_table && line.trim().bytes().all(|byte| b"|-: ".contains(&byte));
        self.is_below_rule = is_of_table && (self.is_below_rule || is_rule);
        if is_header
            && !self.is_below_rule
            && cells.len() > 1
            && !columns.is_empty()
            && !line.contains(['=', ':', '"'])
        {
            self.header = Some((cells.len(), columns));
            self.rows = 0;
        }
    }
}

/// Whether a name, of which this is the rest, is an option that is switched: `PasswordAuthentication=no`.
fn is_switched(rest: &str) -> bool {
    let is_of_word =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let Some(value) = rest.trim_start_matches(is_of_word).strip_prefix('=') else {
        return false;
    };
    let value = value.split(|letter| !is_of_word(letter)).next();
    value.is_some_and(|value| SWITCHED.contains(&value))
}

/// Whether a line asks for what the next one has.
fn is_prompt(line: &str, behind: &str) -> bool {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`)]}>*".contains(letter);
    let is_short = behind.len() <= PROMPT_BYTES_MAX;
    let ends = line
        .trim_end_matches(is_end)
        .ends_with([':', '\u{ff1a}', '?'])
        || line.ends_with(" is");
    let is_title = behind.trim_matches(is_end).is_empty()
        && line.len() <= PROMPT_BYTES_MAX
        && !line.contains('=');
    is_short && (ends || is_title) || line.contains("below") || line.contains("next line")
}

/// The odd words in a part of a line.
pub(super) fn words(line: &str, part: Range<usize>, all: &mut Vec<Found>) {
    let ends = |letter: char| {
        letter.is_whitespace() || "\"'`<>()[]{}|,;&=:/\\\u{201c}\u{201d}".contains(letter)
    };
    let mut from = part.start;
    for word in line[part].split_inclusive(ends) {
        let written = word.trim_end_matches(ends);
        let before = line[..from]
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        let is_path = before.starts_with(['/', '.', '~']) || before.contains("//");
        let is_public = || is_of_model(&line[..from], written, &line[from + written.len()..]);
        if !is_path && is_odd(written) && !is_public() {
            all.push(found(from..from + written.len()));
        }
        from += word.len();
    }
}

/// Whether a word is the owner or the name of a public model behind a key for one: `MODEL="meta/llama-3-8b"`.
fn is_of_model(before: &str, word: &str, behind: &str) -> bool {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)model(?:[_-]?(?:name|id))?[\x22'\\]*(?:=|:\s?| )[\x22'\\]*([a-z0-9][\w.-]*/)?$",
        )
        .ok()
    });
    let least = before.floor_char_boundary(before.len().saturating_sub(MODEL_BYTES_MAX));
    let Some(key) = KEY.as_ref().and_then(|key| key.captures(&before[least..])) else {
        return false;
    };
    // A token has longer parts of letters and digits than versions and sizes are.
    let is_plain = |part: &str| {
        let has_digit = part.bytes().any(|byte| byte.is_ascii_digit());
        part.len()
            <= if has_digit {
                SIZE_BYTES_MAX
            } else {
                PART_BYTES_MAX
            }
    };
    let is_name = word.split(['-', '_', '.']).all(is_plain);
    is_name && (key.get(1).is_some() && !behind.starts_with('/') || behind.starts_with('/'))
}

fn found(at: Range<usize>) -> Found {
    Found {
        what: "a word beside one that tells of a secret",
        at,
    }
}

/// Whether a word is no word of ours.
pub(super) fn is_odd(word: &str) -> bool {
    if let Some(rest) = behind_replaced_user(word) {
        return rest.split(['/', ':', '?', '&', '=', '#']).any(is_odd);
    }
    let word = word.trim_end_matches(['.', '!', '?']);
    // The parts of a scenario's file name: `8conn-1nic.toml`.
    if let Some(stem) = word.strip_suffix(".toml") {
        return stem.split(['-', '_']).any(is_odd);
    }
    let word = ENDINGS
        .iter()
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    let has_sign = word.bytes().any(|byte| b"%!#^&*~+".contains(&byte));
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    if word.len() < LETTERS_MIN
        || word.split('@').all(is_placeholder)
        || !word.is_ascii()
        || word.starts_with(['-', '$', '%'])
    {
        return false;
    }
    if !has_digit {
        let parts = word.split(|letter: char| !letter.is_ascii_alphabetic());
        return parts.flat_map(of_one_case).any(is_unseen);
    }
    let is_hex = word.len() >= HEX_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex || has_letter && (has_sign || is_given(word) || is_mixed(word))
}

/// What follows the user of a URL, if that was replaced: `https://SECRET@node1:8080/x`.
fn behind_replaced_user(word: &str) -> Option<&str> {
    let (_, behind) = word.split_once("://")?;
    let (user, rest) = behind.split_once('@')?;
    user.split(':').all(is_placeholder).then_some(rest)
}

/// Parts of a word of letters that begin with a capital: `DistBackendError`.
fn of_one_case(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.bytes().next()?;
        let is_upper = |byte: &u8| byte.is_ascii_uppercase();
        let capitals = rest.bytes().take_while(is_upper).count();
        let small = rest[capitals..]
            .bytes()
            .take_while(|byte| !is_upper(byte))
            .count();
        let length = if first.is_ascii_uppercase() && small == 0 {
            capitals
        } else {
            capitals + small
        };
        let (part, behind) = rest.split_at(length.max(1));
        rest = behind;
        Some(part)
    })
}

/// Whether a word of letters has triples that no word has.
fn is_unseen(word: &str) -> bool {
    word.len() >= LETTERS_MIN && unseen(word) >= UNSEEN_MIN
}

/// How many triples of a word's letters no word has.
pub(super) fn unseen(word: &str) -> usize {
    let lower = word.to_ascii_lowercase();
    let at = |byte: u8| usize::from(byte - b'a');
    let is_letters = |three: &&[u8]| three.iter().all(u8::is_ascii_lowercase);
    let triples = lower.as_bytes().windows(3).filter(is_letters);
    let unseen =
        triples.filter(|three| SEEN[at(three[0]) * 26 + at(three[1])] & 1 << at(three[2]) == 0);
    unseen.count()
}

/// Whether a capitalized word and a number are joined by a sign: `Xtqbzk-1234`.
fn is_mixed(word: &str) -> bool {
    let Some((letters, digits)) = word.split_once(['-', '_']) else {
        return false;
    };
    letters.len() >= 5
        && letters.starts_with(|letter: char| letter.is_ascii_uppercase())
        && digits.len() >= 4
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_shipped_scenarios_are_not_odd_and_a_secret_in_a_file_name_is() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files = std::fs::read_dir(folder).expect("scenarios").flatten();
        let names: Vec<String> = files
            .filter_map(|file| file.file_name().into_string().ok())
            .collect();
        assert!(names.iter().any(|name| name == "8conn-1nic.toml"));
        for name in names.iter().filter(|name| name.ends_with(".toml")) {
            assert!(!is_odd(name), "{name}");
            let line = format!("tcpxctl run {name} --set env.NCCL_API_KEY=SECRET");
            assert!(Above::default().find(&line).is_empty(), "{line}");
        }
        assert!(is_odd("aB3dE5fG7h.toml"));
    }

    #[test]
    fn a_setting_whose_value_is_replaced_is_no_header() {
        let mut above = Above::default();
        for line in [
            "| setting | effective | environment |",
            "|---|:---|---|",
            "| NCCL_AUTH_TOKEN | - | SECRET |",
            "| word0 | - | SECRET |",
            "| NCCL_OUT | - | gs://bucket0/ckpt |",
        ] {
            assert!(above.find(line).is_empty(), "{line}");
        }
        for lines in [
            ["| NAME | SECRET |", "|---|---|", "| a | aB3dE5fG7hJ |"].as_slice(),
            &["NAME  SECRET", "a  aB3dE5fG7hJ"],
            &[
                "|---|---|",
                "text",
                "| NAME | SECRET |",
                "| a | aB3dE5fG7hJ |",
            ],
        ] {
            let mut above = Above::default();
            let found = lines.iter().map(|line| above.find(line).len());
            assert_eq!(found.last(), Some(1), "{lines:?}");
        }
    }

    #[test]
    fn words_that_no_person_writes_are_odd() {
        for word in "qwvzxkpjrtbn Wordle%2024 bavzukemqira 3d29f0ffb4fd4406e92eaee687d4525235ae9648"
            .split(' ')
        {
            assert!(is_odd(word), "{word}");
        }
        for word in
            "authentication ProcessGroupNCCL credentials worker-12 NCCL_SOCKET_IFNAME SECRET rank0.log \
             https://SECRET@node1:8080/x"
                .split(' ')
        {
            assert!(!is_odd(word), "{word}");
        }
        for word in [
            "https://bob:aB3dE5fG7h@node1:8080/x",
            "https://SECRET@node1:8080/qwvzxkpjrtbn",
        ] {
            assert!(is_odd(word), "{word}");
        }
    }
}
