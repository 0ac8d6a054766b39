//! Parses lines that may have a literal: their records, and the signatures of each.
#![forbid(unsafe_code)]

use super::catalogue::{Regexes, SignatureCatalogue};
use super::fields::{self, End, FlowText, Polls};
use super::harness::HarnessReading;
use super::shape::{self, Layout, Record, Span};
use super::signature::Fact;

/// Most hits of one line that are examined; a line of many MiB may have millions.
const HITS_MAX: usize = 64;
/// A line; without a literal it has no records.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedLine {
    /// Whether it has the literal of a signature, and not only a marker of warnings.
    pub has_signature: bool,
    pub records: Vec<ParsedRecord>,
}

/// A record with a literal.
#[derive(Debug, PartialEq)]
pub(super) struct ParsedRecord {
    layout: Layout,
    /// Offset of its first literal in the line.
    pub at: usize,
    pub found: Vec<Found>,
    /// The message of an error of glog.
    error: Option<Span>,
    /// For a line of a program that drives the plugin itself.
    pub harness: Option<HarnessReading>,
}

/// A signature of a record.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub signature: usize,
    /// Offset of its literal in the line.
    pub at: usize,
    fact: FactSpans,
}

/// What the fact of a signature is read from.
#[derive(Debug, PartialEq)]
enum FactSpans {
    /// The message, or nothing.
    Message,
    /// In the order of `Fact::groups`.
    Groups([Option<Span>; 2]),
    Flow {
        flow: Option<FlowSpans>,
        nic: Option<Span>,
        polls: Option<(Span, Span)>,
    },
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
            FactSpans::Flow { flow, .. } => flow.as_ref().map(|flow| flow.text(line)),
            _ => None,
        }
    }

    /// The interface of a slow flow.
    pub(super) fn nic<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        match self.fact {
            FactSpans::Flow { nic, .. } => nic.map(|nic| nic.in_line(line)),
            _ => None,
        }
    }

    /// How often a slow flow was polled.
    pub(super) fn polls(&self, line: &[u8]) -> Option<Polls> {
        match self.fact {
            FactSpans::Flow { polls, .. } => {
                let (count, nanoseconds) = polls?;
                Polls::new((count.in_line(line), nanoseconds.in_line(line)))
            }
            _ => None,
        }
    }
}

/// The parser of one thread.
pub(super) struct Parser<'a> {
    catalogue: &'a SignatureCatalogue,
    regexes: Regexes,
    last: ParsedLine,
    hits: Vec<(usize, usize)>,
    found: Vec<usize>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(catalogue: &'a SignatureCatalogue) -> Self {
        Self {
            catalogue,
            regexes: catalogue.regexes(),
            last: ParsedLine::default(),
            hits: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Parses a line without escape sequences.
    pub(super) fn parse(&mut self, line: &[u8]) -> &ParsedLine {
        let mut hits = std::mem::take(&mut self.hits);
        hits.clear();
        self.catalogue.hits(line, |literal, place| {
            if hits.len() < HITS_MAX {
                hits.push((literal, place));
            }
        });
        // The search reports hits in the order of their anchors.
        hits.sort_unstable_by_key(|(_, at)| *at);
        let is_signature = |(literal, _): &(usize, usize)| self.catalogue.is_signature(*literal);
        let mut parsed = ParsedLine {
            has_signature: hits.iter().any(is_signature),
            ..ParsedLine::default()
        };
        let mut rest = hits.as_slice();
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
                .push(self.parse_record(line, &record, start, mine));
            rest = others;
        }
        self.hits = hits;
        self.last = parsed;
        &self.last
    }

    fn parse_record(
        &mut self,
        line: &[u8],
        record: &Record<'_>,
        start: usize,
        hits: &[(usize, usize)],
    ) -> ParsedRecord {
        let is_of_message = |at: usize| at >= start || record.level().is_none();
        let of_message = hits.iter().filter(|(_, at)| is_of_message(*at));
        self.catalogue.of_message(
            of_message.map(|(literal, _)| *literal),
            record.message,
            &self.regexes,
            &mut self.found,
        );
        let first = hits.first().map_or(0, |(_, at)| *at);
        let found = self.found.iter().map(|&signature| {
            let hit = hits
                .iter()
                .find(|(literal, _)| self.catalogue.has(*literal, signature));
            let fact = self.catalogue.signatures[signature].fact;
            Found {
                signature,
                at: hit.map_or(first, |(_, at)| *at),
                fact: self.fact_spans(line, record.message, signature, fact),
            }
        });
        let found = found.collect();
        let error = shape::glog_error(line).map(|error| Span::of(line, error));
        let is_harness =
            |index: &usize| self.catalogue.signatures[*index].fact == Some(Fact::Harness);
        let harness = self.found.iter().any(is_harness);
        ParsedRecord {
            layout: Layout::of(line, record),
            at: first,
            found,
            error,
            harness: harness
                .then(|| HarnessReading::of(record.message))
                .flatten(),
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
            Some(Fact::Flow | Fact::Polls) => FactSpans::Flow {
                flow: fields::flow(message).map(|flow| FlowSpans::of(line, flow)),
                nic: fields::nic(message).map(span),
                polls: fields::polls(message).map(|(count, time)| (span(count), span(time))),
            },
            Some(fact) if fact.has_groups() => {
                let regex = self.regexes[signature].as_ref();
                let captures = regex.and_then(|regex| regex.captures(message));
                let group = |name: &str| captures.as_ref()?.name(name).map(|one| one.as_bytes());
                FactSpans::Groups(fact.groups().map(|name| group(name).map(span)))
            }
            _ => FactSpans::Message,
        }
    }
}
