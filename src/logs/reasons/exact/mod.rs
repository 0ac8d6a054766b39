//! Wordings that name one failure: what is wrong and what to do is known from the line alone.
//!
//! They are plain text in lower case, since a regex for each would have to be compiled at every start.
#![forbid(unsafe_code)]

mod calls;
mod cuda;
mod launch;
mod nccl;
mod programs;
mod python;
mod rdma;
mod serving;
mod torch;

use super::Reason;
use memchr::memmem;

/// All of them; the first whose words are in a line counts.
pub(super) fn all() -> impl Iterator<Item = &'static Reason> {
    let tables = [
        python::WORDINGS,
        calls::WORDINGS,
        nccl::WORDINGS,
        torch::WORDINGS,
        cuda::WORDINGS,
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
    all().find(|reason| has(&line, reason.words))
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
    fn wordings_are_in_lower_case_and_have_no_empty_piece() {
        for reason in all() {
            let words = reason.words;
            assert_eq!(words, words.to_ascii_lowercase());
            let mut pieces = words.split(['|', '*']);
            assert!(pieces.all(|piece| piece.len() >= 2), "{words}");
        }
    }
}
