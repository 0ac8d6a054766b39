//! Parses lines that may have a literal: their records, and the signatures of each.
//!
//! A log repeats itself: most lines differ from an earlier one only in their numbers. Such
//! lines have one *form*, the line with `0` for every digit. They have the same literals and
//! the same layout, and a regex that treats all digits alike matches all of them in the same
//! places. So a form is parsed once and kept, and a later line of it costs a comparison. What
//! the values of digits decide is found out for each line: the regexes with a digit in them
//! are asked again, and literals with a digit are compared again.
#![forbid(unsafe_code)]

use super::any_of::AnyOf;
use super::catalogue::{Regexes, SignatureCatalogue};
use super::counting::Counting;
use super::digits;
use super::fields::{self, End, FlowText, Polls};
use super::harness::HarnessReading;
use super::loggers::Logged;
use super::shape::{self, Layout, Record, Span};
use super::signature::Fact;
use super::{seen, source, stated, traceback, wrapped};
use foldhash::fast::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// Most hits of one line that are examined; a line of many MiB may have millions.
const HITS_MAX: usize = 64;
/// Forms that are kept, at most some 4 MiB for each thread: sets, and forms of each. With half as many sets, or half as
/// many forms of each, a log of which four in five lines match takes 10 to 40 % longer.
const SETS: u64 = 2048;
const WAYS: usize = 4;
/// Forms that came once, of which some are remembered. A form is kept when it comes again: half of a log's forms come so
/// rarely that keeping them gains nothing.
const CAME_ONCE: u64 = 256;
/// Longest line whose form is kept, in bytes.
const FORM_BYTES: usize = 512;

/// Words of a line that may be an exception with frames above it.
static EXCEPTION_WORDS: LazyLock<AnyOf> =
    LazyLock::new(|| AnyOf::new(&["Error", "ERR", "xception"]));

/// A line; without a literal it has no records.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedLine {
    /// Whether it has the literal of a signature, and not only a marker of warnings.
    pub has_signature: bool,
    /// Whether it may go on in the next line.
    pub may_go_on: bool,
    /// Whether it looks like code that a traceback quotes.
    pub looks_like_code: bool,
    pub records: Vec<ParsedRecord>,
    /// Literals with a digit, places where the form allows them, and whether they are there.
    literals: Vec<(usize, usize, bool)>,
}

impl ParsedLine {
    /// Gives back what its vectors have beyond their items: the first item of one makes room for four.
    fn shrink(&mut self) {
        for record in &mut self.records {
            record.found.shrink_to_fit();
            record.asked.shrink_to_fit();
        }
        self.records.shrink_to_fit();
        self.literals.shrink_to_fit();
    }
}

/// A record with a literal.
#[derive(Debug, PartialEq)]
pub(super) struct ParsedRecord {
    layout: Layout,
    /// Offset of its first literal in the line.
    pub at: usize,
    pub found: Vec<Found>,
    /// Whether it may name a rank.
    pub names_rank: bool,
    /// The message of an error that a program logged.
    error: Option<Span>,
    /// The message of a warning that a program logged.
    notice: Option<Span>,
    /// What a line in no logger's form, or at the level DEBUG, states.
    stated: Option<Span>,
    /// For a line of a program that drives the plugin itself.
    pub harness: Option<Box<HarnessReading>>,
    /// The signatures whose regex was tried and depends on digits, with the result.
    asked: Vec<(usize, bool)>,
}

/// A signature of a record.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub signature: usize,
    pub counting: Counting,
    /// Offset of its literal in the line.
    pub at: usize,
    /// Whether the line may be the last of a traceback.
    pub has_frames: bool,
    fact: FactSpans,
}

/// What the fact of a signature is read from.
#[derive(Debug, PartialEq)]
enum FactSpans {
    /// The message, or nothing.
    Message,
    /// In the order of `Fact::groups`.
    Groups([Option<Span>; 2]),
    Flow(Box<OfFlow>),
}

/// What a line of a flow tells.
#[derive(Debug, PartialEq)]
struct OfFlow {
    flow: Option<FlowSpans>,
    nic: Option<Span>,
    polls: Option<(Span, Span)>,
}

