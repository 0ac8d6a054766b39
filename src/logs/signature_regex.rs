//! The regexes of signatures.
//!
//! A regex that tells digits apart is asked of every line that has its literal, and is compiled as usual. The others,
//! which are most, are asked once for all lines of a form (`parser`). A regex of the crate `regex` keeps a cache for
//! the next time, for each thread: hundreds of them take megabytes, and one that is made anew for each question takes
//! longer than the question. So these are searched by backtracking, whose cache is the same for all of them.
#![forbid(unsafe_code)]

use super::catalogue::{REGEX_BYTES_MAX, compile};
use super::digits;
use regex::bytes::Regex;
use regex_automata::nfa::thompson::backtrack::{self, BoundedBacktracker};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{Compiler, Config, NFA};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::{NonMaxUsize, PatternID};
use regex_automata::{Input, MatchKind};

/// The regex of a signature.
#[derive(Debug, Clone)]
pub(super) enum SignatureRegex {
    /// For one that tells digits apart.
    EachLine(Regex),
    EachForm(BoundedBacktracker),
}

/// What searches of [`SignatureRegex::EachForm`] use again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    cache: Option<backtrack::Cache>,
    /// Offsets of the groups: start and end of each.
    slots: Vec<Option<NonMaxUsize>>,
}

impl SignatureRegex {
    /// # Errors
    /// The regex is wrong, or larger than [`REGEX_BYTES_MAX`].
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut parser = regex_syntax::ParserBuilder::new();
        let parsed = parser.unicode(false).utf8(false).build().parse(text);
        let parsed = parsed.map_err(|error| error.to_string())?;
        if digits::tells_apart(&parsed) {
            return compile(text).map(Self::EachLine);
        }
        let config = Config::new()
            .utf8(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX));
        let nfa = Compiler::new().configure(config).build_from_hir(&parsed);
        let nfa = nfa.map_err(|error| error.to_string())?;
        let prefilter = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &parsed);
        let config = backtrack::Config::new().prefilter(prefilter);
        let mut builder = backtrack::Builder::new();
        let regex = builder.configure(config).build_from_nfa(nfa);
        regex.map(Self::EachForm).map_err(|error| error.to_string())
    }

    pub(super) fn is_match(&self, text: &[u8], scratch: &mut Scratch) -> bool {
        match self {
            Self::EachLine(regex) => regex.is_match(text),
            Self::EachForm(regex) => {
                scratch.slots.clear();
                scratch.search(regex, text).is_some()
            }
        }
    }

    /// The groups with a name that a match in `text` has, if there is one.
    pub(super) fn groups<'a>(
        &self,
        text: &'a [u8],
        scratch: &mut Scratch,
    ) -> Option<Vec<(&str, &'a [u8])>> {
        match self {
            Self::EachLine(regex) => {
                let captures = regex.captures(text)?;
                let names = regex.capture_names().flatten();
                let groups = names.filter_map(|name| Some((name, captures.name(name)?.as_bytes())));
                Some(groups.collect())
            }
            Self::EachForm(regex) => {
                let groups = regex.get_nfa().group_info();
                scratch.slots.clear();
                scratch.slots.resize(groups.slot_len(), None);
                let pattern = scratch.search(regex, text)?;
                let names = groups.pattern_names(pattern);
                let spans = scratch.slots.chunks_exact(2);
                let group = |(name, span): (Option<_>, &[Option<NonMaxUsize>])| {
                    let [start, end] = [*span.first()?, *span.get(1)?];
                    Some((name?, text.get(start?.get()..end?.get())?))
                };
                Some(names.zip(spans).filter_map(group).collect())
            }
        }
    }
}

impl Scratch {
    fn search(&mut self, regex: &BoundedBacktracker, text: &[u8]) -> Option<PatternID> {
        let cache = self.cache.get_or_insert_with(|| regex.create_cache());
        regex.reset_cache(cache);
        let input = Input::new(text);
        match regex.try_search_slots(cache, &input, &mut self.slots) {
            Ok(found) => found,
            // The text is too long to remember which places of it were tried.
            Err(_) => {
                let prefilter = regex.get_config().get_prefilter().cloned();
                search_long(regex.get_nfa(), prefilter, &input, &mut self.slots)
            }
        }
    }
}

fn search_long(
    nfa: &NFA,
    prefilter: Option<Prefilter>,
    input: &Input<'_>,
    slots: &mut [Option<NonMaxUsize>],
) -> Option<PatternID> {
    let config = pikevm::Config::new().prefilter(prefilter);
    let regex = PikeVM::builder()
        .configure(config)
        .build_from_nfa(nfa.clone());
    let regex = regex.ok()?;
    regex.search_slots(&mut regex.create_cache(), input, slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The groups as the crate `regex` finds them.
    fn expected<'a>(regex: &'a Regex, text: &'a [u8]) -> Option<Vec<(&'a str, &'a [u8])>> {
        let captures = regex.captures(text)?;
        let names = regex.capture_names().flatten();
        let groups = names.filter_map(|name| Some((name, captures.name(name)?.as_bytes())));
        Some(groups.collect())
    }

    fn check(pattern: &str, text: &[u8], scratch: &mut Scratch) {
        let (own, other) = (
            SignatureRegex::new(pattern).unwrap(),
            compile(pattern).unwrap(),
        );
        assert!(matches!(own, SignatureRegex::EachForm(_)), "{pattern}");
        assert_eq!(
            own.is_match(text, scratch),
            other.is_match(text),
            "{pattern}"
        );
        assert_eq!(
            own.groups(text, scratch),
            expected(&other, text),
            "{pattern}"
        );
    }

    #[test]
    fn a_text_that_is_too_long_to_backtrack_is_searched_as_well() {
        let mut scratch = Scratch::default();
        for end in ["rank 7 gone", "rank gone"] {
            let text = ["rank x ".repeat(1 << 18).as_str(), end].concat();
            check(
                r"rank (?P<rank>\d+)( by (?P<who>\w+))? gone",
                text.as_bytes(),
                &mut scratch,
            );
        }
    }

    #[test]
    fn a_wrong_regex_is_refused() {
        assert!(SignatureRegex::new("(").is_err());
        assert!(SignatureRegex::new(r"(\w{200}){200}").is_err());
    }

    proptest! {
        #[test]
        fn one_scratch_serves_all_regexes_as_the_crate_finds_them(
            texts in prop::collection::vec("(rank|comm|a|b|\\d| |=|\n|\u{e9}){0,24}", 1..8),
        ) {
            let mut scratch = Scratch::default();
            let patterns = [
                r"rank (?P<rank>\d+)", r"(?P<a>a+)(?P<b>b+)?", r"^(?P<word>\w+)\b.*?(?P<end>\d*)$",
                r"(?i)COMM ?= ?(?P<of>\w+)|(?P<other>rank)", r"(?:(?P<x>a)|b)*", "", r"(?m)^a",
            ];
            for (text, pattern) in texts.iter().flat_map(|text| patterns.map(|one| (text, one))) {
                check(pattern, text.as_bytes(), &mut scratch);
            }
        }
    }
}
