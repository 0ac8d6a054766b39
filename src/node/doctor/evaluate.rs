//! Evaluates checks: facts to rows. Pure, so that a captured node, a remote node and this
//! node are judged alike.
//!
//! If any element breaks the condition, the check fails. Otherwise, if any element is
//! unknown, the check is UNKNOWN. It passes only if every element is known and good. A
//! check without elements is UNKNOWN, too: without rails, "no rail is down" is no news.
#![forbid(unsafe_code)]

use super::catalogue::Catalogue;
use super::check::{Check, Layer};
use super::facts::Facts;
use super::pair::{self, ProbedRails};
use super::path::{FactPath, Seen};
use super::predicate::{Must, plain};
use super::row::{CheckRow, CheckVerdict};
use super::view;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most elements named in one row; the others are counted.
const NAMED_MAX: usize = 8;
/// Most characters of a list of names.
const NAMES_CHARS_MAX: usize = 48;
/// Most characters of one value.
const VALUE_CHARS_MAX: usize = 400;

/// What the node is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// For Google's plugin, which needs GPUs, gVNICs and RxDM. Any other plugin, such as
    /// the software plugin, needs only a network.
    pub tcpx: bool,
    /// Bytes of one message, if a scenario sets it.
    pub chunk: Option<u64>,
}

/// The result of all checks over one node, or over two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// One row per check, in the catalogue's order.
    pub rows: Vec<CheckRow>,
}