/// A [`FlowText`]: address and port of both ends.
#[derive(Debug, PartialEq)]
struct FlowSpans {
    local: (Span, Span),
    remote: (Span, Span),
    sends: bool,
}

impl FlowSpans {
    fn of(line: &[u8], flow: FlowText<'_>) -> Self {
        let end = |end: End<'_>| (Span::of(line, end.ip), Span::of(line, end.port));
        Self {
            local: end(flow.local),
            remote: end(flow.remote),
            sends: flow.sends,
        }
    }

    fn text<'a>(&self, line: &'a [u8]) -> FlowText<'a> {
        let end = |(ip, port): (Span, Span)| End {
            ip: ip.in_line(line),
            port: port.in_line(line),
        };
        FlowText {
            local: end(self.local),
            remote: end(self.remote),
            sends: self.sends,
        }
    }
}

impl ParsedRecord {
    pub(super) fn record<'a>(&self, line: &'a [u8]) -> Record<'a> {
        self.layout.record(line)
    }

    pub(super) fn error<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.error.map(|error| error.in_line(line))
    }

    pub(super) fn notice<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.notice.map(|notice| notice.in_line(line))
    }

    pub(super) fn stated<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.stated.map(|stated| stated.in_line(line))
    }
}

impl Found {
    /// The groups that the signature's fact reads, in the order of `Fact::groups`.
    pub(super) fn groups<'a>(&self, line: &'a [u8]) -> [Option<&'a [u8]>; 2] {
        let FactSpans::Groups(groups) = self.fact else {
            return [None, None];
        };
        groups.map(|span| span.map(|span| span.in_line(line)))
    }

    pub(super) fn flow<'a>(&self, line: &'a [u8]) -> Option<FlowText<'a>> {
        match &self.fact {
            FactSpans::Flow(of) => of.flow.as_ref().map(|flow| flow.text(line)),
            _ => None,
        }
    }

    /// The interface of a slow flow.
    pub(super) fn nic<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        match &self.fact {
            FactSpans::Flow(of) => of.nic.map(|nic| nic.in_line(line)),
            _ => None,
        }
    }

    /// How often a slow flow was polled.
    pub(super) fn polls(&self, line: &[u8]) -> Option<Polls> {
        match &self.fact {
            FactSpans::Flow(of) => {
                let (count, nanoseconds) = of.polls?;
                Polls::new((count.in_line(line), nanoseconds.in_line(line)))
            }
            _ => None,
        }
    }
}

/// The parser of one thread.
pub(super) struct Parser<'a> {
    catalogue: &'a SignatureCatalogue,
    regexes: Regexes<'a>,
    known: KnownForms,
    /// The last line whose form is not kept.
    other: ParsedLine,
    hits: Vec<(usize, usize)>,
    found: Vec<usize>,
    was_known: bool,
}

impl<'a> Parser<'a> {
    pub(super) fn new(catalogue: &'a SignatureCatalogue) -> Self {
        Self {
            catalogue,
            regexes: catalogue.regexes(),
            known: KnownForms::default(),
            other: ParsedLine::default(),
            hits: Vec::new(),
            found: Vec::new(),
            was_known: false,
        }
    }

    /// Whether the last line was of a known form.
    pub(super) fn was_known(&self) -> bool {
        self.was_known
    }

    /// Parses a line without escape sequences.
    pub(super) fn parse(&mut self, line: &[u8]) -> &ParsedLine {
        self.was_known = false;
        if line.len() > FORM_BYTES {
            self.other = self.parse_new(line).0;
            return &self.other;
        }
        let (slot, is_kept) = self.known.find(line);
        let known = self.known.line(slot).filter(|_| is_kept);
        self.was_known = known.is_some_and(|known| self.holds(known, line));
        if !self.was_known {
            let (mut parsed, is_of_form) = self.parse_new(line);
            if !is_of_form || !is_kept && !self.known.came_before() {
                self.other = parsed;
                return &self.other;
            }
            let places = self.catalogue.places_of_digits(self.known.form());
            let asked =
                places.map(|(literal, at)| (literal, at, self.catalogue.is_at(literal, line, at)));
            parsed.literals = asked.collect();
            self.known.keep(slot, parsed);
        }
        self.known.line(slot).unwrap_or(&self.other)
    }

