//! Finds the literals of a catalogue in a block of log.
//!
//! The block is searched for anchors (`anchors`); at each hit, the few literals that
//! contain the anchor are compared in place. Nothing here knows lines.
#![forbid(unsafe_code)]

use super::anchors::{Anchor, ORDINARY, anchors};
use super::buckets::order;
use aho_corasick::packed;
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span};

/// Literals, compiled for the search.
#[derive(Debug)]
pub(super) struct Matcher {
    search: Search,
    /// For each anchor: the literals that contain it.
    of_anchor: Vec<Vec<Candidate>>,
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

#[derive(Debug)]
enum Search {
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
        let anchors = in_order(anchors(literals, examples));
        let texts: Vec<&[u8]> = anchors
            .iter()
            .map(|anchor| anchor.text.as_slice())
            .collect();
        let search = match packed::Config::new().builder().extend(&texts).build() {
            Some(searcher) => Search::Vector(searcher),
            None => Search::Automaton(Box::new(automaton(&texts)?)),
        };
        // If one anchor starts with another, the search reports only one of them.
        let is_reported_with = |one: &Anchor, other: &Anchor| {
            one.text.starts_with(&other.text) || other.text.starts_with(&one.text)
        };
        let candidate = |(literal, inside): &(usize, usize)| {
            Candidate::new(*literal, *inside, literals[*literal])
        };
        let candidates_of = |one: &Anchor| {
            let same_hit = anchors.iter().filter(|other| is_reported_with(one, other));
            same_hit
                .flat_map(|anchor| anchor.literals.iter().filter_map(candidate))
                .collect()
        };
        let of_anchor = anchors.iter().map(candidates_of).collect();
        Ok(Self { search, of_anchor })
    }

    /// Calls `hit` with every occurrence of a literal in `block` and its offset, in the order
    /// of their anchors.
    pub(super) fn hits(&self, block: &[u8], mut hit: impl FnMut(usize, usize)) {
        let mut from = 0;
        while let Some((anchor, place)) = self.search.next(block, from) {
            for candidate in self.of_anchor.get(anchor).into_iter().flatten() {
                if let Some(start) = candidate.start(block, place) {
                    hit(candidate.literal, start);
                }
            }
            from = place + 1;
        }
    }
}

#[cfg(test)]
impl Matcher {
    pub(super) fn is_vector(&self) -> bool {
        matches!(self.search, Search::Vector(_))
    }
}

/// The order that makes the vector search fast.
fn in_order(anchors: Vec<Anchor>) -> Vec<Anchor> {
    let texts: Vec<&[u8]> = anchors
        .iter()
        .map(|anchor| anchor.text.as_slice())
        .collect();
    let order = order(&texts, ORDINARY.as_bytes());
    let mut anchors: Vec<Option<Anchor>> = anchors.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|index| anchors[index].take())
        .collect()
}

fn automaton(texts: &[&[u8]]) -> Result<AhoCorasick, aho_corasick::BuildError> {
    let kind = Some(AhoCorasickKind::DFA);
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(kind)
        .build(texts)
}

impl Search {
    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let span = Span {
            start: from,
            end: block.len(),
        };
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
    fn a_hundred_literals_are_found_without_the_vector_search_too() {
        let words: Vec<String> = (0..200)
            .map(|index| format!("q{index:03}zz{:03}", 997 * index % 1000))
            .collect();
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
