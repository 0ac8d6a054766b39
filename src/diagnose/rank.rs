//! Ranks what the rules found: one finding per condition and node, causes before their
//! symptoms, and other possible causes with what would decide between them.
#![forbid(unsafe_code)]

use super::catalogue::{CatalogueEntry, Condition};
use super::evidence::{Evidence, Spot};
use super::rules::{FAMILIES, Found, KILLED_LATER, LAST_RESORT};
use super::transfers::Transfers;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tcpx_run_model::finding::{Finding, Severity};

/// Whether it is the end of a program of which something stood still before: that explains no stall.
fn is_after_a_stall(found: &Found) -> bool {
    found.condition == Condition::ProcessKilled && found.confidence <= KILLED_LATER
}

/// Most facts of one finding.
const FACTS_MAX: usize = 6;
/// Most other causes that the first finding names.
const RIVALS_MAX: usize = 3;

/// What is wrong, the likeliest cause first; empty if nothing is.
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in FAMILIES.iter().copied().flatten() {
        found.extend(rule(evidence));
    }
    let transfers = Transfers::new(evidence);
    let mut ranked = ranked(merged(found), &transfers);
    let is_explained = ranked
        .iter()
        .filter(|one| !is_after_a_stall(&one.found))
        .any(|one| one.severity() == Severity::Error && one.follows.is_none());
    if !is_explained {
        let stalled = merged(LAST_RESORT(evidence));
        ranked.splice(0..0, self::ranked(stalled, &transfers));
    }
    let rivals = rivals(&ranked, &transfers);
    let mut findings: Vec<Finding> = ranked
        .into_iter()
        .map(|one| one.finding(evidence))
        .collect();
    if let Some(first) = findings.first_mut() {
        first.cannot_see.extend(rivals);
    }
    findings
}

struct Ranked {
    entry: &'static CatalogueEntry,
    found: Found,
    /// Another condition that was found and that explains this one.
    follows: Option<Condition>,
}

/// Channels of one node with the same condition are one finding.
fn merged(found: Vec<Found>) -> Vec<Found> {
    let mut all = Vec::<(Found, usize)>::new();
    for one in found {
        let same = |known: &&mut (Found, usize)| {
            known.0.condition == one.condition && known.0.node == one.node
        };
        match all.iter_mut().find(same) {
            Some((known, more)) => {
                *more += 1;
                known.confidence = known.confidence.max(one.confidence);
                let severities = known.severity.zip(one.severity);
                known.severity = severities.map(|(a, b)| a.min(b));
                add(&mut known.because, one.because);
                add(&mut known.cannot_see, one.cannot_see);
                known.next_step = known.next_step.take().or(one.next_step);
            }
            None => all.push((one, 1)),
        }
    }
    let bounded = |(mut one, channels): (Found, usize)| {
        if one.because.len() > FACTS_MAX {
            one.because.truncate(FACTS_MAX - 1);
            one.because
                .push(format!("and more: {channels} channels in all"));
        }
        one
    };
    all.into_iter().map(bounded).collect()
}

/// Adds new facts up to the limit: of hundreds of channels a few are shown.
fn add(known: &mut Vec<String>, more: Vec<String>) {
    for text in more {
        if known.len() <= FACTS_MAX && !known.contains(&text) {
            known.push(text);
        }
    }
}

/// Causes first, then by severity, confidence and the order of the catalogue.
fn ranked(found: Vec<Found>, transfers: &Transfers<'_>) -> Vec<Ranked> {
    let causes: Vec<Option<Condition>> = found
        .iter()
        .map(|one| cause_of(one, &found, transfers))
        .collect();
    let of_one = |(found, follows): (Found, Option<Condition>)| Ranked {
        entry: found.condition.entry(),
        follows,
        found,
    };
    let mut ranked: Vec<Ranked> = found.into_iter().zip(causes).map(of_one).collect();
    ranked.sort_by_key(|one| {
        let doubt = Reverse((one.found.confidence * 1000.0) as u32);
        let is_symptom = one.follows.is_some();
        (is_symptom, one.severity(), doubt, one.found.condition)
    });
    ranked
}

