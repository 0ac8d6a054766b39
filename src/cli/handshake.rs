//! `tcpxctl handshake`: connects and closes every channel, and times each step.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::Ended;
use super::nodes::Nodes;
use super::output::{Columns, print, print_json};
pub(crate) use super::pair::preflight_line;
use super::pair::{PairRun, pair_scenario, plugin_lines, run_pair};
use super::plugin_arguments::PluginArguments;
use clap::Args;
use serde::Serialize;
use tcpx_coord::Work;
use tcpx_run_model::results::{ConnectionTimes, Held};
use tcpx_run_model::state::WorkerState;
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of connections, 1 to 1024.
    #[arg(short = 'n', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Number of times to connect and close.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    #[command(flatten)]
    plugin: PluginArguments,
    /// Override a scenario key, such as limits.connect=60s; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Skip the critical checks of both nodes.
    #[arg(long)]
    no_preflight: bool,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HandshakeDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "super::schemas::OutcomeWord"))]
    outcome: Outcome,
    reason: Option<&'a str>,
    connections: u32,
    #[cfg_attr(test, schemars(with = "[Vec<Vec<super::schemas::Object>>; 2]"))]
    rounds: [&'a [Vec<ConnectionTimes>]; 2],
    held: Vec<Kept>,
}

/// Descriptors and threads of one worker before the first round and after the last.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Kept {
    node: String,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
    before: Held,
    #[cfg_attr(test, schemars(with = "super::schemas::Object"))]
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

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let connections = format!("transfer.connections={}", arguments.connections);
    let scenario = pair_scenario(
        &arguments.set,
        &arguments.plugin,
        "handshake",
        &[connections],
    )?;
    let work = Work::Handshake {
        repeat: arguments.repeat,
    };
    let pair = run_pair(&arguments.nodes, &scenario, work, !arguments.no_preflight)?;
    if common.json {
        print_json(&HandshakeDocument {
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
    pair.ended()
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
