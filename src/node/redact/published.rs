//! Sentences of the kernel and its drivers by which `logs` knows what failed.
//!
//! They are published, so they are no secrets, also where the rest of a line is the value of a
//! header such as `Cookie:`. What stands before and behind such a sentence stays a secret.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Fewest words of a sentence: fewer may be a password.
const WORDS_MIN: usize = 3;

static SENTENCES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let signatures: toml::Table = include_str!("../../../probes/logs/system.toml")
        .parse()
        .ok()?;
    let signatures = signatures.get("signature")?.as_array()?;
    let literals = signatures
        .iter()
        .filter_map(|signature| Some(signature.get("literal")?.as_str()?.trim()));
    AhoCorasick::new(literals.filter(|literal| is_sentence(literal))).ok()
});

fn is_sentence(literal: &str) -> bool {
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    literal.split(' ').count() >= WORDS_MIN && literal.split(' ').all(is_word)
}

/// Where the sentences of a text are, in order, each with the space before it and the mark behind it.
pub(super) fn kept(text: &str) -> Vec<Range<usize>> {
    let Some(sentences) = &*SENTENCES else {
        return Vec::new();
    };
    let is_whole = |at: &Range<usize>| {
        text[..at.start].ends_with(' ') && !text[at.end..].starts_with(char::is_alphanumeric)
    };
    sentences
        .find_iter(text)
        .map(|found| found.range())
        .filter(is_whole)
        .map(|at| {
            let has_mark = text[at.end..].starts_with(['.', ',', ';', ':']);
            at.start - 1..at.end + usize::from(has_mark)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_the_kernel_are_found_as_whole_words() {
        let found = |text: &str| -> Vec<String> {
            let kept = kept(text).into_iter();
            kept.map(|at| text[at].to_owned()).collect()
        };
        assert_eq!(
            found("x=7, GPU has fallen off the bus."),
            [" fallen off the bus."]
        );
        assert!(found("xfallen off the bus, fallen off the buses").is_empty());
        assert!(is_sentence("fallen off the bus"));
        assert!(!is_sentence("poll_health:") && !is_sentence("timed out"));
    }
}
