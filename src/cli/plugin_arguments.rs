//! `--plugin` and `--abi`, the two flags of every command that loads a plugin.
#![forbid(unsafe_code)]

use clap::Args;
use std::path::Path;
use tcpx_run_model::scenario::Inputs;
use tcpx_words::abi_version::AbiVersion;

#[derive(Args, Default)]
pub(crate) struct PluginArguments {
    /// Plugin: auto, soft, builtin, a path, or a name X for libnccl-net-X.so.
    #[arg(long, value_name = "PLUGIN")]
    pub(crate) plugin: Option<String>,
    #[arg(long, value_name = "VERSION", help = format!("Use this version of the plugin's table ({}) instead of the newest", AbiVersion::RANGE))]
    pub(crate) abi: Option<AbiVersion>,
}

impl PluginArguments {
    /// Adds both flags to the inputs that a scenario is resolved from.
    pub(crate) fn add_to(&self, inputs: &mut Inputs) {
        if let Some(plugin) = &self.plugin {
            // A file in the current folder needs no `./`.
            let is_path =
                plugin.contains('/') || plugin.ends_with(".so") || Path::new(plugin).is_file();
            let key = if is_path { "path" } else { "name" };
            let value = serde_json::Value::String(plugin.clone());
            inputs
                .flags
                .push(("--plugin".to_owned(), format!("plugin.{key}={value}")));
        }
        if let Some(version) = self.abi {
            inputs
                .flags
                .push(("--abi".to_owned(), format!("plugin.abi=\"{version}\"")));
        }
    }
}
