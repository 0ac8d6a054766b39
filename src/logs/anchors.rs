//! Few short strings of which every literal has one: what a log is searched for.
//!
//! A vector search (Teddy) is several times faster than an automaton and takes
//! 64 strings at most; the catalogue has more literals than that. Literals share
//! pieces, so pieces are chosen greedily: the one that most of the literals left
//! have, then the longer. A piece of an ordinary line would stop the search at
//! every such line, so it is taken only where a literal has nothing else.
#![forbid(unsafe_code)]

use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a piece. Teddy looks at four; a longer one is verified less often.
const SIZES: [usize; 3] = [8, 6, 4];
/// What a log is full of when nothing is wrong.
const ORDINARY: &str = include_str!("../../probes/logs/ordinary.txt");

/// One string to search for, and the literals that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The string.
    pub text: Vec<u8>,
    /// Literals by index, each with the place of the anchor in it.
    pub literals: Vec<(usize, usize)>,
}

/// Every literal is in exactly one anchor.
pub(super) fn anchors(literals: &[&[u8]]) -> Vec<Anchor> {
    let ordinary = Ordinary::new();
    let mut left: BTreeSet<usize> = (0..literals.len()).collect();
    let mut pieces = BTreeMap::<&[u8], BTreeSet<usize>>::new();
    for (index, literal) in literals.iter().enumerate() {
        for piece in candidates(literal, &ordinary) {
            pieces.entry(piece).or_default().insert(index);
        }
    }
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let best = pieces.iter().max_by_key(|(piece, of)| (of.len(), piece.len(), std::cmp::Reverse(**piece)));
        let Some((&piece, of)) = best else { break };
        let of = of.clone();
        let place = |index: &usize| Some((*index, memmem::find(literals[*index], piece)?));
        chosen.push(Anchor { text: piece.to_vec(), literals: of.iter().filter_map(place).collect() });
        left.retain(|index| !of.contains(index));
        pieces.retain(|_, others| {
            others.retain(|index| !of.contains(index));
            !others.is_empty()
        });
    }
    chosen
}

/// The pieces of a literal that ordinary lines have not, or the literal itself.
fn candidates<'a>(literal: &'a [u8], ordinary: &Ordinary) -> Vec<&'a [u8]> {
    let pieces = SIZES.iter().flat_map(|size| literal.windows(*size));
    let rare: Vec<&[u8]> = pieces.filter(|piece| !ordinary.has(piece)).collect();
    if rare.is_empty() { vec![literal] } else { rare }
}

struct Ordinary(BTreeSet<&'static [u8]>);

impl Ordinary {
    fn new() -> Self {
        Self(ORDINARY.lines().flat_map(|line| SIZES.iter().flat_map(|size| line.as_bytes().windows(*size))).collect())
    }

    fn has(&self, piece: &[u8]) -> bool {
        self.0.contains(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(literals: &[&[u8]]) {
        let anchors = anchors(literals);
        let mut seen = BTreeSet::new();
        for anchor in &anchors {
            for (index, place) in &anchor.literals {
                assert!(literals[*index][*place..].starts_with(&anchor.text));
                assert!(seen.insert(*index), "{index} is there twice");
            }
        }
        assert_eq!(seen.len(), literals.len());
    }

    #[test]
    fn literals_that_share_a_piece_share_an_anchor() {
        let literals: [&[u8]; 2] = [b"unable to allocate requests", b"cannot allocate requests"];
        check(&literals);
        assert_eq!(anchors(&literals).len(), 1);
    }

    #[test]
    fn what_ordinary_lines_have_is_avoided() {
        let literal: &[u8] = b"NCCL INFO zzqzzq";
        let chosen = anchors(&[literal]);
        assert!(memmem::find(ORDINARY.as_bytes(), &chosen[0].text).is_none(), "{chosen:?}");
    }

    proptest! {
        #[test]
        fn every_literal_has_one_anchor(literals in prop::collection::vec("[a-e ]{4,20}", 1..40)) {
            check(&literals.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }
}
