//! `tcpxctl selftest`: runs the plugin conformance suite, which checks the contract of every
//! ncclNet plugin and the additions of TCPX. Each row runs in a separate worker, so a crash costs
//! one row.
//!
//! ```text
//! $ tcpxctl selftest --plugin plainsoft --abi v12
//! # Plugin : /usr/local/lib/tcpxctl/libnccl_net_plainsoft.so (requested)
//! # Table : PlainSoft from ncclNetPlugin_v12 (exports ncclNetPlugin_v12 ... ncclNetPlugin_v4)
//! #  verdict        row                 detail
//!    PASS           table-v12           PlainSoft, 1 device
//!    PASS           slots-receives      32 accepted, all completed; the next one: rc 0 with a null request
//!    PASS           group-by-tag        8 messages sent in reverse order, each in the buffer of its tag
//! ```
//!
//! With `--endpoint`, runs the suite of Python endpoints instead (`endpoint`).
#![forbid(unsafe_code)]

mod endpoint;
mod tables;
mod words;

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::nodes::Nodes;
use super::output::{Columns, print, print_json};
use super::pair::pair_scenario;
use super::plugin_arguments::PluginArguments;
use super::signals::interrupted;
use clap::Args;
#[cfg(test)]
pub(super) use endpoint::EndpointDocument;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tables::Tables;
use tcpx_coord::{Loaded, Task, WorkerMessage};
use tcpx_coord::{TaskError, TaskNode, environment};
use tcpx_engine::contract::{self, ContractVerdict};
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_report::{check_writable, write_whole};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plugin: PluginArguments,
    /// Run the suite of Python endpoints on a class with the calls of `uccl.p2p`, such as tcpxctl.p2p.
    #[arg(long, value_name = "MODULE[:CLASS]", conflicts_with_all = ["plugin", "abi"])]
    endpoint: Option<String>,
    /// Python interpreter of `--endpoint`, on both nodes.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "python3",
        requires = "endpoint"
    )]
    python: String,
    /// List the rows, and run none.
    #[arg(long)]
    list: bool,
    /// Run only rows whose name contains ROW.
    #[arg(value_name = "ROW")]
    only: Option<String>,
    /// Time limit of one row, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Also write the rows to FILE as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SelftestDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    plugin: &'a ChosenPlugin,
    /// Name and version of the table in use; null if no table could be used.
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Object>"))]
    table: Option<&'a tcpx_engine::plugin::About>,
    exports: &'a [String],
    rows: &'a [Row],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SelftestRowsDocument {
    schema: &'static str,
    rows: Vec<ListedRow>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedRow {
    id: &'static str,
    /// What holds when the row passes.
    promise: &'static str,
    /// The row is run for TCPX plugins only.
    tcpx_only: bool,
}

impl From<&tcpx_engine::contract::ContractCheck> for ListedRow {
    fn from(row: &tcpx_engine::contract::ContractCheck) -> Self {
        Self {
            id: row.id,
            promise: row.promise,
            tcpx_only: row.tcpx_only,
        }
    }
}

/// The result of one row.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    id: String,
    /// What the plugin must do.
    promise: &'static str,
    /// Whether only TCPX must do it.
    tcpx_only: bool,
    #[cfg_attr(test, schemars(with = "String"))]
    verdict: ContractVerdict,
    detail: String,
    seconds: f64,
}

impl Row {
    /// A row that applies to every plugin.
    fn new(
        id: String,
        promise: &'static str,
        (verdict, detail): (ContractVerdict, String),
        seconds: f64,
    ) -> Self {
        Self {
            id,
            promise,
            tcpx_only: false,
            verdict,
            detail,
            seconds,
        }
    }

    /// Whether the row applies to TCPX only and this plugin is not TCPX.
    fn is_inapplicable(&self) -> bool {
        self.tcpx_only && self.verdict == ContractVerdict::NotSupported
    }
}

/// The node and plugin that rows run on.
struct Bench<'a> {
    node: &'a TaskNode,
    choice: ChosenPlugin,
    env: BTreeMap<String, String>,
    patience: Duration,
}

