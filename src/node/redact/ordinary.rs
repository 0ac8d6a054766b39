//! Which words are ordinary: those that documentation, headers and logs have
//! (`probes/node/redact/words.txt`), alone, joined by signs or capitals, and beside small numbers;
//! numbers, times and measures; paths.
//!
//! A log has more words that tell nothing of who wrote it: those of `probes/node/redact/log-words.txt`, which
//! [`is_of_logs`] knows too.
//!
//! Not here: where only such words are kept. `telling.rs`, `tables.rs` and `words.rs` decide that.
#![forbid(unsafe_code)]

use super::keys::is_chosen;
use std::collections::HashSet;
use std::sync::LazyLock;

const WORDS: &str = include_str!("../../../probes/node/redact/words.txt");
const LOG_WORDS: &str = include_str!("../../../probes/node/redact/log-words.txt");
/// Shorter words are ordinary.
const BYTES_MIN: usize = 4;
/// Shortest word that is told from one that was drawn at random.
const UNKNOWN_BYTES_MIN: usize = 8;
/// The same, of one with letters of both cases.
const MIXED_BYTES_MIN: usize = 6;
/// More letters than two words that are listed have, with their ends. Each part of a word is looked up.
const KNOWN_BYTES_MAX: usize = 64;
/// Longest number behind a word, as in `worker12`.
const DIGITS_MAX: usize = 3;
/// Longest number behind the name of what is counted, as in `rank1024`.
const COUNT_DIGITS_MAX: usize = 9;
/// What is counted in a job.
const COUNTED: [&str; 24] = [
    "rank",
    "node",
    "worker",
    "task",
    "step",
    "epoch",
    "iter",
    "iteration",
    "channel",
    "comm",
    "group",
    "proc",
    "process",
    "thread",
    "layer",
    "stage",
    "shard",
    "host",
    "device",
    "port",
    "line",
    "job",
    "global",
    "local",
];
/// Longest word that is short, and fewest runs of letters or digits of one that was drawn at random.
const DRAWN_BYTES_MAX: usize = 8;
const DRAWN_RUNS_MIN: usize = 3;
/// Beginnings of names of devices: `enp0s3`.
const DEVICES: [&str; 5] = ["eth", "en", "ib", "mlx", "gpu"];
/// Beginnings of words that are written as one with another word.
const BEFORE: [&str; 14] = [
    "lib", "get", "set", "pre", "sub", "non", "un", "re", "dis", "net", "tcp", "gpu", "mem", "mis",
];
/// Ends of forms of a word, and what the word ends with instead.
const FORMS: [(&str, &str); 15] = [
    ("s", ""),
    ("es", ""),
    ("ed", ""),
    ("d", ""),
    ("ing", ""),
    ("ing", "e"),
    ("ly", ""),
    ("er", ""),
    ("ers", ""),
    ("r", ""),
    ("rs", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("ation", "e"),
    ("ment", ""),
];

/// Words that are listed.
struct Vocabulary(HashSet<&'static str>);

static ORDINARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(&[WORDS]));
static OF_LOGS: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(&[WORDS, LOG_WORDS]));

/// Whether a word, which has no white space, is ordinary.
pub(super) fn is_ordinary(word: &str) -> bool {
    let word =
        word.trim_matches(|letter: char| !letter.is_alphanumeric() && !"/~$<".contains(letter));
    if word.len() < BYTES_MIN || is_number(word) {
        return true;
    }
    let begins = ["/", "~/", "$", "<", "0x"];
    if begins.iter().any(|begin| word.starts_with(begin)) {
        return true;
    }
    // Signs of passwords, not of identifiers.
    let is_odd = word.bytes().any(|byte| b"%!#^&*?~$".contains(&byte));
    if is_odd && word.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let mut pieces = word.split(|letter: char| !letter.is_ascii_alphanumeric());
    if pieces.any(is_drawn) {
        return false;
    }
    let is_hex = word.len() < 20 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if is_hex && has_digit && !is_chosen(word) {
        return true;
    }
    word.split(|letter: char| !letter.is_ascii_alphanumeric())
        .all(|piece| ORDINARY.has_piece(piece))
}

