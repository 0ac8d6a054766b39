//! Finds the literals of a catalogue in a block of log.
//!
//! The block is searched for anchors (`anchors`), by one or several vector searches
//! (`buckets`); at each hit, the few literals that contain the anchor are compared in place.
//! Nothing here knows lines.
#![forbid(unsafe_code)]

use super::anchors::{Anchor, ORDINARY, anchors};
use super::buckets::{Chosen, searches};
use aho_corasick::packed;
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span};
use memchr::memmem;

/// More vector searches, each of which reads every block, are slower than one automaton.
const VECTOR_SEARCHES_MAX: usize = 6;

/// Literals, compiled for the search.
#[derive(Debug)]
pub(super) struct Matcher {
    searches: Vec<Search>,
}

/// A literal to compare where its anchor was found.
#[derive(Debug)]
struct Candidate {
    literal: usize,
    /// Offset of the anchor in the literal.
    inside: usize,
    /// Compared first: a frequent anchor has twenty literals, and a call of `memcmp` for each
    /// would cost more than the search.
    head: [u8; HEAD],
    tail: Box<[u8]>,
}

/// Bytes of a literal that are compared at once; every literal is at least as long.
const HEAD: usize = 4;

impl Candidate {
    fn new(literal: usize, inside: usize, text: &[u8]) -> Option<Self> {
        let (head, tail) = text.split_first_chunk()?;
        Some(Self {
            literal,
            inside,
            head: *head,
            tail: tail.into(),
        })
    }

    /// Start of the literal in a block that has its anchor at `place`, if it is there.
    fn start(&self, block: &[u8], place: usize) -> Option<usize> {
        let start = place.checked_sub(self.inside)?;
        let (head, rest) = block.get(start..)?.split_first_chunk::<HEAD>()?;
        (*head == self.head && rest.starts_with(&self.tail)).then_some(start)
    }
}

/// One search for some of the anchors.
#[derive(Debug)]
struct Search {
    kind: SearchKind,
    /// For each string of the search: the literals that contain it.
    of_string: Vec<Vec<Candidate>>,
}

#[derive(Debug)]
enum SearchKind {
    Vector(packed::Searcher),
    Automaton(Box<AhoCorasick>),
}

impl Matcher {
    /// Compiles the literals. `examples` are typical lines with hits.
    ///
    /// # Errors
    /// The literals are too many for an automaton.
    pub(super) fn new(
        literals: &[&[u8]],
        examples: &[&[u8]],
    ) -> Result<Self, aho_corasick::BuildError> {
        let anchors = anchors(literals, examples);
        let mut searches = searches(&anchors, ORDINARY.as_bytes());
        if searches.len() > VECTOR_SEARCHES_MAX {
            searches = vec![searches.concat()];
        }
        let search = |chosen: &Vec<Chosen<'_>>| Search::new(chosen, &anchors, literals);
        let searches = searches.iter().map(search).collect::<Result<_, _>>()?;
        Ok(Self { searches })
    }

    /// A walk over the places of a block where a literal may be.
    pub(super) fn walk<'a>(&'a self, block: &'a [u8]) -> Walk<'a> {
        let searches = self.searches.iter();
        Walk {
            searches: &self.searches,
            block,
            next: searches.map(|search| search.place(block, 0)).collect(),
        }
    }

    /// Calls `hit` with every occurrence of a literal in `block` and its offset, in the order
    /// of their anchors.
    pub(super) fn hits(&self, block: &[u8], mut hit: impl FnMut(usize, usize)) {
        if let [only] = self.searches.as_slice() {
            let mut from = 0;
            while let Some((string, place)) = only.next(block, from) {
                only.report(block, string, place, &mut hit);
                from = place + 1;
            }
            return;
        }
        let next = |search: &Search, from| search.next(block, from);
        let mut found: Vec<_> = self.searches.iter().map(|search| next(search, 0)).collect();
        let earliest = |found: &[Option<(usize, usize)>]| {
            let places = found.iter().enumerate();
            places
                .filter_map(|(number, one)| one.map(|(string, place)| (place, number, string)))
                .min()
        };
        while let Some((place, number, string)) = earliest(&found) {
            self.searches[number].report(block, string, place, &mut hit);
            found[number] = next(&self.searches[number], place + 1);
        }
    }
}

/// Finds places from left to right where a literal may be.
pub(super) struct Walk<'a> {
    searches: &'a [Search],
    block: &'a [u8],
    /// For each search: the place of its next string, or the end of the block.
    next: Vec<usize>,
}

impl Walk<'_> {
    /// The next anchor at `from` or behind it; the literals of the anchor are not compared.
    /// Anchors before `from` are left out, so that a line can be skipped.
    pub(super) fn next_from(&mut self, from: usize) -> Option<usize> {
        for (search, next) in self.searches.iter().zip(&mut self.next) {
            if *next < from {
                *next = search.place(self.block, from);
            }
        }
        let place = self.next.iter().min().copied();
        place.filter(|place| *place < self.block.len())
    }
}

