//! Parts of a text that are searched one after the other. A search looks from each name to both ends of its
//! line, so its time grows with the square of the line's length. A long line is therefore searched in parts
//! that overlap.
//!
//! A value in quotes may be as long as `pairs.rs` allows; any other ends at the next space. A clue that is
//! further from a secret than one part is long is not seen.
#![forbid(unsafe_code)]

use super::pairs::as_far_as_a_value;
use std::cell::OnceCell;
use std::ops::Range;

/// Longest line, or rest of a line, that is searched whole.
const LINE_BYTES_MAX: usize = 16 << 10;
/// What two parts share, so that a name and its value stand in one of them.
const OVERLAP_BYTES: usize = 2 << 10;
/// How far before its limit a part may end, so that it ends between two words.
const WORD_BYTES_MAX: usize = 256;
/// Signs around a value.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// A part of a text.
pub(super) struct Part<'a> {
    whole: &'a str,
    at: Range<usize>,
    /// Where a word ends that the end of the part cuts.
    word_end: usize,
    strings: OnceCell<Strings>,
    last: OnceCell<Last>,
}

/// Where a string of each quote ends that the end of a part cuts.
type Strings = [usize; QUOTES.len()];

/// The last letter of a part that ends a value, or stands behind one that has ended: in quotes, and without.
#[derive(Clone, Copy)]
struct Last {
    quoted: Option<usize>,
    plain: Option<usize>,
}

/// The parts of a text, in order. If no line of it is long, it is one part.
pub(super) fn of(whole: &str) -> impl Iterator<Item = Part<'_>> {
    let mut next = Some(0);
    let mut word_end = 0;
    std::iter::from_fn(move || {
        let begin = next?;
        let long = long_line(whole, begin);
        let end = long.map_or(whole.len(), |line| {
            between_words(whole, line + LINE_BYTES_MAX)
        });
        next = long.map(|_| between_words(whole, end - OVERLAP_BYTES));
        // A word may be as long as the text, so its end is searched for once.
        if word_end < end {
            let length = whole[end..].find(ends_word);
            word_end = length.map_or(whole.len(), |length| end + length);
        }
        Some(Part {
            whole,
            at: begin..end,
            word_end,
            strings: OnceCell::new(),
            last: OnceCell::new(),
        })
    })
}

impl<'a> Part<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.whole[self.at.clone()]
    }

    /// Where a place in this part is in the text. A value that the end of the part cuts goes on to its own end.
    pub(super) fn place(&self, found: Range<usize>) -> Range<usize> {
        let (start, end) = (self.at.start + found.start, self.at.start + found.end);
        let before = self.whole[..start].chars().next_back();
        let quote = QUOTES.iter().position(|quote| before == Some(*quote));
        let last = self.last.get_or_init(|| self.last());
        let last = match quote {
            Some(_) => last.quoted,
            None => last.plain,
        };
        let is_ended = last.is_some_and(|last| end <= self.at.start + last);
        if is_ended || self.at.end == self.whole.len() {
            return start..end;
        }
        match quote {
            Some(quote) => start..self.strings.get_or_init(|| self.strings())[quote],
            None => start..self.word_end,
        }
    }

    fn last(&self) -> Last {
        let is_behind = |letter: char| letter.is_alphanumeric() || QUOTES.contains(&letter);
        Last {
            quoted: self.text().rfind(is_behind),
            plain: self
                .text()
                .rfind(|letter: char| is_behind(letter) || letter.is_whitespace()),
        }
    }

    fn strings(&self) -> Strings {
        let most = as_far_as_a_value(&self.whole[self.at.end..]);
        QUOTES.map(|quote| self.at.end + most.find([quote, '\n']).unwrap_or(most.len()))
    }
}

/// Whether a letter ends a value without quotes.
fn ends_word(letter: char) -> bool {
    QUOTES.contains(&letter) || letter.is_whitespace()
}