/// Whether letters and digits are what logs have: listed words with a number, a short word, or a number.
pub(super) fn is_of_logs(piece: &str) -> bool {
    let counted = piece.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_count = piece.len() - counted.len() <= COUNT_DIGITS_MAX
        && COUNTED
            .iter()
            .any(|word| word.eq_ignore_ascii_case(counted));
    is_count || OF_LOGS.has_piece(piece)
}

/// Whether letters and digits are listed as they are.
pub(super) fn is_listed_of_logs(piece: &str) -> bool {
    OF_LOGS.has(piece)
}

/// Whether letters, at least eight, are no word that is known and no two of them.
pub(super) fn is_unknown(word: &str) -> bool {
    word.len() >= UNKNOWN_BYTES_MIN
        && word.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !ORDINARY.has_piece(word)
}

/// Whether capitals and small letters alternate as in no word that is known: `zOtrVM`, not `PyTorch`.
pub(super) fn is_mixed(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= MIXED_BYTES_MIN
        && bytes.iter().all(u8::is_ascii_alphanumeric)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && bytes[1..].iter().any(u8::is_ascii_uppercase)
        && !ORDINARY.has(word)
        && runs(word).all(|run| run.len() < BYTES_MIN || !ORDINARY.has(run))
}

/// Whether short letters and digits follow each other as in no name of a device or a version: `q7hUNj`, not `mlx5`.
fn is_drawn(piece: &str) -> bool {
    let counts = |letter: char| !letter.is_ascii_digit();
    let is_device = DEVICES.iter().any(|device| piece.starts_with(device));
    (BYTES_MIN..=DRAWN_BYTES_MAX).contains(&piece.len())
        && piece.contains(counts)
        && piece.bytes().any(|byte| byte.is_ascii_digit())
        && !is_device
        && runs(piece).count() >= DRAWN_RUNS_MIN
        && runs(piece).all(|run| run.len() < BYTES_MIN)
}

/// Whether a number, a time, a version or a measure is written.
fn is_number(word: &str) -> bool {
    let is_of_number = |letter: char| letter.is_ascii_digit() || ".,:/-+x%TZ".contains(letter);
    let rest = word.trim_start_matches(is_of_number);
    rest.len() < word.len()
        && rest.len() <= 5
        && word.starts_with(|letter: char| letter.is_ascii_digit() || "+-.".contains(letter))
        && !rest.bytes().any(|byte| byte.is_ascii_digit())
}

