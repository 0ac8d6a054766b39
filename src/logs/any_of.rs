//! Whether one of several words is in a text, for lines of which there are many: the search is built once.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;

pub(super) struct AnyOf(AhoCorasick);

impl AnyOf {
    /// Few words, each of some bytes.
    pub(super) fn new(words: &[&str]) -> Self {
        Self(AhoCorasick::new(words).expect("few words"))
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}
