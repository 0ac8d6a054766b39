//! Plugin files, examined without loading them.
//!
//! `find.rs` resolves `--plugin` to a file, `candidates.rs` lists every file that a program
//! on this node could load as the plugin, `inspect.rs` examines one file.
//!
//! Not here: dlopen. Only a worker does that, in `tcpx-engine`.

mod candidates;
mod error;
mod find;
mod inspect;

pub use candidates::{PluginFile, dynamic_of, must_have_table, plugin_files};
pub use error::LoadError;
pub use find::{
    ChosenPlugin, PassedOver, PluginSource, TCPX_PLACES, TCPX_VARIABLES, choose, library_places,
    named_for_nccl, search_folders, soft_library,
};
pub use inspect::{FileFacts, inspect};