    /// Whether the digits of a line decide the same as those of a known line of its form.
    fn holds(&self, known: &ParsedLine, line: &[u8]) -> bool {
        let is_same = |(literal, at, was): &(usize, usize, bool)| {
            self.catalogue.is_at(*literal, line, *at) == *was
        };
        let records = || known.records.iter();
        known.literals.iter().all(is_same) && records().all(|one| one.holds(line, &self.regexes))
    }

    /// Parses a line, and whether all lines of its form with the same answers are parsed so.
    fn parse_new(&mut self, line: &[u8]) -> (ParsedLine, bool) {
        let mut hits = std::mem::take(&mut self.hits);
        hits.clear();
        self.catalogue.hits(line, |literal, place| {
            if hits.len() < HITS_MAX {
                hits.push((literal, place));
            }
        });
        // The search reports hits in the order of their anchors.
        hits.sort_unstable_by_key(|(_, at)| *at);
        let is_signature =
            |(literal, _): &(usize, usize)| self.catalogue.is_only_of_signatures(*literal);
        let mut parsed = ParsedLine {
            has_signature: hits.iter().any(is_signature),
            may_go_on: wrapped::may_go_on(line),
            looks_like_code: source::looks_like_code(line),
            ..ParsedLine::default()
        };
        let (mut rest, mut is_of_form) = (hits.as_slice(), true);
        while let Some((&(_, first), _)) = rest.split_first() {
            let (record, start, end) = shape::record_at(line, first);
            // A marker precedes its message.
            let size = rest
                .iter()
                .take_while(|(_, at)| *at < end.max(first + 1))
                .count()
                .max(1);
            let (mine, others) = rest.split_at(size);
            parsed
                .records
                .push(self.parse_record(line, &record, start, mine, &mut is_of_form));
            rest = others;
        }
        self.hits = hits;
        parsed.has_signature |= parsed.records.iter().any(|one| !one.found.is_empty());
        (parsed, is_of_form)
    }

    fn parse_record(
        &mut self,
        line: &[u8],
        record: &Record<'_>,
        start: usize,
        hits: &[(usize, usize)],
        is_of_form: &mut bool,
    ) -> ParsedRecord {
        let mut asked = Vec::new();
        let is_of_message = |at: usize| at >= start || record.level().is_none();
        let of_message = hits.iter().filter(|(_, at)| is_of_message(*at));
        self.catalogue.of_message(
            of_message.map(|(literal, _)| *literal),
            record.message,
            &self.regexes,
            &mut self.found,
            &mut asked,
        );
        let first = hits.first().map_or(0, |(_, at)| *at);
        // What a line has besides digits, so that it is the same for all lines of a form.
        let may_have_frames =
            traceback::cuts(line) || !record.has_level() && EXCEPTION_WORDS.is_in(line);
        let found = self.found.iter().map(|&signature| {
            let hit = hits
                .iter()
                .find(|(literal, _)| self.catalogue.has(*literal, signature));
            let counting = self.catalogue.counting[signature];
            let fact = counting.fact;
            let has_groups = fact.is_some_and(Fact::has_groups);
            *is_of_form &= !has_groups || asked.iter().all(|(one, _)| *one != signature);
            Found {
                signature,
                counting,
                has_frames: counting.is_finding && (may_have_frames || counting.quotes),
                at: hit.map_or(first, |(_, at)| *at),
                fact: self.fact_spans(line, record.message, signature, fact),
            }
        });
        let found = found.collect();
        let span = |text: &[u8]| Span::of(line, text);
        let Logged { error, notice } = Logged::of(line);
        let counting = |index: &usize| self.catalogue.counting[*index];
        let is_label = |index: &usize| counting(index).is_label;
        let is_plain = self.found.iter().all(is_label) && error.is_none() && notice.is_none();
        let stated = (is_plain && !record.has_level())
            .then(|| stated::stated_at_any(line))
            .flatten();
        let is_harness = |index: &usize| counting(index).fact == Some(Fact::Harness);
        let harness = self.found.iter().any(is_harness);
        ParsedRecord {
            layout: Layout::of(line, record),
            at: first,
            found,
            names_rank: seen::may_name_rank(line),
            error: error.map(span),
            notice: notice.map(span),
            stated: stated.map(span),
            harness: harness
                .then(|| HarnessReading::of(record.message))
                .flatten()
                .map(Box::new),
            asked,
        }
    }
}

