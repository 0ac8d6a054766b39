//! From what rules found to what people read: one finding for each condition and
//! node, causes before what follows from them, rivals with what would decide.
#![forbid(unsafe_code)]

use super::catalogue::{Catalogue, Condition};
use super::evidence::Evidence;
use super::rules::{Found, LAST_RESORT, RULES};
use std::cmp::Reverse;
use tcpx_run_model::finding::{Finding, Severity};

/// Facts of one finding that are kept.
const FACTS_MAX: usize = 6;
/// Rivals that are named.
const RIVALS_MAX: usize = 3;

/// What is wrong, the likeliest cause first; empty where nothing is.
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let found = RULES.iter().flat_map(|rule| rule(evidence)).collect();
    let mut ranked = ranked(merged(found));
    let is_explained = ranked
        .iter()
        .any(|one| one.condition.severity == Severity::Error && one.follows.is_none());
    if !is_explained {
        let stalled = merged(LAST_RESORT(evidence));
        ranked.splice(0..0, self::ranked(stalled));
    }
    let rivals = rivals(&ranked);
    let mut findings: Vec<Finding> = ranked.into_iter().map(Ranked::finding).collect();
    if let Some(first) = findings.first_mut() {
        first.cannot_see.extend(rivals);
    }
    findings
}

struct Ranked {
    condition: &'static Condition,
    found: Found,
    /// The condition that it follows from.
    follows: Option<&'static str>,
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
            one.because.push(format!("and so on: {channels} in all"));
        }
        one
    };
    all.into_iter().map(bounded).collect()
}

/// What is new, as far as there is room: of hundreds of channels a few are shown.
fn add(known: &mut Vec<String>, more: Vec<String>) {
    for text in more {
        if known.len() <= FACTS_MAX && !known.contains(&text) {
            known.push(text);
        }
    }
}

fn ranked(found: Vec<Found>) -> Vec<Ranked> {
    let catalogue = Catalogue::embedded();
    let place = |name: &str| {
        catalogue
            .conditions
            .iter()
            .position(|condition| condition.name == name)
    };
    let with = |found: Found| {
        Some(Ranked {
            condition: catalogue.get(found.condition)?,
            found,
            follows: None,
        })
    };
    let mut ranked: Vec<Ranked> = found.into_iter().filter_map(with).collect();
    let causes: Vec<&'static Condition> = ranked.iter().map(|one| one.condition).collect();
    for one in &mut ranked {
        let explains = |cause: &&&'static Condition| cause.explains.contains(&one.condition.name);
        // Of two that explain each other the catalogue's first is the cause.
        let first = |cause: &&&'static Condition| {
            !one.condition.explains.contains(&cause.name)
                || place(&cause.name) < place(&one.condition.name)
        };
        one.follows = causes
            .iter()
            .filter(explains)
            .find(first)
            .map(|cause| cause.name.as_str());
    }
    ranked.sort_by_key(|one| {
        let doubt = Reverse((one.found.confidence * 1000.0) as u32);
        (
            one.follows.is_some(),
            one.condition.severity,
            doubt,
            place(&one.condition.name),
        )
    });
    ranked
}

/// What else it may be that stands beside the first, and what would decide.
fn rivals(ranked: &[Ranked]) -> Vec<String> {
    let Some(first) = ranked.first() else {
        return Vec::new();
    };
    let is_rival = |one: &&Ranked| {
        one.follows.is_none()
            && one.condition.severity == Severity::Error
            && one.condition.name != first.condition.name
    };
    let said = |one: &Ranked| {
        let decides = one
            .condition
            .decided_by
            .as_ref()
            .or(first.condition.decided_by.as_ref());
        let decides = decides
            .map(|text| format!("; what decides: {text}"))
            .unwrap_or_default();
        format!(
            "whether it is rather {} ({:.0} %){decides}",
            one.condition.name,
            one.found.confidence * 100.0
        )
    };
    ranked[1..]
        .iter()
        .filter(is_rival)
        .take(RIVALS_MAX)
        .map(said)
        .collect()
}

impl Ranked {
    /// What follows from something else is told, and alarms nobody.
    fn finding(self) -> Finding {
        let Self {
            condition,
            found,
            follows,
        } = self;
        let severity = if follows.is_some() {
            Severity::Info
        } else {
            condition.severity
        };
        let mut because = found.because;
        because.extend(follows.map(|cause| format!("it follows from {cause}")));
        Finding {
            condition: condition.name.clone(),
            severity,
            confidence: found.confidence,
            subject: found.node,
            channel: found.channel,
            because,
            cannot_see: found.cannot_see,
            next_step: Some(found.next_step.unwrap_or_else(|| condition.fix.clone())),
            reference: Some(condition.reference.clone()),
        }
    }
}
