//! `tcpxctl handshake`: does every connection come up, and what does each step cost?
#![forbid(unsafe_code)]

use super::Common;
use super::nodes::{Nodes, upload};
use super::output::{Columns, complain, print, print_json, refuse_scenario};
use super::signals::interrupted;
use super::which::Which;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use tcpx_coord::{ONE_NODE_PAIR, PairOutcome, RunOutcome, RunRequest, Work, run};
use tcpx_run_model::event::EventKind;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::results::{ConnectionTimes, Held, Preflight};
use tcpx_run_model::scenario::{Scenario, resolve};
use tcpx_run_model::state::WorkerState;
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Connections, 1 to 1024.
    #[arg(short = 'n', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Connect and close this often.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    #[command(flatten)]
    which: Which,
    /// Override a scenario key, such as limits.connect=60s; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Do not look at the nodes first.
    #[arg(long)]
    no_preflight: bool,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    outcome: Outcome,
    reason: Option<&'a str>,
    connections: u32,
    rounds: [&'a [Vec<ConnectionTimes>]; 2],
    held: Vec<Kept>,
}

/// What one end's process held before the first round and after the last.
#[derive(Serialize)]
struct Kept {
    node: String,
    before: Held,
    after: Held,
}

fn kept(pair: &PairRun) -> Vec<Kept> {
    let of = |worker: &WorkerState| {
        let (before, after) = worker.held?;
        Some(Kept {
            node: pair.run.state.name(worker.id),
            before,
            after,
        })
    };
    pair.ends().into_iter().flatten().filter_map(of).collect()
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let connections = format!("transfer.connections={}", arguments.connections);
    let scenario = match pair_scenario(
        common,
        &arguments.set,
        &arguments.which,
        "handshake",
        &[connections],
    ) {
        Ok(scenario) => scenario,
        Err(code) => return code,
    };
    let work = Work::Handshake {
        repeat: arguments.repeat,
    };
    let pair = match pair(
        common,
        &arguments.nodes,
        &scenario,
        work,
        !arguments.no_preflight,
    ) {
        Ok(pair) => pair,
        Err(code) => return code,
    };
    if common.json {
        print_json(&Document {
            schema: "tcpxctl.handshake/1",
            outcome: pair.outcome().outcome,
            reason: pair.outcome().reason.as_deref(),
            connections: arguments.connections,
            rounds: pair.ends().map(|end| {
                end.map(|worker| worker.handshakes.as_slice())
                    .unwrap_or_default()
            }),
            held: kept(&pair),
        });
    } else {
        print(&text(&pair));
    }
    conclude(common, &pair)
}

/// Defaults under the given name, with the command's own keys laid over them and
/// the user's flags over those.
pub(crate) fn pair_scenario(
    common: &Common,
    set: &[String],
    which: &Which,
    name: &str,
    own: &[String],
) -> Result<Scenario, ExitCode> {
    let all: Vec<String> = own.iter().chain(set).cloned().collect();
    let points = super::run::inputs(None, &all, which)
        .and_then(|inputs| resolve(&inputs))
        .map_err(|error| refuse_scenario(common, &error))?;
    let mut scenario = points
        .into_iter()
        .next()
        .map(|point| point.scenario)
        .unwrap_or_default();
    scenario.name = name.to_owned();
    Ok(scenario)
}

/// A run of one pair, over.
pub(crate) struct PairRun {
    pub(crate) run: RunOutcome,
}

impl PairRun {
    /// How it ended.
    pub(crate) fn outcome(&self) -> &PairOutcome {
        self.run.decisive()
    }

    /// Both workers, as far as they came.
    pub(crate) fn ends(&self) -> [Option<&WorkerState>; 2] {
        self.run.state.ends(self.outcome().id)
    }
}

