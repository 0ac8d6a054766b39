//! A run of one pair of workers that leaves no run folder: what `handshake` and `mr` share.
#![forbid(unsafe_code)]

use super::failure::{Ended, Ending, Failure};
use super::nodes::{Nodes, upload};
use super::plugin_arguments::PluginArguments;
use super::scenario::first_point;
use super::signals::interrupted;
use std::collections::BTreeMap;
use tcpx_coord::{OnFailure, PairOutcome, RunOutcome, RunRequest, Work, one_pair, run};
use tcpx_run_model::event::EventKind;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::results::Preflight;
use tcpx_run_model::scenario::{Scenario, ScenarioError};
use tcpx_run_model::state::WorkerState;

/// The default scenario under `name`, with the command's own keys laid over it and the user's
/// `--set` over those.
pub(crate) fn pair_scenario(
    set: &[String],
    plugin: &PluginArguments,
    name: &str,
    own: &[String],
) -> Result<Scenario, ScenarioError> {
    let all: Vec<String> = own.iter().chain(set).cloned().collect();
    let mut scenario = first_point(None, &all, plugin)?;
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

/// Runs a pair to its end.
pub(crate) fn run_pair(
    nodes: &Nodes,
    scenario: &Scenario,
    work: Work,
    preflight: bool,
) -> Result<PairRun, Failure> {
    let transports = nodes.transports()?;
    let interrupted = interrupted()?;
    let run_id = format!("{}-{}", tcpx_words::units::stamp_utc(), scenario.slug());
    let request = RunRequest {
        scenario,
        work,
        run_id: &run_id,
        interrupted: &interrupted,
        transports: &transports,
        rounds: &one_pair(),
        on_failure: OnFailure::StopAll,
        missing_max: 0,
        retest: None,
        topology: &BTreeMap::new(),
        bootstrap_port: nodes.bootstrap_port(),
        preflight,
        focused: None,
    };
    let run = run(&request, &mut |event, _| {
        if let EventKind::Upload { to, sent, all } = &event.kind {
            upload(to, *sent, *all);
        }
    });
    Ok(PairRun { run })
}

impl PairRun {
    /// The command's end, once the result is printed.
    pub(crate) fn ended(&self) -> Ended {
        let PairOutcome {
            outcome,
            reason,
            next_step,
            ..
        } = self.outcome();
        match reason {
            None => Ok(Ending::from(*outcome)),
            Some(reason) => Err(Failure::new(*outcome, reason)
                .with_next_step(next_step.clone())
                .in_result()),
        }
    }
}

/// The checks made before the plugin was loaded.
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

/// The plugin of each end.
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
