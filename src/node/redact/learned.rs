//! Secrets found by value: once a text has shown one, it is found in every other text, as it
//! is, cut at either end, wrapped over lines, escaped for a URL, HTML or JSON, and in base64
//! or hexadecimal.
//!
//! A short value is found as a whole word only, and an ordinary word never: a password `eth0`
//! would take every `eth0` out of a report. Where its name says that it is a secret, it is
//! replaced nevertheless.
#![forbid(unsafe_code)]

use super::headers::is_of_process;
use super::keys::{is_absent, is_words};
use super::ordinary::is_ordinary;
use super::view::View;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;
use std::ops::Range;

/// Shortest value that is looked for in other texts.
const BYTES_MIN: usize = 6;
/// Shortest value that is looked for inside words.
const INSIDE_BYTES_MIN: usize = 12;
/// Shortest part of a value that is looked for, at its beginning or end.
const PART_BYTES_MIN: usize = 12;
/// Longest value that is looked for; of a longer one, its lines are.
const BYTES_MAX: usize = 4096;
/// Size of the blocks that are searched, which bounds the memory for the decoded text.
const BLOCK_BYTES: usize = 1 << 20;
/// Most values.
const VALUES_MAX: usize = 4096;
/// Most bytes of all values: the search for their forms takes some hundred bytes of memory for each.
const ALL_BYTES_MAX: usize = 512 << 10;
/// How often one byte of a text may be learned, as a part of values that overlap, and the bytes of a short text.
const OVERLAPS_MAX: usize = 16;
const OVERLAP_BYTES_MIN: usize = 64 << 10;

/// The secrets of all texts so far.
#[derive(Debug, Default)]
pub(super) struct Learned {
    values: BTreeSet<String>,
    /// The bytes of all values.
    bytes: usize,
    finder: Option<Finder>,
}

/// Finds every form of every secret in one pass.
#[derive(Debug)]
struct Finder {
    search: AhoCorasick,
    /// Of each pattern.
    alphabets: Vec<Alphabet>,
}

/// A text that is searched for.
struct Pattern {
    bytes: Vec<u8>,
    /// Bytes of which a match is a part.
    alphabet: Alphabet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    /// The match alone is a secret.
    Exact,
    /// The match alone is one, unless it is inside a word.
    Word,
    /// A secret that is cut: the letters around the match belong to it.
    Letters,
    /// An encoded secret: the digits around the match belong to it.
    Base64,
}

/// The values to learn of a text: all, unless they overlap so often that they are many times as long as the
/// text. Then the shorter ones are: a longer one ends with one of them, and is replaced where it stands.
pub(super) fn bounded<T>(
    mut values: Vec<T>,
    text_bytes: usize,
    place: impl Fn(&T) -> Range<usize>,
) -> Vec<T> {
    let most = (OVERLAPS_MAX * text_bytes).max(OVERLAP_BYTES_MIN);
    let mut bytes: usize = values.iter().map(|value| place(value).len()).sum();
    if bytes > most {
        values.sort_by_key(|value| place(value).len());
        while bytes > most
            && let Some(longest) = values.pop()
        {
            bytes -= place(&longest).len();
        }
        values.sort_by_key(|value| place(value).start);
    }
    values
}

impl Learned {
    /// Adds the value of a secret. A value that `is_certain` may consist of words.
    pub(super) fn add(&mut self, value: &str, is_certain: bool) {
        let value = value.trim();
        if value.contains('\n') {
            // A key in PEM, whose lines may be apart in another text.
            let lines = value
                .lines()
                .filter(|line| line.len() >= 2 * BYTES_MIN && !line.starts_with("-----"));
            lines.for_each(|line| self.add(line, is_certain));
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let is_ordinary = || value.split_whitespace().all(is_ordinary);
        let is_plain = is_number || is_words(value) && is_ordinary();
        let bytes_min = match (is_plain, is_certain) {
            (false, true) => BYTES_MIN,
            (false, false) => 8,
            (true, true) => 10,
            (true, false) => return,
        };
        let is_path = value.starts_with('/') && is_words(value) || is_of_process(value);
        if !(bytes_min..=BYTES_MAX).contains(&value.len())
            || is_absent(value)
            || is_path
            || self.values.len() >= VALUES_MAX
            || self.bytes + value.len() > ALL_BYTES_MAX
            || self.values.contains(value)
        {
            return;
        }
        self.bytes += value.len();
        self.values.insert(value.to_owned());
        self.finder = None;
    }

    /// The places of all secrets in a text. They may overlap.
    pub(super) fn places(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        if self.values.is_empty() || text.len() < BYTES_MIN {
            return places;
        }
        if self.finder.is_none() {
            self.finder = Finder::new(&self.values);
        }
        let Some(finder) = &self.finder else {
            // Values cannot be searched for, so the whole text is replaced.
            places.push(0..text.len());
            return places;
        };
        let mut from = 0;
        loop {
            let end = text.floor_char_boundary(from + BLOCK_BYTES);
            let before = text.floor_char_boundary(from.saturating_sub(2 * BYTES_MAX));
            finder.block(&text[before..end], before, &mut places);
            if end == text.len() {
                return places;
            }
            from = end;
        }
    }
}

impl Finder {
    fn new(values: &BTreeSet<String>) -> Option<Self> {
        let patterns: Vec<Pattern> = values.iter().flat_map(|value| patterns(value)).collect();
        let search = AhoCorasickBuilder::new()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().map(|pattern| &pattern.bytes))
            .ok()?;
        let alphabets = patterns.iter().map(|pattern| pattern.alphabet).collect();
        Some(Self { search, alphabets })
    }

