//! Environment variables that a worker is told things by, and a plugin's name told
//! from what a scenario calls it.
#![forbid(unsafe_code)]

use tcpx_node::plugin_files::{self, Choice, LoadError};
use tcpx_run_model::scenario::{PluginChoice, PluginLibrary};

/// Which GPU a worker takes, when it is not the scenario's first: set by the agent
/// that starts a worker for one GPU only, and by people.
pub(crate) const GPU: &str = "TCPXCTL_GPU";
/// Whether the software plugin takes device memory, and which.
pub(crate) const SOFT_CUDA: &str = "TCPXSOFT_CUDA";

/// What a scenario's plugin means on this node.
///
/// # Errors
/// No file of that name is a plugin.
pub fn choose(wanted: &PluginChoice) -> Result<Choice, LoadError> {
    let exe = std::env::current_exe().unwrap_or_default();
    let choice = match &wanted.library {
        PluginLibrary::Name(name) => {
            plugin_files::choose(name, |name| std::env::var(name).ok(), &exe)?
        }
        PluginLibrary::Path(path) => Choice::of_file(path.into()),
    };
    Ok(Choice {
        abi: wanted.abi,
        ..choice
    })
}
