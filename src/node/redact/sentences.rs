//! Secrets in sentences and messages: `the password is VALUE`, `password 'VALUE' rejected`,
//! `IDENTIFIED BY 'VALUE'`, and the same in other languages.
//!
//! A sentence about a password seldom holds one, so only a word that looks chosen is a secret.
#![forbid(unsafe_code)]

use super::keys::is_chosen;
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Words for a secret that are no names of ASCII letters, or that have other meanings alone.
const PHRASES: [&str; 17] = [
    "identified by",
    "IDENTIFIED BY",
    "Passwort",
    "passwort",
    "Kennwort",
    "kennwort",
    "mot de passe",
    "Mot de passe",
    "contraseña",
    "Contraseña",
    "пароль",
    "Пароль",
    "密码",
    "口令",
    "令牌",
    "密钥",
    "パスワード",
];
/// Most words between the name of a secret and its value.
const WORDS_MAX: usize = 6;
/// Most bytes between them.
const BYTES_MAX: usize = 160;

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(PHRASES).ok());

/// The places of values behind the words of `PHRASES`, in order.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    let Some(finder) = &*FINDER else { return };
    let phrases = finder.find_iter(text);
    places.extend(phrases.filter_map(|phrase| chosen_behind(text, phrase.end())));
}

/// The first word that looks chosen among the next words of the line.
pub(super) fn chosen_behind(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let most = rest.floor_char_boundary(BYTES_MAX.min(rest.len()));
    let line = rest[..most].split(['\n', '\r', '\0']).next()?;
    // A word that begins at the bound is cut there, and is read to its end.
    let mut begin = 0;
    let mut words = 0;
    while words < WORDS_MAX && begin < line.len() {
        let gap = line[begin..].find(|letter| !ends_word(letter))?;
        let from = begin + gap;
        let length = rest[from..].find(ends_word).unwrap_or(rest.len() - from);
        let word = rest[from..from + length].trim_end_matches(['.', ':', '!', '?', ']', '}']);
        if is_chosen(word) {
            return Some(at + from..at + from + word.len());
        }
        // The sentence ends; dots alone lead to the value.
        if !word.is_empty() && rest[from..from + length].ends_with('.') {
            return None;
        }
        begin = from + length;
        words += 1;
    }
    None
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace()
        || "\"'`<>()|,;=\\\0\u{1b}：＝为是は".contains(letter)
        || (!letter.is_ascii() && !letter.is_alphanumeric())
}
