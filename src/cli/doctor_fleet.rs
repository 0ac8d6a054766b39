//! `tcpxctl doctor --fleet HOSTS`: the checks of every node, and only what fails or differs.
//!
//! ```console
//! $ tcpxctl doctor --fleet 'a3-[0-15]'
//! # tcpxctl 0.1.0  doctor of 16 nodes
//! #
//! FAIL  rail-mtu  2 of 16 nodes, a3-[3,7]: eth3 1460 (must be: 8244)
//! ```
//!
//! At most 32 nodes are asked at once. A node that cannot be reached is told, and the others are
//! checked. The exit code is 1 if a check of any node fails, and 3 if none fails and a node is
//! missing or one that could fail is UNKNOWN.
#![forbid(unsafe_code)]

use super::Common;
use super::doctor_table::{Paint, Section, wrapped};
use super::failure::{Ended, Ending, Failure};
use super::mesh::{missing_lines, without_name};
use super::nodes::{Nodes, node_at};
use super::output::{print, print_json, stdout_colors};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tcpx_coord::reach::Transport;
use tcpx_coord::{Examine, Task, WorkerMessage};
use tcpx_fleet::node_list;
use tcpx_node::doctor::{
    Catalogue, CheckRow, CheckVerdict, Examination, NOT_CHECKED, Scope, Subject, examine,
};
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::error::Outcome;
use tcpx_words::units::printable;

/// Most nodes that are logged in to at once.
const AT_ONCE: usize = 32;
/// Time limit for a node to read its facts.
const NODE_PATIENCE: Duration = Duration::from_secs(20);
/// Of a check that passes with different values: most groups of nodes that are told. With more,
/// the value is one of each machine's own.
const GROUPS_MAX: usize = 4;

/// What is checked on every node.
pub(super) struct FleetCheck<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) subject: Subject,
    pub(super) scope: Scope<'a>,
}

/// The document of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FleetDocument<'a> {
    schema: &'static str,
    exit_code: u8,
    nodes: &'a [Section],
    missing: &'a [MissingOfFleet],
}

/// A node that could not be checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MissingOfFleet {
    node: String,
    reason: String,
}

/// Checks every node of a list.
pub(super) fn fleet(common: &Common, nodes: &Nodes, hosts: &str, check: &FleetCheck<'_>) -> Ended {
    let transports = nodes.transports_of(hosts)?;
    let found = ask_all(&transports, check);
    let (mut sections, mut missing) = (Vec::new(), Vec::new());
    for (transport, found) in transports.iter().zip(found) {
        let node = printable(transport.node());
        match found {
            Ok(checks) => sections.push(Section { node, checks }),
            Err(failure) => {
                let reason = without_name(failure.message(), &node).to_owned();
                missing.push(MissingOfFleet { node, reason });
            }
        }
    }
    let exit_code = exit_code(&sections, !missing.is_empty());
    match common.json {
        true => print_json(&FleetDocument {
            schema: "tcpxctl.doctor-fleet/1",
            exit_code,
            nodes: &sections,
            missing: &missing,
        }),
        false => print(&text(&sections, &missing, Paint(stdout_colors(common)))),
    }
    Ok(Ending::code(exit_code))
}

/// The checks of each node, in the order of the transports.
fn ask_all(
    transports: &[Box<dyn Transport>],
    check: &FleetCheck<'_>,
) -> Vec<Result<Vec<CheckRow>, Failure>> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..transports.len().min(AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(transport) = transports.get(at) else {
                        return;
                    };
                    let answer = ask(&**transport, check);
                    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.insert(at, answer);
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.into_values().collect()
}

fn ask(transport: &dyn Transport, check: &FleetCheck<'_>) -> Result<Vec<CheckRow>, Failure> {
    // The doctor looks at the plugin files itself, so the node need not choose a plugin.
    let node = node_at(transport, &PluginChoice::named("builtin"))?;
    let task = Examine {
        tcpx: check.subject.tcpx,
        plugin: check.scope.plugin.map(Path::to_path_buf),
        offer: None,
    };
    let found = node.ask(
        Task::Examine(Box::new(task)),
        check.scope.environment,
        NODE_PATIENCE,
        |message| match message {
            WorkerMessage::Examined(found) => Some(*found),
            _ => None,
        },
    )?;
    Ok(examine(check.catalogue, &found.facts, check.subject).rows)
}

