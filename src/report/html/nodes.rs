//! Both nodes beside each other: what they are, what they were given, what was checked.
#![forbid(unsafe_code)]

use super::page::{Page, Row};
use crate::report::story::{Node, Story};
use std::collections::BTreeMap;

/// Checks that hold are counted, and shown when asked for.
const PASS: &str = "PASS";

pub(super) fn nodes(page: &mut Page, story: &Story) {
    page.section("nodes", "Nodes");
    if story.nodes.is_empty() {
        page.tag("p", "Nothing was recorded of them.");
    }
    differences(page, story);
    fingerprint(page, story);
    settings(page, story);
    checks(page, story);
}

fn differences(page: &mut Page, story: &Story) {
    if story.nodes.len() != 2 {
        return;
    }
    page.tag("h3", "What differs between the two");
    if story.differences.is_empty() {
        return page.tag("p", "Nothing of what was compared.");
    }
    let row = |one: &crate::report::story::Difference| [one.what.clone(), one.local.clone(), one.peer.clone()].into();
    let rows: Vec<Row> = story.differences.iter().map(row).collect();
    page.table("nodes", &["", &story.nodes[0].name, &story.nodes[1].name], &rows);
}

fn fingerprint(page: &mut Page, story: &Story) {
    let mut columns = vec![""];
    columns.extend(story.nodes.iter().map(|node| node.name.as_str()));
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&Node) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(story.nodes.iter().map(of));
        rows.push(Row { cells, marked: false });
    };
    row("host", &|node| node.host.clone());
    row("reached as", &|node| if node.address.is_empty() { "-".into() } else { node.address.clone() });
    row("role", &|node| node.role.clone());
    let plugin = |of: fn(&tcpx_run_model::record::PluginRecord) -> String| {
        move |node: &Node| node.plugin.as_ref().map_or("-".to_owned(), of)
    };
    row("plugin", &plugin(|plugin| format!("{} (ncclNet v{})", plugin.name, plugin.abi)));
    row("plugin version", &plugin(|plugin| plugin.version.clone().unwrap_or_else(|| "not logged".into())));
    row("plugin file", &plugin(|plugin| plugin.path.clone()));
    row("plugin sha256", &plugin(|plugin| plugin.sha256.clone()));
    row("why this one", &plugin(|plugin| plugin.why.clone()));
    row("clock, ahead of the coordinator's", &|node| {
        node.clock
            .map_or("-".to_owned(), |clock| format!("{} µs (round trip {} µs)", clock.offset_us, clock.round_trip_us))
    });
    row("last words", &|node| node.last_words.join("; "));
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in story.nodes.iter().flat_map(|node| &node.facts) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        row(name, &|node| node.facts.iter().find(|fact| fact.0 == name).map_or("-".to_owned(), |fact| fact.1.clone()));
    }
    page.tag("h3", "Fingerprint");
    page.table("nodes", &columns, &rows);
}

fn settings(page: &mut Page, story: &Story) {
    page.tag("h3", "Settings: what the plugin says it took, and what it was given");
    if story.settings.is_empty() {
        return page.tag("p", "The plugin logged none, and the environment holds none.");
    }
    let row = |one: &crate::report::story::Setting| Row {
        cells: vec![one.key.clone(), together(&one.effective), together(&one.environment)],
        marked: one.differs,
    };
    let rows: Vec<Row> = story.settings.iter().map(row).collect();
    page.table("", &["setting", "effective, as logged", "environment"], &rows);
}

/// One value where all agree, else each with its node.
pub(in crate::report) fn together(values: &BTreeMap<String, String>) -> String {
    let distinct: std::collections::BTreeSet<&String> = values.values().collect();
    match (distinct.len(), values.len()) {
        (0, _) => "-".to_owned(),
        (1, 2..) => distinct.into_iter().next().cloned().unwrap_or_default(),
        _ => values.iter().map(|(node, value)| format!("{node}: {value}")).collect::<Vec<_>>().join("; "),
    }
}

fn checks(page: &mut Page, story: &Story) {
    page.tag("h3", "Doctor");
    if story.checks.is_empty() {
        return page.tag("p", "The nodes were not examined.");
    }
    let row = |check: &crate::report::story::Check| {
        let step = check.next_step.clone().unwrap_or_default();
        Row::from([check.node.clone(), check.verdict.clone(), check.id.clone(), check.value.clone(), step])
    };
    let columns = ["node", "verdict", "check", "seen", "next"];
    let (passed, others): (Vec<_>, Vec<_>) = story.checks.iter().partition(|check| check.verdict == PASS);
    if !others.is_empty() {
        page.table("", &columns, &others.into_iter().map(row).collect::<Vec<_>>());
    }
    page.folded(&format!("{} rows that passed", passed.len()), false, |page| {
        page.table("", &columns, &passed.into_iter().map(row).collect::<Vec<_>>());
    });
}