impl Parser<'_> {
    fn fact_spans(
        &self,
        line: &[u8],
        message: &[u8],
        signature: usize,
        fact: Option<Fact>,
    ) -> FactSpans {
        let span = |part: &[u8]| Span::of(line, part);
        match fact {
            Some(Fact::Flow | Fact::Polls) => FactSpans::Flow(Box::new(OfFlow {
                flow: fields::flow(message).map(|flow| FlowSpans::of(line, flow)),
                nic: fields::nic(message).map(span),
                polls: fields::polls(message).map(|(count, time)| (span(count), span(time))),
            })),
            Some(fact) if fact.has_groups() => {
                let groups = self.regexes.groups(signature, message).unwrap_or_default();
                let group = |name: &str| {
                    let mut groups = groups.iter();
                    groups.find(|(one, _)| *one == name).map(|(_, text)| *text)
                };
                FactSpans::Groups(fact.groups().map(|name| group(name).map(span)))
            }
            _ => FactSpans::Message,
        }
    }
}

impl ParsedRecord {
    /// Whether the regexes that depend on digits say the same of another line of the form.
    fn holds(&self, line: &[u8], regexes: &Regexes<'_>) -> bool {
        self.asked.is_empty() || {
            let message = self.record(line).message;
            self.asked
                .iter()
                .all(|(index, was)| regexes.holds(*index, message) == *was)
        }
    }
}

/// Parsed lines by the hash of their form, which chooses one of `SETS`; a set keeps `WAYS`
/// forms, the ones that come often in front.
///
/// The forms themselves are not kept. Hashes have 64 bits and a random seed, so a line is taken for one of
/// another form once in some 2^62 lines.
#[derive(Default)]
struct KnownForms {
    slots: Vec<Option<Box<ParsedLine>>>,
    /// The hashes of the forms in the slots, by set; 0 for none.
    hashes: Vec<[u64; WAYS]>,
    /// The form of the last line, and its hash.
    form: Vec<u8>,
    hash: u64,
    /// Hashes of forms that are not kept yet.
    once: Vec<u64>,
    state: RandomState,
}

impl KnownForms {
    /// The slot of a line's form, and whether the form is kept there or would be.
    fn find(&mut self, line: &[u8]) -> (usize, bool) {
        digits::write_form(line, &mut self.form);
        self.hash = self.state.hash_one(self.form.as_slice()).max(1);
        // The remainder is small.
        let set = (self.hash % SETS) as usize;
        let first = set * WAYS;
        let hashes = self.hashes.get(set).copied().unwrap_or_default();
        let Some(way) = hashes.iter().position(|hash| *hash == self.hash) else {
            return (first + WAYS - 1, false);
        };
        let better = way.saturating_sub(1);
        if better != way {
            self.hashes[set].swap(way, better);
            self.slots.swap(first + way, first + better);
        }
        (first + better, true)
    }

    fn form(&self) -> &[u8] {
        &self.form
    }

    /// Whether the last line's form came before, of those that are remembered. It is, from now on.
    fn came_before(&mut self) -> bool {
        self.once.resize(CAME_ONCE as usize, 0);
        // The low bits chose the set.
        let place = (self.hash / SETS % CAME_ONCE) as usize;
        std::mem::replace(&mut self.once[place], self.hash) == self.hash
    }

    /// What is kept in a slot.
    fn line(&self, slot: usize) -> Option<&ParsedLine> {
        self.slots.get(slot)?.as_deref()
    }