fn exit_code(sections: &[Section], is_incomplete: bool) -> u8 {
    let rows = sections.iter().flat_map(|section| section.checks.clone());
    let rows: Vec<CheckRow> = rows.collect();
    match (Examination { rows }.exit_code(), is_incomplete) {
        (0, true) => Outcome::NotRun.exit_code(),
        (code, _) => code,
    }
}

/// The nodes with one result of a check.
struct Group<'a> {
    row: &'a CheckRow,
    nodes: Vec<&'a str>,
}

impl Group<'_> {
    /// Why the check was not made.
    fn was_left_out(&self) -> Option<&str> {
        self.row.value.strip_prefix(NOT_CHECKED)
    }
}

/// The results of each check that fails or differs, in the catalogue's order.
fn told(sections: &[Section]) -> Vec<Vec<Group<'_>>> {
    let mut order: Vec<&str> = Vec::new();
    let mut checks: BTreeMap<&str, Vec<Group<'_>>> = BTreeMap::new();
    for section in sections {
        for row in &section.checks {
            let groups = checks.entry(&row.id).or_insert_with(|| {
                order.push(&row.id);
                Vec::new()
            });
            let is_same = |group: &&mut Group<'_>| {
                group.row.verdict == row.verdict && group.row.value == row.value
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.nodes.push(&section.node),
                None => groups.push(Group {
                    row,
                    nodes: vec![&section.node],
                }),
            }
        }
    }
    let mut told = Vec::new();
    for id in order {
        let mut groups = checks.remove(id).unwrap_or_default();
        let fails = groups
            .iter()
            .any(|group| group.row.verdict != CheckVerdict::Pass);
        if fails || (2..=GROUPS_MAX).contains(&groups.len()) {
            groups
                .sort_by_key(|group| (group.row.verdict == CheckVerdict::Pass, group.nodes.len()));
            told.push(groups);
        }
    }
    told
}

fn text(sections: &[Section], missing: &[MissingOfFleet], paint: Paint) -> String {
    let all = sections.len() + missing.len();
    let mut text = format!(
        "# tcpxctl {}  doctor of {all} nodes\n",
        env!("CARGO_PKG_VERSION")
    );
    let missing = missing
        .iter()
        .map(|one| (one.node.clone(), one.reason.clone()));
    text.push_str(&missing_lines(missing));
    text.push_str("#\n");
    let told = told(sections);
    let width = told
        .iter()
        .map(|groups| groups[0].row.id.len())
        .max()
        .unwrap_or(0);
    for groups in &told {
        let passes = groups
            .iter()
            .filter(|group| group.row.verdict == CheckVerdict::Pass);
        let passing: usize = passes.map(|group| group.nodes.len()).sum();
        let fails = passing < sections.len();
        for group in groups {
            // Of a check that fails somewhere, those that pass need no values.
            if fails && group.row.verdict == CheckVerdict::Pass || group.was_left_out().is_some() {
                continue;
            }
            text.push_str(&line(group, sections.len(), width, paint));
        }
        let made = groups.iter().find(|group| group.was_left_out().is_none());
        let Some(first) = made.map(|group| group.row) else {
            continue;
        };
        let next = first.next_step.as_deref().unwrap_or_default();
        if first.verdict != CheckVerdict::Pass {
            for (word, what) in [("why", first.why.as_str()), ("do", next)] {
                if !what.is_empty() {
                    text.push_str(&wrapped(&format!("             {word:<7}  "), INDENT, what));
                }
            }
        }
    }
    text.push_str(&left_out(&told, sections.len(), paint));
    let same: BTreeSet<&str> = sections
        .iter()
        .flat_map(|section| section.checks.iter().map(|row| row.id.as_str()))
        .collect();
    let rest = same.len() - told.len();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "#\n# {rest} of {} checks pass on all {} nodes",
        same.len(),
        sections.len()
    );
    text
}

