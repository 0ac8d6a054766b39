//! The rules, one file per family of conditions.
//!
//! A rule reads evidence and returns what it found. It prints nothing and touches no
//! machine, so any recorded run can be judged by it. A rule about a stall first asks
//! which channels stand still, so that a healthy transfer has no findings.
#![forbid(unsafe_code)]

mod agents;
mod comparison;
mod connection;
mod endings;
mod measurement;
mod network;
mod progress;
mod refusals;
mod slots;
mod topology;

use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, SignatureLines, Spot};
use tcpx_run_model::finding::{Severity, Subject};

/// Judges one or several conditions of a family.
pub(super) type Rule = fn(&Evidence) -> Vec<Found>;

/// Every rule but the last resort.
pub(super) const FAMILIES: &[&[Rule]] = &[
    progress::RULES,
    slots::RULES,
    refusals::RULES,
    connection::RULES,
    endings::RULES,
    agents::RULES,
    network::RULES,
    topology::RULES,
    measurement::RULES,
    comparison::RULES,
];

/// Asked when no other rule found an error: reports a stall that is declared or seen.
pub(super) const LAST_RESORT: Rule = progress::unexplained;
pub(super) use endings::KILLED_LATER;

#[cfg(test)]
pub(crate) use progress::cases::drained_in_different_order as wait_cycle;

/// Evidence in which a condition comes first, by family.
#[cfg(test)]
pub(crate) const CASES: &[&[crate::tests::Case]] = &[
    progress::cases::CASES,
    slots::cases::CASES,
    refusals::cases::CASES,
    connection::cases::CASES,
    endings::cases::CASES,
    agents::cases::CASES,
    network::cases::CASES,
    topology::cases::CASES,
    measurement::cases::CASES,
    comparison::cases::CASES,
];

/// What one rule found; the texts about its condition are in the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) condition: Condition,
    /// The worker or process that did not do its part, or where the condition shows;
    /// none for the transfer as a whole.
    pub(super) node: Option<Subject>,
    /// Index of the channel within its direction, if the condition is about one channel.
    pub(super) channel: Option<usize>,
    /// 0 to 1.
    pub(super) confidence: f64,
    /// The deciding facts.
    pub(super) because: Vec<String>,
    /// Facts that would be needed to be sure.
    pub(super) cannot_see: Vec<String>,
    /// How bad it is in this case, if not as the catalogue says.
    pub(super) severity: Option<Severity>,
    /// What to do in this case, if the catalogue's text for the condition does not fit.
    pub(super) next_step: Option<String>,
}

/// Most confidence in a cause that a channel without tests explains as well, where tests were not counted.
const UNMEASURED: f64 = 0.5;

impl Found {
    /// About a node.
    fn at(
        condition: Condition,
        node: &EvidenceNode,
        confidence: f64,
        because: impl Into<String>,
    ) -> Self {
        Self {
            node: Some(node.subject.clone()),
            ..Self::of_transfer(condition, confidence, because)
        }
    }

    /// About a channel; its counters are the first fact.
    fn on(condition: Condition, spot: Spot<'_>, confidence: f64) -> Self {
        let found = Self::at(condition, spot.node, confidence, spot.counters());
        Self {
            channel: Some(spot.channel.now.index),
            ..found
        }
    }

    /// About the transfer as a whole.
    fn of_transfer(condition: Condition, confidence: f64, because: impl Into<String>) -> Self {
        Self {
            condition,
            node: None,
            channel: None,
            confidence,
            because: vec![because.into()],
            cannot_see: Vec::new(),
            severity: None,
            next_step: None,
        }
    }

    fn and(mut self, fact: impl Into<String>) -> Self {
        self.because.push(fact.into());
        self
    }

    /// Adds the plugin's line, if there is one, as a fact.
    fn and_line(self, line: Option<&SignatureLines>) -> Self {
        match line {
            Some(line) => self.and(said(line)),
            None => self,
        }
    }

    fn at_most(mut self, confidence: f64) -> Self {
        self.confidence = self.confidence.min(confidence);
        self
    }

    /// Takes a channel to be tested often. Less sure where that could not be measured.
    fn if_tested(self, spot: Spot<'_>) -> Self {
        if spot.channel.polls_per_s().is_some() {
            return self;
        }
        self.at_most(UNMEASURED).unseen(format!(
            "how often {} is tested: its tests could not be counted for long enough",
            spot.short_name()
        ))
    }

    fn unseen(mut self, what: impl Into<String>) -> Self {
        self.cannot_see.push(what.into());
        self
    }
}

/// Up to this many lines from one place, each is passed on.
const PASSED_ON: u64 = 20;

/// A line of the plugin's log, quoted as a fact.
fn said(line: &SignatureLines) -> String {
    let times = match line.count {
        0 | 1 => String::new(),
        // Of more lines from one place, only some are passed on.
        count if count > PASSED_ON => format!(" (logged at least {count} times)"),
        count => format!(" (logged {count} times)"),
    };
    format!("the plugin said: {}{times}", line.text)
}

/// Nodes whose plugin logged a line with one of these signatures, each with the first.
fn with_line<'a>(
    evidence: &'a Evidence,
    signatures: &'static [&'static str],
) -> impl Iterator<Item = (&'a EvidenceNode, &'a SignatureLines)> {
    evidence
        .nodes
        .iter()
        .filter_map(move |node| Some((node, node.any_line(signatures)?)))
}