impl Examination {
    /// The number of rows with this verdict.
    pub fn count(&self, verdict: CheckVerdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// 1 if a check failed; 3 if none failed, but a critical or high check is UNKNOWN;
    /// else 0. Warnings do not count.
    pub fn exit_code(&self) -> u8 {
        let open = |row: &CheckRow| row.verdict == CheckVerdict::Unknown && row.severity.fails();
        match self.count(CheckVerdict::Fail) {
            0 if self.rows.iter().any(open) => 3,
            0 => 0,
            _ => 1,
        }
    }
}

/// Checks one node. Layers that compare two nodes are left out.
pub fn examine(catalogue: &Catalogue, facts: &Facts, subject: Subject) -> Examination {
    judge(catalogue, false, &view::document(facts, subject), None)
}

/// Checks two nodes together: where they differ, and the results of probing the rails
/// between them.
pub fn examine_pair(
    catalogue: &Catalogue,
    here: &Facts,
    there: &Facts,
    tried: Option<&ProbedRails>,
    subject: Subject,
) -> Examination {
    let document = pair::document(here, there, tried, subject);
    judge(
        catalogue,
        true,
        &document,
        Some(&view::document(there, subject)),
    )
}

fn judge(catalogue: &Catalogue, both: bool, here: &Value, there: Option<&Value>) -> Examination {
    let mut ended: BTreeMap<&str, CheckVerdict> = BTreeMap::new();
    let mut rows = Vec::new();
    for (layer, check) in catalogue.checks().filter(|(layer, _)| layer.both == both) {
        if check
            .when
            .as_ref()
            .is_some_and(|when| !is_there(when, here))
        {
            continue;
        }
        // A check that was left out for this node does not block the checks that need it.
        let open = |needed: &&String| {
            matches!(
                ended.get(needed.as_str()),
                Some(CheckVerdict::Fail | CheckVerdict::Unknown)
            )
        };
        let (verdict, value, name) = match check.needs.iter().find(open) {
            Some(needed) => (
                CheckVerdict::Unknown,
                format!("not checked: needs {needed}"),
                String::new(),
            ),
            None => held(check, here, there),
        };
        ended.insert(&check.id, verdict);
        rows.push(row(layer, check, verdict, value, &name));
    }
    Examination { rows }
}

fn is_there(when: &FactPath, document: &Value) -> bool {
    let found = when.find(document);
    found.iter().any(|seen| {
        seen.value
            .as_ref()
            .is_ok_and(|value| **value != Value::Bool(false))
    })
}

/// The verdict, the value in words, and the name of the first element that decided.
fn held(check: &Check, here: &Value, there: Option<&Value>) -> (CheckVerdict, String, String) {
    let seen = check.reads.find(here);
    let opposite = there
        .filter(|_| check.must.is_about_both())
        .map(|there| check.reads.find(there))
        .unwrap_or_default();
    let other = |of: &str| {
        opposite
            .iter()
            .find(|seen| seen.of == of)
            .map(|seen| &seen.value)
    };
    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for one in &seen {
        match (&one.value, other(&one.of)) {
            (Err(_), _) if check.must.fails_unknown() => broken.push(shown(check, one, None)),
            (Err(_), _) => unknown.push(shown(check, one, None)),
            (Ok(_), Some(Err(why))) => unknown.push(named(&one.of, &format!("on the peer: {why}"))),
            (Ok(_), None) if check.must.is_about_both() => {
                unknown.push(named(&one.of, "not on the peer"))
            }
            (Ok(value), there) => {
                let there = there.and_then(|there| there.as_ref().ok().copied());
                if !check.must.holds(value, there) {
                    broken.push(shown(check, one, there));
                }
            }
        }
    }
    let fails = if check.severity.fails() {
        CheckVerdict::Fail
    } else {
        CheckVerdict::Warn
    };
    let (verdict, deciding) = match (broken.is_empty(), unknown.is_empty()) {
        (false, _) => (fails, broken),
        (true, false) => (CheckVerdict::Unknown, unknown),
        (true, true) if seen.is_empty() => (
            CheckVerdict::Unknown,
            vec![(String::new(), "nothing to check".to_owned())],
        ),
        (true, true) => (
            CheckVerdict::Pass,
            seen.iter().map(|one| shown(check, one, None)).collect(),
        ),
    };
    let name = deciding
        .first()
        .map(|(name, _)| name.clone())
        .unwrap_or_default();
    (verdict, together(&deciding), name)
}

fn named(of: &str, text: &str) -> (String, String) {
    (of.to_owned(), text.to_owned())
}

/// The name of an element and its value in words, with the peer's value if the two were
/// compared.
fn shown(check: &Check, seen: &Seen<'_>, there: Option<&Value>) -> (String, String) {
    let words = |value: &Value| match (value.as_u64(), &check.must) {
        (Some(bytes), _) if check.reads.is_in_bytes() => {
            tcpx_words::units::ByteCount(bytes).about()
        }
        (_, Must::Contains(part)) if value.is_array() && check.must.holds(value, None) => {
            part.clone()
        }
        _ => plain(value),
    };
    let here = match &seen.value {
        Ok(value) => words(value),
        Err(why) => why.clone(),
    };
    let text = there.map_or(here.clone(), |there| {
        format!("{here} here, {} there", words(there))
    });
    (
        seen.of.clone(),
        text.chars().take(VALUE_CHARS_MAX).collect(),
    )
}

/// `8244 (eth1 eth2 eth3 eth4)` where all are equal, else `eth1: 8244, eth3: 1460`.
fn together(all: &[(String, String)]) -> String {
    let [(first, value), rest @ ..] = all else {
        return String::new();
    };
    if first.is_empty() && rest.is_empty() {
        return value.clone();
    }
    if rest.iter().all(|(_, other)| other == value) {
        return format!("{value} ({})", names(all));
    }
    let each: Vec<String> = all
        .iter()
        .take(NAMED_MAX)
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    each.join(", ")
        + &if more == 0 {
            String::new()
        } else {
            format!(" and {more} more")
        }
}

/// All names if they are short, else the first name and the number of others.
fn names(all: &[(String, String)]) -> String {
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    match (names.join(" "), names.as_slice()) {
        (joined, _) if joined.len() <= NAMES_CHARS_MAX => joined,
        (_, [first, rest @ ..]) => format!("{first} and {} more", rest.len()),
        (joined, []) => joined,
    }
}

fn row(layer: &Layer, check: &Check, verdict: CheckVerdict, value: String, name: &str) -> CheckRow {
    let next_step = (verdict != CheckVerdict::Pass).then(|| {
        let step = check
            .next_step
            .replace("{name}", if name.is_empty() { "it" } else { name });
        step.replace("{value}", &value)
    });
    CheckRow {
        id: check.id.clone(),
        layer: layer.layer.clone(),
        title: check.title.clone(),
        verdict,
        value,
        expected: check
            .expected
            .clone()
            .unwrap_or_else(|| check.must.to_string()),
        why: check.why.clone(),
        next_step,
        severity: check.severity,
        prevents: check.prevents.clone(),
    }
}