impl Vocabulary {
    fn of(lists: &[&'static str]) -> Self {
        let lines = lists.iter().flat_map(|list| list.lines());
        let words = lines.filter(|line| !line.starts_with('#'));
        Self(words.flat_map(str::split_ascii_whitespace).collect())
    }

    /// Whether letters and digits are known words, with few other letters and digits among them.
    fn has_piece(&self, piece: &str) -> bool {
        if piece.len() < BYTES_MIN || piece.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        if self.has(piece) {
            return true;
        }
        let (mut known, mut short, mut digits) = (0, 0, 0);
        for run in runs(piece) {
            match run.as_bytes()[0].is_ascii_digit() {
                true => digits += run.len(),
                false if run.len() < BYTES_MIN => short += run.len(),
                false if self.has(run) => known += run.len(),
                false => return false,
            }
        }
        digits <= DIGITS_MAX && (short <= known || short + digits <= 2 * DIGITS_MAX && known == 0)
    }

    /// Whether letters are a word that is listed, a form of one, or two of them.
    fn has(&self, word: &str) -> bool {
        if word.len() > KNOWN_BYTES_MAX {
            return false;
        }
        let word = word.to_ascii_lowercase();
        if self.lists(&word) {
            return true;
        }
        let behind = |begin: &&str| {
            word.strip_prefix(*begin)
                .is_some_and(|rest| rest.len() >= BYTES_MIN && self.lists(rest))
        };
        if BEFORE.iter().any(behind) {
            return true;
        }
        let mut splits = BYTES_MIN..(word.len() + 1).saturating_sub(BYTES_MIN);
        word.is_ascii() && splits.any(|at| self.0.contains(&word[..at]) && self.lists(&word[at..]))
    }

    fn lists(&self, word: &str) -> bool {
        self.0.contains(word)
            || word
                .strip_suffix('s')
                .is_some_and(|stem| self.has_form(stem))
            || self.has_form(word)
    }

    /// Whether a word is a form of one that is listed.
    fn has_form(&self, word: &str) -> bool {
        self.0.contains(word)
            || FORMS.iter().any(|(end, instead)| {
                let stem = word
                    .strip_suffix(end)
                    .filter(|stem| stem.len() + instead.len() >= BYTES_MIN - 1);
                stem.is_some_and(|stem| match instead.is_empty() {
                    // `stopped` and `running` double a letter.
                    true => {
                        self.0.contains(stem)
                            || is_doubled(stem) && self.0.contains(&stem[..stem.len() - 1])
                    }
                    false => self.0.contains(format!("{stem}{instead}").as_str()),
                })
            })
    }
}

/// Runs of digits, and of letters up to the next capital that begins a word.
pub(super) fn runs(piece: &str) -> impl Iterator<Item = &str> {
    let bytes = piece.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        let first = *bytes.get(from)?;
        let mut end = from + 1;
        while let Some(byte) = bytes.get(end) {
            let before = bytes[end - 1];
            let begins = byte.is_ascii_uppercase()
                && (before.is_ascii_lowercase()
                    || bytes.get(end + 1).is_some_and(u8::is_ascii_lowercase));
            if byte.is_ascii_digit() != first.is_ascii_digit() || begins {
                break;
            }
            end += 1;
        }
        let run = piece.get(from..end);
        from = end;
        run
    })
}

fn is_doubled(stem: &str) -> bool {
    let bytes = stem.as_bytes();
    stem.is_ascii() && bytes.len() > BYTES_MIN && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_that_are_listed_are_no_longer_than_what_is_looked_up() {
        let longest = OF_LOGS.0.iter().map(|word| word.len()).max();
        assert!(longest.is_some_and(|longest| 2 * (longest + "ations".len()) <= KNOWN_BYTES_MAX));
    }

    #[test]
    fn words_of_logs_are_ordinary_and_others_are_not() {
        let ordinary = "password Rejected ProcessGroupNCCL.cpp:1250 DistBackendError eth0 mlx5_0:1 H100 \
            2026-11-20T10:15:00.123Z 512KiB 12.5ms NCCL_SOCKET_IFNAME /run/secrets/x worker12 ssh2 \
            authentication worker-3 getsockopt libnccl 3[3] x86_64 SECRET node12 user0 --password-file \
            re-run (uid=0) mlx5 enp0s3 k8s 400Gbps tokens/s stopped don't";
        for word in ordinary.split_whitespace() {
            assert!(is_ordinary(word), "{word}");
        }
        let others = "bavotukemira qwvxzt hunter2x Wordle%2024 aB3dE5fG7hJ9kL1mN2pQ \
            3d29f0ffb4fd4406e92eaee687d4525235ae9648 q7hUNj q7ab12 a7b3c1 Kestrel!77 letmein7788 tuvalo-1234";
        for word in others.split_whitespace() {
            assert!(!is_ordinary(word), "{word}");
        }
        assert!(
            is_unknown("bavotukemira") && !is_unknown("kubernetes") && !is_unknown("allreduce")
        );
        for word in ["zOtrVM", "EONYlg", "OsFaQf", "1tnMWL"] {
            assert!(is_mixed(word), "{word}");
        }
        for word in [
            "Rejected",
            "PyTorch",
            "rejected",
            "REJECTED",
            "getName",
            "JSONError",
        ] {
            assert!(!is_mixed(word), "{word}");
        }
    }
}
