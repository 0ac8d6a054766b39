//! The words of a log that leaves the machine: those that are known stay, and a placeholder stands for every other.
//!
//! A line of a known form may hold anything in its message: a password, the name of a customer, a bucket. No wording
//! tells all of them. So only what logs of many sites have stays: listed words (`ordinary.rs`), numbers, and words too
//! short to tell anything. The same word gets the same placeholder everywhere, so that a line still says which of two
//! it means. No map has the words: the log itself has them, on the same lines.
//!
//! Not here: names and secrets that are found, which are replaced before.
#![forbid(unsafe_code)]

use super::Redactor;
use super::ordinary;
use std::collections::HashMap;
use std::ops::Range;

/// What stands for a word, with its number.
const PLACEHOLDER: &str = "word";
/// Most words with a number; all others share one more.
const NUMBERS_MAX: usize = 1 << 16;
/// Words that are shorter tell nothing, in letters.
const LETTERS_MIN: usize = 4;
/// Longest number in hexadecimal: an address.
const HEX_BYTES_MAX: usize = "0x0123456789abcdef".len();
/// Longest number in hexadecimal without a sign: the bus of a GPU.
const BUS_BYTES_MAX: usize = "c1000".len() + 1;
/// Longest unit behind a number.
const UNIT_BYTES_MAX: usize = 3;
/// Beginnings of the kernel's names of interfaces and devices.
const KERNEL_NAMES: [&str; 8] = ["en", "eth", "ib", "bond", "rdma", "pci", "uverbs", "umad"];
/// Signs that join the parts of one word. With one of the last and a digit, it is a password.
const JOINS: &str = "-_";
const ODD: &str = "!$%^";

/// The number of each word that a placeholder stands for.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<String, usize>,
    /// Whether all words stay.
    are_kept: bool,
}

impl Words {
    fn placeholder(&mut self, word: &str) -> String {
        let next = self.numbers.len();
        let number = match self.numbers.get(word) {
            Some(number) => *number,
            None if next < NUMBERS_MAX => *self.numbers.entry(word.to_owned()).or_insert(next),
            None => NUMBERS_MAX,
        };
        format!("{PLACEHOLDER}{number}")
    }
}

impl Redactor {
    /// Keeps all words of logs, known or not.
    pub fn keep_words(&mut self) {
        self.words.are_kept = true;
    }

    /// How many words of logs were replaced so far.
    pub fn unknown_words(&self) -> usize {
        self.words.numbers.len()
    }

    /// A redacted text of a log with a placeholder for every word that is not known.
    pub fn known_words(&mut self, text: &str) -> String {
        if self.words.are_kept {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for word in words(text) {
            if !is_known(&text[word.clone()]) {
                out.push_str(&text[from..word.start]);
                out.push_str(&self.words.placeholder(&text[word.clone()]));
                from = word.end;
            }
        }
        out + &text[from..]
    }
}

/// The words of a text: letters and digits with the signs between them.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let begin = from + text[from..].find(char::is_alphanumeric)?;
        let rest = &text[begin..];
        let is_part = |letter: char| {
            letter.is_alphanumeric() || JOINS.contains(letter) || ODD.contains(letter)
        };
        let whole = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        from = begin
            + whole
                .trim_end_matches(|letter: char| !letter.is_alphanumeric())
                .len();
        Some(begin..from)
    })
}

fn is_known(word: &str) -> bool {
    let is_odd = word.contains(|letter| ODD.contains(letter));
    if is_odd && word.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    word.split(|letter: char| !letter.is_alphanumeric())
        .all(is_known_part)
}

fn is_known_part(part: &str) -> bool {
    if part.chars().count() < LETTERS_MIN || part.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    if !part.is_ascii() {
        return part.chars().all(is_of_sentence);
    }
    is_number(part) || is_interface(part) || ordinary::is_of_logs(part)
}

/// Whether a number is written: in hexadecimal an address, a bus or a mask, a size with its unit, a time, the day behind
/// a level (`E1120`).
fn is_number(part: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let plain = part.bytes().filter(|byte| b"0fF".contains(byte)).count();
    let is_address = part.strip_prefix("0x").is_some_and(is_hex)
        || is_hex(part) && (part.len() <= BUS_BYTES_MAX || 2 * plain >= part.len());
    let unit = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_size = unit.len() < part.len()
        && unit.len() <= UNIT_BYTES_MAX
        && !unit.contains(|sign: char| sign.is_ascii_digit());
    let pair = part.trim_end_matches('s').split_once(['T', 'x', 'h', 'm']);
    let is_pair = pair.is_some_and(|(one, other)| is_digits(one) && is_digits(other));
    let day = part
        .strip_prefix(['E', 'F', 'I', 'W'])
        .filter(|day| is_digits(day));
    is_address && part.len() <= HEX_BYTES_MAX
        || is_size
        || is_pair
        || day.is_some_and(|day| matches!(day.len(), 4 | 8))
}

/// Whether a network interface or a device of the kernel is named: `enp195s0f0np0`, `rdmap16s27`, `bond0`.
fn is_interface(part: &str) -> bool {
    let numbers = |rest: &str| {
        rest.bytes()
            .all(|byte| byte.is_ascii_digit() || b"pPsfdnvo".contains(&byte))
    };
    KERNEL_NAMES
        .iter()
        .any(|begin| part.strip_prefix(begin).is_some_and(numbers))
}

/// Whether a letter is of a script that writes sentences without spaces, whose words are not told apart.
fn is_of_sentence(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}')
        || letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_random_word_never_stays(
            before in "(NCCL WARN |key=|/data/|\"|[^a-zA-Z0-9_!$%^-]{0,3})",
            word in "[a-z]{3}[A-Z]{3}[0-9]{2}[a-z]{3}[0-9]|[g-z]{2}[0-9][g-z]{2}[0-9]{3}[g-z]{2}",
            behind in "( failed|/x|,|[^a-zA-Z0-9_!$%^-]{0,3})",
        ) {
            let left = Redactor::default().known_words(&format!("{before}{word}{behind}"));
            prop_assert!(!left.contains(&word), "{left}");
            prop_assert_eq!(Redactor::default().known_words(&left), left);
        }
    }

    #[test]
    fn a_word_that_no_list_has_leaves_as_a_placeholder() {
        let all = [
            ("auth bob hunter2x failed", "auth bob word0 failed"),
            (
                "key CNhk6hvJNLd/8iYRXiuQkEGE= of kalomi-gpu3",
                "key word0/word1= of word2",
            ),
            (
                "rank1024: kalomi, vexuno and kalomi",
                "rank1024: word0, word1 and word0",
            ),
            ("Harbor!77 50% (3/8)", "word0 50% (3/8)"),
            ("密码是 kalomivexu 连接失败", "密码是 word0 连接失败"),
            (
                "enp195s0f0np0 4b000 E1120 20T08 1800000ms 00000000ffff1a00",
                "enp195s0f0np0 4b000 E1120 20T08 1800000ms 00000000ffff1a00",
            ),
            (
                "0xdeadbeef00 0x3d29f0ffb4fd4406e92eaee687d4525235ae9648",
                "0xdeadbeef00 word0",
            ),
        ];
        for (text, expected) in all {
            assert_eq!(Redactor::default().known_words(text), expected);
        }
    }

    #[test]
    fn placeholders_are_known_words() {
        let text = "node0:71:79 [3] NCCL INFO user1 SECRET email2 198.18.0.3:4242 word17 02:00:00:00:00:01 project0";
        assert_eq!(Redactor::default().known_words(text), text);
    }
}
