//! Chooses anchors: a few short strings such that every literal contains one. A log is
//! searched for the anchors.
//!
//! A vector search (Teddy) is several times faster than an automaton, but takes at most 64
//! strings, and the catalogue has more literals than that. Literals share pieces, so
//! anchors are chosen greedily: the piece that most of the remaining literals contain, and
//! of several the one that is rarest in the examples, because every occurrence stops the
//! search. A piece of an ordinary line would stop the search at every such line, so it is
//! chosen only for a literal that has no other.
//!
//! The literals of an anchor mostly share more than one piece. Which of these `variants` is
//! searched for is decided where the strings of the search are put together (`buckets`).
#![forbid(unsafe_code)]

use foldhash::fast::RandomState;
use memchr::memmem;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Sizes of pieces in bytes. Teddy compares four; longer pieces have fewer false hits.
const SIZES: [usize; 3] = [8, 6, 4];
/// Lines of a log without problems.
pub(super) const ORDINARY: &str = include_str!("../../probes/logs/ordinary.txt");

/// A string to search for, and the literals that contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor<'a> {
    /// The string that was chosen.
    pub text: &'a [u8],
    /// Strings that every literal of the anchor contains, and that serve as well.
    pub variants: Vec<&'a [u8]>,
    /// Indices of literals.
    pub literals: Vec<usize>,
}

/// Anchors such that every literal belongs to exactly one. `examples` are lines with hits.
pub(super) fn anchors<'a>(literals: &[&'a [u8]], examples: &[&[u8]]) -> Vec<Anchor<'a>> {
    let ordinary = Ordinary::new();
    let mut pieces = HashMap::<&[u8], Piece, RandomState>::default();
    for (index, literal) in literals.iter().enumerate() {
        for text in candidates(literal, &ordinary) {
            let of = &mut pieces.entry(text).or_default().of;
            if of.last() != Some(&index) {
                of.push(index);
            }
        }
    }
    count(&mut pieces, examples);
    let rank = |text: &'a [u8], piece: &Piece| {
        let rarity = Reverse(piece.often);
        (piece.of.len(), rarity, text.len(), Reverse(text))
    };
    let ranked = pieces.iter().map(|(text, piece)| rank(text, piece));
    // A rank may be that of before, when more of its literals remained.
    let mut ranks: BinaryHeap<_> = ranked.collect();
    let mut is_left = vec![true; literals.len()];
    let mut chosen = Vec::new();
    while let Some((count, .., Reverse(text))) = ranks.pop() {
        let Some(piece) = pieces.get_mut(text) else {
            continue;
        };
        piece.of.retain(|index| is_left[*index]);
        if piece.of.len() < count {
            ranks.extend((!piece.of.is_empty()).then(|| rank(text, piece)));
            continue;
        }
        let of = std::mem::take(&mut piece.of);
        let of_all = |one: &&[u8]| {
            let mut others = of.iter().map(|index| literals[*index]);
            others.all(|literal| memmem::find(literal, one).is_some())
        };
        let first = of.first().map(|index| literals[*index]).unwrap_or_default();
        let variants = candidates(first, &ordinary).into_iter().filter(of_all);
        let variants = variants.collect();
        of.iter().for_each(|index| is_left[*index] = false);
        chosen.push(Anchor {
            text,
            variants,
            literals: of,
        });
    }
    chosen
}

/// What is known of a piece.
#[derive(Default)]
struct Piece {
    /// How often it occurs in the examples.
    often: usize,
    /// The literals that contain it, in order, without those that have an anchor.
    of: Vec<usize>,
}

/// Counts how often each piece occurs in `lines`.
fn count(pieces: &mut HashMap<&[u8], Piece, RandomState>, lines: &[&[u8]]) {
    let windows = |line| {
        SIZES
            .iter()
            .flat_map(move |size| <[u8]>::windows(line, *size))
    };
    for text in lines.iter().copied().flat_map(windows) {
        if let Some(piece) = pieces.get_mut(text) {
            piece.often += 1;
        }
    }
}

/// The pieces of a literal that no ordinary line contains, or the literal itself.
fn candidates<'a>(literal: &'a [u8], ordinary: &Ordinary) -> Vec<&'a [u8]> {
    let pieces = SIZES.iter().flat_map(|size| literal.windows(*size));
    let rare: Vec<&[u8]> = pieces.filter(|piece| !ordinary.has(piece)).collect();
    if rare.is_empty() { vec![literal] } else { rare }
}

struct Ordinary(HashSet<&'static [u8], RandomState>);

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
    use std::collections::BTreeSet;

    fn check(literals: &[&[u8]]) {
        let anchors = anchors(literals, &[]);
        let mut seen = BTreeSet::new();
        for anchor in &anchors {
            assert!(anchor.variants.contains(&anchor.text));
            for index in &anchor.literals {
                for variant in &anchor.variants {
                    assert!(memmem::find(literals[*index], variant).is_some());
                }
                assert!(seen.insert(*index), "{index} has two anchors");
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
    fn pieces_of_ordinary_lines_are_avoided() {
        let literal: &[u8] = b"NCCL INFO zzqzzq";
        let chosen = anchors(&[literal], &[]);
        assert!(
            memmem::find(ORDINARY.as_bytes(), chosen[0].text).is_none(),
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
