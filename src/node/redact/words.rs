//! The words of a log that leaves the machine: those that are known stay, and a placeholder stands for every other.
//!
//! A line of a known form may hold anything in its message: a password, the name of a customer, a bucket. No wording
//! tells all of them. So only what logs of many sites have stays: listed words (`ordinary.rs`), numbers, and words too
//! short to tell anything. The same word gets the same placeholder everywhere, so that a line still says which of two
//! it means. No map has the words: the log itself has them, on the same lines.
//!
//! The words of a scenario stand in many other texts of a run, in its id and in names of files and variables. They are
//! learned, and replaced wherever they stand.
//!
//! Not here: names and secrets that are found, which are replaced before.
#![forbid(unsafe_code)]

use super::{
    FOLDER_PLACEHOLDER, MAIL_PLACEHOLDER, NAME_BYTES_MAX, NAMES_MAX, Redactor, chosen, han,
    listings, ordinary,
};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What stands for a word, with its number.
const PLACEHOLDER: &str = "word";
/// Most words with a number; all others share one more.
const NUMBERS_MAX: usize = 1 << 16;
/// Words that are shorter tell nothing, in letters.
const LETTERS_MIN: usize = 4;
/// Shortest beginning of a name that a cut name of a file is known by.
const CUT_BYTES_MIN: usize = 12;
/// Longest number in hexadecimal: an address.
const HEX_BYTES_MAX: usize = "0x0123456789abcdef".len();
/// Longest number in hexadecimal without a sign: the bus of a GPU.
const BUS_BYTES_MAX: usize = "c1000".len() + 1;
/// Longest unit behind a number.
const UNIT_BYTES_MAX: usize = 3;
/// Beginnings of the kernel's names of interfaces and devices.
const KERNEL_NAMES: [&str; 8] = ["en", "eth", "ib", "bond", "rdma", "pci", "uverbs", "umad"];
/// Signs that join the parts of one word.
const JOINS: &str = "-_";
/// Signs that join the parts too, and that passwords have. A word with a digit and two of them is a password.
const ODD: &str = "!$%^~#*&?@+|";
/// Of these, one beside a digit is enough.
const ODDEST: &str = "!$%^~";
/// Signs between the parts of paths, addresses and numbers.
const OF_PATHS: &str = "._-/:";
/// Size of a word that is made of short parts and signs, as passwords are.
const MIXED_BYTES: std::ops::RangeInclusive<usize> = 8..=64;
/// Longest of its parts.
const MIXED_PART_MAX: usize = 4;
/// Shortest token of short parts with signs side by side, and its longest part.
const TOKEN_BYTES_MIN: usize = 16;
const LONG_PART_MAX: usize = 8;
/// Fewest parts with digits and letters of both cases that no name has.
const PARTS_OF_ALL_KINDS: usize = 2;
/// Ends of names of exceptions, which stay: they tell that a line is one.
const ENDS: [&str; 8] = [
    "Error",
    "Exception",
    "Warning",
    "Interrupt",
    "Timeout",
    "Failure",
    "Fault",
    "Exit",
];

/// Keys of this program's files whose value is the name of a scenario or a run.
const TITLED: [&str; 3] = ["id", "name", "scenario"];

/// What stands, with a number behind it, for words and names.
const PLACEHOLDERS: [&str; 10] = [
    PLACEHOLDER,
    MAIL_PLACEHOLDER,
    FOLDER_PLACEHOLDER,
    "node",
    "user",
    "project",
    "bucket",
    "container",
    "namespace",
    "machine",
];

/// The number of each word that a placeholder stands for.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<String, usize>,
    /// Known words that are replaced wherever they stand: names that someone chose.
    chosen: HashSet<String>,
    /// Names of one ordinary word, each with its placeholder: replaced as the whole value of a key for names.
    titles: HashMap<String, String>,
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
        let end = ENDS.iter().find(|end| is_camel_before(word, end));
        match end {
            Some(end) => format!("Word{number}{end}"),
            None => format!("{PLACEHOLDER}{number}"),
        }
    }
}

