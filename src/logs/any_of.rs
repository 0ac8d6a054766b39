//! Tests whether a text contains one of several words. The search is built once, because it runs for each line.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;

pub(super) struct AnyOf(AhoCorasick);

impl AnyOf {
    /// A search for a few words, none of them empty.
    pub(super) fn new(words: &[&str]) -> Self {
        Self(AhoCorasick::new(words).expect("few words"))
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}