/// Where the first long line at or behind `from` begins; the line of `from` begins there.
fn long_line(text: &str, from: usize) -> Option<usize> {
    let mut line = from;
    for end in memchr::memchr_iter(b'\n', &text.as_bytes()[from..]) {
        if from + end - line > LINE_BYTES_MAX {
            return Some(line);
        }
        line = from + end + 1;
    }
    (text.len() - line > LINE_BYTES_MAX).then_some(line)
}

/// The last place before `at` that is between two words; at the latest `at`.
fn between_words(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let least = text.floor_char_boundary(at.saturating_sub(WORD_BYTES_MAX));
    let is_of_word = |letter: char| letter.is_alphanumeric() || "_-.:/@%+~=".contains(letter);
    let gap = text[least..at].rfind(|letter| !is_of_word(letter));
    gap.map_or(at, |gap| text.ceil_char_boundary(least + gap + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of which some are long, with words of more than one byte a letter.
    fn texts() -> impl Strategy<Value = String> {
        let word = prop_oneof!["[a-z=\"]{1,9} ?", "[äß为。]{1,5}", Just("\n".to_owned())];
        let run = (word, 1..12_000_usize).prop_map(|(word, count)| word.repeat(count));
        prop::collection::vec(run, 0..6).prop_map(|runs| runs.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_cover_the_text_overlap_and_have_no_long_line(text in texts()) {
            let parts: Vec<_> = of(&text).map(|part| part.at).collect();
            prop_assert_eq!(parts[0].start, 0);
            prop_assert_eq!(parts[parts.len() - 1].end, text.len());
            for two in parts.windows(2) {
                prop_assert!(two[0].start < two[1].start && two[0].end < two[1].end);
                prop_assert!(two[1].start + OVERLAP_BYTES <= two[0].end);
            }
            for part in parts {
                let longest = text[part].split('\n').map(str::len).max();
                prop_assert!(longest.unwrap_or_default() <= LINE_BYTES_MAX);
            }
        }
    }

    /// The places of a word and what it is followed by, as `key=VALUE` and `key="VALUE"`.
    fn values(text: &str) -> Vec<&str> {
        let find = |text: &str| {
            let key = text.find("key=")? + 4;
            let begin = key + usize::from(text[key..].starts_with('"'));
            let ends = |letter: char| letter == '"' || begin == key && letter == ' ';
            let length = text[begin..].find(ends).unwrap_or(text.len() - begin);
            Some(begin..begin + length)
        };
        of(text)
            .filter_map(|part| Some(&text[part.place(find(part.text())?)]))
            .collect()
    }

    #[test]
    fn a_value_that_a_part_cuts_is_found_whole() {
        let quoted = "a word ".repeat(1000);
        let long = "x".repeat(40_000);
        for before in (0..LINE_BYTES_MAX + 10).step_by(97) {
            let filled = ". ".repeat(before / 2);
            for value in ["one", &long] {
                let text = format!("{filled}key={value} and more {}", "- ".repeat(10_000));
                assert!(values(&text).contains(&value), "{before}");
            }
            let text = format!("{filled}key=\"{quoted}\" and more {}", "- ".repeat(10_000));
            assert!(values(&text).contains(&quoted.as_str()), "{before}");
        }
    }

    #[test]
    fn values_in_a_word_that_is_as_long_as_the_text_end_where_it_ends() {
        // A search for the end of the word from each value takes minutes.
        let text = "a:".repeat(1 << 20) + "z, \"behind";
        let end = text.find(", ").map(|end| end + 1);
        let parts: Vec<Part<'_>> = of(&text).collect();
        for part in &parts[..parts.len() - 1] {
            let length = part.text().len();
            for start in 0..1000 {
                assert_eq!(Some(part.place(start..length).end), end);
            }
        }
    }

    #[test]
    fn a_text_without_a_long_line_is_one_part() {
        let text = "a line\n".repeat(100_000);
        assert_eq!(of(&text).count(), 1);
        assert_eq!(of("").count(), 1);
    }
}
