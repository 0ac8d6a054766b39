//! Words that no person chose: long, with letters of both cases and digits, of high entropy.
#![forbid(unsafe_code)]

use super::Found;
use super::prose::unseen;

/// Shortest word whose entropy says something.
const BYTES_MIN: usize = 24;
/// Shortest word whose letters and digits alternate as in no name.
const SHORT_BYTES_MIN: usize = 16;
/// Shortest word of base64 with signs in it that is in doubt.
const MIXED_BYTES_MIN: usize = 20;
/// Shortest word of base64 that is in doubt for its letters, and in how many of its bytes begin three that no word has,
/// at least in one.
const UNSPOKEN_BYTES_MIN: usize = 32;
const UNSEEN_SHARE: usize = 8;
/// Bits per byte above which a word in base64 is in doubt. Random ones of 24 letters have 4.2,
/// names of programs 3.7.
const BITS_MIN: f64 = 4.05;
/// Lengths of hexadecimal hashes: SHA-256, SHA-1, MD5, and hashes of 64 bits.
const HASHES: [usize; 4] = [64, 40, 32, 16];

pub(super) fn find(line: &str) -> Vec<Found> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..]
            .iter()
            .take_while(|byte| is_part(**byte))
            .count();
        // A path is looked at folder by folder.
        let word = line.get(at..at + length).unwrap_or_default();
        // A variable whose value was replaced.
        let is_replaced = word.split_once('=').is_some_and(|(name, value)| {
            let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            name.bytes().all(is_of_name) && super::is_replaced(value)
        });
        if is_replaced {
            at += length + 1;
            continue;
        }
        let mut from = at;
        // The name of a file has a full stop.
        let is_of_file = line.get(..at).is_some_and(|before| before.ends_with('.'))
            || bytes.get(at + length) == Some(&b'.');
        if is_mixed_base64(word) || !is_of_file && is_unspoken_base64(word) {
            found.push(Found {
                what: "a word of high entropy",
                at: at..at + word.len(),
            });
            from = at + word.len();
        }
        let folders = if from == at { word } else { "" };
        for part in folders.split('/') {
            if is_random(part) {
                found.push(Found {
                    what: "a word of high entropy",
                    at: from..from + part.len(),
                });
            }
            from += part.len() + 1;
        }
        at += length + 1;
    }
    found
}

fn is_random(word: &str) -> bool {
    let word = without_pointer(without_stamp(word));
    // The name of a function of C++.
    if word.len() < SHORT_BYTES_MIN || word.starts_with("_Z") {
        return false;
    }
    if word.len() < BYTES_MIN {
        return is_short_random(word);
    }
    if word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        // A number, or a hash of a file or a comm.
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        return !is_number && !HASHES.contains(&word.len());
    }
    // The name of a file, such as `worker-20261120T101500Z-4conn-26803-435068`.
    let parts = word.split(['-', '_']);
    if parts.clone().count() > 3 {
        return parts.into_iter().any(is_random);
    }
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    (is_mixed && bits(word) > BITS_MIN && !is_spelled(word)) || is_of_one_case(word)
}

/// Whether a word with slashes or signs of addition is no path: none of its longer parts is a word, and its classes of
/// letters change as often as chance lets them.
fn is_mixed_base64(word: &str) -> bool {
    let word = word.trim_end_matches('=');
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    let signs = word.bytes().filter(|byte| b"+/".contains(byte)).count();
    if word.len() < MIXED_BYTES_MIN
        || signs == 0
        || word.starts_with('/')
        || !word.bytes().all(is_of_base64)
    {
        return false;
    }
    let class = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let changes = |part: &str| {
        let neighbours = part.as_bytes().windows(2);
        neighbours
            .filter(|pair| class(pair[0]) != class(pair[1]))
            .count()
    };
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let parts = || word.split(['+', '/']).filter(|part| part.len() > 3);
    let all: usize = parts().map(changes).sum();
    has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && parts().any(|part| part.len() > 5)
        && all * 5 >= (word.len() - signs) * 2
        && parts().all(|part| changes(part) * 3 >= part.len() && !is_spelled(part))
}

/// Whether a long word with slashes or signs of addition is no path: its letters follow each other as in no words.
fn is_unspoken_base64(word: &str) -> bool {
    let word = word.trim_end_matches('=');
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    word.len() >= UNSPOKEN_BYTES_MIN
        && !word.starts_with('/')
        && word.contains(['+', '/'])
        && word.bytes().all(is_of_base64)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && bits(word) > BITS_MIN
        && unseen(word) * UNSEEN_SHARE >= word.len()
}

