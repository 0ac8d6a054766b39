//! Lines with letters that take no place, such as a zero-width space inside `password`: they are searched without
//! these letters, too.
#![forbid(unsafe_code)]

use super::pairs::{self, Value};
use std::ops::Range;

/// Zero-width spaces and joiners, the mark of a byte order, and the soft hyphen.
const HIDDEN: [char; 7] = [
    '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{180e}',
];
/// Longest line that is searched so.
const LINE_BYTES_MAX: usize = 4096;

/// The values of secret names on lines with such letters.
pub(super) fn values(text: &str, found: &mut Vec<Value>) {
    if text.is_ascii() {
        return;
    }
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let at = begin;
        begin += line.len();
        if line.is_ascii() || line.len() > LINE_BYTES_MAX || !line.contains(HIDDEN) {
            continue;
        }
        let shown = line
            .char_indices()
            .filter(|(_, letter)| !HIDDEN.contains(letter));
        let (mut plain, mut places) = (String::new(), Vec::new());
        for (place, letter) in shown {
            plain.push(letter);
            places.extend(std::iter::repeat_n(place, letter.len_utf8()));
        }
        places.push(line.len());
        let place = |range: Range<usize>| at + places[range.start]..at + places[range.end];
        let values = pairs::values(&plain).into_iter();
        found.extend(values.map(|value| Value {
            at: place(value.at),
            ..value
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_hidden_letter_has_a_value() {
        let text = "\u{e9}\npass\u{200b}word: bavo\u{ad}tukemi \u{e9}";
        let mut found = Vec::new();
        values(text, &mut found);
        assert!(
            found
                .iter()
                .any(|value| text[value.at.clone()].starts_with("bavo"))
        );
    }
}
