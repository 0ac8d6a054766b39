//! Few short strings of which every literal has one: what a log is searched for.
//!
//! A vector search (Teddy) is several times faster than an automaton and takes
//! 64 strings at most; the catalogue has more literals than that. Literals share
//! pieces, so pieces are chosen greedily: the one that most of the literals left
//! have, then the one that lines of signatures have least often, as each place
//! stops the search. A piece of an ordinary line would stop it at every such
//! line, so it is taken only where a literal has nothing else.
#![forbid(unsafe_code)]

use foldhash::fast::RandomState;
use memchr::memmem;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a piece. Teddy looks at four; a longer one is verified less often.
const SIZES: [usize; 3] = [8, 6, 4];
/// What a log is full of when nothing is wrong.
pub(super) const ORDINARY: &str = include_str!("../../probes/logs/ordinary.txt");

/// One string to search for, and the literals that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The string.
    pub text: Vec<u8>,
    /// Literals by index, each with the place of the anchor in it.
    pub literals: Vec<(usize, usize)>,
}

/// Every literal is in exactly one anchor. `examples` are lines that have them.
pub(super) fn anchors(literals: &[&[u8]], examples: &[&[u8]]) -> Vec<Anchor> {
    let (ordinary, often) = (Ordinary::new(), often(examples));
    let mut left: BTreeSet<usize> = (0..literals.len()).collect();
    let mut pieces = BTreeMap::<&[u8], BTreeSet<usize>>::new();
    for (index, literal) in literals.iter().enumerate() {
        for piece in candidates(literal, &ordinary) {
            pieces.entry(piece).or_default().insert(index);
        }
    }
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let rarity = |piece: &[u8]| Reverse(often.get(piece).copied().unwrap_or_default());
        let best = pieces
            .iter()
            .max_by_key(|(piece, of)| (of.len(), rarity(piece), piece.len(), Reverse(**piece)));
        let Some((&piece, of)) = best else { break };
        let of = of.clone();
        let place = |index: &usize| Some((*index, memmem::find(literals[*index], piece)?));
        chosen.push(Anchor {
            text: piece.to_vec(),
            literals: of.iter().filter_map(place).collect(),
        });
        left.retain(|index| !of.contains(index));
        pieces.retain(|_, others| {
            others.retain(|index| !of.contains(index));
            !others.is_empty()
        });
    }
    chosen
}

/// How often each piece is in some lines.
fn often<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], usize, RandomState> {
    let mut often = HashMap::default();
    for piece in lines
        .iter()
        .flat_map(|line| SIZES.iter().flat_map(|size| line.windows(*size)))
    {
        *often.entry(piece).or_default() += 1;
    }
    often
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
        Self(
            ORDINARY
                .lines()
                .flat_map(|line| SIZES.iter().flat_map(|size| line.as_bytes().windows(*size)))
                .collect(),
        )
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
        let anchors = anchors(literals, &[]);
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
        assert_eq!(anchors(&literals, &[]).len(), 1);
    }

    #[test]
    fn of_two_pieces_the_rarer_is_taken() {
        let chosen = anchors(
            &[b"abcdwxyz"],
            &[b"abcdwxy abcdwx", b"bcdwxyz bcdwxyz abcdwxyz"],
        );
        assert_eq!(chosen[0].text, b"abcdwxyz");
        let chosen = anchors(&[b"abcd", b"abcd wxyz", b"wxyz"], &[b"abcd abcd", b"wxyz"]);
        assert_eq!(chosen[0].text, b"wxyz");
    }

    #[test]
    fn what_ordinary_lines_have_is_avoided() {
        let literal: &[u8] = b"NCCL INFO zzqzzq";
        let chosen = anchors(&[literal], &[]);
        assert!(
            memmem::find(ORDINARY.as_bytes(), &chosen[0].text).is_none(),
            "{chosen:?}"
        );
    }

    proptest! {
        #[test]
        fn every_literal_has_one_anchor(literals in prop::collection::vec("[a-e ]{4,20}", 1..40)) {
            check(&literals.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }
}