/// Whether a placeholder stands for a word.
pub(super) fn is_placeholder(text: &str) -> bool {
    let behind = text
        .strip_prefix(PLACEHOLDER)
        .or_else(|| text.strip_prefix("Word"));
    behind.is_some_and(|behind| behind.starts_with(|letter: char| letter.is_ascii_digit()))
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

    /// A text of another program: redacted, and with its known words only.
    pub fn redact_foreign(&mut self, text: &str) -> String {
        let redacted = self.redact(text);
        self.known_words(&redacted)
    }

    /// Adds the unknown words of a text of the user, which are replaced in every text from now on.
    pub fn learn_words(&mut self, text: &str) {
        if self.words.are_kept {
            return;
        }
        let redacted = self.redact(text);
        for word in words(&redacted) {
            self.learn_word(&redacted[word.clone()], &redacted[word]);
        }
    }

    /// As [`Redactor::learn_words`], for a name that names of files have with other signs, or only its beginning.
    pub fn learn_name_in_files(&mut self, name: &str) {
        if self.words.are_kept {
            return;
        }
        let of_file: String = name
            .chars()
            .map(
                |letter| match letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                    true => letter,
                    false => '-',
                },
            )
            .collect();
        let whole = self.redact(&of_file);
        for word in words(&whole) {
            let word = &whole[word];
            if is_known(word) {
                continue;
            }
            self.learn_word(word, word);
            let ends = word.char_indices().map(|(end, _)| end);
            for end in ends.skip(CUT_BYTES_MIN).take(NAME_BYTES_MAX) {
                self.learn_word(&word[..end], word);
            }
        }
        self.learn_words(name);
    }

    /// Adds the name of a scenario or a run that consists of known words, and the id of the run, which may end with it.
    /// Words that are joined are replaced wherever they stand together, one word only where names stand.
    pub fn learn_title(&mut self, name: &str, id: &str) {
        if self.words.are_kept || name.len() < LETTERS_MIN || words(name).count() == 0 {
            return;
        }
        let redacted = self.redact(name);
        if redacted != name {
            return;
        }
        let placeholder = self.words.placeholder(name);
        let is_one = name.chars().all(char::is_alphanumeric);
        if !is_one {
            self.learn_as(name, &placeholder);
        }
        self.learn_as(&format!("{name}.toml"), &format!("{placeholder}.toml"));
        if let Some(stamp) = id.strip_suffix(name) {
            self.learn_as(id, &format!("{stamp}{placeholder}"));
        }
        self.words.titles.insert(name.to_owned(), placeholder);
    }

    fn learn_as(&mut self, name: &str, placeholder: &str) {
        if self.names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX {
            let lower = name.to_ascii_lowercase();
            self.names.insert(lower, placeholder.to_owned());
            self.finder = None;
        }
    }

    /// The placeholder of a name that is the whole value of a key.
    pub(super) fn title(&self, key: &str, value: &str) -> Option<&String> {
        let is_of_name = TITLED.contains(&key);
        self.words.titles.get(value).filter(|_| is_of_name)
    }

    /// Adds a word, with the placeholder of the word that it is the beginning of.
    fn learn_word(&mut self, word: &str, of: &str) {
        let lower = word.to_ascii_lowercase();
        let is_full = self.names.len() >= NAMES_MAX || word.len() > NAME_BYTES_MAX;
        if is_known(word) || is_full || self.names.contains_key(&lower) {
            return;
        }
        let placeholder = self.words.placeholder(of);
        self.names.insert(lower, placeholder);
        self.finder = None;
    }

    /// A redacted text of a log with a placeholder for every word that is not known.
    pub fn known_words(&mut self, text: &str) -> String {
        if self.words.are_kept {
            return text.to_owned();
        }
        for word in words(text) {
            let name = &text[word.clone()];
            if chosen::is_certain(name)
                && self.words.chosen.len() < NUMBERS_MAX
                && is_name(text, word)
            {
                self.words.chosen.insert(name.to_owned());
            }
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        let mut listed = listings::names(text).into_iter().peekable();
        for word in words(text) {
            while listed.next_if(|cell| cell.end <= word.start).is_some() {}
            let mut is_listed = || listed.peek().is_some_and(|cell| cell.start < word.end);
            let name = &text[word.clone()];
            let stays = is_known(name) && !self.words.chosen.contains(name);
            let is_title = || {
                let is_entry = text[..word.start].ends_with("name = \"");
                is_entry
                    && text[word.end..].starts_with('"')
                    && self.words.titles.contains_key(name)
            };
            let is_cell = is_listed() && chosen::tells(name) && !is_replaced(name);
            if !stays || is_title() || is_cell || is_name(text, word.clone()) {
                push_apart(&mut out, &text[from..word.start]);
                push_apart(&mut out, &self.words.placeholder(&text[word.clone()]));
                from = word.end;
            }
        }
        push_apart(&mut out, &text[from..]);
        out
    }
}

