//! Regexes that are tried only on texts with a word that each of their matches has.
//!
//! There are hundreds of them, few texts to try them on, and few that match. To compile one takes tens of
//! microseconds, and so do the first texts that its automaton sees; one search for the words leaves out nearly all.
#![forbid(unsafe_code)]

use super::CACHE_MAX;
use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};
use std::sync::OnceLock;

/// Shorter words are in too many texts.
const WORD_MIN: usize = 3;
/// Most words of which a regex needs one.
const WORDS_MAX: usize = 24;

/// Numbered candidates, each for the texts that have one of its words, in any case.
pub(super) struct Candidates {
    /// `None`: the search cannot be built, and all are candidates.
    search: Option<AhoCorasick>,
    /// The candidate of each word of the search.
    of_word: Vec<usize>,
    /// Those that need no word.
    others: Vec<usize>,
    count: usize,
}

impl Candidates {
    /// The words of each candidate; `None` if it needs none.
    pub(super) fn new(all: impl Iterator<Item = Option<Vec<Vec<u8>>>>) -> Self {
        let (mut words, mut of_word, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut count = 0;
        for (number, needed) in all.enumerate() {
            match needed {
                Some(needed) => {
                    of_word.resize(of_word.len() + needed.len(), number);
                    words.extend(needed);
                }
                None => others.push(number),
            }
            count = number + 1;
        }
        let mut search = AhoCorasick::builder();
        Self {
            search: search.ascii_case_insensitive(true).build(words).ok(),
            of_word,
            others,
            count,
        }
    }

    /// The numbers of the candidates for a text, in their order.
    pub(super) fn of(&self, text: &[u8]) -> Vec<usize> {
        let Some(search) = &self.search else {
            return (0..self.count).collect();
        };
        let found = search.find_overlapping_iter(text);
        let mut numbers: Vec<usize> = found
            .map(|found| self.of_word[found.pattern().as_usize()])
            .chain(self.others.iter().copied())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// Regexes in an order, for which case does not decide.
pub(super) struct Regexes {
    texts: Vec<String>,
    compiled: Vec<OnceLock<Regex>>,
    candidates: Candidates,
}

impl Regexes {
    pub(super) fn new(texts: impl Iterator<Item = String>) -> Self {
        let texts: Vec<String> = texts.collect();
        Self {
            compiled: texts.iter().map(|_| OnceLock::new()).collect(),
            candidates: Candidates::new(texts.iter().map(|text| needed_by(text))),
            texts,
        }
    }

    /// The number of the first regex, of those from `from` on, that matches a text.
    pub(super) fn first_in(&self, text: &[u8], from: usize) -> Option<usize> {
        let numbers = self.candidates.of(text).into_iter();
        let mut numbers = numbers.filter(|number| *number >= from);
        numbers.find(|number| self.of(*number).is_match(text))
    }

    fn of(&self, number: usize) -> &Regex {
        self.compiled[number].get_or_init(|| {
            // With ASCII only, the automaton is a tenth as large.
            RegexBuilder::new(&self.texts[number])
                .unicode(false)
                .case_insensitive(true)
                .dfa_size_limit(CACHE_MAX)
                .build()
                .expect("a sound regex")
        })
    }
}

/// Words of which every match of a regex has one, whatever their case.
fn needed_by(regex: &str) -> Option<Vec<Vec<u8>>> {
    let mut parser = ParserBuilder::new();
    let parsed = parser.unicode(false).utf8(false).build().parse(regex);
    words(&parsed.ok()?)
}

fn words(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => None,
        HirKind::Literal(literal) => {
            let word = literal.0.to_vec();
            (word.len() >= WORD_MIN).then(|| vec![word])
        }
        HirKind::Repetition(repetition) if repetition.min == 0 => None,
        HirKind::Repetition(repetition) => words(&repetition.sub),
        HirKind::Capture(capture) => words(&capture.sub),
        // Of all that it has, what is least often in a text.
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(words)
            .max_by_key(|words| words.iter().map(Vec::len).min()),
        HirKind::Alternation(parts) => {
            let of_parts: Option<Vec<_>> = parts.iter().map(words).collect();
            let all = of_parts?.concat();
            (all.len() <= WORDS_MAX).then_some(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_has_one_of_the_words() {
        let check = |regex: &str, expected: Option<&[&str]>| {
            let words = expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()));
            assert_eq!(needed_by(regex), words.map(Iterator::collect), "{regex}");
        };
        check("connection refused", Some(&["connection refused"]));
        check(r"\btimed? ?out\b.{0,9}Peer", Some(&["Peer"]));
        check("(?:refused|reset) by", Some(&["refused", "reset"]));
        check("(?:refused|no) by", Some(&[" by"]));
        check("(?:refused)?", None);
        check("(?:refused)+ x", Some(&["refused"]));
        check(r"\d+", None);
        check("ab", None);
    }

    #[test]
    fn the_search_hides_no_regex() {
        let texts = ["(?-i)Refused", "host|route", "[a-z]+ at", "ro.te"];
        let regexes = Regexes::new(texts.iter().map(|text| (*text).to_owned()));
        let check = |text: &str, from, expected| {
            assert_eq!(regexes.first_in(text.as_bytes(), from), expected, "{text}");
        };
        check("REFUSED", 0, None);
        check("Refused by HOST at", 0, Some(0));
        check("refused by HOST at", 0, Some(1));
        check("refused by HOST at", 2, Some(2));
        check("no ROUTE", 0, Some(1));
        check("no ROUTE", 2, Some(3));
        check("", 0, None);
    }
}
