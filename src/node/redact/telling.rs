//! Lines that tell of a password, a key or another secret: of their words, only ordinary ones stay. The
//! same holds for the line behind a prompt, such as `Your API key is:`.
//!
//! So no wording has to be known. A password that is an ordinary word is not found.
//!
//! Not here: names of secrets with a sign and a value, which `pairs.rs` finds.
#![forbid(unsafe_code)]

use super::keys::{self, FOREIGN, is_absent};
use super::ordinary::is_ordinary;
use super::printed;
use std::ops::Range;

/// Names that only a secret has, in lower case. `key`, `token` and `pass` are also other things.
const STRONG: [&str; 12] = [
    "assword",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "creds",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "authtoken",
];
/// Words of which one stands before `key`, `token` or `code`.
const BEFORE: [&str; 21] = [
    "api", "access", "secret", "private", "auth", "account", "bearer", "login", "session", "admin",
    "license", "registry", "personal", "hub", "vault", "refresh", "root", "unseal", "deploy",
    "join", "shared",
];
/// Beginnings of variables whose name is no secret.
const SETTINGS: [&str; 9] = [
    "NCCL_", "CUDA_", "TCPX", "GLOO_", "TORCH_", "SLURM_", "OMPI_", "UCX_", "NVIDIA_",
];
/// Words that say that a value follows on the next line.
const FOLLOWS: [&str; 5] = ["below", "next line", "follows", "following", "as above"];
/// Beginnings of commands that print a secret that they name.
const PRINTS: [&str; 7] = [
    "cat ",
    "echo $",
    "echo \"$",
    "printenv ",
    "print(os.environ",
    "os.environ",
    "pass show ",
];
/// Most bytes of a line before and behind a name.
const BEFORE_BYTES_MAX: usize = 160;
const BEHIND_BYTES_MAX: usize = 240;
/// Most bytes between a name and the end of a prompt, and most words of a prompt without a sign.
const PROMPT_BYTES_MAX: usize = 64;
const TITLE_WORDS_MAX: usize = 4;

/// Whether a name that stands for a secret, or the word before it, makes the line tell of one.
pub(super) fn is_strong(before: &str, name: &str) -> bool {
    // The placeholder, also behind the end of an escape: `%3DSECRET`.
    if name.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()) == super::SECRET {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let is_second = matches!(name.as_str(), "key" | "keys" | "token" | "tokens" | "code");
    is_second && is_behind_first(before)
        || !name.is_ascii()
        || STRONG
            .iter()
            .chain(&FOREIGN)
            .any(|strong| name.contains(strong))
}

/// Whether a word that makes a secret of the next one ends a text.
fn is_behind_first(before: &str) -> bool {
    let word = before.trim_end_matches([' ', '-', '_']);
    let last = word.rsplit(|letter: char| !letter.is_alphanumeric()).next();
    let is_first = |last: &str| BEFORE.iter().any(|first| last.eq_ignore_ascii_case(first));
    word.len() < before.len() && last.is_some_and(is_first)
}

/// Whether a line is a command behind the prompt of a shell or of Python, and prints a variable or a file.
pub(super) fn is_printed(line: &str) -> bool {
    let python = line.strip_prefix(">>> ");
    let command = python.or_else(|| printed::command(line));
    command.is_some_and(|command| {
        PRINTS
            .iter()
            .any(|print| command.starts_with(print.trim_end()))
    })
}

/// The words that may be secrets on the line of a name, and on the next one if this one asks for it.
pub(super) fn around(
    text: &str,
    name: &Range<usize>,
    from: usize,
    places: &mut Vec<Range<usize>>,
) -> usize {
    let begin = line_begin(text, name.start).max(from);
    let end = line_end(text, name.end);
    words(text, begin..end, places);
    if !is_prompt(&text[begin..end], &text[name.end..end]) {
        return end;
    }
    below(text, end, places).unwrap_or(end)
}

/// The words that may be secrets on the first line with a word behind `at`.
fn below(text: &str, at: usize, places: &mut Vec<Range<usize>>) -> Option<usize> {
    let mut from = at;
    for _ in 0..2 {
        from += line_break(&text[from..])?;
        let end = line_end(text, from);
        let line = &text[from..end];
        if line.trim().is_empty() {
            from = end;
            continue;
        }
        if !is_entry(line) {
            words(text, from..end, places);
        }
        return Some(end);
    }
    None
}

/// Whether a line is another key with its value, or the beginning of a section.
fn is_entry(line: &str) -> bool {
    let key = line
        .trim_start_matches([' ', '-', '"', '\''])
        .split(':')
        .next()
        .unwrap_or_default();
    let behind = line.split_once(':').map(|(_, behind)| behind);
    let is_key = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-\"'.".contains(&byte));
    is_key && behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(' '))
}