/// Adds a text, which would be another word if it followed letters at once: beside Chinese words, others need no space.
fn push_apart(out: &mut String, text: &str) {
    let is_of_word = |letter: char| letter.is_alphanumeric() && !han::is_han(letter);
    if out.ends_with(is_of_word) && text.starts_with(is_of_word) {
        out.push('_');
    }
    out.push_str(text);
}

/// Whether a name in one word, with its first letter as a capital, ends so.
fn is_camel_before(word: &str, end: &str) -> bool {
    let before = word.strip_suffix(end).unwrap_or_default();
    before.starts_with(|letter: char| letter.is_ascii_uppercase())
        && before.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The words of a text: letters and digits with the signs between them. Chinese ones stand alone.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut from, mut gap) = (0, 0);
    std::iter::from_fn(move || {
        // A password may begin with a sign and have signs in it that end words elsewhere.
        if from >= gap {
            let begin = from + text[from..].find(|letter: char| !letter.is_whitespace())?;
            let end = text[begin..].find(char::is_whitespace);
            gap = end.map_or(text.len(), |length| begin + length);
            from = begin;
            if is_mixed(&text[begin..gap]) {
                from = gap;
                return Some(begin..gap);
            }
        }
        let Some(first) = text[from..gap].find(char::is_alphanumeric) else {
            from = gap;
            return Some(gap..gap);
        };
        let begin = from + first;
        let rest = &text[begin..gap];
        let chinese = rest.starts_with(han::is_han);
        let is_part = |letter: char| match han::is_han(letter) {
            true => chinese,
            false => {
                !chinese
                    && (letter.is_alphanumeric() || JOINS.contains(letter) || ODD.contains(letter))
            }
        };
        let whole = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        let word = whole.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        from = begin + word.len();
        Some(begin..from)
    })
}

/// Whether short parts of letters and digits are joined by signs of several kinds: `aB3=x9,k(Q`.
fn is_mixed(token: &str) -> bool {
    // The first of several settings in brackets: `(pid=71,`.
    let setting = token.trim_start_matches('(').trim_end_matches([',', ')']);
    let is_setting = setting.split_once('=').is_some_and(|(key, value)| {
        key.bytes().all(|byte| byte.is_ascii_lowercase()) && is_digits(value)
    });
    if is_setting || !MIXED_BYTES.contains(&token.len()) || !token.is_ascii() {
        return false;
    }
    let signs = || {
        let bytes = token.bytes();
        bytes.filter(|byte| byte.is_ascii_punctuation() && !OF_PATHS.contains(char::from(*byte)))
    };
    let mut kinds: Vec<u8> = signs().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let has = |is: fn(&u8) -> bool| token.bytes().any(|byte| is(&byte));
    let (upper, lower) = (has(u8::is_ascii_uppercase), has(u8::is_ascii_lowercase));
    let is_long = |part: &str| {
        part.len() > MIXED_PART_MAX
            || part.len() >= LETTERS_MIN && ordinary::is_of_logs(part) && !is_digits(part)
    };
    let mut parts = token.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_plain = |part: &str| part.len() > 2 && is_digits(part);
    let has_digit = has(u8::is_ascii_digit);
    let is_shown = match kinds.len() > 2 {
        true => has_digit && (upper || lower) || upper && lower,
        false => has_digit && signs().count() > 1 && upper && lower,
    };
    is_shown && !parts.any(|part| is_long(part) || is_plain(part))
}

/// Whether a known word stands where a name does, and is no placeholder of one.
fn is_name(text: &str, word: Range<usize>) -> bool {
    !is_replaced(&text[word.clone()]) && chosen::is_name(text, word)
}

/// Whether a word consists of placeholders.
pub(super) fn is_replaced(word: &str) -> bool {
    word.split(['-', '_']).all(|part| {
        let kind = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        kind.len() < part.len() && PLACEHOLDERS.contains(&kind)
    })
}

fn is_known(word: &str) -> bool {
    // What is left of an IPv6 address with its interface: `1%eth1`.
    if let Some((end, interface)) = word.split_once('%')
        && end.len() <= UNIT_BYTES_MAX + 1
        && end.bytes().all(|byte| byte.is_ascii_hexdigit())
        && is_interface(interface)
    {
        return true;
    }
    let odd = word.matches(|letter| ODD.contains(letter)).count();
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_cased = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_odd = odd > 1 || word.contains(|letter| ODDEST.contains(letter));
    if is_odd && has(u8::is_ascii_digit) || odd > 1 && is_cased || is_mixed(word) || is_token(word)
    {
        return false;
    }
    word.split(|letter: char| !letter.is_alphanumeric())
        .all(is_known_part)
}

