//! `tcpxctl mr`: registers memory of many sizes and alignments, and prints what the plugin
//! accepts or refuses, how long that takes, and whether deregistering returns everything.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::Ended;
use super::nodes::Nodes;
use super::output::{Columns, print, print_json};
use super::pair::{PairRun, pair_scenario, plugin_lines, run_pair};
use super::plugin_arguments::PluginArguments;
use clap::Args;
use serde::Serialize;
use tcpx_coord::Work;
use tcpx_run_model::results::MrRow;
use tcpx_words::error::Outcome;
use tcpx_words::units::ByteCount;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plugin: PluginArguments,
    /// Override a scenario key, such as limits.connect=60s; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MrDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "super::schemas::OutcomeWord"))]
    outcome: Outcome,
    reason: Option<&'a str>,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Object>"))]
    rows: Vec<&'a MrRow>,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    // One connection each way makes a send comm and a recv comm. Device memory lets a plugin
    // that accepts stand-in memory register it.
    let own = ["transfer.connections=1", "transfer.memory=\"device\""].map(str::to_owned);
    let scenario = pair_scenario(&arguments.set, &arguments.plugin, "mr", &own)?;
    let pair = run_pair(&arguments.nodes, &scenario, Work::Mr, false)?;
    let workers = pair.ends().into_iter().flatten();
    let rows: Vec<&MrRow> = workers
        .filter_map(|worker| worker.registrations.as_ref())
        .flatten()
        .collect();
    if common.json {
        print_json(&MrDocument {
            schema: "tcpxctl.mr/1",
            outcome: pair.outcome().outcome,
            reason: pair.outcome().reason.as_deref(),
            rows,
        });
    } else {
        print(&text(&pair, &rows));
    }
    pair.ended()
}

fn text(pair: &PairRun, rows: &[&MrRow]) -> String {
    let mut columns = Columns::new(&[
        "comm",
        "memory",
        "tried",
        "size",
        "offset",
        "verdict",
        "times",
        "reg p50(us)",
        "p99",
        "dereg p50",
        "p99",
        "said",
    ]);
    let us = |pair: Option<(f64, f64)>| match pair {
        Some((p50, p99)) => (format!("{p50:.2}"), format!("{p99:.2}")),
        None => ("-".into(), "-".into()),
    };
    for row in rows {
        let (reg, reg_p99) = us(row.reg_us);
        let (dereg, dereg_p99) = us(row.dereg_us);
        columns.row([
            row.side.to_string(),
            row.memory.clone(),
            row.what.clone(),
            ByteCount(row.size).to_string(),
            row.offset.to_string(),
            if row.accepted { "accepted" } else { "refused" }.into(),
            row.count.to_string(),
            reg,
            reg_p99,
            dereg,
            dereg_p99,
            row.said.clone(),
        ]);
    }
    let accepted = rows.iter().filter(|row| row.accepted).count();
    format!(
        "{}{}# {accepted} accepted, {} refused\n# Outcome : {}\n",
        plugin_lines(pair),
        columns.render(),
        rows.len() - accepted,
        pair.outcome().outcome
    )
}