impl Bench<'_> {
    /// Loads and initialises the plugin, with another table version if one is given.
    fn load(&self, version: Option<AbiVersion>) -> Result<Loaded, TaskError> {
        self.load_within(version, self.patience)
    }

    fn load_within(
        &self,
        version: Option<AbiVersion>,
        patience: Duration,
    ) -> Result<Loaded, TaskError> {
        let plugin = ChosenPlugin {
            abi: version.or(self.choice.abi),
            ..self.choice.clone()
        };
        let task = Task::Probe { plugin };
        self.node
            .ask(task, &self.env, patience, |message| match message {
                WorkerMessage::Loaded(loaded) => Some(*loaded),
                _ => None,
            })
    }

    /// Verdict and detail of a row.
    ///
    /// # Errors
    /// No other row can run: the node is lost, or the user interrupted.
    fn row(&self, id: &str) -> Result<(ContractVerdict, String), TaskError> {
        let task = Task::Contract {
            plugin: self.choice.clone(),
            row: id.into(),
        };
        let asked = self
            .node
            .ask(task, &self.env, self.patience, |message| match message {
                WorkerMessage::Contract(row) => Some(row),
                _ => None,
            });
        match asked {
            Ok(answer) => Ok((answer.verdict, answer.detail)),
            Err(problem) if matches!(problem.outcome, Outcome::PeerLost | Outcome::Interrupted) => {
                Err(problem)
            }
            Err(error) => Ok(words::verdict_of_error(&error)),
        }
    }
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let rows: Vec<_> = contract::rows()
        .filter(|row| arguments.wants(row.id))
        .collect();
    let is_any = match arguments.endpoint {
        Some(_) => endpoint::rows().any(|(id, _)| arguments.wants(id)),
        None => !rows.is_empty() || arguments.wants_tables(),
    };
    if !is_any {
        let only = arguments.only.as_deref().unwrap_or_default();
        let message = format!("no row has `{only}` in its name");
        return Err(Failure::new(Outcome::Usage, message).next("see `tcpxctl selftest --list`"));
    }
    if arguments.list {
        list(common, arguments);
        return Ok(Ending::PASSED);
    }
    if let Some(endpoint) = &arguments.endpoint {
        return endpoint::main(common, arguments, endpoint);
    }
    let own = [
        "transfer.memory=\"device\"".to_owned(),
        "topology.gpus={ stand_ins = 1 }".to_owned(),
    ];
    let scenario = pair_scenario(&[], &arguments.plugin, "selftest", &own)?;
    let mut node = arguments.nodes.last(&scenario.plugin)?;
    node.until(interrupted()?);
    let choice = node.plugin.clone()?;
    // A file that cannot be written is reported before the first row runs, not after the last.
    let junit = match &arguments.junit {
        Some(path) => Some(JunitFile::create(path)?),
        None => None,
    };
    let env = environment(&scenario, &node.facts, Side::Send, &choice, None);
    let mut bench = Bench {
        node: &node,
        choice: choice.clone(),
        env,
        patience: Duration::from_secs(arguments.timeout),
    };
    let (loaded, mut results) = look_at_tables(&mut bench, arguments)?;
    let width = rows
        .iter()
        .map(|row| row.id.len())
        .chain(results.iter().map(|row| row.id.len()))
        .max()
        .unwrap_or(0);
    let tell = |row: &Row| {
        if !common.json && !row.is_inapplicable() {
            print(&words::line(row, width));
        }
    };
    if !common.json {
        print(&words::head(&choice, loaded.as_ref(), width));
    }
    results.iter().for_each(tell);
    run_rows(&bench, rows, loaded.is_some(), &mut results, &tell)?;
    if common.json {
        print_json(&SelftestDocument {
            schema: "tcpxctl.selftest/1",
            plugin: &choice,
            table: loaded.as_ref().map(|loaded| &loaded.about),
            exports: loaded.as_ref().map_or(&[], |loaded| &loaded.exports),
            rows: &results,
        });
    } else {
        print(&words::sums(&results));
    }
    if let Some(junit) = junit {
        junit.write(&words::junit(&choice.source.to_string(), &results))?;
    }
    Ok(Ending::from(outcome_of(&results)))
}

fn outcome_of(rows: &[Row]) -> Outcome {
    let any = |verdict: ContractVerdict| rows.iter().any(|row| row.verdict == verdict);
    match any(ContractVerdict::Fail) || any(ContractVerdict::Crashed) {
        _ if any(ContractVerdict::Interrupted) => Outcome::Interrupted,
        true => Outcome::Failed,
        false => Outcome::Passed,
    }
}

/// The file of `--junit`, whose folder can be written.
struct JunitFile<'a>(&'a Path);

