//! Whether a word is spelled like one that a person writes: `kubernetes`, `irecvConsumed`, `mhandle`.
//! Twelve letters drawn at random are not.
//!
//! A word of a log that no dictionary has is spelled like others, so pairs of neighbouring letters
//! are weighed and no words are listed.
#![forbid(unsafe_code)]

/// How often a letter (row) is followed by another (column), on a scale of logarithms from 0 to 9:
/// counted in 27 000 words of documentation, headers and sources.
#[rustfmt::skip]
const PAIRS: [&[u8; 26]; 26] = [
    b"48884573715989071989654563",
    b"74537321742833630664731050",
    b"83658438707754951768631140",
    b"75569533822644741665643230",
    b"86997764514889575999465862",
    b"63457730800646730655622030",
    b"52438246601746530764521023",
    b"81238201702443730546411040",
    b"77877771314889872799271507",
    b"30014000201010410030300000",
    b"42237231510423330253322010",
    b"84569452913844850476642171",
    b"96449411703552780264641030",
    b"84888793825546852489653132",
    b"56874663525889670977867421",
    b"83548626704734861967622050",
    b"00010000000300000220600000",
    b"94769562905676961788653160",
    b"73759547915655774589834261",
    b"95659538903655861987734373",
    b"67646650600778460777120201",
    b"72318210600232430233103000",
    b"62435224601324520552100000",
    b"32525402500332350236110230",
    b"33424220400445370355012101",
    b"40007100400110300010100011",
];
/// Shortest word that is judged.
const BYTES_MIN: usize = 8;
/// Mean weight below which a word is taken for random. Of random words of twelve letters 1 % are
/// above, and of real ones 2 % below, most of them joined from several abbreviations.
const WEIGHT_MIN: f32 = 6.3;
/// The same for a word of fewer letters than this, of which single pairs are a larger part.
const SHORT_WEIGHT_MIN: f32 = 5.8;
const SHORT_BYTES: usize = 10;
/// As above where a secret is expected: 0.4 % and 6 %.
const EXPECTED_WEIGHT_MIN: f32 = 6.8;

/// Whether a word of letters is not spelled like one that a person writes.
pub(super) fn is_random(word: &str) -> bool {
    let least = match word.len() {
        ..SHORT_BYTES => SHORT_WEIGHT_MIN,
        _ => WEIGHT_MIN,
    };
    weight(word).is_some_and(|weight| weight < least)
}

/// As [`is_random`], where a secret is expected.
pub(super) fn is_likely_random(word: &str) -> bool {
    weight(word).is_some_and(|weight| weight < EXPECTED_WEIGHT_MIN)
}

/// The mean weight of the pairs of a word; `None` if it is short or has other signs than letters.
fn weight(word: &str) -> Option<f32> {
    let bytes = word.as_bytes();
    if bytes.len() < BYTES_MIN || !bytes.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    let row = |byte: u8| usize::from(byte.to_ascii_lowercase() - b'a');
    let (mut sum, mut count, mut humps) = (0u32, 0u16, 0usize);
    for pair in bytes.windows(2) {
        // A capital begins a word.
        if pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase() {
            humps += 1;
            continue;
        }
        sum += u32::from(PAIRS[row(pair[0])][row(pair[1])] - b'0');
        count += 1;
    }
    if (humps + 1) * 4 > bytes.len() {
        return Some(0.0);
    }
    Some(sum as f32 / f32::from(count.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_letters_drawn_at_random() {
        let random = "ooaakgmjylxl wjzxkqpv pqzvwkdjrnth XJKQWZPVBN aBxQrZkLmWqTyU";
        for word in random.split(' ') {
            assert!(is_random(word), "{word} {:?}", weight(word));
        }
        let words = "kubernetes authentication mhandle DistBackendError irecvConsumed getsockopt \
            ncclNetSocket allreduce flashattention SOCKETIFNAME NCCLDEBUG required eth password1 \
            not-found bootstrap maintainer pthread";
        for word in words.split_whitespace() {
            assert!(!is_random(word), "{word} {:?}", weight(word));
        }
    }
}
