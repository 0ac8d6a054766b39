//! A pattern that is tried on any line. Where a line has letters beyond ASCII, a word boundary (`\b`) makes a
//! search a hundred times as slow, so the pattern is tried without its boundaries first: it then finds as much or more.
#![forbid(unsafe_code)]

use regex::Regex;
use std::sync::OnceLock;

pub(super) struct Pattern {
    exact: Regex,
    /// Made for the first line with other letters.
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
        let may_match =
            line.is_ascii() || loose().as_ref().is_none_or(|loose| loose.is_match(line));
        may_match.then_some(&self.exact)
    }
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
        assert!(pattern.on("a line").is_some() && pattern.on("a \u{301} line").is_none());
        for (line, is_found) in [("\u{e9}key", false), ("\u{e9} key", true)] {
            assert_eq!(
                pattern.on(line).map(|key| key.is_match(line)),
                Some(is_found)
            );
        }
    }
}
