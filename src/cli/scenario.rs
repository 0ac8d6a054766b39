//! From a command's flags and environment to the scenario that it runs.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::output::say;
use super::plugin_arguments::PluginArguments;
use clap::Args;
use std::path::PathBuf;
use tcpx_run_model::scenario::{Inputs, Resolved, Scenario, ScenarioError, resolve};
use tcpx_words::error::Outcome;

/// Settings from the environment that the user already has.
#[derive(Args)]
pub(crate) struct EnvironmentArguments {
    /// Take settings from a shell script or env file, without running it: NCCL, TCPXSOFT and CUDA
    /// variables as [env], UCCL_TCPX variables as the keys that mean the same; may be repeated.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Take the variables of this environment that match, such as 'NCCL_*', for both ends; may be repeated.
    #[arg(long, value_name = "PATTERN")]
    forward_env: Vec<String>,
}

impl EnvironmentArguments {
    /// The inputs from this environment and from these flags. Says what was not taken.
    pub(crate) fn inputs(&self) -> Result<Inputs, ScenarioError> {
        let mut inputs = Inputs::from_environment(|name| std::env::var_os(name))?;
        for path in &self.env_file {
            inputs
                .imported
                .add_file(path, |name| std::env::var(name).ok())?;
        }
        for pattern in &self.forward_env {
            let all = std::env::vars_os();
            let all = all.filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            });
            inputs.imported.add_matching(pattern, all)?;
        }
        for note in &inputs.imported.notes {
            say(&format!("# Note : {note}\n"));
        }
        Ok(inputs)
    }
}

/// Every point of the scenario: one, or each combination of a sweep.
pub(crate) fn points(
    mut inputs: Inputs,
    set: &[String],
    plugin: &PluginArguments,
) -> Result<Vec<Resolved>, ScenarioError> {
    add_flags(&mut inputs, set, plugin);
    resolve(&inputs)
}

/// Adds the settings of a command's flags.
pub(crate) fn add_flags(inputs: &mut Inputs, set: &[String], plugin: &PluginArguments) {
    set.iter().for_each(|setting| inputs.set(setting));
    plugin.add_to(inputs);
}

/// The points of a scenario, with the flags and the variables of tcpxctl only.
pub(crate) fn points_of(
    scenario: Option<PathBuf>,
    set: &[String],
    plugin: &PluginArguments,
) -> Result<Vec<Resolved>, ScenarioError> {
    let mut inputs = Inputs::from_environment(|name| std::env::var_os(name))?;
    inputs.scenario = scenario;
    points(inputs, set, plugin)
}

/// The first point, for commands that run no sweep.
pub(crate) fn first_point(
    scenario: Option<PathBuf>,
    set: &[String],
    plugin: &PluginArguments,
) -> Result<Scenario, ScenarioError> {
    let first = points_of(scenario, set, plugin)?.into_iter().next();
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