/// Whether a line asks for what the next one has: it ends with a colon near the name, has nothing but a
/// few words and the name, or says that something follows.
fn is_prompt(line: &str, behind: &str) -> bool {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`)]}>|*\\".contains(letter);
    let trimmed = line.trim_end_matches(is_end);
    let is_near = behind.len() <= PROMPT_BYTES_MAX;
    let lower = line.to_ascii_lowercase();
    let is_title = behind.trim_matches(is_end).is_empty()
        && line.split_whitespace().count() <= TITLE_WORDS_MAX
        && !line.contains(['=', '/', '.']);
    // `cat password.txt` prints it.
    let command = line.trim_start_matches(['$', '#', '+', ' ']);
    let is_printed = command.starts_with("cat ") || is_printed(line);
    is_near
        && (is_printed
            || is_title
            || trimmed.ends_with([':', '\u{ff1a}', '=', '?'])
            || trimmed.ends_with(" is"))
        || FOLLOWS.iter().any(|word| lower.contains(word))
}

/// The begin of the line of a byte; a line may end with an escape inside a string.
fn line_begin(text: &str, at: usize) -> usize {
    let least = text.floor_char_boundary(at.saturating_sub(BEFORE_BYTES_MAX));
    let before = &text[least..at];
    let end = before.rfind(['\n', '\r', '\0']).map_or(0, |end| end + 1);
    let escape = before.rfind("\\n").map_or(0, |end| end + 2);
    let begin = least + end.max(escape);
    // A word that the bound cuts is left out.
    match begin == least && least > 0 {
        true => {
            begin
                + text[begin..at]
                    .find(char::is_whitespace)
                    .unwrap_or(at - begin)
        }
        false => begin,
    }
}

fn line_end(text: &str, at: usize) -> usize {
    let most = text.floor_char_boundary((at + BEHIND_BYTES_MAX).min(text.len()));
    let behind = &text[at..most];
    let end = behind.find(['\n', '\r', '\0']).unwrap_or(behind.len());
    let escape = behind.find("\\n").unwrap_or(end);
    let end = at + end.min(escape);
    // A word that begins at the bound is read to its end.
    match end == most {
        true => {
            end + text[end..]
                .find(|letter: char| letter.is_whitespace() || "\\\0\"".contains(letter))
                .unwrap_or(text.len() - end)
        }
        false => end,
    }
}

/// The length of the line end at the beginning of a text.
fn line_break(text: &str) -> Option<usize> {
    let ends = ["\r\n", "\n", "\r", "\\r\\n", "\\n"];
    ends.iter()
        .find(|end| text.starts_with(**end))
        .map(|end| end.len())
}

/// The words of a line that are not ordinary.
pub(super) fn words(text: &str, line: Range<usize>, places: &mut Vec<Range<usize>>) {
    let ends = |letter: char| {
        letter.is_whitespace()
            || "\"'`<>()[]{}|,;=&\\\0\u{1b}:/".contains(letter)
            || (!letter.is_ascii() && !letter.is_alphanumeric())
    };
    let mut from = line.start;
    let mut path = Path::before(text, from);
    for word in text[line].split_inclusive(ends) {
        let written = word.trim_end_matches(ends);
        let is_kept = written.is_empty()
            || path.begin < from && path.is_path(text)
            || is_absent(written)
            || is_option(written)
            || is_setting(written)
            || !written.is_ascii()
            // The name of a secret.
            || (keys::is_variable(written) || written.bytes().all(|byte| byte.is_ascii_uppercase()))
                && keys::is_secret(written)
            || is_ordinary(written);
        if !is_kept {
            let inner = written.trim_end_matches(['.', '!', '?']);
            places.push(from..from + inner.len());
        }
        path.pass(text, from..from + word.len());
        from += word.len();
    }
}

/// Whether a word is the name of a variable of NCCL, CUDA or a launcher.
fn is_setting(word: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    SETTINGS.iter().any(|prefix| word.starts_with(prefix)) && word.bytes().all(is_of_name)
}

/// Whether an option with its value is written as one ordinary word: `-uroot`.
fn is_option(word: &str) -> bool {
    let rest = word.strip_prefix('-').unwrap_or_default();
    rest.is_char_boundary(1) && rest.len() > 1 && is_ordinary(&rest[1..])
}

/// What stands before a word, up to a space or a quote. It may be as long as the line.
struct Path {
    begin: usize,
    has_slashes: bool,
}

impl Path {
    fn before(text: &str, at: usize) -> Self {
        let end = text.as_bytes()[..at]
            .iter()
            .rposition(|byte| ends_path(*byte));
        let begin = end.map_or(0, |end| end + 1);
        Self {
            begin,
            has_slashes: text[begin..at].contains("//"),
        }
    }

    /// Goes on over a word.
    fn pass(&mut self, text: &str, word: Range<usize>) {
        let bytes = &text.as_bytes()[word.clone()];
        if let Some(end) = bytes.iter().rposition(|byte| ends_path(*byte)) {
            *self = Self {
                begin: word.start + end + 1,
                has_slashes: false,
            };
        }
        // The first of two slashes may end the word before.
        let from = self.begin.max(word.start.saturating_sub(1));
        self.has_slashes |= text[from..word.end].contains("//");
    }

    /// Whether the next word is a folder of an absolute path or of an address.
    fn is_path(&self, text: &str) -> bool {
        self.has_slashes || text[self.begin..].starts_with(['/', '~', '.'])
    }
}

fn ends_path(byte: u8) -> bool {
    !byte.is_ascii_graphic() || b"\"'`=([,:".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_is_of_a_path_if_what_stands_before_it_is_one(
            words in prop::collection::vec(prop::sample::select(vec![
                "a", "/", "//", ":", " ", "~", ".", "\u{e9}", "=", "http:", ";",
            ]), 1..20),
        ) {
            let text = words.concat();
            let mut path = Path::before(&text, 0);
            let mut at = 0;
            for word in words {
                let before = text[..at].bytes().rev().take_while(|byte| !ends_path(*byte));
                let before = &text[at - before.count()..at];
                let is_path = before.starts_with(['/', '~', '.']) || before.contains("//");
                prop_assert_eq!(at > path.begin && path.is_path(&text), is_path);
                path.pass(&text, at..at + word.len());
                at += word.len();
            }
        }
    }
}
