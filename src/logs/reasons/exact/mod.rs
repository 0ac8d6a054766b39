//! Wordings that name one failure: what is wrong and what to do is known from the line alone.
//!
//! They are plain text in lower case, since a regex for each would have to be compiled at every start. One
//! search finds the wordings that a line may have.
#![forbid(unsafe_code)]

mod calls;
mod cuda;
mod cuda_texts;
mod launch;
mod nccl;
mod programs;
mod python;
mod rdma;
mod serving;
mod torch;

use super::Reason;
use super::needed::Candidates;
pub(crate) use cuda::NO_KERNEL;
use memchr::memmem;
use std::sync::LazyLock;

/// All of them; the first whose words are in a line counts.
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    let tables = [
        python::WORDINGS,
        calls::WORDINGS,
        nccl::WORDINGS,
        torch::WORDINGS,
        cuda::WORDINGS,
        cuda_texts::WORDINGS,
        rdma::WORDINGS,
        serving::WORDINGS,
        launch::WORDINGS,
        programs::WORDINGS,
    ];
    tables.into_iter().flatten()
}

/// The reason whose words are in a line.
pub(super) fn of(line: &[u8]) -> Option<&'static Reason> {
    let line = line.to_ascii_lowercase();
    let mut begun = FIRST_PIECES.begun(&line);
    begun.find(|reason| fits(reason, &line))
}

/// Whether a line in lower case has the words of a reason, and what else those need.
fn fits(reason: &Reason, line: &[u8]) -> bool {
    let needs_package = reason.words == python::WITHIN_PACKAGE;
    has(line, reason.words) && (!needs_package || python::misses_within_package(line))
}

/// One search for the first piece of every wording.
struct FirstPieces {
    candidates: Candidates,
    all: Vec<&'static Reason>,
}

static FIRST_PIECES: LazyLock<FirstPieces> = LazyLock::new(|| {
    let all: Vec<_> = all().collect();
    let pieces = |reason: &&Reason| {
        let wordings = reason.words.split('|');
        let first = wordings.filter_map(|wording| wording.split('*').next());
        Some(first.map(|piece| piece.as_bytes().to_vec()).collect())
    };
    FirstPieces {
        candidates: Candidates::new(all.iter().map(pieces)),
        all,
    }
});

impl FirstPieces {
    /// The reasons of which a line has a first piece, in their order.
    fn begun(&self, line: &[u8]) -> impl Iterator<Item = &'static Reason> {
        let numbers = self.candidates.of(line).into_iter();
        numbers.map(|number| self.all[number])
    }
}

/// Whether a line in lower case has one of the wordings that `|` separates. The pieces between `*` are in
/// the line in their order.
fn has(line: &[u8], words: &str) -> bool {
    words.split('|').any(|wording| {
        let mut rest = line;
        wording.split('*').all(|piece| {
            let at = memmem::find(rest, piece.as_bytes());
            rest = at.map_or(rest, |at| &rest[at + piece.len()..]);
            at.is_some()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_wording_are_in_their_order() {
        let check = |words: &str, line: &str, expected: bool| {
            assert_eq!(has(line.as_bytes(), words), expected, "{words}: {line}");
        };
        check("no gpu|no driver", "there is no driver here", true);
        check("rank*is gone", "rank 7 is gone", true);
        check("is gone*rank", "rank 7 is gone", false);
        check("ab*b", "ab", false);
    }

    #[test]
    fn the_search_for_first_pieces_hides_no_reason() {
        for reason in all() {
            for wording in reason.words.split('|') {
                let line = format!("x {} x", wording.replace('*', " 7 ")).into_bytes();
                let slow = all().find(|reason| fits(reason, &line));
                let words = of(&line).map(|reason| reason.words);
                assert_eq!(words, slow.map(|reason| reason.words), "{wording}");
            }
        }
    }

    #[test]
    fn wordings_are_in_lower_case_and_have_no_empty_piece() {
        for reason in all() {
            let words = reason.words;
            assert_eq!(words, words.to_ascii_lowercase());
            let mut pieces = words.split(['|', '*']);
            assert!(pieces.all(|piece| piece.len() >= 2), "{words}");
        }
    }
}
