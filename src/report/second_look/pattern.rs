//! A pattern that is tried on any line. Where a line has letters beyond ASCII, a word boundary (`\b`) makes a
//! search a hundred times as slow, so a long line is searched without boundaries first, which finds as much or more.
#![forbid(unsafe_code)]

use regex::Regex;
use std::sync::OnceLock;

/// Longest line that is searched at once. To make all patterns without boundaries takes as long as 30 KiB of them.
const SLOW_BYTES_MAX: usize = 4 << 10;

pub(super) struct Pattern {
    exact: Regex,
    /// Made for the first long line with other letters.
    loose: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Option<Self> {
        Some(Self {
            exact: Regex::new(pattern).ok()?,
            loose: OnceLock::new(),
        })
    }

    /// The pattern, if a line may have it.
    pub(super) fn on(&self, line: &str) -> Option<&Regex> {
        let loose = || {
            self.loose
                .get_or_init(|| Regex::new(&without_boundaries(self.exact.as_str())).ok())
        };
        let may_match = !is_slow(line) || loose().as_ref().is_none_or(|loose| loose.is_match(line));
        may_match.then_some(&self.exact)
    }
}

/// Whether a line is long, and a search for boundaries in it slow.
pub(super) fn is_slow(line: &str) -> bool {
    line.len() > SLOW_BYTES_MAX && !line.is_ascii()
}

/// A pattern without its word boundaries.
pub(super) fn without_boundaries(pattern: &str) -> String {
    pattern.replace(r"\b", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_tried_on_lines_that_may_have_it() {
        let pattern = Pattern::new(r"\bkey\b").expect("a pattern");
        let long = "a \u{301} line ".repeat(SLOW_BYTES_MAX);
        assert!(pattern.on("a line").is_some() && pattern.on(&long).is_none());
        for (behind, is_found) in [("\u{e9}key", false), ("\u{e9} key", true)] {
            let line = &(long.clone() + behind);
            assert_eq!(
                pattern.on(line).map(|key| key.is_match(line)),
                Some(is_found)
            );
        }
    }
}
