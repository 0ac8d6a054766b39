//! Environment variables that a worker reads, and the resolution of a scenario's plugin.
#![forbid(unsafe_code)]

use tcpx_node::plugin_files::{self, ChosenPlugin, LoadError};
use tcpx_run_model::scenario::{PluginChoice, PluginLibrary};

/// The GPU that a worker uses instead of the scenario's: set by the user, or by an agent that
/// shows its worker one GPU only.
pub(crate) const GPU: &str = "TCPXCTL_GPU";
/// CUDA's list of the GPUs that a process has, which it numbers from 0.
pub(crate) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// The kind of device memory that the software plugin accepts: `standin` or `device`.
pub(crate) const SOFT_CUDA: &str = "TCPXSOFT_CUDA";
/// Whether the software plugin bounds what the kernel queues, on few CPUs: `auto` or `kernel`.
pub(crate) const SOFT_SEND_BUFFER: &str = "TCPXSOFT_SEND_BUFFER";

/// Resolves a scenario's plugin to a file on this node.
///
/// # Errors
/// No file of that name is a plugin.
pub fn choose(wanted: &PluginChoice) -> Result<ChosenPlugin, LoadError> {
    let exe = std::env::current_exe().unwrap_or_default();
    let choice = match &wanted.library {
        PluginLibrary::Name(name) => {
            plugin_files::choose(name, |name| std::env::var(name).ok(), &exe)?
        }
        PluginLibrary::Path(path) => ChosenPlugin::of_file(path.into()),
    };
    Ok(ChosenPlugin {
        abi: wanted.abi,
        ..choice
    })
}
