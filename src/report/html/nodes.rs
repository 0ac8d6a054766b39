//! The nodes side by side: differences, facts, settings and doctor checks.
#![forbid(unsafe_code)]

use crate::page::{HtmlRow, Page};
use crate::spread::{ByNode, NodeTable, fact_names, together};
use crate::story::{Story, StoryNode, StoryState, StoryWorker};
use std::collections::BTreeMap;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::results::PluginRecord;

/// Checks with this verdict are counted, and folded away.
const PASS: &str = "PASS";

pub(super) fn nodes(page: &mut Page, story: &Story) {
    page.section("nodes", "Nodes");
    if story.nodes.is_empty() {
        let none = page
            .language
            .pick("No nodes were recorded.", "没有记录节点。");
        page.tag("p", none);
    }
    differences(page, story);
    if !story.nodes.is_empty() {
        fingerprint(page, story);
    }
    settings(page, story);
    checks(page, story);
}

fn differences(page: &mut Page, story: &Story) {
    if story.nodes.len() < 2 {
        return;
    }
    page.heading("Differences between the nodes");
    if story.differences.is_empty() {
        return page.tag("p", "No differences were found.");
    }
    let mut table = NodeTable::new(story, "");
    story
        .differences
        .iter()
        .for_each(|one| table.row(&one.what, one.words()));
    show(page, table);
}

fn show(page: &mut Page, table: NodeTable) {
    let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
    let rows: Vec<HtmlRow> = table
        .rows
        .into_iter()
        .map(|cells| HtmlRow {
            cells,
            marked: false,
        })
        .collect();
    page.table("nodes", &heads, &rows);
}

fn fingerprint(page: &mut Page, story: &Story) {
    let mut table = NodeTable::new(story, "");
    let mut row = |name: &str, of: &dyn Fn(NodeId, &StoryNode) -> String| {
        let values: Vec<String> = (0..)
            .zip(&story.nodes)
            .map(|(id, node)| of(NodeId(id), node))
            .collect();
        table.row(name, values.iter().map(String::as_str));
    };
    let by_node = ByNode::new(story);
    let workers =
        |id: NodeId, pick: &dyn Fn(&StoryWorker) -> Option<String>| by_node.together(id, pick);
    row("host", &|_, node| node.host.clone());
    row("address", &|_, node| {
        if node.address.is_empty() {
            "-".into()
        } else {
            node.address.clone()
        }
    });
    row("role", &|id, _| {
        workers(id, &|worker| Some(worker.role?.to_string()))
    });
    let plugin = |of: fn(&PluginRecord) -> String| {
        move |id: NodeId, _: &StoryNode| workers(id, &|worker| worker.plugin.as_ref().map(of))
    };
    row(
        "plugin",
        &plugin(|plugin| format!("{} (ncclNet v{})", plugin.name, plugin.abi)),
    );
    row(
        "plugin version",
        &plugin(|plugin| {
            plugin
                .version
                .clone()
                .unwrap_or_else(|| "not logged".into())
        }),
    );
    row("plugin file", &plugin(|plugin| plugin.path.clone()));
    row("plugin sha256", &plugin(|plugin| plugin.sha256.clone()));
    row(
        "plugin chosen because",
        &plugin(|plugin| plugin.why.clone()),
    );
    row("clock, ahead of the coordinator", &|_, node| {
        node.clock.map_or("-".to_owned(), |clock| {
            format!(
                "{} µs (round trip {} µs)",
                clock.offset_us, clock.round_trip_us
            )
        })
    });
    row("last words", &|id, _| by_node.last_words(id).join("; "));
    for name in fact_names(story) {
        let fact = |facts: &[(String, String)]| {
            facts
                .iter()
                .find(|fact| fact.0 == name)
                .map(|fact| fact.1.clone())
        };
        row(name, &|id, node| {
            fact(&node.facts).unwrap_or_else(|| workers(id, &|worker| fact(&worker.facts)))
        });
    }
    page.heading("Fingerprint");
    show(page, table);
}

fn settings(page: &mut Page, story: &Story) {
    page.tag(
        "h3",
        page.language.pick(
            "Settings: values that the plugin logged, and the environment",
            "设置：插件记录的值，以及环境变量",
        ),
    );
    if story.settings.is_empty() {
        let none = match story.state {
            StoryState::Adopted => page.language.pick(
                "Not known: recordings and logs of other programs do not hold their environment. What the plugin logged is in the log below.",
                "未知：其他程序的记录和日志不含它们的环境变量。插件所记录的内容在下面的日志中。",
            ),
            _ => page.language.pick(
                "The plugin logged no settings, and the environment has none.",
                "插件没有记录任何设置，环境变量中也没有。",
            ),
        };
        return page.tag("p", none);
    }
    let row = |one: &crate::story::PluginSetting| {
        let [effective, environment] = both(story, one);
        HtmlRow {
            cells: vec![one.key.clone(), effective, environment],
            marked: one.differs,
        }
    };
    let rows: Vec<HtmlRow> = story.settings.iter().map(row).collect();
    page.table(
        "",
        &["setting", "effective, as logged", "environment"],
        &rows,
    );
}

/// The values of a setting as text: as the plugin logged it, and in the environment.
pub(crate) fn both(story: &Story, setting: &crate::story::PluginSetting) -> [String; 2] {
    let shown = |values: &BTreeMap<String, String>, everyone: usize| {
        together(
            values
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
            everyone,
        )
    };
    [
        shown(&setting.effective, story.workers().count()),
        shown(&setting.environment, story.nodes.len()),
    ]
}

fn checks(page: &mut Page, story: &Story) {
    page.heading("Doctor");
    if story.checks.is_empty() {
        return page.tag(
            "p",
            page.language
                .pick("The nodes were not checked.", "未检查节点。"),
        );
    }
    let row = |check: &crate::story::DoctorCheck| {
        let step = check.next_step.clone().unwrap_or_default();
        HtmlRow::from([
            check.node.clone(),
            check.verdict.clone(),
            check.id.clone(),
            check.value.clone(),
            step,
        ])
    };
    let columns = ["node", "verdict", "check", "value", "next step"];
    let (passed, others): (Vec<_>, Vec<_>) =
        story.checks.iter().partition(|check| check.verdict == PASS);
    if !others.is_empty() {
        page.table(
            "",
            &columns,
            &others.into_iter().map(row).collect::<Vec<_>>(),
        );
    }
    page.folded(&format!("{} checks passed", passed.len()), false, |page| {
        page.table(
            "",
            &columns,
            &passed.into_iter().map(row).collect::<Vec<_>>(),
        );
    });
}