impl<'a> JunitFile<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
        check_writable(path)?;
        Ok(Self(path))
    }

    /// Follows the result document.
    fn write(self, text: &str) -> Result<(), Failure> {
        let written = write_whole(self.0, |to| to.write_all(text.as_bytes()));
        written.map_err(|error| Failure::from(error).in_result())
    }
}

/// Runs the rows in order until the user interrupts, and calls `tell` after each row.
fn run_rows(
    bench: &Bench<'_>,
    rows: Vec<&contract::ContractCheck>,
    usable: bool,
    results: &mut Vec<Row>,
    tell: &impl Fn(&Row),
) -> Result<(), TaskError> {
    for row in rows {
        if results
            .last()
            .is_some_and(|last| last.verdict == ContractVerdict::Interrupted)
        {
            return Ok(());
        }
        let started = Instant::now();
        let result = match if usable {
            bench.row(row.id)
        } else {
            Ok(words::no_table())
        } {
            Err(problem) if problem.outcome == Outcome::Interrupted => words::interrupted(),
            found => found?,
        };
        let finished = Row::new(
            row.id.into(),
            row.promise,
            result,
            started.elapsed().as_secs_f64(),
        );
        let finished = Row {
            tcpx_only: row.tcpx_only,
            ..finished
        };
        tell(&finished);
        results.push(finished);
    }
    Ok(())
}

impl Arguments {
    fn wants(&self, id: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| id.contains(only.as_str()))
    }

    /// Whether rows about the library as a whole are wanted.
    fn wants_tables(&self) -> bool {
        let known = AbiVersion::ALL
            .iter()
            .any(|version| self.wants(&tables::id(*version)));
        known || self.wants(tables::AGREE)
    }
}

/// The table that rows run on, and the rows about all tables. A plugin that does not load is one
/// error, not one error per row.
fn look_at_tables(
    bench: &mut Bench<'_>,
    arguments: &Arguments,
) -> Result<(Option<Loaded>, Vec<Row>), TaskError> {
    let started = Instant::now();
    let chosen = bench.load(None);
    if chosen.is_ok() && !arguments.wants_tables() {
        return Ok((chosen.ok(), Vec::new()));
    }
    // No other table stands for one that was asked for.
    if let (Some(version), Err(problem)) = (bench.choice.abi, &chosen) {
        if !tables::is_at_fault(problem) {
            return Err(problem.clone());
        }
        let row = tables::failed(version, problem, started.elapsed());
        return Ok((None, vec![row]));
    }
    if let Err(problem) = &chosen
        && tables::hangs_in_loading(problem)
    {
        return Err(problem.clone());
    }
    let tables = Tables::load_all(bench, &chosen);
    let wanted = |row: &Row| arguments.wants(&row.id);
    let rows = tables.rows().into_iter();
    let problem = match chosen {
        Ok(loaded) => return Ok((Some(loaded), rows.filter(wanted).collect())),
        Err(problem) => problem,
    };
    if tables.are_out_of_reach(&problem) {
        return Err(problem);
    }
    let next = tables.newest();
    if let Some(loaded) = &next {
        bench.choice.abi = AbiVersion::of_symbol(&loaded.symbol);
        return Ok((next, rows.filter(wanted).collect()));
    }
    // The failed tables are why no other row can run, whatever rows were asked for.
    let rows = rows.filter(|row| words::is_bad(row) || wanted(row));
    Ok((None, rows.collect()))
}

fn list(common: &Common, arguments: &Arguments) {
    let tables = [tables::LISTED, tables::LISTED_AGREE]
        .into_iter()
        .map(|(id, promise)| ListedRow {
            id,
            promise,
            tcpx_only: false,
        });
    let all: Vec<ListedRow> = match arguments.endpoint {
        Some(_) => endpoint::listed().collect(),
        None => tables
            .chain(contract::rows().map(ListedRow::from))
            .collect(),
    };
    let rows = all.into_iter().filter(|row| arguments.wants(row.id));
    if common.json {
        print_json(&SelftestRowsDocument {
            schema: "tcpxctl.selftest-rows/1",
            rows: rows.collect(),
        });
        return;
    }
    let mut columns = Columns::new(&["row", "applies to", "requirement"]);
    for row in rows {
        columns.row([
            row.id.into(),
            if row.tcpx_only { "tcpx" } else { "all" }.into(),
            row.promise.into(),
        ]);
    }
    print(&columns.render());
}