    /// Adds the places in one block of a text, which begins at `offset`.
    fn block(&self, text: &str, offset: usize, places: &mut Vec<Range<usize>>) {
        let mut view = View::of(text);
        // Escaped up to twice: a URL in HTML, or JSON in JSON.
        for _ in 0..3 {
            for place in self.view(&view) {
                places.push(offset + place.start..offset + place.end);
            }
            match view.decoded() {
                Some(decoded) => view = decoded,
                None => return,
            }
        }
    }

    fn view<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = Range<usize>> + 'a {
        let bytes = view.bytes();
        // Where the surroundings of the last match end, for each alphabet. They may hold the next ones.
        let mut seen = [0, 0];
        self.search.find_iter(bytes).filter_map(move |found| {
            let alphabet = self.alphabets[found.pattern().as_usize()];
            if alphabet == Alphabet::Word {
                let before = bytes[..found.start()].last();
                let behind = bytes.get(found.end());
                let is_inside = [before, behind]
                    .into_iter()
                    .flatten()
                    .any(u8::is_ascii_alphanumeric);
                return (!is_inside).then(|| view.place(found.range()));
            }
            let seen = &mut seen[usize::from(alphabet == Alphabet::Base64)];
            if found.end() <= *seen {
                return None;
            }
            // What surrounds it on the same line.
            let (mut start, mut end) = (found.start(), found.end());
            while start > 0 && alphabet.has(bytes[start - 1]) && view.is_joined(start) {
                start -= 1;
            }
            while end < bytes.len() && alphabet.has(bytes[end]) && view.is_joined(end) {
                end += 1;
            }
            *seen = end;
            Some(view.place(start..end))
        })
    }
}

impl Alphabet {
    /// Whether a byte beside a match belongs to it.
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Exact | Self::Word => false,
            Self::Letters => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"_-+/=".contains(&byte),
        }
    }
}

/// Every form of a value.
fn patterns(value: &str) -> Vec<Pattern> {
    let bytes = value.as_bytes();
    let mut patterns = Vec::new();
    let mut add = |bytes: &[u8], alphabet: Alphabet| {
        patterns.push(Pattern {
            bytes: bytes.to_owned(),
            alphabet,
        });
    };
    let is_inside = bytes.len() >= INSIDE_BYTES_MIN && !is_words(value);
    add(
        bytes,
        if is_inside {
            Alphabet::Exact
        } else {
            Alphabet::Word
        },
    );
    if bytes.len() >= PART_BYTES_MIN + 4 && is_inside {
        let part = PART_BYTES_MIN.max(bytes.len() / 2);
        add(&bytes[..part], Alphabet::Letters);
        add(&bytes[bytes.len() - part..], Alphabet::Letters);
    }
    for (engine, pad) in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD]
        .into_iter()
        .flat_map(|engine| (0..3).map(move |pad| (engine, pad)))
    {
        // The digits that hold no bit of a neighbour.
        let padded = [&[0; 2][..pad], bytes].concat();
        let digits = engine.encode(&padded);
        let inner = &digits.as_bytes()[(pad * 8).div_ceil(6)..padded.len() * 8 / 6];
        if inner.len() > BYTES_MIN {
            add(inner, Alphabet::Base64);
        }
    }
    if bytes.len() >= 8 {
        let digits = tcpx_words::units::hex(bytes);
        add(digits.as_bytes(), Alphabet::Exact);
        add(digits.to_uppercase().as_bytes(), Alphabet::Exact);
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_overlap_are_learned_a_bounded_number_of_times() {
        const BYTES: usize = 16 << 10;
        let nested: Vec<Range<usize>> = (0..BYTES).map(|at| at..BYTES).collect();
        let kept = bounded(nested, BYTES, Range::clone);
        let bytes: usize = kept.iter().map(Range::len).sum();
        assert!(bytes <= OVERLAPS_MAX * BYTES);
        // The shortest ones, in the order of the text.
        let first = BYTES - kept.len();
        assert!(kept.len() > 500 && kept.into_iter().eq((first..BYTES).map(|at| at..BYTES)));
        let few = vec![0..9, 2..9, 4..8];
        assert_eq!(bounded(few.clone(), 9, Range::clone), few);
    }

    #[test]
    fn the_bytes_of_all_values_are_bounded() {
        let mut learned = Learned::default();
        for number in 0..1000 {
            learned.add(&format!("{number:04}x").repeat(800), true);
        }
        let bytes: usize = learned.values.iter().map(String::len).sum();
        assert_eq!(bytes, learned.bytes);
        assert!((ALL_BYTES_MAX - 4000..=ALL_BYTES_MAX).contains(&bytes));
    }

    #[test]
    fn a_word_full_of_parts_of_a_secret_is_found_once() {
        let mut learned = Learned::default();
        learned.add("quietly-Burning7candle", true);
        for part in ["quietly-Burn-", "cXVpZXRseS1CdXJuaW5nN2NhbmRsZQ/"] {
            let text = part.repeat(100);
            let places = learned.places(&text);
            assert!(places.len() == 1 && places[0] == (0..text.len()), "{part}");
        }
    }
}
