//! Where the literals of a catalogue are in a block of log.
//!
//! The block is searched for anchors (`anchors`); at each, the few literals that
//! it stands for are compared in place. Nothing here looks at lines.
#![forbid(unsafe_code)]

use super::anchors::anchors;
use aho_corasick::packed;
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span};

/// Literals made ready for searching.
#[derive(Debug)]
pub(super) struct Matcher {
    search: Search,
    /// Of each anchor: literals, each with the anchor's place in it.
    of_anchor: Vec<Vec<(usize, usize)>>,
    literals: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Search {
    Vector(packed::Searcher),
    Automaton(Box<AhoCorasick>),
}

impl Matcher {
    /// # Errors
    /// More literals than an automaton can be made of.
    pub(super) fn new(literals: &[&[u8]]) -> Result<Self, aho_corasick::BuildError> {
        let anchors = anchors(literals);
        let texts: Vec<&[u8]> = anchors.iter().map(|anchor| anchor.text.as_slice()).collect();
        let search = match packed::Config::new().builder().extend(&texts).build() {
            Some(searcher) => Search::Vector(searcher),
            None => Search::Automaton(Box::new(automaton(&texts)?)),
        };
        let of_anchor = anchors.into_iter().map(|anchor| anchor.literals).collect();
        Ok(Self { search, of_anchor, literals: literals.iter().map(|literal| literal.to_vec()).collect() })
    }

    /// Calls `hit` with each literal that is in `block` and where it begins, in
    /// the order of their anchors. A literal is told at each place where it is.
    pub(super) fn hits(&self, block: &[u8], mut hit: impl FnMut(usize, usize)) {
        let mut from = 0;
        while let Some((anchor, place)) = self.search.next(block, from) {
            for &(literal, inside) in self.of_anchor.get(anchor).into_iter().flatten() {
                if let Some(start) = place.checked_sub(inside)
                    && block[start..].starts_with(&self.literals[literal])
                {
                    hit(literal, start);
                }
            }
            from = place + 1;
        }
    }
}

fn automaton(texts: &[&[u8]]) -> Result<AhoCorasick, aho_corasick::BuildError> {
    let kind = Some(AhoCorasickKind::DFA);
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).kind(kind).build(texts)
}

impl Search {
    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let span = Span { start: from, end: block.len() };
        let found = match self {
            Self::Vector(searcher) => searcher.find_in(block, span),
            Self::Automaton(automaton) => automaton.find(Input::new(block).span(span)),
        }?;
        Some((found.pattern().as_usize(), found.start()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memchr::memmem;
    use proptest::prelude::*;

    fn found(literals: &[&[u8]], block: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        Matcher::new(literals).unwrap().hits(block, |literal, place| found.push((literal, place)));
        found.sort_unstable();
        found
    }

    fn naive(literals: &[&[u8]], block: &[u8]) -> Vec<(usize, usize)> {
        let places =
            |literal: &[u8]| (0..block.len()).filter(|place| block[*place..].starts_with(literal)).collect::<Vec<_>>();
        let all = literals.iter().enumerate();
        all.flat_map(|(index, literal)| places(literal).into_iter().map(move |place| (index, place))).collect()
    }

    #[test]
    fn a_hundred_literals_are_found_without_the_vector_search_too() {
        let words: Vec<String> = (0..200).map(|index| format!("q{index:03}zz{:03}", 997 * index % 1000)).collect();
        let literals: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let block = words.join(" and ");
        assert_eq!(found(&literals, block.as_bytes()).len(), 200);
        assert!(memmem::find(block.as_bytes(), b"q199").is_some());
    }

    proptest! {
        #[test]
        fn what_is_there_is_found_and_nothing_else(
            words in prop::collection::btree_set("[ab]{4,9}", 1..12),
            block in "[ab \n]{0,200}",
        ) {
            let literals: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            prop_assert_eq!(found(&literals, block.as_bytes()), naive(&literals, block.as_bytes()));
        }
    }
}
