//! From a command's flags and environment to the scenario that it runs.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::plugin_arguments::PluginArguments;
use std::path::PathBuf;
use tcpx_run_model::scenario::{Inputs, Resolved, Scenario, ScenarioError, resolve};
use tcpx_words::error::Outcome;

/// Every point of the scenario: one, or each combination of a sweep.
pub(crate) fn points(
    scenario: Option<PathBuf>,
    set: &[String],
    plugin: &PluginArguments,
) -> Result<Vec<Resolved>, ScenarioError> {
    let mut inputs = Inputs::from_environment(|name| std::env::var_os(name))?;
    inputs.scenario = scenario;
    for setting in set {
        inputs.set(setting);
    }
    plugin.add_to(&mut inputs);
    resolve(&inputs)
}

/// The first point, for commands that run no sweep.
pub(crate) fn first_point(
    scenario: Option<PathBuf>,
    set: &[String],
    plugin: &PluginArguments,
) -> Result<Scenario, ScenarioError> {
    let first = points(scenario, set, plugin)?.into_iter().next();
    Ok(first.map(|point| point.scenario).unwrap_or_default())
}

/// A fault that cannot be injected has a scenario that cannot be run.
pub(crate) fn must_be_runnable(scenario: &Scenario) -> Result<(), Failure> {
    let Some(name) = scenario.evidence_only() else {
        return Ok(());
    };
    let message = "this fault cannot be injected; only its recorded evidence can be judged";
    let next = format!("judge the evidence with `tcpxctl rehearse {name}`");
    Err(Failure::new(Outcome::Usage, message).next(next))
}