/// The checks that were not made, together for each reason and its nodes.
fn left_out(told: &[Vec<Group<'_>>], all: usize, paint: Paint) -> String {
    let mut by_reason: BTreeMap<(&str, &[&str]), Vec<&str>> = BTreeMap::new();
    for group in told.iter().flatten() {
        if let Some(why) = group.was_left_out() {
            let ids = by_reason.entry((why, &group.nodes)).or_default();
            ids.push(&group.row.id);
        }
    }
    let mut text = String::new();
    for ((why, nodes), ids) in by_reason {
        let head = format!(
            "  {}  {}: {} not checked, because {why}: ",
            paint.verdict(CheckVerdict::Unknown),
            which_nodes(nodes, all),
            ids.len()
        );
        text.push_str(&wrapped(&head, INDENT, &ids.join(" ")));
    }
    text
}

fn which_nodes(nodes: &[&str], all: usize) -> String {
    match nodes.len() {
        count if count == all => "all nodes".to_owned(),
        count => format!("{count} of {all} nodes, {}", node_list::fold(nodes)),
    }
}

const INDENT: &str = "                      ";

/// `FAIL  rail-mtu  2 of 16 nodes, a3-[3,7]: eth3 1460 (must be: 8244)`
fn line(group: &Group<'_>, all: usize, width: usize, paint: Paint) -> String {
    let Group { row, nodes } = group;
    let which = which_nodes(nodes, all);
    let expected = match row.verdict {
        CheckVerdict::Fail | CheckVerdict::Warn if row.expected != "none" => {
            format!(" (must be: {})", row.expected)
        }
        _ => String::new(),
    };
    let verdict = paint.verdict(row.verdict);
    format!(
        "  {verdict}  {:<width$}  {which}: {}{expected}\n",
        row.id, row.value
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, verdict: CheckVerdict, value: &str) -> CheckRow {
        let text = serde_json::json!({
            "id": id, "layer": "nic", "title": "t", "verdict": verdict, "value": value,
            "expected": "8244", "why": "frames are cut", "next_step": "set the MTU",
            "severity": "critical", "prevents": "",
        });
        serde_json::from_value(text).expect("a row")
    }

    #[test]
    fn only_what_fails_or_differs_is_told_with_the_nodes_that_it_is_of() {
        let section = |node: usize| {
            let is_bad = [3, 7].contains(&node);
            let mtu = match is_bad {
                true => row("rail-mtu", CheckVerdict::Fail, "eth3 1460"),
                false => row("rail-mtu", CheckVerdict::Pass, "8244"),
            };
            let kernel = if node == 5 { "6.1" } else { "6.6" };
            Section {
                node: format!("a3-{node}"),
                checks: vec![
                    mtu,
                    row("kernel", CheckVerdict::Pass, kernel),
                    row("boot", CheckVerdict::Pass, &node.to_string()),
                    row("gpus", CheckVerdict::Pass, "8"),
                    match node {
                        4 => row("driver", CheckVerdict::Fail, "not loaded"),
                        _ => row("driver", CheckVerdict::Pass, "loaded"),
                    },
                    match node {
                        4 => row("peer", CheckVerdict::Unknown, "not checked: driver fails"),
                        _ => row("peer", CheckVerdict::Pass, "all"),
                    },
                ],
            }
        };
        let sections: Vec<Section> = (0..16).map(section).collect();
        let missing = [MissingOfFleet {
            node: "a3-16".to_owned(),
            reason: "no route".to_owned(),
        }];
        let text = text(&sections, &missing, Paint(false));
        for part in [
            "doctor of 17 nodes",
            "# Missing : a3-16: no route",
            "FAIL     rail-mtu  2 of 16 nodes, a3-[3,7]: eth3 1460 (must be: 8244)",
            "PASS     kernel    1 of 16 nodes, a3-5: 6.1",
            "15 of 16 nodes, a3-[0-4,6-15]: 6.6",
            "set the MTU",
            "1 of 16 nodes, a3-4: 1 not checked, because driver fails: peer",
            "# 2 of 6 checks pass on all 16 nodes",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("boot") && !text.contains("gpus"), "{text}");
        assert_eq!(exit_code(&sections, true), 1);
        assert_eq!(exit_code(&sections[..1], true), 3);
        assert_eq!(exit_code(&sections[..1], false), 0);
    }
}
