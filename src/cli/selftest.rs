//! `tcpxctl selftest`: a plugin against what every ncclNet plugin owes, and what
//! TCPX adds. Each row runs in a worker of its own, so a crash costs one row.
#![forbid(unsafe_code)]

use super::Common;
use super::nodes::Nodes;
use super::output::{Columns, complain, print, print_json};
use super::which::Which;
use crate::contract;
use crate::coord::message::{FromWorker, Task};
use crate::coord::{Node, Problem, environment};
use crate::error::Outcome;
use crate::plugin::Choice;
use crate::scenario::Side;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Print the rows and run none.
    #[arg(long)]
    list: bool,
    /// Run only rows whose name contains this.
    #[arg(value_name = "ROW")]
    only: Option<String>,
    /// Longest that one row may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    plugin: &'a Choice,
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    promise: &'static str,
    tcpx_only: bool,
}

impl From<&crate::contract::Row> for Listed {
    fn from(row: &crate::contract::Row) -> Self {
        Self { id: row.id, promise: row.promise, tcpx_only: row.tcpx_only }
    }
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    verdict: String,
    detail: String,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let rows: Vec<_> = contract::rows()
        .filter(|row| arguments.only.as_ref().is_none_or(|only| row.id.contains(only.as_str())))
        .collect();
    if arguments.list && common.json {
        let listed: Vec<Listed> = rows.iter().map(|row| Listed::from(*row)).collect();
        print_json(&listed);
        return ExitCode::SUCCESS;
    }
    if arguments.list {
        let mut columns = Columns::new(&["row", "owed by", "promise"]);
        for row in rows {
            columns.row([row.id.into(), if row.tcpx_only { "tcpx" } else { "all" }.into(), row.promise.into()]);
        }
        print(&columns.render());
        return ExitCode::SUCCESS;
    }
    if rows.is_empty() {
        let only = arguments.only.as_deref().unwrap_or_default();
        complain(common, format!("no row has `{only}` in its name"), Some("see `tcpxctl selftest --list`".into()));
        return ExitCode::from(Outcome::Usage.exit_code());
    }
    let scenario = match super::handshake::pair_scenario(
        common,
        &[],
        &arguments.which,
        "selftest",
        &["transfer.memory=\"device\"".into(), "topology.gpus={ stand_ins = 1 }".into()],
    ) {
        Ok(scenario) => scenario,
        Err(code) => return code,
    };
    let node = match arguments.nodes.last(common, &scenario.plugin) {
        Ok(node) => node,
        Err(code) => return code,
    };
    let choice = match &node.plugin {
        Ok(choice) => choice.clone(),
        Err(no) => {
            complain(common, &no.why, no.next_step.clone());
            return ExitCode::from(Outcome::NotRun.exit_code());
        }
    };
    let env = environment(&scenario, &node.facts, Side::Send, &choice, None);
    // A plugin that does not load at all is one error, not one per row.
    if let Err(problem) = load(&node, &choice, &env, Duration::from_secs(arguments.timeout)) {
        complain(common, &problem.message, problem.next_step);
        return ExitCode::from(problem.outcome.exit_code());
    }
    let mut results = Vec::new();
    for row in rows {
        let task = Task::Contract { plugin: choice.clone(), row: row.id.into() };
        let asked = node.ask(task, &env, Duration::from_secs(arguments.timeout), |message| match message {
            FromWorker::Contract(row) => Some(row),
            _ => None,
        });
        let (verdict, detail) = match asked {
            Ok(answer) => (answer.verdict, answer.detail),
            Err(problem) if problem.outcome == Outcome::PluginDied => ("CRASHED".into(), problem.message),
            Err(problem) if problem.outcome == Outcome::PeerLost => {
                complain(common, &problem.message, problem.next_step);
                return ExitCode::from(problem.outcome.exit_code());
            }
            Err(problem) => ("FAIL".into(), problem.message),
        };
        results.push(Row { id: row.id, verdict, detail });
    }
    if common.json {
        print_json(&Document { schema: "tcpxctl.selftest/1", plugin: &choice, rows: &results });
    } else {
        print(&text(&choice, &results));
    }
    let failed = results.iter().any(|row| row.verdict == "FAIL" || row.verdict == "CRASHED");
    ExitCode::from(if failed { Outcome::Failed.exit_code() } else { 0 })
}

fn load(node: &Node, choice: &Choice, env: &BTreeMap<String, String>, patience: Duration) -> Result<(), Problem> {
    node.ask(Task::Probe { plugin: choice.clone() }, env, patience, |message| match message {
        FromWorker::Loaded(_) => Some(()),
        _ => None,
    })
}

fn text(choice: &Choice, rows: &[Row]) -> String {
    let mut columns = Columns::new(&["verdict", "row", "detail"]);
    for row in rows {
        columns.row([row.verdict.clone(), row.id.into(), row.detail.clone()]);
    }
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "# Plugin : {} ({})\n{}# {} passed, {} failed, {} crashed, {} not supported\n",
        choice.source,
        choice.why,
        columns.render(),
        count("PASS"),
        count("FAIL"),
        count("CRASHED"),
        count("NOT SUPPORTED"),
    )
}