impl Search {
    fn new(
        chosen: &[Chosen<'_>],
        anchors: &[Anchor<'_>],
        literals: &[&[u8]],
    ) -> Result<Self, aho_corasick::BuildError> {
        let texts: Vec<&[u8]> = chosen.iter().map(|(_, text)| *text).collect();
        let kind = match packed::Config::new().builder().extend(&texts).build() {
            Some(searcher) => SearchKind::Vector(searcher),
            None => SearchKind::Automaton(Box::new(automaton(&texts)?)),
        };
        // If one string starts with another, the search reports only one of them.
        let same_hit = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        let candidates_of = |text: &&[u8]| {
            let mut candidates = Vec::new();
            for (anchor, other) in chosen.iter().filter(|(_, other)| same_hit(text, other)) {
                for &literal in &anchors[*anchor].literals {
                    let inside = memmem::find(literals[literal], other);
                    let candidate = inside
                        .and_then(|inside| Candidate::new(literal, inside, literals[literal]));
                    candidates.extend(candidate);
                }
            }
            candidates
        };
        Ok(Self {
            kind,
            of_string: texts.iter().map(candidates_of).collect(),
        })
    }

    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let span = Span {
            start: from,
            end: block.len(),
        };
        let found = match &self.kind {
            SearchKind::Vector(searcher) => searcher.find_in(block, span),
            SearchKind::Automaton(automaton) => automaton.find(Input::new(block).span(span)),
        }?;
        Some((found.pattern().as_usize(), found.start()))
    }

    /// The place of the next string, or the end of the block.
    fn place(&self, block: &[u8], from: usize) -> usize {
        self.next(block, from)
            .map_or(block.len(), |(_, place)| place)
    }

    /// Compares the literals that contain a string where it was found.
    fn report(
        &self,
        block: &[u8],
        string: usize,
        place: usize,
        hit: &mut impl FnMut(usize, usize),
    ) {
        for candidate in self.of_string.get(string).into_iter().flatten() {
            if let Some(start) = candidate.start(block, place) {
                hit(candidate.literal, start);
            }
        }
    }
}

#[cfg(test)]
impl Matcher {
    /// The number of vector searches; `None` if there is an automaton.
    pub(super) fn vector_searches(&self) -> Option<usize> {
        let is_vector = |search: &Search| matches!(search.kind, SearchKind::Vector(_));
        self.searches
            .iter()
            .all(is_vector)
            .then_some(self.searches.len())
    }
}

fn automaton(texts: &[&[u8]]) -> Result<AhoCorasick, aho_corasick::BuildError> {
    let kind = Some(AhoCorasickKind::DFA);
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(kind)
        .build(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(literals: &[&[u8]], block: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        Matcher::new(literals, &[])
            .unwrap()
            .hits(block, |literal, place| found.push((literal, place)));
        found.sort_unstable();
        found
    }

    fn naive(literals: &[&[u8]], block: &[u8]) -> Vec<(usize, usize)> {
        let places = |literal: &[u8]| {
            (0..block.len())
                .filter(|place| block[*place..].starts_with(literal))
                .collect::<Vec<_>>()
        };
        let all = literals.iter().enumerate();
        all.flat_map(|(index, literal)| {
            places(literal).into_iter().map(move |place| (index, place))
        })
        .collect()
    }

    #[test]
    fn many_literals_are_found_with_several_searches_and_with_an_automaton() {
        for (count, is_vector) in [(200_u32, true), (1200, false)] {
            let words: Vec<String> = (0..count)
                .map(|index| format!("q{:06x}", index.wrapping_mul(2_654_435_761) >> 8))
                .collect();
            let literals: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let searches = Matcher::new(&literals, &[]).unwrap().vector_searches();
            assert_eq!(searches.is_some_and(|searches| searches > 1), is_vector);
            let block = words.join(" and ");
            assert_eq!(
                found(&literals, block.as_bytes()),
                naive(&literals, block.as_bytes())
            );
        }
    }

    #[test]
    fn hits_of_several_searches_are_in_order() {
        let words: Vec<String> = (0..200).map(|index| format!("q{index:03}w")).collect();
        let literals: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let matcher = Matcher::new(&literals, &[]).unwrap();
        assert!(matcher.searches.len() > 1);
        let block = words.iter().rev().cloned().collect::<Vec<_>>().join(" ");
        let mut places = Vec::new();
        matcher.hits(block.as_bytes(), |_, place| places.push(place));
        assert!(places.is_sorted() && places.len() == 200, "{places:?}");
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
