//! Chinese words of logs. They are written without spaces, so what is known are pairs of letters: those that stand side
//! by side in this program's own Chinese texts. A name or a password has another pair.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::sync::LazyLock;

const TEXTS: [&str; 2] = [
    include_str!("../../run-model/chinese.toml"),
    include_str!("../../run-model/chinese-logs.toml"),
];

static KNOWN: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let runs = TEXTS
        .iter()
        .flat_map(|text| text.split(|letter| !is_han(letter)));
    runs.flat_map(pieces).collect()
});

pub(super) fn is_han(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{9fff}')
}

/// Whether every two letters that stand side by side do so in a text of this program.
pub(super) fn is_known(run: &str) -> bool {
    pieces(run).all(|piece| KNOWN.contains(piece))
}

/// The single letters of a text, and each two that stand side by side.
fn pieces(run: &str) -> impl Iterator<Item = &str> {
    run.char_indices().flat_map(|(at, letter)| {
        let one = at + letter.len_utf8();
        let two = run[one..].chars().next().map(|next| one + next.len_utf8());
        std::iter::once(&run[at..one]).chain(two.map(|end| &run[at..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_this_program_are_known_and_names_are_not() {
        assert!(is_known("连接") && is_known("") && !is_known("枫林客户") && !is_known("连林"));
    }
}