/// The first condition of the same transfer that explains this one. Of two that explain each
/// other the first of the catalogue is the cause.
fn cause_of(symptom: &Found, all: &[Found], transfers: &Transfers<'_>) -> Option<Condition> {
    let explains = |cause: Condition, symptom: Condition| cause.entry().explains.contains(&symptom);
    let effect = symptom.condition;
    let is_cause = |cause: &&Found| {
        // One that its rule found less severe than it can be is beside the cause.
        let is_beside = cause.severity.is_some();
        !is_beside
            && explains(cause.condition, effect)
            && (!explains(effect, cause.condition) || cause.condition < effect)
            && transfers.are_one(cause.node.as_ref(), symptom.node.as_ref())
    };
    all.iter().find(is_cause).map(|cause| cause.condition)
}

/// Other causes that were found beside the first finding, and what would decide.
fn rivals(ranked: &[Ranked], transfers: &Transfers<'_>) -> Vec<String> {
    let Some(first) = ranked.first() else {
        return Vec::new();
    };
    let is_rival = |one: &&Ranked| {
        one.follows.is_none()
            && one.severity() == Severity::Error
            && one.found.condition != first.found.condition
            && transfers.are_one(one.found.node.as_ref(), first.found.node.as_ref())
    };
    let mut named = BTreeSet::new();
    let mut rivals = Vec::new();
    for rival in ranked[1..].iter().filter(is_rival) {
        if named.len() >= RIVALS_MAX || !named.insert(rival.found.condition) {
            continue;
        }
        let decided_by = rival.entry.decided_by.or(first.entry.decided_by);
        let decided_by = decided_by
            .map(|text| format!("; what decides: {text}"))
            .unwrap_or_default();
        rivals.push(format!(
            "whether the cause is {} instead ({:.0} %){decided_by}",
            rival.found.condition,
            rival.found.confidence * 100.0
        ));
    }
    rivals
}

/// What to do about a condition: never what its node already does.
fn remedy(entry: &CatalogueEntry, found: &Found, evidence: &Evidence) -> &'static str {
    match entry.otherwise {
        Some(otherwise) if evidence.has_settings(found.node.as_ref(), entry.recommends) => {
            otherwise
        }
        _ => entry.fix,
    }
}

/// A finding that is surer than this rests on what its own end shows.
const SURE: f64 = 0.9;
const OTHER_END_UNSEEN: &str = "the other end: it was not inspected, and its part may be the cause";
const OTHER_END_UNKNOWN: &str = "the other end: no address tells which channel that was inspected it is, and its part may be the cause";

/// What is not known of the other ends of the channels that a finding about a process is about.
fn of_the_other_end(found: &Found, evidence: &Evidence) -> Option<&'static str> {
    let is_about = |spot: &Spot<'_>| {
        Some(&spot.node.subject) == found.node.as_ref()
            && spot.node.subject.pair.is_none()
            && found
                .channel
                .is_none_or(|index| spot.channel.now.index == index)
            && !spot.channel.now.closed
    };
    let is_told = found
        .cannot_see
        .iter()
        .any(|what| what.starts_with("the other end"));
    let lacking = |spot: &Spot<'_>| is_about(spot) && spot.other_end().is_none();
    let lacking: Vec<Spot<'_>> = evidence.spots().filter(lacking).collect();
    let is_unseen = lacking
        .iter()
        .any(|spot| spot.other_nodes().next().is_none());
    match is_unseen {
        _ if is_told || lacking.is_empty() => None,
        true => Some(OTHER_END_UNSEEN),
        false => Some(OTHER_END_UNKNOWN),
    }
}

impl Ranked {
    fn severity(&self) -> Severity {
        self.found.severity.unwrap_or(self.entry.severity)
    }

    /// A finding that follows from another is reported as info.
    fn finding(self, evidence: &Evidence) -> Finding {
        let next_step = match &self.found.next_step {
            Some(next_step) => next_step.clone(),
            None => remedy(self.entry, &self.found, evidence).to_owned(),
        };
        let severity = self.severity();
        let Self {
            entry,
            mut found,
            follows,
        } = self;
        if found.confidence < SURE {
            let unknown = of_the_other_end(&found, evidence);
            found.cannot_see.extend(unknown.map(str::to_owned));
        }
        let severity = if follows.is_some() {
            Severity::Info
        } else {
            severity
        };
        let mut because = found.because;
        because.extend(follows.map(|cause| format!("it follows from {cause}")));
        Finding {
            condition: entry.name.to_string(),
            severity,
            confidence: found.confidence,
            subject: found.node,
            channel: found.channel,
            because,
            cannot_see: found.cannot_see,
            next_step: Some(next_step),
            reference: Some(entry.reference.to_owned()),
        }
    }
}