/// Runs a pair that leaves no run folder.
pub(crate) fn pair(
    common: &Common,
    nodes: &Nodes,
    scenario: &Scenario,
    work: Work,
    preflight: bool,
) -> Result<PairRun, ExitCode> {
    let ways = nodes.ways(common)?;
    let interrupted = interrupted(common)?;
    let run_id = format!("{}-{}", tcpx_words::units::stamp_utc(), scenario.slug());
    let request = RunRequest {
        scenario,
        work,
        run_id: &run_id,
        interrupted: &interrupted,
        ways: &ways,
        node_pairs: ONE_NODE_PAIR,
        bootstrap_port: nodes.bootstrap_port(),
        preflight,
        closely: None,
    };
    let run = run(&request, &mut |event, _| {
        if let EventKind::Upload { to, sent, all } = &event.kind {
            upload(to, *sent, *all);
        }
    });
    Ok(PairRun { run })
}

/// Says why it did not pass, and with which code the command ends.
pub(crate) fn conclude(common: &Common, pair: &PairRun) -> ExitCode {
    let outcome = pair.outcome();
    if let Some(reason) = &outcome.reason {
        complain(common, reason, outcome.next_step.clone());
    }
    ExitCode::from(outcome.outcome.exit_code())
}

/// What was looked at before the plugin was loaded.
pub(crate) fn preflight_line(found: &Preflight) -> String {
    let named = |ids: &[String], what: &str| match ids {
        [] => String::new(),
        ids => format!(", {} {what} ({})", ids.len(), ids.join(" ")),
    };
    let rest = named(&found.failed, "failed") + &named(&found.open, "not known");
    format!(
        "#       preflight : {} critical checks passed{rest} in {:.1} ms\n",
        found.passed, found.ms
    )
}

/// Which plugin each end used.
pub(crate) fn plugin_lines(pair: &PairRun) -> String {
    let line = |(node, worker): (NodeId, Option<&WorkerState>)| {
        let name = pair.run.state.names.node(node);
        let Some(ready) = worker.and_then(|worker| worker.plugin.as_ref()) else {
            return format!("# {name:<5} plugin not ready\n");
        };
        let plugin = &ready.plugin;
        let preflight = worker
            .and_then(|worker| worker.preflight.as_ref())
            .map(preflight_line)
            .unwrap_or_default();
        format!(
            "# {name:<5} {} v{}, {} ({})\n{preflight}",
            plugin.name, plugin.abi, plugin.path, plugin.why
        )
    };
    pair.outcome()
        .nodes
        .into_iter()
        .zip(pair.ends())
        .map(line)
        .collect()
}

fn text(pair: &PairRun) -> String {
    let mut text = plugin_lines(pair);
    let mut columns = Columns::new(&[
        "round",
        "node",
        "conn",
        "nic",
        "listen(ms)",
        "bootstrap",
        "connect",
        "accept",
        "retries",
        "sockets",
        "peer",
    ]);
    let ms = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    for worker in pair.ends().into_iter().flatten() {
        let name = pair.run.state.name(worker.id);
        for (round, rows) in worker.handshakes.iter().enumerate() {
            for row in rows {
                columns.row([
                    round.to_string(),
                    name.clone(),
                    row.index.to_string(),
                    row.nic.clone(),
                    ms(row.listen_ms),
                    ms(Some(row.bootstrap_ms)),
                    ms(row.connect_ms),
                    ms(row.accept_ms),
                    row.retries.to_string(),
                    row.flows.len().to_string(),
                    row.flows
                        .first()
                        .map_or("-".into(), |(_, peer)| peer.to_string()),
                ]);
            }
        }
    }
    text.push_str(&columns.render());
    for Kept {
        node,
        before,
        after,
    } in kept(pair)
    {
        text.push_str(&format!(
            "# {node:<5} held {} descriptors and {} threads before, {} and {} after\n",
            before.descriptors, before.threads, after.descriptors, after.threads
        ));
    }
    text.push_str(&format!("# Outcome : {}\n", pair.outcome().outcome));
    text
}
