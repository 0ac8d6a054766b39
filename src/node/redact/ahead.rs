//! Searches from many places of a text for the next place of something: the end of a word or of a line. What
//! one search passed over, a later one does not pass over again, so all of them together take the time of one.
#![forbid(unsafe_code)]

use std::cell::Cell;

/// The last search for one thing: where it began, and where that thing is. There is none between them.
pub(super) struct Ahead(Cell<(usize, usize)>);

impl Default for Ahead {
    fn default() -> Self {
        Self(Cell::new((usize::MAX, 0)))
    }
}

impl Ahead {
    /// The first place at or behind `at` of what `length` looks for; the end of the text if there is none.
    /// `length` is given the text from a place on, and says how far from there it is.
    pub(super) fn find(
        &self,
        text: &str,
        at: usize,
        length: impl FnOnce(&str) -> Option<usize>,
    ) -> usize {
        let (from, found) = self.0.get();
        if from <= at && at <= found {
            return found;
        }
        let found = length(&text[at..]).map_or(text.len(), |length| at + length);
        self.0.set((at, found));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_place_is_that_of_a_search_from_there(
            text in "[a,\u{e9}]{0,40}",
            ways in prop::collection::vec(0.0..1.0f64, 1..9),
        ) {
            let ahead = Ahead::default();
            for way in ways {
                let at = text.floor_char_boundary((way * text.len() as f64) as usize);
                let expected = text[at..].find(',').map_or(text.len(), |length| at + length);
                prop_assert_eq!(ahead.find(&text, at, |rest| rest.find(',')), expected);
            }
        }
    }

    #[test]
    fn a_text_is_passed_over_once() {
        let text = "a,".repeat(100) + &"a".repeat(1000);
        let ahead = Ahead::default();
        let passed = Cell::new(0);
        for at in 0..text.len() {
            ahead.find(&text, at, |rest| {
                let length = rest.find(',');
                passed.set(passed.get() + length.unwrap_or(rest.len()));
                length
            });
        }
        assert!(passed.get() <= text.len(), "{}", passed.get());
    }
}