/// Whether short parts are joined as in a token, with digits and letters of both cases: two signs are side by side, or
/// parts have all of these.
fn is_token(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let mut parts = word.split(|letter: char| JOINS.contains(letter));
    let is_of_all_kinds = |part: &&str| {
        let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
        has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
    };
    let of_all_kinds = parts.clone().filter(is_of_all_kinds).count();
    let is_double = |two: &[u8]| two.iter().all(|byte| b"-_".contains(byte));
    word.len() >= TOKEN_BYTES_MIN
        && parts.all(|part| part.len() <= LONG_PART_MAX)
        && (word.as_bytes().windows(2).any(is_double) || of_all_kinds >= PARTS_OF_ALL_KINDS)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

fn is_known_part(part: &str) -> bool {
    if part.starts_with(han::is_han) {
        return han::is_known(part);
    }
    if !part.is_ascii() {
        // A unit: `\u{b5}s`.
        return part.chars().count() < LETTERS_MIN - 1;
    }
    part.len() < LETTERS_MIN
        || is_digits(part)
        || is_number(part)
        || is_interface(part)
        || ordinary::is_of_logs(part) && !is_jumble(part)
}

/// Whether letters and digits are mixed as in passwords: `7DgHPY`, `qu1nc3`. Dimensions are not (`8x8x8`), nor what is
/// listed.
fn is_jumble(part: &str) -> bool {
    let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
    let mut runs = ordinary::runs(part);
    let changes = part.as_bytes().windows(2);
    let changes = changes.filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit());
    let is_cased = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_sizes = part
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'x');
    part.len() > LETTERS_MIN
        && has(u8::is_ascii_digit)
        && (is_cased && runs.all(|run| run.len() < LETTERS_MIN) || changes.count() > 2)
        && !is_sizes
        && !ordinary::is_listed_of_logs(part)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a number is written: in hexadecimal an address, a bus or a mask, a size with its unit, a time, the day behind
/// a level (`E1120`).
fn is_number(part: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let plain = part.bytes().filter(|byte| b"0fF".contains(byte)).count();
    // With the type that C writes behind it: `0x1fULL`.
    let of_address = part.strip_prefix("0x");
    let is_address = of_address.is_some_and(|part| is_hex(part.trim_end_matches(['U', 'L'])))
        || is_hex(part) && (part.len() <= BUS_BYTES_MAX || 2 * plain >= part.len());
    let unit = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_size = unit.len() < part.len()
        && unit.len() <= UNIT_BYTES_MAX
        && !unit.contains(|sign: char| sign.is_ascii_digit());
    let pair = part
        .trim_end_matches(['s', 'Z'])
        .split_once(['T', 'x', 'h', 'm']);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_random_word_never_stays(
            before in "(NCCL WARN |key=|--job-name |cluster=|/data/|\"|[^a-zA-Z0-9_!$%^-]{0,3})",
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
            ("连接kalomivexu失败", "连接word0失败"),
            ("连接 枫林客户 失败", "连接 word0 失败"),
            ("ключница хранилище", "word0 word1"),
            ("key k%7Gx@2#Q1 and aB3=x9,k(Q", "key word0 and word1"),
            (
                "login 7DgHPY.tRQ5v, qu1nc3@57, cdh_RrnHX~ep%NWr 8x8x8 h100 e4m3fn",
                "login word0.word1, word2, word3 8x8x8 h100 e4m3fn",
            ),
            (
                "ZorblattError: cfg#3 3[3] 0/-1/-1->1->0",
                "Word0Error: cfg#3 3[3] 0/-1/-1->1->0",
            ),
            (
                "enp195s0f0np0 4b000 E1120 20T08 1800000ms 00000000ffff1a00",
                "enp195s0f0np0 4b000 E1120 20T08 1800000ms 00000000ffff1a00",
            ),
            ("the id is a-__V1o2-c3a_t-P____gQU6", "the id is word0"),
            ("0x1f00ULL", "0x1f00ULL"),
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
        for text in [
            "node0:71:79 [3] NCCL INFO user1 SECRET email2 198.18.0.3:4242 word17 02:00:00:00:00:01 project0",
            "--job-name word3 cluster=node0 account=user1 job=word1-word2 team=SECRET project bucket0 \"workspace\": \"project7\"",
        ] {
            assert_eq!(Redactor::default().known_words(text), text);
        }
    }
}
