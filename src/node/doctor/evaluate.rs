//! Evaluates checks: facts to rows. Pure, so that a captured node, a remote node and this
//! node are judged alike.
//!
//! If any element breaks the condition, the check fails. Otherwise, if any element is
//! unknown, the check is UNKNOWN. It passes only if every element is known and good. A
//! check without elements is UNKNOWN, too: without rails, "no rail is down" is no news.
#![forbid(unsafe_code)]

use super::catalogue::Catalogue;
use super::check::{Check, Layer};
use super::facts::DoctorFacts;
use super::pair::{self, ProbedRails};
use super::path::FactAtPath;
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
pub fn examine(catalogue: &Catalogue, facts: &DoctorFacts, subject: Subject) -> Examination {
    judge(catalogue, false, &view::document(facts, subject), None)
}

/// Checks two nodes together: where they differ, and the results of probing the rails
/// between them.
pub fn examine_pair(
    catalogue: &Catalogue,
    here: &DoctorFacts,
    there: &DoctorFacts,
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

/// How the value of a check begins that was not made because one fails that it needs.
pub const NOT_CHECKED: &str = "not checked: ";

fn judge(catalogue: &Catalogue, both: bool, here: &Value, there: Option<&Value>) -> Examination {
    let mut ended: BTreeMap<&str, CheckVerdict> = BTreeMap::new();
    let mut rows = Vec::new();
    for (layer, check) in catalogue.checks() {
        if layer.both != both || !applies(check, here) {
            continue;
        }
        // A check that was left out for this node does not block the checks that need it.
        let is_open = |id: &String| {
            let why = match ended.get(id.as_str())? {
                CheckVerdict::Fail => "fails",
                CheckVerdict::Unknown => "is unknown",
                _ => return None,
            };
            Some(format!("{NOT_CHECKED}{id} {why}"))
        };
        let result = match check.needs.iter().find_map(is_open) {
            Some(value) => CheckResult {
                verdict: CheckVerdict::Unknown,
                value,
                element: String::new(),
            },
            None => evaluate(check, here, there),
        };
        ended.insert(&check.id, result.verdict);
        rows.push(row(layer, check, result));
    }
    Examination { rows }
}

/// Whether the fact of `when` is known and not false, or the check has no `when`.
fn applies(check: &Check, document: &Value) -> bool {
    let Some(when) = &check.when else {
        return true;
    };
    when.find(document)
        .iter()
        .any(|fact| matches!(fact.value, Ok(value) if *value != Value::Bool(false)))
}

/// The result of one check.
struct CheckResult {
    verdict: CheckVerdict,
    /// The value in words.
    value: String,
    /// Name of the first element that decided.
    element: String,
}

/// How one fact meets the condition of a check.
enum FactResult {
    Good,
    /// The name of the element, and the value in words.
    Broken(String, String),
    /// The name of the element, and the reason.
    Unknown(String, String),
}

fn evaluate(check: &Check, here: &Value, there: Option<&Value>) -> CheckResult {
    let facts = check.reads.find(here);
    let peers_facts = match there {
        Some(there) if check.must.is_about_both() => check.reads.find(there),
        _ => Vec::new(),
    };
    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for fact in &facts {
        let peers = peers_facts.iter().find(|one| one.element == fact.element);
        match evaluate_fact(check, fact, peers) {
            FactResult::Good => {}
            FactResult::Broken(element, value) => broken.push((element, value)),
            FactResult::Unknown(element, why) => unknown.push((element, why)),
        }
    }
    let (verdict, deciding) = if !broken.is_empty() && check.severity.fails() {
        (CheckVerdict::Fail, broken)
    } else if !broken.is_empty() {
        (CheckVerdict::Warn, broken)
    } else if !unknown.is_empty() {
        (CheckVerdict::Unknown, unknown)
    } else if facts.is_empty() {
        let nothing = (String::new(), "nothing to check".to_owned());
        (CheckVerdict::Unknown, vec![nothing])
    } else {
        let good = facts.iter().map(|fact| shown(check, fact, None)).collect();
        (CheckVerdict::Pass, good)
    };
    CheckResult {
        verdict,
        value: together(&deciding),
        element: deciding.into_iter().next().unwrap_or_default().0,
    }
}

fn evaluate_fact(
    check: &Check,
    fact: &FactAtPath<'_>,
    peers: Option<&FactAtPath<'_>>,
) -> FactResult {
    let value = match &fact.value {
        Ok(value) => value,
        Err(_) => {
            let (element, why) = shown(check, fact, None);
            return if check.must.fails_unknown() {
                FactResult::Broken(element, why)
            } else {
                FactResult::Unknown(element, why)
            };
        }
    };
    let peers = match peers.map(|peers| &peers.value) {
        Some(Ok(value)) => Some(*value),
        Some(Err(why)) => {
            return FactResult::Unknown(fact.element.clone(), format!("on the peer: {why}"));
        }
        None if check.must.is_about_both() => {
            return FactResult::Unknown(fact.element.clone(), "not on the peer".to_owned());
        }
        None => None,
    };
    if check.must.holds(value, peers) {
        return FactResult::Good;
    }
    let (element, value) = shown(check, fact, peers);
    FactResult::Broken(element, value)
}

/// The name of an element and its value in words, with the peer's value if the two were
/// compared.
fn shown(check: &Check, fact: &FactAtPath<'_>, there: Option<&Value>) -> (String, String) {
    let words = |value: &Value| match (value.as_u64(), &check.must) {
        (Some(bytes), _) if check.reads.is_in_bytes() => {
            tcpx_words::units::ByteCount(bytes).about()
        }
        (_, Must::Contains(part)) if value.is_array() && check.must.holds(value, None) => {
            part.clone()
        }
        _ => plain(value),
    };
    let here = match &fact.value {
        Ok(value) => words(value),
        Err(why) => why.clone(),
    };
    let text = there.map_or(here.clone(), |there| {
        format!("{here} here, {} there", words(there))
    });
    (
        fact.element.clone(),
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

fn row(layer: &Layer, check: &Check, result: CheckResult) -> CheckRow {
    let CheckResult {
        verdict,
        value,
        element,
    } = result;
    let next_step = (verdict != CheckVerdict::Pass).then(|| {
        let name = if element.is_empty() { "it" } else { &element };
        let step = check.next_step.replace("{name}", name);
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