/// Whether digits and letters of both cases alternate at every second byte.
fn is_short_random(word: &str) -> bool {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    };
    let count = |of: i32| word.bytes().filter(|byte| class(*byte) == of).count();
    let neighbours = word.as_bytes().windows(2);
    let changes = neighbours.filter(|pair| class(pair[0]) != class(pair[1]));
    word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && count(0) >= 2
        && count(1) >= 3
        && count(2) >= 3
        && changes.count() * 2 + 1 >= word.len()
}

/// Whether letters of one case and digits alternate often, as in base 36.
fn is_of_one_case(word: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_one = !(has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
    let neighbours = word.bytes().zip(word.bytes().skip(1));
    let changes = neighbours.filter(|(one, next)| is_digit(*one) != is_digit(*next));
    is_one
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && changes.count() * 4 >= word.len()
}

/// A word without the address that a log line writes at its end: `softCommProgress0x55b694a97408`.
fn without_pointer(word: &str) -> &str {
    let (name, digits) = word.rsplit_once("0x").unwrap_or((word, ""));
    let is_pointer = (8..=16).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_pointer { name } else { word }
}

/// A run's id without its time: the digits of some times look random beside a short name.
fn without_stamp(word: &str) -> &str {
    const STAMP: &[u8] = b"00000000T000000Z";
    let fits = |(byte, pattern): (u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        letter => byte == *letter,
    };
    let is_stamped = word.len() >= STAMP.len() && word.bytes().zip(STAMP).all(fits);
    if is_stamped {
        &word[STAMP.len()..]
    } else {
        word
    }
}

/// Whether most letters stand in runs of one case, as in the words of a name.
fn is_spelled(word: &str) -> bool {
    let parts = word.split(|letter: char| !letter.is_ascii_lowercase());
    let in_words: usize = parts.map(str::len).filter(|length| *length >= 4).sum();
    2 * in_words >= word.len()
}

/// Shannon's entropy of a word, in bits per byte.
fn bits(word: &str) -> f64 {
    let mut counts = [0u32; 256];
    word.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = word.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0);
    shares
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::sample::select;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;

    #[test]
    fn base64_with_signs_is_told_from_paths() {
        for word in ["QDBnPtoMXfI/KTzb1AwXBqfN", "5k4JTGW7GDP+4Idq6jKLHjZD="] {
            assert_eq!(find(word).len(), 1, "{word}");
        }
        for path in [
            "src/transport/net_ib.cc",
            "org/apache/Foo1/BarBaz",
            "meta-llama/Llama-3-8B",
            "nvidia/cuda/H100/SXM5",
            "torch/csrc/distributed/c10d/NCCLUtils.hpp",
        ] {
            assert!(find(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn keys_with_slashes_are_doubted_and_paths_of_as_many_letters_are_not() {
        assert_eq!(find("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzLEKEY1").len(), 1);
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letter = select(letters.chars().collect::<Vec<_>>());
        let keys = vec(letter, 40).prop_map(String::from_iter);
        let mut runner = TestRunner::deterministic();
        let keys = (0..4000).map(|_| keys.new_tree(&mut runner).expect("a key").current());
        let keys: Vec<String> = keys
            .filter(|key| key.contains(['+', '/']) && !key.starts_with('/'))
            .collect();
        let missed: Vec<&String> = keys.iter().filter(|key| find(key).is_empty()).collect();
        let count = keys.len();
        assert!(
            missed.len() * 50 < count,
            "{} of {count}: {missed:?}",
            missed.len()
        );
        for path in [
            "torch/csrc/distributed/c10d/ProcessGroupNCCL",
            "third/Party/UCX/src/uct/ib/mlx5/dc/DcMlx5Ep",
            "NvidiaH100/SXM5/NVSwitch3/FabricManager/Partition7",
            "Library/Frameworks/Python3/Versions/Current/Resources",
            "/usr/local/K7MDENG/bPxRfiCYzzzzLEKEY1/wJalrXUtnFEMI.so",
        ] {
            assert!(!find(path).iter().any(|one| one.at.len() > 24), "{path}");
        }
    }

    #[test]
    fn a_runs_id_is_not_random_at_any_time() {
        for second in 0..86_400 {
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            let id = format!("20261123T{hour:02}{minute:02}{second:02}Z-their-job");
            assert!(!is_random(&id), "{id}");
        }
        assert!(is_random(
            "20261123T041951Z-aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
        ));
    }
}
