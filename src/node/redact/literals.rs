//! Searches for a fixed list of strings, prepared once: a run has tens of thousands of short texts, and
//! to prepare a search costs more than to make it.
#![forbid(unsafe_code)]

use memchr::memmem::Finder;

/// The prepared searches.
pub(super) struct Literals(Vec<Finder<'static>>);

impl Literals {
    /// For these strings.
    pub(super) fn new(literals: impl IntoIterator<Item = &'static str>) -> Self {
        let finders = literals.into_iter().map(Finder::new);
        Self(finders.collect())
    }

    /// Where each string is in a text, with its place in the list: first all places of the first one.
    pub(super) fn find(&self, text: &str) -> impl Iterator<Item = (usize, usize)> {
        let finders = self.0.iter().enumerate();
        finders.flat_map(move |(which, finder)| {
            finder.find_iter(text.as_bytes()).map(move |at| (which, at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_string_is_found_with_its_place_in_the_list() {
        let literals = Literals::new(["b", "ab"]);
        let found: Vec<_> = literals.find("abcab").collect();
        assert_eq!(found, [(0, 1), (0, 4), (1, 0), (1, 3)]);
    }
}
