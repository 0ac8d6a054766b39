//! `tcpxctl handshake`: does every connection come up, and what does each step cost?
#![forbid(unsafe_code)]

use super::Common;
use super::nodes::{Nodes, upload};
use super::output::{Columns, complain, print, print_json, refuse_scenario};
use super::signals::interrupted;
use super::which::Which;
use crate::coord::event::What;
use crate::coord::message::{ConnectionTimes, Held, Preflight, Work};
use crate::coord::{End, PairOutcome, RunRequest, run};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use tcpx_run_model::scenario::{Scenario, resolve};
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
    node: &'static str,
    before: Held,
    after: Held,
}

fn kept(pair: &PairOutcome) -> Vec<Kept> {
    let of = |end: End| pair.ends[end as usize].held.map(|(before, after)| Kept { node: end.name(), before, after });
    End::ALL.into_iter().filter_map(of).collect()
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let connections = format!("transfer.connections={}", arguments.connections);
    let scenario = match pair_scenario(common, &arguments.set, &arguments.which, "handshake", &[connections]) {
        Ok(scenario) => scenario,
        Err(code) => return code,
    };
    let work = Work::Handshake { repeat: arguments.repeat };
    let pair = match pair(common, &arguments.nodes, &scenario, work, !arguments.no_preflight) {
        Ok(pair) => pair,
        Err(code) => return code,
    };
    if common.json {
        print_json(&Document {
            schema: "tcpxctl.handshake/1",
            outcome: pair.outcome,
            reason: pair.reason.as_deref(),
            connections: arguments.connections,
            rounds: End::ALL.map(|end| pair.ends[end as usize].handshakes.as_slice()),
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
    let mut scenario = points.into_iter().next().map(|point| point.scenario).unwrap_or_default();
    scenario.name = name.to_owned();
    Ok(scenario)
}

/// Runs a pair that leaves no run folder.
pub(crate) fn pair(
    common: &Common,
    nodes: &Nodes,
    scenario: &Scenario,
    work: Work,
    preflight: bool,
) -> Result<PairOutcome, ExitCode> {
    let ways = nodes.ways(common)?;
    let interrupted = interrupted(common)?;
    let run_id = format!("{}-{}", tcpx_words::units::stamp_utc(), scenario.slug());
    let request = RunRequest {
        scenario,
        work,
        run_id: &run_id,
        interrupted: &interrupted,
        ways: &ways,
        bootstrap_port: nodes.bootstrap_port(),
        preflight,
        closely: None,
    };
    let mut pairs = run(&request, &mut |event| {
        if let What::Upload { to, sent, all } = &event.what {
            upload(to, *sent, *all);
        }
    });
    // Only transfers come in several pairs.
    Ok(pairs.swap_remove(0))
}

/// Says why it did not pass, and with which code the command ends.
pub(crate) fn conclude(common: &Common, pair: &PairOutcome) -> ExitCode {
    if let Some(reason) = &pair.reason {
        complain(common, reason, pair.next_step.clone());
    }
    ExitCode::from(pair.outcome.exit_code())
}

/// What was looked at before the plugin was loaded.
pub(crate) fn preflight_line(found: &Preflight) -> String {
    let named = |ids: &[String], what: &str| match ids {
        [] => String::new(),
        ids => format!(", {} {what} ({})", ids.len(), ids.join(" ")),
    };
    let rest = named(&found.failed, "failed") + &named(&found.open, "not known");
    format!("#       preflight : {} critical checks passed{rest} in {:.1} ms\n", found.passed, found.ms)
}

/// Which plugin each end used.
pub(crate) fn plugin_lines(pair: &PairOutcome) -> String {
    End::ALL
        .iter()
        .map(|end| match &pair.ends[*end as usize].loaded {
            Some(loaded) => {
                let preflight = pair.ends[*end as usize].preflight.as_ref().map(preflight_line).unwrap_or_default();
                format!(
                    "# {:<5} {} v{}, {} ({})\n{preflight}",
                    end.name(),
                    loaded.about.name,
                    loaded.about.abi,
                    loaded.choice.source,
                    loaded.choice.why
                )
            }
            None => format!("# {:<5} plugin not ready\n", end.name()),
        })
        .collect()
}

fn text(pair: &PairOutcome) -> String {
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
    for end in End::ALL {
        for (round, rows) in pair.ends[end as usize].handshakes.iter().enumerate() {
            for row in rows {
                columns.row([
                    round.to_string(),
                    end.name().into(),
                    row.index.to_string(),
                    row.nic.clone(),
                    ms(row.listen_ms),
                    ms(Some(row.bootstrap_ms)),
                    ms(row.connect_ms),
                    ms(row.accept_ms),
                    row.retries.to_string(),
                    row.flows.len().to_string(),
                    row.flows.first().map_or("-".into(), |(_, peer)| peer.to_string()),
                ]);
            }
        }
    }
    text.push_str(&columns.render());
    for Kept { node, before, after } in kept(pair) {
        text.push_str(&format!(
            "# {node:<5} held {} descriptors and {} threads before, {} and {} after\n",
            before.descriptors, before.threads, after.descriptors, after.threads
        ));
    }
    text.push_str(&format!("# Outcome : {}\n", pair.outcome));
    text
}
