//! Files that could be a plugin, told without loading them.
//!
//! `find.rs` decides which file a name means, `candidates.rs` lists every file that
//! a program on this node could take for the plugin, `inspect.rs` reads one.
//!
//! Not here: dlopen. Only a worker does that, in `tcpx-engine`.

mod candidates;
mod error;
mod find;
mod inspect;

pub use candidates::{PluginFile, dynamic_of, must_have_table, plugin_files};
pub use error::LoadError;
pub use find::{
    Choice, PassedOver, Source, TCPX_PLACES, TCPX_VARIABLES, choose, library_places,
    search_folders, soft_library,
};
pub use inspect::{FileFacts, inspect};