    /// Keeps a line of the last line's form.
    fn keep(&mut self, slot: usize, mut line: ParsedLine) {
        line.shrink();
        self.slots.resize_with(SETS as usize * WAYS, || None);
        self.hashes.resize(SETS as usize, [0; WAYS]);
        self.hashes[slot / WAYS][slot % WAYS] = self.hash;
        self.slots[slot] = Some(Box::new(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static CATALOGUE: LazyLock<SignatureCatalogue> =
        LazyLock::new(|| SignatureCatalogue::embedded().expect("sound"));

    /// The line with other digits, of the same number.
    fn with_digits(line: &str, digits: &[u8]) -> Vec<u8> {
        let mut digits = digits.iter().cycle();
        let other = |byte: u8| match digits.next() {
            Some(digit) if byte.is_ascii_digit() => *digit,
            _ => byte,
        };
        line.bytes().map(other).collect()
    }

    /// Parses the lines with one parser, and each with a parser that knows no line.
    fn check(lines: &[Vec<u8>]) {
        let mut parser = Parser::new(&CATALOGUE);
        let mut fresh = Parser::new(&CATALOGUE);
        for line in lines {
            let (new, _) = fresh.parse_new(line);
            let parsed = parser.parse(line);
            let both = [parsed, &new].map(|one| {
                let looks = (one.may_go_on, one.looks_like_code);
                (one.has_signature, looks, &one.records)
            });
            assert_eq!(both[0], both[1], "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_line_of_a_known_form_is_not_parsed_again() {
        let mut parser = Parser::new(&CATALOGUE);
        let line = b"node0:71:79 [3] NCCL INFO NET/GPUDirectTCPX ver. 3.1.9.";
        let (slot, _) = parser.known.find(line);
        parser.known.keep(slot, ParsedLine::default());
        assert!(parser.parse(line).records.is_empty());
    }

    #[test]
    fn a_form_is_kept_when_it_comes_again() {
        let mut parser = Parser::new(&CATALOGUE);
        let lines =
            [1, 2, 3].map(|gpu| format!("node0:71:79 [{gpu}] NCCL INFO NET/GPUDirectTCPX ver."));
        let known = lines.map(|line| {
            parser.parse(line.as_bytes());
            parser.was_known()
        });
        assert_eq!(known, [false, false, true]);
    }

    #[test]
    fn what_digits_decide_is_read_from_each_line() {
        let lines = [
            "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=7 rc=0 done=0 size=0 is_recv=1",
            "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=7 rc=2 done=0 size=0 is_recv=1",
            "node0:71:79 [0] NCCL INFO Cuda failure 217",
            "node0:71:79 [0] NCCL INFO Cuda failure 218",
            "node0:71:79 [0] transport/net.cc:77 NCCL WARN Got completion with status=0 x",
            "node0:71:79 [0] transport/net.cc:77 NCCL WARN Got completion with status=5 x",
            "[ncclNet:2] f():12 no such thing",
            "[ncclNet:3] f():12 no such thing",
        ];
        check(&lines.map(|line| line.as_bytes().to_vec()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn an_example_with_other_digits_is_parsed_as_if_it_were_new(
            digits in prop::collection::vec(prop::collection::vec(b'0'..=b'9', 1..40), 1..5),
            prefix in prop::sample::select(vec!["", "[1,3]<stderr>:", "3: ", "[pod/a/b] 2026-11-20T08:14:04.1Z ", "E1120 08:14:04.531 70 a.cpp:874] [Rank 3] "]),
        ) {
            let lines = CATALOGUE.signatures().iter().flat_map(|signature| {
                let line = format!("{prefix}{}", signature.example);
                digits.iter().map(move |digits| with_digits(&line, digits))
            });
            check(&lines.collect::<Vec<_>>());
        }

        #[test]
        fn any_lines_are_parsed_as_if_they_were_new(
            parts in prop::collection::vec(prop::sample::select(vec![
                "NCCL WARN ", "NCCL INFO ", " NCCL ", "node0:71:79 [3] ", "[ncclNet:2] ", "f():12 ", "a.cpp:874] ", "[rank3]:", "E1120 08:14:04.531 70 ",
                "2026-11-20 08:14:04", "[Rank 3] ", "NET/GPUDirectTCPX : ", "chunk size: 0", "[SlidingWindow] tcpx_test: ", "chunk_idx=7 rc=0", "done=1",
                "Using network Socket", "Got completion with status=5", "v7/v8 not found", "1234567890", "timeout ", " cnt 5, nanos 7 ", "0x7f",
            ]), 1..9),
            digits in prop::collection::vec(prop::collection::vec(b'0'..=b'9', 1..20), 1..5),
        ) {
            let line = parts.concat();
            check(&digits.iter().map(|digits| with_digits(&line, digits)).collect::<Vec<_>>());
        }
    }
}
